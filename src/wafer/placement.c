/* placement.c - the geometry of a placement: orders of sums, strips of heads, tiles. */
#include "wafer/placement.h"

#include "base/memory.h"
#include "wafer/modelled.h"

/* ---- the order of a sum ---- */

/* Dependent adds of one phase: both halves of a group add towards its middle at once. */
static uint32_t chain_stages(uint32_t group)
{
    return group / 2;
}

/* The best groups for the rest of n in `degree` phases; returns the stages.
 * exact: only sizes that divide. */
static uint32_t best_groups(uint32_t n, uint32_t degree, bool exact, uint32_t *group)
{
    uint32_t best = UINT32_MAX, inner[WAFER_DEGREE_MAX];
    group[0] = n;
    if (degree == 1 || n <= 2) {
        for (uint32_t i = 1; i < degree; i++) group[i] = 1;
        return chain_stages(n);
    }
    for (uint32_t g = 2; g <= n; g++) {
        if (exact && n % g) continue;
        if (chain_stages(g) >= best) break;
        uint32_t stages = chain_stages(g) + best_groups(tiles_of(n, g), degree - 1, exact, inner);
        if (stages >= best) continue;
        best = stages;
        group[0] = g;
        memcpy(group + 1, inner, (degree - 1) * sizeof *group);
    }
    return best;
}

wafer_reduction reduction_of(uint32_t n, uint32_t degree)
{
    CHECK(n && n <= WAFER_LINE_MAX && degree && degree <= WAFER_DEGREE_MAX);
    wafer_reduction even = {.n = n, .degree = degree}, any = even;
    uint32_t even_stages = best_groups(n, degree, true, even.group);
    uint32_t any_stages = best_groups(n, degree, false, any.group);
    /* Equal groups make one program for all of them; they are worth an eighth more stages. */
    return even_stages <= any_stages + any_stages / 8 ? even : any;
}

uint32_t reduction_adds(const wafer_reduction *r, wafer_add *out)
{
    uint16_t root[WAFER_LINE_MAX];
    uint32_t n = r->n, n_adds = 0;
    CHECK(n && n <= WAFER_LINE_MAX);
    for (uint32_t i = 0; i < n; i++) root[i] = (uint16_t)i;
    for (uint32_t phase = 0; phase < r->degree; phase++) {
        uint32_t size = r->group[phase], n_groups = 0;
        for (uint32_t first = 0; first < n; first += size) {
            uint32_t last = first + size < n ? first + size - 1 : n - 1;
            uint32_t middle = first + (last - first + 1) / 2;
            for (uint32_t i = first; i < middle; i++)
                out[n_adds++] = (wafer_add){root[i], root[i + 1], (uint16_t)phase};
            for (uint32_t i = last; i > middle; i--)
                out[n_adds++] = (wafer_add){root[i], root[i - 1], (uint16_t)phase};
            root[n_groups++] = root[middle];
        }
        n = n_groups;
    }
    CHECK(n == 1 && n_adds == r->n - 1);
    return root[0];
}

/* ---- tiles ---- */

wafer_strips strips_of(const step_shape *s, uint32_t width, uint32_t multiple)
{
    wafer_strips t = {.strips = s->n_kv_heads, .heads = 1, .queries = s->n_heads / s->n_kv_heads};
    CHECK(width && multiple);
    t.cores = width / s->n_kv_heads;
    if (!t.cores) {
        t.cores = 1;
        t.heads = tiles_of(s->n_kv_heads, width);
        t.strips = tiles_of(s->n_kv_heads, t.heads);
    }
    t.channels = (uint32_t)size_round_up(tiles_of(s->head_dim, t.cores), multiple);
    if (t.channels > s->head_dim) t.channels = s->head_dim;
    return t;
}

uint32_t strip_rows(const step_shape *s, const wafer_strips *t, uint32_t x, int part,
                    uint32_t *first_head, wafer_range *channels)
{
    uint32_t strip = x / t->cores, first = strip * t->heads;
    *first_head = 0;
    *channels = (wafer_range){0, 0};
    if (strip >= t->strips) return 0;
    uint32_t n = s->n_kv_heads - first < t->heads ? s->n_kv_heads - first : t->heads;
    *channels = tile_range(s->head_dim, t->channels, x % t->cores);
    *first_head = part ? first : first * t->queries;
    return part ? n : n * t->queries;
}

static uint32_t placement_tile(uint32_t n, uint32_t parts, uint32_t multiple)
{
    return (uint32_t)size_round_up(tiles_of(n, parts), multiple);
}

wafer_tiles tiles_of_op(const step_program *p, uint32_t op, uint32_t width, uint32_t height,
                        const wafer_choice *choice)
{
    const step_shape *s = &p->shape;
    const step_op *step = &p->ops[op];
    const uint32_t multiple = choice->k_multiple;
    wafer_tiles t = {.op = op, .reduce = WAFER_AXIS_Y, .n_k = height, .n_n = width};
    CHECK(op < p->n_ops && width && height && multiple);
    switch (step->kind) {
    WAFER_CASES_NOT_MODELLED:
    case STEP_EMBED:
    case STEP_ATTEND:
        return (wafer_tiles){.op = op};
    case STEP_QKV: {
        wafer_strips strips = strips_of(s, width, multiple);
        t.k_tile = placement_tile(s->n_embd, height, multiple);
        t.n_tile[1] = t.n_tile[2] = strips.heads * strips.channels;
        t.n_tile[0] = t.n_tile[1] * strips.queries;
        break;
    }
    case STEP_OUT: {
        wafer_strips strips = strips_of(s, width, multiple);
        t.reduce = WAFER_AXIS_X;
        t.k_tile = strips.heads * strips.queries * strips.channels;
        t.n_tile[0] = placement_tile(s->n_embd, height, multiple);
        break;
    }
    case STEP_FFN_UP:
    case STEP_ROUTE:
    case STEP_EXPERTS_UP:
    case STEP_HEAD:
        t.k_tile = placement_tile(s->n_embd, height, multiple);
        for (int i = 0; i < 3; i++)
            if (step->w[i]) t.n_tile[i] = placement_tile(step->w[i]->rows, width, multiple);
        break;
    case STEP_FFN_DOWN:
    case STEP_EXPERTS_DOWN:
        t.reduce = WAFER_AXIS_X;
        t.k_tile = placement_tile(step->w[0]->cols, width, multiple);
        t.n_tile[0] = placement_tile(s->n_embd, height, multiple);
        break;
    }
    if (t.reduce == WAFER_AXIS_X) {
        t.n_k = width;
        t.n_n = height;
    }
    t.sum = reduction_of(t.n_k, choice->degree);
    return t;
}

wafer_expert_groups expert_groups_of(uint32_t width, uint32_t height, uint32_t side)
{
    CHECK(side && side <= width && side <= height);
    wafer_expert_groups i = {.side = side, .columns = width / side, .rows = height / side};
    i.n = i.columns * i.rows;
    return i;
}

wafer_tiles expert_group_tiles(const step_program *p, uint32_t op, const wafer_choice *choice)
{
    wafer_choice here = *choice;
    here.degree = 1; /* neighbours: more phases would need their own colours */
    return tiles_of_op(p, op, choice->group_side, choice->group_side, &here);
}

void placement_close(wafer_placement *p)
{
    memory_free(p->regions);
    *p = (wafer_placement){0};
}
