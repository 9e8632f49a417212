/* test_guard_parts.c - parts of the watchdog on their own: sizes of C's buffers, outlines of
 * functions, the memory of a parse. */
#include "guard/buffers.h"
#include "guard/outline.h"
#include "guard/tree.h"
#include "guard/tree_memory.h"

#include "unit.h"

static void test_buffer_number(void)
{
    static const struct {
        const char *text;
        long want; /* -1: not known */
    } cases[] = {
        {"10", 10}, {"10 + 1", 11}, {"(10+1)*sizeof(char)", 11}, {"sizeof(b)", 20},
        {"sizeof b - 1", 19}, {"sizeof(char) * 3", 3}, {"n", -1}, {"10 - 11", -1}, {"", -1},
        {"sizeof(int)", -1}, {"strlen(s)", -1}, {"((((((((((1))))))))))", -1}, {"10;", -1},
        {"99999999999999999999", -1}, {"1000000 * 1000000", -1}, {"sizeof", -1}, {"(", -1},
    };
    view text = VIEW("char b[20]; int n = 3;");
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        uint64_t n = 0;
        bool known = buffer_number(text, view_of(cases[i].text), &n);
        TEST_CHECK_THAT(known ? (long)n == cases[i].want : cases[i].want == -1, "%s: %ld",
                        cases[i].text, known ? (long)n : -1L);
    }
}

static void test_buffer_bytes(void)
{
    static const struct {
        const char *text, *name;
        long want;
    } cases[] = {
        {"char b[10];", "b", 10},
        {"unsigned char b[4 + 4] = {0};", "b", 8},
        {"char *b = (char *)malloc(50);", "b", 50},
        {"char *b; b = new char[7];", "b", 7},
        {"char b[10]; { char b[20]; x", "b", 20}, /* the last one counts */
        {"char b[sizeof(b)];", "b", -1},          /* refers to itself: must end */
        {"char b[sizeof(a)]; char a[sizeof(b)];", "a", -1},
        {"int b[10];", "b", -1},
        {"char b[2][10];", "b", -1},
        {"char ab[10];", "b", -1},
        {"x[3] = 1;", "x", -1},
        {"b = malloc(n);", "b", -1},
        {"", "b", -1},
        {"char b[", "b", -1},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        uint64_t n = 0;
        bool known = buffer_bytes(view_of(cases[i].text), view_of(cases[i].name), &n);
        TEST_CHECK_THAT(known ? (long)n == cases[i].want : cases[i].want == -1, "%s: %ld",
                        cases[i].text, known ? (long)n : -1L);
    }
}

/* The parts of text that a parse skips, as text: lines are logical, depth counts braces. */
static void check_holes(guard_language language, const char *text, const char *want)
{
    outline o = {0};
    outline_hole holes[OUTLINE_DONE_MAX];
    view t = view_of(text);
    unsigned depth = 0, before;
    char got[512] = "";
    size_t n_got = 0;
    for (size_t at = 0, end; at < t.len; at = end) {
        before = depth;
        for (end = at; end < t.len && t.ptr[end] != '\n'; end++)
            depth += (unsigned)(t.ptr[end] == '{') - (unsigned)(t.ptr[end] == '}');
        end += end < t.len;
        outline_line(&o, language, (view){t.ptr, end}, (uint32_t)at, (uint32_t)end, before, depth);
    }
    uint32_t n = outline_holes(&o, language, t, holes);
    for (uint32_t i = 0; i < n; i++) {
        size_t len = holes[i].end - holes[i].begin;
        if (n_got + len >= sizeof got) break;
        memcpy(got + n_got, t.ptr + holes[i].begin, len);
        n_got += len;
    }
    got[n_got] = 0;
    TEST_CHECK_THAT(!strcmp(got, want), "%s\nleft out: %s", text, got);
}

