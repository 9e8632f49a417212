/* turned.c - weights that were turned by a Walsh-Hadamard transform before they were rounded: the
 * keys that say which (prism.hadamard.*), and what their inputs need.
 *
 * A matrix that is not turned but reads the same input as one that is (ssm_alpha beside attn_qkv)
 * is turned here, in F32, so that a step has one input. */
#include "kernels/kernels.h"
#include "model/build.h"

#define PREFIX "prism.hadamard."

enum { WIDTHS_MAX = 8, RUN_MAX = 1 << 16 };

typedef struct {
    uint32_t run;
    bool is_grouped;            /* ssm_out's columns are in the order of keys */
    const gguf_value *names;    /* strings */
    bool of_embedding;
    uint32_t n_widths;          /* 0: no signs */
    uint32_t width[WIDTHS_MAX]; /* of rows that have signs */
    const float *signs[WIDTHS_MAX];
} contract;

static bool has_keys(const gguf_file *file)
{
    for (size_t i = 0; i < gguf_n_values(file); i++) {
        const view key = gguf_value_at(file, i)->key;
        if (key.len > strlen(PREFIX) && !memcmp(key.ptr, PREFIX, strlen(PREFIX))) return true;
    }
    return false;
}

/* A text that must be as wanted; false: it is not, and that was said. */
static bool is_text(builder *b, const char *key, const char *wanted)
{
    view text = VIEW("");
    gguf_get_string(b->file, key, &text);
    if (view_equal(text, view_of(wanted))) return true;
    build_fail(b, "key %s is '%.*s'; only '%s' is supported", key,
               (int)(text.len < 64 ? text.len : 64), text.ptr, wanted);
    return false;
}

static const gguf_value *numbers(builder *b, const char *key)
{
    const gguf_value *v = gguf_find(b->file, key);
    if (v && v->type == GGUF_ARRAY && v->item_type != GGUF_STRING && v->item_type != GGUF_ARRAY)
        return v;
    build_fail(b, "key %s is missing or not an array of numbers", key);
    return NULL;
}

static void read_signs(builder *b, contract *c)
{
    view mode = VIEW("identity");
    gguf_get_string(b->file, PREFIX "sign_mode", &mode);
    if (view_equal(mode, VIEW("identity"))) return;
    if (!is_text(b, PREFIX "sign_mode", "explicit")) return;
    const gguf_value *widths = numbers(b, PREFIX "sign_widths");
    const gguf_value *values = numbers(b, PREFIX "sign_values");
    uint64_t at = 0;
    if (b->status) return;
    if (widths->n_items == 0 || widths->n_items > WIDTHS_MAX)
        build_fail(b, "key " PREFIX "sign_widths must have 1 to %d numbers", WIDTHS_MAX);
    for (uint32_t i = 0; !b->status && i < widths->n_items; i++) {
        const int64_t n = gguf_item_i64(widths, i);
        if (n < 1 || (uint64_t)n > values->n_items - at) {
            build_fail(b, "key " PREFIX "sign_values has %llu numbers, too few for the widths",
                       (unsigned long long)values->n_items);
            return;
        }
        float *signs = arena_take(&b->vectors, (size_t)n * sizeof *signs, MEMORY_ALIGN);
        CHECK(signs); /* model.c makes room */
        for (int64_t k = 0; k < n; k++) {
            const int64_t sign = gguf_item_i64(values, at++);
            signs[k] = (float)sign;
            if (sign != 1 && sign != -1) {
                build_fail(b, "key " PREFIX "sign_values has a number that is neither 1 nor -1");
                return;
            }
        }
        c->width[c->n_widths] = (uint32_t)n;
        c->signs[c->n_widths++] = signs;
    }
    if (!b->status && at != values->n_items)
        build_fail(b, "key " PREFIX "sign_values has %llu numbers, more than the widths say",
                   (unsigned long long)values->n_items);
}

