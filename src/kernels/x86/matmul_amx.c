/* matmul_amx.c - matmul of 8-bit tiles, for more tokens than the kernels of AVX-512 VNNI like.
 *
 * A line of a panel, [16 rows][4 columns], is a row of the second operand of tdpb*d, tokens are the
 * rows of the first, and the product is [tokens][16 rows] exact sums: what lies in a panel is what
 * the instruction wants, once quants have 8 bits.  So two panels at once:
 *   unpack    128 columns (a group) of both panels to 8 bits, once for all tokens
 *   multiply  for each tile of up to 16 tokens; four sums live in tiles 0 to 3
 *   add       the sums of the group to y as floats, in the order of the reference
 * The three work on different groups: weights are stored one group before the tiles load them, and
 * sums are read one step after they were stored, as neither is forwarded between the two worlds.
 *
 * Five ways to the integers of the reference (docs/numerics.md):
 *   wide    a scale for 128 values: one sum for the group, products 64 deep
 *   blocks  a scale for 32 values, and Q1_0 and Q2_0: a sum for each block, products 32 deep
 *   supers  Q4_K, Q5_K, IQ4_XS: the same, and sums times small scales are added, as floats where
 *           that is exact (below 2^24), else as integers
 *   scaled  Q6_K and IQ3_S, whose small scales are for 16 values: the weight times its small scale
 *           fits in 16 bits, so the low bytes (unsigned) and the high bytes (signed) are multiplied
 *           apart, 64 deep, and the sum over the whole group is 256 high + low
 *   folded  Q2_K: the same, but the product, 3 * 15 at most, fits in 8 bits: as wide
 *
 * tests/kernelcheck/tiles_emulated.c compiles this file for machines without these instructions. */
#include "kernels/x86/matmul_avx512.h"

#include <pthread.h>

#include "kernels/matmul.h"
#include "kernels/tiles.h"
#include "kernels/x86/amx.h"
#include "kernels/x86/choice.h"

/* Numbers of tiles: the intrinsics take digits alone. */
#define SUM_0 0
#define SUM_1 1
#define SUM_2 2
#define SUM_3 3
#define ACT_0 4
#define ACT_1 5
#define LINES_0 6
#define LINES_1 7

enum {
    ROWS = AMX_ROWS,  /* tokens */
    PAIR = 2,         /* panels at once */
    CHUNK_TILES = 4,  /* tiles of tokens that share unpacked weights */
    CHUNK = CHUNK_TILES * ROWS,
    BLOCK_BYTES = PANEL_BLOCK * KERNEL_PANEL_ROWS,     /* unpacked to 8 bits */
    GROUP_BYTES = KERNEL_GROUP * KERNEL_PANEL_ROWS,
    BLOCK_DEEP = PANEL_BLOCK, /* columns that one product sums: a block, */
    WHOLE_DEEP = 64           /* or as many as a tile holds */
};

/* Rounds of work are double: the one that is made and the one that is used. */
typedef struct {
    _Alignas(64) uint8_t lines[2][2][PAIR][GROUP_BYTES]; /* [1] of the second: high bytes */
    _Alignas(64) int32_t sums[2][PAIR][PANEL_BLOCKS][ROWS][KERNEL_PANEL_ROWS];
    _Alignas(64) float acc[CHUNK_TILES][PAIR][ROWS][KERNEL_PANEL_ROWS];
} workspace;

/* Two panels against a chunk of tokens. */
typedef struct {
    const uint8_t *panel[PAIR];
    const kernel_act *x;
    uint32_t n_groups, n_cols;
    uint32_t n_tiles, rows, first[CHUNK_TILES]; /* tokens of each tile */
} pair_job;

typedef struct {
    uint32_t group, tile;
} step;

PANEL_INLINE bool type_is_scaled(block_type type)
{
    return type == BLOCK_Q6_K || type == BLOCK_IQ3_S;
}
PANEL_INLINE bool type_is_folded(block_type type) { return type == BLOCK_Q2_K; }

/* Sums go over the whole group. */
PANEL_INLINE bool type_is_whole(block_type type)
{
    return type_is_scaled(type) || type_is_folded(type) || panel_is_wide(type);
}

/* Quants have a sign and 8 bits already: they are what the tiles load. */
PANEL_INLINE bool type_is_bytes(block_type type)
{
    return type == BLOCK_Q8_0 || type == BLOCK_Q8_W;
}

