/* jinja_value.c - owns values: making, comparing and indexing them, like Python. */
#include "template/jinja_value.h"

/* ---- failing ---- */

void jinja_fail(jinja_run *r, uint32_t line, const char *format, ...)
{
    if (r->status) return;
    va_list args;
    va_start(args, format);
    vsnprintf(r->err.message, sizeof r->err.message, format, args);
    va_end(args);
    r->err.failure = JINJA_FAILED;
    r->err.line = line;
    r->status = CERIUM_ERR_FORMAT;
}

void jinja_exceed(jinja_run *r, uint32_t line, const char *what)
{
    if (r->status) return;
    jinja_fail(r, line, "%s", what);
    r->err.failure = JINJA_EXCEEDED;
}

void jinja_no_memory(jinja_run *r)
{
    if (!r->status) r->status = CERIUM_ERR_MEMORY;
}

bool jinja_step(jinja_run *r, uint64_t n)
{
    r->steps += n;
    if (r->steps > JINJA_STEPS_MAX) jinja_exceed(r, 0, "the template takes too many steps");
    return !r->status;
}

void *jinja_room(jinja_run *r, size_t size)
{
    if (r->status) return NULL;
    void *out = jinja_take(&r->pool, size);
    if (out) return out;
    if (r->pool.used + size > r->pool.max / 2)
        jinja_exceed(r, 0, "the template takes too much memory");
    else jinja_no_memory(r);
    return NULL;
}

/* ---- making ---- */

jinja_value jinja_undefined(view name)
{
    return (jinja_value){.kind = KIND_UNDEFINED, .text = name.ptr, .len = (uint32_t)name.len};
}

jinja_value jinja_none(void) { return (jinja_value){.kind = KIND_NONE}; }
jinja_value jinja_bool(bool truth) { return (jinja_value){.kind = KIND_BOOL, .truth = truth}; }
jinja_value jinja_real(double real) { return (jinja_value){.kind = KIND_REAL, .real = real}; }

jinja_value jinja_int(int64_t integer)
{
    return (jinja_value){.kind = KIND_INT, .integer = integer};
}

jinja_value jinja_text(view text, jinja_origin origin)
{
    CHECK(text.len <= UINT32_MAX);
    return (jinja_value){.kind = KIND_STRING, .origin = (uint8_t)origin,
                         .text = text.ptr ? text.ptr : "", .len = (uint32_t)text.len};
}

jinja_value jinja_literal(const char *text) { return jinja_text(view_of(text), JINJA_TEMPLATE); }

jinja_value jinja_list(jinja_run *r)
{
    jinja_items *items = jinja_room(r, sizeof *items);
    if (!items) return jinja_undefined(VIEW(""));
    *items = (jinja_items){0};
    return (jinja_value){.kind = KIND_LIST, .at = items};
}

jinja_value jinja_map(jinja_run *r)
{
    jinja_entries *entries = jinja_room(r, sizeof *entries);
    if (!entries) return jinja_undefined(VIEW(""));
    *entries = (jinja_entries){0};
    return (jinja_value){.kind = KIND_MAP, .at = entries};
}

void *jinja_grow(jinja_run *r, void *list, size_t n, size_t *cap, size_t size)
{
    if (n < *cap) return list;
    size_t more = *cap ? 2 * *cap : 4;
    void *to = jinja_room(r, more * size);
    if (!to) return NULL;
    if (n) memcpy(to, list, n * size);
    *cap = more;
    return to;
}

void jinja_append(jinja_run *r, jinja_value list, jinja_value item)
{
    if (r->status) return;
    jinja_items *to = jinja_items_of(list);
    void *items = jinja_grow(r, to->items, to->n, &to->cap, sizeof *to->items);
    if (!items) return;
    to->items = items;
    to->items[to->n++] = item;
}

jinja_value jinja_tuple_of(jinja_run *r, const jinja_value *items, size_t n)
{
    jinja_value out = jinja_list(r);
    for (size_t i = 0; i < n; i++) jinja_append(r, out, items[i]);
    if (!r->status) out.kind = KIND_TUPLE;
    return out;
}

