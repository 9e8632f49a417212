/* plan_search.c - the search over layouts. */
#include "wafer/plan.h"

#include <math.h>

#include "base/memory.h"

/* Candidates along each edge of a wafer: slots narrower than this hold no layer worth placing. */
enum { SLOTS_MAX = 96, SLOT_CORES_MIN = 4 };

/* WaferLLM's routes for a reduction of K phases along one axis: 4 K + 2; two more between regions.
 * Of the two, one is a line's broadcast, the other that of runs along it: for columns of groups;
 * along rows strips of heads use it, so rows of groups take one more. */
static uint32_t colours_of(uint32_t degree, bool expert_groups)
{
    return 2 * (4 * degree + 2) + 2 + expert_groups;
}
/* Two neighbours and a broadcast along each axis; one and a broadcast for sending. */
enum { INPUT_QUEUES = 6, OUTPUT_QUEUES = 4 };

typedef struct {
    const plan_request *r;
    const wafer_mesh *mesh;
    const step_shape *shape;
    uint64_t usable;
    uint32_t width, height; /* columns alive in every row, rows; turned: the other way */
    bool is_turned;
    uint32_t wafers_max;
    uint32_t degree_max;
} search;

/* ---- memory ---- */

static double plan_search_matrix_bytes(const plan_request *r, const model_matrix *w, double values)
{
    return values * quant_bits(r->quant, w) / 8;
}

/* Weights of op on the fullest core. */
static double op_bytes(const search *s, uint32_t at, const plan_layout *l)
{
    const step_op *op = &s->r->program->ops[at];
    const wafer_tiles t = tiles_of_op(s->r->program, at, l->width, l->height, &l->choice);
    const bool experts = op->kind == STEP_EXPERTS_UP || op->kind == STEP_EXPERTS_DOWN;
    double total = 0;
    for (int i = 0; i < 3; i++) {
        const model_matrix *w = op->w[i];
        if (!w || !t.n_k) continue;
        double values = (double)t.k_tile * t.n_tile[i] * w->n_matrices;
        double biases = (double)t.n_tile[i] * w->n_matrices, line = t.n_k;
        if (experts && l->choice.experts == WAFER_EXPERTS_GROUPED) {
            const wafer_tiles group = expert_group_tiles(s->r->program, at, &l->choice);
            biases = (double)group.n_tile[i] *
                     tiles_of(w->n_matrices,
                              expert_groups_of(l->width, l->height, l->choice.group_side).n);
            line = group.n_k;
            values = biases * group.k_tile;
        }
        total += plan_search_matrix_bytes(s->r, w, values);
        /* Floats of half width; each of the cores that add up a row has some of the biases. */
        if (op->bias[i]) total += 2 * ceil(biases / line);
    }
    return total + (op->norm ? 2.0 * t.k_tile : 0); /* and so are norms */
}

/* The fullest layer: with the whole context if any layer sees it. */
static void layer_bytes(const search *s, plan_layout *l)
{
    const step_program *p = s->r->program;
    const wafer_strips strips = strips_of(s->shape, l->width, l->choice.k_multiple);
    double weights = 0, kv = 0;
    for (uint32_t layer = 0; layer < s->shape->n_layers; layer++) {
        uint32_t first = 0, n = 0;
        double all = 0;
        if (!layer_ops(p, layer, &first, &n)) break;
        for (uint32_t at = first; at < first + n; at++) {
            const step_op *op = &p->ops[at];
            all += op_bytes(s, at, l);
            if (op->kind != STEP_ATTEND) continue;
            uint32_t tokens = op->window && op->window < s->r->context ? op->window : s->r->context;
            kv +=
                2.0 * 2 * tiles_of(tokens ? tokens : 1, l->height) * strips.heads * strips.channels;
        }
        weights = fmax(weights, all);
        /* Layers of one shape: the first two tell whether windows alternate. */
        if (layer == 1 && s->r->quant != QUANT_FILE) {
            kv = kv / 2 * s->shape->n_layers;
            break;
        }
    }
    l->layer_bytes = (uint64_t)ceil(weights);
    l->layer_kv_bytes = (uint64_t)ceil(kv / s->shape->n_layers);
}

