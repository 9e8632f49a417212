/* answers.c - the life of an answer, for every sink and source: its beginning, its events, its end.
 *
 * The last events contain the whole answer, and it must be stored before they are sent.  So a
 * thread does both, unless the answer is small and not stored: see answer_ending. */
#include "server/answers.h"

#include <math.h>

#include "server/answer_digest.h"
#include "server/answer_keep.h"
#include "server/answer_watchdog.h"
#include "server/api_writer.h"
#include "server/candidates.h"
#include "server/connection.h"
#include "server/model_loader.h"
#include "server/prepare.h"
#include "server/recording.h"
#include "server/tenant_quota.h"

void answer_fail(answer *a, const protocol_error *e)
{
    if (!a->failed) a->failure = *e;
    a->failed = true;
}

void answer_fail_memory(answer *a)
{
    protocol_error e;
    (void)protocol_error_memory(&e);
    answer_fail(a, &e);
}

/* ---- the beginning ---- */

void answer_end_warm_up(answer *a)
{
    for (uint32_t i = 0; a->warm_up && i < a->n_choices; i++)
        choice_end(&a->choices[i], PROTOCOL_END_STOP);
}

/* A warm-up is over for the client at once; the engine computes it after that. */
void answer_tell_begin(answer *a)
{
    if (a->begun) return;
    a->begun = true;
    sink_begin(&a->sink);
    if (!a->prepare)
        protocol_writer_input(a->writer, (uint32_t)a->choices[0].n_prompt);
    if (protocol_writer_begin(a->writer)) {
        answer_fail_memory(a);
        answer_cancel(a, "out_of_memory");
        return;
    }
    if (!a->source->is_local) protocol_writer_runs(a->writer);
    /* Counted before the engine wakes its threads, and before usage is recorded. */
    connection_flush(a->sink.c);
    if (!a->prepare) answer_end_warm_up(a);
}

/* ---- its text ---- */

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

int choice_tell(choice *ch, view text, const cerium_watch_token *tokens, uint32_t n)
{
    const bool waits = ch->a->request->confidence_min > 0 && !candidates_wait(ch);
    if (waits) return bytes_append(&ch->unsure, text.ptr, text.len);
    return api_writer_text(ch, text, tokens, n);
}

/* ---- the last events ---- */

/* Make the last events, and the whole answer.  On a thread or on the loop. */
static bool run_ending(job *j)
{
    answer_ending *end = (answer_ending *)j;
    choice *ch = end->last;
    answer *a = ch->a;
    int status = answer_digests_tell(a);
    int ended = protocol_writer_end(a->writer, ch->index, end->how, &end->usage,
                                    end->how == PROTOCOL_END_FAILED ? &a->failure : NULL);
    if (ended) status = ended;
    bool whole = !end->wants_body || !protocol_writer_body(a->writer, &end->body);
    end->kept = whole && answer_keep(a, (view){end->body.ptr, end->body.len});
    if (status) end->status = status;
    return false;
}

