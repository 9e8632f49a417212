/* limits.h - every maximum that input from outside meets, in one place.
 *
 * Each stands well above what real files and clients need, and bounds what a broken or hostile
 * one can make us allocate. */
#ifndef BASE_LIMITS_H
#define BASE_LIMITS_H

#include <stdint.h>

/* ---- model files ---- */

#define GGUF_VALUES_MAX        65536u      /* metadata keys of one file */
#define GGUF_TENSORS_MAX       65536u      /* tensors of a whole split set */
#define GGUF_KEY_BYTES_MAX     256u        /* length of a metadata key */
#define GGUF_NAME_BYTES_MAX    256u        /* length of a tensor's name */
#define GGUF_STRING_BYTES_MAX  (16u << 20) /* one string value: chat templates are ~10 KB */
#define GGUF_ITEMS_MAX         (16u << 20) /* items of one array: vocabularies are ~200,000 */
#define GGUF_SPLITS_MAX        1024u       /* files of a split set */
#define GGUF_ALIGNMENT_MIN     8u          /* the format's own rule */
#define GGUF_ALIGNMENT_MAX     65536u
#define GGUF_ALIGNMENT         32u /* when general.alignment is absent */
#define GGUF_TENSOR_VALUES_MAX (UINT64_C(1) << 48)

_Static_assert((GGUF_ALIGNMENT & (GGUF_ALIGNMENT - 1)) == 0, "alignments are powers of two");
_Static_assert(GGUF_TENSORS_MAX <= UINT32_MAX / 4, "hash tables index tensors by uint32_t");
_Static_assert(GGUF_VALUES_MAX <= UINT32_MAX / 4, "hash tables index keys by uint32_t");

/* ---- tokenizer ---- */

#define TOKENIZER_TOKENS_MAX      (1u << 22) /* of one vocabulary: known ones have 32 k to 260 k */
#define TOKENIZER_TOKEN_BYTES_MAX 4096u      /* text of one token in the file; known: 1024 */
#define TOKENIZER_TEXT_BYTES_MAX  (1u << 28) /* one text to encode; scratch is up to 40 times it */
#define TOKENIZER_PASSES_MAX      6u         /* expressions that one pre-tokenizer applies */

_Static_assert(TOKENIZER_TOKENS_MAX <= INT32_MAX / 2, "ids are int32_t, and symbols come on top");
_Static_assert((uint64_t)TOKENIZER_TEXT_BYTES_MAX * 2 <= UINT32_MAX, "positions are uint32_t");

#endif
