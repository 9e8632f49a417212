/* jinja_eval.c - owns the values of expressions. */
#include <math.h>

#include "template/jinja_value.h"

static jinja_value bad_operands(jinja_run *r, const jinja_node *node, jinja_value a, jinja_value b)
{
    static const char *const signs[] = {"+", "-", "*", "/", "//", "%", "**"};
    jinja_value undefined = jinja_is(a, KIND_UNDEFINED) ? a : b;
    if (jinja_is(undefined, KIND_UNDEFINED))
        jinja_fail(r, node->line, "'%.*s' is undefined",
                   (int)(undefined.len < 80 ? undefined.len : 80),
                   undefined.text ? undefined.text : "");
    else
        jinja_fail(r, node->line, "%s %s %s is not possible", jinja_kind_name(a),
                   signs[node->kind - NODE_ADD], jinja_kind_name(b));
    return jinja_missing();
}

/* ---- arithmetic ---- */

static jinja_value too_large(jinja_run *r, const jinja_node *node)
{
    jinja_fail(r, node->line, "a number that is too large");
    return jinja_missing();
}

static jinja_value power(jinja_run *r, const jinja_node *node, int64_t a, int64_t b)
{
    int64_t out = 1;
    if (b < 0) return jinja_real(pow((double)a, (double)b));
    if (a == 1 || (a == 0 && b > 0)) return jinja_int(a);
    if (a == -1) return jinja_int(b % 2 ? -1 : 1);
    for (; b > 0; b--)
        if (__builtin_mul_overflow(out, a, &out)) return too_large(r, node);
    return jinja_int(out);
}

static jinja_value whole_numbers(jinja_run *r, const jinja_node *node, int64_t a, int64_t b)
{
    int64_t out = 0;
    bool divides = node->kind == NODE_DIV || node->kind == NODE_FLOORDIV || node->kind == NODE_MOD;
    if (divides && b == 0) {
        jinja_fail(r, node->line, "division by zero");
        return jinja_missing();
    }
    if (divides && a == INT64_MIN && b == -1) return too_large(r, node);
    switch (node->kind) {
    case NODE_ADD:
        return __builtin_add_overflow(a, b, &out) ? too_large(r, node) : jinja_int(out);
    case NODE_SUB:
        return __builtin_sub_overflow(a, b, &out) ? too_large(r, node) : jinja_int(out);
    case NODE_MUL:
        return __builtin_mul_overflow(a, b, &out) ? too_large(r, node) : jinja_int(out);
    case NODE_DIV: return jinja_real((double)a / (double)b);
    case NODE_FLOORDIV: return jinja_int(a / b - (a % b != 0 && (a < 0) != (b < 0)));
    case NODE_MOD: return jinja_int(a % b + (a % b != 0 && (a < 0) != (b < 0) ? b : 0));
    default: return power(r, node, a, b);
    }
}

static jinja_value real_numbers(jinja_run *r, const jinja_node *node, double a, double b)
{
    switch (node->kind) {
    case NODE_ADD: return jinja_real(a + b);
    case NODE_SUB: return jinja_real(a - b);
    case NODE_MUL: return jinja_real(a * b);
    case NODE_POW: return jinja_real(pow(a, b));
    default: break;
    }
    if (b == 0) {
        jinja_fail(r, node->line, "division by zero");
        return jinja_missing();
    }
    if (node->kind == NODE_DIV) return jinja_real(a / b);
    if (node->kind == NODE_FLOORDIV) return jinja_real(floor(a / b));
    double rest = fmod(a, b);
    return jinja_real(rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest);
}

/* n times a string or a list. */
static jinja_value repeat(jinja_run *r, jinja_value v, int64_t n)
{
    jinja_value out = jinja_list(r);
    int64_t len = jinja_length(v);
    for (int64_t i = 0; i < n && len && jinja_step(r, 1); i++) {
        if (jinja_is(v, KIND_STRING)) jinja_append(r, out, v);
        for (int64_t k = 0; !jinja_is(v, KIND_STRING) && k < len && jinja_step(r, 1); k++)
            jinja_append(r, out, jinja_items_of(v)->items[k]);
    }
    if (r->status) return jinja_missing();
    if (jinja_is(v, KIND_STRING))
        return jinja_concat(r, jinja_items_of(out)->items, jinja_items_of(out)->n);
    out.kind = v.kind;
    return out;
}

static jinja_value add_lists(jinja_run *r, jinja_value a, jinja_value b)
{
    jinja_value out = jinja_list(r);
    for (size_t i = 0; i < jinja_items_of(a)->n && jinja_step(r, 1); i++)
        jinja_append(r, out, jinja_items_of(a)->items[i]);
    for (size_t i = 0; i < jinja_items_of(b)->n && jinja_step(r, 1); i++)
        jinja_append(r, out, jinja_items_of(b)->items[i]);
    if (!r->status) out.kind = a.kind;
    return out;
}

