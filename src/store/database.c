/* database.c - opens the database, makes or migrates its tables, and says what went wrong.
 *
 * WAL with synchronous=NORMAL: a commit is in the operating system's hands when it returns, so it
 * survives the death of the process however it dies.  It does not survive the loss of power or of
 * the kernel: then the newest commits may be gone, back to the last checkpoint, but the file is
 * whole.  synchronous=FULL would cost an fsync for each response. */
#include "store/database.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/limits.h"

enum { APPLICATION_ID = 0x43657269 }; /* "Ceri" */

/* The schema's versions: entry i takes a database from version i to i + 1.  Entries never change
 * once released; new tables and columns are new entries. */
static const char *const migrations[] = {
    "CREATE TABLE responses ("
    " tenant INTEGER NOT NULL, id TEXT NOT NULL, previous_id TEXT, created_at INTEGER NOT NULL,"
    " model TEXT, response BLOB NOT NULL, input BLOB NOT NULL, tokens BLOB NOT NULL,"
    " UNIQUE (tenant, id));"
    "CREATE INDEX responses_by_age ON responses (created_at);"
    "CREATE INDEX responses_of_tenant ON responses (tenant, created_at);",
    "ALTER TABLE responses ADD COLUMN instructions INTEGER NOT NULL DEFAULT 0;"
    "ALTER TABLE responses ADD COLUMN n_head INTEGER NOT NULL DEFAULT -1;",
    /* Ids are never used again: what a key left behind is found by no other. */
    "CREATE TABLE keys ("
    " id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT NOT NULL, prefix TEXT NOT NULL UNIQUE,"
    " salt BLOB NOT NULL, hash BLOB NOT NULL, tier TEXT NOT NULL, created_at INTEGER NOT NULL,"
    " revoked_at INTEGER);"
    "CREATE UNIQUE INDEX keys_by_name ON keys (name) WHERE revoked_at IS NULL;"
    "CREATE TABLE changes (what TEXT PRIMARY KEY, n INTEGER NOT NULL) WITHOUT ROWID;"
    "INSERT INTO changes VALUES ('keys', 0);"
    "CREATE TABLE usage ("
    " day INTEGER NOT NULL, tenant INTEGER NOT NULL, model TEXT NOT NULL,"
    " requests INTEGER NOT NULL, input_tokens INTEGER NOT NULL, cached_tokens INTEGER NOT NULL,"
    " output_tokens INTEGER NOT NULL, nanodollars INTEGER NOT NULL,"
    " PRIMARY KEY (day, tenant, model)) WITHOUT ROWID;"
    "CREATE TABLE drained (journal INTEGER PRIMARY KEY, sequence INTEGER NOT NULL);",
};
enum { SCHEMA_VERSION = ARRAY_LEN(migrations) };

int database_error(store *s, const char *doing, cerium_error *err)
{
    const char *advice = "";
    int status = CERIUM_ERR_IO, code = s->db ? sqlite3_extended_errcode(s->db) : SQLITE_NOMEM;
    code = code == SQLITE_IOERR_NOMEM ? SQLITE_NOMEM : code & 0xff;
    const char *what = s->db ? sqlite3_errmsg(s->db) : "out of memory";
    switch (code) {
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
        what = "another process keeps it locked";
        advice = "; try again, or end that process";
        break;
    case SQLITE_FULL:
        what = "the disk is full";
        advice = "; make room, and try again";
        break;
    case SQLITE_READONLY:
    case SQLITE_PERM:
        what = "it is read-only";
        advice = "; make the file and its folder writable";
        break;
    case SQLITE_CANTOPEN: advice = "; see whether the folder is there and may be written"; break;
    case SQLITE_NOTADB:
    case SQLITE_CORRUPT:
        status = CERIUM_ERR_FORMAT;
        advice = "; move it away, or name another file";
        break;
    case SQLITE_TOOBIG: status = CERIUM_ERR_CAPACITY; break;
    case SQLITE_NOMEM: status = CERIUM_ERR_MEMORY; break;
    }
    return error_set(err, status, "%s: cannot %s: %s%s", s->path, doing, what, advice);
}

