/* uses_java.c - imports of Java from the JDK's own packages. */
#include "exists/uses.h"

/* Other packages come from jars, which are not read. */
static bool is_of_jdk(view package)
{
    return view_starts(package, VIEW("java.")) && !view_starts(package, VIEW("java.ext"));
}

/* import [static] a.b.C.D; or a.b.*; the first word of the name is at i. */
static void read_import(uses_call *c, uint32_t i, bool is_static)
{
    char package[USES_NAME_BYTES] = "", name[USES_NAME_BYTES] = "";
    uint32_t scope, at = i, last = i;
    size_t n = 0, n_name = 0;
    index_name found;
    for (; uses_name(c, at); at += 2) {
        view word = uses_word(c, at);
        bool type = name_is_upper(word) || n_name;
        bool ends = !uses_sign(c, at + 1, '.');
        bool member = is_static && n_name && ends; /* a class's members are not looked up */
        if (!member && type) {
            n_name += (size_t)snprintf(name + n_name, sizeof name - n_name, "%s%.*s",
                                       n_name ? "$" : "", (int)word.len, word.ptr);
            last = at;
        } else if (!type)
            n += (size_t)snprintf(package + n, sizeof package - n, "%s%.*s", n ? "." : "",
                                  (int)word.len, word.ptr);
        if (n >= sizeof package || n_name >= sizeof name) return;
        if (ends) break;
    }
    view path = {package, n};
    bool known = index_find(c->x, 0, VIEW("v!"), &found) == INDEX_THERE;
    if (!known || !n) return;
    index_answer a = index_module(c->x, 'v', path, &scope);
    if (a == INDEX_NOT && is_of_jdk(path)) {
        const char *dot = memrchr(package, '.', n);
        uses_report(c, EXISTS_IMPORT, NAMES_NONE, i, last, (view){package, (size_t)(dot - package)},
                    view_of(dot + 1));
    } else if (a == INDEX_THERE && n_name &&
               index_find(c->x, scope, (view){name, n_name}, &found) == INDEX_NOT)
        uses_report(c, EXISTS_SYMBOL, scope, i, last, path, (view){name, n_name});
}

void uses_java(uses_call *c)
{
    for (uint32_t i = 0; i < c->n; i++) {
        bool first = !i || c->t[i].first || uses_sign(c, i - 1, ';');
        if (!first || !uses_is(c, i, "import")) continue;
        bool is_static = uses_is(c, i + 1, "static");
        read_import(c, i + 1 + is_static, is_static);
    }
}
