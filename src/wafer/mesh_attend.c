/* mesh_attend.c - attention over the keys and values in the rows of the mesh.
 *
 * A row (mesh_kv.c) keeps a token: every column of its head's strip has the channels of that
 * column. Keys and values in 8 bits are turned and rounded by head, so the columns of a strip
 * exchange their channels of the new query, key and value.
 *
 * Scores are summed along x over the columns of a strip, so that all of them have a row's weights;
 * each then sums its channels of the values.  In 8 bits these sums are integers: any order is
 * exact.
 *
 * EQUAL: one page of 64 tokens after another, as in docs/numerics.md: its maxima meet, which is
 * exact; its partial sums and, for floats, its outputs are passed from token to token.
 * MESH: every row starts from zero over its own tokens, 64 at a time, and the running softmaxes of
 * the rows meet by the schedule along y.
 * For a prompt, queries stay on the line of their row; keys and values rotate along y, like the
 * operands of its products, and each row keeps its own part of the new ones.  The columns of a
 * strip share the softmax of a line's rows there, and each key meets all queries of a line at once:
 * prompt_attend.c has its time. */
#include "kernels/kv_i8.h"
#include "wafer/mesh_core.h"

enum { CHUNK_PAGES = 8 }; /* of the CPU's attention: 512 positions */

/* Tokens that attention takes in one step: slots [first, end) of 64.  EQUAL: a page; MESH: the next
 * tokens of one row. */
typedef struct {
    uint32_t first, end;
    uint32_t token[KERNEL_PAGE];
} batch;

/* A query row, and the part of the sequence that it sees. */
typedef struct {
    const step_op *op;
    const void *query;
    uint32_t kv_head, first, end;
} seeing;

/* ---- one step: that of docs/numerics.md over one page ---- */

/* exp of scores [first, end) of a page in place, and into the running softmax; returns the factor
 * of the earlier sums. */
static float take_scores(const mesh *m, kernel_softmax_state *state, float *p, uint32_t first,
                         uint32_t end, float scale, float best)
{
    const float max = kernel_max(state->max, best) + 0.0f;
    float partial[16] = {0};
    for (uint32_t j = first; j < end; j++) {
        p[j] = mesh_exp(m, fmaf(p[j], scale, -max));
        partial[j % 16] += p[j];
    }
    const float c = mesh_decay(m, state->max, max);
    *state = (kernel_softmax_state){max, state->sum * c + kernel_sum16(partial)};
    return c;
}

static void step_i8(const mesh *m, const seeing *s, kernel_softmax_state *state, float *out,
                    const batch *b)
{
    const uint32_t d = m->program->shape.head_dim, channels = kv_i8_channels(d);
    const kv_i8_query *query = s->query;
    float p[KERNEL_PAGE] = {0}, best = -INFINITY, top = 0.0f;
    int32_t sums[KV_I8_CHANNELS_MAX] = {0};
    for (uint32_t j = b->first; j < b->end; j++) {
        const kv_i8_page *keys = mesh_kv_page(m, s->op->layer, s->kv_head, b->token[j]).keys;
        const uint32_t slot = b->token[j] % KERNEL_PAGE;
        int32_t dot = query->offset;
        for (uint32_t i = 0; i < d; i++) dot += query->q[i] * keys->bytes[kv_i8_key_at(i, slot)];
        p[j] = (float)dot * keys->scale[slot];
        best = kernel_max(best, p[j]);
    }
    const float c = take_scores(m, state, p, b->first, b->end, query->scale, best * query->scale);
    for (uint32_t j = b->first; j < b->end; j++) {
        const kv_i8_page *values = mesh_kv_page(m, s->op->layer, s->kv_head, b->token[j]).values;
        p[j] *= values->scale[b->token[j] % KERNEL_PAGE];
    }
    for (uint32_t j = 0; j < KERNEL_PAGE; j += 2) top = kernel_max(top, p[j] + p[j + 1]);
    const float inverse = kv_i8_inverse(top, KV_I8_WEIGHT_MAX);
    const float scale = kv_i8_scale(top, KV_I8_WEIGHT_MAX);
    for (uint32_t j = b->first; j < b->end; j++) {
        const kv_i8_page *values = mesh_kv_page(m, s->op->layer, s->kv_head, b->token[j]).values;
        const int32_t weight = (int32_t)rintf(p[j] * inverse);
        const int8_t *v = (const int8_t *)values->bytes +
                          kv_i8_value_at(0, b->token[j] % KERNEL_PAGE, channels);
        for (uint32_t i = 0; i < d; i++) sums[i] += weight * v[4 * i];
    }
    for (uint32_t i = 0; i < d; i++) out[i] = fmaf((float)sums[i], scale, out[i] * c);
}

