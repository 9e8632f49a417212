/* grammar_dfa.c - subsets of states: one automaton without choice from one with, and products. */
#include "sampling/grammar_build.h"

void dfa_open(dfa *d)
{
    *d = (dfa){.states.max = GRAMMAR_STATES_MAX * sizeof(dfa_state),
               .edges.max = GRAMMAR_PARTS_MAX * sizeof(grammar_edge),
               .calls.max = GRAMMAR_PARTS_MAX * sizeof(grammar_call)};
}

void dfa_close(dfa *d)
{
    bytes_free(&d->states);
    bytes_free(&d->edges);
    bytes_free(&d->calls);
}

/* Sets of states that were met: each is a state of the result, in the order in which they came. */
typedef struct {
    grammar_builder *b;
    const nfa *n;
    uint32_t *seen; /* [n states] the round in which a state was taken */
    uint32_t round;
    uint32_t *stack; /* [n states + 1] */
    bytes members;   /* uint32_t: of all sets, each ascending */
    bytes firsts;    /* uint32_t: [sets + 1] */
    uint32_t *table; /* [size] index of a set + 1; 0 = free */
    uint32_t size;
    uint32_t *scratch; /* [n states] */
} subsets;

static uint32_t n_sets(const subsets *s)
{
    return (uint32_t)(s->firsts.len / sizeof(uint32_t)) - 1;
}
static const uint32_t *set_at(const subsets *s, uint32_t i, uint32_t *n)
{
    const uint32_t *first = (const uint32_t *)s->firsts.ptr + i;
    const uint32_t *members = (const uint32_t *)s->members.ptr;
    *n = first[1] - first[0];
    return members ? members + first[0] : NULL;
}

static int compare(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return x < y ? -1 : x > y;
}

/* Begin a set. */
static uint32_t begin_set(subsets *s)
{
    s->round++;
    return 0;
}

/* Add state `from` and what is reached from it without reading: of those, what reads or ends, to
 * scratch[n].  Returns the new n. */
static uint32_t reach(subsets *s, uint32_t from, uint32_t n)
{
    uint32_t n_stack = 0;
    if (from == GRAMMAR_NONE || s->seen[from] == s->round) return n;
    s->seen[from] = s->round;
    s->stack[n_stack++] = from;
    uint64_t work = 0;
    while (n_stack > 0) {
        uint32_t at = s->stack[--n_stack];
        const nfa_state *state = nfa_at(s->n, at);
        work++;
        if (state->kind != NFA_STEP) {
            s->scratch[n++] = at;
            continue;
        }
        uint32_t to[2] = {state->b, state->a};
        for (int i = 0; i < 2; i++) {
            if (to[i] == GRAMMAR_NONE || s->seen[to[i]] == s->round) continue;
            s->seen[to[i]] = s->round;
            s->stack[n_stack++] = to[i];
        }
    }
    builder_work(s->b, work);
    return n;
}

static bool grow_table(subsets *s)
{
    uint32_t size = s->size ? 2 * s->size : 64;
    uint32_t *table = memory_zalloc(size, sizeof *table);
    if (!table) {
        builder_lack(s->b);
        return false;
    }
    for (uint32_t i = 0; i < s->size; i++) {
        if (!s->table[i]) continue;
        uint32_t n, at = 0;
        const uint32_t *of = set_at(s, s->table[i] - 1, &n);
        for (uint32_t k = 0; k < n; k++) at = (at ^ of[k]) * 0x9e3779b1u;
        for (at ^= at >> 15; table[at & (size - 1)]; at++) continue;
        table[at & (size - 1)] = s->table[i];
    }
    memory_free(s->table);
    s->table = table;
    s->size = size;
    return true;
}

/* The set scratch[n], n > 0: its index. `is_known` = may be one that was there. */
static uint32_t intern(subsets *s, uint32_t n, bool is_known)
{
    uint32_t hash = 0, none = 0;
    qsort(s->scratch, n, sizeof *s->scratch, compare);
    if (2 * n_sets(s) >= s->size && !grow_table(s)) return 0;
    for (uint32_t k = 0; k < n; k++) hash = (hash ^ s->scratch[k]) * 0x9e3779b1u;
    uint32_t at = hash ^ hash >> 15;
    for (; is_known && s->table[at & (s->size - 1)]; at++) {
        uint32_t i = s->table[at & (s->size - 1)] - 1, n_of;
        const uint32_t *of = set_at(s, i, &n_of);
        if (n_of == n && !memcmp(of, s->scratch, n * sizeof *of)) return i;
    }
    uint32_t *members = n ? builder_add(s->b, &s->members, n * sizeof *members) : s->scratch;
    uint32_t *end = builder_add(s->b, &s->firsts, sizeof *end);
    if (!members || !end || !builder_work(s->b, n)) return none;
    if (n) memcpy(members, s->scratch, n * sizeof *members);
    *end = (uint32_t)(s->members.len / sizeof *members);
    if (is_known) s->table[at & (s->size - 1)] = n_sets(s);
    return n_sets(s) - 1;
}

