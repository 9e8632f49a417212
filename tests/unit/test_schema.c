/* test_schema.c - schema keywords that refer to other members and items: which documents fit them.
 * "Invalid" is meant by the specification; "order" marks documents that fit it and not us. */
#include "base/memory.h"
#include "sampling/matcher.h"

#include "unit.h"

enum { TEXTS_MAX = 8 };

static const struct {
    const char *schema;
    const char *in[TEXTS_MAX], *out[TEXTS_MAX];
} cases[] = {
    /* contains */
    {"{\"contains\":{\"type\":\"integer\",\"minimum\":5}}",
     {"[5]", "[1,5]", "[\"a\",5,1]", "{}", "1"},
     {"[]", "[1]", "[\"5\"]"}},
    {"{\"type\":\"array\",\"contains\":{\"const\":1},\"minContains\":2,\"maxContains\":3}",
     {"[1,1]", "[0,1,1,2,1]"},
     {"[1]", "[1,1,1,1]", "[1,0,1,1,1]", "[]"}},
    {"{\"type\":\"array\",\"contains\":{\"const\":1},\"minContains\":0,\"maxContains\":1}",
     {"[]", "[0]", "[1]", "[0,1,0]"},
     {"[1,1]", "[1,0,1]"}},
    {"{\"type\":\"array\",\"contains\":{\"const\":1},\"minContains\":0}",
     {"[]", "[0]", "[1,1]"},
     {"1"}},
    {"{\"type\":\"array\",\"items\":{\"enum\":[1,2]},\"contains\":{\"const\":1},\"minItems\":2,"
     "\"maxItems\":3}",
     {"[1,2]", "[2,1]", "[2,2,1]", "[1, 1, 1]"},
     {"[1]", "[2,2]", "[2,2,2]", "[1,1,1,1]", "[1,3]"}},
    {"{\"type\":\"array\",\"prefixItems\":[{\"type\":\"null\"},{\"const\":1}],\"items\":false,"
     "\"contains\":{\"const\":1}}",
     {"[null,1]"},
     {"[null]", "[]", "[null,1,1]", "[1,1]"}},
    {"{\"type\":\"array\",\"contains\":{\"const\":1},\"minContains\":3,\"maxItems\":2}",
     {NULL},
     {NULL}},
    /* uniqueItems */
    {"{\"type\":\"array\",\"items\":{\"enum\":[1,\"a\",1.0,null]},\"uniqueItems\":true}",
     {"[]", "[null,1,\"a\"]", "[\"a\"]"},
     {"[1,1]", "[1,1.0]", "[\"a\",1,\"a\"]", "[2]"}},
    {"{\"type\":\"array\",\"items\":{\"enum\":[1,2,3]},\"uniqueItems\":true,\"minItems\":2,"
     "\"maxItems\":2}",
     {"[1,2]", "[3,1]"},
     {"[1]", "[1,1]", "[1,2,3]", "[]"}},
    {"{\"type\":\"array\",\"items\":{\"type\":\"boolean\"},\"uniqueItems\":true}",
     {"[]", "[true,false]", "[false]"},
     {"[true,true]", "[null]"}},
    {"{\"type\":\"array\",\"items\":{\"enum\":[1,2,3,4,5,6,7,8,9,10]},\"uniqueItems\":true,"
     "\"minItems\":2,\"maxItems\":3}",
     {"[1,10]", "[2,3,9]"},
     {"[1]", "[1,1]", "[1,2,3,4]", "[2,1]" /* order */}},
    {"{\"type\":\"array\",\"uniqueItems\":true,\"maxItems\":1}", {"[]", "[{}]"}, {"[1,2]"}},
    {"{\"type\":\"array\",\"uniqueItems\":false}", {"[1,1]"}, {"1"}},
    /* propertyNames */
    {"{\"type\":\"object\",\"propertyNames\":{\"pattern\":\"^[a-z]+$\",\"maxLength\":3}}",
     {"{}", "{\"abc\":1}", "{\"a\":1,\"b\":{\"X\":1}}"},
     {"{\"abcd\":1}", "{\"A\":1}", "{\"a\":1,\"9\":1}"}},
    {"{\"propertyNames\":{\"anyOf\":[{\"enum\":[\"x\",\"y\"]},{\"const\":\"zz\"}]},"
     "\"properties\":{\"x\":{\"type\":\"null\"},\"w\":{}}}",
     {"{\"x\":null}", "{\"y\":1,\"zz\":2}", "1"},
     {"{\"x\":1}", "{\"w\":1}", "{\"z\":1}"}},
    {"{\"type\":\"object\",\"propertyNames\":{\"not\":{\"enum\":[\"a\",\"b\"]}}}",
     {"{\"ab\":1}", "{}"},
     {"{\"a\":1}", "{\"c\":1,\"b\":1}"}},
    {"{\"type\":\"object\",\"propertyNames\":false}", {"{}"}, {"{\"a\":1}"}},
    {"{\"type\":\"object\",\"propertyNames\":{\"type\":\"integer\"}}", {"{}"}, {"{\"a\":1}"}},
    {"{\"type\":\"object\",\"propertyNames\":{\"maxLength\":1},\"required\":[\"aa\"]}",
     {NULL},
     {NULL}},
    /* unevaluatedProperties */
    {"{\"type\":\"object\",\"allOf\":[{\"properties\":{\"a\":{}}}],\"properties\":{\"b\":{}},"
     "\"unevaluatedProperties\":false}",
     {"{}", "{\"b\":1,\"a\":1}"},
     {"{\"c\":1}", "{\"b\":1,\"c\":1}"}},
    {"{\"type\":\"object\",\"allOf\":[{\"properties\":{\"a\":{}}},{\"unevaluatedProperties\":"
     "false}]}",
     {"{}"},
     {"{\"a\":1}", "{\"b\":1}"}},
    {"{\"type\":\"object\",\"anyOf\":[{\"properties\":{\"a\":{\"const\":1}},\"required\":[\"a\"]},"
     "{\"properties\":{\"b\":{\"const\":1}},\"required\":[\"b\"]}],\"unevaluatedProperties\":"
     "{\"type\":\"null\"}}",
     {"{\"a\":1}", "{\"b\":1}", "{\"a\":1,\"c\":null}", "{\"a\":1,\"b\":null}"},
     {"{\"a\":1,\"c\":1}", "{\"a\":1,\"b\":2}", "{}"}},
    {"{\"type\":\"object\",\"not\":{\"properties\":{\"a\":{\"const\":1}},\"required\":[\"a\"]},"
     "\"unevaluatedProperties\":false}",
     {"{}"},
     {"{\"a\":2}", "{\"a\":1}"}},
    {"{\"type\":\"object\",\"if\":{\"properties\":{\"k\":{\"const\":1}},\"required\":[\"k\"]},"
     "\"then\":{\"properties\":{\"a\":{}}},\"else\":{\"properties\":{\"b\":{}}},"
     "\"unevaluatedProperties\":false}",
     {"{\"k\":1,\"a\":0}", "{\"b\":0}", "{\"k\":1}", "{}"},
     {"{\"k\":2}", "{\"k\":1,\"b\":0}", "{\"a\":0}"}},
    {"{\"type\":\"object\",\"$ref\":\"#/$defs/base\",\"$defs\":{\"base\":{\"patternProperties\":"
     "{\"^x\":{\"type\":\"integer\"}}}},\"unevaluatedProperties\":{\"type\":\"string\"}}",
     {"{\"x\":1}", "{\"x1\":1,\"y\":\"a\"}"},
     {"{\"x\":\"a\"}", "{\"y\":1}"}},
    {"{\"type\":\"object\",\"allOf\":[{\"additionalProperties\":{\"type\":\"integer\"}}],"
     "\"unevaluatedProperties\":false}",
     {"{\"a\":1}"},
     {"{\"a\":\"b\"}"}},
    /* unevaluatedItems */
    {"{\"type\":\"array\",\"prefixItems\":[{\"type\":\"string\"}],\"unevaluatedItems\":false}",
     {"[]", "[\"a\"]"},
     {"[1]", "[\"a\",1]"}},
    {"{\"type\":\"array\",\"allOf\":[{\"prefixItems\":[true,{\"type\":\"integer\"}]}],"
     "\"unevaluatedItems\":{\"type\":\"null\"}}",
     {"[\"a\",1,null,null]", "[0]"},
     {"[0,\"a\"]", "[0,1,2]"}},
    {"{\"type\":\"array\",\"contains\":{\"type\":\"string\"},\"unevaluatedItems\":{\"type\":"
     "\"integer\"}}",
     {"[\"a\"]", "[1,\"a\",\"b\",2]"},
     {"[]", "[1]", "[\"a\",null]"}},
    {"{\"type\":\"array\",\"allOf\":[{\"items\":{\"type\":\"integer\"}}],\"unevaluatedItems\":"
     "false}",
     {"[]", "[1,2]"},
     {"[\"a\"]"}},
    /* bounds beyond all numbers do not count, and those of 64 bits are exact */
    {"{\"type\":\"integer\",\"minimum\":-9223372036854775808,\"maximum\":9223372036854775807}",
     {"5", "-5", "123456789012345678"},
     {"1.5"}},
    {"{\"type\":\"integer\",\"minimum\":0,\"maximum\":18446744073709551615}", {"5", "0"}, {"-1"}},
    {"{\"type\":\"number\",\"minimum\":-3.4028235e38,\"maximum\":1e400}", {"5.5", "-7"}, {"\"\""}},
    {"{\"type\":\"integer\",\"minimum\":9007199254740993,\"maximum\":9007199254740995}",
     {"9007199254740993", "9007199254740995"},
     {"9007199254740992", "9007199254740996"}},
    {"{\"type\":\"integer\",\"exclusiveMaximum\":-999999999999999998}",
     {"-999999999999999999"},
     {"-999999999999999998"}},
    {"{\"type\":\"number\",\"exclusiveMinimum\":1e-12}", {"0.5", "0.00000000001"},
     {"0", "0.0000000000005", "-1"}},
    {"{\"type\":\"number\",\"minimum\":5e-324}", {"0.5", "0.000000001"}, {"0", "-1"}},
    {"{\"type\":\"number\",\"maximum\":5e-324}", {"0", "-1"}, {"0.5"}},
    {"{\"type\":\"number\",\"maximum\":-5e-324}", {"-1", "-0.001"}, {"0", "0.5"}},
    {"{\"type\":\"string\",\"maxLength\":2147483647,\"minLength\":1}", {"\"a\""}, {"\"\""}},
    {"{\"type\":\"array\",\"maxItems\":1e30}", {"[1,2]"}, {"1"}},
    {"{\"type\":\"number\",\"not\":{\"enum\":[1e300,2]}}", {"1"}, {"2"}},
};

