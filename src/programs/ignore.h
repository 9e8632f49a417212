/* ignore.h - which files git leaves out, read from .gitignore files: no program of a strange
 * repository is run for it, as `git ls-files` may do (core.fsmonitor). */
#ifndef PROGRAMS_IGNORE_H
#define PROGRAMS_IGNORE_H

#include "base/memory.h"

typedef struct {
    size_t text, len;   /* of the pattern, in `text` */
    size_t base, n_base; /* the folder that its file is in, as its paths begin: "" or "src/" */
    bool negated, folders_only, anchored;
} ignore_rule;

/* Zero-initialised: nothing is left out. */
typedef struct {
    bytes text;
    ignore_rule *rules;
    size_t n, cap;
} ignore_rules;

/* Add what a file of patterns says of paths under base ("" or "src/"); none where there is no file.
 * CERIUM_ERR_MEMORY. */
CERIUM_CHECKED int ignore_read(ignore_rules *r, const char *path, const char *base);
/* Forget all but the first n rules. */
void ignore_cut(ignore_rules *r, size_t n);
/* Is the file or folder of that path, from the repository's root, left out by itself? */
bool ignore_matches(const ignore_rules *r, const char *path, bool is_folder);
void ignore_free(ignore_rules *r);

/* Pure.  Does a path match a pattern of gitignore(5), both without a slash at the ends?  "**" is
 * any folders; "*" and "?" stay within one name. */
bool ignore_glob(view pattern, view path);

/* The paths that git follows, from a repository's index: they are its files, ignored or not. */
typedef struct {
    bytes text;      /* names, each with its end */
    size_t *names;   /* [n] in text, sorted */
    size_t n, cap;
} tracked_files;

/* Of a file .git/index of version 2 to 4 with SHA-1 names.  No file, or one that is not understood,
 * has none.  CERIUM_ERR_MEMORY. */
CERIUM_CHECKED int tracked_read(tracked_files *t, const char *path);
/* Is it one, or, for a folder, is one within it? */
bool tracked_has(const tracked_files *t, const char *path, bool is_folder);
void tracked_free(tracked_files *t);

#endif
