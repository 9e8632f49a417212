/* matmul_wide_avx512vnni.c - types with one scale for 128 values, Q4_W Q8_W PQ2_0, by dot products
 * of four: one register is sixteen rows, and a group is 32 instructions in a chain (two here)
 * with one conversion at the end.
 *
 * Quants are made unsigned by an offset; what it adds is taken away through the sums of
 * activations, exactly.  Bound in 32 bits: 128 * 255 * 127 < 2^22.
 *
 * tests/kernelcheck/emulated.c compiles this file for machines without these instructions. */
#include "kernels/x86/matmul_batch_avx512.h"

#include "kernels/matmul.h"

/* block_q4_w_values above -33. */
PANEL_INLINE __m512i wide_table(void)
{
    return _mm512_broadcast_i32x4(
        _mm_setr_epi8(0, 8, 14, 18, 22, 25, 28, 31, 34, 37, 40, 43, 47, 51, 56, 63));
}

/* Sixteen rows' quants of columns 4 k4 .. 4 k4 + 3, with their offset. */
PANEL_INLINE __m512i wide_quants(block_type type, const uint8_t *block, uint32_t k4)
{
    if (type == BLOCK_Q8_W)
        return _mm512_xor_si512(_mm512_load_si512(block + PANEL_LINE * k4),
                                _mm512_set1_epi8((char)0x80));
    if (type == BLOCK_PQ2_0)
        return _mm512_and_si512(_mm512_srli_epi16(_mm512_load_si512(block + PANEL_LINE * (k4 / 4)),
                                                  2 * (k4 % 4)),
                                _mm512_set1_epi8(3));
    __m512i v = _mm512_load_si512(block + PANEL_LINE * (k4 % 4));
    if (k4 >= 4) v = _mm512_srli_epi16(v, 4);
    return _mm512_shuffle_epi8(wide_table(), _mm512_and_si512(v, _mm512_set1_epi8(15)));
}

PANEL_INLINE int32_t wide_offset(block_type type)
{
    return type == BLOCK_Q4_W ? 33 : type == BLOCK_PQ2_0 ? 1 : 128;
}

/* Minus what the offset adds to a group's dot. */
PANEL_INLINE __m512i wide_start(block_type type, const kernel_act *x)
{
    const int32_t sum = x->sum32[0] + x->sum32[1] + x->sum32[2] + x->sum32[3];
    return _mm512_set1_epi32(-wide_offset(type) * sum);
}

/* As n_chains(): few sums have two each. */
PANEL_INLINE uint32_t wide_chains(uint32_t n) { return n < 5 ? 2 : 1; }

/* dot[i][.] += a block of 32 columns of panel i / n_t and token i % n_t. */
PANEL_INLINE void wide_block(block_type type, uint32_t n_p, uint32_t n_t,
                             __m512i dot[TILE_WIDE][2], const uint8_t *block, size_t panel_bytes,
                             const int8_t *q, size_t q_stride)
{
    UNROLLED for (uint32_t step = 0; step < 8; step++) {
        const uint32_t k4 = step / 2 + step % 2 * 4; /* both nibbles of a byte in turn */
        UNROLLED for (uint32_t p = 0; p < n_p; p++) {
            const __m512i w = wide_quants(type, block + p * panel_bytes, k4);
            UNROLLED for (uint32_t t = 0; t < n_t; t++) {
                __m512i *sum = &dot[p * n_t + t][k4 / 4 % wide_chains(n_p * n_t)];
                *sum = _mm512_dpbusd_epi32(*sum, w, broadcast_word(q + t * q_stride + 4 * k4));
            }
        }
    }
}

