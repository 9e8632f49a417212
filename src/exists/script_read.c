/* script_read.c - the exports of a file of JavaScript or TypeScript: ES modules, declarations, and
 * assignments of CommonJS modules.
 *
 * The module's scope has the exports; the file's other names are in a scope of its own, in which
 * names of types and values are searched. */
#include "exists/script.h"

static view word(const scripts *r, uint32_t i) { return code_word(&r->s, i); }
static bool is(const scripts *r, uint32_t i, const char *w) { return code_is(&r->s, i, w); }
static bool sign(const scripts *r, uint32_t i, char c) { return code_sign(&r->s, i, c); }

static bool is_name(const scripts *r, uint32_t i) { return code_kind(&r->s, i, TOKEN_NAME); }

static void export_name(scripts *r, view name, view local)
{
    names_alias(r->s.b, r->module, name, r->locals, local);
}

/* ---- import and export ---- */

/* { a, b as c } [from '...'] at i; returns the position after it. */
static uint32_t read_list(scripts *r, uint32_t i, bool exports)
{
    name_table *b = r->s.b;
    uint32_t stop = code_after(&r->s, i, r->s.n);
    bool from = is(r, stop, "from");
    bool known = from && script_path(r, stop + 1);
    for (uint32_t k = i + 1; k + 1 < stop; k++) {
        if (is(r, k, "type") && (is_name(r, k + 1) && !is(r, k + 1, "as"))) k++;
        bool named = is_name(r, k) || code_kind(&r->s, k, TOKEN_STRING);
        if (!named) continue;
        view member = word(r, k), name = member;
        if (is(r, k + 1, "as")) name = word(r, k += 2);
        uint32_t scope = exports ? r->module : r->locals;
        if (from && known) names_import(b, scope, name, view_of(r->path), member);
        else if (from) names_add(b, scope, name, NAME_VALUE, 0);
        else export_name(r, name, member);
        if (!exports && from && !known) continue;
    }
    return from ? stop + 2 : stop;
}

/* import x, { a as b } from '...'; import * as n from; import x = require() */
static uint32_t read_import(scripts *r, uint32_t i)
{
    name_table *b = r->s.b;
    if (sign(r, i, '(') || sign(r, i, '.')) return i; /* import(), import.meta */
    r->is_module = true;
    if (is(r, i, "type") && (is_name(r, i + 1) || sign(r, i + 1, '{')) && !is(r, i + 1, "from"))
        i++;
    if (code_kind(&r->s, i, TOKEN_STRING)) return i + 1;
    if (is_name(r, i) && sign(r, i + 1, '=')) {
        view name = word(r, i);
        bool known = is(r, i + 2, "require") && script_path(r, i + 4);
        if (known) names_import(b, r->locals, name, view_of(r->path), VIEW(""));
        else if (!is(r, i + 2, "require") && code_dotted(&r->s, i + 2, r->s.n, &r->words) &&
                 r->words.len)
            names_alias(b, r->locals, name, r->locals, (view){r->words.ptr, r->words.len});
        return i + 3;
    }
    uint32_t from = i;
    while (from < r->s.n && !is(r, from, "from") && from < i + 4096) from++;
    bool known = script_path(r, from + 1);
    if (is_name(r, i) && !is(r, i, "from")) {
        if (known) names_import(b, r->locals, word(r, i), view_of(r->path), VIEW("default"));
        i++;
        if (sign(r, i, ',')) i++;
    }
    if (sign(r, i, '*') && is(r, i + 1, "as")) {
        if (known) names_import(b, r->locals, word(r, i + 2), view_of(r->path), VIEW(""));
        return i + 3;
    }
    return sign(r, i, '{') ? read_list(r, i, false) : i;
}

static uint32_t read_star(scripts *r, uint32_t i)
{
    name_table *b = r->s.b;
    if (is(r, i + 1, "as")) {
        bool known = is(r, i + 3, "from") && script_path(r, i + 4);
        if (known) names_import(b, r->module, word(r, i + 2), view_of(r->path), VIEW(""));
        else names_add(b, r->module, word(r, i + 2), NAME_VALUE, 0);
        return i + 5;
    }
    if (is(r, i + 1, "from") && script_path(r, i + 2)) names_star(b, r->module, view_of(r->path));
    else names_open_scope(b, r->module);
    return i + 3;
}

