/* test_watch_names.c - an unknown name holds its line: the line is retracted, the model reads
 * the known names, and after two tries the line is released as it was, with a warning. */
#include "../guard/forced.h"

#include "exists/exists_names.h"
#include "names_fixture.h"

static names_index *names;

static watch *open_named(guard_form form, guard_language language, const char *before,
                         const char *policy, const view *request, size_t n_request)
{
    watch *w = NULL;
    cerium_error err;
    watch_policy p = watch_policy_strict();
    TEST_CHECK(watch_policy_set_all(&p, view_of(policy)));
    watch_config config = {.engine = engine, .guard = rules, .worker = worker, .policy = &p,
                           .form = form, .language = language, .before = view_of(before),
                           .names = names, .request = request, .n_request = n_request};
    TEST_CHECK(watch_open(&w, &config, &err) == 0);
    return w;
}

static void say_all(run *r, watch *w, const char *prompt, const char *const *text,
                    uint32_t n_text, uint32_t n)
{
    cerium_session *s = NULL;
    cerium_session_config config = {.tenant = 1};
    TEST_CHECK(cerium_session_open(&s, engine, &config, NULL) == 0);
    drive_says(r, s, prompt, text, n_text, n, NULL, w);
    cerium_session_close(&s);
}

static void say(run *r, watch *w, const char *prompt, const char *text, uint32_t n)
{
    say_all(r, w, prompt, &text, 1, n);
}

static const char prompt[] = "import numpy as np\n\n";

static void test_held(void)
{
    static run r;
    watch *w = open_named(GUARD_CODE, GUARD_PYTHON, prompt, "exists=warn", NULL, 0);
    say(&r, w, prompt, "a = np.zeros(3)\nb = np.aray([1, 2])\n", 60);
    TEST_CHECK(r.n_taken >= 1);
    TEST_CHECK_THAT(strstr(r.notes, "numpy has no aray; instead: ") != NULL, "%s", r.notes);
    TEST_CHECK_THAT(strstr(r.notes, "array") != NULL, "%s", r.notes);
    TEST_CHECK(!strstr(r.notes, "CWE-"));
    TEST_CHECK(!strncmp(r.text, "a = np.zeros(3)\n", 16));
    /* It never ends an answer: the result is another line, or this one with a warning. */
    TEST_CHECK(r.n_blocked == 0);
    TEST_CHECK_THAT(!strstr(r.text, "np.aray") || r.n_warned >= 1, "%s", r.text);
    watch_close(&w);
}

/* It invents again after the note: then only names that exist can be written in that place. */
static void test_limited(void)
{
    static run r;
    static const char *const cases[][2] = {
        {"b = np.aray([1, 2])\n", "b = np.arrray([1, 2])\n"},
        {"b = np.aray([1], np.flot)\n", "b = np.zeros([1], np.flot)\n"},
        {"from numpy import aray\n", "from numpy import zeroes\n"},
        {"from numpy import (\n    zeros,\n    aray,\n)\n", "from numpy import zeros, zeroes\n"},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        watch *w = open_named(GUARD_CODE, GUARD_PYTHON, prompt, "exists=warn", NULL, 0);
        say_all(&r, w, prompt, cases[i], 2, 32);
        TEST_CHECK_THAT(r.n_taken >= 2 && !r.n_blocked, "case %zu: %s", i, r.text);
        TEST_CHECK_THAT(!strstr(r.text, "zeroes") && !strstr(r.text, "np.arrray") &&
                            !strstr(r.text, "np.flot"), "%s", r.text);
        watch_close(&w);
    }
    TEST_CHECK_THAT(!strncmp(r.text, "from numpy import zeros, ", 25), "%s", r.text);
}

static void test_off(void)
{
    static run r;
    watch *w = open_named(GUARD_CODE, GUARD_PYTHON, prompt, "exists=off", NULL, 0);
    say(&r, w, prompt, "b = np.aray([1, 2])\n", 20);
    TEST_CHECK(!r.n_taken && !r.n_warned && strstr(r.text, "np.aray"));
    watch_close(&w);
}

/* A name that the request has, too, is reported and not held. */
static void test_asked_for(void)
{
    static run r;
    const view request[] = {VIEW("please call np.aray for me")};
    watch *w = open_named(GUARD_CODE, GUARD_PYTHON, prompt, "exists=warn", request, 1);
    say(&r, w, prompt, "b = np.aray([1, 2])\nc = np.aray(b)\n", 40);
    TEST_CHECK(!r.n_taken && strstr(r.text, "np.aray([1, 2])"));
    TEST_CHECK(r.n_warned == 1); /* once */
    watch_close(&w);
}

static void test_real(void)
{
    static run r;
    const char *code = "import os\nfrom numpy import zeros, array as a\nprint(np.arange(3), "
                       "os.getcwd(), zeros(2), a([1]))\n";
    watch *w = open_named(GUARD_CODE, GUARD_PYTHON, prompt, "exists=block", NULL, 0);
    say(&r, w, prompt, code, 50);
    TEST_CHECK(!r.n_taken && !r.n_warned && !r.n_blocked);
    watch_close(&w);
}

