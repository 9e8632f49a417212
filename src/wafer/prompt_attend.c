/* prompt_attend.c - attention over a prompt: queries stay, keys and values rotate along y.
 *
 * A line of cores has neighbouring rows of the pass.  The lines' keys and values, of tokens before
 * the pass and of its own, pass by, one line's after another's; a core multiplies its channels of
 * each key with those of all queries of its line that see it.  Scores are summed along the strip,
 * and all its columns get the sum; they share the softmax (a row of a head is one column's),
 * exchange the weights, and each adds its channels of the values to the earlier sums. mesh_attend.c
 * executes this. */
#include <math.h>

#include "wafer/timing.h"

typedef struct {
    const step_cost *cost;
    wafer_strips strips;
    uint32_t window;     /* 0: all are visible */
    uint32_t first, end; /* rows of this line, as tokens of the text */
    wafer_clocks c;      /* of one strip of it */
} ring;

/* Tokens begin, begin + stride, ... before end. */
typedef struct {
    uint32_t begin, end, stride;
} token_set;

/* A line's work with the keys of another line. */
typedef struct {
    uint64_t any, pairs; /* tokens seen by a row; rows, each with its tokens */
    uint64_t rows;       /* that see any */
    uint64_t steps;      /* vector steps over the queries of a head, of all tokens */
} block;

/* Rows of the line that see token k are [begin, end). */
static wafer_range prompt_attend_rows_seeing(const ring *r, uint32_t k)
{
    const uint32_t last = r->window && k + r->window < r->end ? k + r->window : r->end;
    const uint32_t begin = k > r->first ? k : r->first;
    return (wafer_range){begin, last > begin ? last : begin};
}

static uint64_t steps_of(const ring *r, uint64_t rows)
{
    const uint32_t lanes = r->cost->mesh->simd_fp16;
    return (rows * r->strips.queries + lanes - 1) / lanes;
}

/* Leaves out tokens that no row of the line sees. */
static token_set seen_of(const ring *r, token_set k)
{
    const uint32_t first = r->window && r->first >= r->window ? r->first - r->window + 1 : 0;
    if (k.begin < first) k.begin += (first - k.begin + k.stride - 1) / k.stride * k.stride;
    if (k.end > r->end) k.end = r->end;
    if (k.begin > k.end) k.begin = k.end;
    return k;
}

static block block_of(const ring *r, token_set all)
{
    const token_set k = seen_of(r, all);
    block b = {0};
    if (k.begin == k.end) return b;
    const uint64_t rows = r->end - r->first, n = tiles_of(k.end - k.begin, k.stride);
    const wafer_range low = prompt_attend_rows_seeing(r, k.begin);
    const wafer_range high = prompt_attend_rows_seeing(r, k.begin + (uint32_t)(n - 1) * k.stride);
    if (low.end - low.begin == rows && high.end - high.begin == rows)
        return (block){n, n * rows, rows, n * steps_of(r, rows)};
    uint32_t begin = r->end, end = r->first;
    for (uint32_t t = k.begin; t < k.end; t += k.stride) {
        const wafer_range seeing = prompt_attend_rows_seeing(r, t);
        const uint64_t here = seeing.end - seeing.begin;
        if (!here) continue;
        b.any++;
        b.pairs += here;
        b.steps += steps_of(r, here);
        begin = seeing.begin < begin ? seeing.begin : begin;
        end = seeing.end > end ? seeing.end : end;
    }
    b.rows = end > begin ? end - begin : 0;
    return b;
}

static void prompt_attend_spend(ring *r, wafer_spent what, double cycles)
{
    clocks_spend(&r->c, what, llround(cycles * WAFER_TICKS));
}

/* n vector instructions on every core of the strip, of this many steps together. */
static void prompt_attend_vectors(ring *r, double n, double steps, double macs)
{
    const double cores = r->strips.cores;
    wafer_events *e = &r->c.events;
    prompt_attend_spend(r, SPENT_ISSUE, n * r->cost->style.issue);
    prompt_attend_spend(r, SPENT_VECTOR, steps);
    e->vector_ops += (uint64_t)(n * cores);
    e->vector_steps += (uint64_t)(steps * cores);
    e->macs += (uint64_t)(macs * cores);
    e->sram_read_bits += (uint64_t)(macs * 32 * cores);
    e->sram_write_bits += (uint64_t)(macs * 16 * cores);
}

/* Values of fp16 summed along the strip, for all its columns. */
static void prompt_attend_meet(ring *r, double values)
{
    const wafer_reduction sum = reduction_of(r->strips.cores, 1);
    if (r->strips.cores > 1) clocks_reduce(&r->c, WAFER_AXIS_X, &sum, (uint32_t)ceil(values / 2));
}

