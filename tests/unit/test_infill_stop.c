/* test_infill_stop.c - where completions end by themselves: with their block, before the line that
 * comes after them, in a loop; the same however their text is cut. */
#include <string.h>

#include "protocol/infill_stop.h"

#include "../random.h"
#include "unit.h"

typedef struct {
    const char *before, *after, *text, *shown;
    infill_stop_end end;
} example;

static void run(infill_stop *h, const char *text, size_t cut, bytes *all)
{
    const size_t n = strlen(text);
    for (size_t i = 0; i < n && !h->end; i += cut)
        TEST_CHECK(!infill_stop_feed(h, (view){text + i, n - i < cut ? n - i : cut}, all));
    TEST_CHECK(!infill_stop_finish(h, all));
}

static void expect(const example *e, uint32_t indent_min, bool is_block)
{
    for (size_t cut = 1; cut <= strlen(e->text); cut++) {
        bytes all = {.max = 10000};
        infill_stop h;
        TEST_CHECK(
            !infill_stop_open(&h, view_of(e->before), view_of(e->after), indent_min, is_block));
        run(&h, e->text, cut, &all);
        TEST_CHECK_THAT(view_equal((view){all.ptr, all.len}, view_of(e->shown)),
                        "cut %zu: \"%.*s\", not \"%s\"", cut, (int)all.len, all.ptr, e->shown);
        TEST_CHECK_THAT(h.end == e->end, "cut %zu: %d, not %d, \"%s\"", cut, h.end, e->end,
                        e->text);
        infill_stop_close(&h);
        bytes_free(&all);
    }
}

static void test_indent_alone(void)
{
    static const example all[] = {
        {"", "", "x = 1\n    y = 2\n\n    z\n}\n", "x = 1\n    y = 2\n\n    z", INFILL_STOP_LEFT},
        {"", "", "x\n\t\t\t\ty", "x\n\t\t\t\ty", INFILL_STOP_NONE},
        {"", "", "x\n y", "x", INFILL_STOP_LEFT},
        {"", "", "x\n  ", "x\n  ", INFILL_STOP_NONE},
        {"", "", "x\n    x\n    x\n", "x\n    x\n    x\n", INFILL_STOP_NONE},
    };
    static const example none = {"", "", "a\na\na\n}\n", "a\na\na\n}\n", INFILL_STOP_NONE};
    for (size_t i = 0; i < ARRAY_LEN(all); i++) expect(&all[i], 4, false);
    expect(&none, 0, false);
}

static void test_blocks(void)
{
    static const example all[] = {
        /* within a body */
        {"def f(x):\n    ", "", "y = x\n    return y\n\n\ndef g(x):\n", "y = x\n    return y",
         INFILL_STOP_LEFT},
        /* a body that does not exist yet */
        {"def f(x)", "", ":\n    if x:\n        return 1\n    return x\n\ndef g",
         ":\n    if x:\n"
         "        return 1\n    return x",
         INFILL_STOP_LEFT},
        {"class A:\n    def f(self):", "", "\n        return 1\n\n    def g(self):\n",
         "\n        return 1", INFILL_STOP_LEFT},
        /* the line continues, lines like it belong to the block */
        {"    a = ", "\n", "1\n    b = 2\nc", "1\n    b = 2", INFILL_STOP_LEFT},
        /* its bracket belongs to a block, unless the suffix has it */
        {"int f(void)\n{\n    ", "", "return 1;\n}\n\nint g(void)\n", "return 1;\n}",
         INFILL_STOP_LEFT},
        {"int f(void)\n{\n    ", "\n}\n", "return 1;\n}\n", "return 1;", INFILL_STOP_MET},
        {"int f(void)\n{\n    ", "\n    x();\n}\n", "return 1;\n}\n", "return 1;",
         INFILL_STOP_LEFT},
        {"if (a) {\n    ", "", "b();\n} else {\n    c();\n}\nd();", "b();\n} else {\n    c();\n}",
         INFILL_STOP_LEFT},
        {"f(function () {\n    ", "\nnext();\n", "g();\n});\nf", "g();\n});", INFILL_STOP_LEFT},
        /* at the left */
        {"", "", "int x;\nint y;\n\nint z;\n", "int x;\nint y;", INFILL_STOP_LEFT},
        {"", "", "int f(void)\n{\n    return 1;\n}\n\nint", "int f(void)\n{\n    return 1;\n}",
         INFILL_STOP_LEFT},
        {"", "", "\n\nint x;\n", "\n\nint x;", INFILL_STOP_NONE},
        /* empty lines and blanks at the end do not count */
        {"    ", "", "a\n\n    b\n\n   ", "a\n\n    b", INFILL_STOP_NONE},
        {"x", "", "\n    ", "", INFILL_STOP_NONE},
        {"x", "", "", "", INFILL_STOP_NONE},
    };
    for (size_t i = 0; i < ARRAY_LEN(all); i++) expect(&all[i], 0, true);
}

