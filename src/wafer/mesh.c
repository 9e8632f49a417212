/* mesh.c - opening and closing a mesh: the model, its tiles, and all memory of passes. */
#include "wafer/mesh.h"

#include "base/memory.h"
#include "model/model.h"
#include "wafer/mesh_bound.h"
#include "wafer/mesh_core.h"
#include "wafer/modelled.h"

static int open_model(mesh *m, const gguf_file *file, cerium_error *err)
{
    const model_options options = {.head = MODEL_HEAD_FULL};
    RETURN_IF(model_open(&m->model, file, &options, err));
    m->program = model_program(m->model);
    RETURN_IF(wafer_check_modelled(m->program, gguf_path(file), err));
    uint8_t *panels = memory_map(model_panel_key(m->model).bytes);
    int status = panels ? CERIUM_OK : CERIUM_ERR_MEMORY;
    if (panels) model_set_panels(m->model, panels);
    for (uint32_t i = 0; !status && i < model_n_repack_items(m->model); i++)
        status = model_repack(m->model, i);
    return status ? error_set(err, status, "no memory for the weights of a mesh") : CERIUM_OK;
}

static bool is_apart(const mesh *m, step_kind kind)
{
    return m->expert_groups.n && (kind == STEP_EXPERTS_UP || kind == STEP_EXPERTS_DOWN);
}

/* How a matrix is cut: K along one axis, rows along the other. */
static void mesh_cut(const mesh *m, const step_op *op, int i, mesh_tiles *t)
{
    const bool is_qkv = op->kind == STEP_QKV, apart = is_apart(m, op->kind);
    const mesh_split *hidden = apart ? &m->group_h : &m->split_h;
    t->k_axis = WAFER_AXIS_Y;
    t->k = apart ? &m->group_e : &m->split_e;
    switch (op->kind) {
    case STEP_EXPERTS_DOWN:
    case STEP_OUT:
    case STEP_FFN_DOWN:
        t->k_axis = WAFER_AXIS_X;
        t->k = op->kind == STEP_OUT ? &m->split_q : hidden;
        t->n = apart ? &m->group_e : &m->split_e;
        break;
    case STEP_ROUTE: t->n = &m->split_r; break;
    WAFER_CASES_NOT_MODELLED:
    case STEP_EMBED:
    case STEP_HEAD: t->n = &m->split_v; break;
    case STEP_QKV:
    case STEP_FFN_UP:
    case STEP_EXPERTS_UP:
    case STEP_ATTEND: t->n = !is_qkv ? hidden : i ? &m->split_kv : &m->split_q; break;
    }
}

static const mesh_tiles *find_tiles(const mesh *m, const model_matrix *w)
{
    for (uint32_t i = 0; i < m->n_tiles; i++)
        if (m->tiles[i].w == w) return &m->tiles[i];
    return NULL;
}

static int make_tiles(mesh *m)
{
    const step_program *p = m->program;
    m->tiles = mesh_own(m, (size_t)p->n_ops * 3, sizeof *m->tiles);
    m->op_tiles = mesh_own(m, p->n_ops, sizeof *m->op_tiles);
    if (m->short_of_memory) return CERIUM_ERR_MEMORY;
    for (uint32_t i = 0; i < p->n_ops; i++)
        for (int j = 0; j < 3; j++) {
            const model_matrix *w = p->ops[i].w[j];
            /* One row a token is read of an embedding, directly from the panels. */
            if (!w || p->ops[i].kind == STEP_EMBED) continue;
            m->op_tiles[i][j] = find_tiles(m, w);
            if (m->op_tiles[i][j]) continue;
            mesh_tiles *t = &m->tiles[m->n_tiles++];
            t->w = w;
            mesh_cut(m, &p->ops[i], j, t);
            m->op_tiles[i][j] = t;
            RETURN_IF(mesh_tiles_make(m, t));
        }
    return CERIUM_OK;
}

static mesh_rows own_rows(mesh *m, uint32_t rows, uint32_t width)
{
    mesh_rows r = {.f = mesh_own(m, (size_t)rows * width, sizeof(float)), .width = width};
    for (int a = 0; a < KERNEL_ACTS_END; a++)
        r.q[a] = mesh_own(m, (size_t)rows * kernel_n_groups(width), sizeof(kernel_act));
    return r;
}

static uint32_t mesh_greater(uint32_t a, uint32_t b) { return a > b ? a : b; }