static float read_kv(const mesh *m, const void *from, size_t i)
{
    if (m->layout.kv_type == KERNEL_KV_F32) return ((const float *)from)[i];
    return f16_to_f32(((const uint16_t *)from)[i]);
}

/* q times the key of a token.  In MESH order each column of the strip sums its channels. */
static float mesh_attend_score(mesh *m, const seeing *s, uint32_t token)
{
    const uint32_t d = m->program->shape.head_dim, n = m->strip_sum.n;
    const float *q = s->query;
    const void *keys = mesh_kv_page(m, s->op->layer, s->kv_head, token).keys;
    float sum = 0.0f;
    for (uint32_t c = 0; c < n; c++) {
        const wafer_range r = tile_range(d, m->strips.channels, c);
        if (m->layout.order == MESH_ORDER) sum = 0.0f;
        for (uint32_t i = r.begin; i < r.end; i++)
            sum = fmaf(q[i], read_kv(m, keys, (size_t)i * KERNEL_PAGE + token % KERNEL_PAGE), sum);
        m->partial[c] = sum;
    }
    return m->layout.order == MESH_ORDER ? *mesh_meet(&m->strip_sum, m->partial, 1) : sum;
}

static void step_float(mesh *m, const seeing *s, kernel_softmax_state *state, float *out,
                       const batch *b)
{
    const uint32_t d = m->program->shape.head_dim;
    float p[KERNEL_PAGE] = {0}, best = -INFINITY;
    for (uint32_t j = b->first; j < b->end; j++) {
        p[j] = mesh_attend_score(m, s, b->token[j]);
        best = kernel_max(best, p[j]);
    }
    const float c = take_scores(m, state, p, b->first, b->end, 1.0f, best);
    for (uint32_t i = 0; i < d; i++) out[i] *= c;
    for (uint32_t j = b->first; j < b->end; j++) {
        const void *values = mesh_kv_page(m, s->op->layer, s->kv_head, b->token[j]).values;
        for (uint32_t i = 0; i < d; i++)
            out[i] = fmaf(p[j], read_kv(m, values, (size_t)(b->token[j] % KERNEL_PAGE) * d + i),
                          out[i]);
    }
}

static void mesh_attend_step(mesh *m, const seeing *s, kernel_softmax_state *state, float *out,
                             const batch *b)
{
    if (b->first >= b->end) return;
    if (m->layout.kv_type == KERNEL_KV_I8) step_i8(m, s, state, out, b);
    else step_float(m, s, state, out, b);
}

static void mesh_attend_join(const mesh *m, kernel_softmax_state *state, float *out,
                             const kernel_softmax_state *from, const float *from_out)
{
    if (from->max == -INFINITY) return;
    const float max = kernel_max(state->max, from->max) + 0.0f;
    const float c = mesh_decay(m, state->max, max), from_c = mesh_decay(m, from->max, max);
    state->max = max;
    state->sum = fmaf(from->sum, from_c, state->sum * c);
    for (uint32_t i = 0; i < m->program->shape.head_dim; i++)
        out[i] = fmaf(from_out[i], from_c, out[i] * c);
}

/* ---- over the rows ---- */

static void mesh_attend_clear(const mesh *m, kernel_softmax_state *state, float *out)
{
    *state = (kernel_softmax_state){-INFINITY, 0};
    memset(out, 0, m->program->shape.head_dim * sizeof *out);
}

