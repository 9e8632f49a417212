/* python_paths.c - the modules that Python finds in a folder of its path. */
#include "exists/folders.h"
#include "exists/code_file.h"

typedef struct {
    folders *f;
    bytes todo;    /* pairs of NUL-terminated strings: a folder and its dotted path */
    bytes text;
    bool library;  /* only names, for modules that are known already */
} search;

static bool is_word(view name)
{
    for (size_t i = 0; i < name.len; i++) {
        char c = name.ptr[i];
        bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' ||
                      (unsigned char)c >= 0x80;
        if (!letter && !(i && c >= '0' && c <= '9')) return false;
    }
    return name.len != 0;
}

static bool put_label(char *out, const char *above, view stem)
{
    return snprintf(out, NAMES_WORD_MAX, "p%s%s%.*s", above, *above ? "." : "", (int)stem.len,
                    stem.ptr) < (int)NAMES_WORD_MAX;
}

/* Names of a module that the interpreter has listed: names it did not list are of another
 * platform. */
static void read_beside(search *s, uint32_t module, view label, bool package, view text)
{
    name_table *b = s->f->b;
    uint32_t beside = names_scope(b, SCOPE_MODULE, label, NAMES_NONE);
    if (beside == NAMES_NONE) return;
    b->pass = 0;
    python_read(b, beside, label, package, text);
    b->pass = 1;
    if (b->status) return;
    for (uint32_t i = names_scope_at(b, beside)->first; i && !b->status;) {
        const name_entry e = *names_entry_at(b, i - 1);
        names_add(b, module, names_text(b, e.name), NAME_VALUE, 0);
        i = e.next;
    }
}

/* One file of a module; false: there is none. */
static bool read_one(search *s, const char *folder, const char *name, const char *end,
                     const char *label, bool package, uint8_t pass)
{
    char path[4096], file[NAMES_WORD_MAX];
    name_table *b = s->f->b;
    if (snprintf(file, sizeof file, "%s%s", name, end) >= (int)sizeof file) return false;
    if (!folder_join(path, folder, file) || folder_kind_of(path) != FOLDERS_FILE) return false;
    view shown = view_of(label + 1);
    if (s->library && names_find(b, 0, view_of(label)) == NAMES_NONE) return false;
    uint32_t module = names_module(b, view_of(label), package ? SCOPE_PACKAGE : 0, shown);
    if (module == NAMES_NONE) return false;
    if (package) names_scope_at(b, module)->flags |= SCOPE_PACKAGE;
    if (!folder_file(s->f, path, CODE_FILE_BYTES_MAX, &s->text)) names_open_scope(b, module);
    else if (s->library) read_beside(s, module, shown, package, (view){s->text.ptr, s->text.len});
    else {
        b->pass = pass;
        b->stub = !strcmp(end, ".pyi");
        if (b->stub) names_scope_at(b, module)->flags |= SCOPE_TYPES;
        python_read(b, module, shown, package, (view){s->text.ptr, s->text.len});
        b->stub = false;
    }
    return true;
}

/* Does the package declare that its declarations are complete (PEP 561)?  label: with its
 * letter. */
static bool is_typed(const search *s, const char *label)
{
    char mark[NAMES_WORD_MAX];
    int n = snprintf(mark, sizeof mark, "tp%.*s", (int)strcspn(label + 1, "."), label + 1);
    return names_find(s->f->b, 0, (view){mark, (size_t)n}) != NAMES_NONE;
}

/* A stub adds to the code beside it, and is complete if the package says so. */
static bool read_module(search *s, const char *folder, const char *name, const char *label,
                        bool package)
{
    name_table *b = s->f->b;
    bool stub = !s->library && read_one(s, folder, name, ".pyi", label, package, 0);
    uint32_t at = stub && !b->status ? names_find(b, 0, view_of(label)) : NAMES_NONE;
    bool closed = at != NAMES_NONE && is_typed(s, label) &&
                  !(names_scope_at(b, names_entry_at(b, at)->target)->flags & SCOPE_OPEN);
    bool code = read_one(s, folder, name, ".py", label, package, stub ? 1 : 0);
    if (closed && !b->status)
        names_scope_at(b, names_entry_at(b, at)->target)->flags &= (uint8_t)~SCOPE_OPEN;
    return stub || code;
}

static void add_folder(search *s, const char *path, const char *label)
{
    folder_put(s->f, &s->todo, path);
    folder_put(s->f, &s->todo, label);
}

static void see_file(search *s, const char *folder, const folder_list *list, const char *name,
                     const char *above)
{
    char label[NAMES_WORD_MAX], stem_text[256], stub[300];
    const char *dot = strchr(name, '.');
    view stem = {name, dot ? (size_t)(dot - name) : 0};
    if (!dot || !is_word(stem) || stem.len >= sizeof stem_text || !put_label(label, above, stem))
        return;
    memcpy(stem_text, stem.ptr, stem.len);
    stem_text[stem.len] = 0;
    if (!strcmp(stem_text, "__init__")) return;
    snprintf(stub, sizeof stub, "%s.pyi", stem_text);
    bool code = !strcmp(dot, ".py"), types = !strcmp(dot, ".pyi");
    bool native = strlen(dot) > 3 && (!strcmp(dot + strlen(dot) - 3, ".so") ||
                                      !strcmp(dot + strlen(dot) - 4, ".pyd"));
    if (types || (code && !folder_has(list, stub)))
        read_module(s, folder, stem_text, label, false);
    /* Stubs of a package's private parts have only the names that its checkers needed. */
    bool whole = folder_has(list, stub) && is_typed(s, label) && stem_text[0] != '_';
    if (native && !s->library && !whole) {
        uint32_t module = names_module(s->f->b, view_of(label), 0, view_of(label + 1));
        names_open_scope(s->f->b, module);
    }
}

