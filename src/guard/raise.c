/* raise.c - reporting a weak line: is it suppressed, known, already reported, softened; and the
 * line itself, for a replacement. */
#include <ctype.h>

#include "guard/guard_parts.h"

/* ---- suppression ---- */

/* "cerium: allow RULE reason": the rule, if a reason follows. */
static view allowed_rule(view text)
{
    static const char words[] = "cerium: allow ";
    const char *at = memmem(text.ptr, text.len, words, sizeof words - 1);
    if (!at) return (view){NULL, 0};
    at += sizeof words - 1;
    const char *end = text.ptr + text.len, *stop = at;
    while (stop < end && (isalnum((unsigned char)*stop) || *stop == '-')) stop++;
    size_t letters = 0;
    for (const char *c = stop; c < end && *c != '\n'; c++)
        letters += isalpha((unsigned char)*c) != 0;
    return letters >= 4 ? (view){at, (size_t)(stop - at)} : (view){NULL, 0};
}

bool finding_is_comment(view text)
{
    size_t i = 0;
    while (i < text.len && isspace((unsigned char)text.ptr[i])) i++;
    return i < text.len && (text.ptr[i] == '#' || (text.ptr[i] == '/' && i + 1 < text.len));
}

static bool is_allowed(const guard_stream *s, view held, const char *id)
{
    if (!s->config.allow_comments) return false;
    view here = allowed_rule(held), before = view_of(s->allow);
    return view_equal(here, view_of(id)) || view_equal(here, VIEW("all")) ||
           view_equal(before, view_of(id)) || view_equal(before, VIEW("all"));
}

void finding_note_allowed(guard_stream *s, view held)
{
    view id = finding_is_comment(held) ? allowed_rule(held) : (view){NULL, 0};
    s->allow[0] = 0;
    if (id.len && id.len < sizeof s->allow)
        snprintf(s->allow, sizeof s->allow, "%.*s", (int)id.len, id.ptr);
}

/* ---- findings ---- */

awaited finding_describe(const guard_stream *s, known_finding what, position first, position last,
                         position line)
{
    const rule *u = what.rule;
    return (awaited){.what = what,
                     .finding = {.rule = u->id,
                                 .weakness = weakness_names[u->weak],
                                 .message = u->message,
                                 .idiom = u->idiom,
                                 .cwe = u->cwe,
                                 .severity = what.severity,
                                 .value = (guard_value)what.level,
                                 .unlikely = rule_is_unlikely(u, what.level),
                                 .language = s->language,
                                 .begin = first.at,
                                 .end = last.at + 1,
                                 .line_begin = line.at,
                                 .raised = s->fed,
                                 .line = first.line,
                                 .kind = u->weak,
                                 .escaped = s->escaped,
                                 .added = s->added,
                                 .continues = s->continues}};
}

/* Are the held bytes [from, to) new, consecutive, with nothing between them? */
bool finding_in_one_piece(const guard_stream *s, uint32_t from, uint32_t to)
{
    enum { GAP = 6 + GUARD_MARGIN_BYTES }; /* a newline with two backslashes, a margin, a + */
    for (uint32_t i = from; i < to; i++)
        if (!s->map[i].fresh || (i + 1 < to && s->map[i + 1].at - s->map[i].at > GAP)) return false;
    return true;
}

/* The logical line of the weak code, one of possibly several held lines: its replacement is made of
 * it (repair.h). */
static void keep_line(guard_stream *s, guard_finding *f, uint32_t from, uint32_t to)
{
    guard_worker *w = s->worker;
    const char *held = s->text + s->held;
    uint32_t n = s->n - s->held, begin = 0, end = n;
    lexer x;
    lexer_begin(&x, s->language);
    for (uint32_t i = 0; i < n && end == n && s->language != GUARD_TEXT; i++) {
        if (!lexer_step(&x, held[i])) continue;
        if (i < from) begin = i + 1;
        else if (i + 1 >= to) end = i + 1;
    }
    if (!finding_in_one_piece(s, begin, end) || end - begin > sizeof w->lines - w->n_lines) return;
    memcpy(w->lines + w->n_lines, held + begin, end - begin);
    f->held = (view){w->lines + w->n_lines, end - begin};
    w->n_lines += end - begin;
    f->from = from - begin;
    f->to = to - begin;
    f->line_begin = s->map[begin].at;
    f->escapes = (uint8_t)(s->escaped + carrier_is_string(&s->carrier));
    /* An escaped newline has a backslash for each enclosing string. */
    f->line_end = s->map[end - 1].at + 1 + (held[end - 1] == '\n' ? f->escapes : 0);
    f->quote = carrier_quote(&s->carrier);
    f->n_margin = s->unwrap.n_margin;
    memcpy(f->margin, s->unwrap.margin, f->n_margin);
}

/* One place by two rules, or one line twice by one: two pairs that say the same. */
static bool is_same(const guard_finding *a, const guard_finding *b)
{
    if (a->cwe != b->cwe || a->line != b->line) return false;
    bool overlap = a->begin < b->end && b->begin < a->end;
    return overlap || (a->rule == b->rule && a->line_begin == b->line_begin);
}

static void add_finding(guard_stream *s, guard_finding f, bool known)
{
    guard_worker *w = s->worker;
    f.known = known;
    if (known) f.severity = GUARD_NOTE;
    f.raised = s->fed;
    for (uint32_t i = 0; i < w->n_findings; i++) {
        guard_finding *o = &w->findings[i];
        if (!is_same(o, &f)) continue;
        if (f.severity > o->severity) *o = f; /* the worse is reported */
        return;
    }
    bool reported = s->config.notes || (known && s->config.reports_known);
    if (f.severity == GUARD_NOTE && !reported) return;
    if (w->n_findings < GUARD_FINDINGS_MAX) w->findings[w->n_findings++] = f;
}

