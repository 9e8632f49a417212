/* assign.c - assignments: what names hold afterwards, and what the rules report. */
#include "guard/judge.h"

static const view empty = {NULL, 0};

bool judge_is_name(node_role role)
{
    return role == NODE_NAME || role == NODE_MEMBER || role == NODE_SUBSCRIPT;
}

int32_t judge_name_below(const judge *j, int32_t n)
{
    for (int i = 0; n >= 0 && i < 8; i++) {
        if (judge_is_name((node_role)j->tree.list[n].role)) return n;
        int32_t inner = tree_field(&j->tree, n, FIELD_DECLARATOR);
        if (inner < 0) inner = tree_field(&j->tree, n, FIELD_NAME);
        if (inner < 0) inner = tree_field(&j->tree, n, FIELD_PATTERN);
        n = inner >= 0 ? inner : j->tree.list[n].child;
    }
    return -1;
}

void judge_show_assign(judge *j, int32_t target, value v, int32_t from)
{
    use u = {.node = from, .receiver_node = -1, .n_args = 1};
    const node *at = &j->tree.list[target];
    u.args[0] = (argument){.v = v, .node = from};
    u.callee.name = u.callee.raw = tree_text(&j->tree, target);
    if (at->role == NODE_MEMBER || at->role == NODE_CALL) { /* Ruby's a.b = c calls b= */
        int32_t object = tree_field(&j->tree, target, FIELD_OBJECT);
        int32_t name = tree_field(&j->tree, target,
                                  at->role == NODE_CALL ? FIELD_CALLEE : FIELD_NAME);
        if (object >= 0 && name >= 0) {
            u.receiver = judge_value(j, object);
            u.receiver_node = object;
            u.callee.name = judge_join(j, u.receiver.name, tree_text(&j->tree, name));
            u.callee.raw = judge_join(j, u.receiver.raw, tree_text(&j->tree, name));
        }
    } else if (at->role == NODE_SUBSCRIPT && at->child >= 0) {
        u.receiver = judge_value(j, at->child);
        u.receiver_node = at->child;
        view key = judge_string(j, tree_last(&j->tree, target));
        u.callee.name = judge_join(j, u.receiver.name, key);
        u.callee.raw = judge_join(j, u.receiver.raw, key);
    }
    match_use(j, RULE_ASSIGN, &u);
}

static void weaken(judge *j, int32_t object, value v)
{
    int32_t base = judge_name_below(j, object);
    /* [A] = x, [B] = y without an end: each target contains all before it. */
    if (base < 0 || tree_text(&j->tree, base).len > 64) return;
    value old = judge_value(j, base); /* the other items keep their values */
    view name = old.name;
    old = value_union(old, v);
    old.name = name;
    judge_set(j, tree_text(&j->tree, base), old);
}

/* url.Host = "localhost": now the program chose the address. */
static void set_host(judge *j, int32_t member)
{
    int32_t object = tree_field(&j->tree, member, FIELD_OBJECT);
    int32_t property = tree_field(&j->tree, member, FIELD_NAME);
    if (j->tree.list[member].role != NODE_MEMBER || object < 0 || property < 0) return;
    view text = tree_text(&j->tree, property), base = tree_text(&j->tree, object);
    bool host = view_equal(text, VIEW("Host")) || view_equal(text, VIEW("host")) ||
                view_equal(text, VIEW("hostname"));
    if (!host || base.len > 64) return;
    value v = judge_value(j, object);
    v.clean |= 1u << WEAK_SSRF | 1u << WEAK_REDIRECT;
    judge_set(j, base, v);
}

void judge_assign_to(judge *j, int32_t target, value v, int32_t from)
{
    const node *at = target < 0 ? NULL : &j->tree.list[target];
    if (!at) return;
    if (at->role == NODE_LIST || at->role == NODE_DICT) {
        int32_t part = from >= 0 && j->tree.list[from].role == NODE_LIST &&
                               at->role == NODE_LIST && at->begin < j->tree.list[from].begin
                           ? j->tree.list[from].child : -1;
        for (int32_t c = at->child; c >= 0; c = j->tree.list[c].next) {
            value one = part >= 0 ? judge_value(j, part) : v;
            int32_t key = j->tree.list[c].role == NODE_PAIR ? j->tree.list[c].child : c;
            int32_t into = key;
            while (j->tree.list[into].next >= 0 && into != c) into = j->tree.list[into].next;
            if (part < 0) {
                one.name = judge_join(j, v.name, tree_text(&j->tree, key));
                one.flags &= (uint16_t)~VALUE_LIST;
                one = judge_named(j, one);
            }
            judge_assign_to(j, into, one, part);
            if (part >= 0) part = j->tree.list[part].next;
        }
        return;
    }
    if (at->role == NODE_CALL) { /* Ruby's a.b = c */
        weaken(j, tree_field(&j->tree, target, FIELD_OBJECT), v);
        return;
    }
    int32_t name = judge_name_below(j, target);
    if (name < 0) return;
    view text = tree_text(&j->tree, name);
    if (j->tree.list[name].role == NODE_SUBSCRIPT) weaken(j, j->tree.list[name].child, v);
    if (text.len <= 64) judge_set(j, text, v);
    if (v.level < TAINT_SOURCE) set_host(j, name);
}

