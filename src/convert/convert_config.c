/* convert_config.c - config.json of the architectures that we run, and the keys it becomes. */
#include <math.h>

#include "base/json.h"
#include "convert/convert.h"

enum { WIDTH_MAX = 1 << 24, LAYERS_MAX = 512 };

static const struct {
    const char *hf, *name;
} archs[] = {
    {"LlamaForCausalLM", "llama"},       {"Qwen2ForCausalLM", "qwen2"},
    {"Qwen3ForCausalLM", "qwen3"},       {"Qwen3MoeForCausalLM", "qwen3moe"},
    {"GptOssForCausalLM", "gpt-oss"},    {"Starcoder2ForCausalLM", "starcoder2"},
};

static const char *convert_arch_name(convert_arch arch) { return archs[arch].name; }

/* ---- reading: the first error stays ---- */

typedef struct {
    const json_t *root;
    int status;
    cerium_error *err;
} config_reader;

static void refuse(config_reader *r, const char *what, const char *key)
{
    if (!r->status)
        r->status = error_set(r->err, CERIUM_ERR_FORMAT, "config.json: %s: %s", key, what);
}

static const json_t *get(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);
    return json_is_null(value) ? NULL : value;
}

static uint32_t read_u32(config_reader *r, const char *key, uint32_t max)
{
    const json_t *value = get(r->root, key);
    json_int_t n = json_integer_value(value);
    if (!value)
        refuse(r, "is missing", key);
    else if (!json_is_integer(value) || n < 1 || n > max)
        refuse(r, "is out of range", key);
    else
        return (uint32_t)n;
    return 1;
}

static uint32_t read_u32_or(config_reader *r, const char *key, uint32_t max, uint32_t otherwise)
{
    return get(r->root, key) ? read_u32(r, key, max) : otherwise;
}

static double read_number(config_reader *r, const json_t *object, const char *key, double otherwise)
{
    const json_t *value = get(object, key);
    double x = json_number_value(value);
    if (!value) return otherwise;
    if (json_is_number(value) && isfinite(x) && x > 0 && x <= 1e12) return x;
    refuse(r, "is not a number above 0", key);
    return otherwise;
}

static const char *read_text(const json_t *object, const char *key)
{
    return json_string_value(get(object, key));
}

static void read_arch(config_reader *r, convert_config *c)
{
    const char *name = json_string_value(json_array_get(get(r->root, "architectures"), 0));
    if (!name) {
        refuse(r, "is missing", "architectures");
        return;
    }
    if (!strcmp(name, "MistralForCausalLM")) name = "LlamaForCausalLM";
    for (size_t i = 0; i < ARRAY_LEN(archs); i++) {
        if (strcmp(name, archs[i].hf) != 0) continue;
        c->arch = (convert_arch)i;
        return;
    }
    if (!r->status)
        r->status = error_set(r->err, CERIUM_ERR_FORMAT,
                              "config.json: architecture %.60s is not supported; there are Llama, "
                              "Mistral, Qwen2, Qwen3, Qwen3Moe, GptOss and Starcoder2", name);
}

/* Older files have rope_theta and rope_scaling, newer ones rope_parameters with both. */
static void read_rope(config_reader *r, convert_config *c)
{
    const json_t *rope = get(r->root, "rope_parameters");
    if (!rope) rope = get(r->root, "rope_scaling");
    c->rope_base = read_number(r, r->root, "rope_theta", 10000);
    c->rope_base = read_number(r, rope, "rope_theta", c->rope_base);
    const char *type = read_text(rope, "rope_type");
    if (!type) type = read_text(rope, "type");
    if (!type || !strcmp(type, "default")) return;
    if (!strcmp(type, "linear"))
        c->rope = ROPE_LINEAR;
    else if (!strcmp(type, "yarn"))
        c->rope = ROPE_YARN;
    else if (!strcmp(type, "llama3"))
        c->rope = ROPE_LLAMA3;
    else
        refuse(r, "this scaling is not supported; there are linear, yarn and llama3", "rope_type");
    c->rope_factor = read_number(r, rope, "factor", 1);
    double original = read_number(r, rope, "original_max_position_embeddings", c->context);
    c->rope_original = original < WIDTH_MAX ? (uint32_t)original : WIDTH_MAX;
    c->low_factor = read_number(r, rope, "low_freq_factor", 1);
    c->high_factor = read_number(r, rope, "high_freq_factor", 4);
    c->has_betas = get(rope, "beta_fast") || get(rope, "beta_slow");
    c->beta_fast = read_number(r, rope, "beta_fast", 32);
    c->beta_slow = read_number(r, rope, "beta_slow", 1);
    c->has_yarn_attention = get(rope, "attention_factor") != NULL;
    c->yarn_attention = read_number(r, rope, "attention_factor", 1);
    if (c->rope == ROPE_LLAMA3 && c->high_factor <= c->low_factor)
        refuse(r, "must exceed low_freq_factor", "high_freq_factor");
}

