/* source_engine.c - choices and their engine sessions: started, followed, sent. */
#include "server/source_engine.h"

#include "protocol/steer.h"
#include "server/answer_digest.h"
#include "server/answer_keep.h"
#include "server/answer_watchdog.h"
#include "server/answers.h"
#include "server/candidates.h"
#include "server/connection.h"
#include "server/model_loader.h"
#include "server/prompts.h"
#include "server/restart.h"
#include "server/wake.h"

/* ---- requests to the engine ---- */

/* The request to the engine for a choice. */
static cerium_request request_for(choice *ch, cerium_sampling *sampling, cerium_guide *guide)
{
    answer *a = ch->a;
    const protocol_request *r = a->request;
    *sampling = r->sampling;
    sampling->seed += ch->index;
    if (a->writer && protocol_writer_stops(r)) sampling->n_stops = 0;
    sampling->logprobs = answer_wants_logprobs(r);
    return (cerium_request){.tokens = ch->prompt,
                            .n_tokens = ch->n_prompt,
                            .new_tokens_max = answer_cap(a),
                            .sampling = sampling,
                            .class_ = r->class_,
                            .top_logprobs = r->sampling.logprobs ? r->top_logprobs
                                                                 : candidates_top(ch),
                            .script = ch->script,
                            .n_script = ch->n_script,
                            .prediction = a->prediction,
                            .n_prediction = a->n_prediction,
                            .guide = output_format_guide(&a->format, guide) ? guide : NULL,
                            .resume = ch->begins.n_heal || ch->begins.n_avoid ? &ch->begins : NULL,
                            .notify = wake_to_look,
                            .user = a->s,
                            .notify_prompt = r->return_progress && a->sink.type->streams};
}

/* ---- the engine's events ---- */

/* How much of a text may be shown; true when the completion ends before its end. */
static bool shown(choice *ch, view text, int *status)
{
    if (text.len && memchr(text.ptr, '\n', text.len)) ch->line_seen = true;
    ch->show.len = 0;
    *status = infill_stop_feed(&ch->stop, text, &ch->show);
    return ch->stop.end != INFILL_STOP_NONE;
}

/* t_max_predict_ms, as in llama.cpp: once there is a complete line. */
static bool out_of_time(const choice *ch)
{
    uint32_t limit = ch->a->request->predict_ms_max;
    return limit && ch->line_seen && clock_ns() - ch->first_ns > limit * UINT64_C(1000000);
}

/* Without memory no more text may be sent. */
static void choice_fail(choice *ch)
{
    answer_fail_memory(ch->a);
    choice_stop(ch, PROTOCOL_END_FAILED);
}

/* The longest line to wait for. */
enum { STEER_TOKENS = 64, STEER_CALL_TOKENS = 1024 };

/* A steer waits for the answer to end at the next good place.  If tools are offered, a call often
 * follows a line, and the client needs it whole. */
static void steer_off(choice *ch, uint32_t n)
{
    answer *a = ch->a;
    const protocol_request *r = a->request;
    const bool calls = r->n_tools && !r->tools_barred;
    bool whole;
    a->n_steered += n;
    bool hurry = a->n_steered > (calls ? STEER_CALL_TOKENS : STEER_TOKENS);
    if (protocol_writer_may_end(a->writer, hurry, &whole))
        choice_stop(ch, whole ? PROTOCOL_END_STOP : PROTOCOL_END_STEERED);
}

/* Text that may be sent, and its tokens. */
static void choice_text(choice *ch, view piece, const cerium_watch_token *tokens, uint32_t n)
{
    answer *a = ch->a;
    int status;
    const cerium_watch_token *wanted = a->request->sampling.logprobs ? tokens : NULL;
    for (uint32_t i = 0; tokens && i < n; i++) ch->logprob += (double)tokens[i].logprob;
    bool leaves = shown(ch, piece, &status);
    view text = {ch->show.ptr, ch->show.len};
    if (!status && (text.len || wanted)) status = choice_tell(ch, text, wanted, n);
    if (status)
        choice_fail(ch);
    else if (leaves || protocol_writer_enough(a->writer, ch->index))
        choice_stop(ch, PROTOCOL_END_STOP);
    else if (out_of_time(ch))
        choice_stop(ch, PROTOCOL_END_LENGTH);
    else if (a->steered)
        steer_off(ch, n);
}

