/* evaluate.c - the value of an expression: constant, unknown, from outside. */
#include "base/text.h"
#include "guard/judge.h"

#include <ctype.h>

static const view empty = {NULL, 0};

/* Are its values only where SQL has names? */
static bool has_names_alone(value v)
{
    return v.flags & VALUE_FORMAT ? v.flags & VALUE_NAMES : v.level == TAINT_CONST;
}

enum { ORIGIN_FLAGS = VALUE_LEADS | VALUE_FIELDS | VALUE_MADE | VALUE_AFTER_HOST,
       WORST_FLAGS = VALUE_MADE | VALUE_AFTER_HOST };

/* Combine the flags of both, if both have any; some flags are those of the worse value alone. */
static uint16_t shared_origin(value a, value b)
{
    uint16_t of_a = a.level == TAINT_CONST ? ORIGIN_FLAGS : a.flags;
    uint16_t of_b = b.level == TAINT_CONST ? ORIGIN_FLAGS : b.flags;
    if (a.level > b.level) of_b |= WORST_FLAGS;
    if (b.level > a.level) of_a |= WORST_FLAGS;
    return of_a & of_b;
}

value value_union(value a, value b)
{
    value v = a.level >= b.level ? a : b;
    uint32_t clean_a = a.level == TAINT_CONST ? ~0u : a.clean;
    uint32_t clean_b = b.level == TAINT_CONST ? ~0u : b.clean;
    /* A value less from outside does not spoil a cleaned one. */
    if (a.level > b.level) clean_b = ~0u;
    if (b.level > a.level) clean_a = ~0u;
    v.clean = clean_a & clean_b;
    v.flags = a.flags | b.flags;
    if (!has_names_alone(a) || !has_names_alone(b)) v.flags &= (uint16_t)~VALUE_NAMES;
    v.flags &= (uint16_t)~(ORIGIN_FLAGS & ~shared_origin(a, b));
    if (v.level != TAINT_CONST) v.flags &= (uint16_t)~VALUE_STRING;
    if (!v.text.len || !(v.flags & (VALUE_STRING | VALUE_FORMAT))) v.text = empty;
    return v;
}

/* a.b; either may be empty.  Without memory the name is unknown, which is safe for rules. */
view judge_join(judge *j, view a, view b)
{
    if (!a.len) return b;
    if (!b.len) return a;
    if (a.len + b.len > 160) return b;
    char *out = arena_take(&j->names, a.len + b.len + 1, 1);
    if (!out) return empty;
    memcpy(out, a.ptr, a.len);
    out[a.len] = '.';
    memcpy(out + a.len + 1, b.ptr, b.len);
    return (view){out, a.len + b.len + 1};
}

variable *judge_find(judge *j, view name)
{
    for (uint32_t i = j->n_vars; i--;)
        if (view_equal(j->vars[i].name, name)) return &j->vars[i];
    return NULL;
}

void judge_set(judge *j, view name, value v)
{
    variable *old = judge_find(j, name);
    if (!name.len) return;
    if (old) old->v = v;
    else if (j->n_vars < GUARD_VARIABLES_MAX) j->vars[j->n_vars++] = (variable){name, v};
}

value judge_named(judge *j, value v)
{
    if (v.level == TAINT_SOURCE) return v;
    if (!patterns_match(&j->facts->sources, v.name) &&
        (view_equal(v.raw, v.name) || !patterns_match(&j->facts->sources, v.raw)))
        return v;
    v.level = TAINT_SOURCE;
    v.flags &= (uint16_t)~VALUE_MADE; /* whatever it was called with */
    v.clean = 0;
    if (patterns_match(&j->facts->own, v.name) || patterns_match(&j->facts->own, v.raw))
        v.clean = VALUE_GIVEN;
    return v;
}

static bool is_upper(view name)
{
    size_t n = 0;
    for (size_t i = 0; i < name.len; i++) {
        if (islower((unsigned char)name.ptr[i]) || name.ptr[i] == '$') return false;
        n += isupper((unsigned char)name.ptr[i]) != 0;
    }
    return n >= 2;
}

/* PRIu64 and the like are pieces of a format. */
static bool is_constant(const judge *j, view name)
{
    if (is_upper(name)) return true;
    if (j->tree.language != GUARD_C && j->tree.language != GUARD_CPP) return false;
    return view_starts(name, VIEW("PRI")) || view_starts(name, VIEW("SCN"));
}

static value unknown(view name)
{
    return (value){.level = TAINT_UNKNOWN, .name = name, .raw = name};
}