/* Only imports are blocked, and only if the policy names that. */
static void test_blocked(void)
{
    static run r;
    const char *code = "import nunpy\nx = 1\n";
    watch *w = open_named(GUARD_CODE, GUARD_PYTHON, prompt, "exists=block", NULL, 0);
    say(&r, w, prompt, code, 60);
    TEST_CHECK(r.n_taken >= 1);
    TEST_CHECK_THAT(!strstr(r.text, "import nunpy\n"), "%s", r.text);
    watch_close(&w);
    watch_policy p = watch_policy_strict(), all = p;
    TEST_CHECK(watch_policy_set(&all, VIEW("block")) && !memcmp(&p, &all, sizeof p));
    TEST_CHECK(watch_policy_uses_names(&p));
    TEST_CHECK(watch_policy_set(&all, VIEW("off")) && !watch_policy_uses_names(&all));
}

/* The same findings for any cuts of the bytes, in every form. */
typedef struct {
    uint64_t sum;
    uint32_t n;
} seen;

static void begin(void *user, void *state)
{
    (void)user;
    uses_begin(state);
}

static uint32_t line(void *user, void *state, guard_language language, view text, bool whole,
                     guard_read out[GUARD_READER_FINDINGS])
{
    exists_finding list[USES_FINDINGS_MAX];
    uint32_t n = uses_line(user, state, language, text, whole, list);
    if (n > GUARD_READER_FINDINGS) n = GUARD_READER_FINDINGS;
    for (uint32_t i = 0; i < n; i++)
        out[i] = (guard_read){.begin = list[i].begin, .end = list[i].end, .late = list[i].late,
                              .name = 1, .message = "m", .idiom = "i"};
    return n;
}

static seen read_cut(guard_form form, guard_language language, const char *text, size_t cut)
{
    guard_stream *s = NULL;
    guard_result r;
    seen all = {0, 0};
    const guard_reader reader = {names, begin, line};
    guard_stream_config config = {.form = form, .language = language, .reader = &reader};
    size_t n = strlen(text);
    TEST_CHECK(guard_stream_open(&s, rules, &config, NULL) == 0);
    for (int part = 0; part < 3; part++) {
        if (part == 0) guard_feed(s, worker, text, cut, &r);
        if (part == 1) guard_feed(s, worker, text + cut, n - cut, &r);
        if (part == 2) guard_finish(s, worker, &r);
        for (uint32_t i = 0; i < r.n_findings; i++, all.n++)
            all.sum = all.sum * 31 + r.findings[i].begin * 7 + r.findings[i].end +
                      r.findings[i].line;
    }
    guard_stream_close(&s);
    return all;
}

static void test_every_cut(void)
{
    static const struct {
        guard_form form;
        guard_language language;
        const char *text;
        uint32_t n;
    } cases[] = {
        {GUARD_CODE, GUARD_PYTHON,
         "import numpy as np\nfrom numpy import (\n    array,\n    aray,\n)\n"
         "x = np.foo(\n 1)\n", 2},
        {GUARD_ANSWER, GUARD_TEXT,
         "See np.foo:\n```python\nimport numpy as np\nx = np.foo()\n```\nand np.bar\n", 1},
        {GUARD_JSON, GUARD_TEXT,
         "{\"path\": \"a.py\", \"content\": \"import numpy as np\\nx = np.foo()\\n\"}", 1},
        {GUARD_ANSWER, GUARD_TEXT,
         "--- a/x.py\n+++ b/x.py\n@@ -1,2 +1,3 @@\n import numpy as np\n-y = np.bar()\n"
         "+x = np.foo()\n", 1},
        {GUARD_CODE, GUARD_PYTHON, "import numpyx\ntry:\n    import foo\nexcept ImportError:\n"
         "    foo = None\n", 1},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        seen want = read_cut(cases[i].form, cases[i].language, cases[i].text, 0);
        TEST_CHECK_THAT(want.n == cases[i].n, "case %zu: %u findings", i, want.n);
        for (size_t cut = 1; cut < strlen(cases[i].text); cut++) {
            seen got = read_cut(cases[i].form, cases[i].language, cases[i].text, cut);
            TEST_CHECK_THAT(got.n == want.n && got.sum == want.sum, "case %zu cut at %zu", i, cut);
        }
    }
}

int main(void)
{
    if (!open_forced("models/cerium-line.gguf", 1024)) return 1;
    names = fixture_names();
    TEST_RUN(test_every_cut);
    if (guard_has_grammar(GUARD_PYTHON)) {
        TEST_RUN(test_real);
        TEST_RUN(test_off);
        TEST_RUN(test_asked_for);
        TEST_RUN(test_held);
        TEST_RUN(test_limited);
        TEST_RUN(test_blocked);
    } else TEST_SKIP("names in an answer: this build has no grammars");
    index_close(&names);
    close_forced();
    return unit_report("watch names");
}