/* Where a group begins; of the types with a scale for 128 values, its scales. */
PANEL_INLINE const uint8_t *group_at(block_type type, const uint8_t *panel, uint32_t g)
{
    if (panel_is_wide(type)) return panel + (size_t)g * 32;
    if (panel_is_super(type)) return panel + (size_t)(g / 2) * panel_super_bytes(type);
    return panel + (size_t)g * panel_group_bytes(type, PANEL_BLOCKS);
}

/* And its quants: of a superblock, those of the half that is the group. */
PANEL_INLINE const uint8_t *quants_at(block_type type, const pair_job *job, uint32_t p, uint32_t g)
{
    const uint8_t *at = group_at(type, job->panel[p], g);
    const uint32_t n_blocks = panel_group_blocks(job->n_cols, g);
    if (panel_is_wide(type))
        return job->panel[p] + panel_wide_head(job->n_cols) +
               (size_t)g * PANEL_BLOCKS * panel_quant_bytes(type);
    if (!panel_is_super(type)) return at + panel_group_head(type, n_blocks);
    return at + panel_head_bytes(type) + g % 2 * PANEL_BLOCKS * panel_quant_bytes(type);
}

/* ---- unpacking ---- */

PANEL_INLINE __m512i signed_table(block_type type)
{
    __m128i v = _mm_setzero_si128();
    if (type == BLOCK_MXFP4)
        v = _mm_setr_epi8(0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12);
    if (type == BLOCK_Q4_W)
        v = _mm_setr_epi8(-33, -25, -19, -15, -11, -8, -5, -2, 1, 4, 7, 10, 14, 18, 23, 30);
    if (type == BLOCK_IQ4_NL || type == BLOCK_IQ4_XS)
        v = _mm_setr_epi8(-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113);
    return _mm512_broadcast_i32x4(v);
}

/* Sixteen rows' values of four columns, with their sign; of types with a minimum, without it. */
PANEL_INLINE __m512i signed_quants(block_type type, const uint8_t *block, uint32_t k4)
{
    const __m512i v = unpack_quants(type, block, k4, signed_table(type));
    if (type == BLOCK_Q4_0) return _mm512_sub_epi8(v, _mm512_set1_epi8(8));
    if (type == BLOCK_Q5_0) return _mm512_sub_epi8(v, _mm512_set1_epi8(16));
    if (type == BLOCK_Q1_0 || panel_is_two_bits(type))
        return _mm512_sub_epi8(v, _mm512_set1_epi8(1));
    return v;
}

PANEL_INLINE void unpack_blocks(block_type type, uint8_t *restrict lines, const uint8_t *block,
                                uint32_t n_blocks)
{
    for (uint32_t b = 0; b < n_blocks; b++, block += panel_quant_bytes(type), lines += BLOCK_BYTES)
        UNROLLED for (uint32_t k4 = 0; k4 < 8; k4++)
            _mm512_store_si512(lines + PANEL_LINE * k4, signed_quants(type, block, k4));
}

/* What an unsigned quant is above its value, as a power of two. */
PANEL_INLINE uint32_t offset_bits(block_type type) { return panel_has_levels(type) ? 6 : 5; }

/* A small scale as what the even and the odd bytes of 16-bit lanes are multiplied by, and what the
 * offset of quants makes of it. */
typedef struct {
    __m512i even, odd, offset;
} byte_scales;

PANEL_INLINE byte_scales load_byte_scales(block_type type, const uint8_t *pair, uint32_t which)
{
    const __m512i scale = load_scales(type, pair, which); /* 32 bits a row */
    const __m512i low = _mm512_and_si512(scale, _mm512_set1_epi32(0xff));
    const __m512i even = _mm512_or_si512(low, _mm512_slli_epi32(low, 16));
    const __m512i both = _mm512_or_si512(_mm512_and_si512(scale, _mm512_set1_epi32(0xffff)),
                                         _mm512_slli_epi32(scale, 16));
    return (byte_scales){even, _mm512_slli_epi16(even, 8),
                         _mm512_slli_epi16(both, offset_bits(type))};
}

/* Weights of Q6_K and IQ3_S times small scales, 64 * 128 at most: quants as unsigned bytes,
 * 127 * 128 < 2^15, become 16-bit products of the even columns and of the odd ones (the other byte
 * of a pair is multiplied by 0), the offset is taken away, and low and high bytes go back in
 * place. */
