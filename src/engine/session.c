/* session.c - one token timeline: what of it is computed, and the next token of it. */
#include "engine/engine.h"

#include "base/memory.h"

static void join_engine(cerium_session *s)
{
    cerium_engine *e = s->engine;
    pthread_mutex_lock(&e->lock);
    s->next = e->sessions;
    if (s->next) s->next->before = s;
    e->sessions = s;
    pthread_mutex_unlock(&e->lock);
}

static void leave_engine(cerium_session *s)
{
    cerium_engine *e = s->engine;
    pthread_mutex_lock(&e->lock);
    if (s->next) s->next->before = s->before;
    *(s->before ? &s->before->next : &e->sessions) = s->next;
    pthread_mutex_unlock(&e->lock);
}

/* Large buffers come untouched from the system: opening costs microseconds, not their size. */
static int take_memory(cerium_session *s, uint32_t score_tokens)
{
    const cerium_engine *e = s->engine;
    s->tokens = memory_alloc(s->context_tokens * sizeof *s->tokens);
    s->logits = memory_alloc(e->logits_stride * sizeof *s->logits);
    s->text = memory_alloc(answer_text_max(e) + (CERIUM_STEP_TOKENS_MAX - 1) * e->token_bytes_max);
    if (!s->tokens || !s->logits || !s->text) return CERIUM_ERR_MEMORY;
    if (score_tokens == 0) return CERIUM_OK;
    s->score_tokens_max = score_tokens < e->batch_tokens_max ? score_tokens : e->batch_tokens_max;
    s->score_logits = memory_alloc(s->score_tokens_max * e->logits_stride * sizeof *s->logits);
    return s->score_logits ? CERIUM_OK : CERIUM_ERR_MEMORY;
}

int cerium_session_open(cerium_session **session_out, cerium_engine *engine,
                        const cerium_session_config *config, cerium_error *err)
{
    static const cerium_session_config defaults;
    if (!session_out || !engine) return error_set(err, CERIUM_ERR_ARGUMENT, "no session or engine");
    if (!config) config = &defaults;
    uint32_t context = config->context_tokens_max;
    if (context == 0) context = engine->context_tokens_max;
    if (context > engine->context_tokens_max)
        return error_set(err, CERIUM_ERR_ARGUMENT, "a context of %u tokens: the engine has %u",
                         context, engine->context_tokens_max);
    cerium_session *s = memory_zalloc(1, sizeof *s);
    int status = s ? CERIUM_OK : CERIUM_ERR_MEMORY;
    if (s) {
        s->engine = engine;
        s->context_tokens = context;
        s->control_text = config->control_text;
        s->tenant = config->tenant;
        atomic_store(&s->rank, rank_idle(engine));
        status = take_memory(s, config->score_tokens_max);
    }
    if (status)
        error_set(err, status, "no memory for a session of %u tokens", context);
    else
        status = kv_sequence_open(&s->sequence, engine->pool, context, config->tenant, err);
    if (status) {
        cerium_session_close(&s);
        return status;
    }
    join_engine(s);
    *session_out = s;
    return CERIUM_OK;
}

int cerium_session_fork(cerium_session **session_out, cerium_session *from, cerium_error *err)
{
    if (!session_out || !from) return error_set(err, CERIUM_ERR_ARGUMENT, "no session");
    cerium_engine *e = from->engine;
    if (from->running)
        return error_set(err, CERIUM_ERR_ARGUMENT,
                         "a request runs in this session: poll it to its end first");
    cerium_session_config config = {.context_tokens_max = from->context_tokens,
                                    .tenant = from->tenant,
                                    .control_text = from->control_text,
                                    .score_tokens_max = from->score_tokens_max};
    cerium_session *s = NULL;
    RETURN_IF(cerium_session_open(&s, e, &config, err));
    memcpy(s->tokens, from->tokens, from->n_tokens * sizeof *s->tokens);
    s->n_tokens = from->n_tokens;
    s->stops = from->stops;
    thread_turn_take(&e->pass);
    uint32_t n = kv_sequence_fork(s->sequence, from->sequence);
    thread_turn_give(&e->pass);
    s->n_computed = n < from->n_computed ? n : from->n_computed;
    s->has_logits = from->has_logits && s->n_computed == from->n_computed;
    s->has_best_alone = from->has_best_alone;
    if (s->has_logits) memcpy(s->logits, from->logits, e->n_vocab * sizeof *s->logits);
    *session_out = s;
    return CERIUM_OK;
}

/* There may be room for what a request waits for.  One that is submitted after this look finds it,
 * and while one is counted neither as waiting nor as running, the scheduler is awake. */
