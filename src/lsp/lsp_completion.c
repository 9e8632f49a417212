/* lsp_completion.c - textDocument/inlineCompletion: text is generated when a document changes, and
 * answered when an editor asks for it.
 *
 * A question is answered at the first of: a complete line or block; WAIT_MS, with the lines so far;
 * the end of the generation.  A change of the document answers it with null. */
#include "lsp/lsp_parts.h"

#include <ctype.h>
#include <math.h>

enum {
    HOT_MS = 10000,    /* for this long after a question a change starts a generation by itself */
    WAIT_MS = 150,
    BLANK_MS = 400,    /* of rest on an empty line: Tab must stay Tab */
    REST_MS = 150,     /* of rest of the caret before the prompt of its place is computed */
    MORE_BELOW = 24,   /* fewer bytes left ask for more */
    INVOKED = 1,       /* triggerKind: by hand */
};

static bool is_silenced(const lsp_server *s, const lsp_document *d, uint64_t now)
{
    return now < s->snoozed_until_ns || !lsp_settings_allow(&s->settings, d);
}

static double logprob_min(const lsp_server *s, const lsp_document *d)
{
    const double least = lsp_feedback_confidence(s, d);
    return least > 0 ? log(least) : -INFINITY;
}

/* ---- generating ---- */

/* The text to send: its beginning moves in steps, so that it stays in the model's cache. */
static size_t cut_before(const lsp_server *s, view text)
{
    const size_t most = s->model.before_bytes - lsp_snippets_bytes(s), step = most / 3 + 1;
    if (text.len <= most) return 0;
    size_t from = (text.len - most + step - 1) / step * step;
    const char *line = memchr(text.ptr + from, '\n', text.len - from);
    size_t next = line ? (size_t)(line - text.ptr) + 1 : from;
    return next < text.len ? next : from;
}

static int append_lf(bytes *out, view text)
{
    RETURN_IF(bytes_reserve(out, text.len));
    for (size_t i = 0; i < text.len; i++)
        if (text.ptr[i] != '\r' || (i + 1 < text.len && text.ptr[i + 1] != '\n'))
            out->ptr[out->len++] = text.ptr[i];
    return CERIUM_OK;
}

/* The document's text before `at`, and `more`, in pieces allowed for a model. */
static int gather(const lsp_server *s, const lsp_document *d, size_t at, view more, size_t n_after,
                  bytes *before, bytes *after)
{
    const view text = lsp_text_view(&d->text);
    const size_t from = cut_before(s, (view){text.ptr, at});
    size_t n = text.len - n_after;
    if (n > s->model.after_bytes) n = s->model.after_bytes;
    while (n && n_after + n < text.len &&
           ((unsigned char)text.ptr[n_after + n] & 0xC0) == 0x80)
        n--;
    before->max = after->max = 2 * (size_t)LSP_TEXT_BYTES_MAX;
    if (at > from) RETURN_IF(append_lf(before, (view){text.ptr + from, at - from}));
    RETURN_IF(append_lf(before, more));
    return n ? append_lf(after, (view){text.ptr + n_after, n}) : CERIUM_OK;
}

static void close_stop(lsp_document *d)
{
    infill_stop_close(&d->stop);
    bytes_free(&d->after);
}

static void stop_running(lsp_server *s, lsp_document *d)
{
    if (!d->serial) return;
    s->host.cancel(s->host.user, d->key);
    d->serial = 0;
    close_stop(d);
    lsp_proposal *p = d->running ? lsp_proposals_by_id(&d->proposals, d->running) : NULL;
    if (p) p->ended = p->is_cut = true;
    if (p && p->text.len == p->seed) lsp_proposals_drop(&d->proposals, d->running);
    d->running = 0;
}

/* Least confidence; below 0: the model's server decides. */
static double least_confidence(const lsp_server *s, const lsp_document *d)
{
    const double least = lsp_feedback_confidence(s, d);
    if (d->question.id && d->question.invoked) return 0;
    return least > 0 || s->settings.confidence >= 0 ? least : -1;
}

/* p: the proposal to continue; NULL: a warm-up of the place. */
static bool start(lsp_server *s, lsp_document *d, lsp_proposal *p, size_t at, size_t n_after)
{
    bytes before = {0};
    const uint32_t id = p ? p->id : 0;
    if (s->model.state != LSP_MODEL_READY) return false;
    stop_running(s, d); /* which moves the others */
    p = id ? lsp_proposals_by_id(&d->proposals, id) : NULL;
    view more = {p ? p->text.ptr : NULL, p ? p->text.len : 0};
    int status = gather(s, d, at, more, n_after, &before, &d->after);
    const view b = {before.ptr ? before.ptr : "", before.len};
    const view a = {d->after.ptr ? d->after.ptr : "", d->after.len}; /* d->stop borrows it */
    if (!status) status = infill_stop_open(&d->stop, b, a, 0, true);
    if (!status) lsp_snippets_choose(s, d, at, b, a);
    const char *slash = strrchr(d->path, '/');
    const lsp_order order = {.document = d->key, .serial = ++s->last_serial, .before = b,
                             .after = a, .path = slash ? slash + 1 : d->path,
                             .language = d->language, .warm_up = !p,
                             .files = d->found.files, .n_files = d->found.n,
                             .confidence = least_confidence(s, d)};
    bool runs = !status && s->host.generate(s->host.user, &order);
    if (!runs) close_stop(d);
    bytes_free(&before);
    if (!runs) return false;
    d->serial = order.serial;
    d->running = p ? p->id : 0;
    d->logprob = 0;
    d->n_lines = 0;
    d->warm_at_ns = 0;
    if (!p) return true;
    p->asked = p->text.len;
    p->ended = p->is_cut = false;
    s->counts.generated++;
    return true;
}

