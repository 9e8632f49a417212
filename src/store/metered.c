/* metered.c - rows of usage: batches in, sums out. */
#include "store/metered.h"

#include "store/database.h"

int store_usage_sequence(store *s, int64_t journal, uint64_t *sequence, cerium_error *err)
{
    CHECK(s && sequence);
    static const char doing[] = "read the usage";
    sqlite3_stmt *stmt = NULL;
    RETURN_IF(
        database_sql(s, &stmt, "SELECT sequence FROM drained WHERE journal = ?1", doing, err));
    int code = sqlite3_bind_int64(stmt, 1, journal) ? SQLITE_NOMEM : sqlite3_step(stmt);
    uint64_t found = code == SQLITE_ROW ? (uint64_t)sqlite3_column_int64(stmt, 0) : 0;
    int status = code == SQLITE_ROW || code == SQLITE_DONE ? CERIUM_OK
                                                           : database_error(s, doing, err);
    sqlite3_finalize(stmt);
    if (!status) *sequence = found;
    return status;
}

/* ---- writing ---- */

static const char writing[] = "write the usage";

static int add_record(store *s, sqlite3_stmt *stmt, const live_record *r, cerium_error *err)
{
    int bad = sqlite3_bind_int64(stmt, 1, r->day);
    bad |= sqlite3_bind_int64(stmt, 2, (int64_t)r->tenant);
    bad |= sqlite3_bind_text(stmt, 3, r->model, -1, SQLITE_STATIC);
    bad |= sqlite3_bind_int64(stmt, 4, r->requests);
    bad |= sqlite3_bind_int64(stmt, 5, r->input_tokens);
    bad |= sqlite3_bind_int64(stmt, 6, r->cached_tokens);
    bad |= sqlite3_bind_int64(stmt, 7, r->output_tokens);
    bad |= sqlite3_bind_int64(stmt, 8, (int64_t)r->nanodollars);
    int status = !bad && sqlite3_step(stmt) == SQLITE_DONE ? CERIUM_OK
                                                           : database_error(s, writing, err);
    database_reset(stmt);
    return status;
}

static int add_records(store *s, const live_record *records, uint32_t n, uint64_t from,
                       cerium_error *err)
{
    sqlite3_stmt *stmt = NULL;
    RETURN_IF(database_sql(s, &stmt,
                      "INSERT INTO usage VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)"
                      " ON CONFLICT (day, tenant, model) DO UPDATE SET"
                      " requests = requests + ?4, input_tokens = input_tokens + ?5,"
                      " cached_tokens = cached_tokens + ?6, output_tokens = output_tokens + ?7,"
                      " nanodollars = nanodollars + ?8", writing, err));
    int status = CERIUM_OK;
    for (uint32_t i = 0; i < n && !status; i++)
        if (records[i].sequence >= from) status = add_record(s, stmt, &records[i], err);
    sqlite3_finalize(stmt);
    return status;
}

static int set_sequence(store *s, int64_t journal, uint64_t end, cerium_error *err)
{
    sqlite3_stmt *stmt = NULL;
    RETURN_IF(database_sql(s, &stmt, "INSERT OR REPLACE INTO drained VALUES (?1, ?2)", writing,
                           err));
    int bad = sqlite3_bind_int64(stmt, 1, journal) || sqlite3_bind_int64(stmt, 2, (int64_t)end);
    int status = !bad && sqlite3_step(stmt) == SQLITE_DONE ? CERIUM_OK
                                                           : database_error(s, writing, err);
    sqlite3_finalize(stmt);
    return status;
}

int store_usage_write(store *s, int64_t journal, const live_record *records, uint32_t n,
                      uint64_t end, cerium_error *err)
{
    CHECK(s && (records || !n));
    uint64_t from = 0;
    RETURN_IF(database_begin(s, writing, err));
    int status = store_usage_sequence(s, journal, &from, err);
    if (!status && from < end) {
        status = add_records(s, records, n, from, err);
        if (!status) status = set_sequence(s, journal, end, err);
    }
    return database_end(s, status, writing, err);
}

/* ---- reading ---- */

static int bind_query(sqlite3_stmt *stmt, const usage_query *q)
{
    int bad = sqlite3_bind_int64(stmt, 1, q->first_day);
    bad |= sqlite3_bind_int64(stmt, 2, q->last_day);
    if (q->key) bad |= sqlite3_bind_text(stmt, 3, q->key, -1, SQLITE_STATIC);
    if (q->model) bad |= sqlite3_bind_text(stmt, 4, q->model, -1, SQLITE_STATIC);
    bad |= sqlite3_bind_int(stmt, 5, (q->by & USAGE_BY_DAY) != 0);
    bad |= sqlite3_bind_int(stmt, 6, (q->by & USAGE_BY_KEY) != 0);
    return bad | sqlite3_bind_int(stmt, 7, (q->by & USAGE_BY_MODEL) != 0);
}

static store_usage read_row(sqlite3_stmt *stmt)
{
    return (store_usage){.day = sqlite3_column_int64(stmt, 0),
                         .tenant = (uint64_t)sqlite3_column_int64(stmt, 1),
                         .key = (const char *)sqlite3_column_text(stmt, 2),
                         .tier = (const char *)sqlite3_column_text(stmt, 3),
                         .model = (const char *)sqlite3_column_text(stmt, 4),
                         .requests = (uint64_t)sqlite3_column_int64(stmt, 5),
                         .input_tokens = (uint64_t)sqlite3_column_int64(stmt, 6),
                         .cached_tokens = (uint64_t)sqlite3_column_int64(stmt, 7),
                         .output_tokens = (uint64_t)sqlite3_column_int64(stmt, 8),
                         .nanodollars = (uint64_t)sqlite3_column_int64(stmt, 9)};
}

int store_usage_read(store *s, const usage_query *q,
                     bool (*seen)(void *arg, const store_usage *row), void *arg, cerium_error *err)
{
    CHECK(s && q && seen);
    static const char doing[] = "read the usage";
    sqlite3_stmt *stmt = NULL;
    /* An even tenant is a key: key.h. */
    RETURN_IF(database_sql(s, &stmt,
                      "SELECT iif(?5, u.day, 0), iif(?6, u.tenant, 0), iif(?6, k.name, NULL),"
                      " iif(?6, k.tier, NULL), iif(?7, u.model, ''), sum(u.requests),"
                      " sum(u.input_tokens), sum(u.cached_tokens), sum(u.output_tokens),"
                      " sum(u.nanodollars) FROM usage u"
                      " LEFT JOIN keys k ON u.tenant & 1 = 0 AND k.id = u.tenant >> 1"
                      " WHERE u.day BETWEEN ?1 AND ?2 AND (?3 IS NULL OR k.name = ?3)"
                      " AND (?4 IS NULL OR u.model = ?4)"
                      " GROUP BY 1, 2, 5 ORDER BY 1, k.name, 2, 5", doing, err));
    int code = bind_query(stmt, q) ? SQLITE_NOMEM : SQLITE_ROW;
    bool more = true;
    while (more && code == SQLITE_ROW && (code = sqlite3_step(stmt)) == SQLITE_ROW) {
        store_usage row = read_row(stmt);
        more = seen(arg, &row);
    }
    int status = code == SQLITE_DONE || !more ? CERIUM_OK : database_error(s, doing, err);
    sqlite3_finalize(stmt);
    return status;
}
