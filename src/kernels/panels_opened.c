/* panels_opened.c - panels of types whose blocks are taken apart first, into a number for each
 * value: those with two bits or fewer, and those with levels. */
#include "kernels/panels.h"

/* A block of a row: bits, of which number 2 has one, or pairs of them. */
static inline void put_numbers(block_type to, uint8_t *quants, uint32_t row, const uint8_t *number)
{
    for (uint32_t i = 0; i < 4; i++, number++) {
        uint8_t *at = quants + 4 * row + i;
        if (to == BLOCK_Q1_0) {
            uint32_t bits = 0;
            for (uint32_t k4 = 0; k4 < 8; k4++) bits |= (uint32_t)(number[4 * k4] >> 1) << k4;
            *at = (uint8_t)bits;
            continue;
        }
        for (uint32_t line = 0; line < 2; line++) {
            const uint8_t *n = number + 16 * line;
            at[PANEL_LINE * line] = (uint8_t)(n[0] | n[4] << 2 | n[8] << 4 | n[12] << 6);
        }
    }
}

/* Types that block_open_two_bits() takes apart, into a panel of zeros. */
void panels_of_two_bits(block_type type, uint8_t *panel, const uint8_t *rows, uint32_t n_rows,
                        uint32_t n_cols)
{
    const uint32_t values = block_values(type), bytes = block_bytes(type);
    const block_type to = kernel_panel_type(type);
    for (uint32_t r = 0; r < n_rows; r++)
        for (uint32_t at = 0; at < n_cols; at += values, rows += bytes) {
            block_two_bits b;
            block_open_two_bits(type, &b, rows, 0);
            for (uint32_t k = at; k < at + values; k += PANEL_BLOCK) {
                const uint32_t g = k / KERNEL_GROUP, block = k / PANEL_BLOCK % PANEL_BLOCKS;
                const size_t group = g * (size_t)panel_group_bytes(to, PANEL_BLOCKS);
                const size_t head = panel_is_wide(to) ? g * (size_t)panel_head_bytes(to)
                                                      : group + panel_head_at(to, block);
                memcpy(panel + head + 2 * r, &b.d, 2);
                put_numbers(to, panel + panel_block_at(to, n_cols, k), r, b.number + k - at);
            }
        }
}

static inline void put_super_levels(uint8_t *super, uint32_t row, const block_numbers *b)
{
    uint8_t *quants = super + panel_head_bytes(BLOCK_IQ3_S);
    memcpy(super + 2 * row, &b->d, 2);
    panel_put_scales(super + 64, 16, row, (const uint8_t *)b->scale);
    for (uint32_t k = 0; k < PANEL_SUPER; k += PANEL_BLOCK) {
        uint8_t *to = quants + k / PANEL_BLOCK * panel_quant_bytes(BLOCK_IQ3_S);
        for (uint32_t i = 0; i < PANEL_BLOCK / 2; i++)
            to[PANEL_LINE * (i / 4) + 4 * row + i % 4] =
                (uint8_t)(b->number[k + i] | b->number[k + 16 + i] << 4);
    }
}

/* Types that block_open() takes apart. */
void panels_of_levels(block_type type, uint8_t *panel, const uint8_t *rows, uint32_t n_rows,
                      uint32_t n_cols)
{
    const uint32_t n_supers = n_cols / PANEL_SUPER, bytes = block_bytes(type);
    const block_levels *levels = block_levels_of(type);
    for (uint32_t s = 0; s < n_supers; s++, rows += bytes) {
        memset(panel + 32, 0, 32);
        memcpy(panel + 32, levels->value, sizeof levels->value);
        memcpy(panel + 48, &levels->factor, sizeof levels->factor);
        for (uint32_t r = 0; r < n_rows; r++) {
            block_numbers b;
            block_open(type, &b, rows + (size_t)r * n_supers * bytes, 0);
            put_super_levels(panel, r, &b);
        }
        panel += panel_super_bytes(BLOCK_IQ3_S);
    }
}
