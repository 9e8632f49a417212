/* test_shares.c - keys of one class have equal shares of compute time: the scheduler plans and runs
 * passes of a real model, one after another, and time is what a fixed cost model says of their
 * rows.  So the figures are exact: no clock, no thread. */
#include <math.h>

#include "requests.h"

#include "engine/scheduler.h"

enum { MANY = 63, LONG = 150, MOST = 400, PIECE = 64 };

/* Compute-bound cores: another row costs a quarter of the cheapest pass. */
static const double PASS_NS = 400e3, ROW_NS = 100e3;

static scheduler *sched;
static job crowd[MANY], one, alone;
static double now_ns;   /* simulated */
static double pass_ns;  /* the longest since it was set to 0 */
static uint32_t n_rows; /* of the last pass */

static double cost_of(uint32_t rows) { return PASS_NS + ROW_NS * rows; }

static void open_simulation(void)
{
    cerium_error err = {0};
    open_engine("tests/golden/fixtures/llama.gguf", MANY + 8, PIECE, 0);
    TEST_CHECK_THAT(scheduler_make(&sched, engine, &err) == 0, "%s", err.message);
    atomic_store(&engine->scheduler, sched); /* closed with the engine */
    engine->cost.is_fixed = true;
    for (uint32_t i = 0; i < COST_SIZES; i++) {
        engine->cost.rows[i] = 1u << i;
        engine->cost.ns[i] = cost_of(1u << i);
    }
}

static void open_job(job *j, uint64_t tenant, uint64_t client, uint32_t n_prompt, uint32_t n_new)
{
    cerium_error err = {0};
    const cerium_session_config config = {.tenant = tenant, .client = client,
                                          .no_speculation = true};
    *j = (job){.n_new = n_new, .class_ = CERIUM_CLASS_TURN, .sampling = {.ignore_end = true}};
    /* No two of the crowd have the same text: they would share rows. */
    uint32_t own = j >= crowd && j < crowd + MANY ? 1000 * (uint32_t)(j - crowd + 1) : 0;
    make_prompt(j, n_prompt, 0, 0, n_prompt + own);
    TEST_CHECK_THAT(cerium_session_open(&j->session, engine, &config, &err) == 0, "%s",
                    err.message);
    start(j);
}

static void close_jobs(job *jobs, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) cerium_session_cancel(jobs[i].session);
    (void)scheduler_turn(sched); /* which ends those still running */
    for (uint32_t i = 0; i < n; i++) cerium_session_close(&jobs[i].session);
}

/* One pass, and its results are read. */
static void turn(job *jobs, uint32_t n)
{
    (void)scheduler_turn(sched);
    n_rows = sched->rows.n_rows;
    if (n_rows) now_ns += cost_of(n_rows);
    if (n_rows && cost_of(n_rows) > pass_ns) pass_ns = cost_of(n_rows);
    for (uint32_t i = 0; i < n; i++)
        while (!jobs[i].done && poll_one(&jobs[i])) {}
}

static uint32_t tokens_of(const job *jobs, uint32_t n)
{
    uint32_t all = 0;
    for (uint32_t i = 0; i < n; i++) all += jobs[i].n_tokens;
    return all;
}

/* Whether each is past its prompt, whose rows give no tokens. */
static bool all_talk(const job *jobs, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        if (!jobs[i].n_tokens) return false;
    return true;
}

static double alone_first_ns, alone_ns; /* to its first token, and after it */

/* Until its answer is complete: simulated nanoseconds to the first token, and after it. */
static void follow(job *j, double *first_ns, double *rest_ns)
{
    double began = now_ns, first = 0;
    while (!j->done) {
        turn(crowd, MANY);
        while (!j->done && poll_one(j)) {}
        if (j->n_tokens && first <= 0) first = now_ns;
    }
    *first_ns = first - began;
    *rest_ns = now_ns - first;
}

