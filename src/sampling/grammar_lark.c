/* grammar_lark.c - Lark's notation (https://lark-parser.readthedocs.io/en/stable/grammar.html).
 *
 * Lark's syntax for trees (aliases, "?", "!", "_", priorities) does not affect which texts match
 * and is skipped.  Terminals are rules too: a text is in the grammar when any way to cut it into
 * terminals fits, though Lark's lexers would choose one.  Texts named by %ignore may occur before
 * the first terminal of the start rule and after each terminal.  A template is parsed again for
 * each list of arguments: its parameters are rules. */
#include "sampling/grammar_lark_parts.h"

#include "base/json.h"
#include "sampling/schema.h"

/* Lark's common.lark, as expressions. */
static const struct {
    const char *name, *regex;
} common[] = {
    {"DIGIT", "[0-9]"},
    {"HEXDIGIT", "[0-9a-fA-F]"},
    {"INT", "[0-9]+"},
    {"SIGNED_INT", "[+-]?[0-9]+"},
    {"DECIMAL", "[0-9]+\\.[0-9]*|\\.[0-9]+"},
    {"FLOAT", "[0-9]+[eE][+-]?[0-9]+|([0-9]+\\.[0-9]*|\\.[0-9]+)([eE][+-]?[0-9]+)?"},
    {"SIGNED_FLOAT", "[+-]?([0-9]+[eE][+-]?[0-9]+|([0-9]+\\.[0-9]*|\\.[0-9]+)([eE][+-]?[0-9]+)?)"},
    {"NUMBER", "[0-9]+([eE][+-]?[0-9]+)?|([0-9]+\\.[0-9]*|\\.[0-9]+)([eE][+-]?[0-9]+)?"},
    {"SIGNED_NUMBER",
     "[+-]?([0-9]+([eE][+-]?[0-9]+)?|([0-9]+\\.[0-9]*|\\.[0-9]+)([eE][+-]?[0-9]+)?)"},
    {"ESCAPED_STRING", "\"([^\"\\\\\\n]|\\\\.)*\""},
    {"LCASE_LETTER", "[a-z]"},
    {"UCASE_LETTER", "[A-Z]"},
    {"LETTER", "[A-Za-z]"},
    {"WORD", "[A-Za-z]+"},
    {"CNAME", "[A-Za-z_][A-Za-z_0-9]*"},
    {"WS_INLINE", "[ \\t]+"},
    {"WS", "[ \\t\\f\\r\\n]+"},
    {"CR", "\\r"},
    {"LF", "\\n"},
    {"NEWLINE", "(\\r?\\n)+"},
    {"SH_COMMENT", "#[^\\n]*"},
    {"CPP_COMMENT", "//[^\\n]*"},
    {"C_COMMENT", "/\\*([^*]|\\*+[^*/])*\\*+/"},
    {"SQL_COMMENT", "--[^\\n]*"},
};

/* ---- blanks ---- */

void lark_skip_blanks(lark *l, bool lines_too)
{
    for (notation *n = &l->n; notation_has(n);) {
        char c = notation_peek(n, 0);
        if (c == '#' || (c == '/' && notation_peek(n, 1) == '/')) {
            while (notation_has(n) && notation_peek(n, 0) != '\n') n->at++;
        } else if (c == ' ' || c == '\t' || c == '\r' || (lines_too && c == '\n')) {
            n->at++;
        } else {
            break;
        }
    }
}

/* At the end of a line: whether the next line continues with '|' or '->'; if so, move there. */
bool lark_continues(lark *l)
{
    size_t before = l->n.at;
    lark_skip_blanks(l, true);
    if (notation_peek(&l->n, 0) == '|') return true;
    l->n.at = before;
    return false;
}

/* ---- terms ---- */

/* In a rule, ignored text may follow a terminal. */
static uint32_t lark_terminal(lark *l, uint32_t e)
{
    if (l->in_terminal || l->ignored == GRAMMAR_NONE) return e;
    return EXPR_SEQ(l->n.b, e, expr_call(l->n.b, l->ignored));
}