/* A new proposal for a place; false: there is no model. */
static bool begin_at(lsp_server *s, lsp_document *d, size_t at, size_t n_after, view seed)
{
    stop_running(s, d);
    lsp_proposal *p = lsp_proposals_begin(&d->proposals, &d->text, at, n_after, seed);
    if (!p) return false;
    if (start(s, d, p, at, n_after)) return true;
    lsp_proposals_drop(&d->proposals, p->id);
    return false;
}

/* Asks for more if little is left of a fitting proposal.  False: nothing runs for it. */
static bool go_on(lsp_server *s, lsp_document *d, lsp_proposal *p, lsp_fit fit, size_t at)
{
    size_t left = p->text.len - fit.typed;
    if (d->serial && d->running == p->id) return true;
    if (!p->ended || p->dry || (left >= MORE_BELOW && !p->is_cut)) return false;
    return start(s, d, p, p->at, at + fit.n_closers);
}

static lsp_place place_of(const lsp_document *d, size_t at, bool is_invoked)
{
    return lsp_place_at(&d->text, d->language, at, d->is_minified, is_invoked);
}

void lsp_completion_moved(lsp_document *d, size_t from, size_t to, size_t n)
{
    lsp_proposals_move(&d->proposals, from, to, n);
}

void lsp_follow(lsp_server *s, lsp_document *d, uint64_t now)
{
    lsp_fit fit;
    lsp_proposal *p = lsp_proposals_find(&d->proposals, &d->text, d->caret, &fit);
    bool is_hot = now < d->hot_until_ns;
    if (!p || d->running != p->id) stop_running(s, d);
    if (!is_hot || is_silenced(s, d, now)) return;
    if (p) (void)go_on(s, d, p, fit, d->caret);
    else if (!place_of(d, d->caret, false).silence)
        (void)begin_at(s, d, d->caret, d->caret, (view){"", 0});
}

void lsp_caret_rests(lsp_server *s, lsp_document *d, size_t at, uint64_t now)
{
    lsp_fit fit;
    bool is_new = at != d->caret;
    d->caret = at;
    if (!is_new || d->serial || now >= d->hot_until_ns || is_silenced(s, d, now)) return;
    if (!lsp_proposals_find(&d->proposals, &d->text, at, &fit))
        d->warm_at_ns = now + REST_MS * LSP_MS;
}

/* ---- answering ---- */

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
    stop_running(s, d);
    lsp_completion_supersede(s, d);
}

bool lsp_completion_cancel(lsp_server *s, const json_t *id)
{
    for (uint32_t i = 0; i < s->n_documents; i++) {
        lsp_document *d = s->documents[i];
        if (!d->question.id || !json_equal(d->question.id, id)) continue;
        stop_running(s, d);
        s->counts.canceled++;
        lsp_answer_error(s, d->question.id, LSP_REQUEST_CANCELLED, "canceled");
        close_question(&d->question);
        return true;
    }
    return false;
}

static json_t *item_json(lsp_server *s, lsp_document *d, lsp_proposal *p, lsp_fit fit,
                         lsp_item item)
{
    const lsp_question *q = &d->question;
    bytes text = {.max = 1 << 20};
    size_t from = q->selected ? q->from : q->at;
    int status = q->selected ? bytes_append(&text, q->text.ptr, q->text.len) : CERIUM_OK;
    if (!status) status = bytes_append(&text, p->text.ptr + fit.typed, item.len);
    json_t *out = status ? NULL
                         : json_pack("{s:[{s:o, s:o, s:{s:s, s:s, s:[s, I, I, I]}}]}", "items",
                                     "insertText", lsp_json_text((view){text.ptr, text.len}),
                                     "range", lsp_json_range(s, d, from, q->at + item.replaces),
                                     "command", "title", "Completion Accepted", "command",
                                     "cerium.server.accepted", "arguments", d->uri,
                                     (json_int_t)p->id, (json_int_t)item.len,
                                     (json_int_t)d->version);
    bytes_free(&text);
    return out;
}