/* A string marked by |safe escapes the strings joined to it, like markupsafe. */
static jinja_value add_strings(jinja_run *r, jinja_value a, jinja_value b)
{
    static const jinja_args none = {0};
    bool safe = a.safe || b.safe;
    if (safe && !a.safe) a = jinja_run_filter(r, jinja_find_filter(VIEW("escape")), a, &none);
    if (safe && !b.safe) b = jinja_run_filter(r, jinja_find_filter(VIEW("escape")), b, &none);
    jinja_value out = jinja_join(r, a, b);
    out.safe = safe;
    return out;
}

jinja_value jinja_binary(jinja_run *r, const jinja_node *node, jinja_value a, jinja_value b)
{
    if (r->status) return jinja_missing();
    if (jinja_is_number(a) && jinja_is_number(b)) {
        if (a.kind == KIND_REAL || b.kind == KIND_REAL)
            return real_numbers(r, node, jinja_as_real(a), jinja_as_real(b));
        return whole_numbers(r, node, a.kind == KIND_BOOL ? a.truth : a.integer,
                             b.kind == KIND_BOOL ? b.truth : b.integer);
    }
    bool text = jinja_is(a, KIND_STRING), list = jinja_is_sequence(a);
    if (node->kind == NODE_ADD && text && jinja_is(b, KIND_STRING)) return add_strings(r, a, b);
    if (node->kind == NODE_ADD && list && a.kind == b.kind) return add_lists(r, a, b);
    if (node->kind == NODE_MUL && (text || list) && jinja_is(b, KIND_INT))
        return repeat(r, a, b.integer);
    if (node->kind == NODE_MUL && jinja_is(a, KIND_INT) &&
        (jinja_is(b, KIND_STRING) || jinja_is_sequence(b)))
        return repeat(r, b, a.integer);
    if (node->kind == NODE_MOD && text) {
        if (!jinja_is(b, KIND_TUPLE)) return jinja_percent(r, a, &b, 1, node->line);
        return jinja_percent(r, a, jinja_items_of(b)->items, jinja_items_of(b)->n, node->line);
    }
    return bad_operands(r, node, a, b);
}

/* ---- comparing ---- */

static bool compares(jinja_run *r, jinja_operator op, jinja_value a, jinja_value b)
{
    switch (op) {
    case OP_EQ: return jinja_equal(r, a, b);
    case OP_NE: return !jinja_equal(r, a, b);
    case OP_LT: return jinja_compare(r, a, b) < 0;
    case OP_LE: return jinja_compare(r, a, b) <= 0;
    case OP_GT: return jinja_compare(r, a, b) > 0;
    case OP_GE: return jinja_compare(r, a, b) >= 0;
    case OP_IN: return jinja_contains(r, b, a);
    case OP_NOT_IN: return !jinja_contains(r, b, a);
    }
    return false;
}

static jinja_value compare(jinja_run *r, const jinja_node *node)
{
    jinja_value a = jinja_eval(r, node->a);
    for (const jinja_node *one = node->list; one && !r->status; one = one->next) {
        jinja_value b = jinja_eval(r, one->a);
        if (r->status || !compares(r, (jinja_operator)one->op, a, b)) return jinja_bool(false);
        a = b;
    }
    return jinja_bool(true);
}

/* ---- making ---- */

static jinja_value make_list(jinja_run *r, const jinja_node *node)
{
    jinja_value out = jinja_list(r);
    for (const jinja_node *one = node->list; one && !r->status; one = one->next)
        jinja_append(r, out, jinja_eval(r, one));
    if (!r->status && node->kind == NODE_TUPLE) out.kind = KIND_TUPLE;
    return out;
}

static jinja_value make_dict(jinja_run *r, const jinja_node *node)
{
    jinja_value out = jinja_map(r);
    for (const jinja_node *one = node->list; one && !r->status; one = one->next) {
        jinja_value key = jinja_eval(r, one->a);
        if (jinja_is_sequence(key) || jinja_is(key, KIND_MAP))
            jinja_fail(r, one->line, "a %s cannot be a key", jinja_kind_name(key));
        jinja_put_value(r, out, key, jinja_eval(r, one->b));
    }
    return out;
}

static jinja_value concat(jinja_run *r, const jinja_node *node)
{
    jinja_value parts = jinja_list(r);
    for (const jinja_node *one = node->list; one && !r->status; one = one->next)
        jinja_append(r, parts, jinja_string(r, jinja_eval(r, one)));
    if (r->status) return jinja_missing();
    return jinja_concat(r, jinja_items_of(parts)->items, jinja_items_of(parts)->n);
}