/* PHP's \a\b is b, C++'s a::b is a.b. */
view judge_plain_name(judge *j, view text)
{
    const char *slash = memrchr(text.ptr, '\\', text.len);
    if (slash) return (view){slash + 1, text.len - (size_t)(slash + 1 - text.ptr)};
    if (!memmem(text.ptr, text.len, "::", 2)) return text;
    char *out = arena_take(&j->names, text.len, 1);
    size_t n = 0;
    if (!out) return text;
    for (size_t i = 0; i < text.len; i++) {
        bool colons = i + 1 < text.len && text.ptr[i] == ':' && text.ptr[i + 1] == ':';
        out[n++] = colons ? '.' : text.ptr[i];
        i += colons;
    }
    return (view){out, n};
}

static value name_value(judge *j, int32_t n)
{
    view text = judge_plain_name(j, tree_text(&j->tree, n));
    const variable *var = judge_find(j, text);
    /* PHP's "${name}" is $name. */
    bool bare = !var && j->tree.language == GUARD_PHP && text.ptr > j->tree.text.ptr + 1 &&
                text.ptr[-1] == '{' && text.ptr[-2] == '$';
    for (uint32_t i = 0; bare && i < j->n_vars && !var; i++) {
        view name = j->vars[i].name;
        bool same = name.len == text.len + 1 && name.ptr[0] == '$';
        if (same && !memcmp(name.ptr + 1, text.ptr, text.len)) var = &j->vars[i];
    }
    value v = var ? var->v : unknown(text);
    v.raw = text;
    if (!v.name.len) v.name = text;
    if (!var && j->tree.language == GUARD_RUBY && text.ptr[0] == '@') v.flags = VALUE_FIELDS;
    if (!var && is_constant(j, text)) v = (value){.name = text, .raw = text, .clean = ~0u};
    return var ? v : judge_named(j, v);
}

/* Values that the program set before: fields of the object, settings. */
bool judge_is_set_before(view text)
{
    static const char *const names[] = {"this", "self", "$this", "config", "conf", "cfg",
                                        "settings", "configuration", "$config", "options"};
    for (size_t i = text.len; i--;)
        if (strchr(".>:@", text.ptr[i])) {
            text = (view){text.ptr + i + 1, text.len - i - 1};
            break;
        }
    return view_is_one_of(text, names, ARRAY_LEN(names));
}

static value member_value(judge *j, int32_t n)
{
    view whole = tree_text(&j->tree, n);
    int32_t object = tree_field(&j->tree, n, FIELD_OBJECT);
    int32_t name = tree_field(&j->tree, n, FIELD_NAME);
    if (object < 0 || name < 0) {
        view text = judge_plain_name(j, whole);
        return judge_named(j, (value){.level = is_upper(text) ? TAINT_CONST : TAINT_UNKNOWN,
                                      .name = text, .raw = text});
    }
    value o = judge_value(j, object), v = o;
    view property = tree_text(&j->tree, name);
    const variable *var = whole.len <= 64 ? judge_find(j, whole) : NULL;
    v.name = judge_join(j, o.name.len ? o.name : VIEW("?"), property);
    v.raw = judge_join(j, o.raw.len ? o.raw : VIEW("?"), property);
    if (var) {
        view raw = v.raw;
        v = var->v;
        v.raw = raw;
        return v;
    }
    v.flags = o.flags & (VALUE_MADE | VALUE_FIELDS);
    if (v.level == TAINT_UNKNOWN && judge_is_set_before(tree_text(&j->tree, object)))
        v.flags |= VALUE_FIELDS;
    v.text = empty;
    /* Go names the fields of structures: r.URL, user.ID. */
    bool field = j->tree.language == GUARD_GO && o.level >= TAINT_PARAMETER;
    if (is_upper(property) && !field) v.level = TAINT_CONST;
    if (v.level > TAINT_CONST && patterns_match(&j->facts->cleaners, v.name))
        return (value){.name = v.name, .raw = v.raw, .clean = ~0u};
    return judge_named(j, v);
}

