/* solve_place.c - finds the bytes of a file to rewrite. */
#include "programs/solve.h"

#include <ctype.h>

enum { LINES_MAX = 1 << 30 };

/* Take the number at the end of *rest and the byte `mark` before it; false if there is none. */
static bool take_number(view *rest, char mark, uint32_t *out)
{
    size_t at = rest->len;
    uint64_t value;
    while (at > 0 && isdigit((unsigned char)rest->ptr[at - 1])) at--;
    if (at < 2 || rest->ptr[at - 1] != mark ||
        !parse_u64((view){rest->ptr + at, rest->len - at}, &value) || value > LINES_MAX)
        return false;
    *out = (uint32_t)value;
    rest->len = at - 1;
    return true;
}

bool solve_place_read(const char *text, bool is_file, solve_place *out)
{
    view rest = view_of(text);
    uint32_t last = 0, first = 0;
    *out = (solve_place){0};
    if (!is_file) {
        view range = rest;
        if (take_number(&range, '-', &last) && take_number(&range, ':', &first)) {
            *out = (solve_place){.line = first, .last = last};
            rest = range;
        } else if (take_number(&rest, ':', &last)) {
            out->line = last;
            if (take_number(&rest, ':', &first)) out->line = first, out->column = last;
            if (out->line == 0 || (first && out->column == 0)) return false;
        }
    }
    if (out->last && (out->last < out->line || !out->line)) return false;
    if (rest.len == 0 || rest.len >= sizeof out->path) return false;
    memcpy(out->path, rest.ptr, rest.len);
    return true;
}

/* The beginning of line n (from 1); text.len + 1 beyond the last. */
static size_t line_begin(view text, uint32_t n)
{
    size_t at = 0;
    for (uint32_t line = 1; line < n; line++) {
        const char *feed = at < text.len ? memchr(text.ptr + at, '\n', text.len - at) : NULL;
        if (!feed) return text.len + 1;
        at = (size_t)(feed - text.ptr) + 1;
    }
    return at;
}

static size_t line_end(view text, size_t at)
{
    while (at < text.len && text.ptr[at] != '\n') at++;
    return at;
}

/* Without the CR of a Windows line break. */
static size_t text_end(view text, size_t begin, size_t end)
{
    return end > begin && text.ptr[end - 1] == '\r' ? end - 1 : end;
}

solve_span solve_line_span(view text, uint32_t n)
{
    size_t begin = line_begin(text, n);
    if (begin > text.len) return (solve_span){text.len, text.len};
    size_t end = line_end(text, begin);
    end = text_end(text, begin, end);
    while (begin < end && (text.ptr[begin] == ' ' || text.ptr[begin] == '\t')) begin++;
    return (solve_span){begin, end};
}

int solve_place_span(const solve_place *p, view text, solve_span *out, cerium_error *err)
{
    uint32_t last = p->last ? p->last : p->line;
    size_t begin = line_begin(text, last);
    CHECK(p->line >= 1);
    if (begin > text.len)
        return error_set(err, CERIUM_ERR_ARGUMENT, "%s: there is no line %u", p->path, last);
    *out = solve_line_span(text, p->line);
    out->end = solve_line_span(text, last).end;
    if (!p->column) return CERIUM_OK;
    size_t end = text_end(text, begin, line_end(text, begin));
    if (p->column - 1 > end - begin)
        return error_set(err, CERIUM_ERR_ARGUMENT, "%s:%u has %zu columns, not %u", p->path,
                         p->line, end - begin, p->column);
    out->begin = out->end = begin + p->column - 1;
    return CERIUM_OK;
}

/* ---- functions ---- */

static size_t indent_of(view text, size_t at)
{
    size_t n = 0;
    while (at + n < text.len && (text.ptr[at + n] == ' ' || text.ptr[at + n] == '\t')) n++;
    return n;
}

/* The next token that is not a comment or blank. */
static bool next_code(view text, wire_language language, size_t *at, solve_token *t)
{
    while (solve_token_next(text, language, at, t))
        if (t->kind != TOKEN_BLANK && t->kind != TOKEN_COMMENT && t->kind != TOKEN_BREAK)
            return true;
    return false;
}

