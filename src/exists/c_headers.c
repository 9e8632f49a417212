/* c_headers.c - headers of C and C++: those of the system and of the workspace.
 *
 * The folders that a build names by -I are unknown.  So a header counts under each of its paths:
 * /usr/include/glib-2.0/glib/gtypes.h is found as gtypes.h, glib/gtypes.h and so on. */
#include "base/text.h"
#include "exists/folders.h"

#include <ctype.h>

enum { SUFFIXES_MAX = 6, BUILD_BYTES_MAX = 4 << 20 };

typedef struct {
    folders *f;
    bytes todo; /* NUL-terminated paths */
    bool own;   /* below the workspace */
} walk;

static void add_folder(walk *w, const char *path)
{
    folder_put(w->f, &w->todo, path);
}

/* Headers of the C++ library have no ending. */
static bool is_header(const char *name)
{
    static const char *const ends[] = {".h", ".hh", ".hpp", ".hxx", ".h++", ".inc", ".inl", ".ipp",
                                       ".tcc", ".def", ".cuh", ".in"};
    const char *dot = strrchr(name, '.');
    if (!dot) return islower((unsigned char)name[0]) || isupper((unsigned char)name[0]);
    return view_is_one_of(view_of(dot), ends, ARRAY_LEN(ends));
}

static void add_header(walk *w, const char *path)
{
    char name[NAMES_WORD_MAX];
    const char *from = path + strlen(path);
    size_t len = strlen(path);
    if (len > 3 && !strcmp(path + len - 3, ".in")) len -= 3; /* generated from it by the build */
    for (int n = 0; n < SUFFIXES_MAX && from > path && !w->f->b->status; n++) {
        while (from > path && from[-1] != '/') from--;
        const int n_from = (int)(len - (size_t)(from - path));
        int n_name = snprintf(name, sizeof name, "c%.*s", n_from, from);
        if (n_name >= (int)sizeof name) return;
        names_add(w->f->b, 0, (view){name, (size_t)n_name}, NAME_VALUE, 0);
        if (from > path) from--;
    }
}

/* A folder of the workspace: headers in it come and go. */
static void add_own(walk *w, const char *name)
{
    char mark[300];
    int n = snprintf(mark, sizeof mark, "h%s", name);
    if (n < (int)sizeof mark) names_add(w->f->b, 0, (view){mark, (size_t)n}, NAME_VALUE, 0);
}

static bool is_passed_over(const char *name)
{
    return name[0] == '.' || !strcmp(name, "node_modules") || !strcmp(name, "site-packages");
}

static void read_folders(walk *w)
{
    name_table *b = w->f->b;
    for (size_t at = 0; at < w->todo.len && !b->status;) {
        char folder[4096], path[4096];
        folder_list list;
        snprintf(folder, sizeof folder, "%s", w->todo.ptr + at);
        at += strlen(w->todo.ptr + at) + 1;
        bool listed = folder_read(w->f, folder, &list);
        for (uint32_t i = 0; listed && i < list.n && !b->status; i++) {
            const char *name = folder_name(&list, i);
            if (!folder_join(path, folder, name)) continue;
            /* A name without an extension may be a header or a folder. */
            folder_kind kind = strrchr(name, '.') && is_header(name) ? FOLDERS_FILE
                                                                     : folder_kind_of(path);
            if (kind == FOLDERS_FILE && is_header(name)) add_header(w, path);
            if (kind != FOLDERS_FOLDER || is_passed_over(name)) continue;
            add_folder(w, path);
            if (w->own) add_own(w, name);
        }
        folder_close(&list);
    }
}

/* /usr/lib/gcc/TARGET/VERSION/include, and clang's. */
static void add_compilers(walk *w)
{
    static const char *const tops[] = {"/usr/lib/gcc", "/usr/lib/clang",
                                       "/usr/lib/llvm-14/lib/clang", "/usr/lib/llvm-16/lib/clang",
                                       "/usr/lib/llvm-19/lib/clang"};
    for (size_t i = 0; i < ARRAY_LEN(tops); i++)
        if (folder_kind_of(tops[i]) == FOLDERS_FOLDER) add_folder(w, tops[i]);
}

