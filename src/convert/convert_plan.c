/* convert_plan.c - one tensor of the plan: its source, name, shape and type. */
#include "convert/convert_plan.h"

static block_type own_type(const safetensor *t)
{
    switch (t->type) {
    case SAFE_F16: return BLOCK_F16;
    case SAFE_BF16:
    case SAFE_FP4: /* where it cannot stay: plan_fp4() */
    case SAFE_F8_E4M3: return BLOCK_BF16;
    default: return BLOCK_F32;
    }
}

static block_type type_of(const planner *p, const convert_tensor *t)
{
    size_t len = strlen(t->name);
    const bool is_weight = len > 7 && !strcmp(t->name + len - 7, ".weight");
    if (t->rows == ROWS_MXFP4) return BLOCK_MXFP4;
    if (t->rows == ROWS_TOKENS) return BLOCK_I64;
    if (t->n_dims < 2 || !is_weight || strstr(t->name, "ffn_gate_inp") ||
        strstr(t->name, "ssm_conv1d") || strstr(t->name, "ssm_norm"))
        return BLOCK_F32;
    /* Errors of the tensors that control a state grow from token to token. */
    if (strstr(t->name, "ssm_alpha") || strstr(t->name, "ssm_beta") || strstr(t->name, "ssm_ba"))
        return own_type(t->from);
    if (!p->type || t->dims[0] % block_values(*p->type)) return own_type(t->from);
    return *p->type;
}

convert_tensor *plan_add(planner *p, const convert_tensor *t)
{
    if (p->status) return NULL;
    CHECK(p->n < p->cap);
    if (t->rows != ROWS_TOKENS && t->from && safe_type_is_whole(t->from->type)) {
        p->status = error_set(p->err, CERIUM_ERR_FORMAT,
                              "tensor %s: its values are whole numbers, and no weights",
                              t->from->name);
        return NULL;
    }
    p->all[p->n] = *t;
    p->all[p->n].type = type_of(p, t);
    return &p->all[p->n++];
}

const char *plan_layer_name(const planner *p, uint32_t layer, char name[64])
{
    const uint32_t n = p->c->n_layers;
    name[0] = 0;
    if (layer != UINT32_MAX && layer >= n && convert_has_states(p->c))
        snprintf(name, 64, "mtp.layers.%u.", layer - n);
    else if (layer != UINT32_MAX && p->only_layer)
        snprintf(name, 64, "%s", p->only_layer);
    else if (layer != UINT32_MAX)
        snprintf(name, 64, "%slayers.%u.", p->prefix, layer);
    return name;
}

const safetensor *plan_find(const planner *p, uint32_t layer, const char *what)
{
    char name[GGUF_NAME_BYTES_MAX], of_layer[64];
    snprintf(name, sizeof name, "%s%s", plan_layer_name(p, layer, of_layer), what);
    return safetensors_find(p->set, name);
}

void plan_missing(planner *p, uint32_t layer, const char *what)
{
    char of_layer[64];
    if (p->status) return;
    p->status = error_set(p->err, CERIUM_ERR_FORMAT, "tensor %s%s is missing",
                          plan_layer_name(p, layer, of_layer), what);
}

void plan_name(convert_tensor *t, uint32_t layer, const char *name)
{
    if (layer == UINT32_MAX)
        snprintf(t->name, sizeof t->name, "%s", name);
    else
        snprintf(t->name, sizeof t->name, "blk.%u.%s", layer, name);
}

bool convert_has_shape(const safetensor *t, uint64_t a, uint64_t b, uint64_t c)
{
    return t->n_dims == (c ? 3u : b ? 2u : 1u) && t->dims[0] == a && (!b || t->dims[1] == b) &&
           (!c || t->dims[2] == c);
}

void plan_shape(planner *p, const safetensor *t, uint64_t a, uint64_t b, uint64_t c)
{
    if (p->status || convert_has_shape(t, a, b, c)) return;
    p->status = error_set(p->err, CERIUM_ERR_FORMAT,
                          "tensor %s: its shape does not agree with config.json", t->name);
}

convert_tensor *plan_plain(planner *p, uint32_t layer, const char *from, const char *to,
                           uint64_t rows, uint64_t columns, bool optional)
{
    convert_tensor t = {.from = plan_find(p, layer, from), .n_dims = columns ? 2 : 1,
                        .dims = {columns ? columns : rows, columns ? rows : 1, 1, 1}};
    if (!t.from && !optional) plan_missing(p, layer, from);
    if (!t.from) return NULL;
    plan_name(&t, layer, to);
    plan_shape(p, t.from, rows, columns, 0);
    return plan_add(p, &t);
}

void plan_norm(planner *p, uint32_t layer, const char *from, const char *to, uint64_t n,
               bool optional)
{
    convert_tensor *t = plan_plain(p, layer, from, to, n, 0, optional);
    if (t && (p->c->arch == CONVERT_GEMMA3 || convert_has_states(p->c))) t->more = 1;
}
