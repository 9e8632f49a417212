/* jinja_parser.c - owns expressions as trees, with jinja2's precedences. */
#include "template/jinja_value.h"

/* ---- tokens and nodes ---- */

void jinja_parse_fail(jinja_parser *p, uint32_t line, const char *format, ...)
{
    if (p->status) return;
    va_list args;
    va_start(args, format);
    vsnprintf(p->err->message, sizeof p->err->message, format, args);
    va_end(args);
    p->err->line = line;
    p->status = CERIUM_ERR_FORMAT;
}

static jinja_token next_token(jinja_parser *p)
{
    if (p->status) return (jinja_token){.kind = TOK_END, .line = p->token.line};
    jinja_token out = jinja_lexer_next(&p->lexer);
    if (p->lexer.status) p->status = p->lexer.status;
    return out;
}

void jinja_advance(jinja_parser *p)
{
    p->token = p->has_ahead ? p->ahead : next_token(p);
    p->has_ahead = false;
    if (p->status) p->token.kind = TOK_END;
}

static const jinja_token *look_ahead(jinja_parser *p)
{
    if (!p->has_ahead) p->ahead = next_token(p);
    p->has_ahead = true;
    return &p->ahead;
}

bool jinja_at(const jinja_parser *p, jinja_token_kind kind)
{
    return p->token.kind == kind && !p->status;
}

bool jinja_at_name(const jinja_parser *p, const char *name)
{
    return jinja_at(p, TOK_NAME) && view_equal(p->token.text, view_of(name));
}

void jinja_expect(jinja_parser *p, jinja_token_kind kind)
{
    if (!jinja_at(p, kind))
        jinja_parse_fail(p, p->token.line, "expected %s, found %s", jinja_token_name(kind),
                         jinja_token_name(p->token.kind));
    jinja_advance(p);
}

jinja_node *jinja_new(jinja_parser *p, jinja_node_kind kind)
{
    jinja_node *out = p->status ? NULL : jinja_take(&p->t->pool, sizeof *out);
    if (!out) {
        if (!p->status) p->status = CERIUM_ERR_MEMORY;
        return &p->none;
    }
    *out = (jinja_node){.kind = (uint8_t)kind, .line = p->token.line, .callee = CALLEE_NONE};
    return out;
}

/* Add a child: a tree is at most as deep as evaluation may go. */
static void deepen(jinja_parser *p, jinja_node *node, const jinja_node *child)
{
    if (p->status || !child || child->depth < node->depth) return;
    if (child->depth >= JINJA_NESTING_MAX)
        jinja_parse_fail(p, node->line, "an expression nested deeper than %u", JINJA_NESTING_MAX);
    else node->depth = (uint8_t)(child->depth + 1);
}

/* Recursion of the parser. */
static bool enter(jinja_parser *p)
{
    if (++p->nesting <= JINJA_NESTING_MAX) return true;
    jinja_parse_fail(p, p->token.line, "nested deeper than %u", JINJA_NESTING_MAX);
    return false;
}

static const jinja_node *unary_node(jinja_parser *p, jinja_node_kind kind, const jinja_node *a)
{
    jinja_node *out = jinja_new(p, kind);
    if (p->status) return out;
    out->a = a;
    deepen(p, out, a);
    return out;
}

static const jinja_node *binary_node(jinja_parser *p, jinja_node_kind kind, uint32_t line,
                                     const jinja_node *a, const jinja_node *b)
{
    jinja_node *out = jinja_new(p, kind);
    if (p->status) return out;
    out->line = line;
    out->a = a;
    out->b = b;
    deepen(p, out, a);
    deepen(p, out, b);
    return out;
}

/* A list that grows at its end. */
typedef struct {
    jinja_node *owner;
    const jinja_node **tail;
} chain;

static chain chain_of(jinja_node *owner)
{
    return (chain){owner, &owner->list};
}

/* A node is in one list only; it is const everywhere but here. */
static void link_node(jinja_parser *p, chain *c, const jinja_node *item)
{
    if (p->status) return;
    deepen(p, c->owner, item);
    *c->tail = item;
    c->tail = &((jinja_node *)(uintptr_t)item)->next;
}

