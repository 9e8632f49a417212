/* schema_not.c - rewrites `not`, `if` and dependencies as schemas without them.
 *
 * The negation of a schema is a choice: one of its keys does not hold (De Morgan). Each such key
 * has an opposite: other types, bounds from the other side, a property that must be there and be
 * something else.  Some opposites need internal keys, which begin with a control character. If one
 * key has no opposite, the whole rewritten schema is omitted and noted: half of it would mean
 * something else.
 *
 * The compiler owns the schemas made here; each is made once, so that equal positions share a
 * rule. */
#include "base/text.h"
#include "sampling/schema.h"

enum { NOT_DEPTH_MAX = 24 };

/* A new reference to a generated schema, for the compiler to own.  NULL after an error. */
static const json_t *schema_not_own(schema_compiler *s, const json_t *of, const char *key,
                                    json_t *made)
{
    schema_made *entry = made ? builder_add(s->b, &s->made, sizeof *entry) : NULL;
    if (!entry) {
        if (!made) builder_lack(s->b);
        json_decref(made);
        return NULL;
    }
    *entry = (schema_made){of, key, made};
    return made;
}

const json_t *schema_found(const schema_compiler *s, const json_t *of, const char *key)
{
    const schema_made *made = (const schema_made *)s->made.ptr;
    for (size_t i = 0; i < s->made.len / sizeof *made; i++)
        if (made[i].of == of && !strcmp(made[i].key, key)) return made[i].made;
    return NULL;
}

/* ---- opposites ---- */

static json_t *schema_not_opposite(schema_compiler *s, const json_t *schema, uint32_t depth);

static bool has_failed(const schema_compiler *s) { return s->b->status || s->lacking[0]; }

/* Without memory a condition would be missing. */
static json_t *schema_not_checked(schema_compiler *s, json_t *made)
{
    if (!made && !has_failed(s)) builder_lack(s->b);
    return made;
}

static void schema_not_add(schema_compiler *s, json_t *list, json_t *each)
{
    if (schema_not_checked(s, each) && json_array_append_new(list, each)) builder_lack(s->b);
}

/* One of these; an empty list allows no value. */
static json_t *any_of(json_t *choices)
{
    if (json_array_size(choices) > 0) return json_pack("{so}", "anyOf", choices);
    json_decref(choices);
    return json_false();
}

/* Record that the current schema has no opposite, and why. */
static json_t *schema_not_lack(schema_compiler *s, const char *what)
{
    if (!s->lacking[0]) snprintf(s->lacking, sizeof s->lacking, "%s", what);
    return NULL;
}

static json_t *other_types(const json_t *type)
{
    static const char *const names[] = {"null",   "boolean",   "object",
                                        "array",  "string",    "integer", SCHEMA_FRACTION};
    json_t *left = json_array();
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        bool is_number = i >= 5, has = false;
        size_t n = json_is_array(type) ? json_array_size(type) : 1;
        for (size_t k = 0; k < n; k++) {
            const json_t *each = json_is_array(type) ? json_array_get(type, k) : type;
            const char *name = json_string_value(each);
            has |= name && (!strcmp(name, names[i]) || (is_number && !strcmp(name, "number")));
        }
        if (!has && json_array_append_new(left, json_string(names[i]))) {
            json_decref(left);
            return NULL;
        }
    }
    return json_pack("{so}", "type", left);
}

/* A count or a bound: its opposite key, for values of this type. */
static const struct {
    const char *key, *type, *other;
    int step; /* the step to the next whole number */
} bounds[] = {
    {"minimum", "number", "exclusiveMaximum", 0}, {"maximum", "number", "exclusiveMinimum", 0},
    {"exclusiveMinimum", "number", "maximum", 0}, {"exclusiveMaximum", "number", "minimum", 0},
    {"minLength", "string", "maxLength", -1},     {"maxLength", "string", "minLength", 1},
    {"minItems", "array", "maxItems", -1},        {"maxItems", "array", "minItems", 1},
    {"minProperties", "object", "maxProperties", -1},
    {"maxProperties", "object", "minProperties", 1},
};

static json_t *other_bound(schema_compiler *s, const char *key, const json_t *value)
{
    for (size_t i = 0; i < ARRAY_LEN(bounds); i++) {
        if (strcmp(bounds[i].key, key)) continue;
        if (!json_is_number(value)) return schema_not_lack(s, "a bound that is not a number");
        if (!bounds[i].step)
            return schema_not_checked(
                s, json_pack("{sssO}", "type", bounds[i].type, bounds[i].other, value));
        double n = json_number_value(value) + bounds[i].step;
        if (n < 0) return json_false();
        if (n > GRAMMAR_REPEAT_MAX) return schema_not_lack(s, "a count that is too large");
        return schema_not_checked(s, json_pack("{sssI}", "type", bounds[i].type, bounds[i].other,
                                               (json_int_t)n));
    }
    return NULL;
}