PANEL_INLINE void unpack_scaled(block_type type, uint8_t *restrict low, uint8_t *restrict high,
                                const uint8_t *super, const uint8_t *pairs, const uint8_t *block)
{
    const uint64_t odd_bytes = UINT64_C(0xaaaaaaaaaaaaaaaa);
    const __m512i levels = _mm512_add_epi8(load_levels(super), _mm512_set1_epi8(64));
    for (uint32_t b = 0; b < PANEL_BLOCKS; b++, block += panel_quant_bytes(type)) {
        const byte_scales scales[2] = {load_byte_scales(type, pairs + 32 * b, 0),
                                       load_byte_scales(type, pairs + 32 * b, 1)};
        UNROLLED for (uint32_t k4 = 0; k4 < 8; k4++, low += PANEL_LINE, high += PANEL_LINE) {
            const byte_scales *by = &scales[k4 / 4];
            const __m512i v = unpack_quants(type, block, k4, levels);
            const __m512i even = _mm512_sub_epi16(_mm512_maddubs_epi16(v, by->even), by->offset);
            const __m512i odd = _mm512_sub_epi16(_mm512_maddubs_epi16(v, by->odd), by->offset);
            _mm512_store_si512(low, _mm512_mask_blend_epi8(odd_bytes, even,
                                                           _mm512_slli_epi16(odd, 8)));
            _mm512_store_si512(high, _mm512_mask_blend_epi8(odd_bytes, _mm512_srli_epi16(even, 8),
                                                            odd));
        }
    }
}

/* Weights of Q2_K times small scales: the low bit of a number counts one scale, the high bit two.
 * */
PANEL_INLINE void unpack_folded(uint8_t *restrict lines, const uint8_t *pairs,
                                const uint8_t *block)
{
    const __m512i low_bit = _mm512_set1_epi8(1), zero = _mm512_setzero_si512();
    for (uint32_t b = 0; b < PANEL_BLOCKS; b++, block += panel_quant_bytes(BLOCK_Q2_K)) {
        __m512i scale[2]; /* in all four bytes of a row */
        UNROLLED for (uint32_t i = 0; i < 2; i++) {
            const __m512i v = load_scales(BLOCK_Q2_K, pairs + 32 * b, i);
            const __m512i two = _mm512_or_si512(v, _mm512_slli_epi32(v, 8));
            scale[i] = _mm512_or_si512(two, _mm512_slli_epi32(two, 16));
        }
        UNROLLED for (uint32_t k4 = 0; k4 < 8; k4++, lines += PANEL_LINE) {
            const __m512i v = unpack_quants(BLOCK_Q2_K, block, k4, zero);
            const __m512i low = _mm512_and_si512(v, low_bit);
            const __m512i high = _mm512_and_si512(_mm512_srli_epi16(v, 1), low_bit);
            const __m512i one = _mm512_and_si512(_mm512_sub_epi8(zero, low), scale[k4 / 4]);
            const __m512i two = _mm512_and_si512(_mm512_sub_epi8(zero, high), scale[k4 / 4]);
            _mm512_store_si512(lines, _mm512_add_epi8(one, _mm512_add_epi8(two, two)));
        }
    }
}

PANEL_INLINE void unpack_pair(block_type type, workspace *ws, const pair_job *job, uint32_t g)
{
    const uint32_t n_blocks = panel_group_blocks(job->n_cols, g);
    if (type_is_bytes(type)) return;
    for (uint32_t p = 0; p < PAIR; p++) {
        const uint8_t *block = quants_at(type, job, p, g);
        const uint8_t *group = group_at(type, job->panel[p], g);
        const uint8_t *pairs = group + 64 + g % 2 * 128; /* of small scales for 16 values */
        if (type_is_scaled(type))
            unpack_scaled(type, ws->lines[g % 2][0][p], ws->lines[g % 2][1][p], group, pairs,
                          block);
        else if (type_is_folded(type))
            unpack_folded(ws->lines[g % 2][0][p], pairs, block);
        else
            unpack_blocks(type, ws->lines[g % 2][0][p], block, n_blocks);
    }
}

/* ---- products ---- */

/* Tiles for that many tokens and columns of each product. */
static void load_shapes(uint32_t rows, uint32_t deep)
{
    amx_shapes shapes = {.palette = 1};
    for (uint32_t i = SUM_0; i <= LINES_1; i++) {
        const bool is_act = i == ACT_0 || i == ACT_1, is_lines = i >= LINES_0;
        shapes.row_bytes[i] = (uint16_t)(is_act ? deep : PANEL_LINE);
        shapes.rows[i] = (uint8_t)(is_lines ? deep / 4 : rows);
    }
    _tile_loadconfig(&shapes);
}

#define STORE_SUM(tile, to) _tile_stored(tile, to, sizeof(int32_t) * KERNEL_PANEL_ROWS)

/* sums[p][b] of the blocks of a group, two blocks at once.
 *   lines: [PAIR] a block's lines follow each other; q: of the tile's first token */
