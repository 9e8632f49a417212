/* grammar_plain.c - how many plain characters may follow in each state.
 *
 * Both measures are fixed points over the states that a plain character leads to: run is the way to
 * the nearest state where one of them may not follow, most the way to the farthest where one may.
 * The continuations of ends of rules and of calls are unknown here: for run they count as nothing,
 * for most as anything. */
#include "sampling/grammar_build.h"

enum { NEXT_MAX = 4 }; /* targets of one character; more: not measured */

typedef struct {
    uint32_t n;
    uint32_t to[NEXT_MAX];
    bool is_whole;   /* every plain character has a target */
    bool is_unknown; /* the continuation is unknown */
} next_states;

/* The first byte range [lo, hi] of characters in UTF-8, and those of the bytes after it. */
typedef struct {
    uint8_t n;
    uint8_t range[4][2];
} utf8_shape;

static const utf8_shape shapes[] = {
    {1, {{0x20, 0x21}}},
    {1, {{0x23, 0x5b}}},
    {1, {{0x5d, 0x7e}}},
    {2, {{0xc2, 0xdf}, {0x80, 0xbf}}},
    {3, {{0xe0, 0xe0}, {0xa0, 0xbf}, {0x80, 0xbf}}},
    {3, {{0xe1, 0xec}, {0x80, 0xbf}, {0x80, 0xbf}}},
    {3, {{0xed, 0xed}, {0x80, 0x9f}, {0x80, 0xbf}}},
    {3, {{0xee, 0xef}, {0x80, 0xbf}, {0x80, 0xbf}}},
    {4, {{0xf0, 0xf0}, {0x90, 0xbf}, {0x80, 0xbf}, {0x80, 0xbf}}},
    {4, {{0xf1, 0xf3}, {0x80, 0xbf}, {0x80, 0xbf}, {0x80, 0xbf}}},
    {4, {{0xf4, 0xf4}, {0x80, 0x8f}, {0x80, 0xbf}, {0x80, 0xbf}}},
};

static void plain_add_next(next_states *next, uint32_t to)
{
    for (uint32_t i = 0; i < next->n; i++)
        if (next->to[i] == to) return;
    if (next->n < NEXT_MAX)
        next->to[next->n++] = to;
    else
        next->is_unknown = true;
}

/* All edges of `from` by bytes in [lo, hi]; whether they cover all those bytes. */
static void follow_range(const grammar *g, uint32_t from, const uint8_t *range, next_states *out)
{
    const grammar_state *s = &g->states[from];
    uint32_t covered = 0;
    for (uint32_t k = s->first_edge; k < s[1].first_edge; k++) {
        grammar_edge e = g->edges[k];
        uint32_t lo = e.lo > range[0] ? e.lo : range[0], hi = e.hi < range[1] ? e.hi : range[1];
        if (lo > hi) continue;
        covered += hi - lo + 1;
        plain_add_next(out, e.to);
    }
    if (covered != range[1] - range[0] + 1u) out->is_whole = false;
}

/* The targets of characters of one shape, byte by byte. */
static void follow_shape(const grammar *g, uint32_t from, const utf8_shape *shape, next_states *out)
{
    next_states at = {.n = 1, .to = {from}};
    for (uint32_t i = 0; i < shape->n; i++) {
        next_states next = {.is_whole = true};
        for (uint32_t k = 0; k < at.n; k++) {
            const grammar_state *s = &g->states[at.to[k]];
            if (i > 0 && (s->is_final || s->first_call != s[1].first_call)) out->is_unknown = true;
            follow_range(g, at.to[k], shape->range[i], &next);
        }
        out->is_whole &= next.is_whole;
        out->is_unknown |= next.is_unknown;
        at = next;
    }
    for (uint32_t k = 0; k < at.n; k++) plain_add_next(out, at.to[k]);
}

static next_states next_of(const grammar *g, uint32_t from, const bool *plain)
{
    const grammar_state *s = &g->states[from];
    next_states next = {.is_whole = true, .is_unknown = s->is_final};
    for (uint32_t k = s->first_call; k < s[1].first_call; k++) {
        if (plain[g->calls[k].rule]) continue;
        next.is_unknown = true;
    }
    for (uint32_t i = 0; i < ARRAY_LEN(shapes); i++) follow_shape(g, from, &shapes[i], &next);
    for (uint32_t k = s->first_call; k < s[1].first_call; k++) {
        if (!plain[g->calls[k].rule]) continue;
        if (next.n > 0) next.is_unknown = true; /* two readings: one of them decides */
        next.n = 0;
        plain_add_next(&next, g->calls[k].to);
        next.is_whole = true;
    }
    return next;
}

static bool plain_improve(grammar *g, const next_states *of, uint32_t i)
{
    const next_states *next = &of[i];
    uint32_t run = GRAMMAR_RUN_ANY, most = 0;
    for (uint32_t k = 0; k < next->n; k++) {
        const grammar_state *to = &g->states[next->to[k]];
        if (to->run + 1u < run) run = to->run + 1u;
        if (to->most + 1u > most) most = to->most + 1u;
    }
    if (!next->is_whole || next->n == 0) run = 0;
    if (most > GRAMMAR_RUN_ANY || next->is_unknown) most = GRAMMAR_RUN_ANY;
    bool changed = run != g->states[i].run || most != g->states[i].most;
    g->states[i].run = (uint8_t)run;
    g->states[i].most = (uint8_t)most;
    return changed;
}

int grammar_measure(grammar *g, const bool *plain)
{
    next_states *next = memory_alloc((g->n_states + 1) * sizeof *next);
    if (!next) return CERIUM_ERR_MEMORY;
    for (uint32_t i = 0; i < g->n_states; i++) {
        next[i] = next_of(g, i, plain);
        g->states[i].run = GRAMMAR_RUN_ANY;
    }
    bool changed = true;
    for (uint32_t round = 0; round <= GRAMMAR_RUN_ANY && changed; round++) {
        changed = false;
        for (uint32_t i = g->n_states; i-- > 0;) changed |= plain_improve(g, next, i);
    }
    /* For the start of a plain character the callers have the better bound. */
    for (uint32_t r = 0; r < g->n_rules; r++)
        if (plain[r]) g->states[g->starts[r]].run = g->states[g->starts[r]].most = 0;
    memory_free(next);
    return CERIUM_OK;
}
