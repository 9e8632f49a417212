/* mesh_draft.h - speculative decoding: a draft model on idle cores guesses tokens, and the model
 * verifies the guesses in one pass. The text is always the model's own.
 *
 * In turns, guesses and verification follow each other.  Overlapped, the smaller model continues
 * while a pass is verified, as though all its guesses were right and its own next one were the
 * token that the pass yields: if so, the next pass is ready, else its work is dropped.  How far it
 * gets before the result arrives depends on the time of both, drafting.h. */
#ifndef WAFER_MESH_DRAFT_H
#define WAFER_MESH_DRAFT_H

#include "wafer/drafting.h"
#include "wafer/mesh.h"

/* Zero except for the first three when a text begins. */
typedef struct {
    mesh *m;             /* of the smaller model; borrowed.  The same vocabulary and context */
    const draft_us *us;  /* [tokens of a pass - 1], borrowed; NULL: no clock is read */
    bool is_overlapped;  /* needs us */
    uint32_t n_known;    /* tokens that it has computed: of the text, then of the chain */
    uint32_t n_chain;    /* guesses after the text */
    int32_t chain[2 * MESH_ROWS_MAX];
    double clock_us;     /* of all passes */
    uint64_t n_steps;    /* guesses that it made, */
    uint64_t n_passes;   /* passes of the model, */
    uint64_t n_drafted;  /* guesses that were verified, */
    uint64_t n_accepted; /* those that were right, */
    uint64_t n_foreseen; /* and passes that it had guessed completely: only if overlapped */
} mesh_draft;

/* After tokens [n], of which m has computed all but the last: up to n_max - 1 guesses, and one pass
 * over them.  Writes the next tokens, greedily, to out [n_max], and returns how many, 1 at least.
 * n_max: 1 to m's rows_max; n - 1 + n_max is within both contexts. */
uint32_t mesh_draft_pass(mesh_draft *d, mesh *m, const int32_t *tokens, uint32_t n, uint32_t n_max,
                         int32_t *out);

#endif
