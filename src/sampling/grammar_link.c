/* grammar_link.c - joins the automata of rules to one grammar: states that lead to no text are
 * removed, rules are ordered, and everything gets its final number. */
#include "sampling/grammar_build.h"

/* States of all rules are numbered consecutively: first[rule] + state. */
typedef struct {
    grammar_builder *b;
    const dfa *rules;
    uint32_t n, root, n_states;
    uint32_t *first;  /* [n + 1] */
    bool *lives;      /* [n_states] a text may end from here */
    bool *used;       /* [n_states] reached from the root */
    uint32_t *number; /* [n_states] */
    uint32_t *place;  /* [n] in the order of rules; NONE: not used */
    uint32_t *order;  /* [n] rules by place */
    uint32_t *stack;  /* [n_states] */
} linker;

static bool link_lives(const linker *l, uint32_t rule, uint32_t i)
{
    return l->lives[l->first[rule] + i];
}

static bool edge_lives(const linker *l, uint32_t r, grammar_edge e)
{
    return link_lives(l, r, e.to);
}

static bool call_lives(const linker *l, uint32_t r, grammar_call c)
{
    return link_lives(l, c.rule, 0) && link_lives(l, r, c.to);
}

static bool comes_to_life(const linker *l, uint32_t r, uint32_t i)
{
    const dfa_state *s = dfa_state_at(&l->rules[r], i);
    /* A start that is an end accepts the empty text, which callers skip. */
    if (s->is_final && i > 0) return true;
    for (uint32_t k = 0; k < s->n_edges; k++)
        if (edge_lives(l, r, dfa_edges(&l->rules[r], i)[k])) return true;
    for (uint32_t k = 0; k < s->n_calls; k++)
        if (call_lives(l, r, dfa_calls(&l->rules[r], i)[k])) return true;
    return false;
}

/* Later states first: most edges lead forward. */
static void find_living(linker *l)
{
    for (bool changed = true; changed && builder_work(l->b, l->n_states);) {
        changed = false;
        for (uint32_t r = l->n; r-- > 0;)
            for (uint32_t i = dfa_n_states(&l->rules[r]); i-- > 0;) {
                if (link_lives(l, r, i) || !comes_to_life(l, r, i)) continue;
                l->lives[l->first[r] + i] = changed = true;
            }
    }
}

static void link_use(linker *l, uint32_t r, uint32_t i, uint32_t *n_stack)
{
    uint32_t at = l->first[r] + i;
    if (l->used[at]) return;
    l->used[at] = true;
    l->stack[(*n_stack)++] = at;
}

static uint32_t rule_of(const linker *l, uint32_t at)
{
    uint32_t lo = 0, hi = l->n;
    while (hi - lo > 1) {
        uint32_t middle = lo + (hi - lo) / 2;
        if (l->first[middle] <= at)
            lo = middle;
        else
            hi = middle;
    }
    return lo;
}

static void find_used(linker *l)
{
    uint32_t n_stack = 0;
    link_use(l, l->root, 0, &n_stack);
    while (n_stack > 0) {
        uint32_t at = l->stack[--n_stack], r = rule_of(l, at), i = at - l->first[r];
        const dfa_state *s = dfa_state_at(&l->rules[r], i);
        for (uint32_t k = 0; k < s->n_edges; k++) {
            grammar_edge e = dfa_edges(&l->rules[r], i)[k];
            if (edge_lives(l, r, e)) link_use(l, r, e.to, &n_stack);
        }
        for (uint32_t k = 0; k < s->n_calls; k++) {
            grammar_call c = dfa_calls(&l->rules[r], i)[k];
            if (!call_lives(l, r, c)) continue;
            link_use(l, c.rule, 0, &n_stack);
            link_use(l, r, c.to, &n_stack);
        }
    }
}

/* Topological order: the rules that a rule's start calls come after it. Kahn's algorithm, over the
 * used rules. There is no cycle, because left recursion was unrolled. */
