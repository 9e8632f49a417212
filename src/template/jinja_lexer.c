/* jinja_lexer.c - owns a template's text as tokens, white space control included: trim_blocks and
 * lstrip_blocks are on. */
#include "template/jinja_tree.h"

void jinja_lexer_open(jinja_lexer *x, view source, jinja_pool *pool, jinja_error *err)
{
    *x = (jinja_lexer){.pool = pool, .err = err, .source = source, .line = 1, .line_start = true};
}

static jinja_token fail(jinja_lexer *x, uint32_t line, const char *what)
{
    if (!x->status) {
        x->status = CERIUM_ERR_FORMAT;
        x->err->line = line;
        snprintf(x->err->message, sizeof x->err->message, "%s", what);
    }
    return (jinja_token){.kind = TOK_END, .line = line};
}

static bool is_space(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r') || (c >= 0x1c && c <= 0x1f);
}

static view rest_of(const jinja_lexer *x)
{
    return (view){x->source.ptr + x->at, x->source.len - x->at};
}

static void skip(jinja_lexer *x, size_t n)
{
    for (size_t i = 0; i < n; i++) x->line += x->source.ptr[x->at + i] == '\n';
    x->at += n;
}

static void skip_space(jinja_lexer *x)
{
    while (x->at < x->source.len && is_space(x->source.ptr[x->at])) skip(x, 1);
}

/* The kind of the tag opened at p: '%', '{' or '#', else 0. */
static char opens(view rest)
{
    if (rest.len < 2 || rest.ptr[0] != '{') return 0;
    return rest.ptr[1] == '%' || rest.ptr[1] == '{' || rest.ptr[1] == '#' ? rest.ptr[1] : 0;
}

/* After a tag's closing bracket: trim_blocks takes one line feed, a minus all white space. */
static void close_tag(jinja_lexer *x, size_t len, bool minus, bool plus, bool trims)
{
    skip(x, len);
    size_t from = x->at;
    if (minus) skip_space(x);
    else if (trims && !plus && x->at < x->source.len && x->source.ptr[x->at] == '\n') skip(x, 1);
    x->line_start = x->at > from && x->source.ptr[x->at - 1] == '\n';
}

/* Text up to a tag, without the part that the tag's sign and lstrip_blocks remove. */
static view cut_data(const jinja_lexer *x, size_t len, char tag, char sign)
{
    view text = {x->source.ptr + x->at, len};
    if (!tag) return text;
    if (sign == '-') {
        while (text.len && is_space(text.ptr[text.len - 1])) text.len--;
    } else if (sign != '+' && tag != '{') {
        size_t line = len;
        while (line && text.ptr[line - 1] != '\n' && is_space(text.ptr[line - 1])) line--;
        if (line ? text.ptr[line - 1] == '\n' : x->line_start) text.len = line;
    }
    return text;
}

static bool is_word(view rest, const char *word)
{
    size_t n = strlen(word);
    return rest.len >= n && !memcmp(rest.ptr, word, n);
}

/* `{% word %}` with signs and blanks: its length, or 0.  *minus: it ends with one. */
static size_t bare_tag(view rest, const char *word, char *first, char *last)
{
    size_t i = 2;
    if (opens(rest) != '%') return 0;
    *first = i < rest.len && (rest.ptr[i] == '-' || rest.ptr[i] == '+') ? rest.ptr[i] : 0;
    i += *first != 0;
    while (i < rest.len && is_space(rest.ptr[i])) i++;
    if (!is_word((view){rest.ptr + i, rest.len - i}, word)) return 0;
    i += strlen(word);
    while (i < rest.len && is_space(rest.ptr[i])) i++;
    *last = i < rest.len && (rest.ptr[i] == '-' || rest.ptr[i] == '+') ? rest.ptr[i] : 0;
    i += *last != 0;
    return is_word((view){rest.ptr + i, rest.len - i}, "%}") ? i + 2 : 0;
}

