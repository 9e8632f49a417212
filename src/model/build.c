/* build.c - the builder's primitives: keys, weights and steps, each validated where it enters. */
#include "model/build.h"

#include "gguf/finite.h"
#include "kernels/kernels.h"

int build_fail(builder *b, const char *format, ...)
{
    char what[400];
    va_list args;
    if (b->status) return b->status;
    va_start(args, format);
    vsnprintf(what, sizeof what, format, args);
    va_end(args);
    b->status = error_set(b->err, CERIUM_ERR_FORMAT, "%s: %s", gguf_path(b->file), what);
    return b->status;
}

/* The file lacks a tensor that must be there. */
static void missing(builder *b, const char *name)
{
    if (!b->in_mtp) {
        build_fail(b, "tensor %s is missing", name);
    } else if (!b->status) { /* build_mtp_end() takes it back */
        snprintf(b->mtp_lacks, sizeof b->mtp_lacks, "tensor %s is missing", name);
        b->status = CERIUM_ERR_FORMAT;
    }
}

/* A number, or an array of one for each layer that are all the same; if they may differ, the
 * greatest. */
static bool find_u64(builder *b, const char *name, uint64_t *value)
{
    char key[128];
    snprintf(key, sizeof key, "%s.%s", b->arch, name);
    const gguf_value *found = gguf_find(b->file, key);
    if (!found || found->type != GGUF_ARRAY) return gguf_get_u64(b->file, key, value);
    if (found->n_items == 0 || found->item_type == GGUF_STRING || found->item_type == GGUF_ARRAY ||
        gguf_item_i64(found, 0) < 0)
        return false;
    *value = (uint64_t)gguf_item_i64(found, 0);
    for (uint64_t i = 1; i < found->n_items; i++) {
        const int64_t item = gguf_item_i64(found, i);
        if (item == (int64_t)*value) continue;
        if (b->varies && item >= 0) {
            if ((uint64_t)item > *value) *value = (uint64_t)item;
            continue;
        }
        build_fail(b, "key %s differs by layer, which is not supported for this architecture", key);
        return false;
    }
    return true;
}

uint32_t build_u32(builder *b, const char *name, uint32_t low, uint32_t high)
{
    uint64_t value;
    if (b->status) return 0;
    if (!find_u64(b, name, &value)) {
        if (!b->status) build_fail(b, "key %s.%s is missing or not an integer", b->arch, name);
        return 0;
    }
    if (value < low || value > high) {
        build_fail(b, "key %s.%s is %llu; it must be %u to %u", b->arch, name,
                   (unsigned long long)value, low, high);
        return 0;
    }
    return (uint32_t)value;
}

uint32_t build_u32_or(builder *b, const char *name, uint32_t low, uint32_t high,
                      uint32_t otherwise)
{
    uint64_t value;
    if (b->status) return 0;
    return find_u64(b, name, &value) ? build_u32(b, name, low, high) : otherwise;
}

uint32_t build_u32_of_layer(builder *b, const char *name, uint32_t layer, uint32_t low,
                            uint32_t high, uint32_t otherwise)
{
    char key[128];
    snprintf(key, sizeof key, "%s.%s", b->arch, name);
    const gguf_value *value = gguf_find(b->file, key);
    if (b->status || !value || value->type != GGUF_ARRAY)
        return build_u32_or(b, name, low, high, otherwise);
    const double x = (double)build_f32_of_layer(b, name, layer, 0);
    if (b->status) return 0;
    if (!(x >= low && x <= high)) {
        build_fail(b, "key %s is %g for layer %u; it must be %u to %u", key, x, layer, low, high);
        return 0;
    }
    return (uint32_t)x;
}

float build_f32_or(builder *b, const char *name, float otherwise)
{
    char key[128];
    float value = otherwise;
    if (b->status) return 0;
    snprintf(key, sizeof key, "%s.%s", b->arch, name);
    gguf_get_f32(b->file, key, &value);
    if (!(value - value == 0)) build_fail(b, "key %s is not a finite number", key);
    return value;
}

float build_f32(builder *b, const char *name)
{
    char key[128];
    float value;
    if (b->status) return 0;
    snprintf(key, sizeof key, "%s.%s", b->arch, name);
    if (!gguf_get_f32(b->file, key, &value)) {
        build_fail(b, "key %s is missing or not a number", key);
        return 0;
    }
    return build_f32_or(b, name, 0);
}

float build_f32_of_layer(builder *b, const char *name, uint32_t layer, float otherwise)
{
    char key[128];
    snprintf(key, sizeof key, "%s.%s", b->arch, name);
    const gguf_value *value = gguf_find(b->file, key);
    if (b->status || !value || value->type != GGUF_ARRAY) return build_f32_or(b, name, otherwise);
    const uint64_t n_blocks = (uint64_t)b->program.shape.n_layers + b->n_mtp;
    if (value->n_items != n_blocks || value->item_type == GGUF_STRING ||
        value->item_type == GGUF_ARRAY) {
        build_fail(b, "key %s must have a number for each of %llu layers", key,
                   (unsigned long long)n_blocks);
        return 0;
    }
    double x = gguf_item_f64(value, layer);
    if (!(x - x == 0)) build_fail(b, "key %s is not a finite number", key);
    return (float)x;
}

