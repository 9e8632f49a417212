/* figures.c - a plan's outside figures: bands of seconds, joules and dollars, and a map. */
#include <math.h>

#include "base/memory.h"
#include "wafer/plan.h"

#define WAFER_LOW(name, sdk, tuned, low, high, what)  .name = low,
#define WAFER_HIGH(name, sdk, tuned, low, high, what) .name = high,

wafer_style plan_style_end(const plan_request *r, bool high)
{
    wafer_style ends = high ? (wafer_style){WAFER_COST_MAP(WAFER_HIGH).fuses = true}
                            : (wafer_style){WAFER_COST_MAP(WAFER_LOW).fuses = true};
    ends.fuses = r->style.fuses;
    ends.swaps_loops = r->style.swaps_loops;
    return r->is_sdk ? r->style : ends;
}

int plan_time_end(plan_result *out, const plan_result *plan, const plan_request *r, bool high)
{
    plan_request end = *r;
    end.style = plan_style_end(r, high);
    *out = *plan;
    return plan_time(out, &end);
}

/* fast and slow are the same plan with the constants at either end. */
static void figures_fill(plan_figures *f, const plan_result *plan, const plan_result *fast,
                         const plan_result *slow, const plan_request *r, double accepted)
{
    const wafer_machine *m = r->machine;
    const wafer_mesh *mesh = &m->mesh;
    const plan_layout *l = &plan->layout;
    const double share = (double)l->wafers / m->wafers_a_system; /* of a system's power */
    f->step_us = (wafer_band){fast->cycles / mesh->clock_ghz.high / 1e3 + plan->off_wafer_us[0],
                              slow->cycles / mesh->clock_ghz.low / 1e3 + plan->off_wafer_us[1]};
    f->user_tokens_s =
        (wafer_band){accepted * 1e6 / f->step_us.high, accepted * 1e6 / f->step_us.low};
    const double full_low = accepted * mesh->clock_ghz.low * 1e9 / slow->period_cycles;
    const double full_high = accepted * mesh->clock_ghz.high * 1e9 / fast->period_cycles;
    f->system_tokens_s = (wafer_band){fmin(plan->users * f->user_tokens_s.low, full_low),
                                      fmin(plan->users * f->user_tokens_s.high, full_high)};
    /* Only the cores of one region work at a time. */
    const double busy = plan->cycles * l->width * l->height;
    const wafer_band dynamic = mesh_joules(mesh, &plan->events, busy);
    const wafer_band idle = plan_static_watts(plan, r);
    f->joules_user = (wafer_band){dynamic.low / accepted + idle.low / f->user_tokens_s.high,
                                  dynamic.high / accepted + idle.high / f->user_tokens_s.low};
    f->joules_system = (wafer_band){dynamic.low / accepted + idle.low / f->system_tokens_s.high,
                                    dynamic.high / accepted + idle.high / f->system_tokens_s.low};
    f->rated_joules_user = 1e3 * m->power_kw.high * share / band_middle(f->user_tokens_s);
    f->usd_user = plan_usd_million(plan, r, f->user_tokens_s);
    f->usd_system = plan_usd_million(plan, r, f->system_tokens_s);
}

int plan_figure(plan_figures *out, const plan_result *plan, const plan_request *r, double accepted)
{
    plan_result fast, slow;
    RETURN_IF(plan_time_end(&fast, plan, r, false));
    RETURN_IF(plan_time_end(&slow, plan, r, true));
    figures_fill(out, plan, &fast, &slow, r, accepted);
    return CERIUM_OK;
}

/* ---- the map ---- */

/* Slots in a snake, so that the next region is a neighbour. */
static void slot_at(wafer_region *region, const plan_layout *l, uint32_t i)
{
    const uint32_t slots = l->columns * l->rows, in_wafer = i % slots;
    const uint32_t row = in_wafer / l->columns, column = in_wafer % l->columns;
    region->wafer = i / slots;
    region->x = (row % 2 ? l->columns - 1 - column : column) * l->width;
    region->y = row * l->height;
    region->width = l->width;
    region->height = l->height;
    if (!l->is_turned) return;
    const wafer_region side = *region;
    region->x = side.y;
    region->y = side.x;
    region->width = side.height;
    region->height = side.width;
}

static void fill_layers(wafer_region *region, const plan_result *plan, const plan_request *r,
                        uint32_t i)
{
    const plan_layout *l = &plan->layout;
    const uint32_t n_layers = r->program->shape.n_layers;
    uint32_t first = i * l->layers_a_region, end = first + l->layers_a_region, n = 0;
    if (first > n_layers) first = n_layers;
    if (end > n_layers) end = n_layers;
    region->first_layer = first;
    region->n_layers = end - first;
    for (uint32_t layer = first; layer < end; layer++) {
        uint32_t at = 0;
        CHECK(layer_ops(r->program, layer, &at, &n));
        if (layer == first) region->first_op = at;
        region->n_ops += n;
    }
    const bool has_table = i < l->embed_regions || i + l->head_regions >= l->layer_regions;
    region->weight_bytes = l->layer_bytes * region->n_layers + (has_table ? l->table_bytes : 0);
    region->kv_bytes = l->layer_kv_bytes * region->n_layers;
    const uint64_t buffers =
        l->core_bytes - l->table_bytes - (l->layer_bytes + l->layer_kv_bytes) * l->layers_a_region;
    region->core_bytes = region->weight_bytes + region->kv_bytes + buffers;
}

/* The head's operation counts for both: the embedding is in the same cores. */
static void fill_tables(wafer_region *region, const plan_result *plan, const plan_request *r)
{
    const plan_layout *l = &plan->layout;
    const uint32_t op = r->program->n_ops - 1;
    const model_matrix *w = r->program->ops[op].w[0];
    const double rows = (double)plan_table_rows(r) / ((double)l->width * l->table_regions);
    region->first_op = op;
    region->n_ops = 1;
    region->weight_bytes =
        (uint64_t)(ceil(rows) * tiles_of(w->cols, l->height) * quant_bits(r->quant, w) / 8);
    region->core_bytes = region->weight_bytes;
}

int plan_place(wafer_placement *out, const plan_result *plan, const plan_request *r)
{
    const plan_layout *l = &plan->layout;
    const uint32_t n = l->table_regions + l->layer_regions;
    wafer_region *regions = memory_zalloc(n, sizeof *regions);
    if (!regions) return CERIUM_ERR_MEMORY;
    for (uint32_t i = 0; i < n; i++) {
        slot_at(&regions[i], l, i);
        if (i < l->table_regions)
            fill_tables(&regions[i], plan, r);
        else
            fill_layers(&regions[i], plan, r, i - l->table_regions);
    }
    *out = (wafer_placement){.program = r->program,
                             .choice = l->choice,
                             .strips = strips_of(&r->program->shape, l->width, 1),
                             .regions = regions,
                             .n_regions = n,
                             .wafers = l->wafers};
    return CERIUM_OK;
}
