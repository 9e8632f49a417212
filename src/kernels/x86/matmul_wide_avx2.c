/* matmul_wide_avx2.c - types with one scale for 128 values: Q4_W Q8_W PQ2_0.
 *
 * What a group costs in floats is one conversion, one product and one fma for 128 columns; the
 * rest is exact in integers.  Eight rows at a time, so that four registers of weights serve up to
 * eight tokens whose sums stay in registers; of PQ2_0, whose sums of a group fit in 16 bits,
 * sixteen rows for six tokens. */
#ifndef __AVX2__
#error "compile with the flags of AVX2 (see Makefile)"
#endif
#include <immintrin.h>

#include "kernels/matmul.h"
#include "kernels/panels.h"
#include "kernels/tiles.h"

enum {
    WIDE_UNITS = 8,  /* of a group: 16 columns each, four registers of eight rows */
    WIDE_OFFSET = 33 /* what a quant of Q4_W is above its value here */
};

PANEL_INLINE __m256i load_line(const uint8_t *p)
{
    return _mm256_load_si256((const __m256i *)(const void *)p);
}

PANEL_INLINE __m256i broadcast_four(const int8_t *p)
{
    int32_t v;
    memcpy(&v, p, sizeof v);
    return _mm256_set1_epi32(v);
}

/* block_q4_w_values above -33, in both halves. */
PANEL_INLINE __m256i quant_table(void)
{
    return _mm256_setr_epi8(0, 8, 14, 18, 22, 25, 28, 31, 34, 37, 40, 43, 47, 51, 56, 63, 0, 8, 14,
                            18, 22, 25, 28, 31, 34, 37, 40, 43, 47, 51, 56, 63);
}

/* Four registers of eight rows by four columns: of Q4_W columns 0, 16, 4 and 20 of where the unit
 * begins, of Q8_W and PQ2_0 0, 4, 8 and 12. */
PANEL_INLINE void load_unit(block_type type, __m256i w[4], const uint8_t *from)
{
    const __m256i mask = _mm256_set1_epi8(15), table = quant_table();
    UNROLLED for (uint32_t i = 0; i < 4; i++) {
        if (type == BLOCK_Q8_W) {
            w[i] = load_line(from + PANEL_LINE * i);
            continue;
        }
        if (type == BLOCK_PQ2_0) {
            w[i] = _mm256_and_si256(_mm256_srli_epi16(load_line(from), 2 * (int)i),
                                    _mm256_set1_epi8(3));
            continue;
        }
        const __m256i v = load_line(from + PANEL_LINE * (i / 2));
        w[i] = _mm256_and_si256(i % 2 ? _mm256_srli_epi16(v, 4) : v, mask);
        w[i] = _mm256_shuffle_epi8(table, w[i]);
    }
}

/* The products of a unit with 16 activations, in 32 bits.  Two of 63 and 127 fit in 16 bits:
 * 2 * 2 * 63 * 127 = 32004; of signed bytes one does: 2 * 128 * 127 = 32512.  Those of PQ2_0 stay
 * in 16 bits through the group: 32 * 2 * 3 * 127 = 24384. */
PANEL_INLINE __m256i unit_dot(block_type type, const __m256i w[4], const int8_t *q)
{
    const __m256i ones = _mm256_set1_epi16(1);
    __m256i sum = _mm256_setzero_si256();
    UNROLLED for (uint32_t i = 0; i < 4; i += 2) {
        const uint32_t at = type == BLOCK_Q4_W ? 2 * i : 4 * i;
        const __m256i x = broadcast_four(q + at);
        const __m256i x2 = broadcast_four(q + at + (type == BLOCK_Q4_W ? 16 : 4));
        __m256i v, v2;
        if (type == BLOCK_PQ2_0) {
            v2 = _mm256_maddubs_epi16(w[i + 1], x2);
            sum = _mm256_add_epi16(sum, _mm256_add_epi16(_mm256_maddubs_epi16(w[i], x), v2));
            continue;
        }
        if (type == BLOCK_Q8_W) { /* |w| unsigned, and its sign on x, which is never -128 */
            v = _mm256_maddubs_epi16(_mm256_abs_epi8(w[i]), _mm256_sign_epi8(x, w[i]));
            v2 = _mm256_maddubs_epi16(_mm256_abs_epi8(w[i + 1]), _mm256_sign_epi8(x2, w[i + 1]));
            sum = _mm256_add_epi32(sum, _mm256_madd_epi16(v2, ones));
        } else {
            v2 = _mm256_maddubs_epi16(w[i + 1], x2);
            v = _mm256_add_epi16(_mm256_maddubs_epi16(w[i], x), v2);
        }
        sum = _mm256_add_epi32(sum, _mm256_madd_epi16(v, ones));
    }
    return sum;
}

