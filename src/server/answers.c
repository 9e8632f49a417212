/* answers.c - admission, engine sessions, and the way of an answer from its begin to its end. */
#include "server/answers.h"

#include <time.h>

#include "server/admission.h"
#include "server/connection.h"
#include "server/forward.h"
#include "server/gate.h"
#include "server/guarded.h"
#include "server/http.h"
#include "server/indent.h"
#include "server/prompts.h"
#include "server/socket.h"
#include "server/stored.h"
#include "server/voice.h"

enum { SUMMARY_TOKENS_MAX = 1024 };

static int no_memory(protocol_error *e)
{
    return protocol_error_set(e, 500, "server_error", NULL, "", "out of memory");
}

/* ---- the end ---- */

void answer_drop_prompts(answer *a)
{
    for (uint32_t i = 0; a->choices && i < a->n_choices; i++) {
        guarded_close(&a->choices[i]);
        bytes_free(&a->choices[i].sampled);
        bytes_free(&a->choices[i].held);
        cerium_session_close(&a->choices[i].session);
    }
    for (uint32_t i = 0; i < a->n_prompts; i++) memory_free(a->prompts[i]);
    memory_free(a->choices);
    memory_free(a->prompts);
    a->choices = NULL;
    a->prompts = NULL;
    a->n_choices = a->n_prompts = 0;
}

static void release(answer *a)
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
        release(a);
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

static void fail(answer *a, const protocol_error *e)
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

/* The client is told that a choice ended; its session may go on for another layer. */
static void choice_end(choice *ch, protocol_end end)
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
    if (a->voice->end(ch, end, &usage, end == PROTOCOL_END_FAILED ? &a->failure : NULL)) {
        protocol_error e;
        (void)no_memory(&e);
        fail(a, &e);
    }
    if (last) finish(a);
}

/* More choices of the answer wait, or fewer. */
static void count_waiting(const answer *a, int32_t n)
{
    a->s->n_waiting += (uint32_t)n;
    a->s->n_waiting_of[a->request->class_] += (uint32_t)n;
}

static void choice_closed(choice *ch)
{
    answer *a = ch->a;
    if (ch->state == CHOICE_CLOSED) return;
    if (ch->state == CHOICE_RUNNING) a->s->n_running--;
    if (ch->state == CHOICE_WAITING) count_waiting(a, -1);
    ch->state = CHOICE_CLOSED;
    cerium_session_close(&ch->session);
    a->n_closed++;
    settle(a);
}

/* We end a choice, not the model. */
static void choice_stop(choice *ch, protocol_end end)
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
    if (end == PROTOCOL_END_FAILED) fail(a, error);
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

/* ---- what is asked of the engine ---- */

static void notify(void *user)
{
    server *s = user;
    /* Wakes the loop once, however many events gather until it looks. */
    if (!atomic_exchange(&s->woken, true)) lws_cancel_service(s->lws);
}

/* Only what is our own idea has a cap of ours: a summary is short. */
static uint32_t new_tokens_max(const answer *a)
{
    uint32_t most = a->warm_up ? 0 : a->request->new_tokens_max;
    return a->request->compacts && most > SUMMARY_TOKENS_MAX ? SUMMARY_TOKENS_MAX : most;
}

/* What is asked of the engine for a choice. */
static cerium_request request_for(choice *ch, cerium_sampling *sampling, cerium_guide *guide)
{
    answer *a = ch->a;
    const protocol_request *r = a->request;
    *sampling = r->sampling;
    sampling->seed += ch->index;
    sampling->logprobs = answer_wants_logprobs(r);
    return (cerium_request){.tokens = ch->prompt,
                            .n_tokens = ch->n_prompt,
                            .new_tokens_max = new_tokens_max(a),
                            .sampling = sampling,
                            .class_ = r->class_,
                            .top_logprobs = r->sampling.logprobs ? r->top_logprobs : 0,
                            .script = a->script,
                            .n_script = a->n_script,
                            .prediction = a->prediction,
                            .n_prediction = a->n_prediction,
                            .guide = shape_guide(&a->kept_to, guide) ? guide : NULL,
                            .notify = notify,
                            .user = a->s};
}

/* ---- the engine's events ---- */

