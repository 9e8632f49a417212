/* test_accounts.c - keys, usage, and data shared by servers: rows, places, streams and journals. */
#include "server/accounts_sync.h"
#include "server/log.h"
#include "store/metered.h"

#include <errno.h>
#include <sqlite3.h>
#include <sys/stat.h>
#include <unistd.h>

#include "unit.h"

#define SECOND UINT64_C(1000000000)

static char folder[32];
static cerium_error err;

static const char *path_of(const char *name)
{
    static char path[4][96];
    static int n;
    n = (n + 1) % 4;
    snprintf(path[n], sizeof path[n], "%s/%s", folder, name);
    return path[n];
}

static store *open_at(const char *path)
{
    store *s = NULL;
    TEST_CHECK_THAT(store_open(&s, path, &err) == CERIUM_OK, "%s", err.message);
    return s;
}

/* ---- keys ---- */

static void test_keys(void)
{
    store *s = open_at(path_of("keys.db"));
    store_key anna, bob, again;
    char text[KEY_TEXT_BYTES], other[KEY_TEXT_BYTES], turned[KEY_TEXT_BYTES];
    keyring *ring = NULL;
    TEST_CHECK(store_key_add(s, "anna", "pro", 10, NULL, &anna, text, &err) == CERIUM_OK);
    TEST_CHECK(store_key_add(s, "bob@example.org", "team", 11, NULL, &bob, other, &err) ==
               CERIUM_OK);
    TEST_CHECK(store_key_add(s, "anna", "pro", 12, NULL, &again, turned, &err) ==
               CERIUM_ERR_ARGUMENT);
    TEST_CHECK_THAT(strstr(err.message, "there is a key 'anna' already"), "%s", err.message);
    TEST_CHECK(store_key_add(s, "a b", "pro", 12, NULL, &again, turned, &err) ==
               CERIUM_ERR_ARGUMENT);
    TEST_CHECK(store_key_add(s, "", "pro", 12, NULL, &again, turned, &err) == CERIUM_ERR_ARGUMENT);
    TEST_CHECK(strcmp(text, other) != 0 && strlen(text) == KEY_TEXT_BYTES - 1);
    TEST_CHECK(store_key_tenant(&anna) != store_key_tenant(&bob));
    TEST_CHECK(keyring_read(&ring, s, &err) == CERIUM_OK && ring->n == 2);
    const store_key *found = keyring_find(ring, view_of(text));
    TEST_CHECK(found && !strcmp(found->name, "anna") && !strcmp(found->tier, "pro"));
    TEST_CHECK(found && store_key_tenant(found) == store_key_tenant(&anna));
    /* With any other byte it is no one's key. */
    for (size_t i = 0; i < strlen(text); i++) {
        char was = text[i];
        text[i] = was == '0' ? '1' : '0';
        TEST_CHECK(!keyring_find(ring, view_of(text)));
        text[i] = was;
    }
    TEST_CHECK(!keyring_find(ring, VIEW("")) && !keyring_find(ring, VIEW("cer_")));
    TEST_CHECK(keyring_of(ring, store_key_tenant(&bob)) && !keyring_of(ring, 1));
    keyring_free(&ring);
    /* A new secret for the same key. */
    int64_t before = 0, after = 0;
    TEST_CHECK(!store_keys_version(s, &before, &err));
    TEST_CHECK(store_key_rotate(s, "anna", NULL, &again, turned, &err) == CERIUM_OK);
    TEST_CHECK(again.id == anna.id && !strcmp(again.tier, "pro") && again.created_at == 10);
    TEST_CHECK(!store_keys_version(s, &after, &err) && after != before);
    TEST_CHECK(store_key_revoke(s, "bob@example.org", 20, &err) == CERIUM_OK);
    TEST_CHECK(store_key_revoke(s, "bob@example.org", 20, &err) == CERIUM_ERR_ARGUMENT);
    TEST_CHECK(store_key_rotate(s, "nobody", NULL, &again, other, &err) == CERIUM_ERR_ARGUMENT);
    TEST_CHECK(!store_keys_version(s, &before, &err) && after != before);
    TEST_CHECK(keyring_read(&ring, s, &err) == CERIUM_OK && ring->n == 2);
    TEST_CHECK(!keyring_find(ring, view_of(text)) && keyring_find(ring, view_of(turned)));
    TEST_CHECK(!keyring_find(ring, view_of(other)) && !keyring_of(ring, store_key_tenant(&bob)));
    keyring_free(&ring);
    /* A name is free again, and its new key inherits nothing. */
    TEST_CHECK(store_key_add(s, "bob@example.org", "pro", 30, NULL, &again, other, &err) ==
               CERIUM_OK);
    TEST_CHECK(again.id > bob.id);
    store_close(&s);
}

