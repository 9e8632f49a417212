/* panels.h - how weights lie in memory: 16 output rows interleaved, in the order of K.
 *
 * A panel holds exactly what the file says about its 16 rows: the same quants, the same scales,
 * regrouped so that one 64-byte load is [16 rows][4 neighbours in K], the operand of one
 * 8-bit dot-product instruction, and so that a panel is read front to back once.
 *
 * Float types: [n_cols][16] values as they are in the file.
 *
 * Types with a scale for 32 values: groups of 128 columns (the last one may be shorter), each
 *   head    for each block: f16 d[16]                            Q4_0 Q5_0 Q8_0 IQ4_NL
 *           for each block: f16 d[16], f16 m[16]                 Q4_1 Q5_1
 *           for each block: u8 e[16]                             MXFP4
 *           for each block: u8 e[2][16], of its halves           NVFP4, after f32 factor[16] of
 *                                                                 the panel
 *           for each two blocks: f16 d[16]                       Q2_0
 *           for the group: f16 d[16], not rounded up             Q1_0
 *           rounded up to 64 bytes with zeros
 *   blocks  for each block: quants (below)
 * Types with a scale for 256 values: superblocks of 256 columns, each
 *   head    f16 d[16], f16 dmin[16], u8 scales[4][16][2], u8 minima[4][16][2]   Q4_K Q5_K
 *           f16 d[16], 32 zeros, i8 scales[8][16][2]                            Q6_K
 *           f16 d[16], 32 zeros, i8 scales[4][16][2]                            IQ4_XS
 *           f16 d[16], dmin[16], u8 scales[8][16][2], u8 minima[8][16][2]       Q2_K
 *           f16 d[16], i8 levels[16], f32 factor, 12 zeros, i8 scales[8][16][2] IQ3_S
 *           Scale s is at [s / 2][row][s % 2]: a pair is what a 16-bit madd takes.
 *   blocks  eight blocks of quants
 * Types with a scale for 128 values (Q4_W Q8_W PQ2_0):
 *   head    f16 d[n_groups][16] of the whole panel, rounded up to 64 bytes with zeros
 *   blocks  for each block of 32 columns: quants
 * Quants of a block of 32 columns, k4 = k / 4:
 *   1 bit   u8 [16][4]: at [row][k % 4], bit k4 is set for 1 and not for -1 Q1_0
 *   2 bits  u8 [2][16][4]: at [k4 / 4][row][k % 4], bits 2 (k4 % 4) and the next
 *   8 bits  i8 [8][16][4]: value k of a row at [k4][row][k % 4]             Q8_0 Q8_W
 *   4 bits  u8 [4][16][4]: at [k4 % 4][row][k % 4] the low nibble is k4 < 4,
 *           the high nibble k4 >= 4: two loads' worth by one mask and one shift
 *   5 bits  and a plane u8 [16][4]: at [row][k % 4], bit k4 is the fifth bit
 *   6 bits  and two planes u8 [16][4]: in plane k4 / 4 at [row][k % 4],
 *           bits 2 (k4 % 4) and the next are the two high bits
 * Panels of IQ3_S hold what their 4 bits mean, so all types whose values are one of sixteen levels
 * are kept in them (block_levels): value = d factor scale level.
 * All parts are multiples of 64 bytes, so every 64-byte load is aligned; but a group of Q1_0 has
 * 288, so its loads are aligned to 32.  A panel is whole lines. */
#ifndef KERNELS_PANELS_H
#define KERNELS_PANELS_H

#include "kernels/kernels.h"

enum {
    PANEL_BLOCK = 32,                          /* columns of a block */
    PANEL_BLOCKS = KERNEL_GROUP / PANEL_BLOCK, /* blocks of a group of activations */
    PANEL_SUPER = 256,                         /* columns of a superblock */
    PANEL_SUPER_BLOCKS = PANEL_SUPER / PANEL_BLOCK,
    PANEL_LINE = 64,    /* bytes: [16 rows][4 columns] */
    PANEL_NIBBLES = 256 /* bytes: 16 rows by 32 columns by 4 bits; planes follow */
};

