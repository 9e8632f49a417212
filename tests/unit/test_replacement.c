/* test_replacement.c - the text in place of a weak line and after it: what is accepted, what
 * is rewritten, and when that ends; and which lines can begin code. */
#include "../guard/forced.h"

/* A text that the model is forced to write. */
static cerium_watch_order say(watch *w, const char *text, run *r)
{
    int32_t tokens[TOKENS_MAX];
    watch_result out = {.order = CERIUM_WATCH_GO};
    size_t n = encode(text, tokens, TOKENS_MAX);
    memset(r, 0, sizeof *r);
    for (size_t i = 0; i < n && out.order == CERIUM_WATCH_GO; i++) {
        size_t len;
        const char *piece = cerium_token_bytes(engine, tokens[i], &len);
        cerium_step step = {.n_tokens = 1, .tokens = {tokens[i]}, .text = piece, .text_len = len,
                            .text_ends = {(uint32_t)len}};
        TEST_CHECK(watch_step(w, &step, NULL, 0, &out) == 0);
        take(r, &out);
    }
    return out.order;
}

static const char safe[] = "import subprocess\nsubprocess.call([\"ls\", name])\n";

static watch *open_weak(guard_form form, const char *before, bool recorded)
{
    static run r;
    watch *w = NULL;
    char text[256];
    watch_policy p = watch_policy_strict();
    watch_config config = {.engine = engine, .guard = rules, .worker = worker, .policy = &p,
                           .form = form, .recorded = recorded, .n_recorded = 2,
                           .language = form == GUARD_CODE ? GUARD_PYTHON : GUARD_TEXT};
    TEST_CHECK(watch_open(&w, &config, NULL) == 0);
    snprintf(text, sizeof text, "%simport os\nos.system('ls ' + name)\n", before);
    TEST_CHECK(say(w, text, &r) == CERIUM_WATCH_RETRY && r.n_taken == 1);
    return w;
}

/* Only code is a correction: not a remark on the note, nor a line that does not parse. */
static void test_replies(void)
{
    static run r;
    static const char *const declined[] = {
        "# CWE-78: instead\n", "\nos.listdir())\n\n", "# so\n", "if (a) {\n", "os.system(]\n",
        "for (;;)\n", "static int\n", "x = 'ls' 'ls' 'ls' 'ls' 'ls' 'ls' 'ls' 'ls' 'ls' 'ls' 'ls'",
        "}\n", "a b c\n"};
    watch *w = open_weak(GUARD_CODE, "", false);
    watch_plan plan;
    for (size_t i = 0; i < ARRAY_LEN(declined); i++) {
        watch_retry(w, &plan);
        TEST_CHECK(plan.corrects && plan.resume.n_note > 0 && plan.resume.n_avoid > 0);
        TEST_CHECK_THAT(say(w, declined[i], &r) == CERIUM_WATCH_RETRY && !r.len, "%s", declined[i]);
        TEST_CHECK(!r.n_corrected && !r.n_taken);
    }
    /* After this many tries a line is inserted. */
    TEST_CHECK(say(w, "os.listdir())\n", &r) == CERIUM_WATCH_RETRY && r.n_replaced == 1);
    TEST_CHECK_THAT(!strcmp(r.text, safe), "%s", r.text);
    watch_retry(w, &plan);
    TEST_CHECK(!plan.corrects && !plan.resume.n_note && !plan.resume.n_avoid);
    TEST_CHECK(say(w, "os.remove(name)\n", &r) == CERIUM_WATCH_GO);
    TEST_CHECK(r.len == strlen("os.remove(name)\n"));
    watch_close(&w);
}

