/* convert_tensors.c - the tensors of a GGUF file, and their sources in safetensors: layer by layer,
 * and those of the whole model. */
#include "base/memory.h"
#include "convert/convert_fp4.h"

enum { LAYER_TENSORS_MAX = 24, OTHER_TENSORS = 7, MTP_TENSORS = 6 };

/* ---- the plan ---- */

/* Of the whole model: the input of every layer from a token. */
static void plan_layer_inputs(planner *p)
{
    const convert_config *c = p->c;
    const uint64_t all = (uint64_t)c->n_layers * c->n_layer_input;
    char name[80];
    if (!c->n_layer_input) return;
    snprintf(name, sizeof name, "%sembed_tokens_per_layer.weight", p->prefix);
    plan_plain(p, UINT32_MAX, name, "per_layer_token_embd.weight", c->n_vocab, all, false);
    snprintf(name, sizeof name, "%sper_layer_model_projection.weight", p->prefix);
    plan_plain(p, UINT32_MAX, name, "per_layer_model_proj.weight", all, c->n_embd, false);
    snprintf(name, sizeof name, "%sper_layer_projection_norm.weight", p->prefix);
    plan_plain(p, UINT32_MAX, name, "per_layer_proj_norm.weight", c->n_layer_input, 0, false);
}

static void plan_nemotron_layer(planner *p, uint32_t i)
{
    static const char *const experts[3] = {NULL, "up_proj", "down_proj"};
    const convert_config *c = p->c;
    const uint32_t e = c->n_embd, ff = c->layer_ff[i], shared = c->n_ff_shared;
    const uint32_t q = c->n_heads * c->head_dim, kv = c->n_kv_heads * c->head_dim;
    const uint32_t latent = c->n_expert_latent;
    plan_plain(p, i, "norm.weight", "attn_norm.weight", e, 0, false);
    if (c->is_recurrent[i]) {
        plan_mamba(p, i, "mixer");
    } else if (c->layer_kv_heads[i]) {
        plan_plain(p, i, "mixer.q_proj.weight", "attn_q.weight", q, e, false);
        plan_plain(p, i, "mixer.k_proj.weight", "attn_k.weight", kv, e, false);
        plan_plain(p, i, "mixer.v_proj.weight", "attn_v.weight", kv, e, false);
        plan_plain(p, i, "mixer.o_proj.weight", "attn_output.weight", e, q, false);
    } else if (c->has_experts[i]) {
        plan_experts(p, i, "mixer", experts);
        if (latent) {
            plan_plain(p, i, "mixer.fc1_latent_proj.weight", "ffn_latent_down.weight", latent, e,
                       false);
            plan_plain(p, i, "mixer.fc2_latent_proj.weight", "ffn_latent_up.weight", e, latent,
                       false);
        }
        plan_plain(p, i, "mixer.gate.e_score_correction_bias", "exp_probs_b.bias", c->n_experts, 0,
                   false);
        plan_plain(p, i, "mixer.shared_experts.up_proj.weight", "ffn_up_shexp.weight", shared, e,
                   false);
        plan_plain(p, i, "mixer.shared_experts.down_proj.weight", "ffn_down_shexp.weight", e,
                   shared, false);
    } else {
        plan_plain(p, i, "mixer.up_proj.weight", "ffn_up.weight", ff, e, false);
        plan_plain(p, i, "mixer.down_proj.weight", "ffn_down.weight", e, ff, false);
    }
}

static void plan_layer(planner *p, uint32_t i)
{
    const convert_config *c = p->c;
    if (convert_is_nemotron(c)) {
        plan_nemotron_layer(p, i);
        return;
    }
    const bool is_gemma = c->arch == CONVERT_GEMMA3 || c->arch == CONVERT_GEMMA4;
    const bool is_post = is_gemma || c->arch == CONVERT_GPT_OSS || c->arch == CONVERT_SEED_OSS ||
                         c->arch == CONVERT_GLM4MOE || convert_has_states(c);
    const char *second = is_post ? "post_attention_norm" : "ffn_norm";
    char to[32];
    plan_norm(p, i, "input_layernorm.weight", "attn_norm.weight", c->n_embd, false);
    plan_plain(p, i, "input_layernorm.bias", "attn_norm.bias", c->n_embd, 0, true);
    snprintf(to, sizeof to, "%s.weight", second);
    plan_norm(p, i, "post_attention_layernorm.weight", to, c->n_embd, false);
    snprintf(to, sizeof to, "%s.bias", second);
    plan_plain(p, i, "post_attention_layernorm.bias", to, c->n_embd, 0, true);
    if (is_gemma) {
        plan_norm(p, i, "pre_feedforward_layernorm.weight", "ffn_norm.weight", c->n_embd, false);
        plan_norm(p, i, "post_feedforward_layernorm.weight", "post_ffw_norm.weight", c->n_embd,
                  false);
    }
    if (c->is_recurrent[i] && convert_has_scans(c))
        plan_mamba(p, i, "mamba");
    else if (c->is_recurrent[i])
        plan_recurrent(p, i);
    else if (c->n_latent)
        plan_latents(p, i);
    else
        plan_attention(p, i);
    plan_feed_forward(p, i);
}

