/* test_watch_api.c - the watchdog through cerium.h: policies, languages and the request's texts
 * reach the watch, a retry starts where the answer was cut, and every allocation may fail. */
#include "base/memory.h"

#include "../guard/forced.h"

static cerium_watchdog *watchdog;

static const char weak[] = "os.system('ls ' + name)\n", before[] = "import os\ndef f(name):\n    ";

static cerium_watch_config config_of(cerium_watch_form form)
{
    cerium_watch_config config;
    cerium_watch_config_defaults(&config);
    config.engine = engine;
    config.form = form;
    config.before = before;
    config.before_len = strlen(before);
    config.language = "x/y.py";
    return config;
}

/* Feeds it, token by token, up to an order. */
static int say_tokens(cerium_watch *w, const int32_t *tokens, size_t n, cerium_watch_result *out,
                      char *shown)
{
    size_t n_shown = 0;
    *out = (cerium_watch_result){.order = CERIUM_WATCH_GO};
    shown[0] = 0;
    for (size_t i = 0; i < n && out->order == CERIUM_WATCH_GO; i++) {
        size_t len;
        const char *piece = cerium_token_bytes(engine, tokens[i], &len);
        cerium_step step = {.n_tokens = 1, .tokens = {tokens[i]}, .text = piece, .text_len = len,
                            .text_ends = {(uint32_t)len}};
        int status = cerium_watch_step(w, &step, NULL, 0, out, NULL);
        if (status) return status;
        memcpy(shown + n_shown, out->text, out->text_len);
        shown[n_shown += out->text_len] = 0;
    }
    return CERIUM_OK;
}

static int say(cerium_watch *w, const char *text, cerium_watch_result *out, char *shown)
{
    int32_t tokens[TOKENS_MAX];
    size_t n = encode(text, tokens, TOKENS_MAX);
    return say_tokens(w, tokens, n, out, shown);
}

static void check(const cerium_watch_config *config, cerium_watch_order order, const char *shows,
                  uint32_t n_findings, cerium_finding_action action)
{
    char shown[TEXT_MAX];
    cerium_watch *w = NULL;
    cerium_watch_result out;
    cerium_error err = {0};
    TEST_CHECK_THAT(cerium_watch_open(&w, watchdog, config, &err) == 0, "%s", err.message);
    TEST_CHECK(say(w, weak, &out, shown) == 0);
    TEST_CHECK_THAT(out.order == order && !strcmp(shown, shows), "%d: %s", (int)out.order, shown);
    TEST_CHECK(out.n_findings == n_findings);
    if (out.n_findings) TEST_CHECK(out.findings[0].action == action && out.findings[0].cwe == 78);
    cerium_watch_close(&w);
    TEST_CHECK(w == NULL);
}

static void test_configurations(void)
{
    cerium_watch_config c = config_of(CERIUM_WATCH_CODE);
    check(&c, CERIUM_WATCH_RETRY, "", 1, CERIUM_FINDING_RETRACTED);
    c.language = "python";
    check(&c, CERIUM_WATCH_RETRY, "", 1, CERIUM_FINDING_RETRACTED);
    c.policy = "warn";
    check(&c, CERIUM_WATCH_GO, weak, 1, CERIUM_FINDING_WARNED);
    c.policy = "warn,command=off";
    check(&c, CERIUM_WATCH_GO, weak, 0, CERIUM_FINDING_WARNED);
    /* Code in the user's messages is exempt; code in the assistant's is not. */
    cerium_message messages[] = {{.role = "user", .content = "import os\nos.system('ls ' + name)"},
                                 {.role = "assistant", .content = "Yes."}};
    c = config_of(CERIUM_WATCH_CODE);
    c.messages = messages;
    c.n_messages = 2;
    check(&c, CERIUM_WATCH_GO, weak, 1, CERIUM_FINDING_KNOWN);
    messages[0].role = "assistant";
    check(&c, CERIUM_WATCH_RETRY, "", 1, CERIUM_FINDING_RETRACTED);
}