/* Page by page: state[1] is the chunk's, state[0] that of all. */
static void walk_equal(mesh *m, const seeing *s)
{
    const uint32_t d = m->program->shape.head_dim, last = (s->end - 1) / KERNEL_PAGE;
    mesh_attend_clear(m, &m->state[0], m->out);
    mesh_attend_clear(m, &m->state[1], m->out + d);
    for (uint32_t page = s->first / KERNEL_PAGE; page <= last; page++) {
        const uint32_t at = page * KERNEL_PAGE;
        batch b = {.first = s->first > at ? s->first - at : 0,
                   .end = s->end - at < KERNEL_PAGE ? s->end - at : KERNEL_PAGE};
        for (uint32_t j = 0; j < KERNEL_PAGE; j++) b.token[j] = at + j;
        if (page % CHUNK_PAGES == 0) mesh_attend_clear(m, &m->state[1], m->out + d);
        mesh_attend_step(m, s, &m->state[1], m->out + d, &b);
        if ((page == last || page % CHUNK_PAGES == CHUNK_PAGES - 1) && m->state[1].sum > 0)
            mesh_attend_join(m, &m->state[0], m->out, &m->state[1], m->out + d);
    }
}

/* Some tokens, 64 at a time. */
static void take_tokens(mesh *m, const seeing *s, kernel_softmax_state *state, float *out,
                        mesh_kv_range r)
{
    batch b = {0};
    for (uint32_t t = r.begin; t < r.end; t += r.stride) {
        b.token[b.end++] = t;
        if (b.end < KERNEL_PAGE && t + r.stride < r.end) continue;
        mesh_attend_step(m, s, state, out, &b);
        b.end = 0;
    }
}

/* A row's part of a prompt's attention before its keys and values rotate: its kept tokens, and its
 * own of the pass. */
static void ring_sets(const mesh *m, const seeing *s, uint32_t y, mesh_kv_range sets[2])
{
    const uint32_t old = s->end < m->position ? s->end : m->position;
    const wafer_range own = tile_range(m->n_rows, m->line_rows, y);
    uint32_t begin = m->position + own.begin, end = m->position + own.end;
    sets[0] = mesh_kv_tokens(m, s->op->layer, y, s->first, s->first > old ? s->first : old);
    begin = begin > s->first ? begin : s->first;
    end = end < s->end ? end : s->end;
    sets[1] = (mesh_kv_range){.begin = begin, .end = end > begin ? end : begin, .stride = 1};
}

/* A row stays on its line, and the lines' keys and values pass by in the order of their ring. */
static void walk_ring(mesh *m, const seeing *s, uint32_t line)
{
    mesh_attend_clear(m, &m->state[0], m->out);
    for (uint32_t i = 0; i < m->layout.height; i++) {
        mesh_kv_range sets[2];
        ring_sets(m, s, mesh_ring_core(m->layout.height, line, i), sets);
        for (int j = 0; j < 2; j++) take_tokens(m, s, &m->state[0], m->out, sets[j]);
    }
}

/* Every row over its own tokens, then the rows are combined. */
static void walk_apart(mesh *m, const seeing *s)
{
    const uint32_t d = m->program->shape.head_dim, h = m->layout.height;
    const mesh_schedule *sum = &m->sum[WAFER_AXIS_Y];
    for (uint32_t y = 0; y < h; y++) {
        float *out = m->out + (size_t)y * d;
        mesh_attend_clear(m, &m->state[y], out);
        take_tokens(m, s, &m->state[y], out,
                    mesh_kv_tokens(m, s->op->layer, y, s->first, s->end));
    }
    for (uint32_t i = 0; i < sum->n_adds; i++) {
        const uint32_t from = sum->adds[i].from, to = sum->adds[i].to;
        mesh_attend_join(m, &m->state[to], m->out + (size_t)to * d, &m->state[from],
                         m->out + (size_t)from * d);
    }
    m->state[0] = m->state[sum->root];
    memmove(m->out, m->out + (size_t)sum->root * d, d * sizeof *m->out);
}

