/* matmul_batch_avx2.h - weights against many tokens: unpacked once for up to 36 of them.
 *
 * A group of 128 columns of a panel is unpacked into first-level cache, in the form that the
 * multiplication wants, and then met by tiles of up to 6 tokens, whose sums stay in registers.
 * The bound is the four vector pipes: two instructions for 32 products (docs/performance.md).
 *
 * Two forms:
 *   plain   unsigned quants times signed activations: types that have a minimum
 *   shifted signed quants times activations + 128: x is the unsigned operand.  The sums begin at
 *           -128 times the sum of the quants, which is made once for all tokens, where an offset
 *           on the quants would have to be taken away from each token's sum.  Sums of 16 bits may
 *           wrap on the way: they are exact modulo 2^16, and what they end at fits (quant_run).
 * Q8_0 and IQ4 have no place here: the three instructions of a product with its sign on x
 * (quant_dot) fill the two multipliers' pipes whether or not the weights are packed. */
#ifndef KERNELS_X86_MATMUL_BATCH_AVX2_H
#define KERNELS_X86_MATMUL_BATCH_AVX2_H

#include "kernels/x86/matmul_avx2.h"

enum {
    BATCH_TILE = 6,    /* tokens whose sums fill twelve registers */
    BATCH_TOKENS = 36, /* that share unpacked weights: more would push them out of 32 KB */
    BATCH_PANELS = 4,  /* that share a copy of the activations */
};

PANEL_INLINE bool quant_is_shifted(block_type type) { return quant_offset(type) != 0; }

/* How many products one 16-bit sum takes; a lane ends as the sum of twice as many:
 *   plain    Q4 8: 16 * 15 * 127 = 30480    Q5 4: 8 * 31 * 127 = 31496
 *   shifted  Q4_0 8: 16 * 8 * 127 = 16256   Q5_0 8: 16 * 16 * 127 = 32512
 *            Q1_0 and Q2_0 8: 16 * 2 * 127 = 4064
 *            MXFP4 8: 16 * 12 * 127 = 24384  Q6_K 4: 8 * 32 * 127 = 32512
 *            NVFP4 4, what shares a scale
 * and one product alone does not saturate: 2 * 255 * 32 = 16320. */
PANEL_INLINE uint32_t quant_run(block_type type)
{
    const bool is_five = type == BLOCK_Q5_1 || type == BLOCK_Q5_K;
    return is_five || type == BLOCK_Q6_K || type == BLOCK_NVFP4 ? 4 : 8;
}

typedef int8_t batch_x[KERNEL_GROUP]; /* a token's copy of a group of activations */

/* A group of columns of a panel; [2] is the half of eight rows. */
typedef struct {
    __m256i w[KERNEL_GROUP / 4][2]; /* [k4] quants of four columns */
    __m256i start[2 * PANEL_BLOCKS][2]; /* shifted: where a 16-bit sum begins, by run */
    __m256i factor[2 * PANEL_BLOCKS][2]; /* superblocks: small scales in 16 bits, by run */
    __m256 d[2 * PANEL_BLOCKS][2], m[PANEL_BLOCKS][2]; /* by block, of NVFP4 by half a block;
                                                          superblocks have one */
    __m256i minima[PANEL_BLOCKS / 2][2]; /* superblocks: pairs, as sum32 has them */
} batch_weights;

/* Quants of block b of a group, and where their sums begin. */
PANEL_INLINE void batch_unpack_block(block_type type, batch_weights *out, const uint8_t *block,
                                     uint32_t b)
{
    const __m256i table = quant_table(type), zero = _mm256_setzero_si256();
    const __m256i offset = _mm256_set1_epi8((char)quant_offset(type));
    const uint32_t run = quant_run(type), n_runs = 8 / run;
    UNROLLED for (uint32_t h = 0; h < 2; h++) {
        __m256i sum = zero;
        UNROLLED for (uint32_t k4 = 0; k4 < 8; k4++) {
            __m256i v = unpack_quants(type, block, k4, h, table);
            if (quant_is_shifted(type)) v = _mm256_sub_epi8(v, offset);
            out->w[8 * b + k4][h] = v;
            if (!quant_is_shifted(type)) continue;
            /* In 8 bits: 8 * 16 and 4 * 32 are 128, and reached from below only. */
            sum = k4 % run ? _mm256_add_epi8(sum, v) : v;
            if ((k4 + 1) % run == 0)
                out->start[n_runs * b + k4 / run][h] = _mm256_sub_epi16(
                    zero, _mm256_maddubs_epi16(_mm256_set1_epi8((char)128), sum));
        }
    }
}

