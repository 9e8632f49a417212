/* recurrent.c - layers that keep a state instead of keys and values: LINEAR_IN, CONV, DELTA; of the
 * gated delta rule or of a selective scan (Mamba-2).
 *
 * The state of a sequence is one piece of memory (step_state_floats() for each layer), which a pass
 * reads and never changes: it writes new states to other memory.  Rows go through it one after the
 * other, at any length, so a row's bits do not depend on how a prompt was cut.
 *
 * The pass keeps the changes that drafts made to the state: see cpu_executor_replay(). */
#include "cpu/pass.h"

enum { LANES = 64 }; /* of a value head, run together through all rows: 32 KB stay in a cache */

static uint32_t lanes_of(const step_recurrence *r)
{
    return smaller(r->value_dim, LANES); /* src/model refuses what is more and no multiple */
}

static uint32_t n_slices(const step_recurrence *r) { return r->value_dim / lanes_of(r); }

/* ---- memory ---- */

/* A row of LINEAR_IN's output: q k v, z, beta, alpha, each filled up to whole panels. */
static size_t part_at(const step_recurrence *r, int part)
{
    const size_t value = pass_padded(r->n_value_heads * r->value_dim);
    const size_t at[] = {0, pass_padded(step_channels(r)), pass_padded(step_channels(r)) + value,
                         pass_padded(step_channels(r)) + value + pass_padded(2 * r->n_value_heads)};
    return at[part];
}

size_t pass_linear_width(const step_recurrence *r)
{
    return part_at(r, 3) + pass_padded(r->n_value_heads);
}

/* A draft's change of a layer's state: k, change, decay, and the input of its convolution. */
size_t pass_draft_floats(const step_recurrence *r)
{
    return pass_padded(r->n_key_heads * r->key_dim) + pass_padded(r->n_value_heads * r->value_dim) +
           pass_padded(r->n_value_heads) + pass_padded(step_channels(r));
}

size_t pass_slice_floats(const step_recurrence *r) { return (size_t)r->key_dim * lanes_of(r); }

typedef struct {
    float *k, *change, *decay, *inputs;
} draft_log;

static draft_log log_of(const cpu_executor *ex, uint32_t draft, uint32_t layer)
{
    const step_recurrence *r = &ex->program->shape.linear;
    draft_log log;
    log.k = ex->drafts + ((size_t)draft * r->n_layers + layer) * pass_draft_floats(r);
    log.change = log.k + pass_padded(r->n_key_heads * r->key_dim);
    log.decay = log.change + pass_padded(r->n_value_heads * r->value_dim);
    log.inputs = log.decay + pass_padded(r->n_value_heads);
    return log;
}

void pass_linear_plan(cpu_executor *ex)
{
    uint32_t n_drafts = 0;
    ex->n_spans = 0;
    for (uint32_t i = 0; i < ex->n_rows; i++) {
        bool is_first = i == 0 || ex->rows[i].sequence != ex->rows[i - 1].sequence;
        if (is_first) ex->spans[ex->n_spans++] = (attend_group){i, 0};
        ex->spans[ex->n_spans - 1].n_rows++;
        ex->first_row[i] = ex->spans[ex->n_spans - 1].row;
        ex->draft_of[i] = ex->rows[i].is_draft ? n_drafts++ : CPU_DRAFTS_MAX;
    }
    CHECK(n_drafts <= CPU_DRAFTS_MAX);
}

/* ---- LINEAR_IN ---- */

uint32_t pass_linear_units(const cpu_executor *ex, const step_op *op)
{
    uint32_t n = 0;
    for (int i = 0; i < STEP_MATRICES_MAX; i++) n += pass_blocks_of(op->w[i]);
    return n * divide_up(ex->n_rows, PASS_TILE);
}

void pass_linear_in(cpu_executor *ex, const step_op *op, const pass_rows *in, uint32_t unit)
{
    const size_t width = pass_linear_width(&ex->program->shape.linear);
    const uint32_t n_tiles = divide_up(ex->n_rows, PASS_TILE);
    int part = 0;
    while (unit >= pass_blocks_of(op->w[part]) * n_tiles)
        unit -= pass_blocks_of(op->w[part++]) * n_tiles;
    const model_matrix *w = op->w[part];
    const pass_block b = pass_block_at(w, PASS_BLOCK_PANELS, ex->n_rows, unit);
    float *y = ex->linear + b.row * width + part_at(&ex->program->shape.linear, part) + b.first;
    pass_matmul(ex, y, width, w, 0, b.panel, b.n_panels, in, b.row, b.n_rows);
}

/* ---- CONV ---- */

static const float *inputs_of(const cpu_executor *ex, uint32_t row)
{
    return ex->linear + row * pass_linear_width(&ex->program->shape.linear);
}

