/* uses_python.c - statements of Python: guarding blocks, imports, bound names, uses. */
#include "base/text.h"
#include "exists/known_packages.h"
#include "exists/uses.h"

enum { BLOCK_BRANCH = 0, BLOCK_FUNCTION = 1, BLOCK_CLASS = 2, BLOCK_TRY = 3 };

/* ---- blocks ---- */

static void flush_pending(uses_call *c, int32_t indent)
{
    uses_state *s = c->s;
    uint32_t n = 0;
    for (uint32_t i = 0; i < s->n_pending; i++) {
        if (s->pending[i].indent < indent) s->pending[n++] = s->pending[i];
        else if (c->n_out < USES_FINDINGS_MAX) {
            s->pending[i].f.late = true;
            c->out[c->n_out++] = s->pending[i].f;
        }
    }
    s->n_pending = n;
}

static void drop_pending(uses_state *s, int32_t indent)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < s->n_pending; i++)
        if (s->pending[i].indent != indent) s->pending[n++] = s->pending[i];
    s->n_pending = n;
}

static void push_block(uses_call *c, uint8_t kind, bool guards)
{
    uses_state *s = c->s;
    if (s->n_blocks == USES_BLOCKS_MAX) {
        s->guarded = true; /* too deep to know */
        return;
    }
    s->blocks[s->n_blocks++] = (uses_block){c->indent, kind, guards, false};
}

/* A block ends: if it left under a condition, the code after it is for the other case. */
static void pop_blocks(uses_call *c, bool continues)
{
    uses_state *s = c->s;
    s->was_guard = false;
    s->was_indent = -1;
    while (s->n_blocks && s->blocks[s->n_blocks - 1].indent >= c->indent) {
        const uses_block *b = &s->blocks[--s->n_blocks];
        if (b->indent == c->indent) {
            s->was_guard = b->guards;
            s->was_indent = b->indent;
        }
        if (b->guards && b->leaves && b->kind == BLOCK_BRANCH && !continues) {
            if (s->n_blocks) s->blocks[s->n_blocks - 1].guards = true;
            else s->guarded = true;
        }
    }
    if (!continues) flush_pending(c, c->indent);
}

static void look_around(uses_call *c)
{
    const uses_state *s = c->s;
    c->guards = s->guarded;
    c->try_indent = -1;
    for (uint32_t i = 0; i < s->n_blocks; i++) {
        c->guards |= s->blocks[i].guards;
        if (s->blocks[i].kind == BLOCK_TRY) c->try_indent = s->blocks[i].indent;
        if (s->blocks[i].kind == BLOCK_FUNCTION) c->try_indent = -1;
    }
}

/* A condition that tests for a platform, a version, or existence. */
static bool is_guard(const uses_call *c, uint32_t i, uint32_t end)
{
    if (!(c->marks & (MARK_TESTS | MARK_OTHER)) && !c->s->tests) return false; /* as most */
    for (; i < end; i++) {
        bool os = uses_is(c, i, "os") && uses_sign(c, i + 1, '.') && uses_is(c, i + 2, "name");
        if (os || uses_marked(c, i, MARK_TESTS) || uses_is_test(c, i)) return true;
    }
    return false;
}

/* The same within one expression: x if hasattr(os, "y") else z. */
static bool is_guarded_line(const uses_call *c, uint32_t i, uint32_t end)
{
    bool chooses = false;
    if (!(c->marks & (MARK_IF | MARK_ASKS))) return false; /* as most */
    if (uses_marked(c, i, MARK_ASKS) && uses_sign(c, i + 1, '(')) return true; /* raises(...) */
    for (uint32_t k = i + 1; k < end; k++) {
        chooses |= uses_marked(c, k, MARK_IF);
        if (uses_marked(c, k, MARK_ASKS)) return true;
    }
    return chooses && is_guard(c, i, end);
}

/* A handler of the errors for missing names. */
static bool handles(const uses_call *c, uint32_t i, uint32_t end)
{
    static const char *const words[] = {"ImportError", "ModuleNotFoundError", "AttributeError",
                                        "NameError", "Exception", "BaseException", "TypeError"};
    if (i + 1 >= end) return true; /* all */
    for (; i < end; i++)
        for (size_t k = 0; k < ARRAY_LEN(words); k++)
            if (uses_is(c, i, words[k])) return true;
    return false;
}

