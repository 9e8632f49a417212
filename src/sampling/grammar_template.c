/* grammar_template.c - templates of Lark's notation: their texts, and the rules of their uses.
 *
 * A use is identified by its template and the rules of its arguments. So a template that uses
 * itself with the same arguments becomes a recursive rule. */
#include "sampling/grammar_lark_parts.h"

/* The rule of an argument: for a name its own, so that equal uses are found equal. */
static uint32_t template_argument(lark *l)
{
    notation *n = &l->n;
    size_t from = n->at;
    view name = notation_name(n, "");
    lark_skip_blanks(l, true);
    bool is_name = name.len && (notation_peek(n, 0) == ',' || notation_peek(n, 0) == '}');
    n->at = is_name ? n->at : from;
    for (uint32_t i = 0; is_name && l->of && i < l->of->n_parameters; i++)
        if (view_equal(l->of->parameters[i], name)) return l->arguments[i];
    if (is_name && !lark_is_terminal_name(name)) {
        notation_symbol *symbol = notation_symbol_of(n, name);
        return symbol ? symbol->rule : GRAMMAR_NONE;
    }
    n->at = from;
    uint32_t e = lark_expansions(l), rule = rule_new(n->b);
    rule_set(n->b, rule, e);
    return rule;
}

/* The rule of a template with these arguments, which is made once all templates are known. */
static uint32_t rule_of_use(lark *l, const lark_use *use)
{
    lark_use *uses = (lark_use *)l->uses.ptr;
    size_t n = l->uses.len / sizeof *uses;
    for (size_t i = 0; i < n; i++)
        if (view_equal(uses[i].name, use->name) && uses[i].n_arguments == use->n_arguments &&
            !memcmp(uses[i].arguments, use->arguments, use->n_arguments * sizeof(uint32_t)))
            return uses[i].rule;
    if (n == USES_MAX) notation_refuse(&l->n, "templates are used with too many arguments");
    if (!builder_work(l->n.b, n)) return 0;
    uint32_t rule = rule_new(l->n.b);
    lark_use *to = builder_add(l->n.b, &l->uses, sizeof *to);
    if (to) *to = *use, to->rule = rule;
    return rule;
}

/* After a template's name and '{'. */
uint32_t lark_template_use(lark *l, view name)
{
    notation *n = &l->n;
    lark_use use = {.name = name, .at = n->at};
    if (++n->depth > GRAMMAR_NESTING_MAX) return notation_refuse(n, "nested too deep");
    do {
        lark_skip_blanks(l, true);
        if (use.n_arguments == PARAMETERS_MAX)
            return notation_refuse(n, "a template has 16 arguments at most");
        use.arguments[use.n_arguments++] = template_argument(l);
        lark_skip_blanks(l, true);
    } while (notation_take(n, ","));
    n->depth--;
    if (!notation_take(n, "}")) return notation_refuse(n, "a list of arguments is not closed");
    return expr_call(n->b, rule_of_use(l, &use));
}

/* Skip the contents of a quote, or of an expression. */
static void skip_quoted(notation *n, char quote)
{
    bool in_class = false;
    for (n->at++; notation_has(n) && notation_peek(n, 0) != '\n'; n->at++) {
        char c = notation_peek(n, 0);
        if (c == quote && !in_class) break;
        if (c == '\\') n->at++;
        if (quote == '/' && c == '[') in_class = true;
        if (c == ']') in_class = false;
    }
    if (notation_has(n) && notation_peek(n, 0) == quote) n->at++;
}

/* After the ':' of a template: to the end of its text. */
static void skip_text(lark *l)
{
    notation *n = &l->n;
    for (uint32_t depth = 0; notation_has(n);) {
        lark_skip_blanks(l, depth > 0);
        char c = notation_peek(n, 0);
        if (c == '\n' && !lark_continues(l)) return;
        if (c == '\n') continue;
        if (c == '"' || c == '/') {
            skip_quoted(n, c);
            continue;
        }
        if (c == '(' || c == '[') depth++;
        if ((c == ')' || c == ']') && depth) depth--;
        if (notation_has(n)) n->at++;
    }
}

/* After the name and '{' of a definition. */
void lark_template_definition(lark *l, view name)
{
    notation *n = &l->n;
    lark_template made = {.name = name};
    uint32_t priority;
    do {
        lark_skip_blanks(l, true);
        view parameter = notation_name(n, "");
        if (parameter.len == 0 || made.n_parameters == PARAMETERS_MAX) {
            notation_refuse(n, "a template has 1 to 16 names as its parameters");
            return;
        }
        made.parameters[made.n_parameters++] = parameter;
        lark_skip_blanks(l, true);
    } while (notation_take(n, ","));
    if (!notation_take(n, "}")) notation_refuse(n, "a list of parameters is not closed");
    if (notation_take(n, ".")) notation_number(n, &priority);
    lark_skip_blanks(l, true);
    if (!notation_take(n, ":")) notation_refuse(n, "':' is missing after a name");
    made.at = n->at;
    lark_template *to = builder_add(n->b, &l->templates, sizeof *to);
    if (to) *to = made;
    skip_text(l);
}

static void make_use(lark *l, const lark_use *use)
{
    const lark_template *of = (const lark_template *)l->templates.ptr;
    size_t n = l->templates.len / sizeof *of, i = 0;
    while (i < n && !view_equal(of[i].name, use->name)) i++;
    l->n.at = use->at;
    if (i == n) {
        notation_refuse(&l->n, "a template that nothing defines");
    } else if (of[i].n_parameters != use->n_arguments) {
        notation_refuse(&l->n, "a template with another count of arguments");
    } else {
        l->of = &of[i];
        l->arguments = use->arguments;
        l->n.at = of[i].at;
        l->in_terminal = false;
        rule_set(l->n.b, use->rule, lark_expansions(l));
        l->of = NULL;
    }
}

void lark_make_uses(lark *l)
{
    for (size_t i = 0; i < l->uses.len / sizeof(lark_use) && !l->n.b->status; i++) {
        lark_use use = ((const lark_use *)l->uses.ptr)[i]; /* the list grows meanwhile */
        make_use(l, &use);
    }
}
