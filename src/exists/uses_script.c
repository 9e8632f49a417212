/* uses_script.c - statements of JavaScript and TypeScript: imports, require(), names, uses. */
#include "base/text.h"
#include "exists/known_packages.h"
#include "exists/uses.h"

static bool is_string(const uses_call *c, uint32_t i)
{
    return i < c->n && c->t[i].kind == TOKEN_STRING && c->t[i].plain;
}

/* ---- modules ---- */

/* Specifiers whose meaning comes from a program, a bundler or a configuration. */
static bool is_of_host(view s)
{
    static const char *const words[] = {"vscode", "electron", "k6", "atom", "bun", "deno",
                                        "obsidian",
                                        "server-only", "client-only", "astro", "figma", "photoshop",
                                        "uxp", "zx", "cypress", "fsevents", "electron/main",
                                        "electron/renderer", "webpack", "vite"};
    if (!s.len || strchr("./#~$\\", s.ptr[0]) || view_starts(s, VIEW("@/"))) return true;
    if (s.ptr[s.len - 1] == '/' || memchr(s.ptr, '?', s.len) || memchr(s.ptr, '!', s.len))
        return true;
    if (memchr(s.ptr, ':', s.len) && !view_starts(s, VIEW("node:"))) return true;
    if (view_is_one_of(s, words, ARRAY_LEN(words))) return true;
    for (size_t i = 0; i < s.len; i++)
        if ((unsigned char)s.ptr[i] <= ' ') return true;
    return false;
}

static view package_of(view s)
{
    size_t n = 0;
    for (uint32_t slashes = s.ptr[0] == '@' ? 0 : 1; n < s.len; n++)
        if (s.ptr[n] == '/' && ++slashes == 2) break;
    return (view){s.ptr, n};
}

/* The module that the string at i names.  INDEX_NOT was reported. */
static index_answer find_module(uses_call *c, uint32_t i, bool requires, uint32_t *scope)
{
    view s = uses_word(c, i), package;
    uint32_t above = NAMES_NONE;
    if (!is_string(c, i) || is_of_host(s) || s.len > 400) return INDEX_UNKNOWN;
    if (requires && index_module(c->x, 'r', s, scope) == INDEX_THERE) return INDEX_THERE;
    if (index_module(c->x, 'j', s, scope) == INDEX_THERE) return INDEX_THERE;
    package = package_of(s);
    bool node = view_starts(s, VIEW("node:"));
    if (!uses_has_mark(c, "jfs") || (!node && uses_has_mark(c, "j*"))) return INDEX_UNKNOWN;
    bool there = index_module(c->x, 'j', package, &above) == INDEX_THERE;
    if (there && index_flags(c->x, above) & SCOPE_OPEN) {
        index_name any; /* a package that could not be read; node's own modules are always known */
        if (index_find(c->x, above, VIEW("no such name"), &any) == INDEX_UNKNOWN)
            return INDEX_UNKNOWN;
    }
    bool known = there || node || uses_has_mark(c, "j!");
    if (!known && (!known_is_slip('j', package) || uses_is_declared(c, package)))
        return INDEX_UNKNOWN;
    view last = s, before = {NULL, 0};
    const char *slash = memrchr(s.ptr, '/', s.len);
    if (slash) {
        before = (view){s.ptr, (size_t)(slash - s.ptr)};
        last = (view){slash + 1, s.len - before.len - 1};
    }
    uint32_t n_before = c->n_out;
    uses_report(c, EXISTS_IMPORT, there ? above : NAMES_NONE, i, i, before, last);
    if (c->n_out > n_before) c->out[n_before].declared = !there && uses_is_declared(c, package);
    return INDEX_NOT;
}

/* A name taken from a module: bind it to its target. */
static index_name take(uses_call *c, index_answer a, uint32_t scope, view label, uint32_t i,
                       exists_kind kind)
{
    index_name found = {NAME_VALUE, 0};
    view name = uses_word(c, i);
    bool typed = c->language == GUARD_TYPESCRIPT || c->language == GUARD_TSX;
    if (a != INDEX_THERE || view_is(name, "default") || view_starts(name, VIEW("__"))) return found;
    bool of_types = typed && name_is_upper(name) && !(index_flags(c->x, scope) & SCOPE_TYPES);
    if (uses_find(c, scope, name, &found) == INDEX_NOT && !of_types)
        uses_report(c, kind, scope, i, i, label, name);
    return found;
}