/* ---- imports ---- */

/* A module without a package: of a program that embeds Python. */
static bool is_of_host(view name)
{
    static const char *const words[] = {
        "bpy", "bmesh", "mathutils", "maya", "pymel", "uwsgi", "js", "pyodide", "gi", "gimpfu",
        "gimp", "unreal", "hou", "nuke", "sublime", "sublime_plugin", "xbmc", "xbmcgui", "machine",
        "network", "utime", "uos", "ubinascii", "ujson", "usocket", "micropython", "board",
        "digitalio", "_typeshed", "idaapi", "idc", "idautils", "ghidra", "lldb", "gdb", "vim",
        "weechat", "FreeCAD", "adsk", "arcpy", "rhinoscriptsyntax", "Rhino", "clr", "System",
        "java", "javax", "org", "conftest", "__main__", "dbutils", "_pytest", "pip", "setuptools",
        "pkg_resources", "distutils", "wheel", "google", "jnius", "android", "rubicon",
        "ida_hexrays", "cython"};
    return view_is_one_of(name, words, ARRAY_LEN(words));
}

/* Is a package that was not found unknown, rather than missing? */
static bool is_unknown_package(uses_call *c, view name)
{
    if (uses_has_mark(c, "p*") || !uses_has_mark(c, "pos") || is_of_host(name)) return true;
    return !uses_has_mark(c, "p!") && (!known_is_slip('p', name) || uses_is_declared(c, name));
}

/* The module of the words [i, end): INDEX_NOT was reported. */
static index_answer find_module(uses_call *c, uint32_t i, uint32_t end, uint32_t *scope)
{
    char path[NAMES_WORD_MAX];
    size_t n = 0;
    for (uint32_t k = i; k < end; k += 2) {
        view word = uses_word(c, k);
        index_name as_name;
        uint32_t found, above = *scope;
        if (n + word.len + 2 > sizeof path) return INDEX_UNKNOWN;
        if (n) path[n++] = '.';
        memcpy(path + n, word.ptr, word.len);
        n += word.len;
        index_answer a = index_module(c->x, 'p', (view){path, n}, &found);
        if (a == INDEX_THERE) {
            *scope = found;
            continue;
        }
        if (k == i && is_unknown_package(c, word)) return INDEX_UNKNOWN;
        if (k > i) {
            if (index_flags(c->x, above) & SCOPE_OPEN) return INDEX_UNKNOWN;
            if (index_find(c->x, above, VIEW("__path__"), &as_name) == INDEX_THERE &&
                !(index_flags(c->x, above) & SCOPE_PACKAGE))
                return INDEX_UNKNOWN;
            a = index_find(c->x, above, word, &as_name);
            if (a == INDEX_UNKNOWN) return a;
            if (a == INDEX_THERE) { /* os.path */
                if (as_name.kind != NAME_SCOPE) return INDEX_UNKNOWN;
                *scope = as_name.target;
                continue;
            }
        }
        view last = uses_word(c, end - 1);
        view before = {uses_word(c, i).ptr,
                       (size_t)(last.ptr - uses_word(c, i).ptr) - (end - 1 > i)};
        if (end - 1 == i) before.len = 0;
        uint32_t n_before = c->n_out, held = c->s->n_pending;
        uses_report(c, EXISTS_IMPORT, k == i ? NAMES_NONE : above, i, end - 1, before, last);
        bool declared = k == i && uses_is_declared(c, word);
        if (c->n_out > n_before) c->out[n_before].declared = declared;
        if (c->s->n_pending > held) c->s->pending[held].f.declared = declared;
        return INDEX_NOT;
    }
    return INDEX_THERE;
}

static uint32_t dotted_end(const uses_call *c, uint32_t i, uint32_t end)
{
    if (!uses_name(c, i)) return i;
    for (i++; i + 1 < end && uses_sign(c, i, '.') && uses_name(c, i + 1);) i += 2;
    return i;
}

