/* test_cancel.c - a request is canceled at every place of its passes, prompt, answer and drafts:
 * it stops before another layer is computed, its output is the beginning of its answer, and a
 * continuation recomputes nothing and ends with the same bits.
 *
 * A place is an input of a matrix: cerium_engine_config.observe shows it while it is computed. */
#include <stdatomic.h>

#include "base/memory.h"
#include "requests.h"

#define FIXTURES "tests/golden/fixtures/"

enum { PROMPT = 70, BATCH = 32, ANSWER = 30, PLACES = 60, LOGITS_MAX = 4096 };

static _Atomic long left;                 /* places before the cancel; then counted on */
static cerium_session *_Atomic victim;
static job want;
static float want_logits[LOGITS_MAX];

static void observe(void *user, const cerium_observation *seen)
{
    (void)user;
    (void)seen;
    cerium_session *s = victim;
    if (atomic_fetch_sub(&left, 1) == 0 && s) cerium_session_cancel(s);
}

static void open_observed(const char *model, uint32_t threads)
{
    cerium_engine_config config;
    cerium_error err;
    cerium_engine_config_defaults(&config);
    config.model_path = model;
    config.threads = threads;
    config.batch_tokens_max = BATCH;
    config.context_tokens_max = 256;
    config.speculation = "always";
    config.observe = observe;
    TEST_CHECK_THAT(cerium_engine_open(&engine, &config, &err) == 0, "%s", err.message);
    cerium_engine_describe(engine, &info);
    CHECK(info.n_vocab <= LOGITS_MAX);
}

/* Places in a pass with the maximal number of rows. */
static long places_of_a_pass(void)
{
    cerium_error err;
    cerium_session *s = open_session(++fresh_tenant);
    long before = left;
    TEST_CHECK(cerium_session_sync(s, want.prompt, BATCH, NULL, &err) == 0);
    cerium_session_close(&s);
    return before - left;
}

/* Continue after a timeline of n tokens, in its session or another one. */
static void go_on(job *j, size_t n, uint64_t tenant, bool in_another)
{
    uint32_t n_output = n > PROMPT ? (uint32_t)n - PROMPT : 0;
    cerium_usage usage;
    memcpy(j->prompt + PROMPT, want.tokens, n_output * sizeof *j->prompt);
    j->n_prompt = PROMPT + n_output;
    j->n_new = ANSWER - n_output;
    j->n_prediction = 0;
    if (in_another) {
        cerium_session_close(&j->session);
        j->session = open_session(tenant);
    }
    run(j);
    TEST_CHECK(j->status == 0 && j->n_tokens == j->n_new);
    TEST_CHECK(!memcmp(j->tokens, want.tokens + n_output, j->n_tokens * sizeof *j->tokens));
    const float *logits = cerium_session_logits(j->session, &n);
    TEST_CHECK(logits && !memcmp(logits, want_logits, n * sizeof *logits));
    cerium_session_usage(j->session, &usage);
    TEST_CHECK_THAT(usage.reused_tokens + usage.computed_tokens >= j->n_prompt, "%u and %u of %u",
                    usage.reused_tokens, usage.computed_tokens, j->n_prompt);
}

/* Cancel after this many places. False if it ended before. */
static bool cancel_at(long place, long pass, bool in_another)
{
    static job have;
    const long layer = pass / (long)info.n_layers;
    cerium_usage usage;
    size_t n;
    uint64_t tenant = ++fresh_tenant;
    have = want;
    have.prediction = want.tokens;
    have.n_prediction = ANSWER;
    have.session = open_session(tenant);
    atomic_store(&left, place);
    victim = have.session;
    run(&have);
    victim = NULL;
    const long after = -atomic_load(&left) - 1;
    bool is_canceled = have.status == CERIUM_ERR_CANCELED;
    const int32_t *timeline = cerium_session_tokens(have.session, &n);
    TEST_CHECK(n <= PROMPT || !memcmp(timeline + PROMPT, want.tokens,
                                      (n - PROMPT) * sizeof *timeline));
    TEST_CHECK(!memcmp(timeline, want.prompt, (n < PROMPT ? n : PROMPT) * sizeof *timeline));
    if (is_canceled) {
        TEST_CHECK_THAT(after <= layer, "%ld places after the cancel at %ld, %ld in a layer", after,
                        place, layer);
        TEST_CHECK_THAT(n >= PROMPT || (long)n >= place / pass * BATCH, "%zu left at %ld", n,
                        place);
        go_on(&have, n, tenant, in_another);
        cerium_session_usage(have.session, &usage);
        /* All but the last token, which was sampled but not computed. */
        TEST_CHECK_THAT(usage.reused_tokens + 1 >= n, "%u of %zu", usage.reused_tokens, n);
    }
    cerium_session_close(&have.session);
    return is_canceled;
}

static void check(const char *model, uint32_t threads)
{
    static job alone;
    uint32_t n_canceled = 0, n_ended = 0;
    open_observed(model, threads);
    want = (job){.n_new = ANSWER, .class_ = CERIUM_CLASS_TURN,
                 .sampling = {.temperature = 0.8f, .seed = 5, .ignore_end = true}};
    make_prompt(&want, PROMPT, 0, 0, 77);
    run_alone(&want, &alone, want_logits);
    memcpy(want.tokens, alone.tokens, sizeof want.tokens);
    const long pass = places_of_a_pass();
    /* Undisturbed, it has this many places. */
    TEST_CHECK(!cancel_at(1L << 40, pass, false));
    const long all = (1L << 40) - atomic_load(&left);
    for (long place = 0; place < all; place += all / PLACES + 1) {
        if (cancel_at(place, pass, n_canceled % 2))
            n_canceled++;
        else
            n_ended++;
    }
    TEST_CHECK_THAT(n_canceled >= PLACES * 3 / 4 && n_ended <= 2, "%u cancelled, %u not",
                    n_canceled, n_ended);
    cerium_engine_close(&engine);
}

static void test_everywhere(void)
{
    check(FIXTURES "qwen2-q4_0.gguf", 1);
    check(FIXTURES "qwen2-q4_0.gguf", 2);
}

static void test_everywhere_with_windows_and_experts(void)
{
    check(FIXTURES "gpt-oss-mxfp4.gguf", 1);
    check(FIXTURES "gpt-oss-mxfp4.gguf", 2);
}

static void test_everywhere_with_states(void)
{
    check(FIXTURES "qwen35moe.gguf", 1);
    check(FIXTURES "qwen35moe.gguf", 2);
}

int main(void)
{
    TEST_RUN(test_everywhere);
    TEST_RUN(test_everywhere_with_windows_and_experts);
    TEST_RUN(test_everywhere_with_states);
    return unit_report("cancel");
}
