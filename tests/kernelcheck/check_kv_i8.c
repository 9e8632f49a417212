/* check_kv_i8.c - keys, values and queries in 8 bits against the values that they represent, in
 * doubles.
 *
 * Instruction sets are compared with the reference bit for bit elsewhere, and share with it the
 * storage of a head (kv_i8.h); so this checks for each of them, and for the reference, that the
 * stored data is right: each channel within half a step, scores to the last bits, and attention
 * within the noise of rounding its weights. */
#include <math.h>

#include "kernelcheck.h"
#include "kernels/kv_i8.h"

enum { DIM_MAX = 512, PAGES = 3, TOKENS = PAGES * KERNEL_PAGE, ROWS = 24 };
static const uint32_t head_dims[] = {2, 6, 16, 20, 64, 80, 128, 512};

/* The Walsh-Hadamard transform by its definition; returns the sum of magnitudes, which bounds every
 * channel and so the rounding of floats. */
static double turn(double *out, const float *x, uint32_t n)
{
    const uint32_t run = n & (0 - n);
    double size = 0;
    for (uint32_t i = 0; i < n; i++) {
        out[i] = 0;
        size += fabs((double)x[i]);
        for (uint32_t j = 0; j < run; j++)
            out[i] += (double)x[i / run * run + j] * (__builtin_popcount(i % run & j) % 2 ? -1 : 1);
    }
    return size;
}

/* The values that a slot represents, by the layout in kv_i8.h. */
static double key_of(const kv_i8_page *keys, uint32_t slot, uint32_t d)
{
    const int byte = keys->bytes[(d / 4 * KERNEL_PAGE + slot) * 4 + d % 4];
    return (double)keys->scale[slot] * (byte - 128);
}
static double value_of(const kv_i8_page *values, uint32_t slot, uint32_t d, uint32_t n)
{
    const uint32_t channels = (n + 15) / 16 * 16;
    const int8_t byte = (int8_t)values->bytes[(slot / 4 * channels + d) * 4 + slot % 4];
    return (double)values->scale[slot] * byte;
}

/* Half a step, and the rounding of the transform, of the division and of the product. */
static void check_half_step(const char *what, uint32_t n, uint32_t d, double want, double got,
                            double step, double size)
{
    if (!(fabs(got - want) <= 0.5 * step + size * 1e-6))
        kc_fail("%s, head_dim %u, channel %u: %a, should be %a, a step is %a", what, n, d, got,
                want, step);
}

static void random_head(float *x, uint32_t n, float size)
{
    for (uint32_t d = 0; d < n; d++)
        x[d] = size * kc_rand_float() * (kc_rand_below(16) ? 1.0f : 20.0f);
}

/* Steps have the size that the largest channel, or pair of them, needs: a scale that is too large
 * would pass every other check. */
static void check_steps(const kernel_table *level, uint32_t n, uint32_t slot)
{
    float k[DIM_MAX], v[DIM_MAX], q[DIM_MAX];
    double turned[3][DIM_MAX], size[3], top[3] = {0};
    kv_i8_page *keys = kc_buffer(kernel_kv_bytes(KERNEL_KV_I8, n), 64);
    kv_i8_page *values = kc_buffer(kernel_kv_bytes(KERNEL_KV_I8, n), 64);
    kv_i8_query *query = kc_buffer(kernel_query_bytes(KERNEL_KV_I8, n), 4);
    random_head(k, n, 1.0f);
    random_head(v, n, 0x1p-12f);
    random_head(q, n, 0x1p12f);
    size[0] = turn(turned[0], k, n);
    size[1] = turn(turned[1], v, n);
    size[2] = turn(turned[2], q, n);
    for (uint32_t d = 0; d < n; d++) {
        top[0] = fmax(top[0], fabs(turned[0][d]));
        top[1] = fmax(top[1], fabs(turned[1][d]));
        top[2] = fmax(top[2], fabs(turned[2][d]) + fabs(turned[2][d ^ 1]));
    }
    level->kv_write[KERNEL_KV_I8](keys, values, slot, k, v, n);
    level->attend_query[KERNEL_KV_I8](query, q, n);
    int32_t sum = 0;
    const double run = n & (0 - n), scale = (double)query->scale * run;
    for (uint32_t d = 0; d < n; d++) {
        check_half_step("key", n, d, turned[0][d], key_of(keys, slot, d), top[0] / 127, size[0]);
        check_half_step("value", n, d, turned[1][d], value_of(values, slot, d, n), top[1] / 127,
                        size[1]);
        check_half_step("query", n, d, turned[2][d], scale * query->q[d], top[2] / 127, size[2]);
        sum += query->q[d];
    }
    if (query->offset != -128 * sum)
        kc_fail("query, head_dim %u: the offset is %d, not %d", n, query->offset, -128 * sum);
    kc_release();
}

