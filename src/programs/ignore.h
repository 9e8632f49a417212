/* ignore.h - which files git ignores, read from .gitignore files.  It never runs a program that an
 * untrusted repository names, as `git ls-files` may do (core.fsmonitor). */
#ifndef PROGRAMS_IGNORE_H
#define PROGRAMS_IGNORE_H

#include "base/memory.h"

typedef struct {
    size_t text, len;   /* of the pattern, in `text` */
    size_t base, n_base; /* the folder of its file, as a prefix of paths: "" or "src/" */
    bool negated, folders_only, anchored;
} ignore_rule;

/* Zero-initialised: ignores nothing. */
typedef struct {
    bytes text;
    ignore_rule *rules;
    size_t n, cap;
} ignore_rules;

/* Add the rules of a file of patterns for paths under base ("" or "src/"); none if it does not
 * exist.  CERIUM_ERR_MEMORY. */
CERIUM_CHECKED int ignore_read(ignore_rules *r, const char *path, const char *base);
/* Forget all but the first n rules. */
void ignore_cut(ignore_rules *r, size_t n);
/* Is the file or folder of that path, from the repository's root, ignored by itself? */
bool ignore_matches(const ignore_rules *r, const char *path, bool is_folder);
void ignore_free(ignore_rules *r);

/* Pure.  Does a path match a pattern of gitignore(5), both without a slash at the ends?  "**" is
 * any folders; "*" and "?" stay within one name. */
bool ignore_glob(view pattern, view path);

/* The paths that git tracks, from a repository's index: ignored or not, they belong to it. */
typedef struct {
    bytes text;      /* names, each with its terminator */
    size_t *names;   /* [n] in text, sorted */
    size_t n, cap;
} tracked_files;

/* Read .git/index of version 2 to 4 with SHA-1 names.  A missing or unsupported file yields none.
 * CERIUM_ERR_MEMORY. */
CERIUM_CHECKED int tracked_read(tracked_files *t, const char *path);
/* Is the path tracked, or, for a folder, is a path within it? */
bool tracked_has(const tracked_files *t, const char *path, bool is_folder);
void tracked_free(tracked_files *t);

#endif
