/* attention_avx2.c - attention_ref.c with lanes of eight tokens (scores), then eight channels.
 *
 * Both halves of attention are the same loop: for i in order, acc[r][lane] += coef[r][i] *
 * m[i][lane] by fma, with F16 m.  A tile is that loop for R rows and T vectors of lanes whose sums
 * stay in registers, so that one conversion from F16 serves R rows.  Two fma units of four cycles
 * need 8 sums in flight; 16 registers hold at most 12 beside the operands.
 * Bound: one conversion (8 values) a cycle for one row, 16 products a cycle for many. */
#include "kernels/x86/exp_avx2.h"

#include "kernels/vector.h"

#ifdef __clang__
#define UNROLL _Pragma("unroll")
#else
#define UNROLL _Pragma("GCC unroll 8")
#endif

enum { ROWS_MAX = 6 }; /* rows in a tile */

typedef void tile_fn(float *restrict acc, size_t acc_stride, const float *restrict coef,
                     size_t coef_stride, const uint16_t *restrict m, size_t m_stride, uint32_t n);

static inline __attribute__((always_inline)) void
tile(float *restrict acc, size_t acc_stride, const float *restrict coef, size_t coef_stride,
     const uint16_t *restrict m, size_t m_stride, uint32_t n, const int rows, const int vectors)
{
    __m256 sum[ROWS_MAX][8];
    UNROLL for (int r = 0; r < rows; r++)
        UNROLL for (int t = 0; t < vectors; t++)
            sum[r][t] = _mm256_loadu_ps(acc + r * acc_stride + 8 * t);
    for (uint32_t i = 0; i < n; i++, m += m_stride) {
        /* Of coefficients and lanes, the fewer stay in registers. */
        __m256 c[ROWS_MAX], lane[8];
        UNROLL for (int r = 0; r < rows && rows < vectors; r++)
            c[r] = _mm256_broadcast_ss(coef + r * coef_stride + i);
        UNROLL for (int t = 0; t < vectors; t++) {
            lane[t] = _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(m + 8 * t)));
            UNROLL for (int r = 0; r < rows && rows < vectors; r++)
                sum[r][t] = _mm256_fmadd_ps(c[r], lane[t], sum[r][t]);
        }
        UNROLL for (int r = 0; r < rows && rows >= vectors; r++) {
            c[r] = _mm256_broadcast_ss(coef + r * coef_stride + i);
            UNROLL for (int t = 0; t < vectors; t++)
                sum[r][t] = _mm256_fmadd_ps(c[r], lane[t], sum[r][t]);
        }
    }
    UNROLL for (int r = 0; r < rows; r++)
        UNROLL for (int t = 0; t < vectors; t++)
            _mm256_storeu_ps(acc + r * acc_stride + 8 * t, sum[r][t]);
}

/* X(rows, vectors) */
#define TILE_MAP(X)                                                                                \
    X(1, 1) X(1, 2) X(1, 3) X(1, 4) X(1, 5) X(1, 6) X(1, 7) X(1, 8)                                \
    X(2, 1) X(2, 2) X(2, 3) X(2, 4) X(3, 1) X(3, 2) X(3, 3) X(3, 4)                                \
    X(4, 1) X(4, 2) X(5, 1) X(5, 2) X(6, 1) X(6, 2)

#define TILE_DEFINE(rows, vectors)                                                                 \
    static void tile_##rows##_##vectors(float *restrict acc, size_t acc_stride,                    \
                                        const float *restrict coef, size_t coef_stride,            \
                                        const uint16_t *restrict m, size_t m_stride, uint32_t n)   \
    {                                                                                              \
        tile(acc, acc_stride, coef, coef_stride, m, m_stride, n, rows, vectors);                   \
    }
TILE_MAP(TILE_DEFINE)
#define TILE_ENTRY(rows, vectors) [rows][vectors] = tile_##rows##_##vectors,
static tile_fn *const tiles[ROWS_MAX + 1][9] = {TILE_MAP(TILE_ENTRY)};
static const uint8_t vectors_max[ROWS_MAX + 1] = {0, 8, 4, 4, 2, 2, 2};

/* acc[rows][lanes] += coef[rows][n] . m[n][lanes]; lanes a multiple of 8, in tiles of like size. */
static void accumulate(float *restrict acc, size_t acc_stride, const float *restrict coef,
                       size_t coef_stride, const uint16_t *restrict m, size_t m_stride, uint32_t n,
                       uint32_t rows, uint32_t lanes)
{
    uint32_t vectors = lanes / 8;
    uint32_t left = (vectors + vectors_max[rows] - 1) / vectors_max[rows];
    for (; left; left--) {
        uint32_t take = (vectors + left - 1) / left;
        tiles[rows][take](acc, acc_stride, coef, coef_stride, m, m_stride, n);
        acc += 8 * take;
        m += 8 * take;
        vectors -= take;
    }
}

