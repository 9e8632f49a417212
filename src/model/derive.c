/* derive.c - matrices made from those of the file: an output head in a narrower type or with a
 * screen, all of them as floats, and some whose columns are the file's rows.
 *
 * A screen is a coarse copy of the head and, for each row, a bound on the error of its product: |w
 * x - s x| <= |w - s| |x| (Cauchy and Schwarz).  A token whose screened logit lies further below
 * the best than both errors cannot win, so its true logit need not be computed, and its weights not
 * be read (src/cpu/head.c; docs/decisions/0007-head-and-formats.md). */
#include "gguf/finite.h"
#include "kernels/kernels.h"
#include "model/build.h"

#include <math.h>

static bool is_narrower(block_type type, block_type than)
{
    return (uint64_t)block_bytes(type) * block_values(than) <
           (uint64_t)block_bytes(than) * block_values(type);
}

/* A matrix of another type, made from the same tensor when the weights are repacked. */
static model_matrix *derive(builder *b, const model_matrix *from, block_type type)
{
    CHECK(b->n_matrices < b->matrices_cap);
    model_matrix *m = &b->matrices[b->n_matrices++];
    *m = *from;
    m->type = type;
    m->has_norms = false;
    m->panel_bytes = kernel_panel_bytes(type, from->cols);
    return m;
}

/* Below this width a screen saves too little to pay for the second look. */
static bool is_wide(block_type type)
{
    return kernel_takes_acts(type) && 8 * block_bytes(type) >= 6 * block_values(type);
}

/* The norms of the head's rows decide which of its second products are skipped. */
static void add_norms(builder *b, const step_op *op)
{
    const model_matrix *w = op->w[0];
    if (step_parts(op) == 2 && !op->bias[0]) b->matrices[w - b->matrices].has_norms = true;
}

static void add_screen(builder *b, step_op *op)
{
    const model_matrix *w = op->w[0];
    /* Of a type that takes the same activations: the bound is for one x. */
    block_type type = kernel_acts_of(w->type) == KERNEL_ACTS_128 ? BLOCK_Q4_W : BLOCK_Q4_0;
    if (!is_wide(w->type) || op->bias[0] || !kernel_panel_bytes(type, w->cols)) return;
    model_matrix *screen = derive(b, w, type);
    screen->is_screen = true;
    op->screen = screen;
}

static void narrow(builder *b, step_op *op, block_type type, bool is_tied)
{
    const model_matrix *w = op->w[0];
    if (w->type == type) return;
    if (!is_narrower(type, w->type)) {
        build_fail(b, "the head is stored in %s, which is not wider than %s", block_name(w->type),
                   block_name(type));
    } else if (!kernel_panel_bytes(type, w->cols)) {
        build_fail(b, "the head cannot be made %s: its rows of %u values do not fill blocks of %u",
                   block_name(type), w->cols, block_values(type));
    } else if (is_tied) { /* the embedding is unchanged: one row a token is read of it */
        op->w[0] = derive(b, w, type);
    } else {
        model_matrix *own = &b->matrices[w - b->matrices];
        own->type = type;
        own->panel_bytes = kernel_panel_bytes(type, own->cols);
    }
}

void build_head_options(builder *b, step_op *op, bool is_tied)
{
    if (b->status) return;
    const model_matrix *w = op->w[0];
    switch (b->options->head) {
    case MODEL_HEAD_FULL: break;
    case MODEL_HEAD_AUTO:
        add_norms(b, op);
        if (w->panel_bytes * w->n_panels < MODEL_SCREEN_BYTES_MIN) break;
        add_screen(b, op);
        break;
    case MODEL_HEAD_SEARCH:
        add_norms(b, op);
        add_screen(b, op);
        break;
    case MODEL_HEAD_TYPE: narrow(b, op, b->options->head_type, is_tied); break;
    }
}

static float row_error(const float *w, const float *s, uint32_t n_cols)
{
    double apart = 0, w_square = 0, s_square = 0;
    for (uint32_t i = 0; i < n_cols; i++) {
        double d = (double)w[i] - (double)s[i];
        apart += d * d;
        w_square += (double)w[i] * (double)w[i];
        s_square += (double)s[i] * (double)s[i];
    }
    double error = sqrt(apart) + model_product_rounding(n_cols) * (sqrt(w_square) + sqrt(s_square));
    return (float)(error * (1 + 0x1p-20)); /* upwards, past its own rounding */
}

/* |x|, rounded upwards past the rounding of its sum: below 2^-10 for rows of 2^17 values. */
static float norm_above(const float *x, uint32_t n)
{
    enum { LANES = 16 };
    float sum[LANES] = {0}, all = 0;
    _Static_assert(KERNEL_BLOCK % LANES == 0, "rows in 8 bits are whole blocks");
    for (const float *end = x + n; x < end; x += LANES)
        for (int lane = 0; lane < LANES; lane++) sum[lane] += x[lane] * x[lane];
    for (int lane = 0; lane < LANES; lane++) all += sum[lane];
    return sqrtf(all) * (1 + 0x1p-10f) + 0x1p-60f; /* and a bound on underflow */
}

