/* jinja_methods.c - owns the methods of Python's strings, dicts and lists. */
#include "template/jinja_value.h"

typedef jinja_value method_fn(jinja_run *r, jinja_value v, const jinja_args *args);

/* An argument that must be a string; "" with the run failed: it is not one. */
static jinja_value text_arg(jinja_run *r, const jinja_args *args, size_t i, const char *name)
{
    jinja_value out = jinja_arg(args, i, name, jinja_missing());
    if (jinja_is(out, KIND_STRING)) return out;
    jinja_fail(r, args->line, "this method wants a string, not %s", jinja_kind_name(out));
    return jinja_literal("");
}

static int64_t int_arg(const jinja_args *args, size_t i, const char *name, int64_t otherwise)
{
    jinja_value out = jinja_arg(args, i, name, jinja_int(otherwise));
    return jinja_is(out, KIND_INT) ? out.integer : otherwise;
}

/* The place of part in v from byte `from` on; v.len + 1: nowhere. */
static size_t find(jinja_run *r, jinja_value v, jinja_value part, size_t from)
{
    const char *at = NULL;
    if (from > v.len || !jinja_step(r, 1 + (v.len - from) / 64)) return v.len + 1u;
    if (!part.len) return from;
    if (from < v.len) at = memmem(v.text + from, v.len - from, part.text, part.len);
    return at ? (size_t)(at - v.text) : v.len + 1u;
}

static size_t find_last(jinja_run *r, jinja_value v, jinja_value part)
{
    if (part.len > v.len || !jinja_step(r, 1 + v.len / 64)) return v.len + 1u;
    for (size_t at = v.len - part.len + 1; at-- > 0;)
        if (!part.len || !memcmp(v.text + at, part.text, part.len)) return at;
    return v.len + 1u;
}

/* ---- replacing and changing ---- */

jinja_value jinja_replace(jinja_run *r, jinja_value s, jinja_value from, jinja_value to,
                          int64_t count)
{
    jinja_sink sink = {0};
    size_t at = 0, done = 0;
    if (from.len > s.len || find(r, s, from, 0) > s.len) return s;
    for (; count && !r->status; count--) {
        size_t next = find(r, s, from, at);
        if (next > s.len) break;
        jinja_sink_value(r, &sink, jinja_part(s, done, next - done));
        jinja_sink_value(r, &sink, to);
        done = next + from.len;
        at = done;
        if (from.len) continue;
        if (next == s.len) break;
        at = next + jinja_character((view){s.text + next, s.len - next});
    }
    jinja_sink_value(r, &sink, jinja_part(s, done, s.len - done));
    return jinja_sink_take(r, &sink);
}

/* Letters of Latin-1, Greek and Cyrillic change as well as those of ASCII; all others stay. */
static size_t change_letter(view c, bool upper, char out[4])
{
    memcpy(out, c.ptr, c.len);
    if (c.len == 1) {
        if (upper ? c.ptr[0] >= 'a' && c.ptr[0] <= 'z' : c.ptr[0] >= 'A' && c.ptr[0] <= 'Z')
            out[0] ^= 0x20;
        return 1;
    }
    if (c.len != 2) return c.len;
    uint32_t code = (uint32_t)(c.ptr[0] & 0x1F) << 6 | (c.ptr[1] & 0x3F);
    static const struct {
        uint16_t from, to, add; /* capitals, and the distance to their small letters */
    } ranges[] = {
        {0xC0, 0xD6, 32}, {0xD8, 0xDE, 32}, {0x391, 0x3A1, 32}, {0x3A3, 0x3AB, 32},
        {0x410, 0x42F, 32}, {0x400, 0x40F, 80},
    };
    for (size_t i = 0; i < ARRAY_LEN(ranges); i++) {
        uint32_t add = ranges[i].add, capital = upper ? code - add : code;
        if (capital < ranges[i].from || capital > ranges[i].to) continue;
        code = upper ? capital : capital + add;
        break;
    }
    out[0] = (char)(0xC0 | code >> 6);
    out[1] = (char)(0x80 | (code & 0x3F));
    return 2;
}

