/* attention_i8_avx2.c - attention on 8 bits with vectors of eight lanes.
 *
 * maddubs multiplies unsigned by signed bytes and adds neighbours in 16 bits, with saturation that
 * the scales of queries and weights rule out (kv_i8.h); madd by ones widens.  Bound: two
 * multiplications for 32 products, two of them a cycle. */
#include "kernels/x86/exp_avx2.h"

#include "kernels/kv_i8.h"
#include "kernels/vector.h"
#include "kernels/x86/vf_avx2.h"

/* Of 16 registers: 8 sums, 2 vectors of bytes, ones, an operand of a row, what is on its way. */
enum { TILE_ROWS_MAX = 4 };

static inline __m256i load_ints(const void *from)
{
    return _mm256_loadu_si256((const __m256i *)from);
}
static inline void store_ints(void *to, __m256i x) { _mm256_storeu_si256((__m256i *)to, x); }
static inline vf vf_ints(const int32_t *x) { return _mm256_cvtepi32_ps(load_ints(x)); }

#ifdef __clang__
#define UNROLL _Pragma("unroll")
#else
#define UNROLL _Pragma("GCC unroll 8")
#endif

typedef enum { OF_KEYS, OF_VALUES } bytes_of;

/* out[rows][vectors of 8] = sums over n words of a row (four channels, or four tokens) times the
 * four bytes of each lane: keys are unsigned, or weights are.
 *   step: bytes from word to word; ahead: fetched at the same pace */
static inline __attribute__((always_inline)) void
tile(int32_t *restrict out, size_t out_stride, const int32_t *const *restrict words,
     const uint8_t *restrict bytes, const uint8_t *ahead, size_t step, uint32_t n,
     const uint32_t rows, const uint32_t vectors, const bytes_of of)
{
    const __m256i ones = _mm256_set1_epi16(1);
    __m256i sum[TILE_ROWS_MAX][4];
    UNROLL for (uint32_t r = 0; r < rows; r++)
        UNROLL for (uint32_t t = 0; t < vectors; t++) sum[r][t] = _mm256_setzero_si256();
    for (uint32_t i = 0; i < n; i++, bytes += step, ahead += step) {
        __m256i x[4];
        __builtin_prefetch(ahead);
        if (vectors > 2) __builtin_prefetch(ahead + 64);
        UNROLL for (uint32_t t = 0; t < vectors; t++) x[t] = load_ints(bytes + 32 * t);
        UNROLL for (uint32_t r = 0; r < rows; r++) {
            const __m256i word = _mm256_set1_epi32(words[r][i]);
            UNROLL for (uint32_t t = 0; t < vectors; t++) {
                __m256i y = of == OF_KEYS ? _mm256_maddubs_epi16(x[t], word)
                                          : _mm256_maddubs_epi16(word, x[t]);
                sum[r][t] = _mm256_add_epi32(sum[r][t], _mm256_madd_epi16(y, ones));
            }
        }
    }
    UNROLL for (uint32_t r = 0; r < rows; r++)
        UNROLL for (uint32_t t = 0; t < vectors; t++)
            store_ints(out + r * out_stride + 8 * t, sum[r][t]);
}

typedef void tile_fn(int32_t *restrict out, size_t out_stride, const int32_t *const *restrict words,
                     const uint8_t *restrict bytes, const uint8_t *ahead, size_t step, uint32_t n);

#define TILE_DEFINE(rows, vectors, of)                                                             \
    static void tile_##of##_##rows##_##vectors(                                                    \
        int32_t *restrict out, size_t out_stride, const int32_t *const *restrict words,            \
        const uint8_t *restrict bytes, const uint8_t *ahead, size_t step, uint32_t n)              \
    {                                                                                              \
        tile(out, out_stride, words, bytes, ahead, step, n, rows, vectors, of);                    \
    }
#define TILE_ENTRY(rows, vectors, of) [of][rows][vectors / 4] = tile_##of##_##rows##_##vectors,
/* Two vectors are a line of the cache; few rows take two lines, for streams and sums in flight. */
#define TILE_MAP(X, of)                                                                            \
    X(1, 2, of) X(1, 4, of) X(2, 2, of) X(2, 4, of) X(3, 2, of) X(4, 2, of)
