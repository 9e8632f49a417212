/* lsp_feedback.c - the fate of shown proposals: accepted, typed by hand, or rejected.
 *
 * Only the text decides, as not every editor reports acceptance: text that arrives at once was
 * accepted, text that arrives key by key was typed.  Proposals shown too briefly to be seen do not
 * count. */
#include "lsp/lsp_parts.h"

#include <math.h>

enum {
    AT_ONCE_BYTES = 3, /* more than a key, and more than an editor adds to one */
    SEEN_MS = 250,
};

static uint32_t count_characters(view text)
{
    uint32_t n = 0;
    for (size_t i = 0; i < text.len; i++) n += ((unsigned char)text.ptr[i] & 0xC0) != 0x80;
    return n;
}

static void end(lsp_server *s, lsp_document *d, const lsp_proposal *p, lsp_outcome_kind kind)
{
    const view shown = {p->text.ptr + d->seen.from, d->seen.to - d->seen.from};
    const view taken = {p->text.ptr + d->seen.from, d->seen.taken < shown.len ? d->seen.taken
                                                                              : shown.len};
    const lsp_outcome o = {.kind = kind, .model = s->model_name, .language = d->language_id,
                           .probability = d->seen.probability,
                           .standard = s->model.confidence,
                           .n_shown = count_characters(shown),
                           .n_taken = count_characters(taken)};
    d->seen.id = 0;
    if (s->settings.feedback && s->host.outcome) s->host.outcome(s->host.user, &o);
}

void lsp_feedback_shown(lsp_document *d, const lsp_proposal *p, size_t from, size_t to,
                        uint64_t now)
{
    if (d->question.invoked) { /* the user invoked it: it does not count for unasked proposals */
        d->seen.id = 0;
    } else if (d->seen.id == p->id) {
        if (to > d->seen.to) d->seen.to = to;
    } else {
        d->seen.id = p->id;
        d->seen.from = d->seen.typed = from;
        d->seen.to = to;
        d->seen.taken = 0;
        d->seen.at_ns = now;
        d->seen.probability = exp(lsp_proposal_logprob(p, from, to));
    }
}

/* ---- several candidates ---- */

void lsp_feedback_offered(lsp_document *d, const lsp_offer *all, uint32_t n)
{
    d->offered.n = n > 1 ? n : 0;
    d->offered.taken = false;
    for (uint32_t i = 0; i < d->offered.n; i++) {
        d->offered.ids[i] = all[i].p->id;
        d->offered.typed[i] = all[i].fit.typed;
        d->offered.ends[i] = all[i].fit.typed + all[i].item.len;
    }
}

static void tell_chosen(lsp_server *s, lsp_document *d, uint32_t i)
{
    const lsp_outcome o = {.kind = LSP_OUTCOME_CHOSEN, .model = s->model_name,
                           .language = d->language_id, .standard = s->model.confidence,
                           .chosen = i};
    d->offered.n = 0;
    if (s->settings.feedback && s->host.outcome) s->host.outcome(s->host.user, &o);
}

/* What arrived at once was taken, of the first that has it all; of parts that several have, the
 * next keys say which was meant. */
static void look_at_offered(lsp_server *s, lsp_document *d)
{
    uint32_t n_left = 0, first = 0;
    bool was_taken = d->offered.taken;
    uint32_t first_taken = LSP_CANDIDATES_MAX;
    for (uint32_t i = 0; i < d->offered.n; i++) {
        lsp_fit fit;
        const lsp_proposal *p = lsp_proposals_by_id(&d->proposals, d->offered.ids[i]);
        if (!d->offered.ids[i]) continue;
        if (first_taken == LSP_CANDIDATES_MAX) first_taken = i;
        if (!p || !lsp_proposal_fits(p, &d->text, d->caret, &fit)) {
            d->offered.ids[i] = 0;
            continue;
        }
        if (!n_left++) first = i;
        if (fit.typed >= d->offered.typed[i] + AT_ONCE_BYTES) d->offered.taken = true;
        d->offered.typed[i] = fit.typed;
        if (d->offered.taken && fit.typed >= d->offered.ends[i]) {
            tell_chosen(s, d, i);
            return;
        }
    }
    if (!n_left && was_taken && first_taken < LSP_CANDIDATES_MAX) tell_chosen(s, d, first_taken);
    else if (n_left == 1 && d->offered.taken) tell_chosen(s, d, first);
    else if (!n_left) d->offered.n = 0;
}

void lsp_feedback_changed(lsp_server *s, lsp_document *d, uint64_t now)
{
    if (d->offered.n) look_at_offered(s, d);
    const lsp_proposal *p = d->seen.id ? lsp_proposals_by_id(&d->proposals, d->seen.id) : NULL;
    lsp_fit fit;
    if (!p || p->text.len < d->seen.to) { /* it is dropped */
        d->seen.id = 0;
        return;
    }
    if (lsp_proposal_fits(p, &d->text, d->caret, &fit)) {
        const size_t more = fit.typed > d->seen.typed ? fit.typed - d->seen.typed : 0;
        if (more >= AT_ONCE_BYTES) d->seen.taken += more;
        d->seen.typed = fit.typed;
        if (fit.typed >= d->seen.to)
            end(s, d, p, d->seen.taken ? LSP_OUTCOME_TAKEN : LSP_OUTCOME_TYPED);
    } else if (d->seen.taken) { /* a part of it */
        end(s, d, p, LSP_OUTCOME_TAKEN);
    } else if (now - d->seen.at_ns >= SEEN_MS * LSP_MS) {
        end(s, d, p, LSP_OUTCOME_REFUSED);
    } else {
        d->seen.id = 0;
    }
}

double lsp_feedback_confidence(const lsp_server *s, const lsp_document *d)
{
    double least = s->settings.confidence;
    if (least >= 0) return least; /* the editor reports it */
    least = s->model.confidence;
    if (s->settings.feedback && s->host.confidence)
        least = s->host.confidence(s->host.user, s->model_name, d->language_id, least);
    return least;
}
