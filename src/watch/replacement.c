/* replacement.c - judges the lines written in place of a weak line, and the lines after it: each is
 * accepted, or sampled again with another beginning.
 *
 * Rejected are words of the note and comments instead of code, text that closes the block of the
 * weak line, lines that make the code before invalid in its language, and lines that repeat
 * endlessly: REPLIES_MAX times at a place (half as often after the line in the weak one's place),
 * and until REDRAWN_MAX tokens of an answer are discarded.  Then the rule's safe form is inserted,
 * or a statement that refuses (splice.c).  The text after it is accepted, but an answer that is
 * nothing but code ends before the line. */
#include "watch/watch_parts.h"

enum { PERIOD_MAX = 64, CIRCLES = 4, CIRCLE_BYTES = 48, MESSAGE_BYTES = 16, STATEMENT_BYTES = 512 };

static view text_from(const watch *w, uint64_t from, uint64_t to)
{
    return (view){w->text.ptr + (from - w->text_at), (size_t)(to - from)};
}

/* If the unverified text ends with many repetitions, the beginning of the second; else UINT64_MAX.
 * Rulers of one sign do not count. */
static uint64_t circle(const watch *w)
{
    view text = text_from(w, w->verified_until, w->fed);
    if (text.len < CIRCLE_BYTES || strchr(" -=*#~/._+\n", text.ptr[text.len - 1]))
        return UINT64_MAX;
    const char *last = text.ptr + text.len - 1;
    for (size_t p = 1; p <= PERIOD_MAX && CIRCLES * p <= text.len; p++) {
        size_t n = 0;
        while (n + p < text.len && last[-(ptrdiff_t)n] == last[-(ptrdiff_t)(n + p)]) n++;
        if (n + p >= CIRCLE_BYTES && n >= (CIRCLES - 1) * p) return w->fed - n;
    }
    return UINT64_MAX;
}

/* The place at which the text after a note repeats words of it; UINT64_MAX: none. */
static uint64_t hash_of_note(const watch *w)
{
    view text = text_from(w, w->verified_until, w->fed), message = view_of(w->wrong.message);
    if (message.len > MESSAGE_BYTES) message.len = MESSAGE_BYTES;
    const view words[] = {VIEW("CWE-"), VIEW("; instead: "), message};
    for (size_t i = 0; i < ARRAY_LEN(words) && w->corrects && text.len; i++) {
        const char *at = memmem(text.ptr, text.len, words[i].ptr, words[i].len);
        if (at) return w->verified_until + (uint64_t)(at - text.ptr);
    }
    return UINT64_MAX;
}

/* The replacement did not come: insert the rule's form instead. */
static cerium_watch_order give_up(watch *w)
{
    if (watch_cut(w, w->verified_until) && watch_splice(w)) return CERIUM_WATCH_RETRY;
    if (w->fed > w->verified_until) { /* text that cannot be cut is not released */
        w->safe = w->released;
        watch_drop(w, w->released);
    }
    w->over = true;
    watch_add(w, &w->wrong, CERIUM_FINDING_BLOCKED);
    return CERIUM_WATCH_END;
}

static bool has_tries(const watch *w)
{
    if (w->n_redrawn >= REDRAWN_MAX) return false;
    if (!w->corrects) return w->n_replies < REPLIES_MAX / 2;
    if (w->config.recorded && w->n_asked >= w->config.n_recorded) return false;
    return w->n_replies < REPLIES_MAX;
}

/* The unverified text is not code from byte `fault` on.  Words of a note are never sent. */
static cerium_watch_order decline(watch *w, uint64_t fault)
{
    uint32_t before = watch_n_logged(w);
    w->after.len = 0;
    bool spent = !has_tries(w);
    if (w->corrects && (spent || !watch_rollback_reply(w, fault))) {
        cerium_watch_order order = give_up(w);
        w->stats.n_discarded += before > watch_n_logged(w) ? before - watch_n_logged(w) : 0;
        return order;
    }
    if (spent && w->config.form != GUARD_CODE) return CERIUM_WATCH_GO;
    if (!w->corrects) {
        bool cut = spent ? watch_cut(w, w->verified_until) : watch_rollback_reply(w, fault);
        if (!cut) return CERIUM_WATCH_GO;
    }
    w->over = spent;
    w->n_replies++;
    w->n_asked += w->corrects;
    w->n_redrawn += before - watch_n_logged(w);
    w->stats.n_discarded += before - watch_n_logged(w);
    w->has_note = w->corrects;
    return spent ? CERIUM_WATCH_END : CERIUM_WATCH_RETRY;
}

/* All text up to here is good; the requested line is there. */
static void vouch(watch *w)
{
    w->verified_until = w->safe;
    w->n_replies = w->n_avoid = 0;
    if (!w->corrects) return;
    w->corrects = false;
    w->checks_form = !w->config.recorded;
    w->n_tries = w->n_note = 0;
    watch_add(w, &w->wrong, CERIUM_FINDING_REWRITTEN);
}

