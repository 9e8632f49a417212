/* mesh_layout.c - the possible layouts, and each core's parts. */
#include "wafer/mesh_core.h"

mesh_layout mesh_layout_default(void)
{
    return (mesh_layout){.width = 8, .height = 8, .order = MESH_EQUAL,
                         .choice = {.degree = 2, .k_multiple = 1, .kv = WAFER_KV_ROUND_ROBIN},
                         .colours = 24, .lanes = 8, .kv_type = KERNEL_KV_I8, .rows_max = 16};
}

bool mesh_layout_name_kv(mesh_layout *l, const char **name)
{
    if (*name && !kernel_kv_of_name(*name, &l->kv_type)) return false;
    *name = kernel_kv_name(l->kv_type);
    return true;
}

static int mesh_layout_bad(cerium_error *err, const char *what, uint64_t value, uint64_t low,
                           uint64_t high)
{
    return error_set(err, CERIUM_ERR_ARGUMENT, "mesh: %s %llu: must be %llu to %llu", what,
                     (unsigned long long)value, (unsigned long long)low,
                     (unsigned long long)high);
}

int mesh_layout_validate(const mesh_layout *l, const step_shape *shape, cerium_error *err)
{
    const wafer_choice *c = &l->choice;
    if (l->width < 1 || l->width > MESH_SIDE_MAX)
        return mesh_layout_bad(err, "width", l->width, 1, MESH_SIDE_MAX);
    if (l->height < 1 || l->height > MESH_SIDE_MAX)
        return mesh_layout_bad(err, "height", l->height, 1, MESH_SIDE_MAX);
    if (c->degree < 1 || c->degree > WAFER_DEGREE_MAX)
        return mesh_layout_bad(err, "degree", c->degree, 1, WAFER_DEGREE_MAX);
    if (c->k_multiple < 1 || c->k_multiple > 4096)
        return mesh_layout_bad(err, "k_multiple", c->k_multiple, 1, 4096);
    if (l->colours < 1 || l->colours > MESH_COLOURS_MAX)
        return mesh_layout_bad(err, "colours", l->colours, 1, MESH_COLOURS_MAX);
    if (l->lanes < 1 || l->lanes > 256) return mesh_layout_bad(err, "lanes", l->lanes, 1, 256);
    if (l->rows_max < 1 || l->rows_max > MESH_ROWS_MAX)
        return mesh_layout_bad(err, "tokens in a pass", l->rows_max, 1, MESH_ROWS_MAX);
    if (c->context > shape->context_tokens)
        return mesh_layout_bad(err, "context", c->context, 1, shape->context_tokens);
    if (c->experts == WAFER_EXPERTS_GROUPED) {
        const uint32_t side = l->width < l->height ? l->width : l->height;
        if (!shape->n_experts)
            return error_set(err, CERIUM_ERR_ARGUMENT,
                             "mesh: expert groups need experts, and this model has none");
        if (c->group_side < 1 || c->group_side > side)
            return mesh_layout_bad(err, "cores on a side of an expert group", c->group_side, 1,
                                   side);
    }
    if (l->mesh_gemm && l->order == MESH_EQUAL)
        return error_set(err, CERIUM_ERR_ARGUMENT,
                         "mesh: MeshGEMM products begin anywhere in K, the CPU at its start: take "
                         "mesh order");
    if (l->mesh_gemm && c->experts == WAFER_EXPERTS_GROUPED)
        return error_set(err, CERIUM_ERR_ARGUMENT,
                         "mesh: MeshGEMM products take all cores: no expert groups beside them");
    if (c->is_fused && l->order == MESH_EQUAL)
        return error_set(err, CERIUM_ERR_ARGUMENT,
                         "mesh: fused collectives scale after a product, the CPU before it: take "
                         "mesh order, or sums apart");
    if (c->is_fused && shape->norm_kind == STEP_NORM_LAYER)
        return error_set(err, CERIUM_ERR_ARGUMENT,
                         "mesh: norms that subtract a mean do not fuse: take sums apart");
    return CERIUM_OK;
}

/* ---- splits ---- */

