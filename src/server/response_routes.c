/* response_routes.c - responses by id: running and stored ones.
 *
 * Queries of the store are jobs of its thread, and so is writing a large answer. */
#include "server/response_routes.h"

#include "base/json.h"
#include "protocol/json_out.h"
#include "server/answers.h"
#include "server/http.h"
#include "server/http_sinks.h"
#include "server/recording.h"
#include "server/stored.h"

enum { LIST_MAX = 100, LIST_DEFAULT = 20 };

/* ---- queries of the store, and written answers ---- */

typedef enum { ASK_RESPONSE, ASK_ITEMS, ASK_LIST, ASK_DELETE, ASK_NOTHING } question;

typedef struct {
    job job; /* first */
    connection *c;
    question question;
    char id[SERVER_ID_BYTES];
    uint64_t tenant;
    uint32_t n_max;       /* of a list */
    const server *s;
    bool streams;         /* the answer is events: its first one, and its last, */
    int64_t after;        /* after this number */
    bytes beginning;
    const char *ending;   /* name of the last event */
    json_t *object;       /* owned: the object to write; NULL: the store has it */
    bytes body;           /* the answer; empty: an error */
    protocol_error error;
    bool store_failed;
} request_job;

static int not_found(const char *id, protocol_error *e)
{
    return protocol_error_set(e, 404, "invalid_request_error", "not_found", "response_id",
                              "there is no response '%.*s'", (int)SERVER_ID_BYTES - 1, id);
}

static int write_object(request_job *q)
{
    char *text = q->object ? json_dumps(q->object, JSON_COMPACT) : NULL;
    if (!text) return protocol_error_memory(&q->error);
    int status = bytes_append(&q->body, text, strlen(text));
    memory_release(text);
    return status ? protocol_error_memory(&q->error) : CERIUM_OK;
}

/* An item of the input, with an id: its own, or one made from the response's id and its index. */
static json_t *with_id(const json_t *item, const char *response, size_t i)
{
    static const char *const prefixes[][2] = {
        {"message", "msg"},              {"function_call", "fc"},
        {"function_call_output", "fco"}, {"custom_tool_call", "ctc"},
        {"custom_tool_call_output", "ctco"}, {"reasoning", "rs"}, {"compaction", "cmp"}};
    const char *type = json_string_value(json_object_get(item, "type"));
    const char *own = strchr(response, '_'), *prefix = "item";
    char id[SERVER_ID_BYTES + 32];
    json_t *copy = json_copy((json_t *)item);
    if (!type && json_object_get(item, "role")) type = "message";
    for (size_t k = 0; type && k < ARRAY_LEN(prefixes); k++)
        if (!strcmp(type, prefixes[k][0])) prefix = prefixes[k][1];
    snprintf(id, sizeof id, "%s_%s_in%zu", prefix, own ? own + 1 : response, i);
    json_object_set_new(copy, "id", json_string(id));
    return copy;
}

/* Items of a conversation as one page of a list, with all of them.  Takes the reference. */
static json_t *page_of(json_t *input, const char *response)
{
    json_t *items = json_array(), *item;
    size_t i;
    json_array_foreach(input, i, item) {
        if (json_string_length(json_object_get(item, "id")))
            json_array_append(items, item);
        else
            json_array_append_new(items, with_id(item, response, i));
    }
    json_decref(input);
    size_t n = json_array_size(items);
    json_t *first = json_array_get(items, 0);
    json_t *last = n ? json_array_get(items, n - 1) : NULL;
    return json_pack("{s:s, s:o, s:O?, s:O?, s:b}", "object", "list", "data", items, "first_id",
                     json_object_get(first, "id"), "last_id", json_object_get(last, "id"),
                     "has_more", 0);
}

/* ,"sequence_number":...: a stored response has only two events left. */
static int write_event(bytes *out, const char *type, int64_t number, view response)
{
    json_out t = {.b = *out};
    json_out_literal(&t, "{\"type\":");
    json_out_string(&t, type);
    json_out_literal(&t, ",\"sequence_number\":");
    json_out_integer(&t, number);
    json_out_literal(&t, ",\"response\":");
    json_out_put(&t, response);
    json_out_literal(&t, "}");
    *out = t.b;
    return t.status;
}

