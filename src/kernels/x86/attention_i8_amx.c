/* attention_i8_amx.c - attention on 8 bits with tiles, for more rows than AVX-512 VNNI likes.
 *
 * Both sums are products of tiles as pages have them: 16 fours of channels of 16 keys are the
 * second operand for [rows][64 channels] of queries, and 16 fours of tokens, all of a page, of 16
 * channels of values for [rows][64 tokens] of weights.  Sums are exact, so they are those of every
 * other kernel.  The softmax between them is that of AVX-512.
 *
 * tests/kernelcheck/attention_tiles_emulated.c compiles this file for machines without these
 * instructions. */
#include "kernels/x86/attend_i8_avx512.h"

#include <pthread.h>

#include "kernels/x86/amx.h"
#include "kernels/x86/choice.h"

/* Numbers of tiles: the intrinsics take digits alone. */
#define SUM_0 0
#define SUM_1 1
#define SUM_2 2
#define SUM_3 3
#define ROWS_WHOLE 4 /* 64 channels of queries, or weights */
#define PAGE_WHOLE 5 /* what they are multiplied by */
#define ROWS_REST 6  /* the channels of queries after the last 64 of them */
#define PAGE_REST 7

enum {
    TILE_ROWS_MAX = AMX_ROWS,
    DEEP = AMX_ROW_BYTES, /* channels, or tokens, that a product sums */
    KEY_STEP = 4 * KERNEL_PAGE /* bytes from four channels of the keys to the next four */
};
_Static_assert((int)KERNEL_PAGE == (int)DEEP, "a product sums the tokens of a page");

/* Shapes of tiles for n rows; rows: those that they have. */
static inline void shape_tiles(uint32_t *rows, uint32_t n, uint32_t channels)
{
    const uint32_t rest = channels % DEEP;
    amx_shapes shapes = {.palette = 1};
    if (*rows == n) return;
    for (uint32_t i = SUM_0; i <= ROWS_WHOLE; i++) {
        shapes.row_bytes[i] = AMX_ROW_BYTES;
        shapes.rows[i] = (uint8_t)n;
    }
    shapes.row_bytes[PAGE_WHOLE] = AMX_ROW_BYTES;
    shapes.rows[PAGE_WHOLE] = DEEP / 4;
    if (rest) {
        shapes.row_bytes[ROWS_REST] = (uint16_t)rest;
        shapes.rows[ROWS_REST] = (uint8_t)n;
        shapes.row_bytes[PAGE_REST] = AMX_ROW_BYTES;
        shapes.rows[PAGE_REST] = (uint8_t)(rest / 4);
    }
    _tile_loadconfig(&shapes);
    *rows = n;
}

/* Lines of what a tile is loaded from, on the next page. */
static inline void fetch_ahead(const uint8_t *ahead, size_t step, uint32_t rows)
{
    for (uint32_t i = 0; i < rows; i++) __builtin_prefetch(ahead + i * step, 0, 2);
}

/* Bytes from one row to the next where that is the same for all of them, else 0. */
static size_t stride_of(const int32_t *const *words, uint32_t rows)
{
    const ptrdiff_t stride = rows > 1 ? words[1] - words[0] : AMX_ROW_BYTES / 4;
    for (uint32_t r = 2; r < rows; r++)
        if (words[r] - words[r - 1] != stride) return 0;
    return (size_t)stride * sizeof **words;
}

/* sum += queries times 16 keys. */
#define ADD_KEYS(sum, i, rows_tile, page_tile)                                                     \
    do {                                                                                           \
        _tile_loadd(page_tile, bytes + AMX_ROW_BYTES * (i), KEY_STEP);                             \
        _tile_dpbsud(sum, rows_tile, page_tile);                                                   \
    } while (0)
#define ADD_PAGE_OF_KEYS(rows_tile, page_tile)                                                     \
    do {                                                                                           \
        _tile_loadd(rows_tile, q, stride);                                                         \
        ADD_KEYS(SUM_0, 0, rows_tile, page_tile);                                                  \
        ADD_KEYS(SUM_1, 1, rows_tile, page_tile);                                                  \
        ADD_KEYS(SUM_2, 2, rows_tile, page_tile);                                                  \
        ADD_KEYS(SUM_3, 3, rows_tile, page_tile);                                                  \
    } while (0)

