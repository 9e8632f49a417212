/* drafted.c - the gain from a draft model: a model continues texts without drafts, with drafts from
 * texts alone, and also with a draft model, in turn.
 *
 *   make build/release/bench_drafted
 *   build/release/bench_drafted -m MODEL [-d DRAFT|mtp] [-n TOKENS] [-t THREADS]
 *                               [-r TEMPERATURE] [-w]
 *                               FILE...
 *
 * Without a draft model it shows the cost of drafts from texts that fail: at -r 1.3 hardly
 * anything repeats.  Prompts are the first halves of files, at most 6,000 bytes of each, or with -w
 * all of it.  The time is processor time of all threads, and that of the prompts' passes is
 * counted separately; time of the draft model includes its reading of the prompt.  Texts must be
 * equal, or the run ends. */
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/base.h"
#include "cerium.h"

enum { KINDS = 3, PROMPT_BYTES = 6000, PROMPT_MAX = PROMPT_BYTES + 8, ANSWER_MAX = 4096 };

typedef struct {
    cerium_engine *engine;
    double seconds, prompt_seconds;
    uint64_t n_tokens, n_passes;
} kind;

static const char *const names[KINDS] = {"plain", "drafts from texts", "and a draft model"};
static kind kinds[KINDS];
static int n_kinds = KINDS; /* the last is left out without a draft model */

static void fail(const char *what)
{
    fprintf(stderr, "bench_drafted: %s\n", what);
    exit(1);
}

static void usage(void)
{
    fprintf(stderr, "usage: bench_drafted -m MODEL [-d DRAFT|mtp] [-n TOKENS] [-t THREADS] "
                    "[-r TEMPERATURE] [-w] FILE...\n");
    exit(2);
}

static double processor_s(void) { return (double)clock_process_ns() / 1e9; }

static void ask(kind *k, const int32_t *prompt, size_t n, const cerium_sampling *sampling,
                uint32_t n_new, int32_t *answer)
{
    cerium_session *session = NULL;
    cerium_step step;
    cerium_error err;
    if (cerium_session_open(&session, k->engine, NULL, &err)) fail(err.message);
    double from = processor_s();
    if (cerium_session_sync(session, prompt, n, NULL, &err)) fail(err.message);
    k->prompt_seconds += processor_s() - from;
    from = processor_s();
    for (uint32_t done = 0; done < n_new; done += step.n_tokens, k->n_passes++) {
        cerium_sampling some = *sampling;
        some.step_tokens_max = n_new - done;
        if (cerium_session_step(session, &some, &step, &err)) fail(err.message);
        memcpy(answer + done, step.tokens, step.n_tokens * sizeof *answer);
    }
    k->seconds += processor_s() - from;
    k->n_tokens += n_new;
    cerium_session_close(&session);
}

static void open_all(cerium_engine_config *config, const char *draft)
{
    cerium_error err;
    for (int i = 0; i < n_kinds; i++) {
        config->speculation = i == 0 ? "off" : "auto";
        config->draft_model = i == 2 ? draft : "off";
        if (cerium_engine_open(&kinds[i].engine, config, &err)) fail(err.message);
    }
}

static size_t read_prompt(const char *path, bool whole, int32_t *tokens)
{
    static char text[1 << 20];
    cerium_error err;
    size_t n_tokens = 0;
    FILE *f = fopen(path, "rb");
    if (!f) {
        fprintf(stderr, "bench_drafted: %s: %s\n", path, strerror(errno));
        exit(1);
    }
    size_t n = fread(text, 1, sizeof text, f), begin = 0;
    fclose(f);
    if (!whole) n /= 2;
    if (n > PROMPT_BYTES) begin = n - PROMPT_BYTES;
    if (cerium_tokenize(kinds[0].engine, text + begin, n - begin, CERIUM_TOKENIZE_BEGIN, tokens,
                        PROMPT_MAX, &n_tokens, &err))
        fail(err.message);
    return n_tokens;
}

