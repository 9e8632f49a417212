/* taps.c - rings of states, lent to the timelines that have passes. */
#include "engine/taps.h"

#include "base/memory.h"

/* ---- the rings ---- */

static uint64_t ring_bytes(uint32_t n) { return (uint64_t)TAPS_MAX * n * sizeof(float); }

int taps_pool_open(taps_pool *p, uint32_t n_timelines, uint32_t n)
{
    CHECK(n > 0 && n_timelines > 0 && p->n == 0);
    uint64_t n_rings = TAPS_BYTES_MAX / ring_bytes(n);
    if (n_rings < TAPS_RINGS_MIN) n_rings = TAPS_RINGS_MIN;
    if (n_rings > n_timelines) n_rings = n_timelines;
    *p = (taps_pool){.n_rings = (uint32_t)n_rings, .n = n, .n_timelines = n_timelines};
    CHECK(pthread_mutex_init(&p->lock, NULL) == 0);
    p->states = memory_alloc(n_rings * ring_bytes(n));
    p->owners = memory_zalloc(n_rings, sizeof *p->owners);
    p->used = memory_zalloc(n_rings, sizeof *p->used);
    if (p->states && p->owners && p->used) return CERIUM_OK;
    taps_pool_close(p);
    return CERIUM_ERR_MEMORY;
}

void taps_pool_close(taps_pool *p)
{
    if (p->n == 0) return;
    for (uint32_t i = 0; p->owners && i < p->n_rings; i++) CHECK(!p->owners[i]);
    memory_free(p->states);
    memory_free(p->owners);
    memory_free(p->used);
    CHECK(pthread_mutex_destroy(&p->lock) == 0);
    *p = (taps_pool){0};
}

uint64_t taps_pool_bytes(const taps_pool *p) { return p->n_rings * ring_bytes(p->n); }

/* A free ring, or that of the timeline that had no pass for the longest time, if it is long. */
static void take_ring(taps *t)
{
    taps_pool *p = t->pool;
    uint32_t oldest = 0;
    for (uint32_t i = 0; i < p->n_rings; i++) {
        if (!p->owners[i]) {
            oldest = i;
            break;
        }
        if (p->used[i] < p->used[oldest]) oldest = i;
    }
    taps *owner = p->owners[oldest];
    const uint64_t idle = (uint64_t)TAPS_IDLE * p->n_timelines;
    if (owner && p->now - p->used[oldest] <= idle) return;
    if (owner) {
        owner->states = NULL;
        owner->begin = owner->end = 0;
    }
    p->owners[oldest] = t;
    t->ring = oldest;
    t->states = p->states + (size_t)oldest * TAPS_MAX * p->n;
    t->begin = t->end = 0;
}

/* ---- of one timeline ---- */

static float *place_of(const taps *t, uint32_t token)
{
    return t->states + (size_t)(token % TAPS_MAX) * t->pool->n;
}

void taps_close(taps *t)
{
    if (!t->pool) return;
    pthread_mutex_lock(&t->pool->lock);
    if (t->states) t->pool->owners[t->ring] = NULL;
    pthread_mutex_unlock(&t->pool->lock);
    *t = (taps){0};
}

bool taps_take(taps *t)
{
    taps_pool *p = t->pool;
    pthread_mutex_lock(&p->lock);
    p->now++;
    if (!t->states) take_ring(t);
    const bool has = t->states != NULL;
    if (has) p->used[t->ring] = p->now;
    pthread_mutex_unlock(&p->lock);
    return has;
}

float *taps_put(taps *t, uint32_t token)
{
    pthread_mutex_lock(&t->pool->lock);
    CHECK(t->states);
    if (token < t->begin || token > t->end) t->begin = t->end = token;
    if (token == t->end) t->end++;
    if (t->end - t->begin > TAPS_MAX) t->begin = t->end - TAPS_MAX;
    float *place = place_of(t, token);
    pthread_mutex_unlock(&t->pool->lock);
    return place;
}

const float *taps_of(const taps *t, uint32_t token)
{
    pthread_mutex_lock(&t->pool->lock);
    const bool is_known = t->states && token >= t->begin && token < t->end;
    const float *place = is_known ? place_of(t, token) : NULL;
    pthread_mutex_unlock(&t->pool->lock);
    return place;
}

void taps_cut(taps *t, uint32_t n)
{
    if (!t->pool) return;
    pthread_mutex_lock(&t->pool->lock);
    if (t->end > n) t->end = n;
    if (t->begin > t->end) t->begin = t->end;
    pthread_mutex_unlock(&t->pool->lock);
}
