/* jinja_filters.c - owns the filters, which come after |. */
#include <math.h>

#include "template/jinja_value.h"

typedef jinja_value filter_fn(jinja_run *r, jinja_value v, const jinja_args *args);

static jinja_value fail(jinja_run *r, const jinja_args *args, const char *what, jinja_value v)
{
    jinja_fail(r, args->line, "%s %s", what, jinja_kind_name(v));
    return jinja_missing();
}

/* ---- text ---- */

static jinja_value filter_string(jinja_run *r, jinja_value v, const jinja_args *args)
{
    (void)args;
    return jinja_string(r, v);
}

static jinja_value filter_safe(jinja_run *r, jinja_value v, const jinja_args *args)
{
    (void)args;
    v = jinja_string(r, v);
    v.safe = true;
    return v;
}

static jinja_value filter_trim(jinja_run *r, jinja_value v, const jinja_args *args)
{
    jinja_value chars = jinja_arg(args, 0, "chars", jinja_none());
    v = jinja_string(r, v);
    return jinja_strip(v, jinja_is(chars, KIND_STRING) ? &chars : NULL, true, true);
}

static jinja_value filter_upper(jinja_run *r, jinja_value v, const jinja_args *args)
{
    (void)args;
    return jinja_change_case(r, jinja_string(r, v), 'u');
}

static jinja_value filter_lower(jinja_run *r, jinja_value v, const jinja_args *args)
{
    (void)args;
    return jinja_change_case(r, jinja_string(r, v), 'l');
}

static jinja_value filter_title(jinja_run *r, jinja_value v, const jinja_args *args)
{
    (void)args;
    return jinja_change_case(r, jinja_string(r, v), 'w'); /* blanks and brackets begin words */
}

static jinja_value filter_capitalize(jinja_run *r, jinja_value v, const jinja_args *args)
{
    (void)args;
    return jinja_change_case(r, jinja_string(r, v), 'c');
}

static jinja_value filter_replace(jinja_run *r, jinja_value v, const jinja_args *args)
{
    jinja_value from = jinja_string(r, jinja_arg(args, 0, "old", jinja_missing()));
    jinja_value to = jinja_string(r, jinja_arg(args, 1, "new", jinja_missing()));
    jinja_value count = jinja_arg(args, 2, "count", jinja_none());
    return jinja_replace(r, jinja_string(r, v), from, to,
                         jinja_is(count, KIND_INT) ? count.integer : -1);
}

static jinja_value filter_escape(jinja_run *r, jinja_value v, const jinja_args *args)
{
    static const char *const pairs[][2] = {
        {"&", "&amp;"}, {"<", "&lt;"}, {">", "&gt;"}, {"'", "&#39;"}, {"\"", "&#34;"},
    };
    (void)args;
    v = jinja_string(r, v);
    for (size_t i = 0; i < ARRAY_LEN(pairs) && !v.safe; i++)
        v = jinja_replace(r, v, jinja_literal(pairs[i][0]), jinja_literal(pairs[i][1]), -1);
    v.safe = true;
    return v;
}

static jinja_value filter_indent(jinja_run *r, jinja_value v, const jinja_args *args)
{
    jinja_value width = jinja_arg(args, 0, "width", jinja_int(4));
    bool first = jinja_truth(jinja_arg(args, 1, "first", jinja_bool(false)));
    bool blank = jinja_truth(jinja_arg(args, 2, "blank", jinja_bool(false)));
    jinja_sink sink = {0};
    v = jinja_string(r, v);
    if (!jinja_is(width, KIND_STRING) && !jinja_is(width, KIND_INT))
        return fail(r, args, "indent: the width is a number or a string, not", width);
    for (size_t at = 0, end; at <= v.len && jinja_step(r, 1); at = end + 1) {
        const char *feed = at < v.len ? memchr(v.text + at, '\n', v.len - at) : NULL;
        end = feed ? (size_t)(feed - v.text) : v.len;
        bool indents = at ? blank || end > at : first;
        if (indents && jinja_is(width, KIND_STRING)) jinja_sink_value(r, &sink, width);
        for (int64_t i = indents && jinja_is(width, KIND_INT) ? width.integer : 0;
             i > 0 && jinja_step(r, 1); i--)
            jinja_sink_put(r, &sink, VIEW(" "), JINJA_TEMPLATE);
        jinja_sink_value(r, &sink, jinja_part(v, at, end - at + (feed != NULL)));
    }
    return jinja_sink_take(r, &sink);
}

