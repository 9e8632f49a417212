/* jinja_render.c - owns running a template: its statements, its variables, and the life of a
 * run. */
#include "template/jinja_value.h"

static void jinja_exec(jinja_run *r, const jinja_node *body);

enum { KIND_UNSET = 0xFF };

/* ---- variables ---- */

jinja_value jinja_look_up(jinja_run *r, const jinja_node *name)
{
    for (size_t i = r->n_bindings; i-- > r->base;)
        if (r->bindings[i].symbol == name->symbol) return r->bindings[i].value;
    if (r->globals[name->symbol].kind != KIND_UNSET) return r->globals[name->symbol];
    switch ((jinja_symbol)name->symbol) {
    case SYMBOL_NAMESPACE:
    case SYMBOL_RANGE:
    case SYMBOL_DICT:
    case SYMBOL_RAISE:
    case SYMBOL_STRFTIME: return (jinja_value){.kind = KIND_FUNCTION, .integer = name->symbol};
    default: return jinja_undefined(name->name);
    }
}

static void push(jinja_run *r, uint16_t symbol, jinja_value value)
{
    if (r->status) return;
    void *list = jinja_grow(r, r->bindings, r->n_bindings, &r->cap_bindings, sizeof *r->bindings);
    if (!list) return;
    r->bindings = list;
    r->bindings[r->n_bindings++] = (jinja_binding){symbol, value};
}

/* In the innermost scope; without one, at the top. */
static void jinja_bind(jinja_run *r, uint16_t symbol, jinja_value value)
{
    if (!r->scope) {
        r->globals[symbol] = value;
        return;
    }
    for (size_t i = r->n_bindings; i-- > r->scope - 1;)
        if (r->bindings[i].symbol == symbol) {
            r->bindings[i].value = value;
            return;
        }
    push(r, symbol, value);
}

typedef struct {
    size_t n, base, scope;
} scope;

/* Variables set from now on are dropped at its end.  `scope` is one more than its beginning. */
static scope open_scope(jinja_run *r)
{
    scope out = {r->n_bindings, r->base, r->scope};
    r->scope = r->n_bindings + 1;
    return out;
}

static void close_scope(jinja_run *r, scope s)
{
    r->n_bindings = s.n;
    r->base = s.base;
    r->scope = s.scope;
}

static void assign(jinja_run *r, const jinja_node *target, jinja_value value)
{
    if (r->status) return;
    if (target->kind == NODE_NAME) {
        jinja_bind(r, target->symbol, value);
    } else if (target->kind == NODE_MEMBER) {
        jinja_value to = jinja_look_up(r, target);
        if (jinja_is(to, KIND_NAMESPACE)) jinja_put_value(r, to, target->value, value);
        else jinja_fail(r, target->line, "cannot assign attribute on non-namespace object");
    } else {
        jinja_value list = jinja_iterate(r, value);
        size_t n = r->status ? 0 : jinja_items_of(list)->n, i = 0;
        for (const jinja_node *one = target->list; one; one = one->next, i++)
            if (i < n) assign(r, one, jinja_items_of(list)->items[i]);
        if (i != n) jinja_fail(r, target->line, "%zu values for %zu names", n, i);
    }
    if (r->status && !r->err.line) r->err.line = target->line;
}

/* ---- capturing ---- */

/* The output of body, as a value. */
static jinja_value capture(jinja_run *r, const jinja_node *body)
{
    jinja_sink own = {0}, *outer = r->sink;
    r->sink = &own;
    jinja_exec(r, body);
    r->sink = outer;
    return jinja_sink_take(r, &own);
}

/* ---- macros ---- */

static jinja_value make_macro(jinja_run *r, const jinja_node *node)
{
    jinja_macro *out = jinja_room(r, sizeof *out);
    size_t n = r->n_bindings - r->base;
    jinja_binding *kept = out && n ? jinja_room(r, n * sizeof *kept) : NULL;
    if (!out || (n && !kept)) return jinja_undefined(VIEW(""));
    if (n) memcpy(kept, r->bindings + r->base, n * sizeof *kept);
    *out = (jinja_macro){node, kept, n};
    return (jinja_value){.kind = KIND_MACRO, .at = out};
}

static bool is_parameter(const jinja_node *macro, view name)
{
    for (const jinja_node *one = macro->list; one; one = one->next)
        if (view_equal(one->name, name)) return true;
    return false;
}

/* Arguments that match none of the parameters. */
static void bind_rest(jinja_run *r, const jinja_node *node, const jinja_args *args)
{
    jinja_value more = jinja_list(r), named = jinja_map(r);
    size_t used = 0;
    for (const jinja_node *one = node->list; one; one = one->next) used++;
    for (size_t i = used; i < args->n; i++) jinja_append(r, more, args->list[i]);
    for (size_t i = 0; i < args->n_named; i++)
        if (!is_parameter(node, jinja_view(args->named[i].key)))
            jinja_put_value(r, named, args->named[i].key, args->named[i].value);
    if (!r->status) more.kind = KIND_TUPLE;
    push(r, SYMBOL_VARARGS, more);
    push(r, SYMBOL_KWARGS, named);
}

