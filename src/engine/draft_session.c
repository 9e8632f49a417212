/* draft_session.c - a session's part of a draft model or head: opening, what it keeps of the
 * model's passes, whether a round of guesses is worth its time, and what it learns. */
#include "engine/draft_round.h"

#include "base/memory.h"

/* ---- opening ---- */

static int open_states(draft_session *d, draft_model *m)
{
    d->states.pool = &m->states;
    d->own = memory_alloc(m->engine->program->shape.n_embd * sizeof *d->own);
    return d->own ? CERIUM_OK : CERIUM_ERR_MEMORY;
}

int draft_session_open(draft_session **out, cerium_session *s, cerium_error *err)
{
    cerium_engine *e = s->engine->draft->engine;
    draft_session *d = memory_zalloc(1, sizeof *d);
    if (!d) return error_set(err, CERIUM_ERR_MEMORY, "no memory for a session");
    uint32_t n = d->text.n_max = e->context_tokens_max;
    d->text.tokens = memory_alloc(n * sizeof *d->text.tokens);
    d->text.places = memory_alloc(n * sizeof *d->text.places);
    int status = d->text.tokens && d->text.places ? CERIUM_OK : CERIUM_ERR_MEMORY;
    if (!status && s->engine->draft->is_head) status = open_states(d, s->engine->draft);
    if (!status) status = draft_seen_open(&d->seen, &s->engine->draft->vocabulary);
    if (status) error_set(err, status, "no memory for a session");
    if (!status) status = claim_open(&d->pages, e, n, s->pages.tenant, err);
    d->is_new = true;
    d->is_block = e->program->shape.n_block > 0;
    if (status)
        draft_session_close(&d);
    else
        *out = d;
    return status;
}

void draft_session_close(draft_session **d)
{
    if (!d || !*d) return;
    claim_close(&(*d)->pages);
    taps_close(&(*d)->states);
    draft_seen_close(&(*d)->seen);
    memory_free((*d)->own);
    memory_free((*d)->text.places);
    memory_free((*d)->text.tokens);
    memory_free(*d);
    *d = NULL;
}

void draft_session_forget(draft_session *d) { d->n_guesses = 0; }

void draft_session_cut(draft_session *d, uint32_t n)
{
    if (d->text.end > n) d->is_new = true; /* another session may have computed the next tokens */
    if (n <= d->text.least) d->text.least = 0;
    translation_cut(&d->text, n);
    taps_cut(&d->states, n);
}

void draft_session_tap(cerium_session *s, uint32_t first_row, uint32_t first, uint32_t n)
{
    draft_session *d = s->draft;
    const cpu_executor *ex = s->engine->executor;
    const bool reads_taps = s->engine->draft->engine->program->shape.n_taps > 0;
    if (!d->own || !taps_take(&d->states)) return;
    for (uint32_t i = n > TAPS_MAX ? n - TAPS_MAX : 0; i < n; i++)
        (reads_taps ? cpu_executor_tapped : cpu_executor_state)(ex, first_row + i,
                                                                taps_put(&d->states, first + i));
}

/* What the pass costs with guesses.  False: that is not known. */
static bool price(draft_round *r, uint32_t n_rows, uint32_t n_max, float *cost)
{
    const cerium_engine *e = r->s->engine;
    draft_session *d = r->d;
    float ns[PACE_ROWS_MAX + 1];
    if (n_rows >= PACE_ROWS_MAX) return false;
    if (n_max > PACE_ROWS_MAX - n_rows) n_max = PACE_ROWS_MAX - n_rows;
    if (n_max > DRAFT_GUESSES_MAX) n_max = DRAFT_GUESSES_MAX;
    bool is_known = pace_estimate(&e->pace, n_rows + n_max, ns);
    for (uint32_t i = 0; i <= n_max; i++) {
        d->rows_ns[i] = is_known ? ns[n_rows + i] - ns[n_rows] : 0;
        cost[i] = is_known ? ns[n_rows + i] / ns[n_rows] : 1;
    }
    d->pass_ns = is_known ? ns[n_rows] : 0;
    if (is_known) budget_know_pass(&r->m->budget, (double)d->pass_ns);
    r->pass.ns = d->pass_ns;
    r->pass.n_max = n_max;
    r->pass.cost = cost;
    return (is_known || r->always) && n_max > 0;
}

uint32_t draft_session_guess(cerium_session *s, uint32_t n_rows, uint32_t n_sharing, uint32_t n_max,
                          int32_t *out)
{
    draft_model *m = s->engine->draft;
    draft_session *d = s->draft;
    float cost[PACE_ROWS_MAX + 1];
    draft_round r = {.s = s, .m = m, .d = d, .always = s->engine->drafts_always};
    d->n_guesses = 0;
    d->n_sharing = r.pass.n_sharing = n_sharing;
    if (s->is_private || !price(&r, n_rows, n_max, cost)) return 0;
    if (!r.always) {
        if (m->budget.balance_ns <= 0) return 0;
        r.rate = budget_rate(&m->budget, &r.pass);
        r.probes = !budget_asking(&m->budget, &r.pass, 0, 1, r.rate);
        if (r.probes && !budget_trying(&m->budget)) return 0;
    }
    uint64_t start = clock_thread_ns();
    if (draft_catch_up(&r)) (d->is_block ? draft_say_block : draft_say_all)(&r);
    draft_translate(&r);
    uint32_t n = d->n_guesses < r.pass.n_max ? d->n_guesses : r.pass.n_max;
    if (r.probes) n = 0;
    if (!r.always) n = budget_rows(&m->budget, &r.pass, d->classes, n, r.rate);
    if (n) memcpy(out, d->guesses, n * sizeof *out);
    if (r.block_ns) budget_learn_ask(&m->budget, r.block_ns / (n ? n : 1));
    uint64_t ns = clock_thread_ns() - start;
    budget_settle(&m->budget, -(double)ns);
    atomic_fetch_add(&m->ns, ns);
    return n;
}

void draft_session_learn(cerium_session *s, const int32_t *chosen, uint32_t n_chosen,
                      uint32_t n_tried)
{
    draft_session *d = s->draft;
    draft_budget *w = &s->engine->draft->budget;
    uint32_t n_right = 0;
    bool is_right = true;
    taps_cut(&d->states, s->n_computed); /* those of drafts that were wrong are of no token */
    for (uint32_t i = 0; i < d->n_guesses && i < n_chosen && is_right; i++) {
        draft_seen_learn(&d->seen, &s->engine->draft->vocabulary, chosen[i]);
        is_right = d->guesses[i] == chosen[i];
        budget_learn(w, d->classes[i], is_right);
        n_right += is_right;
    }
    if (n_right > n_tried) n_right = n_tried;
    if (n_tried > 0)
        budget_settle(w, (double)n_right * (double)d->pass_ns / d->n_sharing -
                            (double)d->rows_ns[n_tried]);
    d->n_guesses = 0;
}
