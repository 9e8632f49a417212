/* convert_config.c - config.json of the supported architectures, and the resulting keys. */
#include <math.h>

#include "convert/convert_states.h"

static const struct {
    const char *hf, *name;
} archs[] = {
    {"LlamaForCausalLM", "llama"},       {"Qwen2ForCausalLM", "qwen2"},
    {"Qwen3ForCausalLM", "qwen3"},       {"Qwen3MoeForCausalLM", "qwen3moe"},
    {"GptOssForCausalLM", "gpt-oss"},    {"Starcoder2ForCausalLM", "starcoder2"},
    {"Ministral3ForCausalLM", "mistral3"},
    {"SmolLM3ForCausalLM", "smollm3"},   {"SeedOssForCausalLM", "seed_oss"},
    {"GraniteForCausalLM", "granite"},   {"GraniteMoeForCausalLM", "granitemoe"},
    {"Gemma3ForCausalLM", "gemma3"},     {"MellumForCausalLM", "mellum"},
    {"Glm4MoeForCausalLM", "glm4moe"},   {"MiniMaxM2ForCausalLM", "minimax-m2"},
    {"Qwen3_5ForCausalLM", "qwen35"},    {"Qwen3_5MoeForCausalLM", "qwen35moe"},
    {"Qwen3NextForCausalLM", "qwen3next"},
    {"Gemma4ForCausalLM", "gemma4"},     {"LagunaForCausalLM", "laguna"},
    {"DeepseekV3ForCausalLM", "deepseek2"},
    {"GraniteMoeHybridForCausalLM", "granitehybrid"},
    {"NemotronHForCausalLM", "nemotron_h"},
    {"NemotronHForCausalLM", "nemotron_h_moe"}, /* by its layers: convert_nemotron.c */
    {"LlamaForCausalLMEagle3", "eagle3"}, {"DFlashDraftModel", "dflash"}, /* drafters */
    {"Mistral4ForCausalLM", "mistral4"},
};

/* Other names of the same architecture. */
static const struct {
    const char *hf, *as;
} aliases[] = {
    {"MistralForCausalLM", "LlamaForCausalLM"},
    {"GraniteMoeSharedForCausalLM", "GraniteMoeForCausalLM"},
    {"DeepseekV2ForCausalLM", "DeepseekV3ForCausalLM"}, /* its configuration has the differences */
    {"Glm4MoeLiteForCausalLM", "DeepseekV3ForCausalLM"},
    {"Gemma3ForConditionalGeneration", "Gemma3ForCausalLM"}, /* beside a vision model */
    {"Gemma4ForConditionalGeneration", "Gemma4ForCausalLM"},
    {"Qwen3_5ForConditionalGeneration", "Qwen3_5ForCausalLM"},
    {"Qwen3_5MoeForConditionalGeneration", "Qwen3_5MoeForCausalLM"},
    {"Qwen2_5_VLForConditionalGeneration", "Qwen2ForCausalLM"},
    {"Qwen3VLForConditionalGeneration", "Qwen3ForCausalLM"},
    {"Qwen3VLMoeForConditionalGeneration", "Qwen3MoeForCausalLM"},
    {"Eagle3LlamaForCausalLM", "LlamaForCausalLMEagle3"},
    {"Eagle3Speculator", "LlamaForCausalLMEagle3"},
    {"Eagle3DraftModel", "LlamaForCausalLMEagle3"},
    {"NemotronHPuzzleForCausalLM", "NemotronHForCausalLM"},
    {"DFlashSpeculator", "DFlashDraftModel"},
    {"DSparkDraftModel", "DFlashDraftModel"},
    {"DSparkSpeculator", "DFlashDraftModel"},
    {"Qwen3DSparkModel", "DFlashDraftModel"},
};

static const char *convert_arch_name(convert_arch arch) { return archs[arch].name; }

/* ---- reading ---- */

