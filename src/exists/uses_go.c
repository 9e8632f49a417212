/* uses_go.c - imports of Go, and uses of packages by their names. */
#include "exists/go.h"
#include "exists/uses.h"

/* ---- imports ---- */

/* Is there a mark for the path, or for one above it? */
static bool has_mark(const uses_call *c, const char *mark, view path)
{
    char name[NAMES_WORD_MAX];
    index_name found;
    while (path.len) {
        int n = snprintf(name, sizeof name, "%s%.*s", mark, (int)path.len, path.ptr);
        if (n >= (int)sizeof name) return true;
        if (index_find(c->x, 0, (view){name, (size_t)n}, &found) == INDEX_THERE) return true;
        const char *slash = memrchr(path.ptr, '/', path.len);
        path.len = slash ? (size_t)(slash - path.ptr) : 0;
    }
    return false;
}

/* The package named by the string: only if the library was read, or a go.mod lists the modules. */
static index_answer find_package(const uses_call *c, view path, uint32_t *scope)
{
    view first = {path.ptr, 0};
    index_name found;
    if (!path.len || path.len >= NAMES_WORD_MAX - 3 || path.ptr[0] == '.' ||
        !uses_has_mark(c, "g!"))
        return INDEX_UNKNOWN;
    if (index_module(c->x, 'g', path, scope) == INDEX_THERE) return INDEX_THERE;
    if (view_equal(path, VIEW("C")) || has_mark(c, "mg", path)) return INDEX_UNKNOWN;
    if (has_mark(c, "dg", path)) return has_mark(c, "wg", path) ? INDEX_NOT : INDEX_UNKNOWN;
    while (first.len < path.len && path.ptr[first.len] != '/') first.len++;
    if (memchr(first.ptr, '.', first.len))
        return uses_has_mark(c, "gm") ? INDEX_NOT : INDEX_UNKNOWN;
    /* Without a go.mod it may be a package of GOPATH, unless it is in a folder of the library. */
    char top[NAMES_WORD_MAX];
    int n = snprintf(top, sizeof top, "g%.*s", (int)first.len, first.ptr);
    bool library = first.len < path.len &&
                   index_find(c->x, 0, (view){top, (size_t)n}, &found) == INDEX_THERE;
    return library || uses_has_mark(c, "gm") ? INDEX_NOT : INDEX_UNKNOWN;
}

/* "path" at i, after the name at `name` if that is before it. */
static void read_import(uses_call *c, uint32_t i)
{
    view path = uses_word(c, i), above = path;
    uint32_t scope = NAMES_NONE, beside = NAMES_NONE;
    index_answer a = find_package(c, path, &scope);
    const char *slash = memrchr(path.ptr, '/', path.len);
    above.len = slash ? (size_t)(slash - path.ptr) : 0;
    view last = slash ? (view){slash + 1, path.len - above.len - 1} : path;
    if (a == INDEX_NOT) {
        (void)index_module(c->x, 'g', above, &beside);
        uses_report(c, EXISTS_IMPORT, NAMES_NONE, i, i, above, last);
    }
    if (uses_sign(c, i - 1, '.')) return; /* its names have none before them */
    bool named = uses_name(c, i - 1) && !uses_is(c, i - 1, "import");
    view name = named ? uses_word(c, i - 1) : go_package_of(path);
    bool looked_into = a == INDEX_THERE && !(index_flags(c->x, scope) & SCOPE_OPEN);
    if (looked_into) uses_bind(c, name, NAME_SCOPE, scope);
    else uses_hide(c, name, INT32_MIN);
}

/* ---- names with another meaning here ---- */

/* The brace that opens the body of the function whose word is at i; c->n: not on this line. */
static uint32_t body_of(const uses_call *c, uint32_t i)
{
    for (uint32_t k = i + 1; k < c->n;) {
        bool type = uses_is(c, k - 1, "interface") || uses_is(c, k - 1, "struct");
        if (uses_sign(c, k, '{') && !type) return k;
        bool skips = uses_sign(c, k, '(') || uses_sign(c, k, '{');
        k = skips ? uses_after(c, k) : k + 1;
    }
    return c->n;
}

