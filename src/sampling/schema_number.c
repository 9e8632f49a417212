/* schema_number.c - numbers: digits, bounds in decimals, multiples.
 *
 * Bounds are compared as text: more digits before the point are greater; for equal counts the first
 * different digit decides.  With a bound, numbers have no exponent. */
#include "sampling/schema.h"

#include <math.h>

#include "base/json.h"

enum { DIGITS_MAX = 18 }; /* after the point */

#define WHOLE_END 1e20 /* the first with more than SCHEMA_WHOLE_DIGITS digits */

/* A decimal without sign: digits before the point, and after it without zeros at the end. */
typedef struct {
    char whole[32], part[32];
} decimal;

typedef struct {
    bool is_set, is_strict, is_negative;
    decimal at;
} bound;

static const char *const number_keys[] = {"minimum", "maximum", "exclusiveMinimum",
                                          "exclusiveMaximum", "multipleOf"};

bool schema_number_is_any(const conjuncts *of)
{
    size_t at = 0;
    return !schema_has(of, number_keys, ARRAY_LEN(number_keys)) &&
           !schema_forbidden(of, TYPE_NUMBER, &at);
}

/* The magnitude of a finite number, exactly or in the fewest digits that round-trip. False: too
 * long. */
static bool decimal_of(const json_t *number, decimal *out)
{
    char text[64];
    int places = 0;
    double value = fabs(json_number_value(number));
    *out = (decimal){{0}, {0}};
    if (value >= WHOLE_END || (value != 0 && value < 1e-18)) return false;
    if (json_is_integer(number) || value >= 9223372036854775808.0) {
        json_number_text(text, number);
        snprintf(out->whole, sizeof out->whole, "%s", text + (*text == '-'));
        return true;
    }
    do snprintf(text, sizeof text, "%.*f", places, value);
    while (places++ < 27 && strtod(text, NULL) != value);
    char *point = strchr(text, '.');
    size_t n_part = point ? strlen(point + 1) : 0;
    if (point) *point = '\0';
    while (n_part > 0 && point[n_part] == '0') n_part--;
    if (strlen(text) >= sizeof out->whole || n_part >= sizeof out->part) return false;
    memcpy(out->whole, text, strlen(text));
    if (point) memcpy(out->part, point + 1, n_part);
    return true;
}

/* ---- comparisons of digits ---- */

static uint32_t schema_number_digits(schema_compiler *s, uint32_t min, uint32_t max)
{
    return expr_repeat(s->b, expr_bytes(s->b, '0', '9'), min, max);
}

/* Digits between two, or none. */
static uint32_t schema_number_between(schema_compiler *s, int lo, int hi)
{
    return lo > hi ? EXPR_NEVER : expr_bytes(s->b, (uint8_t)lo, (uint8_t)hi);
}

/* Whole numbers above (or below) the one of the digits. */
static uint32_t whole_beyond(schema_compiler *s, const char *of, bool is_above)
{
    uint32_t len = (uint32_t)strlen(of), parts[34], n = 0;
    for (uint32_t i = 0; i < len; i++) {
        int least = i == 0 && len > 1 ? '1' : '0';
        uint32_t digit = is_above ? schema_number_between(s, of[i] + 1, '9')
                                  : schema_number_between(s, least, of[i] - 1);
        parts[n++] = EXPR_SEQ(s->b, expr_text(s->b, (view){of, i}), digit,
                              schema_number_digits(s, len - i - 1, len - i - 1));
    }
    uint32_t first = expr_bytes(s->b, '1', '9');
    if (is_above && len < SCHEMA_WHOLE_DIGITS)
        parts[n++] = EXPR_SEQ(s->b, first, schema_number_digits(s, len, SCHEMA_WHOLE_DIGITS - 1));
    if (!is_above && len > 1) {
        parts[n++] = expr_bytes(s->b, '0', '0');
        parts[n++] = EXPR_SEQ(s->b, first, schema_number_digits(s, 0, len - 2));
    }
    return expr_alt(s->b, parts, n);
}

static uint32_t any_part(schema_compiler *s)
{
    return expr_repeat(
        s->b, EXPR_SEQ(s->b, expr_text(s->b, VIEW(".")), schema_number_digits(s, 1, DIGITS_MAX)), 0,
        1);
}

/* Zeros, and with is_more then at least one other digit. */
static uint32_t schema_number_zeros(schema_compiler *s, bool is_more)
{
    uint32_t zero = expr_repeat(s->b, expr_bytes(s->b, '0', '0'), 0, DIGITS_MAX);
    if (!is_more) return zero;
    return EXPR_SEQ(s->b, zero, expr_bytes(s->b, '1', '9'), schema_number_digits(s, 0, DIGITS_MAX));
}

