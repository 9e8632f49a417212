/* test_vector.c - the reference of vectors and attention against straightforward formulas in
 * double with libm, within tolerances that docs/numerics.md states. */
#include <math.h>

#include "kernels/exp.h"
#include "kernels/kernels.h"

#include "unit.h"

enum { N_MAX = 2880, HEAD_MAX = 80 };

static kernel_table table;
static uint32_t random_state = 0x9e3779b9u;

static uint32_t random_bits(void)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 17;
    random_state ^= random_state << 5;
    return random_state;
}

/* Uniform in [-scale, scale). */
static float random_float(float scale) { return (float)(int32_t)random_bits() * 0x1p-31f * scale; }

static void random_fill(float *x, uint32_t n, float scale)
{
    for (uint32_t i = 0; i < n; i++) x[i] = random_float(scale);
}

static float float_of_bits(uint32_t bits)
{
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

/* |got - want| in units of the last place of want as a float. */
static double ulps(float got, double want)
{
    int exponent = want == 0.0 ? -126 : ilogb(want);
    return fabs((double)got - want) / ldexp(1.0, (exponent < -126 ? -126 : exponent) - 23);
}

static double relative(float got, double want)
{
    return (double)got == want ? 0.0 : fabs((double)got - want) / fabs(want);
}

static void test_exp(void)
{
    double worst = 0.0;
    float worst_at = 0.0f;
    for (uint64_t bits = 0; bits <= UINT32_MAX; bits += 61) {
        float x = float_of_bits((uint32_t)bits);
        if (!(x >= KERNEL_EXP_MIN && x <= KERNEL_EXP_MAX)) continue;
        if (fabsf(x) < 0x1p-30f && bits % (61 * 64)) continue; /* all of them are 1 */
        double error = ulps(kernel_exp_ref(x), exp((double)x));
        if (error > worst) worst = error, worst_at = x;
    }
    TEST_CHECK_THAT(worst <= KERNEL_EXP_ULP, "%g ulp at %a", worst, (double)worst_at);
    TEST_CHECK(kernel_exp_ref(0.0f) == 1.0f && kernel_exp_ref(-0.0f) == 1.0f);
    float low = kernel_exp_ref(KERNEL_EXP_MIN), high = kernel_exp_ref(KERNEL_EXP_MAX);
    TEST_CHECK(low >= 0x1p-126f && ulps(low, exp((double)KERNEL_EXP_MIN)) <= KERNEL_EXP_ULP);
    TEST_CHECK(isfinite(high) && ulps(high, exp((double)KERNEL_EXP_MAX)) <= KERNEL_EXP_ULP);
    TEST_CHECK(kernel_exp_ref(-INFINITY) == low && kernel_exp_ref(-1e30f) == low);
    TEST_CHECK(kernel_exp_ref(INFINITY) == high && kernel_exp_ref(1e30f) == high);
    TEST_CHECK(isnan(kernel_exp_ref(NAN)));
}

/* The polynomial changes n where x log2 e is halfway: it decreases by rounding at most. */
static void test_exp_seams(void)
{
    for (int n = -125; n < 128; n++) {
        float seam = (float)((n + 0.5) * log(2.0));
        uint32_t bits;
        memcpy(&bits, &seam, sizeof bits);
        for (uint32_t b = bits - 200; b <= bits + 200; b++) {
            float x = float_of_bits(b);
            if (x < KERNEL_EXP_MIN || x > KERNEL_EXP_MAX) continue;
            TEST_CHECK_THAT(ulps(kernel_exp_ref(x), exp((double)x)) <= KERNEL_EXP_ULP, "%a",
                            (double)x);
        }
    }
}

static void check_sincos(double x)
{
    float s, c;
    kernel_sincos_ref(x, &s, &c);
    TEST_CHECK_THAT(ulps(s, sin(x)) <= 0.51 && ulps(c, cos(x)) <= 0.51,
                    "%a: sin off by %g ulp, cos by %g", x, ulps(s, sin(x)), ulps(c, cos(x)));
}

static void test_sincos(void)
{
    for (int i = 0; i < 300000; i++) {
        double wide = ldexp((double)(int32_t)random_bits() + random_float(1.0f), (i % 71) - 61);
        check_sincos(wide); /* |wide| < 2^31 * 2^9 */
    }
    for (uint32_t pos = 0; pos < 200000; pos += 7)
        for (int j = 0; j < 4; j++)
            check_sincos(pos * pow(1e6, -2.0 * (double)(random_bits() % 64) / 128));
    for (int64_t k = 1; k < INT64_C(1) << 39; k += 1 + k / 50) {
        double at = (double)k * M_PI_2;
        check_sincos(at);
        check_sincos(nextafter(at, 0.0));
        check_sincos(-nextafter(at, INFINITY));
    }
    float s, c;
    kernel_sincos_ref(0.0, &s, &c);
    TEST_CHECK(s == 0.0f && c == 1.0f);
}

/* The half nearest to x, ties to even, as its value: rint in units of the last place. */
static double nearest_half(double x)
{
    if (x == 0.0) return 0.0;
    int exponent = ilogb(x);
    double unit = ldexp(1.0, (exponent < -14 ? -14 : exponent) - 10);
    double rounded = rint(x / unit) * unit;
    return fabs(rounded) > 65504.0 ? copysign((double)INFINITY, x) : rounded;
}

static double value_of_half(uint16_t h)
{
    int exponent = h >> 10 & 31, fraction = h & 1023;
    double magnitude = exponent ? ldexp(1024 + fraction, exponent - 25) : ldexp(fraction, -24);
    return h & 0x8000 ? -magnitude : magnitude;
}

static void check_kv_write(const float *k)
{
    enum { DIM = 16, SLOT = 37 };
    static uint16_t keys[DIM * KERNEL_PAGE], values[KERNEL_PAGE * DIM];
    float v[DIM];
    for (int i = 0; i < DIM; i++) v[i] = -k[i];
    table.kv_write[KERNEL_KV_F16](keys, values, SLOT, k, v, DIM);
    for (int i = 0; i < DIM; i++) {
        uint16_t key = keys[i * KERNEL_PAGE + SLOT], value = values[SLOT * DIM + i];
        double want = nearest_half((double)k[i]);
        if (isinf(want)) {
            TEST_CHECK((key & 0x7fff) == 0x7c00);
        } else {
            TEST_CHECK_THAT(value_of_half(key) == want, "%a -> %04x", (double)k[i], key);
        }
        TEST_CHECK(value == (key ^ 0x8000));
    }
}

static void test_kv_write(void)
{
    float k[16];
    for (uint32_t h = 0; h < 0x7c00; h++) {
        float value = (float)value_of_half((uint16_t)h), next = (float)value_of_half(h + 1);
        if (h == 0x7bff) next = 65536.0f;
        float middle = (value + next) / 2;
        const float around[8] = {
            value,  next,  middle,          nextafterf(middle, 0.0f), nextafterf(middle, INFINITY),
            -value, -next, value * 0.9999f,
        };
        for (int i = 0; i < 16; i++) k[i] = i % 2 ? around[i / 2] : random_float(8.0f);
        check_kv_write(k);
    }
    const float odd[16] = {0.0f,   -0.0f, 0x1p-149f, -0x1p-149f, 0x1p-126f, 1e30f, -1e30f, 65504.0f,
                           65519.f, 65520.f, 0x1p-25f, 0x1.000002p-25f, 0x1p-24f, 1.f, -1.f, 3.f};
    check_kv_write(odd);
}

static void test_norms(void)
{
    static float x[N_MAX], y[N_MAX], weight[N_MAX], bias[N_MAX];
    static const uint32_t lengths[] = {1, 2, 15, 16, 17, 64, 129, 896, 2880};
    for (size_t k = 0; k < ARRAY_LEN(lengths); k++) {
        uint32_t n = lengths[k];
        double squares = 0.0, sum = 0.0, variance = 0.0;
        random_fill(x, n, 4.0f);
        random_fill(weight, n, 2.0f);
        random_fill(bias, n, 1.0f);
        for (uint32_t i = 0; i < n; i++) squares += (double)x[i] * x[i], sum += (double)x[i];
        for (uint32_t i = 0; i < n; i++) variance += pow((double)x[i] - sum / n, 2.0) / n;
        double rms = 1.0 / sqrt(squares / n + 1e-5), deviation = 1.0 / sqrt(variance + 1e-5);
        table.rms_norm(y, x, weight, n, 1e-5f);
        for (uint32_t i = 0; i < n; i++)
            TEST_CHECK(relative(y[i], x[i] * rms * weight[i]) < 1e-6);
        for (int with_bias = 0; with_bias < 2; with_bias++) {
            table.layer_norm(y, x, weight, with_bias ? bias : NULL, n, 1e-5f);
            for (uint32_t i = 0; i < n; i++) {
                double want = (x[i] - sum / n) * deviation * weight[i];
                if (with_bias) want += (double)bias[i];
                TEST_CHECK_THAT(fabs((double)y[i] - want) < 4e-6 * (n == 1 ? 100 : 1),
                                "n %u: %g, not %g", n, (double)y[i], want);
            }
        }
        memcpy(y, x, n * sizeof *x);
        table.rms_norm(y, y, weight, n, 1e-5f); /* in place */
        for (uint32_t i = 0; i < n; i++)
            TEST_CHECK(relative(y[i], x[i] * rms * weight[i]) < 1e-6);
    }
}

static void test_add(void)
{
    float x[100], y[100], sum[100];
    random_fill(x, 100, 3.0f);
    random_fill(y, 100, 3.0f);
    memcpy(sum, x, sizeof x);
    table.add(sum, y, 100);
    for (int i = 0; i < 100; i++) TEST_CHECK(sum[i] == x[i] + y[i]);
    memcpy(sum, x, sizeof x);
    table.add_scaled(sum, y, 0.3f, 100);
    for (int i = 0; i < 100; i++) /* the product of two floats is exact in double */
        TEST_CHECK(fabs((double)sum[i] - ((double)x[i] + (double)0.3f * (double)y[i])) < 3e-7);
}

static void test_rope(void)
{
    enum { PAIRS = 33 };
    float x[2 * PAIRS], y[2 * PAIRS], c[PAIRS], s[PAIRS];
    random_fill(x, 2 * PAIRS, 3.0f);
    for (int j = 0; j < PAIRS; j++) kernel_sincos_ref(1.7 * j, s + j, c + j);
    for (int split = 0; split < 2; split++) {
        memcpy(y, x, sizeof x);
        (split ? table.rope_split : table.rope_adjacent)(y, c, s, PAIRS);
        for (int j = 0; j < PAIRS; j++) {
            int at_a = split ? j : 2 * j, at_b = split ? j + PAIRS : 2 * j + 1;
            double a = (double)x[at_a], b = (double)x[at_b];
            TEST_CHECK(fabs((double)y[at_a] - (a * cos(1.7 * j) - b * sin(1.7 * j))) < 1e-6);
            TEST_CHECK(fabs((double)y[at_b] - (b * cos(1.7 * j) + a * sin(1.7 * j))) < 1e-6);
        }
    }
}

/* The error of exp(u) comes from rounding u about twice: |u| 2^-24 each time. */
static double activation_tolerance(double u) { return 1.2e-7 * (4.0 + fabs(u)); }

static void test_activations(void)
{
    float gate[3], up[3] = {1.25f, -0.75f, 9.5f};
    for (uint64_t bits = 0; bits <= UINT32_MAX; bits += 4099) {
        float x = float_of_bits((uint32_t)bits);
        if (!(fabsf(x) < 12.0f)) continue;
        double g = (double)x, u = 2.0 * sqrt(M_2_PI) * (g + 0.044715 * g * g * g);
        double silu = g / (1.0 + exp(-g)), gelu = 0.5 * g * (1.0 + tanh(u / 2.0));
        /* 1 + tanh cancels below 0: the same by its other form. */
        if (u < -1.0) gelu = g / (1.0 + exp(-u));
        double clamped = fmin(g, 7.0), swiglu = clamped / (1.0 + exp(-1.702 * clamped));
        gate[0] = gate[1] = gate[2] = x;
        table.silu_gated(gate, up, 3);
        double silu_error = relative(gate[0], silu * 1.25);
        gate[0] = gate[1] = gate[2] = x;
        table.gelu_tanh(gate, NULL, 3);
        double gelu_error = relative(gate[1], gelu);
        gate[0] = gate[1] = gate[2] = x;
        table.swiglu_clamped(gate, up, 3);
        double swiglu_error = relative(gate[2], swiglu * 8.0);
        if (fabsf(x) < 0x1p-120f || u < -80.0) continue; /* rounding of denormals */
        TEST_CHECK_THAT(silu_error < 4e-7, "silu(%a) off by %g", g, silu_error);
        TEST_CHECK_THAT(gelu_error < activation_tolerance(u), "gelu(%a) off by %g", g, gelu_error);
        TEST_CHECK_THAT(swiglu_error < activation_tolerance(1.702 * g), "swiglu(%a) off by %g", g,
                        swiglu_error);
    }
    float twice[1] = {2.0f}, plain[1] = {2.0f};
    table.gelu_gated(twice, up, 1);
    table.gelu_tanh(plain, NULL, 1);
    TEST_CHECK(twice[0] == plain[0] * 1.25f);
    TEST_CHECK(relative(plain[0], 1.954597694) < 1e-6);
}

static void test_softmax(void)
{
    static float x[N_MAX], y[N_MAX];
    static const uint32_t lengths[] = {1, 2, 7, 16, 33, 128, 2880};
    for (size_t k = 0; k < ARRAY_LEN(lengths); k++) {
        uint32_t n = lengths[k];
        double max = -INFINITY, sum = 0.0;
        random_fill(x, n, 20.0f);
        memcpy(y, x, n * sizeof *x);
        table.softmax(y, n);
        for (uint32_t i = 0; i < n; i++) max = fmax(max, (double)x[i]);
        for (uint32_t i = 0; i < n; i++) sum += exp((double)x[i] - max);
        for (uint32_t i = 0; i < n; i++) /* x - max rounds in units of 2^-19 */
            TEST_CHECK(relative(y[i], exp((double)x[i] - max) / sum) < 3e-6);
    }
}

/* Attention of n_q rows over pages, in double. */
typedef struct {
    kernel_kv_type type;
    uint32_t head_dim, n_q, n_pages;
    float q[8][HEAD_MAX];
    float k[4 * KERNEL_PAGE][HEAD_MAX], v[4 * KERNEL_PAGE][HEAD_MAX];
    uint32_t first[4][8], end[4][8];
    _Alignas(64) float keys[4][HEAD_MAX * KERNEL_PAGE]; /* of any type */
    _Alignas(64) float values[4][KERNEL_PAGE * HEAD_MAX];
} attention_case;

static void attention_make(attention_case *a, kernel_kv_type type, uint32_t head_dim, uint32_t n_q,
                           uint32_t n_pages)
{
    a->type = type, a->head_dim = head_dim, a->n_q = n_q, a->n_pages = n_pages;
    memset(a->keys, 0xff, sizeof a->keys); /* NaN in every slot that is not written */
    memset(a->values, 0xff, sizeof a->values);
    for (uint32_t r = 0; r < n_q; r++)
        random_fill(a->q[r], head_dim, 4.0f / sqrtf((float)head_dim));
    for (uint32_t p = 0; p < n_pages; p++) {
        uint32_t low = random_bits() % 8, high = KERNEL_PAGE - random_bits() % 8;
        for (uint32_t j = low; j < high; j++) {
            random_fill(a->k[p * KERNEL_PAGE + j], head_dim, 2.0f);
            random_fill(a->v[p * KERNEL_PAGE + j], head_dim, 2.0f);
            table.kv_write[type](a->keys[p], a->values[p], j, a->k[p * KERNEL_PAGE + j],
                                 a->v[p * KERNEL_PAGE + j], head_dim);
        }
        for (uint32_t r = 0; r < n_q; r++) {
            a->first[p][r] = low + random_bits() % 30;
            a->end[p][r] = high - random_bits() % 30; /* sometimes empty */
        }
    }
}

/* x as stored, except for the rounding to 8 bits, which depends on its whole head. */
static double kept(const attention_case *a, float x)
{
    return a->type == KERNEL_KV_F16 ? nearest_half((double)x) : (double)x;
}

static void attention_truth(const attention_case *a, uint32_t row, double *out)
{
    double sum = 0.0;
    for (uint32_t d = 0; d < a->head_dim; d++) out[d] = 0.0;
    for (uint32_t p = 0; p < a->n_pages; p++)
        for (uint32_t j = a->first[p][row]; j < a->end[p][row]; j++) {
            double s = 0.0;
            for (uint32_t d = 0; d < a->head_dim; d++)
                s += (double)a->q[row][d] * kept(a, a->k[p * KERNEL_PAGE + j][d]);
            sum += exp(s); /* |s| < 30: no need of the maximum */
            for (uint32_t d = 0; d < a->head_dim; d++)
                out[d] += exp(s) * kept(a, a->v[p * KERNEL_PAGE + j][d]);
        }
    for (uint32_t d = 0; d < a->head_dim; d++) out[d] /= sum;
}

static void attention_run(const attention_case *a, uint32_t page_from, uint32_t page_to,
                          kernel_softmax_state *state, float *out)
{
    _Alignas(4) uint8_t queries[8 * HEAD_MAX * sizeof(float)];
    const size_t query_bytes = kernel_query_bytes(a->type, a->head_dim);
    CHECK(query_bytes <= HEAD_MAX * sizeof(float));
    memset(out, 0, a->n_q * a->head_dim * sizeof *out);
    for (uint32_t r = 0; r < a->n_q; r++) {
        table.attend_query[a->type](queries + r * query_bytes, a->q[r], a->head_dim);
        state[r] = (kernel_softmax_state){.max = -INFINITY};
    }
    for (uint32_t p = page_from; p < page_to; p++) {
        const kernel_kv_page page = {a->keys[p], a->values[p]};
        table.attend[a->type](state, out, queries, &page, 1, a->first[p], a->end[p], a->n_q,
                              a->head_dim);
    }
}

/* Turns sums into attention's output. */
static void attention_finish(const attention_case *a, const kernel_softmax_state *state, float *out)
{
    for (uint32_t d = 0; d < a->head_dim; d++) out[d] /= state->sum;
    if (table.attend_result[a->type]) table.attend_result[a->type](out, a->head_dim);
}

/* The allowed error for values up to 2: floats round 4e-6, 8 bits move the scores of the
 * smallest head, which reach 11, by some hundredths, and so results. */
static double attention_error(kernel_kv_type type) { return type == KERNEL_KV_I8 ? 0.1 : 4e-6; }

static void check_attention(kernel_kv_type type)
{
    static attention_case a;
    static const uint32_t dims[] = {2, 8, 20, 64, 80};
    for (size_t k = 0; k < 2 * ARRAY_LEN(dims); k++) {
        uint32_t head_dim = dims[k / 2], n_q = 1 + (uint32_t)k % 8;
        attention_make(&a, type, head_dim, n_q, 3);
        kernel_softmax_state all[8], left[8], right[8];
        float out[8 * HEAD_MAX], left_out[8 * HEAD_MAX], right_out[8 * HEAD_MAX];
        attention_run(&a, 0, 3, all, out);
        attention_run(&a, 0, 1, left, left_out);
        attention_run(&a, 1, 3, right, right_out);
        for (uint32_t r = 0; r < n_q; r++) {
            double want[HEAD_MAX];
            attention_truth(&a, r, want);
            float *l = left_out + r * head_dim, *whole = out + r * head_dim;
            table.attend_join(left + r, l, right + r, right_out + r * head_dim, head_dim);
            attention_finish(&a, all + r, whole);
            attention_finish(&a, left + r, l);
            for (uint32_t d = 0; d < head_dim; d++) {
                const double got = (double)whole[d], joined = (double)l[d];
                TEST_CHECK_THAT(fabs(got - want[d]) < attention_error(type), "%s: %g, not %g",
                                kernel_kv_name(type), got, want[d]);
                TEST_CHECK(fabs(joined - want[d]) < attention_error(type));
            }
        }
    }
}

static void test_attention(void)
{
    for (int type = 0; type < KERNEL_KV_TYPE_END; type++) check_attention((kernel_kv_type)type);
}

/* A part without tokens has weight 0, on either side; one token gives its value. */
static void check_attention_edges(kernel_kv_type type)
{
    enum { DIM = 8 };
    static _Alignas(64) float keys[DIM * KERNEL_PAGE], values[KERNEL_PAGE * DIM]; /* of any type */
    const kernel_kv_page page = {keys, values};
    float q[DIM], k[DIM], v[DIM], out[DIM] = {0}, other_out[DIM] = {0}, query[2 * DIM];
    const uint32_t none = 9, first = 9, end = 10;
    kernel_softmax_state state = {.max = -INFINITY}, other = state;
    random_fill(q, DIM, 1.0f);
    random_fill(k, DIM, 1.0f);
    for (int d = 0; d < DIM; d++) v[d] = (float)(d - 3) / 4;
    table.kv_write[type](keys, values, 9, k, v, DIM);
    CHECK(kernel_query_bytes(type, DIM) <= sizeof query);
    table.attend_query[type](query, q, DIM);
    table.attend[type](&state, out, query, &page, 1, &first, &none, 1, DIM);
    TEST_CHECK(state.max == -INFINITY && state.sum == 0.0f && out[3] == 0.0f);
    table.attend_join(&state, out, &other, other_out, DIM);
    TEST_CHECK(state.max == -INFINITY && state.sum == 0.0f);
    table.attend[type](&other, other_out, query, &page, 1, &first, &end, 1, DIM);
    table.attend_join(&state, out, &other, other_out, DIM);
    TEST_CHECK(memcmp(&state, &other, sizeof state) == 0 && memcmp(out, other_out, sizeof v) == 0);
    if (table.attend_result[type]) table.attend_result[type](out, DIM);
    TEST_CHECK(fabsf(other.sum - 1.0f) < 1e-6f); /* exp(score - score) */
    for (int d = 0; d < DIM; d++)
        TEST_CHECK_THAT(fabsf(out[d] - v[d]) <= (type == KERNEL_KV_I8 ? 0.02f : 0.0f),
                        "%g is not %g", (double)out[d], (double)v[d]);
}

static void test_attention_edges(void)
{
    for (int type = 0; type < KERNEL_KV_TYPE_END; type++)
        check_attention_edges((kernel_kv_type)type);
}

static void test_kv_types(void)
{
    kernel_kv_type type;
    for (int i = 0; i < KERNEL_KV_TYPE_END; i++)
        TEST_CHECK(kernel_kv_of_name(kernel_kv_name((kernel_kv_type)i), &type) && (int)type == i);
    TEST_CHECK(!kernel_kv_of_name("f8", &type) && !kernel_kv_of_name("", &type));
    TEST_CHECK(kernel_kv_default(64) == KERNEL_KV_I8 && kernel_kv_default(128) == KERNEL_KV_I8);
    TEST_CHECK(kernel_kv_default(256) == KERNEL_KV_F16 && kernel_kv_default(576) == KERNEL_KV_F16);
    TEST_CHECK(kernel_kv_bytes(KERNEL_KV_I8, 96) == KERNEL_PAGE * (96 + 4));
    TEST_CHECK(kernel_kv_bytes(KERNEL_KV_I8, 20) == KERNEL_PAGE * (32 + 4));
    TEST_CHECK(kernel_kv_bytes(KERNEL_KV_F16, 96) == KERNEL_PAGE * 96 * 2);
    TEST_CHECK(kernel_kv_bytes(KERNEL_KV_F32, 96) == KERNEL_PAGE * 96 * 4);
}

static void test_cpu_names(void)
{
    kernel_cpu cpu;
    for (int i = KERNEL_CPU_REF; i < KERNEL_CPU_END; i++)
        TEST_CHECK(kernel_cpu_of_name(kernel_cpu_name((kernel_cpu)i), &cpu) && (int)cpu == i);
    TEST_CHECK(!kernel_cpu_of_name("avx", &cpu) && !kernel_cpu_of_name("", &cpu));
    TEST_CHECK(kernel_cpu_has(KERNEL_CPU_REF) && kernel_cpu_has(kernel_cpu_detect()));
    for (int i = KERNEL_CPU_REF; i < KERNEL_CPU_END; i++) {
        kernel_table t;
        TEST_CHECK(!kernel_cpu_has((kernel_cpu)i) || i <= (int)kernel_cpu_detect());
        if (!kernel_cpu_has((kernel_cpu)i)) continue;
        kernel_table_init(&t, (kernel_cpu)i);
        TEST_CHECK(strcmp(t.name, kernel_cpu_name((kernel_cpu)i)) == 0);
        for (int type = 0; type < KERNEL_KV_TYPE_END; type++)
            TEST_CHECK(t.kv_write[type] && t.attend_query[type] && t.attend[type]);
    }
}

int main(void)
{
    kernel_float_setup();
    kernel_table_init(&table, KERNEL_CPU_REF);
    TEST_RUN(test_exp);
    TEST_RUN(test_exp_seams);
    TEST_RUN(test_sincos);
    TEST_RUN(test_kv_write);
    TEST_RUN(test_norms);
    TEST_RUN(test_add);
    TEST_RUN(test_rope);
    TEST_RUN(test_activations);
    TEST_RUN(test_softmax);
    TEST_RUN(test_attention);
    TEST_RUN(test_attention_edges);
    TEST_RUN(test_kv_types);
    TEST_RUN(test_cpu_names);
    return unit_report("vector");
}