static void test_alone(void)
{
    for (uint32_t i = 0; i < MANY; i++) crowd[i].done = true;
    open_job(&one, 1, 0, 40, LONG);
    follow(&one, &alone_first_ns, &alone_ns);
    TEST_CHECK(one.n_tokens == LONG && alone_ns > 0);
    memcpy(&alone, &one, sizeof one);
    close_jobs(&one, 1);
}

/* The first token takes at most twice as long as alone, and so does the last one, except for a pass
 * that the other key had begun. */
static void check_half(double first_ns, double rest_ns)
{
    double all = first_ns + rest_ns, all_alone = alone_first_ns + alone_ns;
    TEST_CHECK_THAT(first_ns <= 2 * alone_first_ns, "%.0f %.0f", first_ns, alone_first_ns);
    TEST_CHECK_THAT(all <= 2 * all_alone + cost_of(MANY), "%.0f %.0f", all, all_alone);
}

static void start_crowd(uint64_t tenant, uint32_t n_prompt)
{
    for (uint32_t i = 0; i < MANY; i++) open_job(&crowd[i], tenant, 0, n_prompt + i % 7, MOST);
    while (!all_talk(crowd, MANY)) turn(crowd, MANY);
    while (n_rows < MANY) turn(crowd, MANY);
}

/* Beside 63 streams of one key: half of the speed at least, and the other key has its half, too. */
static void test_beside_many(void)
{
    double first_ns, rest_ns;
    start_crowd(2, 5);
    uint32_t before = tokens_of(crowd, MANY);
    open_job(&one, 3, 0, 40, LONG);
    follow(&one, &first_ns, &rest_ns);
    check_half(first_ns, rest_ns);
    TEST_CHECK(!memcmp(one.tokens, alone.tokens, sizeof alone.tokens));
    double theirs = (tokens_of(crowd, MANY) - before) * cost_of(64) / 64;
    double half = (first_ns + rest_ns) / 2;
    TEST_CHECK_THAT(theirs > 0.8 * half, "%.0f of %.0f", theirs, half);
    printf("  beside %u streams: first token %.2f of alone, rate %.2f; theirs %.2f\n", MANY,
           first_ns / alone_first_ns, alone_ns / rest_ns, theirs / (first_ns + rest_ns));
    close_jobs(&one, 1);
    turn(crowd, MANY); /* and no capacity stays unused */
    turn(crowd, MANY);
    TEST_CHECK_THAT(n_rows == MANY, "%u", n_rows);
    close_jobs(crowd, MANY);
}

/* The same without keys: clients are distinguished. */
static void test_clients(void)
{
    double first_ns, rest_ns;
    for (uint32_t i = 0; i < MANY; i++) open_job(&crowd[i], 0, 77, 5 + i % 7, LONG);
    while (tokens_of(crowd, MANY) < MANY || n_rows < MANY) turn(crowd, MANY);
    open_job(&one, 0, 78, 40, LONG);
    follow(&one, &first_ns, &rest_ns);
    check_half(first_ns, rest_ns);
    close_jobs(&one, 1);
    close_jobs(crowd, MANY);
}

/* Prompts of one key beside the answer of another: the answer gets half of the time. */
static void test_beside_prompts(void)
{
    double first_ns, rest_ns;
    enum { PROMPTS = 8 };
    for (uint32_t i = 0; i < MANY; i++) crowd[i].done = true;
    open_job(&one, 1, 0, 40, 100);
    turn(&one, 1), turn(&one, 1);
    for (uint32_t i = 0; i < PROMPTS; i++) open_job(&crowd[i], 2, 0, 900 + i, 1);
    double began = now_ns;
    uint32_t had = one.n_tokens;
    follow(&one, &first_ns, &rest_ns);
    double took = now_ns - began, should = (one.n_tokens - had) * cost_of(1);
    /* A piece is begun, at any cost, when its key has had the least time. */
    TEST_CHECK_THAT(took <= 2 * should + BATCH_PROMPT_NS_MIN, "%.0f %.0f", took, should);
    for (uint32_t i = 0; i < PROMPTS; i++)
        while (!crowd[i].done) turn(crowd, PROMPTS);
    close_jobs(&one, 1);
    close_jobs(crowd, PROMPTS);
}

