/* grammar_build.c - owns expressions: makes them, and passes them from stage to stage. */
#include "sampling/grammar_build.h"

enum { NOTES_BYTES_MAX = 16384 };

void builder_open(grammar_builder *b, const char *what, cerium_error *err)
{
    *b = (grammar_builder){.err = err, .what = what, .work_max = GRAMMAR_WORK_MAX};
    b->notes.max = NOTES_BYTES_MAX;
    b->nodes.max = GRAMMAR_NODES_MAX * sizeof(expr_node);
    b->lists.max = GRAMMAR_PARTS_MAX * sizeof(uint32_t);
    b->texts.max = 16 * (size_t)GRAMMAR_TEXT_BYTES_MAX;
    b->rules.max = GRAMMAR_RULES_MAX * sizeof(builder_rule);
    b->made.max = GRAMMAR_RULES_MAX * sizeof(dfa);
    expr_node *never = builder_add(b, &b->nodes, sizeof *never);
    if (never) never->kind = NODE_NEVER;
    expr_node *empty = builder_add(b, &b->nodes, sizeof *empty);
    if (empty) empty->kind = NODE_EMPTY;
}

void builder_close(grammar_builder *b)
{
    bytes_free(&b->nodes);
    bytes_free(&b->lists);
    bytes_free(&b->texts);
    bytes_free(&b->rules);
    for (size_t i = 0; i < b->made.len / sizeof(dfa); i++) dfa_close((dfa *)b->made.ptr + i);
    bytes_free(&b->made);
    bytes_free(&b->notes);
}

/* ---- expressions ---- */

static uint32_t add_node(grammar_builder *b, expr_node node)
{
    if (node.depth > 2 * GRAMMAR_NESTING_MAX) {
        builder_fail(b, CERIUM_ERR_CAPACITY, "nested deeper than %u", GRAMMAR_NESTING_MAX);
        return EXPR_NEVER;
    }
    expr_node *to = builder_add(b, &b->nodes, sizeof *to);
    if (!to) return EXPR_NEVER;
    *to = node;
    return (uint32_t)(b->nodes.len / sizeof *to) - 1;
}

static uint16_t build_above(const grammar_builder *b, uint32_t e)
{
    return (uint16_t)(builder_node(b, e)->depth + 1);
}

uint32_t expr_bytes(grammar_builder *b, uint8_t lo, uint8_t hi)
{
    if (lo > hi) return EXPR_NEVER;
    return add_node(b, (expr_node){.kind = NODE_BYTES, .a = lo, .b = hi});
}

uint32_t expr_text(grammar_builder *b, view text)
{
    if (b->status) return EXPR_NEVER;
    if (text.len == 0) return EXPR_EMPTY;
    uint32_t at = (uint32_t)b->texts.len;
    int status = bytes_append(&b->texts, text.ptr, text.len);
    if (status == CERIUM_ERR_CAPACITY)
        builder_fail(b, status, "its texts are too long");
    else if (status)
        builder_lack(b);
    return add_node(b, (expr_node){.kind = NODE_TEXT, .a = at, .b = (uint32_t)text.len});
}

/* A node over a list; extra is put before the list. */
static uint32_t add_list(grammar_builder *b, node_kind kind, const uint32_t *extra,
                         const uint32_t *of, size_t n, size_t every)
{
    uint16_t depth = extra ? build_above(b, *extra) : 0;
    uint32_t at = (uint32_t)(b->lists.len / sizeof(uint32_t)), n_extra = extra ? 1 : 0;
    for (size_t i = 0; i < n + n_extra; i++) {
        uint32_t value = i < n_extra ? *extra : of[i - n_extra];
        uint32_t *to = builder_add(b, &b->lists, sizeof *to);
        if (!to) return EXPR_NEVER;
        *to = value;
        if (i >= n_extra && (i - n_extra) % every == 0 && build_above(b, value) > depth)
            depth = build_above(b, value);
    }
    return add_node(
        b,
        (expr_node){.kind = (uint8_t)kind, .depth = depth, .a = at, .b = (uint32_t)(n + n_extra)});
}

uint32_t expr_seq(grammar_builder *b, const uint32_t *of, size_t n)
{
    if (b->status) return EXPR_NEVER;
    for (size_t i = 0; i < n; i++)
        if (of[i] == EXPR_NEVER) return EXPR_NEVER;
    if (n == 0) return EXPR_EMPTY;
    return n == 1 ? of[0] : add_list(b, NODE_SEQ, NULL, of, n, 1);
}

uint32_t expr_alt(grammar_builder *b, const uint32_t *of, size_t n)
{
    if (b->status || n == 0) return EXPR_NEVER;
    return n == 1 ? of[0] : add_list(b, NODE_ALT, NULL, of, n, 1);
}

