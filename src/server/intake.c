/* intake.c - parses requests on the loop and on threads, and keeps messages in order. */
#include "server/intake.h"

#include <time.h>

#include "server/access.h"
#include "server/answer_open.h"
#include "server/answers.h"
#include "server/connection.h"
#include "server/http.h"
#include "server/http_sinks.h"
#include "server/inline.h"
#include "server/lanes.h"
#include "server/model_loader.h"
#include "server/model_list.h"

/* The kind of the request. */
typedef enum {
    IS_REQUEST,           /* an HTTP body, response.create or response.cancel */
    IS_COMPLETION,        /* completion.create, edit.predict */
    IS_COMPLETION_CANCEL,
    IS_STEER,             /* response.steer */
} intake_kind;

struct intake {
    job job; /* first */
    connection *c;
    intake *next; /* a message of the same WebSocket, after it */
    bool is_away; /* a thread parses it, or it waits for one */
    bool is_message;
    protocol_api api;
    count_what counts;
    uint64_t started_ns;
    bytes memory; /* of the text, owned; empty: the text is borrowed */
    view text;

    /* Add a reference for a reader. */
    const server *s;
    protocol_defaults defaults;
    history *history;
    uint64_t tenant;

    /* The result of parsing. */
    intake_kind kind;
    int status;
    protocol_error error;
    protocol_request *request; /* owned, or NULL */
    char id[SERVER_ID_BYTES];  /* of a completion, or "" */
    protocol_steer steer;      /* owned */
};

/* ---- parsing, which a thread may do ---- */

static json_t *find_item(void *user, const char *id)
{
    const intake *in = user;
    return history_find_item(in->history, in->tenant, id);
}

static void keep_id(intake *in, const protocol_body *body)
{
    const char *id = protocol_inline_id(body);
    snprintf(in->id, sizeof in->id, "%s", id ? id : "");
}

/* The defaults of the requested model; whether the name exists is checked later. */
static void take_defaults(intake *in, const json_t *root, protocol_api api)
{
    const char *name = json_string_value(json_object_get(root, "model"));
    const bool has_suffix = json_is_string(json_object_get(root, "suffix"));
    const served_model *m = models_choose(in->s, name, models_use_of(api, has_suffix));
    if (!m) return;
    protocol_defaults *d = &in->defaults;
    d->sampling = m->defaults.sampling;
    d->has_chat_form = m->defaults.has_chat_form;
    d->edit_form = m->defaults.edit_form;
    d->fills_in = m->defaults.fills_in;
    d->pointer = m->defaults.pointer;
    d->confidence_min = m->defaults.confidence_min;
    d->n_embedding = m->defaults.n_embedding;
}

/* Takes the body. */
static void read_body(intake *in, protocol_body *body)
{
    const char *type = json_string_value(json_object_get(body->root, "type"));
    if (!in->is_message || !type) type = "";
    if (!strcmp(type, "completion.create")) {
        in->kind = IS_COMPLETION;
        keep_id(in, body);
        take_defaults(in, body->root, PROTOCOL_INFILL);
        in->status = protocol_inline_parse(&in->request, body, &in->defaults, &in->error);
    } else if (!strcmp(type, "edit.predict")) {
        in->kind = IS_COMPLETION;
        keep_id(in, body);
        take_defaults(in, body->root, PROTOCOL_EDITS);
        in->status = protocol_body_parse(&in->request, PROTOCOL_EDITS, body, &in->defaults,
                                         &in->error);
    } else if (!strcmp(type, "completion.cancel")) {
        in->kind = IS_COMPLETION_CANCEL;
        keep_id(in, body);
        protocol_body_free(body);
    } else if (!strcmp(type, "response.steer")) {
        in->kind = IS_STEER;
        in->status = protocol_steer_read(&in->steer, body, in->text.len, &in->error);
    } else {
        take_defaults(in, body->root, in->api);
        in->status = protocol_body_parse(&in->request, in->api, body, &in->defaults, &in->error);
    }
}

static void read_text(intake *in)
{
    protocol_body body;
    in->defaults.find_item = find_item;
    in->defaults.user = in;
    in->status = protocol_body_load(&body, in->api, in->text, &in->defaults, &in->error);
    if (!in->status) read_body(in, &body);
    if (in->status == CERIUM_ERR_MEMORY) (void)protocol_error_memory(&in->error);
}

static bool run(job *j)
{
    intake *in = (intake *)j;
    read_text(in);
    bytes_free(&in->memory); /* parsed values are copies */
    return false;
}

/* ---- opening and closing ---- */

static intake intake_of(connection *c, protocol_api api, bool is_message, view text)
{
    intake in = {.c = c,
                 .api = api,
                 .is_message = is_message,
                 .started_ns = clock_ns(),
                 .text = text,
                 .defaults = models_at(c->s, 0)->defaults,
                 .s = c->s,
                 .history = c->s->history,
                 .tenant = c->tenant};
    in.defaults.is_socket = is_message;
    in.defaults.cache = protocol_cache_hold(access_cache(c));
    return in;
}