static void bind(uses_call *c, view name, index_name to)
{
    if (to.kind == NAME_SCOPE) uses_bind(c, name, NAME_SCOPE, to.target);
    else uses_hide(c, name, c->indent ? c->indent - 1 : INT32_MIN);
}

/* { a as b, type C } of an import; { a: b, c = 1, ...d } of a pattern. */
static void read_names(uses_call *c, uint32_t i, index_answer a, uint32_t scope, view label,
                       bool pattern, exists_kind kind)
{
    uint32_t stop = uses_after(c, i);
    for (uint32_t k = i + 1; k + 1 < stop; k++) {
        bool begins = uses_sign(c, k - 1, '{') || uses_sign(c, k - 1, ',');
        if (!begins) continue;
        if (!pattern && uses_is(c, k, "type") && uses_name(c, k + 1) && !uses_is(c, k + 1, "as"))
            k++;
        if (uses_sign(c, k, SIGN_DOTS) && uses_name(c, k + 1)) {
            uses_hide(c, uses_word(c, k + 1), c->indent ? c->indent - 1 : INT32_MIN);
            continue;
        }
        if (!uses_name(c, k)) continue;
        bool optional = pattern && (uses_sign(c, k + 1, '=') || uses_sign(c, k + 3, '='));
        bool nested = pattern && uses_sign(c, k + 1, ':') && uses_sign(c, k + 2, '{');
        index_name found = take(c, optional ? INDEX_UNKNOWN : a, scope, label, k, kind);
        bool renamed = pattern ? uses_sign(c, k + 1, ':') : uses_is(c, k + 1, "as");
        uint32_t name = renamed ? k + 2 : k;
        if (uses_name(c, name)) bind(c, uses_word(c, name), found);
        if (nested || renamed) k = nested ? uses_after(c, k + 2) - 1 : k + 2;
    }
}

/* import a, { b } from 'm'; export { b } from 'm' */
static uint32_t read_import(uses_call *c, uint32_t i)
{
    uint32_t scope = NAMES_NONE, from = i + 1;
    bool exports = uses_is(c, i, "export");
    if (uses_sign(c, i + 1, '(') || uses_sign(c, i + 1, '.')) return i;
    if (is_string(c, i + 1)) {
        (void)find_module(c, i + 1, false, &scope);
        return i + 2;
    }
    while (from < c->n && !(uses_is(c, from, "from") && is_string(c, from + 1)) &&
           !uses_sign(c, from, ';') && !uses_sign(c, from, '(') && !uses_sign(c, from, '='))
        from++;
    if (!uses_is(c, from, "from")) return i + 1;
    bool types = uses_is(c, i + 1, "type") && !uses_is(c, i + 2, "from") &&
                 !uses_sign(c, i + 2, ',');
    view label = uses_word(c, from + 1);
    bool was = c->guards;
    index_answer a = find_module(c, from + 1, false, &scope);
    uint32_t at = i + 1 + types;
    if (types && a == INDEX_THERE && !(index_flags(c->x, scope) & SCOPE_TYPES)) a = INDEX_UNKNOWN;
    if (uses_name(c, at) && !exports && !uses_is(c, at, "from")) {
        index_name found = {NAME_VALUE, 0};
        if (a == INDEX_THERE) (void)index_find(c->x, scope, VIEW("default"), &found);
        bind(c, uses_word(c, at), found);
        at += uses_sign(c, at + 1, ',') ? 2 : 1;
    }
    if (uses_sign(c, at, '*') && uses_is(c, at + 1, "as") && uses_name(c, at + 2) && !exports)
        bind(c, uses_word(c, at + 2),
             (index_name){a == INDEX_THERE ? NAME_SCOPE : NAME_VALUE, scope});
    if (uses_sign(c, at, '{') && !exports) read_names(c, at, a, scope, label, false, EXISTS_SYMBOL);
    if (uses_sign(c, at, '{') && exports) {
        uint32_t stop = uses_after(c, at);
        for (uint32_t k = at + 1; k + 1 < stop; k++)
            if (uses_name(c, k) && (uses_sign(c, k - 1, '{') || uses_sign(c, k - 1, ',')) &&
                !uses_is(c, k, "type"))
                (void)take(c, a, scope, label, k, EXISTS_SYMBOL);
    }
    c->guards = was;
    return from + 2;
}

