/* ending.c - how answers end: choices, what the client is told last, what is remembered.
 *
 * The last events have the whole answer in them, and what is stored must be stored before they are
 * told.  So a thread makes both, unless that is little and nothing is stored: see answer_ending. */
#include "server/ending.h"

#include <math.h>
#include <time.h>

#include "server/admission.h"
#include "server/connection.h"
#include "server/forward.h"
#include "server/gate.h"
#include "server/guarded.h"
#include "server/prepare.h"
#include "server/stored.h"

static void drop_prompts(answer *a)
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
}

static void free_request(void *request)
{
    protocol_request *r = request;
    protocol_request_free(&r);
}

void request_bury(server *s, protocol_request **request, size_t n_bytes)
{
    if (n_bytes > SERVER_INLINE_BYTES_MAX)
        workers_bury(s->workers, free_request, *request);
    else
        protocol_request_free(request);
    *request = NULL;
}

void answer_free(answer *a)
{
    CHECK(!a->ending.is_away);
    gate_leave(a);
    prepare_free(a);
    forward_free(a);
    drop_prompts(a);
    memory_free(a->script);
    memory_free(a->prediction);
    memory_free(a->document);
    shape_free(&a->kept_to);
    bytes_free(&a->ending.held);
    bytes_free(&a->ending.body);
    protocol_writer_free(&a->writer);
    request_bury(a->s, &a->request, a->n_bytes);
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
    if (a->dead || !a->finished || a->prepare || a->n_closed < a->n_choices) return;
    a->dead = true;
    a->s->n_dead++;
    sink_occupy(&a->sink, NULL);
    a->sink.lane = NULL;
}

