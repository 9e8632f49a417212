/* test_sampler.c - every filter against a naive one that sorts, draws against their exact
 * probabilities, and the logarithms against the C library. */
#include "sampling/sampler.h"

#include <float.h>
#include <math.h>

#include "base/memory.h"
#include "sampling/probability.h"
#include "../random.h"
#include "unit.h"

enum { VOCAB_MAX = 5000 };

static float random_unit(void) { return (float)(random_u32() >> 8) / (float)(1 << 24); }

/* Logits with ties, both zeros, infinities and NaN. */
static void random_logits(float *logits, uint32_t n)
{
    uint32_t kind = random_u32() % 4;
    for (uint32_t i = 0; i < n; i++) {
        logits[i] = 20 * random_unit() - 10;
        if (kind == 1) logits[i] = (float)(int)logits[i] * (random_u32() & 1 ? 1.0f : -1.0f);
        if (kind == 2 && random_u32() % 8 == 0) logits[i] = random_u32() & 1 ? NAN : -INFINITY;
        if (kind == 3) logits[i] *= random_u32() % 64 ? 0.1f : 4.0f;
    }
}

/* ---- the naive sampler ---- */

typedef struct {
    float logit;
    int32_t id;
    uint64_t weight;
} ranked;

static int by_rank(const void *a, const void *b)
{
    const ranked *x = a, *y = b;
    if (x->logit != y->logit) return x->logit < y->logit ? 1 : -1;
    return x->id < y->id ? -1 : 1;
}

static int by_id(const void *a, const void *b)
{
    return ((const ranked *)a)->id < ((const ranked *)b)->id ? -1 : 1;
}

