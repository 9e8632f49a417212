/* ending.c - how answers end: choices, what the client is told last, what is remembered. */
#include "server/ending.h"

#include <math.h>
#include <time.h>

#include "server/admission.h"
#include "server/connection.h"
#include "server/forward.h"
#include "server/gate.h"
#include "server/guarded.h"
#include "server/http.h"
#include "server/socket.h"
#include "server/stored.h"

void answer_drop_prompts(answer *a)
{
    for (uint32_t i = 0; a->choices && i < a->n_choices; i++) {
        guarded_close(&a->choices[i]);
        bytes_free(&a->choices[i].sampled);
        hole_close(&a->choices[i].hole);
        bytes_free(&a->choices[i].unsure);
        cerium_session_close(&a->choices[i].session);
    }
    for (uint32_t i = 0; i < a->n_prompts; i++) memory_free(a->prompts[i]);
    memory_free(a->choices);
    memory_free(a->prompts);
    a->choices = NULL;
    a->prompts = NULL;
    a->n_choices = a->n_prompts = 0;
}

void answer_free(answer *a)
{
    gate_leave(a);
    forward_free(a);
    answer_drop_prompts(a);
    memory_free(a->script);
    memory_free(a->prediction);
    memory_free(a->document);
    shapes_drop(a->s->shapes, &a->order);
    shape_free(&a->kept_to);
    protocol_writer_free(&a->writer);
    protocol_request_free(&a->request);
    memory_free(a);
}

void answers_reap(server *s)
{
    if (!s->n_dead) return;
    s->n_dead = 0;
    for (answer *a = s->answers, *next; a; a = next) {
        next = a->next;
        if (!a->dead) continue;
        *(a->previous ? &a->previous->next : &s->answers) = a->next;
        if (a->next) a->next->previous = a->previous;
        answer_free(a);
    }
}

/* Told to the end, and no session open: the lane is free, and the answer can go. */
static void settle(answer *a)
{
    if (a->dead || !a->finished || a->n_closed < a->n_choices) return;
    lane *l = a->lane;
    a->dead = true;
    a->s->n_dead++;
    a->lane = NULL;
    if (l) lane_free(l);
}

static void log_answer(const answer *a, const cerium_usage *u)
{
    log_event(a->failed ? LOG_ERROR : LOG_INFO, "answer",
              "id=%s prompt=%u cached=%u tokens=%u first_ms=%.3f ms=%.3f%s%s%s", a->id,
              u->prompt_tokens, u->reused_tokens, u->new_tokens, (double)u->first_token_ns / 1e6,
              (double)(clock_ns() - a->started_ns) / 1e6, a->canceled ? " canceled=" : "",
              a->canceled ? a->canceled : "", a->failed ? " failed=1" : "");
    if (a->failed) {
        char text[256];
        log_event(LOG_ERROR, "failure", "id=%s reason=%s", a->id,
                  log_quote(text, sizeof text, a->failure.message));
    }
}

/* The conversation after this answer, as the client will send it back. */
static chain chain_after(const answer *a, json_t *output)
{
    chain none = {{0, 0}}, c = a->chain;
    if (chain_none(c) || !output) return none;
    if (!json_array_size(output)) return c;
    protocol_request *said = NULL;
    protocol_error e;
    json_t *body = json_pack("{s:O}", a->request->api == PROTOCOL_CHAT ? "messages" : "input",
                             output);
    char *text = body ? json_dumps(body, JSON_COMPACT) : NULL;
    json_decref(body);
    if (!text) return none;
    int status = protocol_request_parse(&said, a->request->api == PROTOCOL_CHAT
                                                   ? PROTOCOL_CHAT : PROTOCOL_RESPONSES,
                                        view_of(text), &a->s->defaults, &e);
    memory_release(text);
    if (status) return none;
    for (size_t i = 0; i < said->n_messages; i++) c = chain_add(c, &said->messages[i]);
    protocol_request_free(&said);
    return c;
}

/* The output as a conversation has it: items, or for Chat the message of the first choice. */
static json_t *output_of(const answer *a)
{
    if (a->request->api == PROTOCOL_RESPONSES)
        return json_incref(protocol_writer_output(a->writer));
    json_t *object = protocol_writer_object(a->writer);
    json_t *first = json_array_get(json_object_get(object, "choices"), 0);
    json_t *message = json_object_get(first, "message");
    json_t *output = message ? json_pack("[O]", message) : NULL;
    json_decref(object);
    return output;
}

/* What the engine saw stays, so that the next request goes on from there.  False when the client
 * wanted it stored and it could not be.
 *   body: the whole answer, JSON */
