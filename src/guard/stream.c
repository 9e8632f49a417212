/* stream.c - one growing text: held bytes, the window, findings. */
#include <ctype.h>

#include "base/text.h"
#include "guard/guard_parts.h"
#include "guard/language.h"

enum { OVERLAP = 160, PIECES_JUDGED = 16, PIECES_MAX = 64 }; /* of one line */

uint32_t stream_opening(const guard_stream *s, char *out)
{
    static const char opening[] = "<?php ";
    if (s->language != GUARD_PHP || !s->in_php) return 0;
    memcpy(out, opening, sizeof opening - 1);
    return sizeof opening - 1;
}

/* In an image inlined in its page: it may contain any letters. */
static bool is_embedded(view text, size_t at)
{
    while (at && (isalnum((unsigned char)text.ptr[at - 1]) || strchr("+/=", text.ptr[at - 1])))
        at--;
    return at >= 7 && !memcmp(text.ptr + at - 7, "base64,", 7);
}

/* Is the byte of the window in a comment or in documentation of code? */
static bool is_explained(const guard_stream *s, uint32_t at)
{
    lexer x = s->before;
    if (s->language == GUARD_TEXT) return false;
    for (uint32_t i = s->held; i < at; i++) lexer_step(&x, s->text[i]);
    return lexer_in_comment(&x);
}

static void judge_text_rules(guard_stream *s, const woken *woke, view text, uint32_t at)
{
    const rule_set *rules = &s->g->rules;
    view window = {s->text, s->n};
    size_t begin, end, from;
    for (uint32_t i = 0; i < rules->n; i++) {
        const rule *u = &rules->list[i];
        if (!(woke->lines[i / 64] >> i % 64 & 1)) continue;
        for (from = 0; regex_find(u->match, &s->worker->judge.re, text, from, &begin, &end);) {
            view what = {text.ptr + begin, end - begin};
            from = end > from ? end : from + 1;
            if (u->secret && (!secret_value(what) || is_embedded(text, begin))) continue;
            if (u->unless && regex_found(u->unless, &s->worker->judge.re, what)) continue;
            if (u->seen && !regex_found(u->seen, &s->worker->judge.re, window)) break;
            if (u->unseen && regex_found(u->unseen, &s->worker->judge.re, window)) break;
            if (u->live && !secret_is_live(what)) continue;
            uint32_t first = at + (uint32_t)begin, last = at + (uint32_t)end;
            guard_severity severity =
                rule_severity_near(u, TAINT_CONST, &s->worker->judge.re, window, first, last);
            /* An example shows the form of a key; one of a provider's form is told anyway. */
            bool example =
                u->weak == WEAK_SECRET && (!u->firm || u->live) && is_explained(s, first);
            if (example && severity == GUARD_BLOCK) severity = GUARD_WARN;
            finding_report(s, u, severity, example ? TAINT_UNKNOWN : TAINT_CONST, first, last,
                           (view){NULL, 0});
            if (from > text.len) break;
        }
    }
}

/* The window as its grammar needs it: opened if it begins in the middle, closed at its end. */
static view window_of(const guard_stream *s, uint32_t *shift)
{
    guard_worker *w = s->worker;
    *shift = stream_opening(s, w->window);
    memcpy(w->window + *shift, s->text, s->n);
    size_t n = window_close(&s->lexer, w->window + *shift, s->n, WINDOW_CLOSERS);
    return (view){w->window, *shift + n};
}

