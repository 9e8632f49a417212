/* past_answers.c - drafts from past answers. The bundled model continues the first half of a file.
 * Then another session sends nearly the same prompt (without its first line): once for the same
 * tenant, whose first answer is a source of drafts, and once for a tenant without past answers.
 *
 *   make build/release/bench_past_answers
 *   build/release/bench_past_answers [-m MODEL] [-n COUNT] EDITS.jsonl
 *
 * Files are those before the edits.  Tokens per pass are counted; the time is that
 * of the processor, all threads.  The two texts must be equal, or the run ends. */
#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/memory.h"
#include "cerium.h"

enum {
    PROMPT_BYTES = 6000, PROMPT_BYTES_MIN = 200, PROMPT_MAX = PROMPT_BYTES + 8, ANSWER = 256,
    LINE_BYTES_MAX = 1 << 22,
};

typedef struct {
    uint64_t n_tokens, n_passes, n_drafted, n_right;
    double seconds;
} sums;

static cerium_engine *engine;

static void fail(const char *what)
{
    fprintf(stderr, "bench_past_answers: %s\n", what);
    exit(1);
}

static double processor_s(void) { return (double)clock_process_ns() / 1e9; }

/* Greedy, in a session of its own, into answer [ANSWER]; the prompt's pass is not counted. */
static void ask(uint64_t tenant, const int32_t *prompt, size_t n, int32_t *answer, sums *all)
{
    static const cerium_sampling sampling = {.ignore_end = true};
    cerium_session *session = NULL;
    cerium_session_config config = {.tenant = tenant};
    cerium_engine_stats before, after;
    cerium_step step;
    cerium_error err;
    if (cerium_session_open(&session, engine, &config, &err) ||
        cerium_session_sync(session, prompt, n, NULL, &err))
        fail(err.message);
    cerium_engine_measure(engine, &before);
    double from = processor_s();
    for (uint32_t done = 0; done < ANSWER; done += step.n_tokens, all->n_passes++) {
        cerium_sampling some = sampling;
        some.step_tokens_max = ANSWER - done;
        if (cerium_session_step(session, &some, &step, &err)) fail(err.message);
        memcpy(answer + done, step.tokens, step.n_tokens * sizeof *answer);
    }
    all->seconds += processor_s() - from;
    all->n_tokens += ANSWER;
    cerium_engine_measure(engine, &after);
    all->n_drafted += after.drafted_tokens - before.drafted_tokens;
    all->n_right += after.accepted_tokens - before.accepted_tokens;
    cerium_session_close(&session);
}

static size_t encode(const char *text, size_t n, int32_t *tokens)
{
    size_t n_tokens = 0;
    cerium_error err;
    if (cerium_tokenize(engine, text, n, CERIUM_TOKENIZE_BEGIN, tokens, PROMPT_MAX, &n_tokens,
                        &err))
        fail(err.message);
    return n_tokens;
}

/* The first half of the file, at most its last PROMPT_BYTES; and the same without a line. */
static bool make_prompts(const char *text, int32_t *first, size_t *n_first, int32_t *again,
                         size_t *n_again)
{
    const char *end = text + strlen(text) / 2;
    if (end - text > PROMPT_BYTES) text = end - PROMPT_BYTES;
    const char *rest = memchr(text, '\n', (size_t)(end - text));
    if (!rest || end - rest < PROMPT_BYTES_MIN) return false;
    *n_first = encode(text, (size_t)(end - text), first);
    *n_again = encode(rest + 1, (size_t)(end - rest - 1), again);
    return true;
}

static void print(const char *who, const sums *s)
{
    printf("| %s | %.2f | %.0f %% | %.2f |\n", who, (double)s->n_tokens / (double)s->n_passes,
           s->n_drafted ? 100.0 * (double)s->n_right / (double)s->n_drafted : 0.0, s->seconds);
}

int main(int argc, char **argv)
{
    static int32_t first[PROMPT_MAX], again[PROMPT_MAX], answers[3][ANSWER];
    sums once = {0}, same = {0}, stranger = {0};
    cerium_error err;
    cerium_engine_config config;
    cerium_engine_config_defaults(&config);
    config.model_path = "models/cerium-line.gguf";
    uint32_t n_max = 40, n = 0;
    for (int c; (c = getopt(argc, argv, "m:n:")) != -1;) {
        if (c == 'm') config.model_path = optarg;
        if (c == 'n') n_max = (uint32_t)strtoul(optarg, NULL, 10);
    }
    FILE *edits = optind < argc ? fopen(argv[optind], "r") : NULL;
    char *line = memory_alloc(LINE_BYTES_MAX);
    if (!edits || !line) fail("name a file of edits that can be read");
    if (cerium_engine_open(&engine, &config, &err)) fail(err.message);
    while (n < n_max && fgets(line, LINE_BYTES_MAX, edits)) {
        json_t *root = json_loads(line, 0, NULL);
        const char *text = json_string_value(json_object_get(root, "before"));
        size_t n_first, n_again;
        bool is_usable = text && make_prompts(text, first, &n_first, again, &n_again);
        json_decref(root);
        if (!is_usable) continue;
        uint64_t tenant = 2 * n++ + 2;
        ask(tenant, first, n_first, answers[0], &once);
        ask(tenant, again, n_again, answers[1], &same);
        ask(tenant + 1, again, n_again, answers[2], &stranger);
        if (memcmp(answers[1], answers[2], sizeof *answers)) fail("the texts differ");
    }
    if (n == 0) fail("no edits");
    printf("%u files, %d greedy tokens each\n\n| asked | tokens a pass | right | processor, s |\n"
           "|---|---|---|---|\n", n, ANSWER);
    print("at first", &once);
    print("again, by the same", &same);
    print("again, by another", &stranger);
    fclose(edits);
    memory_free(line);
    cerium_engine_close(&engine);
    return 0;
}
