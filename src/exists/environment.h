/* environment.h - what code of a workspace can import: found on disk, read, and sealed.
 *
 * Beside modules the root has marks of what is known of the whole:
 *   "p!" "j!"      packages of Python, of node, were read: what is not there is not installed
 *   "p*" "j*"      but something adds to them as it runs: of others nobody can tell
 *   "dpNAME" "djNAME"   a manifest names it
 * For Go see go.h, for C folders.h. */
#ifndef EXISTS_ENVIRONMENT_H
#define EXISTS_ENVIRONMENT_H

#include <stdatomic.h>

#include "exists/index.h"

typedef struct {
    const char *root;         /* the workspace */
    const char *kept_in;      /* the folder for the index; NULL: it is not kept */
    const _Atomic bool *stop; /* or NULL: gives up when it is set */
    void (*progress)(void *user, uint32_t n_files);
    void *user;
} environment_config;

/* What the environment is made of, as a number that changes with it; never 0. */
uint64_t environment_hash(const char *root);
/* The index of the environment: mapped if it is kept, else read anew and kept.
 * CERIUM_ERR_CANCELED when *stop was set; CERIUM_ERR_IO when the root cannot be read;
 * CERIUM_ERR_MEMORY. */
CERIUM_CHECKED int environment_read(names_index **out, const environment_config *config,
                                    cerium_error *err);

#endif
