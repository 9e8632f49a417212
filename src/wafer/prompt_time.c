/* prompt_time.c - a whole prompt through the regions of a plan.
 *
 * It goes in passes, one after the other: while a pass is in the second region, the next one is in
 * the first.  A pass is MeshGEMM products over as many rows as fit in a core, or fewer if that is
 * faster; or steps of decoding, of some tokens each, if weights do not fit in the layout of
 * MeshGEMM products, or if that is faster: with many experts, and many regions. */
#include <math.h>

#include "wafer/plan.h"

/* Passes that are timed of many, with a straight line between them; tokens of a step. */
enum { PASSES_TIMED = 16, STEP_TOKENS_MAX = 64 };

/* From the table to the lines that have the rows, and from the last of them to the head: slices
 * along x to the columns that need them, then a ring along y (mesh_run.c).  In fp16. */
static double turn_cycles(const plan_layout *l, const step_cost *cost, uint32_t n_embd, double rows)
{
    const wafer_mesh *m = cost->mesh;
    const double along_x = rows * tiles_of(n_embd, l->height) / 2;
    const double along_y = rows * tiles_of(n_embd, l->width) / 2;
    const double hops = (double)m->hop_cycles * (l->width + 2.0 * (l->height - 1));
    return hops + 4.0 * m->ramp_cycles + along_x + along_y;
}

static step_cost prompt_time_cost_of(const plan_result *plan, const plan_request *r,
                                     uint32_t position)
{
    return (step_cost){.mesh = &r->machine->mesh,
                       .style = r->style,
                       .quant = r->quant,
                       .choice = plan->layout.choice,
                       .context = r->context,
                       .tokens = 1,
                       .position = position};
}

/* All layers over n tokens after `position`. */
static int layers_cycles(double *out, const plan_result *plan, const plan_request *r,
                         uint32_t position, uint32_t n)
{
    const step_program *p = r->program;
    const plan_layout *l = &plan->layout;
    const step_cost cost = prompt_time_cost_of(plan, r, position);
    step_time kind[2];
    bool known[2] = {false, false};
    *out = 0;
    for (uint32_t layer = 0; layer < p->shape.n_layers; layer++) {
        uint32_t first = 0, ops = 0;
        CHECK(layer_ops(p, layer, &first, &ops));
        const int k = p->ops[first].window != 0;
        if (!known[k])
            RETURN_IF(time_prefill_layer(&kind[k], p, layer, l->width, l->height, &cost, n));
        known[k] = true;
        *out += kind[k].cycles;
    }
    return CERIUM_OK;
}

static double prompt_time_handoffs(const plan_layout *l)
{
    return l->layer_regions - 1.0 + (l->table_regions != 0);
}

/* Cycles until the last pass leaves the first region, and those of the last after it. */
typedef struct {
    double fill, rest;
} prompt_cycles;

/* In passes of n tokens.  Regions are alike, and each pass takes at least as long as the one before
 * it, except the last, which may have fewer tokens and wait for the one before it. */
static int passes_cycles(prompt_cycles *out, const plan_result *plan, const plan_request *r,
                         uint32_t tokens, uint32_t n)
{
    const plan_layout *l = &plan->layout;
    const uint32_t n_passes = tiles_of(tokens, n), n_embd = r->program->shape.n_embd;
    const uint32_t last = tokens - (n_passes - 1) * n;
    const uint32_t full = n_passes - 1, samples = full < PASSES_TIMED ? full : PASSES_TIMED;
    const step_cost cost = prompt_time_cost_of(plan, r, 0);
    const double part = (double)l->layers_a_region / r->program->shape.n_layers;
    /* Each line's rows to the same line of the next region, over one link. */
    const double next = (double)tiles_of(n, l->height) * n_embd / 2 +
                        (double)l->width * cost.mesh->hop_cycles + 2.0 * cost.mesh->ramp_cycles;
    double all = 0, before = 0, sum = 0;
    uint32_t before_at = 0;
    for (uint32_t i = 0; i < samples; i++) {
        const uint32_t at = samples > 1 ? (uint32_t)((uint64_t)i * (full - 1) / (samples - 1)) : 0;
        RETURN_IF(layers_cycles(&all, plan, r, at * n, n));
        /* The passes between the last sample and this one. */
        const double passes = i ? at - before_at : 1;
        sum += i ? passes * (before + all) / 2 + (all - before) / 2 : all;
        before = all;
        before_at = at;
    }
    RETURN_IF(layers_cycles(&all, plan, r, full * n, last));
    out->fill = sum * part + full * (next + turn_cycles(l, &cost, n_embd, n));
    out->rest = fmax(all, before - (before - all) * part) + prompt_time_handoffs(l) * next +
                turn_cycles(l, &cost, n_embd, last);
    return CERIUM_OK;
}

/* In steps of decoding, of n tokens: all but the last with half of the prompt before them, which is
 * their mean. */