/* What may be shown of a text; true when the completion ends before it. */
static bool shown(choice *ch, view text, int *status)
{
    answer *a = ch->a;
    bytes *show = &a->s->show;
    uint32_t least = a->request->api == PROTOCOL_INFILL ? a->request->indent_min : 0;
    if (text.len && memchr(text.ptr, '\n', text.len)) ch->line_seen = true;
    return indent_feed(&ch->held, least, text, show, status);
}

/* t_max_predict_ms, as llama.cpp has it: once there is a whole line. */
static bool out_of_time(const choice *ch)
{
    uint32_t limit = ch->a->request->predict_ms_max;
    return limit && ch->line_seen && clock_ns() - ch->first_ns > limit * UINT64_C(1000000);
}

/* Without memory nothing more may be said. */
static void choice_fail(choice *ch)
{
    protocol_error e;
    (void)no_memory(&e);
    fail(ch->a, &e);
    choice_stop(ch, PROTOCOL_END_FAILED);
}

/* Text that may be told, and the tokens that it is of. */
static void choice_text(choice *ch, view said, const watch_token *tokens, uint32_t n)
{
    answer *a = ch->a;
    int status;
    const watch_token *told = a->request->sampling.logprobs ? tokens : NULL;
    for (uint32_t i = 0; tokens && i < n; i++) ch->logprob += (double)tokens[i].logprob;
    bool leaves = shown(ch, said, &status);
    view text = {a->s->show.ptr, a->s->show.len};
    if (!status && (text.len || told)) status = a->voice->text(ch, text, told, n);
    if (status)
        choice_fail(ch);
    else if (leaves || (a->writer && protocol_writer_enough(a->writer, ch->index)))
        choice_stop(ch, PROTOCOL_END_STOP);
    else if (out_of_time(ch))
        choice_stop(ch, PROTOCOL_END_LENGTH);
}

static void choice_step(choice *ch, const cerium_event *event)
{
    const cerium_step *step = &event->step;
    watch_result out;
    if (!ch->first_ns) ch->first_ns = clock_ns();
    if (ch->ended || guarded_turns(ch)) return;
    if (!ch->guarded) {
        watch_token token = {.token = step->tokens[0], .logprob = step->logprobs[0],
                             .n_top = event->n_top, .top = event->top};
        if (bytes_append(&ch->sampled, step->tokens, step->n_tokens * sizeof(int32_t)))
            choice_fail(ch);
        else
            choice_text(ch, (view){step->text, step->text_len}, &token, 1);
    } else if (guarded_step(ch, event, &out)) {
        choice_fail(ch);
    } else {
        if (out.text.len || out.tokens) choice_text(ch, out.text, out.tokens, out.n_tokens);
        if (out.order == WATCH_END && !ch->ended) choice_stop(ch, PROTOCOL_END_GUARDED);
    }
}

static protocol_end end_of(const cerium_event *event)
{
    if (event->status == CERIUM_ERR_CANCELED) return PROTOCOL_END_CANCELED;
    if (event->status) return PROTOCOL_END_FAILED;
    switch (event->stop) {
    case CERIUM_STOP_NONE: return PROTOCOL_END_LENGTH;
    case CERIUM_STOP_END: return PROTOCOL_END_STOP;
    case CERIUM_STOP_TEXT: return PROTOCOL_END_STOP;
    case CERIUM_STOP_LIMIT: return PROTOCOL_END_CONTEXT;
    case CERIUM_STOP_STUCK: return PROTOCOL_END_CONTEXT;
    }
    return PROTOCOL_END_FAILED;
}

/* The engine stopped because a line was taken back, or at its own end, and the watch has the last
 * word.  True when it runs again. */
static bool choice_goes_on(choice *ch, protocol_end *end)
{
    watch_result out = {.order = WATCH_AGAIN};
    while (ch->guarded && !ch->ended) {
        int status = CERIUM_OK;
        if (!guarded_turns(ch)) {
            if (*end == PROTOCOL_END_CANCELED || *end == PROTOCOL_END_FAILED) return false;
            if (guarded_finish(ch, &out)) status = CERIUM_ERR_MEMORY;
            else if (out.text.len || out.tokens)
                choice_text(ch, out.text, out.tokens, out.n_tokens);
            if (out.order == WATCH_END) *end = PROTOCOL_END_GUARDED;
            if (!status && out.order != WATCH_AGAIN) return false;
        } else {
            cerium_sampling sampling;
            cerium_guide guide;
            cerium_error err;
            cerium_request request = request_for(ch, &sampling, &guide);
            if (guarded_again(ch, &request, &status))
                status = cerium_session_start(ch->session, &request, &err);
            else if (!status) {
                *end = request.n_script ? PROTOCOL_END_STOP : PROTOCOL_END_LENGTH;
                continue;
            }
            if (!status) return true;
        }
        if (status) choice_fail(ch);
    }
    return false;
}

