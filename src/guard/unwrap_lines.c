/* unwrap_lines.c - fences, diffs, patches, search/replace blocks, code without a fence. */
#include "guard/unwrap.h"

static void tell_segment(const unwrap *u, guard_language language, bool detect, bool guess,
                         const unwrap_sink *to)
{
    to->segment(to->arg, (unwrap_segment){.language = language,
                                          .detect = detect,
                                          .guess = guess,
                                          .soft = u->soft_path || u->soft_prose});
}

void unwrap_begin_line(unwrap *u)
{
    u->n_head = u->n_sent = 0;
    u->at_margin = 0;
    u->line = LINE_HEAD;
}

void unwrap_set_mode(unwrap *u, int mode, guard_language language, bool detect,
                     const unwrap_sink *to)
{
    u->mode = mode;
    u->language = language;
    u->detect = detect;
    u->first = mode != UNWRAP_PROSE;
    u->guessed = u->signs = u->bare = false;
    u->block = BLOCK_NONE;
    unwrap_begin_line(u);
    tell_segment(u, language, detect, mode == UNWRAP_DIFF, to);
}

static void set_prose(unwrap *u, const unwrap_sink *to)
{
    u->fence = 0;
    u->n_margin = 0;
    u->in_heredoc = u->soft_prose = false;
    u->n_prose = u->n_last = 0;
    if (u->form != GUARD_JSON) u->soft_path = false;
    unwrap_set_mode(u, UNWRAP_PROSE, GUARD_TEXT, false, to);
}

/* The part before the text of a line: blanks of a list's item, signs of a quotation. */
static uint8_t margin_of(view line)
{
    uint8_t n = 0;
    while (n < line.len && n < UNWRAP_MARGIN_BYTES && strchr(" \t>", line.ptr[n])) n++;
    return n;
}

static void set_margin(unwrap *u, view line)
{
    u->n_margin = margin_of(line);
    memcpy(u->margin, line.ptr, u->n_margin);
}

static void keep_head(unwrap *u, char c, uint64_t at)
{
    if (u->n_head == UNWRAP_HEAD_BYTES) return;
    u->head[u->n_head] = c;
    u->head_at[u->n_head++] = at;
}

static void send_head(unwrap *u, const unwrap_sink *to, uint32_t from, unwrap_side side)
{
    for (uint32_t i = from; i < u->n_head; i++) to->byte(to->arg, u->head[i], u->head_at[i], side);
    u->n_sent = u->n_head;
}

static view head_of(const unwrap *u) { return (view){u->head, u->n_head}; }

/* ---- prose ---- */

/* Text after the fence, if head opens one; else {NULL, 0}. */
static view fence_info(unwrap *u)
{
    uint32_t at = 0, begin;
    while (at < u->n_head && strchr(" \t>", u->head[at])) at++;
    for (begin = at; at < u->n_head && (u->head[at] == '`' || u->head[at] == '~') &&
                     u->head[at] == u->head[begin];)
        at++;
    if (at - begin < 3 || at - begin > UINT8_MAX) return (view){NULL, 0};
    u->fence = u->head[begin];
    u->n_fence = (uint8_t)(at - begin);
    while (at < u->n_head && u->head[at] == ' ') at++;
    return (view){u->head + at, u->n_head - at};
}

static view first_word(view text)
{
    size_t n = 0;
    while (n < text.len && !strchr(" \t\r\n{:,", text.ptr[n])) n++;
    return (view){text.ptr, n};
}

static view trimmed(view path)
{
    const char *tab = path.len ? memchr(path.ptr, '\t', path.len) : NULL; /* a date follows */
    if (tab) path.len = (size_t)(tab - path.ptr);
    while (path.len && strchr(" \r\n\"", path.ptr[path.len - 1])) path.len--;
    return path;
}

/* The language of the file that a header of a diff or a patch names; false: it names none. */
static bool header_names(unwrap *u, view line, guard_language *out)
{
    static const char *const headers[] = {"+++ ", "*** Update File: ", "*** Add File: ",
                                          "*** Move to: "};
    for (size_t i = 0; i < ARRAY_LEN(headers); i++) {
        view h = view_of(headers[i]);
        if (!view_starts(line, h)) continue;
        view path = trimmed((view){line.ptr + h.len, line.len - h.len});
        *out = guard_language_of_path(path);
        u->soft_path = guard_path_is_soft(path);
        return true;
    }
    return false;
}