/* Words of the note are never released; if there is nothing else, a line is inserted. */
static void test_words_of_notes(void)
{
    static run r;
    watch *w = open_weak(GUARD_CODE, "", false);
    for (int i = 0; i < 10; i++)
        TEST_CHECK(say(w, i % 2 ? "f('CWE-78')\n" : "f()  # A shell runs text that has\n", &r) ==
                       CERIUM_WATCH_RETRY && !r.len);
    TEST_CHECK(say(w, "f()  # CWE-78\n", &r) == CERIUM_WATCH_RETRY && r.n_replaced == 1);
    TEST_CHECK(!strcmp(r.text, safe) && strstr(r.text, "f()") == NULL);
    watch_close(&w);
}

/* The end of the block, of the fence or of the answer does not replace the weak line:
 * the rule's safe form is inserted. */
static void test_holes(void)
{
    static run r;
    watch_result out;
    static const char *const closes[] = {"```\n", "\n```\n\nThat is all.\n", "\n\n```\n"};
    for (size_t i = 0; i < ARRAY_LEN(closes); i++) {
        watch *w = open_weak(GUARD_ANSWER, "```python\n", false);
        TEST_CHECK_THAT(say(w, closes[i], &r) == CERIUM_WATCH_RETRY && !r.len, "%s", closes[i]);
        TEST_CHECK(!r.n_corrected);
        TEST_CHECK(watch_finish(w, &out) == 0 && out.n_findings == 1);
        TEST_CHECK(out.findings[0].action == CERIUM_FINDING_REPLACED);
        TEST_CHECK_THAT(view_equal(out.text, view_of(safe)), "%.*s", (int)out.text.len,
                        out.text.ptr);
        watch_close(&w);
    }
}

/* First, the line is forbidden up to its fault. */
static void test_avoided(void)
{
    static run r;
    int32_t tokens[64];
    watch_plan plan;
    watch *w = open_weak(GUARD_CODE, "", false);
    TEST_CHECK(say(w, "os.listdir(name)\n", &r) == CERIUM_WATCH_RETRY && r.n_corrected == 1);
    TEST_CHECK(say(w, "total = 12 for\n", &r) == CERIUM_WATCH_RETRY && !r.len);
    watch_retry(w, &plan);
    size_t n = encode("total = 12 for", tokens, 64);
    TEST_CHECK(!plan.corrects && !plan.resume.n_note);
    TEST_CHECK_THAT(plan.resume.n_avoid == n, "%zu of %zu", plan.resume.n_avoid, n);
    TEST_CHECK(!memcmp(plan.resume.avoid, tokens, n * sizeof *tokens));
    watch_close(&w);
}

/* A bad line after a corrected one: in pure code the answer ends, otherwise the line stays. */
static void test_behind(void)
{
    static run r;
    static const char bad[] = "if (a) { return; }\n";
    for (int fenced = 0; fenced < 2; fenced++) {
        watch *w = fenced ? open_weak(GUARD_ANSWER, "```python\n", false)
                          : open_weak(GUARD_CODE, "", false);
        TEST_CHECK(say(w, "os.listdir(name)\n", &r) == CERIUM_WATCH_RETRY && r.n_corrected == 1);
        TEST_CHECK(say(w, "\n# well\nlist = []\n", &r) == CERIUM_WATCH_GO && r.len == 18);
        for (int i = 0; i < 5; i++)
            TEST_CHECK(say(w, bad, &r) == CERIUM_WATCH_RETRY && !r.len);
        cerium_watch_order order = say(w, bad, &r);
        TEST_CHECK(order == (fenced ? CERIUM_WATCH_GO : CERIUM_WATCH_END));
        TEST_CHECK(r.len == (fenced ? strlen(bad) : 0) && !r.n_blocked && r.ended == !fenced);
        TEST_CHECK(watch_measure(w).n_discarded > 5 * 4);
        watch_close(&w);
    }
}

/* Recorded text is released unchanged once a line has replaced the weak one. */
static void test_recorded(void)
{
    static run r;
    watch *w = open_weak(GUARD_CODE, "", true);
    TEST_CHECK(say(w, "os.listdir())\n", &r) == CERIUM_WATCH_RETRY && !r.n_corrected);
    TEST_CHECK(say(w, "os.listdir()\n", &r) == CERIUM_WATCH_RETRY && r.n_corrected == 1);
    TEST_CHECK(say(w, "os.listdir())\n", &r) == CERIUM_WATCH_GO);
    TEST_CHECK(r.len == strlen("os.listdir())\n"));
    watch_close(&w);
}