static uint32_t read_default(scripts *r, uint32_t i)
{
    name_table *b = r->s.b;
    static const char *const heads[] = {"async", "abstract", "declare"};
    for (size_t k = 0; k < ARRAY_LEN(heads); k++)
        if (is(r, i, heads[k]) && is_name(r, i + 1)) i++;
    bool defines = is(r, i, "function") || is(r, i, "class") || is(r, i, "interface") ||
                   is(r, i, "enum");
    if (defines && is_name(r, i + 1)) {
        export_name(r, VIEW("default"), word(r, i + 1));
        return i; /* the definition is read next */
    }
    uint32_t end = code_dotted(&r->s, i, r->s.n, &r->words);
    bool alone = r->words.len && (end >= r->s.n || sign(r, end, ';') || r->s.t[end].first);
    if (alone) export_name(r, VIEW("default"), (view){r->words.ptr, r->words.len});
    else names_add(b, r->module, VIEW("default"), NAME_VALUE, 0);
    return defines ? i : end > i ? end : i + 1;
}

/* After `export`. */
static uint32_t read_export(scripts *r, uint32_t i, bool *exported)
{
    name_table *b = r->s.b;
    r->is_module = true;
    if (is(r, i, "type") && (sign(r, i + 1, '{') || sign(r, i + 1, '*'))) i++;
    if (sign(r, i, '{')) {
        r->has_list = true;
        return read_list(r, i, true);
    }
    if (sign(r, i, '*')) return read_star(r, i);
    if (is(r, i, "default")) {
        r->has_list = true;
        return read_default(r, i + 1);
    }
    if (is(r, i, "as")) return i + 3; /* as namespace X */
    if (sign(r, i, '=')) {
        uint32_t end = code_dotted(&r->s, i + 1, r->s.n, &r->words);
        view what = {r->words.ptr, r->words.len};
        r->has_list = true;
        if (what.len) names_base(b, r->module, r->locals, what);
        else names_open_scope(b, r->module);
        if (what.len) export_name(r, VIEW("default"), what);
        else names_add(b, r->module, VIEW("default"), NAME_VALUE, 0);
        return end;
    }
    if (is(r, i, "import")) i++;
    *exported = true;
    return i;
}

/* ---- definitions ---- */

static void define(scripts *r, view name, name_kind kind, uint32_t target, bool exported)
{
    name_table *b = r->s.b;
    uint32_t into = r->n_bodies ? r->bodies[r->n_bodies - 1].scope : r->locals;
    names_add(b, into, name, kind, target);
    if (exported && !r->n_bodies) export_name(r, name, name);
    else if (!r->n_bodies && r->types && !r->is_global) r->n_ambient++;
}

static uint32_t scope_named(scripts *r, view name, bool is_namespace, bool exported)
{
    name_table *b = r->s.b;
    uint32_t into = r->n_bodies ? r->bodies[r->n_bodies - 1].scope : r->locals;
    uint32_t old = names_find(b, into, name);
    if (old != NAMES_NONE && names_entry_at(b, old)->kind == NAME_SCOPE) {
        if (exported && !r->n_bodies) export_name(r, name, name);
        return names_entry_at(b, old)->target;
    }
    uint32_t made = names_scope(b, SCOPE_CLASS, name, into);
    /* A function has the names of its namespace; a value of that name is unknown. */
    bool merges = old != NAMES_NONE && !b->status && names_entry_at(b, old)->kind == NAME_CALL;
    if (merges && is_namespace) names_entry_at(b, old)->pass = NAMES_WEAK;
    define(r, name, NAME_SCOPE, made, exported);
    return made;
}

static uint32_t skip_angles(const scripts *r, uint32_t i)
{
    uint32_t depth = 0;
    if (!sign(r, i, '<')) return i;
    for (; i < r->s.n; i++) {
        if (sign(r, i, '<')) depth++;
        if (sign(r, i, '>') && --depth == 0) return i + 1;
        if (sign(r, i, '{') || sign(r, i, ';')) {
            if (sign(r, i, ';')) return i;
            i = code_after(&r->s, i, r->s.n) - 1;
        }
    }
    return i;
}

