/* eagle3.c - EAGLE-3: a head in a file of its own, made for one model, that says the next token but
 * one: from the inputs of three layers of that model, joined by one matrix, and an embedding.
 *
 * Applied repeatedly, it reads its own output in place of the three.  What its file lacks of tables
 * is the model's (docs/decisions/0120-a-drafter-that-reads-three-layers.md). */
#include "model/build.h"

#define ARCHITECTURE "eagle3"

bool model_is_eagle3(const gguf_file *file)
{
    view name;
    return gguf_get_string(file, "general.architecture", &name) &&
           view_equal(name, VIEW(ARCHITECTURE));
}

/* Is it a tensor of that block? */
static bool is_of_layer(const model_matrix *w, uint32_t layer)
{
    char begin[32];
    const int len = snprintf(begin, sizeof begin, "blk.%u.", layer);
    return w && view_starts(w->source->name, (view){begin, (size_t)len});
}

uint32_t model_layer_begins(const step_program *p, uint32_t layer)
{
    for (uint32_t i = 0; i + 1 < p->n_ops; i++)
        for (int k = 0; k < STEP_MATRICES_MAX; k++)
            if (is_of_layer(p->ops[i].w[k], layer)) return i;
    return p->n_ops - 1;
}

/* The layers that it reads, by the key of newer files or of older ones. */
static void read_taps(builder *b, uint32_t n_layers)
{
    const gguf_value *list = gguf_find(b->file, ARCHITECTURE ".target_layers");
    if (!list) list = gguf_find(b->file, ARCHITECTURE ".extract_layers");
    if (b->status) return;
    if (!list || list->type != GGUF_ARRAY || list->n_items != EAGLE3_TAPS ||
        list->item_type == GGUF_STRING || list->item_type == GGUF_ARRAY) {
        build_fail(b, "key %s.target_layers must have the numbers of three layers", b->arch);
        return;
    }
    for (uint32_t i = 0; i < EAGLE3_TAPS && !b->status; i++) {
        const int64_t layer = gguf_item_i64(list, i);
        if (layer < 0 || layer > n_layers || (i > 0 && layer <= b->taps[i - 1]))
            build_fail(b, "key %s.target_layers: layer %lld: they must ascend, and the model has "
                       "%u", b->arch, (long long)layer, n_layers);
        else
            b->taps[i] = (uint32_t)layer;
    }
}

/* Tokens of the model, each once. */
static void read_said(builder *b, const gguf_tensor *t, uint32_t n_model)
{
    const uint32_t n = (uint32_t)t->dims[0];
    int32_t *said = arena_take(&b->vectors, n * sizeof *said, MEMORY_ALIGN);
    uint64_t *seen = memory_zalloc(n_model / 64 + 1, sizeof *seen);
    if (!said || !seen) {
        b->status = error_set(b->err, CERIUM_ERR_MEMORY, "%s: no memory for the weights",
                              gguf_path(b->file));
    }
    for (uint32_t i = 0; i < n && !b->status; i++) {
        int64_t token;
        memcpy(&token, (const uint8_t *)t->data + i * sizeof token, sizeof token);
        if (token < 0 || token >= n_model)
            build_fail(b, "tensor d2t: token %lld, and the model has %u", (long long)token,
                       n_model);
        else if (seen[token / 64] >> token % 64 & 1)
            build_fail(b, "tensor d2t has token %lld twice", (long long)token);
        else
            seen[token / 64] |= UINT64_C(1) << token % 64;
        said[i] = b->status ? 0 : (int32_t)token;
    }
    memory_free(seen);
    b->said = said;
}

/* How many tokens it may say; those of d2t, or of the model. */
static void read_vocabulary(builder *b, uint32_t n_model)
{
    const gguf_tensor *t = gguf_find_tensor(b->file, "d2t");
    if (b->status) return;
    b->program.shape.n_vocab = n_model;
    if (!t) return;
    if (t->type != BLOCK_I64 || t->n_dims != 1 || t->dims[0] > n_model)
        build_fail(b, "tensor d2t must have at most one I64 for each of the model's %u tokens",
                   n_model);
    else
        read_said(b, t, n_model);
    b->program.shape.n_vocab = (uint32_t)t->dims[0];
}

/* A table of the file, or the model's. */
static const model_matrix *table(builder *b, const char *name, uint32_t rows,
                                 const model_matrix *of_model)
{
    const uint32_t n = b->program.shape.n_embd;
    if (b->status || build_has(b, name, 0)) return build_matrix(b, name, 0, rows, n);
    if (of_model->rows == rows && of_model->cols == n) return of_model;
    build_fail(b, "tensor %s is missing, and the model's has %u rows of %u values, not %u of %u",
               name, of_model->rows, of_model->cols, rows, n);
    return NULL;
}

static void build_input(builder *b, const model_matrix *embed, const float *norm)
{
    const step_shape *s = &b->program.shape;
    const uint32_t n_in = s->n_taps * s->n_tapped;
    step_op *op = build_op(b, STEP_EMBED);
    op->w[0] = embed;
    if (build_bool_or(b, "norm_before_fc", build_has(b, "enc.output_norm.weight", 0)))
        op->norm = build_vector(b, "enc.output_norm.weight", 0, n_in);
    op->head_norm[0] = norm;
    op = build_op(b, STEP_OUT);
    op->w[0] = build_matrix(b, "fc.weight", 0, s->n_embd, n_in);
    op->post_norm = norm;
}

static void build_output(builder *b, const step_op *of_model)
{
    const step_shape *s = &b->program.shape;
    step_op *op = build_op(b, STEP_HEAD);
    op->norm = build_vector(b, "output_norm.weight", 0, s->n_embd);
    op->w[0] = table(b, "output.weight", s->n_vocab, of_model->w[0]);
    if (op->w[0] == of_model->w[0]) op->screen = of_model->screen;
    else build_head_options(b, op, false);
}

void build_eagle3(builder *b)
{
    step_shape *s = &b->program.shape;
    const step_program *of = b->options->of;
    if (!of) {
        build_fail(b, "an EAGLE-3 head drafts for another model, and is no model: see "
                   "--draft-model");
        return;
    }
    build_shape(b, STEP_NORM_RMS);
    build_rope(b, STEP_ROPE_ADJACENT, false);
    s->activation = STEP_SILU_GATED;
    if (!b->status && s->n_layers != 1)
        build_fail(b, "%u layers: an EAGLE-3 head has one", s->n_layers);
    s->n_taps = EAGLE3_TAPS;
    s->n_tapped = build_u32(b, "target_hidden_size", 1, 1 << 20);
    if (!b->status && s->n_tapped != of->shape.n_embd)
        build_fail(b, "made for a model %u wide, and this one is %u", s->n_tapped,
                   of->shape.n_embd);
    read_taps(b, of->shape.n_layers);
    read_vocabulary(b, of->shape.n_vocab);
    if (b->status) return;
    const model_matrix *embed = table(b, "token_embd.weight", of->shape.n_vocab, of->ops[0].w[0]);
    const float *norm = build_vector(b, "blk.%u.attn_norm_2.weight", 0, s->n_embd);
    const bool is_before = build_bool_or(b, "norm_before_residual", false);
    build_input(b, embed, is_before ? norm : NULL);
    b->qkv_cols = 2 * s->n_embd;
    step_op *op = build_attention(b, 0, 0);
    op->beside = embed;
    op->beside_norm = is_before ? NULL : norm;
    build_ffn(b, 0, "blk.%u.ffn_norm.weight");
    build_output(b, &of->ops[of->n_ops - 1]);
}
