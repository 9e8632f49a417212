/* counting.h - the prompt of a request without an answer: its number of tokens, or its text. */
#ifndef SERVER_COUNTING_H
#define SERVER_COUNTING_H

#include "server/state.h"

typedef enum {
    COUNT_NONE = 0,  /* the request is answered */
    COUNT_TOKENS,    /* {"input_tokens": N}, and for OpenAI's APIs the kind of object */
    COUNT_RENDER,    /* {"token_ids": [...]}, of Completions one for each prompt, as in vLLM, for
                        routers that look for cached beginnings */
    COUNT_TEMPLATE,  /* {"prompt": "..."}, as in llama.cpp's /apply-template */
} count_what;

/* Takes the request, of this many received bytes.  It does not count against limits. */
void counting_begin(connection *c, protocol_request *request, count_what what, size_t n_bytes);

#endif
