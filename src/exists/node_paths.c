/* node_paths.c - packages of node_modules: the specifiers of each, and their files.
 *
 * In the root "jNAME/PATH" is the module that `import` finds, "rNAME/PATH" the one that `require`
 * finds if that is another, and "fFILE" a file.  All conditions of a map of exports count, as the
 * code's runtime is unknown. */
#include "base/text.h"
#include "exists/folders.h"
#include "exists/code_file.h"

#include "base/json.h"

enum { JSON_MAX = 4 << 20, CONDITIONS_DEPTH = 8, IMPORTED = 1, REQUIRED = 2 };

typedef struct {
    folders *f;
    const char *root;  /* the folder that has node_modules */
    bytes todo;        /* files to read: NUL-terminated paths */
    bytes text;
    const char *file;  /* that is read */
} search;

/* ---- files ---- */

static bool is_types(const char *path)
{
    return text_ends_with(path, ".d.ts") || text_ends_with(path, ".d.mts") ||
           text_ends_with(path, ".d.cts");
}

/* A path without "." and ".." in it. */
static bool tidy(const char *path, char *out)
{
    size_t n = 0;
    while (*path) {
        const char *stop = strchrnul(path, '/');
        size_t len = (size_t)(stop - path);
        if (len == 2 && !memcmp(path, "..", 2)) {
            while (n && out[n - 1] != '/') n--;
            if (n) n--;
        } else if (len && !(len == 1 && *path == '.')) {
            if (n + len + 2 > NAMES_WORD_MAX - 1) return false;
            out[n++] = '/';
            memcpy(out + n, path, len);
            n += len;
        }
        path = *stop ? stop + 1 : stop;
    }
    out[n] = 0;
    return n > 0;
}

/* The scope of a file, which is read later. */
static uint32_t file_scope(search *s, const char *path)
{
    char key[NAMES_WORD_MAX];
    name_table *b = s->f->b;
    if (snprintf(key, sizeof key, "f%s", path) >= (int)sizeof key) return NAMES_NONE;
    if (names_find(b, 0, view_of(key)) == NAMES_NONE && !b->status)
        b->status = bytes_append(&s->todo, path, strlen(path) + 1);
    const char *below = strstr(path, "/node_modules/");
    return names_module(b, view_of(key), is_types(path) ? SCOPE_TYPES : 0,
                        view_of(below ? below + 14 : path));
}

static bool try_file(const char *base, const char *end, char *out)
{
    return snprintf(out, 4096, "%s%s", base, end) < 4096 && folder_kind_of(out) == FOLDERS_FILE;
}

/* The file of a relative specifier; types: try declarations first. */
static bool find_file(const char *base, bool types, char *out)
{
    static const char *const plain[] = {"", ".js", ".mjs", ".cjs", ".ts", ".json", "/index.js",
                                        "/index.mjs", "/index.cjs", NULL};
    static const char *const declared[] = {".d.ts", ".d.mts", ".d.cts", ".ts", "/index.d.ts",
                                           "/index.d.mts", NULL};
    static const char *const ends[][2] = {
        {".js", ".d.ts"}, {".ts", ".d.ts"}, {".mjs", ".d.mts"}, {".cjs", ".d.cts"}};
    char cut[4096];
    for (size_t i = 0; types && i < ARRAY_LEN(ends); i++) {
        if (!text_ends_with(base, ends[i][0]) || is_types(base)) continue;
        snprintf(cut, sizeof cut, "%.*s", (int)(strlen(base) - strlen(ends[i][0])), base);
        if (try_file(cut, ends[i][1], out)) return true;
    }
    for (size_t i = 0; types && declared[i]; i++)
        if (try_file(base, declared[i], out)) return true;
    for (size_t i = 0; plain[i]; i++)
        if (try_file(base, plain[i], out)) return true;
    return false;
}

/* ---- specifiers ---- */

static uint32_t spec_scope(search *s, char letter, const char *spec)
{
    char key[NAMES_WORD_MAX];
    if (snprintf(key, sizeof key, "%c%s", letter, spec) >= (int)sizeof key) return NAMES_NONE;
    return names_module(s->f->b, view_of(key), 0, view_of(spec));
}

