/* schema_applied.c - the schemas that a schema applies in place, for the `unevaluated` keys.
 *
 * In a choice (anyOf) every branch that a value fits counts, not only the chosen one. The conjuncts
 * are the schemas that the value is known to fit, so a branch among them counts. A branch that the
 * value merely happens to fit does not, and its members stay unevaluated: stricter, never
 * looser. */
#include "sampling/schema.h"

typedef struct {
    const conjuncts *of;
    uint32_t found; /* bits */
} search;

static void schema_applied_look(search *r, const json_t *schema)
{
    for (uint32_t i = 0; schema && i < r->of->n; i++)
        if (r->of->of[i].schema == schema) r->found |= UINT32_C(1) << i;
}

static void schema_applied_look_from(const schema_compiler *s, search *r, const json_t *schema)
{
    static const char *const lists[] = {"allOf", "anyOf", "oneOf"};
    static const char *const derived[] = {"if", "oneOf", "dependentRequired", "dependentSchemas",
                                          "dependencies"};
    const json_t *each;
    size_t at;
    for (size_t i = 0; i < ARRAY_LEN(lists); i++) {
        json_array_foreach(json_object_get(schema, lists[i]), at, each)
            schema_applied_look(r, each);
    }
    for (size_t i = 0; i < ARRAY_LEN(derived); i++)
        schema_applied_look(r, schema_found(s, schema, derived[i]));
}

uint32_t schema_applied(schema_compiler *s, const conjuncts *of, uint32_t which)
{
    _Static_assert(GRAMMAR_CONJUNCTS_MAX <= 32, "one bit each");
    search r = {.of = of, .found = UINT32_C(1) << which};
    uint32_t seen = 0;
    while (r.found & ~seen) {
        uint32_t i = (uint32_t)__builtin_ctz(r.found & ~seen);
        seen |= UINT32_C(1) << i;
        schema_applied_look(&r, schema_target(s, of->of[i].schema));
        schema_applied_look_from(s, &r, of->of[i].schema);
    }
    return r.found;
}