static bool is_letter(view c)
{
    return c.len > 1 || ((c.ptr[0] | 0x20) >= 'a' && (c.ptr[0] | 0x20) <= 'z');
}

/* how: u upper, l lower, c capitalize, t title like Python, w title like jinja2. */
jinja_value jinja_change_case(jinja_run *r, jinja_value s, char how)
{
    char *text = jinja_step(r, s.len / 8) ? jinja_room(r, s.len) : NULL;
    bool begins = true;
    if (!text) return s;
    for (size_t at = 0, n; at < s.len; at += n) {
        view c = {s.text + at, jinja_character((view){s.text + at, s.len - at})};
        bool upper = how == 'u' || (how != 'l' && begins);
        n = change_letter(c, upper, text + at);
        begins = how == 't'   ? !is_letter(c)
                 : how == 'w' ? jinja_is_space(c) || (c.len == 1 && strchr("-({[<", c.ptr[0]))
                              : false;
    }
    jinja_value out = s;
    out.text = text;
    return out;
}

/* ---- methods of strings ---- */

static jinja_value stripped(jinja_run *r, jinja_value v, const jinja_args *args, bool l, bool t)
{
    jinja_value chars = jinja_arg(args, 0, "chars", jinja_none());
    if (!jinja_step(r, 1)) return v;
    return jinja_strip(v, jinja_is(chars, KIND_STRING) ? &chars : NULL, l, t);
}

static jinja_value str_strip(jinja_run *r, jinja_value v, const jinja_args *args)
{
    return stripped(r, v, args, true, true);
}

static jinja_value str_lstrip(jinja_run *r, jinja_value v, const jinja_args *args)
{
    return stripped(r, v, args, true, false);
}

static jinja_value str_rstrip(jinja_run *r, jinja_value v, const jinja_args *args)
{
    return stripped(r, v, args, false, true);
}

/* At white space, runs of it as one. */
static jinja_value split_words(jinja_run *r, jinja_value v, int64_t most)
{
    jinja_value out = jinja_list(r);
    v = jinja_strip(v, NULL, true, false);
    while (v.len && jinja_step(r, 1)) {
        size_t end = 0;
        if (most-- == 0) {
            jinja_append(r, out, v);
            break;
        }
        while (end < v.len && !jinja_is_space((view){v.text + end, jinja_character((view){
                                                         v.text + end, v.len - end})}))
            end += jinja_character((view){v.text + end, v.len - end});
        jinja_append(r, out, jinja_part(v, 0, end));
        v = jinja_strip(jinja_part(v, end, v.len - end), NULL, true, false);
    }
    return out;
}

static jinja_value str_split(jinja_run *r, jinja_value v, const jinja_args *args)
{
    jinja_value at = jinja_arg(args, 0, "sep", jinja_none());
    int64_t most = int_arg(args, 1, "maxsplit", -1);
    if (jinja_is(at, KIND_NONE)) return split_words(r, v, most);
    at = text_arg(r, args, 0, "sep");
    if (!at.len) jinja_fail(r, args->line, "split at an empty string");
    jinja_value out = jinja_list(r);
    size_t from = 0;
    for (; most != 0 && !r->status; most--) {
        size_t next = find(r, v, at, from);
        if (next > v.len) break;
        jinja_append(r, out, jinja_part(v, from, next - from));
        from = next + at.len;
    }
    if (!r->status) jinja_append(r, out, jinja_part(v, from, v.len - from));
    return out;
}

static jinja_value str_rsplit(jinja_run *r, jinja_value v, const jinja_args *args)
{
    int64_t most = int_arg(args, 1, "maxsplit", -1);
    if (most < 0 || !jinja_has_arg(args, 0, "sep")) return str_split(r, v, args);
    jinja_value at = text_arg(r, args, 0, "sep"), out = jinja_list(r);
    if (!at.len) jinja_fail(r, args->line, "rsplit at an empty string");
    for (; most > 0 && !r->status; most--) {
        size_t next = find_last(r, v, at);
        if (next > v.len) break;
        jinja_append(r, out, jinja_part(v, next + at.len, v.len - next - at.len));
        v = jinja_part(v, 0, next);
    }
    jinja_append(r, out, v);
    const jinja_value bounds[3] = {jinja_none(), jinja_none(), jinja_int(-1)};
    return r->status ? jinja_missing() : jinja_slice(r, out, bounds);
}

