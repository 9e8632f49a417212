/* matmul_batch_avx512.h - weights against many tokens: unpacked once for up to 48 of them.
 *
 * A group of 128 columns of two panels is unpacked into first-level cache, as unsigned bytes, and
 * then met by tiles of up to six tokens, whose twelve sums and twelve floats stay in registers.  A
 * block of 32 columns is eleven instructions for a panel and token: eight products, a conversion,
 * the scale and an fma.  What offsets add is made once for all panels of a call: sums begin at
 * minus that (docs/performance.md).
 *
 * Include from *_avx512vnni.c only. */
#ifndef KERNELS_X86_MATMUL_BATCH_AVX512_H
#define KERNELS_X86_MATMUL_BATCH_AVX512_H

#include "kernels/x86/matmul_avx512.h"

#include "kernels/tiles.h"

enum {
    BATCH_MIN = 3,      /* tokens of a call at least, so that tiles of like size have as many */
    BATCH_TILE = 6,     /* tokens of a tile at most, by two panels */
    BATCH_TOKENS = 48,  /* that share unpacked weights, at most */
    BATCH_PANELS = 8,   /* that share a copy of the activations, at most */
    BATCH_STARTS = KERNEL_GROUP / 16
};

/* Whether a tile asks for what comes on its way through a line of panels: one token takes weights
 * in so quickly that Zen 4's own prefetchers do better by themselves, except for one and two
 * bits. */
PANEL_INLINE bool line_asks(block_type type, kernel_panel_order order, uint32_t n_t)
{
    return order == KERNEL_PANELS_AHEAD ||
           (order == KERNEL_PANELS_IN_LINE && (n_t > 1 || panel_is_dense(type)));
}

/* Into the second-level cache: in the first it would take the place of activations. */
PANEL_INLINE void line_prefetch(block_type type, kernel_panel_order order, const uint8_t *at,
                                uint32_t first, uint32_t n_lines)
{
    const bool is_near = order == KERNEL_PANELS_AHEAD && !panel_is_dense(type);
    const size_t ahead = is_near ? TILE_ONE_AHEAD : TILE_LINE_AHEAD;
    UNROLLED for (uint32_t i = 0; i < n_lines; i++)
        __builtin_prefetch(at + ahead + (size_t)PANEL_LINE * (first + i), 0, 2);
}

/* Templates of tiles of a walk: several panels at once, one of a line, and the same with one token
 * asking for what comes. */
#define WALK(kind, name, order)                                                                    \
    PANEL_INLINE void kind##_##name(block_type type, uint32_t n_p, uint32_t n_t, float *y,         \
                                    size_t y_stride, const uint8_t *panel, size_t panel_bytes,     \
                                    const kernel_act *x, uint32_t n_cols)                          \
    {                                                                                              \
        walk_##name(type, order, n_p, n_t, y, y_stride, panel, panel_bytes, x, n_cols);            \
    }
#define WALKS(name)                                                                                \
    WALK(tile, name, KERNEL_PANELS_APART)                                                          \
    WALK(line, name, KERNEL_PANELS_IN_LINE)
#define WALK_AHEAD(name) WALK(ahead, name, KERNEL_PANELS_AHEAD)

/* A token's group of activations. */
typedef struct {
    int8_t q[KERNEL_GROUP];
    int32_t start[BATCH_STARTS]; /* of sums: minus what the offset of quants adds; for each 32
                                    columns, or those that share a small scale, of Q4_W and Q8_W
                                    the first */
    union {
        float sum[PANEL_BLOCKS];    /* of each 32 activations by their scale, for minima */
        int16_t pair[BATCH_STARTS]; /* of superblocks: by small scales, in integers */
    };
    float scale[PANEL_BLOCKS];
} batch_x;
_Static_assert(sizeof(batch_x) == 192, "whole lines");

/* A group of columns of a panel. */
typedef struct {
    __m512i w[KERNEL_GROUP / 4];  /* [k4] unsigned quants of four columns */
    __m512i factor[BATCH_STARTS]; /* small scales: of Q4_K and Q5_K as floats */
    __m512 d[BATCH_STARTS], m[PANEL_BLOCKS]; /* by block, of NVFP4 by half a block; superblocks have
                                                one */
    __m512i minima[BATCH_STARTS / 2];        /* of superblocks, in pairs as batch_x has sums */
} batch_weights;