/* A line of a turn that begins or ends the value of a parameter; false: it is neither. */
static bool step_value(unwrap *u, view line, const unwrap_sink *to)
{
    static const char mark_[] = "<parameter=";
    if (u->form != GUARD_TURN) return false;
    if (u->in_value && view_starts(line, VIEW("</parameter>"))) {
        u->in_value = u->in_path = false;
        set_prose(u, to);
        return true;
    }
    if (u->in_value && u->in_path) { /* the value itself */
        u->n_path = line.len < sizeof u->path ? (uint32_t)line.len : sizeof u->path;
        memcpy(u->path, line.ptr, u->n_path);
    }
    view text = trimmed(line);
    if (u->in_value || !view_starts(text, view_of(mark_)) || text.ptr[text.len - 1] != '>')
        return false;
    json_reader *r = &u->json;
    r->n_key = 0;
    for (size_t i = sizeof mark_ - 1; i + 1 < text.len && r->n_key < sizeof r->key; i++)
        r->key[r->n_key++] = text.ptr[i];
    char room[JSON_READER_KEY];
    view key = json_reader_plain_key(r, room), path = trimmed((view){u->path, u->n_path});
    u->in_value = true;
    u->in_path = unwrap_key_is_path(key);
    u->in_old = unwrap_key_is_old(key);
    guard_language language = u->in_path ? GUARD_TEXT : guard_language_of_path(path);
    u->soft_path = !u->in_path && guard_path_is_soft(path);
    u->fence = language || u->in_old ? '<' : 0;
    unwrap_set_mode(u, language || u->in_old ? UNWRAP_FENCED : UNWRAP_PROSE, language,
                    !language && !u->in_path, to);
    if (u->in_old) to->edit(to->arg);
    return true;
}

/* A line of prose about the code that may follow. */
static void note_prose(unwrap *u, view line)
{
    view text = trimmed(line);
    size_t n = line.len < UNWRAP_PROSE_BYTES ? line.len : UNWRAP_PROSE_BYTES;
    size_t left = UNWRAP_PROSE_BYTES - n < u->n_prose ? UNWRAP_PROSE_BYTES - n : u->n_prose;
    memmove(u->prose, u->prose + (u->n_prose - left), left);
    memcpy(u->prose + left, line.ptr + (line.len - n), n);
    u->n_prose = (uint32_t)(left + n);
    if (!text.len) return;
    u->n_last = text.len < UNWRAP_NAME_BYTES ? (uint32_t)text.len : UNWRAP_NAME_BYTES;
    memcpy(u->last, text.ptr, u->n_last);
}

static void open_fence(unwrap *u, view info, const unwrap_sink *to)
{
    while (info.len && strchr("{.", info.ptr[0])) info.ptr++, info.len--; /* {.python} */
    view word = first_word(info), last = {u->last, u->n_last};
    bool diff = view_equal(word, VIEW("diff")) || view_equal(word, VIEW("patch"));
    guard_language language = guard_language_named(word);
    if (language == GUARD_TEXT && word.len) language = guard_language_of_path(trimmed(info));
    if (!word.len && u->mode == UNWRAP_PLAIN) language = u->language;
    bool data = view_equal(word, VIEW("json")) || view_equal(word, VIEW("jsonc"));
    if (data) language = GUARD_NOTEBOOK; /* if it is one */
    u->soft_prose = mark_says_bad((view){u->prose, u->n_prose});
    u->soft_path |= mark_soft_path(info) || mark_soft_path(last);
    unwrap_set_mode(u, diff ? UNWRAP_DIFF : UNWRAP_FENCED, language,
                    !language && (!word.len || diff), to);
    if (diff) to->edit(to->arg);
}

static void open_diff(unwrap *u, view line, const unwrap_sink *to)
{
    guard_language language = GUARD_TEXT;
    u->fence = 0;
    u->after_old = false;
    bool named = header_names(u, line, &language);
    unwrap_set_mode(u, UNWRAP_DIFF, language, !named || !language, to);
    to->edit(to->arg);
}

/* aider's blocks: the line before them is the path. */
static void open_block(unwrap *u, const unwrap_sink *to)
{
    view path = {u->last, u->n_last};
    guard_language language = guard_language_of_path(path);
    u->fence = 0;
    u->soft_path |= guard_path_is_soft(path);
    unwrap_set_mode(u, UNWRAP_FENCED, language, !language, to);
    to->edit(to->arg);
    u->in_prose = true;
    u->block = BLOCK_SEARCH;
}