/* require('m') or import('m') whose word is at i: the position after it; i: it is none. */
static uint32_t read_require(uses_call *c, uint32_t i, index_answer *a, uint32_t *scope)
{
    bool requires = uses_is(c, i, "require"), imports = uses_is(c, i, "import");
    if ((!requires && !imports) || !uses_sign(c, i + 1, '(') || !is_string(c, i + 2)) return i;
    if (i && uses_sign(c, i - 1, '.')) return i;
    bool was = c->guards;
    uint32_t end = uses_after(c, i + 1);
    bool waits = i && uses_is(c, i - 1, "await");
    c->guards |= imports && (!waits || uses_is(c, end + 1, "catch"));
    *a = find_module(c, i + 2, requires, scope);
    c->guards = was;
    if (imports && !waits) *a = INDEX_UNKNOWN; /* a promise */
    return end;
}

/* ---- bound names ---- */

static void hide_group(uses_call *c, uint32_t i, int32_t until)
{
    uint32_t stop = uses_after(c, i);
    for (uint32_t k = i; k < stop; k++) {
        if (!uses_name(c, k) || uses_sign(c, k + 1, '.') || uses_sign(c, k - 1, '.')) continue;
        bool value = k && uses_sign(c, k - 1, '=');
        if (!value) uses_hide(c, uses_word(c, k), until);
    }
}

/* Is the bracket at k one of parameters?  ( ... ) =>, function f( ... ), name( ... ) { */
static bool is_parameters(const uses_call *c, uint32_t k, uint32_t *stop)
{
    static const char *const heads[] = {"if", "for", "while", "switch", "with", "return", "await",
                                        "typeof"};
    *stop = uses_after(c, k);
    if (uses_sign(c, *stop, SIGN_ARROW)) return true;
    if (k && (uses_is(c, k - 1, "function") || uses_is(c, k - 1, "catch"))) return true;
    if (k > 1 && (uses_is(c, k - 2, "function") || uses_sign(c, k - 2, '*'))) return true;
    bool named = k && uses_name(c, k - 1) && !(k > 1 && uses_sign(c, k - 2, '.'));
    for (size_t m = 0; m < ARRAY_LEN(heads) && named; m++) named = !uses_is(c, k - 1, heads[m]);
    if (named && uses_sign(c, *stop, '{')) return true;
    if (!uses_sign(c, *stop, ':')) return false;
    /* A type may be between; else it is a conditional expression. */
    for (uint32_t m = *stop; m < c->n && m < *stop + 64 && !uses_sign(c, m, ';'); m++)
        if (uses_sign(c, m, SIGN_ARROW) || (uses_sign(c, m, '{') && named)) return true;
    return false;
}

/* Parameters that begin at k hide names within their function. */
static void hide_parameters(uses_call *c, uint32_t k)
{
    uint32_t stop;
    if (uses_name(c, k) && uses_sign(c, k + 1, SIGN_ARROW)) {
        bool block = uses_sign(c, k + 2, '{');
        uses_hide(c, uses_word(c, k), block ? c->indent : c->indent - 1);
    }
    if (!uses_sign(c, k, '(') || !is_parameters(c, k, &stop)) return;
    bool block = !uses_sign(c, stop, SIGN_ARROW) || uses_sign(c, stop + 1, '{');
    hide_group(c, k, block ? c->indent : c->indent - 1);
}

/* typeof x.y === "undefined", "y" in x: a test for existence. */
static bool is_type_query(const uses_call *c, uint32_t k)
{
    if (uses_is(c, k, "in")) return k && c->t[k - 1].kind == TOKEN_STRING;
    if (!uses_is(c, k, "typeof")) return false;
    for (uint32_t m = k + 1; m < c->n && m < k + 12; m++) {
        if (c->t[m].kind != TOKEN_STRING || !uses_sign(c, m - 1, SIGN_COMPARE)) continue;
        view word = uses_word(c, m);
        return view_is(word, "undefined") || view_is(word, "function") || view_is(word, "object");
    }
    return false;
}

