/* functions.c - functions of the window: their parameters, and calls followed into their bodies. */
#include "base/text.h"
#include "guard/judge.h"

static const view empty = {NULL, 0};

static int32_t parameters_of(const judge *j, int32_t n)
{
    for (int i = 0; n >= 0 && i < 6; i++) {
        int32_t p = tree_field(&j->tree, n, FIELD_PARAMETERS);
        if (p >= 0) return p;
        for (int32_t c = j->tree.list[n].child; c >= 0; c = j->tree.list[c].next)
            if (j->tree.list[c].role == NODE_PARAMS && j->tree.list[c].field == FIELD_NONE)
                return c;
        n = tree_field(&j->tree, n, FIELD_DECLARATOR);
    }
    return -1;
}

static view parameter_type(const judge *j, int32_t n)
{
    int32_t type = tree_field(&j->tree, n, FIELD_TYPE);
    if (type < 0) return empty;
    view text = tree_text(&j->tree, type);
    while (text.len && strchr(":*&[] ?", text.ptr[0])) text.ptr++, text.len--;
    const char *end = memchr(text.ptr, '<', text.len);
    if (end) text.len = (size_t)(end - text.ptr);
    return text;
}

static bool is_number_type(view type)
{
    static const char *const types[] = {"int", "long", "Integer", "Long", "number", "float",
                                        "double", "bool", "boolean", "Boolean", "int64", "int32",
                                        "uint", "uint64", "uint32", "float64", "UUID", "size_t"};
    return view_is_one_of(type, types, ARRAY_LEN(types));
}

/* The argument that a callback gets on failure. */
static bool is_error(view name)
{
    static const char *const names[] = {"e", "err", "error", "ex", "exception", "_err", "reason"};
    return view_is_one_of(name, names, ARRAY_LEN(names));
}

static void bind_parameter(judge *j, int32_t n, taint level)
{
    bool declared = j->tree.list[n].role == NODE_PARAM;
    int32_t name = declared && tree_field(&j->tree, n, FIELD_NAME) >= 0
                       ? tree_field(&j->tree, n, FIELD_NAME) : judge_name_below(j, n);
    if (name < 0) return;
    value v = {.level = (uint8_t)level, .name = tree_text(&j->tree, name)};
    view type = declared ? parameter_type(j, n) : empty;
    if (is_number_type(type) && j->tree.language != GUARD_C && j->tree.language != GUARD_CPP)
        v = VALUE_NONE;
    if (type.len) v.name = type;
    if (declared && j->facts->parameter &&
        regex_found(j->facts->parameter, &j->re, tree_text(&j->tree, n)))
        v.level = TAINT_SOURCE;
    v.raw = tree_text(&j->tree, name);
    /* def f(password="...") */
    int32_t given = declared ? tree_field(&j->tree, n, FIELD_VALUE) : -1;
    if (given >= 0 && !j->inlined && j->tree.list[given].role == NODE_STRING)
        judge_show_assign(j, name, judge_value(j, given), given);
    if (level == TAINT_SOURCE && is_error(v.raw)) v.level = TAINT_UNKNOWN;
    bool process = view_equal(v.raw, VIEW("pid")) || view_equal(v.raw, VIEW("ppid"));
    if (process && v.level == TAINT_PARAMETER) { /* the system assigns its number */
        v.level = TAINT_UNKNOWN;
        v.flags = VALUE_FIELDS;
    }
    if (view_equal(v.raw, VIEW("self")) || view_equal(v.raw, VIEW("cls"))) v.level = TAINT_UNKNOWN;
    value named = judge_named(j, v);
    /* A parameter called input is not the function that reads one. */
    bool called = named.clean & VALUE_GIVEN && !view_equal(v.raw, VIEW("argv"));
    /* A new variable, not that of the enclosing function. */
    if (j->n_vars < GUARD_VARIABLES_MAX)
        j->vars[j->n_vars++] = (variable){v.raw, called ? v : named};
}

/* Are these the arguments of x.map(...)? */
static bool is_map(const judge *j, int32_t arguments)
{
    int32_t call = j->tree.list[arguments].parent;
    int32_t callee = call < 0 ? -1 : tree_field(&j->tree, call, FIELD_CALLEE);
    view name = callee < 0 ? empty : tree_text(&j->tree, callee);
    return name.len > 4 && !memcmp(name.ptr + name.len - 4, ".map", 4);
}

