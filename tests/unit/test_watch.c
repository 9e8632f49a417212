/* test_watch.c - an answer and its guard: what is released, where it is cut, what follows; and
 * with a session, that nothing weak is released and that no note remains anywhere. */
#include "../guard/forced.h"

static const char weak[] =
    "    cur.execute(\"SELECT * FROM users WHERE name = '\" + name + \"'\")\n";
static const char prompt[] =
    "import sqlite3\n\ndef find(name):\n    db = sqlite3.connect('x.db')\n";

/* ---- released text ---- */

static void test_taken_back(void)
{
    static run r;
    char say[1024];
    watch *w = open_watch(GUARD_CODE, GUARD_PYTHON, prompt, "block");
    cerium_session *s = open_session(true);
    snprintf(say, sizeof say, "    cur = db.cursor()\n%s", weak);
    TEST_CHECK(is_weak(GUARD_CODE, GUARD_PYTHON, prompt, say));
    drive(&r, s, prompt, say, 60, NULL, w);
    TEST_CHECK(r.n_taken >= 1);
    TEST_CHECK(!strncmp(r.text, "    cur = db.cursor()\n", 22));
    TEST_CHECK_THAT(!strstr(r.text, "+ name"), "%s", r.text);
    TEST_CHECK(!is_weak(GUARD_CODE, GUARD_PYTHON, prompt, r.text));
    TEST_CHECK(strstr(r.notes, "    # CWE-89: ") != NULL);
    TEST_CHECK(strstr(r.notes, "instead: ") != NULL);
    TEST_CHECK(r.n_corrected + r.n_blocked >= 1);
    cerium_session_close(&s);
    watch_close(&w);
}

/* The answer's tokens spell its text exactly. */
static void check_log(const run *r)
{
    char text[TEXT_MAX];
    size_t n = 0;
    for (size_t i = 0; i < r->n_tokens; i++) {
        size_t len;
        const char *piece = cerium_token_bytes(engine, r->tokens[i], &len);
        if (cerium_token_is_end(engine, r->tokens[i])) continue;
        TEST_CHECK(n + len < sizeof text);
        memcpy(text + n, piece, len);
        n += len;
    }
    TEST_CHECK_THAT(n >= r->len && !memcmp(text, r->text, r->len), "%zu of %zu", r->len, n);
}

/* The note is in no token log, and pages computed after it are never found; the logits at the end
 * are those of a session that never saw one. */
static void check_clean(cerium_session *s, const run *r, const char *before)
{
    static int32_t tokens[2 * TOKENS_MAX];
    size_t n = encode(before, tokens, TOKENS_MAX), n_held, n_vocab;
    cerium_sync_result reused;
    memcpy(tokens + n, r->tokens, r->n_tokens * sizeof *tokens);
    n += r->n_tokens;
    TEST_CHECK(cerium_session_sync(s, tokens, n, &reused, NULL) == 0);
    const int32_t *held = cerium_session_tokens(s, &n_held);
    TEST_CHECK(n_held == n && !memcmp(held, tokens, n * sizeof *tokens));
    cerium_session *other = NULL;
    cerium_session_config config = {.tenant = 99};
    TEST_CHECK(cerium_session_open(&other, engine, &config, NULL) == 0);
    TEST_CHECK(cerium_session_sync(other, tokens, n, &reused, NULL) == 0);
    TEST_CHECK(reused.tokens_reused == 0 || reused.tokens_reused < n);
    const float *a = cerium_session_logits(s, &n_vocab);
    const float *b = cerium_session_logits(other, &n_vocab);
    TEST_CHECK(a && b && !memcmp(a, b, n_vocab * sizeof *a));
    cerium_session_close(&other);
}

static void test_nothing_stays(void)
{
    static run r;
    static int32_t tokens[2 * TOKENS_MAX];
    cerium_sync_result sync;
    watch *w = open_watch(GUARD_CODE, GUARD_PYTHON, prompt, "block");
    cerium_session *s = open_session(true), *finder = open_session(false);
    drive(&r, s, prompt, weak, 40, NULL, w);
    TEST_CHECK(r.n_taken >= 1);
    check_log(&r);
    /* A request for the prompt with the note finds the pages before it, and computes the note. */
    size_t n = encode(prompt, tokens, TOKENS_MAX);
    size_t n_note = encode(r.notes, tokens + n, TOKENS_MAX), n_same = 0;
    TEST_CHECK(n_note > 8);
    while (n_same < n_note && n_same < r.n_tokens && tokens[n + n_same] == r.tokens[n_same])
        n_same++;
    TEST_CHECK(n_same < 4);
    TEST_CHECK(cerium_session_sync(finder, tokens, n + n_note, &sync, NULL) == 0);
    TEST_CHECK_THAT(sync.tokens_reused <= n + n_same, "%u of %zu", sync.tokens_reused, n);
    check_clean(s, &r, prompt);
    cerium_session_close(&s);
    cerium_session_close(&finder);
    watch_close(&w);
}