uint64_t plan_step_bytes(const plan_request *r, const plan_layout *l, uint32_t tokens)
{
    const step_shape *s = &r->program->shape;
    const wafer_strips strips = strips_of(s, l->width, l->choice.k_multiple);
    const uint64_t heads = (uint64_t)strips.heads * strips.queries;
    const uint64_t scores = heads * tiles_of(r->context ? r->context : 1, l->height);
    const uint64_t up = 2 * (uint64_t)tiles_of(s->n_ff, l->width);
    const uint64_t experts =
        2 * (uint64_t)tiles_of(s->n_ff_expert, l->width) * s->n_experts_used;
    uint64_t widest = scores > up ? scores : up;
    if (experts > widest) widest = experts;
    const uint64_t x = 3 * (uint64_t)tiles_of(s->n_embd, l->height);
    return 2 * tokens * (widest + x + 3 * heads * strips.channels);
}

uint64_t plan_table_rows(const plan_request *r)
{
    const model_matrix *head = r->program->ops[r->program->n_ops - 1].w[0];
    const model_matrix *embed = r->program->ops[0].w[0];
    return (uint64_t)head->rows + (head == embed || r->host_sampling ? 0 : embed->rows);
}

static const model_matrix *plan_search_head_of(const search *s)
{
    return s->r->program->ops[s->r->program->n_ops - 1].w[0];
}

/* Bytes of a core's columns of one row of the tables. */
static uint64_t table_row_bytes(const search *s, const plan_layout *l)
{
    const uint64_t k = tiles_of(s->shape->n_embd, l->height);
    const double row = plan_search_matrix_bytes(s->r, plan_search_head_of(s), (double)k);
    return row > 1 ? (uint64_t)ceil(row) : 1;
}

/* The slots of the tables, with rows spread over their columns. */
static uint32_t table_slots(const search *s, const plan_layout *l)
{
    const uint64_t room = s->usable / table_row_bytes(s, l); /* rows of the table in a core */
    return room ? (uint32_t)ceil((double)plan_table_rows(s->r) / ((double)room * l->width))
                : UINT32_MAX;
}

/* If `spare` bytes of a core are free beside layers, and that is enough for all tables. */
static bool spread_tables(const search *s, plan_layout *l, uint64_t spare)
{
    const uint64_t row = table_row_bytes(s, l), head = plan_search_head_of(s)->rows;
    const double room = (double)(spare / row) * l->width; /* rows of a region */
    if (room < 1) return false;
    const double head_regions = ceil((double)head / room);
    const double embed_regions = ceil((double)(plan_table_rows(s->r) - head) / room);
    if (head_regions + embed_regions > l->layer_regions) return false;
    l->table_regions = 0;
    l->head_regions = (uint32_t)head_regions;
    l->embed_regions = (uint32_t)embed_regions;
    const double most = fmax(
        ceil((double)head / (head_regions * l->width)),
        ceil(((double)plan_table_rows(s->r) - (double)head) / (fmax(embed_regions, 1) * l->width)));
    l->table_bytes = (uint64_t)most * row;
    return true;
}

/* Compute the results of a grid, a choice and the limits; false: it does not fit. */
static bool plan_search_lay_out(const search *s, plan_layout *l)
{
    const uint64_t buffer = plan_step_bytes(s->r, l, s->r->draft);
    if (l->width < SLOT_CORES_MIN || l->height < SLOT_CORES_MIN || buffer >= s->usable)
        return false;
    layer_bytes(s, l);
    const uint64_t one = l->layer_bytes + l->layer_kv_bytes, room = s->usable - buffer;
    if (one > room) return false;
    const uint32_t n_layers = s->shape->n_layers;
    l->layers_a_region = one ? (uint32_t)(room / one < n_layers ? room / one : n_layers) : n_layers;
    l->layer_regions = tiles_of(n_layers, l->layers_a_region);
    l->layers_a_region = tiles_of(n_layers, l->layer_regions); /* evenly */
    l->table_regions = table_slots(s, l);
    const uint32_t slots = l->columns * l->rows;
    uint64_t needed = (uint64_t)l->layer_regions + l->table_regions;
    /* Separate slots, unless that takes one more wafer. */
    if (tiles_of(l->layer_regions, slots) < (needed + slots - 1) / slots &&
        spread_tables(s, l, room - one * l->layers_a_region))
        needed = l->layer_regions;
    const uint64_t wafers = (needed + slots - 1) / slots;
    if (wafers > s->wafers_max) return false;
    if ((wafers * slots - needed) * l->width * l->height < s->r->idle_cores) return false;
    l->wafers = (uint32_t)wafers;
    l->usable_bytes = s->usable;
    l->core_bytes = buffer + one * l->layers_a_region + l->table_bytes;
    l->cores = needed * l->width * l->height;
    return true;
}

