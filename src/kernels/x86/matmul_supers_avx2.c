/* matmul_supers_avx2.c - types with a scale for 256 values: Q2_K Q4_K Q5_K Q6_K IQ3_S IQ4_XS.
 *
 * The small scales cost nothing: madd, which widens 16-bit pairs to 32 bits, multiplies by them
 * in place of by one.  A half superblock (one group of activations) is an exact integer. */
#include "kernels/x86/matmul_batch_avx2.h"

#include "kernels/matmul.h"

/* Small scale `which` of a pair [16 rows][2] for eight rows, twice in each 32-bit lane as i16. */
PANEL_INLINE __m256i scale_pairs(block_type type, const uint8_t *scales, uint32_t h, uint32_t which)
{
    const bool is_signed = panel_small_is_signed(type);
    const char w = (char)which, none = (char)0x80;
#define ROW(r) 2 * r + w, none, 2 * r + w, none
#define SIGNED_ROW(r) none, 2 * r + w, none, 2 * r + w
    const __m256i low = _mm256_setr_epi8(ROW(0), ROW(1), ROW(2), ROW(3), ROW(4), ROW(5), ROW(6),
                                         ROW(7));
    const __m256i top = _mm256_setr_epi8(SIGNED_ROW(0), SIGNED_ROW(1), SIGNED_ROW(2),
                                         SIGNED_ROW(3), SIGNED_ROW(4), SIGNED_ROW(5),
                                         SIGNED_ROW(6), SIGNED_ROW(7));
#undef ROW
#undef SIGNED_ROW
    const __m256i v = broadcast_half(scales + 16 * h);
    if (is_signed) return _mm256_srai_epi16(_mm256_shuffle_epi8(v, top), 8);
    return _mm256_shuffle_epi8(v, low);
}

/* Pairs of neighbouring small scales or minima of eight rows as i16: one lane a row. */
PANEL_INLINE __m256i load_pairs(block_type type, const uint8_t *p, uint32_t h)
{
    const __m128i v = _mm_load_si128((const __m128i *)(const void *)(p + 16 * h));
    return panel_small_is_signed(type) ? _mm256_cvtepi8_epi16(v) : _mm256_cvtepu8_epi16(v);
}

/* What minima or offsets add for eight rows and a token: small scales by sums of activations. */
PANEL_INLINE __m256i side_sums(block_type type, const uint8_t *scales, uint32_t h,
                               const kernel_act *act)
{
    const uint32_t n_pairs = KERNEL_GROUP / panel_small(type) / 2;
    const int16_t *sums = panel_small(type) == 16 ? act->sum16 : act->sum32;
    const uint8_t *from = scales + (panel_has_min(type) ? panel_smalls_bytes(type) : 0);
    __m256i side = _mm256_setzero_si256();
    UNROLLED for (uint32_t i = 0; i < n_pairs; i++)
        side = _mm256_add_epi32(side, _mm256_madd_epi16(load_pairs(type, from + 32 * i, h),
                                                        broadcast_pair(sums + 2 * i)));
    return side;
}

/* dot = the scaled integer products of half a superblock.
 * Bounds in 32 bits: 128 * 31 * 127 * 63 < 2^25, 128 * 63 * 127 * 128 < 2^27,
 * 128 * 127 * 127 * 32 < 2^26, 128 * 63 * 127 * 128 < 2^27 (levels). */
PANEL_INLINE void half_dots(block_type type, uint32_t n_p, uint32_t n_t, __m256i dot[TILE][2],
                            __m256i table, const uint8_t *scales, const uint8_t *block,
                            size_t panel_bytes, const int8_t *q, size_t q_stride)
{
    UNROLLED for (uint32_t i = 0; i < n_p * n_t; i++)
        UNROLLED for (uint32_t h = 0; h < 2; h++) dot[i][h] = _mm256_setzero_si256();
    for (uint32_t b = 0; b < PANEL_BLOCKS; b += 2) {
        UNROLLED for (uint32_t i = 0; i < 2; i++, block += panel_quant_bytes(type)) {
            __m256i factor[TILE][2][2];
            UNROLLED for (uint32_t p = 0; p < n_p; p++) {
                UNROLLED for (uint32_t h = 0; h < 2; h++) {
                    /* A pair of scales belongs to one block, or to two. */
                    const bool halves = panel_small(type) == 16;
                    const uint8_t *pair = scales + p * panel_bytes +
                                          (halves ? 32 * (b + i) : 16 * b);
                    factor[p][h][0] = scale_pairs(type, pair, h, halves ? 0 : i);
                    factor[p][h][1] = halves ? scale_pairs(type, pair, h, 1) : factor[p][h][0];
                }
            }
            block_dots(type, n_p, n_t, dot, factor, table, block, panel_bytes,
                       q + (b + i) * PANEL_BLOCK, q_stride, 0, 8);
        }
    }
}

/* What the sums of eight rows are multiplied with. */
PANEL_INLINE __m256 load_super_d(block_type type, const uint8_t *super, uint32_t h)
{
    const __m256 d = load_halves(super + 16 * h);
    if (!panel_has_levels(type)) return d;
    return _mm256_mul_ps(d, _mm256_castsi256_ps(broadcast_pair(super + 48)));
}

