/* convert_latents.c - attention by latents (DeepSeek V2 and V3, GLM-4.7-Flash, Mistral Small 4):
 * its configuration and that of the experts beside it, and the resulting keys. */
#include "convert/convert_states.h"

/* ---- reading ---- */

static bool is_text(const config_reader *r, const char *key, const char *text)
{
    const char *value = config_text(r->root, key);
    return value && !strcmp(value, text);
}

static bool is_true_or(const config_reader *r, const char *key, bool otherwise)
{
    const json_t *value = config_get(r->root, key);
    return value ? json_is_true(value) : otherwise;
}

/* YaRN's two factors must be equal: GGUF files have a tenth of it as one key. */
static void read_yarn(config_reader *r, convert_config *c)
{
    const json_t *rope = config_get(r->root, "rope_parameters");
    if (!rope) rope = config_get(r->root, "rope_scaling");
    const double all = config_number(r, rope, "mscale_all_dim", 0);
    const double own = config_number(r, rope, "mscale", all);
    if (c->arch == CONVERT_MISTRAL4)
        c->query_growth = config_number(r, rope, "llama_4_scaling_beta", 0);
    if (c->rope != ROPE_YARN || all == 0) return;
    if (own != all) config_refuse(r, "must be mscale_all_dim", "mscale");
    c->yarn_log_multiplier = 0.1 * all;
}

static void read_experts(config_reader *r, convert_config *c)
{
    const bool is_v2 = is_text(r, "model_type", "deepseek_v2");
    const bool has_groups = !is_text(r, "topk_method", "greedy");
    const char *scoring = config_text(r->root, "scoring_func");
    c->n_dense = c->n_layers;
    if (!config_get(r->root, "n_routed_experts")) return;
    const bool is_softmax = is_v2 || c->arch == CONVERT_MISTRAL4;
    c->has_sigmoid = scoring ? !strcmp(scoring, "sigmoid") : !is_softmax;
    if (scoring && !c->has_sigmoid && strcmp(scoring, "softmax") != 0)
        config_refuse(r, "is neither softmax nor sigmoid", "scoring_func");
    c->n_experts = config_u32(r, "n_routed_experts", 1024);
    c->n_experts_used = config_u32(r, "num_experts_per_tok", c->n_experts);
    c->n_ff_expert = config_u32(r, "moe_intermediate_size", CONFIG_WIDTH_MAX);
    if (config_get(r->root, "n_shared_experts"))
        c->n_shared = config_u32(r, "n_shared_experts", 64);
    c->n_ff_shared = c->n_shared * c->n_ff_expert;
    c->expert_scale = config_number(r, r->root, "routed_scaling_factor", 1);
    c->weights_sum_to_one = is_true_or(r, "norm_topk_prob", !is_v2);
    c->n_groups = has_groups ? config_u32_or(r, "n_group", c->n_experts, 1) : 1;
    c->n_groups_used = has_groups ? config_u32_or(r, "topk_group", c->n_groups, 1) : 1;
    const json_t *dense = config_get(r->root, "first_k_dense_replace");
    convert_dense_read(r, c);
    if (json_is_integer(dense) && !config_get(r->root, "mlp_layer_types"))
        c->n_dense = json_integer_value(dense) > 0
                         ? config_u32(r, "first_k_dense_replace", c->n_layers) : 0;
    if (config_u32_or(r, "moe_layer_freq", 64, 1) != 1)
        config_refuse(r, "layers without experts are not supported", "moe_layer_freq");
}

void convert_latents_read(config_reader *r, convert_config *c)
{
    if (c->arch != CONVERT_DEEPSEEK2 && c->arch != CONVERT_MISTRAL4) return;
    c->n_latent = config_u32(r, "kv_lora_rank", CONFIG_WIDTH_MAX);
    c->n_plain = config_u32(r, "qk_nope_head_dim", CONFIG_WIDTH_MAX);
    c->n_value = config_u32(r, "v_head_dim", CONFIG_WIDTH_MAX);
    c->head_dim = c->n_rot = config_u32(r, "qk_rope_head_dim", CONFIG_WIDTH_MAX);
    if (config_get(r->root, "q_lora_rank"))
        c->n_low = config_u32(r, "q_lora_rank", CONFIG_WIDTH_MAX);
    if (!is_true_or(r, "rope_interleave", true))
        config_refuse(r, "halves of heads that turn are not supported", "rope_interleave");
    if (is_true_or(r, "attention_bias", false))
        config_refuse(r, "biases are not supported for that architecture", "attention_bias");
    if (json_integer_value(config_get(r->root, "num_nextn_predict_layers")) > 0)
        c->n_ahead = config_u32(r, "num_nextn_predict_layers", 64);
    read_yarn(r, c);
    read_experts(r, c);
}

/* ---- writing ---- */

void convert_latents_write(const config_writer *k, const convert_config *c)
{
    enum { SOFTMAX = 1, SIGMOID = 2 };
    char key[96];
    config_put_u32(k, "feed_forward_length", c->n_ff);
    config_put_u32(k, "attention.head_count", c->n_heads);
    config_put_u32(k, "attention.head_count_kv", 1); /* all heads attend to the latent */
    config_put_u32(k, "attention.kv_lora_rank", c->n_latent);
    if (c->n_low) config_put_u32(k, "attention.q_lora_rank", c->n_low);
    config_put_u32(k, "attention.key_length", c->n_latent + c->n_rot);
    config_put_u32(k, "attention.value_length", c->n_latent);
    config_put_u32(k, "attention.key_length_mla", c->n_plain + c->n_rot);
    config_put_u32(k, "attention.value_length_mla", c->n_value);
    config_put_u32(k, "leading_dense_block_count", c->n_dense);
    if (!c->n_experts) return;
    config_put_u32(k, "expert_gating_func", c->has_sigmoid ? SIGMOID : SOFTMAX);
    config_put_u32(k, "expert_shared_count", c->n_shared);
    config_put_f32(k, "expert_weights_scale", c->expert_scale);
    gguf_write_bool(k->w, config_key(k, "expert_weights_norm", key), c->weights_sum_to_one);
    config_put_u32(k, "expert_group_count", c->n_groups);
    config_put_u32(k, "expert_group_used_count", c->n_groups_used);
}