/* The input of the convolution `back` tokens before a row: from this pass, the state, or none. */
static const float *inputs_before(const cpu_executor *ex, const step_op *op, uint32_t row,
                                  uint32_t back)
{
    const step_recurrence *r = &ex->program->shape.linear;
    const uint32_t first = ex->first_row[row], in_pass = row - first;
    if (back <= in_pass) return inputs_of(ex, row - back);
    const float *state = ex->rows[first].state;
    if (!state) return ex->no_inputs;
    return state + op->layer * step_state_floats(r) + step_state_matrices(r) +
           (size_t)(r->n_taps - 1 - (back - in_pass)) * step_channels(r);
}

typedef struct {
    uint32_t first, n;
} channels;

/* Of a key head its q, its k; and the values of heads from one on. */
static channels queries_of(const step_recurrence *r, uint32_t key)
{
    const uint32_t keys = r->n_key_heads * r->key_dim;
    const uint32_t first = r->is_scan ? r->n_value_heads * r->value_dim + keys : 0;
    return (channels){first + key * r->key_dim, r->key_dim};
}

static channels keys_of(const step_recurrence *r, uint32_t key)
{
    const uint32_t first = r->is_scan ? r->n_value_heads * r->value_dim
                                      : r->n_key_heads * r->key_dim;
    return (channels){first + key * r->key_dim, r->key_dim};
}

static channels values_of(const step_recurrence *r, uint32_t head, uint32_t n_heads)
{
    const uint32_t first = r->is_scan ? 0 : 2 * r->n_key_heads * r->key_dim;
    return (channels){first + head * r->value_dim, n_heads * r->value_dim};
}

static uint32_t values_per_key(const step_recurrence *r)
{
    return r->n_value_heads / r->n_key_heads;
}

/* Few keys of a scan have many heads of values: a unit is one of those, and the first of a key has
 * its q and k. */
static uint32_t heads_of_part(const step_recurrence *r)
{
    return r->is_scan ? 1 : values_per_key(r);
}

uint32_t pass_conv_parts(const step_recurrence *r)
{
    return r->n_value_heads / heads_of_part(r);
}

static void channels_of(const step_recurrence *r, uint32_t part, channels out[3])
{
    const uint32_t n = heads_of_part(r), key = part * n / values_per_key(r);
    out[0] = queries_of(r, key);
    out[1] = keys_of(r, key);
    out[2] = values_of(r, part * n, n);
    if (part * n % values_per_key(r)) out[0].n = out[1].n = 0;
}

/* Store the inputs of the next row's convolution in the state after this row. */
static void keep_inputs(const cpu_executor *ex, const step_op *op, uint32_t row, const channels *c)
{
    const step_recurrence *r = &ex->program->shape.linear;
    float *to = ex->rows[row].next_state;
    if (!to) return;
    to += op->layer * step_state_floats(r) + step_state_matrices(r);
    for (uint32_t j = 0; j + 1 < r->n_taps; j++)
        memcpy(to + (size_t)j * step_channels(r) + c->first,
               inputs_before(ex, op, row, r->n_taps - 2 - j) + c->first, c->n * sizeof *to);
}

/* decay and beta of the value heads [first, first + n). */
static void find_rates(const cpu_executor *ex, const step_op *op, uint32_t row, uint32_t first,
                       uint32_t n)
{
    const step_recurrence *r = &ex->program->shape.linear;
    const uint32_t per_key = values_per_key(r);
    const float *in = inputs_of(ex, row), *both = in + part_at(r, 2);
    float *decay = ex->rates + (size_t)row * 2 * r->n_value_heads, *beta = decay + r->n_value_heads;
    const bool is_split = (op - 1)->w[3] != NULL;
    for (uint32_t h = first; h < first + n; h++) {
        if (r->is_scan) {
            beta[h] = kernel_softplus_ref(both[h] + op->dt[h]);
            decay[h] = kernel_decay_ref(op->decay[h] * beta[h]);
            continue;
        }
        const uint32_t group = h / per_key * 2 * per_key + h % per_key;
        const float b = is_split ? both[h] : both[group];
        const float a = is_split ? in[part_at(r, 3) + h] : both[group + per_key];
        beta[h] = kernel_sigmoid_ref(b);
        decay[h] = kernel_decay_ref(op->decay[h] * kernel_softplus_ref(a + op->dt[h]));
    }
}

