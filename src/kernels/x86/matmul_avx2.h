/* matmul_avx2.h - what the AVX2 matmul files share: loads, unpacking, the dots of a block.
 *
 * Sixteen rows are two registers of eight 32-bit lanes; h is which of the two.  Everything is
 * inlined with constant types and counts.  Include from *_avx2.c only. */
#ifndef KERNELS_X86_MATMUL_AVX2_H
#define KERNELS_X86_MATMUL_AVX2_H

#ifndef __AVX2__
#error "compile with the flags of AVX2 (see Makefile)"
#endif
#include <immintrin.h>

#include "kernels/panels.h"
#include "kernels/tiles.h"

/* Panels times tokens of the largest tile: four times two sums fill the sixteen registers.
 * Arrays [TILE][2] hold sums of panel p and token t at [p * n_t + t], eight rows each. */
enum { TILE = TILE_SMALL };

PANEL_INLINE __m256i load_line(const uint8_t *p)
{
    return _mm256_load_si256((const __m256i *)(const void *)p);
}

PANEL_INLINE __m256i broadcast_pair(const void *p) /* 32 bits to all lanes */
{
    int32_t v;
    memcpy(&v, p, sizeof v);
    return _mm256_set1_epi32(v);
}

/* Sixteen bytes to both halves. */
PANEL_INLINE __m256i broadcast_half(const uint8_t *p)
{
    return _mm256_broadcastsi128_si256(_mm_load_si128((const __m128i *)(const void *)p));
}

PANEL_INLINE __m256 load_halves(const uint8_t *p) /* eight f16 */
{
    return _mm256_cvtph_ps(_mm_load_si128((const __m128i *)(const void *)p));
}

PANEL_INLINE __m256 load_floats(const uint8_t *p)
{
    return _mm256_load_ps((const float *)(const void *)p);
}

/* Quants with a sign in eight bits; the others are unsigned, with an offset or a minimum. */
PANEL_INLINE bool quant_is_signed(block_type type)
{
    return type == BLOCK_Q8_0 || type == BLOCK_IQ4_NL || type == BLOCK_IQ4_XS ||
           panel_has_levels(type);
}

/* What an unsigned quant is above its value. */
PANEL_INLINE int32_t quant_offset(block_type type)
{
    return type == BLOCK_Q1_0 || type == BLOCK_Q2_0 ? 1
           : type == BLOCK_Q4_0  ? 8
           : type == BLOCK_Q5_0  ? 16
           : type == BLOCK_Q6_K  ? 32
           : panel_is_fp4(type)  ? 12
                                 : 0;
}

/* How many products of maddubs (two of an unsigned quant and an activation each) fit in 16 bits:
 *    3: 8 * 2 *  3 * 127 =  6096
 *   15: 8 * 2 * 15 * 127 = 30480    24: 4 * 2 * 24 * 127 = 24384    31: 4 * 2 * 31 * 127 = 31496
 *   63, with a sign too: 2 * 2 * 63 * 127 = 32004    signed, to 128: 2 * 128 * 127 = 32512
 * all < 32768; and no more than share a small scale, of Q2_K four. */
PANEL_INLINE uint32_t quant_products(block_type type)
{
    switch (type) {
    case BLOCK_Q1_0:
    case BLOCK_Q2_0:
    case BLOCK_Q4_0:
    case BLOCK_Q4_1:
    case BLOCK_Q4_K: return 8;
    case BLOCK_Q5_0:
    case BLOCK_Q5_1:
    case BLOCK_Q5_K:
    case BLOCK_Q2_K:
    case BLOCK_MXFP4:
    case BLOCK_NVFP4: return 4;
    case BLOCK_IQ3_S:
    case BLOCK_Q6_K: return 2;
    case BLOCK_Q8_0:
    case BLOCK_IQ4_NL:
    case BLOCK_IQ4_XS:
    case BLOCK_PQ2_0:
    case BLOCK_Q4_W:
    case BLOCK_Q8_W: /* matmul_wide_avx2.c */
    PANEL_CASES_NONE: break;
    }
    return 1;
}