static void multiply_blocks(int32_t (*sums)[PANEL_BLOCKS][ROWS][KERNEL_PANEL_ROWS],
                            const uint8_t *const lines[PAIR], const int8_t *q, size_t q_stride,
                            uint32_t n_blocks)
{
    for (uint32_t b = 0; b < n_blocks; b += 2) {
        const uint8_t *first = lines[0] + b * BLOCK_BYTES, *second = lines[1] + b * BLOCK_BYTES;
        _tile_zero(SUM_0);
        _tile_zero(SUM_1);
        _tile_loadd(ACT_0, q + b * PANEL_BLOCK, q_stride);
        _tile_loadd(LINES_0, first, PANEL_LINE);
        _tile_dpbssd(SUM_0, ACT_0, LINES_0);
        _tile_loadd(LINES_1, second, PANEL_LINE);
        _tile_dpbssd(SUM_1, ACT_0, LINES_1);
        if (b + 1 < n_blocks) {
            _tile_zero(SUM_2);
            _tile_zero(SUM_3);
            _tile_loadd(ACT_1, q + (b + 1) * PANEL_BLOCK, q_stride);
            _tile_loadd(LINES_0, first + BLOCK_BYTES, PANEL_LINE);
            _tile_dpbssd(SUM_2, ACT_1, LINES_0);
            _tile_loadd(LINES_1, second + BLOCK_BYTES, PANEL_LINE);
            _tile_dpbssd(SUM_3, ACT_1, LINES_1);
        }
        STORE_SUM(SUM_0, sums[0][b]);
        STORE_SUM(SUM_1, sums[1][b]);
        if (b + 1 < n_blocks) {
            STORE_SUM(SUM_2, sums[0][b + 1]);
            STORE_SUM(SUM_3, sums[1][b + 1]);
        }
    }
}

/* sums[p][0] of the low bytes and sums[p][1] of the high ones, over a group in two products. */
#define MULTIPLY_SCALED(act, at)                                                                   \
    do {                                                                                           \
        _tile_loadd(LINES_0, lines[0][0] + (at), PANEL_LINE);                                      \
        _tile_dpbsud(SUM_0, act, LINES_0);                                                         \
        _tile_loadd(LINES_1, lines[1][0] + (at), PANEL_LINE);                                      \
        _tile_dpbssd(SUM_1, act, LINES_1);                                                         \
        _tile_loadd(LINES_0, lines[0][1] + (at), PANEL_LINE);                                      \
        _tile_dpbsud(SUM_2, act, LINES_0);                                                         \
        _tile_loadd(LINES_1, lines[1][1] + (at), PANEL_LINE);                                      \
        _tile_dpbssd(SUM_3, act, LINES_1);                                                         \
    } while (0)
static void multiply_scaled(int32_t (*sums)[PANEL_BLOCKS][ROWS][KERNEL_PANEL_ROWS],
                            uint8_t (*lines)[PAIR][GROUP_BYTES], const int8_t *q, size_t q_stride)
{
    _tile_zero(SUM_0);
    _tile_zero(SUM_1);
    _tile_zero(SUM_2);
    _tile_zero(SUM_3);
    _tile_loadd(ACT_0, q, q_stride);
    _tile_loadd(ACT_1, q + WHOLE_DEEP, q_stride);
    MULTIPLY_SCALED(ACT_0, 0);
    MULTIPLY_SCALED(ACT_1, GROUP_BYTES / 2);
    STORE_SUM(SUM_0, sums[0][0]);
    STORE_SUM(SUM_1, sums[0][1]);
    STORE_SUM(SUM_2, sums[1][0]);
    STORE_SUM(SUM_3, sums[1][1]);
}

/* sums[p][0], over a group in two products.  lines: [PAIR] of the group */
static void multiply_wide(int32_t (*sums)[PANEL_BLOCKS][ROWS][KERNEL_PANEL_ROWS],
                          const uint8_t *const lines[PAIR], const int8_t *q, size_t q_stride)
{
    _tile_zero(SUM_0);
    _tile_zero(SUM_1);
    _tile_loadd(ACT_0, q, q_stride);
    _tile_loadd(LINES_0, lines[0], PANEL_LINE);
    _tile_dpbssd(SUM_0, ACT_0, LINES_0);
    _tile_loadd(LINES_1, lines[1], PANEL_LINE);
    _tile_dpbssd(SUM_1, ACT_0, LINES_1);
    _tile_loadd(ACT_1, q + WHOLE_DEEP, q_stride);
    _tile_loadd(LINES_0, lines[0] + GROUP_BYTES / 2, PANEL_LINE);
    _tile_dpbssd(SUM_0, ACT_1, LINES_0);
    _tile_loadd(LINES_1, lines[1] + GROUP_BYTES / 2, PANEL_LINE);
    _tile_dpbssd(SUM_1, ACT_1, LINES_1);
    STORE_SUM(SUM_0, sums[0][0]);
    STORE_SUM(SUM_1, sums[1][0]);
}

