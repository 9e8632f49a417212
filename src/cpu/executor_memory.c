/* executor_memory.c - opens and closes the executor of passes: the sizes and places of its buffers.
 *
 * A first walk with base NULL measures, a second one hands out. */
#include "cpu/executor.h"

#include "base/memory.h"
#include "cpu/pass.h"

typedef struct {
    uint8_t *base;
    size_t used;
} carve;

static void *take(carve *c, size_t n, size_t size)
{
    size_t at = c->used;
    c->used += size_round_up(n * size, MEMORY_ALIGN);
    return c->base ? c->base + at : NULL;
}

/* Sizes of the buffers of the feed-forward, experts and norms: as floats, and in 8 bits as
 * step_acts() says. */
typedef struct {
    bool hidden_f, experts_f;
    uint32_t hidden_q, experts_q, normed_q, attended_q;
    size_t hidden_values, hidden_groups; /* of all rows or entries, of the widest step */
    bool branch, waiting, whole, gates;
    uint32_t heads_of_one, qkv_rows; /* at most: of a KV head; of a unit of QKV or LATENT_Q */
    uint32_t attended_width;         /* of what OUT reads */
    uint32_t normed_width;           /* of what steps with a norm read */
    size_t latent_width;             /* output of LATENT; 0: no such step */
    uint32_t low_width, low_q, of_heads_width, of_heads_q; /* inputs of the steps after it */
    uint32_t experts_width, narrow_width; /* of what experts read, and of what EXPERTS_IN makes */
} needs;

static uint32_t greater(uint32_t a, uint32_t b) { return a > b ? a : b; }
static size_t larger(size_t a, size_t b) { return a > b ? a : b; }

static needs find_needs(const step_program *p, uint32_t rows_max)
{
    needs n = {.normed_width = p->shape.n_embd};
    for (uint32_t i = 0; i < p->n_ops; i++) {
        const step_op *op = &p->ops[i];
        uint32_t acts = step_acts(op);
        size_t rows = rows_max;
        n.branch |= op->post_norm != NULL;
        n.whole |= op->is_row_norm;
        n.waiting |= op->waits;
        n.gates |= op->kind == STEP_QKV && (op->is_gated || op->n_gates);
        switch (op->kind) {
        case STEP_EXPERTS_DOWN: rows *= p->shape.n_experts_used; /* fall through */
        case STEP_FFN_DOWN:
            n.hidden_q |= acts;
            n.hidden_f |= !acts || step_hadamard_of(op);
            n.hidden_values = larger(n.hidden_values, rows * op->w[0]->cols);
            n.hidden_groups = larger(n.hidden_groups, rows * kernel_n_groups(op->w[0]->cols));
            break;
        case STEP_EXPERTS_UP:
            n.experts_q |= acts;
            for (int k = 0; k < 2; k++)
                n.experts_f |= op->w[k] && !kernel_takes_acts(op->w[k]->type);
            n.normed_q |= acts;
            n.experts_width = greater(n.experts_width, (op->w[0] ? op->w[0] : op->w[1])->cols);
            break;
        case STEP_EXPERTS_IN:
            n.normed_q |= acts;
            n.narrow_width = greater(n.narrow_width, op->w[0]->rows);
            break;
        case STEP_OUT:
            n.attended_q |= acts;
            n.attended_width = greater(n.attended_width, op->w[0]->cols);
            break;
        case STEP_ATTEND: n.heads_of_one = greater(n.heads_of_one, pass_heads_of_one(op)); break;
        case STEP_LATENT_QUERY: /* a head's whole query is a unit; rows of two blocks fit */
            n.qkv_rows = greater(n.qkv_rows, op->w[0]->n_panels * KERNEL_PANEL_ROWS / 2);
            /* fall through */
        case STEP_LATENT_VALUE:
            n.of_heads_q |= acts;
            n.of_heads_width = greater(n.of_heads_width, op->w[0]->cols);
            break;
        case STEP_LATENT_Q:
            n.qkv_rows = greater(n.qkv_rows, pass_latent_heads(op) * op->w[0]->rows / op->n_heads);
            if (op->norm) n.normed_q |= acts;
            else n.low_q |= acts;
            if (!op->norm) n.low_width = greater(n.low_width, op->w[0]->cols);
            break;
        case STEP_LATENT:
            n.latent_width = larger(n.latent_width, pass_latent_width(op));
            n.normed_q |= acts;
            break;
        case STEP_QKV:
            n.normed_width = greater(n.normed_width, step_qkv_width(op, p->shape.n_embd));
            n.qkv_rows = greater(n.qkv_rows, pass_qkv_heads(op) * op->head_dim); /* fall through */
        case STEP_LINEAR_IN:
        case STEP_LAYER_INPUTS:
        case STEP_LAYER_GATE:
        case STEP_FFN_UP:
        case STEP_ROUTE:
        case STEP_HEAD: n.normed_q |= acts; break;
        case STEP_EMBED:
        case STEP_CONV:
        case STEP_DELTA: break;
        }
    }
    return n;
}