void database_reset(sqlite3_stmt *stmt)
{
    sqlite3_reset(stmt);
    sqlite3_clear_bindings(stmt);
}

int database_prepare(store *s, const char *const sql[STATEMENTS], cerium_error *err)
{
    for (int i = 0; i < STATEMENTS; i++) {
        CHECK(sql[i] && !s->statements[i]);
        if (sqlite3_prepare_v3(s->db, sql[i], -1, SQLITE_PREPARE_PERSISTENT, &s->statements[i],
                               NULL))
            return database_error(s, "use the tables", err);
    }
    return CERIUM_OK;
}

int database_run(store *s, statement which, const char *doing, cerium_error *err)
{
    int status = CERIUM_OK;
    if (sqlite3_step(s->statements[which]) != SQLITE_DONE) status = database_error(s, doing, err);
    database_reset(s->statements[which]);
    return status;
}

/* The one number or word that a pragma or a query gives. */
static int read_value(store *s, const char *sql, int64_t *number, char *word, int word_cap,
                      cerium_error *err)
{
    sqlite3_stmt *stmt = NULL;
    if (sqlite3_prepare_v2(s->db, sql, -1, &stmt, NULL) || sqlite3_step(stmt) != SQLITE_ROW) {
        int status = database_error(s, "open", err);
        sqlite3_finalize(stmt);
        return status;
    }
    if (number) *number = sqlite3_column_int64(stmt, 0);
    const char *text = word ? (const char *)sqlite3_column_text(stmt, 0) : NULL;
    if (word) snprintf(word, (size_t)word_cap, "%s", text ? text : "");
    sqlite3_finalize(stmt);
    return CERIUM_OK;
}

int database_exec(store *s, const char *sql, const char *doing, cerium_error *err)
{
    return sqlite3_exec(s->db, sql, NULL, NULL, NULL) ? database_error(s, doing, err) : CERIUM_OK;
}

int database_begin(store *s, const char *doing, cerium_error *err)
{
    return database_exec(s, "BEGIN IMMEDIATE", doing, err);
}

int database_end(store *s, int status, const char *doing, cerium_error *err)
{
    if (!status) status = database_exec(s, "COMMIT", doing, err);
    if (status && !sqlite3_get_autocommit(s->db))
        sqlite3_exec(s->db, "ROLLBACK", NULL, NULL, NULL);
    return status;
}

/* Whose file it is, and of which version; an empty one is ours at version 0. */
static int read_version(store *s, int64_t *version, cerium_error *err)
{
    int64_t application = 0, n_tables = 0;
    RETURN_IF(read_value(s, "PRAGMA application_id", &application, NULL, 0, err));
    RETURN_IF(read_value(s, "PRAGMA user_version", version, NULL, 0, err));
    RETURN_IF(read_value(s, "SELECT count(*) FROM sqlite_schema", &n_tables, NULL, 0, err));
    bool fresh = application == 0 && *version == 0 && n_tables == 0;
    if (!fresh && application != APPLICATION_ID)
        return error_set(err, CERIUM_ERR_FORMAT,
                         "%s: a database of another program; name another file", s->path);
    if (*version > SCHEMA_VERSION)
        return error_set(err, CERIUM_ERR_FORMAT,
                         "%s: written by a newer cerium (version %lld, this one knows %d); "
                         "use that one, or name another file",
                         s->path, (long long)*version, SCHEMA_VERSION);
    return CERIUM_OK;
}

/* In one transaction, so that a process that dies or comes at the same time changes nothing. */
static int migrate(store *s, cerium_error *err)
{
    int64_t version = 0;
    RETURN_IF(read_version(s, &version, err));
    if (version == SCHEMA_VERSION) return CERIUM_OK;
    RETURN_IF(database_begin(s, "open", err));
    /* Again, now that nobody else can change it. */
    int status = read_version(s, &version, err);
    for (; !status && version < SCHEMA_VERSION; version++)
        status = database_exec(s, migrations[version], "make the tables", err);
    char sql[96];
    snprintf(sql, sizeof sql, "PRAGMA application_id = %d; PRAGMA user_version = %d",
             APPLICATION_ID, SCHEMA_VERSION);
    if (!status) status = database_exec(s, sql, "make the tables", err);
    return database_end(s, status, "make the tables", err);
}