static void log_answer(const answer *a, const metrics_used *used, bool is_metered)
{
    log_event(a->failed ? LOG_ERROR : LOG_INFO, "answer",
              "id=%s requests=%d prompt=%llu cached=%llu tokens=%llu first_ms=%.3f ms=%.3f%s%s%s",
              a->id, is_metered, (unsigned long long)used->prompt,
              (unsigned long long)used->reused, (unsigned long long)used->said,
              (double)a->choices[0].usage.first_token_ns / 1e6,
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

static bool is_stored(const protocol_request *r)
{
    return r->api == PROTOCOL_RESPONSES && r->store && !r->compacts;
}

/* What the engine saw stays, so that the next request goes on from there.  False when the client
 * wanted it stored and it could not be.
 *   body: the whole answer, JSON */
static bool remember(answer *a, view body)
{
    const choice *ch = &a->choices[0];
    const protocol_request *r = a->request;
    size_t n_sampled = ch->sampled.len / sizeof(int32_t);
    size_t n_prompt = ch->prompt ? ch->n_prompt : 0, n = n_prompt + n_sampled;
    if ((r->api != PROTOCOL_RESPONSES && r->api != PROTOCOL_CHAT) || r->compacts) return true;
    if (a->forward) return forward_remember(a, body);
    int32_t *tokens = memory_alloc((n + 1) * sizeof *tokens);
    if (!tokens) return !is_stored(r);
    if (n_prompt) memcpy(tokens, ch->prompt, n_prompt * sizeof *tokens);
    if (n_sampled) memcpy(tokens + n_prompt, ch->sampled.ptr, ch->sampled.len);
    json_t *output = output_of(a);
    history_turn turn = {.tenant = a->tenant,
                         .connection = r->store ? 0 : a->serial,
                         .chain = chain_after(a, output),
                         .instructions = a->instructions,
                         .n_head = a->n_head,
                         .tokens = tokens,
                         .n_tokens = n,
                         .sampled_from = n_prompt,
                         .output = output};
    memcpy(turn.id, a->id, sizeof turn.id);
    bool kept = !is_stored(r) || stored_keep(a, body, tokens, n);
    if (n_prompt && history_add(a->s->history, &turn))
        log_event(LOG_WARNING, "history", "id=%s reason=\"out of memory\"", a->id);
    json_decref(output);
    memory_free(tokens);
    return kept;
}

/* Everything that it used.  A prompt counts once, however many texts go on from it, as its writer
 * counts; what we failed at is nobody's. */
static metrics_used used_by(const answer *a)
{
    metrics_used used = {0, 0, 0};
    for (uint32_t i = 0; i < a->n_choices && !a->failed; i++) {
        const cerium_usage *u = &a->choices[i].usage;
        used.said += u->new_tokens;
        if (i % a->request->n_choices) continue;
        used.prompt += u->prompt_tokens;
        used.reused += u->reused_tokens;
    }
    return used;
}

/* In the journal before its client hears of the end; the same numbers everywhere.  An answer that
 * used nothing (it never began, or we failed) is as if it had not been asked for. */
static void meter(answer *a)
{
    const metrics_used used = used_by(a);
    const bool is_metered = used.prompt || used.said;
    if (!a->forward) admission_ended(a->s, clock_ns() - a->started_ns);
    if (is_metered) {
        metrics_metered(&a->s->metrics, a->request->class_,
                        a->forward ? METRICS_UPSTREAM : METRICS_HERE, &used);
        gate_meter(a, &used, a->forward ? forward_model(a) : a->s->model.id);
    }
    gate_leave(a);
    log_answer(a, &used, is_metered);
}

/* ---- the last events ---- */

/* Name and data of an event, one behind the other, with their lengths. */
typedef struct {
    size_t name_len, len;
} held_event;

void answer_hold(answer *a, const char *name, const char *json, size_t len)
{
    bytes *b = &a->ending.held;
    held_event head = {name ? strlen(name) + 1 : 0, len};
    int status = bytes_append(b, &head, sizeof head);
    if (!status && name) status = bytes_append(b, name, head.name_len);
    if (!status) status = bytes_append(b, json, len);
    if (status) a->ending.status = status;
}

static void tell_held(answer *a)
{
    const bytes *b = &a->ending.held;
    for (size_t at = 0; at < b->len;) {
        held_event head;
        memcpy(&head, b->ptr + at, sizeof head);
        const char *name = b->ptr + at + sizeof head, *json = name + head.name_len;
        sink_event(&a->sink, head.name_len ? name : NULL, (view){json, head.len});
        at += sizeof head + head.name_len + head.len;
    }
}

/* What is told, and what is told as a whole.  On a thread or on the loop. */
static bool run_ending(job *j)
{
    answer_ending *end = (answer_ending *)j;
    choice *ch = end->last;
    answer *a = ch->a;
    int status = a->voice->end(ch, end->how, &end->usage,
                               end->how == PROTOCOL_END_FAILED ? &a->failure : NULL);
    bool whole = !end->wants_body || !protocol_writer_body(a->writer, &end->body);
    end->kept = whole && (!a->writer || remember(a, (view){end->body.ptr, end->body.len}));
    if (status) end->status = status;
    return false;
}

/* The last of it; where events stream, they have told what failed. */
static void tell_end(answer *a)
{
    protocol_error e;
    tell_held(a);
    if (a->sink.type->streams || (!a->failed && !a->superseded)) {
        sink_finish(&a->sink, (view){a->ending.body.ptr, a->ending.body.len});
    } else if (a->failed) {
        sink_fail(&a->sink, &a->failure);
    } else {
        (void)protocol_error_set(&e, 409, "invalid_request_error", "superseded", "",
                                 "a newer completion of the same document was asked for");
        sink_fail(&a->sink, &e);
    }
}

/* The end is written, and kept: let it out. */
static void finish(answer *a)
{
    connection *c = a->sink.c;
    protocol_error e;
    if (a->ending.status) {
        (void)protocol_error_memory(&e);
        answer_fail(a, &e);
    }
    if (!a->ending.kept) {
        metrics_count(&a->s->metrics, METRICS_STORE_FAILED, 1);
        (void)protocol_error_set(&e, 500, "server_error", NULL, "",
                                 "the response could not be stored");
        answer_fail(a, &e);
    }
    a->finished = true;
    meter(a);
    if (a->ending.kept)
        tell_end(a);
    else
        sink_fail(&a->sink, &a->failure);
    /* Same-lane continuations that fail take the id that they went on from with them. */
    if (a->failed && a->sink.lane && a->request->previous_response_id)
        history_evict(a->s->history, a->tenant, a->serial, a->request->previous_response_id);
    bytes_free(&a->ending.held);
    stored_end(a);
    a->sink.c = NULL;
    connection_uncork(c);
    settle(a);
}

static void on_ending(job *j)
{
    answer *a = ((answer_ending *)j)->last->a;
    a->ending.is_away = false;
    connection_cork(a->sink.c); /* they go out in one write */
    finish(a);
}

/* About how many bytes its end has: all of the text again, and of the request what is echoed. */
static size_t ending_bytes(const answer *a)
{
    const protocol_request *r = a->request;
    const size_t each = r->sampling.logprobs ? 64 * (1 + (size_t)r->top_logprobs) : 8;
    size_t n = a->n_bytes;
    for (uint32_t i = 0; i < a->n_choices; i++) n += a->choices[i].usage.new_tokens * each;
    return n;
}

/* All choices ended. */
static void begin_ending(answer *a)
{
    const size_t n_bytes = ending_bytes(a);
    answer_ending *end = &a->ending;
    end->wants_body = a->writer && ((a->sink.c && !a->sink.type->streams) || is_stored(a->request));
    end->body.max = PROTOCOL_ANSWER_BYTES_MAX;
    end->held.max = 2 * (size_t)PROTOCOL_ANSWER_BYTES_MAX;
    end->job = (job){.run = run_ending,
                     .done = on_ending,
                     .lane = n_bytes > SERVER_SMALL_BYTES_MAX ? WORKERS_LARGE : WORKERS_SMALL,
                     .client = client_of(a->tenant, a->serial)};
    if (is_stored(a->request)) end->job.lane = WORKERS_STORE;
    if (a->writer && (is_stored(a->request) || n_bytes > SERVER_INLINE_BYTES_MAX)) {
        end->is_away = true;
        workers_submit_always(a->s->workers, &end->job);
        return;
    }
    connection_cork(a->sink.c);
    run_ending(&end->job);
    finish(a);
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

/* Of the engine: all of a prompt, when its end was waited for, and what was said. */
static void count_own(choice *ch, protocol_end end)
{
    cerium_usage *u = &ch->usage;
    if (ch->session) cerium_session_usage(ch->session, u);
    guarded_usage(ch, u);
    guarded_close(ch);
    u->new_tokens = (uint32_t)(ch->sampled.len / sizeof(int32_t));
    u->prompt_tokens = (uint32_t)ch->n_prompt;
    metrics_ended(&ch->a->s->metrics, metrics_end_of(end), u);
    /* One that was canceled has as much of its prompt as was there by then. */
    const uint32_t n_there = u->reused_tokens + u->computed_tokens;
    if (end == PROTOCOL_END_CANCELED && !u->new_tokens && n_there < u->prompt_tokens)
        u->prompt_tokens = n_there;
}

static void count_used(choice *ch, protocol_end end)
{
    answer *a = ch->a;
    if (a->forward)
        forward_usage(a, &ch->usage);
    else
        count_own(ch, end);
    if (!a->failed) return;
    /* What we failed at costs nothing, and its client is told so. */
    ch->usage.prompt_tokens = ch->usage.reused_tokens = ch->usage.new_tokens = 0;
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
    protocol_usage usage = usage_of(&ch->usage);
    usage.logprob = ch->logprob;
    int status = tell_unsure(ch, end);
    if (a->n_ended == a->n_choices) {
        a->ending.last = ch;
        a->ending.how = end;
        a->ending.usage = usage;
        a->ending.status = status;
        begin_ending(a);
        return;
    }
    if (!status)
        status = a->voice->end(ch, end, &usage, end == PROTOCOL_END_FAILED ? &a->failure : NULL);
    if (!status) return;
    protocol_error e;
    (void)protocol_error_memory(&e);
    answer_fail(a, &e);
}

void answer_count_waiting(const answer *a, int32_t n)
{
    a->s->n_waiting += (uint32_t)n;
    a->s->n_waiting_of[a->request->class_] += (uint32_t)n;
}

void answer_count_running(const answer *a, int32_t n)
{
    a->s->n_running += (uint32_t)n;
    a->s->n_running_of[a->request->class_] += (uint32_t)n;
}

void choice_closed(choice *ch)
{
    answer *a = ch->a;
    if (ch->state == CHOICE_CLOSED) return;
    if (ch->state == CHOICE_RUNNING && !ch->parked) answer_count_running(a, -1);
    if (ch->state == CHOICE_WAITING) answer_count_waiting(a, -1);
    if (ch->state == CHOICE_COMING) a->s->n_coming--;
    ch->state = CHOICE_CLOSED;
    cerium_session_close(&ch->session);
    a->n_closed++;
    settle(a);
}

void choice_stop(choice *ch, protocol_end end)
{
    if (ch->session) cerium_session_cancel(ch->session);
    choice_end(ch, end);
    if (ch->state == CHOICE_COMING || ch->state == CHOICE_WAITING) choice_closed(ch);
}

void answer_cancel(answer *a, const char *reason)
{
    if (answer_is_over(a)) return;
    bool was_ready = !a->prepare;
    a->canceled = reason;
    if (!prepare_stop(a)) return; /* a thread has it: it ends when that is done */
    if (!was_ready && !a->sink.c) {
        answer_abandon(a);
        return;
    }
    if (!a->begun) { /* an answer that ends has begun */
        answer_tell_begin(a);
        if (answer_is_over(a)) return;
    }
    metrics_count(&a->s->metrics, METRICS_CANCELED, 1);
    for (uint32_t i = 0; i < a->n_choices; i++) choice_stop(&a->choices[i], PROTOCOL_END_CANCELED);
}

void answer_abandon(answer *a)
{
    metrics_count(&a->s->metrics, METRICS_CANCELED, 1);
    log_event(LOG_INFO, "abandoned", "id=%s reason=%s", a->id,
              a->canceled ? a->canceled : "connection_closed");
    for (uint32_t i = 0; i < a->n_choices; i++) choice_closed(&a->choices[i]);
    a->finished = true;
    gate_leave(a);
    stored_end(a);
    settle(a);
}

void answer_end(answer *a, protocol_end end, const protocol_error *error)
{
    if (end == PROTOCOL_END_FAILED) answer_fail(a, error);
    choice_end(&a->choices[0], end);
}

void answer_refuse(answer *a, const protocol_error *e)
{
    connection *c = a->sink.c;
    a->finished = true;
    log_event(LOG_INFO, "refused", "id=%s status=%d code=%s", a->id, e->http_status,
              e->code ? e->code : "-");
    sink_refuse(&a->sink, e);
    a->sink.c = NULL;
    connection_flush(c);
    stored_end(a);
    gate_leave(a);
    settle(a);
}

void answers_leave(connection *c)
{
    for (answer *a = c->s->answers; a; a = a->next) {
        if (a->sink.c != c) continue;
        a->sink.c = NULL;
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
    while (a && a->sink.c != c) a = a->next;
    return a;
}