static void test_what_follows(void)
{
    static const example all[] = {
        {"a = 1\n", "\nc = 3\n", "b = 2\nc = 3\nd = 4\n", "b = 2", INFILL_STOP_MET},
        {"a = 1\n", "\n\n  \nc = 3  \n", "b = 2\n\nc = 3\n", "b = 2", INFILL_STOP_MET},
        {"a = 1\n", "\nc = 3", "c = 3", "", INFILL_STOP_MET},
        {"a = 1\nc =", "\nc = 3", " 3\nd", "", INFILL_STOP_MET},
        {"a = 1\n", "\nc = 3\n", "c = 34\n", "c = 34", INFILL_STOP_NONE},
        {"a = 1\n", "\nc = 3\n", "    c = 3\n", "    c = 3", INFILL_STOP_NONE},
        {"f(", ")\ng()\n", "1", "1", INFILL_STOP_NONE},
    };
    for (size_t i = 0; i < ARRAY_LEN(all); i++) expect(&all[i], 0, true);
}

static void test_loops(void)
{
    static const example all[] = {
        {"    ", "", "x();\n    x();\n    x();\n", "x();", INFILL_STOP_ROUND},
        {"    ", "", "x();\n    y();\n    x();\n    y();\n    x();", "x();\n    y();\n    x();",
         INFILL_STOP_ROUND},
        {"    int n = 0;\n    ", "", "int n = 0;\n", "", INFILL_STOP_ROUND},
        {"while (n) {\n    ", "", "if (n) {\n        if (n) {\n", "if (n) {", INFILL_STOP_ROUND},
        {"    ", "", "if a:\n        return x\n    return x\n",
         "if a:\n        return x\n    return x", INFILL_STOP_NONE},
        /* repetitions that the file has itself */
        {"    f();\n    f();\n    ", "", "f();\n    g();", "f();\n    g();", INFILL_STOP_NONE},
        /* closing two brackets is not a repetition */
        {"    ", "", "{{\n    }\n    }\n", "{{\n    }\n    }", INFILL_STOP_NONE},
        {"", "", "if a:\n    b\n    return\nif c:\n    b\n    return\n",
         "if a:\n    b\n    return\nif c:\n    b\n    return", INFILL_STOP_NONE},
        /* within a line */
        {"", "", "int i, j, j, j, j, j, j, j, j, j, j", "int i, j,", INFILL_STOP_ROUND},
        {"", "", "f(1, 1, 1);", "f(1, 1, 1);", INFILL_STOP_NONE},
        {"", "", "// ------------------------------------------------",
         "// -----------------------"
         "-------------------------",
         INFILL_STOP_NONE},
    };
    for (size_t i = 0; i < ARRAY_LEN(all); i++) expect(&all[i], 0, true);
}

static void add_words(char *text, size_t size, uint32_t most)
{
    static const char *const words[] = {"a", "b ", "\n", "    ", "}", "{\n", "x = 1\n", "\t",
                                        ", j"};
    size_t n = 0;
    for (uint32_t i = random_u32() % most; i-- && n + 8 < size;)
        n += (size_t)snprintf(text + n, size - n, "%s", words[random_u32() % ARRAY_LEN(words)]);
}

