/* masks.c - the cost of token masks (constrained decoding) over texts, for a model's vocabulary.
 *
 *   build/release/bench_masks MODEL [SYNTAX GRAMMAR TEXT]...
 *
 * Without grammars, those below: of Codex's tools, and others.  Each text is cut into the model's
 * tokens; before each the mask is requested, and timed; then the same again with a warm
 * cache.  Times are the thread's own, and of each mask the least of several walks counts, so that
 * other work on the machine does not.  A file with the vocabulary alone will do.  SYNTAX is
 * cerium.h's number. */
#include "engine/guide.h"

enum { TOKENS_MAX = 4096, ROUNDS = 12 };

static const char *const samples[] = {
    "0",
    "{\"type\":\"object\"}",
    "{\"name\": \"Alice Springs\", \"note\": \"This is a longer piece of text, with several words "
    "and "
    "\\\"quotes\\\" and\\nmore.\", \"list\": [1, 2, 3.5, true, null, {\"deep\": {\"er\": []}}], "
    "\"path\": \"src/engine/guide.c\"}",
    "0",
    "{\"type\":\"object\",\"properties\":{\"cmd\":{\"type\":\"array\",\"items\":{\"type\":"
    "\"string\"}},\"workdir\":{\"type\":\"string\"},\"timeout_ms\":{\"type\":\"number\"},"
    "\"justification\":{\"type\":\"string\",\"maxLength\":200}},\"required\":[\"cmd\"],"
    "\"additionalProperties\":false}",
    "{\"cmd\": [\"bash\", \"-lc\", \"grep -rn foo src | head -20\"], \"workdir\": "
    "\"/home/user/project\", "
    "\"timeout_ms\": 10000, \"justification\": \"Looking for the place where the function is "
    "called "
    "from, in order to see what it does.\"}",
    "0",
    "{\"type\":\"object\",\"properties\":{\"cmd\":{\"type\":\"string\"},\"justification\":"
    "{\"type\":"
    "\"string\"},\"login\":{\"type\":\"boolean\"},\"max_output_tokens\":{\"type\":\"number\"},"
    "\"prefix_rule\":{\"type\":\"array\",\"items\":{\"type\":\"string\"}},\"sandbox_permissions\":"
    "{\"type\":\"string\",\"enum\":[\"use_default\",\"require_escalated\"]},\"shell\":{\"type\":"
    "\"string\"},\"tty\":{\"type\":\"boolean\"},\"workdir\":{\"type\":\"string\"},"
    "\"yield_time_ms\":{\"type\":\"number\"}},\"required\":[\"cmd\"],\"additionalPropertie"
    "s\":false}",
    "{\"cmd\": \"sed -n '1,120p' src/engine/guide.c | grep -n \\\"mask\\\"\", \"max_output"
    "_tokens\": "
    "4000, \"workdir\": \"/home/user/project\", \"yield_time_ms\": 1000}",
    "0",
    "{\"type\":\"object\",\"properties\":{\"explanation\":{\"type\":\"string\"},\"plan\":{\"type\":"
    "\"array\",\"items\":{\"type\":\"object\",\"properties\":{\"status\":{\"type\":\"string\","
    "\"enum\":[\"pending\",\"in_progress\",\"completed\"]},\"step\":{\"type\":\"string\"}}"
    ",\"required\":"
    "[\"step\",\"status\"],\"additionalProperties\":false}}},\"required\":[\"plan\"],"
    "\"additionalProperties\":false}",
    "{\"explanation\": \"First the test, then the fix.\", \"plan\": [{\"status\": "
    "\"in_progress\", \"step\": \"Write a failing test\"}, {\"status\": \"pending\", \"ste"
    "p\": \"Fix the matcher\"}]}",
    "2",
    "start: begin_patch hunk+ end_patch\nbegin_patch: \"*** Begin Patch\" LF\n"
    "end_patch: \"*** End Patch\" LF?\n\nhunk: add_hunk | delete_hunk | update_hunk\n"
    "add_hunk: \"*** Add File: \" filename LF add_line+\n"
    "delete_hunk: \"*** Delete File: \" filename LF\n"
    "update_hunk: \"*** Update File: \" filename LF change_move? change?\n\nfilename: /(.+)/\n"
    "add_line: \"+\" /(.*)/ LF -> line\n\nchange_move: \"*** Move to: \" filename LF\n"
    "change: (change_context | change_line)+ eof_line?\n"
    "change_context: (\"@@\" | \"@@ \" /(.+)/) LF\n"
    "change_line: (\"+\" | \"-\" | \" \") /(.*)/ LF\neof_line: \"*** End of File\" LF\n\n"
    "%import common.LF\n",
    "*** Begin Patch\n*** Update File: src/engine/guide.c\n@@ static int open_guide(void)\n"
    " int status = 0;\n-    if (!g) return;\n+    if (!g) return CERIUM_ERR_ARGUMENT;\n"
    "*** Add File: tests/unit/test_new.c\n+#include \"unit.h\"\n+\n+int main(void) { return 0; }\n"
    "*** End Patch\n",
    "2",
    "start: (LINE \"\\n\")+\nLINE: /[ +-].*/",
    "+int main(void)\n-{ return 0; }\n more text on a line\n",
    "1",
    "[a-z ]{5,80}",
    "the quick brown fox jumps over the lazy dog again and again",
};