static jinja_value str_splitlines(jinja_run *r, jinja_value v, const jinja_args *args)
{
    bool keep = jinja_truth(jinja_arg(args, 0, "keepends", jinja_bool(false)));
    jinja_value out = jinja_list(r);
    for (size_t at = 0, end, next; at < v.len && jinja_step(r, 1); at = next) {
        for (end = at; end < v.len && v.text[end] != '\n' && v.text[end] != '\r';) end++;
        next = end + (end < v.len);
        if (next < v.len && v.text[end] == '\r' && v.text[next] == '\n') next++;
        jinja_append(r, out, jinja_part(v, at, (keep ? next : end) - at));
    }
    return out;
}

static jinja_value partition(jinja_run *r, jinja_value v, const jinja_args *args, bool last)
{
    jinja_value at = text_arg(r, args, 0, "sep"), empty = jinja_literal("");
    if (!r->status && !at.len) jinja_fail(r, args->line, "partition at an empty string");
    if (r->status) return jinja_missing();
    size_t next = last ? find_last(r, v, at) : find(r, v, at, 0);
    jinja_value three[3] = {last ? empty : v, empty, last ? v : empty};
    if (next <= v.len) {
        three[0] = jinja_part(v, 0, next);
        three[1] = at;
        three[2] = jinja_part(v, next + at.len, v.len - next - at.len);
    }
    return jinja_tuple_of(r, three, 3);
}

static jinja_value str_partition(jinja_run *r, jinja_value v, const jinja_args *args)
{
    return partition(r, v, args, false);
}

static jinja_value str_rpartition(jinja_run *r, jinja_value v, const jinja_args *args)
{
    return partition(r, v, args, true);
}

static bool is_at(jinja_value v, jinja_value part, bool end)
{
    if (part.len > v.len) return false;
    return !part.len || !memcmp(end ? v.text + v.len - part.len : v.text, part.text, part.len);
}

/* One string, or a tuple of them. */
static jinja_value affixed(jinja_run *r, jinja_value v, const jinja_args *args, bool end)
{
    jinja_value what = jinja_arg(args, 0, NULL, jinja_missing());
    if (!jinja_is(what, KIND_TUPLE))
        return jinja_bool(is_at(v, text_arg(r, args, 0, NULL), end) && !r->status);
    const jinja_items *in = jinja_items_of(what);
    for (size_t i = 0; i < in->n && jinja_step(r, 1); i++)
        if (jinja_is(in->items[i], KIND_STRING) && is_at(v, in->items[i], end))
            return jinja_bool(true);
    return jinja_bool(false);
}

static jinja_value str_startswith(jinja_run *r, jinja_value v, const jinja_args *args)
{
    return affixed(r, v, args, false);
}

static jinja_value str_endswith(jinja_run *r, jinja_value v, const jinja_args *args)
{
    return affixed(r, v, args, true);
}

static jinja_value str_removeprefix(jinja_run *r, jinja_value v, const jinja_args *args)
{
    jinja_value part = text_arg(r, args, 0, NULL);
    return is_at(v, part, false) ? jinja_part(v, part.len, v.len - part.len) : v;
}

static jinja_value str_removesuffix(jinja_run *r, jinja_value v, const jinja_args *args)
{
    jinja_value part = text_arg(r, args, 0, NULL);
    return is_at(v, part, true) ? jinja_part(v, 0, v.len - part.len) : v;
}

static jinja_value position(jinja_run *r, jinja_value v, const jinja_args *args, bool last,
                            bool must)
{
    jinja_value part = text_arg(r, args, 0, NULL);
    size_t at = r->status ? 0 : last ? find_last(r, v, part) : find(r, v, part, 0);
    if (at <= v.len) return jinja_int((int64_t)jinja_characters((view){v.text, at}));
    if (must) jinja_fail(r, args->line, "the string is not in there");
    return jinja_int(-1);
}

