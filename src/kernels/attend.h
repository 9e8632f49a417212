/* attend.h - attention for any width of vector: the part that instruction sets share.
 *
 * Both halves of attention are the same loop: for i in order, acc[r][lane] += coef[r][i] *
 * m[i][lane] by fma, where m are keys or values in F16 or F32.  Lanes are tokens (scores), then
 * channels (values).  A tile is that loop for R rows and T vectors of lanes whose sums stay in
 * registers, so that one conversion from F16 serves R rows.
 *
 * Before it includes this file, a file defines
 *   vf, VF_LANES                     a vector of floats
 *   vf_load, vf_store, vf_set1       of floats, at any address
 *   kv_value                         what keys and values are stored as: uint16_t (F16) or float
 *   vf_values                        of them at any address, as floats
 *   vf_fma(a, b, c), vf_mul          a b + c, a b
 *   kv_float                         one of them as a float
 *   TILE_MAP(X)                      X(R, T) for the tiles that there shall be: for each R up to
 *                                    TILE_ROWS_MAX all T from 1 to tile_vectors_max[R]; without it
 *                                    those for 32 registers
 *   weigh_row                        see its use
 *   ACCUMULATE_TAIL                  if it has accumulate_tail of its own */
#ifndef KERNELS_ATTEND_H
#define KERNELS_ATTEND_H

#include "kernels/vector.h"

#ifndef TILE_MAP
/* Two fma units of four cycles need 8 sums in flight; of 32 registers, sums take at most 25. */
enum { TILE_ROWS_MAX = 6 };
#define TILE_MAP(X)                                                                                \
    X(1, 1) X(1, 2) X(1, 3) X(1, 4) X(1, 5) X(1, 6) X(1, 7) X(1, 8)                                \
    X(2, 1) X(2, 2) X(2, 3) X(2, 4) X(2, 5) X(2, 6) X(2, 7) X(2, 8)                                \
    X(3, 1) X(3, 2) X(3, 3) X(3, 4) X(3, 5) X(3, 6) X(4, 1) X(4, 2) X(4, 3) X(4, 4) X(4, 5)        \
    X(5, 1) X(5, 2) X(5, 3) X(5, 4) X(5, 5) X(6, 1) X(6, 2) X(6, 3) X(6, 4)
static const uint8_t tile_vectors_max[TILE_ROWS_MAX + 1] = {0, 8, 8, 6, 5, 5, 4};
#endif

/* Arrays of registers stay registers only when the loops over them disappear. */
#ifdef __clang__
#define UNROLL _Pragma("unroll")
#else
#define UNROLL _Pragma("GCC unroll 8")
#endif

/* Prefetch two cache lines for each step of a loop: at + i * step and the next one. With step 0,
 * nothing new. */
typedef struct {
    const kv_value *at;
    size_t step;
} ahead;
enum { AHEAD_MAX = 3, LINE = 64 / sizeof(kv_value) };

static inline __attribute__((always_inline)) void
tile(float *restrict acc, size_t acc_stride, const float *restrict coef, size_t coef_stride,
     const kv_value *restrict m, size_t m_stride, uint32_t n, ahead next, const int rows,
     const int vectors)
{
    vf sum[TILE_ROWS_MAX][8];
    UNROLL for (int r = 0; r < rows; r++)
        UNROLL for (int t = 0; t < vectors; t++)
            sum[r][t] = vf_load(acc + r * acc_stride + VF_LANES * t);
    for (uint32_t i = 0; i < n; i++, m += m_stride) {
        __builtin_prefetch(next.at + i * next.step);
        __builtin_prefetch(next.at + i * next.step + LINE);
        /* Of coefficients and lanes, the fewer stay in registers. */
        vf c[TILE_ROWS_MAX], lanes[8];
        UNROLL for (int r = 0; r < rows && rows < vectors; r++)
            c[r] = vf_set1(coef[r * coef_stride + i]);
        UNROLL for (int t = 0; t < vectors; t++) {
            lanes[t] = vf_values(m + VF_LANES * t);
            UNROLL for (int r = 0; r < rows && rows < vectors; r++)
                sum[r][t] = vf_fma(c[r], lanes[t], sum[r][t]);
        }
        UNROLL for (int r = 0; r < rows && rows >= vectors; r++) {
            c[r] = vf_set1(coef[r * coef_stride + i]);
            UNROLL for (int t = 0; t < vectors; t++)
                sum[r][t] = vf_fma(c[r], lanes[t], sum[r][t]);
        }
    }
    UNROLL for (int r = 0; r < rows; r++)
        UNROLL for (int t = 0; t < vectors; t++)
            vf_store(acc + r * acc_stride + VF_LANES * t, sum[r][t]);
}

