/* test_panels.c - logits of some panels of the head have the bits of those of all of them, in
 * whole and where only the best are wanted; and a drafter that says only some tokens, right or
 * random, changes no byte. */
#include <math.h>

#include "heads.h"

enum { ROWS = 5, LISTS = 4 };

static const int32_t text[ROWS] = {1, 70, 33, 70, 12};

static bool leaves_out; /* logits that are not among the best */

/* A list of panels: some neighbours, some apart, the first and the last. */
static uint32_t make_list(uint32_t *panels, uint32_t which, uint32_t n_panels)
{
    uint32_t n = 0;
    for (uint32_t p = 0; p < n_panels; p++) {
        const bool is_end = p == 0 || p + 1 == n_panels;
        if (which == 0 ? is_end : which == 1 ? p % 3 == 1 : which == 2 ? p % 40 < 19 : p < 6)
            panels[n++] = p;
    }
    return n;
}

/* Logits [ROWS][stride] of the text, of a list or of all. */
static void run_list(cerium_engine *e, const uint32_t *panels, uint32_t n_panels, uint32_t n_best,
                     float *logits)
{
    static const _Atomic bool go_on;
    kv_sequence *sequence = NULL;
    cerium_error err;
    CHECK(kv_sequence_open(&sequence, e->pool, ROWS, 0, &err) == 0);
    CHECK(kv_sequence_reserve(sequence, ROWS) == 0);
    for (uint32_t i = 0; i < ROWS; i++) {
        e->rows[i] = (cpu_row){.token = text[i],
                               .position = i,
                               .sequence = sequence,
                               .panels = panels,
                               .n_panels = n_panels,
                               .n_best = n_best};
        if (i % 2 == 0) engine_take_logits(e, &e->rows[i], logits + i * e->logits_stride);
    }
    CHECK(cpu_executor_run(e->executor, e->rows, ROWS, &go_on) == 0);
    kv_sequence_close(&sequence);
}

static float best_below(const float *y, uint32_t n, float most)
{
    float best = -INFINITY;
    for (uint32_t i = 0; i < n; i++)
        if (y[i] < most && y[i] > best) best = y[i];
    return best;
}

/* What was computed of the list is what is there; with n_best only the best have to be. */
static void check_list(const float *have, const float *all, const uint32_t *panels,
                       uint32_t n_panels, uint32_t n_vocab, uint32_t n_best)
{
    static float want[1 << 16];
    uint32_t n = 0, n_out = 0;
    for (uint32_t p = 0; p < n_panels; p++)
        for (uint32_t t = 16 * panels[p]; t < 16 * panels[p] + 16 && t < n_vocab; t++)
            want[n++] = all[t];
    for (uint32_t i = 0; i < n; i++) {
        const bool is_out = n_best && have[i] == -INFINITY;
        n_out += is_out;
        TEST_CHECK(is_out || !memcmp(&have[i], &want[i], sizeof *have));
    }
    const float first = best_below(want, n, INFINITY), second = best_below(want, n, first);
    TEST_CHECK(best_below(have, n, INFINITY) == first);
    TEST_CHECK(n_best == 1 || best_below(have, n, first) == second);
    TEST_CHECK(n_best == 0 || n < 1000 || !leaves_out || n_out > 0);
}

static void check_model(const char *path)
{
    cerium_engine *e = open_with(path, "off", NULL, 64);
    const size_t stride = e->logits_stride;
    const uint32_t n_all = (e->n_vocab + 15) / 16;
    float *all = memory_zalloc(2 * ROWS * stride, sizeof *all), *some = all + ROWS * stride;
    uint32_t *panels = memory_alloc(n_all * sizeof *panels);
    run_list(e, NULL, 0, 0, all);
    for (uint32_t which = 0; which < LISTS; which++) {
        const uint32_t n = make_list(panels, which, n_all);
        for (uint32_t n_best = 0; n_best < 3; n_best++) {
            run_list(e, panels, n, n_best, some);
            for (uint32_t i = 0; i < ROWS; i += 2)
                check_list(some + i * stride, all + i * stride, panels, n, e->n_vocab, n_best);
        }
    }
    memory_free(panels);
    memory_free(all);
    cerium_engine_close(&e);
}

