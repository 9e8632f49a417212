/* speculate.c - drafts of a session, and which of them hold: those that are what would have been
 * chosen without them. */
#include "engine/engine.h"

static void count_time(const cerium_session *s, uint64_t start)
{
    atomic_fetch_add(&s->engine->counts.drafting_ns, clock_ns() - start);
}

uint32_t session_draft(const cerium_session *s, uint32_t n_rows, uint32_t n_max, int32_t *out,
                       draft_source *source)
{
    if (!s->speculates || n_max == 0 || s->n_avoid > 0 || opening_is_open(s)) return 0;
    uint64_t start = clock_ns();
    const draft_pace *pace = s->engine->drafts_always ? NULL : &s->engine->pace;
    uint32_t n =
        drafter_draft(&s->drafter, pace, s->tokens, s->n_tokens, n_rows, n_max, out, source);
    count_time(s, start);
    return n;
}

void session_follow(cerium_session *s)
{
    if (!s->speculates) return;
    uint64_t start = clock_ns();
    drafter_follow(&s->drafter, s->tokens, s->n_tokens);
    count_time(s, start);
}

void session_begin_answer(cerium_session *s, const int32_t *prediction, uint32_t n_prediction,
                          void *memory)
{
    if (!s->speculates) return;
    uint64_t start = clock_ns();
    session_give_texts(s);
    /* A workspace is one user's: whoever has a key of his own gets nothing of it, not even time. */
    if (s->engine->workspace && s->tenant == 0) s->texts = workspace_take(s->engine->workspace);
    draft_hints hints = {prediction, n_prediction, memory, s->texts};
    drafter_begin(&s->drafter, s->tokens, s->n_tokens, &hints);
    count_time(s, start);
    s->answers = true;
}

void session_give_texts(cerium_session *s)
{
    if (s->texts) workspace_give(s->engine->workspace, s->texts);
    s->texts = NULL;
}

void engine_count_drafts(cerium_engine *e, draft_source source, uint32_t n_drafts,
                         uint32_t n_accepted)
{
    atomic_fetch_add(&e->counts.drafted_tokens, n_drafts);
    atomic_fetch_add(&e->counts.accepted_tokens, n_accepted);
    if (n_drafts == 0 || source != DRAFT_WORKSPACE) return;
    atomic_fetch_add(&e->counts.workspace_drafted_tokens, n_drafts);
    atomic_fetch_add(&e->counts.workspace_accepted_tokens, n_accepted);
}

/* The token after n of the timeline, at a place of its guide. */
static int32_t choose_at(cerium_session *s, sampler *scratch, const cerium_sampling *sampling,
                         guide *g, const float *logits, uint32_t place)
{
    uint32_t n = s->n_tokens + place, n_forced = 0;
    const int32_t *forced = g ? guide_forced(g, &n_forced) : NULL;
    if (n_forced > 0) return *forced;
    return sampler_choose_allowed(scratch, logits, s->engine->n_vocab,
                                  answer_mask(s, g, place), sampling, s->tokens, n, n);
}

uint32_t verify(cerium_session *s, sampler *scratch, const cerium_sampling *sampling, guide *g,
                const float *logits, const int32_t *drafts, uint32_t n_drafts,
                const int32_t *script, chosen_token *chosen, cerium_logprob *top, uint32_t n_top)
{
    const cerium_engine *e = s->engine;
    for (uint32_t i = 0; i <= n_drafts; i++, logits += e->logits_stride) {
        uint32_t n = s->n_tokens + i;
        chosen_token *to = &chosen[i];
        /* The choice is made as ever: a script costs what it stands for. */
        to->token = choose_at(s, scratch, sampling, script ? NULL : g, logits, i);
        if (script) to->token = script[i];
        to->logprob = 0;
        if (sampling && sampling->logprobs)
            to->logprob = sampler_logprob(logits, e->n_vocab, to->token);
        to->n_top = 0;
        if (n_top) to->n_top = (uint32_t)sampler_top(logits, e->n_vocab, top + i * n_top, n_top);
        s->tokens[n] = to->token;
        if (i == n_drafts || drafts[i] != to->token) return i + 1;
    }
    return n_drafts + 1;
}
