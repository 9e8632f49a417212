/* test_digest.c - the digest of an answer: recomputed here by its definition; threads,
 * drafts, passes, batches, caches, heads and instruction sets do not change it; every change of
 * an answer does. */
#include "base/hash.h"
#include "steps.h"

enum { ANSWER = 60, CROWD = 6, WAYS = 5 };

typedef unsigned char digest[CERIUM_DIGEST_BYTES];

static const char model[] = "tests/golden/fixtures/llama.gguf";

static cerium_engine *open_with(const char *speculation, uint32_t threads, const char *cpu,
                                const char *head, const char *kv_type)
{
    cerium_engine_config config;
    cerium_engine *e = NULL;
    cerium_error err;
    cerium_engine_config_defaults(&config);
    config.model_path = model;
    config.threads = threads;
    config.speculation = speculation;
    config.batch_tokens_max = 32 * threads;
    config.context_tokens_max = CONTEXT_MAX;
    config.cpu = cpu;
    config.head = head;
    config.kv_type = kv_type;
    TEST_CHECK_THAT(cerium_engine_open(&e, &config, &err) == 0, "%s", err.message);
    return e;
}

static void make(job *j, uint32_t round)
{
    random_state = 5 + round;
    j->n_prompt = 70 + next_random() % 60;
    for (uint32_t i = 0; i < j->n_prompt; i++)
        j->prompt[i] = i < 9 ? (int32_t)(next_random() % info.n_vocab) : j->prompt[i - 9];
    j->n_new = ANSWER;
    j->sampling = (cerium_sampling){.ignore_end = true, .digest = true};
    if (round % 3 == 1) j->sampling.temperature = 0.7f, j->sampling.seed = round;
    if (round % 3 == 2) j->sampling.repetition_penalty = 1.2f, j->sampling.pointer = 0.5f;
}

static bool is_digest(const cerium_session *s, const digest want)
{
    digest have;
    cerium_error err;
    return cerium_session_digest(s, have, &err) == 0 && !memcmp(have, want, sizeof have);
}

/* As cerium.h defines it, from the logits after every step of one token. */
static void by_hand(cerium_engine *e, job *j, uint64_t *marks, digest out)
{
    cerium_session *s = session_of(e);
    cerium_step step;
    cerium_error err;
    size_t n_vocab;
    TEST_CHECK(cerium_session_sync(s, j->prompt, j->n_prompt, NULL, &err) == 0);
    TEST_CHECK(cerium_session_digest(s, out, &err) == CERIUM_ERR_ARGUMENT);
    hash_name_write(hash_name_of(j->prompt, j->n_prompt * sizeof *j->prompt), out);
    cerium_sampling one = j->sampling;
    one.step_tokens_max = 1;
    for (uint32_t i = 0; i < j->n_new; i++) {
        unsigned char link[36];
        TEST_CHECK(cerium_session_step(s, &one, &step, &err) == 0 && step.n_tokens == 1);
        const float *logits = cerium_session_logits(s, &n_vocab);
        memcpy(link, out, 16);
        memcpy(link + 16, step.tokens, 4);
        hash_name_write(hash_name_of(logits, n_vocab * sizeof *logits), link + 20);
        hash_name_write(hash_name_of(link, sizeof link), out);
        TEST_CHECK(is_digest(s, out));
        marks[i] = 0;
        for (uint32_t k = 0; k < 8; k++) marks[i] = marks[i] << 8 | out[k];
        TEST_CHECK_THAT(marks[i] == step.digests[0], "token %u", i);
        j->tokens[i] = step.tokens[0];
    }
    j->n_tokens = j->n_new;
    cerium_session_close(&s);
}

/* By steps of many tokens, and again in the same session. */
static void check_steps(cerium_engine *e, const job *want, const uint64_t *marks, const digest d)
{
    cerium_session *s = session_of(e);
    cerium_error err;
    for (int round = 0; round < 2; round++) {
        cerium_step step;
        TEST_CHECK(cerium_session_sync(s, want->prompt, want->n_prompt, NULL, &err) == 0);
        for (uint32_t n = 0; n < want->n_new; n += step.n_tokens) {
            cerium_sampling sampling = want->sampling;
            sampling.step_tokens_max = want->n_new - n;
            TEST_CHECK(cerium_session_step(s, &sampling, &step, &err) == 0);
            TEST_CHECK(!memcmp(step.digests, marks + n, step.n_tokens * sizeof *marks));
            TEST_CHECK(!memcmp(step.tokens, want->tokens + n, step.n_tokens * sizeof(int32_t)));
        }
        TEST_CHECK(is_digest(s, d));
    }
    cerium_session_close(&s);
}

