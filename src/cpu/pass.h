/* pass.h - what the parts of the executor share: buffers, the current pass, worker scratch.
 *
 * Symbols: M rows of the batch; E n_embd; a tile is up to PASS_TILE rows that go through a matrix
 * together; a block is the output rows of one unit of work. */
#ifndef CPU_PASS_H
#define CPU_PASS_H

#include "cpu/executor.h"

enum {
    PASS_TILE = 72,          /* rows of a batch that a unit of work takes through its weights */
    PASS_BLOCK_PANELS = 4,   /* output panels in a unit: 64 rows */
    PASS_UP_PANELS = 8,      /* feed-forward up: 128 rows, one group of activations */
    PASS_HEAD_PANELS = 16,   /* vocabulary: 256 rows */
    PASS_HEAD_ROWS = PASS_TILE / 2, /* of a batch that the head takes together, in two parts */
    PASS_SEARCH_ROWS = 72,   /* rows of a pass whose best logits are searched at most */
    PASS_SEARCH_CLASSES = 8,   /* of rows: 1, 2, to 4, to 8, ... */
    PASS_SEARCH_TRIAL = 4,     /* passes of a kind before its time counts */
    PASS_SEARCH_REST_MIN = 64, /* passes that do not search after searching did not pay */
    PASS_SEARCH_REST_MAX = 512, /* and passes that search until the whole head is timed again */
    PASS_ATTEND_ROWS = 32,   /* query rows (heads x tokens) that share a walk over pages */
    PASS_LATENT_ROWS = 128,  /* the same where values are made of keys on the way */
    PASS_CHUNK_TOKENS = 512, /* attention is summed in chunks of this many positions */
    PASS_CHUNK_PAGES = PASS_CHUNK_TOKENS / KERNEL_PAGE,
};
_Static_assert(PASS_CHUNK_TOKENS % KERNEL_PAGE == 0, "a chunk is whole pages");
_Static_assert(PASS_UP_PANELS * KERNEL_PANEL_ROWS == KERNEL_GROUP,
               "a unit of the feed-forward quantizes its own group");
_Static_assert(PASS_HEAD_PANELS * KERNEL_PANEL_ROWS == CPU_PIECE,
               "a unit of the head finds a top");

/* Rows of activations, as floats and, where a matrix wants them, in 8 bits. */
typedef struct {
    float *f;      /* [rows][f_stride] */
    size_t f_stride;
    kernel_act *q[KERNEL_ACTS_END]; /* [rows][q_stride] of each kernel_acts that is wanted */
    size_t q_stride;
} pass_rows;

typedef enum {
    STAGE_PREPARE = 0, /* norm and quantize the input, rows shared out */
    STAGE_MAIN = 1,
    STAGE_JOIN = 2,    /* ATTEND: join chunks that were attended apart */
    STAGE_PICK = 3,    /* ROUTE: choose experts */
    STAGE_GATHER = 4,  /* ROUTE: rows in the order of their experts */
    STAGE_SCREEN = 5,  /* HEAD: bounds of all logits; MAIN is left out then */
    STAGE_MARK = 6,    /* HEAD: what a logit must reach */
    STAGE_SEARCH = 7,  /* HEAD: the logits that may reach it */
    STAGE_FINISH = 8,  /* QKV: norms of whole rows, and what follows them; DELTA: norm and gate;
                          LATENT: norms, rope, KV write; EXPERTS_IN: in 8 bits */
    STAGE_ADD = 9,     /* OUT, FFN_DOWN: the norm after, and the sum */
    STAGE_TAP = 10,    /* any: keep x, before it */
    STAGE_TURN = 11,   /* OUT, FFN_DOWN, EXPERTS_DOWN: turn and quantize parts of input rows */
} pass_stage;

typedef struct {
    uint32_t op;
    pass_stage stage;
} pass_phase;

/* Neighbouring rows of one sequence that attend together. */
typedef struct {
    uint32_t row, n_rows;
} attend_group;

