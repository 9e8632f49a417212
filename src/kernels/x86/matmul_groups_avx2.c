/* matmul_groups_avx2.c - types with a scale for 32 values: Q4_0 Q4_1 Q5_0 Q5_1 Q8_0 IQ4_NL MXFP4;
 * NVFP4, for 16; and Q1_0 and Q2_0, which blocks share.
 *
 * A block's dot products are exact sums of 16-bit pairs, widened to 32 bits before they can
 * overflow (quant_products); its float part is that of the reference, one lane for a row. */
#include "kernels/x86/matmul_batch_avx2.h"

#include "kernels/matmul.h"

/* 2^(e - 128) of eight rows: a normal number from e = 2, else 2^-128 or 2^-127. */
PANEL_INLINE __m256 load_e8m0_half(const uint8_t *p)
{
    const __m256i e = _mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)(const void *)p));
    const __m256i one = _mm256_set1_epi32(1);
    const __m256i normal = _mm256_slli_epi32(_mm256_sub_epi32(e, one), 23);
    const __m256i small = _mm256_sllv_epi32(_mm256_set1_epi32(0x00200000), e);
    return _mm256_castsi256_ps(_mm256_blendv_epi8(small, normal, _mm256_cmpgt_epi32(e, one)));
}

/* ue4m3_half_to_f32() of eight rows of a panel. */
PANEL_INLINE __m256 load_ue4m3_half(const uint8_t *p)
{
    const __m128i e = _mm_cvtepu8_epi16(_mm_loadl_epi64((const __m128i *)(const void *)p));
    return _mm256_mul_ps(_mm256_cvtph_ps(_mm_slli_epi16(e, 7)), _mm256_set1_ps(0x1p7f));
}

/* Scale s of a block, for rows 8 h on. */
PANEL_INLINE __m256 load_block_scale(block_type type, const uint8_t *head, uint32_t s, uint32_t h)
{
    if (type == BLOCK_MXFP4) return load_e8m0_half(head + 8 * h);
    if (type == BLOCK_NVFP4) return load_ue4m3_half(head + 16 * s + 8 * h);
    return load_halves(head + 16 * h);
}

/* acc = fma(dot * scale, d, acc) and fma(sum32 * scale, m, acc) for block b of a group, or the part
 * of it that has scale s. */
PANEL_INLINE void part_sums(block_type type, uint32_t n_p, uint32_t n_t, __m256 acc[TILE][2],
                             const uint8_t *group, const uint8_t *block, size_t panel_bytes,
                            uint32_t b, uint32_t s, const kernel_act *x, uint32_t x_stride)
{
    const uint32_t n_steps = 8 / panel_block_scales(type);
    __m256i ones[TILE][2][2], dot[TILE][2];
    UNROLLED for (uint32_t i = 0; i < n_p * n_t; i++)
        UNROLLED for (uint32_t h = 0; h < 2; h++) {
            ones[i / n_t][h][0] = ones[i / n_t][h][1] = _mm256_set1_epi16(1);
            dot[i][h] = _mm256_setzero_si256();
        }
    block_dots(type, n_p, n_t, dot, ones, quant_table(type), block, panel_bytes,
               x->q + b * PANEL_BLOCK, x_stride * sizeof *x, s * n_steps, n_steps);
    UNROLLED for (uint32_t p = 0; p < n_p; p++) {
        UNROLLED for (uint32_t h = 0; h < 2; h++) {
            const uint8_t *head = group + p * panel_bytes + panel_head_at(type, b);
            const __m256 d = load_block_scale(type, head, s, h);
            const __m256 m = panel_has_min(type) ? load_halves(head + 32 + 16 * h) : d;
            UNROLLED for (uint32_t t = 0; t < n_t; t++) {
                const kernel_act *act = x + t * x_stride;
                const int32_t sum32 = act->sum32[b], offset = quant_offset(type);
                const int32_t sum = n_steps == 8 ? sum32 : act->sum16[2 * b + s];
                const uint32_t i = p * n_t + t;
                __m256i v = dot[i][h];
                if (offset) v = _mm256_sub_epi32(v, _mm256_set1_epi32(offset * sum));
                acc[i][h] = _mm256_fmadd_ps(
                    _mm256_mul_ps(_mm256_cvtepi32_ps(v), _mm256_set1_ps(act->scale[b])), d,
                    acc[i][h]);
                if (panel_has_min(type))
                    acc[i][h] = _mm256_fmadd_ps(_mm256_set1_ps((float)sum32 * act->scale[b]), m,
                                                acc[i][h]);
            }
        }
    }
}

PANEL_INLINE void block_sums(block_type type, uint32_t n_p, uint32_t n_t, __m256 acc[TILE][2],
                             const uint8_t *group, const uint8_t *block, size_t panel_bytes,
                             uint32_t b, const kernel_act *x, uint32_t x_stride)
{
    UNROLLED for (uint32_t s = 0; s < panel_block_scales(type); s++)
        part_sums(type, n_p, n_t, acc, group, block, panel_bytes, b, s, x, x_stride);
}

