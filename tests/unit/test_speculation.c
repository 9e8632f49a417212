/* test_speculation.c - places of n-grams against a naive search, odds and lengths, and drafters
 * that follow edits. */
#include "speculation/drafter.h"

#include "base/memory.h"
#include "../random.h"
#include "unit.h"

enum { TEXT_MAX = 4000 };

/* ---- ngrams ---- */

/* All places as the header defines them: a naive search. */
static uint32_t find_naively(const int32_t *text, uint32_t n_places, const int32_t *context,
                             uint32_t n, uint32_t from, uint32_t *at)
{
    uint32_t best = 0;
    for (uint32_t i = 0; i < n_places; i++) {
        uint32_t same = ngrams_match(text, i, context, n);
        if (same < NGRAMS_SHORT || same < best) continue;
        bool nearer = (i >= from) != (*at >= from) ? i >= from : i >= from ? i < *at : i > *at;
        if (same == best && !nearer) continue;
        best = same;
        *at = i;
    }
    return best;
}

/* For texts whose chains are shorter than a walk: the same places. */
static void test_ngrams(void)
{
    static int32_t text[TEXT_MAX], context[64];
    uint8_t *memory = memory_alloc(ngrams_bytes(TEXT_MAX));
    uint32_t n_found = 0;
    ngrams x;
    for (uint32_t round = 0; round < 40; round++) {
        uint32_t n = 1 + random_below(600), kinds = 30 + random_below(300);
        ngrams_open(&x, memory, TEXT_MAX);
        for (uint32_t i = 0; i < n; i++) {
            bool is_copy = i > 20 && random_below(4) > 0;
            text[i] = is_copy ? text[i - 20] : (int32_t)random_below(kinds);
            if (i > 20 && random_below(9) == 0) text[i] = (int32_t)random_below(kinds);
        }
        ngrams_grow(&x, text, n / 2);
        ngrams_grow(&x, text, n);
        for (uint32_t k = 0; k < 50; k++) {
            uint32_t from = random_below(n + 1), n_context = random_below(20), at = 0, want_at = 0;
            uint32_t end = n_context + random_below(n > n_context ? n - n_context : 1);
            if (end > n) n_context = 0;
            memcpy(context, text + end - n_context, n_context * sizeof *context);
            if (n_context && random_below(3) == 0) context[0] = -1;
            uint32_t same = ngrams_find(&x, text, context, n_context, from, &at);
            uint32_t want = find_naively(text, n, context, n_context, from, &want_at);
            TEST_CHECK_THAT(same == want, "%u %u", same, want);
            if (same == want && same) TEST_CHECK_THAT(at == want_at, "%u %u", at, want_at);
            n_found += same > 0;
        }
    }
    TEST_CHECK(n_found > 500);
    memory_free(memory);
}

/* After growing and cutting, the index equals one that only grew, to the bit. */
static void test_cut(void)
{
    static int32_t text[TEXT_MAX];
    size_t size = ngrams_bytes(TEXT_MAX);
    uint8_t *memory = memory_zalloc(2, size);
    ngrams x, y;
    for (uint32_t i = 0; i < TEXT_MAX; i++) text[i] = (int32_t)random_below(9);
    ngrams_open(&x, memory, TEXT_MAX);
    for (uint32_t round = 0; round < 30; round++) {
        uint32_t keep = random_below(x.n + 1), grow = keep + random_below(TEXT_MAX - keep);
        ngrams_cut(&x, text, keep);
        TEST_CHECK(x.n == keep);
        for (uint32_t i = keep; i < grow; i++) text[i] = (int32_t)random_below(9);
        ngrams_grow(&x, text, grow);
        ngrams_open(&y, memory + size, TEXT_MAX);
        ngrams_grow(&y, text, grow);
        for (int k = 0; k < NGRAMS_ORDERS; k++) {
            TEST_CHECK(!memcmp(x.heads[k], y.heads[k], sizeof(uint32_t) << x.bits));
            TEST_CHECK(!memcmp(x.older[k], y.older[k], grow * sizeof(uint32_t)));
        }
        memset(memory + size, 0, size); /* places that neither reached are unchanged */
    }
    memory_free(memory);
}

