/* timing.c - walks a step program's operations over the clocks of a region. */
#include "wafer/timing.h"

#include <math.h>

#include "base/memory.h"
#include "wafer/modelled.h"

const char *const wafer_quant_names[WAFER_QUANTS] = {
    [QUANT_FILE] = "file", [QUANT_FP16] = "fp16",   [QUANT_FP8] = "fp8",
    [QUANT_INT4] = "int4", [QUANT_MXFP4] = "mxfp4",
};

#define WAFER_SDK(name, sdk, tuned, low, high, what)  .name = sdk,
#define WAFER_BEST(name, sdk, tuned, low, high, what) .name = tuned,

wafer_style wafer_style_sdk(void)
{
    return (wafer_style){WAFER_COST_MAP(WAFER_SDK)};
}

wafer_style wafer_style_tuned(void)
{
    return (wafer_style){WAFER_COST_MAP(WAFER_BEST).swaps_loops = true, .fuses = true};
}

bool wafer_style_set(wafer_style *style, view name, double value)
{
#define WAFER_NAME(constant, sdk, tuned, low, high, what) {#constant, &style->constant},
    const struct {
        const char *name;
        double *at;
    } constants[] = {WAFER_COST_MAP(WAFER_NAME)};
#undef WAFER_NAME
    for (size_t i = 0; i < ARRAY_LEN(constants); i++)
        if (view_equal(name, view_of(constants[i].name)) && value >= 0 && value <= 1e6) {
            *constants[i].at = value;
            return true;
        }
    return false;
}

double quant_bits(wafer_quant quant, const model_matrix *w)
{
    switch (quant) {
    case QUANT_FILE:
        return 8.0 * block_bytes(w->source->type) / block_values(w->source->type);
    case QUANT_FP16:
        return 16;
    case QUANT_FP8:
        return 8;
    case QUANT_INT4:
        return 4.5;
    case QUANT_MXFP4:
        return w->n_matrices > 1 ? 4.25 : 16;
    }
    return 16;
}

wafer_message_cost message_cost(const wafer_mesh *mesh, const wafer_style *style)
{
    return (wafer_message_cost){.hop = (int64_t)mesh->hop_cycles * WAFER_TICKS,
                                .ramp = (int64_t)mesh->ramp_cycles * WAFER_TICKS,
                                .stage = llround(style->stage * WAFER_TICKS)};
}

/* ---- work of one core, the same on all ---- */

typedef struct {
    wafer_clocks *c;
    const step_program *p;
    const step_cost *cost;
    uint64_t cores;
    uint32_t lanes; /* of fp16 */
} walk;

static int64_t ticks_of(double cycles)
{
    return llround(cycles * WAFER_TICKS);
}

/* n instructions over vectors of len: each multiplies and adds. */
static void timing_vectors(walk *w, double n, uint32_t len, bool are_macs)
{
    const double steps = n * tiles_of(len, w->lanes);
    clocks_spend(w->c, SPENT_ISSUE, ticks_of(n * w->cost->style.issue));
    clocks_spend(w->c, SPENT_VECTOR, ticks_of(steps));
    wafer_events *e = &w->c->events;
    e->vector_ops += (uint64_t)n * w->cores;
    e->vector_steps += (uint64_t)steps * w->cores;
    if (are_macs) e->macs += (uint64_t)n * len * w->cores;
    /* A step reads a weight and a sum, and writes the sum. */
    e->sram_read_bits += (uint64_t)n * len * 32 * w->cores;
    e->sram_write_bits += (uint64_t)n * len * 16 * w->cores;
}

static void timing_scalars(walk *w, double n)
{
    clocks_spend(w->c, SPENT_SCALAR, ticks_of(n * w->cost->style.scalar));
    w->c->events.scalar_ops += (uint64_t)n * w->cores;
    w->c->events.sram_read_bits += (uint64_t)n * 16 * w->cores;
    w->c->events.sram_write_bits += (uint64_t)n * 16 * w->cores;
}

/* y[n_t] += W x[k_t] for each new token: one instruction for each element of x, or, if the style
 * swaps loops and that is shorter, one for each row and then a sum of the lanes. */
