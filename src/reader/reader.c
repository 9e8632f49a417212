/* reader.c - reads a model's output by its chat form: text, thoughts, and calls of tools.
 *
 * All output ends in parts: a call that is not in the form's shape is text.  A call cut off by the
 * end of the answer does not count: bytes not yet certain to be one are dropped, and one that was
 * begun has no end.  Fuzzed.
 *
 * This file has the output of a reader, and text with calls in tags; the shapes of calls are in
 * reader_object.c, reader_xml.c and reader_inst.c, Harmony in reader_harmony.c. */
#include "reader/reader_parts.h"

/* ---- output ---- */

static bool reader_saying(cerium_reader *r, char c);

static void flush(cerium_reader *r)
{
    if (!r->run_len) return;
    cerium_part part = {r->run_kind, r->run, r->run_len};
    r->run_len = 0;
    if (!r->status) r->status = r->fn(r->user, &part);
}

void reader_put(cerium_reader *r, cerium_part_kind kind, const char *text, size_t len)
{
    if (kind != r->run_kind) flush(r);
    r->run_kind = kind;
    for (size_t n; len; text += n, len -= n) {
        if (r->run_len == sizeof r->run) flush(r);
        n = sizeof r->run - r->run_len < len ? sizeof r->run - r->run_len : len;
        memcpy(r->run + r->run_len, text, n);
        r->run_len += n;
    }
}

static void put_newlines(cerium_reader *r, cerium_part_kind kind)
{
    for (; r->newlines; r->newlines--) reader_put(r, kind, "\n", 1);
}

static void put_shown(cerium_reader *r, cerium_part_kind kind, char c)
{
    if (c == '\n') {
        r->newlines += !r->fresh;
        return;
    }
    put_newlines(r, kind);
    reader_put(r, kind, &c, 1);
    r->fresh = false;
}

void reader_say_held(cerium_reader *r)
{
    char held[STOP_HELD_MAX];
    size_t n = stop_flush(&r->stop, held);
    for (size_t i = 0; i < n; i++) put_shown(r, CERIUM_PART_TEXT, held[i]);
}

/* Dropped line feeds end no text. */
static void put_text(cerium_reader *r, char c)
{
    char out[STOP_HELD_MAX + 1];
    bool hit, drops = c == '\n' && r->fresh && !r->stop.n_held && !r->stop.n_utf8;
    if (r->stopped_by || drops) return;
    if (!r->n_stops) {
        put_shown(r, CERIUM_PART_TEXT, c);
        return;
    }
    size_t n = stop_feed(&r->stop, r->stops, r->n_stops, (view){&c, 1}, out, &hit);
    for (size_t i = 0; i < n; i++) put_shown(r, CERIUM_PART_TEXT, out[i]);
    if (!hit) return;
    r->stopped_by = r->stops[r->stop.which];
    put_newlines(r, CERIUM_PART_TEXT);
}

void reader_say(cerium_reader *r, char c)
{
    bool space = byte_is_blank(c), drop = r->drops_space;
    r->drops_space = false;
    if (drop && c == ' ') return;
    if (r->separates && !space) {
        r->newlines = 2;
        r->separates = false;
    }
    r->at_start = r->at_start && space;
    r->line_start = c == '\n' || (r->line_start && space);
    put_text(r, c);
}

void reader_think(cerium_reader *r, char c) { put_shown(r, CERIUM_PART_REASONING, c); }

const cerium_tool *reader_find_tool(const cerium_reader *r)
{
    view name = {r->name, r->n_name};
    for (size_t i = 0; i < r->n_tools; i++)
        if (view_equal(view_of(r->tools[i].name), name)) return &r->tools[i];
    return NULL;
}

void reader_call(cerium_reader *r)
{
    reader_say_held(r);
    r->newlines = 0;
    r->called = true;
    r->at_start = false;
    flush(r);
    cerium_part part = {CERIUM_PART_CALL, r->name, r->n_name};
    if (!r->status) r->status = r->fn(r->user, &part);
}

void reader_call_end(cerium_reader *r)
{
    flush(r);
    cerium_part part = {CERIUM_PART_CALL_END, "", 0};
    if (r->called && !r->status) r->status = r->fn(r->user, &part);
    r->called = false;
    r->newlines = 0;
    r->fresh = r->line_start = true;
}

