/* tokens.c - one pass over the bytes; no allocation, no recursion. */
#include "exists/tokens.h"

#include "base/text.h"

/* Open constructs:  3 "three double quotes"  2 three single ones  * a comment over lines
 * ` a template   $ a hole in one   { a brace in such a hole   r a raw string of Go */
typedef struct {
    tokens_carry *c;
    tokens_family family;
    const char *p, *end, *begin;
    code_token *out;
    size_t n, max;
    uint32_t line;
    bool first;
    code_token none; /* beyond the limit */
} reading;

/* A bit for each byte of a name: letters, digits, '_', and all beyond ASCII. */
static const uint64_t name_bytes[4] = {0x03FF000000000000, 0x07FFFFFE87FFFFFE, UINT64_MAX,
                                       UINT64_MAX};

static bool is_within(char c)
{
    return name_bytes[(unsigned char)c >> 6] >> ((unsigned char)c & 63) & 1;
}

static bool is_begin(char c) { return is_within(c) && (unsigned char)c > '9'; }

static void push(tokens_carry *c, char what)
{
    if (c->n < TOKENS_OPEN_MAX) c->open[c->n++] = what;
    else c->over++;
}

static void pop(tokens_carry *c)
{
    if (c->over) c->over--;
    else if (c->n) c->n--;
}

static char top(const tokens_carry *c) { return c->n ? c->open[c->n - 1] : 0; }

static code_token *add(reading *r, token_kind kind, const char *begin, const char *end)
{
    r->c->last = (char)kind;
    if (r->n == r->max) return &r->none;
    code_token *t = &r->out[r->n++];
    *t = (code_token){.begin = (uint32_t)(begin - r->begin), .end = (uint32_t)(end - r->begin),
                 .line = r->line, .indent = r->c->indent, .kind = (uint8_t)kind,
                 .first = r->first, .plain = true};
    r->first = false;
    return t;
}

static void new_line(reading *r)
{
    bool counts = r->family != TOKENS_PYTHON || !r->c->depth;
    uint32_t column = 0;
    r->line++;
    if (!counts || top(r->c) == '3' || top(r->c) == '2') return;
    const char *p = r->p;
    for (; p < r->end && (*p == ' ' || *p == '\t'); p++)
        column = *p == '\t' ? column / 8 * 8 + 8 : column + 1;
    r->c->indent = column < UINT16_MAX ? (uint16_t)column : UINT16_MAX;
    r->first = true;
}

/* ---- text that is not code ---- */

/* To the end of the open construct, or of the piece. */
static void skip_open(reading *r)
{
    char what = top(r->c);
    const char *stop = what == '3' ? "\"\"\"" : what == '2' ? "'''" : "*/";
    size_t n = strlen(stop);
    while (r->p < r->end) {
        char c = *r->p;
        if (what != '*' && c == '\\' && r->end - r->p > 1) {
            r->line += r->p[1] == '\n';
            r->p += 2;
            continue;
        }
        if (c == *stop && (size_t)(r->end - r->p) >= n && !memcmp(r->p, stop, n)) {
            r->p += n;
            pop(r->c);
            return;
        }
        r->p++;
        if (c == '\n') {
            if (what == '*') new_line(r);
            else r->line++;
        }
    }
}

static void skip_template(reading *r)
{
    while (r->p < r->end) {
        char c = *r->p++;
        if (c == '\\' && r->p < r->end) {
            r->line += *r->p == '\n';
            r->p++;
        } else if (c == '`') {
            pop(r->c);
            return;
        } else if (c == '$' && r->p < r->end && *r->p == '{') {
            r->p++;
            push(r->c, '$');
            r->c->last = TOKEN_SIGN;
            return;
        } else if (c == '\n') r->line++;
    }
}

/* A raw string contains no escapes, only its end. */
static void skip_raw(reading *r)
{
    for (; r->p < r->end; r->p++) {
        r->line += *r->p == '\n';
        if (*r->p != '`') continue;
        r->p++;
        pop(r->c);
        return;
    }
}

/* A string of one line ends with the line. */
static void read_string(reading *r, char quote, bool plain)
{
    const char *begin = r->p, *p = begin, *stop = r->end;
    while (p < stop && *p != quote && *p != '\n') {
        if (*p == '\\' && stop - p > 1) {
            r->line += p[1] == '\n';
            p++;
        }
        p++;
    }
    r->p = p;
    const char *end = p < stop ? p : stop;
    add(r, TOKEN_STRING, begin, end)->plain = plain;
    if (r->p < r->end && *r->p == quote) r->p++;
    if (r->p > r->end) r->p = r->end;
}