/* A search is bounded even if every place looks alike. */
static void test_monotony(void)
{
    static int32_t text[TEXT_MAX];
    uint8_t *memory = memory_alloc(ngrams_bytes(TEXT_MAX));
    uint32_t at = 0;
    ngrams x;
    ngrams_open(&x, memory, TEXT_MAX);
    ngrams_grow(&x, text, TEXT_MAX);
    TEST_CHECK(ngrams_find(&x, text, text, TEXT_MAX, UINT32_MAX, &at) == NGRAMS_MATCH_MAX);
    TEST_CHECK(at == TEXT_MAX - 1);
    TEST_CHECK(ngrams_find(&x, text, text, 1, UINT32_MAX, &at) == 0);
    memory_free(memory);
}

/* ---- odds and lengths ---- */

static void test_odds(void)
{
    draft_odds odds;
    odds_init(&odds);
    float first = odds_of(&odds, DRAFT_TIMELINE, 5);
    for (int i = 0; i < 400; i++) odds_learn(&odds, DRAFT_TIMELINE, 5, i % 4 == 0);
    TEST_CHECK(odds_of(&odds, DRAFT_TIMELINE, 5) < 0.3f && first > 0.5f);
    TEST_CHECK(odds_of(&odds, DRAFT_TIMELINE, 5) > 0.2f);
    TEST_CHECK(odds_of(&odds, DRAFT_PREDICTION, 5) == first);
    for (int i = 0; i < 4000; i++) odds_learn(&odds, DRAFT_TIMELINE, 5, true);
    TEST_CHECK(odds_of(&odds, DRAFT_TIMELINE, 5) > 0.95f);
    TEST_CHECK(odds_of(&odds, DRAFT_TIMELINE, 5) < 1);
    for (int i = 0; i < 4000; i++) odds_learn(&odds, DRAFT_TIMELINE, 5, false);
    TEST_CHECK(odds_of(&odds, DRAFT_TIMELINE, 5) > 0);
}

static void learn(draft_pace *pace, uint32_t n_rows, uint64_t ns)
{
    pace_wants(pace, n_rows);
    pace_learn(pace, n_rows, ns);
}

static void test_pace(void)
{
    float ns[PACE_ROWS_MAX + 1];
    draft_pace pace = {0};
    TEST_CHECK(!pace_estimate(&pace, 7, ns));
    learn(&pace, 1, 1000);
    TEST_CHECK(pace_estimate(&pace, PACE_ROWS_MAX, ns) && ns[1] == 1000);
    TEST_CHECK(ns[17] > 1500 && ns[17] < 6000);
    learn(&pace, 20, 90000); /* once is not enough: it may have been delayed */
    TEST_CHECK(pace_estimate(&pace, 20, ns) && ns[20] < 6000);
    for (int i = 0; i < 12; i++) learn(&pace, 20, 6000);
    TEST_CHECK(pace_estimate(&pace, PACE_ROWS_MAX, ns));
    TEST_CHECK_THAT(ns[20] > 5900 && ns[20] < 6200, "%g", (double)ns[20]);
    TEST_CHECK_THAT(ns[10] > 3200 && ns[10] < 3600, "%g", (double)ns[10]);
    for (int rows = 2; rows <= PACE_ROWS_MAX; rows++) TEST_CHECK(ns[rows] >= ns[rows - 1]);
    for (int i = 0; i < 3; i++) learn(&pace, 1, 100000);
    TEST_CHECK(pace_estimate(&pace, 1, ns) && ns[1] < 1500);
    for (int i = 0; i < 100; i++) learn(&pace, 1, 2000); /* really slower */
    TEST_CHECK(pace_estimate(&pace, 1, ns) && ns[1] > 1900);
    for (int i = 0; i < 9; i++) learn(&pace, 12, 50000); /* more than more rows last */
    for (int i = 0; i < 9; i++) learn(&pace, 24, 7000);
    TEST_CHECK(pace_estimate(&pace, 24, ns) && ns[12] <= 7000);
    float then = ns[20];
    for (int i = 0; i < 5000; i++) learn(&pace, 1, 2000); /* old measurements are repeated */
    TEST_CHECK(pace_estimate(&pace, 24, ns) && ns[20] < then * 0.6f);
    TEST_CHECK(!pace_wants(&pace, PACE_ROWS_MAX + 1));
    /* Some passes are measured at first, then few. */
    draft_pace seldom = {0};
    uint32_t n = 0;
    for (int i = 0; i < 1000; i++)
        if (pace_wants(&seldom, 5)) pace_learn(&seldom, 5, 100), n++;
    TEST_CHECK_THAT(n >= 6 && n < 14, "%u", n);
}