/* The sink is added to the sum once; then weights are normalized. */
static void mesh_attend_finish(mesh *m, const step_op *op, uint32_t row, uint32_t head)
{
    const step_shape *s = &m->program->shape;
    const kernel_softmax_state state = m->state[0];
    float *to = m->attended.f + (size_t)row * m->attended.width + (size_t)head * s->head_dim;
    float scale = 1, sum = state.sum;
    if (op->sinks) {
        const float sink = op->sinks[head], max = state.max > sink ? state.max : sink;
        scale = mesh_exp(m, state.max - max);
        sum = sum * scale + mesh_exp(m, sink - max);
    }
    scale /= sum;
    for (uint32_t i = 0; i < s->head_dim; i++) to[i] = m->out[i] * scale;
    kernel_attend_result_fn *result = m->k.attend_result[m->layout.kv_type];
    if (result) result(to, s->head_dim);
}

/* ---- counting ---- */

static uint32_t strip_heads(const mesh *m, uint32_t strip)
{
    const uint32_t left = m->program->shape.n_kv_heads - strip * m->strips.heads;
    return left < m->strips.heads ? left : m->strips.heads;
}

/* A strip's query heads of one row, against n tokens in row y of the mesh. */
static void count_tokens(mesh *m, uint32_t strip, uint32_t y, uint32_t n)
{
    const wafer_strips *t = &m->strips;
    const uint32_t heads = strip_heads(m, strip), n_q = heads * t->queries;
    const uint32_t first = strip * t->cores;
    for (uint32_t c = 0; n && c < t->cores; c++) {
        const uint64_t channels = m->split_kv.share[first + c] / heads;
        mesh_count_core(m, first + c, y, n_q * channels, n);          /* scores */
        mesh_count_core(m, first + c, y, n_q, n);                     /* exp and sum */
        mesh_count_core(m, first + c, y, (uint64_t)n_q * n, (uint32_t)channels); /* values */
    }
    mesh_count_adds(m, WAFER_AXIS_X, y, &m->strip_sum, first, (uint64_t)n_q * n);
    mesh_count_broadcast(m, WAFER_AXIS_X, y, first + m->strip_sum.root, first, first + t->cores,
                         (uint64_t)n_q * n);
}

static uint32_t range_tokens(mesh_kv_range r) { return tiles_of(r.end - r.begin, r.stride); }

/* Rows of a line of a prompt that see a token. */
static wafer_range mesh_attend_rows_seeing(const mesh *m, const step_op *op, wafer_range rows,
                                           uint32_t token)
{
    const uint32_t past = op->window ? token + op->window : UINT32_MAX; /* it is seen before that */
    const uint32_t first = token > m->position ? token - m->position : 0;
    const uint32_t end = past > m->position ? past - m->position : 0;
    wafer_range r = {first > rows.begin ? first : rows.begin, end < rows.end ? end : rows.end};
    if (r.end < r.begin) r.end = r.begin;
    return r;
}

/* A strip's softmax over the keys passing by on a line: each of its rows sees n [n_rows] tokens.
 * The columns share it, a row of a head each, and exchange the weights, with the factors of the
 * earlier sums. */
static void count_softmax(mesh *m, uint32_t strip, uint32_t line, const uint32_t *n,
                          uint32_t n_rows)
{
    const wafer_strips *t = &m->strips;
    const uint32_t first = strip * t->cores, n_q = strip_heads(m, strip) * t->queries;
    uint64_t pairs = 0, rows = 0;
    for (uint32_t i = 0; i < n_rows; i++) {
        for (uint32_t h = 0; n[i] && h < n_q; h++)
            mesh_count_core(m, first + (uint32_t)(rows * n_q + h) % t->cores, line, 1, n[i]);
        pairs += n[i];
        rows += n[i] != 0;
    }
    for (int back = 0; back < 2; back++) { /* scores; weights */
        const uint64_t values = n_q * (pairs + (back ? rows : 0));
        mesh_count_adds(m, WAFER_AXIS_X, line, &m->strip_sum, first, values);
        mesh_count_broadcast(m, WAFER_AXIS_X, line, first + m->strip_sum.root, first,
                             first + t->cores, values);
    }
    for (uint32_t c = first; rows && c < first + t->cores; c++)
        mesh_count_core(m, c, line, m->split_kv.share[c], (uint32_t)rows * t->queries);
}

