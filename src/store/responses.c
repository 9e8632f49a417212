/* responses.c - rows of stored responses: put, get, delete, list, and expire; opens their store.
 *
 * A response counts as whole pages of the file, so the bound also holds for the pages in use: pages
 * of deleted responses are reused, and the file does not grow. */
#include <time.h>

#include "base/limits.h"
#include "store/database.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "tokens are stored in memory order");

#define COLUMNS "id, previous_id, created_at, model, response, input, tokens, instructions, n_head"

static const char *const responses_sql[STATEMENTS] = {
    [STATEMENT_PUT] =
        "INSERT INTO responses (" COLUMNS ", tenant, bytes)"
        " VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)"
        " ON CONFLICT (tenant, id) DO UPDATE SET previous_id = ?2, created_at = ?3, model = ?4,"
        " response = ?5, input = ?6, tokens = ?7, instructions = ?8, n_head = ?9, bytes = ?11",
    [STATEMENT_GET] = "SELECT " COLUMNS " FROM responses WHERE tenant = ?1 AND id = ?2"
                      " AND created_at >= ?3",
    [STATEMENT_DELETE] = "DELETE FROM responses WHERE tenant = ?1 AND id = ?2",
    [STATEMENT_LIST] = "SELECT " COLUMNS " FROM responses WHERE tenant = ?1 AND created_at >= ?3"
                       " ORDER BY created_at DESC, rowid DESC LIMIT ?2",
    [STATEMENT_EXPIRE] = "DELETE FROM responses WHERE rowid IN (SELECT rowid FROM responses"
                         " WHERE created_at < ?1 ORDER BY created_at LIMIT ?2)",
    /* The oldest one, unless it is the only one. */
    [STATEMENT_TRIM] = "DELETE FROM responses WHERE rowid = (SELECT min(rowid) FROM responses)"
                       " AND (SELECT n FROM totals) > 1",
    [STATEMENT_HAS] = "SELECT 1 FROM responses WHERE tenant = ?1 AND id = ?2 AND created_at >= ?3",
    [STATEMENT_TOTAL] = "SELECT n, bytes FROM totals",
};

/* ROW_BYTES: of names and indexes. */
enum { PAGE_BYTES = 4096, ROW_BYTES = 512, BATCH = 64, DAY_S = 86400, PUTS_A_TRIM = 256 };

static int bind_text(sqlite3_stmt *stmt, int at, const char *text)
{
    return text ? sqlite3_bind_text(stmt, at, text, -1, SQLITE_STATIC)
                : sqlite3_bind_null(stmt, at);
}

/* NULL with length 0 would be SQL's NULL. */
static int bind_blob(sqlite3_stmt *stmt, int at, const void *ptr, size_t len)
{
    return sqlite3_bind_blob64(stmt, at, len ? ptr : "", len, SQLITE_STATIC);
}

static int bind_response(sqlite3_stmt *stmt, const store_response *r)
{
    int bad = bind_text(stmt, 1, r->id);
    bad |= bind_text(stmt, 2, r->previous_id);
    bad |= sqlite3_bind_int64(stmt, 3, r->created_at);
    bad |= bind_text(stmt, 4, r->model);
    bad |= bind_blob(stmt, 5, r->response.ptr, r->response.len);
    bad |= bind_blob(stmt, 6, r->input.ptr, r->input.len);
    bad |= bind_blob(stmt, 7, r->tokens, r->n_tokens * sizeof *r->tokens);
    bad |= sqlite3_bind_int64(stmt, 8, (int64_t)r->instructions);
    bad |= sqlite3_bind_int64(stmt, 9, (int64_t)r->n_head);
    bad |= sqlite3_bind_int64(stmt, 10, (int64_t)r->tenant);
    size_t n = r->response.len + r->input.len + r->n_tokens * sizeof *r->tokens + ROW_BYTES;
    return bad | sqlite3_bind_int64(stmt, 11, (int64_t)((n + PAGE_BYTES - 1) / PAGE_BYTES *
                                                        PAGE_BYTES));
}

