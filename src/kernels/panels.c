/* panels.c - from the row-major blocks of a GGUF file to panels of 16 rows.
 *
 * Repacking is part of the time to load, so each block of a row is read once, in order, as 32-bit
 * words whose bytes or nibbles move together; plain C does this at several GB/s. */
#include "kernels/panels.h"

/* ---- sizes ---- */

static uint32_t float_bytes(block_type type) { return type == BLOCK_F32 ? 4 : 2; }

size_t kernel_panel_bytes(block_type type, uint32_t n_cols)
{
    const uint32_t values = block_values(type);
    type = kernel_panel_type(type);
    if (values == 0 || n_cols == 0 || n_cols % values != 0 || type == BLOCK_I64) return 0;
    if (!kernel_takes_acts(type))
        return size_round_up((size_t)n_cols * KERNEL_PANEL_ROWS * float_bytes(type), PANEL_LINE);
    if (panel_is_super(type))
        return (size_t)(n_cols / PANEL_SUPER) * panel_super_bytes(type);
    if (panel_is_wide(type))
        return panel_wide_head(n_cols) + (size_t)(n_cols / PANEL_BLOCK) * panel_quant_bytes(type);
    const uint32_t n_full = n_cols / KERNEL_GROUP;
    const uint32_t n_left = n_cols % KERNEL_GROUP / PANEL_BLOCK;
    return size_round_up(panel_lead_bytes(type) +
                             (size_t)n_full * panel_group_bytes(type, PANEL_BLOCKS) +
                             panel_group_bytes(type, n_left),
                         PANEL_LINE);
}

bool kernel_panel_has_factor(block_type type) { return panel_lead_bytes(type) != 0; }

void kernel_panel_set_factor(block_type type, void *panel, float factor)
{
    CHECK(kernel_panel_has_factor(type));
    for (uint32_t r = 0; r < KERNEL_PANEL_ROWS; r++)
        memcpy((uint8_t *)panel + sizeof factor * r, &factor, sizeof factor);
}

/* ---- words of four quants ---- */

static inline uint32_t load32(const uint8_t *p)
{
    uint32_t v;
    memcpy(&v, p, sizeof v);
    return v;
}
static inline void store32(uint8_t *p, uint32_t v) { memcpy(p, &v, sizeof v); }

/* Four bytes' low nibbles of two words as the low and high nibbles of one, and their high ones. */
static inline uint32_t low_nibbles(uint32_t a, uint32_t b)
{
    return (a & 0x0f0f0f0f) | (b & 0x0f0f0f0f) << 4;
}
static inline uint32_t high_nibbles(uint32_t a, uint32_t b)
{
    return (a >> 4 & 0x0f0f0f0f) | (b & 0xf0f0f0f0);
}

/* Move a row's 16 bytes of nibbles to their place: the file's pairing, k and k + 16, is ours. */
static inline void put_nibbles(uint8_t *quants, uint32_t row, const uint8_t *q)
{
    for (uint32_t j = 0; j < 4; j++) store32(quants + PANEL_LINE * j + 4 * row, load32(q + 4 * j));
}

/* Bit 4 j + i of h becomes bit j of byte i.  Two of the four i at a time, in the halves of a
 * 64-bit word: keep every fourth bit, then close the gaps of 3, 6 and 12 zeros. */
static inline uint32_t gather_fifth_bits(uint32_t h)
{
    uint32_t out = 0;
    for (uint32_t i = 0; i < 4; i += 2) {
        uint64_t v = (h >> i & 0x11111111) | (uint64_t)(h >> (i + 1) & 0x11111111) << 32;
        v = (v | v >> 3) & 0x0303030303030303;
        v = (v | v >> 6) & 0x000f000f000f000f;
        v = (v | v >> 12) & 0x000000ff000000ff;
        out |= (uint32_t)(v | v >> 24) << 8 * i;
    }
    return out;
}

/* ---- types with a scale for 32 values ---- */

