/* matmul_avx512vnni.c - matmul with 8-bit dot products of four: one register is sixteen rows.
 *
 * dpbusd multiplies unsigned by signed bytes and wraps in 32 bits, where nothing here comes near:
 * 128 * 255 * 127 * 128 < 2^30.  All quants are made unsigned by an offset, and what the offset
 * adds is taken away through the sums of activations: exact, so the bits are the reference's.
 *
 * tests/kernelcheck/emulated.c compiles this file for machines without these instructions. */
#include "kernels/x86/matmul_batch_avx512.h"

#include "kernels/matmul.h"

/* ---- quants ---- */

/* What an unsigned quant is above its value. */
PANEL_INLINE int32_t quant_offset(block_type type)
{
    switch (type) {
    case BLOCK_Q1_0:
    case BLOCK_Q2_0: return 1;
    case BLOCK_Q4_0: return 8;
    case BLOCK_Q5_0: return 16;
    case BLOCK_Q6_K: return 32;
    case BLOCK_MXFP4:
    case BLOCK_NVFP4: return 12;
    case BLOCK_Q8_0:
    case BLOCK_IQ3_S:
    case BLOCK_IQ4_NL:
    case BLOCK_IQ4_XS: return 128;
    case BLOCK_Q2_K:
    case BLOCK_Q4_1:
    case BLOCK_Q5_1:
    case BLOCK_Q4_K:
    case BLOCK_Q5_K:
    case BLOCK_PQ2_0:
    case BLOCK_Q4_W:
    case BLOCK_Q8_W: /* matmul_wide_avx512vnni.c */
    PANEL_CASES_NONE: break;
    }
    return 0;
}

/* The table of a type whose nibbles are numbers of values, with the offset; else unused. */
PANEL_INLINE __m512i quant_table(block_type type)
{
    __m128i v = _mm_setzero_si128();
    if (panel_is_fp4(type))
        v = _mm_setr_epi8(12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0);
    if (type == BLOCK_IQ4_NL || type == BLOCK_IQ4_XS)
        v = _mm_xor_si128(_mm_setr_epi8(-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38,
                                        53, 69, 89, 113),
                          _mm_set1_epi8((char)0x80));
    return _mm512_broadcast_i32x4(v);
}

/* The same of a superblock, which may say it itself. */
PANEL_INLINE __m512i super_table(block_type type, const uint8_t *super)
{
    if (!panel_has_levels(type)) return quant_table(type);
    return _mm512_xor_si512(load_levels(super), _mm512_set1_epi8((char)0x80));
}

/* How many chains of sums a block has for n of them: the instruction takes five cycles, so few sums
 * have two each.  Halves that have scales of their own are kept apart. */
PANEL_INLINE uint32_t n_chains(block_type type, uint32_t n)
{
    return n < 5 || panel_small(type) == 16 ? 2 : 1;
}

/* Whether the high nibbles of a block stay where they are in their bytes, sixteen times what they
 * are: their chain is shifted once in place of four vectors of weights. */
PANEL_INLINE bool high_stays(block_type type, uint32_t n)
{
    const bool is_nibble = type == BLOCK_Q4_0 || type == BLOCK_Q4_1 || type == BLOCK_Q4_K;
    return is_nibble && n_chains(type, n) == 2;
}

/* dot[i][k / 16] += the products of a block of panel i / n_t and token i % n_t; all in dot[i][0]
 * where there is one chain.
 *   table: what the nibbles mean, or unused
 *   block: of the first panel, the others panel_bytes after
 *   q: of the first token for these columns, the others q_stride after */
PANEL_INLINE void block_dots(block_type type, uint32_t n_p, uint32_t n_t, __m512i dot[TILE_WIDE][2],
                             __m512i table, const uint8_t *block, size_t panel_bytes,
                             const int8_t *q, size_t q_stride)
{
    UNROLLED for (uint32_t step = 0; step < 8; step++) {
        const uint32_t k4 = step / 2 + step % 2 * 4;
        UNROLLED for (uint32_t p = 0; p < n_p; p++) {
            const uint8_t *at = block + p * panel_bytes;
            const __m512i w = k4 >= 4 && high_stays(type, n_p * n_t)
                                  ? _mm512_and_si512(_mm512_load_si512(at + PANEL_LINE * (k4 % 4)),
                                                     _mm512_set1_epi8((char)0xf0))
                                  : unpack_quants(type, at, k4, table);
            UNROLLED for (uint32_t t = 0; t < n_t; t++) {
                __m512i *sum = &dot[p * n_t + t][k4 / 4 % n_chains(type, n_p * n_t)];
                *sum = _mm512_dpbusd_epi32(*sum, w, broadcast_word(q + t * q_stride + 4 * k4));
            }
        }
    }
}

