/* check_recurrent.c - convolutions, states and gates of recurrent layers at every level. */
#include <math.h>

#include "kernelcheck.h"

static float *filled(size_t n, float scale)
{
    float *x = kc_buffer(n * sizeof *x, sizeof *x);
    for (size_t i = 0; i < n; i++) x[i] = kc_rand_float() * scale;
    return x;
}

static float *copy_of(const float *x, size_t n)
{
    float *copy = kc_buffer(n * sizeof *x, sizeof *x);
    memcpy(copy, x, n * sizeof *x);
    return copy;
}

static void check_conv(const kernel_table *ref, const kernel_table *level)
{
    static const uint32_t lengths[] = {1, 7, 8, 15, 16, 17, 31, 64, 100, 128, 131};
    if (!kc_begin((kc_fn)level->conv, "conv")) return;
    for (size_t at = 0; at < ARRAY_LEN(lengths); at++)
        for (uint32_t taps = 2; taps <= 8; taps++) {
            const uint32_t n = lengths[at], stride = n + 5;
            const float *rows[8], *weight = filled((taps - 1) * stride + n, 4);
            const float *bias = taps % 2 ? filled(n, 3) : NULL;
            char what[64];
            for (uint32_t j = 0; j < taps; j++) rows[j] = filled(n, taps == 5 ? 1e20f : 6);
            float *want = filled(n, 1), *got = filled(n, 1);
            ref->conv(want, rows, weight, bias, stride, taps, n);
            level->conv(got, rows, weight, bias, stride, taps, n);
            snprintf(what, sizeof what, "%u of %u taps", n, taps);
            kc_compare(want, got, n, what);
            kc_release();
        }
    if (kc_benching()) {
        const float *rows[4];
        for (int j = 0; j < 4; j++) rows[j] = filled(6144, 1);
        float *weight = filled(4 * 6144, 1), *out = filled(6144, 1);
        KC_BENCH("4 taps, 6144 channels", 6144, "Gvalue/s",
                 level->conv(out, rows, weight, NULL, 6144, 4, 6144));
    }
    kc_end();
}

static kernel_delta_row row_of(uint32_t n_keys, uint32_t n_lanes)
{
    return (kernel_delta_row){
        .q = filled(n_keys, 0.2f),
        .k = filled(n_keys, 0.3f),
        .v = filled(n_lanes, 2),
        .decay = 0.5f + 0.5f * kc_rand_float(),
        .beta = 0.5f + 0.5f * kc_rand_float(),
        .skip = kc_rand_float(),
        .n_keys = n_keys,
        .n_lanes = n_lanes,
    };
}

static void compare(const float *want, const float *got, uint32_t n, const char *what,
                    const kernel_delta_row *in)
{
    char text[64];
    snprintf(text, sizeof text, "%s, %u keys, %u lanes", what, in->n_keys, in->n_lanes);
    kc_compare(want, got, n, text);
}

typedef kernel_delta_fn *(*step_of)(const kernel_table *table);

static kernel_delta_fn *delta_of(const kernel_table *table) { return table->delta; }
static kernel_delta_fn *scan_of(const kernel_table *table) { return table->scan; }

/* Out of place, in place, and again from the changed data. */
static void compare_step(const kernel_table *ref, const kernel_table *level, step_of step,
                         uint32_t n_keys, uint32_t n_lanes, float scale)
{
    const kernel_delta_row in = row_of(n_keys, n_lanes);
    const uint32_t n = n_keys * n_lanes;
    const float *from = filled(n, scale);
    float *in_place = copy_of(from, n), *to[2], *out[2], *change[2];
    for (int i = 0; i < 2; i++) {
        to[i] = filled(n, 1);
        out[i] = filled(n_lanes, 1);
        change[i] = filled(n_lanes, 1);
    }
    step(ref)(out[0], change[0], to[0], from, &in);
    step(level)(out[1], change[1], to[1], from, &in);
    compare(out[0], out[1], n_lanes, "out", &in);
    compare(change[0], change[1], n_lanes, "change", &in);
    compare(to[0], to[1], n, "to", &in);
    step(level)(out[1], change[1], in_place, in_place, &in);
    compare(to[0], in_place, n, "in place", &in);
    memset(to[1], 0, n * sizeof *from);
    level->delta_again(to[1], from, change[0], &in);
    compare(to[0], to[1], n, "again", &in);
    memcpy(in_place, from, n * sizeof *from);
    level->delta_again(in_place, in_place, change[0], &in);
    compare(to[0], in_place, n, "again in place", &in);
    kc_release();
}

