/* test_edit.c - diffs are correct and minimal, and answers of models become edits only
 * if the edit is unambiguous. */
#include "base/memory.h"
#include "protocol/diff.h"
#include "protocol/edit_answer.h"
#include "../random.h"
#include "unit.h"

/* ---- diffs ---- */

/* Length of the longest common subsequence, by the table of all prefixes. */
static uint32_t common_lines(const diff *d)
{
    static uint32_t best[128][128];
    for (uint32_t i = 0; i <= d->n_lines[0]; i++)
        for (uint32_t k = 0; k <= d->n_lines[1]; k++) {
            if (i == 0 || k == 0) {
                best[i][k] = 0;
                continue;
            }
            uint32_t up = best[i - 1][k], left = best[i][k - 1];
            best[i][k] = up > left ? up : left;
            if (view_equal(d->lines[0][i - 1], d->lines[1][k - 1]))
                best[i][k] = best[i - 1][k - 1] + 1;
        }
    return best[d->n_lines[0]][d->n_lines[1]];
}

/* The old lines with the changes applied equal the new lines. */
static bool leads_to(const diff *d)
{
    uint32_t a = 0, b = 0;
    for (uint32_t i = 0; i <= d->n_changes; i++) {
        const diff_change end = {d->n_lines[0], 0, d->n_lines[1], 0};
        const diff_change *c = i < d->n_changes ? &d->changes[i] : &end;
        if (c->a < a || c->b < b || c->a - a != c->b - b) return false;
        for (; a < c->a; a++, b++)
            if (!view_equal(d->lines[0][a], d->lines[1][b])) return false;
        a += c->n_a;
        b += c->n_b;
    }
    return a == d->n_lines[0] && b == d->n_lines[1];
}

static void make_text(char *text, size_t *len, uint32_t n_lines)
{
    *len = 0;
    for (uint32_t i = 0; i < n_lines; i++) {
        text[(*len)++] = (char)('a' + random_below(4));
        if (i + 1 < n_lines || random_below(3)) text[(*len)++] = '\n';
    }
}

static void test_diff_random(void)
{
    static char a[400], b[400];
    for (int i = 0; i < 3000; i++) {
        size_t n_a, n_b;
        diff d;
        cerium_error err;
        make_text(a, &n_a, random_below(100));
        make_text(b, &n_b, random_below(100));
        if (i % 3 == 0) { /* a few changes of one text */
            memcpy(b, a, n_b = n_a);
            for (uint32_t k = 0; n_b && k < 3; k++) b[random_below((uint32_t)n_b)] = 'e';
        }
        TEST_CHECK(diff_open(&d, (view){a, n_a}, (view){b, n_b}, false, &err) == 0);
        uint32_t added, removed, same = common_lines(&d);
        diff_count(&d, &added, &removed);
        TEST_CHECK(leads_to(&d));
        TEST_CHECK(added == d.n_lines[1] - same && removed == d.n_lines[0] - same);
        diff_close(&d);
    }
    diff d;
    cerium_error err;
    TEST_CHECK(!diff_open(&d, VIEW("a  \nb\nc"), VIEW("a\nB\nc\n"), true, &err));
    TEST_CHECK(d.n_changes == 1 && d.changes[0].a == 1 && d.changes[0].n_a == 1);
    diff_close(&d);
}

static void test_diff_far_apart(void)
{
    static char a[40000], b[40000];
    diff d;
    cerium_error err;
    size_t n_a = 0, n_b = 0;
    for (int i = 0; i < 3000; i++) n_a += (size_t)snprintf(a + n_a, sizeof a - n_a, "a%d\n", i);
    for (int i = 0; i < 3000; i++) n_b += (size_t)snprintf(b + n_b, sizeof b - n_b, "b%d\n", i);
    TEST_CHECK(diff_open(&d, (view){a, n_a}, (view){b, n_b}, false, &err) == 0);
    TEST_CHECK(leads_to(&d) && d.n_changes == 1 && diff_hunks(&d) == 1);
    diff_close(&d);
    long live = memory_live();
    for (long k = 0, status = 1; status; k++) {
        memory_fail_at(k);
        status = diff_open(&d, VIEW("a\nb\n"), VIEW("a\nc\n"), false, &err);
        memory_fail_at(-1);
        TEST_CHECK((status == 0 || status == CERIUM_ERR_MEMORY) && k < 20);
    }
    diff_close(&d);
    TEST_CHECK(memory_live() == live);
}

/* ---- blocks ---- */

#define BLOCK(search, replace) "<<<<<<< SEARCH\n" search "=======\n" replace ">>>>>>> REPLACE\n"

/* The file after an answer's edits, or the fault. */
static const char *edited(const char *answer, const char *file)
{
    static char shown[600];
    char fault[EDIT_FAULT_MAX] = "";
    edit_blocks blocks;
    bytes out = {.max = 500};
    if (edit_blocks_read(view_of(answer), &blocks, fault) &&
        edit_blocks_apply(&blocks, view_of(file), &out, fault) == 0)
        snprintf(shown, sizeof shown, "%.*s", (int)out.len, out.len ? out.ptr : "");
    else
        snprintf(shown, sizeof shown, "! %s", fault);
    TEST_CHECK(shown[0] != '!' || (fault[0] && out.len == 0));
    bytes_free(&out);
    return shown;
}

