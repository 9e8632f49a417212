/* test_together.c - requests that begin alike compute their common part once: branches of a
 * prompt that is not computed yet, and choices as long as their texts agree.  By counts, and
 * to the same bits as alone. */
#include "steps.h"

enum { BRANCHES = 8, COMMON = 900, OWN = 7, CHOICES = 16, ANSWER = 24 };

static job jobs[CHOICES], alone[CHOICES], first;
static _Atomic bool is_held;

/* All passes wait here while requests are started, so that they begin together. */
static void hold(void *user, const cerium_observation *seen)
{
    (void)user, (void)seen;
    while (is_held) wait_briefly();
}

static void start_all(uint32_t n)
{
    make_prompt(&first, 3, 3, 1, 1);
    first.n_new = 1;
    first.session = open_session(++fresh_tenant);
    is_held = true;
    start(&first);
    for (uint32_t i = 0; i < n; i++) start(&jobs[i]);
}

static void finish_all(job **list, uint32_t n)
{
    job *one = &first;
    is_held = false;
    finish(list, n);
    finish(&one, 1);
    cerium_session_close(&first.session);
}

static uint64_t computed(const job *j, uint64_t *reused)
{
    cerium_usage usage;
    cerium_session_usage(j->session, &usage);
    *reused += usage.reused_tokens;
    TEST_CHECK(usage.reused_tokens + usage.computed_tokens == usage.prompt_tokens);
    return usage.computed_tokens;
}

static void make_branch(job *j, uint32_t family, uint32_t i)
{
    make_prompt(j, COMMON + OWN + i, COMMON, family, 100 + i);
    j->n_new = 1;
    j->session = open_session(5);
}

/* Branches that arrive at once; the first may be canceled while its prompt is computed. */
static void branches(uint32_t family, bool cancels)
{
    job *list[BRANCHES];
    uint64_t n = 0, reused = 0, own = 0;
    for (uint32_t i = 0; i < BRANCHES; i++) {
        make_branch(&jobs[i], family, i);
        list[i] = &jobs[i];
        own += jobs[i].n_prompt - COMMON;
    }
    start_all(BRANCHES);
    if (cancels) cerium_session_cancel(jobs[0].session);
    finish_all(list, BRANCHES);
    for (uint32_t i = cancels; i < BRANCHES; i++) {
        TEST_CHECK(jobs[i].status == 0 && jobs[i].n_tokens == 1);
        n += computed(&jobs[i], &reused);
    }
    /* A few tokens are not worth waiting for, and not every token has a state after it. */
    TEST_CHECK_THAT(n <= COMMON + own + 16 * BRANCHES, "%llu", (unsigned long long)n);
    for (uint32_t i = 0; i < BRANCHES; i++) cerium_session_close(&jobs[i].session);
}

static void test_branches(void)
{
    branches(1, false);
    branches(2, true);
    branches(3, true);
}

/* No request waits for another tenant, or gets anything of it. */
static void test_tenants(void)
{
    job *list[2] = {&jobs[0], &jobs[1]};
    uint64_t n = 0, reused = 0;
    for (uint32_t i = 0; i < 2; i++) {
        make_branch(&jobs[i], 9, 0);
        cerium_session_close(&jobs[i].session);
        jobs[i].session = open_session(70 + i);
        jobs[i].sampling = (cerium_sampling){.ignore_end = true};
        jobs[i].n_new = 8;
    }
    uint64_t before, after;
    cerium_engine_stats stats;
    cerium_engine_measure(engine, &stats);
    before = stats.shared_rows;
    start_all(2);
    finish_all(list, 2);
    for (uint32_t i = 0; i < 2; i++) n += computed(&jobs[i], &reused);
    cerium_engine_measure(engine, &stats);
    after = stats.shared_rows;
    TEST_CHECK(n == 2 * jobs[0].n_prompt && reused == 0 && after == before);
    for (uint32_t i = 0; i < 2; i++) cerium_session_close(&jobs[i].session);
}

