/* grammar_nfa.c - expressions to automata, from the end to the beginning: the automaton of an
 * expression depends on the state after it, so shared expressions with the same continuation are
 * made once.  Depth is bounded when nodes are made. */
#include "sampling/grammar_build.h"

/* ---- nullable ---- */

static bool is_nullable(const grammar_builder *b, const expr_node *e)
{
    bool is_list = e->kind == NODE_SEQ || e->kind == NODE_ALT || e->kind == NODE_LIST;
    const uint32_t *list = is_list ? builder_list(b, e->a) : NULL;
    bool any = false, all = true;
    switch ((node_kind)e->kind) {
    case NODE_NEVER:
    case NODE_BYTES:
    case NODE_MULTIPLE:
    case NODE_TEXT:
        return false;
    case NODE_EMPTY:
        return true;
    case NODE_SPRINKLED:
        return builder_node(b, e->a)->is_nullable;
    case NODE_MADE:
        return e->b;
    case NODE_REPEAT:
        return e->b == 0 || builder_node(b, e->a)->is_nullable;
    case NODE_CALL:
        return builder_rule_at(b, e->a)->is_nullable;
    case NODE_AND:
        return builder_node(b, e->a)->is_nullable && builder_node(b, e->b)->is_nullable;
    case NODE_MINUS:
        return builder_node(b, e->a)->is_nullable && !builder_node(b, e->b)->is_nullable;
    case NODE_SEQ:
    case NODE_ALT:
        for (uint32_t i = 0; i < e->b; i++) {
            bool is = builder_node(b, list[i])->is_nullable;
            any |= is;
            all &= is;
        }
        return e->kind == NODE_SEQ ? all : any;
    case NODE_LIST: /* separators are only between two members */
        for (uint32_t i = 1; i < e->b; i += 2)
            all &= list[i + 1] != LIST_MUST || builder_node(b, list[i])->is_nullable;
        return all;
    }
    return false;
}

void builder_find_nullable(grammar_builder *b)
{
    uint32_t n = (uint32_t)(b->nodes.len / sizeof(expr_node));
    for (bool changed = true; changed && builder_work(b, n);) {
        changed = false;
        for (uint32_t i = 0; i < n; i++)
            builder_node(b, i)->is_nullable = is_nullable(b, builder_node(b, i));
        for (uint32_t i = 0; i < builder_n_rules(b); i++) {
            builder_rule *r = builder_rule_at(b, i);
            CHECK(r->expr != GRAMMAR_NONE);
            bool is = builder_node(b, r->expr)->is_nullable;
            changed |= is != r->is_nullable;
            r->is_nullable = is;
        }
    }
}

/* ---- states ---- */

void nfa_open(nfa *n)
{
    *n = (nfa){.states.max = GRAMMAR_PARTS_MAX * sizeof(nfa_state)};
}

void nfa_close(nfa *n)
{
    bytes_free(&n->states);
}

uint32_t nfa_add(grammar_builder *b, nfa *n, nfa_state state)
{
    nfa_state *to = builder_add(b, &n->states, sizeof *to);
    if (!to || !builder_work(b, 1)) return GRAMMAR_NONE;
    *to = state;
    return (uint32_t)(n->states.len / sizeof *to) - 1;
}

/* A cache: (expression, next) to start state.  Open addressing; grows by doubling. */
typedef struct {
    uint32_t expr, next, start;
} made;

typedef struct {
    grammar_builder *b;
    nfa *n;
    made *table; /* [size], expr NONE = free */
    uint32_t size, used;
} maker;

static made *find_made(made *table, uint32_t size, uint32_t expr, uint32_t next)
{
    uint32_t at = (expr * 0x9e3779b1u ^ next * 0x85ebca6bu) & (size - 1);
    while (table[at].expr != GRAMMAR_NONE && (table[at].expr != expr || table[at].next != next))
        at = (at + 1) & (size - 1);
    return &table[at];
}

static bool grow_made(maker *m)
{
    uint32_t size = m->size ? 2 * m->size : 64;
    made *table = memory_alloc(size * sizeof *table);
    if (!table) {
        builder_lack(m->b);
        return false;
    }
    for (uint32_t i = 0; i < size; i++) table[i].expr = GRAMMAR_NONE;
    for (uint32_t i = 0; i < m->size; i++)
        if (m->table[i].expr != GRAMMAR_NONE)
            *find_made(table, size, m->table[i].expr, m->table[i].next) = m->table[i];
    memory_free(m->table);
    m->table = table;
    m->size = size;
    return true;
}

static uint32_t nfa_make(maker *m, uint32_t expr, uint32_t next);