/* ---- the same text with and without drafts ---- */

static void test_drafts_change_nothing(void)
{
    static run r[2];
    for (int i = 0; i < 2; i++) {
        watch *w = open_watch(GUARD_CODE, GUARD_PYTHON, prompt, "block");
        cerium_session *s = open_session(i == 1);
        drive(&r[i], s, prompt, weak, 80, NULL, w);
        cerium_session_close(&s);
        watch_close(&w);
    }
    TEST_CHECK_THAT(!strcmp(r[0].text, r[1].text), "%s|%s", r[0].text, r[1].text);
    TEST_CHECK(r[0].n_tokens == r[1].n_tokens &&
               !memcmp(r[0].tokens, r[1].tokens, r[0].n_tokens * sizeof(int32_t)));
    TEST_CHECK(r[0].n_taken == r[1].n_taken);
}

/* ---- policies ---- */

static void test_policies(void)
{
    static run r;
    static const char *const policies[] = {"warn", "off", "sql=warn", "command=warn"};
    for (int i = 0; i < 4; i++) {
        watch *w = open_watch(GUARD_CODE, GUARD_PYTHON, prompt, policies[i]);
        cerium_session *s = open_session(true);
        drive(&r, s, prompt, weak, 24, NULL, w);
        bool blocks = i == 3, warns = i == 0 || i == 2, weak_is_out = strstr(r.text, weak) != NULL;
        TEST_CHECK_THAT(weak_is_out == !blocks, "%s", r.text);
        TEST_CHECK((r.n_warned > 0) == warns);
        TEST_CHECK((r.n_taken > 0) == blocks);
        cerium_session_close(&s);
        watch_close(&w);
    }
    watch_policy p = watch_policy_strict(), q = p;
    TEST_CHECK(!watch_policy_set(&p, VIEW("sql=maybe")) && !watch_policy_set(&p, VIEW("x=warn")));
    TEST_CHECK(!watch_policy_set(&p, VIEW("")) && !watch_policy_set(&p, VIEW("=warn")));
    TEST_CHECK(watch_policy_set(&p, VIEW("off")) && watch_policy_is_off(&p));
    TEST_CHECK(watch_policy_set(&p, VIEW("tls=warn")) && !watch_policy_is_off(&p));
    watch_policy_tighten(&p, &q);
    TEST_CHECK(!memcmp(p.action, q.action, sizeof p.action));
    TEST_CHECK(watch_policy_set_late(&p, VIEW("open")) && p.opens_late);
    watch_policy_tighten(&p, &q);
    TEST_CHECK(!p.opens_late);
}

/* ---- lines that begin within a token, in any context ---- */

static cerium_watch_order feed(watch *w, const int32_t *tokens, size_t n, run *r)
{
    watch_result out = {.order = CERIUM_WATCH_GO};
    memset(r, 0, sizeof *r);
    for (size_t i = 0; i < n && out.order == CERIUM_WATCH_GO; i++) {
        size_t len;
        const char *text = cerium_token_bytes(engine, tokens[i], &len);
        cerium_step step = {.n_tokens = 1, .tokens = {tokens[i]}, .text = text, .text_len = len,
                            .text_ends = {(uint32_t)len}};
        TEST_CHECK(watch_step(w, &step, NULL, 0, &out) == 0);
        take(r, &out);
    }
    if (out.order == CERIUM_WATCH_GO) {
        TEST_CHECK(watch_finish(w, &out) == 0);
        take(r, &out);
    }
    take_tokens(r, w);
    return out.order;
}

/* Feeds a weak text: the answer is cut to `keeps`, and the notes begin with `note`. */
static void check_cut(guard_form form, guard_language language, const char *text, const char *keeps,
                      const char *note)
{
    static run r;
    int32_t tokens[TOKENS_MAX];
    watch *w = open_watch(form, language, "", "block");
    watch_plan plan;
    size_t n = encode(text, tokens, TOKENS_MAX);
    TEST_CHECK_THAT(feed(w, tokens, n, &r) == CERIUM_WATCH_RETRY, "%s", text);
    watch_retry(w, &plan);
    note_note(&r, &plan);
    TEST_CHECK_THAT(!strcmp(r.text, keeps), "%s|%s", r.text, keeps);
    TEST_CHECK_THAT(!strncmp(r.notes, note, strlen(note)), "%s|%s", r.notes, note);
    TEST_CHECK(plan.corrects && plan.resume.n_avoid > 0);
    check_log(&r);
    watch_close(&w);
}