/* Nothing in the file reveals a key. */
static void test_no_secret(void)
{
    const char *path = path_of("secret.db");
    store *s = open_at(path);
    store_key key;
    char text[KEY_TEXT_BYTES], data[1 << 16];
    TEST_CHECK(!store_key_add(s, "anna", "pro", 10, NULL, &key, text, &err));
    store_close(&s);
    FILE *f = fopen(path, "rb");
    size_t n = f ? fread(data, 1, sizeof data, f) : 0;
    if (f) fclose(f);
    TEST_CHECK(n > 0 && memmem(data, n, key.prefix, KEY_PREFIX_BYTES));
    TEST_CHECK(!memmem(data, n, text + 4 + KEY_PREFIX_BYTES + 1, 16));
}

/* A database from before keys is migrated, with its rows. */
static void test_migration(void)
{
    const char *path = path_of("old.db");
    sqlite3 *db = NULL;
    TEST_CHECK(!sqlite3_open(path, &db));
    TEST_CHECK(!sqlite3_exec(
        db,
        "CREATE TABLE responses (tenant INTEGER NOT NULL, id TEXT NOT NULL, previous_id TEXT,"
        " created_at INTEGER NOT NULL, model TEXT, response BLOB NOT NULL, input BLOB NOT NULL,"
        " tokens BLOB NOT NULL, instructions INTEGER NOT NULL DEFAULT 0,"
        " n_head INTEGER NOT NULL DEFAULT -1, UNIQUE (tenant, id));"
        "INSERT INTO responses VALUES (7, 'resp_1', NULL, 1, 'm', '{}', '[]', x'', 0, -1);"
        "PRAGMA application_id = 0x43657269; PRAGMA user_version = 2", NULL, NULL, NULL));
    sqlite3_close(db);
    store *s = open_at(path);
    store_response row;
    bytes memory = {.max = 1 << 20};
    bool found = false;
    TEST_CHECK(!store_get(s, 7, "resp_1", &row, &memory, &found, &err) && found);
    bytes_free(&memory);
    store_key key;
    char text[KEY_TEXT_BYTES];
    TEST_CHECK(!store_key_add(s, "anna", "pro", 10, NULL, &key, text, &err));
    store_close(&s);
}

/* ---- data shared by servers ---- */

static live *live_at(const char *path)
{
    live *l = NULL;
    TEST_CHECK_THAT(live_open(&l, path, &err) == CERIUM_OK, "%s", err.message);
    return l;
}

static void test_shared_limits(void)
{
    const char *path = path_of("limits-live");
    live *a = live_at(path), *b = live_at(path);
    uint64_t now = 5000 * SECOND;
    uint32_t at = live_place(a, 6, 0, now);
    TEST_CHECK(at == live_place(b, 6, 0, now) && at == live_place(b, 6, at, now));
    TEST_CHECK(at != live_place(b, 8, 0, now));
    /* What one server takes, the other finds gone. */
    TEST_CHECK(!bucket_take(live_word(a, at, LIVE_REQUESTS), now, BUCKET_NS));
    TEST_CHECK(bucket_take(live_word(b, at, LIVE_REQUESTS), now, BUCKET_NS) == BUCKET_NS);
    TEST_CHECK(!bucket_take(live_word(b, at, LIVE_TOKENS), now, BUCKET_NS));
    TEST_CHECK(live_stream_begin(a, at, 2) && live_stream_begin(b, at, 2));
    TEST_CHECK(!live_stream_begin(a, at, 2) && !live_stream_begin(b, at, 2));
    TEST_CHECK(live_streams(a, at) == 2);
    live_stream_end(b, at);
    TEST_CHECK(live_stream_begin(a, at, 2) && live_stream_begin(a, at, 0));
    live_close(&a); /* its streams are gone with it */
    TEST_CHECK(live_streams(b, at) == 0);
    live_close(&b);
    a = live_at(path); /* limits outlive the servers */
    TEST_CHECK(bucket_wait(live_word(a, at, LIVE_REQUESTS), now, BUCKET_NS) == BUCKET_NS);
    live_close(&a);
}