/* Its owner keeps its memory. */
static void forget(intake *in)
{
    request_bury(in->c->s, &in->request, in->text.len);
    protocol_steer_free(&in->steer);
    protocol_cache_close(&in->defaults.cache);
    bytes_free(&in->memory);
}

/* On any thread. */
static void release(job *j)
{
    intake *in = (intake *)j;
    protocol_request_free(&in->request);
    protocol_steer_free(&in->steer);
    protocol_cache_close(&in->defaults.cache);
    bytes_free(&in->memory);
    memory_free(in);
}

static void make_job(intake *in, void (*done)(job *j))
{
    in->job = (job){.run = run,
                    .done = done,
                    .release = release,
                    .lane = in->text.len > SERVER_SMALL_BYTES_MAX ? WORKERS_LARGE : WORKERS_SMALL,
                    .client = client_of(in->tenant, in->c->serial)};
}

static int too_many(protocol_error *e)
{
    return protocol_error_overloaded(e, "requests are being read");
}

static protocol_request *take_request(intake *in)
{
    protocol_request *r = in->request;
    in->request = NULL;
    return r;
}

/* ---- HTTP ---- */

/* Agents also send requests for which no user waits: Codex and Claude Code mark them. */
static bool is_side_request(const connection *c)
{
    const char *metadata = http_reader_field(c->reader, "x-codex-turn-metadata");
    return http_reader_field(c->reader, "x-claude-code-agent-id") ||
           (metadata && protocol_is_side_request(view_of(metadata)));
}

static const sink_type *sink_of(const protocol_request *r)
{
    const bool is_lines = r->api == PROTOCOL_OLLAMA_CHAT || r->api == PROTOCOL_OLLAMA_GENERATE;
    if (!r->stream) return r->background ? &http_background_sink : &http_body_sink;
    return is_lines ? &http_lines_sink : &http_stream_sink;
}

static int begin_http(intake *in, protocol_error *e)
{
    connection *c = in->c;
    const protocol_request *r = in->request;
    if (r->cancel)
        return protocol_error_set(e, 400, "invalid_request_error", "invalid_value", "type",
                                  "response.cancel is a message of WebSockets; POST to "
                                  "/v1/responses/{id}/cancel");
    if (!r->service_tier && r->class_ == CERIUM_CLASS_TURN && is_side_request(c))
        in->request->class_ = CERIUM_CLASS_BATCH;
    /* Without a key an address is a client, because clients open several connections. */
    answer_order order = {.sink = {.type = sink_of(r), .c = c},
                          .request = take_request(in),
                          .document = r->document,
                          .client = c->peer,
                          .guard = c->http.guard,
                          .n_bytes = in->text.len,
                          .started_ns = in->started_ns};
    return answer_open(c->s, &order, e);
}

/* Ollama's empty request. */
static void tell_loaded(connection *c, const protocol_request *r)
{
    bytes body = {.max = 1 << 16};
    protocol_error e;
    served_model *m = models_choose(c->s, r->model, models_use_of(r->api, r->fill_in));
    const bool loads = m && strcmp(r->loads, "unload");
    if (!m ? models_unknown(c->s, r->model, &e) : loads ? model_check(m, &e) : CERIUM_OK) {
        http_error(c, &e);
        return;
    }
    model_keep(m, r);
    if (loads) model_want(m);
    else (void)model_unload(m); /* a running model is unloaded once it is idle */
    if (protocol_ollama_load_body(&body, r, m->names[0], (int64_t)time(NULL))) {
        (void)protocol_error_memory(&e);
        http_error(c, &e);
    } else {
        http_answer(c, &(http_head){.status = 200}, (view){body.ptr, body.len});
    }
    bytes_free(&body);
}

static void deliver_http(intake *in)
{
    if (!in->status && in->counts) {
        counting_begin(in->c, take_request(in), in->counts, in->text.len);
        return;
    }
    if (!in->status && in->request->loads) {
        tell_loaded(in->c, in->request);
        return;
    }
    if (!in->status) in->status = begin_http(in, &in->error);
    if (in->status) http_error(in->c, &in->error);
}

static void on_http_read(job *j)
{
    intake *in = (intake *)j;
    in->c->http.job = NULL;
    deliver_http(in);
    forget(in);
    memory_free(in);
}