static uint32_t lark_literal(lark *l, const bytes *text, bool ignores_case)
{
    notation *n = &l->n;
    if (!ignores_case) return expr_literal(n->b, (view){text->ptr, text->len}, l->form);
    bytes parts = {.max = 0};
    for (size_t i = 0; i < text->len; i++) {
        uint8_t c = (uint8_t)text->ptr[i], other = c ^ 32;
        bool is_letter = (c | 32) >= 'a' && (c | 32) <= 'z';
        uint32_t e = c < 0x80 ? expr_code_range(n->b, c, c, l->form) : expr_bytes(n->b, c, c);
        notation_keep(n, &parts, is_letter ? EXPR_ALT(n->b, e, expr_bytes(n->b, other, other)) : e);
    }
    return notation_join(n, &parts, false);
}

/* "a".."z", after the first text. */
static uint32_t lark_range(lark *l, const bytes *first)
{
    bytes last = {.max = GRAMMAR_TEXT_BYTES_MAX};
    uint32_t lo, hi, e = EXPR_NEVER;
    lark_skip_blanks(l, false);
    bool ok = notation_take(&l->n, "\"") && notation_quoted(&l->n, '"', &last);
    ok = ok && code_read((view){first->ptr, first->len}, &lo) == first->len && first->len &&
         code_read((view){last.ptr, last.len}, &hi) == last.len && last.len && lo <= hi;
    if (ok)
        e = expr_code_range(l->n.b, lo, hi, l->form);
    else
        notation_refuse(&l->n, "a range goes from one character to a later one");
    bytes_free(&last);
    return e;
}

static uint32_t lark_quoted(lark *l)
{
    bytes text = {.max = GRAMMAR_TEXT_BYTES_MAX};
    uint32_t e = EXPR_NEVER;
    if (notation_quoted(&l->n, '"', &text)) {
        if (notation_take(&l->n, ".."))
            e = lark_range(l, &text);
        else
            e = lark_literal(l, &text, notation_take(&l->n, "i"));
    }
    bytes_free(&text);
    return lark_terminal(l, e);
}

/* After the first '/'. */
static uint32_t lark_regexp(lark *l)
{
    notation *n = &l->n;
    regex_options o = {.form = l->form, .is_part = true};
    size_t from = n->at;
    bool in_class = false;
    char place[32];
    for (; notation_has(n) && notation_peek(n, 0) != '\n'; n->at++) {
        char c = notation_peek(n, 0);
        if (c == '\\' && n->at + 1 < n->text.len) {
            n->at++;
            continue;
        }
        if (c == '/' && !in_class) break;
        if (c == '[') in_class = true;
        if (c == ']') in_class = false;
    }
    if (notation_peek(n, 0) != '/')
        return notation_refuse(n, "an expression has no '/' at its end");
    view text = {n->text.ptr + from, n->at - from};
    uint32_t line = 1;
    for (size_t i = 0; i < from; i++) line += n->text.ptr[i] == '\n';
    for (n->at++; notation_has(n) && strchr("imslux", notation_peek(n, 0)); n->at++) {
        char c = notation_peek(n, 0);
        o.ignores_case |= c == 'i';
        o.dot_is_all |= c == 's';
        o.is_verbose |= c == 'x';
        if (c == 'l') return notation_refuse(n, "flag l (locale) is not supported");
    }
    snprintf(place, sizeof place, "line %u", line);
    return lark_terminal(l, expr_regex(n->b, text, o, place));
}

/* A value of JSON, to the brace that closes it; empty, and rejected: there is none. */
static view lark_braces(lark *l)
{
    notation *n = &l->n;
    uint32_t depth = 0;
    lark_skip_blanks(l, true);
    size_t from = n->at;
    for (bool in_text = false; notation_has(n); n->at++) {
        char c = notation_peek(n, 0);
        if (in_text && c == '\\') {
            n->at++;
        } else if (c == '"') {
            in_text = !in_text;
        } else if (!in_text && (c == '{' || c == '[')) {
            depth++;
        } else if (!in_text && (c == '}' || c == ']') && --depth == 0) {
            n->at++;
            break;
        }
        if (depth == 0) return notation_refuse(n, "JSON in braces was expected"), (view){0};
    }
    size_t end = n->at < n->text.len ? n->at : n->text.len;
    return (view){n->text.ptr + from, end - from};
}