static value subscript_value(judge *j, int32_t n)
{
    view whole = tree_text(&j->tree, n);
    const node *at = &j->tree.list[n];
    int32_t object = tree_field(&j->tree, n, FIELD_OBJECT), index = -1;
    if (object < 0) object = tree_field(&j->tree, n, FIELD_VALUE);
    if (object < 0) object = at->child;
    if (object < 0) return VALUE_NONE;
    for (int32_t c = at->child; c >= 0; c = j->tree.list[c].next)
        if (c != object) index = c;
    value o = judge_value(j, object), key = index >= 0 ? judge_value(j, index) : VALUE_NONE;
    const variable *var = whole.len <= 64 ? judge_find(j, whole) : NULL;
    value v = o, item;
    if (var) return var->v;
    if (judge_char_at(o, key, &item)) return item;
    if (j->tree.list[object].role == NODE_NAME &&
        judge_list_get(j, tree_text(&j->tree, object), key, &item))
        return item;
    v.flags = o.flags & (VALUE_FORMAT | VALUE_MADE | VALUE_FIELDS);
    if (v.level == TAINT_UNKNOWN && judge_is_set_before(tree_text(&j->tree, object)))
        v.flags |= VALUE_FIELDS;
    view part = key.flags & VALUE_STRING ? key.text : empty;
    v.name = judge_join(j, o.name, part);
    v.raw = judge_join(j, o.raw, part);
    if (!(v.flags & VALUE_FORMAT)) v.text = empty;
    if (v.level > TAINT_CONST && part.len && patterns_match(&j->facts->cleaners, v.name))
        return (value){.name = v.name, .raw = v.raw, .clean = ~0u};
    return judge_named(j, v);
}

/* ---- literals ---- */

view judge_string(const judge *j, int32_t n)
{
    view text = tree_text(&j->tree, n);
    size_t at = 0, run = 0;
    while (at < text.len && at < 3 && isalpha((unsigned char)text.ptr[at])) at++;
    if (at >= text.len || !strchr("'\"`", text.ptr[at])) {
        if (text.len && text.ptr[0] == ':') return (view){text.ptr + 1, text.len - 1};
        return text;
    }
    char quote = text.ptr[at];
    while (at + run < text.len && text.ptr[at + run] == quote && run < 3) run++;
    if (run == 2) return (view){text.ptr, 0};
    at += run;
    size_t end = text.len;
    if (end >= at + run && text.ptr[end - 1] == quote) end -= run;
    return (view){text.ptr + at, end - at};
}

/* Python's {x:d}, {x:.2f}. */
static bool prints_number(view part)
{
    const char *colon = part.len > 3 ? memrchr(part.ptr, ':', part.len) : NULL;
    if (!colon || part.ptr[part.len - 1] != '}') return false;
    for (const char *c = colon + 1; c < part.ptr + part.len - 2; c++)
        if (!strchr("0123456789.,+-_ ", *c)) return false;
    return strchr("dfFeEgG%xXob", part.ptr[part.len - 2]) && part.ptr + part.len - 2 > colon;
}

/* The literal text between begin and a value in it. */
static view text_before(const judge *j, const node *part, const char *begin)
{
    const char *stop = j->tree.text.ptr + part->begin;
    if (begin < stop && *begin == '}') begin++;
    view text = {begin, stop > begin ? (size_t)(stop - begin) : 0};
    while (text.len && strchr("{$#", begin[text.len - 1])) text.len--;
    return text;
}

/* The part of a format that its values leave constant. */
enum { KEPT_FLAGS = VALUE_PENDING | VALUE_FIELDS | VALUE_MADE | VALUE_AFTER_HOST };

/* Is v from outside, and after a '/' or a '?' of the program? */
static bool follows_host(view before, value v)
{
    return v.level == TAINT_SOURCE && before.len &&
           (memchr(before.ptr, '?', before.len) || memchr(before.ptr, '/', before.len));
}

/* Is it one value, or one with constant text after it? */
static bool leads_alone(value v)
{
    return v.level > TAINT_CONST && (!(v.flags & VALUE_FORMAT) || v.flags & VALUE_LEADS) &&
           !(v.flags & VALUE_LIST);
}