/* Where group g of a panel begins; of a type with superblocks, the superblock that holds it. */
PANEL_INLINE size_t batch_group_at(block_type type, uint32_t g)
{
    return panel_is_super(type) ? (size_t)(g / 2) * panel_super_bytes(type)
                                : panel_lead_bytes(type) +
                                      (size_t)g * panel_group_bytes(type, PANEL_BLOCKS);
}

/* What is next, asked for while this group is multiplied. */
PANEL_INLINE void batch_prefetch(const void *next, size_t n_bytes)
{
    for (size_t i = 0; i < n_bytes; i += PANEL_LINE)
        _mm_prefetch((const void *)((uintptr_t)next + i), _MM_HINT_T0);
}

/* Copies of a group of activations, shifted if need be; what follows is prefetched. */
PANEL_INLINE void batch_copy(block_type type, batch_x to[], const kernel_act *x,
                             size_t x_stride, uint32_t n_tokens)
{
    const __m256i shift = _mm256_set1_epi8(quant_is_shifted(type) ? (char)128 : 0);
    for (uint32_t t = 0; t < n_tokens; t++) {
        const kernel_act *act = x + t * x_stride;
        batch_prefetch(act + 1, sizeof *act);
        UNROLLED for (uint32_t i = 0; i < KERNEL_GROUP; i += 32) {
            const __m256i v = _mm256_loadu_si256((const __m256i *)(const void *)(act->q + i));
            _mm256_store_si256((__m256i *)(void *)(to[t] + i), _mm256_xor_si256(v, shift));
        }
    }
}

/* Compilers would collect products before they add any, and spill them: this pins the order. */
PANEL_INLINE __m256i keep_order(__m256i v)
{
    __asm__ volatile("" : "+x"(v));
    return v;
}

/* dots[t][h] = the integer products of block b, or of NVFP4 half block b, each run's times its
 * factor where there is one; with add, on top of what is there. */
PANEL_INLINE void batch_dots(block_type type, uint32_t n_t, __m256i dots[BATCH_TILE][2],
                             const batch_weights *w, uint32_t b, const batch_x *x,
                             bool add)
{
    const bool shifted = quant_is_shifted(type), super = panel_is_super(type);
    const uint32_t run = quant_run(type), n_runs = type == BLOCK_NVFP4 ? 1 : 8 / run;
    UNROLLED for (uint32_t i_run = 0; i_run < n_runs; i_run++) {
        const uint32_t r = n_runs * b + i_run;
        __m256i sums[BATCH_TILE][2];
        UNROLLED for (uint32_t i = 0; i < run; i++) {
            const __m256i *q = w->w[run * r + i];
            const __m256i half[2] = {q[0], q[1]};
            UNROLLED for (uint32_t t = 0; t < n_t; t++) {
                const __m256i a = broadcast_pair(x[t] + 4 * (run * r + i));
                UNROLLED for (uint32_t h = 0; h < 2; h++) {
                    __m256i v = shifted ? _mm256_maddubs_epi16(a, half[h])
                                        : _mm256_maddubs_epi16(half[h], a);
                    if (i > 0)
                        v = _mm256_add_epi16(sums[t][h], v);
                    else if (shifted)
                        v = _mm256_add_epi16(w->start[r][h], v);
                    sums[t][h] = keep_order(v);
                }
            }
        }
        UNROLLED for (uint32_t t = 0; t < n_t; t++) {
            UNROLLED for (uint32_t h = 0; h < 2; h++) {
                const __m256i factor = super ? w->factor[r][h] : _mm256_set1_epi16(1);
                const __m256i v = _mm256_madd_epi16(sums[t][h], factor);
                dots[t][h] = add || i_run ? _mm256_add_epi32(dots[t][h], v) : v;
            }
        }
    }
}

