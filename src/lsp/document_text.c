/* document_text.c - one flat buffer, and an array of the beginnings of its lines. */
#include "lsp/document_text.h"

static const uint32_t *starts_of(const lsp_text *t)
{
    return (const uint32_t *)(const void *)t->starts.ptr;
}

static size_t n_starts(const lsp_text *t) { return t->starts.len / sizeof(uint32_t); }

/* Does a line begin at p > 0? */
static bool begins_line(view text, size_t p)
{
    char before = text.ptr[p - 1];
    return before == '\n' || (before == '\r' && (p == text.len || text.ptr[p] != '\n'));
}

/* The number of line starts below p. */
static size_t starts_below(const lsp_text *t, size_t p)
{
    const uint32_t *starts = starts_of(t);
    size_t low = 0, high = n_starts(t);
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (starts[middle] < p) low = middle + 1;
        else high = middle;
    }
    return low;
}


/* The number of lines that begin in [from, from + with.len] after `with` replaced [from, to). */
static size_t count_after(const lsp_text *t, size_t from, size_t to, view with)
{
    const view text = lsp_text_view(t);
    size_t n = 0;
    for (size_t i = from ? 0 : 1; i <= with.len; i++) {
        char before = i ? with.ptr[i - 1] : text.ptr[from - 1];
        char next = i < with.len ? with.ptr[i] : to < text.len ? text.ptr[to] : 0;
        n += before == '\n' || (before == '\r' && next != '\n');
    }
    return n;
}

int lsp_text_replace(lsp_text *t, size_t from, size_t to, view with)
{
    CHECK(from <= to && to <= t->text.len);
    t->text.max = LSP_TEXT_BYTES_MAX;
    t->starts.max = (size_t)LSP_TEXT_BYTES_MAX * sizeof(uint32_t);
    const size_t gone = to - from, rest = t->text.len - to;
    const size_t low = starts_below(t, from), high = starts_below(t, to + 1);
    const size_t found = count_after(t, from, to, with), n_old = n_starts(t);
    if (with.len > gone) RETURN_IF(bytes_reserve(&t->text, with.len - gone));
    if (found > high - low)
        RETURN_IF(bytes_reserve(&t->starts, (found - (high - low)) * sizeof(uint32_t)));
    char *text = t->text.ptr;
    if (rest) memmove(text + from + with.len, text + to, rest);
    if (with.len) memcpy(text + from, with.ptr, with.len);
    t->text.len = from + with.len + rest;
    uint32_t *starts = (uint32_t *)(void *)t->starts.ptr;
    if (n_old > high)
        memmove(starts + low + found, starts + high, (n_old - high) * sizeof *starts);
    t->starts.len = (low + found + n_old - high) * sizeof *starts;
    size_t at = low;
    for (size_t p = from ? from : 1; p <= from + with.len; p++)
        if (begins_line(lsp_text_view(t), p)) starts[at++] = (uint32_t)p;
    CHECK(at == low + found);
    for (; at < n_starts(t); at++) starts[at] = (uint32_t)(starts[at] + with.len - gone);
    return CERIUM_OK;
}

int lsp_text_set(lsp_text *t, view text)
{
    return lsp_text_replace(t, 0, t->text.len, text);
}

void lsp_text_close(lsp_text *t)
{
    bytes_free(&t->text);
    bytes_free(&t->starts);
}

/* ---- lines ---- */

uint32_t lsp_text_lines(const lsp_text *t) { return (uint32_t)n_starts(t) + 1; }

uint32_t lsp_text_line_at(const lsp_text *t, size_t offset)
{
    return (uint32_t)starts_below(t, offset + 1);
}

void lsp_text_line(const lsp_text *t, uint32_t line, size_t *from, size_t *to)
{
    const size_t n = n_starts(t);
    const char *text = t->text.ptr;
    size_t begin = t->text.len, end = t->text.len;
    if (line <= n) begin = line ? starts_of(t)[line - 1] : 0;
    if (line < n) {
        end = starts_of(t)[line];
        if (end > begin && text[end - 1] == '\n') end--;
        if (end > begin && text[end - 1] == '\r') end--;
    }
    *from = begin;
    *to = end;
}

/* ---- positions ---- */

static bool is_rest(char c) { return ((unsigned char)c & 0xC0) == 0x80; }

void lsp_text_difference(view was, size_t *from, size_t *to, view *with)
{
    const size_t most = was.len < with->len ? was.len : with->len;
    size_t same = 0, tail = 0;
    while (same < most && was.ptr[same] == with->ptr[same]) same++;
    while (same && ((same < was.len && is_rest(was.ptr[same])) ||
                    (same < with->len && is_rest(with->ptr[same]))))
        same--;
    while (tail < most - same && was.ptr[was.len - 1 - tail] == with->ptr[with->len - 1 - tail])
        tail++;
    while (tail && is_rest(was.ptr[was.len - tail])) tail--;
    *from = same;
    *to = was.len - tail;
    *with = (view){with->ptr + same, with->len - same - tail};
}

/* Units of the character at c, given its first byte. */
static uint32_t units_of(char c, lsp_encoding encoding)
{
    return encoding == LSP_UTF16 && (unsigned char)c >= 0xF0 ? 2 : 1;
}

size_t lsp_text_offset(const lsp_text *t, lsp_position p, lsp_encoding encoding)
{
    size_t from, to, at;
    const char *text = t->text.ptr;
    lsp_text_line(t, p.line, &from, &to);
    if (encoding == LSP_UTF8) {
        at = p.character < to - from ? from + p.character : to;
        while (at > from && at < to && is_rest(text[at])) at--;
        return at;
    }
    uint32_t left = p.character;
    for (at = from; at < to && left;) {
        uint32_t units = units_of(text[at], encoding);
        if (units > left) break; /* within a surrogate pair */
        left -= units;
        do at++;
        while (at < to && is_rest(text[at]));
    }
    return at;
}

lsp_position lsp_text_position(const lsp_text *t, size_t offset, lsp_encoding encoding)
{
    size_t from, to;
    uint32_t units = 0;
    const char *text = t->text.ptr;
    if (offset > t->text.len) offset = t->text.len;
    const uint32_t line = lsp_text_line_at(t, offset);
    lsp_text_line(t, line, &from, &to);
    if (offset > to) offset = to;
    if (encoding == LSP_UTF8) return (lsp_position){line, (uint32_t)(offset - from)};
    for (size_t at = from; at < offset; at++)
        if (!is_rest(text[at])) units += units_of(text[at], encoding);
    return (lsp_position){line, units};
}
