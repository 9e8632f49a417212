/* test_store.c - rows are read as written, belong to their tenant, and the file to its owner;
 * a foreign, newer, locked, full or read-only file is refused in one line that says so. */
#include "store/store.h"

#include <errno.h>
#include <sqlite3.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/limits.h"

#include "unit.h"

static char folder[] = "/tmp/cerium-store-XXXXXX";
static cerium_error err;

static const char *path_of(const char *name)
{
    static char path[128];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

static store *open_at(const char *path)
{
    store *s = NULL;
    TEST_CHECK_THAT(store_open(&s, path, &err) == CERIUM_OK, "%s", err.message);
    return s;
}

static store_response response_of(const char *id, uint64_t tenant, int64_t created_at)
{
    static const int32_t tokens[] = {1, -2, 3, INT32_MAX};
    return (store_response){.id = id, .previous_id = "resp_0", .tenant = tenant,
                            .created_at = created_at, .response = VIEW("{\"a\":\"\xc3\xa9\0b\"}"),
                            .input = VIEW("[]"), .tokens = tokens, .n_tokens = 4,
                            .instructions = UINT64_MAX - 7, .n_head = 3, .model = "m.gguf"};
}

static bool same_text(const char *a, const char *b)
{
    return a && b ? strcmp(a, b) == 0 : a == b;
}

static bool same(const store_response *a, const store_response *b)
{
    return same_text(a->id, b->id) && same_text(a->previous_id, b->previous_id) &&
           same_text(a->model, b->model) && a->tenant == b->tenant &&
           a->created_at == b->created_at && view_equal(a->response, b->response) &&
           view_equal(a->input, b->input) && a->n_tokens == b->n_tokens &&
           a->instructions == b->instructions && a->n_head == b->n_head &&
           (!a->n_tokens || !memcmp(a->tokens, b->tokens, a->n_tokens * sizeof *a->tokens));
}

static bool found_as(store *s, const store_response *want)
{
    store_response got;
    bytes memory = {0};
    bool found = false;
    int status = store_get(s, want->tenant, want->id, &got, &memory, &found, &err);
    bool right = status == CERIUM_OK && found && same(&got, want);
    bytes_free(&memory);
    return right;
}

static bool absent(store *s, uint64_t tenant, const char *id)
{
    store_response got;
    bytes memory = {.max = 1 << 20};
    bool found = true;
    int status = store_get(s, tenant, id, &got, &memory, &found, &err);
    bytes_free(&memory);
    return status == CERIUM_OK && !found;
}

static void test_rows_come_back(void)
{
    store *s = open_at(":memory:");
    store_response full = response_of("resp_1", 7, 1000);
    store_response bare = {.id = "resp_2", .tenant = UINT64_MAX, .created_at = -5};
    TEST_CHECK(store_put(s, &full, &err) == CERIUM_OK && found_as(s, &full));
    TEST_CHECK(store_put(s, &bare, &err) == CERIUM_OK && found_as(s, &bare));
    /* Again with the same id: the newer one stays. */
    full.response = VIEW("{}");
    full.previous_id = NULL;
    TEST_CHECK(store_put(s, &full, &err) == CERIUM_OK && found_as(s, &full));
    TEST_CHECK(absent(s, 7, "resp_2") && absent(s, 7, "RESP_1") && absent(s, 7, ""));
    store_close(&s);
    TEST_CHECK(!s);
    store_close(&s);
}

static void test_tenants_are_apart(void)
{
    store *s = open_at(":memory:");
    bool found;
    store_response one = response_of("resp_1", 1, 10), two = response_of("resp_1", 2, 20);
    two.response = VIEW("{\"other\":1}");
    TEST_CHECK(!store_put(s, &one, &err) && !store_put(s, &two, &err));
    TEST_CHECK(found_as(s, &one) && found_as(s, &two) && absent(s, 3, "resp_1"));
    TEST_CHECK(!store_delete(s, 3, "resp_1", &found, &err) && !found);
    TEST_CHECK(!store_delete(s, 1, "resp_1", &found, &err) && found);
    TEST_CHECK(absent(s, 1, "resp_1") && found_as(s, &two));
    TEST_CHECK(!store_delete(s, 1, "resp_1", &found, &err) && !found);
    store_close(&s);
}

typedef struct {
    char ids[16][16];
    uint32_t n, n_max;
    uint64_t tenant;
} listing;

static bool note(void *arg, const store_response *response)
{
    listing *l = arg;
    TEST_CHECK(response->tenant == l->tenant && response->response.len > 0);
    snprintf(l->ids[l->n++], sizeof l->ids[0], "%s", response->id);
    return l->n < l->n_max;
}

static void test_list_and_expire(void)
{
    store *s = open_at(":memory:");
    char id[16];
    for (int i = 0; i < 10; i++) {
        snprintf(id, sizeof id, "r%d", i);
        store_response r = response_of(id, i % 2, 100 + i / 4);
        TEST_CHECK(store_put(s, &r, &err) == CERIUM_OK);
    }
    listing all = {.n_max = 16, .tenant = 1}, some = {.n_max = 16}, cut = {.n_max = 2};
    TEST_CHECK(store_list(s, 1, 16, note, &all, &err) == CERIUM_OK && all.n == 5);
    /* Newest first; of the same second, the one stored last. */
    TEST_CHECK(!strcmp(all.ids[0], "r9") && !strcmp(all.ids[1], "r7") &&
               !strcmp(all.ids[2], "r5") && !strcmp(all.ids[4], "r1"));
    TEST_CHECK(store_list(s, 0, 3, note, &some, &err) == CERIUM_OK && some.n == 3);
    TEST_CHECK(store_list(s, 0, 16, note, &cut, &err) == CERIUM_OK && cut.n == 2);
    store_close(&s);
}

static uint64_t file_bytes(const char *path)
{
    struct stat st;
    return stat(path, &st) ? 0 : (uint64_t)st.st_size;
}

/* Rows older than this many days are not shown, and are removed at the next read or write. */
static void test_age(void)
{
    enum { DAY_S = 86400 };
    store *s = open_at(":memory:");
    int64_t now = (int64_t)time(NULL);
    uint64_t n = 99;
    bool found = true;
    store_response old = response_of("old", 1, now - 3 * DAY_S);
    store_response young = response_of("young", 1, now);
    listing all = {.n_max = 16, .tenant = 1};
    TEST_CHECK(!store_put(s, &old, &err) && !store_put(s, &young, &err) && found_as(s, &old));
    store_bound(s, 0, 3 + 1);
    TEST_CHECK(!store_expire(s, now, &n, &err) && n == 0 && found_as(s, &old));
    store_bound(s, 0, 2);
    TEST_CHECK(absent(s, 1, "old") && found_as(s, &young));
    TEST_CHECK(!store_has(s, 1, "old", &found, &err) && !found);
    TEST_CHECK(!store_has(s, 1, "young", &found, &err) && found);
    TEST_CHECK(!store_list(s, 1, 16, note, &all, &err) && all.n == 1);
    TEST_CHECK(!store_expire(s, now, &n, &err) && n == 1 && store_measure(s).responses == 1);
    store_bound(s, 0, 0);
    TEST_CHECK(absent(s, 1, "old"));
    store_close(&s);
}

/* 10,000 responses: the reported bytes, the file, and its log stay within the bound, the newest are
 * there, and so is a child whose parent was removed. */
static void test_ten_thousand(void)
{
    enum { N = 10000, BOUND = 2 << 20, SLACK = 256 << 10, LOG_MAX = 6 << 20 };
    const char *path = path_of("many.db");
    char log[160], id[24], before[24], *text = memory_zalloc(1, 40000);
    uint64_t most = 0, most_file = 0, most_log = 0;
    memset(text, 'x', 40000);
    snprintf(log, sizeof log, "%s-wal", path);
    store *s = open_at(path);
    store_bound(s, BOUND, 0);
    for (uint32_t i = 0; i < N; i++) {
        snprintf(before, sizeof before, "resp_%u", i - 1);
        snprintf(id, sizeof id, "resp_%u", i);
        store_response r = response_of(id, i % 3, 1000 + i);
        r.previous_id = before;
        r.response = (view){text, i * 7919 % 40000};
        if (store_put(s, &r, &err) || (i % 97 == 0 && !found_as(s, &r))) {
            TEST_CHECK_THAT(false, "%u: %s", i, err.message);
            break;
        }
        if (store_measure(s).bytes > most) most = store_measure(s).bytes;
        if (i % 100 == 0 && file_bytes(path) > most_file) most_file = file_bytes(path);
        if (i % 100 == 0 && file_bytes(log) > most_log) most_log = file_bytes(log);
    }
    store_size size = store_measure(s);
    TEST_CHECK_THAT(most <= BOUND && size.bytes > BOUND / 2, "%llu", (unsigned long long)most);
    TEST_CHECK(size.responses + size.expired == N && size.responses > 10);
    TEST_CHECK(absent(s, 0, "resp_0") && !absent(s, (N - 1) % 3, id));
    snprintf(id, sizeof id, "resp_%u", (uint32_t)(N - size.responses));
    TEST_CHECK(!absent(s, (N - size.responses) % 3, id)); /* its parent was just removed */
    store_close(&s);
    if (file_bytes(path) > most_file) most_file = file_bytes(path);
    TEST_CHECK_THAT(most_file < BOUND + SLACK, "the file had %llu", (unsigned long long)most_file);
    TEST_CHECK_THAT(most_log < LOG_MAX, "the log had %llu", (unsigned long long)most_log);
    /* A smaller bound than the present size; a single larger response stays. */
    s = open_at(path);
    TEST_CHECK(store_measure(s).bytes == size.bytes);
    uint64_t n = 0;
    store_bound(s, BOUND / 8, 0);
    TEST_CHECK(!store_expire(s, 0, &n, &err) && n > 0 && store_measure(s).bytes <= BOUND / 8);
    store_response last = response_of("last", 1, 1);
    last.response = (view){text, 40000};
    store_bound(s, 4096, 0);
    TEST_CHECK(!store_put(s, &last, &err) && found_as(s, &last));
    TEST_CHECK(!store_expire(s, 0, &n, &err) && store_measure(s).responses == 1);
    bool found;
    TEST_CHECK(!store_delete(s, 1, "last", &found, &err) && found);
    TEST_CHECK(store_measure(s).responses == 0 && store_measure(s).bytes == 0);
    store_close(&s);
    memory_free(text);
}

static void test_bounds(void)
{
    store *s = open_at(":memory:");
    store_response r = response_of("resp_1", 1, 1);
    static char long_id[STORE_NAME_BYTES_MAX + 2];
    memset(long_id, 'x', sizeof long_id - 1);
    r.response.len = STORE_RESPONSE_BYTES_MAX + 1u; /* never read */
    TEST_CHECK(store_put(s, &r, &err) == CERIUM_ERR_CAPACITY);
    r = response_of("resp_1", 1, 1);
    r.n_tokens = SIZE_MAX / 2;
    TEST_CHECK(store_put(s, &r, &err) == CERIUM_ERR_CAPACITY);
    r = response_of(long_id, 1, 1);
    TEST_CHECK(store_put(s, &r, &err) == CERIUM_ERR_CAPACITY && !strchr(err.message, '\n'));
    /* A reader with little room gets an error, and one with room gets the row. */
    r = response_of("resp_1", 1, 1);
    bytes little = {.max = 16};
    bool found = false;
    store_response got;
    TEST_CHECK(!store_put(s, &r, &err));
    TEST_CHECK(store_get(s, 1, "resp_1", &got, &little, &found, &err) == CERIUM_ERR_CAPACITY);
    TEST_CHECK(!found && found_as(s, &r));
    bytes_free(&little);
    store_close(&s);
}

static void test_large_row(void)
{
    store *s = open_at(path_of("large.db"));
    size_t len = 24u << 20;
    char *text = memory_alloc(len);
    for (size_t i = 0; i < len; i++) text[i] = (char)(i * 31 >> 3);
    store_response r = response_of("resp_big", 1, 1);
    r.response = (view){text, len};
    TEST_CHECK(store_put(s, &r, &err) == CERIUM_OK && found_as(s, &r));
    store_close(&s);
    memory_free(text);
}

static void test_file_stays_and_is_private(void)
{
    struct stat st;
    const char *path = path_of("kept.db");
    char log[160];
    store_response r = response_of("resp_1", 1, 1);
    snprintf(log, sizeof log, "%s-wal", path);
    mode_t before = umask(0);
    store *s = open_at(path);
    TEST_CHECK(store_put(s, &r, &err) == CERIUM_OK);
    TEST_CHECK(!stat(path, &st) && (st.st_mode & 0777) == 0600);
    TEST_CHECK(!stat(log, &st) && (st.st_mode & 0777) == 0600);
    store_close(&s);
    umask(before);
    TEST_CHECK(chmod(path, 0644) == 0);
    s = open_at(path);
    TEST_CHECK(found_as(s, &r) && !stat(path, &st) && (st.st_mode & 0777) == 0600);
    /* A second opening in one process, and its end, leave the first one working. */
    store *other = open_at(path);
    TEST_CHECK(found_as(other, &r));
    store_close(&other);
    r.created_at = 2;
    TEST_CHECK(store_put(s, &r, &err) == CERIUM_OK && found_as(s, &r));
    store_close(&s);
}

static bool refused(const char *path, int status, const char *text)
{
    store *s = NULL;
    memset(&err, 0, sizeof err);
    bool right = store_open(&s, path, &err) == status && !s && strstr(err.message, text) &&
                 strstr(err.message, path);
    if (!right) printf("    got %d: %s\n", err.status, err.message);
    store_close(&s);
    return right;
}

static void run_sql(const char *path, const char *sql)
{
    sqlite3 *db;
    TEST_CHECK(!sqlite3_open(path, &db));
    TEST_CHECK_THAT(!sqlite3_exec(db, sql, NULL, NULL, NULL), "%s", sqlite3_errmsg(db));
    sqlite3_close(db);
}

static void test_not_ours(void)
{
    const char *path = path_of("text.db");
    FILE *f = fopen(path, "w");
    for (int i = 0; i < 200; i++) fprintf(f, "this is no database at all\n");
    fclose(f);
    TEST_CHECK(refused(path, CERIUM_ERR_FORMAT, "not a database"));
    path = path_of("foreign.db");
    run_sql(path, "CREATE TABLE responses (x)");
    TEST_CHECK(refused(path, CERIUM_ERR_FORMAT, "another program"));
    path = path_of("newer.db");
    store *s = open_at(path);
    store_close(&s);
    run_sql(path, "PRAGMA user_version = 9999");
    TEST_CHECK(refused(path, CERIUM_ERR_FORMAT, "newer cerium"));
    TEST_CHECK(refused(folder, CERIUM_ERR_IO, "not a file"));
    TEST_CHECK(refused(path_of("no/such/folder.db"), CERIUM_ERR_IO, "No such file"));
    /* An empty file counts as a new one. */
    path = path_of("empty.db");
    fclose(fopen(path, "w"));
    s = open_at(path);
    store_close(&s);
}

/* A process that died between the tables and the version leaves nothing half done: version 0 of
 * ours is migrated, and one that was written to before is kept. */
static void test_migration_is_whole(void)
{
    const char *path = path_of("cut.db");
    store *s = open_at(path);
    store_response r = response_of("resp_1", 1, 1);
    TEST_CHECK(store_put(s, &r, &err) == CERIUM_OK);
    store_close(&s);
    s = open_at(path);
    TEST_CHECK(found_as(s, &r));
    store_close(&s);
    run_sql(path, "DROP TABLE responses; DROP TABLE keys; DROP TABLE changes;"
                  " DROP TABLE usage; DROP TABLE drained; DROP TABLE totals;"
                  " PRAGMA user_version = 0");
    s = open_at(path);
    TEST_CHECK(absent(s, 1, "resp_1") && store_put(s, &r, &err) == CERIUM_OK);
    store_close(&s);
    run_sql(path, "DROP TABLE responses");
    TEST_CHECK(refused(path, CERIUM_ERR_IO, "no such table"));
}

/* Data of version 1 is there, and newer fields are unset. */
static void test_first_version(void)
{
    const char *path = path_of("first.db");
    run_sql(path, "CREATE TABLE responses (tenant INTEGER NOT NULL, id TEXT NOT NULL, previous_id "
                  "TEXT, created_at INTEGER NOT NULL, model TEXT, response BLOB NOT NULL, input "
                  "BLOB NOT NULL, tokens BLOB NOT NULL, UNIQUE (tenant, id));"
                  "CREATE INDEX responses_by_age ON responses (created_at);"
                  "CREATE INDEX responses_of_tenant ON responses (tenant, created_at);"
                  "INSERT INTO responses VALUES (5, 'resp_1', NULL, 9, 'm', x'7b7d', x'5b5d',"
                  " x'0100000002000000');"
                  "PRAGMA application_id = 1130721897; PRAGMA user_version = 1");
    static const int32_t tokens[] = {1, 2};
    store *s = open_at(path);
    store_response old = {.id = "resp_1", .tenant = 5, .created_at = 9, .response = VIEW("{}"),
                          .input = VIEW("[]"), .tokens = tokens, .n_tokens = 2, .model = "m",
                          .n_head = SIZE_MAX};
    store_response new = response_of("resp_2", 5, 10);
    TEST_CHECK(store_measure(s).responses == 1 && store_measure(s).bytes == 4096);
    TEST_CHECK(found_as(s, &old) && !store_put(s, &new, &err) && found_as(s, &new));
    TEST_CHECK(store_measure(s).responses == 2 && store_measure(s).bytes == 8192);
    store_close(&s);
}

/* ---- files of other programs ---- */

typedef struct {
    const char *name, *fault;
    const char *side; /* suffix of the foreign file; "" = the database */
    const char *text; /* its content; NULL: the kind below */
    enum { OTHER_FILE, OTHER_LINK, OTHER_DANGLING, OTHER_FIFO, OTHER_FOLDER, OTHER_NAME } kind;
} not_ours;

static const not_ours others[] = {
    {"text", "not a database", "", "hello\n", OTHER_FILE},
    {"long text", "not a database", "", NULL, OTHER_FILE},
    {"link to text", "not a database", "", "hello\n", OTHER_LINK},
    {"link to nothing", "a link to nothing", "", NULL, OTHER_DANGLING},
    {"link to an empty file", "behind a link", "", "", OTHER_LINK},
    {"FIFO", "not a file", "", NULL, OTHER_FIFO},
    {"folder", "not a file", "", NULL, OTHER_FOLDER},
    {"another name", "hard link", "", "", OTHER_NAME},
    {"log", "another program", "-wal", "hello\n", OTHER_FILE},
    {"long log", "another program", "-wal", NULL, OTHER_FILE},
    {"linked log", "a link", "-wal", "hello\n", OTHER_LINK},
    {"log linked to nothing", "a link", "-wal", NULL, OTHER_DANGLING},
    {"log with another name", "hard link", "-wal", "", OTHER_NAME},
    {"FIFO for a log", "not a regular file", "-wal", NULL, OTHER_FIFO},
    {"index", "another program", "-shm", "hello\n", OTHER_FILE},
    {"linked index", "a link", "-shm", "hello\n", OTHER_LINK},
    {"folder for an index", "not a regular file", "-shm", NULL, OTHER_FOLDER},
    {"journal", "another program", "-journal", "hello, world\n", OTHER_FILE},
    {"linked journal", "a link", "-journal", "hello\n", OTHER_LINK},
};

static void put_text(const char *path, const not_ours *o)
{
    FILE *f = fopen(path, "w");
    for (int i = 0; !o->text && i < 4000; i++) fprintf(f, "this is no database at all\n");
    fprintf(f, "%s", o->text ? o->text : "");
    fclose(f);
    TEST_CHECK(chmod(path, 0644) == 0);
}

/* Makes it at `path`; `real` is the path of the file with the content. */
static void make_other(const not_ours *o, const char *path, char real[192])
{
    bool is_apart = o->kind == OTHER_LINK || o->kind == OTHER_NAME;
    snprintf(real, 192, "%s%s", path, is_apart ? ".real" : "");
    switch (o->kind) {
    case OTHER_FILE: put_text(real, o); break;
    case OTHER_LINK: put_text(real, o); TEST_CHECK(symlink(real, path) == 0); break;
    case OTHER_NAME: put_text(real, o); TEST_CHECK(link(real, path) == 0); break;
    case OTHER_DANGLING: TEST_CHECK(symlink("nowhere", path) == 0); break;
    case OTHER_FIFO: TEST_CHECK(mkfifo(path, 0644) == 0); break;
    case OTHER_FOLDER: TEST_CHECK(mkdir(path, 0755) == 0); break;
    }
}

/* A process killed while it writes the index leaves a part of it, in pages. */
static void test_index_in_part(void)
{
    static const off_t sizes[] = {0, 3, 4096, 12288, 28672, 32768, 36864};
    for (size_t i = 0; i < ARRAY_LEN(sizes); i++) {
        char name[32], path[128], side[160];
        snprintf(name, sizeof name, "part-%zu", i);
        snprintf(path, sizeof path, "%s", path_of(name));
        snprintf(side, sizeof side, "%s-shm", path);
        fclose(fopen(side, "w"));
        TEST_CHECK(chmod(side, 0644) == 0 && truncate(side, sizes[i]) == 0);
        store *s = NULL;
        int status = store_open(&s, path, &err);
        TEST_CHECK_THAT(status == CERIUM_OK, "%lld: %s", (long long)sizes[i], err.message);
        store_close(&s);
    }
}

static bool same_times(const struct stat *a, const struct stat *b)
{
    return a->st_mtim.tv_sec == b->st_mtim.tv_sec && a->st_mtim.tv_nsec == b->st_mtim.tv_nsec &&
           a->st_ctim.tv_sec == b->st_ctim.tv_sec && a->st_ctim.tv_nsec == b->st_ctim.tv_nsec;
}

/* Refused in one line, and left untouched: content, mode, owner and times are the same, and
 * no file was created next to it. */
static void test_files_of_others(void)
{
    static const char *const sides[] = {"", "-wal", "-shm", "-journal"};
    for (size_t i = 0; i < ARRAY_LEN(others); i++) {
        const not_ours *o = &others[i];
        char name[32], path[128], at[160], real[192];
        struct stat was, is, gone;
        snprintf(name, sizeof name, "other-%zu", i);
        snprintf(path, sizeof path, "%s", path_of(name));
        snprintf(at, sizeof at, "%s%s", path, o->side);
        make_other(o, at, real);
        TEST_CHECK(lstat(o->kind == OTHER_LINK ? real : at, &was) == 0);
        store *s = NULL;
        int status = store_open(&s, path, &err);
        TEST_CHECK_THAT(status != CERIUM_OK && !s && strstr(err.message, o->fault), "%s: %s",
                        o->name, status ? err.message : "taken");
        store_close(&s);
        TEST_CHECK(lstat(o->kind == OTHER_LINK ? real : at, &is) == 0);
        TEST_CHECK_THAT(was.st_mode == is.st_mode && was.st_size == is.st_size &&
                        was.st_ino == is.st_ino && same_times(&was, &is), "%s", o->name);
        for (size_t k = 0; k < ARRAY_LEN(sides); k++) {
            snprintf(real, sizeof real, "%s%s", path, sides[k]);
            TEST_CHECK_THAT(!strcmp(sides[k], o->side) || lstat(real, &gone), "%s: made %s",
                            o->name, real);
        }
    }
    /* A database of another program in the same mode as ours, and one of ours behind a link. */
    const char *path = path_of("their.db");
    struct stat was, is;
    run_sql(path, "PRAGMA journal_mode = WAL; CREATE TABLE t (x)");
    TEST_CHECK(chmod(path, 0644) == 0 && stat(path, &was) == 0);
    TEST_CHECK(refused(path, CERIUM_ERR_FORMAT, "another program"));
    TEST_CHECK(stat(path, &is) == 0 && was.st_mode == is.st_mode && same_times(&was, &is));
    char link_path[128];
    store_response r = response_of("resp_1", 1, 1);
    snprintf(link_path, sizeof link_path, "%s", path_of("link.db"));
    TEST_CHECK(symlink("ours.db", link_path) == 0);
    store *s = open_at(path_of("ours.db")), *linked;
    TEST_CHECK(store_put(s, &r, &err) == CERIUM_OK);
    linked = open_at(link_path);
    TEST_CHECK(found_as(linked, &r) && !strcmp(store_file(linked), store_file(s)));
    store_close(&linked);
    store_close(&s);
}

/* A version that named itself in the log alone, and died before the log was in the file. */
static void test_name_in_the_log(void)
{
    const char *path = path_of("logged.db");
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        sqlite3 *db;
        bool bad = sqlite3_open(path, &db) ||
                   sqlite3_exec(db, "PRAGMA journal_mode = WAL; BEGIN; PRAGMA application_id ="
                                    " 1130721897; CREATE TABLE left (x); COMMIT", NULL, NULL, NULL);
        _exit(bad); /* without closing it */
    }
    int status = -1;
    TEST_CHECK(waitpid(child, &status, 0) == child && status == 0);
    store *s = open_at(path);
    store_response r = response_of("resp_1", 1, 1);
    TEST_CHECK(s && store_put(s, &r, &err) == CERIUM_OK && found_as(s, &r));
    store_close(&s);
}