PANEL_INLINE void multiply(block_type type, workspace *ws, const pair_job *job, step at,
                           uint32_t n)
{
    const kernel_act *x = job->x + (size_t)job->first[at.tile] * job->n_groups + at.group;
    const size_t q_stride = job->n_groups * sizeof *x;
    const uint32_t n_blocks = panel_group_blocks(job->n_cols, at.group);
    const uint8_t *lines[PAIR];
    amx_all_stored();
    if (type_is_scaled(type)) {
        multiply_scaled(ws->sums[n % 2], ws->lines[at.group % 2], x->q, q_stride);
        return;
    }
    for (uint32_t p = 0; p < PAIR; p++)
        lines[p] = type_is_bytes(type) ? quants_at(type, job, p, at.group)
                                       : ws->lines[at.group % 2][0][p];
    if (panel_is_wide(type) || type_is_folded(type))
        multiply_wide(ws->sums[n % 2], lines, x->q, q_stride);
    else
        multiply_blocks(ws->sums[n % 2], lines, x->q, q_stride, n_blocks);
}

/* ---- sums ---- */

PANEL_INLINE __m512 load_sum(int32_t (*sums)[ROWS][KERNEL_PANEL_ROWS], uint32_t b, uint32_t row)
{
    return _mm512_cvtepi32_ps(_mm512_load_si512(sums[b][row]));
}

/* acc = fma(sum, the token's scale for the group, acc) */
PANEL_INLINE void add_sum(float *acc, __m512 sum, const kernel_act *x)
{
    _mm512_store_ps(acc, _mm512_fmadd_ps(sum, _mm512_set1_ps(x->scale[0]), _mm512_load_ps(acc)));
}

PANEL_INLINE void add_blocks(block_type type, float (*acc)[KERNEL_PANEL_ROWS],
                             int32_t (*sums)[ROWS][KERNEL_PANEL_ROWS], const uint8_t *group,
                             uint32_t n_blocks, const kernel_act *x, uint32_t x_stride,
                             uint32_t rows)
{
    __m512 d[PANEL_BLOCKS], least[PANEL_BLOCKS];
    UNROLLED for (uint32_t b = 0; b < n_blocks; b++) {
        const uint8_t *head = group + panel_head_at(type, b);
        d[b] = type == BLOCK_MXFP4 ? load_e8m0_half(head) : load_halves(head);
        if (panel_has_min(type)) least[b] = load_halves(head + 32);
    }
    for (uint32_t r = 0; r < rows; r++, x += x_stride) {
        __m512 sum = _mm512_load_ps(acc[r]);
        UNROLLED for (uint32_t b = 0; b < n_blocks; b++) {
            const __m512 scale = _mm512_set1_ps(x->scale[b]);
            sum = _mm512_fmadd_ps(_mm512_mul_ps(load_sum(sums, b, r), scale), d[b], sum);
            if (panel_has_min(type))
                sum = _mm512_fmadd_ps(_mm512_set1_ps((float)x->sum32[b] * x->scale[b]), least[b],
                                      sum);
        }
        _mm512_store_ps(acc[r], sum);
    }
}

/* Exact as floats: two blocks of Q5_K are 64 * 31 * 127 * 63 < 2^24 at most.  The sum of both
 * halves is rounded once, as the conversion of the whole would be. */
PANEL_INLINE void add_k(block_type type, float (*acc)[KERNEL_PANEL_ROWS],
                        int32_t (*sums)[ROWS][KERNEL_PANEL_ROWS], const uint8_t *super,
                        uint32_t half, const kernel_act *x, uint32_t x_stride, uint32_t rows)
{
    const uint8_t *pairs = super + 64 + 64 * half; /* two of scales, and 128 after, of minima */
    const __m512 d = load_halves(super), d_min = load_halves(super + 32);
    const __m512i min_0 = load_pairs(type, pairs + 128), min_1 = load_pairs(type, pairs + 160);
    __m512 scale[PANEL_BLOCKS];
    UNROLLED for (uint32_t b = 0; b < PANEL_BLOCKS; b++)
        scale[b] = _mm512_cvtepi32_ps(load_scales(type, pairs + 32 * (b / 2), b % 2));
    for (uint32_t r = 0; r < rows; r++, x += x_stride) {
        __m512 low = _mm512_setzero_ps(), high = low;
        low = _mm512_fmadd_ps(load_sum(sums, 0, r), scale[0], low);
        high = _mm512_fmadd_ps(load_sum(sums, 2, r), scale[2], high);
        low = _mm512_fmadd_ps(load_sum(sums, 1, r), scale[1], low);
        high = _mm512_fmadd_ps(load_sum(sums, 3, r), scale[3], high);
        __m512i min = _mm512_setzero_si512();
        min = _mm512_dpwssd_epi32(min, min_0, broadcast_word(x->sum32));
        min = _mm512_dpwssd_epi32(min, min_1, broadcast_word(x->sum32 + 2));
        const __m512 sum = _mm512_mul_ps(d, _mm512_add_ps(low, high));
        add_sum(acc[r], _mm512_fnmadd_ps(d_min, _mm512_cvtepi32_ps(min), sum), x);
    }
}

