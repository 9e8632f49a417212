/* model.c - opens a model file: picks the architecture, lowers it, repacks the weights. */
#include "model/model.h"

#include "base/hash.h"
#include "base/memory.h"
#include "gguf/finite.h"
#include "kernels/kernels.h"
#include "model/build.h"

struct model {
    builder b;
    const char *arch;
    uint8_t *panels;
    size_t panels_bytes;
    uint32_t n_repack_items, n_table_items; /* all; those of the table, which come last */
    uint64_t n_parameters;
};

static const struct {
    const char *name;
    void (*build)(builder *b);
} architectures[] = {
    {"llama", build_llama},       {"qwen2", build_qwen2},     {"qwen3", build_qwen3},
    {"qwen2vl", build_qwen2vl},   {"qwen3vl", build_qwen3vl}, {"qwen3vlmoe", build_qwen3vlmoe},
    {"qwen3moe", build_qwen3moe}, {"gpt-oss", build_gpt_oss}, {"starcoder2", build_starcoder2},
    {"mistral3", build_mistral3}, {"smollm3", build_smollm3}, {"seed_oss", build_seed_oss},
    {"granite", build_granite},   {"granitemoe", build_granite},
    {"granitehybrid", build_granite},
    {"gemma3", build_gemma3},     {"gemma4", build_gemma4},   {"mellum", build_mellum},
    {"maple", build_maple},       {"laguna", build_laguna},   {"glm4moe", build_glm4moe},
    {"minimax-m2", build_minimax_m2},
    {"qwen35", build_qwen35},     {"qwen35moe", build_qwen35}, {"qwen3next", build_qwen35},
    {"deepseek2", build_deepseek2}, {"mistral4", build_deepseek2},
    {"nemotron_h", build_nemotron_h},
    {"nemotron_h_moe", build_nemotron_h}, {"eagle3", build_eagle3},
    {"dflash", build_dflash},
};

enum {
    REPACK_ITEM_BYTES = 1 << 19, /* small enough to share out, large enough to stream */
    MTP_OPS = 3, MTP_MATRICES = 3, /* of an MTP head beside its block */
};

static bool ends_with(view name, view end)
{
    return name.len >= end.len &&
           memcmp(name.ptr + name.len - end.len, end.ptr, end.len) == 0;
}

/* How often a tensor's values are kept as floats: those of convolutions are transposed, too.
 * Vectors of Mamba-2 have two dimensions. */
static size_t times_as_vector(const gguf_tensor *t)
{
    if (ends_with(t->name, VIEW("ssm_conv1d.weight"))) return 2;
    if (view_starts(t->name, VIEW("fc_norm."))) return 2; /* of EAGLE-3.1: and all together */
    return t->n_dims == 1 || ends_with(t->name, VIEW(".bias")) ||
           ends_with(t->name, VIEW(".scale")) ||
           ends_with(t->name, VIEW(".ssm_a")) || ends_with(t->name, VIEW(".ssm_d")) ||
           ends_with(t->name, VIEW(".ssm_norm.weight"));
}

static size_t vectors_bytes(const gguf_file *file)
{
    size_t total = 1 << 16; /* frequencies, and rounding of each */
    const gguf_value *signs = gguf_find(file, "prism.hadamard.sign_values");
    const gguf_value *names = gguf_find(file, "prism.hadamard.weight_names");
    if (signs && signs->type == GGUF_ARRAY) /* and a step_hadamard for each name, and part of it */
        total += signs->n_items * sizeof(float) + 8 * MEMORY_ALIGN;
    if (names && names->type == GGUF_ARRAY) total += (names->n_items + 2) * 4 * MEMORY_ALIGN;
    for (size_t i = 0; i < gguf_n_tensors(file); i++) {
        const gguf_tensor *t = gguf_tensor_at(file, i);
        size_t n = t->size / block_bytes(t->type) * block_values(t->type);
        total += times_as_vector(t) * ((n + KERNEL_PANEL_ROWS) * sizeof(float) + MEMORY_ALIGN);
    }
    return total;
}

