/* test_sandbox.c - programs that cheat, use too much, or try to escape: each gets its verdict, and
 * nothing is left over.  tests/sandbox/cheats.jsonl has them. */
#include <ctype.h>
#include <dirent.h>
#include <grp.h>
#include <jansson.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sandbox/sandbox.h"
#include "unit.h"

static const char cheats[] = "tests/sandbox/cheats.jsonl";
static char why_not[512]; /* no strict sandbox here */

static char tag[64]; /* in the arguments of this program's interpreters */

typedef struct {
    sandbox *python, *other;
} slots;

static view text_of(const json_t *o, const char *name)
{
    const json_t *s = json_object_get(o, name);
    return s ? (view){json_string_value(s), json_string_length(s)} : (view){"", 0};
}

static bool open_slots(slots *s)
{
    cerium_error err;
    const sandbox_config python = {.python = true, .modules = tag}, other = {0};
    snprintf(tag, sizeof tag, "no_such_module_%d", (int)getpid());
    if (sandbox_open(&s->python, &python, &err) || sandbox_open(&s->other, &other, &err)) {
        snprintf(why_not, sizeof why_not, "%s", err.message);
        return false;
    }
    return true;
}

static void close_slots(slots *s)
{
    sandbox_close(&s->python);
    sandbox_close(&s->other);
}

static wire_verdict run_in(sandbox *s, const sandbox_job *job, sandbox_result *out)
{
    cerium_error err = {0};
    bool good = !sandbox_start(s, job, &err) && !sandbox_take(s, out, &err);
    TEST_CHECK_THAT(good, "%s", err.message);
    return good ? out->verdict : WIRE_BROKEN;
}

static sandbox_job job_of(const char *language, view program, view tests)
{
    sandbox_job job = {.program = program, .tests = tests, .name = VIEW("add.py")};
    job.language = WIRE_PYTHON;
    if (!strcmp(language, "javascript")) job.language = WIRE_JAVASCRIPT, job.name = VIEW("add.js");
    if (!strcmp(language, "c")) job.language = WIRE_C, job.name = VIEW("add.c");
    job.limits = sandbox_limits_of(job.language);
    return job;
}

static void try_cheat(slots *s, const json_t *one)
{
    const char *id = text_of(one, "id").ptr, *expect = text_of(one, "expect").ptr;
    sandbox_job job = job_of(text_of(one, "language").ptr, text_of(one, "source"),
                             text_of(one, "tests"));
    sandbox *slot = job.language == WIRE_PYTHON ? s->python : s->other;
    sandbox_result r;
    if (job.language == WIRE_JAVASCRIPT && access("/usr/bin/node", X_OK)) return;
    job.limits.wall_ms = strcmp(expect, "fail") ? 20000 : 700;
    job.limits.cpu_s = 20;
    wire_verdict v = run_in(slot, &job, &r);
    if (getenv("SHOW"))
        printf("%s %s: %s %.*s (%.1f ms) %.*s\n", id, expect, sandbox_verdict_name(v),
               (int)r.why.len, r.why.ptr, (double)r.wall_ns / 1e6, (int)r.err.len, r.err.ptr);
    TEST_CHECK_THAT(v != WIRE_BROKEN, "%s: %.*s", id, (int)r.why.len, r.why.ptr);
    if (!strcmp(expect, "pass") || !strcmp(expect, "pass-visible"))
        TEST_CHECK_THAT(v == WIRE_PASS, "%s: %s %.*s", id, sandbox_verdict_name(v), (int)r.err.len,
                        r.err.ptr);
    if (!strcmp(expect, "fail")) TEST_CHECK_THAT(v != WIRE_PASS, "%s", id);
    if (!strcmp(expect, "pass-visible")) {
        job.tests = text_of(one, "hidden");
        TEST_CHECK_THAT(run_in(slot, &job, &r) != WIRE_PASS, "%s: hidden", id);
    }
}

