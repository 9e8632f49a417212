/* draft_block.c - guesses of a drafter that says a block of tokens in one pass (DFlash).
 *
 * Its context is committed up to the last token but one.  The block follows it: the last token, and
 * masks, whose rows see the context and each other, in most files both ways; they are overwritten the next time.
 * The row of each mask says the token of its place. */
#include "engine/draft_round.h"

/* Rows of a block: as it was trained, or as many as may be of use. */
static uint32_t n_rows_of(const draft_round *r)
{
    uint32_t n = r->m->engine->program->shape.n_block;
    if (n > DRAFT_GUESSES_MAX + 1) n = DRAFT_GUESSES_MAX + 1;
    if (n > r->pass.n_max + 1) n = r->pass.n_max + 1;
    return r->always && n > DRAFT_ALWAYS + 1 ? DRAFT_ALWAYS + 1 : n;
}

/* False: there is no room, or the session was canceled. */
static bool run_block(draft_round *r, uint32_t n)
{
    cerium_engine *e = r->m->engine;
    draft_session *d = r->d;
    const uint32_t first = d->n_computed;
    if (claim_reserve(&d->pages, first + n)) return false;
    for (uint32_t i = 0; i < n; i++) {
        e->rows[i] = (cpu_row){.token = i == 0 ? d->text.tokens[first]
                                               : (int32_t)e->program->shape.mask_token,
                               .position = first + i,
                               .sequence = d->pages.sequence,
                               .is_own = true,
                               .ahead = e->program->shape.block_is_causal ? 0 : n - 1 - i,
                               .panels = r->panels,
                               .n_panels = r->n_panels,
                               .n_best = 2};
        if (i > 0) engine_take_logits(e, &e->rows[i], e->logits + i * e->logits_stride);
    }
    const uint64_t start = clock_thread_ns();
    if (cpu_executor_run(e->executor, e->rows, n, &r->s->cancel)) return false;
    r->block_ns = clock_thread_ns() - start;
    atomic_fetch_add(&r->m->passes, 1);
    atomic_fetch_add(&r->m->computed, n);
    return true;
}

void draft_say_block(draft_round *r)
{
    const cerium_engine *e = r->m->engine;
    const uint32_t n = n_rows_of(r);
    if (n < 2 || !draft_wants_more(r, 1) || !run_block(r, n)) return;
    for (uint32_t i = 1; i < n; i++) {
        float margin;
        const int32_t token = draft_best(r, e->rows[i].logits, &margin);
        if (token == TOKEN_NONE || !draft_note(r, token, (view){"", 0}, margin)) return;
        if (tokenizer_is_end(e->tokens, token)) return;
    }
}