/* The sums of a group and of a unit. */
PANEL_INLINE __m256i add_unit(block_type type, __m256i sum, __m256i unit)
{
    return type == BLOCK_PQ2_0 ? _mm256_add_epi16(sum, unit) : _mm256_add_epi32(sum, unit);
}

/* What the offset adds to a group's dot. */
PANEL_INLINE __m256i offset_sum(block_type type, const kernel_act *x)
{
    const int32_t sum = x->sum32[0] + x->sum32[1] + x->sum32[2] + x->sum32[3];
    return _mm256_set1_epi32(type == BLOCK_Q4_W ? WIDE_OFFSET * sum
                             : type == BLOCK_PQ2_0 ? sum : 0);
}

/* acc += one group of eight rows: i is panel i / n_t and token i % n_t.
 *   ahead: where the same group of the next panels is, if it is to be asked for; else 0 */
PANEL_INLINE void group(block_type type, uint32_t n_p, uint32_t n_t, __m256 acc[TILE_WIDE],
                        const uint8_t *scales, const uint8_t *quants, size_t panel_bytes,
                        uintptr_t ahead, const kernel_act *x, uint32_t x_stride)
{
    const uint32_t unit_bytes = panel_quant_bytes(type) / 2;
    __m256i dot[TILE_WIDE];
    UNROLLED for (uint32_t i = 0; i < n_p * n_t; i++) dot[i] = _mm256_setzero_si256();
    for (uint32_t u = 0; u < WIDE_UNITS; u++) {
        if (ahead) tile_prefetch(ahead + u * unit_bytes, n_p, panel_bytes, 0, 1);
        const uint32_t at = type == BLOCK_Q4_W ? 32 * (u / 2) + 8 * (u % 2) : 16 * u;
        UNROLLED for (uint32_t p = 0; p < n_p; p++) {
            __m256i w[4];
            load_unit(type, w, quants + p * panel_bytes + u * unit_bytes);
            UNROLLED for (uint32_t t = 0; t < n_t; t++)
                dot[p * n_t + t] = add_unit(type, dot[p * n_t + t],
                                            unit_dot(type, w, x[t * x_stride].q + at));
        }
    }
    UNROLLED for (uint32_t i = 0; i < n_p * n_t; i++) {
        const kernel_act *act = x + i % n_t * x_stride;
        const __m256 d = _mm256_cvtph_ps(
            _mm_load_si128((const __m128i *)(const void *)(scales + i / n_t * panel_bytes)));
        if (type == BLOCK_PQ2_0) dot[i] = _mm256_madd_epi16(dot[i], _mm256_set1_epi16(1));
        const __m256i exact = _mm256_sub_epi32(dot[i], offset_sum(type, act));
        acc[i] = _mm256_fmadd_ps(_mm256_mul_ps(d, _mm256_cvtepi32_ps(exact)),
                                 _mm256_set1_ps(act->scale[0]), acc[i]);
    }
}