value judge_string_value(judge *j, int32_t n)
{
    value v = {.flags = VALUE_STRING, .clean = ~0u, .name = VIEW("str")};
    v.text = judge_string(j, n);
    bool first = true;
    const char *stop = v.text.ptr;
    for (int32_t c = j->tree.list[n].child; c >= 0; c = j->tree.list[c].next) {
        const node *part = &j->tree.list[c];
        if (part->role == NODE_TEXT || part->role == NODE_SKIP) continue;
        value p = judge_value(j, c);
        if (part->role == NODE_STRING) { /* "a" "b" */
            v = first ? p : judge_plus(j, v, p);
            first = false;
            continue;
        }
        if (p.level == TAINT_CONST && !(p.flags & VALUE_FORMAT)) continue;
        bool python = j->tree.language == GUARD_PYTHON;
        if (python && prints_number(tree_text(&j->tree, c))) continue;
        bool whole = (v.flags & VALUE_STRING) != 0;
        view before = text_before(j, part, whole ? v.text.ptr : stop);
        view text = whole ? before : v.text; /* the text before the first value in it */
        bool names = (whole || v.flags & VALUE_NAMES) && judge_before_name(before, !whole);
        bool leads = whole && !before.len && leads_alone(p);
        bool after_host = !whole && v.level < TAINT_SOURCE && follows_host(before, p);
        v = value_union(v, p);
        v.flags = VALUE_FORMAT | (names ? VALUE_NAMES : 0) | (leads ? VALUE_LEADS : 0) |
                  (after_host ? VALUE_AFTER_HOST : 0) | (v.flags & KEPT_FLAGS);
        v.text = text;
        v.tail = empty;
        stop = j->tree.text.ptr + part->end;
        v.name = VIEW("str");
    }
    match_string(j, n, &v);
    return v;
}

/* Ruby's heredoc comes after the line that mentions it. */
static value heredoc_value(judge *j, int32_t n)
{
    for (int32_t i = n + 1; i < j->tree.n; i++)
        if (j->tree.list[i].role == NODE_STRING &&
            j->tree.list[i].begin > j->tree.list[n].end &&
            !memchr("'\"", j->tree.text.ptr[j->tree.list[i].begin], 2))
            return judge_string_value(j, i);
    return VALUE_NONE;
}

static value list_value(judge *j, int32_t n)
{
    value v = VALUE_NONE;
    for (int32_t c = j->tree.list[n].child; c >= 0; c = j->tree.list[c].next)
        if (j->tree.list[c].field != FIELD_TYPE) v = value_union(v, judge_value(j, c));
    v.flags = (v.flags & VALUE_FORMAT) | VALUE_LIST;
    v.text = VIEW("[");
    v.name = v.raw = empty;
    if (j->tree.list[n].role == NODE_DICT) { /* Go's composite literals have a type */
        int32_t type = tree_field(&j->tree, n, FIELD_TYPE);
        if (type >= 0) v.name = tree_text(&j->tree, type);
    }
    return v;
}

/* ---- operators ---- */

static bool stringy(value v) { return (v.flags & (VALUE_STRING | VALUE_FORMAT)) != 0; }

/* In a + b: are all values where SQL has a name? */
static bool adds_names_alone(value a, value b)
{
    bool format = (a.flags & VALUE_FORMAT) != 0;
    if (format ? !(a.flags & VALUE_NAMES) : a.level != TAINT_CONST) return false;
    if (b.level == TAINT_CONST) return format;
    if (b.flags & VALUE_FORMAT) return b.flags & VALUE_NAMES;
    return judge_before_name(format ? a.tail : a.text, format);
}

value judge_plus(judge *j, value a, value b)
{
    value v = value_union(a, b);
    v.name = VIEW("str");
    v.raw = empty;
    if (!stringy(a) && !stringy(b)) return v;
    v.text = stringy(a) ? a.text : empty;
    v.tail = b.flags & VALUE_FORMAT ? b.tail : b.flags & VALUE_STRING ? b.text : empty;
    if (v.level == TAINT_CONST) {
        if (a.flags & b.flags & VALUE_STRING && a.text.len + b.text.len < 512) {
            char *out = arena_take(&j->names, a.text.len + b.text.len + 1, 1);
            if (out) {
                if (a.text.len) memcpy(out, a.text.ptr, a.text.len);
                if (b.text.len) memcpy(out + a.text.len, b.text.ptr, b.text.len);
                v.text = (view){out, a.text.len + b.text.len};
            }
        }
        v.flags = VALUE_STRING;
    } else {
        uint16_t names = adds_names_alone(a, b) ? VALUE_NAMES : 0;
        uint16_t leads = leads_alone(a) && b.level == TAINT_CONST ? VALUE_LEADS : 0;
        bool after_host = a.level > TAINT_CONST && a.level < TAINT_SOURCE &&
                          follows_host(a.tail, b);
        v.flags = VALUE_FORMAT | names | leads | (after_host ? VALUE_AFTER_HOST : 0) |
                  (v.flags & KEPT_FLAGS);
    }
    return v;
}