/* ---- bounds ---- */

void store_bound(store *s, uint64_t bytes_max, uint32_t days)
{
    s->bytes_max = bytes_max;
    s->days = days;
}

store_size store_measure(const store *s)
{
    return (store_size){.bytes = atomic_load(&s->bytes),
                        .responses = atomic_load(&s->responses),
                        .expired = atomic_load(&s->expired)};
}

/* Responses created before this time are expired. */
static int64_t oldest(const store *s, int64_t now)
{
    return s->days ? now - (int64_t)s->days * DAY_S : INT64_MIN;
}

int store_count(store *s, cerium_error *err)
{
    sqlite3_stmt *stmt = s->statements[STATEMENT_TOTAL];
    int status = CERIUM_OK;
    if (sqlite3_step(stmt) == SQLITE_ROW) {
        atomic_store(&s->responses, (uint64_t)sqlite3_column_int64(stmt, 0));
        atomic_store(&s->bytes, (uint64_t)sqlite3_column_int64(stmt, 1));
    } else {
        status = database_error(s, "count responses", err);
    }
    database_reset(stmt);
    return status;
}

/* Delete one batch beyond the bounds, within a transaction; *n: how many. */
static int remove_some(store *s, int64_t now, uint64_t *n, cerium_error *err)
{
    static const char doing[] = "delete old responses";
    *n = 0;
    if (s->days) {
        sqlite3_stmt *stmt = s->statements[STATEMENT_EXPIRE];
        if (sqlite3_bind_int64(stmt, 1, oldest(s, now)) || sqlite3_bind_int64(stmt, 2, BATCH))
            return database_error(s, doing, err);
        RETURN_IF(database_run(s, STATEMENT_EXPIRE, doing, err));
        *n = (uint64_t)sqlite3_changes(s->db);
    }
    RETURN_IF(store_count(s, err));
    while (s->bytes_max && atomic_load(&s->bytes) > s->bytes_max && *n < BATCH) {
        RETURN_IF(database_run(s, STATEMENT_TRIM, doing, err));
        if (!sqlite3_changes(s->db)) break;
        ++*n;
        RETURN_IF(store_count(s, err));
    }
    return CERIUM_OK;
}

int store_expire(store *s, int64_t now, uint64_t *n_deleted, cerium_error *err)
{
    static const char doing[] = "delete old responses";
    CHECK(s && n_deleted);
    *n_deleted = 0;
    for (uint64_t n = BATCH; n >= BATCH;) {
        RETURN_IF(database_begin(s, doing, err));
        int status = remove_some(s, now, &n, err);
        RETURN_IF(database_end(s, status, doing, err));
        atomic_fetch_add(&s->expired, n);
        *n_deleted += n;
    }
    return CERIUM_OK;
}

static int put_row(store *s, const store_response *r, cerium_error *err)
{
    sqlite3_stmt *stmt = s->statements[STATEMENT_PUT];
    if (bind_response(stmt, r)) {
        int status = database_error(s, "store a response", err);
        database_reset(stmt);
        return status;
    }
    return database_run(s, STATEMENT_PUT, "store a response", err);
}

int store_put(store *s, const store_response *r, cerium_error *err)
{
    CHECK(s && r && r->id);
    size_t token_bytes, total;
    bool fits = size_mul(r->n_tokens, sizeof *r->tokens, &token_bytes) &&
                size_add(r->response.len, r->input.len, &total) &&
                size_add(total, token_bytes, &total) && total <= STORE_RESPONSE_BYTES_MAX &&
                strlen(r->id) <= STORE_NAME_BYTES_MAX &&
                (!r->previous_id || strlen(r->previous_id) <= STORE_NAME_BYTES_MAX) &&
                (!r->model || strlen(r->model) <= STORE_NAME_BYTES_MAX);
    if (!fits)
        return error_set(err, CERIUM_ERR_CAPACITY,
                         "%s: a response with its input and tokens may have %u bytes, its names "
                         "%u", s->path, STORE_RESPONSE_BYTES_MAX, STORE_NAME_BYTES_MAX);
    RETURN_IF(database_begin(s, "store a response", err));
    uint64_t n_removed = 0;
    int status = put_row(s, r, err);
    if (!status) status = remove_some(s, r->created_at, &n_removed, err);
    RETURN_IF(database_end(s, status, "store a response", err));
    atomic_fetch_add(&s->expired, n_removed);
    if (++s->n_put % PUTS_A_TRIM == 0) memory_trim();
    return CERIUM_OK;
}