/* Java and C write the type beside the name. */
static view declared_type(judge *j, int32_t n)
{
    int32_t parent = j->tree.list[n].parent;
    int32_t type = parent < 0 ? -1 : tree_field(&j->tree, parent, FIELD_TYPE);
    if (type < 0) return empty;
    view text = tree_text(&j->tree, type);
    const char *end = memchr(text.ptr, '<', text.len);
    if (end) text.len = (size_t)(end - text.ptr);
    return text;
}

/* x -= y, and x += y if y is a number: the result is a number. */
static bool is_arithmetic(const judge *j, int32_t target, int32_t right)
{
    view text = {j->tree.text.ptr + j->tree.list[target].end,
                 j->tree.list[right].begin - j->tree.list[target].end};
    while (text.len && strchr(" \t\n", text.ptr[0])) text.ptr++, text.len--;
    if (!text.len) return false;
    if (text.ptr[0] == '+') return j->tree.language == GUARD_PHP;
    /* Python joins paths with one of these, and formats with the other. */
    return strchr(j->tree.language == GUARD_PYTHON ? "-*" : "-*/%", text.ptr[0]) != NULL;
}

/* The two sides of an assignment; -1: it has none. */
static void find_sides(const judge *j, int32_t n, int32_t *target, int32_t *right)
{
    const node *at = &j->tree.list[n];
    static const node_field targets[] = {FIELD_LEFT, FIELD_NAME, FIELD_DECLARATOR, FIELD_ALIAS};
    *target = -1;
    for (size_t i = 0; i < ARRAY_LEN(targets) && *target < 0; i++)
        *target = tree_field(&j->tree, n, targets[i]);
    if (*target < 0) *target = at->child;
    *right = tree_field(&j->tree, n, FIELD_RIGHT);
    if (*right < 0) *right = tree_field(&j->tree, n, FIELD_VALUE);
    if (*right < 0 && at->role == NODE_AS) *right = at->child;
    if (*right < 0 && *target >= 0 && at->op) *right = j->tree.list[*target].next;
}

static value value_of(judge *j, int32_t n, int32_t target, int32_t right)
{
    if (right < 0 || right == target) return VALUE_NONE;
    if (j->tree.language == GUARD_CPP && j->tree.list[right].role == NODE_ARGS)
        return judge_construct(j, n, declared_type(j, n), right);
    return judge_value(j, right);
}

/* Is the right side a list of one value?  Go: "var a = b" has a list only there. */
static bool is_single(const judge *j, int32_t target, int32_t right)
{
    const node *from = &j->tree.list[right];
    return (j->tree.list[target].role == NODE_LIST || j->tree.language == GUARD_GO) &&
           from->role == NODE_LIST && from->child >= 0 && j->tree.list[from->child].next < 0;
}

/* The value after "x += y" and its like: v is that of y. */
static value updated(judge *j, const node *at, int32_t target, int32_t old, int32_t right, value v)
{
    if (at->role == NODE_UPDATE && is_arithmetic(j, target, right)) return VALUE_NONE;
    if (at->op == OP_OR) return value_union(judge_value(j, old), v);
    if (at->role == NODE_UPDATE || at->op == OP_UPDATE)
        return judge_plus(j, judge_value(j, old), v);
    return v;
}

value judge_assign(judge *j, int32_t n)
{
    int32_t target, right;
    find_sides(j, n, &target, &right);
    if (target < 0) return VALUE_NONE;
    value v = value_of(j, n, target, right);
    if (right < 0) {
        v.name = declared_type(j, n);
        if (v.name.len) judge_assign_to(j, target, v, -1);
        return v;
    }
    const bool single = is_single(j, target, right);
    if (single) {
        right = j->tree.list[right].child;
        v = judge_value(j, right);
    }
    int32_t name = j->tree.list[target].role == NODE_LIST ? j->tree.list[target].child : target;
    v = updated(j, &j->tree.list[n], target, single ? name : target, right, v);
    if (!v.name.len) v.name = declared_type(j, n);
    name = judge_name_below(j, name);
    if (j->tree.list[target].role == NODE_CALL) judge_show_assign(j, target, v, right);
    else if (name >= 0) judge_show_assign(j, name, v, right);
    if (!j->alias && (j->tree.list[right].role == NODE_NAME ||
                      j->tree.list[right].role == NODE_MEMBER))
        j->alias = match_names_function(j, v.name);
    judge_assign_to(j, target, v, right);
    return v;
}
