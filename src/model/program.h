/* program.h - the step program: the computation of one pass over a model, as a flat list.
 *
 * An architecture file (llama.c, qwen2.c, ...) lowers a model file to this list once, at open. The
 * CPU team walks it for every pass; a simulator or another device can walk the same list. It names
 * operations and weights, but no threads, buffers or instruction sets.
 *
 * Symbols used below: x [n_embd] is the residual stream of a token; everything is per token.
 * Some layers keep keys and values of each token, others a state of all (step_recurrence). */
#ifndef MODEL_PROGRAM_H
#define MODEL_PROGRAM_H

#include "base/base.h"
#include "gguf/gguf.h"
#include "kernels/kernels.h"

/* Of a matrix whose columns were turned before they were rounded: its input is, too. */
typedef struct {
    uint32_t run;       /* columns that are turned together: a power of two that divides them */
    const float *signs; /* [cols] 1 or -1; NULL: all 1 */
    bool by_keys;       /* OUT after DELTA: its input's heads are in the order of their keys */
} step_hadamard;

/* x[n] from column `first` on = H (signs x), whole runs of them. */
static inline void step_turn(const step_hadamard *h, float *x, uint32_t first, uint32_t n)
{
    for (uint32_t i = 0; h->signs && i < n; i++) x[i] *= h->signs[first + i];
    for (uint32_t i = 0; i < n; i += h->run) kernel_hadamard(x + i, h->run);
}
/* And back: a row x[n] = signs (H x). */
static inline void step_turn_back(const step_hadamard *h, float *x, uint32_t n)
{
    for (uint32_t i = 0; i < n; i += h->run) kernel_hadamard(x + i, h->run);
    for (uint32_t i = 0; h->signs && i < n; i++) x[i] *= h->signs[i];
}

/* One weight matrix, or n_matrices of one shape (experts, heads of latents). */
typedef struct {
    const gguf_tensor *source;
    block_type type;       /* of the panels; if it differs from the source's, panels are made from
                              that */
    uint32_t rows, cols;   /* y[rows] = W x[cols] */
    uint32_t n_matrices;   /* experts or heads; 1 otherwise */
    uint32_t source_row;   /* first row in each expert's part of the source */
    uint32_t source_rows;  /* rows of each expert in the source */
    const float *factor;   /* [n_factors], 1 or n_matrices, times the source; NULL: 1 */
    uint32_t n_factors;
    const step_hadamard *hadamard; /* of its input; of EMBED, turned back from; or NULL */
    bool turns_rows;       /* the source's rows are not turned: panels are */
    bool is_transposed;    /* cols are rows of the source, those of an expert from source_row on */
    uint32_t n_panels;     /* of one matrix: rows / 16, rounded up */
    size_t panel_bytes;
    uint8_t *panels;       /* [n_matrices][n_panels][panel_bytes]; owned by the model */
    bool is_screen;        /* of an output head: a coarse copy with a bound on its error */
    float *row_error;      /* of a screen: [16 n_panels] after its panels, see step_op */
    bool has_norms;        /* of an output head whose logits may be skipped */
    float *panel_norm;     /* [n_panels] after its panels: the greatest |row| of each; or NULL */
} model_matrix;

/* The largest error of a product's float arithmetic, for each unit of |w| |x|: at most four
 * roundings for each block of 32 columns, the sum of whose magnitudes is below that, and a few at
 * the end. */
static inline double model_product_rounding(uint32_t n_cols)
{
    return (n_cols / 8.0 + 32) * 0x1p-24;
}

/* What the source's values of a matrix are multiplied with. */
static inline float model_matrix_factor(const model_matrix *m, uint32_t matrix)
{
    return !m->factor ? 1.0f : m->factor[m->n_factors > 1 ? matrix : 0];
}

static inline const uint8_t *model_matrix_panels(const model_matrix *m, uint32_t matrix,
                                                 uint32_t panel)
{
    return m->panels + ((size_t)matrix * m->n_panels + panel) * m->panel_bytes;
}

