/* grammar_recursion.c - left recursion: rules that call themselves before a byte was read.
 *
 * Rules that reach each other this way are handled together: a strongly connected component of the
 * graph "r's start calls t". A text of such a rule A grows from its left corner: it begins with
 * something outside the component with which some rule of the component can begin. Once a text of B
 * is complete, it may be the beginning of a text of C, for each call of B at C's start, until it is
 * a text of A. So A's automaton is a copy of all of theirs, entered at the corners, with a step
 * from each end of B to the state after that call in C, and A's own ends. */
#include "sampling/grammar_build.h"

/* Tarjan's algorithm without recursion. */
typedef struct {
    const dfa *rules;
    uint32_t n;
    uint32_t *order, *low, *group, *stack, *path, *edge;
    uint32_t n_stack, n_order, n_groups;
} components;

static void close_component(components *c, uint32_t r)
{
    uint32_t of;
    do {
        of = c->stack[--c->n_stack];
        c->group[of] = c->n_groups;
    } while (of != r);
    c->n_groups++;
}

static void recursion_visit(components *c, uint32_t root)
{
    uint32_t n_path = 0;
    c->path[n_path++] = root;
    while (n_path > 0) {
        uint32_t r = c->path[n_path - 1];
        if (!c->order[r]) {
            c->order[r] = c->low[r] = ++c->n_order;
            c->stack[c->n_stack++] = r;
        }
        if (c->edge[r] < dfa_state_at(&c->rules[r], 0)->n_calls) {
            uint32_t to = dfa_calls(&c->rules[r], 0)[c->edge[r]++].rule;
            if (!c->order[to])
                c->path[n_path++] = to;
            else if (c->group[to] == GRAMMAR_NONE && c->order[to] < c->low[r])
                c->low[r] = c->order[to];
            continue;
        }
        n_path--;
        if (c->low[r] == c->order[r]) close_component(c, r);
        if (n_path > 0 && c->low[r] < c->low[c->path[n_path - 1]])
            c->low[c->path[n_path - 1]] = c->low[r];
    }
}

/* Copy each automaton of group into n, their states from first[rule] on, without the edges of their
 * starts. */
static void copy_bodies(grammar_builder *b, nfa *n, const dfa *rules, uint32_t n_rules,
                        const uint32_t *group, uint32_t which, uint32_t *first)
{
    for (uint32_t r = 0; r < n_rules && !b->status; r++) {
        if (group[r] != which) continue;
        first[r] = (uint32_t)(n->states.len / sizeof(nfa_state));
        for (uint32_t i = 0; i < dfa_n_states(&rules[r]); i++)
            nfa_add(b, n, (nfa_state){.kind = NFA_STEP, .a = GRAMMAR_NONE, .b = GRAMMAR_NONE});
    }
}

static void link_to(grammar_builder *b, nfa *n, uint32_t from, nfa_state what)
{
    uint32_t at = nfa_add(b, n, what), old = b->status ? GRAMMAR_NONE : nfa_at(n, from)->a;
    uint32_t both = nfa_add(b, n, (nfa_state){.kind = NFA_STEP, .a = at, .b = old});
    if (!b->status) nfa_at(n, from)->a = both;
}

/* Add the edges of state i of rule r, into copies, to `from`. */
static void link_state(grammar_builder *b, nfa *n, const dfa *d, uint32_t i, uint32_t first,
                       uint32_t from, const uint32_t *group, uint32_t skip)
{
    const dfa_state *s = dfa_state_at(d, i);
    for (uint32_t k = 0; k < s->n_edges && !b->status; k++) {
        grammar_edge e = dfa_edges(d, i)[k];
        link_to(b, n, from,
                (nfa_state){.kind = NFA_BYTES, .lo = e.lo, .hi = e.hi, .a = first + e.to});
    }
    for (uint32_t k = 0; k < s->n_calls && !b->status; k++) {
        grammar_call c = dfa_calls(d, i)[k];
        if (group[c.rule] != skip)
            link_to(b, n, from, (nfa_state){.kind = NFA_CALL, .a = first + c.to, .b = c.rule});
    }
}

