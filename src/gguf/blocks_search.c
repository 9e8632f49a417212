/* blocks_search.c - floats to blocks with a search for the scales with the smallest error.
 *
 * For a scale, the nearest quants are the best; for quants, least squares give the best scale.  A
 * search starts from several scales around the one that fits the largest value, alternates the two
 * once, and keeps the result with the smallest error. Small scales are rounded after that, so the
 * block's scale is fitted once more to the rounded ones. */
#include "gguf/encode.h"

#include <float.h>

/* Fitting x by scale q reduces the error sum w x^2 by xq^2 / qq. */
typedef struct {
    float xq, qq; /* sums of w x q, w q q */
} fit;

static inline float fit_gain(fit f) { return f.qq > 0.0f ? f.xq * f.xq / f.qq : 0.0f; }
static inline float fit_scale(fit f) { return f.qq > 0.0f ? f.xq / f.qq : 0.0f; }

/* ---- tables ---- */

static fit fit_entries(const entry_table *t, const float *x, const float *w, int n, float scale)
{
    const float id = inverse(scale);
    fit f = {0};
    for (int i = 0; i < n; i++) {
        float q = t->values[entry_of(t, x[i] * id)], wq = w[i] * q;
        f.xq += wq * x[i];
        f.qq += wq * q;
    }
    return f;
}

/* The largest value may map to either end of the table, or beyond it. */
static float search_entries(const entry_table *t, const float *x, const float *w, int n)
{
    const float max = largest(x, n);
    fit best = {0};
    for (int end = 0; end < 16; end += 15) {
        for (int step = -6; step <= 3; step++) {
            float scale = max / (float)t->values[end] * (1.0f + 0.04f * (float)step);
            fit f = fit_entries(t, x, w, n, scale);
            f = fit_entries(t, x, w, n, fit_scale(f));
            if (fit_gain(f) > fit_gain(best)) best = f;
        }
    }
    return fit_scale(best);
}

static void search_iq4_nl(block_iq4_nl *b, const entry_table *t, const float *x, const float *w)
{
    fill_iq4_nl(b, t, x, search_entries(t, x, w, 32));
}

static void search_q4_w(block_q4_w *b, const entry_table *t, const float *x, const float *w)
{
    fill_q4_w(b, t, x, search_entries(t, x, w, 128));
}

static void search_iq4_xs(block_iq4_xs *b, const entry_table *t, const float *x, const float *w)
{
    float scale[8];
    int8_t small[8];
    for (int run = 0; run < 8; run++)
        scale[run] = search_entries(t, x + run * 32, w + run * 32, 32);
    float d = small_scales(small, scale, 8, 32);
    fit all = {0};
    for (int run = 0; run < 8; run++) {
        fit f = fit_entries(t, x + run * 32, w + run * 32, 32, d * small[run]);
        all.xq += f.xq * small[run];
        all.qq += f.qq * small[run] * small[run];
    }
    fill_iq4_xs(b, t, x, all.qq > 0.0f ? fit_scale(all) : d, small);
}

/* ---- Q6_K and Q3_K ---- */

static fit fit_levels(const float *x, const float *w, int n, float scale, int levels)
{
    const float id = inverse(scale);
    fit f = {0};
    for (int i = 0; i < n; i++) {
        float q = (float)nearest(x[i] * id, -levels, levels - 1), wq = w[i] * q;
        f.xq += wq * x[i];
        f.qq += wq * q;
    }
    return f;
}

static float search_levels(const float *x, const float *w, int n, int levels)
{
    const float max = largest(x, n);
    fit best = {0};
    for (int step = -9; step <= 9; step++) {
        float scale = max / (-(float)levels + 0.1f * (float)step);
        fit f = fit_levels(x, w, n, scale, levels);
        if (fit_gain(f) > fit_gain(best)) best = f;
    }
    return fit_scale(best);
}

/* d and sixteen small scales, of Q6_K and Q3_K. */
static float search_small(int8_t small[16], const float *x, const float *w, int levels, int limit)
{
    float scale[16];
    for (int k = 0; k < 16; k++) scale[k] = search_levels(x + k * 16, w + k * 16, 16, levels);
    float d = small_scales(small, scale, 16, limit);
    fit all = {0};
    for (int k = 0; k < 16; k++) {
        fit f = fit_levels(x + k * 16, w + k * 16, 16, d * small[k], levels);
        all.xq += f.xq * small[k];
        all.qq += f.qq * small[k] * small[k];
    }
    return all.qq > 0.0f ? fit_scale(all) : d;
}

static void search_q6_k(block_q6_k *b, const float *x, const float *w)
{
    int8_t small[16];
    const float d = search_small(small, x, w, 32, 128);
    fill_q6_k(b, x, d, small);
}

