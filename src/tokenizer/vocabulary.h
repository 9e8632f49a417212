/* vocabulary.h - the tokens of a model: bytes, kind, and the way back from bytes to ids.
 *
 * Private to this folder.  Bytes are raw: the byte alphabet of GPT-2 is undone, the SentencePiece
 * space mark is a space, <0x0A> is one byte.  Control tokens keep their name. */
#ifndef TOKENIZER_VOCABULARY_H
#define TOKENIZER_VOCABULARY_H

#include "base/memory.h"
#include "gguf/gguf.h"
#include "tokenizer/tokenizer.h"

typedef enum { VOCABULARY_BYTES, VOCABULARY_SENTENCEPIECE } vocabulary_form;

/* Values as in tokenizer.ggml.token_type. */
typedef enum {
    TOKEN_NORMAL = 1,
    TOKEN_UNKNOWN = 2,
    TOKEN_CONTROL = 3,
    TOKEN_USER = 4,
    TOKEN_UNUSED = 5,
    TOKEN_BYTE = 6,
} token_kind;

/* An id found by its bytes.  Open addressing; id < 0 marks a free place. */
typedef struct {
    uint32_t hash;
    int32_t id;
} vocabulary_slot;

typedef struct {
    vocabulary_form form;
    bool lists_merges;  /* the file has a list of merges, not only scores */
    uint32_t n_tokens;
    char *text;         /* bytes of all tokens, one after the other */
    uint32_t *offsets;  /* [n_tokens + 1] into text */
    uint8_t *kinds;     /* [n_tokens] token_kind */
    vocabulary_slot *by_bytes; /* [n_slots] tokens that represent text */
    vocabulary_slot *by_name;  /* [n_name_slots] control and user-defined tokens */
    size_t n_slots, n_name_slots; /* powers of two */
    int32_t byte_ids[256]; /* the token of a single byte, or the unknown token, or TOKEN_NONE */
} vocabulary;

CERIUM_CHECKED int vocabulary_open(vocabulary *v, const gguf_file *file, cerium_error *err);
void vocabulary_close(vocabulary *v);

static inline view vocabulary_bytes(const vocabulary *v, int32_t id)
{
    return (view){v->text + v->offsets[id], v->offsets[id + 1] - v->offsets[id]};
}

/* The token of a text; TOKEN_NONE: there is none.  Control, unknown and byte tokens are not found
 * here, unless they became control by vocabulary_make_control(). */
int32_t vocabulary_find(const vocabulary *v, view text);
/* The same in steps, so that many searches wait for memory at once: hash all, fetch all, find. */
int32_t vocabulary_find_hashed(const vocabulary *v, view text, uint32_t hash);
static inline void vocabulary_fetch(const vocabulary *v, uint32_t hash)
{
    __builtin_prefetch(&v->by_bytes[hash & (v->n_slots - 1)]);
}
static inline void vocabulary_fetch_text(const vocabulary *v, uint32_t hash)
{
    int32_t id = v->by_bytes[hash & (v->n_slots - 1)].id;
    if (id >= 0) __builtin_prefetch(v->text + v->offsets[id]);
}
/* The control or user-defined token of that name. */
int32_t vocabulary_find_name(const vocabulary *v, view name);

/* Make a token control: it is found by its name and no longer matches text. */
void vocabulary_make_control(vocabulary *v, int32_t id);

/* SentencePiece writes a space as U+2581.  Returns the number of raw bytes, at most text.len. */
size_t vocabulary_unmark(view text, char *raw);

/* Undo the byte alphabet of GPT-2: raw[] gets at most text.len bytes; false: text holds a character
 * outside that alphabet. */
bool vocabulary_unalphabet(view text, char *raw, size_t *raw_len);

uint64_t vocabulary_hash(const char *p, size_t len);

#endif