typedef void tile_fn(float *restrict acc, size_t acc_stride, const float *restrict coef,
                     size_t coef_stride, const kv_value *restrict m, size_t m_stride, uint32_t n,
                     ahead next);

#define TILE_DEFINE(rows, vectors)                                                                 \
    static void tile_##rows##_##vectors(float *restrict acc, size_t acc_stride,                    \
                                        const float *restrict coef, size_t coef_stride,            \
                                        const kv_value *restrict m, size_t m_stride, uint32_t n,   \
                                        ahead next)                                                \
    {                                                                                              \
        tile(acc, acc_stride, coef, coef_stride, m, m_stride, n, next, rows, vectors);             \
    }
TILE_MAP(TILE_DEFINE)
#define TILE_ENTRY(rows, vectors) [rows][vectors] = tile_##rows##_##vectors,
static tile_fn *const tiles[TILE_ROWS_MAX + 1][9] = {TILE_MAP(TILE_ENTRY)};

/* acc[rows][n_lanes] += coef[rows][n] . m[n][n_lanes] for whole vectors, in tiles of like size.
 *   next: [AHEAD_MAX] for the first tiles, or NULL */
static void accumulate(float *restrict acc, size_t acc_stride, const float *restrict coef,
                       size_t coef_stride, const kv_value *restrict m, size_t m_stride, uint32_t n,
                       uint32_t rows, uint32_t n_lanes, const ahead *next)
{
    const ahead nothing = {.at = m, .step = 0};
    const uint32_t most = tile_vectors_max[rows];
    uint32_t vectors = n_lanes / VF_LANES, left = (vectors + most - 1) / most;
    for (uint32_t i = 0; left; left--, i++) {
        uint32_t take = (vectors + left - 1) / left;
        tiles[rows][take](acc, acc_stride, coef, coef_stride, m, m_stride, n,
                          next && i < AHEAD_MAX ? next[i] : nothing);
        acc += VF_LANES * take;
        m += VF_LANES * take;
        vectors -= take;
    }
}

#ifndef ACCUMULATE_TAIL
/* acc[lanes] += coef[n] . m[n][lanes] for fewer lanes than a vector and one row. */
static void accumulate_tail(float *restrict acc, const float *restrict coef,
                            const kv_value *restrict m, size_t m_stride, uint32_t n, uint32_t lanes)
{
    for (uint32_t t = 0; t < lanes; t++) {
        float sum = acc[t];
        for (uint32_t i = 0; i < n; i++) sum = fmaf(coef[i], kv_float(m[i * m_stride + t]), sum);
        acc[t] = sum;
    }
}
#endif

/* out[n] = out * c; nothing for 1, which is the usual case once the maximum was seen. */
static void scale_row(float *out, float c, uint32_t n)
{
    uint32_t d = 0;
    if (c == 1.0f) return;
    for (; d + VF_LANES <= n; d += VF_LANES)
        vf_store(out + d, vf_mul(vf_load(out + d), vf_set1(c)));
    for (; d < n; d++) out[d] *= c;
}

/* out[rows][head_dim] += p[rows][first .. end) . values */
static void add_values(float *restrict out, const float *restrict p,
                       const kv_value *restrict values, uint32_t first, uint32_t end, uint32_t rows,
                       uint32_t head_dim)
{
    const uint32_t whole = head_dim / VF_LANES * VF_LANES, n = end - first;
    if (first >= end) return;
    p += first;
    values += (size_t)first * head_dim;
    accumulate(out, head_dim, p, KERNEL_PAGE, values, head_dim, n, rows, whole, NULL);
    for (uint32_t r = 0; whole < head_dim && r < rows; r++)
        accumulate_tail(out + (size_t)r * head_dim + whole, p + r * KERNEL_PAGE, values + whole,
                        head_dim, n, head_dim - whole);
}

/* What to prefetch while the scores of a page are computed.  One tile reads all of each line, which
 * the processor predicts.  If the first of several tiles reads only a part of each 128 bytes, it
 * prefetches the rest, and the next tiles the values: from memory, this gives two rows 35 % more
 * speed, and eight rows 15 %.  False: nothing to do. */
static bool plan_ahead(ahead next[AHEAD_MAX], const kv_value *keys, const kv_value *values,
                       uint32_t rows, uint32_t head_dim)
{
    const uint32_t n_tiles = KERNEL_PAGE / VF_LANES / tile_vectors_max[rows];
    if (n_tiles < 2) return false;
    next[0] = (ahead){keys + LINE, KERNEL_PAGE};
    next[1] = (ahead){values, n_tiles == 2 ? 2 * LINE : LINE};
    next[2] = (ahead){values + (size_t)LINE * head_dim, n_tiles == 2 ? 0 : LINE};
    return true;
}