/* A head for the token after the next: a layer after the others, between two joined inputs and an
 * output that may be its own. */
static void plan_mtp(planner *p)
{
    static const char *const qwen[MTP_TENSORS][2] = {
        {"mtp.fc", "eh_proj"}, {"mtp.pre_fc_norm_embedding", "enorm"},
        {"mtp.pre_fc_norm_hidden", "hnorm"}, {"mtp.norm", "shared_head_norm"},
        {"mtp.embed_tokens", "embed_tokens"}, {"mtp.shared_head.head", "shared_head_head"}};
    static const char *const glm[MTP_TENSORS] = {"eh_proj", "enorm", "hnorm", "shared_head.norm",
                                                 "embed_tokens", "shared_head.head"};
    const convert_config *c = p->c;
    const uint32_t layer = c->n_layers, e = c->n_embd;
    char from[96], to[64], of_layer[64];
    if (!c->has_mtp) return;
    plan_layer(p, layer);
    for (uint32_t i = 0; i < MTP_TENSORS; i++) {
        if (convert_has_states(c))
            snprintf(from, sizeof from, "%s.weight", qwen[i][0]);
        else
            snprintf(from, sizeof from, "%s%s.weight", plan_layer_name(p, layer, of_layer), glm[i]);
        snprintf(to, sizeof to, "blk.%u.nextn.%s.weight", layer, qwen[i][1]);
        if (i == 0)
            plan_plain(p, UINT32_MAX, from, to, e, 2 * e, false);
        else if (i < 4)
            plan_norm(p, UINT32_MAX, from, to, e, i == 3);
        else
            plan_plain(p, UINT32_MAX, from, to, c->n_vocab, e, true);
    }
}

/* Tensors of a layer that are not converted separately: computed tables, and scales, which are
 * found by their weights' names. Experts are found by their own names. */
static bool says_nothing(const char *name)
{
    static const char *const parts[] = {".experts.", "rotary_emb", "_scale"};
    if (strstr(name, "pre_quant_scale")) return false; /* of the columns of a matrix (AWQ) */
    for (size_t i = 0; i < ARRAY_LEN(parts); i++)
        if (strstr(name, parts[i])) return true;
    return false;
}

bool plan_uses(const planner *p, const safetensor *t)
{
    bool uses = says_nothing(t->name);
    for (size_t k = 0; k < p->n && !uses; k++) uses = p->all[k].from == t || p->all[k].scales == t;
    return uses;
}

/* Of the block that is run: later blocks predict tokens beyond the next. */
static bool is_of_layers(const planner *p, const char *name)
{
    const size_t len = strlen(p->prefix);
    if (p->c->has_mtp && !strncmp(name, "mtp.", 4)) return true;
    if (strncmp(name, p->prefix, len) != 0 || strncmp(name + len, "layers.", 7) != 0) return false;
    const unsigned long layer = strtoul(name + len + 7, NULL, 10);
    return p->c->has_mtp || !(p->c->n_ahead && layer >= p->c->n_layers &&
                              layer < (unsigned long)p->c->n_layers + p->c->n_ahead);
}

/* Every weight must be converted: without one it would be a different model. */
static int look_for_rest(const planner *p, cerium_error *err)
{
    for (size_t i = 0; i < p->set->n; i++) {
        const safetensor *t = &p->set->tensors[i];
        if (is_of_layers(p, t->name) && !plan_uses(p, t))
            return error_set(err, CERIUM_ERR_FORMAT,
                             "tensor %s would be left out: config.json has nothing for it",
                             t->name);
    }
    return CERIUM_OK;
}