/* The table of a type whose nibbles are numbers of values, in both halves; else unused. */
PANEL_INLINE __m256i quant_table(block_type type)
{
    if (panel_is_fp4(type)) /* offset by 12 */
        return _mm256_setr_epi8(12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0, 12, 13,
                                14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0);
    if (type == BLOCK_IQ4_NL || type == BLOCK_IQ4_XS)
        return _mm256_setr_epi8(-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69,
                                89, 113, -127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38,
                                53, 69, 89, 113);
    return _mm256_setzero_si256();
}

/* Bits of a plane to the two high bits of quants, in place: field j of four, from bit 2 j. */
PANEL_INLINE __m256i field_bits(__m256i plane, uint32_t j)
{
    plane = j == 3 ? _mm256_srli_epi16(plane, 2) : _mm256_slli_epi16(plane, 4 - 2 * (int)j);
    return _mm256_and_si256(plane, _mm256_set1_epi8(0x30));
}

/* Eight rows' quants of columns 4 k4 .. 4 k4 + 3, unsigned types with their offset.  Shifts are
 * of 16 bits; what they carry from one byte into another is masked away. */
PANEL_INLINE __m256i unpack_quants(block_type type, const uint8_t *block, uint32_t k4, uint32_t h,
                                   __m256i table)
{
    const uint32_t j = k4 % 4;
    if (type == BLOCK_Q8_0) return load_line(block + PANEL_LINE * k4 + 32 * h);
    if (type == BLOCK_Q1_0) { /* 0 or 2 */
        const __m256i line = load_line(block + 32 * h);
        const __m256i v = k4 == 0 ? _mm256_slli_epi16(line, 1)
                                  : _mm256_srli_epi16(line, (int)k4 - 1);
        return _mm256_and_si256(v, _mm256_set1_epi8(2));
    }
    if (type == BLOCK_Q2_K || type == BLOCK_Q2_0)
        return _mm256_and_si256(_mm256_srli_epi16(load_line(block + PANEL_LINE * (k4 / 4) + 32 * h),
                                                  2 * (int)j),
                                _mm256_set1_epi8(3));
    __m256i v = load_line(block + PANEL_LINE * j + 32 * h);
    if (k4 >= 4) v = _mm256_srli_epi16(v, 4);
    v = _mm256_and_si256(v, _mm256_set1_epi8(15));
    if (type == BLOCK_Q5_0 || type == BLOCK_Q5_1 || type == BLOCK_Q5_K) {
        const __m256i plane = load_line(block + PANEL_NIBBLES + 32 * h);
        const __m256i bits = k4 < 4 ? _mm256_slli_epi16(plane, 4 - (int)j)
                                    : _mm256_srli_epi16(plane, (int)j);
        return _mm256_or_si256(v, _mm256_and_si256(bits, _mm256_set1_epi8(16)));
    }
    if (type == BLOCK_Q6_K) {
        const uint8_t *plane = block + PANEL_NIBBLES + PANEL_LINE * (k4 / 4);
        return _mm256_or_si256(v, field_bits(load_line(plane + 32 * h), j));
    }
    if (panel_is_fp4(type) || type == BLOCK_IQ4_NL || type == BLOCK_IQ4_XS ||
        panel_has_levels(type))
        return _mm256_shuffle_epi8(table, v);
    return v;
}

/* Pairs of products in 16 bits.  Signed quants: |w| unsigned, and their sign on x; x is never
 * -128, so its sign can change, while |-128| is 128 unsigned. */
PANEL_INLINE __m256i quant_dot(block_type type, __m256i w, __m256i w_abs, __m256i x)
{
    if (quant_is_signed(type)) return _mm256_maddubs_epi16(w_abs, _mm256_sign_epi8(x, w));
    return _mm256_maddubs_epi16(w, x);
}

