/* imports.c - imports: the modules behind names. */
#include "guard/judge.h"

static const view empty = {NULL, 0};

static view module_name(judge *j, view text)
{
    while (text.len && strchr("./@'\"", text.ptr[0])) text.ptr++, text.len--;
    if (view_starts(text, VIEW("node:"))) text.ptr += 5, text.len -= 5;
    while (text.len && strchr("'\"", text.ptr[text.len - 1])) text.len--;
    char *out = arena_take(&j->names, text.len + 1, 1);
    if (!out) return text;
    size_t from = 0;
    if (j->tree.language == GUARD_GO)
        for (size_t i = 0; i < text.len; i++)
            if (text.ptr[i] == '/') from = i + 1;
    for (size_t i = from; i < text.len; i++) out[i - from] = text.ptr[i] == '/' ? '.' : text.ptr[i];
    return (view){out, text.len - from};
}

static void import_as(judge *j, view name, view path)
{
    bool same = path.len >= name.len &&
                !memcmp(path.ptr + path.len - name.len, name.ptr, name.len);
    if (!same && !j->alias) j->alias = match_names_function(j, path);
    if (name.len) judge_set(j, name, (value){.name = path, .clean = ~0u});
}

static void import_below(judge *j, int32_t n, view module)
{
    for (int32_t c = j->tree.list[n].child; c >= 0; c = j->tree.list[c].next) {
        const node *at = &j->tree.list[c];
        int32_t name = tree_field(&j->tree, c, FIELD_NAME);
        int32_t alias = tree_field(&j->tree, c, FIELD_ALIAS);
        view text = tree_text(&j->tree, c);
        if (at->field == FIELD_MODULE || at->role == NODE_SKIP) continue;
        if (name >= 0) {
            view path = judge_join(j, module, tree_text(&j->tree, name));
            import_as(j, tree_text(&j->tree, alias >= 0 ? alias : name), path);
        } else if (at->role == NODE_NAME || !memchr(text.ptr, '{', text.len)) {
            if (at->role == NODE_IMPORT && at->child >= 0 && at->child + 1 < j->tree.n &&
                view_starts(text, VIEW("*"))) {
                import_as(j, tree_text(&j->tree, at->child), module);
                continue;
            }
            const char *dot = memchr(text.ptr, '.', text.len);
            view head = {text.ptr, dot ? (size_t)(dot - text.ptr) : text.len};
            bool from = module.len && j->tree.language == GUARD_PYTHON;
            if (at->child >= 0 && at->role != NODE_NAME && !from && at->role == NODE_IMPORT)
                import_below(j, c, module);
            else if (from) import_as(j, text, judge_join(j, module, text));
            else import_as(j, head, module.len ? module : head);
        } else import_below(j, c, module);
    }
}

void judge_import(judge *j, int32_t n)
{
    int32_t module = tree_field(&j->tree, n, FIELD_MODULE);
    int32_t name = tree_field(&j->tree, n, FIELD_NAME);
    view path = module < 0 ? empty : module_name(j, tree_text(&j->tree, module));
    if (j->tree.language == GUARD_GO) {
        import_as(j, name >= 0 ? tree_text(&j->tree, name) : path, path);
        return;
    }
    import_below(j, n, path);
}
