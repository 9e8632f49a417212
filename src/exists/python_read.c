/* python_read.c - the names of a module of Python, from its text: those that any branch of it
 * defines, without running it. */
#include "base/text.h"
#include "exists/python.h"

enum { BLOCKS_MAX = 64 };

typedef enum { BLOCK_BRANCH, BLOCK_CLASS, BLOCK_FUNCTION } block_kind;

typedef struct {
    uint16_t indent;
    uint8_t kind;
    uint32_t scope; /* of a class */
} block;

typedef struct {
    code_file s;
    uint32_t module;
    view label;
    bool is_package;
    block blocks[BLOCKS_MAX];
    uint32_t n_blocks;
    bool skips;        /* blocks are too deep: nothing is read */
    bool odd;          /* an unknown decorator precedes the definition */
    bool lazy;         /* the module's __getattr__ was read and is understood */
    bytes words, path; /* scratch */
} reading;

static name_table *b_of(reading *r) { return r->s.b; }

static bool is_in_function(const reading *r)
{
    for (uint32_t i = 0; i < r->n_blocks; i++)
        if (r->blocks[i].kind == BLOCK_FUNCTION) return true;
    return false;
}

/* The scope of names that are defined here; NAMES_NONE: none. */
static uint32_t scope_here(const reading *r)
{
    if (is_in_function(r)) return NAMES_NONE;
    for (uint32_t i = r->n_blocks; i-- > 0;)
        if (r->blocks[i].kind == BLOCK_CLASS) return r->blocks[i].scope;
    return r->module;
}

static void push_block(reading *r, uint16_t indent, block_kind kind, uint32_t scope)
{
    if (r->n_blocks == BLOCKS_MAX) {
        r->skips = true;
        names_open_scope(b_of(r), r->module);
        return;
    }
    r->blocks[r->n_blocks++] = (block){indent, (uint8_t)kind, scope};
}

/* ---- imports ---- */

/* The path that a module's dots and words mean, with its letter. */
static bool put_path(reading *r, uint32_t n_dots, view words)
{
    name_table *b = b_of(r);
    view base = r->label;
    if (n_dots && r->is_package) n_dots--;
    else if (n_dots == 0) base.len = 0;
    for (uint32_t i = 0; i < n_dots; i++) {
        while (base.len && base.ptr[base.len - 1] != '.') base.len--;
        if (base.len) base.len--;
        else return false;
    }
    r->path.len = 0;
    if (!b->status) b->status = bytes_append(&r->path, "p", 1);
    if (!b->status) b->status = bytes_append(&r->path, base.ptr, base.len);
    if (!b->status && base.len && words.len) b->status = bytes_append(&r->path, ".", 1);
    if (!b->status) b->status = bytes_append(&r->path, words.ptr, words.len);
    return !b->status && r->path.len > 1;
}

static view path_of(const reading *r) { return (view){r->path.ptr, r->path.len}; }

/* import a.b, c as d */
static void read_import(reading *r, uint32_t i, uint32_t end)
{
    uint32_t scope = scope_here(r);
    while (i < end) {
        uint32_t first = i;
        i = code_dotted(&r->s, i, end, &r->words);
        view words = {r->words.ptr, r->words.len}, name = words;
        if (!words.len) return;
        if (code_is(&r->s, i, "as") && i + 1 < end) {
            if (put_path(r, 0, words))
                names_import(b_of(r), scope, code_word(&r->s, i + 1), path_of(r), VIEW(""));
            i += 2;
        } else {
            name = code_word(&r->s, first);
            if (put_path(r, 0, name))
                names_import(b_of(r), scope, name, path_of(r), VIEW(""));
        }
        if (!code_sign(&r->s, i, ',')) return;
        i++;
    }
}

/* A package that imports from a module of its own has that module as a name, which a star import
 * of the package takes, too.  Any definition of that name is more specific. */