bool reader_hold(cerium_reader *r, char c)
{
    int status = bytes_append(&r->held, &c, 1);
    if (status == CERIUM_ERR_MEMORY && !r->status) r->status = status;
    return status == CERIUM_OK;
}

void reader_give_up(cerium_reader *r)
{
    for (size_t i = 0; i < r->held.len; i++) reader_say(r, r->held.ptr[i]);
    r->held.len = 0;
    r->closing = false;
    r->state = reader_saying;
}

void reader_after_call(cerium_reader *r)
{
    r->held.len = 0;
    r->closing = false;
    r->newlines = 0;
    r->fresh = r->line_start = true;
    r->state = reader_saying;
}

int reader_mark(cerium_reader *r, const char *const *marks, size_t n, char *out)
{
    bool wait = false;
    for (size_t i = 0; i < n; i++) {
        size_t len = strlen(marks[i]);
        if (r->n_window > len || memcmp(r->window, marks[i], r->n_window) != 0) continue;
        if (r->n_window == len) {
            r->n_window = 0;
            return (int)i;
        }
        wait = true;
    }
    if (wait || !r->n_window) return -2;
    *out = r->window[0];
    memmove(r->window, r->window + 1, --r->n_window);
    return -1;
}

/* ---- thoughts ---- */

static bool thinking(cerium_reader *r, char c)
{
    static const char *const ends[] = {"</think>", "[/THINK]"};
    char out;
    int mark;
    r->window[r->n_window++] = c;
    while ((mark = reader_mark(r, &ends[r->form->inst], 1, &out)) == -1)
        reader_think(r, out);
    if (mark >= 0) reader_after_call(r);
    return true;
}

static void think(cerium_reader *r)
{
    reader_say_held(r);
    r->newlines = 0;
    r->fresh = true;
    r->at_start = false;
    r->state = thinking;
}

/* ---- text ---- */

/* After <tool_call>: an object or a function. */
static bool in_tag(cerium_reader *r, char c)
{
    static const char function[] = "<function=";
    if (!reader_hold(r, c)) {
        reader_give_up(r);
        return true;
    }
    bool space = byte_is_blank(c);
    if (!r->n_window && space) return true;
    if (!r->n_window && c == '{') {
        reader_object_begin(r, IN_TAG);
        return true;
    }
    if (c != function[r->n_window]) { /* the bytes taken of the mark may begin another */
        size_t n = r->n_window;
        r->held.len -= n + 1;
        r->n_window = 0;
        reader_give_up(r);
        for (size_t i = 0; i < n; i++) reader_saying(r, function[i]);
        return false;
    }
    if (++r->n_window == sizeof function - 1) {
        r->n_window = 0;
        reader_xml_begin(r);
    }
    return true;
}

/* After <|python_tag|>: an object. */
static bool after_python_tag(cerium_reader *r, char c)
{
    bool room = reader_hold(r, c);
    if (room && (c == ' ' || c == '\n')) return true;
    if (room && c == '{') {
        reader_object_begin(r, IN_LINE);
        return true;
    }
    if (room) r->held.len--;
    reader_give_up(r);
    return !room;
}

static void hold_mark(cerium_reader *r, const char *mark)
{
    r->held.len = 0;
    while (*mark && reader_hold(r, *mark)) mark++;
}

static void take_mark(cerium_reader *r, const char *mark)
{
    hold_mark(r, mark);
    if (r->marks.json && (mark == r->marks.open || mark == r->marks.section)) {
        if (mark == r->marks.open) reader_probed_begin(r);
        else reader_probed_section(r);
    } else if (mark == r->marks.open) {
        reader_marked_begin(r);
    } else if (mark == r->marks.section || mark == r->marks.section_end) {
        reader_after_call(r); /* text around calls is dropped */
    } else if (strcmp(mark, "[TOOL_CALLS]") == 0) {
        reader_inst_begin(r);
    } else if (strcmp(mark, "<tool_call>") == 0) {
        r->state = in_tag;
    } else if (strcmp(mark, "<function=") == 0) {
        reader_xml_begin(r);
    } else if (strcmp(mark, "<|python_tag|>") == 0) {
        r->state = after_python_tag;
    } else {
        r->held.len = 0;
        think(r);
    }
}

