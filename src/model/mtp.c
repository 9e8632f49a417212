/* mtp.c - a head for the token after the next (multi-token prediction), as a block after the last:
 * from the embedding of a token and the state of the one before it, one layer, and an output head.
 *
 * It drafts for its own model (docs/decisions/0105-the-models-own-head.md).  Applied repeatedly, to
 * its own state, it guesses further tokens. */
#include "model/build.h"

static const char eh_proj[] = "blk.%u.nextn.eh_proj.weight";

/* Unless build_mtp_begin() follows, they are left out. */
void build_without_mtp(builder *b)
{
    step_shape *s = &b->program.shape;
    uint32_t n = build_u32_or(b, "nextn_predict_layers", 0, MODEL_LAYERS_MAX, 0);
    if (!b->status && n >= s->n_layers)
        build_fail(b, "key %s.nextn_predict_layers is %u, of %u blocks: all would be MTP heads",
                   b->arch, n, s->n_layers);
    if (b->status) return;
    s->n_layers -= n;
    b->n_mtp = n;
    if (n > 0 && b->options->mtp && build_has(b, eh_proj, s->n_layers))
        snprintf(b->mtp_lacks, sizeof b->mtp_lacks, "%u %s of %s, which %s not run", n,
                 n > 1 ? "blocks" : "block", b->arch, n > 1 ? "are" : "is");
}

/* The model goes on without it. */
static void leave_out(builder *b, const step_program *whole)
{
    b->program = *whole;
    b->mtp = (step_program){0};
    b->n_matrices = b->n_before_mtp;
    b->in_mtp = false;
    b->status = CERIUM_OK;
}

/* A file may declare the block and lack all of it: that is no loss to speak of. */
static bool has_input(builder *b, uint32_t layer)
{
    const char *const norms[] = {"blk.%u.nextn.enorm.weight", "blk.%u.nextn.hnorm.weight"};
    if (build_has(b, eh_proj, layer)) return true;
    for (size_t i = 0; i < ARRAY_LEN(norms); i++)
        if (build_has(b, norms[i], layer))
            snprintf(b->mtp_lacks, sizeof b->mtp_lacks,
                     "tensor blk.%u.nextn.eh_proj.weight is missing", layer);
    return false;
}

bool build_mtp_begin(builder *b)
{
    const step_program whole = b->program;
    const uint32_t layer = whole.shape.n_layers, n = whole.shape.n_embd;
    const char *embed = "blk.%u.nextn.embed_tokens.weight";
    if (b->status || !b->options->mtp || b->n_mtp != 1 || !has_input(b, layer)) return false;
    b->mtp = whole;
    b->mtp_lacks[0] = 0;
    b->in_mtp = true;
    b->n_before_mtp = b->n_matrices;
    step_op *op = build_op(b, STEP_EMBED);
    op->w[0] = build_matrix(b, build_has(b, embed, layer) ? embed : "token_embd.weight", layer,
                            whole.shape.n_vocab, n);
    op->norm = build_vector(b, "blk.%u.nextn.enorm.weight", layer, n);
    op->head_norm[0] = build_vector(b, "blk.%u.nextn.hnorm.weight", layer, n);
    op = build_op(b, STEP_OUT);
    op->w[0] = build_matrix(b, eh_proj, layer, n, 2 * n);
    return true;
}

void build_mtp_end(builder *b)
{
    const step_program whole = b->mtp;
    const uint32_t layer = whole.shape.n_layers, n = whole.shape.n_embd;
    const char *head = "blk.%u.nextn.shared_head_head.weight";
    step_op *op = build_op(b, STEP_HEAD);
    if (b->mtp_lacks[0]) {
        leave_out(b, &whole);
        return;
    }
    b->in_mtp = false;
    if (b->status) return;
    *op = b->ops[whole.n_ops - 1];
    const float *norm = build_vector_optional(b, "blk.%u.nextn.shared_head_norm.weight", layer, n);
    if (norm) op->norm = norm;
    if (build_has(b, head, layer)) {
        op->w[0] = build_matrix(b, head, layer, whole.shape.n_vocab, n);
        op->screen = NULL;
    }
    b->mtp = b->program;
    b->mtp.ops = b->ops + whole.n_ops;
    b->mtp.n_ops -= whole.n_ops;
    b->mtp.shape.n_layers = 1;
    b->program = whole;
}
