/* test_pointer.c - mixtures against a naive one that reads the text as a list of words, timelines
 * that are rewound, and texts without a match. */
#include "sampling/pointer.h"

#include <math.h>

#include "base/memory.h"
#include "../random.h"
#include "unit.h"

/* The vocabulary of these tests: twelve words, four with line breaks, three non-words. */
enum { WORDS = 12, BREAKS = 4, END = WORDS + BREAKS, SEAM, FENCE, VOCAB, LENGTH = 400 };

static const char *const breaks[BREAKS] = {"\n", "\n  ", "a\n", "a\n\n"}; /* "a" is word 0 */
static char names[WORDS][2];
static pointer_token vocabulary[VOCAB];
static pointer_vocabulary *v;

static void open_vocabulary(void)
{
    for (uint32_t i = 0; i < WORDS; i++) {
        names[i][0] = (char)('a' + i);
        vocabulary[i] = (pointer_token){{names[i], 1}, POINTER_TEXT};
    }
    for (uint32_t i = 0; i < BREAKS; i++)
        vocabulary[WORDS + i] = (pointer_token){{breaks[i], strlen(breaks[i])}, POINTER_TEXT};
    vocabulary[END] = (pointer_token){{"<end>", 5}, POINTER_END};
    vocabulary[SEAM] = (pointer_token){{"<middle>", 8}, POINTER_SEAM};
    vocabulary[FENCE] = (pointer_token){{"<suffix>", 8}, POINTER_BREAK};
    TEST_CHECK(pointer_vocabulary_open(&v, vocabulary, VOCAB, NULL) == CERIUM_OK);
}

/* Few words, many repetitions, and now and then tokens that are not text. */
static void random_text(int32_t *tokens, uint32_t n)
{
    uint32_t words = 2 + random_below(WORDS - 2);
    for (uint32_t i = 0; i < n; i++) {
        uint32_t kind = random_below(40);
        if (i > 20 && kind < 25) tokens[i] = tokens[i - 20 + random_below(2)];
        else if (kind == 39) tokens[i] = SEAM;
        else if (kind == 38) tokens[i] = random_below(2) ? END : FENCE;
        else if (kind > 34) tokens[i] = (int32_t)(WORDS + random_below(BREAKS));
        else tokens[i] = (int32_t)random_below(words);
    }
}

static void random_logits(float *logits)
{
    for (uint32_t i = 0; i < VOCAB; i++) logits[i] = (float)random_below(1 << 16) / 8192 - 4;
}

/* ---- the naive mixture ---- */

static const double shares[POINTER_RUN_MAX + 1] = {0,   .10, .18, .34, .37, .37, .40, .50, .52,
                                                   .52, .52, .52, .72, .72, .72, .72, .72};

/* Classes of a word with a line break: all words that read alike up to the break. */
static bool alike(int32_t breaking, int32_t other)
{
    bool empty = breaking == WORDS || breaking == WORDS + 1;
    if (empty) return other == WORDS || other == WORDS + 1 || other == END;
    return other == 0 || other == WORDS + 2 || other == WORDS + 3;
}

static void softmax(const float *logits, double *p)
{
    double sum = 0;
    for (uint32_t i = 0; i < VOCAB; i++) sum += p[i] = exp((double)logits[i]);
    for (uint32_t i = 0; i < VOCAB; i++) p[i] /= sum;
}

/* The words without seams; tokens that are not text separate. */
static void plain(const float *logits, double strength, const int32_t *tokens, uint32_t n,
                  double *p)
{
    int32_t words[LENGTH];
    double text[VOCAB] = {0}, sum = 0;
    uint32_t runs[POINTER_PLACES], n_found = 0, places = 0, longest = 0, len = 0;
    int32_t next[POINTER_PLACES];
    for (uint32_t i = 0; i < n; i++)
        if (tokens[i] != SEAM) words[len++] = tokens[i];
    softmax(logits, p);
    if (!len || words[len - 1] >= END) return;
    for (uint32_t at = len - 1; at-- > 0 && places < POINTER_PLACES;) {
        if (words[at] != words[len - 1]) continue;
        places++;
        if (words[at + 1] >= END) continue;
        uint32_t run = 0;
        while (run < POINTER_RUN_MAX && run <= at && words[at - run] < END &&
               words[at - run] == words[len - 1 - run])
            run++;
        if (run > longest) longest = run;
        runs[n_found] = run;
        next[n_found++] = words[at + 1];
    }
    if (!n_found) return;
    for (uint32_t i = 0; i < n_found; i++) {
        uint32_t shorter = longest - runs[i];
        double weight = shorter > 3 ? 0 : pow(3, 3 - shorter), all = 0;
        sum += weight;
        if (next[i] < WORDS) {
            text[next[i]] += weight;
            continue;
        }
        for (int32_t t = 0; t < VOCAB; t++) all += alike(next[i], t) ? p[t] : 0;
        for (int32_t t = 0; t < VOCAB; t++)
            if (alike(next[i], t)) text[t] += weight * p[t] / all;
    }
    double share = shares[longest] * strength;
    for (uint32_t t = 0; t < VOCAB; t++) p[t] = (1 - share) * p[t] + share * text[t] / sum;
}

/* ---- tests ---- */

static pointer *open_pointer(uint32_t n_max)
{
    pointer *p = NULL;
    TEST_CHECK(pointer_open(&p, v, n_max, NULL) == CERIUM_OK);
    return p;
}

