/* solve_mutate.c - edits of a few tokens, without a model: similar operators, other numbers, names
 * of the same file, removed or swapped operands.  They repair most one-token bugs. */
#include "programs/solve_mutate.h"

enum { TOKENS_MAX = 1 << 14 /* of all spans */, NEAR_NAMES = 6, RANKS = 5 };

/* ---- edits, a class each: cheap and likely ones first ---- */

static const struct {
    const char *from, *to; /* "a b" */
} neighbours[] = {
    {"<", "<= > >= == !="},   {"<=", "< >= > == !="},  {">", ">= < <= == !="},
    {">=", "> <= < == !="},   {"==", "!= <= >= < >"},  {"!=", "== < > <= >="},
    {"===", "!== <= >="},     {"!==", "=== < >"},      {"+", "- * / //"},
    {"-", "+ * / %"},         {"*", "+ / // ** -"},    {"/", "// * % -"},
    {"//", "/ % *"},          {"%", "/ // * -"},       {"**", "* +"},
    {"&&", "||"},             {"||", "&& ??"},         {"&", "| ^ && <<"},
    {"|", "& ^ ||"},          {"^", "& |"},            {"<<", ">>"},
    {">>", "<<"},             {"+=", "-= *= = |="},    {"-=", "+= = *="},
    {"*=", "+= /= **="},      {"/=", "*= //= -="},     {"=", "+= -="},
    {"++", "--"},             {"--", "++"},            {"??", "|| &&"},
    {"%=", "/= //="},         {"//=", "/= %="},        {"|=", "&= ^= ="},
    {"&=", "|= ="},           {"^=", "|= &="},         {"<<=", ">>="},
    {">>=", "<<="},           {"and", "or"},           {"or", "and"},
    {"True", "False"},        {"False", "True"},       {"true", "false"},
    {"false", "true"},        {"None", "0 False True []"}, {"break", "continue pass"},
    {"continue", "break"},    {"min", "max sum"},      {"max", "min sum len"},
    {"any", "all"},           {"all", "any"},          {"list", "sorted set tuple reversed"},
    {"sorted", "list reversed set"}, {"reversed", "list sorted"}, {"set", "list sorted"},
    {"tuple", "list sorted"}, {"sum", "len max min"},  {"len", "sum max"},
    {"append", "extend insert add"}, {"extend", "append"}, {"add", "discard append"},
    {"pop", "shift popleft remove"}, {"shift", "pop"}, {"popleft", "pop"},
    {"push", "unshift"},      {"unshift", "push"},     {"appendleft", "append"},
    {"floor", "ceil round trunc"}, {"ceil", "floor round"}, {"round", "floor trunc ceil"},
    {"trunc", "floor round"}, {"upper", "lower title"}, {"lower", "upper"},
    {"startswith", "endswith"}, {"endswith", "startswith"}, {"startsWith", "endsWith includes"},
    {"endsWith", "startsWith"}, {"lstrip", "strip rstrip"}, {"rstrip", "strip lstrip"},
    {"strip", "rstrip lstrip"}, {"trimStart", "trim trimEnd"}, {"trimEnd", "trim trimStart"},
    {"keys", "values items"}, {"values", "keys items"}, {"items", "keys values"},
    {"find", "rfind index"},  {"rfind", "find"},       {"indexOf", "lastIndexOf"},
    {"lastIndexOf", "indexOf"}, {"union", "intersection difference"},
    {"intersection", "union"}, {"difference", "union intersection"}, {"some", "every"},
    {"every", "some"},        {"isdigit", "isalpha isalnum"}, {"isalpha", "isalnum isdigit"},
    {"isalnum", "isalpha"},   {"isupper", "islower"},  {"islower", "isupper"},
    {"split", "splitlines"},  {"concat", "push"},      {"slice", "splice"}, {"splice", "slice"},
    {"int", "float round"},   {"float", "int"},        {"toUpperCase", "toLowerCase"},
    {"toLowerCase", "toUpperCase"}, {"if", "while"},   {"while", "if"},
    {"in", "=="},             {"ValueError", "KeyError TypeError IndexError"},
    {"KeyError", "ValueError IndexError TypeError"}, {"IndexError", "KeyError ValueError"},
    {"TypeError", "ValueError"}, {"AttributeError", "KeyError TypeError"},
};