/* Send the last of it; if events stream, they have reported the failure. */
static void tell_end(answer *a)
{
    protocol_error e;
    api_writer_tell_held(a);
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

/* Is it sent to the end, with no session open?  Then the lane is free, and the answer can be
 * freed. */
static void settle(answer *a)
{
    if (a->dead || !a->finished || a->prepare || a->n_closed < a->n_choices) return;
    a->dead = true;
    a->s->n_dead++;
    sink_occupy(&a->sink, NULL);
    a->sink.lane = NULL;
}

/* The end is written and stored: send it. */
static void finish(answer *a)
{
    connection *c = a->sink.c;
    protocol_error e;
    if (a->ending.status) answer_fail_memory(a);
    if (!a->ending.kept) {
        metrics_count(&a->s->metrics, METRICS_STORE_FAILED, 1);
        (void)protocol_error_set(&e, 500, "server_error", NULL, "",
                                 "the response could not be stored");
        answer_fail(a, &e);
    }
    a->finished = true;
    answer_meter(a);
    if (a->ending.kept)
        tell_end(a);
    else
        sink_fail(&a->sink, &a->failure);
    if (a->ending.kept)
        recording_end(a->recording);
    else
        recording_drop(&a->recording); /* no such response */
    a->recording = NULL;
    /* Same-lane continuations that fail remove the id that they continued. */
    if (a->failed && a->sink.lane && a->request->previous_response_id)
        history_evict(a->s->history, a->tenant, a->serial, a->request->previous_response_id);
    bytes_free(&a->ending.held);
    if (a->ending.on_end) a->ending.on_end(a);
    a->sink.c = NULL;
    connection_uncork(c);
    settle(a);
}

static void on_ending(job *j)
{
    answer *a = ((answer_ending *)j)->last->a;
    a->ending.is_away = false;
    connection_cork(a->sink.c); /* they are sent in one write */
    finish(a);
}

/* About how many bytes its end has: all of the text again, and the echoed part of the request. */
static size_t ending_bytes(const answer *a)
{
    const protocol_request *r = a->request;
    const size_t each = r->sampling.logprobs ? 64 * (1 + (size_t)r->top_logprobs) : 8;
    size_t n = r->api == PROTOCOL_INFILL ? 0 : a->n_bytes;
    for (uint32_t i = 0; i < a->n_choices; i++) {
        n += a->choices[i].usage.new_tokens * each;
        n += answer_digest_bytes(&a->choices[i]);
    }
    if (r->embeds) n += (size_t)a->n_choices * a->model->info.n_embedding * 12;
    return n;
}

/* All choices ended. */
static void begin_ending(answer *a)
{
    const size_t n_bytes = ending_bytes(a);
    answer_ending *end = &a->ending;
    const bool is_stored = answer_is_stored(a->request);
    end->wants_body = (a->sink.c && !a->sink.type->streams) || is_stored;
    end->body.max = PROTOCOL_ANSWER_BYTES_MAX;
    end->held.max = 2 * (size_t)PROTOCOL_ANSWER_BYTES_MAX;
    end->job = (job){.run = run_ending,
                     .done = on_ending,
                     .lane = n_bytes > SERVER_SMALL_BYTES_MAX ? WORKERS_LARGE : WORKERS_SMALL,
                     .client = client_of(a->tenant, a->serial)};
    if (is_stored) end->job.lane = WORKERS_STORE;
    if (is_stored || n_bytes > SERVER_INLINE_BYTES_MAX) {
        end->is_away = true;
        workers_submit_always(a->s->workers, &end->job);
        return;
    }
    connection_cork(a->sink.c);
    run_ending(&end->job);
    finish(a);
}

/* ---- a choice ends ---- */

/* Text that waited for the probability of the whole: sent now, or dropped. */
static int tell_unsure(choice *ch, protocol_end end)
{
    answer *a = ch->a;
    view text = {ch->unsure.ptr, ch->unsure.len};
    if (!text.len || end == PROTOCOL_END_CANCELED || end == PROTOCOL_END_FAILED) return CERIUM_OK;
    ch->held_back = exp(ch->logprob) < a->request->confidence_min;
    if (!ch->held_back) return api_writer_text(ch, text, NULL, 1);
    metrics_count(&a->s->metrics, METRICS_UNSURE, 1);
    return CERIUM_OK;
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

static void count_used(choice *ch, protocol_end end)
{
    answer *a = ch->a;
    a->source->count(ch, end);
    if (!a->failed) return;
    /* A failure of the server is not charged, and the client sees that. */
    ch->usage.prompt_tokens = ch->usage.reused_tokens = ch->usage.new_tokens = 0;
}

/* The first choice has ended: the others wait for their places, or end. */
static void begin_candidates(answer *a, protocol_end end)
{
    const bool is_good = (end == PROTOCOL_END_STOP || end == PROTOCOL_END_LENGTH) &&
                         !a->canceled && !a->failed;
    const uint32_t n = is_good ? candidates_find(a) : 0;
    for (uint32_t i = 1; i < a->n_choices; i++) {
        choice *ch = &a->choices[i];
        if (ch->state != CHOICE_COMING) continue;
        if (i <= n) {
            candidates_begin(ch);
            ch->state = CHOICE_WAITING;
            a->s->n_coming--;
            answer_count_waiting(a, 1);
        } else {
            choice_end(ch, is_good ? PROTOCOL_END_STOP : end);
            choice_closed(ch);
        }
    }
}

void choice_end(choice *ch, protocol_end end)
{
    answer *a = ch->a;
    if (ch->ended) return;
    ch->ended = true;
    a->n_ended++;
    if (end == PROTOCOL_END_GUARDED) answer_digest_void(ch, "the watchdog ended the answer");
    count_used(ch, end);
    if (a->finished) return;
    protocol_usage usage = usage_of(&ch->usage);
    usage.logprob = ch->logprob;
    usage.first_ns = ch->first_ns ? ch->first_ns - a->started_ns : 0;
    int status = tell_unsure(ch, end);
    usage.reason = a->superseded ? "superseded" : ch->held_back ? "unsure" : NULL;
    if (a->n_ended == a->n_choices) {
        a->ending.last = ch;
        a->ending.how = end;
        a->ending.usage = usage;
        a->ending.status = status;
        begin_ending(a);
        return;
    }
    if (!status)
        status = protocol_writer_end(a->writer, ch->index, end, &usage,
                                     end == PROTOCOL_END_FAILED ? &a->failure : NULL);
    if (status) answer_fail_memory(a);
    if (a->candidates && ch->index == 0) begin_candidates(a, end);
}

static void close_session(choice *ch)
{
    if (!ch->session) return;
    cerium_session_close(&ch->session);
    model_count_session(ch->a->model, -1);
}

void choice_closed(choice *ch)
{
    answer *a = ch->a;
    if (ch->state == CHOICE_CLOSED) return;
    if (ch->state == CHOICE_RUNNING && !ch->parked) answer_count_running(a, -1);
    if (ch->state == CHOICE_WAITING) answer_count_waiting(a, -1);
    if (ch->state == CHOICE_COMING) a->s->n_coming--;
    ch->state = CHOICE_CLOSED;
    close_session(ch);
    a->n_closed++;
    settle(a);
}

void choice_stop(choice *ch, protocol_end end)
{
    if (ch->session) cerium_session_cancel(ch->session);
    choice_end(ch, end);
    if (ch->state == CHOICE_COMING || ch->state == CHOICE_WAITING) choice_closed(ch);
}

/* ---- all of it ends ---- */

void answer_cancel(answer *a, const char *reason)
{
    if (answer_is_over(a)) return;
    bool was_ready = !a->prepare;
    a->canceled = reason;
    if (!prepare_stop(a)) return; /* a thread has it: it ends when the thread is done */
    if (!was_ready && !answer_is_wanted(a)) {
        answer_abandon(a);
        return;
    }
    if (!a->begun) { /* an ending answer has begun */
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
    tenant_quota_leave(a);
    if (a->ending.on_end) a->ending.on_end(a);
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
    if (a->ending.on_end) a->ending.on_end(a);
    tenant_quota_leave(a);
    settle(a);
}

static void drop_prompts(answer *a)
{
    for (uint32_t i = 0; a->choices && i < a->n_choices; i++) {
        answer_watchdog_close(&a->choices[i]);
        answer_digest_close(&a->choices[i]);
        bytes_free(&a->choices[i].sampled);
        memory_free(a->choices[i].own_script);
        bytes_free(&a->choices[i].unread);
        infill_stop_close(&a->choices[i].stop);
        bytes_free(&a->choices[i].unsure);
        bytes_free(&a->choices[i].show);
        close_session(&a->choices[i]);
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
    tenant_quota_leave(a);
    prepare_free(a);
    if (a->source) a->source->release(a);
    drop_prompts(a);
    candidates_close(a);
    memory_free(a->script);
    memory_free(a->prediction);
    memory_free(a->document);
    output_format_free(&a->format);
    bytes_free(&a->ending.held);
    bytes_free(&a->ending.body);
    recording_drop(&a->recording);
    protocol_writer_free(&a->writer);
    request_bury(a->s, &a->request, a->n_bytes);
    memory_free(a);
}

/* ---- all answers ---- */

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

void answers_leave(connection *c)
{
    for (answer *a = c->s->answers; a; a = a->next) {
        if (a->sink.c != c) continue;
        a->sink.c = NULL;
        if (!answer_is_wanted(a)) answer_cancel(a, "connection_closed");
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