static bool token_is(view text, const solve_token *t, const char *word)
{
    return view_equal((view){text.ptr + t->begin, t->end - t->begin}, view_of(word));
}

/* After the bracket that closes the open one at *t. */
static bool skip_brackets(view text, wire_language language, size_t *at, solve_token *t)
{
    uint32_t depth = 1;
    while (depth && next_code(text, language, at, t)) {
        if (t->kind != TOKEN_OPERATOR) continue;
        depth += strchr("([{", text.ptr[t->begin]) != NULL;
        depth -= strchr(")]}", text.ptr[t->begin]) != NULL;
    }
    return depth == 0;
}

/* Lines after the head that are indented more than it, without a docstring. */
static bool python_body(view text, size_t head, size_t colon, solve_span *out)
{
    size_t begin = line_end(text, colon), line = head;
    while (line > 0 && text.ptr[line - 1] != '\n') line--;
    const size_t indent = indent_of(text, line);
    size_t end = begin, first = 0;
    for (size_t at = begin; at < text.len;) {
        size_t next = at + 1, stop = line_end(text, next), deep = indent_of(text, next);
        bool blank = next + deep >= stop;
        if (!blank && deep <= indent) break;
        if (!blank && !first) first = next + deep;
        if (!blank) end = stop;
        at = stop;
    }
    if (!first) return false;
    solve_token t;
    size_t at = first;
    if (next_code((view){text.ptr, end}, WIRE_PYTHON, &at, &t) && t.kind == TOKEN_STRING) {
        size_t after = at;
        if (next_code((view){text.ptr, end}, WIRE_PYTHON, &after, &t)) first = t.begin;
    }
    *out = (solve_span){first, end};
    return true;
}

/* The text between the braces, without blanks around it. */
static bool braced_body(view text, wire_language language, size_t open, solve_span *out)
{
    size_t at = open;
    solve_token t = {0};
    if (!skip_brackets(text, language, &at, &t)) return false;
    size_t begin = open, end = t.begin;
    while (begin < end && isspace((unsigned char)text.ptr[begin])) begin++;
    while (end > begin && isspace((unsigned char)text.ptr[end - 1])) end--;
    *out = (solve_span){begin, end};
    return true;
}

/* After the name: its parameters, and the text up to the body. */
static bool body_after(view text, wire_language language, size_t head, size_t at, solve_span *out)
{
    solve_token t;
    if (!next_code(text, language, &at, &t)) return false;
    if (token_is(text, &t, "=") && language == WIRE_JAVASCRIPT) { /* f = (x) => { */
        while (next_code(text, language, &at, &t) && t.kind == TOKEN_NAME) continue;
    }
    if (!token_is(text, &t, "(") || !skip_brackets(text, language, &at, &t)) return false;
    for (int i = 0; i < 64 && next_code(text, language, &at, &t); i++) {
        if (language == WIRE_PYTHON && token_is(text, &t, ":"))
            return python_body(text, head, t.end, out);
        if (language != WIRE_PYTHON && token_is(text, &t, "{"))
            return braced_body(text, language, t.end, out);
        if (token_is(text, &t, ";") || token_is(text, &t, ")")) return false;
    }
    return false;
}

int solve_function_span(view text, wire_language language, const char *name, solve_span *out,
                        cerium_error *err)
{
    solve_token t;
    bool defines = false;
    for (size_t at = 0; next_code(text, language, &at, &t);) {
        bool named = t.kind == TOKEN_NAME && token_is(text, &t, name);
        if (named && (defines || language != WIRE_PYTHON) &&
            body_after(text, language, t.begin, at, out))
            return CERIUM_OK;
        defines = t.kind == TOKEN_NAME && token_is(text, &t, "def");
    }
    return error_set(err, CERIUM_ERR_ARGUMENT, "there is no function %s with a body", name);
}

view solve_line_span_text(view text, uint32_t n)
{
    const solve_span at = solve_line_span(text, n);
    return (view){text.ptr + at.begin, at.end - at.begin};
}