/* The row under the statement; its parts belong to SQLite until the next step.  False: SQLite ran
 * out of memory while returning them. */
static bool read_row(sqlite3_stmt *stmt, uint64_t tenant, store_response *out)
{
    *out = (store_response){
        .id = (const char *)sqlite3_column_text(stmt, 0),
        .previous_id = (const char *)sqlite3_column_text(stmt, 1),
        .tenant = tenant,
        .created_at = sqlite3_column_int64(stmt, 2),
        .model = (const char *)sqlite3_column_text(stmt, 3),
        .response.ptr = sqlite3_column_blob(stmt, 4),
        .input.ptr = sqlite3_column_blob(stmt, 5),
        .tokens = sqlite3_column_blob(stmt, 6),
        .instructions = (uint64_t)sqlite3_column_int64(stmt, 7),
        .n_head = (size_t)sqlite3_column_int64(stmt, 8),
    };
    if (out->n_head > (size_t)sqlite3_column_bytes(stmt, 6) / sizeof *out->tokens)
        out->n_head = SIZE_MAX; /* unknown, or invalid */
    out->response.len = (size_t)sqlite3_column_bytes(stmt, 4);
    out->input.len = (size_t)sqlite3_column_bytes(stmt, 5);
    out->n_tokens = (size_t)sqlite3_column_bytes(stmt, 6) / sizeof *out->tokens;
    /* An empty blob is returned as NULL. */
    return out->id && (out->response.ptr || !out->response.len) &&
           (out->input.ptr || !out->input.len) && (out->tokens || !out->n_tokens) &&
           (out->previous_id || sqlite3_column_type(stmt, 1) == SQLITE_NULL) &&
           (out->model || sqlite3_column_type(stmt, 3) == SQLITE_NULL);
}

/* len bytes and a NUL were reserved. */
static const char *keep(bytes *memory, const void *from, size_t len)
{
    char *to = memory->ptr + memory->len;
    CHECK(len < memory->cap - memory->len);
    if (len) memcpy(to, from, len);
    to[len] = 0;
    memory->len += len + 1;
    return to;
}

static const char *keep_text(bytes *memory, const char *text)
{
    return text ? keep(memory, text, strlen(text)) : NULL;
}

static int copy_row(const store *s, const store_response *row, store_response *out, bytes *memory,
                    cerium_error *err)
{
    size_t token_bytes = row->n_tokens * sizeof *row->tokens;
    size_t total = token_bytes + row->response.len + row->input.len + strlen(row->id) + 6;
    if (row->previous_id) total += strlen(row->previous_id);
    if (row->model) total += strlen(row->model);
    memory->len = 0;
    if (memory->max == 0) memory->max = STORE_RECORD_BYTES_MAX;
    int status = bytes_reserve(memory, total);
    if (status)
        return error_set(err, status, "%s: no space for a response of %zu bytes", s->path, total);
    store_response copy = *row;
    /* First, where the memory is aligned. */
    copy.tokens = (const int32_t *)(const void *)keep(memory, row->tokens, token_bytes);
    copy.response.ptr = keep(memory, row->response.ptr, row->response.len);
    copy.input.ptr = keep(memory, row->input.ptr, row->input.len);
    copy.id = keep_text(memory, row->id);
    copy.previous_id = keep_text(memory, row->previous_id);
    copy.model = keep_text(memory, row->model);
    *out = copy;
    return CERIUM_OK;
}

