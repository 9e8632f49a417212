/* test_guard.c - the watchdog: the same findings however the bytes are cut, nothing weak released,
 * code found in fences, diffs, patches and JSON, bounds kept, bad rules refused with their line. */
#include "guard/guard.h"
#include "guard/judge.h"
#include "guard/language.h"
#include "guard/rules.h"
#include "guard/tree.h"

#include "unit.h"

static guard *rules;
static guard_worker *worker;

enum { FOUND_MAX = 64 };

typedef struct {
    guard_finding list[FOUND_MAX];
    uint32_t n;
    uint64_t held_max; /* the most bytes withheld */
    bool late, orderly;
} found;

static void take(found *f, const guard_result *r, uint64_t fed, uint64_t *safe)
{
    f->late |= r->late;
    if (r->safe < *safe || r->safe > fed) f->orderly = false;
    *safe = r->safe;
    if (fed - r->safe > f->held_max) f->held_max = fed - r->safe;
    for (uint32_t i = 0; i < r->n_findings; i++)
        if (f->n < FOUND_MAX) f->list[f->n++] = r->findings[i];
}

/* Feed text in pieces; a piece ends after byte cut, and after every step bytes. */
static found scan(guard_form form, guard_language language, view text, size_t cut, size_t step)
{
    guard_stream *s;
    guard_result r;
    found f = {.orderly = true};
    cerium_error err;
    uint64_t safe = 0;
    guard_stream_config config = {.form = form, .language = language, .allow_comments = true};
    CHECK(guard_stream_open(&s, rules, &config, &err) == CERIUM_OK);
    for (size_t at = 0; at < text.len;) {
        size_t end = step && text.len - at > step ? at + step : text.len;
        if (at < cut && cut < end) end = cut;
        guard_feed(s, worker, text.ptr + at, end - at, &r);
        take(&f, &r, end, &safe);
        at = end;
    }
    guard_finish(s, worker, &r);
    take(&f, &r, text.len, &safe);
    if (safe != text.len) f.orderly = false;
    guard_stream_close(&s);
    return f;
}

static bool same(const found *a, const found *b)
{
    if (a->n != b->n) return false;
    for (uint32_t i = 0; i < a->n; i++) {
        const guard_finding *x = &a->list[i], *y = &b->list[i];
        if (strcmp(x->rule, y->rule) || x->begin != y->begin || x->end != y->end ||
            x->line != y->line || x->line_begin != y->line_begin || x->value != y->value ||
            x->unlikely != y->unlikely)
            return false;
    }
    return true;
}

static void check_cuts(guard_form form, guard_language language, view text, bool every)
{
    found whole = scan(form, language, text, 0, 0), bytewise = scan(form, language, text, 0, 1);
    TEST_CHECK_THAT(same(&whole, &bytewise), "%u and %u findings: %.*s", whole.n, bytewise.n,
                    (int)text.len, text.ptr);
    TEST_CHECK(whole.orderly && bytewise.orderly);
    for (size_t cut = 1; every && cut < text.len; cut++) {
        found f = scan(form, language, text, cut, 0);
        TEST_CHECK_THAT(same(&whole, &f), "cut at %zu: %.*s", cut, (int)text.len, text.ptr);
    }
}

static guard_language language_of(const rule *u)
{
    if (u->languages & 1) return GUARD_TEXT;
    for (int l = 1; l < GUARD_LANGUAGES; l++)
        if (u->languages >> l & 1) return (guard_language)l;
    return GUARD_TEXT;
}

/* The samples next to the rules: all byte by byte, every eighth at every cut. */
static void test_every_cut(void)
{
    rule_set set;
    cerium_error err;
    CHECK(rules_open(&set, "rules", &err) == CERIUM_OK);
    for (uint32_t i = 0; i < set.n; i++)
        for (uint32_t k = 0; k < set.list[i].n_bad; k++)
            check_cuts(GUARD_CODE, language_of(&set.list[i]), set.list[i].bad[k],
                       i % 8 == 0 && k == 0);
    rules_close(&set);
}

static void test_rules(void)
{
    uint32_t n;
    cerium_error err;
    int failures = guard_test_rules(rules, stdout, &n, &err);
    TEST_CHECK_THAT(failures == 0, "%d of %u", failures, n);
    TEST_CHECK_THAT(n > (guard_has_grammar(GUARD_PYTHON) ? 1000 : 30), "%u", n);
    if (guard_has_grammar(GUARD_PYTHON)) TEST_CHECK(roles_unknown(stdout) == 0);
}