static float best_rate(const draft_odds *odds, uint32_t match, const float *cost, uint32_t n_max,
                       uint32_t *length)
{
    float tokens = 1, all_right = 1, best = 1;
    *length = 0;
    for (uint32_t n = 1; n <= n_max; n++) {
        tokens += all_right *= odds_of(odds, DRAFT_TIMELINE, match + n - 1);
        if (tokens / cost[n] > best) best = tokens / cost[n], *length = n;
    }
    return best;
}

/* As the header defines it: a row that is right earns the cost of a token. */
static uint32_t length_naively(const draft_odds *odds, uint32_t match, const float *cost)
{
    float value = 0, best_value = 0, all_right = 1;
    uint32_t best = 0, most, ignored;
    best_rate(odds, match, cost, 63, &most);
    for (uint32_t n = 1; n <= most; n++) {
        uint32_t begin = n; /* of the odds that hold there */
        float is_right = odds_of(odds, DRAFT_TIMELINE, match + n);
        all_right *= odds_of(odds, DRAFT_TIMELINE, match + n - 1);
        while (begin > 0 && odds_of(odds, DRAFT_TIMELINE, match + begin - 1) == is_right) begin--;
        value += all_right - best_rate(odds, match + begin, cost, 63, &ignored) *
                                 (cost[n] - cost[n - 1]);
        if (value > best_value) best_value = value, best = n;
    }
    return best;
}

/* If rows cost what a token earns, there are no drafts; if they are free, all; if a place
 * is uncertain and all after it are certain, few. */
static void test_length(void)
{
    draft_odds odds;
    float gain, cost[PACE_ROWS_MAX];
    uint32_t n_long = 0;
    odds_init(&odds);
    draft_pace dear = {0};
    for (uint32_t i = 0; i < 4 * PACE_ROWS_MAX; i++)
        learn(&dear, 1 + i % PACE_ROWS_MAX, 1000 * (1 + i % PACE_ROWS_MAX));
    draft_costs(&dear, 1, 63, cost);
    TEST_CHECK(draft_length(&odds, DRAFT_TIMELINE, 9, cost, 63, &gain) == 0 && gain == 1);
    draft_costs(NULL, 1, 63, cost);
    TEST_CHECK(draft_length(&odds, DRAFT_TIMELINE, 64, cost, 63, &gain) == 63 && gain > 20);
    for (uint32_t round = 0; round < 200; round++) {
        uint32_t match = random_below(70);
        for (uint32_t n = 1; n < PACE_ROWS_MAX; n++)
            cost[n] = cost[n - 1] + (float)random_below(300) / 1000;
        uint32_t best = length_naively(&odds, match, cost);
        uint32_t length = draft_length(&odds, DRAFT_TIMELINE, match, cost, 63, &gain);
        TEST_CHECK_THAT(length == best && gain >= 1, "%u %u", length, best);
        n_long += length > 2;
    }
    TEST_CHECK_THAT(n_long > 50, "%u", n_long);
    for (int i = 0; i < 4000; i++) {
        for (uint32_t match = 3; match < 70; match++)
            odds_learn(&odds, DRAFT_TIMELINE, match, i % 200 > 0);
        for (uint32_t match = 1; match < 3; match++)
            odds_learn(&odds, DRAFT_TIMELINE, match, i % 2 > 0);
    }
    for (uint32_t n = 1; n < PACE_ROWS_MAX; n++) cost[n] = 1 + .05f * (float)n;
    uint32_t most, length = draft_length(&odds, DRAFT_TIMELINE, 1, cost, 63, &gain);
    best_rate(&odds, 1, cost, 63, &most);
    TEST_CHECK_THAT(most > 40 && length >= 1 && length < 4, "%u %u", most, length);
    TEST_CHECK(draft_length(&odds, DRAFT_TIMELINE, 64, cost, 63, &gain) > 40);
}