/* acc = fma(sum, scale, acc) for half a superblock. */
PANEL_INLINE void half_sums(block_type type, uint32_t n_p, uint32_t n_t, __m256 acc[TILE][2],
                            const uint8_t *super, size_t panel_bytes, uint32_t half,
                            const kernel_act *x, uint32_t x_stride)
{
    const uint8_t *scales = super + 64 + half * PANEL_BLOCKS * panel_small_bytes(type);
    const uint8_t *block = super + panel_head_bytes(type) +
                           half * PANEL_BLOCKS * panel_quant_bytes(type);
    __m256i dot[TILE][2];
    const __m256i table = panel_has_levels(type) ? broadcast_half(super + 32) : quant_table(type);
    half_dots(type, n_p, n_t, dot, table, scales, block, panel_bytes, x->q, x_stride * sizeof *x);
    UNROLLED for (uint32_t i = 0; i < n_p * n_t; i++) {
        const kernel_act *act = x + i % n_t * x_stride;
        const size_t at = i / n_t * panel_bytes;
        UNROLLED for (uint32_t h = 0; h < 2; h++) {
            const __m256 d = load_super_d(type, super + at, h);
            __m256i v = dot[i][h], side = _mm256_setzero_si256();
            if (!quant_is_signed(type)) side = side_sums(type, scales + at, h, act);
            if (type == BLOCK_Q6_K) v = _mm256_sub_epi32(v, _mm256_slli_epi32(side, 5));
            __m256 sum = _mm256_mul_ps(d, _mm256_cvtepi32_ps(v));
            if (panel_has_min(type))
                sum = _mm256_fnmadd_ps(load_halves(super + at + 32 + 16 * h),
                                       _mm256_cvtepi32_ps(side), sum);
            acc[i][h] = _mm256_fmadd_ps(sum, _mm256_set1_ps(act->scale[0]), acc[i][h]);
        }
    }
}

PANEL_INLINE void tile(block_type type, uint32_t n_p, uint32_t n_t, float *y, size_t y_stride,
                       const uint8_t *panel, size_t panel_bytes, const kernel_act *x,
                       uint32_t n_cols)
{
    const uint32_t n_groups = kernel_n_groups(n_cols);
    __m256 acc[TILE][2];
    UNROLLED for (uint32_t i = 0; i < n_p * n_t; i++)
        UNROLLED for (uint32_t h = 0; h < 2; h++) acc[i][h] = _mm256_setzero_ps();
    for (uint32_t g = 0; g < n_groups; g++) {
        half_sums(type, n_p, n_t, acc, panel, panel_bytes, g % 2, x + g, n_groups);
        panel += g % 2 * panel_super_bytes(type);
    }
    store_tile(n_p, n_t, y, y_stride, acc);
}

/* Half a superblock for many tokens: its small scales as words beside the quants. */
PANEL_INLINE void unpack_half(block_type type, batch_weights *out, const uint8_t *super,
                              uint32_t n_blocks, uint32_t half)
{
    const bool q6 = type == BLOCK_Q6_K; /* whose pairs of scales belong to one block, not to two */
    const uint8_t *scales = super + 64 + half * PANEL_BLOCKS * (q6 ? 32 : 16);
    const uint8_t *block = super + panel_head_bytes(type) +
                           half * PANEL_BLOCKS * panel_quant_bytes(type);
    UNROLLED for (uint32_t h = 0; h < 2; h++) {
        out->d[0][h] = load_halves(super + 16 * h);
        if (panel_has_min(type)) {
            out->m[0][h] = load_halves(super + 32 + 16 * h);
            UNROLLED for (uint32_t i = 0; i < 2; i++)
                out->minima[i][h] = load_pairs(type, scales + 128 + 32 * i, h);
        }
    }
    for (uint32_t b = 0; b < n_blocks; b++, block += panel_quant_bytes(type)) {
        UNROLLED for (uint32_t h = 0; h < 2; h++) {
            UNROLLED for (uint32_t r = 0; r < 8 / quant_run(type); r++) {
                const uint32_t at = q6 ? b : b / 2, which = q6 ? r : b % 2;
                const __m256i v = which ? scale_pairs(type, scales + 32 * at, h, 1)
                                        : scale_pairs(type, scales + 32 * at, h, 0);
                out->factor[8 / quant_run(type) * b + r][h] = v;
            }
        }
        batch_unpack_block(type, out, block, b);
    }
}

BATCH_TILES(q4_k, BLOCK_Q4_K)
BATCH_TILES(q5_k, BLOCK_Q5_K)
BATCH_TILES(q6_k, BLOCK_Q6_K)

#define MATMUL_SUPERS(name, type, tiles, at_least)                                                 \
    MATMUL_TILED(name##_few, type, tile, 2, NULL)                                                  \
    MATMUL_BATCHED(name, type, name##_few, unpack_half, tiles, at_least)
MATMUL_SUPERS(matmul_q4_k_avx2, BLOCK_Q4_K, q4_k_tiles, 20)
MATMUL_SUPERS(matmul_q5_k_avx2, BLOCK_Q5_K, q5_k_tiles, 5)
MATMUL_SUPERS(matmul_q6_k_avx2, BLOCK_Q6_K, q6_k_tiles, 5)
MATMUL_TILED(matmul_q2_k_avx2, BLOCK_Q2_K, tile, 2, NULL)
MATMUL_TILED(matmul_iq3_s_avx2, BLOCK_IQ3_S, tile, 2, NULL)
MATMUL_TILED(matmul_iq4_xs_avx2, BLOCK_IQ4_XS, tile, 2, NULL)

void matmul_init_supers_avx2(kernel_table *table)
{
    table->matmul[BLOCK_Q4_K] = matmul_q4_k_avx2;
    table->matmul[BLOCK_Q5_K] = matmul_q5_k_avx2;
    table->matmul[BLOCK_Q6_K] = matmul_q6_k_avx2;
    table->matmul[BLOCK_Q2_K] = matmul_q2_k_avx2;
    table->matmul[BLOCK_IQ3_S] = matmul_iq3_s_avx2;
    table->matmul[BLOCK_IQ4_XS] = matmul_iq4_xs_avx2;
}