/* More tenants than places: a busy one is not evicted while an idle one exists. */
static void test_many_tenants(void)
{
    live *l = live_at(NULL);
    uint64_t now = 5000 * SECOND;
    uint32_t busy = live_place(l, 2, 0, now);
    TEST_CHECK(!bucket_take(live_word(l, busy, LIVE_TOKENS), now, BUCKET_NS));
    for (uint64_t id = 4; id < 4 * LIVE_TENANTS_MAX; id += 2) {
        uint32_t at = live_place(l, id, 0, now);
        TEST_CHECK(bucket_wait(live_word(l, at, LIVE_TOKENS), now, BUCKET_NS) == 0);
    }
    TEST_CHECK(live_place(l, 2, busy, now) == busy);
    TEST_CHECK(bucket_wait(live_word(l, busy, LIVE_TOKENS), now, 1) > 0);
    live_close(&l);
}

static void test_many_servers(void)
{
    const char *path = path_of("many-live");
    live *all[LIVE_SERVERS_MAX], *more = NULL;
    for (size_t i = 0; i < LIVE_SERVERS_MAX; i++) all[i] = live_at(path);
    TEST_CHECK(live_open(&more, path, &err) == CERIUM_ERR_CAPACITY && !more);
    TEST_CHECK_THAT(strstr(err.message, "share this store"), "%s", err.message);
    live_close(&all[3]);
    TEST_CHECK(live_open(&more, path, &err) == CERIUM_OK);
    live_close(&more);
    for (size_t i = 0; i < LIVE_SERVERS_MAX; i++) live_close(&all[i]);
}

/* A file of another layout: recreated if no one has it open, otherwise refused. */
static void test_other_version(void)
{
    const char *path = path_of("other-live");
    live *l = live_at(path), *more = NULL;
    FILE *f = fopen(path, "r+b");
    TEST_CHECK(f && !fseek(f, 8, SEEK_SET) && fputc(99, f) == 99 && !fclose(f));
    TEST_CHECK(live_open(&more, path, &err) == CERIUM_ERR_FORMAT && !more);
    live_close(&l);
    l = live_at(path);
    live_close(&l);
    TEST_CHECK(live_open(&more, path_of("nowhere/x"), &err) == CERIUM_ERR_IO);
}