/* Choices of one prompt, with different seeds, penalties and lengths: each as alone, and the rows
 * of their common part are computed once. */
static void test_choices(void)
{
    static float logits[CHOICES][1024];
    job *list[CHOICES];
    cerium_engine_stats before, after;
    uint32_t n_tokens = 0, n_rows = 0;
    cerium_engine_measure(engine, &before);
    for (uint32_t i = 0; i < CHOICES; i++) {
        job *j = &jobs[i];
        make_prompt(j, 130, 130, 77, 0);
        j->n_new = ANSWER - i % 3;
        j->sampling = (cerium_sampling){.temperature = 0.3f, .seed = i / 2, .ignore_end = true};
        if (i % 5 == 4) j->sampling.repetition_penalty = 1.1f, j->sampling.top_k = 9;
        j->sampling.logprobs = i % 4 == 1;
        j->sampling.digest = i % 4 == 2;
        cerium_error err;
        const cerium_session_config plain = {.tenant = 6, .no_speculation = true};
        TEST_CHECK(cerium_session_open(&j->session, engine, &plain, &err) == 0);
        list[i] = j;
    }
    start_all(CHOICES);
    finish_all(list, CHOICES);
    cerium_engine_measure(engine, &after);
    for (uint32_t i = 0; i < CHOICES; i++) {
        run_alone(&jobs[i], &alone[i], logits[i]);
        check_same(&jobs[i], &alone[i], logits[i]);
        n_tokens += jobs[i].n_tokens;
    }
    /* A node of the trie: the beginning that no choice before it had. */
    for (uint32_t i = 0; i < CHOICES; i++)
        for (uint32_t at = 0; at < jobs[i].n_tokens; at++) {
            bool is_new = true;
            for (uint32_t k = 0; k < i && is_new; k++)
                is_new = jobs[k].n_tokens <= at ||
                         memcmp(jobs[k].tokens, jobs[i].tokens, at * sizeof(int32_t));
            n_rows += is_new;
        }
    const uint64_t shared = after.shared_rows - before.shared_rows;
    printf("  choices: %u tokens, %u nodes, %llu rows shared\n", n_tokens, n_rows,
           (unsigned long long)shared);
    TEST_CHECK(shared > (n_tokens - n_rows) * 3 / 4 && shared <= n_tokens - n_rows);
    /* Each continues from where it is. */
    for (uint32_t i = 0; i < CHOICES; i++) {
        cerium_error err;
        cerium_session *fork = NULL;
        TEST_CHECK(cerium_session_fork(&fork, jobs[i].session, &err) == 0);
        cerium_session_close(&fork);
        cerium_session_close(&jobs[i].session);
    }
}

/* Choices one after the other, after two that began together: the text of earlier ones is not
 * computed again, though none of them runs any more. */
static void test_later_choices(void)
{
    static float logits[CHOICES][1024];
    job *list[2] = {&jobs[0], &jobs[1]};
    cerium_engine_stats before, after;
    uint32_t n_tokens = 0;
    cerium_engine_measure(engine, &before);
    for (uint32_t i = 0; i < CHOICES; i++) {
        job *j = &jobs[i], *one = j;
        make_prompt(j, 130, 130, 78, 0);
        j->n_new = ANSWER - i % 3;
        j->sampling = (cerium_sampling){.temperature = 0.3f, .seed = i / 2, .ignore_end = true};
        if (i % 5 == 4) j->sampling.repetition_penalty = 1.1f;
        j->sampling.logprobs = i % 4 == 1;
        cerium_error err;
        const cerium_session_config plain = {.tenant = 7, .no_speculation = true};
        TEST_CHECK(cerium_session_open(&j->session, engine, &plain, &err) == 0);
        if (i == 0) continue;
        if (i == 1) {
            start_all(2);
            finish_all(list, 2);
            continue;
        }
        start(one);
        finish(&one, 1);
    }
    cerium_engine_measure(engine, &after);
    for (uint32_t i = 0; i < CHOICES; i++) {
        run_alone(&jobs[i], &alone[i], logits[i]);
        check_same(&jobs[i], &alone[i], logits[i]);
        n_tokens += jobs[i].n_tokens;
        cerium_session_close(&jobs[i].session);
    }
    const uint64_t rows = after.answer_rows - before.answer_rows - 1; /* that of start_all() */
    printf("  later choices: %u tokens, %llu rows\n", n_tokens, (unsigned long long)rows);
    TEST_CHECK(after.shared_rows - before.shared_rows >= n_tokens / 4);
    TEST_CHECK(rows < n_tokens * 7 / 8);
}