static uint64_t naive_mix(uint64_t z)
{
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

/* Puts into r[*n] the tokens that may be drawn, best first, with their weights. */
static uint64_t naive_filter(ranked *r, uint32_t *n, const float *logits,
                             const cerium_sampling *sampling, const int32_t *recent,
                             size_t n_recent)
{
    size_t look_back = sampling->repetition_tokens ? sampling->repetition_tokens : 64;
    for (uint32_t i = 0; i < *n; i++) {
        bool seen = false;
        for (size_t j = n_recent > look_back ? n_recent - look_back : 0; j < n_recent; j++)
            seen |= recent[j] == (int32_t)i;
        r[i] = (ranked){isnan(logits[i]) ? -INFINITY : logits[i], (int32_t)i, 0};
        if (!seen || sampling->repetition_penalty == 0) continue;
        if (r[i].logit > 0)
            r[i].logit /= sampling->repetition_penalty;
        else
            r[i].logit *= sampling->repetition_penalty;
    }
    qsort(r, *n, sizeof *r, by_rank);
    if (sampling->top_k && sampling->top_k < *n) *n = sampling->top_k;
    uint64_t sum = 0, reached = 0;
    for (uint32_t i = 0; i < *n; i++) {
        probability_weights(&r[i].weight, &r[i].logit, 1, r[0].logit, 1 / sampling->temperature);
        sum += r[i].weight;
    }
    uint64_t target = (uint64_t)((double)sum * (double)sampling->top_p);
    if (sampling->top_p > 0 && sampling->top_p < 1) {
        uint32_t kept = 0;
        do {
            reached += r[kept++].weight;
        } while (reached < target);
        *n = kept;
    }
    double floor = (double)sampling->min_p * (double)PROBABILITY_ONE;
    sum = 0;
    for (uint32_t i = 0; i < *n; i++) {
        if (r[i].weight < (uint64_t)floor) r[i].weight = 0;
        sum += r[i].weight;
    }
    return sum;
}

static int32_t naive_choose(const float *logits, uint32_t n, const cerium_sampling *sampling,
                            const int32_t *recent, size_t n_recent, uint64_t position)
{
    static ranked r[VOCAB_MAX];
    const uint64_t golden = 0x9e3779b97f4a7c15u;
    bool greedy = sampling->temperature == 0;
    cerium_sampling s = *sampling;
    if (greedy) {
        s.temperature = 1;
        s.top_k = 1;
    }
    bool possible = false;
    for (uint32_t i = 0; i < n; i++) possible |= logits[i] > -INFINITY;
    if (!possible) return 0;
    uint64_t sum = naive_filter(r, &n, logits, &s, recent, n_recent);
    if (greedy) return r[0].id;
    qsort(r, n, sizeof *r, by_id);
    uint64_t random = naive_mix(naive_mix(s.seed + golden) + golden * (position + 1));
    uint64_t at = (uint64_t)((unsigned __int128)random * sum >> 64);
    for (uint32_t i = 0; i < n; i++) {
        if (at < r[i].weight) return r[i].id;
        at -= r[i].weight;
    }
    return -1;
}

static cerium_sampling random_sampling(uint32_t n)
{
    cerium_sampling s = {.seed = random_u32()};
    if (random_u32() % 8) s.temperature = 0.05f + 2 * random_unit();
    if (random_u32() % 2) s.top_p = random_unit();
    if (random_u32() % 4 == 0) s.top_p = 1 - 0.01f * random_unit() * random_unit();
    if (random_u32() % 2) s.min_p = random_unit() * random_unit() * random_unit();
    if (random_u32() % 2) s.top_k = 1 + random_u32() % (random_u32() & 1 ? n : 20);
    if (random_u32() % 2) s.repetition_penalty = 0.5f + 1.5f * random_unit();
    if (random_u32() % 2) s.repetition_tokens = 1 + random_u32() % 100;
    return s;
}

static void test_naive(void)
{
    static float logits[VOCAB_MAX];
    static const uint32_t sizes[] = {1, 2, 3, 7, 8, 9, 16, 17, 100, 1000, VOCAB_MAX};
    for (int round = 0; round < 1500; round++) {
        uint32_t n = sizes[round % 200 == 0 ? ARRAY_LEN(sizes) - 1 : random_u32() % 10];
        int32_t recent[100];
        size_t n_recent = random_u32() % 100;
        sampler *s;
        TEST_CHECK(sampler_open(&s, n, NULL) == 0);
        random_logits(logits, n);
        for (size_t i = 0; i < n_recent; i++) recent[i] = (int32_t)(random_u32() % n);
        cerium_sampling sampling = random_sampling(n);
        TEST_CHECK(sampler_validate(&sampling, NULL) == 0);
        for (uint64_t position = 0; position < 4; position++) {
            int32_t got = sampler_choose(s, logits, n, &sampling, recent, n_recent, position);
            int32_t want = naive_choose(logits, n, &sampling, recent, n_recent, position);
            TEST_CHECK_THAT(got == want, "round %d, n %u: got %d, want %d", round, (unsigned)n,
                            (int)got, (int)want);
        }
        sampler_close(&s);
    }
}

/* ---- statistics ---- */

/* Pearson's statistic of 200,000 draws against the exact probabilities must stay below the value
 * that one run in a million exceeds (Wilson and Hilferty's approximation, z = 4.75). */
static void check_draws(const cerium_sampling *sampling, const float *logits, uint32_t n)
{
    enum { DRAWS = 200000 };
    static ranked r[VOCAB_MAX];
    uint32_t kept = n, counts[64] = {0};
    sampler *s;
    TEST_CHECK(sampler_open(&s, n, NULL) == 0);
    uint64_t sum = naive_filter(r, &kept, logits, sampling, NULL, 0);
    for (uint64_t position = 0; position < DRAWS; position++)
        counts[sampler_choose(s, logits, n, sampling, NULL, 0, position)]++;
    double chi = 0, drawn = 0, freedom = -1;
    for (uint32_t i = 0; i < kept; i++) {
        if (r[i].weight == 0) continue;
        double want = (double)r[i].weight / (double)sum * DRAWS, got = counts[r[i].id];
        freedom++;
        chi += (got - want) * (got - want) / want;
        drawn += got;
    }
    double part = 2 / (9 * (freedom > 0 ? freedom : 1));
    double limit = freedom * pow(1 - part + 4.75 * sqrt(part), 3);
    TEST_CHECK_THAT(chi <= limit, "chi-square %g, limit %g", chi, limit);
    TEST_CHECK_THAT(drawn == DRAWS, "%g draws of %d are among the %u kept", drawn, DRAWS,
                    (unsigned)kept);
    sampler_close(&s);
}

static void test_statistics(void)
{
    float logits[40];
    for (int i = 0; i < 40; i++) logits[i] = 3 * random_unit();
    check_draws(&(cerium_sampling){.temperature = 1}, logits, 40);
    check_draws(&(cerium_sampling){.temperature = 1, .seed = 1}, logits, 40);
    check_draws(&(cerium_sampling){.temperature = 0.7f, .seed = UINT64_MAX}, logits, 40);
    check_draws(&(cerium_sampling){.temperature = 1, .top_k = 5}, logits, 40);
    check_draws(&(cerium_sampling){.temperature = 1, .top_p = 0.8f}, logits, 40);
    check_draws(&(cerium_sampling){.temperature = 1, .min_p = 0.3f}, logits, 40);
    check_draws(&(cerium_sampling){.temperature = 2, .top_k = 30, .top_p = 0.9f}, logits, 40);
    float equal[33] = {0};
    check_draws(&(cerium_sampling){.temperature = 1}, equal, 33);
}

/* Neighbouring seeds at one position are as independent as neighbouring positions. */
static void test_seeds(void)
{
    const float logits[2] = {0, 0};
    int ones = 0, repeats = 0, last = 0;
    sampler *s;
    TEST_CHECK(sampler_open(&s, 2, NULL) == 0);
    for (uint64_t seed = 0; seed < 20000; seed++) {
        cerium_sampling sampling = {.temperature = 1, .seed = seed};
        int32_t token = sampler_choose(s, logits, 2, &sampling, NULL, 0, 7);
        ones += token;
        repeats += token == last;
        last = token;
    }
    TEST_CHECK_THAT(abs(ones - 10000) < 400, "%d ones", ones);
    TEST_CHECK_THAT(abs(repeats - 10000) < 400, "%d repeats", repeats);
    sampler_close(&s);
}

/* ---- edges ---- */

static int32_t choose(const float *logits, uint32_t n, cerium_sampling sampling, uint64_t position)
{
    sampler *s;
    if (sampler_open(&s, n, NULL)) return -1;
    int32_t token = sampler_choose(s, logits, n, &sampling, NULL, 0, position);
    sampler_close(&s);
    return token;
}

static void test_edges(void)
{
    const cerium_sampling greedy = {0}, warm = {.temperature = 1};
    const float none[3] = {-INFINITY, NAN, -INFINITY}, all_nan[2] = {NAN, NAN};
    const float infinite[4] = {1, INFINITY, FLT_MAX, INFINITY}, zeros[3] = {-1, -0.0f, 0.0f};
    const float huge[2] = {-FLT_MAX, FLT_MAX}, first_nan[3] = {NAN, -5, -4};
    TEST_CHECK(choose(none, 3, greedy, 0) == 0 && choose(none, 3, warm, 0) == 0);
    TEST_CHECK(choose(all_nan, 2, greedy, 0) == 0 && choose(all_nan, 2, warm, 0) == 0);
    TEST_CHECK(choose(infinite, 4, greedy, 0) == 1);
    TEST_CHECK(choose(infinite, 4, (cerium_sampling){.temperature = 1, .top_k = 1}, 0) == 1);
    TEST_CHECK(choose(zeros, 3, greedy, 0) == 1);
    TEST_CHECK(choose(zeros, 3, (cerium_sampling){.repetition_penalty = 2}, 0) == 1);
    TEST_CHECK(choose(zeros, 3, (cerium_sampling){.temperature = 1, .top_k = 1}, 0) == 1);
    TEST_CHECK(choose(first_nan, 3, greedy, 0) == 2);
    for (uint64_t position = 0; position < 100; position++) {
        TEST_CHECK(choose(infinite, 4, warm, position) != 0);
        TEST_CHECK(choose(huge, 2, (cerium_sampling){.temperature = 1e6f}, position) == 1);
        TEST_CHECK(choose(first_nan, 3, warm, position) != 0);
        TEST_CHECK(choose(zeros, 3, (cerium_sampling){.temperature = FLT_TRUE_MIN}, position) > 0);
        TEST_CHECK(choose(huge, 2, (cerium_sampling){.temperature = 1, .top_p = FLT_MIN}, 0) == 1);
    }
    sampler *s = NULL;
    TEST_CHECK(sampler_open(&s, 0, NULL) == CERIUM_ERR_ARGUMENT && !s);
    TEST_CHECK(sampler_open(&s, SAMPLER_VOCAB_MAX + 1, NULL) == CERIUM_ERR_ARGUMENT && !s);
    sampler_close(&s);
    sampler_close(NULL);
}

/* A choice leaves no state that the next one sees, and allocates nothing. */
static void test_stateless(void)
{
    static float logits[1000];
    int32_t first[50];
    sampler *s;
    const cerium_sampling a = {.temperature = 1, .seed = 5}, b = {.temperature = 2, .top_k = 3};
    random_logits(logits, 1000);
    TEST_CHECK(sampler_open(&s, 1000, NULL) == 0);
    long made = memory_count();
    for (uint64_t i = 0; i < 50; i++) first[i] = sampler_choose(s, logits, 1000, &a, NULL, 0, i);
    for (uint64_t i = 50; i-- > 0;) {
        sampler_choose(s, logits, 1000, &b, NULL, 0, i);
        TEST_CHECK(sampler_choose(s, logits, 1000, &a, NULL, 0, i) == first[i]);
    }
    TEST_CHECK(memory_count() == made);
    sampler_close(&s);
}

/* The exact tokens of a seed: if these change, all users' texts change. */
static void test_known(void)
{
    static const int32_t want[12] = {9, 31, 16, 4, 21, 4, 8, 22, 4, 22, 18, 8};
    float logits[32];
    sampler *s;
    const cerium_sampling sampling = {.temperature = 0.8f, .top_p = 0.95f, .seed = 42};
    for (int i = 0; i < 32; i++) logits[i] = (float)(i * 7 % 32) / 8;
    TEST_CHECK(sampler_open(&s, 32, NULL) == 0);
    for (uint64_t i = 0; i < 12; i++) {
        int32_t got = sampler_choose(s, logits, 32, &sampling, NULL, 0, i);
        TEST_CHECK_THAT(got == want[i], "position %d: got %d", (int)i, (int)got);
    }
    sampler_close(&s);
}

static void test_penalty(void)
{
    const float logits[4] = {4, 3, -1, -1.5f};
    const int32_t recent[] = {1, 0, 0, 0, 0};
    cerium_sampling s = {.repetition_penalty = 1.5f};
    sampler *scratch;
    TEST_CHECK(sampler_open(&scratch, 4, NULL) == 0);
    /* 4 / 1.5 = 2.67 < 3: penalised once, not four times; 1 is out of sight. */
    s.repetition_tokens = 4;
    TEST_CHECK(sampler_choose(scratch, logits, 4, &s, recent, 5, 0) == 1);
    s.repetition_tokens = 5;
    TEST_CHECK(sampler_choose(scratch, logits, 4, &s, recent, 5, 0) == 0);
    const float negative[2] = {-1, -1.25f};
    sampler_close(&scratch);
    TEST_CHECK(sampler_open(&scratch, 2, NULL) == 0);
    TEST_CHECK(sampler_choose(scratch, negative, 2, &s, recent + 1, 1, 0) == 1);
    sampler_close(&scratch);
}

static void test_validate(void)
{
    const char *stops[CERIUM_STOPS_MAX + 1] = {"a"}, *no_text[1] = {""}, *null_text[1] = {NULL};
    static char text[CERIUM_STOP_BYTES_MAX + 2];
    const char *long_text[1] = {text};
    memset(text, 'x', sizeof text - 1);
    const cerium_sampling bad[] = {
        {.temperature = -1},
        {.temperature = NAN},
        {.temperature = INFINITY},
        {.top_p = -0.1f},
        {.top_p = 1.1f},
        {.min_p = 1},
        {.min_p = -1},
        {.repetition_penalty = -1},
        {.repetition_penalty = NAN},
        {.n_stops = 1},
        {.stops = no_text, .n_stops = 1},
        {.stops = null_text, .n_stops = 1},
        {.stops = long_text, .n_stops = 1},
        {.stops = stops, .n_stops = CERIUM_STOPS_MAX + 1},
    };
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        cerium_error err = {0};
        TEST_CHECK(sampler_validate(&bad[i], &err) == CERIUM_ERR_ARGUMENT);
        TEST_CHECK(err.status == CERIUM_ERR_ARGUMENT && err.message[0]);
    }
    text[CERIUM_STOP_BYTES_MAX] = 0;
    const cerium_sampling good = {.temperature = 1,
                                  .top_p = 1,
                                  .min_p = 0.5f,
                                  .top_k = UINT32_MAX,
                                  .repetition_penalty = 1.1f,
                                  .stops = long_text,
                                  .n_stops = 1};
    TEST_CHECK(sampler_validate(&good, NULL) == 0 && sampler_validate(NULL, NULL) == 0);
}

