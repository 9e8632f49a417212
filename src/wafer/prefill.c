/* prefill.c - the time of a layer over many prompt tokens, by MeshGEMM products.
 *
 * Both operands move: a core multiplies its current tiles, passes them to its neighbours (two hops
 * at most, by an interleaved ring), and has seen all of K after as many steps as the longer edge
 * has cores.  For each element of its tile of weights a core starts one instruction over its rows
 * of the prompt.  Communication overlaps, except for the rows' own software.  Attention is a
 * separate ring, prompt_attend.c. */
#include <math.h>

#include "wafer/timing.h"

typedef struct {
    const step_cost *cost;
    uint32_t width, height;
    step_time time;
} prefill;

static void prefill_spend(prefill *p, wafer_spent what, double cycles)
{
    p->time.spent[what] += cycles;
    p->time.cycles += cycles;
}

/* [m, k] [k, n]: rows over the height, columns over the width, k in as many parts as there are
 * steps: a row's share of the weights over its places of a ring, one at least. */
static void prefill_product(prefill *p, double m, double k, double n)
{
    const double steps = p->width > p->height ? p->width : p->height;
    const double m_t = ceil(m / p->height), n_t = ceil(n / p->width);
    const double k_t = ceil(ceil(k / p->height) / floor(steps / p->height));
    const double lanes = p->cost->mesh->simd_fp16, issues = k_t * n_t;
    const double vector = issues * ceil(m_t / lanes), issue = issues * p->cost->style.issue;
    const double rows = p->cost->style.gemm_row * m_t;
    /* Two tiles in and out of the ramp, at one wavelet a cycle each way. */
    const double streams = (m_t * k_t + k_t * n_t) / 2;
    const double work = issue + vector + rows;
    prefill_spend(p, SPENT_ISSUE, steps * issue);
    prefill_spend(p, SPENT_VECTOR, steps * vector);
    prefill_spend(p, SPENT_STAGE, steps * rows);
    if (streams > work) prefill_spend(p, SPENT_STREAM, steps * (streams - work));
    const double width = p->width, height = p->height, cores = width * height;
    const double a = m_t * k_t / 2, b = k_t * n_t / 2; /* wavelets, along rows and columns */
    wafer_events *e = &p->time.events;
    e->vector_ops += (uint64_t)(steps * issues * cores);
    e->vector_steps += (uint64_t)(steps * vector * cores);
    e->macs += (uint64_t)(steps * issues * m_t * cores);
    /* An interleaved ring of n cores has 2 (n - 1) links. */
    e->hops += (uint64_t)(2 * steps * (a * (width - 1) * height + b * (height - 1) * width));
    e->ramps += (uint64_t)(2 * steps * cores * (a * (width > 1) + b * (height > 1)));
    e->sram_read_bits += (uint64_t)(steps * issues * m_t * 32 * cores);
    e->sram_write_bits += (uint64_t)(steps * issues * m_t * 16 * cores);
}

step_time time_gemm(uint32_t width, uint32_t height, const step_cost *cost, uint32_t m, uint32_t k,
                    uint32_t n)
{
    prefill p = {.cost = cost, .width = width, .height = height};
    prefill_product(&p, m, k, n);
    return p.time;
}

/* Products of op; experts get the tokens that chose them, m of them together. */
static void prefill_products(prefill *p, const step_program *program, const step_op *op, double m)
{
    const step_shape *s = &program->shape;
    for (int i = 0; i < 3; i++) {
        const model_matrix *w = op->w[i];
        if (!w) continue;
        if (w->n_matrices > 1) {
            const double n = s->n_experts, k = s->n_experts_used;
            const double touched = n * (1 - pow(1 - k / n, m)), each = ceil(m * k / touched);
            for (double expert = 0; expert < touched; expert++)
                prefill_product(p, each, w->cols, w->rows);
        } else if (op->kind == STEP_QKV) { /* by the shape: a protocol may change the heads */
            prefill_product(p, m, s->n_embd,
                            (double)(i ? s->n_kv_heads : s->n_heads) * s->head_dim);
        } else if (op->kind == STEP_OUT) {
            prefill_product(p, m, (double)s->n_heads * s->head_dim, s->n_embd);
        } else {
            prefill_product(p, m, w->cols, w->rows);
        }
    }
}

/* Scores and values like in a published kernel, all tokens with all. */
static void attend_products(prefill *p, const step_shape *s, const step_op *op, uint32_t tokens)
{
    const double seen = op->window && op->window < tokens ? op->window : tokens;
    prefill_product(p, tokens, (double)s->n_heads * s->head_dim, seen);
    prefill_product(p, tokens, seen, (double)s->n_heads * s->head_dim);
}

static int attend_ring(prefill *p, const step_program *program, uint32_t at, uint32_t tokens)
{
    step_time t;
    RETURN_IF(time_prompt_fullest(&t, program, at, p->width, p->height, p->cost, tokens));
    p->time.cycles += t.cycles;
    for (int i = 0; i < WAFER_SPENT; i++) p->time.spent[i] += t.spent[i];
    return CERIUM_OK;
}

int time_prefill_layer(step_time *out, const step_program *program, uint32_t layer, uint32_t width,
                       uint32_t height, const step_cost *cost, uint32_t tokens)
{
    prefill p = {.cost = cost, .width = width, .height = height};
    uint32_t first = 0, n = 0;
    CHECK(tokens && layer_ops(program, layer, &first, &n));
    for (uint32_t at = first; at < first + n; at++) {
        const step_op *op = &program->ops[at];
        prefill_products(&p, program, op, tokens);
        if (op->kind != STEP_ATTEND) continue;
        if (cost->attends_by_products) attend_products(&p, &program->shape, op, tokens);
        else RETURN_IF(attend_ring(&p, program, at, tokens));
    }
    *out = p.time;
    return CERIUM_OK;
}