static bool takes(matcher *w, const char *text)
{
    matcher_begin(w, 0);
    return matcher_accept(w, 0, 0, view_of(text)) && matcher_is_complete(w, 0);
}

/* No text fits: it is refused. */
static void test_cases(void)
{
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        cerium_error err = {.status = 0};
        grammar *g = NULL;
        matcher *w = NULL;
        int status =
            grammar_compile(&g, CERIUM_GRAMMAR_JSON_SCHEMA, view_of(cases[i].schema), &err);
        TEST_CHECK_THAT(!status == (cases[i].in[0] != NULL), "%s: %s", cases[i].schema,
                        err.message);
        if (status) continue;
        CHECK(!matcher_open(&w, g, 0, 0, 0, &err));
        for (size_t k = 0; k < TEXTS_MAX && cases[i].in[k]; k++)
            TEST_CHECK_THAT(takes(w, cases[i].in[k]), "%s: not %s", cases[i].schema,
                            cases[i].in[k]);
        for (size_t k = 0; k < TEXTS_MAX && cases[i].out[k]; k++)
            TEST_CHECK_THAT(!takes(w, cases[i].out[k]), "%s: %s", cases[i].schema,
                            cases[i].out[k]);
        matcher_close(&w);
        grammar_free(&g);
    }
}

/* Every allocation fails in turn: an error, and nothing left over. */
static void test_memory(void)
{
    static const size_t some[] = {1, 4, 7, 14, 21, 27};
    for (size_t i = 0; i < ARRAY_LEN(some); i++) {
        int status = CERIUM_ERR_MEMORY;
        long live = memory_live(), n = 0;
        for (; status == CERIUM_ERR_MEMORY && n < 2000; n++) {
            cerium_error err = {.status = 0};
            grammar *g = NULL;
            memory_fail_at(n);
            status = grammar_compile(&g, CERIUM_GRAMMAR_JSON_SCHEMA,
                                     view_of(cases[some[i]].schema), &err);
            memory_fail_at(-1);
            grammar_free(&g);
            TEST_CHECK(memory_live() == live);
        }
        TEST_CHECK_THAT(status == CERIUM_OK && n > 10, "%s: %d", cases[some[i]].schema, status);
    }
}

int main(void)
{
    TEST_RUN(test_cases);
    TEST_RUN(test_memory);
    return unit_report("schema");
}
