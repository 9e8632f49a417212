/* test_view.c - text without the bytes of a set at its ends. */
#include "base/base.h"

#include "unit.h"

static void test_trim(void)
{
    static const char blanks[] = " \t\r\n";
    const view text = VIEW(" \t a b \r\n");
    TEST_CHECK(view_equal(view_trim(text, blanks), VIEW("a b")));
    TEST_CHECK(view_equal(view_trim_start(text, blanks), VIEW("a b \r\n")));
    TEST_CHECK(view_equal(view_trim_end(text, blanks), VIEW(" \t a b")));
    TEST_CHECK(view_trim(VIEW(" \n"), blanks).len == 0);
    TEST_CHECK(view_trim((view){NULL, 0}, blanks).len == 0);
    TEST_CHECK(view_equal(view_trim(text, ""), text));
}

/* strchr() finds the end of the set: a NUL is not in it. */
static void test_nul(void)
{
    const view text = VIEW("\0 a \0");
    TEST_CHECK(view_equal(view_trim(text, " "), text));
    TEST_CHECK(view_equal(view_trim(VIEW(" \0 "), " "), VIEW("\0")));
}

int main(void)
{
    TEST_RUN(test_trim);
    TEST_RUN(test_nul);
    return unit_report("view");
}
