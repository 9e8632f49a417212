/* prompt_room.c - the memory of a core that a pass over a prompt needs.
 *
 * Weights are in the layout of MeshGEMM products, outputs along x and K along y: with another
 * padding than for decoding.  A row of the pass is cut along x; beside the residual stream a core
 * has the input and output of one operation.  Operands move row by row, so one passing row of
 * weights and one column of activations are here, and for attention those of one line of cores. */
#include <math.h>

#include "wafer/modelled.h"
#include "wafer/plan.h"

/* The model's operations in a pass. */
typedef struct {
    const plan_request *r;
    const plan_layout *l;
    wafer_strips strips;
    uint32_t rows;  /* of the pass, on a line */
    uint32_t where; /* tokens before it on a line, at most; and its own */
} pass;

static double prompt_room_share(const pass *p, double n)
{
    return ceil(n / p->l->width);
}

/* The passing operands of op's products: a row of the weights, a column of activations. */
static double prompt_room_coming(const pass *p, const step_op *op)
{
    double most = 0;
    for (int i = 0; i < 3; i++)
        if (op->w[i])
            most = fmax(most, prompt_room_share(p, op->w[i]->rows) *
                                  quant_bits(p->r->quant, op->w[i]) / 16);
    return most + p->rows;
}

/* Halves beside the residual stream. */
static double prompt_room_live(const pass *p, const step_op *op)
{
    const step_shape *s = &p->r->program->shape;
    const double m = p->rows, heads = (double)p->strips.heads * p->strips.queries;
    const double q = heads * p->strips.channels;
    const double kv = 2.0 * p->strips.heads * p->strips.channels;
    const double x = prompt_room_share(p, s->n_embd), k = s->n_experts_used;
    switch (op->kind) {
    case STEP_QKV: return m * (x + q + kv) + prompt_room_coming(p, op);
    case STEP_ATTEND: /* queries, sums, keys and values of the pass; maxima, sums, weights */
        return m * (2 * q + kv + heads * (2.0 + p->where)) + kv;
    case STEP_OUT: return m * (q + x) + prompt_room_coming(p, op);
    case STEP_FFN_UP:
        return m * (x + (op->w[0] ? 2 : 1) * prompt_room_share(p, s->n_ff)) +
               prompt_room_coming(p, op);
    case STEP_FFN_DOWN: return m * (prompt_room_share(p, s->n_ff) + x) + prompt_room_coming(p, op);
    case STEP_ROUTE:
        return m * (x + prompt_room_share(p, s->n_experts)) + prompt_room_coming(p, op);
    case STEP_EXPERTS_UP:
        return m * (x + 2 * k * prompt_room_share(p, s->n_ff_expert)) + prompt_room_coming(p, op);
    case STEP_EXPERTS_DOWN:
        return m * (k * prompt_room_share(p, s->n_ff_expert) + x) + prompt_room_coming(p, op);
    WAFER_CASES_NOT_MODELLED:
    case STEP_EMBED:
    case STEP_HEAD: return m * x; /* rows moving from the table */
    }
    return 0;
}

uint64_t plan_pass_bytes(const plan_result *plan, const plan_request *r, uint32_t rows)
{
    const plan_layout *l = &plan->layout;
    const step_program *program = r->program;
    const uint32_t before = r->context > rows * l->height ? r->context - rows * l->height : 0;
    const uint32_t old = tiles_of(before, l->height);
    const pass p = {.r = r,
                    .l = l,
                    .strips = strips_of(&program->shape, l->width, l->choice.k_multiple),
                    .rows = rows,
                    .where = old > rows ? old : rows};
    double most = 0;
    for (uint32_t i = 0; i < program->n_ops; i++) {
        const step_op *op = &program->ops[i];
        pass of = p;
        /* With a window, a line sees no more old tokens than the window has. */
        if (op->window && tiles_of(op->window, l->height) + 1 < old) {
            const uint32_t seen = tiles_of(op->window, l->height) + 1;
            of.where = seen > rows ? seen : rows;
        }
        most = fmax(most, prompt_room_live(&of, op));
    }
    return (uint64_t)ceil(2 * (most + rows * prompt_room_share(&p, program->shape.n_embd)));
}

/* One layer's on the fullest core; biases and norms in the cut of the residual stream. */
static double layer_weights(const plan_layout *l, const plan_request *r, uint32_t layer)
{
    uint32_t first = 0, n = 0;
    double total = 0;
    CHECK(layer_ops(r->program, layer, &first, &n));
    for (uint32_t at = first; at < first + n; at++) {
        const step_op *op = &r->program->ops[at];
        for (int i = 0; i < 3; i++) {
            const model_matrix *w = op->w[i];
            if (!w) continue;
            const double columns = tiles_of(w->rows, l->width);
            total += columns * tiles_of(w->cols, l->height) * w->n_matrices *
                     quant_bits(r->quant, w) / 8;
            if (op->bias[i]) total += 2 * ceil(columns * w->n_matrices / l->height);
        }
        if (op->norm) total += 2.0 * tiles_of(r->program->shape.n_embd, l->width);
    }
    return total;
}

uint64_t plan_pass_room(const plan_result *plan, const plan_request *r)
{
    const plan_layout *l = &plan->layout;
    double most = 0;
    for (uint32_t layer = 0; layer < r->program->shape.n_layers; layer++)
        most = fmax(most, layer_weights(l, r, layer));
    const double taken =
        (ceil(most) + (double)l->layer_kv_bytes) * l->layers_a_region + (double)l->table_bytes;
    return taken < (double)l->usable_bytes ? l->usable_bytes - (uint64_t)taken : 0;
}
