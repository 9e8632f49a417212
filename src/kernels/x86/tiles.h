/* tiles.h - the walk over tokens and panels that the matmul of every instruction set shares.
 *
 * A tile is a pass over one panel for a fixed number of tokens, which share its unpacking. */
#ifndef KERNELS_X86_TILES_H
#define KERNELS_X86_TILES_H

#include "kernels/panels.h"

enum {
    TILE_SMALL = 4, /* there are tiles of 1, 2, 3 and 4 tokens */
    TILE_WIDE = 8   /* and of 8, where there are registers for it */
};

/* Arrays of registers stay registers only when the loops over them disappear. */
#ifdef PANEL_SMALL_CODE
#define UNROLLED
#elif defined(__clang__)
#define UNROLLED _Pragma("unroll")
#else
#define UNROLLED _Pragma("GCC unroll 8")
#endif

/* y: [n][y_stride]; panel: one; x: [n][kernel_n_groups(n_cols)]; n is the tile's own. */
typedef void matmul_tile_fn(float *restrict y, size_t y_stride, const uint8_t *restrict panel,
                            const kernel_act *restrict x, uint32_t n_cols);

typedef struct {
    matmul_tile_fn *small[TILE_SMALL]; /* for 1, 2, 3, 4 tokens */
    matmul_tile_fn *wide;              /* for TILE_WIDE tokens, or NULL */
} matmul_tiles;

/* Tokens in blocks whose activations stay in the second-level cache while panels stream by;
 * within a block, a panel stays in the first-level cache while tiles of tokens pass. */
static inline void matmul_tiled(const matmul_tiles *tiles, size_t panel_bytes, float *y,
                                size_t y_stride, const uint8_t *panels, const kernel_act *x,
                                uint32_t n_panels, uint32_t n_cols, uint32_t n_tokens)
{
    enum { ACTS_BYTES = 192 << 10 };
    const uint32_t n_groups = kernel_n_groups(n_cols);
    const uint32_t fit = ACTS_BYTES / (n_groups * (uint32_t)sizeof *x) / TILE_WIDE * TILE_WIDE;
    const uint32_t step = fit > TILE_WIDE ? fit : TILE_WIDE;
    for (uint32_t begin = 0; begin < n_tokens; begin += step) {
        const uint32_t end = n_tokens - begin < step ? n_tokens : begin + step;
        for (uint32_t p = 0; p < n_panels; p++) {
            for (uint32_t t = begin, n; t < end; t += n) {
                n = end - t < TILE_SMALL ? end - t : TILE_SMALL;
                matmul_tile_fn *tile = tiles->small[n - 1];
                if (tiles->wide && end - t >= TILE_WIDE) tile = tiles->wide, n = TILE_WIDE;
                tile(y + t * y_stride + p * KERNEL_PANEL_ROWS, y_stride, panels + p * panel_bytes,
                     x + (size_t)t * n_groups, n_cols);
            }
        }
    }
}

/* Tiles of a template(type, n_tokens, ...) and the kernel made of them. */
#define MATMUL_TILE(name, n, type, template)                                                       \
    static void name##_tile_##n(float *restrict y, size_t y_stride, const uint8_t *restrict panel, \
                                const kernel_act *restrict x, uint32_t n_cols)                     \
    {                                                                                              \
        template(type, n, y, y_stride, panel, x, n_cols);                                          \
    }
#define MATMUL_TILED(name, type, template, wide_tile)                                              \
    MATMUL_TILE(name, 1, type, template)                                                           \
    MATMUL_TILE(name, 2, type, template)                                                           \
    MATMUL_TILE(name, 3, type, template)                                                           \
    MATMUL_TILE(name, 4, type, template)                                                           \
    static void name(float *restrict y, size_t y_stride, const void *restrict panels,              \
                     const void *restrict x, uint32_t n_panels, uint32_t n_cols,                   \
                     uint32_t n_tokens)                                                            \
    {                                                                                              \
        static const matmul_tiles tiles = {                                                        \
            {name##_tile_1, name##_tile_2, name##_tile_3, name##_tile_4}, wide_tile};              \
        matmul_tiled(&tiles, kernel_panel_bytes(type, n_cols), y, y_stride, panels, x, n_panels,   \
                     n_cols, n_tokens);                                                            \
    }

#endif