static void test_locked(void)
{
    const char *path = path_of("locked.db");
    store *s = open_at(path);
    store_response r = response_of("resp_1", 1, 1);
    sqlite3 *other;
    TEST_CHECK(!sqlite3_open(path, &other));
    TEST_CHECK(!sqlite3_exec(other, "BEGIN IMMEDIATE", NULL, NULL, NULL));
    TEST_CHECK(store_put(s, &r, &err) == CERIUM_ERR_IO && strstr(err.message, "locked"));
    TEST_CHECK(absent(s, 1, "resp_1")); /* readers continue */
    TEST_CHECK(!sqlite3_exec(other, "COMMIT", NULL, NULL, NULL));
    TEST_CHECK(store_put(s, &r, &err) == CERIUM_OK && found_as(s, &r));
    sqlite3_close(other);
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
        TEST_SKIP("a full disk: this SQLite writes in another way");
        return;
    }
    store *s = open_at(path_of("full.db"));
    store_response first = response_of("resp_1", 1, 1), next = response_of("resp_2", 1, 1);
    TEST_CHECK(store_put(s, &first, &err) == CERIUM_OK);
    disk_is_full = true;
    TEST_CHECK(store_put(s, &next, &err) == CERIUM_ERR_IO && strstr(err.message, "disk is full"));
    TEST_CHECK(found_as(s, &first) && absent(s, 1, "resp_2"));
    disk_is_full = false;
    TEST_CHECK(store_put(s, &next, &err) == CERIUM_OK && found_as(s, &next));
    store_close(&s);
    vfs->xSetSystemCall(vfs, NULL, NULL);
}

