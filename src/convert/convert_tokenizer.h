/* convert_tokenizer.h - what a tokenizer.json does that a GGUF file cannot say. */
#ifndef CONVERT_CONVERT_TOKENIZER_H
#define CONVERT_CONVERT_TOKENIZER_H

#include "base/base.h"
#include "base/json.h"

/* Settings that change the tokens of a text, and that no GGUF key keeps: of normalizers,
 * pre-tokenizers, the model and added tokens.  CERIUM_ERR_FORMAT names the first. */
CERIUM_CHECKED int convert_tokenizer_check(const json_t *root, bool is_sentencepiece,
                                           cerium_error *err);
/* Settings that other converters leave out, too: a line for the at-th (0, 1, ...) that the file
 * has, NULL: no more. */
const char *convert_tokenizer_left_out(const json_t *root, size_t at);

#endif
