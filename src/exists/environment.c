/* environment.c - where Python and node look for packages below a workspace. */
#include "exists/environment.h"

#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/hash.h"
#include "base/json.h"
#include "exists/folders.h"
#include "exists/go.h"
#include "exists/java.h"
#include "exists/listing.h"
#include "exists/manifests.h"

enum { PLACES_MAX = 16, MANIFEST_BYTES = 4 << 20 };

typedef struct {
    char path[4096];
    bool is_python; /* a virtual environment; else it has node_modules */
} place;

typedef struct {
    char root[4096];
    place places[PLACES_MAX];
    uint32_t n;
    char site[4096], home[4096]; /* of the virtual environment; "" */
    bool system_site;
    bool has_go, has_c, has_java; /* files of it, in the root or a folder below */
} layout;

static void see_place(layout *l, const char *path)
{
    char file[4096];
    bool venv = folder_join(file, path, "pyvenv.cfg") && folder_kind_of(file) == FOLDERS_FILE;
    bool node = folder_join(file, path, "node_modules") && folder_kind_of(file) == FOLDERS_FOLDER;
    for (int i = 0; i < 2; i++) {
        if (!(i ? node : venv) || l->n == PLACES_MAX) continue;
        l->places[l->n].is_python = !i;
        snprintf(l->places[l->n++].path, sizeof l->places[0].path, "%s", path);
    }
}

/* lib/python3.N/site-packages, and the folders named in pyvenv.cfg. */
static void read_venv(layout *l, folders *f, const char *path)
{
    char file[4096], lib[4096];
    folder_list list;
    bytes text = {.max = 1 << 16};
    if (folder_join(file, path, "pyvenv.cfg") && folder_file(f, file, 1 << 16, &text)) {
        const char *home = strstr(text.ptr, "home = ");
        if (home)
            snprintf(l->home, sizeof l->home, "%.*s", (int)strcspn(home + 7, "\r\n"), home + 7);
        l->system_site = strstr(text.ptr, "include-system-site-packages = true") != NULL;
    }
    bytes_free(&text);
    if (!folder_join(lib, path, "lib")) return;
    bool listed = folder_read(f, lib, &list);
    for (uint32_t i = 0; listed && i < list.n; i++) {
        char site[4096];
        if (strncmp(folder_name(&list, i), "python", 6) != 0) continue;
        if (folder_join(file, lib, folder_name(&list, i)) &&
            folder_join(site, file, "site-packages") && folder_kind_of(site) == FOLDERS_FOLDER)
            snprintf(l->site, sizeof l->site, "%s", site);
    }
    if (listed) folder_close(&list);
}

static void see_languages(layout *l, const folder_list *list)
{
    static const char *const c[] = {".c", ".h", ".cc", ".cpp", ".cxx", ".hpp", ".hh"};
    for (uint32_t i = 0; i < list->n; i++) {
        const char *dot = strrchr(folder_name(list, i), '.');
        l->has_go |= dot && (!strcmp(dot, ".go") || !strcmp(folder_name(list, i), "go.mod"));
        l->has_java |= dot && (!strcmp(dot, ".java") || !strcmp(dot, ".gradle") ||
                               !strcmp(folder_name(list, i), "build.gradle.kts") ||
                               !strcmp(folder_name(list, i), "pom.xml"));
        l->has_c |= !strcmp(folder_name(list, i), "CMakeLists.txt") ||
                    !strcmp(folder_name(list, i), "meson.build");
        for (size_t k = 0; dot && k < ARRAY_LEN(c); k++) l->has_c |= !strcmp(dot, c[k]);
    }
}

static void see_folder(layout *l, folders *f, const char *path)
{
    folder_list list;
    if (folder_read(f, path, &list)) see_languages(l, &list);
    folder_close(&list);
    see_place(l, path);
}

static bool find_layout(layout *l, folders *f, const char *root)
{
    char path[4096];
    folder_list list;
    memset(l, 0, sizeof *l);
    if (!realpath(root, l->root)) return false;
    see_place(l, l->root);
    bool listed = folder_read(f, l->root, &list);
    if (listed) see_languages(l, &list);
    for (uint32_t i = 0; listed && i < list.n; i++)
        if (strcmp(folder_name(&list, i), "node_modules") != 0 &&
            folder_join(path, l->root, folder_name(&list, i)) &&
            folder_kind_of(path) == FOLDERS_FOLDER)
            see_folder(l, f, path);
    folder_close(&list);
    for (uint32_t i = l->n; i-- > 0;)
        if (l->places[i].is_python) read_venv(l, f, l->places[i].path);
    return listed;
}

/* ---- the hash ---- */

static uint64_t hash_path(const char *path, uint64_t seed)
{
    struct stat at;
    if (stat(path, &at)) return hash_bytes(path, strlen(path), seed ^ 1);
    int64_t facts[] = {at.st_mtim.tv_sec, at.st_mtim.tv_nsec, at.st_size};
    return hash_bytes(facts, sizeof facts, hash_bytes(path, strlen(path), seed));
}

static uint64_t hash_folder(folders *f, const char *path, uint64_t seed)
{
    folder_list list;
    char one[4096];
    seed = hash_path(path, seed);
    bool listed = folder_read(f, path, &list);
    for (uint32_t i = 0; listed && i < list.n; i++)
        if (folder_join(one, path, folder_name(&list, i))) seed = hash_path(one, seed);
    folder_close(&list);
    return seed;
}

static bool find_go(const layout *l, char path[4096])
{
    static const char *const names_[] = {"go", NULL};
    return l->has_go && listing_find("/usr/local/go/bin", names_, l->root, path);
}