/* The one finding of text must be rule, and its bytes must be expression. */
static void check_found(guard_form form, guard_language language, const char *text,
                        const char *kind, const char *expression)
{
    view t = view_of(text);
    check_cuts(form, language, t, true);
    found f = scan(form, language, t, 0, 1);
    TEST_CHECK_THAT(f.n == 1, "%u findings: %s", f.n, text);
    if (f.n != 1) return;
    const guard_finding *one = &f.list[0];
    const char *at = strstr(text, expression);
    TEST_CHECK_THAT(!strcmp(one->weakness, kind), "%s: %s", one->rule, text);
    TEST_CHECK_THAT(at && one->begin == (uint64_t)(at - text), "byte %llu: %s",
                    (unsigned long long)one->begin, text);
    TEST_CHECK(one->line_begin <= one->begin && one->begin < one->end && one->end <= t.len);
    TEST_CHECK(one->raised > one->line_begin);
    uint32_t line = 1;
    for (const char *c = text; at && c < at; c++) line += *c == '\n';
    if (form == GUARD_JSON) line = one->line; /* of the string's text: test_json_lines */
    TEST_CHECK_THAT(one->line == line, "line %u, want %u: %s", one->line, line, text);
}

static void check_nothing(guard_form form, guard_language language, const char *text)
{
    found f = scan(form, language, view_of(text), 0, 1);
    TEST_CHECK_THAT(f.n == 0, "%s: %s", f.n ? f.list[0].rule : "", text);
    check_cuts(form, language, view_of(text), true);
}

static void test_wrapped(void)
{
    if (!guard_has_grammar(GUARD_PYTHON)) {
        TEST_SKIP("code in answers: this build has no grammars");
        return;
    }
    check_found(GUARD_ANSWER, GUARD_TEXT,
                "Here:\n\n```python\nimport os\ndef f(n):\n    os.system('ls ' + n)\n```\nDone.\n",
                "command", "os.system");
    check_found(GUARD_ANSWER, GUARD_TEXT,
                "```js\nfunction f(x) { return eval(x); }\n```\n~~~python\nprint(1)\n~~~\n", "code",
                "eval(");
    check_found(GUARD_ANSWER, GUARD_TEXT,
                "```diff\n--- a/x.py\n+++ b/x.py\n@@ -1,2 +1,3 @@\n import os\n def f(n):\n"
                "+    os.system('ls ' + n)\n```\n",
                "command", "os.system");
    check_nothing(GUARD_ANSWER, GUARD_TEXT,
                  "```diff\n--- a/x.py\n+++ b/x.py\n@@ -1,2 +1,3 @@\n import os\n def f(n):\n"
                  "     os.system('ls ' + n)\n-    os.popen('x' + n)\n+    return 1\n```\n");
    check_found(GUARD_ANSWER, GUARD_TEXT,
                "*** Begin Patch\n*** Update File: src/x.py\n@@\n import os\n def f(n):\n"
                "+    os.system('ls ' + n)\n*** End Patch\n",
                "command", "os.system");
    check_found(GUARD_JSON, GUARD_TEXT,
                "{\"path\": \"x.py\", \"content\": "
                "\"import os\\ndef f(n):\\n    os.system(n)\\n\"}",
                "command", "os.system");
    check_nothing(GUARD_JSON, GUARD_TEXT,
                  "{\"path\": \"x.py\", \"n\": [1, {\"a\": \"print(1)\"}]}");
    check_found(GUARD_ANSWER, GUARD_TEXT,
                "Use postgres://admin:Xk29fLm3@db.internal/x as the address.\n", "secret",
                "Xk29fLm3");
    check_nothing(GUARD_ANSWER, GUARD_TEXT, "Call eval(x) and os.system(n): both are weak.\n");
}

/* ---- use of a function before its definition ---- */

static const char uses_below[] =
    "class A {\n    void f(HttpServletRequest q, Statement s) throws Exception {\n"
    "        String n = q.getParameter(\"n\");\n        String b = g(n);\n";
static const char used_below[] =
    "        s.executeQuery(\"SELECT a FROM t WHERE n = '\" + b + \"'\");\n";