static int steps_cycles(prompt_cycles *out, const plan_result *plan, const plan_request *r,
                        uint32_t tokens, uint32_t n)
{
    plan_request step = *r;
    plan_result half = *plan, whole = *plan;
    step.draft = n;
    step.context = tokens;
    RETURN_IF(plan_time(&whole, &step));
    step.context = tiles_of(tokens, 2);
    RETURN_IF(plan_time(&half, &step));
    const double layer = half.detour_cycles + fmax(half.layer[0].cycles * (half.n_layers[0] != 0),
                                                   half.layer[1].cycles * (half.n_layers[1] != 0));
    out->fill = (tiles_of(tokens, n) - 1.0) * layer * plan->layout.layers_a_region;
    out->rest = whole.cycles - whole.head.cycles;
    return CERIUM_OK;
}

/* Rows of a line that fit in a core; 0: none. */
static uint32_t rows_max(const plan_result *plan, const plan_request *r, uint32_t tokens,
                         uint64_t room)
{
    uint32_t low = 0, high = tiles_of(tokens, plan->layout.height) + 1;
    while (high - low > 1) {
        const uint32_t middle = low + (high - low) / 2;
        if (plan_pass_bytes(plan, r, middle) <= room) low = middle;
        else high = middle;
    }
    return low;
}

/* Passes of at most this many rows a line, of about equal length. */
static uint32_t pass_tokens(const plan_layout *l, uint32_t rows, uint32_t tokens)
{
    const uint64_t n = (uint64_t)rows * l->height;
    return n && n < tokens ? tiles_of(tokens, tiles_of(tokens, (uint32_t)n)) : tokens;
}

static void prompt_time_take(plan_prompt *p, prompt_cycles *best, prompt_cycles here, uint32_t n,
                             uint64_t core_bytes)
{
    if (p->pass_tokens && here.fill + here.rest >= best->fill + best->rest) return;
    *best = here;
    p->pass_tokens = n;
    p->pass_bytes = core_bytes;
}

static int try_steps(plan_prompt *p, prompt_cycles *best, const plan_result *plan,
                     const plan_request *r, uint32_t tokens)
{
    const plan_layout *l = &plan->layout;
    prompt_cycles here;
    const uint64_t own = plan_step_bytes(r, l, r->draft);
    p->room_bytes = l->usable_bytes - l->core_bytes + own;
    p->pass_max = (uint32_t)fmin((double)(p->room_bytes * r->draft / own), STEP_TOKENS_MAX);
    for (uint32_t n = 1; n <= STEP_TOKENS_MAX && n <= tokens; n *= 2) {
        const uint64_t core_bytes = plan_step_bytes(r, l, n);
        if (n > r->draft && core_bytes > p->room_bytes) break;
        RETURN_IF(steps_cycles(&here, plan, r, tokens, n));
        prompt_time_take(p, best, here, n, core_bytes);
    }
    return CERIUM_OK;
}

static int try_mesh_gemm(plan_prompt *p, prompt_cycles *best, const plan_result *plan,
                         const plan_request *r, uint32_t tokens)
{
    const plan_layout *l = &plan->layout;
    const uint64_t room = plan_pass_room(plan, r);
    const uint32_t most = rows_max(plan, r, tokens, room), steps = p->pass_tokens;
    const double before = best->fill + best->rest;
    prompt_cycles here;
    p->mesh_gemm_max = (uint32_t)fmin((double)most * l->height, tokens);
    for (uint32_t rows = most; rows; rows /= 2) {
        const uint32_t n = pass_tokens(l, rows, tokens);
        RETURN_IF(passes_cycles(&here, plan, r, tokens, n));
        prompt_time_take(p, best, here, n, plan_pass_bytes(plan, r, rows));
    }
    if (best->fill + best->rest >= before) return CERIUM_OK;
    CHECK(steps);
    p->is_mesh_gemm = true;
    p->pass_max = p->mesh_gemm_max;
    p->room_bytes = room;
    return CERIUM_OK;
}

int plan_prompt_time(plan_prompt *out, const plan_result *plan, const plan_request *r,
                     uint32_t tokens)
{
    const plan_layout *l = &plan->layout;
    const wafer_mesh *m = &r->machine->mesh;
    const uint32_t n_embd = r->program->shape.n_embd;
    const step_cost cost = prompt_time_cost_of(plan, r, 0);
    plan_prompt p = {0};
    prompt_cycles best = {0};
    step_time head;
    RETURN_IF(try_steps(&p, &best, plan, r, tokens));
    RETURN_IF(try_mesh_gemm(&p, &best, plan, r, tokens));
    RETURN_IF(time_range(&head, r->program, r->program->n_ops - 1, 1, l->width, l->height, &cost,
                         true));
    const double rest = best.rest + head.cycles + turn_cycles(l, &cost, n_embd, 1);
    p.n_passes = tiles_of(tokens, p.pass_tokens);
    const double sent_us = 2.0 * n_embd * p.pass_tokens / (m->link_gbytes_s * 1e3);
    const double crossings = l->wafers - 1.0;
    /* If links are slower than regions, passes wait for them. */
    const double fill_us = crossings > 0 ? sent_us * (p.n_passes - 1.0) : 0;
    const double clock[2] = {m->clock_ghz.high, m->clock_ghz.low};
    const double link_us[2] = {m->link_us.low, m->link_us.high};
    for (int i = 0; i < 2; i++)
        p.us[i] = fmax(best.fill / clock[i] / 1e3, fill_us) + rest / clock[i] / 1e3 +
                  crossings * (link_us[i] + sent_us);
    *out = p;
    return CERIUM_OK;
}