static void note_own_module(reading *r)
{
    name_table *b = b_of(r);
    view path = path_of(r);
    size_t n = 1 + r->label.len;
    if (!r->is_package || is_in_function(r) || path.len <= n + 1 || path.ptr[n] != '.' ||
        memcmp(path.ptr + 1, r->label.ptr, r->label.len))
        return;
    const char *from = path.ptr + n + 1, *end = path.ptr + path.len;
    const char *dot = memchr(from, '.', (size_t)(end - from));
    view name = {from, (size_t)((dot ? dot : end) - from)};
    uint8_t pass = b->pass;
    b->pass = NAMES_WEAK;
    names_import(b, r->module, name, (view){path.ptr, (size_t)(name.ptr + name.len - path.ptr)},
                 VIEW(""));
    b->pass = pass;
}

/* from .a import b as c, (d), * */
static void read_from(reading *r, uint32_t i, uint32_t end)
{
    uint32_t n_dots = 0, scope = scope_here(r);
    for (; i < end && r->s.t[i].kind == TOKEN_SIGN; i++)
        n_dots += r->s.t[i].sign == '.' ? 1 : r->s.t[i].sign == SIGN_DOTS ? 3 : 0;
    r->words.len = 0;
    if (!code_is(&r->s, i, "import")) i = code_dotted(&r->s, i, end, &r->words);
    bool known = put_path(r, n_dots, (view){r->words.ptr, r->words.len});
    if (!code_is(&r->s, i, "import")) return;
    if (known) note_own_module(r);
    for (i++; i < end; i++) {
        if (code_sign(&r->s, i, '*')) {
            if (known && scope != NAMES_NONE) names_star(b_of(r), scope, path_of(r));
            else if (scope != NAMES_NONE) names_open_scope(b_of(r), scope);
        }
        if (r->s.t[i].kind != TOKEN_NAME) continue;
        view member = code_word(&r->s, i), name = member;
        if (code_is(&r->s, i + 1, "as") && i + 2 < end) name = code_word(&r->s, i += 2);
        if (known) names_import(b_of(r), scope, name, path_of(r), member);
        else names_add(b_of(r), scope, name, NAME_VALUE, 0);
    }
}

/* ---- assignments ---- */

/* Names in the target of an assignment: those that nothing follows. */
static void bind_targets(reading *r, uint32_t i, uint32_t end)
{
    uint32_t scope = scope_here(r);
    if (scope == NAMES_NONE) return;
    for (uint32_t k = i; k < end; k++) {
        if (r->s.t[k].kind != TOKEN_NAME) continue;
        bool leads = code_sign(&r->s, k + 1, '.') || code_sign(&r->s, k + 1, '(') ||
                     code_sign(&r->s, k + 1, '[');
        bool member = k > i && code_sign(&r->s, k - 1, '.');
        if (!leads && !member) names_add(b_of(r), scope, code_word(&r->s, k), NAME_VALUE, 0);
    }
}

/* x.y = ...: something gets a name from outside.  globals()[...] = ... */
static void note_patch(reading *r, uint32_t i, uint32_t end)
{
    i = code_dotted(&r->s, i, end, &r->words);
    const char *dot = r->words.len ? memrchr(r->words.ptr, '.', r->words.len) : NULL;
    if (!dot || i != end || is_in_function(r)) return;
    view expression = {r->words.ptr, (size_t)(dot - r->words.ptr)};
    view name = {dot + 1, r->words.len - expression.len - 1};
    names_patch(b_of(r), scope_here(r), expression, name);
}

/* The strings of __all__; false: it has other items. */
static bool add_all(reading *r, uint32_t i, uint32_t end)
{
    name_table *b = b_of(r);
    bool whole = true;
    for (; i < end && !b->status; i++) {
        const code_token *t = &r->s.t[i];
        if (t->kind == TOKEN_STRING) {
            uint8_t pass = b->pass;
            uint32_t at = names_find(b, r->module, code_word(&r->s, i));
            if (at == NAMES_NONE) {
                b->pass = NAMES_WEAK; /* any definition is more specific */
                names_add(b, r->module, code_word(&r->s, i), NAME_VALUE, 0);
                b->pass = pass;
                at = names_find(b, r->module, code_word(&r->s, i));
            }
            if (at != NAMES_NONE) names_entry_at(b, at)->starred = true;
        } else if (t->kind != TOKEN_SIGN || !strchr("[](),", t->sign)) whole = false;
    }
    return whole;
}

