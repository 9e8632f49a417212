/* prompt.h - builds a prompt from scaffolding, in which special tokens are recognized, and text
 * from outside, in which they are only text.
 *
 * Private to this folder.  Neighbouring text is encoded together, whatever its source, as a model's
 * own tokenizer would encode the rendered form: "user\n" and "\nHello" share "\n\n". The first
 * error sticks, so only prompt_finish() is checked. */
#ifndef TOKENIZER_PROMPT_H
#define TOKENIZER_PROMPT_H

#include "base/memory.h"
#include "tokenizer/tokenizer.h"

typedef struct {
    const tokenizer *t;
    int32_t *tokens; /* [cap] */
    size_t cap, n;
    bytes pending;   /* text that is not yet encoded */
    bool bare;       /* pending gets no added space */
    int32_t last;    /* token before pending, as far as an added space depends on it */
    int status;
    cerium_error *err;
} prompt;

/* Begins with TOKEN_BOS if bos is set and the vocabulary has one. */
void prompt_open(prompt *p, const tokenizer *t, bool bos, int32_t *tokens, size_t cap,
                 cerium_error *err);
/* Names of special tokens in scaffold become those tokens.  A space at the start is omitted if the
 * tokenizer adds one itself. */
void prompt_scaffold(prompt *p, const char *scaffold);
void prompt_scaffold_view(prompt *p, view scaffold);
void prompt_text(prompt *p, view text);
/* The same, as the middle of something: the tokenizer adds no space before it. */
void prompt_bare_text(prompt *p, view text);
void prompt_token(prompt *p, int32_t id);
/* The text before and the text after are encoded on their own: a possible seam of timelines. */
void prompt_cut(prompt *p);
/* Right after prompt_open(): the prompt continues a timeline that ended with this token. */
void prompt_after(prompt *p, int32_t last);
/* Set an error while a prompt is made; the first one stays. */
void prompt_fail(prompt *p, int status);
/* Encodes the pending text and frees all.  *n: tokens written; needed with CERIUM_ERR_CAPACITY. */
CERIUM_CHECKED int prompt_finish(prompt *p, size_t *n);

#endif
