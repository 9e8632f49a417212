/* prompt_time.c - a whole prompt through the regions of a plan. */
#include "wafer/plan.h"

/* From the table to the lines that have the rows, and from the last of them to the head: slices
 * along x to the columns that need them, then a ring along y (mesh_run.c).  Halves. */
static double turn_cycles(const plan_layout *l, const step_cost *cost, uint32_t n_embd, double rows)
{
    const wafer_mesh *m = cost->mesh;
    const double along_x = rows * tiles_of(n_embd, l->height) / 2;
    const double along_y = rows * tiles_of(n_embd, l->width) / 2;
    const double hops = (double)m->hop_cycles * (l->width + 2.0 * (l->height - 1));
    return hops + 4.0 * m->ramp_cycles + along_x + along_y;
}

int plan_prompt_us(double out[2], const plan_result *plan, const plan_request *r, uint32_t tokens)
{
    const step_program *p = r->program;
    const plan_layout *l = &plan->layout;
    const wafer_mesh *m = &r->machine->mesh;
    const step_cost cost = {.mesh = m,
                            .style = r->style,
                            .quant = r->quant,
                            .choice = l->choice,
                            .context = tokens,
                            .tokens = 1};
    step_time kind[2], head;
    bool known[2] = {false, false};
    double cycles = 0;
    for (uint32_t layer = 0; layer < p->shape.n_layers; layer++) {
        uint32_t first = 0, n = 0;
        CHECK(layer_ops(p, layer, &first, &n));
        const int k = p->ops[first].window != 0;
        if (!known[k])
            RETURN_IF(time_prefill_layer(&kind[k], p, layer, l->width, l->height, &cost, tokens));
        known[k] = true;
        cycles += kind[k].cycles;
    }
    RETURN_IF(time_range(&head, p, p->n_ops - 1, 1, l->width, l->height, &cost, true));
    cycles += head.cycles + turn_cycles(l, &cost, p->shape.n_embd, tokens) +
              turn_cycles(l, &cost, p->shape.n_embd, 1);
    /* Each line's rows to the same line of the next region, over one link. */
    const double next = (double)tiles_of(tokens, l->height) * p->shape.n_embd / 2 +
                        (double)l->width * m->hop_cycles + 2.0 * m->ramp_cycles;
    cycles += (l->layer_regions - 1.0 + (l->table_regions != 0)) * next;
    const double sent_us = 2.0 * p->shape.n_embd * tokens / (m->link_gbytes_s * 1e3);
    const double crossings = l->wafers - 1.0;
    out[0] = cycles / m->clock_ghz.high / 1e3 + crossings * (m->link_us.low + sent_us);
    out[1] = cycles / m->clock_ghz.low / 1e3 + crossings * (m->link_us.high + sent_us);
    return CERIUM_OK;
}