static void choice_done(choice *ch, const cerium_event *event)
{
    answer *a = ch->a;
    protocol_end end = end_of(event);
    if (choice_goes_on(ch, &end)) return;
    if (end == PROTOCOL_END_FAILED && !ch->ended) {
        protocol_error e;
        (void)protocol_error_set(&e, 500, "server_error", NULL, "", "the engine failed: %s",
                                 cerium_status_text(event->status));
        fail(a, &e);
        metrics_count(&a->s->metrics, METRICS_FAILED, 1);
    }
    if (ch->held.len && !ch->ended && end != PROTOCOL_END_FAILED)
        (void)a->voice->text(ch, (view){ch->held.ptr, ch->held.len}, NULL, 1);
    choice_end(ch, end);
    choice_closed(ch);
}

/* False when there was nothing. */
static bool choice_poll(choice *ch)
{
    cerium_event event;
    for (bool any = false;; any = true) {
        if (ch->state != CHOICE_RUNNING) return any;
        bool parked = ch->a->c && connection_parked(ch->a->c);
        if (parked && !ch->parked) metrics_count(&ch->a->s->metrics, METRICS_PARKED, 1);
        ch->parked = parked;
        if (parked) return any; /* polled again when it is not */
        cerium_session_poll(ch->session, &event);
        if (event.kind == CERIUM_EVENT_NONE) return any;
        if (event.kind == CERIUM_EVENT_DONE)
            choice_done(ch, &event);
        else
            choice_step(ch, &event);
    }
}

/* What it must be was compiled: now it begins, or is refused.  False when it was not yet. */
static bool shape_poll(answer *a)
{
    protocol_error e;
    int status = shapes_take(a->s->shapes, &a->order, &a->kept_to, &e);
    if (a->order) return false;
    if (!status) {
        answer_tell_begin(a);
        return true;
    }
    for (uint32_t i = 0; i < a->n_choices; i++) choice_closed(&a->choices[i]);
    answer_refuse(a, &e);
    return true;
}

static bool answer_poll(answer *a)
{
    connection *c = a->c;
    for (bool any = a->order && shape_poll(a);;) {
        for (uint32_t i = 0; i < a->n_choices; i++) any |= choice_poll(&a->choices[i]);
        if (a->forward) any |= forward_poll(a);
        if (!c) return any;
        bool parked = connection_parked(c);
        connection_flush(c);
        /* The socket took it all at once: nobody will tell us so, and there may be more. */
        if (!parked || connection_parked(c) || c->gone) return any;
    }
}

bool answers_poll(server *s)
{
    bool any = false;
    for (answer *a = s->answers, *next; a; a = next) {
        next = a->next; /* answers are freed in answers_reap() only */
        any |= answer_poll(a);
    }
    answers_start(s);
    return any;
}

/* ---- the beginning ---- */

/* CERIUM_ERR_CAPACITY: no session is free. */
static int choice_start(choice *ch)
{
    answer *a = ch->a;
    const protocol_request *r = a->request;
    cerium_error err;
    bool talks = r->api != PROTOCOL_COMPLETIONS && r->api != PROTOCOL_INFILL;
    cerium_session_config config = {.tenant = a->tenant, .control_text = talks};
    int status = cerium_session_open(&ch->session, a->s->config.engine, &config, &err);
    if (status == CERIUM_ERR_CAPACITY) return status;
    cerium_sampling sampling;
    cerium_guide guide;
    cerium_request request = request_for(ch, &sampling, &guide);
    if (!status) status = guarded_open(ch);
    if (status) (void)error_set(&err, status, "out of memory");
    if (!status) status = cerium_session_start(ch->session, &request, &err);
    count_waiting(a, -1);
    a->s->n_running++;
    ch->state = CHOICE_RUNNING;
    if (!status) return CERIUM_OK;
    protocol_error e;
    (void)protocol_error_set(&e, 500, "server_error", NULL, "", "%s", err.message);
    fail(a, &e);
    metrics_count(&a->s->metrics, METRICS_FAILED, 1);
    choice_end(ch, PROTOCOL_END_FAILED);
    choice_closed(ch);
    return CERIUM_OK;
}

