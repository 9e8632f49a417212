/* grammar_gbnf.c - llama.cpp's notation (its grammars/README.md). */
#include "sampling/grammar_lark.h"

static uint32_t gbnf_alternatives(notation *n);

static void gbnf_skip_blanks(notation *n, bool lines_too)
{
    while (notation_has(n)) {
        char c = notation_peek(n, 0);
        if (c == '#') {
            while (notation_has(n) && notation_peek(n, 0) != '\n') n->at++;
        } else if (c == ' ' || c == '\t' || ((c == '\r' || c == '\n') && lines_too)) {
            n->at++;
        } else {
            break;
        }
    }
}

/* Whether a rule begins here: NAME ::= */
static bool at_rule(notation *n)
{
    size_t before = n->at;
    bool is = notation_name(n, "-").len > 0;
    gbnf_skip_blanks(n, true);
    is = is && notation_take(n, "::=");
    n->at = before;
    return is;
}

/* After '['. */
static uint32_t class_(notation *n)
{
    code_set set = {.n = 0};
    bool inverted = notation_take(n, "^");
    while (notation_has(n) && notation_peek(n, 0) != ']') {
        uint32_t lo, hi;
        if (!notation_code(n, &lo)) return EXPR_NEVER;
        hi = lo;
        if (notation_peek(n, 0) == '-' && notation_peek(n, 1) != ']') {
            n->at++;
            if (!notation_code(n, &hi)) return EXPR_NEVER;
        }
        if (hi < lo) return notation_refuse(n, "a range ends before it begins");
        code_add(&set, lo, hi);
    }
    if (!notation_take(n, "]")) return notation_refuse(n, "a class has no ']'");
    if (inverted) code_invert(&set);
    code_sort(&set);
    return expr_codes(n->b, &set, CODES_RAW);
}

static uint32_t gbnf_atom(notation *n)
{
    if (notation_take(n, "\"")) {
        bytes text = {.max = GRAMMAR_TEXT_BYTES_MAX};
        uint32_t e = EXPR_NEVER;
        if (notation_quoted(n, '"', &text)) e = expr_text(n->b, (view){text.ptr, text.len});
        bytes_free(&text);
        return e;
    }
    if (notation_take(n, "[")) return class_(n);
    if (notation_take(n, ".")) return expr_code_range(n->b, 0, CODE_MAX, CODES_RAW);
    if (notation_take(n, "(")) {
        if (++n->depth > GRAMMAR_NESTING_MAX) return notation_refuse(n, "nested too deep");
        uint32_t e = gbnf_alternatives(n);
        n->depth--;
        return notation_take(n, ")") ? e : notation_refuse(n, "a bracket is not closed");
    }
    view name = notation_name(n, "-");
    if (name.len == 0) return notation_refuse(n, "not a part of an expression");
    notation_symbol *symbol = notation_symbol_of(n, name);
    return symbol ? expr_call(n->b, symbol->rule) : EXPR_NEVER;
}

static uint32_t gbnf_bounds(notation *n, uint32_t e)
{
    uint32_t min = 0, max;
    gbnf_skip_blanks(n, true);
    notation_number(n, &min);
    max = min;
    gbnf_skip_blanks(n, true);
    if (notation_take(n, ",")) {
        gbnf_skip_blanks(n, true);
        if (!notation_number(n, &max)) max = GRAMMAR_NO_MAX;
        gbnf_skip_blanks(n, true);
    }
    if (!notation_take(n, "}")) return notation_refuse(n, "a repetition is {n}, {n,} or {n,m}");
    return max < min ? notation_refuse(n, "the minimum is above the maximum")
                     : expr_repeat(n->b, e, min, max);
}

static uint32_t gbnf_sequence(notation *n)
{
    bytes parts = {.max = 0};
    for (;;) {
        gbnf_skip_blanks(n, true);
        char c = notation_peek(n, 0);
        if (!notation_has(n) || c == '|' || c == ')' || at_rule(n)) break;
        uint32_t e = gbnf_atom(n);
        for (bool more = true; more && notation_has(n);) {
            gbnf_skip_blanks(n, false);
            if (notation_take(n, "*"))
                e = expr_repeat(n->b, e, 0, GRAMMAR_NO_MAX);
            else if (notation_take(n, "+"))
                e = expr_repeat(n->b, e, 1, GRAMMAR_NO_MAX);
            else if (notation_take(n, "?"))
                e = expr_repeat(n->b, e, 0, 1);
            else if (notation_take(n, "{"))
                e = gbnf_bounds(n, e);
            else
                more = false;
        }
        notation_keep(n, &parts, e);
    }
    return notation_join(n, &parts, false);
}

static uint32_t gbnf_alternatives(notation *n)
{
    bytes parts = {.max = 0};
    do notation_keep(n, &parts, gbnf_sequence(n));
    while (notation_take(n, "|"));
    return notation_join(n, &parts, true);
}

uint32_t expr_gbnf(grammar_builder *b, view text)
{
    notation n = {.b = b, .text = text, .symbols.max = GRAMMAR_RULES_MAX * sizeof(notation_symbol)};
    for (gbnf_skip_blanks(&n, true); notation_has(&n); gbnf_skip_blanks(&n, true)) {
        if (!at_rule(&n)) {
            notation_refuse(&n, "a rule is NAME ::= ...");
            break;
        }
        notation_symbol *symbol = notation_symbol_of(&n, notation_name(&n, "-"));
        if (!symbol) break;
        if (symbol->is_said) notation_refuse(&n, "a name that is defined already");
        symbol->is_said = true;
        uint32_t rule = symbol->rule;
        gbnf_skip_blanks(&n, true);
        notation_take(&n, "::=");
        rule_set(b, rule, gbnf_alternatives(&n));
    }
    uint32_t e = notation_begin(&n, "root");
    bytes_free(&n.symbols);
    return e;
}