/* A number of characters, small enough that a sum of two does not overflow. */
static int64_t width_arg(jinja_run *r, const jinja_args *args, size_t i, const char *name,
                         int64_t otherwise)
{
    const jinja_value v = jinja_arg(args, i, name, jinja_int(otherwise));
    const int64_t most = INT64_C(1) << 40;
    if (jinja_is(v, KIND_BOOL)) return v.truth;
    if (!jinja_is(v, KIND_INT)) fail(r, args, "a width is a whole number, not", v);
    else if (v.integer > most) return most;
    else if (v.integer > -most) return v.integer;
    return -most;
}

static jinja_value filter_truncate(jinja_run *r, jinja_value v, const jinja_args *args)
{
    int64_t length = width_arg(r, args, 0, "length", 255);
    bool kills = jinja_truth(jinja_arg(args, 1, "killwords", jinja_bool(false)));
    jinja_value end = jinja_string(r, jinja_arg(args, 2, "end", jinja_literal("...")));
    int64_t leeway = width_arg(r, args, 3, "leeway", 5);
    v = jinja_string(r, v);
    int64_t n = jinja_length(v), keep = length - jinja_length(end);
    if (n <= length + leeway || keep < 0) return v;
    jinja_value part = jinja_part(v, 0, jinja_offset(jinja_view(v), (size_t)keep));
    size_t cut = part.len;
    while (!kills && cut && part.text[cut - 1] != ' ') cut--;
    if (!kills && cut) part = jinja_part(part, 0, cut - 1);
    return jinja_join(r, part, end);
}

static jinja_value filter_wordcount(jinja_run *r, jinja_value v, const jinja_args *args)
{
    int64_t n = 0;
    bool inside = false;
    (void)args;
    v = jinja_string(r, v);
    for (size_t i = 0; i < v.len; i++) {
        bool word = (v.text[i] >= '0' && v.text[i] <= '9') || (v.text[i] | 0x20) >= 'a' ||
                    v.text[i] == '_' || (unsigned char)v.text[i] >= 0x80;
        n += word && !inside;
        inside = word;
    }
    return jinja_int(n);
}

static jinja_value filter_center(jinja_run *r, jinja_value v, const jinja_args *args)
{
    int64_t width = width_arg(r, args, 0, "width", 80), n;
    jinja_sink sink = {0};
    v = jinja_string(r, v);
    n = width - jinja_length(v);
    for (int64_t i = 0; i < n && jinja_step(r, 1); i++) {
        if (i == n / 2) jinja_sink_value(r, &sink, v);
        jinja_sink_put(r, &sink, VIEW(" "), JINJA_TEMPLATE);
    }
    if (n <= 0) return v;
    return jinja_sink_take(r, &sink);
}

static jinja_value filter_format(jinja_run *r, jinja_value v, const jinja_args *args)
{
    return jinja_percent(r, jinja_string(r, v), args->list, args->n, args->line);
}

static jinja_value filter_tojson(jinja_run *r, jinja_value v, const jinja_args *args)
{
    return jinja_to_json(r, v, args, 0);
}

static jinja_value filter_from_json(jinja_run *r, jinja_value v, const jinja_args *args)
{
    return jinja_from_json(r, jinja_string(r, v), args->line);
}

/* ---- numbers ---- */

static jinja_value filter_int(jinja_run *r, jinja_value v, const jinja_args *args)
{
    jinja_value otherwise = jinja_arg(args, 0, "default", jinja_int(0));
    (void)r;
    double real = 0;
    if (jinja_is(v, KIND_INT)) return v;
    if (jinja_is(v, KIND_BOOL)) return jinja_int(v.truth);
    if (jinja_is(v, KIND_REAL)) real = v.real;
    else if (jinja_is(v, KIND_STRING)) {
        view text = jinja_view(jinja_strip(v, NULL, true, true));
        if (!parse_f64(text, &real)) return otherwise;
    } else return otherwise;
    return fabs(real) < 9e18 ? jinja_int((int64_t)real) : otherwise;
}

