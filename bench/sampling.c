/* sampling.c - the cost of sampling a token, in us of thread CPU time.
 *
 *   build/release/bench_sampling [TOKENS]
 *
 * The logits are normally distributed, with three outliers, as in a model that hesitates
 * between a few; TOKENS of them (default 151,936, a vocabulary of Qwen's).  Each setting chooses
 * ROUNDS times, at new positions, and the minimum counts, so that other work does not; next to it
 * the same with the maximum of each piece already known, as after the output head. */
#include <math.h>

#include "../tests/random.h"
#include "base/memory.h"
#include "sampling/sampler.h"

enum { ROUNDS = 200, RECENT = 256 };

static const struct {
    const char *name;
    cerium_sampling sampling;
} settings[] = {
    {"greedy", {.seed = 0}},
    {"greedy, penalties", {.repetition_penalty = 1.2f}},
    {"all tokens", {.temperature = 0.7f}},
    {"top-p 0.95", {.temperature = 0.7f, .top_p = 0.95f}},
    {"top-k 40", {.temperature = 0.7f, .top_k = 40}},
    {"top-k 40, top-p 0.95, min-p 0.05",
     {.temperature = 0.7f, .top_k = 40, .top_p = 0.95f, .min_p = 0.05f}},
    {"min-p 0.05", {.temperature = 0.7f, .min_p = 0.05f}},
};

static double uniform(void) { return (random_u32() + 0.5) / 4294967296.0; }

static float normal(void)
{
    return (float)(sqrt(-2 * log(uniform())) * cos(2 * M_PI * uniform()));
}

static double least_us(sampler *s, const float *logits, const float *tops, uint32_t n,
                       const cerium_sampling *sampling)
{
    static int32_t recent[RECENT];
    uint64_t least = UINT64_MAX;
    for (uint32_t i = 0; i < RECENT; i++) recent[i] = (int32_t)random_below(n);
    for (uint64_t round = 0; round < ROUNDS; round++) {
        uint64_t begin = clock_thread_ns();
        sampler_choose_allowed(s, logits, tops, n, NULL, sampling, recent, RECENT, round);
        uint64_t took = clock_thread_ns() - begin;
        if (took < least) least = took;
    }
    return (double)least / 1e3;
}

int main(int argc, char **argv)
{
    uint64_t n = 151936;
    cerium_error err;
    sampler *s = NULL;
    if (argc > 2 || (argc == 2 && !parse_u64(view_of(argv[1]), &n)) || n < 3 ||
        n > SAMPLER_VOCAB_MAX)
        return fprintf(stderr, "bench_sampling: [TOKENS], 3 to %d\n", SAMPLER_VOCAB_MAX), 2;
    float *logits = memory_alloc(n * sizeof *logits);
    float *tops = memory_alloc((n / SAMPLER_PIECE + 1) * sizeof *tops);
    if (!logits || !tops || sampler_open(&s, (uint32_t)n, &err))
        return fprintf(stderr, "bench_sampling: no memory\n"), 1;
    for (uint64_t i = 0; i < n; i++) logits[i] = 2 * normal();
    for (int i = 0; i < 3; i++) logits[random_below((uint32_t)n)] = 16 - (float)i;
    for (uint64_t i = 0; i < n; i += SAMPLER_PIECE)
        tops[i / SAMPLER_PIECE] =
            greatest_of(logits + i, (uint32_t)(n - i < SAMPLER_PIECE ? n - i : SAMPLER_PIECE));
    printf("%-34s %9s %17s\n", "us a row", "by itself", "behind the head");
    for (size_t i = 0; i < ARRAY_LEN(settings); i++)
        printf("%-34s %9.1f %17.1f\n", settings[i].name,
               least_us(s, logits, NULL, (uint32_t)n, &settings[i].sampling),
               least_us(s, logits, tops, (uint32_t)n, &settings[i].sampling));
    sampler_close(&s);
    memory_free(logits);
    memory_free(tops);
    return 0;
}
