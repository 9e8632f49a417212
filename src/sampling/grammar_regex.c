/* grammar_regex.c - regular expressions, as sets of texts: the common part of Rust, Python and
 * ECMAScript.
 *
 * Classes are those of ECMAScript: \d and \w are ASCII.  Groups capture nothing, and lazy
 * repetitions are like others: the set of texts is the same.  Assertions are regular (see
 * grammar_around.h); backreferences are not, and are rejected. */
#include "sampling/grammar_around.h"

typedef struct {
    grammar_builder *b;
    const char *place;
    view text;
    size_t at;
    regex_options o;
    uint32_t depth;
    around around; /* places between characters */
} regex;

static uint32_t regex_alternatives(regex *r, bool is_top);

static uint32_t regex_refuse(regex *r, const char *what)
{
    size_t from = r->at > 10 ? r->at - 10 : 0, n = r->text.len - from;
    builder_fail(r->b, CERIUM_ERR_FORMAT, "%s: %s, at byte %zu, near '%.*s'", r->place, what, r->at,
                 (int)(n < 24 ? n : 24), r->text.ptr + from);
    return EXPR_NEVER;
}

static bool regex_has(const regex *r)
{
    return r->at < r->text.len && !r->b->status;
}

static char regex_peek(const regex *r, size_t ahead)
{
    return r->at + ahead < r->text.len ? r->text.ptr[r->at + ahead] : '\0';
}

static bool regex_take(regex *r, const char *what)
{
    view w = view_of(what), rest = {r->text.ptr + r->at, r->text.len - r->at};
    if (r->b->status || !view_starts(rest, w)) return false;
    r->at += w.len;
    return true;
}

static bool regex_skip_blanks(regex *r)
{
    size_t before = r->at;
    while (r->o.is_verbose && regex_has(r)) {
        if (strchr(" \t\r\n\f\v", regex_peek(r, 0)) && regex_peek(r, 0)) {
            r->at++;
        } else if (regex_peek(r, 0) == '#') {
            while (regex_has(r) && regex_peek(r, 0) != '\n') r->at++;
        } else {
            break;
        }
    }
    return r->at > before;
}

/* ---- classes ---- */

static void add_named(code_set *set, char name)
{
    static const uint32_t spaces[][2] = {
        {9, 13},          {32, 32},         {0xa0, 0xa0},     {0x1680, 0x1680}, {0x2000, 0x200a},
        {0x2028, 0x2029}, {0x202f, 0x202f}, {0x205f, 0x205f}, {0x3000, 0x3000}, {0xfeff, 0xfeff}};
    code_set named = {.n = 0};
    char lower = (char)(name | 32);
    if (lower == 's')
        for (size_t i = 0; i < ARRAY_LEN(spaces); i++) code_add(&named, spaces[i][0], spaces[i][1]);
    if (lower != 's') code_add(&named, '0', '9');
    if (lower == 'w') {
        code_add(&named, 'a', 'z');
        code_add(&named, 'A', 'Z');
        code_add(&named, '_', '_');
    }
    if (name != lower) code_invert(&named);
    code_add_set(set, &named);
}

/* n hexadecimal digits, or as many as there are before '}'. */
static bool regex_read_hex(regex *r, size_t n, uint32_t *code)
{
    bool braced = regex_take(r, "{");
    uint32_t value = 0;
    size_t i = 0;
    for (; braced ? regex_peek(r, 0) != '}' : i < n; i++) {
        char c = regex_peek(r, 0);
        int digit = c >= '0' && c <= '9'                 ? c - '0'
                    : (c | 32) >= 'a' && (c | 32) <= 'f' ? (c | 32) - 'a' + 10
                                                         : -1;
        if (digit < 0 || i == 6) return regex_refuse(r, "hexadecimal digits are missing"), false;
        value = value << 4 | (uint32_t)digit;
        r->at++;
    }
    if (braced) r->at++;
    if (i == 0 || value > CODE_MAX || (value >= 0xd800 && value <= 0xdfff))
        return regex_refuse(r, "not a character"), false;
    *code = value;
    return true;
}