/* parts: rows in 8 bits for each row of floats (step_parts). */
static pass_rows take_rows(carve *c, uint32_t rows, uint32_t width, bool f, uint32_t acts,
                           uint32_t parts)
{
    pass_rows r = {.f_stride = width, /* matmul steps by it */
                   .q_stride = kernel_n_groups(width)};
    if (f) r.f = take(c, rows * r.f_stride, sizeof(float));
    for (int a = 0; a < KERNEL_ACTS_END; a++)
        if (acts >> a & 1) r.q[a] = take(c, parts * rows * r.q_stride, sizeof(kernel_act));
    return r;
}

/* Rows whose width is that of the step. */
static pass_rows take_hidden(carve *c, const needs *need)
{
    pass_rows r = {0};
    if (need->hidden_f) r.f = take(c, need->hidden_values, sizeof(float));
    for (int a = 0; a < KERNEL_ACTS_END; a++)
        if (need->hidden_q >> a & 1) r.q[a] = take(c, need->hidden_groups, sizeof(kernel_act));
    return r;
}

/* Values of a page that has but keys. */
static size_t values_bytes(const step_shape *s)
{
    size_t most = 0;
    for (int type = 0; type < KERNEL_KV_TYPE_END; type++)
        most = larger(most, kernel_kv_bytes((kernel_kv_type)type, s->head_dim));
    return most;
}

static void take_scratch(cpu_executor *ex, carve *c, pass_scratch *w, const needs *need,
                         uint32_t block_rows, uint32_t input_width)
{
    uint32_t rows = ex->attend_rows, d = ex->program->shape.head_dim;
    pass_scratch s = {0};
    s.input = take_rows(c, 1, input_width, true, (1u << KERNEL_ACTS_END) - 1, 2);
    s.y = take(c, (size_t)PASS_TILE * 2 * block_rows, sizeof(float));
    for (int i = 0; i < 2; i++) {
        s.out[i] = take(c, (size_t)rows * d, sizeof(float));
        s.state[i] = take(c, rows, sizeof(kernel_softmax_state));
    }
    s.best = take(c, (size_t)smaller(ex->rows_max, PASS_SEARCH_ROWS) * CPU_BEST_MAX,
                  sizeof *s.best);
    s.rest = take(c, smaller(ex->rows_max, PASS_SEARCH_ROWS), sizeof *s.rest);
    s.first = take(c, rows, sizeof *s.first);
    s.end = take(c, rows, sizeof *s.end);
    const step_recurrence *linear = &ex->program->shape.linear;
    if (linear->n_layers) s.slice = take(c, pass_slice_floats(linear), sizeof(float));
    if (need->latent_width) s.values = take(c, values_bytes(&ex->program->shape), 1);
    if (c->base) *w = s;
}