/* Left alone, compilers collect all products before they add any, and spill them. */
PANEL_INLINE __m256i keep(__m256i v)
{
    __asm__("" : "+x"(v));
    return v;
}

/* The same block of the panels that the next tile will read.  One or two streams do not keep
 * memory busy (tiles.h); asking a whole tile ahead, 10 to 45 % more comes on Zen 3.  With four
 * streams it costs 5 to 15 %, except for one and two bits. */
PANEL_INLINE void prefetch_next(block_type type, uint32_t n_p, const uint8_t *block,
                                size_t panel_bytes)
{
    if (n_p > 2 && !panel_is_dense(type)) return;
    UNROLLED for (uint32_t p = n_p; p < 2 * n_p; p++)
        UNROLLED for (uint32_t i = 0; i < panel_quant_bytes(type) / PANEL_LINE; i++)
            _mm_prefetch((const void *)((uintptr_t)block + p * panel_bytes + PANEL_LINE * i),
                         _MM_HINT_T1);
}

/* dot += factor[p][h][k / 16] * the integer products of one block of 32 columns, or of n steps of
 * eight from `first` on: of a type with scales for 16 columns, the first four are its first half.
 *   table: what the nibbles mean, or unused
 *   block: of the first panel, the others panel_bytes after
 *   q: of the first token for these columns, the others q_stride after */
PANEL_INLINE void block_dots(block_type type, uint32_t n_p, uint32_t n_t, __m256i dot[TILE][2],
                             __m256i factor[TILE][2][2], __m256i table, const uint8_t *block,
                             size_t panel_bytes, const int8_t *q, size_t q_stride, uint32_t first,
                             uint32_t n)
{
    const uint32_t n_products = quant_products(type);
    __m256i pairs[TILE][2];
    if (first == 0) prefetch_next(type, n_p, block, panel_bytes);
    UNROLLED for (uint32_t step = first; step < first + n; step++) {
        /* Both nibbles of a byte in turn; but one scale after the other where halves have two. */
        const bool halves = panel_small(type) == 16;
        const uint32_t k4 = halves ? step : step / 2 + step % 2 * 4;
        UNROLLED for (uint32_t p = 0; p < n_p; p++) {
            __m256i w[2], w_abs[2];
            UNROLLED for (uint32_t h = 0; h < 2; h++) {
                w[h] = unpack_quants(type, block + p * panel_bytes, k4, h, table);
                w_abs[h] = _mm256_abs_epi8(w[h]);
            }
            UNROLLED for (uint32_t t = 0; t < n_t; t++) {
                const __m256i x = broadcast_pair(q + t * q_stride + 4 * k4);
                const uint32_t i = p * n_t + t;
                UNROLLED for (uint32_t h = 0; h < 2; h++) {
                    const __m256i v = quant_dot(type, w[h], w_abs[h], x);
                    pairs[i][h] = step % n_products ? keep(_mm256_add_epi16(pairs[i][h], v)) : v;
                    if ((step + 1) % n_products == 0)
                        dot[i][h] = keep(_mm256_add_epi32(
                            dot[i][h], _mm256_madd_epi16(pairs[i][h], factor[p][h][k4 / 4])));
                }
            }
        }
    }
}

/* y = acc */
PANEL_INLINE void store_tile(uint32_t n_p, uint32_t n_t, float *y, size_t y_stride,
                             __m256 acc[TILE][2])
{
    UNROLLED for (uint32_t i = 0; i < n_p * n_t; i++)
        UNROLLED for (uint32_t h = 0; h < 2; h++)
            _mm256_storeu_ps(y + i % n_t * y_stride + i / n_t * KERNEL_PANEL_ROWS + 8 * h,
                             acc[i][h]);
}

/* The parts of matmul_init_avx2(), one for each file. */
void matmul_init_groups_avx2(kernel_table *table);
void matmul_init_supers_avx2(kernel_table *table);

#endif
