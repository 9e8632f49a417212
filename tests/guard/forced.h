/* forced.h - an answer that is forced through a text and free afterwards, with its watch, driven
 * like in the server: for tests and the benchmark of the watchdog. */
#ifndef GUARD_FORCED_H
#define GUARD_FORCED_H

#include <unistd.h>

#include "../unit/unit.h"
#include "watch/watch.h"

static cerium_engine *engine;
static guard *rules;
static guard_worker *worker;

enum { TEXT_MAX = 16384, TOKENS_MAX = 2048 };

typedef struct {
    char text[TEXT_MAX];
    size_t len;
    uint32_t n_taken, n_corrected, n_warned, n_blocked, n_again;
    uint32_t n_replaced, n_withheld; /* of n_corrected */
    bool ended;
    int32_t tokens[TOKENS_MAX];
    size_t n_tokens;
    char notes[TEXT_MAX]; /* the notes to the model */
    size_t n_notes;
    uint64_t spot;
} run;

static inline watch *open_watch_within(guard_form form, guard_language language,
                                       const char *before, const char *policy, view heal_prefix)
{
    watch *w = NULL;
    cerium_error err;
    watch_policy p = watch_policy_strict();
    TEST_CHECK(watch_policy_set(&p, view_of(policy)));
    watch_config config = {.engine = engine, .guard = rules, .worker = worker, .policy = &p,
                           .form = form, .language = language, .before = view_of(before),
                           .heal_prefix = heal_prefix};
    TEST_CHECK(watch_open(&w, &config, &err) == 0);
    return w;
}

static inline watch *open_watch(guard_form form, guard_language language, const char *before,
                         const char *policy)
{
    return open_watch_within(form, language, before, policy, VIEW(""));
}

static inline size_t encode(const char *text, int32_t *out, size_t cap)
{
    size_t n = 0;
    TEST_CHECK(cerium_tokenize(engine, text, strlen(text), CERIUM_TOKENIZE_WITHIN, out, cap, &n,
                               NULL) == 0);
    return n;
}

static void take(run *r, const watch_result *out)
{
    if (r->len + out->text.len < TEXT_MAX) memcpy(r->text + r->len, out->text.ptr, out->text.len);
    r->len += out->text.len;
    r->text[r->len] = 0;
    for (uint32_t i = 0; i < out->n_findings; i++) {
        r->n_taken += out->findings[i].action == CERIUM_FINDING_RETRACTED;
        cerium_finding_action deed = out->findings[i].action;
        r->n_replaced += deed == CERIUM_FINDING_REPLACED;
        r->n_withheld += deed == CERIUM_FINDING_WITHHELD;
        r->n_corrected += deed == CERIUM_FINDING_REWRITTEN || deed == CERIUM_FINDING_REPLACED ||
                          deed == CERIUM_FINDING_WITHHELD;
        r->n_warned += out->findings[i].action == CERIUM_FINDING_WARNED;
        r->n_blocked += out->findings[i].action == CERIUM_FINDING_BLOCKED;
        r->spot = out->findings[i].at;
    }
    r->ended |= out->order == CERIUM_WATCH_END;
}

static inline void take_tokens(run *r, const watch *w)
{
    const int32_t *tokens = watch_tokens(w, &r->n_tokens);
    TEST_CHECK(r->n_tokens <= TOKENS_MAX);
    if (r->n_tokens) memcpy(r->tokens, tokens, r->n_tokens * sizeof *tokens);
}

static inline void note_note(run *r, const watch_plan *plan)
{
    for (size_t i = 0; i < plan->resume.n_note; i++) {
        size_t len;
        const char *text = cerium_token_bytes(engine, plan->resume.note[i], &len);
        if (r->n_notes + len >= TEXT_MAX) return;
        memcpy(r->notes + r->n_notes, text, len);
        r->n_notes += len;
        r->notes[r->n_notes] = 0;
    }
}

/* The model writes say[0], after the first note say[1] and so on, then its own text; an answer has
 * n_new tokens. */