/* Unit: (row, part). */
void pass_conv(cpu_executor *ex, const step_op *op, uint32_t unit)
{
    enum { TAPS_MAX = 8 };
    const step_recurrence *r = &ex->program->shape.linear;
    const uint32_t n_channels = step_channels(r), n_heads = heads_of_part(r);
    const uint32_t row = unit / pass_conv_parts(r), part = unit % pass_conv_parts(r);
    float *mixed = ex->mixed + (size_t)row * n_channels;
    channels c[3];
    channels_of(r, part, c);
    for (int i = 0; i < 3; i++) {
        if (!c[i].n) continue;
        const float *rows[TAPS_MAX];
        for (uint32_t j = 0; j < r->n_taps; j++)
            rows[j] = inputs_before(ex, op, row, r->n_taps - 1 - j) + c[i].first;
        ex->k->conv(mixed + c[i].first, rows, op->conv + c[i].first,
                    op->bias[0] ? op->bias[0] + c[i].first : NULL, n_channels, r->n_taps, c[i].n);
        keep_inputs(ex, op, row, &c[i]);
    }
    for (int i = 0; !r->is_scan && i < 2; i++) /* the mean of squares is the sum over key_dim */
        ex->k->rms_norm(mixed + c[i].first, mixed + c[i].first, op->head_norm[i], r->key_dim,
                        1e-6f / (float)r->key_dim);
    find_rates(ex, op, row, part * n_heads, n_heads);
    if (ex->draft_of[row] == CPU_DRAFTS_MAX) return;
    const draft_log log = log_of(ex, ex->draft_of[row], op->layer);
    memcpy(log.k + (c[1].first - keys_of(r, 0).first), mixed + c[1].first,
           c[1].n * sizeof *mixed);
    memcpy(log.decay + part * n_heads,
           ex->rates + (size_t)row * 2 * r->n_value_heads + part * n_heads,
           n_heads * sizeof *mixed);
    for (int i = 0; i < 3; i++)
        memcpy(log.inputs + c[i].first, inputs_of(ex, row) + c[i].first, c[i].n * sizeof *mixed);
}

/* ---- DELTA ---- */

static uint32_t key_head(const step_recurrence *r, uint32_t value_head)
{
    return r->is_grouped ? value_head / values_per_key(r)
                         : value_head % r->n_key_heads;
}

/* Of a layer's part of a state: a slice of a head's matrix, [key_dim][lanes]. */
static size_t slice_at(const step_recurrence *r, uint32_t layer, uint32_t head, uint32_t slice)
{
    return layer * step_state_floats(r) +
           ((size_t)head * n_slices(r) + slice) * pass_slice_floats(r);
}

uint32_t pass_delta_units(const cpu_executor *ex)
{
    const step_recurrence *r = &ex->program->shape.linear;
    return ex->n_spans * r->n_value_heads * n_slices(r);
}

/* Unit: (sequence, value head, slice), through all rows of the sequence. */
void pass_delta(cpu_executor *ex, const step_op *op, uint32_t unit, pass_scratch *scratch)
{
    const step_recurrence *r = &ex->program->shape.linear;
    const uint32_t lanes = lanes_of(r), slice = unit % n_slices(r);
    const uint32_t head = unit / n_slices(r) % r->n_value_heads, of_key = key_head(r, head);
    const attend_group span = ex->spans[unit / n_slices(r) / r->n_value_heads];
    const size_t at = slice_at(r, op->layer, head, slice);
    const uint32_t value = head * r->value_dim + slice * lanes;
    const float *from = scratch->slice;
    kernel_delta_fn *step = r->is_scan ? ex->k->scan : ex->k->delta;
    if (ex->rows[span.row].state)
        from = ex->rows[span.row].state + at;
    else
        memset(scratch->slice, 0, pass_slice_floats(r) * sizeof *scratch->slice);
    for (uint32_t row = span.row; row < span.row + span.n_rows; row++) {
        const float *mixed = ex->mixed + (size_t)row * step_channels(r);
        const float *rates = ex->rates + (size_t)row * 2 * r->n_value_heads;
        const kernel_delta_row in = {
            .q = mixed + queries_of(r, of_key).first,
            .k = mixed + keys_of(r, of_key).first,
            .v = mixed + values_of(r, head, 1).first + slice * lanes,
            .decay = rates[head],
            .beta = rates[r->n_value_heads + head],
            .skip = op->skip ? op->skip[head] : 0,
            .n_keys = r->key_dim,
            .n_lanes = lanes,
        };
        float *next = ex->rows[row].next_state, *to = next ? next + at : scratch->slice;
        float change[LANES], *out = ex->attended.f +
                                    (size_t)row * r->n_value_heads * r->value_dim + value;
        step(out, change, to, from, &in);
        if (ex->draft_of[row] < CPU_DRAFTS_MAX)
            memcpy(log_of(ex, ex->draft_of[row], op->layer).change + value, change,
                   lanes * sizeof *change);
        from = to;
    }
}

