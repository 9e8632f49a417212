/* drafter.c - following texts, finding the place in them again, and choosing among them. */
#include "speculation/drafter.h"

enum {
    SURE_MATCH = 4,   /* a match of this many is no accident: this place is home */
    BEGIN_MATCH = 8,  /* match assumed at the beginning of an answer that has a prediction */
    NEAR_BEFORE = 4,  /* places around home where one token is enough */
    NEAR_AFTER = 48,
    NEAR_BONUS = 4,   /* bonus of a near place, in matching tokens over a far one */
};

/* The text that a source follows. */
typedef struct {
    const int32_t *tokens;
    uint32_t n;
    const ngrams *index;
} draft_text;

static draft_text text_of(const drafter *d, draft_source source, const int32_t *tokens)
{
    if (source == DRAFT_PREDICTION)
        return (draft_text){d->prediction, d->n_prediction, &d->predicted};
    if (source == DRAFT_TIMELINE) return (draft_text){tokens, d->timeline.n, &d->timeline};
    if (source == DRAFT_WORKSPACE && d->workspace)
        return (draft_text){d->workspace->tokens, d->workspace->n_tokens, &d->workspace->index};
    if (source == DRAFT_PAST_ANSWERS && d->past)
        return (draft_text){d->past->tokens, d->past->index.n, &d->past->index};
    return (draft_text){0};
}

/* Does the text have a token at this place? */
static bool continues(const draft_text *text, uint32_t at)
{
    return at < text->n && text->tokens[at] != PAST_END;
}

size_t drafter_bytes(uint32_t tokens_max) { return ngrams_bytes(tokens_max); }

void drafter_open(drafter *d, void *memory, uint32_t tokens_max)
{
    *d = (drafter){0};
    ngrams_open(&d->timeline, memory, tokens_max);
    odds_init(&d->odds);
}

/* ---- following ---- */

/* The place around home with the longest match; of equals the nearest after it. */
static uint32_t find_near(const draft_text *text, uint32_t home, const int32_t *tokens, uint32_t n,
                          uint32_t *at)
{
    uint32_t n_before = home < NEAR_BEFORE ? home : NEAR_BEFORE, best = 0;
    for (uint32_t i = 0; i < NEAR_AFTER + n_before; i++) {
        uint32_t place = i < NEAR_AFTER ? home + i : home - 1 - (i - NEAR_AFTER);
        if (place >= text->n) continue;
        uint32_t same = ngrams_match(text->tokens, place, tokens, n);
        if (same <= best) continue;
        best = same;
        *at = place;
    }
    return best;
}

/* Look for the place again after a token that the source got wrong. */
static void find_way(draft_trail *t, draft_source source, const draft_text *text,
                     const int32_t *tokens, uint32_t n)
{
    uint32_t near_at = 0, far_at = 0, near = 0, far;
    if (t->home > 0 || source == DRAFT_PREDICTION)
        near = find_near(text, t->home, tokens, n, &near_at);
    far = ngrams_find(text->index, text->tokens, tokens, n,
                      source == DRAFT_PREDICTION ? t->home : UINT32_MAX, &far_at);
    t->is_on = near || far;
    if (near && near + NEAR_BONUS >= far) {
        t->at = near_at;
        t->match = near;
    } else if (far) {
        t->at = far_at;
        t->match = far;
    }
    if (t->is_on && t->match >= SURE_MATCH) t->home = t->at;
}

/* The timeline got one more token. */
static void follow_one(drafter *d, draft_source source, const draft_text *text, int32_t token)
{
    draft_trail *t = &d->trails[source];
    if (!t->is_on || !continues(text, t->at)) {
        t->is_on = false;
        return;
    }
    bool was_right = text->tokens[t->at] == token;
    odds_learn(&d->odds, source, t->match, was_right);
    t->is_on = was_right;
    if (!was_right) return;
    t->at++;
    t->match++;
    if (t->match >= SURE_MATCH) t->home = t->at;
}

void drafter_follow(drafter *d, const int32_t *tokens, uint32_t n)
{
    uint32_t first = d->timeline.n > d->n_answered ? d->timeline.n : d->n_answered;
    ngrams_grow(&d->timeline, tokens, n);
    for (int s = 0; s < DRAFT_TEXTS; s++) {
        draft_text text = text_of(d, s, tokens);
        for (uint32_t i = first; i < n; i++) follow_one(d, s, &text, tokens[i]);
        if (!d->trails[s].is_on && text.n > 0) find_way(&d->trails[s], s, &text, tokens, n);
    }
}

void drafter_begin(drafter *d, const int32_t *tokens, uint32_t n, const draft_hints *hints)
{
    d->prediction = hints->prediction;
    d->n_prediction = hints->n_prediction;
    d->workspace = hints->workspace;
    if (d->n_prediction > 0) {
        ngrams_open(&d->predicted, hints->memory, d->n_prediction);
        ngrams_grow(&d->predicted, d->prediction, d->n_prediction);
    }
    d->n_answered = n;
    for (int s = 0; s < DRAFT_TEXTS; s++) d->trails[s] = (draft_trail){0};
    d->trails[DRAFT_PREDICTION] =
        (draft_trail){.match = BEGIN_MATCH, .is_on = d->n_prediction > 0};
    drafter_follow(d, tokens, n);
}

void drafter_cut(drafter *d, const int32_t *tokens, uint32_t n)
{
    if (n >= d->timeline.n) return;
    ngrams_cut(&d->timeline, tokens, n);
    for (int s = 0; s < DRAFT_TEXTS; s++) d->trails[s].is_on = false;
}

/* ---- drafting ---- */

/* How many tokens, at most n_max, the text has from a place on. */
static uint32_t tokens_left(const draft_text *text, draft_source source, uint32_t at,
                            uint32_t n_max)
{
    uint32_t n = 0;
    if (source == DRAFT_TIMELINE) return n_max; /* see below */
    while (n < n_max && continues(text, at + n)) n++;
    return n;
}

static void copy_draft(const draft_text *text, uint32_t at, uint32_t n, int32_t *out)
{
    /* A text that repeats itself to its end is taken to continue so. */
    for (uint32_t i = 0; i < n; i++)
        out[i] = at + i < text->n ? text->tokens[at + i] : out[at + i - text->n];
}

uint32_t drafter_draft(const drafter *d, const draft_pace *pace, const int32_t *tokens, uint32_t n,
                       uint32_t n_rows, uint32_t n_max, int32_t *out, draft_source *source)
{
    float cost[PACE_ROWS_MAX + 1], best_gain = 1;
    uint32_t best = 0;
    CHECK(n == d->timeline.n);
    if (n_rows >= PACE_ROWS_MAX) return 0;
    if (n_max > PACE_ROWS_MAX - n_rows) n_max = PACE_ROWS_MAX - n_rows;
    draft_costs(pace, n_rows, n_max, cost);
    for (int s = 0; s < DRAFT_TEXTS; s++) {
        const draft_trail *t = &d->trails[s];
        draft_text text = text_of(d, s, tokens);
        float gain;
        if (!t->is_on || !continues(&text, t->at)) continue;
        uint32_t most = tokens_left(&text, s, t->at, n_max);
        uint32_t length = draft_length(&d->odds, s, t->match, cost, most, &gain);
        if (length == 0 || gain <= best_gain) continue;
        best = length;
        best_gain = gain;
        *source = s;
        copy_draft(&text, t->at, length, out);
    }
    return best;
}
