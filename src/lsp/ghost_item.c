/* ghost_item.c - decides how much of a proposal to show. */
#include "lsp/ghost_item.h"

enum { OPEN_MAX = 64 };

static size_t without_blanks(view text) { return view_trim_end(text, " \t\r\n").len; }

/* Open brackets, and an open string. */
typedef struct {
    char open[OPEN_MAX];
    uint32_t n;
    char quote;
    bool escaped;
} brackets;

static char closer_of(char c) { return c == '(' ? ')' : c == '[' ? ']' : c == '{' ? '}' : 0; }

/* False: c closes a bracket that was not opened here. */
static bool take(brackets *b, char c)
{
    bool was_escaped = b->escaped;
    b->escaped = false;
    if (c == '\n') b->quote = 0;
    if (b->quote) {
        if (was_escaped) return true;
        if (c == '\\') b->escaped = true;
        else if (c == b->quote) b->quote = 0;
        return true;
    }
    if (c == '"' || c == '\'' || c == '`') b->quote = c;
    if (closer_of(c) && b->n < OPEN_MAX) b->open[b->n++] = closer_of(c);
    if (c != ')' && c != ']' && c != '}') return true;
    if (!b->n || b->open[b->n - 1] != c) return false;
    b->n--;
    return true;
}

/* How far the text may be shown with these brackets; *replaces: the part of `after` that it
 * includes.  A bracket that it closes was opened by it or on its line, or comes after the caret, or
 * is the block's end. */
static size_t fit_brackets(view text, view before, view after, bool is_block, size_t *replaces)
{
    brackets b = {.n = 0};
    size_t at = 0, line = 0;
    for (size_t i = 0; i < before.len; i++) (void)take(&b, before.ptr[i]);
    b.quote = 0;
    const uint32_t n_line = b.n;
    *replaces = 0;
    for (size_t i = 0; i < text.len; i++) {
        const char c = text.ptr[i];
        const bool had = b.n > 0 && b.n <= n_line; /* it closes a bracket of the line */
        if (c == '\n') line = i + 1;
        bool is_closer = !b.quote && (c == ')' || c == ']' || c == '}');
        bool own = take(&b, c);
        if (!is_closer || (own && !had)) continue;
        while (at < after.len && (after.ptr[at] == ' ')) at++;
        if (at < after.len && after.ptr[at] == c) *replaces = ++at;
        else if (own && !(after.len > at && memchr(after.ptr + at, c, after.len - at)))
            continue;
        else if (own) return i; /* its closing bracket comes later */
        else if (!is_block || without_blanks((view){text.ptr + line, i - line}) || !line) return i;
    }
    return text.len;
}

static size_t count_lines(view text, uint32_t lines_max, bool *is_full)
{
    uint32_t n = 0;
    *is_full = false;
    for (size_t i = 0; i < text.len; i++)
        if (text.ptr[i] == '\n' && without_blanks((view){text.ptr, i}) && ++n == lines_max) {
            *is_full = true;
            return i;
        }
    return text.len;
}

/* Lines that are sure enough, by their joint probability. */
static size_t sure_bytes(const lsp_proposal *p, size_t from, view text, double logprob_min)
{
    for (size_t line = 0; line < text.len;) {
        size_t skip = line;
        while (skip < text.len && text.ptr[skip] == '\n') skip++;
        const char *end = skip < text.len ? memchr(text.ptr + skip, '\n', text.len - skip) : NULL;
        size_t to = end ? (size_t)(end - text.ptr) : text.len;
        if (lsp_proposal_logprob(p, from, from + to) < logprob_min) return line;
        line = to;
    }
    return text.len;
}

/* Does the line already end with it? */
static bool is_said(view after, view text)
{
    after.len = without_blanks(after);
    return text.len && after.len >= text.len &&
           !memcmp(after.ptr + after.len - text.len, text.ptr, text.len);
}

lsp_item lsp_item_of(const lsp_proposal *p, lsp_fit fit, const lsp_place *place, view before,
                     const lsp_item_limits *limits)
{
    view rest = {p->text.ptr + fit.typed, p->text.len - fit.typed};
    lsp_item item = {.is_whole = p->ended && !p->is_cut};
    bool is_full = false;
    if (!rest.len) return item;
    const bool is_shown = p->shown_to > fit.typed; /* the shown part stays, to its end */
    if (is_shown) {
        rest.len = p->shown_to - fit.typed;
        item.is_whole = true;
    } else if (!place->is_block) {
        const char *end = memchr(rest.ptr, '\n', rest.len);
        item.is_whole |= end != NULL;
        if (end) rest.len = (size_t)(end - rest.ptr);
    } else {
        rest.len = count_lines(rest, limits->lines_max, &is_full);
        item.is_whole |= is_full;
        if (!item.is_whole && limits->takes_lines) { /* the last line is incomplete */
            while (rest.len && rest.ptr[rest.len - 1] != '\n') rest.len--;
            item.is_whole = rest.len && without_blanks(rest);
        }
    }
    if (!item.is_whole) return item;
    rest.len = without_blanks(rest);
    if (!is_shown) rest.len = sure_bytes(p, fit.typed, rest, limits->logprob_min);
    rest.len = fit_brackets(rest, before, place->after, is_shown || place->is_block,
                            &item.replaces);
    item.len = without_blanks(rest);
    if (is_said(place->after, (view){rest.ptr, item.len})) item.len = 0;
    if (item.replaces < fit.n_closers) item.len = 0;
    if (!item.len) item.replaces = 0;
    return item;
}