/* ---- time ---- */

static void add_time(plan_result *plan, const step_time *t, double times)
{
    plan->cycles += t->cycles * times;
    for (int i = 0; i < WAFER_SPENT; i++) plan->spent[i] += t->spent[i] * times;
    events_add(&plan->events, &t->events, (uint64_t)times, 1);
}

static step_cost plan_search_cost_of(const plan_result *plan, const plan_request *r)
{
    return (step_cost){.mesh = &r->machine->mesh,
                       .style = r->style,
                       .quant = r->quant,
                       .choice = plan->layout.choice,
                       .context = r->context,
                       .tokens = r->draft};
}

/* The additional cost of dead cores for a layer of each slot of a wafer: the worst of them, for
 * all.  Every core is simulated, so this is done once, for the chosen layout. */
static int time_detours(plan_result *plan, const plan_request *r)
{
    const plan_layout *l = &plan->layout;
    const step_cost cost = plan_search_cost_of(plan, r);
    plan->detour_cycles = 0;
    if (!r->machine->mesh.n_dead) return CERIUM_OK;
    step_time whole, around;
    RETURN_IF(time_layer(&whole, r->program, 0, l->width, l->height, &cost, true));
    for (uint32_t i = 0; i < l->columns * l->rows; i++) {
        RETURN_IF(time_layer_dead(&around, r->program, 0, i % l->columns * l->width,
                                  i / l->columns * l->height, l->width, l->height, &cost));
        plan->detour_cycles = fmax(plan->detour_cycles, around.cycles - whole.cycles);
    }
    return CERIUM_OK;
}

/* From region to region: to the next slot of a row of slots, or down to the next row; and at the
 * end back to the first, which has the head. */
static void time_handoffs(plan_result *plan, const plan_request *r)
{
    const wafer_mesh *m = &r->machine->mesh;
    const plan_layout *l = &plan->layout;
    const double steps = l->layer_regions + 1;
    const double turns = floor((l->layer_regions + l->table_regions - 1) / l->columns);
    /* Tables over several regions: there and back, on the wafer and between wafers. */
    const uint32_t slots = l->columns * l->rows;
    const double spread = fmax(l->head_regions, 1) + fmax(l->embed_regions, 1) - 2;
    const double spread_wafers =
        fmax(tiles_of(l->head_regions, slots), 1) + fmax(tiles_of(l->embed_regions, slots), 1) - 2;
    const double down = fmin(turns, l->rows - 1) * l->height; /* back, on the wafer */
    const double across = (double)l->columns * l->width;
    const double back = l->wafers > 1 ? 0 : down + across;
    const double hops =
        ((l->layer_regions + 2 * spread) * l->width + turns * l->height + back) * m->hop_cycles;
    const double wavelets = ceil(tiles_of(r->program->shape.n_embd, l->height) * r->draft / 2.0);
    const double stream = steps * (wavelets + 2 * m->ramp_cycles);
    plan->handoff_cycles = hops + stream;
    plan->cycles += hops + stream;
    plan->spent[SPENT_HOP] += hops;
    plan->spent[SPENT_STREAM] += stream;
    const double crossings =
        l->wafers - 1 + (l->wafers > 1) + 2 * spread_wafers; /* and back to the first */
    const double sent = 2.0 * r->program->shape.n_embd * r->draft;
    const double trips = r->host_sampling ? 2 : 0, send_us = sent / (m->link_gbytes_s * 1e3);
    plan->off_wafer_us[0] = crossings * (m->link_us.low + send_us) + trips * m->host_us.low;
    plan->off_wafer_us[1] = crossings * (m->link_us.high + send_us) + trips * m->host_us.high;
}