static jinja_value str_find(jinja_run *r, jinja_value v, const jinja_args *args)
{
    return position(r, v, args, false, false);
}

static jinja_value str_rfind(jinja_run *r, jinja_value v, const jinja_args *args)
{
    return position(r, v, args, true, false);
}

static jinja_value str_replace(jinja_run *r, jinja_value v, const jinja_args *args)
{
    jinja_value from = text_arg(r, args, 0, "old"), to = text_arg(r, args, 1, "new");
    return jinja_replace(r, v, from, to, int_arg(args, 2, "count", -1));
}

static jinja_value str_join(jinja_run *r, jinja_value v, const jinja_args *args)
{
    jinja_value from = jinja_iterate(r, jinja_arg(args, 0, NULL, jinja_missing()));
    jinja_value parts = jinja_list(r);
    for (size_t i = 0; !r->status && i < jinja_items_of(from)->n && jinja_step(r, 1); i++) {
        jinja_value one = jinja_items_of(from)->items[i];
        if (!jinja_is(one, KIND_STRING))
            jinja_fail(r, args->line, "join wants strings, not %s", jinja_kind_name(one));
        if (i) jinja_append(r, parts, v);
        jinja_append(r, parts, one);
    }
    if (r->status) return jinja_missing();
    return jinja_concat(r, jinja_items_of(parts)->items, jinja_items_of(parts)->n);
}

static jinja_value str_upper(jinja_run *r, jinja_value v, const jinja_args *args)
{
    (void)args;
    return jinja_change_case(r, v, 'u');
}

static jinja_value str_lower(jinja_run *r, jinja_value v, const jinja_args *args)
{
    (void)args;
    return jinja_change_case(r, v, 'l');
}

static jinja_value str_title(jinja_run *r, jinja_value v, const jinja_args *args)
{
    (void)args;
    return jinja_change_case(r, v, 't');
}

static jinja_value str_capitalize(jinja_run *r, jinja_value v, const jinja_args *args)
{
    (void)args;
    return jinja_change_case(r, v, 'c');
}

static jinja_value str_format(jinja_run *r, jinja_value v, const jinja_args *args)
{
    return jinja_braces(r, v, args);
}

static bool all_are(jinja_value v, const char *from, const char *to)
{
    for (size_t i = 0; i < v.len; i++) {
        bool is = false;
        for (size_t k = 0; from[k]; k++) is = is || (v.text[i] >= from[k] && v.text[i] <= to[k]);
        if (!is) return false;
    }
    return v.len != 0;
}

static jinja_value str_isdigit(jinja_run *r, jinja_value v, const jinja_args *args)
{
    (void)args, (void)r;
    return jinja_bool(all_are(v, "0", "9"));
}

static jinja_value str_isalpha(jinja_run *r, jinja_value v, const jinja_args *args)
{
    (void)args, (void)r;
    return jinja_bool(all_are(v, "aA", "zZ"));
}

static jinja_value str_isalnum(jinja_run *r, jinja_value v, const jinja_args *args)
{
    (void)args, (void)r;
    return jinja_bool(all_are(v, "aA0", "zZ9"));
}

static jinja_value str_isspace(jinja_run *r, jinja_value v, const jinja_args *args)
{
    (void)args, (void)r;
    return jinja_bool(v.len && !jinja_strip(v, NULL, true, false).len);
}

static jinja_value str_isupper(jinja_run *r, jinja_value v, const jinja_args *args)
{
    return jinja_bool(jinja_run_test(r, jinja_find_test(VIEW("upper")), v, args));
}

static jinja_value str_islower(jinja_run *r, jinja_value v, const jinja_args *args)
{
    return jinja_bool(jinja_run_test(r, jinja_find_test(VIEW("lower")), v, args));
}

/* ---- methods of lists and dicts ---- */