static void timing_product(walk *w, double k_t, double n_t, bool narrow)
{
    const double m = w->cost->tokens;
    const double by_k = k_t * (w->cost->style.issue + ceil(n_t / w->lanes));
    const double by_n = n_t * (2 * w->cost->style.issue + ceil(k_t / w->lanes) + 1);
    /* Weights narrower than fp16 are widened first, once for all tokens. */
    if (narrow) timing_vectors(w, k_t < n_t ? k_t : n_t, (uint32_t)(k_t < n_t ? n_t : k_t), false);
    if (w->cost->style.swaps_loops && by_n < by_k) {
        timing_vectors(w, n_t * m, (uint32_t)k_t, true);
        timing_vectors(w, n_t * m, 1, false);
    } else {
        timing_vectors(w, k_t * m, (uint32_t)n_t, true);
    }
}

static bool is_narrow(const walk *w, const model_matrix *m)
{
    return quant_bits(w->cost->quant, m) < 16;
}

/* Values of fp16, two in a wavelet. */
static uint32_t timing_wavelets(double values)
{
    return (uint32_t)ceil(values / 2);
}

static void timing_reduce(walk *w, const wafer_tiles *t, double values)
{
    clocks_reduce(w->c, t->reduce, &t->sum, timing_wavelets(values));
}

/* Along a whole line, or along runs of n cores of it. */
static void reduce_run(walk *w, wafer_axis axis, uint32_t n, double values)
{
    const wafer_reduction sum = reduction_of(n, w->cost->choice.degree);
    clocks_reduce(w->c, axis, &sum, timing_wavelets(values));
}

/* The products of op's matrices with one input, `times` over (experts). */
static void timing_products(walk *w, const wafer_tiles *t, double times)
{
    const step_op *op = &w->p->ops[t->op];
    double n_all = 0;
    bool narrow = false;
    for (int i = 0; i < 3; i++) {
        if (!op->w[i] || !t->n_tile[i]) continue;
        n_all += t->n_tile[i];
        narrow |= is_narrow(w, op->w[i]);
        if (!w->cost->style.fuses)
            timing_product(w, times * t->k_tile, t->n_tile[i], is_narrow(w, op->w[i]));
    }
    if (w->cost->style.fuses) timing_product(w, times * t->k_tile, n_all, narrow);
}

/* Mean square of x, of which a core has k_t values; includes the scaling.  A fused style adds the
 * sum of squares to the products' reduction: returns the number of added values. */
static double timing_norm(walk *w, const wafer_tiles *t)
{
    const double m = w->cost->tokens;
    timing_scalars(w, 2.0 * t->k_tile * m);
    if (w->cost->choice.is_fused) return m;
    timing_reduce(w, t, m);
    return 0;
}

static void timing_residual(walk *w, const wafer_tiles *t)
{
    if (w->cost->style.fuses) timing_vectors(w, w->cost->tokens, t->n_tile[0], false);
}

/* ---- operations ---- */

static void time_qkv(walk *w, const wafer_tiles *t)
{
    const step_op *op = &w->p->ops[t->op];
    const step_shape *s = &w->p->shape;
    const wafer_strips strips = strips_of(s, w->c->width, w->cost->choice.k_multiple);
    const double m = w->cost->tokens, n_q = t->n_tile[0], n_k = t->n_tile[1];
    double extra = timing_norm(w, t);
    timing_products(w, t, 1);
    timing_reduce(w, t, m * (n_q + 2 * n_k) + extra);
    if (op->head_norm[0]) { /* a mean square for each head, over the columns of its strip */
        timing_scalars(w, 2 * m * (n_q + n_k));
        if (strips.cores > 1)
            reduce_run(w, WAFER_AXIS_X, strips.cores, m * strips.heads * (strips.queries + 1));
    }
    timing_scalars(w, m * (n_q + n_k)); /* rotation */
    timing_scalars(w, m * n_k);  /* into the cache */
    if (w->cost->choice.kv == WAFER_KV_SHIFT) {
        double step = w->cost->style.issue + 2.0 * w->cost->mesh->hop_cycles +
                      2.0 * w->cost->mesh->ramp_cycles + m * n_k / 2;
        clocks_spend(w->c, SPENT_STREAM, ticks_of(2 * step));
        /* Every row passes tokens in turn: the last passes nearly each token on, the one in the
         * middle every other; all of them each token once a window is full. */
        const double h = w->c->height;
        const double rows = op->window && w->cost->context >= op->window ? h - 1 : (h - 1) / 2;
        const double sent = 2 * m * timing_wavelets(n_k) * rows * w->c->width;
        w->c->events.hops += (uint64_t)sent;
        w->c->events.ramps += (uint64_t)(2 * sent);
        w->c->events.vector_ops += (uint64_t)(2 * m * rows * w->c->width);
    }
}