static void test_cuts(void)
{
    check_cut(GUARD_CODE, GUARD_PYTHON, "import os\n\n\nos.system('ls ' + name)\n",
              "import os\n\n\n",
              "# CWE-78: ");
    check_cut(GUARD_CODE, GUARD_C, "void f(char *s)\n{\n    char b[8];\n\tgets(b);\n}\n",
              "void f(char *s)\n{\n    char b[8];\n", "\t// CWE-");
    check_cut(GUARD_TURN, GUARD_TEXT,
              "Here:\n```python\nimport os\ndef f(n):\n    os.system('ls ' + n)\n```\n",
              "Here:\n```python\nimport os\ndef f(n):\n", "    # CWE-78: ");
    check_cut(GUARD_TURN, GUARD_TEXT,
              "<tool_call>\n{\"name\": \"write\", \"arguments\": {\"path\": \"a.py\", \"content\": "
              "\"import os\\ndef f(n):\\n    os.system('ls ' + n)\\n\"}}\n</tool_call>",
              "<tool_call>\n{\"name\": \"write\", \"arguments\": {\"path\": \"a.py\", \"content\": "
              "\"import os\\ndef f(n):\\n", "    # CWE-78: ");
    check_cut(GUARD_TURN, GUARD_TEXT,
              "<function=write>\n<parameter=path>\na.py\n</parameter>\n<parameter=content>\n"
              "import os\ndef f(n):\n    os.system('ls ' + n)\n</parameter>\n</function>\n",
              "<function=write>\n<parameter=path>\na.py\n</parameter>\n<parameter=content>\n"
              "import os\ndef f(n):\n", "    # CWE-78: ");
    check_cut(GUARD_TURN, GUARD_TEXT,
              "*** Begin Patch\n*** Update File: a.py\n@@\n import os\n def f(n):\n"
              "+    os.system('ls ' + n)\n*** End Patch\n",
              "*** Begin Patch\n*** Update File: a.py\n@@\n import os\n def f(n):\n+",
              "    # CWE-78: ");
    check_cut(GUARD_TURN, GUARD_TEXT,
              "{\"name\": \"apply_patch\", \"arguments\": {\"input\": \"*** Begin Patch\\n*** "
              "Update File: a.py\\n@@\\n import os\\n def f(n):\\n+    os.system('ls ' + n)\\n\"}}",
              "{\"name\": \"apply_patch\", \"arguments\": {\"input\": \"*** Begin Patch\\n*** "
              "Update File: a.py\\n@@\\n import os\\n def f(n):\\n+", "    # CWE-78: ");
}

/* The answer's first tokens spell the end of the prompt, and its text begins after that: one of
 * them may hold both.  heal_prefix: bytes of `text`, which the prompt ends with. */
static void check_heal_prefix(const char *text, size_t heal_prefix, const char *keeps)
{
    static run r;
    int32_t tokens[TOKENS_MAX];
    char before[256], spelled[TEXT_MAX];
    size_t n = encode(text, tokens, TOKENS_MAX), hidden = heal_prefix, n_spelled = 0;
    snprintf(before, sizeof before, "import os\ndef f(n%.*s", (int)heal_prefix, text);
    watch *w = open_watch_within(GUARD_CODE, GUARD_PYTHON, before, "block",
                                 (view){text, heal_prefix});
    watch_result out = {.order = CERIUM_WATCH_GO};
    watch_plan plan;
    memset(&r, 0, sizeof r);
    for (size_t i = 0; i < n && out.order == CERIUM_WATCH_GO; i++) {
        size_t len, out_of = 0;
        const char *piece = cerium_token_bytes(engine, tokens[i], &len);
        out_of = len < hidden ? len : hidden;
        hidden -= out_of;
        cerium_step step = {.n_tokens = 1, .tokens = {tokens[i]}, .text = piece + out_of,
                            .text_len = len - out_of, .text_ends = {(uint32_t)(len - out_of)}};
        TEST_CHECK(watch_step(w, &step, NULL, 0, &out) == 0);
        take(&r, &out);
    }
    TEST_CHECK(out.order == CERIUM_WATCH_RETRY);
    TEST_CHECK_THAT(!strcmp(r.text, keeps), "%s|%s", r.text, keeps);
    take_tokens(&r, w);
    for (size_t i = 0; i < r.n_tokens; i++) {
        size_t len;
        const char *piece = cerium_token_bytes(engine, r.tokens[i], &len);
        memcpy(spelled + n_spelled, piece, len);
        n_spelled += len;
    }
    TEST_CHECK(n_spelled <= heal_prefix + strlen(keeps));
    TEST_CHECK(!memcmp(spelled, text, n_spelled));
    TEST_CHECK(n_spelled == heal_prefix + strlen(keeps) || *keeps == 0);
    watch_retry(w, &plan);
    TEST_CHECK(plan.resume.n_heal == heal_prefix && plan.resume.n_answer == r.n_tokens);
    watch_close(&w);
}