/* Anything under the file's name that is not ours is refused and left unchanged. */
static void test_files_of_others(void)
{
    static const struct {
        const char *fault, *text; /* text NULL: as long as ours, and zero */
        enum { OTHER_FILE, OTHER_LINK, OTHER_DANGLING, OTHER_FIFO, OTHER_FOLDER, OTHER_NAME } kind;
        mode_t mode;
    } others[] = {
        {"another program", "precious\n", OTHER_FILE, 0644},
        {"another program", "precious\n", OTHER_FILE, 0600},
        {"another program", "c", OTHER_FILE, 0644},
        {"another program", "", OTHER_FILE, 0644},
        {"another program", NULL, OTHER_FILE, 0600},
        {"a link", "precious\n", OTHER_LINK, 0644},
        {"a link", "", OTHER_LINK, 0600},
        {"a link", "", OTHER_DANGLING, 0},
        {"not a regular file", "", OTHER_FIFO, 0600},
        {"not a regular file", "", OTHER_FOLDER, 0700},
        {"hard link", "", OTHER_NAME, 0600},
        {"others may write", "ceriumL", OTHER_FILE, 0666},
    };
    struct stat ours;
    live *l = live_at(path_of("ours-live"));
    TEST_CHECK(stat(path_of("ours-live"), &ours) == 0 && (ours.st_mode & 0777) == 0600);
    live_close(&l);
    for (size_t i = 0; i < ARRAY_LEN(others); i++) {
        char name[32];
        snprintf(name, sizeof name, "other-%zu", i);
        const char *path = path_of(name), *real = path;
        bool is_linked = others[i].kind == OTHER_LINK || others[i].kind == OTHER_NAME;
        if (is_linked) real = path_of("real");
        unlink(real);
        if (others[i].kind == OTHER_FILE || is_linked) {
            FILE *f = fopen(real, "w");
            if (others[i].text) fputs(others[i].text, f);
            TEST_CHECK(!fclose(f) && !chmod(real, others[i].mode));
            if (!others[i].text) TEST_CHECK(truncate(real, ours.st_size) == 0);
        }
        int made = others[i].kind == OTHER_LINK       ? symlink("real", path)
                   : others[i].kind == OTHER_DANGLING ? symlink("nowhere", path)
                   : others[i].kind == OTHER_FIFO     ? mkfifo(path, others[i].mode)
                   : others[i].kind == OTHER_FOLDER   ? mkdir(path, others[i].mode)
                   : others[i].kind == OTHER_NAME     ? link(real, path)
                                                      : 0;
        struct stat was, is;
        const char *seen = others[i].kind == OTHER_LINK ? real : path;
        TEST_CHECK(made == 0 && lstat(seen, &was) == 0);
        live *more = NULL;
        TEST_CHECK_THAT(live_open(&more, path, &err) == CERIUM_ERR_FORMAT && !more &&
                        strstr(err.message, others[i].fault), "%zu: %s", i, err.message);
        live_close(&more);
        TEST_CHECK_THAT(lstat(seen, &is) == 0 && was.st_mode == is.st_mode &&
                        was.st_size == is.st_size && was.st_ino == is.st_ino &&
                        was.st_mtim.tv_nsec == is.st_mtim.tv_nsec &&
                        was.st_ctim.tv_nsec == is.st_ctim.tv_nsec, "%zu", i);
    }
    TEST_CHECK(access(path_of("nowhere"), F_OK) != 0);
}

/* Truncated to any length, between two servers or under a running one: no server ends, the file is
 * repaired, and no request that the running server knows is lost. */
static void test_cut(void)
{
    static const off_t lengths[] = {0, 1, 7, 8, 12, 63, 64, 4095, 4096, 300000, 8 << 20};
    const char *path = path_of("cut-live");
    uint64_t now = 5000 * SECOND;
    live *a = live_at(path), *b;
    store *s = open_at(path_of("cut.db"));
    struct stat whole, st;
    bool was_cut;
    uint64_t n_added = 0;
    TEST_CHECK(stat(path, &whole) == 0);
    for (size_t i = 0; i < ARRAY_LEN(lengths); i++) {
        uint32_t at = live_place(a, 6, 0, now);
        live_record r = {.tenant = 2, .day = 1, .requests = 1, .model = "m"};
        TEST_CHECK(live_stream_begin(a, at, 0) && live_reserve(a) && live_reserve(a));
        live_add(a, &r);
        TEST_CHECK(truncate(path, lengths[i]) == 0);
        /* All of it is used: places, streams and journal. */
        at = live_place(a, 6, at, now);
        TEST_CHECK(!bucket_take(live_word(a, at, LIVE_TOKENS), now + i * 2 * BUCKET_NS, 1));
        TEST_CHECK(live_streams(a, at) >= 1);
        live_stream_end(a, at);
        live_add(a, &r);
        n_added += 2;
        TEST_CHECK(!live_mend(a, &was_cut, &err) && was_cut);
        TEST_CHECK(!live_mend(a, &was_cut, &err) && !was_cut);
        TEST_CHECK(stat(path, &st) == 0 && st.st_size == whole.st_size);
        if (i % 2) TEST_CHECK(accounts_sync_drain(s, a, LIVE_OWN, &err) == CERIUM_OK);
    }
    /* Another server finds in the file what this one wrote. */
    uint32_t at = live_place(a, 6, 0, now), torn = 0;
    uint64_t end;
    live_record batch[64];
    TEST_CHECK(live_stream_begin(a, at, 0));
    b = live_at(path);
    TEST_CHECK(live_streams(b, at) == 1);
    uint32_t n_own = live_peek(a, LIVE_OWN, batch, 64, &end, &torn);
    TEST_CHECK(n_own > 0 && live_peek(b, 0, batch, 64, &end, &torn) == n_own && !torn);
    /* The other one repairs it, and this one writes its own part again. */
    TEST_CHECK(truncate(path, 100) == 0 && !live_mend(b, &was_cut, &err) && was_cut);
    TEST_CHECK(live_streams(b, at) == 0 && !live_mend(a, &was_cut, &err));
    TEST_CHECK(live_streams(b, at) == 1 && live_peek(b, 0, batch, 64, &end, &torn) == n_own);
    live_stream_end(a, at);
    TEST_CHECK(accounts_sync_drain(s, a, LIVE_OWN, &err) == CERIUM_OK);
    TEST_CHECK(live_peek(a, LIVE_OWN, batch, 64, &end, &torn) == 0 && end == n_added && !torn);
    live_close(&b);
    live_close(&a);
    for (size_t i = 0; i < ARRAY_LEN(lengths); i++) { /* before a server opens it */
        TEST_CHECK(truncate(path, lengths[i]) == 0);
        a = live_at(path);
        TEST_CHECK(stat(path, &st) == 0 && st.st_size == whole.st_size);
        TEST_CHECK(live_place(a, 6, 0, now) < LIVE_TENANTS_MAX && live_reserve(a));
        live_close(&a);
    }
    store_close(&s);
}

