/* jinja_tests.c - owns the tests, which come after `is`. */
#include "template/jinja_value.h"

/* Tests of v alone; the others compare a and b. */
typedef enum {
    TEST_DEFINED, TEST_UNDEFINED, TEST_NONE, TEST_STRING, TEST_NUMBER, TEST_INTEGER, TEST_FLOAT,
    TEST_BOOLEAN, TEST_TRUE, TEST_FALSE, TEST_MAPPING, TEST_SEQUENCE, TEST_ITERABLE,
    TEST_CALLABLE, TEST_ODD, TEST_EVEN, TEST_DIVISIBLE, TEST_UPPER, TEST_LOWER, TEST_SAME,
    TEST_EQ, TEST_NE, TEST_LT, TEST_LE, TEST_GT, TEST_GE, TEST_IN, TEST_FILTER, TEST_TEST,
    TEST_ESCAPED,
} test;

static const struct {
    const char *name;
    test which;
} tests[] = {
    {"defined", TEST_DEFINED}, {"undefined", TEST_UNDEFINED}, {"none", TEST_NONE},
    {"string", TEST_STRING}, {"number", TEST_NUMBER}, {"integer", TEST_INTEGER},
    {"float", TEST_FLOAT}, {"boolean", TEST_BOOLEAN}, {"true", TEST_TRUE}, {"false", TEST_FALSE},
    {"mapping", TEST_MAPPING}, {"sequence", TEST_SEQUENCE}, {"iterable", TEST_ITERABLE},
    {"callable", TEST_CALLABLE}, {"odd", TEST_ODD}, {"even", TEST_EVEN},
    {"divisibleby", TEST_DIVISIBLE}, {"upper", TEST_UPPER}, {"lower", TEST_LOWER},
    {"sameas", TEST_SAME}, {"eq", TEST_EQ}, {"equalto", TEST_EQ}, {"==", TEST_EQ},
    {"ne", TEST_NE}, {"!=", TEST_NE}, {"lt", TEST_LT}, {"lessthan", TEST_LT}, {"<", TEST_LT},
    {"le", TEST_LE}, {"<=", TEST_LE}, {"gt", TEST_GT}, {"greaterthan", TEST_GT}, {">", TEST_GT},
    {"ge", TEST_GE}, {">=", TEST_GE}, {"in", TEST_IN}, {"filter", TEST_FILTER},
    {"test", TEST_TEST}, {"escaped", TEST_ESCAPED},
};

uint16_t jinja_find_test(view name)
{
    for (size_t i = 0; i < ARRAY_LEN(tests); i++)
        if (view_equal(name, view_of(tests[i].name))) return (uint16_t)i;
    return CALLEE_NONE;
}

static int64_t whole(jinja_run *r, jinja_value v, uint32_t line)
{
    if (jinja_is(v, KIND_INT)) return v.integer;
    if (jinja_is(v, KIND_BOOL)) return v.truth;
    jinja_fail(r, line, "this test wants a whole number, not %s", jinja_kind_name(v));
    return 1;
}

static bool has_case(jinja_run *r, jinja_value v, char how)
{
    jinja_value s = jinja_string(r, v);
    bool letters = false;
    for (size_t i = 0; i < s.len; i++) {
        bool upper = s.text[i] >= 'A' && s.text[i] <= 'Z';
        bool lower = s.text[i] >= 'a' && s.text[i] <= 'z';
        if (how == 'u' ? lower : upper) return false;
        letters = letters || upper || lower;
    }
    return letters;
}

static bool same(jinja_value a, jinja_value b)
{
    if (a.kind != b.kind) return false;
    if (a.kind == KIND_BOOL) return a.truth == b.truth;
    if (a.kind == KIND_NONE) return true;
    return a.at == b.at;
}

static bool compares(jinja_run *r, test which, jinja_value v, const jinja_args *args)
{
    jinja_value b = jinja_arg(args, 0, NULL, jinja_undefined(VIEW("")));
    switch (which) {
    case TEST_EQ: return jinja_equal(r, v, b);
    case TEST_NE: return !jinja_equal(r, v, b);
    case TEST_LT: return jinja_compare(r, v, b) < 0;
    case TEST_LE: return jinja_compare(r, v, b) <= 0;
    case TEST_GT: return jinja_compare(r, v, b) > 0;
    case TEST_GE: return jinja_compare(r, v, b) >= 0;
    case TEST_IN: return jinja_contains(r, b, v);
    case TEST_SAME: return same(v, b);
    case TEST_FILTER:
        return jinja_is(v, KIND_STRING) && jinja_find_filter(jinja_view(v)) != CALLEE_NONE;
    case TEST_TEST:
        return jinja_is(v, KIND_STRING) && jinja_find_test(jinja_view(v)) != CALLEE_NONE;
    default: break;
    }
    int64_t n = whole(r, b, args->line);
    if (n) return whole(r, v, args->line) % n == 0;
    jinja_fail(r, args->line, "divisibleby 0");
    return false;
}

bool jinja_run_test(jinja_run *r, uint16_t index, jinja_value v, const jinja_args *args)
{
    CHECK(index < ARRAY_LEN(tests));
    switch (tests[index].which) {
    case TEST_DEFINED: return v.kind != KIND_UNDEFINED;
    case TEST_UNDEFINED: return v.kind == KIND_UNDEFINED;
    case TEST_NONE: return v.kind == KIND_NONE;
    case TEST_STRING: return v.kind == KIND_STRING;
    case TEST_NUMBER: return jinja_is_number(v);
    case TEST_INTEGER: return v.kind == KIND_INT;
    case TEST_FLOAT: return v.kind == KIND_REAL;
    case TEST_BOOLEAN: return v.kind == KIND_BOOL;
    case TEST_TRUE: return v.kind == KIND_BOOL && v.truth;
    case TEST_FALSE: return v.kind == KIND_BOOL && !v.truth;
    case TEST_MAPPING: return v.kind == KIND_MAP;
    case TEST_SEQUENCE: /* len() and [] : text and maps have both */
        return jinja_is_sequence(v) || v.kind == KIND_STRING || v.kind == KIND_MAP ||
               v.kind == KIND_UNDEFINED;
    case TEST_ITERABLE:
        return jinja_is_sequence(v) || v.kind == KIND_STRING || v.kind == KIND_MAP ||
               v.kind == KIND_UNDEFINED || v.kind == KIND_LOOP;
    case TEST_CALLABLE:
        return v.kind == KIND_MACRO || v.kind == KIND_METHOD || v.kind == KIND_FUNCTION ||
               v.kind == KIND_UNDEFINED || v.kind == KIND_LOOP;
    case TEST_ODD: return whole(r, v, args->line) % 2 != 0;
    case TEST_EVEN: return whole(r, v, args->line) % 2 == 0;
    case TEST_UPPER: return has_case(r, v, 'u');
    case TEST_LOWER: return has_case(r, v, 'l');
    case TEST_ESCAPED: return v.safe;
    case TEST_DIVISIBLE:
    case TEST_SAME:
    case TEST_EQ:
    case TEST_NE:
    case TEST_LT:
    case TEST_LE:
    case TEST_GT:
    case TEST_GE:
    case TEST_IN:
    case TEST_FILTER:
    case TEST_TEST: return compares(r, tests[index].which, v, args);
    }
    return false;
}