/* Feeds a line; true if there is a finding in a line that was not released. */
static bool feed_line(guard_stream *s, const char *line, uint64_t *safe, uint32_t *n_found)
{
    guard_result r;
    bool held = true;
    guard_feed(s, worker, line, strlen(line), &r);
    for (uint32_t i = 0; i < r.n_findings; i++) held &= r.findings[i].line_begin >= *safe;
    *n_found += r.n_findings;
    *safe = r.safe;
    return held;
}

/* It is held until the function is there, and no longer. */
static void check_waits(const char *helper, bool weak)
{
    guard_stream *s;
    uint64_t safe = 0;
    uint32_t n = 0;
    guard_stream_config config = {.form = GUARD_CODE, .language = GUARD_JAVA};
    TEST_CHECK(guard_stream_open(&s, rules, &config, NULL) == 0);
    TEST_CHECK(feed_line(s, uses_below, &safe, &n) && safe == strlen(uses_below));
    TEST_CHECK(feed_line(s, used_below, &safe, &n) && safe == strlen(uses_below) && !n);
    TEST_CHECK(feed_line(s, "        s.close();\n    }\n", &safe, &n));
    TEST_CHECK(safe == strlen(uses_below) && !n);
    TEST_CHECK(feed_line(s, helper, &safe, &n));
    TEST_CHECK_THAT(n == weak && safe > strlen(uses_below), "%u findings: %s", n, helper);
    guard_stream_close(&s);
}

static void test_waits(void)
{
    if (!guard_has_grammar(GUARD_JAVA)) {
        TEST_SKIP("findings that wait for what comes: this build has no grammar of Java");
        return;
    }
    check_waits("    String g(String x) {\n        return x.trim();\n    }\n", true);
    check_waits("    String g(String x) {\n        return \"a\";\n    }\n", false);
    /* The wait for a missing function is bounded; then the line is judged without it. */
    guard_stream *s;
    uint64_t safe = 0, fed = strlen(uses_below) + strlen(used_below);
    uint32_t n = 0;
    guard_stream_config config = {.form = GUARD_CODE, .language = GUARD_JAVA};
    TEST_CHECK(guard_stream_open(&s, rules, &config, NULL) == 0);
    TEST_CHECK(feed_line(s, uses_below, &safe, &n) && feed_line(s, used_below, &safe, &n));
    while (!n && fed < 2 * GUARD_DEFERRED_BYTES) {
        static const char more[] = "        s.clearWarnings();\n";
        TEST_CHECK(feed_line(s, more, &safe, &n));
        fed += strlen(more);
    }
    TEST_CHECK(n == 1 && fed - strlen(uses_below) <= GUARD_DEFERRED_BYTES + 64);
    TEST_CHECK(safe == fed);
    guard_stream_close(&s);
}


static void test_context(void)
{
    guard_stream *s;
    guard_result r;
    cerium_error err;
    if (!guard_has_grammar(GUARD_PYTHON)) {
        TEST_SKIP("text around a completion: this build has no grammar of Python");
        return;
    }
    guard_stream_config config = {.form = GUARD_CODE, .language = GUARD_PYTHON};
    CHECK(guard_stream_open(&s, rules, &config, &err) == CERIUM_OK);
    guard_context(s, worker, VIEW("from subprocess import run as go\neval(x)\ndef f(n):\n"));
    view text = VIEW("    go('ls ' + n, shell=True)\n");
    guard_feed(s, worker, text.ptr, text.len, &r);
    TEST_CHECK(r.n_findings == 1 && r.findings[0].begin == 4 && r.findings[0].line == 1);
    guard_stream_close(&s);
}

static void test_allowed(void)
{
    if (!guard_has_grammar(GUARD_PYTHON)) {
        TEST_SKIP("findings that are allowed: this build has no grammar of Python");
        return;
    }
    check_nothing(GUARD_CODE, GUARD_PYTHON,
                  "def f(x): eval(x)  # cerium: allow py-code-eval reviewed, x is ours\n");
    check_nothing(GUARD_CODE, GUARD_PYTHON,
                  "# cerium: allow py-code-eval reviewed, x is ours\ndef f(x): eval(x)\n");
    check_found(GUARD_CODE, GUARD_PYTHON, "def f(x): eval(x)  # cerium: allow py-code-eval\n",
                "code", "eval(x)");
    check_found(GUARD_CODE, GUARD_PYTHON,
                "def f(x): eval(x)  # cerium: allow py-temp reviewed, x is ours\n", "code",
                "eval(x)");
}

