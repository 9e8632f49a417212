/* reader_inst.c - owns calls in the form of Mistral's models: [TOOL_CALLS] and a list of objects,
 * or [TOOL_CALLS]name[ARGS]{...}, where an id may come before the arguments. */
#include "reader/reader_parts.h"

static reader_state first, in_list, in_name, in_mark, in_id, in_arguments;

static bool fail(cerium_reader *r, bool held)
{
    if (held) r->held.len--;
    r->n_window = 0;
    reader_give_up(r);
    return false;
}

void reader_inst_begin(cerium_reader *r)
{
    r->n_name = 0;
    r->n_window = 0;
    r->called = false;
    r->state = first;
}

static bool first(cerium_reader *r, char c)
{
    if (!byte_is_blank(c) && c != '[') {
        r->state = in_name;
        return false;
    }
    if (!reader_hold(r, c)) return fail(r, false);
    if (c == '[') r->state = in_list;
    return true;
}

static bool in_list(cerium_reader *r, char c)
{
    if (!reader_hold(r, c)) return fail(r, false);
    if (byte_is_blank(c)) return true;
    if (c != '{') return fail(r, true);
    reader_object_begin(r, IN_LIST);
    return true;
}

static void begin_arguments(cerium_reader *r)
{
    r->held.len = 0;
    reader_arguments_begin(r);
    r->state = in_arguments;
}

static bool in_name(cerium_reader *r, char c)
{
    if (r->n_name && c == '{') {
        begin_arguments(r);
        return false;
    }
    if (!reader_hold(r, c)) return fail(r, false);
    if (r->n_name && c == '[') {
        r->window[r->n_window++] = c;
        r->state = in_mark;
        return true;
    }
    if (byte_is_blank(c) || c == '{' || c == '[' || r->n_name == sizeof r->name)
        return fail(r, true);
    r->name[r->n_name++] = c;
    return true;
}

static bool in_mark(cerium_reader *r, char c)
{
    static const char *const marks[] = {"[ARGS]", "[CALL_ID]"};
    char out;
    if (!reader_hold(r, c)) return fail(r, false);
    r->window[r->n_window++] = c;
    int mark = reader_mark(r, marks, ARRAY_LEN(marks), &out);
    if (mark == -1) return fail(r, true);
    if (mark == 0) begin_arguments(r);
    if (mark == 1) r->state = in_id;
    return true;
}

static bool in_id(cerium_reader *r, char c)
{
    if (!reader_hold(r, c)) return fail(r, false);
    if (c != '[') return true;
    r->window[r->n_window++] = c;
    r->state = in_mark;
    return true;
}

static bool in_arguments(cerium_reader *r, char c)
{
    scan_result result = reader_arguments_byte(r, c);
    if (result == SCAN_BAD) r->state = reader_broken;
    if (result == SCAN_DONE || result == SCAN_BEFORE) reader_after_call(r);
    return result != SCAN_BEFORE;
}
