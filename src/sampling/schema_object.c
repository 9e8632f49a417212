/* schema_object.c - objects: which members, in what order, how many.
 *
 * Properties come in the order in which the schemas name them; others after those.  A name not
 * listed in any schema may match patterns (patternProperties): names are split by the patterns that
 * they match, and each kind of name has its own kind of value. */
#include "sampling/schema.h"

enum { PATTERNS_MAX = 4 };

static uint32_t schema_object_colon(schema_compiler *s)
{
    return EXPR_SEQ(s->b, expr_text(s->b, VIEW(":")),
                    expr_repeat(s->b, expr_text(s->b, VIEW(" ")), 0, 1));
}

typedef struct {
    const char *text;
    uint32_t expr; /* names that match, as written in a JSON string */
} pattern;

typedef struct {
    schema_compiler *s;
    const conjuncts *of;
    json_t *names; /* object: every property that is named, in order; true if required */
    uint32_t may;  /* names that propertyNames allows, as written in a JSON string; NONE: all */
    uint32_t applied[GRAMMAR_CONJUNCTS_MAX]; /* see schema_applied(); of those that need it */
    bool is_open; /* a pattern was omitted: any name may match it */
    uint32_t n_patterns;
    pattern patterns[PATTERNS_MAX];
} object;

/* Names that match; NONE, and noted: they are unknown. */
static uint32_t pattern_expr(schema_compiler *s, const char *pattern_text)
{
    builder_trial trial;
    const char *why;
    builder_trial_begin(s->b, &trial);
    uint32_t e = expr_regex(s->b, view_of(pattern_text),
                            (regex_options){.form = CODES_JSON, .is_search = true}, "a pattern");
    e = expr_without(s->b, e, 1, 0);
    if (builder_trial_end(s->b, &trial, &why)) return e;
    schema_lack(s, "patternProperties", why);
    return GRAMMAR_NONE;
}

static void schema_object_add_name(object *o, const char *name, bool is_required)
{
    bool is = is_required || json_is_true(json_object_get(o->names, name));
    if (json_object_set_new(o->names, name, json_boolean(is))) builder_lack(o->s->b);
}

static void schema_object_add_pattern(object *o, const char *name)
{
    for (uint32_t i = 0; i < o->n_patterns; i++)
        if (!strcmp(o->patterns[i].text, name)) return;
    if (o->n_patterns == PATTERNS_MAX) {
        schema_lack(o->s, "patternProperties", "has more than 4 patterns: only those count");
        o->is_open = true;
        return;
    }
    uint32_t e = pattern_expr(o->s, name);
    if (e == GRAMMAR_NONE)
        o->is_open = true;
    else
        o->patterns[o->n_patterns++] = (pattern){name, e};
}

static void gather_allowed(object *o)
{
    conjuncts names = {.n = 0};
    bool any = false;
    for (uint32_t i = 0; i < o->of->n; i++) {
        const json_t *schema = o->of->of[i].schema, *by = json_object_get(schema, "propertyNames");
        if (by) conjuncts_add(o->s, &names, by), any = true;
        if (json_object_get(schema, "unevaluatedProperties"))
            o->applied[i] = schema_applied(o->s, o->of, i);
    }
    o->may = any && names.n ? schema_names(o->s, &names) : GRAMMAR_NONE;
}

static void schema_object_gather(object *o)
{
    for (uint32_t i = 0; i < o->of->n && !o->s->b->status; i++) {
        const json_t *schema = o->of->of[i].schema, *named = json_object_get(schema, "properties");
        const json_t *patterns = json_object_get(schema, "patternProperties");
        const char *name;
        json_t *each;
        if (named && !json_is_object(named)) schema_refuse(o->s, "properties", "must be an object");
        if (patterns && !json_is_object(patterns))
            schema_refuse(o->s, "patternProperties", "must be an object");
        json_object_foreach((json_t *)named, name, each) schema_object_add_name(o, name, false);
        json_object_foreach((json_t *)patterns, name, each) schema_object_add_pattern(o, name);
    }
    for (uint32_t i = 0; i < o->of->n && !o->s->b->status; i++) {
        const json_t *required = json_object_get(o->of->of[i].schema, "required"), *each;
        size_t at;
        if (required && !json_is_array(required) && !json_is_boolean(required))
            schema_refuse(o->s, "required", "must be a list of names");
        json_array_foreach(required, at, each)
        {
            if (json_is_string(each) && strlen(json_string_value(each)) < json_string_length(each))
                schema_lack(o->s, "required", "of a name with a NUL is not supported");
            else if (json_is_string(each))
                schema_object_add_name(o, json_string_value(each), true);
            else
                schema_refuse(o->s, "required", "must be a list of names");
        }
    }
}

