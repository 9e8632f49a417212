/* model_list.h - the models of a server: the list, their names, and the choice for a request.
 * docs/decisions/0065 has the reasons. */
#ifndef SERVER_MODEL_LIST_H
#define SERVER_MODEL_LIST_H

#include "server/state.h"

/* Requirements of a request that names no model. */
typedef enum {
    MODEL_TALKS = 0,
    MODEL_COMPLETES = 1,
    MODEL_EMBEDS = 2,
    MODEL_EDITS = 3, /* or completes */
} model_use;

/* List the models of the configuration.  CERIUM_ERR_*: the first model cannot be read; other
 * unreadable ones are logged and left out. */
CERIUM_CHECKED int models_open(server *s, cerium_error *err);
/* Call it when no answer is left, and no thread works. */
void models_close(server *s);

/* Reads a model's vocabulary and facts; on any thread.  *out owned: give it to models_add(), or
 * models_free(). */
CERIUM_CHECKED int models_read(server *s, const server_model *of, served_model **out,
                               cerium_error *err);
/* Add it to the list, under names that are still free.  CERIUM_ERR_CAPACITY: the list is full, or
 * already has that file. */
CERIUM_CHECKED int models_add(server *s, served_model *m);
void models_free(served_model **m);
/* Remove a deleted model from the list and free it: no thread reads the list now, and no answer
 * uses it. */
void models_remove(server *s, uint32_t i);
/* The configuration of its engine. */
cerium_engine_config models_engine_config(const served_model *m);

/* ---- on any thread ---- */

uint32_t models_n(const server *s);
served_model *models_at(const server *s, uint32_t i);
model_use models_use_of(protocol_api api, bool has_suffix);
/* Name NULL, or "cerium": the first suitable model.  NULL: unknown name, and there are several
 * models. */
served_model *models_choose(const server *s, const char *name, model_use use);
/* Only by its names, with and without ":latest"; "cerium" is the first chat model. */
served_model *models_named(const server *s, const char *name);
/* The same for a request; if there is none, the first model. */
served_model *models_of(const server *s, const protocol_request *r);
/* 404, with the existing names. */
int models_unknown(const server *s, const char *name, protocol_error *e);

#endif