/* extends A.B<C>, D implements E { */
static uint32_t read_heritage(scripts *r, uint32_t i, uint32_t scope)
{
    name_table *b = r->s.b;
    bool extends = false;
    for (; i < r->s.n && !sign(r, i, '{') && !sign(r, i, ';');) {
        if (is(r, i, "extends")) {
            extends = true;
            i++;
        } else if (is(r, i, "implements")) {
            extends = false;
            i++;
        } else if (is_name(r, i)) {
            uint32_t at = code_dotted(&r->s, i, r->s.n, &r->words);
            bool plain = sign(r, at, '<') || sign(r, at, '{') || sign(r, at, ',') ||
                         is(r, at, "implements");
            if (extends && plain)
                names_base(b, scope, names_scope_at(b, scope)->parent,
                           (view){r->words.ptr, r->words.len});
            else if (extends) names_open_scope(b, scope);
            i = skip_angles(r, at);
            if (i == at && !plain) i++;
        } else i = sign(r, i, '<') ? skip_angles(r, i) : i + 1;
        if (b->status) break;
    }
    return i;
}

/* Names between { at i and its end, of a class or an interface. */
static uint32_t read_members(scripts *r, uint32_t i, uint32_t scope)
{
    name_table *b = r->s.b;
    uint32_t stop = code_after(&r->s, i, r->s.n);
    static const char *const modifiers[] = {"static", "readonly", "public", "private", "protected",
                                            "declare", "abstract", "override", "async", "get",
                                            "set", "accessor"};
    for (uint32_t k = i + 1; k + 1 < stop && !b->status;) {
        bool begins = sign(r, k - 1, ';') || sign(r, k - 1, ',') || sign(r, k - 1, '{') ||
                      sign(r, k - 1, '}') || r->s.t[k].first;
        for (size_t m = 0; m < ARRAY_LEN(modifiers) && begins; m++)
            if (is(r, k, modifiers[m]) && (is_name(r, k + 1) || sign(r, k + 1, '['))) {
                k++;
                m = (size_t)-1;
            }
        if (sign(r, k, '*')) k++;
        bool named = is_name(r, k) || code_kind(&r->s, k, TOKEN_STRING);
        if (begins && named) names_add(b, scope, word(r, k), NAME_VALUE, 0);
        if (begins && sign(r, k, '[') && is_name(r, k + 1) && sign(r, k + 2, ':'))
            names_open_scope(b, scope); /* [key: string]: ... */
        bool opens = k < r->s.n && r->s.t[k].kind == TOKEN_SIGN && token_opens(r->s.t[k].sign);
        k = opens ? code_after(&r->s, k, stop) : k + 1;
    }
    return stop;
}

