/* statements.c - assignments, branches, loops, functions, imports: what names hold afterwards. */
#include "guard/judge.h"

static const view empty = {NULL, 0};

static bool is_name(node_role role)
{
    return role == NODE_NAME || role == NODE_MEMBER || role == NODE_SUBSCRIPT;
}

/* The first name below n: behind C's stars and brackets, Python's targets. */
static int32_t name_below(const judge *j, int32_t n)
{
    for (int i = 0; n >= 0 && i < 8; i++) {
        if (is_name((node_role)j->tree.list[n].role)) return n;
        int32_t inner = tree_field(&j->tree, n, FIELD_DECLARATOR);
        if (inner < 0) inner = tree_field(&j->tree, n, FIELD_NAME);
        if (inner < 0) inner = tree_field(&j->tree, n, FIELD_PATTERN);
        n = inner >= 0 ? inner : j->tree.list[n].child;
    }
    return -1;
}

static void tell_rules(judge *j, int32_t target, value v, int32_t from)
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
        int32_t last = at->child;
        while (j->tree.list[last].next >= 0) last = j->tree.list[last].next;
        u.receiver = judge_value(j, at->child);
        u.receiver_node = at->child;
        view key = judge_string(j, last);
        u.callee.name = judge_join(j, u.receiver.name, key);
        u.callee.raw = judge_join(j, u.receiver.raw, key);
    }
    match_use(j, RULE_ASSIGN, &u);
}

static void weaken(judge *j, int32_t object, value v)
{
    int32_t base = name_below(j, object);
    if (base < 0) return;
    value old = judge_value(j, base); /* the other places keep what they hold */
    view name = old.name;
    old = value_union(old, v);
    old.name = name;
    judge_set(j, tree_text(&j->tree, base), old);
}

static void judge_assign_to(judge *j, int32_t target, value v, int32_t from)
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
                one.flags &= (uint8_t)~VALUE_LIST;
                one = judge_named(j, one);
            }
            judge_assign_to(j, into, one, part);
            if (part >= 0) part = j->tree.list[part].next;
        }
        return;
    }
    int32_t name = name_below(j, target);
    if (name < 0) return;
    view text = tree_text(&j->tree, name);
    if (j->tree.list[name].role == NODE_SUBSCRIPT) weaken(j, j->tree.list[name].child, v);
    if (text.len <= 64) judge_set(j, text, v);
}

/* Java and C say the type beside the name. */
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

/* x -= y, and x += y where that is of numbers alone: what is left is a number. */
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

value judge_assign(judge *j, int32_t n)
{
    const node *at = &j->tree.list[n];
    static const node_field targets[] = {FIELD_LEFT, FIELD_NAME, FIELD_DECLARATOR, FIELD_ALIAS};
    int32_t target = -1, right = tree_field(&j->tree, n, FIELD_RIGHT);
    for (size_t i = 0; i < ARRAY_LEN(targets) && target < 0; i++)
        target = tree_field(&j->tree, n, targets[i]);
    if (target < 0) target = at->child;
    if (right < 0) right = tree_field(&j->tree, n, FIELD_VALUE);
    if (right < 0 && at->role == NODE_AS) right = at->child;
    if (right < 0 && target >= 0 && at->op) right = j->tree.list[target].next;
    if (target < 0) return VALUE_NONE;
    value v = right < 0 || right == target ? VALUE_NONE
              : j->tree.language == GUARD_CPP && j->tree.list[right].role == NODE_ARGS
                  ? judge_construct(j, n, declared_type(j, n), right)
                  : judge_value(j, right);
    if (right < 0) {
        v.name = declared_type(j, n);
        if (v.name.len) judge_assign_to(j, target, v, -1);
        return v;
    }
    /* Go: one value, one name; "var a = b" has a list on the right alone. */
    bool list = j->tree.list[target].role == NODE_LIST;
    bool single = (list || j->tree.language == GUARD_GO) &&
                  j->tree.list[right].role == NODE_LIST && j->tree.list[right].child >= 0 &&
                  j->tree.list[j->tree.list[right].child].next < 0;
    if (single) {
        right = j->tree.list[right].child;
        v = judge_value(j, right);
    }
    int32_t name = list ? j->tree.list[target].child : target;
    int32_t old = single ? name : target;
    if (at->role == NODE_UPDATE && is_arithmetic(j, target, right)) v = VALUE_NONE;
    else if (at->role == NODE_UPDATE || at->op == OP_UPDATE || at->op == OP_OR)
        v = at->op == OP_OR ? value_union(judge_value(j, old), v)
                            : judge_plus(j, judge_value(j, old), v);
    if (!v.name.len) v.name = declared_type(j, n);
    name = name_below(j, name);
    if (j->tree.list[target].role == NODE_CALL) tell_rules(j, target, v, right);
    else if (name >= 0) tell_rules(j, name, v, right);
    if (!j->alias && (j->tree.list[right].role == NODE_NAME ||
                      j->tree.list[right].role == NODE_MEMBER))
        j->alias = match_names_function(j, v.name);
    judge_assign_to(j, target, v, right);
    return v;
}

