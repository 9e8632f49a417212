/* shapes.c - facts to step programs, by way of a GGUF file without data. */
#include "wafer/shapes.h"

#include <errno.h>
#include <sys/stat.h>

#include "base/memory.h"
#include "base/text.h"
#include "wafer/machines.h"
#include "wafer/modelled.h"

/* ---- a GGUF file without data ---- */

typedef struct {
    bytes head;    /* all before the data */
    bytes tensors; /* their list, which follows the values */
    uint64_t n_values, n_tensors, data_bytes;
    const char *arch;
    int status;
} blank;

static void shapes_put(blank *b, bytes *to, const void *from, size_t len)
{
    if (!b->status) b->status = bytes_append(to, from, len);
}

static void shapes_put_u32(blank *b, bytes *to, uint32_t n)
{
    shapes_put(b, to, &n, sizeof n);
}
static void put_u64(blank *b, bytes *to, uint64_t n)
{
    shapes_put(b, to, &n, sizeof n);
}
static void shapes_put_text(blank *b, bytes *to, const char *s)
{
    put_u64(b, to, strlen(s));
    shapes_put(b, to, s, strlen(s));
}

static void put_key(blank *b, const char *name, gguf_value_type type)
{
    char key[64];
    snprintf(key, sizeof key, "%s%s%s", b->arch, *b->arch ? "." : "", name);
    shapes_put_text(b, &b->head, key);
    shapes_put_u32(b, &b->head, type);
    b->n_values++;
}

static void shapes_put_number(blank *b, const char *name, uint32_t value)
{
    put_key(b, name, GGUF_UINT32);
    shapes_put_u32(b, &b->head, value);
}

/* Vectors are floats; matrices F16, as a plan may convert them to any type. */
static void put_tensor(blank *b, uint32_t layer, const char *name, uint64_t cols, uint64_t rows,
                       uint64_t n)
{
    char full[96];
    const uint64_t dims[] = {cols, rows, n};
    const uint32_t n_dims = n ? 3 : rows ? 2 : 1;
    const bool is_vector = strstr(name, "bias") || n_dims == 1;
    if (layer == UINT32_MAX)
        snprintf(full, sizeof full, "%s", name);
    else
        snprintf(full, sizeof full, "blk.%u.%s", layer, name);
    shapes_put_text(b, &b->tensors, full);
    shapes_put_u32(b, &b->tensors, n_dims);
    for (uint32_t i = 0; i < n_dims; i++) put_u64(b, &b->tensors, dims[i]);
    shapes_put_u32(b, &b->tensors, is_vector ? BLOCK_F32 : BLOCK_F16);
    put_u64(b, &b->tensors, b->data_bytes);
    uint64_t values = cols * (rows ? rows : 1) * (n ? n : 1);
    b->data_bytes += size_round_up(values * (is_vector ? 4 : 2), GGUF_ALIGNMENT);
    b->n_tensors++;
}

static void put_attention(blank *b, const shape_facts *f, uint32_t layer)
{
    const uint64_t n_q = (uint64_t)f->n_heads * f->head_dim;
    const uint64_t n_kv = (uint64_t)f->n_kv_heads * f->head_dim;
    const bool is_oss = !strcmp(f->architecture, "gpt-oss");
    const bool is_star = !strcmp(f->architecture, "starcoder2");
    put_tensor(b, layer, "attn_norm.weight", f->n_embd, 0, 0);
    put_tensor(b, layer, "attn_q.weight", f->n_embd, n_q, 0);
    put_tensor(b, layer, "attn_k.weight", f->n_embd, n_kv, 0);
    put_tensor(b, layer, "attn_v.weight", f->n_embd, n_kv, 0);
    put_tensor(b, layer, "attn_output.weight", n_q, f->n_embd, 0);
    if (is_oss || is_star || !strcmp(f->architecture, "qwen2")) {
        put_tensor(b, layer, "attn_q.bias", n_q, 0, 0);
        put_tensor(b, layer, "attn_k.bias", n_kv, 0, 0);
        put_tensor(b, layer, "attn_v.bias", n_kv, 0, 0);
    }
    if (is_star) put_tensor(b, layer, "attn_norm.bias", f->n_embd, 0, 0);
    if (is_oss || is_star) put_tensor(b, layer, "attn_output.bias", f->n_embd, 0, 0);
    if (is_oss) put_tensor(b, layer, "attn_sinks.weight", f->n_heads, 0, 0);
    if (!strncmp(f->architecture, "qwen3", 5)) {
        put_tensor(b, layer, "attn_q_norm.weight", f->head_dim, 0, 0);
        put_tensor(b, layer, "attn_k_norm.weight", f->head_dim, 0, 0);
    }
}

