/* service.c - POST routes that sample, and routes about the server. */
#include "server/service.h"

#include "base/json.h"
#include "protocol/json_out.h"
#include "server/connection.h"
#include "server/http.h"
#include "server/intake.h"
#include "server/model_stats.h"
#include "server/model_list.h"
#include "server/page_files.h"
#include "server/prompts.h"
#include "server/recording.h"

/* ---- sampling ---- */

void service_responses(connection *c) { intake_http(c, PROTOCOL_RESPONSES, COUNT_NONE); }
void service_compact(connection *c) { intake_http(c, PROTOCOL_COMPACT, COUNT_NONE); }
void service_chat(connection *c) { intake_http(c, PROTOCOL_CHAT, COUNT_NONE); }
void service_completions(connection *c) { intake_http(c, PROTOCOL_COMPLETIONS, COUNT_NONE); }
void service_edits(connection *c) { intake_http(c, PROTOCOL_EDITS, COUNT_NONE); }
void service_infill(connection *c) { intake_http(c, PROTOCOL_INFILL, COUNT_NONE); }
void service_completion(connection *c) { intake_http(c, PROTOCOL_COMPLETION, COUNT_NONE); }
void service_messages(connection *c) { intake_http(c, PROTOCOL_MESSAGES, COUNT_NONE); }
void service_ollama_chat(connection *c) { intake_http(c, PROTOCOL_OLLAMA_CHAT, COUNT_NONE); }
void service_ollama_generate(connection *c)
{
    intake_http(c, PROTOCOL_OLLAMA_GENERATE, COUNT_NONE);
}
void service_embeddings(connection *c) { intake_http(c, PROTOCOL_EMBEDDINGS, COUNT_NONE); }
void service_ollama_embed(connection *c) { intake_http(c, PROTOCOL_OLLAMA_EMBED, COUNT_NONE); }
void service_responses_count(connection *c) { intake_http(c, PROTOCOL_RESPONSES, COUNT_TOKENS); }
void service_chat_count(connection *c) { intake_http(c, PROTOCOL_CHAT, COUNT_TOKENS); }
void service_messages_count(connection *c) { intake_http(c, PROTOCOL_MESSAGES, COUNT_TOKENS); }
void service_chat_render(connection *c) { intake_http(c, PROTOCOL_CHAT, COUNT_RENDER); }
void service_completions_render(connection *c)
{
    intake_http(c, PROTOCOL_COMPLETIONS, COUNT_RENDER);
}
void service_apply_template(connection *c) { intake_http(c, PROTOCOL_CHAT, COUNT_TEMPLATE); }
void service_hello(connection *c) { http_answer(c, &(http_head){.status = 200}, VIEW("{}")); }

/* ---- POST /tokenize, as llama.cpp has it: {"content", "add_special", "parse_special",
 * "with_pieces"} -> {"tokens": [...]} ---- */

typedef struct {
    job job; /* first */
    connection *c;
    const server *s;
    const served_model *m; /* while it is being tokenized */
    bytes asked; /* the body, owned; empty: it belongs to the exchange */
    view body;
    int status;
    protocol_error error;
    json_out out; /* the answer */
} tokenizing;

static json_t *piece(const served_model *m, int32_t token)
{
    size_t len;
    const char *text = cerium_token_bytes(m->vocab, token, &len);
    json_t *shown = text ? json_stringn(text, len) : NULL;
    if (!shown) { /* not UTF-8: its bytes */
        shown = json_array();
        for (size_t i = 0; text && i < len; i++)
            json_array_append_new(shown, json_integer((unsigned char)text[i]));
    }
    return json_pack("{s:i, s:o}", "id", (int)token, "piece", shown);
}

/* As text: millions of tokens as values would take a gigabyte. */
static int write_tokens(tokenizing *t, const int32_t *tokens, size_t n, bool pieces)
{
    json_out *out = &t->out;
    out->b.max = SERVER_OUT_BYTES_MAX / 2;
    json_out_literal(out, "{\"tokens\":[");
    for (size_t i = 0; i < n && !out->status; i++) {
        json_t *shown = pieces ? piece(t->m, tokens[i]) : NULL;
        if (i) json_out_literal(out, ",");
        if (pieces)
            json_out_value(out, shown);
        else
            json_out_integer(out, tokens[i]);
        json_decref(shown);
    }
    json_out_literal(out, "]}");
    if (!out->status) return CERIUM_OK;
    bool full = out->status == CERIUM_ERR_CAPACITY;
    return protocol_error_set(&t->error, full ? 413 : 500,
                              full ? "invalid_request_error" : "server_error", NULL, "",
                              full ? "the tokens are too many for one answer" : "out of memory");
}

static bool run_tokenizing(job *j)
{
    tokenizing *t = (tokenizing *)j;
    int32_t *tokens = NULL;
    size_t n = 0;
    json_t *root = json_read(t->body, JSON_ALLOW_NUL, NULL);
    json_t *content = json_object_get(root, "content");
    bool special = !json_is_false(json_object_get(root, "parse_special"));
    bool begin = json_is_true(json_object_get(root, "add_special"));
    bool pieces = json_is_true(json_object_get(root, "with_pieces"));
    const char *name = json_string_value(json_object_get(root, "model"));
    t->m = models_choose(t->s, name, MODEL_TALKS);
    if (!t->m)
        t->status = models_unknown(t->s, name, &t->error);
    else if (!json_is_object(root))
        t->status = protocol_error_set(&t->error, 400, "invalid_request_error", "invalid_json", "",
                                       "The body of a request is a JSON object.");
    else if (!json_is_string(content))
        t->status = protocol_error_set(&t->error, 400, "invalid_request_error", "invalid_value",
                                       "content",
                                       "content is a string and has to be there");
    else
        t->status = prompts_tokenize(
            t->m, (view){json_string_value(content), json_string_length(content)},
            (special ? CERIUM_TOKENIZE_SPECIAL : 0) | (begin ? CERIUM_TOKENIZE_BEGIN : 0), &tokens,
            &n, &t->error);
    json_decref(root);
    if (!t->status) t->status = write_tokens(t, tokens, n, pieces);
    memory_free(tokens);
    return false;
}

