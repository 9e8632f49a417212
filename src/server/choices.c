/* choices.c - choices of answers and their engine sessions: started, followed, told. */
#include "server/ending.h"

#include "server/connection.h"
#include "server/forward.h"
#include "server/guarded.h"

enum { SUMMARY_TOKENS_MAX = 1024 };

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
                            .resume = ch->begins.n_opening ? &ch->begins : NULL,
                            .notify = notify,
                            .user = a->s};
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
    if (!status && r->api == PROTOCOL_INFILL) {
        const view before = {r->infill.prefix, r->infill.prefix_len};
        const view after = {r->infill.suffix, r->infill.suffix_len};
        const bool is_block = !r->beyond_block && !a->script && !r->sampling.logprobs;
        status = hole_open(&ch->hole, before, after, r->indent_min, is_block);
    }
    if (status) (void)error_set(&err, status, "out of memory");
    if (!status) status = cerium_session_start(ch->session, &request, &err);
    answer_count_waiting(a, -1);
    a->s->n_running++;
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
