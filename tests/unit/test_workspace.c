/* test_workspace.c - which files of a folder are read, what the stored index keeps and accepts, and
 * texts that change while they are held. */
#include "engine/workspace.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "engine/workspace_files.h"
#include "gguf/gguf.h"
#include "../random.h"
#include "unit.h"

enum { LARGE_TOKENS = 5000, VOCABULARY = 7 };

static char folder[64], cache[80];
static tokenizer *tokens;
static uint32_t n_vocab;
static const _Atomic bool never;
static char notice_text[600];
static void take_notice(void *user, const char *line)
{
    (void)user;
    snprintf(notice_text, sizeof notice_text, "%s", line);
}

/* Writes a file of the workspace, with a time of this many seconds after 2001. */
static void put(const char *name, const char *text, size_t len, int changed)
{
    char path[256];
    const struct timespec times[2] = {{978307200, 0}, {978307200 + changed, 0}};
    snprintf(path, sizeof path, "%s/%s", folder, name);
    for (char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = 0;
        mkdir(path, 0700);
        *slash = '/';
    }
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    CHECK(fd >= 0 && write(fd, text, len) == (ssize_t)len && close(fd) == 0);
    CHECK(utimensat(AT_FDCWD, path, times, 0) == 0);
}

static void put_text(const char *name, const char *text, int changed)
{
    put(name, text, strlen(text), changed);
}

static void run_in(const char *command)
{
    char line[256];
    snprintf(line, sizeof line, "%s %s", command, folder);
    CHECK(system(line) == 0);
}

static void begin(void)
{
    snprintf(folder, sizeof folder, "/tmp/cerium-workspace-XXXXXX");
    CHECK(mkdtemp(folder));
    snprintf(cache, sizeof cache, "%s/.cache", folder);
    notice_text[0] = 0;
}

static uint32_t encode(const char *text, int32_t *out, uint32_t cap)
{
    size_t n = 0;
    cerium_error err;
    CHECK(tokenizer_encode_bare(tokens, view_of(text), out, cap, &n, &err) == 0);
    return (uint32_t)n;
}

/* The index of the folder as it is. */
static void *make(const corpus *old, corpus *c, size_t *size)
{
    workspace_look look;
    cerium_error err;
    void *block = NULL;
    CHECK(workspace_look_at(&look, folder, &err) == 0);
    CHECK(workspace_build(&look, folder, tokens, VOCABULARY, old, &never, &block, size) == 0);
    const char *fault = corpus_read(c, (view){block, *size}, VOCABULARY, n_vocab);
    TEST_CHECK_THAT(!fault, "%s", fault);
    TEST_CHECK(c->state == workspace_look_hash(&look));
    workspace_look_close(&look);
    return block;
}

static bool has_text(const corpus *c, const char *text)
{
    int32_t want[256];
    uint32_t n = encode(text, want, 256);
    for (uint32_t i = 0; i + n <= c->n_tokens; i++)
        if (!memcmp(c->tokens + i, want, n * sizeof *want)) return true;
    return false;
}

/* ---- which files ---- */

static void test_files(void)
{
    static char line[4000], large[WORKSPACE_FILE_BYTES_MAX + 1];
    corpus c;
    size_t size;
    begin();
    memset(line, 'x', sizeof line);
    memset(large, '\n', sizeof large);
    put_text("old.c", "int oldest_of_all;\n", 1);
    put_text("src/deep/new.c", "int newest_of_all;\n", 9);
    put_text("middle.c", "int in_the_middle;\n", 5);
    put_text(".hidden", "int hidden_name;\n", 5);
    put_text(".git/config", "int hidden_folder;\n", 5);
    put_text("build/made.c", "int made_by_make;\n", 5);
    put("binary", "int with\0nul;\n", 14, 5);
    put("minified.js", line, sizeof line, 5);
    put("large.txt", large, sizeof large, 5);
    put("empty", "", 0, 5);
    char name[128];
    snprintf(name, sizeof name, "%s/link.c", folder);
    CHECK(symlink("/etc/passwd", name) == 0);
    snprintf(name, sizeof name, "%s/pipe", folder);
    CHECK(mkfifo(name, 0600) == 0);
    void *block = make(NULL, &c, &size);
    TEST_CHECK_THAT(c.n_files == 3, "%u", c.n_files);
    TEST_CHECK(has_text(&c, "int oldest_of_all;\n") && has_text(&c, "int in_the_middle;\n"));
    TEST_CHECK(!has_text(&c, "hidden") && !has_text(&c, "made_by_make") && !has_text(&c, "root:"));
    for (uint32_t i = 1; i < c.n_files; i++) /* the newest last: it is found first */
        TEST_CHECK(c.files[i - 1].changed_ns < c.files[i].changed_ns);
    memory_unmap(block, size);
    run_in("rm -r");
}