static uint32_t item_panels(const model_matrix *m)
{
    uint32_t n = (uint32_t)(REPACK_ITEM_BYTES / m->panel_bytes);
    return n ? n : 1;
}

static uint32_t matrix_items(const model_matrix *m)
{
    uint32_t n = item_panels(m);
    return m->n_matrices * ((m->n_panels + n - 1) / n);
}

static size_t panel_area(const model_matrix *w)
{
    return w->panel_bytes * w->n_panels * w->n_matrices;
}

/* A screen's errors and a head's norms come after its panels, so that they are kept together. */
static size_t bounds_area(const model_matrix *w)
{
    if (w->is_screen) return (size_t)w->n_panels * KERNEL_PANEL_ROWS * sizeof *w->row_error;
    return w->has_norms ? w->n_panels * sizeof *w->panel_norm : 0;
}

static size_t matrix_bytes(const model_matrix *w)
{
    return size_round_up(panel_area(w) + bounds_area(w), 4096);
}

/* A table's rows are read from the file; they are checked once for being numbers. */
static uint64_t table_item_rows(const gguf_tensor *table)
{
    const uint64_t row = table->size / table->dims[1];
    return row < REPACK_ITEM_BYTES ? REPACK_ITEM_BYTES / row : 1;
}

static uint32_t table_items(const gguf_tensor *table)
{
    if (!table) return 0;
    const uint64_t rows = table_item_rows(table);
    return (uint32_t)((table->dims[1] + rows - 1) / rows);
}

static int check_table(const model *m, uint32_t item)
{
    const gguf_tensor *t = m->b.table;
    const uint64_t row = t->size / t->dims[1], first = item * table_item_rows(t);
    const uint64_t left = t->dims[1] - first, want = table_item_rows(t);
    const uint64_t n = left < want ? left : want;
    const uint8_t *data = (const uint8_t *)t->data + first * row;
    const bool is_finite = block_is_finite(t->type, data, n * t->dims[0]);
    gguf_release(m->b.file, data, n * row);
    return is_finite ? CERIUM_OK : CERIUM_ERR_FORMAT;
}

/* The size of all matrices in one mapping. */
static int measure_panels(model *m)
{
    size_t total = 0;
    for (uint32_t i = 0; i < m->b.n_matrices; i++) {
        const model_matrix *w = &m->b.matrices[i];
        size_t size;
        if (!size_mul(w->panel_bytes, w->n_panels, &size) ||
            !size_mul(size, w->n_matrices, &size) || !size_add(size, bounds_area(w), &size) ||
            !size_add(total, size_round_up(size, 4096), &total))
            return CERIUM_ERR_MEMORY;
        m->n_repack_items += matrix_items(w);
    }
    m->panels_bytes = total;
    m->n_table_items = table_items(m->b.table);
    m->n_repack_items += m->n_table_items;
    return CERIUM_OK;
}

void model_set_panels(model *m, uint8_t *panels)
{
    memory_unmap(m->panels, m->panels_bytes);
    m->panels = panels;
    for (uint32_t i = 0; i < m->b.n_matrices; i++) {
        model_matrix *w = &m->b.matrices[i];
        w->panels = panels;
        w->row_error = w->panel_norm = NULL;
        if (!panels) continue;
        float *after = (float *)(void *)(panels + panel_area(w));
        if (w->is_screen) w->row_error = after;
        if (w->has_norms) w->panel_norm = after;
        panels += matrix_bytes(w);
    }
}

/* A panel of made-up blocks in this build's layout: another layout has another hash, even without a
 * new version number. */
static uint64_t hash_of_layout(block_type type, uint64_t hash)
{
    enum { COLS = 256, MORE = 96, BYTES_MAX = (COLS + MORE) * sizeof(float) * KERNEL_PANEL_ROWS };
    uint8_t rows[BYTES_MAX];
    _Alignas(MEMORY_ALIGN) uint8_t panel[BYTES_MAX];
    /* Whole groups and a part of one, if the type has groups. */
    const uint32_t cols = (COLS + MORE) % block_values(type) == 0 ? COLS + MORE : COLS;
    size_t len = kernel_panel_bytes(type, cols);
    CHECK(len && len <= sizeof panel);
    for (uint32_t i = 0; i < sizeof rows; i++) rows[i] = (uint8_t)(i * 167 + (i >> 8) * 59);
    kernel_repack(type, panel, rows, KERNEL_PANEL_ROWS, cols);
    return hash_bytes(panel, len, hash);
}