/* After {% raw %}: its text as data. */
static jinja_token read_raw(jinja_lexer *x)
{
    uint32_t line = x->line;
    for (size_t i = 0; x->at + i < x->source.len; i++) {
        char first = 0, last = 0;
        view rest = {x->source.ptr + x->at + i, x->source.len - x->at - i};
        size_t len = rest.ptr[0] == '{' ? bare_tag(rest, "endraw", &first, &last) : 0;
        if (!len) continue;
        jinja_token out = {.kind = TOK_DATA, .line = line, .text = cut_data(x, i, '%', first)};
        skip(x, i);
        close_tag(x, len, last == '-', last == '+', true);
        return out;
    }
    return fail(x, line, "{% raw %} without {% endraw %}");
}

static bool skip_comment(jinja_lexer *x)
{
    view rest = rest_of(x);
    const char *end = memmem(rest.ptr + 2, rest.len - 2, "#}", 2);
    if (!end) {
        fail(x, x->line, "a comment {# without #}");
        return false;
    }
    size_t len = (size_t)(end - rest.ptr);
    char sign = len > 2 ? end[-1] : 0;
    close_tag(x, len + 2, sign == '-', sign == '+', true);
    return true;
}

/* Data up to the next tag, and the tag's beginning; comments are skipped. */
static jinja_token read_data(jinja_lexer *x)
{
    while (!x->status) {
        size_t len = 0;
        view rest = rest_of(x);
        while (len < rest.len && !opens((view){rest.ptr + len, rest.len - len})) len++;
        char tag = opens((view){rest.ptr + len, rest.len - len});
        char sign = tag && len + 2 < rest.len ? rest.ptr[len + 2] : 0;
        view text = cut_data(x, len, tag, sign);
        jinja_token out = {.kind = TOK_DATA, .line = x->line, .text = text};
        if (len) x->line_start = rest.ptr[len - 1] == '\n';
        skip(x, len);
        if (text.len) return out;
        if (!tag) break;
        if (tag == '#') {
            if (!skip_comment(x)) break;
            continue;
        }
        char first = 0, last = 0;
        size_t raw = bare_tag(rest_of(x), "raw", &first, &last);
        if (raw) {
            close_tag(x, raw, last == '-', last == '+', true);
            out = read_raw(x);
            if (out.text.len) return out;
            continue;
        }
        out = (jinja_token){.kind = tag == '%' ? TOK_BLOCK : TOK_PRINT, .line = x->line};
        skip(x, 2 + (sign == '-' || sign == '+'));
        x->in_tag = true;
        x->in_print = tag == '{';
        x->depth = 0;
        return out;
    }
    return (jinja_token){.kind = TOK_END, .line = x->line};
}

/* ---- inside a tag ---- */

/* The end of the tag at p: its length; 0: it is not one. */
static size_t tag_end(const jinja_lexer *x, char *sign)
{
    view rest = rest_of(x);
    const char *close = x->in_print ? "}}" : "%}";
    *sign = 0;
    if (x->depth) return 0;
    if (is_word(rest, close)) return 2;
    if (rest.len < 3 || (rest.ptr[0] != '-' && (rest.ptr[0] != '+' || x->in_print)) ||
        !is_word((view){rest.ptr + 1, rest.len - 1}, close))
        return 0;
    *sign = rest.ptr[0];
    return 3;
}

static size_t put_utf8(char *out, uint32_t code)
{
    if (code < 0x80) {
        out[0] = (char)code;
        return 1;
    }
    size_t n = code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    static const uint8_t lead[] = {0, 0, 0xC0, 0xE0, 0xF0};
    for (size_t i = n; i-- > 1; code >>= 6) out[i] = (char)(0x80 | (code & 0x3F));
    out[0] = (char)(lead[n] | code);
    return n;
}

static int digit(char c)
{
    if (c >= '0' && c <= '9') return c - '0';
    c |= 0x20;
    return c >= 'a' && c <= 'z' ? c - 'a' + 10 : 99;
}

