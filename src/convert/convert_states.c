/* convert_states.c - layers with a recurrent state (Qwen3-Next, Qwen3.5): their configuration, the
 * resulting keys, and the order of heads, which differs in GGUF files.
 *
 * qwen35: if there are more heads of values than of keys, those of one key follow each other in the
 * source; in the file head p belongs to key p modulo the number of keys.  qwen3next keeps the
 * order, but its q, k, v and z lie together key by key, and the file has them apart. */
#include "convert/convert_states.h"

bool convert_has_states(const convert_config *c)
{
    return c->arch == CONVERT_QWEN35 || c->arch == CONVERT_QWEN35MOE ||
           c->arch == CONVERT_QWEN3NEXT;
}

/* ---- reading ---- */

static void read_layers(config_reader *r, convert_config *c)
{
    uint32_t every = config_u32_or(r, "full_attention_interval", CONVERT_LAYERS_MAX, 4);
    for (uint32_t i = 0; i < c->n_layers; i++) c->is_recurrent[i] = (i + 1) % every != 0;
    config_layer_types(r, "linear_attention", c->n_layers, c->is_recurrent);
}

/* Text has one position: sections of the rotation must sum to all turning channels. */
static void read_sections(config_reader *r, convert_config *c)
{
    const json_t *rope = config_get(r->root, "rope_parameters");
    if (!config_get(rope, "mrope_section")) rope = config_get(r->root, "rope_scaling");
    const json_t *sections = config_get(rope, "mrope_section"), *one;
    uint32_t sum = 0;
    size_t i;
    if (!sections) return;
    json_array_foreach(sections, i, one) {
        if (i >= 3 || !json_is_integer(one) || json_integer_value(one) < 0 ||
            json_integer_value(one) > c->n_rot)
            config_refuse(r, "is out of range", "mrope_section");
        else
            sum += c->sections[i] = (uint32_t)json_integer_value(one);
    }
    if (sum != c->n_rot / 2) config_refuse(r, "is not half of what turns", "mrope_section");
}

void convert_states_read(config_reader *r, convert_config *c)
{
    const json_t *gate = config_get(r->root, "attn_output_gate");
    if (r->status || !convert_has_states(c)) return;
    c->n_taps = config_u32_or(r, "linear_conv_kernel_dim", 64, 4);
    c->key_dim = config_u32_or(r, "linear_key_head_dim", 65536, 128);
    c->value_dim = config_u32_or(r, "linear_value_head_dim", 65536, 128);
    c->n_key_heads = config_u32_or(r, "linear_num_key_heads", 4096, 16);
    c->n_value_heads = config_u32_or(r, "linear_num_value_heads", 4096, 32);
    if (json_integer_value(config_get(r->root, "mtp_num_hidden_layers")) > 0)
        c->n_ahead = config_u32(r, "mtp_num_hidden_layers", 64);
    if (r->status) return;
    if (c->n_value_heads % c->n_key_heads)
        config_refuse(r, "does not divide the heads of values", "linear_num_key_heads");
    if (gate && !json_is_true(gate))
        config_refuse(r, "attention without a gate is not supported", "attn_output_gate");
    read_layers(r, c);
    read_sections(r, c);
    if (c->arch == CONVERT_QWEN35) return;
    c->n_experts = config_u32(r, "num_experts", 4096);
    c->n_experts_used = config_u32(r, "num_experts_per_tok", c->n_experts);
    c->n_ff_expert = config_u32(r, "moe_intermediate_size", CONFIG_WIDTH_MAX);
    c->n_ff_shared = config_u32(r, "shared_expert_intermediate_size", CONFIG_WIDTH_MAX);
    const json_t *norm = config_get(r->root, "norm_topk_prob");
    if (norm && !json_is_true(norm))
        config_refuse(r, "weights of experts that do not sum to 1 are not supported",
                      "norm_topk_prob");
    if (config_u32_or(r, "decoder_sparse_step", 64, 1) != 1 ||
        json_array_size(config_get(r->root, "mlp_only_layers")) > 0)
        config_refuse(r, "layers without experts are not supported", "decoder_sparse_step");
}

/* ---- writing ---- */

void convert_state_sizes_write(const config_writer *k, const convert_config *c)
{
    config_put_u32(k, "ssm.conv_kernel", c->n_taps);
    config_put_u32(k, "ssm.state_size", c->key_dim);
    config_put_u32(k, "ssm.group_count", c->n_key_heads);
    config_put_u32(k, "ssm.time_step_rank", c->n_value_heads);
    config_put_u32(k, "ssm.inner_size", c->n_value_heads * c->value_dim);
}

void convert_states_write(const config_writer *k, const convert_config *c)
{
    const int32_t sections[4] = {(int32_t)c->sections[0], (int32_t)c->sections[1],
                                 (int32_t)c->sections[2], 0};
    bool is_usual = true;
    char key[96];
    if (!convert_has_states(c)) return;
    convert_state_sizes_write(k, c);
    for (uint32_t i = 0; i < c->n_layers; i++) is_usual &= c->is_recurrent[i] == ((i + 1) % 4 != 0);
    if (is_usual)
        config_put_u32(k, "full_attention_interval", 4);
    else
        gguf_write_array(k->w, config_key(k, "attention.recurrent_layers", key), GGUF_BOOL,
                         c->is_recurrent, c->n_layers);
    if (c->sections[0])
        gguf_write_array(k->w, config_key(k, "rope.dimension_sections", key), GGUF_INT32, sections,
                         4);
    if (c->n_ff_shared) config_put_u32(k, "expert_shared_feed_forward_length", c->n_ff_shared);
}

/* ---- rows ---- */

uint32_t convert_state_channels(const convert_config *c)
{
    return 2 * c->n_key_heads * c->key_dim + c->n_value_heads * c->value_dim;
}

/* Row r of heads of `width` rows, in the file's order, is this row of the source. */
static uint64_t tiled(const convert_config *c, uint64_t r, uint32_t width)
{
    const uint32_t per_key = c->n_value_heads / c->n_key_heads;
    const uint64_t head = r / width;
    return (head % c->n_key_heads * per_key + head / c->n_key_heads) * width + r % width;
}

/* Of qwen3next: rows of a key are its q, its k, the values and the gates z of its heads. */
static uint64_t apart(const convert_config *c, uint64_t r, bool is_gate)
{
    const uint64_t keys = (uint64_t)c->n_key_heads * c->key_dim;
    const uint64_t values = (uint64_t)c->n_value_heads / c->n_key_heads * c->value_dim;
    const uint64_t of_key = 2 * c->key_dim + 2 * values;
    if (is_gate) return r / values * of_key + 2 * c->key_dim + values + r % values;
    if (r < 2 * keys) {
        const uint64_t at = r % keys;
        return at / c->key_dim * of_key + r / keys * c->key_dim + at % c->key_dim;
    }
    r -= 2 * keys;
    return r / values * of_key + 2 * c->key_dim + r % values;
}

uint64_t convert_state_row(const convert_config *c, convert_heads heads, uint64_t r)
{
    const uint64_t keys = 2 * (uint64_t)c->n_key_heads * c->key_dim;
    switch (heads) {
    case HEADS_OF_VALUES: return tiled(c, r, c->value_dim);
    case HEADS_BEHIND_KEYS: return r < keys ? r : keys + tiled(c, r - keys, c->value_dim);
    case HEADS_ONE_ROW: return tiled(c, r, 1);
    case HEADS_APART: return apart(c, r, false);
    case HEADS_APART_GATE: return apart(c, r, true);
    }
    return r;
}