static int replace_token(mutator *m, uint32_t i, const char *with)
{
    return mutate_edit(m, m->tokens[i].begin, m->tokens[i].end, view_of(with));
}

/* The likeliest replacement of all tokens comes before the second of any. */
static int swap_words(mutator *m, uint32_t i)
{
    for (size_t k = 0; k < ARRAY_LEN(neighbours); k++) {
        if (!mutate_is(m, i, neighbours[k].from)) continue;
        const char *to = neighbours[k].to;
        for (uint32_t skip = m->rank; skip > 0 && *to; skip--) {
            to += strcspn(to, " ");
            to += *to == ' ';
        }
        if (!*to) continue;
        const view with = {to, strcspn(to, " ")};
        RETURN_IF(mutate_edit(m, m->tokens[i].begin, m->tokens[i].end, with));
    }
    if (m->rank > 0) return CERIUM_OK;
    if (mutate_is(m, i, "in") && !mutate_is(m, i - (i > 0), "for"))
        RETURN_IF(replace_token(m, i, "not in"));
    if (mutate_is(m, i, "is")) RETURN_IF(replace_token(m, i, "is not"));
    return CERIUM_OK;
}

static int shift_numbers(mutator *m, uint32_t i)
{
    static const int64_t shifts[] = {1, -1};
    char text[32];
    uint64_t value;
    if (m->tokens[i].kind != TOKEN_NUMBER) return CERIUM_OK;
    bool whole = parse_u64(mutate_token(m, i), &value) && value < INT64_MAX;
    for (size_t k = 0; k < ARRAY_LEN(shifts) && whole; k++) {
        snprintf(text, sizeof text, "%lld", (long long)value + shifts[k]);
        RETURN_IF(replace_token(m, i, text));
    }
    RETURN_IF(replace_token(m, i, "0"));
    RETURN_IF(replace_token(m, i, "1"));
    return replace_token(m, i, "2");
}

/* Plus one, minus one; add a sign or a negation, or remove it. */
static int add_signs(mutator *m, uint32_t i)
{
    static const char *const more[] = {" + 1", " - 1"};
    bool ends = mutate_is_operand(m, i) && m->tokens[i].kind != TOKEN_STRING;
    bool continues = mutate_is(m, i + 1, "(") || mutate_is(m, i + 1, ".") ||
                     mutate_is(m, i + 1, "=");
    for (size_t k = 0; k < ARRAY_LEN(more) && ends && !continues; k++)
        RETURN_IF(mutate_edit(m, m->tokens[i].end, m->tokens[i].end, view_of(more[k])));
    bool begins = mutate_is_operand(m, i) && !mutate_is_closer(m, i) &&
                  !(i > 0 && mutate_is(m, i - 1, "."));
    bool follows = i > 0 && mutate_is_operand(m, i - 1);
    if (begins && !follows)
        RETURN_IF(mutate_edit(m, m->tokens[i].begin, m->tokens[i].begin, VIEW("-")));
    bool is_not = mutate_is(m, i, "not") || mutate_is(m, i, "!");
    if (is_not && i + 1 < m->n)
        RETURN_IF(mutate_edit(m, m->tokens[i].begin, m->tokens[i + 1].begin, VIEW("")));
    if (mutate_is(m, i, "-") && !follows)
        RETURN_IF(mutate_edit(m, m->tokens[i].begin, m->tokens[i].end, VIEW("")));
    bool asks = mutate_is(m, i, "if") || mutate_is(m, i, "while") || mutate_is(m, i, "return") ||
                mutate_is(m, i, "and") || mutate_is(m, i, "or") || mutate_is(m, i, "elif");
    bool python = m->set->language == WIRE_PYTHON;
    if (python && asks && i + 1 < m->n)
        RETURN_IF(mutate_edit(m, m->tokens[i].end, m->tokens[i].end, VIEW(" not")));
    bool opens = mutate_is(m, i, "(") || mutate_is(m, i, "&&") || mutate_is(m, i, "||");
    if (!python && (opens || mutate_is(m, i, "return")) && mutate_is_operand(m, i + 1))
        RETURN_IF(mutate_edit(m, m->tokens[i + 1].begin, m->tokens[i + 1].begin, VIEW("!")));
    return CERIUM_OK;
}

