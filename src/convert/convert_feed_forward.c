/* convert_feed_forward.c - the tensors of a layer's feed-forward, dense or of experts. */
#include "convert/convert_plan.h"

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

void plan_experts(planner *p, uint32_t i, const char *where, const char *const names[3])
{
    static const char *const short_names[3] = {"gate", "up", "down"};
    const convert_config *c = p->c;
    const uint32_t width = c->n_expert_latent ? c->n_expert_latent : c->n_embd;
    const uint32_t n_ff = c->has_blocks ? c->layer_ff[i] : c->n_ff_expert;
    char router[64];
    snprintf(router, sizeof router, "%s.gate.weight", where);
    plan_plain(p, i, router, "ffn_gate_inp.weight", c->n_experts, c->n_embd, false);
    for (int k = 0; k < 3; k++) {
        const uint64_t rows = k < 2 ? n_ff : width;
        const uint64_t columns = k < 2 ? width : n_ff;
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

/* The same of a source whose rows are columns: [n][columns][all rows]. */
static void turned_part_of(planner *p, uint32_t layer, const char *from, const char *to, uint64_t n,
                           uint64_t rows, uint64_t columns, uint32_t offset)
{
    convert_tensor t = {.rows = ROWS_COLUMNS, .step = 1, .offset = offset, .n_dims = 3,
                        .dims = {columns, rows, n, 1}, .from = plan_find(p, layer, from)};
    if (!t.from) {
        plan_missing(p, layer, from);
        return;
    }
    plan_name(&t, layer, to);
    plan_add(p, &t);
}

/* Experts one by one, or all in two tensors, which Qwen3-VL has transposed. */
static void plan_any_experts(planner *p, uint32_t i, const char *const names[3])
{
    static const char both[] = "mlp.experts.gate_up_proj";
    const convert_config *c = p->c;
    const uint32_t n = c->n_experts, e = c->n_embd, ff = c->n_ff_expert;
    if (!plan_find(p, i, both)) {
        plan_experts(p, i, "mlp", names);
        return;
    }
    plan_plain(p, i, "mlp.gate.weight", "ffn_gate_inp.weight", n, e, false);
    const safetensor *down = plan_find(p, i, "mlp.experts.down_proj");
    if (convert_has_shape(plan_find(p, i, both), n, e, 2 * ff) && down &&
        convert_has_shape(down, n, ff, e)) {
        turned_part_of(p, i, both, "ffn_gate_exps.weight", n, ff, e, 0);
        turned_part_of(p, i, both, "ffn_up_exps.weight", n, ff, e, ff);
        turned_part_of(p, i, "mlp.experts.down_proj", "ffn_down_exps.weight", n, e, ff, 0);
        return;
    }
    part_of(p, i, both, "ffn_gate_exps.weight", n, ff, e, 2 * ff, 0);
    part_of(p, i, both, "ffn_up_exps.weight", n, ff, e, 2 * ff, ff);
    part_of(p, i, "mlp.experts.down_proj", "ffn_down_exps.weight", n, e, ff, e, 0);
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
    plan_any_experts(p, i, names);
    const char *bias = "mlp.experts.e_score_correction_bias"; /* of Laguna */
    if (!plan_find(p, i, bias)) bias = "mlp.gate.e_score_correction_bias";
    if ((c->arch != CONVERT_DEEPSEEK2 && c->arch != CONVERT_MISTRAL4) || c->has_sigmoid)
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
    const convert_config *c = p->c;
    const uint32_t e = c->n_embd, sh = c->n_ff_shared;
    plan_any_experts(p, i, names);
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

void plan_feed_forward(planner *p, uint32_t i)
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
    case CONVERT_MELLUM: plan_any_experts(p, i, projections); break;
    case CONVERT_GPT_OSS: plan_gpt_oss(p, i); break;
    case CONVERT_GEMMA4: plan_gemma4(p, i); break;
    case CONVERT_LAGUNA: plan_dense_first(p, i, projections, expert); break;
    case CONVERT_DEEPSEEK2:
    case CONVERT_MISTRAL4:
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
