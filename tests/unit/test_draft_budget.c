/* test_draft_budget.c - the value of a draft model, over simulated passes: it is asked where it
 * is right often enough, never costs more than its share however wrong it is, and is used again
 * when it becomes right. */
#include "speculation/draft_budget.h"

#include <math.h>
#include <stdio.h>

#include "../random.h"
#include "unit.h"

enum { N_MAX = 16, PROMPT = 64, LONG_PROMPT = 512 };

static float random_part(void) { return (float)(random_u32() >> 8) / (float)(1 << 24); }

typedef struct {
    double ns, plain_ns, asked_ns;
    uint32_t n_tokens, n_passes, n_asked, n_right, n_rows;
} sums;

/* How sure it is of its guesses: more or less, of those that are right, or of all. */
typedef enum { SURE_BY_CHANCE, SURE_WHERE_RIGHT, SURE_ALWAYS } sureness;

static float margin_of(sureness sure, bool is_right)
{
    if (sure == SURE_BY_CHANCE) return 8 * random_part();
    return sure == SURE_ALWAYS || is_right ? 6 : .1f;
}

/* Tokens of text of which a draft model guesses a share right.  A pass takes 1000, a row
 * more row_ns, asking ask_ns.  n_prompt: it reads that many tokens first, and what it
 * missed, for a third of that each, in pieces of a quarter of a pass, but little until it was
 * right, as heads do; 0: that costs nothing. */
static void simulate(draft_budget *w, sums *s, uint32_t n_tokens, float share, sureness sure,
                     float row_ns, float ask_ns, uint32_t n_prompt)
{
    float cost[N_MAX + 1];
    for (int i = 0; i <= N_MAX; i++) cost[i] = 1 + (float)i * row_ns / 1000;
    budget_pass pass = {cost, 1000, N_MAX, 1};
    uint32_t n_behind = n_prompt, piece = (uint32_t)(750 / ask_ns);
    budget_know_pass(w, 1000);
    for (uint32_t done = 0; done < n_tokens;) {
        uint8_t classes[N_MAX];
        bool right[N_MAX];
        uint32_t n = 0, n_right = 0;
        float chance = 1, rate = budget_rate(w, &pass);
        double ns = 0;
        bool goes = w->balance_ns > 0, probes = goes && !budget_asking(w, &pass, 0, 1, rate);
        if (probes) goes = budget_trying(w);
        if (goes && n_prompt > 0) {
            if (!budget_was_right(w) && n_behind > BUDGET_LITTLE) n_behind = BUDGET_LITTLE;
            const uint32_t n_read = n_behind < piece ? n_behind : piece;
            ns += (double)n_read * (double)ask_ns / 3;
            n_behind -= n_read;
            goes = n_behind == 0;
        }
        while (goes && n < N_MAX && w->balance_ns > ns) {
            right[n] = random_part() < share;
            classes[n] = (uint8_t)budget_class(margin_of(sure, right[n]), false);
            chance *= budget_odds(w, classes[n++]);
            budget_learn_ask(w, (uint64_t)ask_ns);
            ns += (double)ask_ns;
            goes = !probes && budget_asking(w, &pass, n, chance, rate);
        }
        uint32_t n_rows = probes ? 0 : budget_rows(w, &pass, classes, n, rate);
        TEST_CHECK(n_rows <= n);
        budget_settle(w, -ns);
        while (n_right < n && right[n_right]) budget_learn(w, classes[n_right++], true);
        if (n_right < n) budget_learn(w, classes[n_right], false);
        if (n_right > n_rows) n_right = n_rows;
        budget_settle(w, (double)n_right * 1000 - (double)n_rows * (double)row_ns);
        double all_ns = 1000 + (double)n_rows * (double)row_ns;
        budget_earn(w, all_ns);
        s->ns += all_ns + ns;
        s->asked_ns += ns;
        s->n_passes++;
        s->n_asked += n;
        s->n_rows += n_rows;
        s->n_right += n_right;
        done += 1 + n_right;
        n_behind += 1 + n_right;
    }
    s->plain_ns += 1000.0 * n_tokens;
    s->n_tokens += n_tokens;
}

static double times(const sums *s) { return s->plain_ns / s->ns; }

