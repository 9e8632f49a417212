/* convert_drafter_plan.c - the tensors of a drafter's GGUF file: of EAGLE-3, DFlash and DSpark, by
 * the names of their authors, of SpecForge and of speculators. */
#include <math.h>

#include "base/memory.h"
#include "convert/convert_plan.h"

enum { LAYER_TENSORS_MAX = 16, OTHER_TENSORS = 12 + CONVERT_READ_MAX };

/* A tensor of the whole drafter, which may have the prefix of a decoder. */
static const char *name_of(const safetensors *set, const char *what, char name[96])
{
    snprintf(name, 96, "%s", what);
    if (!safetensors_find(set, name)) snprintf(name, 96, "model.%s", what);
    if (!safetensors_find(set, name)) snprintf(name, 96, "%s", what);
    return name;
}

static const safetensor *find_of(const safetensors *set, const char *what)
{
    char name[96];
    return safetensors_find(set, name_of(set, what, name));
}

/* ---- what config.json leaves open ---- */

/* Of a model with n layers, by default: inputs of layers near the beginning, the middle and the
 * end. */
static int choose_layers(convert_drafter *d, const convert_target *t, cerium_error *err)
{
    if (!t)
        return error_set(err, CERIUM_ERR_FORMAT,
                         "config.json does not say which layers the head reads: name the model "
                         "that it drafts for, a folder or a GGUF file, by --for");
    if (t->n_layers < 7)
        return error_set(err, CERIUM_ERR_FORMAT,
                         "config.json does not say which layers the head reads, and of %u layers "
                         "there are no usual ones", t->n_layers);
    d->n_layers = 3;
    d->layers[0] = 2;
    d->layers[1] = t->n_layers / 2;
    d->layers[2] = t->n_layers - 3;
    return CERIUM_OK;
}

int convert_complete_drafter(convert_config *c, const safetensors *set,
                             const convert_target *target, cerium_error *err)
{
    convert_drafter *d = &c->drafter;
    if (!d->n_layers) RETURN_IF(choose_layers(d, target, err));
    const safetensor *fc = find_of(set, "fc.weight"), *w1;
    if (!fc) return error_set(err, CERIUM_ERR_FORMAT, "tensor fc.weight is missing");
    const uint32_t said = d->n_embd;
    d->n_embd = (uint32_t)(fc->dims[1] / d->n_layers);
    if (fc->n_dims != 2 || fc->dims[0] != c->n_embd || !d->n_embd ||
        fc->dims[1] != (uint64_t)d->n_embd * d->n_layers || (said && said != d->n_embd))
        return error_set(err, CERIUM_ERR_FORMAT,
                         "tensor %s: its shape does not agree with config.json", fc->name);
    if (target && d->n_embd != target->n_embd)
        return error_set(err, CERIUM_ERR_FORMAT,
                         "the drafter was made for a model %u wide, and that one is %u", d->n_embd,
                         target->n_embd);
    if (target && d->layers[d->n_layers - 1] > target->n_layers)
        return error_set(err, CERIUM_ERR_FORMAT,
                         "the drafter reads layer %u, and that model has %u",
                         d->layers[d->n_layers - 1], target->n_layers);
    if (c->arch == CONVERT_EAGLE3) return CERIUM_OK;
    w1 = find_of(set, "markov_head.markov_w1.weight");
    d->n_markov = w1 && w1->n_dims == 2 && w1->dims[1] < CONFIG_WIDTH_MAX ? (uint32_t)w1->dims[1]
                                                                          : 0;
    d->has_confidence = find_of(set, "confidence_head.proj.weight") != NULL;
    d->has_sections = target && target->has_sections;
    if (target && target->is_gemma && c->embedding_scale == 0)
        c->embedding_scale = sqrt(target->n_embd);
    return CERIUM_OK;
}

/* ---- the tokens that it says ---- */

/* Each token of d2t once, and t2d says the same. */
static int check_said(const safetensor *t, const safetensor *is_said, uint32_t n_vocab,
                      cerium_error *err)
{
    uint64_t *seen = memory_zalloc(n_vocab / 64 + 1, sizeof *seen);
    int status = seen ? CERIUM_OK : error_set(err, CERIUM_ERR_MEMORY, "no memory for tokens");
    for (uint64_t i = 0; !status && i < t->dims[0]; i++) {
        const int64_t distance = safetensor_integer(t, i);
        const int64_t token = distance < -(int64_t)i || distance >= n_vocab
                                  ? -1 : distance + (int64_t)i;
        if (token < 0 || token >= n_vocab)
            status = error_set(err, CERIUM_ERR_FORMAT,
                               "tensor d2t: value %llu is no token of the model, which has %u",
                               (unsigned long long)i, n_vocab);
        else if (seen[token / 64] >> token % 64 & 1)
            status = error_set(err, CERIUM_ERR_FORMAT, "tensor d2t has token %lld twice",
                               (long long)token);
        else
            seen[token / 64] |= UINT64_C(1) << token % 64;
    }
    for (uint32_t i = 0; !status && is_said && i < n_vocab; i++)
        if ((safetensor_integer(is_said, i) != 0) != (seen[i / 64] >> i % 64 & 1))
            status = error_set(err, CERIUM_ERR_FORMAT,
                               "tensor t2d does not agree with d2t about token %u", i);
    memory_free(seen);
    return status;
}

