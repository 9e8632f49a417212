/* fold.c - folding constants: numbers, comparisons, characters, items of lists. */
#include <ctype.h>

#include "base/text.h"
#include "guard/judge.h"

static bool number(value v, int64_t *out)
{
    uint64_t n;
    if (v.level != TAINT_CONST || v.flags || !v.text.len || !isdigit((unsigned char)*v.text.ptr) ||
        !parse_u64(v.text, &n) || n > INT32_MAX)
        return false;
    *out = (int64_t)n;
    return true;
}

/* The operator between the operands, as written. */
static view operator_of(const judge *j, int32_t n)
{
    int32_t left = j->tree.list[n].child, right = left < 0 ? -1 : j->tree.list[left].next;
    if (right < 0) return (view){NULL, 0};
    view text = {j->tree.text.ptr + j->tree.list[left].end,
                 j->tree.list[right].begin - j->tree.list[left].end};
    return view_trim(text, TEXT_SPACE);
}

static value truth(bool yes)
{
    return (value){.clean = ~0u, .text = yes ? VIEW("true") : VIEW("false")};
}

value judge_not(value v)
{
    if (v.level != TAINT_CONST) return VALUE_NONE;
    if (view_equal(v.text, VIEW("true")) || view_equal(v.text, VIEW("True"))) return truth(false);
    if (view_equal(v.text, VIEW("false")) || view_equal(v.text, VIEW("False"))) return truth(true);
    return VALUE_NONE;
}

bool judge_fold(judge *j, int32_t n, value a, value b, value *out)
{
    int64_t x, y, z;
    if (!number(a, &x) || !number(b, &y)) return false;
    view op = operator_of(j, n);
    if (!op.len || op.len > 3) return false;
    char second = op.len > 1 ? op.ptr[1] : 0;
    switch (op.ptr[0]) {
    case '<': *out = truth(second == '=' ? x <= y : x < y); return second != '<';
    case '>': *out = truth(second == '=' ? x >= y : x > y); return second != '>';
    case '=': *out = truth(x == y); return true;
    case '!': *out = truth(x != y); return true;
    case '+': z = x + y; break;
    case '-': z = x - y; break;
    case '*': z = second ? 0 : x * y; break;
    case '/': z = y ? x / y : 0; break;
    case '%': z = y ? x % y : 0; break;
    default: return false;
    }
    char *text = arena_take(&j->names, 24, 1);
    if (!text || z < 0) return false;
    int len = snprintf(text, 24, "%lld", (long long)z);
    *out = (value){.clean = ~0u, .text = {text, (size_t)len}};
    return true;
}

/* ---- lists whose items are known ---- */

enum { LIST_ITEMS_MAX = 16 };

static view item_name(judge *j, view list, uint32_t index)
{
    char *out = arena_take(&j->names, list.len + 12, 1);
    if (!out) return (view){NULL, 0};
    int n = snprintf(out, list.len + 12, "%.*s.#%u", (int)list.len, list.ptr, index);
    return (view){out, (size_t)n};
}

static uint32_t list_length(judge *j, view list)
{
    uint32_t n = 0;
    while (n < LIST_ITEMS_MAX && judge_find(j, item_name(j, list, n))) n++;
    return n;
}

void judge_list_add(judge *j, view list, value v)
{
    uint32_t n = list_length(j, list);
    if (n < LIST_ITEMS_MAX) judge_set(j, item_name(j, list, n), v);
}

void judge_list_remove(judge *j, view list, value index)
{
    int64_t at;
    uint32_t n = list_length(j, list);
    if (!number(index, &at) || at >= n) return;
    for (uint32_t i = (uint32_t)at; i + 1 < n; i++) {
        const variable *next = judge_find(j, item_name(j, list, i + 1));
        if (next) judge_set(j, item_name(j, list, i), next->v);
    }
    variable *last = judge_find(j, item_name(j, list, n - 1));
    if (last) last->name = (view){"", 0};
}

bool judge_list_get(judge *j, view list, value index, value *out)
{
    int64_t at;
    if (!number(index, &at) || at >= LIST_ITEMS_MAX) return false;
    const variable *var = judge_find(j, item_name(j, list, (uint32_t)at));
    if (var) *out = var->v;
    return var != NULL;
}

/* Character index of a literal: "ABC".charAt(1), "ABC"[1]. */
bool judge_char_at(value text, value index, value *out)
{
    int64_t at;
    if (!(text.flags & VALUE_STRING) || text.level != TAINT_CONST || !number(index, &at) ||
        at >= (int64_t)text.text.len)
        return false;
    *out = (value){.clean = ~0u, .flags = VALUE_STRING, .text = {text.text.ptr + at, 1}};
    return true;
}
