/* dflash.c - DFlash: a drafter in a file of its own, made for one model, that says a block of
 * tokens in one pass.
 *
 * Of each token of the text it keeps, in each of its layers, a key and a value made from the inputs
 * of some layers of that model, joined by one matrix.  A block is the last token and masks after
 * it; its rows see all of that and each other, and each mask becomes the token of its place
 * (docs/decisions/0133-a-block-in-one-pass.md).  The layers are those of Qwen3.
 *
 * DSpark is the same with two small matrices more, by which the token before has a say. */
#include "model/build.h"

enum { BLOCK_MAX = 64 };

/* Of its kin that need more than is here. */
static void refuse_kin(builder *b)
{
    static const struct {
        const char *tensor, *name;
    } kin[] = {
        {"selector_hidden.weight", "DFlash2"},
        {"blk.0.attn_conv_base", "DFlash2"},
        {"hc_head_fn.weight", "DeepSeek-V4's DSpark"},
    };
    for (size_t i = 0; i < ARRAY_LEN(kin) && !b->status; i++)
        if (build_has(b, kin[i].tensor, 0))
            build_fail(b, "tensor %s: %s is not supported, only DFlash and DSpark", kin[i].tensor,
                       kin[i].name);
}

static void read_block(builder *b, uint32_t n_vocab)
{
    step_shape *s = &b->program.shape;
    uint64_t mask = 0;
    s->n_block = build_u32_or(b, "block_size", 2, BLOCK_MAX, 16);
    if (b->status) return;
    if (!gguf_get_u64(b->file, "tokenizer.ggml.mask_token_id", &mask))
        build_fail(b, "key tokenizer.ggml.mask_token_id is missing");
    else if (mask >= n_vocab)
        build_fail(b, "key tokenizer.ggml.mask_token_id is %llu, of %u tokens",
                   (unsigned long long)mask, n_vocab);
    s->mask_token = (uint32_t)mask;
    s->block_is_causal = build_bool_or(b, "attention.causal", false);
}

/* DSpark: what the token before says of a token. */
static void read_markov(builder *b, uint32_t n_model)
{
    step_shape *s = &b->program.shape;
    const gguf_tensor *t = gguf_find_tensor(b->file, "markov_w1.weight");
    if (b->status || !t) return;
    if (t->dims[0] > MODEL_MARKOV_MAX) {
        build_fail(b, "tensor markov_w1.weight: rows of %llu values, and at most %d are supported",
                   (unsigned long long)t->dims[0], MODEL_MARKOV_MAX);
        return;
    }
    const uint32_t rank = (uint32_t)t->dims[0];
    b->markov.before = build_matrix(b, "markov_w1.weight", 0, n_model, rank);
    b->markov.adds = build_matrix(b, "markov_w2.weight", 0, s->n_vocab, rank);
    s->block_says_first = build_bool_or(b, "sample_from_anchor", true);
}

/* x of a row of the context. */
static void build_join(builder *b)
{
    const step_shape *s = &b->program.shape;
    step_op *op = build_op(b, STEP_OUT);
    op->passes = STEP_IN_CONTEXT;
    op->w[0] = build_matrix(b, "fc.weight", 0, s->n_embd, s->n_taps * s->n_tapped);
    op->post_norm = build_vector(b, "enc.output_norm.weight", 0, s->n_embd);
}

static void build_layer(builder *b, uint32_t layer, uint32_t window)
{
    const uint32_t first = b->program.n_ops;
    const step_op *qkv = build_attention(b, layer, window);
    for (int i = 0; i < 2 && !b->status; i++)
        if (!qkv->head_norm[i])
            build_fail(b, "tensor blk.%u.attn_%c_norm.weight is missing", layer, "qk"[i]);
    build_ffn(b, layer, "blk.%u.ffn_norm.weight");
    if (b->status) return;
    for (uint32_t i = first; i < b->program.n_ops; i++) b->ops[i].passes = STEP_IN_BLOCK;
    step_op *op = build_op(b, STEP_QKV);
    if (b->status) return;
    *op = *qkv;
    op->passes = STEP_IN_CONTEXT;
    op->norm = NULL;
    op->w[0] = NULL;
    op->head_norm[0] = NULL;
}

void build_dflash(builder *b)
{
    step_shape *s = &b->program.shape;
    const step_program *of = b->options->of;
    uint32_t windows[MODEL_LAYERS_MAX] = {0};
    if (!of) {
        build_fail(b, "a DFlash drafter drafts for another model, and is no model: see "
                   "--draft-model");
        return;
    }
    build_shape(b, STEP_NORM_RMS);
    build_rope(b, STEP_ROPE_SPLIT, false);
    s->activation = STEP_SILU_GATED;
    s->embedding_scale = build_f32_or(b, "embedding_scale", 1);
    refuse_kin(b);
    if (build_u32_or(b, "attention.sliding_window", 0, 1 << 24, 0)) build_windows(b, 0, windows);
    build_taps(b, "target_layers", 1, MODEL_TAPS_MAX);
    build_said(b, of->shape.n_vocab);
    read_block(b, of->shape.n_vocab);
    read_markov(b, of->shape.n_vocab);
    if (b->status) return;
    step_op *op = build_op(b, STEP_EMBED);
    op->w[0] = build_table_of(b, "token_embd.weight", of->shape.n_vocab, of->ops[0].w[0]);
    build_join(b);
    for (uint32_t layer = 0; !b->status && layer < s->n_layers; layer++)
        build_layer(b, layer, windows[layer]);
    build_head_of(b, &of->ops[of->n_ops - 1])->passes = STEP_IN_BLOCK;
}
