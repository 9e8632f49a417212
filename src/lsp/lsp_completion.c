/* lsp_completion.c - text for textDocument/inlineCompletion is generated when a document changes;
 * the reports that the host makes of it, and the passing of time. */
#include "lsp/lsp_parts.h"

#include <ctype.h>

enum { REST_MS = 150 /* of rest of the caret before the prompt of its place is computed */ };

void lsp_completion_moved(lsp_document *d, size_t from, size_t to, size_t n)
{
    lsp_proposals_move(&d->proposals, from, to, n);
}

void lsp_follow(lsp_server *s, lsp_document *d, uint64_t now)
{
    lsp_fit fit;
    lsp_proposal *p = lsp_proposals_find(&d->proposals, &d->text, d->caret, &fit);
    bool is_hot = now < d->hot_until_ns;
    if (!p || d->running != p->id) lsp_generate_stop(s, d);
    if (!is_hot || lsp_is_silenced(s, d, now)) return;
    if (p) (void)lsp_generate_more(s, d, p, fit, d->caret);
    else if (!lsp_place_of(d, d->caret, false).silence)
        (void)lsp_generate_new(s, d, d->caret, d->caret, (view){"", 0});
}

void lsp_caret_rests(lsp_server *s, lsp_document *d, size_t at, uint64_t now)
{
    lsp_fit fit;
    bool is_new = at != d->caret;
    d->caret = at;
    if (!is_new || d->serial || now >= d->hot_until_ns || lsp_is_silenced(s, d, now)) return;
    if (!lsp_proposals_find(&d->proposals, &d->text, at, &fit))
        d->warm_at_ns = now + REST_MS * LSP_MS;
}

/* ---- reports of the host ---- */

/* Cut the last half line if it only repeats earlier text. */
static void give_up_broken(lsp_document *d, lsp_proposal *p)
{
    size_t n = infill_stop_broken(&d->stop);
    if (!n || n > p->text.len - p->asked || p->shown_to) return;
    p->text.len -= n;
    while (p->text.len > p->asked && strchr(" \t\r\n", p->text.ptr[p->text.len - 1])) p->text.len--;
}

/* It ended at the token limit: not within a word. */
static void end_at_word(lsp_proposal *p)
{
    while (p->text.len > p->asked && (isalnum((unsigned char)p->text.ptr[p->text.len - 1]) ||
                                      p->text.ptr[p->text.len - 1] == '_'))
        p->text.len--;
}

static void end_running(lsp_server *s, lsp_document *d, lsp_end end, uint64_t now)
{
    lsp_proposal *p = lsp_proposals_by_id(&d->proposals, d->running);
    bytes more = {.max = LSP_PROPOSAL_BYTES_MAX}, text = {.max = LSP_PROPOSAL_BYTES_MAX};
    int status = p ? infill_stop_finish(&d->stop, &more) : CERIUM_OK;
    if (!status) status = lsp_put_lines(&text, d, (view){more.ptr, more.len});
    if (!status && text.len)
        status = lsp_proposal_add(p, (view){text.ptr, text.len}, d->logprob);
    if (status) {
        lsp_log(s, "%s: the end of a completion is lost: %s", d->path,
                cerium_status_text(status));
        if (status == CERIUM_ERR_MEMORY) end = LSP_ENDED_FAILED; /* it is asked for again */
    }
    if (p) {
        give_up_broken(d, p);
        if (end == LSP_ENDED_LENGTH && !p->shown_to) end_at_word(p);
        p->ended = true;
        p->dry = (p->text.len == p->asked && end != LSP_ENDED_FAILED) || end == LSP_ENDED_UNSURE;
    }
    if (p && end == LSP_ENDED_FAILED && p->text.len == p->seed)
        lsp_proposals_drop(&d->proposals, p->id);
    lsp_generate_end(d);
    bytes_free(&more);
    bytes_free(&text);
    lsp_try_answer(s, d, now);
}

void lsp_server_text(lsp_server *s, uint64_t document, uint64_t serial, view piece, double logprob,
                     uint64_t now)
{
    lsp_document *d = lsp_document_by_key(s, document);
    bytes more = {.max = LSP_PROPOSAL_BYTES_MAX}, text = {.max = LSP_PROPOSAL_BYTES_MAX};
    if (!d || d->serial != serial || !d->running) return;
    lsp_proposal *p = lsp_proposals_by_id(&d->proposals, d->running);
    d->logprob += logprob;
    int status = p ? infill_stop_feed(&d->stop, piece, &more) : CERIUM_ERR_CAPACITY;
    if (!status) status = lsp_put_lines(&text, d, (view){more.ptr, more.len});
    if (!status && text.len) {
        status = lsp_proposal_add(p, (view){text.ptr, text.len}, d->logprob);
        d->logprob = 0;
    }
    for (size_t i = 0; i < piece.len; i++) d->n_lines += piece.ptr[i] == '\n';
    bytes_free(&more);
    bytes_free(&text);
    if (status || d->stop.end || d->n_lines > s->settings.lines_max) {
        s->host.cancel(s->host.user, d->key);
        const bool is_lost = status == CERIUM_ERR_MEMORY;
        end_running(s, d, is_lost       ? LSP_ENDED_FAILED
                          : d->stop.end ? LSP_ENDED_STOP
                                        : LSP_ENDED_LENGTH, now);
    } else {
        lsp_try_answer(s, d, now);
    }
}

void lsp_server_candidates(lsp_server *s, uint64_t document, uint64_t serial,
                           const lsp_candidate *list, size_t n, uint64_t now)
{
    lsp_document *d = lsp_document_by_key(s, document);
    if (!d || d->serial != serial || !d->others.runs) return;
    lsp_candidates_keep(s, d, list, n);
    lsp_generate_end(d);
    lsp_try_answer(s, d, now);
}

void lsp_server_ended(lsp_server *s, uint64_t document, uint64_t serial, lsp_end end, uint64_t now)
{
    lsp_document *d = lsp_document_by_key(s, document);
    if (d && d->serial == serial) end_running(s, d, end, now);
}

/* ---- time ---- */

uint64_t lsp_completion_due(const lsp_document *d)
{
    const lsp_question *q = &d->question;
    uint64_t due = d->warm_at_ns ? d->warm_at_ns : UINT64_MAX, at = UINT64_MAX;
    if (q->id) {
        at = q->asked_ns + LSP_WAIT_MS * LSP_MS; /* once: later only new text can answer */
        if (q->not_before_ns > at) at = q->not_before_ns;
        if (q->waited) at = UINT64_MAX;
        if (q->others_until_ns && q->others_until_ns < at) at = q->others_until_ns;
    }
    return at < due ? at : due;
}

void lsp_completion_tick(lsp_server *s, lsp_document *d, uint64_t now)
{
    lsp_question *q = &d->question;
    if (d->warm_at_ns && now >= d->warm_at_ns) {
        d->warm_at_ns = 0;
        const lsp_aim aim = {.at = d->caret, .n_after = d->caret};
        if (!d->serial) (void)lsp_generate(s, d, NULL, &aim);
    }
    if (!q->id) return;
    lsp_try_answer(s, d, now);
    if (q->id && now >= q->asked_ns + LSP_WAIT_MS * LSP_MS && now >= q->not_before_ns)
        q->waited = true;
}
