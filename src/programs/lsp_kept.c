/* lsp_kept.c - the difference between the window that the server has and the newer one. */
#include "programs/lsp_kept.h"

#include "base/json.h"

bool lsp_socket_send_json(lsp_socket *s, json_t *message)
{
    char *text = message ? json_dumps(message, JSON_COMPACT) : NULL;
    bool is_sent = text && lsp_socket_send(s, view_of(text));
    memory_release(text);
    json_decref(message);
    return is_sent;
}

static bool send_open(lsp_kept *k, lsp_socket *s, const char *name)
{
    k->version = 1;
    k->is_open = lsp_socket_send_json(
        s, json_pack("{s:s, s:s, s:I, s:o}", "type", "document.open", "path", name, "version",
                     k->version, "text",
                     json_stringn(k->text.text.ptr ? k->text.text.ptr : "", k->text.text.len)));
    return k->is_open;
}

static json_t *place_json(const lsp_text *t, size_t offset)
{
    const lsp_position p = lsp_text_position(t, offset, LSP_UTF16);
    return json_pack("{s:I, s:I}", "line", (json_int_t)p.line, "character",
                     (json_int_t)p.character);
}

static bool send_change(lsp_kept *k, lsp_socket *s, const char *name, size_t from, size_t to,
                        view with)
{
    k->version++;
    json_t *message = json_pack(
        "{s:s, s:s, s:I, s:[{s:{s:o, s:o}, s:o}]}", "type", "document.change", "path", name,
        "version", k->version, "changes", "range", "start", place_json(&k->text, from), "end",
        place_json(&k->text, to), "text", json_stringn(with.len ? with.ptr : "", with.len));
    if (lsp_text_replace(&k->text, from, to, with)) {
        json_decref(message);
        return false;
    }
    return lsp_socket_send_json(s, message);
}

bool lsp_kept_send(lsp_kept *k, lsp_socket *s, const char *name, view before, view after,
                   lsp_position *at)
{
    bytes all = {.max = LSP_TEXT_BYTES_MAX};
    bool good = !bytes_append(&all, before.ptr, before.len) &&
                !bytes_append(&all, after.ptr, after.len);
    view with = {all.ptr ? all.ptr : "", all.len};
    size_t from, to;
    if (good && k->is_open) {
        lsp_text_difference((view){k->text.text.ptr ? k->text.text.ptr : "", k->text.text.len},
                            &from, &to, &with);
        if (from < to || with.len) good = send_change(k, s, name, from, to, with);
    } else if (good) {
        good = !lsp_text_set(&k->text, with) && send_open(k, s, name);
    }
    bytes_free(&all);
    if (!good) k->is_open = false; /* opened again, if the socket is there */
    else *at = lsp_text_position(&k->text, before.len, LSP_UTF16);
    return good;
}

void lsp_kept_close(lsp_kept *k, lsp_socket *s, const char *name)
{
    if (k->is_open && lsp_socket_is_open(s))
        (void)lsp_socket_send_json(s, json_pack("{s:s, s:s}", "type", "document.close", "path",
                                                name));
    lsp_kept_forget(k);
}

void lsp_kept_forget(lsp_kept *k)
{
    lsp_text_close(&k->text);
    *k = (lsp_kept){.is_open = false};
}