static void read_all(reading *r, uint32_t i, uint32_t end)
{
    bool first = code_sign(&r->s, i, '='), is_typed = code_sign(&r->s, i, ':');
    while (is_typed && i < end && !code_sign(&r->s, i, '=')) i++;
    first |= is_typed;
    bool adds = code_sign(&r->s, i, SIGN_UPDATE);
    bool extends = code_sign(&r->s, i, '.') &&
                   (code_is(&r->s, i + 1, "extend") || code_is(&r->s, i + 1, "append"));
    if (!first && !adds && !extends) return;
    bool whole = add_all(r, i + (extends ? 2 : 1), end);
    name_scope *scope = b_of(r)->status ? NULL : names_scope_at(b_of(r), r->module);
    if (!scope) return;
    if (first && whole) scope->flags |= SCOPE_ALL;
    if (!whole) scope->flags &= (uint8_t)~SCOPE_ALL;
}

/* NAME = a.b.c: another name of the same thing. */
static bool read_alias(reading *r, uint32_t i, uint32_t equals, uint32_t end)
{
    uint32_t scope = scope_here(r);
    if (equals != i + 1 || r->s.t[i].kind != TOKEN_NAME || scope == NAMES_NONE) return false;
    if (code_dotted(&r->s, equals + 1, end, &r->words) != end || !r->words.len) return false;
    view words = {r->words.ptr, r->words.len}, name = code_word(&r->s, i);
    static const char *const constants[] = {"None", "True", "False", "NotImplemented"};
    for (size_t k = 0; k < ARRAY_LEN(constants); k++)
        if (view_equal(words, view_of(constants[k]))) return false;
    if (view_equal(words, name)) return false;
    names_alias(b_of(r), scope, name, scope, words);
    return true;
}

static void read_simple(reading *r, uint32_t i, uint32_t end)
{
    uint32_t depth = 0, from = i, colon = 0;
    if (code_is(&r->s, i, "__all__") && scope_here(r) == r->module) read_all(r, i + 1, end);
    for (uint32_t k = i; k < end; k++) {
        const code_token *t = &r->s.t[k];
        if (t->kind != TOKEN_SIGN) continue;
        if (token_opens(t->sign)) depth++;
        if (token_closes(t->sign) && depth) depth--;
        if (t->sign == SIGN_WALRUS && k > i) bind_targets(r, k - 1, k);
        if (depth) continue;
        if (t->sign == ':' && !colon && k == i + 1) {
            bind_targets(r, i, k);
            colon = k;
        }
        if (t->sign == SIGN_UPDATE) bind_targets(r, i, k);
        if (t->sign != '=' || colon) continue;
        if (from == i && read_alias(r, i, k, end)) return;
        bind_targets(r, from, k);
        note_patch(r, from, k);
        from = k + 1;
    }
}

/* ---- names made at run time ---- */

/* globals()[...], globals().update(...), sys.modules[__name__] =, vars(), exec() */
static void note_dynamic(reading *r, uint32_t i, uint32_t end)
{
    bool inside = is_in_function(r);
    for (uint32_t k = i; k < end; k++) {
        if (r->s.t[k].kind != TOKEN_NAME) continue;
        bool own = !k || !code_sign(&r->s, k - 1, '.');
        bool names_ = (own && code_is(&r->s, k, "globals")) ||
                      (own && !inside &&
                       (code_is(&r->s, k, "locals") || code_is(&r->s, k, "vars")));
        bool hooks = code_is(&r->s, k, "meta_path") || code_is(&r->s, k, "path_hooks");
        if (hooks) names_open_scope(b_of(r), r->module);
        bool stores = names_ && code_sign(&r->s, k + 1, '(') && code_sign(&r->s, k + 2, ')') &&
                      (code_is(&r->s, k + 4, "update") || code_is(&r->s, k + 4, "setdefault"));
        for (uint32_t m = k + 3; names_ && code_sign(&r->s, k + 3, '[') && m < end; m++)
            stores |= code_sign(&r->s, m, '=');
        /* It is stored, or passed on: names[x] = y */
        bool given = names_ && code_is(&r->s, k, "globals") && code_sign(&r->s, k + 2, ')') && k &&
                     (code_sign(&r->s, k - 1, '=') || code_sign(&r->s, k - 1, '(') ||
                      code_sign(&r->s, k - 1, ',')) &&
                     !code_sign(&r->s, k + 3, '[') && !code_sign(&r->s, k + 3, '.');
        stores |= given;
        bool self = code_is(&r->s, k, "sys") && code_is(&r->s, k + 2, "modules") &&
                    code_is(&r->s, k + 4, "__name__");
        bool runs = !inside && (code_is(&r->s, k, "exec") || code_is(&r->s, k, "execfile")) &&
                    code_sign(&r->s, k + 1, '(');
        bool sets = code_is(&r->s, k, "setattr") && self;
        if (stores || runs || sets || (self && !inside)) {
            uint32_t scope = inside ? r->module : scope_here(r);
            names_open_scope(b_of(r), scope);
        }
    }
}