static jinja_value filter_float(jinja_run *r, jinja_value v, const jinja_args *args)
{
    jinja_value otherwise = jinja_arg(args, 0, "default", jinja_real(0));
    double real = 0;
    (void)r;
    if (jinja_is_number(v)) return jinja_real(jinja_as_real(v));
    if (!jinja_is(v, KIND_STRING)) return otherwise;
    return parse_f64(jinja_view(jinja_strip(v, NULL, true, true)), &real) ? jinja_real(real)
                                                                          : otherwise;
}

static jinja_value filter_abs(jinja_run *r, jinja_value v, const jinja_args *args)
{
    if (jinja_is(v, KIND_INT) && v.integer > INT64_MIN)
        return jinja_int(v.integer < 0 ? -v.integer : v.integer);
    if (jinja_is(v, KIND_REAL)) return jinja_real(fabs(v.real));
    return fail(r, args, "abs wants a number, not", v);
}

static jinja_value filter_round(jinja_run *r, jinja_value v, const jinja_args *args)
{
    jinja_value precision = jinja_arg(args, 0, "precision", jinja_int(0));
    jinja_value method = jinja_arg(args, 1, "method", jinja_literal("common"));
    if (!jinja_is_number(v) || !jinja_is(precision, KIND_INT) || !jinja_is(method, KIND_STRING))
        return fail(r, args, "round wants numbers, not", v);
    double scale = pow(10, (double)precision.integer), x = jinja_as_real(v) * scale;
    if (view_equal(jinja_view(method), VIEW("ceil"))) x = ceil(x);
    else if (view_equal(jinja_view(method), VIEW("floor"))) x = floor(x);
    else x = nearbyint(x);
    return jinja_real(x / scale);
}

/* ---- lists ---- */

static jinja_value filter_length(jinja_run *r, jinja_value v, const jinja_args *args)
{
    int64_t n = jinja_length(v);
    if (jinja_is(v, KIND_STRING) && !jinja_step(r, v.len / 64)) return jinja_missing();
    return n >= 0 ? jinja_int(n) : fail(r, args, "there is no length of", v);
}

static jinja_value filter_list(jinja_run *r, jinja_value v, const jinja_args *args)
{
    (void)args;
    jinja_value from = jinja_iterate(r, v), out = jinja_list(r);
    for (size_t i = 0; !r->status && i < jinja_items_of(from)->n && jinja_step(r, 1); i++)
        jinja_append(r, out, jinja_items_of(from)->items[i]);
    return out;
}

static jinja_value filter_first(jinja_run *r, jinja_value v, const jinja_args *args)
{
    (void)args;
    jinja_value list = jinja_iterate(r, v);
    if (r->status || !jinja_items_of(list)->n) return jinja_undefined(VIEW("first"));
    return jinja_items_of(list)->items[0];
}

static jinja_value filter_last(jinja_run *r, jinja_value v, const jinja_args *args)
{
    (void)args;
    jinja_value list = jinja_iterate(r, v);
    if (r->status || !jinja_items_of(list)->n) return jinja_undefined(VIEW("last"));
    return jinja_items_of(list)->items[jinja_items_of(list)->n - 1];
}

/* "a.b.0" of v, or a number. */
static jinja_value get_path(jinja_run *r, jinja_value v, jinja_value path)
{
    if (!jinja_is(path, KIND_STRING)) return jinja_item(r, v, path);
    for (size_t at = 0, end; at <= path.len && jinja_step(r, 1); at = end + 1) {
        for (end = at; end < path.len && path.text[end] != '.';) end++;
        view name = {path.text + at, end - at};
        uint64_t index = 0;
        v = parse_u64(name, &index) && index < INT32_MAX
                ? jinja_item(r, v, jinja_int((int64_t)index))
                : jinja_item(r, v, jinja_text(name, JINJA_TEMPLATE));
    }
    return v;
}