static void read_arch(config_reader *r, convert_config *c)
{
    const char *name = json_string_value(json_array_get(config_get(r->whole, "architectures"), 0));
    if (!name) {
        config_refuse(r, "is missing", "architectures");
        return;
    }
    c->drafter.is_dspark = strstr(name, "DSpark") != NULL;
    for (size_t i = 0; i < ARRAY_LEN(aliases); i++)
        if (!strcmp(name, aliases[i].hf)) name = aliases[i].as;
    /* Heads of EAGLE-3 by its authors have no name of their own. */
    if (!strcmp(name, "LlamaForCausalLM") && config_get(r->whole, "draft_vocab_size"))
        name = "LlamaForCausalLMEagle3";
    /* Beside a vision model, Mistral's decoder is one of two kinds. */
    const char *kind = config_text(r->root, "model_type");
    if (!strcmp(name, "Mistral3ForConditionalGeneration"))
        name = kind && !strcmp(kind, "ministral3") ? "Ministral3ForCausalLM"
               : kind && !strcmp(kind, "mistral4") ? "Mistral4ForCausalLM"
                                                   : "LlamaForCausalLM";
    for (size_t i = 0; i < ARRAY_LEN(archs); i++) {
        if (strcmp(name, archs[i].hf) != 0) continue;
        c->arch = (convert_arch)i;
        return;
    }
    if (!r->status)
        r->status = error_set(r->err, CERIUM_ERR_FORMAT,
                              "config.json: architecture %.60s is not supported; there are Llama, "
                              "Mistral, Ministral3, Qwen2, Qwen3, Qwen3Moe, GptOss, Starcoder2, "
                              "SmolLM3, SeedOss, Granite, GraniteMoe, GraniteMoeHybrid, Gemma3, "
                              "Mellum, Glm4Moe, MiniMaxM2, Qwen3_5, Qwen3_5Moe, Qwen3Next, "
                              "Gemma4, Laguna, DeepseekV2, DeepseekV3, Glm4MoeLite, Mistral4, "
                              "NemotronH and NemotronHPuzzle, "
                              "and the drafters EAGLE-3, DFlash and DSpark", name);
}

/* Users who add a scaling to a newer file by hand often add the older key. */
static void check_scaling(config_reader *r)
{
    json_t *one;
    const char *key;
    json_t *old = json_object_get(r->root, "rope_scaling");
    const json_t *new = config_get(r->root, "rope_parameters");
    if (!new) return;
    json_object_foreach(old, key, one) {
        const json_t *same = json_object_get(new, strcmp(key, "type") ? key : "rope_type");
        if (!json_equal(one, same) && !json_is_null(one))
            config_refuse(r, "differs from rope_parameters: keep one of the two", "rope_scaling");
    }
}

/* Older files have rope_theta and rope_scaling, newer ones rope_parameters with both. */
static void read_rope(config_reader *r, convert_config *c)
{
    const json_t *rope = config_get(r->root, "rope_parameters");
    if (!rope) rope = config_get(r->root, "rope_scaling");
    check_scaling(r);
    rope = convert_families_rope(r, c, rope);
    c->rope_base = config_number(r, r->root, "rope_theta", 10000);
    c->rope_base = config_number(r, rope, "rope_theta", c->rope_base);
    const char *type = config_text(rope, "rope_type");
    if (!type) type = config_text(rope, "type");
    if (!type || !strcmp(type, "default")) return;
    if (!strcmp(type, "linear"))
        c->rope = ROPE_LINEAR;
    else if (!strcmp(type, "yarn"))
        c->rope = ROPE_YARN;
    else if (!strcmp(type, "llama3"))
        c->rope = ROPE_LLAMA3;
    else if (!strcmp(type, "proportional") && c->arch == CONVERT_GEMMA4)
        c->rope = ROPE_PROPORTIONAL;
    else
        config_refuse(r, "this scaling is not supported; there are linear, yarn and llama3",
                      "rope_type");
    c->rope_factor = config_number(r, rope, "factor", 1);
    double original = config_number(r, rope, "original_max_position_embeddings", c->context);
    c->rope_original = original < CONFIG_WIDTH_MAX ? (uint32_t)original : CONFIG_WIDTH_MAX;
    c->low_factor = config_number(r, rope, "low_freq_factor", 1);
    c->high_factor = config_number(r, rope, "high_freq_factor", 4);
    c->has_betas = config_get(rope, "beta_fast") || config_get(rope, "beta_slow");
    c->beta_fast = config_number(r, rope, "beta_fast", 32);
    c->beta_slow = config_number(r, rope, "beta_slow", 1);
    c->has_yarn_attention = config_get(rope, "attention_factor") != NULL;
    c->yarn_attention = config_number(r, rope, "attention_factor", 1);
    if (c->rope == ROPE_LLAMA3 && c->high_factor <= c->low_factor)
        config_refuse(r, "must exceed low_freq_factor", "high_freq_factor");
}

