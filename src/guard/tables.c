/* tables.c - tables of constants: making them and looking up in them; formats, and which of their
 * values are printed as numbers. */
#include <ctype.h>

#include "base/text.h"
#include "guard/judge.h"

static bool is_table(const use *u)
{
    view name = judge_last(u->receiver.raw);
    bool upper = name.len > 1;
    for (size_t i = 0; i < name.len; i++) upper &= !islower((unsigned char)name.ptr[i]);
    return u->receiver_node >= 0 && u->receiver.level == TAINT_CONST &&
           (u->receiver.flags & VALUE_LIST || upper);
}

bool judge_makes_table(const use *u, value *out)
{
    static const char *const makers[] = {
        "new.Map", "new.Set", "Map.of", "Set.of", "List.of", "Map.ofEntries", "Map.entry",
        "Arrays.asList", "Object.freeze", "Object.fromEntries", "ImmutableMap.of",
        "ImmutableSet.of", "ImmutableList.of", "EnumSet.of", "frozenset", "set", "dict", "tuple",
        "list", "sorted", "types.MappingProxyType", "MappingProxyType", "Set.new", "Hash.new",
        "Object.keys", "Object.values", "Array.from"};
    static const char *const same[] = {"freeze", "dup", "copy", "to_set", "toSet", "keys", "values",
                                       "keySet", "with_indifferent_access"};
    if (!u->n_args && is_table(u) &&
        view_is_one_of(judge_last(u->callee.raw), same, ARRAY_LEN(same))) {
        *out = u->receiver;
        out->flags |= VALUE_LIST;
        return true;
    }
    if (!u->n_args || !view_is_one_of(u->callee.name, makers, ARRAY_LEN(makers))) return false;
    for (uint32_t i = 0; i < u->n_args; i++)
        if (u->args[i].v.level != TAINT_CONST) return false;
    *out = (value){.clean = ~0u, .flags = VALUE_LIST, .text = VIEW("["), .name = u->callee.name};
    return true;
}

/* TABLE.get(key, "name"): one of the values written there, whatever the key. */
bool judge_looks_up(const use *u, value *out)
{
    static const char *const names[] = {"get", "fetch", "dig", "getOrDefault", "at", "values_at",
                                        "slice", "pop", "find", "setdefault"};
    if (!u->n_args || !is_table(u)) return false;
    if (!view_is_one_of(judge_last(u->callee.raw), names, ARRAY_LEN(names))) return false;
    value v = VALUE_NONE;
    for (uint32_t i = 1; i < u->n_args; i++) v = value_union(v, u->args[i].v);
    v.flags &= (uint16_t)~VALUE_LIST;
    *out = v;
    return true;
}

/* ---- formats ---- */

/* The kind of conversion number n of a printf-like format; 0: none, or they are positional. */
static char conversion(view format, uint32_t n)
{
    for (size_t i = 0; i + 1 < format.len; i++) {
        if (format.ptr[i] != '%') continue;
        i++;
        while (i < format.len && strchr("0123456789.-+ #lhzjtL", format.ptr[i])) i++;
        if (i >= format.len || strchr("*$", format.ptr[i])) return 0;
        if (format.ptr[i] != '%' && !n--) return format.ptr[i];
    }
    return 0;
}

static bool is_number(char kind) { return kind && strchr("diuxXfFeEgGc", kind); }

bool judge_prints_number(view format, uint32_t n) { return is_number(conversion(format, n)); }

bool judge_prints_numbers(view format)
{
    uint32_t n = 0;
    while (is_number(conversion(format, n))) n++;
    return n && !conversion(format, n) && !memchr(format.ptr, '$', format.len);
}