/* Unchanged files are not read again, and the result is the same; changed files are read. */
static void test_again(void)
{
    corpus c, again, anew;
    size_t size[3];
    begin();
    put_text("a.c", "int first_file(void);\n", 1);
    put_text("b.c", "int second_file(void);\n", 2);
    void *block = make(NULL, &c, &size[0]);
    put_text("a.c", "int other_bytes(long);\n", 1);
    put_text("b.c", "int SECOND_FILE(void);\n", 2); /* unchanged by time and size */
    put_text("c.c", "int third_file(void);\n", 3);
    void *next = make(&c, &again, &size[1]);
    TEST_CHECK(has_text(&again, "other_bytes") && has_text(&again, "third_file"));
    TEST_CHECK(has_text(&again, "second_file") && !has_text(&again, "SECOND_FILE"));
    void *fresh = make(NULL, &anew, &size[2]);
    TEST_CHECK(has_text(&anew, "SECOND_FILE") && again.state == anew.state);
    TEST_CHECK(again.state != c.state);
    memory_unmap(block, size[0]);
    memory_unmap(next, size[1]);
    memory_unmap(fresh, size[2]);
    run_in("rm -r");
}

/* Beyond the limit, the oldest files are left out. */
static void test_room(void)
{
    char *text = memory_alloc(WORKSPACE_FILE_BYTES_MAX), name[32];
    corpus c;
    size_t size;
    begin();
    for (int i = 0; i < 22; i++) {
        for (uint32_t k = 0; k < WORKSPACE_FILE_BYTES_MAX - 1; k++)
            text[k] = k % 80 == 79 ? '\n' : (char)('!' + random_below(90));
        snprintf(name, sizeof name, "%d", i);
        put(name, text, WORKSPACE_FILE_BYTES_MAX - 1, i);
    }
    void *block = make(NULL, &c, &size);
    TEST_CHECK_THAT(c.n_files > 2 && c.n_files < 22, "%u", c.n_files);
    TEST_CHECK(c.n_tokens <= WORKSPACE_TOKENS_MAX);
    TEST_CHECK(c.n_files && c.files[c.n_files - 1].changed_ns == (978307200 + 21) * 1000000000LL);
    memory_unmap(block, size);
    memory_free(text);
    run_in("rm -r");
}

/* Every allocation fails in turn. */
static void test_memory(void)
{
    workspace_look look;
    cerium_error err;
    corpus old;
    void *block;
    size_t size, old_size;
    long live = memory_live(), n = 0;
    begin();
    put_text("a.c", "int first_file(void);\n", 1);
    void *old_block = make(NULL, &old, &old_size);
    put_text("b.c", "int second_file(void);\n", 2);
    for (int status = CERIUM_ERR_MEMORY; status; n++) {
        TEST_CHECK(status == CERIUM_ERR_MEMORY && n < 100);
        memory_fail_at(n);
        status = workspace_look_at(&look, folder, &err);
        if (!status)
            status = workspace_build(&look, folder, tokens, VOCABULARY, &old, &never, &block,
                                     &size);
        memory_fail_at(-1);
        workspace_look_close(&look);
        TEST_CHECK(status == 0 || memory_live() == live + 1);
    }
    TEST_CHECK_THAT(n > 8, "%ld", n);
    memory_unmap(block, size);
    memory_unmap(old_block, old_size);
    run_in("rm -r");
}

/* ---- the block ---- */

