/* convert_attention.c - the tensors of a layer's attention, by keys and values or by latents. */
#include "convert/convert_plan.h"

static void permute(convert_tensor *t, uint32_t n_heads)
{
    if (!t) return;
    t->rows = ROWS_PERMUTED;
    t->n_heads = n_heads;
}

void plan_attention(planner *p, uint32_t i)
{
    const convert_config *c = p->c;
    const uint32_t head_dim = c->layer_dim[i];
    const uint64_t q = (uint64_t)c->layer_heads[i] * head_dim;
    const uint64_t kv = (uint64_t)c->layer_kv_heads[i] * head_dim;
    /* or an earlier layer's keys */
    const bool is_own = !c->n_shared_kv || i < c->n_layers - c->n_shared_kv;
    const bool pairs = c->arch == CONVERT_LLAMA || c->arch == CONVERT_MISTRAL3 ||
                       c->arch == CONVERT_SMOLLM3 || c->arch == CONVERT_GRANITE ||
                       c->arch == CONVERT_GRANITEMOE || c->arch == CONVERT_GRANITEHYBRID;
    const bool whole = c->arch == CONVERT_MINIMAX_M2; /* norms of all heads of a row */
    const uint64_t q_rows = convert_has_states(c) ? 2 * q : q; /* and a gate for each head */
    convert_tensor *t =
        plan_plain(p, i, "self_attn.q_proj.weight", "attn_q.weight", q_rows, c->n_embd, false);
    if (pairs) permute(t, c->n_heads);
    t = plan_plain(p, i, "self_attn.q_proj.bias", "attn_q.bias", q, 0, true);
    if (pairs) permute(t, c->n_heads);
    t = plan_plain(p, i, "self_attn.k_proj.weight", "attn_k.weight", kv, c->n_embd, !is_own);
    if (pairs) permute(t, c->n_kv_heads);
    t = plan_plain(p, i, "self_attn.k_proj.bias", "attn_k.bias", kv, 0, true);
    if (pairs) permute(t, c->n_kv_heads);
    plan_plain(p, i, "self_attn.v_proj.weight", "attn_v.weight", kv, c->n_embd,
               c->arch == CONVERT_GEMMA4);
    plan_plain(p, i, "self_attn.v_proj.bias", "attn_v.bias", kv, 0, true);
    plan_plain(p, i, "self_attn.o_proj.weight", "attn_output.weight", c->n_embd, q, false);
    plan_plain(p, i, "self_attn.o_proj.bias", "attn_output.bias", c->n_embd, 0, true);
    plan_norm(p, i, "self_attn.q_norm.weight", "attn_q_norm.weight", whole ? q : head_dim, true);
    plan_norm(p, i, "self_attn.k_norm.weight", "attn_k_norm.weight", whole ? kv : head_dim, true);
    if (c->n_gates)
        plan_plain(p, i, "self_attn.g_proj.weight", "attn_gate.weight",
                   (uint64_t)c->layer_heads[i] * c->n_gates, c->n_embd, false);
    plan_plain(p, i, "self_attn.sinks", "attn_sinks.weight", c->n_heads, 0, true);
}

/* Attention by latents.  For each head kv_b has rows for keys, which become columns, as they are
 * applied to queries instead, and rows for values. */
void plan_latents(planner *p, uint32_t i)
{
    static const char both[] = "self_attn.kv_b_proj.weight";
    const convert_config *c = p->c;
    const uint32_t e = c->n_embd, n = c->n_heads, low = c->n_low, latent = c->n_latent;
    const uint32_t q = n * (c->n_plain + c->n_rot), of_head = c->n_plain + c->n_value;
    if (low) {
        plan_plain(p, i, "self_attn.q_a_proj.weight", "attn_q_a.weight", low, e, false);
        plan_plain(p, i, "self_attn.q_a_layernorm.weight", "attn_q_a_norm.weight", low, 0, false);
        plan_plain(p, i, "self_attn.q_b_proj.weight", "attn_q_b.weight", q, low, false);
    } else {
        plan_plain(p, i, "self_attn.q_proj.weight", "attn_q.weight", q, e, false);
    }
    plan_plain(p, i, "self_attn.kv_a_proj_with_mqa.weight", "attn_kv_a_mqa.weight",
               latent + c->n_rot, e, false);
    plan_plain(p, i, "self_attn.kv_a_layernorm.weight", "attn_kv_a_norm.weight", latent, 0, false);
    convert_tensor keys = {.rows = ROWS_COLUMNS, .step = 1, .n_rows = of_head, .n_dims = 3,
                           .dims = {c->n_plain, latent, n, 1}, .from = plan_find(p, i, both)};
    convert_tensor values = {.rows = ROWS_PART, .step = of_head, .offset = c->n_plain, .n_dims = 3,
                             .dims = {latent, c->n_value, n, 1}, .from = keys.from};
    if (!keys.from) plan_missing(p, i, both);
    if (!keys.from) return;
    plan_shape(p, keys.from, (uint64_t)n * of_head, latent, 0);
    plan_name(&keys, i, "attn_k_b.weight");
    plan_add(p, &keys);
    plan_name(&values, i, "attn_v_b.weight");
    plan_add(p, &values);
    plan_plain(p, i, "self_attn.o_proj.weight", "attn_output.weight", e, (uint64_t)n * c->n_value,
               false);
}
