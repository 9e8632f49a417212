/* model_list.h - the models of a server: which there are, what they are called, and which one a
 * request gets.  docs/decisions/0065 has the reasons. */
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

/* List the models of the configuration.  CERIUM_ERR_*: the first model cannot be read; others that
 * cannot are logged and left out. */
CERIUM_CHECKED int models_open(server *s, cerium_error *err);
/* No answer is left, and no thread works. */
void models_close(server *s);

/* Reads a model's vocabulary and facts; on any thread.  *out owned: give it to models_add(), or
 * models_free(). */
CERIUM_CHECKED int models_read(server *s, const server_model *of, served_model **out,
                               cerium_error *err);
/* Takes it into the list, under names that are still free.  CERIUM_ERR_CAPACITY: the list is full,
 * or it has that file already. */
CERIUM_CHECKED int models_add(server *s, served_model *m);
void models_free(served_model **m);
/* Takes one that was deleted out of the list and frees it: no thread reads the list now, and no
 * answer has it. */
void models_remove(server *s, uint32_t i);
/* How an engine of it is opened. */
cerium_engine_config models_engine_config(const served_model *m);

/* ---- on any thread ---- */

uint32_t models_n(const server *s);
served_model *models_at(const server *s, uint32_t i);
model_use models_use_of(protocol_api api, bool has_suffix);
/* Name NULL, or "cerium": the first model that can.  NULL: there is none of that name, and there
 * are several. */
served_model *models_choose(const server *s, const char *name, model_use use);
/* By one of its names alone, with and without ":latest"; "cerium" is the first that talks. */
served_model *models_named(const server *s, const char *name);
/* The same of a request; where there is none, the first model. */
served_model *models_of(const server *s, const protocol_request *r);
/* 404, with the names that there are. */
int models_unknown(const server *s, const char *name, protocol_error *e);

#endif
