/* reader_probed.c - owns calls in the form of the model's own template, with a JSON object for
 * arguments after the name (call_marks.h).  White space may be any. */
#include "reader/reader_parts.h"

static reader_state in_section, in_name, in_mark, in_arguments, in_end;

enum { ID_BYTES_MAX = 64 };

/* Of names and ids. */
static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           c == '_' || c == '-' || c == '.';
}

typedef enum { FITS, FITS_WHOLE, FITS_NOT } fit;

/* c after the read part of a mark: *at is its rest, NULL: it no longer fits. */
static fit follow(cerium_reader *r, const char **at, char c)
{
    const char *p = *at;
    if (!p) return FITS_NOT;
    if (*p == CALL_MARK_ANY && is_letter(c) && r->n_id < ID_BYTES_MAX) {
        r->n_id++;
        return FITS;
    }
    if (*p == CALL_MARK_ANY && r->n_id) {
        p++;
        r->n_id = 0;
    }
    while (byte_is_blank(*p) && !byte_is_blank(c)) p++;
    if (*p == c) p++;
    else if (!byte_is_blank(c)) p = NULL;
    *at = p;
    if (!p) return FITS_NOT;
    return p[strspn(p, " \t\n\r")] ? FITS : FITS_WHOLE;
}

static bool fail(cerium_reader *r, bool taken)
{
    if (!taken && r->held.len) r->held.len--;
    r->n_window = 0;
    reader_give_up(r);
    return taken;
}

/* ---- around calls ---- */

static void begin_name(cerium_reader *r)
{
    r->n_name = r->n_id = 0;
    r->called = r->closing = false;
    r->state = in_name;
}

void reader_probed_section(cerium_reader *r)
{
    r->n_id = 0;
    r->fits = r->marks.open;
    r->fits_end = *r->marks.section_end ? r->marks.section_end : NULL;
    r->state = in_section;
}

void reader_probed_begin(cerium_reader *r)
{
    r->n_window = 0;
    begin_name(r);
}

/* After a call: the next, or the end of all. */
void reader_probed_next(cerium_reader *r)
{
    reader_after_call(r);
    if (!*r->marks.section) return;
    reader_probed_section(r);
    r->closing = true;
}

/* Between calls are white space and commas. */
static bool in_section(cerium_reader *r, char c)
{
    const bool fresh = r->fits == r->marks.open;
    if (!reader_hold(r, c)) return fail(r, false);
    if (fresh && (byte_is_blank(c) || c == ',')) {
        r->held.len -= r->closing;
        return true;
    }
    const fit end = follow(r, &r->fits_end, c), open = follow(r, &r->fits, c);
    if (open == FITS_WHOLE) begin_name(r);
    else if (end == FITS_WHOLE) reader_after_call(r);
    else if (open == FITS_NOT && end == FITS_NOT) return fail(r, false);
    return true;
}

/* ---- a call ---- */

static bool in_name(cerium_reader *r, char c)
{
    if (!reader_hold(r, c)) return fail(r, false);
    if (is_letter(c) && r->n_name < sizeof r->name) {
        r->name[r->n_name++] = c;
        return true;
    }
    if (!r->n_name) return byte_is_blank(c) || fail(r, false);
    r->held.len--;
    r->fits = r->marks.name_end;
    r->state = in_mark;
    return false;
}

static bool in_mark(cerium_reader *r, char c)
{
    if (!reader_hold(r, c)) return fail(r, false);
    const fit mark = follow(r, &r->fits, c);
    if (mark == FITS_NOT) return fail(r, false);
    if (mark == FITS_WHOLE) {
        r->held.len = 0;
        reader_arguments_begin(r);
        r->state = in_arguments;
    }
    return true;
}

static bool in_arguments(cerium_reader *r, char c)
{
    scan_result result = reader_arguments_byte(r, c);
    if (result == SCAN_BAD) r->state = reader_broken;
    if (result == SCAN_DONE || result == SCAN_BEFORE) {
        r->closing = true;
        r->n_id = 0;
        r->fits = r->marks.end;
        r->state = in_end;
        if (!*r->marks.end) reader_probed_next(r);
    }
    return result != SCAN_BEFORE;
}

/* A call is whole without it. */
static bool in_end(cerium_reader *r, char c)
{
    const fit end = follow(r, &r->fits, c);
    if (end != FITS) reader_probed_next(r);
    return end != FITS_NOT;
}

const char *reader_probed_call_end(const call_marks *marks)
{
    const char *end = strchr(marks->end, '<');
    return end && !strchr(end, CALL_MARK_ANY) ? end : strchr(marks->section_end, '<');
}
