/* modelled.c - the step programs that the simulated machines support: those of the first
 * families. */
#include "wafer/modelled.h"

/* The unsupported part of an op on the mesh, or NULL. */
static const char *beyond_mesh(const step_op *op, const step_shape *s)
{
    if (op->kind == STEP_QKV && op->rope != 0) return "layers that turn each in their own way";
    if (op->kind == STEP_QKV && op->n_heads != s->n_heads) return "layers with fewer heads";
    if (op->kind == STEP_QKV && (op->n_kv_heads != s->n_kv_heads || op->head_dim != s->head_dim))
        return "layers whose heads differ";
    if (op->kind == STEP_QKV && (!op->w[1] || !op->w[2] || op->head_norm[2]))
        return "layers that share keys and values, or norms of values";
    if (op->kind == STEP_LAYER_INPUTS) return "inputs of every layer";
    if (op->kind == STEP_LATENT) return "attention by latents";
    if (op->is_row_norm) return "norms over all heads of a row";
    if (op->kind == STEP_LINEAR_IN) return "layers with a recurrent state";
    if (op->is_gated || op->n_gates) return "gates on attention or experts";
    if (op->post_norm) return "norms after branches";
    if (op->expert_scale || (op->kind == STEP_EXPERTS_UP && op->norm))
        return "experts with a scale or an input of their own";
    if (op->kind == STEP_EXPERTS_IN) return "experts of a latent";
    if (op->choice_bias) return "a bias on the choice of experts";
    if (op->kind == STEP_FFN_UP && !op->norm) return "an expert that every row takes";
    if (op->kind == STEP_FFN_UP && s->n_experts) return "layers with experts and others without";
    if (step_hadamard_of(op)) return "turned weights";
    for (int i = 0; i < STEP_MATRICES_MAX; i++)
        if (op->w[i] && kernel_panel_has_factor(op->w[i]->type)) return "matrices with a factor";
    return NULL;
}

int wafer_check_modelled(const step_program *p, const char *name, cerium_error *err)
{
    const step_shape *s = &p->shape;
    const char *what = NULL;
    if (s->activation == STEP_GELU_GATED || s->activation == STEP_SILU_CLAMPED ||
        s->activation == STEP_RELU_SQUARED)
        what = "the activation";
    if (s->routing == STEP_ROUTE_SIGMOID_TOP || s->n_expert_groups) what = "the choice of experts";
    if (s->n_experts && (!s->weights_sum_to_one ||
                         (s->routing == STEP_ROUTE_TOP_SOFTMAX && s->routing_scale != 1)))
        what = "the weights of experts";
    if (s->embedding_scale != 1 || s->residual_scale != 1 || s->logit_scale != 1 ||
        s->logit_cap != 0)
        what = "scales of embeddings, branches or logits";
    if (s->query_growth != 0) what = "queries that grow with their position";
    for (uint32_t i = 0; i < p->n_ops && !what; i++) what = beyond_mesh(&p->ops[i], s);
    if (!what) return CERIUM_OK;
    return error_set(err, CERIUM_ERR_FORMAT, "%s: not modelled: %s", name, what);
}