/* One block of one row.  head: of this block; quants: of this block. */
PANEL_INLINE void put_block(block_type type, uint8_t *head, uint8_t *quants, uint32_t row,
                            const uint8_t *from)
{
    if (type == BLOCK_MXFP4) {
        head[row] = from[0];
        put_nibbles(quants, row, from + 1);
        return;
    }
    memcpy(head + 2 * row, from, 2);
    from += 2;
    if (type == BLOCK_Q4_1 || type == BLOCK_Q5_1) {
        memcpy(head + 32 + 2 * row, from, 2);
        from += 2;
    }
    if (type == BLOCK_Q5_0 || type == BLOCK_Q5_1) {
        store32(quants + PANEL_NIBBLES + 4 * row, gather_fifth_bits(load32(from)));
        from += 4;
    }
    put_nibbles(quants, row, from);
    if (type == BLOCK_Q8_0) put_nibbles(quants + PANEL_NIBBLES, row, from + 16);
}

/* Two blocks of one row from one of NVFP4. */
static inline void put_nvfp4(uint8_t *head, uint8_t *quants, uint32_t row, const uint8_t *from)
{
    for (uint32_t s = 0; s < 4; s++)
        head[16 * s + row] = from[s] == 0x7f ? 0 : from[s] & 0x7f; /* ue4m3_half_to_f32() */
    from += 4;
    for (uint32_t b = 0; b < 2; b++, quants += PANEL_NIBBLES, from += 16)
        for (uint32_t j = 0; j < 2; j++) {
            /* Four columns from 4 j on, and those 8 after, of the first half and of the second. */
            const uint32_t first = load32(from + 4 * j), second = load32(from + 8 + 4 * j);
            store32(quants + PANEL_LINE * j + 4 * row, low_nibbles(first, second));
            store32(quants + PANEL_LINE * (j + 2) + 4 * row, high_nibbles(first, second));
        }
}

static void repack_nvfp4(uint8_t *panel, const uint8_t *rows, uint32_t n_rows, uint32_t n_cols)
{
    const size_t row_bytes = (size_t)(n_cols / block_values(BLOCK_NVFP4)) * sizeof(block_nvfp4);
    kernel_panel_set_factor(BLOCK_NVFP4, panel, 1.0f);
    panel += panel_lead_bytes(BLOCK_NVFP4);
    for (uint32_t g = 0; g < kernel_n_groups(n_cols); g++) {
        const uint32_t n_blocks = panel_group_blocks(n_cols, g); /* even: rows are of 64 */
        uint8_t *quants = panel + panel_group_head(BLOCK_NVFP4, n_blocks);
        for (uint32_t b = 0; b < n_blocks; b += 2, rows += sizeof(block_nvfp4))
            for (uint32_t r = 0; r < n_rows; r++)
                put_nvfp4(panel + b * panel_head_bytes(BLOCK_NVFP4), quants + b * PANEL_NIBBLES, r,
                          rows + r * row_bytes);
        panel += panel_group_bytes(BLOCK_NVFP4, n_blocks);
    }
}

PANEL_INLINE void repack_groups(block_type type, uint32_t bytes, uint8_t *panel,
                                const uint8_t *rows, uint32_t n_rows, uint32_t n_cols)
{
    const size_t row_bytes = (size_t)(n_cols / PANEL_BLOCK) * bytes;
    for (uint32_t g = 0; g < kernel_n_groups(n_cols); g++) {
        const uint32_t n_blocks = panel_group_blocks(n_cols, g);
        uint8_t *quants = panel + panel_group_head(type, n_blocks);
        const uint32_t head_bytes = n_blocks * panel_head_bytes(type);
        memset(panel + head_bytes, 0, panel_group_head(type, n_blocks) - head_bytes);
        for (uint32_t b = 0; b < n_blocks; b++, rows += bytes)
            for (uint32_t r = 0; r < n_rows; r++)
                put_block(type, panel + b * panel_head_bytes(type),
                          quants + b * panel_quant_bytes(type), r, rows + r * row_bytes);
        panel += panel_group_bytes(type, n_blocks);
    }
}

/* ---- types with a scale for 128 values ---- */

