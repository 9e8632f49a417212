/* drafting.c - the cost and the yield of passes over guesses. */
#include "wafer/drafting.h"

#include <math.h>

double draft_yield(double p, uint32_t tokens)
{
    double total = 1;
    for (uint32_t i = 1; i < tokens; i++) total += pow(p, i);
    return total;
}

double draft_turns_us(const draft_us *t, double p, uint32_t tokens)
{
    if (tokens == 1) return t->verify;
    const double all_right = pow(p, tokens - 1);
    return t->verify + t->tell + (tokens - 1) * t->step + all_right * (t->catch_up - t->step) +
           t->offer;
}

/* Guesses begun during the verification of a pass, if they turn out wrong. */
static double drafting_begun(const draft_us *t, uint32_t tokens)
{
    return fmin(tokens, ceil((t->verify + t->tell) / t->step));
}

double draft_overlapped_us(const draft_us *t, double p, uint32_t tokens)
{
    if (tokens == 1) return t->verify;
    const double heard = t->verify + t->tell;
    const double ready = fmax(heard, tokens * t->step); /* with the token that follows */
    const double anew = fmax(heard, drafting_begun(t, tokens) * t->step) + (tokens - 1) * t->step;
    const double hit = pow(p, tokens); /* all guesses, and that token */
    return hit * ready + (1 - hit) * anew + t->offer;
}

double draft_turns_guesses(uint32_t tokens) { return tokens - 1; }

double draft_overlapped_guesses(const draft_us *t, double p, uint32_t tokens)
{
    if (tokens == 1) return 0;
    const double hit = pow(p, tokens);
    return hit * tokens + (1 - hit) * (drafting_begun(t, tokens) + tokens - 1);
}

/* A message over the fabric. */
static double message_us(const wafer_mesh *m, uint32_t hops, double wavelets, double clock_ghz)
{
    const double cycles = (double)hops * m->hop_cycles + 2 * m->ramp_cycles + wavelets;
    return cycles / clock_ghz / 1e3;
}

/* Of two tokens only the later needs logits. */
static double catch_up_us(double two, double head_of_two, double head_of_one, double clock_ghz)
{
    return (two - head_of_two + head_of_one) / clock_ghz / 1e3;
}

static int step_cycles(plan_result *out, const plan_result *plan, const plan_request *r,
                       uint32_t tokens, bool slow)
{
    plan_request here = *r;
    here.draft = tokens;
    return plan_time_end(out, plan, &here, slow);
}

int draft_time(draft_us out[2], const draft_plan *d, const plan_result *plan,
               const plan_request *r, uint32_t tokens)
{
    const wafer_mesh *m = &r->machine->mesh;
    for (int slow = 0; slow < 2; slow++) {
        plan_result all, one, two;
        const double ghz = slow ? m->clock_ghz.low : m->clock_ghz.high;
        const double link = slow ? m->link_us.high : m->link_us.low;
        CHECK(tokens && tokens <= r->draft);
        RETURN_IF(step_cycles(&all, plan, r, tokens, slow));
        RETURN_IF(step_cycles(&one, &d->plan, &d->request, 1, slow));
        RETURN_IF(step_cycles(&two, &d->plan, &d->request, 2, slow));
        const double compare = tokens * plan_style_end(r, slow).scalar; /* rows and guesses */
        const double crossing = d->crossings / 2.0 * link;
        out[slow] = (draft_us){
            .verify = all.cycles / ghz / 1e3 + all.off_wafer_us[slow],
            .step = one.cycles / ghz / 1e3,
            .catch_up = catch_up_us(two.cycles, two.head.cycles, one.head.cycles, ghz),
            /* The number of right guesses, plus the model's own token. */
            .tell = compare / ghz / 1e3 + message_us(m, d->tell_hops, 2, ghz) + crossing,
            .offer = message_us(m, d->offer_hops, tokens - 1.0, ghz) + crossing};
    }
    return CERIUM_OK;
}

static int whole_step(step_time *out, const draft_region *r, uint32_t tokens, bool only_head)
{
    const uint32_t n = r->program->n_ops;
    step_cost cost = r->cost;
    cost.tokens = tokens;
    return time_range(out, r->program, only_head ? n - 1 : 0, only_head ? 1 : n, r->width,
                      r->height, &cost, true);
}

int draft_time_beside(draft_us *out, const draft_region *large, const draft_region *small,
                      uint32_t tokens, double clock_ghz)
{
    const wafer_mesh *m = large->cost.mesh;
    const uint32_t high = large->height > small->height ? large->height : small->height;
    const uint32_t hops = large->width + small->width + high; /* from any core to any core */
    step_time verify, one, two, head_one, head_two;
    RETURN_IF(whole_step(&verify, large, tokens, false));
    RETURN_IF(whole_step(&one, small, 1, false));
    RETURN_IF(whole_step(&two, small, 2, false));
    RETURN_IF(whole_step(&head_one, small, 1, true));
    RETURN_IF(whole_step(&head_two, small, 2, true));
    const double compare = tokens * large->cost.style.scalar;
    *out = (draft_us){
        .verify = verify.cycles / clock_ghz / 1e3,
        .step = one.cycles / clock_ghz / 1e3,
        .catch_up = catch_up_us(two.cycles, head_two.cycles, head_one.cycles, clock_ghz),
        .tell = compare / clock_ghz / 1e3 + message_us(m, hops, 2, clock_ghz),
        .offer = message_us(m, hops, tokens - 1.0, clock_ghz)};
    return CERIUM_OK;
}
