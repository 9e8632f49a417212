/* closing.c - the end of code in which a line was taken back: what is released parses.
 *
 * Code that the model left unfinished is closed (guard/ending.h): at the end of an answer, and at
 * the end of a fence.  A completion goes on in its file, so that nothing is closed there: only a
 * block without a statement gets one.  An answer that its limit cut off stays as it is, unless it
 * ends behind the line that opens a block. */
#include "guard/ending.h"
#include "watch/watch_parts.h"

static void report(watch *w, const guard_ending *e)
{
    const cerium_finding found = {
        .rule = "end",
        .weakness = "end",
        .message = e->refuses ? "The code ended too early; a statement that refuses completes it"
                              : "The code ended too early; it was closed",
        .idiom = "",
        .language = w->wrong.language ? w->wrong.language : "",
        .kind = WATCH_KINDS_MAX - 1,
        .line = w->wrong.line,
        .at = e->at};
    watch_add(w, &found, CERIUM_FINDING_WARNED);
}

/* The text after byte `at` is replaced by what closes the code.  False: it is as it was, or only
 * the text after that byte is gone. */
static bool put(watch *w, const guard_ending *e)
{
    guard_result r;
    bool blocks = false;
    if (e->at < w->released || e->at > w->fed || !watch_cut(w, e->at)) return false;
    watch_drop_ends(w);
    if (!e->n) { /* a line that could not be completed is removed */
        report(w, e);
        return true;
    }
    if (bytes_append(&w->text, e->text, e->n)) return false;
    guard_feed(w->stream, w->config.worker, e->text, e->n, &r);
    for (uint32_t i = 0; i < r.n_findings; i++)
        blocks |= watch_policy_action(&w->policy, &r.findings[i]) == WATCH_BLOCK;
    w->fed += e->n;
    w->safe = r.safe;
    if (blocks || r.late || r.blind || !watch_append(w, (view){e->text, e->n}, e->at)) {
        watch_rewind(w, e->at);
        return false;
    }
    w->verified_until = w->fed;
    report(w, e);
    return true;
}

void watch_close_code(watch *w, bool by_itself)
{
    guard_ending e;
    guard_closing closing = by_itself ? GUARD_CLOSE_ALL : GUARD_CLOSE_HEADER;
    if (w->config.form == GUARD_CODE) closing = GUARD_CLOSE_NOTHING;
    bool goes_on = w->config.form == GUARD_CODE && w->config.has_after;
    if (!w->touched || w->corrects || w->lost || goes_on) return;
    if (guard_end_code(w->stream, w->config.worker, closing, &e)) (void)put(w, &e);
}

/* The stream is at byte `at`; the bytes that it had read after it are read again. */
static void read_again(watch *w, uint64_t to, uint64_t safe, uint64_t weighed)
{
    guard_result ignored;
    const char *from = w->text.ptr + (w->fed - w->text_at);
    guard_feed(w->stream, w->config.worker, from, (size_t)(to - w->fed), &ignored);
    w->text.len += (size_t)(to - w->fed);
    w->fed = to;
    w->safe = safe;
    w->weighed = weighed;
}

cerium_watch_order watch_close_segment(watch *w, uint64_t segment)
{
    guard_ending e;
    uint64_t at = w->line_at, to = w->fed, safe = w->safe, weighed = w->weighed;
    bool ended = w->touched && guard_segment(w->stream) != segment && w->touched_at >= segment;
    if (!ended || w->corrects || w->lost || w->n_closed == CLOSED_MAX) return CERIUM_WATCH_GO;
    if (w->config.form == GUARD_CODE || at < w->released || at < w->base_at || at >= to)
        return CERIUM_WATCH_GO;
    watch_rewind(w, at);
    bool open = guard_segment(w->stream) == segment &&
                guard_end_code(w->stream, w->config.worker, GUARD_CLOSE_ALL, &e);
    read_again(w, to, safe, weighed);
    if (!open) return CERIUM_WATCH_GO;
    w->after.len = 0;
    if (bytes_append(&w->after, w->text.ptr + (at - w->text_at), (size_t)(to - at)) || !put(w, &e))
        return CERIUM_WATCH_GO;
    w->n_closed++;
    w->repaired = true;
    w->n_note = w->n_avoid = 0;
    return CERIUM_WATCH_RETRY;
}
