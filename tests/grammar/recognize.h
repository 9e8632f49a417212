/* recognize.h - the slow definition of a compiled grammar's language: Earley's algorithm over its
 * automata, position by position, with nothing merged, cached or bounded except by the length. */
#ifndef TESTS_GRAMMAR_RECOGNIZE_H
#define TESTS_GRAMMAR_RECOGNIZE_H

#include "base/memory.h"
#include "sampling/grammar.h"

/* A parse at `state` of a rule that was called at position `from`. */
typedef struct {
    uint32_t rule, state, from;
} earley_item;

typedef struct {
    bytes items;  /* earley_item, of all positions */
    bytes firsts; /* uint32_t: the beginning of each position's items */
} earley;

static bool earley_add(earley *e, uint32_t first, earley_item item)
{
    const earley_item *items = (const earley_item *)e->items.ptr;
    for (uint32_t i = first; i < e->items.len / sizeof item; i++)
        if (!memcmp(&items[i], &item, sizeof item)) return true;
    return bytes_append(&e->items, &item, sizeof item) == CERIUM_OK;
}

static bool earley_is_final(const grammar *g, uint32_t state)
{
    return g->states[state].is_final;
}

/* The closure of the newest position's items without reading. */
static bool earley_close(earley *e, const grammar *g, uint32_t at, uint32_t first)
{
    bool ok = true;
    for (uint32_t i = first; ok && i < e->items.len / sizeof(earley_item); i++) {
        earley_item item = ((const earley_item *)e->items.ptr)[i];
        const grammar_state *s = &g->states[item.state];
        for (uint32_t k = s->first_call; ok && k < s[1].first_call; k++)
            ok = earley_add(e, first,
                            (earley_item){g->calls[k].rule, g->starts[g->calls[k].rule], at});
        if (!earley_is_final(g, item.state)) continue;
        uint32_t begin = ((const uint32_t *)e->firsts.ptr)[item.from];
        uint32_t end = ((const uint32_t *)e->firsts.ptr)[item.from + 1];
        for (uint32_t n = begin; ok && n < end; n++) {
            earley_item caller = ((const earley_item *)e->items.ptr)[n];
            const grammar_state *c = &g->states[caller.state];
            for (uint32_t k = c->first_call; ok && k < c[1].first_call; k++)
                if (g->calls[k].rule == item.rule)
                    ok = earley_add(e, first,
                                    (earley_item){caller.rule, g->calls[k].to, caller.from});
        }
    }
    return ok;
}

/* The number of bytes of text that can begin a text of g; *complete: all of it is a text of g. */
static inline size_t recognize(const grammar *g, view text, bool *complete)
{
    earley e = {.items.max = 1 << 26, .firsts.max = 1 << 20};
    size_t at = 0;
    *complete = g->takes_empty && text.len == 0;
    uint32_t first = 0;
    bool ok = !bytes_append(&e.firsts, &first, sizeof first);
    if (g->n_rules) ok = ok && earley_add(&e, 0, (earley_item){g->root, g->starts[g->root], 0});
    for (; ok; at++) {
        ok = earley_close(&e, g, (uint32_t)at, first);
        uint32_t end = (uint32_t)(e.items.len / sizeof(earley_item));
        if (at == text.len) break;
        ok = ok && !bytes_append(&e.firsts, &end, sizeof end);
        uint8_t byte = (uint8_t)text.ptr[at];
        for (uint32_t i = first; ok && i < end; i++) {
            earley_item item = ((const earley_item *)e.items.ptr)[i];
            const grammar_state *s = &g->states[item.state];
            for (uint32_t k = s->first_edge; ok && k < s[1].first_edge; k++)
                if (g->edges[k].lo <= byte && byte <= g->edges[k].hi)
                    ok = earley_add(&e, end, (earley_item){item.rule, g->edges[k].to, item.from});
        }
        first = end;
        if (first == e.items.len / sizeof(earley_item)) break;
    }
    const earley_item *items = (const earley_item *)e.items.ptr;
    for (uint32_t i = first; at == text.len && i < e.items.len / sizeof(earley_item); i++)
        *complete |=
            items[i].rule == g->root && items[i].from == 0 && earley_is_final(g, items[i].state);
    bytes_free(&e.items);
    bytes_free(&e.firsts);
    return at;
}

#endif
