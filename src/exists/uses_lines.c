/* uses_lines.c - passes the lines of a text to the reader of its language. */
#include "exists/uses.h"

enum { MINIFIED_BYTES = 4096 };

bool uses_reads(guard_language language)
{
    return language == GUARD_PYTHON || language == GUARD_JAVASCRIPT ||
           language == GUARD_TYPESCRIPT || language == GUARD_TSX || language == GUARD_GO ||
           language == GUARD_C || language == GUARD_CPP || language == GUARD_JAVA;
}

/* Of the root of names, and of the words that the language has. */
static char letter_of(guard_language language)
{
    switch (language) {
    case GUARD_PYTHON: return 'p';
    case GUARD_GO: return 'g';
    case GUARD_C:
    case GUARD_CPP: return 'c';
    case GUARD_JAVA: return 'v';
    default: return 'j';
    }
}

static tokens_family family_of(char letter)
{
    return letter == 'p' ? TOKENS_PYTHON : letter == 'g' ? TOKENS_GO
         : letter == 'j' ? TOKENS_SCRIPT : TOKENS_C;
}

void uses_begin(uses_state *s)
{
    memset(s, 0, sizeof *s);
    s->was_indent = -1;
}

/* A line that a bundler made: its short names have another meaning in each of its functions. */
static bool is_minified(view text)
{
    const char *p = text.ptr, *end = text.ptr + text.len;
    while (end - p > MINIFIED_BYTES) {
        const char *stop = memchr(p, '\n', (size_t)(end - p));
        if (!stop || stop - p > MINIFIED_BYTES) return true;
        p = stop + 1;
    }
    return false;
}

static uint32_t n_lines(view text)
{
    uint32_t n = 0;
    const char *end = text.ptr + text.len;
    for (const char *p = text.ptr; (p = memchr(p, '\n', (size_t)(end - p))); p++) n++;
    return n;
}

/* Parameters of a function of Go that continue on the next line. */
static bool func_continues(const uses_call *c)
{
    for (uint32_t i = 0; i < c->n; i++) {
        if (!uses_is(c, i, "func")) continue;
        for (uint32_t k = i + 1; k < c->n && !uses_sign(c, k, '{'); k++)
            if (uses_sign(c, k, '(') && c->t[k].after == c->n && !uses_sign(c, c->n - 1, ')'))
                return true;
    }
    return false;
}

/* A statement of a script that continues on the next line: import { */
static bool continues(const uses_call *c)
{
    uint32_t depth = 0;
    bool takes = uses_is(c, 0, "import") || uses_is(c, 0, "export") ||
                 ((uses_is(c, 0, "const") || uses_is(c, 0, "let") || uses_is(c, 0, "var")) &&
                  uses_sign(c, 1, '{'));
    if (!takes || !(uses_sign(c, 1, '{') || uses_is(c, 0, "import"))) return false;
    for (uint32_t i = 0; i < c->n; i++) {
        if (uses_sign(c, i, '{')) depth++;
        if (uses_sign(c, i, '}') && depth) depth--;
    }
    if (depth) return true;
    /* import { a } from 'x': its end is a string */
    bool closed = false;
    for (uint32_t i = 0; i < c->n; i++)
        closed |= c->t[i].kind == TOKEN_STRING || uses_sign(c, i, ';') || uses_sign(c, i, '(') ||
                  uses_sign(c, i, '=');
    return uses_is(c, 0, "import") && c->n > 1 && !closed;
}

static uint32_t read_text(uses_call *c, view text, bool may_wait)
{
    code_token tokens[USES_TOKENS_MAX];
    uses_state *s = c->s;
    tokens_carry before = s->carry;
    c->text = text;
    c->t = tokens;
    c->n = (uint32_t)tokens_read(&s->carry, family_of(c->letter), text, tokens, USES_TOKENS_MAX);
    c->marks = 0;
    for (uint32_t i = 0; i < c->n; i++) c->marks |= tokens[i].marks;
    bool waits = c->letter == 'j' ? continues(c) : c->letter == 'g' && func_continues(c);
    if (waits && may_wait && text.len < USES_TEXT_BYTES) {
        if (text.ptr != s->text) memcpy(s->text, text.ptr, text.len);
        s->n_text = (uint16_t)text.len;
        s->carry = before;
        return 0;
    }
    s->n_text = 0;
    switch (c->letter) {
    case 'p': uses_python(c); break;
    case 'g': uses_go(c); break;
    case 'c': uses_c(c); break;
    case 'v': uses_java(c); break;
    default: uses_script(c);
    }
    return c->n_out;
}

/* A line that is too long comes in pieces: only its strings and brackets are followed. */
static uint32_t pass_over(uses_call *c, view line, bool whole)
{
    uses_state *s = c->s;
    uint32_t was = s->n_text;
    c->mute = true;
    if (was) read_text(c, (view){s->text, was}, false);
    read_text(c, line, false);
    s->cut = !whole;
    return 0;
}

uint32_t uses_line(const names_index *x, uses_state *s, guard_language language, view line,
                   bool whole, exists_finding *out)
{
    uses_call c = {.x = x, .s = s, .language = language, .out = out, .try_indent = -1,
                   .letter = letter_of(language)};
    uint32_t was = s->n_text;
    if (!was) s->text_line = s->line;
    s->line += n_lines(line);
    if (!uses_reads(language)) return 0;
    bool fits = was + line.len <= USES_TEXT_BYTES;
    if (s->cut || ((was || !whole) && !fits)) return pass_over(&c, line, whole);
    c.mute = c.letter == 'j' && is_minified(line);
    if (!was && whole) return read_text(&c, line, true);
    memcpy(s->text + was, line.ptr, line.len);
    s->n_text = (uint16_t)(was + line.len);
    if (!whole) return 0;
    uint32_t n = read_text(&c, (view){s->text, s->n_text}, true);
    for (uint32_t i = 0; i < n; i++) { /* bytes of this line */
        bool before = out[i].begin < was;
        out[i].late |= before;
        out[i].begin = before ? 0 : out[i].begin - was;
        out[i].end = out[i].end < was ? 0 : out[i].end - was;
    }
    return n;
}

uint32_t uses_end(const names_index *x, uses_state *s, exists_finding *out)
{
    uses_call c = {.x = x, .s = s, .out = out};
    (void)x;
    for (uint32_t i = 0; i < s->n_pending && c.n_out < USES_FINDINGS_MAX; i++) {
        s->pending[i].f.late = true;
        out[c.n_out++] = s->pending[i].f;
    }
    s->n_pending = 0;
    return c.n_out;
}
