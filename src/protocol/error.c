/* error.c - errors in the forms that clients act on. */
#include "protocol/json_out.h"
#include "protocol/protocol.h"

int protocol_error_set(protocol_error *e, int http_status, const char *type, const char *code,
                       const char *param, const char *format, ...)
{
    *e = (protocol_error){.http_status = http_status, .type = type, .code = code};
    snprintf(e->param, sizeof e->param, "%s", param ? param : "");
    va_list args;
    va_start(args, format);
    vsnprintf(e->message, sizeof e->message, format, args);
    va_end(args);
    for (char *c = e->message; *c; c++)
        if ((unsigned char)*c < 0x20 || *c == 0x7F) *c = ' ';
    return CERIUM_ERR_ARGUMENT;
}

int protocol_error_memory(protocol_error *e)
{
    return protocol_error_set(e, 500, "server_error", NULL, "", "out of memory");
}

int protocol_error_overloaded(protocol_error *e, const char *what)
{
    (void)protocol_error_set(e, 503, "server_error", "server_overloaded", "",
                             "too many %s; please try again in 1s", what);
    e->retry_after_s = 1;
    return CERIUM_ERR_ARGUMENT;
}

static void put_error(json_out *t, const protocol_error *e)
{
    json_out_literal(t, "{\"message\":");
    json_out_string(t, e->message);
    json_out_literal(t, ",\"type\":");
    json_out_string(t, e->type);
    json_out_literal(t, ",\"param\":");
    json_out_string(t, e->param[0] ? e->param : NULL);
    json_out_literal(t, ",\"code\":");
    json_out_string(t, e->code);
    json_out_literal(t, "}");
}

int protocol_error_body(bytes *out, const protocol_error *error)
{
    json_out t = {.b = *out};
    json_out_literal(&t, "{\"error\":");
    put_error(&t, error);
    json_out_literal(&t, "}");
    *out = t.b;
    return t.status;
}

int protocol_error_status(protocol_form form, const protocol_error *e)
{
    return form == PROTOCOL_FORM_MESSAGES && e->http_status == 503 ? 529 : e->http_status;
}

static const char *type_of_status(int status)
{
    static const struct {
        int status;
        const char *type;
    } known[] = {{401, "authentication_error"}, {402, "billing_error"},
                 {403, "permission_error"},     {404, "not_found_error"},
                 {405, "invalid_request_error"}, {409, "conflict_error"},
                 {429, "rate_limit_error"},     {504, "timeout_error"},
                 {529, "overloaded_error"}};
    for (size_t i = 0; i < ARRAY_LEN(known); i++)
        if (known[i].status == status) return known[i].type;
    return status < 500 ? "invalid_request_error" : "api_error";
}

/* "messages[2].content[0].text" -> "messages.2.content.0.text" */
static void dotted(const char *param, char out[96])
{
    size_t n = 0;
    for (; *param && n < 95; param++)
        if (*param != ']') out[n++] = *param == '[' ? '.' : *param;
    out[n] = 0;
}

static void put_message_error(json_out *t, const protocol_error *e, const char *request_id)
{
    char path[96], message[640];
    dotted(e->param, path);
    if (e->n_tokens_max)
        snprintf(message, sizeof message, "prompt is too long: %llu tokens > %llu maximum",
                 (unsigned long long)e->n_tokens, (unsigned long long)e->n_tokens_max);
    else
        snprintf(message, sizeof message, "%s%s%s", path, path[0] ? ": " : "", e->message);
    json_out_literal(t, "{\"type\":\"error\",\"error\":{\"type\":");
    json_out_string(t, type_of_status(protocol_error_status(PROTOCOL_FORM_MESSAGES, e)));
    json_out_literal(t, ",\"message\":");
    json_out_string(t, message);
    if (e->code) {
        json_out_literal(t, ",\"details\":{\"error_code\":");
        json_out_string(t, e->code);
        json_out_literal(t, "}");
    }
    json_out_literal(t, "}");
    if (request_id) {
        json_out_literal(t, ",\"request_id\":");
        json_out_string(t, request_id);
    }
    json_out_literal(t, "}");
}

int protocol_error_body_as(bytes *out, protocol_form form, const protocol_error *error,
                           const char *request_id)
{
    if (form == PROTOCOL_FORM_OPENAI) return protocol_error_body(out, error);
    json_out t = {.b = *out};
    if (form == PROTOCOL_FORM_MESSAGES) {
        put_message_error(&t, error, request_id);
    } else {
        char message[640];
        bool is_named = !error->param[0] || strstr(error->message, error->param);
        snprintf(message, sizeof message, "%s%s%s", is_named ? "" : error->param,
                 is_named ? "" : ": ", error->message);
        json_out_literal(&t, "{\"error\":");
        json_out_string(&t, message);
        json_out_literal(&t, "}");
    }
    *out = t.b;
    return t.status;
}

int protocol_error_event(bytes *out, const protocol_error *error, const char *stream_id)
{
    json_out t = {.b = *out};
    json_out_literal(&t, "{\"type\":\"error\",\"status\":");
    json_out_integer(&t, error->http_status);
    if (stream_id) {
        json_out_literal(&t, ",\"stream_id\":");
        json_out_string(&t, stream_id);
    }
    if (error->retry_after_s) {
        json_out_literal(&t, ",\"headers\":{\"retry-after\":\"");
        json_out_integer(&t, error->retry_after_s);
        json_out_literal(&t, "\"}");
    }
    json_out_literal(&t, ",\"error\":");
    put_error(&t, error);
    json_out_literal(&t, "}");
    *out = t.b;
    return t.status;
}