uint16_t jinja_symbol_of(jinja_parser *p, view name)
{
    jinja_template *t = p->t;
    for (size_t i = 0; i < t->n_symbols; i++)
        if (view_equal(t->symbols[i], name)) return (uint16_t)i;
    if (t->n_symbols >= JINJA_SYMBOLS_MAX) {
        jinja_parse_fail(p, p->token.line, "more than %u names", JINJA_SYMBOLS_MAX);
        return 0;
    }
    if (t->n_symbols == t->cap_symbols) {
        size_t cap = t->cap_symbols ? 2 * t->cap_symbols : 64;
        view *grown = jinja_take(&t->pool, cap * sizeof *grown);
        if (!grown) {
            p->status = CERIUM_ERR_MEMORY;
            return 0;
        }
        if (t->n_symbols) memcpy(grown, t->symbols, t->n_symbols * sizeof *grown);
        t->symbols = grown;
        t->cap_symbols = cap;
    }
    t->symbols[t->n_symbols] = name;
    return (uint16_t)t->n_symbols++;
}

/* ---- primaries ---- */

static const jinja_node *constant(jinja_parser *p, jinja_value value)
{
    jinja_node *out = jinja_new(p, NODE_CONST);
    if (!p->status) out->value = value;
    jinja_advance(p);
    return out;
}

static const jinja_node *name_node(jinja_parser *p)
{
    view name = p->token.text;
    if (view_equal(name, VIEW("true")) || view_equal(name, VIEW("True")))
        return constant(p, jinja_bool(true));
    if (view_equal(name, VIEW("false")) || view_equal(name, VIEW("False")))
        return constant(p, jinja_bool(false));
    if (view_equal(name, VIEW("none")) || view_equal(name, VIEW("None")))
        return constant(p, jinja_none());
    jinja_node *out = jinja_new(p, NODE_NAME);
    if (p->status) return out;
    out->name = name;
    out->symbol = jinja_symbol_of(p, name);
    jinja_advance(p);
    return out;
}

static const jinja_node *string_node(jinja_parser *p)
{
    view text = p->token.text;
    jinja_node *out = jinja_new(p, NODE_CONST);
    char *both = NULL;
    size_t room = 0;
    jinja_advance(p);
    while (jinja_at(p, TOK_STRING)) { /* neighbours are one */
        view more = p->token.text;
        if (text.len + more.len > room) {
            room = 2 * (text.len + more.len);
            both = jinja_take(&p->t->pool, room);
            if (!both) {
                p->status = CERIUM_ERR_MEMORY;
                break;
            }
            if (text.len) memcpy(both, text.ptr, text.len);
        }
        if (more.len) memcpy(both + text.len, more.ptr, more.len);
        text = (view){both, text.len + more.len};
        jinja_advance(p);
    }
    if (!p->status) out->value = jinja_text(text, JINJA_TEMPLATE);
    return out;
}

static const jinja_node *list_node(jinja_parser *p, jinja_token_kind close, jinja_node_kind kind)
{
    jinja_node *out = jinja_new(p, kind);
    chain items = chain_of(out);
    jinja_advance(p);
    while (!p->status && !jinja_at(p, close)) {
        if (out->list) jinja_expect(p, TOK_COMMA);
        if (jinja_at(p, close)) break;
        link_node(p, &items, jinja_expression(p));
    }
    jinja_expect(p, close);
    return out;
}

static const jinja_node *dict_node(jinja_parser *p)
{
    jinja_node *out = jinja_new(p, NODE_DICT);
    chain items = chain_of(out);
    jinja_advance(p);
    while (!p->status && !jinja_at(p, TOK_RBRACE)) {
        if (out->list) jinja_expect(p, TOK_COMMA);
        if (jinja_at(p, TOK_RBRACE)) break;
        uint32_t line = p->token.line;
        const jinja_node *key = jinja_expression(p);
        jinja_expect(p, TOK_COLON);
        link_node(p, &items, binary_node(p, NODE_PAIR, line, key, jinja_expression(p)));
    }
    jinja_expect(p, TOK_RBRACE);
    return out;
}