/* ---- lines that can begin code ---- */

/* Whether the last line of the text is found to be invalid, and where. */
static void check_line(guard_language language, const char *text, bool fits, const char *wrong)
{
    guard_stream *s;
    guard_result out;
    uint32_t n_good = 0;
    guard_stream_config config = {.form = GUARD_CODE, .language = language};
    TEST_CHECK(guard_stream_open(&s, rules, &config, NULL) == 0);
    TEST_CHECK(guard_syntax_check(s, worker, &n_good));
    guard_feed(s, worker, text, strlen(text), &out);
    guard_syntax syntax = guard_syntax_check(s, worker, &n_good);
    TEST_CHECK_THAT((syntax != GUARD_SYNTAX_BROKEN) == fits, "%s", text);
    bool there = fits || !strncmp(text + n_good, wrong, strlen(wrong));
    TEST_CHECK_THAT(there, "%s: %u", text, n_good);
    guard_stream_close(&s);
}

/* Each line of a valid program is accepted. */
static void check_program(guard_language language, const char *text)
{
    char part[1024];
    for (const char *end = text; (end = strchr(end, '\n')) != NULL;) {
        end++;
        snprintf(part, sizeof part, "%.*s", (int)(end - text), text);
        check_line(language, part, true, "");
    }
}

static void test_programs(void)
{
    check_program(GUARD_PYTHON, "import os\n\n@route('/')\ndef f(a,\n      b=1):\n    '''Says\n\n"
                                "    so.'''\n    try:\n        x = [\n            1,\n        ]\n"
                                "        if a:\n            # why\n            return x[0] + \\\n"
                                "                2\n        elif b: pass\n    except OSError:\n"
                                "        raise\n    finally:\n        pass\n\nclass A:\n"
                                "\tdef g(self):\n\t\twith a as b:\n\t\t\tyield b\n");
    check_program(GUARD_C, "#include <a.h>\n#if A\n#define B(x) \\\n    (x)\nstatic int\nf(int a,\n"
                           "  char *b)\n{\n#ifdef C\n    if (a)\n        g();\n    else\n"
                           "        do {\n            h(a,\n              b);\n"
                           "        } while (a);\n#endif\n    switch (a) {\n    case 1:\n"
                           "        return 1;\n    default:\n        break;\n    }\n"
                           "    return a -\n        2;\n}\n#endif\n"
                           "enum e {\n    ONE,\n    TWO = 2,\n};\n");
    check_program(GUARD_JAVA, "import a.B;\n\n@Entity\npublic class A extends B\n{\n"
                              "    @Override\n    public int f(int a,\n                 int b)\n"
                              "            throws X\n"
                              "    {\n        try (R r = g()) {\n            throw new X(\n"
                              "                \"a\"\n                    + a);\n        }\n"
                              "        catch (X e) {\n            return () -> {\n"
                              "                h();\n            };\n        } finally {\n"
                              "            k();\n        }\n    }\n}\n");
    check_program(GUARD_JAVASCRIPT, "const a = require('a');\nclass A {\n  f(a, b) {\n    try {\n"
                                    "      return a.map((x) => {\n        return x;\n      })\n"
                                    "        .filter(Boolean);\n    } catch (e) {\n      g({\n"
                                    "        a: 1,\n        b,\n      });\n    }\n  }\n}\n"
                                    "module.exports = { A };\n");
    check_program(GUARD_GO, "package main\n\nimport (\n\t\"fmt\"\n)\n\ntype T struct {\n"
                            "\tA int\n}\n\n"
                            "func f(a int) (int, error) {\n\tif a > 1 {\n\t\tgo func() {\n"
                            "\t\t\tfmt.Println(a)\n\t\t}()\n\t} else {\n\t\treturn g(\n\t\t\ta,\n"
                            "\t\t)\n\t}\n\tswitch a {\n\tcase 1:\n\t}\n\treturn 0, nil\n}\n");
    check_program(GUARD_PHP, "<?php\nnamespace A;\nclass B extends C\n{\n"
                             "    public function f($a)\n"
                             "    {\n        try {\n            $x = [\n                'a' => 1,\n"
                             "            ];\n        } catch (X $e) {\n            return null;\n"
                             "        }\n        foreach ($x as $y) {\n            g($y,\n"
                             "              $a);\n        }\n    }\n}\n");
    check_program(GUARD_RUBY, "class A < B\n  def f(a)\n    if a\n      g do |x|\n        h x\n"
                              "      end\n    elsif b\n      k\n    else\n      l\n    end\n"
                              "    case a\n    when 1\n      m\n    else\n      n\n    end\n"
                              "    x ||= begin\n      o\n    rescue X => e\n      p e\n    end\n"
                              "  end\nend\n");
}

