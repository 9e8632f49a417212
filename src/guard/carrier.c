/* carrier.c - HTML's scripts and event attributes; the cells of notebooks. */
#include "guard/carrier.h"

#include <ctype.h>
#include <strings.h>

static void switch_to(const carrier *k, guard_language language, const unwrap_sink *to)
{
    to->segment(to->arg, (unwrap_segment){.language = language, .soft = k->segment.soft});
}

static bool is_carried(const carrier *k)
{
    return k->segment.language == GUARD_HTML || k->segment.language == GUARD_NOTEBOOK;
}

void carrier_segment(carrier *k, unwrap_segment s, const unwrap_sink *to)
{
    carrier_finish(k, to);
    *k = (carrier){.segment = s};
    to->segment(to->arg, s);
}

/* ---- HTML ---- */

/* The value of an attribute of the open tag; {NULL, 0}: it has none. */
static view attribute(const carrier *k, const char *name)
{
    size_t len = strlen(name);
    for (size_t i = 1; i + len < k->n_tag; i++) {
        if (strncasecmp(k->tag + i, name, len) != 0 || k->tag[i + len] != '=') continue;
        if (!isspace((unsigned char)k->tag[i - 1])) continue;
        size_t from = i + len + 1, end;
        if (from < k->n_tag && strchr("'\"", k->tag[from])) from++;
        for (end = from; end < k->n_tag && !strchr("'\" >", k->tag[end]);) end++;
        return (view){k->tag + from, end - from};
    }
    return (view){NULL, 0};
}

static bool is_type_of_code(view type)
{
    static const char *const types[] = {"", "module", "text/javascript", "application/javascript",
                                        "text/babel", "text/jsx"};
    for (size_t i = 0; i < ARRAY_LEN(types); i++)
        if (view_equal(type, view_of(types[i]))) return true;
    return !type.ptr;
}

/* A tag is complete: does a script follow? */
static void end_tag(carrier *k, const unwrap_sink *to)
{
    bool script = k->n_name == 6 && !strncasecmp(k->tag, "script", 6);
    view lang = attribute(k, "lang");
    k->state = HTML_TEXT;
    if (!script || (k->n_tag && k->tag[k->n_tag - 1] == '/')) return;
    if (!is_type_of_code(attribute(k, "type"))) return;
    bool typed = view_equal(lang, VIEW("ts")) || view_equal(lang, VIEW("typescript"));
    k->state = HTML_SCRIPT;
    switch_to(k, typed ? GUARD_TYPESCRIPT : GUARD_JAVASCRIPT, to);
}

static void note_tag(carrier *k, char c)
{
    bool word = isalnum((unsigned char)c) || c == '-' || c == '!' || c == '/';
    if (k->n_name == k->n_tag && word) k->n_name++;
    if (k->n_tag < CARRIER_TAG_BYTES) k->tag[k->n_tag++] = c;
}

/* Does the attribute whose value begins here hold code?  onclick= does; @click= is a component's
 * own. */
static bool begins_event(const carrier *k)
{
    size_t end = k->n_tag;
    while (end && k->tag[end - 1] == ' ') end--;
    if (!end || k->tag[end - 1] != '=') return false;
    size_t from = --end;
    while (from && isalpha((unsigned char)k->tag[from - 1])) from--;
    return end - from > 3 && !strncasecmp(k->tag + from, "on", 2) && from &&
           isspace((unsigned char)k->tag[from - 1]);
}

static void step_tag(carrier *k, char c, uint64_t at, unwrap_side side, const unwrap_sink *to)
{
    bool opens = (c == '"' || c == '\'') && k->n_tag && !k->quote;
    bool event = opens && begins_event(k);
    to->byte(to->arg, c, at, side);
    note_tag(k, c);
    if (k->n_name == 3 && k->n_tag == 3 && !memcmp(k->tag, "!--", 3)) k->state = HTML_COMMENT;
    else if (opens) {
        k->state = HTML_VALUE;
        k->quote = c;
        k->event = event;
        if (event) switch_to(k, GUARD_JAVASCRIPT, to);
    } else if (c == '>') end_tag(k, to);
    else if (k->n_tag == 1 && !isalpha((unsigned char)c) && c != '/' && c != '!')
        k->state = HTML_TEXT; /* a < b */
}

static void step_value(carrier *k, char c, uint64_t at, unwrap_side side, const unwrap_sink *to)
{
    bool ends = c == k->quote;
    if (ends && k->event) switch_to(k, GUARD_HTML, to);
    if (ends) {
        k->state = HTML_TAG;
        k->quote = 0;
        k->event = false;
    }
    note_tag(k, c);
    to->byte(to->arg, c, at, side);
}

static void release_held(carrier *k, const unwrap_sink *to)
{
    for (uint32_t i = 0; i < k->n_held; i++)
        to->byte(to->arg, k->held[i], k->held_at[i], k->held_side);
    k->n_held = 0;
}

static void step_script(carrier *k, char c, uint64_t at, unwrap_side side, const unwrap_sink *to)
{
    static const char end[] = "</script";
    if (k->n_held && tolower((unsigned char)c) != end[k->n_held]) release_held(k, to);
    if (tolower((unsigned char)c) == end[k->n_held]) {
        k->held_side = side;
        k->held_at[k->n_held] = at;
        k->held[k->n_held++] = c;
        if (k->n_held < sizeof end - 1) return;
        switch_to(k, GUARD_HTML, to);
        k->state = HTML_TAG;
        k->n_tag = k->n_name = 0;
        note_tag(k, '/');
        release_held(k, to);
        return;
    }
    to->byte(to->arg, c, at, side);
}

