/* convert_scans.c - Granite 4's hybrids, most of whose layers keep a state (Mamba-2): their
 * configuration, and the resulting keys.
 *
 * Models of the same class without such layers become granite or granitemoe. */
#include <math.h>

#include "convert/convert_states.h"

bool convert_has_scans(const convert_config *c) { return c->arch == CONVERT_GRANITEHYBRID; }

/* ---- reading ---- */

/* Files of transformers before 5.0 have other names. */
static void read_layers(config_reader *r, convert_config *c)
{
    const json_t *types = config_get(r->root, "layer_types"), *one;
    bool attends = false, keeps_state = false;
    size_t i;
    if (json_array_size(types) != c->n_layers) {
        config_refuse(r, "must have an entry for each layer", "layer_types");
        return;
    }
    json_array_foreach(types, i, one) {
        const char *type = json_string_value(one);
        const bool keeps = type && (!strcmp(type, "mamba") || !strcmp(type, "linear_attention"));
        if (!keeps && (!type || (strcmp(type, "attention") && strcmp(type, "full_attention"))))
            config_refuse(r, "a kind of layer that is not supported", "layer_types");
        c->is_recurrent[i] = keeps;
        if (keeps) c->layer_kv_heads[i] = 0;
        keeps_state |= keeps;
        attends |= !keeps;
    }
    if (!attends) config_refuse(r, "no layer attends: not supported", "layer_types");
    if (!keeps_state) c->arch = c->n_experts ? CONVERT_GRANITEMOE : CONVERT_GRANITE;
}

/* Without experts, what every row uses is the feed-forward. */
static void read_experts(config_reader *r, convert_config *c)
{
    const json_t *n = config_get(r->root, "num_local_experts");
    const bool has_experts = !json_is_integer(n) || json_integer_value(n) != 0;
    const uint32_t shared =
        config_u32_or(r, "shared_intermediate_size", CONFIG_WIDTH_MAX, 1024);
    c->n_ff_expert = c->n_ff;
    if (has_experts) {
        c->n_experts = config_u32_or(r, "num_local_experts", 1024, 8);
        c->n_experts_used = config_u32_or(r, "num_experts_per_tok", c->n_experts, 2);
        c->n_ff_shared = shared;
    } else {
        c->n_ff = shared;
    }
}

/* Steps are not limited in any published model. */
void convert_scans_check(config_reader *r)
{
    const json_t *limit = config_get(r->root, "time_step_limit");
    const json_t *high = json_array_get(limit, 1);
    if (json_number_value(json_array_get(limit, 0)) > 0 ||
        (json_is_number(high) && json_number_value(high) < 1e30))
        config_refuse(r, "limits of steps are not supported", "time_step_limit");
    if (json_is_true(config_get(r->root, "mamba_proj_bias")))
        config_refuse(r, "biases of projections are not supported", "mamba_proj_bias");
}

static void read_sizes(config_reader *r, convert_config *c)
{
    c->n_taps = config_u32_or(r, "mamba_d_conv", 64, 4);
    c->key_dim = config_u32_or(r, "mamba_d_state", 65536, 256);
    c->n_key_heads = config_u32_or(r, "mamba_n_groups", 4096, 1);
    c->n_value_heads = config_u32_or(r, "mamba_n_heads", 4096, 128);
    const uint64_t inner = (uint64_t)config_u32_or(r, "mamba_expand", 64, 2) * c->n_embd;
    if (r->status) return;
    c->value_dim = (uint32_t)(inner / c->n_value_heads);
    const json_t *head = config_get(r->root, "mamba_d_head");
    if (inner % c->n_value_heads || (json_is_integer(head) &&
                                     json_integer_value(head) != (json_int_t)c->value_dim))
        config_refuse(r, "does not agree with mamba_expand", "mamba_n_heads");
    else if (c->n_value_heads % c->n_key_heads)
        config_refuse(r, "does not divide the heads", "mamba_n_groups");
    convert_scans_check(r);
}

void convert_scans_read(config_reader *r, convert_config *c)
{
    if (r->status || !convert_has_scans(c)) return;
    const char *positions = config_text(r->root, "position_embedding_type");
    c->is_still = !positions || strcmp(positions, "rope") != 0;
    read_experts(r, c);
    read_layers(r, c);
    if (convert_has_scans(c)) read_sizes(r, c);
}

/* ---- writing ---- */

void convert_scans_write(const config_writer *k, const convert_config *c)
{
    if (convert_has_scans(c)) convert_state_sizes_write(k, c);
}
