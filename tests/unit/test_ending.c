/* test_ending.c - code that is cut anywhere is closed so that it parses, or stays as it is. */
#include "guard/ending.h"

#include "../guard/whole.h"
#include "unit.h"

static guard *rules;
static guard_worker *worker;

/* The text of a stream with what closes it.  False: it stays as it is. */
static bool close_text(guard_form form, guard_language language, view text, guard_closing closing,
                       bytes *out)
{
    guard_stream_config config = {.form = form, .language = language};
    guard_stream *s;
    guard_result r;
    guard_ending e;
    cerium_error err;
    out->len = 0;
    if (guard_stream_open(&s, rules, &config, &err)) return false;
    guard_feed(s, worker, text.ptr, text.len, &r);
    bool closed = guard_end_code(s, worker, closing, &e);
    guard_stream_close(&s);
    if (!closed) return false;
    TEST_CHECK(e.at <= text.len && e.n <= sizeof e.text);
    TEST_CHECK(!bytes_append(out, text.ptr, (size_t)e.at) && !bytes_append(out, e.text, e.n));
    return true;
}

static void read_file(const char *path, bytes *out)
{
    char part[4096];
    FILE *f = fopen(path, "rb");
    out->len = 0;
    TEST_CHECK_THAT(f, "%s", path);
    for (size_t n; f && (n = fread(part, 1, sizeof part, f));)
        TEST_CHECK(!bytes_append(out, part, n));
    if (f) fclose(f);
}

static const struct {
    const char *name;
    guard_language language;
    uint32_t least; /* of a hundred cuts, that are whole then */
} files[] = {
    {"hostile.py", GUARD_PYTHON, 95},   {"hostile.js", GUARD_JAVASCRIPT, 90},
    {"hostile.jsx", GUARD_JAVASCRIPT, 10}, {"hostile.ts", GUARD_TYPESCRIPT, 85},
    {"hostile.tsx", GUARD_TSX, 90},
    {"hostile.java", GUARD_JAVA, 85},   {"hostile.go", GUARD_GO, 90},
    {"hostile.c", GUARD_C, 85},         {"hostile.cpp", GUARD_CPP, 95},
    {"hostile.php", GUARD_PHP, 75},     {"hostile.rb", GUARD_RUBY, 95},
    {"after.py", GUARD_PYTHON, 85},     {"after.js", GUARD_JAVASCRIPT, 85},
    {"after.java", GUARD_JAVA, 85},     {"after.go", GUARD_GO, 85},
    {"after.c", GUARD_C, 85},           {"after.php", GUARD_PHP, 85},
    {"after.rb", GUARD_RUBY, 85},
};

static size_t step = 61;

/* Closed or not, a cut text never becomes one that does not parse. */
static void test_cuts(void)
{
    bytes text = {.max = 1 << 16}, out = {.max = 1 << 16};
    for (size_t i = 0; i < ARRAY_LEN(files); i++) {
        char path[128];
        guard_language l = files[i].language;
        size_t n = 0, n_whole = 0;
        snprintf(path, sizeof path, "tests/guard/endings/%s.txt", files[i].name);
        read_file(path, &text);
        const view all = {text.ptr, text.len};
        TEST_CHECK_THAT(whole_parses(l, all, whole_is_apart(l, all)), "%s", path);
        for (size_t at = 1; at < all.len; at += step, n++) {
            view said = {all.ptr, at};
            bool closed = close_text(GUARD_CODE, l, said, GUARD_CLOSE_ALL, &out);
            if (closed) said = (view){out.ptr, out.len};
            bool whole = whole_parses(l, said, whole_is_apart(l, said));
            n_whole += whole;
            TEST_CHECK_THAT(whole || !closed, "%s cut at %zu:\n%.*s", path, at, (int)said.len,
                            said.ptr);
        }
        TEST_CHECK_THAT(n_whole * 100 >= n * files[i].least, "%s: %zu of %zu", path, n_whole, n);
    }
    bytes_free(&text);
    bytes_free(&out);
}