/* The dots of a block, of both chains.  |16 dot| <= 16 * 240 * 127 < 2^19, a multiple of 16. */
PANEL_INLINE __m512i whole_dot(block_type type, uint32_t n, const __m512i dot[2])
{
    if (n_chains(type, n) == 1) return dot[0];
    return _mm512_add_epi32(dot[0], high_stays(type, n) ? _mm512_srai_epi32(dot[1], 4) : dot[1]);
}

/* y = acc */
PANEL_INLINE void store_tile(uint32_t n_p, uint32_t n_t, float *y, size_t y_stride,
                             const __m512 *acc)
{
    UNROLLED for (uint32_t i = 0; i < n_p * n_t; i++)
        _mm512_storeu_ps(y + i % n_t * y_stride + i / n_t * KERNEL_PANEL_ROWS, acc[i]);
}

/* ---- types whose scales are for blocks, or for their halves ---- */

/* acc = fma(dot * scale, d, acc) and fma(sum32 * scale, m, acc) for block b of a group, or for its
 * halves, one after the other. */
PANEL_INLINE void block_sums(block_type type, uint32_t n_p, uint32_t n_t, __m512 acc[TILE_WIDE],
                             const uint8_t *group, const uint8_t *block, size_t panel_bytes,
                             uint32_t b, const kernel_act *x, uint32_t x_stride)
{
    const bool halves = panel_block_scales(type) == 2;
    __m512i dot[TILE_WIDE][2];
    UNROLLED for (uint32_t i = 0; i < n_p * n_t; i++) {
        const kernel_act *act = x + i % n_t * x_stride;
        const int32_t sum = halves ? act->sum16[2 * b] : act->sum32[b];
        dot[i][0] = _mm512_set1_epi32(-quant_offset(type) * sum);
        dot[i][1] = halves ? _mm512_set1_epi32(-quant_offset(type) * act->sum16[2 * b + 1])
                           : _mm512_setzero_si512();
    }
    block_dots(type, n_p, n_t, dot, quant_table(type), block, panel_bytes, x->q + b * PANEL_BLOCK,
               x_stride * sizeof *x);
    UNROLLED for (uint32_t i = 0; i < n_p * n_t; i++) {
        const uint8_t *head = group + i / n_t * panel_bytes + panel_head_at(type, b);
        const kernel_act *act = x + i % n_t * x_stride;
        UNROLLED for (uint32_t s = 0; s < panel_block_scales(type); s++) {
            const __m512i all = halves ? dot[i][s] : whole_dot(type, n_p * n_t, dot[i]);
            const __m512 v = _mm512_mul_ps(_mm512_cvtepi32_ps(all),
                                           _mm512_set1_ps(act->scale[b]));
            acc[i] = _mm512_fmadd_ps(v, load_block_scale(type, head, s), acc[i]);
        }
        if (panel_has_min(type))
            acc[i] = _mm512_fmadd_ps(_mm512_set1_ps((float)act->sum32[b] * act->scale[b]),
                                     load_halves(head + 32), acc[i]);
    }
}

