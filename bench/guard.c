/* guard.c - the watchdog's cost: nanoseconds per token and per line, memory per stream, and how
 * many findings come before their line is released.
 *
 * usage: bench_guard RULES SET.jsonl...    lines of {"id", "language", "code"}
 * Each sample is fed four bytes at a time, as a model writes.  Times are of single calls, of the
 * thread alone, and the minimum of ROUNDS rounds: other work on the machine counts little. */
#include <jansson.h>

#include "base/memory.h"
#include "base/thread.h"
#include "guard/guard.h"

enum { PIECE = 4, CALLS_MAX = 4 << 20, ROUNDS = 3 };

typedef struct {
    uint32_t *list;
    size_t n, at; /* calls; position of this round */
} calls;

typedef struct {
    /* ns of calls in which no line ended, in which one did, and in which one was judged */
    calls quiet, lines, judged;
    uint64_t clock_ns; /* of reading the clock */
    uint64_t n_findings, n_before, n_late;
} cost;

static void note(calls *c, uint64_t ns)
{
    if (c->at == CALLS_MAX) return;
    uint32_t *slot = &c->list[c->at++];
    if (c->at > c->n || ns < *slot) *slot = (uint32_t)ns;
    if (c->at > c->n) c->n = c->at;
}

static int by_value(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return x < y ? -1 : x > y;
}

static void take(cost *c, const guard_result *r, uint64_t safe)
{
    c->n_late += r->late;
    for (uint32_t i = 0; i < r->n_findings; i++) {
        c->n_findings++;
        c->n_before += r->findings[i].line_begin >= safe;
    }
}

static int feed(cost *c, const guard *g, guard_worker *w, guard_language language, view code,
                cerium_error *err)
{
    guard_stream *s;
    guard_result r;
    uint64_t safe = 0;
    guard_stream_config config = {.form = GUARD_CODE, .language = language};
    RETURN_IF(guard_stream_open(&s, g, &config, err));
    for (size_t at = 0; at < code.len; at += PIECE) {
        size_t n = code.len - at < PIECE ? code.len - at : PIECE;
        bool line = memchr(code.ptr + at, '\n', n) != NULL;
        uint64_t begin = thread_clock_ns();
        guard_feed(s, w, code.ptr + at, n, &r);
        uint64_t ns = thread_clock_ns() - begin;
        ns = ns > c->clock_ns ? ns - c->clock_ns : 0;
        note(r.n_judged ? &c->judged : line ? &c->lines : &c->quiet, ns);
        take(c, &r, safe);
        safe = r.safe;
    }
    guard_finish(s, w, &r);
    take(c, &r, safe);
    guard_stream_close(&s);
    return CERIUM_OK;
}

static int read_set(cost *c, const guard *g, guard_worker *w, const char *path, cerium_error *err)
{
    FILE *f = fopen(path, "r");
    char *text = NULL;
    size_t cap = 0;
    if (!f) return error_set(err, CERIUM_ERR_IO, "%s: cannot be opened", path);
    int status = CERIUM_OK;
    for (ssize_t n; !status && (n = getline(&text, &cap, f)) > 0;) {
        json_t *in = json_loadb(text, (size_t)n, 0, NULL), *code = json_object_get(in, "code");
        const char *language = json_string_value(json_object_get(in, "language"));
        if (!code || !language)
            status = error_set(err, CERIUM_ERR_FORMAT, "%s: not a set of samples", path);
        else
            status = feed(c, g, w, guard_language_named(view_of(language)),
                          (view){json_string_value(code), json_string_length(code)}, err);
        json_decref(in);
    }
    memory_release(text);
    fclose(f);
    return status;
}

static uint64_t show(const char *what, const calls *c)
{
    uint64_t sum = 0;
    uint32_t *list = c->list;
    size_t n = c->n;
    if (!n) return 0;
    qsort(list, n, sizeof *list, by_value);
    for (size_t i = 0; i < n; i++) sum += list[i];
    printf("| %s | %zu | %.2f | %.2f | %.2f | %.2f |\n", what, n, (double)sum / (double)n / 1000,
           list[n / 2] / 1000.0, list[n * 99 / 100] / 1000.0, list[n - 1] / 1000.0);
    return sum;
}

int main(int argc, char **argv)
{
    guard *g = NULL;
    guard_worker *w = NULL;
    cerium_error err;
    cost c = {.clock_ns = UINT64_MAX};
    calls *const all[] = {&c.quiet, &c.lines, &c.judged};
    bool room = true;
    for (size_t i = 0; i < ARRAY_LEN(all); i++)
        room &= (all[i]->list = memory_alloc(CALLS_MAX * sizeof *all[i]->list)) != NULL;
    for (int i = 0; i < 1000; i++) {
        uint64_t begin = thread_clock_ns(), ns = thread_clock_ns() - begin;
        if (ns < c.clock_ns) c.clock_ns = ns;
    }
    if (argc < 3 || !room) {
        fprintf(stderr, "usage: bench_guard RULES SET.jsonl...\n");
        return 2;
    }
    uint64_t begin = clock_ns();
    int status = guard_open(&g, argv[1], &err);
    double open_ms = (double)(clock_ns() - begin) / 1e6;
    if (!status) status = guard_worker_open(&w, g, &err);
    for (int round = 0; round < ROUNDS && !status; round++) {
        c.n_findings = c.n_before = c.n_late = 0;
        for (size_t i = 0; i < ARRAY_LEN(all); i++) all[i]->at = 0;
        for (int i = 2; i < argc && !status; i++) status = read_set(&c, g, w, argv[i], &err);
    }
    if (status) {
        fprintf(stderr, "bench_guard: %s\n", err.message);
        return 1;
    }
    guard_stream *s;
    CHECK(guard_stream_open(&s, g, &(guard_stream_config){0}, &err) == CERIUM_OK);
    printf("| microseconds | calls | mean | p50 | p99 | max |\n|---|---|---|---|---|---|\n");
    uint64_t total_ns = show("a token", &c.quiet);
    total_ns += show("a line's last token", &c.lines);
    total_ns += show("the same, judged", &c.judged);
    printf("\nall tokens: %.2f us each; memory a stream: %zu bytes; rules opened in %.0f ms\n"
           "raised before the line is out: %llu of %llu findings; %llu lines too much to parse\n",
           (double)total_ns / 1000 / (double)(c.quiet.n + c.lines.n + c.judged.n),
           guard_stream_bytes(s),
           open_ms, (unsigned long long)c.n_before, (unsigned long long)c.n_findings,
           (unsigned long long)c.n_late);
    guard_stream_close(&s);
    guard_worker_close(&w);
    guard_close(&g);
    for (size_t i = 0; i < ARRAY_LEN(all); i++) memory_free(all[i]->list);
    return 0;
}
