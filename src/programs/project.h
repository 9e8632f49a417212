/* project.h - is a file part of a project: a whole program or library? */
#ifndef PROGRAMS_PROJECT_H
#define PROGRAMS_PROJECT_H

#include "base/base.h"

enum { PROJECT_PATH_BYTES = 4096 };

/* Answers for the files of one folder, in any order; what was found of the last folder is kept. */
typedef struct {
    size_t n_root;      /* bytes of the folder's name */
    bool whole;         /* it is within a project */
    size_t n_last;
    char last[PROJECT_PATH_BYTES]; /* [n_last] the folder of the file before */
    bool last_is;
} project;

/* folder: as it was named.  If it is in a repository, folders above it count, up to its root. */
void project_begin(project *p, const char *folder);
/* Is there a manifest (package.json, pyproject.toml, go.mod, a Makefile, ...) in the folder of the
 * file or in one above it?  path begins with the folder's name. */
bool project_has(project *p, const char *path);

#endif