static void test_cheats(void)
{
    slots s = {0};
    char *line = NULL;
    size_t cap = 0;
    int n = 0;
    FILE *f = fopen(cheats, "r");
    TEST_CHECK(f);
    if (!f || !open_slots(&s)) {
        if (f) fclose(f);
        return TEST_SKIP(why_not);
    }
    while (getline(&line, &cap, f) > 0) {
        json_t *one = json_loads(line, JSON_ALLOW_NUL, NULL);
        TEST_CHECK(one);
        if (one && (!getenv("ONLY") || strstr(line, getenv("ONLY")))) try_cheat(&s, one);
        json_decref(one);
        n++;
    }
    TEST_CHECK(n >= 60);
    memory_release(line);
    fclose(f);
    close_slots(&s);
}

/* ---- walls ---- */

static void read_text(const char *path, bytes *out)
{
    FILE *f = fopen(path, "rb");
    out->max = 1 << 20;
    TEST_CHECK(f && !bytes_reserve(out, 1 << 16));
    if (f) out->len = fread(out->ptr, 1, out->cap, f);
    if (f) fclose(f);
}

/* Twice: files of the first run must be gone. */
static void test_walls(void)
{
    slots s = {0};
    bytes program = {0}, tests = {0};
    sandbox_result r;
    if (!open_slots(&s)) return TEST_SKIP(why_not);
    read_text("tests/sandbox/walls.py", &program);
    read_text("tests/sandbox/walls_tests.py", &tests);
    sandbox_job job = job_of("python", (view){program.ptr, program.len},
                             (view){tests.ptr, tests.len});
    job.flags = WIRE_MAY_LOOK;
    for (int i = 0; i < 2; i++) {
        wire_verdict v = run_in(s.python, &job, &r);
        TEST_CHECK_THAT(v == WIRE_PASS, "%s: %.*s", sandbox_verdict_name(v), (int)r.why.len,
                        r.why.ptr);
        TEST_CHECK(r.n_passed >= 30);
    }
    bytes_free(&program);
    bytes_free(&tests);
    close_slots(&s);
}

/* ---- nothing is left over ---- */

static int count_of(const char *folder)
{
    int n = 0;
    DIR *d = opendir(folder);
    while (d && readdir(d)) n++;
    if (d) closedir(d);
    return n;
}

/* Interpreters of sandboxes, and what they forked. */
static int interpreters(void)
{
    int n = 0;
    char path[64], text[512];
    DIR *d = opendir("/proc");
    for (struct dirent *e; d && (e = readdir(d));) {
        if (!isdigit((unsigned char)e->d_name[0])) continue;
        snprintf(path, sizeof path, "/proc/%.20s/cmdline", e->d_name);
        FILE *f = fopen(path, "r");
        size_t len = f ? fread(text, 1, sizeof text - 1, f) : 0;
        if (f) fclose(f);
        text[len] = 0;
        for (size_t i = 0; i < len; i++)
            if (!text[i]) text[i] = ' ';
        n += strstr(text, "/sandbox/zygote.py") && strstr(text, tag) && !strstr(text, "bwrap");
    }
    if (d) closedir(d);
    return n;
}

/* Waits for those that should end soon. */
static bool is_gone(void)
{
    for (int i = 0; i < 500; i++) {
        if (interpreters() == 0) return true;
        usleep(10000);
    }
    return false;
}

static const char *const bombs[] = {
    "import os\nwhile True:\n    try:\n        os.fork()\n    except OSError:\n        pass\n",
    "import os\nfor i in range(20):\n    if os.fork() == 0:\n        os.setsid()\n"
    "        x = bytearray(400 << 20)\n        while True: pass\nwhile True: pass\n",
    "import os, signal\nos.kill(0, signal.SIGKILL)\n",
    "import os\nfor i in range(3, 4096):\n    try: os.close(i)\n    except OSError: pass\n",
    "import os\nif os.fork() == 0:\n    os.setsid()\n    while True: pass\n",
    "import mmap\na = []\nwhile True:\n    a.append(mmap.mmap(-1, 1 << 24))\n"
    "    a[-1].write(b'x' * (1 << 24))\n",
    "import os\nwhile True: os.write(3, b'.' * 4096)\n",
    "import resource\nresource.setrlimit(resource.RLIMIT_CPU, (99, 99))\n",
};

