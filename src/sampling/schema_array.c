/* schema_array.c - arrays: items, their count, `contains` and `uniqueItems`.
 *
 * When items are counted, each position in the array is a rule: the number of items so far, and how
 * many of them matched `contains`. With uniqueItems, a rule represents the values already used. */
#include "sampling/schema.h"

enum {
    PLACES_MAX = 4096, /* rules of one array */
    SUBSET_MAX = 8,    /* values in any order; further ones come in the schema's order */
};

typedef struct {
    schema_compiler *s;
    const conjuncts *of;
    uint32_t n_prefix, min, max; /* max: or NO_MAX */
    uint32_t applied[GRAMMAR_CONJUNCTS_MAX]; /* see schema_applied(); of those that need it */
    bool asks;                               /* some do */
    /* contains: of one schema; NULL when none matters */
    const json_t *contains, *other; /* other: all other items; NULL: no distinction needed */
    uint32_t owner, least, most;    /* owner: its conjunct; most: or NO_MAX */
} array;

uint32_t schema_blank(schema_compiler *s)
{
    return expr_call(s->b, s->blank);
}

uint32_t schema_comma(schema_compiler *s)
{
    return EXPR_SEQ(s->b, expr_text(s->b, VIEW(",")), schema_blank(s));
}

uint32_t schema_enclosed(schema_compiler *s, const char *open, uint32_t inside, const char *close)
{
    return EXPR_SEQ(s->b, expr_text(s->b, view_of(open)), inside, expr_text(s->b, view_of(close)));
}

/* ---- one item ---- */

/* Items before the uniform rest: 2020's prefixItems, or items as a list. */
static const json_t *prefix_of(const json_t *schema)
{
    const json_t *list = json_object_get(schema, "prefixItems");
    if (!list) list = json_object_get(schema, "items");
    return json_is_array(list) ? list : NULL;
}

static const json_t *rest_of(const json_t *schema)
{
    const json_t *items = json_object_get(schema, "items");
    return json_is_array(items) ? json_object_get(schema, "additionalItems") : items;
}

/* Whether a schema that conjunct `which` applies in place constrains the item. */
static bool schema_array_is_evaluated(const array *a, uint32_t which, size_t at, bool is_contained)
{
    for (uint32_t i = 0; i < a->of->n; i++) {
        const json_t *schema = a->of->of[i].schema;
        if (!(a->applied[which] >> i & 1)) continue;
        if (json_array_get(prefix_of(schema), at) || rest_of(schema)) return true;
        if (i != which && json_object_get(schema, "unevaluatedItems")) return true;
        if (is_contained && i == a->owner) return true;
    }
    return false;
}

/* The schemas of the item at a position; at == n_prefix for all after the prefixes.  False: none
 * fits. */
static bool item_at(const array *a, size_t at, bool is_contained, conjuncts *out)
{
    out->n = 0;
    for (uint32_t i = 0; i < a->of->n; i++) {
        const json_t *schema = a->of->of[i].schema;
        const json_t *own = json_array_get(prefix_of(schema), at), *rest = rest_of(schema);
        const json_t *unseen = json_object_get(schema, "unevaluatedItems");
        if (own || rest) conjuncts_add(a->s, out, own ? own : rest);
        if (unseen && !schema_array_is_evaluated(a, i, at, is_contained))
            conjuncts_add(a->s, out, unseen);
    }
    if (is_contained) conjuncts_add(a->s, out, a->contains);
    if (!is_contained && a->other) conjuncts_add(a->s, out, a->other);
    return !schema_is_never(out);
}

static uint32_t schema_array_item(const array *a, size_t at, bool is_contained)
{
    conjuncts of;
    char place[24];
    bool is_prefix = at < a->n_prefix;
    snprintf(place, sizeof place, "%zu", at);
    if (!item_at(a, is_prefix ? at : a->n_prefix, is_contained, &of)) return EXPR_NEVER;
    return expr_call(a->s->b, schema_rule(a->s, &of, is_prefix ? "prefixItems" : "items",
                                          is_prefix ? place : ""));
}

/* ---- items not counted by kind ---- */

/* At least one; each but the first has a comma before it. */
static uint32_t plain_items(const array *a)
{
    grammar_builder *b = a->s->b;
    uint32_t rest = EXPR_EMPTY, n = a->n_prefix,
             e = a->max > n ? schema_array_item(a, n, false) : EXPR_NEVER;
    if (e != EXPR_NEVER) {
        uint32_t least = a->min > n ? a->min - n : 0;
        uint32_t more = a->max == GRAMMAR_NO_MAX ? a->max : a->max - n;
        uint32_t next = EXPR_SEQ(b, schema_comma(a->s), e);
        if (n > 0)
            rest = expr_repeat(b, next, least, more);
        else /* the first one, always present in the result */
            rest = EXPR_SEQ(b, e,
                            expr_repeat(b, next, least ? least - 1 : 0,
                                        more == GRAMMAR_NO_MAX ? more : more - 1));
    } else if (a->min > n || n == 0) {
        return EXPR_NEVER;
    }
    for (uint32_t i = n; i-- > 0 && !b->status;) {
        e = i < a->max ? schema_array_item(a, i, false) : EXPR_NEVER;
        rest = EXPR_SEQ(b, i ? schema_comma(a->s) : EXPR_EMPTY, e, rest);
        if (i > 0 && i >= a->min) rest = EXPR_ALT(b, rest, EXPR_EMPTY);
    }
    return rest;
}