/* A response as at its beginning. */
static int write_beginning(request_job *q, json_t *response)
{
    static const char *const later[] = {"usage", "completed_at", "error", "incomplete_details",
                                        "cerium"};
    json_t *was = json_copy(response);
    for (size_t i = 0; i < ARRAY_LEN(later); i++)
        if (json_object_get(was, later[i])) json_object_set_new(was, later[i], json_null());
    json_object_set_new(was, "status", json_string("in_progress"));
    json_object_set_new(was, "output", json_array());
    char *text = was ? json_dumps(was, JSON_COMPACT) : NULL;
    int status = text ? write_event(&q->beginning, "response.created", 0, view_of(text))
                      : CERIUM_ERR_MEMORY;
    memory_release(text);
    json_decref(was);
    return status;
}

/* The row as a stream that was not recorded: its first event, unless already sent, and its last. */
static int write_events(request_job *q, view row)
{
    json_t *response = json_read(row, JSON_ALLOW_NUL, NULL);
    const char *how = json_string_value(json_object_get(response, "status"));
    const bool failed = how && !strcmp(how, "failed"), whole = how && !strcmp(how, "completed");
    int status = response ? CERIUM_OK : CERIUM_ERR_MEMORY;
    if (!status && q->after < 0) status = write_beginning(q, response);
    json_decref(response);
    q->ending = failed ? "response.failed" : whole ? "response.completed" : "response.incomplete";
    if (!status) status = write_event(&q->body, q->ending, q->after < 1 ? 1 : q->after + 1, row);
    return status ? protocol_error_memory(&q->error) : CERIUM_OK;
}

/* The requested part of the stored row. */
static int read_row(request_job *q)
{
    store_response row;
    bytes memory = {.max = STORE_RECORD_BYTES_MAX};
    cerium_error err;
    bool found = false;
    if (store_get(q->s->store, q->tenant, q->id, &row, &memory, &found, &err)) {
        q->store_failed = true;
        return stored_failed(&err, &q->error);
    }
    if (!found) return not_found(q->id, &q->error);
    int status = CERIUM_OK;
    if (q->question == ASK_ITEMS) {
        q->object = page_of(json_read(row.input, 0, NULL), q->id);
        status = write_object(q);
    } else if (q->streams) {
        status = write_events(q, row.response);
    } else if (bytes_append(&q->body, row.response.ptr, row.response.len)) {
        status = protocol_error_memory(&q->error);
    }
    bytes_free(&memory);
    return status;
}

/* The list is written as text: the rows are JSON already. */
typedef struct {
    bytes *body;
    uint32_t n;
    int status;
} listing;

static bool add_row(void *arg, const store_response *row)
{
    listing *l = arg;
    if (l->n++) l->status = bytes_append(l->body, ",", 1);
    if (!l->status) l->status = bytes_append(l->body, row->response.ptr, row->response.len);
    return !l->status;
}

static int read_list(request_job *q)
{
    cerium_error err;
    listing l = {.body = &q->body};
    static const char head[] = "{\"object\":\"list\",\"data\":[", tail[] = "]}";
    l.status = bytes_append(&q->body, head, sizeof head - 1);
    if (!l.status && store_list(q->s->store, q->tenant, q->n_max, add_row, &l, &err)) {
        q->store_failed = true;
        return stored_failed(&err, &q->error);
    }
    if (!l.status) l.status = bytes_append(&q->body, tail, sizeof tail - 1);
    if (!l.status) return CERIUM_OK;
    return protocol_error_set(&q->error, 500, "server_error", NULL, "", "the list is too long");
}