static void give(search *s, char letter, const char *spec, uint32_t file)
{
    uint32_t scope = spec_scope(s, letter, spec);
    if (scope != NAMES_NONE && file != NAMES_NONE && !s->f->b->status)
        names_base_scope(s->f->b, scope, file, false);
}

/* A specifier leads to a file, and to the declarations beside it. */
static void add_target(search *s, const char *spec, const char *file, unsigned how)
{
    char beside[4096];
    bool code = !is_types(file);
    if (folder_kind_of(file) != FOLDERS_FILE) {
        (void)spec_scope(s, 'j', spec);
        return;
    }
    uint32_t scope = file_scope(s, file);
    if (code && (text_ends_with(file, ".json") || text_ends_with(file, ".node") ||
                 text_ends_with(file, ".wasm") || text_ends_with(file, ".css")))
        names_open_scope(s->f->b, scope);
    if (how & IMPORTED) give(s, 'j', spec, scope);
    if (how & REQUIRED) give(s, 'r', spec, scope);
    if (!code || !find_file(file, true, beside) || !is_types(beside)) return;
    scope = file_scope(s, beside);
    if (how & IMPORTED) give(s, 'j', spec, scope);
    if (how & REQUIRED) give(s, 'r', spec, scope);
}

/* ---- a map of exports ---- */

typedef struct {
    search *s;
    const char *folder, *package;
    const char *spec;   /* after the package's name: "", "/x", "/x/" "*" */
} exports;

/* Files that match "./dist/" "*" ".js" are found by the text that matches the star. */
static void add_pattern(const exports *e, const char *target, unsigned how)
{
    char folder[4096], file[4096], spec[NAMES_WORD_MAX], above[4096];
    const char *star = strchr(target, '*'), *slash = star, *hole = strchr(e->spec, '*');
    if (!star || !hole) return;
    while (slash > target && *slash != '/') slash--;
    view before = {slash + 1, (size_t)(star - slash - 1)};
    snprintf(above, sizeof above, "%s/%.*s", e->folder, (int)(slash - target), target);
    bytes todo = {.max = 16 << 20}; /* folders below it */
    int status = bytes_append(&todo, "", 1);
    for (size_t at = 0; at < todo.len && !status && !e->s->f->b->status;) {
        char below[2048];
        folder_list list;
        snprintf(below, sizeof below, "%s", todo.ptr + at);
        at += strlen(below) + 1;
        if (snprintf(folder, sizeof folder, "%s/%s", above, below) >= (int)sizeof folder) continue;
        if (!folder_read(e->s->f, folder, &list)) {
            folder_close(&list);
            continue;
        }
        for (uint32_t i = 0; i < list.n && !status; i++) {
            const char *name = folder_name(&list, i);
            char path[2048];
            if (snprintf(path, sizeof path, "%s%s", below, name) >= (int)sizeof path) continue;
            if (snprintf(file, sizeof file, "%s/%s", above, path) >= (int)sizeof file) continue;
            if (!strchr(name, '.') && folder_kind_of(file) == FOLDERS_FOLDER) {
                snprintf(file, sizeof file, "%s/", path);
                if (strcmp(name, "node_modules") != 0)
                    status = bytes_append(&todo, file, strlen(file) + 1);
                continue;
            }
            if (!view_starts(view_of(path), before) || !text_ends_with(path, star + 1) ||
                strlen(path) < before.len + strlen(star + 1))
                continue;
            int n = snprintf(spec, sizeof spec, "%s%.*s%.*s%s", e->package,
                             (int)(hole - e->spec), e->spec,
                             (int)(strlen(path) - before.len - strlen(star + 1)),
                             path + before.len, hole + 1);
            if (n < (int)sizeof spec) add_target(e->s, spec, file, how);
        }
        folder_close(&list);
    }
    bytes_free(&todo);
}

