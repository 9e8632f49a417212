/* schema_conjuncts.c - the schemas that a value must all fit: collected, and queried together. */
#include "sampling/schema.h"

/* Keys that constrain values and are not compiled: they are omitted. */
static const char *const left_out[] = {"$dynamicRef", "$recursiveRef", "extends", "disallow"};

/* Keys that abbreviate others. */
static const char *const derived[] = {"not", "if", "dependentRequired", "dependentSchemas",
                                      "dependencies"};

static void look_for_keys(schema_compiler *s, const json_t *schema)
{
    for (size_t i = 0; i < ARRAY_LEN(left_out); i++)
        if (json_object_get(schema, left_out[i])) schema_lack(s, left_out[i], "is not supported");
}

static void schema_add_one(schema_compiler *s, conjuncts *to, conjunct c)
{
    for (uint32_t i = 0; i < to->n; i++)
        if (to->of[i].schema == c.schema && (to->of[i].done & c.done) == c.done) return;
    if (to->n == GRAMMAR_CONJUNCTS_MAX) {
        schema_lack(s, "", "a value that must fit more than 32 schemas at once: only those count");
        return;
    }
    to->of[to->n++] = c;
}

void conjuncts_add(schema_compiler *s, conjuncts *to, const json_t *schema)
{
    if (json_is_true(schema) || (json_is_object(schema) && json_object_size(schema) == 0)) return;
    if (!json_is_object(schema) && !json_is_false(schema)) {
        schema_refuse(s, "", "what should be a schema is not an object or boolean");
        return;
    }
    schema_add_one(s, to, (conjunct){schema, 0});
}

bool schema_is_never(const conjuncts *of)
{
    for (uint32_t i = 0; i < of->n; i++)
        if (json_is_false(of->of[i].schema)) return true;
    return false;
}

void schema_expand(schema_compiler *s, conjuncts *of)
{
    for (uint32_t i = 0; i < of->n && !s->b->status; i++) {
        const json_t *schema = of->of[i].schema, *all = json_object_get(schema, "allOf"), *each;
        size_t at;
        look_for_keys(s, schema);
        if (json_object_get(schema, "$ref")) {
            const json_t *target = schema_target(s, schema);
            if (!target)
                schema_lack(s, "$ref", "leads to no schema; it must stay within this one");
            else
                conjuncts_add(s, of, target);
        }
        if (all && (!json_is_array(all) || json_array_size(all) == 0))
            schema_refuse(s, "allOf", "must be a list of schemas");
        json_array_foreach(all, at, each) conjuncts_add(s, of, each);
        for (size_t k = 0; k < ARRAY_LEN(derived) && !s->b->status; k++) {
            const json_t *made = schema_made_of(s, schema, derived[k]);
            if (made) conjuncts_add(s, of, made);
        }
    }
}

bool schema_has(const conjuncts *of, const char *const *keys, size_t n)
{
    for (uint32_t i = 0; i < of->n; i++)
        for (size_t k = 0; k < n; k++)
            if (json_object_get(of->of[i].schema, keys[k])) return true;
    return false;
}

bool schema_count(schema_compiler *s, const conjuncts *of, const char *key, bool is_max,
                  uint32_t *out)
{
    bool found = false;
    for (uint32_t i = 0; i < of->n; i++) {
        const json_t *value = json_object_get(of->of[i].schema, key);
        double n = json_number_value(value);
        if (!value) continue;
        if (!json_is_number(value) || n < 0 || (n < 1e15 && n != (double)(uint64_t)n)) {
            schema_refuse(s, key, "must be a whole number, 0 or above");
            continue;
        }
        if (n > GRAMMAR_REPEAT_MAX) { /* as a limit, above the length of any answer */
            if (!is_max) schema_lack(s, key, "is more than can be counted");
            continue;
        }
        if (!found || (is_max ? n < *out : n > *out)) *out = (uint32_t)n;
        found = true;
    }
    return found;
}