/* const x: T = ..., { a, b } = ..., y */
static uint32_t read_variables(scripts *r, uint32_t i, bool exported)
{
    name_table *b = r->s.b;
    for (bool more = true; more && i < r->s.n && !b->status;) {
        more = false;
        if (sign(r, i, '{') || sign(r, i, '[')) {
            uint32_t stop = code_after(&r->s, i, r->s.n);
            bool requires = sign(r, stop, '=') && is(r, stop + 1, "require") &&
                            script_path(r, stop + 3);
            for (uint32_t k = i; k < stop; k++) {
                if (!is_name(r, k) || sign(r, k + 1, ':')) continue;
                view member = sign(r, k - 1, ':') && k > 1 ? word(r, k - 2) : word(r, k);
                if (requires) names_import(b, r->locals, word(r, k), view_of(r->path), member);
                else define(r, word(r, k), NAME_VALUE, 0, exported);
            }
            i = stop;
        } else if (is_name(r, i)) {
            view name = word(r, i);
            uint32_t at = i + 1, end = 0;
            bool typed = sign(r, at, ':'), gets = sign(r, at, '=');
            uint32_t type = at + 1 + is(r, at + 1, "typeof");
            if (typed) end = code_dotted(&r->s, type, r->s.n, &r->words);
            else if (gets && !is(r, at + 1, "new"))
                end = code_dotted(&r->s, at + 1, r->s.n, &r->words);
            bool alone = end && r->words.len &&
                         (end >= r->s.n || sign(r, end, ';') || sign(r, end, ',') ||
                          r->s.t[end].first || (typed && sign(r, end, '=')));
            uint32_t into = r->n_bodies ? r->bodies[r->n_bodies - 1].scope : r->locals;
            bool requires = gets && is(r, at + 1, "require") && sign(r, at + 4, ')');
            if (requires && script_path(r, at + 3)) {
                bool member = sign(r, at + 5, '.') && is_name(r, at + 6);
                names_import(b, into, name, view_of(r->path), member ? word(r, at + 6) : VIEW(""));
                if (exported) export_name(r, name, name);
            } else if (alone) {
                names_alias(b, into, name, into, (view){r->words.ptr, r->words.len});
                if (exported && !r->n_bodies) export_name(r, name, name);
            } else define(r, name, NAME_VALUE, 0, exported);
            i = at;
        } else break;
        uint32_t depth = 0;
        for (; i < r->s.n; i++) { /* to the next one, or the end */
            if (r->s.t[i].kind != TOKEN_SIGN) {
                bool ends = !depth && r->s.t[i].first && r->s.t[i].kind == TOKEN_NAME &&
                            (r->s.t[i - 1].kind != TOKEN_SIGN ||
                             token_closes(r->s.t[i - 1].sign));
                if (ends) return i;
                continue;
            }
            char c = r->s.t[i].sign;
            if (token_opens(c)) depth++;
            else if (token_closes(c)) {
                if (!depth) return i;
                depth--;
            } else if (!depth && c == ';') return i;
            else if (!depth && c == ',') {
                more = true;
                i++;
                break;
            }
        }
    }
    return i;
}

/* namespace A.B {: its body is read like a file. */
static uint32_t read_namespace(scripts *r, uint32_t i, bool exported)
{
    uint32_t at = code_dotted(&r->s, i, r->s.n, &r->words);
    if (!sign(r, at, '{')) return at > i ? at : i + 1;
    bool known = at == i + 1 && r->n_bodies < SCRIPT_BODIES_MAX;
    if (!known) {
        define(r, word(r, i), NAME_VALUE, 0, exported);
        return code_after(&r->s, at, r->s.n);
    }
    uint32_t scope = scope_named(r, word(r, i), true, exported);
    r->bodies[r->n_bodies++] = (script_body){code_after(&r->s, at, r->s.n), scope};
    return at + 1;
}

/* declare module 'x' {: its contents belong to that module. */
static uint32_t read_ambient(scripts *r, uint32_t i)
{
    name_table *b = r->s.b;
    if (!sign(r, i + 1, '{')) return i + 1;
    uint32_t end = code_after(&r->s, i + 1, r->s.n);
    if (!script_path(r, i) || r->n_bodies == SCRIPT_BODIES_MAX) return end;
    uint32_t scope = names_module(b, view_of(r->path), SCOPE_TYPES, word(r, i));
    r->is_module = true;
    if (!b->status) r->bodies[r->n_bodies++] = (script_body){end, scope};
    return i + 2;
}

