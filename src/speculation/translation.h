/* translation.h - translates a timeline into the tokens of another vocabulary, and guesses back,
 * for a draft model whose tokenizer differs from the model's.
 *
 * Both directions go by bytes.  A timeline is read in pieces that overlap, so that its tokens are
 * those of the text as a whole; places where tokens of both begin are remembered, to cut and to
 * continue there.  A control token becomes the one of the same name or role, or nothing.
 *
 * The text may end within a token or a character: its last bytes are then open, and the draft
 * model's next tokens spell them again.  Where both vocabularies are the same, tokens are copied
 * and nothing is open.
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
 * CERIUM_ERR_FORMAT when they differ and one of them cannot spell all of ASCII; err names it ("the
 * draft model's vocabulary").  Text with other bytes that it lacks gets no drafts.
 * CERIUM_ERR_MEMORY. */
CERIUM_CHECKED int translator_open(translator **out, const tokenizer *model,
                                   const tokenizer *draft, cerium_error *err);
void translator_close(translator **t);
/* Are the two vocabularies the same? */
bool translator_copies(const translator *t);

/* One timeline as the draft model reads it.  Zero-initialise, then set the arrays. */
typedef struct {
    int32_t *tokens;   /* [n_max]; the first n are valid */
    uint32_t *places;  /* [n_max] the model's token that begins where this one does, or NO_PLACE */
    uint32_t n, n_max;
    uint32_t begin, end; /* covers the model's tokens [begin, end) */
    uint32_t least;      /* the lowest begin: set by the caller */
    uint32_t n_same;   /* tokens [0, n_same) are unchanged since the caller last set it to n */
    uint32_t n_open;   /* bytes of an unfinished character after tokens [n] */
    char open[4];
    bool is_stuck;     /* it did not fit, and will not until begin moves */
} translation;

/* The timeline is tokens [n] of the model; those read before are unchanged unless translation_cut()
 * was called.  A timeline that is too long loses its beginning, half of it at a time.  False if it
 * still does not fit. */
bool translation_read(translation *x, translator *t, const int32_t *tokens, uint32_t n);
/* Keep only the first n tokens of the model's timeline. */
void translation_cut(translation *x, uint32_t n);

/* Of tokens with logits [n_vocab], those that continue spelling open [n], or spell all of it and
 * more: returns the best; *margin: its lead over the next, INFINITY if there is none.  TOKEN_NONE:
 * there is none. */
int32_t translator_spell(const translator *t, view open, const float *logits, uint32_t n_vocab,
                         float *margin);

/* A guess in tokens of the model: encodes bytes of text, which follow its timeline, into tokens
 * [cap], and the end of each into ends [cap].  Returns their number; half a character at the end is
 * left out. */
uint32_t translator_guess(translator *t, view text, int32_t *tokens, uint32_t *ends, uint32_t cap);

#endif
