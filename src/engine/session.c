/* session.c - one token timeline, and what of it is computed. */
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

void session_shorten(cerium_session *s, uint32_t n)
{
    if (s->speculates) drafter_cut(&s->drafter, s->tokens, n);
    if (s->side) draft_side_cut(s->side, n);
    s->n_tokens = n;
}

void session_replace(cerium_session *s, const int32_t *tokens, uint32_t n)
{
    session_recall(s);
    uint32_t same = 0, most = n < s->n_tokens ? n : s->n_tokens;
    if (tokens == s->tokens) same = most;
    while (s->speculates && same < most && tokens[same] == s->tokens[same]) same++;
    if (same < s->n_tokens) session_shorten(s, same);
    if (tokens != s->tokens) memmove(s->tokens, tokens, n * sizeof *tokens);
    s->n_tokens = n;
    s->answers = false;
}

/* Large buffers come untouched from the system: opening costs microseconds, not their size. */
static int take_memory(cerium_session *s, uint32_t score_tokens)
{
    const cerium_engine *e = s->engine;
    s->tokens = memory_alloc(s->context_tokens * sizeof *s->tokens);
    s->logits = memory_alloc(e->logits_stride * sizeof *s->logits);
    s->text = memory_alloc(step_text_max(e));
    if (!s->tokens || !s->logits || !s->text) return CERIUM_ERR_MEMORY;
    if (s->speculates) {
        s->drafter_memory = memory_alloc(drafter_bytes(s->context_tokens));
        if (!s->drafter_memory) return CERIUM_ERR_MEMORY;
        drafter_open(&s->drafter, s->drafter_memory, s->context_tokens);
    }
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
        s->speculates = engine->speculates && !config->no_speculation;
        s->tenant = config->tenant;
        atomic_store(&s->rank, rank_idle(engine));
        status = take_memory(s, config->score_tokens_max);
    }
    if (status)
        error_set(err, status, "no memory for a session of %u tokens", context);
    else
        status = kv_sequence_open(&s->sequence, engine->pool, context, config->tenant, err);
    if (!status && engine->draft && s->speculates) status = draft_side_open(&s->side, s, err);
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
    s->n_shown = from->n_shown;
    opening_copy(s, from);
    if (opening_is_open(s) && answer_need_mask(s, err)) {
        cerium_session_close(&s);
        return CERIUM_ERR_MEMORY;
    }
    thread_turn_take(&e->pass);
    uint32_t n = kv_sequence_fork(s->sequence, from->sequence);
    thread_turn_give(&e->pass);
    s->n_computed = n < from->n_computed ? n : from->n_computed;
    s->has_logits = from->has_logits && s->n_computed == from->n_computed;
    s->has_best_alone = from->has_best_alone;
    if (s->has_logits) memcpy(s->logits, from->logits, e->logits_stride * sizeof *s->logits);
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
    session_recall(s);
    session_give_texts(s);
    draft_side_close(&s->side);
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
    memory_free(s->drafter_memory);
    memory_free(s->avoid_mask);
    pointer_close(&s->pointer);
    memory_free(s);
    *session = NULL;
}

/* ---- a call that computes: it ranks with the highest class while it lasts ---- */

int session_begin_call(cerium_session *s, cerium_error *err)
{
    if (s->running)
        return error_set(err, CERIUM_ERR_ARGUMENT,
                         "a request runs in this session: poll it to its end first");
    uint64_t ticket = atomic_fetch_add(&s->engine->n_tickets, 1);
    atomic_store(&s->rank, rank_of(CERIUM_CLASS_COMPLETION, ticket));
    return CERIUM_OK;
}

int session_end_call(cerium_session *s, int status)
{
    atomic_store(&s->rank, rank_idle(s->engine));
    ring_scheduler(s->engine);
    return status;
}

int session_canceled(cerium_session *s, cerium_error *err)
{
    atomic_store(&s->cancel, false);
    return error_set(err, CERIUM_ERR_CANCELED, "canceled after %u tokens", s->n_computed);
}

/* Within a pass: compute up to n_max of the tokens that come next, and drafts after the last of
 * them if a step runs.  See compute_batch. */
