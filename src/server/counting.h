/* counting.h - what a request is as a prompt, without an answer to it: how many tokens, or its
 * text. */
#ifndef SERVER_COUNTING_H
#define SERVER_COUNTING_H

#include "server/state.h"

typedef enum {
    COUNT_NONE = 0,  /* the request is answered */
    COUNT_TOKENS,    /* {"input_tokens": N}, and of OpenAI's APIs what kind of object that is */
    COUNT_RENDER,    /* {"token_ids": [...]}, of Completions one for each prompt, as vLLM
                        has it for routers that look for cached beginnings */
    COUNT_TEMPLATE,  /* {"prompt": "..."}, as llama.cpp's /apply-template has it */
} count_what;

/* Takes the request, which came as this many bytes.  Nothing of it counts against limits. */
void counting_begin(connection *c, protocol_request *request, count_what what, size_t n_bytes);

#endif