static void defer(guard_stream *s, deferral d, uint32_t shift)
{
    uint32_t begin = d.begin - shift, end = d.end - shift, n = s->n - s->held;
    if (s->n_deferred == JUDGE_DEFERRED_MAX) return;
    uint32_t first = begin > s->held ? begin - s->held : 0;
    uint32_t last = end - s->held > n ? n - 1 : end - s->held - 1;
    if (first > last || !s->map[last].fresh) return;
    s->deferred[s->n_deferred].where = (deferral){begin, end};
    s->deferred[s->n_deferred].first = s->map[first];
    s->deferred[s->n_deferred].text = s->held;
    s->deferred[s->n_deferred].n = finding_in_one_piece(s, 0, n) && !s->continues ? n : 0;
    s->deferred[s->n_deferred].end = s->map[n - 1].at + 1 + s->escaped;
    s->deferred[s->n_deferred].last = s->map[last];
    s->deferred[s->n_deferred].hash = known_line((view){s->text + s->held, n});
    s->deferred[s->n_deferred++].line = s->map[0];
}

static bool is_at(const guard_stream *s, uint32_t i, uint32_t begin, uint32_t shift)
{
    return s->deferred[i].where.begin + shift == begin;
}

/* why: the worker's late or blind. */
static void note_unjudged(guard_stream *s, bool *why, uint32_t line)
{
    guard_worker *w = s->worker;
    if (!w->late && !w->blind) w->unjudged_line = line;
    *why = true;
}

/* Its line, for a replacement. */
static void keep_deferred(guard_stream *s, uint32_t i, guard_finding *f)
{
    guard_worker *w = s->worker;
    uint32_t at = s->deferred[i].text, n = s->deferred[i].n;
    deferral where = s->deferred[i].where;
    if (!n || n > sizeof w->lines - w->n_lines || where.begin < at) return;
    memcpy(w->lines + w->n_lines, s->text + at, n);
    f->held = (view){w->lines + w->n_lines, n};
    w->n_lines += n;
    f->from = where.begin - at;
    f->to = where.end - at < n ? where.end - at : n;
    f->line_end = s->deferred[i].end;
    f->continues = false;
}

/* A test softens it anyway. */
static guard_severity severity_of(const guard_stream *s, const hit *h)
{
    bool warns = s->config.is_existing && rule_only_warns(h->rule, h->level) && !s->soft;
    return warns && h->severity == GUARD_BLOCK ? GUARD_WARN : h->severity;
}

/* Decide waiting uses if their function is there; finally: decide all with the functions that are
 * there, as the text ends or the window moves on. */
static void decide_deferred(guard_stream *s, bool finally)
{
    judge *j = &s->worker->judge;
    uint32_t shift, n = 0, n_raised = 0;
    awaited raised[JUDGE_DEFERRED_MAX];
    if (!s->n_deferred) return;
    view window = window_of(s, &shift);
    bool judged = judge_window(j, s->language, window, 0, finally, NULL, 0);
    if (!judged && finally) note_unjudged(s, &s->worker->late, s->deferred[0].line.line);
    for (uint32_t i = 0; i < s->n_deferred; i++) {
        bool waits = !finally && (!judged || j->n_deferred == JUDGE_DEFERRED_MAX);
        for (uint32_t k = 0; judged && k < j->n_deferred && !waits; k++)
            waits = is_at(s, i, j->deferred[k].begin, shift);
        for (uint32_t k = 0; judged && k < j->n_hits && !waits; k++) {
            const rule *u = j->hits[k].rule;
            if (!is_at(s, i, j->hits[k].begin, shift) || n_raised == JUDGE_DEFERRED_MAX) continue;
            known_finding what = {u, s->deferred[i].hash,
                                  finding_soften(s, u, severity_of(s, &j->hits[k])),
                                  j->hits[k].level};
            raised[n_raised] = finding_describe(s, what, s->deferred[i].first,
                                                s->deferred[i].last, s->deferred[i].line);
            keep_deferred(s, i, &raised[n_raised++].finding);
        }
        if (waits) s->deferred[n++] = s->deferred[i];
    }
    s->n_deferred = n;
    for (uint32_t i = 0; i < n_raised; i++) finding_raise(s, &raised[i], (view){NULL, 0});
}

