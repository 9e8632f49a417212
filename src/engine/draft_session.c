/* draft_session.c - a session's timeline in its draft model or head, and guesses of what follows.
 *
 * All but the last token of the draft model's timeline is committed to the KV cache.  The last one
 * is computed each time for its logits.  Unconfirmed rows of guesses follow it: if the timeline
 * grows by the same tokens they are committed, else they are overwritten.  Those of a head always
 * are, but for the last token: their states were its own, and then are the model's. */
#include "engine/draft_model.h"

#include <math.h>

#include "base/memory.h"
#include "engine/engine.h"
#include "engine/taps.h"

enum {
    ALWAYS = 6,         /* number of guesses when costs are ignored */
    PIECE_MIN = 16,     /* least number of tokens computed to catch up */
    GAP_MAX = 32,       /* tokens without a state, before a head begins anew after them */
};

static const double PIECE_PART = 0.25; /* part of a pass that catching up may take */

struct draft_session {
    page_claim pages;         /* of the draft model's engine */
    translation text;         /* of its timeline */
    bool is_new;              /* the cache was not searched yet */
    uint32_t n_computed;      /* tokens that are committed */
    int32_t ahead[DRAFT_GUESSES_MAX + TRANSLATION_OPEN_MAX + 2]; /* [n_ahead] computed after them */
    uint32_t n_ahead;
    taps states;              /* of the model, where its head drafts, and */
    float *own;               /* [n_embd] the head's behind the last row; else NULL */
    draft_seen seen;
    /* guesses for the running pass */
    int32_t guesses[DRAFT_GUESSES_MAX];
    uint8_t classes[DRAFT_GUESSES_MAX];
    uint32_t n_guesses, n_sharing;
    float pass_ns, rows_ns[DRAFT_GUESSES_MAX + 1]; /* time without guesses; more with n of them */
};

/* One round of guesses. */
typedef struct {
    cerium_session *s;
    draft_model *m;
    draft_session *d;
    budget_pass pass;
    float rate;
    bool always, probes;
    char open[TRANSLATION_OPEN_MAX]; /* [n_open] bytes that are to be spelled first */
    uint32_t n_open;
    int32_t last;          /* the token that was taken off to be spelled again, or TOKEN_NONE */
    uint32_t n_known;      /* tokens of the timeline, without that */
    const float *logits;   /* after the last word that was computed: [n_logits] of these panels, */
    const uint32_t *panels; /* [n_panels], or of all tokens: NULL */
    uint32_t n_panels, n_logits;
    char text[TRANSLATION_GUESS_BYTES]; /* [n_text] with another vocabulary: guessed text, */
    uint32_t n_text;
    uint32_t ends[DRAFT_GUESSES_MAX]; /* ends of its words [n_said] in it, */
    float margins[DRAFT_GUESSES_MAX]; /* and their probabilities */
    int32_t spelled[DRAFT_GUESSES_MAX];
    uint32_t n_spelled;
} round_of;

/* ---- opening ---- */

static int open_states(draft_session *d, draft_model *m)
{
    d->states.pool = &m->states;
    d->own = memory_alloc(m->engine->program->shape.n_embd * sizeof *d->own);
    return d->own ? CERIUM_OK : CERIUM_ERR_MEMORY;
}

int draft_session_open(draft_session **out, cerium_session *s, cerium_error *err)
{
    cerium_engine *e = s->engine->draft->engine;
    draft_session *d = memory_zalloc(1, sizeof *d);
    if (!d) return error_set(err, CERIUM_ERR_MEMORY, "no memory for a session");
    uint32_t n = d->text.n_max = e->context_tokens_max;
    d->text.tokens = memory_alloc(n * sizeof *d->text.tokens);
    d->text.places = memory_alloc(n * sizeof *d->text.places);
    int status = d->text.tokens && d->text.places ? CERIUM_OK : CERIUM_ERR_MEMORY;
    if (!status && s->engine->draft->is_head) status = open_states(d, s->engine->draft);
    if (!status) status = draft_seen_open(&d->seen, &s->engine->draft->vocabulary);
    if (status) error_set(err, status, "no memory for a session");
    if (!status) status = claim_open(&d->pages, e, n, s->pages.tenant, err);
    d->is_new = true;
    if (status)
        draft_session_close(&d);
    else
        *out = d;
    return status;
}

void draft_session_close(draft_session **d)
{
    if (!d || !*d) return;
    claim_close(&(*d)->pages);
    taps_close(&(*d)->states);
    draft_seen_close(&(*d)->seen);
    memory_free((*d)->own);
    memory_free((*d)->text.places);
    memory_free((*d)->text.tokens);
    memory_free(*d);
    *d = NULL;
}