PANEL_INLINE void repack_wide(block_type type, uint32_t bytes, uint8_t *panel, const uint8_t *rows,
                              uint32_t n_rows, uint32_t n_cols)
{
    const uint32_t n_groups = kernel_n_groups(n_cols), step = panel_quant_bytes(type);
    uint8_t *quants = panel + panel_wide_head(n_cols);
    memset(panel + n_groups * 32, 0, panel_wide_head(n_cols) - n_groups * 32);
    for (uint32_t g = 0; g < n_groups; g++, rows += bytes, panel += 32) {
        for (uint32_t r = 0; r < n_rows; r++) {
            const uint8_t *from = rows + (size_t)r * n_groups * bytes;
            memcpy(panel + 2 * r, from, 2);
            from += 2;
            for (uint32_t half = 0; half < step / PANEL_NIBBLES * PANEL_BLOCKS; half++)
                put_nibbles(quants + half * PANEL_NIBBLES, r, from + 16 * half);
        }
        quants += PANEL_BLOCKS * step;
    }
}

/* ---- types with a scale for 256 values ---- */

/* The twelve bytes of Q4_K and Q5_K: 6-bit scales and minima 0..3 whole in bytes 0..7, their top
 * bits two bits of 4..7, whose low nibbles are in bytes 8..11. */
static inline void put_scales_k(uint8_t *head, uint32_t row, const uint8_t *packed)
{
    const uint32_t a = load32(packed), b = load32(packed + 4), c = load32(packed + 8);
    uint8_t scales[8], minima[8];
    store32(scales, a & 0x3f3f3f3f);
    store32(minima, b & 0x3f3f3f3f);
    store32(scales + 4, (c & 0x0f0f0f0f) | (a >> 2 & 0x30303030));
    store32(minima + 4, (c >> 4 & 0x0f0f0f0f) | (b >> 2 & 0x30303030));
    panel_put_scales(head, 8, row, scales);
    panel_put_scales(head + 128, 8, row, minima);
}

/* Exchange the bits of mask in *b with those of mask << shift in *a. */
static inline void swap_bits(uint32_t *a, uint32_t *b, uint32_t shift, uint32_t mask)
{
    const uint32_t t = (*a >> shift ^ *b) & mask;
    *b ^= t;
    *a ^= t << shift;
}

/* Four words of bytes of four 2-bit fields: field f of word j becomes field j of word f. */
static inline void transpose_fields(uint32_t *v)
{
    swap_bits(v, v + 2, 4, 0x0f0f0f0f);
    swap_bits(v + 1, v + 3, 4, 0x0f0f0f0f);
    swap_bits(v, v + 1, 2, 0x33333333);
    swap_bits(v + 2, v + 3, 2, 0x33333333);
}

/* Eight words of bytes: bit b of word j becomes bit j of word b. */
static inline void transpose_bits(uint32_t *v)
{
    for (uint32_t j = 0; j < 4; j++) swap_bits(v + j, v + j + 4, 4, 0x0f0f0f0f);
    for (uint32_t j = 0; j < 8; j += 4) {
        swap_bits(v + j, v + j + 2, 2, 0x33333333);
        swap_bits(v + j + 1, v + j + 3, 2, 0x33333333);
    }
    for (uint32_t j = 0; j < 8; j += 2) swap_bits(v + j, v + j + 1, 1, 0x55555555);
}

/* Two blocks from 32 bytes: the first takes the low nibbles, the second the high ones. */
static inline void put_nibble_pair(uint8_t *first, uint8_t *second, uint32_t row, const uint8_t *q)
{
    for (uint32_t j = 0; j < 4; j++) {
        const uint32_t a = load32(q + 4 * j), b = load32(q + 16 + 4 * j);
        store32(first + PANEL_LINE * j + 4 * row, low_nibbles(a, b));
        store32(second + PANEL_LINE * j + 4 * row, high_nibbles(a, b));
    }
}