static void judge_tree(guard_stream *s)
{
    judge *j = &s->worker->judge;
    uint32_t shift;
    outline_hole holes[OUTLINE_DONE_MAX];
    view window = window_of(s, &shift);
    uint32_t n = outline_holes(&s->outline, s->language, (view){s->text, s->n}, holes);
    for (uint32_t i = 0; i < n; i++) {
        holes[i].begin += shift;
        holes[i].end += shift;
    }
    s->worker->n_judged++;
    if (!judge_window(j, s->language, window, s->held + shift, false, holes, n)) {
        note_unjudged(s, &s->worker->late, s->map[0].line);
        return;
    }
    s->alias = j->alias;
    for (uint32_t i = 0; i < j->n_deferred; i++) defer(s, j->deferred[i], shift);
    /* The earlier text may be judged for each of them, by the same judge. */
    hit hits[GUARD_FINDINGS_MAX];
    uint32_t n_hits = j->n_hits;
    memcpy(hits, j->hits, n_hits * sizeof *hits);
    for (uint32_t i = 0; i < n_hits && !s->records; i++) {
        view *fix = &hits[i].fix;
        if (fix->len) memcpy(s->worker->fixes[i], fix->ptr, fix->len);
        fix->ptr = s->worker->fixes[i];
    }
    for (uint32_t i = 0; i < n_hits; i++) {
        uint32_t begin = hits[i].begin > shift ? hits[i].begin - shift : 0;
        finding_report(s, hits[i].rule, severity_of(s, &hits[i]), hits[i].level, begin,
                       hits[i].end - shift, hits[i].fix);
    }
}

/* ---- the window ---- */

static bool is_import(view line)
{
    static const char *const words[] = {"import ", "from ", "#include", "use ", "package ",
                                        "require ", "using "};
    for (size_t i = 0; i < ARRAY_LEN(words); i++)
        if (view_starts(line, view_of(words[i]))) return true;
    return line.len < 200 && memmem(line.ptr, line.len, "require(", 8) != NULL;
}

/* Does the line continue an earlier statement? */
static bool is_branch(view line)
{
    static const char *const words[] = {"else", "elif ", "elsif ", "except", "finally", "rescue",
                                        "ensure", "catch", "case ", "when ", "end"};
    for (size_t i = 0; i < ARRAY_LEN(words); i++)
        if (view_starts(line, view_of(words[i]))) return true;
    return false;
}

/* Where the kept part begins: the outermost line of those that fit, and never one within a string
 * or brackets, as all text after it would be misread. */
static uint32_t cut_place(const guard_stream *s)
{
    uint32_t best = s->n - GUARD_WINDOW_KEPT, least = UINT32_MAX;
    lexer x;
    lexer_begin(&x, s->language);
    for (uint32_t i = 0, first = best; i < s->n; lexer_step(&x, s->text[i++])) {
        if (i < first || s->text[i - 1] != '\n') continue;
        if (lexer_in_text(&x) || lexer_n_parens(&x)) continue;
        uint32_t indent = window_indent((view){s->text + i, s->n - i});
        char c = i + indent < s->n ? s->text[i + indent] : '\n';
        if (c == '\n' || c == '}' || c == ')' || indent >= least) continue;
        if (is_branch((view){s->text + i + indent, s->n - i - indent})) continue;
        least = indent;
        best = i;
    }
    return best;
}

static uint32_t line_end(const guard_stream *s, uint32_t from, uint32_t to)
{
    const char *stop = memchr(s->text + from, '\n', to - from);
    return stop ? (uint32_t)(stop - s->text) + 1 : to;
}

/* Take the whole import: names in brackets may span lines.  Half of it would open a bracket that
 * nothing closes, and all text after it would be read as names.  from: its end is not there. */
static uint32_t import_end(const guard_stream *s, uint32_t from, uint32_t to)
{
    lexer x;
    lexer_begin(&x, s->language);
    for (uint32_t i = from; i < to; i++) {
        lexer_step(&x, s->text[i]);
        if (s->text[i] == '\n' && !lexer_in_text(&x) && !x.n) return i + 1;
    }
    return from;
}