/* What is wanted next of two panels, asked for a few lines at a time: a tile asks four times.  All
 * at once they would be more than a core has buffers for, and the products would wait.  After the
 * last panel of a matrix that is memory which may not be there, which a prefetch may ask for. */
enum { BATCH_ASKS = 4 };
typedef struct {
    uintptr_t at;          /* of the first panel */
    size_t panel_bytes;    /* to the second one */
    uint32_t n_lines, ask; /* that are left, and how many each time */
} batch_ahead;

PANEL_INLINE void batch_ask(batch_ahead *a)
{
    const uint32_t n = a->n_lines < a->ask ? a->n_lines : a->ask;
    for (uint32_t i = 0; i < n; i++, a->at += PANEL_LINE) {
        __builtin_prefetch((const void *)a->at);
        __builtin_prefetch((const void *)(a->at + a->panel_bytes));
    }
    a->n_lines -= n;
}

/* Of two panels. */
typedef __m512 batch_floats[2][BATCH_TILE];
typedef __m512i batch_dots[2][BATCH_TILE];

/* dots += products of n lines from k4 on. */
PANEL_INLINE void batch_lines(uint32_t n_t, batch_dots dots, const batch_weights *w, uint32_t k4,
                              uint32_t n, const batch_x *x)
{
    UNROLLED for (uint32_t i = 0; i < n; i++) {
        const __m512i w0 = w[0].w[k4 + i], w1 = w[1].w[k4 + i];
        UNROLLED for (uint32_t t = 0; t < n_t; t++) {
            const __m512i a = broadcast_word(x[t].q + 4 * (k4 + i));
            dots[0][t] = _mm512_dpbusd_epi32(dots[0][t], w0, a);
            dots[1][t] = _mm512_dpbusd_epi32(dots[1][t], w1, a);
        }
    }
}
PANEL_INLINE void batch_products(uint32_t n_t, batch_dots dots, const batch_weights *w,
                                 uint32_t k4, const batch_x *x)
{
    batch_lines(n_t, dots, w, k4, 8, x);
}

PANEL_INLINE void batch_start(uint32_t n_t, batch_dots dots, const batch_x *x, uint32_t i)
{
    UNROLLED for (uint32_t t = 0; t < n_t; t++)
        dots[0][t] = dots[1][t] = _mm512_set1_epi32(x[t].start[i]);
}

/* acc + a group of NVFP4, half a block at a time */
PANEL_INLINE void batch_halves(uint32_t n_t, batch_floats acc, const batch_weights *w,
                               uint32_t n_blocks, const batch_x *x, batch_ahead *ahead)
{
    for (uint32_t i = 0; i < 2 * n_blocks; i++) {
        batch_dots dots;
        if (i % 2 == 0) batch_ask(ahead);
        batch_start(n_t, dots, x, i);
        batch_lines(n_t, dots, w, 4 * i, 4, x);
        UNROLLED for (uint32_t p = 0; p < 2; p++)
            UNROLLED for (uint32_t t = 0; t < n_t; t++) {
                const __m512 v = _mm512_mul_ps(_mm512_cvtepi32_ps(dots[p][t]),
                                               _mm512_set1_ps(x[t].scale[i / 2]));
                acc[p][t] = _mm512_fmadd_ps(v, w[p].d[i], acc[p][t]);
            }
    }
}

/* acc + a group of types with a scale for 32 values */
PANEL_INLINE void batch_groups(block_type type, uint32_t n_t, batch_floats acc,
                               const batch_weights *w, uint32_t n_blocks, const batch_x *x,
                               batch_ahead *ahead)
{
    for (uint32_t b = 0; b < n_blocks; b++) {
        batch_dots dots;
        batch_ask(ahead);
        batch_start(n_t, dots, x, b);
        batch_products(n_t, dots, w, 8 * b, x);
        UNROLLED for (uint32_t p = 0; p < 2; p++) {
            UNROLLED for (uint32_t t = 0; t < n_t; t++) {
                const __m512 v = _mm512_mul_ps(_mm512_cvtepi32_ps(dots[p][t]),
                                               _mm512_set1_ps(x[t].scale[b]));
                acc[p][t] = _mm512_fmadd_ps(v, w[p].d[b], acc[p][t]);
                if (panel_has_min(type))
                    acc[p][t] = _mm512_fmadd_ps(_mm512_set1_ps(x[t].sum[b]), w[p].m[b], acc[p][t]);
            }
        }
    }
}