typedef enum {
    STEP_EMBED = 0,        /* x = w[0][token].  With a norm (MTP): a = [norm(x) | head_norm[0](s)],
                              x = 0, s: the row's given state; OUT follows.  With n_taps in the
                              shape (EAGLE-3): a = norm(s), if it has one, and x = 0, where s is of
                              the model; a = 0 and x = s, or head_norm[0](s), where it is its own.
                              With n_block, too (DFlash): a = s and x = 0 of a row of the context */
    STEP_QKV = 1,          /* n = norm(x), or, with a table beside, [norm(beside[token]) |
                              beside_norm(x)]; q, k, v = w[0..2] n + bias, v = k without w[2]; head
                              norms; rope; KV write.  Without w[1] only q */
    STEP_ATTEND = 2,       /* a = softmax(q k scale, sinks) v, in a window if there is one */
    STEP_OUT = 3,          /* x += residual_scale norm(w[0] a + bias[0]) */
    STEP_FFN_UP = 4,       /* n = norm(x); h = activation(w[0] n + bias[0], w[1] n + bias[1]) */
    STEP_FFN_DOWN = 5,     /* x += residual_scale norm(w[0] h + bias[0]) */
    STEP_ROUTE = 6,        /* n = norm(x); experts and their weights from w[0] n + bias[0] */
    STEP_EXPERTS_UP = 7,   /* h_e = activation(w[0]_e n + bias[0]_e, w[1]_e n + bias[1]_e); n is
                              ROUTE's, or norm(x) if it has a norm */
    STEP_EXPERTS_DOWN = 8, /* x += weight_e (w[0]_e h_e + bias[0]_e), experts in ascending order */
    STEP_HEAD = 9,         /* logits = cap(logit_scale (w[0] norm(x) + bias[0])) */
    STEP_LINEAR_IN = 10,   /* n = norm(x); q k v = w[0] n, z = w[1] n, beta = w[2] n, alpha = w[3] n
                              or, without w[3], both w[2] n: step_recurrence.is_grouped; a scan has
                              no alpha */
    STEP_CONV = 11,        /* q k v = silu(convolution with the last tokens + bias[0]).
                              Delta: q and k to length 1; decay = e^(decay softplus(alpha + dt)),
                              beta = sigmoid(beta).  Scan: beta = softplus(beta + dt), decay =
                              e^(decay beta) */
    STEP_DELTA = 12,       /* Each head has a state S; OUT follows.  Delta: S *= decay;
                              S += k (beta (v - k S)); a = head_norm(q S) silu(z).  Scan:
                              S *= decay; S += k (beta v); a = head_norm((q S + skip v) silu(z)),
                              a norm of all values that share a key */
    STEP_LAYER_INPUTS = 13, /* of every layer: p = (norm(w[0] x / sqrt(n_embd)) +
                              sqrt(n_layer_input) table[token]) / sqrt(2) */
    STEP_LAYER_GATE = 14,  /* h = activation(w[0] x, p of the layer); FFN_DOWN follows */
    STEP_LATENT = 15,      /* n = norm(x); [c k] = w[0] n, c = head_norm[0](c), rope of k: KV write
                              of both as one key, which is the value, too.  With w[1] also
                              low = head_norm[1](w[1] n) */
    STEP_LATENT_Q = 16,    /* q = w[0] low, or, with a norm, w[0] norm(x); of each head
                              [n_plain | n_rot], of which the latter turn */
    STEP_LATENT_QUERY = 17, /* of each head, q = [w[0]_head q | q]: as wide as a key */
    STEP_LATENT_VALUE = 18, /* of each head, a = w[0]_head a, from as wide as c; OUT follows */
    STEP_EXPERTS_IN = 19,   /* l = w[0] n, of ROUTE's n: the n of EXPERTS_UP, which is_narrow, and
                              whose sum waits: a = that of EXPERTS_DOWN, and OUT follows */
} step_kind;
/* An expert used by every row is FFN_UP and FFN_DOWN between ROUTE and EXPERTS_UP: its n is that of
 * ROUTE, so it has no norm. */