static void plan_said(planner *p)
{
    const convert_config *c = p->c;
    const uint32_t n = c->drafter.n_said;
    convert_tensor t = {.name = "d2t", .rows = ROWS_TOKENS, .n_dims = 1, .dims = {n, 1, 1, 1},
                        .from = find_of(p->set, "d2t")};
    const safetensor *is_said = find_of(p->set, "t2d");
    if (p->status) return;
    if (!t.from) {
        if (n != c->n_vocab)
            p->status = error_set(p->err, CERIUM_ERR_FORMAT,
                                  "tensor d2t is missing: the drafter says %u of %u tokens", n,
                                  c->n_vocab);
        return;
    }
    plan_shape(p, t.from, n, 0, 0);
    if (is_said) plan_shape(p, is_said, c->n_vocab, 0, 0);
    if (!p->status && (t.from->type != SAFE_I64 ||
                       (is_said && is_said->type != SAFE_BOOL && is_said->type != SAFE_U8)))
        p->status = error_set(p->err, CERIUM_ERR_FORMAT, "tensor d2t must be I64, and t2d BOOL");
    if (!p->status) p->status = check_said(t.from, is_said, c->n_vocab, p->err);
    plan_add(p, &t);
}

/* ---- the plan ---- */

static convert_tensor *plan_whole(planner *p, const char *from, const char *to, uint64_t rows,
                                  uint64_t columns, bool optional)
{
    char name[96];
    return plan_plain(p, UINT32_MAX, name_of(p->set, from, name), to, rows, columns, optional);
}

static void in_pairs(const planner *p, convert_tensor *t, uint32_t n_heads)
{
    if (!t || p->c->arch != CONVERT_EAGLE3) return;
    t->rows = ROWS_PERMUTED;
    t->n_heads = n_heads;
}

static void plan_drafter_layer(planner *p, uint32_t i)
{
    const convert_config *c = p->c;
    const bool is_head = c->arch == CONVERT_EAGLE3, is_wide = is_head && i == 0;
    const uint32_t e = c->n_embd, in = is_wide ? 2 * e : e, heads[3] = {c->n_heads, c->n_kv_heads};
    const uint64_t q = (uint64_t)c->n_heads * c->head_dim, kv = (uint64_t)c->n_kv_heads *
                                                               c->head_dim;
    char from[64], to[32];
    plan_plain(p, i, "input_layernorm.weight", "attn_norm.weight", e, 0, false);
    if (is_wide) plan_plain(p, i, "hidden_norm.weight", "attn_norm_2.weight", e, 0, false);
    for (int k = 0; k < 3; k++) {
        const uint64_t rows = k == 0 ? q : kv;
        snprintf(from, sizeof from, "self_attn.%c_proj.weight", "qkv"[k]);
        snprintf(to, sizeof to, "attn_%c.weight", "qkv"[k]);
        convert_tensor *t = plan_plain(p, i, from, to, rows, in, false);
        if (k < 2) in_pairs(p, t, heads[k]);
        snprintf(from, sizeof from, "self_attn.%c_proj.bias", "qkv"[k]);
        snprintf(to, sizeof to, "attn_%c.bias", "qkv"[k]);
        t = plan_plain(p, i, from, to, rows, 0, true);
        if (k < 2) in_pairs(p, t, heads[k]);
        if (k == 2) continue;
        snprintf(from, sizeof from, "self_attn.%c_norm.weight", "qk"[k]);
        snprintf(to, sizeof to, "attn_%c_norm.weight", "qk"[k]);
        in_pairs(p, plan_plain(p, i, from, to, c->head_dim, 0, is_head), 1);
    }
    plan_plain(p, i, "self_attn.o_proj.weight", "attn_output.weight", e, q, false);
    plan_plain(p, i, "self_attn.o_proj.bias", "attn_output.bias", e, 0, true);
    plan_plain(p, i, "post_attention_layernorm.weight", "ffn_norm.weight", e, 0, false);
    plan_plain(p, i, "mlp.gate_proj.weight", "ffn_gate.weight", c->n_ff, e, false);
    plan_plain(p, i, "mlp.up_proj.weight", "ffn_up.weight", c->n_ff, e, false);
    plan_plain(p, i, "mlp.down_proj.weight", "ffn_down.weight", e, c->n_ff, false);
}