static void read_experts(config_reader *r, convert_config *c)
{
    bool qwen = c->arch == CONVERT_QWEN3MOE;
    if (!qwen && c->arch != CONVERT_GPT_OSS) return;
    /* The choice depends on the version of transformers as well as on the model. */
    const char *key = config_get(r->root, "num_experts") ? "num_experts" : "num_local_experts";
    c->n_experts = config_u32(r, key, 4096);
    c->n_experts_used = config_u32(r, "num_experts_per_tok", c->n_experts);
    c->n_ff_expert = qwen ? config_u32(r, "moe_intermediate_size", CONFIG_WIDTH_MAX) : c->n_ff;
    if (!qwen) return;
    if (!json_is_true(config_get(r->root, "norm_topk_prob")))
        config_refuse(r, "weights of experts that do not sum to 1 are not supported",
                      "norm_topk_prob");
    if (config_u32_or(r, "decoder_sparse_step", 64, 1) != 1 ||
        json_array_size(config_get(r->root, "mlp_only_layers")) > 0)
        config_refuse(r, "layers without experts are not supported", "decoder_sparse_step");
}

static void read_activation(config_reader *r, const convert_config *c)
{
    const char *act = config_text(r->root, "hidden_act");
    bool gelu = c->arch == CONVERT_STARCODER2 || c->arch == CONVERT_GEMMA3 ||
                c->arch == CONVERT_GEMMA4;
    if (!act) act = config_text(r->root, "hidden_activation");
    if (act && strcmp(act, gelu ? "gelu_pytorch_tanh" : "silu") != 0)
        config_refuse(r, "this activation is not supported for that architecture", "hidden_act");
}

/* By ModelOpt or by compressed-tensors: the tensors say the rest. */
static bool is_nvfp4(const json_t *q, const char *method)
{
    const char *algorithm = config_text(q, "quant_algo"), *format = config_text(q, "format");
    if (!method) return false;
    if (!strcmp(method, "modelopt")) return algorithm && !strcmp(algorithm, "NVFP4");
    return !strcmp(method, "compressed-tensors") && format &&
           !strcmp(format, "nvfp4-pack-quantized");
}

static void read_quantization(config_reader *r, convert_config *c)
{
    const json_t *q = config_get(r->whole, "quantization_config");
    const json_t *block = config_get(q, "weight_block_size");
    const char *method = config_text(q, "quant_method");
    if (!q || (method && !strcmp(method, "mxfp4")) || is_nvfp4(q, method)) return;
    if (!method || strcmp(method, "fp8") != 0 || json_array_size(block) != 2) {
        config_refuse(r,
                      "only block-scaled fp8, mxfp4 and nvfp4 are supported; take the unquantized "
                      "model",
                      "quantization_config");
        return;
    }
    json_int_t rows = json_integer_value(json_array_get(block, 0));
    json_int_t columns = json_integer_value(json_array_get(block, 1));
    if (rows < 1 || rows > 65536 || columns < 1 || columns > 65536)
        config_refuse(r, "is out of range", "weight_block_size");
    c->fp8_rows = (uint32_t)rows;
    c->fp8_columns = (uint32_t)columns;
}

/* -1: there is none; -2: it is not an id. */
static int64_t token_id(const convert_config *c, const json_t *value)
{
    int64_t id;
    if (!value || json_is_null(value)) return -1;
    if (!config_whole(value, &id) || id < -1 || id >= c->n_vocab) return -2;
    return id;
}

static int64_t read_id(config_reader *r, const convert_config *c, const char *key)
{
    const json_t *value = config_get(r->root, key);
    if (json_is_array(value)) value = json_array_get(value, 0);
    const int64_t id = token_id(c, value);
    if (id == -2) config_refuse(r, "is not the id of a token", key);
    return id < 0 ? -1 : id;
}

/* False: one of them is not an id. */
static bool add_ends(convert_config *c, const json_t *value)
{
    for (size_t i = 0; i < (json_is_array(value) ? json_array_size(value) : 1); i++) {
        const int64_t id = token_id(c, json_is_array(value) ? json_array_get(value, i) : value);
        bool is_new = id >= 0 && c->n_ends < CONVERT_ENDS_MAX;
        if (id == -2) return false;
        for (uint32_t k = 0; k < c->n_ends; k++) is_new &= c->ends[k] != id;
        if (is_new) c->ends[c->n_ends++] = (int32_t)id;
    }
    return true;
}

int convert_config_ends(convert_config *c, view json, cerium_error *err)
{
    json_error_t at;
    json_t *root = json.len ? json_read(json, JSON_READ_PYTHON, &at) : NULL;
    if (json.len && !root)
        return error_set(err, CERIUM_ERR_FORMAT, "generation_config.json: line %d: %s", at.line,
                         at.text);
    const bool fits = add_ends(c, config_get(root, "eos_token_id"));
    json_decref(root);
    if (!fits)
        return error_set(err, CERIUM_ERR_FORMAT,
                         "generation_config.json: eos_token_id: is not the id of a token");
    return CERIUM_OK;
}