/* Report the findings in the new side of an edit that came before its old one: the old one is known
 * now, or never comes. */
void finding_decide_awaited(guard_stream *s)
{
    uint32_t n = s->n_awaited;
    s->n_awaited = 0;
    for (uint32_t i = 0; i < n; i++) {
        const awaited a = s->awaited[i];
        view none = {NULL, 0};
        add_finding(s, a.finding, known_finding_is(s, a.finding.language, &a.what, none));
    }
}

guard_severity finding_soften(const guard_stream *s, const rule *u, guard_severity severity)
{
    if (!s->soft || u->firm || severity == GUARD_NOTE) return severity;
    /* A rule for text also holds for documents. */
    return severity == GUARD_BLOCK || s->language != GUARD_TEXT ? severity - 1 : severity;
}

/* The worker's line is gone then. */
static awaited later(const awaited *a)
{
    awaited kept = *a;
    kept.finding.held = (view){NULL, 0};
    return kept;
}

/* line: the held one. */
void finding_raise(guard_stream *s, const awaited *a, view line)
{
    if (a->what.severity == GUARD_NOTE && !s->config.notes) return;
    if (s->records) known_record(s, &a->what);
    else if (known_finding_is(s, s->language, &a->what, line)) add_finding(s, a->finding, true);
    else if (unwrap_awaits_old(&s->unwrap) && s->n_awaited < AWAITED_MAX)
        s->awaited[s->n_awaited++] = later(a);
    else add_finding(s, a->finding, false);
}

/* A call that stays open over several lines is seen with each of them, but reported once. */
static bool is_reported(guard_stream *s, uint32_t cwe, uint32_t begin)
{
    for (uint32_t i = 0; i < ARRAY_LEN(s->reported); i++)
        if (s->reported[i].cwe == cwe && s->reported[i].begin == begin + 1) return true;
    s->reported[s->n_reported].cwe = cwe;
    s->reported[s->n_reported].begin = begin + 1;
    s->n_reported = (s->n_reported + 1) % ARRAY_LEN(s->reported);
    return false;
}

/* Is the line that a safe form needs in the window? */
static bool is_there(const guard_stream *s, const char *line)
{
    return memmem(s->text, s->n, line, strlen(line)) != NULL;
}

static bool has_environment(const guard_stream *s)
{
    switch (s->language) {
    case GUARD_PYTHON: return is_there(s, "import os");
    case GUARD_GO: return is_there(s, "\"os\"");
    case GUARD_C: return is_there(s, "stdlib.h>");
    case GUARD_CPP: return is_there(s, "stdlib.h>") || is_there(s, "cstdlib>");
    default: return true;
    }
}

void finding_report(guard_stream *s, const rule *u, guard_severity severity, taint level,
                    uint32_t begin, uint32_t end, view fix)
{
    view held = {s->text + s->held, s->n - s->held};
    bool fresh = false;
    if (end <= s->held || !held.len) return;
    uint32_t from = begin > s->held ? begin - s->held : 0;
    uint32_t last = end - s->held > held.len ? (uint32_t)held.len - 1 : end - s->held - 1;
    if (from > last) from = last;
    for (uint32_t i = from; i <= last; i++) fresh |= s->map[i].fresh;
    if (!fresh || is_allowed(s, held, u->id) || is_reported(s, u->cwe, begin)) return;
    known_finding what = {u, known_line(held), finding_soften(s, u, severity), level};
    awaited a = finding_describe(s, what, s->map[from], s->map[last], s->map[0]);
    /* An expression of which a part was released has none. */
    bool whole = begin >= s->held && !s->continues && fix.len < sizeof a.finding.fix;
    if (whole && fix.len) memcpy(a.finding.fix, fix.ptr, fix.len);
    if (whole && fix.len && u->needs && !is_there(s, u->needs)) a.finding.needs = u->needs;
    a.finding.has_environment = has_environment(s);
    if (!s->records && (!s->continues || s->language == GUARD_TEXT))
        keep_line(s, &a.finding, from, last + 1);
    /* Take that line of several held ones, which were held because their language was not known. */
    if (a.finding.held.len && s->language != GUARD_TEXT)
        a.what.line = known_line(held = a.finding.held);
    finding_raise(s, &a, held);
}

void finding_read(guard_stream *s, const guard_read *f)
{
    static const rule by_reader = {.id = "exists", .weak = WEAK_EXISTS};
    view held = {s->text + s->held, s->n - s->held};
    bool fresh = false;
    if (!held.len || is_allowed(s, held, by_reader.id)) return;
    uint32_t from = f->begin < held.len ? f->begin : (uint32_t)held.len - 1;
    uint32_t last = f->end > from && f->end <= held.len ? f->end - 1 : from;
    for (uint32_t i = from; i <= last; i++) fresh |= s->map[i].fresh;
    if (!fresh) return;
    known_finding what = {&by_reader, 0, GUARD_WARN, TAINT_SOURCE};
    awaited a = finding_describe(s, what, s->map[from], s->map[last], s->map[0]);
    a.finding.message = f->message;
    a.finding.idiom = f->idiom;
    a.finding.name = f->name;
    a.finding.is_import = f->is_import;
    a.finding.continues |= f->late;
    if (f->lines_back < a.finding.line) a.finding.line -= f->lines_back;
    if (!s->continues && !f->late) keep_line(s, &a.finding, from, last + 1);
    if (!f->late && unwrap_awaits_old(&s->unwrap)) return; /* the removed text may have it */
    add_finding(s, a.finding, false);
}
