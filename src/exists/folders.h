/* folders.h - the contents of an environment's folders. */
#ifndef EXISTS_FOLDERS_H
#define EXISTS_FOLDERS_H

#include <stdatomic.h>

#include "exists/names.h"
#include "base/hash.h"

/* ---- limits: the most that a broken or hostile environment can take ---- */

#define FOLDERS_FILES_MAX 200000u /* looked at, at most */
#define FOLDERS_DEPTH_MAX 24u     /* in each other */
#define FOLDERS_NAMES_MAX 65536u  /* in one */

typedef struct {
    name_table *b;
    uint32_t n_files;          /* looked at so far */
    const _Atomic bool *stop;  /* or NULL */
    void (*progress)(void *user, uint32_t n_files);
    void *user;
} folders;

/* The names in a folder, sorted, NUL after each; a link counts as its target only below `root`.
 * False: it cannot be read, or the limits are reached. */
typedef struct {
    bytes names;   /* NUL-terminated */
    bytes offsets; /* uint32_t [n] */
    uint32_t n;
} folder_list;

bool folder_read(folders *f, const char *path, folder_list *out);
void folder_close(folder_list *l);
static inline const char *folder_name(const folder_list *l, uint32_t i)
{
    return l->names.ptr + ((const uint32_t *)l->offsets.ptr)[i];
}
bool folder_has(const folder_list *l, const char *name);

typedef enum { FOLDERS_NONE = 0, FOLDERS_FILE = 1, FOLDERS_FOLDER = 2 } folder_kind;
folder_kind folder_kind_of(const char *path);
/* Append a name to a list, with its NUL. */
static inline void folder_put(folders *f, bytes *list, const char *name)
{
    if (!f->b->status) f->b->status = bytes_append(list, name, strlen(name) + 1);
}
/* A whole file of at most max bytes, NUL after it. */
bool folder_file(folders *f, const char *path, size_t max, bytes *out);
/* "a/b" into out [4096]. */
bool folder_join(char *out, const char *a, const char *b);

/* ---- the readers ---- */

/* Modules of Python below a folder of its path.  outside: it holds installed packages. */
void python_folder(folders *f, const char *path);
/* Python's own sources: names of other platforms count, too. */
void python_library(folders *f, const char *path);
/* Names of the library that other platforms have. */
void python_platforms(name_table *b);
/* Headers of C and C++ of the system and the workspace: "cPATH" for each path, below any folder, by
 * which a compiler could find it; "hNAME" for each folder of the workspace; "c!" if the system has
 * the headers of the C library. */
void c_headers(folders *f, const char *root);
/* Packages below PATH/node_modules. */
void node_folder(folders *f, const char *path);

#endif