/* As a user who may read but not write; root may always. */
static void test_read_only(void)
{
    const char *path = path_of("read-only.db");
    store *s = open_at(path);
    store_close(&s);
    TEST_CHECK(chmod(path, 0400) == 0 && chmod(folder, 0555) == 0);
    if (geteuid() == 0 && (chown(path, 65534, 65534) || chown(folder, 65534, 65534))) {
        TEST_SKIP("a read-only file: root cannot become somebody else here");
        return;
    }
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        if (geteuid() == 0 && setuid(65534)) _exit(2);
        _exit(!refused(path, CERIUM_ERR_IO, "read-only"));
    }
    int status = -1;
    TEST_CHECK(waitpid(child, &status, 0) == child);
    TEST_CHECK_THAT(WIFEXITED(status) && WEXITSTATUS(status) == 0, "status %x", (unsigned)status);
    chmod(folder, 0700);
}

int main(void)
{
    if (!mkdtemp(folder)) return perror(folder), 1;
    TEST_RUN(test_rows_come_back);
    TEST_RUN(test_tenants_are_apart);
    TEST_RUN(test_list_and_expire);
    TEST_RUN(test_age);
    TEST_RUN(test_ten_thousand);
    TEST_RUN(test_bounds);
    TEST_RUN(test_large_row);
    TEST_RUN(test_file_stays_and_is_private);
    TEST_RUN(test_not_ours);
    TEST_RUN(test_migration_is_whole);
    TEST_RUN(test_first_version);
    TEST_RUN(test_index_in_part);
    TEST_RUN(test_files_of_others);
    TEST_RUN(test_name_in_the_log);
    TEST_RUN(test_locked);
    TEST_RUN(test_full_disk);
    TEST_RUN(test_read_only);
    char command[64];
    snprintf(command, sizeof command, "rm -rf %s", folder);
    if (system(command)) printf("cannot remove %s\n", folder);
    return unit_report("store");
}