static jinja_value any_count(jinja_run *r, jinja_value v, const jinja_args *args)
{
    int64_t n = 0;
    jinja_value what = jinja_arg(args, 0, NULL, jinja_missing());
    if (jinja_is(v, KIND_STRING)) {
        what = text_arg(r, args, 0, NULL);
        for (size_t at = 0; what.len && (at = find(r, v, what, at)) <= v.len; at += what.len) n++;
        return jinja_int(what.len ? n : jinja_length(v) + 1);
    }
    const jinja_items *in = jinja_items_of(v);
    for (size_t i = 0; i < in->n && jinja_step(r, 1); i++)
        n += jinja_equal(r, in->items[i], what);
    return jinja_int(n);
}

static jinja_value any_index(jinja_run *r, jinja_value v, const jinja_args *args)
{
    if (jinja_is(v, KIND_STRING)) return position(r, v, args, false, true);
    jinja_value what = jinja_arg(args, 0, NULL, jinja_missing());
    const jinja_items *in = jinja_items_of(v);
    for (size_t i = 0; i < in->n && jinja_step(r, 1); i++)
        if (jinja_equal(r, in->items[i], what)) return jinja_int((int64_t)i);
    jinja_fail(r, args->line, "index: the list does not have this item");
    return jinja_int(0);
}

static jinja_value list_append(jinja_run *r, jinja_value v, const jinja_args *args)
{
    jinja_append(r, v, jinja_arg(args, 0, NULL, jinja_missing()));
    return jinja_none();
}

static jinja_value list_extend(jinja_run *r, jinja_value v, const jinja_args *args)
{
    jinja_value from = jinja_iterate(r, jinja_arg(args, 0, NULL, jinja_missing()));
    size_t n = r->status ? 0 : jinja_items_of(from)->n;
    for (size_t i = 0; i < n && jinja_step(r, 1); i++)
        jinja_append(r, v, jinja_items_of(from)->items[i]);
    return jinja_none();
}

static jinja_value list_insert(jinja_run *r, jinja_value v, const jinja_args *args)
{
    jinja_items *in = jinja_items_of(v);
    int64_t n = (int64_t)in->n, i = int_arg(args, 0, NULL, 0);
    if (i < 0) i += n;
    i = i < 0 ? 0 : i > n ? n : i;
    jinja_append(r, v, jinja_missing());
    if (r->status || !jinja_step(r, (uint64_t)n / 8)) return jinja_missing();
    memmove(in->items + i + 1, in->items + i, (size_t)(n - i) * sizeof *in->items);
    in->items[i] = jinja_arg(args, 1, NULL, jinja_missing());
    return jinja_none();
}

static jinja_value any_pop(jinja_run *r, jinja_value v, const jinja_args *args)
{
    if (jinja_is(v, KIND_MAP)) {
        jinja_entries *in = jinja_entries_of(v);
        jinja_value key = jinja_arg(args, 0, NULL, jinja_missing());
        const jinja_value *found = jinja_find(r, v, key);
        if (!found) {
            if (args->n < 2) jinja_fail(r, args->line, "pop: there is no such key");
            return jinja_arg(args, 1, NULL, jinja_missing());
        }
        jinja_value out = *found;
        size_t i = 0;
        while (&in->entries[i].value != found) i++;
        memmove(in->entries + i, in->entries + i + 1, (--in->n - i) * sizeof *in->entries);
        return out;
    }
    jinja_items *in = jinja_items_of(v);
    int64_t n = (int64_t)in->n, i = int_arg(args, 0, NULL, -1);
    if (i < 0) i += n;
    if (i < 0 || i >= n) {
        jinja_fail(r, args->line, "pop: there is no such item");
        return jinja_missing();
    }
    jinja_value out = in->items[i];
    memmove(in->items + i, in->items + i + 1, (size_t)(n - i - 1) * sizeof *in->items);
    in->n--;
    return out;
}

static jinja_value list_reverse(jinja_run *r, jinja_value v, const jinja_args *args)
{
    jinja_items *in = jinja_items_of(v);
    (void)args, (void)r;
    for (size_t i = 0; i < in->n / 2; i++) {
        jinja_value swap = in->items[i];
        in->items[i] = in->items[in->n - 1 - i];
        in->items[in->n - 1 - i] = swap;
    }
    return jinja_none();
}