static const jinja_value *jinja_find_text(jinja_value map, view key)
{
    const jinja_entries *in = jinja_entries_of(map);
    for (size_t i = 0; i < in->n; i++) {
        const jinja_entry *one = &in->entries[i];
        if (one->key.kind == KIND_STRING && one->key.len == key.len &&
            (!key.len || !memcmp(one->key.text, key.ptr, key.len)))
            return &one->value;
    }
    return NULL;
}

const jinja_value *jinja_find(jinja_run *r, jinja_value map, jinja_value key)
{
    const jinja_entries *in = jinja_entries_of(map);
    if (!jinja_step(r, in->n / 8)) return NULL;
    if (jinja_is(key, KIND_STRING)) return jinja_find_text(map, jinja_view(key));
    for (size_t i = 0; i < in->n && !r->status; i++)
        if (jinja_equal(r, in->entries[i].key, key)) return &in->entries[i].value;
    return NULL;
}

void jinja_put_value(jinja_run *r, jinja_value map, jinja_value key, jinja_value value)
{
    if (r->status) return;
    jinja_entries *to = jinja_entries_of(map);
    jinja_value *old = (jinja_value *)(uintptr_t)jinja_find(r, map, key);
    if (old) {
        *old = value;
        return;
    }
    void *entries = jinja_grow(r, to->entries, to->n, &to->cap, sizeof *to->entries);
    if (!entries) return;
    to->entries = entries;
    to->entries[to->n++] = (jinja_entry){key, value};
}

void jinja_put(jinja_run *r, jinja_value map, const char *key, jinja_value value)
{
    jinja_put_value(r, map, jinja_literal(key), value);
}

/* ---- queries ---- */

const char *jinja_kind_name(jinja_value v)
{
    static const char *const names[] = {
        "undefined", "None", "bool", "int", "float", "str", "list", "tuple", "dict", "namespace",
        "macro", "method", "function", "loop",
    };
    return v.kind < ARRAY_LEN(names) ? names[v.kind] : "?";
}

bool jinja_is_sequence(jinja_value v) { return v.kind == KIND_LIST || v.kind == KIND_TUPLE; }

bool jinja_is_number(jinja_value v)
{
    return v.kind == KIND_INT || v.kind == KIND_REAL || v.kind == KIND_BOOL;
}

double jinja_as_real(jinja_value v)
{
    return v.kind == KIND_REAL ? v.real : v.kind == KIND_BOOL ? v.truth : (double)v.integer;
}

bool jinja_truth(jinja_value v)
{
    switch ((jinja_kind)v.kind) {
    case KIND_UNDEFINED:
    case KIND_NONE: return false;
    case KIND_BOOL: return v.truth;
    case KIND_INT: return v.integer != 0;
    case KIND_REAL: return v.real != 0;
    case KIND_STRING: return v.len != 0;
    case KIND_LIST:
    case KIND_TUPLE: return jinja_items_of(v)->n != 0;
    case KIND_MAP: return jinja_entries_of(v)->n != 0;
    case KIND_NAMESPACE:
    case KIND_MACRO:
    case KIND_METHOD:
    case KIND_FUNCTION:
    case KIND_LOOP: return true;
    }
    return false;
}

int64_t jinja_length(jinja_value v)
{
    switch ((jinja_kind)v.kind) {
    case KIND_UNDEFINED: return 0;
    case KIND_STRING: return (int64_t)jinja_characters(jinja_view(v));
    case KIND_LIST:
    case KIND_TUPLE: return (int64_t)jinja_items_of(v)->n;
    case KIND_MAP: return (int64_t)jinja_entries_of(v)->n;
    case KIND_LOOP: return (int64_t)((const jinja_loop *)v.at)->n;
    default: return -1;
    }
}

static bool equal_items(jinja_run *r, jinja_value a, jinja_value b)
{
    const jinja_items *x = jinja_items_of(a), *y = jinja_items_of(b);
    if (x->n != y->n) return false;
    for (size_t i = 0; i < x->n; i++)
        if (!jinja_equal(r, x->items[i], y->items[i])) return false;
    return true;
}