/* "Here is the file:", "src/a.py:": code may follow without a fence.  Not in an argument of a call:
 * there such a line may be code itself. */
static void expect_bare(unwrap *u, view line)
{
    view text = trimmed(line);
    bool called = u->in_value || u->in_json;
    bool answer = u->form == GUARD_ANSWER || (u->form == GUARD_TURN && !called);
    u->start = answer && text.len > 1 && text.ptr[text.len - 1] == ':';
}

static void end_prose_line(unwrap *u, const unwrap_sink *to)
{
    view line = head_of(u);
    if (step_value(u, line, to)) return;
    uint8_t n = margin_of(line);
    view text = {line.ptr + n, line.len - n}, info = fence_info(u);
    if (info.ptr) {
        set_margin(u, line);
        open_fence(u, info, to);
    } else if (mark_diff(line) || (u->after_old && view_starts(line, VIEW("+++ ")))) {
        open_diff(u, line, to);
    } else if (mark_block(u, text) == MARK_YES) {
        set_margin(u, line);
        open_block(u, to);
    } else {
        u->after_old = view_starts(line, VIEW("--- ")); /* as `diff -u old new` begins */
        note_prose(u, line);
        expect_bare(u, line);
        unwrap_begin_line(u);
    }
}

static void prose_byte(unwrap *u, char c, uint64_t at, const unwrap_sink *to)
{
    to->byte(to->arg, c, at, UNWRAP_FRESH);
    keep_head(u, c, at);
    if (c == '\n') end_prose_line(u, to);
}

/* ---- code without a fence ---- */

/* The path that the line before it may be. */
static guard_language language_before(const unwrap *u)
{
    view text = {u->last, u->n_last};
    while (text.len && strchr("#*` ", text.ptr[0])) text.ptr++, text.len--;
    while (text.len && strchr(":*` ", text.ptr[text.len - 1])) text.len--;
    return memchr(text.ptr ? text.ptr : "", ' ', text.len) ? GUARD_TEXT
                                                            : guard_language_of_path(text);
}

static void begin_bare(unwrap *u, const unwrap_sink *to)
{
    bool html = u->head[0] == '<' && u->n_head > 1 && u->head[1] != '?';
    u->start = false;
    u->n_margin = 0;
    u->mode = UNWRAP_FENCED;
    u->language = html ? GUARD_HTML : language_before(u);
    u->bare = true;
    u->first = u->blank = false;
    tell_segment(u, u->language, !u->language, true, to);
    send_head(u, to, 0, UNWRAP_FRESH);
    unwrap_begin_line(u);
}

/* It is prose, not code. */
static void begin_prose(unwrap *u, const unwrap_sink *to)
{
    char head[UNWRAP_HEAD_BYTES];
    uint64_t at[UNWRAP_HEAD_BYTES];
    uint32_t n = u->n_head;
    memcpy(head, u->head, n);
    memcpy(at, u->head_at, n * sizeof *at);
    u->start = false;
    unwrap_begin_line(u);
    for (uint8_t i = 0; i < u->n_margin; i++) keep_head(u, u->margin[i], at[0]);
    u->n_margin = 0;
    for (uint32_t i = 0; i < n; i++) unwrap_line_byte(u, head[i], at[i], to);
}

static void start_byte(unwrap *u, char c, uint64_t at, const unwrap_sink *to)
{
    if (!u->n_head && strchr(" \t\r\n", c)) {
        to->byte(to->arg, c, at, UNWRAP_FRESH);
        if (strchr("\r\n", c)) u->n_margin = 0;
        else if (u->n_margin < UNWRAP_MARGIN_BYTES) u->margin[u->n_margin++] = c;
        return;
    }
    keep_head(u, c, at);
    mark m = mark_bare(head_of(u), false);
    if (m == MARK_YES) begin_bare(u, to);
    else if (m == MARK_NO || u->n_head == UNWRAP_HEAD_BYTES ||
             at - u->head_at[0] >= UNWRAP_HEAD_BYTES)
        begin_prose(u, to);
}

