/* embedding.c - one vector for a text: pools the states after the last norm as the file says.
 *
 * `last` and `cls` take one token's state, and the tokens before it may come from the cache; `mean`
 * needs every token computed.  Sums go from the first token to the last, so that their bits do not
 * depend on how the prompt was cut. */
#include "engine/engine.h"

#include <math.h>

#include "base/memory.h"

struct embedding {
    cerium_pooling pooling;
    uint32_t n;       /* numbers of a state */
    uint32_t n_taken; /* tokens whose states were taken, from the first on; of `last`: the newest */
    float *state;     /* [n] */
    double *sum;      /* [n] */
};

int embedding_open(embedding **out, const cerium_engine *e)
{
    embedding *p = memory_zalloc(1, sizeof *p);
    if (!p) return CERIUM_ERR_MEMORY;
    p->pooling = e->pooling;
    p->n = model_program(e->model)->shape.n_embd;
    p->state = memory_zalloc(p->n, sizeof *p->state);
    p->sum = memory_zalloc(p->n, sizeof *p->sum);
    *out = p;
    return p->state && p->sum ? CERIUM_OK : CERIUM_ERR_MEMORY;
}

void embedding_close(embedding **pool)
{
    embedding *p = *pool;
    *pool = NULL;
    if (!p) return;
    memory_free(p->state);
    memory_free(p->sum);
    memory_free(p);
}

void embedding_begin(cerium_session *s)
{
    s->has_logits = false; /* every token is computed, also one that is in the cache */
    s->pool->n_taken = 0;
    memset(s->pool->sum, 0, s->pool->n * sizeof *s->pool->sum);
}

uint32_t embedding_skips(const cerium_session *s, uint32_t most)
{
    const embedding *p = s->pool;
    if (!p || p->pooling == CERIUM_POOLING_LAST || p->n_taken > most) return most;
    return p->n_taken;
}

/* Add the state of a row of the pass. */
static void add(embedding *p, const cpu_executor *ex, uint32_t row)
{
    cpu_executor_state(ex, row, p->state);
    for (uint32_t i = 0; i < p->n; i++) p->sum[i] += (double)p->state[i];
}

void embedding_take(cerium_session *s)
{
    embedding *p = s->pool;
    const slot *x = &s->slot;
    const cpu_executor *ex = s->engine->executor;
    const uint32_t end = s->n_computed + x->n_rows;
    if (p->pooling == CERIUM_POOLING_LAST) {
        if (!x->n_rows) return;
        memset(p->sum, 0, p->n * sizeof *p->sum);
        add(p, ex, x->first_row + x->n_rows - 1);
        p->n_taken = end;
        return;
    }
    /* A token that was computed again after an eviction counts once. */
    for (uint32_t at = s->n_computed; at < end; at++) {
        if (at != p->n_taken) continue;
        if (at == 0 || p->pooling == CERIUM_POOLING_MEAN)
            add(p, ex, x->first_row + at - s->n_computed);
        p->n_taken++;
    }
}

int cerium_session_embedding(const cerium_session *s, float *out, cerium_error *err)
{
    if (!s || !out || !s->pool)
        return error_set(err, CERIUM_ERR_ARGUMENT, "no session, or one that does not embed");
    const embedding *p = s->pool;
    double squares = 0;
    if (s->running || !p->n_taken || p->n_taken < s->n_tokens)
        return error_set(err, CERIUM_ERR_ARGUMENT, "%u of %u tokens are computed", p->n_taken,
                         s->n_tokens);
    for (uint32_t i = 0; i < p->n; i++) squares += p->sum[i] * p->sum[i];
    if (!isfinite(squares)) return engine_broken(s->engine, err);
    const double scale = squares > 0 ? 1 / sqrt(squares) : 0;
    for (uint32_t i = 0; i < p->n; i++) out[i] = (float)(p->sum[i] * scale);
    return CERIUM_OK;
}