/* A comment longer than the kept part: its text is not code. */
static bool is_in_comment(const guard_stream *s, uint32_t at)
{
    lexer x;
    lexer_begin(&x, s->language);
    for (uint32_t i = 0; i < at; i++) lexer_step(&x, s->text[i]);
    return x.n && x.stack[x.n - 1] == '/';
}

/* The window is full: imports and the last lines stay. */
static void compact(guard_stream *s)
{
    uint32_t cut = cut_place(s), n = 0;
    bool comment = is_in_comment(s, cut);
    decide_deferred(s, true);
    for (uint32_t i = 0, end; i < cut && n < GUARD_WINDOW_KEPT / 4; i = end) {
        end = line_end(s, i, cut);
        if (!is_import((view){s->text + i, end - i})) continue;
        uint32_t whole = import_end(s, i, cut);
        view line = {s->text + i, whole - i};
        if (whole == i || n + line.len > GUARD_WINDOW_KEPT / 4) continue;
        end = whole;
        memmove(s->text + n, line.ptr, line.len);
        n += (uint32_t)line.len;
    }
    if (comment) {
        memcpy(s->text + n, "/* ", 3);
        n += 3;
    }
    memmove(s->text + n, s->text + cut, s->n - cut);
    outline_cut(&s->outline, n, cut);
    s->row = s->row > cut ? s->row - (cut - n) : n;
    s->last_row = s->row;
    s->n = n + s->n - cut;
    s->held = s->n;
    s->middle = 0;
    memset(s->reported, 0, sizeof s->reported);
    s->in_php = true;
}

static bool is_blank(view text) { return !view_trim_start(text, TEXT_SPACE).len; }

/* The held text may go.  whole: a logical line ended with it. */
static void commit(guard_stream *s, bool whole)
{
    /* "# vulnerable", as the first line of a fence.  In text no row begins: the first piece. */
    bool is_first = s->language == GUARD_TEXT ? s->held == 0 : s->row == 0;
    bool is_prose = is_first && whole && !s->records && s->config.form != GUARD_CODE &&
                !s->escaped && finding_is_comment((view){s->text, s->n});
    if (is_prose && mark_says_bad((view){s->text, s->n})) s->soft = true;
    finding_note_allowed(s, (view){s->text + s->held, s->n - s->held});
    bool inside = !whole && lexer_in_text(&s->lexer) && s->continues;
    /* For an endless string, its beginning and its end suffice. */
    if (inside && s->n - s->held > OVERLAP) {
        if (!s->middle) s->middle = s->held;
        memmove(s->text + s->middle, s->text + s->n - OVERLAP, OVERLAP);
        s->n = s->middle + OVERLAP;
    } else s->middle = 0;
    s->n_pieces = whole ? 0 : s->n_pieces + 1;
    uint32_t n_complete = s->outline.n_complete;
    if (whole && s->language != GUARD_TEXT) {
        outline_line(&s->outline, s->language, (view){s->text, s->n}, s->row, s->n, s->depth,
                     s->lexer.n);
        if (!is_blank((view){s->text + s->row, s->n - s->row})) s->last_row = s->row;
        s->row = s->n;
        s->depth = s->lexer.n;
    }
    s->held = s->n;
    s->before = s->lexer;
    s->continues = !whole;
    s->in_comment = s->lexer.n && s->lexer.stack[s->lexer.n - 1] == '/';
    bool waited = s->n_deferred && s->fed - s->deferred[0].line.at > GUARD_DEFERRED_BYTES;
    if (waited || s->outline.n_complete != n_complete) decide_deferred(s, waited);
    if (s->n > GUARD_WINDOW_BYTES - GUARD_LINE_BYTES_MAX - OVERLAP) compact(s);
}

/* A piece of a long line: of a literal without values in it, or far after its beginning. */
static bool is_dull_piece(const guard_stream *s)
{
    if (s->n_pieces >= PIECES_JUDGED) return true;
    if (!s->continues || !lexer_in_text(&s->lexer)) return false;
    for (uint32_t i = s->held; i < s->n; i++)
        if (strchr("{$#", s->text[i])) return false;
    return true;
}