/* acc[t] = fma(sum, scale, acc[t]) for half a superblock, the sum as the reference makes it. */
PANEL_INLINE void batch_add_half(block_type type, uint32_t n_t, float (*acc)[KERNEL_PANEL_ROWS],
                                 __m256i dots[BATCH_TILE][2], const batch_weights *w,
                                 const kernel_act *act, size_t act_stride)
{
    UNROLLED for (uint32_t t = 0; t < n_t; t++) {
        const kernel_act *a = act + t * act_stride;
        UNROLLED for (uint32_t h = 0; h < 2; h++) {
            __m256 sum = _mm256_mul_ps(w->d[0][h], _mm256_cvtepi32_ps(dots[t][h]));
            if (panel_has_min(type)) {
                const __m256i side = _mm256_add_epi32(
                    _mm256_madd_epi16(w->minima[0][h], broadcast_pair(a->sum32)),
                    _mm256_madd_epi16(w->minima[1][h], broadcast_pair(a->sum32 + 2)));
                sum = _mm256_fnmadd_ps(w->m[0][h], _mm256_cvtepi32_ps(side), sum);
            }
            float *to = acc[t] + 8 * h;
            _mm256_store_ps(to, _mm256_fmadd_ps(sum, _mm256_set1_ps(a->scale[0]),
                                                _mm256_load_ps(to)));
        }
    }
}

/* acc[t] through a group, as the reference makes it. */
PANEL_INLINE void batch_tile(block_type type, uint32_t n_t, float (*acc)[KERNEL_PANEL_ROWS],
                             const batch_weights *w, uint32_t n_blocks,
                             const batch_x *x, const kernel_act *act, size_t act_stride)
{
    __m256i dots[BATCH_TILE][2];
    __m256 sums[BATCH_TILE][2];
    if (panel_is_super(type)) {
        batch_dots(type, n_t, dots, w, 0, x, false);
        for (uint32_t b = 1; b < PANEL_BLOCKS; b++) batch_dots(type, n_t, dots, w, b, x, true);
        batch_add_half(type, n_t, acc, dots, w, act, act_stride);
        return;
    }
    UNROLLED for (uint32_t t = 0; t < n_t; t++)
        UNROLLED for (uint32_t h = 0; h < 2; h++) sums[t][h] = _mm256_load_ps(acc[t] + 8 * h);
    const uint32_t n_scales = panel_block_scales(type);
    for (uint32_t b = 0; b < n_scales * n_blocks; b++) {
        batch_dots(type, n_t, dots, w, b, x, false);
        UNROLLED for (uint32_t t = 0; t < n_t; t++) {
            const kernel_act *a = act + t * act_stride;
            const __m256 scale = _mm256_set1_ps(a->scale[b / n_scales]);
            const __m256 sum32 = _mm256_set1_ps((float)a->sum32[b / n_scales] *
                                                a->scale[b / n_scales]);
            UNROLLED for (uint32_t h = 0; h < 2; h++) {
                const __m256 v = _mm256_mul_ps(_mm256_cvtepi32_ps(dots[t][h]), scale);
                sums[t][h] = _mm256_fmadd_ps(v, w->d[b][h], sums[t][h]);
                if (panel_has_min(type))
                    sums[t][h] = _mm256_fmadd_ps(sum32, w->m[b][h], sums[t][h]);
            }
        }
    }
    UNROLLED for (uint32_t t = 0; t < n_t; t++)
        UNROLLED for (uint32_t h = 0; h < 2; h++) _mm256_store_ps(acc[t] + 8 * h, sums[t][h]);
}

/* A group of a panel into out.  panel: the group; of the types with a scale for 256 values the
 * superblock, of which this is a half. */
typedef void batch_unpack_fn(batch_weights *out, const uint8_t *panel, uint32_t n_blocks,
                             uint32_t half);
typedef void batch_tile_fn(float (*acc)[KERNEL_PANEL_ROWS], const batch_weights *w,
                           uint32_t n_blocks, const batch_x *x, const kernel_act *act,
                           size_t act_stride);

