/* session.c - one token timeline: what of it is computed, and the next token of it. */
#include "engine/engine.h"

#include "base/memory.h"

int cerium_session_open(cerium_session **session_out, cerium_engine *engine,
                        const cerium_session_config *config, cerium_error *err)
{
    if (!session_out || !engine) return error_set(err, CERIUM_ERR_ARGUMENT, "no session or engine");
    uint32_t context = config ? config->context_tokens_max : 0;
    if (context == 0) context = engine->context_tokens_max;
    if (context > engine->context_tokens_max)
        return error_set(err, CERIUM_ERR_ARGUMENT, "a context of %u tokens: the engine has %u",
                         context, engine->context_tokens_max);
    int status = CERIUM_ERR_MEMORY;
    cerium_session *s = memory_zalloc(1, sizeof *s);
    if (!s) goto no_memory;
    s->engine = engine;
    s->context_tokens = context;
    size_t n_logits = size_round_up(engine->n_vocab, KERNEL_PANEL_ROWS);
    s->rows = memory_zalloc(engine->batch_tokens_max, sizeof *s->rows);
    s->tokens = memory_zalloc(context, sizeof *s->tokens);
    s->logits = memory_zalloc(n_logits, sizeof *s->logits);
    s->text = memory_alloc(2 * STOP_HELD_MAX + engine->token_bytes_max);
    if (config && config->score_tokens_max) {
        s->score_tokens_max = config->score_tokens_max < engine->batch_tokens_max
                                  ? config->score_tokens_max
                                  : engine->batch_tokens_max;
        s->score_logits = memory_zalloc(s->score_tokens_max, n_logits * sizeof *s->logits);
        if (!s->score_logits) goto no_memory;
    }
    if (!s->rows || !s->tokens || !s->logits || !s->text) goto no_memory;
    status = sampler_open(&s->sampler, engine->n_vocab, err);
    if (status) goto fail;
    pthread_mutex_lock(&engine->lock);
    status = kv_sequence_open(&s->sequence, engine->pool, context, err);
    pthread_mutex_unlock(&engine->lock);
    if (status) goto fail;
    *session_out = s;
    return CERIUM_OK;
no_memory:
    error_set(err, status, "no memory for a session of %u tokens", context);
fail:
    cerium_session_close(&s);
    return status;
}

void cerium_session_close(cerium_session **session)
{
    if (!session || !*session) return;
    cerium_session *s = *session;
    if (s->sequence) {
        pthread_mutex_lock(&s->engine->lock);
        kv_sequence_close(&s->sequence);
        pthread_mutex_unlock(&s->engine->lock);
    }
    sampler_close(&s->sampler);
    memory_free(s->rows);
    memory_free(s->tokens);
    memory_free(s->logits);
    memory_free(s->score_logits);
    memory_free(s->text);
    memory_free(s);
    *session = NULL;
}

static int canceled(cerium_session *s, cerium_error *err)
{
    atomic_store(&s->cancel, false);
    return error_set(err, CERIUM_ERR_CANCELED, "canceled after %u tokens", s->n_computed);
}

/* One pass over the next n tokens; logits [n][stride] for each of them, or NULL and those of the
 * last token only where they are the newest of the timeline. */
static int compute_batch(cerium_session *s, uint32_t n, float *logits, cerium_error *err)
{
    cerium_engine *e = s->engine;
    size_t stride = size_round_up(e->n_vocab, KERNEL_PANEL_ROWS);
    for (uint32_t i = 0; i < n; i++)
        s->rows[i] = (cpu_row){.token = s->tokens[s->n_computed + i],
                               .position = s->n_computed + i,
                               .sequence = s->sequence,
                               .logits = logits ? logits + i * stride : NULL};
    bool last = s->n_computed + n == s->n_tokens;
    if (last && !logits) s->rows[n - 1].logits = s->logits;
    s->has_logits = false;
    pthread_mutex_lock(&e->lock);
    int status = kv_sequence_reserve(s->sequence, s->n_computed + n);
    if (!status) status = cpu_executor_run(e->executor, s->rows, n, &s->cancel);
    pthread_mutex_unlock(&e->lock);
    if (status == CERIUM_ERR_CANCELED) return canceled(s, err);
    if (status)
        return error_set(err, status, "the context of %u tokens is full", s->context_tokens);
    if (last && logits) memcpy(s->logits, logits + (n - 1) * stride, e->n_vocab * sizeof *logits);
    s->n_computed += n;
    s->has_logits = last;
    return CERIUM_OK;
}

