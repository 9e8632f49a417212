/* known.c - is a finding new?  The text that an edit removes and the texts of the request are
 * judged by the same rules, if there is something to compare: a finding is known if the same rule
 * reports at least as much of the same line there. */
#include <ctype.h>

#include "base/text.h"
#include "guard/guard_parts.h"

enum { PLACE_BEFORE = 6144, PLACE_BEHIND = 2048, NEEDLE_MIN = 4 };

uint64_t known_line(view line)
{
    uint64_t hash = 0xcbf29ce484222325u;
    for (size_t i = 0; i < line.len; i++)
        if (!isspace((unsigned char)line.ptr[i]))
            hash = (hash ^ (uint8_t)line.ptr[i]) * 0x100000001b3u;
    return hash;
}

/* Afterwards the findings in text are the worker's `known`. */
static void judge_old(guard_stream *s, guard_language language, view text)
{
    guard_worker *w = s->worker;
    guard_stream *old = w->old;
    uint32_t n_findings = w->n_findings, n_judged = w->n_judged, unjudged = w->unjudged_line;
    bool late = w->late, blind = w->blind;
    stream_reset(old, language);
    w->n_known = 0;
    stream_judge(old, w, text);
    w->n_findings = n_findings;
    w->n_judged = n_judged;
    w->unjudged_line = unjudged;
    w->late = late;
    w->blind = blind;
}

static uint32_t count(const known_finding *list, uint32_t n, const known_finding *what)
{
    uint32_t found = 0;
    for (uint32_t i = 0; i < n; i++)
        found += list[i].rule == what->rule && list[i].line == what->line &&
                 list[i].severity >= what->severity;
    return found;
}

/* Two new copies of one old line count as one known and one new. */
static bool use_up(guard_stream *s, const known_finding *what)
{
    uint32_t there = count(s->worker->known, s->worker->n_known, what);
    known_finding any = *what;
    any.severity = GUARD_NOTE;
    if (there <= count(s->used, s->n_used, &any) || s->n_used == KNOWN_MAX) return false;
    s->used[s->n_used++] = *what;
    return true;
}

static view first_line(view text)
{
    text = view_trim_start(text, TEXT_SPACE);
    const char *end = text.len ? memchr(text.ptr, '\n', text.len) : NULL;
    if (end) text.len = (size_t)(end - text.ptr);
    return view_trim_end(text, TEXT_SPACE);
}

/* In an earlier text: the place of the line's beginning.  *n_left: how many such places may still
 * be judged. */
static bool in_text(guard_stream *s, guard_language language, const known_finding *what, view all,
                    view needle, int *n_left)
{
    const char *at = all.ptr, *end = all.ptr + all.len;
    for (; *n_left > 0 && at < end; --*n_left) {
        at = memmem(at, (size_t)(end - at), needle.ptr, needle.len);
        if (!at) return false;
        size_t here = (size_t)(at - all.ptr), from = here > PLACE_BEFORE ? here - PLACE_BEFORE : 0;
        while (from && from < here && all.ptr[from - 1] != '\n') from++;
        size_t to = here + needle.len + PLACE_BEHIND;
        if (to > all.len) to = all.len;
        judge_old(s, language, (view){all.ptr + from, to - from});
        if (use_up(s, what)) return true;
        at += needle.len;
    }
    return false;
}

static bool in_request(guard_stream *s, guard_language language, const known_finding *what,
                       view line)
{
    const view needle = first_line(line);
    int n_left = REQUEST_SPOTS_MAX;
    if (needle.len < NEEDLE_MIN || what->rule->weak == WEAK_SECRET) return false;
    for (size_t i = 0; i < s->config.n_request; i++)
        if (in_text(s, language, what, s->config.request[i], needle, &n_left)) return true;
    return false;
}

bool known_finding_is(guard_stream *s, guard_language language, const known_finding *what,
                      view line)
{
    if (s->records) return false;
    if (s->n_old) {
        judge_old(s, language, (view){s->old, s->n_old});
        if (use_up(s, what)) return true;
    }
    return in_request(s, language, what, line);
}

void known_record(guard_stream *s, const known_finding *what)
{
    guard_worker *w = s->worker;
    if (w->n_known < KNOWN_MAX) w->known[w->n_known++] = *what;
}

void known_old_byte(guard_stream *s, char c)
{
    if (s->n_old == OLD_BYTES) { /* the last half of it, by whole lines */
        uint32_t from = OLD_BYTES / 2;
        while (from < s->n_old && s->old[from - 1] != '\n') from++;
        memmove(s->old, s->old + from, s->n_old - from);
        s->n_old -= from;
    }
    s->old[s->n_old++] = c;
}
