/* database.c - opens the database, makes or migrates its tables, and reports errors.
 *
 * WAL with synchronous=NORMAL: the operating system has a commit when it returns, so it survives
 * any death of the process.  It does not survive the loss of power or of the kernel: then the
 * newest commits may be gone, back to the last checkpoint, but the file is whole. synchronous=FULL
 * would cost an fsync for each response. */
#include "store/database.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/limits.h"
#include "store/owned.h"

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
    /* Ids are never reused, so no new key can see the data of an old one. */
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
    /* Bytes of responses, updated by every insert and delete, so that nothing must be counted. */
    "ALTER TABLE responses ADD COLUMN bytes INTEGER NOT NULL DEFAULT 0;"
    "UPDATE responses SET bytes ="
    " (length(response) + length(input) + length(tokens) + 4607) / 4096 * 4096;"
    "CREATE TABLE totals (n INTEGER NOT NULL, bytes INTEGER NOT NULL);"
    "INSERT INTO totals SELECT count(*), ifnull(sum(bytes), 0) FROM responses;"
    "CREATE TRIGGER response_added AFTER INSERT ON responses BEGIN"
    " UPDATE totals SET n = n + 1, bytes = bytes + NEW.bytes; END;"
    "CREATE TRIGGER response_changed AFTER UPDATE OF bytes ON responses BEGIN"
    " UPDATE totals SET bytes = bytes - OLD.bytes + NEW.bytes; END;"
    "CREATE TRIGGER response_removed AFTER DELETE ON responses BEGIN"
    " UPDATE totals SET n = n - 1, bytes = bytes - OLD.bytes; END;",
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
        advice = "; free some space and try again";
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

int database_sql(store *s, sqlite3_stmt **stmt, const char *sql, const char *doing,
                 cerium_error *err)
{
    return sqlite3_prepare_v2(s->db, sql, -1, stmt, NULL) ? database_error(s, doing, err)
                                                          : CERIUM_OK;
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

/* The single number or word that a pragma or a query returns. */
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

/* The owner and version of the file; an empty one is ours at version 0. */
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
        return error_set(
            err, CERIUM_ERR_FORMAT,
            "%s: written by a newer cerium (version %lld; this one supports up to %d); "
            "use that one, or name another file",
            s->path, (long long)*version, SCHEMA_VERSION);
    return CERIUM_OK;
}

/* In one transaction, so that a process that dies or runs at the same time changes nothing. */
static int migrate(store *s, cerium_error *err)
{
    int64_t version = 0;
    RETURN_IF(read_version(s, &version, err));
    if (version == SCHEMA_VERSION) return CERIUM_OK;
    RETURN_IF(database_begin(s, "open", err));
    /* Check again, now under the lock. */
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
    RETURN_IF(read_version(s, &version, err)); /* before the first write to it */
    /* Into the file itself, not the log: its owner can be read there from now on. */
    snprintf(sql, sizeof sql, "PRAGMA application_id = %d", APPLICATION_ID);
    if (version == 0) RETURN_IF(database_exec(s, sql, "make the tables", err));
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
    return migrate(s, err);
}

/* ---- the file ---- */

static int io_fault(const store *s, const char *what, cerium_error *err)
{
    return error_set(err, CERIUM_ERR_IO, "%s: cannot open: %s", s->path, what);
}