int plan_time(plan_result *plan, const plan_request *r)
{
    const step_program *p = r->program;
    const plan_layout *l = &plan->layout;
    const step_cost cost = plan_search_cost_of(plan, r);
    plan->cycles = 0;
    plan->events = (wafer_events){0};
    memset(plan->spent, 0, sizeof plan->spent);
    memset(plan->n_layers, 0, sizeof plan->n_layers);
    for (uint32_t layer = 0; layer < p->shape.n_layers; layer++) {
        uint32_t first = 0, n = 0;
        CHECK(layer_ops(p, layer, &first, &n));
        const int kind = p->ops[first].window != 0;
        if (!plan->n_layers[kind]++)
            RETURN_IF(time_layer(&plan->layer[kind], p, layer, l->width, l->height, &cost, true));
    }
    for (int kind = 0; kind < 2; kind++)
        if (plan->n_layers[kind]) add_time(plan, &plan->layer[kind], plan->n_layers[kind]);
    /* The head's slots side by side are one wide region, up to the maximum length of a line. */
    const uint32_t head_slots = l->table_regions ? l->table_regions : l->head_regions;
    const uint32_t width = (uint32_t)fmin((double)l->width * head_slots, WAFER_LINE_MAX);
    RETURN_IF(time_range(&plan->head, p, p->n_ops - 1, 1, width, l->height, &cost, true));
    RETURN_IF(time_range(&plan->embed, p, 0, 1, l->width, l->height, &cost, true));
    add_time(plan, &plan->head, 1);
    add_time(plan, &plan->embed, 1);
    plan->cycles += plan->detour_cycles * p->shape.n_layers;
    plan->spent[SPENT_HOP] += plan->detour_cycles * p->shape.n_layers;
    time_handoffs(plan, r);
    double slowest = fmax(plan->layer[0].cycles * (plan->n_layers[0] != 0),
                          plan->layer[1].cycles * (plan->n_layers[1] != 0));
    slowest += plan->detour_cycles;
    plan->period_cycles = l->table_regions ? fmax(slowest * l->layers_a_region, plan->head.cycles)
                                           : slowest * l->layers_a_region + plan->head.cycles;
    return CERIUM_OK;
}

/* ---- the search ---- */

static bool is_better(const plan_result *a, const plan_result *b)
{
    if (a->layout.wafers != b->layout.wafers) return a->layout.wafers < b->layout.wafers;
    return a->cycles < b->cycles;
}

/* All choices on one grid. */
static int try_grid(const search *s, plan_result *best, bool *found, uint32_t columns,
                    uint32_t rows, bool time_it)
{
    static const uint32_t expert_groups[] = {0, 8, 16, 32, 64};
    const bool has_experts = s->shape->n_experts != 0;
    for (size_t i = 0; i < ARRAY_LEN(expert_groups) && (i == 0 || has_experts); i++)
        for (uint32_t variant = 0; variant < 2 * s->degree_max; variant++) {
            plan_result plan = {.layout = {.columns = columns, .rows = rows}};
            plan_layout *l = &plan.layout;
            l->is_turned = s->is_turned;
            l->width = s->width / columns;
            l->height = s->height / rows;
            if (expert_groups[i] > l->width || expert_groups[i] > l->height) continue;
            l->choice = (wafer_choice){.degree = 1 + variant / 2,
                                       .is_fused = variant % 2,
                                       .k_multiple = 1,
                                       .kv = WAFER_KV_ROUND_ROBIN,
                                       .experts = expert_groups[i] ? WAFER_EXPERTS_GROUPED
                                                             : WAFER_EXPERTS_SHARDED,
                                       .group_side = expert_groups[i],
                                       .context = s->r->context};
            if (l->choice.is_fused && s->r->is_sdk) continue;
            if (colours_of(l->choice.degree, expert_groups[i] != 0) >
                s->mesh->colours - s->mesh->reserved_colours)
                continue;
            if (!plan_search_lay_out(s, l)) break; /* the variants take the same memory */
            if (*found && l->wafers > best->layout.wafers) break;
            if (time_it) RETURN_IF(plan_time(&plan, s->r));
            if (!*found || is_better(&plan, best)) *best = plan;
            *found = true;
            if (!time_it) break;
        }
    return CERIUM_OK;
}