static uint32_t nfa_step(maker *m, uint32_t a, uint32_t b)
{
    if (a == GRAMMAR_NONE) return b;
    if (b == GRAMMAR_NONE) return a;
    return nfa_add(m->b, m->n, (nfa_state){.kind = NFA_STEP, .a = a, .b = b});
}

static uint32_t make_bytes(maker *m, uint8_t lo, uint8_t hi, uint32_t next)
{
    return nfa_add(m->b, m->n, (nfa_state){.kind = NFA_BYTES, .lo = lo, .hi = hi, .a = next});
}

static uint32_t make_repeat(maker *m, const expr_node *e, uint32_t next)
{
    uint32_t at = next;
    if (e->c == GRAMMAR_NO_MAX) {
        at = nfa_add(m->b, m->n, (nfa_state){.kind = NFA_STEP, .a = next, .b = GRAMMAR_NONE});
        uint32_t again = nfa_make(m, e->a, at);
        if (m->b->status) return GRAMMAR_NONE;
        nfa_at(m->n, at)->b = again;
    }
    for (uint32_t i = e->c; e->c != GRAMMAR_NO_MAX && i > e->b && !m->b->status; i--)
        at = nfa_step(m, nfa_make(m, e->a, at), next);
    for (uint32_t i = 0; i < e->b && !m->b->status; i++) at = nfa_make(m, e->a, at);
    return at;
}

/* Two rows of states, before the first present member and after it. */
static uint32_t make_list(maker *m, const expr_node *e, uint32_t next)
{
    uint32_t before = next, after = next;
    for (uint32_t i = e->b; i > 1 && !m->b->status; i -= 2) {
        const uint32_t *list = builder_list(m->b, e->a);
        uint32_t separator = list[0], member = list[i - 2], how = list[i - 1];
        if (how == LIST_MANY) {
            after =
                nfa_add(m->b, m->n, (nfa_state){.kind = NFA_STEP, .a = after, .b = GRAMMAR_NONE});
            uint32_t again = nfa_make(m, separator, nfa_make(m, member, after));
            if (m->b->status) return GRAMMAR_NONE;
            nfa_at(m->n, after)->b = again;
            before = nfa_step(m, before, nfa_make(m, member, after));
            continue;
        }
        uint32_t first = nfa_make(m, member, after), more = nfa_make(m, separator, first);
        before = how == LIST_MAY ? nfa_step(m, before, first) : first;
        after = how == LIST_MAY ? nfa_step(m, after, more) : more;
    }
    return before;
}

/* Copy automaton d into n; its ends continue to next. */
static uint32_t copy_dfa(maker *m, const dfa *d, uint32_t next)
{
    grammar_builder *b = m->b;
    uint32_t first = (uint32_t)(m->n->states.len / sizeof(nfa_state)), n = dfa_n_states(d);
    for (uint32_t i = 0; i < n; i++)
        nfa_add(b, m->n, (nfa_state){.kind = NFA_STEP, .a = GRAMMAR_NONE, .b = GRAMMAR_NONE});
    for (uint32_t i = 0; i < n && !b->status; i++) {
        const dfa_state *s = dfa_state_at(d, i);
        uint32_t all = s->is_final ? next : GRAMMAR_NONE;
        for (uint32_t k = 0; k < s->n_edges; k++) {
            grammar_edge edge = dfa_edges(d, i)[k];
            nfa_state state = {
                .kind = NFA_BYTES, .lo = edge.lo, .hi = edge.hi, .a = first + edge.to};
            all = nfa_step(m, nfa_add(b, m->n, state), all);
        }
        if (!b->status) nfa_at(m->n, first + i)->a = all;
    }
    return b->status ? GRAMMAR_NONE : first;
}

static void nfa_determine(grammar_builder *b, uint32_t expr, dfa *out);

/* Bytes that change nothing, in every state. */
static uint32_t make_sprinkled(maker *m, const expr_node *e, uint32_t next)
{
    dfa d;
    dfa_open(&d);
    nfa_determine(m->b, e->a, &d);
    uint32_t start = m->b->status ? GRAMMAR_NONE : copy_dfa(m, &d, next);
    for (uint32_t i = 0; i < dfa_n_states(&d) && !m->b->status; i++) {
        uint32_t own = start + i, all = nfa_at(m->n, own)->a;
        all = nfa_step(m, make_bytes(m, (uint8_t)e->b, (uint8_t)e->c, own), all);
        if (!m->b->status) nfa_at(m->n, own)->a = all;
    }
    dfa_close(&d);
    return start;
}

static void determine_pair(grammar_builder *b, const expr_node *e, dfa *out)
{
    dfa x, y;
    dfa_open(&x);
    dfa_open(&y);
    nfa_determine(b, e->a, &x);
    if (!b->status) nfa_determine(b, e->b, &y);
    if (!b->status) dfa_product(b, &x, &y, e->kind == NODE_MINUS, out);
    dfa_close(&x);
    dfa_close(&y);
}

