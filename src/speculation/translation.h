/* translation.h - a timeline in the tokens of another vocabulary, and guesses back: what a draft
 * model reads of a model with another tokenizer, and what of its words the model would say.
 *
 * Both ways go by bytes.  A timeline is read in pieces that overlap, so that its tokens are those
 * that the text has as a whole; places where tokens of both begin are remembered, to cut and to go
 * on from.  A control token becomes the one of the same name or role, or nothing.
 *
 * Where the text ends, it may end within a token, and within a character: its last bytes are then
 * open, and the draft model's next words spell them again.  Where both vocabularies are the same,
 * tokens are copied and nothing is open.
 *
 * Nothing allocates after open.  The tables are shared; their scratch is for one thread at a
 * time. */
#ifndef SPECULATION_TRANSLATION_H
#define SPECULATION_TRANSLATION_H

#include "tokenizer/tokenizer.h"

enum {
    TRANSLATION_OPEN_MAX = 96,    /* bytes of the last token and of an unfinished character */
    TRANSLATION_GUESS_BYTES = 512, /* of one guess, at most */
};

typedef struct translator translator;

/* From the vocabulary of a model to that of its draft model; both stay open.
 * CERIUM_ERR_FORMAT when they are not the same and one of them cannot say all of ASCII; err says
 * which ("the draft model's vocabulary").  What it lacks beyond that is not drafted for.
 * CERIUM_ERR_MEMORY. */
CERIUM_CHECKED int translator_open(translator **out, const tokenizer *model,
                                   const tokenizer *draft, cerium_error *err);
void translator_close(translator **t);
/* Whether they are the same. */
bool translator_copies(const translator *t);

/* One timeline as the draft model reads it.  Zero-initialise, set the arrays. */
typedef struct {
    int32_t *tokens;   /* [n_max]; of them n are there */
    uint32_t *places;  /* [n_max] the model's token that begins where this one does, or NO_PLACE */
    uint32_t n, n_max;
    uint32_t begin, end; /* it is the model's tokens [begin, end) */
    uint32_t least;      /* where it begins at least: the caller's */
    uint32_t n_same;   /* tokens [0, n_same) are as they were when the caller last set it to n */
    uint32_t n_open;   /* bytes after tokens [n] that are half a character */
    char open[4];
    bool is_stuck;     /* there was no room, and will not be before it begins elsewhere */
} translation;

/* The timeline is tokens [n] of the model, the first of which it has read unless it was told
 * otherwise.  A timeline that is too long loses its beginning, half of it at a time.  False when
 * there is no room even so. */
bool translation_read(translation *x, translator *t, const int32_t *tokens, uint32_t n);
/* Of the model's timeline only the first n tokens stay. */
void translation_cut(translation *x, uint32_t n);

/* Of tokens with logits [n_vocab] those that spell more of open [n], or all and go on: the best,
 * and by how much it is better than the next (as much as none).  TOKEN_NONE: there is none. */
int32_t translator_spell(const translator *t, view open, const float *logits, uint32_t n_vocab,
                         float *margin);

/* A guess in tokens of the model: bytes of text, which follow its timeline, into tokens [cap], and
 * where each ends into ends [cap].  Returns how many; half a character at the end is left out. */
uint32_t translator_guess(translator *t, view text, int32_t *tokens, uint32_t *ends, uint32_t cap);

#endif