static void sums_of_keys(int32_t dots[TILE_ROWS_MAX][KERNEL_PAGE], const int32_t *const *words,
                         const uint8_t *bytes, const uint8_t *ahead, uint32_t channels,
                         uint32_t rows)
{
    _Alignas(64) int8_t gathered[TILE_ROWS_MAX][KV_I8_CHANNELS_MAX];
    const int8_t *q = (const void *)words[0];
    size_t stride = stride_of(words, rows);
    uint32_t left = channels;
    if (stride == 0) {
        for (uint32_t r = 0; r < rows; r++) memcpy(gathered[r], words[r], channels);
        q = gathered[0];
        stride = sizeof gathered[0];
    }
    amx_all_stored();
    _tile_zero(SUM_0);
    _tile_zero(SUM_1);
    _tile_zero(SUM_2);
    _tile_zero(SUM_3);
    for (; left >= DEEP; left -= DEEP, q += DEEP) {
        ADD_PAGE_OF_KEYS(ROWS_WHOLE, PAGE_WHOLE);
        fetch_ahead(ahead, AMX_ROW_BYTES, KERNEL_PAGE);
        bytes += DEEP / 4 * KEY_STEP;
        ahead += DEEP / 4 * KEY_STEP;
    }
    if (left) {
        ADD_PAGE_OF_KEYS(ROWS_REST, PAGE_REST);
        fetch_ahead(ahead, AMX_ROW_BYTES, left);
    }
    _tile_stored(SUM_0, dots[0], sizeof dots[0]);
    _tile_stored(SUM_1, dots[0] + 16, sizeof dots[0]);
    _tile_stored(SUM_2, dots[0] + 32, sizeof dots[0]);
    _tile_stored(SUM_3, dots[0] + 48, sizeof dots[0]);
    amx_all_stored();
}

/* sum = weights times 16 channels of the page's values. */
#define MULTIPLY_VALUES(sum, t)                                                                    \
    do {                                                                                           \
        _tile_zero(sum);                                                                           \
        _tile_loadd(PAGE_WHOLE, bytes + AMX_ROW_BYTES * (t), step);                                \
        _tile_dpbusd(sum, ROWS_WHOLE, PAGE_WHOLE);                                                 \
    } while (0)
#define STORE_VALUES(sum, t) _tile_stored(sum, sums[0] + 16 * (t), sizeof sums[0])

/* sums[rows][channels] of all tokens of the page: those outside [4 quad, 4 quad_end) weigh 0. */
static void sums_of_values(int32_t sums[TILE_ROWS_MAX][KV_I8_CHANNELS_MAX],
                           const int32_t *const *weights, const uint8_t *bytes,
                           const uint8_t *ahead, uint32_t quad, uint32_t quad_end,
                           uint32_t channels, uint32_t rows)
{
    const size_t step = (size_t)4 * channels;
    uint32_t t = 0;
    (void)quad, (void)quad_end;
    amx_all_stored();
    _tile_loadd(ROWS_WHOLE, weights[0], stride_of(weights, rows));
    for (; t + 4 <= channels / 16; t += 4) {
        MULTIPLY_VALUES(SUM_0, t);
        MULTIPLY_VALUES(SUM_1, t + 1);
        MULTIPLY_VALUES(SUM_2, t + 2);
        MULTIPLY_VALUES(SUM_3, t + 3);
        fetch_ahead(ahead + 4 * DEEP * t, AMX_ROW_BYTES, KERNEL_PAGE);
        STORE_VALUES(SUM_0, t);
        STORE_VALUES(SUM_1, t + 1);
        STORE_VALUES(SUM_2, t + 2);
        STORE_VALUES(SUM_3, t + 3);
    }
    for (; t < channels / 16; t++) {
        MULTIPLY_VALUES(SUM_0, t);
        fetch_ahead(ahead + 16 * AMX_ROW_BYTES * t, AMX_ROW_BYTES, 16);
        STORE_VALUES(SUM_0, t);
    }
    amx_all_stored();
}

#include "kernels/x86/attend_i8.h"

/* ---- which kernel ---- */

static void attend_i8_tiles(kernel_softmax_state *restrict state, float *restrict out,
                            const void *restrict queries, const kernel_kv_page *restrict pages,
                            uint32_t n_pages, const uint32_t *restrict first,
                            const uint32_t *restrict end, uint32_t n_q, uint32_t head_dim)
{
    attend_i8(state, out, queries, pages, n_pages, first, end, n_q, head_dim);
    _tile_release();
}

/* Written once, before the first table is handed out. */
static struct {
    kernel_attend_fn *few;
    uint32_t rows_min;
} chosen;

static void attend_i8_amx(kernel_softmax_state *restrict state, float *restrict out,
                          const void *restrict queries, const kernel_kv_page *restrict pages,
                          uint32_t n_pages, const uint32_t *restrict first,
                          const uint32_t *restrict end, uint32_t n_q, uint32_t head_dim)
{
    kernel_attend_fn *fn = n_q < chosen.rows_min ? chosen.few : attend_i8_tiles;
    fn(state, out, queries, pages, n_pages, first, end, n_q, head_dim);
}

static void choose(void)
{
    kernel_table below = {.name = NULL};
    kernel_attention_i8_init_avx512vnni(&below);
    chosen.few = below.attend[KERNEL_KV_I8];
    chosen.rows_min = attend_rows_min(chosen.few, attend_i8_tiles);
}

void kernel_attention_i8_init_amx(kernel_table *table)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    CHECK(pthread_once(&once, choose) == 0);
    table->attend[KERNEL_KV_I8] = attend_i8_amx;
}