static int run_batch(cerium_session *s, uint32_t n_max, float *logits, uint32_t *n_done)
{
    cerium_engine *e = s->engine;
    if (kv_sequence_length(s->sequence) != s->n_computed) /* others needed the room since */
        s->n_computed = kv_sequence_adopt(s->sequence, s->tokens, s->n_computed);
    uint32_t first = s->n_computed, n = s->n_tokens - first, n_drafts = 0;
    if (n > n_max) n = n_max;
    bool last = first + n == s->n_tokens, steps = last && s->step;
    RETURN_IF(engine_make_room(e, s, first + n));
    if (steps && n == 1) step_draft(s);
    if (steps) n_drafts = s->step->n_drafts;
    float *newest = n_drafts ? e->logits : s->logits;
    for (uint32_t i = 0; i < n + n_drafts; i++) {
        cpu_row *row = &e->rows[i];
        *row = (cpu_row){.token = i < n ? s->tokens[first + i] : s->step->drafts[i - n],
                         .position = first + i,
                         .sequence = s->sequence};
        if (logits) engine_take_logits(e, row, logits + i * e->logits_stride);
        if (!last || logits || i + 1 < n) continue;
        engine_take_logits(e, row, newest + (i + 1 - n) * e->logits_stride);
        if (steps && !(s->step->sampling && s->step->sampling->logprobs))
            engine_want(row, s->step->sampling, s->tokens, s->n_tokens, s->step->drafts,
                        i + 1 - n, answer_mask(s, s->guide, i + 1 - n));
    }
    s->has_logits = false;
    RETURN_IF(engine_run(e, n + n_drafts, &s->cancel));
    kv_sequence_commit(s->sequence, s->tokens + first, n);
    if (last && logits)
        memcpy(s->logits, logits + (n - 1) * e->logits_stride, e->logits_stride * sizeof *logits);
    s->n_computed += n;
    s->has_logits = last;
    s->has_best_alone = last && cpu_executor_searched(e->executor);
    if (steps) step_choose(s, newest);
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
        if (status == CERIUM_ERR_CANCELED) return session_canceled(s, err);
        if (status == CERIUM_OK) return CERIUM_OK;
        if (status == CERIUM_ERR_CAPACITY)
            return error_set(err, status, "the context of %u tokens is full", s->context_tokens);
        /* Calls that began earlier hold all pages: they end, or make room as we do. */
        if (atomic_load(&s->cancel)) return session_canceled(s, err);
        thread_wait_step(&wait);
    }
}

/* Compute what is not computed of the timeline, and the logits after its last token. */
int session_compute(cerium_session *s, cerium_error *err)
{
    uint32_t n;
    if (s->n_computed == s->n_tokens && (!s->has_logits || s->has_best_alone))
        s->n_computed = kv_sequence_adopt(s->sequence, s->tokens, s->n_tokens - 1);
    while (s->n_computed < s->n_tokens) {
        RETURN_IF(compute_batch(s, s->engine->batch_tokens_max, NULL, &n, err));
        if (s->step && (s->step->n_chosen || s->step->is_broken)) break;
    }
    return CERIUM_OK;
}

/* Hold what memory and disk have of the timeline, all but its last token. */
static uint32_t adopt(cerium_session *s)
{
    uint32_t n = kv_sequence_adopt(s->sequence, s->tokens, s->n_tokens - 1);
    if (engine_fetch_now(s)) n = kv_sequence_adopt(s->sequence, s->tokens, s->n_tokens - 1);
    return n;
}