/* Hostile streams: held bytes and kept state stay bounded. */
static void check_bounded(guard_form form, guard_language language, const char *head,
                          const char *unit, size_t n_bytes)
{
    char *text = memory_alloc(n_bytes + 256);
    size_t len = strlen(head), n = strlen(unit);
    CHECK(text && n);
    memcpy(text, head, len);
    while (len + n < n_bytes) {
        memcpy(text + len, unit, n);
        len += n;
    }
    long live = memory_live();
    found f = scan(form, language, (view){text, len}, 0, 4);
    TEST_CHECK(memory_live() == live);
    TEST_CHECK(f.orderly);
    TEST_CHECK_THAT(f.held_max <= GUARD_LINE_BYTES_MAX + 256, "%llu bytes held: %s",
                    (unsigned long long)f.held_max, unit);
    memory_free(text);
}

/* No line of any form is held without bound: the part beyond the maximal line length is
 * judged and released. */
static void test_held_bytes(void)
{
    static const struct {
        guard_form form;
        const char *begin; /* the text before, and the line's beginning */
    } lines[] = {
        {GUARD_ANSWER, "--- a/x.py\n+++ "},
        {GUARD_ANSWER, "--- a/x.py\n+++ b/x.py\n@@ "},
        {GUARD_ANSWER, "--- a/x.py\n+++ b/x.py\n@@ -1 +1 @@\nIndex: "},
        {GUARD_ANSWER, "--- a/x.py\n+++ b/x.py\n@@ -1 +1 @@\n-"},
        {GUARD_ANSWER, "--- a/x.py\n+++ b/x.py\n@@ -1 +1 @@\n+"},
        {GUARD_ANSWER, "diff --git a/x.py b/x.py\nrename to "},
        {GUARD_ANSWER, "*** Begin Patch\n*** Delete File: "},
        {GUARD_ANSWER, "*** Begin Patch\n*** Add File: "},
        {GUARD_ANSWER, "*** Begin Patch\n*** Update File: x.py\n*** Move to: "},
        {GUARD_ANSWER, "*** Begin Patch\n*** "},
        {GUARD_ANSWER, "```diff\n--- a/x.py\n+++ "},
        {GUARD_ANSWER, "```diff\n```"},
        {GUARD_ANSWER, "```"},
        {GUARD_ANSWER, "```python\n```"},
        {GUARD_ANSWER, "```python\nx = "},
        {GUARD_ANSWER, ""},
        {GUARD_CODE, "x = "},
        {GUARD_JSON, "{\"path\": \"x.py\", \"content\": \"x = "},
        {GUARD_JSON, "{\"path\": \""},
        {GUARD_JSON, "{\""},
        {GUARD_JSON, "{\"input\": \"*** Begin Patch\\n*** Add File: "},
        {GUARD_JSON, "{\"input\": \"--- a/x.py\\n+++ "},
        {GUARD_TURN, "<parameter=path>\nx.py\n</parameter>\n<parameter=content>\n</parameter>"},
        {GUARD_TURN, "<parameter=path>\n"},
        {GUARD_TURN, "<parameter="},
        {GUARD_TURN, "{\"arguments\": {\"input\": \"*** Begin Patch\\n*** Delete File: "},
    };
    static const char *const contents[] = {"% ", "a", " ",       "(",       "'",
                                           "`",  "+", "\\u00e9", "\xc3\xa9"};
    enum { LINE = 24000, HELD_MAX = GUARD_LINE_BYTES_MAX + 76 };
    for (size_t i = 0; i < ARRAY_LEN(lines); i++)
        for (size_t k = 0; k < ARRAY_LEN(contents); k++) {
            guard_stream *s;
            guard_result r;
            guard_stream_config config = {.form = lines[i].form};
            CHECK(guard_stream_open(&s, rules, &config, NULL) == CERIUM_OK);
            guard_feed(s, worker, lines[i].begin, strlen(lines[i].begin), &r);
            uint64_t fed = strlen(lines[i].begin), most = 0;
            size_t len = strlen(contents[k]);
            for (; fed < LINE; fed += len) {
                guard_feed(s, worker, contents[k], len, &r);
                if (fed + len - r.safe > most) most = fed + len - r.safe;
            }
            TEST_CHECK_THAT(most <= HELD_MAX, "%s%s...: %llu bytes held", lines[i].begin,
                            contents[k], (unsigned long long)most);
            guard_stream_close(&s);
        }
}

