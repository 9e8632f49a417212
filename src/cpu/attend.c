/* attend.c - attention over KV pages, in chunks of positions that are joined in order.
 *
 * A chunk is PASS_CHUNK_TOKENS absolute positions and starts from an empty softmax; chunks are
 * joined in ascending order.  Whether one worker walks all chunks of a row or several take them
 * apart (split), the operations on a row are the same, so the bits are. */
#include <math.h>

#include "cpu/pass.h"

static void visible(const cpu_executor *ex, const step_op *op, uint32_t row, uint32_t *first,
                    uint32_t *end)
{
    const uint32_t own = ex->rows[row].position + 1;
    *end = own + ex->rows[row].ahead;
    *first = op->window && own > op->window ? own - op->window : 0;
}

/* Group the rows of a sequence, and split walks if there are too few to share out. */
void pass_attend_plan(cpu_executor *ex)
{
    const step_shape *s = &ex->program->shape;
    uint32_t longest = 0;
    ex->n_groups = 0;
    for (uint32_t r = 0; r < ex->n_rows; r++) {
        attend_group *last = ex->n_groups ? &ex->groups[ex->n_groups - 1] : NULL;
        if (ex->rows[r].position >= longest) longest = ex->rows[r].position + 1;
        if (last && last->n_rows < ex->attend_tokens &&
            ex->rows[r].sequence == ex->rows[r - 1].sequence)
            last->n_rows++;
        else
            ex->groups[ex->n_groups++] = (attend_group){r, 1};
    }
    ex->n_chunks = divide_up(longest, PASS_CHUNK_TOKENS);
    ex->split = ex->n_chunks > 1 && ex->n_groups * s->n_kv_heads < 2 * ex->n_workers &&
                ex->n_workers > 1 && (uint64_t)ex->n_rows * ex->n_chunks <= ex->partials_max;
}

uint32_t pass_attend_units(const cpu_executor *ex, const step_op *op)
{
    return ex->n_groups * op->n_kv_heads * (ex->split ? ex->n_chunks : 1);
}

/* Walk pages whose values are their keys: make the values of each page once for all rows, while its
 * keys are in the cache. */
static void attend_latents(cpu_executor *ex, const step_op *op, const void *queries,
                           const kernel_kv_page *pages, uint32_t n_pages, kernel_kv_type type,
                           uint32_t n_q, pass_scratch *scratch)
{
    for (uint32_t p = 0; p < n_pages; p++) {
        const kernel_kv_page page = {pages[p].keys, scratch->values};
        ex->k->kv_values[type](scratch->values, page.keys, op->head_dim);
        ex->k->attend[type](scratch->state[0], scratch->out[0], queries, &page, 1, scratch->first,
                            scratch->end, n_q, op->head_dim);
        for (uint32_t i = 0; i < n_q; i++) {
            scratch->first[i] -= smaller(scratch->first[i], KERNEL_PAGE);
            scratch->end[i] -= smaller(scratch->end[i], KERNEL_PAGE);
        }
    }
}

/* Softmax over one chunk, from an empty state: the pages that a row of the group sees. */
static void attend_chunk(cpu_executor *ex, const step_op *op, const attend_group *g,
                         uint32_t kv_head, uint32_t chunk, pass_scratch *scratch)
{
    const kv_sequence *sequence = ex->rows[g->row].sequence;
    uint32_t heads = pass_heads_of_one(op), n_q = g->n_rows * heads;
    uint32_t group_first, group_end, unused, n_pages = 0;
    kernel_kv_page pages[PASS_CHUNK_PAGES];
    visible(ex, op, g->row, &group_first, &unused);
    visible(ex, op, g->row + g->n_rows - 1, &unused, &group_end);
    for (uint32_t i = 0; i < n_q; i++)
        scratch->state[0][i] = (kernel_softmax_state){-INFINITY, 0};
    memset(scratch->out[0], 0, (size_t)n_q * op->head_dim * sizeof(float));

    uint32_t page = chunk * PASS_CHUNK_PAGES, end = page + PASS_CHUNK_PAGES;
    if (page < group_first / KERNEL_PAGE) page = group_first / KERNEL_PAGE;
    end = smaller(end, divide_up(group_end, KERNEL_PAGE));
    if (page >= end) return;
    uint32_t at = page * KERNEL_PAGE;
    for (uint32_t i = 0; i < n_q; i++) {
        visible(ex, op, g->row + i / heads, &scratch->first[i], &scratch->end[i]);
        scratch->first[i] = scratch->first[i] > at ? scratch->first[i] - at : 0;
        scratch->end[i] = scratch->end[i] > at ? scratch->end[i] - at : 0;
    }
    for (; page < end; page++) {
        kv_page p = kv_sequence_page(sequence, op->layer, kv_head, page);
        pages[n_pages++] = (kernel_kv_page){p.keys, p.values};
    }
    const kernel_kv_type type = kv_sequence_type(sequence);
    const void *queries = pass_query(ex, op, g->row, kv_head * heads);
    if (op->n_latent)
        attend_latents(ex, op, queries, pages, n_pages, type, n_q, scratch);
    else
        ex->k->attend[type](scratch->state[0], scratch->out[0], queries, pages, n_pages,
                            scratch->first, scratch->end, n_q, op->head_dim);
}

