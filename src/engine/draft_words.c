/* draft_words.c - guesses of a draft model or head, one after another, in tokens of the main
 * model. */
#include "engine/draft_round.h"

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

int32_t draft_best(const draft_round *r, const float *logits, float *margin)
{
    const draft_model *m = r->m;
    int32_t token = best_of(logits, (int32_t)r->n_logits, margin);
    if (token == TOKEN_NONE) return TOKEN_NONE;
    if (r->panels)
        token = (int32_t)r->panels[token / VOCABULARY_PANEL] * VOCABULARY_PANEL +
                token % VOCABULARY_PANEL;
    if (m->said) token = m->said[token];
    return m->said && token >= (int32_t)tokenizer_n_tokens(m->engine->tokens) ? TOKEN_NONE : token;
}

bool draft_note(draft_round *r, int32_t token, view text, float margin)
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
static bool spell(draft_round *r, int32_t *token)
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
            return draft_note(r, spelled, (view){text + left, len - left}, margin);
        }
        at += (uint32_t)len;
        if (spelled == r->last && len == left && r->last != TOKEN_NONE && d->n_ahead == 1) {
            d->ahead[d->n_ahead++] = spelled; /* it is computed, with its logits */
        } else {
            if (at == r->n_open) r->n_open = at = 0; /* no open bytes are left */
            if (!draft_say(r, spelled)) return false;
            if (r->n_open == 0) return true;
        }
        first = r->logits;
    }
    r->n_open = 0;
    return true;
}

bool draft_wants_more(const draft_round *r, float all_right)
{
    uint32_t most = r->always ? DRAFT_ALWAYS : r->probes ? 1 : DRAFT_GUESSES_MAX;
    if (r->n_spelled >= most || (!r->always && r->m->budget.balance_ns <= 0)) return false;
    if (r->always || r->probes) return true;
    return budget_asking(&r->m->budget, &r->pass, r->n_spelled, all_right, r->rate);
}

void draft_say_all(draft_round *r)
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
        if (!draft_wants_more(r, chance) || (token != TOKEN_NONE && !draft_say(r, token))) return;
        token = draft_best(r, r->logits, &margin);
        if (token == TOKEN_NONE) return;
        if (!copies && tokenizer_is_control(t, token)) return;
        view text = {"", 0};
        if (!copies) text.ptr = tokenizer_bytes(t, token, &text.len);
        if ((!copies && text.len == 0) || !draft_note(r, token, text, margin)) return;
        if (tokenizer_is_end(t, token)) return;
    }
}

/* The probability of each is that of its least likely part. */
void draft_translate(draft_round *r)
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