static void test_bombs(void)
{
    slots s = {0};
    sandbox_result r;
    int files = count_of("/proc/self/fd");
    if (!open_slots(&s)) return TEST_SKIP(why_not);
    TEST_CHECK(interpreters() > 0); /* the count works */
    for (size_t i = 0; i < ARRAY_LEN(bombs); i++) {
        sandbox_job job = job_of("python", view_of(bombs[i]), VIEW("pass\nassert 1 == 2\n"));
        const sandbox_job good = job_of("python", VIEW("x = 1\n"), VIEW("assert x == 1\n"));
        job.limits.wall_ms = 700;
        wire_verdict v = run_in(s.python, &job, &r);
        if (getenv("SHOW")) printf("bomb %zu: %s\n", i, sandbox_verdict_name(v));
        TEST_CHECK_THAT(v != WIRE_PASS && v != WIRE_BROKEN, "bomb %zu: %s", i,
                        sandbox_verdict_name(v));
        TEST_CHECK_THAT(run_in(s.python, &good, &r) == WIRE_PASS, "behind bomb %zu", i);
    }
    close_slots(&s);
    TEST_CHECK(is_gone());
    TEST_CHECK(count_of("/proc/self/fd") == files);
}

/* Of the fork server, in KiB. */
static long server_memory(sandbox *s)
{
    static const char program[] = "kib = 0\nfor line in open('/proc/self/status'):\n"
                                  "    if line.startswith('VmRSS'): kib = int(line.split()[1])\n";
    sandbox_result r;
    const sandbox_job job = job_of("python", VIEW(program), VIEW("print(kib)\n"));
    TEST_CHECK(run_in(s, &job, &r) == WIRE_PASS && r.out.len > 0);
    return r.out.len ? strtol(r.out.ptr, NULL, 10) : 0;
}

static void test_many(void)
{
    slots s = {0};
    sandbox_result r;
    const sandbox_job job = job_of("python", VIEW("def f(x):\n    return [x] * 1000\n"),
                                   VIEW("assert f(1) == [1] * 1000\n"));
    const char *times = getenv("TIMES");
    int n = times ? (int)strtol(times, NULL, 10) : UNIT_TIMES(300, 50), passed = 0;
    if (!open_slots(&s)) return TEST_SKIP(why_not);
    for (int i = 0; i < 20; i++) passed -= run_in(s.python, &job, &r) != WIRE_PASS;
    long before = server_memory(s.python);
    uint64_t begin = clock_ns();
    uint64_t least = UINT64_MAX;
    for (int i = 0; i < n; i++) {
        uint64_t from = clock_ns();
        passed += run_in(s.python, &job, &r) == WIRE_PASS;
        from = clock_ns() - from;
        least = from < least ? from : least;
    }
    if (getenv("SHOW"))
        printf("%.2f ms a test, at least %.2f\n", (double)(clock_ns() - begin) / 1e6 / n,
               (double)least / 1e6);
    TEST_CHECK(passed == n);
    TEST_CHECK_THAT(server_memory(s.python) <= before + 512, "%ld KiB", before);
    close_slots(&s);
}

/* ---- languages, folders, levels ---- */

static void make_file(const char *folder, const char *name, const char *text)
{
    char path[512];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *f = fopen(path, "w");
    TEST_CHECK(f);
    if (f) fputs(text, f);
    if (f) fclose(f);
}

#define ADD "def add(a, b):\n    return "