static int set_up(store *s, cerium_error *err)
{
    char mode[16], sql[64];
    sqlite3_extended_result_codes(s->db, 0);
    sqlite3_busy_timeout(s->db, STORE_BUSY_MS_MAX);
    sqlite3_limit(s->db, SQLITE_LIMIT_LENGTH, STORE_RECORD_BYTES_MAX);
    if (sqlite3_db_readonly(s->db, "main") == 1)
        return error_set(err, CERIUM_ERR_IO, "%s: cannot open: it is read-only; make the file and "
                         "its folder writable", s->path);
    int64_t version;
    RETURN_IF(read_version(s, &version, err)); /* before anything is written to it */
    RETURN_IF(read_value(s, "PRAGMA journal_mode = WAL", NULL, mode, sizeof mode, err));
    if (strcmp(mode, "wal") && strcmp(mode, "memory"))
        return error_set(err, CERIUM_ERR_IO,
                         "%s: this file system cannot share a write-ahead log; name a file on a "
                         "local one", s->path);
    RETURN_IF(database_exec(s, "PRAGMA synchronous = NORMAL", "open", err));
    snprintf(sql, sizeof sql, "PRAGMA cache_size = -%u", STORE_CACHE_BYTES >> 10);
    RETURN_IF(database_exec(s, sql, "open", err));
    snprintf(sql, sizeof sql, "PRAGMA journal_size_limit = %u", STORE_LOG_BYTES);
    RETURN_IF(database_exec(s, sql, "open", err));
    RETURN_IF(migrate(s, err));
    return database_prepare(s, responses_sql, err);
}

/* Only the owner may read what users said.  SQLite gives its log the mode of the database.  By
 * path: closing a descriptor of our own would drop the locks that this process has on the file. */
static int keep_private(const char *path, cerium_error *err)
{
    struct stat st;
    int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd >= 0) close(fd);
    if (fd < 0 && errno != EEXIST)
        return error_set(err, CERIUM_ERR_IO, "%s: cannot create it: %s", path, strerror(errno));
    if (stat(path, &st))
        return error_set(err, CERIUM_ERR_IO, "%s: cannot open: %s", path, strerror(errno));
    if (!S_ISREG(st.st_mode))
        return error_set(err, CERIUM_ERR_IO, "%s: cannot open: not a file", path);
    if ((st.st_mode & 077) && chmod(path, 0600))
        return error_set(err, CERIUM_ERR_IO, "%s: others may read it, and its mode cannot be "
                         "changed: %s", path, strerror(errno));
    return CERIUM_OK;
}

int store_open(store **out, const char *path, cerium_error *err)
{
    CHECK(out && path);
    bool in_memory = strcmp(path, ":memory:") == 0;
    if (!in_memory) RETURN_IF(keep_private(path, err));
    store *s = memory_zalloc(1, sizeof *s);
    if (!s || !(s->path = memory_copy(path, strlen(path)))) {
        memory_free(s);
        return error_set(err, CERIUM_ERR_MEMORY, "%s: out of memory", path);
    }
    int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX;
    int status = sqlite3_open_v2(path, &s->db, flags, NULL) ? database_error(s, "open", err)
                                                            : set_up(s, err);
    if (status) {
        store_close(&s);
        return status;
    }
    *out = s;
    return CERIUM_OK;
}

const char *store_path(const store *s) { return s->path; }

void store_close(store **s)
{
    if (!s || !*s) return;
    for (int i = 0; i < STATEMENTS; i++) sqlite3_finalize((*s)->statements[i]);
    int code = sqlite3_close((*s)->db);
    CHECK(code == SQLITE_OK); /* all statements are finalized */
    memory_free((*s)->path);
    memory_free(*s);
    *s = NULL;
}