static jinja_value filter_attr(jinja_run *r, jinja_value v, const jinja_args *args)
{
    jinja_value name = jinja_string(r, jinja_arg(args, 0, "name", jinja_missing()));
    return jinja_attribute(r, v, jinja_view(name), jinja_find_method(jinja_view(name)));
}

static jinja_value filter_join(jinja_run *r, jinja_value v, const jinja_args *args)
{
    jinja_value between = jinja_string(r, jinja_arg(args, 0, "d", jinja_literal("")));
    jinja_value path = jinja_arg(args, 1, "attribute", jinja_none());
    jinja_value from = jinja_iterate(r, v), parts = jinja_list(r);
    for (size_t i = 0; !r->status && i < jinja_items_of(from)->n && jinja_step(r, 1); i++) {
        jinja_value one = jinja_items_of(from)->items[i];
        if (!jinja_is(path, KIND_NONE)) one = get_path(r, one, path);
        if (i) jinja_append(r, parts, between);
        jinja_append(r, parts, jinja_string(r, one));
    }
    if (r->status) return jinja_missing();
    return jinja_concat(r, jinja_items_of(parts)->items, jinja_items_of(parts)->n);
}

static jinja_value filter_reverse(jinja_run *r, jinja_value v, const jinja_args *args)
{
    (void)args;
    const jinja_value bounds[3] = {jinja_none(), jinja_none(), jinja_int(-1)};
    return jinja_slice(r, jinja_is(v, KIND_STRING) ? v : jinja_iterate(r, v), bounds);
}

static jinja_value filter_items(jinja_run *r, jinja_value v, const jinja_args *args)
{
    if (jinja_is(v, KIND_UNDEFINED)) return jinja_list(r);
    if (!jinja_is(v, KIND_MAP)) return fail(r, args, "items wants a mapping, not", v);
    return jinja_run_method(r, jinja_find_method(VIEW("items")), v, args);
}

static jinja_value filter_default(jinja_run *r, jinja_value v, const jinja_args *args)
{
    (void)r;
    bool also_false = jinja_truth(jinja_arg(args, 1, "boolean", jinja_bool(false)));
    if (v.kind != KIND_UNDEFINED && (!also_false || jinja_truth(v))) return v;
    return jinja_arg(args, 0, "default_value", jinja_literal(""));
}

/* ---- order ---- */

typedef struct {
    jinja_run *r;
    bool as_is;      /* case counts */
    jinja_value path; /* or none */
    int by;          /* of pairs: which one is compared; -1: the result of the path */
} ordering;

static jinja_value sort_key(const ordering *o, jinja_value v)
{
    if (o->by >= 0) v = jinja_items_of(v)->items[o->by];
    else if (!jinja_is(o->path, KIND_NONE)) v = get_path(o->r, v, o->path);
    if (!o->as_is && jinja_is(v, KIND_STRING)) v = jinja_change_case(o->r, v, 'l');
    return v;
}

/* Stable, and bounded by the run's steps: merges runs of growing length. */
static void sort_items(const ordering *o, jinja_items *in)
{
    size_t n = in->n;
    jinja_value *keys = jinja_room(o->r, 4 * n * sizeof *keys);
    if (!keys) return;
    jinja_value *from = in->items, *to = keys + n, *from_keys = keys, *to_keys = keys + 2 * n;
    for (size_t i = 0; i < n; i++) keys[i] = sort_key(o, in->items[i]);
    for (size_t width = 1; width < n && !o->r->status; width *= 2) {
        for (size_t low = 0; low < n; low += 2 * width) {
            size_t middle = low + width < n ? low + width : n;
            size_t high = low + 2 * width < n ? low + 2 * width : n;
            for (size_t i = low, j = middle, k = low; k < high; k++) {
                bool left = i < middle && (j >= high || !jinja_step(o->r, 1) ||
                                           jinja_compare(o->r, from_keys[j], from_keys[i]) >= 0);
                size_t pick = left ? i++ : j++;
                to[k] = from[pick];
                to_keys[k] = from_keys[pick];
            }
        }
        jinja_value *swap = from;
        from = to;
        to = swap;
        swap = from_keys;
        from_keys = to_keys;
        to_keys = swap;
    }
    if (from != in->items) memcpy(in->items, from, n * sizeof *from);
}