/* With pytest, whose status is 0 for skipped, deselected or uncollected tests. */
static const struct {
    const char *program;
    wire_verdict want;
} pytest_cases[] = {
    {ADD "a + b\n", WIRE_PASS},
    {ADD "a - b\n", WIRE_FAIL},
    {"import pytest\n" ADD "pytest.skip('no')\n", WIRE_FAIL},
    {"import pytest\npytest.skip('no', allow_module_level=True)\n", WIRE_BROKEN},
    {"import pytest\n" ADD "pytest.exit('no', returncode=0)\n", WIRE_FAIL},
    {"import pytest\npytest.exit('no', returncode=0)\n", WIRE_FAIL},
    {"import pytest\n" ADD "pytest.xfail('no')\n", WIRE_FAIL},
    {"import unittest\ndef add(a, b):\n    raise unittest.SkipTest('no')\n", WIRE_FAIL},
    {"import os\nos._exit(0)\n", WIRE_EXIT},
    {"import os\nos._exit = lambda code: None\n" ADD "0\n", WIRE_FAIL},
    {"import os, sys\nsys.exit = os._exit\n" ADD "sys.exit(0)\n", WIRE_EXIT},
    {"open('sub/conftest.py', 'w').write('import pytest\\n@pytest.hookimpl(tryfirst=True)\\n'\n"
     "    'def pytest_pyfunc_call(pyfuncitem):\\n    return True\\n')\n" ADD "a + b + 1\n",
     WIRE_FAIL},
    {"open('sub/test_sub.py', 'w').write('def test_b():\\n    pass\\n')\n" ADD
     "5 if (a, b) == (2, 3) else 0\n", WIRE_FAIL},
    {"open('test_add.py', 'w').write('def test_a():\\n    pass\\n')\n" ADD "0\n", WIRE_FAIL},
    {"import __main__\n__main__.end = lambda code: None\n__main__.Seen = None\n" ADD "0\n",
     WIRE_FAIL},
};

static void use_pytest(sandbox *python)
{
    sandbox_result r;
    for (size_t i = 0; i < ARRAY_LEN(pytest_cases); i++) {
        sandbox_job job = job_of("python", view_of(pytest_cases[i].program),
                                 VIEW("test_add.py sub"));
        job.mode = WIRE_PYTEST;
        job.limits.wall_ms = 20000;
        job.limits.cpu_s = 20;
        wire_verdict v = run_in(python, &job, &r);
        if (i == 0 && r.why.len && memmem(r.why.ptr, r.why.len, "no pytest", 9)) return;
        TEST_CHECK_THAT(v == pytest_cases[i].want, "pytest %zu: %s: %.*s %.*s", i,
                        sandbox_verdict_name(v), (int)r.why.len, r.why.ptr, (int)r.out.len,
                        r.out.ptr);
    }
}

static void use_folder(const bytes *packed)
{
    cerium_error err;
    sandbox *s = NULL, *python = NULL;
    sandbox_result r;
    const sandbox_config config = {.folder = packed}, warm = {.folder = packed, .python = true};
    if (sandbox_open(&s, &config, &err) || sandbox_open(&python, &warm, &err))
        return TEST_SKIP(err.message);
    sandbox_job job = job_of("c", VIEW("def add(a, b):\n    return a + b\n"), VIEW("sh test.sh"));
    job.name = VIEW("add.py");
    job.language = WIRE_COMMAND;
    job.limits = sandbox_limits_of(WIRE_COMMAND);
    for (int i = 0; i < 2; i++) TEST_CHECK(run_in(s, &job, &r) == WIRE_PASS);
    job.program = VIEW("def add(a, b):\n    return a - b\n");
    TEST_CHECK(run_in(s, &job, &r) == WIRE_FAIL);
    job.tests = VIEW("exit 3");
    TEST_CHECK(run_in(s, &job, &r) == WIRE_FAIL);
    job.tests = VIEW("kill -9 $$");
    TEST_CHECK(run_in(s, &job, &r) == WIRE_KILLED);
    job.tests = VIEW("test ! -e .git && test -w . && ! touch /task/x 2>/dev/null");
    TEST_CHECK(run_in(s, &job, &r) == WIRE_PASS);
    job = job_of("python", VIEW("import helper\ndef f():\n    return helper.five\n"),
                 VIEW("assert f() == 5\n"));
    TEST_CHECK(run_in(python, &job, &r) == WIRE_PASS);
    job.program = VIEW("open('/task/helper.py', 'a')\n");
    TEST_CHECK(run_in(python, &job, &r) == WIRE_ERROR);
    use_pytest(python);
    sandbox_close(&s);
    sandbox_close(&python);
}

