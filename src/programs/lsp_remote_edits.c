/* lsp_remote_edits.c - next edits of `cerium lsp --server URL`: edit.predict over the WebSocket,
 * where the server keeps the file and the file as it was opened; by POST /v1/edit-predictions while
 * there is none. */
#include "programs/lsp_remote_parts.h"

#include "base/json.h"

static view of(const bytes *b) { return (view){b->ptr ? b->ptr : "", b->len}; }

static int make_body(lsp_remote *r, transfer_slot *t)
{
    json_t *all = json_pack("{s:s, s:o, s:o, s:O}", "path", t->path, "prefix",
                            json_stringn(of(&t->before).ptr, t->before.len), "suffix",
                            json_stringn(of(&t->after).ptr, t->after.len), "changes", t->files);
    if (all && r->original.len)
        json_object_set_new(all, "original", json_stringn(r->original.ptr, r->original.len));
    char *text = all ? json_dumps(all, JSON_COMPACT) : NULL;
    t->body.len = 0;
    t->body.max = 8 * (size_t)NEXT_EDIT_TEXT_BYTES_MAX;
    int status = text ? bytes_append(&t->body, text, strlen(text)) : CERIUM_ERR_MEMORY;
    memory_release(text);
    json_decref(all);
    return status;
}

/* The same over the socket: the server gets what differs in both texts, and the place. */
static bool ask_socket(lsp_remote *r, transfer_slot *t)
{
    static const view nothing = VIEW("");
    char name[LSP_NAME_BYTES];
    lsp_position at, unused;
    if (!lsp_socket_is_open(r->socket)) return false;
    lsp_remote_name(r, t, name);
    snprintf(t->id, sizeof t->id, "e%llu", (unsigned long long)++r->n_asked);
    if (!lsp_kept_send(&t->kept, r->socket, name, of(&t->before), of(&t->after), &at) ||
        (r->original.len &&
         !lsp_kept_send(&r->opened, r->socket, "opened", of(&r->original), nothing, &unused)))
        return false;
    json_t *all = json_pack("{s:s, s:s, s:s, s:s, s:I, s:{s:I, s:I}, s:O}", "type", "edit.predict",
                            "id", t->id, "document", name, "path", t->path, "version",
                            t->kept.version, "position", "line", (json_int_t)at.line, "character",
                            (json_int_t)at.character, "changes", t->files);
    if (all && r->original.len)
        json_object_set_new(all, "original_document", json_string("opened"));
    t->is_sent = lsp_socket_send_json(r->socket, all);
    t->heard_at_ns = clock_ns();
    return t->is_sent;
}

bool lsp_remote_ask_edit(lsp_remote *r)
{
    transfer_slot *t = &r->edits;
    t->r = r;
    if (r->is_there) lsp_remote_open_socket(r);
    return ask_socket(r, t) ||
           (!make_body(r, t) && lsp_transfer_begin(r, t, "/v1/edit-predictions"));
}

static json_t *changes_json(const next_edit_place *at)
{
    json_t *changes = json_array();
    for (size_t i = 0; i < at->n_changes && changes; i++) {
        const next_edit_change *c = &at->changes[i];
        json_array_append_new(changes, json_pack("{s:o, s:o}", "path",
                                                 json_stringn(c->path.ptr, c->path.len), "diff",
                                                 json_stringn(c->diff.ptr, c->diff.len)));
    }
    return changes;
}

bool lsp_remote_predict(lsp_remote *r, const lsp_predict_order *o)
{
    transfer_slot *t = &r->edits;
    const next_edit_place *at = &o->place;
    if (!r->is_there || !r->predicts) return false;
    lsp_transfer_end(t);
    t->document = o->document;
    t->serial = o->serial;
    t->used_ns = clock_ns();
    t->was_refused = false;
    snprintf(t->path, sizeof t->path, "%.*s", (int)at->path.len, at->path.ptr);
    json_decref(t->files);
    t->files = changes_json(at);
    t->before.max = t->after.max = r->original.max = NEXT_EDIT_TEXT_BYTES_MAX;
    t->before.len = t->after.len = r->original.len = 0;
    return t->files && !bytes_append(&t->before, at->text.ptr, at->caret) &&
           !bytes_append(&t->after, at->text.ptr + at->caret, at->text.len - at->caret) &&
           (!at->original.ptr ||
            !bytes_append(&r->original, at->original.ptr, at->original.len)) &&
           lsp_remote_ask_edit(r);
}

/* The first edit is the nearest; one that is only a completion is dropped. */
void lsp_remote_edits_read(lsp_remote *r, lsp_server *s, const json_t *answer, long status)
{
    const transfer_slot *t = &r->edits;
    const char *form = json_string_value(json_object_get(answer, "form"));
    const json_t *one = json_array_get(json_object_get(answer, "edits"), 0);
    const json_t *text = json_object_get(one, "text");
    const json_int_t from = json_integer_value(json_object_get(one, "start_line"));
    const json_int_t to = json_integer_value(json_object_get(one, "end_line"));
    const bool is_edit = json_is_string(text) && from >= 0 && to >= from && to < UINT32_MAX;
    const next_edit e = {(uint32_t)from, (uint32_t)(to - from),
                         {json_string_value(text), json_string_length(text)}};
    if ((form && !strcmp(form, "fim")) || status == 404 || status == 501) r->predicts = false;
    lsp_server_predicted(s, t->document, t->serial, &e, is_edit && r->predicts);
}

void lsp_remote_edits_answered(lsp_remote *r, lsp_server *s, CURLcode code, long status)
{
    json_error_t unused;
    const bytes *body = &r->edits.answer;
    json_t *answer = code || status != 200 ? NULL : json_read(of(body), JSON_ALLOW_NUL, &unused);
    lsp_remote_edits_read(r, s, answer, status);
    json_decref(answer);
}