static bool reader_saying(cerium_reader *r, char c)
{
    const char *marks[6];
    size_t n = 0;
    int mark;
    char out;
    bool calls = r->n_tools > 0;
    bool probed = calls && r->marks.open, section = probed && *r->marks.section;
    if (probed && !(r->marks.json && section)) marks[n++] = r->marks.open;
    if (section) marks[n++] = r->marks.section;
    if (probed && !r->marks.json && *r->marks.section_end) marks[n++] = r->marks.section_end;
    if (calls && r->form->tags) marks[n++] = "<tool_call>";
    if (calls && r->form->bare_functions) marks[n++] = "<function=";
    if (calls && r->form->inst) marks[n++] = "[TOOL_CALLS]";
    if (calls && r->form->bare_json) marks[n++] = "<|python_tag|>";
    if (calls && r->form->bare_json && r->line_start && !r->n_window && c == '{') {
        hold_mark(r, "{");
        reader_object_begin(r, IN_LINE);
        return true;
    }
    /* A thought is one only at the start: later its mark is text about thoughts. */
    if (r->form->thinks && r->at_start) marks[n++] = r->form->inst ? "[THINK]" : "<think>";
    r->window[r->n_window++] = c;
    while ((mark = reader_mark(r, marks, n, &out)) == -1) reader_say(r, out);
    if (mark >= 0) take_mark(r, marks[mark]);
    return true;
}

/* ---- forms ---- */

static void begin_saying(cerium_reader *r) { r->state = reader_saying; }
static void begin_thinking(cerium_reader *r) { think(r); }

static const reader_form forms[] = {
    {.name = "", .begin = begin_saying, .call_end = "</tool_call>", .tags = true},
    {.name = "chatml", .begin = begin_saying, .call_end = "</tool_call>", .tags = true,
     .thinks = true},
    {.name = "qwen3", .begin = begin_saying, .call_end = "</tool_call>", .tags = true,
     .thinks = true},
    /* For templates: the prompt begins a thought; the form of calls is unknown. */
    {.name = "qwen3-open", .begin = begin_thinking, .call_end = "</tool_call>", .tags = true,
     .thinks = true},
    {.name = "none", .begin = begin_saying, .thinks = true},
    {.name = "none-open", .begin = begin_thinking, .thinks = true},
    {.name = "qwen3-coder", .begin = begin_saying, .call_end = "</tool_call>", .tags = true,
     .thinks = true, .bare_functions = true},
    {.name = "qwen3.5", .begin = begin_thinking, .call_end = "</tool_call>", .tags = true,
     .thinks = true, .bare_functions = true},
    {.name = "harmony", .begin = reader_harmony_begin},
    {.name = "llama2", .begin = begin_saying, .call_end = "</tool_call>", .tags = true,
     .space = true},
    {.name = "llama3.1", .begin = begin_saying, .bare_json = true},
    {.name = "mistral-v1", .begin = begin_saying, .call_end = "</tool_call>", .tags = true,
     .space = true},
    {.name = "mistral-v3", .begin = begin_saying, .call_end = "[TOOL_CALLS]", .inst = true,
     .space = true},
    {.name = "mistral-v3-tekken", .begin = begin_saying, .call_end = "[TOOL_CALLS]",
     .inst = true},
    {.name = "mistral-v7", .begin = begin_saying, .call_end = "[TOOL_CALLS]", .inst = true,
     .thinks = true, .space = true},
    {.name = "mistral-v7-tekken", .begin = begin_saying, .call_end = "[TOOL_CALLS]",
     .inst = true, .thinks = true},
};

/* Forms without their own tools use those of the plain form. */
static const reader_form *find_form(const char *name)
{
    for (size_t i = 0; i < ARRAY_LEN(forms); i++)
        if (strcmp(forms[i].name, name) == 0) return &forms[i];
    return &forms[0];
}

