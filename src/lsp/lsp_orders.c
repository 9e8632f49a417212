/* lsp_orders.c - orders to the host: which text goes to a model, for a proposal, for several
 * candidates, or ahead of a question.  One runs for a document. */
#include "lsp/lsp_parts.h"

enum { MORE_BELOW = 24 /* fewer bytes left ask for more */ };

bool lsp_is_silenced(const lsp_server *s, const lsp_document *d, uint64_t now)
{
    return now < s->snoozed_until_ns || !lsp_settings_allow(&s->settings, d);
}

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

void lsp_generate_end(lsp_document *d)
{
    d->serial = 0;
    d->running = 0;
    d->others.runs = false;
    infill_stop_close(&d->stop);
    bytes_free(&d->after);
}

void lsp_generate_stop(lsp_server *s, lsp_document *d)
{
    if (!d->serial) return;
    const uint32_t running = d->running;
    s->host.cancel(s->host.user, d->key);
    lsp_generate_end(d);
    lsp_proposal *p = running ? lsp_proposals_by_id(&d->proposals, running) : NULL;
    if (p) p->ended = p->is_cut = true;
    if (p && p->text.len == p->seed) lsp_proposals_drop(&d->proposals, running);
}

/* Least confidence; below 0: the model's server decides. */
static double least_confidence(const lsp_server *s, const lsp_document *d)
{
    const double least = lsp_feedback_confidence(s, d);
    if (d->question.id && d->question.invoked) return 0;
    return least > 0 || s->settings.confidence >= 0 ? least : -1;
}

bool lsp_generate(lsp_server *s, lsp_document *d, lsp_proposal *p, const lsp_aim *aim)
{
    const size_t at = aim->at, n_after = aim->n_after;
    bytes before = {0};
    const uint32_t id = p ? p->id : 0;
    if (s->model.state != LSP_MODEL_READY) return false;
    lsp_generate_stop(s, d); /* which moves the others */
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
                             .language = d->language,
                             .warm_up = !p && !aim->n_candidates,
                             .n_candidates = aim->n_candidates, .is_line = aim->is_line,
                             .files = d->found.files, .n_files = d->found.n,
                             .confidence = aim->n_candidates ? 0 : least_confidence(s, d)};
    bool runs = !status && s->host.generate(s->host.user, &order);
    if (!runs) lsp_generate_end(d);
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

bool lsp_generate_new(lsp_server *s, lsp_document *d, size_t at, size_t n_after, view seed)
{
    const lsp_aim aim = {.at = at, .n_after = n_after};
    lsp_generate_stop(s, d);
    lsp_proposal *p = lsp_proposals_begin(&d->proposals, &d->text, at, n_after, seed);
    if (!p) return false;
    if (lsp_generate(s, d, p, &aim)) return true;
    lsp_proposals_drop(&d->proposals, p->id);
    return false;
}

bool lsp_generate_more(lsp_server *s, lsp_document *d, lsp_proposal *p, lsp_fit fit, size_t at)
{
    const lsp_aim aim = {.at = p->at, .n_after = at + fit.n_closers};
    size_t left = p->text.len - fit.typed;
    if (d->serial && d->running == p->id) return true;
    if (!p->ended || p->dry || (left >= MORE_BELOW && !p->is_cut)) return false;
    return lsp_generate(s, d, p, &aim);
}

lsp_place lsp_place_of(const lsp_document *d, size_t at, bool is_invoked)
{
    return lsp_place_at(&d->text, d->language, at, d->is_minified, is_invoked);
}