/* For any text: the output is a beginning of the text, and the same for every cut. */
static void test_any_text(void)
{
    static uint32_t n_ended[4];
    for (int round = 0; round < UNIT_TIMES(3000, 500); round++) {
        char text[400] = "", before[200] = "", after[200] = "";
        add_words(before, sizeof before, 20);
        add_words(after, sizeof after, 10);
        add_words(text, sizeof text, 60);
        bytes first = {.max = 1000};
        for (size_t cut = 400; cut; cut = cut == 400 ? 7 : cut == 7 ? 1 : 0) {
            bytes all = {.max = 1000};
            infill_stop h;
            TEST_CHECK(
                !infill_stop_open(&h, view_of(before), view_of(after), (uint32_t)round % 3, true));
            run(&h, text, cut, &all);
            TEST_CHECK(all.len <= strlen(text) && (!all.len || !memcmp(all.ptr, text, all.len)));
            if (cut == 400) n_ended[h.end]++;
            if (cut == 400) TEST_CHECK(!bytes_append(&first, all.len ? all.ptr : "", all.len));
            TEST_CHECK(view_equal((view){all.ptr, all.len}, (view){first.ptr, first.len}));
            infill_stop_close(&h);
            bytes_free(&all);
        }
        bytes_free(&first);
    }
    for (int i = 0; i < 4; i++) TEST_CHECK_THAT(n_ended[i] > 5, "end %d: %u", i, n_ended[i]);
}

static void test_memory_runs_out(void)
{
    const long live = memory_live();
    bool whole = false;
    for (long n = 0; !whole; n++) {
        bytes all = {.max = 10000};
        infill_stop h = {0};
        memory_fail_at(n);
        int status = infill_stop_open(&h, VIEW("    "), VIEW("\n}\n"), 0, true);
        for (int i = 0; i < 100 && !status; i++)
            status = infill_stop_feed(&h, i % 2 ? VIEW("first();\n    ") : VIEW("second();\n    "),
                                      &all);
        if (!status) status = infill_stop_finish(&h, &all);
        memory_fail_at(-1);
        TEST_CHECK(status == CERIUM_OK || status == CERIUM_ERR_MEMORY);
        whole = !status;
        infill_stop_close(&h);
        bytes_free(&all);
        TEST_CHECK(memory_live() == live);
        TEST_CHECK(!whole || n > 1);
    }
}

/* Bytes released of a line in a loop, so that a client that shows whole lines can cut it back. */
static void test_broken(void)
{
    static const struct {
        const char *before, *output;
        size_t broken;
    } all[] = {
        {"", "int i, j, j, j, j, j, j, j, j, j, j", sizeof "int i, j," - 1},
        {"x = ", "f(1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1", sizeof "f(1, 1," - 1},
        {"", "a = 1\nb = (1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1", sizeof "b = (1, 1," - 1},
        {"    ", "x();\n    x();\n    x();\n", 0}, /* whole lines */
        {"", "int i, j;\n", 0},
    };
    for (size_t i = 0; i < ARRAY_LEN(all); i++) {
        infill_stop h;
        bytes out = {.max = 4096};
        TEST_CHECK(!infill_stop_open(&h, view_of(all[i].before), (view){NULL, 0}, 0, true));
        TEST_CHECK(!infill_stop_feed(&h, view_of(all[i].output), &out) &&
                   !infill_stop_finish(&h, &out));
        TEST_CHECK_THAT(infill_stop_broken(&h) == all[i].broken, "%zu: %zu", i,
                        infill_stop_broken(&h));
        infill_stop_close(&h);
        bytes_free(&out);
    }
}

int main(void)
{
    TEST_RUN(test_indent_alone);
    TEST_RUN(test_blocks);
    TEST_RUN(test_what_follows);
    TEST_RUN(test_loops);
    TEST_RUN(test_any_text);
    TEST_RUN(test_memory_runs_out);
    TEST_RUN(test_broken);
    return unit_report("infill_stop");
}
