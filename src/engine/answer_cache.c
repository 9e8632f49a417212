/* answer_cache.c - the tenants' places, and the lock. */
#include "engine/answer_cache.h"

#include <pthread.h>
#include <stdatomic.h>

#include "base/memory.h"

typedef struct {
    uint64_t tenant, looked_at; /* looked_at: the count of looks at its last use; 0 = free */
    past_answers answers;
} tenant_slot;

struct answer_cache {
    pthread_mutex_t lock; /* all below */
    bool has_lock;
    uint64_t n_looks;
    uint32_t n_places;
    char *memory; /* [n_places][past_answers_bytes] */
    _Atomic uint32_t n_tokens;
    tenant_slot places[];
};

answer_cache *answer_cache_open(uint32_t n_tenants, uint32_t n_tokens)
{
    size_t size = past_answers_bytes(n_tokens);
    answer_cache *r = memory_zalloc(1, sizeof *r + n_tenants * sizeof *r->places);
    if (!r) return NULL;
    r->n_places = n_tenants;
    r->has_lock = pthread_mutex_init(&r->lock, NULL) == 0;
    r->memory = memory_alloc(n_tenants * size); /* untouched memory: tenants take what they fill */
    if (!r->has_lock || !r->memory) {
        answer_cache_close(&r);
        return NULL;
    }
    for (uint32_t i = 0; i < n_tenants; i++)
        past_answers_lay_out(&r->places[i].answers, r->memory + i * size, n_tokens);
    return r;
}

void answer_cache_close(answer_cache **r)
{
    if (!r || !*r) return;
    if ((*r)->has_lock) pthread_mutex_destroy(&(*r)->lock);
    memory_free((*r)->memory);
    memory_free(*r);
    *r = NULL;
}

/* The tenant's place, or NULL. */
static tenant_slot *find(answer_cache *r, uint64_t tenant)
{
    for (uint32_t i = 0; i < r->n_places; i++) {
        tenant_slot *p = &r->places[i];
        if (p->looked_at == 0 || p->tenant != tenant) continue;
        p->looked_at = ++r->n_looks;
        return p;
    }
    return NULL;
}

/* A free place, or the least recently used, whose answers are dropped. */
static tenant_slot *claim(answer_cache *r, uint64_t tenant)
{
    tenant_slot *oldest = &r->places[0];
    for (uint32_t i = 1; i < r->n_places; i++)
        if (r->places[i].looked_at < oldest->looked_at) oldest = &r->places[i];
    atomic_fetch_sub(&r->n_tokens, oldest->looked_at ? oldest->answers.index.n : 0);
    oldest->tenant = tenant;
    oldest->looked_at = ++r->n_looks;
    past_answers_clear(&oldest->answers);
    return oldest;
}

void answer_cache_add(answer_cache *r, uint64_t tenant, const int32_t *timeline,
                      uint32_t begin, uint32_t n)
{
    pthread_mutex_lock(&r->lock);
    tenant_slot *p = find(r, tenant);
    if (!p) p = claim(r, tenant);
    uint32_t before = p->answers.index.n;
    past_answers_add(&p->answers, timeline, begin, n);
    atomic_fetch_add(&r->n_tokens, p->answers.index.n - before); /* or less: the sum wraps */
    pthread_mutex_unlock(&r->lock);
}

const past_answers *answer_cache_take(answer_cache *r, uint64_t tenant)
{
    pthread_mutex_lock(&r->lock);
    const tenant_slot *p = find(r, tenant);
    return p ? &p->answers : NULL;
}

void answer_cache_give(answer_cache *r) { pthread_mutex_unlock(&r->lock); }

uint32_t answer_cache_n_tokens(const answer_cache *r) { return atomic_load(&r->n_tokens); }
