/* schema_value.c - const and enum: literal values, and whether schemas can share one. */
#include "base/json.h"
#include "sampling/schema.h"

static uint32_t schema_value_text(schema_compiler *s, const char *what)
{
    return expr_text(s->b, view_of(what));
}

/* A value, literally. */
static uint32_t schema_literal(schema_compiler *s, const json_t *value);

/* Lists of members in their order; as deep as jansson reads. */
static uint32_t schema_value_container(schema_compiler *s, const json_t *value)
{
    grammar_builder *b = s->b;
    bool is_object = json_is_object(value);
    uint32_t blank = expr_call(b, s->blank), n = 0;
    bytes list = {.max = GRAMMAR_PARTS_MAX * sizeof(uint32_t)};
    const char *name;
    json_t *each;
    size_t at;
    if (is_object) {
        json_object_foreach((json_t *)value, name, each)
        {
            uint32_t e =
                EXPR_SEQ(b, schema_value_text(s, "\""), expr_literal(b, view_of(name), CODES_JSON),
                         schema_value_text(s, "\":"),
                         expr_repeat(b, schema_value_text(s, " "), 0, 1), schema_literal(s, each));
            uint32_t *to = builder_add(b, &list, 2 * sizeof *to);
            if (to) to[0] = e, to[1] = LIST_MUST, n++;
        }
    }
    json_array_foreach(value, at, each)
    {
        uint32_t e = schema_literal(s, each), *to = builder_add(b, &list, 2 * sizeof *to);
        if (to) to[0] = e, to[1] = LIST_MUST, n++;
    }
    uint32_t inside =
        expr_list(b, EXPR_SEQ(b, schema_value_text(s, ","), blank), (const uint32_t *)list.ptr, n);
    bytes_free(&list);
    if (n > 0) inside = EXPR_SEQ(b, blank, inside, blank);
    return EXPR_SEQ(b, schema_value_text(s, is_object ? "{" : "["), inside,
                    schema_value_text(s, is_object ? "}" : "]"));
}

static uint32_t schema_literal(schema_compiler *s, const json_t *value)
{
    if (json_is_object(value) || json_is_array(value)) return schema_value_container(s, value);
    if (json_is_string(value)) {
        view v = {json_string_value(value), json_string_length(value)};
        return EXPR_SEQ(s->b, schema_value_text(s, "\""), expr_literal(s->b, v, CODES_JSON),
                        schema_value_text(s, "\""));
    }
    char number[JSON_NUMBER_BYTES];
    if (json_is_number(value)) json_number_text(number, value);
    return schema_value_text(s, json_is_number(value) ? number
                                : json_is_null(value) ? "null"
                                : json_is_true(value) ? "true"
                                                      : "false");
}

/* Numbers are equal by value, so are those within lists and objects. */
static bool schema_value_equal(const json_t *x, const json_t *y)
{
    if (json_is_number(x) && json_is_number(y)) {
        if (json_is_integer(x) && json_is_integer(y))
            return json_integer_value(x) == json_integer_value(y);
        return json_number_value(x) == json_number_value(y);
    }
    return json_equal(x, y);
}

static bool is_in(const json_t *value, const json_t *list)
{
    const json_t *each;
    size_t at;
    json_array_foreach(list, at, each)
    {
        if (schema_value_equal(value, each)) return true;
    }
    return false;
}

/* Whether the const and enum of all schemas have it. */
static bool schema_value_is_allowed(const conjuncts *of, const json_t *value)
{
    for (uint32_t i = 0; i < of->n; i++) {
        const json_t *only = json_object_get(of->of[i].schema, "const");
        const json_t *list = json_object_get(of->of[i].schema, "enum");
        const json_t *none = json_object_get(of->of[i].schema, SCHEMA_NOT_IN);
        if (only && !schema_value_equal(only, value)) return false;
        if (json_is_array(list) && !is_in(value, list)) return false;
        if (is_in(value, none)) return false;
    }
    return true;
}

