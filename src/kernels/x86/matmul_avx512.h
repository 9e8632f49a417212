/* matmul_avx512.h - what the matmul files of AVX-512 VNNI and of AMX share: loads, and quants and
 * scales from a panel.
 *
 * Sixteen rows are one register.  Everything is inlined with constant types.  Include from
 * *_avx512vnni.c and *_amx.c only; tests/kernelcheck also compiles those for machines without
 * these instructions, and then defines KERNELS_EMULATED and the intrinsics. */
#ifndef KERNELS_X86_MATMUL_AVX512_H
#define KERNELS_X86_MATMUL_AVX512_H

#ifndef KERNELS_EMULATED
#ifndef __AVX512VNNI__
#error "compile with the flags of AVX-512 VNNI (see Makefile)"
#endif
#include <immintrin.h>
#endif

#include "kernels/panels.h"

PANEL_INLINE __m512i broadcast_word(const void *p) /* 32 bits to all lanes */
{
    int32_t v;
    memcpy(&v, p, sizeof v);
    return _mm512_set1_epi32(v);
}

PANEL_INLINE __m256i load_half_line(const uint8_t *p)
{
    return _mm256_load_si256((const __m256i *)(const void *)p);
}

PANEL_INLINE __m512 load_halves(const uint8_t *p) /* sixteen f16 */
{
    return _mm512_cvtph_ps(load_half_line(p));
}

/* Sixteen rows' quants of columns 4 k4 .. 4 k4 + 3, unsigned, or what the table says for a nibble.
 * Shifts are of 16 bits; what they carry from one byte into another is masked away. */
PANEL_INLINE __m512i unpack_quants(block_type type, const uint8_t *block, uint32_t k4,
                                   __m512i table)
{
    const uint32_t j = k4 % 4;
    if (type == BLOCK_Q8_0)
        return _mm512_xor_si512(_mm512_load_si512(block + PANEL_LINE * k4),
                                _mm512_set1_epi8((char)0x80));
    if (type == BLOCK_Q1_0) { /* 0 or 2 */
        const __m512i line = _mm512_loadu_si512(block);
        const __m512i v = k4 == 0 ? _mm512_slli_epi16(line, 1) : _mm512_srli_epi16(line, k4 - 1);
        return _mm512_and_si512(v, _mm512_set1_epi8(2));
    }
    if (type == BLOCK_Q2_K || panel_is_two_bits(type))
        return _mm512_and_si512(_mm512_srli_epi16(_mm512_load_si512(block + PANEL_LINE * (k4 / 4)),
                                                  2 * j),
                                _mm512_set1_epi8(3));
    __m512i v = _mm512_load_si512(block + PANEL_LINE * j);
    if (k4 >= 4) v = _mm512_srli_epi16(v, 4);
    v = _mm512_and_si512(v, _mm512_set1_epi8(15));
    if (type == BLOCK_Q5_0 || type == BLOCK_Q5_1 || type == BLOCK_Q5_K) {
        const __m512i plane = _mm512_load_si512(block + PANEL_NIBBLES);
        const __m512i bits = k4 < 4 ? _mm512_slli_epi16(plane, 4 - j)
                                    : _mm512_srli_epi16(plane, j);
        return _mm512_or_si512(v, _mm512_and_si512(bits, _mm512_set1_epi8(16)));
    }
    if (type == BLOCK_Q6_K) {
        __m512i bits = _mm512_load_si512(block + PANEL_NIBBLES + PANEL_LINE * (k4 / 4));
        bits = j == 3 ? _mm512_srli_epi16(bits, 2) : _mm512_slli_epi16(bits, 4 - 2 * j);
        return _mm512_or_si512(v, _mm512_and_si512(bits, _mm512_set1_epi8(0x30)));
    }
    if (panel_is_fp4(type) || type == BLOCK_IQ4_NL || type == BLOCK_IQ4_XS ||
        type == BLOCK_Q4_W || panel_has_levels(type))
        return _mm512_shuffle_epi8(table, v);
    return v;
}

/* 2^(e - 128): a normal number from e = 2, else 2^-128 or 2^-127, whose bits are no smaller. */
PANEL_INLINE __m512 load_e8m0_half(const uint8_t *p)
{
    const __m512i e = _mm512_cvtepu8_epi32(_mm_load_si128((const __m128i *)(const void *)p));
    const __m512i normal = _mm512_slli_epi32(_mm512_sub_epi32(e, _mm512_set1_epi32(1)), 23);
    const __m512i small = _mm512_sllv_epi32(_mm512_set1_epi32(0x00200000),
                                            _mm512_min_epi32(e, _mm512_set1_epi32(2)));
    return _mm512_castsi512_ps(_mm512_max_epi32(normal, small));
}

/* ue4m3_half_to_f32() of sixteen rows of a panel. */
PANEL_INLINE __m512 load_ue4m3_half(const uint8_t *p)
{
    const __m256i e = _mm256_cvtepu8_epi16(_mm_load_si128((const __m128i *)(const void *)p));
    return _mm512_mul_ps(_mm512_cvtph_ps(_mm256_slli_epi16(e, 7)), _mm512_set1_ps(0x1p7f));
}

/* Scale s of a block, of one or two. */
PANEL_INLINE __m512 load_block_scale(block_type type, const uint8_t *head, uint32_t s)
{
    if (type == BLOCK_MXFP4) return load_e8m0_half(head);
    if (type == BLOCK_NVFP4) return load_ue4m3_half(head + 16 * s);
    return load_halves(head);
}

/* A pair of small scales [16 rows][2], signed or not: one of them as 32-bit lanes. */
PANEL_INLINE __m512i load_scales(block_type type, const uint8_t *pair, uint32_t which)
{
    const __m512i v = _mm512_slli_epi32(_mm512_cvtepi16_epi32(load_half_line(pair)),
                                        24 - 8 * which); /* the scale on top */
    if (panel_small_is_signed(type)) return _mm512_srai_epi32(v, 24);
    return _mm512_srli_epi32(v, 24);
}

/* The same pair as 16-bit lanes, for products with pairs of sums. */
PANEL_INLINE __m512i load_pairs(block_type type, const uint8_t *pair)
{
    const __m256i v = load_half_line(pair);
    return panel_small_is_signed(type) ? _mm512_cvtepi8_epi16(v) : _mm512_cvtepu8_epi16(v);
}

/* What the sums of a superblock are multiplied with. */
PANEL_INLINE __m512 load_super_d(block_type type, const uint8_t *super)
{
    const __m512 d = load_halves(super);
    if (!panel_has_levels(type)) return d;
    return _mm512_mul_ps(d, _mm512_castsi512_ps(broadcast_word(super + 48)));
}

/* What the nibbles of such a panel mean. */
PANEL_INLINE __m512i load_levels(const uint8_t *super)
{
    return _mm512_broadcast_i32x4(_mm_load_si128((const __m128i *)(const void *)(super + 32)));
}

#endif
