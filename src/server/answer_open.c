/* answer_open.c - the beginning of an answer, and its place in the queue. */
#include "server/answer_open.h"

#include <time.h>

#include "server/answer_keep.h"
#include "server/answer_watchdog.h"
#include "server/answers.h"
#include "server/api_writer.h"
#include "server/candidates.h"
#include "server/connection.h"
#include "server/http.h"
#include "server/http_sinks.h"
#include "server/ids.h"
#include "server/model_loader.h"
#include "server/model_list.h"
#include "server/prepare.h"
#include "server/recording.h"
#include "server/schedule.h"
#include "server/source_engine.h"
#include "server/source_upstream.h"
#include "server/tenant_quota.h"

/* One for each requested text; their prompts come later. */
static int make_choices(answer *a, protocol_error *e)
{
    const protocol_request *r = a->request;
    const uint32_t n = r->talks || !r->n_prompts ? 1 : (uint32_t)r->n_prompts;
    a->prompts = memory_zalloc(n, sizeof *a->prompts);
    a->choices = memory_zalloc((size_t)n * r->n_choices, sizeof *a->choices);
    if (!a->prompts || !a->choices) return protocol_error_memory(e);
    a->n_prompts = n;
    a->n_choices = n * r->n_choices;
    for (uint32_t i = 0; i < a->n_choices; i++)
        a->choices[i] = (choice){.a = a,
                                 .index = i,
                                 .sampled = {.max = SIZE_MAX / 2},
                                 .unsure = {.max = PROTOCOL_ANSWER_BYTES_MAX},
                                 .show = {.max = 1 << 20}};
    return candidates_open(a) ? protocol_error_memory(e) : CERIUM_OK;
}

/* Older answers that complete the same document for the same client are useless now. */
static void supersede(answer *a)
{
    for (answer *b = a->next; b; b = b->next) {
        if (answer_is_over(b) || !b->document || b->tenant != a->tenant) continue;
        if (strcmp(b->document, a->document) != 0 || strcmp(b->client, a->client) != 0) continue;
        b->superseded = true;
        metrics_count(&a->s->metrics, METRICS_STALE, 1);
        answer_cancel(b, "superseded");
    }
}

static int take_order(answer *a, server *s, const answer_order *order, protocol_error *e)
{
    static const char *const prefixes[] = {
        [PROTOCOL_RESPONSES] = "resp_",   [PROTOCOL_CHAT] = "chatcmpl-",
        [PROTOCOL_COMPLETIONS] = "cmpl-", [PROTOCOL_INFILL] = "infill-",
        [PROTOCOL_COMPACT] = "resp_",     [PROTOCOL_MESSAGES] = "msg_",
        [PROTOCOL_OLLAMA_CHAT] = "chat-", [PROTOCOL_OLLAMA_GENERATE] = "generate-",
        [PROTOCOL_COMPLETION] = "cmpl-",  [PROTOCOL_EMBEDDINGS] = "embd-",
        [PROTOCOL_OLLAMA_EMBED] = "embd-", [PROTOCOL_EDITS] = "edit-",
    };
    const connection *c = order->sink.c;
    a->s = s;
    a->sink = order->sink;
    a->source = &source_engine;
    a->n_bytes = order->n_bytes;
    a->tenant = c->tenant;
    a->serial = c->serial;
    a->warm_up = a->request->warm_up;
    a->started_ns = a->quiet_since_ns = order->started_ns;
    a->created_at = (int64_t)time(NULL);
    if (order->id)
        snprintf(a->id, sizeof a->id, "%s", order->id);
    else
        make_tagged_id(a->id, prefixes[a->request->api], s->replica.tag);
    if (order->id) a->sink.name = a->id;
    if (!order->document) return CERIUM_OK;
    a->document = memory_copy(order->document, strlen(order->document));
    if (!a->document) return protocol_error_memory(e);
    snprintf(a->client, sizeof a->client, "%s", order->client);
    return CERIUM_OK;
}

static int check_biases(const served_model *m, const protocol_request *r, protocol_error *e)
{
    const cerium_sampling *s = &r->sampling;
    for (uint32_t i = 0; i < s->n_biases; i++)
        if ((uint32_t)s->biases[i].token >= m->info.n_vocab)
            return protocol_error_set(e, 400, "invalid_request_error", "invalid_value",
                                      "logit_bias", "Invalid token: %d is not in the vocabulary.",
                                      s->biases[i].token);
    return CERIUM_OK;
}

/* Its model, or the model whose vocabulary counts the tokens of another server. */
static int take_model(answer *a, protocol_error *e)
{
    const protocol_request *r = a->request;
    served_model *m = models_choose(a->s, r->model, models_use_of(r->api, r->fill_in));
    a->model = m ? m : models_at(a->s, 0);
    if (!a->source->is_local) return CERIUM_OK;
    if (!m) return models_unknown(a->s, r->model, e);
    RETURN_IF(model_check(m, e));
    return check_biases(m, r, e);
}