/* global x, in a function; self.x = in a method */
static void read_in_function(reading *r, uint32_t i, uint32_t end)
{
    uint32_t class_ = NAMES_NONE;
    for (uint32_t k = 0; k + 1 < r->n_blocks; k++)
        if (r->blocks[k].kind == BLOCK_CLASS && r->blocks[k + 1].kind == BLOCK_FUNCTION)
            class_ = r->blocks[k].scope;
    bool is_global = code_is(&r->s, i, "global");
    for (uint32_t k = i + 1; k < end; k++) {
        if (is_global && r->s.t[k].kind == TOKEN_NAME)
            names_add(b_of(r), r->module, code_word(&r->s, k), NAME_VALUE, 0);
        bool own = class_ != NAMES_NONE && k + 1 < end && code_sign(&r->s, k, '.') &&
                   (code_is(&r->s, k - 1, "self") || code_is(&r->s, k - 1, "cls"));
        if (own && r->s.t[k + 1].kind == TOKEN_NAME &&
            (code_sign(&r->s, k + 2, '=') || code_sign(&r->s, k + 2, ':')))
            names_add(b_of(r), class_, code_word(&r->s, k + 1), NAME_VALUE, 0);
    }
}

/* ---- definitions ---- */

/* A decorator that does not change how a function is called, or what a class has. */
static bool is_plain_decorator(view words)
{
    static const char *const list[] = {
        "staticmethod", "classmethod", "property", "abstractmethod", "overload", "final",
        "override", "lru_cache", "cache", "cached_property", "wraps", "contextmanager",
        "asynccontextmanager", "deprecated", "runtime_checkable", "total_ordering", "unique",
        "no_type_check", "singledispatch", "coroutine", "set_module", "verify", "public",
        "array_function_dispatch", "finalize_array_function_like", "set_array_function_like_doc",
        "setter", "getter", "deleter", "dataclass_transform", "type_check_only", "global_enum",
        "array_function_from_dispatcher", "disjoint_base", "dataclass", "define", "frozen",
        "mutable", "attrs", "attrib", "s", "register", "inherit_doc", "doc_controls",
    };
    const char *dot = words.len ? memrchr(words.ptr, '.', words.len) : NULL;
    if (dot) words = (view){dot + 1, words.len - (size_t)(dot + 1 - words.ptr)};
    return view_is_one_of(words, list, ARRAY_LEN(list));
}

/* The parameters between ( at i and its end. */
static uint32_t read_parameters(reading *r, uint32_t i, uint32_t end, uint32_t call)
{
    uint32_t stop = code_after(&r->s, i, end), depth = 0;
    bool begins = false;
    for (uint32_t k = i; k < stop; k++) {
        const code_token *t = &r->s.t[k];
        if (t->kind == TOKEN_SIGN && token_opens(t->sign)) begins = ++depth == 1;
        else if (t->kind == TOKEN_SIGN && token_closes(t->sign)) depth--;
        else if (depth == 1 && token_sign(t, ',')) begins = true;
        else if (depth == 1 && begins && token_sign(t, SIGN_POWER)) {
            names_open_scope(b_of(r), call);
            begins = false;
        } else if (depth == 1 && begins && token_sign(t, '*')) begins = false;
        else if (depth == 1 && begins && t->kind == TOKEN_NAME) {
            names_add(b_of(r), call, code_word(&r->s, k), NAME_VALUE, 0);
            begins = false;
        }
    }
    return stop;
}

