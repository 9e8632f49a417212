/* pull.h - models of models.list, for a server whose page offers them. */
#ifndef PROGRAMS_PULL_H
#define PROGRAMS_PULL_H

#include "server/server.h"

/* Those of models.list whose sizes it says; returns how many were written to out [n_max]. */
uint32_t pull_offers(server_offer *out, uint32_t n_max);
/* Fetch one of them into the folder of models, or find it there; its file's name to path.
 * CERIUM_ERR_ARGUMENT: no such name; CERIUM_ERR_IO, CERIUM_ERR_FORMAT; CERIUM_ERR_CANCELED. */
CERIUM_CHECKED int pull_listed(const char *name, const server_pull_hooks *hooks,
                               char path[SERVER_PULL_PATH_MAX], cerium_error *err);

/* Remove a file that was fetched, with what was made of it; all parts of a split one.
 * CERIUM_ERR_ARGUMENT: it is none, or no plain file right in the folder of models; CERIUM_ERR_IO.
 * really false: only look. */
CERIUM_CHECKED int pull_remove(const char *path, bool really, cerium_error *err);

#endif