int mesh_split_begin(mesh *m, mesh_split *s, uint32_t n, uint32_t n_cores, uint32_t pieces_max)
{
    *s = (mesh_split){.n = n, .n_cores = n_cores};
    s->pieces = mesh_own(m, pieces_max, sizeof *s->pieces);
    s->share = mesh_own(m, n_cores, sizeof *s->share);
    return s->pieces && s->share ? CERIUM_OK : CERIUM_ERR_MEMORY;
}

void mesh_split_add(mesh_split *s, uint32_t core, uint32_t begin, uint32_t end)
{
    if (begin >= end) return;
    s->pieces[s->n_pieces++] = (mesh_piece){core, begin, end};
    s->share[core] += end - begin;
    if (s->share[core] > s->most) s->most = s->share[core];
}

int mesh_split_even(mesh *m, mesh_split *s, uint32_t n, uint32_t n_cores)
{
    const uint32_t multiple = m->layout.choice.k_multiple;
    const uint32_t tile = (uint32_t)size_round_up(tiles_of(n, n_cores), multiple);
    RETURN_IF(mesh_split_begin(m, s, n, n_cores, n_cores));
    for (uint32_t i = 0; i < n_cores; i++) {
        const wafer_range r = tile_range(n, tile, i);
        mesh_split_add(s, i, r.begin, r.end);
    }
    return CERIUM_OK;
}

/* Channels of heads: part 0 is q, 1 keys and values. */
static int split_heads(mesh *m, mesh_split *s, int part)
{
    const step_shape *shape = &m->program->shape;
    const wafer_strips *t = &m->strips;
    const uint32_t heads = part ? shape->n_kv_heads : shape->n_heads, d = shape->head_dim;
    const uint32_t per_strip = part ? t->heads : t->heads * t->queries;
    RETURN_IF(mesh_split_begin(m, s, heads * d, m->layout.width, heads * t->cores));
    for (uint32_t h = 0; h < heads; h++)
        for (uint32_t c = 0; c < t->cores; c++) {
            const wafer_range r = tile_range(d, t->channels, c);
            mesh_split_add(s, h / per_strip * t->cores + c, h * d + r.begin, h * d + r.end);
        }
    return CERIUM_OK;
}

int mesh_splits_make(mesh *m)
{
    const step_shape *s = &m->program->shape;
    const uint32_t w = m->layout.width;
    m->strips = strips_of(s, w, m->layout.choice.k_multiple);
    RETURN_IF(mesh_split_even(m, &m->split_e, s->n_embd, m->layout.height));
    RETURN_IF(split_heads(m, &m->split_q, 0));
    RETURN_IF(split_heads(m, &m->split_kv, 1));
    RETURN_IF(mesh_split_even(m, &m->split_h, s->n_experts ? s->n_ff_expert : s->n_ff, w));
    RETURN_IF(mesh_split_even(m, &m->split_v, s->n_vocab, w));
    return s->n_experts ? mesh_split_even(m, &m->split_r, s->n_experts, w) : CERIUM_OK;
}

/* ---- schedules ---- */

uint32_t mesh_adds(const mesh_layout *l, uint32_t n, uint32_t degree, wafer_add *adds)
{
    if (l->order == MESH_ORDER) {
        const wafer_reduction r = reduction_of(n, degree);
        return reduction_adds(&r, adds);
    }
    for (uint32_t i = 0; i + 1 < n; i++)
        adds[i] = (wafer_add){(uint16_t)i, (uint16_t)(i + 1), 0};
    return n - 1;
}

int mesh_schedule_make(mesh *m, mesh_schedule *s, uint32_t n, uint32_t degree)
{
    uint16_t depth[MESH_SIDE_MAX] = {0};
    *s = (mesh_schedule){.n = n, .n_adds = n - 1, .adds = mesh_own(m, n, sizeof *s->adds)};
    if (!s->adds) return CERIUM_ERR_MEMORY;
    s->root = mesh_adds(&m->layout, n, degree, s->adds);
    for (uint32_t i = 0; i < s->n_adds; i++) {
        const wafer_add *a = &s->adds[i];
        const uint16_t most = depth[a->from] > depth[a->to] ? depth[a->from] : depth[a->to];
        depth[a->to] = (uint16_t)(most + 1);
    }
    s->depth = depth[s->root];
    return CERIUM_OK;
}
