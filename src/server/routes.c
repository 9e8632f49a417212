/* routes.c - the table of routes. */
#include "server/routes.h"

#include "server/http.h"
#include "server/llama_routes.h"
#include "server/model_delete.h"
#include "server/model_pull.h"
#include "server/model_routes.h"
#include "server/ollama.h"
#include "server/page_files.h"
#include "server/response_routes.h"
#include "server/service.h"
#include "server/solve_route.h"

enum {
    GET = 1 << METHOD_GET | 1 << METHOD_HEAD,
    GET_ONLY = 1 << METHOD_GET, /* HEAD is 405: this shows a client that WebSocket exists here */
    POST = 1 << METHOD_POST,
    DELETE = 1 << METHOD_DELETE,
};

static const route routes[] = {
    {"/responses", POST, false, METRICS_RESPONSES, service_responses},
    {"/responses", GET_ONLY, false, METRICS_STORED, response_list},
    {"/responses/compact", POST, false, METRICS_COMPACT, service_compact},
    {"/responses/{id}", GET, false, METRICS_STORED, response_get},
    {"/responses/{id}", DELETE, false, METRICS_STORED, response_delete},
    {"/responses/{id}/cancel", POST, false, METRICS_STORED, response_cancel},
    {"/responses/{id}/input_items", GET, false, METRICS_STORED, response_input_items},
    {"/chat/completions", POST, false, METRICS_CHAT, service_chat},
    {"/completions", POST, false, METRICS_COMPLETIONS, service_completions},
    {"/infill", POST, false, METRICS_INFILL, service_infill},
    {"/edit-predictions", POST, false, METRICS_INFILL, service_edits},
    {"/responses/input_tokens", POST, false, METRICS_OTHER, service_responses_count},
    {"/chat/completions/input_tokens", POST, false, METRICS_OTHER, service_chat_count},
    {"/chat/completions/render", POST, false, METRICS_OTHER, service_chat_render},
    {"/completions/render", POST, false, METRICS_OTHER, service_completions_render},
    {"/messages", POST, false, METRICS_ANTHROPIC, service_messages},
    {"/messages/count_tokens", POST, false, METRICS_OTHER, service_messages_count},
    {"/completion", POST, false, METRICS_COMPLETION, service_completion},
    {"/embeddings", POST, false, METRICS_EMBEDDINGS, service_embeddings},
    {"/solve", POST, false, METRICS_OTHER, solve_route},
    {"/models", GET, false, METRICS_MODELS, model_list},
    {"/models/load", POST, false, METRICS_MODELS, model_post_load},
    {"/models/unload", POST, false, METRICS_MODELS, model_post_unload},
    {"/models/pull", GET, false, METRICS_MODELS, pull_list},
    {"/models/pull", POST, false, METRICS_MODELS, pull_begin},
    {"/models/pull", DELETE, false, METRICS_MODELS, pull_cancel},
    {"/models/{path}", GET, false, METRICS_MODELS, model_get},
    {"/tokenize", POST, false, METRICS_OTHER, service_tokenize},
    {"/detokenize", POST, false, METRICS_OTHER, llama_detokenize},
    {"/apply-template", POST, false, METRICS_OTHER, service_apply_template},
    {"/props", GET, false, METRICS_OTHER, llama_props},
    {"/slots", GET, false, METRICS_OTHER, llama_slots},
    {"/api/version", GET, true, METRICS_OTHER, ollama_version_get},
    {"/api/tags", GET, false, METRICS_MODELS, ollama_tags},
    {"/api/ps", GET, false, METRICS_MODELS, ollama_ps},
    {"/api/show", POST, false, METRICS_MODELS, ollama_show},
    {"/api/pull", POST, false, METRICS_MODELS, pull_ollama},
    {"/api/chat", POST, false, METRICS_OLLAMA, service_ollama_chat},
    {"/api/generate", POST, false, METRICS_OLLAMA, service_ollama_generate},
    {"/api/embed", POST, false, METRICS_EMBEDDINGS, service_ollama_embed},
    {"/api/embeddings", POST, false, METRICS_EMBEDDINGS, service_ollama_embed},
    {"/api/create", POST, false, METRICS_OTHER, ollama_unserved},
    {"/api/copy", POST, false, METRICS_OTHER, ollama_unserved},
    {"/api/push", POST, false, METRICS_OTHER, ollama_unserved},
    {"/api/delete", DELETE, false, METRICS_MODELS, model_delete},
    {"/api/hello", GET, true, METRICS_OTHER, service_hello},
    {"/health", GET, true, METRICS_HEALTH, service_health},
    {"/health/live", GET, true, METRICS_HEALTH, service_live},
    {"/health/ready", GET, true, METRICS_HEALTH, service_ready},
    {"/metrics", GET, false, METRICS_METRICS, service_metrics},
};