static void read_experts(config_reader *r, convert_config *c)
{
    bool qwen = c->arch == CONVERT_QWEN3MOE;
    if (!qwen && c->arch != CONVERT_GPT_OSS) return;
    /* Which of the two depends on the version of transformers as well as on the model. */
    const char *key = get(r->root, "num_experts") ? "num_experts" : "num_local_experts";
    c->n_experts = read_u32(r, key, 4096);
    c->n_experts_used = read_u32(r, "num_experts_per_tok", c->n_experts);
    c->n_ff_expert = qwen ? read_u32(r, "moe_intermediate_size", WIDTH_MAX) : c->n_ff;
    if (!qwen) return;
    if (!json_is_true(get(r->root, "norm_topk_prob")))
        refuse(r, "weights of experts that do not sum to 1 are not supported", "norm_topk_prob");
    if (read_u32_or(r, "decoder_sparse_step", 64, 1) != 1 ||
        json_array_size(get(r->root, "mlp_only_layers")) > 0)
        refuse(r, "layers without experts are not supported", "decoder_sparse_step");
}

static void read_activation(config_reader *r, const convert_config *c)
{
    const char *act = read_text(r->root, "hidden_act");
    bool gelu = c->arch == CONVERT_STARCODER2;
    if (act && strcmp(act, gelu ? "gelu_pytorch_tanh" : "silu") != 0)
        refuse(r, "this activation is not supported for that architecture", "hidden_act");
}

static void read_quantization(config_reader *r, convert_config *c)
{
    const json_t *q = get(r->root, "quantization_config");
    const json_t *block = get(q, "weight_block_size");
    const char *method = read_text(q, "quant_method");
    if (!q || (method && !strcmp(method, "mxfp4"))) return;
    if (!method || strcmp(method, "fp8") != 0 || json_array_size(block) != 2) {
        refuse(r, "only block-scaled fp8 and mxfp4 are supported; take the unquantized model",
               "quantization_config");
        return;
    }
    json_int_t rows = json_integer_value(json_array_get(block, 0));
    json_int_t columns = json_integer_value(json_array_get(block, 1));
    if (rows < 1 || rows > 65536 || columns < 1 || columns > 65536)
        refuse(r, "is out of range", "weight_block_size");
    c->fp8_rows = (uint32_t)rows;
    c->fp8_columns = (uint32_t)columns;
}

static int64_t read_id(const config_reader *r, const char *key)
{
    const json_t *value = get(r->root, key);
    if (json_is_array(value)) value = json_array_get(value, 0);
    json_int_t id = json_is_integer(value) ? json_integer_value(value) : -1;
    return id >= 0 && id <= INT32_MAX ? (int64_t)id : -1;
}

static void add_ends(convert_config *c, const json_t *value)
{
    for (size_t i = 0; i < (json_is_array(value) ? json_array_size(value) : 1); i++) {
        const json_t *one = json_is_array(value) ? json_array_get(value, i) : value;
        json_int_t id = json_is_integer(one) ? json_integer_value(one) : -1;
        bool is_new = id >= 0 && id <= INT32_MAX && c->n_ends < CONVERT_ENDS_MAX;
        for (uint32_t k = 0; k < c->n_ends; k++) is_new &= c->ends[k] != id;
        if (is_new) c->ends[c->n_ends++] = (int32_t)id;
    }
}