static bool equal_maps(jinja_run *r, jinja_value a, jinja_value b)
{
    const jinja_entries *x = jinja_entries_of(a);
    if (x->n != jinja_entries_of(b)->n) return false;
    for (size_t i = 0; i < x->n; i++) {
        const jinja_value *other = jinja_find(r, b, x->entries[i].key);
        if (!other || !jinja_equal(r, x->entries[i].value, *other)) return false;
    }
    return true;
}

/* Values may contain themselves: every recursive function counts its depth. */
static bool go_down(jinja_run *r)
{
    if (r->status) return false;
    if (r->depth < JINJA_DEPTH_MAX) {
        r->depth++;
        return true;
    }
    jinja_exceed(r, 0, "values that are nested too deep");
    return false;
}

bool jinja_equal(jinja_run *r, jinja_value a, jinja_value b)
{
    if (jinja_is_number(a) && jinja_is_number(b)) {
        if (a.kind == KIND_REAL || b.kind == KIND_REAL)
            return jinja_as_real(a) == jinja_as_real(b);
        return (a.kind == KIND_BOOL ? a.truth : a.integer) ==
               (b.kind == KIND_BOOL ? b.truth : b.integer);
    }
    if (a.kind != b.kind) return false;
    if (a.kind == KIND_STRING) {
        if (a.len != b.len || !jinja_step(r, a.len / 64)) return false;
        return view_equal(jinja_view(a), jinja_view(b));
    }
    if (a.kind == KIND_NONE || a.kind == KIND_UNDEFINED) return true;
    if (!jinja_is_sequence(a) && a.kind != KIND_MAP) return a.at == b.at;
    if (!jinja_step(r, 1) || !go_down(r)) return false;
    bool same = a.kind == KIND_MAP ? equal_maps(r, a, b) : equal_items(r, a, b);
    r->depth--;
    return same;
}

int jinja_compare(jinja_run *r, jinja_value a, jinja_value b)
{
    if (jinja_is_number(a) && jinja_is_number(b)) {
        double x = jinja_as_real(a), y = jinja_as_real(b);
        if (a.kind == KIND_INT && b.kind == KIND_INT)
            return (a.integer > b.integer) - (a.integer < b.integer);
        return (x > y) - (x < y);
    }
    if (a.kind == KIND_STRING && b.kind == KIND_STRING) {
        uint32_t n = a.len < b.len ? a.len : b.len;
        if (!jinja_step(r, n / 64)) return 0;
        int order = n ? memcmp(a.text, b.text, n) : 0; /* UTF-8 sorts like its code points */
        return order ? order : (a.len > b.len) - (a.len < b.len);
    }
    if (jinja_is_sequence(a) && a.kind == b.kind && go_down(r)) {
        const jinja_items *x = jinja_items_of(a), *y = jinja_items_of(b);
        int order = 0;
        for (size_t i = 0; !order && !r->status && i < x->n && i < y->n; i++)
            order = jinja_step(r, 1) ? jinja_compare(r, x->items[i], y->items[i]) : 0;
        r->depth--;
        return order ? order : (x->n > y->n) - (x->n < y->n);
    }
    jinja_fail(r, 0, "%s and %s have no order", jinja_kind_name(a), jinja_kind_name(b));
    return 0;
}

bool jinja_contains(jinja_run *r, jinja_value in, jinja_value what)
{
    if (jinja_is(in, KIND_STRING)) {
        if (!jinja_is(what, KIND_STRING)) {
            jinja_fail(r, 0, "'in' a string wants a string, not %s", jinja_kind_name(what));
            return false;
        }
        if (!what.len) return true;
        return jinja_step(r, in.len / 64) && in.len &&
               memmem(in.text, in.len, what.text, what.len) != NULL;
    }
    if (jinja_is(in, KIND_MAP)) return jinja_find(r, in, what) != NULL;
    if (jinja_is_sequence(in)) {
        const jinja_items *list = jinja_items_of(in);
        for (size_t i = 0; i < list->n && jinja_step(r, 1); i++)
            if (jinja_equal(r, list->items[i], what)) return true;
        return false;
    }
    if (!jinja_is(in, KIND_UNDEFINED))
        jinja_fail(r, 0, "%s has no 'in'", jinja_kind_name(in));
    return false;
}