static void test_allocation_failure(void)
{
    long live = memory_live();
    for (long n = 0;; n++) {
        sampler *s = NULL;
        memory_fail_at(n);
        int status = sampler_open(&s, 100, NULL);
        memory_fail_at(-1);
        if (status == 0) {
            sampler_close(&s);
            break;
        }
        TEST_CHECK(status == CERIUM_ERR_MEMORY && !s);
    }
    TEST_CHECK(memory_live() == live);
}

/* ---- probabilities ---- */

static void test_weights(void)
{
    uint64_t weight;
    double worst = 0;
    for (int i = 0; i <= 40000; i++) {
        float x = -(float)i / 1000;
        probability_weights(&weight, &x, 1, 0, 1);
        double want = exp((double)x) * (double)PROBABILITY_ONE;
        double error = fabs((double)weight - want) / (3e-7 * want + 0.51);
        if (error > worst) worst = error;
        TEST_CHECK(i > 0 || weight == PROBABILITY_ONE);
    }
    TEST_CHECK_THAT(worst <= 1, "largest error: %g of what is allowed", worst);
    TEST_CHECK(weight == 0);
    for (uint64_t sum = 1; sum < (uint64_t)1 << 62; sum += 1 + sum / 7) {
        double want = log((double)sum) - 43 * log(2), got = probability_log(sum);
        TEST_CHECK_THAT(fabs(got - want) <= 1e-14 * (1 + fabs(want)), "log %.17g, want %.17g", got,
                        want);
    }
}