/* After "%json": a schema. */
static uint32_t lark_json(lark *l)
{
    notation *n = &l->n;
    char place[32];
    uint32_t line = 1;
    if (l->form == CODES_JSON) return notation_refuse(n, "%json cannot be used within %string");
    for (size_t i = 0; i < n->at; i++) line += n->text.ptr[i] == '\n';
    view text = lark_braces(l);
    snprintf(place, sizeof place, "line %u: %%json ", line);
    return lark_terminal(l, expr_schema(n->b, text, place));
}

static uint32_t expr_lark_within(grammar_builder *b, view text, code_form form, uint32_t within);

/* After "%text" and "%string": {"syntax": "lark", "regex" or "gbnf", "grammar": "..."}. */
static uint32_t lark_nested(lark *l, code_form form)
{
    notation *n = &l->n;
    json_error_t error;
    if (form == l->form && form == CODES_JSON)
        return notation_refuse(n, "%string cannot be used within %string");
    if (l->form == CODES_JSON) form = CODES_JSON;
    view text = lark_braces(l);
    json_t *what = n->b->status ? NULL : json_read(text, 0, &error);
    const json_t *text_of = json_object_get(what, "grammar");
    const char *syntax = json_string_value(json_object_get(what, "syntax"));
    view inner = {json_string_value(text_of), json_string_length(text_of)};
    uint32_t e = EXPR_NEVER;
    if (!inner.ptr || !syntax)
        notation_refuse(n, "wants {\"syntax\": ..., \"grammar\": ...}");
    else if (!strcmp(syntax, "regex"))
        e = expr_regex(n->b, inner, (regex_options){.form = form}, "regex");
    else if (!strcmp(syntax, "lark"))
        e = expr_lark_within(n->b, inner, form, l->within + 1);
    else if (!strcmp(syntax, "gbnf") && form == CODES_RAW)
        e = expr_gbnf(n->b, inner);
    else
        notation_refuse(n, "a syntax is \"lark\", \"regex\" or, of a text, \"gbnf\"");
    json_decref(what);
    return lark_terminal(l, e);
}

/* After '<': a control token by its name. */
static uint32_t lark_control(lark *l)
{
    notation *n = &l->n;
    bytes name = {.max = 1024};
    uint32_t e = EXPR_NEVER;
    if (l->form == CODES_JSON) {
        notation_refuse(n, "a control token cannot be used within %string");
    } else if (notation_take(n, "\"")) {
        if (notation_quoted(n, '"', &name) && name.len && notation_take(n, ">"))
            e = expr_control(n->b, (view){name.ptr, name.len});
        else
            notation_refuse(n, "a control token is <\"NAME\">");
    } else if (notation_peek(n, 0) == '|') {
        size_t from = n->at - 1;
        while (notation_has(n) && notation_peek(n, 0) != '>' && notation_peek(n, 0) != '\n')
            n->at++;
        if (notation_take(n, ">"))
            e = expr_control(n->b, (view){n->text.ptr + from, n->at - from});
        else
            notation_refuse(n, "a control token is <|NAME|>");
    } else {
        notation_refuse(n, "a control token is <\"NAME\"> or <|NAME|>");
    }
    bytes_free(&name);
    return lark_terminal(l, e);
}

bool lark_is_terminal_name(view name)
{
    size_t i = 0;
    while (i < name.len && name.ptr[i] == '_') i++;
    return i < name.len && name.ptr[i] >= 'A' && name.ptr[i] <= 'Z';
}

static uint32_t lark_group(lark *l, const char *close)
{
    if (++l->n.depth > GRAMMAR_NESTING_MAX) return notation_refuse(&l->n, "nested too deep");
    uint32_t e = lark_expansions(l);
    l->n.depth--;
    lark_skip_blanks(l, true);
    return notation_take(&l->n, close) ? e : notation_refuse(&l->n, "a bracket is not closed");
}