/* Of types with a scale for 128 values.  The instruction takes five cycles and two begin in one, so
 * there should be ten chains: fewer than six tokens have two each. */
PANEL_INLINE void batch_wide(uint32_t n_t, batch_floats sums, const batch_weights *w,
                             const batch_x *x, batch_ahead *ahead)
{
    batch_dots dots, other;
    batch_start(n_t, dots, x, 0);
    UNROLLED for (uint32_t t = 0; t < n_t; t++) other[0][t] = other[1][t] = _mm512_setzero_si512();
    for (uint32_t k4 = 0; k4 < KERNEL_GROUP / 4; k4 += 16) {
        batch_ask(ahead);
        batch_products(n_t, dots, w, k4, x);
        batch_ask(ahead);
        batch_products(n_t, n_t < BATCH_TILE ? other : dots, w, k4 + 8, x);
    }
    UNROLLED for (uint32_t p = 0; p < 2; p++) {
        UNROLLED for (uint32_t t = 0; t < n_t; t++) {
            const __m512i v = _mm512_add_epi32(dots[p][t], other[p][t]);
            sums[p][t] = _mm512_mul_ps(w[p].d[0], _mm512_cvtepi32_ps(v));
        }
    }
}

/* sums - what minima take away from half a superblock. */
PANEL_INLINE __m512 batch_less_minima(__m512 sum, uint32_t n_pairs, const batch_weights *w,
                                      const batch_x *x)
{
    __m512i side = _mm512_setzero_si512();
    UNROLLED for (uint32_t i = 0; i < n_pairs; i++)
        side = _mm512_dpwssd_epi32(side, w->minima[i], broadcast_word(x->pair + 2 * i));
    return _mm512_fnmadd_ps(w->m[0], _mm512_cvtepi32_ps(side), sum);
}

/* Half a superblock of Q2_K, Q6_K, IQ3_S and IQ4_XS: exact in integers. */
PANEL_INLINE void batch_scaled_ints(block_type type, uint32_t n_t, batch_floats sums,
                                    const batch_weights *w, const batch_x *x, batch_ahead *ahead)
{
    const uint32_t n = panel_small(type) / 4; /* lines that share a small scale */
    batch_dots total;
    UNROLLED for (uint32_t t = 0; t < n_t; t++) total[0][t] = total[1][t] = _mm512_setzero_si512();
    for (uint32_t s = 0; s < KERNEL_GROUP / 4 / n; s++) {
        batch_dots dots;
        if (n * s % 8 == 0) batch_ask(ahead);
        batch_start(n_t, dots, x, s);
        batch_lines(n_t, dots, w, n * s, n, x);
        UNROLLED for (uint32_t p = 0; p < 2; p++)
            UNROLLED for (uint32_t t = 0; t < n_t; t++)
                total[p][t] = _mm512_add_epi32(total[p][t],
                                               _mm512_mullo_epi32(dots[p][t], w[p].factor[s]));
    }
    UNROLLED for (uint32_t p = 0; p < 2; p++)
        UNROLLED for (uint32_t t = 0; t < n_t; t++) {
            sums[p][t] = _mm512_mul_ps(w[p].d[0], _mm512_cvtepi32_ps(total[p][t]));
            if (panel_has_min(type))
                sums[p][t] = batch_less_minima(sums[p][t], BATCH_STARTS / 2, &w[p], &x[t]);
        }
}

/* Which types add their scaled sums as floats. */
PANEL_INLINE bool batch_adds_floats(block_type type)
{
    return type == BLOCK_Q4_K || type == BLOCK_Q5_K;
}

/* sums = scaled products of blocks b and b + 1 of Q4_K and Q5_K, exact in floats: below
 * 64 * 31 * 127 * 63 < 2^24.  They begin at +0 by fma, so that none is -0. */
PANEL_INLINE void batch_scaled_pair(uint32_t n_t, batch_floats sums, const batch_weights *w,
                                    uint32_t b, const batch_x *x, batch_ahead *ahead)
{
    UNROLLED for (uint32_t t = 0; t < n_t; t++) sums[0][t] = sums[1][t] = _mm512_setzero_ps();
    for (uint32_t i = b; i < b + 2; i++) {
        batch_dots dots;
        batch_ask(ahead);
        UNROLLED for (uint32_t t = 0; t < n_t; t++)
            dots[0][t] = dots[1][t] = _mm512_setzero_si512();
        batch_products(n_t, dots, w, 8 * i, x);
        UNROLLED for (uint32_t p = 0; p < 2; p++)
            UNROLLED for (uint32_t t = 0; t < n_t; t++)
                sums[p][t] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(dots[p][t]),
                                             _mm512_castsi512_ps(w[p].factor[i]), sums[p][t]);
    }
}