/* rows <= TILE_ROWS_MAX neighbours that all have something to see; cold: the first to see it. */
static void attend_rows(kernel_softmax_state *restrict state, float *restrict out,
                        const float *restrict q, const kv_value *restrict keys,
                        const kv_value *restrict values, const uint8_t *first, const uint8_t *end,
                        uint32_t rows, uint32_t head_dim, bool cold)
{
    ahead next[AHEAD_MAX];
    _Alignas(64) float s[TILE_ROWS_MAX * KERNEL_PAGE];   /* scores, then weights */
    uint32_t seen_first = KERNEL_PAGE, seen_end = 0;     /* by any row */
    uint32_t common_first = 0, common_end = KERNEL_PAGE; /* by all of them */
    for (uint32_t r = 0; r < rows; r++) {
        if (first[r] < seen_first) seen_first = first[r];
        if (first[r] > common_first) common_first = first[r];
        if (end[r] > seen_end) seen_end = end[r];
        if (end[r] < common_end) common_end = end[r];
    }
    if (common_first >= common_end) common_first = common_end = KERNEL_PAGE;
    seen_first = seen_first / VF_LANES * VF_LANES;
    seen_end = (seen_end + VF_LANES - 1) / VF_LANES * VF_LANES;
    cold = cold && plan_ahead(next, keys, values, rows, head_dim);
    memset(s, 0, rows * KERNEL_PAGE * sizeof *s);
    accumulate(s + seen_first, KERNEL_PAGE, q, head_dim, keys + seen_first, KERNEL_PAGE, head_dim,
               rows, seen_end - seen_first, cold ? next : NULL);

    /* A row takes its tokens in order: those before the shared ones, the shared ones together with
     * the other rows, those after. Without shared ones, all come before. */
    for (uint32_t r = 0; r < rows; r++) {
        float *row = out + (size_t)r * head_dim, *p = s + r * KERNEL_PAGE;
        uint32_t before_end = end[r] < common_first ? end[r] : common_first;
        scale_row(row, weigh_row(state + r, p, first[r], end[r]), head_dim);
        add_values(row, p, values, first[r], before_end, 1, head_dim);
    }
    add_values(out, s, values, common_first, common_end, rows, head_dim);
    for (uint32_t r = 0; r < rows; r++)
        add_values(out + (size_t)r * head_dim, s + r * KERNEL_PAGE, values, common_end, end[r], 1,
                   head_dim);
}

/* One page, runs of rows with something to see, in groups of like size. */
static void attend_page(kernel_softmax_state *restrict state, float *restrict out,
                        const float *restrict q, const kernel_kv_page *page,
                        const uint8_t *first, const uint8_t *end, uint32_t n_q, uint32_t head_dim)
{
    bool cold = true;
    for (uint32_t r = 0; r < n_q;) {
        uint32_t run = 0;
        while (r + run < n_q && first[r + run] < end[r + run]) run++;
        if (run == 0) r++;
        for (uint32_t left = (run + TILE_ROWS_MAX - 1) / TILE_ROWS_MAX; left; left--) {
            uint32_t rows = (run + left - 1) / left;
            size_t at = (size_t)r * head_dim;
            attend_rows(state + r, out + at, q + at, page->keys, page->values, first + r, end + r,
                        rows, head_dim, cold);
            cold = false;
            r += rows;
            run -= rows;
        }
    }
}

static void attend(kernel_softmax_state *restrict state, float *restrict out,
                   const void *restrict queries, const kernel_kv_page *restrict pages,
                   uint32_t n_pages, const uint32_t *restrict first, const uint32_t *restrict end,
                   uint32_t n_q, uint32_t head_dim)
{
    enum { ROWS = 64 };
    const float *q = queries;
    for (uint32_t r = 0; r < n_q; r += ROWS) {
        const uint32_t n = n_q - r < ROWS ? n_q - r : ROWS;
        const size_t at = (size_t)r * head_dim;
        for (uint32_t p = 0; p < n_pages; p++) {
            uint8_t page_first[ROWS], page_end[ROWS];
            for (uint32_t i = 0; i < n; i++) {
                const kernel_span seen = kernel_page_span(first[r + i], end[r + i], p);
                page_first[i] = (uint8_t)(seen.first < KERNEL_PAGE ? seen.first : KERNEL_PAGE);
                page_end[i] = (uint8_t)seen.end;
            }
            attend_page(state + r, out + at, q + at, pages + p, page_first, page_end, n, head_dim);
        }
    }
}

#endif