PANEL_INLINE void tile(block_type type, uint32_t n_p, uint32_t n_t, float *y, size_t y_stride,
                       const uint8_t *panel, size_t panel_bytes, const kernel_act *x,
                       uint32_t n_cols)
{
    const uint32_t n_groups = kernel_n_groups(n_cols);
    const uint8_t *quants = panel + panel_wide_head(n_cols);
    const uintptr_t next = (uintptr_t)panel + n_p * panel_bytes;
    __m256 acc[2][TILE_WIDE];
    UNROLLED for (uint32_t i = 0; i < n_p * n_t; i++) acc[0][i] = acc[1][i] = _mm256_setzero_ps();
    for (uint32_t g = 0; g < n_groups; g++, quants += PANEL_BLOCKS * panel_quant_bytes(type)) {
        if (n_t == 1 && g + 1 == n_groups) {
            tile_prefetch(next, n_p, panel_bytes, 0, TILE_AHEAD_LINES / 2);
            tile_prefetch(next + panel_wide_head(n_cols), n_p, panel_bytes, 0,
                          TILE_AHEAD_LINES / 2);
        }
        UNROLLED for (uint32_t h = 0; h < 2; h++)
            group(type, n_p, n_t, acc[h], panel + 32 * g + 16 * h, quants + 32 * h, panel_bytes,
                  h == 0 && panel_is_dense(type) ? (uintptr_t)quants + n_p * panel_bytes : 0, x + g,
                  n_groups);
    }
    UNROLLED for (uint32_t i = 0; i < n_p * n_t; i++)
        UNROLLED for (uint32_t h = 0; h < 2; h++)
            _mm256_storeu_ps(y + i % n_t * y_stride + i / n_t * KERNEL_PANEL_ROWS + 8 * h,
                             acc[h][i]);
}

MATMUL_TILE(matmul_q4_w_avx2, 1, 8, BLOCK_Q4_W, tile)
MATMUL_TILED(matmul_q4_w_avx2, BLOCK_Q4_W, tile, 4, matmul_q4_w_avx2_1_by_8)
MATMUL_TILE(matmul_q8_w_avx2, 1, 8, BLOCK_Q8_W, tile)
MATMUL_TILED(matmul_q8_w_avx2, BLOCK_Q8_W, tile, 4, matmul_q8_w_avx2_1_by_8)

/* ---- PQ2_0 and many tokens ---- */

enum { TERNARY_TOKENS = 6 }; /* by sixteen rows: twelve registers of sums */

/* Compilers would collect products before they add any, and spill them: this pins the order. */
PANEL_INLINE __m256i keep_order(__m256i v)
{
    __asm__ volatile("" : "+x"(v));
    return v;
}

/* The products of a group for sixteen rows, in 16 bits: a broadcast serves both halves. */
PANEL_INLINE void ternary_dots(uint32_t n_t, __m256i dot[TERNARY_TOKENS][2], const uint8_t *quants,
                               const kernel_act *x, uint32_t x_stride)
{
    const __m256i three = _mm256_set1_epi8(3);
    UNROLLED for (uint32_t t = 0; t < n_t; t++) dot[t][0] = dot[t][1] = _mm256_setzero_si256();
    for (uint32_t u = 0; u < WIDE_UNITS; u++, quants += PANEL_LINE) {
        UNROLLED for (uint32_t i = 0; i < 4; i++) {
            __m256i w[2];
            UNROLLED for (uint32_t h = 0; h < 2; h++)
                w[h] = _mm256_and_si256(_mm256_srli_epi16(load_line(quants + 32 * h), 2 * (int)i),
                                        three);
            UNROLLED for (uint32_t t = 0; t < n_t; t++) {
                const __m256i v = broadcast_four(x[t * x_stride].q + 16 * u + 4 * i);
                UNROLLED for (uint32_t h = 0; h < 2; h++)
                    dot[t][h] = keep_order(
                        _mm256_add_epi16(dot[t][h], _mm256_maddubs_epi16(w[h], v)));
            }
        }
    }
}

