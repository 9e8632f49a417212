/* test_ignore.c - patterns of .gitignore files, git's index, and the places of lines in diffs. */
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "programs/combined.h"
#include "programs/ignore.h"
#include "programs/places.h"
#include "unit.h"

static void test_globs(void)
{
    static const struct {
        const char *pattern, *path;
        bool matches;
    } all[] = {
        {"a.c", "a.c", true},          {"a.c", "b.c", false},        {"*.c", "a.c", true},
        {"*.c", "x/a.c", false},       {"?.c", "a.c", true},         {"?.c", ".c", false},
        {"a*b*c", "aXbYc", true},      {"a*b*c", "abcb", false},     {"[ab].c", "b.c", true},
        {"[!ab].c", "b.c", false},     {"[^ab].c", "c.c", true},     {"[a-f]", "d", true},
        {"[a-f]", "g", false},         {"[]]", "]", true},           {"[a", "[a", true},
        {"\\*", "*", true},            {"\\*", "a", false},          {"a\\ b", "a b", true},
        {"**/a", "a", true},           {"**/a", "x/y/a", true},      {"**/a", "x/ya", false},
        {"a/**", "a/b", true},         {"a/**", "a/b/c", true},      {"a/**", "a", false},
        {"a/**/b", "a/b", true},       {"a/**/b", "a/x/y/b", true},  {"a/**/b", "ab", false},
        {"a/*", "a/b", true},          {"a/*", "a/b/c", false},      {"a/*/c", "a/b/c", true},
        {"**/x/**/y", "q/x/r/x/y", true}, {"a**b", "axb", true},     {"*", "", false},
        {"a/**/b/c", "a/b/b/c", true}, {"a", "a/b", false},
    };
    for (size_t i = 0; i < ARRAY_LEN(all); i++)
        TEST_CHECK_THAT(ignore_glob(view_of(all[i].pattern), view_of(all[i].path)) ==
                            all[i].matches, "%s %s", all[i].pattern, all[i].path);
}

/* The work for a pattern with many stars does not grow with their number. */
static void test_many_stars(void)
{
    char pattern[402], name[4001];
    for (int i = 0; i < 400; i++) pattern[i] = i % 2 ? 'a' : '*';
    pattern[400] = 'b';
    pattern[401] = 0;
    memset(name, 'a', 4000);
    name[4000] = 0;
    TEST_CHECK(!ignore_glob(view_of(pattern), view_of(name)));
}

static void write_text(const char *path, const void *text, size_t len)
{
    FILE *f = fopen(path, "wb");
    TEST_CHECK(f && fwrite(text, 1, len, f) == len);
    if (f) fclose(f);
}

static void test_files(void)
{
    static const char text[] = "# none\n*.log\n!keep.log\nbuild/\n/top\nsub/x\n\\#h\n"
                               "trail  \r\n\n!\n/\n";
    char path[] = "/tmp/cerium-ignore-XXXXXX";
    ignore_rules r = {.n = 0};
    int fd = mkstemp(path);
    close(fd);
    write_text(path, text, sizeof text - 1);
    TEST_CHECK(!ignore_read(&r, path, ""));
    TEST_CHECK(r.n == 7);
    TEST_CHECK(ignore_matches(&r, "a.log", false) && ignore_matches(&r, "d/a.log", false));
    TEST_CHECK(!ignore_matches(&r, "d/keep.log", false));
    TEST_CHECK(ignore_matches(&r, "d/build", true) && !ignore_matches(&r, "d/build", false));
    TEST_CHECK(ignore_matches(&r, "top", false) && !ignore_matches(&r, "d/top", false));
    TEST_CHECK(ignore_matches(&r, "sub/x", false) && !ignore_matches(&r, "d/sub/x", false));
    TEST_CHECK(ignore_matches(&r, "#h", false) && ignore_matches(&r, "trail", false));
    /* Another file, of a folder below: the last one that matches decides. */
    write_text(path, "!a.log\n/only\n", 13);
    TEST_CHECK(!ignore_read(&r, path, "d/"));
    TEST_CHECK(!ignore_matches(&r, "d/a.log", false) && ignore_matches(&r, "a.log", false));
    TEST_CHECK(ignore_matches(&r, "d/only", false) && !ignore_matches(&r, "only", false));
    ignore_cut(&r, 7);
    TEST_CHECK(ignore_matches(&r, "d/a.log", false) && !ignore_matches(&r, "d/only", false));
    TEST_CHECK(!ignore_read(&r, "/nowhere/.gitignore", "") && r.n == 7);
    ignore_free(&r);
    unlink(path);
}

/* An index of version 2 with the names, as git writes it, except for unused fields. */
static size_t make_index(char *out, const char *const *names, size_t n)
{
    size_t len = 12;
    memcpy(out, "DIRC\0\0\0\2\0\0\0\0", 12);
    out[11] = (char)n;
    for (size_t i = 0; i < n; i++) {
        size_t n_name = strlen(names[i]), all = (62 + n_name + 8) & ~(size_t)7;
        memset(out + len, 0, all);
        memcpy(out + len + 62, names[i], n_name);
        len += all;
    }
    return len;
}

