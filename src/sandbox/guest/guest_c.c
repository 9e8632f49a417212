/* guest_c.c - variants in C, by tcc or the system's compiler.
 *
 * A program is compiled with its tests and runs in their process, so it may define whatever they
 * call.  Therefore names that it cannot know stand for `main`, for what an assertion does and for
 * what compares strings; and the sources are pipes, which are empty when they have been compiled:
 * neither the tests nor the mark are in a file that the program or its compiler could read. */
#include "sandbox/guest/guest.h"

#include <ctype.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    STATUS_FAILED = 99, /* tcc's own is 1 */
    KEY_BYTES = 16,     /* of the mark: its other half is in no name */
    TEXT_BYTES = 8192,
};

#define PROGRAM "/tmp/program.c"
#define DRIVER "/tmp/driver.c"
#define HEADERS "/tmp/cerium"

/* Between a program and its tests: the program's redefinitions of words in the tests are undone. */
static const char words[] =
    "\n#undef NDEBUG\n#undef assert\n#undef main\n#undef int\n#undef void\n#undef return\n"
    "#undef if\n#undef else\n#undef for\n#undef while\n#undef do\n#undef char\n#undef long\n"
    "#undef short\n#undef unsigned\n#undef signed\n#undef double\n#undef float\n#undef static\n"
    "#undef const\n#undef struct\n#undef union\n#undef enum\n#undef switch\n#undef case\n"
    "#undef default\n#undef break\n#undef continue\n#undef goto\n#undef sizeof\n#undef typedef\n"
    "#undef extern\n#undef inline\n#undef volatile\n#undef abort\n#undef exit\n#undef memcmp\n"
    "#undef strcmp\n#undef strncmp\n#undef snprintf\n#undef sprintf\n#undef strlen\n#undef strchr\n"
    "#undef strstr\n#undef abs\n#undef fabs\n#undef printf\n#undef puts\n#undef fprintf\n";

/* In the tests' text, %1$s: the key. */
static const char names[] =
    "#define main cerium_main_%1$s\n#define strcmp cerium_strcmp_%1$s\n"
    "#define strncmp cerium_strncmp_%1$s\n#define memcmp cerium_memcmp_%1$s\n"
    "#define snprintf cerium_snprintf_%1$s\n#define sprintf cerium_sprintf_%1$s\n"
    "int strcmp(const char *, const char *);\n"
    "int strncmp(const char *, const char *, unsigned long);\n"
    "int memcmp(const void *, const void *, unsigned long);\n"
    "int snprintf(char *, unsigned long, const char *, ...);\n"
    "int sprintf(char *, const char *, ...);\n"
    "#line 1 \"tests\"\n";

static const char assert_h[] =
    "#undef assert\n"
    "void cerium_fail_%1$s(const char *, const char *, int);\n"
    "#ifdef NDEBUG\n#define assert(x) ((void)0)\n#else\n"
    "#define assert(x) ((x) ? (void)0 : cerium_fail_%1$s(#x, __FILE__, __LINE__))\n"
    "#endif\n#define static_assert _Static_assert\n";

/* A failed assertion is kept before anything else is called: a program may be what is called. */
static const char driver[] =
    "#include <stdarg.h>\n"
    "int dprintf(int, const char *, ...), write(int, const void *, unsigned long);\n"
    "int vsnprintf(char *, unsigned long, const char *, va_list);\n"
    "int vsprintf(char *, const char *, va_list);\nvoid _exit(int);\n"
    "int cerium_main_%1$s(int, char **, char **);\n"
    "static volatile int failed;\n"
    "void cerium_fail_%1$s(const char *what, const char *file, int line)\n{\n"
    "    failed = 1;\n"
    "    dprintf(2, \"%%s:%%d: Assertion `%%s' failed.\\n\", file, line, what);\n"
    "    _exit(%2$d);\n    for (;;) *(volatile int *)0 = 0;\n}\n"
    "int cerium_memcmp_%1$s(const void *x, const void *y, unsigned long n)\n{\n"
    "    const unsigned char *a = x, *b = y;\n"
    "    for (; n; n--, a++, b++)\n        if (*a != *b) return *a - *b;\n    return 0;\n}\n"
    "int cerium_strncmp_%1$s(const char *x, const char *y, unsigned long n)\n{\n"
    "    const unsigned char *a = (const void *)x, *b = (const void *)y;\n"
    "    for (; n; n--, a++, b++)\n        if (*a != *b || !*a) return *a - *b;\n    return 0;\n}\n"
    "int cerium_strcmp_%1$s(const char *x, const char *y)\n{\n"
    "    return cerium_strncmp_%1$s(x, y, -1ul);\n}\n"
    "int cerium_snprintf_%1$s(char *out, unsigned long n, const char *how, ...)\n{\n"
    "    va_list list;\n    va_start(list, how);\n    int got = vsnprintf(out, n, how, list);\n"
    "    va_end(list);\n    return got;\n}\n"
    "int cerium_sprintf_%1$s(char *out, const char *how, ...)\n{\n"
    "    va_list list;\n    va_start(list, how);\n    int got = vsprintf(out, how, list);\n"
    "    va_end(list);\n    return got;\n}\n"
    "int main(int argc, char **argv, char **envp)\n{\n"
    "    volatile char mark[%3$d];\n"
    "    int status = cerium_main_%1$s(argc, argv, envp);\n"
    "    if (status || failed) return %2$d;\n";