/* ---- branches ---- */

typedef struct {
    variable *list;
    uint32_t n;
    bool reached;
} state;

static bool take_state(judge *j, state *s)
{
    s->n = j->n_vars;
    s->reached = true;
    s->list = arena_take(&j->saved, (j->n_vars + 1) * sizeof *s->list, sizeof(void *));
    if (s->list && s->n) memcpy(s->list, j->vars, s->n * sizeof *s->list);
    return s->list != NULL;
}

static void restore(judge *j, const state *s)
{
    if (s->n) memcpy(j->vars, s->list, s->n * sizeof *s->list);
    j->n_vars = s->n;
}

/* What j holds or what s held: names keep their places, new ones stand behind. */
static void merge(judge *j, const state *s)
{
    for (uint32_t i = 0; i < s->n; i++) {
        if (i < j->n_vars && view_equal(j->vars[i].name, s->list[i].name)) {
            view name = j->vars[i].v.name;
            j->vars[i].v = value_union(j->vars[i].v, s->list[i].v);
            if (name.len && j->vars[i].v.level != TAINT_SOURCE) j->vars[i].v.name = name;
        } else if (!judge_find(j, s->list[i].name)) judge_set(j, s->list[i].name, s->list[i].v);
    }
}

static void mark(judge *j, int32_t n)
{
    node_role role = (node_role)j->tree.list[n].role;
    view text = tree_text(&j->tree, n);
    if (!is_name(role) || text.len > 64) return;
    value v = judge_value(j, n);
    if (v.level == TAINT_CONST) return;
    v.clean = ~0u;
    judge_set(j, text, v);
}

static bool meaningful_string(const judge *j, int32_t n)
{
    return j->tree.list[n].role == NODE_STRING && tree_text(&j->tree, n).len > 2;
}

static void mark_compared(judge *j, int32_t n, bool inside)
{
    const node *at = &j->tree.list[n];
    int32_t a = at->child, b = a;
    while (b >= 0 && j->tree.list[b].next >= 0) b = j->tree.list[b].next;
    if (a < 0 || a == b) return;
    switch ((node_op)at->op) {
    case OP_EQUAL:
    case OP_DIFFERS:
        if (inside != (at->op == OP_EQUAL)) return;
        if (meaningful_string(j, a)) mark(j, b);
        if (meaningful_string(j, b)) mark(j, a);
        return;
    case OP_IN:
    case OP_NOT_IN:
        if (meaningful_string(j, a)) mark(j, b);
        else if (inside == (at->op == OP_IN)) mark(j, a);
        return;
    case OP_MATCH: mark(j, a); return;
    default: return;
    }
}

/* LIST.contains(x) and the like say something of x where they hold, and nothing where they do
 * not; a test of form (x.matches(...)) may be written either way. */
static bool asks_a_list(view name)
{
    static const char *const names[] = {"contains", "includes", "in_array", "has", "containsKey",
                                        "include?", "member?", "key?", "has_key?", "in?",
                                        "array_key_exists", "array_search"};
    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        if (view_equal(name, view_of(names[i]))) return true;
    return false;
}

/* Does n hold where the condition does (inside), or does not? */
static bool holds_there(const judge *j, int32_t n, int32_t condition, bool inside)
{
    while (n != condition && n >= 0) {
        n = j->tree.list[n].parent;
        if (n >= 0 && j->tree.list[n].role == NODE_NOT) inside = !inside;
    }
    return inside;
}