/* ---- parsed lines ---- */

/* Number of lines that the parser saw. */
static uint32_t parsed(guard_language language, const char *text)
{
    guard_stream *s;
    guard_result r;
    guard_stream_config config = {.form = GUARD_CODE, .language = language};
    CHECK(guard_stream_open(&s, rules, &config, NULL) == CERIUM_OK);
    guard_feed(s, worker, text, strlen(text), &r);
    uint32_t n = r.n_judged;
    guard_stream_close(&s);
    return n;
}

/* A line is parsed for a credential if a whole word is the name of one. */
static void test_parsed(void)
{
    if (!guard_has_grammar(GUARD_C) || !guard_has_grammar(GUARD_PYTHON)) {
        TEST_SKIP("what is parsed: this build has no grammars");
        return;
    }
    TEST_CHECK(parsed(GUARD_C, "uint32_t n_tokens = passed + keyboard;\n") == 0);
    TEST_CHECK(parsed(GUARD_PYTHON, "passenger = 5\nmonkeys = tokenize_all(1)\n") == 0);
    TEST_CHECK(parsed(GUARD_C, "const char *api_key = a;\n") == 1);
    /* C: none of these has a call, a literal, or a holder of one. */
    TEST_CHECK(parsed(GUARD_C, "f(a, err);\nreturn err;\nuint32_t token;\nx = token_none;\n") == 0);
    TEST_CHECK(parsed(GUARD_C, "/* system(a) */\n// gets(a)\n/*\n * system(a)\n */\n") == 0);
    TEST_CHECK(parsed(GUARD_CPP, "/* system(a) */\n// gets(a)\n/*\n * system(a)\n */\n") == 0);
    /* These are. */
    TEST_CHECK(parsed(GUARD_C, "/* a */ system(b);\n") == 1);
    TEST_CHECK(parsed(GUARD_C, "/*\n * a */ system(b);\n") == 1);
    TEST_CHECK(parsed(GUARD_C, "/*\n// */ system(b);\n") == 1);
    TEST_CHECK(parsed(GUARD_C, "/* a */ system(b); /* c */\n") == 1);
    TEST_CHECK(parsed(GUARD_C, "run = system;\n") == 1);
    TEST_CHECK(parsed(GUARD_C, "run = (system);\n") == 1);
    TEST_CHECK(parsed(GUARD_CPP, "run = std::system;\n") == 1);
    TEST_CHECK(parsed(GUARD_CPP, "using std::system;\n") == 1);
    TEST_CHECK(parsed(GUARD_PYTHON, "a = {'db-password': b}\n") == 1);
    view passed_on = VIEW("a = 'Tr0ub4dor&3'\npassword = a\n");
    found f = scan(GUARD_CODE, GUARD_PYTHON, passed_on, 0, 1);
    TEST_CHECK_THAT(f.n == 1 && f.list[0].line == 2, "%u findings", f.n);
}

static void test_adversarial(void)
{
    check_bounded(GUARD_CODE, GUARD_PYTHON, "x = \"", "abcdefgh", 1 << 20);
    check_bounded(GUARD_CODE, GUARD_PYTHON, "eval(", "[", 1 << 16);
    check_bounded(GUARD_CODE, GUARD_JAVASCRIPT, "", "eval(", 1 << 15);
    check_bounded(GUARD_CODE, GUARD_C, "", "system(x) ", 1 << 15);
    check_bounded(GUARD_ANSWER, GUARD_TEXT, "```python\n", "``\n", 1 << 18);
    check_bounded(GUARD_ANSWER, GUARD_TEXT, "", "`", 1 << 16);
    check_bounded(GUARD_ANSWER, GUARD_TEXT, "", "word ", 1 << 18);
    check_bounded(GUARD_JSON, GUARD_TEXT, "", "[{", 1 << 16);
    check_bounded(GUARD_JSON, GUARD_TEXT, "{\"content\": \"", "\\n\\u0065val(", 1 << 16);
    check_bounded(GUARD_CODE, GUARD_RUBY, "", "<<A\n", 1 << 15);
    check_bounded(GUARD_CODE, GUARD_PHP, "", "<?php ?>", 1 << 16);
}