/* Whether one of the schemas that conjunct `which` applies in place constrains a name. */
static bool schema_object_is_evaluated(const object *o, uint32_t which, const char *name,
                                       unsigned matched)
{
    for (uint32_t i = 0; i < o->of->n; i++) {
        const json_t *schema = o->of->of[i].schema;
        const json_t *patterns = json_object_get(schema, "patternProperties");
        if (!(o->applied[which] >> i & 1)) continue;
        if (json_object_get(schema, "additionalProperties")) return true;
        if (i != which && json_object_get(schema, "unevaluatedProperties")) return true;
        if (name && json_object_get(json_object_get(schema, "properties"), name)) return true;
        for (uint32_t k = 0; k < o->n_patterns; k++)
            if ((matched >> k & 1) && json_object_get(patterns, o->patterns[k].text)) return true;
    }
    return false;
}

/* What one schema requires of a name: by name (NULL: not named) and by the patterns that it
 * matches, as bits. */
static void add_schemas(object *o, conjuncts *to, uint32_t which, const char *name,
                        unsigned matched)
{
    const json_t *schema = o->of->of[which].schema;
    const json_t *unseen = json_object_get(schema, "unevaluatedProperties");
    const json_t *patterns = json_object_get(schema, "patternProperties");
    const json_t *rest = json_object_get(schema, "additionalProperties");
    const json_t *own = name ? json_object_get(json_object_get(schema, "properties"), name) : NULL;
    bool found = own;
    if (own) conjuncts_add(o->s, to, own);
    for (uint32_t i = 0; i < o->n_patterns; i++) {
        const json_t *by = json_object_get(patterns, o->patterns[i].text);
        if (!by || !(matched >> i & 1)) continue;
        conjuncts_add(o->s, to, by);
        found = true;
    }
    bool knows = !(patterns && o->is_open);
    if (!found && rest && knows) conjuncts_add(o->s, to, rest);
    if (unseen && knows && !schema_object_is_evaluated(o, which, name, matched))
        conjuncts_add(o->s, to, unseen);
}

static uint32_t schema_object_value_of(object *o, const char *name, unsigned matched)
{
    conjuncts of = {.n = 0};
    for (uint32_t i = 0; i < o->of->n; i++) add_schemas(o, &of, i, name, matched);
    return expr_call(o->s->b, schema_rule(o->s, &of, name ? "properties" : "additionalProperties",
                                          name ? name : ""));
}

/* Whether a text is in an expression: both are regular, so test whether their intersection is
 * empty. */
static bool schema_object_matches(schema_compiler *s, uint32_t expr, uint32_t literal)
{
    nfa n;
    dfa d;
    bool any = false;
    nfa_open(&n);
    dfa_open(&d);
    uint32_t start = nfa_of_expr(s->b, &n, expr_and(s->b, expr, literal));
    if (start != GRAMMAR_NONE) dfa_of_nfa(s->b, &n, start, &d);
    for (uint32_t i = 0; i < dfa_n_states(&d); i++) any |= dfa_state_at(&d, i)->is_final;
    nfa_close(&n);
    dfa_close(&d);
    return any;
}

static uint32_t schema_object_member(object *o, const char *name)
{
    grammar_builder *b = o->s->b;
    uint32_t inside = expr_literal(b, view_of(name), CODES_JSON);
    unsigned matched = 0;
    for (uint32_t i = 0; i < o->n_patterns; i++)
        if (schema_object_matches(o->s, o->patterns[i].expr, inside)) matched |= 1u << i;
    if (o->may != GRAMMAR_NONE && !schema_object_matches(o->s, o->may, inside)) return EXPR_NEVER;
    return EXPR_SEQ(b, schema_enclosed(o->s, "\"", inside, "\""), schema_object_colon(o->s),
                    schema_object_value_of(o, name, matched));
}

/* Names that are not listed and match just these patterns. */
static uint32_t other_names(object *o, unsigned matched)
{
    grammar_builder *b = o->s->b;
    uint32_t named = EXPR_NEVER, e = GRAMMAR_NONE;
    if (o->n_patterns == 0 && json_object_size(o->names) == 0 && o->may == GRAMMAR_NONE)
        return expr_call(b, o->s->string);
    bytes parts = {.max = GRAMMAR_PARTS_MAX * sizeof(uint32_t)};
    const char *name;
    json_t *each;
    json_object_foreach(o->names, name, each)
    {
        uint32_t literal = expr_literal(b, view_of(name), CODES_JSON);
        uint32_t *to = builder_add(b, &parts, sizeof *to);
        if (to) *to = literal;
    }
    named = expr_alt(b, (const uint32_t *)parts.ptr, parts.len / sizeof(uint32_t));
    bytes_free(&parts);
    e = o->may;
    if (e == GRAMMAR_NONE)
        e = expr_repeat(b, expr_code_range(b, 0, CODE_MAX, CODES_JSON), 0, GRAMMAR_NO_MAX);
    for (uint32_t i = 0; i < o->n_patterns; i++)
        e = matched >> i & 1 ? expr_and(b, e, o->patterns[i].expr)
                             : expr_minus(b, e, o->patterns[i].expr);
    return schema_enclosed(o->s, "\"", expr_minus(b, e, named), "\"");
}