/* "blk.N.NAME.weight" of a matrix that may be turned, or the output. */
static bool may_be_turned(view name)
{
    static const char *const kinds[] = {
        "attn_q", "attn_k", "attn_v", "attn_qkv", "attn_gate", "attn_output", "ffn_gate", "ffn_up",
        "ffn_down", "ffn_gate_exps", "ffn_up_exps", "ffn_down_exps", "ffn_gate_up_exps",
        "ffn_gate_shexp", "ffn_up_shexp", "ffn_down_shexp", "ssm_out"};
    unsigned layer;
    char text[128], kind[64];
    int end = 0;
    if (view_equal(name, VIEW("output.weight"))) return true;
    if (name.len >= sizeof text) return false;
    snprintf(text, sizeof text, "%.*s", (int)name.len, name.ptr);
    if (sscanf(text, "blk.%u.%63[a-z_].weight%n", &layer, kind, &end) != 2) return false;
    for (size_t i = 0; i < ARRAY_LEN(kinds); i++)
        if (!strcmp(kind, kinds[i])) return end == (int)name.len;
    return false;
}

static void read_names(builder *b, contract *c)
{
    const char *key = PREFIX "weight_names", *inverse_key = PREFIX "inverse_weight_names";
    const gguf_value *inverse = gguf_find(b->file, inverse_key);
    c->names = gguf_find(b->file, key);
    if (!c->names || !c->names->strings || c->names->n_items == 0) {
        build_fail(b, "key %s is missing or not a list of names", key);
        return;
    }
    if (c->names->n_items > gguf_n_tensors(b->file)) {
        build_fail(b, "key %s has more names than there are tensors", key);
        return;
    }
    for (uint64_t i = 0; !b->status && i < c->names->n_items; i++) {
        const view name = c->names->strings[i];
        if (!may_be_turned(name))
            build_fail(b, "key %s: '%.*s' cannot be turned", key,
                       (int)(name.len < 128 ? name.len : 128), name.ptr);
    }
    if (!inverse) return;
    if (!inverse->strings || inverse->n_items > 1 ||
        (inverse->n_items && !view_equal(inverse->strings[0], VIEW("token_embd.weight"))))
        build_fail(b, "key %s: only token_embd.weight is supported", inverse_key);
    c->of_embedding = inverse->n_items == 1;
}

static void read_contract(builder *b, contract *c)
{
    uint64_t version = 0, run = 0;
    gguf_get_u64(b->file, PREFIX "version", &version);
    gguf_get_u64(b->file, PREFIX "block_size", &run);
    gguf_get_bool(b->file, PREFIX "gdn_v_grouped", &c->is_grouped);
    if (version != 1) {
        build_fail(b, "key " PREFIX "version is %llu; only 1 is supported",
                   (unsigned long long)version);
        return;
    }
    if (run < 2 || run > RUN_MAX || (run & (run - 1))) {
        build_fail(b, "key " PREFIX "block_size is %llu; it must be a power of two up to %d",
                   (unsigned long long)run, RUN_MAX);
        return;
    }
    c->run = (uint32_t)run;
    if (!is_text(b, PREFIX "transform", "normalized-sylvester-walsh-hadamard") ||
        !is_text(b, PREFIX "axis", "input-last-dimension"))
        return;
    read_names(b, c);
    if (!b->status) read_signs(b, c);
}

static bool is_named(const contract *c, view name)
{
    if (view_equal(name, VIEW("token_embd.weight"))) return c->of_embedding;
    for (uint64_t i = 0; i < c->names->n_items; i++)
        if (view_equal(c->names->strings[i], name)) return true;
    return false;
}

static bool ends_with(view text, view end)
{
    return text.len >= end.len && !memcmp(text.ptr + text.len - end.len, end.ptr, end.len);
}

/* What the input of a matrix needs. */
static const step_hadamard *turn_of(builder *b, const contract *c, const model_matrix *w)
{
    const view name = w->source->name;
    uint32_t which = 0;
    while (which < c->n_widths && c->width[which] != w->cols) which++;
    if (w->cols % c->run || (c->n_widths && which == c->n_widths) || w->is_transposed) {
        build_fail(b, "tensor %.*s: rows of %u values are not turned by " PREFIX "block_size %u, "
                   "or have no signs", (int)name.len, name.ptr, w->cols, c->run);
        return NULL;
    }
    step_hadamard *h = arena_take(&b->vectors, sizeof *h, MEMORY_ALIGN);
    if (!h) {
        build_fail(b, "the file has too few vectors for its matrices");
        return NULL;
    }
    *h = (step_hadamard){.run = c->run, .signs = c->n_widths ? c->signs[which] : NULL,
                         .by_keys = c->is_grouped && ends_with(name, VIEW(".ssm_out.weight")) &&
                                    !b->program.shape.linear.is_grouped};
    return h;
}

