/* mask.h - token masks for constrained decoding: a sorted vocabulary, matched against a grammar.
 *
 * A mask is one bit for each token.  Tokens of nothing but plain characters (grammar.h) are most of
 * a vocabulary, and in a string nearly all of them may follow: they are handled together, by their
 * number of characters; only the rest is walked. The matcher caches masks by state, so most of them
 * are computed only once. */
#ifndef SAMPLING_MASK_H
#define SAMPLING_MASK_H

#include "base/memory.h"
#include "sampling/matcher.h"

enum { MASKS_KEPT = 48 };

/* Bytes of a token, as a grammar sees it; empty: it has no text. */
typedef struct {
    view text;
    bool is_control; /* text is its name */
    bool is_end;
} mask_token;

/* A node of a trie, in the order of a walk: children follow their parent. */
typedef struct {
    uint32_t skip;   /* the next node that is not a descendant */
    uint32_t first;  /* of the tokens that go through it, in `order`; those that end here first */
    uint16_t depth;  /* bytes to here, from 1 */
    uint16_t n_here; /* tokens that end here */
    uint8_t byte;
    uint8_t below; /* characters that the longest of those continues with */
    bool is_cut;   /* within a character */
} mask_node;

typedef struct {
    mask_node *nodes; /* [n_nodes + 1] */
    uint32_t n_nodes;
    uint32_t *order; /* [n_tokens] by bytes */
    uint32_t n_tokens;
    bool is_plain;
} mask_trie;

typedef struct {
    uint32_t n_vocab, n_words; /* words: of a mask, 64 tokens each */
    uint32_t token_bytes_max;  /* longest path, marks of control tokens included */
    mask_trie plain, rest;
    uint64_t *runs;       /* [GRAMMAR_RUN_MAX + 1][n_words] plain tokens of this many characters
                             at most */
    uint64_t *ends, *all; /* [n_words] end tokens; tokens that have a text or end */
    bytes texts;          /* of all tokens, one after the other */
    uint32_t *at;         /* [n_vocab + 1] where */
    bool *is_control;     /* [n_vocab] */
} mask_vocabulary;

/* tokens: [n_vocab]. *out is owned. Cost: sorting the vocabulary. */
CERIUM_CHECKED int mask_vocabulary_open(mask_vocabulary **out, const mask_token *tokens,
                                        uint32_t n_vocab, cerium_error *err);
void mask_vocabulary_close(mask_vocabulary **v);

static inline view mask_text(const mask_vocabulary *v, uint32_t token)
{
    return (view){v->texts.ptr + v->at[token], v->at[token + 1] - v->at[token]};
}
static inline bool mask_has(const uint64_t *mask, uint32_t token)
{
    return mask[token / 64] >> (token % 64) & 1;
}
static inline void mask_set(uint64_t *mask, uint32_t token)
{
    mask[token / 64] |= UINT64_C(1) << (token % 64);
}
/* How many tokens it has; stops at most. */
uint32_t mask_count(const uint64_t *mask, uint32_t n_words, uint32_t most);

/* Memory for masks of m with this vocabulary, once: its trie by m's classes of bytes; these are
 * few, so it is small where many tokens may follow.  Closed with m. CERIUM_ERR_MEMORY. */
CERIUM_CHECKED int mask_classes_open(matcher *m, const mask_vocabulary *v);

/* The tokens that may follow in a slot of m, cached or computed; valid until masks for MASKS_KEPT
 * other states were requested.
 *   is_open: after a complete text, free text may follow */
const uint64_t *mask_of(matcher *m, uint32_t slot, const mask_vocabulary *v, bool is_open);

/* Tokens that begin with text (control tokens: whose names do) and continue after it, into
 * *mask. */
void mask_add_longer(uint64_t *mask, const mask_vocabulary *v, view text);

#endif