/* Edges of set i: bytes between two neighbouring ends of ranges are told apart by none. */
static void add_edges(subsets *s, uint32_t i, dfa *out)
{
    bool cut[257] = {false};
    uint32_t n, last = GRAMMAR_NONE;
    const uint32_t *of = set_at(s, i, &n);
    for (uint32_t k = 0; k < n; k++) {
        const nfa_state *state = nfa_at(s->n, of[k]);
        if (state->kind == NFA_BYTES) cut[state->lo] = cut[state->hi + 1] = true;
    }
    for (uint32_t lo = 0, hi; lo < 256 && !s->b->status; lo = hi + 1) {
        for (hi = lo; hi < 255 && !cut[hi + 1]; hi++) continue;
        uint32_t n_to = begin_set(s);
        of = set_at(s, i, &n);
        for (uint32_t k = 0; k < n; k++) {
            const nfa_state *state = nfa_at(s->n, of[k]);
            if (state->kind == NFA_BYTES && state->lo <= lo && state->hi >= hi)
                n_to = reach(s, state->a, n_to);
        }
        if (!builder_work(s->b, n)) return;
        uint32_t to = n_to ? intern(s, n_to, true) : GRAMMAR_NONE;
        grammar_edge *edges = (grammar_edge *)out->edges.ptr;
        size_t n_edges = out->edges.len / sizeof *edges;
        if (to != GRAMMAR_NONE && to == last) {
            edges[n_edges - 1].hi = (uint8_t)hi;
        } else if (to != GRAMMAR_NONE) {
            grammar_edge *edge = builder_add(s->b, &out->edges, sizeof *edge);
            if (edge) *edge = (grammar_edge){to, (uint8_t)lo, (uint8_t)hi};
        }
        last = to;
    }
}

/* Calls of set i: of one rule, one. */
static void add_calls(subsets *s, uint32_t i, dfa *out)
{
    uint32_t n, rule = 0;
    for (;;) {
        uint32_t next = GRAMMAR_NONE, n_to = begin_set(s);
        const uint32_t *of = set_at(s, i, &n);
        for (uint32_t k = 0; k < n; k++) {
            const nfa_state *state = nfa_at(s->n, of[k]);
            if (state->kind == NFA_CALL && state->b >= rule && state->b < next) next = state->b;
        }
        if (next == GRAMMAR_NONE || !builder_work(s->b, 2 * n)) return;
        for (uint32_t k = 0; k < n; k++) {
            const nfa_state *state = nfa_at(s->n, of[k]);
            if (state->kind == NFA_CALL && state->b == next) n_to = reach(s, state->a, n_to);
        }
        uint32_t to = n_to ? intern(s, n_to, true) : GRAMMAR_NONE;
        grammar_call *call =
            to == GRAMMAR_NONE ? NULL : builder_add(s->b, &out->calls, sizeof *call);
        if (call) *call = (grammar_call){.rule = next, .to = to};
        rule = next + 1;
    }
}

static void make_states(subsets *s, uint32_t start, dfa *out)
{
    uint32_t *zero = builder_add(s->b, &s->firsts, sizeof *zero);
    uint32_t n = zero ? reach(s, start, begin_set(s)) : 0;
    /* The start is a state of its own, so that no edge leads to it. */
    if (zero) intern(s, n, false);
    for (uint32_t i = 0; !s->b->status && i < n_sets(s); i++) {
        dfa_state *state = builder_add(s->b, &out->states, sizeof *state);
        if (!state) return;
        size_t edges = out->edges.len / sizeof(grammar_edge);
        size_t calls = out->calls.len / sizeof(grammar_call);
        const uint32_t *of = set_at(s, i, &n);
        for (uint32_t k = 0; k < n; k++) state->is_final |= nfa_at(s->n, of[k])->kind == NFA_FINAL;
        add_edges(s, i, out);
        add_calls(s, i, out);
        state->first_edge = (uint32_t)edges;
        state->first_call = (uint32_t)calls;
        state->n_edges = (uint32_t)(out->edges.len / sizeof(grammar_edge) - edges);
        state->n_calls = (uint32_t)(out->calls.len / sizeof(grammar_call) - calls);
    }
}

void dfa_of_nfa(grammar_builder *b, const nfa *n, uint32_t start, dfa *out)
{
    uint32_t n_states = (uint32_t)(n->states.len / sizeof(nfa_state));
    subsets s = {.b = b,
                 .n = n,
                 .members.max = 4 * (size_t)GRAMMAR_PARTS_MAX * sizeof(uint32_t),
                 .firsts.max = (GRAMMAR_STATES_MAX + 1) * sizeof(uint32_t)};
    s.seen = memory_zalloc(n_states, sizeof *s.seen);
    s.stack = memory_alloc((n_states + 1) * sizeof *s.stack);
    s.scratch = memory_alloc(n_states * sizeof *s.scratch);
    if (!s.seen || !s.stack || !s.scratch)
        builder_lack(b);
    else
        make_states(&s, start, out);
    memory_free(s.seen);
    memory_free(s.stack);
    memory_free(s.scratch);
    memory_free(s.table);
    bytes_free(&s.members);
    bytes_free(&s.firsts);
}