/* A condition with one more part; a step of another width; a number from the file. */
static int add_parts(mutator *m, uint32_t i)
{
    static const char *const links[] = {" and ", " or ", " && ", " || "};
    const bool python = m->set->language == WIRE_PYTHON;
    bool asks = mutate_is(m, i, "if") || mutate_is(m, i, "elif") || mutate_is(m, i, "while");
    uint32_t first = python ? i + 1 : i + 2; /* after the bracket */
    for (uint32_t k = 0; asks && first < m->n && k < m->n_names && k < NEAR_NAMES; k++)
        for (int link = python ? 0 : 2; link < (python ? 2 : 4); link++) {
            const view parts[] = {m->names[k], view_of(links[link])};
            size_t at = m->tokens[first].begin;
            RETURN_IF(mutate_parts(m, at, at, parts, ARRAY_LEN(parts)));
        }
    bool steps = mutate_is(m, i, "++") || mutate_is(m, i, "--");
    for (uint32_t k = 0; steps && k < m->n_names && k < NEAR_NAMES; k++) {
        const view parts[] = {mutate_is(m, i, "++") ? VIEW(" += ") : VIEW(" -= "), m->names[k]};
        RETURN_IF(mutate_parts(m, m->tokens[i].begin, m->tokens[i].end, parts, ARRAY_LEN(parts)));
    }
    bool ends = mutate_is_operand(m, i) && !mutate_is(m, i + 1, "(") && !mutate_is(m, i + 1, ".");
    for (uint32_t k = 0; ends && k < m->n_numbers; k++) {
        const view more[] = {VIEW(" + "), m->numbers[k]}, less[] = {VIEW(" - "), m->numbers[k]};
        size_t at = m->tokens[i].end;
        RETURN_IF(mutate_parts(m, at, at, more, ARRAY_LEN(more)));
        RETURN_IF(mutate_parts(m, at, at, less, ARRAY_LEN(less)));
    }
    return CERIUM_OK;
}

static int other_names(mutator *m, uint32_t i)
{
    view now = mutate_token(m, i);
    if (m->tokens[i].kind != TOKEN_NAME || mutate_is_keyword(now)) return CERIUM_OK;
    for (uint32_t k = 0; k < m->n_names; k++)
        RETURN_IF(mutate_edit(m, m->tokens[i].begin, m->tokens[i].end, m->names[k]));
    return CERIUM_OK;
}

/* a op b: a, b, b op a. */
static int change_sides(mutator *m, uint32_t i)
{
    if (!mutate_is_binary(m, i)) return CERIUM_OK;
    uint32_t from = mutate_operand_begin(m, i), to = mutate_operand_end(m, i + 1);
    if (from == i || to == i + 1) return CERIUM_OK;
    size_t begin = m->tokens[from].begin, end = m->tokens[to - 1].end;
    const view left = mutate_span(m, from, i), right = mutate_span(m, i + 1, to);
    const view swapped[] = {right, VIEW(" "), mutate_token(m, i), VIEW(" "), left};
    RETURN_IF(mutate_edit(m, begin, end, left));
    RETURN_IF(mutate_edit(m, begin, end, right));
    return mutate_parts(m, begin, end, swapped, ARRAY_LEN(swapped));
}