/* A new file: made under this exact name, private to this user, through no link. */
static int make_file(store *s, cerium_error *err)
{
    int fd = open(s->path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return error_set(err, CERIUM_ERR_IO, "%s: cannot create it: %s", s->path, strerror(errno));
    close(fd); /* no lock on it yet */
    return CERIUM_OK;
}

/* Resolve the database's path; a link is followed only to an existing file. Files beside it that
 * SQLite would use must be SQLite's, even before there is a database. */
static int find_file(store *s, cerium_error *err)
{
    char real[PATH_MAX];
    struct stat st;
    bool is_link = !lstat(s->path, &st) && S_ISLNK(st.st_mode), is_new = false;
    if (stat(s->path, &st)) {
        if (errno != ENOENT) return io_fault(s, strerror(errno), err);
        if (is_link) return io_fault(s, "it is a link to nothing", err);
        RETURN_IF(owned_sides(s->path, err));
        RETURN_IF(make_file(s, err));
        is_new = true;
        if (stat(s->path, &st)) return io_fault(s, strerror(errno), err);
    }
    if (!S_ISREG(st.st_mode)) return io_fault(s, "not a file", err);
    if (!realpath(s->path, real)) return io_fault(s, strerror(errno), err);
    if (!is_new) RETURN_IF(owned_sides(real, err));
    if (st.st_nlink > 1)
        return io_fault(s, "it has another name (a hard link), under which its log would be "
                        "missed", err);
    if (st.st_uid != geteuid() && geteuid() != 0)
        return io_fault(s, "it belongs to another user", err);
    /* An empty file becomes a database only if it is the intended one. */
    if (!st.st_size && (is_link || st.st_uid != geteuid()))
        return error_set(err, CERIUM_ERR_FORMAT, "%s: cannot open: an empty file, and %s; name "
                         "another file", s->path, is_link ? "behind a link" : "another user's");
    s->file = memory_copy(real, strlen(real));
    return s->file ? CERIUM_OK : error_set(err, CERIUM_ERR_MEMORY, "%s: out of memory", s->path);
}

/* Identify the file by its first bytes, read through SQLite's own handle: closing our own
 * descriptor would drop the POSIX locks that this process holds on it. Nothing is locked, written
 * or created. */
static int judge_file(store *s, cerium_error *err)
{
    enum {
        MAGIC_BYTES = 16,
        VERSION_AT = 60,
        APPLICATION_AT = 68,
        KIND_AT = 100, /* of the first page; 13 = it has rows, and not other pages */
        CELLS_AT = 103,
        HEAD_BYTES = 108,
    };
    uint8_t h[HEAD_BYTES] = {0};
    sqlite3_file *file = NULL;
    sqlite3_int64 size = 0;
    if (sqlite3_file_control(s->db, "main", SQLITE_FCNTL_FILE_POINTER, &file) || !file ||
        !file->pMethods || file->pMethods->xFileSize(file, &size))
        return io_fault(s, "it cannot be read", err);
    if (size == 0) return CERIUM_OK;
    bool is_database = size >= HEAD_BYTES && !file->pMethods->xRead(file, h, HEAD_BYTES, 0) &&
                       !memcmp(h, "SQLite format 3", MAGIC_BYTES);
    if (!is_database)
        return error_set(err, CERIUM_ERR_FORMAT, "%s: cannot open: it is not a database; move it "
                         "away, or name another file", s->path);
    const uint8_t *a = h + APPLICATION_AT;
    uint32_t application = (uint32_t)a[0] << 24 | (uint32_t)a[1] << 16 | (uint32_t)a[2] << 8 | a[3];
    if (application == APPLICATION_ID) return CERIUM_OK;
    /* Older versions stored their id in the log, where it may still be. */
    if (application == 0 && owned_log_names(s->file, APPLICATION_ID)) return CERIUM_OK;
    static const uint8_t none[4];
    bool is_fresh = application == 0 && !memcmp(h + VERSION_AT, none, 4) && !h[CELLS_AT] &&
                    !h[CELLS_AT + 1] && h[KIND_AT] == 13;
    if (is_fresh) return CERIUM_OK;
    return error_set(err, CERIUM_ERR_FORMAT, "%s: a database of another program; name another file",
                     s->path);
}

/* Only the owner may read users' data. SQLite gives its log the mode of the database. */
static int keep_private(const store *s, cerium_error *err)
{
    struct stat st;
    if (lstat(s->file, &st)) return io_fault(s, strerror(errno), err);
    if (S_ISREG(st.st_mode) && (st.st_mode & 077) && chmod(s->file, 0600))
        return error_set(err, CERIUM_ERR_IO, "%s: others may read it, and its mode cannot be "
                         "changed: %s", s->path, strerror(errno));
    return CERIUM_OK;
}

#ifndef SQLITE_OPEN_NOFOLLOW /* before 3.31 */
#define SQLITE_OPEN_NOFOLLOW 0
#endif

int database_open(store *s, cerium_error *err)
{
    int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX;
    if (strcmp(s->path, ":memory:") == 0)
        return sqlite3_open_v2(s->path, &s->db, flags | SQLITE_OPEN_CREATE, NULL)
                   ? database_error(s, "open", err) : set_up(s, err);
    RETURN_IF(find_file(s, err));
    if (sqlite3_open_v2(s->file, &s->db, flags | SQLITE_OPEN_NOFOLLOW, NULL))
        return database_error(s, "open", err);
    RETURN_IF(judge_file(s, err));
    RETURN_IF(keep_private(s, err));
    return set_up(s, err);
}

const char *store_file(const store *s) { return s->file; }

void store_close(store **s)
{
    if (!s || !*s) return;
    for (int i = 0; i < STATEMENTS; i++) sqlite3_finalize((*s)->statements[i]);
    int code = sqlite3_close((*s)->db);
    CHECK(code == SQLITE_OK); /* all statements are finalized */
    memory_free((*s)->path);
    memory_free((*s)->file);
    memory_free(*s);
    *s = NULL;
}