/* A line of it is complete: does prose begin with it? */
static void end_bare_line(unwrap *u, const unwrap_sink *to)
{
    view line = head_of(u), text = trimmed(line);
    bool was_blank = u->blank;
    u->blank = !text.len;
    view info = fence_info(u);
    if (info.ptr) {
        u->bare = false;
        open_fence(u, info, to);
        return;
    }
    u->fence = 0;
    bool capital = text.len && text.ptr[0] >= 'A' && text.ptr[0] <= 'Z';
    bool words = text.len && memchr(text.ptr, ' ', text.len) && !memchr(text.ptr, '=', text.len);
    if (was_blank && capital && words && strchr(".:?!", text.ptr[text.len - 1])) {
        set_prose(u, to);
        note_prose(u, line);
    }
    unwrap_begin_line(u);
}

static void bare_byte(unwrap *u, char c, uint64_t at, const unwrap_sink *to)
{
    to->byte(to->arg, c, at, UNWRAP_FRESH);
    keep_head(u, c, at);
    u->n_sent = u->n_head;
    if (c == '\n') end_bare_line(u, to);
}

/* ---- fenced and plain code ---- */

/* Is head, so far, the beginning of the closing fence? */
static bool may_close(const unwrap *u)
{
    uint32_t at = 0, n = 0;
    if (!u->fence) return false;
    if (u->fence == '<') {
        view head = head_of(u), mark_ = VIEW("</parameter>");
        if (u->n_head == UNWRAP_HEAD_BYTES) return false;
        return head.len < mark_.len ? view_starts(mark_, head) : view_starts(head, mark_);
    }
    while (at < u->n_head && (u->head[at] == ' ' || u->head[at] == '\t')) at++;
    while (at < u->n_head && u->head[at] == u->fence) at++, n++;
    bool whole = at == u->n_head;
    while (at < u->n_head && strchr(" \t\r\n", u->head[at])) at++;
    return at == u->n_head && u->n_head < UNWRAP_HEAD_BYTES && (n >= u->n_fence || whole);
}

static bool closes(const unwrap *u)
{
    uint32_t n = 0;
    if (u->fence == '<') return view_starts(head_of(u), VIEW("</parameter>"));
    for (uint32_t i = 0; i < u->n_head; i++) n += u->head[i] == u->fence;
    return may_close(u) && n >= u->n_fence;
}

/* The block is over: its closing fence is prose. */
static void close_block(unwrap *u, const unwrap_sink *to)
{
    u->mode = UNWRAP_PROSE;
    if (u->fence == '<') {
        u->in_value = u->in_old = false;
        u->n_sent = 0;
    }
    char head[UNWRAP_HEAD_BYTES];
    uint64_t at[UNWRAP_HEAD_BYTES];
    uint32_t n = u->n_head;
    memcpy(head, u->head, n);
    memcpy(at, u->head_at, n * sizeof *at);
    set_prose(u, to);
    for (uint32_t i = 0; i < n; i++) to->byte(to->arg, head[i], at[i], UNWRAP_FRESH);
}

/* A mark of a search/replace block is complete. */
static void step_block(unwrap *u, const unwrap_sink *to)
{
    if (u->block == BLOCK_NONE) {
        to->edit(to->arg);
        u->block = BLOCK_SEARCH;
        u->first = true;
    } else if (u->block == BLOCK_SEARCH && u->head[0] == '=') {
        u->block = BLOCK_REPLACE;
        tell_segment(u, u->language, u->detect || !u->language, true, to);
    } else if (u->block == BLOCK_REPLACE) {
        bool in_prose = u->in_prose;
        u->block = BLOCK_NONE;
        u->in_prose = false;
        if (in_prose) set_prose(u, to);
        else tell_segment(u, u->language, u->detect, false, to);
        to->edit(to->arg);
    }
    unwrap_begin_line(u);
}

static unwrap_side side_of(const unwrap *u)
{
    return u->in_old || u->block == BLOCK_SEARCH ? UNWRAP_OLD : UNWRAP_FRESH;
}