static void ring_scheduler(cerium_engine *e)
{
    scheduler *sched = atomic_load(&e->scheduler);
    uint32_t n_requests = 0;
    for (int i = 0; i < CERIUM_CLASSES; i++)
        n_requests += atomic_load(&e->counts.waiting[i]) + atomic_load(&e->counts.running[i]);
    if (sched && n_requests > 0) scheduler_ring(sched);
}

void cerium_session_close(cerium_session **session)
{
    if (!session || !*session) return;
    cerium_session *s = *session;
    request_close(s);
    if (s->sequence) {
        leave_engine(s);
        kv_sequence_close(&s->sequence);
        ring_scheduler(s->engine);
    }
    memory_free(s->tokens);
    memory_free(s->logits);
    memory_free(s->score_logits);
    memory_free(s->text);
    guide_close(&s->guide);
    memory_free(s);
    *session = NULL;
}

/* ---- a call that computes: it ranks with the highest class while it lasts ---- */

static int begin_call(cerium_session *s, cerium_error *err)
{
    if (s->running)
        return error_set(err, CERIUM_ERR_ARGUMENT,
                         "a request runs in this session: poll it to its end first");
    uint64_t ticket = atomic_fetch_add(&s->engine->n_tickets, 1);
    atomic_store(&s->rank, rank_of(CERIUM_CLASS_COMPLETION, ticket));
    return CERIUM_OK;
}

static int end_call(cerium_session *s, int status)
{
    atomic_store(&s->rank, rank_idle(s->engine));
    ring_scheduler(s->engine);
    return status;
}

static int canceled(cerium_session *s, cerium_error *err)
{
    atomic_store(&s->cancel, false);
    return error_set(err, CERIUM_ERR_CANCELED, "canceled after %u tokens", s->n_computed);
}

/* Within a pass: compute up to n_max of the tokens that come next.  See compute_batch. */
static int run_batch(cerium_session *s, uint32_t n_max, float *logits, uint32_t *n_done)
{
    cerium_engine *e = s->engine;
    if (kv_sequence_length(s->sequence) != s->n_computed) /* others needed the room since */
        s->n_computed = kv_sequence_adopt(s->sequence, s->tokens, s->n_computed);
    uint32_t first = s->n_computed, n = s->n_tokens - first;
    if (n > n_max) n = n_max;
    bool last = first + n == s->n_tokens;
    RETURN_IF(engine_make_room(e, s, first + n));
    for (uint32_t i = 0; i < n; i++)
        e->rows[i] = (cpu_row){.token = s->tokens[first + i],
                               .position = first + i,
                               .sequence = s->sequence,
                               .logits = logits ? logits + i * e->logits_stride : NULL};
    if (last && !logits) e->rows[n - 1].logits = s->logits;
    if (last && s->wants_best_alone)
        engine_want(&e->rows[n - 1], s->choice, s->tokens, s->n_tokens, NULL, 0, s->allowed);
    s->has_logits = false;
    RETURN_IF(engine_run(e, n, &s->cancel));
    kv_sequence_commit(s->sequence, s->tokens + first, n);
    if (last && logits)
        memcpy(s->logits, logits + (n - 1) * e->logits_stride, e->n_vocab * sizeof *logits);
    s->n_computed += n;
    s->has_logits = last;
    s->has_best_alone = last && cpu_executor_searched(e->executor);
    *n_done = n;
    return CERIUM_OK;
}

/* One pass over the next tokens, at most n_max; logits [n_max][stride] for each of them, or NULL
 * and those of the last token only where they are the newest of the timeline.  *n_done tokens
 * before n_computed were computed. */
static int compute_batch(cerium_session *s, uint32_t n_max, float *logits, uint32_t *n_done,
                         cerium_error *err)
{
    cerium_engine *e = s->engine;
    thread_spin wait = {0};
    for (;;) {
        thread_turn_take(&e->pass);
        int status = run_batch(s, n_max, logits, n_done);
        thread_turn_give(&e->pass);
        if (status == CERIUM_ERR_CANCELED) return canceled(s, err);
        if (status == CERIUM_OK) return CERIUM_OK;
        if (status == CERIUM_ERR_CAPACITY)
            return error_set(err, status, "the context of %u tokens is full", s->context_tokens);
        /* Calls that began earlier hold all pages: they end, or make room as we do. */
        if (atomic_load(&s->cancel)) return canceled(s, err);
        thread_wait_step(&wait);
    }
}

/* Compute what is not computed of the timeline, and the logits after its last token. */
static int compute(cerium_session *s, cerium_error *err)
{
    uint32_t n;
    if (s->n_computed == s->n_tokens && (!s->has_logits || s->has_best_alone))
        s->n_computed = kv_sequence_adopt(s->sequence, s->tokens, s->n_tokens - 1);
    while (s->n_computed < s->n_tokens)
        RETURN_IF(compute_batch(s, s->engine->batch_tokens_max, NULL, &n, err));
    return CERIUM_OK;
}

