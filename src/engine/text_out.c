/* text_out.c - the visible text of tokens. */
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

/* The loser of a race discards its copy. */
static int sorted_vocabulary(cerium_engine *e, const mask_vocabulary **out, cerium_error *err)
{
    mask_vocabulary *there = atomic_load(&e->vocabulary), *fresh;
    if (!there) {
        RETURN_IF(guide_vocabulary(&fresh, e->tokens, e->n_vocab, err));
        if (atomic_compare_exchange_strong(&e->vocabulary, &there, fresh)) there = fresh;
        else mask_vocabulary_close(&fresh);
    }
    *out = there;
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

/* SentencePiece put a space before the text that begins with token `at`: remove it. */
static bool begins_text(const cerium_session *s, uint32_t at)
{
    const tokenizer *t = s->engine->tokens;
    return tokenizer_adds_space(t) && at >= 1 && tokenizer_is_control(t, s->tokens[at - 1]);
}

/* The text of token `at` of the timeline. */
static view shown_text(const cerium_session *s, uint32_t at)
{
    const tokenizer *t = s->engine->tokens;
    bool is_control = tokenizer_is_control(t, s->tokens[at]);
    view text = {"", 0};
    if (is_control && (!s->control_text || tokenizer_is_end(t, s->tokens[at]))) return text;
    text.ptr = tokenizer_bytes(t, s->tokens[at], &text.len);
    if (!is_control && text.len && *text.ptr == ' ' && begins_text(s, at)) text.ptr++, text.len--;
    return text;
}

/* Skip those of n bytes that were shown before. */
static size_t leave_out_shown(cerium_session *s, char *text, size_t n)
{
    size_t out = n < s->n_shown ? n : s->n_shown;
    s->n_shown -= (uint32_t)out;
    memmove(text, text + out, n - out);
    return n - out;
}

uint32_t answer_held(const cerium_session *s)
{
    return s->stops.n_held + s->stops.n_utf8 - s->n_shown;
}

size_t answer_flush(cerium_session *s, char *text)
{
    size_t n = leave_out_shown(s, text, stop_flush(&s->stops, text));
    s->n_shown = 0;
    return n;
}

static size_t feed_stops(cerium_session *s, const cerium_sampling *sampling, view more, char *text,
                         bool *hit)
{
    return stop_feed(&s->stops, sampling ? sampling->stops : NULL,
                     sampling ? sampling->n_stops : 0, more, text, hit);
}

size_t answer_show(cerium_session *s, const cerium_sampling *sampling, cerium_stop *stop,
                   char *text)
{
    uint32_t at = s->n_tokens - 1;
    size_t n = 0;
    if (!(*stop == CERIUM_STOP_END && tokenizer_is_end(s->engine->tokens, s->tokens[at]))) {
        bool hit = false;
        n = feed_stops(s, sampling, heal_leave_out(s, shown_text(s, at)), text, &hit);
        n = leave_out_shown(s, text, n);
        if (hit) *stop = CERIUM_STOP_TEXT;
        if (hit) s->n_shown = 0;
    }
    if (*stop != CERIUM_STOP_NONE) n += answer_flush(s, text + n);
    return n;
}

void answer_hold_again(cerium_session *s, const cerium_sampling *sampling)
{
    uint32_t end = s->answer_at + s->n_answer, at = end;
    size_t n = 0;
    bool hit;
    s->stops = (stop_state){0};
    /* Bytes of the heal_prefix do not count. */
    uint32_t first = s->answer_at;
    view rest = {"", 0};
    while (first < end && s->heal_unshown)
        rest = heal_leave_out(s, shown_text(s, first++));
    while (at > first && n < STOP_HELD_MAX) n += shown_text(s, --at).len;
    if (at == first) feed_stops(s, sampling, rest, s->text, &hit);
    for (; at < end; at++) feed_stops(s, sampling, shown_text(s, at), s->text, &hit);
    s->n_shown = s->stops.n_held + s->stops.n_utf8;
}
