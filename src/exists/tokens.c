/* tokens.c - one pass over the bytes; no allocation, no recursion. */
#include "exists/tokens.h"

#include "base/text.h"
#include "exists/marks.h"

/* Open constructs:  3 "three double quotes"  2 three single ones  * a comment over lines
 * ` a template   $ a hole in one   { a brace in such a hole   r a raw string of Go */
typedef struct {
    tokens_carry *c;
    tokens_family family;
    const char *p, *end, *begin;
    const marked_words *words; /* of its language, or NULL */
    code_token *out;
    size_t n, max;
    uint32_t open;   /* the innermost open bracket, whose `after` is the next outer one */
    code_token next; /* what all tokens of this line have */
    code_token none; /* beyond the limit */
} reading;

/* What a byte is, a bit each. */
enum {
    BYTE_WITHIN = 1,  /* of a name: letters, digits, '_', and all beyond ASCII */
    BYTE_BEGINS = 2,  /* the same without digits */
    BYTE_BLANK = 4,
    BYTE_SIGN = 8,    /* may be a sign alone */
    BYTE_SECOND = 16, /* of a sign of several bytes */
    BYTE_OPENS = 32,
    BYTE_CLOSES = 64,
    NAME = BYTE_WITHIN | BYTE_BEGINS,
    SIGN = BYTE_SIGN,
    PART = BYTE_SIGN | BYTE_SECOND,
    OPEN = BYTE_SIGN | BYTE_OPENS,
    CLOSE = BYTE_SIGN | BYTE_CLOSES,
};

#define NO_TOKEN UINT32_MAX

#define FOUR(b) (b), (b), (b), (b)
#define SIXTEEN(b) FOUR(b), FOUR(b), FOUR(b), FOUR(b)
#define LETTERS(b) SIXTEEN(b), FOUR(b), FOUR(b), (b), (b)

/* '/' is missing among the signs: it may begin a comment. */
static const uint8_t bytes_are[256] = {
    ['\t'] = BYTE_BLANK, ['\f'] = BYTE_BLANK, ['\r'] = BYTE_BLANK, [' '] = BYTE_BLANK,
    ['0'] = FOUR(BYTE_WITHIN), FOUR(BYTE_WITHIN), BYTE_WITHIN, BYTE_WITHIN,
    ['A'] = LETTERS(NAME), ['_'] = NAME, ['a'] = LETTERS(NAME),
    [128] = SIXTEEN(NAME), SIXTEEN(NAME), SIXTEEN(NAME), SIXTEEN(NAME),
            SIXTEEN(NAME), SIXTEEN(NAME), SIXTEEN(NAME), SIXTEEN(NAME),
    ['('] = OPEN, ['['] = OPEN, ['{'] = OPEN, [')'] = CLOSE, [']'] = CLOSE, ['}'] = CLOSE,
    [','] = SIGN, [';'] = SIGN, ['<'] = SIGN, ['!'] = SIGN, ['%'] = SIGN, ['^'] = SIGN,
    ['@'] = SIGN, ['~'] = SIGN, ['.'] = PART, ['='] = PART, ['>'] = PART, [':'] = PART,
    ['*'] = PART, ['&'] = PART, ['|'] = PART, ['?'] = PART, ['+'] = PART, ['-'] = PART,
    ['/'] = BYTE_SECOND,
};

static inline uint8_t byte_is(char c, uint8_t what) { return bytes_are[(unsigned char)c] & what; }

static bool is_begin(char c) { return byte_is(c, BYTE_BEGINS); }

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

static inline code_token *add(reading *r, token_kind kind, const char *begin, const char *end)
{
    code_token *t = r->n < r->max ? &r->out[r->n++] : &r->none;
    *t = r->next;
    t->begin = (uint32_t)(begin - r->begin);
    t->end = (uint32_t)(end - r->begin);
    t->kind = (uint8_t)kind;
    if (r->next.first) r->next.first = false; /* a store in vain would delay the next copy */
    return t;
}

static inline void add_name(reading *r, const char *begin, const char *end)
{
    view name = {begin, (size_t)(end - begin)};
    code_token *t = add(r, TOKEN_NAME, begin, end);
    t->sketch = token_sketch(name);
    t->marks = marks_of_name(r->words, name);
}

