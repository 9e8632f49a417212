/* timeline.c - changes the tokens of a session, and tells the drafter, guide and draft session. */
#include "engine/engine.h"

void session_shorten(cerium_session *s, uint32_t n)
{
    if (s->speculates) drafter_cut(&s->drafter, s->tokens, n);
    if (s->draft) draft_session_cut(s->draft, n);
    s->n_tokens = n;
}

void session_replace(cerium_session *s, const int32_t *tokens, uint32_t n)
{
    session_cache_answer(s);
    uint32_t same = 0, most = n < s->n_tokens ? n : s->n_tokens;
    if (tokens == s->tokens) same = most;
    while (s->speculates && same < most && tokens[same] == s->tokens[same]) same++;
    if (same < s->n_tokens) session_shorten(s, same);
    if (tokens != s->tokens) memmove(s->tokens, tokens, n * sizeof *tokens);
    s->n_tokens = n;
    s->answers = false;
    s->slot.n_new = 0;
    if (s->pool) embedding_begin(s);
}

const int32_t *cerium_session_tokens(const cerium_session *s, size_t *n_tokens)
{
    *n_tokens = s->n_tokens;
    return s->tokens;
}

void cerium_session_cancel(cerium_session *s)
{
    cerium_engine *e = s->engine;
    atomic_store(&s->cancel, true);
    if (atomic_load(&s->stops_pass)) atomic_store(&e->stop_pass, true);
    engine_wake(e);
}