static int delete_row(request_job *q)
{
    cerium_error err;
    bool found = false;
    if (store_delete(q->s->store, q->tenant, q->id, &found, &err)) {
        q->store_failed = true;
        return stored_failed(&err, &q->error);
    }
    history_forget(q->s->history, q->tenant, q->id);
    if (!found) return not_found(q->id, &q->error);
    q->object = json_pack("{s:s, s:s, s:b}", "id", q->id, "object", "response", "deleted", 1);
    return write_object(q);
}

static bool run(job *j)
{
    request_job *q = (request_job *)j;
    int status = CERIUM_OK;
    switch (q->question) {
    case ASK_RESPONSE: status = read_row(q); break;
    case ASK_ITEMS: status = read_row(q); break;
    case ASK_LIST: status = read_list(q); break;
    case ASK_DELETE: status = delete_row(q); break;
    case ASK_NOTHING: status = write_object(q); break;
    }
    if (status) bytes_free(&q->body);
    json_decref(q->object);
    q->object = NULL;
    return false;
}

static void release(job *j)
{
    request_job *q = (request_job *)j;
    json_decref(q->object);
    bytes_free(&q->body);
    bytes_free(&q->beginning);
    memory_free(q);
}

static void tell_events(const request_job *q)
{
    const sink out = {.type = &http_stream_sink, .c = q->c};
    metrics_count(&q->c->s->metrics, METRICS_RESUMED, 1);
    sink_begin(&out);
    if (q->beginning.len)
        sink_event(&out, "response.created", (view){q->beginning.ptr, q->beginning.len});
    sink_event(&out, q->ending, (view){q->body.ptr, q->body.len});
    sink_finish(&out, (view){NULL, 0});
}

static void done(job *j)
{
    request_job *q = (request_job *)j;
    connection *c = q->c;
    c->http.job = NULL;
    if (q->store_failed) metrics_count(&c->s->metrics, METRICS_STORE_FAILED, 1);
    if (q->body.len && q->streams)
        tell_events(q);
    else if (q->body.len)
        http_answer(c, &(http_head){.status = 200}, (view){q->body.ptr, q->body.len});
    else
        http_error(c, &q->error);
    release(j);
}

static request_job *open_job(connection *c, question what, workers_lane whose)
{
    request_job *q = memory_zalloc(1, sizeof *q);
    if (!q) return NULL;
    *q = (request_job){.job = {.run = run, .done = done, .release = release, .lane = whose,
                               .client = client_of(c->tenant, c->serial)},
                       .c = c,
                       .question = what,
                       .tenant = c->tenant,
                       .s = c->s,
                       .beginning = {.max = SERVER_OUT_BYTES_MAX},
                       .body = {.max = what == ASK_LIST ? SERVER_OUT_BYTES_MAX / 2
                                                        : SERVER_OUT_BYTES_MAX}};
    memcpy(q->id, c->http.id, sizeof q->id);
    return q;
}

static void submit(connection *c, request_job *q)
{
    protocol_error e;
    if (q && !workers_submit(c->s->workers, &q->job)) {
        c->http.job = &q->job;
        return;
    }
    if (q) {
        release(&q->job);
        (void)protocol_error_overloaded(&e, "requests wait for the store");
    } else {
        (void)protocol_error_memory(&e);
    }
    http_error(c, &e);
}

static void ask(connection *c, question what)
{
    submit(c, open_job(c, what, WORKERS_STORE));
}

/* An object may be large: a thread writes it.  Takes the reference. */
static void answer_object(connection *c, json_t *object)
{
    request_job *q = open_job(c, ASK_NOTHING, WORKERS_LARGE);
    if (q)
        q->object = object;
    else
        json_decref(object);
    submit(c, q);
}

/* ---- answers that run ---- */

static answer *running(const connection *c)
{
    answer *a = answers_find(c->s, c->tenant, c->http.id);
    return a && !a->request->inline_id ? a : NULL;
}

/* It ended: answer the connections that requested it meanwhile. */
static void answer_awaiting(answer *a)
{
    protocol_error e;
    for (connection *c = a->s->connections; c; c = c->next) {
        if (!c->http.awaits_end || c->tenant != a->tenant || strcmp(c->http.id, a->id)) continue;
        c->http.awaits_end = false;
        if (a->begun) {
            answer_object(c, protocol_writer_object(a->writer));
        } else {
            (void)not_found(a->id, &e);
            http_error(c, &e);
        }
    }
}