typedef struct {
    const kernel_table *level;
    uint32_t n;                            /* head_dim */
    kernel_kv_page pages[PAGES];
    uint8_t *queries;                      /* [ROWS][kernel_query_bytes] */
    uint32_t first[ROWS], end[ROWS];
    kernel_softmax_state state[ROWS];
    float *out;                            /* [ROWS][n] */
} setting;

/* Equal values show a wrong scale of values or weights, and strong scores a wrong scale of scores:
 * the first adds up over tokens as rounding does not, the second moves the weights of tokens. */
static void fill(setting *s, bool alike)
{
    float k[DIM_MAX], v[DIM_MAX], common[DIM_MAX];
    const size_t query_bytes = kernel_query_bytes(KERNEL_KV_I8, s->n);
    const float strength = (alike ? 2.0f : 12.0f) / sqrtf((float)s->n);
    random_head(common, s->n, 1.0f);
    for (uint32_t p = 0; p < PAGES; p++) {
        void *keys = kc_buffer(kernel_kv_bytes(KERNEL_KV_I8, s->n), 64);
        void *values = kc_buffer(kernel_kv_bytes(KERNEL_KV_I8, s->n), 64);
        for (uint32_t j = 0; j < KERNEL_PAGE; j++) {
            for (uint32_t d = 0; d < s->n; d++) {
                k[d] = kc_rand_float();
                v[d] = (alike ? common[d] : 0.0f) + (alike ? 0.1f : 1.0f) * kc_rand_float();
            }
            s->level->kv_write[KERNEL_KV_I8](keys, values, j, k, v, s->n);
        }
        s->pages[p] = (kernel_kv_page){keys, values};
    }
    s->queries = kc_buffer(ROWS * query_bytes, 4);
    s->out = kc_buffer(ROWS * s->n * sizeof *s->out, 4);
    for (uint32_t r = 0; r < ROWS; r++) {
        for (uint32_t d = 0; d < s->n; d++) k[d] = strength * kc_rand_float();
        s->level->attend_query[KERNEL_KV_I8](s->queries + r * query_bytes, k, s->n);
        s->first[r] = kc_rand_below(KERNEL_PAGE);
        s->end[r] = TOKENS - kc_rand_below(KERNEL_PAGE);
        s->state[r] = (kernel_softmax_state){.max = -INFINITY};
    }
    memset(s->out, 0, ROWS * s->n * sizeof *s->out);
}

/* weight[TOKENS] of a row, 0 where it sees nothing, and their sum.  Weights are rounded only for
 * values, so the row's sums of scores are right to the last bits. */
static double weigh(const setting *s, uint32_t r, double *weight)
{
    const size_t query_bytes = kernel_query_bytes(KERNEL_KV_I8, s->n);
    const kv_i8_query *query = (const void *)(s->queries + r * query_bytes);
    double most = -INFINITY, sum = 0;
    for (uint32_t j = s->first[r]; j < s->end[r]; j++) {
        weight[j] = 0;
        for (uint32_t d = 0; d < s->n; d++)
            weight[j] += (double)query->scale * query->q[d] *
                         key_of(s->pages[j / KERNEL_PAGE].keys, j % KERNEL_PAGE, d);
        most = fmax(most, weight[j]);
    }
    for (uint32_t j = 0; j < TOKENS; j++) {
        weight[j] = j < s->first[r] || j >= s->end[r] ? 0 : exp(weight[j] - most);
        sum += weight[j];
    }
    const kernel_softmax_state *got = &s->state[r];
    if (!(fabs((double)got->max - most) <= 1e-5 * (1 + fabs(most)) &&
          fabs((double)got->sum - sum) <= 1e-4 * sum))
        kc_fail("scores, head_dim %u: the largest is %a, should be %a; the sum %a, should be %a",
                s->n, (double)got->max, most, (double)got->sum, sum);
    return sum;
}