static void test_all(void)
{
    check_model("models/cerium-line.gguf");
    head_form = "search";
    leaves_out = true;
    check_model("models/cerium-line.gguf");
    check_model(FIXTURES "gpt-oss-mxfp4.gguf");
    head_form = "full";
    leaves_out = false;
    check_model(FIXTURES "llama.gguf");
    check_model(FIXTURES "qwen2-yarn.gguf");     /* the last panel is not whole */
    check_model(FIXTURES "gpt-oss-mxfp4.gguf");
}

/* ---- a drafter that says few ---- */

enum { ASKED = 60, NEW = UNIT_TIMES(80, 40) };

/* An answer by steps, and the logits after it. */
static void answer(cerium_engine *e, int32_t *tokens, uint32_t round, float *logits)
{
    cerium_session *s = NULL;
    cerium_error err;
    cerium_step step;
    size_t n = ASKED;
    for (uint32_t i = 0; i < ASKED; i++) tokens[i] = (int32_t)(i * (7919 + round) % 251);
    TEST_CHECK(cerium_session_open(&s, e, NULL, &err) == 0);
    TEST_CHECK_THAT(cerium_session_sync(s, tokens, ASKED, NULL, &err) == 0, "%s", err.message);
    while (n < ASKED + NEW) {
        cerium_sampling sampling = {.ignore_end = true, .temperature = round % 2 ? 0.8f : 0,
                                    .seed = round, .step_tokens_max = (uint32_t)(ASKED + NEW - n)};
        TEST_CHECK(cerium_session_step(s, &sampling, &step, &err) == 0);
        memcpy(tokens + n, step.tokens, step.n_tokens * sizeof *tokens);
        n += step.n_tokens;
    }
    memcpy(logits, cerium_session_logits(s, NULL), e->n_vocab * sizeof *logits);
    cerium_session_close(&s);
}

static void check_few(const char *path, const char *by)
{
    static int32_t want[ASKED + NEW], have[ASKED + NEW];
    cerium_engine_stats s;
    cerium_engine *plain = open_with(path, "off", NULL, 256);
    cerium_engine *e = open_with(path, "always", by, 256);
    float *after = memory_alloc(2 * plain->n_vocab * sizeof *after);
    CHECK(draft_vocabulary_open(&e->draft->vocabulary, e->tokens, (uint32_t)e->draft->n_tokens,
                                2) == 0);
    for (uint32_t round = 0; round < 4; round++) {
        answer(plain, want, round, after);
        answer(e, have, round, after + plain->n_vocab);
        TEST_CHECK(!memcmp(want, have, sizeof want));
        TEST_CHECK(!memcmp(after, after + plain->n_vocab, plain->n_vocab * sizeof *after));
    }
    cerium_engine_measure(e, &s);
    printf("  few tokens of %s: %llu of %llu right\n", by, (unsigned long long)
           s.model_accepted_tokens, (unsigned long long)s.model_drafted_tokens);
    TEST_CHECK(s.model_drafted_tokens > 20);
    memory_free(after);
    cerium_engine_close(&e);
    cerium_engine_close(&plain);
}

static void test_few(void)
{
    check_few(FIXTURES "llama.gguf", FIXTURES "llama.gguf");
    check_few(FIXTURES "mtp-qwen35.gguf", "mtp");
    check_few(FIXTURES "mtp-glm4moe.gguf", "mtp");
    check_few(FIXTURES "mtp-planted-state.gguf", "mtp");
    check_few(FIXTURES "qwen35.gguf", FIXTURES "dflash-qwen35.gguf");
    check_few(FIXTURES "qwen35.gguf", FIXTURES "dspark-qwen35.gguf");
}

int main(void)
{
    TEST_RUN(test_all);
    TEST_RUN(test_few);
    return unit_report("panels");
}
