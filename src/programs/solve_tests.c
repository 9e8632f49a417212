/* solve_tests.c - the tests of `cerium solve`: reads them, and checks that they are meaningful. */
#include "programs/solve_run.h"

enum { EXAMPLES_MAX = 64, TESTS_BYTES_MAX = 4 << 20 };

/* A call of the program has one of these. */
static struct {
    const char *command, *file, *pytest, *hidden, *examples[EXAMPLES_MAX];
    uint32_t n_examples;
    bool doctest;
} given;

static bool take(const char **to, const char *value)
{
    if (*to) return option_wants("given once");
    return option_text(value, to);
}

bool solve_takes_test(void *program, const char *value)
{
    (void)program;
    return take(&given.command, value);
}

bool solve_takes_test_file(void *program, const char *value)
{
    (void)program;
    return take(&given.file, value);
}

bool solve_takes_pytest(void *program, const char *value)
{
    (void)program;
    if (given.pytest) return option_wants("given once");
    given.pytest = value;
    return true;
}

bool solve_takes_hidden(void *program, const char *value)
{
    (void)program;
    return take(&given.hidden, value);
}

bool solve_takes_doctest(void *program, const char *value)
{
    (void)program;
    (void)value;
    given.doctest = true;
    return true;
}

bool solve_takes_example(void *program, const char *value)
{
    (void)program;
    if (given.n_examples == EXAMPLES_MAX) return option_wants("given at most %d times",
                                                              EXAMPLES_MAX);
    return option_text(value, &given.examples[given.n_examples++]);
}

static int append(bytes *out, const char *text) { return bytes_append(out, text, strlen(text)); }

/* Examples are expressions of the file's language. */
static int write_examples(const solve *s, bytes *out)
{
    const char *const begins[] = {[WIRE_PYTHON] = "assert (",
                                  [WIRE_JAVASCRIPT] = "require('node:assert').ok(",
                                  [WIRE_C] = "    if (!("};
    const char *const ends[] = {[WIRE_PYTHON] = ")\n", [WIRE_JAVASCRIPT] = ");\n",
                                [WIRE_C] = ")) return 1;\n"};
    bool c = s->language == WIRE_C;
    if (c && given.n_examples) RETURN_IF(append(out, "int main(void)\n{\n"));
    for (uint32_t i = 0; i < given.n_examples; i++) {
        RETURN_IF(append(out, begins[s->language]));
        RETURN_IF(append(out, given.examples[i]));
        RETURN_IF(append(out, ends[s->language]));
    }
    return c && given.n_examples ? append(out, "    return 0;\n}\n") : CERIUM_OK;
}

static const char *language_name(wire_language language)
{
    static const char *const names[] = {[WIRE_NOTHING] = "text", [WIRE_PYTHON] = "Python",
                                        [WIRE_JAVASCRIPT] = "JavaScript", [WIRE_C] = "C",
                                        [WIRE_COMMAND] = "another language"};
    return names[language];
}

static int check_kinds(const solve *s, cerium_error *err)
{
    bool python = s->language == WIRE_PYTHON, texts = given.file || given.n_examples;
    uint32_t n = (given.command != NULL) + texts + given.doctest + (given.pytest != NULL);
    if (n == 0)
        return error_set(err, CERIUM_ERR_ARGUMENT, "no tests: give --test-file FILE, --example "
                         "'f(2) == 3', --doctest, --pytest ARGS or --test 'COMMAND'");
    if (n > 1)
        return error_set(err, CERIUM_ERR_ARGUMENT, "tests of one kind at a time: --test, --pytest, "
                         "--doctest, or --test-file with --example");
    if ((given.doctest || given.pytest) && !python)
        return error_set(err, CERIUM_ERR_ARGUMENT, "%s: --doctest and --pytest are for Python",
                         s->place.path);
    if (given.hidden && given.command)
        return error_set(err, CERIUM_ERR_ARGUMENT, "--hidden goes with tests in the file's own "
                         "language, not with --test");
    if ((texts || given.hidden) && s->language == WIRE_COMMAND)
        return error_set(err, CERIUM_ERR_ARGUMENT, "%s is in %s: test it by --test 'COMMAND'",
                         s->place.path, language_name(s->language));
    return CERIUM_OK;
}

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* If the tests need a folder: --root, else that of the file. */
static int read_folder(solve *s, cerium_error *err)
{
    static char root[4096];
    bool needed = s->tests.language == WIRE_COMMAND || s->tests.mode == WIRE_PYTEST;
    s->judge.name = view_of(base_name(s->file.path));
    if (!s->root && !needed) return CERIUM_OK;
    snprintf(root, sizeof root, "%s", s->file.path);
    *strrchr(root, '/') = 0;
    if (s->root) {
        char *real = realpath(s->root, NULL);
        size_t n = real ? strlen(real) : 0;
        while (n && real[n - 1] == '/') n--;
        bool inside = real && !strncmp(s->file.path, real, n) && s->file.path[n] == '/';
        if (inside) snprintf(root, sizeof root, "%.*s", (int)n, real);
        memory_release(real);
        if (!inside)
            return error_set(err, CERIUM_ERR_ARGUMENT, "--root %s: %s is not in it", s->root,
                             s->place.path);
    }
    s->judge.name = view_of(s->file.path + strlen(root) + 1);
    s->folder.max = 128u << 20;
    RETURN_IF(sandbox_pack(*root ? root : "/", &s->folder, err));
    s->judge.config.folder = &s->folder;
    return CERIUM_OK;
}