static bool remember(answer *a, view body)
{
    const choice *ch = &a->choices[0];
    const protocol_request *r = a->request;
    size_t n_sampled = ch->sampled.len / sizeof(int32_t), n = ch->n_prompt + n_sampled;
    if ((r->api != PROTOCOL_RESPONSES && r->api != PROTOCOL_CHAT) || r->compacts) return true;
    if (a->forward) return forward_remember(a, body);
    bool keep = r->api == PROTOCOL_RESPONSES && r->store;
    int32_t *tokens = memory_alloc((n + 1) * sizeof *tokens);
    if (!tokens) return !keep;
    memcpy(tokens, ch->prompt, ch->n_prompt * sizeof *tokens);
    if (n_sampled) memcpy(tokens + ch->n_prompt, ch->sampled.ptr, ch->sampled.len);
    json_t *output = output_of(a);
    history_turn turn = {.tenant = a->tenant,
                         .connection = r->store ? 0 : a->serial,
                         .chain = chain_after(a, output),
                         .instructions = a->instructions,
                         .n_head = a->n_head,
                         .tokens = tokens,
                         .n_tokens = n,
                         .sampled_from = ch->n_prompt,
                         .output = output};
    memcpy(turn.id, a->id, sizeof turn.id);
    bool kept = !keep || stored_keep(a, body, tokens, n);
    if (history_add(a->s->history, &turn))
        log_event(LOG_WARNING, "history", "id=%s reason=\"out of memory\"", a->id);
    json_decref(output);
    memory_free(tokens);
    return kept;
}

static void tell_failure(answer *a, const protocol_error *e)
{
    if (a->c->socket) {
        socket_error(a->c, e, a->request->stream_id);
    } else if (a->streams) {
        bytes body = {.max = 16384};
        if (!protocol_error_event(&body, e, NULL))
            connection_event(a->c, "error", body.ptr, body.len);
        bytes_free(&body);
        http_stream_end(a->c);
    } else {
        http_error(a->c, e);
    }
}

/* Everything that it used, in the journal before its client hears of the end.  A prompt counts
 * once, however many texts go on from it. */
static void meter(answer *a)
{
    protocol_usage total = {.input_tokens = 0};
    for (uint32_t i = 0; i < a->n_choices; i++) {
        const choice *ch = &a->choices[i];
        total.output_tokens += ch->usage.new_tokens;
        if (i % a->request->n_choices) continue;
        total.input_tokens += ch->usage.prompt_tokens;
        total.cached_tokens += ch->usage.reused_tokens;
    }
    if (!a->forward) admission_ended(a->s, clock_ns() - a->started_ns);
    gate_meter(a, &total, a->forward ? forward_model(a) : a->s->model.id);
}

/* All choices ended, and the closing events wait behind the cork: keep, then let them out. */
static void finish(answer *a)
{
    connection *c = a->c;
    bytes body = {.max = PROTOCOL_ANSWER_BYTES_MAX};
    bool wanted = a->writer && ((c && !a->streams) || a->request->store);
    bool whole = !wanted || !protocol_writer_body(a->writer, &body);
    bool kept = whole && (!a->writer || remember(a, (view){body.ptr, body.len}));
    cerium_usage total = a->choices[0].usage;
    for (uint32_t i = 1; i < a->n_choices; i++)
        total.new_tokens += a->choices[i].usage.new_tokens;
    a->finished = true;
    meter(a);
    log_answer(a, &total);
    if (c && !kept) {
        protocol_error e;
        (void)protocol_error_set(&e, 500, "server_error", NULL, "",
                                 "the response could not be stored");
        connection_drop_corked(c);
        tell_failure(a, &e);
    } else if (c && !a->streams && a->failed) {
        http_error(c, &a->failure);
    } else if (c && !a->streams && a->superseded) {
        protocol_error e;
        (void)protocol_error_set(&e, 409, "invalid_request_error", "superseded", "",
                                 "a newer completion of the same document was asked for");
        http_error(c, &e);
    } else if (c && !a->streams) {
        http_answer(c, &(http_head){.status = 200}, (view){body.ptr, body.len});
    } else if (c && !c->socket) {
        http_stream_end(c);
    }
    bytes_free(&body);
    /* Same-lane continuations that fail take the id that they went on from with them. */
    if (a->failed && a->lane && a->request->previous_response_id)
        history_evict(a->s->history, a->tenant, a->serial, a->request->previous_response_id);
    a->c = NULL;
    if (c) connection_uncork(c);
    settle(a);
}

void answer_fail(answer *a, const protocol_error *e)
{
    if (!a->failed) a->failure = *e;
    a->failed = true;
}

static protocol_usage usage_of(const cerium_usage *u)
{
    return (protocol_usage){.input_tokens = u->prompt_tokens,
                            .cached_tokens = u->reused_tokens,
                            .output_tokens = u->new_tokens,
                            .accepted_tokens = u->accepted_predicted,
                            .rejected_tokens = u->drafted_predicted - u->accepted_predicted,
                            .prompt_ns = u->prompt_ns,
                            .predict_ns = u->first_token_ns && u->duration_ns > u->first_token_ns
                                              ? u->duration_ns - u->first_token_ns : 0,
                            .queue_ns = u->queue_ns};
}

static metrics_end metrics_end_of(protocol_end end)
{
    switch (end) {
    case PROTOCOL_END_STOP: return METRICS_END_STOP;
    case PROTOCOL_END_LENGTH: return METRICS_END_LENGTH;
    case PROTOCOL_END_CONTEXT: return METRICS_END_LENGTH;
    case PROTOCOL_END_CANCELED: return METRICS_END_ABORT;
    case PROTOCOL_END_FAILED: return METRICS_END_ERROR;
    case PROTOCOL_END_GUARDED: return METRICS_END_STOP;
    }
    return METRICS_END_ERROR;
}

