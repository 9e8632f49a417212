/* test_endings.c - an answer with a weak line that ends too early, while every allocation fails in
 * turn: what was released is not weak, nothing is lost, and with memory again the code is whole. */
#include "faults.h"

#include "../guard/replayed.h"
#include "../guard/whole.h"

static const struct {
    guard_language language;
    const char *answer;
} answers[] = {
    {GUARD_PYTHON, "```python\nimport yaml\n\ndef f(text):\n    try:\n        a = yaml.load(text)\n"
                   "        if a:\n"},
    {GUARD_JAVASCRIPT, "```javascript\nfunction f(x) {\n  eval(x);\n  if (x) {\n    g(`a ${[x"},
    {GUARD_C, "```c\n#include <stdio.h>\n\nvoid f(void)\n{\n    char b[8];\n    gets(b);\n"
              "    if (b[0]) {\n        g(b"},
};

static uint32_t n_closed;

static void take_finding(void *user, const cerium_finding *f)
{
    (void)user;
    n_closed += !strcmp(f->rule, "end");
}

static int use_answer(size_t k, bytes *text)
{
    watch_policy policy = watch_policy_strict();
    watch_config config = {.engine = engine, .guard = rules, .worker = worker, .policy = &policy,
                           .form = GUARD_ANSWER, .recorded = true};
    replayed a = {.text = *text, .finding = take_finding};
    watch *w = NULL;
    int status = watch_open(&w, &config, NULL);
    if (!status)
        status = replay_answer(w, view_of(answers[k].answer), CERIUM_STOP_END, &a);
    watch_close(&w);
    *text = a.text;
    return status;
}

static bool is_whole(size_t k, view text)
{
    const char *stop = memchr(text.ptr, '\n', text.len);
    return stop && whole_parses(answers[k].language,
                                (view){stop + 1, (size_t)(text.ptr + text.len - stop - 1)}, false);
}

/* Returns the number of allocations that failed in turn. */
static long check_answer(size_t k)
{
    static char room[1 << 14]; /* of the text, which itself is not to fail */
    bytes text = {.max = sizeof room};
    long n_failed = 0;
    CHECK_THAT(!bytes_append(&text, room, sizeof room), -1);
    text.len = n_closed = 0;
    long live = memory_live(), before = memory_count();
    CHECK_THAT(use_answer(k, &text) == CERIUM_OK && n_closed == 1, -1);
    CHECK_THAT(is_whole(k, (view){text.ptr, text.len}), -1);
    long n_all = memory_count() - before;
    for (long n = 0; n <= n_all && failed <= 10; n++) {
        text.len = 0;
        memory_fail_at(n);
        int status = use_answer(k, &text);
        memory_fail_at(-1);
        CHECK_THAT(memory_live() == live, n);
        CHECK_THAT(status == CERIUM_OK || status == CERIUM_ERR_MEMORY, n);
        n_failed += status != CERIUM_OK;
        if (bytes_append(&text, "", 1)) continue;
        CHECK_THAT(!is_weak(GUARD_ANSWER, GUARD_TEXT, "", text.ptr), n);
    }
    text.len = n_closed = 0;
    CHECK_THAT(use_answer(k, &text) == CERIUM_OK && n_closed == 1, -1);
    CHECK_THAT(is_whole(k, (view){text.ptr, text.len}), -1);
    CHECK_THAT(n_failed > 3, n_failed);
    bytes_free(&text);
    passed += failed == 0;
    return n_failed;
}

int main(void)
{
    long n_failed = 0;
    if (!guard_has_grammar(GUARD_PYTHON)) {
        printf("skipped: endings: a build without grammars\nfaults_endings: 0 passed, 0 failed\n");
        return 0;
    }
    CHECK_THAT(open_forced("models/cerium-line.gguf", 256), -1);
    for (size_t k = 0; k < ARRAY_LEN(answers) && !failed; k++) n_failed += check_answer(k);
    close_forced();
    printf("faults: %ld allocations failed in turn\n", n_failed);
    printf("faults_endings: %d passed, %d failed\n", passed, failed + unit_test_failed);
    return failed + unit_test_failed != 0;
}