/* Output rows of the longest piece that a product computes at once. */
static uint32_t longest_piece(const mesh *m)
{
    const mesh_split *const splits[] = {&m->split_e, &m->split_q,  &m->split_kv,
                                        &m->split_h, &m->split_v,  &m->split_r,
                                        &m->group_e, &m->group_h, &m->prompt_e};
    uint32_t longest = 1;
    for (size_t i = 0; i < ARRAY_LEN(splits); i++) longest = mesh_greater(longest, splits[i]->most);
    return longest;
}

static int own_buffers(mesh *m, cerium_error *err)
{
    const step_shape *s = &m->program->shape;
    const mesh_layout *l = &m->layout;
    const uint32_t n_q = s->n_heads * s->head_dim, n_kv = s->n_kv_heads * s->head_dim;
    const uint32_t side = mesh_greater(l->width, l->height),
                   used = mesh_greater(s->n_experts_used, 1);
    const size_t rows = l->rows_max, all = (size_t)side * longest_piece(m);
    uint32_t width = mesh_greater(s->n_embd, s->n_experts ? s->n_ff_expert : s->n_ff);
    width = mesh_greater(width, s->n_experts);
    m->query_bytes = size_round_up(kernel_query_bytes(l->kv_type, s->head_dim), 16);
    m->x = mesh_own(m, rows * s->n_embd, sizeof(float));
    m->cosine = mesh_own(m, rows * s->ropes[0].n_rot / 2, sizeof(float));
    m->sine = mesh_own(m, rows * s->ropes[0].n_rot / 2, sizeof(float));
    m->norm_scale = mesh_own(m, l->rows_max, sizeof *m->norm_scale);
    m->normed = own_rows(m, l->rows_max, s->n_embd);
    m->attended = own_rows(m, l->rows_max, n_q);
    m->hidden = own_rows(m, l->rows_max * used, s->n_experts ? s->n_ff_expert : s->n_ff);
    m->q = mesh_own(m, rows * n_q, sizeof(float));
    m->key = mesh_own(m, rows * n_kv, sizeof(float));
    m->value = mesh_own(m, rows * n_kv, sizeof(float));
    m->queries = mesh_own(m, rows * s->n_heads, m->query_bytes);
    m->y = mesh_own(m, rows * width, sizeof(float));
    m->up = mesh_own(m, rows * width, sizeof(float));
    m->partial = mesh_own(m, all, sizeof(float));
    m->sums = mesh_own(m, all, sizeof *m->sums);
    m->state = mesh_own(m, l->height + 1, sizeof *m->state);
    m->out = mesh_own(m, (size_t)(l->height + 1) * s->head_dim, sizeof(float));
    m->chosen = mesh_own(m, rows * used, sizeof *m->chosen);
    m->weight = mesh_own(m, rows * used, sizeof *m->weight);
    m->logits = mesh_own(m, rows * s->n_vocab, sizeof(float));
    m->rest = own_rows(m, 1, s->n_embd);
    m->rest_logits = mesh_own(m, s->n_vocab, sizeof(float));
    m->candidates = mesh_own(m, s->n_vocab, sizeof(float));
    m->others = mesh_own(m, s->n_vocab, sizeof(float));
    m->events = mesh_own(m, (size_t)l->width * l->height, sizeof *m->events);
    RETURN_IF(sampler_open(&m->sampler, s->n_vocab, err));
    if (m->expert_groups.n) RETURN_IF(mesh_expert_groups_own(m));
    return m->short_of_memory ? CERIUM_ERR_MEMORY : mesh_kv_open(m);
}

static int mesh_open_parts(mesh *m, bool with_bound, cerium_error *err)
{
    const uint32_t degree = m->layout.choice.degree;
    RETURN_IF(mesh_splits_make(m));
    RETURN_IF(mesh_schedule_make(m, &m->sum[WAFER_AXIS_X], m->layout.width, degree));
    RETURN_IF(mesh_schedule_make(m, &m->sum[WAFER_AXIS_Y], m->layout.height, degree));
    RETURN_IF(mesh_schedule_make(m, &m->strip_sum, m->strips.cores, 1));
    m->whole = (mesh_ground){.width = m->layout.width, .height = m->layout.height,
                             .sum = {&m->sum[WAFER_AXIS_X], &m->sum[WAFER_AXIS_Y]}};
    m->on = &m->whole;
    if (m->layout.choice.experts == WAFER_EXPERTS_GROUPED) RETURN_IF(mesh_expert_groups_make(m));
    if (m->layout.mesh_gemm) RETURN_IF(mesh_gemm_make(m));
    if (with_bound) RETURN_IF(mesh_bound_open(m));
    RETURN_IF(make_tiles(m));
    return own_buffers(m, err);
}