static void tell_tokens(tokenizing *t)
{
    if (t->status)
        http_error(t->c, &t->error);
    else
        http_answer(t->c, &(http_head){.status = 200}, json_out_view(&t->out));
    json_out_free(&t->out);
}

static void release_tokenizing(job *j)
{
    tokenizing *t = (tokenizing *)j;
    bytes_free(&t->asked);
    json_out_free(&t->out);
    memory_free(t);
}

static void done_tokenizing(job *j)
{
    tokenizing *t = (tokenizing *)j;
    t->c->http.job = NULL;
    tell_tokens(t);
    release_tokenizing(j);
}

void service_tokenize(connection *c)
{
    exchange *x = &c->http;
    protocol_error e;
    tokenizing small = {.c = c, .s = c->s, .body = {x->body.ptr, x->body.len}};
    if (small.body.len <= SERVER_INLINE_BYTES_MAX) {
        (void)run_tokenizing(&small.job);
        tell_tokens(&small);
        return;
    }
    tokenizing *t = memory_zalloc(1, sizeof *t);
    if (!t) {
        http_json(c, 200, NULL);
        return;
    }
    *t = small;
    t->asked = x->body;
    x->body = (bytes){.max = PROTOCOL_BODY_BYTES_MAX};
    t->job = (job){.run = run_tokenizing,
                   .done = done_tokenizing,
                   .release = release_tokenizing,
                   .lane = t->body.len > SERVER_SMALL_BYTES_MAX ? WORKERS_LARGE : WORKERS_SMALL,
                   .client = client_of(c->tenant, c->serial)};
    if (!workers_submit(c->s->workers, &t->job)) {
        x->job = &t->job;
        return;
    }
    release_tokenizing(&t->job);
    (void)protocol_error_overloaded(&e, "requests are being read");
    http_error(c, &e);
}

/* ---- health ---- */

/* Is the watchdog on, and what can it not judge? */
static json_t *watched(const server *s)
{
    json_t *unjudged = json_array();
    for (int l = GUARD_TEXT + 1; l < GUARD_LANGUAGES && s->config.guard; l++)
        if (!guard_has_grammar((guard_language)l) && !guard_is_read_by_lines((guard_language)l))
            json_array_append_new(unjudged, json_string(guard_language_name((guard_language)l)));
    return json_pack("{s:b, s:o}", "on", s->config.guard != NULL, "unjudged", unjudged);
}

static void health(connection *c, int status, const char *word)
{
    const server *s = c->s;
    http_json(c, status,
              json_pack("{s:s, s:s, s:s, s:b, s:o, s:i, s:i, s:i}", "status", word, "version",
                        cerium_version(), "model", models_at(s, 0)->names[0], "replay",
                        s->replay != NULL, "guard", watched(s),
                        "running", (int)s->n_running, "waiting",
                        (int)(s->n_coming + s->n_waiting), "connections",
                        (int)s->n_connections));
}

void service_live(connection *c) { health(c, 200, "ok"); }

static void health_of(connection *c, int when_full)
{
    const server *s = c->s;
    bool full = s->n_coming + s->n_waiting >= s->config.queue_max && s->config.queue_max;
    if (s->leaving)
        health(c, 503, "shutting down");
    else
        health(c, full ? when_full : 200, full ? "busy" : "ok");
}

void service_ready(connection *c) { health_of(c, 503); }

/* A supervisor that restarts or removes a server by this must not do so under high load. */
void service_health(connection *c) { health_of(c, 200); }

void service_metrics(connection *c)
{
    server *s = c->s;
    bytes body = {.max = METRICS_TEXT_BYTES_MAX};
    metrics_model each[SERVER_MODELS_MAX];
    metrics_engine about = {.replay = s->replay != NULL, .started_at = s->started_at};
    models_measure(s, &about, each);
    /* The accounts thread has seen what other servers stored and removed, too. */
    store_size own = store_measure(s->store), kept = {0, 0, 0};
    if (s->sync) kept = accounts_sync_measure(s->sync);
    about.store_bytes = s->sync ? kept.bytes : own.bytes;
    about.store_responses = s->sync ? kept.responses : own.responses;
    about.store_expired = own.expired + kept.expired;
    s->metrics.connections_open = s->n_connections;
    s->metrics.sockets_open = s->n_sockets;
    s->metrics.streams_open = s->n_running;
    s->metrics.input_bytes = s->input_bytes;
    s->metrics.output_bytes = connections_waiting(s);
    s->metrics.recorded_bytes = recordings_bytes(s);
    s->metrics.turns = s->loop.turns;
    if (metrics_text(&body, &s->metrics, &about))
        http_json(c, 200, NULL);
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
    CHECK(file != NULL); /* the route is only for paths of files */
    snprintf(headers, sizeof headers,
             "etag: %s\r\ncache-control: %s\r\ncontent-security-policy: %s\r\n"
             "referrer-policy: no-referrer\r\n",
             file->etag, PAGE_CACHE_CONTROL, PAGE_POLICY);
    http_reader_copy(c->reader, "if-none-match", seen, sizeof seen);
    http_answer(c,
                &(http_head){.status = !strcmp(seen, file->etag) ? 304 : 200,
                             .type = file->type,
                             .headers = headers},
                file->content);
}