/* The first line of a text: true if it is a line of a diff, or may still be. */
static bool step_first(unwrap *u, const unwrap_sink *to)
{
    bool header;
    if (!u->first || u->form == GUARD_CODE || u->block || u->in_old || u->language == GUARD_HTML ||
        u->language == GUARD_NOTEBOOK)
        return false;
    mark m = mark_first_line(head_of(u), &header);
    if (u->is_diff && strchr(" +-@", u->head[0])) m = MARK_YES; /* by its key */
    if (m == MARK_MAYBE) return u->n_head < UNWRAP_HEAD_BYTES;
    if (m == MARK_NO || (!header && !u->language && !u->is_diff)) return false;
    char head[24];
    uint64_t head_at[24];
    uint32_t n = u->n_head < sizeof head ? u->n_head : sizeof head;
    if (u->n_head > sizeof head) return false;
    memcpy(head, u->head, n);
    memcpy(head_at, u->head_at, n * sizeof *head_at);
    unwrap_set_mode(u, UNWRAP_DIFF, u->language, u->detect, to);
    to->edit(to->arg);
    u->guessed = !header && !u->is_diff;
    for (uint32_t i = 0; i < n; i++) unwrap_line_byte(u, head[i], head_at[i], to);
    return true;
}

/* A string of JSON may be a fence as a whole. */
static bool may_be_fenced(const unwrap *u)
{
    return u->first && u->mode == UNWRAP_PLAIN && u->form != GUARD_CODE && !u->in_old &&
           strchr("`~", u->head[0]) && u->n_head < UNWRAP_HEAD_BYTES;
}

static void open_fence_within(unwrap *u, const unwrap_sink *to)
{
    view info = fence_info(u);
    if (info.ptr) {
        open_fence(u, info, to);
        return;
    }
    send_head(u, to, 0, UNWRAP_FRESH);
    u->first = false;
    unwrap_begin_line(u);
}

/* apply_patch <<'EOF', in a script. */
static void begin_heredoc(unwrap *u, const unwrap_sink *to)
{
    unwrap_set_mode(u, UNWRAP_DIFF, GUARD_TEXT, true, to);
    to->edit(to->arg);
    u->in_heredoc = true;
}

static void end_heredoc(unwrap *u, const unwrap_sink *to)
{
    u->in_heredoc = false;
    to->edit(to->arg);
    unwrap_set_mode(u, UNWRAP_FENCED, GUARD_SHELL, false, to);
    u->first = false;
}

static void code_byte(unwrap *u, char c, uint64_t at, const unwrap_sink *to)
{
    if (u->line == LINE_HEAD) {
        keep_head(u, c, at);
        if (c == '\n' && closes(u)) {
            close_block(u, to);
            return;
        }
        if (may_be_fenced(u)) {
            if (c == '\n') open_fence_within(u, to);
            return;
        }
        bool plain = u->in_old || u->form == GUARD_CODE;
        bool script = !plain && u->language == GUARD_SHELL;
        mark patch = script ? mark_heredoc(head_of(u)) : MARK_NO;
        if (patch == MARK_YES) {
            begin_heredoc(u, to);
            return;
        }
        mark m = plain ? MARK_NO : mark_block(u, head_of(u));
        if (patch > m) m = patch;
        if (m == MARK_YES) {
            step_block(u, to);
            return;
        }
        bool full = u->n_head == UNWRAP_HEAD_BYTES;
        if (!full && c != '\n' && (may_close(u) || m == MARK_MAYBE)) return;
        if (step_first(u, to)) return;
        send_head(u, to, 0, side_of(u));
        u->line = LINE_CODE;
        u->first = false;
    } else to->byte(to->arg, c, at, side_of(u));
    if (c == '\n') unwrap_begin_line(u);
}

/* ---- diffs ---- */

/* The kind of a line of a diff, by its first bytes. */
static void decide_diff(unwrap *u)
{
    view head = head_of(u);
    char c = u->head[0];
    u->signs |= c == '+' || c == '-';
    if (c == '+') {
        if (view_starts(VIEW("+++ "), head)) u->line = u->n_head == 4 ? LINE_HEADER : LINE_HEAD;
        else u->line = LINE_CODE;
    } else if (c == ' ' || c == '\n') u->line = LINE_CONTEXT;
    else if (c == '-') u->line = LINE_DROPPED;
    else if (u->guessed && !strchr("@\\`~", c)) {
        u->line = LINE_CODE; /* it was none */
        u->mode = UNWRAP_FENCED;
    } else u->line = LINE_HEADER;
    if (u->fence && c == u->fence && may_close(u)) u->line = LINE_HEADER;
}

