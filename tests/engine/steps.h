/* steps.h - an answer by steps and by a request, with its last logits, and a comparison of two: for
 * tests of drafts. */
#ifndef TESTS_GOLDEN_STEPS_H
#define TESTS_GOLDEN_STEPS_H

#include "requests.h"

/* A session of its own tenant: the prefix cache has nothing for it. */
static inline cerium_session *session_of(cerium_engine *e)
{
    cerium_session *session = NULL;
    cerium_error err;
    cerium_session_config config = {.tenant = ++fresh_tenant};
    TEST_CHECK_THAT(cerium_session_open(&session, e, &config, &err) == 0, "%s", err.message);
    return session;
}

/* By steps, at most step_max tokens each, into *j; its last logits into out. */
static inline void by_steps(cerium_session *session, job *j, uint32_t step_max, float *out)
{
    cerium_error err;
    cerium_step step = {0};
    size_t n = 0;
    j->n_tokens = 0;
    j->text_len = 0;
    TEST_CHECK(cerium_session_sync(session, j->prompt, j->n_prompt, NULL, &err) == 0);
    while (j->n_tokens < j->n_new && step.stop == CERIUM_STOP_NONE) {
        cerium_sampling sampling = j->sampling;
        sampling.step_tokens_max = j->n_new - j->n_tokens;
        if (step_max && step_max < sampling.step_tokens_max) sampling.step_tokens_max = step_max;
        TEST_CHECK(cerium_session_step(session, &sampling, &step, &err) == 0);
        TEST_CHECK(step.n_tokens >= 1 && step.n_tokens <= sampling.step_tokens_max);
        memcpy(j->tokens + j->n_tokens, step.tokens, step.n_tokens * sizeof *step.tokens);
        memcpy(j->logprobs + j->n_tokens, step.logprobs, step.n_tokens * sizeof *step.logprobs);
        memcpy(j->text + j->text_len, step.text, step.text_len);
        j->n_tokens += step.n_tokens;
        j->text_len += step.text_len;
    }
    j->stop = step.stop;
    const int32_t *timeline = cerium_session_tokens(session, &n);
    TEST_CHECK(n == j->n_prompt + j->n_tokens);
    TEST_CHECK(!memcmp(timeline + j->n_prompt, j->tokens, j->n_tokens * sizeof *timeline));
    const float *logits = cerium_session_logits(session, &n);
    TEST_CHECK(logits != NULL);
    if (logits) memcpy(out, logits, n * sizeof *out);
}

static inline void compare(const job *j, const job *want, bool is_request)
{
    TEST_CHECK_THAT(j->n_tokens == want->n_tokens, "%u, not %u", j->n_tokens, want->n_tokens);
    TEST_CHECK(!memcmp(j->tokens, want->tokens, want->n_tokens * sizeof *want->tokens));
    TEST_CHECK(!memcmp(j->logprobs, want->logprobs, want->n_tokens * sizeof *want->logprobs));
    TEST_CHECK(j->stop == want->stop);
    /* A request that ends releases text that steps hold back. */
    TEST_CHECK(is_request ? j->text_len >= want->text_len : j->text_len == want->text_len);
    TEST_CHECK(!memcmp(j->text, want->text, want->text_len));
}

static inline void by_request(job *j, float *out)
{
    size_t n = 0;
    run(j);
    TEST_CHECK_THAT(j->status == 0, "%d", j->status);
    const float *logits = cerium_session_logits(j->session, &n);
    TEST_CHECK(logits != NULL);
    if (logits) memcpy(out, logits, n * sizeof *out);
}

#endif
