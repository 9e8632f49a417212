/* schema_text.c - strings: lengths, patterns, formats. */
#include "sampling/schema.h"

static const char *const string_keys[] = {"minLength", "maxLength", "pattern", "format",
                                          SCHEMA_NOT_PATTERN};

/* The year 0000, which RFC 3339 has and most readers do not, is left out. */
#define YEAR "(\\d{3}[1-9]|\\d\\d[1-9]\\d|\\d[1-9]\\d\\d|[1-9]\\d{3})"
#define YEAR_DATE                                                                                  \
    "(" YEAR "-((0[13578]|1[02])-(0[1-9]|[12]\\d|3[01])|(0[469]|11)-(0[1-9]|[12]\\d|30)|"          \
    "02-(0[1-9]|1\\d|2[0-8]))|(\\d\\d(0[48]|[2468][048]|[13579][26])|"                             \
    "(0[48]|[2468][048]|[13579][26])00)-02-29)"
#define DAY_TIME                                                                                   \
    "([01]\\d|2[0-3]):[0-5]\\d:[0-5]\\d(\\.\\d{1,9})?([zZ]|[+-]([01]\\d|2[0-3]):[0-5]\\d)"
#define BYTE_10 "(25[0-5]|2[0-4]\\d|1\\d\\d|[1-9]?\\d)"
#define IPV4    BYTE_10 "(\\." BYTE_10 "){3}"
#define HEX4    "[0-9a-fA-F]{1,4}"
#define LABEL   "[a-zA-Z0-9]([a-zA-Z0-9-]{0,30}[a-zA-Z0-9])?"
#define HOST    LABEL "(\\." LABEL "){0,5}"
#define PCHAR   "([A-Za-z0-9._~!$&'()*+,;=:@-]|%[0-9a-fA-F]{2})"
#define SPAN    "T(\\d{1,9}H(\\d{1,9}M(\\d{1,9}S)?)?|\\d{1,9}M(\\d{1,9}S)?|\\d{1,9}S)"
#define DAYS    "\\d{1,9}D"
#define MONTHS  "\\d{1,9}M(" DAYS ")?"

/* What RFC 3339, 5321, 1123, 2673, 4291, 4122 and 3986 call so, or (hosts, addresses of mail, URIs)
 * the plain and common ones of that.  Years with a 29th of February have one. */
static const struct {
    const char *name, *regex;
} formats[] = {
    {"date", YEAR_DATE},
    {"time", DAY_TIME},
    {"date-time", YEAR_DATE "[tT]" DAY_TIME},
    {"duration", "P(\\d{1,9}W|((" DAYS "|" MONTHS "|\\d{1,9}Y(" MONTHS ")?)(" SPAN ")?)|" SPAN ")"},
    {"email",
     "[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]{1,30}(\\.[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]{1,30})?@" HOST},
    {"hostname", HOST},
    {"ipv4", IPV4},
    {"ipv6",
     "((" HEX4 ":){7}" HEX4 "|(" HEX4 ":){6}" IPV4 "|::((" HEX4 ":){0,5}(" HEX4 "|" IPV4 "))?|" HEX4
     "::((" HEX4 ":){0,4}(" HEX4 "|" IPV4 "))?|" HEX4 "(:" HEX4 "){1,1}::((" HEX4 ":){0,3}(" HEX4
     "|" IPV4 "))?|" HEX4 "(:" HEX4 "){2}::((" HEX4 ":){0,2}(" HEX4 "|" IPV4 "))?|" HEX4 "(:" HEX4
     "){3}::((" HEX4 ":){0,1}(" HEX4 "|" IPV4 "))?|" HEX4 "(:" HEX4 "){4}::(" HEX4 "|" IPV4
     ")?|" HEX4 "(:" HEX4 "){5}::(" HEX4 ")?|" HEX4 "(:" HEX4 "){6}::)"},
    {"uuid", "[0-9a-fA-F]{8}-([0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}"},
    {"uri", "[A-Za-z][A-Za-z0-9+.-]{0,30}:(//(" HOST "|" IPV4 ")(:\\d{1,5})?(/" PCHAR "*)*|/?" PCHAR
            "+(/" PCHAR "*)*)(\\?(" PCHAR "|[/?])*)?(#(" PCHAR "|[/?])*)?"},
};