static void test_heal_prefixes(void)
{
    check_heal_prefix("):\n    os.system('ls ' + n)\n", 0, "):\n");
    check_heal_prefix("):\n    os.system('ls ' + n)\n", 1, ":\n");
    check_heal_prefix("):\n    os.system('ls ' + n)\n", 2, "\n");
    check_heal_prefix("):\n    os.system('ls ' + n)\n", 3, "");
    check_heal_prefix("):\n    os.system('ls ' + n)\n", 5, "");
    check_heal_prefix("):\n\n    x = 1\n    os.system('ls ' + n)\n", 2, "\n\n    x = 1\n");
}

/* Twice, then the rule's safe form is inserted, and the answer continues after it. */
static void test_two_tries(void)
{
    static run r;
    int32_t tokens[TOKENS_MAX];
    size_t n = encode("import os\nos.system('ls ' + name)\n", tokens, TOKENS_MAX);
    size_t n_line = encode("os.system('ls ' + name)\n", tokens + n, TOKENS_MAX - n);
    watch *w = open_watch(GUARD_CODE, GUARD_PYTHON, "", "block");
    watch_plan first, second, third;
    TEST_CHECK(feed(w, tokens, n, &r) == CERIUM_WATCH_RETRY);
    TEST_CHECK(!strcmp(r.text, "import os\n"));
    watch_retry(w, &first);
    TEST_CHECK(feed(w, tokens + n, n_line, &r) == CERIUM_WATCH_RETRY && r.len == 0);
    watch_retry(w, &second);
    TEST_CHECK(second.resume.n_note > 0 && second.resume.n_avoid > 0);
    TEST_CHECK(feed(w, tokens + n, n_line, &r) == CERIUM_WATCH_RETRY && r.n_blocked == 0);
    TEST_CHECK(r.n_replaced == 1 && r.n_corrected == 1);
    TEST_CHECK_THAT(strstr(r.text, "\nsubprocess.call([\"ls\", name])\n"), "%s", r.text);
    watch_retry(w, &third);
    TEST_CHECK(third.repaired && !third.corrects && !third.resume.n_note && !third.resume.n_avoid);
    size_t n_output = encode("import os\n", tokens, TOKENS_MAX);
    TEST_CHECK(r.n_tokens > n_output && !memcmp(r.tokens, tokens, n_output * sizeof *tokens));
    watch_close(&w);
}

/* ---- forbidden beginnings ---- */

/* The first token sampled after the prompt, except those to avoid. */
static int32_t sample(cerium_session *s, const int32_t *avoid, size_t n_avoid, uint32_t skip)
{
    int32_t tokens[TOKENS_MAX];
    cerium_step step = {0};
    cerium_resume resume = {.avoid = avoid, .n_avoid = n_avoid};
    size_t n = encode(prompt, tokens, TOKENS_MAX);
    TEST_CHECK(cerium_session_resume(s, tokens, n, &resume, NULL, NULL) == 0);
    for (uint32_t i = 0; i <= skip; i++) TEST_CHECK(cerium_session_step(s, NULL, &step, NULL) == 0);
    return step.tokens[0];
}

static void test_avoided(void)
{
    cerium_session *s = open_session(false);
    cerium_resume bad = {.avoid = (int32_t[]){-2}, .n_avoid = 1};
    int32_t first = sample(s, NULL, 0, 0), after = sample(s, NULL, 0, 1);
    int32_t other = sample(s, &first, 1, 0);
    TEST_CHECK(other != first);
    int32_t both[] = {first, -1, other}, pair[] = {other, 1, -1, first, after};
    int32_t third = sample(s, both, 3, 0);
    TEST_CHECK(third != first && third != other);
    TEST_CHECK(sample(s, pair, 5, 0) == first);
    TEST_CHECK(sample(s, pair, 5, 1) != after);
    TEST_CHECK(sample(s, pair, 3, 1) == after);
    TEST_CHECK(cerium_session_resume(s, &first, 1, &bad, NULL, NULL) == CERIUM_ERR_ARGUMENT);
    cerium_session_close(&s);
}