/* Most automata to determinize are counted characters: strings of a given length. Theirs is the
 * automaton of one character, repeated; no subset construction is needed. */
static bool determine_repeat(grammar_builder *b, const expr_node *e, dfa *out)
{
    dfa one;
    dfa_open(&one);
    nfa_determine(b, e->a, &one);
    bool done = dfa_repeat(b, &one, e->b, e->c, out);
    dfa_close(&one);
    return done;
}

/* The automaton of an expression alone.  Depth is bounded when nodes are made. */
static void nfa_determine(grammar_builder *b, uint32_t expr, dfa *out)
{
    nfa n;
    expr_node e = *builder_node(b, expr);
    if (e.kind == NODE_AND || e.kind == NODE_MINUS) {
        determine_pair(b, &e, out);
        return;
    }
    if (e.kind == NODE_REPEAT && determine_repeat(b, &e, out)) return;
    nfa_open(&n);
    uint32_t start = b->status ? GRAMMAR_NONE : nfa_of_expr(b, &n, expr);
    if (start != GRAMMAR_NONE) dfa_of_nfa(b, &n, start, out);
    nfa_close(&n);
}

static uint32_t make_product(maker *m, const expr_node *e, uint32_t next)
{
    dfa both;
    dfa_open(&both);
    determine_pair(m->b, e, &both);
    uint32_t start = m->b->status ? GRAMMAR_NONE : copy_dfa(m, &both, next);
    dfa_close(&both);
    return start;
}

/* Digits before and after the point, with the remainder of their number divided by unit: states in
 * rows of unit, one for each count of places.  A number with fewer places is padded with zeros.
 */
static uint32_t make_multiple(maker *m, uint32_t unit, uint32_t places, uint32_t next)
{
    grammar_builder *b = m->b;
    const nfa_state blank = {.kind = NFA_STEP, .a = GRAMMAR_NONE, .b = GRAMMAR_NONE};
    uint32_t start = nfa_add(b, m->n, blank), zero = nfa_add(b, m->n, blank), first = zero + 1;
    for (uint32_t i = 0; i < (places + 1) * unit; i++) nfa_add(b, m->n, blank);
    uint64_t scale = 1;
    for (uint32_t i = 0; i < places; i++) scale *= 10;
    for (uint32_t at = 0; at <= places && !b->status; at++, scale /= 10) {
        for (uint32_t rest = 0; rest < unit && !b->status; rest++) {
            uint32_t from = first + at * unit + rest, all = GRAMMAR_NONE, point = GRAMMAR_NONE;
            if (scale % unit * rest % unit == 0) all = next;
            for (uint32_t d = 0; d <= 9 && at < places; d++) {
                uint32_t to = first + (at + 1) * unit + (rest * 10 + d) % unit;
                point =
                    nfa_step(m, make_bytes(m, (uint8_t)('0' + d), (uint8_t)('0' + d), to), point);
            }
            uint32_t more =
                at == 0 && point != GRAMMAR_NONE ? make_bytes(m, '.', '.', point) : point;
            all = nfa_step(m, more, all);
            if (at == 0 && rest == 0 && !b->status) nfa_at(m->n, zero)->a = all;
            for (uint32_t d = 0; d <= 9 && at == 0; d++)
                all = nfa_step(m,
                               make_bytes(m, (uint8_t)('0' + d), (uint8_t)('0' + d),
                                          first + (rest * 10 + d) % unit),
                               all);
            if (!b->status) nfa_at(m->n, from)->a = all;
        }
    }
    uint32_t all = make_bytes(m, '0', '0', zero);
    for (uint32_t d = 1; d <= 9; d++)
        all = nfa_step(m, make_bytes(m, (uint8_t)('0' + d), (uint8_t)('0' + d), first + d % unit),
                       all);
    if (!b->status) nfa_at(m->n, start)->a = all;
    return b->status ? GRAMMAR_NONE : start;
}