static void see_folder(search *s, const char *folder, const char *name, const char *above)
{
    char path[4096], label[NAMES_WORD_MAX];
    view stem = view_of(name);
    bool stubs = !*above && stem.len > 6 && !strcmp(name + stem.len - 6, "-stubs");
    if (stubs) stem.len -= 6;
    if (!is_word(stem) || !strcmp(name, "__pycache__") || !folder_join(path, folder, name) ||
        !put_label(label, above, stem))
        return;
    uint32_t depth = 0;
    for (const char *c = label; *c; c++) depth += *c == '.';
    if (depth < FOLDERS_DEPTH_MAX) add_folder(s, path, label + 1);
}

/* A line of a .pth file is a folder; code in it may make any module. */
static void see_pth(search *s, const char *folder, const char *name)
{
    char path[4096], more[4096];
    bytes text = {.max = 1 << 16};
    name_table *b = s->f->b;
    if (folder_join(path, folder, name) && folder_file(s->f, path, 1 << 16, &text)) {
        for (size_t at = 0; at < text.len && !b->status;) {
            const char *stop = memchr(text.ptr + at, '\n', text.len - at);
            size_t n = stop ? (size_t)(stop - text.ptr) - at : text.len - at;
            view line = view_trim_end((view){text.ptr + at, n}, " \t\r");
            at += n + 1;
            if (!line.len || line.ptr[0] == '#' || line.len > 2000) continue;
            bool runs = view_starts(line, VIEW("import"));
            bool editable = runs && memmem(line.ptr, line.len, "editable", 8);
            if (editable) (void)names_module(b, VIEW("p*"), SCOPE_OPEN, VIEW("*"));
            if (runs) continue;
            bool absolute = line.ptr[0] == '/';
            int len = snprintf(more, sizeof more, "%s%s%.*s", absolute ? "" : folder,
                               absolute ? "" : "/", (int)line.len, line.ptr);
            if (len < (int)sizeof more && folder_kind_of(more) == FOLDERS_FOLDER)
                add_folder(s, more, "");
        }
    }
    bytes_free(&text);
}

/* A package, or a folder that is an implicit one. */
static void see_package(search *s, const char *folder, const char *above)
{
    char label[NAMES_WORD_MAX];
    char path[4096];
    if (!*above || snprintf(label, sizeof label, "tp%s", above) >= (int)sizeof label) return;
    bool typed = !strchr(above, '.') && folder_join(path, folder, "py.typed") &&
                 folder_kind_of(path) == FOLDERS_FILE;
    if (typed) names_add(s->f->b, 0, view_of(label), NAME_VALUE, 0);
    memmove(label, label + 1, strlen(label));
    if (read_module(s, folder, "__init__", label, true) || s->library) return;
    (void)names_module(s->f->b, view_of(label), SCOPE_PACKAGE, view_of(above));
}

static void search_folders(search *s)
{
    name_table *b = s->f->b;
    for (size_t at = 0; at < s->todo.len && !b->status;) {
        char folder[4096], above[NAMES_WORD_MAX], path[4096];
        folder_list list;
        size_t n = strlen(s->todo.ptr + at);
        if (snprintf(folder, sizeof folder, "%s", s->todo.ptr + at) >= (int)sizeof folder) return;
        snprintf(above, sizeof above, "%s", s->todo.ptr + at + n + 1);
        at += n + strlen(above) + 2;
        if (!folder_read(s->f, folder, &list)) {
            folder_close(&list);
            continue;
        }
        see_package(s, folder, above);
        for (uint32_t i = 0; i < list.n && !b->status; i++) {
            const char *name = folder_name(&list, i);
            size_t len = strlen(name);
            if (!*above && len > 4 && !strcmp(name + len - 4, ".pth")) see_pth(s, folder, name);
            else if (strchr(name, '.')) see_file(s, folder, &list, name, above);
            else if (folder_join(path, folder, name) && folder_kind_of(path) == FOLDERS_FOLDER)
                see_folder(s, folder, name, above);
        }
        folder_close(&list);
    }
}

static void search_from(folders *f, const char *path, bool library)
{
    search s = {.f = f, .todo = {.max = 64 << 20}, .text = {.max = CODE_FILE_BYTES_MAX + 1},
                .library = library};
    add_folder(&s, path, "");
    search_folders(&s);
    bytes_free(&s.todo);
    bytes_free(&s.text);
}

void python_folder(folders *f, const char *path) { search_from(f, path, false); }
void python_library(folders *f, const char *path) { search_from(f, path, true); }