static void mark_guarded(judge *j, int32_t n, bool holds)
{
    int32_t callee = tree_field(&j->tree, n, FIELD_CALLEE), arguments;
    if (callee < 0) callee = tree_field(&j->tree, n, FIELD_NAME);
    if (callee < 0) return;
    view name = tree_text(&j->tree, callee);
    int32_t object = tree_field(&j->tree, n, FIELD_OBJECT);
    if (object < 0 && j->tree.list[callee].role == NODE_MEMBER)
        object = tree_field(&j->tree, callee, FIELD_OBJECT);
    const char *dot = memrchr(name.ptr, '.', name.len);
    view last = dot ? (view){dot + 1, name.len - (size_t)(dot + 1 - name.ptr)} : name;
    if (!patterns_match(&j->facts->guards, name) && !patterns_match(&j->facts->guards, last))
        return;
    arguments = tree_field(&j->tree, n, FIELD_ARGUMENTS);
    if (match_loose(j, n)) return;
    for (int32_t c = arguments < 0 ? -1 : j->tree.list[arguments].child; c >= 0;
         c = j->tree.list[c].next) {
        view text = judge_value(j, c).text;
        if (text.len && memmem(text.ptr, text.len, "^.*$", 4)) return; /* everything passes */
    }
    if (object >= 0) mark(j, object);
    if (!holds && asks_a_list(last)) return;
    for (int32_t c = arguments < 0 ? -1 : j->tree.list[arguments].child; c >= 0;
         c = j->tree.list[c].next)
        mark(j, j->tree.list[c].role == NODE_OTHER && j->tree.list[c].child >= 0
                    ? j->tree.list[c].child : c);
}

/* A value that a condition compares with what is known is what is known. */
static void mark_checked(judge *j, int32_t condition, bool inside)
{
    if (condition < 0) return;
    uint32_t end = j->tree.list[condition].end;
    for (int32_t i = condition; i < j->tree.n && j->tree.list[i].begin < end; i++) {
        node_role role = (node_role)j->tree.list[i].role;
        if (role == NODE_COMPARE || role == NODE_BINARY) mark_compared(j, i, inside);
        else if (role == NODE_CALL) mark_guarded(j, i, holds_there(j, i, condition, inside));
    }
}

/* Does the block end elsewhere? */
static bool leaves(const judge *j, int32_t n)
{
    static const char *const ends[] = {"exit", "die", "abort", "os.Exit", "log.Fatal", "panic",
                                       "sys.exit", "raise", "halt", "head", "redirect_to",
                                       "log.Fatalf", "process.exit", "System.exit", "next",
                                       "render", "fail", "redirect"};
    for (int i = 0; n >= 0 && i < 12; i++) {
        const node *at = &j->tree.list[n];
        if (at->role == NODE_LEAVE || at->role == NODE_ECHO) return true;
        if (at->role == NODE_CALL || at->role == NODE_NAME) {
            view text = tree_text(&j->tree, n);
            for (size_t k = 0; k < ARRAY_LEN(ends); k++) {
                view e = view_of(ends[k]);
                if (view_starts(text, e) &&
                    (text.len == e.len || strchr("( \n", text.ptr[e.len])))
                    return true;
            }
            return false;
        }
        int32_t last = -1;
        for (int32_t c = at->child; c >= 0; c = j->tree.list[c].next) {
            if (j->tree.list[c].role == NODE_LEAVE) return true;
            if (j->tree.list[c].role != NODE_SKIP) last = c;
        }
        n = last;
    }
    return false;
}

static int32_t branch_of(const judge *j, int32_t n, int32_t condition)
{
    int32_t yes = tree_field(&j->tree, n, FIELD_CONSEQUENCE);
    if (yes < 0) yes = tree_field(&j->tree, n, FIELD_BODY);
    if (yes >= 0) return yes;
    for (int32_t c = j->tree.list[n].child; c >= 0; c = j->tree.list[c].next)
        if (c != condition && j->tree.list[c].field == FIELD_NONE &&
            j->tree.list[c].role != NODE_SKIP)
            return c;
    return -1;
}

/* Everything of n but the condition and the first branch; true when there is an else. */
static bool other_branches(judge *j, int32_t n, const state *before, int32_t condition,
                           state *sum)
{
    bool has_else = false;
    for (int32_t c = j->tree.list[n].child; c >= 0; c = j->tree.list[c].next) {
        const node *at = &j->tree.list[c];
        bool other = at->field == FIELD_ALTERNATIVE;
        if (!other) continue;
        restore(j, before);
        mark_checked(j, condition, false);
        judge_value(j, c);
        has_else |= at->role != NODE_IF ||
                    tree_field(&j->tree, c, FIELD_ALTERNATIVE) >= 0;
        if (leaves(j, c)) continue;
        if (sum->reached) merge(j, sum);
        if (!take_state(j, sum)) return true;
    }
    return has_else;
}