static inline void drive_says(run *r, cerium_session *s, const char *prompt,
                              const char *const *say, uint32_t n_say, uint32_t n_new,
                              const cerium_sampling *sampling, watch *w)
{
    static int32_t tokens[TOKENS_MAX], script[TOKENS_MAX];
    cerium_error err;
    cerium_event event;
    watch_result out;
    size_t n = encode(prompt, tokens, TOKENS_MAX);
    watch_drive d = {.watch = w, .prompt = tokens, .n_prompt = n};
    cerium_request q = {.tokens = tokens, .n_tokens = n, .new_tokens_max = n_new,
                        .sampling = sampling};
    bool runs;
    memset(r, 0, sizeof *r);
    for (uint32_t round = 0;; round++) {
        if (round < n_say) {
            q.n_script = encode(say[round], script, TOKENS_MAX);
            q.script = q.n_script ? script : NULL;
        }
        TEST_CHECK_THAT(cerium_session_start(s, &q, &err) == 0, "%s", err.message);
        for (cerium_session_poll(s, &event); event.kind != CERIUM_EVENT_DONE;
             cerium_session_poll(s, &event)) {
            if (event.kind == CERIUM_EVENT_NONE) usleep(50);
            if (event.kind != CERIUM_EVENT_STEP || r->ended) continue;
            TEST_CHECK(watch_drive_step(&d, &event.step, event.top, event.n_top, &out) == 0);
            take(r, &out);
            if (out.order != CERIUM_WATCH_GO) cerium_session_cancel(s);
        }
        if (!d.retries && !r->ended) {
            /* The end of a script ends the forced part, not the answer. */
            TEST_CHECK(event.status == 0);
            TEST_CHECK(watch_drive_finish(&d, &out) == 0);
            take(r, &out);
        }
        take_tokens(r, w);
        q = (cerium_request){.new_tokens_max = n_new, .sampling = sampling};
        if (!d.retries) break;
        TEST_CHECK(watch_drive_retry(&d, &q, &runs) == 0);
        if (!runs) break;
        note_note(r, &d.plan);
        r->n_again++;
    }
    memory_free(d.timeline); /* the watch is the caller's */
}

/* The model writes `say` once. */
static inline void drive(run *r, cerium_session *s, const char *prompt, const char *say,
                         uint32_t n_new, const cerium_sampling *sampling, watch *w)
{
    drive_says(r, s, prompt, &say, 1, n_new, sampling, w);
}

static inline bool is_weak(guard_form form, guard_language language, const char *before,
                           const char *text)
{
    guard_stream *s;
    guard_result r;
    bool found = false;
    guard_stream_config config = {.form = form, .language = language};
    TEST_CHECK(guard_stream_open(&s, rules, &config, NULL) == 0);
    if (*before) guard_context(s, worker, view_of(before));
    guard_feed(s, worker, text, strlen(text), &r);
    for (uint32_t i = 0; i < r.n_findings; i++) found |= r.findings[i].severity == GUARD_BLOCK;
    guard_finish(s, worker, &r);
    for (uint32_t i = 0; i < r.n_findings; i++) found |= r.findings[i].severity == GUARD_BLOCK;
    guard_stream_close(&s);
    return found;
}

static inline cerium_session *open_session(bool speculates)
{
    cerium_session *s = NULL;
    cerium_session_config config = {.no_speculation = !speculates};
    TEST_CHECK(cerium_session_open(&s, engine, &config, NULL) == 0);
    return s;
}

static bool open_forced(const char *path, uint32_t context)
{
    cerium_error err;
    cerium_engine_config config;
    cerium_engine_config_defaults(&config);
    config.model_path = path;
    config.context_tokens_max = context;
    config.threads = 1;
    if (!guard_open(&rules, "rules", &err) && !guard_worker_open(&worker, rules, &err) &&
        !cerium_engine_open(&engine, &config, &err))
        return true;
    printf("  FAIL %s\n", err.message);
    return false;
}

static void close_forced(void)
{
    cerium_engine_close(&engine);
    guard_worker_close(&worker);
    guard_close(&rules);
}

#endif