/* ---- counted items ---- */

/* The rules of positions: [n_places][n_counts], the first of them is the array's inside. */
typedef struct {
    uint32_t first, n_places, n_counts;
} places;

static bool make_rules(schema_compiler *s, uint64_t n, uint32_t *first)
{
    if (n > PLACES_MAX) {
        schema_lack(s, "contains", "or uniqueItems of an array so long is not supported");
        return false;
    }
    *first = builder_n_rules(s->b);
    for (uint64_t i = 0; i < n; i++) rule_new(s->b);
    return !s->b->status;
}

/* The rules after i items, k of which are contained (k is capped at the count that matters).  The
 * last position repeats if the length is unbounded. */
static uint32_t counted_place(const array *a, const places *p, uint32_t i, uint32_t k)
{
    grammar_builder *b = a->s->b;
    uint32_t last = p->n_places - 1, to = i < last ? i + 1 : i, parts[3], n = 0;
    uint32_t comma = i ? schema_comma(a->s) : EXPR_EMPTY;
    uint32_t more = a->most == GRAMMAR_NO_MAX && k + 1 == p->n_counts ? k : k + 1;
    bool is_end = a->max != GRAMMAR_NO_MAX && i >= a->max;
    if (i > 0 && i >= a->min && k >= a->least) parts[n++] = EXPR_EMPTY;
    if (!is_end)
        parts[n++] = EXPR_SEQ(b, comma, schema_array_item(a, i, false),
                              expr_call(b, p->first + to * p->n_counts + k));
    if (!is_end && more < p->n_counts)
        parts[n++] = EXPR_SEQ(b, comma, schema_array_item(a, i, true),
                              expr_call(b, p->first + to * p->n_counts + more));
    return expr_alt(b, parts, n);
}

/* As without contains. */
static uint32_t uncounted_items(const array *a)
{
    array all = *a;
    all.contains = all.other = NULL;
    return plain_items(&all);
}

static uint32_t counted_items(const array *a)
{
    places p = {.n_counts = (a->most == GRAMMAR_NO_MAX ? a->least : a->most) + 1};
    uint32_t last = a->n_prefix > a->min ? a->n_prefix : a->min;
    if (a->max != GRAMMAR_NO_MAX) last = a->max;
    p.n_places = (last ? last : 1) + 1;
    if (!make_rules(a->s, (uint64_t)p.n_places * p.n_counts, &p.first)) return uncounted_items(a);
    for (uint32_t i = 0; i < p.n_places && !a->s->b->status; i++)
        for (uint32_t k = 0; k < p.n_counts; k++)
            rule_set(a->s->b, p.first + i * p.n_counts + k, counted_place(a, &p, i, k));
    return expr_call(a->s->b, p.first);
}

/* ---- uniqueItems ---- */

/* After the values in `used`. */
static uint32_t subset_place(const array *a, const uint32_t *values, uint32_t n, uint32_t first,
                             uint32_t used)
{
    grammar_builder *b = a->s->b;
    uint32_t parts[SUBSET_MAX + 1], n_parts = 0, count = (uint32_t)__builtin_popcount(used);
    uint32_t comma = used ? schema_comma(a->s) : EXPR_EMPTY;
    if (used && count >= a->min) parts[n_parts++] = EXPR_EMPTY;
    for (uint32_t i = 0; i < n && count < a->max; i++)
        if (!(used >> i & 1))
            parts[n_parts++] = EXPR_SEQ(b, comma, expr_call(b, values[i]),
                                        expr_call(b, first + (used | 1u << i)));
    return expr_alt(b, parts, n_parts);
}

/* After `count` values (capped at the count that matters), the last of which is number i - 1 of the
 * schema's. */
static uint32_t ordered_place(const array *a, const uint32_t *values, uint32_t n,
                              const places *p, uint32_t i, uint32_t count)
{
    grammar_builder *b = a->s->b;
    bytes parts = {.max = GRAMMAR_PARTS_MAX * sizeof(uint32_t)};
    uint32_t comma = i ? schema_comma(a->s) : EXPR_EMPTY, *to;
    uint32_t more = count + 1 < p->n_counts ? count + 1 : count;
    if (i && count >= a->min && (to = builder_add(b, &parts, sizeof *to))) *to = EXPR_EMPTY;
    for (uint32_t v = i; v < n && count < a->max; v++) {
        uint32_t e = EXPR_SEQ(b, comma, expr_call(b, values[v]),
                              expr_call(b, p->first + (v + 1) * p->n_counts + more));
        if ((to = builder_add(b, &parts, sizeof *to))) *to = e;
    }
    uint32_t e = expr_alt(b, (const uint32_t *)parts.ptr, parts.len / sizeof *to);
    bytes_free(&parts);
    return e;
}