static inline void add_sign(reading *r, char sign, int turn, const char *begin, const char *end)
{
    code_token *t = add(r, TOKEN_SIGN, begin, end);
    t->sign = sign;
    t->turn = (int8_t)turn;
    t->marks = marks_of_sign(sign);
    if (!turn || t == &r->none) return;
    if (turn > 0) {
        t->after = r->open;
        r->open = (uint32_t)r->n - 1;
    } else if (r->open != NO_TOKEN) {
        code_token *from = &r->out[r->open];
        r->open = from->after;
        from->after = (uint32_t)r->n;
    }
}

/* Of the token before this place. */
static char last_kind(const reading *r)
{
    if (r->none.kind) return (char)r->none.kind;
    return r->n ? (char)r->out[r->n - 1].kind : r->c->last;
}

static void end_open(reading *r)
{
    while (r->open != NO_TOKEN) {
        code_token *from = &r->out[r->open];
        r->open = from->after;
        from->after = (uint32_t)r->n;
    }
}

static void new_line(reading *r)
{
    bool counts = r->family != TOKENS_PYTHON || !r->c->depth;
    uint32_t column = 0;
    r->next.line++;
    if (!counts || top(r->c) == '3' || top(r->c) == '2') return;
    const char *p = r->p;
    for (; p < r->end && (*p == ' ' || *p == '\t'); p++)
        column = *p == '\t' ? column / 8 * 8 + 8 : column + 1;
    r->c->indent = r->next.indent = column < UINT16_MAX ? (uint16_t)column : UINT16_MAX;
    r->next.first = true;
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
            r->next.line += r->p[1] == '\n';
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
            else r->next.line++;
        }
    }
}

static void skip_template(reading *r)
{
    while (r->p < r->end) {
        char c = *r->p++;
        if (c == '\\' && r->p < r->end) {
            r->next.line += *r->p == '\n';
            r->p++;
        } else if (c == '`') {
            pop(r->c);
            return;
        } else if (c == '$' && r->p < r->end && *r->p == '{') {
            r->p++;
            push(r->c, '$');
            return;
        } else if (c == '\n') r->next.line++;
    }
}