static jinja_value item(jinja_run *r, const jinja_node *node)
{
    jinja_value v = jinja_eval(r, node->a);
    if (r->status) return jinja_missing();
    if (node->b->kind != NODE_SLICE) return jinja_item(r, v, jinja_eval(r, node->b));
    jinja_value bounds[3] = {jinja_none(), jinja_none(), jinja_none()};
    if (node->b->a) bounds[0] = jinja_eval(r, node->b->a);
    if (node->b->b) bounds[1] = jinja_eval(r, node->b->b);
    if (node->b->c) bounds[2] = jinja_eval(r, node->b->c);
    return r->status ? jinja_missing() : jinja_slice(r, v, bounds);
}

/* ---- calling ---- */

jinja_args jinja_eval_args(jinja_run *r, const jinja_node *node)
{
    jinja_args out = {.line = node->line};
    size_t n = 0;
    for (const jinja_node *one = node->list; one; one = one->next) n++;
    if (!n) return out;
    jinja_value *list = jinja_room(r, n * sizeof *list);
    jinja_entry *named = jinja_room(r, n * sizeof *named);
    if (!list || !named) return out;
    for (const jinja_node *one = node->list; one && !r->status; one = one->next) {
        if (one->kind == NODE_KEYWORD)
            named[out.n_named++] = (jinja_entry){jinja_text(one->name, JINJA_TEMPLATE),
                                                 jinja_eval(r, one->a)};
        else list[out.n++] = jinja_eval(r, one);
    }
    out.list = list;
    out.named = named;
    return out;
}

static jinja_value make_range(jinja_run *r, const jinja_args *args)
{
    int64_t at[3] = {0, 0, 1};
    jinja_value out = jinja_list(r);
    for (size_t i = 0; i < args->n && i < 3; i++) {
        if (!jinja_is(args->list[i], KIND_INT))
            jinja_fail(r, args->line, "range wants whole numbers");
        at[i] = args->list[i].integer;
    }
    if (args->n == 1) at[1] = at[0], at[0] = 0;
    if (!args->n || !at[2]) jinja_fail(r, args->line, "range wants numbers, and a step");
    while ((at[2] > 0 ? at[0] < at[1] : at[0] > at[1]) && jinja_step(r, 1)) {
        jinja_append(r, out, jinja_int(at[0]));
        if (__builtin_add_overflow(at[0], at[2], &at[0])) break;
    }
    return out;
}

static jinja_value make_namespace(jinja_run *r, const jinja_args *args, jinja_kind kind)
{
    jinja_value out = jinja_map(r);
    if (args->n && jinja_is(args->list[0], KIND_MAP)) {
        const jinja_entries *in = jinja_entries_of(args->list[0]);
        for (size_t i = 0; i < in->n && jinja_step(r, 1); i++)
            jinja_put_value(r, out, in->entries[i].key, in->entries[i].value);
    }
    for (size_t i = 0; i < args->n_named; i++)
        jinja_put_value(r, out, args->named[i].key, args->named[i].value);
    if (!r->status) out.kind = (uint8_t)kind;
    return out;
}

static jinja_value jinja_call_function(jinja_run *r, jinja_symbol which, const jinja_args *args)
{
    jinja_value first = jinja_arg(args, 0, NULL, jinja_missing());
    switch (which) {
    case SYMBOL_NAMESPACE: return make_namespace(r, args, KIND_NAMESPACE);
    case SYMBOL_DICT: return make_namespace(r, args, KIND_MAP);
    case SYMBOL_RANGE: return make_range(r, args);
    case SYMBOL_STRFTIME: return jinja_strftime(r, first);
    case SYMBOL_RAISE:
        first = jinja_string(r, jinja_arg(args, 0, "message", first));
        jinja_fail(r, args->line, "%.*s", (int)(first.len < 200 ? first.len : 200),
                   first.text ? first.text : "");
        r->err.failure = JINJA_RAISED;
        return jinja_missing();
    default: break;
    }
    jinja_fail(r, args->line, "this function is unknown here");
    return jinja_missing();
}

static jinja_value jinja_call(jinja_run *r, jinja_value callee, const jinja_args *args)
{
    if (r->status) return jinja_missing();
    switch ((jinja_kind)callee.kind) {
    case KIND_MACRO: return jinja_call_macro(r, callee.at, args, NULL);
    case KIND_FUNCTION:
        return jinja_call_function(r, (jinja_symbol)callee.integer, args);
    case KIND_METHOD: {
        const jinja_method *bound = callee.at;
        return jinja_run_method(r, bound->method, bound->self, args);
    }
    case KIND_LOOP: return jinja_call_loop(r, callee.at, args);
    case KIND_UNDEFINED:
        jinja_fail(r, args->line, "'%.*s' is undefined", (int)(callee.len < 80 ? callee.len : 80),
                   callee.text ? callee.text : "");
        return jinja_missing();
    default:
        jinja_fail(r, args->line, "%s cannot be called", jinja_kind_name(callee));
        return jinja_missing();
    }
}

