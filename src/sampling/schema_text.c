/* schema_text.c - strings: lengths, patterns, formats. */
#include "sampling/schema.h"

enum { COUNTED_MAX = 120000 }; /* characters of all lengths; a state each, of GRAMMAR_STATES_MAX */

_Static_assert(2 * COUNTED_MAX <= GRAMMAR_STATES_MAX, "half of the states are left");

static const char too_large[] = "the whole would be larger than cerium compiles";
static const char *const string_keys[] = {"minLength", "maxLength", "pattern", "format",
                                          SCHEMA_NOT_PATTERN};

bool schema_string_is_any(const conjuncts *of)
{
    size_t at = 0;
    return !schema_has(of, string_keys, ARRAY_LEN(string_keys)) &&
           !schema_forbidden(of, TYPE_STRING, &at);
}

/* NONE: any string.  An unknown format is an annotation (2020-12, validation 7.2.1). */
static uint32_t format_of(schema_compiler *s, const json_t *value)
{
    const char *regex = schema_format(json_string_value(value));
    if (!regex) return GRAMMAR_NONE;
    return expr_regex(s->b, view_of(regex), (regex_options){.form = CODES_JSON}, s->path);
}

static uint32_t pattern_of(schema_compiler *s, const json_t *value)
{
    return expr_regex(s->b, (view){json_string_value(value), json_string_length(value)},
                      (regex_options){.form = CODES_JSON, .is_search = true}, "an expression");
}

static uint32_t schema_text_both(schema_compiler *s, uint32_t x, uint32_t y)
{
    if (y == GRAMMAR_NONE) return x;
    return x == GRAMMAR_NONE ? y : expr_and(s->b, x, y);
}

/* e and one more key. It is compiled at once, so that a key that is too large or unsupported is
 * found and omitted alone. */
static uint32_t schema_text_narrowed(schema_compiler *s, uint32_t e, const char *key,
                                     const json_t *value)
{
    builder_trial trial;
    const char *why;
    bool is_format = !strcmp(key, "format"), is_not = !strcmp(key, SCHEMA_NOT_PATTERN);
    if (!json_is_string(value)) {
        schema_refuse(s, is_not ? "not" : key, "must be a string");
        return e;
    }
    if (s->b->is_careful) {
        schema_lack(s, is_not ? "not" : key, too_large);
        return e;
    }
    builder_trial_begin(s->b, &trial);
    uint32_t by = is_format ? format_of(s, value) : pattern_of(s, value);
    uint32_t all =
        is_not && by != GRAMMAR_NONE ? expr_minus(s->b, e, by) : schema_text_both(s, e, by);
    if (all != GRAMMAR_NONE && !(is_format && e == GRAMMAR_NONE))
        all = expr_without(s->b, all, 1, 0);
    if (builder_trial_end(s->b, &trial, &why)) return all;
    schema_lack(s, is_not ? "not" : key, why);
    return e;
}

/* Without the values that the schemas forbid. */
static uint32_t schema_text_without_forbidden(schema_compiler *s, const conjuncts *of, uint32_t e)
{
    const json_t *value;
    for (uint32_t i = 0; i < of->n && !s->b->status; i++) {
        const json_t *pattern = json_object_get(of->of[i].schema, SCHEMA_NOT_PATTERN);
        if (pattern) e = schema_text_narrowed(s, e, SCHEMA_NOT_PATTERN, pattern);
    }
    for (size_t at = 0; (value = schema_forbidden(of, TYPE_STRING, &at)) && !s->b->status;) {
        view text = {json_string_value(value), json_string_length(value)};
        e = expr_minus(s->b, e, expr_literal(s->b, text, CODES_JSON));
    }
    return e;
}

/* The lengths that the schemas set, up to the count of characters that the whole schema may count
 * one by one. */
static bool count_characters(schema_compiler *s, const conjuncts *of, uint32_t *min, uint32_t *max)
{
    bool has_min = schema_count(s, of, "minLength", false, min);
    bool has_max = schema_count(s, of, "maxLength", true, max);
    s->n_counted += has_max ? *max : *min;
    if (s->n_counted <= COUNTED_MAX && !s->b->is_careful) return has_min || has_max;
    if (has_min && *min) schema_lack(s, "minLength", too_large);
    if (has_max) schema_lack(s, "maxLength", too_large);
    s->n_counted -= has_max ? *max : *min;
    *min = 0;
    *max = GRAMMAR_NO_MAX;
    return false;
}