/* Inlined with a constant type everywhere, so that the switches below cost nothing.  Not where
 * every access is checked or emulated: that much code would take minutes to compile. */
#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define PANEL_SMALL_CODE
#endif
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || defined(KERNELS_EMULATED)
#define PANEL_SMALL_CODE
#endif
#ifdef PANEL_SMALL_CODE
#define PANEL_INLINE static inline
#else
#define PANEL_INLINE static inline __attribute__((always_inline))
#endif

PANEL_INLINE bool panel_is_super(block_type type)
{
    return type == BLOCK_Q2_K || type == BLOCK_Q4_K || type == BLOCK_Q5_K || type == BLOCK_Q6_K ||
           type == BLOCK_IQ3_S || type == BLOCK_IQ4_XS;
}

/* Columns of a superblock that share a small scale, or of a block one of its scales. */
PANEL_INLINE uint32_t panel_small(block_type type)
{
    return type == BLOCK_Q2_K || type == BLOCK_Q6_K || type == BLOCK_IQ3_S || type == BLOCK_NVFP4
               ? 16
               : 32;
}

/* Scales of a block of a type with scales for at most 32 values. */
PANEL_INLINE uint32_t panel_block_scales(block_type type)
{
    return PANEL_BLOCK / panel_small(type);
}

/* Nibbles are numbers of E2M1. */
PANEL_INLINE bool panel_is_fp4(block_type type)
{
    return type == BLOCK_MXFP4 || type == BLOCK_NVFP4;
}

/* Bytes before the first group: factors of rows, with which sums over a row are multiplied. */
PANEL_INLINE uint32_t panel_lead_bytes(block_type type)
{
    return type == BLOCK_NVFP4 ? PANEL_LINE : 0;
}

/* Bytes of the small scales of a block: a pair of them, or half of one. */
PANEL_INLINE uint32_t panel_small_bytes(block_type type)
{
    return panel_small(type) == 16 ? 32 : 16;
}

/* Small scales with a sign. */
PANEL_INLINE bool panel_small_is_signed(block_type type)
{
    return type == BLOCK_Q6_K || type == BLOCK_IQ3_S || type == BLOCK_IQ4_XS;
}

/* The panel says what its nibbles mean. */
PANEL_INLINE bool panel_has_levels(block_type type) { return type == BLOCK_IQ3_S; }

PANEL_INLINE bool panel_is_wide(block_type type)
{
    return type == BLOCK_Q4_W || type == BLOCK_Q8_W || type == BLOCK_PQ2_0;
}

/* Types that no panel has, for a switch over all of them: floats, and what kernel_panel_type()
 * makes another type. */
#define PANEL_CASES_NONE                                                                           \
    case BLOCK_PTQ1_0:                                                                             \
    case BLOCK_Q3_K:                                                                               \
    case BLOCK_TQ1_0:                                                                              \
    case BLOCK_TQ2_0:                                                                              \
    case BLOCK_IQ2_XXS:                                                                            \
    case BLOCK_IQ2_XS:                                                                             \
    case BLOCK_IQ2_S:                                                                              \
    case BLOCK_IQ3_XXS:                                                                            \
    case BLOCK_IQ1_S:                                                                              \
    case BLOCK_IQ1_M:                                                                              \
    case BLOCK_F32:                                                                                \
    case BLOCK_F16:                                                                                \
    case BLOCK_BF16:                                                                               \
    case BLOCK_I64

/* Quants plus a minimum (w = d q + m), in place of a signed quant. */
PANEL_INLINE bool panel_has_min(block_type type)
{
    return type == BLOCK_Q4_1 || type == BLOCK_Q5_1 || type == BLOCK_Q2_K || type == BLOCK_Q4_K ||
           type == BLOCK_Q5_K;
}