/* The mark byte by byte, so that it is nowhere in memory before the tests have passed. */
static size_t write_driver(char *out, size_t size, const char *key, const char *mark)
{
    int n = snprintf(out, size, driver, key, STATUS_FAILED, WIRE_MARK_BYTES);
    for (int i = 0; i < WIRE_MARK_BYTES; i++)
        n += snprintf(out + n, size - (size_t)n, "    mark[%d] = %d;\n", i, mark[i]);
    n += snprintf(out + n, size - (size_t)n, "    write(3, (void *)mark, %d);\n    return 0;\n}\n",
                  WIRE_MARK_BYTES);
    return (size_t)n;
}

static bool is_word(char c) { return isalnum((unsigned char)c) || c == '_'; }

/* Whether a line begins with a declaration of this name as a function. */
static bool is_function(const char *text, const char *name, size_t n)
{
    for (const char *at = text; (at = strstr(at, name)); at += n) {
        const char *line = at, *after = at + n;
        while (line > text && (is_word(line[-1]) || strchr(" \t*", line[-1]))) line--;
        while (*after == ' ' || *after == '\t') after++;
        if (*after == '(' && at > line && !is_word(at[-1]) && is_word(*line) &&
            (line == text || line[-1] == '\n'))
            return true;
    }
    return false;
}

/* "#undef" for each macro with arguments that hides a function of the program from its tests. */
static size_t undo_macros(const char *program, char *out, size_t size)
{
    size_t n = 0;
    for (const char *at = program; (at = strstr(at, "define")); at += 6) {
        char name[128];
        const char *from = at + 6, *hash = at;
        while (*from == ' ' || *from == '\t') from++;
        size_t len = 0;
        while (is_word(from[len])) len++;
        while (hash > program && (hash[-1] == ' ' || hash[-1] == '\t')) hash--;
        if (hash == program || hash[-1] != '#' || !len || len >= sizeof name) continue;
        snprintf(name, sizeof name, "%.*s", (int)len, from);
        if (!is_function(program, name, len) || n + len + 16 > size) continue;
        n += (size_t)snprintf(out + n, size - n, "#undef %s\n", name);
    }
    return n;
}

/* Feed a pipe that has a name to who reads it first. */
static bool feed(const char *path, const char *const *parts, const size_t *sizes, int n)
{
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    bool good = fd >= 0;
    for (int i = 0; i < n && good; i++) good = guest_write(fd, parts[i], sizes[i]);
    if (fd >= 0) close(fd);
    return good;
}

/* A process that feeds both sources, in the order in which the compiler reads them. */
static bool feed_sources(const guest_job *g, bool driver_first)
{
    char key[KEY_BYTES + 1], between[TEXT_BYTES], text[TEXT_BYTES];
    const wire_job *j = &g->job;
    snprintf(key, sizeof key, "%.*s", KEY_BYTES, j->mark);
    size_t n = undo_macros(g->program, between, sizeof between / 2);
    n += (size_t)snprintf(between + n, sizeof between - n, names, key);
    const char *parts[] = {g->program, words, between, g->tests}, *alone = text;
    const size_t sizes[] = {j->n_program, sizeof words - 1, n, j->n_tests};
    const size_t size = write_driver(text, sizeof text, key, j->mark);
    char header[1024];
    const char *one = header;
    const size_t n_header = (size_t)snprintf(header, sizeof header, assert_h, key);
    if (mkdir(HEADERS, 0700) || !exec_write_new(HEADERS "/assert.h", 0400, &one, &n_header, 1) ||
        mkfifo(PROGRAM, 0600) || mkfifo(DRIVER, 0600))
        return false;
    pid_t pid = fork();
    if (pid) return pid > 0;
    signal(SIGPIPE, SIG_DFL);
    close(GUEST_FD_MARK);
    if (driver_first) (void)feed(DRIVER, &alone, &size, 1);
    (void)feed(PROGRAM, parts, sizes, 4);
    if (!driver_first) (void)feed(DRIVER, &alone, &size, 1);
    _exit(0);
}

int exec_c(const guest_job *g)
{
    const char *with_tcc[] = {"/usr/bin/tcc", "-w", "-I" HEADERS, "-I/tmp/task", "-lm", DRIVER,
                              "-run", PROGRAM, NULL};
    /* What shows the lines of an error would read the pipes again. */
    const char *with_cc[] = {"/bin/sh", "-c",
                             "cc -std=gnu17 -O0 -w -pipe -fno-diagnostics-show-caret "
                             "-fno-show-column -I" HEADERS " -I/tmp/task -o a.out " PROGRAM
                             " " DRIVER " -lm || exit 114; exec ./a.out", NULL};
    if (exec_n_folder() && !exec_unpack("/tmp/task")) return WIRE_STATUS_BROKEN;
    bool is_tcc = access(with_tcc[0], X_OK) == 0 && !(g->job.flags & WIRE_USE_CC);
    if (chdir("/tmp") || !feed_sources(g, is_tcc)) return WIRE_STATUS_BROKEN;
    int status = exec_below(is_tcc ? with_tcc : with_cc, true);
    if (status == 128 + SIGABRT || status == STATUS_FAILED) return WIRE_STATUS_FAIL;
    return is_tcc && status == 1 ? WIRE_STATUS_PARSE : status;
}