int store_get(store *s, uint64_t tenant, const char *id, store_response *out, bytes *memory,
              bool *found, cerium_error *err)
{
    CHECK(s && id && out && memory && found);
    static const char doing[] = "read a response";
    sqlite3_stmt *stmt = s->statements[STATEMENT_GET];
    store_response row;
    int status = CERIUM_OK, code = SQLITE_ERROR;
    if (!sqlite3_bind_int64(stmt, 1, (int64_t)tenant) && !bind_text(stmt, 2, id) &&
        !sqlite3_bind_int64(stmt, 3, oldest(s, (int64_t)time(NULL))))
        code = sqlite3_step(stmt);
    if (code == SQLITE_ROW) {
        status = read_row(stmt, tenant, &row) ? copy_row(s, &row, out, memory, err)
                                              : database_error(s, doing, err);
    } else if (code != SQLITE_DONE) {
        status = database_error(s, doing, err);
    }
    database_reset(stmt);
    if (!status) *found = code == SQLITE_ROW;
    return status;
}

int store_has(store *s, uint64_t tenant, const char *id, bool *found, cerium_error *err)
{
    CHECK(s && id && found);
    sqlite3_stmt *stmt = s->statements[STATEMENT_HAS];
    int status = CERIUM_OK, code = SQLITE_ERROR;
    if (!sqlite3_bind_int64(stmt, 1, (int64_t)tenant) && !bind_text(stmt, 2, id) &&
        !sqlite3_bind_int64(stmt, 3, oldest(s, (int64_t)time(NULL))))
        code = sqlite3_step(stmt);
    if (code != SQLITE_ROW && code != SQLITE_DONE)
        status = database_error(s, "find a response", err);
    database_reset(stmt);
    *found = code == SQLITE_ROW;
    return status;
}

int store_delete(store *s, uint64_t tenant, const char *id, bool *found, cerium_error *err)
{
    CHECK(s && id && found);
    sqlite3_stmt *stmt = s->statements[STATEMENT_DELETE];
    if (sqlite3_bind_int64(stmt, 1, (int64_t)tenant) || bind_text(stmt, 2, id)) {
        int status = database_error(s, "delete a response", err);
        database_reset(stmt);
        return status;
    }
    RETURN_IF(database_run(s, STATEMENT_DELETE, "delete a response", err));
    *found = sqlite3_changes(s->db) > 0;
    return store_count(s, err);
}

int store_list(store *s, uint64_t tenant, uint32_t n_max,
               bool (*seen)(void *arg, const store_response *response), void *arg,
               cerium_error *err)
{
    CHECK(s && seen);
    static const char doing[] = "list the responses";
    sqlite3_stmt *stmt = s->statements[STATEMENT_LIST];
    store_response row;
    int code = SQLITE_ERROR;
    bool more = true;
    if (!sqlite3_bind_int64(stmt, 1, (int64_t)tenant) && !sqlite3_bind_int64(stmt, 2, n_max) &&
        !sqlite3_bind_int64(stmt, 3, oldest(s, (int64_t)time(NULL)))) {
        while (more && (code = sqlite3_step(stmt)) == SQLITE_ROW)
            if (!read_row(stmt, tenant, &row) || !(more = seen(arg, &row))) break;
    }
    /* A row that could not be read leaves the statement unfinished. */
    int status = code == SQLITE_DONE || !more ? CERIUM_OK : database_error(s, doing, err);
    database_reset(stmt);
    return status;
}

/* ---- opening ---- */

int store_open(store **out, const char *path, cerium_error *err)
{
    CHECK(out && path);
    store *s = memory_zalloc(1, sizeof *s);
    if (!s || !(s->path = memory_copy(path, strlen(path)))) {
        memory_free(s);
        return error_set(err, CERIUM_ERR_MEMORY, "%s: out of memory", path);
    }
    int status = database_open(s, err);
    if (!status) status = database_prepare(s, responses_sql, err);
    if (!status) status = store_count(s, err);
    if (status) {
        store_close(&s);
        return status;
    }
    *out = s;
    return CERIUM_OK;
}