/* Up to BATCH_PANELS panels for up to BATCH_TOKENS tokens. */
PANEL_INLINE void batch_panels(block_type type, batch_unpack_fn *unpack,
                               batch_tile_fn *const tiles[BATCH_TILE], float *y, size_t y_stride,
                               const uint8_t *panels, size_t panel_bytes, uint32_t n_panels,
                               const kernel_act *x, uint32_t n_cols, uint32_t n_tokens)
{
    const uint32_t n_groups = kernel_n_groups(n_cols);
    _Alignas(64) float acc[BATCH_PANELS][BATCH_TOKENS][KERNEL_PANEL_ROWS];
    _Alignas(64) batch_x copy[BATCH_TOKENS];
    batch_weights w;
    memset(acc, 0, n_panels * sizeof acc[0]);
    for (uint32_t g = 0; g < n_groups; g++) {
        const uint32_t n_blocks = panel_group_blocks(n_cols, g);
        const uint8_t *at = panels + batch_group_at(type, g);
        const size_t n_bytes = batch_group_at(type, g + 1) - batch_group_at(type, g);
        batch_copy(type, copy, x + g, n_groups, n_tokens);
        for (uint32_t p = 0; p < n_panels; p++, at += panel_bytes) {
            unpack(&w, at, n_blocks, g % 2);
            batch_prefetch(at + n_bytes, n_bytes);
            for (uint32_t t = 0; t < n_tokens; t += BATCH_TILE) {
                const uint32_t n_t = n_tokens - t < BATCH_TILE ? n_tokens - t : BATCH_TILE;
                tiles[n_t - 1](acc[p] + t, &w, n_blocks, copy + t,
                               x + t * (size_t)n_groups + g, n_groups);
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

/* All panels and tokens, these in even parts. */
PANEL_INLINE void batch_matmul(block_type type, batch_unpack_fn *unpack,
                               batch_tile_fn *const tiles[BATCH_TILE], float *y, size_t y_stride,
                               const uint8_t *panels, const kernel_act *x, uint32_t n_panels,
                               uint32_t n_cols, uint32_t n_tokens)
{
    const size_t panel_bytes = kernel_panel_bytes(type, n_cols);
    const uint32_t n_parts = (n_tokens + BATCH_TOKENS - 1) / BATCH_TOKENS;
    const uint32_t n_tiles = (n_tokens + BATCH_TILE - 1) / BATCH_TILE;
    const uint32_t step = (n_tiles + n_parts - 1) / n_parts * BATCH_TILE;
    for (uint32_t t = 0; t < n_tokens; t += step) {
        const uint32_t n_t = n_tokens - t < step ? n_tokens - t : step;
        for (uint32_t p = 0; p < n_panels; p += BATCH_PANELS) {
            const uint32_t n_p = n_panels - p < BATCH_PANELS ? n_panels - p : BATCH_PANELS;
            batch_panels(type, unpack, tiles, y + t * y_stride + p * KERNEL_PANEL_ROWS, y_stride,
                         panels + p * panel_bytes, panel_bytes, n_p,
                         x + (size_t)t * kernel_n_groups(n_cols), n_cols, n_t);
        }
    }
}

/* name_tiles[]: of 1 to BATCH_TILE tokens, for all types that look alike once unpacked. */
#define BATCH_TILE_OF(name, n_t, type)                                                             \
    static void name##_tile_##n_t(float (*acc)[KERNEL_PANEL_ROWS], const batch_weights *w,         \
                                  uint32_t n_blocks, const batch_x *x,                  \
                                  const kernel_act *act, size_t act_stride)                        \
    {                                                                                              \
        batch_tile(type, n_t, acc, w, n_blocks, x, act, act_stride);                               \
    }
#define BATCH_TILES(name, type)                                                                    \
    BATCH_TILE_OF(name, 1, type)                                                                   \
    BATCH_TILE_OF(name, 2, type)                                                                   \
    BATCH_TILE_OF(name, 3, type)                                                                   \
    BATCH_TILE_OF(name, 4, type)                                                                   \
    BATCH_TILE_OF(name, 5, type)                                                                   \
    BATCH_TILE_OF(name, 6, type)                                                                   \
    static batch_tile_fn *const name##_tiles[BATCH_TILE] = {name##_tile_1, name##_tile_2,          \
                                                            name##_tile_3, name##_tile_4,          \
                                                            name##_tile_5, name##_tile_6};

/* name: few tokens by the tiles of MATMUL_TILED, many (at_least) by these. */
#define MATMUL_BATCHED(name, type, few, unpack_template, tiles, at_least)                          \
    static void name##_unpack(batch_weights *out, const uint8_t *panel, uint32_t n_blocks,         \
                              uint32_t half)                                                       \
    {                                                                                              \
        unpack_template(type, out, panel, n_blocks, half);                                         \
    }                                                                                              \
    static void name(float *restrict y, size_t y_stride, const void *restrict panels,              \
                     const void *restrict x, uint32_t n_panels, uint32_t n_cols,                   \
                     uint32_t n_tokens)                                                            \
    {                                                                                              \
        if (n_tokens < at_least)                                                                   \
            few(y, y_stride, panels, x, n_panels, n_cols, n_tokens);                               \
        else                                                                                       \
            batch_matmul(type, name##_unpack, tiles, y, y_stride, panels, x, n_panels, n_cols,     \
                         n_tokens);                                                                \
    }

#endif
