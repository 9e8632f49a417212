/* go_read.c - the exports of a package of Go: the names that its files declare outside of
 * functions.
 *
 * Files of all platforms are read as one, so names of other platforms count, too. */
#include "exists/go.h"

static bool is_exported(view name)
{
    return name.len && ((name.ptr[0] >= 'A' && name.ptr[0] <= 'Z') ||
                        (unsigned char)name.ptr[0] >= 0x80);
}

view go_package_of(view path)
{
    for (;;) {
        const char *slash = memrchr(path.ptr, '/', path.len);
        view last = slash ? (view){slash + 1, path.len - (size_t)(slash + 1 - path.ptr)} : path;
        size_t digits = 1;
        while (digits < last.len && last.ptr[digits] >= '0' && last.ptr[digits] <= '9') digits++;
        bool version = slash && last.len > 1 && last.ptr[0] == 'v' && digits == last.len;
        if (!version) return last;
        path.len = (size_t)(slash - path.ptr);
    }
}

/* After `package`: a file of tests beside the package is not part of it. */
static bool belongs(const code_file *s, view path, bool *renamed)
{
    static const view beside = {"_test", 5};
    uint32_t i = 0;
    while (i < s->n && !(s->t[i].first && code_is(s, i, "package"))) i++;
    if (!code_kind(s, i + 1, TOKEN_NAME)) return false;
    view name = code_word(s, i + 1);
    if (name.len > beside.len &&
        !memcmp(name.ptr + name.len - beside.len, beside.ptr, beside.len))
        return false;
    *renamed = !view_equal(name, go_package_of(path)) && !view_equal(name, VIEW("main"));
    return true;
}

/* const, var or type at i, one or a group of them.  A superfluous name is harmless: it is only not
 * reported. */
static uint32_t read_declared(code_file *s, uint32_t module, uint32_t i)
{
    const bool group = code_sign(s, i + 1, '(');
    uint32_t depth = 0, at = i + 1;
    for (; at < s->n; at++) {
        const code_token *t = &s->t[at];
        bool sign = t->kind == TOKEN_SIGN;
        if (!depth && at > i + 1 && t->first) break;
        if (sign && token_closes(t->sign) && depth && !--depth && group) return at + 1;
        if (sign && token_opens(t->sign)) depth++;
        bool name = t->kind == TOKEN_NAME && depth <= (group ? 1u : 0u);
        if (name && is_exported(code_word(s, at)) && !code_sign(s, at - 1, '.'))
            names_add(s->b, module, code_word(s, at), NAME_VALUE, 0);
    }
    return at;
}

static void read_names(code_file *s, uint32_t module)
{
    uint32_t depth = 0;
    for (uint32_t i = 0; i < s->n && !s->b->status;) {
        const code_token *t = &s->t[i];
        if (t->kind == TOKEN_SIGN && token_opens(t->sign)) depth++;
        if (t->kind == TOKEN_SIGN && token_closes(t->sign) && depth) depth--;
        bool begins = !depth && t->first && t->kind == TOKEN_NAME;
        if (begins && (code_is(s, i, "const") || code_is(s, i, "var") || code_is(s, i, "type"))) {
            i = read_declared(s, module, i);
            continue;
        }
        if (begins && code_is(s, i, "func") && code_kind(s, i + 1, TOKEN_NAME) &&
            is_exported(code_word(s, i + 1)))
            names_add(s->b, module, code_word(s, i + 1), NAME_VALUE, 0);
        i++;
    }
}

void go_read(name_table *b, uint32_t module, view path, view text)
{
    code_file s;
    bool renamed = false;
    if (!code_open(&s, b, TOKENS_GO, text)) {
        if (!b->status) names_open_scope(b, module);
        return;
    }
    if (belongs(&s, path, &renamed)) read_names(&s, module);
    if (renamed) names_open_scope(b, module); /* its local name is unknown */
    code_close(&s);
}