/* Q4_K and Q5_K. */
PANEL_INLINE void put_super_k(block_type type, uint8_t *super, uint32_t row, const uint8_t *from)
{
    const uint32_t step = panel_quant_bytes(type);
    uint8_t *quants = super + panel_head_bytes(type);
    memcpy(super + 2 * row, from, 2);
    memcpy(super + 32 + 2 * row, from + 2, 2);
    put_scales_k(super + 64, row, from + 4);
    const uint8_t *high = from + 16, *q = from + (type == BLOCK_Q5_K ? 48 : 16);
    for (uint32_t b = 0; b < PANEL_SUPER_BLOCKS; b += 2)
        put_nibble_pair(quants + b * step, quants + (b + 1) * step, row, q + 16 * b);
    if (type != BLOCK_Q5_K) return;
    uint32_t planes[8]; /* bit b of byte 4 j + i to bit j of byte i of plane b */
    for (uint32_t j = 0; j < 8; j++) planes[j] = load32(high + 4 * j);
    transpose_bits(planes);
    for (uint32_t b = 0; b < PANEL_SUPER_BLOCKS; b++)
        store32(quants + b * step + PANEL_NIBBLES + 4 * row, planes[b]);
}

static inline void put_super_q6_k(uint8_t *super, uint32_t row, const uint8_t *from)
{
    const uint32_t step = panel_quant_bytes(BLOCK_Q6_K);
    uint8_t *quants = super + panel_head_bytes(BLOCK_Q6_K);
    memcpy(super + 2 * row, from + 208, 2);
    panel_put_scales(super + 64, 16, row, from + 192);
    for (uint32_t half = 0; half < 2; half++, quants += 4 * step) {
        const uint8_t *low = from + 64 * half, *high = from + 128 + 32 * half;
        put_nibble_pair(quants, quants + 2 * step, row, low);
        put_nibble_pair(quants + step, quants + 3 * step, row, low + 32);
        for (uint32_t p = 0; p < 2; p++) {
            uint32_t planes[4]; /* field b of byte 16 p + 4 j + i to field j of byte i of block b */
            for (uint32_t j = 0; j < 4; j++) planes[j] = load32(high + 16 * p + 4 * j);
            transpose_fields(planes);
            for (uint32_t b = 0; b < 4; b++)
                store32(quants + b * step + PANEL_NIBBLES + PANEL_LINE * p + 4 * row, planes[b]);
        }
    }
}

static inline void put_super_iq4_xs(uint8_t *super, uint32_t row, const uint8_t *from)
{
    const uint32_t high = from[2] | (uint32_t)from[3] << 8;
    uint8_t scales[8];
    memcpy(super + 2 * row, from, 2);
    for (uint32_t s = 0; s < 8; s++) {
        uint32_t low = from[4 + s / 2] >> 4 * (s % 2) & 15;
        scales[s] = (uint8_t)((low | (high >> 2 * s & 3) << 4) - 32);
    }
    panel_put_scales(super + 64, 8, row, scales);
    uint8_t *quants = super + panel_head_bytes(BLOCK_IQ4_XS);
    for (uint32_t b = 0; b < PANEL_SUPER_BLOCKS; b++)
        put_nibbles(quants + b * PANEL_NIBBLES, row, from + 8 + 16 * b);
}

static inline void put_super_q2_k(uint8_t *super, uint32_t row, const uint8_t *from)
{
    const uint8_t *q = from + 16;
    uint8_t scales[16], minima[16], *quants = super + panel_head_bytes(BLOCK_Q2_K);
    for (uint32_t s = 0; s < 16; s++) scales[s] = from[s] & 15, minima[s] = from[s] >> 4;
    memcpy(super + 2 * row, from + 80, 2);
    memcpy(super + 32 + 2 * row, from + 82, 2);
    panel_put_scales(super + 64, 16, row, scales);
    panel_put_scales(super + 64 + 256, 16, row, minima);
    for (uint32_t half = 0; half < 2; half++, q += 32)
        for (uint32_t line = 0; line < 2; line++) {
            uint32_t v[4]; /* field b of byte 16 line + 4 j + i to field j of byte i of block b */
            for (uint32_t j = 0; j < 4; j++) v[j] = load32(q + 16 * line + 4 * j);
            transpose_fields(v);
            for (uint32_t b = 0; b < 4; b++)
                store32(quants + (4 * half + b) * panel_quant_bytes(BLOCK_Q2_K) +
                            PANEL_LINE * line + 4 * row,
                        v[b]);
        }
}