jinja_value jinja_call_macro(jinja_run *r, const jinja_macro *macro, const jinja_args *args,
                             const jinja_value *caller)
{
    const jinja_node *node = macro->node;
    size_t i = 0;
    if (r->depth + 8 >= JINJA_DEPTH_MAX) {
        jinja_exceed(r, args->line, "the template goes too deep");
        return jinja_undefined(VIEW(""));
    }
    r->depth += 8; /* it takes more of the stack than an expression */
    scope s = open_scope(r);
    r->base = r->n_bindings;
    for (size_t k = 0; k < macro->n; k++)
        push(r, macro->bindings[k].symbol, macro->bindings[k].value);
    r->scope = r->n_bindings + 1;
    bind_rest(r, node, args);
    for (const jinja_node *one = node->list; one; one = one->next, i++) {
        char name[JINJA_NUMBER_BYTES * 4];
        snprintf(name, sizeof name, "%.*s", (int)one->name.len, one->name.ptr);
        jinja_value value = jinja_undefined(one->name);
        if (jinja_has_arg(args, i, name)) value = jinja_arg(args, i, name, value);
        else if (one->a) value = jinja_eval(r, one->a);
        push(r, one->symbol, value);
    }
    if (caller) jinja_bind(r, SYMBOL_CALLER, *caller);
    jinja_flow flow = r->flow;
    jinja_value out = capture(r, node->body);
    r->flow = flow;
    close_scope(r, s);
    r->depth -= 8;
    return out;
}

static void run_call_block(jinja_run *r, const jinja_node *node)
{
    jinja_value caller = make_macro(r, node);
    jinja_value callee = jinja_eval(r, node->a->a);
    jinja_args args = jinja_eval_args(r, node->a);
    if (r->status) return;
    if (!jinja_is(callee, KIND_MACRO)) jinja_fail(r, node->line, "{%% call %%} wants a macro");
    else jinja_sink_value(r, r->sink, jinja_call_macro(r, callee.at, &args, &caller));
}

/* ---- loops ---- */

/* Items that the loop's filter accepts. */
static jinja_value chosen(jinja_run *r, const jinja_node *node, jinja_value list)
{
    if (!node->c) return list;
    jinja_value out = jinja_list(r);
    for (size_t i = 0; !r->status && i < jinja_items_of(list)->n; i++) {
        scope s = open_scope(r);
        assign(r, node->a, jinja_items_of(list)->items[i]);
        bool take = jinja_truth(jinja_eval(r, node->c));
        close_scope(r, s);
        if (take) jinja_append(r, out, jinja_items_of(list)->items[i]);
    }
    return out;
}

static void loop_over(jinja_run *r, const jinja_node *node, jinja_value items, uint32_t depth)
{
    jinja_value list = jinja_iterate(r, items);
    if (r->status && !r->err.line) r->err.line = node->line;
    list = chosen(r, node, list);
    jinja_loop *loop = r->status ? NULL : jinja_room(r, sizeof *loop);
    if (!loop) return;
    *loop = (jinja_loop){.node = node, .list = list, .n = jinja_items_of(list)->n, .depth = depth};
    for (; loop->i < loop->n && jinja_step(r, 1); loop->i++) {
        scope s = open_scope(r);
        push(r, SYMBOL_LOOP, (jinja_value){.kind = KIND_LOOP, .at = loop});
        /* If the loop itself shortens its list, it ends there. */
        if (loop->i >= jinja_items_of(list)->n) loop->i = loop->n;
        else {
            assign(r, node->a, jinja_items_of(list)->items[loop->i]);
            jinja_exec(r, node->body);
        }
        close_scope(r, s);
        jinja_flow flow = r->flow;
        r->flow = FLOW_ON;
        if (flow == FLOW_BREAK) break;
    }
    if (!loop->n && node->otherwise) jinja_exec(r, node->otherwise);
}

jinja_value jinja_call_loop(jinja_run *r, const jinja_loop *loop, const jinja_args *args)
{
    jinja_sink own = {0}, *outer = r->sink;
    if (!loop->node->flag || r->depth + 8 >= JINJA_DEPTH_MAX) {
        jinja_fail(r, args->line, loop->node->flag ? "the template goes too deep"
                                                   : "this loop is not recursive");
        return jinja_undefined(VIEW(""));
    }
    r->depth += 8;
    r->sink = &own;
    loop_over(r, loop->node, jinja_arg(args, 0, NULL, jinja_undefined(VIEW(""))),
              loop->depth + 1);
    r->sink = outer;
    r->depth -= 8;
    return jinja_sink_take(r, &own);
}

/* ---- statements ---- */