/* ---- usage ---- */

static live_record record_of(uint64_t tenant, uint32_t day, const char *model)
{
    live_record r = {.tenant = tenant, .day = day, .requests = 1, .input_tokens = 100,
                     .cached_tokens = 40, .output_tokens = 10, .nanodollars = 470000};
    snprintf(r.model, sizeof r.model, "%s", model);
    return r;
}

static void add(live *l, live_record r)
{
    TEST_CHECK(live_reserve(l));
    live_add(l, &r);
}

typedef struct {
    uint64_t rows, requests, input, nanodollars;
    char last_key[32], last_model[32];
} summed;

static bool sum(void *arg, const store_usage *row)
{
    summed *t = arg;
    t->rows++;
    t->requests += row->requests;
    t->input += row->input_tokens;
    t->nanodollars += row->nanodollars;
    snprintf(t->last_key, sizeof t->last_key, "%s", row->key ? row->key : "-");
    snprintf(t->last_model, sizeof t->last_model, "%s", row->model);
    return true;
}

static summed usage_of(store *s, unsigned by, const char *key, int64_t first, int64_t last)
{
    summed t = {0, 0, 0, 0, "", ""};
    usage_query q = {.by = by, .first_day = first, .last_day = last, .key = key};
    TEST_CHECK_THAT(store_usage_read(s, &q, sum, &t, &err) == CERIUM_OK, "%s", err.message);
    return t;
}

static void test_usage(void)
{
    store *s = open_at(path_of("usage.db"));
    live *l = live_at(path_of("usage.db-live"));
    store_key anna;
    char text[KEY_TEXT_BYTES];
    TEST_CHECK(!store_key_add(s, "anna", "pro", 10, NULL, &anna, text, &err));
    for (int i = 0; i < 700; i++) /* more than a batch */
        add(l, record_of(i % 2 ? store_key_tenant(&anna) : 77, 20000 + i % 7 / 4, "m"));
    add(l, record_of(store_key_tenant(&anna), 20001, "n"));
    TEST_CHECK(accounts_sync_drain(s, l, LIVE_OWN, &err) == CERIUM_OK);
    TEST_CHECK(accounts_sync_drain(s, l, LIVE_OWN, &err) == CERIUM_OK); /* nothing is left over */
    summed t = usage_of(s, 0, NULL, 0, 1 << 30);
    TEST_CHECK(t.rows == 1 && t.requests == 701 && t.input == 70100);
    TEST_CHECK(t.nanodollars == UINT64_C(701) * 470000);
    t = usage_of(s, USAGE_BY_KEY, NULL, 0, 1 << 30);
    TEST_CHECK(t.rows == 2 && !strcmp(t.last_key, "anna"));
    t = usage_of(s, USAGE_BY_KEY | USAGE_BY_MODEL, "anna", 20001, 20001);
    TEST_CHECK(t.rows == 2 && !strcmp(t.last_model, "n"));
    TEST_CHECK(usage_of(s, USAGE_BY_DAY, NULL, 0, 1 << 30).rows == 2);
    TEST_CHECK(usage_of(s, USAGE_BY_DAY, NULL, 20002, 1 << 30).rows == 0);
    TEST_CHECK(usage_of(s, 0, "nobody", 0, 1 << 30).rows == 0);
    live_close(&l);
    store_close(&s);
}

