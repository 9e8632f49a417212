/* kept_rows.c - logits of requests that began alike.  Samples of one prompt that start one after
 * another repeat what earlier ones sampled: with the logits of those they need no row. */
#include "engine/engine.h"

#include "base/memory.h"

enum { LATE_TOKENS = 16 }; /* timelines mostly differ near their ends */

static bool is_of(const kept_row *k, const cerium_session *s)
{
    const uint32_t n = s->n_tokens, n_late = n < LATE_TOKENS ? n : LATE_TOKENS;
    return k->n_tokens == n && k->tenant == s->pages.tenant &&
           !memcmp(k->tokens + n - n_late, s->tokens + n - n_late, n_late * sizeof *s->tokens) &&
           !memcmp(k->tokens, s->tokens, n * sizeof *s->tokens);
}

/* They fill in order, so those that hold nothing come last. */
static kept_row *find(cerium_engine *e, const cerium_session *s)
{
    for (uint32_t i = 0; i < e->n_kept && e->kept[i].used; i++)
        if (is_of(&e->kept[i], s)) return &e->kept[i];
    return NULL;
}

static kept_row *least_used(cerium_engine *e)
{
    kept_row *least = &e->kept[0];
    for (uint32_t i = 1; i < e->n_kept; i++)
        if (e->kept[i].used < least->used) least = &e->kept[i];
    return least;
}

/* Whether s is to choose from all logits of a timeline that others may have. */
static bool may_share(const cerium_session *s)
{
    const slot *x = &s->slot;
    return x->new_tokens_max > 0 && !s->is_private && !s->pool && !s->draft &&
           !s->engine->has_states && !sampler_best(x->sampling);
}

void kept_rows_begin(cerium_engine *e)
{
    const size_t most = ENGINE_KEPT_BYTES / (e->logits_stride * sizeof(float));
    if (!e->kept_pass++)
        e->n_kept = most < ENGINE_KEPT_ROWS_MIN   ? ENGINE_KEPT_ROWS_MIN
                    : most > ENGINE_KEPT_ROWS_MAX ? ENGINE_KEPT_ROWS_MAX
                                                  : (uint32_t)most;
}

void kept_rows_take(const cerium_session *s)
{
    cerium_engine *e = s->engine;
    const slot *x = &s->slot;
    if (!x->has_siblings || x->is_late || !x->logits || s->n_computed < s->n_tokens) return;
    if (!may_share(s) || find(e, s)) return;
    kept_row *k = least_used(e);
    if (k->used == e->kept_pass) return; /* all of them are chosen from in this pass */
    const size_t size = e->logits_stride * sizeof *k->logits;
    int32_t *tokens = memory_alloc(s->n_tokens * sizeof *tokens);
    if (!k->logits) k->logits = memory_alloc(size);
    if (!tokens || !k->logits) { /* it is computed again */
        memory_free(tokens);
        return;
    }
    memory_free(k->tokens);
    memcpy(tokens, s->tokens, s->n_tokens * sizeof *tokens);
    memcpy(k->logits, x->logits, size);
    *k = (kept_row){.tenant = s->pages.tenant, .used = e->kept_pass, .tokens = tokens,
                    .n_tokens = s->n_tokens, .logits = k->logits};
}

bool kept_rows_share(cerium_session *s)
{
    slot *x = &s->slot;
    kept_row *k = may_share(s) ? find(s->engine, s) : NULL;
    if (!k) return false;
    k->used = s->engine->kept_pass;
    x->n_rows = x->n_drafts = 0;
    x->is_guest = x->is_late = x->has_siblings = true;
    x->logits = k->logits;
    return true;
}

void kept_rows_close(cerium_engine *e)
{
    for (uint32_t i = 0; i < e->n_kept; i++) {
        memory_free(e->kept[i].tokens);
        memory_free(e->kept[i].logits);
    }
}
