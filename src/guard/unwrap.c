/* unwrap.c - fences, diffs, patches and JSON strings, one byte at a time. */
#include "guard/unwrap.h"

static void set_mode(unwrap *u, int mode, guard_language language, bool detect,
                     const unwrap_sink *to)
{
    u->mode = mode;
    u->language = language;
    u->n_head = u->n_sent = 0;
    u->line = LINE_HEAD;
    to->segment(to->arg, language, detect);
}

void unwrap_begin(unwrap *u, guard_form form, guard_language language, bool detect,
                  const unwrap_sink *to)
{
    *u = (unwrap){.form = form};
    set_mode(u, form == GUARD_CODE ? UNWRAP_PLAIN : UNWRAP_PROSE, language,
             detect && form == GUARD_CODE && language == GUARD_TEXT, to);
}

uint64_t unwrap_held(const unwrap *u)
{
    return u->n_sent < u->n_head && u->mode != UNWRAP_PROSE ? u->head_at[u->n_sent] : UINT64_MAX;
}

static void keep_head(unwrap *u, char c, uint64_t at)
{
    if (u->n_head == UNWRAP_HEAD_BYTES) return;
    u->head[u->n_head] = c;
    u->head_at[u->n_head++] = at;
}

static void send_head(unwrap *u, const unwrap_sink *to, uint32_t from, bool fresh)
{
    for (uint32_t i = from; i < u->n_head; i++) to->byte(to->arg, u->head[i], u->head_at[i], fresh);
    u->n_sent = u->n_head;
}

static void begin_line(unwrap *u)
{
    u->n_head = u->n_sent = 0;
    u->line = LINE_HEAD;
}

/* ---- lines ---- */

/* Text after the fence, when head opens one; {NULL, 0} otherwise. */
static view fence_info(unwrap *u)
{
    uint32_t at = 0, begin;
    while (at < u->n_head && (u->head[at] == ' ' || u->head[at] == '\t')) at++;
    for (begin = at; at < u->n_head && (u->head[at] == '`' || u->head[at] == '~') &&
                     u->head[at] == u->head[begin];)
        at++;
    if (at - begin < 3 || at - begin > UINT8_MAX) return (view){NULL, 0};
    u->fence = u->head[begin];
    u->n_fence = (uint8_t)(at - begin);
    while (at < u->n_head && u->head[at] == ' ') at++;
    uint32_t end = at;
    while (end < u->n_head && !strchr(" \t\r{:,", u->head[end])) end++;
    return (view){u->head + at, end - at};
}

static guard_language path_language(view path)
{
    const char *tab = memchr(path.ptr, '\t', path.len); /* a date follows */
    if (tab) path.len = (size_t)(tab - path.ptr);
    while (path.len && strchr(" \r\"", path.ptr[path.len - 1])) path.len--;
    return guard_language_of_path(path);
}

/* The language of the file that a header of a diff or a patch names; false when it names none. */
static bool header_names(view line, guard_language *out)
{
    static const char *const headers[] = {"+++ ", "*** Update File: ", "*** Add File: ",
                                          "*** Move to: "};
    for (size_t i = 0; i < ARRAY_LEN(headers); i++) {
        view h = view_of(headers[i]);
        if (!view_starts(line, h)) continue;
        *out = path_language((view){line.ptr + h.len, line.len - h.len});
        return true;
    }
    return false;
}

static bool begins_diff(view line)
{
    return view_starts(line, VIEW("*** Begin Patch")) || view_starts(line, VIEW("diff --git ")) ||
           view_starts(line, VIEW("*** Update File: ")) || view_starts(line, VIEW("--- a/")) ||
           view_starts(line, VIEW("*** Add File: "));
}

static bool names_path(const unwrap *u);