/* A batch that was written, but not yet marked in the journal, is not counted twice. */
static void test_once(void)
{
    store *s = open_at(path_of("once.db"));
    live *l = live_at(path_of("once.db-live"));
    live_record batch[8];
    uint64_t end;
    uint32_t torn = 0, n;
    for (int i = 0; i < 5; i++) add(l, record_of(2, 1, "m"));
    n = live_peek(l, LIVE_OWN, batch, 8, &end, &torn);
    TEST_CHECK(n == 5 && end == 5 && !torn);
    TEST_CHECK(!store_usage_write(s, live_journal(l, LIVE_OWN), batch, n, end, &err));
    for (int i = 0; i < 3; i++) add(l, record_of(2, 1, "m")); /* then the server was killed */
    TEST_CHECK(accounts_sync_drain(s, l, LIVE_OWN, &err) == CERIUM_OK);
    TEST_CHECK(usage_of(s, 0, NULL, 0, 9).requests == 8);
    /* The file is older than the database, as after a loss of power. */
    live_resume(l, LIVE_OWN, 100);
    add(l, record_of(2, 1, "m"));
    TEST_CHECK(accounts_sync_drain(s, l, LIVE_OWN, &err) == CERIUM_OK);
    TEST_CHECK(usage_of(s, 0, NULL, 0, 9).requests == 9);
    live_close(&l);
    store_close(&s);
}

/* A record torn by a power cut is skipped, and the others count. */
static void test_torn(void)
{
    const char *path = path_of("torn.db-live");
    store *s = open_at(path_of("torn.db"));
    live *l = live_at(path);
    live_record r = record_of(2, 1, "torn-model");
    add(l, record_of(2, 1, "m"));
    add(l, r);
    add(l, record_of(2, 1, "m"));
    char data[1 << 16];
    FILE *f = fopen(path, "r+b");
    long at = -1;
    for (long from = 0; f && at < 0; from += (long)sizeof data - 64) {
        if (fseek(f, from, SEEK_SET) || fread(data, 1, sizeof data, f) != sizeof data) break;
        char *hit = memmem(data, sizeof data, "torn-model", 10);
        if (hit) at = from + (long)(hit - data);
    }
    TEST_CHECK(at > 0 && !fseek(f, at, SEEK_SET) && fputc('X', f) == 'X');
    if (f) fclose(f);
    live_close(&l); /* its writer could repair it, the next server cannot */
    l = live_at(path);
    TEST_CHECK(accounts_sync_drain(s, l, LIVE_OWN, &err) == CERIUM_OK);
    TEST_CHECK(usage_of(s, 0, NULL, 0, 9).requests == 2);
    live_close(&l);
    store_close(&s);
}

static void test_full_journal(void)
{
    live *l = live_at(path_of("full-live"));
    store *s = open_at(path_of("full.db"));
    uint32_t n = 0;
    while (n <= LIVE_JOURNAL_MAX && live_reserve(l)) n++;
    TEST_CHECK(n == LIVE_JOURNAL_MAX && !live_reserve(l));
    live_record r = record_of(2, 1, "m");
    for (uint32_t i = 0; i < n; i++) live_add(l, &r);
    TEST_CHECK(!live_reserve(l));
    TEST_CHECK(accounts_sync_drain(s, l, LIVE_OWN, &err) == CERIUM_OK && live_reserve(l));
    live_unreserve(l);
    TEST_CHECK(usage_of(s, 0, NULL, 0, 9).requests == LIVE_JOURNAL_MAX);
    store_close(&s);
    live_close(&l);
}

/* ---- a store that fails for a while ---- */