/* Fractions after an equal whole number: those at least (at most) the bound's. */
static uint32_t part_beyond(schema_compiler *s, const bound *of, bool is_above)
{
    const char *part = of->at.part;
    uint32_t len = (uint32_t)strlen(part), parts[70], n = 0;
    uint32_t point = expr_text(s->b, VIEW("."));
    if (len == 0 && is_above && !of->is_strict) return any_part(s);
    if (len == 0 && !is_above && of->is_strict) return EXPR_NEVER;
    for (uint32_t i = 0; i < len; i++) {
        uint32_t digit = is_above ? schema_number_between(s, part[i] + 1, '9')
                                  : schema_number_between(s, '0', part[i] - 1);
        uint32_t same = expr_text(s->b, (view){part, i});
        parts[n++] = EXPR_SEQ(s->b, point, same, digit, schema_number_digits(s, 0, DIGITS_MAX));
        if (!is_above && i > 0) parts[n++] = EXPR_SEQ(s->b, point, same);
    }
    uint32_t same = expr_text(s->b, (view){part, len});
    if (!is_above) parts[n++] = EXPR_EMPTY; /* no part at all is 0 */
    if (is_above && !of->is_strict)
        parts[n++] = EXPR_SEQ(s->b, point, same, schema_number_digits(s, 0, DIGITS_MAX));
    if (is_above && of->is_strict)
        parts[n++] = EXPR_SEQ(s->b, point, same, schema_number_zeros(s, true));
    if (!is_above && !of->is_strict && len > 0)
        parts[n++] = EXPR_SEQ(s->b, point, same, schema_number_zeros(s, false));
    if (!is_above && !of->is_strict && len == 0)
        parts[n++] =
            EXPR_SEQ(s->b, point, expr_text(s->b, VIEW("0")), schema_number_zeros(s, false));
    return expr_alt(s->b, parts, n);
}

/* Fractions after the whole number of exactly this decimal. */
static uint32_t equal_part(schema_compiler *s, const decimal *of)
{
    grammar_builder *b = s->b;
    uint32_t with_point = EXPR_SEQ(b, expr_text(b, VIEW(".")), expr_text(b, view_of(of->part)),
                                   schema_number_zeros(s, false));
    return of->part[0] ? with_point : EXPR_ALT(b, EXPR_EMPTY, with_point);
}

/* Magnitudes at or beyond a bound's. */
static uint32_t schema_number_beyond(schema_compiler *s, const bound *of, bool is_above,
                                     bool is_whole)
{
    grammar_builder *b = s->b;
    uint32_t more = whole_beyond(s, of->at.whole, is_above),
             same = expr_text(b, view_of(of->at.whole));
    bool takes_same = of->at.part[0] ? !is_above : !of->is_strict;
    if (is_whole) return takes_same ? EXPR_ALT(b, more, same) : more;
    return EXPR_ALT(b, EXPR_SEQ(b, more, any_part(s)),
                    EXPR_SEQ(b, same, part_beyond(s, of, is_above)));
}

/* ---- bounds ---- */

/* The part of a bound that our numbers can reach; is_set is false if all of them are within it. */
static bound read_bound(schema_compiler *s, const char *key, const json_t *number, bool is_max,
                        bool is_strict)
{
    double value = json_number_value(number);
    bound out = {.is_set = true, .is_strict = is_strict, .is_negative = value < 0};
    if (fabs(value) >= WHOLE_END) {
        out.is_set = false;
        if ((value < 0) == is_max)
            schema_lack(s, key, "leaves numbers of more than 20 digits only");
    } else if (!decimal_of(number, &out.at)) { /* finer than we write: 0, or the next value */
        out = (bound){.is_set = true, .is_strict = (value < 0) == is_max, .at = {"0", ""}};
    }
    return out;
}

/* The tightest of the bounds of one side. */
static void find_bound(schema_compiler *s, const conjuncts *of, bool is_max, bound *out)
{
    static const char *const keys[2][2] = {{"minimum", "exclusiveMinimum"},
                                           {"maximum", "exclusiveMaximum"}};
    double best = 0;
    out->is_set = false;
    for (uint32_t i = 0; i < of->n; i++) {
        const json_t *schema = of->of[i].schema;
        for (int strict = 0; strict < 2; strict++) {
            const char *key = keys[is_max][strict];
            const json_t *value = json_object_get(schema, key);
            if (!value) continue;
            bool was =
                strict && json_is_boolean(value); /* draft 4: whether "minimum" is exclusive */
            if (was && json_is_false(value)) continue;
            if (was) value = json_object_get(schema, keys[is_max][0]);
            if (!json_is_number(value)) {
                schema_refuse(s, key, "must be a number");
                continue;
            }
            double at = json_number_value(value);
            bool tighter = !out->is_set || (is_max ? at < best : at > best) ||
                           (at == best && strict && !out->is_strict);
            bound here = read_bound(s, key, value, is_max, strict);
            if (!tighter || !here.is_set) continue;
            best = at;
            *out = here;
        }
    }
}