/* ---- drafters ---- */

static draft_pace fast; /* rows cost a twentieth of a pass */

/* Passes for answer [n] after prompt [n_prompt], drafts checked as an engine would. */
static uint32_t passes_with(const past_answers *answers, const int32_t *prompt, uint32_t n_prompt,
                            const int32_t *prediction, uint32_t n_prediction,
                            const int32_t *answer, uint32_t n)
{
    static int32_t tokens[TEXT_MAX];
    void *memory = memory_alloc(drafter_bytes(TEXT_MAX));
    void *index = memory_alloc(ngrams_bytes(n_prediction + 1));
    uint32_t at = n_prompt, n_passes = 0;
    drafter d;
    drafter_open(&d, memory, TEXT_MAX);
    memcpy(tokens, prompt, n_prompt * sizeof *tokens);
    draft_hints hints = {prediction, n_prediction, index, NULL};
    drafter_begin(&d, tokens, at, &hints);
    d.past = answers;
    drafter_follow(&d, tokens, at);
    for (uint32_t i = 0; i < n; n_passes++) {
        int32_t draft[63];
        draft_source source;
        uint32_t most = n - i - 1 < 63 ? n - i - 1 : 63, k = 0;
        uint32_t n_drafts = drafter_draft(&d, &fast, tokens, at, 1, most, draft, &source);
        TEST_CHECK(n_drafts <= most);
        for (uint32_t j = 0; j < n_drafts; j++) TEST_CHECK(draft[j] >= 0);
        while (k < n_drafts && draft[k] == answer[i + k]) k++;
        memcpy(tokens + at, answer + i, (k + 1) * sizeof *tokens);
        at += k + 1;
        i += k + 1;
        drafter_follow(&d, tokens, at);
    }
    memory_free(memory);
    memory_free(index);
    return n_passes;
}

static uint32_t passes_of(const int32_t *prompt, uint32_t n_prompt, const int32_t *prediction,
                          uint32_t n_prediction, const int32_t *answer, uint32_t n)
{
    return passes_with(NULL, prompt, n_prompt, prediction, n_prediction, answer, n);
}

/* A file of 1,000 tokens, with lines inserted, dropped and replaced. */
static void test_edits(void)
{
    static int32_t before[1000], after[1100], prompt[1000];
    uint32_t n = 0;
    for (uint32_t i = 0; i < 1000; i++) before[i] = prompt[i] = (int32_t)(random_below(300));
    for (uint32_t i = 0; i < 1000; i++) {
        if (i == 200) /* inserted */
            for (int k = 0; k < 12; k++) after[n++] = 1000 + k;
        if (i >= 400 && i < 425) continue; /* dropped */
        after[n++] = i % 300 == 150 ? 2000 : before[i]; /* replaced, three of them */
    }
    uint32_t by_prediction = passes_of((int32_t[]){1, 2, 3}, 3, before, 1000, after, n);
    uint32_t by_prompt = passes_of(prompt, 1000, NULL, 0, after, n);
    uint32_t by_nothing = passes_of((int32_t[]){1, 2, 3}, 3, NULL, 0, after, n);
    TEST_CHECK_THAT(by_prediction <= 16 + 12 + 18, "%u", by_prediction);
    TEST_CHECK_THAT(by_prompt <= 16 + 12 + 22, "%u", by_prompt);
    TEST_CHECK_THAT(by_nothing > n * 9 / 10, "%u of %u", by_nothing, n);
}

/* A repeating text is drafted beyond its own end. */
static void test_period(void)
{
    static int32_t answer[600];
    for (uint32_t i = 0; i < 600; i++) answer[i] = (int32_t)(i % 7);
    uint32_t n = passes_of((int32_t[]){50}, 1, NULL, 0, answer, 600);
    TEST_CHECK_THAT(n <= 7 + 22, "%u", n);
}

