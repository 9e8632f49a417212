/* grammar_dfa.c - the subset construction: a deterministic automaton from a nondeterministic one,
 * and products. */
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

/* Sets of states found so far: each is a state of the result, in the order of discovery. */
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
    uint32_t *readers, *open; /* [n states] of one set, see add_edges() */
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

static int dfa_compare(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return x < y ? -1 : x > y;
}

/* Most sets are small, or in order already. */
static void sort_set(uint32_t *of, uint32_t n)
{
    enum { INSERTED_MAX = 24 };
    uint32_t i = 1;
    while (i < n && of[i - 1] <= of[i]) i++;
    if (i >= n) return;
    if (n > INSERTED_MAX) {
        qsort(of, n, sizeof *of, dfa_compare);
        return;
    }
    for (; i < n; i++) {
        uint32_t value = of[i], at = i;
        for (; at > 0 && of[at - 1] > value; at--) of[at] = of[at - 1];
        of[at] = value;
    }
}

/* Begin a set. */
static uint32_t begin_set(subsets *s)
{
    s->round++;
    return 0;
}

/* Epsilon closure: of `from` and all states reached from it without reading, add those that read or
 * end to scratch[n]. Returns the new n. */
static uint32_t dfa_reach(subsets *s, uint32_t from, uint32_t n)
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

/* The set scratch[n], n > 0: its index.  `is_known`: it may be an earlier one. */
static uint32_t dfa_intern(subsets *s, uint32_t n, bool is_known)
{
    uint32_t hash = 0, none = 0;
    sort_set(s->scratch, n);
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

/* The members of set i that read bytes, ascending by their first: into s->readers.  Sets with many
 * ends of ranges read nothing in common, so a walk over the bytes finds few at each. */
static uint32_t find_readers(subsets *s, uint32_t i, bool cut[257])
{
    uint32_t n, first[257] = {0}, n_readers = 0;
    const uint32_t *of = set_at(s, i, &n);
    for (uint32_t k = 0; k < n; k++) {
        const nfa_state *state = nfa_at(s->n, of[k]);
        if (state->kind != NFA_BYTES) continue;
        cut[state->lo] = cut[state->hi + 1] = true;
        first[state->lo + 1]++;
    }
    for (uint32_t c = 0; c < 256; c++) first[c + 1] += first[c];
    for (uint32_t k = 0; k < n; k++) {
        const nfa_state *state = nfa_at(s->n, of[k]);
        if (state->kind != NFA_BYTES) continue;
        s->readers[first[state->lo]++] = of[k];
        n_readers++;
    }
    return n_readers;
}

static void add_edge(subsets *s, dfa *out, uint32_t to, uint32_t lo, uint32_t hi, bool continues)
{
    grammar_edge *edges = (grammar_edge *)out->edges.ptr;
    if (continues) {
        edges[out->edges.len / sizeof *edges - 1].hi = (uint8_t)hi;
        return;
    }
    grammar_edge *edge = builder_add(s->b, &out->edges, sizeof *edge);
    if (edge) *edge = (grammar_edge){to, (uint8_t)lo, (uint8_t)hi};
}

/* Edges of set i: no edge distinguishes bytes between two neighbouring bounds of ranges. */
static void add_edges(subsets *s, uint32_t i, dfa *out)
{
    bool cut[257] = {false};
    uint32_t n_readers = find_readers(s, i, cut), n_open = 0, next = 0, last = GRAMMAR_NONE;
    for (uint32_t lo = 0, hi; lo < 256 && !s->b->status; lo = hi + 1) {
        for (hi = lo; hi < 255 && !cut[hi + 1]; hi++) continue;
        uint32_t n_to = begin_set(s), n_left = 0;
        for (; next < n_readers && nfa_at(s->n, s->readers[next])->lo <= lo; next++)
            s->open[n_open++] = s->readers[next];
        for (uint32_t k = 0; k < n_open; k++) {
            const nfa_state *state = nfa_at(s->n, s->open[k]);
            if (state->hi < lo) continue;
            s->open[n_left++] = s->open[k];
            n_to = dfa_reach(s, state->a, n_to);
        }
        if (!builder_work(s->b, n_open + 1)) return;
        n_open = n_left;
        uint32_t to = n_to ? dfa_intern(s, n_to, true) : GRAMMAR_NONE;
        if (to != GRAMMAR_NONE) add_edge(s, out, to, lo, hi, to == last);
        last = to;
    }
}

/* Calls of set i: one for each rule. */
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
            if (state->kind == NFA_CALL && state->b == next) n_to = dfa_reach(s, state->a, n_to);
        }
        uint32_t to = n_to ? dfa_intern(s, n_to, true) : GRAMMAR_NONE;
        grammar_call *call =
            to == GRAMMAR_NONE ? NULL : builder_add(s->b, &out->calls, sizeof *call);
        if (call) *call = (grammar_call){.rule = next, .to = to};
        rule = next + 1;
    }
}