static void put_feed_forward(blank *b, const shape_facts *f, uint32_t layer)
{
    const bool is_oss = !strcmp(f->architecture, "gpt-oss");
    const bool is_star = !strcmp(f->architecture, "starcoder2");
    put_tensor(b, layer, "ffn_norm.weight", f->n_embd, 0, 0);
    if (f->n_experts) {
        const uint64_t n = f->n_experts, ff = f->n_ff_expert;
        put_tensor(b, layer, "ffn_gate_inp.weight", f->n_embd, n, 0);
        put_tensor(b, layer, "ffn_gate_exps.weight", f->n_embd, ff, n);
        put_tensor(b, layer, "ffn_up_exps.weight", f->n_embd, ff, n);
        put_tensor(b, layer, "ffn_down_exps.weight", ff, f->n_embd, n);
        if (!is_oss) return;
        put_tensor(b, layer, "ffn_gate_inp.bias", n, 0, 0);
        put_tensor(b, layer, "ffn_gate_exps.bias", ff, n, 0);
        put_tensor(b, layer, "ffn_up_exps.bias", ff, n, 0);
        put_tensor(b, layer, "ffn_down_exps.bias", f->n_embd, n, 0);
        return;
    }
    if (!is_star) put_tensor(b, layer, "ffn_gate.weight", f->n_embd, f->n_ff, 0);
    put_tensor(b, layer, "ffn_up.weight", f->n_embd, f->n_ff, 0);
    put_tensor(b, layer, "ffn_down.weight", f->n_ff, f->n_embd, 0);
    if (!is_star) return;
    put_tensor(b, layer, "ffn_norm.bias", f->n_embd, 0, 0);
    put_tensor(b, layer, "ffn_up.bias", f->n_ff, 0, 0);
    put_tensor(b, layer, "ffn_down.bias", f->n_embd, 0, 0);
}

static void put_model(blank *b, const shape_facts *f)
{
    const bool is_star = !strcmp(f->architecture, "starcoder2");
    b->arch = "";
    put_key(b, "general.architecture", GGUF_STRING);
    shapes_put_text(b, &b->head, f->architecture);
    b->arch = f->architecture;
    shapes_put_number(b, "block_count", f->n_layers);
    shapes_put_number(b, "embedding_length", f->n_embd);
    shapes_put_number(b, "feed_forward_length", f->n_ff ? f->n_ff : f->n_ff_expert);
    shapes_put_number(b, "attention.head_count", f->n_heads);
    shapes_put_number(b, "attention.head_count_kv", f->n_kv_heads);
    shapes_put_number(b, "attention.key_length", f->head_dim);
    shapes_put_number(b, "context_length", f->context_tokens);
    put_key(b, is_star ? "attention.layer_norm_epsilon" : "attention.layer_norm_rms_epsilon",
            GGUF_FLOAT32);
    shapes_put(b, &b->head, &(float){1e-5f}, sizeof(float));
    if (f->n_experts) {
        shapes_put_number(b, "expert_count", f->n_experts);
        shapes_put_number(b, "expert_used_count", f->n_experts_used);
        shapes_put_number(b, "expert_feed_forward_length", f->n_ff_expert);
    }
    if (f->window) shapes_put_number(b, "attention.sliding_window", f->window);
    put_tensor(b, UINT32_MAX, "token_embd.weight", f->n_embd, f->n_vocab, 0);
    for (uint32_t layer = 0; layer < f->n_layers; layer++) {
        put_attention(b, f, layer);
        put_feed_forward(b, f, layer);
    }
    put_tensor(b, UINT32_MAX, "output_norm.weight", f->n_embd, 0, 0);
    if (is_star) put_tensor(b, UINT32_MAX, "output_norm.bias", f->n_embd, 0, 0);
    if (!f->is_tied) put_tensor(b, UINT32_MAX, "output.weight", f->n_embd, f->n_vocab, 0);
}

