/* slot.h - the settings for the next tokens of a session, and its part of a pass.
 *
 * A pass computes rows of one session or of many at once, and then chooses tokens from the logits
 * of those that are computed to the end.  It has two drivers: step.c, the thread of a caller with
 * one session, and scheduler.c, a thread of its own with those of all requests.  Both do
 *
 *   pass_add     rows of the timeline and of drafts after it
 *   pass_run     all rows at once
 *   slot_commit  the rows are computed
 *   slot_choose  tokens from their logits, as far as drafts agree with them
 *   slot_force   the tokens that a guide then forces; these two touch only the session
 *   slot_accept  the drafts that were right are computed, too
 *   slot_append  one chosen token is of the timeline, with its text; once for each
 *   slot_end     what the pass was worth, and where the timeline is */
#ifndef ENGINE_SLOT_H
#define ENGINE_SLOT_H

#include "base/hash.h"
#include "engine/guide.h"
#include "sampling/sampler.h"
#include "speculation/drafter.h"

/* One token that was chosen in a pass. */
typedef struct {
    int32_t token;
    float logprob;
    uint32_t n_top;
    hash_name logits;         /* where a digest is wanted; of none: forced */
} chosen_token;

typedef struct {
    /* what is asked */
    const cerium_sampling *sampling; /* or NULL: greedy */
    guide *guide;             /* or NULL; owned by the session's owner */
    const int32_t *script;    /* [n_script] or NULL: the answer, whatever is chosen */
    uint32_t n_script;
    uint32_t new_tokens_max;  /* 0: the timeline is computed and nothing is chosen */
    uint32_t n_top;           /* most likely tokens that come with each */
    uint32_t n_new;           /* tokens of the answer so far */
    /* its part of the pass */
    uint32_t n_rows;          /* of the timeline; then those of drafts */
    uint32_t first_row;       /* of them, in the pass */
    bool is_guest;            /* it has no rows: another timeline has the same last row, */
    bool is_late;             /* or had it in an earlier pass */
    bool has_siblings;        /* another request said the same for a while */
    uint32_t n_drafts;
    draft_source draft_source;
    int32_t drafts[CERIUM_STEP_TOKENS_MAX];
    bool shows_state;         /* make the state after its timeline findable */
    float *logits;            /* [n_drafts + 1][logits_stride] after the timeline, or NULL */
    bool searched;            /* forbidden tokens are -INFINITY */
    bool is_broken;           /* they are not finite: nothing was chosen */
    bool is_stuck;            /* nothing may follow the last chosen token */
    uint32_t n_chosen;
    uint32_t n_drawn;         /* of those: chosen by logits; the others are forced, not computed */
    uint32_t n_appended;      /* of those: in the timeline */
    uint32_t n_accepted;      /* drafts that were right and kept */
    chosen_token chosen[CERIUM_STEP_TOKENS_MAX];
    cerium_logprob *top;      /* [CERIUM_STEP_TOKENS_MAX][n_top] */
} slot;

/* The rows of a pass while they are gathered. */
typedef struct {
    cerium_engine *engine;
    uint32_t n_rows, n_logits, n_drafts;
    uint32_t n_more;          /* rows beyond one for each slot: at most batch_tokens_max */
} pass_rows;

/* How a slot takes part. */
typedef struct {
    uint32_t tokens_max;      /* that can be given out after the pass */
    uint32_t n_sharing;       /* requests that wait for it */
    bool is_alone;            /* its drafts cost no other request time */
    float *all_logits;        /* [n][logits_stride] of every row of the timeline; or NULL */
    bool into_session;        /* the logits of one row go to the session's own at once */
} slot_terms;

/* A chosen token as it became part of the timeline. */
typedef struct {
    const chosen_token *chosen;
    const cerium_logprob *top;
    cerium_stop stop;         /* why the answer ends with it, if it does */
    bool is_last;             /* it does, or has as many tokens as were asked for */
    size_t text_len;
    uint32_t text_held;
    hash_name digest;         /* of the answer up to it */
} slot_token;

/* ---- pass.c: all within a turn (cerium_engine.pass) ---- */

/* Put the next n tokens of s into the pass, and drafts after them; n = 0: only its next token is
 * chosen.  Makes room by taking pages of lower claims.  CERIUM_ERR_MEMORY: higher claims hold all
 * pages, try again later; it keeps what it holds.  CERIUM_ERR_CAPACITY. */
CERIUM_CHECKED int pass_add(pass_rows *p, cerium_session *s, uint32_t n, const slot_terms *terms);
/* If the row that s needs is the last row of another timeline in the pass (same tokens, all logits
 * that s chooses from), s shares its logits and computes nothing; it finds the keys and values once
 * it diverges.  False: there is no such row. */
CERIUM_CHECKED bool pass_share(const pass_rows *p, cerium_session *s, cerium_session *with);
/* Run all rows, count and learn. */
CERIUM_CHECKED int pass_run(const pass_rows *p, const _Atomic bool *cancel);
/* The rows of s are computed. */
void slot_commit(cerium_session *s);
/* Choose tokens after the timeline, which is computed to its end.  Any thread, with its own
 * sampler.  Chooses nothing if the logits are broken or the guide has no beginning. */
void slot_choose(cerium_session *s, sampler *scratch);
/* After the last chosen token: add the tokens that the guide forces, up to n_max, unless
 * probabilities are wanted. */
void slot_force(cerium_session *s, uint32_t n_max);
void slot_accept(cerium_session *s);
/* text: [answer_text_max()], where what may be shown of it goes. */
slot_token slot_append(cerium_session *s, char *text);
void slot_end(cerium_session *s);
/* Give the session the logits that the last token was drawn from. */
void slot_keep_logits(cerium_session *s);

#endif
