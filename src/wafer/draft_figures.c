/* draft_figures.c - joules and dollars of a model with a draft model on idle cores. */
#include <math.h>

#include "wafer/drafting.h"

/* Dynamic energy of a step of a plan, or of a part of it; only the cores of one region work. */
static wafer_band joules_of(const plan_layout *l, const wafer_mesh *m, const wafer_events *e,
                            double cycles)
{
    return mesh_joules(m, e, cycles * l->width * l->height);
}

static int step_joules(wafer_band *out, wafer_band *head, const plan_result *plan,
                       const plan_request *r, uint32_t tokens)
{
    const wafer_mesh *m = &r->machine->mesh;
    plan_result here = *plan;
    plan_request step = *r;
    step.draft = tokens;
    RETURN_IF(plan_time(&here, &step));
    *out = joules_of(&here.layout, m, &here.events, here.cycles);
    *head = joules_of(&here.layout, m, &here.head.events, here.head.cycles);
    return CERIUM_OK;
}

int draft_energy(draft_joules *out, const draft_plan *d, const plan_result *plan,
                 const plan_request *r, uint32_t tokens)
{
    const wafer_mesh *m = &r->machine->mesh;
    wafer_band verify, one, two, head, head_one, head_two;
    RETURN_IF(step_joules(&verify, &head, plan, r, tokens));
    RETURN_IF(step_joules(&one, &head_one, &d->plan, &d->request, 1));
    RETURN_IF(step_joules(&two, &head_two, &d->plan, &d->request, 2));
    const uint64_t sent = tokens > 1 ? 2 + (tokens - 1) : 0; /* received, and offered */
    const wafer_events messages = {
        .hops = sent ? 2ull * d->tell_hops + (tokens - 1ull) * d->offer_hops : 0,
        .ramps = 2 * sent};
    *out = (draft_joules){.verify = verify,
                          .guess = one,
                          .catch_up = {two.low - head_two.low + head_one.low,
                                       two.high - head_two.high + head_one.high},
                          .messages = mesh_joules(m, &messages, 0)};
    return CERIUM_OK;
}

draft_figures draft_figure(const draft_us us[2], const draft_joules *j, const plan_result *plan,
                           const plan_request *r, double p, uint32_t tokens, bool overlapped)
{
    const double yield = draft_yield(p, tokens);
    double rate[2], made[2];
    for (int slow = 0; slow < 2; slow++) {
        const draft_us *t = &us[slow];
        rate[slow] = 1e6 * yield / (overlapped ? draft_overlapped_us(t, p, tokens)
                                               : draft_turns_us(t, p, tokens));
        made[slow] = overlapped ? draft_overlapped_guesses(t, p, tokens)
                                : draft_turns_guesses(tokens);
    }
    /* In turns, one guess comes after two tokens if all guesses before were right. */
    const double rest = overlapped || tokens < 2 ? 0 : pow(p, tokens - 1);
    const double low = j->verify.low + j->messages.low + fmin(made[0], made[1]) * j->guess.low +
                       rest * (j->catch_up.low - j->guess.low);
    const double high = j->verify.high + j->messages.high +
                        fmax(made[0], made[1]) * j->guess.high +
                        rest * (j->catch_up.high - j->guess.high);
    const wafer_band idle = plan_static_watts(plan, r);
    const wafer_band tokens_s = {rate[1], rate[0]};
    return (draft_figures){
        .tokens_s = tokens_s,
        .joules = {low / yield + idle.low / tokens_s.high, high / yield + idle.high / tokens_s.low},
        .usd = plan_usd_million(plan, r, tokens_s)};
}