static void add_export(const exports *e, const char *target, unsigned how)
{
    char file[4096], spec[NAMES_WORD_MAX];
    if (strncmp(target, "./", 2) != 0) return;
    if (strchr(target, '*')) {
        add_pattern(e, target + 2, how);
        return;
    }
    bool fits = folder_join(file, e->folder, target + 2) &&
                snprintf(spec, sizeof spec, "%s%s", e->package, e->spec) < (int)sizeof spec;
    if (fits) add_target(e->s, spec, file, how);
}

/* All targets of a value of the map. */
static void read_conditions(const exports *e, json_t *value, unsigned how, uint32_t depth)
{
    const char *key;
    json_t *one;
    size_t i;
    if (json_is_string(value)) add_export(e, json_string_value(value), how);
    if (depth == CONDITIONS_DEPTH) return;
    if (json_is_array(value)) json_array_foreach(value, i, one)
        read_conditions(e, one, how, depth + 1);
    json_object_foreach(value, key, one) {
        unsigned only = !strcmp(key, "require") ? REQUIRED
                        : !strcmp(key, "import") || !strcmp(key, "module") ? IMPORTED
                                                                           : IMPORTED | REQUIRED;
        if (how & only) read_conditions(e, one, how & only, depth + 1);
    }
}

static void read_exports(search *s, const char *folder, const char *package, json_t *map)
{
    const char *key;
    json_t *value;
    exports e = {.s = s, .folder = folder, .package = package, .spec = ""};
    bool paths = json_is_object(map) && json_object_size(map) &&
                 *json_object_iter_key(json_object_iter(map)) == '.';
    if (!paths) {
        read_conditions(&e, map, IMPORTED | REQUIRED, 0);
        return;
    }
    json_object_foreach(map, key, value) {
        if (key[0] != '.') continue;
        e.spec = key + 1;
        read_conditions(&e, value, IMPORTED | REQUIRED, 0);
    }
}

/* ---- packages without a map: any file ---- */

static void add_main(search *s, const char *folder, const char *spec, json_t *json)
{
    static const char *const keys[] = {"main", "module", "browser", "types", "typings"};
    char base[4096], file[4096];
    bool code = false;
    for (size_t i = 0; i < ARRAY_LEN(keys); i++) {
        const char *value = json_string_value(json_object_get(json, keys[i]));
        bool types = i > 2;
        if (!value || !*value || !folder_join(base, folder, value)) continue;
        size_t n = strlen(base);
        while (n && base[n - 1] == '/') base[--n] = 0;
        if (!find_file(base, types, file)) continue;
        add_target(s, spec, file, IMPORTED | REQUIRED);
        code |= !types;
    }
    if (!code && folder_join(base, folder, "index") && find_file(base, false, file))
        add_target(s, spec, file, IMPORTED | REQUIRED);
    if (folder_join(base, folder, "index.d.ts") && folder_kind_of(base) == FOLDERS_FILE)
        add_target(s, spec, base, IMPORTED | REQUIRED);
}

/* "lib/x.js" is found by its name, and by "lib/x". */
static void add_plain(search *s, const char *package, const char *below, const char *file)
{
    static const char *const ends[] = {".js", ".json", ".node", ".mjs", ".cjs", ".ts", ".d.ts"};
    char spec[NAMES_WORD_MAX];
    if (snprintf(spec, sizeof spec, "%s/%s", package, below) >= (int)sizeof spec) return;
    if (!is_types(file)) add_target(s, spec, file, IMPORTED | REQUIRED);
    for (size_t i = ARRAY_LEN(ends); i-- > 0;) {
        if (!text_ends_with(spec, ends[i])) continue;
        spec[strlen(spec) - strlen(ends[i])] = 0;
        add_target(s, spec, file, IMPORTED | REQUIRED);
        break;
    }
    if (!text_ends_with(spec, "/index")) return;
    spec[strlen(spec) - 6] = 0;
    if (strcmp(spec, package) != 0) add_target(s, spec, file, IMPORTED | REQUIRED);
}