typedef struct {
    uint64_t prepared;         /* pass and phase whose private input is in `input`; 0 = none */
    pass_rows input;           /* one row; of the head in 8 bits both its parts */
    uint64_t best_of;          /* pass whose `best` and `rest` these are; 0 = none */
    float *best;               /* [head rows][CPU_BEST_MAX] seen by this worker: lower bounds of the
                                  n_best greatest logits, descending */
    float *rest;               /* [head rows] pass_rest_norm() */
    float *y;                  /* [PASS_TILE][2 * block_rows_max] */
    float *out[2];             /* [attend rows][head_dim]: of the chunk, of all */
    kernel_softmax_state *state[2]; /* [attend rows] */
    uint32_t *first, *end;     /* [attend rows] */
    float *slice;              /* of a state: pass_slice_floats() */
    void *values;              /* a page's values where they are its keys; or NULL */
} pass_scratch;

/* Rows sorted by the expert that they go to. */
typedef struct {
    uint32_t n_entries, n_active;
    uint32_t *active;   /* [n_experts] experts with rows, ascending */
    uint32_t *begin;    /* [n_experts + 1] entries of active[i] are [begin[i], begin[i + 1]) */
    uint32_t *row;      /* [entries] */
    float *weight;      /* [entries] */
    float *logits;      /* [M][n_experts rounded up to 16] */
    uint32_t *chosen;   /* [M][n_used] in order of rank */
    float *chosen_weight;
    float *shared_gate; /* [M] of the expert that every row takes; 1 / (1 + e^-x) */
} pass_routes;

/* Recent times of the head, from the first unit of its phases to the end of the pass. */
typedef struct {
    double ns;
    uint32_t n; /* of passes, as many as count */
} pass_time;

/* Does searching pay with about this many rows? */
typedef struct {
    pass_time whole, searched;
    uint32_t rest;      /* passes that will not search */
    uint32_t rest_next; /* how many the next time that it does not pay; 0 = the least */
    uint32_t n_good;    /* passes since then in which it paid */
} pass_search_class;

/* The best logits of at most PASS_SEARCH_ROWS rows. */
typedef struct {
    bool on; /* this pass searches */
    bool by_parts; /* this pass computes the second part of a product where it may decide */
    _Atomic uint64_t begin_ns; /* of the head's phases in this pass; 0 before */
    pass_search_class by_rows[PASS_SEARCH_CLASSES];
    float *low, *high;  /* [rows][n_panels] bounds of the logits of each panel */
    float norm[PASS_SEARCH_ROWS], mark[PASS_SEARCH_ROWS];
    float rest[PASS_SEARCH_ROWS]; /* as pass_scratch has it */
    uint32_t n_panels[PASS_SEARCH_ROWS]; /* that reached the mark */
} pass_best;

enum { EXECUTOR_TAPS_MAX = 8 };

struct cpu_executor {
    const step_program *program;
    const kernel_table *k;
    team *workers;
    uint32_t rows_max, n_workers;
    uint32_t attend_tokens;    /* tokens in an attend_group at most */
    uint32_t attend_rows;      /* query rows of a group at most */
    uint32_t partials_max;     /* rows x chunks that fit in part_* */
    cpu_observe_fn *observe;   /* or NULL */
    void *observe_user;

    /* the pass */
    const cpu_row *rows;
    uint32_t n_rows;
    uint64_t number;           /* counts passes from 1 */
    const _Atomic bool *cancel;
    _Atomic bool skipped;      /* cancel was seen */
    uint32_t n_groups, n_chunks;
    bool split;                /* attend chunk by chunk, then join */
    uint32_t n_head_rows;
    const uint32_t *panels;    /* [n_panels] of the head, that its rows want; NULL: all */
    uint32_t n_panels;
    pass_best search;

    /* what a drafter reads */
    uint32_t n_taps;           /* 0: nothing */
    uint32_t tap_ops[EXECUTOR_TAPS_MAX];
    float *tapped;             /* [M][n_taps][E] x before those steps */

