/* test_requests.c - started requests give exactly the tokens, texts and logits of a session that
 * runs alone: many at once, mixed classes, canceled, preempted, short of pages, after cached
 * prefixes, with predictions and scripts. */
#include <stdatomic.h>

#include "requests.h"

static const char *model_path;

static job jobs[JOBS_MAX], alone[JOBS_MAX];
static float *logits[JOBS_MAX];

/* Jobs of every kind; the prompts of a family begin alike. */
static void make_jobs(uint32_t n, uint32_t prompt_max)
{
    for (uint32_t i = 0; i < n; i++) {
        job *j = &jobs[i];
        *j = (job){.class_ = (cerium_class)(i % CERIUM_CLASSES), .n_new = 5 + i * 7 % 40};
        make_prompt(j, 3 + i * 37 % prompt_max, i * 29 % prompt_max, i % 3, 100 + i);
        j->sampling.ignore_end = i % 5 != 0;
        j->sampling.logprobs = i % 2;
        if (i % 3) j->sampling.temperature = 0.9f, j->sampling.seed = i;
        if (i % 4 == 1) j->sampling.repetition_penalty = 1.2f;
        j->top = j->sampling.logprobs ? i % 5 : 0;
        run_alone(j, &alone[i], logits[i]);
    }
}

static void open_all(uint32_t n, uint64_t tenant)
{
    for (uint32_t i = 0; i < n; i++) jobs[i].session = open_session(tenant + i % 2);
}

static void close_all(uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) cerium_session_close(&jobs[i].session);
}

static void run_all(uint32_t n)
{
    job *all[JOBS_MAX];
    for (uint32_t i = 0; i < n; i++) {
        all[i] = &jobs[i];
        start(&jobs[i]);
    }
    finish(all, n);
    for (uint32_t i = 0; i < n; i++) check_same(&jobs[i], &alone[i], logits[i]);
}

static void test_many_at_once(void)
{
    make_jobs(24, 300);
    open_all(24, 1);
    run_all(24);
    cerium_engine_stats stats;
    cerium_engine_measure(engine, &stats);
    for (int i = 0; i < CERIUM_CLASSES; i++)
        TEST_CHECK(stats.running[i] == 0 && stats.waiting[i] == 0);
    /* Again in the same sessions, which hold the prompts and more: all but the end is reused. */
    run_all(24);
    for (int i = 0; i < 24; i++) {
        cerium_usage usage;
        cerium_session_usage(jobs[i].session, &usage);
        TEST_CHECK_THAT(usage.reused_tokens == usage.prompt_tokens - 1, "%s, job %d: %u of %u",
                        model_path, i, usage.reused_tokens, usage.prompt_tokens);
        TEST_CHECK(usage.reused_tokens + usage.computed_tokens == usage.prompt_tokens);
        TEST_CHECK(usage.new_tokens == jobs[i].n_tokens);
        TEST_CHECK(usage.duration_ns >= usage.first_token_ns && usage.first_token_ns > 0);
    }
    close_all(24);
}

/* Many answers to one prompt, started at once: each equals the one alone, and the prompt is
 * computed once, except for its last token, after which each needs logits. */
static void check_variants(uint32_t n, uint32_t n_prompt)
{
    uint32_t n_computed = 0;
    cerium_usage usage;
    for (uint32_t i = 0; i < n; i++) {
        jobs[i] = (job){.n_new = 12 + i % 9, .class_ = CERIUM_CLASS_TURN,
                        .sampling = {.temperature = 1, .seed = i, .logprobs = i % 2}};
        make_prompt(&jobs[i], n_prompt, 0, 0, 4000 + n_prompt);
        run_alone(&jobs[i], &alone[i], logits[i]);
    }
    uint64_t tenant = ++fresh_tenant;
    for (uint32_t i = 0; i < n; i++) jobs[i].session = open_session(tenant);
    run_all(n);
    for (uint32_t i = 0; i < n; i++) {
        cerium_session_usage(jobs[i].session, &usage);
        TEST_CHECK(usage.computed_tokens + usage.reused_tokens == n_prompt);
        n_computed += usage.computed_tokens;
    }
    /* No request waits for fewer than 4 tokens. */
    TEST_CHECK_THAT(n_computed < n_prompt + 4 * n, "%u of %u tokens, %u times", n_computed,
                    n_prompt, n);
    close_all(n);
}