bool schema_string_is_any(const conjuncts *of)
{
    size_t at = 0;
    return !schema_has(of, string_keys, ARRAY_LEN(string_keys)) &&
           !schema_forbidden(of, TYPE_STRING, &at);
}

static uint32_t format_of(schema_compiler *s, const json_t *value)
{
    const char *name = json_string_value(value);
    char what[160];
    for (size_t i = 0; name && i < ARRAY_LEN(formats); i++)
        if (!strcmp(formats[i].name, name))
            return expr_regex(s->b, view_of(formats[i].regex), (regex_options){.form = CODES_JSON},
                              s->path);
    snprintf(what, sizeof what, "'%.60s' is not supported", name ? name : "");
    schema_refuse(s, "format", what);
    return EXPR_NEVER;
}

static uint32_t pattern_of(schema_compiler *s, const json_t *value)
{
    char place[512];
    if (!json_is_string(value)) {
        schema_refuse(s, "pattern", "must be a string");
        return EXPR_NEVER;
    }
    snprintf(place, sizeof place, "%.400s/pattern", s->path);
    return expr_regex(s->b, (view){json_string_value(value), json_string_length(value)},
                      (regex_options){.form = CODES_JSON, .is_search = true}, place);
}

static uint32_t both(schema_compiler *s, uint32_t x, uint32_t y)
{
    return x == GRAMMAR_NONE ? y : expr_and(s->b, x, y);
}

/* But for what the schemas say that it must not be. */
static uint32_t without_forbidden(schema_compiler *s, const conjuncts *of, uint32_t e)
{
    const json_t *value;
    for (uint32_t i = 0; i < of->n && !s->b->status; i++) {
        const json_t *pattern = json_object_get(of->of[i].schema, SCHEMA_NOT_PATTERN);
        if (pattern) e = expr_minus(s->b, e, pattern_of(s, pattern));
    }
    for (size_t at = 0; (value = schema_forbidden(of, TYPE_STRING, &at)) && !s->b->status;) {
        view text = {json_string_value(value), json_string_length(value)};
        e = expr_minus(s->b, e, expr_literal(s->b, text, CODES_JSON));
    }
    return e;
}

uint32_t schema_string_body(schema_compiler *s, const conjuncts *of)
{
    uint32_t min = 0, max = GRAMMAR_NO_MAX, e = GRAMMAR_NONE;
    bool counts = schema_count(s, of, "minLength", false, &min);
    counts |= schema_count(s, of, "maxLength", true, &max);
    for (uint32_t i = 0; i < of->n && !s->b->status; i++) {
        const json_t *pattern = json_object_get(of->of[i].schema, "pattern");
        const json_t *format = json_object_get(of->of[i].schema, "format");
        if (pattern) e = both(s, e, pattern_of(s, pattern));
        if (format) e = both(s, e, format_of(s, format));
    }
    if (counts || e == GRAMMAR_NONE) {
        uint32_t any = expr_code_range(s->b, 0, CODE_MAX, CODES_JSON);
        e = both(s, e, expr_repeat(s->b, any, min, max));
    }
    return without_forbidden(s, of, e);
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
    schema_count(s, of, "minLength", false, &min);
    schema_count(s, of, "maxLength", true, &max);
    return EXPR_SEQ(b, quote, expr_repeat(b, expr_call(b, s->character), min, max), quote);
}

/* ---- names of members ---- */

/* Those that const and enum leave; NONE: there is no such key. */
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
        if (only || list) e = both(s, e, any);
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
        return both(s, values, body);
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