/* Half a superblock of Q4_K and Q5_K.  The two pairs are added last and rounded once, as the
 * conversion of the whole integer would be. */
PANEL_INLINE void batch_scaled_floats(uint32_t n_t, batch_floats sums, const batch_weights *w,
                                      const batch_x *x, batch_ahead *ahead)
{
    batch_floats other;
    batch_scaled_pair(n_t, sums, w, 0, x, ahead);
    batch_scaled_pair(n_t, other, w, 2, x, ahead);
    UNROLLED for (uint32_t p = 0; p < 2; p++) {
        UNROLLED for (uint32_t t = 0; t < n_t; t++) {
            const __m512 sum = _mm512_mul_ps(w[p].d[0], _mm512_add_ps(sums[p][t], other[p][t]));
            sums[p][t] = batch_less_minima(sum, PANEL_BLOCKS / 2, &w[p], &x[t]);
        }
    }
}

/* acc of types with a scale for 32 values, through the blocks of a group. */
PANEL_INLINE void batch_tile_groups(block_type type, uint32_t n_t, float (*acc)[KERNEL_PANEL_ROWS],
                                    const batch_weights *w, uint32_t n_blocks, const batch_x *x,
                                    batch_ahead *ahead)
{
    batch_floats sums;
    UNROLLED for (uint32_t p = 0; p < 2; p++)
        UNROLLED for (uint32_t t = 0; t < n_t; t++)
            sums[p][t] = _mm512_load_ps(acc[p * BATCH_TOKENS + t]);
    if (panel_block_scales(type) == 2)
        batch_halves(n_t, sums, w, n_blocks, x, ahead);
    else
        batch_groups(type, n_t, sums, w, n_blocks, x, ahead);
    UNROLLED for (uint32_t p = 0; p < 2; p++)
        UNROLLED for (uint32_t t = 0; t < n_t; t++)
            _mm512_store_ps(acc[p * BATCH_TOKENS + t], sums[p][t]);
}

/* Of the others acc = fma(sum of the group, scale, acc), the sum as the reference makes it.
 *   acc: [n_t] of the first panel; of the second one BATCH_TOKENS after */
PANEL_INLINE void batch_tile(block_type type, uint32_t n_t, float (*acc)[KERNEL_PANEL_ROWS],
                             const batch_weights *w, uint32_t n_blocks, const batch_x *x,
                             batch_ahead *ahead)
{
    batch_floats sums;
    if (!panel_is_super(type) && !panel_is_wide(type)) {
        batch_tile_groups(type, n_t, acc, w, n_blocks, x, ahead);
        return;
    }
    if (batch_adds_floats(type))
        batch_scaled_floats(n_t, sums, w, x, ahead);
    else if (panel_is_super(type))
        batch_scaled_ints(type, n_t, sums, w, x, ahead);
    else
        batch_wide(n_t, sums, w, x, ahead);
    UNROLLED for (uint32_t p = 0; p < 2; p++) {
        UNROLLED for (uint32_t t = 0; t < n_t; t++) {
            float *to = acc[p * BATCH_TOKENS + t];
            _mm512_store_ps(to, _mm512_fmadd_ps(sums[p][t], _mm512_set1_ps(x[t].scale[0]),
                                                _mm512_load_ps(to)));
        }
    }
}

typedef void batch_tile_fn(float (*acc)[KERNEL_PANEL_ROWS], const batch_weights *w,
                           uint32_t n_blocks, const batch_x *x, batch_ahead *ahead);
/* Group g of a panel into out. */
typedef void batch_unpack_fn(batch_weights *out, const uint8_t *panel, uint32_t n_cols,
                             uint32_t g);

/* Where group g begins in a panel; of the types with a scale for 256 values the superblock, of
 * which it is a half; of those with one for 128 values its quants. */
PANEL_INLINE size_t batch_group_at(block_type type, uint32_t n_cols, uint32_t g)
{
    if (panel_is_wide(type))
        return panel_wide_head(n_cols) + (size_t)g * PANEL_BLOCKS * panel_quant_bytes(type);
    if (panel_is_super(type)) return (size_t)(g / 2) * panel_super_bytes(type);
    return panel_lead_bytes(type) + (size_t)g * panel_group_bytes(type, PANEL_BLOCKS);
}