/* An escape of Python's, after the backslash; returns its number of bytes, 0: unknown. */
static size_t read_escape(view rest, char *out, size_t *n)
{
    static const char names[] = "abfnrtv\\'\"", means[] = "\a\b\f\n\r\t\v\\'\"";
    char c = rest.ptr[0];
    const char *known = c ? strchr(names, c) : NULL;
    *n = 1;
    if (known) {
        out[0] = means[known - names];
        return 1;
    }
    if (c == '\n') {
        *n = 0;
        return 1;
    }
    size_t digits = c == 'x' ? 2 : c == 'u' ? 4 : c == 'U' ? 8 : 0, from = digits ? 1 : 0;
    uint32_t base = digits ? 16 : 8, code = 0;
    size_t i = from;
    if (!digits && digit(c) < 8) digits = 3;
    while (i < rest.len && i - from < digits && digit(rest.ptr[i]) < (int)base)
        code = code * base + (uint32_t)digit(rest.ptr[i++]);
    bool whole = base == 8 ? i > from : i - from == digits;
    if (!digits || !whole || code > 0x10FFFF || (code >= 0xD800 && code < 0xE000)) return 0;
    *n = put_utf8(out, code);
    return i;
}

static jinja_token read_string(jinja_lexer *x)
{
    view rest = rest_of(x);
    size_t end = 1, len = 0;
    jinja_token out = {.kind = TOK_STRING, .line = x->line};
    bool plain = true;
    while (end < rest.len && rest.ptr[end] != rest.ptr[0]) {
        plain = plain && rest.ptr[end] != '\\';
        end += rest.ptr[end] == '\\' ? 2 : 1;
    }
    if (end >= rest.len) return fail(x, x->line, "a string without its closing quote");
    out.text = (view){rest.ptr + 1, end - 1};
    skip(x, end + 1);
    if (plain) return out;
    char *to = jinja_take(x->pool, end);
    if (!to) {
        x->status = CERIUM_ERR_MEMORY;
        return (jinja_token){.kind = TOK_END};
    }
    for (size_t i = 1; i < end;) {
        size_t n = 0;
        size_t used = rest.ptr[i] == '\\'
                          ? read_escape((view){rest.ptr + i + 1, end - i - 1}, to + len, &n) : 0;
        if (used) {
            len += n;
            i += used + 1;
        } else {
            to[len++] = rest.ptr[i++];
        }
    }
    out.text = (view){to, len};
    return out;
}

static jinja_token read_number(jinja_lexer *x)
{
    enum { DIGITS_MAX = 64 };
    char text[DIGITS_MAX + 1];
    view rest = rest_of(x);
    size_t i = 0, n = 0;
    bool real = false;
    jinja_token out = {.kind = TOK_INTEGER, .line = x->line};
    for (; i < rest.len && n < DIGITS_MAX; i++) {
        char c = rest.ptr[i];
        bool more = i + 1 < rest.len && digit(rest.ptr[i + 1]) < 10;
        if (c == '_' && more) continue;
        if ((c == '.' && more && !real) || ((c | 0x20) == 'e' && more)) real = true;
        else if ((c | 0x20) == 'e' && i + 2 < rest.len && strchr("+-", rest.ptr[i + 1]) &&
                 rest.ptr[i + 1] && digit(rest.ptr[i + 2]) < 10) {
            real = true;
            text[n++] = c;
            c = rest.ptr[++i];
        } else if (digit(c) >= 10) break;
        if (n < DIGITS_MAX) text[n++] = c;
    }
    skip(x, i);
    double value = 0;
    if (!parse_f64((view){text, n}, &value)) return fail(x, out.line, "a number that is too large");
    uint64_t whole = 0;
    if (real) {
        out.kind = TOK_REAL;
        out.real = value;
    } else if (parse_u64((view){text, n}, &whole) && whole <= INT64_MAX) {
        out.integer = (int64_t)whole;
    } else {
        return fail(x, out.line, "a number that is too large");
    }
    return out;
}