int convert_config_ends(convert_config *c, view json, cerium_error *err)
{
    json_error_t at;
    json_t *root = json.len ? json_read(json, JSON_READ_PYTHON, &at) : NULL;
    if (json.len && !root)
        return error_set(err, CERIUM_ERR_FORMAT, "generation_config.json: line %d: %s", at.line,
                         at.text);
    add_ends(c, get(root, "eos_token_id"));
    json_decref(root);
    return CERIUM_OK;
}

/* Reject sliding windows that the target architecture cannot express: the converted model would
 * ignore them. */
static void read_window(config_reader *r, convert_config *c)
{
    const json_t *types = get(r->root, "layer_types"), *one;
    bool has = c->arch == CONVERT_LLAMA || c->arch == CONVERT_GPT_OSS ||
               c->arch == CONVERT_STARCODER2;
    bool uses = json_is_true(get(r->root, "use_sliding_window"));
    size_t i;
    if (has) c->window = read_u32_or(r, "sliding_window", WIDTH_MAX, 0);
    json_array_foreach(types, i, one) {
        const char *type = json_string_value(one);
        bool is_window = type && !strcmp(type, "sliding_attention");
        bool fits = c->arch == CONVERT_GPT_OSS ? is_window == (i % 2 == 0)
                    : c->window                ? is_window
                                               : !is_window;
        if (type && !fits) refuse(r, "windows of these layers are not supported", "layer_types");
    }
    if (uses && !has && get(r->root, "sliding_window"))
        refuse(r, "windows are not supported for that architecture", "use_sliding_window");
    double rotary = read_number(r, r->root, "partial_rotary_factor", 1);
    if (rotary != 1) refuse(r, "rotation of a part of each head is not supported",
                            "partial_rotary_factor");
}

static void read_shape(config_reader *r, convert_config *c)
{
    c->n_layers = read_u32(r, "num_hidden_layers", LAYERS_MAX);
    c->n_embd = read_u32(r, "hidden_size", WIDTH_MAX);
    c->n_ff = read_u32(r, "intermediate_size", WIDTH_MAX);
    c->n_heads = read_u32(r, "num_attention_heads", 4096);
    c->n_kv_heads = read_u32_or(r, "num_key_value_heads", 4096, c->n_heads);
    c->context = read_u32(r, "max_position_embeddings", WIDTH_MAX);
    c->n_vocab = read_u32(r, "vocab_size", 1u << 22);
    c->names_head_dim = get(r->root, "head_dim") != NULL;
    uint32_t usual = c->n_embd / c->n_heads;
    c->head_dim = read_u32_or(r, "head_dim", 65536, usual ? usual : 1);
    if (c->head_dim % 2) refuse(r, "is odd", "head_dim");
    if (c->n_heads % c->n_kv_heads) refuse(r, "does not divide the heads", "num_key_value_heads");
    bool layer_norm = c->arch == CONVERT_STARCODER2;
    c->norm_eps = read_number(r, r->root, layer_norm ? "norm_epsilon" : "rms_norm_eps", 1e-6);
    /* transformers' defaults for missing keys */
    bool tied = c->arch == CONVERT_STARCODER2;
    const json_t *tie = get(r->root, "tie_word_embeddings");
    c->is_tied = tie ? json_is_true(tie) : tied;
    read_window(r, c);
    add_ends(c, get(r->root, "eos_token_id"));
    c->bos = read_id(r, "bos_token_id");
    c->eos = read_id(r, "eos_token_id");
}

int convert_config_parse(convert_config *out, view json, cerium_error *err)
{
    json_error_t at;
    json_t *root = json_read(json, JSON_READ_PYTHON, &at);
    config_reader r = {.root = root, .err = err};
    *out = (convert_config){.rope_factor = 1, .bos = -1, .eos = -1};
    if (!json_is_object(root)) {
        json_decref(root);
        return error_set(err, CERIUM_ERR_FORMAT, "config.json: line %d: %s", at.line, at.text);
    }
    read_arch(&r, out);
    read_shape(&r, out);
    read_rope(&r, out);
    read_experts(&r, out);
    read_activation(&r, out);
    read_quantization(&r, out);
    json_decref(root);
    return r.status;
}

/* ---- writing ---- */

