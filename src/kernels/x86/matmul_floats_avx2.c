/* matmul_floats_avx2.c - F32, F16 and BF16 weights, and the quantization of activations.
 *
 * A row of a float matrix is one chain of fma over k, which waits four cycles for each step;
 * eight chains of eight rows keep both multipliers busy: several panels when there are few
 * tokens, several tokens when there are more. */
#include "kernels/x86/matmul_avx2.h"

#include "kernels/matmul.h"

PANEL_INLINE __m256 load_weights(block_type type, const uint8_t *panel, size_t k, uint32_t h)
{
    if (type == BLOCK_F32)
        return _mm256_load_ps((const float *)(const void *)(panel + 64 * k) + 8 * h);
    const uint8_t *p = panel + 32 * k + 16 * h;
    if (type == BLOCK_F16) return load_halves(p);
    const __m128i v = _mm_load_si128((const __m128i *)(const void *)p);
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(v), 16));
}

/* n_p panels against n_t tokens. */
PANEL_INLINE void tile(block_type type, uint32_t n_p, uint32_t n_t, float *y, size_t y_stride,
                       const uint8_t *panels, size_t panel_bytes, const float *x, uint32_t n_cols)
{
    __m256 acc[TILE][TILE][2];
    UNROLLED for (uint32_t p = 0; p < n_p; p++)
        UNROLLED for (uint32_t t = 0; t < n_t; t++)
            UNROLLED for (uint32_t h = 0; h < 2; h++) acc[p][t][h] = _mm256_setzero_ps();
    for (size_t k = 0; k < n_cols; k++) {
        UNROLLED for (uint32_t p = 0; p < n_p; p++) {
            UNROLLED for (uint32_t h = 0; h < 2; h++) {
                const __m256 w = load_weights(type, panels + p * panel_bytes, k, h);
                UNROLLED for (uint32_t t = 0; t < n_t; t++)
                    acc[p][t][h] = _mm256_fmadd_ps(w, _mm256_set1_ps(x[t * (size_t)n_cols + k]),
                                                   acc[p][t][h]);
            }
        }
    }
    UNROLLED for (uint32_t p = 0; p < n_p; p++)
        UNROLLED for (uint32_t t = 0; t < n_t; t++)
            UNROLLED for (uint32_t h = 0; h < 2; h++)
                _mm256_storeu_ps(y + t * y_stride + p * KERNEL_PANEL_ROWS + 8 * h, acc[p][t][h]);
}

PANEL_INLINE void panels_by_tokens(block_type type, uint32_t n_p, uint32_t n_t, float *y,
                                   size_t y_stride, const uint8_t *panels, const float *x,
                                   uint32_t n_panels, uint32_t n_cols)
{
    const size_t panel_bytes = kernel_panel_bytes(type, n_cols);
    uint32_t p = 0;
    for (; p + n_p <= n_panels; p += n_p)
        tile(type, n_p, n_t, y + p * KERNEL_PANEL_ROWS, y_stride, panels + p * panel_bytes,
             panel_bytes, x, n_cols);
    for (; p < n_panels; p++)
        tile(type, 1, n_t, y + p * KERNEL_PANEL_ROWS, y_stride, panels + p * panel_bytes,
             panel_bytes, x, n_cols);
}

PANEL_INLINE void matmul_floats(block_type type, float *y, size_t y_stride, const uint8_t *panels,
                                const float *x, uint32_t n_panels, uint32_t n_cols,
                                uint32_t n_tokens)
{
    const size_t panel_bytes = kernel_panel_bytes(type, n_cols);
    uint32_t t = 0;
    for (uint32_t p = 0; p < n_panels && n_tokens >= TILE; p++)
        for (t = 0; t + TILE <= n_tokens; t += TILE)
            tile(type, 1, TILE, y + t * y_stride + p * KERNEL_PANEL_ROWS, y_stride,
                 panels + p * panel_bytes, panel_bytes, x + (size_t)t * n_cols, n_cols);
    for (; t + 2 <= n_tokens; t += 2)
        panels_by_tokens(type, 2, 2, y + t * y_stride, y_stride, panels, x + (size_t)t * n_cols,
                         n_panels, n_cols);
    if (t < n_tokens)
        panels_by_tokens(type, 4, 1, y + t * y_stride, y_stride, panels, x + (size_t)t * n_cols,
                         n_panels, n_cols);
}

#define MATMUL_FLOATS(name, type)                                                                  \
    static void name(float *restrict y, size_t y_stride, const void *restrict panels,              \
                     const void *restrict x, uint32_t n_panels, uint32_t n_cols,                   \
                     uint32_t n_tokens)                                                            \
    {                                                                                              \
        matmul_floats(type, y, y_stride, panels, x, n_panels, n_cols, n_tokens);                   \
    }
MATMUL_FLOATS(matmul_f32_avx2, BLOCK_F32)
MATMUL_FLOATS(matmul_f16_avx2, BLOCK_F16)
MATMUL_FLOATS(matmul_bf16_avx2, BLOCK_BF16)

/* ---- activations ---- */

