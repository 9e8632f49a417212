/* attention_i8_avx512vnni.c - attention on 8 bits with vectors of sixteen lanes.
 *
 * One instruction multiplies 64 bytes and adds fours of them into 32 bits.  Of 32 registers, sums
 * take 16, bytes 4.  Writing, queries and results stay with AVX2. */
#include "kernels/x86/attend_i8_avx512.h"

enum { TILE_ROWS_MAX = 4 };

typedef enum { OF_KEYS, OF_VALUES } bytes_of;

/* out[rows][vectors of 16] = sums over n words of a row (four channels, or four tokens) times the
 * four bytes of each lane: keys are unsigned, or weights are.
 *   step: bytes from word to word; ahead: fetched at the same pace */
static inline __attribute__((always_inline)) void
tile(int32_t *restrict out, size_t out_stride, const int32_t *const *restrict words,
     const uint8_t *restrict bytes, const uint8_t *ahead, size_t step, uint32_t n,
     const uint32_t rows, const uint32_t vectors, const bytes_of of)
{
    __m512i sum[TILE_ROWS_MAX][4];
    UNROLL for (uint32_t r = 0; r < rows; r++)
        UNROLL for (uint32_t t = 0; t < vectors; t++) sum[r][t] = _mm512_setzero_si512();
    for (uint32_t i = 0; i < n; i++, bytes += step, ahead += step) {
        __m512i x[4];
        UNROLL for (uint32_t t = 0; t < vectors; t++) {
            __builtin_prefetch(ahead + 64 * t, 0, 2);
            x[t] = load_ints(bytes + 64 * t);
        }
        UNROLL for (uint32_t r = 0; r < rows; r++) {
            const __m512i word = _mm512_set1_epi32(words[r][i]);
            UNROLL for (uint32_t t = 0; t < vectors; t++)
                sum[r][t] = of == OF_KEYS ? _mm512_dpbusd_epi32(sum[r][t], x[t], word)
                                          : _mm512_dpbusd_epi32(sum[r][t], word, x[t]);
        }
    }
    UNROLL for (uint32_t r = 0; r < rows; r++)
        UNROLL for (uint32_t t = 0; t < vectors; t++)
            _mm512_storeu_si512(out + r * out_stride + 16 * t, sum[r][t]);
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
#define TILE_ENTRY(rows, vectors, of) [rows][vectors] = tile_##of##_##rows##_##vectors,
#define TILE_MAP(X, vectors, of)                                                                   \
    X(1, vectors, of) X(2, vectors, of) X(3, vectors, of) X(4, vectors, of)
TILE_MAP(TILE_DEFINE, 4, OF_KEYS)
TILE_MAP(TILE_DEFINE, 1, OF_VALUES)
TILE_MAP(TILE_DEFINE, 2, OF_VALUES)
TILE_MAP(TILE_DEFINE, 4, OF_VALUES)
static tile_fn *const key_tiles[TILE_ROWS_MAX + 1][5] = {TILE_MAP(TILE_ENTRY, 4, OF_KEYS)};
static tile_fn *const value_tiles[TILE_ROWS_MAX + 1][5] = {TILE_MAP(TILE_ENTRY, 1, OF_VALUES)
                                                               TILE_MAP(TILE_ENTRY, 2, OF_VALUES)
                                                                   TILE_MAP(TILE_ENTRY, 4,
                                                                            OF_VALUES)};

static void sums_of_keys(int32_t dots[TILE_ROWS_MAX][KERNEL_PAGE], const int32_t *const *words,
                         const uint8_t *bytes, const uint8_t *ahead, uint32_t channels,
                         uint32_t rows)
{
    key_tiles[rows][4](dots[0], KERNEL_PAGE, words, bytes, ahead, (size_t)4 * KERNEL_PAGE,
                       channels / 4);
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
    for (uint32_t t = 0, take; t < channels / 16; t += take) {
        const uint32_t left = channels / 16 - t;
        take = left >= 4 ? 4 : left >= 2 ? 2 : 1;
        value_tiles[rows][take](&sums[0][16 * t], KV_I8_CHANNELS_MAX, words,
                                bytes + quad * step + 64 * t, ahead + quad * step + 64 * t, step,
                                quad_end - quad);
    }
}

/* Registers have one shape. */
static inline void shape_tiles(uint32_t *rows, uint32_t n, uint32_t channels)
{
    (void)rows, (void)n, (void)channels;
}

#include "kernels/x86/attend_i8.h"

void kernel_attention_i8_init_avx512vnni(kernel_table *table)
{
    table->attend[KERNEL_KV_I8] = attend_i8;
}