static const struct {
    guard_form form;
    guard_language language;
    guard_closing closing;
    const char *text, *want; /* NULL: it stays as it is */
} cases[] = {
    {GUARD_CODE, GUARD_PYTHON, GUARD_CLOSE_ALL,
     "def f(x):\n",
     "def f(x):\n"
     "    raise NotImplementedError(\"the answer ended here\")\n"},
    {GUARD_CODE, GUARD_PYTHON, GUARD_CLOSE_ALL,
     "def f(x):\r\n"
     "    if x:\r\n",
     "def f(x):\r\n"
     "    if x:\r\n"
     "        raise NotImplementedError(\"the answer ended here\")\n"},
    {GUARD_CODE, GUARD_PYTHON, GUARD_CLOSE_ALL,
     "class A:\n",
     "class A:\n"
     "    pass\n"},
    {GUARD_CODE, GUARD_PYTHON, GUARD_CLOSE_ALL,
     "def f(x):\n"
     "    try:\n"
     "        g(x)\n",
     "def f(x):\n"
     "    try:\n"
     "        g(x)\n"
     "    finally: pass\n"},
    {GUARD_CODE, GUARD_PYTHON, GUARD_CLOSE_ALL,
     "def f(x):\n"
     "    match x:\n",
     "def f(x):\n"
     "    match x:\n"
     "        case _:\n"
     "            raise NotImplementedError(\"the answer ended here\")\n"},
    {GUARD_CODE, GUARD_PYTHON, GUARD_CLOSE_ALL,
     "@cached\n",
     "@cached\n"
     "def withheld(*args, **kwargs):\n"
     "    raise NotImplementedError(\"the answer ended here\")\n"},
    {GUARD_CODE, GUARD_PYTHON, GUARD_CLOSE_ALL,
     "x = f(\"a {b[1]\", '''c\n"
     "d",
     "x = f(\"a {b[1]\", '''c\n"
     "d''')\n"},
    {GUARD_CODE, GUARD_PYTHON, GUARD_CLOSE_ALL,
     "x = f\"{a!r:>{b}} {c['d'",
     "x = f\"{a!r:>{b}} {c['d']}\"\n"},
    {GUARD_CODE, GUARD_PYTHON, GUARD_CLOSE_ALL,
     "x = g(rf'''{{a}}\n"
     "{h(b, [c",
     "x = g(rf'''{{a}}\n"
     "{h(b, [c])}''')\n"},
    {GUARD_CODE, GUARD_PYTHON, GUARD_CLOSE_ALL,
     "x = F\"a {",
     "x = F\"a {None}\"\n"},
    {GUARD_CODE, GUARD_PYTHON, GUARD_CLOSE_ALL,
     "x = F\"{a:>{b",
     "x = F\"{a:>{b}}\"\n"},
    {GUARD_CODE, GUARD_PYTHON, GUARD_CLOSE_ALL,
     "x = \"{a[",
     "x = \"{a[\"\n"},
    {GUARD_CODE, GUARD_PYTHON, GUARD_CLOSE_ALL,
     "x = f\"{a} {{",
     "x = f\"{a} {{\"\n"},
    {GUARD_CODE, GUARD_PYTHON, GUARD_CLOSE_ALL,
     "x = 1 # {",
     NULL},
    {GUARD_CODE, GUARD_PYTHON, GUARD_CLOSE_ALL,
     "x = 1\n",
     NULL},
    {GUARD_CODE, GUARD_PYTHON, GUARD_CLOSE_NOTHING,
     "def f(x):\n"
     "    y = [1,",
     NULL},
    {GUARD_CODE, GUARD_PYTHON, GUARD_CLOSE_NOTHING,
     "def f(x):\n"
     "    if x:\n",
     "def f(x):\n"
     "    if x:\n"
     "        raise NotImplementedError(\"the answer ended here\")\n"},
    {GUARD_CODE, GUARD_PYTHON, GUARD_CLOSE_HEADER,
     "def f(x):\n"
     "    y = [1,",
     NULL},
    {GUARD_CODE, GUARD_PYTHON, GUARD_CLOSE_HEADER,
     "for x in y:\n",
     "for x in y:\n"
     "    raise NotImplementedError(\"the answer ended here\")\n"},
    {GUARD_CODE, GUARD_JAVASCRIPT, GUARD_CLOSE_ALL,
     "const a = `b ${c(`d ${[e",
     "const a = `b ${c(`d ${[e]}`)}`\n"},
    {GUARD_CODE, GUARD_JAVASCRIPT, GUARD_CLOSE_ALL,
     "function f() {\n"
     "  try {\n"
     "    g();\n"
     "  }",
     "function f() {\n"
     "  try {\n"
     "    g();\n"
     "  } finally {}\n"
     "}\n"},
    {GUARD_CODE, GUARD_JAVASCRIPT, GUARD_CLOSE_ALL,
     "const a = () => { return <p>it's {b}</p>; };\n"
     "f(g(",
     "const a = () => { return <p>it's {b}</p>; };\n"
     "f(g())\n"},
    {GUARD_CODE, GUARD_JAVASCRIPT, GUARD_CLOSE_ALL,
     "switch (a) { case'{': f(typeof'{', b",
     "switch (a) { case'{': f(typeof'{', b)\n"
     "}\n"},
    {GUARD_CODE, GUARD_JAVASCRIPT, GUARD_CLOSE_ALL,
     "class A {\n"
     "  constructor",
     "class A {\n"
     "}\n"},
    {GUARD_CODE, GUARD_JAVASCRIPT, GUARD_CLOSE_NOTHING,
     "function f() {\n",
     NULL},
    {GUARD_CODE, GUARD_TYPESCRIPT, GUARD_CLOSE_ALL,
     "interface A {\n"
     "  a: Map<string,",
     "interface A {\n"
     "}\n"},
    {GUARD_CODE, GUARD_TSX, GUARD_CLOSE_ALL,
     "const a = (b: B) => {\n"
     "  return <A b={b",
     "const a = (b: B) => {\n"
     "  return <A b={b}/>;\n"
     "}\n"},
    {GUARD_CODE, GUARD_JAVA, GUARD_CLOSE_ALL,
     "class A {\n"
     "    int f(String s) throws Exception",
     "class A {\n"
     "    int f(String s) throws Exception {\n"
     "        throw new UnsupportedOperationException(\"the answer ended here\");\n"
     "    }\n"
     "}\n"},
    {GUARD_CODE, GUARD_JAVA, GUARD_CLOSE_ALL,
     "class A {\n"
     "    String s = \"a\n",
     NULL},
    {GUARD_CODE, GUARD_GO, GUARD_CLOSE_ALL,
     "func f() {\n"
     "\tgo func(x int) {\n"
     "\t\tg(x",
     "func f() {\n"
     "\tgo func(x int) {\n"
     "\t\tg(x)\n"
     "\t}()\n"
     "}\n"},
    {GUARD_CODE, GUARD_GO, GUARD_CLOSE_ALL,
     "var a = []b{{c: func() int {\n",
     "var a = []b{{c: func() int {\n"
     "\tpanic(\"the answer ended here\")\n"
     "}}};\n"},
    {GUARD_CODE, GUARD_GO, GUARD_CLOSE_ALL,
     "func (s *shelf)",
     NULL},
    {GUARD_CODE, GUARD_C, GUARD_CLOSE_ALL,
     "#ifdef A\n"
     "struct b {\n"
     "    int c;",
     "#ifdef A\n"
     "struct b {\n"
     "    int c;\n"
     "};\n"
     "#endif\n"},
    {GUARD_CODE, GUARD_C, GUARD_CLOSE_ALL,
     "#ifdef A\n"
     "#define B \\\n"
     "    (C) \\\n",
     "#ifdef A\n"
     "#define B \\\n"
     "    (C) \\\n"
     "\n"
     "#endif\n"},
    {GUARD_CODE, GUARD_C, GUARD_CLOSE_ALL,
     "int f(void)\n"
     "{\n"
     "    do {\n"
     "        g(\"a\\\"",
     "int f(void)\n"
     "{\n"
     "    do {\n"
     "        g(\"a\\\"\");\n"
     "    } while (0);\n"
     "}\n"},
    {GUARD_CODE, GUARD_CPP, GUARD_CLOSE_ALL,
     "auto a = R\"x(b \" ( c",
     NULL},
    {GUARD_CODE, GUARD_CPP, GUARD_CLOSE_ALL,
     "void f() {\n"
     "    try {\n"
     "        g([&](int x) { return x",
     "void f() {\n"
     "    try {\n"
     "        g([&](int x) { return x;\n"
     "        });\n"
     "    } catch (...) {}\n"
     "}\n"},
    {GUARD_CODE, GUARD_PHP, GUARD_CLOSE_ALL,
     "<?php\n"
     "$a = f(<<<'TEXT'\n"
     "it's {$b\n",
     "<?php\n"
     "$a = f(<<<'TEXT'\n"
     "it's {$b\n"
     "\n"
     "TEXT\n"
     ");\n"},
    {GUARD_CODE, GUARD_PHP, GUARD_CLOSE_ALL,
     "<?php\n"
     "if ($a):\n"
     "    echo 1;\n",
     "<?php\n"
     "if ($a):\n"
     "    echo 1;\n"
     "endif;\n"},
    {GUARD_CODE, GUARD_PHP, GUARD_CLOSE_ALL,
     "<?php\n"
     "function f($a) {\n"
     "    if (g($a)):\n"
     "        foreach ($a as $b): while ($c--): endwhile;\n"
     "            h($b",
     "<?php\n"
     "function f($a) {\n"
     "    if (g($a)):\n"
     "        foreach ($a as $b): while ($c--): endwhile;\n"
     "            h($b);\n"
     "        endforeach;\n"
     "    endif;\n"
     "}\n"},
    {GUARD_CODE, GUARD_PHP, GUARD_CLOSE_ALL,
     "<?php\n"
     "if ($a) :\n"
     "    echo 1;\n"
     "elseif ($b):\n"
     "    switch ($c):\n",
     "<?php\n"
     "if ($a) :\n"
     "    echo 1;\n"
     "elseif ($b):\n"
     "    switch ($c):\n"
     "    endswitch;\n"
     "endif;\n"},
    {GUARD_CODE, GUARD_PHP, GUARD_CLOSE_ALL,
     "<?php\n"
     "if ($a):\n",
     "<?php\n"
     "if ($a):\n"
     "    throw new \\RuntimeException('the answer ended here');\n"
     "endif;\n"},
    {GUARD_CODE, GUARD_PHP, GUARD_CLOSE_ALL,
     "<?php if ($a): ?>\n"
     "  <p>it's {\n",
     "<?php if ($a): ?>\n"
     "  <p>it's {\n"
     "<?php\n"
     "endif;\n"},
    {GUARD_CODE, GUARD_PHP, GUARD_CLOSE_ALL,
     "<?php\n"
     "function f(): int { if ($a) return $b ? f($c) : 2; for (;;): endfor;\n",
     "<?php\n"
     "function f(): int { if ($a) return $b ? f($c) : 2; for (;;): endfor;\n"
     "}\n"},
    {GUARD_CODE, GUARD_RUBY, GUARD_CLOSE_ALL,
     "def f(x)\n"
     "  x.each do |y|\n"
     "    puts \"a #{y[1",
     "def f(x)\n"
     "  x.each do |y|\n"
     "    puts \"a #{y[1]}\"\n"
     "  end\n"
     "end\n"},
    {GUARD_CODE, GUARD_RUBY, GUARD_CLOSE_ALL,
     "class A\n"
     "  def f\n"
     "    case x\n"
     "    when 1\n",
     "class A\n"
     "  def f\n"
     "    case x\n"
     "    when 1\n"
     "      raise NotImplementedError, \"the answer ended here\"\n"
     "    end\n"
     "  end\n"
     "end\n"},
    {GUARD_CODE, GUARD_RUBY, GUARD_CLOSE_ALL,
     "x = <<~'SQL'\n"
     "  it's {\n",
     "x = <<~'SQL'\n"
     "  it's {\n"
     "\n"
     "SQL\n"},
    {GUARD_CODE, GUARD_RUBY, GUARD_CLOSE_ALL,
     "f([<<~A, <<~'B'",
     "f([<<~A, <<~'B'])\n"
     "A\n"
     "B\n"},
    {GUARD_CODE, GUARD_RUBY, GUARD_CLOSE_ALL,
     "x = <<~SQL",
     "x = <<~SQL\n"
     "SQL\n"},
    {GUARD_CODE, GUARD_PHP, GUARD_CLOSE_ALL,
     "<?php\n"
     "$a = f(<<<TEXT",
     "<?php\n"
     "$a = f(<<<TEXT\n"
     "TEXT\n"
     ");\n"},
    {GUARD_CODE, GUARD_RUBY, GUARD_CLOSE_ALL,
     "f(<<~A, <<~'B')\n"
     "  it's {\n",
     "f(<<~A, <<~'B')\n"
     "  it's {\n"
     "\n"
     "A\n"
     "B\n"},
    {GUARD_CODE, GUARD_RUBY, GUARD_CLOSE_ALL,
     "f(<<~A, <<~B)\n"
     "  it's {\n"
     "A\n"
     "B\n"
     "def g\n",
     "f(<<~A, <<~B)\n"
     "  it's {\n"
     "A\n"
     "B\n"
     "def g\n"
     "  raise NotImplementedError, \"the answer ended here\"\n"
     "end\n"},
    {GUARD_CODE, GUARD_RUBY, GUARD_CLOSE_ALL,
     "f(<<~A, <<~B)\n"
     "  B\n"
     "  it's {\n",
     "f(<<~A, <<~B)\n"
     "  B\n"
     "  it's {\n"
     "\n"
     "A\n"
     "B\n"},
    {GUARD_CODE, GUARD_SHELL, GUARD_CLOSE_ALL,
     "if [ x ]; then\n",
     NULL},
    {GUARD_CODE, GUARD_HTML, GUARD_CLOSE_ALL,
     "<script>\n"
     "f(\n",
     NULL},
    {GUARD_ANSWER, GUARD_TEXT, GUARD_CLOSE_ALL,
     "1. As so:\n"
     "   ```python\n"
     "   def f(x):\n"
     "       if x:\n",
     "1. As so:\n"
     "   ```python\n"
     "   def f(x):\n"
     "       if x:\n"
     "           raise NotImplementedError(\"the answer ended here\")\n"},
    {GUARD_ANSWER, GUARD_TEXT, GUARD_CLOSE_ALL,
     "```diff\n"
     "+def f(x):\n",
     NULL},
    {GUARD_ANSWER, GUARD_TEXT, GUARD_CLOSE_ALL,
     "def of it (that",
     NULL},
    {GUARD_JSON, GUARD_TEXT, GUARD_CLOSE_ALL,
     "{\"path\": \"a.py\", \"content\": \"def f(x):\\n",
     NULL},
};