/* Is the value that begins at i, of one line, a test for what exists? */
static bool holds_test(const uses_call *c, uint32_t i)
{
    for (uint32_t k = i; k < c->n && !uses_sign(c, k, ';') && (k == i || !c->t[k].first); k++)
        if (is_type_query(c, k) || uses_is(c, k, "isFunction")) return true;
    return false;
}

/* const x = require('m').y, { a } = x; for (const x of ...) */
static void read_variables(uses_call *c, uint32_t i)
{
    uint32_t at = i + 1, scope = NAMES_NONE;
    index_answer a = INDEX_UNKNOWN;
    if (uses_sign(c, at, '{')) {
        uint32_t stop = uses_after(c, at), value = stop + 1;
        bool gets = uses_sign(c, stop, '=');
        if (uses_is(c, value, "await")) value++;
        uint32_t end = gets ? read_require(c, value, &a, &scope) : value;
        bool whole = end > value && !uses_sign(c, end, '.') && !uses_sign(c, end, '(');
        if (whole) {
            read_names(c, at, a, scope, uses_word(c, value + 2), true, EXISTS_SYMBOL);
            return;
        }
        const uses_bound *b = gets && uses_name(c, value) && value == stop + 1
                                   ? uses_bound_of(c, uses_word(c, value)) : NULL;
        bool alone = b && b->kind == NAME_SCOPE &&
                     (value + 1 == c->n || uses_sign(c, value + 1, ';') || c->t[value + 1].first);
        if (alone)
            read_names(c, at, INDEX_THERE, b->target, index_label(c->x, b->target), true,
                       EXISTS_ATTRIBUTE);
        else read_names(c, at, INDEX_UNKNOWN, 0, (view){NULL, 0}, true, EXISTS_SYMBOL);
        return;
    }
    if (uses_sign(c, at, '[')) {
        uint32_t stop = uses_after(c, at);
        for (uint32_t k = at; k < stop; k++)
            if (uses_name(c, k)) uses_hide_here(c, uses_word(c, k));
        return;
    }
    if (!uses_name(c, at)) return;
    uint32_t value = at + 2;
    if (uses_sign(c, at + 1, '=') && uses_is(c, value, "await")) value++;
    uint32_t end = uses_sign(c, at + 1, '=') ? read_require(c, value, &a, &scope) : value;
    index_name found = {NAME_VALUE, 0};
    bool whole = end > value && a == INDEX_THERE && !uses_sign(c, end, '(');
    if (whole) found = (index_name){NAME_SCOPE, scope};
    if (whole && uses_sign(c, end, '.') && uses_name(c, end + 1)) {
        bool last = !uses_sign(c, end + 2, '.') && !uses_sign(c, end + 2, '(');
        found = take(c, a, scope, uses_word(c, value + 2), end + 1, EXISTS_ATTRIBUTE);
        if (!last) found.kind = NAME_VALUE;
    }
    bind(c, uses_word(c, at), found);
    if (uses_sign(c, at + 1, '=') && holds_test(c, value)) uses_note_test(c, at);
}

/* ---- blocks ---- */

static bool is_guard(const uses_call *c, uint32_t i)
{
    uint32_t stop = uses_after(c, i);
    if (!(c->marks & (MARK_ASKS | MARK_TESTS)) && !c->s->tests) return false; /* as most */
    for (uint32_t k = i; k < stop; k++)
        if (is_type_query(c, k) || uses_marked(c, k, MARK_TESTS) || uses_is_test(c, k))
            return true;
    return false;
}

static void open_block(uses_call *c, bool guards)
{
    uses_state *s = c->s;
    c->indent++;
    if (!guards) return;
    if (s->n_blocks == USES_BLOCKS_MAX) s->guarded = true;
    else s->blocks[s->n_blocks++] = (uses_block){c->indent, 0, true, false};
}

static void close_block(uses_call *c)
{
    uses_state *s = c->s;
    s->was_guard = s->n_blocks && s->blocks[s->n_blocks - 1].indent == c->indent;
    if (s->was_guard) s->n_blocks--;
    if (c->indent) c->indent--;
    if (s->n_bound) uses_show(c);
    s->was_indent = c->indent;
}

/* ---- the line ---- */

