/* tiles.h - the walk over tokens and panels that the matmul of every instruction set shares.
 *
 * A tile is a pass over some panels for some tokens: tokens share the unpacking of weights.  With
 * one or two tokens, several panels at once are several streams from memory: one core reads 18
 * GB/s in one stream and 27 in four (Zen 3), because its prefetchers run ahead in each. */
#ifndef KERNELS_TILES_H
#define KERNELS_TILES_H

#include "kernels/panels.h"

enum {
    TILE_PANELS = 4, /* panels that are walked together */
    TILE_SMALL = 4,  /* there are tiles of 1, 2, 3 and 4 tokens */
    TILE_WIDE = 8,   /* and of 8, where there are registers for it */
    TILE_LINE = 7,   /* tokens of a panel computed alone (matmul_line), at most */
    TILE_LINE_COLS = 6144, /* a single token takes several wider panels at once anyway */
    TILE_LINE_AHEAD = 9216, /* bytes: more than a core reads of one stream while memory answers */
    TILE_ONE_AHEAD = 4608   /* the same for one token of KERNEL_PANELS_AHEAD */
};

/* Arrays of registers stay registers only when the loops over them disappear. */
#ifdef PANEL_SMALL_CODE
#define UNROLLED
#elif defined(__clang__)
#define UNROLLED _Pragma("clang loop unroll(full)")
#else
#define UNROLLED _Pragma("GCC unroll 8")
#endif

/* What a tile asks for of the tile after it, while it is in its last group: the processor's own
 * prefetchers see a stream only after some misses, and a panel of 896 columns in four bits is 8 KB,
 * so a fifth of the time would go by in seeing.  Eight lines a stream are enough, and more of them,
 * or earlier ones, displace what is being read (docs/performance.md, Decoding).
 *   next: where the first stream continues; the others, stride bytes one after another.  After the
 *   last panel of a matrix that is memory which may not be there, which a prefetch may ask for. */
enum { TILE_AHEAD_LINES = 8 };
PANEL_INLINE void tile_prefetch(uintptr_t next, uint32_t n_streams, size_t stride, uint32_t first,
                                uint32_t n_lines)
{
    UNROLLED for (uint32_t p = 0; p < n_streams; p++)
        UNROLLED for (uint32_t i = 0; i < n_lines; i++)
            __builtin_prefetch((const void *)(next + p * stride +
                                              (size_t)PANEL_LINE * (first + i)));
}

/* n_p panels, n_t tokens; both are the tile's own.
 *   y: [n_t][y_stride]; panels: [n_p], panel_bytes apart; x: [n_t][kernel_n_groups(n_cols)] */
typedef void matmul_tile_fn(float *restrict y, size_t y_stride, const uint8_t *restrict panels,
                            size_t panel_bytes, const kernel_act *restrict x, uint32_t n_cols);

typedef struct {
    matmul_tile_fn *one[TILE_SMALL]; /* one panel for 1, 2, 3, 4 tokens */
    matmul_tile_fn *many_by_1;       /* n_many panels, at most TILE_PANELS, for one token */
    matmul_tile_fn *two_by_2;        /* two panels for two tokens */
    matmul_tile_fn *one_by_8;        /* one panel for eight tokens, or NULL */
    uint32_t n_many;
} matmul_tiles;

