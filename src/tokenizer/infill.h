/* infill.h - prompts that ask a model to fill the hole between a prefix and a suffix, in the
 * order and with the tokens that its family was trained on. */
#ifndef TOKENIZER_INFILL_H
#define TOKENIZER_INFILL_H

#include "tokenizer/tokenizer.h"

typedef enum {
    INFILL_NONE,
    INFILL_PREFIX_FIRST, /* [pre] prefix [suf] suffix [mid]: Qwen, StarCoder, DeepSeek, CodeLlama,
                            GLM, Granite, CodeGemma */
    INFILL_SUFFIX_FIRST, /* [suf] suffix [pre] prefix [mid]: Mellum, and files
                            that say so (docs/formats.md) */
    INFILL_CODESTRAL,    /* [suf] suffix [pre] prefix, and no third token */
} infill_order;

typedef struct {
    infill_order order;
    int32_t pre, suf, mid;
    int32_t rep, sep;    /* before the repository's name and each file's name, or TOKEN_NONE */
    bool repo_line;      /* a newline ends the repository's name */
} infill_form;

/* INFILL_NONE: the vocabulary lacks the tokens. */
infill_form infill_detect(const tokenizer *t);

/* Tokens of a request.  Extra files come first and in the order given, so that their cached KV
 * stays valid while the user types; forms without a token for files omit them.
 *   tokens:   [cap]; may be NULL when cap is 0
 *   n_tokens: tokens written; tokens needed with CERIUM_ERR_CAPACITY
 * CERIUM_ERR_FORMAT: form is INFILL_NONE; CERIUM_ERR_ARGUMENT: NULL with a length. */
CERIUM_CHECKED int infill_render(const tokenizer *t, const infill_form *form,
                                 const cerium_infill *infill, int32_t *tokens, size_t cap,
                                 size_t *n_tokens, cerium_error *err);

#endif
