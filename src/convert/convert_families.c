/* convert_families.c - keys of the later families beyond the common ones: windows and bases by
 * layer, experts used by every row, scales; and the resulting GGUF keys. */
#include <math.h>

#include "convert/convert_states.h"

/* ---- reading ---- */

static bool flag_of(const json_t *object, const char *key, bool otherwise)
{
    const json_t *value = config_get(object, key);
    return value ? json_is_true(value) : otherwise;
}

/* A number that may be 0 or missing. */
static uint32_t count_of(config_reader *r, const char *key, uint32_t max)
{
    const json_t *value = config_get(r->root, key);
    json_int_t n = json_integer_value(value);
    if (!value) return 0;
    if (json_is_integer(value) && n >= 0 && n <= max) return (uint32_t)n;
    config_refuse(r, "is out of range", key);
    return 0;
}

bool convert_lists_windows(const convert_config *c)
{
    return c->arch == CONVERT_GEMMA3 || c->arch == CONVERT_MELLUM || c->arch == CONVERT_GEMMA4 ||
           c->arch == CONVERT_LAGUNA;
}

/* transformers 5 has an object for each kind of layer, older files have keys beside one object. */
const json_t *convert_families_rope(config_reader *r, convert_config *c, const json_t *rope)
{
    const json_t *full = config_get(rope, "full_attention");
    const json_t *windowed = config_get(rope, "sliding_attention");
    if (c->arch == CONVERT_GEMMA3) c->rope_base_windowed = 10000;
    c->rope_base_windowed =
        config_number(r, r->root, "rope_local_base_freq", c->rope_base_windowed);
    c->rope_base_windowed = config_number(r, windowed, "rope_theta", c->rope_base_windowed);
    const char *type = config_text(windowed, "rope_type");
    if (type && strcmp(type, "default") != 0)
        config_refuse(r, "layers with a window are not scaled", "rope_parameters");
    if (c->arch == CONVERT_GEMMA3 && !full && !config_get(rope, "rope_theta") &&
        !config_get(r->root, "rope_theta"))
        config_refuse(r, "is missing", "rope_theta");
    return full ? full : rope;
}

/* The layers with the window: a list, or all but the last of this many. */
static void read_layers(config_reader *r, convert_config *c)
{
    uint32_t every = c->arch == CONVERT_GEMMA3 || c->arch == CONVERT_GEMMA4 ? 6 : 0;
    if (!convert_lists_windows(c)) return;
    c->window = config_u32_or(r, "sliding_window", CONFIG_WIDTH_MAX,
                              c->arch == CONVERT_GEMMA3 ? 4096 : 1024);
    every = config_u32_or(r, "sliding_window_pattern", CONVERT_LAYERS_MAX, every);
    for (uint32_t i = 0; i < c->n_layers; i++) c->is_windowed[i] = every && (i + 1) % every != 0;
    config_layer_types(r, "sliding_attention", c->n_layers, c->is_windowed);
}

/* Layers without RoPE must be those of SmolLM3: no key of a GGUF file can name others. */
static void check_no_rope(config_reader *r, const convert_config *c)
{
    const json_t *layers = config_get(r->root, "no_rope_layers"), *one;
    size_t i;
    if (c->arch != CONVERT_SMOLLM3) return;
    json_array_foreach(layers, i, one)
        if ((json_integer_value(one) == 0) != ((i + 1) % 4 == 0))
            config_refuse(r, "only every fourth layer can be without RoPE", "no_rope_layers");
    if (!layers && config_u32_or(r, "no_rope_layer_interval", CONVERT_LAYERS_MAX, 4) != 4)
        config_refuse(r, "only every fourth layer can be without RoPE", "no_rope_layer_interval");
}

