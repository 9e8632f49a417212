/* test_states.c - models with recurrent layers: computed tokens are reused at the places
 * where conversations continue, and whatever was found, evicted, forked or rewound, logits are the
 * bits of a timeline that was computed from its beginning. */
#include "base/memory.h"

#include "judged.h"

enum {
    CONTEXT = 1024,
    TURNS = 20,
    ASKED = 24,
    SAID = 12,
    KEPT_MAX = 64 + TURNS * (ASKED + SAID + 2),
};

#define FIXTURES "tests/golden/fixtures/"

static const char *tested;
static uint32_t random_state;

static uint32_t next_random(void)
{
    random_state = random_state * 1664525u + 1013904223u;
    return random_state >> 8;
}

static cerium_engine *open_with(const char *path, uint32_t sessions, uint64_t kv_bytes,
                                const char *speculation)
{
    cerium_engine *e = NULL;
    cerium_error err;
    cerium_engine_config config;
    cerium_engine_config_defaults(&config);
    config.model_path = path;
    config.threads = 2;
    config.sessions_max = sessions;
    config.batch_tokens_max = 48;
    config.kv_bytes_max = kv_bytes;
    config.context_tokens_max = CONTEXT;
    config.speculation = speculation;
    TEST_CHECK_THAT(cerium_engine_open(&e, &config, &err) == 0, "%s", err.message);
    return e;
}

static bool is_sound(cerium_engine *e) { return kv_pool_check_invariants(e->pool); }

/* A client that sends everything again with each question, in a new session each time: only the
 * question is computed; if it leaves out the model's thoughts, the answer as well. */
static void test_conversation(void)
{
    static int32_t tokens[KEPT_MAX];
    cerium_engine *e = open_with(tested, 4, 0, "off");
    for (int drops = 0; drops < 2; drops++) {
        const uint64_t tenant = 70 + (uint64_t)drops;
        uint32_t n = 0, before = 0;
        say(tokens, &n, 40, 1);
        for (uint32_t turn = 0; turn < TURNS; turn++) {
            cerium_session *s = session_for(e, tenant);
            cerium_sync_result result;
            cerium_step step;
            say(tokens, &n, ASKED, 100 + turn);
            say(tokens, &n, 0, 0);
            TEST_CHECK(cerium_session_sync(s, tokens, n, &result, NULL) == 0);
            /* The last token is sampled, but not computed. */
            uint32_t most = n - before + (drops ? 1 + SAID : 1);
            TEST_CHECK_THAT(turn == 0 || result.tokens_computed <= most, "%u of %u, %u new",
                            result.tokens_computed, n, n - before);
            TEST_CHECK(is_as_from_the_beginning(s, tokens, n));
            const cerium_sampling one = {.step_tokens_max = 1, .ignore_end = true};
            for (uint32_t i = 0; i < SAID; i++) {
                TEST_CHECK(cerium_session_step(s, &one, &step, NULL) == 0);
                tokens[n + i] = step.tokens[0];
            }
            if (drops) /* the answer comes back without its first half */
                memmove(tokens + n, tokens + n + SAID / 2, SAID / 2 * sizeof *tokens);
            n += drops ? SAID / 2 : SAID;
            before = drops ? n - SAID / 2 : n;
            cerium_session_close(&s);
            TEST_CHECK(is_sound(e));
        }
    }
    cerium_engine_close(&e);
}

/* Lengths around pages, in one piece, token by token and in odd pieces, back and forth. */
static void test_places(void)
{
    static const char *const models[] = {FIXTURES "qwen35moe.gguf", FIXTURES "qwen3next.gguf",
                                         FIXTURES "granitehybrid.gguf",
                                         FIXTURES "granitehybrid-dense.gguf",
                                         FIXTURES "nemotron_h.gguf",
                                         FIXTURES "nemotron_h_moe-latent.gguf"};
    static const uint32_t places[] = {1, 2, 3, 4, 5, 62, 63, 64, 65, 66, 127, 128, 129, 130};
    static int32_t tokens[160];
    for (size_t m = 0; m < ARRAY_LEN(models); m++) {
        cerium_engine *e = open_with(models[m], 2, 0, "off");
        cerium_engine_close(&judge);
        judge = open_with(models[m], 2, 0, "off");
        cerium_session *s = session_for(e, 5);
        for (uint32_t i = 0; i < 160; i++) tokens[i] = (int32_t)(i * i * 7 % 250);
        for (uint32_t i = 0; i < 3 * ARRAY_LEN(places); i++) {
            uint32_t n = places[i * 5 % ARRAY_LEN(places)];
            if (i >= ARRAY_LEN(places)) tokens[n / 2] = (tokens[n / 2] + 1) % 250;
            TEST_CHECK(cerium_session_sync(s, tokens, n, NULL, NULL) == 0);
            TEST_CHECK_THAT(is_as_from_the_beginning(s, tokens, n), "%u tokens", n);
            TEST_CHECK(is_sound(e));
        }
        cerium_session_close(&s);
        cerium_engine_close(&e);
    }
    cerium_engine_close(&judge);
}

