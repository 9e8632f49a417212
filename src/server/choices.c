/* choices.c - choices of answers and their engine sessions: started, followed, told. */
#include "server/ending.h"

#include "server/connection.h"
#include "server/forward.h"
#include "server/guarded.h"
#include "server/loop.h"

/* ---- what is asked of the engine ---- */

/* The class that a request has by now: each second of waiting is worth one, so that none waits for
 * ever behind those that keep coming. */
static cerium_class class_by_now(const answer *a, uint64_t now)
{
    uint64_t ages = now > a->started_ns ? (now - a->started_ns) / SERVER_AGE_NS : 0;
    return ages >= (uint64_t)a->request->class_ ? (cerium_class)0
                                                : (cerium_class)(a->request->class_ - (int)ages);
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
                            .new_tokens_max = answer_cap(a),
                            .sampling = sampling,
                            .class_ = r->class_,
                            .top_logprobs = r->sampling.logprobs ? r->top_logprobs : 0,
                            .script = a->script,
                            .n_script = a->n_script,
                            .prediction = a->prediction,
                            .n_prediction = a->n_prediction,
                            .guide = shape_guide(&a->kept_to, guide) ? guide : NULL,
                            .resume = ch->begins.n_opening ? &ch->begins : NULL,
                            .notify = loop_wake,
                            .user = a->s,
                            .notify_prompt = r->return_progress && a->streams};
}

/* ---- the engine's events ---- */

/* What may be shown of a text; true when the completion ends before it. */
static bool shown(choice *ch, view text, int *status)
{
    answer *a = ch->a;
    if (text.len && memchr(text.ptr, '\n', text.len)) ch->line_seen = true;
    a->s->show.len = 0;
    *status = hole_feed(&ch->hole, text, &a->s->show);
    return ch->hole.end != HOLE_OPEN;
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
    (void)answer_no_memory(&e);
    answer_fail(ch->a, &e);
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
    if (!status && (text.len || told)) status = choice_tell(ch, text, told, n);
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
    watch_result out = {.order = WATCH_RETRY};
    while (ch->guarded && !ch->ended) {
        int status = CERIUM_OK;
        if (!guarded_turns(ch)) {
            if (*end == PROTOCOL_END_CANCELED || *end == PROTOCOL_END_FAILED) return false;
            if (guarded_finish(ch, &out)) status = CERIUM_ERR_MEMORY;
            else if (out.text.len || out.tokens)
                choice_text(ch, out.text, out.tokens, out.n_tokens);
            if (out.order == WATCH_END) *end = PROTOCOL_END_GUARDED;
            if (!status && out.order != WATCH_RETRY) return false;
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
        bool damaged = event->status == CERIUM_ERR_NUMBERS;
        (void)protocol_error_set(&e, 500, "server_error", damaged ? "model_damaged" : NULL, "",
                                 "the engine failed: %s", cerium_status_text(event->status));
        answer_fail(a, &e);
        metrics_count(&a->s->metrics, METRICS_FAILED, 1);
    }
    a->s->show.len = 0;
    if (!ch->ended && end != PROTOCOL_END_FAILED && !hole_finish(&ch->hole, &a->s->show) &&
        a->s->show.len)
        (void)choice_tell(ch, (view){a->s->show.ptr, a->s->show.len}, NULL, 1);
    choice_end(ch, end);
    choice_closed(ch);
}

/* An answer whose reader is behind gives its place up; its KV stays.  It has it back as soon as the
 * reader has caught up, be it one too many for a moment. */
static void park(choice *ch, bool parked)
{
    if (parked == ch->parked) return;
    ch->parked = parked;
    ch->parked_ns = clock_ns();
    answer_count_running(ch->a, parked ? -1 : 1);
    if (!parked) return;
    ch->a->c->has_parked = true;
    metrics_count(&ch->a->s->metrics, METRICS_PARKED, 1);
}

look_result choice_look(choice *ch, uint64_t end_ns)
{
    cerium_event event;
    for (look_result found = LOOK_NOTHING;; found = LOOK_SOME) {
        if (ch->state != CHOICE_RUNNING) return found;
        park(ch, ch->a->c && connection_parked(ch->a->c));
        if (ch->parked) return found; /* looked at again when it is not */
        if (found && clock_ns() >= end_ns) return LOOK_UNFINISHED;
        cerium_session_poll(ch->session, &event);
        if (event.kind == CERIUM_EVENT_NONE) return found;
        if (event.kind == CERIUM_EVENT_DONE)
            choice_done(ch, &event);
        else
            choice_step(ch, &event);
    }
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
    if (!status && r->api == PROTOCOL_INFILL) {
        const view before = {r->infill.prefix, r->infill.prefix_len};
        const view after = {r->infill.suffix, r->infill.suffix_len};
        const bool is_block = !r->beyond_block && !a->script && !r->sampling.logprobs;
        status = hole_open(&ch->hole, before, after, r->indent_min, is_block);
    }
    if (status) (void)error_set(&err, status, "out of memory");
    if (!status) status = cerium_session_start(ch->session, &request, &err);
    answer_count_waiting(a, -1);
    answer_count_running(a, 1);
    ch->state = CHOICE_RUNNING;
    if (!status) return CERIUM_OK;
    protocol_error e;
    (void)protocol_error_set(&e, 500, "server_error", NULL, "", "%s", err.message);
    answer_fail(a, &e);
    metrics_count(&a->s->metrics, METRICS_FAILED, 1);
    choice_end(ch, PROTOCOL_END_FAILED);
    choice_closed(ch);
    return CERIUM_OK;
}

/* Who shares the places: a key, or where none is needed, a connection. */
static bool same_client(const answer *a, const answer *b)
{
    return a->tenant == b->tenant && (a->tenant || a->serial == b->serial);
}

/* Answers that hold places, with how many: those of one server are few. */
typedef struct {
    const answer *of[SERVER_RUNNING_MAX];
    uint32_t places[SERVER_RUNNING_MAX];
    uint32_t n;
} place_list;

static void list_places(const server *s, place_list *list)
{
    list->n = 0;
    for (const answer *a = s->answers; a && list->n < SERVER_RUNNING_MAX; a = a->next) {
        uint32_t n = 0;
        for (uint32_t i = 0; i < a->n_choices; i++)
            n += a->choices[i].state == CHOICE_RUNNING && !a->choices[i].parked;
        if (!n) continue;
        list->of[list->n] = a;
        list->places[list->n++] = n;
    }
}

static uint32_t places_of(const place_list *list, const answer *a)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < list->n; i++) n += same_client(list->of[i], a) ? list->places[i] : 0;
    return n;
}