static int try_grids(const search *s, plan_result *best, bool *found, bool time_it)
{
    for (uint32_t rows = 1; rows <= SLOTS_MAX; rows++)
        for (uint32_t columns = 1; columns <= SLOTS_MAX; columns++) {
            if (s->width / columns < SLOT_CORES_MIN) break;
            if (s->height / rows < SLOT_CORES_MIN) return CERIUM_OK;
            RETURN_IF(try_grid(s, best, found, columns, rows, time_it));
        }
    return CERIUM_OK;
}

/* Upright, then with the wafer on its side: dimensions that are cut a little over what a core can
 * take along one edge may come out even along the other (8192 over 1170 rows are 8 a core, over 755
 * columns 11).  Dead cores are stepped over along rows, so a wafer with dead cores has one way
 * only. */
static int try_all(const search *s, plan_result *best, bool *found, bool time_it)
{
    search side = *s;
    *found = false;
    RETURN_IF(try_grids(s, best, found, time_it));
    if (s->mesh->n_dead) return CERIUM_OK;
    side.is_turned = true;
    side.width = s->height;
    side.height = s->width;
    return try_grids(&side, best, found, time_it);
}

static uint32_t live_width(const wafer_mesh *m)
{
    uint32_t most = 0, here = 0;
    for (uint32_t i = 0; i < m->n_dead; i++) {
        here = i && m->dead[i].y == m->dead[i - 1].y ? here + 1 : 1;
        if (here > most) most = here;
    }
    return m->width > most ? m->width - most : 0;
}

static search search_of(const plan_request *r)
{
    const wafer_mesh *m = &r->machine->mesh;
    search s = {.r = r,
                .mesh = m,
                .shape = &r->program->shape,
                .width = live_width(m),
                .height = m->height};
    s.usable =
        m->sram_bytes - m->buffer_bytes - (r->is_sdk ? m->code_bytes_sdk : m->code_bytes_tuned);
    s.wafers_max = r->wafers && r->wafers < m->wafers ? r->wafers : m->wafers;
    for (uint32_t degree = 1; degree <= WAFER_DEGREE_MAX; degree++)
        if (colours_of(degree, false) <= m->colours - m->reserved_colours) s.degree_max = degree;
    return s;
}

static bool plan_search_fits(const plan_request *r, plan_result *plan)
{
    bool found = false;
    const search s = search_of(r);
    return s.width && s.degree_max && !try_all(&s, plan, &found, false) && found;
}

/* The largest context that fits, in whole kilobytes of tokens; 0: none does. */
static uint32_t largest_context(plan_request r)
{
    plan_result plan;
    uint32_t low = 0, high = r.program->shape.context_tokens / 256 + 1;
    while (high - low > 1) {
        uint32_t middle = low + (high - low) / 2;
        r.context = middle * 256;
        if (plan_search_fits(&r, &plan))
            low = middle;
        else
            high = middle;
    }
    return low * 256;
}