static int sync(cerium_session *s, const int32_t *tokens, uint32_t n, const cerium_resume *resume,
                cerium_sync_result *result, cerium_error *err)
{
    uint64_t start = clock_ns();
    uint32_t reused = n;
    /* The logits must be those after the last token: it is computed again unless they are. */
    bool complete = !(resume && resume->n_note) && s->has_logits && !s->has_best_alone &&
                    s->n_computed == n && s->n_tokens >= n &&
                    !memcmp(tokens, s->tokens, n * sizeof *tokens);
    session_replace(s, tokens, n);
    int status = answer_resume(s, resume, NULL, err);
    if (status) complete = false;
    guide_close(&s->guide);
    if (!complete) {
        s->has_logits = false;
        s->n_computed = reused = adopt(s);
        atomic_fetch_add(&s->engine->counts.prompt_tokens, n);
        atomic_fetch_add(&s->engine->counts.reused_tokens, reused);
    }
    if (!status) status = session_compute(s, err);
    if (status) {
        session_shorten(s, s->n_computed);
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
    RETURN_IF(session_begin_call(s, err));
    return session_end_call(s, sync(s, tokens, (uint32_t)n_tokens, NULL, result, err));
}

int cerium_session_resume(cerium_session *s, const int32_t *tokens, size_t n_tokens,
                          const cerium_resume *resume, cerium_sync_result *result,
                          cerium_error *err)
{
    if (!s || (!tokens && n_tokens)) return error_set(err, CERIUM_ERR_ARGUMENT, "no session");
    RETURN_IF(answer_check_tokens(s, tokens, n_tokens, err));
    RETURN_IF(answer_check_resume(s, resume, tokens, n_tokens, err));
    RETURN_IF(session_begin_call(s, err));
    atomic_store(&s->cancel, false);
    return session_end_call(s, sync(s, tokens, (uint32_t)n_tokens, resume, result, err));
}

static int32_t likeliest_of(const float *logits, uint32_t n_vocab)
{
    uint32_t best = 0;
    for (uint32_t i = 1; i < n_vocab; i++)
        if (logits[i] > logits[best]) best = i;
    return (int32_t)best;
}

static int score(cerium_session *s, float *logprobs, int32_t *likeliest, cerium_error *err)
{
    uint32_t n_vocab = s->engine->n_vocab, n = 0;
    logprobs[0] = 0;
    if (likeliest) likeliest[0] = -1;
    while (s->n_computed < s->n_tokens) {
        RETURN_IF(compute_batch(s, s->score_tokens_max, s->score_logits, &n, err));
        uint32_t first = s->n_computed - n;
        for (uint32_t i = 0; i < n; i++)
            if (!sampler_are_numbers(s->score_logits + i * s->engine->logits_stride, n_vocab))
                return engine_broken(s->engine, err);
        for (uint32_t i = 0; i < n && first + i + 1 < s->n_tokens; i++) {
            const float *logits = s->score_logits + i * s->engine->logits_stride;
            const uint32_t at = first + i + 1;
            logprobs[at] = sampler_logprob(logits, n_vocab, NULL, s->tokens[at]);
            if (likeliest) likeliest[at] = likeliest_of(logits, n_vocab);
        }
    }
    return CERIUM_OK;
}

int cerium_session_score(cerium_session *s, const int32_t *tokens, size_t n_tokens,
                         float *logprobs, cerium_error *err)
{
    return cerium_session_score_top(s, tokens, n_tokens, logprobs, NULL, err);
}

int cerium_session_score_top(cerium_session *s, const int32_t *tokens, size_t n_tokens,
                             float *logprobs, int32_t *likeliest, cerium_error *err)
{
    if (!s || !tokens || !logprobs) return error_set(err, CERIUM_ERR_ARGUMENT, "no session");
    if (!s->score_logits)
        return error_set(err, CERIUM_ERR_ARGUMENT,
                         "the session was opened without score_tokens_max");
    RETURN_IF(answer_check_tokens(s, tokens, n_tokens, err));
    RETURN_IF(session_begin_call(s, err));
    /* Every token's logits are wanted, so every token is computed. */
    s->n_computed = kv_sequence_adopt(s->sequence, tokens, 0);
    s->has_logits = false;
    session_replace(s, tokens, (uint32_t)n_tokens);
    guide_close(&s->guide);
    int status = answer_resume(s, NULL, NULL, err);
    if (!status) status = score(s, logprobs, likeliest, err);
    if (status) session_shorten(s, s->n_computed);
    return session_end_call(s, status);
}

int cerium_session_guide(cerium_session *s, const cerium_guide *config, cerium_error *err)
{
    guide *guide_ = NULL;
    if (!s) return error_set(err, CERIUM_ERR_ARGUMENT, "no session");
    if (s->running) return session_begin_call(s, err);
    if (config) {
        RETURN_IF(guide_check(config, err));
        if (opening_is_open(s))
            return error_set(err, CERIUM_ERR_ARGUMENT, "an opening goes without a guide");
        RETURN_IF(answer_guide(s->engine, config, &guide_, err));
        int status = answer_resume_guide(s, guide_, err);
        if (status) {
            guide_close(&guide_);
            return status;
        }
    }
    guide_close(&s->guide);
    s->guide = guide_;
    return CERIUM_OK;
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