static sums alone(uint32_t n_tokens, float share, sureness sure, float row_ns, float ask_ns,
                  uint32_t n_prompt)
{
    draft_budget w;
    sums s = {0};
    budget_init(&w);
    simulate(&w, &s, n_tokens, share, sure, row_ns, ask_ns, n_prompt);
    return s;
}

/* For any error rate and any cost of asking. */
static void test_never_slow(void)
{
    static const float asks[] = {1, 7, 50, 200, 500, 900};
    for (sureness k = SURE_BY_CHANCE; k <= SURE_ALWAYS; k++)
        for (size_t i = 0; i < ARRAY_LEN(asks); i++)
            for (float share = 0; share <= 1; share += .1f)
                for (float row = 10; row < 700; row *= 3) {
                    sums s = alone(20000, share, k, row, asks[i], 0);
                    TEST_CHECK_THAT(times(&s) > .985, "%g: right %g, row %g, ask %g", times(&s),
                                    (double)share, (double)row, (double)asks[i]);
                }
}

static void test_pays(void)
{
    printf("  a row 0.16, asking 0.007 of a pass:");
    for (float share = 0; share <= 1; share += .1f) {
        sums s = alone(20000, share, SURE_BY_CHANCE, 160, 7, 0);
        printf(" %.0f%%: %.2f", 100 * (double)share, times(&s));
        /* The gain of one guess per pass, where it is worth its row. */
        double one = (1 + (double)share) / 1.167;
        if (share > .3f) TEST_CHECK_THAT(times(&s) > .95 * one, "%g: %g", (double)share, times(&s));
    }
    printf("\n");
    sums right = alone(20000, 1, SURE_BY_CHANCE, 160, 7, 0);
    sums sure = alone(20000, .3f, SURE_WHERE_RIGHT, 160, 7, 0);
    TEST_CHECK_THAT(times(&right) > 4, "%g", times(&right));
    /* A model that is sure only where it is right gets rows for those guesses alone. */
    TEST_CHECK_THAT(times(&sure) > 1.25 && sure.n_rows < sure.n_right * 11 / 10, "%g %u %u",
                    times(&sure), sure.n_rows, sure.n_right);
    sums dear = alone(20000, 1, SURE_BY_CHANCE, 160, 900, 0);
    TEST_CHECK_THAT(times(&dear) > .985 && times(&dear) < 1.05, "%g", times(&dear));
}

static sums first_answers(uint32_t n_tokens, float share, float row_ns, uint32_t n_prompt)
{
    enum { RUNS = 200 };
    sums all = {0};
    for (int run = 0; run < RUNS; run++) {
        draft_budget w;
        budget_init(&w);
        simulate(&w, &all, n_tokens, share, SURE_ALWAYS, row_ns, 20, n_prompt);
    }
    return all;
}

/* What a head that is never right costs in a first short answer, and what one that is mostly right
 * gains there.  A pass of a head is 0.02 of one of the model, a row more 0.06 to 0.25. */
static void test_first_answer(void)
{
    enum { TOKENS = 128 };
    static const float rows[] = {60, 100, 160, 250}, asks[] = {7, 20};
    /* Times plain of a share of .8 before there were few rows at first, means of 200 runs. */
    static const double before[ARRAY_LEN(rows)] = {2.46, 2.12, 1.82, 1.53};
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        for (size_t k = 0; k < ARRAY_LEN(asks); k++) {
            sums sure = alone(TOKENS, 0, SURE_ALWAYS, rows[i], asks[k], PROMPT);
            sums by_chance = alone(TOKENS, 0, SURE_BY_CHANCE, rows[i], asks[k], PROMPT);
            TEST_CHECK_THAT(times(&sure) > .98 && times(&by_chance) > .98, "%g %g: row %g, ask %g",
                            times(&sure), times(&by_chance), (double)rows[i], (double)asks[k]);
        }
        sums good = first_answers(TOKENS, .8f, rows[i], PROMPT);
        TEST_CHECK_THAT(times(&good) > .98 * before[i], "%g: row %g", times(&good),
                        (double)rows[i]);
        sums never = alone(TOKENS, 0, SURE_ALWAYS, rows[i], 20, PROMPT);
        printf("  128 tokens, a row %.2f: never right %.3f, .8 right %.3f\n",
               (double)rows[i] / 1000, times(&never), times(&good));
    }
}

/* The same after a prompt as long as a head may read.  While it was read whole, a head that was
 * never right had .963 of the plain speed, and these are the means of one of .8. */