/* Beside a vision model the decoder's names begin in one of two ways. */
void plan_find_prefix(planner *p)
{
    static const char *const known[] = {"language_model.model.", "model.language_model.", "model."};
    char name[64];
    if (convert_is_nemotron(p->c)) {
        p->prefix = "backbone.";
        if (!plan_find(p, UINT32_MAX, "backbone.embeddings.weight")) p->prefix = "model.";
        return;
    }
    for (size_t i = 0; i < ARRAY_LEN(known); i++) {
        p->prefix = known[i];
        snprintf(name, sizeof name, "%sembed_tokens.weight", p->prefix);
        if (plan_find(p, UINT32_MAX, name)) return;
    }
}

void convert_find_mtp(convert_config *c, const safetensors *set)
{
    planner p = {.c = c, .set = set};
    const uint32_t n = c->n_layers;
    bool has = false;
    plan_find_prefix(&p);
    if (convert_has_states(c)) /* config.json rarely has it */
        has = c->n_ahead <= 1 && safetensors_find(set, "mtp.fc.weight") &&
              !plan_find(&p, n + 1, "input_layernorm.weight");
    else if (c->arch == CONVERT_GLM4MOE)
        has = c->n_ahead == 1 && plan_find(&p, n, "eh_proj.weight");
    if (!has || n == CONVERT_LAYERS_MAX) return;
    c->has_mtp = true;
    c->layer_heads[n] = c->layer_heads[n - 1];
    c->layer_kv_heads[n] = c->layer_kv_heads[n - 1];
    c->layer_dim[n] = c->layer_dim[n - 1];
    c->is_recurrent[n] = false;
}

int convert_plan(convert_tensor **out, size_t *n, const convert_config *c, const safetensors *set,
                 const block_type *type, cerium_error *err)
{
    planner p = {.c = c, .set = set, .type = type, .err = err,
                 .cap = ((size_t)c->n_layers + c->has_mtp) * LAYER_TENSORS_MAX +
                        OTHER_TENSORS + MTP_TENSORS + 1};
    p.cap *= 2; /* plan_fp4() */
    p.all = memory_zalloc(p.cap, sizeof *p.all);
    if (!p.all) return error_set(err, CERIUM_ERR_MEMORY, "no memory for a list of tensors");
    const uint32_t none = UINT32_MAX;
    char name[64];
    plan_find_prefix(&p);
    const bool is_nemotron = convert_is_nemotron(c);
    snprintf(name, sizeof name, "%s%s.weight", p.prefix,
             is_nemotron ? "embeddings" : "embed_tokens");
    plan_plain(&p, none, name, "token_embd.weight", c->n_vocab, c->n_embd, false);
    plan_layer_inputs(&p);
    if (c->rope == ROPE_LLAMA3 || c->rope == ROPE_PROPORTIONAL) {
        const uint32_t dim = c->rope == ROPE_LLAMA3 ? c->head_dim : c->global_dim;
        const convert_tensor t = {.name = "rope_freqs.weight", .rows = ROWS_DIVISORS, .n_dims = 1,
                                  .dims = {dim / 2, 1, 1, 1}};
        plan_add(&p, &t);
    }
    for (uint32_t i = 0; !p.status && i < c->n_layers; i++) plan_layer(&p, i);
    plan_mtp(&p);
    snprintf(name, sizeof name, "%s%s.weight", p.prefix, is_nemotron ? "norm_f" : "norm");
    plan_norm(&p, none, name, "output_norm.weight", c->n_embd, false);
    snprintf(name, sizeof name, "%snorm.bias", p.prefix);
    plan_plain(&p, none, name, "output_norm.bias", c->n_embd, 0, true);
    const char *head = plan_find(&p, none, "language_model.lm_head.weight")
                           ? "language_model.lm_head.weight" : "lm_head.weight";
    if (!c->is_tied) plan_plain(&p, none, head, "output.weight", c->n_vocab, c->n_embd, false);
    if (!p.status) p.status = look_for_rest(&p, err);
    plan_fp4(&p);
    if (p.status) {
        memory_free(p.all);
        return p.status;
    }
    *out = p.all;
    *n = p.n;
    return CERIUM_OK;
}
