/* infill_stop.c - reads a completion byte by byte, as lines. */
#include "protocol/infill_stop.h"

#include <ctype.h>

enum {
    TEXT_MAX = 4 << 20,
    BEFORE_BYTES = 4096, /* bytes read before the hole, and whole lines of it at most: */
    BEFORE_LINES = 2 * INFILL_STOP_PERIOD_LINES,
    ROUND_TIMES = 4,  /* repeated within a line this often and */
    ROUND_BYTES = 24, /* this many bytes: a loop */
};

static bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\r'; }

static view stripped(view line) { return view_trim_end(line, " \t\r"); }

static uint32_t indent_of(view line)
{
    return (uint32_t)(line.len - view_trim_start(line, " \t\r").len);
}

static view code_of(view line)
{
    uint32_t n = indent_of(line);
    return (view){line.ptr + n, line.len - n};
}

static bool has_word(const char *text, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (isalnum((unsigned char)text[i])) return true;
    return false;
}

/* The line at a place, without its break. */
static view line_at(const infill_stop *h, size_t at)
{
    const char *from = h->text.ptr + at, *end = memchr(from, '\n', h->text.len - at);
    return (view){from, end ? (size_t)(end - from) : h->text.len - at};
}

/* ---- going round ---- */

/* Do the last `period` lines repeat the `period` lines above them?  at[i] is the line i above this
 * one, and at[0] this one.  Repetition that the file itself has may continue. */
static bool would_repeat(const infill_stop *h, const size_t *at, size_t n, size_t period)
{
    if (n < 2 * period) return false;
    for (size_t i = 1; i < period; i++)
        if (!view_equal(line_at(h, at[i]), line_at(h, at[i + period]))) return false;
    bool in_file = at[period] < h->begin;
    if (in_file && n > 2 * period &&
        view_equal(line_at(h, at[period]), line_at(h, at[2 * period])))
        return false;
    return has_word(h->text.ptr + at[period], at[0] - at[period]);
}

static void begin_line(infill_stop *h)
{
    size_t at[BEFORE_LINES + 1], n = 0;
    h->line = h->text.len;
    h->n_again = 0;
    memset(h->runs, 0, sizeof h->runs);
    at[n++] = h->line;
    for (size_t from = h->line; from && n < ARRAY_LEN(at); at[n++] = from)
        do from--;
        while (from && h->text.ptr[from - 1] != '\n');
    for (size_t period = 1; period <= INFILL_STOP_PERIOD_LINES; period++)
        if (would_repeat(h, at, n, period)) h->again[h->n_again++] = at[period];
}

/* Checks within a line.  Returns whether it may be a loop; sets h->end when it is one. */
static bool goes_round(infill_stop *h)
{
    const size_t at = h->text.len - 1;
    bool may = false;
    for (size_t p = 2; p < INFILL_STOP_PERIOD_BYTES; p++) {
        uint32_t *run = &h->runs[p];
        *run = at >= h->line + p && h->text.ptr[at] == h->text.ptr[at - p] ? *run + 1 : 0;
        if (*run < p || !has_word(h->text.ptr + at - p, p)) continue;
        may = true;
        if (*run + p >= ROUND_TIMES * p && *run + p >= ROUND_BYTES) h->end = INFILL_STOP_ROUND;
    }
    return may;
}

/* ---- blocks ---- */

static bool is_closer(char c) { return c == '}' || c == ')' || c == ']'; }

/* Is the block's end, with this bracket, still missing after the hole? */
static bool may_close(const infill_stop *h, uint32_t indent, char c)
{
    uint32_t follows = indent_of(h->follow);
    if (!h->follow.len || follows < indent) return true;
    return follows == indent && h->follow.ptr[follows] != c;
}

/* The first byte of a line that is not blank. */
static void begin_code(infill_stop *h, char c)
{
    const uint32_t indent = (uint32_t)(h->text.len - 1 - h->line);
    const bool own_line = h->line <= h->begin, begins = !h->is_known && indent >= h->indent;
    h->is_known = true;
    if (begins) h->indent = indent;
    if (!own_line && indent < h->indent_min) h->end = INFILL_STOP_LEFT;
    if (begins || own_line || !h->is_block || h->end) return;
    if (indent < h->indent) {
        h->is_closing = is_closer(c) && may_close(h, indent, c);
        if (!h->is_closing) h->end = INFILL_STOP_LEFT;
    } else if (indent == 0 && !is_closer(c) && h->solid > h->begin && h->line - h->solid > 1) {
        h->end = INFILL_STOP_LEFT; /* after an empty line, at the left: another block */
    }
}

/* ---- bytes ---- */

/* The line as far as it is read; the same, or its beginning. */
static infill_stop_end end_at(const infill_stop *h, bool is_whole)
{
    view line = stripped((view){h->text.ptr + h->line, h->text.len - h->line});
    if (h->follow.len && (is_whole ? view_equal(line, h->follow) : view_starts(h->follow, line)))
        return INFILL_STOP_MET;
    for (uint32_t i = 0; i < h->n_again; i++) { /* equally or further indented */
        view other = stripped(line_at(h, h->again[i]));
        if (indent_of(line) < indent_of(other)) continue;
        view a = code_of(line), b = code_of(other);
        if (is_whole ? view_equal(a, b) : view_starts(b, a)) return INFILL_STOP_ROUND;
    }
    return INFILL_STOP_NONE;
}