static void count_used(choice *ch, protocol_end end)
{
    answer *a = ch->a;
    if (a->forward) {
        forward_usage(a, &ch->usage);
        return;
    }
    if (ch->session) cerium_session_usage(ch->session, &ch->usage);
    guarded_usage(ch, &ch->usage);
    guarded_close(ch);
    ch->usage.prompt_tokens = (uint32_t)ch->n_prompt;
    ch->usage.new_tokens = (uint32_t)(ch->sampled.len / sizeof(int32_t));
    metrics_answer(&a->s->metrics, a->request->class_, metrics_end_of(end), &ch->usage);
}

int choice_tell(choice *ch, view text, const watch_token *tokens, uint32_t n)
{
    if (ch->a->request->confidence_min > 0) return bytes_append(&ch->unsure, text.ptr, text.len);
    return ch->a->voice->text(ch, text, tokens, n);
}

/* Text that waited for the probability of the whole: told now, or not at all. */
static int tell_unsure(choice *ch, protocol_end end)
{
    answer *a = ch->a;
    view text = {ch->unsure.ptr, ch->unsure.len};
    if (!text.len || end == PROTOCOL_END_CANCELED || end == PROTOCOL_END_FAILED) return CERIUM_OK;
    ch->held_back = exp(ch->logprob) < a->request->confidence_min;
    if (!ch->held_back) return a->voice->text(ch, text, NULL, 1);
    metrics_count(&a->s->metrics, METRICS_UNSURE, 1);
    return CERIUM_OK;
}

void choice_end(choice *ch, protocol_end end)
{
    answer *a = ch->a;
    if (ch->ended) return;
    ch->ended = true;
    a->n_ended++;
    count_used(ch, end);
    if (a->finished) return;
    bool last = a->n_ended == a->n_choices;
    if (last && a->c) connection_cork(a->c);
    protocol_usage usage = usage_of(&ch->usage);
    usage.logprob = ch->logprob;
    if (tell_unsure(ch, end) ||
        a->voice->end(ch, end, &usage, end == PROTOCOL_END_FAILED ? &a->failure : NULL)) {
        protocol_error e;
        (void)answer_no_memory(&e);
        answer_fail(a, &e);
    }
    if (last) finish(a);
}

void answer_count_waiting(const answer *a, int32_t n)
{
    a->s->n_waiting += (uint32_t)n;
    a->s->n_waiting_of[a->request->class_] += (uint32_t)n;
}

void choice_closed(choice *ch)
{
    answer *a = ch->a;
    if (ch->state == CHOICE_CLOSED) return;
    if (ch->state == CHOICE_RUNNING) a->s->n_running--;
    if (ch->state == CHOICE_WAITING) answer_count_waiting(a, -1);
    ch->state = CHOICE_CLOSED;
    cerium_session_close(&ch->session);
    a->n_closed++;
    settle(a);
}

void choice_stop(choice *ch, protocol_end end)
{
    if (ch->session) cerium_session_cancel(ch->session);
    choice_end(ch, end);
    if (ch->state == CHOICE_WAITING) choice_closed(ch);
}

void answer_cancel(answer *a, const char *reason)
{
    if (a->finished) return;
    a->canceled = reason;
    if (a->order) { /* an answer that ends has begun */
        shapes_drop(a->s->shapes, &a->order);
        answer_tell_begin(a);
        if (a->finished) return;
    }
    metrics_count(&a->s->metrics, METRICS_CANCELED, 1);
    for (uint32_t i = 0; i < a->n_choices; i++) choice_stop(&a->choices[i], PROTOCOL_END_CANCELED);
}

void answer_end(answer *a, protocol_end end, const protocol_error *error)
{
    if (end == PROTOCOL_END_FAILED) answer_fail(a, error);
    choice_end(&a->choices[0], end);
}

void answer_refuse(answer *a, const protocol_error *e)
{
    connection *c = a->c;
    a->finished = true;
    a->c = NULL;
    log_event(LOG_INFO, "refused", "id=%s status=%d code=%s", a->id, e->http_status,
              e->code ? e->code : "-");
    if (c && c->socket)
        socket_error(c, e, a->request->stream_id);
    else if (c)
        http_error(c, e);
    if (c) connection_flush(c);
    gate_leave(a);
    settle(a);
}

void answers_leave(connection *c)
{
    for (answer *a = c->s->answers; a; a = a->next) {
        if (a->lane && a->lane_of == c) a->lane = NULL;
        if (a->c != c) continue;
        a->c = NULL;
        answer_cancel(a, "connection_closed");
    }
}

answer *answers_find(server *s, uint64_t tenant, const char *id)
{
    answer *a = s->answers;
    while (a && (a->finished || a->tenant != tenant || strcmp(a->id, id) != 0)) a = a->next;
    return a;
}

answer *answers_of(const connection *c)
{
    answer *a = c->s->answers;
    while (a && a->c != c) a = a->next;
    return a;
}