static void make_states(subsets *s, uint32_t start, dfa *out)
{
    uint32_t *zero = builder_add(s->b, &s->firsts, sizeof *zero);
    uint32_t n = zero ? dfa_reach(s, start, begin_set(s)) : 0;
    /* The start is a separate state, so that no edge leads to it. */
    if (zero) dfa_intern(s, n, false);
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
    s.scratch = memory_alloc(3 * (size_t)n_states * sizeof *s.scratch);
    if (s.scratch) {
        s.readers = s.scratch + n_states;
        s.open = s.readers + n_states;
    }
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

/* ---- repetition ---- */

/* Whether no text of d begins another one, and all have a byte: then the next begins where one
 * ends. */
static bool is_prefix_free(const dfa *d)
{
    bool any = false;
    if (d->calls.len || dfa_state_at(d, 0)->is_final) return false;
    for (uint32_t i = 0; i < dfa_n_states(d); i++) {
        if (!dfa_state_at(d, i)->is_final) continue;
        any = true;
        if (dfa_state_at(d, i)->n_edges) return false;
    }
    return any;
}

/* State i of copy k: ends of one are the start of the next, but the last copy of an endless one is
 * followed by itself. */
static uint32_t dfa_copied(const dfa *one, const uint32_t *rank, uint32_t n_inner,
                           uint32_t n_copies, bool is_endless, uint32_t k, uint32_t i)
{
    if (!dfa_state_at(one, i)->is_final) return k * (n_inner + 1) + rank[i];
    return (k + 1 == n_copies && is_endless ? k : k + 1) * (n_inner + 1);
}

static void copy_states(grammar_builder *b, const dfa *one, const uint32_t *rank, uint32_t n_inner,
                        uint32_t min, uint32_t max, dfa *out)
{
    bool is_endless = max == GRAMMAR_NO_MAX;
    /* An unbounded repeat has a separate start, and one copy that is entered again. */
    uint32_t n_copies = is_endless ? min + 1 + (min == 0) : max;
    for (uint32_t k = 0; k <= n_copies - is_endless && !b->status; k++) {
        for (uint32_t i = 0; i < dfa_n_states(one) && builder_work(b, 1); i++) {
            const dfa_state *from = dfa_state_at(one, i);
            if (from->is_final) continue;
            dfa_state *state = builder_add(b, &out->states, sizeof *state);
            if (!state) return;
            state->first_edge = (uint32_t)(out->edges.len / sizeof(grammar_edge));
            state->is_final = i == 0 && k >= min;
            if (k == n_copies) break; /* all copies were there: only its end */
            state->n_edges = from->n_edges;
            for (uint32_t e = 0; e < from->n_edges; e++) {
                grammar_edge edge = dfa_edges(one, i)[e];
                edge.to = dfa_copied(one, rank, n_inner, n_copies, is_endless, k, edge.to);
                grammar_edge *to = builder_add(b, &out->edges, sizeof *to);
                if (to) *to = edge;
            }
        }
    }
}

bool dfa_repeat(grammar_builder *b, const dfa *one, uint32_t min, uint32_t max, dfa *out)
{
    if (b->status || !is_prefix_free(one) || max == 0) return false;
    uint32_t n = dfa_n_states(one), n_inner = 0;
    uint32_t *rank = memory_zalloc(n, sizeof *rank);
    if (!rank) return builder_lack(b), false;
    for (uint32_t i = 1; i < n; i++)
        if (!dfa_state_at(one, i)->is_final) rank[i] = ++n_inner;
    copy_states(b, one, rank, n_inner, min, max, out);
    memory_free(rank);
    return true;
}

/* ---- products ---- */

/* Pairs of states found so far. */
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

/* The target of byte c from state i (NONE: nowhere), and the last byte with the same target. */
static uint32_t dfa_follow(const dfa *d, uint32_t i, uint32_t c, uint32_t *last)
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
        uint32_t end_x, end_y, to_x = dfa_follow(p->x, x, lo, &end_x);
        uint32_t to_y = dfa_follow(p->y, y, lo, &end_y);
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