PANEL_INLINE void tile(block_type type, uint32_t n_p, uint32_t n_t, float *y, size_t y_stride,
                       const uint8_t *panel, size_t panel_bytes, const kernel_act *x,
                       uint32_t n_cols)
{
    enum { LINES = TILE_AHEAD_LINES / PANEL_BLOCKS };
    const uint32_t n_groups = kernel_n_groups(n_cols);
    const uintptr_t next = (uintptr_t)panel + n_p * panel_bytes;
    const uint8_t *factors = panel;
    __m256 acc[TILE][2];
    UNROLLED for (uint32_t i = 0; i < n_p * n_t; i++)
        UNROLLED for (uint32_t h = 0; h < 2; h++) acc[i][h] = _mm256_setzero_ps();
    panel += panel_lead_bytes(type);
    for (uint32_t g = 0; g < n_groups; g++) {
        const uint32_t n_blocks = panel_group_blocks(n_cols, g);
        const uint8_t *block = panel + panel_group_head(type, n_blocks);
        for (uint32_t b = 0; b < n_blocks; b++, block += panel_quant_bytes(type)) {
            if (n_p == TILE_PANELS && g + 1 == n_groups)
                tile_prefetch(next, n_p, panel_bytes, LINES * b, LINES);
            block_sums(type, n_p, n_t, acc, panel, block, panel_bytes, b, x + g, n_groups);
        }
        panel += panel_group_bytes(type, n_blocks);
    }
    const uint32_t n_scaled = panel_lead_bytes(type) ? n_p * n_t : 0;
    UNROLLED for (uint32_t i = 0; i < n_scaled; i++)
        UNROLLED for (uint32_t h = 0; h < 2; h++)
            acc[i][h] = _mm256_mul_ps(acc[i][h], load_floats(factors + i / n_t * panel_bytes +
                                                             32 * h));
    store_tile(n_p, n_t, y, y_stride, acc);
}

/* A group for many tokens: scales as floats beside the quants. */
PANEL_INLINE void unpack_group(block_type type, batch_weights *out, const uint8_t *group,
                               uint32_t n_blocks, uint32_t half)
{
    (void)half;
    const uint8_t *block = group + panel_group_head(type, n_blocks);
    for (uint32_t b = 0; b < n_blocks; b++) {
        const uint8_t *head = group + panel_head_at(type, b);
        UNROLLED for (uint32_t h = 0; h < 2; h++) {
            UNROLLED for (uint32_t s = 0; s < panel_block_scales(type); s++)
                out->d[b * panel_block_scales(type) + s][h] = load_block_scale(type, head, s, h);
            if (panel_has_min(type)) out->m[b][h] = load_halves(head + 32 + 16 * h);
        }
        batch_unpack_block(type, out, block, b);
        block += panel_quant_bytes(type);
    }
}

BATCH_TILES(shifted, BLOCK_Q4_0)
BATCH_TILES(plain_8, BLOCK_Q4_1)
BATCH_TILES(plain_4, BLOCK_Q5_1)
BATCH_TILES(halves, BLOCK_NVFP4)

/* From this many tokens on unpacking pays (measured; the bits are the same). */
#define MATMUL_GROUPS(name, type, tiles, at_least)                                                 \
    MATMUL_TILED(name##_few, type, tile, 4, NULL)                                                  \
    MATMUL_BATCHED(name, type, name##_few, unpack_group, tiles, at_least)
MATMUL_GROUPS(matmul_q1_0_avx2, BLOCK_Q1_0, shifted_tiles, 5)
MATMUL_GROUPS(matmul_q2_0_avx2, BLOCK_Q2_0, shifted_tiles, 5)
MATMUL_GROUPS(matmul_q4_0_avx2, BLOCK_Q4_0, shifted_tiles, 20)
MATMUL_GROUPS(matmul_q4_1_avx2, BLOCK_Q4_1, plain_8_tiles, 20)
MATMUL_GROUPS(matmul_q5_0_avx2, BLOCK_Q5_0, shifted_tiles, 5)
MATMUL_GROUPS(matmul_q5_1_avx2, BLOCK_Q5_1, plain_4_tiles, 5)
MATMUL_GROUPS(matmul_mxfp4_avx2, BLOCK_MXFP4, shifted_tiles, 5)
MATMUL_GROUPS(matmul_nvfp4_avx2, BLOCK_NVFP4, halves_tiles, 5)
MATMUL_TILED(matmul_q8_0_avx2, BLOCK_Q8_0, tile, 4, NULL)
MATMUL_TILED(matmul_iq4_nl_avx2, BLOCK_IQ4_NL, tile, 4, NULL)

void matmul_init_groups_avx2(kernel_table *table)
{
    table->matmul[BLOCK_Q1_0] = matmul_q1_0_avx2;
    table->matmul[BLOCK_Q2_0] = matmul_q2_0_avx2;
    table->matmul[BLOCK_Q4_0] = matmul_q4_0_avx2;
    table->matmul[BLOCK_Q4_1] = matmul_q4_1_avx2;
    table->matmul[BLOCK_Q5_0] = matmul_q5_0_avx2;
    table->matmul[BLOCK_Q5_1] = matmul_q5_1_avx2;
    table->matmul[BLOCK_Q8_0] = matmul_q8_0_avx2;
    table->matmul[BLOCK_IQ4_NL] = matmul_iq4_nl_avx2;
    table->matmul[BLOCK_MXFP4] = matmul_mxfp4_avx2;
    table->matmul[BLOCK_NVFP4] = matmul_nvfp4_avx2;
}