static lsp_item item_of(const lsp_server *s, const lsp_document *d, const lsp_proposal *p,
                        lsp_fit fit, size_t at, uint64_t now)
{
    const lsp_question *q = &d->question;
    const lsp_item_limits limits = {
        .lines_max = s->settings.lines_max,
        .logprob_min = q->invoked ? -INFINITY : logprob_min(s, d),
        .takes_lines = now - q->asked_ns >= WAIT_MS * LSP_MS};
    size_t from, to;
    lsp_text_line(&d->text, lsp_text_line_at(&d->text, at), &from, &to);
    view before = {d->text.text.ptr ? d->text.text.ptr + from : "", at > from ? at - from : 0};
    return lsp_item_of(p, fit, &q->place, before, &limits);
}

/* Answers the question if that is possible now. */
static void try_answer(lsp_server *s, lsp_document *d, uint64_t now)
{
    lsp_question *q = &d->question;
    lsp_fit fit;
    if (!q->id) return;
    lsp_proposal *p = lsp_proposals_find(&d->proposals, &d->text, q->at, &fit);
    bool is_shown = p && p->shown_to > fit.typed; /* it stays */
    if (now < q->not_before_ns && !is_shown) return;
    if (q->selected && p) { /* the popup's text is the beginning of the proposal */
        size_t known = fit.typed - (q->at - q->from);
        if (fit.typed < q->at - q->from || p->text.len - known < q->text.len ||
            memcmp(p->text.ptr + known, q->text.ptr, q->text.len) != 0)
            p = NULL;
        else
            fit.typed = known + q->text.len;
    }
    bool runs = p && d->serial && d->running == p->id;
    lsp_item item = {.len = 0};
    if (p) item = item_of(s, d, p, fit, q->at, now);
    if (runs && !item.is_whole) return;
    if (!item.len) {
        answer_nothing(s, d);
        return;
    }
    p->shown_to = fit.typed + item.len;
    lsp_feedback_shown(d, p, fit.typed, p->shown_to, now);
    s->counts.answers++;
    s->counts.shown++;
    lsp_answer(s, q->id, item_json(s, d, p, fit, item));
    close_question(q);
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
    if (p && q->selected) {
        size_t typed = q->at - q->from, known = fit.typed - typed;
        bool says = fit.typed >= typed && p->text.len - known >= q->text.len &&
                    !memcmp(p->text.ptr + known, q->text.ptr, q->text.len);
        if (!says) p = NULL;
    }
    if (!p) {
        size_t at = q->selected ? q->from : q->at;
        (void)begin_at(s, d, at, q->at, (view){q->text.ptr ? q->text.ptr : "", q->text.len});
    } else if (p->text.len == fit.typed || p->is_cut) {
        (void)go_on(s, d, p, fit, q->at);
    } else if (d->serial && d->running != p->id) {
        stop_running(s, d);
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
    d->hot_until_ns = now + HOT_MS * LSP_MS;
    d->caret = at;
    const lsp_place place = place_of(d, at, q->invoked);
    q->place = place;
    if (place.silence) lsp_log(s, "%s: nothing: %s", d->path, lsp_silence_name(place.silence));
    bool reads = read_selected(s, d, context, q);
    if (!reads || place.silence || is_silenced(s, d, now)) {
        answer_nothing(s, d);
        return;
    }
    q->not_before_ns = earliest(s, d, &place, q);
    find_or_start(s, d);
    try_answer(s, d, now);
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
    d->serial = 0;
    d->running = 0;
    int status = p ? infill_stop_finish(&d->stop, &more) : CERIUM_OK;
    if (!status) status = lsp_put_lines(&text, d, (view){more.ptr, more.len});
    if (!status && text.len)
        status = lsp_proposal_add(p, (view){text.ptr, text.len}, d->logprob);
    if (status) lsp_log(s, "%s: the end of a completion is lost: %s", d->path,
                        cerium_status_text(status));
    if (p) {
        give_up_broken(d, p);
        if (end == LSP_ENDED_LENGTH && !p->shown_to) end_at_word(p);
        p->ended = true;
        p->dry = p->text.len == p->asked || end == LSP_ENDED_UNSURE;
    }
    if (p && end == LSP_ENDED_FAILED && p->text.len == p->seed)
        lsp_proposals_drop(&d->proposals, p->id);
    close_stop(d);
    bytes_free(&more);
    bytes_free(&text);
    try_answer(s, d, now);
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
        end_running(s, d, d->stop.end ? LSP_ENDED_STOP : LSP_ENDED_LENGTH, now);
    } else {
        try_answer(s, d, now);
    }
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
        at = q->asked_ns + WAIT_MS * LSP_MS; /* once: later only new text can answer */
        if (q->not_before_ns > at) at = q->not_before_ns;
        if (q->waited) at = UINT64_MAX;
    }
    return at < due ? at : due;
}

void lsp_completion_tick(lsp_server *s, lsp_document *d, uint64_t now)
{
    lsp_question *q = &d->question;
    if (d->warm_at_ns && now >= d->warm_at_ns) {
        d->warm_at_ns = 0;
        if (!d->serial) (void)start(s, d, NULL, d->caret, d->caret);
    }
    if (!q->id) return;
    try_answer(s, d, now);
    if (q->id && now >= q->asked_ns + WAIT_MS * LSP_MS && now >= q->not_before_ns)
        q->waited = true;
}