/* The reader sees it, too. */
static void read_held(guard_stream *s, bool whole)
{
    const guard_reader *r = s->config.reader;
    guard_read found[GUARD_READER_FINDINGS];
    if (!r || s->records || s->language == GUARD_TEXT) return;
    if (!s->reads) r->begin(r->user, s->reader);
    s->reads = true;
    view line = {s->text + s->held, s->n - s->held};
    uint32_t n = r->line(r->user, s->reader, s->language, line, whole, found);
    for (uint32_t i = 0; i < n && !s->context; i++) finding_read(s, &found[i]);
}

/* C: is a whole line a comment, or of one?  No rule of the tree finds anything in it. */
static bool is_comment_line(const guard_stream *s)
{
    view line = {s->text + s->held, s->n - s->held};
    if (s->language != GUARD_C && s->language != GUARD_CPP) return false;
    line = view_trim(line, " \t\r\n");
    if (!s->in_comment && view_starts(line, VIEW("//"))) return line.ptr[line.len - 1] != '\\';
    if (!s->in_comment && !view_starts(line, VIEW("/*"))) return false;
    const size_t skip = s->in_comment ? 0 : 2;
    const char *end = memmem(line.ptr + skip, line.len - skip, "*/", 2);
    return !end || end + 2 == line.ptr + line.len;
}

static void judge_held(guard_stream *s, bool whole)
{
    if (s->n == s->held) return;
    read_held(s, whole);
    if (s->context) {
        commit(s, whole);
        return;
    }
    uint32_t overlap = s->continues ? (s->held < OVERLAP ? s->held : OVERLAP) : 0;
    uint32_t from = s->held - overlap;
    view text = {s->text + from, s->n - from};
    woken woke;
    literals_scan(&s->g->literals, s->worker->scratch, &s->worker->judge.re, s->language, text,
                  whole && !s->continues, &woke);
    judge_text_rules(s, &woke, text, from);
    bool wanted = woke.tree || s->watch || s->alias;
    if (wanted && whole && !s->continues && is_comment_line(s)) {
        s->watch = lexer_n_parens(&s->lexer) > 0;
        wanted = false;
    }
    if (wanted && !whole && is_dull_piece(s)) { /* its end decides */
        s->watch = true;
        wanted = woke.tree && s->n_pieces < PIECES_MAX;
    }
    if (guard_is_read_by_lines(s->language)) wanted = false;
    if (wanted && guard_has_grammar(s->language)) {
        judge_tree(s);
        s->watch = lexer_n_parens(&s->lexer) > 0;
    } else if (wanted) {
        note_unjudged(s, &s->worker->blind, s->map[0].line);
    }
    commit(s, whole);
}

/* ---- bytes ---- */

static void begin_lexer(guard_stream *s, guard_language language)
{
    lexer_begin(&s->lexer, language);
    s->before = s->lexer;
}

static void relex(guard_stream *s)
{
    begin_lexer(s, s->language);
    for (uint32_t i = 0; i < s->n; i++) {
        if (i == s->held) s->before = s->lexer;
        lexer_step(&s->lexer, s->text[i]);
    }
}

/* While the language is unknown, text is held, and judged once it is known.  finally: the text
 * ends. */
static void find_language(guard_stream *s, bool finally)
{
    view text = {s->text, s->n};
    s->language = finally && s->guess ? language_guess(text) : language_detect(text);
    if (s->language == GUARD_TEXT) return;
    s->detect = false;
    relex(s);
}