static int shapes_make_file(wafer_model *m, const shape_facts *f)
{
    blank b = {.head = {.max = 1 << 20}, .tensors = {.max = 4 << 20}};
    int status = CERIUM_ERR_MEMORY;
    put_model(&b, f);
    if (b.status) goto done;
    const struct {
        uint32_t magic, version;
        uint64_t n_tensors, n_values;
    } start = {0x46554747, 3, b.n_tensors, b.n_values}; /* "GGUF" */
    size_t data = size_round_up(sizeof start + b.head.len + b.tensors.len, GGUF_ALIGNMENT);
    /* Pages that are never written take no memory, however large the model is. */
    m->blank_bytes = data + b.data_bytes;
    char *file = memory_map(m->blank_bytes);
    m->blank = file;
    if (!file) goto done;
    memcpy(file, &start, sizeof start);
    memcpy(file + sizeof start, b.head.ptr, b.head.len);
    memcpy(file + sizeof start + b.head.len, b.tensors.ptr, b.tensors.len);
    status = CERIUM_OK;
done:
    bytes_free(&b.head);
    bytes_free(&b.tensors);
    return status;
}

/* The program of m.file, if status is CERIUM_OK; *out takes m, or m is closed. */
static int shapes_lower(wafer_model *out, wafer_model *m, int status, cerium_error *err)
{
    if (!status) status = model_open(&m->lowered, m->file, NULL, err);
    if (!status) status = wafer_check_modelled(model_program(m->lowered), m->name, err);
    if (status) {
        wafer_model_close(m);
        return status;
    }
    m->program = model_program(m->lowered);
    *out = *m;
    return CERIUM_OK;
}

int wafer_model_of(wafer_model *out, const shape_facts *facts, const char *name, cerium_error *err)
{
    wafer_model m = {0};
    snprintf(m.name, sizeof m.name, "%s", name);
    int status = shapes_make_file(&m, facts);
    if (status) error_set(err, status, "%s: no memory for its shapes", name);
    if (!status) status = gguf_open_bytes(&m.file, (view){m.blank, m.blank_bytes}, name, err);
    return shapes_lower(out, &m, status, err);
}

/* ---- files ---- */

/* The first max bytes of a file. */
static int read_head(const char *path, size_t max, char **out, size_t *len, cerium_error *err)
{
    FILE *f = fopen(path, "rb");
    if (!f) return error_set(err, CERIUM_ERR_IO, "%s: %s", path, strerror(errno));
    char *text = memory_alloc(max);
    size_t n = text ? fread(text, 1, max, f) : 0;
    bool broken = ferror(f);
    fclose(f);
    if (text && !broken) {
        *out = text;
        *len = n;
        return CERIUM_OK;
    }
    memory_free(text);
    if (!text) return error_set(err, CERIUM_ERR_MEMORY, "%s: no memory to read it", path);
    return error_set(err, CERIUM_ERR_IO, "%s: cannot be read", path);
}

static int shapes_read_text(const char *path, size_t max, char **out, size_t *len,
                            cerium_error *err)
{
    RETURN_IF(read_head(path, max + 1, out, len, err));
    if (*len <= max) return CERIUM_OK;
    memory_free(*out);
    return error_set(err, CERIUM_ERR_CAPACITY, "%s: longer than %zu bytes", path, max);
}