static void reverse_items(jinja_items *in)
{
    for (size_t i = 0; i < in->n / 2; i++) {
        jinja_value swap = in->items[i];
        in->items[i] = in->items[in->n - 1 - i];
        in->items[in->n - 1 - i] = swap;
    }
}

static jinja_value sorted(const ordering *o, jinja_value list, bool backwards)
{
    static const jinja_args none = {0};
    jinja_value out = filter_list(o->r, list, &none);
    if (o->r->status || !jinja_items_of(out)->n) return out;
    if (backwards) reverse_items(jinja_items_of(out)); /* so that equal items keep their order */
    sort_items(o, jinja_items_of(out));
    if (backwards) reverse_items(jinja_items_of(out));
    return out;
}

static jinja_value filter_sort(jinja_run *r, jinja_value v, const jinja_args *args)
{
    ordering o = {.r = r, .by = -1, .path = jinja_arg(args, 2, "attribute", jinja_none())};
    o.as_is = jinja_truth(jinja_arg(args, 1, "case_sensitive", jinja_bool(false)));
    return sorted(&o, v, jinja_truth(jinja_arg(args, 0, "reverse", jinja_bool(false))));
}

static jinja_value filter_dictsort(jinja_run *r, jinja_value v, const jinja_args *args)
{
    ordering o = {.r = r, .path = jinja_none()};
    jinja_value by = jinja_string(r, jinja_arg(args, 1, "by", jinja_literal("key")));
    o.as_is = jinja_truth(jinja_arg(args, 0, "case_sensitive", jinja_bool(false)));
    o.by = view_equal(jinja_view(by), VIEW("value"));
    jinja_value pairs = filter_items(r, v, args);
    if (r->status) return jinja_missing();
    return sorted(&o, pairs, jinja_truth(jinja_arg(args, 2, "reverse", jinja_bool(false))));
}

static jinja_value extreme(jinja_run *r, jinja_value v, const jinja_args *args, int sign)
{
    ordering o = {.r = r, .by = -1, .path = jinja_arg(args, 1, "attribute", jinja_none())};
    o.as_is = jinja_truth(jinja_arg(args, 0, "case_sensitive", jinja_bool(false)));
    jinja_value list = jinja_iterate(r, v), best = jinja_undefined(VIEW("item"));
    for (size_t i = 0; !r->status && i < jinja_items_of(list)->n && jinja_step(r, 1); i++) {
        jinja_value one = jinja_items_of(list)->items[i];
        if (!i || sign * jinja_compare(r, sort_key(&o, one), sort_key(&o, best)) > 0) best = one;
    }
    return best;
}

static jinja_value filter_min(jinja_run *r, jinja_value v, const jinja_args *args)
{
    return extreme(r, v, args, -1);
}

static jinja_value filter_max(jinja_run *r, jinja_value v, const jinja_args *args)
{
    return extreme(r, v, args, 1);
}

static jinja_value filter_unique(jinja_run *r, jinja_value v, const jinja_args *args)
{
    ordering o = {.r = r, .by = -1, .path = jinja_arg(args, 1, "attribute", jinja_none())};
    o.as_is = jinja_truth(jinja_arg(args, 0, "case_sensitive", jinja_bool(false)));
    jinja_value list = jinja_iterate(r, v), out = jinja_list(r), seen = jinja_list(r);
    for (size_t i = 0; !r->status && i < jinja_items_of(list)->n; i++) {
        jinja_value one = jinja_items_of(list)->items[i], key = sort_key(&o, one);
        if (jinja_contains(r, seen, key)) continue;
        jinja_append(r, seen, key);
        jinja_append(r, out, one);
    }
    return out;
}

