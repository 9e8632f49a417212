/* check_tiles.c - the simulated machine for AMX, and the choice between kernels. */
#include <math.h>

#include "kernels/panels.h"
#include "test_blocks.h"
#include "tile_machine.h"
#if defined(__x86_64__)
#include "kernels/x86/choice.h"
#endif

enum { TILE_BYTES = 16 * 64 };

/* Rows and bytes of the tiles 0 (sum), 1 and 2 (operands), as a processor reads them. */
static void configure(const uint8_t rows[3], const uint8_t row_bytes[3])
{
    uint8_t config[64] = {1};
    for (int i = 0; i < 3; i++) {
        config[16 + 2 * i] = row_bytes[i];
        config[48 + i] = rows[i];
    }
    tile_machine_loadconfig(config);
}

static int32_t widened(uint8_t v, bool is_signed) { return is_signed ? (int8_t)v : v; }

/* sum += a . b, byte by byte: a [m][4 k], b [k][n][4]. */
static void check_product(uint8_t m, uint8_t k, uint8_t n, tile_signs signs)
{
    const bool a_signed = signs == TILE_SIGNED_SIGNED || signs == TILE_SIGNED_UNSIGNED;
    const bool b_signed = signs == TILE_SIGNED_SIGNED || signs == TILE_UNSIGNED_SIGNED;
    uint8_t a[TILE_BYTES], b[TILE_BYTES];
    int32_t want[16 * 16], got[16 * 16];
    for (int i = 0; i < TILE_BYTES; i++) a[i] = (uint8_t)kc_rand(), b[i] = (uint8_t)kc_rand();
    for (int i = 0; i < 16 * 16; i++) want[i] = got[i] = (int32_t)kc_rand() / 4;
    configure((const uint8_t[3]){m, m, k},
              (const uint8_t[3]){(uint8_t)(4 * n), (uint8_t)(4 * k), (uint8_t)(4 * n)});
    _tile_loadd(0, want, 64);
    _tile_loadd(1, a, 64);
    _tile_loadd(2, b, 64);
    tile_machine_multiply(signs, 0, 1, 2);
    _tile_stored(0, got, 64);
    _tile_release();
    for (uint32_t row = 0; row < m; row++)
        for (uint32_t column = 0; column < n; column++)
            for (uint32_t i = 0; i < 4u * k; i++)
                want[row * 16 + column] += widened(a[row * 64 + i], a_signed) *
                                           widened(b[i / 4 * 64 + 4 * column + i % 4], b_signed);
    if (memcmp(want, got, sizeof want) != 0) kc_fail("%u x %u x %u, signs %d", m, k, n, signs);
}

/* Configurations that a processor refuses. */
static void without_configuration(void) { _tile_zero(0); }
static void of_no_tile(void) { _tile_zero(8); }
static void of_no_shape(void) { _tile_zero(3); }
static void with_itself(void) { _tile_dpbssd(0, 1, 1); }
static void of_other_depth(void) { _tile_dpbssd(0, 2, 1); }
static void of_a_large_shape(void)
{
    configure((const uint8_t[3]){17, 1, 1}, (const uint8_t[3]){64, 64, 64});
}
static void of_wide_rows(void)
{
    configure((const uint8_t[3]){1, 1, 1}, (const uint8_t[3]){64, 65, 64});
}
static void of_rows_of_nothing(void)
{
    configure((const uint8_t[3]){1, 1, 1}, (const uint8_t[3]){64, 0, 64});
}
static void of_another_palette(void)
{
    const uint8_t config[64] = {2};
    tile_machine_loadconfig(config);
}
static void of_reserved_bytes(void)
{
    const uint8_t config[64] = {1, 0, 1};
    tile_machine_loadconfig(config);
}
static void of_a_ninth_tile(void)
{
    const uint8_t config[64] = {1, [16 + 2 * 8] = 64, [48 + 8] = 16};
    tile_machine_loadconfig(config);
}

