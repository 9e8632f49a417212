/* check_quantize.c - activations in 8 bits. */
#include <float.h>
#include <math.h>

#include "kernelcheck.h"

enum { VALUES_MAX = 2880 };

/* Magnitudes around every limit: nothing, below what counts, just above, ordinary, the largest. */
static const float magnitudes[] = {0.0f,     FLT_TRUE_MIN, FLT_MIN, 0x1p-101f, 0x1p-100f, 0x1p-99f,
                                   0x1p-20f, 1.0f,         127.0f,  3e20f,     FLT_MAX};

static void fill(float *x, uint32_t n, uint32_t which)
{
    const float magnitude = magnitudes[which % ARRAY_LEN(magnitudes)];
    for (uint32_t i = 0; i < n; i++) {
        x[i] = kc_rand_float() * magnitude;
        /* Halves between neighbours: with 127 in the group, the inverse is 1. */
        if (magnitude == 127.0f) x[i] = i % 50 == 0 ? 127.0f : floorf(x[i]) + 0.5f;
        if (kc_rand_below(40) == 0) x[i] = kc_rand() & 1 ? magnitude : -magnitude;
    }
}

/* q is within half a step of x, the scale is the largest magnitude / 127, sums are sums. */
static void check_truth(const kernel_act *acts, const float *x, uint32_t n)
{
    for (uint32_t i = 0; i < kernel_n_groups(n) * KERNEL_GROUP; i++) {
        const kernel_act *act = acts + i / KERNEL_GROUP;
        const uint32_t at = i % KERNEL_GROUP;
        const double step = (double)act->scale, value = i < n ? (double)x[i] : 0.0;
        const double limit = step == 0.0 ? 0x1p-100 : step * 0.50001;
        if (fabs(value - step * act->q[at]) > limit || act->q[at] == -128 || !isfinite(act->scale))
            kc_fail("x[%u] = %a is %d * %a", i, value, act->q[at], step);
        int sum16 = 0, sum32 = 0;
        for (uint32_t j = 0; j < 16; j++) sum16 += act->q[at / 16 * 16 + j];
        for (uint32_t j = 0; j < 32; j++) sum32 += act->q[at / 32 * 32 + j];
        if (act->sum16[at / 16] != sum16 || act->sum32[at / 32] != sum32 || act->unused)
            kc_fail("sums of group %u", i / KERNEL_GROUP);
    }
}

void kc_check_quantize(const kernel_table *ref, const kernel_table *level)
{
    if (!kc_begin((kc_fn)level->quantize, "quantize")) return;
    for (uint32_t n = 32; n <= VALUES_MAX; n += n < 512 ? 32 : 608) {
        const size_t size = kernel_n_groups(n) * sizeof(kernel_act);
        for (uint32_t which = 0; which < ARRAY_LEN(magnitudes); which++) {
            float *x = kc_buffer(n * sizeof *x, 4);
            kernel_act *want = kc_buffer(size, 4), *got = kc_buffer(size, 4);
            fill(x, n, which);
            ref->quantize(want, x, n);
            level->quantize(got, x, n);
            if (memcmp(want, got, size) != 0) kc_fail("n = %u, magnitude %u", n, which);
            check_truth(got, x, n);
            kc_release();
        }
    }
    if (kc_benching()) {
        float *x = kc_buffer(VALUES_MAX * sizeof *x, 64);
        kernel_act *out = kc_buffer(kernel_n_groups(VALUES_MAX) * sizeof *out, 64);
        fill(x, VALUES_MAX, 7);
        KC_BENCH("from L1", VALUES_MAX * sizeof *x, "GB/s", level->quantize(out, x, VALUES_MAX));
    }
    kc_end();
}