static void test_a_mixture_is_the_plain_one(void)
{
    int32_t tokens[LENGTH];
    float logits[VOCAB];
    double want[VOCAB], have[VOCAB];
    uint32_t mixtures = 0;
    for (uint32_t round = 0; round < 60; round++) {
        pointer *p = open_pointer(LENGTH);
        float strength = round % 3 ? 1.0f : 0.4f;
        random_text(tokens, LENGTH);
        for (uint32_t n = 1; n <= LENGTH; n += 1 + random_below(4)) {
            random_logits(logits);
            const float *mixed = pointer_mix(p, logits, strength, tokens, n);
            mixtures += mixed != logits;
            softmax(mixed, have);
            plain(logits, (double)strength, tokens, n, want);
            for (uint32_t t = 0; t < VOCAB; t++)
                TEST_CHECK_THAT(fabs(have[t] - want[t]) < 2e-6, "%u, %u tokens, %u: %.9f, not %.9f",
                                round, n, t, have[t], want[t]);
        }
        pointer_close(&p);
    }
    TEST_CHECK_THAT(mixtures > 5000, "%u", mixtures);
}

static void test_a_timeline_may_turn_back(void)
{
    int32_t tokens[LENGTH], other[LENGTH];
    float logits[VOCAB], kept[VOCAB];
    pointer *p = open_pointer(LENGTH);
    random_text(tokens, LENGTH);
    for (uint32_t round = 0; round < 200; round++) {
        uint32_t n = 1 + random_below(LENGTH), from = random_below(n);
        memcpy(other, tokens, sizeof tokens);
        random_text(other + from, LENGTH - from);
        random_logits(logits);
        memcpy(kept, pointer_mix(p, logits, 1, other, n), sizeof kept);
        pointer *fresh = open_pointer(n);
        TEST_CHECK(!memcmp(kept, pointer_mix(fresh, logits, 1, other, n), sizeof kept));
        pointer_close(&fresh);
        memcpy(tokens, other, sizeof tokens);
    }
    pointer_close(&p);
}

static void test_who_knows_nothing_changes_nothing(void)
{
    static const int32_t news[] = {0, 1, 2, 3, SEAM}, ended[] = {0, 1, END, 0, END},
                         apart[] = {0, FENCE, 1, SEAM, 0}, ids[] = {0, 1, 0};
    float logits[VOCAB];
    pointer *p = open_pointer(8);
    random_logits(logits);
    TEST_CHECK(pointer_mix(p, logits, 1, news, 5) == logits);
    TEST_CHECK(pointer_mix(p, logits, 1, ended, 5) == logits);
    TEST_CHECK(pointer_mix(p, logits, 1, apart, 5) == logits);
    TEST_CHECK(pointer_mix(p, logits, 1, ids, 3) != logits);
    logits[4] = INFINITY;
    TEST_CHECK(pointer_mix(p, logits, 1, ids, 3) == logits);
    for (uint32_t i = 0; i < VOCAB; i++) logits[i] = -INFINITY;
    TEST_CHECK(pointer_mix(p, logits, 1, ids, 3) == logits);
    logits[3] = 1;
    logits[5] = NAN;
    const float *mixed = pointer_mix(p, logits, 1, ids, 3);
    TEST_CHECK(mixed != logits && mixed[3] == 1 && mixed[1] > 1 - 2.3f && mixed[1] < 1 - 2.1f);
    pointer_close(&p);
}

/* A word of probability 0 in the model appears, where the text has it, by its share alone. */
static void test_the_text_names_what_the_model_does_not(void)
{
    static const int32_t ids[] = {0, 1, 2, 0, 1};
    float logits[VOCAB] = {0};
    double p_mixed[VOCAB];
    pointer *p = open_pointer(8);
    logits[2] = -1000;
    softmax(pointer_mix(p, logits, 1, ids, 5), p_mixed);
    TEST_CHECK_THAT(fabs(p_mixed[2] - 0.18) < 1e-6, "%f", p_mixed[2]);
    softmax(pointer_mix(p, logits, 0.5f, ids, 5), p_mixed);
    TEST_CHECK_THAT(fabs(p_mixed[2] - 0.09) < 1e-6, "%f", p_mixed[2]);
    pointer_close(&p);
}

static void test_no_memory(void)
{
    pointer_vocabulary *words = NULL;
    pointer *p = NULL;
    long live = memory_live();
    int status = CERIUM_ERR_MEMORY;
    for (long n = 0; status != CERIUM_OK; n++) {
        TEST_CHECK(n < 20);
        memory_fail_at(n);
        status = pointer_vocabulary_open(&words, vocabulary, VOCAB, NULL);
        if (status == CERIUM_OK) status = pointer_open(&p, words, LENGTH, NULL);
        memory_fail_at(-1);
        TEST_CHECK(status == CERIUM_OK || status == CERIUM_ERR_MEMORY);
        pointer_close(&p);
        pointer_vocabulary_close(&words);
        TEST_CHECK(memory_live() == live);
    }
}

int main(void)
{
    open_vocabulary();
    TEST_RUN(test_a_mixture_is_the_plain_one);
    TEST_RUN(test_a_timeline_may_turn_back);
    TEST_RUN(test_who_knows_nothing_changes_nothing);
    TEST_RUN(test_the_text_names_what_the_model_does_not);
    TEST_RUN(test_no_memory);
    pointer_vocabulary_close(&v);
    TEST_CHECK(memory_live() == 0);
    return unit_report("pointer");
}