/* A row of the source, times the factor of its matrix, and turned if inputs are and it is not. */
static void decode_row(const model_matrix *w, float *out, const uint8_t *row, uint32_t matrix,
                       uint32_t n)
{
    block_decode(w->source->type, out, row, n);
    const float factor = model_matrix_factor(w, matrix);
    for (uint32_t i = 0; w->factor && i < n; i++) out[i] *= factor;
    if (w->turns_rows) step_turn(w->hadamard, out, 0, n);
}

int model_panel_norms(const model_matrix *w, const uint8_t *rows, uint32_t first, uint32_t end)
{
    size_t row_bytes = 0;
    CHECK(w->type == w->source->type && block_row_bytes(w->type, w->cols, &row_bytes));
    float *values = memory_alloc(w->cols * sizeof *values);
    if (!values) return CERIUM_ERR_MEMORY;
    for (uint32_t p = first; p < end; p++) {
        uint32_t row = p * KERNEL_PANEL_ROWS, row_end = row + KERNEL_PANEL_ROWS;
        float greatest = 0;
        for (; row < row_end && row < w->rows; row++) {
            decode_row(w, values, rows + row * row_bytes, 0, w->cols);
            const float norm = norm_above(values, w->cols);
            greatest = norm > greatest ? norm : greatest;
        }
        w->panel_norm[p] = greatest;
    }
    memory_free(values);
    return CERIUM_OK;
}

int model_derive_panels(const model_matrix *w, const uint8_t *rows, uint32_t matrix,
                        uint32_t first, uint32_t end)
{
    const block_type from = w->source->type;
    uint8_t *panels = w->panels + (size_t)matrix * w->n_panels * w->panel_bytes;
    size_t from_bytes = 0, to_bytes = 0;
    CHECK(block_row_bytes(from, w->cols, &from_bytes) &&
          block_row_bytes(w->type, w->cols, &to_bytes));
    float *values = memory_alloc(2 * (size_t)w->cols * sizeof *values);
    uint8_t *blocks = memory_alloc(KERNEL_PANEL_ROWS * to_bytes);
    bool has_memory = values && blocks;
    for (uint32_t p = first; has_memory && p < end; p++) {
        uint32_t row = p * KERNEL_PANEL_ROWS, n = w->rows - row;
        if (n > KERNEL_PANEL_ROWS) n = KERNEL_PANEL_ROWS;
        for (uint32_t r = 0; r < n; r++) {
            uint8_t *to = blocks + r * to_bytes;
            decode_row(w, values, rows + (row + r) * from_bytes, matrix, w->cols);
            if (w->is_screen) {
                block_encode(w->type, to, values, w->cols);
                block_decode(w->type, values + w->cols, to, w->cols);
                w->row_error[row + r] = row_error(values, values + w->cols, w->cols);
            } else {
                block_quantize(w->type, to, values, w->cols, NULL);
            }
        }
        for (uint32_t r = n; w->is_screen && r < KERNEL_PANEL_ROWS; r++)
            w->row_error[row + r] = INFINITY; /* no such row: it proves nothing */
        kernel_repack(w->type, panels + p * w->panel_bytes, blocks, n, w->cols);
    }
    memory_free(values);
    memory_free(blocks);
    return has_memory ? CERIUM_OK : CERIUM_ERR_MEMORY;
}

/* Rows of the matrix are columns of the source, which has w->cols rows of w->rows values. */
int model_transpose_panels(const model_matrix *w, const uint8_t *rows, uint32_t matrix,
                           uint32_t first, uint32_t end)
{
    const block_type from = w->source->type;
    uint8_t *panels = w->panels + (size_t)matrix * w->n_panels * w->panel_bytes;
    size_t from_bytes = 0, to_bytes = 0;
    CHECK(block_row_bytes(from, w->rows, &from_bytes) &&
          block_row_bytes(w->type, w->cols, &to_bytes));
    float *values = memory_zalloc(w->cols, w->rows * sizeof *values);
    float *line = memory_zalloc(w->cols, sizeof *line);
    uint8_t *blocks = memory_alloc(KERNEL_PANEL_ROWS * to_bytes);
    int status = values && line && blocks ? CERIUM_OK : CERIUM_ERR_MEMORY;
    for (uint32_t i = 0; i < w->cols && !status; i++) {
        const uint8_t *row = rows + i * from_bytes;
        if (!block_is_finite(from, row, w->rows)) status = CERIUM_ERR_FORMAT;
        else decode_row(w, values + (size_t)i * w->rows, row, matrix, w->rows);
    }
    for (uint32_t p = first; p < end && !status; p++) {
        const uint32_t row = p * KERNEL_PANEL_ROWS, left = w->rows - row;
        const uint32_t n = left < KERNEL_PANEL_ROWS ? left : KERNEL_PANEL_ROWS;
        for (uint32_t r = 0; r < n && !status; r++) {
            uint8_t *to = blocks + r * to_bytes;
            for (uint32_t i = 0; i < w->cols; i++) line[i] = values[(size_t)i * w->rows + row + r];
            block_encode(w->type, to, line, w->cols);
            if (!block_is_finite(w->type, to, w->cols)) status = CERIUM_ERR_FORMAT;
        }
        if (!status) kernel_repack(w->type, panels + p * w->panel_bytes, blocks, n, w->cols);
    }
    memory_free(values);
    memory_free(line);
    memory_free(blocks);
    return status;
}