/* Values are d (number - 1), and the number has two bits. */
PANEL_INLINE bool panel_is_two_bits(block_type type)
{
    return type == BLOCK_Q2_0 || type == BLOCK_PQ2_0;
}

/* Blocks of a group that share a head. */
PANEL_INLINE uint32_t panel_head_blocks(block_type type)
{
    return type == BLOCK_Q1_0 ? PANEL_BLOCKS : type == BLOCK_Q2_0 ? 2 : 1;
}

/* Bytes of head: of the blocks that share it, or of a superblock. */
PANEL_INLINE uint32_t panel_head_bytes(block_type type)
{
    switch (type) {
    case BLOCK_Q1_0:
    case BLOCK_Q2_0:
    case BLOCK_PQ2_0: /* of a group, before all groups: panel_wide_head */
    case BLOCK_Q4_W:
    case BLOCK_Q8_W:
    case BLOCK_Q4_0:
    case BLOCK_Q5_0:
    case BLOCK_Q8_0:
    case BLOCK_NVFP4:
    case BLOCK_IQ4_NL: return 32;
    case BLOCK_Q4_1:
    case BLOCK_Q5_1: return 64;
    case BLOCK_MXFP4: return 16;
    case BLOCK_Q2_K: return 64 + 512;
    case BLOCK_Q4_K:
    case BLOCK_Q5_K:
    case BLOCK_IQ3_S:
    case BLOCK_Q6_K: return 64 + 256;
    case BLOCK_IQ4_XS: return 64 + 128;
    PANEL_CASES_NONE: break;
    }
    return 0;
}

/* Bytes of quants of one block of 32 columns. */
PANEL_INLINE uint32_t panel_quant_bytes(block_type type)
{
    switch (type) {
    case BLOCK_Q1_0: return PANEL_LINE;
    case BLOCK_Q2_0:
    case BLOCK_PQ2_0:
    case BLOCK_Q2_K: return 2 * PANEL_LINE;
    case BLOCK_Q4_0:
    case BLOCK_Q4_1:
    case BLOCK_Q4_K:
    case BLOCK_IQ3_S:
    case BLOCK_IQ4_NL:
    case BLOCK_IQ4_XS:
    case BLOCK_Q4_W:
    case BLOCK_NVFP4:
    case BLOCK_MXFP4: return PANEL_NIBBLES;
    case BLOCK_Q5_0:
    case BLOCK_Q5_1:
    case BLOCK_Q5_K: return PANEL_NIBBLES + PANEL_LINE;
    case BLOCK_Q6_K: return PANEL_NIBBLES + 2 * PANEL_LINE;
    case BLOCK_Q8_W:
    case BLOCK_Q8_0: return 2 * PANEL_NIBBLES;
    PANEL_CASES_NONE: break;
    }
    return 0;
}

/* Whether a line holds so many quants, of one or two bits, that a reader is too slow for the
 * processor's prefetchers to run far ahead of it, and must ask itself. */
PANEL_INLINE bool panel_is_dense(block_type type)
{
    return panel_quant_bytes(type) < PANEL_NIBBLES;
}

/* Where the blocks of a group of n_blocks begin, and where the next group begins. */
PANEL_INLINE uint32_t panel_group_head(block_type type, uint32_t n_blocks)
{
    const uint32_t n_heads = (n_blocks + panel_head_blocks(type) - 1) / panel_head_blocks(type);
    const uint32_t unit = type == BLOCK_Q1_0 ? 1 : PANEL_LINE;
    return (n_heads * panel_head_bytes(type) + unit - 1) / unit * unit;
}
PANEL_INLINE uint32_t panel_group_bytes(block_type type, uint32_t n_blocks)
{
    return panel_group_head(type, n_blocks) + n_blocks * panel_quant_bytes(type);
}
/* Where the head of block b is, from where its group begins. */
PANEL_INLINE uint32_t panel_head_at(block_type type, uint32_t b)
{
    return b / panel_head_blocks(type) * panel_head_bytes(type);
}
PANEL_INLINE uint32_t panel_super_bytes(block_type type)
{
    return panel_head_bytes(type) + PANEL_SUPER_BLOCKS * panel_quant_bytes(type);
}

