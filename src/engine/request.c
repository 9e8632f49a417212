/* request.c - starting a request, and counting its cost. */
#include "engine/scheduler.h"

#include "base/memory.h"

void cerium_session_usage_sized(const cerium_session *s, cerium_usage *out, size_t size)
{
    uint64_t duration = atomic_load(&s->duration_ns), start = atomic_load(&s->start_ns);
    cerium_usage usage = {
        .prompt_tokens = atomic_load(&s->prompt_tokens),
        .reused_tokens = atomic_load(&s->reused_tokens),
        .computed_tokens = atomic_load(&s->computed_tokens),
        .new_tokens = atomic_load(&s->new_tokens),
        .drafted_tokens = atomic_load(&s->drafted_tokens),
        .accepted_tokens = atomic_load(&s->accepted_tokens),
        .drafted_predicted = atomic_load(&s->drafted_predicted),
        .accepted_predicted = atomic_load(&s->accepted_predicted),
        .queue_ns = atomic_load(&s->queue_ns),
        .prompt_ns = atomic_load(&s->prompt_ns),
        .first_token_ns = atomic_load(&s->first_token_ns),
        .duration_ns = duration || !start ? duration : clock_ns() - start,
    };
    engine_hand_over(out, size, &usage, sizeof usage);
}

/* ---- start ---- */

static int check(const cerium_session *s, const cerium_request *q, cerium_error *err)
{
    const int bad = CERIUM_ERR_ARGUMENT;
    if (s->running)
        return error_set(err, bad, "a request runs in this session: poll it to its end first");
    RETURN_IF(answer_check_tokens(s, q->tokens, q->n_tokens, err));
    RETURN_IF(sampler_validate(q->sampling, err));
    if ((int)q->class_ < 0 || q->class_ >= CERIUM_CLASSES)
        return error_set(err, bad, "class %d: there are 0 to %d", (int)q->class_,
                         CERIUM_CLASSES - 1);
    if (q->top_logprobs > CERIUM_TOP_MAX)
        return error_set(err, bad, "%u most likely tokens: at most %d", q->top_logprobs,
                         CERIUM_TOP_MAX);
    if (q->top_logprobs && !(q->sampling && q->sampling->logprobs))
        return error_set(err, bad, "top_logprobs without sampling.logprobs");
    if ((!q->script && q->n_script) || (!q->prediction && q->n_prediction))
        return error_set(err, bad, "a script or prediction is missing");
    RETURN_IF(answer_check_resume(s, q->resume, q->tokens, q->n_tokens, err));
    if (q->n_script) RETURN_IF(answer_check_tokens(s, q->script, q->n_script, err));
    if (q->guide) RETURN_IF(guide_check(q->guide, err));
    if (q->resume && q->resume->n_heal && (q->guide || q->script))
        return error_set(err, bad, "a heal_prefix goes without a guide and without a script");
    for (size_t i = 0; i < q->n_prediction; i++)
        if (q->prediction[i] < 0 || (uint32_t)q->prediction[i] >= s->engine->n_vocab)
            return error_set(err, bad, "token %d of the prediction is not in the vocabulary",
                             q->prediction[i]);
    return CERIUM_OK;
}

static size_t prediction_length(const cerium_session *s, const cerium_request *q)
{
    if (!s->speculates) return 0;
    return q->n_prediction < s->context_tokens ? q->n_prediction : s->context_tokens;
}

/* Bytes for the texts of as many steps as can wait.  They come from that many tokens and from what
 * had been held back; a piece lost at the end of the ring, one for the next text, and one between
 * the newest text and the oldest come on top. */
static size_t text_ring_bytes(const cerium_engine *e)
{
    return (size_t)EVENT_SLOTS * e->token_bytes_max + 4 * answer_text_max(e);
}

static size_t memory_needed(const cerium_session *s, const cerium_request *q)
{
    size_t n = sizeof(request) + text_ring_bytes(s->engine) + 8 * MEMORY_ALIGN;
    uint32_t n_prediction = (uint32_t)prediction_length(s, q);
    n += (q->n_script + n_prediction) * sizeof(int32_t);
    if (n_prediction) n += ngrams_bytes(n_prediction);
    n += (size_t)(EVENT_SLOTS + CERIUM_STEP_TOKENS_MAX) * q->top_logprobs * sizeof(cerium_logprob);
    for (uint32_t i = 0; q->sampling && i < q->sampling->n_stops; i++)
        n += strlen(q->sampling->stops[i]) + 1;
    if (q->sampling) n += q->sampling->n_biases * sizeof *q->sampling->biases;
    return n;
}

static void *copy(arena *memory, const void *from, size_t size, size_t align)
{
    void *to = size ? arena_take(memory, size, align) : NULL;
    if (to) memcpy(to, from, size);
    return to;
}