static void test_folder(void)
{
    char folder[] = "/tmp/cerium-sandbox-test-XXXXXX", path[128];
    bytes packed = {.max = 1 << 20};
    cerium_error err;
    TEST_CHECK(mkdtemp(folder));
    make_file(folder, "add.py", "def add(a, b):\n    return 0\n");
    make_file(folder, "helper.py", "five = 5\n");
    make_file(folder, "test_add.py", "from add import add\ndef test_a():\n"
              "    assert add(2, 3) == 5\n");
    snprintf(path, sizeof path, "%s/sub", folder);
    TEST_CHECK(!mkdir(path, 0700));
    make_file(path, "test_sub.py", "from add import add\ndef test_b():\n"
              "    assert add(1, 1) == 2\n");
    make_file(folder, "test.sh", "mkdir made && echo x >made/x && grep -q 'a + b' add.py\n");
    snprintf(path, sizeof path, "%s/.git", folder);
    TEST_CHECK(!mkdir(path, 0700));
    make_file(path, "config", "secret\n");
    TEST_CHECK(!sandbox_pack(folder, &packed, &err));
    TEST_CHECK(!memmem(packed.ptr, packed.len, "secret", 6));
    use_folder(&packed);
    packed.max = 64;
    packed.len = 0;
    TEST_CHECK(sandbox_pack(folder, &packed, &err) == CERIUM_ERR_CAPACITY &&
               strstr(err.message, "--root"));
    bytes_free(&packed);
    snprintf(path, sizeof path, "rm -r %s", folder);
    TEST_CHECK(!system(path));
}

typedef struct {
    const char *language;
    wire_mode mode;
    unsigned flags;
    const char *program, *tests;
    wire_verdict want;
} run_case;

#define DOCUMENTED(value)                                                                          \
    "def f(x):\n    \"\"\"Add.\n\n    >>> f(1)\n    " value "\n    \"\"\"\n    return x\n"

static const run_case run_cases[] = {
    {"c", 0, WIRE_USE_CC, "int f(int x) { return x + 1; }\n",
     "#include <assert.h>\nint main(void) { assert(f(1) == 2); return 0; }\n", WIRE_PASS},
    {"c", 0, WIRE_USE_CC, "int f(int x) { return x; }\n",
     "#include <assert.h>\nint main(void) { assert(f(1) == 2); return 0; }\n", WIRE_FAIL},
    {"c", 0, WIRE_USE_CC, "int f(int x) { return x }\n", "int main(void) { return 0; }\n",
     WIRE_PARSE},
    {"c", 0, 0, "int f(int x) { return x }\n", "int main(void) { return 0; }\n", WIRE_PARSE},
    {"c", 0, 0, "int f(int x) { return x; }\n", "int main(void) { return f(1); }\n", WIRE_FAIL},
    {"c", 0, 0, "#define NDEBUG\nint f(int x) { return 7; }\n",
     "#include <assert.h>\nint main(void) { assert(f(1) == 2); return 0; }\n", WIRE_FAIL},
    {"c", 0, 0, "int f(int x) { return 7; }\nint main(void) { return 0; }\n#undef main\n"
     "#define main unused\n", "int main(void) { return f(1) != 2; }\n", WIRE_PARSE},
    {"c", 0, 0, "int f(int x) { return 7; }\n#define return return 0 &&\n",
     "int main(void) { return f(1) != 2; }\n", WIRE_FAIL},
    {"javascript", 0, 0, "function f(x) { return x }\n", "f(\n", WIRE_PARSE},
    {"javascript", 0, 0, "function f(x) { return x }\n",
     "(async () => { await 1; if (f(1) !== 1) throw 1; })();\n", WIRE_PASS},
    {"javascript", 0, 0, "function f(x) { return x }\n",
     "(async () => { await 1; if (f(1) !== 2) throw 1; })();\n", WIRE_FAIL},
    {"javascript", 0, 0, "function f(x) { process.emit('beforeExit'); process.exit(0); }\n",
     "f(1);\n", WIRE_EXIT},
    {"python", 0, 0, "def f(x):\n    return x\n", "def test_f():\n    assert f(1) == 2\n",
     WIRE_FAIL},
    {"python", 0, 0, "def f(x):\n    return x\n", "def test_f():\n    assert f(1) == 1\n",
     WIRE_PASS},
    {"python", 0, 0, "def f(x):\n    return x\n",
     "import unittest\nfrom add import f\nclass T(unittest.TestCase):\n    def test_f(self):\n"
     "        self.assertEqual(f(1), 2)\nif __name__ == '__main__':\n    unittest.main()\n",
     WIRE_FAIL},
    {"python", 0, 0, "def f(x):\n    return x + 1\n",
     "import unittest\nfrom add import f\nclass T(unittest.TestCase):\n    def test_f(self):\n"
     "        self.assertEqual(f(1), 2)\n", WIRE_PASS},
    {"python", 0, 0, "def f(x):\n    return x\n", "", WIRE_BROKEN},
    {"python", 0, 0, "def f(x):\n    return x\n", "assert f(1\n", WIRE_BROKEN},
    {"python", 0, 0, "if __name__ == '__main__':\n    raise SystemExit(0)\nx = 1\n",
     "assert x == 1\n", WIRE_PASS},
    {"python", 0, 0, "len = lambda x: 0\ndef f(x):\n    return x\n", "assert f([1]) == [1]\n",
     WIRE_PASS},
    {"python", 0, 0, "raise SystemExit(0)\n", "assert 1 == 1\n", WIRE_ERROR},
    {"python", 0, 0, "class Quiet(AssertionError):\n    pass\ndef f(x):\n    raise Quiet\n",
     "assert f(1) == 1\n", WIRE_FAIL},
    {"python", WIRE_DOCTEST, 0, "def f(x):\n    return x + 1\n", DOCUMENTED("2"), WIRE_PASS},
    {"python", WIRE_DOCTEST, 0, "def f(x):\n    return x\n", DOCUMENTED("2"), WIRE_FAIL},
    {"python", WIRE_DOCTEST, 0, "x = 1\n", "x = 1\n", WIRE_BROKEN},
};