static void test_language(void)
{
    TEST_CHECK(language_detect(VIEW("from a.b import c\n\nc.")) == GUARD_PYTHON);
    TEST_CHECK(language_detect(VIEW("x from 'm'\nconst y = 1\n")) == GUARD_JAVASCRIPT);
    TEST_CHECK(language_detect(VIEW("Goods from abroad import duties.\n")) == GUARD_TEXT);
    TEST_CHECK(language_detect(VIEW("from 'm' import x\nfrom import x\n")) == GUARD_TEXT);
}

static void test_small(void)
{
    guard_stream *s;
    cerium_error err;
    guard_stream_config config = {.form = GUARD_ANSWER};
    CHECK(guard_stream_open(&s, rules, &config, &err) == CERIUM_OK);
    TEST_CHECK(guard_stream_bytes(s) < 64 << 10);
    guard_stream_close(&s);
    TEST_CHECK(s == NULL);
}

#define RULE "language: python\nrules:\n  - id: a\n"
#define REST "    cwe: 1\n    message: m\n    idiom: i\n    bad: [x]\n    good: [y]\n"

static void test_bad_rules(void)
{
    static const struct {
        const char *text, *want;
    } bad[] = {
        {"rules: []\n", "f:1: begin with 'language"},
        {"language: cobol\n", "f:1: 'cobol' is not a language"},
        {"language: python\nfoo: 1\n", "f:2: a file of rules has no 'foo'"},
        {"language: python\nrules: [\n", "f:3: not YAML"},
        {RULE "    call: [b]\n", "f:3: a needs cwe"},
        {RULE REST, "f:3: a needs a trigger"},
        {RULE REST "    call: [b]\n    line: x\n", "f:10: a rule has one kind"},
        {RULE REST "    line: '('\n", "f:9: the expression"},
        {RULE REST "    line: x\n", "f:3: a needs literals"},
        {RULE REST "    call: ['b{c']\n", "f:9: 'b{c' is not a pattern"},
        {RULE REST "    call: [b]\n    level: high\n", "f:10: 'high' is not known"},
        {RULE REST "    call: [b]\n    arg: [99]\n", "f:10: there are no more than 32"},
        {RULE REST "    call: [b]\n    if: [{arg: 0, are: x}]\n", "f:10: a condition has no 'are'"},
        {RULE REST "    call: [b]\n  - id: a\n" REST "    call: [b]\n", "f:10: the id a is also"},
        {RULE "    call: [b]\n    cwe: 1\n    message: m\n    idiom: i\n", "f:3: a needs tests"},
        {RULE REST "    call: [b]\n    sinks: [c]\n", "f:10: 'sinks' is not known"},
        {RULE REST "    call: [b]\n    precision: 3\n", "f:10: write '3 of 42'"},
        {RULE REST "    call: [b]\n    precision: {source: 3 of 2}\n", "f:10: write '3 of 42'"},
        {RULE REST "    call: [b]\n    precision: {some: 1 of 2}\n", "f:10: 'some' is not known"},
    };
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        rule_set set;
        cerium_error err;
        CHECK(rules_begin(&set) == CERIUM_OK);
        int status = rules_read(&set, "f", view_of(bad[i].text), &err);
        TEST_CHECK_THAT(status == CERIUM_ERR_FORMAT && strstr(err.message, bad[i].want) != NULL,
                        "%s: %s", status ? err.message : "read", bad[i].text);
        rules_close(&set);
    }
}

/* Readings decide what is probably wrong; where they are too few, how far the value is from
 * constant. */
static void test_unlikely(void)
{
    static const struct {
        const char *precision;
        bool want[RULE_TIERS]; /* constant, unknown, parameter, source */
    } cases[] = {
        {"", {false, true, true, false}},
        {"    precision: 2 of 9\n", {false, true, true, false}},
        {"    precision: 2 of 10\n", {true, true, true, false}},
        {"    precision: {all: 2 of 30, source: 0 of 10, constant: 5 of 10}\n",
         {false, true, true, true}},
        {"    precision: {all: 2 of 30, source: 1 of 40, constant: 4 of 10}\n",
         {true, true, true, false}},
        {"    precision: {all: 9 of 30, parameter: 9 of 10, unknown: 0 of 9}\n",
         {true, true, false, false}},
        {"    precision: {all: 4 of 18, constant: 4 of 8, unknown: 0 of 10}\n",
         {false, true, true, false}},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        char text[512];
        rule_set set;
        cerium_error err;
        snprintf(text, sizeof text, RULE REST "    call: [b]\n%s", cases[i].precision);
        CHECK(rules_begin(&set) == CERIUM_OK);
        CHECK(rules_read(&set, "f", view_of(text), &err) == CERIUM_OK);
        for (int l = 0; l < RULE_TIERS; l++)
            TEST_CHECK_THAT(rule_is_unlikely(&set.list[0], (taint)l) == cases[i].want[l],
                            "case %zu, value %d", i, l);
        rules_close(&set);
    }
}

