/* convert_layered.c - models whose layers differ in their heads: Gemma 4 and Laguna. */
#include "convert/convert_states.h"

/* ---- reading ---- */

static bool is_true(const config_reader *r, const char *key)
{
    return json_is_true(config_get(r->root, key));
}

static uint32_t number_in(config_reader *r, const json_t *object, const char *key, uint32_t max,
                          uint32_t otherwise)
{
    const double n = config_number(r, object, key, otherwise);
    if (n >= 1 && n <= max && n == (uint32_t)n) return (uint32_t)n;
    config_refuse(r, "is out of range", key);
    return 1;
}

/* Newer files have an object for each layer that differs, older ones keys for the layers that see
 * everything. */
static void read_gemma4_heads(config_reader *r, convert_config *c)
{
    const json_t *by_layer = config_get(r->root, "per_layer_config");
    const json_t *global_kv = config_get(r->root, "num_global_key_value_heads");
    const uint32_t dim = config_u32_or(r, "global_head_dim", 512, by_layer ? c->head_dim : 512);
    uint32_t kv = c->n_kv_heads;
    if (is_true(r, "attention_k_eq_v") && json_is_integer(global_kv))
        kv = config_u32_or(r, "num_global_key_value_heads", 4096, kv);
    for (uint32_t i = 0; i < c->n_layers && !r->status; i++) {
        char name[16];
        snprintf(name, sizeof name, "%u", i);
        const json_t *own = config_get(by_layer, name);
        const bool all = !c->is_windowed[i];
        c->layer_dim[i] = number_in(r, own, "head_dim", 512, all ? dim : c->head_dim);
        c->layer_kv_heads[i] =
            number_in(r, own, "num_key_value_heads", 4096, all ? kv : c->n_kv_heads);
        if (all && c->global_dim && c->layer_dim[i] != c->global_dim)
            config_refuse(r, "differs among layers that see everything", "head_dim");
        if (!all && c->layer_dim[i] != c->head_dim)
            config_refuse(r, "differs among layers with a window", "head_dim");
        if (all) c->global_dim = c->layer_dim[i];
    }
    if (!c->global_dim) config_refuse(r, "no layer sees everything", "layer_types");
}

static void read_gemma4(config_reader *r, convert_config *c)
{
    const json_t *shared = config_get(r->root, "num_kv_shared_layers");
    const json_t *inputs = config_get(r->root, "hidden_size_per_layer_input");
    read_gemma4_heads(r, c);
    if (json_integer_value(shared) > 0)
        c->n_shared_kv = config_u32(r, "num_kv_shared_layers", c->n_layers - 1);
    if (!inputs || json_integer_value(inputs) > 0)
        c->n_layer_input = config_u32_or(r, "hidden_size_per_layer_input", 65536, 256);
    c->is_double_wide = is_true(r, "use_double_wide_mlp");
    c->weights_sum_to_one = true;
    if (!is_true(r, "enable_moe_block")) return;
    c->n_experts = config_u32(r, "num_experts", 1024);
    c->n_experts_used = config_u32(r, "top_k_experts", c->n_experts);
    c->n_ff_expert = config_u32(r, "moe_intermediate_size", CONFIG_WIDTH_MAX);
}

void convert_dense_read(config_reader *r, convert_config *c)
{
    const json_t *types = config_get(r->root, "mlp_layer_types"), *one;
    size_t i;
    bool is_sparse = false;
    c->n_dense = types ? 0 : 1;
    json_array_foreach(types, i, one) {
        const bool sparse = json_string_value(one) && !strcmp(json_string_value(one), "sparse");
        if (is_sparse && !sparse)
            config_refuse(r, "only the first layers can be dense", "mlp_layer_types");
        is_sparse |= sparse;
        if (!sparse && i < c->n_layers) c->n_dense++;
    }
}

