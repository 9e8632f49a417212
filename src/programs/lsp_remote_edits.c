/* lsp_remote_edits.c - next edits of `cerium lsp --server URL`: POST /v1/edit-predictions. */
#include "programs/lsp_remote_parts.h"

#include "base/json.h"

static json_t *place_json(const next_edit_place *at)
{
    json_t *changes = json_array();
    for (size_t i = 0; i < at->n_changes && changes; i++) {
        const next_edit_change *c = &at->changes[i];
        json_array_append_new(changes, json_pack("{s:o, s:o}", "path",
                                                 json_stringn(c->path.ptr, c->path.len), "diff",
                                                 json_stringn(c->diff.ptr, c->diff.len)));
    }
    json_t *all = json_pack("{s:o, s:o, s:o, s:o}", "path",
                            json_stringn(at->path.ptr, at->path.len), "prefix",
                            json_stringn(at->text.ptr, at->caret), "suffix",
                            json_stringn(at->text.ptr + at->caret, at->text.len - at->caret),
                            "changes", changes);
    if (all && at->original.ptr)
        json_object_set_new(all, "original", json_stringn(at->original.ptr, at->original.len));
    return all;
}

bool lsp_remote_predict(lsp_remote *r, const lsp_predict_order *o)
{
    transfer_slot *t = &r->edits;
    if (!r->is_there || !r->predicts) return false;
    lsp_transfer_end(t);
    json_t *all = place_json(&o->place);
    char *text = all ? json_dumps(all, JSON_COMPACT) : NULL;
    t->body.len = 0;
    t->body.max = 8 * (size_t)NEXT_EDIT_TEXT_BYTES_MAX;
    int status = text ? bytes_append(&t->body, text, strlen(text)) : CERIUM_ERR_MEMORY;
    memory_release(text);
    json_decref(all);
    t->document = o->document;
    t->serial = o->serial;
    return !status && lsp_transfer_begin(r, t, "/v1/edit-predictions");
}

/* The first edit is the nearest; one that is only a completion is dropped. */
void lsp_remote_edits_answered(lsp_remote *r, const transfer_slot *t, lsp_server *s, CURLcode code,
                           long status)
{
    json_error_t unused;
    json_t *answer = code || status != 200
                         ? NULL : json_read((view){t->answer.ptr, t->answer.len}, JSON_ALLOW_NUL,
                                            &unused);
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
    json_decref(answer);
}

