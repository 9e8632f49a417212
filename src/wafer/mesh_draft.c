/* mesh_draft.c - guesses of a smaller model, token by token, and their verification. */
#include "wafer/mesh_draft.h"

#include <math.h>

/* A text and the guesses after it. */
typedef struct {
    mesh_draft *d;
    const int32_t *tokens;
    uint32_t n;
} drafted;

static int32_t token_at(const drafted *t, uint32_t at)
{
    return at < t->n ? t->tokens[at] : t->d->chain[at - t->n];
}

/* Compute the missing tokens of the smaller model, up to end; returns the row of the last token. */
static uint32_t mesh_draft_compute(const drafted *t, uint32_t end, bool needs_logits)
{
    mesh_draft *d = t->d;
    const uint32_t most = mesh_layout_of(d->m)->rows_max;
    int32_t rows[MESH_ROWS_MAX];
    uint32_t n = 0;
    while (d->n_known < end) {
        for (n = 0; n < most && d->n_known + n < end; n++) rows[n] = token_at(t, d->n_known + n);
        mesh_run(d->m, rows, n, d->n_known, needs_logits && d->n_known + n == end);
        d->n_known += n;
    }
    return n - 1;
}

/* One more guess, from all tokens before it. */
static void mesh_draft_guess(const drafted *t)
{
    mesh_draft *d = t->d;
    const uint32_t end = t->n + d->n_chain;
    CHECK(d->n_known < end && d->n_chain < ARRAY_LEN(d->chain));
    const uint32_t row = mesh_draft_compute(t, end, true);
    d->chain[d->n_chain++] = mesh_sample(d->m, row, NULL, NULL, 0, end);
    d->n_steps++;
}

/* The missing guesses of a pass; returns their time. */
static double guess_all(const drafted *t, uint32_t n_guesses, const draft_us *us)
{
    mesh_draft *d = t->d;
    double at = 0;
    if (n_guesses && t->n - d->n_known > 2) /* a prompt: computed beside the model's */
        mesh_draft_compute(t, t->n - 1, false);
    while (d->n_chain < n_guesses) {
        const bool is_behind = t->n + d->n_chain - d->n_known == 2;
        if (us) at += is_behind ? us->catch_up : us->step;
        mesh_draft_guess(t);
    }
    return at;
}

/* Steps while a pass is verified: the next token, and the next guesses.  None is begun after the
 * result arrived, nor beyond its context.  Returns when the last of them ends. */
static double mesh_draft_go_on(const drafted *t, uint32_t n_max, double verdict_us, double step_us)
{
    mesh_draft *d = t->d;
    double at = 0;
    while (at < verdict_us && d->n_chain < 2 * n_max - 1 &&
           t->n + d->n_chain <= mesh_layout_of(d->m)->choice.context) {
        mesh_draft_guess(t);
        at += step_us;
    }
    return at;
}

/* Keep the part of the chain and of the computed tokens that the text confirms; returns whether the
 * chain had predicted all of it. */
static bool keep_right(mesh_draft *d, uint32_t n, const int32_t *found, uint32_t n_found)
{
    uint32_t right = 0;
    while (right < n_found && right < d->n_chain && d->chain[right] == found[right]) right++;
    if (right == n_found) {
        d->n_chain -= right;
        memmove(d->chain, d->chain + right, d->n_chain * sizeof *d->chain);
        return true;
    }
    d->n_chain = 0;
    if (d->n_known > n + right) d->n_known = n + right;
    return false;
}

uint32_t mesh_draft_pass(mesh_draft *d, mesh *m, const int32_t *tokens, uint32_t n, uint32_t n_max,
                         int32_t *out)
{
    const drafted t = {d, tokens, n};
    const draft_us *us = d->us ? &d->us[n_max - 1] : NULL;
    int32_t pass[MESH_ROWS_MAX];
    CHECK(n && n_max && n_max <= mesh_layout_of(m)->rows_max && (us || !d->is_overlapped));
    const double guesses_us = guess_all(&t, n_max - 1, us);
    pass[0] = tokens[n - 1];
    for (uint32_t i = 1; i < n_max; i++) pass[i] = d->chain[i - 1];
    if (us) {
        const double verdict_us = n_max > 1 ? us->verify + us->tell : us->verify;
        const double ahead_us =
            d->is_overlapped && n_max > 1 ? mesh_draft_go_on(&t, n_max, verdict_us, us->step) : 0;
        d->clock_us += guesses_us + (n_max > 1 ? us->offer : 0) + fmax(verdict_us, ahead_us);
    }
    const uint32_t found = mesh_verify(m, pass, n_max, n - 1, out);
    d->n_passes++;
    d->n_drafted += n_max - 1;
    d->n_accepted += found - 1;
    d->n_foreseen += keep_right(d, n, out, found);
    return found;
}
