/* test_kept_states.c - models with recurrent layers whose engine restarts: what the files of
 * --kv-disk have of a conversation, of its forks and of a redirected answer is not computed again,
 * and logits are the bits of a timeline computed from its beginning. */
#include <unistd.h>

#include "base/memory.h"

#include "judged.h"

enum {
    CONTEXT = 1024,
    TURNS = 20,
    HEAD = 90,  /* tokens before the first question */
    ASKED = 24,
    SAID = 12,
    MORE = 4,   /* tokens that may be computed again: two states so near are kept as one */
    ALL = HEAD + TURNS * (ASKED + SAID + 4),
};

#define FIXTURES "tests/golden/fixtures/"

static const char *tested;
static char folder[64];
static _Atomic int n_notices;
static char notice_text[600];

static void take_notice(void *user, const char *line)
{
    (void)user;
    n_notices++;
    snprintf(notice_text, sizeof notice_text, "%s", line);
}

static cerium_engine *open_engine(const char *kv_disk)
{
    cerium_engine *e = NULL;
    cerium_error err;
    cerium_engine_config config;
    cerium_engine_config_defaults(&config);
    config.model_path = tested;
    config.threads = 2;
    config.sessions_max = 4;
    config.batch_tokens_max = 48;
    config.context_tokens_max = CONTEXT;
    config.speculation = "off";
    config.kv_disk = kv_disk;
    config.notice = take_notice;
    TEST_CHECK_THAT(cerium_engine_open(&e, &config, &err) == 0, "%s", err.message);
    return e;
}

static void restart(cerium_engine **e)
{
    TEST_CHECK(kv_pool_check_invariants((*e)->pool));
    cerium_engine_close(e);
    *e = open_engine(folder);
    TEST_CHECK_THAT(n_notices == 0, "%s", notice_text);
}

/* Logits after tokens [n], by a call or by a request.  Returns how many were computed. */
static uint32_t prefill(cerium_session *s, const int32_t *tokens, uint32_t n, bool as_request)
{
    uint32_t reused;
    if (as_request) {
        cerium_request q = {.tokens = tokens, .n_tokens = n, .class_ = CERIUM_CLASS_TURN};
        cerium_event event = {0};
        cerium_usage usage;
        TEST_CHECK(cerium_session_start(s, &q, NULL) == 0);
        while (event.kind != CERIUM_EVENT_DONE) {
            cerium_session_poll(s, &event);
            usleep(100);
        }
        TEST_CHECK(event.status == 0);
        cerium_session_usage(s, &usage);
        reused = usage.reused_tokens;
    } else {
        cerium_sync_result result;
        TEST_CHECK(cerium_session_sync(s, tokens, n, &result, NULL) == 0);
        reused = result.tokens_reused;
    }
    TEST_CHECK(is_as_from_the_beginning(s, tokens, n));
    return n - reused;
}

/* An answer of n_more tokens, which are then in tokens, too. */
static void answer(cerium_session *s, int32_t *tokens, uint32_t *n, uint32_t n_more)
{
    const cerium_sampling one = {.step_tokens_max = 1, .ignore_end = true};
    cerium_step step;
    for (uint32_t i = 0; i < n_more; i++) {
        TEST_CHECK(cerium_session_step(s, &one, &step, NULL) == 0);
        tokens[(*n)++] = step.tokens[0];
    }
}

/* One question and its answer in a session of their own.  Returns tokens computed again: the last
 * one of an answer never was. */
static uint32_t turn_of(cerium_engine *e, uint64_t tenant, int32_t *tokens, uint32_t *n,
                        uint32_t seed, uint32_t n_said)
{
    const uint32_t known = *n ? *n - 1 : 0;
    cerium_session *s = session_for(e, tenant);
    say(tokens, n, ASKED, seed);
    say(tokens, n, 0, 0);
    const uint32_t computed = prefill(s, tokens, *n, seed % 2), is_new = *n - known;
    answer(s, tokens, n, n_said);
    cerium_session_close(&s);
    return computed > is_new ? computed - is_new : 0;
}

static uint32_t turn(cerium_engine *e, uint64_t tenant, int32_t *tokens, uint32_t *n, uint32_t seed)
{
    return turn_of(e, tenant, tokens, n, seed, SAID);
}

/* A restart before each turn. */
static void test_turns(void)
{
    static int32_t tokens[ALL];
    cerium_engine *e = open_engine(folder);
    uint32_t n = 0;
    say(tokens, &n, HEAD - 1, 1);
    for (uint32_t i = 0; i < TURNS; i++) {
        if (i == 0) n = HEAD;
        uint32_t again = turn(e, 5, tokens, &n, 100 + i);
        TEST_CHECK_THAT(i == 0 || again <= MORE, "turn %u: %u", i, again);
        restart(&e);
    }
    cerium_engine_close(&e);
}

/* Twenty turns, in which the server restarts, the conversation forks, and an answer is stopped and
 * redirected, compute at most 2 % more than is new. */
static void test_conversation(void)
{
    static int32_t tokens[ALL], other[ALL];
    cerium_engine *e = open_engine(folder);
    const uint64_t tenant = 6;
    uint32_t n = 0, again = 0, n_other = 0, n_forked = 0;
    for (uint32_t i = 0; i < TURNS; i++) {
        if (i == 8) restart(&e);
        if (i == 9) { /* from the turn before, which is known: another question */
            memcpy(other, tokens, sizeof other);
            n_other = n_forked = n;
            restart(&e);
            again += turn(e, tenant, other, &n_other, 900);
            again += turn(e, tenant, other, &n_other, 901);
        }
        again += turn_of(e, tenant, tokens, &n, 200 + i, i == 12 || i == 15 ? SAID / 2 : SAID);
        if (i == 12) restart(&e); /* the next question is one about half an answer */
    }
    n += n_other - n_forked;
    printf("  %u tokens, %u computed again\n", n, again);
    TEST_CHECK_THAT(again * 50 <= n, "%u of %u", again, n);
    cerium_engine_close(&e);
}