static void put_in_order(linker *l, uint32_t *n_placed)
{
    uint32_t *n_before = l->stack, n = 0, head = 0;
    for (uint32_t r = 0; r < l->n; r++) n_before[r] = 0, l->place[r] = GRAMMAR_NONE;
    for (uint32_t r = 0; r < l->n; r++) {
        const dfa_state *s = l->used[l->first[r]] ? dfa_state_at(&l->rules[r], 0) : NULL;
        for (uint32_t k = 0; s && k < s->n_calls; k++) {
            grammar_call c = dfa_calls(&l->rules[r], 0)[k];
            if (call_lives(l, r, c)) n_before[c.rule]++;
        }
    }
    for (uint32_t r = 0; r < l->n; r++)
        if (l->used[l->first[r]] && n_before[r] == 0) l->order[n++] = r;
    while (head < n) {
        uint32_t r = l->order[head];
        l->place[r] = head++;
        for (uint32_t k = 0; k < dfa_state_at(&l->rules[r], 0)->n_calls; k++) {
            grammar_call c = dfa_calls(&l->rules[r], 0)[k];
            if (call_lives(l, r, c) && --n_before[c.rule] == 0) l->order[n++] = c.rule;
        }
    }
    *n_placed = n;
}

/* Number states, rule by rule; state 0 is GRAMMAR_END. */
static void number_states(linker *l, uint32_t n_rules, grammar *g)
{
    g->n_states = 1;
    for (uint32_t p = 0; p < n_rules; p++) {
        uint32_t r = l->order[p];
        for (uint32_t i = 0; i < dfa_n_states(&l->rules[r]); i++) {
            if (!l->used[l->first[r] + i]) continue;
            l->number[l->first[r] + i] = g->n_states++;
            const dfa_state *s = dfa_state_at(&l->rules[r], i);
            for (uint32_t k = 0; k < s->n_edges; k++)
                g->n_edges += edge_lives(l, r, dfa_edges(&l->rules[r], i)[k]);
            for (uint32_t k = 0; k < s->n_calls; k++)
                g->n_calls += call_lives(l, r, dfa_calls(&l->rules[r], i)[k]);
        }
    }
}

static void write_state(const linker *l, uint32_t r, uint32_t i, grammar *g, uint32_t *n_edges,
                        uint32_t *n_calls)
{
    const dfa_state *s = dfa_state_at(&l->rules[r], i);
    const uint32_t *number = l->number + l->first[r];
    g->states[number[i]] = (grammar_state){
        .first_edge = *n_edges, .first_call = *n_calls, .is_final = s->is_final && i > 0};
    for (uint32_t k = 0; k < s->n_edges; k++) {
        grammar_edge e = dfa_edges(&l->rules[r], i)[k];
        if (edge_lives(l, r, e)) g->edges[(*n_edges)++] = (grammar_edge){number[e.to], e.lo, e.hi};
    }
    for (uint32_t k = 0; k < s->n_calls; k++) {
        grammar_call c = dfa_calls(&l->rules[r], i)[k];
        if (call_lives(l, r, c))
            g->calls[(*n_calls)++] = (grammar_call){l->place[c.rule], number[c.to], false};
    }
}

static void find_last_calls(grammar *g)
{
    for (uint32_t i = 0; i < g->n_calls; i++) {
        const grammar_state *to = &g->states[g->calls[i].to];
        g->calls[i].is_last = to->is_final && to->first_edge == to[1].first_edge &&
                              to->first_call == to[1].first_call;
    }
}

static void find_classes(grammar *g)
{
    bool cut[257] = {false};
    for (uint32_t i = 0; i < g->n_edges; i++) cut[g->edges[i].lo] = cut[g->edges[i].hi + 1] = true;
    for (uint32_t c = 0; c < 256; c++) {
        if (c == 0 || cut[c]) g->byte_of[g->n_classes++] = (uint8_t)c;
        g->class_of[c] = (uint8_t)(g->n_classes - 1);
    }
}