    /* buffers */
    float *x;                  /* [M][E] the residual stream */
    float *cosine[STEP_ROPES_MAX], *sine[STEP_ROPES_MAX]; /* [M][n_rot / 2] of each table */
    uint8_t *queries;          /* [n_kv_heads][M][heads of one][query_bytes] */
    size_t query_bytes;        /* of the type of KV that wants most */
    pass_rows attended;        /* f: [M][n_heads head_dim]; q: the same for OUT */
    pass_rows normed;          /* of x: input of QKV, FFN_UP, ROUTE, HEAD, in 8 bits [2 M] */
    pass_rows hidden;          /* of the feed-forward, or of entries of experts: pass_hidden() */
    float *branch;             /* [M][E] input of a norm whose output is added to x; or NULL */
    float *waiting;            /* [M][E] of the shared expert, added with the experts'; or NULL */
    float *layer_inputs;       /* [M][n_layers][n_layer_input]; or NULL */
    float *whole;              /* [M][pass_whole_width()] q, k and v before norms of whole rows */
    float *gates;              /* [M][n_heads head_dim at most] of attention; or NULL */
    float *linear;             /* [M][pass_linear_width()] what LINEAR_IN makes */
    float *mixed;              /* [M][step_channels()] q, k and v after CONV */
    float *rates;              /* [M][2 n_value_heads] decay, beta */
    float *no_inputs;          /* [step_channels()] zeros */
    float *latents;            /* [M][pass_latent_width()] what LATENT makes */
    pass_rows low;             /* [M] of it, what LATENT_Q reads */
    pass_rows of_heads;        /* [n_heads][M] what LATENT_QUERY reads, then LATENT_VALUE */
    float *turning;            /* [M][n_heads][n_rot] the rotated part of queries */
    float *drafts;             /* [CPU_DRAFTS_MAX][layers][pass_draft_floats()] */
    attend_group *spans;       /* [n_spans] rows of a sequence; at most M */
    uint32_t n_spans;
    uint32_t *first_row;       /* [M] of the row's sequence */
    uint32_t *draft_of;        /* [M] place in drafts, or CPU_DRAFTS_MAX */
    pass_rows narrowed;        /* [M] what EXPERTS_IN makes */
    pass_rows gathered;        /* rows of either in the order of entries */
    float *part_out;           /* [partials][n_heads][head_dim] */
    kernel_softmax_state *part_state; /* [partials][n_heads] */
    attend_group *groups;      /* [M] */
    uint32_t *head_rows;       /* [M] rows whose logits are wanted */
    pass_routes routes;
    pass_scratch *scratch;     /* [n_workers] */
    pass_phase *phases;        /* [TEAM_PHASES_MAX] */
    team_phase *team_phases;
    void *memory;              /* all buffers */
    size_t memory_bytes;
};

static inline uint32_t divide_up(uint32_t n, uint32_t by) { return (n + by - 1) / by; }
static inline uint32_t smaller(uint32_t a, uint32_t b) { return a < b ? a : b; }

/* observe.c: show rows [n_rows] from row on of x, the input of w's matrix. */
void pass_observe(const cpu_executor *ex, const model_matrix *w, uint32_t matrix,
                  const pass_rows *x, uint32_t row, uint32_t n_rows);

/* A row in 8 bits as matrices of a type take it. */
static inline const kernel_act *pass_acts(const pass_rows *x, block_type type, uint32_t row)
{
    return x->q[kernel_acts_of(type)] + row * x->q_stride;
}

/* y[n_rows][stride] = panels [panel, panel + n_panels) of w's matrix, times rows [row, ...) of x */
static inline void pass_product(const cpu_executor *ex, float *y, size_t stride,
                                const model_matrix *w, uint32_t matrix, uint32_t panel,
                                uint32_t n_panels, const pass_rows *x, uint32_t row,
                                uint32_t n_rows)
{
    const void *in = kernel_takes_acts(w->type) ? (const void *)pass_acts(x, w->type, row)
                                                : (const void *)(x->f + row * x->f_stride);
    ex->k->matmul[w->type](y, stride, model_matrix_panels(w, matrix, panel), in, n_panels, w->cols,
                           n_rows);
}

