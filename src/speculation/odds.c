/* odds.c - the moving shares and means, and the length that follows from them. */
#include "speculation/odds.h"

enum {
    SEEN_ENOUGH = 3,       /* passes of a size before its cost is known */
    SEEN_FIRST_PASSES = 6, /* this many are all measured, */
    NEXT_PASSES = 256,     /* then one in this many */
    OLD_PASSES = 4096,
};

static const float ROW_SUPPOSED = 1.0f / 4; /* relative to a pass of one: a row more, before it is
                                             * known */
static const float AGE_HALF = 4096;       /* passes after which an old measurement counts half */
static const float SEEN_MAX = 48;         /* the greatest weight of what was seen before */
static const float SEEN_FIRST = 6;        /* and the weight of the prior */

/* The greatest match of each class except the last, which has no bound. */
static const uint32_t class_end[ODDS_CLASSES - 1] = {0, 1, 2, 3, 4, 6, 8, 11, 15, 22, 31, 47, 63};
/* As learned over 150 edits of twelve repositories. */
static const float at_first[ODDS_CLASSES] = {.2f,  .4f,  .5f,  .7f,   .75f, .85f,  .92f,
                                             .95f, .97f, .98f, .985f, .99f, .993f, .995f};

static uint32_t class_of(uint32_t match)
{
    uint32_t i = 0;
    while (i < ODDS_CLASSES - 1 && match > class_end[i]) i++;
    return i;
}

void odds_init(draft_odds *odds)
{
    for (int s = 0; s < DRAFT_TEXTS; s++) {
        for (int i = 0; i < ODDS_CLASSES; i++) {
            odds->seen[s][i] = SEEN_FIRST;
            odds->right[s][i] = SEEN_FIRST * at_first[i];
        }
    }
}

void odds_learn(draft_odds *odds, draft_source source, uint32_t match, bool was_right)
{
    uint32_t i = class_of(match);
    float *right = &odds->right[source][i], *seen = &odds->seen[source][i];
    /* A long match is seldom wrong: its share must remember more of the past than that of a short
     * one. */
    float most = SEEN_MAX * (float)(1 + i);
    if (*seen >= most) {
        *right *= (most - 1) / most;
        *seen = most - 1;
    }
    *seen += 1;
    if (was_right) *right += 1;
}

float odds_of(const draft_odds *odds, draft_source source, uint32_t match)
{
    uint32_t i = class_of(match);
    /* Count half a wrong and half a right one more: never quite 0 or 1. */
    return (odds->right[source][i] + .05f) / (odds->seen[source][i] + .1f);
}

/* ---- pace ---- */

static const uint32_t size_end[PACE_SIZES] = {1,  2,  3,  4,  6,  8,  12, 16,
                                              20, 24, 32, 40, 48, 56, PACE_ROWS_MAX};

static uint32_t size_of(uint32_t n_rows)
{
    uint32_t i = 0;
    while (n_rows > size_end[i]) i++;
    return i;
}

bool pace_wants(draft_pace *pace, uint32_t n_rows)
{
    pace->n_passes++;
    if (n_rows > PACE_ROWS_MAX) return false;
    uint32_t i = size_of(n_rows);
    return pace->n_seen[i] < SEEN_FIRST_PASSES || pace->n_passes - pace->last[i] >= NEXT_PASSES;
}

void pace_learn(draft_pace *pace, uint32_t n_rows, uint64_t ns)
{
    uint32_t i = size_of(n_rows);
    float is = (float)ns, *known = &pace->ns[i];
    bool is_old = pace->n_passes - pace->last[i] > OLD_PASSES;
    pace->last[i] = pace->n_passes;
    if (pace->n_seen[i]++ == 0 || is_old) {
        *known = is;
        pace->rows[i] = (float)n_rows;
        return;
    }
    /* Other users of the caches only ever make a pass longer. */
    if (is > 2 * *known) is = 2 * *known;
    *known += (is < *known ? 1.0f / 2 : 1.0f / 8) * (is - *known);
    pace->rows[i] += ((float)n_rows - pace->rows[i]) / 4;
}