/* One line: the reason, and the nearest that would work. */
static int plan_search_say_why(const plan_request *r, cerium_error *err)
{
    const search s = search_of(r);
    char name[WAFER_NAME_BYTES];
    plan_result plan;
    plan_request other = *r;
    snprintf(name, sizeof name, "%s", r->machine->name);
    if (!s.degree_max)
        return error_set(err, CERIUM_ERR_CAPACITY,
                         "%s: a reduction takes %u colours; %u are free: nothing can be placed",
                         name, colours_of(1, false), s.mesh->colours - s.mesh->reserved_colours);
    if (s.mesh->input_queues - s.mesh->reserved_queues < INPUT_QUEUES ||
        s.mesh->output_queues - s.mesh->reserved_queues < OUTPUT_QUEUES)
        return error_set(err, CERIUM_ERR_CAPACITY,
                         "%s: a core needs %d input and %d output queues; %u and %u are free", name,
                         INPUT_QUEUES, OUTPUT_QUEUES,
                         s.mesh->input_queues - s.mesh->reserved_queues,
                         s.mesh->output_queues - s.mesh->reserved_queues);
    const double have = (double)s.usable * s.width * s.mesh->height * s.wafers_max / 1e9;
    const double weights = (double)plan_weight_bytes(r->program, r->quant) / 1e9;
    const double kv = (double)plan_kv_bytes(r->program, r->context) / 1e9;
    char nearest[200];
    uint32_t context = largest_context(*r);
    wafer_machine more = *r->machine;
    more.mesh.wafers = WAFER_WAFERS_MAX;
    snprintf(nearest, sizeof nearest, "it takes %.0f such wafers or more, and %d can be joined",
             ceil((weights + kv) / have * s.wafers_max), WAFER_WAFERS_MAX);
    if (context) {
        snprintf(nearest, sizeof nearest, "a context of %u fits", context);
    } else if (other.machine = &more, other.wafers = 0, plan_search_fits(&other, &plan)) {
        snprintf(nearest, sizeof nearest, "%u wafers would hold it", plan.layout.wafers);
        for (wafer_quant q = QUANT_FP8; q <= QUANT_INT4; q++) {
            other = *r;
            other.quant = q;
            if (!plan_search_fits(&other, &plan)) continue;
            snprintf(nearest, sizeof nearest, "--quant %s would fit here", wafer_quant_names[q]);
            break;
        }
    }
    return error_set(err, CERIUM_ERR_CAPACITY,
                     "%s: %.3g GB of weights and %.3g GB of KV for %u tokens do not fit %.3g GB on "
                     "%u wafer%s (%u bytes a core beside code and buffers, tiles padded); %s",
                     name, weights, kv, r->context, have, s.wafers_max,
                     s.wafers_max == 1 ? "" : "s", (unsigned)s.usable, nearest);
}

/* Round-robin, or rows that keep adjacent tokens and pass their oldest up: both take the same
 * memory and colours, so time decides. */
static int choose_kv(plan_result *best, const plan_request *r)
{
    plan_result other = *best;
    wafer_kv_policy *kv = &other.layout.choice.kv;
    *kv = *kv == WAFER_KV_SHIFT ? WAFER_KV_ROUND_ROBIN : WAFER_KV_SHIFT;
    RETURN_IF(plan_time(&other, r));
    const double more = other.cycles - best->cycles;
    if (more < 0) *best = other;
    best->kv_other_cycles = fabs(more);
    return CERIUM_OK;
}

/* Users whose caches fit beside each other; a region works for one at a time. */
static uint32_t users_of(const plan_layout *l)
{
    const uint64_t one = l->layer_kv_bytes * l->layers_a_region;
    const uint64_t spare = l->usable_bytes - l->core_bytes;
    const uint64_t users = 1 + (one ? spare / one : UINT32_MAX);
    const uint32_t regions = l->layer_regions + 1;
    return users < regions ? (uint32_t)users : regions;
}

int plan_search(plan_result *out, const plan_request *r, cerium_error *err)
{
    const search s = search_of(r);
    const step_shape *shape = &r->program->shape;
    plan_result best = {0};
    bool found = false;
    CHECK(!r->machine->is_gpu && r->draft);
    if (r->context > shape->context_tokens)
        return error_set(err, CERIUM_ERR_ARGUMENT,
                         "a context of %u is over the model's; the nearest is %u", r->context,
                         shape->context_tokens);
    if (s.mesh->input_queues - s.mesh->reserved_queues < INPUT_QUEUES ||
        s.mesh->output_queues - s.mesh->reserved_queues < OUTPUT_QUEUES || !s.degree_max ||
        !s.width)
        return plan_search_say_why(r, err);
    int status = try_all(&s, &best, &found, true);
    if (status) return error_set(err, status, "no memory for the search");
    if (!found) return plan_search_say_why(r, err);
    status = time_detours(&best, r);
    if (!status) status = plan_time(&best, r);
    if (!status) status = choose_kv(&best, r);
    if (status) return error_set(err, status, "no memory for the plan");
    best.users = users_of(&best.layout);
    plan_request more = *r;
    more.wafers = best.layout.wafers;
    best.context_max = largest_context(more);
    if (best.context_max < r->context) best.context_max = r->context;
    *out = best;
    return CERIUM_OK;
}
