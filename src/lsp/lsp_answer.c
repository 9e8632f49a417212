/* lsp_answer.c - textDocument/inlineCompletion: questions, and their answers.
 *
 * A question is answered at the first of: a complete line or block; LSP_WAIT_MS, with the lines so
 * far; the end of the generation.  A change of the document answers it with null. */
#include "lsp/lsp_parts.h"

#include <math.h>

enum {
    BLANK_MS = 400,    /* of rest on an empty line: Tab must stay Tab */
    INVOKED = 1,       /* triggerKind: by hand */
};

static double logprob_min(const lsp_server *s, const lsp_document *d)
{
    const double least = lsp_feedback_confidence(s, d);
    return least > 0 ? log(least) : -INFINITY;
}

static void close_question(lsp_question *q)
{
    json_decref(q->id);
    bytes_free(&q->text);
    *q = (lsp_question){.id = NULL};
}

static void answer_nothing(lsp_server *s, lsp_document *d)
{
    if (!d->question.id) return;
    s->counts.answers++;
    lsp_answer(s, d->question.id, json_null());
    close_question(&d->question);
}

void lsp_completion_supersede(lsp_server *s, lsp_document *d)
{
    if (d->question.id) s->counts.superseded++;
    answer_nothing(s, d);
}

void lsp_completion_drop(lsp_server *s, lsp_document *d)
{
    lsp_generate_stop(s, d);
    lsp_completion_supersede(s, d);
}

bool lsp_completion_cancel(lsp_server *s, const json_t *id)
{
    for (uint32_t i = 0; i < s->n_documents; i++) {
        lsp_document *d = s->documents[i];
        if (!d->question.id || !json_equal(d->question.id, id)) continue;
        lsp_generate_stop(s, d);
        s->counts.canceled++;
        lsp_answer_error(s, d->question.id, LSP_REQUEST_CANCELLED, "canceled");
        close_question(&d->question);
        return true;
    }
    return false;
}

static json_t *item_json(lsp_server *s, const lsp_document *d, const lsp_offer *o)
{
    const lsp_question *q = &d->question;
    bytes text = {.max = 1 << 20};
    size_t from = q->selected ? q->from : q->at;
    int status = q->selected ? bytes_append(&text, q->text.ptr, q->text.len) : CERIUM_OK;
    if (!status) status = bytes_append(&text, o->p->text.ptr + o->fit.typed, o->item.len);
    json_t *out = status ? NULL
                         : json_pack("{s:o, s:o, s:{s:s, s:s, s:[s, I, I, I]}}", "insertText",
                                     lsp_json_text((view){text.ptr, text.len}), "range",
                                     lsp_json_range(s, d, from, q->at + o->item.replaces),
                                     "command", "title", "Completion Accepted", "command",
                                     "cerium.server.accepted", "arguments", d->uri,
                                     (json_int_t)o->p->id, (json_int_t)o->item.len,
                                     (json_int_t)d->version);
    bytes_free(&text);
    return out;
}

/* Null if one of them cannot be written. */
static json_t *items_json(lsp_server *s, const lsp_document *d, const lsp_offer *all, uint32_t n)
{
    json_t *list = json_array();
    int status = list ? 0 : -1;
    for (uint32_t i = 0; i < n && !status; i++)
        status = json_array_append_new(list, item_json(s, d, &all[i]));
    if (!status) return json_pack("{s:o}", "items", list);
    json_decref(list);
    return json_null();
}

static lsp_item item_of(const lsp_server *s, const lsp_document *d, const lsp_proposal *p,
                        lsp_fit fit, uint64_t now)
{
    const lsp_question *q = &d->question;
    const lsp_item_limits limits = {
        .lines_max = s->settings.lines_max,
        .logprob_min = q->invoked ? -INFINITY : logprob_min(s, d),
        .takes_lines = now - q->asked_ns >= LSP_WAIT_MS * LSP_MS};
    return lsp_item_at(d, p, fit, &q->place, &limits);
}

/* The first candidate, and the others that are known. */
static void answer(lsp_server *s, lsp_document *d, const lsp_offer *first, uint64_t now)
{
    lsp_question *q = &d->question;
    lsp_offer all[LSP_CANDIDATES_MAX] = {*first};
    const uint32_t n = q->n_max > 1 ? lsp_candidates_find(s, d, all) : 1;
    for (uint32_t i = 0; i < n; i++) all[i].p->shown_to = all[i].fit.typed + all[i].item.len;
    lsp_feedback_shown(d, first->p, first->fit.typed, first->p->shown_to, now);
    lsp_feedback_offered(d, all, n);
    s->counts.answers++;
    s->counts.shown++;
    lsp_answer(s, q->id, items_json(s, d, all, n));
    close_question(q);
}

/* The popup's text is the beginning of the proposal: *fit is behind it.  Else false. */
static bool says_selected(const lsp_question *q, const lsp_proposal *p, lsp_fit *fit)
{
    const size_t typed = q->at - q->from, known = fit->typed - typed;
    if (fit->typed < typed || p->text.len - known < q->text.len ||
        memcmp(p->text.ptr + known, q->text.ptr, q->text.len) != 0)
        return false;
    fit->typed = known + q->text.len;
    return true;
}

