/* executor.h - runs a step program on a compute team: one pass over the weights for many rows.
 *
 * Promise A: the logits of a row are the same bits whatever else is in the batch, however a
 * prompt was cut into batches, and on any number of threads.  Every operation is therefore a
 * function of one row (and of the KV pages before it), and sums are cut at absolute positions. */
#ifndef CPU_EXECUTOR_H
#define CPU_EXECUTOR_H

#include <stdatomic.h>

#include "cache/kv.h"
#include "cpu/team.h"
#include "kernels/kernels.h"
#include "model/program.h"

typedef struct cpu_executor cpu_executor;

enum {
    CPU_BEST_MAX = 64, /* a greater n_best is as 0 */
    CPU_PIECE = 256,   /* logits that have a top */
    CPU_DRAFTS_MAX = 64, /* rows of a pass that are drafts, where a model has states */
};

/* One token to compute. */
typedef struct {
    int32_t token;
    uint32_t position;      /* in its sequence; reserved there before */
    kv_sequence *sequence;  /* rows of one sequence follow each other, positions ascending by 1 */
    const float *last_state; /* of an MTP head: [n_embd] the state of the token before it, after
                                the last norm.  Of an EAGLE-3 head: what was tapped of that token,
                                or, if is_own, its own state.  Of a DFlash drafter: what was tapped
                                of this token; none if is_own, of a block that is guessed, and then
                                all rows of the pass are.  NULL: not known, or none */
    bool is_own;
    uint32_t ahead;         /* how many of the rows after it, of its sequence, it sees */
    const float *state;     /* of a model with states (program.h), at a sequence's first row: that
                               before it; NULL: of the beginning of a timeline */
    float *next_state;      /* output, or NULL: that after the row; no other row's, nor read */
    bool is_draft;          /* cpu_executor_replay() may be asked of it */
    float *logits;          /* [n_vocab rounded up to 16] output, or NULL when not wanted */
    float *tops;            /* [n_vocab / CPU_PIECE, rounded up] output: the greatest_of() each
                               piece of the logits; or NULL */
    uint32_t n_best;        /* 0: all logits.  Else a logit may be -INFINITY, unless its token is
                               in `apart` or among the n_best greatest of the others (ties
                               included) */
    const uint64_t *allowed; /* bits of the allowed tokens: others count as -INFINITY, and may be so
                               in logits; NULL: all are allowed.  Borrowed */
    const uint32_t *panels; /* [n_panels] of the head, ascending, that are wanted: their logits
                               follow each other.  The same of all rows of a pass with logits,
                               which have no allowed and no apart tokens then; NULL: all.
                               Borrowed for the pass */
    uint32_t n_panels;
    const int32_t *apart[2]; /* [n_apart[k]] tokens excluded from n_best; borrowed for the pass */
    uint32_t n_apart[2];
} cpu_row;

/* Borrows program, table and team until closed.  Takes the memory of all passes. */
CERIUM_CHECKED int cpu_executor_open(cpu_executor **out, const step_program *program,
                                     const kernel_table *table, team *workers, uint32_t rows_max,
                                     cerium_error *err);
void cpu_executor_close(cpu_executor **ex);

/* From now on fn sees the inputs of matrices: cerium_engine_config.observe.  Between passes. */
typedef void cpu_observe_fn(void *user, const cerium_observation *seen);
void cpu_executor_observe(cpu_executor *ex, cpu_observe_fn *fn, void *user);

/* Compute rows [n_rows], n_rows <= rows_max: writes their KV and the wanted logits.  When *cancel
 * becomes true the pass ends within a layer with CERIUM_ERR_CANCELED, and its output is invalid. */
CERIUM_CHECKED int cpu_executor_run(cpu_executor *ex, const cpu_row *rows, uint32_t n_rows,
                                    const _Atomic bool *cancel);

/* Of a model with states, after a pass: `to`, the state after rows [row, row + n), which are drafts
 * of one sequence, from the one before them.  The bits are those of a pass. */
void cpu_executor_replay(cpu_executor *ex, uint32_t row, uint32_t n, const float *from, float *to);
/* Floats of a state; 0: the model has none. */
size_t cpu_state_floats(const step_program *program);

/* Keep the inputs of layers [n], as model_layer_begins() finds them, of the rows of each pass.
 * Once, between passes.  CERIUM_ERR_MEMORY. */
CERIUM_CHECKED int cpu_executor_tap(cpu_executor *ex, const uint32_t *ops, uint32_t n);
/* Bytes of these; 0: none are kept. */
uint64_t cpu_executor_tap_bytes(const cpu_executor *ex);
/* Those of a row of the last pass, [n][n_embd]. */
void cpu_executor_tapped(const cpu_executor *ex, uint32_t row, float *out);
/* The state of a row of the last pass after the last norm, of an EAGLE-3 head before it,
 * [n_embd]. */
void cpu_executor_state(const cpu_executor *ex, uint32_t row, float *out);

/* Did the last pass leave logits out for n_best? */
bool cpu_executor_searched(const cpu_executor *ex);

/* Bytes of the head that the last pass read beyond those of the screen; 0 without one. */
uint64_t cpu_executor_head_bytes(const cpu_executor *ex);

/* The windows and the heads of the program's KV layers: [shape.n_kv_layers] for a kv_layout. */
void cpu_kv_windows(const step_program *program, uint32_t *windows);
void cpu_kv_heads(const step_program *program, kv_heads *heads);

#endif