/* ---- products ---- */

/* Pairs of states that were met. */
typedef struct {
    grammar_builder *b;
    const dfa *x, *y;
    bytes pairs;     /* uint32_t [2] */
    uint32_t *table; /* [size] index + 1 */
    uint32_t size;
} pairing;

static uint32_t hash_pair(uint32_t x, uint32_t y)
{
    uint32_t h = x * 0x9e3779b1u ^ (y + 1) * 0x85ebca6bu;
    return h ^ h >> 15;
}

static uint32_t pair_of(pairing *p, uint32_t x, uint32_t y)
{
    uint32_t n = (uint32_t)(p->pairs.len / 8);
    if (2 * n >= p->size) {
        uint32_t size = p->size ? 2 * p->size : 64;
        uint32_t *table = memory_zalloc(size, sizeof *table);
        if (!table) {
            builder_lack(p->b);
            return 0;
        }
        for (uint32_t i = 0; i < n; i++) {
            const uint32_t *of = (const uint32_t *)p->pairs.ptr + 2 * i;
            uint32_t at = hash_pair(of[0], of[1]);
            while (table[at & (size - 1)]) at++;
            table[at & (size - 1)] = i + 1;
        }
        memory_free(p->table);
        p->table = table;
        p->size = size;
    }
    uint32_t at = hash_pair(x, y);
    for (; p->table[at & (p->size - 1)]; at++) {
        uint32_t i = p->table[at & (p->size - 1)] - 1;
        const uint32_t *of = (const uint32_t *)p->pairs.ptr + 2 * i;
        if (of[0] == x && of[1] == y) return i;
    }
    uint32_t *to = builder_add(p->b, &p->pairs, 2 * sizeof *to);
    if (!to || !builder_work(p->b, 1)) return 0;
    to[0] = x;
    to[1] = y;
    p->table[at & (p->size - 1)] = n + 1;
    return n;
}

/* Where byte c leads from state i (NONE: nowhere), and the last byte that leads there too. */
static uint32_t follow(const dfa *d, uint32_t i, uint32_t c, uint32_t *last)
{
    *last = 255;
    if (i == GRAMMAR_NONE) return GRAMMAR_NONE;
    const grammar_edge *edges = dfa_edges(d, i);
    for (uint32_t k = 0; k < dfa_state_at(d, i)->n_edges; k++) {
        if (edges[k].hi < c) continue;
        *last = edges[k].lo > c ? edges[k].lo - 1u : edges[k].hi;
        return edges[k].lo > c ? GRAMMAR_NONE : edges[k].to;
    }
    return GRAMMAR_NONE;
}

static void add_product_edges(pairing *p, uint32_t x, uint32_t y, bool minus, dfa *out)
{
    for (uint32_t lo = 0, hi; lo < 256 && !p->b->status; lo = hi + 1) {
        uint32_t end_x, end_y, to_x = follow(p->x, x, lo, &end_x);
        uint32_t to_y = follow(p->y, y, lo, &end_y);
        hi = end_x < end_y ? end_x : end_y;
        if (to_x == GRAMMAR_NONE || (to_y == GRAMMAR_NONE && !minus)) continue;
        uint32_t to = pair_of(p, to_x, to_y);
        grammar_edge *edge = builder_add(p->b, &out->edges, sizeof *edge);
        if (edge) *edge = (grammar_edge){to, (uint8_t)lo, (uint8_t)hi};
    }
}

void dfa_product(grammar_builder *b, const dfa *x, const dfa *y, bool minus, dfa *out)
{
    if (x->calls.len || y->calls.len) {
        builder_fail(b, CERIUM_ERR_FORMAT, "recursive texts cannot be intersected");
        return;
    }
    pairing p = {.b = b, .x = x, .y = y, .pairs.max = 8 * (size_t)GRAMMAR_STATES_MAX};
    pair_of(&p, 0, 0);
    for (uint32_t i = 0; !b->status && i < p.pairs.len / 8; i++) {
        uint32_t of[2], first = (uint32_t)(out->edges.len / sizeof(grammar_edge));
        memcpy(of, p.pairs.ptr + 8 * (size_t)i, sizeof of);
        add_product_edges(&p, of[0], of[1], minus, out);
        dfa_state *state = builder_add(b, &out->states, sizeof *state);
        if (!state) break;
        bool in_y = of[1] != GRAMMAR_NONE && dfa_state_at(y, of[1])->is_final;
        state->is_final = dfa_state_at(x, of[0])->is_final && in_y != minus;
        state->first_edge = first;
        state->n_edges = (uint32_t)(out->edges.len / sizeof(grammar_edge)) - first;
    }
    memory_free(p.table);
    bytes_free(&p.pairs);
}