static void begin_segment(void *arg, unwrap_segment segment)
{
    guard_stream *s = arg;
    if (s->detect && s->n) find_language(s, true);
    if (s->n > s->held) judge_held(s, true);
    if (s->worker) decide_deferred(s, true);
    s->reads = false;
    s->segment_at = s->fed;
    s->n = s->held = s->begun = s->row = s->last_row = s->depth = s->middle = s->n_pieces = 0;
    s->outline = (outline){0};
    memset(s->reported, 0, sizeof s->reported);
    s->language = segment.language;
    s->detect = segment.detect;
    s->guess = segment.guess;
    s->soft = segment.soft;
    s->watch = s->alias = s->continues = s->in_comment = false;
    s->in_php = false;
    if (s->unwrap.json.in_string && !s->escaped) s->inner = 1;
    s->escaped = s->unwrap.json.in_string;
    s->added = s->unwrap.mode == UNWRAP_DIFF;
    begin_lexer(s, segment.language);
}

/* In prose a word is held, and a line that may be the head of a key. */
static bool prose_ends(const guard_stream *s, char c)
{
    if (c == '\n') return true;
    view line = {s->text + s->begun, s->n - s->begun};
    return (c == ' ' || c == '\t') && !view_starts(line, VIEW("-----"));
}

/* The held bytes are at most those of a line: of its text, or, if escapes are longer than their
 * meaning, of the stream. */
static bool holds_enough(const guard_stream *s, uint64_t at)
{
    uint32_t n = s->n - s->held;
    return n == GUARD_LINE_BYTES_MAX || (n && at - s->map[0].at >= GUARD_LINE_BYTES_MAX);
}

static void push_byte(guard_stream *s, char c, uint64_t at, bool fresh)
{
    if (holds_enough(s, at)) judge_held(s, false);
    if (s->n == 0) s->in_php = c != '<';
    s->map[s->n - s->held] = (position){at, s->escaped ? s->inner : s->line, fresh};
    s->text[s->n++] = c;
    s->inner += c == '\n';
    bool ends = lexer_step(&s->lexer, c);
    if (s->detect) {
        bool much = s->n - s->held > GUARD_LINE_BYTES_MAX / 2;
        if (c == '\n' || much) find_language(s, much);
        if (!s->detect || much) judge_held(s, c == '\n');
        return;
    }
    if (s->language == GUARD_TEXT) {
        if (!prose_ends(s, c)) return;
        judge_held(s, c == '\n');
        if (c == '\n') s->begun = s->n;
    } else if (ends) judge_held(s, true);
}

static void take_code_byte(void *arg, char c, uint64_t at, unwrap_side side)
{
    guard_stream *s = arg;
    if (side != UNWRAP_FRESH) known_old_byte(s, c);
    if (side != UNWRAP_OLD) push_byte(s, c, at, side == UNWRAP_FRESH);
}

static void take_edit(void *arg)
{
    guard_stream *s = arg;
    if (s->worker) finding_decide_awaited(s);
    s->n_old = s->n_used = 0;
}

static const unwrap_sink code_sink = {.segment = begin_segment, .byte = take_code_byte};

/* The unwrapper's output goes through the carrier. */
static void take_segment(void *arg, unwrap_segment segment)
{
    unwrap_sink to = code_sink;
    guard_stream *s = arg;
    to.arg = s;
    carrier_segment(&s->carrier, segment, &to);
}

static void take_byte(void *arg, char c, uint64_t at, unwrap_side side)
{
    unwrap_sink to = code_sink;
    guard_stream *s = arg;
    to.arg = s;
    carrier_byte(&s->carrier, c, at, side, &to);
}

static unwrap_sink sink_of(guard_stream *s)
{
    return (unwrap_sink){.arg = s, .segment = take_segment, .byte = take_byte, .edit = take_edit};
}

static void begin_call(guard_stream *s, guard_worker *w)
{
    s->worker = w;
    w->n_findings = w->n_judged = w->n_lines = 0;
    w->late = w->blind = false;
}