uint32_t expr_repeat(grammar_builder *b, uint32_t e, uint32_t min, uint32_t max)
{
    if (b->status || min > max) return EXPR_NEVER;
    if (max == 0 || e == EXPR_EMPTY) return EXPR_EMPTY;
    if (e == EXPR_NEVER) return min ? EXPR_NEVER : EXPR_EMPTY;
    if (min == 1 && max == 1) return e;
    if (min > GRAMMAR_REPEAT_MAX || (max != GRAMMAR_NO_MAX && max > GRAMMAR_REPEAT_MAX)) {
        builder_fail(b, CERIUM_ERR_CAPACITY, "a repetition of more than %u", GRAMMAR_REPEAT_MAX);
        return EXPR_NEVER;
    }
    return add_node(
        b,
        (expr_node){.kind = NODE_REPEAT, .depth = build_above(b, e), .a = e, .b = min, .c = max});
}

uint32_t expr_list(grammar_builder *b, uint32_t separator, const uint32_t *of, size_t n)
{
    if (b->status) return EXPR_NEVER;
    return n == 0 ? EXPR_EMPTY : add_list(b, NODE_LIST, &separator, of, 2 * n, 2);
}

uint32_t expr_call(grammar_builder *b, uint32_t rule)
{
    return add_node(b, (expr_node){.kind = NODE_CALL, .a = rule});
}

static uint32_t add_pair(grammar_builder *b, node_kind kind, uint32_t x, uint32_t y)
{
    if (b->status) return EXPR_NEVER;
    uint16_t dx = build_above(b, x), dy = build_above(b, y);
    return add_node(b,
                    (expr_node){.kind = (uint8_t)kind, .depth = dx > dy ? dx : dy, .a = x, .b = y});
}

uint32_t expr_and(grammar_builder *b, uint32_t x, uint32_t y)
{
    return add_pair(b, NODE_AND, x, y);
}

uint32_t expr_minus(grammar_builder *b, uint32_t x, uint32_t y)
{
    return y == EXPR_NEVER ? x : add_pair(b, NODE_MINUS, x, y);
}

uint32_t expr_sprinkled(grammar_builder *b, uint32_t e, uint8_t lo, uint8_t hi)
{
    if (b->status || e == EXPR_NEVER) return EXPR_NEVER;
    return add_node(
        b,
        (expr_node){.kind = NODE_SPRINKLED, .depth = build_above(b, e), .a = e, .b = lo, .c = hi});
}

uint32_t expr_without(grammar_builder *b, uint32_t e, uint8_t lo, uint8_t hi)
{
    dfa out;
    if (b->status || e == EXPR_NEVER) return EXPR_NEVER;
    dfa_open(&out);
    dfa_without(b, e, lo, hi, &out);
    uint32_t at = (uint32_t)(b->made.len / sizeof out);
    dfa *to = builder_add(b, &b->made, sizeof *to);
    if (!to) {
        dfa_close(&out);
        return EXPR_NEVER;
    }
    *to = out;
    bool is_nullable = dfa_state_at(&out, 0)->is_final;
    return add_node(b, (expr_node){.kind = NODE_MADE, .a = at, .b = is_nullable});
}

uint32_t expr_control(grammar_builder *b, view name)
{
    uint32_t mark = expr_bytes(b, GRAMMAR_CONTROL_MARK, GRAMMAR_CONTROL_MARK);
    return EXPR_SEQ(b, mark, expr_text(b, name), mark);
}

uint32_t expr_multiple(grammar_builder *b, uint32_t unit, uint32_t places)
{
    CHECK(unit > 0 && unit <= GRAMMAR_RESIDUES_MAX && places < 16);
    return add_node(b, (expr_node){.kind = NODE_MULTIPLE, .a = unit, .b = places});
}

/* ---- rules ---- */

uint32_t rule_new(grammar_builder *b)
{
    builder_rule *r = builder_add(b, &b->rules, sizeof *r);
    if (!r) return 0;
    r->expr = GRAMMAR_NONE;
    return builder_n_rules(b) - 1;
}

void rule_set(grammar_builder *b, uint32_t rule, uint32_t expr)
{
    if (!b->status) builder_rule_at(b, rule)->expr = expr;
}

uint32_t rule_expr(const grammar_builder *b, uint32_t rule)
{
    return b->status ? EXPR_NEVER : builder_rule_at(b, rule)->expr;
}

/* ---- the way to automata ---- */

static void make_rule(grammar_builder *b, uint32_t rule, dfa *out)
{
    nfa n;
    nfa_open(&n);
    uint32_t start = nfa_of_expr(b, &n, builder_rule_at(b, rule)->expr);
    if (start != GRAMMAR_NONE) dfa_of_nfa(b, &n, start, out);
    nfa_close(&n);
}

int builder_finish(grammar_builder *b, uint32_t root, grammar **out)
{
    uint32_t n = builder_n_rules(b);
    if (b->status) return b->status;
    CHECK(root < n);
    dfa *rules = memory_zalloc(n, sizeof *rules);
    if (!rules) return builder_lack(b);
    for (uint32_t i = 0; i < n; i++) dfa_open(&rules[i]);
    builder_find_nullable(b);
    for (uint32_t i = 0; i < n && !b->status; i++) make_rule(b, i, &rules[i]);
    if (!b->status) builder_unroll(b, rules, n);
    int status = b->status;
    if (!status) status = builder_link(b, rules, n, root, out);
    for (uint32_t i = 0; i < n; i++) dfa_close(&rules[i]);
    memory_free(rules);
    return status;
}
