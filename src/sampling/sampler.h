/* sampler.h - which token comes next: pure functions over logits.
 *
 * The order is that of cerium_sampling: biases, penalties, temperature, top-k, top-p, min-p, draw.
 * A choice depends only on the settings, the logits, the recent tokens and the position: same seed,
 * same text, on every machine.  NaN counts as -infinity; ties rank by id, the lowest first. */
#ifndef SAMPLING_SAMPLER_H
#define SAMPLING_SAMPLER_H

#include "base/base.h"

enum {
    SAMPLER_VOCAB_MAX = 1 << 20,
    SAMPLER_PIECE = 256, /* logits per piece; the maximum of each piece is found first */
};

typedef struct sampler sampler; /* scratch; one thread at a time */

/* CERIUM_ERR_ARGUMENT for a field out of the range that cerium.h gives.  NULL is greedy. */
CERIUM_CHECKED int sampler_validate(const cerium_sampling *sampling, cerium_error *err);

/* Take the scratch for a vocabulary: 20 bytes a token; no later call allocates. Returns owned;
 * CERIUM_ERR_ARGUMENT when n_vocab is 0 or above SAMPLER_VOCAB_MAX. */
CERIUM_CHECKED int sampler_open(sampler **out, uint32_t n_vocab, cerium_error *err);
/* Accepts NULL and pointers to NULL. */
void sampler_close(sampler **s);

/* Whether no logit is NaN or +infinity; -INFINITY is one that was not computed. */
bool sampler_are_numbers(const float *logits, uint32_t n_vocab);

/* The token that follows.
 *   logits:   [n_vocab], the same as at open
 *   sampling: validated; NULL for greedy
 *   recent:   [n_recent] ids in [0, n_vocab), oldest first; may hold more than needed position:
 *   place of the token in its timeline: the counter of the random draws
 * Cost: every logit is read once to find the greatest; with top_k or min_p, few more than the
 * candidates after that; otherwise one exp for each. */
int32_t sampler_choose(sampler *s, const float *logits, uint32_t n_vocab,
                       const cerium_sampling *sampling, const int32_t *recent, size_t n_recent,
                       uint64_t position);

/* The same among the allowed tokens: bits [n_vocab], at least one set; NULL: all. Other tokens are
 * never sampled, whatever the logits. tops: greatest_of() of each SAMPLER_PIECE of the logits, if
 * known; else NULL. */
int32_t sampler_choose_allowed(sampler *s, const float *logits, const float *tops,
                               uint32_t n_vocab, const uint64_t *allowed,
                               const cerium_sampling *sampling, const int32_t *recent,
                               size_t n_recent, uint64_t position);

/* The number of greatest logits, ties included, that decide the choice; 0 for all. And the number
 * of recent tokens that are penalised, whose logits must be exact too. All others may be
 * -INFINITY. */
uint32_t sampler_best(const cerium_sampling *sampling);
size_t sampler_look_back(const cerium_sampling *sampling, size_t n_recent);

/* Natural logarithm of the token's probability in the model's own distribution (no settings), or
 * among the allowed of it (a bit each; NULL: all); -INFINITY: it has none.  Cost: one exp for each
 * of n_vocab. */
float sampler_logprob(const float *logits, uint32_t n_vocab, const uint64_t *allowed,
                      int32_t token);

/* The n most likely tokens, best first.  Writes and returns min(n, n_vocab). */
size_t sampler_top(const float *logits, uint32_t n_vocab, cerium_logprob *out, size_t n);

#endif