/* Folders after -I, -isystem and the like; true if the build downloads headers. */
static bool read_build(walk *w, const char *root, const char *name)
{
    static const char *const options[] = {"-I", "-isystem", "-iquote", "-idirafter"};
    static const char *const fetches[] = {"FetchContent", "ExternalProject", "CPMAddPackage",
                                          "conan", "vcpkg", "wrap-git"};
    char path[4096], folder[4096];
    bytes text = {.max = BUILD_BYTES_MAX + 1};
    bool fetched = false;
    if (folder_join(path, root, name) && folder_file(w->f, path, BUILD_BYTES_MAX, &text)) {
        for (size_t i = 0; i < ARRAY_LEN(fetches); i++)
            fetched |= strstr(text.ptr, fetches[i]) != NULL;
        for (const char *p = text.ptr; (p = strchr(p, '-')); p++) {
            for (size_t i = 0; i < ARRAY_LEN(options); i++) {
                if (strncmp(p, options[i], strlen(options[i])) != 0) continue;
                const char *from = p + strlen(options[i]);
                from += strspn(from, " \"',");
                int n = (int)strcspn(from, " \t\r\n\"',;)");
                bool fits = from[0] == '/' && n < (int)sizeof folder;
                if (!fits || memchr(from, '$', (size_t)n)) continue;
                snprintf(folder, sizeof folder, "%.*s", n, from);
                if (folder_kind_of(folder) == FOLDERS_FOLDER) add_folder(w, folder);
            }
        }
    }
    bytes_free(&text);
    return fetched;
}

static bool read_builds(walk *w, const char *root)
{
    static const char *const names_[] = {"Makefile", "makefile", "GNUmakefile", "CMakeLists.txt",
                                         "compile_commands.json", "compile_flags.txt", ".clangd",
                                         "build/compile_commands.json", "meson.build",
                                         "conanfile.txt", "conanfile.py", "vcpkg.json", "xmake.lua",
                                         "WORKSPACE", "MODULE.bazel", "platformio.ini"};
    bool fetched = false;
    for (size_t i = 0; i < ARRAY_LEN(names_); i++) {
        char path[4096];
        fetched |= read_build(w, root, names_[i]);
        /* These name packages that others install. */
        if (i >= 9 && folder_join(path, root, names_[i]))
            fetched |= folder_kind_of(path) == FOLDERS_FILE;
    }
    return fetched;
}

void c_headers(folders *f, const char *root)
{
    static const char *const tops[] = {"/usr/include", "/usr/local/include", "/usr/share/include",
                                       "/opt/include"};
    walk w = {.f = f, .todo = {.max = 64 << 20}};
    name_table *b = f->b;
    b->pass = 0;
    for (size_t i = 0; i < ARRAY_LEN(tops); i++)
        if (folder_kind_of(tops[i]) == FOLDERS_FOLDER) add_folder(&w, tops[i]);
    add_compilers(&w);
    bool fetched = read_builds(&w, root);
    read_folders(&w);
    w.todo.len = 0;
    w.own = true;
    add_folder(&w, root);
    read_folders(&w);
    const bool whole = !b->status; /* otherwise an unseen header may exist */
    if (b->status == CERIUM_ERR_CAPACITY) b->status = CERIUM_OK;
    bool system = names_find(b, 0, VIEW("cstdio.h")) != NAMES_NONE &&
                  names_find(b, 0, VIEW("cstddef.h")) != NAMES_NONE;
    if (system && whole && !fetched)
        (void)names_module(b, VIEW("c!"), SCOPE_OPEN, VIEW("c!"));
    bytes_free(&w.todo);
}