/* The same, observed: every row meets a matrix's first panel once. */
static inline void pass_matmul(const cpu_executor *ex, float *y, size_t stride,
                               const model_matrix *w, uint32_t matrix, uint32_t panel,
                               uint32_t n_panels, const pass_rows *x, uint32_t row,
                               uint32_t n_rows)
{
    if (ex->observe && panel == 0) pass_observe(ex, w, matrix, x, row, n_rows);
    pass_product(ex, y, stride, w, matrix, panel, n_panels, x, row, n_rows);
}

/* A unit of work on a matrix: a tile of rows through a block of panels.  Units of a tile follow
 * each other along the output rows. */
typedef struct {
    uint32_t row, n_rows;     /* of the batch */
    uint32_t panel, n_panels;
    uint32_t first, n;        /* output rows: the last panel may have fewer than it holds */
} pass_block;

static inline pass_block pass_block_of(uint32_t n_panels, uint32_t n_outputs,
                                       uint32_t block_panels, uint32_t n_rows, uint32_t unit)
{
    uint32_t n_blocks = divide_up(n_panels, block_panels);
    pass_block b = {.row = unit / n_blocks * PASS_TILE, .panel = unit % n_blocks * block_panels};
    b.n_rows = smaller(n_rows - b.row, PASS_TILE);
    b.n_panels = smaller(n_panels - b.panel, block_panels);
    b.first = b.panel * KERNEL_PANEL_ROWS;
    b.n = smaller(n_outputs - b.first, b.n_panels * KERNEL_PANEL_ROWS);
    return b;
}

static inline pass_block pass_block_at(const model_matrix *w, uint32_t block_panels,
                                       uint32_t n_rows, uint32_t unit)
{
    return pass_block_of(w->n_panels, w->rows, block_panels, n_rows, unit);
}

/* Rows filled up to whole panels. */
static inline size_t pass_padded(uint32_t n_rows)
{
    return size_round_up(n_rows, KERNEL_PANEL_ROWS);
}

/* Blocks of a matrix that may be NULL. */
static inline uint32_t pass_blocks_of(const model_matrix *w)
{
    return w ? divide_up(w->n_panels, PASS_BLOCK_PANELS) : 0;
}

/* Rows of one buffer as matrices of n_cols take them: one after the other. */
static inline pass_rows pass_rows_of(const pass_rows *rows, uint32_t n_cols)
{
    pass_rows r = *rows;
    r.f_stride = n_cols;
    r.q_stride = kernel_n_groups(n_cols);
    return r;
}

/* Rows of q in w[0] of QKV, for each head. */
static inline uint32_t pass_query_rows(const step_op *op)
{
    return op->head_dim * (op->is_gated ? 2 : 1);
}

/* The number of heads with this many rows that fill whole panels, and have at least 64 rows. */
static inline uint32_t pass_heads_of_panels(uint32_t rows)
{
    uint32_t heads = 1;
    while (heads * rows % KERNEL_PANEL_ROWS) heads++;
    return heads * divide_up(64, heads * rows);
}

/* Heads in a unit of QKV. */
static inline uint32_t pass_qkv_heads(const step_op *op)
{
    return pass_heads_of_panels(op->head_dim);
}

/* Heads that share a KV head. */
static inline uint32_t pass_heads_of_one(const step_op *op)
{
    return op->n_heads / op->n_kv_heads;
}

/* The query row of a head. */
static inline uint8_t *pass_query(const cpu_executor *ex, const step_op *op, uint32_t row,
                                  uint32_t head)
{
    uint32_t heads = pass_heads_of_one(op), at = head / heads * ex->rows_max + row;
    kernel_kv_type type = kv_sequence_type(ex->rows[row].sequence);
    return ex->queries +
           ((size_t)at * heads + head % heads) * kernel_query_bytes(type, op->head_dim);
}

/* tapped.c: the tap before a step, or n_taps; and keep x of a row. */
uint32_t pass_tap_before(const cpu_executor *ex, uint32_t op);
void pass_tap(cpu_executor *ex, uint32_t op, uint32_t row);

