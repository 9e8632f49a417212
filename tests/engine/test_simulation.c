/* test_simulation.c - any order of anything: requests started, cancelled, polled or left alone,
 * sessions asked again from the middle of what they hold, forked, closed and opened, others stepped
 * by hand from a second thread, on few pages.  Every answer that came to its end is the one that a
 * session gives alone. */
#include "requests.h"

enum { KINDS = 24, SLOTS = 10, ANSWERS = 150 };

static job kinds[KINDS], answers[KINDS];
static float *last[KINDS];
static _Atomic bool is_over;

static void make_kinds(void)
{
    static job asked;
    for (uint32_t i = 0; i < KINDS; i++) {
        asked = (job){.class_ = (cerium_class)(i % CERIUM_CLASSES), .n_new = 1 + i * 11 % 70};
        make_prompt(&asked, 2 + i * 97 % 800, i * 61 % 800, i % 3, 100 + i);
        asked.sampling.ignore_end = true;
        if (i % 2) asked.sampling.temperature = 1, asked.sampling.seed = i;
        last[i] = malloc(info.n_vocab * sizeof(float));
        kinds[i] = asked;
        run_alone(&asked, &answers[i], last[i]);
    }
}

/* A session stepped by hand, beside the scheduler.  Its calls rank with the highest class
 * and take the pages of others, so it leaves them time in between. */
static void *step_by_hand(void *arg)
{
    cerium_error err;
    cerium_session *session = arg;
    cerium_step step;
    for (uint32_t i = 0; !is_over; i++) {
        const job *answer = &answers[i % KINDS];
        for (int k = 0; k < 50; k++) wait_briefly();
        if (answer->n_prompt > 300) continue;
        TEST_CHECK(cerium_session_sync(session, answer->prompt, answer->n_prompt, NULL, &err) == 0);
        for (uint32_t k = 0; k < 5 && k < answer->n_tokens;) {
            TEST_CHECK(cerium_session_step(session, &answer->sampling, &step, &err) == 0);
            for (uint32_t t = 0; t < step.n_tokens && k < answer->n_tokens; t++, k++)
                TEST_CHECK(step.tokens[t] == answer->tokens[k]);
        }
    }
    return NULL;
}

typedef struct {
    job j;
    uint32_t kind; /* or KINDS: it was asked again */
    bool is_canceled;
} slot;

static job again; /* the answer of one that was asked again, alone */
static float *again_last;

/* Ask the session from a place in what it holds, with or without other tokens after it. */
static void begin_again(slot *at, const int32_t *timeline, uint32_t n)
{
    job *j = &at->j;
    at->kind = KINDS;
    at->is_canceled = false;
    uint32_t where = next_random() % 4;
    if (where < 2 && j->n_prompt < n) n = j->n_prompt; /* another answer, or the same */
    if (where == 2) n -= next_random() % n;
    if (n > PROMPT_MAX - 4) n = PROMPT_MAX - 4;
    if (n > CONTEXT_MAX - 20) n = CONTEXT_MAX - 20;
    memcpy(j->prompt, timeline, n * sizeof *timeline);
    for (uint32_t more = next_random() % 8; more > 5; more--)
        j->prompt[n++] = (int32_t)(next_random() % info.n_vocab);
    j->n_prompt = n;
    j->n_new = 1 + next_random() % 12;
    if (next_random() % 2) {
        j->sampling = (cerium_sampling){.ignore_end = true};
        if (next_random() % 2) j->sampling.temperature = 1, j->sampling.seed = next_random() % 3;
        j->sampling.logprobs = next_random() % 4 == 0;
    }
    j->prediction = NULL;
    j->n_prediction = 0;
    start(j);
}

static void begin(slot *at)
{
    size_t n_held;
    const int32_t *held = cerium_session_tokens(at->j.session, &n_held);
    if (n_held && next_random() % 3 == 0) {
        begin_again(at, held, (uint32_t)n_held);
        return;
    }
    at->kind = next_random() % KINDS;
    cerium_session *session = at->j.session;
    at->j = kinds[at->kind];
    at->j.session = session;
    at->is_canceled = false;
    if (next_random() % 3 == 0) {
        at->j.prediction = answers[next_random() % 2 ? at->kind : next_random() % KINDS].tokens;
        at->j.n_prediction = 1 + next_random() % 100;
        for (size_t i = 0; i < at->j.n_prediction; i++)
            if ((uint32_t)at->j.prediction[i] >= info.n_vocab) at->j.n_prediction = 0;
    }
    start(&at->j);
}

