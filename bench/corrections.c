/* corrections.c - corrections by the watchdog. The bundled model is forced to write weak lines and
 * then runs freely. Counted are the runs that release a weak line, those whose replacement of the
 * line parses, those whose whole output parses and scans clean, and, as a baseline, those that
 * parse without the watchdog. Also the watchdog's cost without findings: processor time per token,
 * minimum and median of several rounds.
 *
 *   bench_corrections MODEL [RUNS [FILE]]   prints one JSON object; to FILE one for each run,
 *                                           with its output */
#include <jansson.h>
#include <tree_sitter/api.h>

#include "../tests/guard/forced.h"
#include "guard/lexer.h"
#include "guard/tree.h"
#include "guard/window.h"

#define ERROR_SYMBOL ((TSSymbol)-1) /* tree-sitter's own, of nodes that are no code */

enum { NEW_TOKENS = 64, SAMPLES_MAX = 256, ROUNDS = 15, SPEED_TOKENS = 400 };

/* ---- parsing the released text ---- */

static bool has_error(TSNode at, uint32_t from, uint32_t to)
{
    if (ts_node_end_byte(at) <= from || ts_node_start_byte(at) >= to) return false;
    if (ts_node_symbol(at) == ERROR_SYMBOL) return true;
    if (!ts_node_has_error(at)) return false;
    for (uint32_t i = 0; i < ts_node_child_count(at); i++)
        if (has_error(ts_node_child(at, i), from, to)) return true;
    return false;
}

typedef struct {
    guard_language language;
    const char *code;
    size_t n, from, end;
    bool good;
} parse_job;

static void parse(void *arg)
{
    parse_job *p = arg;
    TSParser *parser = ts_parser_new();
    ts_parser_set_language(parser, role_grammar(p->language));
    TSTree *parsed = ts_parser_parse_string(parser, NULL, p->code, (uint32_t)p->n);
    p->good = parsed && !has_error(ts_tree_root_node(parsed), (uint32_t)p->from, (uint32_t)p->end);
    if (parsed) ts_tree_delete(parsed);
    ts_parser_delete(parser);
}

/* Whether the first n_lines logical lines of text parse after `before`.  An incomplete last one
 * was cut by the number of tokens; blocks that are open there are closed. */
static bool parses(guard_language language, const char *before, const char *text, uint32_t n_lines)
{
    static char code[2 * TEXT_MAX];
    lexer x, whole = {0};
    tree_memory memory;
    size_t from = strlen(before), end = 0;
    size_t n = (size_t)snprintf(code, sizeof code - WINDOW_CLOSERS, "%s%s", before, text);
    lexer_begin(&x, language);
    for (size_t i = 0; i < n && n_lines > 0; i++) {
        if (!lexer_step(&x, code[i]) || i < from) continue;
        n_lines -= strspn(code + (end ? end : from), " \t\r\n") + (end ? end : from) <= i;
        end = i + 1;
        whole = x;
    }
    if (!end) return false;
    parse_job job = {.language = language, .code = code, .from = from, .end = end};
    job.n = window_close(&whole, code, end, WINDOW_CLOSERS);
    if (tree_memory_open(&memory)) return false;
    bool enough = tree_memory_run(&memory, parse, &job);
    tree_memory_close(&memory);
    return enough && job.good;
}

/* ---- runs ---- */

typedef struct {
    uint32_t runs, weak, corrected, blocked, ended, noted, parsed, clean, discarded, taken;
    uint32_t replaced, withheld;
    uint32_t line_parsed; /* the first released line */
    uint32_t free_parsed; /* without a weak line before it, and without a watch */
} totals;

/* The model's output without interference. */
static bool free_parses(guard_language language, const char *before, const cerium_sampling *how,
                        run *r)
{
    watch *w = open_watch(GUARD_CODE, language, before, "off");
    cerium_session *s = open_session(true);
    drive(r, s, before, "", NEW_TOKENS, how, w);
    cerium_session_close(&s);
    watch_close(&w);
    return parses(language, before, r->text, UINT32_MAX);
}

static void write_run(FILE *f, const json_t *sample, uint32_t seed, const run *r, const run *free,
                      bool line, bool parsed, bool free_parsed)
{
    json_t *o = json_pack("{s:i, s:O, s:O, s:s%, s:s%, s:b, s:b, s:b, s:i, s:i}", "seed", (int)seed,
                          "prompt", json_object_get(sample, "prompt"), "language",
                          json_object_get(sample, "language"), "text", r->text, r->len, "free",
                          free->text, free->len, "line_parsed", line, "parsed", parsed,
                          "free_parsed", free_parsed, "taken", (int)r->n_taken, "again",
                          (int)r->n_again);
    if (o && !json_dumpf(o, f, JSON_COMPACT)) fputc('\n', f);
    json_decref(o);
}

