/* convert_recurrent.c - the tensors of layers with a recurrent state: the delta rule's (Qwen3-Next,
 * Qwen3.5) and Mamba-2's. */
#include "convert/convert_plan.h"

/* ---- the delta rule ---- */

static convert_tensor *heads(planner *p, uint32_t i, const char *from, const char *to,
                             uint64_t rows, uint64_t columns, convert_heads kind)
{
    convert_tensor *t = plan_plain(p, i, from, to, rows, columns, false);
    if (!t) return NULL;
    t->rows = ROWS_HEADS;
    t->step = kind;
    return t;
}

/* Of qwen3next, rows of one source; its own are more than the tensor's. */
static void heads_apart(planner *p, uint32_t i, const char *to, uint64_t rows, convert_heads kind)
{
    static const char from[] = "linear_attn.in_proj_qkvz.weight";
    const convert_config *c = p->c;
    convert_tensor t = {.rows = ROWS_HEADS, .step = kind, .from = plan_find(p, i, from),
                        .n_dims = 2, .dims = {c->n_embd, rows, 1, 1}};
    if (!t.from) plan_missing(p, i, from);
    if (!t.from) return;
    plan_name(&t, i, to);
    plan_shape(p, t.from, convert_state_channels(c) + c->n_value_heads * c->value_dim, c->n_embd,
               0);
    plan_add(p, &t);
}

static void plan_conv(planner *p, uint32_t i, const char *from, row_source rows)
{
    const uint32_t all = convert_state_channels(p->c);
    convert_tensor t = {.rows = rows, .step = HEADS_BEHIND_KEYS, .from = plan_find(p, i, from),
                        .n_dims = 2, .dims = {p->c->n_taps, all, 1, 1}};
    if (!t.from) plan_missing(p, i, from);
    if (!t.from) return;
    plan_name(&t, i, "ssm_conv1d.weight");
    plan_shape(p, t.from, all, 1, p->c->n_taps);
    plan_add(p, &t);
}

void plan_recurrent(planner *p, uint32_t i)
{
    const convert_config *c = p->c;
    const bool is_next = c->arch == CONVERT_QWEN3NEXT;
    const uint32_t e = c->n_embd, n = c->n_value_heads, all = convert_state_channels(c);
    const uint32_t values = n * c->value_dim;
    convert_tensor *t;
    if (is_next) {
        heads_apart(p, i, "attn_qkv.weight", all, HEADS_APART);
        heads_apart(p, i, "attn_gate.weight", values, HEADS_APART_GATE);
        plan_plain(p, i, "linear_attn.in_proj_ba.weight", "ssm_ba.weight", 2 * n, e, false);
    } else {
        heads(p, i, "linear_attn.in_proj_qkv.weight", "attn_qkv.weight", all, e,
              HEADS_BEHIND_KEYS);
        heads(p, i, "linear_attn.in_proj_z.weight", "attn_gate.weight", values, e,
              HEADS_OF_VALUES);
        heads(p, i, "linear_attn.in_proj_b.weight", "ssm_beta.weight", n, e, HEADS_ONE_ROW);
        heads(p, i, "linear_attn.in_proj_a.weight", "ssm_alpha.weight", n, e, HEADS_ONE_ROW);
    }
    plan_conv(p, i, "linear_attn.conv1d.weight", is_next ? ROWS_PLAIN : ROWS_HEADS);
    t = heads(p, i, "linear_attn.A_log", "ssm_a", n, 0, HEADS_ONE_ROW);
    if (t) t->is_decay = true;
    if (t && is_next) t->rows = ROWS_PLAIN;
    t = heads(p, i, "linear_attn.dt_bias", "ssm_dt.bias", n, 0, HEADS_ONE_ROW);
    if (t && is_next) t->rows = ROWS_PLAIN;
    plan_plain(p, i, "linear_attn.norm.weight", "ssm_norm.weight", c->value_dim, 0, false);
    t = plan_plain(p, i, "linear_attn.out_proj.weight", "ssm_out.weight", e, values, false);
    if (t && !is_next) t->rows = ROWS_HEADS_COLUMNS;
}

/* ---- Mamba-2 ---- */

/* Of one source [rows][columns] in other dimensions, the fastest first. */
static void reshaped(planner *p, uint32_t i, const char *from, const char *to, uint64_t d0,
                     uint64_t d1, bool is_decay)
{
    convert_tensor t = {.from = plan_find(p, i, from), .n_dims = 2, .dims = {d0, d1, 1, 1},
                        .is_decay = is_decay};
    if (!t.from) plan_missing(p, i, from);
    if (!t.from) return;
    plan_name(&t, i, to);
    plan_shape(p, t.from, d0 * d1, 0, 0);
    plan_add(p, &t);
}

void plan_mamba(planner *p, uint32_t i, const char *where)
{
    const convert_config *c = p->c;
    const uint32_t e = c->n_embd, n = c->n_value_heads, all = convert_state_channels(c);
    const uint32_t inner = n * c->value_dim, of_group = inner / c->n_key_heads;
    char from[64];
#define OF_PART(name) (snprintf(from, sizeof from, "%s." name, where), from)
    plan_plain(p, i, OF_PART("in_proj.weight"), "ssm_in.weight", inner + all + n, e, false);
    plan_conv(p, i, OF_PART("conv1d.weight"), ROWS_PLAIN);
    plan_plain(p, i, OF_PART("conv1d.bias"), "ssm_conv1d.bias", all, 0, false);
    plan_plain(p, i, OF_PART("dt_bias"), "ssm_dt.bias", n, 0, false);
    reshaped(p, i, OF_PART("A_log"), "ssm_a", 1, n, true);
    reshaped(p, i, OF_PART("D"), "ssm_d", 1, n, false);
    reshaped(p, i, OF_PART("norm.weight"), "ssm_norm.weight", of_group, c->n_key_heads, false);
    plan_plain(p, i, OF_PART("out_proj.weight"), "ssm_out.weight", e, inner, false);
#undef OF_PART
}