/* layer_inputs.c: p of a row and of all layers, from the product to the end; and that of one. */
void pass_layer_inputs(cpu_executor *ex, const step_op *op, const pass_rows *in, uint32_t unit);
void pass_layer_inputs_finish(cpu_executor *ex, const step_op *op, uint32_t row);
const float *pass_layer_input(const cpu_executor *ex, const step_op *op, uint32_t row);

/* linear.c: EMBED, QKV, OUT, FFN_UP, FFN_DOWN */
void pass_prepare_row(const cpu_executor *ex, const step_op *op, const pass_rows *out,
                      uint32_t out_row, uint32_t row);
/* STAGE_TURN: units of a row, and one of them. */
uint32_t pass_turned_parts(const step_op *op);
void pass_turned(cpu_executor *ex, const step_op *op, uint32_t unit);
void pass_embed(cpu_executor *ex, const step_op *op, uint32_t first, uint32_t end);
void pass_qkv(cpu_executor *ex, const step_op *op, const pass_rows *in, uint32_t unit,
              pass_scratch *scratch);
void pass_out(cpu_executor *ex, const step_op *op, const pass_rows *in, uint32_t unit,
              pass_scratch *scratch);
void pass_ffn_up(cpu_executor *ex, const step_op *op, const pass_rows *in, uint32_t unit,
                 pass_scratch *scratch);
/* Of an op's input in 8 bits, where a part of a row lies (step_parts): of the rows of a tile first
 * all first parts, then all second ones. */
uint32_t pass_part(const cpu_executor *ex, const step_op *op, uint32_t row, uint32_t part);
uint32_t pass_qkv_units(const cpu_executor *ex, const step_op *op);
/* Rotate channels of a head, by their row's position and the op's table; x: the first. */
void pass_turn(const cpu_executor *ex, const step_op *op, float *x, uint32_t row);
/* The factor of a row's q: the scale of attention, and its growth with the position. */
float pass_query_scale(const cpu_executor *ex, const step_op *op, uint32_t row);
void pass_qkv_finish(cpu_executor *ex, const step_op *op, uint32_t row);
void pass_add_branch(cpu_executor *ex, const step_op *op, uint32_t row);
/* Of whole: q, k and v of a row. */
static inline size_t pass_whole_width(const step_shape *s)
{
    return (size_t)(s->n_heads + 2 * s->n_kv_heads) * s->head_dim;
}

/* logits.c: HEAD.  Of w, its matrix or its screen: how many panels this pass wants, which one is at
 * a place among them, and how many neighbours of it follow each other there. */
uint32_t pass_head_panels(const cpu_executor *ex, const model_matrix *w);
uint32_t pass_head_panel(const cpu_executor *ex, uint32_t at);
uint32_t pass_head_run(const cpu_executor *ex, uint32_t at, uint32_t n_max);
/* A unit of the head: rows of logits.  Its panels are places, too. */
pass_block pass_head_block(const cpu_executor *ex, const step_op *op, const model_matrix *w,
                           uint32_t unit);
/* y[n_rows][b->n_panels 16] = those panels times rows [row, ...) of in */
void pass_head_product(const cpu_executor *ex, const step_op *op, float *y, const pass_block *b,
                       const pass_rows *in, uint32_t row, uint32_t n_rows);
void pass_head(cpu_executor *ex, const step_op *op, const pass_rows *in, uint32_t unit,
               pass_scratch *scratch);
void pass_finish_logits(const cpu_executor *ex, float *logits, uint32_t n);

/* head.c: HEAD when only the best are wanted.  Call the first two once head_rows are known. */
bool pass_searches(cpu_executor *ex);
bool pass_goes_by_parts(const cpu_executor *ex);
/* How far the second product of row i moves a logit, per unit of the weights' norm, including float
 * errors of both products and their sum, and underflow: norms of panels are above 0. */
float pass_rest_norm(const cpu_executor *ex, const step_op *op, const pass_rows *in, uint32_t i);
/* A unit of the head whose first products bound the logits. */
void pass_head_best(cpu_executor *ex, const step_op *op, const pass_rows *in, uint32_t unit,
                    pass_scratch *scratch);