/* Among a subset: probabilities sum to 1, in the same proportions. */
static void check_among(const float *logits, uint32_t n)
{
    uint64_t allowed[VOCAB_MAX / 64 + 1];
    double sum = 0, apart = NAN;
    bool any = false;
    for (size_t i = 0; i < sizeof allowed / sizeof *allowed; i++)
        allowed[i] = (uint64_t)random_u32() << 32 | random_u32();
    for (uint32_t i = 0; i < n; i++) {
        double got = (double)sampler_logprob(logits, n, allowed, (int32_t)i);
        double whole = (double)sampler_logprob(logits, n, NULL, (int32_t)i);
        if (!(allowed[i / 64] >> i % 64 & 1)) {
            TEST_CHECK(got == (double)-INFINITY);
        } else if (whole > -INFINITY) {
            if (isnan(apart)) apart = got - whole;
            TEST_CHECK(fabs(got - whole - apart) < 1e-4 * (1 + fabs(whole)));
            sum += exp(got);
            any = true;
        }
    }
    TEST_CHECK(!any || fabs(sum - 1) < 1e-4);
}

static void test_logprob(void)
{
    static float logits[VOCAB_MAX];
    for (int round = 0; round < 40; round++) {
        uint32_t n = 1 + random_u32() % VOCAB_MAX;
        random_logits(logits, n);
        double max = -INFINITY, sum = 0;
        for (uint32_t i = 0; i < n; i++) max = logits[i] > max ? logits[i] : max;
        for (uint32_t i = 0; i < n; i++)
            if (logits[i] > -INFINITY) sum += exp((double)logits[i] - max);
        for (uint32_t i = 0; i < n; i += 1 + n / 20) {
            float got = sampler_logprob(logits, n, NULL, (int32_t)i);
            double want = (double)logits[i] - max - log(sum);
            TEST_CHECK(logits[i] > -INFINITY ? fabs(got - want) < 1e-6 * (1 + fabs(want))
                                             : got == -INFINITY);
        }
        check_among(logits, 1 + (n - 1) % 300);
    }
    const float none[2] = {-INFINITY, NAN}, far[2] = {0, -200};
    TEST_CHECK(sampler_logprob(none, 2, NULL, 0) == -INFINITY);
    TEST_CHECK(sampler_logprob(far, 2, NULL, 0) == 0 && sampler_logprob(far, 2, NULL, 1) == -200);
}