static void test_long_prompt(void)
{
    static const float rows[] = {60, 155, 250}, shares[] = {0, .01f, .05f};
    static const double before[ARRAY_LEN(rows)] = {2.02, 1.63, 1.40};
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        sums good = first_answers(128, .8f, rows[i], LONG_PROMPT);
        TEST_CHECK_THAT(times(&good) > before[i], "%g: row %g", times(&good), (double)rows[i]);
        printf("  after 512, a row %.2f: .8 right %.3f", (double)rows[i] / 1000, times(&good));
        for (size_t k = 0; k < ARRAY_LEN(shares); k++) {
            sums bad = first_answers(128, shares[k], rows[i], LONG_PROMPT);
            TEST_CHECK_THAT(times(&bad) > .98, "%g: row %g, right %g", times(&bad),
                            (double)rows[i], (double)shares[k]);
            printf(", %.2f: %.3f", (double)shares[k], times(&bad));
        }
        printf("\n");
    }
}

/* It was right if a few guesses of many were, and not for ever. */
static void test_was_right(void)
{
    draft_budget w;
    budget_init(&w);
    for (int i = 0; i < 40; i++) budget_learn(&w, BUDGET_MARGINS - 1, false);
    TEST_CHECK(!budget_was_right(&w));
    budget_learn(&w, 0, true);
    TEST_CHECK(budget_was_right(&w));
    int n = 0;
    while (budget_was_right(&w) && n < 1000) budget_learn(&w, 0, n++ < 0);
    TEST_CHECK_THAT(n > 10 && n < 100, "%d", n);
}

/* It is asked rarely while it is wrong, and again once it is right. */
static void test_turns(void)
{
    draft_budget w;
    sums wrong = {0}, right = {0}, late = {0};
    budget_init(&w);
    simulate(&w, &wrong, 20000, .01f, SURE_BY_CHANCE, 160, 7, 0);
    TEST_CHECK_THAT(wrong.n_asked < wrong.n_tokens / 4, "%u", wrong.n_asked);
    TEST_CHECK(wrong.asked_ns < .011 * wrong.plain_ns + 16000);
    simulate(&w, &right, 4000, .95f, SURE_BY_CHANCE, 160, 7, 0);
    simulate(&w, &late, 4000, .95f, SURE_BY_CHANCE, 160, 7, 0);
    TEST_CHECK_THAT(times(&late) > 3 && times(&right) > 1, "%g %g", times(&right), times(&late));
    sums again = {0};
    simulate(&w, &again, 20000, .01f, SURE_BY_CHANCE, 160, 7, 0);
    TEST_CHECK_THAT(times(&again) > .985, "%g", times(&again));
}

static void test_classes(void)
{
    draft_budget w;
    budget_init(&w);
    uint32_t last = 0;
    for (float margin = 0; margin < 20; margin += .05f) {
        uint32_t i = budget_class(margin, false);
        TEST_CHECK(i >= last && i < BUDGET_MARGINS);
        TEST_CHECK(budget_class(margin, true) == i + BUDGET_MARGINS);
        TEST_CHECK(budget_odds(&w, i) >= budget_odds(&w, last));
        last = i;
    }
    TEST_CHECK(last == BUDGET_MARGINS - 1 && budget_class(INFINITY, false) == last);
    TEST_CHECK(budget_class(NAN, false) == last);
    for (int i = 0; i < 1000; i++) budget_learn(&w, 2, i % 4 == 0);
    TEST_CHECK(fabsf(budget_odds(&w, 2) - .25f) < .05f);
    for (int i = 0; i < 1000; i++) budget_learn(&w, 2, false);
    TEST_CHECK(budget_odds(&w, 2) > 0 && budget_odds(&w, 2) < .01f);
    for (int i = 0; i < 1000; i++) budget_learn(&w, 2, true);
    TEST_CHECK(budget_odds(&w, 2) < 1 && budget_odds(&w, 2) > .98f);
}

int main(void)
{
    TEST_RUN(test_classes);
    TEST_RUN(test_never_slow);
    TEST_RUN(test_pays);
    TEST_RUN(test_first_answer);
    TEST_RUN(test_long_prompt);
    TEST_RUN(test_was_right);
    TEST_RUN(test_turns);
    return unit_report("draft_budget");
}