/* Where what is asked for beside group g begins, from the start of its panel, and how many lines it
 * has: the next group of these panels, or the first one of those after them (after: bytes to
 * them).  Of superblocks, half of the next one. */
PANEL_INLINE size_t batch_next(block_type type, uint32_t n_cols, uint32_t g, size_t after,
                               uint32_t *n_lines)
{
    const uint32_t step = panel_is_super(type) ? 2 : 1, first = g / step * step;
    const bool last = first + step >= kernel_n_groups(n_cols);
    const size_t at = batch_group_at(type, n_cols, last ? 0 : first);
    const size_t next = batch_group_at(type, n_cols, (last ? 0 : first) + step);
    const uint32_t lines = (uint32_t)((next - at) / PANEL_LINE), before = g % step * (lines / step);
    *n_lines = g % step ? lines - before : lines / step;
    return (last ? after : next) + (size_t)before * PANEL_LINE;
}

/* Copies of a group of activations.
 *   offset: of the type's quants */
PANEL_INLINE void batch_copy(block_type type, int32_t offset, batch_x *to, const kernel_act *x,
                             size_t x_stride, uint32_t n_tokens)
{
    for (uint32_t t = 0; t < n_tokens; t++, to++) {
        const kernel_act *act = x + t * x_stride;
        memcpy(to->q, act->q, sizeof to->q);
        memcpy(to->scale, act->scale, sizeof to->scale);
        if (panel_is_wide(type)) {
            to->start[0] = -offset * (act->sum32[0] + act->sum32[1] + act->sum32[2] +
                                      act->sum32[3]);
            continue;
        }
        const bool halves = panel_small(type) == 16;
        const uint32_t n_starts = halves ? BATCH_STARTS : PANEL_BLOCKS;
        const int16_t *sums = halves ? act->sum16 : act->sum32;
        UNROLLED for (uint32_t i = 0; i < n_starts; i++) to->start[i] = -offset * sums[i];
        if (!panel_has_min(type)) continue;
        if (panel_is_super(type))
            memcpy(to->pair, sums, n_starts * sizeof *sums);
        else
            UNROLLED for (uint32_t i = 0; i < PANEL_BLOCKS; i++)
                to->sum[i] = (float)act->sum32[i] * act->scale[i];
    }
}

/* An even number of panels, up to BATCH_PANELS, for up to BATCH_TOKENS tokens. */
PANEL_INLINE void batch_panels(block_type type, int32_t offset, batch_unpack_fn *unpack,
                               batch_tile_fn *const tiles[BATCH_TILE + 1], float *y,
                               size_t y_stride, const uint8_t *panels, size_t panel_bytes,
                               uint32_t n_panels, const kernel_act *x, uint32_t n_cols,
                               uint32_t n_tokens)
{
    const uint32_t n_groups = kernel_n_groups(n_cols);
    const uint32_t n_tiles = (n_tokens + BATCH_TILE - 1) / BATCH_TILE;
    _Alignas(64) float acc[BATCH_PANELS][BATCH_TOKENS][KERNEL_PANEL_ROWS];
    _Alignas(64) batch_x copy[BATCH_TOKENS];
    batch_weights w[2];
    memset(acc, 0, n_panels * sizeof acc[0]);
    for (uint32_t g = 0; g < n_groups; g++) {
        const uint32_t n_blocks = panel_group_blocks(n_cols, g);
        uint32_t n_lines;
        const size_t next = batch_next(type, n_cols, g, n_panels * panel_bytes, &n_lines);
        batch_copy(type, offset, copy, x + g, n_groups, n_tokens);
        for (uint32_t p = 0; p < n_panels; p += 2) {
            const uint8_t *panel = panels + p * panel_bytes;
            unpack(&w[0], panel, n_cols, g);
            unpack(&w[1], panel + panel_bytes, n_cols, g);
            batch_ahead ahead = {.at = (uintptr_t)panel + next,
                                 .panel_bytes = panel_bytes,
                                 .n_lines = n_lines,
                                 .ask = n_lines / (BATCH_ASKS * n_tiles) + 1};
            for (uint32_t i = 0, t = 0, n_t; i < n_tiles; i++, t += n_t) {
                n_t = (n_tokens - t + n_tiles - i - 1) / (n_tiles - i); /* like sizes */
                tiles[n_t](acc[p] + t, w, n_blocks, copy + t, &ahead);
            }
        }
    }
    for (uint32_t p = 0; p < n_panels; p++)
        for (uint32_t t = 0; t < n_tokens; t++) {
            for (uint32_t r = 0; panel_lead_bytes(type) && r < KERNEL_PANEL_ROWS; r++)
                acc[p][t][r] *= panel_factor(type, panels + p * panel_bytes, r);
            memcpy(y + t * y_stride + p * KERNEL_PANEL_ROWS, acc[p][t], sizeof acc[p][t]);
        }
}