/* acc[lanes] as above for fewer than 8 lanes and one row. */
static void accumulate_tail(float *restrict acc, const float *restrict coef,
                            const uint16_t *restrict m, size_t m_stride, uint32_t n, uint32_t lanes)
{
    for (uint32_t t = 0; t < lanes; t++) {
        float sum = acc[t];
        for (uint32_t i = 0; i < n; i++) sum = fmaf(coef[i], _cvtsh_ss(m[i * m_stride + t]), sum);
        acc[t] = sum;
    }
}

static inline void store_f16(uint16_t *out, __m256 x)
{
    _mm_storeu_si128((__m128i *)out, _mm256_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT));
}

void kernel_kv_write_avx2(uint16_t *restrict keys, uint16_t *restrict values, uint32_t slot,
                          const float *restrict k, const float *restrict v, uint32_t head_dim)
{
    uint32_t d = 0;
    values += (size_t)slot * head_dim;
    keys += slot;
    for (; d + 8 <= head_dim; d += 8) {
        uint16_t column[8];
        store_f16(values + d, _mm256_loadu_ps(v + d));
        store_f16(column, _mm256_loadu_ps(k + d));
        for (uint32_t i = 0; i < 8; i++) keys[(d + i) * KERNEL_PAGE] = column[i];
    }
    for (; d < head_dim; d++) {
        keys[d * KERNEL_PAGE] = _cvtss_sh(k[d], _MM_FROUND_TO_NEAREST_INT);
        values[d] = _cvtss_sh(v[d], _MM_FROUND_TO_NEAREST_INT);
    }
}

static inline float decay(float old_max, float max)
{
    return old_max == -INFINITY ? 0.0f : kernel_exp(old_max - max);
}

/* out[n] = out * c; nothing for 1, which is the usual case once the maximum was seen. */
static void scale_row(float *out, float c, uint32_t n)
{
    uint32_t d = 0;
    if (c == 1.0f) return;
    for (; d + 8 <= n; d += 8)
        _mm256_storeu_ps(out + d, _mm256_mul_ps(_mm256_loadu_ps(out + d), _mm256_set1_ps(c)));
    for (; d < n; d++) out[d] *= c;
}

/* The 8 slots from j on that lie in [first, end). */
static inline __m256 slots_in_range(uint32_t j, uint32_t first, uint32_t end)
{
    const __m256i lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    __m256i slot = _mm256_add_epi32(lane, _mm256_set1_epi32((int)j));
    __m256i before = _mm256_cmpgt_epi32(_mm256_set1_epi32((int)first), slot);
    __m256i below_end = _mm256_cmpgt_epi32(_mm256_set1_epi32((int)end), slot);
    return _mm256_castsi256_ps(_mm256_andnot_si256(before, below_end));
}

/* Turn scores s[64] into weights, update the state; returns what out is multiplied by. Vectors
 * of s without a slot in [first, end) are not touched. */
static float weigh_row(kernel_softmax_state *state, float *s, uint32_t first, uint32_t end)
{
    const __m256 lowest = _mm256_set1_ps(-INFINITY);
    const uint32_t from = first & ~7u;
    __m256 max8 = lowest, partial[2] = {_mm256_setzero_ps(), _mm256_setzero_ps()};
    for (uint32_t j = from; j < end; j += 8) {
        __m256 in = slots_in_range(j, first, end);
        max8 = _mm256_max_ps(max8, _mm256_blendv_ps(lowest, _mm256_loadu_ps(s + j), in));
    }
    const float max = kernel_max(state->max, max8_avx2(max8)) + 0.0f;
    const float c = decay(state->max, max);
    for (uint32_t j = from; j < end; j += 8) {
        __m256 p = exp_avx2(_mm256_sub_ps(_mm256_loadu_ps(s + j), _mm256_set1_ps(max)));
        p = _mm256_and_ps(p, slots_in_range(j, first, end));
        _mm256_storeu_ps(s + j, p);
        partial[j / 8 % 2] = _mm256_add_ps(partial[j / 8 % 2], p);
    }
    *state = (kernel_softmax_state){
        .max = max,
        .sum = state->sum * c + sum16_avx2(partial[0], partial[1]),
    };
    return c;
}