/* The largest magnitude of n values, n a multiple of 32; NaN counts as nothing, as in C. */
static inline float largest_magnitude(const float *x, uint32_t n)
{
    const __m256 sign = _mm256_set1_ps(-0.0f);
    __m256 m[4] = {_mm256_setzero_ps(), _mm256_setzero_ps(), _mm256_setzero_ps(),
                   _mm256_setzero_ps()};
    for (uint32_t i = 0; i < n; i += 32)
        UNROLLED for (uint32_t j = 0; j < 4; j++)
            m[j] = _mm256_max_ps(_mm256_andnot_ps(sign, _mm256_loadu_ps(x + i + 8 * j)), m[j]);
    m[0] = _mm256_max_ps(_mm256_max_ps(m[0], m[1]), _mm256_max_ps(m[2], m[3]));
    __m128 v = _mm_max_ps(_mm256_castps256_ps128(m[0]), _mm256_extractf128_ps(m[0], 1));
    v = _mm_max_ps(v, _mm_movehl_ps(v, v));
    v = _mm_max_ss(v, _mm_movehdup_ps(v));
    return _mm_cvtss_f32(v);
}

/* 32 values to bytes and their sums. */
static inline void quantize_block(kernel_act *out, uint32_t b, const float *x, __m256 inverse)
{
    const __m256 round = _mm256_set1_ps(0x1.8p23f); /* as in quantize_ref */
    __m256i q[4];
    UNROLLED for (uint32_t j = 0; j < 4; j++) {
        const __m256 v = _mm256_mul_ps(_mm256_loadu_ps(x + 8 * j), inverse);
        const __m256i bits = _mm256_castps_si256(_mm256_add_ps(v, round));
        q[j] = _mm256_srai_epi32(_mm256_slli_epi32(bits, 24), 24);
    }
    /* Packing works in 128-bit halves: put the dwords back in order. */
    const __m256i packed = _mm256_packs_epi16(_mm256_packs_epi32(q[0], q[1]),
                                              _mm256_packs_epi32(q[2], q[3]));
    const __m256i bytes_in_order =
        _mm256_permutevar8x32_epi32(packed, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
    _mm256_storeu_si256((__m256i *)(void *)(out->q + 32 * b), bytes_in_order);
    /* Sums of eight, each value 128 too large. */
    const __m256i raised = _mm256_xor_si256(bytes_in_order, _mm256_set1_epi8((char)0x80));
    uint64_t sums[4];
    _mm256_storeu_si256((__m256i *)(void *)sums, _mm256_sad_epu8(raised, _mm256_setzero_si256()));
    const int32_t first = (int32_t)(sums[0] + sums[1]) - 16 * 128;
    const int32_t second = (int32_t)(sums[2] + sums[3]) - 16 * 128;
    out->sum16[2 * b] = (int16_t)first;
    out->sum16[2 * b + 1] = (int16_t)second;
    out->sum32[b] = (int16_t)(first + second);
}

/* n_blocks blocks of a group, from `first` on, that share n_scales scales. */
static inline void quantize_run(kernel_act *out, const float *x, uint32_t first, uint32_t n_blocks,
                                uint32_t n_scales)
{
    const float magnitude = largest_magnitude(x + PANEL_BLOCK * first, PANEL_BLOCK * n_blocks);
    if (magnitude < KERNEL_ACT_TINY) return;
    const __m256 inverse = _mm256_set1_ps(127.0f / magnitude);
    const float scale = magnitude / 127.0f;
    for (uint32_t b = first; b < first + n_blocks; b++)
        quantize_block(out, b, x + PANEL_BLOCK * b, inverse);
    for (uint32_t b = first; b < first + n_scales; b++) out->scale[b] = scale;
}

static void quantize_32_avx2(kernel_act *restrict out, const float *restrict x, uint32_t n)
{
    for (uint32_t g = 0; g < kernel_n_groups(n); g++, x += KERNEL_GROUP, out++) {
        memset(out, 0, sizeof *out);
        for (uint32_t b = 0; b < panel_group_blocks(n, g); b++) quantize_run(out, x, b, 1, 1);
    }
}

static void quantize_128_avx2(kernel_act *restrict out, const float *restrict x, uint32_t n)
{
    for (uint32_t g = 0; g < kernel_n_groups(n); g++, x += KERNEL_GROUP, out++) {
        memset(out, 0, sizeof *out);
        quantize_run(out, x, 0, panel_group_blocks(n, g), PANEL_BLOCKS);
    }
}

static void matmul_init_floats_avx2(kernel_table *table)
{
    table->matmul[BLOCK_F32] = matmul_f32_avx2;
    table->matmul[BLOCK_F16] = matmul_f16_avx2;
    table->matmul[BLOCK_BF16] = matmul_bf16_avx2;
    table->quantize[KERNEL_ACTS_32] = quantize_32_avx2;
    table->quantize[KERNEL_ACTS_128] = quantize_128_avx2;
}

void matmul_init_avx2(kernel_table *table)
{
    matmul_init_floats_avx2(table);
    matmul_init_groups_avx2(table);
    matmul_init_supers_avx2(table);
}