bool schema_word_fits(const conjuncts *of, const char *word)
{
    const json_t *value;
    for (size_t at = 0; (value = schema_forbidden(of, TYPE_NULL | TYPE_BOOLEAN, &at));) {
        const char *is = json_is_null(value) ? "null" : json_is_true(value) ? "true" : "false";
        if (!strcmp(is, word)) return false;
    }
    return true;
}

const json_t *schema_forbidden(const conjuncts *of, unsigned types, size_t *at)
{
    size_t seen = 0, k;
    const json_t *each;
    for (uint32_t i = 0; i < of->n; i++) {
        json_array_foreach(json_object_get(of->of[i].schema, SCHEMA_NOT_IN), k, each)
        {
            if (!(schema_type_of(each) & types) || seen++ < *at) continue;
            *at = seen;
            return each;
        }
    }
    return NULL;
}

/* A value that const and enum allow, as far as other keys allow it. */
static uint32_t schema_value_restricted(schema_compiler *s, const conjuncts *of,
                                        const json_t *value)
{
    static const char *const of_objects[] = {"properties",           "required",
                                             "additionalProperties", "patternProperties",
                                             "minProperties",        "maxProperties",
                                             "propertyNames",        "unevaluatedProperties"};
    static const char *const of_arrays[] = {"items",       "prefixItems", "additionalItems",
                                            "minItems",    "maxItems",    "contains",
                                            "uniqueItems", "unevaluatedItems"};
    grammar_builder *b = s->b;
    uint32_t e = schema_literal(s, value);
    if ((json_is_object(value) && schema_has(of, of_objects, ARRAY_LEN(of_objects))) ||
        (json_is_array(value) && schema_has(of, of_arrays, ARRAY_LEN(of_arrays)))) {
        schema_lack(s, "enum", "of objects and arrays: the conditions beside it do not count");
        return e;
    }
    if (json_is_string(value) && !schema_string_is_any(of)) {
        uint32_t quote = schema_value_text(s, "\"");
        return expr_and(b, e, EXPR_SEQ(b, quote, schema_string_body(s, of), quote));
    }
    if (json_is_number(value) && !schema_number_is_any(of))
        return expr_and(b, e, schema_number(s, of, schema_type_of(value)));
    return e;
}

uint32_t schema_values(schema_compiler *s, const conjuncts *of, unsigned types, bool *is_some)
{
    bytes parts = {.max = GRAMMAR_PARTS_MAX * sizeof(uint32_t)};
    const json_t *only = NULL, *list = NULL, *each;
    size_t at;
    for (uint32_t i = 0; i < of->n && !only; i++) {
        only = json_object_get(of->of[i].schema, "const");
        if (!list) list = json_object_get(of->of[i].schema, "enum");
        if (list && !json_is_array(list)) {
            schema_refuse(s, "enum", "must be a list of values");
            list = NULL;
        }
    }
    *is_some = only || list;
    if (!*is_some) return EXPR_NEVER;
    if (only)
        return schema_value_is_allowed(of, only) && (schema_type_of(only) & types)
                   ? schema_value_restricted(s, of, only)
                   : EXPR_NEVER;
    json_array_foreach(list, at, each)
    {
        if (!(schema_type_of(each) & types) || !schema_value_is_allowed(of, each)) continue;
        uint32_t e = schema_value_restricted(s, of, each),
                 *to = builder_add(s->b, &parts, sizeof *to);
        if (to) *to = e;
    }
    uint32_t e = expr_alt(s->b, (const uint32_t *)parts.ptr, parts.len / sizeof(uint32_t));
    bytes_free(&parts);
    return e;
}

/* ---- finite ---- */

static void schema_value_add_rule(schema_compiler *s, bytes *rules, uint32_t e)
{
    uint32_t *to = e == EXPR_NEVER ? NULL : builder_add(s->b, rules, sizeof *to);
    if (!to) return;
    *to = rule_new(s->b);
    rule_set(s->b, *to, e);
}