static uint32_t lark_atom(lark *l)
{
    notation *n = &l->n;
    if (notation_take(n, "(")) return lark_group(l, ")");
    if (notation_take(n, "[")) return expr_repeat(n->b, lark_group(l, "]"), 0, 1);
    if (notation_take(n, "\"")) return lark_quoted(l);
    if (notation_take(n, "/")) return lark_regexp(l);
    if (notation_take(n, "%json")) return lark_json(l);
    if (notation_take(n, "%text")) return lark_nested(l, CODES_RAW);
    if (notation_take(n, "%string")) return lark_nested(l, CODES_JSON);
    if (notation_take(n, "<")) return lark_control(l);
    view name = notation_name(n, "");
    if (name.len == 0) return notation_refuse(n, "not a part of an expression");
    if (notation_take(n, "{")) return lark_template_use(l, name);
    for (uint32_t i = 0; l->of && i < l->of->n_parameters; i++)
        if (view_equal(l->of->parameters[i], name)) return expr_call(n->b, l->arguments[i]);
    notation_symbol *symbol = notation_symbol_of(n, name);
    if (!symbol) return EXPR_NEVER;
    uint32_t e = expr_call(n->b, symbol->rule);
    return lark_is_terminal_name(name) ? lark_terminal(l, e) : e;
}

static uint32_t lark_repeated(lark *l, uint32_t e)
{
    notation *n = &l->n;
    if (notation_take(n, "?")) return expr_repeat(n->b, e, 0, 1);
    if (notation_take(n, "*")) return expr_repeat(n->b, e, 0, GRAMMAR_NO_MAX);
    if (notation_take(n, "+")) return expr_repeat(n->b, e, 1, GRAMMAR_NO_MAX);
    size_t before = n->at;
    lark_skip_blanks(l, false);
    uint32_t min, max;
    if (!notation_take(n, "~")) {
        n->at = before;
        return e;
    }
    lark_skip_blanks(l, false);
    if (!notation_number(n, &min)) return notation_refuse(n, "~ wants a number");
    max = min;
    before = n->at;
    lark_skip_blanks(l, false);
    if (notation_take(n, "..")) {
        lark_skip_blanks(l, false);
        if (!notation_number(n, &max)) return notation_refuse(n, "~n.. wants a number");
    } else {
        n->at = before;
    }
    return max < min ? notation_refuse(n, "the minimum is above the maximum")
                     : expr_repeat(n->b, e, min, max);
}

/* Up to '|', a bracket that closes, an alias, or the end of the line (of all lines in brackets). */
static uint32_t lark_expansion(lark *l)
{
    notation *n = &l->n;
    bytes parts = {.max = 0};
    for (;;) {
        lark_skip_blanks(l, n->depth > 0);
        char c = notation_peek(n, 0);
        if (!notation_has(n) || strchr("|)]},\n", c)) break;
        if (c == '-' && notation_peek(n, 1) == '>') {
            n->at += 2;
            lark_skip_blanks(l, false);
            notation_name(n, "");
            lark_skip_blanks(l, n->depth > 0);
            break;
        }
        notation_keep(n, &parts, lark_repeated(l, lark_atom(l)));
    }
    return notation_join(n, &parts, false);
}

uint32_t lark_expansions(lark *l)
{
    bytes parts = {.max = 0};
    do notation_keep(&l->n, &parts, lark_expansion(l));
    while (lark_continues(l) && notation_take(&l->n, "|"));
    return notation_join(&l->n, &parts, true);
}

/* ---- statements ---- */

static void import_one(lark *l, view name, view as)
{
    char place[64];
    for (size_t i = 0; i < ARRAY_LEN(common); i++) {
        if (!view_equal(view_of(common[i].name), name)) continue;
        notation_symbol *symbol = notation_symbol_of(&l->n, as);
        snprintf(place, sizeof place, "common.%s", common[i].name);
        if (!symbol || symbol->is_said) return;
        symbol->is_said = true;
        rule_set(l->n.b, symbol->rule,
                 expr_regex(l->n.b, view_of(common[i].regex), (regex_options){.form = l->form},
                            place));
        return;
    }
    notation_refuse(&l->n, "Lark's common.lark has no such terminal");
}

/* After "%import". */
static void lark_import(lark *l)
{
    notation *n = &l->n;
    lark_skip_blanks(l, false);
    if (!notation_take(n, "common")) {
        notation_refuse(n, "only %import common is supported");
        return;
    }
    if (notation_take(n, ".")) {
        view name = notation_name(n, ""), as = name;
        lark_skip_blanks(l, false);
        if (notation_take(n, "->")) {
            lark_skip_blanks(l, false);
            as = notation_name(n, "");
        }
        import_one(l, name, as);
        return;
    }
    lark_skip_blanks(l, false);
    bool more = notation_take(n, "(");
    if (!more) notation_refuse(n, "%import common.NAME, or %import common (NAME, ...)");
    while (more && notation_has(n)) {
        lark_skip_blanks(l, true);
        view name = notation_name(n, "");
        import_one(l, name, name);
        lark_skip_blanks(l, true);
        more = notation_take(n, ",");
    }
    if (!notation_take(n, ")")) notation_refuse(n, "a list of names is not closed");
}

