/* fuzz_sampler.c - settings and logits from the input: for any values a token is chosen, it is
 * one that the filters allow, and the same the second time. */
#include "sampling/sampler.h"

#include <math.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { VOCAB_MAX = 512 };

typedef struct {
    float temperature, top_p, min_p, repetition_penalty;
    uint32_t repetition_tokens, top_k;
    uint64_t seed;
    uint8_t recent[8];
} header;

/* How many tokens rank above token without any penalty. */
static uint32_t rank_of(const float *logits, uint32_t n, int32_t token)
{
    float own = logits[token] == logits[token] ? logits[token] : -INFINITY;
    uint32_t above = 0;
    for (uint32_t i = 0; i < n; i++)
        above += logits[i] > own || (logits[i] == own && i < (uint32_t)token);
    return above;
}

static void check_top(const float *logits, uint32_t n)
{
    cerium_logprob out[10];
    size_t got = sampler_top(logits, n, out, 10);
    CHECK(got == (n < 10 ? n : 10));
    for (size_t i = 0; i < got; i++) {
        CHECK(out[i].logprob <= 0 && (i == 0 || out[i].logprob <= out[i - 1].logprob));
        CHECK(out[i].logprob == sampler_logprob(logits, n, NULL, out[i].token));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    header h;
    float logits[VOCAB_MAX];
    int32_t recent[ARRAY_LEN(h.recent)];
    if (size < sizeof h + sizeof *logits) return 0;
    memcpy(&h, data, sizeof h);
    size_t n = (size - sizeof h) / sizeof *logits;
    if (n > VOCAB_MAX) n = VOCAB_MAX;
    memcpy(logits, data + sizeof h, n * sizeof *logits);
    for (size_t i = 0; i < ARRAY_LEN(recent); i++) recent[i] = (int32_t)(h.recent[i] % n);

    const cerium_sampling sampling = {
        .temperature = h.temperature,
        .top_p = h.top_p,
        .min_p = h.min_p,
        .repetition_penalty = h.repetition_penalty,
        .repetition_tokens = h.repetition_tokens,
        .top_k = h.top_k,
        .seed = h.seed,
    };
    sampler *s;
    if (sampler_validate(&sampling, NULL) || sampler_open(&s, (uint32_t)n, NULL)) return 0;
    for (uint64_t position = 0; position < 4; position++) {
        int32_t token =
            sampler_choose(s, logits, (uint32_t)n, &sampling, recent, ARRAY_LEN(recent), position);
        CHECK(token >= 0 && (size_t)token < n);
        bool plain = h.repetition_penalty == 0 || h.repetition_penalty == 1;
        uint32_t allowed = h.temperature == 0 ? 1 : h.top_k ? h.top_k : (uint32_t)n;
        CHECK(!plain || rank_of(logits, (uint32_t)n, token) < allowed);
        CHECK(token == sampler_choose(s, logits, (uint32_t)n, &sampling, recent, ARRAY_LEN(recent),
                                      position));
    }
    check_top(logits, (uint32_t)n);
    sampler_close(&s);
    return 0;
}
