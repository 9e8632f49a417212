/* check_matmul.c - weights times activations: every type, shape, count of tokens. */
#include <math.h>

#include "base/memory.h"
#include "test_blocks.h"

enum {
    TOKENS_MAX = 73,
    WIDE = 256,       /* columns; of wider rows, */
    TOKENS_WIDE = 41, /* this many tokens at most */
    GAP = 3           /* floats between the outputs of tokens, to see them untouched */
};

/* The widest is beyond TILE_LINE_COLS. */
static const uint32_t widths[] = {1,   3,   32,  64,  96,   128, 160,
                                  256, 512, 896, 1024, 2880, 6400};
static const uint32_t token_counts[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 15, 16, 17,
                                        33, 36, TOKENS_WIDE, TOKENS_MAX};
/* The ones for emulated kernels: 15 is three tiles of 5, or one of 15; 17 tiles of
 * 6, 6 and 5, or two of 9 that overlap; 73 two chunks of 37 and 36, of seven tiles and six, or of
 * three each, or eleven tiles of 7 and 6. */
static bool is_slow_count(uint32_t n_tokens)
{
    return n_tokens > 2 && n_tokens != 15 && n_tokens != 17 && n_tokens != TOKENS_MAX;
}

typedef struct {
    block_type type;
    uint32_t n_panels, n_cols, n_rows, stride, n_tokens;
    test_mode mode;
    size_t row_bytes, x_bytes; /* of a row of blocks, of the activations of one token */
    uint8_t *rows, *panels, *x;
    float *want;
} matmul_case;

/* The factor of a panel: as if panels were experts of their own. */
static float factor_of(const matmul_case *c, uint32_t panel)
{
    if (!kernel_panel_has_factor(c->type)) return 1.0f;
    return c->mode == TEST_DENORMALS ? 0x1p-120f : 0.37f * (float)(panel + 1);
}

static void case_open(matmul_case *c)
{
    const size_t panel_bytes = kernel_panel_bytes(c->type, c->n_cols);
    const bool acts = kernel_takes_acts(c->type);
    c->n_rows = c->n_panels * KERNEL_PANEL_ROWS;
    c->stride = c->n_rows + GAP;
    c->n_tokens = c->n_cols <= WIDE ? TOKENS_MAX : TOKENS_WIDE;
    CHECK(block_row_bytes(c->type, c->n_cols, &c->row_bytes));
    c->x_bytes = acts ? kernel_n_groups(c->n_cols) * sizeof(kernel_act)
                      : c->n_cols * sizeof(float);
    c->rows = kc_buffer(c->n_rows * c->row_bytes, 1);
    c->panels = kc_buffer(c->n_panels * panel_bytes, 64);
    c->want = kc_buffer((size_t)c->n_tokens * c->stride * sizeof *c->want, 4);
    c->x = kc_buffer(c->n_tokens * c->x_bytes, 4);
    test_blocks_fill(c->type, c->rows, (size_t)c->n_rows * c->n_cols, c->mode);
    for (uint32_t p = 0; p < c->n_panels; p++) {
        uint8_t *panel = c->panels + p * panel_bytes;
        kernel_repack(c->type, panel, c->rows + p * KERNEL_PANEL_ROWS * c->row_bytes,
                      KERNEL_PANEL_ROWS, c->n_cols);
        if (kernel_panel_has_factor(c->type))
            kernel_panel_set_factor(c->type, panel, factor_of(c, p));
    }
    if (acts)
        test_acts_fill(c->type, (kernel_act *)(void *)c->x, c->n_cols, c->n_tokens, c->mode);
    else
        test_floats_fill((float *)(void *)c->x, (size_t)c->n_tokens * c->n_cols, c->mode);
}

/* Value k of token t, decoded. */
static double act_value(const matmul_case *c, uint32_t t, uint32_t k)
{
    const uint8_t *x = c->x + t * c->x_bytes;
    if (!kernel_takes_acts(c->type)) return (double)((const float *)(const void *)x)[k];
    const kernel_act *act = (const kernel_act *)(const void *)x + k / KERNEL_GROUP;
    return (double)act->scale[k % KERNEL_GROUP / KERNEL_BLOCK] * act->q[k % KERNEL_GROUP];
}

/* The reference against decoded weights in double: rounding in float loses at most a few units
 * of the last place for each block; one wrong quant of one weight is above this. */