/* Reject sliding windows that the target architecture cannot express: the converted model would
 * ignore them. */
static void read_window(config_reader *r, convert_config *c)
{
    const json_t *types = config_get(r->root, "layer_types"), *one;
    bool has = c->arch == CONVERT_LLAMA || c->arch == CONVERT_GPT_OSS ||
               c->arch == CONVERT_STARCODER2;
    bool uses = json_is_true(config_get(r->root, "use_sliding_window"));
    size_t i;
    if (convert_lists_windows(c)) return; /* convert_families.c */
    if (c->arch == CONVERT_DFLASH) return; /* convert_drafters.c */
    if (has) c->window = config_u32_or(r, "sliding_window", CONFIG_WIDTH_MAX, 0);
    json_array_foreach(types, i, one) {
        const char *type = json_string_value(one);
        bool is_window = type && !strcmp(type, "sliding_attention");
        bool fits = c->arch == CONVERT_GPT_OSS ? is_window == (i % 2 == 0)
                    : c->window                ? is_window
                                               : !is_window;
        const bool is_known = is_window || (type && !strcmp(type, "full_attention"));
        if (!fits)
            config_refuse(r, "windows of these layers are not supported", "layer_types");
        else if (!is_known && !convert_has_states(c) && !convert_has_scans(c))
            config_refuse(r, "a kind of layer that is not supported", "layer_types");
    }
    if (uses && !has && config_get(r->root, "sliding_window"))
        config_refuse(r, "windows are not supported for that architecture", "use_sliding_window");
}

static uint32_t number_of(config_reader *r, const char *key, uint32_t max, uint32_t otherwise)
{
    return otherwise ? config_u32_or(r, key, max, otherwise) : config_u32(r, key, max);
}

static void read_shape(config_reader *r, convert_config *c)
{
    /* The older files of Gemma 3 have only the differences from transformers' defaults. */
    const bool gemma = c->arch == CONVERT_GEMMA3 || c->arch == CONVERT_GEMMA4;
    c->n_layers = convert_is_nemotron(c) ? convert_nemotron_layers(r)
                                         : config_u32(r, "num_hidden_layers", CONVERT_LAYERS_MAX);
    c->n_embd = config_u32(r, "hidden_size", CONFIG_WIDTH_MAX);
    c->n_ff = c->arch == CONVERT_QWEN35MOE /* of its experts alone */
                  ? config_u32_or(r, "intermediate_size", CONFIG_WIDTH_MAX, 1)
                  : config_u32(r, "intermediate_size", CONFIG_WIDTH_MAX);
    c->n_heads = number_of(r, "num_attention_heads", 4096, gemma ? 8 : 0);
    c->n_kv_heads = config_u32_or(r, "num_key_value_heads", 4096, gemma ? 4 : c->n_heads);
    c->context = number_of(r, "max_position_embeddings", CONFIG_WIDTH_MAX, gemma ? 131072 : 0);
    c->n_vocab = number_of(r, "vocab_size", 1u << 22, gemma ? 262208 : 0);
    const bool is_256 = gemma || convert_has_states(c);
    c->names_head_dim = is_256 || config_get(r->root, "head_dim") != NULL;
    uint32_t usual = is_256 ? 256 : c->n_embd / c->n_heads;
    if (convert_is_nemotron(c)) usual = config_u32_or(r, "attention_head_dim", 65536, 128);
    c->head_dim = config_u32_or(r, "head_dim", 65536, usual ? usual : 1);
    c->n_rot = c->head_dim;
    if (c->head_dim % 2) config_refuse(r, "is odd", "head_dim");
    if (c->n_heads % c->n_kv_heads)
        config_refuse(r, "does not divide the heads", "num_key_value_heads");
    bool layer_norm = c->arch == CONVERT_STARCODER2;
    c->norm_eps = config_number(r, r->root, layer_norm ? "norm_epsilon" : "rms_norm_eps", 1e-6);
    if (convert_is_nemotron(c))
        c->norm_eps = config_number(r, r->root, "layer_norm_epsilon", 1e-5);
    /* transformers' defaults for missing keys */
    bool tied = gemma || c->arch == CONVERT_STARCODER2 || c->arch == CONVERT_SMOLLM3;
    const json_t *tie = config_get(r->root, "tie_word_embeddings");
    if (!tie) tie = config_get(r->whole, "tie_word_embeddings");
    c->is_tied = tie ? json_is_true(tie) : tied;
    read_window(r, c);
    c->bos = read_id(r, c, "bos_token_id");
    c->eos = read_id(r, c, "eos_token_id");
    if (!add_ends(c, config_get(r->root, "eos_token_id")))
        config_refuse(r, "is not the id of a token", "eos_token_id");
}