static choice *first_waiting(const answer *a)
{
    for (uint32_t i = 0; i < a->n_choices; i++)
        if (a->choices[i].state == CHOICE_WAITING) return &a->choices[i];
    return NULL;
}

bool answers_have_place(const server *s, cerium_class class_)
{
    uint32_t n = 0;
    for (int i = 0; i <= (int)class_; i++) n += s->n_running_of[i];
    return n < s->config.running_max;
}

/* Of the highest class, counted by now, that has a place left, the client with the fewest places;
 * of its answers the oldest.  Answers are listed newest first. */
static choice *next_waiting(server *s)
{
    const answer *best = NULL;
    uint64_t now = clock_ns();
    place_list list;
    list_places(s, &list);
    uint32_t best_places = 0;
    for (const answer *a = s->answers; a; a = a->next) {
        if (a->n_closed == a->n_choices || !first_waiting(a)) continue;
        if (!answers_have_place(s, a->request->class_)) continue;
        cerium_class class_ = class_by_now(a, now);
        if (best && class_ > class_by_now(best, now)) continue;
        bool is_higher = !best || class_ < class_by_now(best, now);
        bool is_same = best && same_client(a, best);
        uint32_t places = is_same ? best_places : places_of(&list, a);
        if (!is_higher && places > best_places) continue;
        best = a;
        best_places = places;
    }
    return best ? first_waiting(best) : NULL;
}

/* All sessions of the engine are taken, some of them by answers whose readers take nothing: the one
 * that waits for its reader for the longest has to go. */
static void end_longest_parked(server *s)
{
    choice *longest = NULL;
    for (answer *a = s->answers; a; a = a->next)
        for (uint32_t i = 0; i < a->n_choices; i++) {
            choice *ch = &a->choices[i];
            if (ch->state == CHOICE_RUNNING && ch->parked && a->c && !a->c->closing &&
                (!longest || ch->parked_ns < longest->parked_ns))
                longest = ch;
        }
    if (!longest || clock_ns() - longest->parked_ns < SERVER_PARKED_NS) return;
    connection *c = longest->a->c;
    metrics_count(&s->metrics, METRICS_TIMED_OUT, 1);
    log_event(LOG_WARNING, "dropped", "peer=%s reason=\"others wait, and it reads nothing\"",
              c->peer);
    connection_break(c);
}

static bool any_has_place(const server *s)
{
    for (int i = 0; i < SERVER_CLASSES; i++)
        if (s->n_waiting_of[i] && answers_have_place(s, (cerium_class)i)) return true;
    return false;
}

void answers_start(server *s)
{
    s->no_session = false;
    while (any_has_place(s)) {
        choice *ch = next_waiting(s);
        if (!ch) return;
        if (choice_start(ch) == CERIUM_ERR_CAPACITY) {
            s->no_session = true;
            end_longest_parked(s);
            return;
        }
    }
}

bool answers_are_stuck(server *s)
{
    return any_has_place(s) && !s->no_session && next_waiting(s);
}