jinja_value jinja_iterate(jinja_run *r, jinja_value v)
{
    if (jinja_is_sequence(v)) return v;
    jinja_value out = jinja_list(r);
    if (r->status || jinja_is(v, KIND_UNDEFINED)) return out;
    if (jinja_is(v, KIND_MAP)) {
        const jinja_entries *in = jinja_entries_of(v);
        for (size_t i = 0; i < in->n && jinja_step(r, 1); i++)
            jinja_append(r, out, in->entries[i].key);
    } else if (jinja_is(v, KIND_STRING)) {
        for (size_t at = 0, n; at < v.len && jinja_step(r, 1); at += n) {
            n = jinja_character((view){v.text + at, v.len - at});
            jinja_append(r, out, jinja_part(v, at, n));
        }
    } else {
        jinja_fail(r, 0, "%s cannot be gone through", jinja_kind_name(v));
    }
    return out;
}

/* ---- indexing ---- */

static void fail_undefined(jinja_run *r, jinja_value v)
{
    jinja_fail(r, 0, "'%.*s' is undefined", (int)(v.len < 80 ? v.len : 80), v.text ? v.text : "");
}

jinja_value jinja_item(jinja_run *r, jinja_value v, jinja_value key)
{
    view name = jinja_is(key, KIND_STRING) ? jinja_view(key) : VIEW("item");
    if (jinja_is(v, KIND_MAP)) {
        const jinja_value *found = jinja_find(r, v, key);
        if (found) return *found;
    } else if (jinja_is(v, KIND_UNDEFINED)) {
        fail_undefined(r, v);
    } else if (jinja_is(key, KIND_INT) && (jinja_is_sequence(v) || jinja_is(v, KIND_STRING))) {
        int64_t n = jinja_length(v), i = key.integer < 0 ? key.integer + n : key.integer;
        if (i < 0 || i >= n) return jinja_undefined(name);
        if (jinja_is_sequence(v)) return jinja_items_of(v)->items[i];
        if (!jinja_step(r, v.len / 64)) return jinja_undefined(name);
        size_t at = jinja_offset(jinja_view(v), (size_t)i);
        return jinja_part(v, at, jinja_character((view){v.text + at, v.len - at}));
    }
    if (jinja_is(key, KIND_STRING) && !r->status)
        return jinja_attribute(r, v, name, jinja_find_method(name));
    return jinja_undefined(name);
}

static jinja_value loop_attribute(const jinja_loop *l, view name)
{
    const jinja_items *in = jinja_items_of(l->list);
    static const char *const names[] = {
        "index", "index0", "revindex", "revindex0", "first", "last", "length", "depth", "depth0",
        "previtem", "nextitem",
    };
    int64_t i = (int64_t)l->i, n = (int64_t)l->n;
    size_t which = 0;
    while (which < ARRAY_LEN(names) && !view_equal(name, view_of(names[which]))) which++;
    switch (which) {
    case 0: return jinja_int(i + 1);
    case 1: return jinja_int(i);
    case 2: return jinja_int(n - i);
    case 3: return jinja_int(n - i - 1);
    case 4: return jinja_bool(i == 0);
    case 5: return jinja_bool(i + 1 == n);
    case 6: return jinja_int(n);
    case 7: return jinja_int(l->depth + 1);
    case 8: return jinja_int(l->depth);
    case 9: return i > 0 ? in->items[i - 1] : jinja_undefined(name);
    case 10: return i + 1 < n ? in->items[i + 1] : jinja_undefined(name);
    default: return jinja_undefined(name);
    }
}

jinja_value jinja_attribute(jinja_run *r, jinja_value v, view name, uint16_t method)
{
    if (r->status) return jinja_undefined(name);
    if (method != CALLEE_NONE && jinja_has_method(v, method)) {
        jinja_method *bound = jinja_room(r, sizeof *bound);
        if (!bound) return jinja_undefined(name);
        *bound = (jinja_method){v, method};
        return (jinja_value){.kind = KIND_METHOD, .at = bound};
    }
    if (jinja_is(v, KIND_MAP) || jinja_is(v, KIND_NAMESPACE)) {
        const jinja_value *found = jinja_find_text(v, name);
        return found && jinja_step(r, jinja_entries_of(v)->n / 8) ? *found : jinja_undefined(name);
    }
    if (jinja_is(v, KIND_LOOP)) return loop_attribute(v.at, name);
    if (jinja_is(v, KIND_MACRO) && view_equal(name, VIEW("name")))
        return jinja_text(((const jinja_macro *)v.at)->node->name, JINJA_TEMPLATE);
    if (jinja_is(v, KIND_UNDEFINED)) fail_undefined(r, v);
    return jinja_undefined(name);
}

