/* special.h - the tokens with a role, those that end a generation, and those found in text.
 *
 * Private to this folder. */
#ifndef TOKENIZER_SPECIAL_H
#define TOKENIZER_SPECIAL_H

#include "tokenizer/merges.h"

typedef struct {
    int32_t roles[TOKEN_ROLES];
    uint8_t *ends; /* [n_tokens] 1: ends a generation */
    /* Tries over the texts of special tokens, for the longest one at a place.  Root 0 holds all of
     * them, root 1 those that are recognized in plain text too.  Node ids come from children. */
    merge_map children;    /* (node, byte) -> node */
    int32_t *node_tokens;  /* [n_nodes] the token that ends here, or TOKEN_NONE */
    uint32_t n_nodes;
    bool begins[2][256];   /* bytes with which a token of the trie begins */
} special_tokens;

/* Also makes tokens control whose text says so (their kind in v changes). */
CERIUM_CHECKED int special_open(special_tokens *s, vocabulary *v, const gguf_file *file,
                                cerium_error *err);
void special_close(special_tokens *s);

/* Find the first special token in text, the longest at its place: *at is its place, *len the length
 * of its text.  TOKEN_NONE when there is none.
 *   all: control tokens too; otherwise only added tokens that are plain text (runs of spaces) */
int32_t special_find(const special_tokens *s, view text, bool all, size_t *at, size_t *len);

#endif
