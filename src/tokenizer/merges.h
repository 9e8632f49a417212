/* merges.h - which two neighbours become one token, and in what order.
 *
 * Private to this folder.  A symbol is a token, or (SentencePiece only) a character that is not a
 * token but a part of one; symbols of the second kind have ids from n_tokens on.  A pair with a
 * lower rank merges first, of equal ranks the left one. */
#ifndef TOKENIZER_MERGES_H
#define TOKENIZER_MERGES_H

#include "tokenizer/vocabulary.h"

/* Open addressing; key 0 marks a free place. */
typedef struct {
    uint64_t key; /* see merge_key() */
    uint32_t rank;
    int32_t id; /* the result of the pair */
} merge_slot;

/* A map from two numbers to a rank and an id. */
typedef struct {
    merge_slot *slots; /* [mask + 1] */
    size_t mask;
    size_t n, n_max;
    uint32_t n_ranks; /* one above the highest rank */
} merge_map;

typedef struct {
    merge_map pairs;
    /* SentencePiece only: */
    merge_map characters; /* (0, code of an UTF-8 character) -> symbol */
    uint32_t n_symbols;   /* n_tokens and the characters that are not tokens */
    uint8_t *joins;       /* [65536] bytes a, b: a token holds them side by side at [a << 8 | b] */
} merges;

CERIUM_CHECKED int merge_map_open(merge_map *map, size_t n_max);
void merge_map_close(merge_map *map);
/* The first of equal keys stays.  The map has room: the caller counted. */
void merge_map_add(merge_map *map, uint32_t left, uint32_t right, uint32_t rank, int32_t id);

/* Never 0, also when left or right is TOKEN_NONE: left is below 2^31, so the top bit is free. */
static inline uint64_t merge_key(uint32_t left, uint32_t right)
{
    return UINT64_C(1) << 63 | (uint64_t)left << 32 | right;
}

static inline size_t merge_hash(uint64_t key)
{
    key *= UINT64_C(0x9E3779B97F4A7C15);
    return (size_t)(key ^ key >> 32);
}

static inline void merge_map_fetch(const merge_map *map, int32_t left, int32_t right)
{
    __builtin_prefetch(
        &map->slots[merge_hash(merge_key((uint32_t)left, (uint32_t)right)) & map->mask]);
}

static inline const merge_slot *merge_find(const merge_map *map, int32_t left, int32_t right)
{
    uint64_t key = merge_key((uint32_t)left, (uint32_t)right);
    for (size_t i = merge_hash(key) & map->mask;; i = (i + 1) & map->mask) {
        if (map->slots[i].key == key) return &map->slots[i];
        if (map->slots[i].key == 0) return NULL;
    }
}

/* From tokenizer.ggml.merges (byte-level) or from tokenizer.ggml.scores (SentencePiece). */
CERIUM_CHECKED int merges_open(merges *m, const vocabulary *v, const gguf_file *file,
                               cerium_error *err);
void merges_close(merges *m);

/* Length of the UTF-8 character at text[0], 1 for bytes that begin none; never beyond text.len. */
size_t utf8_length(view text);
/* The code of a character of at most 4 bytes in merges.characters. */
uint32_t utf8_code(const char *character, size_t len);

#endif