/* After \p or \P: "{Name}", "{^Name}", or one letter. */
static void read_property(regex *r, bool is_not, code_set *set)
{
    size_t from = r->at, n = 1;
    if (regex_take(r, "{")) {
        from++;
        while (regex_has(r) && regex_peek(r, 0) != '}') r->at++;
        n = r->at - from;
        if (!regex_take(r, "}")) {
            regex_refuse(r, "a property has no '}'");
            return;
        }
    } else if (regex_has(r)) {
        r->at++;
    }
    view name = {r->text.ptr + from, from + n <= r->text.len ? n : 0};
    if (name.len && name.ptr[0] == '^') name = (view){name.ptr + 1, name.len - 1}, is_not = !is_not;
    if (!code_add_property(r->b, set, name, is_not))
        regex_refuse(r, "Unicode has no such property");
}

/* After a backslash: one character, or a class that is added to *set (false). */
static bool read_escape(regex *r, bool in_class, uint32_t *code, code_set *set)
{
    char c = regex_peek(r, 0);
    static const char from[] = "tnrfvae", to[] = "\t\n\r\f\v\a\033";
    if (!regex_has(r)) return regex_refuse(r, "ends with a backslash"), false;
    if (strchr("dDwWsS", c)) {
        r->at++;
        add_named(set, c);
        return false;
    }
    const char *known = strchr(from, c);
    r->at++;
    if (known) return *code = (uint32_t)to[known - from], true;
    if (c == 'x') return regex_read_hex(r, 2, code);
    if (c == 'u') return regex_read_hex(r, 4, code);
    if (c == 'b' && in_class) return *code = '\b', true;
    if (c == '0' && !(regex_peek(r, 0) >= '0' && regex_peek(r, 0) <= '9')) return *code = 0, true;
    if ((c >= '0' && c <= '9') || c == 'k')
        return regex_refuse(r, "backreferences are not regular"), false;
    if (c == 'p' || c == 'P') return read_property(r, c == 'P', set), false;
    if (c == 'c' && ((regex_peek(r, 0) | 32) >= 'a' && (regex_peek(r, 0) | 32) <= 'z'))
        return *code = (uint32_t)(r->text.ptr[r->at++] & 31), true;
    if ((c | 32) >= 'a' && (c | 32) <= 'z')
        return regex_refuse(r, "this escape is not supported"), false;
    r->at--;
    size_t n = code_read((view){r->text.ptr + r->at, r->text.len - r->at}, code);
    r->at += n;
    return n ? true : (regex_refuse(r, "not UTF-8"), false);
}

static bool read_code(regex *r, uint32_t *code)
{
    size_t n = code_read((view){r->text.ptr + r->at, r->text.len - r->at}, code);
    r->at += n;
    return n ? true : (regex_refuse(r, "not UTF-8"), false);
}

/* Classes such as [:alpha:]; at "[:". */
static void read_posix(regex *r, code_set *set)
{
    static const struct {
        const char *name, *ranges; /* pairs of ends */
    } known[] = {
        {"[:alpha:]", "azAZ"},     {"[:digit:]", "09"},      {"[:alnum:]", "azAZ09"},
        {"[:upper:]", "AZ"},       {"[:lower:]", "az"},      {"[:space:]", "\t\r  "},
        {"[:punct:]", "!/:@[`{~"}, {"[:xdigit:]", "09afAF"}, {"[:word:]", "azAZ09__"},
    };
    for (size_t i = 0; i < ARRAY_LEN(known); i++) {
        if (!regex_take(r, known[i].name)) continue;
        for (const char *c = known[i].ranges; *c; c += 2)
            code_add(set, (uint8_t)c[0], (uint8_t)c[1]);
        return;
    }
    regex_refuse(r, "this named class is not known");
}

/* One end of a range; false: it was a whole class, or an error. */
static bool read_member(regex *r, uint32_t *code, code_set *set)
{
    if (regex_peek(r, 0) == '[' && regex_peek(r, 1) == ':') return read_posix(r, set), false;
    if (regex_take(r, "\\")) return read_escape(r, true, code, set);
    return read_code(r, code);
}

