/* scan_exists.h - `cerium scan --exists`: finds names that code uses but that do not exist. */
#ifndef PROGRAMS_SCAN_EXISTS_H
#define PROGRAMS_SCAN_EXISTS_H

#include "base/base.h"

typedef struct {
    const char *language; /* NULL: by each file's name */
    const char *root;     /* whose environment to use; NULL: the one around each run's folder */
    bool json, batch;
    void (*trouble)(void *user, const char *line);
    void *user;
    uint64_t n_found;     /* written */
} scan_exists_job;

/* Files and folders; with batch the root, then files of JSON lines. */
CERIUM_CHECKED int scan_exists(scan_exists_job *job, int n, char **paths, cerium_error *err);

#endif