/* f(a, b): f(b, a), f(a), f(b); f(a): a. */
static int change_arguments(mutator *m, uint32_t i)
{
    uint32_t end = mutate_after_bracket(m, i), commas[2] = {0}, n = 0, depth = 0;
    if (!mutate_is(m, i, "(") || end <= i + 2 || !mutate_is_closer(m, end - 1)) return CERIUM_OK;
    for (uint32_t k = i + 1; k + 1 < end; k++) {
        depth += mutate_is(m, k, "(") || mutate_is(m, k, "[") || mutate_is(m, k, "{");
        depth -= mutate_is_closer(m, k);
        if (depth == 0 && mutate_is(m, k, ",") && n < 2) commas[n++] = k;
    }
    size_t from = m->tokens[i + 1].begin, to = m->tokens[end - 2].end;
    bool called = i > 0 && m->tokens[i - 1].kind == TOKEN_NAME && mutate_is_operand(m, i - 1);
    if (n == 0 && called)
        return mutate_edit(m, m->tokens[i - 1].begin, m->tokens[end - 1].end,
                    mutate_span(m, i + 1, end - 1));
    if (n != 1) return CERIUM_OK;
    const view a = mutate_span(m, i + 1, commas[0]), b = mutate_span(m, commas[0] + 1, end - 1);
    const view swapped[] = {b, VIEW(", "), a};
    RETURN_IF(mutate_parts(m, from, to, swapped, ARRAY_LEN(swapped)));
    RETURN_IF(mutate_edit(m, from, to, a));
    return mutate_edit(m, from, to, b);
}

static const char *const wrappers[] = {"len", "sorted", "abs", "list", "set", "str", "int", "sum",
                                       "max", "min", "reversed"};
static const char *const wrappers_js[] = {"Math.floor", "Math.abs", "String", "Number",
                                          "Math.round"};

/* a: len(a) and the like; a[i]: a[i - 1] is among the numbers. */
static int wrap(mutator *m, uint32_t i)
{
    bool js = m->set->language == WIRE_JAVASCRIPT;
    const char *const *with = js ? wrappers_js : wrappers;
    size_t n = js ? ARRAY_LEN(wrappers_js) : ARRAY_LEN(wrappers);
    uint32_t end = mutate_operand_end(m, i);
    bool inner = i > 0 && (mutate_is(m, i - 1, ".") || mutate_is_operand(m, i - 1));
    if (m->set->language == WIRE_C || end == i || inner || m->tokens[i].kind != TOKEN_NAME)
        return CERIUM_OK;
    for (size_t k = 0; k < n; k++) {
        const view parts[] = {view_of(with[k]), VIEW("("), mutate_span(m, i, end), VIEW(")")};
        RETURN_IF(mutate_parts(m, m->tokens[i].begin, m->tokens[end - 1].end, parts, 4));
    }
    return CERIUM_OK;
}

/* [a:b] and the like: without an end, reversed. */
static int change_slices(mutator *m, uint32_t i)
{
    static const char *const others[] = {"[1:]", "[:-1]", "[::-1]", "[-1]", "[0]", "[:]"};
    bool subscript = mutate_is(m, i, "[") && i > 0 && mutate_is_operand(m, i - 1);
    uint32_t end = mutate_after_bracket(m, i);
    if (!subscript || end > m->n || !mutate_is_closer(m, end - 1)) return CERIUM_OK;
    for (size_t k = 0; k < ARRAY_LEN(others); k++)
        RETURN_IF(mutate_edit(m, m->tokens[i].begin, m->tokens[end - 1].end, view_of(others[k])));
    return mutate_edit(m, m->tokens[i].begin, m->tokens[end - 1].end, VIEW(""));
}

static int all_of(mutator *m, int (*one)(mutator *m, uint32_t i))
{
    for (uint32_t i = 0; i < m->n && m->n_left; i++) RETURN_IF(one(m, i));
    return CERIUM_OK;
}