static void test_top(void)
{
    static float logits[VOCAB_MAX];
    static cerium_logprob out[VOCAB_MAX];
    static ranked r[VOCAB_MAX];
    for (int round = 0; round < 100; round++) {
        uint32_t n = 1 + random_u32() % (round < 90 ? 60 : VOCAB_MAX);
        size_t k = random_u32() % (n + 3);
        random_logits(logits, n);
        for (uint32_t i = 0; i < n; i++)
            r[i] = (ranked){isnan(logits[i]) ? -INFINITY : logits[i], (int32_t)i, 0};
        qsort(r, n, sizeof *r, by_rank);
        size_t got = sampler_top(logits, n, out, k);
        TEST_CHECK(got == (k < n ? k : n));
        for (size_t i = 0; i < got; i++) {
            TEST_CHECK(out[i].token == r[i].id);
            TEST_CHECK(out[i].logprob == sampler_logprob(logits, n, NULL, out[i].token));
        }
    }
}

/* With any instruction set, the weights are those of the reference. */
static void test_variants(void)
{
    enum { N = 300 };
    static float logits[N];
    static uint64_t want[N], have[N];
    const probability_variant *plain = &probability_variants[probability_n_variants - 1];
    TEST_CHECK(plain->is_here());
    for (const probability_variant *v = probability_variants; v < plain; v++) {
        if (!v->is_here()) continue;
        uint32_t n_wrong = 0;
        for (uint32_t round = 0; round < 400; round++) {
            uint32_t n = round < 40 ? round : random_below(N);
            float scale = round % 3 ? 1 / (0.05f + 2 * random_unit()) : 1;
            random_logits(logits, n);
            for (uint32_t i = 0; i < n; i++) /* a logit above max counts as max */
                logits[i] += (float)random_below(8) - 4;
            memset(have, 0xff, sizeof have);
            memset(want, 0xff, sizeof want);
            plain->weights(want, logits, n, 6, scale);
            v->weights(have, logits, n, 6, scale);
            n_wrong += memcmp(want, have, sizeof have) != 0;
            n_wrong += v->sum(logits, n, 6, scale) != plain->sum(logits, n, 6, scale);
            uint64_t sum = 0;
            for (uint32_t i = 0; i < n; i++) sum += want[i];
            n_wrong += sum != plain->sum(logits, n, 6, scale);
        }
        TEST_CHECK_THAT(n_wrong == 0, "%s: %u", v->name, n_wrong);
    }
}

