/* convert_drafters.c - drafters that were made for one model (EAGLE-3, DFlash, DSpark): what their
 * config.json says beside their layers, and the resulting keys.
 *
 * It comes in several forms: of the method's authors, of SpecForge, and of speculators (vLLM),
 * where the layers are an object of their own.  Keys are in docs/formats.md. */
#include "convert/convert_states.h"

/* ---- reading ---- */

/* A flag that is a key of one of two objects. */
static bool flag_of(const json_t *first, const json_t *second, const char *key, bool otherwise)
{
    const json_t *value = config_get(first, key);
    if (!value) value = config_get(second, key);
    return value ? json_is_true(value) : otherwise;
}

/* The list of layers, each plus `more`. */
static void read_list(config_reader *w, convert_drafter *d, const json_t *list, const char *key,
                      uint32_t more)
{
    const json_t *one;
    size_t i;
    if (json_array_size(list) > CONVERT_READ_MAX) {
        config_refuse(w, "has more layers than are supported", key);
        return;
    }
    d->n_layers = 0;
    json_array_foreach(list, i, one) {
        int64_t n = -1;
        if (!config_whole(one, &n) || n < 0 || n >= CONVERT_LAYERS_MAX ||
            (i > 0 && n + more <= d->layers[i - 1])) {
            config_refuse(w, "must be numbers of layers that ascend", key);
            return;
        }
        d->layers[d->n_layers++] = (uint32_t)n + more;
    }
}

/* Numbers of layers whose inputs are read, or, where they begin with 1, of layers whose outputs
 * are: nobody reads the input of the second layer (SGLang's rule, pull request 25454). */
static void read_eagle_layers(config_reader *w, convert_drafter *d)
{
    static const char key[] = "eagle_aux_hidden_state_layer_ids";
    const json_t *list = config_get(w->root, key);
    if (!json_array_size(list)) list = config_get(config_get(w->root, "eagle_config"), key);
    const json_t *first = json_array_get(list, 0);
    read_list(w, d, list, key, json_is_number(first) && json_number_value(first) == 1);
}

static void read_eagle3(config_reader *w, convert_config *c)
{
    convert_drafter *d = &c->drafter;
    read_eagle_layers(w, d);
    d->norms_residual = json_is_true(config_get(w->root, "norm_before_residual"));
    d->norms_input = json_is_true(config_get(w->root, "norm_before_fc"));
    d->norms_each = json_is_true(config_get(w->root, "fc_norm"));
    d->norms_output = json_is_true(config_get(w->root, "norm_output"));
    if (d->norms_input && d->norms_each)
        config_refuse(w, "what is read has one norm, or one for each layer", "fc_norm");
}

/* Layers with a window: a list, or all of them. */
static void read_windows(config_reader *r, const json_t *more, convert_config *c)
{
    const bool all = json_is_true(config_get(more, "use_swa"));
    bool has = all;
    config_layer_types(r, "sliding_attention", c->n_layers, c->is_windowed);
    for (uint32_t i = 0; i < c->n_layers; i++) {
        c->is_windowed[i] |= all;
        has |= c->is_windowed[i];
    }
    if (!has) return;
    const double own = config_number(r, more, "swa_window_size", 0);
    c->window = own >= 1 && own <= CONFIG_WIDTH_MAX
                    ? (uint32_t)own : config_u32(r, "sliding_window", CONFIG_WIDTH_MAX);
}

static void read_block(config_reader *w, const json_t *more, convert_drafter *d, uint32_t n_vocab)
{
    config_reader in = *w;
    int64_t mask = -1;
    if (!config_get(w->root, "block_size")) in.root = more;
    d->n_block = config_u32_or(&in, "block_size", 64, 16);
    if (!w->status) w->status = in.status;
    const json_t *id = config_get(more, "mask_token_id");
    if (!id) id = config_get(w->root, "mask_token_id");
    if (!config_whole(id, &mask) || mask < 0 || mask >= n_vocab)
        config_refuse(w, id ? "is not the id of a token" : "is missing", "mask_token_id");
    else
        d->mask = (uint32_t)mask;
}

/* speculators lists layers whose inputs are read, the others those whose outputs are. */
static void read_block_layers(config_reader *w, const json_t *more, convert_drafter *d)
{
    const char *key = "aux_hidden_state_layer_ids";
    const json_t *list = config_get(w->root, key);
    const bool is_inputs = list != NULL;
    if (!list) list = config_get(more, key = "target_layer_ids");
    if (!list) list = config_get(w->root, key);
    if (!json_array_size(list)) config_refuse(w, "is missing", key);
    read_list(w, d, list, key, !is_inputs);
}