/* Hold what memory and disk have of the timeline, all but its last token. */
static uint32_t adopt(cerium_session *s)
{
    uint32_t n = kv_sequence_adopt(s->sequence, s->tokens, s->n_tokens - 1);
    if (engine_fetch_now(s)) n = kv_sequence_adopt(s->sequence, s->tokens, s->n_tokens - 1);
    return n;
}

static int sync(cerium_session *s, const int32_t *tokens, uint32_t n, cerium_sync_result *result,
                cerium_error *err)
{
    uint64_t start = clock_ns();
    uint32_t reused = n;
    /* The logits must be those after the last token: it is computed again unless they are. */
    bool complete = s->has_logits && !s->has_best_alone && s->n_computed == n && s->n_tokens >= n &&
                    !memcmp(tokens, s->tokens, n * sizeof *tokens);
    if (tokens != s->tokens) memmove(s->tokens, tokens, n * sizeof *tokens);
    s->n_tokens = n;
    s->stops = (stop_state){0};
    guide_close(&s->guide);
    if (!complete) {
        s->has_logits = false;
        s->n_computed = reused = adopt(s);
        atomic_fetch_add(&s->engine->counts.prompt_tokens, n);
        atomic_fetch_add(&s->engine->counts.reused_tokens, reused);
    }
    int status = compute(s, err);
    if (status) {
        s->n_tokens = s->n_computed;
        return status;
    }
    kv_sequence_mark(s->sequence);
    if (result)
        *result = (cerium_sync_result){.tokens_reused = reused,
                                       .tokens_computed = n - reused,
                                       .duration_ns = clock_ns() - start};
    return CERIUM_OK;
}

int cerium_session_sync(cerium_session *s, const int32_t *tokens, size_t n_tokens,
                        cerium_sync_result *result, cerium_error *err)
{
    if (!s || (!tokens && n_tokens)) return error_set(err, CERIUM_ERR_ARGUMENT, "no session");
    RETURN_IF(answer_check_tokens(s, tokens, n_tokens, err));
    RETURN_IF(begin_call(s, err));
    return end_call(s, sync(s, tokens, (uint32_t)n_tokens, result, err));
}

static int score(cerium_session *s, float *logprobs, cerium_error *err)
{
    uint32_t n_vocab = s->engine->n_vocab, n = 0;
    logprobs[0] = 0;
    while (s->n_computed < s->n_tokens) {
        RETURN_IF(compute_batch(s, s->score_tokens_max, s->score_logits, &n, err));
        uint32_t first = s->n_computed - n;
        for (uint32_t i = 0; i < n && first + i + 1 < s->n_tokens; i++)
            logprobs[first + i + 1] =
                sampler_logprob(s->score_logits + i * s->engine->logits_stride, n_vocab,
                                s->tokens[first + i + 1]);
    }
    return CERIUM_OK;
}

int cerium_session_score(cerium_session *s, const int32_t *tokens, size_t n_tokens,
                         float *logprobs, cerium_error *err)
{
    if (!s || !tokens || !logprobs) return error_set(err, CERIUM_ERR_ARGUMENT, "no session");
    if (!s->score_logits)
        return error_set(err, CERIUM_ERR_ARGUMENT,
                         "the session was opened without score_tokens_max");
    RETURN_IF(answer_check_tokens(s, tokens, n_tokens, err));
    RETURN_IF(begin_call(s, err));
    /* Every token's logits are wanted, so every token is computed. */
    s->n_computed = kv_sequence_adopt(s->sequence, tokens, 0);
    s->has_logits = false;
    memmove(s->tokens, tokens, n_tokens * sizeof *tokens);
    s->n_tokens = (uint32_t)n_tokens;
    s->stops = (stop_state){0};
    guide_close(&s->guide);
    int status = score(s, logprobs, err);
    if (status) s->n_tokens = s->n_computed;
    return end_call(s, status);
}

int cerium_session_guide(cerium_session *s, const cerium_guide *config, cerium_error *err)
{
    guide *guide_ = NULL;
    if (!s) return error_set(err, CERIUM_ERR_ARGUMENT, "no session");
    if (s->running) return begin_call(s, err);
    if (config) {
        RETURN_IF(guide_check(config, err));
        RETURN_IF(answer_guide(s->engine, config, &guide_, err));
    }
    guide_close(&s->guide);
    s->guide = guide_;
    return CERIUM_OK;
}

