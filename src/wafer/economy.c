/* economy.c - joules and dollars, from counted events and a machine's costs. */
#include <math.h>

#include "wafer/plan.h"

wafer_band machine_usd_hour(const wafer_machine *m)
{
    const double hours = m->years * 8760 * m->utilization;
    const double usd_kw = m->pue * m->usd_kwh;
    return (wafer_band){m->price_usd.low / hours + m->power_kw.low * usd_kw,
                        m->price_usd.high / hours + m->power_kw.high * usd_kw};
}

/* Wafers of a plan in systems of the machine: a part of one draws that part of its power. */
static double economy_share_of(const plan_result *plan, const plan_request *r)
{
    return (double)plan->layout.wafers / r->machine->wafers_a_system;
}

wafer_band plan_static_watts(const plan_result *plan, const plan_request *r)
{
    const wafer_machine *m = r->machine;
    const double watts = 1e3 * economy_share_of(plan, r);
    return (wafer_band){watts * m->power_kw.low * m->mesh.static_share.low,
                        watts * m->power_kw.high * m->mesh.static_share.high};
}

wafer_band plan_usd_million(const plan_result *plan, const plan_request *r, wafer_band tokens_s)
{
    const wafer_band hour = machine_usd_hour(r->machine);
    const double scale = ceil(economy_share_of(plan, r)) * 1e6 / 3600;
    return (wafer_band){hour.low * scale / tokens_s.high, hour.high * scale / tokens_s.low};
}

static double economy_joules(const wafer_events *e, double busy, double read, double write,
                             double hop, double mac, double core)
{
    /* A ramp is a wire as long as a hop. */
    return 1e-12 *
           ((double)e->sram_read_bits * read + (double)e->sram_write_bits * write +
            32.0 * (double)(e->hops + e->ramps) * hop + (double)e->macs * mac + busy * core);
}

wafer_band mesh_joules(const wafer_mesh *m, const wafer_events *e, double busy_core_cycles)
{
    return (wafer_band){
        economy_joules(e, busy_core_cycles, m->sram_read_pj_bit.low, m->sram_write_pj_bit.low,
                       m->hop_pj_bit.low, m->mac_pj.low, m->core_pj_cycle.low),
        economy_joules(e, busy_core_cycles, m->sram_read_pj_bit.high, m->sram_write_pj_bit.high,
                       m->hop_pj_bit.high, m->mac_pj.high, m->core_pj_cycle.high)};
}

uint64_t plan_weight_bytes(const step_program *p, wafer_quant quant)
{
    double total = 0;
    const model_matrix *embed = NULL;
    for (uint32_t i = 0; i < p->n_ops; i++)
        for (int k = 0; k < 3; k++) {
            const model_matrix *w = p->ops[i].w[k];
            if (!w || w == embed) continue; /* a tied head is the embedding */
            if (p->ops[i].kind == STEP_EMBED) embed = w;
            total += (double)w->rows * w->cols * w->n_matrices * quant_bits(quant, w) / 8;
        }
    return (uint64_t)total;
}

uint64_t plan_kv_bytes(const step_program *p, uint32_t context)
{
    uint64_t total = 0;
    for (uint32_t i = 0; i < p->n_ops; i++) {
        const step_op *op = &p->ops[i];
        if (op->kind != STEP_ATTEND) continue;
        uint64_t tokens = op->window && op->window < context ? op->window : context;
        total += tokens * p->shape.n_kv_heads * p->shape.head_dim * 2 * 2;
    }
    return total;
}
