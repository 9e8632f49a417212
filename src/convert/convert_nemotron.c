/* convert_nemotron.c - Nemotron-H and Nemotron 3, whose layers have one part each: their
 * configuration, and the resulting keys.  Those of Puzzle have a configuration each. */
#include "convert/convert_states.h"

bool convert_is_nemotron(const convert_config *c)
{
    return c->arch == CONVERT_NEMOTRON_H || c->arch == CONVERT_NEMOTRON_H_MOE;
}

/* ---- reading ---- */

/* A list, or, in older files, a string with a letter for each layer. */
static const json_t *list_of(const config_reader *r)
{
    const json_t *blocks = config_get(r->root, "block_configs");
    return blocks ? blocks : config_get(r->root, "layers_block_type");
}

static const char *pattern_of(const config_reader *r)
{
    const char *text = config_text(r->root, "hybrid_override_pattern");
    return text ? text : "";
}

uint32_t convert_nemotron_layers(config_reader *r)
{
    const size_t n = list_of(r) ? json_array_size(list_of(r)) : strlen(pattern_of(r));
    if (n >= 1 && n <= CONVERT_LAYERS_MAX) return (uint32_t)n;
    config_refuse(r, "does not say what the layers are", "layers_block_type");
    return 0;
}

typedef enum { PART_STATE = 0, PART_ATTENDS = 1, PART_DENSE = 2, PART_EXPERTS = 3 } layer_part;

static layer_part part_of_layer(config_reader *r, uint32_t i)
{
    static const char letters[] = "M*-E";
    static const char *const names[][2] = {{"linear_attention", "mamba"},
                                           {"full_attention", "attention"},
                                           {"mlp", "mlp"},
                                           {"moe", "moe"}};
    const json_t *one = json_array_get(list_of(r), i);
    const char *name = json_string_value(json_is_object(one) ? config_get(one, "block_type") : one);
    const char *letter = list_of(r) ? NULL : strchr(letters, pattern_of(r)[i]);
    for (size_t k = 0; name && k < ARRAY_LEN(names); k++)
        if (!strcmp(name, names[k][0]) || !strcmp(name, names[k][1])) return (layer_part)k;
    if (letter) return (layer_part)(letter - letters);
    config_refuse(r, "a kind of layer that is not supported",
                  list_of(r) ? "layers_block_type" : "hybrid_override_pattern");
    return PART_STATE;
}

static void read_layers(config_reader *r, convert_config *c)
{
    bool attends = false, keeps_state = false;
    for (uint32_t i = 0; i < c->n_layers && !r->status; i++) {
        const layer_part part = part_of_layer(r, i);
        c->is_recurrent[i] = part == PART_STATE;
        c->has_experts[i] = part == PART_EXPERTS;
        if (part != PART_ATTENDS) c->layer_kv_heads[i] = 0;
        attends |= part == PART_ATTENDS;
        keeps_state |= part == PART_STATE;
        if (part == PART_DENSE) c->layer_ff[i] = c->n_ff;
        if (part == PART_EXPERTS) c->arch = CONVERT_NEMOTRON_H_MOE;
    }
    if (!attends || !keeps_state)
        config_refuse(r, "layers that attend and layers with a state must be there",
                      "layers_block_type");
}

/* Experts of each layer of Puzzle, and the most of any. */
static void read_blocks(config_reader *r, convert_config *c)
{
    config_reader in = *r;
    c->n_experts_used = c->n_ff_expert = 1;
    for (uint32_t i = 0; i < c->n_layers; i++) {
        if (!c->has_experts[i]) continue;
        in.root = json_array_get(config_get(r->root, "block_configs"), i);
        c->layer_used[i] = config_u32(&in, "num_experts_per_tok", c->n_experts);
        c->layer_ff[i] = config_u32(&in, "moe_intermediate_size", CONFIG_WIDTH_MAX);
        if (c->layer_used[i] > c->n_experts_used) c->n_experts_used = c->layer_used[i];
        if (c->layer_ff[i] > c->n_ff_expert) c->n_ff_expert = c->layer_ff[i];
    }
    r->status = in.status;
}