static void open_string(reading *r, char quote, bool plain)
{
    bool three = r->family == TOKENS_PYTHON && r->end - r->p >= 2 && r->p[0] == quote &&
                 r->p[1] == quote;
    if (!three) {
        read_string(r, quote, plain);
        return;
    }
    r->p += 2;
    push(r->c, quote == '"' ? '3' : '2');
    const char *begin = r->p;
    code_token *t = add(r, TOKEN_STRING, begin, begin);
    skip_open(r);
    bool closed = top(r->c) != '3' && top(r->c) != '2';
    t->end = (uint32_t)(r->p - r->begin) - (closed ? 3 : 0);
    if (t->end < t->begin) t->end = t->begin;
    t->plain = plain;
}

static bool starts_regex(const reading *r)
{
    if (!r->n) return true;
    const code_token *t = &r->out[r->n - 1];
    static const char *const words[] = {"return", "typeof", "case", "in", "of", "delete", "void",
                                        "throw", "new", "else", "do", "yield", "await"};
    if (t->kind == TOKEN_SIGN) return !(t->sign == ')' || t->sign == ']' || t->sign == '}');
    if (t->kind != TOKEN_NAME) return false;
    for (size_t i = 0; i < ARRAY_LEN(words); i++)
        if (t->end - t->begin == strlen(words[i]) &&
            !memcmp(r->begin + t->begin, words[i], t->end - t->begin))
            return true;
    return false;
}

static void read_regex(reading *r)
{
    bool in_class = false;
    const char *p = r->p;
    for (; p < r->end && *p != '\n' && (in_class || *p != '/'); p++) {
        if (*p == '\\' && r->end - p > 1) p++;
        else if (*p == '[') in_class = true;
        else if (*p == ']') in_class = false;
    }
    if (p >= r->end || *p != '/') return; /* it was none */
    add(r, TOKEN_NUMBER, r->p, p);
    r->p = p + 1;
    while (r->p < r->end && is_begin(*r->p)) r->p++;
}

/* ---- code ---- */

static void read_name(reading *r, const char *begin)
{
    const char other = r->family == TOKENS_SCRIPT ? '$' : '_';
    const char *p = r->p, *stop = r->end;
    while (p < stop && (is_within(*p) || *p == other)) p++;
    r->p = p;
    size_t n = (size_t)(r->p - begin);
    bool quoted = r->family == TOKENS_PYTHON && n <= 2 && r->p < r->end &&
                  (*r->p == '"' || *r->p == '\'');
    for (size_t i = 0; i < n && quoted; i++) quoted = strchr("rRbBuUfFtT", begin[i]) != NULL;
    if (quoted) {
        bool plain = !memchr(begin, 'f', n) && !memchr(begin, 'F', n) && !memchr(begin, 't', n);
        char quote = *r->p++;
        open_string(r, quote, plain);
        return;
    }
    add(r, TOKEN_NAME, begin, r->p);
}

/* Of a sign of several bytes. */
static bool is_second(char b)
{
    switch (b) {
    case '.': case '=': case '>': case ':': case '*': case '&': case '|': case '?': case '/':
    case '+': case '-': return true;
    default: return false;
    }
}

static char sign_of(const char *p, const char *end, size_t *n)
{
    char a = p[0], b = end - p > 1 ? p[1] : 0, c = end - p > 2 ? p[2] : 0;
    *n = 1;
    if (!is_second(b)) return a; /* as most */
    *n = 2;
    if (a == '.' && b == '.' && c == '.') return *n = 3, SIGN_DOTS;
    if (a == '?' && b == '.' && !byte_is_digit(c)) return SIGN_MAYBE;
    if (a == '=' && b == '>') return SIGN_ARROW;
    if (a == '-' && b == '>') return SIGN_RETURNS;
    if (a == ':' && b == '=') return SIGN_WALRUS;
    if (a == ':' && b == ':') return SIGN_SCOPE;
    if (strchr("=!<>", a) && b == '=') return *n = c == '=' ? 3 : 2, SIGN_COMPARE;
    if (a == '*' && b == '*') return *n = c == '=' ? 3 : 2, c == '=' ? SIGN_UPDATE : SIGN_POWER;
    if (strchr("+-*/%&|^@", a) && b == '=') return SIGN_UPDATE;
    if (strchr("&|?", a) && b == a)
        return *n = c == '=' ? 3 : 2, c == '=' ? SIGN_UPDATE : SIGN_OR;
    if (a == '/' && b == a) return *n = c == '=' ? 3 : 2, c == '=' ? SIGN_UPDATE : SIGN_OTHER;
    if (strchr("+-", a) && b == a) return SIGN_OTHER;
    return *n = 1, a;
}

static void read_sign(reading *r)
{
    size_t n;
    char sign = sign_of(r->p, r->end, &n);
    tokens_carry *c = r->c;
    const char *begin = r->p;
    r->p += n;
    if (r->family == TOKENS_PYTHON && n == 1) {
        if (token_opens(sign) && c->depth < UINT16_MAX) c->depth++;
        if (token_closes(sign) && c->depth) c->depth--;
    } else if (n == 1 && c->n) { /* within a hole of a template */
        if (sign == '{') push(c, '{');
        else if (sign == '}') {
            char was = top(c);
            pop(c);
            if (was == '$' && !c->over) {
                c->last = TOKEN_SIGN;
                return;
            }
        }
    }
    add(r, TOKEN_SIGN, begin, r->p)->sign = sign;
}