static void check_truth(const matmul_case *c)
{
    float *w = kc_buffer(c->n_cols * sizeof *w, 4);
    for (uint32_t r = 0; r < c->n_rows; r++) {
        block_decode(c->type, w, c->rows + r * c->row_bytes, c->n_cols);
        double largest = 0;
        for (uint32_t k = 0; k < c->n_cols; k++) w[k] *= factor_of(c, r / KERNEL_PANEL_ROWS);
        for (uint32_t k = 0; k < c->n_cols; k++) largest = fmax(largest, fabs((double)w[k]));
        for (uint32_t t = 0; t < c->n_tokens; t++) {
            double sum = 0, size = 0;
            for (uint32_t k = 0; k < c->n_cols; k++) {
                const double x = act_value(c, t, k);
                sum += (double)w[k] * x;
                size += fabs(x);
            }
            const double got = (double)c->want[t * c->stride + r];
            if (!(fabs(got - sum) <= largest * size * 4e-6 + 0x1p-140))
                kc_fail("panels %u, width %u, mode %d: y[%u][%u] = %a, should be %a", c->n_panels,
                        c->n_cols, (int)c->mode, t, r, got, sum);
        }
    }
}

static void check_case(matmul_case *c, const kernel_table *ref, const kernel_table *level)
{
    case_open(c);
    ref->matmul[c->type](c->want, c->stride, c->panels, c->x, c->n_panels, c->n_cols,
                         c->n_tokens);
    if (ref == level) check_truth(c);
    for (size_t i = 0; i < ARRAY_LEN(token_counts); i++) {
        const uint32_t n_tokens = token_counts[i];
        if (ref == level && n_tokens > 2) break; /* the definition works token by token */
        if (n_tokens > c->n_tokens || (kc_slow() && is_slow_count(n_tokens))) continue;
        const size_t n = (size_t)(n_tokens - 1) * c->stride + c->n_rows;
        char what[64];
        snprintf(what, sizeof what, "panels %u, width %u, mode %d, tokens %u", c->n_panels,
                 c->n_cols, (int)c->mode, n_tokens);
        float *got = kc_buffer(n * sizeof *got, 4);
        level->matmul[kernel_panel_type(c->type)](got, c->stride, c->panels, c->x, c->n_panels,
                                                  c->n_cols, n_tokens);
        kc_compare(c->want, got, n, what);
    }
    kc_release();
}

/* ---- benchmarks ---- */

/* Weights in the second-level cache, in the third, in memory, for one token and for some.
 * In memory: slices of a map, one after the other, so that none is in a cache. */
enum { MAP_BYTES = 256 << 20, SLICE_BYTES = 16 << 20 };

static const struct {
    const char *what;
    size_t bytes;
    uint32_t n_tokens;
    bool cold, at_ref; /* the others would take seconds there */
} bench_runs[] = {
    {"L2", 384 << 10, 1, false, true},
    {"L3", 6 << 20, 1, false, false},
    {"DRAM", SLICE_BYTES, 1, true, false},
    {"L2, 2 tokens", 384 << 10, 2, false, false},
    {"L2, 4 tokens", 384 << 10, 4, false, false},
    {"L2, 8 tokens", 384 << 10, 8, false, false},
    {"L2, 16 tokens", 384 << 10, 16, false, false},
    {"DRAM, 2 tokens", SLICE_BYTES, 2, true, false},
    {"DRAM, 4 tokens", SLICE_BYTES, 4, true, false},
    {"DRAM, 8 tokens", SLICE_BYTES, 8, true, false},
    {"DRAM, 16 tokens", SLICE_BYTES, 16, true, false},
};

/* The next slice of whole panels. */
static const uint8_t *next_slice(const uint8_t *map, size_t size, size_t *at)
{
    *at = *at + 2 * size > MAP_BYTES ? 0 : *at + size;
    return map + *at;
}