/* A line of a turn that begins or ends the value of a parameter; false when it is neither. */
static bool step_value(unwrap *u, view line, const unwrap_sink *to)
{
    static const char mark[] = "<parameter=";
    if (u->form != GUARD_TURN) return false;
    if (u->in_value && view_starts(line, VIEW("</parameter>"))) {
        u->in_value = u->in_path = false;
        u->fence = 0;
        set_mode(u, UNWRAP_PROSE, GUARD_TEXT, false, to);
        return true;
    }
    if (u->in_value && u->in_path) { /* the value itself */
        u->n_path = (uint32_t)line.len;
        memcpy(u->path, line.ptr, line.len);
    }
    if (u->in_value || !view_starts(line, view_of(mark)) || line.ptr[line.len - 1] != '>')
        return false;
    u->n_key = 0;
    for (size_t i = sizeof mark - 1; i + 1 < line.len && u->n_key < sizeof u->key; i++)
        u->key[u->n_key++] = line.ptr[i];
    u->in_value = true;
    u->in_path = names_path(u);
    guard_language language =
        u->in_path ? GUARD_TEXT : path_language((view){u->path, u->n_path});
    u->fence = language ? '<' : 0;
    set_mode(u, language ? UNWRAP_FENCED : UNWRAP_PROSE, language, !language && !u->in_path, to);
    return true;
}

static void step_prose(unwrap *u, char c, uint64_t at, const unwrap_sink *to)
{
    to->byte(to->arg, c, at, true);
    if (c != '\n') {
        keep_head(u, c, at);
        return;
    }
    view line = {u->head, u->n_head};
    guard_language language = GUARD_TEXT;
    if (step_value(u, line, to)) return;
    view info = fence_info(u);
    if (info.ptr) {
        bool diff = view_equal(info, VIEW("diff")) || view_equal(info, VIEW("patch"));
        language = guard_language_named(info);
        set_mode(u, diff ? UNWRAP_DIFF : UNWRAP_FENCED, language, !language && !info.len, to);
    } else if (begins_diff(line) || (u->after_old && view_starts(line, VIEW("+++ ")))) {
        u->fence = 0;
        u->after_old = false;
        header_names(line, &language);
        set_mode(u, UNWRAP_DIFF, language, false, to);
    } else {
        u->after_old = view_starts(line, VIEW("--- ")); /* as `diff -u old new` begins */
        begin_line(u);
    }
}

/* Is head, so far, the beginning of the closing fence? */
static bool may_close(const unwrap *u)
{
    uint32_t at = 0, n = 0;
    if (!u->fence) return false;
    if (u->fence == '<') {
        view head = {u->head, u->n_head}, mark = VIEW("</parameter>");
        if (u->n_head == UNWRAP_HEAD_BYTES) return false;
        return head.len < mark.len ? view_starts(mark, head) : view_starts(head, mark);
    }
    while (at < u->n_head && (u->head[at] == ' ' || u->head[at] == '\t')) at++;
    while (at < u->n_head && u->head[at] == u->fence) at++, n++;
    bool whole = at == u->n_head;
    while (at < u->n_head && strchr(" \t\r", u->head[at])) at++;
    return at == u->n_head && u->n_head < UNWRAP_HEAD_BYTES && (n >= u->n_fence || whole);
}

static bool closes(const unwrap *u)
{
    uint32_t n = 0;
    if (u->fence == '<') return view_starts((view){u->head, u->n_head}, VIEW("</parameter>"));
    for (uint32_t i = 0; i < u->n_head; i++) n += u->head[i] == u->fence;
    return may_close(u) && n >= u->n_fence;
}

/* The block is over: its closing fence is prose. */
static void close_block(unwrap *u, char c, uint64_t at, const unwrap_sink *to)
{
    u->mode = UNWRAP_PROSE;
    if (u->fence == '<') u->in_value = false;
    u->fence = 0;
    u->language = GUARD_TEXT;
    to->segment(to->arg, GUARD_TEXT, false);
    send_head(u, to, 0, true);
    to->byte(to->arg, c, at, true);
    begin_line(u);
}

static void step_fenced(unwrap *u, char c, uint64_t at, const unwrap_sink *to)
{
    if (u->line == LINE_HEAD) {
        if (c == '\n' && closes(u)) {
            close_block(u, c, at, to);
            return;
        }
        keep_head(u, c, at);
        if (c != '\n' && may_close(u)) return;
        send_head(u, to, 0, true);
        u->line = LINE_CODE;
    } else to->byte(to->arg, c, at, true);
    if (c == '\n') begin_line(u);
}