static void take_routes(cpu_executor *ex, carve *c)
{
    const step_shape *s = &ex->program->shape;
    size_t entries = (size_t)ex->rows_max * s->n_experts_used;
    pass_routes *r = &ex->routes;
    if (!s->n_experts) return;
    r->active = take(c, s->n_experts, sizeof(uint32_t));
    r->begin = take(c, s->n_experts + 1, sizeof(uint32_t));
    r->row = take(c, entries, sizeof(uint32_t));
    r->weight = take(c, entries, sizeof(float));
    r->logits = take(c, ex->rows_max * size_round_up(s->n_experts, KERNEL_PANEL_ROWS),
                     sizeof(float));
    r->chosen = take(c, entries, sizeof(uint32_t));
    r->chosen_weight = take(c, entries, sizeof(float));
    r->shared_gate = take(c, ex->rows_max, sizeof(float));
}

static void take_recurrent(cpu_executor *ex, carve *c)
{
    const step_recurrence *r = &ex->program->shape.linear;
    const size_t m = ex->rows_max, n_drafts = m < CPU_DRAFTS_MAX ? m : CPU_DRAFTS_MAX;
    if (!r->n_layers) return;
    ex->linear = take(c, m * pass_linear_width(r), sizeof(float));
    ex->mixed = take(c, m * step_channels(r), sizeof(float));
    ex->rates = take(c, m * 2 * r->n_value_heads, sizeof(float));
    ex->no_inputs = take(c, step_channels(r), sizeof(float));
    ex->drafts = take(c, n_drafts * r->n_layers * pass_draft_floats(r), sizeof(float));
    ex->spans = take(c, m, sizeof *ex->spans);
    ex->first_row = take(c, m, sizeof *ex->first_row);
    ex->draft_of = take(c, m, sizeof *ex->draft_of);
}

static void take_latents(cpu_executor *ex, carve *c, const needs *n)
{
    const step_shape *s = &ex->program->shape;
    const uint32_t m = ex->rows_max;
    if (!n->latent_width) return;
    ex->latents = take(c, m * n->latent_width, sizeof(float));
    ex->low = take_rows(c, m, n->low_width, true, n->low_q, 1);
    ex->of_heads = take_rows(c, m * s->n_heads, n->of_heads_width, true, n->of_heads_q, 1);
    ex->turning = take(c, (size_t)m * s->n_heads * s->ropes[0].n_rot, sizeof(float));
}