static void read_laguna(config_reader *r, convert_config *c)
{
    const json_t *heads = config_get(r->root, "num_attention_heads_per_layer"), *one;
    const json_t *gating = config_get(r->root, "gating");
    const char *gate = json_string_value(gating);
    size_t i;
    if (heads && json_array_size(heads) != c->n_layers)
        config_refuse(r, "must have a number for each layer", "num_attention_heads_per_layer");
    json_array_foreach(heads, i, one) {
        const json_int_t n = json_integer_value(one);
        if (n < 1 || n > 4096 || n % c->n_kv_heads)
            config_refuse(r, "is out of range", "num_attention_heads_per_layer");
        else if (i < c->n_layers)
            c->layer_heads[i] = (uint32_t)n;
    }
    const bool is_per_head = !gating || json_is_true(gating) || (gate && !strcmp(gate, "per-head"));
    c->n_gates = is_per_head ? 1 : c->head_dim;
    if (!is_per_head && !(gate && !strcmp(gate, "per-element")))
        config_refuse(r, "is neither per-head nor per-element", "gating");
    convert_dense_read(r, c);
    c->weights_sum_to_one = true;
    c->n_experts = config_u32(r, "num_experts", 1024);
    c->n_experts_used = config_u32(r, "num_experts_per_tok", c->n_experts);
    c->n_ff_expert = config_u32(r, "moe_intermediate_size", CONFIG_WIDTH_MAX);
    c->n_ff_shared = config_u32(r, "shared_expert_intermediate_size", CONFIG_WIDTH_MAX);
    c->expert_scale = config_number(r, r->root, "moe_routed_scaling_factor", 1);
    if (json_number_value(config_get(r->root, "moe_router_logit_softcapping")) != 0)
        config_refuse(r, "is not supported", "moe_router_logit_softcapping");
    if (is_true(r, "moe_apply_router_weight_on_input"))
        config_refuse(r, "is not supported", "moe_apply_router_weight_on_input");
}

void convert_layered_read(config_reader *r, convert_config *c)
{
    for (uint32_t i = 0; i < c->n_layers; i++) {
        c->layer_heads[i] = c->n_heads;
        c->layer_kv_heads[i] = c->n_kv_heads;
        c->layer_dim[i] = c->head_dim;
    }
    if (r->status) return;
    if (c->arch == CONVERT_GEMMA4) read_gemma4(r, c);
    if (c->arch == CONVERT_LAGUNA) read_laguna(r, c);
}

/* ---- writing ---- */

static void put_by_layer(const config_writer *k, const char *name, const uint32_t *values,
                         uint32_t n)
{
    char key[96];
    gguf_write_array(k->w, config_key(k, name, key), GGUF_UINT32, values, n);
}

static void put_gemma4(const config_writer *k, const convert_config *c)
{
    uint32_t widths[CONVERT_LAYERS_MAX];
    for (uint32_t i = 0; i < c->n_layers; i++)
        widths[i] = c->n_ff << (c->is_double_wide && i >= c->n_layers - c->n_shared_kv);
    put_by_layer(k, "feed_forward_length", widths, c->n_layers);
    config_put_u32(k, "attention.head_count", c->n_heads);
    put_by_layer(k, "attention.head_count_kv", c->layer_kv_heads, c->n_layers);
    config_put_u32(k, "attention.key_length", c->global_dim);
    config_put_u32(k, "attention.value_length", c->global_dim);
    config_put_u32(k, "attention.key_length_swa", c->head_dim);
    config_put_u32(k, "attention.value_length_swa", c->head_dim);
    config_put_u32(k, "rope.dimension_count", c->global_dim);
    config_put_u32(k, "rope.dimension_count_swa", c->head_dim);
    config_put_u32(k, "attention.shared_kv_layers", c->n_shared_kv);
    config_put_u32(k, "embedding_length_per_layer_input", c->n_layer_input);
}

void convert_layered_write(const config_writer *k, const convert_config *c)
{
    enum { SIGMOID = 2 };
    char key[96];
    if (c->arch == CONVERT_GEMMA4) {
        put_gemma4(k, c);
        return;
    }
    if (convert_is_nemotron(c)) {
        convert_nemotron_write(k, c);
        return;
    }
    if (c->n_ff > 1) config_put_u32(k, "feed_forward_length", c->n_ff);
    if (c->arch == CONVERT_LAGUNA)
        put_by_layer(k, "attention.head_count", c->layer_heads, c->n_layers);
    else
        config_put_u32(k, "attention.head_count", c->n_heads);
    if (c->arch == CONVERT_GRANITEHYBRID)
        put_by_layer(k, "attention.head_count_kv", c->layer_kv_heads, c->n_layers);
    else
        config_put_u32(k, "attention.head_count_kv", c->n_kv_heads);
    if (c->names_head_dim) {
        config_put_u32(k, "attention.key_length", c->head_dim);
        config_put_u32(k, "attention.value_length", c->head_dim);
    }
    if (c->arch != CONVERT_LAGUNA) return;
    if (c->window) config_put_u32(k, "rope.dimension_count_swa", c->head_dim);
    config_put_u32(k, "expert_gating_func", SIGMOID);
    config_put_u32(k, "leading_dense_block_count", c->n_dense);
    config_put_u32(k, "expert_shared_feed_forward_length", c->n_ff_shared);
    config_put_f32(k, "expert_weights_scale", c->expert_scale);
    gguf_write_bool(k->w, config_key(k, "expert_weights_norm", key), c->weights_sum_to_one);
}