/* Up to four panels for all tokens [begin, end). */
static inline void matmul_panels(const matmul_tiles *tiles, float *y, size_t y_stride,
                                 const uint8_t *panels, size_t panel_bytes, uint32_t n_panels,
                                 const kernel_act *x, uint32_t n_cols, uint32_t n_tokens)
{
    for (uint32_t t = 0, n_t; t < n_tokens; t += n_t) {
        n_t = n_tokens - t < TILE_SMALL ? n_tokens - t : TILE_SMALL;
        if (tiles->one_by_8 && n_tokens - t >= TILE_WIDE) n_t = TILE_WIDE;
        for (uint32_t p = 0, n_p; p < n_panels; p += n_p) {
            matmul_tile_fn *tile = n_t == TILE_WIDE ? tiles->one_by_8 : tiles->one[n_t - 1];
            n_p = 1;
            if (n_t == 1 && n_panels - p >= tiles->n_many)
                tile = tiles->many_by_1, n_p = tiles->n_many;
            if (n_t == 2 && n_panels - p >= 2) tile = tiles->two_by_2, n_p = 2;
            tile(y + t * y_stride + p * KERNEL_PANEL_ROWS, y_stride, panels + p * panel_bytes,
                 panel_bytes, x + (size_t)t * kernel_n_groups(n_cols), n_cols);
        }
    }
}

/* Tokens in blocks whose activations stay in the second-level cache while panels stream by;
 * within a block, panels stay in the caches while tiles of tokens pass. */
static inline void matmul_tiled(const matmul_tiles *tiles, size_t panel_bytes, float *y,
                                size_t y_stride, const uint8_t *panels, const kernel_act *x,
                                uint32_t n_panels, uint32_t n_cols, uint32_t n_tokens)
{
    enum { ACTS_BYTES = 192 << 10 };
    const uint32_t n_groups = kernel_n_groups(n_cols);
    const uint32_t fit = ACTS_BYTES / (n_groups * (uint32_t)sizeof *x) / TILE_WIDE * TILE_WIDE;
    const uint32_t step = fit > TILE_WIDE ? fit : TILE_WIDE;
    for (uint32_t t = 0; t < n_tokens; t += step) {
        const uint32_t n_t = n_tokens - t < step ? n_tokens - t : step;
        for (uint32_t p = 0; p < n_panels; p += TILE_PANELS) {
            const uint32_t n_p = n_panels - p < TILE_PANELS ? n_panels - p : TILE_PANELS;
            matmul_panels(tiles, y + t * y_stride + p * KERNEL_PANEL_ROWS, y_stride,
                          panels + p * panel_bytes, panel_bytes, n_p, x + (size_t)t * n_groups,
                          n_cols, n_t);
        }
    }
}

/* Panels one after the other, as they lie in memory: one stream, for processors that read one as
 * fast as four.  It does not begin anew with each tile, so nothing is waited for there
 * (docs/decisions/0038-one-stream-where-one-is-enough.md).  Tokens in parts of like sizes.
 *   tiles: [1 .. TILE_LINE] one panel for this many tokens */
static inline void matmul_line(matmul_tile_fn *const tiles[TILE_LINE + 1], size_t panel_bytes,
                               float *y, size_t y_stride, const uint8_t *panels,
                               const kernel_act *x, uint32_t n_panels, uint32_t n_cols,
                               uint32_t n_tokens)
{
    const uint32_t n_tiles = (n_tokens + TILE_LINE - 1) / TILE_LINE;
    for (uint32_t p = 0; p < n_panels; p++, panels += panel_bytes, y += KERNEL_PANEL_ROWS)
        for (uint32_t i = 0, t = 0, n_t; i < n_tiles; i++, t += n_t) {
            n_t = (n_tokens - t + n_tiles - i - 1) / (n_tiles - i);
            tiles[n_t](y + t * y_stride, y_stride, panels, panel_bytes,
                       x + (size_t)t * kernel_n_groups(n_cols), n_cols);
        }
}

/* Tiles of a template(type, n_panels, n_tokens, ...) and the kernel made of them.
 *   n_many: panels at once for one token; tile_of_8: one panel for eight tokens, or NULL */
#define MATMUL_TILE(name, n_p, n_t, type, template)                                                \
    static void name##_##n_p##_by_##n_t(float *restrict y, size_t y_stride,                        \
                                        const uint8_t *restrict panels, size_t panel_bytes,        \
                                        const kernel_act *restrict x, uint32_t n_cols)             \
    {                                                                                              \
        template(type, n_p, n_t, y, y_stride, panels, panel_bytes, x, n_cols);                     \
    }