/* All matrices of one input are turned if one is. */
static void join_inputs(builder *b, const step_op *const *ops, uint32_t n_ops)
{
    const step_hadamard *turn = NULL;
    for (uint32_t i = 0; i < n_ops; i++)
        for (int k = 0; k < STEP_MATRICES_MAX; k++)
            if (ops[i]->w[k] && ops[i]->w[k]->hadamard) turn = ops[i]->w[k]->hadamard;
    for (uint32_t i = 0; turn && i < n_ops; i++)
        for (int k = 0; k < STEP_MATRICES_MAX; k++) {
            if (!ops[i]->w[k] || ops[i]->w[k]->hadamard) continue;
            model_matrix *w = &b->matrices[ops[i]->w[k] - b->matrices];
            w->hadamard = turn;
            w->turns_rows = true;
            w->type = BLOCK_F32;
            w->panel_bytes = kernel_panel_bytes(BLOCK_F32, w->cols);
        }
}

/* The steps that read what op prepares; those of a router come after it. */
static uint32_t readers(const step_op *op, const step_op *end, const step_op *out[4])
{
    uint32_t n = 0;
    out[n++] = op;
    if (op->kind != STEP_ROUTE) return n;
    for (op++; op < end && op->kind != STEP_EXPERTS_UP && n < 3; op++)
        if (op->kind == STEP_FFN_UP && !op->norm) out[n++] = op;
    if (op < end && op->kind == STEP_EXPERTS_UP && !op->norm) out[n++] = op;
    return n;
}

static void join_program(builder *b, const step_op *ops, uint32_t n_ops)
{
    for (const step_op *op = ops; op < ops + n_ops && !b->status; op++) {
        const step_op *all[4];
        const bool is_plain = op->kind == STEP_QKV || op->kind == STEP_LINEAR_IN ||
                              op->kind == STEP_ROUTE || op->kind == STEP_HEAD ||
                              op->kind == STEP_OUT || op->kind == STEP_FFN_DOWN ||
                              op->kind == STEP_EXPERTS_DOWN || op->kind == STEP_EMBED ||
                              op->kind == STEP_FFN_UP || op->kind == STEP_EXPERTS_UP;
        for (int k = 0; k < STEP_MATRICES_MAX; k++)
            if (op->w[k] && op->w[k]->hadamard && (!is_plain || op->beside))
                build_fail(b, "tensor %.*s: turned weights are not supported there",
                           (int)op->w[k]->source->name.len, op->w[k]->source->name.ptr);
        if (is_plain && op->kind != STEP_EMBED) join_inputs(b, all, readers(op, ops + n_ops, all));
    }
}

/* Types that mean nothing without the keys. */
static void check_without(builder *b)
{
    for (uint32_t i = 0; i < b->n_matrices && !b->status; i++) {
        const gguf_tensor *t = b->matrices[i].source;
        if (t->type == BLOCK_PTQ1_0)
            build_fail(b, "tensor %.*s has type 143 without keys " PREFIX "*: it is not PTQ1_0",
                       (int)t->name.len, t->name.ptr);
        if (t->type == BLOCK_PQ2_0) b->is_unturned = true;
    }
}

void build_hadamard(builder *b)
{
    contract c = {0};
    if (b->status) return;
    if (!has_keys(b->file)) {
        check_without(b);
        return;
    }
    read_contract(b, &c);
    for (uint64_t i = 0; !b->status && i < c.names->n_items; i++) {
        char name[128];
        snprintf(name, sizeof name, "%.*s", (int)c.names->strings[i].len, c.names->strings[i].ptr);
        if (!gguf_find_tensor(b->file, name))
            build_fail(b, "key " PREFIX "weight_names: tensor %s is missing", name);
    }
    for (uint32_t i = 0; !b->status && i < b->n_matrices; i++) {
        model_matrix *w = &b->matrices[i];
        if (is_named(&c, w->source->name)) w->hadamard = turn_of(b, &c, w);
    }
    join_program(b, b->ops, b->program.n_ops);
    join_program(b, b->ops + b->program.n_ops, b->mtp.n_ops);
}
