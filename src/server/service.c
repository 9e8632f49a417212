/* service.c - POST routes that sample, and what tells about the server. */
#include "server/service.h"

#include "server/access.h"
#include "server/answers.h"
#include "server/http.h"
#include "server/page_files.h"
#include "server/prompts.h"

/* ---- sampling ---- */

static void serve_sampling(connection *c, protocol_api api)
{
    protocol_request *r = NULL;
    protocol_error e = {0};
    uint64_t started_ns = clock_ns();
    view body = {c->http.body.ptr, c->http.body.len};
    if (c->s->config.log_prompts) log_said(c->peer, body);
    int status = protocol_request_parse(&r, api, body, access_ask(c), &e);
    if (status == CERIUM_ERR_MEMORY)
        (void)protocol_error_set(&e, 500, "server_error", NULL, "", "out of memory");
    if (!status && r->cancel) {
        protocol_request_free(&r);
        status = protocol_error_set(&e, 400, "invalid_request_error", "invalid_value", "type",
                                    "response.cancel is a message of WebSockets; POST to "
                                    "/v1/responses/{id}/cancel");
    }
    if (!status)
        status = answer_begin(c->s,
                              &(answer_order){.c = c,
                                              .request = r,
                                              .document = r->document,
                                              .started_ns = started_ns},
                              &e);
    if (status) http_error(c, &e);
}

void service_responses(connection *c) { serve_sampling(c, PROTOCOL_RESPONSES); }
void service_compact(connection *c) { serve_sampling(c, PROTOCOL_COMPACT); }
void service_chat(connection *c) { serve_sampling(c, PROTOCOL_CHAT); }
void service_completions(connection *c) { serve_sampling(c, PROTOCOL_COMPLETIONS); }
void service_infill(connection *c) { serve_sampling(c, PROTOCOL_INFILL); }

/* ---- models ---- */

static void out_of_memory(connection *c)
{
    protocol_error e;
    (void)protocol_error_set(&e, 500, "server_error", NULL, "", "out of memory");
    http_error(c, &e);
}

void service_models(connection *c)
{
    bytes body = {.max = 1 << 20};
    if (protocol_models_body(&body, &c->s->model, 1))
        out_of_memory(c);
    else
        http_answer(c, &(http_head){.status = 200}, (view){body.ptr, body.len});
    bytes_free(&body);
}

void service_model(connection *c)
{
    const protocol_model *m = &c->s->model;
    protocol_error e;
    if (!strcmp(c->http.id, m->id)) {
        http_json(c, 200, json_pack("{s:s, s:s, s:I, s:s}", "id", m->id, "object", "model",
                                    "created", (json_int_t)m->created_at, "owned_by", "cerium"));
        return;
    }
    (void)protocol_error_set(&e, 404, "invalid_request_error", "model_not_found", "model",
                             "there is no model '%.*s'; see GET /v1/models",
                             (int)SERVER_ID_BYTES - 1, c->http.id);
    http_error(c, &e);
}

/* ---- POST /tokenize, as llama.cpp has it: {"content", "add_special", "parse_special",
 * "with_pieces"} -> {"tokens": [...]} ---- */

static json_t *piece(const server *s, int32_t token)
{
    size_t len;
    const char *text = cerium_token_bytes(s->config.engine, token, &len);
    json_t *shown = text ? json_stringn(text, len) : NULL;
    if (!shown) { /* not UTF-8: its bytes */
        shown = json_array();
        for (size_t i = 0; text && i < len; i++)
            json_array_append_new(shown, json_integer((unsigned char)text[i]));
    }
    return json_pack("{s:i, s:o}", "id", (int)token, "piece", shown);
}

void service_tokenize(connection *c)
{
    protocol_error e;
    int32_t *tokens = NULL;
    size_t n = 0;
    json_t *root = json_loadb(c->http.body.ptr, c->http.body.len, JSON_ALLOW_NUL, NULL);
    json_t *content = json_object_get(root, "content");
    bool special = !json_is_false(json_object_get(root, "parse_special"));
    bool begin = json_is_true(json_object_get(root, "add_special"));
    bool pieces = json_is_true(json_object_get(root, "with_pieces"));
    int status = CERIUM_OK;
    if (!json_is_string(content))
        status = protocol_error_set(&e, 400, "invalid_request_error", "invalid_value", "content",
                                    "content is a string and has to be there");
    else
        status = prompts_tokenize(
            c->s, (view){json_string_value(content), json_string_length(content)},
            (special ? CERIUM_TOKENIZE_SPECIAL : 0) | (begin ? CERIUM_TOKENIZE_BEGIN : 0), &tokens,
            &n, &e);
    json_decref(root);
    if (status) {
        http_error(c, &e);
        return;
    }
    json_t *list = json_array();
    for (size_t i = 0; i < n; i++)
        json_array_append_new(list, pieces ? piece(c->s, tokens[i]) : json_integer(tokens[i]));
    memory_free(tokens);
    http_json(c, 200, json_pack("{s:o}", "tokens", list));
}

/* ---- health ---- */

static void health(connection *c, int status, const char *word)
{
    const server *s = c->s;
    http_json(c, status,
              json_pack("{s:s, s:s, s:s, s:b, s:i, s:i, s:i}", "status", word, "version",
                        cerium_version(), "model", s->model.id, "replay", s->replay != NULL,
                        "running", (int)s->n_running, "waiting", (int)s->n_waiting, "connections",
                        (int)s->n_connections));
}

void service_live(connection *c) { health(c, 200, "ok"); }

void service_ready(connection *c)
{
    bool full = c->s->n_waiting >= c->s->config.queue_max && c->s->config.queue_max;
    if (c->s->draining)
        health(c, 503, "shutting down");
    else
        health(c, full ? 503 : 200, full ? "busy" : "ok");
}

void service_health(connection *c) { service_ready(c); }

enum { PAGE_TOKENS = 64 }; /* of the engine's KV cache */

void service_metrics(connection *c)
{
    server *s = c->s;
    bytes body = {.max = METRICS_TEXT_BYTES_MAX};
    metrics_engine engine = {.model = s->model.id,
                             .page_tokens = PAGE_TOKENS,
                             .page_bytes = PAGE_TOKENS * s->info.kv_token_bytes,
                             .context_tokens_max = s->info.context_tokens_max,
                             .replay = s->replay != NULL,
                             .started_at = s->started_at};
    cerium_engine_measure(s->config.engine, &engine.stats);
    s->metrics.connections_open = s->n_connections;
    s->metrics.sockets_open = s->n_sockets;
    s->metrics.streams_open = s->n_running;
    if (metrics_text(&body, &s->metrics, &engine))
        out_of_memory(c);
    else
        http_answer(c, &(http_head){.status = 200, .type = METRICS_CONTENT_TYPE},
                    (view){body.ptr, body.len});
    bytes_free(&body);
}

/* ---- the page ---- */

void service_page(connection *c)
{
    char headers[512], seen[64];
    const page_file *file = page_find(view_of(c->http.path));
    CHECK(file != NULL); /* the route is there for paths of files only */
    snprintf(headers, sizeof headers,
             "etag: %s\r\ncache-control: %s\r\ncontent-security-policy: %s\r\n"
             "referrer-policy: no-referrer\r\n",
             file->etag, PAGE_CACHE_CONTROL, PAGE_POLICY);
    http_header(c, WSI_TOKEN_HTTP_IF_NONE_MATCH, seen, sizeof seen);
    http_answer(c,
                &(http_head){.status = !strcmp(seen, file->etag) ? 304 : 200,
                             .type = file->type,
                             .headers = headers},
                file->content);
}
