/* matmul_ref.c - the definition of every matmul, and of the quantization of activations.
 *
 * Faster variants return the same bits: they may only regroup exact integer sums.  The order of
 * the float operations below is the contract (docs/numerics.md). */
#include "kernels/matmul.h"

#include <math.h>

#include "kernels/panels.h"

/* acc + one row of a group with a scale for each block of 32, or for each half of one.  Exact:
 * |dot| <= 32 * 128 * 127 < 2^20, so its conversion to float is exact as well. */
PANEL_INLINE float group_dot(block_type type, float acc, const uint8_t *group, uint32_t n_blocks,
                             uint32_t row, const kernel_act *x)
{
    const uint8_t *block = group + panel_group_head(type, n_blocks);
    const uint32_t n_scales = panel_block_scales(type), n = panel_small(type);
    for (uint32_t b = 0; b < n_blocks; b++, block += panel_quant_bytes(type)) {
        for (uint32_t s = 0; s < n_scales; s++) {
            int32_t dot = 0;
            for (uint32_t k = s * n; k < (s + 1) * n; k++)
                dot += panel_quant(type, block, row, k) * x->q[b * PANEL_BLOCK + k];
            acc = fmaf((float)dot * x->scale[b],
                       panel_block_scale(type, group, b * n_scales + s, row), acc);
        }
        if (panel_has_min(type))
            acc = fmaf((float)x->sum32[b] * x->scale[b], panel_block_min(type, group, b, row), acc);
    }
    return acc;
}

/* One row of one half of a superblock.  Exact: |dot| <= 128 * 128 * 127 * 128 < 2^28; beyond 2^24
 * its conversion to float rounds to nearest even, once. */
PANEL_INLINE float super_dot(block_type type, const uint8_t *super, uint32_t half, uint32_t row,
                             const kernel_act *x)
{
    const uint32_t n_values = panel_small(type);
    const int16_t *sums = n_values == 16 ? x->sum16 : x->sum32;
    const uint8_t *block = super + panel_head_bytes(type) +
                           half * PANEL_BLOCKS * panel_quant_bytes(type);
    int32_t dot = 0, min = 0;
    for (uint32_t s = 0; s < KERNEL_GROUP / n_values; s++) {
        int32_t part = 0;
        for (uint32_t i = 0; i < n_values; i++) {
            uint32_t k = s * n_values + i;
            part += panel_super_quant(type, super,
                                      block + k / PANEL_BLOCK * panel_quant_bytes(type), row,
                                      k % PANEL_BLOCK) * x->q[k];
        }
        uint32_t at = half * (KERNEL_GROUP / n_values) + s;
        dot += panel_super_scale(type, super, at, row) * part;
        if (panel_has_min(type)) min += panel_super_min(type, super, at, row) * sums[s];
    }
    float sum = panel_super_d(type, super, row) * (float)dot;
    if (panel_has_min(type)) sum = fmaf(-panel_scale(super, 1, row), (float)min, sum);
    return sum;
}

/* One row of a group with one scale.  Exact: |dot| <= 128 * 128 * 127 < 2^21. */
PANEL_INLINE float wide_dot(block_type type, const uint8_t *panel, uint32_t g, uint32_t row,
                            const kernel_act *x, uint32_t n_cols)
{
    const uint8_t *block = panel + panel_wide_head(n_cols) +
                           (size_t)g * PANEL_BLOCKS * panel_quant_bytes(type);
    int32_t dot = 0;
    for (uint32_t k = 0; k < KERNEL_GROUP; k++)
        dot += panel_quant(type, block + k / PANEL_BLOCK * panel_quant_bytes(type), row,
                           k % PANEL_BLOCK) * x->q[k];
    return panel_scale(panel, g, row) * (float)dot;
}

PANEL_INLINE float row_dot(block_type type, const uint8_t *panel, uint32_t row,
                           const kernel_act *x, uint32_t n_cols)
{
    const uint32_t n_groups = kernel_n_groups(n_cols);
    float acc = 0.0f;
    for (uint32_t g = 0; g < n_groups; g++) {
        if (panel_is_super(type)) {
            const uint8_t *super = panel + (size_t)(g / 2) * panel_super_bytes(type);
            acc = fmaf(super_dot(type, super, g % 2, row, x + g), x[g].scale[0], acc);
        } else if (panel_is_wide(type)) {
            acc = fmaf(wide_dot(type, panel, g, row, x + g, n_cols), x[g].scale[0], acc);
        } else {
            const uint8_t *groups = panel + panel_lead_bytes(type);
            acc = group_dot(type, acc, groups + (size_t)g * panel_group_bytes(type, PANEL_BLOCKS),
                            panel_group_blocks(n_cols, g), row, x + g);
        }
    }
    return panel_lead_bytes(type) ? acc * panel_factor(type, panel, row) : acc;
}