bool pace_estimate(const draft_pace *pace, uint32_t n_max, float *ns)
{
    uint32_t first = 0, below, above;
    while (first < PACE_SIZES && pace->n_seen[first] == 0) first++;
    if (first == PACE_SIZES) return false;
    float one = pace->ns[first] / (1 + ROW_SUPPOSED * (pace->rows[first] - 1));
    float at_rows[PACE_SIZES + 1], at_ns[PACE_SIZES + 1];
    uint32_t n = 0;
    for (uint32_t i = first; i < PACE_SIZES; i++) {
        if (pace->n_seen[i] < (i == first ? 1 : SEEN_ENOUGH)) continue;
        float age = (float)(pace->n_passes - pace->last[i]);
        at_rows[n] = pace->rows[i];
        at_ns[n++] = pace->ns[i] / (i == first ? 1 : 1 + age / AGE_HALF);
    }
    if (at_rows[n - 1] < (float)PACE_ROWS_MAX) { /* beyond what was measured */
        at_rows[n] = (float)PACE_ROWS_MAX;
        at_ns[n] = at_ns[n - 1] + one * ROW_SUPPOSED * ((float)PACE_ROWS_MAX - at_rows[n - 1]);
        n++;
    }
    for (uint32_t i = n - 1; i > 0; i--)
        if (at_ns[i - 1] > at_ns[i]) at_ns[i - 1] = at_ns[i];
    for (uint32_t rows = 1, at = 0; rows <= n_max; rows++) {
        while (at + 1 < n && at_rows[at + 1] <= (float)rows) at++;
        below = at;
        above = at + 1 < n ? at + 1 : at;
        float part = above > below ? ((float)rows - at_rows[below]) /
                                     (at_rows[above] - at_rows[below]) : 0;
        ns[rows] = at_ns[below] + (part > 0 ? part : 0) * (at_ns[above] - at_ns[below]);
    }
    return true;
}

void draft_costs(const draft_pace *pace, uint32_t n_rows, uint32_t n_max, float *cost)
{
    float ns[PACE_ROWS_MAX + 1];
    CHECK(n_rows >= 1 && n_rows + n_max <= PACE_ROWS_MAX);
    bool is_known = pace && pace_estimate(pace, n_rows + n_max, ns);
    for (uint32_t n = 0; n <= n_max; n++) {
        cost[n] = pace ? 1 + ROW_SUPPOSED * (float)n : 1;
        if (is_known) cost[n] = ns[n_rows + n] / ns[n_rows];
    }
}

/* Of tokens after match, match + 1, ... [n] that agreed. */
static void fill_odds(const draft_odds *odds, draft_source source, uint32_t match, float *out,
                      uint32_t n)
{
    uint32_t class_ = class_of(match);
    float is_right = odds_of(odds, source, match);
    for (uint32_t i = 0; i < n; i++) {
        if (class_ < ODDS_CLASSES - 1 && match + i > class_end[class_]) {
            class_++;
            is_right = odds_of(odds, source, match + i);
        }
        out[i] = is_right;
    }
}

/* The best tokens per time of a pass with *n of at most n_max drafts, odds [n_max]. */
static float best_rate(const float *odds, const float *cost, uint32_t n_max, uint32_t *n)
{
    float tokens = 1, all_right = 1, best = 1;
    *n = 0;
    for (uint32_t i = 1; i <= n_max; i++) {
        all_right *= odds[i - 1];
        tokens += all_right;
        if (tokens + all_right * (float)(n_max - i) <= best * cost[i]) break; /* costs only grow */
        if (tokens <= best * cost[i]) continue;
        best = tokens / cost[i];
        *n = i;
    }
    return best;
}

uint32_t draft_length(const draft_odds *odds, draft_source source, uint32_t match,
                      const float *cost, uint32_t n_max, float *gain)
{
    float is_right[2 * PACE_ROWS_MAX];
    uint32_t most, best = 0, ignored;
    CHECK(n_max < PACE_ROWS_MAX);
    fill_odds(odds, source, match, is_right, 2 * n_max);
    float rate = *gain = best_rate(is_right, cost, n_max, &most);
    float tokens = 1, all_right = 1, value = 0, best_value = 0;
    for (uint32_t n = 1; n <= most; n++) {
        all_right *= is_right[n - 1];
        tokens += all_right;
        if (is_right[n] != is_right[n - 1]) /* a new class: it alone decides what follows */
            rate = best_rate(is_right + n, cost, n_max, &ignored);
        value += all_right - rate * (cost[n] - cost[n - 1]);
        if (value + all_right * (float)(most - n) <= best_value) break;
        if (value <= best_value) continue;
        best_value = value;
        best = n;
        *gain = tokens / cost[n];
    }
    if (best == 0) *gain = 1;
    return best;
}
