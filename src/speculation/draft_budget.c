/* draft_budget.c - odds, budget, and the sums that decide whether to ask. */
#include "speculation/draft_budget.h"

enum {
    TRIAL = 4, GAP_FIRST = 16, GAP_MAX = 1024, /* guesses, and tokens */
    BALANCE_PASSES = 16, /* the budget holds at most, */
    LOAN_PASSES = 8,   /* and has at first */
    ROWS_FIRST = 2, ROWS_MORE = 2, /* rows of guesses in a pass, and more for each that was right */
};

static const double SHARE = 0.01;     /* share of the time that may be spent in vain */
static const float SEEN_FIRST = 3;    /* weight of the prior, */
static const float SEEN_MAX = 64;     /* and the greatest weight of what was seen */
static const float MET_MAX = 256;
static const float ALL_FIRST = 1; /* the same two of all classes together */
static const float ALL_MAX = 32;
static const float RIGHT_LATELY = .5f; /* guesses that came true, of those */

/* The greatest margin of each class except the last. */
static const float margin_end[BUDGET_MARGINS - 1] = {.25f, .5f, 1, 1.75f, 3, 5};
static const float at_first[BUDGET_MARGINS] = {.3f, .4f, .5f, .6f, .75f, .85f, .95f};

void budget_init(draft_budget *w)
{
    *w = (draft_budget){.n_gap = GAP_FIRST, .n_probes = TRIAL};
    for (int i = 0; i < BUDGET_MARGINS; i++) w->met[i] = 1;
}

uint32_t budget_class(float margin, bool is_last)
{
    uint32_t i = 0;
    while (i < BUDGET_MARGINS - 1 && !(margin <= margin_end[i])) i++;
    return is_last ? BUDGET_MARGINS + i : i;
}

/* How often guesses of a class are right, before anything was seen. */
static float odds_at_first(uint32_t class_)
{
    return at_first[class_ % BUDGET_MARGINS] * (class_ < BUDGET_MARGINS ? 1 : .7f);
}

float budget_odds(const draft_budget *w, uint32_t class_)
{
    const float came = (w->came + ALL_FIRST) / (w->hoped + ALL_FIRST);
    const float prior = odds_at_first(class_) * (came < 1 ? came : 1), seen = w->seen[class_];
    const float weight = SEEN_FIRST * (1 - seen / SEEN_MAX); /* it goes */
    return (w->right[class_] + weight * prior + .05f) / (seen + weight + .1f);
}

/* Rows of guesses in this pass, at most. */
static uint32_t rows_max(const draft_budget *w, const budget_pass *pass)
{
    const uint32_t most = ROWS_FIRST + (uint32_t)(ROWS_MORE * w->came);
    return most < pass->n_max ? most : pass->n_max;
}

void budget_learn(draft_budget *w, uint32_t class_, bool was_right)
{
    float sum = 0;
    if (w->seen[class_] >= SEEN_MAX) {
        w->right[class_] *= (SEEN_MAX - 1) / SEEN_MAX;
        w->seen[class_] = SEEN_MAX - 1;
    }
    if (w->hoped >= ALL_MAX) {
        w->came *= (ALL_MAX - 1) / ALL_MAX;
        w->hoped *= (ALL_MAX - 1) / ALL_MAX;
    }
    w->seen[class_] += 1;
    if (was_right) w->right[class_] += 1;
    w->hoped += odds_at_first(class_);
    if (was_right) w->came += 1;
    if (was_right && w->n_probes < TRIAL) w->n_probes = TRIAL; /* a trial that goes well goes on */
    w->met[class_] += 1;
    for (int i = 0; i < BUDGET_CLASSES; i++) sum += w->met[i];
    for (int i = 0; sum > MET_MAX && i < BUDGET_CLASSES; i++) w->met[i] *= (MET_MAX - 1) / MET_MAX;
}

bool budget_was_right(const draft_budget *w) { return w->came >= RIGHT_LATELY; }

void budget_learn_ask(draft_budget *w, uint64_t ns)
{
    float is = (float)ns;
    if (w->ask_ns == 0) w->ask_ns = is;
    if (is > 2 * w->ask_ns) is = 2 * w->ask_ns; /* others only ever make it longer */
    w->ask_ns += (is < w->ask_ns ? 1.0f / 2 : 1.0f / 8) * (is - w->ask_ns);
}

void budget_know_pass(draft_budget *w, double ns)
{
    w->most_ns = BALANCE_PASSES * ns;
    if (!w->has_loan) budget_settle(w, LOAN_PASSES * ns);
    w->has_loan = true;
}

void budget_earn(draft_budget *w, double ns) { budget_settle(w, SHARE * ns); }

void budget_settle(draft_budget *w, double ns)
{
    w->balance_ns += ns;
    if (w->most_ns > 0 && w->balance_ns > w->most_ns) w->balance_ns = w->most_ns;
}

/* The cost of asking and of rows for n guesses, in passes without guesses, times the requests that
 * wait. */
static float rows_cost(const budget_pass *pass, uint32_t n)
{
    return (pass->cost[n] - pass->cost[0]) * (float)pass->n_sharing;
}

static float ask_cost(const draft_budget *w, const budget_pass *pass)
{
    return w->ask_ns / pass->ns * (float)pass->n_sharing;
}

float budget_rate(const draft_budget *w, const budget_pass *pass)
{
    float sum = 0, all = 0, tokens = 1, chance = 1, best = 1;
    for (uint32_t i = 0; i < BUDGET_CLASSES; i++) {
        sum += w->met[i] * budget_odds(w, i);
        all += w->met[i];
    }
    for (uint32_t i = 1, most = rows_max(w, pass); i <= most; i++) {
        chance *= sum / all;
        tokens += chance;
        float is = tokens / (1 + rows_cost(pass, i) + (float)i * ask_cost(w, pass));
        if (is > best) best = is;
    }
    return best;
}

bool budget_asking(draft_budget *w, const budget_pass *pass, uint32_t n, float all_right,
                   float rate)
{
    float value = 0, met = 0;
    if (n >= rows_max(w, pass)) return false;
    bool is_worth = n == 0 && rate > 1;
    float row = rate * (rows_cost(pass, n + 1) - rows_cost(pass, n));
    for (uint32_t i = 0; i < BUDGET_CLASSES; i++) { /* an unsure guess gets no row */
        float gain = all_right * budget_odds(w, i) - row;
        met += w->met[i];
        if (gain > 0) value += w->met[i] * gain;
    }
    is_worth |= value / met > rate * ask_cost(w, pass);
    if (is_worth) w->n_gap = GAP_FIRST;
    return is_worth;
}

bool budget_trying(draft_budget *w)
{
    if (w->n_probes > 0) {
        w->n_probes--;
        return true;
    }
    if (++w->n_passed < w->n_gap) return false;
    w->n_passed = 0;
    w->n_probes = TRIAL;
    if (w->n_gap < GAP_MAX) w->n_gap *= 2;
    return false;
}

uint32_t budget_rows(const draft_budget *w, const budget_pass *pass, const uint8_t *classes,
                    uint32_t n, float rate)
{
    float chance = 1, value = 0, most = 0;
    uint32_t best = 0, rows = rows_max(w, pass);
    for (uint32_t i = 1; i <= n && i <= rows; i++) {
        chance *= budget_odds(w, classes[i - 1]);
        value += chance - rate * (rows_cost(pass, i) - rows_cost(pass, i - 1));
        if (value <= most) continue;
        most = value;
        best = i;
    }
    return best;
}