static uint32_t unlike_values(const array *a, const uint32_t *values, uint32_t n)
{
    grammar_builder *b = a->s->b;
    if (n <= SUBSET_MAX) {
        uint32_t first;
        if (!make_rules(a->s, UINT64_C(1) << n, &first)) return EXPR_NEVER;
        for (uint32_t used = 0; used < 1u << n; used++)
            rule_set(b, first + used, subset_place(a, values, n, first, used));
        return expr_call(b, first);
    }
    places p = {.n_places = n + 1, .n_counts = (a->max < n ? a->max : a->min) + 1};
    if (!make_rules(a->s, (uint64_t)p.n_places * p.n_counts, &p.first)) return uncounted_items(a);
    for (uint32_t i = 0; i < p.n_places && !b->status; i++)
        for (uint32_t count = 0; count < p.n_counts; count++)
            rule_set(b, p.first + i * p.n_counts + count,
                     ordered_place(a, values, n, &p, i, count));
    return expr_call(b, p.first);
}

static uint32_t unlike_items(const array *a)
{
    bytes values = {.max = PLACES_MAX * sizeof(uint32_t)};
    conjuncts of;
    uint32_t e = EXPR_NEVER;
    bool fits = item_at(a, 0, false, &of);
    bool is_lack = a->n_prefix || a->contains || (fits && !schema_finite(a->s, &of, &values));
    if (is_lack)
        schema_lack(a->s, "uniqueItems",
                    "needs items that an enum lists, without prefixItems or contains");
    if (is_lack)
        e = a->contains ? counted_items(a) : plain_items(a);
    else if (fits)
        e = unlike_values(a, (const uint32_t *)values.ptr,
                          (uint32_t)(values.len / sizeof(uint32_t)));
    bytes_free(&values);
    return e;
}

/* ---- the whole array ---- */

static bool read_contains(array *a)
{
    for (uint32_t i = 0; i < a->of->n; i++) {
        const json_t *schema = a->of->of[i].schema, *of = json_object_get(schema, "contains");
        conjuncts alone = {.n = 1, .of = {{schema, 0}}};
        if (!of) continue;
        uint32_t least = 1, most = GRAMMAR_NO_MAX;
        schema_count(a->s, &alone, "minContains", false, &least);
        schema_count(a->s, &alone, "maxContains", true, &most);
        if (least == 0 && most == GRAMMAR_NO_MAX && !a->asks) continue;
        if (a->contains) {
            schema_lack(a->s, "contains", "of several schemas at once: only the first counts");
            continue;
        }
        a->contains = of;
        a->owner = i;
        a->least = least;
        a->most = most;
        if (most != GRAMMAR_NO_MAX) a->other = schema_made_of(a->s, schema, "contains");
    }
    return !a->s->b->status;
}

static bool schema_array_read(array *a)
{
    schema_count(a->s, a->of, "minItems", false, &a->min);
    schema_count(a->s, a->of, "maxItems", true, &a->max);
    for (uint32_t i = 0; i < a->of->n; i++) {
        const json_t *schema = a->of->of[i].schema;
        size_t n = json_array_size(prefix_of(schema));
        if (n > a->n_prefix) a->n_prefix = (uint32_t)n;
        if (!json_object_get(schema, "unevaluatedItems")) continue;
        a->asks = true;
        a->applied[i] = schema_applied(a->s, a->of, i);
    }
    if (a->n_prefix > GRAMMAR_NESTING_MAX / 2)
        builder_fail(a->s->b, CERIUM_ERR_CAPACITY, "%s/prefixItems: has more than 64 items",
                     a->s->path);
    return read_contains(a);
}

uint32_t schema_array(schema_compiler *s, const conjuncts *of)
{
    grammar_builder *b = s->b;
    array a = {.s = s, .of = of, .max = GRAMMAR_NO_MAX};
    bool is_unlike = false;
    if (!schema_array_read(&a)) return EXPR_NEVER;
    for (uint32_t i = 0; i < of->n; i++)
        is_unlike |= json_is_true(json_object_get(of->of[i].schema, "uniqueItems"));
    uint32_t some = EXPR_NEVER;
    if (a.max && is_unlike && a.max > 1)
        some = unlike_items(&a);
    else if (a.max)
        some = a.contains ? counted_items(&a) : plain_items(&a);
    some = EXPR_SEQ(b, schema_blank(s), some, schema_blank(s));
    bool may_be_empty = a.min == 0 && a.least == 0;
    return schema_enclosed(s, "[", may_be_empty ? EXPR_ALT(b, EXPR_EMPTY, some) : some, "]");
}