static jinja_value filter_sum(jinja_run *r, jinja_value v, const jinja_args *args)
{
    jinja_value path = jinja_arg(args, 0, "attribute", jinja_none());
    jinja_value out = jinja_arg(args, 1, "start", jinja_int(0)), list = jinja_iterate(r, v);
    static const jinja_node add = {.kind = NODE_ADD};
    for (size_t i = 0; !r->status && i < jinja_items_of(list)->n && jinja_step(r, 1); i++) {
        jinja_value one = jinja_items_of(list)->items[i];
        out = jinja_binary(r, &add, out, jinja_is(path, KIND_NONE) ? one : get_path(r, one, path));
    }
    return out;
}

/* ---- selecting ---- */

static jinja_args rest_of(const jinja_args *args, size_t n)
{
    jinja_args out = *args;
    size_t skip = n < args->n ? n : args->n;
    if (!skip) return out; /* without arguments there is no list */
    out.list += skip;
    out.n -= skip;
    return out;
}

static jinja_value filter_map(jinja_run *r, jinja_value v, const jinja_args *args)
{
    bool attribute = args->n == 0;
    jinja_value name = attribute ? jinja_arg(args, 0, "attribute", jinja_missing()) : args->list[0];
    jinja_value otherwise = jinja_arg(args, args->n, "default", jinja_missing());
    uint16_t filter = CALLEE_NONE;
    if (!attribute && jinja_is(name, KIND_STRING)) filter = jinja_find_filter(jinja_view(name));
    if (attribute ? jinja_is(name, KIND_UNDEFINED) : filter == CALLEE_NONE)
        return fail(r, args, "map wants a filter or an attribute; it has", name);
    jinja_args rest = rest_of(args, 1);
    jinja_value out = jinja_list(r), list = jinja_truth(v) ? jinja_iterate(r, v) : out;
    size_t n = r->status || list.at == out.at ? 0 : jinja_items_of(list)->n;
    for (size_t i = 0; !r->status && i < n && jinja_step(r, 1); i++) {
        jinja_value one = jinja_items_of(list)->items[i];
        one = attribute ? get_path(r, one, name) : jinja_run_filter(r, filter, one, &rest);
        if (attribute && jinja_is(one, KIND_UNDEFINED)) one = otherwise;
        jinja_append(r, out, one);
    }
    return out;
}

static jinja_value choose(jinja_run *r, jinja_value v, const jinja_args *args, bool path, bool keep)
{
    jinja_value attribute = path ? jinja_arg(args, 0, NULL, jinja_missing()) : jinja_missing();
    jinja_value name = jinja_arg(args, path, NULL, jinja_missing());
    uint16_t test = CALLEE_NONE;
    if (jinja_is(name, KIND_STRING)) test = jinja_find_test(jinja_view(name));
    if (!jinja_is(name, KIND_UNDEFINED) && test == CALLEE_NONE)
        return fail(r, args, "this filter wants the name of a test; it has", name);
    jinja_args rest = rest_of(args, path + 1u);
    /* Like jinja2, select nothing from None. */
    jinja_value out = jinja_list(r), list = jinja_truth(v) ? jinja_iterate(r, v) : out;
    size_t n = r->status || list.at == out.at ? 0 : jinja_items_of(list)->n;
    for (size_t i = 0; !r->status && i < n && jinja_step(r, 1); i++) {
        jinja_value one = jinja_items_of(list)->items[i];
        jinja_value looked = path ? get_path(r, one, attribute) : one;
        bool yes = test == CALLEE_NONE ? jinja_truth(looked)
                                       : jinja_run_test(r, test, looked, &rest);
        if (yes == keep) jinja_append(r, out, one);
    }
    return out;
}

static jinja_value filter_select(jinja_run *r, jinja_value v, const jinja_args *args)
{
    return choose(r, v, args, false, true);
}

static jinja_value filter_reject(jinja_run *r, jinja_value v, const jinja_args *args)
{
    return choose(r, v, args, false, false);
}

static jinja_value filter_selectattr(jinja_run *r, jinja_value v, const jinja_args *args)
{
    return choose(r, v, args, true, true);
}

static jinja_value filter_rejectattr(jinja_run *r, jinja_value v, const jinja_args *args)
{
    return choose(r, v, args, true, false);
}