static void make_choice(job *j, uint32_t n_new)
{
    cerium_error err;
    const cerium_session_config plain = {.tenant = 8, .no_speculation = true};
    make_prompt(j, 126, 126, 79, 0);
    j->n_new = n_new;
    j->sampling = (cerium_sampling){.temperature = 1, .seed = 3, .ignore_end = true};
    TEST_CHECK(cerium_session_open(&j->session, engine, &plain, &err) == 0);
}

/* A long prompt of another tenant: all pages are taken but the two that a session holds. */
static void take_other_pages(void)
{
    job *j = &jobs[4];
    make_prompt(j, CONTEXT_MAX - 2 * 64, 0, 0, ++fresh_tenant);
    j->n_new = 1;
    j->session = open_session(fresh_tenant);
    run(j);
    cerium_session_close(&j->session);
}

/* A session says what others had said, and needs no row of its own.  Of the keys and values it then
 * finds only those that some session holds, the prompt's: its logits follow more tokens.  It is
 * asked again with the prompt. */
static void test_again(void)
{
    static float logits[1024];
    job *list[2] = {&jobs[0], &jobs[1]}, *holds = &jobs[2], *j = &jobs[3];
    cerium_engine_stats before, after;
    for (uint32_t i = 0; i < 2; i++) make_choice(&jobs[i], 6);
    start_all(2);
    finish_all(list, 2);
    for (uint32_t i = 0; i < 2; i++) cerium_session_close(&jobs[i].session);
    make_choice(holds, 1);
    holds->sampling.temperature = 0; /* it has a row of its own, and so pages */
    run(holds);
    make_choice(j, 6);
    take_other_pages();
    cerium_engine_measure(engine, &before);
    run(j);
    cerium_engine_measure(engine, &after);
    TEST_CHECK(after.shared_rows - before.shared_rows == j->n_new);
    run_alone(j, &alone[3], logits);
    check_same(j, &alone[3], logits);
    run(j);
    check_same(j, &alone[3], logits);
    cerium_session_close(&j->session);
    cerium_session_close(&holds->session);
}

int main(void)
{
    static const char *const models[] = {"tests/golden/fixtures/llama.gguf",
                                         "tests/golden/fixtures/gpt-oss-mxfp4.gguf",
                                         "tests/golden/fixtures/qwen35.gguf"};
    observe_passes = hold;
    for (uint32_t i = 0; i < 2; i++) {
        open_engine(models[i], CHOICES + 3, 128, 0);
        TEST_RUN(test_branches);
        TEST_RUN(test_tenants);
        TEST_RUN(test_choices);
        TEST_RUN(test_later_choices);
        cerium_engine_close(&engine);
        open_engine(models[i], CHOICES + 3, 128, 1); /* few pages */
        TEST_RUN(test_again);
        cerium_engine_close(&engine);
    }
    open_engine(models[2], CHOICES + 3, 128, 0); /* states: prompts alone */
    TEST_RUN(test_branches);
    TEST_RUN(test_tenants);
    cerium_engine_close(&engine);
    return unit_report("together");
}