static void test_locked(void)
{
    const char *path = path_of("locked.db");
    store *s = open_at(path);
    live *l = live_at(path_of("locked.db-live"));
    sqlite3 *other;
    add(l, record_of(2, 1, "m"));
    TEST_CHECK(!sqlite3_open(path, &other));
    TEST_CHECK(!sqlite3_exec(other, "BEGIN IMMEDIATE", NULL, NULL, NULL));
    TEST_CHECK(accounts_sync_drain(s, l, LIVE_OWN, &err) == CERIUM_ERR_IO);
    TEST_CHECK_THAT(strstr(err.message, "locked"), "%s", err.message);
    store_key key;
    char text[KEY_TEXT_BYTES];
    TEST_CHECK(store_key_add(s, "anna", "pro", 1, NULL, &key, text, &err) == CERIUM_ERR_IO);
    TEST_CHECK(!sqlite3_exec(other, "COMMIT", NULL, NULL, NULL));
    TEST_CHECK(accounts_sync_drain(s, l, LIVE_OWN, &err) == CERIUM_OK);
    TEST_CHECK(usage_of(s, 0, NULL, 0, 9).requests == 1);
    sqlite3_close(other);
    live_close(&l);
    store_close(&s);
}

static bool disk_is_full;

static ssize_t write_or_full(int fd, const void *from, size_t len, off_t at)
{
    if (!disk_is_full) return pwrite(fd, from, len, at);
    errno = ENOSPC;
    return -1;
}

static void test_full_disk(void)
{
    sqlite3_vfs *vfs = sqlite3_vfs_find(NULL);
    sqlite3_syscall_ptr write = (sqlite3_syscall_ptr)write_or_full;
    if (vfs->xSetSystemCall(vfs, "pwrite64", write) && vfs->xSetSystemCall(vfs, "pwrite", write)) {
        TEST_SKIP("usage on a full disk: this SQLite writes in another way");
        return;
    }
    store *s = open_at(path_of("disk.db"));
    live *l = live_at(path_of("disk.db-live"));
    add(l, record_of(2, 1, "m"));
    disk_is_full = true;
    TEST_CHECK(accounts_sync_drain(s, l, LIVE_OWN, &err) == CERIUM_ERR_IO);
    TEST_CHECK_THAT(strstr(err.message, "the disk is full"), "%s", err.message);
    add(l, record_of(2, 1, "m")); /* the journal has its blocks */
    disk_is_full = false;
    TEST_CHECK(accounts_sync_drain(s, l, LIVE_OWN, &err) == CERIUM_OK);
    TEST_CHECK(usage_of(s, 0, NULL, 0, 9).requests == 2);
    live_close(&l);
    store_close(&s);
    vfs->xSetSystemCall(vfs, NULL, NULL);
}

/* Each allocation of ours fails in turn. */
static void test_memory(void)
{
    char path[96], live_path[96];
    snprintf(path, sizeof path, "%s/memory.db", folder);
    snprintf(live_path, sizeof live_path, "%s/memory-live", folder);
    for (long n = 0;; n++) {
        store *s = NULL;
        live *l = NULL;
        keyring *ring = NULL;
        long before = memory_live();
        memory_fail_at(n);
        int status = store_open(&s, path, &err);
        if (!status) status = live_open(&l, live_path, &err);
        if (!status) status = keyring_read(&ring, s, &err);
        if (!status) status = accounts_sync_drain(s, l, LIVE_OWN, &err);
        memory_fail_at(-1);
        TEST_CHECK(!status || status == CERIUM_ERR_MEMORY);
        keyring_free(&ring);
        live_close(&l);
        store_close(&s);
        TEST_CHECK(memory_live() == before);
        if (!status) break;
        TEST_CHECK(n < 100);
        if (n >= 100) break;
    }
}

int main(void)
{
    snprintf(folder, sizeof folder, "/tmp/cerium-XXXXXX");
    if (!mkdtemp(folder)) return 1;
    log_open(LOG_ERROR);
    TEST_RUN(test_keys);
    TEST_RUN(test_no_secret);
    TEST_RUN(test_migration);
    TEST_RUN(test_shared_limits);
    TEST_RUN(test_many_tenants);
    TEST_RUN(test_many_servers);
    TEST_RUN(test_other_version);
    TEST_RUN(test_files_of_others);
    TEST_RUN(test_cut);
    TEST_RUN(test_usage);
    TEST_RUN(test_once);
    TEST_RUN(test_torn);
    TEST_RUN(test_full_journal);
    TEST_RUN(test_locked);
    TEST_RUN(test_full_disk);
    TEST_RUN(test_memory);
    char command[64];
    snprintf(command, sizeof command, "rm -rf %s", folder);
    if (system(command)) printf("cannot remove %s\n", folder);
    return unit_report("accounts");
}