/* Biases are added before penalties; those of presence count once, of frequency each time. */
static void test_biases(void)
{
    float logits[4] = {1, 2, 3, -INFINITY};
    const int32_t recent[] = {2, 2, 1};
    cerium_logit_bias biases[] = {{0, 5}, {9, 100}, {-1, 100}};
    cerium_sampling with = {.biases = biases, .n_biases = 3};
    sampler *s = NULL;
    cerium_error err;
    TEST_CHECK(!sampler_open(&s, 4, &err) && !sampler_validate(&with, &err));
    TEST_CHECK(sampler_best(&with) == 0);
    TEST_CHECK(sampler_choose(s, logits, 4, &with, recent, 3, 0) == 0);
    biases[0] = (cerium_logit_bias){2, -INFINITY};
    TEST_CHECK(sampler_choose(s, logits, 4, &with, recent, 3, 0) == 1);
    biases[0] = (cerium_logit_bias){0, 2.5f}; /* 3.5 / 4 is less than 3 */
    with.repetition_penalty = 4;
    const int32_t zero[] = {0};
    TEST_CHECK(sampler_choose(s, logits, 4, &with, zero, 1, 0) == 2);
    cerium_sampling once = {.presence_penalty = 1.5f}, each = {.frequency_penalty = 0.8f};
    TEST_CHECK(sampler_look_back(&once, 3) == 3 && sampler_look_back(&each, 100) == 64);
    TEST_CHECK(sampler_choose(s, logits, 4, &once, recent, 2, 0) == 1); /* 1, 2, 1.5 */
    TEST_CHECK(sampler_choose(s, logits, 4, &each, recent, 2, 0) == 1); /* 1, 2, 1.4 */
    TEST_CHECK(sampler_choose(s, logits, 4, &each, recent, 1, 0) == 2); /* 1, 2, 2.2 */
    biases[0].bias = NAN;
    TEST_CHECK(sampler_validate(&with, &err) == CERIUM_ERR_ARGUMENT);
    each.frequency_penalty = 101;
    TEST_CHECK(sampler_validate(&each, &err) == CERIUM_ERR_ARGUMENT);
    sampler_close(&s);
}

static void test_numbers(void)
{
    float logits[300] = {0};
    TEST_CHECK(sampler_are_numbers(logits, 300));
    logits[299] = -INFINITY;
    TEST_CHECK(sampler_are_numbers(logits, 300));
    logits[299] = INFINITY;
    TEST_CHECK(!sampler_are_numbers(logits, 300) && sampler_are_numbers(logits, 299));
    logits[0] = NAN;
    TEST_CHECK(!sampler_are_numbers(logits, 1));
}

int main(void)
{
    TEST_RUN(test_weights);
    TEST_RUN(test_logprob);
    TEST_RUN(test_top);
    TEST_RUN(test_naive);
    TEST_RUN(test_statistics);
    TEST_RUN(test_seeds);
    TEST_RUN(test_edges);
    TEST_RUN(test_stateless);
    TEST_RUN(test_known);
    TEST_RUN(test_penalty);
    TEST_RUN(test_validate);
    TEST_RUN(test_allocation_failure);
    TEST_RUN(test_variants);
    TEST_RUN(test_biases);
    TEST_RUN(test_numbers);
    return unit_report("sampler");
}