/* import a.b as c, d */
static void read_import(uses_call *c, uint32_t i, uint32_t end)
{
    while (i < end && uses_name(c, i)) {
        uint32_t stop = dotted_end(c, i, end), scope = NAMES_NONE, top = NAMES_NONE;
        index_answer a = find_module(c, i, stop, &scope);
        bool renamed = uses_is(c, stop, "as") && uses_name(c, stop + 1);
        view name = uses_word(c, renamed ? stop + 1 : i);
        if (!renamed && a == INDEX_THERE) a = index_module(c->x, 'p', uses_word(c, i), &top);
        if (a == INDEX_THERE && !c->guards)
            uses_bind(c, name, NAME_SCOPE, renamed ? scope : top);
        else uses_hide_here(c, name);
        i = stop + (renamed ? 2 : 0);
        if (!uses_sign(c, i, ',')) return;
        i++;
    }
}

/* from a.b import c as d, ... */
static void read_from(uses_call *c, uint32_t i, uint32_t end)
{
    uint32_t scope = NAMES_NONE;
    bool relative = uses_sign(c, i, '.') || uses_sign(c, i, SIGN_DOTS);
    while (uses_sign(c, i, '.') || uses_sign(c, i, SIGN_DOTS)) i++;
    uint32_t stop = uses_is(c, i, "import") ? i : dotted_end(c, i, end);
    if (!uses_is(c, stop, "import") || view_is(uses_word(c, i), "__future__")) return;
    const bool named = !relative && stop > i; /* not `from import x` */
    index_answer a = named ? find_module(c, i, stop, &scope) : INDEX_UNKNOWN;
    view label = {NULL, 0};
    if (a == INDEX_THERE)
        label = (view){uses_word(c, i).ptr, (size_t)(c->text.ptr + c->t[stop - 1].end -
                                                       uses_word(c, i).ptr)};
    for (i = stop + 1; i < end; i++) {
        if (!uses_name(c, i)) continue;
        view member = uses_word(c, i), name = member;
        index_name found = {NAME_VALUE, 0};
        uint32_t at = i;
        if (uses_is(c, i + 1, "as") && uses_name(c, i + 2)) name = uses_word(c, i += 2);
        bool dunder = view_starts(member, VIEW("__")) ||
                      (view_starts(member, VIEW("_")) && a == INDEX_THERE &&
                       index_flags(c->x, scope) & SCOPE_NATIVE);
        index_answer got = a == INDEX_THERE ? uses_find(c, scope, member, &found) : INDEX_UNKNOWN;
        if (got == INDEX_NOT && !dunder)
            uses_report(c, EXISTS_SYMBOL, scope, at, at, label, member);
        if (got == INDEX_THERE && found.kind != NAME_VALUE && !c->guards)
            uses_bind(c, name, (name_kind)found.kind, found.target);
        else uses_hide_here(c, name);
    }
}

/* ---- bound names ---- */

/* The innermost function's indent, below which a name has another meaning; INT32_MIN:
 * everywhere. */
static int32_t bound_until(const uses_call *c)
{
    for (uint32_t i = c->s->n_blocks; i-- > 0;)
        if (c->s->blocks[i].kind == BLOCK_FUNCTION || c->s->blocks[i].kind == BLOCK_CLASS)
            return c->s->blocks[i].indent;
    return INT32_MIN;
}

static void hide_targets(uses_call *c, uint32_t i, uint32_t end, int32_t until)
{
    for (uint32_t k = i; k < end; k++) {
        if (!uses_name(c, k) || (k > i && uses_sign(c, k - 1, '.'))) continue;
        bool leads = uses_sign(c, k + 1, '.') || uses_sign(c, k + 1, '(') ||
                     uses_sign(c, k + 1, '[');
        if (!leads || k + 1 >= end) uses_hide(c, uses_word(c, k), until);
    }
}