static void end_call(guard_stream *s, guard_worker *w, guard_result *result)
{
    uint64_t held = unwrap_held(&s->unwrap), carried = carrier_held(&s->carrier);
    uint64_t safe = s->n > s->held ? s->map[0].at : s->fed;
    if (carried < held) held = carried;
    /* While that may be held; then it is decided without the missing function. */
    const guard_finding *first = s->n_awaited ? &s->awaited[0].finding : NULL;
    if (first && s->fed - first->line_begin > GUARD_DEFERRED_BYTES) finding_decide_awaited(s);
    if (s->n_awaited && first->line_begin < safe) safe = first->line_begin;
    if (s->n_deferred && s->deferred[0].line.at < safe) safe = s->deferred[0].line.at;
    *result = (guard_result){.safe = held < safe ? held : safe,
                             .findings = w->findings,
                             .n_findings = w->n_findings,
                             .n_judged = w->n_judged,
                             .late = w->late,
                             .blind = w->blind,
                             .unjudged_line = w->unjudged_line,
                             .language = s->language};
    s->worker = NULL;
}

int guard_stream_open(guard_stream **out, const guard *g, const guard_stream_config *config,
                      cerium_error *err)
{
    guard_stream *s = memory_zalloc(1, sizeof *s);
    if (!s) return error_set(err, CERIUM_ERR_MEMORY, "no memory for a stream of the watchdog");
    s->g = g;
    s->config = *config;
    s->config.path = (view){NULL, 0};
    s->line = s->inner = 1;
    unwrap_sink sink = sink_of(s);
    unwrap_begin(&s->unwrap, config->form, config->language, config->path, !config->is_text,
                 &sink);
    *out = s;
    return CERIUM_OK;
}

void guard_stream_close(guard_stream **s)
{
    memory_free(*s);
    *s = NULL;
}

uint64_t guard_segment(const guard_stream *s) { return s->segment_at; }

size_t guard_stream_bytes(const guard_stream *s) { return sizeof *s; }

void guard_stream_copy(guard_stream *to, const guard_stream *from)
{
    CHECK(to->g == from->g);
    *to = *from;
}

/* Its lines are not judged one by one; the first judged line finds out whether a name in them holds
 * a function that rules check. */
void guard_context(guard_stream *s, guard_worker *w, view text)
{
    begin_call(s, w);
    s->context = true;
    for (size_t i = 0; i < text.len; i++) push_byte(s, text.ptr[i], 0, false);
    if (s->detect && s->n) find_language(s, false); /* its last line may be all */
    judge_held(s, false);
    s->context = s->continues = false;
    s->alias = true;
    s->watch = lexer_n_parens(&s->lexer) > 0;
    s->worker = NULL;
}

void guard_feed(guard_stream *s, guard_worker *w, const void *from, size_t len,
                guard_result *result)
{
    const char *text = from;
    unwrap_sink sink = sink_of(s);
    begin_call(s, w);
    for (size_t i = 0; i < len; i++) {
        uint64_t at = s->fed++;
        unwrap_step(&s->unwrap, text[i], at, &sink);
        s->line += text[i] == '\n';
    }
    end_call(s, w, result);
}

void guard_finish(guard_stream *s, guard_worker *w, guard_result *result)
{
    unwrap_sink sink = sink_of(s);
    begin_call(s, w);
    unwrap_finish(&s->unwrap, &sink);
    unwrap_sink to = code_sink;
    to.arg = s;
    carrier_finish(&s->carrier, &to);
    if (s->detect && s->n) find_language(s, true);
    judge_held(s, true);
    decide_deferred(s, true);
    finding_decide_awaited(s);
    end_call(s, w, result);
}

void stream_reset(guard_stream *s, guard_language language)
{
    const guard *g = s->g;
    memset(s, 0, sizeof *s);
    s->g = g;
    s->records = true;
    s->line = s->inner = 1;
    s->language = language;
    begin_lexer(s, language);
}

void stream_judge(guard_stream *s, guard_worker *w, view text)
{
    s->worker = w;
    for (size_t i = 0; i < text.len; i++) push_byte(s, text.ptr[i], i, true);
    judge_held(s, true);
    decide_deferred(s, true);
    s->worker = NULL;
}
