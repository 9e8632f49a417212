/* check_vector.c - norms, sums, rotations, activations and softmax at every level. */
#include <float.h>

#include "kernelcheck.h"

static const uint32_t lengths[] = {1,  2,  3,  5,  7,  8,   15,  16,  17,  31,
                                   33, 63, 64, 65, 127, 129, 255, 896, 1023, 2880};
enum { BENCH_N = 2880 };

typedef enum {
    FILL_RANDOM = 0,    /* ordinary values */
    FILL_WIDE = 1,      /* every magnitude between 2^-149 and 2^56: squares and sums stay finite */
    FILL_ZEROS = 2,     /* of both signs */
    FILL_DENORMALS = 3,
    FILL_EXTREMES = 4,  /* largest and smallest; only where no difference of infinities results */
    FILL_END = 5,
} fill_mode;

static float fill_value(fill_mode mode)
{
    static const float extremes[] = {FLT_MAX, 1e30f, 88.7f, 87.3f, 1.0f, FLT_MIN, 0.0f};
    const uint32_t bits = kc_rand();
    const float sign = bits & 1 ? -1.0f : 1.0f;
    uint32_t wide = bits & 0x807fffff;
    float value = 0.0f;
    switch (mode) {
    case FILL_RANDOM: return kc_rand_float() * 6.0f;
    case FILL_WIDE: wide |= kc_rand_below(127 + 56) << 23; break;
    case FILL_ZEROS: return sign * 0.0f;
    case FILL_DENORMALS: wide &= bits & 2 ? 0x807fffff : 0x8000000f; break;
    case FILL_EXTREMES: return sign * extremes[kc_rand_below(ARRAY_LEN(extremes))];
    case FILL_END: break;
    }
    memcpy(&value, &wide, sizeof value);
    return value;
}

/* n values that end at a page that faults. */
static float *filled(uint32_t n, fill_mode mode)
{
    float *x = kc_buffer(n * sizeof *x, sizeof *x);
    for (uint32_t i = 0; i < n; i++) x[i] = fill_value(mode);
    return x;
}

static float *copy_of(const float *x, uint32_t n)
{
    float *copy = kc_buffer(n * sizeof *x, sizeof *x);
    memcpy(copy, x, n * sizeof *x);
    return copy;
}

static void compare(const float *want, const float *got, uint32_t n, uint32_t of, int mode)
{
    char what[64];
    snprintf(what, sizeof what, "n = %u, mode %d", of, mode);
    kc_compare(want, got, n, what);
    kc_release();
}

/* for (each length) for (each mode below end) */
#define EACH_SHAPE(n, mode, end)                                                                   \
    for (size_t at_ = 0, n = lengths[0]; at_ < ARRAY_LEN(lengths);                                 \
         n = ++at_ < ARRAY_LEN(lengths) ? lengths[at_] : 0)                                        \
        for (int mode = 0; mode < (int)(end); mode++)

static void check_rms_norm(const kernel_table *ref, const kernel_table *level)
{
    if (!kc_begin((kc_fn)level->rms_norm, "rms_norm")) return;
    EACH_SHAPE(n, mode, FILL_EXTREMES)
    {
        const float *x = filled(n, mode), *weight = filled(n, FILL_RANDOM);
        float *want = filled(n, FILL_ZEROS), *got = filled(n, FILL_RANDOM);
        float *in_place = copy_of(x, n);
        ref->rms_norm(want, x, weight, n, 1e-6f);
        level->rms_norm(got, x, weight, n, 1e-6f);
        level->rms_norm(in_place, in_place, weight, n, 1e-6f);
        if (memcmp(want, in_place, n * sizeof *want) != 0) kc_fail("in place, n = %zu", n);
        compare(want, got, n, n, mode);
    }
    if (kc_benching()) {
        float *x = filled(BENCH_N, FILL_RANDOM), *y = filled(BENCH_N, FILL_RANDOM);
        KC_BENCH("2880", BENCH_N, "Gvalue/s", level->rms_norm(y, x, x, BENCH_N, 1e-6f));
    }
    kc_end();
}

static void check_layer_norm(const kernel_table *ref, const kernel_table *level)
{
    if (!kc_begin((kc_fn)level->layer_norm, "layer_norm")) return;
    EACH_SHAPE(n, mode, FILL_EXTREMES)
    {
        const float *x = filled(n, mode), *weight = filled(n, FILL_RANDOM);
        const float *bias = mode % 2 ? NULL : filled(n, mode);
        float *want = filled(n, FILL_ZEROS), *got = copy_of(x, n);
        ref->layer_norm(want, x, weight, bias, n, 1e-5f);
        level->layer_norm(got, got, weight, bias, n, 1e-5f);
        compare(want, got, n, n, mode);
    }
    if (kc_benching()) {
        float *x = filled(BENCH_N, FILL_RANDOM), *y = filled(BENCH_N, FILL_RANDOM);
        KC_BENCH("2880", BENCH_N, "Gvalue/s", level->layer_norm(y, x, x, x, BENCH_N, 1e-6f));
    }
    kc_end();
}

