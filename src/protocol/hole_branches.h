/* hole_branches.h - where other completions of a hole leave the likeliest one: at tokens beside
 * which others were likely, too.
 *
 * A branch is the likeliest completion that does not begin as the first one does up to that token.
 * Sampling would mostly repeat the first. */
#ifndef PROTOCOL_HOLE_BRANCHES_H
#define PROTOCOL_HOLE_BRANCHES_H

#include "cerium.h"

enum {
    BRANCHES_MAX = 8,         /* of one completion */
    BRANCH_TOP = 4,           /* likeliest tokens to ask for at each token */
    BRANCH_TOKENS_MAX = 32,   /* of the first completion; none leaves it later */
};

/* The first completion's tokens, as they come. */
typedef struct {
    struct {
        int32_t token;
        float logprob;
        cerium_logprob top[BRANCH_TOP]; /* [n_top] likeliest first */
        uint32_t n_top;
    } tokens[BRANCH_TOKENS_MAX]; /* [n] */
    uint32_t n;
} branch_path;

typedef struct {
    double logprob;           /* of the text up to the other token, with it */
    int32_t avoid[CERIUM_AVOID_MAX]; /* [n_avoid] for cerium_resume */
    uint32_t n_avoid;
} branch;

/* Another token of the first completion; those after BRANCH_TOKENS_MAX are not looked at. */
void branch_path_add(branch_path *path, int32_t token, float logprob, const cerium_logprob *top,
                     uint32_t n_top);

/* The likeliest branches, best first: at most n_max of them, and BRANCHES_MAX.  Returns how many
 * were written. */
uint32_t branches_find(const branch_path *path, branch *out, uint32_t n_max);

#endif