/* After '['. */
static uint32_t read_class(regex *r)
{
    code_set set = {.n = 0};
    bool inverted = regex_take(r, "^");
    for (bool first = true; regex_has(r) && (first || regex_peek(r, 0) != ']'); first = false) {
        uint32_t lo, hi;
        if (first && regex_peek(r, 0) == ']' && r->o.form == CODES_JSON)
            break; /* ECMAScript's [] */
        if (regex_peek(r, 0) == '&' && regex_peek(r, 1) == '&')
            return regex_refuse(r, "operations on classes are not supported");
        if (!read_member(r, &lo, &set)) continue;
        hi = lo;
        if (regex_peek(r, 0) == '-' && regex_peek(r, 1) != ']' && regex_peek(r, 1)) {
            code_set none = {.n = 0};
            r->at++;
            if (!read_member(r, &hi, &none)) return regex_refuse(r, "a range has no end");
            if (hi < lo) return regex_refuse(r, "a range ends before it begins");
        }
        code_add(&set, lo, hi);
    }
    if (!regex_take(r, "]")) return regex_refuse(r, "a class has no ']'");
    if (r->o.ignores_case) code_fold_all(r->b, &set);
    if (inverted) code_invert(&set);
    code_sort(&set);
    return expr_codes(r->b, &set, r->o.form);
}

/* ---- terms ---- */

static uint32_t one_of(regex *r, code_set *set)
{
    if (r->o.ignores_case) code_fold_all(r->b, set);
    code_sort(set);
    return expr_codes(r->b, set, r->o.form);
}

static uint32_t any_code(regex *r, bool with_newline)
{
    code_set set = {.n = 0};
    if (!with_newline) code_add(&set, '\n', '\n');
    code_invert(&set);
    return expr_codes(r->b, &set, r->o.form);
}

/* Flags after "(?": "i)" holds to the end of the group, "i:" begins one.  *is_group says which. */
static bool read_flags(regex *r, bool *is_group)
{
    for (bool on = true; regex_has(r); r->at++) {
        char c = regex_peek(r, 0);
        if (c == '-')
            on = false;
        else if (c == 'i')
            r->o.ignores_case = on;
        else if (c == 's')
            r->o.dot_is_all = on;
        else if (c == 'x')
            r->o.is_verbose = on;
        else if (c == 'm')
            r->o.is_lines = on;
        else if (c != 'u' && c != 'a')
            break; /* characters are Unicode's, classes ASCII's */
    }
    *is_group = regex_peek(r, 0) == ':';
    if (regex_take(r, ":") || regex_take(r, ")")) return true;
    return regex_refuse(r, "this flag is not supported"), false;
}

static bool skip_to(regex *r, const char *end)
{
    while (regex_has(r) && regex_peek(r, 0) != end[0]) r->at++;
    return regex_take(r, end);
}

static uint32_t regex_too_many(regex *r)
{
    builder_fail(r->b, CERIUM_ERR_CAPACITY, "%s: it looks around at more than %d places", r->place,
                 MARKS_MAX);
    return EXPR_NEVER;
}

static uint32_t at_place(regex *r, around_place place, bool is_line)
{
    if (r->o.is_part)
        return regex_refuse(r, "a terminal may only have ^ and $, at its ends: the text "
                               "around it is unknown");
    uint32_t e = around_at(&r->around, place, is_line);
    return e == GRAMMAR_NONE ? regex_too_many(r) : e;
}

/* After "(?=" and similar. */
static uint32_t read_look(regex *r, bool is_ahead, bool is_not)
{
    regex_options outside = r->o;
    if (r->o.is_part) return at_place(r, PLACE_WORD, false);
    uint32_t begun = around_begin(&r->around);
    if (begun == GRAMMAR_NONE) return regex_too_many(r);
    uint32_t e = regex_alternatives(r, false);
    r->depth--;
    r->o = outside;
    if (!regex_take(r, ")")) return regex_refuse(r, "a group has no ')'");
    return around_look(&r->around, begun, e, is_ahead, is_not);
}

