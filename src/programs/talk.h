/* talk.h - a conversation in the terminal: lines, commands, answers as they come. */
#ifndef PROGRAMS_TALK_H
#define PROGRAMS_TALK_H

#include "programs/generate.h"

/* Tokens of a conversation, owned (memory_free). */
CERIUM_CHECKED int talk_tokens(const cerium_engine *engine, const cerium_message *messages,
                               size_t n, int32_t **tokens, size_t *n_tokens, cerium_error *err);

typedef struct {
    cerium_engine *engine;
    cerium_session *session;
    generation_order order; /* settings of each answer, without tokens and output */
    const char *system;     /* NULL for none */
    bool quiet;
} talk_config;

/* Runs until the user ends it, then returns CERIUM_OK. A failed turn is reported and the
 * conversation continues. */
CERIUM_CHECKED int talk(const talk_config *config, cerium_error *err);

#endif