/* A change of any byte is detected; so is every shorter block. */
static void test_damage(void)
{
    corpus c, other;
    size_t size;
    begin();
    put_text("a.c", "for (int i = 0; i < n; i++) sum += x[i];\n", 1);
    uint8_t *block = make(NULL, &c, &size);
    for (size_t i = 0; i < size; i += i < 400 ? 1 : 97) {
        block[i] ^= 1;
        TEST_CHECK(corpus_read(&other, (view){(char *)block, size}, VOCABULARY, n_vocab));
        block[i] ^= 1;
        TEST_CHECK(corpus_read(&other, (view){(char *)block, i}, VOCABULARY, n_vocab));
    }
    TEST_CHECK(!corpus_read(&other, (view){(char *)block, size}, VOCABULARY, n_vocab));
    TEST_CHECK(corpus_read(&other, (view){(char *)block, size}, VOCABULARY + 1, n_vocab));
    memory_unmap(block, size);
    run_in("rm -r");
}

/* Broken chains and invalid tokens are detected, though the checksum is right. */
static void test_sound(void)
{
    size_t size = corpus_bytes(1, 100);
    void *block = memory_map(size);
    corpus c, other;
    for (int fault = 0; fault < 6; fault++) {
        memset(block, 0, size);
        corpus_open(&c, block, 1, 100);
        c.files[0] = (corpus_file){.first = 0, .n = 100};
        for (int i = 0; i < 100; i++) c.tokens[i] = i % 9;
        if (fault == 1) c.files[0].n = 99;
        if (fault == 2) c.tokens[50] = (int32_t)n_vocab;
        if (fault == 3) c.tokens[50] = -1;
        if (fault == 4) c.index.older[1][60] = 61; /* sealing leaves places that it made */
        corpus_seal(&c, block, VOCABULARY);
        if (fault == 5) c.index.heads[0][3] = 101;
        const char *got = corpus_read(&other, (view){block, size}, VOCABULARY, n_vocab);
        TEST_CHECK_THAT((got != NULL) == (fault > 0 && fault != 4), "%d", fault);
        c.index.older[1][60] = 61;
        TEST_CHECK(!ngrams_is_sound(&c.index));
    }
    memory_unmap(block, size);
}

/* A large index finds what a naive search finds, where chains are short. */
static void test_large(void)
{
    static int32_t text[LARGE_TOKENS];
    size_t size = ngrams_bytes_large(LARGE_TOKENS);
    void *memory = memory_map(size);
    uint32_t n_found = 0;
    ngrams x, y;
    for (uint32_t i = 0; i < LARGE_TOKENS; i++)
        text[i] = i > 700 && random_below(5) ? text[i - 700] : (int32_t)random_below(3000);
    ngrams_open_large(&x, memory, LARGE_TOKENS);
    ngrams_grow(&x, text, LARGE_TOKENS);
    ngrams_attach_large(&y, memory, LARGE_TOKENS);
    TEST_CHECK(ngrams_is_sound(&y));
    for (uint32_t round = 0; round < 300; round++) {
        uint32_t n = 1 + random_below(LARGE_TOKENS - 1), at = 0, want = 0;
        uint32_t same = ngrams_find(&y, text, text, n, UINT32_MAX, &at);
        for (uint32_t i = 0; i < LARGE_TOKENS; i++) {
            uint32_t agree = ngrams_match(text, i, text, n);
            if (agree > want) want = agree;
        }
        TEST_CHECK_THAT(same == (want >= NGRAMS_LARGE_SHORT ? want : 0), "%u %u", same, want);
        TEST_CHECK(same == 0 || ngrams_match(text, at, text, n) == same);
        n_found += same > 0;
    }
    TEST_CHECK(n_found > 100);
    memory_unmap(memory, size);
}

/* ---- the thread ---- */

/* Waits for an index, with a text in it unless that is NULL, however busy the machine
 * is.  Returns whether the newest index then has `expected`. */
static bool comes(workspace *w, const char *text, const char *expected)
{
    static const struct timespec nap = {0, 10000000};
    for (;;) {
        const corpus *c = workspace_take(w);
        bool is_there = c && (!text || has_text(c, text)), is_expected = c && has_text(c, expected);
        workspace_give(w, c);
        if (is_there) return is_expected;
        nanosleep(&nap, NULL);
    }
}