/* Does the new text close the block of the weak line, or the text around it? */
static bool leaves_hole(const watch *w)
{
    view text = text_from(w, w->verified_until, w->fed);
    size_t n = 0, begin = 0; /* of its first line that is not blank */
    for (; n < text.len && strchr(" \t\r\n\\", text.ptr[n]); n++) {
        if (text.ptr[n] == '\n') begin = n + 1;
        if (text.ptr[n] != '\\') continue;
        if (!w->escaped || n + 1 == text.len || !strchr("nrt", text.ptr[n + 1])) break;
        if (text.ptr[++n] == 'n') begin = n + 1;
    }
    view rest = {text.ptr + n, text.len - n};
    n -= begin;
    if (!w->corrects || !rest.len || !strcmp(w->wrong.language, "text")) return false;
    if (strchr("})]", rest.ptr[0]) || (w->escaped && rest.ptr[0] == '"')) return true;
    if (view_starts(rest, VIEW("```")) || view_starts(rest, VIEW("</"))) return true;
    if (!strcmp(w->wrong.language, "ruby")) return view_starts(rest, VIEW("end"));
    return !strcmp(w->wrong.language, "python") && n < w->indent && rest.ptr[0] != '#';
}

static reply_kind kind_of(const watch *w)
{
    return watch_kind_of(text_from(w, w->verified_until, w->safe), w->escaped,
                         !strcmp(w->wrong.language, "text"));
}

/* The first byte from which the last line is not code; UINT64_MAX: there is none.  Within JSON
 * bytes of code differ from those of the text, and a nearby place must do. */
static uint64_t fault(watch *w, guard_syntax *syntax)
{
    uint32_t n_good = 0;
    uint64_t start = clock_ns();
    *syntax = guard_syntax_check(w->stream, w->config.worker, &n_good);
    w->stats.ns += clock_ns() - start;
    if (*syntax != GUARD_SYNTAX_BROKEN) return UINT64_MAX;
    return w->verified_until + n_good < w->fed ? w->verified_until + n_good : w->fed - 1;
}

cerium_watch_order watch_weigh(watch *w)
{
    bool judged = w->safe > w->verified_until && w->safe > w->weighed;
    reply_kind kind = judged && w->safe - w->verified_until < BACK_BYTES ? kind_of(w) : REPLY_CODE;
    guard_syntax syntax = GUARD_SYNTAX_COMPLETE;
    w->weighed = w->safe;
    uint64_t at = hash_of_note(w);
    if (at == UINT64_MAX) at = circle(w);
    if (at == UINT64_MAX && w->fed > w->verified_until) at = fault(w, &syntax);
    if (at == UINT64_MAX && w->corrects && kind == REPLY_COMMENT) at = w->verified_until;
    if (at == UINT64_MAX && leaves_hole(w)) at = w->verified_until;
    cerium_watch_order order = at == UINT64_MAX ? CERIUM_WATCH_GO : decline(w, at);
    if (order != CERIUM_WATCH_GO) return order;
    /* A statement is done when it is complete. */
    bool waits = syntax == GUARD_SYNTAX_OPEN && w->fed - w->verified_until < STATEMENT_BYTES;
    if (judged && !waits && (kind != REPLY_NOTHING || !w->corrects)) vouch(w);
    return CERIUM_WATCH_GO;
}

/* The end came from outside, in the middle of a statement: its lines are not reported. */
static bool drops_half(watch *w)
{
    view rest = text_from(w, w->verified_until, w->fed);
    bool lines = rest.len && memchr(rest.ptr, '\n', rest.len);
    return w->config.form == GUARD_CODE && lines && watch_cut(w, w->verified_until);
}

cerium_watch_order watch_weigh_end(watch *w, bool by_itself)
{
    reply_kind kind = w->safe > w->verified_until ? kind_of(w) : REPLY_NOTHING;
    uint64_t at = hash_of_note(w);
    guard_syntax syntax;
    /* A line with a missing name may be as unfinished as the one in its place. */
    bool half = !by_itself && strcmp(w->wrong.language, "text") != 0 &&
                !(w->corrects && w->wrong_name);
    if (w->corrects && (kind != REPLY_CODE || half || leaves_hole(w))) return give_up(w);
    if (half && drops_half(w)) return CERIUM_WATCH_GO;
    if (at == UINT64_MAX && by_itself && kind == REPLY_CODE) at = fault(w, &syntax);
    cerium_watch_order order = at == UINT64_MAX ? CERIUM_WATCH_GO : decline(w, at);
    if (order == CERIUM_WATCH_GO) vouch(w);
    return order;
}

bool watch_drop_note(watch *w)
{
    if (!w->has_note || w->corrects || !watch_cut(w, w->fed)) return false;
    w->has_note = false;
    return true;
}
