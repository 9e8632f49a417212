/* session.c - sessions: opening, closing, and the calls that compute a timeline. */
#include "engine/engine.h"

#include "base/memory.h"

/* Large buffers are mapped and not touched: opening takes microseconds whatever their size. */
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
    if (!engine->pool)
        return error_set(err, CERIUM_ERR_ARGUMENT,
                         "the engine was opened for its vocabulary alone");
    if (!config) config = &defaults;
    if (config->embeds && !engine->pooling)
        return error_set(err, CERIUM_ERR_ARGUMENT, "the model's file names no pooling");
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
        s->share_key = config->client ? config->client : config->tenant;
        s->speculates = engine->speculates && !config->no_speculation;
        status = take_memory(s, config->score_tokens_max);
        if (!status && config->embeds) status = embedding_open(&s->pool, engine);
    }
    if (status)
        error_set(err, status, "no memory for a session of %u tokens", context);
    else
        status = claim_open(&s->pages, engine, context, config->tenant, err);
    if (!status && engine->draft && s->speculates) status = draft_session_open(&s->draft, s, err);
    if (status) {
        cerium_session_close(&s);
        return status;
    }
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
                                    .tenant = from->pages.tenant,
                                    .client = from->share_key,
                                    .control_text = from->control_text,
                                    .score_tokens_max = from->score_tokens_max};
    cerium_session *s = NULL;
    RETURN_IF(cerium_session_open(&s, e, &config, err));
    memcpy(s->tokens, from->tokens, from->n_tokens * sizeof *s->tokens);
    s->n_tokens = from->n_tokens;
    s->stops = from->stops;
    s->n_shown = from->n_shown;
    heal_copy(s, from);
    if (heal_is_open(s) && answer_need_mask(s, err)) {
        cerium_session_close(&s);
        return CERIUM_ERR_MEMORY;
    }
    thread_turn_take(&e->pass);
    uint32_t n = kv_sequence_fork(s->pages.sequence, from->pages.sequence);
    thread_turn_give(&e->pass);
    s->n_computed = n < from->n_computed ? n : from->n_computed;
    s->has_logits = from->has_logits && s->n_computed == from->n_computed;
    s->logits_at = from->logits_at;
    s->has_best_alone = from->has_best_alone;
    if (s->has_logits) memcpy(s->logits, from->logits, e->logits_stride * sizeof *s->logits);
    *session_out = s;
    return CERIUM_OK;
}

void cerium_session_close(cerium_session **session)
{
    if (!session || !*session) return;
    cerium_session *s = *session;
    request_close(s);
    session_cache_answer(s);
    session_give_texts(s);
    draft_session_close(&s->draft);
    claim_close(&s->pages);
    engine_has_room(s->engine);
    memory_free(s->tokens);
    memory_free(s->logits);
    memory_free(s->score_logits);
    embedding_close(&s->pool);
    memory_free(s->text);
    guide_close(&s->slot.guide);
    memory_free(s->drafter_memory);
    memory_free(s->avoid_mask);
    guide_close(&s->within);
    pointer_close(&s->pointer);
    memory_free(s);
    *session = NULL;
}

/* Adopt the timeline from memory and disk, without its last token. */
static uint32_t adopt(cerium_session *s)
{
    const uint32_t most = embedding_skips(s, s->n_tokens - 1);
    uint32_t n = kv_sequence_adopt(s->pages.sequence, s->tokens, most);
    if (engine_fetch_now(s)) n = kv_sequence_adopt(s->pages.sequence, s->tokens, most);
    return n;
}

static int sync(cerium_session *s, const int32_t *tokens, uint32_t n, const cerium_resume *resume,
                cerium_sync_result *result, cerium_error *err)
{
    uint64_t start = clock_ns();
    uint32_t reused = n;
    /* The logits must be those after the last token: it is computed again unless they are. */
    bool complete = !s->pool && !(resume && resume->n_note) &&
                    session_has_all_logits(s, n) && s->n_tokens >= n &&
                    !memcmp(tokens, s->tokens, n * sizeof *tokens);
    session_replace(s, tokens, n);
    int status = answer_resume(s, resume, NULL, err);
    if (status) complete = false;
    guide_close(&s->slot.guide);
    if (!complete) {
        s->has_logits = false;
        s->n_computed = reused = adopt(s);
        atomic_fetch_add(&s->engine->counts.prompt_tokens, n);
        atomic_fetch_add(&s->engine->counts.reused_tokens, reused);
    }
    if (!status) status = session_compute(s, NULL, err);
    if (status) {
        session_shorten(s, s->n_computed);
        return status;
    }
    kv_sequence_mark(s->pages.sequence);
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
        RETURN_IF(session_compute_all(s, s->score_tokens_max, s->score_logits, &n, err));
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
    s->n_computed = kv_sequence_adopt(s->pages.sequence, tokens, 0);
    s->has_logits = false;
    session_replace(s, tokens, (uint32_t)n_tokens);
    guide_close(&s->slot.guide);
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
        if (heal_is_open(s))
            return error_set(err, CERIUM_ERR_ARGUMENT, "a heal_prefix goes without a guide");
        RETURN_IF(answer_guide(s->engine, config, &guide_, err));
        int status = answer_resume_guide(s, guide_, err);
        if (status) {
            guide_close(&guide_);
            return status;
        }
    }
    guide_close(&s->slot.guide);
    s->slot.guide = guide_;
    return CERIUM_OK;
}

const float *cerium_session_logits(const cerium_session *s, size_t *n_vocab)
{
    if (n_vocab) *n_vocab = s->engine->n_vocab;
    return s->has_logits ? s->logits : NULL;
}

size_t cerium_session_top(const cerium_session *s, cerium_logprob *out, size_t n)
{
    return s->has_logits ? sampler_top(s->logits, s->engine->n_vocab, out, n) : 0;
}