/* def NAME(...): returns the position after it. */
static uint32_t read_function(reading *r, uint32_t i, uint32_t end, uint16_t indent)
{
    name_table *b = b_of(r);
    uint32_t scope = scope_here(r), call = NAMES_NONE;
    view name = code_word(&r->s, i);
    uint32_t at = i + 1;
    if (code_sign(&r->s, at, '[')) at = code_after(&r->s, at, end);
    if (scope != NAMES_NONE) {
        uint32_t old = names_find(b, scope, name);
        const name_entry *e = old == NAMES_NONE ? NULL : names_entry_at(b, old);
        bool again = e && e->kind == NAME_CALL;
        call = again ? e->target : names_scope(b, SCOPE_CALL, name, NAMES_NONE);
        if (!again) names_add(b, scope, name, NAME_CALL, call);
    }
    if (call != NAMES_NONE) read_parameters(r, at, end, call);
    if (call != NAMES_NONE && r->odd) names_open_scope(b, call);
    if (scope == r->module && view_equal(name, VIEW("__getattr__")) && scope != NAMES_NONE) {
        r->lazy = python_lazy(&r->s, r->module, i, end);
        if (!r->lazy) names_open_scope(b, r->module);
    }
    bool marks = scope != r->module && view_equal(name, VIEW("__init_subclass__"));
    if (marks && scope != NAMES_NONE) names_open_scope(b, scope);
    push_block(r, indent, BLOCK_FUNCTION, 0);
    return end;
}

/* One item in the brackets after a class's name. */
static void read_base(reading *r, uint32_t scope, uint32_t outer, uint32_t i, uint32_t end)
{
    name_table *b = b_of(r);
    if (i >= end) return;
    if (code_sign(&r->s, i + 1, '=')) {
        static const char *const plain[] = {"ABCMeta", "EnumMeta", "EnumType", "type"};
        if (!code_is(&r->s, i, "metaclass")) return;
        code_dotted(&r->s, i + 2, end, &r->words);
        view words = {r->words.ptr, r->words.len};
        if (view_starts(words, VIEW("abc."))) words = (view){words.ptr + 4, words.len - 4};
        if (!view_is_one_of(words, plain, ARRAY_LEN(plain))) names_open_scope(b, scope);
        return;
    }
    uint32_t at = code_dotted(&r->s, i, end, &r->words);
    view words = {r->words.ptr, r->words.len};
    if (at < end && code_sign(&r->s, at, '[')) at = code_after(&r->s, at, end);
    if (at != end || !words.len) names_open_scope(b, scope);
    else if (!view_equal(words, VIEW("object"))) names_base(b, scope, outer, words);
}

static uint32_t read_class(reading *r, uint32_t i, uint32_t end, uint16_t indent)
{
    name_table *b = b_of(r);
    uint32_t outer = scope_here(r);
    if (outer == NAMES_NONE) {
        push_block(r, indent, BLOCK_FUNCTION, 0);
        return end;
    }
    view name = code_word(&r->s, i);
    uint32_t old = names_find(b, outer, name);
    const name_entry *e = old == NAMES_NONE ? NULL : names_entry_at(b, old);
    bool again = e && e->kind == NAME_SCOPE && names_scope_at(b, e->target)->flags & SCOPE_CLASS;
    uint32_t scope = again ? e->target : names_scope(b, SCOPE_CLASS, name, outer);
    if (!again) names_add(b, outer, name, NAME_SCOPE, scope);
    if (r->odd) names_open_scope(b, scope);
    uint32_t at = i + 1;
    if (code_sign(&r->s, at, '[')) at = code_after(&r->s, at, end);
    if (code_sign(&r->s, at, '(')) {
        uint32_t stop = code_after(&r->s, at, end), from = at + 1, depth = 0;
        for (uint32_t k = at; k < stop; k++) {
            const code_token *t = &r->s.t[k];
            if (t->kind != TOKEN_SIGN) continue;
            if (token_opens(t->sign)) depth++;
            if (token_closes(t->sign)) depth--;
            if ((depth == 1 && t->sign == ',') || depth == 0) {
                read_base(r, scope, outer, from, k);
                from = k + 1;
            }
        }
    }
    push_block(r, indent, BLOCK_CLASS, scope);
    return end;
}

/* ---- statements ---- */