/* Ends of a text of rule r continue at every state where it begins a text of another rule c. */
static void link_ends(grammar_builder *b, nfa *n, const dfa *rules, uint32_t n_rules,
                      const uint32_t *group, uint32_t r, const uint32_t *first)
{
    for (uint32_t i = 1; i < dfa_n_states(&rules[r]) && !b->status; i++) {
        if (!dfa_state_at(&rules[r], i)->is_final) continue;
        for (uint32_t c = 0; c < n_rules && !b->status; c++) {
            if (group[c] != group[r]) continue;
            const grammar_call *calls = dfa_calls(&rules[c], 0);
            for (uint32_t k = 0; k < dfa_state_at(&rules[c], 0)->n_calls; k++)
                if (calls[k].rule == r)
                    link_to(b, n, first[r] + i,
                            (nfa_state){
                                .kind = NFA_STEP, .a = first[c] + calls[k].to, .b = GRAMMAR_NONE});
        }
    }
}

/* The automaton of rule goal without left recursion. */
static void recursion_unroll(grammar_builder *b, const dfa *rules, uint32_t n_rules,
                             const uint32_t *group, uint32_t goal, uint32_t *first, dfa *out)
{
    nfa n;
    nfa_open(&n);
    uint32_t end = nfa_add(b, &n, (nfa_state){.kind = NFA_FINAL});
    uint32_t start =
        nfa_add(b, &n, (nfa_state){.kind = NFA_STEP, .a = GRAMMAR_NONE, .b = GRAMMAR_NONE});
    copy_bodies(b, &n, rules, n_rules, group, group[goal], first);
    for (uint32_t r = 0; r < n_rules && !b->status; r++) {
        if (group[r] != group[goal]) continue;
        link_state(b, &n, &rules[r], 0, first[r], start, group, group[goal]);
        for (uint32_t i = 1; i < dfa_n_states(&rules[r]) && !b->status; i++) {
            link_state(b, &n, &rules[r], i, first[r], first[r] + i, group, GRAMMAR_NONE);
            if (r == goal && dfa_state_at(&rules[r], i)->is_final)
                link_to(b, &n, first[r] + i,
                        (nfa_state){.kind = NFA_STEP, .a = end, .b = GRAMMAR_NONE});
        }
        link_ends(b, &n, rules, n_rules, group, r, first);
    }
    if (!b->status) dfa_of_nfa(b, &n, start, out);
    nfa_close(&n);
}

static bool calls_itself(const dfa *rules, uint32_t n_rules, const uint32_t *group, uint32_t r)
{
    const grammar_call *calls = dfa_calls(&rules[r], 0);
    for (uint32_t k = 0; k < dfa_state_at(&rules[r], 0)->n_calls; k++)
        if (calls[k].rule < n_rules && group[calls[k].rule] == group[r]) return true;
    return false;
}

static void unroll_all(grammar_builder *b, dfa *rules, uint32_t n, const uint32_t *group,
                       uint32_t *first)
{
    dfa *fresh = memory_zalloc(n, sizeof *fresh);
    if (!fresh) {
        builder_lack(b);
        return;
    }
    for (uint32_t r = 0; r < n; r++) dfa_open(&fresh[r]);
    for (uint32_t r = 0; r < n && !b->status; r++)
        if (calls_itself(rules, n, group, r))
            recursion_unroll(b, rules, n, group, r, first, &fresh[r]);
    for (uint32_t r = 0; r < n && !b->status; r++) {
        if (dfa_n_states(&fresh[r]) == 0) continue;
        dfa old = rules[r];
        rules[r] = fresh[r];
        fresh[r] = old;
    }
    for (uint32_t r = 0; r < n; r++) dfa_close(&fresh[r]);
    memory_free(fresh);
}

void builder_unroll(grammar_builder *b, dfa *rules, uint32_t n)
{
    uint32_t *memory = memory_zalloc(7 * (size_t)n, sizeof *memory);
    components c = {.rules = rules, .n = n};
    uint32_t **parts[] = {&c.order, &c.low, &c.group, &c.stack, &c.path, &c.edge};
    if (!memory) {
        builder_lack(b);
        return;
    }
    for (uint32_t i = 0; i < ARRAY_LEN(parts); i++) *parts[i] = memory + (size_t)i * n;
    for (uint32_t r = 0; r < n; r++) c.group[r] = GRAMMAR_NONE;
    for (uint32_t r = 0; r < n; r++)
        if (!c.order[r]) recursion_visit(&c, r);
    bool any = false;
    for (uint32_t r = 0; r < n; r++) any |= calls_itself(rules, n, c.group, r);
    if (any) unroll_all(b, rules, n, c.group, memory + 6 * (size_t)n);
    memory_free(memory);
}
