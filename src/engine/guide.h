/* guide.h - follows an answer through its guide, token by token: free text, or a grammar's.
 *
 * A guide has *places*: 0 is the end of the answer, i is after i drafts.  Only place 0 stays: the
 * others are new in each pass.  In free text a trigger ends with a token: tokens that reach beyond
 * a whole trigger are forbidden, so a grammar's text begins with a new token. */
#ifndef ENGINE_GUIDE_H
#define ENGINE_GUIDE_H

#include <stdatomic.h>

#include "sampling/mask.h"
#include "tokenizer/tokenizer.h"

enum {
    GUIDE_PLACES = CERIUM_STEP_TOKENS_MAX + 1,
    GUIDE_FORCED_MAX = 64, /* tokens that are known to come */
};

struct cerium_grammar {
    grammar *g;
    _Atomic uint32_t references;
};

typedef struct guide guide;

/* The vocabulary as grammars see it.  n_vocab: of the logits, at least the tokenizer's. */
CERIUM_CHECKED int guide_vocabulary(mask_vocabulary **out, const tokenizer *t, uint32_t n_vocab,
                                    cerium_error *err);

/* CERIUM_ERR_ARGUMENT: what cerium.h says. */
int guide_check(const cerium_guide *config, cerium_error *err);
/* Copies config, which was checked, and takes references; borrows the rest.  *out is owned. */
CERIUM_CHECKED int guide_open(guide **out, const cerium_guide *config, const mask_vocabulary *v,
                              const tokenizer *t, cerium_error *err);
void guide_close(guide **g);

/* Places after drafts [n]; returns how many of them are allowed, and can be followed in advance. */
uint32_t guide_plan(guide *g, const int32_t *drafts, uint32_t n);
/* At the beginning: follow an earlier answer.  False: the guide does not allow it, and cannot be
 * used any more. */
bool guide_resume(guide *g, const int32_t *tokens, size_t n);
/* What may follow at a place: NULL = anything. */
const uint64_t *guide_mask(guide *g, uint32_t place);
/* Move the answer to a planned place; forced tokens may be known now. */
void guide_follow(guide *g, uint32_t place, int32_t token);
/* Forced tokens [*n] at the answer's place.  Follow each like others. */
const int32_t *guide_forced(const guide *g, uint32_t *n);
/* Any text may follow at the answer's place. */
bool guide_is_free(guide *g);
/* No token of the vocabulary may follow. */
bool guide_is_stuck(guide *g);

#endif
