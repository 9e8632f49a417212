/* lsp_candidates.c - several answers to one question: the first is what is shown, the others are
 * made beside it when the user asks, and kept like it.
 *
 * They are proposals behind the first in the list, so that the first is found as long as it fits;
 * who types or takes a part of another one departs from the first, and the other goes on. */
#include "lsp/lsp_parts.h"

#include <math.h>
#include <string.h>

enum {
    ASKED_MS = 2000,  /* the most that a user waits for others who asked for them, */
    UNASKED_MS = 150, /* and who did not */
};

lsp_item lsp_item_at(const lsp_document *d, const lsp_proposal *p, lsp_fit fit,
                     const lsp_place *place, const lsp_item_limits *limits)
{
    const size_t at = d->question.at;
    size_t from, to;
    lsp_text_line(&d->text, lsp_text_line_at(&d->text, at), &from, &to);
    view before = {d->text.text.ptr ? d->text.text.ptr + from : "", at > from ? at - from : 0};
    return lsp_item_of(p, fit, place, before, limits);
}

static view rest_of(const lsp_offer *o)
{
    return (view){o->p->text.ptr + o->fit.typed, o->item.len};
}

static bool has_lines(const lsp_offer *o)
{
    const view text = rest_of(o);
    return text.len && memchr(text.ptr, '\n', text.len);
}

/* The same, or its first lines: those can be taken of the other. */
static bool says(const lsp_offer *o, view text)
{
    const view all = view_trim(rest_of(o), " \t\r\n");
    return view_starts(all, text) && (all.len == text.len || strchr("\r\n", all.ptr[text.len]));
}

static bool is_known(const lsp_offer *all, uint32_t n, const lsp_offer *o)
{
    const view text = view_trim(rest_of(o), " \t\r\n");
    bool known = !text.len;
    for (uint32_t i = 0; i < n && !known; i++) known = says(&all[i], text);
    return known;
}

uint32_t lsp_candidates_find(const lsp_server *s, lsp_document *d, lsp_offer *out)
{
    const lsp_question *q = &d->question;
    const lsp_item_limits limits = {.lines_max = s->settings.lines_max, .logprob_min = -INFINITY,
                                    .takes_lines = true};
    lsp_place place = q->place;
    uint32_t n = 1;
    place.is_block = has_lines(&out[0]);
    for (uint32_t i = 0; i < d->proposals.n && n < q->n_max; i++) {
        lsp_offer *o = &out[n];
        o->p = &d->proposals.list[i];
        if (o->p == out[0].p || !lsp_proposal_fits(o->p, &d->text, q->at, &o->fit)) continue;
        if (d->serial && d->running == o->p->id) continue;
        o->item = lsp_item_at(d, o->p, o->fit, &place, &limits);
        if (o->item.len && !is_known(out, n, o)) n++;
    }
    return n;
}

bool lsp_candidates_run(const lsp_document *d, const lsp_proposal *p, size_t at)
{
    return d->others.runs && d->others.of == p->id && d->others.at == at;
}

bool lsp_candidates_wait(lsp_server *s, lsp_document *d, lsp_proposal *p, lsp_fit fit,
                         lsp_item first, uint64_t now)
{
    lsp_question *q = &d->question;
    if (q->others_until_ns && d->others.runs && now < q->others_until_ns) return true;
    q->others_until_ns = 0;
    if (q->asked_others) return false; /* if it is too slow, the next question has them */
    q->asked_others = true;
    const uint64_t until = now + (q->invoked ? ASKED_MS : UNASKED_MS) * LSP_MS;
    if (lsp_candidates_run(d, p, q->at)) { /* for an earlier question */
        q->others_until_ns = until;
        return true;
    }
    if (p->has_others && p->others_after == fit.typed) return false;
    lsp_offer all[LSP_CANDIDATES_MAX] = {{p, fit, first}};
    if (lsp_candidates_find(s, d, all) == q->n_max) return false;
    const lsp_aim aim = {.at = q->at, .n_after = q->at + fit.n_closers, .n_candidates = q->n_max,
                         .is_line = !has_lines(&all[0])};
    const uint32_t id = p->id;
    if (!lsp_generate(s, d, NULL, &aim)) return false;
    d->others.runs = true;
    d->others.of = id;
    d->others.at = aim.at;
    d->others.n_after = aim.n_after;
    q->others_until_ns = until;
    return true;
}

/* ---- reports of the host ---- */

/* As the file has it, with the log-probability of each piece. */
static int fill(const lsp_document *d, lsp_proposal *p, const lsp_candidate *c)
{
    size_t at = 0;
    int status = CERIUM_OK;
    for (size_t i = 0; i < c->n_pieces && !status && at < c->text.len; i++) {
        const size_t left = c->text.len - at;
        const size_t len = c->pieces[i].len < left ? c->pieces[i].len : left;
        bytes text = {.max = LSP_PROPOSAL_BYTES_MAX};
        status = lsp_put_lines(&text, d, (view){c->text.ptr + at, len});
        if (!status)
            status = lsp_proposal_add(p, (view){text.ptr ? text.ptr : "", text.len},
                                      (double)c->pieces[i].logprob);
        bytes_free(&text);
        at += len;
    }
    return status;
}

static bool is_kept(const lsp_document *d, const lsp_proposal *p, size_t at)
{
    for (uint32_t i = 0; i < d->proposals.n; i++) {
        const lsp_proposal *o = &d->proposals.list[i];
        lsp_fit fit;
        if (o == p || !lsp_proposal_fits(o, &d->text, at, &fit)) continue;
        if (view_equal((view){o->text.ptr + fit.typed, o->text.len - fit.typed},
                       (view){p->text.ptr, p->text.len}))
            return true;
    }
    return false;
}

/* Keeps a candidate behind the proposal `after`; returns its id, or that. */
static uint32_t keep(lsp_server *s, lsp_document *d, const lsp_candidate *c, uint32_t after)
{
    if (!c->text.len) return after;
    lsp_proposal *p = lsp_proposals_begin_behind(&d->proposals, after, &d->text, d->others.at,
                                                 d->others.n_after);
    if (!p) return after;
    const int status = fill(d, p, c);
    p->ended = true;
    p->is_cut = c->is_cut;
    if (!status && p->text.len && !is_kept(d, p, d->others.at)) return p->id;
    if (status) lsp_log(s, "%s: a candidate is lost: %s", d->path, cerium_status_text(status));
    lsp_proposals_drop(&d->proposals, p->id);
    return after;
}

void lsp_candidates_keep(lsp_server *s, lsp_document *d, const lsp_candidate *list, size_t n)
{
    const uint32_t first = d->others.of;
    lsp_fit fit;
    for (size_t i = 0, after = first; i < n; i++)
        after = keep(s, d, &list[i], (uint32_t)after);
    lsp_proposal *p = lsp_proposals_by_id(&d->proposals, first);
    if (p && lsp_proposal_fits(p, &d->text, d->others.at, &fit)) {
        p->has_others = true;
        p->others_after = fit.typed;
    }
}