TILE_MAP(TILE_DEFINE, OF_KEYS)
TILE_MAP(TILE_DEFINE, OF_VALUES)
static tile_fn *const tiles[2][TILE_ROWS_MAX + 1][2] = {
    TILE_MAP(TILE_ENTRY, OF_KEYS) TILE_MAP(TILE_ENTRY, OF_VALUES)};

static void sums_of_keys(int32_t dots[TILE_ROWS_MAX][KERNEL_PAGE], const int32_t *const *words,
                         const uint8_t *bytes, const uint8_t *ahead, uint32_t channels,
                         uint32_t rows)
{
    const uint32_t vectors = rows <= 2 ? 4 : 2;
    for (uint32_t t = 0; t < KERNEL_PAGE / 8; t += vectors)
        tiles[OF_KEYS][rows][vectors / 4](&dots[0][8 * t], KERNEL_PAGE, words, bytes + 32 * t,
                                          ahead + 32 * t, (size_t)4 * KERNEL_PAGE, channels / 4);
}

/* sums[rows][channels] of tokens [4 quad, 4 quad_end) */
static void sums_of_values(int32_t sums[TILE_ROWS_MAX][KV_I8_CHANNELS_MAX],
                           const int32_t *const *weights, const uint8_t *bytes,
                           const uint8_t *ahead, uint32_t quad, uint32_t quad_end,
                           uint32_t channels, uint32_t rows)
{
    const size_t step = (size_t)4 * channels;
    const int32_t *words[TILE_ROWS_MAX];
    for (uint32_t r = 0; r < rows; r++) words[r] = weights[r] + quad;
    for (uint32_t t = 0, take; t < channels / 8; t += take) {
        take = rows <= 2 && t + 4 <= channels / 8 ? 4 : 2;
        tiles[OF_VALUES][rows][take / 4](&sums[0][8 * t], KV_I8_CHANNELS_MAX, words,
                                         bytes + quad * step + 32 * t,
                                         ahead + quad * step + 32 * t, step, quad_end - quad);
    }
}

/* The 8 slots from j on that lie in a span. */
static inline __m256 slots_in(kernel_span seen, uint32_t j)
{
    const __m256i lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    __m256i slot = _mm256_add_epi32(lane, _mm256_set1_epi32((int)j));
    __m256i before = _mm256_cmpgt_epi32(_mm256_set1_epi32((int)seen.first), slot);
    __m256i below_end = _mm256_cmpgt_epi32(_mm256_set1_epi32((int)seen.end), slot);
    return _mm256_castsi256_ps(_mm256_andnot_si256(before, below_end));
}

static inline bool is_whole(kernel_span seen) { return seen.first == 0 && seen.end == KERNEL_PAGE; }

/* Scores before the query's scale, in place of their integers; returns the largest in the span. */
static inline __attribute__((always_inline)) float
score(int32_t *dots, int32_t query_offset, const float *restrict key_scale, kernel_span seen,
      const bool whole)
{
    const __m256i offset = _mm256_set1_epi32(query_offset);
    const __m256 lowest = _mm256_set1_ps(-INFINITY);
    __m256 best = lowest;
    UNROLL for (uint32_t j = 0; j < KERNEL_PAGE; j += 8) {
        __m256 s = _mm256_cvtepi32_ps(_mm256_add_epi32(load_ints(dots + j), offset));
        s = _mm256_mul_ps(s, _mm256_loadu_ps(key_scale + j));
        store_ints(dots + j, _mm256_castps_si256(s));
        best = _mm256_max_ps(best, whole ? s : _mm256_blendv_ps(lowest, s, slots_in(seen, j)));
    }
    return max8_avx2(best);
}

static float score_row(int32_t *dots, int32_t query_offset, const float *key_scale,
                       kernel_span seen)
{
    if (is_whole(seen)) return score(dots, query_offset, key_scale, seen, true);
    return score(dots, query_offset, key_scale, seen, false);
}

/* Weights of values in place of scores, 0 outside the span; returns the largest sum of two
 * neighbours, and the sum of exps. */