PANEL_INLINE void repack_supers(block_type type, uint32_t bytes, uint8_t *panel,
                                const uint8_t *rows, uint32_t n_rows, uint32_t n_cols)
{
    const uint32_t n_supers = n_cols / PANEL_SUPER;
    for (uint32_t s = 0; s < n_supers; s++, rows += bytes, panel += panel_super_bytes(type)) {
        if (!panel_has_min(type)) memset(panel + 32, 0, 32);
        for (uint32_t r = 0; r < n_rows; r++) {
            const uint8_t *from = rows + (size_t)r * n_supers * bytes;
            if (type == BLOCK_Q6_K)
                put_super_q6_k(panel, r, from);
            else if (type == BLOCK_Q2_K)
                put_super_q2_k(panel, r, from);
            else if (type == BLOCK_IQ4_XS)
                put_super_iq4_xs(panel, r, from);
            else
                put_super_k(type, panel, r, from);
        }
    }
}

/* ---- float types ---- */

typedef uint16_t lanes_16 __attribute__((vector_size(16)));
typedef uint32_t lanes_32 __attribute__((vector_size(16)));

/* out[k][8 rows] of in[8 rows][8 columns] of 16 bits: three perfect shuffles. */
static inline void transpose_8x8(uint8_t *out, size_t out_stride, const uint8_t *in,
                                 size_t in_stride)
{
    lanes_16 a[8], b[8];
    for (uint32_t r = 0; r < 8; r++) memcpy(a + r, in + r * in_stride, sizeof *a);
    for (uint32_t round = 0; round < 3; round++) {
        for (uint32_t i = 0; i < 4; i++) {
            b[2 * i] = __builtin_shufflevector(a[i], a[i + 4], 0, 8, 1, 9, 2, 10, 3, 11);
            b[2 * i + 1] = __builtin_shufflevector(a[i], a[i + 4], 4, 12, 5, 13, 6, 14, 7, 15);
        }
        memcpy(a, b, sizeof a);
    }
    for (uint32_t k = 0; k < 8; k++) memcpy(out + k * out_stride, a + k, sizeof *a);
}

/* out[k][4 rows] of in[4 rows][4 columns] of 32 bits: two. */
static inline void transpose_4x4(uint8_t *out, size_t out_stride, const uint8_t *in,
                                 size_t in_stride)
{
    lanes_32 a[4], b[4];
    for (uint32_t r = 0; r < 4; r++) memcpy(a + r, in + r * in_stride, sizeof *a);
    for (uint32_t round = 0; round < 2; round++) {
        for (uint32_t i = 0; i < 2; i++) {
            b[2 * i] = __builtin_shufflevector(a[i], a[i + 2], 0, 4, 1, 5);
            b[2 * i + 1] = __builtin_shufflevector(a[i], a[i + 2], 2, 6, 3, 7);
        }
        memcpy(a, b, sizeof a);
    }
    for (uint32_t k = 0; k < 4; k++) memcpy(out + k * out_stride, a + k, sizeof *a);
}

/* Tiles of 16 bytes of each row, then what is left; a panel that lacks rows is all left. */
PANEL_INLINE void repack_floats(uint32_t size, uint8_t *panel, const uint8_t *rows,
                                uint32_t n_rows, uint32_t n_cols)
{
    const size_t row_bytes = (size_t)n_cols * size, line = (size_t)KERNEL_PANEL_ROWS * size;
    const uint32_t step = 16 / size, n_tiled = n_rows == KERNEL_PANEL_ROWS ? n_cols / step : 0;
    memset(panel + n_cols * line, 0, size_round_up(n_cols * line, PANEL_LINE) - n_cols * line);
    for (uint32_t tile = 0; tile < n_tiled; tile++) {
        const uint8_t *from = rows + 16 * (size_t)tile;
        uint8_t *to = panel + tile * step * line;
        for (uint32_t r = 0; r < KERNEL_PANEL_ROWS; r += step) {
            if (size == 2)
                transpose_8x8(to + r * size, line, from + r * row_bytes, row_bytes);
            else
                transpose_4x4(to + r * size, line, from + r * row_bytes, row_bytes);
        }
    }
    for (uint32_t k = n_tiled * step; k < n_cols; k++)
        for (uint32_t r = 0; r < n_rows; r++)
            memcpy(panel + k * line + r * size, rows + r * row_bytes + (size_t)k * size, size);
}