static void lark_definition(lark *l)
{
    notation *n = &l->n;
    while (notation_take(n, "?") || notation_take(n, "!")) continue;
    view name = notation_name(n, "");
    uint32_t priority;
    if (name.len == 0) {
        notation_refuse(n, "not a rule, a terminal or a known % statement");
        return;
    }
    if (notation_take(n, "{")) {
        lark_template_definition(l, name);
        return;
    }
    notation_symbol *symbol = notation_symbol_of(n, name);
    if (!symbol) return;
    if (notation_take(n, ".")) {
        notation_take(n, "-");
        notation_number(n, &priority);
    }
    lark_skip_blanks(l, true);
    if (symbol->is_said) notation_refuse(n, "a name that is defined already");
    if (!notation_take(n, ":")) notation_refuse(n, "':' is missing after a name");
    if (n->b->status) return;
    symbol->is_said = true;
    uint32_t rule = symbol->rule;
    l->in_terminal = lark_is_terminal_name(name);
    rule_set(n->b, rule, lark_expansions(l));
}

static void lark_statement(lark *l)
{
    notation *n = &l->n;
    if (notation_take(n, "%import")) {
        lark_import(l);
    } else if (notation_take(n, "%ignore")) {
        l->in_terminal = true;
        notation_keep(n, &l->ignores, lark_expansions(l));
    } else if (notation_take(n, "%extend")) {
        lark_redefinition(l, true);
    } else if (notation_take(n, "%override")) {
        lark_redefinition(l, false);
    } else if (notation_take(n, "%declare")) {
        lark_declaration(l);
    } else if (notation_peek(n, 0) == '%') {
        notation_refuse(n, "of statements %import, %ignore, %extend, %override and %declare are "
                           "supported");
    } else {
        lark_definition(l);
    }
    lark_skip_blanks(l, false);
    if (notation_has(n) && notation_peek(n, 0) != '\n')
        notation_refuse(n, "the end of the line was expected");
}

static bool has_ignores(view text)
{
    const view word = VIEW("%ignore");
    for (size_t i = 0; i + word.len <= text.len; i++)
        if (!memcmp(text.ptr + i, word.ptr, word.len)) return true;
    return false;
}

static uint32_t expr_lark_within(grammar_builder *b, view text, code_form form,
                                 uint32_t within)
{
    lark l = {.n = {.b = b, .text = text,
                    .symbols.max = GRAMMAR_RULES_MAX * sizeof(notation_symbol)},
              .form = form,
              .within = within,
              .ignored = GRAMMAR_NONE,
              .templates.max = GRAMMAR_RULES_MAX * sizeof(lark_template),
              .uses.max = (USES_MAX + 1) * sizeof(lark_use)};
    if (within > GRAMMAR_NESTING_MAX) return notation_refuse(&l.n, "nested too deep");
    if (has_ignores(text)) l.ignored = rule_new(b);
    notation_take(&l.n, "\xEF\xBB\xBF"); /* a byte-order mark */
    for (lark_skip_blanks(&l, true); notation_has(&l.n); lark_skip_blanks(&l, true))
        lark_statement(&l);
    lark_make_uses(&l);
    uint32_t e = notation_begin(&l.n, "start");
    if (l.ignored != GRAMMAR_NONE) {
        uint32_t any = expr_repeat(b, notation_join(&l.n, &l.ignores, true), 0, GRAMMAR_NO_MAX);
        rule_set(b, l.ignored, any);
        e = EXPR_SEQ(b, expr_call(b, l.ignored), e);
    }
    bytes_free(&l.n.symbols);
    bytes_free(&l.ignores);
    bytes_free(&l.templates);
    bytes_free(&l.uses);
    return e;
}

uint32_t expr_lark(grammar_builder *b, view text)
{
    return expr_lark_within(b, text, CODES_RAW, 0);
}