static const jinja_node *primary(jinja_parser *p)
{
    const jinja_node *out;
    switch (p->token.kind) {
    case TOK_NAME: return name_node(p);
    case TOK_STRING: return string_node(p);
    case TOK_INTEGER: return constant(p, jinja_int(p->token.integer));
    case TOK_REAL: return constant(p, jinja_real(p->token.real));
    case TOK_LBRACKET: return list_node(p, TOK_RBRACKET, NODE_LIST);
    case TOK_LBRACE: return dict_node(p);
    case TOK_LPAREN:
        jinja_advance(p);
        if (jinja_at(p, TOK_RPAREN)) {
            out = jinja_new(p, NODE_TUPLE);
        } else {
            out = jinja_tuple(p, true);
        }
        jinja_expect(p, TOK_RPAREN);
        return out;
    default:
        jinja_parse_fail(p, p->token.line, "expected an expression, found %s",
                         jinja_token_name(p->token.kind));
        return jinja_new(p, NODE_CONST);
    }
}

/* ---- postfix operators ---- */

static bool is_named_argument(jinja_parser *p)
{
    return jinja_at(p, TOK_NAME) && look_ahead(p)->kind == TOK_ASSIGN;
}

static void parse_args(jinja_parser *p, jinja_node *call)
{
    chain items = chain_of(call);
    bool named = false;
    jinja_expect(p, TOK_LPAREN);
    while (!p->status && !jinja_at(p, TOK_RPAREN)) {
        if (call->list) jinja_expect(p, TOK_COMMA);
        if (jinja_at(p, TOK_RPAREN)) break;
        if (jinja_at(p, TOK_MUL) || jinja_at(p, TOK_POW)) {
            jinja_parse_fail(p, p->token.line, "arguments with * or ** are not supported");
            return;
        }
        if (is_named_argument(p)) {
            jinja_node *keyword = jinja_new(p, NODE_KEYWORD);
            keyword->name = p->token.text;
            jinja_advance(p);
            jinja_advance(p);
            keyword->a = jinja_expression(p);
            deepen(p, keyword, keyword->a);
            link_node(p, &items, keyword);
            named = true;
            continue;
        }
        if (named) jinja_parse_fail(p, p->token.line, "a positional argument after a named one");
        link_node(p, &items, jinja_expression(p));
    }
    jinja_expect(p, TOK_RPAREN);
}

static const jinja_node *call_node(jinja_parser *p, const jinja_node *a)
{
    jinja_node *out = jinja_new(p, NODE_CALL);
    out->a = a;
    deepen(p, out, a);
    parse_args(p, out);
    return out;
}

static const jinja_node *slice_node(jinja_parser *p)
{
    const jinja_node *part[3] = {NULL};
    uint32_t line = p->token.line;
    bool slice = jinja_at(p, TOK_COLON);
    if (!slice) part[0] = jinja_expression(p);
    if (!slice && !jinja_at(p, TOK_COLON)) return part[0];
    jinja_advance(p);
    if (!jinja_at(p, TOK_COLON) && !jinja_at(p, TOK_RBRACKET)) part[1] = jinja_expression(p);
    if (jinja_at(p, TOK_COLON)) {
        jinja_advance(p);
        if (!jinja_at(p, TOK_RBRACKET)) part[2] = jinja_expression(p);
    }
    jinja_node *out = jinja_new(p, NODE_SLICE);
    out->line = line;
    out->a = part[0];
    out->b = part[1];
    out->c = part[2];
    for (size_t i = 0; i < ARRAY_LEN(part); i++) deepen(p, out, part[i]);
    return out;
}

