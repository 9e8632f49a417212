/* key.c - rows of keys: add, revoke, rotate, read; and the check of a key. */
#include "store/key.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <sys/random.h>

#include "store/database.h"

enum { SECRET_BYTES = 32 };
_Static_assert(KEY_TEXT_BYTES == 4 + KEY_PREFIX_BYTES + 1 + 2 * SECRET_BYTES + 1, "as it is made");

bool store_key_name_is_good(const char *name)
{
    static const char good[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.@+";
    size_t n = strlen(name);
    return n && n <= STORE_LABEL_BYTES_MAX && strspn(name, good) == n;
}

static bool is_hex(const char *text, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!(text[i] >= '0' && text[i] <= '9') && !(text[i] >= 'a' && text[i] <= 'f'))
            return false;
    return true;
}

bool store_key_prefix(view text, char prefix[KEY_PREFIX_BYTES + 1])
{
    if (text.len != KEY_TEXT_BYTES - 1 || memcmp(text.ptr, "cer_", 4) != 0) return false;
    const char *at = text.ptr + 4;
    if (at[KEY_PREFIX_BYTES] != '_' || !is_hex(at, KEY_PREFIX_BYTES) ||
        !is_hex(at + KEY_PREFIX_BYTES + 1, (size_t)2 * SECRET_BYTES))
        return false;
    memcpy(prefix, at, KEY_PREFIX_BYTES);
    prefix[KEY_PREFIX_BYTES] = 0;
    return true;
}

static bool make_hash(const unsigned char *salt, view text, unsigned char hash[KEY_HASH_BYTES])
{
    unsigned n = 0;
    return HMAC(EVP_sha256(), salt, KEY_SALT_BYTES, (const unsigned char *)text.ptr, text.len,
                hash, &n) && n == KEY_HASH_BYTES;
}

bool store_key_fits(const store_key *key, view text)
{
    unsigned char hash[KEY_HASH_BYTES];
    return make_hash(key->salt, text, hash) && !CRYPTO_memcmp(hash, key->hash, sizeof hash);
}

/* ---- rows ---- */

#define COLUMNS "id, name, prefix, tier, salt, hash, created_at, revoked_at"

/* Run a statement without rows to its end. */
static int run(store *s, sqlite3_stmt *stmt, const char *doing, cerium_error *err)
{
    int status = sqlite3_step(stmt) == SQLITE_DONE ? CERIUM_OK : database_error(s, doing, err);
    sqlite3_finalize(stmt);
    return status;
}

static void copy_text(char *out, size_t cap, sqlite3_stmt *stmt, int column)
{
    const char *text = (const char *)sqlite3_column_text(stmt, column);
    snprintf(out, cap, "%s", text ? text : "");
}

static bool copy_blob(unsigned char *out, int len, sqlite3_stmt *stmt, int column)
{
    const void *from = sqlite3_column_blob(stmt, column);
    if (!from || sqlite3_column_bytes(stmt, column) != len) return false;
    memcpy(out, from, (size_t)len);
    return true;
}

static bool read_row(sqlite3_stmt *stmt, store_key *key)
{
    *key = (store_key){.id = sqlite3_column_int64(stmt, 0),
                       .created_at = sqlite3_column_int64(stmt, 6),
                       .revoked_at = sqlite3_column_int64(stmt, 7)};
    copy_text(key->name, sizeof key->name, stmt, 1);
    copy_text(key->prefix, sizeof key->prefix, stmt, 2);
    copy_text(key->tier, sizeof key->tier, stmt, 3);
    return copy_blob(key->salt, KEY_SALT_BYTES, stmt, 4) &&
           copy_blob(key->hash, KEY_HASH_BYTES, stmt, 5);
}

int store_keys_read(store *s, store_key **out, size_t *n, cerium_error *err)
{
    CHECK(s && out && n);
    static const char doing[] = "read the keys";
    sqlite3_stmt *stmt = NULL;
    /* A store over its limit was not written by us: only usable keys count. */
    bytes rows = {.max = (size_t)1 << 28};
    store_key key;
    int code = SQLITE_ERROR, status;
    RETURN_IF(database_sql(s, &stmt, "SELECT " COLUMNS " FROM keys ORDER BY prefix", doing, err));
    while ((code = sqlite3_step(stmt)) == SQLITE_ROW) {
        if (!read_row(stmt, &key)) break;
        if (bytes_append(&rows, &key, sizeof key)) break;
    }
    status = code == SQLITE_DONE  ? CERIUM_OK
             : code == SQLITE_ROW ? error_set(err, CERIUM_ERR_MEMORY, "%s: a key cannot be read",
                                              s->path)
                                  : database_error(s, doing, err);
    sqlite3_finalize(stmt);
    store_key *all = status ? NULL : memory_copy(rows.ptr ? rows.ptr : "", rows.len);
    *n = status ? *n : rows.len / sizeof key;
    bytes_free(&rows);
    if (status) return status;
    if (!all) return error_set(err, CERIUM_ERR_MEMORY, "%s: no memory for the keys", s->path);
    *out = all;
    return CERIUM_OK;
}

