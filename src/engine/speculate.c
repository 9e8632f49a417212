/* speculate.c - drafts of a session: from texts around it, and from a draft model. */
#include "engine/engine.h"

static void count_time(const cerium_session *s, uint64_t start)
{
    atomic_fetch_add(&s->engine->counts.drafting_ns, clock_ns() - start);
}

static uint32_t draft_from_texts(cerium_session *s, uint32_t n_rows, uint32_t n_max, int32_t *out,
                                 draft_source *source)
{
    uint64_t start = clock_ns();
    const draft_pace *pace = s->engine->drafts_always ? NULL : &s->engine->pace;
    s->drafter.past = answer_cache_take(s->engine->answers_given, s->pages.tenant);
    uint32_t n =
        drafter_draft(&s->drafter, pace, s->tokens, s->n_tokens, n_rows, n_max, out, source);
    answer_cache_give(s->engine->answers_given);
    count_time(s, start);
    return n;
}

uint32_t session_draft(cerium_session *s, uint32_t n_rows, uint32_t n_sharing, uint32_t n_max,
                       int32_t *out, draft_source *source)
{
    if (!s->speculates) return 0;
    if (s->n_avoid > 0 || s->within || heal_is_open(s)) n_max = 0;
    uint32_t n = n_max ? draft_from_texts(s, n_rows, n_max, out, source) : 0;
    if (!s->draft) return n;
    /* Drafts from texts are free: use the draft model only if no text has one. */
    uint32_t n_guesses = draft_session_guess(s, n_rows, n_sharing, n ? 0 : n_max, out);
    if (n_guesses) *source = DRAFT_MODEL;
    return n + n_guesses;
}

/* Use earlier answers only while they are locked: other sessions change them between. */
static void follow(cerium_session *s)
{
    s->drafter.past = answer_cache_take(s->engine->answers_given, s->pages.tenant);
    drafter_follow(&s->drafter, s->tokens, s->n_tokens);
    answer_cache_give(s->engine->answers_given);
}

void session_follow(cerium_session *s)
{
    if (!s->speculates) return;
    uint64_t start = clock_ns();
    follow(s);
    count_time(s, start);
}

void session_begin_answer(cerium_session *s, const int32_t *prediction, uint32_t n_prediction,
                          void *memory)
{
    if (!s->speculates) return;
    uint64_t start = clock_ns();
    session_give_texts(s);
    /* A workspace belongs to one user: tenants with keys of their own get no drafts of it, and no
     * time. */
    if (s->engine->workspace && s->pages.tenant == 0)
        s->texts = workspace_take(s->engine->workspace);
    draft_hints hints = {prediction, n_prediction, memory, s->texts};
    s->drafter.past = NULL; /* a prompt may be long: not while others wait for them */
    drafter_begin(&s->drafter, s->tokens, s->n_tokens, &hints);
    follow(s);
    count_time(s, start);
    s->recalled = s->n_answer && !s->is_private ? s->answer_at : s->n_tokens;
    s->answers = true;
    if (s->draft) draft_session_forget(s->draft);
}

void session_cache_answer(cerium_session *s)
{
    if (!s->answers || s->is_private || s->recalled >= s->n_tokens) return;
    answer_cache_add(s->engine->answers_given, s->pages.tenant, s->tokens, s->recalled,
                     s->n_tokens);
    s->recalled = s->n_tokens;
}

void session_give_texts(cerium_session *s)
{
    if (s->texts) workspace_give(s->engine->workspace, s->texts);
    s->texts = NULL;
}

void session_drafted(cerium_session *s, draft_source source, uint32_t n_drafts,
                     uint32_t n_accepted, const int32_t *chosen, uint32_t n_chosen)
{
    engine_counts *c = &s->engine->counts;
    if (s->draft)
        draft_session_learn(s, chosen, n_chosen, source == DRAFT_MODEL ? n_drafts : 0);
    if (n_drafts == 0) return;
    atomic_fetch_add(&c->drafted[source], n_drafts);
    atomic_fetch_add(&c->accepted[source], n_accepted);
}