void lsp_try_answer(lsp_server *s, lsp_document *d, uint64_t now)
{
    lsp_question *q = &d->question;
    lsp_offer first = {.item = {.len = 0}};
    lsp_fit fit;
    if (!q->id) return;
    lsp_proposal *p = lsp_proposals_find(&d->proposals, &d->text, q->at, &fit);
    bool is_shown = p && p->shown_to > fit.typed; /* it stays */
    if (now < q->not_before_ns && !is_shown) return;
    if (q->selected && p && !says_selected(q, p, &fit)) p = NULL;
    bool runs = p && d->serial && d->running == p->id;
    if (p) first = (lsp_offer){p, fit, item_of(s, d, p, fit, now)};
    if (runs && !first.item.is_whole) return;
    if (!first.item.len) {
        answer_nothing(s, d);
        return;
    }
    const uint32_t id = p->id;
    if (q->n_max > 1 && lsp_candidates_wait(s, d, p, fit, first.item, now)) return;
    first.p = lsp_proposals_by_id(&d->proposals, id); /* another one may be gone */
    if (first.p) answer(s, d, &first, now);
    else answer_nothing(s, d);
}

/* The popup's choice: false when it cannot be continued. */
static bool read_selected(const lsp_server *s, const lsp_document *d, const json_t *context,
                          lsp_question *q)
{
    const json_t *info = json_object_get(context, "selectedCompletionInfo");
    size_t to;
    if (!info || json_is_null(info)) return true;
    view text = lsp_read_string(info, "text");
    if (!text.ptr || !lsp_read_range(s, d, json_object_get(info, "range"), &q->from, &to) ||
        to != q->at)
        return false;
    q->selected = true;
    q->text.max = 64 << 10;
    size_t typed = q->at - q->from;
    return text.len >= typed && (!typed || !memcmp(text.ptr, d->text.text.ptr + q->from, typed)) &&
           !bytes_append(&q->text, text.ptr, text.len);
}

/* Start a generation for the question, unless a known proposal answers it. */
static void find_or_start(lsp_server *s, lsp_document *d)
{
    lsp_question *q = &d->question;
    lsp_fit fit;
    lsp_proposal *p = lsp_proposals_find(&d->proposals, &d->text, q->at, &fit);
    lsp_fit behind = fit;
    if (p && q->selected && !says_selected(q, p, &behind)) p = NULL;
    if (!p) {
        size_t at = q->selected ? q->from : q->at;
        const view seed = {q->text.ptr ? q->text.ptr : "", q->text.len};
        (void)lsp_generate_new(s, d, at, q->at, seed);
    } else if (p->text.len == fit.typed || p->is_cut) {
        (void)lsp_generate_more(s, d, p, fit, q->at);
    } else if (d->serial && d->running != p->id && !lsp_candidates_run(d, p, q->at)) {
        lsp_generate_stop(s, d);
    }
}

static uint64_t earliest(const lsp_server *s, const lsp_document *d, const lsp_place *place,
                         const lsp_question *q)
{
    uint64_t ms = s->settings.delay_ms;
    if (q->invoked || q->selected) return 0;
    if (place->is_blank && ms < BLANK_MS) ms = BLANK_MS;
    return ms ? d->changed_ns + ms * LSP_MS : 0;
}

void lsp_inline_completion(lsp_server *s, json_t *id, const json_t *params, uint64_t now)
{
    lsp_document *d = lsp_document_of(s, params);
    const json_t *context = json_object_get(params, "context");
    size_t at;
    s->counts.requests++;
    if (!d || !lsp_read_position(s, d, json_object_get(params, "position"), &at)) {
        lsp_answer_error(s, id, LSP_INVALID_PARAMS, d ? "no position" : "no such document is open");
        return;
    }
    lsp_completion_supersede(s, d);
    lsp_question *q = &d->question;
    const json_t *kind = json_object_get(context, "triggerKind");
    *q = (lsp_question){.id = json_incref(id), .at = at, .asked_ns = now,
                        .invoked = json_integer_value(kind) == INVOKED};
    d->hot_until_ns = now + LSP_HOT_MS * LSP_MS;
    d->caret = at;
    const lsp_place place = lsp_place_of(d, at, q->invoked);
    q->place = place;
    if (place.silence) lsp_log(s, "%s: nothing: %s", d->path, lsp_silence_name(place.silence));
    bool reads = read_selected(s, d, context, q);
    if (!reads || place.silence || lsp_is_silenced(s, d, now)) {
        answer_nothing(s, d);
        return;
    }
    q->not_before_ns = earliest(s, d, &place, q);
    if (!q->selected && (q->invoked || s->settings.always_several))
        q->n_max = s->settings.candidates;
    find_or_start(s, d);
    lsp_try_answer(s, d, now);
}
