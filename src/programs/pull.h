/* pull.h - models of models.list, for a server whose page offers them. */
#ifndef PROGRAMS_PULL_H
#define PROGRAMS_PULL_H

#include "server/server.h"

/* The models of models.list with known sizes; returns how many were written to out [n_max]. */
uint32_t pull_offers(server_offer *out, uint32_t n_max);
/* Download one of them into the folder of models, or find it there; writes its file's name to path.
 * CERIUM_ERR_ARGUMENT: no such name; CERIUM_ERR_IO, CERIUM_ERR_FORMAT; CERIUM_ERR_CANCELED. */
CERIUM_CHECKED int pull_listed(const char *name, const server_pull_hooks *hooks,
                               char path[SERVER_PULL_PATH_MAX], cerium_error *err);

/* Remove a downloaded file with everything derived from it; all parts of a split one.
 * CERIUM_ERR_ARGUMENT: not a downloaded model, or not a plain file directly in the folder of
 * models; CERIUM_ERR_IO. really false: only check. */
CERIUM_CHECKED int pull_remove(const char *path, bool really, cerium_error *err);

#endif