static void read_number(reading *r)
{
    const char *begin = r->p;
    while (r->p < r->end && (is_begin(*r->p) || byte_is_digit(*r->p) ||
                             (*r->p == '.' && r->end - r->p > 1 && r->p[1] != '.')))
        r->p++;
    add(r, TOKEN_NUMBER, begin, r->p);
}

/* True: there is no code here, but a blank or a comment. */
static bool skip_blank(reading *r)
{
    char c = *r->p, next = r->end - r->p > 1 ? r->p[1] : 0;
    if (c == '\n') {
        bool ends = r->family == TOKENS_PYTHON && !r->c->depth && r->c->last != TOKEN_LINE;
        if (ends) add(r, TOKEN_LINE, r->p, r->p);
        r->p++;
        new_line(r);
        return true;
    }
    if (c == ' ' || c == '\t' || c == '\r' || c == '\f') return r->p++, true;
    bool hash = r->family == TOKENS_PYTHON && c == '#';
    bool slashes = r->family != TOKENS_PYTHON && c == '/' && next == '/';
    bool hashbang = r->family == TOKENS_SCRIPT && c == '#' && next == '!' && r->p == r->begin;
    if (hash || slashes || hashbang) {
        const char *stop = memchr(r->p, '\n', (size_t)(r->end - r->p));
        r->p = stop ? stop : r->end;
        return true;
    }
    if (r->family != TOKENS_PYTHON && c == '/' && next == '*') {
        r->p += 2;
        push(r->c, '*');
        return true;
    }
    if (r->family == TOKENS_PYTHON && c == '\\' && next == '\n') {
        r->p += 2;
        r->line++;
        return true;
    }
    return false;
}

static void read_code(reading *r)
{
    while (*r->p == ' ')
        if (++r->p == r->end) return;
    char c = *r->p;
    if (skip_blank(r)) return;
    if (is_begin(c) || (r->family == TOKENS_SCRIPT && (c == '$' || c == '#'))) {
        const char *begin = r->p++;
        read_name(r, begin);
    } else if (byte_is_digit(c)) read_number(r);
    else if (c == '"' || c == '\'') {
        r->p++;
        open_string(r, c, true);
    } else if (r->family == TOKENS_SCRIPT && c == '`') {
        add(r, TOKEN_STRING, r->p, r->p)->plain = false;
        r->p++;
        push(r->c, '`');
    } else if (r->family == TOKENS_GO && c == '`') {
        const char *begin = ++r->p;
        push(r->c, 'r');
        code_token *t = add(r, TOKEN_STRING, begin, begin);
        skip_raw(r);
        t->end = (uint32_t)(r->p - r->begin) - (top(r->c) != 'r');
    } else if (r->family == TOKENS_SCRIPT && c == '/' && starts_regex(r)) {
        const char *begin = r->p++;
        const char *before = r->p;
        read_regex(r);
        if (r->p == before) add(r, TOKEN_SIGN, begin, r->p)->sign = '/';
    } else read_sign(r);
}

size_t tokens_read(tokens_carry *c, tokens_family family, view text, code_token *out, size_t max)
{
    reading r = {.c = c, .family = family, .p = text.ptr, .begin = text.ptr,
                 .end = text.ptr + text.len, .out = out, .max = max};
    char what = top(c);
    if (!c->last) c->last = TOKEN_LINE;
    if (text.len && what != '3' && what != '2') {
        new_line(&r);
        r.line = 0;
    }
    while (r.p < r.end) {
        what = top(c);
        if (what == '3' || what == '2' || what == '*') skip_open(&r);
        else if (what == '`') skip_template(&r);
        else if (what == 'r') skip_raw(&r);
        else read_code(&r);
    }
    return r.n;
}

uint32_t tokens_statement_end(view text, const code_token *tokens, uint32_t n, uint32_t i,
                              bool head, uint32_t *colon)
{
    uint32_t depth = 0;
    bool lambda = false;
    *colon = 0;
    for (; i < n; i++) {
        const code_token *t = &tokens[i];
        if (t->kind == TOKEN_LINE) return i;
        lambda |= !depth && token_is(text, t, "lambda");
        if (t->kind != TOKEN_SIGN) continue;
        if (token_opens(t->sign)) depth++;
        if (token_closes(t->sign) && depth) depth--;
        if (!depth && t->sign == ';') return i;
        if (!depth && head && t->sign == ':') {
            if (!lambda) return *colon = i, i;
            lambda = false;
        }
    }
    return i;
}
