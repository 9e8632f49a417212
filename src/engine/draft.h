/* draft.h - what the prediction of an answer says comes next. */
#ifndef ENGINE_DRAFT_H
#define ENGINE_DRAFT_H

#include "base/base.h"

/* Zero-initialised but for tokens and n, it begins with the answer. */
typedef struct {
    const int32_t *tokens; /* [n] the prediction; borrowed */
    uint32_t n, at;        /* the answer goes on as tokens[at...], if not is_lost */
    bool is_lost;
    uint32_t ahead;        /* drafts worth trying at once; 0 = not known yet */
} draft;

/* Up to n_max tokens that may come next, into out. Returns how many. */
uint32_t draft_next(const draft *d, int32_t *out, uint32_t n_max);

/* The answer grew by n_grown tokens, of which n_accepted of n_tried were drafts.
 *   answer: [n_answer] all of it */
void draft_follow(draft *d, const int32_t *answer, uint32_t n_answer, uint32_t n_grown,
                  uint32_t n_tried, uint32_t n_accepted);

#endif
