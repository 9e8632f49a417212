/* lsp_out.c - answers, notifications and requests, as JSON-RPC 2.0. */
#include "lsp/lsp_parts.h"

/* Takes the message. */
static void send(lsp_server *s, json_t *message, bool is_answer)
{
    char *text = message ? json_dumps(message, JSON_COMPACT) : NULL;
    if (text) s->host.send(s->host.user, view_of(text), is_answer);
    else s->host.log(s->host.user, "no memory for a message");
    memory_release(text);
    json_decref(message);
}

void lsp_answer(lsp_server *s, json_t *id, json_t *result)
{
    if (!result) { /* it could not be made */
        lsp_answer_error(s, id, LSP_INTERNAL_ERROR, "out of memory");
        return;
    }
    send(s, json_pack("{s:s, s:O, s:o}", "jsonrpc", "2.0", "id", id, "result", result),
         true);
}

void lsp_answer_error(lsp_server *s, json_t *id, int code, const char *message)
{
    json_t *none = id ? json_incref(id) : json_null();
    send(s, json_pack("{s:s, s:o, s:{s:i, s:s}}", "jsonrpc", "2.0", "id", none, "error", "code",
                      code, "message", message),
         true);
}

void lsp_notify(lsp_server *s, const char *method, json_t *params)
{
    send(s, params ? json_pack("{s:s, s:s, s:o}", "jsonrpc", "2.0", "method", method, "params",
                               params)
                   : NULL,
         false);
}

uint64_t lsp_request(lsp_server *s, const char *method, json_t *params)
{
    uint64_t id = ++s->last_id;
    json_t *message = json_pack("{s:s, s:I, s:s}", "jsonrpc", "2.0", "id", (json_int_t)id, "method",
                                method);
    if (params && message && json_object_set_new(message, "params", params)) {
        json_decref(message);
        message = NULL;
    }
    send(s, message, true);
    return id;
}

void lsp_show(lsp_server *s, int type, const char *text)
{
    lsp_notify(s, "window/showMessage", json_pack("{s:i, s:s}", "type", type, "message", text));
}

void lsp_log(lsp_server *s, const char *format, ...)
{
    char line[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(line, sizeof line, format, args);
    va_end(args);
    s->host.log(s->host.user, line);
}