/* Compute tokens [n_computed, n_tokens) in batches, and the logits after the last one. */
static int compute(cerium_session *s, cerium_error *err)
{
    while (s->n_computed < s->n_tokens) {
        uint32_t n = s->n_tokens - s->n_computed;
        if (n > s->engine->batch_tokens_max) n = s->engine->batch_tokens_max;
        RETURN_IF(compute_batch(s, n, NULL, err));
    }
    return CERIUM_OK;
}

static int check_tokens(const cerium_session *s, const int32_t *tokens, size_t n_tokens,
                        cerium_error *err)
{
    if (n_tokens == 0) return error_set(err, CERIUM_ERR_ARGUMENT, "a timeline needs a token");
    if (n_tokens > s->context_tokens)
        return error_set(err, CERIUM_ERR_CAPACITY,
                         "%zu tokens do not fit into the context of %u; shorten the prompt",
                         n_tokens, s->context_tokens);
    for (size_t i = 0; i < n_tokens; i++)
        if (tokens[i] < 0 || (uint32_t)tokens[i] >= s->engine->n_vocab)
            return error_set(err, CERIUM_ERR_ARGUMENT, "token %d at %zu is not in the vocabulary",
                             tokens[i], i);
    return CERIUM_OK;
}

int cerium_session_sync(cerium_session *s, const int32_t *tokens, size_t n_tokens,
                        cerium_sync_result *result, cerium_error *err)
{
    if (!s || (!tokens && n_tokens)) return error_set(err, CERIUM_ERR_ARGUMENT, "no session");
    RETURN_IF(check_tokens(s, tokens, n_tokens, err));
    uint64_t start = clock_ns();
    uint32_t n = (uint32_t)n_tokens, common = 0;
    uint32_t limit = n < s->n_computed ? n : s->n_computed;
    while (common < limit && tokens[common] == s->tokens[common]) common++;
    /* The logits must be those after the last token: compute it again unless they are. */
    bool complete = common == n && n == s->n_computed && s->has_logits;
    if (!complete && common == n) common--;
    if (common < s->n_computed) {
        pthread_mutex_lock(&s->engine->lock);
        common = kv_sequence_truncate(s->sequence, common);
        pthread_mutex_unlock(&s->engine->lock);
        s->n_computed = common;
        s->has_logits = false;
    }
    if (tokens != s->tokens) memmove(s->tokens, tokens, n * sizeof *tokens);
    s->n_tokens = n;
    s->stops = (stop_state){0};
    int status = compute(s, err);
    if (status) {
        s->n_tokens = s->n_computed;
        return status;
    }
    if (result)
        *result = (cerium_sync_result){.tokens_reused = common,
                                       .tokens_computed = n - common,
                                       .duration_ns = clock_ns() - start};
    return CERIUM_OK;
}