/* The key of an example, in documentation and comments, is none that is in use. */
static void test_examples_of_keys(void)
{
    static const struct {
        guard_language language;
        const char *before, *after;
        bool example;
    } cases[] = {
        {GUARD_PYTHON, "def f():\n    \"\"\"Make it so:\n\n    ", "\n    \"\"\"\n    return 1\n",
         true},
        {GUARD_PYTHON, "def f():\n    ", "\n    return 1\n", false},
        {GUARD_PYTHON, "x = 1 # ", "\n", true},
        {GUARD_PYTHON, "def f():\n    \"\"\"Make it so.\"\"\"\n    ", "\n", false},
        {GUARD_JAVASCRIPT, "/*\n * ", "\n */\nf();\n", true},
        {GUARD_JAVASCRIPT, "/* a comment */\nconst ", ";\n", false},
        {GUARD_PHP, "<p>Hello</p>\n<?php\n/**\n * ", "\n */\nf();\n", true},
        {GUARD_PHP, "<?php\n$", ";\n", false},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        char text[256];
        int n = snprintf(text, sizeof text, "%sapi_key = \"9f86d081884c7d659a2feaa0c55ad015\"%s",
                         cases[i].before, cases[i].after);
        view t = {text, (size_t)n};
        if (!guard_has_grammar(cases[i].language)) continue;
        check_cuts(GUARD_CODE, cases[i].language, t, true);
        found f = scan(GUARD_CODE, cases[i].language, t, 0, 0);
        TEST_CHECK_THAT(f.n == 1, "%u: %s", f.n, text);
        if (f.n != 1) continue;
        TEST_CHECK_THAT(f.list[0].unlikely == cases[i].example, "%s", text);
        TEST_CHECK_THAT(f.list[0].severity == (cases[i].example ? GUARD_WARN : GUARD_BLOCK), "%s",
                        text);
    }
}

/* Every allocation of ours fails in turn: an error, and nothing left over. */
static void test_no_memory(void)
{
    long live = memory_live();
    rule_set set;
    cerium_error err;
    for (long n = 0;; n++) {
        memory_fail_at(n);
        int status = rules_begin(&set);
        if (!status) {
            status = rules_read(&set, "f", view_of(RULE REST "    call: ['{b,c,d}.e']\n"), &err);
            rules_close(&set);
        }
        memory_fail_at(-1);
        TEST_CHECK(memory_live() == live);
        if (!status) break;
        TEST_CHECK(status == CERIUM_ERR_MEMORY);
    }
    for (long n = 0; n < 12; n++) {
        guard_worker *w = NULL;
        guard_stream *s = NULL;
        memory_fail_at(n);
        int status = guard_worker_open(&w, rules, &err);
        guard_stream_config config = {.form = GUARD_CODE};
        if (!status) status = guard_stream_open(&s, rules, &config, &err);
        memory_fail_at(-1);
        if (status) TEST_CHECK(status == CERIUM_ERR_MEMORY);
        guard_stream_close(&s);
        guard_worker_close(&w);
        TEST_CHECK(memory_live() == live);
    }
}

int main(void)
{
    cerium_error err;
    if (guard_open(&rules, "rules", &err)) {
        printf("  FAIL %s\n", err.message);
        return 1;
    }
    CHECK(guard_worker_open(&worker, rules, &err) == CERIUM_OK);
    TEST_RUN(test_rules);
    TEST_RUN(test_every_cut);
    TEST_RUN(test_wrapped);
    TEST_RUN(test_context);
    TEST_RUN(test_waits);
    TEST_RUN(test_allowed);
    TEST_RUN(test_held_bytes);
    TEST_RUN(test_parsed);
    TEST_RUN(test_adversarial);
    TEST_RUN(test_language);
    TEST_RUN(test_small);
    TEST_RUN(test_bad_rules);
    TEST_RUN(test_unlikely);
    TEST_RUN(test_examples_of_keys);
    TEST_RUN(test_no_memory);
    guard_worker_close(&worker);
    guard_close(&rules);
    return unit_report("guard");
}