void pass_search_norm(cpu_executor *ex, const step_op *op, uint32_t head_row);
void pass_screen(cpu_executor *ex, const step_op *op, uint32_t unit, pass_scratch *scratch);
void pass_search_mark(cpu_executor *ex, const step_op *op, uint32_t head_row);
void pass_search(cpu_executor *ex, const step_op *op, uint32_t unit, pass_scratch *scratch);
void pass_search_begins(cpu_executor *ex); /* a worker starts one of its units */
void pass_search_learn(cpu_executor *ex);  /* at the end of a pass that had a head with a screen */

/* attend.c */
void pass_attend_plan(cpu_executor *ex);
uint32_t pass_attend_units(const cpu_executor *ex, const step_op *op);
void pass_attend(cpu_executor *ex, const step_op *op, uint32_t unit, pass_scratch *scratch);
void pass_attend_join(cpu_executor *ex, const step_op *op, uint32_t row, uint32_t head);

/* recurrent.c */
size_t pass_linear_width(const step_recurrence *r);
size_t pass_draft_floats(const step_recurrence *r);
size_t pass_slice_floats(const step_recurrence *r);
void pass_linear_plan(cpu_executor *ex);
uint32_t pass_conv_parts(const step_recurrence *r); /* units of a row */
uint32_t pass_linear_units(const cpu_executor *ex, const step_op *op);
void pass_linear_in(cpu_executor *ex, const step_op *op, const pass_rows *in, uint32_t unit);
void pass_conv(cpu_executor *ex, const step_op *op, uint32_t unit);
uint32_t pass_delta_units(const cpu_executor *ex);
void pass_delta(cpu_executor *ex, const step_op *op, uint32_t unit, pass_scratch *scratch);
void pass_delta_finish(cpu_executor *ex, const step_op *op, uint32_t row);

/* latent.c */
size_t pass_latent_width(const step_op *op); /* of LATENT */
uint32_t pass_latent_heads(const step_op *op); /* in a unit of LATENT_Q */
uint32_t pass_latent_units(const cpu_executor *ex, const step_op *op); /* of any of the four */
void pass_latent(cpu_executor *ex, const step_op *op, const pass_rows *in, uint32_t unit);
void pass_latent_finish(cpu_executor *ex, const step_op *op, uint32_t row);
void pass_latent_q(cpu_executor *ex, const step_op *op, const pass_rows *in, uint32_t unit,
                   pass_scratch *scratch);
void pass_latent_query(cpu_executor *ex, const step_op *op, uint32_t unit, pass_scratch *scratch);
/* a [n_latent]: the output of ATTEND for a head. */
void pass_latent_attended(const cpu_executor *ex, const step_op *op, const float *a, uint32_t row,
                          uint32_t head);
void pass_latent_value(cpu_executor *ex, const step_op *op, uint32_t unit, pass_scratch *scratch);

/* experts.c */
uint32_t pass_route_units(const cpu_executor *ex, const step_op *op);
void pass_route(cpu_executor *ex, const step_op *op, uint32_t unit);
void pass_pick(cpu_executor *ex, const step_op *op);
void pass_experts_in(cpu_executor *ex, const step_op *op, const pass_rows *in, uint32_t unit,
                     pass_scratch *scratch);
void pass_experts_in_finish(cpu_executor *ex, const step_op *op, uint32_t row);
void pass_gather(cpu_executor *ex, const step_op *op, uint32_t entry);
void pass_experts_up(cpu_executor *ex, const step_op *op, uint32_t unit, pass_scratch *scratch);
void pass_experts_down(cpu_executor *ex, const step_op *op, uint32_t unit, pass_scratch *scratch);

/* h [n_rows][KERNEL_GROUP at most] = activation of gate and up in y, into hidden from its row; op
 * is FFN_UP or EXPERTS_UP */
void pass_activate(cpu_executor *ex, const step_op *op, float *gate, float *up, uint32_t n_rows,
                   uint32_t rows, uint32_t block, uint32_t hidden_row);

#endif
