/* splice.c - the replacement of a weak line if the model gives none: the rule's safe form, or a
 * statement that refuses.  It is judged like the model's own text, and the answer continues after
 * it. */
#include "watch/watch_parts.h"

enum {
    SPLICES_HERE = 2, /* that may be tried again after the model continued them badly */
    OTHERS_MAX = 2,   /* weaknesses in one line beside the first */
};

/* A missing name ends no answer: at last the line is sent as written, except an import that must be
 * blocked. */
static bool keeps_line(const watch *w, const guard_finding *f)
{
    return f->name && !(f->is_import && w->policy.action[f->kind] == WATCH_BLOCK);
}

void watch_note_repairs(watch *w, const guard_finding *f, bool first)
{
    w->keeps_line = keeps_line(w, f);
    if (w->keeps_line) { /* as in the answer, with its escapes */
        uint64_t end = f->line_end > f->line_begin && f->line_end <= w->fed ? f->line_end : w->fed;
        size_t n = (size_t)(end - f->line_begin);
        memset(w->n_repairs, 0, sizeof w->n_repairs);
        if (n > REPAIR_BYTES) return;
        memcpy(w->repairs[0], w->text.ptr + (f->line_begin - w->text_at), n);
        w->n_repairs[0] = n;
        return;
    }
    for (repair_form form = 0; form < REPAIR_FORMS; form++) {
        if (!first && w->n_repairs[form]) continue; /* the first line was the intended one */
        w->n_repairs[form] = guard_repair(f, form, w->repairs[form], REPAIR_BYTES);
    }
}

/* The guard reads it.  The first finding that blocks, or NULL; *fits: none blocks. */
static const guard_finding *feed(watch *w, view text, bool *fits)
{
    guard_result r;
    uint32_t n_good;
    const guard_finding *first = NULL;
    *fits = false;
    if (w->keeps_line) watch_names_reported(w->names, w->wrong_name);
    if (bytes_append(&w->text, text.ptr, text.len)) return NULL;
    guard_feed(w->stream, w->config.worker, text.ptr, text.len, &r);
    w->fed += text.len;
    w->safe = r.safe;
    for (uint32_t i = r.n_findings; i-- > 0;) {
        const guard_finding *f = &r.findings[i];
        if (watch_policy_action(&w->policy, f) == WATCH_BLOCK && !f->name) first = f;
    }
    if (first || r.late || r.blind) return first;
    *fits = guard_syntax_check(w->stream, w->config.worker, &n_good) != GUARD_SYNTAX_BROKEN;
    return NULL;
}

/* The text, from byte `at` on, or the rest of it after a second weakness in it is removed; depth:
 * how many more.  True: it is fed. */
static bool try_text(watch *w, view text, uint64_t at, uint32_t depth)
{
    char again[REPAIR_BYTES];
    bool fits;
    const guard_finding *f = feed(w, text, &fits);
    for (repair_form form = REPAIR_STATEMENT; !fits && depth && f && form < REPAIR_FORMS; form++) {
        size_t n = guard_repair(f, form, again, sizeof again);
        watch_rewind(w, at);
        if (n && try_text(w, (view){again, n}, at, depth - 1)) return true;
        f = feed(w, text, &fits); /* the worker's findings are gone */
    }
    if (!fits) watch_rewind(w, at);
    return fits;
}

void watch_drop_ends(watch *w)
{
    int32_t last;
    for (; w->log.len; w->log.len -= sizeof last, w->ends.len -= sizeof(uint64_t)) {
        memcpy(&last, w->log.ptr + w->log.len - sizeof last, sizeof last);
        if (!cerium_token_is_end(w->config.engine, last)) return;
        if (w->kept.len) w->kept.len -= sizeof(kept_token);
    }
}

static void go_on(watch *w, cerium_finding_action action)
{
    w->corrects = w->has_note = false;
    w->repaired = true;
    w->checks_form = !w->config.recorded;
    w->verified_until = w->fed;
    w->n_tries = w->n_replies = w->n_note = w->n_avoid = 0;
    watch_add(w, &w->wrong, action);
}

/* The model gave nothing in place of the line with a missing name: the line again, up to that name,
 * and then one that exists. */
static bool resume_at_place(watch *w, uint64_t at)
{
    guard_result r;
    view line = {w->repairs[0], w->n_repairs[0]};
    const guard_finding *f = NULL;
    if (!w->keeps_line || !line.len || w->config.recorded || w->escaped ||
        w->n_places == PLACES_MAX)
        return false;
    bool is_whole = line.ptr[line.len - 1] == '\n';
    if (bytes_append(&w->text, line.ptr, line.len) || bytes_append(&w->text, "\n", !is_whole)) {
        w->text.len = (size_t)(at - w->text_at);
        return false;
    }
    line = (view){w->text.ptr + (at - w->text_at), line.len + !is_whole};
    guard_feed(w->stream, w->config.worker, line.ptr, line.len, &r);
    w->fed += line.len;
    for (uint32_t i = r.n_findings; i-- > 0;)
        if (r.findings[i].name == w->wrong_name) f = &r.findings[i];
    if (!f || !watch_append(w, line, at) || !watch_rollback_place(w, f)) {
        watch_rewind(w, at);
        watch_drop(w, at);
        return false;
    }
    w->n_places++;
    w->n_tries = WATCH_TRIES;
    w->n_replies = 0;
    w->corrects = w->checks_form = true;
    w->has_note = false;
    w->verified_until = at;
    return true;
}

bool watch_splice(watch *w)
{
    uint64_t at = w->fed, start = clock_ns();
    bool done = false;
    w->n_spliced = w->spliced_at == at ? w->n_spliced + 1 : 1;
    w->spliced_at = at;
    if (w->lost || w->n_spliced > SPLICES_HERE) return false;
    watch_drop_ends(w);
    if (resume_at_place(w, at)) return true;
    for (repair_form form = 0; form < REPAIR_FORMS && !done; form++) {
        view text = {w->repairs[form], w->n_repairs[form]};
        if (!text.len) continue;
        bool whole = try_text(w, text, at, 0);
        if (!whole && !try_text(w, text, at, OTHERS_MAX)) continue;
        view written = {w->text.ptr + (at - w->text_at), (size_t)(w->fed - at)};
        done = watch_append(w, written, at);
        bool fixed = form == REPAIR_FIX && whole;
        if (done && w->keeps_line) go_on(w, CERIUM_FINDING_WARNED);
        else if (done) go_on(w, fixed ? CERIUM_FINDING_REPLACED : CERIUM_FINDING_WITHHELD);
        else watch_rewind(w, at);
    }
    w->stats.ns += clock_ns() - start;
    return done;
}
