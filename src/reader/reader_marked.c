/* reader_marked.c - owns calls in the form of the model's own template, with a tag for each
 * argument (call_marks.h).  reader_xml.c converts their values. */
#include "reader/reader_parts.h"

static reader_state in_name, between, in_key, in_value;

static void finish(cerium_reader *r)
{
    reader_xml_arguments_end(r);
    reader_call_end(r);
    reader_give_up(r); /* text between arguments that is not one is put out after the call */
    reader_after_call(r);
}

void reader_marked_begin(cerium_reader *r)
{
    r->n_name = 0;
    r->n_window = 0;
    r->called = false;
    r->state = in_name;
}

/* The name ends where the first argument begins, or the call ends, or at a mark of its own. */
static bool in_name(cerium_reader *r, char c)
{
    const char *marks[3] = {r->marks.key, r->marks.end, r->marks.name_end};
    char out;
    int mark;
    if (!reader_hold(r, c)) {
        r->n_window = 0;
        reader_give_up(r);
        return true;
    }
    r->window[r->n_window++] = c;
    while ((mark = reader_mark(r, marks, *r->marks.name_end ? 3 : 2, &out)) == -1) {
        if (byte_is_blank(out)) continue;
        if (r->n_name == sizeof r->name) {
            r->n_window = 0;
            reader_give_up(r);
            return true;
        }
        r->name[r->n_name++] = out;
    }
    if (mark < 0) return true;
    if (!r->n_name) {
        reader_give_up(r);
        return true;
    }
    reader_xml_function(r);
    r->n_key = 0;
    r->state = mark == 0 ? in_key : between;
    if (mark == 1) finish(r);
    return true;
}

static bool between(cerium_reader *r, char c)
{
    const char *marks[2] = {r->marks.key, r->marks.end};
    char out;
    int mark;
    r->window[r->n_window++] = c;
    while ((mark = reader_mark(r, marks, 2, &out)) == -1)
        if (!byte_is_blank(out) || r->held.len) reader_hold(r, out);
    r->n_key = 0;
    if (mark == 0) r->state = in_key;
    if (mark == 1) finish(r);
    return true;
}

static bool in_key(cerium_reader *r, char c)
{
    const char *marks[2] = {r->marks.key_end, r->marks.json_key_end};
    char out;
    int mark;
    r->window[r->n_window++] = c;
    while ((mark = reader_mark(r, marks, *r->marks.json_key_end ? 2 : 1, &out)) == -1)
        if (r->n_key < sizeof r->key) r->key[r->n_key++] = out;
    if (mark < 0) return true;
    reader_xml_value_begin(r);
    r->state = in_value;
    return true;
}

static bool in_value(cerium_reader *r, char c)
{
    const char *marks[1] = {r->marks.value_end};
    char out;
    int mark;
    r->window[r->n_window++] = c;
    while ((mark = reader_mark(r, marks, 1, &out)) == -1) reader_xml_value_byte(r, out);
    if (mark < 0) return true;
    reader_xml_value_end(r);
    r->state = between;
    return true;
}

void reader_marked_end(cerium_reader *r)
{
    if (r->state == in_value) reader_xml_value_flush(r);
}