/* order: not apart: one panel of a line of them (matmul_line) */
PANEL_INLINE void walk_groups(block_type type, kernel_panel_order order, uint32_t n_p, uint32_t n_t,
                              float *y, size_t y_stride, const uint8_t *panel, size_t panel_bytes,
                              const kernel_act *x, uint32_t n_cols)
{
    const uint32_t n_groups = kernel_n_groups(n_cols);
    const uint32_t n_lines = panel_quant_bytes(type) / PANEL_LINE + 1; /* of a block and its head */
    const uintptr_t next = (uintptr_t)panel + n_p * panel_bytes;
    const uint8_t *factors = panel;
    __m512 acc[TILE_WIDE];
    UNROLLED for (uint32_t i = 0; i < n_p * n_t; i++) acc[i] = _mm512_setzero_ps();
    panel += panel_lead_bytes(type);
    for (uint32_t g = 0; g < n_groups; g++) {
        const uint32_t n_blocks = panel_group_blocks(n_cols, g);
        const uint8_t *block = panel + panel_group_head(type, n_blocks);
        const bool last = g + 1 == n_groups;
        if (n_p == TILE_PANELS && last)
            tile_prefetch(next, n_p, panel_bytes, 0, TILE_AHEAD_LINES);
        const uintptr_t ahead = last ? next : (uintptr_t)panel + panel_group_bytes(type, n_blocks);
        for (uint32_t b = 0; b < n_blocks; b++, block += panel_quant_bytes(type)) {
            if (n_t == 2 && n_p == 2) /* two streams: all of the next group, block by block */
                tile_prefetch(ahead, n_p, panel_bytes, n_lines * b, n_lines);
            if (line_asks(type, order, n_t))
                line_prefetch(type, order, panel, n_lines * b, n_lines);
            block_sums(type, n_p, n_t, acc, panel, block, panel_bytes, b, x + g, n_groups);
        }
        panel += panel_group_bytes(type, n_blocks);
    }
    const uint32_t n_scaled = panel_lead_bytes(type) ? n_p * n_t : 0;
    UNROLLED for (uint32_t i = 0; i < n_scaled; i++)
        acc[i] = _mm512_mul_ps(acc[i], _mm512_load_ps(factors + i / n_t * panel_bytes));
    store_tile(n_p, n_t, y, y_stride, acc);
}
WALKS(groups)
WALK_AHEAD(groups)

/* ---- types with a scale for 256 values ---- */

/* What minima or offsets add for a token: small scales by sums of activations. */
PANEL_INLINE __m512i side_sums(block_type type, const uint8_t *scales, const kernel_act *act)
{
    const uint32_t n_pairs = KERNEL_GROUP / panel_small(type) / 2;
    const int16_t *sums = panel_small(type) == 16 ? act->sum16 : act->sum32;
    const uint8_t *from = scales + (panel_has_min(type) ? panel_smalls_bytes(type) : 0);
    __m512i side = _mm512_setzero_si512();
    UNROLLED for (uint32_t i = 0; i < n_pairs; i++)
        side = _mm512_dpwssd_epi32(side, load_pairs(type, from + 32 * i),
                                   broadcast_word(sums + 2 * i));
    return side;
}

/* total = the scaled integer products of half a superblock.
 *   ahead: of KERNEL_PANELS_AHEAD what to ask for on the way, a few lines with each block: half a
 *   superblock's lines at once would fill the queue of loads */
PANEL_INLINE void half_dots(block_type type, kernel_panel_order order, uint32_t n_p, uint32_t n_t,
                            __m512i total[TILE_WIDE], __m512i table, const uint8_t *ahead,
                            const uint8_t *scales, const uint8_t *block, size_t panel_bytes,
                            const int8_t *q, size_t q_stride)
{
    const uint32_t n_lines = (panel_super_bytes(type) / PANEL_LINE + 7) / 8; /* of 8 blocks */
    UNROLLED for (uint32_t i = 0; i < n_p * n_t; i++) total[i] = _mm512_setzero_si512();
    for (uint32_t b = 0; b < PANEL_BLOCKS; b++, block += panel_quant_bytes(type)) {
        if (order == KERNEL_PANELS_AHEAD) line_prefetch(type, order, ahead, n_lines * b, n_lines);
        __m512i dot[TILE_WIDE][2];
        UNROLLED for (uint32_t i = 0; i < n_p * n_t; i++)
            dot[i][0] = dot[i][1] = _mm512_setzero_si512();
        block_dots(type, n_p, n_t, dot, table, block, panel_bytes, q + b * PANEL_BLOCK, q_stride);
        UNROLLED for (uint32_t i = 0; i < n_p * n_t; i++) {
            /* A pair of scales belongs to one block, or to two. */
            const bool halves = panel_small(type) == 16;
            const uint8_t *pair = scales + i / n_t * panel_bytes + 32 * (halves ? b : b / 2);
            const __m512i first = load_scales(type, pair, halves ? 0 : b % 2);
            if (halves) {
                dot[i][0] = _mm512_mullo_epi32(dot[i][0], first);
                dot[i][1] = _mm512_mullo_epi32(dot[i][1], load_scales(type, pair, 1));
            }
            __m512i v = whole_dot(type, n_p * n_t, dot[i]);
            if (!halves) v = _mm512_mullo_epi32(v, first);
            total[i] = _mm512_add_epi32(total[i], v);
        }
    }
}