static void end_header(unwrap *u, char c, uint64_t at, const unwrap_sink *to)
{
    view line = head_of(u);
    guard_language language = u->language;
    bool ends = view_starts(line, VIEW("*** End Patch"));
    if (ends && u->in_heredoc) {
        end_heredoc(u, to);
        return;
    }
    if (u->fence ? closes(u) : ends) {
        keep_head(u, c, at);
        close_block(u, to);
        to->edit(to->arg);
        return;
    }
    bool guessed = u->guessed, named = header_names(u, line, &language);
    if (named || view_starts(line, VIEW("@@")))
        unwrap_set_mode(u, UNWRAP_DIFF, language, language == GUARD_TEXT, to);
    else unwrap_begin_line(u);
    if (named) to->edit(to->arg);
    u->guessed = guessed;
}

/* A header is withheld until its line ends, because it may name a file.  A header longer than a
 * path is treated as text: it is judged, and released. */
static void keep_header(unwrap *u, char c, uint64_t at, const unwrap_sink *to)
{
    keep_head(u, c, at);
    if (u->n_head < UNWRAP_HEAD_BYTES && at - u->head_at[0] < UNWRAP_HEAD_BYTES) return;
    send_head(u, to, 0, UNWRAP_FRESH);
    u->line = LINE_CODE;
}

static unwrap_side side_in_diff(const unwrap *u)
{
    if (u->line == LINE_DROPPED) return UNWRAP_OLD;
    /* It is not marked as a diff. */
    return u->line == LINE_CONTEXT && (!u->guessed || u->signs) ? UNWRAP_AROUND : UNWRAP_FRESH;
}

static void diff_byte(unwrap *u, char c, uint64_t at, const unwrap_sink *to)
{
    if (u->line == LINE_HEAD) {
        keep_head(u, c, at);
        decide_diff(u);
        bool code = u->line == LINE_CODE || u->line == LINE_CONTEXT || u->line == LINE_DROPPED;
        if (u->line == LINE_HEAD && c == '\n') code = true; /* "+", "++": short lines of code */
        bool sign = u->head[0] != '\n' && strchr("+- ", u->head[0]);
        if (code) send_head(u, to, sign ? 1 : 0, side_in_diff(u));
        if (u->line == LINE_HEADER && c == '\n') u->n_head--, end_header(u, c, at, to);
        else if (c == '\n') unwrap_begin_line(u);
        return;
    }
    if (u->line != LINE_HEADER) to->byte(to->arg, c, at, side_in_diff(u));
    if (c != '\n') {
        if (u->line == LINE_HEADER) keep_header(u, c, at, to);
    } else if (u->line == LINE_HEADER) end_header(u, c, at, to);
    else unwrap_begin_line(u);
}

/* Is the byte one of the margin?  A quotation ends with its signs, and its code with it. */
static bool step_margin(unwrap *u, char c, const unwrap_sink *to)
{
    if (u->line != LINE_HEAD || u->n_head || u->at_margin == u->n_margin) return false;
    if (c == u->margin[u->at_margin]) {
        u->at_margin++;
        return true;
    }
    bool quoted = !u->at_margin && u->margin[0] == '>';
    u->at_margin = u->n_margin;
    if (quoted) set_prose(u, to);
    return false;
}

void unwrap_line_byte(unwrap *u, char c, uint64_t at, const unwrap_sink *to)
{
    if (u->n_margin && u->mode != UNWRAP_PROSE && step_margin(u, c, to)) return;
    switch (u->mode) {
    case UNWRAP_PROSE:
        if (u->start) start_byte(u, c, at, to);
        else prose_byte(u, c, at, to);
        break;
    case UNWRAP_PLAIN: code_byte(u, c, at, to); break;
    case UNWRAP_FENCED:
        if (u->bare) bare_byte(u, c, at, to);
        else code_byte(u, c, at, to);
        break;
    case UNWRAP_DIFF: diff_byte(u, c, at, to); break;
    }
}

void unwrap_finish(unwrap *u, const unwrap_sink *to)
{
    if (u->mode == UNWRAP_PROSE && u->start && u->n_head) {
        if (mark_bare(head_of(u), true) == MARK_YES) begin_bare(u, to);
        else begin_prose(u, to);
    }
    bool code = (u->mode == UNWRAP_FENCED || u->mode == UNWRAP_PLAIN) && u->line == LINE_HEAD;
    bool change = u->mode == UNWRAP_DIFF && u->line == LINE_HEAD && u->n_head > 1;
    if (u->n_sent < u->n_head && (code || change))
        send_head(u, to, code ? 0 : 1, code ? side_of(u) : UNWRAP_FRESH);
    unwrap_begin_line(u);
}