/* Some required property is missing. */
static json_t *other_required(schema_compiler *s, const json_t *names)
{
    json_t *choices = json_array(), *each;
    size_t at;
    json_array_foreach(names, at, each)
    {
        const char *name = json_string_value(each);
        if (name)
            schema_not_add(s, choices,
                           json_pack("{sss{sb}}", "type", "object", "properties", name, 0));
    }
    return any_of(choices);
}

/* Some property is present and does not fit. */
static json_t *other_properties(schema_compiler *s, const json_t *properties, uint32_t depth)
{
    json_t *choices = json_array(), *each;
    const char *name;
    json_object_foreach((json_t *)properties, name, each)
    {
        json_t *other = schema_not_opposite(s, each, depth + 1);
        if (!other) break;
        schema_not_add(s, choices, json_pack("{sss[s]s{so}}", "type", "object", "required", name,
                                             "properties", name, other));
    }
    return any_of(choices);
}

/* The values that none, or not all, of a list of schemas allow. */
static json_t *other_list(schema_compiler *s, const json_t *list, const char *key, uint32_t depth)
{
    json_t *others = json_array(), *each;
    size_t at;
    json_array_foreach(list, at, each)
    {
        json_t *other = schema_not_opposite(s, each, depth + 1);
        if (!other) break;
        schema_not_add(s, others, other);
    }
    return json_pack("{so}", key, others);
}

static json_t *other_values(schema_compiler *s, const json_t *list)
{
    const json_t *each;
    size_t at;
    json_array_foreach(list, at, each)
    {
        if (json_is_object(each) || json_is_array(each))
            return schema_not_lack(s, "of values that are objects or arrays is not supported");
    }
    return json_pack("{sO}", SCHEMA_NOT_IN, list);
}

/* Keys that constrain values and have no opposite here; unknown keys constrain nothing. */
static bool is_lacking(const char *key)
{
    static const char *const lacking[] = {
        "items",         "prefixItems",      "additionalItems",       "additionalProperties",
        "contains",      "patternProperties", "propertyNames",        "uniqueItems",
        "multipleOf",    "format",           "unevaluatedItems",      "unevaluatedProperties",
        "$dynamicRef",   "$recursiveRef",    "extends",               "disallow"};
    return view_is_one_of(view_of(key), lacking, ARRAY_LEN(lacking));
}

static json_t *schema_not_derive(schema_compiler *s, const json_t *schema, const char *key);

/* The opposite of a key that abbreviates others. */
static json_t *other_derived(schema_compiler *s, const json_t *schema, const char *key,
                             uint32_t depth)
{
    json_t *made = schema_not_derive(s, schema, key);
    json_t *other = made ? schema_not_opposite(s, made, depth + 1) : NULL;
    json_decref(made);
    return other;
}

static json_t *opposite_of_key(schema_compiler *s, const json_t *schema, const char *key,
                               const json_t *value, uint32_t depth)
{
    json_t *bound = other_bound(s, key, value);
    if (bound || has_failed(s)) return bound;
    if (!strcmp(key, "type")) return other_types(value);
    if (!strcmp(key, "const")) {
        json_t *list = json_pack("[O]", value), *other = list ? other_values(s, list) : NULL;
        json_decref(list);
        return other;
    }
    if (!strcmp(key, "enum")) return other_values(s, value);
    if (!strcmp(key, "pattern"))
        return json_pack("{sssO}", "type", "string", SCHEMA_NOT_PATTERN, value);
    if (!strcmp(key, "required")) return other_required(s, value);
    if (!strcmp(key, "properties")) return other_properties(s, value, depth);
    if (!strcmp(key, "not")) return json_incref((json_t *)value);
    if (!strcmp(key, "anyOf")) return other_list(s, value, "allOf", depth);
    if (!strcmp(key, "allOf")) return other_list(s, value, "anyOf", depth);
    if (!strcmp(key, "$ref")) {
        const json_t *target = schema_target(s, schema);
        if (!target) return schema_not_lack(s, "$ref leads to no schema");
        return schema_not_opposite(s, target, depth + 1);
    }
    if (!strcmp(key, "if") || !strcmp(key, "oneOf") || !strncmp(key, "depend", 6))
        return other_derived(s, schema, key, depth);
    if (!is_lacking(key)) return json_false();
    char what[96];
    snprintf(what, sizeof what, "of '%.40s' is not supported", key);
    return schema_not_lack(s, what);
}

static json_t *schema_not_opposite(schema_compiler *s, const json_t *schema, uint32_t depth)
{
    const char *key;
    json_t *value, *choices, *other;
    if (depth > NOT_DEPTH_MAX || !builder_work(s->b, 1))
        return schema_not_lack(s, "of schemas that are nested so deep is not supported");
    if (json_is_boolean(schema)) return json_boolean(json_is_false(schema));
    if (!json_is_object(schema)) return schema_not_lack(s, "must be a schema");
    choices = json_array();
    json_object_foreach((json_t *)schema, key, value)
    {
        other = opposite_of_key(s, schema, key, value, depth);
        if (!schema_not_checked(s, other)) break;
        if (json_is_false(other))
            json_decref(other);
        else
            schema_not_add(s, choices, other);
    }
    if (has_failed(s)) {
        json_decref(choices);
        return NULL;
    }
    return any_of(choices);
}