/* acc = fma(sum, scale, acc) for half a superblock. */
PANEL_INLINE void half_sums(block_type type, kernel_panel_order order, uint32_t n_p, uint32_t n_t,
                            __m512 acc[TILE_WIDE], const uint8_t *super, size_t panel_bytes,
                            uint32_t half, const kernel_act *x, uint32_t x_stride)
{
    const uint8_t *scales = super + 64 + half * PANEL_BLOCKS * panel_small_bytes(type);
    const uint8_t *block = super + panel_head_bytes(type) +
                           half * PANEL_BLOCKS * panel_quant_bytes(type);
    __m512i total[TILE_WIDE];
    half_dots(type, order, n_p, n_t, total, super_table(type, super),
              super + half * (panel_super_bytes(type) / 2), scales, block, panel_bytes, x->q,
              x_stride * sizeof *x);
    UNROLLED for (uint32_t i = 0; i < n_p * n_t; i++) {
        const size_t at = i / n_t * panel_bytes;
        const kernel_act *act = x + i % n_t * x_stride;
        const __m512i side = side_sums(type, scales + at, act);
        /* quant_offset as a power of two: 32 or 128 */
        if (!panel_has_min(type))
            total[i] = _mm512_sub_epi32(total[i],
                                        _mm512_slli_epi32(side, type == BLOCK_Q6_K ? 5 : 7));
        __m512 sum = _mm512_mul_ps(load_super_d(type, super + at), _mm512_cvtepi32_ps(total[i]));
        if (panel_has_min(type))
            sum = _mm512_fnmadd_ps(load_halves(super + at + 32), _mm512_cvtepi32_ps(side), sum);
        acc[i] = _mm512_fmadd_ps(sum, _mm512_set1_ps(act->scale[0]), acc[i]);
    }
}

PANEL_INLINE void walk_supers(block_type type, kernel_panel_order order, uint32_t n_p, uint32_t n_t,
                              float *y, size_t y_stride, const uint8_t *panel, size_t panel_bytes,
                              const kernel_act *x, uint32_t n_cols)
{
    const uint32_t n_groups = kernel_n_groups(n_cols);
    const uint32_t half_lines = (panel_super_bytes(type) / PANEL_LINE + 1) / 2;
    const uintptr_t next = (uintptr_t)panel + n_p * panel_bytes;
    __m512 acc[TILE_WIDE];
    UNROLLED for (uint32_t i = 0; i < n_p * n_t; i++) acc[i] = _mm512_setzero_ps();
    for (uint32_t g = 0; g < n_groups; g++) {
        if (n_p == TILE_PANELS && g + 1 == n_groups)
            tile_prefetch(next, n_p, panel_bytes, 0, TILE_AHEAD_LINES);
        if (n_t == 2 && n_p == 2)
            tile_prefetch(g + 2 < n_groups ? (uintptr_t)panel + panel_super_bytes(type) : next, n_p,
                          panel_bytes, g % 2 * half_lines, half_lines);
        if (order == KERNEL_PANELS_IN_LINE && line_asks(type, order, n_t))
            line_prefetch(type, order, panel, g % 2 * half_lines, half_lines);
        half_sums(type, order, n_p, n_t, acc, panel, panel_bytes, g % 2, x + g, n_groups);
        panel += g % 2 * panel_super_bytes(type);
    }
    store_tile(n_p, n_t, y, y_stride, acc);
}
WALKS(supers)
WALK_AHEAD(supers)

/* ---- many tokens ---- */

PANEL_INLINE void unpack_blocks(block_type type, batch_weights *out, __m512i table,
                                const uint8_t *block, uint32_t n_blocks)
{
    __m512i *to = out->w;
    for (uint32_t b = 0; b < n_blocks; b++, block += panel_quant_bytes(type), to += 8)
        UNROLLED for (uint32_t k4 = 0; k4 < 8; k4++) to[k4] = unpack_quants(type, block, k4, table);
}

/* A group, scales as floats beside the quants. */
PANEL_INLINE void unpack_group(block_type type, batch_weights *out, const uint8_t *panel,
                               uint32_t n_cols, uint32_t g)
{
    const uint32_t n_blocks = panel_group_blocks(n_cols, g);
    const uint8_t *group = panel + batch_group_at(type, n_cols, g);
    for (uint32_t b = 0; b < n_blocks; b++) {
        const uint8_t *head = group + panel_head_at(type, b);
        UNROLLED for (uint32_t s = 0; s < panel_block_scales(type); s++)
            out->d[b * panel_block_scales(type) + s] = load_block_scale(type, head, s);
        if (panel_has_min(type)) out->m[b] = load_halves(head + 32);
    }
    unpack_blocks(type, out, quant_table(type), group + panel_group_head(type, n_blocks),
                  n_blocks);
}

