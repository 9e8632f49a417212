/* test_json.c - JSON of other programs: numbers of any size, a byte-order mark, Python's words. */
#include <float.h>
#include <math.h>

#include "base/json.h"
#include "base/memory.h"

#include "unit.h"

static const struct {
    const char *text;
    double value;
} numbers[] = {
    {"1000000000000000019884624838656", 1e30},
    {"-1000000000000000019884624838656", -1e30},
    {"18446744073709551615", 18446744073709551615.0},
    {"9223372036854775808", 9223372036854775808.0},
    {"-9223372036854775809", -9223372036854775809.0},
    {"1e400", DBL_MAX},
    {"-1.5E+400", -DBL_MAX},
    {"1e-400", 0},
    {"9223372036854776000", 9223372036854776000.0},
};

static void test_numbers(void)
{
    for (size_t i = 0; i < ARRAY_LEN(numbers); i++) {
        char text[128];
        json_error_t why;
        snprintf(text, sizeof text, "{\"a\":[1,\"2e999\\\"3\",%s],\"b\":7}", numbers[i].text);
        json_t *root = json_read(view_of(text), 0, &why);
        const json_t *a = json_object_get(root, "a");
        TEST_CHECK_THAT(root, "%s: %s", text, why.text);
        TEST_CHECK(json_is_real(json_array_get(a, 2)));
        TEST_CHECK(json_real_value(json_array_get(a, 2)) == numbers[i].value);
        TEST_CHECK(json_integer_value(json_array_get(a, 0)) == 1);
        TEST_CHECK(!strcmp(json_string_value(json_array_get(a, 1)), "2e999\"3"));
        TEST_CHECK(json_integer_value(json_object_get(root, "b")) == 7);
        json_decref(root);
    }
    json_t *digits = NULL; /* more than any number type holds */
    bytes text = {.max = 4096};
    CHECK(!bytes_append(&text, "[1", 2));
    for (int i = 0; i < 2000; i++) CHECK(!bytes_append(&text, "0", 1));
    CHECK(!bytes_append(&text, "]", 1));
    digits = json_read((view){text.ptr, text.len}, 0, NULL);
    TEST_CHECK(json_real_value(json_array_get(digits, 0)) == DBL_MAX);
    json_decref(digits);
    bytes_free(&text);
}

/* Values that fit are unchanged: an integer stays one, to the last digit. */
static void test_exact(void)
{
    json_t *root = json_read(VIEW("[9223372036854775807,-9223372036854775808,1e30,0.1,1e999]"), 0,
                             NULL);
    TEST_CHECK(json_integer_value(json_array_get(root, 0)) == INT64_MAX);
    TEST_CHECK(json_integer_value(json_array_get(root, 1)) == INT64_MIN);
    TEST_CHECK(json_real_value(json_array_get(root, 2)) == 1e30);
    TEST_CHECK(json_real_value(json_array_get(root, 3)) == 0.1);
    json_decref(root);
}

static void test_mark(void)
{
    json_t *root = json_read(VIEW("\xEF\xBB\xBF{\"a\":1}"), 0, NULL);
    TEST_CHECK(json_integer_value(json_object_get(root, "a")) == 1);
    json_decref(root);
    TEST_CHECK(!json_read(VIEW("\xEF\xBB\xBF"), 0, NULL));
    TEST_CHECK(!json_read(VIEW("{\xEF\xBB\xBF\"a\":1}"), 0, NULL));
}

static void test_python(void)
{
    const view text = VIEW("{\"a\":Infinity,\"b\":-Infinity,\"c\":NaN,\"d\":\"NaN\",\"e\":1e999}");
    json_t *root = json_read(text, JSON_READ_PYTHON, NULL);
    TEST_CHECK(json_real_value(json_object_get(root, "a")) == DBL_MAX);
    TEST_CHECK(json_real_value(json_object_get(root, "b")) == -DBL_MAX);
    TEST_CHECK(json_is_null(json_object_get(root, "c")));
    TEST_CHECK(json_is_string(json_object_get(root, "d")));
    json_decref(root);
    TEST_CHECK(!json_read(text, 0, NULL)); /* in a request: not JSON */
}