static void test_variants(void)
{
    check_variants(16, 100);
    check_variants(64, 37);
    check_variants(5, 256);
    check_variants(3, 330);
}

/* Prompt computed, nothing sampled; then a request with the same prompt finds all of it. */
static void test_warm_up(void)
{
    cerium_usage usage;
    job *j = &jobs[0];
    *j = (job){.n_new = 0, .sampling = {.ignore_end = true}};
    make_prompt(j, 200, 0, 0, 5000);
    run_alone(j, &alone[0], logits[0]);
    j->session = open_session(++fresh_tenant);
    run(j);
    check_same(j, &alone[0], logits[0]);
    j->n_new = 8;
    run_alone(j, &alone[0], logits[0]);
    run(j);
    check_same(j, &alone[0], logits[0]);
    cerium_session_usage(j->session, &usage);
    TEST_CHECK(usage.reused_tokens == 200 && usage.computed_tokens == 0);
    /* After the end the session continues by steps. */
    cerium_error err;
    cerium_step step;
    TEST_CHECK(cerium_session_step(j->session, &j->sampling, &step, &err) == 0);
    j->n_new = 8 + step.n_tokens;
    run_alone(j, &alone[0], logits[0]);
    TEST_CHECK(!memcmp(step.tokens, alone[0].tokens + 8, step.n_tokens * sizeof *step.tokens));
    cerium_session_close(&j->session);
}

/* The progress of a prompt, read from another thread than the scheduler's; a request for it is
 * notified of each pass, others only of the end. */
static void test_prompt_progress(void)
{
    for (int notes = 0; notes < 2; notes++) {
        job *j = &jobs[0];
        cerium_usage usage = {0};
        *j = (job){.class_ = CERIUM_CLASS_TURN, .notes_prompt = notes};
        make_prompt(j, 900, 0, 0, 7000);
        j->session = open_session(++fresh_tenant);
        TEST_CHECK(start(j) == 0);
        for (uint32_t seen = 0, n = 0; !j->done; seen = n) {
            cerium_session_usage(j->session, &usage);
            n = usage.reused_tokens + usage.computed_tokens;
            TEST_CHECK(n >= seen && n <= 900 && usage.prompt_tokens == 900);
            poll_one(j);
        }
        cerium_session_usage(j->session, &usage);
        TEST_CHECK(!j->status && usage.computed_tokens == 900);
        uint32_t n_notified = j->notified, n_passes = 900 / 64 + 1;
        TEST_CHECK_THAT(notes ? n_notified >= n_passes : n_notified <= 1, "%u", n_notified);
        cerium_session_close(&j->session);
    }
}

/* Right, wrong and half right predictions change only the number of passes. */
static void test_prediction(void)
{
    static int32_t prediction[NEW_MAX];
    for (uint32_t i = 0; i < 12; i++) {
        cerium_usage usage;
        job *j = &jobs[0];
        *j = (job){.n_new = 60, .sampling = {.ignore_end = true, .logprobs = i % 2}};
        if (i % 3 == 2) j->sampling.temperature = 1, j->sampling.seed = i;
        if (i % 4 == 3) j->sampling.repetition_penalty = 1.3f;
        make_prompt(j, 20 + 30 * i, 0, 0, 6000 + i);
        run_alone(j, &alone[0], logits[0]);
        memcpy(prediction, alone[0].tokens, sizeof prediction);
        uint32_t n_wrong = i % 4;
        for (uint32_t k = 0; k < n_wrong; k++) /* one differs, one is missing, one is extra */
            prediction[7 + 17 * k] = (prediction[7 + 17 * k] + 1) % (int32_t)info.n_vocab;
        if (i >= 6) memmove(prediction + 30, prediction + 33, 20 * sizeof *prediction);
        j->prediction = prediction;
        j->n_prediction = i == 5 ? 3 : 60;
        j->session = open_session(++fresh_tenant);
        run(j);
        check_same(j, &alone[0], logits[0]);
        cerium_session_usage(j->session, &usage);
        TEST_CHECK(usage.drafted_tokens >= usage.accepted_tokens);
        TEST_CHECK_THAT(usage.accepted_tokens >= (i == 5 ? 2 : 20), "%u: %u of %u", i,
                        usage.accepted_tokens, usage.drafted_tokens);
        if (n_wrong == 0 && i < 5) TEST_CHECK(usage.drafted_tokens == usage.accepted_tokens);
        cerium_session_close(&j->session);
    }
}