/* Half a superblock, with its small scales. */
PANEL_INLINE void unpack_half(block_type type, batch_weights *out, const uint8_t *panel,
                              uint32_t n_cols, uint32_t g)
{
    const uint32_t n_scales = KERNEL_GROUP / panel_small(type);
    const uint8_t *super = panel + batch_group_at(type, n_cols, g);
    const uint8_t *scales = super + 64 + g % 2 * 16 * n_scales;
    out->d[0] = load_super_d(type, super);
    UNROLLED for (uint32_t s = 0; s < n_scales; s++) {
        const __m512i v = load_scales(type, scales + 32 * (s / 2), s % 2);
        out->factor[s] = batch_adds_floats(type) ? _mm512_castps_si512(_mm512_cvtepi32_ps(v)) : v;
    }
    if (panel_has_min(type)) {
        out->m[0] = load_halves(super + 32);
        UNROLLED for (uint32_t i = 0; i < n_scales / 2; i++)
            out->minima[i] = load_pairs(type, scales + panel_smalls_bytes(type) + 32 * i);
    }
    unpack_blocks(type, out, super_table(type, super),
                  super + panel_head_bytes(type) + g % 2 * PANEL_BLOCKS * panel_quant_bytes(type),
                  PANEL_BLOCKS);
}

BATCH_TILES(plain, BLOCK_Q4_0)
BATCH_TILES(minima, BLOCK_Q4_1)
BATCH_TILES(halves, BLOCK_NVFP4)
BATCH_TILES(super_minima, BLOCK_Q4_K)
BATCH_TILES(super_32, BLOCK_IQ4_XS)
BATCH_TILES(super_16, BLOCK_Q6_K)
BATCH_TILES(super_16_minima, BLOCK_Q2_K)

