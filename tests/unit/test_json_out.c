/* test_json_out.c - numbers as text: reading gives back what was written. */
#include "protocol/json_out.h"

#include <math.h>

#include "../random.h"
#include "unit.h"

static json_out text = {.b = {.max = 64}};

static const char *written(void)
{
    json_out_put(&text, (view){"", 1});
    return text.b.ptr;
}

static void check_float(float value)
{
    json_out_clear(&text);
    json_out_float(&text, value);
    const char *at = written();
    char *end;
    float back = strtof(at, &end);
    TEST_CHECK_THAT(!*end && back == value, "%s for %.9g", at, (double)value);
    TEST_CHECK_THAT(isfinite(value) && strlen(at) <= 24, "%s for %.9g", at, (double)value);
}

/* All exponents, and around powers of ten, where the number of digits changes. */
static void test_floats(void)
{
    static const float some[] = {0.1f, -0.1f, 1e-4f, 9.9999e-5f, 0.5f, -13.815511f, 99999992.0f,
                                 8388607.5f, 1e8f, 1e9f, 0, -0.0f, 1.17549435e-38f, 1e-45f};
    for (size_t i = 0; i < ARRAY_LEN(some); i++) check_float(some[i]);
    for (float ten = 1e-5f; ten < 1e9f; ten *= 10) {
        float below = ten, above = ten;
        for (int i = 0; i < 100; i++) {
            check_float(below = nextafterf(below, 0));
            check_float(-(above = nextafterf(above, INFINITY)));
        }
    }
    for (int i = 0; i < 200000; i++) {
        uint32_t bits = random_u32();
        float value;
        memcpy(&value, &bits, sizeof value);
        if (isfinite(value)) check_float(value);
        check_float(-(float)random_u32() / (float)(1u << random_below(30)));
    }
}

static void test_forms(void)
{
    static const struct { float value; const char *text; } forms[] = {
        {0.5f, "0.5"}, {-0.25f, "-0.25"}, {-12.0f, "-12"}, {0, "0"}, {-1.5f, "-1.5"},
        {0.001953125f, "0.001953125"}, {0.1f, "0.100000001"},
    };
    for (size_t i = 0; i < ARRAY_LEN(forms); i++) {
        json_out_clear(&text);
        json_out_float(&text, forms[i].value);
        const char *at = written();
        TEST_CHECK_THAT(!strcmp(at, forms[i].text), "%s, not %s", at, forms[i].text);
    }
    json_out_clear(&text);
    json_out_float(&text, -INFINITY);
    TEST_CHECK(!strcmp(written(), "null"));
}

int main(void)
{
    random_state = 1;
    TEST_RUN(test_floats);
    TEST_RUN(test_forms);
    json_out_free(&text);
    return unit_report("json_out");
}