static void read_experts(config_reader *r, convert_config *c)
{
    const json_t *norm = config_get(r->root, "norm_topk_prob");
    if (c->arch != CONVERT_NEMOTRON_H_MOE) return;
    c->n_experts = config_u32(r, "n_routed_experts", 1024);
    c->has_blocks = config_get(r->root, "block_configs") != NULL;
    if (c->has_blocks) {
        read_blocks(r, c);
    } else {
        c->n_experts_used = config_u32(r, "num_experts_per_tok", c->n_experts);
        c->n_ff_expert = config_u32(r, "moe_intermediate_size", CONFIG_WIDTH_MAX);
    }
    c->n_ff_shared = config_u32(r, "moe_shared_expert_intermediate_size", CONFIG_WIDTH_MAX);
    c->n_groups = config_u32_or(r, "n_group", c->n_experts, 1);
    c->n_groups_used = config_u32_or(r, "topk_group", c->n_groups, 1);
    c->expert_scale = config_number(r, r->root, "routed_scaling_factor", 1);
    c->weights_sum_to_one = !norm || json_is_true(norm);
    for (uint32_t i = 0; i < c->n_layers; i++)
        if (c->has_experts[i] && !c->has_blocks) c->layer_ff[i] = c->n_ff_expert;
    c->n_expert_latent = config_u32_or(r, "moe_latent_size", CONFIG_WIDTH_MAX, 0);
}

void convert_nemotron_read(config_reader *r, convert_config *c)
{
    static const char *const biases[] = {"use_bias", "mlp_bias", "attention_bias"};
    if (r->status || !convert_is_nemotron(c)) return;
    c->is_still = true;
    c->n_taps = config_u32_or(r, "conv_kernel", 64, 4);
    c->key_dim = config_u32_or(r, "ssm_state_size", 65536, 128);
    c->n_key_heads = config_u32_or(r, "n_groups", 4096, 8);
    c->n_value_heads = config_u32_or(r, "mamba_num_heads", 4096, 128);
    c->value_dim = config_u32_or(r, "mamba_head_dim", 65536, 64);
    if (!r->status && c->n_value_heads % c->n_key_heads)
        config_refuse(r, "does not divide the heads", "n_groups");
    for (size_t i = 0; i < ARRAY_LEN(biases); i++)
        if (json_is_true(config_get(r->root, biases[i])))
            config_refuse(r, "biases are not supported", biases[i]);
    const char *act = config_text(r->root, "mlp_hidden_act");
    if (act && strcmp(act, "relu2") != 0)
        config_refuse(r, "only relu2 is supported", "mlp_hidden_act");
    convert_scans_check(r);
    read_layers(r, c);
    read_experts(r, c);
}

/* ---- writing ---- */

void convert_nemotron_write(const config_writer *k, const convert_config *c)
{
    char key[96];
    gguf_write_array(k->w, config_key(k, "feed_forward_length", key), GGUF_UINT32, c->layer_ff,
                     c->n_layers);
    config_put_u32(k, "attention.head_count", c->n_heads);
    gguf_write_array(k->w, config_key(k, "attention.head_count_kv", key), GGUF_UINT32,
                     c->layer_kv_heads, c->n_layers);
    config_put_u32(k, "attention.key_length", c->head_dim);
    config_put_u32(k, "attention.value_length", c->head_dim);
    convert_state_sizes_write(k, c);
    if (!c->n_experts) return;
    if (c->has_blocks) {
        gguf_write_array(k->w, config_key(k, "expert_feed_forward_length", key), GGUF_UINT32,
                         c->layer_ff, c->n_layers);
        gguf_write_array(k->w, config_key(k, "expert_used_count", key), GGUF_UINT32,
                         c->layer_used, c->n_layers);
    }
    config_put_u32(k, "expert_shared_feed_forward_length", c->n_ff_shared);
    if (c->n_expert_latent) config_put_u32(k, "moe_latent_size", c->n_expert_latent);
    gguf_write_bool(k->w, config_key(k, "expert_weights_norm", key), c->weights_sum_to_one);
    config_put_f32(k, "expert_weights_scale", c->expert_scale);
    config_put_u32(k, "expert_group_count", c->n_groups);
    config_put_u32(k, "expert_group_used_count", c->n_groups_used);
}
