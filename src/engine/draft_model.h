/* draft_model.h - what drafts for an engine's model: a smaller one, a head made for it (EAGLE-3),
 * or its own MTP head.
 *
 * It is a second engine that borrows the compute team of the main one, so its passes run between
 * those of the main engine, within the same turn (cerium_engine.pass).  Each session has a draft
 * session in it: the same timeline in the draft model's tokens, with its own KV pages.  Other
 * sessions of the tenant find them like any prefix.
 *
 * A head is such an engine of one layer that borrows the weights.  Beside each token it reads the
 * state of the token before it in the model: a session keeps those of its newest tokens (taps.h),
 * and the head's timeline begins where they do.  Of what the head itself says, the state is its
 * own.  An EAGLE-3 head has weights of its own, and its state of a token in the model are the
 * inputs of three layers.  A DFlash drafter reads such inputs, too, of each token itself, and
 * guesses a block at once. */
#ifndef ENGINE_DRAFT_MODEL_H
#define ENGINE_DRAFT_MODEL_H

#include <stdatomic.h>

#include "engine/taps.h"
#include "speculation/draft_budget.h"
#include "speculation/draft_vocabulary.h"
#include "speculation/translation.h"

/* ---- limits: what a broken or hostile input can make us take ---- */

#define DRAFT_CONTEXT_MAX  4096u /* tokens of a timeline that a draft model looks at */
#define DRAFT_BATCH_TOKENS 128u  /* that it computes at once */
#define DRAFT_KV_PART      8u    /* of the model's KV pages, in bytes, for its own */

enum { DRAFT_GUESSES_MAX = 16 }; /* of one pass */

typedef struct draft_session draft_session;

typedef struct {
    cerium_engine *engine;
    bool is_head;                  /* of any kind */
    const int32_t *said;           /* [engine->n_vocab] the model's tokens of its logits; NULL: they
                                      have the same numbers */
    taps_pool states;              /* of the model, that a head reads */
    translator *translator;
    draft_vocabulary vocabulary;   /* where logits are of the model's tokens; under the turn */
    draft_budget budget;             /* under the turn */
    int32_t n_tokens;              /* below this a guess is left out */
    _Atomic uint64_t passes, computed, ns;
} draft_model;

/* Load the model or the head at path (NULL: the head that the model of e has) to draft for
 * e, as the last step of opening e.  CERIUM_ERR_FORMAT: it is not a decoder, its vocabulary differs
 * and lacks byte tokens, it is larger than the model of e, or it is a head of another model. */
CERIUM_CHECKED int draft_model_open(draft_model **out, cerium_engine *e,
                                    const cerium_engine_config *config, const char *path,
                                    cerium_error *err);
void draft_model_close(draft_model **m);
/* Bytes of its weights, of its KV pages and of states of the model, those that may be. */
uint64_t draft_model_bytes(const draft_model *m);

/* CERIUM_ERR_MEMORY. */
CERIUM_CHECKED int draft_session_open(draft_session **out, cerium_session *s, cerium_error *err);
void draft_session_close(draft_session **d);
/* Cut the session's timeline to its first n tokens. */
void draft_session_cut(draft_session *d, uint32_t n);

/* Within a turn: rows [first_row, first_row + n) of the last pass are tokens of s, or drafts, from
 * this one on. */
void draft_session_tap(cerium_session *s, uint32_t first_row, uint32_t first, uint32_t n);

/* Drop the guesses of this session: no pass runs with them. */
void draft_session_forget(draft_session *d);

/* Within a turn: at most n_max guesses of what follows the timeline of s, for a pass of n_rows that
 * n_sharing requests wait for.  Ends early when s is canceled.  n_max = 0: none are wanted. */
uint32_t draft_session_guess(cerium_session *s, uint32_t n_rows, uint32_t n_sharing, uint32_t n_max,
                          int32_t *out);
/* Within a turn: tokens [n_chosen] were chosen in the pass, and n_tried guesses had rows in it. */
void draft_session_learn(cerium_session *s, const int32_t *chosen, uint32_t n_chosen,
                      uint32_t n_tried);

#endif
