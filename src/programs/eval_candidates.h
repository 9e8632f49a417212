/* eval_candidates.h - several different lines for a hole, as `cerium lsp` offers them. */
#ifndef PROGRAMS_EVAL_CANDIDATES_H
#define PROGRAMS_EVAL_CANDIDATES_H

#include "programs/options.h"

enum { EVAL_CANDIDATES_MAX = 5, EVAL_ANSWER_BYTES = 512 };

typedef struct {
    char text[EVAL_ANSWER_BYTES]; /* [len] the first line that is not blank */
    uint32_t len;
    double logprob;
} eval_candidate;

typedef struct {
    const int32_t *tokens; /* [n_tokens] the prompt */
    size_t n_tokens;
    view heal_prefix;
    float pointer;
    uint32_t line_tokens;  /* the most of a line */
} eval_hole;

/* The likeliest line, then those of its likeliest branches that differ from all before: *n of them,
 * at most n_max. */
CERIUM_CHECKED int eval_candidates(cerium_session *session, const eval_hole *hole,
                                   eval_candidate *out, uint32_t n_max, uint32_t *n,
                                   cerium_error *err);

#endif