static void test_errors(void)
{
    cerium_watch *w = NULL;
    cerium_watchdog *none = NULL;
    cerium_error err;
    cerium_watch_config c = config_of(CERIUM_WATCH_CODE);
    c.policy = "hard";
    TEST_CHECK(cerium_watch_open(&w, watchdog, &c, &err) == CERIUM_ERR_ARGUMENT);
    TEST_CHECK(!strcmp(err.message, "policy hard: unknown"));
    c = config_of((cerium_watch_form)7);
    TEST_CHECK(cerium_watch_open(&w, watchdog, &c, &err) == CERIUM_ERR_ARGUMENT);
    c = config_of(CERIUM_WATCH_CODE);
    c.engine = NULL;
    TEST_CHECK(cerium_watch_open(&w, watchdog, &c, &err) == CERIUM_ERR_ARGUMENT);
    TEST_CHECK(cerium_watch_open(&w, NULL, &c, &err) == CERIUM_ERR_ARGUMENT && w == NULL);
    TEST_CHECK(cerium_watchdog_open(&none, "no/such/folder", &err) == CERIUM_ERR_IO);
    TEST_CHECK(cerium_watchdog_open(&none, NULL, &err) == CERIUM_ERR_ARGUMENT && none == NULL);
    cerium_watchdog_close(&none);
    cerium_watch_close(NULL);
    /* Nothing was retracted. */
    bool runs;
    cerium_request q = {.new_tokens_max = 1};
    c = config_of(CERIUM_WATCH_CODE);
    TEST_CHECK(cerium_watch_open(&w, watchdog, &c, NULL) == 0);
    TEST_CHECK(cerium_watch_retry(w, &q, &runs, &err) == CERIUM_ERR_ARGUMENT);
    cerium_watch_close(&w);
}

/* A good line and a weak one: the answer continues after the good one, with a note. */
static int retry(bool checks)
{
    char shown[TEXT_MAX];
    static int32_t prompt[TOKENS_MAX], two_lines[TOKENS_MAX];
    static size_t n_prompt, n_two_lines;
    cerium_watch *w = NULL;
    cerium_watch_result out;
    cerium_watch_config c = config_of(CERIUM_WATCH_CODE);
    cerium_request q = {.new_tokens_max = 50};
    bool runs = false;
    size_t n;
    if (checks) {
        n_prompt = encode(before, prompt, TOKENS_MAX);
        n_two_lines = encode("x = 1\n    os.system('ls ' + name)\n", two_lines, TOKENS_MAX);
    }
    c.prompt = prompt;
    c.n_prompt = n_prompt;
    int status = cerium_watch_open(&w, watchdog, &c, NULL);
    if (!status) status = say_tokens(w, two_lines, n_two_lines, &out, shown);
    if (!status) status = cerium_watch_retry(w, &q, &runs, NULL);
    if (!status && checks) {
        const int32_t *answer = cerium_watch_tokens(w, &n);
        TEST_CHECK_THAT(!strcmp(shown, "x = 1\n"), "%s", shown);
        TEST_CHECK(runs && q.n_tokens == c.n_prompt + n && q.new_tokens_max == 50 - n);
        TEST_CHECK(!memcmp(q.tokens, prompt, c.n_prompt * sizeof *prompt));
        TEST_CHECK(!memcmp(q.tokens + c.n_prompt, answer, n * sizeof *answer));
        TEST_CHECK(q.resume->n_answer == n && q.resume->n_note > 0 && q.resume->n_avoid > 0);
        TEST_CHECK(say(w, "return x\n", &out, shown) == 0);
        TEST_CHECK(cerium_watch_finish(w, &out, NULL) == 0);
    }
    cerium_watch_close(&w);
    return status;
}

static void test_retry(void)
{
    TEST_CHECK(retry(true) == CERIUM_OK);
}

static void test_faults(void)
{
    TEST_CHECK(retry(false) == CERIUM_OK);
    long live = memory_live(), before_one = memory_count(), n_failed = 0;
    TEST_CHECK(retry(false) == CERIUM_OK);
    long n_all = memory_count() - before_one;
    for (long n = 0; n < n_all; n++) {
        memory_fail_at(n);
        int status = retry(false);
        memory_fail_at(-1);
        TEST_CHECK_THAT(memory_live() == live, "allocation %ld", n);
        TEST_CHECK_THAT(status == CERIUM_ERR_MEMORY || status == CERIUM_OK, "%d", status);
        n_failed += status != CERIUM_OK;
    }
    TEST_CHECK_THAT(n_failed > 5, "%ld", n_failed);
}

int main(void)
{
    cerium_error err;
    if (!open_forced("models/cerium-line.gguf", 1024)) return 1;
    if (cerium_watchdog_open(&watchdog, "rules", &err)) {
        printf("  FAIL %s\nwatch_api: 0 passed, 1 failed\n", err.message);
        return 1;
    }
    TEST_RUN(test_errors);
    if (guard_has_grammar(GUARD_PYTHON)) {
        TEST_RUN(test_configurations);
        TEST_RUN(test_retry);
        TEST_RUN(test_faults);
    } else {
        TEST_SKIP("watches: this build has no grammars");
    }
    cerium_watchdog_close(&watchdog);
    close_forced();
    return unit_report("watch_api");
}