PANEL_INLINE void ternary_tile(uint32_t n_t, float *y, size_t y_stride, const uint8_t *panel,
                               const kernel_act *x, uint32_t n_cols)
{
    const uint32_t n_groups = kernel_n_groups(n_cols);
    const uint8_t *quants = panel + panel_wide_head(n_cols);
    __m256i dot[TERNARY_TOKENS][2];
    __m256 acc[TERNARY_TOKENS][2];
    UNROLLED for (uint32_t t = 0; t < n_t; t++) acc[t][0] = acc[t][1] = _mm256_setzero_ps();
    for (uint32_t g = 0; g < n_groups; g++, x++, quants += WIDE_UNITS * PANEL_LINE) {
        ternary_dots(n_t, dot, quants, x, n_groups);
        UNROLLED for (uint32_t t = 0; t < n_t; t++) {
            const kernel_act *act = x + t * n_groups;
            UNROLLED for (uint32_t h = 0; h < 2; h++) {
                const __m256 d = _mm256_cvtph_ps(_mm_load_si128(
                    (const __m128i *)(const void *)(panel + 32 * g + 16 * h)));
                const __m256i exact =
                    _mm256_sub_epi32(_mm256_madd_epi16(dot[t][h], _mm256_set1_epi16(1)),
                                     offset_sum(BLOCK_PQ2_0, act));
                acc[t][h] = _mm256_fmadd_ps(_mm256_mul_ps(d, _mm256_cvtepi32_ps(exact)),
                                            _mm256_set1_ps(act->scale[0]), acc[t][h]);
            }
        }
    }
    UNROLLED for (uint32_t t = 0; t < n_t; t++)
        UNROLLED for (uint32_t h = 0; h < 2; h++)
            _mm256_storeu_ps(y + t * y_stride + 8 * h, acc[t][h]);
}

#define TERNARY_TILE(n_t)                                                                          \
    static void ternary_tile_##n_t(float *restrict y, size_t y_stride,                             \
                                   const uint8_t *restrict panel, size_t panel_bytes,              \
                                   const kernel_act *restrict x, uint32_t n_cols)                  \
    {                                                                                              \
        (void)panel_bytes;                                                                         \
        ternary_tile(n_t, y, y_stride, panel, x, n_cols);                                          \
    }
TERNARY_TILE(5)
TERNARY_TILE(6)

MATMUL_TILED(matmul_pq2_0_few, BLOCK_PQ2_0, tile, 4, NULL)

/* Tokens by six and by five, as far as they can be cut so (20 and more can); the rest by few. */
static void matmul_pq2_0_avx2(float *restrict y, size_t y_stride, const void *restrict panels,
                              const void *restrict x, uint32_t n_panels, uint32_t n_cols,
                              uint32_t n_tokens)
{
    enum { BLOCK = 36 }; /* tokens whose activations stay in the second-level cache */
    const size_t panel_bytes = kernel_panel_bytes(BLOCK_PQ2_0, n_cols);
    const uint32_t n_groups = kernel_n_groups(n_cols);
    for (uint32_t first = 0, n; first < n_tokens; first += n) {
        n = n_tokens - first < BLOCK ? n_tokens - first : BLOCK;
        const uint32_t n_tiles = (n + TERNARY_TOKENS - 1) / TERNARY_TOKENS;
        const kernel_act *acts = (const kernel_act *)x + (size_t)first * n_groups;
        if (n < 5 * n_tiles && n_tiles > 1) n = (n_tiles - 1) * TERNARY_TOKENS;
        if (n < 5) {
            matmul_pq2_0_few(y + first * y_stride, y_stride, panels, acts, n_panels, n_cols, n);
            continue;
        }
        for (uint32_t p = 0; p < n_panels; p++)
            for (uint32_t t = 0, n_t; t < n; t += n_t) {
                const uint32_t left = (n - t + TERNARY_TOKENS - 1) / TERNARY_TOKENS;
                n_t = (n - t + left - 1) / left;
                (n_t == 6 ? ternary_tile_6 : ternary_tile_5)(
                    y + (first + t) * y_stride + p * KERNEL_PANEL_ROWS, y_stride,
                    (const uint8_t *)panels + p * panel_bytes, panel_bytes,
                    acts + (size_t)t * n_groups, n_cols);
            }
    }
}

void matmul_init_wide_avx2(kernel_table *table)
{
    table->matmul[BLOCK_PQ2_0] = matmul_pq2_0_avx2;
    table->matmul[BLOCK_Q4_W] = matmul_q4_w_avx2;
    table->matmul[BLOCK_Q8_W] = matmul_q8_w_avx2;
}