typedef enum {
    STEP_NORM_RMS = 0,
    STEP_NORM_LAYER = 1, /* mean and variance, with bias */
} step_norm_kind;

typedef enum {
    STEP_SILU_GATED = 0,
    STEP_GELU = 1,           /* tanh form; one matrix */
    STEP_SWIGLU_CLAMPED = 2, /* gpt-oss */
    STEP_GELU_GATED = 3,     /* tanh form, times up */
    STEP_SILU_CLAMPED = 4,   /* SiLU of min(gate, L), times up within [-L, L]: L of the op */
    STEP_RELU_SQUARED = 5,   /* max(x, 0)^2; one matrix */
} step_activation;

/* Whether w[0] is a gate of w[1], or the only one. */
static inline bool step_is_gated(step_activation activation)
{
    return activation != STEP_GELU && activation != STEP_RELU_SQUARED;
}

typedef enum {
    STEP_ROUTE_SOFTMAX_TOP = 0, /* softmax over all experts, the k best */
    STEP_ROUTE_TOP_SOFTMAX = 1, /* the k best, softmax over them */
    STEP_ROUTE_SIGMOID_TOP = 2, /* sigmoid of each, the k best by it and the op's choice bias */
} step_routing;

typedef enum {
    STEP_ROPE_ADJACENT = 0, /* pairs (2j, 2j + 1) */
    STEP_ROPE_SPLIT = 1,    /* pairs (j, j + n_rot / 2) */
} step_rope;

/* The rotation of q and k by position.  Layers may have different ones. */
typedef struct {
    uint32_t n_rot;          /* channels of a head that turn; even */
    float scale;             /* of cosine and sine (YaRN) */
    const double *frequency; /* [n_rot / 2] radians a token */
} step_rope_table;

enum { STEP_ROPES_MAX = 2, STEP_NO_ROPE = STEP_ROPES_MAX };

/* Layers that keep a state of all tokens, of one size, in place of keys and values of each. */
typedef struct {
    uint32_t n_layers;                /* number of them; 0: none */
    uint32_t n_key_heads, n_value_heads, key_dim, value_dim;
    uint32_t n_taps;                  /* tokens that a convolution sees, the own one included */
    bool is_scan;                     /* Mamba-2: keys are B, queries C, values x, which come first
                                         among channels; else the gated delta rule: q, k, v */
    bool is_grouped;                  /* value heads of a key head follow each other, as in a scan,
                                         and with them beta and alpha in w[2]; else head h has key
                                         head h modulo n_key_heads */
} step_recurrence;

/* Which passes have the step, in a program of two kinds of them (DFlash): those of rows with the
 * model's states, and those of a block that is guessed. */
typedef enum {
    STEP_IN_ALL = 0,
    STEP_IN_CONTEXT = 1,
    STEP_IN_BLOCK = 2,
} step_passes;

enum { STEP_MATRICES_MAX = 4 };