static uint32_t read_definition(scripts *r, uint32_t i, bool exported)
{
    static const char *const modifiers[] = {"declare", "abstract", "async", "unique"};
    for (size_t k = 0; k < ARRAY_LEN(modifiers); k++)
        if (is(r, i, modifiers[k]) && is_name(r, i + 1) && !r->s.t[i + 1].first) i++;
    bool named = is_name(r, i + 1);
    if (is(r, i, "const") && is(r, i + 1, "enum")) i++;
    if ((is(r, i, "class") || is(r, i, "interface")) && named) {
        uint32_t scope = scope_named(r, word(r, i + 1), false, exported);
        if (r->s.b->status) return r->s.n;
        i = read_heritage(r, skip_angles(r, i + 2), scope);
        return sign(r, i, '{') ? read_members(r, i, scope) : i;
    }
    if (is(r, i, "enum") && is_name(r, i + 1)) {
        uint32_t scope = scope_named(r, word(r, i + 1), false, exported);
        return r->s.b->status ? r->s.n : read_members(r, i + 2, scope);
    }
    if (is(r, i, "function")) {
        uint32_t at = i + 1 + sign(r, i + 1, '*');
        if (is_name(r, at)) {
            uint32_t into = r->n_bodies ? r->bodies[r->n_bodies - 1].scope : r->locals;
            uint32_t old = names_find(r->s.b, into, word(r, at));
            bool scope = old != NAMES_NONE && names_entry_at(r->s.b, old)->kind == NAME_SCOPE;
            if (!scope) define(r, word(r, at), NAME_CALL, r->locals, exported);
            else if (exported && !r->n_bodies) export_name(r, word(r, at), word(r, at));
        }
        at = skip_angles(r, at + 1);
        if (sign(r, at, '(')) at = code_after(&r->s, at, r->s.n);
        return at > i ? at : i + 1;
    }
    if (is(r, i, "type") && named && (sign(r, i + 2, '=') || sign(r, i + 2, '<'))) {
        uint32_t at = skip_angles(r, i + 2);
        uint32_t end = sign(r, at, '=') ? code_dotted(&r->s, at + 1, r->s.n, &r->words) : 0;
        (void)end;
        define(r, word(r, i + 1), NAME_VALUE, 0, exported);
        return at + 1;
    }
    if (is(r, i, "namespace") && named) return read_namespace(r, i + 1, exported);
    if (is(r, i, "module") && r->types && code_kind(&r->s, i + 1, TOKEN_STRING))
        return read_ambient(r, i + 1);
    if (is(r, i, "module") && named && r->types) return read_namespace(r, i + 1, exported);
    if (is(r, i, "const") || is(r, i, "let") || is(r, i, "var"))
        return read_variables(r, i + 1, exported);
    return i;
}

/* Statements at the depth of the file, and of namespaces. */
static void read_statements(scripts *r)
{
    for (uint32_t i = 0; i < r->s.n && !r->s.b->status;) {
        while (r->n_bodies && i + 1 >= r->bodies[r->n_bodies - 1].end) r->n_bodies--;
        uint32_t before = i;
        bool exported = false, begins = !i || r->s.t[i].first || sign(r, i - 1, ';') ||
                                        sign(r, i - 1, '}') || sign(r, i - 1, '{');
        if (begins && is(r, i, "import") && !r->n_bodies) i = read_import(r, i + 1);
        else if (begins && is(r, i, "export")) {
            if (r->n_bodies && sign(r, i + 1, '{')) i = code_after(&r->s, i + 1, r->s.n);
            else i = read_export(r, i + 1, &exported);
        }
        if (begins && is(r, i, "declare") && is(r, i + 1, "global")) i += 2;
        if (begins) i = read_definition(r, i, exported);
        if (i > before) continue;
        bool opens = r->s.t[i].kind == TOKEN_SIGN && token_opens(r->s.t[i].sign);
        i = opens ? code_after(&r->s, i, r->s.n) : i + 1;
    }
}

/* Declarations without a list of exports export everything. */
static void export_ambient(scripts *r)
{
    name_table *b = r->s.b;
    if (b->status || !r->types || r->has_list || !r->n_ambient) return;
    for (uint32_t i = names_scope_at(b, r->locals)->first; i && !b->status;) {
        const name_entry e = *names_entry_at(b, i - 1);
        view name = names_text(b, e.name);
        if (names_find(b, r->module, name) == NAMES_NONE) export_name(r, name, name);
        i = e.next;
    }
}

void script_read(name_table *b, uint32_t module, view text, bool types, script_find find,
                 void *user)
{
    scripts r = {.module = module, .types = types, .find = find, .user = user};
    r.words.max = CODE_FILE_BYTES_MAX;
    if (!code_open(&r.s, b, TOKENS_SCRIPT, text)) {
        names_open_scope(b, module);
        code_close(&r.s);
        return;
    }
    r.locals = names_scope(b, SCOPE_OPEN, VIEW(""), NAMES_NONE);
    if (!b->status) read_statements(&r);
    r.n_bodies = 0;
    if (!r.is_module && !types && !b->status) script_read_common(&r);
    export_ambient(&r);
    code_close(&r.s);
    bytes_free(&r.words);
}
