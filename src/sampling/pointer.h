/* pointer.h - a pointer mixture (copy mechanism): mixes the model's next-token distribution with
 * the tokens that followed earlier occurrences of the same context.
 *
 * A small model does not remember a name that it saw once; the text has it. Let l be the length of
 * the longest suffix of the tokens so far that also occurred earlier:
 *
 *     p(t) = (1 - share(l)) p_model(t) + share(l) p_text(t)
 *
 * where p_text counts the tokens after the latest POINTER_PLACES places that end with the same
 * token, those with the longest run most.  Pointer sentinel mixtures are of this kind (Merity et
 * al., arXiv:1609.07843), with a learned share; a share by the longest context is the older way of
 * caches in models of code (Hellendoorn and Devanbu, FSE 2017).  It is a function of the tokens
 * before and of the logits, with the same bits on every machine, so drafts are judged by it as by
 * logits.
 *
 * Earlier places do not show whether a line, or the filled hole, ends here: for a token with a line
 * break the text predicts the part before the break, and the model predicts its end. */
#ifndef SAMPLING_POINTER_H
#define SAMPLING_POINTER_H

#include "base/base.h"

enum {
    POINTER_PLACES = 64, /* that are looked at, the latest first */
    POINTER_RUN_MAX = 16 /* tokens that are compared */
};

typedef enum {
    POINTER_TEXT,
    POINTER_END,   /* ends an answer: in the place of a line break */
    POINTER_SEAM,  /* no text; the text before it continues after it */
    POINTER_BREAK, /* no text continues across it */
} pointer_kind;

/* A token of the vocabulary.  text: only for POINTER_TEXT. */
typedef struct {
    view text;
    pointer_kind kind;
} pointer_token;

typedef struct pointer_vocabulary pointer_vocabulary; /* immutable: any thread */
typedef struct pointer pointer;                       /* of one timeline; one thread at a time */

/* tokens: [n_vocab]; texts are not kept.  *out is owned.  CERIUM_ERR_MEMORY.  Cost: sorting. */
CERIUM_CHECKED int pointer_vocabulary_open(pointer_vocabulary **out, const pointer_token *tokens,
                                           uint32_t n_vocab, cerium_error *err);
void pointer_vocabulary_close(pointer_vocabulary **v);

/* For timelines of at most n_max tokens: 8 bytes for each of them and 20 for each token of the
 * vocabulary, which stays open.  No later call allocates.  CERIUM_ERR_MEMORY. */
CERIUM_CHECKED int pointer_open(pointer **out, const pointer_vocabulary *v, uint32_t n_max,
                                cerium_error *err);
void pointer_close(pointer **p);

/* The logits after tokens [n], n >= 1, as a mixture; strength, (0, 1], times share(l).
 * They are the given ones if the text predicts nothing, else in memory of p until the next call.
 * Cost: one exp for each of the vocabulary, and comparing tokens with those of the last call. */
const float *pointer_mix(pointer *p, const float *logits, float strength, const int32_t *tokens,
                         uint32_t n);

#endif