static void end(const slot *at)
{
    const job *alone = at->kind < KINDS ? &answers[at->kind] : &again;
    if (at->kind == KINDS) run_alone(&at->j, &again, again_last);
    if (at->j.status == CERIUM_ERR_CANCELED) {
        TEST_CHECK(at->is_canceled);
        TEST_CHECK(!memcmp(at->j.tokens, alone->tokens,
                           at->j.n_tokens * sizeof *at->j.tokens));
    } else {
        check_same(&at->j, alone, at->kind < KINDS ? last[at->kind] : again_last);
    }
}

/* Replace a session that rests by a fork of another. */
static void fork_one(slot *to, const slot *from)
{
    cerium_error err;
    if (to == from || !from->j.done) return;
    cerium_session_close(&to->j.session);
    TEST_CHECK_THAT(cerium_session_fork(&to->j.session, from->j.session, &err) == 0, "%s",
                    err.message);
}

/* Until this many came to their end. */
static void simulate(uint32_t seed, uint32_t n_answers)
{
    static slot slots[SLOTS];
    pthread_t thread;
    uint32_t n_ended = 0;
    random_state = seed;
    is_over = false;
    for (int i = 0; i < SLOTS; i++) {
        slots[i].j.session = open_session(i % 2);
        slots[i].j.done = true;
    }
    cerium_session *by_hand = open_session(0);
    TEST_CHECK(pthread_create(&thread, NULL, step_by_hand, by_hand) == 0);
    while (n_ended < n_answers) {
        slot *at = &slots[next_random() % SLOTS];
        uint32_t what = next_random() % 16;
        if (at->j.done && what == 0) {
            cerium_session_close(&at->j.session);
            at->j.session = open_session(next_random() % 2);
        } else if (at->j.done && what == 3) {
            fork_one(at, &slots[next_random() % SLOTS]);
        } else if (at->j.done) {
            begin(at);
        } else if (what == 1) {
            at->is_canceled = true;
            cerium_session_cancel(at->j.session);
        } else if (what == 2) {
            wait_briefly();
        } else {
            bool is_more = true;
            while (!at->j.done && is_more && next_random() % 64) is_more = poll_one(&at->j);
            if (!is_more) wait_briefly();
            if (at->j.done) end(at), n_ended++;
            if (at->j.done && at->is_canceled) { /* a cancel may have come after the end */
                cerium_session_close(&at->j.session);
                at->j.session = open_session(next_random() % 2);
            }
        }
    }
    for (int i = 0; i < SLOTS; i++) {
        job *j = &slots[i].j;
        while (!j->done)
            if (!poll_one(j)) wait_briefly();
        cerium_session_close(&j->session);
    }
    is_over = true;
    pthread_join(thread, NULL);
    cerium_session_close(&by_hand);
}

static void test_seeds(void)
{
    for (uint32_t seed = 1; seed <= 3; seed++) simulate(seed, ANSWERS);
}

static void test_model(const char *model, uint32_t batch, uint64_t kv_bytes)
{
    open_engine(model, SLOTS + 3, batch, kv_bytes);
    make_kinds();
    again_last = malloc(info.n_vocab * sizeof(float));
    TEST_RUN(test_seeds);
    cerium_engine_close(&engine);
    for (int i = 0; i < KINDS; i++) free(last[i]);
    free(again_last);
}

int main(void)
{
    test_model("tests/golden/fixtures/llama.gguf", 48, 1);
    test_model("tests/golden/fixtures/gpt-oss-mxfp4.gguf", 16, 1);
    test_model("tests/golden/fixtures/qwen35moe.gguf", 48, 1);
    test_model("tests/golden/fixtures/gpt-oss.gguf", 64, 0);
    return unit_report("simulation");
}