void draft_session_forget(draft_session *d) { d->n_guesses = 0; }

void draft_session_cut(draft_session *d, uint32_t n)
{
    if (d->text.end > n) d->is_new = true; /* another session may have computed the next tokens */
    if (n <= d->text.least) d->text.least = 0;
    translation_cut(&d->text, n);
    taps_cut(&d->states, n);
}

void draft_session_tap(cerium_session *s, uint32_t first_row, uint32_t first, uint32_t n)
{
    draft_session *d = s->draft;
    const cpu_executor *ex = s->engine->executor;
    const bool reads_taps = s->engine->draft->engine->program->shape.n_taps > 0;
    if (!d->own || !taps_take(&d->states)) return;
    for (uint32_t i = n > TAPS_MAX ? n - TAPS_MAX : 0; i < n; i++)
        (reads_taps ? cpu_executor_tapped : cpu_executor_state)(ex, first_row + i,
                                                                taps_put(&d->states, first + i));
}

/* ---- rows ---- */

/* What a head reads beside the token at this place of its timeline. */
static const float *state_before(const draft_session *d, uint32_t at)
{
    const uint32_t token = d->text.begin + at;
    if (!d->own || token == 0) return NULL;
    return at < d->text.n ? taps_of(&d->states, token - 1) : d->own;
}

/* Compute tokens [n] from `first` on, with logits after the last n_logits of them.  False: there is
 * no room, or the session was canceled. */
