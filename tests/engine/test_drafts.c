/* test_drafts.c - tokens, texts, log-probabilities and logits are the same with speculation and
 * without: by steps and by requests, for every source of drafts, greedy and sampled, with stop
 * strings, alone and in a crowd, on any number of threads. */
#include "base/memory.h"
#include "steps.h"
#include "engine/answer_cache.h"

#include <unistd.h>

enum { ANSWER = 120, CROWD = 6 };

static cerium_engine *plain_engine, *engines[3]; /* with speculation: 1, 2 and 3 threads */
static float *want_logits, *have_logits;
static uint64_t n_drafted, n_accepted;

static cerium_engine *open_with(const char *model, const char *speculation, uint32_t threads)
{
    cerium_engine_config config;
    cerium_engine *e = NULL;
    cerium_error err;
    cerium_engine_config_defaults(&config);
    config.model_path = model;
    config.threads = threads;
    config.speculation = speculation;
    config.batch_tokens_max = 128;
    config.context_tokens_max = CONTEXT_MAX;
    config.head = "full"; /* logits are compared, all of them */
    TEST_CHECK_THAT(cerium_engine_open(&e, &config, &err) == 0, "%s", err.message);
    return e;
}

/* Prompts with repetitions, so that there is something to draft. */
static void make_repeating(job *j, uint32_t round)
{
    random_state = 77 + round;
    uint32_t period = 3 + next_random() % 40;
    j->n_prompt = 40 + next_random() % 200;
    for (uint32_t i = 0; i < j->n_prompt; i++) {
        bool is_new = i < period || next_random() % 23 == 0;
        j->prompt[i] = is_new ? (int32_t)(next_random() % info.n_vocab) : j->prompt[i - period];
    }
    j->n_new = ANSWER;
    j->sampling = (cerium_sampling){.ignore_end = round % 4 != 0};
    if (round % 3 == 1) j->sampling.temperature = 0.5f, j->sampling.seed = round;
    if (round % 3 == 2) j->sampling.temperature = 1.5f, j->sampling.top_k = 3;
    if (round % 5 == 2) j->sampling.repetition_penalty = 1.3f;
    if (round % 5 == 3) j->sampling.top_p = 0.7f;
    if (round % 4 == 1) j->sampling.pointer = 0.8f; /* a text that changes as drafts are judged */
    j->sampling.logprobs = round % 2;
}

static void count(const cerium_engine *e)
{
    cerium_engine_stats stats;
    cerium_engine_measure(e, &stats);
    n_drafted += stats.drafted_tokens;
    n_accepted += stats.accepted_tokens;
    TEST_CHECK(stats.accepted_tokens <= stats.drafted_tokens);
}

static void test_alone(void)
{
    static job want, have;
    cerium_session *plain = session_of(plain_engine);
    for (uint32_t round = 0; round < 18; round++) {
        make_repeating(&want, round);
        char stop[8] = "";
        by_steps(plain, &want, 0, want_logits);
        if (round % 6 == 5 && want.text_len > 60) { /* now with coming bytes as a stop string */
            const char *stops[] = {"no such text", stop};
            for (uint32_t i = 0; i < 3; i++) stop[i] = want.text[40 + i];
            if (memchr(stop, 0, 3)) continue;
            want.sampling.stops = stops;
            want.sampling.n_stops = 2;
            by_steps(plain, &want, 0, want_logits);
            for (int k = 0; k < 3; k++) {
                have = want;
                have.session = session_of(engines[k]);
                by_steps(have.session, &have, 0, have_logits);
                compare(&have, &want, false);
                by_request(&have, have_logits);
                compare(&have, &want, true);
                cerium_session_close(&have.session);
            }
            continue;
        }
        for (int k = 0; k < 3; k++) {
            have = want;
            have.session = session_of(engines[k]);
            by_steps(have.session, &have, k == 1 ? 5 : 0, have_logits);
            compare(&have, &want, false);
            TEST_CHECK(!memcmp(have_logits, want_logits, info.n_vocab * sizeof(float)));
            by_request(&have, have_logits); /* the session drafts from its past */
            compare(&have, &want, true);
            TEST_CHECK(!memcmp(have_logits, want_logits, info.n_vocab * sizeof(float)));
            have.prediction = want.tokens + 3;
            have.n_prediction = want.n_tokens - 3;
            if (want.n_tokens > 3) by_request(&have, have_logits);
            compare(&have, &want, true);
            cerium_session_close(&have.session);
        }
    }
    cerium_session_close(&plain);
}