/* Parameters and results of the function at i hide names in its body. */
static void hide_parameters(uses_call *c, uint32_t i, uint32_t body)
{
    for (uint32_t k = i + 1; k < body; k++)
        if (uses_name(c, k) && !uses_sign(c, k + 1, '.') && !uses_sign(c, k - 1, '.'))
            uses_hide(c, uses_word(c, k), c->indent - 1);
}

/* a, b := ... and var a, b: until the block ends. */
static void hide_here(uses_call *c, uint32_t i)
{
    uses_hide(c, uses_word(c, i), c->indent - 1);
}

/* var ( a, b = ...  c T ): the names that begin the lines of the group at i. */
static void hide_group(uses_call *c, uint32_t i)
{
    for (uint32_t k = i + 1; k + 1 < uses_after(c, i); k++)
        if (c->t[k].first && uses_name(c, k)) {
            for (; uses_sign(c, k + 1, ',') && uses_name(c, k + 2); k += 2) hide_here(c, k);
            hide_here(c, k);
        }
}

static void hide_declared(uses_call *c, uint32_t i)
{
    if (uses_sign(c, i, SIGN_WALRUS))
        for (uint32_t k = i; k-- > 0 && (uses_name(c, k) || uses_sign(c, k, ','));)
            if (uses_name(c, k)) hide_here(c, k);
    bool declares = uses_is(c, i, "var") || uses_is(c, i, "const") || uses_is(c, i, "type");
    if (declares && c->indent && uses_sign(c, i + 1, '(')) hide_group(c, i + 1);
    for (uint32_t k = i + 1; declares && uses_name(c, k); k += 2) {
        hide_here(c, k);
        if (!uses_sign(c, k + 1, ',')) break;
    }
}

/* ---- the line ---- */

static void read_use(uses_call *c, uint32_t i)
{
    bool member = i && (uses_sign(c, i - 1, '.') || c->t[i - 1].kind == TOKEN_NUMBER);
    const uses_bound *b = !member && uses_sign(c, i + 1, '.') ? uses_bound_of(c, uses_word(c, i))
                                                              : NULL;
    if (b && b->kind == NAME_SCOPE) uses_chain(c, i, NAME_SCOPE, b->target);
}

/* The code after it is for some platform, or for none. */
static bool is_constraint(view line)
{
    return view_starts(line, VIEW("//go:build")) || view_starts(line, VIEW("// +build"));
}

void uses_go(uses_call *c)
{
    uses_state *s = c->s;
    c->indent = s->depth;
    s->guarded |= is_constraint(c->text);
    c->guards = s->guarded;
    uint32_t function = 0, body = c->n;
    for (uint32_t i = 0; i < c->n; i++) {
        bool first = !i || c->t[i].first || uses_sign(c, i - 1, ';');
        if (first && uses_is(c, i, "import") && !c->indent) {
            s->imports = uses_sign(c, i + 1, '(');
            for (uint32_t k = i + 1; !s->imports && k < c->n && k < i + 3; k++)
                if (c->t[k].kind == TOKEN_STRING) read_import(c, k);
            if (s->imports) i++;
            continue;
        }
        if (s->imports) {
            if (c->t[i].kind == TOKEN_STRING) read_import(c, i);
            if (uses_sign(c, i, ')')) s->imports = false;
            continue;
        }
        if (uses_sign(c, i, '{')) {
            c->indent++;
            if (i == body) hide_parameters(c, function, body);
        } else if (uses_sign(c, i, '}') && c->indent) {
            c->indent--;
            uses_show(c);
        }
        bool within = body < c->n && i < body; /* of parameters: a type */
        if (s->n_bound && uses_is(c, i, "func") && !within) {
            function = i;
            body = body_of(c, i);
        }
        if (s->n_bound) hide_declared(c, i);
        if (uses_name(c, i) && s->n_bound) read_use(c, i);
    }
    s->depth = c->indent;
}