/* A raw string contains no escapes, only its end. */
static void skip_raw(reading *r)
{
    for (; r->p < r->end; r->p++) {
        r->next.line += *r->p == '\n';
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
            r->next.line += p[1] == '\n';
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

static inline const char *name_end(const reading *r, const char *p)
{
    const bool script = r->family == TOKENS_SCRIPT;
    while (p < r->end && (byte_is(*p, BYTE_WITHIN) || (script && *p == '$'))) p++;
    return p;
}

static bool are_prefix(const char *begin, const char *end)
{
    for (const char *p = begin; p < end; p++)
        if (!strchr("rRbBuUfFtT", *p)) return false;
    return true;
}

/* Are [begin, end) the letters before a string of Python? */
static inline bool is_prefix(const reading *r, const char *begin, const char *end)
{
    bool quote = end < r->end && (*end == '"' || *end == '\'');
    return quote && r->family == TOKENS_PYTHON && end - begin <= 2 && are_prefix(begin, end);
}

static void read_prefixed(reading *r, const char *begin, const char *end)
{
    size_t n = (size_t)(end - begin);
    bool plain = !memchr(begin, 'f', n) && !memchr(begin, 'F', n) && !memchr(begin, 't', n);
    r->p = end + 1;
    open_string(r, *end, plain);
}

static char sign_of(const char *p, const char *end, size_t *n)
{
    char a = p[0], b = end - p > 1 ? p[1] : 0, c = end - p > 2 ? p[2] : 0;
    *n = 1;
    if (!byte_is(b, BYTE_SECOND)) return a; /* as most */
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

static inline int turn_of(char sign)
{
    return byte_is(sign, BYTE_OPENS) ? 1 : byte_is(sign, BYTE_CLOSES) ? -1 : 0;
}

static void read_sign(reading *r)
{
    size_t n;
    char sign = sign_of(r->p, r->end, &n);
    tokens_carry *c = r->c;
    const char *begin = r->p;
    r->p += n;
    int turn = turn_of(sign);
    if (r->family == TOKENS_PYTHON) {
        if (turn > 0 && c->depth < UINT16_MAX) c->depth++;
        if (turn < 0 && c->depth) c->depth--;
    } else if (n == 1 && c->n) { /* within a hole of a template */
        if (sign == '{') push(c, '{');
        else if (sign == '}') {
            char was = top(c);
            pop(c);
            if (was == '$' && !c->over) return;
        }
    }
    add_sign(r, sign, turn, begin, r->p);
}

static void read_number(reading *r)
{
    const char *begin = r->p;
    while (r->p < r->end && (byte_is(*r->p, BYTE_WITHIN) ||
                             (*r->p == '.' && r->end - r->p > 1 && r->p[1] != '.')))
        r->p++;
    add(r, TOKEN_NUMBER, begin, r->p);
}

/* True: there is no code here, but a blank or a comment. */
static bool skip_blank(reading *r)
{
    char c = *r->p, next = r->end - r->p > 1 ? r->p[1] : 0;
    if (c == '\n') {
        bool ends = r->family == TOKENS_PYTHON && !r->c->depth && last_kind(r) != TOKEN_LINE;
        if (ends) add(r, TOKEN_LINE, r->p, r->p);
        r->p++;
        new_line(r);
        return true;
    }
    if (byte_is(c, BYTE_BLANK)) return r->p++, true;
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
        r->next.line++;
        return true;
    }
    return false;
}

/* Names, signs of one byte and blanks: most of a line.  Ends at what needs more care. */
static void read_plain(reading *r)
{
    const bool python = r->family == TOKENS_PYTHON;
    tokens_carry *c = r->c;
    const char *p = r->p;
    while (p < r->end && r->n < r->max) {
        const char *begin = p;
        uint8_t is = bytes_are[(unsigned char)*p];
        if (is & BYTE_BLANK) p++;
        else if (is & BYTE_BEGINS) {
            p = name_end(r, p + 1);
            if (python && is_prefix(r, begin, p)) {
                p = begin;
                break;
            }
            add_name(r, begin, p);
        } else if (is & BYTE_SIGN) {
            bool alone = ++p < r->end && !byte_is(*p, BYTE_SECOND);
            int turn = turn_of(*begin);
            if (!alone || (turn && c->n)) {
                p = begin;
                break;
            }
            if (python && turn > 0 && c->depth < UINT16_MAX) c->depth++;
            if (python && turn < 0 && c->depth) c->depth--;
            add_sign(r, *begin, turn, begin, p);
        } else if (*p == '\n' && python && c->depth) {
            r->next.line++;
            for (p++; r->end - p >= 8 && !memcmp(p, "        ", 8);) p += 8;
        } else break;
    }
    r->p = p;
}

static void read_code(reading *r)
{
    read_plain(r);
    const char *p = r->p;
    if (p == r->end) return;
    char c = *p;
    if (skip_blank(r)) return;
    if (is_begin(c) || (r->family == TOKENS_SCRIPT && (c == '$' || c == '#'))) {
        r->p = name_end(r, p + 1);
        if (is_prefix(r, p, r->p)) read_prefixed(r, p, r->p);
        else add_name(r, p, r->p);
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
                 .end = text.ptr + text.len, .out = out, .max = max, .open = NO_TOKEN,
                 .next = {.indent = c->indent, .plain = true, .sketch = TOKEN_NO_NAME},
                 .words = family == TOKENS_PYTHON   ? marks_of_python
                          : family == TOKENS_SCRIPT ? marks_of_scripts : NULL};
    char what = top(c);
    if (!c->last) c->last = TOKEN_LINE;
    if (text.len && what != '3' && what != '2') {
        new_line(&r);
        r.next.line = 0;
    }
    while (r.p < r.end) {
        what = top(c);
        if (!what) read_code(&r);
        else if (what == '3' || what == '2' || what == '*') skip_open(&r);
        else if (what == '`') skip_template(&r);
        else if (what == 'r') skip_raw(&r);
        else read_code(&r);
    }
    end_open(&r);
    c->last = last_kind(&r);
    return r.n;
}

uint32_t tokens_statement_end(view text, const code_token *tokens, uint32_t n, uint32_t i,
                              bool head, uint32_t *colon)
{
    bool lambda = false;
    *colon = 0;
    for (; i < n; i++) {
        const code_token *t = &tokens[i];
        if (t->kind == TOKEN_LINE) return i;
        if (t->turn > 0) { /* what is within does not end it */
            i = t->after - 1;
            continue;
        }
        if (t->marks & MARK_ENDS) return i;
        if (!head) continue;
        lambda |= token_is(text, t, "lambda");
        if (!token_sign(t, ':')) continue;
        if (!lambda) return *colon = i, i;
        lambda = false;
    }
    return i;
}