static double percent(uint64_t part, uint64_t of)
{
    return of ? 100.0 * (double)part / (double)of : 0;
}

/* The share of right drafts, and the time of the draft model. */
static void print_drafts(void)
{
    cerium_engine_stats s;
    cerium_engine_measure(kinds[1].engine, &s);
    printf("\ndrafts from texts: %llu of %llu right (%.0f %%), %.2f us a token\n",
           (unsigned long long)s.accepted_tokens, (unsigned long long)s.drafted_tokens,
           percent(s.accepted_tokens, s.drafted_tokens),
           (double)s.drafting_ns / 1e3 / (double)kinds[1].n_tokens);
    if (n_kinds < KINDS) return;
    cerium_engine_measure(kinds[2].engine, &s);
    printf("the draft model: %llu of %llu right (%.0f %%), %llu tokens in %llu passes, %.0f us a "
           "pass, %.1f %% of the time; texts beside it: %llu of %llu\n",
           (unsigned long long)s.model_accepted_tokens, (unsigned long long)s.model_drafted_tokens,
           percent(s.model_accepted_tokens, s.model_drafted_tokens),
           (unsigned long long)s.draft_model_tokens, (unsigned long long)s.draft_model_passes,
           s.draft_model_passes ? (double)s.draft_model_ns / 1e3 / (double)s.draft_model_passes : 0,
           (double)s.draft_model_ns / 1e7 / kinds[2].seconds,
           (unsigned long long)(s.accepted_tokens - s.model_accepted_tokens),
           (unsigned long long)(s.drafted_tokens - s.model_drafted_tokens));
}

static void print(void)
{
    printf("| | tokens a pass | processor ms a token | times plain | prompts, s |\n"
           "|---|---|---|---|---|\n");
    for (int i = 0; i < n_kinds; i++) {
        const kind *k = &kinds[i];
        double ms = k->seconds * 1e3 / (double)k->n_tokens;
        printf("| %s | %.2f | %.3f | %.3f | %.2f |\n", names[i],
               (double)k->n_tokens / (double)k->n_passes, ms,
               kinds[0].seconds * 1e3 / (double)kinds[0].n_tokens / ms, k->prompt_seconds);
    }
    print_drafts();
}

int main(int argc, char **argv)
{
    static int32_t prompt[PROMPT_MAX], answers[KINDS][ANSWER_MAX];
    cerium_engine_config config;
    cerium_sampling sampling = {.ignore_end = true};
    const char *draft = NULL;
    uint32_t n_new = 256;
    bool whole = false;
    cerium_engine_config_defaults(&config);
    config.threads = 1;
    for (int c; (c = getopt(argc, argv, "m:d:n:t:r:w")) != -1;) {
        if (c == 'm') config.model_path = optarg;
        if (c == 'd') draft = optarg;
        if (c == 'n') n_new = (uint32_t)strtoul(optarg, NULL, 10);
        if (c == 't') config.threads = (uint32_t)strtoul(optarg, NULL, 10);
        if (c == 'r') sampling.temperature = strtof(optarg, NULL);
        if (c == 'w') whole = true;
        if (c == '?') usage();
    }
    if (!config.model_path || n_new < 1 || n_new > ANSWER_MAX || optind == argc) usage();
    if (!draft) n_kinds--;
    open_all(&config, draft);
    for (int i = optind; i < argc; i++) {
        size_t n = read_prompt(argv[i], whole, prompt);
        for (int k = 0; k < n_kinds; k++) { /* the first one finds colder caches */
            int who = (i + k) % n_kinds;
            ask(&kinds[who], prompt, n, &sampling, n_new, answers[who]);
        }
        for (int k = 1; k < n_kinds; k++)
            if (memcmp(answers[0], answers[k], n_new * sizeof **answers)) fail("the texts differ");
    }
    print();
    for (int i = 0; i < n_kinds; i++) cerium_engine_close(&kinds[i].engine);
    return 0;
}
