/* lsp_remote_socket.c - the WebSocket of `cerium lsp --server URL`: its messages, its loss, and the
 * texts that the server keeps. */
#include "programs/lsp_remote_parts.h"

#include "base/json.h"

/* ---- texts at the server ---- */

/* All slots of documents, one after the other; NULL: no more. */
static transfer_slot *nth(lsp_remote *r, uint32_t i)
{
    return i < SLOTS ? &r->slots[i] : i == SLOTS ? &r->edits : NULL;
}

/* Neither side has the texts any longer. */
static void let_go(lsp_remote *r, transfer_slot *t)
{
    char name[LSP_NAME_BYTES];
    lsp_remote_name(r, t, name);
    lsp_kept_close(&t->kept, r->socket, name);
    if (t == &r->edits) lsp_kept_close(&r->opened, r->socket, "opened");
    lsp_transfer_free(t);
    if (t == &r->edits) bytes_free(&r->original);
}

void lsp_remote_forget(lsp_remote *r, uint64_t document)
{
    transfer_slot *t;
    for (uint32_t i = 0; (t = nth(r, i)); i++) {
        if (t->document != document) continue;
        lsp_transfer_end(t);
        let_go(r, t);
        t->document = t->serial = t->used = 0;
    }
}

/* What rests is closed; a document that is used again is opened again. */
static void close_resting(lsp_remote *r)
{
    const uint64_t now = clock_ns();
    transfer_slot *t;
    for (uint32_t i = 0; (t = nth(r, i)); i++)
        if (t->kept.is_open && !t->is_sent && !t->runs && now >= t->used_ns + r->idle_ns)
            let_go(r, t);
}

uint64_t lsp_remote_due(const lsp_remote *remote)
{
    lsp_remote *r = (lsp_remote *)(uintptr_t)remote; /* nothing is changed */
    uint64_t at = r->retry_at_ns ? r->retry_at_ns : UINT64_MAX;
    const transfer_slot *t;
    for (uint32_t i = 0; (t = nth(r, i)); i++) {
        const uint64_t due = t->is_sent         ? t->heard_at_ns + r->silence_ns
                             : t->kept.is_open && !t->runs ? t->used_ns + r->idle_ns
                                                           : UINT64_MAX;
        if (due < at) at = due;
    }
    return at;
}

/* ---- messages ---- */

static bool ask_again(lsp_remote *r, transfer_slot *t)
{
    return t == &r->edits ? lsp_remote_ask_edit(r) : lsp_remote_ask_line(r, t);
}

static void fail(lsp_remote *r, transfer_slot *t, lsp_server *s, json_int_t status)
{
    if (t == &r->edits) lsp_remote_edits_read(r, s, NULL, (long)status);
    else lsp_remote_line_ended(t, s, LSP_ENDED_FAILED);
}

/* A text that the server does not have is opened again, once; a server that knows no such message
 * is asked by POST from here on. */
static void take_error(lsp_remote *r, transfer_slot *t, lsp_server *s, const json_t *event)
{
    const json_t *error = json_object_get(event, "error");
    const char *code = json_string_value(json_object_get(error, "code"));
    const char *message = json_string_value(json_object_get(error, "message"));
    const json_int_t status = json_integer_value(json_object_get(event, "status"));
    const bool lacks = code && (!strcmp(code, "document_not_open") ||
                                !strcmp(code, "document_changed"));
    if (!t || (lacks && t->was_refused)) {
        r->has_none = true;
        return;
    }
    t->is_sent = false;
    t->was_refused = lacks;
    if (lacks) {
        t->kept.is_open = false;
        if (t == &r->edits) r->opened.is_open = false;
        if (ask_again(r, t)) return;
    }
    fail(r, t, s, status);
    if (lacks || t == &r->edits || status == 409 || status == 429) return;
    lsp_remote_lose(r, message ? message : "the server refuses it");
}

static void take_delta(transfer_slot *t, lsp_server *s, const json_t *text)
{
    const view more = {json_string_value(text), json_string_length(text)};
    t->answer.max = ANSWER_BYTES_MAX;
    if (!more.ptr || !bytes_append(&t->answer, more.ptr, more.len)) return;
    lsp_transfer_end(t);
    lsp_remote_line_ended(t, s, LSP_ENDED_FAILED);
}

static void take_message(lsp_remote *r, lsp_server *s, const json_t *event)
{
    const char *type = json_string_value(json_object_get(event, "type"));
    const char *id = json_string_value(json_object_get(event, "id"));
    transfer_slot *t = NULL, *one;
    for (uint32_t i = 0; id && (one = nth(r, i)); i++)
        if (one->is_sent && !strcmp(one->id, id)) t = one;
    if (!type || (id && !t)) return; /* of an older one */
    if (t) t->heard_at_ns = clock_ns();
    if (!strcmp(type, "error")) {
        take_error(r, t, s, event);
    } else if (t == &r->edits) {
        if (strcmp(type, "edit.prediction") != 0) return;
        t->is_sent = t->was_refused = false;
        lsp_remote_edits_read(r, s, event, 200);
    } else if (t && !strcmp(type, "completion.delta")) {
        take_delta(t, s, json_object_get(event, "delta"));
    } else if (t && !strcmp(type, "completion.done")) {
        t->is_sent = t->was_refused = false;
        lsp_remote_line_done(r, t, s, event);
    }
}

void lsp_remote_message(void *user, view text)
{
    lsp_remote *r = user;
    json_error_t unused;
    json_t *event = json_read(text, JSON_ALLOW_NUL, &unused);
    if (event) take_message(r, r->server, event);
    json_decref(event);
}

/* ---- the connection ---- */

/* It is gone: what runs is asked for by POST, and the server has no texts. */
static void lose_socket(lsp_remote *r, lsp_server *s)
{
    transfer_slot *t;
    lsp_socket_close(&r->socket);
    lsp_kept_forget(&r->opened);
    for (uint32_t i = 0; (t = nth(r, i)); i++) {
        lsp_kept_forget(&t->kept);
        if (!t->is_sent) continue;
        t->is_sent = false;
        if (!ask_again(r, t)) fail(r, t, s, 0);
    }
}

/* Has nothing come for too long, while something runs? */
static bool is_silent(lsp_remote *r)
{
    const uint64_t now = clock_ns();
    const transfer_slot *t;
    for (uint32_t i = 0; (t = nth(r, i)); i++)
        if (t->is_sent && now >= t->heard_at_ns + r->silence_ns) return true;
    return false;
}

void lsp_remote_look_at_socket(lsp_remote *r, lsp_server *s)
{
    if (!r->socket) return;
    r->server = s;
    close_resting(r);
    const lsp_socket_state state = lsp_socket_look(r->socket);
    r->has_none |= state == LSP_SOCKET_REFUSED;
    if (r->has_none || state == LSP_SOCKET_LOST || is_silent(r)) lose_socket(r, s);
}
