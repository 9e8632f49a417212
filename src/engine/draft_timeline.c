/* draft_timeline.c - a session's timeline in its draft model or head.
 *
 * All but the last token of the draft model's timeline is committed to the KV cache.  The last one
 * is computed each time for its logits.  Unconfirmed rows of guesses follow it: if the timeline
 * grows by the same tokens they are committed, else they are overwritten.  Those of a head always
 * are, but for the last token: their states were its own, and then are the model's. */
#include "engine/draft_round.h"

enum {
    PIECE_MIN = 16,     /* least number of tokens computed to catch up */
    GAP_MAX = 32,       /* tokens without a state, before a head begins anew after them */
};

static const double PIECE_PART = 0.25; /* part of a pass that catching up may take */

/* ---- rows ---- */

/* What a head reads beside the token at this place of its timeline. */
static const float *state_of(const draft_session *d, uint32_t at)
{
    const uint32_t token = d->text.begin + at;
    if (d->is_block) return taps_of(&d->states, token); /* what is kept is of the token itself */
    if (!d->own || token == 0) return NULL;
    return at < d->text.n ? taps_of(&d->states, token - 1) : d->own;
}

/* Compute tokens [n] from `first` on, with logits after the last n_logits of them.  False: there is
 * no room, or the session was canceled. */
static bool run(draft_round *r, const int32_t *tokens, uint32_t first, uint32_t n,
                uint32_t n_logits)
{
    cerium_engine *e = r->m->engine;
    draft_session *d = r->d;
    if (claim_reserve(&d->pages, first + n)) return false;
    for (uint32_t i = 0; i < n; i++) {
        e->rows[i] = (cpu_row){.token = tokens[i],
                               .position = first + i,
                               .sequence = d->pages.sequence,
                               .last_state = state_of(d, first + i),
                               .is_own = first + i >= d->text.n,
                               .panels = r->panels,
                               .n_panels = r->n_panels,
                               .n_best = 2};
        if (i + n_logits < n) continue;
        engine_take_logits(e, &e->rows[i], e->logits + (i + n_logits - n) * e->logits_stride);
    }
    if (n_logits && r->n_open) e->rows[n - n_logits].n_best = 0; /* any of them may spell it */
    uint64_t start = clock_thread_ns();
    if (cpu_executor_run(e->executor, e->rows, n, &r->s->cancel)) return false;
    uint64_t ns = clock_thread_ns() - start;
    if (n_logits && n <= 2) budget_learn_ask(&r->m->budget, ns);
    cost_learn(&e->cost, n, ns);
    atomic_fetch_add(&r->m->passes, 1);
    atomic_fetch_add(&r->m->computed, n);
    if (n_logits) r->logits = e->rows[n - 1].logits;
    if (n_logits && d->own) cpu_executor_state(e->executor, n - 1, d->own);
    return true;
}

/* ---- the timeline ---- */

/* The last bytes of the timeline may be the beginning of something. */
static void take_open(draft_round *r)
{
    translation *x = &r->d->text;
    const tokenizer *t = r->m->engine->tokens;
    r->n_known = x->n;
    r->last = TOKEN_NONE;
    if (translator_copies(r->m->translator)) return;
    if (x->n >= 2 && !tokenizer_is_control(t, x->tokens[x->n - 1])) {
        size_t len;
        const char *text = tokenizer_bytes(t, x->tokens[x->n - 1], &len);
        if (len > 0 && len + x->n_open <= sizeof r->open) {
            memcpy(r->open, text, len);
            r->n_open = (uint32_t)len;
            r->last = x->tokens[--r->n_known];
        }
    }
    memcpy(r->open + r->n_open, x->open, x->n_open);
    r->n_open += x->n_open;
    if (x->n_open) r->last = TOKEN_NONE; /* it is not the whole text */
}

/* Commit confirmed tokens, and adopt from the cache, up to the last known token. */
static void settle(draft_round *r)
{
    draft_session *d = r->d;
    kv_sequence *seq = d->pages.sequence;
    const int32_t *tokens = d->text.tokens;
    uint32_t most = r->n_known - 1, n = 0;
    bool holds = !d->is_new && d->text.n_same >= d->n_computed && d->n_computed <= most &&
                 kv_sequence_length(seq) == d->n_computed;
    d->text.n_same = d->text.n;
    d->is_new = false;
    if (d->own && d->n_ahead > 1) d->n_ahead = 1;
    if (holds) {
        while (n < d->n_ahead && d->n_computed + n < most &&
               tokens[d->n_computed + n] == d->ahead[n])
            n++;
        kv_sequence_commit(seq, tokens + d->n_computed, n);
        d->n_computed += n;
    } else {
        d->n_computed = kv_sequence_adopt(seq, tokens, most);
    }
    d->n_ahead = 0;
}