static void time_attend(walk *w, uint32_t at)
{
    const step_op *op = &w->p->ops[at];
    const wafer_strips strips = strips_of(&w->p->shape, w->c->width, w->cost->choice.k_multiple);
    const uint32_t context =
        op->window && op->window < w->cost->context ? op->window : w->cost->context;
    const double m = w->cost->tokens, heads = (double)strips.heads * strips.queries;
    const double tokens = tiles_of(context ? context : 1, w->c->height), d = strips.channels;
    timing_vectors(w, m * heads * d, (uint32_t)tokens, true); /* scores of the row's tokens */
    if (strips.cores > 1) reduce_run(w, WAFER_AXIS_X, strips.cores, m * heads * tokens);
    if (!w->cost->choice.is_fused) reduce_run(w, WAFER_AXIS_Y, w->c->height, m * heads); /* max */
    timing_scalars(w, m * heads * tokens); /* exp */
    if (!w->cost->choice.is_fused) reduce_run(w, WAFER_AXIS_Y, w->c->height, m * heads); /* sum */
    timing_vectors(w, m * heads * tokens, (uint32_t)d, true);
    /* Fused: each row has its own maximum and sum, and corrects at every add. */
    double riding = w->cost->choice.is_fused ? 2 * m * heads : 0;
    if (w->cost->choice.is_fused) timing_scalars(w, 2 * m * heads);
    reduce_run(w, WAFER_AXIS_Y, w->c->height, m * heads * d + riding);
}

static void time_up(walk *w, const wafer_tiles *t)
{
    const step_op *op = &w->p->ops[t->op];
    const double m = w->cost->tokens, f = op->w[0] ? t->n_tile[0] : t->n_tile[1];
    double extra = timing_norm(w, t);
    timing_products(w, t, 1);
    timing_reduce(w, t, m * ((op->w[0] ? t->n_tile[0] : 0) + t->n_tile[1]) + extra);
    timing_scalars(w, m * (w->cost->silu_of_embd ? t->k_tile : f));
}

static void time_down(walk *w, const wafer_tiles *t)
{
    timing_products(w, t, 1);
    timing_reduce(w, t, w->cost->tokens * (double)t->n_tile[0]);
    timing_residual(w, t);
}

/* Scores of all experts, then the best are sent to all cores: k candidates take the sum's place. */
static void time_route(walk *w, const wafer_tiles *t)
{
    const double m = w->cost->tokens, k = w->p->shape.n_experts_used;
    double extra = timing_norm(w, t);
    timing_products(w, t, 1);
    timing_reduce(w, t, m * t->n_tile[0] + extra);
    timing_scalars(w, m * (t->n_tile[0] + k));
    reduce_run(w, WAFER_AXIS_X, w->c->width, m * 2 * 2 * k); /* value and index */
}

/* The number of experts that m tokens choose together, if each is equally likely. */
static double experts_touched(const step_shape *s, double m)
{
    double n = s->n_experts, k = s->n_experts_used;
    return n * (1 - pow(1 - k / n, m));
}

static void time_sharded(walk *w, const wafer_tiles *t)
{
    const step_shape *s = &w->p->shape;
    const double m = w->cost->tokens, k = s->n_experts_used;
    const bool up = w->p->ops[t->op].kind == STEP_EXPERTS_UP;
    timing_products(w, t, k);
    if (up) {
        timing_reduce(w, t, m * k * (t->n_tile[0] + t->n_tile[1]));
        timing_scalars(w, m * k * t->n_tile[0]);
    } else { /* weighted by their cores: one sum for all */
        timing_reduce(w, t, m * t->n_tile[0]);
        timing_residual(w, t);
    }
}

/* A sum in each row or column of groups; only the events of n groups are counted, which alone have
 * something to add. */
static void reduce_expert_groups(walk *w, wafer_axis axis, const wafer_tiles *t, double values,
                                 double n)
{
    const uint32_t side = w->cost->choice.group_side;
    const bool along_x = axis == WAFER_AXIS_X;
    const uint32_t length = along_x ? w->c->width : w->c->height;
    const uint32_t lines = along_x ? w->c->height : w->c->width;
    const uint64_t all = (uint64_t)(length / side) * lines, some = (uint64_t)n * side;
    const wafer_events before = w->c->events;
    w->c->events = (wafer_events){0};
    clocks_reduce(w->c, axis, &t->sum, timing_wavelets(values));
    const wafer_events counted = w->c->events;
    w->c->events = before;
    events_add(&w->c->events, &counted, some, all);
}

