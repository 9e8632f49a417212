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

void lsp_feedback_changed(lsp_server *s, lsp_document *d, uint64_t now)
{
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
