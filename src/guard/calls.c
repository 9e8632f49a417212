/* calls.c - calls: callee, arguments, their effect on values, and the result. */
#include "base/text.h"
#include "guard/judge.h"

#include <ctype.h>

static const view empty = {NULL, 0};

static view unquoted(const judge *j, int32_t n)
{
    view text = judge_string(j, n);
    while (text.len && strchr(":[ ", text.ptr[0])) text.ptr++, text.len--;
    while (text.len && strchr(":] ", text.ptr[text.len - 1])) text.len--;
    if (text.len > 1 && strchr("'\"", text.ptr[0])) text.ptr++, text.len -= 2;
    return text;
}

value judge_pair(judge *j, int32_t n, view *key_out)
{
    int32_t key = tree_field(&j->tree, n, FIELD_KEY), v = tree_field(&j->tree, n, FIELD_VALUE);
    if (key < 0) key = tree_field(&j->tree, n, FIELD_NAME);
    if (key < 0) key = j->tree.list[n].child;
    if (key < 0) return VALUE_NONE;
    if (v < 0)
        for (int32_t c = j->tree.list[key].next; c >= 0; c = j->tree.list[c].next) v = c;
    if (v < 0) return judge_value(j, key); /* PHP's arrays without keys */
    use u = {.node = n, .receiver_node = -1, .n_args = 1};
    view name = unquoted(j, key);
    u.callee.name = u.callee.raw = name;
    u.args[0] = (argument){.v = judge_value(j, v), .node = v};
    match_use(j, RULE_PAIR, &u);
    if (key_out) *key_out = name;
    return u.args[0].v;
}

static void add_argument(judge *j, use *u, int32_t n)
{
    node_role role = j->tree.list[n].role;
    if (role == NODE_SKIP) return;
    argument a = {.node = n};
    if (role == NODE_PAIR) {
        a.v = judge_pair(j, n, &a.name);
        int32_t v = tree_field(&j->tree, n, FIELD_VALUE);
        if (v >= 0) a.node = v;
    } else if (role == NODE_FUNCTION) {
        value before = j->block;
        j->block = u->receiver;
        a.v = judge_value(j, n);
        j->block = before;
    } else a.v = judge_value(j, n);
    if (u->n_args < CALL_ARGS_MAX) u->args[u->n_args++] = a;
}

static void add_arguments(judge *j, use *u, int32_t n)
{
    for (int32_t c = n < 0 ? -1 : j->tree.list[n].child; c >= 0; c = j->tree.list[c].next)
        add_argument(j, u, c);
}

/* The name of a type's constructor: java.io.File<T> is File, *http.Request http.Request. */
static view type_name(view text)
{
    const char *end = text.len ? memchr(text.ptr, '<', text.len) : NULL;
    if (end) text.len = (size_t)(end - text.ptr);
    for (size_t i = text.len; i--;)
        if (strchr(".:\\ ", text.ptr[i]))
            return (view){text.ptr + i + 1, text.len - i - 1};
    return text;
}

static void read_receiver(judge *j, use *u, int32_t object, int32_t name)
{
    view method = tree_text(&j->tree, name);
    if (j->tree.language == GUARD_CPP) method = judge_plain_name(j, method); /* a::b::c() */
    u->receiver_node = object;
    if (object >= 0) u->receiver = judge_value(j, object);
    u->callee.name = u->callee.raw = method;
    if (object >= 0) {
        u->callee.name =
            judge_join(j, u->receiver.name.len ? u->receiver.name : VIEW("?"), method);
        u->callee.raw = judge_join(j, u->receiver.raw.len ? u->receiver.raw : VIEW("?"), method);
    } else {
        const variable *var = judge_find(j, method);
        if (var && var->v.name.len) u->callee.name = var->v.name;
    }
}

static void read_new(judge *j, use *u, int32_t n)
{
    int32_t type = tree_field(&j->tree, n, FIELD_TYPE);
    if (type < 0) type = tree_field(&j->tree, n, FIELD_CALLEE);
    if (type < 0) type = j->tree.list[n].child;
    view name = type < 0 ? empty : type_name(tree_text(&j->tree, type));
    u->callee.name = judge_join(j, VIEW("new"), name);
    u->callee.raw = u->callee.name;
    u->receiver = VALUE_NONE;
}

