/* branches.c - conditions, choices and loops: what names hold in each branch, and after it. */
#include "base/text.h"
#include "guard/judge.h"

static const view empty = {NULL, 0};

bool judge_save(judge *j, judge_state *s)
{
    s->n = j->n_vars;
    s->reached = true;
    s->list = arena_take(&j->saved, (j->n_vars + 1) * sizeof *s->list, sizeof(void *));
    if (s->list && s->n) memcpy(s->list, j->vars, s->n * sizeof *s->list);
    return s->list != NULL;
}

void judge_restore(judge *j, const judge_state *s)
{
    if (s->n) memcpy(j->vars, s->list, s->n * sizeof *s->list);
    j->n_vars = s->n;
}

/* Merge what j holds with what s held: names keep their order, new ones come after. */
static void merge(judge *j, const judge_state *s)
{
    for (uint32_t i = 0; i < s->n; i++) {
        if (i < j->n_vars && view_equal(j->vars[i].name, s->list[i].name)) {
            view name = j->vars[i].v.name;
            j->vars[i].v = value_union(j->vars[i].v, s->list[i].v);
            if (name.len && j->vars[i].v.level != TAINT_SOURCE) j->vars[i].v.name = name;
        } else if (!judge_find(j, s->list[i].name)) judge_set(j, s->list[i].name, s->list[i].v);
    }
}

/* The value of "x ?? 'home'" and "(x)" is x. */
static int32_t checked_name(const judge *j, int32_t n)
{
    for (int i = 0; n >= 0 && i < 4; i++) {
        const node *at = &j->tree.list[n];
        bool either = at->role == NODE_BINARY && at->op == OP_OR;
        if (at->child < 0) break;
        const node *in = &j->tree.list[at->child];
        bool same = in->begin == at->begin && in->end == at->end;
        bool wraps = at->role == NODE_OTHER && (same || j->tree.text.ptr[at->begin] == '(');
        if (!either && !wraps) break;
        n = at->child;
    }
    return n;
}

static void mark(judge *j, int32_t n)
{
    n = checked_name(j, n);
    if (n < 0) return;
    node_role role = (node_role)j->tree.list[n].role;
    view text = tree_text(&j->tree, n);
    if (!judge_is_name(role) || text.len > 64) return;
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

/* LIST.contains(x) and the like prove something about x if true, and nothing if false; a test of
 * form (x.matches(...)) may be written either way. */
static bool is_list_test(view name)
{
    static const char *const names[] = {"contains", "includes", "in_array", "has", "containsKey",
                                        "include?", "member?", "key?", "has_key?", "in?",
                                        "array_key_exists", "array_search"};
    return view_is_one_of(name, names, ARRAY_LEN(names));
}

/* Does n hold if the condition does (inside), or if it does not? */
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
    if (!holds && is_list_test(last)) return;
    for (int32_t c = arguments < 0 ? -1 : j->tree.list[arguments].child; c >= 0;
         c = j->tree.list[c].next)
        mark(j, c);
}

/* A value that a condition compares with a known value is known. */
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

/* Does control leave the block? */
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

/* All children of n but the condition and the first branch; true if there is an else. */
static bool other_branches(judge *j, int32_t n, const judge_state *before, int32_t condition,
                           judge_state *sum)
{
    bool has_else = false;
    for (int32_t c = j->tree.list[n].child; c >= 0; c = j->tree.list[c].next) {
        const node *at = &j->tree.list[c];
        bool other = at->field == FIELD_ALTERNATIVE;
        if (!other) continue;
        judge_restore(j, before);
        mark_checked(j, condition, false);
        judge_value(j, c);
        has_else |= at->role != NODE_IF ||
                    tree_field(&j->tree, c, FIELD_ALTERNATIVE) >= 0;
        if (leaves(j, c)) continue;
        if (sum->reached) merge(j, sum);
        if (!judge_save(j, sum)) return true;
    }
    return has_else;
}

/* Go's "if _, ok := table[key]; ok": the key, or -1. */
static int32_t looked_up(const judge *j, int32_t first)
{
    uint32_t end = first < 0 ? 0 : j->tree.list[first].end;
    for (int32_t i = first; i >= 0 && i < j->tree.n && j->tree.list[i].begin < end; i++)
        if (j->tree.list[i].role == NODE_SUBSCRIPT) return tree_last(&j->tree, i);
    return -1;
}