/* Both halves of the experts on groups, dispatched and combined as in placement.h: by sums that are
 * the same wherever the experts are. */
static void time_expert_groups(walk *w, const wafer_tiles *t)
{
    const step_shape *s = &w->p->shape;
    const wafer_expert_groups expert_groups =
        expert_groups_of(w->c->width, w->c->height, w->cost->choice.group_side);
    const wafer_tiles up = expert_group_tiles(w->p, t->op, &w->cost->choice);
    const wafer_tiles down = expert_group_tiles(w->p, t->op + 1, &w->cost->choice);
    const double m = w->cost->tokens, k = s->n_experts_used;
    /* Tokens whose experts share a group wait for each other: the time of the fullest group. */
    const double hit = fmin(expert_groups.n, experts_touched(s, m)), turns = ceil(m * k / hit);
    const double busy = floor(fmin(expert_groups.n, m * k));
    const double part =
        (double)expert_groups.side * expert_group_part(up.k_tile, expert_groups.side);
    const walk all = *w;
    step_cost one = *w->cost;
    one.tokens = 1;
    reduce_run(w, WAFER_AXIS_Y, w->c->height, m * part);
    w->cores = (uint64_t)busy * expert_groups.side * expert_groups.side; /* only they work */
    w->cost = &one;
    for (double turn = 0; turn < turns; turn++) {
        reduce_expert_groups(w, WAFER_AXIS_X, &up, up.k_tile, busy);
        timing_products(w, &up, 1);
        reduce_expert_groups(w, WAFER_AXIS_Y, &up, up.n_tile[0] + up.n_tile[1], busy);
        timing_scalars(w, up.n_tile[0]);
        timing_products(w, &down, 1);
        reduce_expert_groups(w, WAFER_AXIS_X, &down, down.n_tile[0], busy);
        timing_vectors(w, 1, down.n_tile[0], false); /* the router's weight */
    }
    *w = all;
    reduce_run(w, WAFER_AXIS_Y, w->c->height, m * part);
    reduce_run(w, WAFER_AXIS_X, w->c->width, m * ceil((double)s->n_embd / w->c->height));
    timing_vectors(w, m, tiles_of(s->n_embd, w->c->height), false);
}

/* Logits are cut over the columns; the best of each column is sent. */
static void time_head(walk *w, const wafer_tiles *t)
{
    const double m = w->cost->tokens;
    double extra = timing_norm(w, t);
    timing_products(w, t, 1);
    timing_reduce(w, t, m * t->n_tile[0] + extra);
    timing_vectors(w, m, t->n_tile[0], false); /* the largest of the column */
    reduce_run(w, WAFER_AXIS_X, w->c->width, m * 4);
}

/* A row of the table goes from its column to the whole region. */
static void time_embed(walk *w)
{
    const double values = ceil((double)w->p->shape.n_embd / w->c->height) * w->cost->tokens;
    clocks_meet(w->c, SPENT_HOP, (int64_t)w->c->width * w->c->cost.hop + 2 * w->c->cost.ramp);
    clocks_spend(w->c, SPENT_STREAM, ticks_of(timing_wavelets(values)));
    w->c->events.hops += (uint64_t)timing_wavelets(values) * w->cores;
}

/* The operations [first, first + n) of p on the clocks of their region, for `tokens` new tokens. */
static void time_ops(wafer_clocks *c, const step_program *p, uint32_t first, uint32_t n,
              const step_cost *cost)
{
    walk w = {.c = c,
              .p = p,
              .cost = cost,
              .cores = (uint64_t)c->width * c->height,
              .lanes = cost->mesh->simd_fp16};
    const bool expert_groups = cost->choice.experts == WAFER_EXPERTS_GROUPED;
    CHECK(first + n <= p->n_ops && cost->tokens);
    for (uint32_t at = first; at < first + n; at++) {
        const wafer_tiles t = tiles_of_op(p, at, c->width, c->height, &cost->choice);
        switch (p->ops[at].kind) {
        case STEP_EMBED:
            time_embed(&w);
            break;
        case STEP_QKV:
            time_qkv(&w, &t);
            break;
        case STEP_ATTEND:
            time_attend(&w, at);
            break;
        case STEP_OUT:
        case STEP_FFN_DOWN:
            time_down(&w, &t);
            break;
        case STEP_FFN_UP:
            time_up(&w, &t);
            break;
        case STEP_ROUTE:
            time_route(&w, &t);
            break;
        case STEP_EXPERTS_UP:
            if (expert_groups)
                time_expert_groups(&w, &t);
            else
                time_sharded(&w, &t);
            break;
        case STEP_EXPERTS_DOWN:
            if (!expert_groups) time_sharded(&w, &t);
            break;
        case STEP_HEAD:
            time_head(&w, &t);
            break;
        WAFER_CASES_NOT_MODELLED:
            break;
        }
    }
}