static bool is_name_byte(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || (unsigned char)c >= 0x80;
}

static jinja_token read_operator(jinja_lexer *x)
{
    static const struct {
        char text[3];
        jinja_token_kind kind;
    } operators[] = {
        {"**", TOK_POW}, {"//", TOK_FLOORDIV}, {"==", TOK_EQ}, {"!=", TOK_NE}, {"<=", TOK_LE},
        {">=", TOK_GE}, {"+", TOK_ADD}, {"-", TOK_SUB}, {"*", TOK_MUL}, {"/", TOK_DIV},
        {"%", TOK_MOD}, {"~", TOK_TILDE}, {"<", TOK_LT}, {">", TOK_GT}, {"=", TOK_ASSIGN},
        {".", TOK_DOT}, {":", TOK_COLON}, {",", TOK_COMMA}, {"|", TOK_PIPE}, {"(", TOK_LPAREN},
        {")", TOK_RPAREN}, {"[", TOK_LBRACKET}, {"]", TOK_RBRACKET}, {"{", TOK_LBRACE},
        {"}", TOK_RBRACE},
    };
    view rest = rest_of(x);
    for (size_t i = 0; i < ARRAY_LEN(operators); i++) {
        size_t n = strlen(operators[i].text);
        if (!is_word(rest, operators[i].text)) continue;
        jinja_token out = {.kind = operators[i].kind, .line = x->line, .text = {rest.ptr, n}};
        if (n == 1 && strchr("([{", rest.ptr[0])) x->depth++;
        if (n == 1 && strchr(")]}", rest.ptr[0])) {
            if (!x->depth) return fail(x, x->line, "a closing bracket that nothing opened");
            x->depth--;
        }
        skip(x, n);
        return out;
    }
    char what[40];
    snprintf(what, sizeof what, "unexpected character '%c'",
             rest.ptr[0] >= ' ' && rest.ptr[0] < 127 ? rest.ptr[0] : '?');
    return fail(x, x->line, what);
}

static jinja_token read_inside(jinja_lexer *x)
{
    char sign = 0;
    skip_space(x);
    if (x->at == x->source.len) return fail(x, x->line, "a tag that does not end");
    size_t end = tag_end(x, &sign);
    if (end) {
        jinja_token out = {.kind = x->in_print ? TOK_PRINT_END : TOK_BLOCK_END, .line = x->line};
        x->in_tag = false;
        close_tag(x, end, sign == '-', sign == '+', !x->in_print);
        return out;
    }
    view rest = rest_of(x);
    char c = rest.ptr[0];
    if (c == '"' || c == '\'') return read_string(x);
    if (digit(c) < 10) return read_number(x);
    if (!is_name_byte(c)) return read_operator(x);
    size_t len = 1;
    while (len < rest.len && (is_name_byte(rest.ptr[len]) || digit(rest.ptr[len]) < 10)) len++;
    skip(x, len);
    return (jinja_token){.kind = TOK_NAME, .line = x->line, .text = {rest.ptr, len}};
}

jinja_token jinja_lexer_next(jinja_lexer *x)
{
    if (x->status) return (jinja_token){.kind = TOK_END, .line = x->line};
    return x->in_tag ? read_inside(x) : read_data(x);
}

const char *jinja_token_name(jinja_token_kind kind)
{
    static const char *const names[] = {
        "the end of the template", "text", "'{%'", "'%}'", "'{{'", "'}}'", "a name", "a string",
        "a number", "a number", "'+'", "'-'", "'*'", "'/'", "'//'", "'%'", "'**'", "'~'", "'=='",
        "'!='", "'<'", "'<='", "'>'", "'>='", "'='", "'.'", "':'", "','", "'|'", "'('", "')'",
        "'['", "']'", "'{'", "'}'",
    };
    return (size_t)kind < ARRAY_LEN(names) ? names[kind] : "?";
}
