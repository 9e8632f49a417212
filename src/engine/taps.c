/* taps.c - a ring of states. */
#include "engine/taps.h"

#include "base/memory.h"

static float *place_of(const taps *t, uint32_t token)
{
    return t->states + (size_t)(token % TAPS_MAX) * t->n;
}

int taps_open(taps *t, uint32_t n)
{
    *t = (taps){.n = n, .states = memory_alloc((size_t)TAPS_MAX * n * sizeof *t->states)};
    return t->states ? CERIUM_OK : CERIUM_ERR_MEMORY;
}

void taps_close(taps *t)
{
    memory_free(t->states);
    *t = (taps){0};
}

float *taps_put(taps *t, uint32_t token)
{
    if (token < t->begin || token > t->end) t->begin = t->end = token;
    if (token == t->end) t->end++;
    if (t->end - t->begin > TAPS_MAX) t->begin = t->end - TAPS_MAX;
    return place_of(t, token);
}

const float *taps_of(const taps *t, uint32_t token)
{
    return token >= t->begin && token < t->end ? place_of(t, token) : NULL;
}

void taps_cut(taps *t, uint32_t n)
{
    if (t->end > n) t->end = n;
    if (t->begin > t->end) t->begin = t->end;
}