static void search_q3_k(block_q3_k *b, const float *x, const float *w)
{
    int8_t small[16];
    const float d = search_small(small, x, w, 4, 32);
    fill_q3_k(b, x, d, small);
}

/* ---- Q4_K and Q5_K: value = scale q - min ---- */

typedef struct {
    float scale, min;
} line;

/* Sums for least squares in two unknowns: x ~= scale p - min m, with p and m given. */
typedef struct {
    float pp, pm, mm, xp, xm;
} line_sums;

static inline void line_add(line_sums *s, float w, float x, float p, float m)
{
    s->pp += w * p * p;
    s->pm += w * p * m;
    s->mm += w * m * m;
    s->xp += w * x * p;
    s->xm += w * x * m;
}

/* Neither may be negative; if both cannot be fitted, only one is. */
static line line_solve(const line_sums *s)
{
    const float det = s->pp * s->mm - s->pm * s->pm;
    if (det > 1e-6f * s->pp * s->mm) {
        line l = {(s->mm * s->xp - s->pm * s->xm) / det, (s->pm * s->xp - s->pp * s->xm) / det};
        if (l.scale >= 0.0f && l.min >= 0.0f) return l;
    }
    const float scale = s->pp > 0.0f && s->xp > 0.0f ? s->xp / s->pp : 0.0f;
    return (line){scale, 0.0f};
}

static float line_error(line l, const float *x, const float *w, int n, int levels)
{
    const float id = inverse(l.scale);
    float sum = 0.0f;
    for (int i = 0; i < n; i++) {
        float apart = l.scale * (float)nearest((x[i] + l.min) * id, 0, levels) - l.min - x[i];
        sum += w[i] * apart * apart;
    }
    return sum;
}

static line search_line(const float *x, const float *w, int n, int levels)
{
    float low, high;
    range(x, n, &low, &high);
    if (!(low < 0.0f)) low = 0.0f;
    line best = {high > low ? (high - low) / (float)levels : 0.0f, -low};
    float error = line_error(best, x, w, n, levels);
    for (int step = -10; step <= 10 && high > low; step++) {
        const float id = ((float)levels + 0.1f * (float)step) / (high - low);
        line_sums s = {0};
        for (int i = 0; i < n; i++)
            line_add(&s, w[i], x[i], (float)nearest((x[i] - low) * id, 0, levels), 1.0f);
        line l = line_solve(&s);
        float e = line_error(l, x, w, n, levels);
        if (e < error) best = l, error = e;
    }
    return best;
}

static line line_of(const k_scales *s, int scale, int min)
{
    return (line){f16_to_f32(s->d) * (float)scale, f16_to_f32(s->dmin) * (float)min};
}

/* Round the scale and minimum of a run together, which does better than rounding each.  Returns the
 * total remaining error. */
static float settle_runs(k_scales *s, const float *x, const float *w, int levels)
{
    static const int8_t steps[] = {0, -1, 1};
    float all = 0.0f;
    for (int run = 0; run < 8; run++, x += 32, w += 32) {
        const int from[2] = {s->scale[run], s->min[run]};
        float least = FLT_MAX;
        for (int i = 0; i < 9; i++) {
            const int scale = from[0] + steps[i / 3], min = from[1] + steps[i % 3];
            if (scale < 0 || scale > 63 || min < 0 || min > 63) continue;
            const float e = line_error(line_of(s, scale, min), x, w, 32, levels);
            if (!(e < least)) continue;
            least = e;
            s->scale[run] = (uint8_t)scale;
            s->min[run] = (uint8_t)min;
        }
        all += least;
    }
    return all;
}

/* The block's own scales by least squares, for the runs' given ones. */
static k_scales fit_block(k_scales s, const float *x, const float *w, int levels)
{
    line_sums sums = {0};
    for (int j = 0; j < 256; j++) {
        const int run = j / 32;
        const float id = inverse(f16_to_f32(s.d) * s.scale[run]);
        const int q = nearest((x[j] + f16_to_f32(s.dmin) * s.min[run]) * id, 0, levels);
        line_add(&sums, w[j], x[j], (float)(s.scale[run] * q), s.min[run]);
    }
    line l = line_solve(&sums);
    if (l.scale > 0.0f) {
        s.d = f32_to_f16(l.scale);
        s.dmin = f32_to_f16(l.min);
    }
    return s;
}

static k_scales search_k(const float *x, const float *w, int levels)
{
    enum { ROUNDS = 3 };
    float scale[8], min[8];
    for (int run = 0; run < 8; run++) {
        line l = search_line(x + run * 32, w + run * 32, 32, levels);
        scale[run] = l.scale;
        min[run] = l.min;
    }
    k_scales best = k_scales_round(scale, min);
    float error = settle_runs(&best, x, w, levels);
    for (int round = 0; round < ROUNDS; round++) {
        k_scales s = fit_block(best, x, w, levels);
        const float e = settle_runs(&s, x, w, levels);
        if (!(e < error)) break;
        best = s;
        error = e;
    }
    return best;
}