/* Callee and receiver; arguments too where the grammar has them as plain children. */
static void read_callee(judge *j, use *u, int32_t n)
{
    const node *at = &j->tree.list[n];
    int32_t callee = tree_field(&j->tree, n, FIELD_CALLEE);
    int32_t object = tree_field(&j->tree, n, FIELD_OBJECT);
    int32_t name = tree_field(&j->tree, n, FIELD_NAME);
    u->receiver = VALUE_NONE;
    if (at->role == NODE_NEW) {
        read_new(j, u, n);
    } else if (at->role == NODE_ECHO || at->role == NODE_INCLUDE || at->role == NODE_SHELL) {
        u->callee.name = at->role == NODE_ECHO      ? VIEW("echo")
                         : at->role == NODE_INCLUDE ? VIEW("include")
                                                    : VIEW("backticks");
        u->callee.raw = u->callee.name;
    } else if (callee >= 0 && j->tree.list[callee].role == NODE_MEMBER && object < 0) {
        int32_t inner = tree_field(&j->tree, callee, FIELD_OBJECT);
        int32_t method = tree_field(&j->tree, callee, FIELD_NAME);
        if (method >= 0) read_receiver(j, u, inner, method);
    } else if (callee >= 0 && object < 0 && j->tree.list[callee].role != NODE_NAME) {
        u->callee = judge_value(j, callee); /* (f())(x) */
        if (j->tree.list[callee].role == NODE_CALL)
            u->callee.name = u->callee.raw = judge_join(j, u->callee.name, VIEW("()"));
    } else if (callee >= 0) {
        read_receiver(j, u, object, callee);
    } else if (name >= 0) {
        read_receiver(j, u, object, name);
    }
    if (view_starts(u->callee.name, VIEW("\\"))) {
        u->callee.name.ptr++;
        u->callee.name.len--;
    }
}

/* ---- what calls do ---- */

static bool called(const use *u, const pattern_list *list)
{
    return patterns_match(list, u->callee.name) || patterns_match(list, u->callee.raw);
}

/* A name that promises to make its argument harmless. */
static bool sounds_clean(view name)
{
    static const char *const words[] = {"sanitiz", "sanitis", "escape", "validat", "purify",
                                        "whitelist", "allowlist", "encodeforhtml", "htmlenc",
                                        "urlenc", "quote", "hash", "strip_tags", "isvalid",
                                        "clean", "safe"};
    char low[48];
    size_t n = 0, at = name.len;
    while (at && name.ptr[at - 1] != '.') at--;
    for (; at < name.len && n + 1 < sizeof low; at++) low[n++] = (char)tolower(name.ptr[at]);
    low[n] = 0;
    if (strstr(low, "unescape") || strstr(low, "unquote") || strstr(low, "unsafe") ||
        strstr(low, "html_safe") || strstr(low, "htmlsafe") || strstr(low, "mark_safe") ||
        strstr(low, "safestring") || strstr(low, "asafe"))
        return false;
    for (size_t i = 0; i < ARRAY_LEN(words); i++)
        if (strstr(low, words[i])) return true;
    return false;
}

static uint32_t cleaned(judge *j, const use *u)
{
    uint32_t clean = 0;
    for (int w = 0; w < WEAK_COUNT; w++)
        if (called(u, &j->facts->cleaners_of[w])) clean |= 1u << w;
    return clean;
}

static int32_t base_name(const judge *j, int32_t n)
{
    for (int i = 0; n >= 0 && i < 32; i++) {
        node_role role = j->tree.list[n].role;
        if (role == NODE_NAME || role == NODE_MEMBER) return n;
        int32_t inner = tree_field(&j->tree, n, FIELD_OBJECT);
        if (inner < 0 && role == NODE_CALL) {
            int32_t callee = tree_field(&j->tree, n, FIELD_CALLEE);
            inner = callee < 0 ? -1 : tree_field(&j->tree, callee, FIELD_OBJECT);
        }
        n = inner >= 0 ? inner : role == NODE_CALL ? -1 : j->tree.list[n].child;
    }
    return -1;
}