/* The names that a head binds: for x in, with y as x, except E as x. */
static void read_head(reading *r, uint32_t i, uint32_t end)
{
    bool loops = code_is(&r->s, i, "for");
    for (uint32_t k = i + 1; k < end; k++) {
        if (loops && code_is(&r->s, k, "in")) {
            bind_targets(r, i + 1, k);
            loops = false;
        }
        if (code_is(&r->s, k, "as") || code_sign(&r->s, k, SIGN_WALRUS)) {
            bool walrus = code_sign(&r->s, k, SIGN_WALRUS);
            bind_targets(r, walrus ? k - 1 : k + 1, walrus ? k : k + 2 < end ? k + 2 : end);
        }
    }
}

static bool is_head(const code_file *s, uint32_t i)
{
    static const char *const words[] = {"if", "elif", "else", "for", "while", "try", "except",
                                        "finally", "with", "match", "case"};
    for (size_t k = 0; k < ARRAY_LEN(words); k++)
        if (code_is(s, i, words[k]))
            return (k < 9 || !(code_sign(s, i + 1, '=') || code_sign(s, i + 1, '.') ||
                               code_sign(s, i + 1, ':') || code_sign(s, i + 1, ',') ||
                               code_sign(s, i + 1, '(') || code_kind(s, i + 1, TOKEN_LINE)));
    return false;
}

/* One statement at i; returns the beginning of the next one. */
static uint32_t read_statement(reading *r, uint32_t i, uint16_t indent)
{
    const code_file *s = &r->s;
    uint32_t colon;
    if (code_is(s, i, "async")) i++;
    bool def = code_is(s, i, "def"), class_ = code_is(s, i, "class") &&
               code_kind(s, i + 1, TOKEN_NAME);
    bool head = def || class_ || is_head(s, i);
    uint32_t end = tokens_statement_end(s->text, s->t, s->n, i, head, &colon);
    if (code_sign(s, i, '@')) {
        code_dotted(s, i + 1, end, &r->words);
        r->odd |= !is_plain_decorator((view){r->words.ptr, r->words.len});
        return end;
    }
    if (head && !colon) head = def = class_ = false;
    note_dynamic(r, i, end);
    if (def) end = read_function(r, i + 1, end, indent);
    else if (class_) end = read_class(r, i + 1, end, indent);
    else if (head) {
        if (!is_in_function(r)) read_head(r, i, end);
        push_block(r, indent, BLOCK_BRANCH, 0);
    } else if (is_in_function(r)) read_in_function(r, i, end);
    else if (code_is(s, i, "import")) read_import(r, i + 1, end);
    else if (code_is(s, i, "from")) read_from(r, i + 1, end);
    else if (code_is(s, i, "type") && code_kind(s, i + 1, TOKEN_NAME))
        bind_targets(r, i + 1, i + 2);
    else read_simple(r, i, end);
    r->odd = false;
    return end;
}

static void read_statements(reading *r)
{
    uint16_t indent = 0;
    for (uint32_t i = 0; i < r->s.n && !b_of(r)->status && !r->skips;) {
        const code_token *t = &r->s.t[i];
        if (t->kind == TOKEN_LINE || token_sign(t, ';') || token_sign(t, ':')) {
            if (t->sign == ':') indent++; /* a block on the line of its head */
            i++;
            continue;
        }
        if (t->first) {
            indent = t->indent;
            while (r->n_blocks && r->blocks[r->n_blocks - 1].indent >= indent) r->n_blocks--;
        }
        uint32_t next = read_statement(r, i, indent);
        i = next > i ? next : i + 1;
    }
}

void python_read(name_table *b, uint32_t module, view label, bool is_package, view text)
{
    reading r = {.module = module, .label = label, .is_package = is_package};
    r.words.max = r.path.max = CODE_FILE_BYTES_MAX;
    uint32_t builtins = names_find(b, 0, VIEW("pbuiltins"));
    if (builtins != NAMES_NONE && names_entry_at(b, builtins)->target != module)
        names_scope_at(b, module)->parent = names_entry_at(b, builtins)->target;
    if (code_open(&r.s, b, TOKENS_PYTHON, text)) read_statements(&r);
    else names_open_scope(b, module);
    code_close(&r.s);
    bytes_free(&r.words);
    bytes_free(&r.path);
}