static int check_layout(mesh *m, cerium_error *err)
{
    const step_shape *s = &m->program->shape;
    uint32_t n_colours;
    RETURN_IF(mesh_layout_validate(&m->layout, s, err));
    RETURN_IF(mesh_routes_check(&m->layout, s, false, &n_colours, err));
    if (!m->layout.choice.context) m->layout.choice.context = s->context_tokens;
    return CERIUM_OK;
}

int mesh_open(mesh **out, const gguf_file *file, const mesh_layout *layout, bool with_bound,
              mesh_fault fault, cerium_error *err)
{
    mesh *m = memory_zalloc(1, sizeof *m);
    if (!m) return error_set(err, CERIUM_ERR_MEMORY, "no memory for a mesh");
    m->layout = *layout;
    m->fault = fault;
    kernel_table_init(&m->k, kernel_cpu_detect());
    kernel_float_setup();
    int status = open_model(m, file, err);
    if (!status) status = check_layout(m, err);
    if (!status) {
        status = mesh_open_parts(m, with_bound, err);
        if (status == CERIUM_ERR_MEMORY) error_set(err, status, "no memory for a mesh");
    }
    if (status) mesh_close(&m);
    *out = m;
    return status;
}

void mesh_close(mesh **m)
{
    if (!m || !*m) return;
    mesh *o = *m;
    for (uint32_t i = 0; i < o->n_tiles; i++) mesh_tiles_close(&o->tiles[i]);
    sampler_close(&o->sampler);
    if (o->kv) memory_unmap(o->kv, o->kv_bytes);
    mesh_bound_close(o);
    model_close(&o->model);
    for (uint32_t i = 0; i < o->n_owned; i++) memory_free(o->owned[i]);
    memory_free(o);
    *m = NULL;
}

const step_shape *mesh_shape(const mesh *m) { return &m->program->shape; }
const mesh_layout *mesh_layout_of(const mesh *m) { return &m->layout; }
const step_program *mesh_program(const mesh *m) { return m->program; }
const mesh_core_events *mesh_events(const mesh *m) { return m->events; }
const mesh_kind_events *mesh_kinds(const mesh *m) { return m->kinds; }

void mesh_events_clear(mesh *m)
{
    memset(m->events, 0, (size_t)m->layout.width * m->layout.height * sizeof *m->events);
    memset(m->kinds, 0, sizeof m->kinds);
}

/* A core's part of t.  A slice that ends inside a block has the whole block's scales. */
static uint64_t tile_bytes(const mesh *m, const mesh_tiles *t, uint32_t x, uint32_t y)
{
    const uint64_t values = block_values(t->w->type), size = block_bytes(t->w->type);
    const bool along_x = t->k_axis == WAFER_AXIS_X;
    const bool apart = t->k == &m->group_e || t->k == &m->group_h;
    uint32_t n_matrices = t->w->n_matrices;
    if (apart) {
        n_matrices = mesh_expert_groups_held(m, x, y, n_matrices);
        x %= m->expert_groups.side;
        y %= m->expert_groups.side;
    }
    const uint32_t n = along_x ? y : x, k = along_x ? x : y;
    return (uint64_t)n_matrices * t->n->share[n] *
           ((t->k->share[k] * size + values - 1) / values);
}

uint64_t mesh_core_weight_bytes(const mesh *m)
{
    const step_op *embed = &m->program->ops[0];
    mesh_tiles apart = {.w = embed->w[0]}; /* an embedding that is not the head as well */
    const bool is_tied = find_tiles(m, apart.w) != NULL;
    uint64_t most = 0;
    CHECK(embed->kind == STEP_EMBED);
    mesh_cut(m, embed, 0, &apart);
    for (uint32_t y = 0; y < m->layout.height; y++)
        for (uint32_t x = 0; x < m->layout.width; x++) {
            uint64_t sum = is_tied ? 0 : tile_bytes(m, &apart, x, y);
            for (uint32_t i = 0; i < m->n_tiles; i++) sum += tile_bytes(m, &m->tiles[i], x, y);
            if (sum > most) most = sum;
        }
    return most;
}

uint64_t mesh_core_kv_bytes(const mesh *m)
{
    const bool moves = m->layout.choice.kv == WAFER_KV_SHIFT; /* the new one arrives before the old
                                                                 one leaves */
    const uint64_t tokens = tiles_of(m->layout.choice.context, m->layout.height) + moves;
    const uint64_t page = kernel_kv_bytes(m->layout.kv_type, m->program->shape.head_dim);
    return 2 * tokens * m->program->shape.n_layers * m->split_kv.most *
           (page / KERNEL_PAGE) / m->program->shape.head_dim;
}