/* Allocate all memory of a request in one block. */
static request *copy_request(const cerium_session *s, const cerium_request *q)
{
    arena memory;
    if (arena_open(&memory, memory_needed(s, q))) return NULL;
    request *r = arena_take(&memory, sizeof *r, MEMORY_ALIGN);
    memset(r, 0, offsetof(request, slots));
    r->class_ = q->class_;
    r->top_logprobs = q->top_logprobs;
    r->notify = q->notify;
    r->user = q->user;
    r->notify_prompt = q->notify_prompt;
    r->n_prompt = (uint32_t)(q->n_tokens + (q->resume ? q->resume->n_note : 0));
    r->n_prediction = (uint32_t)prediction_length(s, q);
    r->script = copy(&memory, q->script, q->n_script * sizeof(int32_t), sizeof(int32_t));
    r->prediction =
        copy(&memory, q->prediction, r->n_prediction * sizeof(int32_t), sizeof(int32_t));
    if (r->n_prediction)
        r->prediction_index =
            arena_take(&memory, ngrams_bytes(r->n_prediction), sizeof(uint32_t));
    size_t top_bytes = r->top_logprobs * sizeof(cerium_logprob);
    r->top = arena_take(&memory, EVENT_SLOTS * top_bytes, sizeof(cerium_logprob));
    r->chosen_top =
        arena_take(&memory, CERIUM_STEP_TOKENS_MAX * top_bytes, sizeof(cerium_logprob));
    if (q->sampling) r->sampling = *q->sampling;
    r->sampling.biases = copy(&memory, r->sampling.biases,
                              r->sampling.n_biases * sizeof *r->sampling.biases,
                              sizeof(int32_t));
    for (uint32_t i = 0; i < r->sampling.n_stops; i++)
        r->stops[i] = copy(&memory, q->sampling->stops[i], strlen(q->sampling->stops[i]) + 1, 1);
    r->sampling.stops = r->stops;
    r->text_bytes = text_ring_bytes(s->engine);
    r->text = arena_take(&memory, r->text_bytes, 1);
    CHECK(r->text && r->chosen_top);
    r->text_at = 0;
    r->is_viewed = false;
    atomic_init(&r->head, 0);
    atomic_init(&r->tail, 0);
    atomic_init(&r->armed, true);
    atomic_init(&r->parked, false);
    atomic_init(&r->is_over, false);
    r->memory = memory;
    return r;
}

/* The scheduler may still be on its way out of notify. */
static void free_request(cerium_session *s)
{
    thread_spin wait = {0};
    if (!s->request) return;
    while (!atomic_load(&s->request->is_over)) thread_wait_step(&wait);
    arena memory = s->request->memory;
    arena_close(&memory);
    s->request = NULL;
}

void request_close(cerium_session *s)
{
    if (s->running) cerium_session_cancel(s);
    free_request(s);
    s->running = false;
}

static void reset_usage(cerium_session *s, const request *r)
{
    atomic_store(&s->prompt_tokens, r->n_prompt);
    atomic_store(&s->reused_tokens, 0);
    atomic_store(&s->computed_tokens, 0);
    atomic_store(&s->new_tokens, 0);
    atomic_store(&s->drafted_tokens, 0);
    atomic_store(&s->accepted_tokens, 0);
    atomic_store(&s->drafted_predicted, 0);
    atomic_store(&s->accepted_predicted, 0);
    atomic_store(&s->queue_ns, 0);
    atomic_store(&s->prompt_ns, 0);
    atomic_store(&s->first_token_ns, 0);
    atomic_store(&s->duration_ns, 0);
    atomic_store(&s->start_ns, clock_ns());
}

/* Start the scheduler's thread with the first request. */
static int need_scheduler(cerium_engine *e, cerium_error *err)
{
    if (atomic_load(&e->scheduler)) return CERIUM_OK;
    scheduler *sched = NULL;
    pthread_mutex_lock(&e->lock);
    int status = CERIUM_OK;
    if (!atomic_load(&e->scheduler)) status = scheduler_open(&sched, e, err);
    if (sched) atomic_store(&e->scheduler, sched);
    pthread_mutex_unlock(&e->lock);
    return status;
}

int cerium_session_start(cerium_session *s, const cerium_request *q, cerium_error *err)
{
    if (!s || !q || (!q->tokens && q->n_tokens))
        return error_set(err, CERIUM_ERR_ARGUMENT, "no session, request or prompt");
    RETURN_IF(check(s, q, err));
    RETURN_IF(session_need_pointer(s, q->sampling, err));
    RETURN_IF(need_scheduler(s->engine, err));
    guide *guide_ = NULL;
    int status;
    if (q->guide && !q->n_script) RETURN_IF(answer_guide(s->engine, q->guide, &guide_, err));
    request *r = copy_request(s, q);
    if (!r) {
        guide_close(&guide_);
        return error_set(err, CERIUM_ERR_MEMORY, "no memory for a request");
    }
    free_request(s);
    guide_close(&s->slot.guide);
    s->request = r;
    s->running = true;
    /* The logits are those after the prompt if it is what the session holds, to the last token. */
    uint32_t n = (uint32_t)q->n_tokens;
    if (!session_has_logits(s, n) || s->n_tokens < n ||
        memcmp(s->tokens, q->tokens, n * sizeof *s->tokens))
        s->has_logits = false;
    session_replace(s, q->tokens, n);
    s->slot = (slot){.sampling = &r->sampling,
                     .guide = guide_,
                     .script = r->script,
                     .n_script = (uint32_t)q->n_script,
                     .new_tokens_max = q->new_tokens_max,
                     .n_top = r->top_logprobs,
                     .top = r->chosen_top};
    if (q->resume) atomic_store(&s->cancel, false);
    status = answer_resume(s, q->resume, &r->sampling, err);
    if (!status && guide_) status = answer_resume_guide(s, guide_, err);
    if (!s->has_logits || status) s->n_computed = 0;
    if (status) {
        guide_close(&s->slot.guide);
        s->has_logits = s->running = false;
        atomic_store(&r->is_over, true);
        return status;
    }
    session_begin_answer(s, r->prediction, r->n_prediction, r->prediction_index);
    if (q->n_script) s->recalled = UINT32_MAX; /* it was given, not generated */
    reset_usage(s, r);
    r->ticket = atomic_fetch_add(&s->engine->n_tickets, 1);
    r->token_ns = atomic_load(&s->start_ns);
    atomic_store(&s->pages.rank, rank_of(r->class_, r->ticket));
    scheduler_submit(atomic_load(&s->engine->scheduler), s);
    return CERIUM_OK;
}