/* Several at once: drafts of one are in a pass with rows of others. */
static void test_crowd(void)
{
    static job want[CROWD], have[CROWD];
    job *all[CROWD];
    cerium_session *plain = session_of(plain_engine);
    for (uint32_t i = 0; i < CROWD; i++) {
        make_repeating(&want[i], 40 + i);
        by_steps(plain, &want[i], 0, want_logits);
    }
    for (int k = 0; k < 3; k++) {
        for (uint32_t i = 0; i < CROWD; i++) {
            have[i] = want[i];
            have[i].session = session_of(engines[k]);
            all[i] = &have[i];
            start(all[i]);
        }
        finish(all, CROWD);
        for (uint32_t i = 0; i < CROWD; i++) {
            compare(&have[i], &want[i], true);
            cerium_session_close(&have[i].session);
        }
    }
    cerium_session_close(&plain);
}

/* A session that is cut back, forked by its tokens, and continued equals a new one. */
static void test_back_and_forth(void)
{
    static job want, have;
    cerium_session *plain = session_of(plain_engine);
    have.session = session_of(engines[1]);
    for (uint32_t round = 0; round < 12; round++) {
        make_repeating(&want, 90 + round / 4);
        want.n_prompt -= round % 4 * 9;
        if (round % 4 == 2) want.prompt[20] = (want.prompt[20] + 1) % (int32_t)info.n_vocab;
        by_steps(plain, &want, 0, want_logits);
        cerium_session *session = have.session;
        have = want;
        have.session = session;
        if (round % 2)
            by_steps(session, &have, 0, have_logits);
        else
            by_request(&have, have_logits);
        compare(&have, &want, round % 2 == 0);
        TEST_CHECK(!memcmp(have_logits, want_logits, info.n_vocab * sizeof(float)));
    }
    cerium_session_close(&have.session);
    cerium_session_close(&plain);
}

/* ---- texts of a workspace ---- */

static char workspace[64];

/* The coming answers, as far as their tokens are those of a text. */
static void write_workspace(job *want)
{
    char path[96];
    cerium_session *plain = session_of(plain_engine);
    snprintf(workspace, sizeof workspace, "/tmp/cerium-drafts-XXXXXX");
    CHECK(mkdtemp(workspace));
    for (uint32_t i = 0; i < CROWD; i++) {
        make_repeating(&want[i], 60 + i);
        by_steps(plain, &want[i], 0, want_logits);
        snprintf(path, sizeof path, "%s/%u", workspace, i);
        FILE *f = fopen(path, "wb");
        CHECK(f);
        for (size_t k = 0; k < want[i].text_len; k++)
            putc(want[i].text[k] ? want[i].text[k] : ' ', f);
        CHECK(fclose(f) == 0);
    }
    cerium_session_close(&plain);
}

static void remove_workspace(void)
{
    char path[96];
    for (uint32_t i = 0; i < CROWD; i++) {
        snprintf(path, sizeof path, "%s/%u", workspace, i);
        CHECK(unlink(path) == 0);
    }
    CHECK(rmdir(workspace) == 0);
}

static cerium_engine *open_with_workspace(const char *model, uint32_t threads)
{
    static const struct timespec nap = {0, 5000000};
    cerium_engine_stats stats = {0};
    setenv("CERIUM_WORKSPACE", workspace, 1);
    setenv("CERIUM_CACHE", "off", 1);
    cerium_engine *e = open_with(model, "always", threads);
    unsetenv("CERIUM_WORKSPACE");
    unsetenv("CERIUM_CACHE");
    while (stats.workspace_tokens == 0) {
        nanosleep(&nap, NULL);
        cerium_engine_measure(e, &stats);
    }
    return e;
}

/* Drafts from files are right and wrong, and the answers do not change; a client with a key, and so
 * a tenant, gets none. */