/* After '('. */
static uint32_t read_group(regex *r)
{
    regex_options outside = r->o;
    bool is_group = true;
    if (++r->depth > GRAMMAR_NESTING_MAX) return regex_refuse(r, "nested too deep");
    if (regex_take(r, "?:")) {
    } else if (regex_take(r, "?=")) {
        return read_look(r, true, false);
    } else if (regex_take(r, "?!")) {
        return read_look(r, true, true);
    } else if (regex_take(r, "?<=")) {
        return read_look(r, false, false);
    } else if (regex_take(r, "?<!")) {
        return read_look(r, false, true);
    } else if (regex_take(r, "?#")) {
        r->depth--;
        return skip_to(r, ")") ? EXPR_EMPTY : regex_refuse(r, "a comment has no ')'");
    } else if (regex_take(r, "?P<") || regex_take(r, "?<")) {
        if (!skip_to(r, ">")) return regex_refuse(r, "a group's name has no '>'");
    } else if (regex_take(r, "?'")) {
        if (!skip_to(r, "'")) return regex_refuse(r, "a group's name has no end");
    } else if (regex_take(r, "?")) {
        if (!read_flags(r, &is_group)) return EXPR_NEVER;
    }
    r->depth -= !is_group;
    if (!is_group) return EXPR_EMPTY;
    uint32_t e = regex_alternatives(r, false);
    r->depth--;
    r->o = outside;
    return regex_take(r, ")") ? e : regex_refuse(r, "a group has no ')'");
}

/* An assertion; GRAMMAR_NONE: there is none here. */
static uint32_t read_place(regex *r)
{
    static const struct {
        const char *text;
        around_place place;
        bool may_be_line;
    } places[] = {
        {"^", PLACE_BEGIN, true},    {"$", PLACE_END, true},      {"\\A", PLACE_BEGIN, false},
        {"\\Z", PLACE_END, false},   {"\\z", PLACE_END, false},   {"\\b", PLACE_WORD, false},
        {"\\B", PLACE_INNER, false},
    };
    for (size_t i = 0; i < ARRAY_LEN(places); i++)
        if (regex_take(r, places[i].text))
            return at_place(r, places[i].place, places[i].may_be_line && r->o.is_lines);
    return GRAMMAR_NONE;
}

/* One character or class. Separate from read_atom(), which recurses, because its sets are large. */
static __attribute__((noinline)) uint32_t regex_read_one(regex *r)
{
    uint32_t code;
    code_set set = {.n = 0};
    if (regex_take(r, "[")) return read_class(r);
    if (regex_take(r, ".")) return any_code(r, r->o.dot_is_all);
    if (regex_peek(r, 0) == '*' || regex_peek(r, 0) == '+' || regex_peek(r, 0) == '?')
        return regex_refuse(r, "nothing to repeat");
    if (regex_take(r, "\\")) {
        if (read_escape(r, false, &code, &set)) code_add(&set, code, code);
        return r->b->status ? EXPR_NEVER : one_of(r, &set);
    }
    if (!read_code(r, &code)) return EXPR_NEVER;
    code_add(&set, code, code);
    return one_of(r, &set);
}

static uint32_t read_atom(regex *r)
{
    if (regex_take(r, "(")) return read_group(r);
    uint32_t place = read_place(r);
    return place == GRAMMAR_NONE ? regex_read_one(r) : place;
}

static bool regex_read_number(regex *r, uint32_t *n)
{
    size_t from = r->at;
    uint64_t value = 0;
    for (; regex_peek(r, 0) >= '0' && regex_peek(r, 0) <= '9'; r->at++)
        if (value <= GRAMMAR_REPEAT_MAX) value = 10 * value + (uint64_t)(regex_peek(r, 0) - '0');
    *n = (uint32_t)value;
    return r->at > from;
}

/* "{n}", "{n,}", "{n,m}" at the place; anything else is text. */
static bool read_bounds(regex *r, uint32_t *min, uint32_t *max)
{
    size_t from = r->at;
    if (!regex_take(r, "{")) return false;
    bool is = regex_read_number(r, min);
    *max = *min;
    if (is && regex_take(r, ",") && !regex_read_number(r, max)) *max = GRAMMAR_NO_MAX;
    if (is && regex_take(r, "}")) return true;
    r->at = from;
    return false;
}