/* Values that a format prints as numbers bring nothing. */
static value all_arguments(judge *j, const use *u, uint32_t from)
{
    value v = VALUE_NONE;
    uint32_t format = UINT32_MAX;
    for (uint32_t i = from; i < u->n_args; i++) {
        bool number = i > format && judge_prints_number(u->args[format].v.text, i - format - 1);
        if (!number) v = i == from ? u->args[i].v : judge_plus(j, v, u->args[i].v);
        bool literal = u->args[i].v.flags & VALUE_STRING && u->args[i].v.level == TAINT_CONST;
        if (literal && format == UINT32_MAX) format = i;
    }
    return v;
}

/* The name under which the value of a map's or a section's entry is kept: base.key,
 * base.section.key. */
static view entry_name(judge *j, const use *u, uint32_t n_keys)
{
    int32_t base = base_name(j, u->receiver_node);
    if (base < 0 || !n_keys) return empty;
    view name = tree_text(&j->tree, base);
    for (uint32_t i = 0; i < n_keys; i++) {
        if (!(u->args[i].v.flags & VALUE_STRING) || u->args[i].v.level != TAINT_CONST) return empty;
        name = judge_join(j, name, u->args[i].v.text);
    }
    return name;
}

static view method_of(const use *u)
{
    const char *dot = u->callee.raw.len ? memrchr(u->callee.raw.ptr, '.', u->callee.raw.len) : NULL;
    return dot ? (view){dot + 1, u->callee.raw.len - (size_t)(dot + 1 - u->callee.raw.ptr)} : empty;
}

static bool puts_entry(judge *j, const use *u)
{
    view method = method_of(u);
    if (u->n_args < 2 || !(view_equal(method, VIEW("put")) || view_equal(method, VIEW("set"))))
        return false;
    view name = entry_name(j, u, u->n_args - 1);
    if (name.len) judge_set(j, name, u->args[u->n_args - 1].v);
    return name.len != 0;
}

static bool gets_entry(judge *j, const use *u, value *out)
{
    view method = method_of(u);
    if (u->n_args == 1 && view_equal(method, VIEW("charAt")))
        return judge_char_at(u->receiver, u->args[0].v, out);
    if (!u->n_args || !view_equal(method, VIEW("get"))) return false;
    int32_t base = base_name(j, u->receiver_node);
    if (base >= 0 && judge_list_get(j, tree_text(&j->tree, base), u->args[0].v, out)) return true;
    view name = entry_name(j, u, u->n_args);
    const variable *var = name.len ? judge_find(j, name) : NULL;
    if (var) *out = var->v;
    return var != NULL;
}

static void mutate(judge *j, const use *u)
{
    int32_t base = base_name(j, u->receiver_node);
    if (base < 0 || !u->n_args || puts_entry(j, u)) return;
    view method = method_of(u);
    if (u->n_args == 1 && (view_equal(method, VIEW("add")) || view_equal(method, VIEW("append"))))
        judge_list_add(j, tree_text(&j->tree, base), u->args[0].v);
    value v = judge_plus(j, u->receiver, all_arguments(j, u, 0));
    if (v.level > TAINT_CONST) v.flags |= VALUE_FORMAT;
    if (!v.text.len && u->args[0].v.flags & (VALUE_STRING | VALUE_FORMAT))
        v.text = u->args[0].v.text;
    if (v.level == TAINT_CONST) v.flags |= VALUE_STRING;
    v.name = u->receiver.name;
    judge_set(j, tree_text(&j->tree, base), v);
}

