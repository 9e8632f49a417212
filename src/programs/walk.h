/* walk.h - the files of a folder, as git lists them. */
#ifndef PROGRAMS_WALK_H
#define PROGRAMS_WALK_H

#include "base/base.h"

typedef struct {
    /* A plain file, by a path that begins as the folder was named; in the order of names. */
    int (*file)(void *user, const char *path, cerium_error *err);
    /* What could not be looked into, and errno; NULL: it is passed over. */
    void (*trouble)(void *user, const char *path, int code);
    void *user;
} walk_visitor;

/* Every file under folder but what .gitignore files (from the root of its repository down),
 * .git/info/exclude and the user's own git/ignore leave out; what git follows is there all the
 * same.  Links are not gone through, .git and repositories within a repository not into. */
CERIUM_CHECKED int walk_folder(const char *folder, const walk_visitor *v, cerium_error *err);

#endif