void intake_http(connection *c, protocol_api api, count_what what)
{
    exchange *x = &c->http;
    protocol_error e;
    intake small = intake_of(c, api, false, (view){x->body.ptr, x->body.len});
    small.counts = what;
    small.defaults.counts = what != COUNT_NONE;
    if (c->s->config.log_prompts) log_body(c->peer, small.text);
    if (small.text.len <= SERVER_INLINE_BYTES_MAX) {
        read_text(&small);
        deliver_http(&small);
        forget(&small);
        return;
    }
    intake *in = memory_zalloc(1, sizeof *in);
    if (!in) {
        forget(&small);
        (void)protocol_error_memory(&e);
        http_error(c, &e);
        return;
    }
    *in = small;
    in->memory = x->body;
    x->body = (bytes){.max = PROTOCOL_BODY_BYTES_MAX};
    make_job(in, on_http_read);
    if (!workers_submit(c->s->workers, &in->job)) {
        x->job = &in->job;
        return;
    }
    release(&in->job);
    (void)too_many(&e);
    http_error(c, &e);
}

/* ---- messages ---- */

/* Only the text's length is still needed. */
static void deliver_message(intake *in)
{
    connection *c = in->c;
    switch (in->kind) {
    case IS_REQUEST:
        if (in->status)
            socket_error(c, &in->error, NULL);
        else
            lanes_take(c, take_request(in), in->text.len, in->started_ns);
        break;
    case IS_COMPLETION:
        if (in->status)
            inline_refuse(c, in->id, &in->error);
        else
            inline_begin(c, take_request(in), in->text.len, in->started_ns);
        break;
    case IS_COMPLETION_CANCEL: (void)inline_cancel(c, in->id); break;
    case IS_STEER: lanes_steer(c, &in->steer, in->status ? &in->error : NULL); break;
    }
}

/* Remove from the queue, and from the counts. */
static intake *take_first(connection *c)
{
    intake *in = c->intake;
    c->intake = in->next;
    (void)connection_gathers(c, 0, -(ptrdiff_t)in->text.len);
    return in;
}

static void read_first(connection *c);

static void on_message_read(job *j)
{
    connection *c = ((intake *)j)->c;
    intake *in = take_first(c);
    CHECK(&in->job == j);
    if (!c->closing) deliver_message(in);
    forget(in);
    memory_free(in);
    read_first(c);
    connection_flush(c);
}

/* The first one is parsed; those after it wait. */
static void read_first(connection *c)
{
    protocol_error e;
    while (c->intake && !c->intake->is_away && !c->closing) {
        intake *in = c->intake;
        make_job(in, on_message_read);
        in->is_away = !workers_submit(c->s->workers, &in->job);
        if (in->is_away) return;
        (void)too_many(&e);
        socket_error(c, &e, NULL);
        release(&take_first(c)->job);
    }
}

static int keep_message(connection *c, intake *from, bytes *text, protocol_error *e)
{
    uint32_t n = 0;
    intake **at = &c->intake;
    for (; *at; at = &(*at)->next) n++;
    if (n >= SERVER_PENDING_MAX)
        return protocol_error_set(e, 429, "rate_limit_error", "rate_limit_exceeded", "",
                                  "%u messages wait on this WebSocket; please try again in 1s", n);
    intake *in = memory_zalloc(1, sizeof *in);
    if (!in) return protocol_error_memory(e);
    if (!connection_gathers(c, SERVER_INPUT_FREE_BYTES + 1, (ptrdiff_t)from->text.len)) {
        metrics_count(&c->s->metrics, METRICS_INPUT_REFUSED, 1);
        memory_free(in);
        return too_many(e);
    }
    *in = *from;
    in->kind = IS_REQUEST;
    in->memory = *text;
    *text = (bytes){.max = text->max};
    in->defaults.cache = protocol_cache_hold(from->defaults.cache);
    *at = in;
    return CERIUM_OK;
}

/* Cancel a running response at once, ahead of queued messages.  False: it is another message, or
 * the response may still be in the queue. */
static bool cancels(intake *in)
{
    connection *c = in->c;
    if (!memmem(in->text.ptr, in->text.len, ".cancel", 7)) return false;
    read_text(in);
    bool found = false;
    if (in->kind == IS_COMPLETION_CANCEL)
        found = inline_cancel(c, in->id);
    else if (in->request && in->request->cancel)
        found = lanes_cancel(c, in->request);
    protocol_request_free(&in->request); /* else it is parsed in its turn */
    in->kind = IS_REQUEST;
    in->status = CERIUM_OK;
    return found;
}

void intake_message(connection *c, bytes *text)
{
    protocol_error e = {0};
    const view body = {text->ptr ? text->ptr : "", text->len};
    intake small = intake_of(c, PROTOCOL_RESPONSES, true, body);
    const bool is_small = text->len <= SERVER_INLINE_BYTES_MAX;
    if (is_small && !c->intake) {
        read_text(&small);
        deliver_message(&small);
    } else if (!is_small || !cancels(&small)) {
        int status = keep_message(c, &small, text, &e);
        if (status)
            socket_error(c, &e, NULL);
        else
            read_first(c);
    }
    forget(&small);
}

void intake_close(connection *c)
{
    while (c->intake) {
        bool is_away = c->intake->is_away;
        job *j = &take_first(c)->job;
        if (is_away)
            workers_drop(c->s->workers, &j);
        else
            release(j);
    }
}
