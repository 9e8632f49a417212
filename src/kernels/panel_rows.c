/* panel_rows.c - a row of a panel as the values that the file has.
 *
 * For embeddings, and for tests of what repacking keeps. */
#include "kernels/panels.h"

/* The expressions are those of block_decode(), so the bits are as well. */
PANEL_INLINE void row_of_groups(block_type type, float *out, const uint8_t *panel, uint32_t row,
                                uint32_t n_cols)
{
    const uint32_t n_scales = panel_block_scales(type), n = panel_small(type);
    const float factor = panel_factor(type, panel, row);
    panel += panel_lead_bytes(type);
    for (uint32_t g = 0; g < kernel_n_groups(n_cols); g++) {
        const uint32_t n_blocks = panel_group_blocks(n_cols, g);
        const uint8_t *quants = panel + panel_group_head(type, n_blocks);
        for (uint32_t b = 0; b < n_blocks; b++, quants += panel_quant_bytes(type)) {
            const float m = panel_has_min(type) ? panel_block_min(type, panel, b, row) : 0.0f;
            for (uint32_t s = 0; s < n_scales; s++) {
                const float d = panel_block_scale(type, panel, b * n_scales + s, row);
                for (uint32_t k = s * n; k < (s + 1) * n; k++) {
                    float v = (float)panel_quant(type, quants, row, k) * d;
                    if (panel_lead_bytes(type)) v *= factor;
                    *out++ = panel_has_min(type) ? v + m : v;
                }
            }
        }
        panel += panel_group_bytes(type, n_blocks);
    }
}

PANEL_INLINE void row_of_wide(block_type type, float *out, const uint8_t *panel, uint32_t row,
                              uint32_t n_cols)
{
    const uint8_t *quants = panel + panel_wide_head(n_cols);
    for (uint32_t k = 0; k < n_cols; k++) {
        const uint8_t *block = quants + k / PANEL_BLOCK * panel_quant_bytes(type);
        out[k] = panel_scale(panel, k / KERNEL_GROUP, row) *
                 (float)panel_quant(type, block, row, k % PANEL_BLOCK);
    }
}

PANEL_INLINE void row_of_supers(block_type type, float *out, const uint8_t *panel, uint32_t row,
                                uint32_t n_cols)
{
    const uint32_t n_values = panel_small(type);
    for (; n_cols > 0; n_cols -= PANEL_SUPER, panel += panel_super_bytes(type)) {
        const uint8_t *quants = panel + panel_head_bytes(type);
        const float d = panel_super_d(type, panel, row), dmin = panel_scale(panel, 1, row);
        for (uint32_t s = 0; s < PANEL_SUPER / n_values; s++) {
            const float scale = d * (float)panel_super_scale(type, panel, s, row);
            const float m = panel_has_min(type) ? dmin * (float)panel_super_min(type, panel, s, row)
                                                : 0.0f;
            for (uint32_t i = 0; i < n_values; i++) {
                const uint32_t k = s * n_values + i;
                const uint8_t *block = quants + k / PANEL_BLOCK * panel_quant_bytes(type);
                float v = scale * (float)panel_super_quant(type, panel, block, row,
                                                           k % PANEL_BLOCK);
                *out++ = panel_has_min(type) ? v - m : v;
            }
        }
    }
}

static void row_of_floats(block_type type, float *out, const uint8_t *panel, uint32_t row,
                          uint32_t n_cols)
{
    const size_t size = type == BLOCK_F32 ? 4 : 2;
    for (uint32_t k = 0; k < n_cols; k++) {
        const uint8_t *at = panel + ((size_t)k * KERNEL_PANEL_ROWS + row) * size;
        uint16_t h;
        memcpy(&h, at, sizeof h);
        if (type == BLOCK_F32)
            memcpy(out + k, at, sizeof *out);
        else
            out[k] = type == BLOCK_F16 ? f16_to_f32(h) : bf16_to_f32(h);
    }
}

void kernel_panel_row(block_type type, float *restrict out, const void *restrict panel,
                      uint32_t row, uint32_t n_cols)
{
    CHECK(row < KERNEL_PANEL_ROWS);
    switch (type) {
    case BLOCK_I64: break; /* no panels */
    case BLOCK_F32:
    case BLOCK_F16:
    case BLOCK_BF16: row_of_floats(type, out, panel, row, n_cols); break;
    case BLOCK_Q1_0: row_of_groups(BLOCK_Q1_0, out, panel, row, n_cols); break;
    case BLOCK_Q2_0: row_of_groups(BLOCK_Q2_0, out, panel, row, n_cols); break;
    case BLOCK_Q4_0: row_of_groups(BLOCK_Q4_0, out, panel, row, n_cols); break;
    case BLOCK_Q4_1: row_of_groups(BLOCK_Q4_1, out, panel, row, n_cols); break;
    case BLOCK_Q5_0: row_of_groups(BLOCK_Q5_0, out, panel, row, n_cols); break;
    case BLOCK_Q5_1: row_of_groups(BLOCK_Q5_1, out, panel, row, n_cols); break;
    case BLOCK_Q8_0: row_of_groups(BLOCK_Q8_0, out, panel, row, n_cols); break;
    case BLOCK_IQ4_NL: row_of_groups(BLOCK_IQ4_NL, out, panel, row, n_cols); break;
    case BLOCK_MXFP4: row_of_groups(BLOCK_MXFP4, out, panel, row, n_cols); break;
    case BLOCK_NVFP4: row_of_groups(BLOCK_NVFP4, out, panel, row, n_cols); break;
    case BLOCK_TQ1_0:
    case BLOCK_TQ2_0:
    case BLOCK_PQ2_0:
    case BLOCK_PTQ1_0: row_of_wide(BLOCK_PQ2_0, out, panel, row, n_cols); break;
    case BLOCK_Q4_W: row_of_wide(BLOCK_Q4_W, out, panel, row, n_cols); break;
    case BLOCK_Q8_W: row_of_wide(BLOCK_Q8_W, out, panel, row, n_cols); break;
    case BLOCK_IQ2_XXS:
    case BLOCK_IQ2_XS:
    case BLOCK_IQ2_S:
    case BLOCK_IQ3_XXS:
    case BLOCK_IQ1_S:
    case BLOCK_IQ1_M:
    case BLOCK_IQ3_S:
    case BLOCK_Q3_K: row_of_supers(BLOCK_IQ3_S, out, panel, row, n_cols); break;
    case BLOCK_Q2_K: row_of_supers(BLOCK_Q2_K, out, panel, row, n_cols); break;
    case BLOCK_Q4_K: row_of_supers(BLOCK_Q4_K, out, panel, row, n_cols); break;
    case BLOCK_Q5_K: row_of_supers(BLOCK_Q5_K, out, panel, row, n_cols); break;
    case BLOCK_Q6_K: row_of_supers(BLOCK_Q6_K, out, panel, row, n_cols); break;
    case BLOCK_IQ4_XS: row_of_supers(BLOCK_IQ4_XS, out, panel, row, n_cols); break;
    }
}