bool layer_ops(const step_program *p, uint32_t layer, uint32_t *first, uint32_t *n)
{
    uint32_t seen = 0, begin = p->n_ops;
    for (uint32_t i = 0; i < p->n_ops; i++) {
        bool is_end = p->ops[i].kind == STEP_QKV || p->ops[i].kind == STEP_HEAD;
        if (is_end && begin < p->n_ops) {
            *first = begin;
            *n = i - begin;
            return true;
        }
        if (p->ops[i].kind == STEP_QKV && seen++ == layer) begin = i;
    }
    return false;
}

static void time_so_far(step_time *out, const wafer_clocks *c)
{
    out->cycles = (double)clocks_latest(c) / WAFER_TICKS;
    for (int i = 0; i < WAFER_SPENT; i++) out->spent[i] = (double)c->spent[i] / WAFER_TICKS;
    out->events = c->events;
}

int time_range(step_time *out, const step_program *p, uint32_t first, uint32_t n, uint32_t width,
               uint32_t height, const step_cost *cost, bool folded)
{
    wafer_clocks c;
    RETURN_IF(clocks_open(&c, width, height, folded, message_cost(cost->mesh, &cost->style)));
    time_ops(&c, p, first, n, cost);
    time_so_far(out, &c);
    clocks_close(&c);
    return CERIUM_OK;
}

/* The difference since before. */
static step_time time_since(const wafer_clocks *c, const step_time *before)
{
    step_time now;
    time_so_far(&now, c);
    now.cycles -= before->cycles;
    for (int i = 0; i < WAFER_SPENT; i++) now.spent[i] -= before->spent[i];
    return now;
}

/* In the steady state: once for the state after the layer before, then the one that counts. */
static void time_twice(step_time *out, wafer_clocks *c, const step_program *p, uint32_t layer,
                       const step_cost *cost)
{
    uint32_t first = 0, n = 0;
    step_time before;
    CHECK(layer_ops(p, layer, &first, &n));
    time_ops(c, p, first, n, cost);
    time_so_far(&before, c);
    c->events = (wafer_events){0};
    time_ops(c, p, first, n, cost);
    *out = time_since(c, &before);
}

int time_layer(step_time *out, const step_program *p, uint32_t layer, uint32_t width,
               uint32_t height, const step_cost *cost, bool folded)
{
    wafer_clocks c;
    RETURN_IF(clocks_open(&c, width, height, folded, message_cost(cost->mesh, &cost->style)));
    time_twice(out, &c, p, layer, cost);
    clocks_close(&c);
    return CERIUM_OK;
}

int time_layer_dead(step_time *out, const step_program *p, uint32_t layer, uint32_t x, uint32_t y,
                    uint32_t width, uint32_t height, const step_cost *cost)
{
    wafer_clocks c;
    RETURN_IF(clocks_open(&c, width, height, false, message_cost(cost->mesh, &cost->style)));
    int status = clocks_dead(&c, cost->mesh, x, y);
    if (!status) time_twice(out, &c, p, layer, cost);
    clocks_close(&c);
    return status;
}

int time_layer_ops(step_time *out, const step_program *p, uint32_t layer, uint32_t width,
                   uint32_t height, const step_cost *cost)
{
    wafer_clocks c;
    uint32_t first = 0, n = 0;
    step_time before;
    CHECK(layer_ops(p, layer, &first, &n) && n <= WAFER_LAYER_OPS_MAX);
    RETURN_IF(clocks_open(&c, width, height, true, message_cost(cost->mesh, &cost->style)));
    time_ops(&c, p, first, n, cost);
    for (uint32_t i = 0; i < n; i++) {
        time_so_far(&before, &c);
        c.events = (wafer_events){0};
        time_ops(&c, p, first + i, 1, cost);
        out[i] = time_since(&c, &before);
    }
    clocks_close(&c);
    return CERIUM_OK;
}
