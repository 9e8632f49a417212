/* reader_object.c - owns calls that are objects: {"name": "...", "arguments": {...}}, and
 * arguments as they are streamed. */
#include "reader/reader_parts.h"

/* ---- arguments ---- */

void reader_arguments_begin(cerium_reader *r)
{
    r->tool = reader_find_tool(r);
    r->scan = (json_scan){0};
    r->text = (json_text){0};
    r->mode = ARGS_FIRST;
    r->n_ahead = 0;
    reader_call(r);
}

static void put_arguments(cerium_reader *r, const char *text, size_t len)
{
    reader_put(r, CERIUM_PART_ARGUMENTS, text, len);
}

/* Unescaped line feeds in strings, which models write, become JSON. */
static void put_raw(cerium_reader *r, char c)
{
    char out[JSON_TEXT_MAX] = {c};
    bool escape = json_scan_in_string(&r->scan) && (unsigned char)c < 0x20;
    put_arguments(r, out, escape ? json_escape_byte(c, out) : 1);
}

static void put_decoded(cerium_reader *r, char c)
{
    char out[JSON_TEXT_MAX];
    size_t n;
    text_result result = json_text_byte(&r->text, c, out, &n);
    put_arguments(r, out, n);
    if (result == TEXT_BAD) put_arguments(r, &c, 1);
    if (result != TEXT_MORE) r->mode = ARGS_REST;
}

/* A tool that takes text gets the value of {"input": "..."}; anything else unchanged. */
static void search_input(cerium_reader *r, char c)
{
    static const char want[] = "{\"input\":\"";
    if (byte_is_blank(c) && (r->n_ahead == 1 || r->n_ahead >= 8)) return;
    if (r->n_ahead < sizeof want - 1 && c == want[r->n_ahead]) {
        r->ahead[r->n_ahead++] = c;
        if (r->n_ahead == sizeof want - 1) r->mode = ARGS_TEXT;
        return;
    }
    put_arguments(r, r->ahead, r->n_ahead);
    r->mode = ARGS_RAW;
    put_raw(r, c);
}

static void put_argument_byte(cerium_reader *r, char c)
{
    switch (r->mode) {
    case ARGS_FIRST:
        if (byte_is_blank(c)) return;
        r->mode = c == '"' ? ARGS_TEXT
                  : c == '{' && r->tool && !r->tool->parameters ? ARGS_SEARCH : ARGS_RAW;
        if (r->mode == ARGS_SEARCH) search_input(r, c);
        if (r->mode == ARGS_RAW) put_raw(r, c);
        return;
    case ARGS_RAW: put_raw(r, c); return;
    case ARGS_TEXT: put_decoded(r, c); return;
    case ARGS_SEARCH: search_input(r, c); return;
    case ARGS_BROKEN:
    case ARGS_REST: return;
    }
}

scan_result reader_arguments_byte(cerium_reader *r, char c)
{
    scan_result result = json_scan_byte(&r->scan, c);
    if (result != SCAN_BEFORE) put_argument_byte(r, c);
    if (result == SCAN_DONE || result == SCAN_BEFORE || result == SCAN_BAD) {
        if (r->mode == ARGS_SEARCH) put_arguments(r, r->ahead, r->n_ahead);
        r->mode = ARGS_REST;
    }
    if (result == SCAN_DONE || result == SCAN_BEFORE) reader_call_end(r);
    return result;
}

bool reader_broken(cerium_reader *r, char c)
{
    char out;
    int mark;
    r->window[r->n_window++] = c;
    while ((mark = reader_mark(r, &r->call_end, r->call_end != NULL, &out)) == -1)
        put_arguments(r, &out, 1);
    if (mark < 0) return true;
    reader_call_end(r);
    reader_after_call(r);
    if (r->after_broken) r->after_broken(r);
    return true;
}

/* ---- the object ---- */

static reader_state first_member, in_key, after_key, in_name, in_early, in_arguments,
    in_value, after_member, after_object;