static void bench_type(block_type type, const kernel_table *ref, const kernel_table *level)
{
    enum { N_COLS = 4096, X_TOKENS = 72, BATCH_PANELS = 8 };
    const size_t panel_bytes = kernel_panel_bytes(type, N_COLS);
    uint8_t *rows = kc_buffer(KERNEL_PANEL_ROWS * N_COLS * sizeof(float), 64);
    void *x = kc_buffer(X_TOKENS * N_COLS * sizeof(float), 64);
    test_blocks_fill(type, rows, KERNEL_PANEL_ROWS * N_COLS, TEST_RANDOM);
    if (kernel_takes_acts(type))
        test_acts_fill(type, x, N_COLS, X_TOKENS, TEST_RANDOM);
    else
        test_floats_fill(x, (size_t)X_TOKENS * N_COLS, TEST_RANDOM);
    uint8_t *panels = memory_map(MAP_BYTES);
    CHECK(panels);
    kernel_repack(type, panels, rows, KERNEL_PANEL_ROWS, N_COLS);
    for (size_t at = panel_bytes; at + panel_bytes <= MAP_BYTES; at += panel_bytes)
        memcpy(panels + at, panels, panel_bytes);
    for (size_t i = 0; i < ARRAY_LEN(bench_runs); i++) {
        if (ref == level && !bench_runs[i].at_ref) continue;
        const uint32_t n_panels = (uint32_t)(bench_runs[i].bytes / panel_bytes);
        const uint32_t n_rows = n_panels * KERNEL_PANEL_ROWS, n_tokens = bench_runs[i].n_tokens;
        const size_t bytes_read = n_panels * panel_bytes;
        float *y = kc_buffer((size_t)n_rows * n_tokens * sizeof *y, 64);
        const uint8_t *from = panels;
        size_t at = 0;
        KC_BENCH(bench_runs[i].what, bytes_read, "GB/s",
                 level->matmul[type](y, n_rows, from, x, n_panels, N_COLS, n_tokens);
                 if (bench_runs[i].cold) from = next_slice(panels, bytes_read, &at));
    }
    const uint32_t n_rows = BATCH_PANELS * KERNEL_PANEL_ROWS;
    float *y = kc_buffer((size_t)n_rows * X_TOKENS * sizeof *y, 64);
    if (ref != level)
        KC_BENCH("72 tokens", 2.0 * n_rows * N_COLS * X_TOKENS, "Gop/s",
                 level->matmul[type](y, n_rows, panels, x, BATCH_PANELS, N_COLS, X_TOKENS));
    memory_unmap(panels, MAP_BYTES);
}

typedef uint64_t wide __attribute__((vector_size(32)));

static void read_all(const wide *p, size_t n, wide *sum)
{
    for (size_t i = 0; i < n; i += 4) {
        sum[0] += p[i];
        sum[1] += p[i + 1];
        sum[2] += p[i + 2];
        sum[3] += p[i + 3];
    }
}

/* The rate of one core that reads memory in one stream, for comparison. */
static void bench_memory(void)
{
    wide sum[4] = {{0}};
    if (!kc_begin_named("memory")) return;
    uint8_t *map = memory_map(MAP_BYTES);
    CHECK(map);
    memset(map, 1, MAP_BYTES);
    size_t at = 0;
    KC_BENCH("read", SLICE_BYTES, "GB/s",
             read_all((const wide *)(const void *)next_slice(map, SLICE_BYTES, &at),
                      SLICE_BYTES / sizeof(wide), sum));
    if (sum[0][0] == 1) kc_fail("the sum is used, so that it is made");
    memory_unmap(map, MAP_BYTES);
    kc_end();
}

void kc_check_matmul(const kernel_table *ref, const kernel_table *level)
{
    for (size_t i = 0; i < n_test_types; i++) {
        const block_type type = test_types[i];
        char name[32];
        snprintf(name, sizeof name, "matmul_%s", block_name(type));
        /* Types in panels of another type use its kernel, but have their own contents. */
        const bool is_guest = kernel_panel_type(type) != type;
        if (is_guest ? !level->matmul[kernel_panel_type(type)] || !kc_begin_named(name)
                     : !kc_begin((kc_fn)level->matmul[type], name))
            continue;
        for (uint32_t w = 0; w < ARRAY_LEN(widths); w++) {
            if (widths[w] % block_values(type) != 0 || (is_guest && widths[w] > WIDE)) continue;
            for (int mode = 0; mode < TEST_MODE_END; mode++) {
                const bool is_wide = widths[w] > 2 * WIDE;
                if (kc_slow() && is_wide && mode != TEST_RANDOM && mode != TEST_MIXED) continue;
                matmul_case c = {.type = type,
                                 .n_panels = widths[w] > 1000 ? 1 + w % 2 : 1 + (w + mode) % 5,
                                 .n_cols = widths[w],
                                 .mode = (test_mode)mode};
                if (!kc_slow() || c.n_panels <= 3) check_case(&c, ref, level);
            }
        }
        if (kc_benching() && !is_guest) bench_type(type, ref, level);
        kc_end();
    }
    if (ref == level && kc_bench_wanted()) bench_memory();
}