static void test_index(void)
{
    static const char *const names[] = {"a", "build/kept.c", "build/x/y", "builds", "z z"};
    char path[] = "/tmp/cerium-index-XXXXXX", index[2000];
    tracked_files t;
    int fd = mkstemp(path);
    close(fd);
    const size_t len = make_index(index, names, ARRAY_LEN(names));
    write_text(path, index, len);
    TEST_CHECK(!tracked_read(&t, path) && t.n == ARRAY_LEN(names));
    for (size_t i = 0; i < ARRAY_LEN(names); i++) TEST_CHECK(tracked_has(&t, names[i], false));
    TEST_CHECK(tracked_has(&t, "build", true) && !tracked_has(&t, "build", false));
    TEST_CHECK(tracked_has(&t, "build/x", true) && !tracked_has(&t, "buil", true));
    TEST_CHECK(!tracked_has(&t, "zz", false) && !tracked_has(&t, "0", false));
    tracked_free(&t);
    for (size_t cut = 0; cut < len; cut++) { /* a damaged index has no names */
        write_text(path, index, cut);
        TEST_CHECK(!tracked_read(&t, path));
        TEST_CHECK(!tracked_has(&t, "nothing", false));
        tracked_free(&t);
    }
    TEST_CHECK(!tracked_read(&t, "/nowhere/index") && t.n == 0 && !tracked_has(&t, "a", false));
    tracked_free(&t);
    unlink(path);
}

static void expect_place(const diff_places *p, uint32_t line, const char *file, uint32_t want)
{
    uint32_t number = 0;
    const char *got = diff_places_find(p, line, &number);
    TEST_CHECK_THAT(!got == !file && (!file || (!strcmp(got, file) && number == want)),
                    "line %u: %s:%u", line, got ? got : "none", number);
}

static void test_places(void)
{
    static const char text[] = "Some words:\n"                                      /* 1 */
                               "diff --git a/src/a.c b/src/a.c\n"
                               "index 1..2 100644\n"
                               "--- a/src/a.c\n"
                               "+++ b/src/a.c\n"                                   /* 5 */
                               "@@ -10,3 +20,4 @@ int f(void)\n"
                               " kept\n"
                               "-gone\n"
                               "+++ new\n"
                               "+more\n"                                           /* 10 */
                               "\\ No newline at end of file\n"
                               " last\n"
                               "@@ -50 +61 @@\n"
                               "-x\n"
                               "+y\n"                                              /* 15 */
                               "--- \"a/caf\\303\\251.py\"\n"
                               "+++ \"b/caf\\303\\251.py\"\n"
                               "@@ -0,0 +1 @@\n"
                               "+one\n"
                               "words again\n"                                     /* 20 */
                               "*** Add File: new.py\n"
                               "+first\n"
                               "+second\n"
                               "*** Update File: old.py\n"
                               "@@ def f\n"                                        /* 25 */
                               "+somewhere\n";
    for (size_t cut = 1; cut < sizeof text; cut++) {
        diff_places p = {.n_old = 0};
        for (size_t i = 0; i < sizeof text - 1; i += cut) {
            size_t n = sizeof text - 1 - i < cut ? sizeof text - 1 - i : cut;
            TEST_CHECK(!diff_places_feed(&p, (view){text + i, n}));
        }
        expect_place(&p, 1, NULL, 0);
        expect_place(&p, 5, NULL, 0);
        expect_place(&p, 7, "src/a.c", 20);
        expect_place(&p, 8, NULL, 0);
        expect_place(&p, 9, "src/a.c", 21);
        expect_place(&p, 10, "src/a.c", 22);
        expect_place(&p, 12, "src/a.c", 23);
        expect_place(&p, 15, "src/a.c", 61);
        expect_place(&p, 19, "caf\303\251.py", 1);
        expect_place(&p, 20, NULL, 0);
        expect_place(&p, 23, "new.py", 2);
        expect_place(&p, 26, NULL, 0); /* no place given */
        expect_place(&p, 99, NULL, 0);
        diff_places_free(&p);
    }
}

/* The diff of a merge, in pieces of every length: one sign a line, and one range a hunk. */
static void test_combined(void)
{
    static const char text[] = "diff --cc a.py\n"
                               "--- a/a.py\n"
                               "+++ b/a.py\n"
                               "@@@ -4,5 -5,4 +5,6 @@@ def f\n"
                               "  kept\n"
                               " +one\n"
                               "- gone\n"
                               "--both\n"
                               "++new\n"
                               "\\ No newline\n"
                               "@@@@ -1 -1 -1 +9,2 @@@@\n"
                               "   three\n"
                               "++ two\n"
                               "commit\n"
                               " +prose\n"
                               "@@@ none @@@\n";
    static const char plain[] = "diff --cc a.py\n"
                                "--- a/a.py\n"
                                "+++ b/a.py\n"
                                "@@ -0,0 +5,6 @@\n"
                                " kept\n"
                                "+one\n"
                                "-gone\n"
                                "-both\n"
                                "+new\n"
                                "\\ No newline\n"
                                "@@ -0,0 +9,2 @@\n"
                                " three\n"
                                "+two\n"
                                "commit\n"
                                " +prose\n"
                                "@@@ none @@@\n";
    for (size_t cut = 1; cut < sizeof text; cut++) {
        combined c = {.out.max = 4096};
        bytes all = {.max = 4096};
        for (size_t i = 0; i < sizeof text - 1; i += cut) {
            size_t n = sizeof text - 1 - i < cut ? sizeof text - 1 - i : cut;
            TEST_CHECK(!combined_feed(&c, (view){text + i, n}, i + n == sizeof text - 1));
            CHECK(!bytes_append(&all, c.out.ptr, c.out.len));
        }
        TEST_CHECK_THAT(view_equal((view){all.ptr, all.len}, VIEW(plain)), "cut %zu: %.*s", cut,
                        (int)all.len, all.ptr);
        combined_free(&c);
        bytes_free(&all);
    }
}

int main(void)
{
    TEST_RUN(test_combined);
    TEST_RUN(test_globs);
    TEST_RUN(test_many_stars);
    TEST_RUN(test_files);
    TEST_RUN(test_index);
    TEST_RUN(test_places);
    return unit_report("ignore");
}