PANEL_INLINE void matmul_ref(block_type type, float *y, size_t y_stride, const uint8_t *panels,
                             const kernel_act *x, uint32_t n_panels, uint32_t n_cols,
                             uint32_t n_tokens)
{
    const size_t panel_bytes = kernel_panel_bytes(type, n_cols);
    for (uint32_t t = 0; t < n_tokens; t++, y += y_stride, x += kernel_n_groups(n_cols))
        for (uint32_t r = 0; r < n_panels * KERNEL_PANEL_ROWS; r++)
            y[r] = row_dot(type, panels + r / KERNEL_PANEL_ROWS * panel_bytes,
                           r % KERNEL_PANEL_ROWS, x, n_cols);
}

PANEL_INLINE float float_weight(block_type type, const uint8_t *panel, size_t at)
{
    if (type == BLOCK_F32) return ((const float *)(const void *)panel)[at];
    uint16_t h = ((const uint16_t *)(const void *)panel)[at];
    return type == BLOCK_F16 ? f16_to_f32(h) : bf16_to_f32(h);
}

/* Float weights: one chain of fma over k for each row. */
PANEL_INLINE void matmul_float_ref(block_type type, float *y, size_t y_stride,
                                   const uint8_t *panels, const float *x, uint32_t n_panels,
                                   uint32_t n_cols, uint32_t n_tokens)
{
    const size_t panel_bytes = kernel_panel_bytes(type, n_cols);
    for (uint32_t t = 0; t < n_tokens; t++, y += y_stride, x += n_cols) {
        for (uint32_t r = 0; r < n_panels * KERNEL_PANEL_ROWS; r++) {
            const uint8_t *panel = panels + r / KERNEL_PANEL_ROWS * panel_bytes;
            float acc = 0.0f;
            for (uint32_t k = 0; k < n_cols; k++) {
                size_t at = (size_t)k * KERNEL_PANEL_ROWS + r % KERNEL_PANEL_ROWS;
                acc = fmaf(float_weight(type, panel, at), x[k], acc);
            }
            y[r] = acc;
        }
    }
}

#define MATMUL_REF(name, type, template)                                                           \
    static void name(float *restrict y, size_t y_stride, const void *restrict panels,              \
                     const void *restrict x, uint32_t n_panels, uint32_t n_cols,                   \
                     uint32_t n_tokens)                                                            \
    {                                                                                              \
        template(type, y, y_stride, panels, x, n_panels, n_cols, n_tokens);                        \
    }
MATMUL_REF(matmul_f32_ref, BLOCK_F32, matmul_float_ref)
MATMUL_REF(matmul_f16_ref, BLOCK_F16, matmul_float_ref)
MATMUL_REF(matmul_bf16_ref, BLOCK_BF16, matmul_float_ref)
MATMUL_REF(matmul_q1_0_ref, BLOCK_Q1_0, matmul_ref)
MATMUL_REF(matmul_q2_0_ref, BLOCK_Q2_0, matmul_ref)
MATMUL_REF(matmul_q4_0_ref, BLOCK_Q4_0, matmul_ref)
MATMUL_REF(matmul_q4_1_ref, BLOCK_Q4_1, matmul_ref)
MATMUL_REF(matmul_q5_0_ref, BLOCK_Q5_0, matmul_ref)
MATMUL_REF(matmul_q5_1_ref, BLOCK_Q5_1, matmul_ref)
MATMUL_REF(matmul_q8_0_ref, BLOCK_Q8_0, matmul_ref)
MATMUL_REF(matmul_q2_k_ref, BLOCK_Q2_K, matmul_ref)
MATMUL_REF(matmul_q4_k_ref, BLOCK_Q4_K, matmul_ref)
MATMUL_REF(matmul_q5_k_ref, BLOCK_Q5_K, matmul_ref)
MATMUL_REF(matmul_q6_k_ref, BLOCK_Q6_K, matmul_ref)
MATMUL_REF(matmul_iq3_s_ref, BLOCK_IQ3_S, matmul_ref)
MATMUL_REF(matmul_iq4_nl_ref, BLOCK_IQ4_NL, matmul_ref)
MATMUL_REF(matmul_iq4_xs_ref, BLOCK_IQ4_XS, matmul_ref)
MATMUL_REF(matmul_mxfp4_ref, BLOCK_MXFP4, matmul_ref)
MATMUL_REF(matmul_nvfp4_ref, BLOCK_NVFP4, matmul_ref)
MATMUL_REF(matmul_q4_w_ref, BLOCK_Q4_W, matmul_ref)
MATMUL_REF(matmul_pq2_0_ref, BLOCK_PQ2_0, matmul_ref)
MATMUL_REF(matmul_q8_w_ref, BLOCK_Q8_W, matmul_ref)