static void check(const char *answer, const char *file, const char *want)
{
    const char *got = edited(answer, file);
    TEST_CHECK_THAT(strstr(got, want) && (want[0] == '!' || strcmp(got, want) == 0),
                    "'%s' and not '%s'", got, want);
}

static void test_blocks(void)
{
    check(BLOCK("b\n", "B\n"), "a\nb\nc\n", "a\nB\nc\n");
    check("text\n" BLOCK("b\nc\n", "") "more\n```\n" BLOCK("e\n", "E\nF\n"), "a\nb\nc\nd\ne\n",
          "a\nd\nE\nF\n");
    check(BLOCK("c\n", "C\n") BLOCK("a\n", "A\n"), "a\nb\nc\n", "A\nb\nC\n");
    check(BLOCK("b\n", "B\n"), "a\nb", "a\nB"); /* the last line still has no line end */
    check(BLOCK("b  \n", "B\n"), "a\nb\t\n", "a\nB\n"); /* blanks at the ends of lines */
    check(BLOCK("", "new\n"), "", "new\n");
    check("<<<<<<< SEARCH  \r\nb\n=======\r\nB\n>>>>>>> REPLACE", "b\n", "B\n");
    check(BLOCK("a\n=\n", "x\n"), "a\n=\n", "x\n");
    check("none\n", "a\n", "! the answer has no search/replace block");
    check(BLOCK("x\n", "y\n"), "a\n", "! block 1 searches for what is not in the file: 'x'");
    check(BLOCK("a\n", "b\n"), "a\nc\na\n", "! block 1 fits 2 places: 'a'");
    check(BLOCK("a\n", "b\n"), "ba\nab\n", "! block 1 searches for what is not");
    check(BLOCK("", "b\n"), "a\n", "! block 1 searches for nothing");
    check(BLOCK("a\nb\n", "x\n") BLOCK("b\nc\n", "y\n"), "a\nb\nc\n", "! two blocks touch");
    check(BLOCK("a\n", "x\n") BLOCK("a\n", "y\n"), "a\n", "! two blocks touch");
    check("<<<<<<< SEARCH\na\n=======\nb\n", "a\n", "! block 1 is not closed");
    check("<<<<<<< SEARCH\na\n" BLOCK("a\n", "b\n"), "a\n", "! block 1 is not closed");
    static char many[EDIT_BLOCKS_MAX * 60 + 60];
    size_t n = 0;
    for (uint32_t i = 0; i <= EDIT_BLOCKS_MAX; i++)
        n += (size_t)snprintf(many + n, sizeof many - n, BLOCK("a\n", "b\n"));
    check(many, "a\n", "! the answer has more than");
}

/* ---- the whole file ---- */

static void check_whole(const char *answer, const char *file, const char *want)
{
    char fault[EDIT_FAULT_MAX] = "", shown[600];
    view text;
    bytes out = {.max = 500};
    if (edit_whole_read(view_of(answer), view_of(file), &text, fault) &&
        edit_whole_apply(text, view_of(file), &out, fault) == 0)
        snprintf(shown, sizeof shown, "%.*s", (int)out.len, out.len ? out.ptr : "");
    else
        snprintf(shown, sizeof shown, "! %s", fault);
    TEST_CHECK_THAT(strcmp(shown, want) == 0, "'%s' and not '%s'", shown, want);
    bytes_free(&out);
}

static void test_whole(void)
{
    check_whole("Here:\n```c\na\nB\n```\nDone.\n", "a\nb\n", "a\nB\n");
    check_whole("```\na\nB\n```", "a\nb", "a\nB");               /* still without a line end */
    check_whole("```\na\nb\nC\n```\n", "a  \nb\t\nc\n", "a  \nb\t\nC\n"); /* blanks stay */
    check_whole("```\nx\na\nb\nC\n```\n", "a  \nb\t\nc\n", "x\na  \nb\t\nC\n");
    check_whole("```\na\nb\nC\n```\n", "a\nb", "a\nb\nC");
    check_whole("```\n```\n", "a\n", "");
    check_whole("````md\n```\nx\n```\ny\n````\n", "```\nx\n```\n", "```\nx\n```\ny\n");
    check_whole("```md\n```\nx\n```\ny\n```\n", "```\nx\n```\n", "```\nx\n```\ny\n");
    check_whole("a\n", "a\n", "! the answer has no file in a fence");
    check_whole("```\na\n", "a\n", "! the file in the answer is not closed");
    check_whole("```\na\n```\nor\n```\nb\n```\n", "a\n",
                "! the answer has several texts in fences");
    bytes full = {.max = 3};
    char fault[EDIT_FAULT_MAX] = "";
    TEST_CHECK(edit_whole_apply(VIEW("abcd\n"), VIEW("a\n"), &full, fault) ==
                   CERIUM_ERR_CAPACITY && fault[0] && full.len == 0);
    bytes_free(&full);
}

int main(void)
{
    TEST_RUN(test_diff_random);
    TEST_RUN(test_diff_far_apart);
    TEST_RUN(test_blocks);
    TEST_RUN(test_whole);
    return unit_report("edit");
}