void kernel_repack(block_type type, void *restrict panel, const void *restrict rows,
                   uint32_t n_rows, uint32_t n_cols)
{
    CHECK(n_rows <= KERNEL_PANEL_ROWS);
    const size_t panel_bytes = kernel_panel_bytes(type, n_cols);
    CHECK(panel_bytes != 0);
    if (n_rows < KERNEL_PANEL_ROWS || block_has_two_bits(type)) memset(panel, 0, panel_bytes);
    switch (type) {
    case BLOCK_I64: break; /* no panels */
    case BLOCK_F32: repack_floats(4, panel, rows, n_rows, n_cols); break;
    case BLOCK_F16:
    case BLOCK_BF16: repack_floats(2, panel, rows, n_rows, n_cols); break;
    case BLOCK_Q4_0: repack_groups(BLOCK_Q4_0, 18, panel, rows, n_rows, n_cols); break;
    case BLOCK_Q1_0:
    case BLOCK_Q2_0:
    case BLOCK_PQ2_0:
    case BLOCK_PTQ1_0:
    case BLOCK_TQ1_0:
    case BLOCK_TQ2_0: panels_of_two_bits(type, panel, rows, n_rows, n_cols); break;
    case BLOCK_Q4_1: repack_groups(BLOCK_Q4_1, 20, panel, rows, n_rows, n_cols); break;
    case BLOCK_Q5_0: repack_groups(BLOCK_Q5_0, 22, panel, rows, n_rows, n_cols); break;
    case BLOCK_Q5_1: repack_groups(BLOCK_Q5_1, 24, panel, rows, n_rows, n_cols); break;
    case BLOCK_Q8_0: repack_groups(BLOCK_Q8_0, 34, panel, rows, n_rows, n_cols); break;
    case BLOCK_IQ4_NL: repack_groups(BLOCK_IQ4_NL, 18, panel, rows, n_rows, n_cols); break;
    case BLOCK_MXFP4: repack_groups(BLOCK_MXFP4, 17, panel, rows, n_rows, n_cols); break;
    case BLOCK_NVFP4: repack_nvfp4(panel, rows, n_rows, n_cols); break;
    case BLOCK_Q4_W: repack_wide(BLOCK_Q4_W, 66, panel, rows, n_rows, n_cols); break;
    case BLOCK_Q8_W: repack_wide(BLOCK_Q8_W, 130, panel, rows, n_rows, n_cols); break;
    case BLOCK_IQ2_XXS:
    case BLOCK_IQ2_XS:
    case BLOCK_IQ2_S:
    case BLOCK_IQ3_XXS:
    case BLOCK_IQ1_S:
    case BLOCK_IQ1_M:
    case BLOCK_IQ3_S:
    case BLOCK_Q3_K: panels_of_levels(type, panel, rows, n_rows, n_cols); break;
    case BLOCK_Q2_K: repack_supers(BLOCK_Q2_K, 84, panel, rows, n_rows, n_cols); break;
    case BLOCK_Q4_K: repack_supers(BLOCK_Q4_K, 144, panel, rows, n_rows, n_cols); break;
    case BLOCK_Q5_K: repack_supers(BLOCK_Q5_K, 176, panel, rows, n_rows, n_cols); break;
    case BLOCK_Q6_K: repack_supers(BLOCK_Q6_K, 210, panel, rows, n_rows, n_cols); break;
    case BLOCK_IQ4_XS: repack_supers(BLOCK_IQ4_XS, 136, panel, rows, n_rows, n_cols); break;
    }
}