static void test_workspace(const char *model)
{
    static job want[CROWD], have;
    cerium_engine_stats stats, other;
    write_workspace(want);
    for (uint32_t threads = 1; threads <= 2; threads++) {
        cerium_engine *e = open_with_workspace(model, threads);
        for (int tenant = 0; tenant < 2; tenant++) {
            cerium_session_config config = {.tenant = (uint64_t)tenant};
            cerium_error err;
            for (uint32_t i = 0; i < CROWD; i++) {
                have = want[i];
                CHECK(cerium_session_open(&have.session, e, &config, &err) == 0);
                by_request(&have, have_logits);
                compare(&have, &want[i], true);
                by_steps(have.session, &have, 0, have_logits);
                compare(&have, &want[i], false);
                cerium_session_close(&have.session);
            }
            cerium_engine_measure(e, tenant ? &other : &stats);
        }
        printf("  the workspace: %llu drafted, %llu accepted\n",
               (unsigned long long)stats.workspace_drafted_tokens,
               (unsigned long long)stats.workspace_accepted_tokens);
        TEST_CHECK(stats.workspace_drafted_tokens > stats.workspace_accepted_tokens);
        TEST_CHECK(stats.workspace_accepted_tokens > 50);
        TEST_CHECK(other.workspace_drafted_tokens == stats.workspace_drafted_tokens);
        cerium_engine_close(&e);
    }
    remove_workspace();
}

/* ---- earlier answers ---- */

/* The tenant asks in a new session: the same answer.  Returns the drafts from earlier answers. */
static uint64_t ask(cerium_engine *e, uint64_t tenant, const job *want, bool is_request)
{
    static job have;
    cerium_engine_stats before, after;
    cerium_session_config config = {.tenant = tenant};
    cerium_error err;
    have = *want;
    cerium_engine_measure(e, &before);
    TEST_CHECK_THAT(cerium_session_open(&have.session, e, &config, &err) == 0, "%s", err.message);
    if (is_request)
        by_request(&have, have_logits);
    else
        by_steps(have.session, &have, 0, have_logits);
    compare(&have, want, is_request);
    TEST_CHECK(!memcmp(have_logits, want_logits, info.n_vocab * sizeof(float)));
    cerium_session_close(&have.session);
    cerium_engine_measure(e, &after);
    TEST_CHECK(after.recalled_accepted_tokens - before.recalled_accepted_tokens <=
               after.recalled_drafted_tokens - before.recalled_drafted_tokens);
    TEST_CHECK(after.recalled_tokens <= ANSWER_CACHE_TENANTS_MAX * ANSWER_CACHE_TOKENS_MAX);
    return after.recalled_drafted_tokens - before.recalled_drafted_tokens;
}

/* A repeated question is drafted from the answer that a closed session gave; for
 * its tenant alone, and not after too many other answers. */
static void test_answer_cache(void)
{
    static job want;
    cerium_session *plain = session_of(plain_engine);
    for (uint32_t round = 0; round < 9; round++) {
        cerium_engine *e = engines[round % 3];
        uint64_t tenant = ++fresh_tenant, stranger = ++fresh_tenant;
        make_repeating(&want, 120 + round);
        by_steps(plain, &want, 0, want_logits);
        TEST_CHECK(ask(e, tenant, &want, round % 2) == 0);
        want.prompt[7] = (want.prompt[7] + 1) % (int32_t)info.n_vocab; /* a small change */
        by_steps(plain, &want, 0, want_logits);
        TEST_CHECK(ask(e, stranger, &want, true) == 0);
        TEST_CHECK(ask(e, tenant, &want, round % 3 > 0) > 0);
        TEST_CHECK(ask(e, tenant, &want, round % 3 == 0) > 0);
        if (round >= 3) continue;
        for (uint32_t i = 0; i < ANSWER_CACHE_TENANTS_MAX; i++)
            TEST_CHECK(ask(e, ++fresh_tenant, &want, i % 2) == 0);
        TEST_CHECK(ask(e, tenant, &want, true) == 0);
    }
    cerium_session_close(&plain);
}

/* Output after a note is known to its session alone; recorded text is no one's answer. */
static void test_recall_not(void)
{
    static job want, have;
    cerium_error err;
    cerium_step step;
    cerium_session *plain = session_of(plain_engine);
    make_repeating(&want, 160);
    by_steps(plain, &want, 0, want_logits);
    uint64_t tenant = ++fresh_tenant;
    cerium_session_config config = {.tenant = tenant};
    cerium_resume resume = {.note = want.prompt, .n_note = 9};
    CHECK(cerium_session_open(&have.session, engines[1], &config, &err) == 0);
    TEST_CHECK(cerium_session_resume(have.session, want.prompt, want.n_prompt, &resume, NULL,
                                     &err) == 0);
    cerium_sampling sampling = want.sampling;
    sampling.step_tokens_max = 16; /* 40 steps fit, however much is drafted */
    for (int i = 0; i < 40; i++)
        TEST_CHECK(cerium_session_step(have.session, &sampling, &step, &err) == 0);
    cerium_session_close(&have.session);
    have = want;
    CHECK(cerium_session_open(&have.session, engines[1], &config, &err) == 0);
    have.script = want.tokens;
    have.n_script = want.n_tokens;
    run(&have);
    cerium_session_close(&have.session);
    TEST_CHECK(ask(engines[1], tenant, &want, true) == 0);
    cerium_session_close(&plain);
}