/* One token arrived, or is inserted into the answer as if it had. */
static void take_step(choice *ch, const cerium_event *event)
{
    const cerium_step *step = &event->step;
    watch_result out;
    ch->n_steps++;
    if (!ch->watchdog) {
        cerium_watch_token token = {.token = step->tokens[0], .logprob = step->logprobs[0],
                             .n_top = event->n_top, .top = event->top};
        if (bytes_append(&ch->sampled, step->tokens, step->n_tokens * sizeof(int32_t)))
            choice_fail(ch);
        else
            choice_text(ch, (view){step->text, step->text_len}, &token, 1);
    } else if (answer_watchdog_step(ch, event, &out)) {
        choice_fail(ch);
    } else {
        if (out.text.len || out.tokens) choice_text(ch, out.text, out.tokens, out.n_tokens);
        if (out.order == CERIUM_WATCH_END && !ch->ended) choice_stop(ch, PROTOCOL_END_GUARDED);
    }
}

/* The model's own end of the thought is in what the watch holds back. */
static bool has_ended(choice *ch, const cerium_step *step)
{
    static const view ends[] = {{"</think>", 8}, {"[/THINK]", 8}, {"<|end|>", 7}};
    bytes *b = &ch->unread;
    const size_t held = (size_t)answer_watchdog_held(ch);
    b->max = SERVER_OUT_BYTES_MAX;
    if (held && bytes_append(b, step->text, step->text_len)) return true; /* not known */
    const size_t gone = b->len > held ? b->len - held : 0;
    if (gone) memmove(b->ptr, b->ptr + gone, b->len - gone);
    b->len -= gone;
    for (size_t i = 0; i < ARRAY_LEN(ends) && b->len; i++)
        if (memmem(b->ptr, b->len, ends[i].ptr, ends[i].len)) return true;
    return false;
}

/* Close a thought at its token limit: the engine stops, and continues after the end of the thought.
 * */
static void look_at_thought(choice *ch, const cerium_event *event)
{
    const uint32_t most = ch->a->request->thought_tokens_max;
    if (most == UINT32_MAX || ch->ended || answer_watchdog_turns(ch)) return;
    const bool ended = has_ended(ch, &event->step);
    if (ended || !protocol_writer_thinks(ch->a->writer, ch->index)) return;
    ch->n_thought++;
    if (ch->n_thought < most || event->step.text_held[0]) return;
    ch->ends_thought = true;
    cerium_session_cancel(ch->session);
}

