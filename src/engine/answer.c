/* answer.c - between tokens and what a reader sees of them. */
#include "engine/engine.h"

int answer_check_tokens(const cerium_session *s, const int32_t *tokens, size_t n_tokens,
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

/* Sorted outside the lock, which others need for every session: of two that begin at the same time
 * one has sorted in vain. */
static int sorted_vocabulary(cerium_engine *e, const mask_vocabulary **out, cerium_error *err)
{
    mask_vocabulary *fresh = NULL;
    pthread_mutex_lock(&e->lock);
    *out = e->vocabulary;
    pthread_mutex_unlock(&e->lock);
    if (*out) return CERIUM_OK;
    RETURN_IF(guide_vocabulary(&fresh, e->tokens, e->n_vocab, err));
    pthread_mutex_lock(&e->lock);
    if (!e->vocabulary) {
        e->vocabulary = fresh;
        fresh = NULL;
    }
    *out = e->vocabulary;
    pthread_mutex_unlock(&e->lock);
    mask_vocabulary_close(&fresh);
    return CERIUM_OK;
}

int cerium_engine_prepare_guides(cerium_engine *engine, cerium_error *err)
{
    const mask_vocabulary *v;
    if (!engine) return error_set(err, CERIUM_ERR_ARGUMENT, "no engine");
    return sorted_vocabulary(engine, &v, err);
}

int answer_guide(cerium_engine *e, const cerium_guide *config, guide **out, cerium_error *err)
{
    const mask_vocabulary *v;
    RETURN_IF(sorted_vocabulary(e, &v, err));
    return guide_open(out, config, v, e->tokens, err);
}

size_t answer_text_max(const cerium_engine *e) { return 2 * STOP_HELD_MAX + e->token_bytes_max; }

/* SentencePiece put a space before the text that the newest token begins: it is not of the text. */
static bool begins_text(const cerium_session *s)
{
    const tokenizer *t = s->engine->tokens;
    return tokenizer_adds_space(t) && s->n_tokens >= 2 &&
           tokenizer_is_control(t, s->tokens[s->n_tokens - 2]);
}

size_t answer_show(cerium_session *s, const cerium_sampling *sampling, cerium_stop *stop,
                   char *text)
{
    const tokenizer *t = s->engine->tokens;
    int32_t token = s->tokens[s->n_tokens - 1];
    bool is_control = tokenizer_is_control(t, token), is_end = tokenizer_is_end(t, token);
    bool shown = !is_control || (s->control_text && !is_end);
    size_t len = 0, n = 0;
    if (shown && !(is_end && *stop == CERIUM_STOP_END)) {
        bool hit = false;
        const char *bytes_of = tokenizer_bytes(t, token, &len);
        if (!is_control && len && *bytes_of == ' ' && begins_text(s)) bytes_of++, len--;
        n = stop_feed(&s->stops, sampling ? sampling->stops : NULL,
                      sampling ? sampling->n_stops : 0, (view){bytes_of, len}, text, &hit);
        if (hit) *stop = CERIUM_STOP_TEXT;
    }
    if (*stop != CERIUM_STOP_NONE) n += stop_flush(&s->stops, text + n);
    return n;
}