value judge_if(judge *j, int32_t n)
{
    int32_t condition = tree_field(&j->tree, n, FIELD_CONDITION), yes;
    int32_t first = tree_field(&j->tree, n, FIELD_INITIALIZER);
    size_t mark_used = j->saved.used;
    bool positive = j->tree.list[n].role == NODE_IF;
    state before, sum = {0};
    judge_value(j, first);
    if (condition < 0) condition = j->tree.list[n].child;
    value test = judge_value(j, condition);
    yes = branch_of(j, n, condition);
    if (test.level == TAINT_CONST && view_equal(test.text, VIEW("true")) && positive)
        return judge_value(j, yes);
    if (test.level == TAINT_CONST && view_equal(test.text, VIEW("false")) && positive) {
        for (int32_t c = j->tree.list[n].child; c >= 0; c = j->tree.list[c].next)
            if (j->tree.list[c].field == FIELD_ALTERNATIVE) judge_value(j, c);
        return VALUE_NONE;
    }
    if (!take_state(j, &before)) return judge_value(j, yes);
    mark_checked(j, condition, positive);
    judge_value(j, yes);
    bool left = leaves(j, yes);
    if (!left && !take_state(j, &sum)) return VALUE_NONE;
    if (!other_branches(j, n, &before, condition, &sum)) {
        restore(j, &before);
        mark_checked(j, condition, !positive);
        if (sum.reached) merge(j, &sum);
    } else if (sum.reached) restore(j, &sum);
    else restore(j, &before);
    j->saved.used = mark_used;
    return VALUE_NONE;
}

/* What was checked holds where it is chosen: ALLOWED.includes(x) ? x : "name". */
value judge_choice(judge *j, int32_t condition, int32_t yes, int32_t no)
{
    state before;
    size_t mark_used = j->saved.used;
    bool saved = take_state(j, &before);
    if (saved) mark_checked(j, condition, true);
    value a = judge_value(j, yes);
    if (saved) {
        restore(j, &before);
        mark_checked(j, condition, false);
    }
    value b = judge_value(j, no);
    if (saved) restore(j, &before);
    j->saved.used = mark_used;
    return value_union(a, b);
}

value judge_optional(judge *j, int32_t n)
{
    state before;
    size_t mark_used = j->saved.used;
    bool saved = take_state(j, &before);
    int32_t condition = tree_field(&j->tree, n, FIELD_CONDITION);
    if (condition >= 0) mark_checked(j, condition, true);
    judge_children(j, n);
    if (saved) merge(j, &before);
    j->saved.used = mark_used;
    return VALUE_NONE;
}

/* The branch for a constant character; -1 when none says so. */
static int32_t case_of(const judge *j, int32_t n, char subject)
{
    uint32_t end = j->tree.list[n].end;
    for (int32_t i = n + 1; i < j->tree.n && j->tree.list[i].begin < end; i++) {
        if (j->tree.list[i].role != NODE_CASE) continue;
        view text = tree_text(&j->tree, i);
        const char *stop = memchr(text.ptr, ':', text.len);
        size_t len = stop ? (size_t)(stop - text.ptr) : 0;
        for (size_t k = 0; k + 2 < len; k++)
            if (strchr("'\"", text.ptr[k]) && text.ptr[k + 1] == subject &&
                text.ptr[k + 2] == text.ptr[k])
                return i;
    }
    return -1;
}

/* case 'C': case 'D': ... */
static bool is_empty_case(const judge *j, int32_t n)
{
    int32_t first = j->tree.list[n].child, next = j->tree.list[n].next;
    return (first < 0 || j->tree.list[first].next < 0) && next >= 0 &&
           j->tree.list[next].role == NODE_CASE;
}