static void choice_step(choice *ch, const cerium_event *event)
{
    if (!ch->first_ns) ch->first_ns = clock_ns();
    if (ch->ended || ch->ends_thought || answer_watchdog_turns(ch)) return;
    answer_digest_step(ch, &event->step);
    candidates_step(ch, event);
    take_step(ch, event);
    look_at_thought(ch, event);
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

/* The words that end a thought become part of the answer. */
static int say_end_of_thought(choice *ch)
{
    const answer *a = ch->a;
    const view words =
        protocol_thought_end(a->request, a->model->info.call_form, ch->n_thoughts > 0);
    int32_t *tokens = NULL;
    size_t n = 0;
    protocol_error e;
    ch->ends_thought = false;
    ch->n_thoughts++;
    answer_digest_void(ch, "its thought was ended by a budget");
    if (ch->script) RETURN_IF(choice_skip_thought(ch, words));
    RETURN_IF(prompts_tokenize(a->model, words, CERIUM_TOKENIZE_SPECIAL | CERIUM_TOKENIZE_WITHIN,
                               &tokens, &n, &e));
    for (size_t i = 0; i < n && !ch->ended; i++) {
        cerium_event event = {.kind = CERIUM_EVENT_STEP, .step = {.n_tokens = 1}};
        event.step.tokens[0] = tokens[i];
        event.step.text = cerium_token_bytes(a->model->engine, tokens[i], &event.step.text_len);
        event.step.text_ends[0] = (uint32_t)event.step.text_len;
        take_step(ch, &event);
    }
    memory_free(tokens);
    ch->n_steps = 0;
    return CERIUM_OK;
}

/* Continue after the text so far; *continues false: no more will follow, the end is *end. */
static int go_on(choice *ch, protocol_end *end, bool *continues)
{
    cerium_sampling sampling;
    cerium_guide guide;
    cerium_error err;
    cerium_request q = request_for(ch, &sampling, &guide);
    size_t n = ch->sampled.len / sizeof(int32_t);
    const int32_t *sampled = (const int32_t *)(const void *)ch->sampled.ptr;
    if (ch->watchdog) sampled = answer_watchdog_tokens(ch, &n);
    const bool is_over = ch->script && !ch->n_script;
    *continues = !is_over && n < q.new_tokens_max;
    *end = is_over ? PROTOCOL_END_STOP : PROTOCOL_END_LENGTH;
    if (!*continues) return CERIUM_OK;
    int32_t *timeline = memory_alloc((ch->n_prompt + n) * sizeof *timeline);
    if (!timeline) return CERIUM_ERR_MEMORY;
    memcpy(timeline, ch->prompt, ch->n_prompt * sizeof *timeline);
    memcpy(timeline + ch->n_prompt, sampled, n * sizeof *timeline);
    const cerium_resume resume = {.n_answer = n};
    q.tokens = timeline;
    q.n_tokens = ch->n_prompt + n;
    q.new_tokens_max -= q.new_tokens_max == UINT32_MAX ? 0 : (uint32_t)n;
    q.resume = &resume;
    int status = cerium_session_start(ch->session, &q, &err);
    memory_free(timeline);
    return status;
}

/* The engine stopped within a thought.  True when it runs again. */
static bool choice_leaves_thought(choice *ch, protocol_end *end)
{
    bool continues = false;
    choice_keep_usage(ch);
    int status = say_end_of_thought(ch);
    if (ch->ended || answer_watchdog_turns(ch)) return false;
    if (!status) status = go_on(ch, end, &continues);
    if (status) choice_fail(ch);
    return !status && continues;
}

/* The engine stopped because a line was retracted, or at its own end, and the watch decides.  True
 * when it runs again. */
static bool choice_continues(choice *ch, protocol_end *end)
{
    watch_result out = {.order = CERIUM_WATCH_RETRY};
    const bool thinks = ch->ends_thought && !ch->ended && *end != PROTOCOL_END_FAILED;
    if (thinks && choice_leaves_thought(ch, end)) return true;
    while (ch->watchdog && !ch->ended) {
        int status = CERIUM_OK;
        if (!answer_watchdog_turns(ch)) {
            if (*end == PROTOCOL_END_CANCELED || *end == PROTOCOL_END_FAILED) return false;
            if (answer_watchdog_finish(ch, &out)) status = CERIUM_ERR_MEMORY;
            else if (out.text.len || out.tokens)
                choice_text(ch, out.text, out.tokens, out.n_tokens);
            if (out.order == CERIUM_WATCH_END) *end = PROTOCOL_END_GUARDED;
            if (!status && out.order != CERIUM_WATCH_RETRY) return false;
        } else {
            cerium_sampling sampling;
            cerium_guide guide;
            cerium_error err;
            cerium_request request = request_for(ch, &sampling, &guide);
            answer_digest_void(ch, "the watchdog had lines written again");
            if (answer_watchdog_again(ch, &request, &status)) {
                status = cerium_session_start(ch->session, &request, &err);
                if (status)
                    log_event(LOG_ERROR, "engine", "id=%s reason=\"%s\"", ch->a->id, err.message);
            } else if (!status) {
                *end = request.n_script ? PROTOCOL_END_STOP : PROTOCOL_END_LENGTH;
                continue;
            }
            if (!status) return true;
        }
        if (status) choice_fail(ch);
    }
    return false;
}

/* The prompt is computed: its vector. */
static protocol_end tell_embedding(choice *ch)
{
    answer *a = ch->a;
    const uint32_t n = a->model->info.n_embedding;
    float *numbers = memory_alloc(n * sizeof *numbers);
    protocol_error e;
    cerium_error err;
    int status = numbers ? cerium_session_embedding(ch->session, numbers, &err)
                         : error_set(&err, CERIUM_ERR_MEMORY, "out of memory");
    if (!status) status = protocol_writer_embedding(a->writer, ch->index, numbers, n);
    memory_free(numbers);
    if (!status) return PROTOCOL_END_STOP;
    (void)protocol_error_set(&e, 500, "server_error", NULL, "", "%s", err.message);
    answer_fail(a, &e);
    return PROTOCOL_END_FAILED;
}

static void choice_done(choice *ch, const cerium_event *event)
{
    answer *a = ch->a;
    protocol_end end = end_of(event);
    if (choice_continues(ch, &end)) return;
    if (end == PROTOCOL_END_FAILED && !ch->ended) {
        protocol_error e;
        bool damaged = event->status == CERIUM_ERR_NUMBERS;
        (void)protocol_error_set(&e, 500, "server_error", damaged ? "model_damaged" : NULL, "",
                                 "the engine failed: %s", cerium_status_text(event->status));
        answer_fail(a, &e);
        metrics_count(&a->s->metrics, METRICS_FAILED, 1);
    }
    if (a->request->embeds && end == PROTOCOL_END_LENGTH) end = tell_embedding(ch);
    ch->show.len = 0;
    if (!ch->ended && end != PROTOCOL_END_FAILED && !infill_stop_finish(&ch->stop, &ch->show) &&
        ch->show.len)
        (void)choice_tell(ch, (view){ch->show.ptr, ch->show.len}, NULL, 1);
    choice_end(ch, end);
    choice_closed(ch);
}

/* An answer whose reader is slow gives up its place; its KV stays.  It gets the place back as soon
 * as the reader catches up, even if there is one too many for a moment. */
static void park(choice *ch, bool parked)
{
    if (parked == ch->parked) return;
    ch->parked = parked;
    ch->parked_ns = clock_ns();
    answer_count_running(ch->a, parked ? -1 : 1);
    if (!parked) return;
    ch->a->sink.c->has_parked = true;
    metrics_count(&ch->a->s->metrics, METRICS_PARKED, 1);
}

static look_result choice_look(choice *ch, uint64_t end_ns)
{
    cerium_event event;
    for (look_result found = LOOK_NOTHING;; found = LOOK_SOME) {
        if (ch->state != CHOICE_RUNNING) return found;
        park(ch, ch->a->sink.c && connection_parked(ch->a->sink.c));
        if (ch->parked) return found; /* checked again when it is no longer parked */
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

int source_engine_start(choice *ch)
{
    answer *a = ch->a;
    const protocol_request *r = a->request;
    cerium_error err;
    if (a->replayed && !a->n_script) { /* the recorded text is empty */
        choice_end(ch, PROTOCOL_END_STOP);
        choice_closed(ch);
        return CERIUM_OK;
    }
    ch->script = a->script;
    ch->n_script = a->n_script;
    cerium_session_config config = {.tenant = a->tenant,
                                    .client = client_of(a->tenant, a->serial),
                                    .control_text = r->talks,
                                    .embeds = r->embeds};
    int status = cerium_session_open(&ch->session, a->model->engine, &config, &err);
    if (status == CERIUM_ERR_CAPACITY) return status;
    if (!status) model_count_session(a->model, 1);
    cerium_sampling sampling;
    cerium_guide guide;
    cerium_request request = request_for(ch, &sampling, &guide);
    if (!status) status = answer_watchdog_open(ch);
    if (!status) status = answer_digest_open(ch);
    if (!status && r->ends_hole) {
        const uint32_t i = ch->index / r->n_choices;
        const view before = i < r->n_prompts
                                ? (view){r->prompts[i], r->prompt_lens[i]}
                                : (view){r->infill.prefix, r->infill.prefix_len};
        const view after = {r->infill.suffix, r->infill.suffix_len};
        const bool is_block = !r->beyond_block && !a->script && !r->sampling.logprobs;
        status = infill_stop_open(&ch->stop, before, after, r->indent_min, is_block);
    }
    if (status) (void)error_set(&err, status, "out of memory");
    if (!status) status = cerium_session_start(ch->session, &request, &err);
    answer_count_waiting(a, -1);
    answer_count_running(a, 1);
    ch->state = CHOICE_RUNNING;
    if (!status) protocol_writer_runs(a->writer);
    if (!status) return CERIUM_OK;
    protocol_error e;
    (void)protocol_error_set(&e, 500, "server_error", NULL, "", "%s", err.message);
    answer_fail(a, &e);
    metrics_count(&a->s->metrics, METRICS_FAILED, 1);
    choice_end(ch, PROTOCOL_END_FAILED);
    choice_closed(ch);
    return CERIUM_OK;
}

/* ---- as a source ---- */

static look_result poll(answer *a, uint64_t end_ns)
{
    look_result found = LOOK_NOTHING;
    for (uint32_t i = 0; i < a->n_choices; i++) {
        look_result of = choice_look(&a->choices[i], end_ns);
        if (of > found) found = of;
    }
    return found;
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
    case PROTOCOL_END_STEERED: return METRICS_END_STOP;
    }
    return METRICS_END_ERROR;
}

/* The whole prompt if its computation ended, and the generated tokens. */
static void count(choice *ch, protocol_end end)
{
    cerium_usage *u = &ch->usage;
    if (ch->session) cerium_session_usage(ch->session, u);
    choice_whole_usage(ch, u);
    answer_watchdog_close(ch);
    u->new_tokens = (uint32_t)(ch->sampled.len / sizeof(int32_t));
    u->prompt_tokens = (uint32_t)ch->n_prompt;
    metrics_ended(&ch->a->s->metrics, metrics_end_of(end), u);
    /* For a canceled answer, the part of its prompt computed by then. */
    const uint32_t n_there = u->reused_tokens + u->computed_tokens;
    if (end == PROTOCOL_END_CANCELED && !u->new_tokens && n_there < u->prompt_tokens)
        u->prompt_tokens = n_there;
}

static const char *model(const answer *a) { return a->model->listed.id; }

static const char *name(const answer *a)
{
    (void)a;
    return "local";
}

static void no_state(answer *a) { (void)a; }

/* Its choices wait for places.  While they also wait for the model, which may fail to load, the
 * stream begins with the first keepalive. */
static void start(answer *a)
{
    model_keep(a->model, a->request);
    model_want(a->model);
    if (a->model->state == MODEL_LOADED && !a->begun) answer_tell_begin(a);
}

const source_type source_engine = {.is_local = true,
                                   .start = start,
                                   .poll = poll,
                                   .count = count,
                                   .keep = answer_keep_tokens,
                                   .model = model,
                                   .name = name,
                                   .release = no_state};