static void check_add(const kernel_table *ref, const kernel_table *level)
{
    if (kc_begin((kc_fn)level->add, "add")) {
        EACH_SHAPE(n, mode, FILL_END)
        {
            const float *y = filled(n, mode);
            float *want = filled(n, mode), *got = copy_of(want, n);
            ref->add(want, y, n);
            level->add(got, y, n);
            compare(want, got, n, n, mode);
        }
        if (kc_benching()) {
            float *x = filled(BENCH_N, FILL_RANDOM), *y = filled(BENCH_N, FILL_ZEROS);
            KC_BENCH("2880", BENCH_N, "Gvalue/s", level->add(x, y, BENCH_N));
        }
        kc_end();
    }
    if (kc_begin((kc_fn)level->add_scaled, "add_scaled")) {
        EACH_SHAPE(n, mode, FILL_END)
        {
            const float *y = filled(n, mode), scale = fill_value(mode % FILL_EXTREMES);
            float *want = filled(n, mode), *got = copy_of(want, n);
            ref->add_scaled(want, y, scale, n);
            level->add_scaled(got, y, scale, n);
            compare(want, got, n, n, mode);
        }
        kc_end();
    }
}

static void check_rope(kernel_rope_fn *ref, kernel_rope_fn *level, const char *name)
{
    if (!kc_begin((kc_fn)level, name)) return;
    EACH_SHAPE(n, mode, FILL_EXTREMES)
    {
        float *cosine = filled(n, mode), *sine = filled(n, mode);
        float *want = filled(2 * n, mode), *got = copy_of(want, 2 * n);
        if (mode == FILL_RANDOM)
            for (uint32_t i = 0; i < n; i++) kernel_sincos_ref(kc_rand(), sine + i, cosine + i);
        ref(want, cosine, sine, n);
        level(got, cosine, sine, n);
        compare(want, got, 2 * n, n, mode);
    }
    if (kc_benching()) {
        float *x = filled(128, FILL_RANDOM), *c = filled(64, FILL_ZEROS);
        for (uint32_t i = 0; i < 64; i++) c[i] = 0.7f;
        KC_BENCH("64 pairs", 64, "Gpair/s", level(x, c, c, 64));
    }
    kc_end();
}

static void check_activation(kernel_activation_fn *ref, kernel_activation_fn *level,
                             const char *name, bool gated)
{
    if (!kc_begin((kc_fn)level, name)) return;
    EACH_SHAPE(n, mode, FILL_END)
    {
        const float *up = gated ? filled(n, mode) : NULL;
        float *want = filled(n, mode), *got = copy_of(want, n);
        ref(want, up, n);
        level(got, up, n);
        compare(want, got, n, n, mode);
    }
    if (kc_benching()) {
        float *gate = filled(BENCH_N, FILL_RANDOM), *up = filled(BENCH_N, FILL_RANDOM);
        KC_BENCH("2880", BENCH_N, "Gvalue/s", level(gate, gated ? up : NULL, BENCH_N));
    }
    kc_end();
}

static void check_softmax(const kernel_table *ref, const kernel_table *level)
{
    if (!kc_begin((kc_fn)level->softmax, "softmax")) return;
    EACH_SHAPE(n, mode, FILL_END)
    {
        float *want = filled(n, mode), *got = copy_of(want, n);
        ref->softmax(want, n);
        level->softmax(got, n);
        compare(want, got, n, n, mode);
    }
    /* A sweep of exp: x[0] is the maximum, the rest lies up to 90 below it. */
    for (uint32_t round = 0; round < (kc_slow() ? 200 : 4000); round++) {
        float *want = filled(1023, FILL_RANDOM);
        for (uint32_t i = 0; i < 1023; i++) want[i] = i ? (kc_rand_float() - 1.0f) * 45.0f : 0.0f;
        float *got = copy_of(want, 1023);
        ref->softmax(want, 1023);
        level->softmax(got, 1023);
        compare(want, got, 1023, 1023, FILL_END);
    }
    if (kc_benching()) {
        float *x = filled(BENCH_N, FILL_RANDOM);
        KC_BENCH("2880", BENCH_N, "Gvalue/s", level->softmax(x, BENCH_N));
    }
    kc_end();
}

void kc_check_vector(const kernel_table *ref, const kernel_table *level)
{
    check_rms_norm(ref, level);
    check_layer_norm(ref, level);
    check_add(ref, level);
    check_rope(ref->rope_adjacent, level->rope_adjacent, "rope_adjacent");
    check_rope(ref->rope_split, level->rope_split, "rope_split");
    check_activation(ref->silu_gated, level->silu_gated, "silu_gated", true);
    check_activation(ref->gelu_tanh, level->gelu_tanh, "gelu_tanh", false);
    check_activation(ref->gelu_gated, level->gelu_gated, "gelu_gated", true);
    check_activation(ref->swiglu_clamped, level->swiglu_clamped, "swiglu_clamped", true);
    check_softmax(ref, level);
}
