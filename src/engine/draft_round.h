/* draft_round.h - a session's timeline in its draft model or head, and one round of guesses of what
 * follows it: what the files of a draft session share.  All within a turn. */
#ifndef ENGINE_DRAFT_ROUND_H
#define ENGINE_DRAFT_ROUND_H

#include <math.h>

#include "engine/draft_model.h"
#include "engine/engine.h"

enum { DRAFT_ALWAYS = 6 /* number of guesses when costs are ignored */ };

struct draft_session {
    page_claim pages;         /* of the draft model's engine */
    translation text;         /* of its timeline */
    bool is_block;            /* it is of a drafter that guesses blocks */
    bool is_new;              /* the cache was not searched yet */
    uint32_t n_computed;      /* tokens that are committed */
    int32_t ahead[DRAFT_GUESSES_MAX + TRANSLATION_OPEN_MAX + 2]; /* [n_ahead] computed after them */
    uint32_t n_ahead;
    taps states;              /* of the model, where its head drafts, and */
    float *own;               /* [n_embd] the head's behind the last row; else NULL */
    draft_seen seen;
    /* guesses for the running pass */
    int32_t guesses[DRAFT_GUESSES_MAX];
    uint8_t classes[DRAFT_GUESSES_MAX];
    uint32_t n_guesses, n_sharing;
    float pass_ns, rows_ns[DRAFT_GUESSES_MAX + 1]; /* time without guesses; more with n of them */
};

/* One round of guesses. */
typedef struct {
    cerium_session *s;
    draft_model *m;
    draft_session *d;
    budget_pass pass;
    float rate;
    bool always, probes;
    char open[TRANSLATION_OPEN_MAX]; /* [n_open] bytes that are to be spelled first */
    uint32_t n_open;
    int32_t last;          /* the token that was taken off to be spelled again, or TOKEN_NONE */
    uint32_t n_known;      /* tokens of the timeline, without that */
    const float *logits;   /* after the last word that was computed: [n_logits] of these panels, */
    const uint32_t *panels; /* [n_panels], or of all tokens: NULL */
    uint32_t n_panels, n_logits;
    uint64_t block_ns;     /* of the pass of a block; 0: there was none */
    char text[TRANSLATION_GUESS_BYTES]; /* [n_text] with another vocabulary: guessed text, */
    uint32_t n_text;
    uint32_t ends[DRAFT_GUESSES_MAX]; /* ends of its words [n_said] in it, */
    float margins[DRAFT_GUESSES_MAX]; /* and their probabilities */
    int32_t spelled[DRAFT_GUESSES_MAX];
    uint32_t n_spelled;
} draft_round;

/* draft_timeline.c.  Bring the model to the end of the timeline; r->logits are those after it, but
 * for a drafter of blocks, which computes the last token with the block. */
bool draft_catch_up(draft_round *r);
/* Append a token; r->logits are those after it. */
bool draft_say(draft_round *r, int32_t token);

/* draft_words.c.  The best of logits [r->n_logits], as a token of the draft model or as what its
 * list says; TOKEN_NONE: there is none.  *margin: its lead over the next. */
int32_t draft_best(const draft_round *r, const float *logits, float *margin);
/* Note a guess, and the text that it adds where vocabularies differ.  False: there is no room. */
bool draft_note(draft_round *r, int32_t token, view text, float margin);
bool draft_wants_more(const draft_round *r, float all_right);
/* Guess the next tokens, while the gain is worth the cost. */
void draft_say_all(draft_round *r);
/* What was noted, in tokens of the main model, with the class of each. */
void draft_translate(draft_round *r);

/* draft_block.c: a block of them in one pass. */
void draft_say_block(draft_round *r);
/* What the token before adds to logits, [n_panels] panels of them, or, without a list, of all. */
void draft_add_before(const cerium_engine *e, float *logits, const uint32_t *panels,
                      uint32_t n_panels, int32_t before);

#endif