/* Sessions that fork and are redirected after a restart, while their trunk stays. */
static void test_fork_and_steer(void)
{
    static int32_t tokens[ALL], other[ALL];
    cerium_engine *e = open_engine(folder);
    uint32_t n = 0;
    for (uint32_t i = 0; i < 3; i++) turn(e, 7, tokens, &n, 300 + i);
    restart(&e);
    cerium_session *trunk = session_for(e, 7), *fork = NULL;
    say(tokens, &n, 30, 31);
    TEST_CHECK(prefill(trunk, tokens, n, false) <= 31 + 1 + MORE);
    answer(trunk, tokens, &n, 5);
    TEST_CHECK(cerium_session_fork(&fork, trunk, NULL) == 0);
    memcpy(other, tokens, sizeof other);
    uint32_t n_other = n;
    say(other, &n_other, 20, 32);
    TEST_CHECK(prefill(fork, other, n_other, false) <= 21 + 1);
    answer(fork, other, &n_other, SAID);
    cerium_session_close(&fork);
    n -= 2; /* redirected */
    say(tokens, &n, 9, 33);
    TEST_CHECK(prefill(trunk, tokens, n, true) <= 10 + 4 + MORE);
    answer(trunk, tokens, &n, SAID);
    cerium_session_close(&trunk);
    restart(&e);
    /* Both are known to their ends. */
    trunk = session_for(e, 7);
    fork = session_for(e, 7);
    say(tokens, &n, 3, 34);
    say(other, &n_other, 3, 35);
    TEST_CHECK(prefill(trunk, tokens, n, true) <= 4 + 1 + MORE);
    TEST_CHECK(prefill(fork, other, n_other, false) <= 4 + 1 + MORE);
    cerium_session_close(&fork);
    cerium_session_close(&trunk);
    cerium_engine_close(&e);
}

/* The same prompt again, one that leaves out the model's thoughts, and another user's. */
static void test_again(void)
{
    static int32_t tokens[ALL], asked[ALL];
    cerium_engine *e = open_engine(folder);
    uint32_t n = 0;
    for (uint32_t i = 0; i < 3; i++) turn(e, 8, tokens, &n, 400 + i);
    const uint32_t n_asked = n - SAID;
    memcpy(asked, tokens, sizeof asked);
    restart(&e);
    cerium_session *s = session_for(e, 8);
    TEST_CHECK(prefill(s, tokens, n_asked, false) <= 1 + MORE);
    cerium_session_close(&s);
    restart(&e);
    memmove(asked + n_asked, asked + n_asked + SAID / 2, SAID / 2 * sizeof *asked);
    uint32_t n_dropped = n_asked + SAID / 2;
    say(asked, &n_dropped, ASKED, 50);
    s = session_for(e, 8);
    TEST_CHECK(prefill(s, asked, n_dropped, true) <= n_dropped - n_asked + MORE);
    cerium_session_close(&s);
    s = session_for(e, 9);
    TEST_CHECK(prefill(s, asked, n_dropped, true) == n_dropped);
    cerium_session_close(&s);
    cerium_engine_close(&e);
}

/* What was written and read is counted. */
static void test_counts(void)
{
    cerium_engine_stats stats;
    static int32_t tokens[ALL];
    uint32_t n = 0;
    cerium_engine *e = open_engine(folder);
    turn(e, 10, tokens, &n, 500);
    do {
        cerium_engine_measure(e, &stats);
        usleep(100);
    } while (stats.kv_disk_waiting_pages);
    TEST_CHECK_THAT(stats.kv_disk_written_states >= 2, "%u",
                    (uint32_t)stats.kv_disk_written_states);
    TEST_CHECK(stats.kv_disk_states >= stats.kv_disk_written_states && !stats.kv_disk_failed);
    restart(&e);
    turn(e, 10, tokens, &n, 501);
    cerium_engine_measure(e, &stats);
    TEST_CHECK(stats.kv_disk_loaded_states == 1 && stats.kv_disk_hits == 1);
    TEST_CHECK(stats.kv_disk_damaged_states == 0 && stats.kv_disk_evicted_states == 0);
    cerium_engine_close(&e);
}

static void remove_folder(void)
{
    char command[128];
    snprintf(command, sizeof command, "rm -r %s", folder);
    TEST_CHECK(system(command) == 0);
}

static void test_model(const char *path)
{
    cerium_engine_info info;
    snprintf(folder, sizeof folder, "/tmp/cerium-kept-states-XXXXXX");
    CHECK(mkdtemp(folder));
    tested = path;
    judge = open_engine("off");
    cerium_engine_describe(judge, &info);
    n_vocab = info.n_vocab;
    for (begins = 0; !tokenizer_is_control(judge->tokens, begins) ||
                     tokenizer_is_end(judge->tokens, begins);)
        begins++;
    TEST_RUN(test_turns);
    TEST_RUN(test_conversation);
    TEST_RUN(test_fork_and_steer);
    TEST_RUN(test_again);
    TEST_RUN(test_counts);
    cerium_engine_close(&judge);
    remove_folder();
}

int main(void)
{
    test_model(FIXTURES "qwen35moe.gguf");
    test_model(FIXTURES "granitehybrid.gguf");
    test_model(FIXTURES "nemotron_h.gguf");
    return unit_report("kept_states");
}