/* Python's slice.indices(): from, to and step of n items; false: the step is 0. */
static bool slice_bounds(const jinja_value bounds[3], int64_t n, int64_t out[3])
{
    int64_t step = jinja_is(bounds[2], KIND_INT) ? bounds[2].integer : 1;
    if (!step) return false;
    /* A very large step would overflow past the end. */
    if (step > n) step = n + 1;
    if (step < -n) step = -n - 1;
    int64_t least = step < 0 ? -1 : 0, most = step < 0 ? n - 1 : n;
    for (int i = 0; i < 2; i++) {
        bool last = (i == 0) == (step < 0); /* the default for an omitted bound is this end */
        out[i] = last ? most : least;
        if (jinja_is(bounds[i], KIND_INT)) {
            out[i] = bounds[i].integer < 0 ? bounds[i].integer + n : bounds[i].integer;
            if (out[i] < least) out[i] = least;
            if (out[i] > most) out[i] = most;
        }
    }
    out[2] = step;
    return true;
}

static jinja_value slice_text(jinja_run *r, jinja_value v, const int64_t at[3])
{
    view text = jinja_view(v);
    if (!jinja_step(r, v.len / 64)) return jinja_undefined(VIEW(""));
    if (at[2] == 1) {
        size_t from = jinja_offset(text, (size_t)at[0]);
        size_t to = at[1] > at[0] ? jinja_offset(text, (size_t)at[1]) : from;
        return jinja_part(v, from, to - from);
    }
    jinja_value all = jinja_iterate(r, v), out = jinja_list(r);
    for (int64_t i = at[0]; (at[2] > 0 ? i < at[1] : i > at[1]) && !r->status; i += at[2])
        jinja_append(r, out, jinja_items_of(all)->items[i]);
    if (r->status) return jinja_undefined(VIEW(""));
    return jinja_concat(r, jinja_items_of(out)->items, jinja_items_of(out)->n);
}

jinja_value jinja_slice(jinja_run *r, jinja_value v, const jinja_value bounds[3])
{
    int64_t at[3] = {0}, n = jinja_length(v);
    if (jinja_is(v, KIND_UNDEFINED)) fail_undefined(r, v);
    if (!jinja_is_sequence(v) && !jinja_is(v, KIND_STRING))
        jinja_fail(r, 0, "%s cannot be sliced", jinja_kind_name(v));
    for (int i = 0; i < 3; i++)
        if (!jinja_is(bounds[i], KIND_INT) && !jinja_is(bounds[i], KIND_NONE))
            jinja_fail(r, 0, "a slice wants whole numbers");
    if (!r->status && !slice_bounds(bounds, n, at)) jinja_fail(r, 0, "a slice with step 0");
    if (r->status) return jinja_undefined(VIEW(""));
    if (jinja_is(v, KIND_STRING)) return slice_text(r, v, at);
    jinja_value out = jinja_list(r);
    for (int64_t i = at[0]; (at[2] > 0 ? i < at[1] : i > at[1]) && jinja_step(r, 1); i += at[2])
        jinja_append(r, out, jinja_items_of(v)->items[i]);
    if (!r->status) out.kind = v.kind;
    return out;
}

/* ---- arguments ---- */

bool jinja_has_arg(const jinja_args *args, size_t i, const char *name)
{
    if (i < args->n) return true;
    for (size_t j = 0; name && j < args->n_named; j++)
        if (view_equal(jinja_view(args->named[j].key), view_of(name))) return true;
    return false;
}

jinja_value jinja_arg(const jinja_args *args, size_t i, const char *name, jinja_value otherwise)
{
    if (i < args->n) return args->list[i];
    for (size_t j = 0; name && j < args->n_named; j++)
        if (view_equal(jinja_view(args->named[j].key), view_of(name))) return args->named[j].value;
    return otherwise;
}