/* Where the blocks of a panel with a scale for 128 values begin. */
PANEL_INLINE uint32_t panel_wide_head(uint32_t n_cols)
{
    return (kernel_n_groups(n_cols) * 32 + PANEL_LINE - 1) / PANEL_LINE * PANEL_LINE;
}

/* Blocks of group g: 4, or what is left at the end. */
PANEL_INLINE uint32_t panel_group_blocks(uint32_t n_cols, uint32_t g)
{
    uint32_t left = n_cols / PANEL_BLOCK - g * PANEL_BLOCKS;
    return left < PANEL_BLOCKS ? left : PANEL_BLOCKS;
}

/* Where the quants of the block of column k begin, from the start of a panel. */
PANEL_INLINE size_t panel_block_at(block_type type, uint32_t n_cols, uint32_t k)
{
    const uint32_t block = k / PANEL_BLOCK, g = k / KERNEL_GROUP;
    if (panel_is_super(type))
        return (size_t)(k / PANEL_SUPER) * panel_super_bytes(type) + panel_head_bytes(type) +
               block % PANEL_SUPER_BLOCKS * panel_quant_bytes(type);
    if (panel_is_wide(type))
        return panel_wide_head(n_cols) + (size_t)block * panel_quant_bytes(type);
    return panel_lead_bytes(type) + (size_t)g * panel_group_bytes(type, PANEL_BLOCKS) +
           panel_group_head(type, panel_group_blocks(n_cols, g)) +
           block % PANEL_BLOCKS * panel_quant_bytes(type);
}

/* Value k of a row of one block, as an integer; the offset of signed types is removed.  Of panels
 * with levels, the number of one. */
PANEL_INLINE int32_t panel_quant(block_type type, const uint8_t *block, uint32_t row, uint32_t k)
{
    uint32_t k4 = k / 4, at = 4 * row + k % 4;
    if (type == BLOCK_Q8_0 || type == BLOCK_Q8_W) return (int8_t)block[PANEL_LINE * k4 + at];
    if (type == BLOCK_Q1_0) return (block[at] >> k4 & 1) * 2 - 1;
    if (type == BLOCK_Q2_K || panel_is_two_bits(type))
        return (block[PANEL_LINE * (k4 / 4) + at] >> 2 * (k4 % 4) & 3) - panel_is_two_bits(type);
    int32_t v = block[PANEL_LINE * (k4 % 4) + at];
    v = k4 < 4 ? v & 15 : v >> 4;
    const uint8_t *plane = block + PANEL_NIBBLES + at;
    switch (type) {
    case BLOCK_Q4_0: return v - 8;
    case BLOCK_Q4_1:
    case BLOCK_IQ3_S:
    case BLOCK_Q4_K: return v;
    case BLOCK_Q5_0: return (v | (plane[0] >> k4 & 1) << 4) - 16;
    case BLOCK_Q5_1:
    case BLOCK_Q5_K: return v | (plane[0] >> k4 & 1) << 4;
    case BLOCK_Q6_K:
        return (v | (plane[PANEL_LINE * (k4 / 4)] >> 2 * (k4 % 4) & 3) << 4) - 32;
    case BLOCK_IQ4_NL:
    case BLOCK_IQ4_XS: return block_iq4_values[v];
    case BLOCK_NVFP4:
    case BLOCK_MXFP4: return block_mxfp4_values[v];
    case BLOCK_Q4_W: return block_q4_w_values[v];
    case BLOCK_Q1_0:
    case BLOCK_Q2_0:
    case BLOCK_Q2_K:
    case BLOCK_PQ2_0:
    case BLOCK_Q8_W:
    case BLOCK_Q8_0: /* above */
    PANEL_CASES_NONE: break;
    }
    return 0;
}