static jinja_value any_clear(jinja_run *r, jinja_value v, const jinja_args *args)
{
    (void)args, (void)r;
    if (jinja_is(v, KIND_MAP)) jinja_entries_of(v)->n = 0;
    else jinja_items_of(v)->n = 0;
    return jinja_none();
}

static jinja_value any_copy(jinja_run *r, jinja_value v, const jinja_args *args)
{
    (void)args;
    bool map = jinja_is(v, KIND_MAP);
    jinja_value out = map ? jinja_map(r) : jinja_list(r);
    for (size_t i = 0; !map && !r->status && i < jinja_items_of(v)->n && jinja_step(r, 1); i++)
        jinja_append(r, out, jinja_items_of(v)->items[i]);
    for (size_t i = 0; map && !r->status && i < jinja_entries_of(v)->n && jinja_step(r, 1); i++)
        jinja_put_value(r, out, jinja_entries_of(v)->entries[i].key,
                        jinja_entries_of(v)->entries[i].value);
    return out;
}

static jinja_value dict_get(jinja_run *r, jinja_value v, const jinja_args *args)
{
    const jinja_value *found = jinja_find(r, v, jinja_arg(args, 0, NULL, jinja_missing()));
    return found ? *found : jinja_arg(args, 1, NULL, jinja_none());
}

static jinja_value dict_setdefault(jinja_run *r, jinja_value v, const jinja_args *args)
{
    jinja_value key = jinja_arg(args, 0, NULL, jinja_missing());
    const jinja_value *found = jinja_find(r, v, key);
    if (found) return *found;
    jinja_value value = jinja_arg(args, 1, NULL, jinja_none());
    jinja_put_value(r, v, key, value);
    return value;
}

static jinja_value dict_keys(jinja_run *r, jinja_value v, const jinja_args *args)
{
    (void)args;
    return jinja_iterate(r, v);
}

static jinja_value dict_values(jinja_run *r, jinja_value v, const jinja_args *args)
{
    (void)args;
    const jinja_entries *in = jinja_entries_of(v);
    jinja_value out = jinja_list(r);
    for (size_t i = 0; !r->status && i < in->n && jinja_step(r, 1); i++)
        jinja_append(r, out, in->entries[i].value);
    return out;
}

static jinja_value dict_items(jinja_run *r, jinja_value v, const jinja_args *args)
{
    (void)args;
    const jinja_entries *in = jinja_entries_of(v);
    jinja_value out = jinja_list(r);
    for (size_t i = 0; !r->status && i < in->n && jinja_step(r, 1); i++) {
        const jinja_value pair[2] = {in->entries[i].key, in->entries[i].value};
        jinja_append(r, out, jinja_tuple_of(r, pair, 2));
    }
    return out;
}

static jinja_value dict_update(jinja_run *r, jinja_value v, const jinja_args *args)
{
    jinja_value from = jinja_arg(args, 0, NULL, jinja_missing());
    size_t n = jinja_is(from, KIND_MAP) ? jinja_entries_of(from)->n : 0;
    for (size_t i = 0; i < n && jinja_step(r, 1); i++)
        jinja_put_value(r, v, jinja_entries_of(from)->entries[i].key,
                        jinja_entries_of(from)->entries[i].value);
    for (size_t i = 0; i < args->n_named && jinja_step(r, 1); i++)
        jinja_put_value(r, v, args->named[i].key, args->named[i].value);
    return jinja_none();
}

static jinja_value loop_cycle(jinja_run *r, jinja_value v, const jinja_args *args)
{
    const jinja_loop *loop = v.at;
    if (args->n) return args->list[loop->i % args->n];
    jinja_fail(r, args->line, "cycle() without items");
    return jinja_missing();
}