int convert_config_parse(convert_config *out, view json, cerium_error *err)
{
    config_reader r;
    *out = (convert_config){.rope_factor = 1, .bos = -1, .eos = -1};
    RETURN_IF(config_open(&r, json, "config.json", err));
    read_arch(&r, out);
    read_shape(&r, out);
    read_rope(&r, out);
    read_experts(&r, out);
    convert_families_read(&r, out);
    read_activation(&r, out);
    read_quantization(&r, out);
    return config_close(&r);
}

/* ---- writing ---- */

static void put_rope(const config_writer *k, const convert_config *c)
{
    char key[96];
    config_put_f32(k, "rope.freq_base", c->rope_base);
    if (c->rope != ROPE_LINEAR && c->rope != ROPE_YARN) return;
    gguf_write_string(k->w, config_key(k, "rope.scaling.type", key),
                      c->rope == ROPE_YARN ? VIEW("yarn") : VIEW("linear"));
    config_put_f32(k, "rope.scaling.factor", c->rope_factor);
    if (c->rope == ROPE_LINEAR) return;
    config_put_u32(k, "rope.scaling.original_context_length", c->rope_original);
    if (c->has_betas) {
        config_put_f32(k, "rope.scaling.yarn_beta_fast", c->beta_fast);
        config_put_f32(k, "rope.scaling.yarn_beta_slow", c->beta_slow);
    }
    /* transformers' value replaces 1 + 0.1 ln(factor); the GGUF key multiplies it. */
    if (c->has_yarn_attention)
        config_put_f32(k, "rope.scaling.attn_factor",
                c->yarn_attention / (1 + 0.1 * log(c->rope_factor)));
}

void convert_config_write(const convert_config *c, view name, gguf_writer *w)
{
    const config_writer k = {w, convert_arch_name(c->arch)};
    gguf_write_string(w, "general.architecture", view_of(k.arch));
    gguf_write_string(w, "general.type", VIEW("model"));
    gguf_write_string(w, "general.name", name);
    config_put_u32(&k, "block_count", c->n_layers + c->has_mtp);
    if (c->has_mtp) config_put_u32(&k, "nextn_predict_layers", 1);
    config_put_u32(&k, "context_length", c->context);
    config_put_u32(&k, "embedding_length", c->n_embd);
    if (c->n_latent)
        convert_latents_write(&k, c);
    else
        convert_layered_write(&k, c);
    if (c->arch == CONVERT_LLAMA || convert_is_drafter(c) || c->n_latent ||
        c->n_rot != c->head_dim)
        config_put_u32(&k, "rope.dimension_count", c->n_rot);
    config_put_u32(&k, "vocab_size", c->n_vocab);
    put_rope(&k, c);
    config_put_f32(&k, c->arch == CONVERT_STARCODER2 ? "attention.layer_norm_epsilon"
                                              : "attention.layer_norm_rms_epsilon",
            c->norm_eps);
    if (c->window) config_put_u32(&k, "attention.sliding_window", c->window);
    convert_families_write(&k, c);
    if (c->n_ends > 1)
        gguf_write_array(w, "cerium.end_token_ids", GGUF_INT32, c->ends, c->n_ends);
    if (!c->n_experts) return;
    config_put_u32(&k, "expert_count", c->n_experts);
    if (c->has_blocks) return; /* convert_nemotron.c */
    config_put_u32(&k, "expert_used_count", c->n_experts_used);
    /* Granite's feed_forward_length is that of its experts. */
    if (c->arch != CONVERT_GRANITEMOE && c->arch != CONVERT_GRANITEHYBRID)
        config_put_u32(&k, "expert_feed_forward_length", c->n_ff_expert);
}

/* Llama 3: low frequencies are divided, high ones are unchanged, those between are interpolated. */
void convert_rope_divisors(const convert_config *c, float *out)
{
    const uint32_t n_turning = (uint32_t)(c->turning * c->global_dim / 2);
    for (uint32_t i = 0; c->rope == ROPE_PROPORTIONAL && i < c->global_dim / 2; i++)
        out[i] = i < n_turning ? 1 : 1e30f;
    if (c->rope == ROPE_PROPORTIONAL) return;
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
