/* test_regex.c - regular expressions: places between characters, Unicode and cases,
 * as JSON schemas have them (found anywhere in a string), where Python and ECMAScript agree. */
#include "takes.h"

enum { TEXTS_MAX = 8 };

static const struct {
    const char *pattern, *in[TEXTS_MAX], *out[TEXTS_MAX];
} cases[] = {
    /* lookaheads and lookbehinds */
    {"^(?!con$)[a-z]+$", {"cone", "a"}, {"con", "", "A"}},
    {"^(?=.*[A-Z])(?=.*\\d).{8,}$", {"Abcdefg1", "1234567Z"}, {"abcdefgh", "Abcdef1", "ABCDEFGH"}},
    {"^(?!\\.)(?!.*\\.\\.)[a-z.]+@b$", {"a.b@b", "a@b"}, {".a@b", "a..b@b"}},
    {"^(?:(?!--)[a-z-])*$", {"", "a-b", "-"}, {"--", "a--b"}},
    {"a(?=b)", {"ab", "xxab"}, {"a", "ac", "ba"}},
    {"(?<=\\$)\\d+", {"$5", "a$12"}, {"5", "$x"}},
    {"(?<!\\$)\\b\\d+$", {"5", "a 12"}, {"$5", "x$12"}},
    {"^(?=(?!ab)a.)(a|b)+$", {"aa", "aab"}, {"ab", "ba", "a"}},
    {"(?=a)(?=b)", {NULL}, {"a", "b", "ab"}},
    {"^(a(?!c)|b){2,3}$", {"ab", "bab", "aaa"}, {"a", "ac", "acb"}},
    {"(?=)x(?!)|y", {"y", "xy"}, {"x", ""}},
    /* places */
    {"(?i)^abc$", {"ABC", "aBc"}, {"abcd", "xabc"}},
    {"(^a|b)c", {"ac", "xbc"}, {"xac", "c"}},
    {"(a$|b)", {"a", "xa", "bx"}, {"ax"}},
    {"\\bfoo\\b", {"a foo b", "foo", "-foo-"}, {"afoob", "foo_", "xfoo"}},
    {"x\\By", {"xy"}, {"x y"}},
    {"\\A[a-z]+\\Z", {"abc"}, {"A", "abc1", "abc\n"}},
    {"\\Aa\\z", {"a"}, {"ba", "ab"}},
    {"(?m)^b$", {"b", "a\nb", "b\na"}, {"ab", "a\nbc"}},
    {"(a|^)(b|$)", {"", "ab", "b", "xa"}, {"xb"}},
    {"^$", {""}, {"a", "\n"}},
    {"(a|b)$^|c", {"c"}, {"a", "b", ""}},
    /* Unicode */
    {"^\\p{L}+$", {"a\xC3\xA9", "\xE4\xB8\xAD"}, {"1", "", "a1"}},
    {"^\\p{Letter}\\P{Letter}$", {"a1"}, {"aa", "11"}},
    {"^\\p{Lu}\\p{Script=Greek}+$", {"A\xCE\xB1"}, {"a\xCE\xB1", "Ab"}},
    {"^[\\p{Nd}_]+\\pL$", {"1_a", "\xD9\xA3x"}, {"a", "1"}},
    {"^\\p{General_Category=Decimal_Number}\\p{^Nd}$", {"1x"}, {"11"}},
    {"^[^\\p{L}]$", {"1", "-"}, {"a", "\xC3\xA9"}},
    {"^\\p{Alphabetic}\\p{IsLu}\\p{ASCII}$", {"aBc"}, {"abc", "aB\xC3\xA9"}},
    {"(?i)^\xC3\x89+$", {"\xC3\xA9\xC3\x89"}, {"e", "E"}},
    {"(?i)^[\xC3\xA0-\xC3\xA9]$", {"\xC3\x80", "\xC3\xA9"}, {"a", "\xC3\x90"}},
    /* notations */
    {"^(?<year>\\d{4})(?P<m>-\\d\\d)(?#comment)$", {"2020-12"}, {"2020"}},
    {"^(?:a(?i)b)c$", {"aBc", "abc"}, {"ABc", "abC"}},
    {"^\\cA\\e\\x41\\u0042\\u{43}$", {"\x01\x1b" "ABC"}, {"ABC"}},
};

static void test_patterns(void)
{
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        json_t *schema = json_pack("{s[{ssss}{ss}]}", "anyOf", "type", "string", "pattern",
                                   cases[i].pattern, "type", "null");
        char *text = json_dumps(schema, 0);
        check_takes(cases[i].pattern, text, cases[i].in, cases[i].out, TEXTS_MAX);
        memory_release(text);
        json_decref(schema);
    }
}

/* Any number of places gives an error, or none: never a wrong result. */
static void test_many_places(void)
{
    char pattern[256] = "^";
    cerium_error err = {.status = 0};
    grammar *g = NULL;
    for (int i = 0; i < 12; i++) snprintf(pattern + strlen(pattern), 8, "(?!%c)", 'a' + i);
    TEST_CHECK(grammar_compile(&g, CERIUM_GRAMMAR_REGEX, view_of(pattern), &err) ==
               CERIUM_ERR_CAPACITY);
    TEST_CHECK_THAT(strstr(err.message, "more than 10 places"), "%s", err.message);
}

int main(void)
{
    TEST_RUN(test_patterns);
    TEST_RUN(test_many_places);
    return unit_report("regex");
}