/* Keys that come and go endlessly keep no key from its share, and one that was idle does not get
 * a larger one. */
static void test_newcomers(void)
{
    static job old;
    for (uint32_t i = 0; i < MANY; i++) crowd[i].done = true;
    open_job(&old, 1, 0, 5, LONG);
    for (int i = 0; i < 10; i++) turn(&old, 1);
    uint32_t had = old.n_tokens, n_passes = 0;
    for (uint64_t key = 100; key < 140; key++) {
        open_job(&one, key, 0, 30, 1);
        for (; !one.done; n_passes++) {
            turn(&old, 1);
            while (!one.done && poll_one(&one)) {}
        }
        cerium_session_close(&one.session);
    }
    TEST_CHECK_THAT(old.n_tokens - had >= n_passes / 2, "%u in %u", old.n_tokens - had, n_passes);
    close_jobs(&old, 1);
}

/* Eight keys with a stream each: all of them in every pass. */
static void test_equals(void)
{
    enum { KEYS = 8 };
    for (uint32_t i = 0; i < KEYS; i++) open_job(&crowd[i], 200 + i, 0, 6, 100);
    while (tokens_of(crowd, KEYS) < KEYS) turn(crowd, KEYS);
    for (uint32_t i = 0; i < 40; i++) {
        turn(crowd, KEYS);
        TEST_CHECK_THAT(n_rows == KEYS, "%u", n_rows);
    }
    close_jobs(crowd, KEYS);
}

/* If rows cost little beside others, all of them join: nothing is discarded. */
static void test_rows_that_cost_little(void)
{
    for (uint32_t i = 0; i < COST_SIZES; i++)
        engine->cost.ns[i] = PASS_NS + PASS_NS / 1000 * (1u << i);
    start_crowd(2, 5);
    open_job(&one, 1, 0, 5, LONG);
    uint32_t n_all = 0;
    for (uint32_t i = 0; i < 40; i++) {
        turn(crowd, MANY);
        while (!one.done && poll_one(&one)) {}
        n_all += n_rows;
    }
    TEST_CHECK_THAT(n_all > 40 * MANY * 9 / 10, "%u", n_all);
    close_jobs(&one, 1);
    close_jobs(crowd, MANY);
}

/* A pass with rows of a lower class lasts a second, as others had the processor: the lower class
 * pays for what such rows cost, and waits no longer. */
static void test_disturbed_pass(void)
{
    const uint32_t own = 1, lower = 16;
    scheduler p = {.engine = engine, .slowness = 1, .n_slots = 2, .n_own = 1, .n_own_rows = own,
                   .expected_ns = cost_of(own + lower)};
    batch_account(&p, 1e9);
    TEST_CHECK_THAT(p.lower_credit_ns < 0 && p.lower_credit_ns > -2 * cost_of(own + lower), "%g",
                    p.lower_credit_ns);
    batch_stopped(&p, 1e9);
    TEST_CHECK_THAT(p.stop_credit_ns > -3 * cost_of(own + lower), "%g", p.stop_credit_ns);
    p.lower_credit_ns = 0;
    batch_account(&p, cost_of(own + lower)); /* as expected: all that it adds */
    double want = cost_of(own) / 16 - (cost_of(own + lower) - cost_of(own));
    TEST_CHECK_THAT(fabs(p.lower_credit_ns - want) < 1, "%g %g", p.lower_credit_ns, want);
}

int main(void)
{
    open_simulation();
    TEST_RUN(test_alone);
    TEST_RUN(test_beside_many);
    TEST_RUN(test_clients);
    TEST_RUN(test_beside_prompts);
    TEST_RUN(test_newcomers);
    TEST_RUN(test_equals);
    TEST_RUN(test_disturbed_pass);
    TEST_RUN(test_rows_that_cost_little);
    cerium_engine_close(&engine);
    return unit_report("shares");
}