/* The script chooses; logits and probabilities are those of a session that got the tokens. */
static void test_script(void)
{
    static int32_t script[30];
    cerium_error err;
    size_t n_vocab;
    job *j = &jobs[0];
    *j = (job){.n_new = NEW_MAX, .script = script, .n_script = 30, .sampling = {.logprobs = true}};
    for (uint32_t i = 0; i < 30; i++) script[i] = (int32_t)(20 + i * 7 % 200);
    make_prompt(j, 40, 0, 0, 7000);
    j->session = open_session(++fresh_tenant);
    run(j);
    TEST_CHECK(j->status == 0 && j->stop == CERIUM_STOP_END && j->n_tokens == 30);
    TEST_CHECK(!memcmp(j->tokens, script, sizeof script));
    const float *have = cerium_session_logits(j->session, &n_vocab);
    cerium_session *other = open_session(++fresh_tenant);
    memcpy(j->prompt + 40, script, sizeof script);
    TEST_CHECK(cerium_session_sync(other, j->prompt, 69, NULL, &err) == 0);
    const float *want = cerium_session_logits(other, NULL);
    TEST_CHECK(have && want && !memcmp(have, want, n_vocab * sizeof *have));
    cerium_session_close(&other);
    cerium_session_close(&j->session);
}

/* A reader that does not poll stops only its own request after CERIUM_EVENTS_MAX steps,
 * and loses nothing. */
static void test_slow_reader(void)
{
    job *slow = &jobs[0], *other = &jobs[1];
    *slow = (job){.n_new = UINT32_MAX, .sampling = {.ignore_end = true}};
    make_prompt(slow, 10, 0, 0, 8000);
    slow->session = open_session(++fresh_tenant);
    TEST_CHECK(start(slow) == 0);
    cerium_usage usage;
    for (int i = 0; i < 20000; i++) {
        cerium_session_usage(slow->session, &usage);
        if (usage.new_tokens >= CERIUM_EVENTS_MAX) break;
        wait_briefly();
    }
    *other = (job){.n_new = 40, .class_ = CERIUM_CLASS_BATCH, .sampling = {.ignore_end = true}};
    make_prompt(other, 30, 0, 0, 8001);
    run_alone(other, &alone[1], logits[1]);
    other->session = open_session(++fresh_tenant);
    run(other);
    check_same(other, &alone[1], logits[1]);
    cerium_session_usage(slow->session, &usage);
    TEST_CHECK_THAT(usage.new_tokens == CERIUM_EVENTS_MAX, "%u", usage.new_tokens);
    uint32_t n = 0;
    cerium_event event = {0};
    while (event.kind != CERIUM_EVENT_DONE) {
        cerium_session_poll(slow->session, &event);
        n += event.kind == CERIUM_EVENT_STEP;
        if (event.kind == CERIUM_EVENT_NONE) wait_briefly();
    }
    TEST_CHECK(event.status == 0 && event.stop == CERIUM_STOP_LIMIT);
    TEST_CHECK_THAT(n == info.context_tokens_max - 10, "%u", n);
    cerium_session_close(&slow->session);
    cerium_session_close(&other->session);
}

/* Canceled at any moment, all other answers are unchanged, and the canceled session continues
 * from there. */
static void test_cancel(void)
{
    job *all[JOBS_MAX];
    uint32_t n = 12;
    random_state = 1;
    make_jobs(n, 700);
    open_all(n, ++fresh_tenant);
    for (int round = 0; round < 6; round++) {
        for (uint32_t i = 0; i < n; i++) {
            all[i] = &jobs[i];
            start(&jobs[i]);
        }
        for (uint32_t i = 0; i < n; i += 2) {
            for (uint32_t k = next_random() % 8; k > 0; k--) wait_briefly();
            cerium_session_cancel(jobs[i].session);
        }
        finish(all, n);
        for (uint32_t i = 0; i < n; i++) {
            bool may_be_canceled = i % 2 == 0 && jobs[i].status == CERIUM_ERR_CANCELED;
            if (!may_be_canceled) check_same(&jobs[i], &alone[i], logits[i]);
            TEST_CHECK(!memcmp(jobs[i].tokens, alone[i].tokens,
                               jobs[i].n_tokens * sizeof(int32_t)));
        }
        for (uint32_t i = 0; i < n; i += 2) { /* if nothing runs, the next call is canceled */
            cerium_error err;
            cerium_session_cancel(jobs[i].session);
            TEST_CHECK(cerium_session_sync(jobs[i].session, jobs[i].prompt, jobs[i].n_prompt, NULL,
                                           &err) == CERIUM_ERR_CANCELED);
        }
    }
    run_all(n);
    close_all(n);
}