static bool run(round_of *r, const int32_t *tokens, uint32_t first, uint32_t n, uint32_t n_logits)
{
    cerium_engine *e = r->m->engine;
    draft_session *d = r->d;
    if (claim_reserve(&d->pages, first + n)) return false;
    for (uint32_t i = 0; i < n; i++) {
        e->rows[i] = (cpu_row){.token = tokens[i],
                               .position = first + i,
                               .sequence = d->pages.sequence,
                               .last_state = state_before(d, first + i),
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
static void take_open(round_of *r)
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
static void settle(round_of *r)
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
static bool read_timeline(round_of *r)
{
    translation *text = &r->d->text;
    if (!translation_read(text, r->m->translator, r->s->tokens, r->s->n_tokens)) return false;
    take_open(r);
    settle(r);
    return true;
}

/* A head says nothing of a token whose state is not known; and where those of too many before it
 * are gone, unread, it begins anew behind them. */
static bool read_states(round_of *r)
{
    draft_session *d = r->d;
    const uint32_t next = d->text.begin + d->n_computed, n = r->s->n_tokens;
    if (!d->own || n == 1) return true;
    if (!taps_of(&d->states, n - 2)) return false;
    if (d->states.begin < next + GAP_MAX) return true;
    d->text.least = d->states.begin + 1;
    return read_timeline(r);
}

/* Of which tokens are logits wanted? */
static void choose_tokens(round_of *r)
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
static uint32_t rows_of_piece(const round_of *r)
{
    const cerium_engine *e = r->m->engine;
    if (r->always) return e->batch_tokens_max;
    uint32_t n = cost_rows_within(&e->cost, PIECE_PART * (double)r->pass.ns, e->batch_tokens_max);
    return n > PIECE_MIN ? n : PIECE_MIN;
}

/* Bring the model to the end of the timeline; r->logits are those after it. */
static bool catch_up(round_of *r)
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
    /* The removed token is the most likely spelling. */
    uint32_t n = r->n_known - d->n_computed, guessed = r->last != TOKEN_NONE;
    if (!run(r, d->text.tokens + d->n_computed, d->n_computed, n + guessed, 1 + guessed))
        return false;
    kv_sequence_commit(d->pages.sequence, d->text.tokens + d->n_computed, n - 1);
    d->n_computed += n - 1;
    d->ahead[d->n_ahead++] = d->text.tokens[d->n_computed];
    return true;
}

/* Append a token; r->logits are those after it. */
static bool say(round_of *r, int32_t token)
{
    draft_session *d = r->d;
    if (d->n_ahead == ARRAY_LEN(d->ahead)) return false;
    if (!run(r, &token, d->n_computed + d->n_ahead, 1, 1)) return false;
    d->ahead[d->n_ahead++] = token;
    return true;
}

/* ---- guesses ---- */

static int32_t best_of(const float *logits, int32_t n, float *margin)
{
    float most = -INFINITY, next = -INFINITY;
    int32_t best = TOKEN_NONE;
    for (int32_t i = 0; i < n; i++) {
        if (!(logits[i] > next)) continue;
        if (logits[i] > most) {
            next = most;
            most = logits[i];
            best = i;
        } else {
            next = logits[i];
        }
    }
    *margin = most - next;
    return best;
}

/* The guessed text beyond the open bytes. */
static bool note_spelled(round_of *r, int32_t token, view text, float margin)
{
    if (r->n_text + text.len > sizeof r->text || r->n_spelled == DRAFT_GUESSES_MAX) return false;
    if (text.len) memcpy(r->text + r->n_text, text.ptr, text.len);
    r->n_text += (uint32_t)text.len;
    r->spelled[r->n_spelled] = token;
    r->ends[r->n_spelled] = r->n_text;
    r->margins[r->n_spelled++] = margin;
    return true;
}

/* Spell the open bytes.  True: they are spelled; *token is the last token, which was computed
 * unless it reaches beyond them. */
static bool spell(round_of *r, int32_t *token)
{
    cerium_engine *e = r->m->engine;
    draft_session *d = r->d;
    const float *first = r->last == TOKEN_NONE ? r->logits : e->logits;
    float margin;
    uint32_t at = 0;
    *token = TOKEN_NONE;
    while (at < r->n_open) {
        size_t len;
        int32_t spelled = translator_spell(r->m->translator,
                                           (view){r->open + at, r->n_open - at},
                                           first, e->n_vocab, &margin);
        if (spelled == TOKEN_NONE) return false;
        const char *text = tokenizer_bytes(e->tokens, spelled, &len);
        uint32_t left = r->n_open - at;
        if (len > left) {
            *token = spelled;
            return note_spelled(r, spelled, (view){text + left, len - left}, margin);
        }
        at += (uint32_t)len;
        if (spelled == r->last && len == left && r->last != TOKEN_NONE && d->n_ahead == 1) {
            d->ahead[d->n_ahead++] = spelled; /* it is computed, with its logits */
        } else {
            if (at == r->n_open) r->n_open = at = 0; /* no open bytes are left */
            if (!say(r, spelled)) return false;
            if (r->n_open == 0) return true;
        }
        first = r->logits;
    }
    r->n_open = 0;
    return true;
}

static bool wants_more(const round_of *r, float all_right)
{
    uint32_t most = r->always ? ALWAYS : r->probes ? 1 : DRAFT_GUESSES_MAX;
    if (r->n_spelled >= most || (!r->always && r->m->budget.balance_ns <= 0)) return false;
    if (r->always || r->probes) return true;
    return budget_asking(&r->m->budget, &r->pass, r->n_spelled, all_right, r->rate);
}

/* Guess the next tokens, while the gain is worth the cost. */
static void say_all(round_of *r)
{
    const tokenizer *t = r->m->engine->tokens;
    bool copies = translator_copies(r->m->translator);
    int32_t token = TOKEN_NONE; /* guessed, and not computed yet */
    float chance = 1, margin;
    if (r->n_open && !spell(r, &token)) return;
    r->n_open = 0;
    for (;;) {
        if (r->n_spelled > 0)
            chance *= budget_odds(&r->m->budget, budget_class(r->margins[r->n_spelled - 1], false));
        if (!wants_more(r, chance) || (token != TOKEN_NONE && !say(r, token))) return;
        token = best_of(r->logits, (int32_t)r->n_logits, &margin);
        if (token == TOKEN_NONE) return;
        if (r->panels)
            token = (int32_t)r->panels[token / VOCABULARY_PANEL] * VOCABULARY_PANEL +
                    token % VOCABULARY_PANEL;
        if (r->m->said) token = r->m->said[token];
        if (r->m->said && token >= (int32_t)tokenizer_n_tokens(t)) return;
        if (!copies && tokenizer_is_control(t, token)) return;
        view text = {"", 0};
        if (!copies) text.ptr = tokenizer_bytes(t, token, &text.len);
        if ((!copies && text.len == 0) || !note_spelled(r, token, text, margin)) return;
        if (tokenizer_is_end(t, token)) return;
    }
}

/* Translate the guessed text to tokens of the main model; the probability of each is that of its
 * least likely part. */
static void translate(round_of *r)
{
    draft_session *d = r->d;
    uint32_t ends[DRAFT_GUESSES_MAX], begin = 0, first = 0;
    d->n_guesses = 0;
    if (translator_copies(r->m->translator)) {
        for (; d->n_guesses < r->n_spelled; d->n_guesses++) {
            d->guesses[d->n_guesses] = r->spelled[d->n_guesses];
            d->classes[d->n_guesses] = (uint8_t)budget_class(r->margins[d->n_guesses], false);
        }
        return;
    }
    d->n_guesses = translator_guess(r->m->translator, (view){r->text, r->n_text}, d->guesses,
                                    ends, DRAFT_GUESSES_MAX);
    for (uint32_t i = 0; i < d->n_guesses; begin = ends[i++]) {
        float margin = INFINITY;
        while (first < r->n_spelled && r->ends[first] <= begin) first++;
        for (uint32_t k = first; k < r->n_spelled && (k == first || r->ends[k - 1] < ends[i]); k++)
            if (r->margins[k] < margin) margin = r->margins[k];
        d->classes[i] = (uint8_t)budget_class(margin, ends[i] == r->n_text);
    }
}

/* What the pass costs with guesses.  False: that is not known. */
static bool price(round_of *r, uint32_t n_rows, uint32_t n_max, float *cost)
{
    const cerium_engine *e = r->s->engine;
    draft_session *d = r->d;
    float ns[PACE_ROWS_MAX + 1];
    if (n_rows >= PACE_ROWS_MAX) return false;
    if (n_max > PACE_ROWS_MAX - n_rows) n_max = PACE_ROWS_MAX - n_rows;
    if (n_max > DRAFT_GUESSES_MAX) n_max = DRAFT_GUESSES_MAX;
    bool is_known = pace_estimate(&e->pace, n_rows + n_max, ns);
    for (uint32_t i = 0; i <= n_max; i++) {
        d->rows_ns[i] = is_known ? ns[n_rows + i] - ns[n_rows] : 0;
        cost[i] = is_known ? ns[n_rows + i] / ns[n_rows] : 1;
    }
    d->pass_ns = is_known ? ns[n_rows] : 0;
    if (is_known) budget_know_pass(&r->m->budget, (double)d->pass_ns);
    r->pass.ns = d->pass_ns;
    r->pass.n_max = n_max;
    r->pass.cost = cost;
    return (is_known || r->always) && n_max > 0;
}

uint32_t draft_session_guess(cerium_session *s, uint32_t n_rows, uint32_t n_sharing, uint32_t n_max,
                          int32_t *out)
{
    draft_model *m = s->engine->draft;
    draft_session *d = s->draft;
    float cost[PACE_ROWS_MAX + 1];
    round_of r = {.s = s, .m = m, .d = d, .always = s->engine->drafts_always};
    d->n_guesses = 0;
    d->n_sharing = r.pass.n_sharing = n_sharing;
    if (s->is_private || !price(&r, n_rows, n_max, cost)) return 0;
    if (!r.always) {
        if (m->budget.balance_ns <= 0) return 0;
        r.rate = budget_rate(&m->budget, &r.pass);
        r.probes = !budget_asking(&m->budget, &r.pass, 0, 1, r.rate);
        if (r.probes && !budget_trying(&m->budget)) return 0;
    }
    uint64_t start = clock_thread_ns();
    if (catch_up(&r)) say_all(&r);
    translate(&r);
    uint32_t n = d->n_guesses < r.pass.n_max ? d->n_guesses : r.pass.n_max;
    if (r.probes) n = 0;
    if (!r.always) n = budget_rows(&m->budget, &r.pass, d->classes, n, r.rate);
    if (n) memcpy(out, d->guesses, n * sizeof *out);
    uint64_t ns = clock_thread_ns() - start;
    budget_settle(&m->budget, -(double)ns);
    atomic_fetch_add(&m->ns, ns);
    return n;
}

void draft_session_learn(cerium_session *s, const int32_t *chosen, uint32_t n_chosen,
                      uint32_t n_tried)
{
    draft_session *d = s->draft;
    draft_budget *w = &s->engine->draft->budget;
    uint32_t n_right = 0;
    bool is_right = true;
    taps_cut(&d->states, s->n_computed); /* those of drafts that were wrong are of no token */
    for (uint32_t i = 0; i < d->n_guesses && i < n_chosen && is_right; i++) {
        draft_seen_learn(&d->seen, &s->engine->draft->vocabulary, chosen[i]);
        is_right = d->guesses[i] == chosen[i];
        budget_learn(w, d->classes[i], is_right);
        n_right += is_right;
    }
    if (n_right > n_tried) n_right = n_tried;
    if (n_tried > 0)
        budget_settle(w, (double)n_right * (double)d->pass_ns / d->n_sharing -
                            (double)d->rows_ns[n_tried]);
    d->n_guesses = 0;
}
