/* test_pointer.c - an answer's tokens are sampled from the mixture of the model's probabilities
 * with the text's own: each is recomputed outside the session, in a file and for infill. */
#include <math.h>
#include <string.h>

#include "cerium.h"
#include "base/memory.h"
#include "sampling/pointer.h"

#include "../unit/unit.h"

#define BUNDLED "models/cerium-line.gguf"
#define OTHER "tests/golden/fixtures/qwen2.gguf"

enum { NEW = 40, PROMPT_MAX = 1000, CONTEXT = 200 };

static cerium_engine *engine;
static pointer_vocabulary *vocabulary;
static uint32_t n_vocab, n_mixed, n_other;

/* The roles by the tokens' names. */
static pointer_token role_of(int32_t token)
{
    pointer_token t = {{NULL, 0}, POINTER_TEXT};
    t.text.ptr = cerium_token_bytes(engine, token, &t.text.len);
    bool is_control = t.text.len > 4 && !memcmp(t.text.ptr, "<|", 2) &&
                      !memcmp(t.text.ptr + t.text.len - 2, "|>", 2);
    if (!t.text.len || is_control) t.kind = POINTER_BREAK;
    if (cerium_token_is_end(engine, token)) t.kind = POINTER_END;
    if (t.text.len == 14 && !memcmp(t.text.ptr, "<|fim_middle|>", 14)) t.kind = POINTER_SEAM;
    return t;
}

static void open_engine(const char *path, float strength)
{
    cerium_engine_config config;
    cerium_engine_info info;
    cerium_error err;
    cerium_engine_config_defaults(&config);
    config.model_path = path;
    config.threads = 2;
    TEST_CHECK_THAT(cerium_engine_open(&engine, &config, &err) == 0, "%s", err.message);
    cerium_engine_describe(engine, &info);
    TEST_CHECK(info.pointer == strength);
    n_vocab = info.n_vocab;
    pointer_token *tokens = memory_zalloc(n_vocab, sizeof *tokens);
    TEST_CHECK(tokens != NULL);
    for (uint32_t i = 0; tokens && i < n_vocab; i++) tokens[i] = role_of((int32_t)i);
    TEST_CHECK(pointer_vocabulary_open(&vocabulary, tokens, n_vocab, NULL) == 0);
    memory_free(tokens);
}

static void close_engine(void)
{
    pointer_vocabulary_close(&vocabulary);
    cerium_engine_close(&engine);
}

static int32_t best_of(const float *logits)
{
    int32_t best = 0;
    for (uint32_t i = 1; i < n_vocab; i++)
        if (logits[i] > logits[best]) best = (int32_t)i;
    return best;
}

static double logprob_of(const float *logits, int32_t token)
{
    double max = (double)logits[best_of(logits)], sum = 0;
    for (uint32_t i = 0; i < n_vocab; i++) sum += exp((double)logits[i] - max);
    return (double)logits[token] - max - log(sum);
}

/* One token per step, so that the logits of each can be read. */
static void check_answer(const int32_t *prompt, size_t n_prompt, float strength)
{
    const cerium_sampling sampling = {.pointer = strength, .step_tokens_max = 1, .logprobs = true,
                                      .ignore_end = true};
    cerium_session_config config = {.no_speculation = true};
    cerium_session *session = NULL;
    cerium_error err;
    pointer *p = NULL;
    TEST_CHECK(cerium_session_open(&session, engine, &config, &err) == 0);
    TEST_CHECK(cerium_session_sync(session, prompt, n_prompt, NULL, &err) == 0);
    TEST_CHECK(pointer_open(&p, vocabulary, PROMPT_MAX + NEW, &err) == 0);
    for (uint32_t i = 0; i < NEW; i++) {
        size_t n, n_logits;
        cerium_step step;
        TEST_CHECK_THAT(cerium_session_step(session, &sampling, &step, &err) == 0, "%s",
                        err.message);
        const int32_t *timeline = cerium_session_tokens(session, &n);
        const float *logits = cerium_session_logits(session, &n_logits);
        const float *mixed = pointer_mix(p, logits, strength, timeline, (uint32_t)n - 1);
        int32_t want = best_of(mixed);
        double logprob = logprob_of(mixed, want);
        n_mixed += mixed != logits;
        n_other += want != best_of(logits);
        TEST_CHECK_THAT(step.tokens[0] == want, "%d, not %d", step.tokens[0], want);
        TEST_CHECK_THAT(fabs((double)step.logprobs[0] - logprob) < 1e-4, "%f, not %f",
                        (double)step.logprobs[0], logprob);
    }
    pointer_close(&p);
    cerium_session_close(&session);
}

static const char text[] =
    "static int read_header(reader *r, header *out)\n{\n    uint32_t magic, version;\n"
    "    if (read_u32(r, &magic) || magic != MAGIC) return fail(r, \"no header\");\n"
    "    if (read_u32(r, &version) || version > NEWEST) return fail(r, \"too new\");\n"
    "    out->version = version;\n    return 0;\n}\n\n"
    "static int read_footer(reader *r, footer *out)\n{\n    uint32_t magic, version;\n    ";

static void check_model(void)
{
    int32_t prompt[PROMPT_MAX];
    size_t n = 0;
    cerium_infill in = {.prefix = text, .prefix_len = sizeof text - 1,
                        .suffix = "\n    return 0;\n}\n", .suffix_len = 17};
    TEST_CHECK(cerium_tokenize(engine, text, sizeof text - 1, CERIUM_TOKENIZE_BEGIN, prompt,
                               PROMPT_MAX, &n, NULL) == 0);
    size_t skipped = n > CONTEXT ? n - CONTEXT : 0; /* for a small model, the end */
    check_answer(prompt + skipped, n - skipped, 1);
    check_answer(prompt + skipped, n - skipped, 0.5f);
    if (cerium_infill_tokens(engine, &in, prompt, PROMPT_MAX, &n, NULL) == 0 &&
        n <= CONTEXT)
        check_answer(prompt, n, 1);
}

static void test_what_is_chosen_is_the_mixture(void)
{
    open_engine(BUNDLED, 1);
    check_model();
    close_engine();
    open_engine(OTHER, 0);
    check_model();
    close_engine();
    TEST_CHECK_THAT(n_mixed > NEW && n_other > 0, "%u mixtures, %u choices", n_mixed, n_other);
}

static void test_what_is_no_share(void)
{
    static const float bad[] = {-0.1f, 1.01f, NAN};
    cerium_session *session = NULL;
    cerium_step step;
    cerium_error err;
    int32_t begin[] = {1, 2, 3};
    open_engine(OTHER, 0);
    TEST_CHECK(cerium_session_open(&session, engine, NULL, &err) == 0);
    TEST_CHECK(cerium_session_sync(session, begin, 3, NULL, &err) == 0);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        cerium_sampling sampling = {.pointer = bad[i]};
        TEST_CHECK(cerium_session_step(session, &sampling, &step, &err) == CERIUM_ERR_ARGUMENT);
        TEST_CHECK_THAT(strstr(err.message, "pointer") != NULL, "%s", err.message);
    }
    cerium_session_close(&session);
    close_engine();
}

int main(void)
{
    TEST_RUN(test_what_is_chosen_is_the_mixture);
    TEST_RUN(test_what_is_no_share);
    return unit_report("pointer");
}
