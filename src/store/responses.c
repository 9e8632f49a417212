/* responses.c - rows of stored responses: put, get, delete, list, expire. */
#include "base/limits.h"
#include "store/database.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "tokens are stored as they lie");

#define COLUMNS "id, previous_id, created_at, model, response, input, tokens, instructions, n_head"

const char *const responses_sql[STATEMENTS] = {
    [STATEMENT_PUT] =
        "INSERT INTO responses (" COLUMNS ", tenant)"
        " VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)"
        " ON CONFLICT (tenant, id) DO UPDATE SET previous_id = ?2, created_at = ?3, model = ?4,"
        " response = ?5, input = ?6, tokens = ?7, instructions = ?8, n_head = ?9",
    [STATEMENT_GET] = "SELECT " COLUMNS " FROM responses WHERE tenant = ?1 AND id = ?2",
    [STATEMENT_DELETE] = "DELETE FROM responses WHERE tenant = ?1 AND id = ?2",
    [STATEMENT_LIST] = "SELECT " COLUMNS " FROM responses WHERE tenant = ?1"
                       " ORDER BY created_at DESC, rowid DESC LIMIT ?2",
    [STATEMENT_EXPIRE] = "DELETE FROM responses WHERE created_at < ?1",
};

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
    return bad | sqlite3_bind_int64(stmt, 10, (int64_t)r->tenant);
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
    sqlite3_stmt *stmt = s->statements[STATEMENT_PUT];
    if (bind_response(stmt, r)) {
        int status = database_error(s, "store a response", err);
        database_reset(stmt);
        return status;
    }
    return database_run(s, STATEMENT_PUT, "store a response", err);
}

/* The row under the statement; its parts belong to SQLite until the next step.  False when SQLite
 * ran out of memory while it handed them out. */
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
        out->n_head = SIZE_MAX; /* not known, or nonsense */
    out->response.len = (size_t)sqlite3_column_bytes(stmt, 4);
    out->input.len = (size_t)sqlite3_column_bytes(stmt, 5);
    out->n_tokens = (size_t)sqlite3_column_bytes(stmt, 6) / sizeof *out->tokens;
    /* An empty blob comes as NULL. */
    return out->id && (out->response.ptr || !out->response.len) &&
           (out->input.ptr || !out->input.len) && (out->tokens || !out->n_tokens) &&
           (out->previous_id || sqlite3_column_type(stmt, 1) == SQLITE_NULL) &&
           (out->model || sqlite3_column_type(stmt, 3) == SQLITE_NULL);
}

/* Room was reserved: len bytes and a NUL. */
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
        return error_set(err, status, "%s: no room for a response of %zu bytes", s->path, total);
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
    if (!sqlite3_bind_int64(stmt, 1, (int64_t)tenant) && !bind_text(stmt, 2, id))
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
    return CERIUM_OK;
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
    if (!sqlite3_bind_int64(stmt, 1, (int64_t)tenant) && !sqlite3_bind_int64(stmt, 2, n_max)) {
        while (more && (code = sqlite3_step(stmt)) == SQLITE_ROW)
            if (!read_row(stmt, tenant, &row) || !(more = seen(arg, &row))) break;
    }
    /* A row that could not be read left us with more to come. */
    int status = code == SQLITE_DONE || !more ? CERIUM_OK : database_error(s, doing, err);
    database_reset(stmt);
    return status;
}

int store_expire(store *s, int64_t created_before, uint64_t *n_deleted, cerium_error *err)
{
    CHECK(s && n_deleted);
    if (sqlite3_bind_int64(s->statements[STATEMENT_EXPIRE], 1, created_before))
        return database_error(s, "delete old responses", err);
    RETURN_IF(database_run(s, STATEMENT_EXPIRE, "delete old responses", err));
    *n_deleted = (uint64_t)sqlite3_changes(s->db);
    return CERIUM_OK;
}