static uint64_t layout_of(const model *m)
{
    uint64_t hash = 0;
    bool seen[BLOCK_TYPE_END] = {0};
    for (uint32_t i = 0; i < m->b.n_matrices; i++) {
        const model_matrix *w = &m->b.matrices[i];
        const uint64_t facts[] = {w->type, w->rows, w->cols, w->n_matrices, w->source_row,
                                  w->source_rows, w->n_panels, w->panel_bytes, w->is_screen,
                                  w->has_norms, w->is_transposed, w->turns_rows};
        hash = hash_bytes(w->source->name.ptr, w->source->name.len, hash);
        hash = hash_bytes(facts, sizeof facts, hash);
        if (!seen[w->type]) hash = hash_of_layout(w->type, hash);
        seen[w->type] = true;
    }
    return hash;
}

panel_key model_panel_key(const model *m)
{
    return (panel_key){.model = gguf_fingerprint(m->b.file),
                       .layout = layout_of(m),
                       .bytes = m->panels_bytes};
}

static int find_architecture(const gguf_file *file, size_t *which, cerium_error *err)
{
    view name;
    if (!gguf_get_string(file, "general.architecture", &name))
        return error_set(err, CERIUM_ERR_FORMAT, "%s: key general.architecture is missing",
                         gguf_path(file));
    for (size_t i = 0; i < ARRAY_LEN(architectures); i++)
        if (view_equal(name, view_of(architectures[i].name))) {
            *which = i;
            return CERIUM_OK;
        }
    char known[400];
    size_t len = 0;
    for (size_t i = 0; i < ARRAY_LEN(architectures); i++)
        len += (size_t)snprintf(known + len, sizeof known - len, "%s%s", i ? ", " : "",
                                architectures[i].name);
    CHECK(len < sizeof known);
    return error_set(err, CERIUM_ERR_FORMAT,
                     "%s: architecture '%.*s' is not supported; there are %s", gguf_path(file),
                     (int)(name.len < 64 ? name.len : 64), name.ptr, known);
}

/* An encoder of a known architecture: its output for a token depends on later tokens, so it would
 * run, and write nonsense.  In a drafter it is said of a block, which it may read so. */
static int check_direction(const gguf_file *file, const char *arch, cerium_error *err)
{
    char key[64];
    bool is_causal = true;
    snprintf(key, sizeof key, "%s.attention.causal", arch);
    gguf_get_bool(file, key, &is_causal);
    if (is_causal || model_is_drafter(file)) return CERIUM_OK;
    return error_set(err, CERIUM_ERR_FORMAT,
                     "%s: a model that reads in both directions (%s is false) cannot write",
                     gguf_path(file), key);
}

static int take_builder_memory(model *m)
{
    builder *b = &m->b;
    uint64_t layers = 0;
    char key[64];
    snprintf(key, sizeof key, "%s.block_count", m->arch);
    gguf_get_u64(b->file, key, &layers);
    if (layers > MODEL_LAYERS_MAX) layers = MODEL_LAYERS_MAX;
    b->ops_cap = (uint32_t)layers * MODEL_LAYER_OPS_MAX + 3 + MTP_OPS;
    b->matrices_cap = (uint32_t)layers * MODEL_LAYER_MATRICES_MAX + 4 + MTP_MATRICES;
    b->ops = memory_zalloc(b->ops_cap, sizeof *b->ops);
    b->matrices = memory_zalloc(b->matrices_cap, sizeof *b->matrices);
    if (!b->ops || !b->matrices) return CERIUM_ERR_MEMORY;
    return arena_open(&b->vectors, vectors_bytes(b->file));
}

static uint64_t count_parameters(const gguf_file *file)
{
    uint64_t n = 0;
    for (size_t i = 0; i < gguf_n_tensors(file); i++) {
        const gguf_tensor *t = gguf_tensor_at(file, i);
        n += t->size / block_bytes(t->type) * block_values(t->type);
    }
    return n;
}