static const jinja_node *attribute_node(jinja_parser *p, const jinja_node *a)
{
    uint32_t line = p->token.line;
    jinja_advance(p);
    if (jinja_at(p, TOK_INTEGER))
        return binary_node(p, NODE_ITEM, line, a,
                           constant(p, jinja_int(p->token.integer)));
    jinja_node *out = jinja_new(p, NODE_ATTRIBUTE);
    out->a = a;
    out->name = p->token.text;
    out->callee = jinja_find_method(p->token.text);
    deepen(p, out, a);
    jinja_expect(p, TOK_NAME);
    return out;
}

static const jinja_node *jinja_postfix(jinja_parser *p, const jinja_node *a)
{
    while (!p->status) {
        if (jinja_at(p, TOK_DOT)) {
            a = attribute_node(p, a);
        } else if (jinja_at(p, TOK_LBRACKET)) {
            uint32_t line = p->token.line;
            jinja_advance(p);
            const jinja_node *item = slice_node(p);
            jinja_expect(p, TOK_RBRACKET);
            a = binary_node(p, NODE_ITEM, line, a, item);
        } else if (jinja_at(p, TOK_LPAREN)) {
            a = call_node(p, a);
        } else {
            break;
        }
    }
    return a;
}

const jinja_node *jinja_filter_chain(jinja_parser *p, const jinja_node *a, bool is_inline)
{
    while (is_inline || jinja_at(p, TOK_PIPE)) {
        if (!is_inline) jinja_advance(p);
        is_inline = false;
        jinja_node *out = jinja_new(p, NODE_FILTER);
        view name = p->token.text;
        if (!jinja_at(p, TOK_NAME)) name = VIEW("");
        out->a = a;
        out->name = name;
        out->callee = jinja_find_filter(name);
        deepen(p, out, a);
        jinja_expect(p, TOK_NAME);
        if (!p->status && out->callee == CALLEE_NONE)
            jinja_parse_fail(p, out->line, "no filter named '%.*s'",
                             (int)(name.len < 64 ? name.len : 64), name.ptr);
        if (jinja_at(p, TOK_LPAREN)) parse_args(p, out);
        a = out;
        if (p->status) break;
    }
    return a;
}

static bool begins_test_argument(const jinja_parser *p)
{
    switch (p->token.kind) {
    case TOK_STRING:
    case TOK_INTEGER:
    case TOK_REAL:
    case TOK_LBRACKET:
    case TOK_LBRACE: return !p->status;
    case TOK_NAME:
        return !jinja_at_name(p, "else") && !jinja_at_name(p, "or") && !jinja_at_name(p, "and") &&
               !p->status;
    default: return false;
    }
}

static const jinja_node *test_node(jinja_parser *p, const jinja_node *a)
{
    jinja_advance(p);
    bool negated = jinja_at_name(p, "not");
    if (negated) jinja_advance(p);
    jinja_node *out = jinja_new(p, NODE_TEST);
    view name = p->token.text;
    out->a = a;
    out->name = name;
    deepen(p, out, a);
    if (jinja_at(p, TOK_NAME)) out->callee = jinja_find_test(name);
    jinja_expect(p, TOK_NAME);
    if (!p->status && out->callee == CALLEE_NONE)
        jinja_parse_fail(p, out->line, "no test named '%.*s'",
                         (int)(name.len < 64 ? name.len : 64), name.ptr);
    if (jinja_at(p, TOK_LPAREN)) {
        parse_args(p, out);
    } else if (begins_test_argument(p)) {
        chain items = chain_of(out);
        if (jinja_at_name(p, "is")) jinja_parse_fail(p, p->token.line, "two tests in a row");
        link_node(p, &items, jinja_postfix(p, primary(p)));
    }
    return negated ? unary_node(p, NODE_NOT, out) : out;
}

static const jinja_node *filters_and_tests(jinja_parser *p, const jinja_node *a)
{
    while (!p->status) {
        if (jinja_at(p, TOK_PIPE)) a = jinja_filter_chain(p, a, false);
        else if (jinja_at_name(p, "is")) a = test_node(p, a);
        else if (jinja_at(p, TOK_LPAREN)) a = call_node(p, a);
        else break;
    }
    return a;
}

/* ---- operators ---- */

