/* go_paths.c - the places of Go's packages: the toolchain's src/, vendor/, the module cache. */
#include "base/text.h"
#include "exists/go.h"

#include <ctype.h>
#include <stdlib.h>

enum { GO_MOD_BYTES = 1 << 20, GO_MODULE_FILES_MAX = 20000 };

typedef struct {
    folders *f;
    bytes todo; /* pairs of NUL-terminated strings: a folder and its import path */
    bytes text;
    const char *cache; /* the module cache, or NULL */
} search;

static void add_mark(name_table *b, const char *mark, view path)
{
    char name[NAMES_WORD_MAX];
    int n = snprintf(name, sizeof name, "%s%.*s", mark, (int)path.len, path.ptr);
    if (n < (int)sizeof name) names_add(b, 0, (view){name, (size_t)n}, NAME_VALUE, 0);
}

/* ---- the packages of a folder ---- */

static void add_folder(search *s, const char *path, const char *import)
{
    folder_put(s->f, &s->todo, path);
    folder_put(s->f, &s->todo, import);
}

static bool is_passed_over(const char *name)
{
    return name[0] == '.' || name[0] == '_' || !strcmp(name, "testdata") ||
           !strcmp(name, "vendor") || !strcmp(name, "node_modules");
}

static void see_file(search *s, const char *folder, const char *name, const char *import)
{
    char path[4096], label[NAMES_WORD_MAX];
    name_table *b = s->f->b;
    if (!*import || !folder_join(path, folder, name) ||
        snprintf(label, sizeof label, "g%s", import) >= (int)sizeof label)
        return;
    uint32_t module = names_module(b, view_of(label), SCOPE_PACKAGE, view_of(import));
    if (module == NAMES_NONE) return;
    if (folder_file(s->f, path, CODE_FILE_BYTES_MAX, &s->text))
        go_read(b, module, view_of(import), (view){s->text.ptr, s->text.len});
    else if (!b->status) names_open_scope(b, module);
}

/* Packages below `folder`, whose own import path is `import`.  False: they are too many for a
 * module worth reading, or the limits are reached. */
static bool read_packages(search *s, const char *folder, const char *import)
{
    name_table *b = s->f->b;
    const uint32_t files_max = s->f->n_files + GO_MODULE_FILES_MAX;
    s->todo.len = 0;
    add_folder(s, folder, import);
    for (size_t at = 0; at < s->todo.len && !b->status;) {
        char here[4096], path[4096], above[NAMES_WORD_MAX], below[NAMES_WORD_MAX];
        folder_list list;
        size_t n = strlen(s->todo.ptr + at);
        if (n >= sizeof here || s->f->n_files > files_max) return false;
        memcpy(here, s->todo.ptr + at, n + 1);
        snprintf(above, sizeof above, "%s", s->todo.ptr + at + n + 1);
        at += n + strlen(s->todo.ptr + at + n + 1) + 2;
        bool listed = folder_read(s->f, here, &list);
        for (uint32_t i = 0; listed && i < list.n && !b->status; i++) {
            const char *name = folder_name(&list, i);
            if (text_ends_with(name, ".go")) see_file(s, here, name, above);
            else if (!is_passed_over(name) && (*above || strcmp(name, "cmd") != 0) &&
                     folder_join(path, here, name) && folder_kind_of(path) == FOLDERS_FOLDER &&
                     snprintf(below, sizeof below, "%s%s%s", above, *above ? "/" : "", name) <
                         (int)sizeof below)
                add_folder(s, path, below);
        }
        folder_close(&list);
        if (!listed) return false;
    }
    return !b->status;
}

/* ---- requirements ---- */

/* The module cache's spelling of paths: a capital is "!" and the small letter. */
static bool escape(char *out, size_t size, view path)
{
    size_t n = 0;
    for (size_t i = 0; i < path.len && n + 3 < size; i++) {
        unsigned char c = (unsigned char)path.ptr[i];
        if (isupper(c)) out[n++] = '!';
        out[n++] = (char)tolower(c);
    }
    out[n] = 0;
    return n + 3 < size;
}

static void read_required(search *s, const char *folder, view path, view version)
{
    char place[4096], import[NAMES_WORD_MAX], escaped[NAMES_WORD_MAX], named[2 * NAMES_WORD_MAX];
    name_table *b = s->f->b;
    add_mark(b, "dg", path);
    if (snprintf(import, sizeof import, "%.*s", (int)path.len, path.ptr) >= (int)sizeof import)
        return;
    /* vendor/ has only the packages of a module that the workspace imports already. */
    snprintf(named, sizeof named, "vendor/%s", import);
    if (folder_join(place, folder, named) && folder_kind_of(place) == FOLDERS_FOLDER)
        (void)read_packages(s, place, import);
    if (!s->cache || !escape(escaped, sizeof escaped, path)) return;
    snprintf(named, sizeof named, "%s@%.*s", escaped, (int)version.len, version.ptr);
    if (folder_join(place, s->cache, named) && folder_kind_of(place) == FOLDERS_FOLDER &&
        read_packages(s, place, import))
        add_mark(b, "wg", path);
}