/* It concerns the request whose end was not read yet, not the one after it. */
static void test_cancel_late(void)
{
    job *j = &jobs[0];
    *j = (job){.n_new = 4, .class_ = CERIUM_CLASS_TURN, .sampling = {.ignore_end = true}};
    make_prompt(j, 40, 0, 0, 77);
    j->session = open_session(++fresh_tenant);
    run_alone(j, &alone[0], logits[0]);
    for (int round = 0; round < 2; round++) {
        cerium_engine_stats stats;
        start(j);
        do cerium_engine_measure(engine, &stats);
        while (stats.waiting[j->class_] + stats.running[j->class_] > 0);
        cerium_session_cancel(j->session);
        finish(&j, 1);
        check_same(j, &alone[0], logits[0]);
    }
    cerium_session_close(&j->session);
}

/* Interrupted in the prompt or after some tokens of the answer, then continued differently: no
 * computed token is recomputed, in any session, and the answer is that of a session
 * that got all of it at once. */
static void check_redirect(uint32_t n_prompt, uint32_t cut_after, bool in_another)
{
    size_t n;
    cerium_usage usage;
    cerium_event event = {0};
    job *j = &jobs[0];
    /* More than the steps that wait for a slow reader: it is canceled before its end. */
    *j = (job){.n_new = 400, .class_ = CERIUM_CLASS_TURN, .sampling = {.ignore_end = true}};
    make_prompt(j, n_prompt, 0, 0, 600 + n_prompt + cut_after);
    uint64_t tenant = ++fresh_tenant;
    j->session = open_session(tenant);
    start(j);
    do cerium_session_usage(j->session, &usage);
    while (usage.computed_tokens == 0);
    if (cut_after == 0) cerium_session_cancel(j->session);
    for (uint32_t seen = 0; event.kind != CERIUM_EVENT_DONE;) {
        cerium_session_poll(j->session, &event);
        if (event.kind == CERIUM_EVENT_NONE) wait_briefly();
        if (event.kind == CERIUM_EVENT_STEP && ++seen == cut_after)
            cerium_session_cancel(j->session);
    }
    const int32_t *timeline = cerium_session_tokens(j->session, &n);
    TEST_CHECK(n > 0 && n < n_prompt + 400);
    memcpy(j->prompt, timeline, n * sizeof *timeline);
    for (uint32_t i = 0; i < 20; i++) j->prompt[n + i] = (int32_t)(30 + i * 3);
    j->n_prompt = (uint32_t)n + 20;
    j->n_new = 10;
    if (in_another) { /* the connection was lost */
        cerium_session_close(&j->session);
        j->session = open_session(tenant);
    }
    run_alone(j, &alone[0], logits[0]);
    run(j);
    check_same(j, &alone[0], logits[0]);
    cerium_session_usage(j->session, &usage);
    /* The last token was sampled, but not computed. */
    TEST_CHECK_THAT(usage.reused_tokens + 1 >= n, "%u of %zu", usage.reused_tokens, n);
    cerium_session_close(&j->session);
}

static void test_redirect(void)
{
    for (uint32_t i = 0; i < 12; i++) {
        check_redirect(100 + 41 * i, i * 5, false);
        check_redirect(90 + 41 * i, i * 3, true);
    }
}

/* Pages for one whole context, and many requests: they take turns, and lose nothing. */
static void test_few_pages(void)
{
    cerium_engine_stats stats;
    uint32_t n = 10;
    make_jobs(n, 900);
    open_all(n, ++fresh_tenant);
    for (int round = 0; round < 3; round++) run_all(n);
    cerium_engine_measure(engine, &stats);
    TEST_CHECK(stats.kv_pages_max == (info.context_tokens_max + 63) / 64);
    close_all(n);
    cerium_engine_measure(engine, &stats);
    TEST_CHECK(stats.kv_pages_used == 0);
}