/* A weight times its value's scale is stored in steps of the larger of two neighbours' / 254. */
static double step_of_page(const setting *s, const double *weight, uint32_t p)
{
    const kv_i8_page *values = s->pages[p].values;
    double top = 0;
    for (uint32_t j = 0; j < KERNEL_PAGE; j += 2) {
        const double two = weight[p * KERNEL_PAGE + j] * (double)values->scale[j] +
                           weight[p * KERNEL_PAGE + j + 1] * (double)values->scale[j + 1];
        if (two > top) top = two; /* fmax() here crashes gcc 12 for Arm */
    }
    return top / 254;
}

/* exact[n], the row's output before the inverse transform; returns the mean squared effect of
 * rounding on it, which is a step squared / 12 for each weight. */
static double attend_exactly(const setting *s, uint32_t r, double *exact)
{
    double weight[TOKENS], noise = 0;
    const double sum = weigh(s, r, weight);
    for (uint32_t d = 0; d < s->n; d++) exact[d] = 0;
    for (uint32_t j = 0; j < TOKENS; j++) {
        const kv_i8_page *values = s->pages[j / KERNEL_PAGE].values;
        const double scale = (double)values->scale[j % KERNEL_PAGE], w = weight[j];
        const double step = step_of_page(s, weight, j / KERNEL_PAGE) / sum;
        for (uint32_t d = 0; d < s->n && w > 0; d++) {
            const double v = value_of(values, j % KERNEL_PAGE, d, s->n);
            exact[d] += w * v / sum;
            noise += step * step / 12 * (v / scale) * (v / scale);
        }
    }
    return noise;
}

/* Transforming the inverse transform gives n times the input, so it is divided by n. */
static void check_result(const setting *s, const float *got)
{
    float result[DIM_MAX];
    double back[DIM_MAX];
    memcpy(result, got, s->n * sizeof *got);
    s->level->attend_result[KERNEL_KV_I8](result, s->n);
    const double size = turn(back, result, s->n);
    for (uint32_t d = 0; d < s->n; d++)
        if (!(fabs(back[d] - (double)got[d]) <= size * 1e-6))
            kc_fail("result, head_dim %u, channel %u: %a, should be %a", s->n, d, back[d],
                    (double)got[d]);
}

/* The squared error of a row's output [n]; got is divided by its sum of weights. */
static double off_by(float *got, const double *exact, float sum, uint32_t n)
{
    double off = 0;
    for (uint32_t d = 0; d < n; d++) {
        got[d] /= sum;
        off += ((double)got[d] - exact[d]) * ((double)got[d] - exact[d]);
    }
    return off;
}

static void check_noise(const kernel_table *level, uint32_t n, bool alike)
{
    setting s = {.level = level, .n = n};
    double off = 0, expected = 0;
    fill(&s, alike);
    level->attend[KERNEL_KV_I8](s.state, s.out, s.queries, s.pages, PAGES, s.first, s.end, ROWS, n);
    for (uint32_t r = 0; r < ROWS; r++) {
        double exact[DIM_MAX];
        float *got = s.out + r * n;
        expected += attend_exactly(&s, r, exact);
        off += off_by(got, exact, s.state[r].sum, n);
        check_result(&s, got);
    }
    if (!(off <= 1.5 * 1.5 * expected))
        kc_fail("attention, head_dim %u, values %s: off by %g, rounding makes %g", n,
                alike ? "alike" : "of all kinds", sqrt(off), sqrt(expected));
    kc_release();
}

/* Kernels that an instruction set lacks come from the next lower one, as in its table. */
static kernel_table complete(const kernel_table *ref, const kernel_table *level)
{
    const int i8 = KERNEL_KV_I8;
    kernel_table t = *level;
    if (!t.kv_write[i8]) t.kv_write[i8] = ref->kv_write[i8];
    if (!t.attend_query[i8]) t.attend_query[i8] = ref->attend_query[i8];
    if (!t.attend_result[i8]) t.attend_result[i8] = ref->attend_result[i8];
    return t;
}

void kc_check_kv_i8(const kernel_table *ref, const kernel_table *level)
{
    if (!level->attend[KERNEL_KV_I8] || !kc_begin_named("kv_i8_truth")) return;
    const kernel_table t = complete(ref, level);
    for (size_t h = 0; h < ARRAY_LEN(head_dims); h++) {
        const uint32_t n = head_dims[h];
        for (uint32_t slot = 0; slot < KERNEL_PAGE; slot += 7) check_steps(&t, n, slot);
        check_noise(&t, n, false);
        check_noise(&t, n, true);
    }
    kc_end();
}