static uint32_t of_length(schema_compiler *s, uint32_t e, uint32_t min, uint32_t max)
{
    builder_trial trial;
    const char *why;
    uint32_t any = expr_code_range(s->b, 0, CODE_MAX, CODES_JSON);
    if (e == GRAMMAR_NONE) return expr_repeat(s->b, any, min, max);
    builder_trial_begin(s->b, &trial);
    uint32_t all =
        expr_without(s->b, schema_text_both(s, e, expr_repeat(s->b, any, min, max)), 1, 0);
    if (builder_trial_end(s->b, &trial, &why)) return all;
    schema_lack(s, max == GRAMMAR_NO_MAX ? "minLength" : "maxLength", why);
    return e;
}

uint32_t schema_string_body(schema_compiler *s, const conjuncts *of)
{
    uint32_t min = 0, max = GRAMMAR_NO_MAX, e = GRAMMAR_NONE;
    bool counts = count_characters(s, of, &min, &max);
    for (uint32_t i = 0; i < of->n && !s->b->status; i++) {
        const json_t *pattern = json_object_get(of->of[i].schema, "pattern");
        const json_t *format = json_object_get(of->of[i].schema, "format");
        if (pattern) e = schema_text_narrowed(s, e, "pattern", pattern);
        if (format) e = schema_text_narrowed(s, e, "format", format);
    }
    if (counts || e == GRAMMAR_NONE) e = of_length(s, e, min, max);
    return schema_text_without_forbidden(s, of, e);
}

uint32_t schema_string(schema_compiler *s, const conjuncts *of)
{
    static const char *const shapes[] = {"pattern", "format", SCHEMA_NOT_PATTERN};
    grammar_builder *b = s->b;
    uint32_t quote = expr_text(b, VIEW("\"")), min = 0, max = GRAMMAR_NO_MAX;
    size_t at = 0;
    if (schema_string_is_any(of)) return expr_call(b, s->string);
    if (schema_has(of, shapes, ARRAY_LEN(shapes)) || schema_forbidden(of, TYPE_STRING, &at))
        return EXPR_SEQ(b, quote, schema_string_body(s, of), quote);
    /* Lengths alone: characters are calls, so that a long string costs a state for each. */
    count_characters(s, of, &min, &max);
    return EXPR_SEQ(b, quote, expr_repeat(b, expr_call(b, s->character), min, max), quote);
}

/* ---- names of members ---- */

/* The strings that const and enum leave; NONE: no such key. */
static uint32_t named_values(schema_compiler *s, const conjuncts *of)
{
    uint32_t e = GRAMMAR_NONE;
    for (uint32_t i = 0; i < of->n && !s->b->status; i++) {
        const json_t *only = json_object_get(of->of[i].schema, "const"), *each;
        const json_t *list = json_object_get(of->of[i].schema, "enum");
        uint32_t any = EXPR_NEVER;
        size_t at, n = only ? 1 : json_array_size(list);
        for (at = 0; at < n; at++) {
            each = only ? only : json_array_get(list, at);
            view text = {json_string_value(each), json_string_length(each)};
            if (json_is_string(each))
                any = EXPR_ALT(s->b, any, expr_literal(s->b, text, CODES_JSON));
        }
        if (only || json_is_array(list)) e = schema_text_both(s, e, any);
    }
    return e;
}

uint32_t schema_names(schema_compiler *s, const conjuncts *given)
{
    conjuncts of = *given;
    schema_chosen chosen;
    const json_t *each;
    size_t at;
    schema_expand(s, &of);
    for (uint32_t i = 0; i < of.n && !s->b->status; i++)
        if (!(schema_types(s, of.of[i].schema) & TYPE_STRING)) return EXPR_NEVER;
    if (s->b->status) return EXPR_NEVER;
    if (!schema_choice(s, &of, &chosen)) {
        uint32_t values = named_values(s, &of), body = schema_string_body(s, &of);
        return schema_text_both(s, values, body);
    }
    uint32_t e = EXPR_NEVER; /* as deep as there are conjuncts: each choice is made once */
    json_array_foreach(json_object_get(of.of[chosen.which].schema, chosen.key), at, each)
    {
        conjuncts with = of;
        with.of[chosen.which].done |= chosen.done;
        conjuncts_add(s, &with, each);
        e = EXPR_ALT(s->b, e, schema_names(s, &with));
    }
    return e;
}