static void take_all(cpu_executor *ex, carve *c)
{
    const step_shape *s = &ex->program->shape;
    needs need = find_needs(ex->program, ex->rows_max);
    uint32_t m = ex->rows_max, n_q = s->n_heads * s->head_dim;
    const uint32_t n_attended = need.attended_width;
    uint32_t entries = s->n_experts ? m * s->n_experts_used : 0;
    uint32_t block_rows = PASS_HEAD_PANELS * KERNEL_PANEL_ROWS / 2;
    block_rows = greater(block_rows, (uint32_t)size_round_up(need.qkv_rows, KERNEL_PANEL_ROWS));
    const uint32_t walk_rows = need.latent_width ? PASS_LATENT_ROWS : PASS_ATTEND_ROWS;
    ex->attend_tokens = walk_rows / greater(need.heads_of_one, 1);
    ex->attend_tokens = greater(ex->attend_tokens, 1);
    ex->attend_rows = ex->attend_tokens * need.heads_of_one;
    ex->x = take(c, (size_t)m * s->n_embd, sizeof(float));
    for (uint32_t t = 0; t < s->n_ropes; t++) {
        ex->cosine[t] = take(c, (size_t)m * s->ropes[t].n_rot / 2, sizeof(float));
        ex->sine[t] = take(c, (size_t)m * s->ropes[t].n_rot / 2, sizeof(float));
    }
    ex->branch = need.branch ? take(c, (size_t)m * s->n_embd, sizeof(float)) : NULL;
    ex->waiting = need.waiting ? take(c, (size_t)m * s->n_embd, sizeof(float)) : NULL;
    if (s->n_layer_input)
        ex->layer_inputs = take(c, (size_t)m * s->n_layers * s->n_layer_input, sizeof(float));
    ex->whole = need.whole ? take(c, m * pass_whole_width(s), sizeof(float)) : NULL;
    ex->queries = take(c, (size_t)m * s->n_heads, ex->query_bytes);
    ex->gates = need.gates ? take(c, (size_t)m * n_q, sizeof(float)) : NULL;
    ex->attended = take_rows(c, m, n_attended, true, need.attended_q, 1);
    ex->normed = take_rows(c, m, need.normed_width, true, need.normed_q, 2);
    ex->normed = pass_rows_of(&ex->normed, s->n_embd);
    ex->hidden = take_hidden(c, &need);
    ex->gathered = take_rows(c, entries, need.experts_width, need.experts_f, need.experts_q, 1);
    if (need.narrow_width)
        ex->narrowed = take_rows(c, m, need.narrow_width, true, need.experts_q, 1);
    ex->partials_max = m > 256 ? m : 256;
    ex->part_out = take(c, (size_t)ex->partials_max * n_q, sizeof(float));
    ex->part_state = take(c, (size_t)ex->partials_max * s->n_heads, sizeof *ex->part_state);
    ex->groups = take(c, m, sizeof *ex->groups);
    ex->head_rows = take(c, m, sizeof *ex->head_rows);
    take_routes(ex, c);
    take_recurrent(ex, c);
    take_latents(ex, c, &need);
    const model_matrix *screen = ex->program->ops[ex->program->n_ops - 1].screen;
    if (screen) {
        size_t bounds = (size_t)smaller(m, PASS_SEARCH_ROWS) * screen->n_panels;
        ex->search.low = take(c, bounds, sizeof(float));
        ex->search.high = take(c, bounds, sizeof(float));
    }
    ex->phases = take(c, TEAM_PHASES_MAX, sizeof *ex->phases);
    ex->team_phases = take(c, TEAM_PHASES_MAX, sizeof *ex->team_phases);
    ex->scratch = take(c, ex->n_workers, sizeof *ex->scratch);
    uint32_t input_width = greater(n_attended, need.normed_width);
    for (uint32_t w = 0; w < ex->n_workers; w++)
        take_scratch(ex, c, c->base ? &ex->scratch[w] : NULL, &need, block_rows, input_width);
}

int cpu_executor_open(cpu_executor **out, const step_program *program, const kernel_table *table,
                      team *workers, uint32_t rows_max, cerium_error *err)
{
    const step_shape *s = &program->shape;
    cpu_executor *ex = memory_zalloc(1, sizeof *ex);
    if (!ex) return error_set(err, CERIUM_ERR_MEMORY, "no memory for the executor");
    ex->program = program;
    ex->k = table;
    ex->workers = workers;
    ex->n_workers = team_n_workers(workers);
    ex->rows_max = rows_max;
    for (int type = 0; type < KERNEL_KV_TYPE_END; type++) {
        size_t query = kernel_query_bytes((kernel_kv_type)type, s->head_dim);
        if (ex->query_bytes < query) ex->query_bytes = query;
    }
    carve c = {0};
    take_all(ex, &c);
    ex->memory_bytes = c.used;
    ex->memory = memory_map(c.used);
    if (!ex->memory) {
        cpu_executor_close(&ex);
        return error_set(err, CERIUM_ERR_MEMORY, "no memory for passes of %u tokens", rows_max);
    }
    c = (carve){ex->memory, 0};
    take_all(ex, &c);
    CHECK(c.used == ex->memory_bytes);
    *out = ex;
    return CERIUM_OK;
}

void cpu_executor_close(cpu_executor **ex)
{
    if (!ex || !*ex) return;
    memory_free((*ex)->tapped);
    memory_unmap((*ex)->memory, (*ex)->memory_bytes);
    memory_free(*ex);
    *ex = NULL;
}