int solve_tests_open(solve *s, cerium_error *err)
{
    RETURN_IF(check_kinds(s, err));
    s->tests.text.max = s->hidden.text.max = TESTS_BYTES_MAX;
    s->tests.language = s->hidden.language = given.command ? WIRE_COMMAND : s->language;
    int status = CERIUM_OK;
    if (given.command) {
        status = append(&s->tests.text, given.command);
    } else if (given.doctest) {
        s->tests.mode = WIRE_DOCTEST;
        status = bytes_append(&s->tests.text, s->text.ptr, s->text.len);
    } else if (given.pytest) {
        s->tests.mode = WIRE_PYTEST;
        status = append(&s->tests.text, given.pytest);
    } else {
        if (given.file) RETURN_IF(read_file(given.file, &s->tests.text, err));
        if (!status) status = append(&s->tests.text, "\n");
        if (!status) status = write_examples(s, &s->tests.text);
    }
    if (status) return error_set(err, status, "no memory for the tests");
    if (given.hidden) RETURN_IF(read_file(given.hidden, &s->hidden.text, err));
    return read_folder(s, err);
}

/* ---- their verdict on the unchanged file ---- */

static int cannot_run(const solve *s, const sandbox_result *r, cerium_error *err)
{
    view why = r->why.len ? r->why : r->err;
    size_t n = 0;
    while (n < why.len && n < 300 && why.ptr[n] != '\n') n++;
    bool import = memmem(why.ptr, n, "No module", 9) != NULL;
    return error_set(err, CERIUM_ERR_ARGUMENT, "the tests cannot run: %.*s%s", (int)n,
                     n ? why.ptr : "", import && !s->root ? "; --root names the folder it is in"
                                                          : "");
}

int solve_tests_check(solve *s, cerium_error *err)
{
    sandbox_result r;
    solve_judge *j = &s->judge;
    for (int i = 0; i < 2; i++) { /* the second run has warm caches */
        RETURN_IF(tester_run(j, s->text, &s->tests, &r, err));
        if (r.verdict != WIRE_PARSE || s->language != WIRE_C || j->flags & WIRE_USE_CC)
            continue;
        j->flags |= WIRE_USE_CC; /* tcc does not support all of C */
        i = -1;
    }
    s->before = r.verdict;
    s->before_ms = (double)r.wall_ns / 1e6;
    bool import = r.why.len && memmem(r.why.ptr, r.why.len, "ModuleNotFoundError", 19);
    if (r.verdict == WIRE_BROKEN || import) return cannot_run(s, &r, err);
    if (r.verdict == WIRE_PASS)
        return error_set(err, CERIUM_ERR_ARGUMENT, "the tests pass already: %s is right by them",
                         s->place.path);
    solve_read_failure(s, &r);
    tester_calibrate(j, &r);
    RETURN_IF(tester_run(j, (view){"", 0}, &s->tests, &r, err));
    if (r.verdict == WIRE_PASS)
        return error_set(err, CERIUM_ERR_ARGUMENT, "the tests pass without %s, too: they do not "
                         "test it", s->place.path);
    return CERIUM_OK;
}