/* With logprobs, text and tokens are released together; those of a retracted line are not. */
static void test_logprobs(void)
{
    char reported[TEXT_MAX], text[TEXT_MAX];
    size_t n_reported = 0, n_text = 0;
    int32_t tokens[TOKENS_MAX];
    watch_policy p = watch_policy_strict();
    watch_config config = {.engine = engine, .guard = rules, .worker = worker, .policy = &p,
                           .form = GUARD_TURN, .logprobs = true};
    watch *w = NULL;
    watch_result out = {.order = CERIUM_WATCH_GO};
    size_t n = encode("Naïve, déjà vu:\n```python\nimport os\nos.system('ls ' + name)\n", tokens,
                      TOKENS_MAX);
    TEST_CHECK(watch_open(&w, &config, NULL) == 0);
    for (size_t i = 0; i < n && out.order == CERIUM_WATCH_GO; i++) {
        size_t len;
        const char *piece = cerium_token_bytes(engine, tokens[i], &len);
        cerium_step step = {.n_tokens = 1, .tokens = {tokens[i]}, .logprobs = {-1}, .text = piece,
                            .text_len = len, .text_ends = {(uint32_t)len}};
        TEST_CHECK(watch_step(w, &step, NULL, 0, &out) == 0);
        if (out.text.len) memcpy(text + n_text, out.text.ptr, out.text.len);
        n_text += out.text.len;
        for (uint32_t k = 0; k < out.n_tokens; k++) {
            piece = cerium_token_bytes(engine, out.tokens[k].token, &len);
            memcpy(reported + n_reported, piece, len);
            n_reported += len;
        }
        TEST_CHECK(n_reported == n_text && !memcmp(reported, text, n_reported));
    }
    static const char want[] = "Naïve, déjà vu:\n```python\nimport os\n";
    TEST_CHECK(out.order == CERIUM_WATCH_RETRY);
    TEST_CHECK(n_text == sizeof want - 1 && !memcmp(text, want, n_text));
    watch_close(&w);
}

/* A long line without an end is still bounded, and released. */
static void test_endless(void)
{
    static run r;
    watch *w = open_watch(GUARD_CODE, GUARD_PYTHON, "", "block");
    char piece[64];
    size_t n = 0;
    memset(&r, 0, sizeof r);
    for (int i = 0; i < 20000; i++) {
        watch_result out;
        int len = snprintf(piece, sizeof piece, "%s%d ", i ? "" : "x = '", i);
        cerium_step step = {.n_tokens = 1, .tokens = {1}, .text = piece, .text_len = (size_t)len,
                            .text_ends = {(uint32_t)len}};
        TEST_CHECK(watch_step(w, &step, NULL, 0, &out) == 0);
        TEST_CHECK(out.order == CERIUM_WATCH_GO);
        n += out.text.len;
        TEST_CHECK(watch_held(w) <= 1200);
    }
    TEST_CHECK(n > 90000);
    watch_stop(w);
    TEST_CHECK(watch_measure(w).held_max <= 1200);
    watch_close(&w);
}

/* A language without a grammar is read line by line; that is no reason to hold lines. */
static void test_without_grammars(void)
{
    static run r;
    static const char text[] = "def find(name):\n    os.system('ls ' + name)\n";
    int32_t tokens[TOKENS_MAX];
    size_t n = encode(text, tokens, TOKENS_MAX);
    watch *w = open_watch(GUARD_CODE, GUARD_PYTHON, "import os\n", "block");
    TEST_CHECK(feed(w, tokens, n, &r) == CERIUM_WATCH_GO);
    TEST_CHECK_THAT(!strcmp(r.text, text), "%s", r.text);
    watch_close(&w);
}

int main(void)
{
    if (!open_forced("models/cerium-line.gguf", 1024)) return 1;
    if (guard_has_grammar(GUARD_PYTHON) && guard_has_grammar(GUARD_C)) {
        TEST_RUN(test_cuts);
        TEST_RUN(test_heal_prefixes);
        TEST_RUN(test_two_tries);
        TEST_RUN(test_avoided);
        TEST_RUN(test_policies);
        TEST_RUN(test_taken_back);
        TEST_RUN(test_nothing_stays);
        TEST_RUN(test_drafts_change_nothing);
        TEST_RUN(test_logprobs);
        TEST_RUN(test_endless);
    } else {
        TEST_RUN(test_without_grammars);
        TEST_SKIP("watches: this build has no grammars");
    }
    close_forced();
    return unit_report("watch");
}