static value binary_value(judge *j, int32_t n)
{
    const node *at = &j->tree.list[n];
    int32_t left = tree_field(&j->tree, n, FIELD_LEFT), right;
    right = tree_field(&j->tree, n, FIELD_RIGHT);
    if (left < 0) left = at->child;
    if (left < 0) return VALUE_NONE;
    if (right < 0) right = j->tree.list[left].next;
    if (right < 0) return judge_value(j, left);
    value a = judge_value(j, left), b = judge_value(j, right), v;
    if (judge_fold(j, n, a, b, &v)) return v;
    switch ((node_op)at->op) {
    case OP_PLUS:
        if (j->tree.language == GUARD_PHP) break; /* of numbers */
        return judge_plus(j, a, b);
    case OP_DOT: return judge_plus(j, a, b);
    case OP_PERCENT:
        if (!stringy(a)) break;
        if (a.flags & VALUE_STRING && judge_prints_numbers(a.text)) return VALUE_NONE;
        v = judge_plus(j, a, b);
        v.flags &= (uint16_t)~VALUE_NAMES;
        if (judge_formats_names(a.text)) v.flags |= VALUE_NAMES;
        return v;
    case OP_SHIFT:
        if (!stringy(a) && !stringy(b)) {
            v = value_union(a, b);
            v.name = a.name;
            return v;
        }
        v = judge_plus(j, a, b);
        if (j->tree.list[left].role == NODE_NAME) judge_set(j, tree_text(&j->tree, left), v);
        return v;
    case OP_SLASH: /* Path("a") / name */
        if (j->tree.language != GUARD_PYTHON && j->tree.language != GUARD_CPP) break;
        if (b.level < TAINT_PARAMETER && !stringy(b)) break;
        v = value_union(a, b);
        v.name = VIEW("path");
        v.raw = v.text = empty;
        v.flags &= VALUE_FORMAT;
        return v;
    case OP_EXTRACT: /* std::cin >> name */
        if (j->tree.language != GUARD_CPP || !patterns_match(&j->facts->sources, a.name)) break;
        judge_set(j, tree_text(&j->tree, right), a);
        return a;
    case OP_OR: return value_union(a, b);
    case OP_AND: return b;
    default: break;
    }
    return VALUE_NONE;
}

static value ternary_value(judge *j, int32_t n)
{
    int32_t yes = tree_field(&j->tree, n, FIELD_CONSEQUENCE);
    if (yes < 0) yes = tree_field(&j->tree, n, FIELD_BODY); /* PHP */
    int32_t no = tree_field(&j->tree, n, FIELD_ALTERNATIVE);
    int32_t condition = tree_field(&j->tree, n, FIELD_CONDITION);
    if (no < 0) { /* Python: a if condition else b */
        int32_t c = j->tree.list[n].child;
        yes = c;
        condition = c < 0 ? -1 : j->tree.list[c].next;
        no = condition < 0 ? -1 : j->tree.list[condition].next;
    }
    value test = condition < 0 ? VALUE_NONE : judge_value(j, condition);
    if (test.level == TAINT_CONST && view_equal(test.text, VIEW("true")))
        return judge_value(j, yes);
    if (test.level == TAINT_CONST && view_equal(test.text, VIEW("false")))
        return judge_value(j, no);
    if (yes >= 0) return judge_choice(j, condition, yes, no);
    /* PHP's a ?: b has no consequence. */
    return value_union(test, no < 0 ? VALUE_NONE : judge_value(j, no));
}

static value cast_value(judge *j, int32_t n)
{
    static const char *const numbers[] = {"int", "float", "bool", "double", "long", "short",
                                          "byte", "char"};
    int32_t type = tree_field(&j->tree, n, FIELD_TYPE);
    int32_t inner = j->tree.list[n].child;
    while (inner >= 0 && j->tree.list[inner].next >= 0) inner = j->tree.list[inner].next;
    value v = judge_value(j, inner);
    view text = type < 0 ? empty : tree_text(&j->tree, type);
    for (size_t i = 0; i < ARRAY_LEN(numbers); i++)
        if (view_starts(text, view_of(numbers[i])) &&
            !memchr(j->tree.text.ptr + j->tree.list[n].begin, '*', text.len + 4))
            return VALUE_NONE;
    return v;
}

value judge_children(judge *j, int32_t n)
{
    value v = VALUE_NONE, only = VALUE_NONE;
    uint32_t count = 0;
    bool echo = false; /* PHP's <?= */
    for (int32_t c = j->tree.list[n].child; c >= 0; c = j->tree.list[c].next) {
        if (j->tree.list[c].role == NODE_SKIP) {
            echo = view_equal(tree_text(&j->tree, c), VIEW("<?="));
            continue;
        }
        only = echo ? judge_echo(j, c) : judge_value(j, c);
        echo = false;
        v = value_union(v, only);
        count++;
    }
    return count == 1 ? only : v;
}