/* ---- reading ---- */

static int read_tokens(mutator *m, const solve_span *spans, uint32_t n)
{
    m->n = 0;
    for (uint32_t i = 0; i < n; i++) {
        solve_token t; /* from the beginning: the place may come after a closing quote */
        for (size_t at = 0; solve_token_next(m->set->text, m->set->language, &at, &t);) {
            if (t.kind == TOKEN_BLANK || t.kind == TOKEN_COMMENT || t.kind == TOKEN_BREAK) continue;
            if (t.begin < spans[i].begin) continue;
            if (t.end > spans[i].end) break;
            if (m->n == TOKENS_MAX) return CERIUM_OK;
            m->tokens[m->n++] = t;
        }
    }
    return CERIUM_OK;
}

static void add_name(mutator *m, view name)
{
    for (uint32_t i = 0; i < m->n_names; i++)
        if (view_equal(m->names[i], name)) return;
    if (m->n_names < MUTATE_NAMES_MAX) m->names[m->n_names++] = name;
}

/* Other edits try 0, 1 and 2. */
static void add_number(mutator *m, view number)
{
    if (mutate_among(number, "0 1 2")) return;
    for (uint32_t i = 0; i < m->n_numbers; i++)
        if (view_equal(m->numbers[i], number)) return;
    if (m->n_numbers < ARRAY_LEN(m->numbers)) m->numbers[m->n_numbers++] = number;
}

/* Names of the lines around the place first: these are often in scope. */
static void read_names(mutator *m, size_t place)
{
    const view text = m->set->text;
    solve_token t;
    for (size_t reach = 400; reach < 1 << 14; reach *= 6) {
        size_t from = place > reach ? place - reach : 0;
        const view part = {text.ptr, place + reach / 2 < text.len ? place + reach / 2 : text.len};
        while (from > 0 && text.ptr[from - 1] != '\n') from--;
        for (size_t at = from; solve_token_next(part, m->set->language, &at, &t);) {
            view name = {text.ptr + t.begin, t.end - t.begin};
            if (t.kind == TOKEN_NAME && !mutate_is_keyword(name)) add_name(m, name);
            if (t.kind == TOKEN_NUMBER && name.len <= 8) add_number(m, name);
        }
    }
}

int solve_mutate(solve_set *s, const solve_span *spans, uint32_t n_spans, uint32_t n,
                 cerium_error *err)
{
    static int (*const classes[])(mutator *m, uint32_t i) = {
        shift_numbers, add_signs, change_sides, change_arguments, change_slices,
        other_names, add_parts, wrap};
    mutator m = {.set = s, .n_left = n, .err = err};
    int status = CERIUM_OK;
    if (n_spans == 0) return CERIUM_OK;
    m.tokens = memory_alloc(TOKENS_MAX * sizeof *m.tokens);
    if (!m.tokens) return error_set(err, CERIUM_ERR_MEMORY, "no memory for the tokens of a file");
    read_names(&m, spans[0].begin);
    bool empty = n_spans == 1 && spans[0].begin == spans[0].end;
    if (empty) {
        const solve_span whole = {0, s->text.len};
        status = read_tokens(&m, &whole, 1);
        if (!status) status = mutate_fill(&m, spans[0]);
    } else {
        status = read_tokens(&m, spans, n_spans);
        for (; m.rank < RANKS && !status; m.rank++) status = all_of(&m, swap_words);
        for (size_t i = 0; i < ARRAY_LEN(classes) && !status; i++) status = all_of(&m, classes[i]);
    }
    for (uint32_t i = 0; i < n_spans && !status && !empty; i++) /* remove the line */
        status = mutate_edit(&m, spans[i].begin, spans[i].end,
                      s->language == WIRE_PYTHON ? VIEW("pass") : VIEW(""));
    memory_free(m.tokens);
    return status;
}