value judge_switch(judge *j, int32_t n)
{
    int32_t subject = tree_field(&j->tree, n, FIELD_VALUE);
    if (subject < 0) subject = tree_field(&j->tree, n, FIELD_CONDITION);
    value v = subject >= 0 ? judge_value(j, subject) : VALUE_NONE;
    if (v.level == TAINT_CONST && v.text.len == 1) {
        int32_t only = case_of(j, n, v.text.ptr[0]);
        while (only >= 0 && is_empty_case(j, only)) only = j->tree.list[only].next;
        if (only >= 0) return judge_children(j, only);
    }
    for (int32_t c = j->tree.list[n].child; c >= 0; c = j->tree.list[c].next)
        if (c != subject) judge_value(j, c);
    return VALUE_NONE;
}

static bool is_number_range(const judge *j, int32_t n)
{
    view text = tree_text(&j->tree, n);
    return view_starts(text, VIEW("range(")) || view_starts(text, VIEW("len("));
}

static void bind_each(judge *j, int32_t target, int32_t from)
{
    value v = judge_value(j, from);
    if (v.flags & VALUE_LIST) v.text = empty;
    v.flags &= VALUE_FORMAT;
    if (is_number_range(j, from)) v = VALUE_NONE;
    judge_assign_to(j, target, v, -1);
}

value judge_foreach(judge *j, int32_t n)
{
    static const node_field lefts[] = {FIELD_LEFT, FIELD_NAME, FIELD_DECLARATOR, FIELD_PATTERN};
    const node *at = &j->tree.list[n];
    int32_t left = -1, right = tree_field(&j->tree, n, FIELD_RIGHT);
    if (right < 0) right = tree_field(&j->tree, n, FIELD_VALUE);
    for (size_t i = 0; i < ARRAY_LEN(lefts) && left < 0; i++)
        left = tree_field(&j->tree, n, lefts[i]);
    if (at->role == NODE_COMPREHENSION) { /* its clauses stand behind its body */
        int32_t body = at->child;
        for (int32_t c = body < 0 ? -1 : j->tree.list[body].next; c >= 0;
             c = j->tree.list[c].next) {
            judge_value(j, c);
            if (view_starts(tree_text(&j->tree, c), VIEW("if "))) mark_checked(j, c, true);
        }
        value v = judge_value(j, body);
        bool pair = body >= 0 && j->tree.list[body].role == NODE_PAIR;
        if (pair) v = judge_value(j, j->tree.list[body].child); /* who goes over it has its keys */
        v.flags = (v.flags & VALUE_FORMAT) | VALUE_LIST;
        return v;
    }
    if (right < 0 && j->tree.language == GUARD_PHP && at->child >= 0) {
        right = at->child; /* foreach ($list as $key => $item) */
        left = j->tree.list[right].next;
        if (left >= 0 && j->tree.list[left].role == NODE_PAIR) {
            bind_each(j, j->tree.list[left].child, right);
            left = j->tree.list[j->tree.list[left].child].next;
        }
    }
    if (left >= 0 && right >= 0) bind_each(j, left, right);
    for (int32_t c = at->child; c >= 0; c = j->tree.list[c].next)
        if (c != left && c != right) judge_value(j, c);
    return VALUE_NONE;
}

/* ---- functions ---- */

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
    for (size_t i = 0; i < ARRAY_LEN(types); i++)
        if (view_equal(type, view_of(types[i]))) return true;
    return false;
}