#define MATMUL_VNNI(name, type, walk, unpack_template, tiles)                                      \
    MATMUL_TILED(name##_few, type, tile_##walk, 4, NULL)                                           \
    MATMUL_BATCHED(name, type, quant_offset(type), name##_few, unpack_template, tiles)             \
    MATMUL_LINE(name##_line, name##_few, type, line_##walk)                                        \
    MATMUL_AHEAD(name##_ahead, name##_line, type, ahead_##walk)
#define VNNI_MAP(X)                                                                                \
    X(matmul_q1_0_vnni, BLOCK_Q1_0, groups, unpack_group, plain_tiles)                             \
    X(matmul_q2_0_vnni, BLOCK_Q2_0, groups, unpack_group, plain_tiles)                             \
    X(matmul_q4_0_vnni, BLOCK_Q4_0, groups, unpack_group, plain_tiles)                             \
    X(matmul_q4_1_vnni, BLOCK_Q4_1, groups, unpack_group, minima_tiles)                            \
    X(matmul_q5_0_vnni, BLOCK_Q5_0, groups, unpack_group, plain_tiles)                             \
    X(matmul_q5_1_vnni, BLOCK_Q5_1, groups, unpack_group, minima_tiles)                            \
    X(matmul_q8_0_vnni, BLOCK_Q8_0, groups, unpack_group, plain_tiles)                             \
    X(matmul_iq4_nl_vnni, BLOCK_IQ4_NL, groups, unpack_group, plain_tiles)                         \
    X(matmul_mxfp4_vnni, BLOCK_MXFP4, groups, unpack_group, plain_tiles)                           \
    X(matmul_nvfp4_vnni, BLOCK_NVFP4, groups, unpack_group, halves_tiles)                          \
    X(matmul_q2_k_vnni, BLOCK_Q2_K, supers, unpack_half, super_16_minima_tiles)                    \
    X(matmul_q4_k_vnni, BLOCK_Q4_K, supers, unpack_half, super_minima_tiles)                       \
    X(matmul_q5_k_vnni, BLOCK_Q5_K, supers, unpack_half, super_minima_tiles)                       \
    X(matmul_q6_k_vnni, BLOCK_Q6_K, supers, unpack_half, super_16_tiles)                           \
    X(matmul_iq3_s_vnni, BLOCK_IQ3_S, supers, unpack_half, super_16_tiles)                         \
    X(matmul_iq4_xs_vnni, BLOCK_IQ4_XS, supers, unpack_half, super_32_tiles)
VNNI_MAP(MATMUL_VNNI)

/* ---- float types ---- */

PANEL_INLINE __m512 load_weights(block_type type, const uint8_t *panel, size_t k)
{
    if (type == BLOCK_F32) return _mm512_load_ps(panel + 64 * k);
    if (type == BLOCK_F16) return load_halves(panel + 32 * k);
    const __m512i v = _mm512_cvtepu16_epi32(load_half_line(panel + 32 * k));
    return _mm512_castsi512_ps(_mm512_slli_epi32(v, 16));
}

/* n_p panels against n_t tokens: one chain of fma a row, n_p * n_t chains at once. */
PANEL_INLINE void tile_floats(block_type type, uint32_t n_p, uint32_t n_t, float *y,
                              size_t y_stride, const uint8_t *panels, size_t panel_bytes,
                              const float *x, uint32_t n_cols)
{
    __m512 acc[4 * 4];
    UNROLLED for (uint32_t i = 0; i < n_p * n_t; i++) acc[i] = _mm512_setzero_ps();
    for (size_t k = 0; k < n_cols; k++) {
        UNROLLED for (uint32_t p = 0; p < n_p; p++) {
            const __m512 w = load_weights(type, panels + p * panel_bytes, k);
            UNROLLED for (uint32_t t = 0; t < n_t; t++)
                acc[p * n_t + t] = _mm512_fmadd_ps(w, _mm512_set1_ps(x[t * (size_t)n_cols + k]),
                                                   acc[p * n_t + t]);
        }
    }
    store_tile(n_p, n_t, y, y_stride, acc);
}

PANEL_INLINE void matmul_floats(block_type type, float *y, size_t y_stride, const uint8_t *panels,
                                const float *x, uint32_t n_panels, uint32_t n_cols,
                                uint32_t n_tokens)
{
    const size_t panel_bytes = kernel_panel_bytes(type, n_cols);
    for (uint32_t p = 0, n_p; p < n_panels; p += n_p) {
        n_p = n_panels - p < 4 ? 1 : 4;
        const uint8_t *at = panels + p * panel_bytes;
        float *out = y + p * KERNEL_PANEL_ROWS;
        for (uint32_t t = 0, n_t; t < n_tokens; t += n_t) {
            n_t = n_tokens - t >= 4 ? 4 : n_tokens - t >= 2 && n_p == 4 ? 2 : 1;
            float *out_t = out + t * y_stride;
            const float *x_t = x + (size_t)t * n_cols;
            if (n_p == 4 && n_t == 4)
                tile_floats(type, 4, 4, out_t, y_stride, at, panel_bytes, x_t, n_cols);
            else if (n_t == 2)
                tile_floats(type, 4, 2, out_t, y_stride, at, panel_bytes, x_t, n_cols);
            else if (n_p == 4)
                tile_floats(type, 4, 1, out_t, y_stride, at, panel_bytes, x_t, n_cols);
            else if (n_t == 4)
                tile_floats(type, 1, 4, out_t, y_stride, at, panel_bytes, x_t, n_cols);
            else
                tile_floats(type, 1, 1, out_t, y_stride, at, panel_bytes, x_t, n_cols);
        }
    }
}

#define MATMUL_FLOATS(name, type)                                                                  \
    static void name(float *restrict y, size_t y_stride, const void *restrict panels,              \
                     const void *restrict x, uint32_t n_panels, uint32_t n_cols,                   \
                     uint32_t n_tokens)                                                            \
    {                                                                                              \
        matmul_floats(type, y, y_stride, panels, x, n_panels, n_cols, n_tokens);                   \
    }
MATMUL_FLOATS(matmul_f32_vnni, BLOCK_F32)
MATMUL_FLOATS(matmul_f16_vnni, BLOCK_F16)
MATMUL_FLOATS(matmul_bf16_vnni, BLOCK_BF16)

void matmul_init_avx512vnni(kernel_table *table, kernel_panel_order order)
{
    table->matmul[BLOCK_F32] = matmul_f32_vnni;
    table->matmul[BLOCK_F16] = matmul_f16_vnni;
    table->matmul[BLOCK_BF16] = matmul_bf16_vnni;
#define SET(name, type, walk, unpack_template, tiles)                                              \
    table->matmul[type] = order == KERNEL_PANELS_APART     ? name                                  \
                          : order == KERNEL_PANELS_IN_LINE ? name##_line                           \
                                                           : name##_ahead;
    VNNI_MAP(SET)
#undef SET
}