static void read_part(config_reader *r, convert_config *c)
{
    const json_t *rope = config_get(r->root, "rope_parameters");
    /* transformers' defaults for missing keys */
    double part = config_number(r, r->root, "partial_rotary_factor",
                                convert_has_states(c) ? 0.25 : 1);
    part = config_number(r, rope, "partial_rotary_factor", part);
    part = config_number(r, config_get(rope, "full_attention"), "partial_rotary_factor", part);
    c->turning = part;
    if (convert_is_nemotron(c)) return; /* nothing turns */
    if (c->rope == ROPE_PROPORTIONAL) return; /* in divisors of frequencies */
    if (c->arch == CONVERT_MISTRAL4) { /* of a latent's channels: those that turn are counted */
        if (fabs(part * (c->n_plain + c->n_rot) - c->n_rot) > 0.5 && part != 1)
            config_refuse(r, "differs from qk_rope_head_dim", "partial_rotary_factor");
        return;
    }
    c->n_rot = (uint32_t)(c->head_dim * part);
    if (c->arch == CONVERT_MINIMAX_M2)
        c->n_rot = config_u32_or(r, "rotary_dim", c->head_dim, c->n_rot);
    if (c->n_rot == c->head_dim) return;
    if (c->arch != CONVERT_GLM4MOE && c->arch != CONVERT_MINIMAX_M2 &&
        c->arch != CONVERT_LAGUNA && c->arch != CONVERT_DFLASH && !convert_has_states(c))
        config_refuse(r, "rotation of a part of each head is not supported",
                      "partial_rotary_factor");
    else if (c->n_rot < 2 || c->n_rot > c->head_dim || c->n_rot % 2)
        config_refuse(r, "is out of range", "partial_rotary_factor");
}

static void read_glm_experts(config_reader *r, convert_config *c)
{
    c->n_experts = config_u32(r, "n_routed_experts", 4096);
    c->n_ff_expert = config_u32(r, "moe_intermediate_size", CONFIG_WIDTH_MAX);
    c->n_shared = count_of(r, "n_shared_experts", 64);
    c->n_ff_shared = c->n_shared * c->n_ff_expert;
    c->n_dense = count_of(r, "first_k_dense_replace", c->n_layers);
    c->n_groups = config_u32_or(r, "n_group", c->n_experts, 1);
    c->n_groups_used = config_u32_or(r, "topk_group", c->n_groups, 1);
    c->expert_scale = config_number(r, r->root, "routed_scaling_factor", 1);
    c->n_ahead = count_of(r, "num_nextn_predict_layers", 64);
}

static void read_family_experts(config_reader *r, convert_config *c)
{
    c->weights_sum_to_one = flag_of(r->root, "norm_topk_prob", true);
    if (c->arch == CONVERT_GLM4MOE) {
        read_glm_experts(r, c);
    } else if (c->arch == CONVERT_MELLUM) {
        const char *key =
            config_get(r->root, "num_experts") ? "num_experts" : "num_local_experts";
        c->n_experts = config_u32(r, key, 4096);
        c->n_ff_expert = config_u32(r, "moe_intermediate_size", CONFIG_WIDTH_MAX);
        size_t i;
        const json_t *one;
        json_array_foreach(config_get(r->root, "mlp_layer_types"), i, one)
            if (!json_string_value(one) || strcmp(json_string_value(one), "sparse") != 0)
                config_refuse(r, "layers without experts are not supported", "mlp_layer_types");
    } else if (c->arch == CONVERT_MINIMAX_M2 || c->arch == CONVERT_GRANITEMOE) {
        const char *scoring = config_text(r->root, "scoring_func");
        c->n_experts = config_u32(r, "num_local_experts", 4096);
        c->n_ff_expert = c->n_ff;
        c->n_ff_shared = count_of(r, "shared_intermediate_size", CONFIG_WIDTH_MAX);
        if (scoring && strcmp(scoring, "sigmoid") != 0)
            config_refuse(r, "only sigmoid is supported", "scoring_func");
    } else {
        return;
    }
    c->n_experts_used = config_u32(r, "num_experts_per_tok", c->n_experts);
    if (c->arch != CONVERT_GLM4MOE && !c->weights_sum_to_one)
        config_refuse(r, "weights of experts that do not sum to 1 are not supported",
                      "norm_topk_prob");
}

static void read_scales(config_reader *r, convert_config *c)
{
    if (c->arch == CONVERT_GRANITE || c->arch == CONVERT_GRANITEMOE ||
        c->arch == CONVERT_GRANITEHYBRID) {
        c->embedding_scale = config_number(r, r->root, "embedding_multiplier", 1);
        c->residual_scale = config_number(r, r->root, "residual_multiplier", 1);
        c->logit_scale = config_number(r, r->root, "logits_scaling", 1);
        c->attention_scale = config_number(r, r->root, "attention_multiplier", 1);
    }
    if (c->arch != CONVERT_GEMMA3 && c->arch != CONVERT_GEMMA4) return;
    double scalar = config_number(r, r->root, "query_pre_attn_scalar", 256);
    if (c->arch == CONVERT_GEMMA3 && scalar != c->head_dim) c->attention_scale = 1 / sqrt(scalar);
    c->logit_cap = config_number(r, r->root, "final_logit_softcapping", 0);
    if (config_get(r->root, "attn_logit_softcapping"))
        config_refuse(r, "a cap on the products of attention is not supported",
                      "attn_logit_softcapping");
    const char *both = config_text(r->root, "use_bidirectional_attention");
    if (flag_of(r->root, "use_bidirectional_attention", false) || (both && !strcmp(both, "all")))
        config_refuse(r, "a model that reads in both directions cannot write",
                      "use_bidirectional_attention");
}