/* Astro's components begin with their script, between two lines of dashes.  False: there is none,
 * or it has ended. */
static bool step_front(carrier *k, char c, uint64_t at, unwrap_side side, const unwrap_sink *to)
{
    bool inside = k->state == HTML_FRONT, line = k->dashes == 3 && (c == '\n' || c == '\r');
    if (k->past || (!inside && !line && (c != '-' || k->dashes == 3))) {
        k->past = true;
        return false;
    }
    to->byte(to->arg, c, at, side);
    if (c == '-' && k->dashes < 4) k->dashes++;
    else if (c == '\n' && line) {
        k->past = inside;
        k->state = inside ? HTML_TEXT : HTML_FRONT;
        k->dashes = 0;
        switch_to(k, inside ? GUARD_HTML : GUARD_TYPESCRIPT, to);
    } else if (c != '\r') k->dashes = c == '\n' ? 0 : 4;
    return true;
}

static void step_html(carrier *k, char c, uint64_t at, unwrap_side side, const unwrap_sink *to)
{
    if (step_front(k, c, at, side, to)) return;
    switch (k->state) {
    case HTML_FRONT:
    case HTML_TEXT:
        to->byte(to->arg, c, at, side);
        if (c != '<') return;
        k->state = HTML_TAG;
        k->n_tag = k->n_name = 0;
        k->quote = 0;
        return;
    case HTML_TAG: step_tag(k, c, at, side, to); return;
    case HTML_VALUE: step_value(k, c, at, side, to); return;
    case HTML_SCRIPT: step_script(k, c, at, side, to); return;
    case HTML_COMMENT:
        to->byte(to->arg, c, at, side);
        note_tag(k, c);
        if (k->n_tag == CARRIER_TAG_BYTES) { /* its end is what matters */
            memmove(k->tag, k->tag + k->n_tag - 4, 4);
            k->n_tag = 4;
        }
        if (c == '>' && k->n_tag > 5 && !memcmp(k->tag + k->n_tag - 3, "-->", 3))
            k->state = HTML_TEXT;
        return;
    }
}

/* ---- notebooks ---- */

enum { CELL_DEPTH = 3 }; /* {"cells": [{ */

static void begin_string(carrier *k)
{
    char room[JSON_READER_KEY];
    view key = json_reader_plain_key(&k->json, room);
    k->is_type = view_equal(key, VIEW("celltype"));
    k->in_source = k->cells && !k->is_text && view_equal(key, VIEW("source"));
    k->n_type = 0;
}

/* Lines that begin with % or ! are commands of the notebook. */
static void source_byte(carrier *k, char c, uint64_t at, unwrap_side side, const unwrap_sink *to)
{
    if (!k->begun) switch_to(k, GUARD_PYTHON, to);
    k->begun = true;
    if (!k->first) k->first = c;
    if (c == '\n') k->first = 0;
    if (c == '\n' || !strchr("%!", k->first)) to->byte(to->arg, c, at, side);
}

static void step_notebook(carrier *k, char c, uint64_t at, unwrap_side side,
                          const unwrap_sink *to)
{
    char room[JSON_READER_KEY];
    json_event e = json_reader_step(&k->json, c, at);
    switch (e.kind) {
    case JSON_KEY:
        k->cells |= view_equal(json_reader_plain_key(&k->json, room), VIEW("cells"));
        break;
    case JSON_OPEN:
        if (e.object && k->json.depth == CELL_DEPTH) k->is_text = false;
        break;
    case JSON_STRING: begin_string(k); break;
    case JSON_STRING_BYTES:
        for (uint32_t i = 0; i < e.n && k->in_source; i++)
            source_byte(k, e.bytes[i], e.at, side, to);
        for (uint32_t i = 0; i < e.n && k->is_type && k->n_type < sizeof k->type; i++)
            k->type[k->n_type++] = e.bytes[i];
        break;
    case JSON_STRING_END:
        if (k->is_type) k->is_text = !view_equal((view){k->type, k->n_type}, VIEW("code"));
        k->in_source = k->is_type = false;
        break;
    case JSON_CLOSE: /* of a cell, or of one of its lines: the next line is another */
        if (k->begun && k->first) source_byte(k, '\n', at, side, to);
        break;
    case JSON_NOTHING: break;
    }
    if (!k->cells) to->byte(to->arg, c, at, side);
}

void carrier_byte(carrier *k, char c, uint64_t at, unwrap_side side, const unwrap_sink *to)
{
    if (!is_carried(k) || side == UNWRAP_OLD) to->byte(to->arg, c, at, side);
    else if (k->segment.language == GUARD_HTML) step_html(k, c, at, side, to);
    else step_notebook(k, c, at, side, to);
}

void carrier_finish(carrier *k, const unwrap_sink *to) { release_held(k, to); }

uint64_t carrier_held(const carrier *k) { return k->n_held ? k->held_at[0] : UINT64_MAX; }

bool carrier_is_string(const carrier *k)
{
    return k->segment.language == GUARD_NOTEBOOK && k->begun;
}

char carrier_quote(const carrier *k) { return k->event ? k->quote : 0; }