/* Magnitudes of numbers of one sign between bounds: from `low` (towards zero) to `high`. */
static uint32_t schema_number_magnitudes(schema_compiler *s, const bound *low, const bound *high,
                                         bool is_whole)
{
    uint32_t e = GRAMMAR_NONE;
    if (low) e = schema_number_beyond(s, low, true, is_whole);
    if (high) {
        uint32_t below = schema_number_beyond(s, high, false, is_whole);
        e = e == GRAMMAR_NONE ? below : expr_and(s->b, e, below);
    }
    if (e != GRAMMAR_NONE) return e;
    uint32_t whole = EXPR_ALT(
        s->b, expr_text(s->b, VIEW("0")),
        EXPR_SEQ(s->b, expr_bytes(s->b, '1', '9'),
                 schema_number_digits(s, 0, SCHEMA_WHOLE_DIGITS - 1)));
    return is_whole ? whole : EXPR_SEQ(s->b, whole, any_part(s));
}

static bool is_zero(const bound *at)
{
    return !strcmp(at->at.whole, "0") && !at->at.part[0];
}

/* All multipleOf of the schemas, as magnitudes; NONE without any. */
static uint32_t schema_number_multiples(schema_compiler *s, const conjuncts *of)
{
    uint32_t all = GRAMMAR_NONE;
    for (uint32_t i = 0; i < of->n; i++) {
        const json_t *value = json_object_get(of->of[i].schema, "multipleOf");
        if (!value) continue;
        decimal d;
        uint64_t unit = 0;
        char text[80];
        bool fits = json_is_number(value) && json_number_value(value) > 0 &&
                    decimal_of(value, &d) && strlen(d.part) <= 9;
        if (fits) snprintf(text, sizeof text, "%s%s", d.whole, d.part);
        if (!fits || !parse_u64(view_of(text), &unit) || unit > GRAMMAR_RESIDUES_MAX) {
            if (json_is_number(value) && json_number_value(value) > 0)
                schema_lack(s, "multipleOf", "has more digits than can be kept to");
            else
                schema_refuse(s, "multipleOf", "must be a number above 0");
            continue;
        }
        uint32_t e = expr_multiple(s->b, (uint32_t)unit, (uint32_t)strlen(d.part));
        all = all == GRAMMAR_NONE ? e : expr_and(s->b, all, e);
    }
    return all;
}

/* Minus the forbidden numbers, with any number of trailing zeros. */
static uint32_t schema_number_without_forbidden(schema_compiler *s, const conjuncts *of, uint32_t e)
{
    grammar_builder *b = s->b;
    const json_t *value;
    for (size_t i = 0; (value = schema_forbidden(of, TYPE_NUMBER, &i)) && !b->status;) {
        decimal d;
        if (!decimal_of(value, &d)) continue; /* it cannot be written anyway */
        uint32_t same = EXPR_SEQ(b, expr_text(b, view_of(d.whole)), equal_part(s, &d));
        if (json_number_value(value) < 0) same = EXPR_SEQ(b, expr_text(b, VIEW("-")), same);
        e = expr_minus(b, e, same);
    }
    return e;
}

/* Numbers with a nonzero digit after the decimal point. */
static uint32_t schema_number_fractions(schema_compiler *s)
{
    return expr_regex(s->b, VIEW("-?(0|[1-9]\\d{0,19})\\.\\d{0,17}[1-9]"),
                      (regex_options){.form = CODES_RAW}, s->path);
}

static uint32_t numbers_between(schema_compiler *s, const conjuncts *of, bool is_whole);

uint32_t schema_number(schema_compiler *s, const conjuncts *of, unsigned types)
{
    unsigned kinds = types & TYPE_NUMBER;
    bool is_any = schema_number_is_any(of);
    if (is_any && kinds == TYPE_FRACTION) return schema_number_fractions(s);
    if (is_any) return expr_call(s->b, kinds == TYPE_INTEGER ? s->integer : s->number);
    uint32_t e = numbers_between(s, of, kinds == TYPE_INTEGER);
    if (kinds == TYPE_FRACTION) e = expr_and(s->b, e, schema_number_fractions(s));
    return schema_number_without_forbidden(s, of, e);
}

static uint32_t numbers_between(schema_compiler *s, const conjuncts *of, bool is_whole)
{
    grammar_builder *b = s->b;
    bound low, high;
    find_bound(s, of, false, &low);
    find_bound(s, of, true, &high);
    uint32_t unit = schema_number_multiples(s, of), sides[2], n = 0;
    if (!(high.is_set && (high.is_negative || (is_zero(&high) && high.is_strict)))) {
        bool from_low = low.is_set && !low.is_negative && !(is_zero(&low) && !low.is_strict);
        uint32_t e = schema_number_magnitudes(s, from_low ? &low : NULL, high.is_set ? &high : NULL,
                                              is_whole);
        sides[n++] = unit == GRAMMAR_NONE ? e : expr_and(b, e, unit);
    }
    if (!(low.is_set && !low.is_negative)) {
        const bound above_zero = {.is_set = true, .is_strict = true, .at = {"0", ""}};
        bool to_high = high.is_set && high.is_negative;
        uint32_t e = schema_number_magnitudes(s, to_high ? &high : &above_zero,
                                              low.is_set ? &low : NULL, is_whole);
        if (unit != GRAMMAR_NONE) e = expr_and(b, e, unit);
        sides[n++] = EXPR_SEQ(b, expr_text(b, VIEW("-")), e);
    }
    return expr_alt(b, sides, n);
}