typedef struct {
    step_kind kind;
    step_passes passes;
    uint32_t layer;               /* of those with KV: QKV, LATENT and ATTEND, which read those of
                                     an earlier layer if QKV has no w[1]; of those with a state:
                                     CONV and DELTA; of all: LAYER_GATE */
    uint32_t n_heads, n_kv_heads, head_dim; /* QKV, LATENT*, ATTEND: at most the shape's */
    uint32_t n_latent;            /* LATENT*, ATTEND: channels of a key that are the value; 0: they
                                     are apart */
    uint32_t window;              /* ATTEND: tokens seen, the own one included; 0 = all */
    uint32_t rope;                /* QKV: which of the shape's tables, or STEP_NO_ROPE */
    float attention_scale;        /* QKV, LATENT_QUERY: of q k */
    bool is_row_norm;             /* QKV: head_norm is of all heads of a row together */
    bool is_gated;                /* QKV: w[0] has after each head of q as many rows of a gate;
                                     ATTEND: a *= its sigmoid.  FFN_DOWN: the addend is times the
                                     sigmoid of ROUTE's w[1] n, one number */
    uint32_t n_gates;             /* QKV, ATTEND: gates of each head, 1 or head_dim: a *=
                                     softplus(w[3] n) of them, w[3] of QKV; 0: none */
    const float *norm;            /* [n_embd]; of x, if the kind has one */
    const float *norm_bias;       /* [n_embd] or NULL */
    const model_matrix *w[STEP_MATRICES_MAX];
    const float *bias[3];         /* [rows], for experts [n_matrices][rows]; NULL: none */
    const float *post_norm;       /* OUT, FFN_DOWN, EXPERTS_DOWN: [n_embd] RMS norm of the addend of
                                     x.  LAYER_INPUTS: [n_layer_input] */
    bool is_narrow;               /* EXPERTS_UP, EXPERTS_DOWN: after EXPERTS_IN */
    bool norms_taps;              /* EMBED: its norm is of each of the shape's taps by itself */
    bool waits;                   /* FFN_DOWN: post_norm's output is added to that of the next
                                     EXPERTS_DOWN, not to x, and then */
    const float *norm_of_sum;     /* EXPERTS_DOWN: [n_embd] RMS norm of that sum */
    float output_scale;           /* FFN_DOWN, EXPERTS_DOWN with post_norm: x *= this; 0: no */
    const float *head_norm[3];    /* QKV: RMS norm of each q, k and v head, [head_dim], or of all
                                     heads of a row, [heads][head_dim]; or NULL.  CONV: factors of q
                                     and k [key_dim], which turn RMS norms into norms to length 1;
                                     DELTA: [value_dim], of a scan [n_value_heads value_dim];
                                     EMBED: [n_embd] */
    const model_matrix *beside;   /* QKV: embeddings of tokens, as wide as x; or NULL */
    const float *beside_norm;     /* [n_embd] of x then; NULL: it is normed already */
    const gguf_tensor *table;     /* LAYER_INPUTS: [n_vocab][n_layers][n_layer_input] in the file */
    uint32_t n_used;              /* ROUTE, EXPERTS_UP, EXPERTS_DOWN: experts of a row, at most the
                                     shape's */
    const float *expert_scale;    /* ROUTE: [n_experts] times each expert's weight; or NULL */
    const float *conv;            /* CONV: [n_taps][channels], the oldest token first */
    const float *decay, *dt;      /* CONV: [n_value_heads] */
    const float *skip;            /* DELTA, of a scan: [n_value_heads] */
    const float *sinks;           /* ATTEND: [n_heads] or NULL */
    const float *choice_bias;     /* ROUTE: [n_experts] added to the scores that choose experts, not
                                     to their weights; or NULL */
    float activation_limit;       /* STEP_SILU_CLAMPED: FFN_UP, EXPERTS_UP */
    const model_matrix *screen;   /* HEAD: a coarse copy of w[0], or NULL: of every row r and one
                                     part x, |w[0] x - screen x| <= row_error[r] |x|, as computed */
} step_op;

/* What the input of a step's matrices needs, which is the same for all. */
static inline const step_hadamard *step_hadamard_of(const step_op *op)
{
    const model_matrix *w = op->w[0] ? op->w[0] : op->w[1];
    return w ? w->hadamard : NULL;
}

/* Whether a step makes keys and values. */
static inline bool step_writes_kv(const step_op *op)
{
    return op->kind == STEP_LATENT || (op->kind == STEP_QKV && op->w[1]);
}

/* Floats that one row of QKV reads. */
static inline uint32_t step_qkv_width(const step_op *op, uint32_t n_embd)
{
    return op->beside ? 2 * n_embd : n_embd;
}

/* Whether a token reads only some of a step's matrices. */
static inline bool step_chooses(const step_op *op)
{
    return op->kind == STEP_EXPERTS_UP || op->kind == STEP_EXPERTS_DOWN;
}