/* Does the current line contain text of the completion that is not blank? */
static bool is_own(const infill_stop *h) { return h->solid > h->line && h->solid > h->begin; }

static void end_line(infill_stop *h)
{
    if (h->is_block && is_own(h)) h->end = end_at(h, true);
    if (!h->is_closing || h->end) return;
    h->is_closing = false; /* "} else {" continues */
    if (strchr("{([:,", h->text.ptr[h->solid - 1])) return;
    h->shown = h->solid;
    h->end = INFILL_STOP_LEFT;
}

/* Process the last byte of h->text, which is not a line break.  Returns whether all text so far may
 * be shown. */
static bool take(infill_stop *h, char c)
{
    const bool may_be_loop = h->is_block && goes_round(h);
    if (is_blank(c)) {
        if (h->is_block || h->solid <= h->line) return false; /* with the text after it */
    } else {
        if (h->solid <= h->line) begin_code(h, c);
        h->solid = h->text.len;
        if (h->end && end_at(h, false) == INFILL_STOP_MET) h->end = INFILL_STOP_MET;
    }
    if (h->end) return false;
    return !h->is_block || (!may_be_loop && !end_at(h, false));
}

static int show_from(infill_stop *h, size_t from, bytes *show)
{
    if (h->shown <= from) return CERIUM_OK;
    return bytes_append(show, h->text.ptr + from, h->shown - from);
}

int infill_stop_feed(infill_stop *h, view text, bytes *show)
{
    if (h->end) return CERIUM_OK;
    if (!h->is_block && !h->indent_min) return bytes_append(show, text.ptr, text.len);
    const size_t from = h->shown;
    for (size_t i = 0; i < text.len && !h->end; i++) {
        const char c = text.ptr[i];
        if (c == '\n') end_line(h);
        if (h->end) break;
        RETURN_IF(bytes_append(&h->text, &c, 1));
        if (c == '\n') begin_line(h);
        else if (take(h, c)) h->shown = h->text.len;
    }
    return show_from(h, from, show);
}

int infill_stop_finish(infill_stop *h, bytes *show)
{
    const size_t from = h->shown;
    if (h->end || (!h->is_block && !h->indent_min)) return CERIUM_OK;
    if (h->is_block && is_own(h)) h->end = end_at(h, true);
    if (!h->end && (h->solid > from || !h->is_block))
        h->shown = h->is_block ? h->solid : h->text.len;
    return show_from(h, from, show);
}

size_t infill_stop_broken(const infill_stop *h)
{
    const size_t from = h->line > h->begin ? h->line : h->begin;
    return h->end == INFILL_STOP_ROUND && h->shown > from ? h->shown - from : 0;
}

/* ---- opening ---- */

static view first_line_after(view after)
{
    const char *end = after.ptr + after.len;
    for (const char *at = after.len ? memchr(after.ptr, '\n', after.len) : NULL; at;) {
        const char *from = ++at;
        at = at < end ? memchr(at, '\n', (size_t)(end - at)) : NULL;
        view line = stripped((view){from, (size_t)((at ? at : end) - from)});
        if (line.len) return line;
    }
    return (view){NULL, 0};
}

int infill_stop_open(infill_stop *h, view before, view after, uint32_t indent_min, bool is_block)
{
    size_t n = 0, n_lines = 0, line;
    *h = (infill_stop){.indent_min = indent_min, .is_block = is_block, .text = {.max = TEXT_MAX}};
    if (!is_block && !indent_min) return CERIUM_OK;
    for (size_t i = 1; i <= before.len && i <= BEFORE_BYTES && n_lines <= BEFORE_LINES; i++) {
        bool is_break = before.ptr[before.len - i] == '\n';
        if (is_break) n_lines++;
        if (is_break) n = i - 1; /* whole lines */
        else if (i == before.len) n = i;
    }
    RETURN_IF(bytes_reserve(&h->text, n + 1));
    if (n) RETURN_IF(bytes_append(&h->text, before.ptr + before.len - n, n));
    for (line = n; line && h->text.ptr[line - 1] != '\n';) line--;
    const view own = {h->text.ptr + line, n - line};
    h->begin = n;
    h->text.len = line; /* the text above the hole's line */
    begin_line(h);
    h->text.len = h->shown = n;
    h->solid = line + stripped(own).len;
    if (h->solid > line) h->indent = indent_of(own);
    if (is_block) h->follow = first_line_after(after);
    return CERIUM_OK;
}

void infill_stop_close(infill_stop *h) { bytes_free(&h->text); }

const char *infill_stop_end_name(infill_stop_end end)
{
    static const char *const names[] = {"", "block", "suffix", "loop"};
    return names[end];
}