static void add_files(search *s, const char *folder, const char *package)
{
    bytes todo = {.max = 16 << 20};
    int status = bytes_append(&todo, "", 1);
    for (size_t at = 0; at < todo.len && !status && !s->f->b->status;) {
        char below[2048], path[4096];
        folder_list list;
        snprintf(below, sizeof below, "%s", todo.ptr + at);
        at += strlen(below) + 1;
        bool listed = snprintf(path, sizeof path, "%s/%s", folder, below) < (int)sizeof path &&
                      folder_read(s->f, path, &list);
        for (uint32_t i = 0; listed && i < list.n && !status; i++) {
            const char *name = folder_name(&list, i);
            char one[2048];
            if (name[0] == '.' || !strcmp(name, "node_modules") ||
                snprintf(one, sizeof one, "%s%s", below, name) >= (int)sizeof one - 1 ||
                !folder_join(path, folder, one))
                continue;
            folder_kind kind = folder_kind_of(path);
            if (kind == FOLDERS_FILE && strchr(name, '.')) add_plain(s, package, one, path);
            if (kind != FOLDERS_FOLDER) continue;
            size_t n = strlen(one);
            one[n] = '/';
            status = bytes_append(&todo, one, n + 1);
            if (!status) status = bytes_append(&todo, "", 1);
        }
        if (listed) folder_close(&list);
    }
    bytes_free(&todo);
}

/* ---- packages ---- */

/* A package in a folder, under the name by which others import it. */
static void read_package(search *s, const char *folder, const char *package)
{
    char path[4096];
    json_error_t why;
    bytes text = {.max = JSON_MAX + 1};
    json_t *json = NULL;
    if (folder_join(path, folder, "package.json") && folder_file(s->f, path, JSON_MAX, &text))
        json = json_read((view){text.ptr, text.len}, 0, &why);
    bytes_free(&text);
    uint32_t scope = spec_scope(s, 'j', package);
    json_t *map = json_object_get(json, "exports");
    if (!json || s->f->b->status) names_open_scope(s->f->b, scope);
    else if (map && !json_is_null(map)) {
        read_exports(s, folder, package, map);
        const char *types = json_string_value(json_object_get(json, "types"));
        if (!types) types = json_string_value(json_object_get(json, "typings"));
        if (types && folder_join(path, folder, types) && folder_kind_of(path) == FOLDERS_FILE)
            add_target(s, package, path, IMPORTED | REQUIRED);
    } else {
        add_main(s, folder, package, json);
        add_files(s, folder, package);
    }
    json_decref(json);
}

/* ---- references in files ---- */

/* The innermost node_modules above the file that has the package. */
static bool find_package(const search *s, const char *name, char *folder)
{
    char at[4096];
    snprintf(at, sizeof at, "%s", s->file);
    while (true) {
        char *slash = strrchr(at, '/');
        if (!slash || slash == at) return false;
        *slash = 0;
        if (snprintf(folder, 4096, "%s/node_modules/%s", at, name) < 4096 &&
            folder_kind_of(folder) == FOLDERS_FOLDER)
            return true;
        if (!strcmp(at, s->root)) return false;
    }
}

static bool find_bare(search *s, view specifier, char *out)
{
    char name[512], folder[4096], spec[NAMES_WORD_MAX];
    size_t n = 0;
    for (uint32_t slashes = specifier.ptr[0] == '@' ? 0 : 1; n < specifier.len; n++)
        if (specifier.ptr[n] == '/' && ++slashes == 2) break;
    snprintf(out, NAMES_WORD_MAX, "j%.*s", (int)specifier.len, specifier.ptr);
    if (n >= sizeof name) return false;
    snprintf(name, sizeof name, "%.*s", (int)n, specifier.ptr);
    if (!find_package(s, name, folder)) return true; /* node's own, or missing */
    size_t root = strlen(s->root);
    bool top = !strncmp(folder, s->root, root) && !strstr(folder + root + 14, "/node_modules/");
    if (top) return true;
    /* A package below another one has its own name. */
    view rest = {specifier.ptr + n, specifier.len - n};
    if (snprintf(spec, sizeof spec, "%s%.*s", folder, (int)rest.len, rest.ptr) >= (int)sizeof spec)
        return false;
    if (snprintf(out, NAMES_WORD_MAX, "j%s", folder) >= (int)NAMES_WORD_MAX) return false;
    if (names_find(s->f->b, 0, view_of(out)) == NAMES_NONE) read_package(s, folder, folder);
    return snprintf(out, NAMES_WORD_MAX, "j%s", spec) < (int)NAMES_WORD_MAX;
}

