/* serve_models.h - which models `cerium serve` is to serve: files, names, a folder of them. */
#ifndef PROGRAMS_SERVE_MODELS_H
#define PROGRAMS_SERVE_MODELS_H

#include "programs/options.h"
#include "server/server.h"

typedef struct {
    server_model list[SERVER_MODELS_MAX]; /* [n] the first is what requests get */
    size_t n;
    const char *names[SERVER_MODELS_MAX][SERVER_MODEL_NAMES_MAX];
    bytes texts;      /* what paths and names point into */
} serve_models;

/* "FILE" or "NAME=FILE", FILE as -m has it; the same file again is one more name of it.
 * CERIUM_ERR_ARGUMENT: too many; CERIUM_ERR_IO: no such file. */
CERIUM_CHECKED int serve_models_add(serve_models *m, const char *what, cerium_error *err);
/* Every model file of a folder, by name. */
CERIUM_CHECKED int serve_models_add_folder(serve_models *m, const char *folder, cerium_error *err);
void serve_models_free(serve_models *m);

#endif