/* All tokens, in even parts, for the panels up to an even number of them; returns that number. */
PANEL_INLINE uint32_t batch_matmul(block_type type, int32_t offset, batch_unpack_fn *unpack,
                                   batch_tile_fn *const tiles[BATCH_TILE + 1], float *y,
                                   size_t y_stride, const uint8_t *panels, const kernel_act *x,
                                   uint32_t n_panels, uint32_t n_cols, uint32_t n_tokens)
{
    const size_t panel_bytes = kernel_panel_bytes(type, n_cols);
    const uint32_t n_parts = (n_tokens + BATCH_TOKENS - 1) / BATCH_TOKENS;
    n_panels -= n_panels % 2;
    for (uint32_t i = 0, t = 0, n_t; i < n_parts; i++, t += n_t) {
        n_t = (n_tokens - t + n_parts - i - 1) / (n_parts - i);
        for (uint32_t p = 0, n_p; p < n_panels; p += n_p) {
            n_p = n_panels - p < BATCH_PANELS ? n_panels - p : BATCH_PANELS;
            batch_panels(type, offset, unpack, tiles, y + t * y_stride + p * KERNEL_PANEL_ROWS,
                         y_stride, panels + p * panel_bytes, panel_bytes, n_p,
                         x + (size_t)t * kernel_n_groups(n_cols), n_cols, n_t);
        }
    }
    return n_panels;
}

/* name_tiles[]: of BATCH_MIN to BATCH_TILE tokens, for all types that look alike once unpacked. */
#define BATCH_TILE_OF(name, n_t, type)                                                             \
    static void name##_tile_##n_t(float (*acc)[KERNEL_PANEL_ROWS], const batch_weights *w,         \
                                  uint32_t n_blocks, const batch_x *x, batch_ahead *ahead)         \
    {                                                                                              \
        batch_tile(type, n_t, acc, w, n_blocks, x, ahead);                                         \
    }
#define BATCH_TILES(name, type)                                                                    \
    BATCH_TILE_OF(name, 3, type)                                                                   \
    BATCH_TILE_OF(name, 4, type)                                                                   \
    BATCH_TILE_OF(name, 5, type)                                                                   \
    BATCH_TILE_OF(name, 6, type)                                                                   \
    static batch_tile_fn *const name##_tiles[BATCH_TILE + 1] = {                                   \
        [3] = name##_tile_3, [4] = name##_tile_4, [5] = name##_tile_5, [6] = name##_tile_6};

/* name: few tokens, and the last of an odd number of panels, by the tiles of MATMUL_TILED; from
 * BATCH_MIN on by these (measured; the bits are the same). */
#define MATMUL_BATCHED(name, type, offset, few, unpack_template, tiles)                            \
    static void name##_unpack(batch_weights *out, const uint8_t *panel, uint32_t n_cols,           \
                              uint32_t g)                                                          \
    {                                                                                              \
        unpack_template(type, out, panel, n_cols, g);                                              \
    }                                                                                              \
    static void name(float *restrict y, size_t y_stride, const void *restrict panels,              \
                     const void *restrict x, uint32_t n_panels, uint32_t n_cols,                   \
                     uint32_t n_tokens)                                                            \
    {                                                                                              \
        uint32_t p = 0;                                                                            \
        if (n_tokens >= BATCH_MIN)                                                                 \
            p = batch_matmul(type, offset, name##_unpack, tiles, y, y_stride, panels, x, n_panels, \
                             n_cols, n_tokens);                                                    \
        if (p < n_panels)                                                                          \
            few(y + p * KERNEL_PANEL_ROWS, y_stride,                                               \
                (const uint8_t *)panels + p * kernel_panel_bytes(type, n_cols), x, n_panels - p,   \
                n_cols, n_tokens);                                                                 \
    }

#endif
