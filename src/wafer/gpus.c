/* gpus.c - the GPU model: t = bytes / (devices * bandwidth * efficiency) + layers (layer + 2
 * reduce), and the arithmetic if many tokens go together. */
#include "wafer/gpus.h"

#include <math.h>

#include "wafer/plan.h"

/* The share of the memory that is not for activations, graphs and fragments. */
static const double memory_share = 0.9;
/* The share of the dense peak that large products reach. */
static const double compute_share = 0.6;

double step_weight_bytes(const step_program *p, wafer_quant quant, double m)
{
    double total = 0;
    for (uint32_t i = 0; i < p->n_ops; i++)
        for (int k = 0; k < 3; k++) {
            const model_matrix *w = p->ops[i].w[k];
            if (!w || p->ops[i].kind == STEP_EMBED) continue; /* one row of which is read */
            double matrices = w->n_matrices;
            if (matrices > 1) /* all equally likely */
                matrices *= 1 - pow(1 - p->shape.n_experts_used / matrices, m);
            total += (double)w->rows * w->cols * matrices * quant_bits(quant, w) / 8;
        }
    return total;
}

/* Multiply-adds of a token in matrix products. */
static double step_macs(const step_program *p)
{
    double total = 0;
    for (uint32_t i = 0; i < p->n_ops; i++)
        for (int k = 0; k < 3; k++) {
            const model_matrix *w = p->ops[i].w[k];
            if (!w || p->ops[i].kind == STEP_EMBED) continue;
            total += (double)w->rows * w->cols * (w->n_matrices > 1 ? p->shape.n_experts_used : 1);
        }
    return total;
}

static double gpus_tflops(const wafer_gpu *g, wafer_quant quant)
{
    return quant == QUANT_FP8 ? g->tflops_fp8 : g->tflops_fp16;
}

static gpu_time gpus_gpu_step(const wafer_gpu *g, wafer_stack stack, const gpu_work *work)
{
    const step_shape *s = &work->program->shape;
    const double m = (double)work->users * work->draft;
    const double kv = (double)plan_kv_bytes(work->program, work->context) * work->users;
    const double weights = step_weight_bytes(work->program, work->quant, m);
    const double bandwidth = g->devices * g->hbm_gbytes_s * 1e3 * g->stack[stack].efficiency;
    gpu_time t = {0};
    t.stream_us = (weights + kv) / bandwidth;
    const double compute = 2 * m * step_macs(work->program) /
                           (g->devices * gpus_tflops(g, work->quant) * 1e6 * compute_share);
    if (compute > t.stream_us) t.compute_us = compute - t.stream_us;
    t.layers_us = s->n_layers * g->stack[stack].layer_us;
    if (g->devices > 1) t.reduce_us = 2 * s->n_layers * g->stack[stack].reduce_us;
    t.step_us = t.stream_us + t.compute_us + t.layers_us + t.reduce_us;
    return t;
}

gpu_time gpu_decode(const wafer_gpu *g, wafer_stack stack, const gpu_work *work)
{
    gpu_time t = gpus_gpu_step(g, stack, work);
    if (!work->drafter) return t;
    const gpu_work guess = {.program = work->drafter,
                            .quant = work->drafter_quant,
                            .context = work->context,
                            .users = work->users,
                            .draft = 1};
    t.guess_us = (work->draft - 1) * gpus_gpu_step(g, stack, &guess).step_us;
    t.step_us += t.guess_us;
    return t;
}

double gpu_prefill_us(const wafer_gpu *g, wafer_stack stack, const gpu_work *work, uint32_t tokens)
{
    const step_shape *s = &work->program->shape;
    const double attention = (double)s->n_layers * s->n_heads * s->head_dim * tokens; /* causal */
    const double flops = 2.0 * tokens * (step_macs(work->program) + attention);
    const double reduce = g->devices > 1 ? 2 * g->stack[stack].reduce_us : 0;
    return flops / (g->devices * gpus_tflops(g, work->quant) * 1e6 * compute_share) +
           s->n_layers * (g->stack[stack].layer_us + reduce);
}

uint32_t gpu_users_max(const wafer_gpu *g, const gpu_work *work)
{
    double room = g->devices * g->hbm_gbytes * 1e9 * memory_share -
                  (double)plan_weight_bytes(work->program, work->quant);
    double kv = (double)plan_kv_bytes(work->program, work->context);
    if (work->drafter) {
        room -= (double)plan_weight_bytes(work->drafter, work->drafter_quant);
        kv += (double)plan_kv_bytes(work->drafter, work->context);
    }
    if (room < kv) return 0;
    return (uint32_t)fmin(kv > 0 ? room / kv : 65536, 65536);
}