/* Members that are not listed; NEVER: there may be none. */
static uint32_t other_members(object *o)
{
    grammar_builder *b = o->s->b;
    uint32_t parts[1 << PATTERNS_MAX], n = 0;
    for (unsigned matched = 0; matched < 1u << o->n_patterns && !b->status; matched++) {
        conjuncts of = {.n = 0};
        for (uint32_t i = 0; i < o->of->n; i++)
            add_schemas(o, &of, i, NULL, matched);
        if (schema_is_never(&of)) continue;
        parts[n++] = EXPR_SEQ(b, other_names(o, matched), schema_object_colon(o->s),
                              schema_object_value_of(o, NULL, matched));
    }
    return expr_alt(b, parts, n);
}

/* Counts of members, if they can be enforced: of other members only, or if they hold anyway.  A
 * name may occur twice, so at most one other member can be required. */
static void count_members(object *o, uint32_t others, uint32_t *min, uint32_t *max)
{
    uint32_t n_required = 0, n_named = (uint32_t)json_object_size(o->names);
    const char *name;
    json_t *each;
    *min = 0;
    *max = GRAMMAR_NO_MAX;
    schema_count(o->s, o->of, "minProperties", false, min);
    schema_count(o->s, o->of, "maxProperties", true, max);
    json_object_foreach(o->names, name, each) n_required += json_is_true(each);
    if (*min <= n_required) *min = 0;
    if (others == EXPR_NEVER && n_named <= *max) *max = GRAMMAR_NO_MAX;
    if (*min > 0 && !(*min == 1 && n_named == 0)) {
        schema_lack(o->s, "minProperties", "of members that are not named: at most 1");
        *min = n_named == 0;
    }
    if (*max != GRAMMAR_NO_MAX && n_named > 0) {
        schema_lack(o->s, "maxProperties", "beside named properties is not supported");
        *max = GRAMMAR_NO_MAX;
    }
}

static uint32_t only_others(object *o, uint32_t others, uint32_t min, uint32_t max)
{
    grammar_builder *b = o->s->b;
    uint32_t more = max == GRAMMAR_NO_MAX || max == 0 ? max : max - 1;
    uint32_t some =
        EXPR_SEQ(b, schema_blank(o->s), others,
                 expr_repeat(b, EXPR_SEQ(b, schema_comma(o->s), others), 0, more),
                 schema_blank(o->s));
    if (max == 0 || others == EXPR_NEVER) some = EXPR_NEVER;
    return schema_enclosed(o->s, "{", min ? some : EXPR_ALT(b, EXPR_EMPTY, some), "}");
}

static uint32_t schema_object_members(object *o)
{
    grammar_builder *b = o->s->b;
    uint32_t min, max, others = other_members(o), n = 0;
    const char *name;
    json_t *each;
    count_members(o, others, &min, &max);
    if (json_object_size(o->names) == 0) return only_others(o, others, min, max);
    bytes list = {.max = GRAMMAR_PARTS_MAX * sizeof(uint32_t)};
    bool may_be_empty = true;
    json_object_foreach(o->names, name, each)
    {
        bool must = json_is_true(each);
        uint32_t e = schema_object_member(o, name), *to = builder_add(b, &list, 2 * sizeof *to);
        may_be_empty &= !must;
        if (to) to[0] = e, to[1] = must ? LIST_MUST : LIST_MAY;
        n++;
    }
    if (others != EXPR_NEVER) {
        uint32_t *to = builder_add(b, &list, 2 * sizeof *to);
        if (to) to[0] = others, to[1] = LIST_MANY;
        n++;
    }
    uint32_t e = expr_list(b, schema_comma(o->s), (const uint32_t *)list.ptr, n);
    bytes_free(&list);
    uint32_t inside = EXPR_SEQ(b, schema_blank(o->s), e, schema_blank(o->s));
    return schema_enclosed(o->s, "{", may_be_empty ? EXPR_ALT(b, EXPR_EMPTY, inside) : inside, "}");
}

uint32_t schema_object(schema_compiler *s, const conjuncts *of)
{
    object o = {.s = s, .of = of, .names = json_object()};
    if (!o.names) return builder_lack(s->b), EXPR_NEVER;
    schema_object_gather(&o);
    if (!s->b->status) gather_allowed(&o);
    uint32_t e = s->b->status ? EXPR_NEVER : schema_object_members(&o);
    json_decref(o.names);
    return e;
}