static void flow_into(judge *j, const use *u, const rule_flow *flow, bool fills)
{
    value v = {.level = TAINT_SOURCE};
    for (uint32_t i = 0; i < u->n_args; i++) {
        if (flow->to >= 0 && (uint32_t)flow->to != i) continue;
        int32_t base = base_name(j, u->args[i].node);
        if (base < 0) continue;
        if (!fills) {
            v = i ? VALUE_NONE : all_arguments(j, u, 1);
            for (uint32_t k = 0; i && k < u->n_args; k++)
                if (k != i) v = judge_plus(j, v, u->args[k].v);
            /* A variable that is appended to, or written in the middle of, keeps its value. */
            bool whole = !view_has(judge_last(u->callee.raw), "cat") && u->args[i].node == base;
            if (!whole) v = judge_plus(j, judge_value(j, base), v);
            bool alone = whole && !(v.flags & (VALUE_FORMAT | VALUE_LIST));
            if (v.level > TAINT_CONST) v.flags |= VALUE_FORMAT | (alone ? VALUE_LEADS : 0);
        }
        judge_set(j, tree_text(&j->tree, base), v);
    }
}

static void flows(judge *j, const use *u)
{
    for (uint32_t i = 0; i < j->facts->n_fills; i++)
        if (called(u, &j->facts->fills[i].names)) flow_into(j, u, &j->facts->fills[i], true);
    for (uint32_t i = 0; i < j->facts->n_copies; i++)
        if (called(u, &j->facts->copies[i].names)) flow_into(j, u, &j->facts->copies[i], false);
    if (called(u, &j->facts->mutators)) mutate(j, u);
    view method = method_of(u);
    int32_t base = base_name(j, u->receiver_node);
    if (base >= 0 && u->n_args == 1 &&
        (view_equal(method, VIEW("remove")) || view_equal(method, VIEW("pop"))))
        judge_list_remove(j, tree_text(&j->tree, base), u->args[0].v);
}

static value format_result(judge *j, const use *u)
{
    if (!u->n_args && u->receiver_node >= 0) return u->receiver; /* s.c_str() */
    value v = u->receiver_node >= 0 && u->receiver.flags & (VALUE_STRING | VALUE_FORMAT)
                  ? judge_plus(j, u->receiver, all_arguments(j, u, 0))
                  : all_arguments(j, u, 0);
    /* list.join(",") */
    if (u->receiver_node >= 0 && u->receiver.level >= TAINT_PARAMETER)
        v = value_union(v, u->receiver);
    for (uint32_t i = 0; i < u->n_args && i < 2; i++) {
        view text = u->args[i].v.text;
        if (u->args[i].v.flags & VALUE_STRING && judge_prints_numbers(text)) return VALUE_NONE;
        if (!v.text.len && u->args[i].v.flags & VALUE_STRING) v.text = text;
    }
    const char *hole = v.text.ptr ? memchr(v.text.ptr, '%', v.text.len) : NULL;
    if (!hole && v.text.ptr) hole = memchr(v.text.ptr, '{', v.text.len);
    if (v.level > TAINT_CONST) {
        v.flags = (uint16_t)((v.flags & ~VALUE_NAMES) | VALUE_FORMAT);
        if (judge_formats_names(v.text)) v.flags |= VALUE_NAMES;
        if (hole) v.text.len = (size_t)(hole - v.text.ptr);
    }
    return v;
}

/* preg_replace("/[^a-z]/", "", $x): the result has only characters of a class that the author
 * named. */
static bool keeps_a_class(const use *u)
{
    for (uint32_t i = 0; i < u->n_args && i < 2; i++) {
        view text = u->args[i].v.text;
        if (u->n_args >= 2 && u->args[i].v.level == TAINT_CONST && text.len > 3 &&
            memmem(text.ptr, text.len, "[^", 2) && (text.ptr[0] == '[' || text.ptr[1] == '['))
            return true;
    }
    return false;
}

/* Text functions that add nothing: constants and numbers stay constants. */
static bool keeps_constants(view name)
{
    static const char *const names[] = {
        "repeat", "Repeat", "str_repeat", "fill", "array_fill", "nCopies", "join", "Join",
        "implode", "TrimSuffix", "TrimPrefix", "TrimRight", "TrimLeft", "Trim", "trim", "rtrim",
        "ltrim", "strip", "rstrip", "lstrip", "chomp", "chop", "substr", "substring", "slice",
        "lower", "upper", "toLowerCase", "toUpperCase", "String", "str"};
    return view_is_one_of(name, names, ARRAY_LEN(names));
}