static bool fail(cerium_reader *r, bool taken)
{
    if (taken && r->held.len) r->held.len--;
    reader_give_up(r);
    return false;
}

void reader_object_begin(cerium_reader *r, object_context place)
{
    r->place = place;
    r->n_name = r->n_key = 0;
    r->early = r->early_end = 0;
    r->called = false;
    r->has_arguments = r->has_others = false;
    r->closing = false;
    r->state = first_member;
}

static bool begin_key(cerium_reader *r)
{
    r->n_key = 0;
    r->text = (json_text){0};
    r->colon = false;
    r->state = in_key;
    return true;
}

static bool first_member(cerium_reader *r, char c)
{
    if (!reader_hold(r, c)) return fail(r, false);
    if (byte_is_blank(c)) return true;
    return c == '"' ? begin_key(r) : fail(r, true);
}

/* A string that is kept: a key or the name.  Longer ones than these do not belong to calls. */
static text_result take_string(cerium_reader *r, char c, char *to, size_t *n)
{
    char out[JSON_TEXT_MAX];
    size_t n_out;
    text_result result = json_text_byte(&r->text, c, out, &n_out);
    if (n_out > READER_NAME_BYTES_MAX - *n) return TEXT_BAD;
    memcpy(to + *n, out, n_out);
    *n += n_out;
    return result;
}

static bool in_key(cerium_reader *r, char c)
{
    if (!reader_hold(r, c)) return fail(r, false);
    text_result result = take_string(r, c, r->key, &r->n_key);
    if (result == TEXT_BAD) return fail(r, true);
    if (result == TEXT_END) r->state = after_key;
    return true;
}

static bool key_is(const cerium_reader *r, const char *name)
{
    return view_equal((view){r->key, r->n_key}, view_of(name));
}

/* If a call has no mark, only those of known tools are calls. */
static bool may_call(const cerium_reader *r, char first)
{
    return r->place != IN_LINE || (first == '{' && reader_find_tool(r));
}

static bool begin_value(cerium_reader *r, char c)
{
    bool arguments = key_is(r, "arguments") || key_is(r, "parameters");
    r->scan = (json_scan){0};
    if (!r->has_arguments && key_is(r, "name") && !r->n_name) {
        r->text = (json_text){0};
        r->state = in_name;
        return c == '"' ? true : fail(r, true);
    }
    if (arguments && !r->has_arguments && r->n_name) {
        if (!may_call(r, c)) return fail(r, true);
        r->held.len = 0;
        r->has_arguments = true;
        reader_arguments_begin(r);
        r->state = in_arguments;
        return in_arguments(r, c);
    }
    if (arguments && !r->has_arguments && !r->early) {
        r->early = r->held.len - 1;
        r->state = in_early;
        r->held.len--;
        return in_early(r, c);
    }
    r->has_others = true;
    r->state = in_value;
    r->held.len--;
    return in_value(r, c);
}

static bool after_key(cerium_reader *r, char c)
{
    if (!reader_hold(r, c)) return fail(r, false);
    if (byte_is_blank(c)) return true;
    if (r->colon) return begin_value(r, c);
    r->colon = c == ':';
    return r->colon ? true : fail(r, true);
}

static bool in_name(cerium_reader *r, char c)
{
    if (!reader_hold(r, c)) return fail(r, false);
    text_result result = take_string(r, c, r->name, &r->n_name);
    if (result == TEXT_BAD || (result == TEXT_END && !r->n_name)) return fail(r, true);
    if (result == TEXT_END) r->state = after_member;
    return true;
}

static bool in_arguments(cerium_reader *r, char c)
{
    scan_result result = reader_arguments_byte(r, c);
    if (result == SCAN_BAD) r->state = reader_broken;
    if (result == SCAN_DONE || result == SCAN_BEFORE) r->state = after_member;
    return result != SCAN_BEFORE;
}