/* As integers: 128 * 127 * 127 * 32 is above 2^24. */
PANEL_INLINE void add_xs(float (*acc)[KERNEL_PANEL_ROWS],
                         int32_t (*sums)[ROWS][KERNEL_PANEL_ROWS], const uint8_t *super,
                         uint32_t half, const kernel_act *x, uint32_t x_stride, uint32_t rows)
{
    const uint8_t *pairs = super + 64 + 64 * half;
    const __m512 d = load_halves(super);
    __m512i scale[PANEL_BLOCKS];
    UNROLLED for (uint32_t b = 0; b < PANEL_BLOCKS; b++)
        scale[b] = load_scales(BLOCK_IQ4_XS, pairs + 32 * (b / 2), b % 2);
    for (uint32_t r = 0; r < rows; r++, x += x_stride) {
        __m512i sum = _mm512_setzero_si512();
        UNROLLED for (uint32_t b = 0; b < PANEL_BLOCKS; b++)
            sum = _mm512_add_epi32(sum, _mm512_mullo_epi32(_mm512_load_si512(sums[b][r]),
                                                           scale[b]));
        add_sum(acc[r], _mm512_mul_ps(d, _mm512_cvtepi32_ps(sum)), x);
    }
}

PANEL_INLINE void add_scaled(block_type type, float (*acc)[KERNEL_PANEL_ROWS],
                             int32_t (*sums)[ROWS][KERNEL_PANEL_ROWS], const uint8_t *super,
                             const kernel_act *x, uint32_t x_stride, uint32_t rows)
{
    const __m512 d = load_super_d(type, super);
    for (uint32_t r = 0; r < rows; r++, x += x_stride) {
        const __m512i high = _mm512_slli_epi32(_mm512_load_si512(sums[1][r]), 8);
        const __m512i sum = _mm512_add_epi32(high, _mm512_load_si512(sums[0][r]));
        add_sum(acc[r], _mm512_mul_ps(d, _mm512_cvtepi32_ps(sum)), x);
    }
}

PANEL_INLINE void add_folded(float (*acc)[KERNEL_PANEL_ROWS],
                             int32_t (*sums)[ROWS][KERNEL_PANEL_ROWS], const uint8_t *super,
                             uint32_t half, const kernel_act *x, uint32_t x_stride, uint32_t rows)
{
    enum { N_PAIRS = 4 };
    const uint8_t *minima = super + 64 + panel_smalls_bytes(BLOCK_Q2_K) + 128 * half;
    const __m512 d = load_halves(super), d_min = load_halves(super + 32);
    __m512i pair[N_PAIRS];
    UNROLLED for (uint32_t i = 0; i < N_PAIRS; i++)
        pair[i] = load_pairs(BLOCK_Q2_K, minima + 32 * i);
    for (uint32_t r = 0; r < rows; r++, x += x_stride) {
        __m512i min = _mm512_setzero_si512();
        UNROLLED for (uint32_t i = 0; i < N_PAIRS; i++)
            min = _mm512_dpwssd_epi32(min, pair[i], broadcast_word(x->sum16 + 2 * i));
        const __m512 sum = _mm512_mul_ps(d, load_sum(sums, 0, r));
        add_sum(acc[r], _mm512_fnmadd_ps(d_min, _mm512_cvtepi32_ps(min), sum), x);
    }
}

PANEL_INLINE void add_wide(float (*acc)[KERNEL_PANEL_ROWS],
                           int32_t (*sums)[ROWS][KERNEL_PANEL_ROWS], const uint8_t *scales,
                           const kernel_act *x, uint32_t x_stride, uint32_t rows)
{
    const __m512 d = load_halves(scales);
    for (uint32_t r = 0; r < rows; r++, x += x_stride)
        add_sum(acc[r], _mm512_mul_ps(d, load_sum(sums, 0, r)), x);
}