static void bind_parameters(judge *j, int32_t n, int32_t parameters)
{
    const node *f = &j->tree.list[n];
    int32_t parent = f->parent, outer = n;
    taint level = TAINT_PARAMETER;
    bool callback = parent >= 0 && (j->tree.list[parent].role == NODE_ARGS ||
                                    j->tree.list[parent].role == NODE_CALL);
    if (callback) level = j->block.level == TAINT_SOURCE ? TAINT_SOURCE : TAINT_UNKNOWN;
    if (parent >= 0 && j->tree.list[parent].role == NODE_DECORATED) outer = parent;
    view header = {j->tree.text.ptr + j->tree.list[outer].begin,
                   j->tree.list[parameters].end - j->tree.list[outer].begin};
    if (j->facts->handler && regex_found(j->facts->handler, &j->re, header)) level = TAINT_SOURCE;
    if (j->tree.list[parameters].role == NODE_NAME) bind_parameter(j, parameters, level);
    uint32_t index = 0;
    for (int32_t c = j->tree.list[parameters].child; c >= 0; c = j->tree.list[c].next) {
        if (j->tree.list[c].role == NODE_SKIP) continue;
        bind_parameter(j, c, level);
        /* list.map((item, i) => ...): i is a number */
        if (callback && index++ == 1 && is_map(j, parent) && j->n_vars)
            j->vars[j->n_vars - 1].v = VALUE_NONE;
    }
}

value judge_function(judge *j, int32_t n)
{
    const node *f = &j->tree.list[n];
    if (f->end < j->from) return VALUE_NONE; /* judged when it was written */
    uint32_t n_vars = j->n_vars;
    int32_t parameters = parameters_of(j, n);
    bool block = j->tree.language == GUARD_RUBY && j->tree.list[n].field == FIELD_NONE;
    if (parameters >= 0) bind_parameters(j, n, parameters);
    value v = VALUE_NONE, last;
    for (int32_t c = f->child; c >= 0; c = j->tree.list[c].next)
        if (c != parameters && j->tree.list[c].field != FIELD_NAME &&
            j->tree.list[c].field != FIELD_DECLARATOR) {
            last = judge_value(j, c);
            bool body = j->tree.list[c].field == FIELD_BODY && j->tree.list[c].role != NODE_BLOCK;
            if (body) v = last; /* x => x + 1 */
        }
    if (!block) j->n_vars = n_vars;
    v.flags &= (uint16_t)~VALUE_STRING;
    v.text = empty;
    return v;
}

/* ---- calls of functions of this window ---- */

static int32_t function_named(const judge *j, view name)
{
    for (int32_t i = 0; i < j->tree.n; i++) {
        if (j->tree.list[i].role != NODE_FUNCTION) continue;
        int32_t n = tree_field(&j->tree, i, FIELD_NAME);
        if (n >= 0 && view_equal(tree_text(&j->tree, n), name)) return i;
    }
    return -1;
}

bool judge_is_defined(const judge *j, view name)
{
    return name.len && function_named(j, name) >= 0;
}

/* Is it complete?  The closers given to the window come after the text that was read. */
static bool is_whole(const judge *j, int32_t function)
{
    int32_t body = tree_field(&j->tree, function, FIELD_BODY);
    return body >= 0 && j->tree.list[function].end < j->tree.text.len;
}

bool judge_inline(judge *j, view name, const use *u, value *out)
{
    int32_t f = function_named(j, name);
    if (f < 0 || j->inlined == JUDGE_INLINE_MAX || !is_whole(j, f)) return false;
    const node *call = &j->tree.list[u->node], *at = &j->tree.list[f];
    if (call->begin >= at->begin && call->end <= at->end) return false; /* it calls itself */
    uint32_t n_vars = j->n_vars, n_hits = j->n_hits, n_deferred = j->n_deferred, index = 0;
    value before = j->returned;
    judge_state outside;
    size_t saved = j->saved.used;
    int32_t parameters = parameters_of(j, f);
    if (!judge_save(j, &outside)) return false;
    j->inlined++;
    j->returned = VALUE_NONE;
    for (int32_t c = parameters < 0 ? -1 : j->tree.list[parameters].child; c >= 0;
         c = j->tree.list[c].next) {
        if (j->tree.list[c].role == NODE_SKIP) continue;
        bind_parameter(j, c, TAINT_PARAMETER);
        view text = j->n_vars > n_vars ? j->vars[j->n_vars - 1].name : empty;
        if (view_equal(text, VIEW("self")) || index >= u->n_args || !text.len) continue;
        j->vars[j->n_vars - 1].v = u->args[index++].v;
    }
    judge_value(j, tree_field(&j->tree, f, FIELD_BODY));
    *out = j->returned;
    j->returned = before;
    j->inlined--;
    judge_restore(j, &outside);
    j->saved.used = saved;
    j->n_hits = n_hits;
    j->n_deferred = n_deferred;
    return true;
}
