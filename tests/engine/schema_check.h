/* schema_check.h - whether a value fits a JSON schema, by the text of the specification: supports
 * the schemas of these tests, and shares no code with the tested one. */
#ifndef TESTS_GOLDEN_SCHEMA_CHECK_H
#define TESTS_GOLDEN_SCHEMA_CHECK_H

#include <jansson.h>
#include <stdbool.h>
#include <string.h>

static bool fits(const json_t *root, const json_t *schema, const json_t *value);

static bool is_of_type(const json_t *value, const char *type)
{
    return (!strcmp(type, "object") && json_is_object(value)) ||
           (!strcmp(type, "array") && json_is_array(value)) ||
           (!strcmp(type, "string") && json_is_string(value)) ||
           (!strcmp(type, "integer") && json_is_integer(value)) ||
           (!strcmp(type, "number") && json_is_number(value)) ||
           (!strcmp(type, "boolean") && json_is_boolean(value)) ||
           (!strcmp(type, "null") && json_is_null(value));
}

static bool fits_type(const json_t *type, const json_t *value)
{
    const json_t *each;
    size_t at;
    bool any = !type;
    if (json_is_string(type)) return is_of_type(value, json_string_value(type));
    json_array_foreach(type, at, each) any |= is_of_type(value, json_string_value(each));
    return any;
}

static size_t characters(const char *text)
{
    size_t n = 0;
    for (; *text; text++) n += (*text & 0xc0) != 0x80;
    return n;
}

static double number_of(const json_t *schema, const char *key, double otherwise)
{
    const json_t *n = json_object_get(schema, key);
    return n ? json_number_value(n) : otherwise;
}

static bool fits_size(const json_t *schema, const char *min, const char *max, double n)
{
    return n >= number_of(schema, min, n) && n <= number_of(schema, max, n);
}

static bool fits_object(const json_t *root, const json_t *schema, const json_t *value)
{
    const json_t *named = json_object_get(schema, "properties"), *each;
    const json_t *others = json_object_get(schema, "additionalProperties");
    const char *name;
    json_t *member;
    size_t at;
    json_object_foreach((json_t *)value, name, member)
    {
        const json_t *own = json_object_get(named, name);
        if (own ? !fits(root, own, member) : others && !fits(root, others, member)) return false;
    }
    json_array_foreach(json_object_get(schema, "required"), at, each)
    {
        if (!json_object_get(value, json_string_value(each))) return false;
    }
    return true;
}

static bool fits_choice(const json_t *root, const json_t *schema, const json_t *value)
{
    const json_t *any = json_object_get(schema, "anyOf"), *list = json_object_get(schema, "enum");
    const json_t *only = json_object_get(schema, "const"), *each;
    bool in_any = !any, in_list = !list;
    size_t at;
    json_array_foreach(any, at, each) in_any |= fits(root, each, value);
    json_array_foreach(list, at, each) in_list |= json_equal(each, value) != 0;
    return in_any && in_list && (!only || json_equal(only, value));
}

static bool fits(const json_t *root, const json_t *schema, const json_t *value)
{
    const char *ref = json_string_value(json_object_get(schema, "$ref"));
    const json_t *items = json_object_get(schema, "items"), *each;
    size_t at;
    if (json_is_boolean(schema)) return json_is_true(schema);
    if (ref && !strncmp(ref, "#/$defs/", 8))
        return fits(root, json_object_get(json_object_get(root, "$defs"), ref + 8), value);
    if (ref) return fits(root, root, value);
    if (!fits_type(json_object_get(schema, "type"), value)) return false;
    if (!fits_choice(root, schema, value)) return false;
    if (json_is_object(value) && !fits_object(root, schema, value)) return false;
    if (json_is_array(value) &&
        !fits_size(schema, "minItems", "maxItems", (double)json_array_size(value)))
        return false;
    if (items) json_array_foreach(value, at, each) if (!fits(root, items, each)) return false;
    if (json_is_string(value) &&
        !fits_size(schema, "minLength", "maxLength", (double)characters(json_string_value(value))))
        return false;
    return !json_is_number(value) ||
           fits_size(schema, "minimum", "maximum", json_number_value(value));
}

#endif