/* For a program, whose steps are ops: layers with keys and values are numbered separately from
 * those with a state. */
static void number_layers(step_program *p, step_op *ops)
{
    step_shape *s = &p->shape;
    uint32_t kv_layer = 0;
    s->n_kv_layers = s->linear.n_layers = 0;
    for (uint32_t i = 0; i < p->n_ops; i++) {
        step_op *op = &ops[i];
        switch (op->kind) {
        case STEP_QKV:
        case STEP_LATENT:
            if (op->passes == STEP_IN_CONTEXT) op->layer = kv_layer; /* after that of the block */
            else if (step_writes_kv(op)) op->layer = s->n_kv_layers++;
            kv_layer = op->layer;
            break;
        case STEP_ATTEND: op->layer = kv_layer; break;
        case STEP_CONV: op->layer = s->linear.n_layers++; break;
        case STEP_DELTA: op->layer = s->linear.n_layers - 1; break;
        default: break;
        }
    }
}

int model_open(model **out, const gguf_file *file, const model_options *options,
               cerium_error *err)
{
    static const model_options as_it_is = {.head = MODEL_HEAD_FULL};
    size_t which = 0;
    RETURN_IF(find_architecture(file, &which, err));
    RETURN_IF(check_direction(file, architectures[which].name, err));
    int status = CERIUM_ERR_MEMORY;
    model *m = memory_zalloc(1, sizeof *m);
    if (!m) goto fail;
    m->arch = architectures[which].name;
    m->b = (builder){.file = file, .arch = m->arch, .err = err,
                    .options = options ? options : &as_it_is};
    m->n_parameters = count_parameters(file);
    status = take_builder_memory(m);
    if (status) goto fail;
    architectures[which].build(&m->b);
    build_hadamard(&m->b);
    status = m->b.status;
    m->b.err = NULL;
    m->b.options = NULL;
    if (status) {
        model_close(&m);
        return status; /* the builder has set the error */
    }
    m->b.program.ops = m->b.ops;
    number_layers(&m->b.program, m->b.ops);
    number_layers(&m->b.mtp, m->b.ops + m->b.program.n_ops);
    status = measure_panels(m);
    if (status) goto fail;
    *out = m;
    return CERIUM_OK;
fail:
    model_close(&m);
    return error_set(err, status, "%s: no memory for the weights", gguf_path(file));
}

void model_close(model **m)
{
    if (!m || !*m) return;
    model_set_panels(*m, NULL);
    arena_close(&(*m)->b.vectors);
    memory_free((*m)->b.matrices);
    memory_free((*m)->b.ops);
    memory_free(*m);
    *m = NULL;
}

const step_program *model_program(const model *m) { return &m->b.program; }
const step_program *model_mtp(const model *m) { return m->b.mtp.n_ops ? &m->b.mtp : NULL; }
const char *model_mtp_lacks(const model *m)
{
    return m->b.mtp_lacks[0] ? m->b.mtp_lacks : NULL;
}

bool model_is_unturned(const model *m) { return m->b.is_unturned; }
const uint32_t *model_taps(const model *m) { return m->b.taps; }
const model_markov *model_markov_of(const model *m) { return &m->b.markov; }
const int32_t *model_said_tokens(const model *m) { return m->b.said; }
const char *model_architecture(const model *m) { return m->arch; }
uint64_t model_n_parameters(const model *m) { return m->n_parameters; }
uint64_t model_weights_bytes(const model *m) { return m->panels_bytes + m->b.vectors.used; }

uint64_t model_step_bytes(const model *m)
{
    const step_program *p = &m->b.program;
    uint64_t total = 0;
    for (uint32_t i = 0; i < p->n_ops; i++) {
        const step_op *op = &p->ops[i];
        for (int k = 0; k < STEP_MATRICES_MAX; k++) {
            const model_matrix *w = op->w[k];
            if (!w || op->passes == STEP_IN_CONTEXT) continue;
            if (op->screen) w = op->screen; /* the least that must be read */
            uint64_t one = (uint64_t)w->panel_bytes * w->n_panels;
            if (op->kind == STEP_EMBED) /* one row */
                total += w->panel_bytes / KERNEL_PANEL_ROWS;
            else
                total += step_chooses(op) ? one * op->n_used : one * w->n_matrices;
        }
    }
    return total;
}