int cerium_session_score(cerium_session *s, const int32_t *tokens, size_t n_tokens,
                         float *logprobs, cerium_error *err)
{
    if (!s || !tokens || !logprobs) return error_set(err, CERIUM_ERR_ARGUMENT, "no session");
    if (!s->score_logits)
        return error_set(err, CERIUM_ERR_ARGUMENT,
                         "the session was opened without score_tokens_max");
    RETURN_IF(check_tokens(s, tokens, n_tokens, err));
    uint32_t n_vocab = s->engine->n_vocab;
    size_t stride = size_round_up(n_vocab, KERNEL_PANEL_ROWS);
    pthread_mutex_lock(&s->engine->lock);
    s->n_computed = kv_sequence_truncate(s->sequence, 0);
    pthread_mutex_unlock(&s->engine->lock);
    memmove(s->tokens, tokens, n_tokens * sizeof *tokens);
    s->n_tokens = (uint32_t)n_tokens;
    s->stops = (stop_state){0};
    logprobs[0] = 0;
    while (s->n_computed < s->n_tokens) {
        uint32_t first = s->n_computed, n = s->n_tokens - first;
        if (n > s->score_tokens_max) n = s->score_tokens_max;
        int status = compute_batch(s, n, s->score_logits, err);
        if (status) {
            s->n_tokens = s->n_computed;
            return status;
        }
        for (uint32_t i = 0; i < n && first + i + 1 < s->n_tokens; i++)
            logprobs[first + i + 1] = sampler_logprob(s->score_logits + i * stride, n_vocab,
                                                      s->tokens[first + i + 1]);
    }
    return CERIUM_OK;
}

/* SentencePiece put a space before the text that the newest token begins: it is not of the text. */
static bool begins_text(const cerium_session *s)
{
    const tokenizer *t = s->engine->tokens;
    return tokenizer_adds_space(t) && s->n_tokens >= 2 &&
           tokenizer_is_control(t, s->tokens[s->n_tokens - 2]);
}

/* What of the token may be shown now, into s->text. */
static size_t show(cerium_session *s, const cerium_sampling *sampling, int32_t token,
                   cerium_stop *stop)
{
    size_t len = 0, n = 0;
    bool hit = false, is_end = *stop == CERIUM_STOP_END;
    if (!is_end && !tokenizer_is_control(s->engine->tokens, token)) {
        const char *bytes_of = tokenizer_bytes(s->engine->tokens, token, &len);
        if (len && *bytes_of == ' ' && begins_text(s)) bytes_of++, len--;
        n = stop_feed(&s->stops, sampling ? sampling->stops : NULL,
                      sampling ? sampling->n_stops : 0, (view){bytes_of, len}, s->text, &hit);
        if (hit) *stop = CERIUM_STOP_TEXT;
    }
    if (*stop != CERIUM_STOP_NONE) n += stop_flush(&s->stops, s->text + n);
    return n;
}

int cerium_session_step(cerium_session *s, const cerium_sampling *sampling, cerium_step *step,
                        cerium_error *err)
{
    if (!s || !step) return error_set(err, CERIUM_ERR_ARGUMENT, "no session or step");
    if (s->n_tokens == 0)
        return error_set(err, CERIUM_ERR_ARGUMENT, "nothing to continue: sync a prompt first");
    RETURN_IF(sampler_validate(sampling, err));
    if (s->n_tokens == s->context_tokens)
        return error_set(err, CERIUM_ERR_CAPACITY, "the context of %u tokens is full",
                         s->context_tokens);
    uint64_t start = clock_ns();
    if (atomic_load(&s->cancel)) return canceled(s, err);
    RETURN_IF(compute(s, err));
    uint32_t n_vocab = s->engine->n_vocab;
    int32_t token = sampler_choose(s->sampler, s->logits, n_vocab, sampling, s->tokens,
                                   s->n_tokens, s->n_tokens);
    cerium_step out = {.n_tokens = 1, .tokens = {token}};
    if (sampling && sampling->logprobs)
        out.logprobs[0] = sampler_logprob(s->logits, n_vocab, token);
    s->tokens[s->n_tokens++] = token;
    bool goes_on = sampling && sampling->ignore_end;
    if (!goes_on && tokenizer_is_end(s->engine->tokens, token))
        out.stop = CERIUM_STOP_END;
    else if (s->n_tokens == s->context_tokens)
        out.stop = CERIUM_STOP_LIMIT;
    out.text_len = show(s, sampling, token, &out.stop);
    out.text = s->text;
    out.duration_ns = clock_ns() - start;
    *step = out;
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

void cerium_session_cancel(cerium_session *s) { atomic_store(&s->cancel, true); }