/* For each key and value, the channels of a core with the queries of its line that see it. */
static void count_set(mesh *m, const step_op *op, uint32_t line, wafer_range rows,
                      mesh_kv_range set)
{
    uint32_t n[MESH_ROWS_MAX] = {0};
    bool any = false;
    for (uint32_t token = set.begin; token < set.end; token += set.stride) {
        const wafer_range see = mesh_attend_rows_seeing(m, op, rows, token);
        const uint32_t length = (see.end - see.begin) * m->strips.queries;
        for (uint32_t r = see.begin; r < see.end; r++) n[r - rows.begin]++;
        for (uint32_t x = 0; length && x < m->strips.strips * m->strips.cores; x++)
            mesh_count_core(m, x, line, 2 * (uint64_t)m->split_kv.share[x], length);
        any |= length != 0;
    }
    for (uint32_t strip = 0; any && strip < m->strips.strips; strip++)
        count_softmax(m, strip, line, n, rows.end - rows.begin);
}

/* A line's rows of a prompt, against the keys and values of all lines. */
static void count_line(mesh *m, const step_op *op, uint32_t line)
{
    const wafer_range rows = tile_range(m->n_rows, m->line_rows, line);
    if (rows.begin == rows.end) return;
    const uint32_t seen = m->position + rows.begin + 1; /* by the first of them */
    const seeing all = {.op = op, .end = m->position + rows.end,
                        .first = op->window && seen > op->window ? seen - op->window : 0};
    for (uint32_t y = 0; y < m->layout.height; y++) {
        mesh_kv_range sets[2];
        ring_sets(m, &all, y, sets);
        for (int j = 0; j < 2; j++) count_set(m, op, line, rows, sets[j]);
    }
}

/* Rotates all keys and values that a row of the prompt sees. */
static void count_rings(mesh *m, const step_op *op)
{
    const uint32_t end = m->position + m->n_rows, seen = m->position + 1;
    const uint32_t first = op->window && seen > op->window ? seen - op->window : 0;
    for (uint32_t x = 0; x < m->layout.width; x++)
        mesh_count_ring(m, WAFER_AXIS_Y, x, mesh_kv_wavelets(m, x) * (end - first));
}

/* For the query heads of a strip, one row of the pass. */
static void count_row(mesh *m, const seeing *s, uint32_t strip)
{
    const wafer_strips *t = &m->strips;
    const uint32_t n_q = strip_heads(m, strip) * t->queries;
    const uint32_t h = m->layout.height, first = strip * t->cores;
    for (uint32_t y = 0; y < h; y++)
        count_tokens(m, strip, y, range_tokens(mesh_kv_tokens(m, s->op->layer, y, s->first,
                                                              s->end)));
    for (uint32_t c = first; c < first + t->cores; c++) {
        const mesh_schedule *sum = &m->sum[WAFER_AXIS_Y];
        const uint64_t values = m->split_q.share[c] + 2 * n_q;
        mesh_count_adds(m, WAFER_AXIS_Y, c, sum, 0, values);
        mesh_count_broadcast(m, WAFER_AXIS_Y, c, sum->root, 0, h, values);
    }
}

void mesh_attend(mesh *m, const step_op *op)
{
    const step_shape *s = &m->program->shape;
    for (uint32_t r = 0; r < m->n_rows; r++) {
        const uint32_t end = m->position + r + 1;
        seeing see = {.op = op, .end = end,
                      .first = op->window && end > op->window ? end - op->window : 0};
        for (uint32_t h = 0; h < s->n_heads; h++) {
            see.kv_head = h / m->strips.queries;
            see.query = m->queries + ((size_t)r * s->n_heads + h) * m->query_bytes;
            if (m->is_prompt) walk_ring(m, &see, r / m->line_rows);
            else if (m->layout.order == MESH_EQUAL) walk_equal(m, &see);
            else walk_apart(m, &see);
            mesh_attend_finish(m, op, r, h);
        }
        for (uint32_t strip = 0; !m->is_prompt && strip < m->strips.strips; strip++)
            count_row(m, &see, strip);
        m->kinds[m->kind].collectives += m->is_prompt ? 0 : 2;
    }
    for (uint32_t y = 0; m->is_prompt && y < m->layout.height; y++) count_line(m, op, y);
    if (m->is_prompt) count_rings(m, op);
}
