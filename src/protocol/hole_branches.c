/* hole_branches.c - ranks the tokens that were not chosen by the probability of the text up to
 * them. */
#include "protocol/hole_branches.h"

#include <string.h>

#include "base/base.h"

void branch_path_add(branch_path *path, int32_t token, float logprob, const cerium_logprob *top,
                     uint32_t n_top)
{
    if (path->n == BRANCH_TOKENS_MAX) return;
    const uint32_t i = path->n++;
    path->tokens[i].token = token;
    path->tokens[i].logprob = logprob;
    path->tokens[i].n_top = n_top < BRANCH_TOP ? n_top : BRANCH_TOP;
    if (path->tokens[i].n_top)
        memcpy(path->tokens[i].top, top, path->tokens[i].n_top * sizeof *top);
}

/* A beginning to avoid: the path's first `at` tokens, then `token`.  False: there is no room. */
static bool avoid(branch *b, const branch_path *path, uint32_t at, int32_t token)
{
    const uint32_t n = (b->n_avoid > 0) + at + 1;
    if (b->n_avoid + n > CERIUM_AVOID_MAX) return false;
    if (b->n_avoid) b->avoid[b->n_avoid++] = -1;
    for (uint32_t i = 0; i < at; i++) b->avoid[b->n_avoid++] = path->tokens[i].token;
    b->avoid[b->n_avoid++] = token;
    return true;
}

/* Avoid the path's token there and those likelier than top[rank].  False: there is no room. */
static bool avoid_likelier(branch *b, const branch_path *path, uint32_t at, uint32_t rank)
{
    const int32_t own = path->tokens[at].token;
    b->n_avoid = 0;
    if (!avoid(b, path, at, own)) return false;
    for (uint32_t k = 0; k < rank; k++) {
        const int32_t other = path->tokens[at].top[k].token;
        if (other != own && !avoid(b, path, at, other)) return false;
    }
    return true;
}

/* Keeps the best; out has room for n_max. */
static uint32_t insert(branch *out, uint32_t n, uint32_t n_max, const branch *b)
{
    uint32_t i = n;
    while (i > 0 && out[i - 1].logprob < b->logprob) i--;
    if (i == n_max) return n;
    const uint32_t n_moved = (n < n_max ? n : n_max - 1) - i;
    memmove(out + i + 1, out + i, n_moved * sizeof *out);
    out[i] = *b;
    return n < n_max ? n + 1 : n;
}

uint32_t branches_find(const branch_path *path, branch *out, uint32_t n_max)
{
    double before = 0; /* log-probability of the tokens so far */
    uint32_t n = 0;
    if (n_max > BRANCHES_MAX) n_max = BRANCHES_MAX;
    for (uint32_t at = 0; at < path->n && n_max; at++) {
        for (uint32_t k = 0; k < path->tokens[at].n_top; k++) {
            const cerium_logprob *other = &path->tokens[at].top[k];
            branch b = {.logprob = before + (double)other->logprob};
            if (other->token == path->tokens[at].token) continue;
            if (n == n_max && out[n - 1].logprob >= b.logprob) continue;
            if (avoid_likelier(&b, path, at, k)) n = insert(out, n, n_max, &b);
        }
        before += (double)path->tokens[at].logprob;
    }
    return n;
}
