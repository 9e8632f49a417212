/* test_identity.c - the promises of docs/numerics.md, by memcmp on logits through the public API.
 *
 * A: the bits of a token's logits do not depend on the number of threads, on the size of batches,
 *    on how the prompt was cut, or on what the session computed before.
 * B: all instruction sets that this machine has give the same bits.
 *
 *   test_identity [--short] MODEL.gguf ...   (random weights will do: tools/make_model)
 *
 * Both hold for each type of keys and values; floats are tested with the first model alone,
 * with fewer settings and a shorter prompt.
 *
 * --short is for sanitizers: the prompt still spans two chunks of attention, but the reference
 * kernels, which are slow enough without a sanitizer, are left out. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cerium.h"

enum { PROMPT_MAX = 720, PROMPT_SHORT = 530, GREEDY = 6 };

typedef struct {
    uint32_t threads, batch;
    const char *cpu;
} setting;

/* The settings that one type of keys and values is checked with. */
typedef struct {
    const char *kv_type;
    uint32_t prompt_max;
    setting settings[16]; /* ended by one without threads */
} plan;

/* Logits at the end of the prompt, and the greedy tokens after it with the last logits of all. */
typedef struct {
    float *prompt, *last;
    int32_t tokens[GREEDY];
    size_t n_vocab;
} result;

static int passed, failed, is_short;

static void report(int good, const char *model, const char *what)
{
    if (good) {
        passed++;
    } else {
        failed++;
        printf("  FAIL %s: %s\n", model, what);
    }
}

static int fail(const char *model, const char *what, const cerium_error *err)
{
    printf("  FAIL %s: %s: %s\n", model, what, err->message);
    failed++;
    return -1;
}

static int open_engine(cerium_engine **engine, const char *model, const char *kv_type,
                       const setting *with)
{
    cerium_error err;
    cerium_engine_config config;
    cerium_engine_config_defaults(&config);
    config.model_path = model;
    config.threads = with->threads;
    config.batch_tokens_max = with->batch;
    config.cpu = with->cpu;
    config.kv_type = kv_type;
    config.sessions_max = 2;
    int status = cerium_engine_open(engine, &config, &err);
    /* An instruction set that the machine lacks is skipped, not failed. */
    if (status == CERIUM_ERR_ARGUMENT) return 1;
    return status ? fail(model, "open", &err) : 0;
}

static void keep(float **to, const cerium_session *session, size_t *n_vocab)
{
    const float *logits = cerium_session_logits(session, n_vocab);
    *to = malloc(*n_vocab * sizeof **to);
    if (*to && logits) memcpy(*to, logits, *n_vocab * sizeof **to);
}

/* pieces: lengths of partial prompts that are synced first, ended by 0. */
static int compute(result *r, cerium_engine *engine, const char *model, const int32_t *prompt,
                   size_t n, const size_t *pieces)
{
    cerium_error err;
    cerium_session *session = NULL;
    cerium_sampling sampling = {.ignore_end = true, .step_tokens_max = 1};
    memset(r, 0, sizeof *r);
    /* A tenant of its own: everything is computed, nothing found. */
    static uint64_t tenant;
    cerium_session_config config = {.tenant = ++tenant};
    if (cerium_session_open(&session, engine, &config, &err)) return fail(model, "session", &err);
    int status = 0;
    for (; pieces && *pieces && !status; pieces++)
        if (*pieces <= n) status = cerium_session_sync(session, prompt, *pieces, NULL, &err);
    if (!status) status = cerium_session_sync(session, prompt, n, NULL, &err);
    if (!status) keep(&r->prompt, session, &r->n_vocab);
    for (int i = 0; i < GREEDY && !status; i++) {
        cerium_step step;
        sampling.logprobs = i == GREEDY - 1; /* so that the last logits are whole */
        status = cerium_session_step(session, &sampling, &step, &err);
        if (!status) r->tokens[i] = step.tokens[0];
    }
    if (!status) keep(&r->last, session, &r->n_vocab);
    cerium_session_close(&session);
    return status ? fail(model, "compute", &err) : 0;
}

static void forget(result *r)
{
    free(r->prompt);
    free(r->last);
}

static int same(const result *a, const result *b)
{
    return a->n_vocab == b->n_vocab && !memcmp(a->tokens, b->tokens, sizeof a->tokens) &&
           !memcmp(a->prompt, b->prompt, a->n_vocab * sizeof(float)) &&
           !memcmp(a->last, b->last, a->n_vocab * sizeof(float));
}