static void mark_looked_up(judge *j, int32_t first, int32_t condition, bool inside)
{
    int32_t key = looked_up(j, first);
    view text = condition < 0 ? empty : tree_text(&j->tree, condition);
    if (key < 0 || !(view_equal(text, VIEW("ok")) || view_equal(text, VIEW("!ok")))) return;
    if ((text.ptr[0] != '!') == inside) mark(j, key);
}

value judge_if(judge *j, int32_t n)
{
    int32_t condition = tree_field(&j->tree, n, FIELD_CONDITION), yes;
    int32_t first = tree_field(&j->tree, n, FIELD_INITIALIZER);
    size_t mark_used = j->saved.used;
    bool positive = j->tree.list[n].role == NODE_IF;
    judge_state before, sum = {0};
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
    if (!judge_save(j, &before)) return judge_value(j, yes);
    mark_checked(j, condition, positive);
    mark_looked_up(j, first, condition, positive);
    judge_value(j, yes);
    bool left = leaves(j, yes);
    if (!left && !judge_save(j, &sum)) return VALUE_NONE;
    if (!other_branches(j, n, &before, condition, &sum)) {
        judge_restore(j, &before);
        mark_checked(j, condition, !positive);
        mark_looked_up(j, first, condition, !positive);
        if (sum.reached) merge(j, &sum);
    } else if (sum.reached) judge_restore(j, &sum);
    else judge_restore(j, &before);
    j->saved.used = mark_used;
    return VALUE_NONE;
}

/* A checked value holds in the chosen branch: ALLOWED.includes(x) ? x : "name". */
value judge_choice(judge *j, int32_t condition, int32_t yes, int32_t no)
{
    judge_state before;
    size_t mark_used = j->saved.used;
    bool saved = judge_save(j, &before);
    if (saved) mark_checked(j, condition, true);
    value a = judge_value(j, yes);
    if (saved) {
        judge_restore(j, &before);
        mark_checked(j, condition, false);
    }
    value b = judge_value(j, no);
    if (saved) judge_restore(j, &before);
    j->saved.used = mark_used;
    return value_union(a, b);
}

value judge_optional(judge *j, int32_t n)
{
    judge_state before;
    size_t mark_used = j->saved.used;
    bool saved = judge_save(j, &before);
    int32_t condition = tree_field(&j->tree, n, FIELD_CONDITION);
    if (condition >= 0) mark_checked(j, condition, true);
    judge_children(j, n);
    if (saved) merge(j, &before);
    j->saved.used = mark_used;
    return VALUE_NONE;
}

/* The branch for a constant character; -1: there is none. */
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

/* for x in list: if x not in ALLOWED: return.  The rest of the list was checked. */
static void mark_list(judge *j, int32_t left, int32_t right)
{
    while (left >= 0 && !judge_is_name((node_role)j->tree.list[left].role))
        left = tree_last(&j->tree, left); /* Go's index, item */
    const variable *item = left < 0 ? NULL : judge_find(j, tree_text(&j->tree, left));
    if (item && item->v.level > TAINT_CONST && item->v.clean == ~0u) mark(j, right);
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
    v.flags &= VALUE_FORMAT | VALUE_MADE | VALUE_FIELDS;
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
    if (at->role == NODE_COMPREHENSION) { /* its clauses come after its body */
        int32_t body = at->child;
        for (int32_t c = body < 0 ? -1 : j->tree.list[body].next; c >= 0;
             c = j->tree.list[c].next) {
            judge_value(j, c);
            if (view_starts(tree_text(&j->tree, c), VIEW("if "))) mark_checked(j, c, true);
        }
        value v = judge_value(j, body);
        bool pair = body >= 0 && j->tree.list[body].role == NODE_PAIR;
        if (pair) v = judge_value(j, j->tree.list[body].child); /* a loop over it has its keys */
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
    for (int32_t c = at->child; c >= 0 && right < 0; c = j->tree.list[c].next)
        if (j->tree.list[c].role == NODE_FOREACH) { /* Go's range clause */
            left = tree_field(&j->tree, c, FIELD_LEFT);
            right = tree_field(&j->tree, c, FIELD_RIGHT);
        }
    if (left >= 0 && right >= 0) mark_list(j, left, right);
    return VALUE_NONE;
}