/* The oldest waiting choice of the highest class; answers are listed newest first. */
static choice *next_waiting(server *s)
{
    choice *best = NULL;
    for (answer *a = s->answers; a; a = a->next) {
        if (a->n_closed == a->n_choices) continue;
        for (uint32_t i = a->n_choices; i-- > 0 && !a->order;)
            if (a->choices[i].state == CHOICE_WAITING &&
                (!best || a->request->class_ <= best->a->request->class_))
                best = &a->choices[i];
    }
    return best;
}

void answers_start(server *s)
{
    while (s->n_waiting && s->n_running < s->config.running_max) {
        choice *ch = next_waiting(s);
        if (!ch || choice_start(ch) == CERIUM_ERR_CAPACITY) return;
    }
}

/* Where its text comes from a script, or is predicted. */
static int take_drafts(answer *a, protocol_error *e)
{
    view output;
    const protocol_request *r = a->request;
    if (a->s->replay && !a->warm_up && replay_take(a->s->replay, r, &output, &a->corrected)) {
        a->replayed = true;
        metrics_count(&a->s->metrics, METRICS_REPLAYED, 1);
        RETURN_IF(prompts_tokenize(a->s, output, CERIUM_TOKENIZE_SPECIAL, &a->script, &a->n_script,
                                   e));
        /* A script may say more than the context holds: then that is its end. */
        if (a->n_script > a->s->info.context_tokens_max)
            a->n_script = a->s->info.context_tokens_max;
    }
    if (r->prediction)
        return prompts_tokenize(a->s, (view){r->prediction, r->prediction_len}, 0, &a->prediction,
                               &a->n_prediction, e);
    return CERIUM_OK;
}

static int take_prompt(answer *a, uint32_t i, const prompt *p, protocol_error *e)
{
    a->prompts[i] = memory_copy(p->tokens, p->n * sizeof *p->tokens);
    if (!a->prompts[i]) return no_memory(e);
    for (uint32_t k = 0; k < a->request->n_choices; k++) {
        choice *ch = &a->choices[i * a->request->n_choices + k];
        *ch = (choice){.a = a,
                       .index = i * a->request->n_choices + k,
                       .prompt = a->prompts[i],
                       .n_prompt = p->n,
                       .sampled = {.max = SIZE_MAX / 2},
                       .held = {.max = 65536}};
    }
    return CERIUM_OK;
}

static int make_prompts(answer *a, const connection *c, protocol_error *e)
{
    const protocol_request *r = a->request;
    bool talks = r->api != PROTOCOL_COMPLETIONS && r->api != PROTOCOL_INFILL;
    const history_turn *previous = NULL;
    prompt p;
    uint32_t n = talks || !r->n_prompts ? 1 : (uint32_t)r->n_prompts;
    a->n_choices = n * r->n_choices;
    a->prompts = memory_zalloc(n, sizeof *a->prompts);
    a->choices = memory_zalloc(a->n_choices, sizeof *a->choices);
    if (!a->prompts || !a->choices) return no_memory(e);
    a->n_prompts = n;
    if (r->previous_response_id)
        RETURN_IF(stored_turn(a->s, a->tenant, c->serial, r->previous_response_id, &previous, e));
    if (talks) {
        RETURN_IF(prompts_chat(a->s, a->request, a->tenant, previous, &p, e));
        a->chain = p.chain;
        a->instructions = p.instructions;
        a->n_head = p.n_head;
        return take_prompt(a, 0, &p, e);
    }
    for (uint32_t i = 0; i < n; i++) {
        RETURN_IF(prompts_text(a->s, r, i, &p, e));
        RETURN_IF(take_prompt(a, i, &p, e));
    }
    return CERIUM_OK;
}

static uint64_t prompt_tokens(const answer *a)
{
    uint64_t n = 0;
    for (uint32_t i = 0; a->choices && i < a->n_choices; i += a->request->n_choices)
        n += a->choices[i].n_prompt;
    return n;
}