static int compare(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

/* One walk over the text; ns[n]: the minimal time of each mask in any walk. */
static void walk_text(matcher *w, const mask_vocabulary *v, const int32_t *tokens, size_t n,
                      uint64_t *ns)
{
    matcher_begin(w, 0);
    for (size_t i = 0; i < n; i++) {
        uint64_t begin = clock_thread_ns();
        const uint64_t *mask = mask_of(w, 0, v, false);
        uint64_t took = clock_thread_ns() - begin;
        if (took < ns[i]) ns[i] = took;
        if (!mask_has(mask, (uint32_t)tokens[i])) printf("  token %zu is not allowed\n", i);
        matcher_accept(w, 0, 0, mask_text(v, (uint32_t)tokens[i]));
    }
}

static void report(uint64_t *ns, size_t n, const char *what)
{
    uint64_t sum = 0, first = ns[0];
    for (size_t i = 0; i < n; i++) sum += ns[i];
    qsort(ns, n, sizeof *ns, compare);
    printf("  %s: %zu tokens: mean %.1f us, median %.1f, p90 %.1f, p99 %.1f, most %.1f; "
           "the first %.1f\n",
           what, n, (double)sum / 1e3 / (double)n, (double)ns[n / 2] / 1e3,
           (double)ns[n * 9 / 10] / 1e3, (double)ns[n * 99 / 100] / 1e3, (double)ns[n - 1] / 1e3,
           (double)first / 1e3);
}

/* Each walk with a new matcher, then once more with it. */
static int measure(const grammar *g, const mask_vocabulary *v, const int32_t *tokens, size_t n,
                   cerium_error *err)
{
    static uint64_t ns[2][TOKENS_MAX];
    memset(ns, 0xff, sizeof ns);
    for (int round = 0; round < ROUNDS; round++) {
        matcher *w = NULL;
        int status = matcher_open(&w, g, v->token_bytes_max, v->n_words, MASKS_KEPT, err);
        if (!status) status = mask_classes_open(w, v);
        for (int again = 0; again < 2 && !status; again++) walk_text(w, v, tokens, n, ns[again]);
        matcher_close(&w);
        RETURN_IF(status);
    }
    report(ns[0], n, "first time");
    report(ns[1], n, "again");
    return CERIUM_OK;
}

static int run(const tokenizer *t, const mask_vocabulary *v, const char *const *of,
               cerium_error *err)
{
    static int32_t tokens[TOKENS_MAX];
    uint64_t syntax = 0;
    size_t n = 0;
    grammar *g = NULL;
    parse_u64(view_of(of[0]), &syntax);
    uint64_t least = UINT64_MAX;
    for (int round = 0; round < ROUNDS; round++) {
        uint64_t begin = clock_thread_ns();
        grammar_free(&g);
        RETURN_IF(grammar_compile(&g, (cerium_grammar_syntax)syntax, view_of(of[1]), err));
        if (clock_thread_ns() - begin < least) least = clock_thread_ns() - begin;
    }
    printf("%.60s: compiled in %.2f ms, %u states, %u classes\n", of[1], (double)least / 1e6,
           g->n_states, g->n_classes);
    int status = tokenizer_encode_bare(t, view_of(of[2]), tokens, TOKENS_MAX, &n, err);
    if (!status && n > 0) status = measure(g, v, tokens, n, err);
    grammar_free(&g);
    return status;
}

int main(int argc, char **argv)
{
    gguf_file *file = NULL;
    tokenizer *t = NULL;
    mask_vocabulary *v = NULL;
    cerium_error err = {.status = 0};
    if (argc < 2) return fprintf(stderr, "bench_masks: MODEL [SYNTAX GRAMMAR TEXT]...\n"), 2;
    int status = gguf_open(&file, argv[1], &err);
    if (!status) status = tokenizer_open(&t, file, &err);
    uint64_t begin = clock_ns();
    if (!status) status = guide_vocabulary(&v, t, tokenizer_n_tokens(t), &err);
    if (!status)
        printf("%u tokens sorted in %.1f ms: %u plain, %u others; %u and %u nodes\n", v->n_vocab,
               (double)(clock_ns() - begin) / 1e6, v->plain.n_tokens, v->rest.n_tokens,
               v->plain.n_nodes, v->rest.n_nodes);
    const char *const *of = argc > 2 ? (const char *const *)argv + 2 : samples;
    int n = argc > 2 ? argc - 2 : (int)ARRAY_LEN(samples);
    for (int i = 0; i + 2 < n && !status; i += 3) status = run(t, v, of + i, &err);
    if (status) fprintf(stderr, "bench_masks: %s\n", err.message);
    mask_vocabulary_close(&v);
    tokenizer_close(&t);
    gguf_close(&file);
    return status != 0;
}
