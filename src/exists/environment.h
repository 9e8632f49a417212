/* environment.h - the modules that code of a workspace can import: found on disk, read, and sealed.
 *
 * Beside modules the root has marks for the whole:
 *   "p!" "j!"      packages of Python, of node, were read: a missing one is not installed
 *   "p*" "j*"      but something adds to them at run time: others are unknown
 *   "dpNAME" "djNAME"   a manifest names it
 * For Go see go.h, for C folders.h. */
#ifndef EXISTS_ENVIRONMENT_H
#define EXISTS_ENVIRONMENT_H

#include <stdatomic.h>

#include "exists/index.h"

typedef struct {
    const char *root;         /* the workspace */
    const char *kept_in;      /* the folder for the index; NULL: the index is not saved */
    const _Atomic bool *stop; /* or NULL: stops the reading when set */
    void (*progress)(void *user, uint32_t n_files);
    void *user;
} environment_config;

/* A hash of the environment, which changes with it; never 0. */
uint64_t environment_hash(const char *root);
/* The index of the environment: mapped if it was saved, else read anew and saved.
 * CERIUM_ERR_CANCELED: *stop was set; CERIUM_ERR_IO: the root cannot be read; CERIUM_ERR_MEMORY. */
CERIUM_CHECKED int environment_read(names_index **out, const environment_config *config,
                                    cerium_error *err);

#endif