int shape_of_name(shape_facts *out, const char *name, cerium_error *err)
{
    char path[4096], *text;
    size_t len;
    if (!machine_find(path, sizeof path, "models.ini"))
        return error_set(err, CERIUM_ERR_IO, "machines/models.ini is not installed");
    RETURN_IF(shapes_read_text(path, WAFER_MACHINE_BYTES_MAX, &text, &len, err));
    int status = shape_parse_known(out, (view){text, len}, path, name, err);
    memory_free(text);
    return status;
}

/* The beginning of a model file whose weights are missing: they read as zeros. */
static int open_head(wafer_model *m, const char *path, cerium_error *err)
{
    char *head;
    size_t len;
    uint64_t whole;
    RETURN_IF(read_head(path, WAFER_HEAD_BYTES_MAX, &head, &len, err));
    int status = gguf_whole_bytes(&whole, (view){head, len}, path, err);
    if (!status) {
        m->blank_bytes = whole > len ? (size_t)whole : len;
        m->blank = memory_map(m->blank_bytes);
        if (m->blank) memcpy(m->blank, head, len);
        else status = error_set(err, CERIUM_ERR_MEMORY, "%s: no memory for its shapes", path);
    }
    memory_free(head);
    if (status) return status;
    return gguf_open_bytes(&m->file, (view){m->blank, m->blank_bytes}, path, err);
}

static int open_gguf(wafer_model *out, const char *path, cerium_error *err)
{
    wafer_model m = {0};
    cerium_error other = {0};
    const char *slash = strrchr(path, '/');
    snprintf(m.name, sizeof m.name, "%s", slash ? slash + 1 : path);
    int status = gguf_open(&m.file, path, err);
    if (status == CERIUM_ERR_FORMAT && !open_head(&m, path, &other)) status = CERIUM_OK;
    m.has_types = true;
    return shapes_lower(out, &m, status, err);
}

/* "llama-3-8b" of "configs/llama-3-8b/config.json" or "configs/llama-3-8b.json". */
static void name_of_config(char *out, size_t size, const char *path)
{
    size_t len = strlen(path);
    if (text_ends_with(path, "/config.json"))
        len -= strlen("/config.json");
    else if (text_ends_with(path, ".json"))
        len -= strlen(".json");
    size_t first = len;
    while (first && path[first - 1] != '/') first--;
    snprintf(out, size, "%.*s", (int)(len - first < size ? len - first : size - 1), path + first);
}

int wafer_model_open(wafer_model *out, const char *path, cerium_error *err)
{
    struct stat st;
    shape_facts facts;
    char file[4096], name[128], *text;
    size_t len;
    if (stat(path, &st)) {
        bool is_name = !strchr(path, '/') && !text_ends_with(path, ".gguf") &&
                       !text_ends_with(path, ".json");
        if (!is_name) return error_set(err, CERIUM_ERR_IO, "%s: %s", path, strerror(errno));
        RETURN_IF(shape_of_name(&facts, path, err));
        return wafer_model_of(out, &facts, path, err);
    }
    if (!S_ISDIR(st.st_mode) && !text_ends_with(path, ".json")) return open_gguf(out, path, err);
    snprintf(file, sizeof file, "%s%s", path, S_ISDIR(st.st_mode) ? "/config.json" : "");
    RETURN_IF(shapes_read_text(file, WAFER_CONFIG_BYTES_MAX, &text, &len, err));
    int status = shape_parse_config(&facts, (view){text, len}, file, err);
    memory_free(text);
    if (status) return status;
    name_of_config(name, sizeof name, file);
    return wafer_model_of(out, &facts, name, err);
}

void wafer_model_close(wafer_model *m)
{
    model_close(&m->lowered);
    gguf_close(&m->file);
    memory_unmap(m->blank, m->blank_bytes);
    *m = (wafer_model){0};
}