static jinja_value filtered(jinja_run *r, const jinja_node *filter, jinja_value v)
{
    if (!filter || r->status) return v;
    v = filtered(r, filter->a, v); /* as deep as the parser allowed */
    jinja_args args = jinja_eval_args(r, filter);
    return jinja_run_filter(r, filter->callee, v, &args);
}

static void run_with(jinja_run *r, const jinja_node *node)
{
    scope s = open_scope(r);
    for (const jinja_node *one = node->list; one && !r->status; one = one->next)
        assign(r, one->a, jinja_eval(r, one->b));
    jinja_exec(r, node->body);
    close_scope(r, s);
}

static void run_if(jinja_run *r, const jinja_node *node)
{
    while (node && !r->status) {
        if (node->kind != NODE_IF) break;
        if (jinja_truth(jinja_eval(r, node->a))) {
            jinja_exec(r, node->body);
            return;
        }
        const jinja_node *next = node->otherwise;
        if (next && next->kind == NODE_IF && !next->next) {
            node = next; /* elif, any number of them */
            continue;
        }
        jinja_exec(r, next);
        return;
    }
}

static void run_one(jinja_run *r, const jinja_node *node)
{
    jinja_value v;
    scope s;
    switch ((jinja_node_kind)node->kind) {
    case NODE_DATA: jinja_sink_put(r, r->sink, node->name, JINJA_TEMPLATE); return;
    case NODE_PRINT:
        v = jinja_eval(r, node->a);
        jinja_sink_value(r, r->sink, v);
        return;
    case NODE_IF: run_if(r, node); return;
    case NODE_FOR: loop_over(r, node, jinja_eval(r, node->b), 0); return;
    case NODE_SET: assign(r, node->a, jinja_eval(r, node->b)); return;
    case NODE_SET_BLOCK:
        s = open_scope(r);
        v = capture(r, node->body);
        close_scope(r, s);
        assign(r, node->a, filtered(r, node->b, v));
        return;
    case NODE_MACRO: jinja_bind(r, node->symbol, make_macro(r, node)); return;
    case NODE_CALL_BLOCK: run_call_block(r, node); return;
    case NODE_FILTER_BLOCK:
        s = open_scope(r);
        v = capture(r, node->body);
        close_scope(r, s);
        jinja_sink_value(r, r->sink, filtered(r, node->b, v));
        return;
    case NODE_WITH: run_with(r, node); return;
    case NODE_SCOPE: jinja_exec(r, node->body); return;
    case NODE_BREAK: r->flow = FLOW_BREAK; return;
    case NODE_CONTINUE: r->flow = FLOW_CONTINUE; return;
    default: CHECK(!"a statement");
    }
}

static void jinja_exec(jinja_run *r, const jinja_node *body)
{
    if (r->depth >= JINJA_DEPTH_MAX) {
        jinja_exceed(r, body ? body->line : 0, "the template goes too deep");
        return;
    }
    r->depth++;
    for (const jinja_node *one = body; one && r->flow == FLOW_ON; one = one->next) {
        if (!jinja_step(r, 1)) break;
        run_one(r, one);
        if (r->status && !r->err.line) r->err.line = one->line;
    }
    r->depth--;
}

/* ---- a run ---- */

int jinja_open(jinja_run **out, const jinja_template *t)
{
    CHECK(out && t);
    jinja_run *r = memory_zalloc(1, sizeof *r);
    if (!r) return CERIUM_ERR_MEMORY;
    r->t = t;
    r->pool.max = JINJA_VALUES_BYTES_MAX;
    r->sink = &r->out;
    r->globals = jinja_take(&r->pool, t->n_symbols * sizeof *r->globals);
    if (!r->globals) {
        jinja_close(&r);
        return CERIUM_ERR_MEMORY;
    }
    for (size_t i = 0; i < t->n_symbols; i++) r->globals[i] = (jinja_value){.kind = KIND_UNSET};
    *out = r;
    return CERIUM_OK;
}

void jinja_close(jinja_run **r)
{
    if (!r || !*r) return;
    jinja_sink_free(&(*r)->out);
    jinja_pool_free(&(*r)->pool);
    memory_free(*r);
    *r = NULL;
}

void jinja_set(jinja_run *r, const char *name, jinja_value value)
{
    CHECK(r && name);
    /* A variable that the template does not name is skipped. */
    for (size_t i = 0; i < r->t->n_symbols; i++)
        if (view_equal(r->t->symbols[i], view_of(name))) {
            r->globals[i] = value;
            return;
        }
}

void jinja_set_time(jinja_run *r, int64_t seconds) { r->time = seconds; }

int jinja_render(jinja_run *r, jinja_output *out, jinja_error *err)
{
    CHECK(r && out && err && !r->out.text.len);
    jinja_exec(r, r->t->body);
    *err = r->err;
    if (r->status) return r->status;
    *out = (jinja_output){{r->out.text.ptr ? r->out.text.ptr : "", r->out.text.len},
                          r->out.pieces, r->out.n};
    return CERIUM_OK;
}