/* Tokens of the timeline are read, and the cache has what it has of them. */
static bool read_timeline(draft_round *r)
{
    translation *text = &r->d->text;
    if (!translation_read(text, r->m->translator, r->s->tokens, r->s->n_tokens)) return false;
    take_open(r);
    settle(r);
    return true;
}

/* A head says nothing of a token whose state is not known; and where those of too many before it
 * are gone, unread, it begins anew behind them.  So it does, a few tokens before the end, where
 * none of its guesses was right yet: what it then lacks changes guesses alone. */
static bool read_states(draft_round *r)
{
    draft_session *d = r->d;
    const uint32_t next = d->text.begin + d->n_computed, n = r->s->n_tokens;
    uint32_t least = d->states.begin < next + GAP_MAX ? 0 : d->states.begin + 1;
    if (!d->own || n == 1) return true;
    if (!taps_of(&d->states, n - 2)) return false;
    if (n > next + BUDGET_LITTLE && !budget_was_right(&r->m->budget) && n - BUDGET_LITTLE > least)
        least = n - BUDGET_LITTLE;
    if (!least) return true;
    d->text.least = least;
    return read_timeline(r);
}

/* Of which tokens are logits wanted? */
static void choose_tokens(draft_round *r)
{
    draft_model *m = r->m;
    draft_session *d = r->d;
    const bool copies = translator_copies(m->translator);
    r->n_logits = copies ? (uint32_t)m->n_tokens : m->engine->n_vocab;
    if (!d->seen.seen) return;
    draft_seen_read(&d->seen, &m->vocabulary, r->s->tokens, r->s->n_tokens);
    r->panels = draft_vocabulary_take(&m->vocabulary, &d->seen, &r->n_panels, &r->n_logits);
}

/* How many tokens to catch up with before this pass, so that no request waits long. */
static uint32_t rows_of_piece(const draft_round *r)
{
    const cerium_engine *e = r->m->engine;
    if (r->always) return e->batch_tokens_max;
    uint32_t n = cost_rows_within(&e->cost, PIECE_PART * (double)r->pass.ns, e->batch_tokens_max);
    return n > PIECE_MIN ? n : PIECE_MIN;
}

/* The last token has no state yet: it is the first of the block. */
static bool keep_context(draft_round *r)
{
    draft_session *d = r->d;
    const uint32_t n = r->n_known - 1 - d->n_computed;
    const int32_t *tokens = d->text.tokens + d->n_computed;
    if (n == 0) return true;
    if (!run(r, tokens, d->n_computed, n, 0)) return false;
    kv_sequence_commit(d->pages.sequence, tokens, n);
    d->n_computed += n;
    return true;
}

bool draft_catch_up(draft_round *r)
{
    draft_session *d = r->d;
    atomic_store(&d->pages.rank, atomic_load(&r->s->pages.rank));
    if (!read_timeline(r) || !read_states(r)) return false;
    choose_tokens(r);
    uint32_t piece = rows_of_piece(r);
    bool was_behind = false;
    while (r->n_known - d->n_computed > piece) {
        if (was_behind && !r->always) return false; /* the rest before the next pass */
        was_behind = true;
        if (!run(r, d->text.tokens + d->n_computed, d->n_computed, piece, 0)) return false;
        kv_sequence_commit(d->pages.sequence, d->text.tokens + d->n_computed, piece);
        d->n_computed += piece;
    }
    if (was_behind && !r->always) return false;
    if (d->is_block) return keep_context(r);
    /* The removed token is the most likely spelling. */
    uint32_t n = r->n_known - d->n_computed, guessed = r->last != TOKEN_NONE;
    if (!run(r, d->text.tokens + d->n_computed, d->n_computed, n + guessed, 1 + guessed))
        return false;
    kv_sequence_commit(d->pages.sequence, d->text.tokens + d->n_computed, n - 1);
    d->n_computed += n - 1;
    d->ahead[d->n_ahead++] = d->text.tokens[d->n_computed];
    return true;
}

bool draft_say(draft_round *r, int32_t token)
{
    draft_session *d = r->d;
    if (d->n_ahead == ARRAY_LEN(d->ahead)) return false;
    if (!run(r, &token, d->n_computed + d->n_ahead, 1, 1)) return false;
    d->ahead[d->n_ahead++] = token;
    return true;
}