/* Relatives of DFlash that need more than is here, and may be called DFlash. */
static void refuse_kin(config_reader *w, const json_t *more)
{
    static const char *const kin[][2] = {
        {"domino", "Domino is not supported, only DFlash and DSpark"},
        {"causal_v5", "Domino is not supported, only DFlash and DSpark"},
        {"dflash2", "DFlash2 is not supported, only DFlash and DSpark"},
    };
    static const char key[] = "projector_type";
    const char *kind = config_text(more, key);
    if (!kind) kind = config_text(w->root, key);
    for (size_t i = 0; kind && i < ARRAY_LEN(kin); i++)
        if (!strcmp(kind, kin[i][0])) config_refuse(w, kin[i][1], key);
    if (config_get(more, "selector_rank")) config_refuse(w, kin[2][1], "selector_rank");
}

static void read_dflash(config_reader *r, config_reader *w, convert_config *c)
{
    convert_drafter *d = &c->drafter;
    const json_t *more = config_get(w->root, "dflash_config");
    const bool is_speculators = w->root != r->root;
    refuse_kin(w, more);
    read_block_layers(w, more, d);
    read_block(w, more, d, c->n_vocab);
    read_windows(r, more, c);
    d->has_causal = config_get(w->root, "is_causal") || config_get(more, "causal");
    d->is_causal = flag_of(w->root, NULL, "is_causal", flag_of(more, NULL, "causal", false));
    d->says_first = flag_of(w->root, more, "sample_from_anchor", d->is_dspark && !is_speculators);
    c->embedding_scale = config_number(w, w->root, "input_embedding_scale", 0);
    c->embedding_scale = config_number(w, more, "input_embedding_scale", c->embedding_scale);
    if (is_speculators && c->window && !flag_of(w->root, NULL, "sliding_window_non_causal", false))
        config_refuse(w, "windows in which a block's rows do not see later ones are not supported",
                      "sliding_window_non_causal");
    if (d->says_first && !d->is_dspark)
        config_refuse(w, "is supported for DSpark only", "sample_from_anchor");
    const char *kind = config_text(more, "markov_head_type");
    if (!kind) kind = config_text(w->root, "markov_head_type");
    if (kind && strcmp(kind, "vanilla") != 0)
        config_refuse(w, "only vanilla is supported", "markov_head_type");
    if (config_number(w, more, "attention_value_scale", 1) != 1)
        config_refuse(w, "is not supported", "attention_value_scale");
    if (!flag_of(w->root, more, "rope_is_neox_style", true))
        config_refuse(w, "rotation of neighbours is not supported", "rope_is_neox_style");
}

void convert_drafters_read(config_reader *r, convert_config *c)
{
    config_reader w = *r;
    if (!convert_is_drafter(c) || r->status) return;
    w.root = r->whole;
    c->drafter.n_said = config_u32_or(&w, "draft_vocab_size", c->n_vocab, c->n_vocab);
    c->drafter.n_embd = config_u32_or(&w, "target_hidden_size", CONFIG_WIDTH_MAX, 0);
    if (c->arch == CONVERT_EAGLE3)
        read_eagle3(&w, c);
    else
        read_dflash(r, &w, c);
    if (!r->status) r->status = w.status;
}

/* ---- writing ---- */

static void put_flag(const config_writer *k, const char *name, bool value)
{
    char key[96];
    gguf_write_bool(k->w, config_key(k, name, key), value);
}

void convert_drafters_write(const config_writer *k, const convert_config *c)
{
    const convert_drafter *d = &c->drafter;
    char key[96];
    if (!convert_is_drafter(c)) return;
    gguf_write_array(k->w, config_key(k, "target_layers", key), GGUF_UINT32, d->layers,
                     d->n_layers);
    if (c->arch == CONVERT_EAGLE3) {
        config_put_u32(k, "target_hidden_size", d->n_embd);
        put_flag(k, "norm_before_residual", d->norms_residual);
        put_flag(k, "norm_before_fc", d->norms_input);
        if (d->norms_output) put_flag(k, "norm_output", true);
        return;
    }
    config_put_u32(k, "block_size", d->n_block);
    gguf_write_u32(k->w, "tokenizer.ggml.mask_token_id", d->mask);
    if (c->window)
        gguf_write_array(k->w, config_key(k, "attention.sliding_window_pattern", key), GGUF_BOOL,
                         c->is_windowed, c->n_layers);
    if (d->has_causal) put_flag(k, "attention.causal", d->is_causal);
    if (d->is_dspark) put_flag(k, "sample_from_anchor", d->says_first);
    if (d->is_dspark) put_flag(k, "has_confidence_head", d->has_confidence);
    if (!d->has_sections) return;
    const uint32_t sections[4] = {c->head_dim / 2}; /* only the first of four positions */
    gguf_write_array(k->w, config_key(k, "rope.dimension_sections", key), GGUF_UINT32, sections, 4);
}
