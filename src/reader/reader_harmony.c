/* reader_harmony.c - owns Harmony: messages with a header, whose channel and recipient give their
 * kind.  An answer begins inside the first header, after the role. */
#include "reader/reader_parts.h"

static reader_state in_header, in_text, in_thought, in_call;

static const char *const marks[] = {"<|end|>", "<|call|>", "<|return|>", "<|start|>",
                                    "<|channel|>"};
enum { MARK_START = 3, MARK_CHANNEL = 4 };

static bool ends_with(const cerium_reader *r, view mark)
{
    return r->held.len >= mark.len &&
           memcmp(r->held.ptr + r->held.len - mark.len, mark.ptr, mark.len) == 0;
}

static void begin_header(cerium_reader *r)
{
    reader_say_held(r);
    r->held.len = 0;
    r->n_window = 0;
    r->newlines = 0;
    r->state = in_header;
}

bool reader_harmony_thinks(const cerium_reader *r) { return r->state == in_thought; }

void reader_harmony_begin(cerium_reader *r)
{
    r->at_start = true;
    r->state = in_header;
}

/* ---- headers ---- */

/* The parts of a header: a role, a recipient, a channel and a type of content. */
static bool is_header(const cerium_reader *r)
{
    static const view begins[] = {{"<|", 2}, {" to=", 4}, {"assistant", 9}};
    view held = {r->held.ptr, r->held.len};
    for (size_t i = 0; i < ARRAY_LEN(begins); i++)
        if (view_starts(held, begins[i]) || view_starts(begins[i], held)) return true;
    return held.len == 0;
}

static view find_last(view text, view part)
{
    for (size_t i = text.len >= part.len ? text.len - part.len + 1 : 0; i-- > 0;)
        if (memcmp(text.ptr + i, part.ptr, part.len) == 0)
            return (view){text.ptr + i + part.len, text.len - i - part.len};
    return (view){0};
}

/* The letters at the beginning of text. */
static view word(view text)
{
    size_t n = 0;
    while (n < text.len && text.ptr[n] != ' ' && text.ptr[n] != '<') n++;
    return (view){text.ptr, n};
}

static void begin_message(cerium_reader *r)
{
    static const view prefix = {"functions.", 10};
    view header = {r->held.ptr, r->held.len};
    view to = word(find_last(header, VIEW(" to="))), channel;
    channel = word(find_last(header, VIEW("<|channel|>")));
    if (view_starts(to, prefix)) to = (view){to.ptr + prefix.len, to.len - prefix.len};
    r->held.len = 0;
    if (r->n_tools && to.len && to.len <= sizeof r->name) {
        memcpy(r->name, to.ptr, to.len);
        r->n_name = to.len;
        r->separates = false;
        reader_arguments_begin(r);
        r->state = in_call;
    } else if (view_equal(channel, VIEW("analysis"))) {
        r->fresh = true;
        r->state = in_thought;
    } else {
        r->separates = r->has_message;
        r->fresh = true;
        r->state = in_text;
    }
}

/* Not a header: it is text. */
static void give_up(cerium_reader *r)
{
    for (size_t i = 0; i < r->held.len; i++) reader_say(r, r->held.ptr[i]);
    r->has_message = true;
    r->held.len = 0;
    r->state = in_text;
}

static bool in_header(cerium_reader *r, char c)
{
    if (c == '\n' || r->held.len == READER_HEADER_BYTES_MAX || !reader_hold(r, c)) {
        give_up(r);
        return false;
    }
    if (!is_header(r)) give_up(r);
    else if (ends_with(r, VIEW("<|message|>"))) begin_message(r);
    else if (ends_with(r, VIEW("<|start|>")) || ends_with(r, VIEW("<|end|>"))) begin_header(r);
    return true;
}

/* ---- messages ---- */

static void message_ended(cerium_reader *r, int mark)
{
    static const char channel[] = "<|channel|>";
    begin_header(r);
    if (mark == MARK_CHANNEL)
        for (size_t i = 0; channel[i] && reader_hold(r, channel[i]);) i++;
}

static bool in_text(cerium_reader *r, char c)
{
    char out;
    int mark;
    r->window[r->n_window++] = c;
    while ((mark = reader_mark(r, marks, ARRAY_LEN(marks), &out)) == -1) {
        reader_say(r, out);
        r->has_message = true;
    }
    if (mark >= 0) message_ended(r, mark);
    return true;
}

static bool in_thought(cerium_reader *r, char c)
{
    char out;
    int mark;
    r->window[r->n_window++] = c;
    while ((mark = reader_mark(r, marks, ARRAY_LEN(marks), &out)) == -1) reader_think(r, out);
    if (mark >= 0) message_ended(r, mark);
    return true;
}

/* Arguments end with their JSON, or with the message if they are text. */
static void put_argument(cerium_reader *r, char c)
{
    if (!r->called) return;
    if (r->mode != ARGS_BROKEN && reader_arguments_byte(r, c) == SCAN_BAD) r->mode = ARGS_BROKEN;
    else if (r->mode == ARGS_BROKEN) reader_put(r, CERIUM_PART_ARGUMENTS, &c, 1);
}

/* Names of control tokens in a string are text about them. */
static bool in_call(cerium_reader *r, char c)
{
    char out;
    int mark;
    if (r->called && r->mode != ARGS_BROKEN && json_scan_in_string(&r->scan)) {
        put_argument(r, c);
        return true;
    }
    r->window[r->n_window++] = c;
    while ((mark = reader_mark(r, marks, ARRAY_LEN(marks), &out)) == -1) put_argument(r, out);
    if (mark < 0) return true;
    reader_arguments_end(r);
    reader_call_end(r);
    message_ended(r, mark);
    return true;
}

void reader_harmony_end(cerium_reader *r)
{
    const view header = {r->held.ptr, r->held.len};
    r->cut = r->state == in_header && r->n_tools && find_last(header, VIEW(" to=")).ptr;
    for (size_t i = 0; i < r->n_window; i++) {
        if (r->state == in_text && r->whole) reader_say(r, r->window[i]);
        if (r->state == in_thought) reader_think(r, r->window[i]);
        if (r->state == in_call) put_argument(r, r->window[i]);
    }
    bool broken = r->mode == ARGS_BROKEN;
    if (r->state == in_thought) r->newlines = 0;
    if (r->called) reader_arguments_end(r);
    if (r->called && broken && r->whole) reader_call_end(r);
}