/* panels_opened.c: kernel_repack() of types that block_open_two_bits() takes apart, and of those
 * that block_open() does. */
void panels_of_two_bits(block_type type, uint8_t *panel, const uint8_t *rows, uint32_t n_rows,
                        uint32_t n_cols);
void panels_of_levels(block_type type, uint8_t *panel, const uint8_t *rows, uint32_t n_rows,
                      uint32_t n_cols);

/* Scale number i (f16) of a row: [i][16 rows]. */
PANEL_INLINE float panel_scale(const uint8_t *head, uint32_t i, uint32_t row)
{
    uint16_t h;
    memcpy(&h, head + 32 * i + 2 * row, sizeof h);
    return f16_to_f32(h);
}

/* d of block b of a group of a type with a scale for 32 values, or of half block b of one with
 * scales for 16; m is 32 bytes after. */
PANEL_INLINE float panel_block_scale(block_type type, const uint8_t *group, uint32_t b,
                                     uint32_t row)
{
    if (type == BLOCK_MXFP4) return e8m0_half_to_f32(group[16 * b + row]);
    if (type == BLOCK_NVFP4) return f16_to_f32((uint16_t)(group[16 * b + row] << 7)) * 0x1p7f;
    return panel_scale(group + panel_head_at(type, b), 0, row);
}
PANEL_INLINE float panel_block_min(block_type type, const uint8_t *group, uint32_t b, uint32_t row)
{
    return panel_scale(group, b * panel_head_bytes(type) / 32 + 1, row);
}

/* What a row of a panel is multiplied with. */
PANEL_INLINE float panel_factor(block_type type, const uint8_t *panel, uint32_t row)
{
    float factor = 1.0f;
    if (panel_lead_bytes(type)) memcpy(&factor, panel + sizeof factor * row, sizeof factor);
    return factor;
}

/* What the quants of a row of a superblock are multiplied with, beside their small scales. */
PANEL_INLINE float panel_super_d(block_type type, const uint8_t *super, uint32_t row)
{
    float factor = 1.0f;
    if (panel_has_levels(type)) memcpy(&factor, super + 48, sizeof factor);
    return panel_scale(super, 0, row) * factor;
}
/* Value k of a row of one block of a superblock. */
PANEL_INLINE int32_t panel_super_quant(block_type type, const uint8_t *super, const uint8_t *block,
                                       uint32_t row, uint32_t k)
{
    const int32_t v = panel_quant(type, block, row, k);
    return panel_has_levels(type) ? (int8_t)super[32 + v] : v;
}

/* Small scale and minimum s of a superblock. */
PANEL_INLINE int32_t panel_super_scale(block_type type, const uint8_t *super, uint32_t s,
                                       uint32_t row)
{
    uint8_t v = super[64 + 32 * (s / 2) + 2 * row + s % 2];
    return panel_small_is_signed(type) ? (int8_t)v : v;
}
/* Small scales [n] of a row, or minima, to their place. */
PANEL_INLINE void panel_put_scales(uint8_t *scales, uint32_t n, uint32_t row, const uint8_t *from)
{
    for (uint32_t s = 0; s < n; s += 2) memcpy(scales + 16 * s + 2 * row, from + s, 2);
}
/* Bytes of the small scales of a superblock, which minima follow. */
PANEL_INLINE uint32_t panel_smalls_bytes(block_type type)
{
    return PANEL_SUPER_BLOCKS * panel_small_bytes(type);
}
PANEL_INLINE int32_t panel_super_min(block_type type, const uint8_t *super, uint32_t s,
                                     uint32_t row)
{
    return super[64 + panel_smalls_bytes(type) + 32 * (s / 2) + 2 * row + s % 2];
}

#endif