PANEL_INLINE void add_step(block_type type, workspace *ws, const pair_job *job, step at,
                           uint32_t n)
{
    const kernel_act *x = job->x + (size_t)job->first[at.tile] * job->n_groups + at.group;
    const uint32_t n_blocks = panel_group_blocks(job->n_cols, at.group);
    for (uint32_t p = 0; p < PAIR; p++) {
        float (*acc)[KERNEL_PANEL_ROWS] = ws->acc[at.tile][p];
        int32_t (*sums)[ROWS][KERNEL_PANEL_ROWS] = ws->sums[n % 2][p];
        const uint8_t *group = group_at(type, job->panel[p], at.group);
        if (type_is_scaled(type))
            add_scaled(type, acc, sums, group, x, job->n_groups, job->rows);
        else if (type_is_folded(type))
            add_folded(acc, sums, group, at.group % 2, x, job->n_groups, job->rows);
        else if (panel_is_wide(type))
            add_wide(acc, sums, group, x, job->n_groups, job->rows);
        else if (type == BLOCK_IQ4_XS)
            add_xs(acc, sums, group, at.group % 2, x, job->n_groups, job->rows);
        else if (panel_is_super(type))
            add_k(type, acc, sums, group, at.group % 2, x, job->n_groups, job->rows);
        else if (n_blocks == PANEL_BLOCKS)
            add_blocks(type, acc, sums, group, PANEL_BLOCKS, x, job->n_groups, job->rows);
        else
            add_blocks(type, acc, sums, group, n_blocks, x, job->n_groups, job->rows);
    }
}

/* ---- the walk ---- */

/* Steps are groups, and in a group tiles.  While the tiles of step n multiply, the sums of step
 * n - 1 are added and the next group is unpacked. */
PANEL_INLINE void multiply_pair(block_type type, workspace *ws, const pair_job *job)
{
    step last = {0, 0};
    uint32_t n = 0;
    memset(ws->acc, 0, job->n_tiles * sizeof ws->acc[0]);
    unpack_pair(type, ws, job, 0);
    for (uint32_t g = 0; g < job->n_groups; g++) {
        for (uint32_t tile = 0; tile < job->n_tiles; tile++, n++) {
            const step now = {g, tile};
            multiply(type, ws, job, now, n);
            if (tile == 0 && g + 1 < job->n_groups) unpack_pair(type, ws, job, g + 1);
            if (n > 0) add_step(type, ws, job, last, n - 1);
            last = now;
        }
    }
    add_step(type, ws, job, last, n - 1);
}

static void store_pair(float *const y[PAIR], size_t y_stride, const workspace *ws,
                       const pair_job *job)
{
    for (uint32_t tile = 0; tile < job->n_tiles; tile++)
        for (uint32_t p = 0; p < PAIR; p++)
            for (uint32_t r = 0; r < job->rows; r++)
                memcpy(y[p] + (job->first[tile] + r) * y_stride, ws->acc[tile][p][r],
                       sizeof ws->acc[tile][p][r]);
}

/* n_tokens <= CHUNK, in tiles of like size.  Where that does not come out even, the last tile takes
 * some tokens of the one before once more; a panel without a second one is its own.  Both give the
 * same bits twice. */
PANEL_INLINE void multiply_chunk(block_type type, float *y, size_t y_stride, const uint8_t *panels,
                                 const kernel_act *x, uint32_t n_panels, uint32_t n_cols,
                                 uint32_t n_tokens)
{
    const size_t panel_bytes = kernel_panel_bytes(type, n_cols);
    workspace ws;
    pair_job job = {.x = x, .n_groups = kernel_n_groups(n_cols), .n_cols = n_cols};
    job.n_tiles = (n_tokens + ROWS - 1) / ROWS;
    job.rows = (n_tokens + job.n_tiles - 1) / job.n_tiles;
    for (uint32_t i = 0; i < job.n_tiles; i++)
        job.first[i] = i + 1 < job.n_tiles ? i * job.rows : n_tokens - job.rows;
    load_shapes(job.rows, type_is_whole(type) ? WHOLE_DEEP : BLOCK_DEEP);
    for (uint32_t at = 0; at < n_panels; at += PAIR) {
        const uint32_t second = at + 1 < n_panels ? at + 1 : at;
        float *const to[PAIR] = {y + at * KERNEL_PANEL_ROWS, y + second * KERNEL_PANEL_ROWS};
        job.panel[0] = panels + at * panel_bytes;
        job.panel[1] = panels + second * panel_bytes;
        multiply_pair(type, &ws, &job);
        store_pair(to, y_stride, &ws, &job);
    }
}