static jinja_value loop_changed(jinja_run *r, jinja_value v, const jinja_args *args)
{
    jinja_loop *loop = v.at;
    jinja_value now = jinja_tuple_of(r, args->list, args->n);
    bool changed = !jinja_is(loop->changed, KIND_TUPLE) || !jinja_equal(r, loop->changed, now);
    loop->changed = now;
    return jinja_bool(changed);
}

/* ---- the table ---- */

enum { OF_TEXT = 1, OF_LIST = 2, OF_TUPLE = 4, OF_MAP = 8, OF_LOOP = 16 };

static const struct {
    const char *name;
    uint8_t of;
    method_fn *run;
} methods[] = {
    {"get", OF_MAP, dict_get}, {"items", OF_MAP, dict_items}, {"keys", OF_MAP, dict_keys},
    {"values", OF_MAP, dict_values}, {"split", OF_TEXT, str_split},
    {"strip", OF_TEXT, str_strip}, {"lstrip", OF_TEXT, str_lstrip},
    {"rstrip", OF_TEXT, str_rstrip}, {"startswith", OF_TEXT, str_startswith},
    {"endswith", OF_TEXT, str_endswith}, {"replace", OF_TEXT, str_replace},
    {"upper", OF_TEXT, str_upper}, {"lower", OF_TEXT, str_lower}, {"title", OF_TEXT, str_title},
    {"capitalize", OF_TEXT, str_capitalize}, {"join", OF_TEXT, str_join},
    {"format", OF_TEXT, str_format}, {"find", OF_TEXT, str_find}, {"rfind", OF_TEXT, str_rfind},
    {"rsplit", OF_TEXT, str_rsplit}, {"splitlines", OF_TEXT, str_splitlines},
    {"partition", OF_TEXT, str_partition}, {"rpartition", OF_TEXT, str_rpartition},
    {"removeprefix", OF_TEXT, str_removeprefix}, {"removesuffix", OF_TEXT, str_removesuffix},
    {"isdigit", OF_TEXT, str_isdigit}, {"isnumeric", OF_TEXT, str_isdigit},
    {"isdecimal", OF_TEXT, str_isdigit}, {"isalpha", OF_TEXT, str_isalpha},
    {"isalnum", OF_TEXT, str_isalnum}, {"isspace", OF_TEXT, str_isspace},
    {"isupper", OF_TEXT, str_isupper}, {"islower", OF_TEXT, str_islower},
    {"count", OF_TEXT | OF_LIST | OF_TUPLE, any_count},
    {"index", OF_TEXT | OF_LIST | OF_TUPLE, any_index}, {"append", OF_LIST, list_append},
    {"extend", OF_LIST, list_extend}, {"insert", OF_LIST, list_insert},
    {"reverse", OF_LIST, list_reverse}, {"pop", OF_LIST | OF_MAP, any_pop},
    {"clear", OF_LIST | OF_MAP, any_clear}, {"copy", OF_LIST | OF_MAP, any_copy},
    {"update", OF_MAP, dict_update}, {"setdefault", OF_MAP, dict_setdefault},
    {"cycle", OF_LOOP, loop_cycle}, {"changed", OF_LOOP, loop_changed},
};

uint16_t jinja_find_method(view name)
{
    for (size_t i = 0; i < ARRAY_LEN(methods); i++)
        if (view_equal(name, view_of(methods[i].name))) return (uint16_t)i;
    return CALLEE_NONE;
}

bool jinja_has_method(jinja_value v, uint16_t method)
{
    CHECK(method < ARRAY_LEN(methods));
    unsigned of = v.kind == KIND_STRING  ? OF_TEXT
                  : v.kind == KIND_LIST  ? OF_LIST
                  : v.kind == KIND_TUPLE ? OF_TUPLE
                  : v.kind == KIND_MAP   ? OF_MAP
                  : v.kind == KIND_LOOP  ? OF_LOOP
                                         : 0u;
    return (methods[method].of & of) != 0;
}

jinja_value jinja_run_method(jinja_run *r, uint16_t method, jinja_value v, const jinja_args *args)
{
    CHECK(jinja_has_method(v, method));
    return r->status ? jinja_missing() : methods[method].run(r, v, args);
}
