/* shares.c - the keys' virtual times, and the bounds that they give the next pass. */
#include "engine/shares.h"

/* ---- coming and going ---- */

/* How far ahead of its class an unused entry is: a key that is ahead must wait. */
static double ahead(const time_shares *s, const time_share *x)
{
    return x->ns - s->now_ns[x->class_];
}

static uint32_t find(const time_shares *s, uint64_t key, uint32_t class_)
{
    uint32_t vacant = s->n;
    for (uint32_t i = 0; i < s->n; i++) {
        const time_share *x = &s->of[i];
        if (x->key == key && x->class_ == class_) return i;
        if (x->n_requests == 0 &&
            (vacant == s->n || ahead(s, x) < ahead(s, &s->of[vacant])))
            vacant = i;
    }
    CHECK(vacant < s->n);
    s->of[vacant] = (time_share){.key = key, .class_ = class_};
    return vacant;
}

uint32_t shares_join(time_shares *s, uint64_t key, uint32_t class_)
{
    uint32_t at = find(s, key, class_);
    time_share *x = &s->of[at];
    if (x->n_requests++ == 0 && x->ns < s->now_ns[class_]) x->ns = s->now_ns[class_];
    return at;
}

void shares_leave(time_shares *s, uint32_t at) { s->of[at].n_requests--; }

/* ---- a pass ---- */

void shares_clear(time_shares *s)
{
    for (uint32_t i = 0; i < s->n; i++) {
        s->of[i].ready = s->of[i].rows = s->of[i].piece_min = 0;
        s->of[i].rows_max = UINT32_MAX;
    }
}

static bool is_ready(const time_share *x, uint32_t class_)
{
    return x->ready > 0 && x->class_ == class_;
}

/* The number of rows that bring it about there, at their cost in a pass of its own. */
static uint32_t rows_until(const time_share *x, double end_ns, const cost_model *cost)
{
    double rows = (end_ns - x->ns) * x->ready / cost_estimate(cost, x->ready) + 0.5;
    return rows >= x->ready ? x->ready : rows > 0 ? (uint32_t)rows : 0;
}

void shares_bound(time_shares *s, uint32_t class_, const cost_model *cost, double piece_ns)
{
    time_share *last = NULL; /* that had least */
    double pass_ns = 0;      /* the shortest pass of one of them */
    for (uint32_t i = 0; i < s->n; i++) {
        time_share *x = &s->of[i];
        if (!is_ready(x, class_)) continue;
        double ns = cost_estimate(cost, x->ready);
        if (!last || ns < pass_ns) pass_ns = ns;
        if (!last || x->ns < last->ns) last = x;
    }
    if (!last || pass_ns <= 0) return; /* the cost of rows must be learned first */
    const double end_ns = last->ns + pass_ns;
    for (uint32_t i = 0; i < s->n; i++) {
        time_share *x = &s->of[i];
        if (is_ready(x, class_))
            x->rows_max = rows_until(x, end_ns, cost);
        else if (x->n_requests && x->class_ == class_ && x->ns < last->ns)
            x->ns = last->ns; /* its readers are slow: it saves nothing up */
    }
    if (last->rows_max == 0) last->rows_max = 1;
    last->piece_min = cost_rows_within(cost, piece_ns, last->ready);
}

/* What its rows of the pass would have cost in one of its own. */
static double own_ns(const time_share *x, const cost_model *cost)
{
    uint32_t alone = x->rows > x->ready ? x->rows : x->ready;
    return alone ? cost_estimate(cost, alone) * x->rows / alone : 0;
}

/* The class's virtual time as this pass began; before its time is charged. */
static void move_on(time_shares *s, uint32_t class_, double pass_ns)
{
    uint32_t n_keys = 0;
    double least_ns = 0;
    for (uint32_t i = 0; i < s->n; i++) {
        const time_share *x = &s->of[i];
        if (x->n_requests == 0 || x->class_ != class_) continue;
        if (n_keys++ == 0 || x->ns < least_ns) least_ns = x->ns;
    }
    if (n_keys == 0) return;
    s->now_ns[class_] += s->gain_ns[class_]; /* of the pass before: a key of this one is early */
    if (s->now_ns[class_] < least_ns) s->now_ns[class_] = least_ns;
    s->gain_ns[class_] = pass_ns / n_keys;
}

void shares_charge(time_shares *s, uint32_t n_rows, const cost_model *cost)
{
    double all_ns = 0, class_ns[CERIUM_CLASSES] = {0};
    for (uint32_t i = 0; i < s->n; i++) {
        double ns = own_ns(&s->of[i], cost);
        class_ns[s->of[i].class_] += ns;
        all_ns += ns;
    }
    if (all_ns <= 0) return;
    const double scale = cost_estimate(cost, n_rows) / all_ns;
    for (uint32_t i = 0; i < CERIUM_CLASSES; i++) move_on(s, i, scale * class_ns[i]);
    for (uint32_t i = 0; i < s->n; i++) s->of[i].ns += scale * own_ns(&s->of[i], cost);
}