static void check_step(const kernel_table *ref, const kernel_table *level, step_of step,
                       const char *name)
{
    static const uint32_t keys[] = {1, 16, 31, 128}, lanes[] = {16, 32, 48, 64, 80, 128};
    if (!kc_begin((kc_fn)step(level), name)) return;
    for (size_t k = 0; k < ARRAY_LEN(keys); k++)
        for (size_t l = 0; l < ARRAY_LEN(lanes); l++)
            for (int scale = 0; scale < 3; scale++)
                compare_step(ref, level, step, keys[k], lanes[l],
                             scale == 0 ? 0.0f : scale == 1 ? 1.0f : 1e30f);
    if (kc_benching()) {
        const kernel_delta_row in = row_of(128, 64);
        float *state = filled(128 * 64, 1), *out = filled(64, 1), *change = filled(64, 1);
        KC_BENCH("128 x 64", (step == scan_of ? 3 : 4) * 128 * 64, "Gmul/s",
                 step(level)(out, change, state, state, &in));
    }
    kc_end();
}

/* One step in double, by its definition. */
static void check_scan_meaning(const kernel_table *ref)
{
    enum { N = 31, P = 16 };
    float to[N * P], out[P], change[P];
    if (!kc_begin_named("scan's meaning")) return;
    const kernel_delta_row in = row_of(N, P);
    const float *from = filled(N * P, 1);
    ref->scan(out, change, to, from, &in);
    for (int c = 0; c < P; c++) {
        double y = (double)in.skip * (double)in.v[c];
        for (int i = 0; i < N; i++) {
            const double s = (double)in.decay * (double)from[i * P + c] +
                             (double)in.beta * (double)in.k[i] * (double)in.v[c];
            if (fabs(s - (double)to[i * P + c]) > 1e-6) kc_fail("state %d of %d: %g", i, c, s);
            y += s * (double)in.q[i];
        }
        if (fabs(y - (double)out[c]) > 1e-5) kc_fail("out %d: %g, not %g", c, (double)out[c], y);
    }
    kc_release();
    kc_end();
}

static void check_sigmoid(const kernel_table *ref, const kernel_table *level)
{
    if (!kc_begin((kc_fn)level->sigmoid_gated, "sigmoid_gated")) return;
    for (uint32_t n = 1; n < 70; n++) {
        float *want = filled(n, n % 3 ? 8 : 1e5f), *got = copy_of(want, n), *up = filled(n, 3);
        ref->sigmoid_gated(want, up, n);
        level->sigmoid_gated(got, up, n);
        kc_compare(want, got, n, "sigmoid");
        kc_release();
    }
    kc_end();
}

/* The scalars against the C library in double. */
static void check_scalars(void)
{
    if (!kc_begin_named("softplus")) return;
    for (double x = -104; x < 104; x += 1.0 / 128) {
        const double want = x > 0 ? x + log1p(exp(-x)) : log1p(exp(x));
        const double got = (double)kernel_softplus_ref((float)x);
        if (fabs(got - want) > 3e-7 * want + 1.3e-38) kc_fail("softplus(%g) = %g", x, got);
        const double sigmoid = 1 / (1 + exp(-x));
        if (fabs((double)kernel_sigmoid_ref((float)x) - sigmoid) > 3e-7 * sigmoid + 1.3e-38)
            kc_fail("sigmoid(%g)", x);
    }
    for (double x = -104; x <= 0; x += 1.0 / 128) { /* it ends at -64 ln 2 = -44.3614 */
        const double decay = (double)kernel_decay_ref((float)x), want = x < -44.3614 ? 0 : exp(x);
        if (fabs(decay - want) > 3e-7 * want) kc_fail("decay(%g) = %g", x, decay);
    }
    if (kernel_decay_ref(-1e30f) != 0 || kernel_decay_ref(0) != 1) kc_fail("decay at its ends");
    kc_end();
}

void kc_check_recurrent(const kernel_table *ref, const kernel_table *level)
{
    check_conv(ref, level);
    check_step(ref, level, delta_of, "delta");
    check_step(ref, level, scan_of, "scan");
    check_sigmoid(ref, level);
    if (ref == level) check_scan_meaning(ref);
    if (ref == level) check_scalars();
}