/* Values that are skipped, and arguments that came before the name. */
static bool in_value(cerium_reader *r, char c)
{
    scan_result result = json_scan_byte(&r->scan, c);
    if (result == SCAN_BEFORE) {
        r->state = after_member;
        return false;
    }
    if (!reader_hold(r, c)) return fail(r, false);
    if (result == SCAN_BAD) return fail(r, true);
    if (result == SCAN_DONE) r->state = after_member;
    return true;
}

static bool in_early(cerium_reader *r, char c)
{
    bool taken = in_value(r, c);
    if (r->state == after_member) r->early_end = r->held.len;
    else if (r->state == in_value) r->state = in_early;
    return taken;
}

/* The arguments were kept, and now the tool is known. */
static bool call_early(cerium_reader *r)
{
    if (!may_call(r, r->held.ptr[r->early])) return false;
    reader_arguments_begin(r);
    for (size_t i = r->early; i < r->early_end; i++) reader_arguments_byte(r, r->held.ptr[i]);
    if (r->called) reader_arguments_byte(r, ' '); /* a number ends with the byte after it */
    r->held.len = 0;
    r->has_arguments = true;
    return true;
}

static bool after_member(cerium_reader *r, char c)
{
    if (!reader_hold(r, c)) return fail(r, false);
    if (byte_is_blank(c)) return true;
    if (c == ',') {
        r->state = first_member;
        return true;
    }
    if (c != '}') return fail(r, true);
    if (!r->has_arguments && (!r->n_name || !r->early_end || !call_early(r))) {
        reader_give_up(r);
        return true;
    }
    r->held.len = 0;
    r->n_window = 0;
    r->closing = true;
    r->state = after_object;
    return true;
}

/* The text that closes the object's place is taken; anything else is text again. */
static bool after_object(cerium_reader *r, char c)
{
    static const char tag[] = "</tool_call>";
    if (r->place == IN_TAG && (c == tag[r->n_window] || (byte_is_blank(c) && !r->n_window))) {
        if (!reader_hold(r, c)) return fail(r, false);
        if (!byte_is_blank(c) && ++r->n_window == sizeof tag - 1) {
            r->n_window = 0;
            reader_after_call(r);
        }
        return true;
    }
    if (r->place == IN_LINE && (byte_is_blank(c) || c == ';')) return true;
    if (r->place == IN_LIST && byte_is_blank(c)) return true;
    if (r->place == IN_LIST && c == ',') {
        r->held.len = 0;
        return reader_hold(r, c);
    }
    if (r->place == IN_LIST && c == '{' && reader_hold(r, c)) {
        reader_object_begin(r, IN_LIST);
        return true;
    }
    bool list_ends = r->place == IN_LIST && c == ']';
    r->n_window = 0;
    if (list_ends) reader_after_call(r);
    else reader_give_up(r);
    return list_ends;
}

void reader_arguments_end(cerium_reader *r)
{
    if (r->mode == ARGS_SEARCH) put_arguments(r, r->ahead, r->n_ahead);
    r->mode = ARGS_REST;
    if (r->state != reader_broken) return;
    put_arguments(r, r->window, r->n_window);
    /* If nothing else ends a call, the answer does. */
    if (r->whole && (!r->form->call_end || r->form->inst)) reader_call_end(r);
}

static bool begins_a_tool(const cerium_reader *r)
{
    view name = {r->name, r->n_name};
    for (size_t i = 0; i < r->n_tools; i++)
        if (view_starts(view_of(r->tools[i].name), name)) return true;
    return false;
}

bool reader_object_may_call(const cerium_reader *r)
{
    static const view keys[] = {{"name", 4}, {"parameters", 10}, {"arguments", 9}};
    const bool is_bare = r->place == IN_LINE && r->held.len && r->held.ptr[0] == '{';
    if (!r->form->bare_json || !is_bare) return true;
    if (r->state == in_name) return begins_a_tool(r);
    if (r->n_name) return reader_find_tool(r) != NULL;
    if (r->has_others) return false;
    for (size_t i = 0; i < ARRAY_LEN(keys); i++)
        if (view_starts(keys[i], (view){r->key, r->n_key})) return true;
    return false;
}