/* ---- implications ---- */

/* If one schema fits then another, else a third: a choice of two.  A schema that must not fit stays
 * a `not`: its members do not count for unevaluatedProperties. */
static json_t *of_condition(schema_compiler *s, const json_t *schema)
{
    json_t *when = json_object_get(schema, "if"), *then = json_object_get(schema, "then");
    json_t *otherwise = json_object_get(schema, "else");
    if (!json_is_object(when) && !json_is_boolean(when))
        return schema_not_lack(s, "if must be a schema");
    if (!when || (!then && !otherwise)) return json_true();
    return json_pack("{s[{s[OO]}{s[{sO}O]}]}", "anyOf", "allOf", when, then ? then : json_true(),
                     "allOf", "not", when, otherwise ? otherwise : json_true());
}

/* A property requires others, or a schema: or it is absent. */
static json_t *of_dependencies(schema_compiler *s, const json_t *map, const char *key)
{
    json_t *all = json_array(), *each;
    const char *name;
    if (!json_is_object(map)) {
        json_decref(all);
        schema_refuse(s, key, "must be an object");
        return json_true();
    }
    json_object_foreach((json_t *)map, name, each)
    {
        json_t *with = json_is_array(each)
                           ? json_pack("{sO}", "required", each)
                           : json_pack("{s[{s[s]}O]}", "allOf", "required", name, each);
        schema_not_add(s, all, json_pack("{s[{s{sb}}o]}", "anyOf", "properties", name, 0, with));
    }
    return json_pack("{so}", "allOf", all);
}

/* Exactly one of the schemas fits: one, and no other. */
static json_t *of_one(schema_compiler *s, const json_t *list)
{
    json_t *choices = json_array();
    for (size_t i = 0; i < json_array_size(list) && !s->b->status; i++) {
        json_t *all = json_pack("[O]", json_array_get(list, i));
        for (size_t k = 0; k < json_array_size(list) && !s->b->status; k++) {
            if (k != i) schema_not_add(s, all, json_pack("{sO}", "not", json_array_get(list, k)));
        }
        schema_not_add(s, choices, json_pack("{so}", "allOf", all));
    }
    return json_pack("{so}", "anyOf", choices);
}

static json_t *schema_not_derive(schema_compiler *s, const json_t *schema, const char *key)
{
    const json_t *value = json_object_get(schema, key);
    json_t *made;
    if (!strcmp(key, "not"))
        made = schema_not_opposite(s, value, 0);
    else if (!strcmp(key, "if"))
        made = of_condition(s, schema);
    else if (!strcmp(key, "oneOf"))
        made = of_one(s, value);
    else if (!strcmp(key, "contains"))
        made = schema_not_checked(s, json_pack("{sO}", "not", value));
    else
        made = of_dependencies(s, value, key);
    if (!has_failed(s)) return made;
    json_decref(made);
    return NULL;
}

/* The key for which of_one() made this `not`, or NULL: the author wrote it. */
static const char *made_for(const schema_compiler *s, const json_t *schema, const char *key)
{
    const schema_made *made = (const schema_made *)s->made.ptr;
    const json_t *choice, *each;
    size_t at, k;
    for (size_t i = 0; i < s->made.len / sizeof *made && !strcmp(key, "not"); i++) {
        json_array_foreach(json_object_get(made[i].made, "anyOf"), at, choice) {
            json_array_foreach(json_object_get(choice, "allOf"), k, each)
                if (each == schema) return made[i].key;
        }
    }
    return NULL;
}

/* Noted at the author's place: a generated choice is below the path of its key. */
static void note_lacking(schema_compiler *s, const json_t *schema, const char *key)
{
    const char *choice = made_for(s, schema, key), *at = s->path, *next;
    size_t len = strlen(s->path);
    for (; choice && (next = strstr(at, "/anyOf/")); at = next + 1) len = (size_t)(next - s->path);
    builder_note(s->b, "%.*s/%s: %s", (int)len, s->path, choice ? choice : key, s->lacking);
    s->lacking[0] = '\0';
}

const json_t *schema_made_of(schema_compiler *s, const json_t *schema, const char *key)
{
    const json_t *known = schema_found(s, schema, key);
    if (known || !json_object_get(schema, key)) return known;
    json_t *made = schema_not_derive(s, schema, key);
    if (!s->b->status && s->lacking[0]) {
        note_lacking(s, schema, key);
        made = json_true();
    }
    return s->b->status ? NULL : schema_not_own(s, schema, key, made);
}
