/* preempt.c - preemption: claims on pages are ranked, and the lowest gives up its pages first.
 *
 * Every claim has a rank, the smaller the better: running ones by class and start order, then idle
 * ones, the least recently used last.  Ranks of running claims do not change, and no page is taken
 * from a higher claim: so the first of all keeps its pages and finishes, however few pages there
 * are. */
#include "engine/engine.h"

enum { CLASS_SHIFT = 56 };

uint64_t rank_of(uint32_t class_, uint64_t ticket)
{
    return (uint64_t)class_ << CLASS_SHIFT | ticket;
}

uint64_t rank_idle(cerium_engine *e) { return UINT64_MAX - atomic_fetch_add(&e->n_tickets, 1); }

int claim_open(page_claim *c, cerium_engine *e, uint32_t context, uint64_t tenant,
               cerium_error *err)
{
    RETURN_IF(kv_sequence_open(&c->sequence, e->pool, context, tenant, err));
    c->engine = e;
    c->tenant = tenant;
    atomic_store(&c->rank, rank_idle(e));
    pthread_mutex_lock(&e->lock);
    c->next = e->claims;
    if (c->next) c->next->before = c;
    e->claims = c;
    pthread_mutex_unlock(&e->lock);
    return CERIUM_OK;
}

void claim_close(page_claim *c)
{
    if (!c->sequence) return;
    cerium_engine *e = c->engine;
    pthread_mutex_lock(&e->lock);
    if (c->next) c->next->before = c->before;
    *(c->before ? &c->before->next : &e->claims) = c->next;
    pthread_mutex_unlock(&e->lock);
    kv_sequence_close(&c->sequence);
}

/* Take the pages of the lowest claim that ranks below c and is outside of this pass.  False: there
 * is none. */
static bool take_from_lowest(const page_claim *c)
{
    cerium_engine *e = c->engine;
    uint64_t mine = atomic_load(&c->rank), lowest = mine;
    page_claim *from = NULL;
    pthread_mutex_lock(&e->lock);
    for (page_claim *other = e->claims; other; other = other->next) {
        uint64_t rank = atomic_load(&other->rank);
        if (other == c || other->planned || rank <= lowest) continue;
        if (kv_sequence_blocks(other->sequence) == 0) continue;
        from = other;
        lowest = rank;
    }
    if (from) kv_sequence_rest(from->sequence);
    pthread_mutex_unlock(&e->lock);
    return from != NULL;
}

int claim_reserve(page_claim *c, uint32_t end)
{
    for (;;) {
        int status = kv_sequence_reserve(c->sequence, end);
        if (status != CERIUM_ERR_MEMORY || !take_from_lowest(c)) return status;
    }
}

uint32_t claim_borrow(page_claim *c, const int32_t *tokens, uint32_t n_max)
{
    cerium_engine *e = c->engine;
    uint32_t n = kv_sequence_length(c->sequence);
    pthread_mutex_lock(&e->lock);
    for (page_claim *other = e->claims; other && n < n_max; other = other->next)
        if (other != c && other->tenant == c->tenant)
            n = kv_sequence_borrow(c->sequence, other->sequence, tokens, n_max);
    pthread_mutex_unlock(&e->lock);
    return n;
}