/* As requests beside each other, cold and from the cache, the prompt shared by some. */
static void check_requests(cerium_engine *e, const job *want, const digest d)
{
    static job jobs[CROWD];
    job *list[CROWD];
    engine = e;
    const uint64_t tenant = ++fresh_tenant;
    for (uint32_t i = 0; i < CROWD; i++) {
        jobs[i] = *want;
        jobs[i].session = open_session(tenant);
        if (i % 2) make(&jobs[i], 40 + i);
        if (i % 3 == 2) jobs[i].sampling.digest = false;
        list[i] = &jobs[i];
        TEST_CHECK(start(&jobs[i]) == 0);
    }
    finish(list, CROWD);
    for (uint32_t i = 0; i < CROWD; i++) {
        digest none;
        cerium_error err;
        if (i % 3 == 2) TEST_CHECK(cerium_session_digest(jobs[i].session, none, &err) != 0);
        else TEST_CHECK(is_digest(jobs[i].session, d) == (i % 2 == 0));
        cerium_session_close(&jobs[i].session);
    }
    jobs[0].session = open_session(tenant);
    run(&jobs[0]);
    TEST_CHECK(is_digest(jobs[0].session, d));
    cerium_session_close(&jobs[0].session);
}

/* A fork answers as a session that syncs. */
static void check_fork(cerium_engine *e, const job *want, const digest d)
{
    cerium_session *s = session_of(e), *fork = NULL;
    cerium_step step;
    cerium_error err;
    TEST_CHECK(cerium_session_sync(s, want->prompt, want->n_prompt, NULL, &err) == 0);
    TEST_CHECK(cerium_session_fork(&fork, s, &err) == 0);
    cerium_session_close(&s);
    for (uint32_t n = 0; n < want->n_new; n += step.n_tokens) {
        cerium_sampling sampling = want->sampling;
        sampling.step_tokens_max = want->n_new - n;
        TEST_CHECK(cerium_session_step(fork, &sampling, &step, &err) == 0);
    }
    TEST_CHECK(is_digest(fork, d));
    cerium_session_close(&fork);
}

/* Every change of the bits changes the digest at the first token of the answer. */
static void check_others(const job *want, const uint64_t *marks)
{
    static uint64_t other_marks[ANSWER];
    static job other;
    digest d;
    cerium_engine *f16 = open_with("off", 1, NULL, "full", "f16");
    other = *want;
    by_hand(f16, &other, other_marks, d);
    TEST_CHECK(other_marks[0] != marks[0]);
    cerium_engine_close(&f16);
}

/* A step without it breaks the chain, and the next sync repairs it. */
static void check_gap(cerium_engine *e, const job *want)
{
    cerium_session *s = session_of(e);
    cerium_step step;
    cerium_error err;
    digest d;
    cerium_sampling with = {.digest = true}, without = {0};
    TEST_CHECK(cerium_session_sync(s, want->prompt, want->n_prompt, NULL, &err) == 0);
    TEST_CHECK(cerium_session_step(s, &with, &step, &err) == 0);
    TEST_CHECK(cerium_session_digest(s, d, &err) == 0);
    TEST_CHECK(cerium_session_step(s, &without, &step, &err) == 0 && step.digests[0] == 0);
    TEST_CHECK(cerium_session_digest(s, d, &err) == CERIUM_ERR_ARGUMENT);
    TEST_CHECK(cerium_session_step(s, &with, &step, &err) == 0 && step.digests[0] == 0);
    TEST_CHECK(cerium_session_sync(s, want->prompt, want->n_prompt, NULL, &err) == 0);
    TEST_CHECK(cerium_session_step(s, &with, &step, &err) == 0);
    TEST_CHECK(cerium_session_digest(s, d, &err) == 0);
    cerium_session_close(&s);
}

static job want;
static uint64_t marks[ANSWER];
static cerium_engine *ways[WAYS];

static void test_ways(void)
{
    digest d;
    for (uint32_t round = 0; round < 3; round++) {
        make(&want, round);
        by_hand(ways[0], &want, marks, d);
        for (uint32_t i = 0; i < WAYS; i++) {
            check_steps(ways[i], &want, marks, d);
            check_requests(ways[i], &want, d);
            check_fork(ways[i], &want, d);
        }
    }
}

static void test_others(void) { check_others(&want, marks); }
static void test_gap(void) { check_gap(ways[1], &want); }

int main(void)
{
    ways[0] = open_with("off", 1, NULL, "full", NULL);
    ways[1] = open_with("always", 2, NULL, "auto", NULL);
    ways[2] = open_with("always", 3, "avx2", "search", NULL);
    ways[3] = open_with("always", 1, "ref", NULL, NULL);
    ways[4] = open_with("off", 2, NULL, "search", NULL);
    cerium_engine_describe(ways[0], &info);
    TEST_RUN(test_ways);
    TEST_RUN(test_others);
    TEST_RUN(test_gap);
    for (uint32_t i = 0; i < WAYS; i++) cerium_engine_close(&ways[i]);
    return unit_report("digest");
}