/* Append a token to the timeline and to the step. */
static void append(cerium_session *s, const cerium_sampling *sampling, int32_t token,
                   cerium_step *out)
{
    cerium_engine *e = s->engine;
    bool wants_logprob = sampling && sampling->logprobs, is_stuck = false;
    bool ends = s->guide || !(sampling && sampling->ignore_end);
    bool is_end = ends && tokenizer_is_end(e->tokens, token);
    if (wants_logprob)
        out->logprobs[out->n_tokens] = sampler_logprob(s->logits, e->n_vocab, token);
    out->tokens[out->n_tokens++] = token;
    s->tokens[s->n_tokens++] = token;
    atomic_fetch_add(&e->counts.new_tokens, 1);
    if (s->guide) {
        guide_follow(s->guide, 0, token);
        is_stuck = !is_end && guide_is_stuck(s->guide);
    }
    out->stop = is_end                                ? CERIUM_STOP_END
                : s->n_tokens == s->context_tokens ? CERIUM_STOP_LIMIT
                : is_stuck                            ? CERIUM_STOP_STUCK
                                                      : CERIUM_STOP_NONE;
    out->text_len += answer_show(s, sampling, &out->stop, s->text + out->text_len);
}

/* The next token, and those that a guide then forces, unless somebody wants to know how likely each
 * was. */
static void append_next(cerium_session *s, const cerium_sampling *sampling, cerium_step *out)
{
    cerium_engine *e = s->engine;
    uint32_t n_forced = 0;
    const int32_t *forced = s->guide ? guide_forced(s->guide, &n_forced) : NULL;
    int32_t token = n_forced ? *forced : 0;
    if (n_forced == 0) {
        thread_turn_take(&e->pass);
        token = sampler_choose_allowed(e->samplers[0], s->logits, e->n_vocab, s->allowed, sampling,
                                       s->tokens, s->n_tokens, s->n_tokens);
        thread_turn_give(&e->pass);
    }
    append(s, sampling, token, out);
    while (s->guide && !(sampling && sampling->logprobs) && out->stop == CERIUM_STOP_NONE &&
           out->n_tokens < CERIUM_STEP_TOKENS_MAX) {
        forced = guide_forced(s->guide, &n_forced);
        if (n_forced == 0) break;
        append(s, sampling, *forced, out);
    }
}

static int step_once(cerium_session *s, const cerium_sampling *sampling, cerium_step *step,
                     cerium_error *err)
{
    uint64_t start = clock_ns();
    if (atomic_load(&s->cancel)) return canceled(s, err);
    if (s->guide && guide_is_stuck(s->guide))
        return error_set(err, CERIUM_ERR_CAPACITY, "the guide allows no token: the text ended");
    s->choice = sampling;
    s->allowed = s->guide ? guide_mask(s->guide, 0) : NULL;
    s->wants_best_alone = !(sampling && sampling->logprobs);
    int status = compute(s, err);
    s->wants_best_alone = false;
    if (status) return status;
    cerium_step out = {.text = s->text};
    append_next(s, sampling, &out);
    out.duration_ns = clock_ns() - start;
    *step = out;
    return CERIUM_OK;
}

int cerium_session_step(cerium_session *s, const cerium_sampling *sampling, cerium_step *step,
                        cerium_error *err)
{
    if (!s || !step) return error_set(err, CERIUM_ERR_ARGUMENT, "no session or step");
    if (s->running) return begin_call(s, err);
    if (s->n_tokens == 0)
        return error_set(err, CERIUM_ERR_ARGUMENT, "nothing to continue: sync a prompt first");
    RETURN_IF(sampler_validate(sampling, err));
    if (s->n_tokens == s->context_tokens)
        return error_set(err, CERIUM_ERR_CAPACITY, "the context of %u tokens is full",
                         s->context_tokens);
    RETURN_IF(begin_call(s, err));
    return end_call(s, step_once(s, sampling, step, err));
}

const float *cerium_session_logits(const cerium_session *s, size_t *n_vocab)
{
    if (n_vocab) *n_vocab = s->engine->n_vocab;
    return s->has_logits ? s->logits : NULL;
}

const int32_t *cerium_session_tokens(const cerium_session *s, size_t *n_tokens)
{
    *n_tokens = s->n_tokens;
    return s->tokens;
}

size_t cerium_session_top(const cerium_session *s, cerium_logprob *out, size_t n)
{
    return s->has_logits ? sampler_top(s->logits, s->engine->n_vocab, out, n) : 0;
}

void cerium_session_cancel(cerium_session *s)
{
    atomic_store(&s->cancel, true);
    scheduler *sched = atomic_load(&s->engine->scheduler);
    if (!sched) return;
    if (atomic_load(&s->stops_pass)) scheduler_stop_pass(sched);
    scheduler_ring(sched);
}