static inline __attribute__((always_inline)) float
weigh(int32_t *scores, float query_scale, float max, const float *restrict value_scale, float *sum,
      kernel_span seen, const bool whole)
{
    const __m256 scale = _mm256_set1_ps(query_scale), minus = _mm256_set1_ps(-max);
    __m256 top = _mm256_setzero_ps(), partial[2] = {top, top};
    UNROLL for (uint32_t j = 0; j < KERNEL_PAGE; j += 8) {
        const __m256 in = whole ? scale : slots_in(seen, j);
        const __m256 s = _mm256_castsi256_ps(load_ints(scores + j));
        __m256 p = exp_low_avx2(_mm256_fmadd_ps(s, scale, minus));
        if (!whole) p = _mm256_and_ps(p, in);
        partial[j / 8 % 2] = _mm256_add_ps(partial[j / 8 % 2], p);
        p = _mm256_mul_ps(p, _mm256_loadu_ps(value_scale + j));
        if (!whole) p = _mm256_and_ps(p, in);
        top = _mm256_max_ps(top, _mm256_add_ps(p, _mm256_permute_ps(p, 0xb1)));
        store_ints(scores + j, _mm256_castps_si256(p));
    }
    *sum = sum16_avx2(partial[0], partial[1]);
    return max8_avx2(top);
}

static float weigh_row(int32_t *scores, float query_scale, float max, const float *value_scale,
                       float *sum, kernel_span seen)
{
    if (is_whole(seen)) return weigh(scores, query_scale, max, value_scale, sum, seen, true);
    return weigh(scores, query_scale, max, value_scale, sum, seen, false);
}

/* words[KERNEL_PAGE / 4] = weights times inverse, in bytes. */
static void round_row(int32_t *restrict words, const int32_t *restrict weights, float inverse)
{
    const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
    UNROLL for (uint32_t j = 0; j < KERNEL_PAGE; j += 32) {
        __m256i u[4];
        UNROLL for (uint32_t i = 0; i < 4; i++) {
            const __m256 w = _mm256_castsi256_ps(load_ints(weights + j + 8 * i));
            u[i] = _mm256_cvtps_epi32(_mm256_mul_ps(w, _mm256_set1_ps(inverse)));
        }
        u[0] = _mm256_packus_epi16(_mm256_packs_epi32(u[0], u[1]), _mm256_packs_epi32(u[2], u[3]));
        store_ints(words + j / 4, _mm256_permutevar8x32_epi32(u[0], order));
    }
}

/* Registers have one shape. */
static inline void shape_tiles(uint32_t *rows, uint32_t n, uint32_t channels)
{
    (void)rows, (void)n, (void)channels;
}

#include "kernels/x86/attend_i8.h"

/* ---- writing ---- */

/* Stages 1, 2 and 4 of the transform: a + b where sign is 0, b - a where it is -0. */
static inline __m256 stage(__m256 x, __m256 swapped, __m256 sign)
{
    return _mm256_add_ps(swapped, _mm256_xor_ps(x, sign));
}

static void turn(float *x, uint32_t head_dim)
{
    const __m256 sign1 = _mm256_setr_ps(0, -0.0f, 0, -0.0f, 0, -0.0f, 0, -0.0f);
    const __m256 sign2 = _mm256_setr_ps(0, 0, -0.0f, -0.0f, 0, 0, -0.0f, -0.0f);
    const __m256 sign4 = _mm256_setr_ps(0, 0, 0, 0, -0.0f, -0.0f, -0.0f, -0.0f);
    const uint32_t run = kv_i8_run(head_dim);
    if (run < 8) {
        kv_i8_turn(x, head_dim);
        return;
    }
    for (uint32_t i = 0; i < head_dim; i += 8) {
        __m256 a = _mm256_loadu_ps(x + i);
        a = stage(a, _mm256_permute_ps(a, 0xb1), sign1);
        a = stage(a, _mm256_permute_ps(a, 0x4e), sign2);
        a = stage(a, _mm256_permute2f128_ps(a, a, 0x01), sign4);
        _mm256_storeu_ps(x + i, a);
    }
    for (uint32_t h = 8; h < run; h *= 2)
        for (uint32_t i = 0; i < head_dim; i += (i + 8) & h ? 8 + h : 8) {
            const __m256 a = _mm256_loadu_ps(x + i), b = _mm256_loadu_ps(x + i + h);
            _mm256_storeu_ps(x + i, _mm256_add_ps(a, b));
            _mm256_storeu_ps(x + i + h, _mm256_sub_ps(a, b));
        }
}