/* A timeline that is cut and continues differently equals one that was never longer. */
static void test_shorter(void)
{
    static int32_t tokens[TEXT_MAX], draft[2][63];
    void *memory[2];
    drafter d[2];
    draft_source source;
    for (int k = 0; k < 2; k++) {
        memory[k] = memory_alloc(drafter_bytes(TEXT_MAX));
        drafter_open(&d[k], memory[k], TEXT_MAX);
    }
    for (uint32_t i = 0; i < 2000; i++) tokens[i] = (int32_t)(i < 1000 ? i % 300 : i % 11);
    drafter_begin(&d[0], tokens, 2000, &(draft_hints){0});
    drafter_cut(&d[0], tokens, 900);
    for (uint32_t i = 900; i < 1000; i++) tokens[i] = (int32_t)(i % 90);
    for (int k = 0; k < 2; k++) drafter_begin(&d[k], tokens, 1000, &(draft_hints){0});
    uint32_t n = drafter_draft(&d[0], &fast, tokens, 1000, 1, 63, draft[0], &source);
    TEST_CHECK(n > 0 && n == drafter_draft(&d[1], &fast, tokens, 1000, 1, 63, draft[1], &source));
    TEST_CHECK(!memcmp(draft[0], draft[1], n * sizeof **draft));
    for (int k = 0; k < 2; k++) memory_free(memory[k]);
}

/* ---- earlier answers ---- */

enum { ROOM = 600, ANSWERS_MAX = 400 };

static past_answers *open_earlier(uint32_t n_max)
{
    static past_answers x;
    size_t size = past_answers_bytes(n_max);
    void *memory = memory_alloc(size);
    memset(memory, 0xa5, size); /* garbage */
    past_answers_lay_out(&x, memory, n_max);
    past_answers_clear(&x);
    return &x;
}

static void close_earlier(past_answers *x) { memory_free(x->index.heads[0]); }

/* The text is the end of all answers as they would be without a bound, at least the newer
 * half of the room, and its index is that of a text which was never longer. */
static void check_earlier(const past_answers *x, const int32_t *all, uint32_t n_all)
{
    uint32_t n = x->index.n;
    past_answers y;
    TEST_CHECK(n <= x->index.n_max && n <= n_all);
    TEST_CHECK_THAT(n == n_all || n >= x->index.n_max / 2 - PAST_CONTEXT, "%u", n);
    TEST_CHECK(!memcmp(x->tokens, all + n_all - n, n * sizeof *all));
    void *memory = memory_alloc(past_answers_bytes(x->index.n_max));
    past_answers_lay_out(&y, memory, x->index.n_max);
    past_answers_clear(&y);
    ngrams_grow(&y.index, x->tokens, n);
    for (int k = 0; k < NGRAMS_ORDERS; k++) {
        uint32_t first = y.index.lengths[k]; /* no place is chained before it */
        TEST_CHECK(!memcmp(x->index.heads[k], y.index.heads[k], sizeof(uint32_t) << y.index.bits));
        if (n > first)
            TEST_CHECK(!memcmp(x->index.older[k] + first, y.index.older[k] + first,
                               (n - first) * sizeof(uint32_t)));
    }
    memory_free(memory);
}

static void test_earlier(void)
{
    static int32_t all[ANSWERS_MAX * ROOM], timeline[2 * ROOM];
    uint32_t n_all = 0, n_long = 0;
    past_answers *x = open_earlier(ROOM);
    for (uint32_t round = 0; round < ANSWERS_MAX; round++) {
        uint32_t begin = random_below(60);
        uint32_t n = begin + random_below(round % 9 ? 120 : 2 * ROOM - 60);
        for (uint32_t i = 0; i < n; i++) timeline[i] = (int32_t)random_below(round % 2 ? 5 : 3000);
        past_answers_add(x, timeline, begin, n);
        if (n - begin < PAST_ANSWER_MIN) continue;
        if (n - begin > ROOM / 2) begin = n - ROOM / 2, n_long++;
        uint32_t first = begin < PAST_CONTEXT ? 0 : begin - PAST_CONTEXT;
        memcpy(all + n_all, timeline + first, (n - first) * sizeof *all);
        n_all += n - first;
        all[n_all++] = PAST_END;
        check_earlier(x, all, n_all);
        uint32_t there = x->index.n; /* existing answers are not added again, whatever the prompt */
        if (begin > 0) timeline[0] = 7777;
        past_answers_add(x, timeline, begin, n);
        past_answers_add(x, timeline + begin, 0, n - begin);
        TEST_CHECK(x->index.n == there);
    }
    TEST_CHECK_THAT(n_long > 5, "%u", n_long);
    close_earlier(x);
}

