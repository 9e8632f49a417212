/* test_head_bounds.c - how far the second product of the output head can move a logit: the bound
 * holds, and is nearly reached by weights parallel to the input's rest. */
#include <math.h>

#include "cpu/pass.h"
#include "model/build.h"

#include "../random.h"
#include "unit.h"

enum { COLS = 512, ROWS = 40, PANELS = 3 };

static float uniform(void) { return (float)random_below(1u << 24) / (float)(1 << 23) - 1.0f; }

/* Both parts of a state as the head reads them; its rest as floats in x. */
static void parts_of(const kernel_table *k, kernel_acts acts, float *x, kernel_act *q)
{
    const uint32_t n_groups = kernel_n_groups(COLS);
    for (int i = 0; i < COLS; i++) x[i] = uniform() * (random_below(50) ? 1.0f : 20.0f);
    k->quantize[acts](q, x, COLS);
    kernel_act_rest(x, q, COLS);
    k->quantize[acts](q + n_groups, x, COLS);
}

/* The largest movement of a logit, as a share of its bound. */
static double worst(const kernel_table *k, block_type type, float scale)
{
    static float x[COLS], row[COLS], y[2][PANELS * KERNEL_PANEL_ROWS], norms[PANELS];
    static kernel_act q[2 * (COLS / KERNEL_GROUP)];
    static uint8_t rows[ROWS * COLS * sizeof(float)];
    _Alignas(64) static uint8_t panels[PANELS * COLS * KERNEL_PANEL_ROWS * sizeof(float)];
    const size_t row_bytes = COLS / block_values(type) * block_bytes(type);
    const gguf_tensor source = {.type = type};
    const model_matrix w = {.source = &source, .type = type, .rows = ROWS, .cols = COLS,
                            .n_panels = PANELS, .panel_bytes = kernel_panel_bytes(type, COLS),
                            .panels = panels, .panel_norm = norms};
    const step_op op = {.kind = STEP_HEAD, .w = {&w}};
    const kernel_acts acts = kernel_acts_of(type);
    const pass_rows in = {.q = {[0] = q, [1] = q}, .q_stride = kernel_n_groups(COLS)};
    const cpu_executor ex = {.n_head_rows = 1};
    parts_of(k, acts, x, q);
    for (uint32_t r = 0; r < ROWS; r++) { /* parallel to the rest, against it, and at random */
        for (int i = 0; i < COLS; i++)
            row[i] = scale * (r % 8 == 0 ? x[i] : r % 8 == 1 ? -x[i] : 0.01f * uniform());
        block_encode(type, rows + r * row_bytes, row, COLS);
    }
    for (uint32_t p = 0; p < PANELS; p++) {
        const uint32_t first = p * KERNEL_PANEL_ROWS, n = smaller(ROWS - first, KERNEL_PANEL_ROWS);
        kernel_repack(type, panels + p * w.panel_bytes, rows + first * row_bytes, n, COLS);
    }
    TEST_CHECK(model_panel_norms(&w, rows, 0, PANELS) == CERIUM_OK);
    TEST_CHECK(pass_part(&ex, &op, 0, 0) == 0 && pass_part(&ex, &op, 0, 1) == 1);
    k->matmul[type](y[0], PANELS * KERNEL_PANEL_ROWS, panels, q, PANELS, COLS, 2);
    const float rest = pass_rest_norm(&ex, &op, &in, 0);
    double most = 0;
    for (uint32_t r = 0; r < ROWS; r++) {
        const float moved = fabsf(y[0][r] + y[1][r] - y[0][r]);
        const float bound = norms[r / KERNEL_PANEL_ROWS] * rest;
        TEST_CHECK_THAT(moved <= bound, "%s, row %u: %g, bound %g", block_name(type), r,
                        (double)moved, (double)bound);
        most = fmax(most, (double)(moved / bound));
    }
    return most;
}

static void test_bounds_hold_and_are_near(void)
{
    static const block_type types[] = {BLOCK_Q8_0, BLOCK_Q6_K, BLOCK_Q4_0, BLOCK_Q4_1, BLOCK_Q8_W};
    static const float scales[] = {1e-12f, 1, 1000};
    kernel_table table;
    kernel_table_init(&table, kernel_cpu_detect());
    for (size_t t = 0; t < ARRAY_LEN(types); t++) {
        for (size_t s = types[t] == BLOCK_Q8_0 ? 0 : 1; s < ARRAY_LEN(scales); s++) {
            const double most = worst(&table, types[t], scales[s]);
            /* A half-precision scale of weights of 1e-12 is 0. */
            TEST_CHECK_THAT(s == 0 || most > 0.98, "%s: %g", block_name(types[t]), most);
        }
    }
}

/* Rows of a batch: for each tile all first parts, then all second ones, none twice. */
static void test_parts_have_places(void)
{
    static const uint32_t sizes[] = {1, 2, PASS_HEAD_ROWS - 1, PASS_HEAD_ROWS, PASS_HEAD_ROWS + 1,
                                     2 * PASS_HEAD_ROWS + 5};
    const model_matrix w = {.type = BLOCK_Q8_0};
    const step_op op = {.kind = STEP_HEAD, .w = {&w}};
    for (size_t s = 0; s < ARRAY_LEN(sizes); s++) {
        const cpu_executor ex = {.n_head_rows = sizes[s]};
        bool taken[2 * (2 * PASS_HEAD_ROWS + 5)] = {0};
        for (uint32_t i = 0; i < 2 * sizes[s]; i++) {
            const uint32_t at = pass_part(&ex, &op, i / 2, i % 2);
            TEST_CHECK(at < 2 * sizes[s] && !taken[at]);
            taken[at] = true;
            if (i % 2 == 0 && i / 2 % PASS_HEAD_ROWS != 0)
                TEST_CHECK(at == pass_part(&ex, &op, i / 2 - 1, 0) + 1);
        }
    }
}

int main(void)
{
    TEST_RUN(test_bounds_hold_and_are_near);
    TEST_RUN(test_parts_have_places);
    return unit_report("head_bounds");
}
