/* draft_block.c - guesses of a drafter that says a block of tokens in one pass (DFlash).
 *
 * Its context is committed up to the last token but one.  The block follows it: the last token, and
 * masks, whose rows see the context and each other, in most files both ways; they are overwritten
 * the next time.  The row of each mask says the token of its place; of a DSpark drafter each row
 * may say the next one, and what the token before says is added to its logits, so tokens are chosen
 * in turn. */
#include "engine/draft_round.h"

/* The first row that says a token. */
static uint32_t first_of(const draft_round *r)
{
    return r->m->engine->program->shape.block_says_first ? 0 : 1;
}

/* Rows of a block: as it was trained, or as many as may be of use. */
static uint32_t n_rows_of(const draft_round *r)
{
    const uint32_t n = r->m->engine->program->shape.n_block, before = first_of(r);
    uint32_t most = r->always ? DRAFT_ALWAYS : DRAFT_GUESSES_MAX;
    if (most > r->pass.n_max) most = r->pass.n_max;
    return n > most + before ? most + before : n;
}

/* False: there is no room, or the session was canceled. */
static bool run_block(draft_round *r, uint32_t n)
{
    cerium_engine *e = r->m->engine;
    draft_session *d = r->d;
    const uint32_t first = d->n_computed;
    const bool is_in_turn = model_markov_of(e->model)->adds != NULL;
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
                               .n_best = is_in_turn ? 0 : 2}; /* or any of them may win */
        if (i < first_of(r)) continue;
        engine_take_logits(e, &e->rows[i], e->logits + i * e->logits_stride);
    }
    const uint64_t start = clock_thread_ns();
    if (cpu_executor_run(e->executor, e->rows, n, &r->s->cancel)) return false;
    r->block_ns = clock_thread_ns() - start;
    atomic_fetch_add(&r->m->passes, 1);
    atomic_fetch_add(&r->m->computed, n);
    return true;
}

void draft_add_before(const cerium_engine *e, float *logits, const uint32_t *panels,
                      uint32_t n_panels, int32_t before)
{
    enum { PIECE = 32 }; /* panels */
    const model_matrix *from = model_markov_of(e->model)->before;
    const model_matrix *w = model_markov_of(e->model)->adds;
    _Alignas(64) float x[MODEL_MARKOV_MAX], y[PIECE * KERNEL_PANEL_ROWS];
    _Alignas(64) kernel_act acts[MODEL_MARKOV_MAX / KERNEL_GROUP];
    const uint32_t row = (uint32_t)before, n = panels ? n_panels : w->n_panels;
    CHECK(before >= 0 && row < from->rows && from->cols <= MODEL_MARKOV_MAX);
    kernel_panel_row(from->type, x, model_matrix_panels(from, 0, row / KERNEL_PANEL_ROWS),
                     row % KERNEL_PANEL_ROWS, from->cols);
    if (kernel_takes_acts(w->type)) e->kernels.quantize[kernel_acts_of(w->type)](acts, x, w->cols);
    const void *in = kernel_takes_acts(w->type) ? (const void *)acts : (const void *)x;
    for (uint32_t p = 0, most; p < n; p += most) {
        const uint32_t panel = panels ? panels[p] : p;
        for (most = 1; most < PIECE && p + most < n; most++)
            if (panels && panels[p + most] != panel + most) break;
        e->kernels.matmul[w->type](y, most * KERNEL_PANEL_ROWS, model_matrix_panels(w, 0, panel),
                                   in, most, w->cols, 1);
        e->kernels.add(logits + p * KERNEL_PANEL_ROWS, y, most * KERNEL_PANEL_ROWS);
    }
}

void draft_say_block(draft_round *r)
{
    const cerium_engine *e = r->m->engine;
    const uint32_t n = n_rows_of(r), first = first_of(r);
    const bool is_in_turn = model_markov_of(e->model)->adds != NULL;
    int32_t token = r->d->text.tokens[r->d->n_computed];
    if (n <= first || !draft_wants_more(r, 1) || !run_block(r, n)) return;
    for (uint32_t i = first; i < n; i++) {
        float margin;
        if (is_in_turn) draft_add_before(e, e->rows[i].logits, r->panels, r->n_panels, token);
        token = draft_best(r, e->rows[i].logits, &margin);
        if (token == TOKEN_NONE || !draft_note(r, token, (view){"", 0}, margin)) return;
        if (tokenizer_is_end(e->tokens, token)) return;
    }
}