/* Ministral's YaRN has two factors, one of which cancels the other. */
static void read_mistral3(config_reader *r, convert_config *c)
{
    const json_t *rope = config_get(r->root, "rope_parameters");
    if (c->arch != CONVERT_MISTRAL3) return;
    if (!rope) rope = config_get(r->root, "rope_scaling");
    c->query_growth = config_number(r, rope, "llama_4_scaling_beta", 0);
    double all = config_number(r, rope, "mscale_all_dim", 0);
    double own = config_number(r, rope, "mscale", 0);
    if (c->rope != ROPE_YARN || all == 0 || own == 0 || c->has_yarn_attention) return;
    c->yarn_log_multiplier = all;
    if (own == 1) return;
    c->has_yarn_attention = true;
    c->yarn_attention = 1 + 0.1 * own * log(c->rope_factor);
}

void convert_families_read(config_reader *r, convert_config *c)
{
    if (r->status) return;
    convert_latents_read(r, c);
    read_part(r, c);
    read_layers(r, c);
    check_no_rope(r, c);
    read_family_experts(r, c);
    read_scales(r, c);
    read_mistral3(r, c);
    convert_states_read(r, c);
    convert_layered_read(r, c);
    convert_scans_read(r, c);
    convert_nemotron_read(r, c);
    convert_drafters_read(r, c);
    if (c->arch == CONVERT_MISTRAL3 && config_get(r->root, "sliding_window"))
        config_refuse(r, "windows are not supported for that architecture", "sliding_window");
}

/* ---- writing ---- */

static void put_some(const config_writer *k, const char *name, double value)
{
    if (value != 0) config_put_f32(k, name, value);
}

static void put_family_experts(const config_writer *k, const convert_config *c)
{
    enum { SIGMOID = 2 };
    char key[96];
    if ((c->arch == CONVERT_GRANITEMOE || c->arch == CONVERT_GRANITEHYBRID) && c->n_ff_shared)
        config_put_u32(k, "expert_shared_feed_forward_length", c->n_ff_shared);
    if (c->arch != CONVERT_GLM4MOE && c->arch != CONVERT_MINIMAX_M2) return;
    config_put_u32(k, "expert_gating_func", SIGMOID);
    if (c->arch == CONVERT_MINIMAX_M2) return;
    config_put_u32(k, "expert_shared_count", c->n_shared);
    config_put_u32(k, "leading_dense_block_count", c->n_dense);
    config_put_f32(k, "expert_weights_scale", c->expert_scale);
    gguf_write_bool(k->w, config_key(k, "expert_weights_norm", key), c->weights_sum_to_one);
    config_put_u32(k, "expert_group_count", c->n_groups);
    config_put_u32(k, "expert_group_used_count", c->n_groups_used);
}

void convert_families_write(const config_writer *k, const convert_config *c)
{
    char key[96];
    bool is_usual = c->arch == CONVERT_GEMMA3; /* as readers assume if the pattern is missing */
    for (uint32_t i = 0; i < c->n_layers; i++) is_usual &= c->is_windowed[i] == ((i + 1) % 6 != 0);
    if (convert_lists_windows(c) && c->window && !is_usual)
        gguf_write_array(k->w, config_key(k, "attention.sliding_window_pattern", key), GGUF_BOOL,
                         c->is_windowed, c->n_layers);
    const double usual_base = c->arch == CONVERT_GEMMA3 ? 10000 : 0;
    if (c->rope_base_windowed != usual_base)
        config_put_f32(k, "rope.freq_base_swa", c->rope_base_windowed);
    if (c->is_still) gguf_write_bool(k->w, config_key(k, "rope.scaling.finetuned", key), false);
    put_some(k, "embedding_scale", c->embedding_scale);
    put_some(k, "residual_scale", c->residual_scale);
    put_some(k, "logit_scale", c->logit_scale);
    put_some(k, "attention.scale", c->attention_scale);
    put_some(k, "final_logit_softcapping", c->logit_cap);
    put_some(k, "attention.temperature_scale", c->query_growth);
    put_some(k, "rope.scaling.yarn_log_multiplier", c->yarn_log_multiplier);
    put_family_experts(k, c);
    convert_states_write(k, c);
    convert_scans_write(k, c);
    convert_drafters_write(k, c);
}