static int finite(const result *r)
{
    for (size_t i = 0; i < r->n_vocab; i++)
        if (!(r->prompt[i] - r->prompt[i] == 0)) return 0;
    return 1;
}

static void check_setting(const char *model, const char *kv_type, const setting *with,
                          const int32_t *prompt, size_t n, const result *expected)
{
    char what[128];
    cerium_engine *engine = NULL;
    result r;
    snprintf(what, sizeof what, "threads %u, batches of %u, %s, KV in %s", with->threads,
             with->batch, with->cpu ? with->cpu : "best", kv_type);
    int status = open_engine(&engine, model, kv_type, with);
    if (status == 1) printf("  skipped: %s: not on this machine\n", what);
    if (status) return;
    if (compute(&r, engine, model, prompt, n, NULL) == 0) report(same(&r, expected), model, what);
    forget(&r);
    cerium_engine_close(&engine);
}

/* The same session history in different orders: all end at the same timeline. */
static void check_pieces(const char *model, cerium_engine *engine, const int32_t *prompt, size_t n,
                         const result *expected)
{
    static const struct {
        const char *what;
        size_t lengths[12];
    } cuts[] = {
        {"token by token at first", {1, 2, 3, 4, 5, 6, 7, 8, 0}},
        {"odd pieces", {1, 17, 64, 65, 129, 200, 511, 512, 513, 700, 0}},
        {"back and forth", {100, 30, 600, 63, 520, 1, 64, 0}},
    };
    for (size_t c = 0; c < sizeof cuts / sizeof *cuts; c++) {
        result r;
        if (compute(&r, engine, model, prompt, n, cuts[c].lengths) == 0)
            report(same(&r, expected), model, cuts[c].what);
        forget(&r);
    }
}

static void check_model(const char *model, const plan *p)
{
    static int32_t prompt[PROMPT_MAX];
    const setting base = {2, 128, NULL};
    cerium_engine *engine = NULL;
    cerium_engine_info info;
    result expected;
    if (open_engine(&engine, model, p->kv_type, &base)) return;
    cerium_engine_describe(engine, &info);
    size_t n = info.context_tokens_max - GREEDY - 1;
    if (n > p->prompt_max) n = p->prompt_max;
    if (is_short && n > PROMPT_SHORT) n = PROMPT_SHORT;
    for (size_t i = 0; i < n; i++)
        prompt[i] = (int32_t)(i * 2654435761u % 1000003 % info.n_vocab);
    if (compute(&expected, engine, model, prompt, n, NULL) == 0) {
        report(finite(&expected), model, "logits are finite");
        check_pieces(model, engine, prompt, n, &expected);
        for (const setting *s = p->settings; s->threads; s++)
            if (!is_short || !s->cpu || strcmp(s->cpu, "ref"))
                check_setting(model, p->kv_type, s, prompt, n, &expected);
    }
    forget(&expected);
    cerium_engine_close(&engine);
}

int main(int argc, char **argv)
{
    static const plan plans[] = {
        {"i8", PROMPT_MAX, {{1, 256, NULL}, {2, 256, NULL}, {3, 256, NULL}, {2, 1, NULL},
                            {3, 7, NULL}, {2, 16, NULL}, {1, 33, NULL}, {2, 64, "ref"},
                            {2, 256, "avx2"}, {2, 5, "avx2"}, {2, 256, "avx512vnni"},
                            {2, 5, "amx"}}},
        {"f16", PROMPT_SHORT, {{1, 256, NULL}, {2, 1, NULL}, {3, 7, NULL}, {2, 64, "ref"},
                               {2, 256, "avx2"}, {2, 256, "avx512vnni"}}},
        {"f32", PROMPT_SHORT, {{1, 256, NULL}, {3, 7, NULL}, {2, 64, "ref"}}},
    };
    is_short = argc > 1 && !strcmp(argv[1], "--short");
    const int first = 1 + is_short;
    for (int i = first; i < argc; i++) check_model(argv[i], &plans[0]);
    for (int p = 1; p < 3 && first < argc; p++) check_model(argv[first], &plans[p]);
    printf("identity: %d passed, %d failed\n", passed, failed);
    return failed != 0 || passed == 0;
}