bool build_bool_or(builder *b, const char *name, bool otherwise)
{
    char key[128];
    bool value = otherwise;
    snprintf(key, sizeof key, "%s.%s", b->arch, name);
    gguf_get_bool(b->file, key, &value);
    return value;
}

float build_scale(builder *b, const char *name)
{
    float scale = build_f32_or(b, name, 1);
    if (!b->status && !(scale > 0)) build_fail(b, "key %s.%s must be above 0", b->arch, name);
    return scale;
}

static void tensor_name(char *out, size_t size, const char *format, uint32_t layer)
{
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    snprintf(out, size, format, layer); /* the formats are the literals of the builders */
#pragma GCC diagnostic pop
}

static const gguf_tensor *find_tensor(const builder *b, const char *format, uint32_t layer,
                                      char *name, size_t size)
{
    tensor_name(name, size, format, layer);
    return gguf_find_tensor(b->file, name);
}

bool build_has(const builder *b, const char *name, uint32_t layer)
{
    char full[128];
    return find_tensor(b, name, layer, full, sizeof full) != NULL;
}

static int check_dims(builder *b, const gguf_tensor *t, const char *name, uint64_t d0, uint64_t d1,
                      uint64_t d2)
{
    if (t->dims[0] == d0 && t->dims[1] == d1 && t->dims[2] == d2 && t->dims[3] == 1) return 0;
    return build_fail(b,
                      "tensor %s has shape %llu x %llu x %llu x %llu; the keys say "
                      "%llu x %llu x %llu x 1",
                      name, (unsigned long long)t->dims[0], (unsigned long long)t->dims[1],
                      (unsigned long long)t->dims[2], (unsigned long long)t->dims[3],
                      (unsigned long long)d0, (unsigned long long)d1, (unsigned long long)d2);
}

/* The n values of a tensor, as floats. */
static const float *vector_of(builder *b, const gguf_tensor *t, const char *name, uint64_t n)
{
    /* Kernels may read a vector up to the padded end of a panel's rows. */
    size_t padded = size_round_up(n, KERNEL_PANEL_ROWS);
    float *out = arena_take(&b->vectors, padded * sizeof *out, MEMORY_ALIGN);
    if (!out) { /* the arena has room for tensors that are vectors by shape or name */
        build_fail(b, "tensor %s is not a vector", name);
        return NULL;
    }
    memset(out, 0, padded * sizeof *out);
    if (!block_is_finite(t->type, t->data, n)) {
        build_fail(b, "tensor %s has a value that is not a number", name);
        return NULL;
    }
    block_decode(t->type, out, t->data, n);
    return out;
}

/* The factor of a matrix from the file, "NAME.scale" beside "NAME.weight": one, or one for each of
 * its parts.  ("NAME.input_scale" is for processors that compute in FP4.) */
static void find_factor(builder *b, model_matrix *m, const char *name)
{
    static const char weight[] = ".weight";
    char of[128];
    const size_t len = strlen(name), cut = sizeof weight - 1;
    if (b->has_own_scales && (strstr(name, "ffn_gate_inp.") || strstr(name, "ffn_down_exps.")))
        return;
    if (len <= cut || strcmp(name + len - cut, weight) != 0) return;
    snprintf(of, sizeof of, "%.*s.scale", (int)(len - cut), name);
    const gguf_tensor *t = gguf_find_tensor(b->file, of);
    if (!t) return;
    const uint64_t n = t->dims[0] * t->dims[1] * t->dims[2] * t->dims[3];
    if (!kernel_panel_has_factor(m->source->type)) {
        build_fail(b, "tensor %s: a factor of a matrix in %s is not supported", of,
                   block_name(m->source->type));
        return;
    }
    if (n != 1 && n != m->n_matrices) {
        build_fail(b, "tensor %s has %llu values; it must have 1 or %u", of,
                   (unsigned long long)n, m->n_matrices);
        return;
    }
    m->factor = vector_of(b, t, of, n);
    m->n_factors = (uint32_t)n;
}

/* A matrix of n_matrices in the `wanted` shape, of its source's type or of the nearest possible
 * one. */
