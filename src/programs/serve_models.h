/* serve_models.h - the models that `cerium serve` offers: files, names, a folder of them. */
#ifndef PROGRAMS_SERVE_MODELS_H
#define PROGRAMS_SERVE_MODELS_H

#include "programs/options.h"
#include "server/server.h"

typedef struct {
    server_model list[SERVER_MODELS_MAX]; /* [n] the first is the default for requests */
    size_t n;
    const char *names[SERVER_MODELS_MAX][SERVER_MODEL_NAMES_MAX];
    bytes texts;      /* holds the text of paths and names */
} serve_models;

/* Add "FILE" or "NAME=FILE", with FILE as in -m; the same file again only gets one more name.
 * CERIUM_ERR_ARGUMENT: too many; CERIUM_ERR_IO: no such file. */
CERIUM_CHECKED int serve_models_add(serve_models *m, const char *what, cerium_error *err);
/* Add every model file of a folder, by name. */
CERIUM_CHECKED int serve_models_add_folder(serve_models *m, const char *folder, cerium_error *err);
void serve_models_free(serve_models *m);

#endif