static jinja_value filter_groupby(jinja_run *r, jinja_value v, const jinja_args *args)
{
    ordering o = {.r = r, .by = -1, .path = jinja_arg(args, 0, "attribute", jinja_missing())};
    jinja_value list = sorted(&o, v, false), out = jinja_list(r), group = out;
    jinja_value last = jinja_missing();
    for (size_t i = 0; !r->status && i < jinja_items_of(list)->n && jinja_step(r, 1); i++) {
        jinja_value one = jinja_items_of(list)->items[i], key = sort_key(&o, one);
        if (!i || !jinja_equal(r, key, last)) {
            group = jinja_list(r);
            const jinja_value pair[2] = {get_path(r, one, o.path), group};
            jinja_append(r, out, jinja_tuple_of(r, pair, 2));
            last = key;
        }
        jinja_append(r, group, one);
    }
    return out;
}

static jinja_value filter_batch(jinja_run *r, jinja_value v, const jinja_args *args)
{
    jinja_value count = jinja_arg(args, 0, "linecount", jinja_missing());
    jinja_value fill = jinja_arg(args, 1, "fill_with", jinja_none());
    jinja_value list = jinja_iterate(r, v), out = jinja_list(r), row = out;
    if (!jinja_is(count, KIND_INT) || count.integer < 1)
        return fail(r, args, "batch wants how many, not", count);
    size_t n = (size_t)count.integer;
    for (size_t i = 0; !r->status && i < jinja_items_of(list)->n && jinja_step(r, 1); i++) {
        if (i % n == 0) jinja_append(r, out, row = jinja_list(r));
        jinja_append(r, row, jinja_items_of(list)->items[i]);
    }
    while (!r->status && jinja_items_of(out)->n && !jinja_is(fill, KIND_NONE) &&
           jinja_items_of(row)->n < n && jinja_step(r, 1))
        jinja_append(r, row, fill);
    return out;
}

/* ---- the table ---- */

static const struct {
    const char *name;
    filter_fn *run;
} filters[] = {
    {"abs", filter_abs}, {"attr", filter_attr}, {"batch", filter_batch},
    {"capitalize", filter_capitalize}, {"center", filter_center}, {"count", filter_length},
    {"d", filter_default}, {"default", filter_default}, {"dictsort", filter_dictsort},
    {"e", filter_escape}, {"escape", filter_escape}, {"first", filter_first},
    {"float", filter_float}, {"format", filter_format}, {"from_json", filter_from_json},
    {"fromjson", filter_from_json}, {"groupby", filter_groupby}, {"indent", filter_indent},
    {"int", filter_int}, {"items", filter_items}, {"join", filter_join}, {"last", filter_last},
    {"length", filter_length}, {"list", filter_list}, {"lower", filter_lower},
    {"map", filter_map}, {"max", filter_max}, {"min", filter_min}, {"reject", filter_reject},
    {"rejectattr", filter_rejectattr}, {"replace", filter_replace}, {"reverse", filter_reverse},
    {"round", filter_round}, {"safe", filter_safe}, {"select", filter_select},
    {"selectattr", filter_selectattr}, {"sort", filter_sort}, {"string", filter_string},
    {"sum", filter_sum}, {"title", filter_title}, {"tojson", filter_tojson},
    {"trim", filter_trim}, {"truncate", filter_truncate}, {"unique", filter_unique},
    {"upper", filter_upper}, {"wordcount", filter_wordcount},
};

uint16_t jinja_find_filter(view name)
{
    for (size_t i = 0; i < ARRAY_LEN(filters); i++)
        if (view_equal(name, view_of(filters[i].name))) return (uint16_t)i;
    return CALLEE_NONE;
}

jinja_value jinja_run_filter(jinja_run *r, uint16_t filter, jinja_value v, const jinja_args *args)
{
    CHECK(filter < ARRAY_LEN(filters));
    if (r->status) return jinja_missing();
    if (r->depth >= JINJA_DEPTH_MAX) { /* map('map', 'map', ...) */
        jinja_exceed(r, args->line, "filters that are nested too deep");
        return jinja_missing();
    }
    r->depth++;
    jinja_value out = filters[filter].run(r, v, args);
    r->depth--;
    return out;
}