static jinja_value call(jinja_run *r, const jinja_node *node)
{
    const jinja_node *what = node->a;
    /* A method of a value is called without making a method value. */
    if (what->kind == NODE_ATTRIBUTE && what->callee != CALLEE_NONE) {
        jinja_value self = jinja_eval(r, what->a);
        jinja_args args = jinja_eval_args(r, node);
        if (r->status) return jinja_missing();
        if (jinja_has_method(self, what->callee))
            return jinja_run_method(r, what->callee, self, &args);
        return jinja_call(r, jinja_attribute(r, self, what->name, CALLEE_NONE), &args);
    }
    jinja_value callee = jinja_eval(r, what);
    jinja_args args = jinja_eval_args(r, node);
    return jinja_call(r, callee, &args);
}

/* ---- expressions ---- */

static jinja_value negative(jinja_run *r, const jinja_node *node)
{
    jinja_value v = jinja_eval(r, node->a);
    if (r->status) return jinja_missing();
    if (v.kind == KIND_REAL) return jinja_real(-v.real);
    if (jinja_is_number(v)) {
        int64_t out = 0, from = v.kind == KIND_BOOL ? v.truth : v.integer;
        return __builtin_sub_overflow(0, from, &out) ? too_large(r, node) : jinja_int(out);
    }
    jinja_fail(r, node->line, "- of %s is not possible", jinja_kind_name(v));
    return jinja_missing();
}

static jinja_value eval(jinja_run *r, const jinja_node *node)
{
    jinja_value a;
    jinja_args args;
    switch ((jinja_node_kind)node->kind) {
    case NODE_CONST: return node->value;
    case NODE_NAME: return jinja_look_up(r, node);
    case NODE_LIST:
    case NODE_TUPLE: return make_list(r, node);
    case NODE_DICT: return make_dict(r, node);
    case NODE_ATTRIBUTE: return jinja_attribute(r, jinja_eval(r, node->a), node->name,
                                                node->callee);
    case NODE_ITEM: return item(r, node);
    case NODE_CALL: return call(r, node);
    case NODE_FILTER:
        a = jinja_eval(r, node->a);
        args = jinja_eval_args(r, node);
        return jinja_run_filter(r, node->callee, a, &args);
    case NODE_TEST:
        a = jinja_eval(r, node->a);
        args = jinja_eval_args(r, node);
        return jinja_bool(!r->status && jinja_run_test(r, node->callee, a, &args));
    case NODE_NOT: return jinja_bool(!jinja_truth(jinja_eval(r, node->a)));
    case NODE_NEGATIVE: return negative(r, node);
    case NODE_POSITIVE: return jinja_eval(r, node->a);
    case NODE_AND:
        a = jinja_eval(r, node->a);
        return jinja_truth(a) ? jinja_eval(r, node->b) : a;
    case NODE_OR:
        a = jinja_eval(r, node->a);
        return jinja_truth(a) ? a : jinja_eval(r, node->b);
    case NODE_ADD:
    case NODE_SUB:
    case NODE_MUL:
    case NODE_DIV:
    case NODE_FLOORDIV:
    case NODE_MOD:
    case NODE_POW:
        a = jinja_eval(r, node->a);
        return jinja_binary(r, node, a, jinja_eval(r, node->b));
    case NODE_CONCAT: return concat(r, node);
    case NODE_COMPARE: return compare(r, node);
    case NODE_CONDITION:
        if (jinja_truth(jinja_eval(r, node->b))) return jinja_eval(r, node->a);
        return node->c ? jinja_eval(r, node->c) : jinja_undefined(VIEW("the value of an if"));
    default: break;
    }
    CHECK(!"an expression");
}

jinja_value jinja_eval(jinja_run *r, const jinja_node *node)
{
    if (!jinja_step(r, 1)) {
        if (!r->err.line) r->err.line = node->line;
        return jinja_missing();
    }
    if (r->depth >= JINJA_DEPTH_MAX) {
        jinja_exceed(r, node->line, "the template goes too deep");
        return jinja_missing();
    }
    r->depth++;
    jinja_value out = eval(r, node);
    r->depth--;
    /* Errors that have no line yet get this one. */
    if (r->status && !r->err.line) r->err.line = node->line;
    return out;
}
