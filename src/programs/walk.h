/* walk.h - the files of a folder, as git lists them. */
#ifndef PROGRAMS_WALK_H
#define PROGRAMS_WALK_H

#include "base/base.h"

typedef struct {
    /* A regular file, with a path that begins with the folder's name as given; in the order of
     * names. */
    int (*file)(void *user, const char *path, cerium_error *err);
    /* A path that could not be read, and errno; NULL: it is skipped. */
    void (*trouble)(void *user, const char *path, int code);
    void *user;
} walk_visitor;

/* Visit every file under folder except those that .gitignore files (from the root of its repository
 * down), .git/info/exclude and the user's own git/ignore exclude; tracked files are visited in any
 * case.  Does not follow links, nor enter .git and repositories within a repository. */
CERIUM_CHECKED int walk_folder(const char *folder, const walk_visitor *v, cerium_error *err);

#endif