static bool find_specifier(void *user, view specifier, char *out)
{
    search *s = user;
    char base[4096], path[NAMES_WORD_MAX], file[4096];
    if (!specifier.len || specifier.len > 500 || memchr(specifier.ptr, 0, specifier.len))
        return false;
    if (specifier.ptr[0] == '#') return false;
    if (specifier.ptr[0] != '.') return find_bare(s, specifier, out);
    const char *slash = strrchr(s->file, '/');
    if (snprintf(base, sizeof base, "%.*s/%.*s", (int)(slash - s->file), s->file,
                 (int)specifier.len, specifier.ptr) >= (int)sizeof base ||
        !tidy(base, path) || !find_file(path, is_types(s->file), file))
        return false;
    uint32_t scope = file_scope(s, file);
    if (text_ends_with(file, ".json") || text_ends_with(file, ".node"))
        names_open_scope(s->f->b, scope);
    return snprintf(out, NAMES_WORD_MAX, "f%s", file) < (int)NAMES_WORD_MAX;
}

/* ---- the whole ---- */

static void read_files(search *s)
{
    name_table *b = s->f->b;
    for (size_t at = 0; at < s->todo.len && !b->status;) {
        char path[4096], key[NAMES_WORD_MAX];
        snprintf(path, sizeof path, "%s", s->todo.ptr + at);
        at += strlen(s->todo.ptr + at) + 1;
        if (snprintf(key, sizeof key, "f%s", path) >= (int)sizeof key) continue;
        uint32_t at_entry = names_find(b, 0, view_of(key));
        if (at_entry == NAMES_NONE) continue;
        uint32_t module = names_entry_at(b, at_entry)->target;
        bool data = text_ends_with(path, ".json") || text_ends_with(path, ".node") ||
                    text_ends_with(path, ".wasm") || text_ends_with(path, ".css");
        if (data || !folder_file(s->f, path, CODE_FILE_BYTES_MAX, &s->text)) {
            names_open_scope(b, module);
            continue;
        }
        s->file = path;
        b->pass = 0;
        bool types = is_types(path) || text_ends_with(path, ".ts");
        script_read(b, module, (view){s->text.ptr, s->text.len}, types, find_specifier, s);
    }
}

/* @types/NAME of a package that may be missing itself. */
static void add_declared(search *s, const char *folder, const char *name)
{
    char package[512];
    const char *under = strstr(name, "__");
    int n = under ? snprintf(package, sizeof package, "@%.*s/%s", (int)(under - name), name,
                             under + 2)
                  : snprintf(package, sizeof package, "%s", name);
    if (n < (int)sizeof package && folder_kind_of(folder) == FOLDERS_FOLDER)
        add_main(s, folder, package, NULL);
}

static void read_modules(search *s, const char *folder, const char *scope)
{
    folder_list list;
    char path[4096], name[512], below[4096];
    bool listed = folder_read(s->f, folder, &list);
    for (uint32_t i = 0; listed && i < list.n && !s->f->b->status; i++) {
        const char *one = folder_name(&list, i);
        if (one[0] == '.' || !folder_join(path, folder, one)) continue;
        if (snprintf(name, sizeof name, "%s%s", scope, one) >= (int)sizeof name) continue;
        if (!strcmp(scope, "@types/")) add_declared(s, path, one);
        else if (one[0] == '@' && !*scope && snprintf(below, sizeof below, "%s/", one) > 0)
            read_modules(s, path, below);
        else if (folder_kind_of(path) == FOLDERS_FOLDER) read_package(s, path, name);
    }
    folder_close(&list);
}

void node_folder(folders *f, const char *path)
{
    char modules[4096];
    search s = {.f = f, .root = path, .todo = {.max = 64 << 20},
                .text = {.max = CODE_FILE_BYTES_MAX + 1}};
    if (folder_join(modules, path, "node_modules")) read_modules(&s, modules, "");
    read_files(&s);
    bytes_free(&s.todo);
    bytes_free(&s.text);
}