static uint32_t make_node(maker *m, expr_node e, uint32_t next)
{
    uint32_t at = next;
    switch ((node_kind)e.kind) {
    case NODE_NEVER:
        return nfa_add(m->b, m->n,
                       (nfa_state){.kind = NFA_STEP, .a = GRAMMAR_NONE, .b = GRAMMAR_NONE});
    case NODE_EMPTY:
        return next;
    case NODE_BYTES:
        return make_bytes(m, (uint8_t)e.a, (uint8_t)e.b, next);
    case NODE_TEXT:
        for (uint32_t i = e.b; i-- > 0 && !m->b->status;) {
            uint8_t c = (uint8_t)m->b->texts.ptr[e.a + i];
            at = make_bytes(m, c, c, at);
        }
        return at;
    case NODE_SEQ:
        for (uint32_t i = e.b; i-- > 0 && !m->b->status;)
            at = nfa_make(m, builder_list(m->b, e.a)[i], at);
        return at;
    case NODE_ALT:
        at = GRAMMAR_NONE;
        for (uint32_t i = e.b; i-- > 0 && !m->b->status;)
            at = nfa_step(m, nfa_make(m, builder_list(m->b, e.a)[i], next), at);
        return at;
    case NODE_REPEAT:
        return make_repeat(m, &e, next);
    case NODE_LIST:
        return make_list(m, &e, next);
    case NODE_CALL:
        at = nfa_add(m->b, m->n, (nfa_state){.kind = NFA_CALL, .a = next, .b = e.a});
        return builder_rule_at(m->b, e.a)->is_nullable ? nfa_step(m, at, next) : at;
    case NODE_AND:
    case NODE_MINUS:
        return make_product(m, &e, next);
    case NODE_SPRINKLED:
        return make_sprinkled(m, &e, next);
    case NODE_MADE:
        return copy_dfa(m, (const dfa *)m->b->made.ptr + e.a, next);
    case NODE_MULTIPLE:
        return make_multiple(m, e.a, e.b, next);
    }
    return GRAMMAR_NONE;
}

static uint32_t nfa_make(maker *m, uint32_t expr, uint32_t next)
{
    if (m->b->status) return GRAMMAR_NONE;
    if (4 * m->used >= 3 * m->size && !grow_made(m)) return GRAMMAR_NONE;
    made *known = find_made(m->table, m->size, expr, next);
    if (known->expr != GRAMMAR_NONE) return known->start;
    uint32_t start = make_node(m, *builder_node(m->b, expr), next);
    if (m->b->status) return GRAMMAR_NONE;
    if (4 * m->used >= 3 * m->size && !grow_made(m)) return GRAMMAR_NONE;
    *find_made(m->table, m->size, expr, next) = (made){expr, next, start};
    m->used++;
    return start;
}

uint32_t nfa_of_expr(grammar_builder *b, nfa *n, uint32_t expr)
{
    maker m = {.b = b, .n = n};
    uint32_t final = nfa_add(b, n, (nfa_state){.kind = NFA_FINAL});
    uint32_t start = nfa_make(&m, expr, final);
    memory_free(m.table);
    return b->status ? GRAMMAR_NONE : start;
}

/* Edges by these bytes are steps without reading. */
static void take_out(grammar_builder *b, nfa *n, uint8_t lo, uint8_t hi)
{
    uint32_t n_states = (uint32_t)(n->states.len / sizeof(nfa_state));
    for (uint32_t i = 0; i < n_states && builder_work(b, 1); i++) {
        nfa_state s = *nfa_at(n, i);
        if (s.kind != NFA_BYTES || s.hi < lo || s.lo > hi) continue;
        uint32_t left = s.a;
        if (s.lo < lo) {
            nfa_state rest = {.kind = NFA_BYTES, .lo = s.lo, .hi = (uint8_t)(lo - 1), .a = s.a};
            left = nfa_add(b, n, rest);
        }
        uint32_t right = GRAMMAR_NONE;
        if (s.hi > hi) {
            nfa_state rest = {.kind = NFA_BYTES, .lo = (uint8_t)(hi + 1), .hi = s.hi, .a = s.a};
            right = nfa_add(b, n, rest);
        }
        if (b->status) return;
        if (left != s.a) { /* three ways: the step to s.a is a separate state */
            right = nfa_add(b, n, (nfa_state){.kind = NFA_STEP, .a = s.a, .b = right});
            if (b->status) return;
        }
        *nfa_at(n, i) = (nfa_state){.kind = NFA_STEP, .a = left, .b = right};
    }
}

void dfa_without(grammar_builder *b, uint32_t expr, uint8_t lo, uint8_t hi, dfa *out)
{
    dfa whole;
    nfa n;
    dfa_open(&whole);
    nfa_open(&n);
    if (lo <= hi) nfa_determine(b, expr, &whole);
    maker m = {.b = b, .n = &n};
    uint32_t final = nfa_add(b, &n, (nfa_state){.kind = NFA_FINAL}), start = GRAMMAR_NONE;
    if (!b->status) start = lo <= hi ? copy_dfa(&m, &whole, final) : nfa_make(&m, expr, final);
    if (start != GRAMMAR_NONE && lo <= hi) take_out(b, &n, lo, hi);
    if (!b->status) dfa_of_nfa(b, &n, start, out);
    memory_free(m.table);
    nfa_close(&n);
    dfa_close(&whole);
}