static const jinja_node *unary(jinja_parser *p, bool filters)
{
    const jinja_node *a;
    bool minus = jinja_at(p, TOK_SUB), plus = jinja_at(p, TOK_ADD);
    if (!enter(p)) return jinja_new(p, NODE_CONST);
    if (minus || plus) {
        jinja_advance(p);
        a = unary_node(p, minus ? NODE_NEGATIVE : NODE_POSITIVE, unary(p, false));
    } else {
        a = primary(p);
    }
    a = jinja_postfix(p, a);
    p->nesting--;
    return filters ? filters_and_tests(p, a) : a;
}

/* Levels of binary operators, the tightest last; those of a level go from left to right. */
enum { LEVEL_SUM, LEVEL_CONCAT, LEVEL_PRODUCT, LEVEL_POWER };

static int operator_at(const jinja_parser *p, int level)
{
    switch (p->token.kind) {
    case TOK_ADD: return level == LEVEL_SUM ? NODE_ADD : -1;
    case TOK_SUB: return level == LEVEL_SUM ? NODE_SUB : -1;
    case TOK_TILDE: return level == LEVEL_CONCAT ? NODE_CONCAT : -1;
    case TOK_MUL: return level == LEVEL_PRODUCT ? NODE_MUL : -1;
    case TOK_DIV: return level == LEVEL_PRODUCT ? NODE_DIV : -1;
    case TOK_FLOORDIV: return level == LEVEL_PRODUCT ? NODE_FLOORDIV : -1;
    case TOK_MOD: return level == LEVEL_PRODUCT ? NODE_MOD : -1;
    case TOK_POW: return level == LEVEL_POWER ? NODE_POW : -1;
    default: return -1;
    }
}

static const jinja_node *arithmetic(jinja_parser *p, int level)
{
    if (level > LEVEL_POWER) return unary(p, true);
    const jinja_node *a = arithmetic(p, level + 1);
    jinja_node *concat = NULL;
    chain items = {0};
    for (int kind; !p->status && (kind = operator_at(p, level)) >= 0;) {
        uint32_t line = p->token.line;
        if (kind == NODE_CONCAT && !concat) { /* one node, however many strings: they are copied
                                                 once */
            concat = jinja_new(p, NODE_CONCAT);
            items = chain_of(concat);
            link_node(p, &items, a);
            a = concat;
        }
        jinja_advance(p);
        const jinja_node *b = arithmetic(p, level + 1);
        if (concat) link_node(p, &items, b);
        else a = binary_node(p, (jinja_node_kind)kind, line, a, b);
    }
    return a;
}

static int comparison_at(jinja_parser *p)
{
    switch (p->token.kind) {
    case TOK_EQ: return OP_EQ;
    case TOK_NE: return OP_NE;
    case TOK_LT: return OP_LT;
    case TOK_LE: return OP_LE;
    case TOK_GT: return OP_GT;
    case TOK_GE: return OP_GE;
    default: break;
    }
    if (jinja_at_name(p, "in")) return OP_IN;
    if (!jinja_at_name(p, "not")) return -1;
    const jinja_token *next = look_ahead(p);
    if (next->kind != TOK_NAME || !view_equal(next->text, VIEW("in"))) return -1;
    return OP_NOT_IN;
}

static const jinja_node *comparison(jinja_parser *p)
{
    const jinja_node *a = arithmetic(p, LEVEL_SUM);
    jinja_node *out = NULL;
    chain items = {0};
    for (int op; !p->status && (op = comparison_at(p)) >= 0;) {
        if (!out) {
            out = jinja_new(p, NODE_COMPARE);
            out->a = a;
            deepen(p, out, a);
            items = chain_of(out);
        }
        jinja_node *operand = jinja_new(p, NODE_OPERAND);
        operand->op = (uint8_t)op;
        jinja_advance(p);
        if (op == OP_NOT_IN) jinja_advance(p);
        operand->a = arithmetic(p, LEVEL_SUM);
        deepen(p, operand, operand->a);
        link_node(p, &items, operand);
    }
    return out ? out : a;
}