/* norm(out) silu(z), head by head; or, of a scan, norm(out silu(z)), key by key. */
/* Value heads one after another of a key, from heads that have the keys in turn. */
static void by_keys(const step_recurrence *r, float *out, const float *in)
{
    const uint32_t d = r->value_dim, n_keys = r->n_key_heads, n_of_key = r->n_value_heads / n_keys;
    for (uint32_t key = 0; key < n_keys; key++)
        for (uint32_t i = 0; i < n_of_key; i++, out += d)
            memcpy(out, in + (size_t)(i * n_keys + key) * d, d * sizeof *out);
}

void pass_delta_finish(cpu_executor *ex, const step_op *op, uint32_t row)
{
    const step_shape *s = &ex->program->shape;
    const step_recurrence *r = &s->linear;
    const uint32_t n = r->n_value_heads * r->value_dim;
    float *out = ex->attended.f + (size_t)row * n;
    float *z = ex->linear + row * pass_linear_width(r) + part_at(r, 1);
    const uint32_t of_key = n / r->n_key_heads;
    if (r->is_scan) {
        ex->k->silu_gated(z, out, n);
        for (uint32_t at = 0; at < n; at += of_key)
            ex->k->rms_norm(out + at, z + at, op->head_norm[0] + at, of_key, s->norm_eps);
        return;
    }
    for (uint32_t h = 0; h < r->n_value_heads; h++) {
        float *head = out + h * r->value_dim;
        ex->k->rms_norm(head, head, op->head_norm[0], r->value_dim, s->norm_eps);
    }
    ex->k->silu_gated(z, out, n);
    const step_hadamard *turn = step_hadamard_of(op + 1);
    if (turn && turn->by_keys)
        by_keys(r, out, z);
    else
        memcpy(out, z, n * sizeof *out);
}

/* ---- drafts that were right ---- */

typedef struct {
    const cpu_executor *ex;
    uint32_t draft, n;
    const float *from;
    float *to;
} replay;

static void replay_inputs(const replay *p, uint32_t layer)
{
    const step_recurrence *r = &p->ex->program->shape.linear;
    const uint32_t n = step_channels(r), kept = r->n_taps - 1;
    const size_t at = layer * step_state_floats(r) + step_state_matrices(r);
    for (uint32_t j = 0; j < kept; j++) { /* the last of those kept before and those of drafts */
        const uint32_t i = j + p->n;
        const float *from = i < kept ? p->from + at + (size_t)i * n
                                     : log_of(p->ex, p->draft + i - kept, layer).inputs;
        memcpy(p->to + at + (size_t)j * n, from, n * sizeof *from);
    }
}

static void replay_slice(const replay *p, uint32_t layer, uint32_t head, uint32_t slice)
{
    const step_recurrence *r = &p->ex->program->shape.linear;
    const size_t at = slice_at(r, layer, head, slice);
    const float *from = p->from + at;
    for (uint32_t i = 0; i < p->n; i++, from = p->to + at) {
        const draft_log log = log_of(p->ex, p->draft + i, layer);
        const kernel_delta_row in = {.k = log.k + key_head(r, head) * r->key_dim,
                                     .decay = log.decay[head],
                                     .n_keys = r->key_dim,
                                     .n_lanes = lanes_of(r)};
        p->ex->k->delta_again(p->to + at, from,
                              log.change + head * r->value_dim + slice * lanes_of(r), &in);
    }
}

static void replay_units(void *arg, uint32_t phase, uint32_t first, uint32_t end, uint32_t worker)
{
    const replay *p = arg;
    const step_recurrence *r = &p->ex->program->shape.linear;
    const uint32_t slices = r->n_value_heads * n_slices(r);
    (void)phase, (void)worker;
    for (uint32_t u = first; u < end; u++) {
        const uint32_t layer = u / (slices + 1), i = u % (slices + 1);
        if (i == slices)
            replay_inputs(p, layer);
        else
            replay_slice(p, layer, i / n_slices(r), i % n_slices(r));
    }
}

void cpu_executor_replay(cpu_executor *ex, uint32_t row, uint32_t n, const float *from, float *to)
{
    const step_recurrence *r = &ex->program->shape.linear;
    const uint32_t n_units = r->n_layers * (r->n_value_heads * n_slices(r) + 1);
    CHECK(n >= 1 && row + n <= ex->n_rows && from != to);
    CHECK(ex->rows[row].is_draft && ex->draft_of[row] + n <= CPU_DRAFTS_MAX);
    replay p = {ex, ex->draft_of[row], n, from, to};
    const uint32_t chunk = n_units / (ex->n_workers * 8);
    const team_phase phase = {n_units, chunk ? chunk : 1};
    team_run(ex->workers, &phase, 1, replay_units, &p);
}
