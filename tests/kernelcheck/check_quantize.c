/* check_quantize.c - activations in 8 bits. */
#include <float.h>
#include <math.h>

#include "kernelcheck.h"

enum { VALUES_MAX = 2880 };

/* Magnitudes around every limit: zero, below the smallest that counts, just above, ordinary, the
 * largest. */
static const float magnitudes[] = {0.0f,     FLT_TRUE_MIN, FLT_MIN, 0x1p-101f, 0x1p-100f, 0x1p-99f,
                                   0x1p-20f, 1.0f,         127.0f,  3e20f,     FLT_MAX};

static void fill(float *x, uint32_t n, uint32_t which)
{
    const float magnitude = magnitudes[which % ARRAY_LEN(magnitudes)];
    for (uint32_t i = 0; i < n; i++) {
        x[i] = kc_rand_float() * magnitude;
        /* Halves between neighbours: with 127 in the block, the inverse is 1. */
        if (magnitude == 127.0f) x[i] = i % 25 == 0 ? 127.0f : floorf(x[i]) + 0.5f;
        if (kc_rand_below(40) == 0) x[i] = kc_rand() & 1 ? magnitude : -magnitude;
    }
}

/* The largest |q| of values [first, first + n) of a group. */
static uint32_t largest_q(const kernel_act *act, uint32_t first, uint32_t n)
{
    uint32_t top = 0;
    for (uint32_t i = first; i < first + n; i++) {
        const uint32_t q = (uint32_t)abs(act->q[i]);
        top = q > top ? q : top;
    }
    return top;
}

/* q is within half a step of x, the scale is the largest magnitude / 127, sums are sums. */
static void check_truth(const kernel_act *acts, const float *x, uint32_t n, kernel_acts form)
{
    const uint32_t share = form == KERNEL_ACTS_32 ? KERNEL_BLOCK : KERNEL_GROUP;
    for (uint32_t i = 0; i < kernel_n_groups(n) * KERNEL_GROUP; i++) {
        const kernel_act *act = acts + i / KERNEL_GROUP;
        const uint32_t at = i % KERNEL_GROUP;
        const float scale = act->scale[at / KERNEL_BLOCK];
        const double step = (double)scale, value = i < n ? (double)x[i] : 0.0;
        const double limit = step == 0.0 ? 0x1p-100 : step * 0.50001;
        if (fabs(value - step * act->q[at]) > limit || act->q[at] == -128 || !isfinite(scale))
            kc_fail("x[%u] = %a is %d * %a", i, value, act->q[at], step);
        int sum16 = 0, sum32 = 0;
        for (uint32_t j = 0; j < 16; j++) sum16 += act->q[at / 16 * 16 + j];
        for (uint32_t j = 0; j < 32; j++) sum32 += act->q[at / 32 * 32 + j];
        /* A scale is as small as its values allow, and the same for all that share it. */
        if (step != 0.0 && largest_q(act, at / share * share, share) != 127)
            kc_fail("the scale of x[%u] is %a", i, step);
        if (scale != act->scale[at / share * share / KERNEL_BLOCK]) kc_fail("scales of x[%u]", i);
        for (size_t j = 0; j < sizeof act->unused; j++) sum16 += act->unused[j];
        if (act->sum16[at / 16] != sum16 || act->sum32[at / 32] != sum32)
            kc_fail("sums of group %u", i / KERNEL_GROUP);
    }
}

static void check_form(const kernel_table *ref, const kernel_table *level, kernel_acts form)
{
    kernel_quantize_fn *quantize = level->quantize[form];
    if (!kc_begin((kc_fn)quantize, form == KERNEL_ACTS_32 ? "quantize_32" : "quantize_128")) return;
    for (uint32_t n = 32; n <= VALUES_MAX; n += n < 512 ? 32 : 608) {
        const size_t size = kernel_n_groups(n) * sizeof(kernel_act);
        for (uint32_t which = 0; which < ARRAY_LEN(magnitudes); which++) {
            float *x = kc_buffer(n * sizeof *x, 4);
            kernel_act *want = kc_buffer(size, 4), *got = kc_buffer(size, 4);
            fill(x, n, which);
            ref->quantize[form](want, x, n);
            quantize(got, x, n);
            if (memcmp(want, got, size) != 0) kc_fail("n = %u, magnitude %u", n, which);
            check_truth(got, x, n, form);
            kc_release();
        }
    }
    if (kc_benching()) {
        float *x = kc_buffer(VALUES_MAX * sizeof *x, 64);
        kernel_act *out = kc_buffer(kernel_n_groups(VALUES_MAX) * sizeof *out, 64);
        fill(x, VALUES_MAX, 7);
        KC_BENCH("from L1", VALUES_MAX * sizeof *x, "GB/s", quantize(out, x, VALUES_MAX));
    }
    kc_end();
}

void kc_check_quantize(const kernel_table *ref, const kernel_table *level)
{
    for (int form = 0; form < KERNEL_ACTS_END; form++) check_form(ref, level, (kernel_acts)form);
}