/* list.map(f): the result of f for each item, whatever the list. */
static bool maps(judge *j, const use *u, value *out)
{
    if (u->n_args != 1 || u->receiver_node < 0) return false;
    if (j->tree.list[u->args[0].node].role != NODE_FUNCTION) return false;
    if (!view_equal(judge_last(u->callee.raw), VIEW("map"))) return false;
    int32_t body = tree_field(&j->tree, u->args[0].node, FIELD_BODY);
    if (body < 0 || j->tree.list[body].role == NODE_BLOCK) return false;
    if (u->args[0].v.level != TAINT_CONST) return false;
    *out = (value){.clean = ~0u, .flags = VALUE_LIST, .text = VIEW("["), .name = u->callee.name};
    return true;
}

/* promisify(f) is f. */
static bool is_wrapped(judge *j, const use *u, value *out)
{
    static const char *const names[] = {"promisify", "pify"};
    if (!u->n_args || !u->args[0].v.name.len) return false;
    if (!view_is_one_of(judge_last(u->callee.raw), names, ARRAY_LEN(names))) return false;
    *out = u->args[0].v;
    if (!j->alias) j->alias = match_names_function(j, out->name);
    return true;
}

static bool begins_or_ends(const char *name, size_t n, const char *word)
{
    size_t len = strlen(word);
    return n >= len && (!memcmp(name, word, len) || !memcmp(name + n - len, word, len));
}

/* Functions that return their argument. */
static bool passes_on(view name)
{
    static const char *const words[] = {
        "decode", "unescape", "unquote", "parse", "string", "str", "format", "concat", "join",
        "path", "trim", "lower", "upper", "replace", "sub", "json", "param", "parameter", "input",
        "value", "file", "from", "text", "bytes", "buffer", "case", "split", "slash", "resolve",
        "clean", "normal", "await", "promise", "object", "assign", "merge", "array", "list",
        "map", "filter", "first", "last", "pop", "shift", "each", "entries", "base64", "implode",
        "nl2br", "printf", "dir", "abs", "default", "to_", "as_", "component"};
    char low[48];
    size_t n = 0;
    for (; n < name.len && n + 1 < sizeof low; n++) low[n] = (char)tolower(name.ptr[n]);
    low[n] = 0;
    if (!strcmp(low, "get") || !strcmp(low, "fetch") || !strcmp(low, "read")) return true;
    bool address = n > 3 && (!strcmp(low + n - 3, "url") || !strcmp(low + n - 3, "uri"));
    for (size_t i = 0; i < ARRAY_LEN(words) && !address; i++) /* get_item_url() makes one */
        if (begins_or_ends(low, n, words[i])) return true;
    return false;
}

/* render(text): the result is the function's, not its argument.  A type made from a value contains
 * it. */
static bool makes_its_own(const judge *j, const use *u, uint8_t level)
{
    view name = judge_last(u->callee.raw);
    bool capital = name.len && isupper((unsigned char)name.ptr[0]) &&
                   j->tree.language != GUARD_GO && j->tree.language != GUARD_PHP;
    bool type = capital || j->tree.list[u->node].role == NODE_NEW;
    return !type && name.len && u->receiver.level < level && !passes_on(name);
}