static bool begins(const uses_call *c, uint32_t i)
{
    return !i || c->t[i].first || uses_sign(c, i - 1, ';') || uses_sign(c, i - 1, '}') ||
           uses_sign(c, i - 1, '{') || uses_sign(c, i - 1, ')') || uses_is(c, i - 1, "export");
}

static bool is_variable(const uses_call *c, uint32_t i)
{
    return uses_marked(c, i, MARK_BINDS); /* const let var using */
}

/* "y" in x: the name may exist from here on. */
static void note_test(uses_call *c, uint32_t i, const uses_bound *b)
{
    bool within = i > 1 && uses_is(c, i - 1, "in") && is_string(c, i - 2);
    if (within && b && b->kind == NAME_SCOPE) uses_patch(c, b->target, uses_word(c, i - 2));
}

/* The word at i as a used name. */
static void read_use(uses_call *c, uint32_t i)
{
    if (c->marks & MARK_ASKS) note_test(c, i, uses_bound_of(c, uses_word(c, i)));
    if (i && (uses_sign(c, i - 1, '.') || uses_sign(c, i - 1, SIGN_MAYBE))) return;
    const uses_bound *b = uses_sign(c, i + 1, '.') ? uses_bound_of(c, uses_word(c, i)) : NULL;
    if (b && b->kind == NAME_SCOPE) {
        bool was = c->guards;
        for (uint32_t k = 0; k < i && !c->guards && c->marks & MARK_ASKS; k++)
            c->guards = is_type_query(c, k);
        uses_chain(c, i, NAME_SCOPE, b->target);
        c->guards = was;
    }
    bool stores = uses_sign(c, i + 1, '=') && begins(c, i);
    if (stores) uses_hide_here(c, uses_word(c, i));
}

/* Words that open a block, or decide about the next one. */
static void read_head(uses_call *c, uint32_t i, bool *pending)
{
    const uses_state *s = c->s;
    if (uses_is(c, i, "try")) *pending = true;
    if (uses_is(c, i, "catch") && s->was_guard) *pending = true;
    if (uses_is(c, i, "else") && s->was_guard && s->was_indent == c->indent) *pending = true;
    if (uses_is(c, i, "if") && uses_sign(c, i + 1, '(')) *pending |= is_guard(c, i + 1);
}

/* require('m').name that no variable gets: those are read with it. */
static void read_required(uses_call *c, uint32_t i)
{
    uint32_t scope = NAMES_NONE;
    index_answer a = INDEX_UNKNOWN;
    bool assigned = i > 1 && uses_sign(c, i - 1, '=') &&
                    (is_variable(c, i > 2 ? i - 3 : 0) || uses_sign(c, i - 2, '}'));
    bool awaited = i > 2 && uses_is(c, i - 1, "await") && uses_sign(c, i - 2, '=');
    if (assigned || awaited) return;
    uint32_t end = read_require(c, i, &a, &scope);
    bool member = end > i && a == INDEX_THERE && uses_sign(c, end, '.') && uses_name(c, end + 1);
    if (member) (void)take(c, a, scope, uses_word(c, i + 2), end + 1, EXISTS_ATTRIBUTE);
}

void uses_script(uses_call *c)
{
    uses_state *s = c->s;
    bool pending = false; /* the next brace opens a block that guards */
    c->indent = s->depth;
    for (uint32_t i = 0; i < c->n; i++) {
        if (s->n_bound) hide_parameters(c, i);
        c->guards = s->guarded || s->n_blocks > 0;
        if (uses_sign(c, i, '{')) {
            open_block(c, pending);
            pending = false;
        } else if (uses_sign(c, i, '}')) close_block(c);
        if (!uses_name(c, i)) continue;
        if (uses_marked(c, i, MARK_IF)) read_head(c, i, &pending);
        if (uses_marked(c, i, MARK_MODULE) && !uses_is(c, i, "require") && begins(c, i)) {
            uint32_t next = read_import(c, i);
            if (next > i + 1) {
                i = next - 1;
                continue;
            }
        }
        if (uses_marked(c, i, MARK_BINDS)) read_variables(c, i);
        if (uses_marked(c, i, MARK_MODULE)) read_required(c, i);
        if (s->n_bound) read_use(c, i);
    }
    s->depth = c->indent;
}
