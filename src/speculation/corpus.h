/* corpus.h - the texts of a workspace as tokens, with an index of places: one block of bytes that
 * is written once, kept in a file, and mapped.
 *
 *   head        magic, vocabulary, counts, checksum of all that follows: see corpus.c
 *   files       corpus_file [n_files]
 *   tokens      int32_t [n_tokens], one file after the other
 *   index       of those tokens: ngrams.h, large
 *
 * Numbers are in the format of the machine that wrote them.  A block is checked completely before
 * use: whatever its bytes are, drafts hold only tokens of the vocabulary. */
#ifndef SPECULATION_CORPUS_H
#define SPECULATION_CORPUS_H

#include "base/hash.h"
#include "speculation/ngrams.h"

/* ---- limits: bounds for broken or hostile input ---- */

#define WORKSPACE_TOKENS_MAX     (1u << 22)   /* of all files, the newest first: 64 MB */
#define WORKSPACE_FILES_MAX      65536u

typedef struct {
    hash_name path;             /* from the workspace's folder */
    int64_t changed_ns;         /* since 1970 */
    uint64_t bytes;
    uint32_t first, n;          /* its tokens */
} corpus_file;

typedef struct {
    corpus_file *files;         /* [n_files] */
    int32_t *tokens;            /* [n_tokens] */
    uint32_t n_files, n_tokens;
    uint64_t state;             /* a hash of the files that it was made of */
    ngrams index;
} corpus;

size_t corpus_bytes(uint32_t n_files, uint32_t n_tokens);
/* An empty one in memory of this many bytes, aligned as hash_name and zero.  The caller fills in
 * files, tokens and state; then corpus_seal() makes the index and the head. */
void corpus_open(corpus *c, void *memory, uint32_t n_files, uint32_t n_tokens);
void corpus_seal(corpus *c, void *memory, uint64_t vocabulary);

/* Open a sealed block; *c points into bytes.  Returns NULL, or the error: static text.
 *   vocabulary: the one that the tokens must belong to; n_vocab: its size */
const char *corpus_read(corpus *c, view bytes, uint64_t vocabulary, uint32_t n_vocab);

#endif
