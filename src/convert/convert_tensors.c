/* convert_tensors.c - the tensors of a GGUF file, and their sources in safetensors. */
#include "base/memory.h"
#include "convert/convert_fp4.h"

enum { LAYER_TENSORS_MAX = 24, OTHER_TENSORS = 7, MTP_TENSORS = 6 };

/* ---- the plan ---- */

/* Of one source [step rows][columns], or one for each expert, rows [offset, offset + rows). */
static void part_of(planner *p, uint32_t layer, const char *from, const char *to, uint64_t n,
                    uint64_t rows, uint64_t columns, uint32_t step, uint32_t offset)
{
    convert_tensor t = {.rows = ROWS_PART, .step = step, .offset = offset, .n_dims = n > 1 ? 3 : 2,
                        .dims = {columns, rows, n, 1}, .from = plan_find(p, layer, from)};
    if (!t.from) {
        plan_missing(p, layer, from);
        return;
    }
    plan_name(&t, layer, to);
    plan_shape(p, t.from, n > 1 ? n : step, n > 1 ? step : columns, n > 1 ? columns : 0);
    plan_add(p, &t);
}

/* An RMS norm [n]; Gemma's multiplies by 1 + weight, and files hold the sum. */
static void norm(planner *p, uint32_t layer, const char *from, const char *to, uint64_t n,
                 bool optional)
{
    convert_tensor *t = plan_plain(p, layer, from, to, n, 0, optional);
    if (t && (p->c->arch == CONVERT_GEMMA3 || convert_has_states(p->c))) t->more = 1;
}

static void permute(convert_tensor *t, uint32_t n_heads)
{
    if (!t) return;
    t->rows = ROWS_PERMUTED;
    t->n_heads = n_heads;
}

static void plan_attention(planner *p, uint32_t i)
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
    norm(p, i, "self_attn.q_norm.weight", "attn_q_norm.weight", whole ? q : head_dim, true);
    norm(p, i, "self_attn.k_norm.weight", "attn_k_norm.weight", whole ? kv : head_dim, true);
    if (c->n_gates)
        plan_plain(p, i, "self_attn.g_proj.weight", "attn_gate.weight",
                   (uint64_t)c->layer_heads[i] * c->n_gates, c->n_embd, false);
    plan_plain(p, i, "self_attn.sinks", "attn_sinks.weight", c->n_heads, 0, true);
}

/* Attention by latents.  For each head kv_b has rows for keys, which become columns, as they are
 * applied to queries instead, and rows for values. */
static void plan_latents(planner *p, uint32_t i)
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

static void plan_ffn(planner *p, uint32_t i)
{
    static const char *const gated[3][3] = {
        {"mlp.gate_proj", "ffn_gate"}, {"mlp.up_proj", "ffn_up"}, {"mlp.down_proj", "ffn_down"}};
    static const char *const simple[3][3] = {
        {NULL}, {"mlp.c_fc", "ffn_up"}, {"mlp.c_proj", "ffn_down"}};
    const convert_config *c = p->c;
    for (int k = 0; k < 3; k++) {
        const char *const *names = c->arch == CONVERT_STARCODER2 ? simple[k] : gated[k];
        const bool is_wide = c->is_double_wide && i >= c->n_layers - c->n_shared_kv;
        const uint64_t n_ff = (uint64_t)c->n_ff << is_wide;
        const uint64_t rows = k < 2 ? n_ff : c->n_embd, columns = k < 2 ? c->n_embd : n_ff;
        char from[64], to[32];
        if (!names[0]) continue;
        snprintf(from, sizeof from, "%s.weight", names[0]);
        snprintf(to, sizeof to, "%s.weight", names[1]);
        plan_plain(p, i, from, to, rows, columns, false);
        snprintf(from, sizeof from, "%s.bias", names[0]);
        snprintf(to, sizeof to, "%s.bias", names[1]);
        plan_plain(p, i, from, to, rows, 0, true);
    }
}

/* A tensor for each expert; where: the block's name, names: those of gate, which may be missing, up
 * and down. */