static uint64_t clock_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* A lower class's prompt gets passes while a higher one works: none starves.  The engine's own
 * times show it: its first pass was before the higher one's last. */
static void test_starved(job *low, job *high)
{
    cerium_usage usage, prompt;
    bool moved = false;
    high->n_new = 150; /* long enough on a machine that suspends the engine for milliseconds */
    for (int round = 0; round < 50 && !moved; round++) {
        high->session = open_session(++fresh_tenant);
        low->session = open_session(++fresh_tenant);
        uint64_t high_began = clock_ns();
        start(high);
        do cerium_session_usage(high->session, &usage);
        while (usage.new_tokens < 2);
        start(low);
        uint64_t low_began = clock_ns();
        job *both[] = {low, high};
        finish(both, 2);
        cerium_session_usage(low->session, &prompt);
        cerium_session_usage(high->session, &usage);
        moved = low_began + prompt.queue_ns < high_began + usage.duration_ns;
        check_same(low, &alone[0], logits[0]);
        cerium_session_close(&low->session);
        cerium_session_close(&high->session);
    }
    TEST_CHECK(moved);
}

/* The pass that is held until the test releases it. */
static _Atomic bool is_armed, is_held, continues;

static void hold_pass(void *user, const cerium_observation *seen)
{
    (void)user, (void)seen;
    if (!atomic_exchange(&is_armed, false)) return;
    atomic_store(&is_held, true);
    while (!atomic_load(&continues)) wait_briefly();
}

/* Open an engine whose passes can be held.  Returns the one before it. */
static cerium_engine *open_held_engine(void)
{
    cerium_engine *others = engine;
    observe_passes = hold_pass;
    open_engine(model_path, JOBS_MAX + 1, 64, 0);
    observe_passes = NULL;
    return others;
}

static void hold_next_pass(void)
{
    atomic_store(&continues, false);
    atomic_store(&is_held, false);
    atomic_store(&is_armed, true);
}

static void wait_for_held_pass(void)
{
    while (!atomic_load(&is_held)) wait_briefly();
}

/* Tenants of a class share alike: one with a single prompt is not held up by another's four.  They
 * wait together for a pass that is held. */
static void test_fair_shares(void)
{
    job *all[6];
    cerium_engine *others = open_held_engine();
    for (uint32_t i = 0; i < 6; i++) {
        all[i] = &jobs[i];
        jobs[i] = (job){.n_new = 2, .class_ = CERIUM_CLASS_TURN, .sampling = {.ignore_end = true}};
        make_prompt(&jobs[i], i < 5 ? 900 : 2, 0, 0, 9100 + i);
        jobs[i].session = open_session(i < 4 ? 501 : 498 + i);
    }
    hold_next_pass();
    start(&jobs[5]);
    wait_for_held_pass();
    for (uint32_t i = 0; i < 5; i++) start(&jobs[i]);
    atomic_store(&continues, true);
    finish(all, 6);
    for (uint32_t i = 0; i < 4; i++)
        TEST_CHECK_THAT(jobs[4].nth_noted < jobs[i].nth_noted, "%u %u", jobs[4].nth_noted,
                        jobs[i].nth_noted);
    close_all(6);
    cerium_engine_close(&engine);
    engine = others;
}

/* A higher class goes first, and stops a pass that is filled with a lower one's prompt. */
static void test_preemption(void)
{
    cerium_engine *others = open_held_engine();
    cerium_engine_stats before, after;
    job *low = &jobs[0], *high = &jobs[1];
    *low = (job){.n_new = 5, .class_ = CERIUM_CLASS_BATCH, .sampling = {.ignore_end = true}};
    make_prompt(low, 1000, 0, 0, 9000);
    run_alone(low, &alone[0], logits[0]);
    *high = (job){.n_new = 3, .sampling = {.ignore_end = true}};
    make_prompt(high, 20, 0, 0, 9001);
    run_alone(high, &alone[1], logits[1]);
    high->session = open_session(++fresh_tenant);
    cerium_engine_measure(engine, &before);
    after = before;
    /* Not every pass checks for a stop after the place where it is held. */
    for (int i = 0; i < 100 && after.preempted_passes == before.preempted_passes; i++) {
        low->session = open_session(++fresh_tenant);
        hold_next_pass();
        start(low);
        wait_for_held_pass();
        start(high);
        atomic_store(&continues, true);
        job *both[] = {low, high};
        finish(both, 2);
        check_same(high, &alone[1], logits[1]);
        check_same(low, &alone[0], logits[0]);
        cerium_session_close(&low->session);
        cerium_engine_measure(engine, &after);
    }
    TEST_CHECK_THAT(after.preempted_passes > before.preempted_passes, "%s", model_path);
    cerium_session_close(&high->session);
    test_starved(low, high);
    cerium_engine_close(&engine);
    engine = others;
}

