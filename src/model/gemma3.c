/* gemma3.c - Gemma 3: norms before and after every branch, an RMSNorm on every Q and K head, gated
 * GELU, embeddings times the root of their width; five of six layers have a window and a smaller
 * RoPE base, the others see everything. */
#include <math.h>

#include "model/build.h"

enum { WINDOWED_EVERY = 6, LAYERS_OF_27B = 62 };

void build_gemma3(builder *b)
{
    step_shape *s = &b->program.shape;
    uint32_t windows[MODEL_LAYERS_MAX];
    build_shape(b, STEP_NORM_RMS);
    build_rope(b, STEP_ROPE_SPLIT, false);
    build_rope_windowed(b, 10000.0f);
    build_windows(b, WINDOWED_EVERY, windows);
    s->activation = STEP_GELU_GATED;
    s->embedding_scale = sqrtf((float)s->n_embd);
    s->logit_cap = build_f32_or(b, "final_logit_softcapping", 0);
    if (!b->status && s->logit_cap < 0) build_fail(b, "a soft cap of logits below 0");
    /* No key of published files gives another width for the scale of queries. */
    if (!b->status && s->n_layers == LAYERS_OF_27B && build_f32_or(b, "attention.scale", 0) == 0)
        b->attention_scale = 1.0f / sqrtf((float)s->n_embd / (float)s->n_heads);
    build_embed(b);
    for (uint32_t layer = 0; !b->status && layer < s->n_layers; layer++) {
        step_op *qkv = build_attention(b, layer, windows[layer]);
        if (windows[layer]) qkv->rope = 1;
        qkv[2].post_norm =
            build_vector(b, "blk.%u.post_attention_norm.weight", layer, s->n_embd);
        step_op *up = build_ffn(b, layer, "blk.%u.ffn_norm.weight");
        up[1].post_norm = build_vector(b, "blk.%u.post_ffw_norm.weight", layer, s->n_embd);
    }
    build_head(b);
}