/* x = ..., for x in, with ... as x, x := ..., lambda x: ... */
static void hide_bound(uses_call *c, uint32_t i, uint32_t end)
{
    int32_t depth = 0, until = bound_until(c);
    uint32_t from = i;
    if (!(c->marks & MARK_BINDS) && !uses_sign(c, i + 1, ':')) return; /* as many */
    for (uint32_t k = i; k < end && c->s->n_bound; k++) {
        const code_token *t = &c->t[k];
        depth += depth || t->turn > 0 ? t->turn : 0;
        bool typed = k == i + 1 && !depth && token_sign(t, ':');
        if (!typed && !uses_marked(c, k, MARK_BINDS)) continue; /* as most */
        if (uses_is(c, k, "for") || uses_is(c, k, "lambda")) {
            uint32_t stop = k + 1;
            bool loops = uses_is(c, k, "for");
            while (stop < end && !(loops ? uses_is(c, stop, "in") : uses_sign(c, stop, ':')))
                stop++;
            /* In a comprehension: for this line. */
            hide_targets(c, k + 1, stop, depth || !loops ? c->indent - 1 : until);
        }
        if (token_sign(t, SIGN_WALRUS) && k > i) hide_targets(c, k - 1, k, until);
        if (uses_is(c, k, "as") && k > i)
            hide_targets(c, k + 1, k + 2 < end ? k + 2 : end, until);
        if (depth) continue;
        if (token_sign(t, '=') || token_sign(t, SIGN_UPDATE) || typed) {
            hide_targets(c, from, k, until);
            from = k + 1;
        }
    }
}

static void hide_parameters(uses_call *c, uint32_t i, uint32_t end)
{
    uint32_t stop = uses_after(c, i), depth = 0;
    for (uint32_t k = i; k < stop && k < end; k++) {
        const code_token *t = &c->t[k];
        depth += (uint32_t)t->turn;
        bool first = depth == 1 && t->kind == TOKEN_NAME &&
                     (uses_sign(c, k - 1, '(') || uses_sign(c, k - 1, ',') ||
                      uses_sign(c, k - 1, '*') || uses_sign(c, k - 1, SIGN_POWER));
        if (first) uses_hide(c, uses_word(c, k), c->indent);
    }
}

/* NEW = sys.version_info >= (3, 8) */
static void note_test(uses_call *c, uint32_t i, uint32_t end)
{
    if (!(c->marks & MARK_ASKS) || !uses_name(c, i) || !uses_sign(c, i + 1, '=')) return;
    for (uint32_t k = i + 2; k < end; k++)
        if (uses_marked(c, k, MARK_ASKS)) {
            uses_note_test(c, i);
            return;
        }
}

/* ---- statements ---- */

static void read_uses(uses_call *c, uint32_t i, uint32_t end)
{
    bool guarded = c->guards;
    if (!c->s->n_bound) return;
    c->guards |= is_guarded_line(c, i, end);
    for (uint32_t k = i; k < end; k++) {
        if (!uses_may_be_bound(c, k) || (k && uses_sign(c, k - 1, '.'))) continue; /* as most */
        const uses_bound *b = uses_bound_of(c, uses_word(c, k));
        if (!b || (uses_sign(c, k + 1, '=') && k > i)) continue;
        uses_chain(c, k, (name_kind)b->kind, b->target);
    }
    c->guards = guarded;
}

static bool is_head(const uses_call *c, uint32_t i)
{
    static const char *const words[] = {"if", "elif", "else", "for", "while", "try", "except",
                                        "finally", "with", "def", "class"};
    if (!uses_marked(c, i, MARK_HEAD)) return false; /* as most */
    for (size_t k = 0; k < ARRAY_LEN(words); k++)
        if (uses_is(c, i, words[k])) return true;
    bool soft = uses_is(c, i, "match") || uses_is(c, i, "case");
    return soft && (uses_name(c, i + 1) || (i + 1 < c->n && c->t[i + 1].kind == TOKEN_STRING));
}