bool schema_finite(schema_compiler *s, const conjuncts *given, bytes *rules)
{
    static const char *const words[] = {"null", "true", "false"};
    conjuncts of = *given;
    schema_chosen chosen;
    unsigned types = TYPE_ALL;
    const json_t *list = NULL, *each;
    size_t at, before;
    schema_expand(s, &of);
    for (uint32_t i = 0; i < of.n && !s->b->status; i++) {
        types &= schema_types(s, of.of[i].schema);
        const json_t *own = json_object_get(of.of[i].schema, "enum");
        if (!list && json_is_array(own)) list = own;
        if (json_object_get(of.of[i].schema, "const")) return false; /* one value: no list */
    }
    if (s->b->status || schema_choice(s, &of, &chosen)) return false;
    if (!list && (types & ~(unsigned)(TYPE_NULL | TYPE_BOOLEAN))) return false;
    for (size_t i = 0; !list && i < ARRAY_LEN(words); i++)
        if ((types & (i ? TYPE_BOOLEAN : TYPE_NULL)) && schema_word_fits(&of, words[i]))
            schema_value_add_rule(s, rules, schema_value_text(s, words[i]));
    json_array_foreach(list, at, each)
    {
        if (!(schema_type_of(each) & types) || !schema_value_is_allowed(&of, each)) continue;
        for (before = 0; before < at && !schema_value_equal(each, json_array_get(list, before));)
            before++;
        if (before == at) schema_value_add_rule(s, rules, schema_value_restricted(s, &of, each));
    }
    return true;
}

/* ---- apart ---- */

/* Types that a schema may have, judged without its references. */
static unsigned types_seen(const json_t *schema)
{
    const json_t *type = json_object_get(schema, "type"), *list = json_object_get(schema, "enum");
    const json_t *only = json_object_get(schema, "const"), *each;
    static const char *const names[] = {"null",   "boolean", "object", "array",
                                        "string", "integer", "number"};
    unsigned types = 0;
    size_t at;
    if (only) return schema_type_of(only);
    json_array_foreach(list, at, each) types |= schema_type_of(each);
    if (types) return types;
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        bool is = json_is_string(type) && !strcmp(json_string_value(type), names[i]);
        json_array_foreach(type, at, each) is |=
            json_is_string(each) && !strcmp(json_string_value(each), names[i]);
        if (is) types |= i < 6 ? 1u << i : TYPE_NUMBER;
    }
    return type ? types : TYPE_ALL;
}

/* Whether the values of two schemas have none in common. */
static bool values_apart(const json_t *x, const json_t *y)
{
    const json_t *of[2][2] = {{json_object_get(x, "const"), json_object_get(x, "enum")},
                              {json_object_get(y, "const"), json_object_get(y, "enum")}};
    const json_t *each;
    size_t at;
    if ((!of[0][0] && !of[0][1]) || (!of[1][0] && !of[1][1])) return false;
    if (of[0][0] && of[1][0]) return !schema_value_equal(of[0][0], of[1][0]);
    if (of[0][0]) return !is_in(of[0][0], of[1][1]);
    if (of[1][0]) return !is_in(of[1][0], of[0][1]);
    json_array_foreach(of[0][1], at, each)
    {
        if (is_in(each, of[1][1])) return false;
    }
    return true;
}

static const json_t *without_ref(schema_compiler *s, const json_t *schema)
{
    for (int i = 0; i < 8 && json_object_get(schema, "$ref"); i++) {
        const json_t *to = schema_target(s, schema);
        if (!to) return schema;
        schema = to;
    }
    return schema;
}

bool schema_apart(schema_compiler *s, const json_t *x, const json_t *y)
{
    const char *name;
    json_t *own;
    x = without_ref(s, x);
    y = without_ref(s, y);
    if (json_is_false(x) || json_is_false(y)) return true;
    unsigned common = types_seen(x) & types_seen(y);
    if (common == 0 || values_apart(x, y)) return true;
    if (common != TYPE_OBJECT) return false;
    json_object_foreach(json_object_get(x, "properties"), name, own)
    {
        const json_t *other = json_object_get(json_object_get(y, "properties"), name);
        json_t *key = json_string(name);
        if (!key) return builder_lack(s->b), false;
        bool both = is_in(key, json_object_get(x, "required")) &&
                    is_in(key, json_object_get(y, "required"));
        json_decref(key);
        if (both && other && (values_apart(own, other) || !(types_seen(own) & types_seen(other))))
            return true;
    }
    return false;
}