typedef struct {
    gguf_writer *w;
    const char *arch;
} key_writer;

static const char *key_of(const key_writer *k, const char *name, char key[96])
{
    snprintf(key, 96, "%s.%s", k->arch, name);
    return key;
}

static void put_u32(const key_writer *k, const char *name, uint32_t value)
{
    char key[96];
    gguf_write_u32(k->w, key_of(k, name, key), value);
}

static void put_f32(const key_writer *k, const char *name, double value)
{
    char key[96];
    gguf_write_f32(k->w, key_of(k, name, key), (float)value);
}

static void put_rope(const key_writer *k, const convert_config *c)
{
    char key[96];
    put_f32(k, "rope.freq_base", c->rope_base);
    if (c->rope != ROPE_LINEAR && c->rope != ROPE_YARN) return;
    gguf_write_string(k->w, key_of(k, "rope.scaling.type", key),
                      c->rope == ROPE_YARN ? VIEW("yarn") : VIEW("linear"));
    put_f32(k, "rope.scaling.factor", c->rope_factor);
    if (c->rope == ROPE_LINEAR) return;
    put_u32(k, "rope.scaling.original_context_length", c->rope_original);
    if (c->has_betas) {
        put_f32(k, "rope.scaling.yarn_beta_fast", c->beta_fast);
        put_f32(k, "rope.scaling.yarn_beta_slow", c->beta_slow);
    }
    /* transformers' value replaces 1 + 0.1 ln(factor); the GGUF key multiplies it. */
    if (c->has_yarn_attention)
        put_f32(k, "rope.scaling.attn_factor",
                c->yarn_attention / (1 + 0.1 * log(c->rope_factor)));
}

void convert_config_write(const convert_config *c, view name, gguf_writer *w)
{
    const key_writer k = {w, convert_arch_name(c->arch)};
    gguf_write_string(w, "general.architecture", view_of(k.arch));
    gguf_write_string(w, "general.type", VIEW("model"));
    gguf_write_string(w, "general.name", name);
    put_u32(&k, "block_count", c->n_layers);
    put_u32(&k, "context_length", c->context);
    put_u32(&k, "embedding_length", c->n_embd);
    put_u32(&k, "feed_forward_length", c->n_ff);
    put_u32(&k, "attention.head_count", c->n_heads);
    put_u32(&k, "attention.head_count_kv", c->n_kv_heads);
    if (c->names_head_dim) {
        put_u32(&k, "attention.key_length", c->head_dim);
        put_u32(&k, "attention.value_length", c->head_dim);
    }
    if (c->arch == CONVERT_LLAMA) put_u32(&k, "rope.dimension_count", c->head_dim);
    put_u32(&k, "vocab_size", c->n_vocab);
    put_rope(&k, c);
    put_f32(&k, c->arch == CONVERT_STARCODER2 ? "attention.layer_norm_epsilon"
                                              : "attention.layer_norm_rms_epsilon",
            c->norm_eps);
    if (c->window) put_u32(&k, "attention.sliding_window", c->window);
    if (c->n_ends > 1)
        gguf_write_array(w, "cerium.end_token_ids", GGUF_INT32, c->ends, c->n_ends);
    if (!c->n_experts) return;
    put_u32(&k, "expert_count", c->n_experts);
    put_u32(&k, "expert_used_count", c->n_experts_used);
    put_u32(&k, "expert_feed_forward_length", c->n_ff_expert);
}

/* Llama 3: slow frequencies are divided, fast ones are not, those between a little. */
void convert_rope_divisors(const convert_config *c, float *out)
{
    const double original = c->rope_original;
    const double longest = original / c->low_factor, shortest = original / c->high_factor;
    for (uint32_t i = 0; i < c->head_dim / 2; i++) {
        double wave = 2 * M_PI * pow(c->rope_base, 2.0 * i / c->head_dim);
        double smooth = (original / wave - c->low_factor) / (c->high_factor - c->low_factor);
        if (wave < shortest)
            out[i] = 1;
        else if (wave > longest)
            out[i] = (float)c->rope_factor;
        else
            out[i] = (float)(1 / ((1 - smooth) / c->rope_factor + smooth));
    }
}
