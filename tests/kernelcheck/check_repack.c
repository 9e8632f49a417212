/* check_repack.c - panels have exactly the values of the file. */
#include "test_blocks.h"

static const uint32_t widths[] = {1,   7,   32,  64,  96,   128,  160,  224, 256,
                                  512, 768, 896, 992, 1024, 2048, 2880, 4864};

/* Every row of a panel has the values of its blocks; missing rows are zero; no byte of
 * a panel depends on what was there before. */
static void check_panel(block_type type, uint32_t n_rows, uint32_t n_cols, test_mode mode)
{
    size_t row_bytes;
    const size_t panel_bytes = kernel_panel_bytes(type, n_cols);
    CHECK(block_row_bytes(type, n_cols, &row_bytes));
    if (panel_bytes % 64 != 0) kc_fail("panel of %zu bytes", panel_bytes);
    uint8_t *rows = kc_buffer(n_rows * row_bytes, 1);
    uint8_t *panel = kc_buffer(panel_bytes, 64), *other = kc_buffer(panel_bytes, 64);
    float *want = kc_buffer(n_cols * sizeof *want, 4), *got = kc_buffer(n_cols * sizeof *got, 4);
    test_blocks_fill(type, rows, (size_t)n_rows * n_cols, mode);
    memset(other, 0x3c, panel_bytes);
    kernel_repack(type, panel, rows, n_rows, n_cols);
    kernel_repack(type, other, rows, n_rows, n_cols);
    if (memcmp(panel, other, panel_bytes) != 0)
        kc_fail("%u rows of %u: a byte was not written", n_rows, n_cols);
    for (uint32_t r = 0; r < KERNEL_PANEL_ROWS; r++) {
        kernel_panel_row(type, got, panel, r, n_cols);
        if (r < n_rows) {
            char what[64];
            snprintf(what, sizeof what, "mode %d, row %u of %u, width %u", (int)mode, r, n_rows,
                     n_cols);
            block_decode(type, want, rows + r * row_bytes, n_cols);
            kc_compare(want, got, n_cols, what);
        } else {
            for (uint32_t k = 0; k < n_cols; k++)
                if (got[k] != 0.0f) kc_fail("missing row %u: %a", r, (double)got[k]);
        }
    }
    kc_release();
}

static void bench_panel(block_type type)
{
    enum { N_COLS = 4096, N_PANELS = 64 };
    size_t row_bytes;
    CHECK(block_row_bytes(type, N_COLS, &row_bytes));
    const size_t panel_bytes = kernel_panel_bytes(type, N_COLS);
    uint8_t *rows = kc_buffer(N_PANELS * KERNEL_PANEL_ROWS * row_bytes, 64);
    uint8_t *panels = kc_buffer(N_PANELS * panel_bytes, 64);
    test_blocks_fill(type, rows, (size_t)N_PANELS * KERNEL_PANEL_ROWS * N_COLS, TEST_RANDOM);
    KC_BENCH("1024 rows", N_PANELS * KERNEL_PANEL_ROWS * row_bytes, "GB/s",
             for (size_t p = 0; p < N_PANELS; p++)
                 kernel_repack(type, panels + p * panel_bytes,
                               rows + p * KERNEL_PANEL_ROWS * row_bytes, KERNEL_PANEL_ROWS,
                               N_COLS));
    kc_release();
}

void kc_check_repack(const kernel_table *ref, const kernel_table *level)
{
    static const uint32_t n_rows[] = {16, 1, 11};
    if (ref != level) return; /* one implementation serves all levels */
    for (size_t i = 0; i < n_test_types; i++) {
        const block_type type = test_types[i];
        char name[32];
        snprintf(name, sizeof name, "repack_%s", block_name(type));
        if (!kc_begin_named(name)) continue;
        for (size_t w = 0; w < ARRAY_LEN(widths); w++) {
            if (widths[w] % block_values(type) != 0) {
                if (kernel_panel_bytes(type, widths[w]) != 0) kc_fail("width %u", widths[w]);
                continue;
            }
            for (size_t r = 0; r < ARRAY_LEN(n_rows); r++)
                check_panel(type, n_rows[r], widths[w], (test_mode)((w + r) % TEST_MODE_END));
        }
        if (kc_benching()) bench_panel(type);
        kc_end();
    }
}
