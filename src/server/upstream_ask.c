/* upstream_ask.c - asks by the server's own means: a transfer, a reader of its answer, a writer. */
#include "server/upstream_ask.h"

#include <semaphore.h>

#include "base/json.h"
#include "protocol/upstream_api.h"
#include "server/upstream.h"

typedef struct {
    const upstream_question *question;
    const upstream_policy *policy;
    uint32_t which;
    sem_t bell;
    protocol_request *request;
    protocol_writer *writer;
    upstreams *all;
    transfer *transfer;
    upstream_reader reader;
    bytes body;
    uint64_t began_ns, first_ns;
} asking;

static void ring(void *user) { sem_post(user); }

/* In our own events: the deltas of text. */
static void on_event(void *user, const char *name, const char *json, size_t len)
{
    asking *a = user;
    if (!name || strcmp(name, "response.output_text.delta") != 0) return;
    json_t *event = json_read((view){json, len}, JSON_ALLOW_NUL, NULL);
    const json_t *delta = json_object_get(event, "delta");
    if (!a->first_ns) a->first_ns = clock_ns();
    a->question->text(a->question->user,
                      (view){json_string_value(delta), json_string_length(delta)});
    json_decref(event);
}

static int find(asking *a, const policy *p, cerium_error *err)
{
    const char *name = a->question->upstream;
    if (!p->n_upstreams)
        return error_set(err, CERIUM_ERR_ARGUMENT, "the configuration has no [upstream NAME]");
    for (uint32_t i = 0; i < p->n_upstreams; i++)
        if (!name || !strcmp(p->upstreams[i].name, name)) {
            a->policy = &p->upstreams[i];
            a->which = i;
            return CERIUM_OK;
        }
    return error_set(err, CERIUM_ERR_ARGUMENT, "the configuration has no [upstream %s]", name);
}

/* The question in the form of our own clients' requests. */
static int make_request(asking *a, cerium_error *err)
{
    const upstream_question *q = a->question;
    const protocol_defaults defaults = {.has_chat_form = true};
    protocol_error e = {.message = "out of memory"};
    json_t *input = json_stringn(q->prompt.ptr, q->prompt.len);
    if (!input) return error_set(err, CERIUM_ERR_FORMAT, "the prompt is not UTF-8");
    json_t *root = json_pack("{s:o, s:s*, s:b, s:b}", "input", input, "instructions", q->system,
                             "stream", 1, "store", 0);
    if (root && q->new_tokens_max)
        json_object_set_new(root, "max_output_tokens", json_integer(q->new_tokens_max));
    char *text = root ? json_dumps(root, JSON_COMPACT) : NULL;
    json_decref(root);
    int status = text ? protocol_request_parse(&a->request, PROTOCOL_RESPONSES, view_of(text),
                                               &defaults, &e)
                      : CERIUM_ERR_MEMORY;
    memory_release(text);
    return status ? error_set(err, status, "%s", e.message) : CERIUM_OK;
}

static const char *model_of(const asking *a)
{
    const upstream_policy *u = a->policy;
    return u->model[0] ? u->model : u->n_models ? u->models[0] : u->name;
}

static int send(asking *a, const policy *p, cerium_error *err)
{
    upstream_order order = {.request = a->request,
                            .items = a->request->items,
                            .model = model_of(a),
                            .responses = a->policy->responses};
    const protocol_answer answer = {.request = a->request, .id = "resp_deep", .model = order.model,
                                    .emit = on_event, .user = a};
    RETURN_IF(upstreams_open(&a->all, p, ring, &a->bell, err));
    int status = protocol_writer_open(&a->writer, &answer);
    if (!status) status = upstream_body(&a->body, &order);
    if (!status && a->question->new_tokens_max)
        status = upstream_cap(&a->body, &order, a->question->new_tokens_max);
    upstream_reader_open(&a->reader, a->request, a->writer, a->policy->responses);
    if (!status)
        a->transfer = transfer_begin(a->all, a->which, upstream_path(&order),
                                     (view){a->body.ptr, a->body.len});
    a->body.len = 0;
    return a->transfer ? CERIUM_OK : error_set(err, CERIUM_ERR_MEMORY, "no memory for the request");
}

static int failed(const asking *a, const char *what, cerium_error *err)
{
    return error_set(err, CERIUM_ERR_IO, "%s: %s", a->policy->name, what);
}

static int receive(asking *a, cerium_error *err)
{
    transfer_state state = {.ended = false};
    while (!state.ended) {
        protocol_error e;
        while (sem_wait(&a->bell)) {} /* a signal: the bell rings anyway */
        if (transfer_take(a->transfer, &a->body, &state)) return failed(a, "out of memory", err);
        if (state.status && state.status != 200) {
            if (!state.ended) continue;
            upstream_refusal((view){a->body.ptr, a->body.len}, state.status, a->policy->name, &e);
            return error_set(err, CERIUM_ERR_IO, "%s", e.message);
        }
        int status = upstream_reader_feed(&a->reader, (view){a->body.ptr, a->body.len});
        a->body.len = 0;
        if (status) return failed(a, "this is not a stream of events", err);
        if (a->reader.ended && a->reader.has_usage) break;
    }
    if (a->reader.ended && a->reader.end == PROTOCOL_END_FAILED)
        return failed(a, a->reader.error.message, err);
    if (a->reader.ended) return CERIUM_OK;
    return failed(a, state.failed ? state.error : "the stream ended early", err);
}

int upstream_ask(const policy *p, const upstream_question *question, upstream_reply *answer,
                 cerium_error *err)
{
    asking a = {.question = question, .body.max = PROTOCOL_ANSWER_BYTES_MAX,
                .began_ns = clock_ns()};
    RETURN_IF(find(&a, p, err));
    sem_init(&a.bell, 0, 0);
    int status = make_request(&a, err);
    if (!status) status = send(&a, p, err);
    if (!status) status = receive(&a, err);
    const protocol_usage *u = &a.reader.usage;
    if (!status)
        *answer = (upstream_reply){.served_by = a.policy->name,
                                   .model = model_of(&a),
                                   .input_tokens = u->input_tokens,
                                   .cached_tokens = u->cached_tokens,
                                   .output_tokens = u->output_tokens,
                                   .first_ns = a.first_ns ? a.first_ns - a.began_ns : 0,
                                   .duration_ns = clock_ns() - a.began_ns,
                                   .cut = a.reader.end == PROTOCOL_END_LENGTH};
    transfer_end(&a.transfer);
    upstreams_close(&a.all);
    upstream_reader_close(&a.reader);
    protocol_writer_free(&a.writer);
    protocol_request_free(&a.request);
    bytes_free(&a.body);
    sem_destroy(&a.bell);
    return status;
}