static value switch_role(judge *j, int32_t n)
{
    value v;
    switch ((node_role)j->tree.list[n].role) {
    case NODE_SKIP:
    case NODE_CONST:
    case NODE_TEXT:
    case NODE_PARAMS:
    case NODE_ROLES: return (value){.clean = ~0u, .text = judge_string(j, n)};
    case NODE_NAME:
    case NODE_MEMBER:
    case NODE_SUBSCRIPT:
        v = j->tree.list[n].role == NODE_NAME     ? name_value(j, n)
            : j->tree.list[n].role == NODE_MEMBER ? member_value(j, n)
                                                  : subscript_value(j, n);
        match_reference(j, n, &v);
        return v;
    case NODE_STRING: return judge_string_value(j, n);
    case NODE_HEREDOC: return heredoc_value(j, n);
    case NODE_LIST:
    case NODE_DICT: return list_value(j, n);
    case NODE_COMPARE:
    case NODE_BINARY: return binary_value(j, n);
    case NODE_LEAVE:
        v = judge_children(j, n);
        if (j->inlined) j->returned = value_union(j->returned, v);
        judge_return(j, n, v);
        return v;
    case NODE_NOT: return judge_not(judge_children(j, n));
    case NODE_TERNARY: return ternary_value(j, n);
    case NODE_CAST: return cast_value(j, n);
    case NODE_CALL:
    case NODE_NEW:
    case NODE_ECHO:
    case NODE_INCLUDE:
    case NODE_SHELL: return judge_call(j, n);
    case NODE_PAIR: return judge_pair(j, n, NULL);
    case NODE_ASSIGN:
    case NODE_UPDATE:
    case NODE_AS: return judge_assign(j, n);
    case NODE_IF:
    case NODE_UNLESS: return judge_if(j, n);
    case NODE_SWITCH: return judge_switch(j, n);
    case NODE_CASE:
    case NODE_OPTIONAL: return judge_optional(j, n);
    case NODE_FOREACH:
    case NODE_COMPREHENSION: return judge_foreach(j, n);
    case NODE_FUNCTION: return judge_function(j, n);
    case NODE_IMPORT: judge_import(j, n); return VALUE_NONE;
    case NODE_PARAM:
    case NODE_DECORATED:
    case NODE_BLOCK:
    case NODE_ARGS:
    case NODE_SIGNATURE:
    case NODE_OTHER: break;
    }
    return judge_children(j, n);
}

value judge_value(judge *j, int32_t n)
{
    if (n < 0) return VALUE_NONE;
    if (j->depth == GUARD_DEPTH_MAX) return unknown(empty);
    j->depth++;
    value v = switch_role(j, n);
    j->depth--;
    return v;
}

/* ---- a window ---- */

int judge_open(judge *j, const rule_set *rules, const rule_index *index)
{
    *j = (judge){.rules = rules, .index = index};
    int status = tree_open(&j->tree);
    if (!status) status = regex_scratch_open(&j->re);
    if (!status) status = arena_open(&j->names, JUDGE_NAMES_BYTES);
    if (!status) status = arena_open(&j->saved, JUDGE_SAVED_BYTES);
    j->vars = status ? NULL : memory_alloc(GUARD_VARIABLES_MAX * sizeof *j->vars);
    if (!status && j->vars) return CERIUM_OK;
    judge_close(j);
    return CERIUM_ERR_MEMORY;
}

void judge_close(judge *j)
{
    tree_close(&j->tree);
    regex_scratch_close(&j->re);
    arena_close(&j->names);
    arena_close(&j->saved);
    memory_free(j->vars);
    *j = (judge){0};
}

bool judge_window(judge *j, guard_language language, view text, uint32_t from, bool final,
                  const outline_hole *holes, uint32_t n_holes)
{
    j->facts = &j->rules->facts[language];
    j->names.used = j->saved.used = 0;
    j->n_vars = j->depth = j->n_hits = 0;
    j->from = from;
    j->alias = false;
    j->final = final;
    j->n_deferred = j->inlined = 0;
    j->block = VALUE_NONE;
    if (!tree_read(&j->tree, language, text, holes, n_holes)) return false;
    judge_value(j, 0);
    return true;
}