static const model_matrix *take_matrix(builder *b, const char *name, const model_matrix *wanted)
{
    const gguf_tensor *t = wanted->source;
    const uint32_t cols = wanted->cols;
    block_type type = t->type;
    /* A transposed matrix loses its blocks: in half precision it loses nothing that matters. */
    if (wanted->is_transposed && kernel_takes_acts(type)) type = BLOCK_F16;
    size_t panel_bytes = kernel_panel_bytes(type, cols);
    if (panel_bytes && b->options->exact) panel_bytes = kernel_panel_bytes(type = BLOCK_F32, cols);
    if (!panel_bytes) {
        build_fail(b, "tensor %s: no kernel for %s rows of %u values", name, block_name(t->type),
                   cols);
        return NULL;
    }
    /* A tied matrix is used twice and packed once. */
    for (uint32_t i = 0; i < b->n_matrices; i++)
        if (b->matrices[i].source == t && b->matrices[i].source_row == wanted->source_row)
            return &b->matrices[i];
    CHECK(b->n_matrices < b->matrices_cap);
    model_matrix *m = &b->matrices[b->n_matrices++];
    *m = *wanted;
    m->type = type;
    find_factor(b, m, name);
    m->n_panels = (m->rows + KERNEL_PANEL_ROWS - 1) / KERNEL_PANEL_ROWS;
    m->panel_bytes = panel_bytes;
    return m;
}

const model_matrix *build_experts(builder *b, const char *format, uint32_t layer,
                                  uint32_t n_matrices, uint32_t rows, uint32_t cols, uint32_t row,
                                  uint32_t source_rows)
{
    char name[128];
    if (b->status) return NULL;
    const gguf_tensor *t = find_tensor(b, format, layer, name, sizeof name);
    if (!t) {
        missing(b, name);
        return NULL;
    }
    if (check_dims(b, t, name, cols, source_rows, n_matrices)) return NULL;
    const model_matrix m = {.source = t, .rows = rows, .cols = cols, .n_matrices = n_matrices,
                            .source_row = row, .source_rows = source_rows};
    return take_matrix(b, name, &m);
}

const model_matrix *build_heads_of(builder *b, const char *format, uint32_t layer,
                                   uint32_t n_heads, const model_matrix *of_head)
{
    char name[128];
    if (b->status) return NULL;
    const gguf_tensor *t = find_tensor(b, format, layer, name, sizeof name);
    const uint32_t cols = of_head->is_transposed ? of_head->rows : of_head->cols;
    CHECK(t);
    if (check_dims(b, t, name, cols, (uint64_t)n_heads * of_head->source_rows, 1)) return NULL;
    model_matrix m = *of_head;
    m.source = t;
    m.n_matrices = n_heads;
    return take_matrix(b, name, &m);
}

const model_matrix *build_matrix(builder *b, const char *name, uint32_t layer, uint32_t rows,
                                 uint32_t cols)
{
    return build_experts(b, name, layer, 1, rows, cols, 0, rows);
}

const float *build_vector_optional(builder *b, const char *format, uint32_t layer, uint64_t n)
{
    char name[128];
    if (b->status) return NULL;
    const gguf_tensor *t = find_tensor(b, format, layer, name, sizeof name);
    if (!t) return NULL;
    uint64_t have = t->dims[0] * t->dims[1] * t->dims[2] * t->dims[3];
    if (have == n) return vector_of(b, t, name, n);
    build_fail(b, "tensor %s has %llu values; the keys say %llu", name, (unsigned long long)have,
               (unsigned long long)n);
    return NULL;
}

const float *build_vector(builder *b, const char *name, uint32_t layer, uint64_t n)
{
    if (b->status) return NULL;
    if (!build_has(b, name, layer)) {
        char full[128];
        tensor_name(full, sizeof full, name, layer);
        missing(b, full);
        return NULL;
    }
    return build_vector_optional(b, name, layer, n);
}

const float *build_ones(builder *b, uint32_t n)
{
    const size_t padded = size_round_up(n, KERNEL_PANEL_ROWS);
    if (b->status) return NULL;
    float *out = arena_take(&b->vectors, padded * sizeof *out, MEMORY_ALIGN);
    CHECK(out);
    for (size_t i = 0; i < padded; i++) out[i] = i < n;
    return out;
}

void build_times(builder *b, const float *vector, uint32_t n, float factor)
{
    if (b->status) return;
    const size_t at = (size_t)((const uint8_t *)vector - b->vectors.base);
    float *values = (float *)(void *)(b->vectors.base + at);
    for (uint32_t i = 0; i < n; i++) values[i] *= factor;
}

const gguf_tensor *build_table(builder *b, const char *name, uint32_t n_cols)
{
    if (b->status) return NULL;
    const gguf_tensor *t = gguf_find_tensor(b->file, name);
    if (!t) build_fail(b, "tensor %s is missing", name);
    else if (n_cols % block_values(t->type))
        build_fail(b, "tensor %s: rows of %u values do not fill blocks of %s", name, n_cols,
                   block_name(t->type));
    else if (!check_dims(b, t, name, n_cols, b->program.shape.n_vocab, 1))
        b->table = t;
    return b->table;
}

step_op *build_op(builder *b, step_kind kind)
{
    CHECK(b->program.n_ops < b->ops_cap);
    step_op *op = &b->ops[b->program.n_ops++];
    *op = (step_op){.kind = kind};
    return op;
}