PANEL_INLINE void matmul_tiles_of(block_type type, float *y, size_t y_stride,
                                  const uint8_t *panels, const kernel_act *x, uint32_t n_panels,
                                  uint32_t n_cols, uint32_t n_tokens)
{
    const uint32_t n_chunks = (n_tokens + CHUNK - 1) / CHUNK;
    const uint32_t chunk = (n_tokens + n_chunks - 1) / n_chunks;
    for (uint32_t t = 0; t < n_tokens; t += chunk)
        multiply_chunk(type, y + t * y_stride, y_stride, panels,
                       x + (size_t)t * kernel_n_groups(n_cols), n_panels, n_cols,
                       n_tokens - t < chunk ? n_tokens - t : chunk);
    _tile_release();
}

/* ---- which kernel ---- */

/* By type: the kernel of AVX-512 VNNI, that of tiles, and from how many tokens on it is taken.
 * Written once, before the first table is handed out. */
static struct {
    kernel_matmul_fn *few, *many;
    uint32_t tokens_min;
} chosen[BLOCK_TYPE_END];

#define MATMUL_AMX(name, type)                                                                     \
    static void name##_tiles(float *restrict y, size_t y_stride, const void *restrict panels,      \
                             const void *restrict x, uint32_t n_panels, uint32_t n_cols,           \
                             uint32_t n_tokens)                                                    \
    {                                                                                              \
        matmul_tiles_of(type, y, y_stride, panels, x, n_panels, n_cols, n_tokens);                 \
    }                                                                                              \
    static void name(float *restrict y, size_t y_stride, const void *restrict panels,              \
                     const void *restrict x, uint32_t n_panels, uint32_t n_cols,                   \
                     uint32_t n_tokens)                                                            \
    {                                                                                              \
        kernel_matmul_fn *fn =                                                                     \
            n_tokens < chosen[type].tokens_min ? chosen[type].few : chosen[type].many;             \
        fn(y, y_stride, panels, x, n_panels, n_cols, n_tokens);                                    \
    }
/* X(name, type) */
#define AMX_MAP(X)                                                                                 \
    X(matmul_q1_0_amx, BLOCK_Q1_0)                                                                 \
    X(matmul_q2_0_amx, BLOCK_Q2_0)                                                                 \
    X(matmul_q4_0_amx, BLOCK_Q4_0)                                                                 \
    X(matmul_q4_1_amx, BLOCK_Q4_1)                                                                 \
    X(matmul_q5_0_amx, BLOCK_Q5_0)                                                                 \
    X(matmul_q5_1_amx, BLOCK_Q5_1)                                                                 \
    X(matmul_q8_0_amx, BLOCK_Q8_0)                                                                 \
    X(matmul_iq4_nl_amx, BLOCK_IQ4_NL)                                                             \
    X(matmul_mxfp4_amx, BLOCK_MXFP4)                                                               \
    X(matmul_q4_w_amx, BLOCK_Q4_W)                                                                 \
    X(matmul_q8_w_amx, BLOCK_Q8_W)                                                                 \
    X(matmul_pq2_0_amx, BLOCK_PQ2_0)                                                               \
    X(matmul_q2_k_amx, BLOCK_Q2_K)                                                                 \
    X(matmul_iq3_s_amx, BLOCK_IQ3_S)                                                               \
    X(matmul_q4_k_amx, BLOCK_Q4_K)                                                                 \
    X(matmul_q5_k_amx, BLOCK_Q5_K)                                                                 \
    X(matmul_q6_k_amx, BLOCK_Q6_K)                                                                 \
    X(matmul_iq4_xs_amx, BLOCK_IQ4_XS)
AMX_MAP(MATMUL_AMX)

static void choose(void)
{
    static kernel_table below; /* zeros where a level has nothing */
    matmul_init_avx512vnni(&below, kernel_panel_order_detect());
    matmul_init_wide_avx512vnni(&below, kernel_panel_order_detect());
#define CHOOSE(name, type)                                                                         \
    chosen[type].few = below.matmul[type];                                                         \
    chosen[type].many = name##_tiles;                                                              \
    chosen[type].tokens_min = matmul_tokens_min(type, below.matmul[type], name##_tiles);
    AMX_MAP(CHOOSE)
#undef CHOOSE
}

void matmul_init_amx(kernel_table *table)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    CHECK(pthread_once(&once, choose) == 0);
#define SET(name, type) table->matmul[type] = name;
    AMX_MAP(SET)
#undef SET
}