static int write_grammar(linker *l, uint32_t n_rules, grammar *g)
{
    grammar_builder *b = l->b;
    number_states(l, n_rules, g);
    if (g->n_states > GRAMMAR_STATES_MAX)
        return builder_fail(b, CERIUM_ERR_CAPACITY, "needs %u states: at most %u", g->n_states,
                            GRAMMAR_STATES_MAX);
    g->n_rules = n_rules;
    g->root = l->place[l->root];
    g->takes_empty = builder_rule_at(b, l->root)->is_nullable;
    g->states = memory_zalloc(g->n_states + 1, sizeof *g->states);
    g->edges = memory_zalloc(g->n_edges + 1, sizeof *g->edges);
    g->calls = memory_zalloc(g->n_calls + 1, sizeof *g->calls);
    g->starts = memory_zalloc(n_rules + 1, sizeof *g->starts);
    bool *plain = memory_zalloc(n_rules + 1, sizeof *plain);
    int status = CERIUM_OK;
    if (!g->states || !g->edges || !g->calls || !g->starts || !plain) status = builder_lack(b);
    uint32_t n_edges = 0, n_calls = 0;
    for (uint32_t p = 0; p < n_rules && !status; p++) {
        uint32_t r = l->order[p];
        g->starts[p] = l->number[l->first[r]];
        plain[p] = builder_rule_at(b, r)->is_plain;
        for (uint32_t i = 0; i < dfa_n_states(&l->rules[r]); i++)
            if (l->used[l->first[r] + i]) write_state(l, r, i, g, &n_edges, &n_calls);
    }
    if (!status) {
        g->states[g->n_states] = (grammar_state){.first_edge = n_edges, .first_call = n_calls};
        find_last_calls(g);
        find_classes(g);
        status = grammar_measure(g, plain);
        if (status) builder_lack(b);
    }
    memory_free(plain);
    return status;
}

static int link_alloc(linker *l)
{
    l->first = memory_zalloc(l->n + 1, sizeof *l->first);
    if (!l->first) return builder_lack(l->b);
    for (uint32_t r = 0; r < l->n; r++) {
        l->first[r + 1] = l->first[r] + dfa_n_states(&l->rules[r]);
        if (l->first[r + 1] > GRAMMAR_PARTS_MAX)
            return builder_fail(l->b, CERIUM_ERR_CAPACITY, "needs more than %u states",
                                GRAMMAR_PARTS_MAX);
    }
    l->n_states = l->first[l->n];
    l->lives = memory_zalloc(l->n_states, 1);
    l->used = memory_zalloc(l->n_states, 1);
    l->number = memory_zalloc(l->n_states, sizeof *l->number);
    l->stack = memory_zalloc(l->n_states, sizeof *l->stack);
    l->place = memory_zalloc(l->n, sizeof *l->place);
    l->order = memory_zalloc(l->n, sizeof *l->order);
    if (!l->lives || !l->used || !l->number || !l->stack || !l->place || !l->order)
        return builder_lack(l->b);
    return CERIUM_OK;
}

static int link_rules(linker *l, grammar *g)
{
    grammar_builder *b = l->b;
    uint32_t n_rules = 0;
    RETURN_IF(link_alloc(l));
    find_living(l);
    if (b->status) return b->status;
    if (!link_lives(l, l->root, 0) && !builder_rule_at(b, l->root)->is_nullable)
        return builder_fail(b, CERIUM_ERR_FORMAT, "no text at all fits it");
    find_used(l);
    put_in_order(l, &n_rules);
    return write_grammar(l, n_rules, g);
}

int builder_link(grammar_builder *b, dfa *rules, uint32_t n, uint32_t root, grammar **out)
{
    linker l = {.b = b, .rules = rules, .n = n, .root = root};
    grammar *g = memory_zalloc(1, sizeof *g);
    int status = g ? link_rules(&l, g) : builder_lack(b);
    memory_free(l.first);
    memory_free(l.lives);
    memory_free(l.used);
    memory_free(l.number);
    memory_free(l.stack);
    memory_free(l.place);
    memory_free(l.order);
    if (status)
        grammar_free(&g);
    else
        *out = g;
    return status;
}

void grammar_free(grammar **g)
{
    if (!g || !*g) return;
    memory_free((*g)->states);
    memory_free((*g)->edges);
    memory_free((*g)->calls);
    memory_free((*g)->starts);
    memory_free((*g)->notes);
    memory_free(*g);
    *g = NULL;
}
