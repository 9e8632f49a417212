/* layer_inputs.c - an input of a token for every layer, beside its embedding (Gemma 4 E2B, E4B):
 * a row of a table in the file, and a product with the embedding. */
#include "cpu/pass.h"

#include <math.h>

static float *inputs_of(const cpu_executor *ex, uint32_t row)
{
    const step_shape *s = &ex->program->shape;
    return ex->layer_inputs + (size_t)row * s->n_layers * s->n_layer_input;
}

const float *pass_layer_input(const cpu_executor *ex, const step_op *op, uint32_t row)
{
    return inputs_of(ex, row) + (size_t)op->layer * ex->program->shape.n_layer_input;
}

/* Unit: a block of rows of the matrix, for a tile. */
void pass_layer_inputs(cpu_executor *ex, const step_op *op, const pass_rows *in, uint32_t unit)
{
    const model_matrix *w = op->w[0];
    const pass_block b = pass_block_at(w, PASS_BLOCK_PANELS, ex->n_rows, unit);
    float y[PASS_TILE * PASS_BLOCK_PANELS * KERNEL_PANEL_ROWS];
    const size_t stride = (size_t)b.n_panels * KERNEL_PANEL_ROWS;
    pass_matmul(ex, y, stride, w, 0, b.panel, b.n_panels, in, b.row, b.n_rows);
    for (uint32_t r = 0; r < b.n_rows; r++)
        memcpy(inputs_of(ex, b.row + r) + b.first, y + r * stride, b.n * sizeof *y);
}

void pass_layer_inputs_finish(cpu_executor *ex, const step_op *op, uint32_t row)
{
    const step_shape *s = &ex->program->shape;
    const gguf_tensor *t = op->table;
    const uint32_t n = s->n_layer_input, block = block_values(t->type);
    const float by_width = 1.0f / sqrtf((float)s->n_embd), by_table = sqrtf((float)n);
    const size_t row_bytes = t->size / s->n_vocab;
    const uint8_t *from = (const uint8_t *)t->data + (size_t)ex->rows[row].token * row_bytes;
    float *p = inputs_of(ex, row), values[256];
    const uint32_t step = block > 1 ? block : ARRAY_LEN(values); /* values decoded at a time */
    CHECK(step <= ARRAY_LEN(values));
    for (uint32_t layer = 0; layer < s->n_layers; layer++) {
        float *to = p + (size_t)layer * n;
        for (uint32_t i = 0; i < n; i++) to[i] *= by_width;
        ex->k->rms_norm(to, to, op->post_norm, n, s->norm_eps);
    }
    const uint32_t all = s->n_layers * n;
    for (uint32_t at = 0; at < all; at += step) {
        const uint32_t n_values = smaller(all - at, step);
        block_decode(t->type, values, from + (size_t)(at / block) * block_bytes(t->type), n_values);
        for (uint32_t i = 0; i < n_values; i++)
            p[at + i] = (p[at + i] + by_table * values[i]) * (float)M_SQRT1_2;
    }
}