/* a [head_dim] times the softplus of its gate or gates. */
static void open_gates(const cpu_executor *ex, const step_op *op, float *a, uint32_t row,
                       uint32_t head)
{
    const float *gate = ex->gates + ((size_t)row * op->n_heads + head) * op->n_gates;
    float open = kernel_softplus_ref(gate[0]);
    for (uint32_t d = 0; d < op->head_dim; d++) {
        if (d > 0 && op->n_gates > 1) open = kernel_softplus_ref(gate[d]);
        a[d] *= open;
    }
}

/* The sink takes part in the sum once; then weights become a distribution. */
static void finish(const cpu_executor *ex, const step_op *op, kernel_softmax_state state,
                   const float *sum, uint32_t row, uint32_t head)
{
    float latent[KERNEL_HEAD_MAX];
    float *to = ex->attended.f + ((size_t)row * op->n_heads + head) * op->head_dim;
    float scale = 1, total = state.sum;
    if (op->n_latent) to = latent;
    if (op->sinks) {
        float sink = op->sinks[head], max = state.max > sink ? state.max : sink;
        scale = kernel_exp_ref(state.max - max);
        total = total * scale + kernel_exp_ref(sink - max);
    }
    scale /= total;
    for (uint32_t d = 0; d < op->head_dim; d++) to[d] = sum[d] * scale;
    kernel_attend_result_fn *result =
        ex->k->attend_result[kv_sequence_type(ex->rows[row].sequence)];
    if (result) result(to, op->head_dim);
    if (op->n_latent) pass_latent_attended(ex, op, to, row, head);
    if (op->n_gates) open_gates(ex, op, to, row, head);
    if (!op->is_gated) return;
    float *gate = ex->gates + ((size_t)row * op->n_heads + head) * op->head_dim;
    ex->k->sigmoid_gated(gate, to, op->head_dim);
    memcpy(to, gate, op->head_dim * sizeof *to);
}

static void keep_partials(cpu_executor *ex, const step_op *op, const attend_group *g,
                          uint32_t kv_head, uint32_t chunk, const pass_scratch *scratch)
{
    uint32_t heads = pass_heads_of_one(op);
    for (uint32_t r = 0; r < g->n_rows; r++) {
        size_t at = ((size_t)(g->row + r) * ex->n_chunks + chunk) * op->n_heads + kv_head * heads;
        memcpy(ex->part_state + at, scratch->state[0] + r * heads,
               heads * sizeof *ex->part_state);
        memcpy(ex->part_out + at * op->head_dim, scratch->out[0] + (size_t)r * heads * op->head_dim,
               (size_t)heads * op->head_dim * sizeof(float));
    }
}

/* Unit: (group, kv head), and when split (group, kv head, chunk). */
void pass_attend(cpu_executor *ex, const step_op *op, uint32_t unit, pass_scratch *scratch)
{
    uint32_t heads = pass_heads_of_one(op), d = op->head_dim;
    uint32_t only = ex->split ? unit % ex->n_chunks : 0;
    if (ex->split) unit /= ex->n_chunks;
    const attend_group *g = &ex->groups[unit / op->n_kv_heads];
    uint32_t kv_head = unit % op->n_kv_heads, n_q = g->n_rows * heads;
    if (ex->split) {
        attend_chunk(ex, op, g, kv_head, only, scratch);
        keep_partials(ex, op, g, kv_head, only, scratch);
        return;
    }
    uint32_t first, end, unused;
    visible(ex, op, g->row, &first, &unused);
    visible(ex, op, g->row + g->n_rows - 1, &unused, &end);
    for (uint32_t i = 0; i < n_q; i++)
        scratch->state[1][i] = (kernel_softmax_state){-INFINITY, 0};
    memset(scratch->out[1], 0, (size_t)n_q * d * sizeof(float));
    for (uint32_t c = first / PASS_CHUNK_TOKENS; c * PASS_CHUNK_TOKENS < end; c++) {
        attend_chunk(ex, op, g, kv_head, c, scratch);
        for (uint32_t i = 0; i < n_q; i++)
            if (scratch->state[0][i].sum > 0)
                ex->k->attend_join(&scratch->state[1][i], scratch->out[1] + (size_t)i * d,
                                   &scratch->state[0][i], scratch->out[0] + (size_t)i * d, d);
    }
    for (uint32_t i = 0; i < n_q; i++)
        finish(ex, op, scratch->state[1][i], scratch->out[1] + (size_t)i * d, g->row + i / heads,
               kv_head * heads + i % heads);
}

void pass_attend_join(cpu_executor *ex, const step_op *op, uint32_t row, uint32_t head)
{
    uint32_t first, end;
    visible(ex, op, row, &first, &end);
    kernel_softmax_state state = {-INFINITY, 0};
    float sum[KERNEL_HEAD_MAX] = {0};
    for (uint32_t c = first / PASS_CHUNK_TOKENS; c * PASS_CHUNK_TOKENS < end; c++) {
        size_t at = ((size_t)row * ex->n_chunks + c) * op->n_heads + head;
        if (ex->part_state[at].sum > 0)
            ex->k->attend_join(&state, sum, &ex->part_state[at], ex->part_out + at * op->head_dim,
                               op->head_dim);
    }
    finish(ex, op, state, sum, row, head);
}