static void test_lines(void)
{
    check_line(GUARD_PYTHON, "a b\nc = 1)\n", true, ""); /* the line before is invalid, too */
    check_line(GUARD_PYTHON, "f(]\nc = 1)\n", false, "]");
    check_line(GUARD_PYTHON, "x = 1 for y in z]\n", false, "for");
    check_line(GUARD_PYTHON, "if (f(a, (list, b)):\n", false, ":");
    check_line(GUARD_PYTHON, "}else {\n", false, "}");
    check_line(GUARD_JAVA, "def f(self, *, a: int) -> str:\n", false, "");
    check_line(GUARD_GO, "static int f(void)\n", false, "");
    check_line(GUARD_RUBY, "def f(self) -> str:\n", false, "");
    check_line(GUARD_TEXT, "so it is, (\n", true, "");
}

/* Lines that are wrong only in their place. */
static void test_places(void)
{
    static const struct {
        guard_language language;
        const char *before, *line;
    } cases[] = {
        {GUARD_PYTHON, "def f():\n    return 1\n", "  return 2\n"},
        {GUARD_PYTHON, "def f():\n    return 1\n", "\treturn 2\n"},
        {GUARD_PYTHON, "try:\n    f()\n", "g()\n"},
        {GUARD_C, "void f(void)\n{\n    g();\n}\n", "}\n"},
        {GUARD_JAVA, "class A {\n    void f() {\n", "    unsigned int x;\n"},
        {GUARD_JAVASCRIPT, "function f() {\n", "    });\n"},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        guard_stream *s;
        guard_result out;
        uint32_t n_good;
        guard_stream_config config = {.form = GUARD_CODE, .language = cases[i].language};
        TEST_CHECK(guard_stream_open(&s, rules, &config, NULL) == 0);
        guard_feed(s, worker, cases[i].before, strlen(cases[i].before), &out);
        TEST_CHECK_THAT(guard_syntax_check(s, worker, &n_good), "%s", cases[i].before);
        guard_feed(s, worker, cases[i].line, strlen(cases[i].line), &out);
        TEST_CHECK_THAT(!guard_syntax_check(s, worker, &n_good), "%s", cases[i].line);
        guard_stream_close(&s);
    }
}

int main(void)
{
    if (!open_forced("models/cerium-line.gguf", 1024)) return 1;
    if (guard_has_grammar(GUARD_PYTHON) && guard_has_grammar(GUARD_C)) {
        TEST_RUN(test_replies);
        TEST_RUN(test_avoided);
        TEST_RUN(test_words_of_notes);
        TEST_RUN(test_behind);
        TEST_RUN(test_holes);
        TEST_RUN(test_recorded);
        TEST_RUN(test_programs);
        TEST_RUN(test_lines);
        TEST_RUN(test_places);
    } else TEST_SKIP("replies: this build has no grammars");
    close_forced();
    return unit_report("replacement");
}