static workspace *open_it(const char *kept_in)
{
    workspace *w = NULL;
    cerium_error err;
    workspace_config config = {.folder = folder, .kept_in = kept_in, .tokens = tokens,
                               .n_vocab = n_vocab, .notice = take_notice};
    TEST_CHECK_THAT(workspace_open(&w, &config, &err) == 0, "%s", err.message);
    return w;
}

/* Texts appear, change, and stay valid for their holders. */
static void test_changes(void)
{
    begin();
    put_text("a.c", "int first_file(void);\n", 1);
    workspace *w = open_it(cache);
    TEST_CHECK(comes(w, NULL, "first_file"));
    const corpus *held = workspace_take(w);
    TEST_CHECK(workspace_n_tokens(w) == held->n_tokens);
    put_text("a.c", "int another_file(void);\n", 2);
    TEST_CHECK(comes(w, "another_file", "another_file"));
    TEST_CHECK(has_text(held, "first_file"));
    workspace_give(w, held);
    workspace_close(&w);
    TEST_CHECK_THAT(!notice_text[0], "%s", notice_text);
    run_in("rm -r");
}

/* A later start has the index before its scan; a damaged one is rebuilt; if none can be
 * written, there is one in memory, and a line in the log. */
static void test_kept(void)
{
    char command[256];
    begin();
    put_text("a.c", "int first_file(void);\n", 1);
    workspace *w = open_it(cache);
    TEST_CHECK(comes(w, NULL, "first_file"));
    workspace_close(&w);
    snprintf(command, sizeof command, "ls %s/workspace-*.drafts > /dev/null", cache);
    TEST_CHECK(system(command) == 0);
    put_text("a.c", "int other_file(void);\n", 1); /* the same by time and size: not read again */
    w = open_it(cache);
    TEST_CHECK(comes(w, NULL, "first_file"));
    workspace_close(&w);
    snprintf(command, sizeof command, "for f in %s/*.drafts; do printf x | dd of=$f bs=1 seek=90 "
             "conv=notrunc 2> /dev/null; done", cache);
    TEST_CHECK(system(command) == 0);
    w = open_it(cache);
    TEST_CHECK(comes(w, NULL, "other_file"));
    workspace_close(&w);
    TEST_CHECK_THAT(!notice_text[0], "%s", notice_text);
    /* A foreign file at the path of the next index stays. */
    snprintf(command, sizeof command, "cd %s && echo precious > mine && for f in *.drafts; do ln "
             "mine $f.new; done", cache);
    TEST_CHECK(system(command) == 0);
    put_text("a.c", "int third_file(void);\n", 2);
    w = open_it(cache); /* the kept index may come first, with the file as it was */
    TEST_CHECK(comes(w, "third_file", "third_file"));
    workspace_close(&w);
    snprintf(command, sizeof command, "cd %s && for f in *.new mine; do grep -q precious $f || "
             "exit 1; done && rm *.new mine", cache);
    TEST_CHECK(system(command) == 0);
    TEST_CHECK_THAT(strstr(notice_text, "not permitted"), "%s", notice_text);
    notice_text[0] = 0;
    w = open_it("/proc/nowhere");
    TEST_CHECK(comes(w, NULL, "third_file"));
    workspace_close(&w);
    TEST_CHECK(strstr(notice_text, "/proc/nowhere"));
    run_in("rm -r");
    cerium_error err;
    workspace_config config = {.folder = folder, .tokens = tokens, .n_vocab = n_vocab};
    TEST_CHECK(workspace_open(&w, &config, &err) == CERIUM_ERR_IO && strstr(err.message, folder));
}

int main(void)
{
    gguf_file *file = NULL;
    cerium_error err;
    CHECK(gguf_open(&file, "tests/golden/fixtures/llama.gguf", &err) == 0);
    CHECK(tokenizer_open(&tokens, file, &err) == 0);
    gguf_close(&file);
    n_vocab = tokenizer_n_tokens(tokens);
    TEST_RUN(test_files);
    TEST_RUN(test_again);
    TEST_RUN(test_room);
    TEST_RUN(test_memory);
    TEST_RUN(test_damage);
    TEST_RUN(test_sound);
    TEST_RUN(test_large);
    TEST_RUN(test_changes);
    TEST_RUN(test_kept);
    tokenizer_close(&tokens);
    return unit_report("workspace");
}