static void take_block(ring *r, const block *b)
{
    const wafer_strips *s = &r->strips;
    const double heads = s->heads, queries = heads * s->queries, own = heads * s->channels;
    const double share = ceil(queries * (double)b->rows / s->cores);
    const double macs = own * s->queries * (double)b->pairs;
    const int64_t begin = clocks_latest(&r->c);
    prompt_attend_vectors(r, own * (double)b->any, own * (double)b->steps, macs); /* scores */
    prompt_attend_meet(r, queries * (double)b->pairs);
    const double exps = share * ceil((double)b->pairs / (double)b->rows);
    prompt_attend_spend(r, SPENT_SCALAR, exps * r->cost->style.scalar);
    r->c.events.scalar_ops += (uint64_t)(exps * s->cores);
    prompt_attend_meet(
        r, queries * (double)(b->pairs + b->rows)); /* weights, and factors of the earlier sums */
    prompt_attend_vectors(r, own, own * (double)steps_of(r, b->rows),
                          own * s->queries * (double)b->rows);
    prompt_attend_vectors(r, own * (double)b->any, own * (double)b->steps, macs); /* values */
    prompt_attend_spend(r, SPENT_STAGE, 2 * heads * (double)b->any * r->cost->style.gemm_row);
    /* Keys and values move meanwhile. */
    const double stream = own * (double)b->any;
    const double work = (double)(clocks_latest(&r->c) - begin) / WAFER_TICKS;
    if (stream > work) prompt_attend_spend(r, SPENT_STREAM, stream - work);
}

/* All keys and values over the links of all rings, halves, two in a wavelet. */
void time_prompt_ring(wafer_events *e, const step_program *p, uint32_t width, uint32_t height,
                      const step_cost *cost, uint32_t tokens)
{
    const wafer_strips s = strips_of(&p->shape, width, cost->choice.k_multiple);
    const uint64_t all = (uint64_t)s.heads * s.channels * tokens * s.strips * s.cores;
    if (height < 2) return;
    e->hops += 2 * (height - 1) * all;
    e->ramps += 2 * height * all;
}

int time_prompt_attend(step_time *out, const step_program *p, uint32_t at, uint32_t width,
                       uint32_t height, const step_cost *cost, uint32_t tokens, uint32_t line)
{
    const uint32_t before = cost->position, tile = tiles_of(tokens, height);
    const wafer_range rows = tile_range(tokens, tile, line);
    ring r = {.cost = cost,
              .strips = strips_of(&p->shape, width, cost->choice.k_multiple),
              .window = p->ops[at].window,
              .first = before + rows.begin,
              .end = before + rows.end};
    CHECK(p->ops[at].kind == STEP_ATTEND);
    *out = (step_time){0};
    if (rows.begin == rows.end) return CERIUM_OK;
    RETURN_IF(clocks_open(&r.c, r.strips.cores, 1, true, message_cost(cost->mesh, &cost->style)));
    for (uint32_t source = 0; source < height; source++) {
        const wafer_range own = tile_range(tokens, tile, source);
        const token_set sets[] = {{source, before, height}, /* round-robin */
                                  {before + own.begin, before + own.end, 1}};
        for (size_t i = 0; i < ARRAY_LEN(sets); i++) {
            if (sets[i].begin >= sets[i].end) continue;
            const block b = block_of(&r, sets[i]);
            if (b.any) take_block(&r, &b);
        }
    }
    out->cycles = (double)clocks_latest(&r.c) / WAFER_TICKS;
    for (int i = 0; i < WAFER_SPENT; i++) out->spent[i] = (double)r.c.spent[i] / WAFER_TICKS;
    events_add(&out->events, &r.c.events, r.strips.strips, 1);
    clocks_close(&r.c);
    return CERIUM_OK;
}

int time_prompt_fullest(step_time *out, const step_program *p, uint32_t at, uint32_t width,
                        uint32_t height, const step_cost *cost, uint32_t tokens)
{
    const uint32_t last = tokens / tiles_of(tokens, height) - 1;
    step_time first;
    RETURN_IF(time_prompt_attend(out, p, at, width, height, cost, tokens, last));
    if (!cost->position || !p->ops[at].window) return CERIUM_OK;
    RETURN_IF(time_prompt_attend(&first, p, at, width, height, cost, tokens, 0));
    if (first.cycles > out->cycles) *out = first;
    return CERIUM_OK;
}