/* q[head_dim, rounded up to 8] = x, turned and rounded; returns the scale. */
static float quantize(int8_t *restrict q, const float *restrict x, uint32_t head_dim,
                      bool is_query)
{
    _Alignas(32) float turned[KV_I8_CHANNELS_MAX];
    const float most = is_query ? KV_I8_QUERY_MAX : KV_I8_MAX;
    const __m256 sign = _mm256_set1_ps(-0.0f);
    const uint32_t n = (head_dim + 7) / 8 * 8;
    __m256 top8 = _mm256_setzero_ps();
    memset(turned + n - 8, 0, 8 * sizeof *turned);
    memcpy(turned, x, head_dim * sizeof *x);
    turn(turned, head_dim);
    for (uint32_t d = 0; d < n; d += 8) {
        __m256 y = _mm256_andnot_ps(sign, _mm256_load_ps(turned + d));
        if (is_query) y = _mm256_add_ps(y, _mm256_permute_ps(y, 0xb1));
        top8 = _mm256_max_ps(top8, y);
    }
    const float top = max8_avx2(top8);
    const __m256 inverse = _mm256_set1_ps(kv_i8_inverse(top, most));
    for (uint32_t d = 0; d < n; d += 8) {
        __m256i y = _mm256_cvtps_epi32(_mm256_mul_ps(_mm256_load_ps(turned + d), inverse));
        __m128i y16 = _mm_packs_epi32(_mm256_castsi256_si128(y), _mm256_extracti128_si256(y, 1));
        _mm_storel_epi64((__m128i *)(void *)(q + d), _mm_packs_epi16(y16, y16));
    }
    return kv_i8_scale(top, most);
}

static void kv_write_i8(void *restrict keys, void *restrict values, uint32_t slot,
                        const float *restrict k, const float *restrict v, uint32_t head_dim)
{
    kv_i8_write(keys, values, slot, k, v, head_dim, quantize);
}

/* Four channels of four tokens are 16 bytes in both, turned over. */
static void kv_values_i8(void *restrict values, const void *restrict keys, uint32_t head_dim)
{
    const __m128i order = _mm_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    const __m128i offset = _mm_set1_epi8((char)KV_I8_OFFSET);
    const kv_i8_page *from = keys;
    kv_i8_page *to = values;
    const uint32_t channels = kv_i8_channels(head_dim);
    memcpy(to->scale, from->scale, sizeof to->scale);
    for (uint32_t j = 0; j < KERNEL_PAGE; j += 4)
        for (uint32_t d = 0; d < channels; d += 4) {
            const void *four = from->bytes + kv_i8_key_at(d, j);
            __m128i x = _mm_xor_si128(_mm_loadu_si128((const __m128i *)four), offset);
            _mm_storeu_si128((__m128i *)(void *)(to->bytes + kv_i8_value_at(d, j, channels)),
                             _mm_shuffle_epi8(x, order));
        }
}

static void attend_query_i8(void *restrict out, const float *restrict q, uint32_t head_dim)
{
    kv_i8_take_query(out, q, head_dim, quantize);
}

static void attend_result_i8(float *out, uint32_t head_dim)
{
    const float scale = 1.0f / (float)kv_i8_run(head_dim);
    turn(out, head_dim);
    for (uint32_t d = 0; d < head_dim; d++) out[d] *= scale;
}

void kernel_attention_i8_init_avx2(kernel_table *table)
{
    table->kv_write[KERNEL_KV_I8] = kv_write_i8;
    table->kv_values[KERNEL_KV_I8] = kv_values_i8;
    table->attend_query[KERNEL_KV_I8] = attend_query_i8;
    table->attend[KERNEL_KV_I8] = attend_i8;
    table->attend_result[KERNEL_KV_I8] = attend_result_i8;
}