static void plan_experts(planner *p, uint32_t i, const char *where, const char *const names[3])
{
    static const char *const short_names[3] = {"gate", "up", "down"};
    const convert_config *c = p->c;
    const uint32_t width = c->n_expert_latent ? c->n_expert_latent : c->n_embd;
    char router[64];
    snprintf(router, sizeof router, "%s.gate.weight", where);
    plan_plain(p, i, router, "ffn_gate_inp.weight", c->n_experts, c->n_embd, false);
    for (int k = 0; k < 3; k++) {
        const uint64_t rows = k < 2 ? c->n_ff_expert : width;
        const uint64_t columns = k < 2 ? width : c->n_ff_expert;
        char first[64], to[32], of_layer[64];
        if (!names[k]) continue;
        convert_tensor t = {.rows = ROWS_EXPERTS, .n_dims = 3,
                            .dims = {columns, rows, c->n_experts, 1}};
        snprintf(first, sizeof first, "%s.experts.0.%s.weight", where, names[k]);
        snprintf(to, sizeof to, "ffn_%s_exps.weight", short_names[k]);
        snprintf(t.expert_format, sizeof t.expert_format, "%s%s.experts.%%u.%s.weight",
                 plan_layer_name(p, i, of_layer), where, names[k]);
        plan_name(&t, i, to);
        t.from = plan_find(p, i, first);
        if (!t.from) plan_missing(p, i, first);
        if (t.from) plan_add(p, &t);
    }
}

/* gpt-oss: gate and up are the even and odd outputs of one product; floats are transposed, MXFP4 is
 * not. */
static void plan_fused(planner *p, uint32_t i, const char *name, const char *to, uint32_t step,
                       uint32_t offset, uint64_t rows, uint64_t columns)
{
    char from[80], scales[80], out[32];
    convert_tensor t = {.step = step, .offset = offset, .n_dims = 3,
                        .dims = {columns, rows, p->c->n_experts, 1}};
    snprintf(from, sizeof from, "mlp.experts.%s", name);
    snprintf(out, sizeof out, "ffn_%s_exps.weight", to);
    plan_name(&t, i, out);
    t.rows = ROWS_COLUMNS;
    t.from = plan_find(p, i, from);
    if (t.from) {
        plan_shape(p, t.from, p->c->n_experts, columns, rows * step);
    } else {
        snprintf(from, sizeof from, "mlp.experts.%s_blocks", name);
        snprintf(scales, sizeof scales, "mlp.experts.%s_scales", name);
        t.rows = ROWS_MXFP4;
        t.from = plan_find(p, i, from);
        t.scales = plan_find(p, i, scales);
        if (!t.from || !t.scales) {
            plan_missing(p, i, t.from ? scales : from);
            return;
        }
        const uint64_t n = p->c->n_experts * rows * step * (columns / MXFP4_VALUES);
        if (columns % MXFP4_VALUES || t.from->type != SAFE_U8 || t.scales->type != SAFE_U8 ||
            t.from->size != n * MXFP4_BYTES || t.scales->size != n)
            plan_shape(p, t.from, 0, 1, 1);
    }
    plan_add(p, &t);
    snprintf(from, sizeof from, "mlp.experts.%s_bias", name);
    snprintf(out, sizeof out, "ffn_%s_exps.bias", to);
    t = (convert_tensor){.rows = ROWS_STRIDED, .step = step, .offset = offset, .n_dims = 2,
                         .dims = {rows, p->c->n_experts, 1, 1}, .from = plan_find(p, i, from)};
    plan_name(&t, i, out);
    if (!t.from) return;
    plan_shape(p, t.from, p->c->n_experts, rows * step, 0);
    plan_add(p, &t);
}

static void plan_gpt_oss(planner *p, uint32_t i)
{
    const convert_config *c = p->c;
    plan_plain(p, i, "mlp.router.weight", "ffn_gate_inp.weight", c->n_experts, c->n_embd, false);
    plan_plain(p, i, "mlp.router.bias", "ffn_gate_inp.bias", c->n_experts, 0, true);
    plan_fused(p, i, "gate_up_proj", "gate", 2, 0, c->n_ff_expert, c->n_embd);
    plan_fused(p, i, "gate_up_proj", "up", 2, 1, c->n_ff_expert, c->n_embd);
    plan_fused(p, i, "down_proj", "down", 1, 0, c->n_embd, c->n_ff_expert);
}

/* GLM, DeepSeek and Laguna: dense layers first, then experts and those used by every row: gate, up
 * and down of these. */
static void plan_dense_first(planner *p, uint32_t i, const char *const names[3],
                             const char *const shared[3])
{
    const convert_config *c = p->c;
    const uint64_t n_ff = c->n_ff_shared, e = c->n_embd;
    if (i < c->n_dense) {
        plan_ffn(p, i);
        return;
    }
    plan_experts(p, i, "mlp", names);
    const char *bias = "mlp.experts.e_score_correction_bias"; /* of Laguna */
    if (!plan_find(p, i, bias)) bias = "mlp.gate.e_score_correction_bias";
    if (c->arch != CONVERT_DEEPSEEK2 || c->has_sigmoid)
        plan_plain(p, i, bias, "exp_probs_b.bias", c->n_experts, 0, false);
    if (!n_ff) return;
    plan_plain(p, i, shared[0], "ffn_gate_shexp.weight", n_ff, e, false);
    plan_plain(p, i, shared[1], "ffn_up_shexp.weight", n_ff, e, false);
    plan_plain(p, i, shared[2], "ffn_down_shexp.weight", e, n_ff, false);
}

