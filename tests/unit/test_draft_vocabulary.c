/* test_draft_vocabulary.c - which tokens a drafter may say: the first, those with a name, and those
 * seen lately; all of them where too many are missed. */
#include "speculation/draft_vocabulary.h"

#include "base/memory.h"
#include "unit.h"

enum { FIRST = 3 };

static tokenizer *tokens;
static draft_vocabulary words;
static draft_seen seen;

static void begin(uint32_t n_tokens)
{
    CHECK(draft_vocabulary_open(&words, tokens, n_tokens, FIRST) == 0);
    CHECK(draft_seen_open(&seen, &words) == 0);
}

static void end(void)
{
    draft_seen_close(&seen);
    draft_vocabulary_close(&words);
}

/* The set as bits; checks that it ascends, and its count. */
static uint32_t take(bool *has)
{
    uint32_t n_panels, n_tokens;
    const uint32_t *panels = draft_vocabulary_take(&words, &seen, &n_panels, &n_tokens);
    memset(has, 0, words.n_panels * sizeof *has);
    if (!panels) {
        TEST_CHECK(n_panels == 0 && n_tokens == words.n_tokens);
        return 0;
    }
    for (uint32_t i = 0; i < n_panels; i++) {
        TEST_CHECK(panels[i] < words.n_panels && (i == 0 || panels[i] > panels[i - 1]));
        has[panels[i]] = true;
    }
    const uint32_t whole = n_panels * VOCABULARY_PANEL;
    const uint32_t less = words.n_panels * VOCABULARY_PANEL - words.n_tokens;
    TEST_CHECK(n_tokens == (has[words.n_panels - 1] ? whole - less : whole));
    return n_panels;
}

static void test_what_is_in(void)
{
    static bool has[8192];
    const int32_t text[] = {100, 8000, 101, 1600};
    begin(tokenizer_n_tokens(tokens));
    const uint32_t n = take(has);
    TEST_CHECK(n >= FIRST && has[0] && has[1] && has[2] && !has[100 / 16] && !has[500]);
    for (int32_t i = 0; i < (int32_t)words.n_tokens; i++)
        TEST_CHECK(!tokenizer_is_control(tokens, i) || has[i / VOCABULARY_PANEL]);
    draft_seen_read(&seen, &words, text, 4);
    TEST_CHECK(take(has) == n + 3 && has[100 / 16] && has[500] && has[100]);
    draft_seen_read(&seen, &words, text, 4);
    TEST_CHECK(take(has) == n + 3);
    end();
    begin(8192 - 5); /* the last panel is not whole */
    const int32_t last = 8192 - 6, beyond = 8192 - 5;
    draft_seen_read(&seen, &words, &last, 1);
    TEST_CHECK(take(has) && has[words.n_panels - 1]);
    draft_seen_learn(&seen, &words, beyond);
    TEST_CHECK(seen.missed == 0);
    end();
}

/* A timeline that is cut is read on from there; of one that is long, the end. */
static void test_cut(void)
{
    static bool has[8192];
    static int32_t text[6000];
    begin(tokenizer_n_tokens(tokens));
    text[10] = 4000;
    draft_seen_read(&seen, &words, text, 20);
    text[15] = 5000;
    draft_seen_read(&seen, &words, text, 12);
    draft_seen_read(&seen, &words, text, 20);
    take(has);
    TEST_CHECK(has[4000 / 16] && has[5000 / 16]);
    end();
    begin(tokenizer_n_tokens(tokens));
    text[5999] = 6000;
    draft_seen_read(&seen, &words, text, 6000);
    take(has);
    TEST_CHECK(!has[4000 / 16] && has[6000 / 16]);
    end();
}

/* More panels than may be seen: the latest stay. */
static void test_forgets(void)
{
    const uint32_t many = 64 * VOCABULARY_SEEN_MAX * VOCABULARY_PANEL;
    static bool has[64 * VOCABULARY_SEEN_MAX];
    static int32_t text[4000];
    CHECK(draft_vocabulary_open(&words, tokens, many, FIRST) == 0);
    CHECK(draft_seen_open(&seen, &words) == 0);
    for (uint32_t i = 0; i < 4000; i++) text[i] = (int32_t)(10000 + 16 * i);
    draft_seen_read(&seen, &words, text, 4000);
    TEST_CHECK(seen.n_seen <= VOCABULARY_SEEN_MAX && take(has) > FIRST);
    TEST_CHECK(has[text[3999] / 16] && !has[text[0] / 16]);
    end();
}

/* A text of tokens that were never seen gets all of them, until they are rare. */
static void test_missed(void)
{
    static bool has[8192];
    begin(tokenizer_n_tokens(tokens));
    int32_t next = 500;
    uint32_t n = 0;
    for (; take(has) && n < 100; n++, next += VOCABULARY_PANEL)
        draft_seen_learn(&seen, &words, next);
    TEST_CHECK_THAT(n > 3 && n < 16, "%u", n);
    for (n = 0; !take(has) && n < 100; n++) draft_seen_learn(&seen, &words, 500);
    TEST_CHECK_THAT(n > 0 && n < 64, "%u", n);
    draft_seen none = {0}; /* without a set nothing is learned */
    draft_seen_read(&none, &words, &next, 1);
    draft_seen_learn(&none, &words, next);
    TEST_CHECK(none.missed == 0);
    end();
}

int main(void)
{
    gguf_file *file = NULL;
    cerium_error err;
    CHECK(gguf_open(&file, "models/cerium-line.gguf", &err) == 0);
    CHECK(tokenizer_open(&tokens, file, &err) == 0);
    gguf_close(&file);
    TEST_RUN(test_what_is_in);
    TEST_RUN(test_cut);
    TEST_RUN(test_forgets);
    TEST_RUN(test_missed);
    tokenizer_close(&tokens);
    TEST_CHECK(memory_live() == 0);
    return unit_report("draft_vocabulary");
}
