/* database.h - the SQLite connection under the store: opening, versions, statements, errors.
 *
 * Private to store/.  Each kind of row has its own file with its statements (responses.c); all
 * tables belong to one versioned schema, in database.c. */
#ifndef STORE_DATABASE_H
#define STORE_DATABASE_H

#include <stdatomic.h>

#include <sqlite3.h>

#include "store/store.h"

typedef enum {
    STATEMENT_PUT = 0,
    STATEMENT_GET = 1,
    STATEMENT_DELETE = 2,
    STATEMENT_LIST = 3,
    STATEMENT_EXPIRE = 4,
    STATEMENT_TRIM = 5,
    STATEMENT_TOTAL = 6,
    STATEMENT_HAS = 7,
    STATEMENTS = 8,
} statement;

struct store {
    sqlite3 *db;
    sqlite3_stmt *statements[STATEMENTS];
    char *path; /* for messages */
    char *file; /* its path; NULL: in memory */
    uint64_t bytes_max;   /* store_bound() */
    uint32_t days;
    uint32_t n_put;       /* since memory was returned */
    _Atomic uint64_t bytes, responses, expired; /* store_measure() */
};

/* SQLite's last error, as one line about `doing`; returns the cerium_status. */
int database_error(store *s, const char *doing, cerium_error *err);

/* Run a statement without rows, whose values are bound, and reset it. */
CERIUM_CHECKED int database_run(store *s, statement which, const char *doing, cerium_error *err);

/* Statements without values or rows. */
CERIUM_CHECKED int database_exec(store *s, const char *sql, const char *doing, cerium_error *err);

/* A write transaction; its end commits when status is CERIUM_OK and otherwise rolls back. Returns
 * status, or the error of the commit. */
CERIUM_CHECKED int database_begin(store *s, const char *doing, cerium_error *err);
CERIUM_CHECKED int database_end(store *s, int status, const char *doing, cerium_error *err);

/* Reset: no value bound, no lock held. */
void database_reset(sqlite3_stmt *stmt);

/* The file of a new store, with its tables. */
CERIUM_CHECKED int database_open(store *s, cerium_error *err);
/* Compile a statement that runs once, for rows that change rarely; finalize *stmt. */
CERIUM_CHECKED int database_sql(store *s, sqlite3_stmt **stmt, const char *sql, const char *doing,
                                cerium_error *err);
/* Compile sql[STATEMENTS] once; they live until the store is closed. */
CERIUM_CHECKED int database_prepare(store *s, const char *const sql[STATEMENTS],
                                    cerium_error *err);

#endif