/* Gemma 4: experts beside the feed-forward, and an input for each layer. */
static void plan_gemma4(planner *p, uint32_t i)
{
    const convert_config *c = p->c;
    const uint32_t n = c->n_experts, e = c->n_embd, ff = c->n_ff_expert, in = c->n_layer_input;
    plan_ffn(p, i);
    plan_plain(p, i, "layer_scalar", "layer_output_scale.weight", 1, 0, false);
    if (n) {
        static const char *const norms[3][2] = {
            {"post_feedforward_layernorm_1.weight", "post_ffw_norm_1.weight"},
            {"post_feedforward_layernorm_2.weight", "post_ffw_norm_2.weight"},
            {"pre_feedforward_layernorm_2.weight", "pre_ffw_norm_2.weight"}};
        for (int k = 0; k < 3; k++) plan_plain(p, i, norms[k][0], norms[k][1], e, 0, false);
        plan_plain(p, i, "router.proj.weight", "ffn_gate_inp.weight", n, e, false);
        plan_plain(p, i, "router.scale", "ffn_gate_inp.scale", e, 0, false);
        plan_plain(p, i, "router.per_expert_scale", "ffn_down_exps.scale", n, 0, false);
        part_of(p, i, "experts.gate_up_proj", "ffn_gate_up_exps.weight", n, 2 * ff, e, 2 * ff, 0);
        part_of(p, i, "experts.down_proj", "ffn_down_exps.weight", n, e, ff, e, 0);
    }
    if (!in) return;
    plan_plain(p, i, "per_layer_input_gate.weight", "inp_gate.weight", in, e, false);
    plan_plain(p, i, "per_layer_projection.weight", "proj.weight", e, in, false);
    plan_plain(p, i, "post_per_layer_input_norm.weight", "post_norm.weight", e, 0, false);
}

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

/* Granite: gate and up of all experts in one tensor, and those of the shared one in another. */
static void plan_granite(planner *p, uint32_t i)
{
    static const char in[] = "block_sparse_moe.input_linear.weight";
    static const char shared[] = "shared_mlp.input_linear.weight";
    const convert_config *c = p->c;
    const uint32_t n = c->n_experts, e = c->n_embd, ff = c->n_ff_expert, sh = c->n_ff_shared;
    plan_plain(p, i, "block_sparse_moe.router.layer.weight", "ffn_gate_inp.weight", n, e, false);
    part_of(p, i, in, "ffn_gate_exps.weight", n, ff, e, 2 * ff, 0);
    part_of(p, i, in, "ffn_up_exps.weight", n, ff, e, 2 * ff, ff);
    part_of(p, i, "block_sparse_moe.output_linear.weight", "ffn_down_exps.weight", n, e, ff, e, 0);
    if (!sh) return;
    part_of(p, i, shared, "ffn_gate_shexp.weight", 1, sh, e, 2 * sh, 0);
    part_of(p, i, shared, "ffn_up_shexp.weight", 1, sh, e, 2 * sh, sh);
    plan_plain(p, i, "shared_mlp.output_linear.weight", "ffn_down_shexp.weight", e, sh, false);
}

/* The same without experts. */
static void plan_granite_dense(planner *p, uint32_t i)
{
    static const char both[] = "shared_mlp.input_linear.weight";
    const uint32_t e = p->c->n_embd, ff = p->c->n_ff;
    part_of(p, i, both, "ffn_gate.weight", 1, ff, e, 2 * ff, 0);
    part_of(p, i, both, "ffn_up.weight", 1, ff, e, 2 * ff, ff);
    plan_plain(p, i, "shared_mlp.output_linear.weight", "ffn_down.weight", e, ff, false);
}