/* The activations in 8 bits of an op's matrices: a bit for each kernel_acts. */
static inline uint32_t step_acts(const step_op *op)
{
    uint32_t acts = 0;
    for (int i = 0; i < STEP_MATRICES_MAX; i++)
        if (op->w[i] && kernel_takes_acts(op->w[i]->type))
            acts |= 1u << kernel_acts_of(op->w[i]->type);
    return acts;
}

/* The head's input in 8 bits is two rows, the rounded values and the rounding errors, whose
 * products are added: no rounding of a pass costs more (docs/decisions/0061-a-head-in-16-bits.md).
 * If only the best logits are wanted, only the decisive part of the second product is computed
 * (docs/decisions/0090-the-rest-of-what-may-win.md). */
static inline uint32_t step_parts(const step_op *op)
{
    return op->kind == STEP_HEAD && step_acts(op) ? 2 : 1;
}

/* The sizes shared by all layers, and the maxima over layers. */
typedef struct {
    uint32_t n_layers, n_embd, n_vocab;      /* n_vocab: logits */
    uint32_t n_taps, n_tapped;               /* of an EAGLE-3 head or a DFlash drafter: layers of
                                                the model that it reads, and the floats of each; 0:
                                                it is none */
    bool norms_state;                        /* of an EAGLE-3 head: of its own states it reads what
                                                is behind its last norm (3.1), not what is before */
    uint32_t n_block, mask_token;            /* of a DFlash drafter: rows of a block, whose first is
                                                the last token and the others this one; 0 */
    bool block_is_causal;                    /* its rows do not see later ones */
    bool block_says_first;                   /* row i says the token after place i, not that of it
                                                (DSpark) */
    uint32_t n_kv_layers;                    /* the number of layers with keys and values */
    step_recurrence linear;
    uint32_t n_heads, n_kv_heads, head_dim;
    uint32_t n_layer_input;                  /* width of a layer's part of LAYER_INPUTS; 0 */
    uint32_t n_ff;                           /* 0: every layer has only experts */
    uint32_t n_experts, n_experts_used, n_ff_expert;
    uint32_t context_tokens;                 /* the context of training */
    step_norm_kind norm_kind;
    float norm_eps;
    step_activation activation;
    step_routing routing;
    uint32_t n_expert_groups, n_groups_used; /* experts are of the best groups: by two of each, of
                                                softmax by the best; 0 = all */
    bool weights_sum_to_one;                 /* of the chosen experts */
    float routing_scale;                     /* times each expert's weight */
    step_rope rope;
    uint32_t n_ropes;
    step_rope_table ropes[STEP_ROPES_MAX];   /* [n_ropes] */
    float query_growth;                      /* q *= 1 + this ln(1 + floor(position / next)); 0 */
    uint32_t query_growth_tokens;
    float embedding_scale, residual_scale, logit_scale; /* 1: there is none */
    float logit_cap;                         /* L: logits become L tanh(logit / L); 0 = they stay */
} step_shape;

typedef struct {
    step_shape shape;
    const step_op *ops; /* [n_ops] */
    uint32_t n_ops;
} step_program;

/* Channels of q, k and v that go through a convolution. */
static inline uint32_t step_channels(const step_recurrence *r)
{
    return 2 * r->n_key_heads * r->key_dim + r->n_value_heads * r->value_dim;
}

/* Floats of a layer's state: S of each head, then the last inputs of the convolution [n_taps -
 * 1]. */
static inline size_t step_state_matrices(const step_recurrence *r)
{
    return (size_t)r->n_value_heads * r->key_dim * r->value_dim;
}
static inline size_t step_state_floats(const step_recurrence *r)
{
    size_t n = step_state_matrices(r) + (size_t)(r->n_taps - 1) * step_channels(r);
    return size_round_up(n, KERNEL_PANEL_ROWS);
}

#endif
