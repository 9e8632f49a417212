/* lsp_prediction.c - next edits by a model, if no rule follows from the user's last edit: the host
 * is asked, and the nearest predicted edit is the answer. */
#include "lsp/lsp_parts.h"

enum { CHANGES = 6 };

/* A request to the host; owned. */
typedef struct {
    bytes text, original;
    bytes diffs[CHANGES]; /* [n] */
    size_t n;
    next_edit_change changes[CHANGES];
} situation;

static void close_situation(situation *s)
{
    bytes_free(&s->text);
    bytes_free(&s->original);
    for (size_t i = 0; i < s->n; i++) bytes_free(&s->diffs[i]);
}

static view of(const bytes *b) { return (view){b->ptr ? b->ptr : "", b->len}; }

/* A model does not see line ends of CR alone: its line numbers would differ. */
static bool counts_alike(const lsp_document *d, const bytes *lf)
{
    uint32_t n = 1;
    for (size_t i = 0; i < lf->len; i++) n += lf->ptr[i] == '\n';
    return n == lsp_text_lines(&d->text);
}

static bool ask(lsp_server *s, lsp_document *d, size_t caret, situation *now)
{
    size_t none = 0;
    const char *slash = strrchr(d->path, '/');
    const view path = view_of(slash ? slash + 1 : d->path);
    int status = next_edit_take_lf(&now->text, lsp_text_view(&d->text), &caret);
    if (!status) status = next_edit_take_lf(&now->original, of(&d->original), &none);
    if (!status)
        status = edit_history_diffs(&d->history, lsp_text_view(&d->text), now->diffs, CHANGES,
                                    &now->n);
    if (status || !counts_alike(d, &now->text)) return false;
    for (size_t i = 0; i < now->n; i++)
        now->changes[i] = (next_edit_change){path, of(&now->diffs[i]), false};
    const lsp_predict_order order = {
        .document = d->key, .serial = s->last_serial + 1,
        .place = {.path = path, .text = of(&now->text), .caret = caret,
                  .original = now->original.len ? of(&now->original) : (view){NULL, 0},
                  .changes = now->changes, .n_changes = now->n}};
    return s->host.predict(s->host.user, &order);
}

bool lsp_predict(lsp_server *s, lsp_document *d, json_t *id, size_t caret)
{
    situation now = {.text = {.max = 2 * (size_t)LSP_TEXT_BYTES_MAX},
                     .original = {.max = 2 * (size_t)LSP_TEXT_BYTES_MAX}};
    const bool is_large = d->text.text.len > NEXT_EDIT_TEXT_BYTES_MAX;
    if (!s->host.predict || s->model.state != LSP_MODEL_READY || !d->history.n || is_large ||
        d->is_minified || !s->settings.next_edit || !lsp_settings_allow(&s->settings, d))
        return false;
    const bool runs = ask(s, d, caret, &now);
    close_situation(&now);
    if (!runs) return false;
    d->prediction.id = json_incref(id);
    d->prediction.serial = ++s->last_serial;
    return true;
}

static void answer(lsp_server *s, lsp_document *d, json_t *edits)
{
    json_t *id = d->prediction.id;
    d->prediction.id = NULL;
    lsp_answer(s, id, json_pack("{s:o}", "edits", edits));
    json_decref(id);
}

void lsp_prediction_drop(lsp_server *s, lsp_document *d)
{
    if (d->prediction.id) answer(s, d, json_array());
}

bool lsp_prediction_cancel(lsp_server *s, const json_t *id)
{
    for (uint32_t i = 0; i < s->n_documents; i++) {
        lsp_document *d = s->documents[i];
        if (!d->prediction.id || !json_equal(d->prediction.id, id)) continue;
        lsp_answer_error(s, d->prediction.id, LSP_REQUEST_CANCELLED, "canceled");
        json_decref(d->prediction.id);
        d->prediction.id = NULL;
        return true;
    }
    return false;
}

/* Whole lines, with the file's line ends. */
static json_t *edit_json(lsp_server *s, const lsp_document *d, const next_edit *e)
{
    size_t from, to, unused;
    bytes text = {.max = NEXT_EDIT_TEXT_BYTES_MAX};
    lsp_text_line(&d->text, e->line, &from, &unused);
    lsp_text_line(&d->text, e->line + e->n_lines, &to, &unused);
    int status = lsp_put_lines(&text, d, e->text);
    json_t *out = status ? NULL
                         : lsp_next_edit_json(s, d, from, to, lsp_json_text(of(&text)), text.len);
    bytes_free(&text);
    return out;
}

void lsp_server_predicted(lsp_server *s, uint64_t document, uint64_t serial, const next_edit *edits,
                          size_t n)
{
    lsp_document *d = lsp_document_by_key(s, document);
    if (!d || !d->prediction.id || d->prediction.serial != serial) return;
    json_t *list = json_array();
    json_t *one = n ? edit_json(s, d, &edits[0]) : NULL;
    if (one) {
        s->counts.next_edits++;
        json_array_append_new(list, one);
    }
    answer(s, d, list);
}
