/* tokenize.c - the speed of encoding texts that are hard for it: runs of one
 * character, of two in turn, text without blanks, bytes that are not text.
 *
 *   build/release/bench_tokenize [-n BYTES] MODEL.gguf...
 *
 * For each vocabulary: the texts at 1 KB, 32 KB, 1 MB and BYTES (default 31 MB), in MB/s; the best
 * of a few runs, of the longest one run.  Model files need no tensors. */
#include <time.h>

#include "base/memory.h"
#include "gguf/gguf.h"
#include "tokenizer/tokenizer.h"

#include "../tests/random.h"

enum { SIZES = 4, ROUNDS_BYTES = 4 << 20 };

static const struct {
    const char *name, *unit; /* the text repeats this unit, or is made by name */
} texts[] = {
    {"blanks", " "},
    {"newlines", "\n"},
    {"blank, newline", " \n"},
    {"tabs", "\t"},
    {"one letter", "a"},
    {"one capital", "A"},
    {"equals signs", "="},
    {"one digit", "7"},
    {"CJK", "\xE6\xBC\xA2"},
    {"emoji", "\xF0\x9F\x98\x80"},
    {"combining marks", "\xCC\x81"},
    {"not UTF-8", "\xFF"},
    {"broken UTF-8", "\xE6\xBC"},
    {"letters, digits", "a1"},
    {"symbols, letters", "=a"},
    {"special's beginning", "<|"},
    {"random letters", NULL},
    {"random CJK", NULL},
    {"random base64", NULL},
    {"random bytes", NULL},
    {"minified", "!function(e,t){for(var n=0;n<t.length;n++)e[n]=t[n]?e:\"x\"};"},
};

static void put_random(char *text, size_t n, const char *kind)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyz"
                                  "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789+/";
    if (!strcmp(kind, "random CJK")) {
        for (size_t i = 0; i + 3 <= n; i += 3) {
            unsigned code = 0x4E00 + random_below(0x5000);
            text[i] = (char)(0xE0 | code >> 12);
            text[i + 1] = (char)(0x80 | (code >> 6 & 0x3F));
            text[i + 2] = (char)(0x80 | (code & 0x3F));
        }
        for (size_t i = n - n % 3; i < n; i++) text[i] = ' ';
        return;
    }
    uint32_t n_letters = !strcmp(kind, "random letters") ? 26 : 64;
    bool any = !strcmp(kind, "random bytes");
    for (size_t i = 0; i < n; i++)
        text[i] = any ? (char)random_below(256) : letters[random_below(n_letters)];
}

static void put_text(char *text, size_t n, size_t which)
{
    const char *unit = texts[which].unit;
    if (!unit) {
        put_random(text, n, texts[which].name);
        return;
    }
    size_t len = strlen(unit);
    for (size_t i = 0; i < n; i++) text[i] = unit[i % len];
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* MB/s, and the sum of the ids: two builds with the same sum have the same ids. */
static double measure(const tokenizer *t, view text, int32_t *ids, uint64_t *sum)
{
    double best = 1e30;
    size_t n = 0;
    for (size_t done = 0; done < ROUNDS_BYTES; done += text.len) {
        double from = now();
        CHECK(!tokenizer_encode(t, text, false, false, ids, text.len + 1, &n, NULL));
        double took = now() - from;
        if (took < best) best = took;
    }
    for (size_t i = 0; i < n; i++) *sum = (*sum ^ (uint32_t)ids[i]) * UINT64_C(0x100000001B3);
    return 1e-6 * (double)text.len / best;
}

static int bench_file(const char *path, char *text, int32_t *ids, size_t n_max)
{
    cerium_error err;
    gguf_file *file = NULL;
    tokenizer *t = NULL;
    int status = gguf_open(&file, path, &err);
    if (!status) status = tokenizer_open(&t, file, &err);
    gguf_close(&file);
    if (status) {
        printf("%s: %s\n", path, err.message);
        return status;
    }
    view pre = tokenizer_pre(t);
    const size_t sizes[SIZES] = {1000, 32000, 1000000, n_max};
    printf("\n%s (%.*s)\n%-20s", path, (int)pre.len, pre.len ? pre.ptr : "", "MB/s at bytes");
    for (int k = 0; k < SIZES; k++) printf(" %9zu", sizes[k]);
    printf("   ids\n");
    for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
        uint64_t sum = 0;
        printf("%-20s", texts[i].name);
        for (int k = 0; k < SIZES; k++) {
            put_text(text, sizes[k], i);
            printf(" %9.1f", measure(t, (view){text, sizes[k]}, ids, &sum));
            fflush(stdout);
        }
        printf("   %016llx\n", (unsigned long long)sum);
    }
    tokenizer_close(&t);
    return CERIUM_OK;
}

int main(int argc, char **argv)
{
    size_t n_max = 31000000;
    int first = 1, failed = 0;
    if (argc > 2 && !strcmp(argv[1], "-n")) {
        n_max = (size_t)strtoull(argv[2], NULL, 10);
        first = 3;
    }
    if (first >= argc || n_max < 1 || n_max > 1u << 28) {
        fprintf(stderr, "usage: bench_tokenize [-n BYTES] MODEL.gguf...\n");
        return 2;
    }
    size_t room = n_max > 1000000 ? n_max : 1000000;
    char *text = memory_alloc(room);
    int32_t *ids = memory_alloc((room + 1) * sizeof *ids);
    CHECK(text && ids);
    for (int i = first; i < argc; i++) failed |= bench_file(argv[i], text, ids, n_max) != 0;
    memory_free(text);
    memory_free(ids);
    return failed;
}