/* Its present state; or, if a thread makes its end, its state after that. */
static void answer_running(connection *c, answer *a)
{
    /* A canceled one in preparation ends as soon as a thread is done with it. */
    if (a->ending.is_away || (a->prepare && a->canceled)) {
        c->http.awaits_end = true;
        a->ending.on_end = answer_awaiting;
    } else {
        answer_object(c, protocol_writer_object(a->writer));
    }
}

/* ---- routes ---- */

static bool wants_stream(connection *c, bool *streams, int64_t *after, protocol_error *e)
{
    char text[32];
    uint64_t n;
    *after = -1;
    http_argument(c, "stream", text, sizeof text);
    *streams = !strcmp(text, "true") && c->http.method == METHOD_GET;
    if (text[0] && strcmp(text, "true") && strcmp(text, "false")) {
        (void)protocol_error_set(e, 400, "invalid_request_error", "invalid_value", "stream",
                                 "stream is true or false");
        return false;
    }
    http_argument(c, "starting_after", text, sizeof text);
    if (!text[0]) return true;
    if (!parse_u64(view_of(text), &n)) {
        (void)protocol_error_set(e, 400, "invalid_request_error", "invalid_value",
                                 "starting_after", "starting_after is the number of an event");
        return false;
    }
    *after = n < INT64_MAX ? (int64_t)n : INT64_MAX - 1;
    return true;
}

/* The events of the response: recorded ones, else those derived from the store. */
static void resume(connection *c, int64_t after)
{
    protocol_error e;
    const sink out = {.type = &http_stream_sink, .c = c};
    recording *r = recording_find(c->s, c->tenant, c->http.id);
    if (r) {
        if (recording_follow(&out, r, after, &e)) http_error(c, &e);
    } else if (running(c)) {
        (void)protocol_error_set(&e, 400, "invalid_request_error", "stream_expired", "stream",
                                 "events of this response are not kept: it is not stored");
        http_error(c, &e);
    } else {
        request_job *q = open_job(c, ASK_RESPONSE, WORKERS_STORE);
        if (q) q->streams = true, q->after = after;
        submit(c, q);
    }
}

void response_get(connection *c)
{
    answer *a = running(c);
    bool streams;
    int64_t after;
    protocol_error e;
    if (!wants_stream(c, &streams, &after, &e))
        http_error(c, &e);
    else if (streams)
        resume(c, after);
    else if (a)
        answer_running(c, a);
    else
        ask(c, ASK_RESPONSE);
}

void response_delete(connection *c)
{
    recording *r = running(c) ? NULL : recording_find(c->s, c->tenant, c->http.id);
    recording_drop(&r);
    ask(c, ASK_DELETE);
}

void response_cancel(connection *c)
{
    answer *a = running(c);
    if (!a) { /* it already ended: return that */
        ask(c, ASK_RESPONSE);
        return;
    }
    answer_cancel(a, "cancel");
    answer_running(c, a);
}

void response_input_items(connection *c)
{
    const answer *a = answers_find(c->s, c->tenant, c->http.id);
    if (a && a->request->items)
        answer_object(c, page_of(json_incref(a->request->items), a->id));
    else
        ask(c, ASK_ITEMS);
}

void response_list(connection *c)
{
    char text[16];
    uint64_t n = LIST_DEFAULT;
    protocol_error e;
    http_argument(c, "limit", text, sizeof text);
    if (text[0] && (!parse_u64(view_of(text), &n) || n < 1 || n > LIST_MAX)) {
        (void)protocol_error_set(&e, 400, "invalid_request_error", "invalid_value", "limit",
                                 "limit is 1 to %d", LIST_MAX);
        http_error(c, &e);
        return;
    }
    request_job *q = open_job(c, ASK_LIST, WORKERS_STORE);
    if (q) q->n_max = (uint32_t)n;
    submit(c, q);
}