/* Qwen: experts one by one or in two tensors, and one used by every row, with a gate. */
static void plan_qwen_experts(planner *p, uint32_t i, const char *const names[3])
{
    static const char both[] = "mlp.experts.gate_up_proj";
    const convert_config *c = p->c;
    const uint32_t n = c->n_experts, e = c->n_embd, ff = c->n_ff_expert, sh = c->n_ff_shared;
    if (plan_find(p, i, both)) {
        plan_plain(p, i, "mlp.gate.weight", "ffn_gate_inp.weight", n, e, false);
        part_of(p, i, both, "ffn_gate_exps.weight", n, ff, e, 2 * ff, 0);
        part_of(p, i, both, "ffn_up_exps.weight", n, ff, e, 2 * ff, ff);
        part_of(p, i, "mlp.experts.down_proj", "ffn_down_exps.weight", n, e, ff, e, 0);
    } else {
        plan_experts(p, i, "mlp", names);
    }
    convert_tensor t = {.from = plan_find(p, i, "mlp.shared_expert_gate.weight"), .n_dims = 1,
                        .dims = {e, 1, 1, 1}};
    if (!t.from) plan_missing(p, i, "mlp.shared_expert_gate.weight");
    if (!t.from) return;
    plan_name(&t, i, "ffn_gate_inp_shexp.weight");
    plan_shape(p, t.from, 1, e, 0);
    plan_add(p, &t);
    plan_plain(p, i, "mlp.shared_expert.gate_proj.weight", "ffn_gate_shexp.weight", sh, e, false);
    plan_plain(p, i, "mlp.shared_expert.up_proj.weight", "ffn_up_shexp.weight", sh, e, false);
    plan_plain(p, i, "mlp.shared_expert.down_proj.weight", "ffn_down_shexp.weight", e, sh, false);
}

static void plan_feed_forward(planner *p, uint32_t i)
{
    static const char *const projections[3] = {"gate_proj", "up_proj", "down_proj"};
    static const char *const numbers[3] = {"w1", "w3", "w2"};
    static const char *const expert[3] = {"mlp.shared_expert.gate_proj.weight",
                                          "mlp.shared_expert.up_proj.weight",
                                          "mlp.shared_expert.down_proj.weight"};
    static const char *const experts[3] = {"mlp.shared_experts.gate_proj.weight",
                                           "mlp.shared_experts.up_proj.weight",
                                           "mlp.shared_experts.down_proj.weight"};
    switch (p->c->arch) {
    case CONVERT_QWEN3MOE:
    case CONVERT_MELLUM: plan_experts(p, i, "mlp", projections); break;
    case CONVERT_GPT_OSS: plan_gpt_oss(p, i); break;
    case CONVERT_GEMMA4: plan_gemma4(p, i); break;
    case CONVERT_LAGUNA: plan_dense_first(p, i, projections, expert); break;
    case CONVERT_DEEPSEEK2:
    case CONVERT_GLM4MOE: plan_dense_first(p, i, projections, experts); break;
    case CONVERT_GRANITEMOE: plan_granite(p, i); break;
    case CONVERT_GRANITEHYBRID:
        if (p->c->n_experts) plan_granite(p, i);
        else plan_granite_dense(p, i);
        break;
    case CONVERT_GRANITE:
        if (plan_find(p, i, "shared_mlp.input_linear.weight")) plan_granite_dense(p, i);
        else plan_ffn(p, i);
        break;
    case CONVERT_MINIMAX_M2:
        plan_experts(p, i, "block_sparse_moe", numbers);
        plan_plain(p, i, "block_sparse_moe.e_score_correction_bias", "exp_probs_b.bias",
                   p->c->n_experts, 0, false);
        break;
    case CONVERT_QWEN35MOE:
    case CONVERT_QWEN3NEXT: plan_qwen_experts(p, i, projections); break;
    case CONVERT_LLAMA:
    case CONVERT_QWEN2:
    case CONVERT_QWEN3:
    case CONVERT_QWEN35:
    case CONVERT_STARCODER2:
    case CONVERT_MISTRAL3:
    case CONVERT_SMOLLM3:
    case CONVERT_SEED_OSS:
    case CONVERT_NEMOTRON_H: /* plan_nemotron_layer() */
    case CONVERT_NEMOTRON_H_MOE:
    case CONVERT_GEMMA3: plan_ffn(p, i); break;
    case CONVERT_EAGLE3:
    case CONVERT_DFLASH: break; /* convert_drafter_plan.c */
    }
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
    norm(p, i, "input_layernorm.weight", "attn_norm.weight", c->n_embd, false);
    plan_plain(p, i, "input_layernorm.bias", "attn_norm.bias", c->n_embd, 0, true);
    snprintf(to, sizeof to, "%s.weight", second);
    norm(p, i, "post_attention_layernorm.weight", to, c->n_embd, false);
    snprintf(to, sizeof to, "%s.bias", second);
    plan_plain(p, i, "post_attention_layernorm.bias", to, c->n_embd, 0, true);
    if (is_gemma) {
        norm(p, i, "pre_feedforward_layernorm.weight", "ffn_norm.weight", c->n_embd, false);
        norm(p, i, "post_feedforward_layernorm.weight", "post_ffw_norm.weight", c->n_embd, false);
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
            norm(p, UINT32_MAX, from, to, e, i == 3);
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
    norm(&p, none, name, "output_norm.weight", c->n_embd, false);
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
