/* grammar_lark_change.c - statements of Lark's notation about names that are defined elsewhere. */
#include "sampling/grammar_build.h"
#include "sampling/grammar_lark_parts.h"

void lark_redefinition(lark *l, bool is_more)
{
    notation *n = &l->n;
    lark_skip_blanks(l, false);
    while (notation_take(n, "?") || notation_take(n, "!")) continue;
    view name = notation_name(n, "");
    notation_symbol *symbol = name.len ? notation_symbol_of(n, name) : NULL;
    if (!symbol || !symbol->is_said) {
        notation_refuse(n, "%extend and %override change a name that is defined before");
        return;
    }
    const uint32_t rule = symbol->rule;
    lark_skip_blanks(l, true);
    if (!notation_take(n, ":")) notation_refuse(n, "':' is missing after a name");
    l->in_terminal = lark_is_terminal_name(name);
    uint32_t e = lark_expansions(l);
    if (n->b->status) return;
    if (is_more) {
        const uint32_t before = rule_new(n->b);
        if (n->b->status) return;
        rule_set(n->b, before, rule_expr(n->b, rule));
        e = EXPR_ALT(n->b, expr_call(n->b, before), e);
    }
    rule_set(n->b, rule, e);
}

void lark_declaration(lark *l)
{
    do lark_skip_blanks(l, false);
    while (notation_name(&l->n, "").len);
}