static uint32_t regex_repeated(regex *r, uint32_t atom)
{
    for (bool again = false; regex_has(r); again = true) {
        uint32_t min = 0, max = GRAMMAR_NO_MAX;
        regex_skip_blanks(r);
        if (regex_take(r, "*")) {
        } else if (regex_take(r, "+")) {
            min = 1;
        } else if (regex_take(r, "?")) {
            max = 1;
        } else if (!read_bounds(r, &min, &max)) {
            break;
        }
        if (again) return regex_refuse(r, "a repetition of a repetition");
        if (max < min) return regex_refuse(r, "a repetition whose minimum is above its maximum");
        regex_take(r, "?"); /* lazy: the same texts */
        if (regex_peek(r, 0) == '+')
            return regex_refuse(r, "possessive repetitions are not supported");
        atom = expr_repeat(r->b, atom, min, max);
    }
    return atom;
}

/* Up to '|', ')' or the end.  Long texts would nest deep as pairs, so they are gathered. */
static uint32_t regex_sequence(regex *r, bool is_top)
{
    bytes parts = {.max = GRAMMAR_NODES_MAX * sizeof(uint32_t)};
    bool is_text = is_top && !r->o.is_lines; /* ^ and $ at its ends match those of the text */
    bool at_start = is_text && regex_take(r, "^"), at_end = false;
    uint32_t anything = EXPR_EMPTY;
    if (is_top && r->o.is_search)
        anything = expr_repeat(r->b, any_code(r, true), 0, GRAMMAR_NO_MAX);
    uint32_t *first = builder_add(r->b, &parts, sizeof *first);
    if (first) *first = at_start ? EXPR_EMPTY : anything;
    while (!at_end && (regex_skip_blanks(r), regex_has(r)) && regex_peek(r, 0) != '|' &&
           regex_peek(r, 0) != ')') {
        at_end = is_text && !r->o.is_lines && regex_peek(r, 0) == '$' &&
                 (regex_peek(r, 1) == '|' || r->at + 1 == r->text.len);
        if (at_end && regex_take(r, "$")) break;
        uint32_t atom = read_atom(r);
        if (atom != EXPR_EMPTY) atom = regex_repeated(r, atom);
        uint32_t *to = builder_add(r->b, &parts, sizeof *to);
        if (to) *to = atom;
    }
    uint32_t *last = builder_add(r->b, &parts, sizeof *last);
    if (last) *last = at_end ? EXPR_EMPTY : anything;
    uint32_t e = expr_seq(r->b, (const uint32_t *)parts.ptr, parts.len / sizeof(uint32_t));
    bytes_free(&parts);
    return e;
}

static uint32_t regex_alternatives(regex *r, bool is_top)
{
    bytes parts = {.max = GRAMMAR_NODES_MAX * sizeof(uint32_t)};
    do {
        uint32_t e = regex_sequence(r, is_top);
        uint32_t *to = builder_add(r->b, &parts, sizeof *to);
        if (to) *to = e;
    } while (regex_take(r, "|"));
    uint32_t e = expr_alt(r->b, (const uint32_t *)parts.ptr, parts.len / sizeof(uint32_t));
    bytes_free(&parts);
    return e;
}

uint32_t expr_regex(grammar_builder *b, view text, regex_options options, const char *place)
{
    regex r = {.b = b, .place = place, .text = text, .o = options};
    if (text.len > GRAMMAR_TEXT_BYTES_MAX) {
        builder_fail(b, CERIUM_ERR_CAPACITY, "%s: longer than %u bytes", place,
                     GRAMMAR_TEXT_BYTES_MAX);
        return EXPR_NEVER;
    }
    around_open(&r.around, b, options.form);
    uint32_t e = regex_alternatives(&r, true);
    if (r.around.n) e = around_close(&r.around, e);
    if (regex_has(&r)) return regex_refuse(&r, "a ')' without '('");
    return b->status ? EXPR_NEVER : e;
}