/* An answer that is requested again in another session needs few passes, also at its beginning,
 * though others are before and after it; text cut away meanwhile does no harm. */
static void test_again(void)
{
    static int32_t answers[9][300], prompts[9][50], changed[300];
    past_answers *x = open_earlier(9 * 400);
    for (uint32_t k = 0; k < 9; k++) {
        int32_t timeline[350];
        for (uint32_t i = 0; i < 50; i++) prompts[k][i] = (int32_t)(i < 45 ? random_below(300) : i);
        for (uint32_t i = 0; i < 300; i++) answers[k][i] = (int32_t)random_below(300);
        memcpy(timeline, prompts[k], sizeof prompts[k]);
        memcpy(timeline + 50, answers[k], sizeof answers[k]);
        past_answers_add(x, timeline, 50, 350);
    }
    for (uint32_t k = 0; k < 9; k++) {
        uint32_t n = passes_with(x, prompts[k], 50, NULL, 0, answers[k], 300);
        TEST_CHECK_THAT(n <= 5 + 4, "%u", n); /* 63 drafts per pass, a shorter one at first */
        memcpy(changed, answers[k], sizeof changed);
        changed[100] = changed[200] = 999;
        prompts[k][10] = 998;
        n = passes_with(x, prompts[k], 50, NULL, 0, changed, 300);
        TEST_CHECK_THAT(n <= 5 + 4 + 2 * 6, "%u", n);
    }
    uint32_t without = passes_of(prompts[4], 50, NULL, 0, answers[4], 300);
    TEST_CHECK_THAT(without > 250, "%u", without);
    close_earlier(x);
}

/* The text changes under a drafter that follows it. */
static void test_moved(void)
{
    static int32_t tokens[TEXT_MAX], draft[63];
    void *memory = memory_alloc(drafter_bytes(TEXT_MAX));
    past_answers *x = open_earlier(ROOM);
    draft_source source;
    drafter d;
    drafter_open(&d, memory, TEXT_MAX);
    uint32_t n = 40, n_drafts = 0;
    for (uint32_t i = 0; i < TEXT_MAX; i++) tokens[i] = (int32_t)random_below(200);
    drafter_begin(&d, tokens, n, &(draft_hints){0});
    for (uint32_t round = 0; round < 300; round++) {
        d.past = round % 7 == 6 ? NULL : x;
        if (round % 5 == 0) past_answers_add(x, tokens, n, n + 20 + round);
        if (round % 50 == 49) past_answers_clear(x);
        drafter_follow(&d, tokens, n += 1 + round % 3);
        uint32_t k = drafter_draft(&d, NULL, tokens, n, 1, 63, draft, &source);
        for (uint32_t i = 0; i < k; i++) TEST_CHECK(draft[i] >= 0 && draft[i] < 200);
        TEST_CHECK(k == 0 || source != DRAFT_PAST_ANSWERS || d.past);
        n_drafts += source == DRAFT_PAST_ANSWERS ? k : 0;
    }
    TEST_CHECK_THAT(n_drafts > 1000, "%u", n_drafts);
    memory_free(memory);
    close_earlier(x);
}

int main(void)
{
    for (uint32_t i = 0; i < 4 * 64; i++) learn(&fast, 1 + i % 64, 1000 + 50 * (1 + i % 64));
    TEST_RUN(test_ngrams);
    TEST_RUN(test_cut);
    TEST_RUN(test_monotony);
    TEST_RUN(test_odds);
    TEST_RUN(test_pace);
    TEST_RUN(test_length);
    TEST_RUN(test_edits);
    TEST_RUN(test_period);
    TEST_RUN(test_shorter);
    TEST_RUN(test_earlier);
    TEST_RUN(test_again);
    TEST_RUN(test_moved);
    return unit_report("speculation");
}