/* n values of a group, from `first` on, that share a scale: of a block, or all there are. */
static void quantize_run(kernel_act *out, const float *x, uint32_t first, uint32_t n,
                         uint32_t n_scales)
{
    float magnitude = 0.0f;
    for (uint32_t i = first; i < first + n; i++) {
        float a = fabsf(x[i]);
        magnitude = a > magnitude ? a : magnitude;
    }
    if (magnitude < KERNEL_ACT_TINY) return;
    for (uint32_t b = 0; b < n_scales; b++)
        out->scale[first / KERNEL_BLOCK + b] = magnitude / 127.0f;
    const float inverse = 127.0f / magnitude;
    for (uint32_t i = first; i < first + n; i++) {
        /* Adding 1.5 * 2^23 rounds to an integer, ties to even, and leaves it in the low bits:
         * |x * inverse| <= 127 (1 + 2^-22), so that integer is within [-127, 127]. */
        float shifted = x[i] * inverse + 0x1.8p23f;
        uint32_t bits;
        memcpy(&bits, &shifted, sizeof bits);
        out->q[i] = (int8_t)(uint8_t)bits;
        out->sum16[i / 16] = (int16_t)(out->sum16[i / 16] + out->q[i]);
        out->sum32[i / 32] = (int16_t)(out->sum32[i / 32] + out->q[i]);
    }
}

/* Values after n are zero. */
static void quantize_ref(kernel_act *restrict out, const float *restrict x, uint32_t n,
                         uint32_t share)
{
    for (uint32_t g = 0; g < kernel_n_groups(n); g++, x += KERNEL_GROUP) {
        const uint32_t left = n - g * KERNEL_GROUP, end = left < KERNEL_GROUP ? left : KERNEL_GROUP;
        memset(out + g, 0, sizeof *out);
        for (uint32_t i = 0; i < end; i += share)
            quantize_run(out + g, x, i, end - i < share ? end - i : share, share / KERNEL_BLOCK);
    }
}

static void quantize_32_ref(kernel_act *restrict out, const float *restrict x, uint32_t n)
{
    quantize_ref(out, x, n, KERNEL_BLOCK);
}

static void quantize_128_ref(kernel_act *restrict out, const float *restrict x, uint32_t n)
{
    quantize_ref(out, x, n, KERNEL_GROUP);
}

void matmul_init_ref(kernel_table *table)
{
    table->matmul[BLOCK_F32] = matmul_f32_ref;
    table->matmul[BLOCK_F16] = matmul_f16_ref;
    table->matmul[BLOCK_BF16] = matmul_bf16_ref;
    table->matmul[BLOCK_Q1_0] = matmul_q1_0_ref;
    table->matmul[BLOCK_Q2_0] = matmul_q2_0_ref;
    table->matmul[BLOCK_Q4_0] = matmul_q4_0_ref;
    table->matmul[BLOCK_Q4_1] = matmul_q4_1_ref;
    table->matmul[BLOCK_Q5_0] = matmul_q5_0_ref;
    table->matmul[BLOCK_Q5_1] = matmul_q5_1_ref;
    table->matmul[BLOCK_Q8_0] = matmul_q8_0_ref;
    table->matmul[BLOCK_Q2_K] = matmul_q2_k_ref;
    table->matmul[BLOCK_Q4_K] = matmul_q4_k_ref;
    table->matmul[BLOCK_Q5_K] = matmul_q5_k_ref;
    table->matmul[BLOCK_Q6_K] = matmul_q6_k_ref;
    table->matmul[BLOCK_IQ3_S] = matmul_iq3_s_ref;
    table->matmul[BLOCK_IQ4_NL] = matmul_iq4_nl_ref;
    table->matmul[BLOCK_IQ4_XS] = matmul_iq4_xs_ref;
    table->matmul[BLOCK_MXFP4] = matmul_mxfp4_ref;
    table->matmul[BLOCK_NVFP4] = matmul_nvfp4_ref;
    table->matmul[BLOCK_Q4_W] = matmul_q4_w_ref;
    table->matmul[BLOCK_PQ2_0] = matmul_pq2_0_ref;
    table->matmul[BLOCK_Q8_W] = matmul_q8_w_ref;
    table->quantize[KERNEL_ACTS_32] = quantize_32_ref;
    table->quantize[KERNEL_ACTS_128] = quantize_128_ref;
}