static bool find_java(const layout *l, char path[4096])
{
    static const char *const names_[] = {"java", NULL};
    return l->has_java && listing_find(NULL, names_, l->root, path);
}

static uint64_t hash_layout(const layout *l, folders *f)
{
    static const char *const files[] = {"package.json", "package-lock.json", "yarn.lock",
                                        "pnpm-lock.yaml", "requirements.txt", "pyproject.toml",
                                        "tsconfig.json", "jsconfig.json", "setup.cfg", "Pipfile",
                                        "go.mod", "go.work",
                                        "node_modules/.package-lock.json"};
    char path[4096];
    uint64_t hash = hash_folder(f, l->root, 2);
    if (*l->site) hash = hash_folder(f, l->site, hash);
    for (uint32_t i = 0; i < l->n; i++) {
        for (size_t k = 0; k < ARRAY_LEN(files); k++)
            if (folder_join(path, l->places[i].path, files[k])) hash = hash_path(path, hash);
        if (!l->places[i].is_python && folder_join(path, l->places[i].path, "node_modules"))
            hash = hash_folder(f, path, hash);
    }
    if (find_go(l, path)) hash = hash_path(path, hash);
    if (find_java(l, path)) hash = hash_path(path, hash);
    if (l->has_c) /* an installation adds a file or a folder here, or one level below */
        hash = hash_folder(f, "/usr/local/include", hash_folder(f, "/usr/include", hash));
    return hash ? hash : 1;
}

uint64_t environment_hash(const char *root)
{
    name_table b = {0};
    folders f = {.b = &b};
    layout *l = memory_alloc(sizeof *l);
    uint64_t hash = l && find_layout(l, &f, root) ? hash_layout(l, &f) : 1;
    memory_free(l);
    return hash;
}

/* ---- reading ---- */

static void mark(name_table *b, const char *what)
{
    (void)names_module(b, view_of(what), SCOPE_OPEN, view_of(what));
}

static void read_python(folders *f, const layout *l, cerium_error *err)
{
    static const char *const names_[] = {"python3", "python", NULL};
    char path[4096], library[4096] = "";
    name_table *b = f->b;
    b->pass = 0;
    bool found = listing_find(*l->home ? l->home : NULL, names_, l->root, path);
    if (!found || listing_python(b, path, library, err)) {
        mark(b, "p*"); /* even its own modules are unknown */
        return;
    }
    if (*library) python_library(f, library);
    b->pass = 1;
    python_platforms(b);
    if (!*l->site) return;
    python_folder(f, l->site);
    mark(b, l->system_site ? "p*" : "p!");
}

static void read_node(folders *f, const layout *l, cerium_error *err)
{
    static const char *const names_[] = {"node", "nodejs", NULL};
    char path[4096];
    name_table *b = f->b;
    b->pass = 0;
    if (!listing_find(NULL, names_, l->root, path) || listing_node(b, path, err)) mark(b, "j*");
    for (uint32_t i = 0; i < l->n && !b->status; i++) {
        if (l->places[i].is_python) continue;
        node_folder(f, l->places[i].path);
        mark(b, "j!");
    }
}

static void read_layout(folders *f, const layout *l, cerium_error *err)
{
    char path[4096];
    read_python(f, l, err);
    if (!f->b->status) read_node(f, l, err);
    if (!f->b->status && find_go(l, path)) go_modules(f, path, l->root);
    if (!f->b->status && find_java(l, path)) java_classes(f->b, path);
    if (!f->b->status && l->has_c) c_headers(f, l->root);
    if (!f->b->status) workspace_modules(f, l->root);
    for (uint32_t i = 0; i < l->n && !f->b->status; i++) manifests_read(f, l->places[i].path);
    if (!f->b->status) manifests_read(f, l->root);
}

static int read_anew(names_index **out, const environment_config *c, const layout *l,
                     uint64_t hash, cerium_error *err)
{
    name_table b;
    folders f = {.b = &b, .stop = c->stop, .progress = c->progress, .user = c->user};
    if (names_open(&b))
        return error_set(err, CERIUM_ERR_MEMORY, "no memory for the names of an environment");
    read_layout(&f, l, err);
    bool stopped = c->stop && atomic_load(c->stop);
    if (!stopped) names_resolve(&b);
    int status = stopped ? error_set(err, CERIUM_ERR_CANCELED, "stopped")
                         : index_seal(out, &b, hash, err);
    names_close(&b);
    return status;
}

int environment_read(names_index **out, const environment_config *c, cerium_error *err)
{
    char path[4096] = "";
    cerium_error why;
    name_table none = {0};
    folders f = {.b = &none};
    layout *l = memory_alloc(sizeof *l);
    if (!l) return error_set(err, CERIUM_ERR_MEMORY, "no memory for an environment");
    if (!find_layout(l, &f, c->root)) {
        memory_free(l);
        return error_set(err, CERIUM_ERR_IO, "%s: cannot be read", c->root);
    }
    uint64_t hash = hash_layout(l, &f);
    unsigned long long number = hash_bytes(l->root, strlen(l->root), 0);
    bool kept = c->kept_in && snprintf(path, sizeof path, "%s/names-%016llx.idx", c->kept_in,
                                       number) < (int)sizeof path;
    int status = kept ? index_map(out, path, hash, &why) : CERIUM_ERR_IO;
    if (status) {
        status = read_anew(out, c, l, hash, err);
        if (!status && kept) {
            if (index_write(*out, path, &why)) path[0] = 0; /* the next start reads anew */
            file_bound(c->kept_in, "names-*", FILE_CACHED_MAX, FILE_CACHED_DAYS);
        }
    }
    memory_free(l);
    return status;
}