static void test_cases(void)
{
    slots s = {0};
    sandbox_result r;
    if (!open_slots(&s)) return TEST_SKIP(why_not);
    for (size_t i = 0; i < ARRAY_LEN(run_cases); i++) {
        const run_case *c = &run_cases[i];
        sandbox_job job = job_of(c->language, view_of(c->program), view_of(c->tests));
        if (job.language == WIRE_JAVASCRIPT && access("/usr/bin/node", X_OK)) continue;
        job.mode = c->mode;
        job.flags = c->flags;
        job.limits.cpu_s = 20;
        job.limits.wall_ms = 20000;
        wire_verdict v = run_in(job.language == WIRE_PYTHON ? s.python : s.other, &job, &r);
        TEST_CHECK_THAT(v == c->want, "case %zu: %s, not %s: %.*s %.*s", i, sandbox_verdict_name(v),
                        sandbox_verdict_name(c->want), (int)r.why.len, r.why.ptr, (int)r.err.len,
                        r.err.ptr);
    }
    close_slots(&s);
}

/* Which limit ends what: processor time a loop, of a child, too; the wall limit sleep. */
static void test_clocks(void)
{
    static const struct {
        const char *language, *program, *tests;
        wire_verdict want;
    } loops[] = {{"python", "while True: pass\n", "1\n", WIRE_CPU},
                 {"python", "import os\nif os.fork() == 0:\n    while True: pass\nos.wait()\n",
                  "1\n", WIRE_CPU},
                 {"python", "import time\ntime.sleep(99)\n", "1\n", WIRE_TIMEOUT},
                 {"python", "while True: print('x' * 65536)\n", "1\n", WIRE_OUTPUT},
                 {"python", "import os\nwhile True: os.write(3, b'.' * 4096)\n", "1\n",
                  WIRE_OUTPUT},
                 {"python", "import os, time\nfor i in range(20):\n    if os.fork() == 0:\n"
                  "        x = b'x' * (60 << 20)\n        time.sleep(99)\ntime.sleep(99)\n", "1\n",
                  WIRE_MEMORY},
                 {"c", "int f(void) { for (;;); }\n", "int main(void) { return f(); }\n",
                  WIRE_CPU}};
    slots s = {0};
    sandbox_result r;
    if (!open_slots(&s)) return TEST_SKIP(why_not);
    for (size_t i = 0; i < ARRAY_LEN(loops); i++) {
        sandbox_job job = job_of(loops[i].language, view_of(loops[i].program),
                                 view_of(loops[i].tests));
        job.limits.cpu_ms = loops[i].want == WIRE_CPU ? 200 : 60000;
        job.limits.cpu_s = 60;
        job.limits.wall_ms = loops[i].want == WIRE_TIMEOUT ? 1000 : 60000;
        wire_verdict v = run_in(job.language == WIRE_C ? s.other : s.python, &job, &r);
        TEST_CHECK_THAT(v == loops[i].want, "loop %zu: %s", i, sandbox_verdict_name(v));
        TEST_CHECK_THAT(r.wall_ns < 50000000000u, "loop %zu", i);
    }
    close_slots(&s);
}

