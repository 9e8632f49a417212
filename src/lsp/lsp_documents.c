/* lsp_documents.c - open documents: their languages by name, and every change of their text. */
#include "lsp/lsp_parts.h"

enum { URI_BYTES_MAX = 8192, MEASURED_EVERY = 64, ORIGINAL_BYTES_MAX = 1 << 20 };

/* ---- names ---- */

static guard_language language_of(view path, view id)
{
    guard_language found = guard_language_of_path(path);
    return found == GUARD_TEXT ? guard_language_named(id) : found;
}

/* ---- the list ---- */

static void discard(lsp_server *s, lsp_document *d)
{
    lsp_completion_drop(s, d);
    lsp_prediction_drop(s, d);
    snippets_close(&d->found);
    bytes_free(&d->original);
    lsp_diagnostics_close(s, d);
    lsp_proposals_close(&d->proposals);
    edit_history_close(&d->history);
    lsp_text_close(&d->text);
    memory_free(d->uri);
    memory_free(d->path);
    memory_free(d->language_id);
    memory_free(d);
}

static void drop(lsp_server *s, lsp_document *d)
{
    uint32_t i = 0;
    while (s->documents[i] != d) i++;
    const uint64_t key = d->key;
    s->documents[i] = s->documents[--s->n_documents];
    discard(s, d);
    if (s->host.forget) s->host.forget(s->host.user, key);
}

void lsp_documents_close(lsp_server *s)
{
    while (s->n_documents) drop(s, s->documents[s->n_documents - 1]);
}

/* ---- opening and closing ---- */

/* The end of the first line decides. */
static bool ends_with_cr(view text)
{
    const char *end = text.len ? memchr(text.ptr, '\n', text.len) : NULL;
    return end && end > text.ptr && end[-1] == '\r';
}

void lsp_did_open(lsp_server *s, const json_t *params, uint64_t now)
{
    const json_t *item = json_object_get(params, "textDocument");
    view uri = lsp_read_string(item, "uri"), id = lsp_read_string(item, "languageId");
    view text = lsp_read_string(item, "text");
    if (!uri.ptr || !uri.len || uri.len > URI_BYTES_MAX || !text.ptr) {
        lsp_log(s, "didOpen without a uri or a text: passed over");
        return;
    }
    lsp_document *d = lsp_document_by_uri(s, uri);
    if (d) drop(s, d); /* opened again */
    if (s->n_documents == LSP_DOCUMENTS_MAX) {
        lsp_log(s, "%d documents are open: no more are followed", LSP_DOCUMENTS_MAX);
        return;
    }
    d = memory_zalloc(1, sizeof *d);
    if (d) {
        d->uri = memory_copy(uri.ptr, uri.len);
        d->path = lsp_path_of(uri, &d->is_file);
        d->language_id = memory_copy(id.len ? id.ptr : "", id.len);
    }
    if (!d || !d->uri || !d->path || !d->language_id || lsp_text_set(&d->text, text)) {
        lsp_log(s, "no memory for a document");
        if (d) discard(s, d);
        return;
    }
    d->key = ++s->last_key;
    d->version = json_integer_value(json_object_get(item, "version"));
    d->language = language_of(view_of(d->path), view_of(d->language_id));
    d->has_cr = ends_with_cr(text);
    d->is_minified = lsp_text_is_minified(&d->text);
    d->typed_line = UINT32_MAX;
    d->kept_version = d->sent_version = INT64_MIN; /* clients begin with 0, too */
    d->original.max = ORIGINAL_BYTES_MAX;
    if (bytes_append(&d->original, text.ptr, text.len)) d->original.len = 0;
    s->documents[s->n_documents++] = d;
    lsp_diagnostics_changed(s, d, now);
}

void lsp_did_close(lsp_server *s, const json_t *params)
{
    lsp_document *d = lsp_document_of(s, params);
    if (!d) return;
    lsp_snippets_leave(s, d);
    drop(s, d);
}

/* ---- changes ---- */

static void note_change(lsp_document *d, size_t from, size_t to, view was, view with, uint64_t now)
{
    lsp_completion_moved(d, from, to, with.len);
    edit_history_add(&d->history, &d->text, from, was, with, now);
    d->caret = from + with.len;
    d->typed_line = lsp_text_line_at(&d->text, d->caret);
}

/* One of the changes, applied to the text after the earlier ones. */
static int apply(lsp_server *s, lsp_document *d, const json_t *change, uint64_t now)
{
    const json_t *range = json_object_get(change, "range");
    view with = lsp_read_string(change, "text");
    size_t from = 0, to = d->text.text.len;
    if (!with.ptr) return CERIUM_ERR_FORMAT;
    if (!range || json_is_null(range)) /* some clients send the whole text for each key */
        lsp_text_difference(lsp_text_view(&d->text), &from, &to, &with);
    else if (!lsp_read_range(s, d, range, &from, &to)) return CERIUM_ERR_FORMAT;
    if (from == to && !with.len) return CERIUM_OK;
    char *was = memory_copy(to > from ? d->text.text.ptr + from : "", to - from);
    int status = was ? lsp_text_replace(&d->text, from, to, with) : CERIUM_ERR_MEMORY;
    if (!status) note_change(d, from, to, (view){was, to - from}, with, now);
    memory_free(was);
    return status;
}

void lsp_did_change(lsp_server *s, const json_t *params, uint64_t now)
{
    lsp_document *d = lsp_document_of(s, params);
    const json_t *changes = json_object_get(params, "contentChanges"), *change;
    size_t i;
    if (!d) return; /* a document that is not open here */
    lsp_completion_supersede(s, d);
    lsp_prediction_drop(s, d);
    json_array_foreach(changes, i, change)
    {
        int status = apply(s, d, change, now);
        if (!status) continue;
        lsp_log(s, "%s: a change that cannot be made (%s): the file is followed again when it is "
                "opened again", d->path, cerium_status_text(status));
        drop(s, d);
        return;
    }
    const json_t *version =
        json_object_get(json_object_get(params, "textDocument"), "version");
    d->version = json_is_integer(version) ? json_integer_value(version) : d->version + 1;
    lsp_snippets_paused(d, now - d->changed_ns);
    d->changed_ns = now;
    if (++d->n_unmeasured >= MEASURED_EVERY || d->is_minified) {
        d->n_unmeasured = 0;
        d->is_minified = lsp_text_is_minified(&d->text);
    }
    lsp_diagnostics_changed(s, d, now);
    lsp_next_edit_changed(s, d, now);
    lsp_feedback_changed(s, d, now);
    lsp_follow(s, d, now);
}
