/* corpus.h - the texts of a workspace as tokens, with an index of places: one block of bytes that
 * is written once, kept in a file, and mapped.
 *
 *   head        magic, vocabulary, counts, checksum of all that follows: see corpus.c
 *   files       corpus_file [n_files]
 *   tokens      int32_t [n_tokens], one file after the other
 *   index       of those tokens: ngrams.h, large
 *
 * Numbers are of the machine that wrote it.  What is read was checked to the last place: whatever
 * the bytes are, no draft is made of anything but tokens of the vocabulary. */
#ifndef SPECULATION_CORPUS_H
#define SPECULATION_CORPUS_H

#include "base/hash.h"
#include "speculation/ngrams.h"

/* ---- limits: what a broken or hostile input can make us take ---- */

#define WORKSPACE_TOKENS_MAX     (1u << 22)   /* of all files; the newest have room first: 64 MB */
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
    uint64_t state;             /* a hash of what was there when it was made */
    ngrams index;
} corpus;

size_t corpus_bytes(uint32_t n_files, uint32_t n_tokens);
/* An empty one in memory of this many bytes, aligned as hash_name and zero. files, tokens and state
 * are for the caller to fill in, then corpus_seal() makes the index and the head. */
void corpus_open(corpus *c, void *memory, uint32_t n_files, uint32_t n_tokens);
void corpus_seal(corpus *c, void *memory, uint64_t vocabulary);

/* Take what was sealed; *c points into bytes.  NULL, or what is wrong: text that needs no free.
 *   vocabulary: what the tokens must be of; n_vocab: how many it has */
const char *corpus_read(corpus *c, view bytes, uint64_t vocabulary, uint32_t n_vocab);

#endif
