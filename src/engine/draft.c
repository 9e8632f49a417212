/* draft.c - following a prediction, and finding the way back to it. */
#include "engine/draft.h"

enum {
    AHEAD_FIRST = 8,
    AHEAD_MAX = CERIUM_STEP_TOKENS_MAX - 1,
    SAME_MIN = 3, /* so many equal tokens before it are a sign that it goes on alike */
    SAME_MAX = 16,
};

uint32_t draft_next(const draft *d, int32_t *out, uint32_t n_max)
{
    if (d->is_lost || d->at >= d->n) return 0;
    uint32_t n = d->ahead ? d->ahead : AHEAD_FIRST;
    if (n > n_max) n = n_max;
    if (n > d->n - d->at) n = d->n - d->at;
    memcpy(out, d->tokens + d->at, n * sizeof *out);
    return n;
}

/* How many of the last tokens of the answer stand before place `at` of the prediction. */
static uint32_t same_before(const draft *d, uint32_t at, const int32_t *answer, uint32_t n_answer)
{
    uint32_t n = 0;
    while (n < SAME_MAX && n < at && n < n_answer &&
           d->tokens[at - 1 - n] == answer[n_answer - 1 - n])
        n++;
    return n;
}

/* The place before which most agrees; of equals the first after the one that was lost, because
 * answers seldom go back. */
static void find_way(draft *d, const int32_t *answer, uint32_t n_answer)
{
    uint32_t best = SAME_MIN - 1, best_at = 0;
    for (uint32_t i = 0; i < d->n; i++) {
        uint32_t at = 1 + (d->at + i) % d->n;
        uint32_t same = same_before(d, at, answer, n_answer);
        if (same > best) best = same, best_at = at;
    }
    if (best < SAME_MIN) return;
    d->at = best_at;
    d->is_lost = false;
}

void draft_follow(draft *d, const int32_t *answer, uint32_t n_answer, uint32_t n_grown,
                  uint32_t n_tried, uint32_t n_accepted)
{
    if (d->n == 0) return;
    for (uint32_t i = n_answer - n_grown; i < n_answer && !d->is_lost; i++) {
        d->is_lost = d->at >= d->n || d->tokens[d->at] != answer[i];
        if (!d->is_lost) d->at++;
    }
    if (n_tried > 0) {
        uint32_t more = n_accepted == n_tried ? 2 * n_tried : n_accepted + 1;
        d->ahead = more < AHEAD_MAX ? more : AHEAD_MAX;
    }
    if (d->is_lost) find_way(d, answer, n_answer);
}