/* EAGLE-3.1: a norm for each layer that is read. */
static void plan_tap_norms(planner *p)
{
    const convert_drafter *d = &p->c->drafter;
    char name[32];
    for (uint32_t i = 0; d->norms_each && i < d->n_layers; i++) {
        snprintf(name, sizeof name, "fc_norm.%u.weight", i);
        plan_whole(p, name, name, d->n_embd, 0, false);
    }
}

/* What a token says of the next, and how sure the drafter is. */
static void plan_markov(planner *p)
{
    const convert_config *c = p->c;
    const convert_drafter *d = &c->drafter;
    const safetensor *sure = find_of(p->set, "confidence_head.proj.weight");
    const bool is_optional = !d->is_dspark;
    plan_whole(p, "markov_head.markov_w1.weight", "markov_w1.weight", c->n_vocab, d->n_markov,
               is_optional);
    plan_whole(p, "markov_head.markov_w2.weight", "markov_w2.weight", d->n_said, d->n_markov,
               is_optional);
    if (!sure) return;
    plan_whole(p, "confidence_head.proj.weight", "conf_proj.weight", 1, sure->dims[1], false);
    plan_whole(p, "confidence_head.proj.bias", "conf_proj.bias", 1, 0, true);
}

/* Of training, or the model's: a DSpark drafter that says all tokens has the model's output. */
static bool is_left_out(const planner *p, const char *name)
{
    static const char *const known[] = {"t2d", "verifier_norm.weight", "verifier_lm_head.weight"};
    if (!strncmp(name, "model.", 6)) name += 6;
    for (size_t i = 0; i < ARRAY_LEN(known); i++)
        if (!strcmp(name, known[i])) return true;
    return (p->c->drafter.is_dspark && p->c->drafter.n_said == p->c->n_vocab &&
            !strcmp(name, "lm_head.weight")) || strstr(name, "rotary_emb");
}

static int look_for_rest(const planner *p)
{
    for (size_t i = 0; i < p->set->n; i++) {
        const char *name = p->set->tensors[i].name;
        bool uses = is_left_out(p, name);
        for (size_t k = 0; k < p->n && !uses; k++) uses = p->all[k].from == &p->set->tensors[i];
        if (!uses)
            return error_set(p->err, CERIUM_ERR_FORMAT,
                             "tensor %s would be left out: no drafter that is supported has it",
                             name);
    }
    return CERIUM_OK;
}

static void find_names(planner *p)
{
    p->prefix = "";
    if (plan_find(p, UINT32_MAX, "midlayer.input_layernorm.weight"))
        p->only_layer = "midlayer.";
    else if (plan_find(p, UINT32_MAX, "model.layers.0.input_layernorm.weight"))
        p->prefix = "model.";
}

int convert_plan_drafter(convert_tensor **out, size_t *n, const convert_config *c,
                         const safetensors *set, const block_type *type, cerium_error *err)
{
    const convert_drafter *d = &c->drafter;
    const uint32_t e = c->n_embd, n_in = d->n_embd * d->n_layers;
    planner p = {.c = c, .set = set, .type = type, .err = err,
                 .cap = (size_t)c->n_layers * LAYER_TENSORS_MAX + OTHER_TENSORS};
    p.all = memory_zalloc(p.cap, sizeof *p.all);
    if (!p.all) return error_set(err, CERIUM_ERR_MEMORY, "no memory for a list of tensors");
    find_names(&p);
    plan_whole(&p, "fc.weight", "fc.weight", e, n_in, false);
    if (c->arch == CONVERT_DFLASH)
        plan_whole(&p, "hidden_norm.weight", "enc.output_norm.weight", e, 0, false);
    else if (d->norms_input)
        plan_whole(&p, "input_norm.weight", "enc.output_norm.weight", n_in, 0, false);
    plan_tap_norms(&p);
    plan_whole(&p, "embed_tokens.weight", "token_embd.weight", c->n_vocab, e, true);
    if (c->rope == ROPE_LLAMA3) {
        const convert_tensor t = {.name = "rope_freqs.weight", .rows = ROWS_DIVISORS, .n_dims = 1,
                                  .dims = {c->head_dim / 2, 1, 1, 1}};
        plan_add(&p, &t);
    }
    for (uint32_t i = 0; !p.status && i < c->n_layers; i++) plan_drafter_layer(&p, i);
    plan_whole(&p, "norm.weight", "output_norm.weight", e, 0, false);
    if (!d->is_dspark || d->n_said != c->n_vocab)
        plan_whole(&p, "lm_head.weight", "output.weight", d->n_said, e, true);
    if (c->arch == CONVERT_DFLASH) plan_markov(&p);
    plan_said(&p);
    if (!p.status) p.status = look_for_rest(&p);
    if (p.status) {
        memory_free(p.all);
        return p.status;
    }
    *out = p.all;
    *n = p.n;
    return CERIUM_OK;
}