/* out[rows][head_dim] += p[rows][first .. end) . values */
static void add_values(float *restrict out, const float *restrict p,
                       const uint16_t *restrict values, uint32_t first, uint32_t end, uint32_t rows,
                       uint32_t head_dim)
{
    const uint32_t lanes = head_dim & ~7u, n = end - first;
    if (first >= end) return;
    p += first;
    values += (size_t)first * head_dim;
    accumulate(out, head_dim, p, KERNEL_PAGE, values, head_dim, n, rows, lanes);
    for (uint32_t r = 0; lanes < head_dim && r < rows; r++)
        accumulate_tail(out + (size_t)r * head_dim + lanes, p + r * KERNEL_PAGE, values + lanes,
                        head_dim, n, head_dim - lanes);
}

/* rows <= ROWS_MAX neighbours that all have something to see. */
static void attend_rows(kernel_softmax_state *restrict state, float *restrict out,
                        const float *restrict q, const uint16_t *restrict keys,
                        const uint16_t *restrict values, const uint8_t *first, const uint8_t *end,
                        uint32_t rows, uint32_t head_dim)
{
    _Alignas(32) float s[ROWS_MAX * KERNEL_PAGE];
    uint32_t seen_first = KERNEL_PAGE, seen_end = 0;    /* by any row */
    uint32_t common_first = 0, common_end = KERNEL_PAGE; /* by all of them */
    for (uint32_t r = 0; r < rows; r++) {
        if (first[r] < seen_first) seen_first = first[r];
        if (first[r] > common_first) common_first = first[r];
        if (end[r] > seen_end) seen_end = end[r];
        if (end[r] < common_end) common_end = end[r];
    }
    seen_first &= ~7u;
    seen_end = (seen_end + 7) & ~7u;
    memset(s, 0, rows * KERNEL_PAGE * sizeof *s);
    accumulate(s + seen_first, KERNEL_PAGE, q, head_dim, keys + seen_first, KERNEL_PAGE, head_dim,
               rows, seen_end - seen_first);

    if (common_first > common_end) common_first = common_end = 0;
    for (uint32_t r = 0; r < rows; r++) {
        float *p = s + r * KERNEL_PAGE, *row = out + (size_t)r * head_dim;
        scale_row(row, weigh_row(state + r, p, first[r], end[r]), head_dim);
        if (common_first < common_end)
            add_values(row, p, values, first[r], common_first, 1, head_dim);
    }
    add_values(out, s, values, common_first, common_end, rows, head_dim);
    for (uint32_t r = 0; r < rows; r++) {
        uint32_t from = common_first < common_end ? common_end : first[r];
        add_values(out + (size_t)r * head_dim, s + r * KERNEL_PAGE, values, from, end[r], 1,
                   head_dim);
    }
}

void kernel_attend_page_avx2(kernel_softmax_state *restrict state, float *restrict out,
                             const float *restrict q, const uint16_t *restrict keys,
                             const uint16_t *restrict values, const uint8_t *first,
                             const uint8_t *end, uint32_t n_q, uint32_t head_dim)
{
    for (uint32_t r = 0; r < n_q;) {
        uint32_t run = 0;
        while (r + run < n_q && first[r + run] < end[r + run]) run++;
        if (run == 0) r++;
        for (uint32_t left = (run + ROWS_MAX - 1) / ROWS_MAX; left; left--) {
            uint32_t rows = (run + left - 1) / left;
            size_t at = (size_t)r * head_dim;
            attend_rows(state + r, out + at, q + at, keys, values, first + r, end + r, rows,
                        head_dim);
            r += rows;
            run -= rows;
        }
    }
}

void kernel_attend_join_avx2(kernel_softmax_state *restrict state, float *restrict out,
                             const kernel_softmax_state *restrict from,
                             const float *restrict from_out, uint32_t head_dim)
{
    if (from->max == -INFINITY) return;
    const float max = kernel_max(state->max, from->max) + 0.0f;
    const float c = decay(state->max, max), from_c = decay(from->max, max);
    uint32_t d = 0;
    state->max = max;
    state->sum = fmaf(from->sum, from_c, state->sum * c);
    for (; d + 8 <= head_dim; d += 8) {
        __m256 old = _mm256_mul_ps(_mm256_loadu_ps(out + d), _mm256_set1_ps(c));
        __m256 new = _mm256_fmadd_ps(_mm256_loadu_ps(from_out + d), _mm256_set1_ps(from_c), old);
        _mm256_storeu_ps(out + d, new);
    }
    for (; d < head_dim; d++) out[d] = fmaf(from_out[d], from_c, out[d] * c);
}
