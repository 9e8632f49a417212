/* convert_tokenizer.h - what a tokenizer.json does that a GGUF file cannot say. */
#ifndef CONVERT_CONVERT_TOKENIZER_H
#define CONVERT_CONVERT_TOKENIZER_H

#include "base/base.h"
#include "base/json.h"

/* Settings that change the tokens of a text, and that no GGUF key keeps: of normalizers,
 * pre-tokenizers, the model and added tokens.  CERIUM_ERR_FORMAT names the first. */
CERIUM_CHECKED int convert_tokenizer_check(const json_t *root, bool is_sentencepiece,
                                           cerium_error *err);
/* Does it compose characters (the normalizer NFC)?  GGUF files of Qwen's models do without. */
bool convert_tokenizer_composes(const json_t *root);

#endif