block_type model_main_type(const model *m)
{
    uint64_t values[BLOCK_TYPE_END] = {0};
    block_type best = BLOCK_F32;
    for (uint32_t i = 0; i < m->b.n_matrices; i++) {
        const model_matrix *w = &m->b.matrices[i];
        values[w->type] += (uint64_t)w->rows * w->cols * w->n_matrices;
        if (values[w->type] > values[best]) best = w->type;
    }
    return best;
}

uint32_t model_n_repack_items(const model *m) { return m->n_repack_items; }

/* Panels [first, end) of expert matrix of w. */
static int repack_panels(const model *m, const model_matrix *w, uint32_t matrix, uint32_t first,
                         uint32_t end)
{
    int status = CERIUM_OK;
    size_t row_bytes = w->source->size /
                       (w->source->dims[1] * w->source->dims[2] * w->source->dims[3]);
    const uint8_t *source = (const uint8_t *)w->source->data +
                            ((size_t)matrix * w->source_rows + w->source_row) * row_bytes;
    if (w->is_transposed) return model_transpose_panels(w, source, matrix, first, end);
    for (uint32_t r = first * KERNEL_PANEL_ROWS;
         r < w->rows && r < end * KERNEL_PANEL_ROWS && !status; r++)
        if (!block_is_finite(w->source->type, source + (size_t)r * row_bytes, w->cols))
            return CERIUM_ERR_FORMAT;
    const bool is_derived = w->type != w->source->type || w->turns_rows;
    if (is_derived) status = model_derive_panels(w, source, matrix, first, end);
    for (uint32_t p = first; !is_derived && p < end; p++) {
        uint32_t row = p * KERNEL_PANEL_ROWS;
        uint32_t n = w->rows - row < KERNEL_PANEL_ROWS ? w->rows - row : KERNEL_PANEL_ROWS;
        uint8_t *panel = w->panels + ((size_t)matrix * w->n_panels + p) * w->panel_bytes;
        kernel_repack(w->type, panel, source + (size_t)row * row_bytes, n, w->cols);
        if (w->factor) kernel_panel_set_factor(w->type, panel, model_matrix_factor(w, matrix));
    }
    if (w->has_norms && !status) status = model_panel_norms(w, source, first, end);
    uint32_t rows_end = end * KERNEL_PANEL_ROWS < w->rows ? end * KERNEL_PANEL_ROWS : w->rows;
    uint32_t row = first * KERNEL_PANEL_ROWS;
    gguf_release(m->b.file, source + (size_t)row * row_bytes, (rows_end - row) * row_bytes);
    return status;
}

static bool is_of_table(const model *m, uint32_t item)
{
    return item < m->n_repack_items && item >= m->n_repack_items - m->n_table_items;
}

/* The matrix of an item; *item becomes its own item. */
static const model_matrix *matrix_of(const model *m, uint32_t *item)
{
    CHECK(*item < m->n_repack_items);
    const model_matrix *w = m->b.matrices;
    while (*item >= matrix_items(w)) *item -= matrix_items(w++);
    return w;
}

view model_repack_tensor(const model *m, uint32_t item)
{
    return is_of_table(m, item) ? m->b.table->name : matrix_of(m, &item)->source->name;
}

int model_repack(const model *m, uint32_t item)
{
    CHECK(m->panels);
    if (is_of_table(m, item))
        return check_table(m, item - (m->n_repack_items - m->n_table_items));
    const model_matrix *w = matrix_of(m, &item);
    uint32_t step = item_panels(w), per_matrix = (w->n_panels + step - 1) / step;
    uint32_t first = item % per_matrix * step;
    uint32_t end = first + step < w->n_panels ? first + step : w->n_panels;
    return repack_panels(m, w, item / per_matrix, first, end);
}
