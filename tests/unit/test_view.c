/* test_view.c - trimming the bytes of a set, and classes of bytes. */
#include <ctype.h>

#include "base/text.h"

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

/* The sets and classes of text.h are those of the C locale and of JSON, for every byte. */
static void test_classes(void)
{
    for (int c = 0; c < 256; c++) {
        const char byte = (char)c;
        const view one = {&byte, 1};
        TEST_CHECK((view_trim(one, TEXT_SPACE).len == 0) == (isspace(c) != 0));
        TEST_CHECK(byte_is_blank(byte) == (isspace(c) && c != '\v' && c != '\f'));
        TEST_CHECK(byte_is_digit(byte) == (isdigit(c) != 0));
    }
}

static void test_parts(void)
{
    static const char *const words[] = {"one", "two", ""};
    const view none = {NULL, 0};
    TEST_CHECK(view_is_one_of(VIEW("two"), words, 3) && view_is_one_of(none, words, 3));
    TEST_CHECK(!view_is_one_of(VIEW("tw"), words, 3) && !view_is_one_of(none, words, 2));
    TEST_CHECK(view_ends_with(VIEW("abc"), VIEW("bc")) && view_ends_with(none, none));
    TEST_CHECK(!view_ends_with(VIEW("bc"), VIEW("abc")) && !view_ends_with(VIEW("abc"), VIEW("b")));
    TEST_CHECK(text_ends_with("a.ts", ".ts") && !text_ends_with("ts", ".ts"));
    TEST_CHECK(view_has(VIEW("a->b"), "->") && !view_has(VIEW("a-"), "->") && !view_has(none, "a"));
    TEST_CHECK(view_find(VIEW("abab"), 0, VIEW("b")) == 1);
    TEST_CHECK(view_find(VIEW("abab"), 2, VIEW("b")) == 3);
    TEST_CHECK(view_find(VIEW("abab"), 0, VIEW("c")) == 4 && view_find(none, 0, VIEW("c")) == 0);
    TEST_CHECK(view_past(VIEW("aXbXc"), VIEW("X")) == 4 && view_past(VIEW("ab"), VIEW("X")) == 2);
    TEST_CHECK(view_common(VIEW("abc"), VIEW("abd")) == 2 && view_common(VIEW("ab"), none) == 0);
}

int main(void)
{
    TEST_RUN(test_trim);
    TEST_RUN(test_nul);
    TEST_RUN(test_classes);
    TEST_RUN(test_parts);
    return unit_report("view");
}