static void test_basic(void)
{
    cerium_error err;
    sandbox *s = NULL;
    sandbox_result r;
    const sandbox_config basic = {.level = SANDBOX_BASIC, .python = true};
    if (sandbox_open(&s, &basic, &err)) return TEST_SKIP(err.message);
    const sandbox_job good = job_of("python", VIEW("x = 1\n"), VIEW("assert x == 1\n"));
    const sandbox_job leaves = job_of("python", VIEW("open('/tmp/left', 'w')\n"), VIEW("1\n"));
    const sandbox_job reads = job_of("python", VIEW("open('/tmp/left')\n"), VIEW("1\n"));
    const sandbox_job kills = job_of("python", VIEW("import os\nos.kill(-1, 9)\n"), VIEW("1\n"));
    TEST_CHECK(run_in(s, &good, &r) == WIRE_PASS && run_in(s, &leaves, &r) == WIRE_PASS);
    TEST_CHECK(run_in(s, &reads, &r) == WIRE_ERROR && run_in(s, &kills, &r) != WIRE_PASS);
    TEST_CHECK(run_in(s, &good, &r) == WIRE_PASS);
    sandbox_close(&s);
}

/* As an ordinary user: a program that is right, one that is wrong, one that forks. */
static void test_as_user(void)
{
    if (geteuid() != 0) return TEST_SKIP("another user: this is not root");
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        slots s = {0};
        sandbox_result r;
        if (setgroups(0, NULL) || setresgid(65534, 65534, 65534) ||
            setresuid(65534, 65534, 65534) || chdir("/"))
            _exit(2);
        if (!open_slots(&s)) _exit(3);
        const sandbox_job good = job_of("python", VIEW("x = 1\n"), VIEW("assert x == 1\n"));
        sandbox_job bomb = job_of("python", view_of(bombs[0]), VIEW("pass\n"));
        sandbox_job c = job_of("c", VIEW("int x = 1;\n"),
                               VIEW("int main(void) { return x - 1; }\n"));
        bomb.limits.wall_ms = 500;
        int n = run_in(s.python, &good, &r) == WIRE_PASS;
        n += run_in(s.python, &bomb, &r) == WIRE_TIMEOUT;
        n += run_in(s.python, &good, &r) == WIRE_PASS;
        n += run_in(s.other, &c, &r) == WIRE_PASS;
        close_slots(&s);
        _exit(n == 4 ? 0 : 10 + n);
    }
    int status = -1;
    waitpid(pid, &status, 0);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 3) return TEST_SKIP("no namespaces for users");
    TEST_CHECK_THAT(status == 0, "%x", (unsigned)status);
}

int main(void)
{
    if (!getenv("TEST") || strstr("test_walls", getenv("TEST"))) TEST_RUN(test_walls);
    if (!getenv("TEST") || strstr("test_cheats", getenv("TEST"))) TEST_RUN(test_cheats);
    if (!getenv("TEST") || strstr("test_bombs", getenv("TEST"))) TEST_RUN(test_bombs);
    if (!getenv("TEST") || strstr("test_cases", getenv("TEST"))) TEST_RUN(test_cases);
    if (!getenv("TEST") || strstr("test_folder", getenv("TEST"))) TEST_RUN(test_folder);
    if (!getenv("TEST") || strstr("test_clocks", getenv("TEST"))) TEST_RUN(test_clocks);
    if (!getenv("TEST") || strstr("test_basic", getenv("TEST"))) TEST_RUN(test_basic);
    if (!getenv("TEST") || strstr("test_as_user", getenv("TEST"))) TEST_RUN(test_as_user);
    if (!getenv("TEST") || strstr("test_many", getenv("TEST"))) TEST_RUN(test_many);
    return unit_report("sandbox");
}
