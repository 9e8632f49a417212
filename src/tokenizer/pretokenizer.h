/* pretokenizer.h - cuts text into the pieces within which byte-level BPE merges.
 *
 * Private to this folder.  A pre-tokenizer is a list of regular expressions: each cuts the results
 * of the one before into its matches and the gaps between them.  All pieces together are the
 * text. */
#ifndef TOKENIZER_PRETOKENIZER_H
#define TOKENIZER_PRETOKENIZER_H

#include "tokenizer/tokenizer.h"

typedef struct pretokenizer pretokenizer;

/* Properties of a value of tokenizer.ggml.pre beside its expressions. */
typedef struct {
    bool whole_words; /* a piece that is a token is that token, whatever the merges say */
    bool adds_bos;    /* unless the file says otherwise */
} pretokenizer_facts;

/* name: tokenizer.ggml.pre; path: for messages. */
CERIUM_CHECKED int pretokenizer_open(pretokenizer **out, view name, const char *path,
                                     pretokenizer_facts *facts, cerium_error *err);
void pretokenizer_close(pretokenizer **p);

/* One run over a text.  Each level holds a segment of the level above and its pending pieces. */
typedef struct {
    view segment;
    size_t at;                    /* bytes before it were passed on */
    size_t match_from, match_end; /* found, and not yet passed on; match_end 0: none */
} pretokenizer_level;

typedef struct {
    const pretokenizer *owner;
    void *match_data;
    pretokenizer_level levels[TOKENIZER_PASSES_MAX];
} pretokenizer_run;

CERIUM_CHECKED int pretokenizer_run_open(pretokenizer_run *run, const pretokenizer *p);
void pretokenizer_run_close(pretokenizer_run *run);
/* Begin with text, which must be valid UTF-8; borrowed until the last piece was taken. */
void pretokenizer_start(pretokenizer_run *run, view text);
/* The next piece, never empty; piece->len 0 after the last. */
CERIUM_CHECKED int pretokenizer_next(pretokenizer_run *run, view *piece);

#endif
