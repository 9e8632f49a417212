/* manifests.c - declared packages, and the workspace's own modules. */
#include "exists/manifests.h"

#include <ctype.h>

#include "base/json.h"
#include "exists/code_file.h"

enum { MANIFEST_BYTES = 4 << 20 };

/* PyPI's normalized names: lower case, runs of -_. become one -. */
static void declare(name_table *b, const char *mark, view name, bool normal)
{
    char out[256];
    size_t n = (size_t)snprintf(out, sizeof out, "%s", mark);
    for (size_t i = 0; i < name.len && n + 1 < sizeof out; i++) {
        char c = name.ptr[i];
        if (normal && strchr("-_.", c)) {
            if (out[n - 1] != '-') out[n++] = '-';
        } else out[n++] = normal ? (char)tolower((unsigned char)c) : c;
    }
    names_add(b, 0, (view){out, n}, NAME_VALUE, 0);
}

/* Words that look like names of packages, each added with `mark` before it. */
static void declare_words(name_table *b, const char *mark, view text)
{
    for (size_t i = 0; i < text.len && !b->status;) {
        size_t n = 0;
        while (i + n < text.len &&
               (isalnum((unsigned char)text.ptr[i + n]) || strchr("-_.", text.ptr[i + n])))
            n++;
        bool word = n > 1 && n < 100 && isalpha((unsigned char)text.ptr[i]);
        if (word) declare(b, mark, (view){text.ptr + i, n}, true);
        i += n ? n : 1;
    }
}

/* Superfluous names do no harm: they are only not reported. */
static void read_words(folders *f, const char *folder, const char *name)
{
    char path[4096];
    bytes text = {.max = MANIFEST_BYTES + 1};
    if (folder_join(path, folder, name) && folder_file(f, path, MANIFEST_BYTES, &text))
        declare_words(f->b, "dp", (view){text.ptr, text.len});
    bytes_free(&text);
}

static void read_package_json(folders *f, const char *folder)
{
    static const char *const keys[] = {"dependencies", "devDependencies", "peerDependencies",
                                       "optionalDependencies", "imports"};
    char path[4096];
    json_error_t why;
    bytes text = {.max = MANIFEST_BYTES + 1};
    json_t *json = NULL, *value;
    const char *key;
    if (folder_join(path, folder, "package.json") &&
        folder_file(f, path, MANIFEST_BYTES, &text))
        json = json_read((view){text.ptr, text.len}, 0, &why);
    for (size_t i = 0; i < ARRAY_LEN(keys); i++)
        json_object_foreach(json_object_get(json, keys[i]), key, value)
            declare(f->b, "dj", view_of(key), false);
    const char *own = json_string_value(json_object_get(json, "name"));
    if (own) declare(f->b, "dj", view_of(own), false);
    json_decref(json);
    bytes_free(&text);
}

/* Paths of a compiler's configuration may mean anything. */
static void read_compiler_paths(folders *f, const char *folder, const char *name)
{
    char path[4096];
    bytes text = {.max = MANIFEST_BYTES + 1};
    bool maps = folder_join(path, folder, name) && folder_file(f, path, MANIFEST_BYTES, &text) &&
                (strstr(text.ptr, "\"paths\"") || strstr(text.ptr, "\"baseUrl\""));
    if (maps) (void)names_module(f->b, VIEW("j*"), SCOPE_OPEN, VIEW("*"));
    bytes_free(&text);
}

void manifests_read(folders *f, const char *folder)
{
    static const char *const words[] = {"requirements.txt", "requirements-dev.txt", "Pipfile",
                                        "pyproject.toml", "setup.cfg", "setup.py", "poetry.lock",
                                        "uv.lock", "Pipfile.lock", "pdm.lock", "environment.yml"};
    f->b->pass = 0;
    for (size_t i = 0; i < ARRAY_LEN(words); i++) read_words(f, folder, words[i]);
    read_package_json(f, folder);
    read_compiler_paths(f, folder, "tsconfig.json");
    read_compiler_paths(f, folder, "jsconfig.json");
}

/* ---- the workspace's own modules ---- */

typedef struct {
    folders *f;
    bytes todo; /* folders: NUL-terminated paths */
} walk;

static bool is_passed_over(const char *path, const char *name)
{
    static const char *const names_[] = {"node_modules", "build", "dist", "target", "__pycache__",
                                         "site-packages", "vendor"};
    char file[4096];
    if (name[0] == '.') return true;
    for (size_t i = 0; i < ARRAY_LEN(names_); i++)
        if (!strcmp(name, names_[i])) return true;
    return folder_join(file, path, "pyvenv.cfg") && folder_kind_of(file) == FOLDERS_FILE;
}

/* A name by which a module below the workspace may be imported; its contents are unknown. */
static void add_name(name_table *b, view stem)
{
    char label[300];
    if (!stem.len || stem.len > 255) return;
    int n = snprintf(label, sizeof label, "p%.*s", (int)stem.len, stem.ptr);
    /* An installed package of the same name may not be the one found. */
    names_open_scope(b, names_module(b, (view){label, (size_t)n}, SCOPE_PACKAGE, stem));
}

static bool see_files(walk *w, const char *folder, const folder_list *list)
{
    char path[4096];
    bool any = false;
    for (uint32_t i = 0; i < list->n && !w->f->b->status; i++) {
        const char *name = folder_name(list, i), *dot = strrchr(name, '.');
        bool code = dot && (!strcmp(dot, ".py") || !strcmp(dot, ".pyi") || !strcmp(dot, ".ipynb") ||
                            !strcmp(dot, ".so") || !strcmp(dot, ".pyx"));
        any |= code;
        if (code) add_name(w->f->b, (view){name, strcspn(name, ".")});
        if (dot || !folder_join(path, folder, name) || folder_kind_of(path) != FOLDERS_FOLDER ||
            is_passed_over(path, name))
            continue;
        if (!w->f->b->status)
            w->f->b->status = bytes_append(&w->todo, path, strlen(path) + 1);
    }
    return any;
}

void workspace_modules(folders *f, const char *root)
{
    walk w = {.f = f, .todo = {.max = 64 << 20}};
    name_table *b = f->b;
    if (!b->status) b->status = bytes_append(&w.todo, root, strlen(root) + 1);
    for (size_t at = 0; at < w.todo.len && !b->status;) {
        char folder[4096];
        folder_list list;
        snprintf(folder, sizeof folder, "%s", w.todo.ptr + at);
        at += strlen(w.todo.ptr + at) + 1;
        bool listed = folder_read(f, folder, &list);
        const char *slash = strrchr(folder, '/');
        bool code = listed && see_files(&w, folder, &list);
        if (code && slash && strcmp(folder, root) != 0) add_name(b, view_of(slash + 1));
        folder_close(&list);
    }
    if (b->status == CERIUM_ERR_CAPACITY) b->status = CERIUM_OK;
    bytes_free(&w.todo);
}