static void check_faults(void)
{
#define CHECK_FAULT(call)                                                                          \
    if (!tile_machine_faults(call)) kc_fail("%s: no fault", #call)
    CHECK_FAULT(without_configuration);
    configure((const uint8_t[3]){4, 4, 8}, (const uint8_t[3]){64, 32, 64});
    CHECK_FAULT(of_no_tile);
    CHECK_FAULT(of_no_shape);
    CHECK_FAULT(with_itself);
    CHECK_FAULT(of_other_depth);
    CHECK_FAULT(of_a_large_shape);
    CHECK_FAULT(of_wide_rows);
    CHECK_FAULT(of_rows_of_nothing);
    CHECK_FAULT(of_another_palette);
    CHECK_FAULT(of_reserved_bytes);
    CHECK_FAULT(of_a_ninth_tile);
#undef CHECK_FAULT
    if (!tile_machine_configured()) kc_fail("a refused configuration replaced a good one");
    _tile_release();
    if (!tile_machine_faults(without_configuration)) kc_fail("tiles after their release");
}

static void check_machine(void)
{
    if (!kc_begin_named("tile_machine")) return;
    for (int signs = TILE_SIGNED_SIGNED; signs <= TILE_UNSIGNED_UNSIGNED; signs++)
        for (int i = 0; i < 40; i++) {
            uint8_t size[3] = {16, 16, 16};
            for (int j = 0; i > 0 && j < 3; j++) size[j] = (uint8_t)(1 + kc_rand_below(16));
            check_product(size[0], size[1], size[2], (tile_signs)signs);
        }
    check_faults();
    kc_end();
}

/* From n_tokens on, tiles are used, below they are not, and none are left configured. */
static void check_choice(uint32_t n_tokens)
{
    enum { COLS = 256, TOKENS = 20 };
    kernel_table table;
    if (!kc_emulated_choice_init(&table, n_tokens)) return;
    for (size_t i = 0; i < n_test_types; i++) {
        const block_type type = test_types[i];
        if (!table.matmul[type]) continue;
        void *panel = kc_buffer(kernel_panel_bytes(type, COLS), 64);
        kernel_act *x = kc_buffer(TOKENS * kernel_n_groups(COLS) * sizeof *x, 4);
        float *y = kc_buffer(TOKENS * KERNEL_PANEL_ROWS * sizeof *y, 4);
        memset(panel, 0, kernel_panel_bytes(type, COLS));
        test_acts_fill(type, x, COLS, TOKENS, TEST_RANDOM);
        for (uint32_t n = n_tokens - 1; n <= n_tokens + 1; n++) {
            const uint64_t before = tile_machine_n_products();
            table.matmul[type](y, KERNEL_PANEL_ROWS, panel, x, 1, COLS, n);
            if ((tile_machine_n_products() != before) != (n >= n_tokens))
                kc_fail("%s: %u tokens, tiles from %u", block_name(type), n, n_tokens);
            if (tile_machine_configured()) kc_fail("%s: tiles left in use", block_name(type));
        }
        kc_release();
    }
}

/* The same for attention, and for rows of queries. */
static void check_attend_choice(uint32_t n_rows)
{
    enum { HEAD = 80, ROWS = 24 };
    const size_t query_bytes = kernel_query_bytes(KERNEL_KV_I8, HEAD);
    kernel_table table;
    if (!kc_emulated_choice_init(&table, n_rows)) return;
    void *page = kc_buffer(kernel_kv_bytes(KERNEL_KV_I8, HEAD), 64);
    void *queries = kc_buffer(ROWS * query_bytes, 4);
    float *out = kc_buffer(ROWS * HEAD * sizeof *out, 4);
    memset(page, 0, kernel_kv_bytes(KERNEL_KV_I8, HEAD));
    memset(queries, 0, ROWS * query_bytes);
    for (uint32_t n = n_rows - 1; n <= n_rows + 1; n++) {
        const uint64_t before = tile_machine_n_products();
        const kernel_kv_page pages = {page, page};
        kernel_softmax_state state[ROWS];
        uint32_t first[ROWS] = {0}, end[ROWS];
        for (uint32_t r = 0; r < n; r++) {
            state[r] = (kernel_softmax_state){.max = -INFINITY};
            end[r] = KERNEL_PAGE;
        }
        memset(out, 0, ROWS * HEAD * sizeof *out);
        table.attend[KERNEL_KV_I8](state, out, queries, &pages, 1, first, end, n, HEAD);
        if ((tile_machine_n_products() != before) != (n >= n_rows))
            kc_fail("attention: %u rows, tiles from %u", n, n_rows);
        if (tile_machine_configured()) kc_fail("attention: tiles left in use");
    }
    kc_release();
}

#if defined(__x86_64__)
/* Kernels with a cost per token, and with a cost for any number of tokens. */
static void wait_us(uint64_t us)
{
    const uint64_t end = clock_ns() + 1000 * us;
    while (clock_ns() < end) {}
}
#define TIMED_KERNEL(name, us)                                                                     \
    static void name(float *restrict y, size_t y_stride, const void *restrict panels,              \
                     const void *restrict x, uint32_t n_panels, uint32_t n_cols, uint32_t n)       \
    {                                                                                              \
        (void)y, (void)y_stride, (void)panels, (void)x, (void)n_panels, (void)n_cols, (void)n;     \
        wait_us(us);                                                                               \
    }
TIMED_KERNEL(of_ten_a_token, 10 * n)
TIMED_KERNEL(of_fifty, 50)
TIMED_KERNEL(of_a_thousand, 1000)
TIMED_KERNEL(of_one, 1)

#define TIMED_ATTENTION(name, us)                                                                  \
    static void name(kernel_softmax_state *restrict state, float *restrict out,                    \
                     const void *restrict queries, const kernel_kv_page *restrict pages,           \
                     uint32_t n_pages, const uint32_t *restrict first,                             \
                     const uint32_t *restrict end, uint32_t n, uint32_t head_dim)                  \
    {                                                                                              \
        (void)state, (void)out, (void)queries, (void)pages, (void)n_pages, (void)first, (void)end; \
        (void)n, (void)head_dim;                                                                   \
        wait_us(us);                                                                               \
    }
TIMED_ATTENTION(of_ten_a_row, 10 * n)
TIMED_ATTENTION(of_seventy_rows, 70)

static void check_measurement(void)
{
    const uint32_t eight = attend_rows_min(of_ten_a_row, of_seventy_rows);
    if (eight != 8) kc_fail("10 us a row against 70: from %u rows on", eight);
    const uint32_t six = matmul_tokens_min(BLOCK_Q4_0, of_ten_a_token, of_fifty);
    if (six != 6) kc_fail("10 us a token against 50: from %u tokens on", six);
    if (matmul_tokens_min(BLOCK_Q8_0, of_ten_a_token, of_a_thousand) != CHOICE_TOKENS_MAX + 1)
        kc_fail("what never wins was chosen");
    if (matmul_tokens_min(BLOCK_Q6_K, of_ten_a_token, of_one) != 2)
        kc_fail("what always wins was not chosen at once");
}
#else
static void check_measurement(void) {}
#endif

void kc_check_tiles(const kernel_table *ref, const kernel_table *level)
{
    if (ref != level) return;
    check_machine();
    if (!kc_begin_named("tile_choice")) return;
    check_choice(4);
    check_choice(17);
    check_attend_choice(4);
    check_attend_choice(17);
    check_measurement();
    kc_end();
}