typedef struct {
    search *s;
    const char *folder;
} mod;

/* The replacement on a line may be anywhere, and have any package. */
static void see_line(void *user, view directive, view module, view version)
{
    const mod *m = user;
    bool own = view_equal(directive, VIEW("module")) || view_equal(directive, VIEW("replace"));
    if (own) add_mark(m->s->f->b, "mg", module);
    else if (view_equal(directive, VIEW("require")))
        read_required(m->s, m->folder, module, version);
}

static void read_mod(search *s, const char *folder)
{
    char path[4096];
    bytes text = {.max = GO_MOD_BYTES + 1};
    mod m = {s, folder};
    if (folder_join(path, folder, "go.mod") && folder_file(s->f, path, GO_MOD_BYTES, &text)) {
        (void)names_module(s->f->b, VIEW("gm"), SCOPE_OPEN, VIEW("go.mod"));
        go_mod_each((view){text.ptr, text.len}, see_line, &m);
    }
    bytes_free(&text);
}

static bool holds_no_module(const char *name)
{
    return name[0] == '.' || !strcmp(name, "vendor") || !strcmp(name, "node_modules");
}

/* A go.mod may be in any folder of the workspace, also in one whose packages are not its own. */
static void read_mods(search *s, const char *root)
{
    name_table *b = s->f->b;
    bytes todo = {.max = 64 << 20};
    if (!b->status) b->status = bytes_append(&todo, root, strlen(root) + 1);
    for (size_t at = 0; at < todo.len && !b->status;) {
        char folder[4096], path[4096];
        folder_list list;
        snprintf(folder, sizeof folder, "%s", todo.ptr + at);
        at += strlen(todo.ptr + at) + 1;
        bool listed = folder_read(s->f, folder, &list);
        if (listed && folder_has(&list, "go.mod")) read_mod(s, folder);
        for (uint32_t i = 0; listed && i < list.n && !b->status; i++) {
            const char *name = folder_name(&list, i);
            if (!holds_no_module(name) && folder_join(path, folder, name) &&
                folder_kind_of(path) == FOLDERS_FOLDER)
                b->status = bytes_append(&todo, path, strlen(path) + 1);
        }
        folder_close(&list);
    }
    if (b->status == CERIUM_ERR_CAPACITY) b->status = CERIUM_OK;
    bytes_free(&todo);
}

/* GOMODCACHE, or pkg/mod of GOPATH or of the home folder. */
static const char *cache_folder(char out[4096])
{
    const char *cache = getenv("GOMODCACHE"), *path = getenv("GOPATH"), *home = getenv("HOME");
    int n = cache && *cache ? snprintf(out, 4096, "%s", cache)
            : path && *path ? snprintf(out, 4096, "%.*s/pkg/mod", (int)strcspn(path, ":"), path)
            : home && *home ? snprintf(out, 4096, "%s/go/pkg/mod", home) : 4096;
    return n < 4096 && out[0] == '/' && folder_kind_of(out) == FOLDERS_FOLDER ? out : NULL;
}

void go_modules(folders *f, const char *program, const char *root)
{
    char library[4096], cache[4096];
    search s = {.f = f, .todo = {.max = 64 << 20}, .text = {.max = CODE_FILE_BYTES_MAX + 1},
                .cache = cache_folder(cache)};
    int n = snprintf(library, sizeof library, "%s", program);
    /* GOROOT/bin/go; GOROOT/src has the library. */
    for (int up = 0; up < 2 && n < (int)sizeof library; up++) {
        char *slash = strrchr(library, '/');
        if (slash) *slash = 0;
    }
    size_t len = strlen(library);
    bool fits = n < (int)sizeof library && len + 5 < sizeof library;
    if (fits) memcpy(library + len, "/src", 5);
    f->b->pass = 0;
    bool whole = fits && folder_kind_of(library) == FOLDERS_FOLDER &&
                 read_packages(&s, library, "");
    if (whole) (void)names_module(f->b, VIEW("g!"), SCOPE_OPEN, VIEW("g!"));
    read_mods(&s, root);
    bytes_free(&s.todo);
    bytes_free(&s.text);
}