static void read_head(uses_call *c, uint32_t i, uint32_t end)
{
    uses_state *s = c->s;
    bool branch = uses_is(c, i, "else") || uses_is(c, i, "elif") || uses_is(c, i, "except") ||
                  uses_is(c, i, "finally");
    bool same = branch && s->was_indent == c->indent && s->was_guard;
    if (uses_is(c, i, "def")) {
        uses_hide(c, uses_word(c, i + 1), bound_until(c));
        read_uses(c, i + 2, end);
        if (uses_sign(c, i + 2, '(')) hide_parameters(c, i + 2, end);
        push_block(c, BLOCK_FUNCTION, false);
        return;
    }
    if (uses_is(c, i, "class")) {
        uses_hide(c, uses_word(c, i + 1), bound_until(c));
        read_uses(c, i + 2, end);
        push_block(c, BLOCK_CLASS, false);
        return;
    }
    if (uses_is(c, i, "try")) {
        push_block(c, BLOCK_TRY, false);
        return;
    }
    if (uses_is(c, i, "except")) {
        bool caught = handles(c, i, end);
        if (caught) drop_pending(s, c->indent);
        push_block(c, BLOCK_BRANCH, caught);
        return;
    }
    if (uses_is(c, i, "else") || uses_is(c, i, "finally")) flush_pending(c, c->indent);
    hide_bound(c, i, end);
    bool guards = is_guard(c, i + 1, end) || (same && !uses_is(c, i, "finally"));
    bool was = c->guards;
    c->guards |= guards;
    read_uses(c, i + 1, end);
    c->guards = was;
    push_block(c, BLOCK_BRANCH, guards);
}

static void note_leaving(uses_call *c, uint32_t i, uint32_t end)
{
    uses_state *s = c->s;
    static const char *const words[] = {"return", "raise", "continue", "break"};
    if (!s->n_blocks) return;
    bool leaves = false;
    for (size_t k = 0; k < ARRAY_LEN(words) && uses_marked(c, i, MARK_HEAD); k++)
        leaves |= uses_is(c, i, words[k]);
    for (uint32_t k = i; k < end && c->marks & MARK_OTHER; k++)
        leaves |= uses_is(c, k, "exit") || uses_is(c, k, "skip");
    s->blocks[s->n_blocks - 1].leaves = leaves;
}

/* setattr(module, ...), pytest.importorskip("x"): from there on any name may exist. */
static void note_setattr(uses_call *c, uint32_t i, uint32_t end)
{
    for (uint32_t k = i; k + 2 < end && c->marks & MARK_OTHER; k++)
        if ((uses_is(c, k, "setattr") || uses_is(c, k, "delattr")) && uses_sign(c, k + 1, '(') &&
            uses_name(c, k + 2) && uses_sign(c, k + 3, ','))
            uses_hide(c, uses_word(c, k + 2), INT32_MIN);
}

static uint32_t read_statement(uses_call *c, uint32_t i)
{
    uint32_t colon;
    if (uses_is(c, i, "async")) i++;
    bool head = is_head(c, i);
    uint32_t end = tokens_statement_end(c->text, c->t, c->n, i, head, &colon);
    look_around(c);
    if (head && colon) {
        read_head(c, i, end);
        return end;
    }
    note_leaving(c, i, end);
    if (uses_is(c, i, "assert") && is_guard(c, i, end)) { /* what follows is for that case */
        if (c->s->n_blocks) c->s->blocks[c->s->n_blocks - 1].guards = true;
        else c->s->guarded = true;
    }
    if (uses_is(c, i, "import")) read_import(c, i + 1, end);
    else if (uses_is(c, i, "from")) read_from(c, i + 1, end);
    else {
        hide_bound(c, i, end);
        read_uses(c, i, end);
        note_setattr(c, i, end);
        note_test(c, i, end);
    }
    return end;
}

void uses_python(uses_call *c)
{
    for (uint32_t i = 0; i < c->n;) {
        const code_token *t = &c->t[i];
        if (t->kind == TOKEN_LINE || token_sign(t, ';') || token_sign(t, ':')) {
            if (t->sign == ':') c->indent++;
            i++;
            continue;
        }
        if (t->first) {
            bool continues = uses_marked(c, i, MARK_HEAD) &&
                             (uses_is(c, i, "except") || uses_is(c, i, "else") ||
                              uses_is(c, i, "elif") || uses_is(c, i, "finally"));
            c->indent = t->indent;
            pop_blocks(c, continues);
        }
        uint32_t next = read_statement(c, i);
        i = next > i ? next : i + 1;
    }
}