/* "/v1/models" and "/models" are the same. */
static const char *path_begin(const char *path)
{
    return !strncmp(path, "/v1/", 4) ? path + 3 : path;
}

static void serve_preflight(connection *c)
{
    /* Only allowed origins get this far; others were refused.  Allow the headers that the page
     * names: SDKs send a dozen of their own. */
    char headers[2048], asked[1536];
    http_reader_copy(c->reader, "access-control-request-headers", asked, sizeof asked);
    for (const char *at = asked; *at; at++)
        if (!strchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_, ", *at))
            asked[0] = 0;
    snprintf(headers, sizeof headers,
             "access-control-allow-methods: GET, POST, DELETE, OPTIONS\r\n"
             "access-control-allow-headers: %s\r\naccess-control-max-age: 600\r\n",
             asked[0] ? asked
                      : "authorization, content-type, x-api-key, x-request-id, openai-beta");
    http_answer(c, &(http_head){.status = 204, .headers = headers}, (view){NULL, 0});
}

static void serve_unknown(connection *c)
{
    protocol_error e;
    char path[120];
    (void)protocol_error_set(&e, 404, "invalid_request_error", "not_found", "",
                             "there is nothing at %s; see GET /v1/models and docs/server.md",
                             log_quote(path, sizeof path, c->http.path));
    http_error(c, &e);
}

/* The methods of a path. */
static unsigned methods_of(const char *path)
{
    const char *rest = path_begin(path);
    char id[SERVER_ID_BYTES];
    unsigned methods = page_find(view_of(path)) ? GET : 0;
    for (size_t i = 0; i < ARRAY_LEN(routes); i++)
        if (route_fits(routes[i].path, rest, id)) methods |= routes[i].methods;
    return methods;
}

/* With the allowed methods (RFC 9110, 15.5.6). */
static void serve_wrong_method(connection *c)
{
    const unsigned methods = methods_of(c->http.path);
    protocol_error e;
    char allow[64];
    snprintf(allow, sizeof allow, "allow: %s%s%s%sOPTIONS\r\n",
             methods & 1 << METHOD_GET ? "GET, " : "", methods & 1 << METHOD_HEAD ? "HEAD, " : "",
             methods & POST ? "POST, " : "", methods & DELETE ? "DELETE, " : "");
    (void)protocol_error_set(&e, 405, "invalid_request_error", "method_not_allowed", "",
                             "this path is not served by that method");
    http_error_with(c, &e, allow);
}

static const route preflight = {"*", 0, true, METRICS_OTHER, serve_preflight};
static const route unknown = {"*", 0, true, METRICS_OTHER, serve_unknown};
static const route wrong_method = {"*", 0, true, METRICS_OTHER, serve_wrong_method};
static const route page = {"*", 0, true, METRICS_PAGE, service_page};

bool route_fits(const char *pattern, const char *path, char id[SERVER_ID_BYTES])
{
    id[0] = 0;
    while (*pattern && *path) {
        if (pattern[0] != '{') {
            if (*pattern++ != *path++) return false;
            continue;
        }
        const bool is_path = pattern[1] == 'p';
        size_t len = is_path ? strlen(path) : strcspn(path, "/");
        if (!len || len >= SERVER_ID_BYTES) return false;
        memcpy(id, path, len);
        id[len] = 0;
        if (!http_decode(id, false)) return false;
        path += len;
        pattern += is_path ? 6 : 4; /* "{path}", "{id}" */
    }
    return !*pattern && !*path;
}

const route *route_find(http_method method, const char *path, char id[SERVER_ID_BYTES])
{
    bool known = false;
    const char *rest = path_begin(path);
    id[0] = 0;
    if (method == METHOD_OTHER) return &wrong_method;
    for (size_t i = 0; i < ARRAY_LEN(routes); i++) {
        char found[SERVER_ID_BYTES];
        if (!route_fits(routes[i].path, rest, found)) continue;
        known = true;
        if (!(routes[i].methods & 1u << method)) continue;
        memcpy(id, found, sizeof found);
        return &routes[i];
    }
    if (method == METHOD_OPTIONS) return &preflight;
    if (known) return &wrong_method;
    if (!page_find(view_of(path))) return &unknown;
    return GET & 1 << method ? &page : &wrong_method;
}

const route *route_find_probed(http_method method, const char *path, char id[SERVER_ID_BYTES])
{
    const route *found = route_find(method, path, id);
    return found->metric == METRICS_HEALTH || found->metric == METRICS_METRICS ? found : &unknown;
}