/* What the first bytes of a line of a diff make of it. */
static void decide_diff(unwrap *u)
{
    view head = {u->head, u->n_head};
    char c = u->head[0];
    if (c == '+') {
        if (view_starts(VIEW("+++ "), head)) u->line = u->n_head == 4 ? LINE_HEADER : LINE_HEAD;
        else u->line = LINE_CODE;
    } else if (c == ' ' || c == '\n') u->line = LINE_CONTEXT;
    else if (c == '-') u->line = LINE_DROPPED;
    else u->line = LINE_HEADER;
    if (u->fence && c != '+' && may_close(u)) u->line = LINE_HEADER;
}

static void end_header(unwrap *u, char c, uint64_t at, const unwrap_sink *to)
{
    view line = {u->head, u->n_head};
    guard_language language = u->language;
    if (u->fence ? closes(u) : view_starts(line, VIEW("*** End Patch"))) {
        close_block(u, c, at, to);
        return;
    }
    if (header_names(line, &language) || view_starts(line, VIEW("@@")))
        set_mode(u, UNWRAP_DIFF, language, false, to);
    else begin_line(u);
}

/* A header is withheld until its line ends, for what it names.  One that is longer than a path is
 * text like any other: it is judged, and released. */
static void keep_header(unwrap *u, char c, uint64_t at, const unwrap_sink *to)
{
    keep_head(u, c, at);
    if (u->n_head < UNWRAP_HEAD_BYTES && at - u->head_at[0] < UNWRAP_HEAD_BYTES) return;
    send_head(u, to, 0, true);
    u->line = LINE_CODE;
}

static void step_diff(unwrap *u, char c, uint64_t at, const unwrap_sink *to)
{
    if (u->line == LINE_HEAD) {
        keep_head(u, c, at);
        decide_diff(u);
        bool code = u->line == LINE_CODE || u->line == LINE_CONTEXT;
        if (u->line == LINE_HEAD && c == '\n') code = true; /* "+", "++": short lines of code */
        if (code) send_head(u, to, u->head[0] == '\n' ? 0 : 1, u->line != LINE_CONTEXT);
        if (u->line == LINE_HEADER && c == '\n') u->n_head--, end_header(u, c, at, to);
        else if (c == '\n') begin_line(u);
        return;
    }
    if (u->line == LINE_CODE || u->line == LINE_CONTEXT)
        to->byte(to->arg, c, at, u->line == LINE_CODE);
    if (u->line == LINE_DROPPED) u->n_sent = u->n_head;
    if (c != '\n') {
        if (u->line == LINE_HEADER) keep_header(u, c, at, to);
    } else if (u->line == LINE_HEADER) end_header(u, c, at, to);
    else begin_line(u);
}

static void step_line(unwrap *u, char c, uint64_t at, const unwrap_sink *to)
{
    switch (u->mode) {
    case UNWRAP_PLAIN: to->byte(to->arg, c, at, true); break;
    case UNWRAP_PROSE: step_prose(u, c, at, to); break;
    case UNWRAP_FENCED: step_fenced(u, c, at, to); break;
    case UNWRAP_DIFF: step_diff(u, c, at, to); break;
    }
}

/* ---- JSON ---- */

static bool names_path(const unwrap *u)
{
    static const char *const keys[] = {"path", "file", "file_path", "filename", "filePath",
                                       "target_file"};
    for (size_t i = 0; i < ARRAY_LEN(keys); i++)
        if (view_equal((view){u->key, u->n_key}, view_of(keys[i]))) return true;
    return false;
}

static void open_string(unwrap *u, const unwrap_sink *to)
{
    u->in_string = true;
    u->in_key = u->expects_key;
    u->in_path = !u->in_key && names_path(u);
    if (u->in_key) u->n_key = 0;
    else if (u->in_path) u->n_path = 0;
    else {
        guard_language language = path_language((view){u->path, u->n_path});
        u->fence = 0;
        set_mode(u, language ? UNWRAP_PLAIN : UNWRAP_PROSE, language, !language, to);
    }
}

static void string_byte(unwrap *u, char c, uint64_t at, const unwrap_sink *to)
{
    if (u->in_key) {
        if (u->n_key < sizeof u->key) u->key[u->n_key++] = c;
    } else if (u->in_path) {
        if (u->n_path < sizeof u->path) u->path[u->n_path++] = c;
    } else step_line(u, c, at, to);
}