static void link_answer(answer *a)
{
    server *s = a->s;
    a->next = s->answers;
    if (a->next) a->next->previous = a;
    s->answers = a;
    s->n_coming += a->n_choices;
    sink_occupy(&a->sink, a);
}

/* It failed to begin: as if it had never existed. */
static void unlink_answer(answer *a)
{
    server *s = a->s;
    *(a->previous ? &a->previous->next : &s->answers) = a->next;
    if (a->next) a->next->previous = a->previous;
    for (uint32_t i = 0; i < a->n_choices; i++)
        if (a->choices[i].state == CHOICE_COMING) s->n_coming--;
    sink_occupy(&a->sink, NULL);
}

static void take_place_in_line(answer *a)
{
    for (uint32_t i = 0; i < a->n_choices; i++) {
        if (a->choices[i].state != CHOICE_COMING || candidates_wait(&a->choices[i])) continue;
        a->choices[i].state = CHOICE_WAITING;
        a->s->n_coming--;
        answer_count_waiting(a, 1);
    }
}

static void tell_limits(const answer *a)
{
    rates_report report;
    if (tenant_quota_report(a, &report))
        sink_limits(&a->sink, &report, a->quota.refused ? NULL : a->source->name(a));
}

/* A background answer sends only its beginning. */
static void leave_background(answer *a)
{
    connection *c = a->sink.c;
    bytes body = {.max = PROTOCOL_ANSWER_BYTES_MAX};
    protocol_error e;
    if (!c || a->sink.type != &http_background_sink || answer_is_over(a)) return;
    a->sink.c = NULL;
    if (protocol_writer_body(a->writer, &body)) {
        (void)protocol_error_memory(&e);
        http_error(c, &e);
        answer_cancel(a, "out_of_memory");
    } else {
        http_answer(c, &(http_head){.status = 200}, (view){body.ptr, body.len});
    }
    bytes_free(&body);
}

/* Its preparation is complete. */
static void start(answer *a)
{
    bool was_begun = a->begun;
    if (a->document) supersede(a);
    tell_limits(a); /* before it counts as waiting */
    take_place_in_line(a);
    a->source->start(a);
    if (was_begun) answer_end_warm_up(a); /* a keepalive came first */
    answers_start(a->s);
    leave_background(a);
    connection_flush(a->sink.c);
}

static void on_prepared(answer *a)
{
    if (!answer_is_wanted(a))
        answer_abandon(a);
    else if (a->canceled)
        answer_cancel(a, a->canceled);
    else
        start(a);
}

/* Its stream has begun because preparing took long.  Nothing was computed. */
static void fail_begun(answer *a, const protocol_error *e)
{
    answer_fail(a, e);
    for (uint32_t i = 0; i < a->n_choices; i++) {
        a->choices[i].n_prompt = 0;
        choice_end(&a->choices[i], PROTOCOL_END_FAILED);
    }
}

static void on_unprepared(answer *a, const protocol_error *e)
{
    const char *previous = a->request->previous_response_id;
    if (a->quota.refused) tell_limits(a);
    if (a->sink.lane) {
        /* If a continuation fails, its turn is not kept for another try. */
        if (previous) history_evict(a->s->history, a->tenant, a->serial, previous);
        metrics_request(&a->s->metrics, METRICS_RESPONSES_SOCKET, e->http_status);
    }
    for (uint32_t i = 0; i < a->n_choices; i++) choice_closed(&a->choices[i]);
    if (a->begun)
        fail_begun(a, e);
    else
        answer_refuse(a, e);
}

/* A stored stream can be resumed; a background one must be. */
static int record(answer *a, protocol_error *e)
{
    const protocol_request *r = a->request;
    if (!answer_is_stored(r) || !a->sink.type->streams) return CERIUM_OK;
    a->recording = recording_open(a->s, a->tenant, a->id);
    return a->recording || !r->background ? CERIUM_OK : protocol_error_memory(e);
}

static const preparation_events prepared = {.prepared = on_prepared,
                                            .unprepared = on_unprepared,
                                            .made = source_upstream_route_long};

int answer_open(server *s, const answer_order *order, protocol_error *e)
{
    answer *a = memory_zalloc(1, sizeof *a);
    protocol_request *request = order->request;
    if (!a) {
        protocol_request_free(&request);
        return protocol_error_memory(e);
    }
    a->request = request;
    int status = take_order(a, s, order, e);
    if (!status) status = source_upstream_route(a, e);
    if (!status) status = take_model(a, e);
    if (!status) status = tenant_quota_enter(a, e);
    if (!status) status = answer_watchdog_policy(a, order->guard, e);
    if (!status) status = make_choices(a, e);
    if (!status) status = record(a, e);
    if (!status) status = api_writer_open(a, e);
    if (!status) {
        link_answer(a);
        status = prepare_begin(a, &prepared, e);
        if (status) unlink_answer(a);
    }
    if (status) {
        if (a->quota.refused) tell_limits(a);
        answer_free(a);
        return status;
    }
    if (!a->prepare) start(a);
    return CERIUM_OK;
}