static void test_texts(void)
{
    bytes out = {.max = 1 << 16};
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        bool closed = close_text(cases[i].form, cases[i].language, view_of(cases[i].text),
                                 cases[i].closing, &out);
        const view got = closed ? (view){out.ptr, out.len} : VIEW("(nothing)");
        const view want = view_of(cases[i].want ? cases[i].want : "(nothing)");
        TEST_CHECK_THAT(view_equal(got, want), "%s\ngot:\n%.*s", cases[i].text, (int)got.len,
                        got.ptr);
    }
    bytes_free(&out);
}

/* NUL, brackets beyond all bounds, text that never ends: no end is made up. */
static void test_hostile(void)
{
    enum { MANY = 1600 };
    static char text[MANY];
    bytes out = {.max = 1 << 16};
    static const char *const parts[] = {"{", "(", "[", "if (a) {\n", "`${", "def f():\n", "\"",
                                        "/*", "#if A\n", "<<~A\n", "do {", "class A {\n", "x = [\n",
                                        "\xff\xc3", "\r\n", "try:\n"};
    for (size_t i = 0; i < ARRAY_LEN(parts) * (GUARD_LANGUAGES - 1); i++) {
        const char *part = parts[i % ARRAY_LEN(parts)];
        guard_language l = (guard_language)(1 + i / ARRAY_LEN(parts));
        const size_t len = strlen(part), sizes[] = {150, MANY};
        for (size_t k = 0; k < sizeof text; k++) text[k] = part[k % len];
        for (size_t k = 0; k < ARRAY_LEN(sizes); k++) {
            const view all = {text, sizes[k]};
            bool closed = close_text(GUARD_CODE, l, all, GUARD_CLOSE_ALL, &out);
            const view said = {out.ptr, out.len};
            TEST_CHECK_THAT(!closed || whole_parses(l, said, whole_is_apart(l, said)),
                            "%s of %zu bytes in %s", part, sizes[k], guard_language_name(l));
        }
    }
    const char zero[] = "def f(x):\n    y = \"a\0b\n    if x:\n";
    (void)close_text(GUARD_CODE, GUARD_PYTHON, (view){zero, sizeof zero - 1}, GUARD_CLOSE_ALL,
                     &out);
    TEST_CHECK(!out.len || whole_parses(GUARD_PYTHON, (view){out.ptr, out.len}, false));
    bytes_free(&out);
}