static void test_outline(void)
{
    check_holes(GUARD_PYTHON, "def a(x):\n    y\n    z\ndef b(x):\n    w\n", "    y\n    z\n");
    check_holes(GUARD_PYTHON, "def a(x):\n    y\ndef b(x):\n    a(x)\n", "");
    check_holes(GUARD_PYTHON, "def a(x):\n    y\ndef b(x):\n    o.a(x)\n", "    y\n");
    check_holes(GUARD_PYTHON, "def a(x):\n    y\ndef b(x):\n    self.a(x)\n", "");
    check_holes(GUARD_PYTHON, "class A:\n    def a(x):\n        y\n    def b(x):\n        w\n",
                "        y\n");
    check_holes(GUARD_PYTHON, "def a(x):\n    y\n# end\nz = 1\n", "    y\n# end\n");
    check_holes(GUARD_RUBY, "def a(x)\n  y\nend\ndef b\n  w\n", "  y\n");
    check_holes(GUARD_C, "int a(int x) {\n y;\n}\nint b(void) {\n w;\n", " y;\n");
    check_holes(GUARD_C, "int b(void) {\n if (x) {\n  y;\n }\n z;\n", "");
    check_holes(GUARD_C, "int a(int x) {\n y;\n}\nint c(void) {\n a(1);\n}\nint b(void) {\n c();\n",
                "");
    check_holes(GUARD_GO, "func (t *T) a(x int) {\n y\n}\nfunc b() {\n new(T).a(1)\n", "");
    check_holes(GUARD_JAVASCRIPT, "const a = (x) => {\n y;\n};\nfunction b() {\n w;\n", " y;\n");
    check_holes(GUARD_JAVASCRIPT, "const a = (x) => {\n y;\n};\nfunction b() {\n a(w);\n", "");
}

/* Dropped text drops its functions, and the others move with their text. */
static void test_outline_cut(void)
{
    outline o = {0};
    outline_hole holes[OUTLINE_DONE_MAX];
    view t = VIEW("def a(x):\n    y\ndef b(x):\n    w\nz\n");
    outline_line(&o, GUARD_PYTHON, t, 0, 10, 0, 0);
    outline_line(&o, GUARD_PYTHON, t, 10, 16, 0, 0);
    outline_line(&o, GUARD_PYTHON, t, 16, 26, 0, 0);
    outline_line(&o, GUARD_PYTHON, t, 26, 32, 0, 0);
    outline_line(&o, GUARD_PYTHON, t, 32, 34, 0, 0);
    outline_cut(&o, 4, 16);
    view rest = VIEW("im\n\ndef b(x):\n    w\nz\n");
    TEST_CHECK(outline_holes(&o, GUARD_PYTHON, rest, holes) == 1);
    TEST_CHECK(holes[0].begin == 14 && holes[0].end == 20);
}

static void take_all(void *arg)
{
    for (size_t *n = arg;; ++*n) {
        TSParser *p = ts_parser_new();
        TEST_CHECK(p != NULL);
    }
}

static void take_some(void *arg)
{
    ts_parser_delete(ts_parser_new());
    *(bool *)arg = true;
}

/* An exhausted arena ends the parse and nothing else; the next parse has all of it again. */
static void test_tree_memory(void)
{
    tree_memory m;
    size_t n = 0;
    bool ran = false;
    long live = memory_live();
    CHECK(roles_open() == CERIUM_OK);
    CHECK(tree_memory_open(&m) == CERIUM_OK);
    TEST_CHECK(!tree_memory_run(&m, take_all, &n) && n > 10);
    TEST_CHECK(tree_memory_run(&m, take_some, &ran) && ran);
    tree_memory_close(&m);
    TEST_CHECK(memory_live() == live);
}

int main(void)
{
    TEST_RUN(test_buffer_number);
    TEST_RUN(test_buffer_bytes);
    TEST_RUN(test_outline);
    TEST_RUN(test_outline_cut);
    TEST_RUN(test_tree_memory);
    return unit_report("guard_parts");
}
