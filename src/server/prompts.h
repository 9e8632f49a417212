/* prompts.h - the prompts of a request, as tokens. */
#ifndef SERVER_PROMPTS_H
#define SERVER_PROMPTS_H

#include "server/state.h"

/* Buffers in which a prompt is made. */
typedef struct {
    int32_t *tokens; /* [cap] */
    size_t cap;      /* one more than the context has */
} prompt_room;

typedef struct {
    int32_t *tokens;   /* [n] in the buffers: valid until the next prompt is made there */
    size_t n;
    chain chain;       /* of the conversation; none for prompts without one */
    uint64_t instructions; /* of a conversation: hash of its instructions; 0 = none */
    size_t n_head;     /* tokens of the instructions and the tools, or CERIUM_NO_HEAD */
    view heal_prefix;      /* cerium_resume.heal_prefix: a part of the request's text */
} prompt;

/* The prompt of a conversation.  Instructions of an earlier turn do not carry over: new ones, or
 * none, replace them at the beginning, or are added if the chat form has no such place.
 *   previous: the turn that it continues, held by the caller, or NULL
 *   The request's results of tools get their names from previous->output.
 * CERIUM_ERR_ARGUMENT with *e: context_length_exceeded, or an error of the chat form. */
CERIUM_CHECKED int prompts_chat(const served_model *m, const prompt_room *room,
                                protocol_request *request, uint64_t tenant,
                                const history_turn *previous, prompt *out, protocol_error *e);
/* Prompt number i of a completion, or of infill. */
CERIUM_CHECKED int prompts_text(const served_model *m, const prompt_room *room,
                                const protocol_request *request, size_t i, prompt *out,
                                protocol_error *e);
/* Bytes of a context full of the longest tokens: more text cannot fit.  SIZE_MAX: unknown. */
size_t prompts_bytes_max(const served_model *m);
/* Tokenize plain text, into separate memory: *out owned. */
CERIUM_CHECKED int prompts_tokenize(const served_model *m, view text, unsigned flags, int32_t **out,
                                   size_t *n, protocol_error *e);

#endif