static int read_number(store *s, const char *sql, int64_t *out, const char *doing,
                       cerium_error *err)
{
    sqlite3_stmt *stmt = NULL;
    RETURN_IF(database_sql(s, &stmt, sql, doing, err));
    int code = sqlite3_step(stmt);
    int64_t n = code == SQLITE_ROW ? sqlite3_column_int64(stmt, 0) : 0;
    int status = code == SQLITE_ROW ? CERIUM_OK : database_error(s, doing, err);
    sqlite3_finalize(stmt);
    if (!status) *out = n;
    return status;
}

int store_keys_version(store *s, int64_t *version, cerium_error *err)
{
    CHECK(s && version);
    return read_number(s, "SELECT n FROM changes WHERE what = 'keys'", version, "read the keys",
                       err);
}

/* ---- changes ---- */

static int count_change(store *s, const char *doing, cerium_error *err)
{
    return database_exec(s, "UPDATE changes SET n = n + 1 WHERE what = 'keys'", doing, err);
}

static void put_hex(char *out, const unsigned char *from, size_t n)
{
    for (size_t i = 0; i < n; i++) snprintf(out + 2 * i, 3, "%02x", from[i]);
}

static int make_key(const store *s, store_key *key, char text[KEY_TEXT_BYTES], cerium_error *err)
{
    unsigned char random[KEY_PREFIX_BYTES / 2 + SECRET_BYTES];
    if (getrandom(random, sizeof random, 0) != (ssize_t)sizeof random ||
        getrandom(key->salt, sizeof key->salt, 0) != (ssize_t)sizeof key->salt)
        return error_set(err, CERIUM_ERR_IO, "%s: the system gives no random bytes", s->path);
    memcpy(text, "cer_", 4);
    put_hex(text + 4, random, KEY_PREFIX_BYTES / 2);
    text[4 + KEY_PREFIX_BYTES] = '_';
    put_hex(text + 4 + KEY_PREFIX_BYTES + 1, random + KEY_PREFIX_BYTES / 2, SECRET_BYTES);
    OPENSSL_cleanse(random, sizeof random);
    CHECK(store_key_prefix(view_of(text), key->prefix));
    if (!make_hash(key->salt, view_of(text), key->hash))
        return error_set(err, CERIUM_ERR_MEMORY, "%s: the key cannot be hashed", s->path);
    return CERIUM_OK;
}

static int bind_key(sqlite3_stmt *stmt, const store_key *key)
{
    int bad = sqlite3_bind_text(stmt, 1, key->name, -1, SQLITE_STATIC);
    bad |= sqlite3_bind_text(stmt, 2, key->prefix, -1, SQLITE_STATIC);
    bad |= sqlite3_bind_blob(stmt, 3, key->salt, KEY_SALT_BYTES, SQLITE_STATIC);
    return bad | sqlite3_bind_blob(stmt, 4, key->hash, KEY_HASH_BYTES, SQLITE_STATIC);
}

static int check_room(store *s, const char *name, cerium_error *err)
{
    int64_t n = 0;
    RETURN_IF(read_number(s, "SELECT count(*) FROM keys WHERE revoked_at IS NULL", &n,
                          "add a key", err));
    if (n >= STORE_KEYS_MAX)
        return error_set(err, CERIUM_ERR_CAPACITY, "%s: has %u keys; revoke one for '%s'", s->path,
                         STORE_KEYS_MAX, name);
    return CERIUM_OK;
}

static int insert_key(store *s, store_key *key, cerium_error *err)
{
    static const char doing[] = "add a key";
    sqlite3_stmt *stmt = NULL;
    RETURN_IF(check_room(s, key->name, err));
    RETURN_IF(database_sql(s, &stmt,
                      "INSERT INTO keys (name, prefix, salt, hash, tier, created_at)"
                      " VALUES (?1, ?2, ?3, ?4, ?5, ?6)", doing, err));
    int bad = bind_key(stmt, key);
    bad |= sqlite3_bind_text(stmt, 5, key->tier, -1, SQLITE_STATIC);
    bad |= sqlite3_bind_int64(stmt, 6, key->created_at);
    int code = bad ? SQLITE_NOMEM : sqlite3_step(stmt);
    int status = code == SQLITE_DONE ? CERIUM_OK
                 : (code & 0xff) == SQLITE_CONSTRAINT
                     ? error_set(err, CERIUM_ERR_ARGUMENT,
                                 "%s: there is a key '%s' already; rotate it, or revoke it first",
                                 s->path, key->name)
                     : database_error(s, doing, err);
    sqlite3_finalize(stmt);
    key->id = sqlite3_last_insert_rowid(s->db);
    return status ? status : count_change(s, doing, err);
}