int cerium_reader_open(cerium_reader **reader_out, const char *call_form, const cerium_tool *tools,
                       size_t n_tools, cerium_error *err)
{
    if (!reader_out || !call_form || (!tools && n_tools))
        return error_set(err, CERIUM_ERR_ARGUMENT, "no reader, call form or tools");
    cerium_reader *r = memory_zalloc(1, sizeof *r);
    if (!r) return error_set(err, CERIUM_ERR_MEMORY, "no memory for a reader");
    bool marked = call_marks_read(&r->marks, call_form);
    if (!marked && call_form[0] == '{') { /* the engine's records are whole */
        memory_free(r);
        return error_set(err, CERIUM_ERR_MEMORY, "no memory for a reader");
    }
    r->form = find_form(!marked ? call_form : r->marks.opens_thought ? "none-open" : "none");
    r->after_broken = r->marks.json ? reader_probed_next : r->form->inst ? reader_inst_begin : NULL;
    r->call_end = r->marks.json ? reader_probed_call_end(&r->marks) : r->form->call_end;
    r->tools = tools;
    r->n_tools = n_tools;
    r->held.max = r->value.max = READER_HELD_BYTES_MAX;
    r->at_start = r->line_start = true;
    r->drops_space = r->form->space;
    r->form->begin(r);
    *reader_out = r;
    return CERIUM_OK;
}

void cerium_reader_close(cerium_reader **r)
{
    if (!r || !*r) return;
    json_decref((*r)->schema);
    call_marks_free(&(*r)->marks);
    bytes_free(&(*r)->held);
    bytes_free(&(*r)->value);
    memory_free(*r);
    *r = NULL;
}

void cerium_reader_set_stops(cerium_reader *r, const char *const *stops, uint32_t n_stops)
{
    CHECK(stops || !n_stops);
    r->stops = stops;
    r->n_stops = n_stops;
}

/* ---- reading ---- */

int cerium_reader_feed(cerium_reader *r, const char *text, size_t text_len, cerium_part_fn *fn,
                       void *user)
{
    CHECK(r && fn && (text || !text_len));
    r->fn = fn;
    r->user = user;
    for (size_t i = 0; i < text_len && !r->status && !r->stopped_by;)
        if (r->state(r, text[i])) i++;
    flush(r);
    return r->status;
}

bool cerium_reader_is_thinking(const cerium_reader *r)
{
    return r->state == thinking || reader_harmony_thinks(r);
}

bool cerium_reader_is_saying(const cerium_reader *r) { return r->state == reader_saying; }

bool cerium_reader_is_outside(const cerium_reader *r)
{
    return cerium_reader_is_saying(r) && !r->n_window;
}

const char *cerium_reader_stopped_by(const cerium_reader *r) { return r->stopped_by; }

bool cerium_reader_cut_call(const cerium_reader *r) { return r->cut; }

/* In the text, or in a possible call.  If only the beginning of a mark is there when the model
 * ends, it is text. */
static void end_text(cerium_reader *r)
{
    const bool is_mark = r->state == reader_saying && r->n_window;
    const bool is_text = r->state == reader_saying ? r->whole : !reader_object_may_call(r);
    if ((is_mark || r->held.len) && !is_text) {
        r->cut = !r->whole || !is_mark;
        r->held.len = r->newlines = 0;
    }
    for (size_t i = 0; is_mark && is_text && i < r->n_window; i++) reader_say(r, r->window[i]);
    reader_give_up(r);
}

int cerium_reader_end(cerium_reader *r, bool whole, cerium_part_fn *fn, void *user)
{
    CHECK(r && fn);
    r->fn = fn;
    r->user = user;
    r->whole = whole;
    if (r->stopped_by) return r->status;
    if (r->state == thinking) {
        for (size_t i = 0; i < r->n_window; i++) reader_think(r, r->window[i]);
        r->newlines = 0;
    } else if (r->form->begin == reader_harmony_begin) {
        reader_harmony_end(r);
    } else if (r->called) {
        reader_arguments_end(r);
        reader_xml_end(r);
        reader_marked_end(r);
    } else if (!r->closing) {
        end_text(r);
    }
    r->cut = r->cut || r->called;
    r->n_window = 0;
    reader_say_held(r);
    put_newlines(r, CERIUM_PART_TEXT);
    flush(r);
    return r->status;
}