/* Older answers that complete the same document for the same client are of no use any more. */
static void supersede(answer *a)
{
    for (answer *b = a->s->answers; b; b = b->next) {
        if (b == a || b->finished || !b->document || b->tenant != a->tenant) continue;
        if (strcmp(b->document, a->document) != 0 || strcmp(b->client, a->client) != 0) continue;
        b->superseded = true;
        metrics_count(&a->s->metrics, METRICS_STALE, 1);
        answer_cancel(b, "superseded");
    }
}

static int take_order(answer *a, server *s, const answer_order *order, protocol_error *e)
{
    static const char *const prefixes[] = {"resp_", "chatcmpl-", "cmpl-", "infill-", "resp_"};
    connection *c = order->c;
    a->s = s;
    a->c = c;
    a->lane = order->lane;
    a->lane_of = order->lane ? c : NULL;
    a->voice = order->voice ? order->voice : &voice_writer;
    a->tenant = c->tenant;
    a->serial = c->serial;
    a->warm_up = a->request->warm_up;
    a->streams = c->socket || a->request->stream;
    a->started_ns = order->started_ns;
    a->created_at = (int64_t)time(NULL);
    if (order->id)
        snprintf(a->id, sizeof a->id, "%s", order->id);
    else
        make_id(a->id, prefixes[a->request->api]);
    if (!order->document) return CERIUM_OK;
    a->document = memory_copy(order->document, strlen(order->document));
    if (!a->document) return no_memory(e);
    /* A WebSocket is one client; over HTTP an address is, for clients open a connection a time. */
    if (c->socket)
        snprintf(a->client, sizeof a->client, "socket %llu", (unsigned long long)c->serial);
    else
        snprintf(a->client, sizeof a->client, "%s", c->peer);
    return CERIUM_OK;
}

static void link_answer(answer *a)
{
    server *s = a->s;
    a->next = s->answers;
    if (a->next) a->next->previous = a;
    s->answers = a;
    count_waiting(a, (int32_t)a->n_choices);
    if (a->lane) lane_take(a->lane, a);
}

/* A warm-up is over for the client at once; the engine computes it behind that. */
void answer_tell_begin(answer *a)
{
    if (a->c && !a->c->socket && a->streams) http_stream(a->c);
    if (a->voice->begin(a)) {
        protocol_error e;
        (void)no_memory(&e);
        fail(a, &e);
        answer_cancel(a, "out_of_memory");
        return;
    }
    /* Heard before the engine wakes its threads, and before the books are kept. */
    if (a->c) connection_flush(a->c);
    if (a->warm_up) {
        for (uint32_t i = 0; i < a->n_choices; i++) choice_end(&a->choices[i], PROTOCOL_END_STOP);
    }
}

int answer_begin(server *s, const answer_order *order, protocol_error *e)
{
    answer *a = memory_zalloc(1, sizeof *a);
    protocol_request *request = order->request;
    if (!a) {
        protocol_request_free(&request);
        return no_memory(e);
    }
    a->request = request;
    connection *c = order->c;
    int status = take_order(a, s, order, e);
    if (!status) status = forward_route(a, e);
    if (!status) status = gate_enter(a, e);
    if (!status && !a->forward) {
        status = make_prompts(a, c, e);
        status = forward_route_long(a, prompt_tokens(a), status, e);
    }
    if (!status && a->forward) status = forward_prepare(a, e);
    if (!status) status = guarded_policy(a, e);
    if (!status)
        status = gate_charge(a, a->forward ? forward_tokens(a) : prompt_tokens(a), e);
    if (!status && !a->forward) status = take_drafts(a, e);
    if (!status && a->voice == &voice_writer) status = voice_open(a, e);
    if (!status && !a->forward)
        status = shapes_of(s->shapes, request, s->info.chat_form, a->tenant, &a->kept_to,
                           &a->order, e);
    if (status) {
        release(a);
        return status;
    }
    if (a->document) supersede(a);
    gate_tell(a);
    link_answer(a);
    if (a->forward)
        forward_start(a);
    else if (!a->order)
        answer_tell_begin(a);
    answers_start(s);
    if (a->c) connection_flush(a->c);
    return CERIUM_OK;
}