static int tell(const store_key_hearer *hearer, const store_key *key, const char *text,
                cerium_error *err)
{
    return hearer ? hearer->tell(hearer->user, key, text, err) : CERIUM_OK;
}

int store_key_add(store *s, const char *name, const char *tier, int64_t now,
                  const store_key_hearer *hearer, store_key *key, char text[KEY_TEXT_BYTES],
                  cerium_error *err)
{
    CHECK(s && name && tier && key && text);
    if (!store_key_name_is_good(name) || strlen(tier) > STORE_LABEL_BYTES_MAX)
        return error_set(err, CERIUM_ERR_ARGUMENT,
                         "'%s' is not a key name: use 1 to %u letters, digits, and -_.@+", name,
                         STORE_LABEL_BYTES_MAX);
    *key = (store_key){.created_at = now};
    snprintf(key->name, sizeof key->name, "%s", name);
    snprintf(key->tier, sizeof key->tier, "%s", tier);
    RETURN_IF(make_key(s, key, text, err));
    RETURN_IF(database_begin(s, "add a key", err));
    int status = insert_key(s, key, err);
    if (!status) status = tell(hearer, key, text, err);
    return database_end(s, status, "add a key", err);
}

/* Is there a revoked key of that name? */
static bool was_revoked(store *s, const char *name)
{
    sqlite3_stmt *stmt = NULL;
    cerium_error ignored;
    if (database_sql(s, &stmt, "SELECT 1 FROM keys WHERE name = ?1", "look for a key", &ignored))
        return false;
    bool found = !sqlite3_bind_text(stmt, 1, name, -1, SQLITE_STATIC) &&
                 sqlite3_step(stmt) == SQLITE_ROW;
    sqlite3_finalize(stmt);
    return found;
}

/* The changed row is the one that has the name now. */
static int check_changed(store *s, const char *name, cerium_error *err)
{
    if (sqlite3_changes(s->db) == 1) return CERIUM_OK;
    if (was_revoked(s, name))
        return error_set(err, CERIUM_ERR_ARGUMENT, "%s: the key '%s' is revoked already", s->path,
                         name);
    return error_set(err, CERIUM_ERR_ARGUMENT,
                     "%s: no key '%s'; see `cerium keys list`", s->path, name);
}

static int revoke(store *s, const char *name, int64_t now, cerium_error *err)
{
    static const char doing[] = "revoke a key";
    sqlite3_stmt *stmt = NULL;
    RETURN_IF(database_sql(s, &stmt,
                      "UPDATE keys SET revoked_at = ?2 WHERE name = ?1 AND revoked_at IS NULL",
                      doing, err));
    if (sqlite3_bind_text(stmt, 1, name, -1, SQLITE_STATIC) ||
        sqlite3_bind_int64(stmt, 2, now > 0 ? now : 1)) {
        sqlite3_finalize(stmt);
        return database_error(s, doing, err);
    }
    RETURN_IF(run(s, stmt, doing, err));
    RETURN_IF(check_changed(s, name, err));
    return count_change(s, doing, err);
}

int store_key_revoke(store *s, const char *name, int64_t now, cerium_error *err)
{
    CHECK(s && name);
    RETURN_IF(database_begin(s, "revoke a key", err));
    return database_end(s, revoke(s, name, now, err), "revoke a key", err);
}

static int rotate(store *s, store_key *key, cerium_error *err)
{
    static const char doing[] = "rotate a key";
    sqlite3_stmt *stmt = NULL;
    RETURN_IF(database_sql(s, &stmt,
                      "UPDATE keys SET prefix = ?2, salt = ?3, hash = ?4"
                      " WHERE name = ?1 AND revoked_at IS NULL RETURNING " COLUMNS, doing, err));
    int code = bind_key(stmt, key) ? SQLITE_NOMEM : sqlite3_step(stmt);
    bool found = code == SQLITE_ROW && read_row(stmt, key);
    while (code == SQLITE_ROW) code = sqlite3_step(stmt);
    int status = code == SQLITE_DONE ? CERIUM_OK : database_error(s, doing, err);
    sqlite3_finalize(stmt);
    RETURN_IF(status);
    if (!found) return check_changed(s, key->name, err);
    return count_change(s, doing, err);
}

int store_key_rotate(store *s, const char *name, const store_key_hearer *hearer, store_key *key,
                     char text[KEY_TEXT_BYTES], cerium_error *err)
{
    CHECK(s && name && key && text);
    *key = (store_key){.id = 0};
    if (strlen(name) > STORE_LABEL_BYTES_MAX) /* no key has such a name */
        return error_set(err, CERIUM_ERR_ARGUMENT, "no key has that name");
    snprintf(key->name, sizeof key->name, "%s", name);
    RETURN_IF(make_key(s, key, text, err));
    RETURN_IF(database_begin(s, "rotate a key", err));
    int status = rotate(s, key, err);
    if (!status) status = tell(hearer, key, text, err);
    return database_end(s, status, "rotate a key", err);
}
