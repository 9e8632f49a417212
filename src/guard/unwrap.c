/* unwrap.c - the kind of a stream as a whole: code, an answer, JSON arguments, a turn. */
#include "guard/unwrap.h"

void unwrap_begin(unwrap *u, guard_form form, guard_language language, view path, bool detect,
                  const unwrap_sink *to)
{
    *u = (unwrap){.form = form};
    u->soft_path = guard_path_is_soft(path);
    u->start = form == GUARD_ANSWER || form == GUARD_TURN;
    unwrap_set_mode(u, form == GUARD_CODE ? UNWRAP_PLAIN : UNWRAP_PROSE, language,
                    detect && form == GUARD_CODE && language == GUARD_TEXT, to);
}

uint64_t unwrap_held(const unwrap *u)
{
    bool may_hold = u->mode != UNWRAP_PROSE || u->start;
    return may_hold && u->n_sent < u->n_head ? u->head_at[u->n_sent] : UINT64_MAX;
}

bool unwrap_awaits_old(const unwrap *u) { return u->is_new && !u->had_old && u->json.in_string; }

/* ---- JSON ---- */

static void open_string(unwrap *u, const unwrap_sink *to)
{
    char room[JSON_READER_KEY];
    view key = json_reader_plain_key(&u->json, room), path = {u->path, u->n_path};
    u->in_path = unwrap_key_is_path(key);
    u->in_old = unwrap_key_is_old(key);
    u->is_new = unwrap_key_is_new(key);
    u->is_diff = unwrap_key_is_diff(key);
    if (u->in_path) u->n_path = 0;
    if (u->in_path || u->in_old) {
        u->had_old |= u->in_old;
        return;
    }
    guard_language language = guard_language_of_path(path);
    if (language == GUARD_NOTEBOOK && u->is_new) language = GUARD_PYTHON; /* of one cell */
    u->fence = 0;
    u->soft_prose = false;
    u->soft_path = guard_path_is_soft(path);
    u->n_prose = u->n_last = 0;
    u->n_margin = 0;
    u->in_heredoc = false;
    unwrap_set_mode(u, language || u->is_diff ? UNWRAP_PLAIN : UNWRAP_PROSE, language,
                    !language && !guard_path_is_text(path), to);
}

static void string_byte(unwrap *u, char c, uint64_t at, const unwrap_sink *to)
{
    if (u->in_old) to->byte(to->arg, c, at, UNWRAP_OLD);
    else if (!u->in_path) unwrap_line_byte(u, c, at, to);
    else if (u->n_path < sizeof u->path) u->path[u->n_path++] = c;
}

static void close_string(unwrap *u, const unwrap_sink *to)
{
    if (!u->in_path && !u->in_old) {
        unwrap_finish(u, to);
        to->segment(to->arg, (unwrap_segment){.language = GUARD_TEXT});
    }
    u->in_path = u->in_old = u->is_new = u->is_diff = false;
}

/* An object is an edit: the removed text and the new text. */
static void step_json(unwrap *u, char c, uint64_t at, const unwrap_sink *to)
{
    json_event e = json_reader_step(&u->json, c, at);
    switch (e.kind) {
    case JSON_STRING: open_string(u, to); break;
    case JSON_STRING_BYTES:
        for (uint32_t i = 0; i < e.n; i++) string_byte(u, e.bytes[i], e.at, to);
        break;
    case JSON_STRING_END: close_string(u, to); break;
    case JSON_OPEN:
    case JSON_CLOSE:
        if (!e.object) break;
        u->had_old = false;
        to->edit(to->arg);
        break;
    case JSON_KEY:
    case JSON_NOTHING: break;
    }
}

/* A turn is an answer in which an object of JSON that begins a line or comes after a mark is a
 * call.  Text outside of its strings is text as well. */
static void step_turn(unwrap *u, char c, uint64_t at, const unwrap_sink *to)
{
    bool begins = !u->before || strchr(">[],", u->before);
    if (u->mode == UNWRAP_PROSE && !u->in_json && c == '{' && begins && !u->in_value) {
        unwrap_finish(u, to);
        u->start = false;
        u->in_json = true;
        u->json.depth = 0;
        u->n_path = 0;
    }
    if (c == '\n') u->before = 0;
    else if (c != ' ' && c != '\t') u->before = c;
    if (!u->in_json) {
        unwrap_line_byte(u, c, at, to);
        return;
    }
    if (!u->json.in_string) to->byte(to->arg, c, at, UNWRAP_FRESH);
    step_json(u, c, at, to);
    if (u->json.depth || u->json.in_string) return;
    u->in_json = false;
    u->mode = UNWRAP_PROSE;
    unwrap_begin_line(u);
}

void unwrap_step(unwrap *u, char c, uint64_t at, const unwrap_sink *to)
{
    if (u->form == GUARD_JSON) step_json(u, c, at, to);
    else if (u->form == GUARD_TURN) step_turn(u, c, at, to);
    else unwrap_line_byte(u, c, at, to);
}