static const jinja_node *negation(jinja_parser *p)
{
    uint32_t n = 0;
    while (jinja_at_name(p, "not") && n < JINJA_NESTING_MAX) {
        jinja_advance(p);
        n++;
    }
    const jinja_node *a = comparison(p);
    for (; n; n--) a = unary_node(p, NODE_NOT, a);
    return a;
}

static const jinja_node *conjunction(jinja_parser *p)
{
    const jinja_node *a = negation(p);
    while (jinja_at_name(p, "and")) {
        uint32_t line = p->token.line;
        jinja_advance(p);
        a = binary_node(p, NODE_AND, line, a, negation(p));
    }
    return a;
}

static const jinja_node *disjunction(jinja_parser *p)
{
    if (!enter(p)) return jinja_new(p, NODE_CONST);
    const jinja_node *a = conjunction(p);
    while (jinja_at_name(p, "or")) {
        uint32_t line = p->token.line;
        jinja_advance(p);
        a = binary_node(p, NODE_OR, line, a, conjunction(p));
    }
    p->nesting--;
    return a;
}

const jinja_node *jinja_expression(jinja_parser *p)
{
    if (!enter(p)) return jinja_new(p, NODE_CONST);
    const jinja_node *a = disjunction(p);
    while (jinja_at_name(p, "if")) {
        jinja_node *out = jinja_new(p, NODE_CONDITION);
        jinja_advance(p);
        out->a = a;
        out->b = disjunction(p);
        if (jinja_at_name(p, "else")) {
            jinja_advance(p);
            out->c = jinja_expression(p);
        }
        deepen(p, out, out->a);
        deepen(p, out, out->b);
        deepen(p, out, out->c);
        a = out;
    }
    p->nesting--;
    return a;
}

static bool ends_tuple(const jinja_parser *p)
{
    switch (p->token.kind) {
    case TOK_END:
    case TOK_BLOCK_END:
    case TOK_PRINT_END:
    case TOK_RPAREN:
    case TOK_ASSIGN: return true;
    default: return jinja_at_name(p, "in") || jinja_at_name(p, "recursive");
    }
}

const jinja_node *jinja_tuple(jinja_parser *p, bool with_if)
{
    const jinja_node *a = with_if ? jinja_expression(p) : disjunction(p);
    if (!jinja_at(p, TOK_COMMA)) return a;
    jinja_node *out = jinja_new(p, NODE_TUPLE);
    chain items = chain_of(out);
    link_node(p, &items, a);
    while (jinja_at(p, TOK_COMMA)) {
        jinja_advance(p);
        if (ends_tuple(p)) break;
        link_node(p, &items, with_if ? jinja_expression(p) : disjunction(p));
    }
    return out;
}

/* ---- targets ---- */

static const jinja_node *one_target(jinja_parser *p, bool members)
{
    jinja_node *out = jinja_new(p, NODE_NAME);
    if (jinja_at(p, TOK_LPAREN) && enter(p)) {
        jinja_advance(p);
        const jinja_node *inner = jinja_target(p, members);
        jinja_expect(p, TOK_RPAREN);
        p->nesting--;
        return inner;
    }
    out->name = p->token.text;
    if (jinja_at(p, TOK_NAME)) out->symbol = jinja_symbol_of(p, p->token.text);
    jinja_expect(p, TOK_NAME);
    if (!members || !jinja_at(p, TOK_DOT)) return out;
    jinja_advance(p);
    out->kind = NODE_MEMBER;
    out->value = jinja_text(p->token.text, JINJA_TEMPLATE);
    jinja_expect(p, TOK_NAME);
    return out;
}

const jinja_node *jinja_target(jinja_parser *p, bool members)
{
    const jinja_node *a = one_target(p, members);
    if (!jinja_at(p, TOK_COMMA)) return a;
    jinja_node *out = jinja_new(p, NODE_TUPLE);
    chain items = chain_of(out);
    link_node(p, &items, a);
    while (jinja_at(p, TOK_COMMA)) {
        jinja_advance(p);
        if (ends_tuple(p)) break;
        link_node(p, &items, one_target(p, members));
    }
    return out;
}
