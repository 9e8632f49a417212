/* exists.c - the cost of looking up names: processor time for each line of labelled code, as
 * the watchdog passes it to the reader, with a mapped and warm index.
 *
 *   bench_exists ROOT SET.jsonl     the environment made by `setup.sh ROOT` */
#include "base/json.h"
#include "exists/environment.h"
#include "exists/uses.h"
#include "guard/lexer.h"

enum { ROUNDS = 7, LINES_MAX = 1 << 16, TOKEN_BYTES = 4 };

static uint32_t ns[LINES_MAX]; /* the minimum over all rounds, for each line */
static uint64_t n_bytes;

static uint32_t run_code(const names_index *x, guard_language language, view code, uint32_t at,
                         bool first)
{
    exists_finding list[USES_FINDINGS_MAX];
    uses_state s;
    lexer lex;
    size_t from = 0;
    uses_begin(&s);
    lexer_begin(&lex, language);
    for (size_t i = 0; i < code.len && at < LINES_MAX; i++) {
        if (!lexer_step(&lex, code.ptr[i]) && i + 1 < code.len) continue;
        uint64_t begin = clock_ns();
        (void)uses_line(x, &s, language, (view){code.ptr + from, i + 1 - from}, true, list);
        uint64_t took = clock_ns() - begin;
        if (first || took < ns[at]) ns[at] = (uint32_t)took;
        at++;
        from = i + 1;
    }
    return at;
}

static uint32_t run_set(const names_index *x, FILE *set, bool first)
{
    char *line = NULL;
    size_t size = 0;
    uint32_t at = 0;
    json_error_t why;
    rewind(set);
    for (ssize_t n; (n = getline(&line, &size, set)) > 0;) {
        json_t *in = json_read((view){line, (size_t)n}, 0, &why);
        const char *code = json_string_value(json_object_get(in, "code"));
        const char *language = json_string_value(json_object_get(in, "language"));
        if (code && language) {
            if (first) n_bytes += strlen(code);
            at = run_code(x, guard_language_named(view_of(language)), view_of(code), at, first);
        }
        json_decref(in);
    }
    memory_release(line);
    return at;
}

static int by_size(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return x < y ? -1 : x > y;
}

int main(int argc, char **argv)
{
    names_index *x = NULL;
    cerium_error err;
    FILE *set = argc == 3 ? fopen(argv[2], "r") : NULL;
    uint64_t sum = 0, begin = clock_process_ns();
    uint32_t n = 0;
    if (!set) return fprintf(stderr, "bench_exists ROOT SET.jsonl\n"), 2;
    environment_config c = {.root = argv[1]};
    if (environment_read(&x, &c, &err)) return fprintf(stderr, "%s\n", err.message), 1;
    printf("the index: %.1f s of processor time, read anew\n",
           (double)(clock_process_ns() - begin) / 1e9);
    for (int round = 0; round < ROUNDS; round++) n = run_set(x, set, round == 0);
    for (uint32_t i = 0; i < n; i++) sum += ns[i];
    qsort(ns, n, sizeof *ns, by_size);
    printf("%u lines, %llu bytes; a token of 4 bytes: %.3f us on average\n", n,
           (unsigned long long)n_bytes, (double)sum / 1e3 / ((double)n_bytes / TOKEN_BYTES));
    printf("a line: median %.2f us, 99th of a hundred %.2f us\n", ns[n / 2] / 1e3,
           ns[n - 1 - n / 100] / 1e3);
    index_close(&x);
    fclose(set);
    return 0;
}