PANEL_INLINE void walk_wide(block_type type, kernel_panel_order order, uint32_t n_p, uint32_t n_t,
                            float *y, size_t y_stride, const uint8_t *panel, size_t panel_bytes,
                            const kernel_act *x, uint32_t n_cols)
{
    const uint32_t n_groups = kernel_n_groups(n_cols);
    const uint8_t *block = panel + panel_wide_head(n_cols);
    const uint32_t n_lines = panel_quant_bytes(type) / PANEL_LINE;
    const uintptr_t next = (uintptr_t)panel + n_p * panel_bytes;
    __m512 acc[TILE_WIDE];
    UNROLLED for (uint32_t i = 0; i < n_p * n_t; i++) acc[i] = _mm512_setzero_ps();
    /* The scales are not read with what follows them: a stream with a gap of more than six lines is
     * a new one for the processor, and half the speed. */
    const uint32_t head_lines = (uint32_t)(block - panel) / PANEL_LINE;
    const bool asks = line_asks(type, order, n_t);
    if (order != KERNEL_PANELS_APART && !asks) tile_prefetch((uintptr_t)panel, 1, 0, 0, head_lines);
    if (asks) line_prefetch(type, order, panel, 0, head_lines);
    for (uint32_t g = 0; g < n_groups; g++) {
        if (n_p == TILE_PANELS && g + 1 == n_groups) {
            tile_prefetch(next, n_p, panel_bytes, 0, TILE_AHEAD_LINES / 2);
            tile_prefetch(next + panel_wide_head(n_cols), n_p, panel_bytes, 0,
                          TILE_AHEAD_LINES / 2);
        }
        __m512i dot[TILE_WIDE][2];
        UNROLLED for (uint32_t i = 0; i < n_p * n_t; i++) {
            dot[i][0] = wide_start(type, x + i % n_t * n_groups + g);
            dot[i][1] = _mm512_setzero_si512();
        }
        const uintptr_t ahead = g + 1 < n_groups
                                    ? (uintptr_t)block + PANEL_BLOCKS * panel_quant_bytes(type)
                                    : next + panel_wide_head(n_cols);
        for (uint32_t b = 0; b < PANEL_BLOCKS; b++, block += panel_quant_bytes(type)) {
            if (n_t == 2 && n_p == 2) /* two streams: all of the next group, block by block */
                tile_prefetch(ahead, n_p, panel_bytes, n_lines * b, n_lines);
            if (asks) line_prefetch(type, order, block, 0, n_lines);
            wide_block(type, n_p, n_t, dot, block, panel_bytes, x[g].q + b * PANEL_BLOCK,
                       n_groups * sizeof *x);
        }
        UNROLLED for (uint32_t i = 0; i < n_p * n_t; i++) {
            const __m512 d = load_halves(panel + i / n_t * panel_bytes + 32 * g);
            const __m512i v = wide_chains(n_p * n_t) == 1 ? dot[i][0]
                                                          : _mm512_add_epi32(dot[i][0], dot[i][1]);
            acc[i] = _mm512_fmadd_ps(_mm512_mul_ps(d, _mm512_cvtepi32_ps(v)),
                                     _mm512_set1_ps(x[i % n_t * n_groups + g].scale[0]), acc[i]);
        }
    }
    UNROLLED for (uint32_t i = 0; i < n_p * n_t; i++)
        _mm512_storeu_ps(y + i % n_t * y_stride + i / n_t * KERNEL_PANEL_ROWS, acc[i]);
}
WALKS(wide)

/* A group for many tokens. */
PANEL_INLINE void wide_unpack(block_type type, batch_weights *out, const uint8_t *panel,
                              uint32_t n_cols, uint32_t g)
{
    const uint8_t *block = panel + batch_group_at(type, n_cols, g);
    __m512i *to = out->w;
    out->d[0] = load_halves(panel + 32 * g);
    for (uint32_t b = 0; b < PANEL_BLOCKS; b++, block += panel_quant_bytes(type), to += 8)
        UNROLLED for (uint32_t k4 = 0; k4 < 8; k4++) to[k4] = wide_quants(type, block, k4);
}

BATCH_TILES(wide, BLOCK_Q8_W)

#define MATMUL_WIDE(name, type)                                                                    \
    MATMUL_TILED(name##_few, type, tile_wide, 4, NULL)                                             \
    MATMUL_BATCHED(name, type, wide_offset(type), name##_few, wide_unpack, wide_tiles)             \
    MATMUL_LINE(name##_line, name##_few, type, line_wide)
MATMUL_WIDE(matmul_q4_w_vnni, BLOCK_Q4_W)
MATMUL_WIDE(matmul_q8_w_vnni, BLOCK_Q8_W)
MATMUL_WIDE(matmul_pq2_0_vnni, BLOCK_PQ2_0)

void matmul_init_wide_avx512vnni(kernel_table *table, kernel_panel_order order)
{
    /* Not ahead: the models that these types were made for are in a cache. */
    const bool in_line = order != KERNEL_PANELS_APART;
    table->matmul[BLOCK_Q4_W] = in_line ? matmul_q4_w_vnni_line : matmul_q4_w_vnni;
    table->matmul[BLOCK_PQ2_0] = in_line ? matmul_pq2_0_vnni_line : matmul_pq2_0_vnni;
    table->matmul[BLOCK_Q8_W] = in_line ? matmul_q8_w_vnni_line : matmul_q8_w_vnni;
}