/* Several threads of one tenant answer by steps at the same time. */
static job crowd_want[CROWD];
static uint64_t crowd_tenant;

static void *answer_in_turn(void *arg)
{
    uint32_t first = *(uint32_t *)arg;
    static const cerium_sampling fixed = {.ignore_end = true};
    for (uint32_t i = 0; i < CROWD; i++) {
        const job *want = &crowd_want[(first + i) % CROWD];
        cerium_session *session = NULL;
        cerium_session_config config = {.tenant = crowd_tenant};
        cerium_error err;
        cerium_step step;
        uint32_t n = 0;
        CHECK(cerium_session_open(&session, engines[2], &config, &err) == 0);
        CHECK(cerium_session_sync(session, want->prompt, want->n_prompt, NULL, &err) == 0);
        while (n < want->n_tokens) {
            CHECK(cerium_session_step(session, &fixed, &step, &err) == 0);
            for (uint32_t k = 0; k < step.n_tokens && n < want->n_tokens; k++)
                CHECK(step.tokens[k] == want->tokens[n++]);
        }
        cerium_session_close(&session);
    }
    return NULL;
}

static void test_recall_threads(void)
{
    pthread_t threads[3];
    uint32_t first[3] = {0, 2, 4};
    cerium_engine_stats before, after;
    cerium_session *plain = session_of(plain_engine);
    crowd_tenant = ++fresh_tenant;
    for (uint32_t i = 0; i < CROWD; i++) {
        make_repeating(&crowd_want[i], 180 + i);
        crowd_want[i].sampling = (cerium_sampling){.ignore_end = true};
        by_steps(plain, &crowd_want[i], 0, want_logits);
    }
    cerium_engine_measure(engines[2], &before);
    for (int i = 0; i < 3; i++)
        CHECK(pthread_create(&threads[i], NULL, answer_in_turn, &first[i]) == 0);
    for (int i = 0; i < 3; i++) pthread_join(threads[i], NULL);
    cerium_engine_measure(engines[2], &after);
    TEST_CHECK(after.recalled_accepted_tokens - before.recalled_accepted_tokens > 100);
    cerium_session_close(&plain);
}

static void test_model(const char *model)
{
    plain_engine = open_with(model, "off", 2);
    cerium_engine_describe(plain_engine, &info);
    want_logits = memory_alloc(info.n_vocab * sizeof *want_logits);
    have_logits = memory_alloc(info.n_vocab * sizeof *have_logits);
    for (uint32_t k = 0; k < 3; k++) engines[k] = open_with(model, "always", 1 + k);
    n_drafted = n_accepted = 0;
    unit_test_failed = 0;
    test_workspace(model);
    unit_failed += unit_test_failed > 0;
    TEST_RUN(test_alone);
    TEST_RUN(test_crowd);
    TEST_RUN(test_back_and_forth);
    TEST_RUN(test_answer_cache);
    TEST_RUN(test_recall_not);
    TEST_RUN(test_recall_threads);
    for (int k = 0; k < 3; k++) count(engines[k]);
    printf("  %s: %llu drafted, %llu accepted\n", model, (unsigned long long)n_drafted,
           (unsigned long long)n_accepted);
    unit_test_failed = 0; /* both right and wrong drafts occurred */
    TEST_CHECK(n_accepted > 1000 && n_drafted > n_accepted + 1000);
    unit_failed += unit_test_failed > 0;
    for (int k = 0; k < 3; k++) cerium_engine_close(&engines[k]);
    cerium_engine_close(&plain_engine);
    memory_free(want_logits);
    memory_free(have_logits);
}

int main(void)
{
    test_model("tests/golden/fixtures/llama.gguf");
    test_model("tests/golden/fixtures/gpt-oss-mxfp4.gguf"); /* windows, experts */
    test_model("tests/golden/fixtures/qwen35moe.gguf");     /* states */
    test_model("tests/golden/fixtures/granitehybrid.gguf"); /* of Mamba-2 */
    test_model("tests/golden/fixtures/deepseek2.gguf");     /* latents, experts */
    return unit_report("drafts");
}