/* More sessions than states: each continues when the others have given theirs up. */
static void test_few_states(void)
{
    enum { SESSIONS = 12, ROUNDS = 60 };
    static int32_t tokens[SESSIONS][400];
    uint32_t n[SESSIONS] = {0};
    cerium_engine *e = open_with(tested, SESSIONS, 1, "off");
    cerium_session *s[SESSIONS];
    kv_use use;
    kv_pool_measure(e->pool, &use);
    TEST_CHECK_THAT(use.states_max > 0 && use.states_max < SESSIONS, "%u", use.states_max);
    for (uint32_t i = 0; i < SESSIONS; i++) {
        s[i] = session_for(e, i % 2);
        say(tokens[i], &n[i], 30, i / 3);
    }
    random_state = 9;
    for (uint32_t round = 0; round < ROUNDS; round++) {
        uint32_t i = next_random() % SESSIONS;
        if (n[i] > 300) n[i] = 20 + next_random() % 200;
        say(tokens[i], &n[i], 1 + next_random() % 60, next_random() % 4);
        TEST_CHECK(cerium_session_sync(s[i], tokens[i], n[i], NULL, NULL) == 0);
        TEST_CHECK(is_as_from_the_beginning(s[i], tokens[i], n[i]));
        TEST_CHECK(is_sound(e));
    }
    for (uint32_t i = 0; i < SESSIONS; i++) cerium_session_close(&s[i]);
    kv_pool_measure(e->pool, &use);
    TEST_CHECK_THAT(use.states_held == 0, "%u held", use.states_held);
    cerium_engine_close(&e);
}

/* Forks of forks, each with its own text, while the trunk continues and drafts. */
static void test_forks(void)
{
    static int32_t tokens[600];
    cerium_engine *e = open_with(tested, 8, 0, "always");
    cerium_session *trunk = session_for(e, 3), *fork[3];
    uint32_t n = 0;
    const cerium_sampling greedy = {.ignore_end = true};
    say(tokens, &n, 90, 4);
    for (uint32_t i = 10; i < n; i++) tokens[i] = tokens[i - 7]; /* there is something to draft */
    TEST_CHECK(cerium_session_sync(trunk, tokens, n, NULL, NULL) == 0);
    for (uint32_t round = 0; round < 12; round++) {
        cerium_step step;
        for (int i = 0; i < 3; i++)
            TEST_CHECK(cerium_session_fork(&fork[i], i ? fork[i - 1] : trunk, NULL) == 0);
        for (int i = 0; i < 3; i++) {
            size_t n_fork;
            for (int k = 0; k <= i; k++)
                TEST_CHECK(cerium_session_step(fork[i], &greedy, &step, NULL) == 0);
            const int32_t *own = cerium_session_tokens(fork[i], &n_fork);
            /* Logits are those that the last token was sampled from. */
            TEST_CHECK(is_as_from_the_beginning(fork[i], own, (uint32_t)n_fork - 1));
            cerium_session_close(&fork[i]);
        }
        TEST_CHECK(cerium_session_step(trunk, &greedy, &step, NULL) == 0);
        TEST_CHECK(is_sound(e));
    }
    cerium_session_close(&trunk);
    cerium_engine_close(&e);
}

/* A saved session continues in another engine after its last state, to the same bits. */
static void test_saved(void)
{
    static int32_t tokens[300];
    static uint8_t image[1 << 18];
    uint32_t n = 0;
    size_t len;
    cerium_sync_result result;
    cerium_engine *e = open_with(tested, 2, 0, "off");
    cerium_session *s = session_for(e, 1), *loaded = session_for(judge, 99);
    say(tokens, &n, 199, 6);
    TEST_CHECK(cerium_session_sync(s, tokens, n, NULL, NULL) == 0);
    TEST_CHECK(cerium_session_save(s, image, sizeof image, &len, NULL) == 0);
    TEST_CHECK(cerium_session_load(loaded, image, len, &result, NULL) == 0);
    TEST_CHECK_THAT(result.tokens_reused == n - 1, "%u", (uint32_t)result.tokens_reused);
    TEST_CHECK(is_as_from_the_beginning(loaded, tokens, n));
    say(tokens, &n, 70, 8);
    TEST_CHECK(cerium_session_sync(loaded, tokens, n, NULL, NULL) == 0);
    TEST_CHECK(is_as_from_the_beginning(loaded, tokens, n) && is_sound(judge));
    cerium_session_close(&loaded);
    cerium_session_close(&s);
    cerium_engine_close(&e);
}

/* Its states must not be overwritten by rejected guesses. */
static void test_no_draft_model(void)
{
    cerium_engine *e = NULL;
    cerium_error err = {0};
    cerium_engine_config config;
    cerium_engine_config_defaults(&config);
    config.model_path = FIXTURES "qwen3next.gguf";
    config.draft_model = tested;
    TEST_CHECK(cerium_engine_open(&e, &config, &err) == CERIUM_ERR_FORMAT);
    TEST_CHECK_THAT(strstr(err.message, "recurrent layers cannot draft") != NULL, "%s",
                    err.message);
}

static void test_model(const char *path)
{
    tested = path;
    judge = open_with(tested, 2, 0, "off");
    cerium_engine_info info;
    cerium_engine_describe(judge, &info);
    n_vocab = info.n_vocab;
    for (begins = 0; !tokenizer_is_control(judge->tokens, begins) ||
                     tokenizer_is_end(judge->tokens, begins);)
        begins++;
    TEST_RUN(test_conversation);
    TEST_RUN(test_few_states);
    TEST_RUN(test_forks);
    TEST_RUN(test_saved);
    TEST_RUN(test_no_draft_model);
    cerium_engine_close(&judge);
}

int main(void)
{
    test_model(FIXTURES "qwen35moe.gguf");
    test_model(FIXTURES "granitehybrid.gguf");
    TEST_RUN(test_places);
    return unit_report("states");
}