/* NULs in names, which jansson does not have: U+FFFD; those of values stay. */
static void test_names(void)
{
    static const char text[] = "{\"a\\u0000b\" : {\"\\\\u0000\":1,\"\\u0000\":2},"
                               "\"c\": \"\\u0000:\","
                               "\"d\":[\"x\\u0000\",1e999]}";
    json_t *root = json_read(VIEW(text), JSON_ALLOW_NUL, NULL);
    const json_t *first = json_object_get(root, "a\xEF\xBF\xBD" "b");
    TEST_CHECK(json_integer_value(json_object_get(first, "\\u0000")) == 1);
    TEST_CHECK(json_integer_value(json_object_get(first, "\xEF\xBF\xBD")) == 2);
    TEST_CHECK(json_string_length(json_object_get(root, "c")) == 2);
    TEST_CHECK(json_string_length(json_array_get(json_object_get(root, "d"), 0)) == 2);
    json_decref(root);
    static const char *const broken[] = {"{\"\\u0000", "{\"\\u0000\":", "{\"\\u0000\":\"\\"};
    for (size_t i = 0; i < ARRAY_LEN(broken); i++)
        TEST_CHECK(!json_read(view_of(broken[i]), JSON_ALLOW_NUL, NULL));
}

static const struct {
    const char *text, *written;
} written[] = {
    {"0.1", "0.1"},
    {"1.0", "1.0"},
    {"-0.0", "-0.0"},
    {"0.30000000000000004", "0.30000000000000004"},
    {"1e30", "1e+30"},
    {"1e15", "1e+15"},
    {"9223372036854775807", "9223372036854775807"},
    {"9223372036854775808", "9223372036854775808"},
    {"-9223372036854777856", "-9223372036854777856"},
    {"18446744073709551615", "18446744073709551615"},
    {"36893488147419103232", "36893488147419103232"},
    {"-1e400", "-1.7976931348623157e+308"},
};

/* A number is written in the digits that were read, as far as a double has them. */
static void test_written(void)
{
    for (size_t i = 0; i < ARRAY_LEN(written); i++) {
        char number[JSON_NUMBER_BYTES];
        json_t *value = json_read(view_of(written[i].text), JSON_DECODE_ANY, NULL);
        CHECK(value);
        json_number_text(number, value);
        TEST_CHECK_THAT(!strcmp(number, written[i].written), "%s: %s", written[i].text, number);
        json_decref(value);
    }
}

static void test_refusals(void)
{
    static const char *const texts[] = {"", "[1e999", "[--99999999999999999999]", "{\"a\":1e999,}",
                                        "[01e999]", "[1e999e5]", "[99999999999999999999.]"};
    for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
        json_error_t why = {.text = ""};
        TEST_CHECK_THAT(!json_read(view_of(texts[i]), 0, &why), "%s", texts[i]);
        TEST_CHECK(why.text[0]);
    }
}

static void test_memory(void)
{
    long live = memory_live();
    json_error_t why;
    memory_fail_at(0);
    TEST_CHECK(!json_read(VIEW("[99999999999999999999]"), 0, &why));
    memory_fail_at(-1);
    TEST_CHECK(json_error_code(&why) == json_error_out_of_memory && memory_live() == live);
}

int main(void)
{
    TEST_RUN(test_numbers);
    TEST_RUN(test_exact);
    TEST_RUN(test_mark);
    TEST_RUN(test_python);
    TEST_RUN(test_names);
    TEST_RUN(test_written);
    TEST_RUN(test_refusals);
    TEST_RUN(test_memory);
    return unit_report("json");
}