#define MATMUL_TILED(name, type, template, n_many, tile_of_8)                                      \
    MATMUL_TILE(name, 1, 1, type, template)                                                        \
    MATMUL_TILE(name, 1, 2, type, template)                                                        \
    MATMUL_TILE(name, 1, 3, type, template)                                                        \
    MATMUL_TILE(name, 1, 4, type, template)                                                        \
    MATMUL_TILE(name, n_many, 1, type, template)                                                   \
    MATMUL_TILE(name, 2, 2, type, template)                                                        \
    static void name(float *restrict y, size_t y_stride, const void *restrict panels,              \
                     const void *restrict x, uint32_t n_panels, uint32_t n_cols,                   \
                     uint32_t n_tokens)                                                            \
    {                                                                                              \
        static const matmul_tiles tiles = {                                                        \
            {name##_1_by_1, name##_1_by_2, name##_1_by_3, name##_1_by_4},                          \
            name##_##n_many##_by_1,                                                                \
            name##_2_by_2,                                                                         \
            tile_of_8,                                                                             \
            n_many};                                                                               \
        matmul_tiled(&tiles, kernel_panel_bytes(type, n_cols), y, y_stride, panels, x, n_panels,   \
                     n_cols, n_tokens);                                                            \
    }

/* name: by lines of panels; but one token with long rows, whose activations do not stay in the
 * first-level cache from panel to panel, by few, where four panels share them (measured; the bits
 * are the same). */
#define MATMUL_LINE(name, few, type, template)                                                     \
    MATMUL_TILE(name, 1, 1, type, template)                                                        \
    MATMUL_TILE(name, 1, 2, type, template)                                                        \
    MATMUL_TILE(name, 1, 3, type, template)                                                        \
    MATMUL_TILE(name, 1, 4, type, template)                                                        \
    MATMUL_TILE(name, 1, 5, type, template)                                                        \
    MATMUL_TILE(name, 1, 6, type, template)                                                        \
    MATMUL_TILE(name, 1, 7, type, template)                                                        \
    static void name(float *restrict y, size_t y_stride, const void *restrict panels,              \
                     const void *restrict x, uint32_t n_panels, uint32_t n_cols,                   \
                     uint32_t n_tokens)                                                            \
    {                                                                                              \
        static matmul_tile_fn *const tiles[TILE_LINE + 1] = {                                      \
            NULL,          name##_1_by_1, name##_1_by_2, name##_1_by_3,                            \
            name##_1_by_4, name##_1_by_5, name##_1_by_6, name##_1_by_7};                           \
        if (n_tokens == 1 && n_cols > TILE_LINE_COLS)                                              \
            few(y, y_stride, panels, x, n_panels, n_cols, n_tokens);                               \
        else                                                                                       \
            matmul_line(tiles, kernel_panel_bytes(type, n_cols), y, y_stride, panels, x, n_panels, \
                        n_cols, n_tokens);                                                         \
    }

/* name: one token by a template that asks for what comes, all else by `line`. */
#define MATMUL_AHEAD(name, line, type, template)                                                   \
    MATMUL_TILE(name, 1, 1, type, template)                                                        \
    static void name(float *restrict y, size_t y_stride, const void *restrict panels,              \
                     const void *restrict x, uint32_t n_panels, uint32_t n_cols,                   \
                     uint32_t n_tokens)                                                            \
    {                                                                                              \
        static matmul_tile_fn *const tiles[TILE_LINE + 1] = {NULL, name##_1_by_1};                 \
        if (n_tokens == 1)                                                                         \
            matmul_line(tiles, kernel_panel_bytes(type, n_cols), y, y_stride, panels, x, n_panels, \
                        n_cols, n_tokens);                                                         \
        else                                                                                       \
            line(y, y_stride, panels, x, n_panels, n_cols, n_tokens);                              \
    }

#endif