static void close_string(unwrap *u, const unwrap_sink *to)
{
    u->in_string = false;
    if (!u->in_key && !u->in_path) {
        unwrap_finish(u, to);
        to->segment(to->arg, GUARD_TEXT, false);
    }
}

static void step_escape(unwrap *u, char c, const unwrap_sink *to)
{
    static const char from[] = "nrtbf", into[] = "\n\r\t\b\f";
    const char *known = c ? strchr(from, c) : NULL;
    if (u->n_unicode) {
        int digit = c >= '0' && c <= '9' ? c - '0' : (c | 32) >= 'a' && (c | 32) <= 'f'
                                                       ? (c | 32) - 'a' + 10 : 0;
        u->unicode = u->unicode << 4 | (uint32_t)digit;
        if (--u->n_unicode) return;
        u->escaped = false;
        uint32_t v = u->unicode;
        if (v < 0x80) string_byte(u, (char)v, u->escape_at, to);
        else if (v < 0x800) {
            string_byte(u, (char)(0xC0 | v >> 6), u->escape_at, to);
            string_byte(u, (char)(0x80 | (v & 63)), u->escape_at, to);
        } else {
            string_byte(u, (char)(0xE0 | v >> 12), u->escape_at, to);
            string_byte(u, (char)(0x80 | (v >> 6 & 63)), u->escape_at, to);
            string_byte(u, (char)(0x80 | (v & 63)), u->escape_at, to);
        }
    } else if (c == 'u') {
        u->n_unicode = 4;
        u->unicode = 0;
    } else {
        u->escaped = false;
        string_byte(u, known ? into[known - from] : c, u->escape_at, to);
    }
}

static void step_json(unwrap *u, char c, uint64_t at, const unwrap_sink *to)
{
    if (u->in_string) {
        if (u->escaped) step_escape(u, c, to);
        else if (c == '"') close_string(u, to);
        else if (c == '\\') {
            u->escaped = true;
            u->escape_at = at;
        } else string_byte(u, c, at, to);
        return;
    }
    bool object = u->depth && u->objects >> ((u->depth - 1) % UNWRAP_DEPTH) & 1;
    uint64_t bit = (uint64_t)1 << u->depth % UNWRAP_DEPTH;
    if (c == '{' || c == '[') {
        u->objects = c == '{' ? u->objects | bit : u->objects & ~bit;
        u->depth++;
        u->expects_key = c == '{';
    } else if (c == '}' || c == ']') {
        if (u->depth) u->depth--;
    } else if (c == ',') u->expects_key = object;
    else if (c == ':') u->expects_key = false;
    else if (c == '"') open_string(u, to);
}

/* A turn is an answer, in which an object of JSON that begins a line or stands behind a mark is a
 * call.  What it says outside of its strings is text as well. */
static void step_turn(unwrap *u, char c, uint64_t at, const unwrap_sink *to)
{
    bool begins = !u->before || strchr(">[],", u->before);
    if (u->mode == UNWRAP_PROSE && !u->in_json && c == '{' && begins && !u->in_value) {
        u->in_json = true;
        u->depth = 0;
        u->n_path = 0;
    }
    if (c == '\n') u->before = 0;
    else if (c != ' ' && c != '\t') u->before = c;
    if (!u->in_json) {
        step_line(u, c, at, to);
        return;
    }
    if (!u->in_string) to->byte(to->arg, c, at, true);
    step_json(u, c, at, to);
    if (u->depth || u->in_string) return;
    u->in_json = false;
    u->mode = UNWRAP_PROSE;
    begin_line(u);
}

void unwrap_step(unwrap *u, char c, uint64_t at, const unwrap_sink *to)
{
    if (u->form == GUARD_JSON) step_json(u, c, at, to);
    else if (u->form == GUARD_TURN) step_turn(u, c, at, to);
    else step_line(u, c, at, to);
}

void unwrap_finish(unwrap *u, const unwrap_sink *to)
{
    bool code = u->mode == UNWRAP_FENCED && u->line == LINE_HEAD;
    bool change = u->mode == UNWRAP_DIFF && u->line == LINE_HEAD && u->n_head > 1;
    if (u->n_sent < u->n_head && (code || change)) send_head(u, to, code ? 0 : 1, true);
    begin_line(u);
}