/* ---- Q4_0, Q5_0, Q4_1, Q5_1: if some columns matter more ---- */

static inline float as_half(float x) { return f16_to_f32(f32_to_f16(x)); }

/* Like search_line(), but the offset may also be positive: x is shifted down first. */
static line search_free_line(const float *x, const float *w, int levels)
{
    float moved[32], low, high;
    range(x, 32, &low, &high);
    const float by = low > 0.0f ? low : 0.0f;
    for (int i = 0; i < 32; i++) moved[i] = x[i] - by;
    line l = search_line(moved, w, 32, levels);
    return (line){as_half(l.scale), as_half(by - l.min)};
}

static void search_legacy(block_type type, void *to, const float *x, const float *w)
{
    if (type == BLOCK_Q4_0 || type == BLOCK_Q5_0) {
        float d = as_half(search_levels(x, w, 32, type == BLOCK_Q4_0 ? 8 : 16));
        if (type == BLOCK_Q4_0)
            fill_q4_0(to, x, d, inverse(d));
        else
            fill_q5_0(to, x, d, inverse(d));
        return;
    }
    line l = search_free_line(x, w, type == BLOCK_Q4_1 ? 15 : 31);
    if (type == BLOCK_Q4_1)
        fill_q4_1(to, x, l.scale, inverse(l.scale), l.min);
    else
        fill_q5_1(to, x, l.scale, inverse(l.scale), l.min);
}

/* ---- all ---- */

static void search_block(block_type type, const entry_table *t, void *to, const float *x,
                         const float *w)
{
    k_scales s;
    switch (type) {
    case BLOCK_IQ4_NL: search_iq4_nl(to, t, x, w); break;
    case BLOCK_IQ4_XS: search_iq4_xs(to, t, x, w); break;
    case BLOCK_Q4_W: search_q4_w(to, t, x, w); break;
    case BLOCK_Q6_K: search_q6_k(to, x, w); break;
    case BLOCK_Q3_K: search_q3_k(to, x, w); break;
    case BLOCK_Q4_0:
    case BLOCK_Q4_1:
    case BLOCK_Q5_0:
    case BLOCK_Q5_1: search_legacy(type, to, x, w); break;
    case BLOCK_Q4_K:
        s = search_k(x, w, 15);
        fill_q4_k(to, x, &s);
        break;
    default:
        s = search_k(x, w, 31);
        fill_q5_k(to, x, &s);
        break;
    }
}

static bool is_searched(block_type type, bool is_weighted)
{
    if (type == BLOCK_Q4_0 || type == BLOCK_Q4_1 || type == BLOCK_Q5_0 || type == BLOCK_Q5_1)
        return is_weighted;
    return type == BLOCK_IQ4_NL || type == BLOCK_IQ4_XS || type == BLOCK_Q4_W ||
           type == BLOCK_Q3_K || type == BLOCK_Q4_K || type == BLOCK_Q5_K || type == BLOCK_Q6_K;
}

/* Without an importance matrix: types with few levels keep large values better than small ones, as
 * llama.cpp's do.  The error of all weights grows by an eighth, the divergence of the output
 * shrinks by a fifth (decision 0112). */
static void weigh_by_size(float *w, const float *x, uint32_t n)
{
    const float id = inverse(largest(x, (int)n));
    for (uint32_t i = 0; i < n; i++) w[i] = x[i] * id * x[i] * id;
}

void block_quantize(block_type type, void *restrict blocks, const float *restrict in, size_t n,
                    const float *restrict weights)
{
    const uint32_t values = block_values(type);
    CHECK(values != 0 && n % values == 0);
    if (!is_searched(type, weights != NULL)) {
        block_encode(type, blocks, in, n);
        return;
    }
    const entry_table t =
        entry_table_of(type == BLOCK_Q4_W ? block_q4_w_values : block_iq4_values);
    const bool by_size = type == BLOCK_IQ4_NL || type == BLOCK_IQ4_XS || type == BLOCK_Q4_W ||
                         type == BLOCK_Q3_K;
    float own[256];
    for (uint32_t i = 0; i < ARRAY_LEN(own); i++) own[i] = 1.0f;
    uint8_t *to = blocks;
    for (size_t at = 0; at < n; at += values, to += block_bytes(type)) {
        if (!weights && by_size) weigh_by_size(own, in + at, values);
        search_block(type, &t, to, in + at, weights ? weights + at : own);
    }
}