static void test_refusals(void)
{
    cerium_error err;
    cerium_step step;
    cerium_event event;
    int32_t tokens[4] = {1, 2, 3, 4}, bad[1] = {-1};
    cerium_session *session = open_session(++fresh_tenant);
    cerium_sampling no_logprobs = {0};
    const cerium_request refused[] = {
        {.tokens = tokens, .n_tokens = 0},
        {.tokens = bad, .n_tokens = 1},
        {.tokens = tokens, .n_tokens = 4, .class_ = (cerium_class)4},
        {.tokens = tokens, .n_tokens = 4, .top_logprobs = 21},
        {.tokens = tokens, .n_tokens = 4, .top_logprobs = 3, .sampling = &no_logprobs},
        {.tokens = tokens, .n_tokens = 4, .script = bad, .n_script = 1},
        {.tokens = tokens, .n_tokens = 4, .prediction = bad, .n_prediction = 1},
        {.tokens = tokens, .n_tokens = 4, .n_prediction = 1},
    };
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++)
        TEST_CHECK(cerium_session_start(session, &refused[i], &err) == CERIUM_ERR_ARGUMENT);
    cerium_session_poll(session, &event);
    TEST_CHECK(event.kind == CERIUM_EVENT_NONE);
    const cerium_request good = {.tokens = tokens, .n_tokens = 4, .new_tokens_max = 2};
    TEST_CHECK(cerium_session_start(session, &good, &err) == 0);
    TEST_CHECK(cerium_session_start(session, &good, &err) == CERIUM_ERR_ARGUMENT);
    TEST_CHECK(cerium_session_step(session, NULL, &step, &err) == CERIUM_ERR_ARGUMENT);
    TEST_CHECK(cerium_session_sync(session, tokens, 4, NULL, &err) == CERIUM_ERR_ARGUMENT);
    /* Closing a running session cancels it, too. */
    cerium_session_close(&session);
    cerium_engine_stats stats;
    cerium_engine_measure(engine, &stats);
    for (int i = 0; i < CERIUM_CLASSES; i++) TEST_CHECK(stats.running[i] + stats.waiting[i] == 0);
}

static void test_model(const char *model)
{
    model_path = model;
    open_engine(model, JOBS_MAX + 1, 64, 0);
    for (int i = 0; i < JOBS_MAX; i++) logits[i] = malloc(info.n_vocab * sizeof(float));
    TEST_RUN(test_many_at_once);
    TEST_RUN(test_variants);
    TEST_RUN(test_warm_up);
    TEST_RUN(test_prompt_progress);
    TEST_RUN(test_prediction);
    TEST_RUN(test_script);
    TEST_RUN(test_slow_reader);
    TEST_RUN(test_cancel);
    TEST_RUN(test_cancel_late);
    TEST_RUN(test_redirect);
    TEST_RUN(test_preemption);
    TEST_RUN(test_fair_shares);
    TEST_RUN(test_refusals);
    cerium_engine_close(&engine);
    open_engine(model, 16, 32, 1);
    TEST_RUN(test_few_pages);
    cerium_engine_close(&engine);
    for (n_threads = 1; n_threads <= 3; n_threads += 2) {
        open_engine(model, JOBS_MAX + 1, 48, 0);
        TEST_RUN(test_variants);
        cerium_engine_close(&engine);
    }
    n_threads = 2;
    for (int i = 0; i < JOBS_MAX; i++) free(logits[i]);
}

int main(void)
{
    test_model("tests/golden/fixtures/llama.gguf");
    test_model("tests/golden/fixtures/gpt-oss-mxfp4.gguf"); /* windows beside full layers */
    test_model("tests/golden/fixtures/qwen35moe.gguf");     /* states beside full layers */
    test_model("tests/golden/fixtures/granitehybrid.gguf"); /* of Mamba-2 */
    test_model("tests/golden/fixtures/deepseek2.gguf");     /* latents, experts */
    return unit_report("requests");
}