static void bind_parameter(judge *j, int32_t n, taint level)
{
    bool declared = j->tree.list[n].role == NODE_PARAM;
    int32_t name = declared && tree_field(&j->tree, n, FIELD_NAME) >= 0
                       ? tree_field(&j->tree, n, FIELD_NAME) : name_below(j, n);
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
        tell_rules(j, name, judge_value(j, given), given);
    if (view_equal(v.raw, VIEW("self")) || view_equal(v.raw, VIEW("cls"))) v.level = TAINT_UNKNOWN;
    /* A new one, not that of the function around. */
    if (j->n_vars < GUARD_VARIABLES_MAX)
        j->vars[j->n_vars++] = (variable){v.raw, judge_named(j, v)};
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
    uint32_t place = 0;
    for (int32_t c = j->tree.list[parameters].child; c >= 0; c = j->tree.list[c].next) {
        if (j->tree.list[c].role == NODE_SKIP) continue;
        bind_parameter(j, c, level);
        /* list.map((item, i) => ...): i is a number */
        if (callback && place++ == 1 && is_map(j, parent) && j->n_vars)
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
    v.flags &= (uint8_t)~VALUE_STRING;
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

/* Is it written to its end? The closers that the window was given stand behind what was read. */
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
    uint32_t n_vars = j->n_vars, n_hits = j->n_hits, n_deferred = j->n_deferred, place = 0;
    value before = j->returned;
    state outside;
    size_t saved = j->saved.used;
    int32_t parameters = parameters_of(j, f);
    if (!take_state(j, &outside)) return false;
    j->inlined++;
    j->returned = VALUE_NONE;
    for (int32_t c = parameters < 0 ? -1 : j->tree.list[parameters].child; c >= 0;
         c = j->tree.list[c].next) {
        if (j->tree.list[c].role == NODE_SKIP) continue;
        bind_parameter(j, c, TAINT_PARAMETER);
        view text = j->n_vars > n_vars ? j->vars[j->n_vars - 1].name : empty;
        if (view_equal(text, VIEW("self")) || place >= u->n_args || !text.len) continue;
        j->vars[j->n_vars - 1].v = u->args[place++].v;
    }
    judge_value(j, tree_field(&j->tree, f, FIELD_BODY));
    *out = j->returned;
    j->returned = before;
    j->inlined--;
    restore(j, &outside);
    j->saved.used = saved;
    j->n_hits = n_hits;
    j->n_deferred = n_deferred;
    return true;
}

/* ---- imports ---- */

static view module_name(judge *j, view text)
{
    while (text.len && strchr("./@'\"", text.ptr[0])) text.ptr++, text.len--;
    if (view_starts(text, VIEW("node:"))) text.ptr += 5, text.len -= 5;
    while (text.len && strchr("'\"", text.ptr[text.len - 1])) text.len--;
    char *out = arena_take(&j->names, text.len + 1, 1);
    if (!out) return text;
    size_t from = 0;
    if (j->tree.language == GUARD_GO)
        for (size_t i = 0; i < text.len; i++)
            if (text.ptr[i] == '/') from = i + 1;
    for (size_t i = from; i < text.len; i++) out[i - from] = text.ptr[i] == '/' ? '.' : text.ptr[i];
    return (view){out, text.len - from};
}

static void import_as(judge *j, view name, view path)
{
    bool same = path.len >= name.len &&
                !memcmp(path.ptr + path.len - name.len, name.ptr, name.len);
    if (!same && !j->alias) j->alias = match_names_function(j, path);
    if (name.len) judge_set(j, name, (value){.name = path, .clean = ~0u});
}

static void import_below(judge *j, int32_t n, view module)
{
    for (int32_t c = j->tree.list[n].child; c >= 0; c = j->tree.list[c].next) {
        const node *at = &j->tree.list[c];
        int32_t name = tree_field(&j->tree, c, FIELD_NAME);
        int32_t alias = tree_field(&j->tree, c, FIELD_ALIAS);
        view text = tree_text(&j->tree, c);
        if (at->field == FIELD_MODULE || at->role == NODE_SKIP) continue;
        if (name >= 0) {
            view path = judge_join(j, module, tree_text(&j->tree, name));
            import_as(j, tree_text(&j->tree, alias >= 0 ? alias : name), path);
        } else if (at->role == NODE_NAME || !memchr(text.ptr, '{', text.len)) {
            if (at->role == NODE_IMPORT && at->child >= 0 && at->child + 1 < j->tree.n &&
                view_starts(text, VIEW("*"))) {
                import_as(j, tree_text(&j->tree, at->child), module);
                continue;
            }
            const char *dot = memchr(text.ptr, '.', text.len);
            view head = {text.ptr, dot ? (size_t)(dot - text.ptr) : text.len};
            bool from = module.len && j->tree.language == GUARD_PYTHON;
            if (at->child >= 0 && at->role != NODE_NAME && !from && at->role == NODE_IMPORT)
                import_below(j, c, module);
            else if (from) import_as(j, text, judge_join(j, module, text));
            else import_as(j, head, module.len ? module : head);
        } else import_below(j, c, module);
    }
}

void judge_import(judge *j, int32_t n)
{
    int32_t module = tree_field(&j->tree, n, FIELD_MODULE);
    int32_t name = tree_field(&j->tree, n, FIELD_NAME);
    view path = module < 0 ? empty : module_name(j, tree_text(&j->tree, module));
    if (j->tree.language == GUARD_GO) {
        import_as(j, name >= 0 ? tree_text(&j->tree, name) : path, path);
        return;
    }
    import_below(j, n, path);
}