static value result_of(judge *j, const use *u)
{
    value v = VALUE_NONE;
    if (gets_entry(j, u, &v) || maps(j, u, &v)) return v;
    if (judge_makes_table(u, &v) || judge_looks_up(u, &v) || is_wrapped(j, u, &v)) return v;
    bool loose = match_loose(j, u->node);
    /* strings.Repeat("?,", n): a module is not a value. */
    bool module = u->receiver_node >= 0 && view_equal(u->receiver.raw, VIEW("strings"));
    if (module && keeps_constants(judge_last(u->callee.raw)) && u->n_args &&
        all_arguments(j, u, 0).level == TAINT_CONST)
        return (value){.name = u->callee.name, .raw = u->callee.raw, .clean = ~0u};
    if (!loose && called(u, &j->facts->cleaners))
        return (value){.name = u->callee.name, .raw = u->callee.raw, .clean = ~0u};
    if (called(u, &j->facts->formatters)) v = format_result(j, u);
    else {
        bool literal = u->receiver_node >= 0 && u->receiver.level == TAINT_CONST &&
                       u->receiver.flags & (VALUE_STRING | VALUE_LIST);
        for (uint32_t i = 0; i < u->n_args && !(u->receiver.flags & VALUE_LIST && literal); i++)
            v = value_union(v, u->args[i].v);
        v = value_union(v, u->receiver);
        /* A list of values is one of them; what a function makes of them is a new value. */
        v.flags &= VALUE_FORMAT | VALUE_NAMES | VALUE_PENDING | VALUE_MADE | VALUE_FIELDS;
        if (makes_its_own(j, u, v.level)) v.flags |= VALUE_MADE;
        /* this.folder(), config.get("folder") */
        if (v.level == TAINT_UNKNOWN && u->receiver_node >= 0 &&
            all_arguments(j, u, 0).level == TAINT_CONST &&
            judge_is_set_before(tree_text(&j->tree, u->receiver_node)))
            v.flags |= VALUE_FIELDS;
        if (!(v.flags & VALUE_FORMAT)) v.text = empty;
        if (v.level == TAINT_CONST && !literal && !keeps_constants(judge_last(u->callee.raw))) {
            v.level = TAINT_UNKNOWN;
            v.clean = 0;
        }
    }
    /* A known cleaner cleans what it is known for, others what their name promises. */
    uint32_t clean = loose ? 0 : cleaned(j, u);
    v.clean |= clean;
    if (keeps_a_class(u)) v.clean = ~0u;
    if (v.level > TAINT_CONST && !clean && !loose && sounds_clean(u->callee.raw)) v.clean = ~0u;
    v.name = u->callee.name;
    v.raw = u->callee.raw;
    v = judge_named(j, v);
    v.clean |= clean; /* the environment is from outside, but not from an attacker */
    return v;
}

/* require("fs/promises") is fs.promises. */
static value required(judge *j, const use *u)
{
    view text = u->args[0].v.text;
    if (view_starts(text, VIEW("node:"))) text.ptr += 5, text.len -= 5;
    bool own = view_starts(text, VIEW("."));
    while (text.len && strchr("./@", text.ptr[0])) text.ptr++, text.len--;
    char *out = arena_take(&j->names, text.len + 1, 1);
    if (!out) return VALUE_NONE;
    for (size_t i = 0; i < text.len; i++) out[i] = text.ptr[i] == '/' ? '.' : text.ptr[i];
    view name = {out, text.len};
    return (value){.name = own ? judge_join(j, VIEW("own"), name) : name, .clean = ~0u};
}

/* Is the function one of the same file: f(x), this.f(x), new Helper().f(x)? */
static bool is_local(const judge *j, const use *u, view *method)
{
    view name = u->callee.raw;
    const char *dot = name.len ? memrchr(name.ptr, '.', name.len) : NULL;
    *method = dot ? (view){dot + 1, name.len - (size_t)(dot + 1 - name.ptr)} : name;
    if (!dot) return u->receiver_node < 0;
    if (u->receiver_node < 0) return false;
    view receiver = tree_text(&j->tree, u->receiver_node);
    return view_equal(receiver, VIEW("this")) || view_equal(receiver, VIEW("self")) ||
           j->tree.list[u->receiver_node].role == NODE_NEW;
}

static value called_here(judge *j, const use *u)
{
    view method;
    value v, inside;
    if (j->tree.list[u->node].role != NODE_CALL || !is_local(j, u, &method))
        return result_of(j, u);
    v = result_of(j, u);
    if (v.level == TAINT_CONST) return v;
    if (judge_inline(j, method, u, &inside)) {
        inside.name = v.name;
        inside.raw = v.raw;
        inside.clean |= v.clean;
        return inside;
    }
    /* Java's classes have their helpers below. */
    if (j->tree.language == GUARD_JAVA && !j->final && u->n_args) v.flags |= VALUE_PENDING;
    return v;
}