static void run_sample(const json_t *sample, uint32_t seed, totals *t, FILE *texts)
{
    static run r, alone;
    const char *before = json_string_value(json_object_get(sample, "prompt"));
    const char *say = json_string_value(json_object_get(sample, "weak"));
    guard_language language =
        guard_language_named(view_of(json_string_value(json_object_get(sample, "language"))));
    const cerium_sampling sampling = {.temperature = seed ? 0.8f : 0, .top_k = 40, .seed = seed};
    if (!guard_has_grammar(language)) return;
    watch *w = open_watch(GUARD_CODE, language, before, "block");
    cerium_session *s = open_session(true);
    drive(&r, s, before, say, NEW_TOKENS, &sampling, w);
    bool weak = is_weak(GUARD_CODE, language, before, r.text);
    bool parsed = parses(language, before, r.text, UINT32_MAX);
    t->runs++;
    t->weak += weak;
    t->taken += r.n_taken;
    t->corrected += r.n_corrected > 0 && !r.n_blocked;
    t->blocked += r.n_blocked > 0;
    t->replaced += r.n_replaced;
    t->withheld += r.n_withheld;
    t->ended += r.ended && !r.n_blocked;
    t->noted += (strstr(r.text, "CWE-") && !r.n_withheld) || strstr(r.text, "; instead: ");
    t->parsed += parsed;
    bool line = r.n_corrected > 0 && !weak && parses(language, before, r.text, 1);
    bool free_parsed = free_parses(language, before, &sampling, &alone);
    if (texts) write_run(texts, sample, seed, &r, &alone, line, parsed, free_parsed);
    t->line_parsed += line;
    t->free_parsed += free_parsed;
    t->clean += r.n_corrected > 0 && parsed && !weak;
    t->discarded += (uint32_t)watch_measure(w).n_discarded;
    cerium_session_close(&s);
    watch_close(&w);
}

/* ---- cost ---- */

/* Processor time per token, of the whole process, because the machine may do other work at the same
 * time, and the sum of the tokens; 0 if there was none. */
static uint64_t time_answer(watch *w, uint64_t *sum)
{
    static const char text[] = "def main():\n";
    int32_t tokens[64];
    cerium_step step;
    watch_result out;
    cerium_sampling sampling = {.repetition_penalty = 1.15f};
    cerium_session *s = open_session(false);
    size_t n = encode(text, tokens, 64), n_made = 0;
    bool good = !cerium_session_sync(s, tokens, n, NULL, NULL);
    uint64_t start = clock_process_ns();
    *sum = 0;
    while (good && n_made < SPEED_TOKENS) {
        good = !cerium_session_step(s, &sampling, &step, NULL);
        if (good && w) good = !watch_step(w, &step, NULL, 0, &out) && out.order == CERIUM_WATCH_GO;
        if (!good || step.stop != CERIUM_STOP_NONE) break;
        *sum = *sum * 31 + (uint64_t)step.tokens[0];
        n_made++;
    }
    uint64_t ns = good && n_made ? (clock_process_ns() - start) / n_made : 0;
    cerium_session_close(&s);
    return ns;
}

static int by_size(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

/* Without a watch, with one, and without again: the difference of the first and the last comes from
 * the machine, not from the watch. */
static void measure(json_t *all)
{
    static const char *const names[] = {"token_ns_off", "token_ns_on", "token_ns_off_again"};
    uint64_t ns[3][ROUNDS], least = UINT64_MAX, sum[3];
    for (int i = 0; i < 3 * ROUNDS; i++) {
        watch *w = i % 3 == 1 ? open_watch(GUARD_CODE, GUARD_PYTHON, "", "block") : NULL;
        ns[i % 3][i / 3] = time_answer(w, &sum[i % 3]);
        if (!w) continue;
        uint64_t own = watch_measure(w).ns * 1000 / SPEED_TOKENS;
        if (own < least) least = own;
        watch_close(&w);
    }
    TEST_CHECK(sum[0] == sum[1] && sum[1] == sum[2]);
    for (int i = 0; i < 3; i++) {
        qsort(ns[i], ROUNDS, sizeof **ns, by_size);
        json_object_set_new(all, names[i], json_pack("[I,I]", (json_int_t)ns[i][0],
                                                     (json_int_t)ns[i][ROUNDS / 2]));
    }
    json_object_set_new(all, "guard_ns_per_token", json_real((double)least / 1000));
}

int main(int argc, char **argv)
{
    json_t *samples[SAMPLES_MAX];
    char line[4096];
    uint32_t n = 0;
    uint64_t runs = 1000;
    bool good = argc < 3 || parse_u64(view_of(argv[2]), &runs);
    totals t = {0};
    FILE *f = fopen("tests/guard/forced.jsonl", "r");
    FILE *texts = argc > 3 ? fopen(argv[3], "w") : NULL;
    good &= argc <= 3 || texts;
    if (argc < 2 || !good || !f || !open_forced(argv[1], 1024)) {
        fprintf(stderr,
                "usage: bench_corrections MODEL [RUNS [FILE]], beside tests/guard/forced.jsonl\n");
        return 2;
    }
    while (n < SAMPLES_MAX && fgets(line, sizeof line, f)) {
        samples[n] = json_loads(line, 0, NULL);
        n += samples[n] != NULL;
    }
    fclose(f);
    for (uint32_t i = 0; n && i < runs; i++) run_sample(samples[i % n], i / n, &t, texts);
    if (texts && fclose(texts)) return 1;
    const struct {
        const char *name;
        uint32_t n;
    } counts[] = {{"runs", t.runs}, {"weak", t.weak}, {"taken_back", t.taken},
                  {"corrected", t.corrected}, {"lines_replaced", t.replaced},
                  {"lines_withheld", t.withheld}, {"blocked", t.blocked}, {"ended", t.ended},
                  {"said_of_note", t.noted},
                  {"line_parsed_and_clean", t.line_parsed}, {"parsed", t.parsed},
                  {"parsed_and_clean", t.clean}, {"free_parsed", t.free_parsed},
                  {"discarded_tokens", t.discarded}};
    json_t *all = json_object();
    for (size_t i = 0; i < ARRAY_LEN(counts); i++)
        json_object_set_new(all, counts[i].name, json_integer(counts[i].n));
    measure(all);
    json_dumpf(all, stdout, JSON_INDENT(2));
    printf("\n");
    json_decref(all);
    for (uint32_t i = 0; i < n; i++) json_decref(samples[i]);
    close_forced();
    return unit_test_failed != 0;
}