/* Of code longer than its window the guard knows only a part. */
static void test_long(void)
{
    static const char line[] = "    int a = f(\"a long line of this class, again\");\n";
    bytes text = {.max = 1 << 16}, out = {.max = 1 << 16};
    TEST_CHECK(!bytes_append(&text, "class A {\n", 10));
    while (text.len < 3 * GUARD_WINDOW_BYTES)
        TEST_CHECK(!bytes_append(&text, line, sizeof line - 1));
    TEST_CHECK(!bytes_append(&text, "    void g() {\n", 15));
    bool closed = close_text(GUARD_CODE, GUARD_JAVA, (view){text.ptr, text.len}, GUARD_CLOSE_ALL,
                             &out);
    TEST_CHECK(!closed || whole_parses(GUARD_JAVA, (view){out.ptr, out.len}, false));
    bytes_free(&text);
    bytes_free(&out);
}

int main(int argc, char **argv)
{
    cerium_error err;
    if (argc > 1) step = strtoul(argv[1], NULL, 10);
    TEST_CHECK(guard_open(&rules, "rules", &err) == 0);
    TEST_CHECK(guard_worker_open(&worker, rules, &err) == 0);
    if (!guard_has_grammar(GUARD_PYTHON)) {
        printf("skipped: endings: a build without grammars\n");
        return unit_report("ending");
    }
    TEST_RUN(test_texts);
    TEST_RUN(test_hostile);
    TEST_RUN(test_long);
    TEST_RUN(test_cuts);
    guard_worker_close(&worker);
    guard_close(&rules);
    return unit_report("ending");
}