value judge_echo(judge *j, int32_t n)
{
    use u = {.node = n, .receiver_node = -1, .receiver = VALUE_NONE, .n_args = 1};
    u.callee.name = u.callee.raw = VIEW("echo");
    u.args[0] = (argument){.v = judge_value(j, n), .node = n};
    match_use(j, RULE_CALL, &u);
    return VALUE_NONE;
}

void judge_return(judge *j, int32_t n, value v)
{
    use u = {.node = n, .receiver_node = -1, .receiver = VALUE_NONE, .n_args = 1};
    if (!view_starts(tree_text(&j->tree, n), VIEW("return")) || j->tree.list[n].child < 0) return;
    u.callee.name = u.callee.raw = VIEW("return");
    u.args[0] = (argument){.v = v, .node = j->tree.list[n].child};
    match_use(j, RULE_CALL, &u);
}

value judge_construct(judge *j, int32_t n, view type, int32_t arguments)
{
    use u = {.node = n, .receiver_node = -1, .receiver = VALUE_NONE};
    type = type_name(type);
    u.callee.name = u.callee.raw = judge_join(j, VIEW("new"), type);
    add_arguments(j, &u, arguments);
    match_use(j, RULE_CALL, &u);
    value v = result_of(j, &u);
    v.name = v.raw = type;
    return v;
}

/* Tags of query builders: sql`... ${x}` binds x, so its text is not read as SQL. */
static bool binds_values(view tag)
{
    static const char *const tags[] = {"sql", "SQL", "$queryRaw", "$executeRaw"};
    return view_is_one_of(tag, tags, ARRAY_LEN(tags));
}

value judge_call(judge *j, int32_t n)
{
    use u = {.node = n, .receiver_node = -1, .receiver = VALUE_NONE};
    const node *at = &j->tree.list[n];
    read_callee(j, &u, n);
    int32_t arguments = tree_field(&j->tree, n, FIELD_ARGUMENTS);
    bool tagged = arguments >= 0 && j->tree.list[arguments].role == NODE_STRING;
    if (tagged && binds_values(judge_last(u.callee.raw))) {
        judge_children(j, arguments);
        return (value){.name = VIEW("sql"), .raw = VIEW("sql"), .clean = ~0u};
    }
    if (arguments >= 0 && j->tree.list[arguments].role != NODE_ARGS &&
        j->tree.list[arguments].role != NODE_LIST)
        add_argument(j, &u, arguments); /* JavaScript's tagged templates, f`x` */
    else if (arguments >= 0) add_arguments(j, &u, arguments);
    else if (at->role == NODE_NEW) {
        for (int32_t c = at->child; c >= 0; c = j->tree.list[c].next)
            if (j->tree.list[c].role == NODE_ARGS) add_arguments(j, &u, c);
    } else if (at->role == NODE_SHELL) {
        u.args[u.n_args++] = (argument){.v = judge_string_value(j, n), .node = n};
    } else if (at->role != NODE_CALL) add_arguments(j, &u, n);
    /* Ruby's blocks follow the arguments. */
    for (int32_t c = at->child; c >= 0; c = j->tree.list[c].next)
        if (j->tree.list[c].role == NODE_FUNCTION && c != arguments &&
            j->tree.list[c].field == FIELD_NONE) {
            value before = j->block;
            j->block = u.receiver;
            judge_value(j, c);
            j->block = before;
        }
    match_use(j, RULE_CALL, &u);
    flows(j, &u);
    if (view_equal(u.callee.name, VIEW("require")) && u.n_args == 1 &&
        u.args[0].v.flags & VALUE_STRING)
        return required(j, &u);
    value v = called_here(j, &u);
    if (at->role == NODE_NEW && v.name.len > 4) { /* "new.File": its methods are File's */
        v.name.ptr += 4;
        v.name.len -= 4;
        /* Any code may call the result of "new Function". */
        static const char *const functions[] = {"Function", "AsyncFunction", "GeneratorFunction"};
        if (view_is_one_of(v.name, functions, ARRAY_LEN(functions))) v.name = v.raw = empty;
    }
    return v;
}
