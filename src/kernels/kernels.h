/* kernels.h - the table of numeric kernels, and the numeric contract.
 *
 * Kernels never allocate, log or fail: the caller validated shapes.  kernel_table_init() chooses
 * them once, by the processor's features.
 *
 * Contract (docs/numerics.md).  Every variant of a kernel returns the same bits for finite input.
 * The reference in *_ref.c defines the order of float operations; vector lanes are output rows
 * (or keys, or channels), never slices of a sum, except where a rule below says so:
 *   - sums over n floats use 16 partial sums p[i % 16], combined as a tree 8-4-2-1
 *     (p[i] += p[i + 8], then + 4, + 2, + 1);
 *   - minimum and maximum are a < b ? a : b and a > b ? a : b;
 *   - dot products inside a group of KERNEL_GROUP quantized activations are exact in integers;
 *   - exp is kernel_exp_ref's polynomial everywhere; fma is one rounding. */
#ifndef KERNELS_KERNELS_H
#define KERNELS_KERNELS_H

#include "base/base.h"
#include "gguf/blocks.h"

enum {
    KERNEL_PANEL_ROWS = 16, /* output rows interleaved in a panel */
    KERNEL_GROUP = 128,     /* activations in a kernel_act */
    KERNEL_BLOCK = 32,      /* and in a block of it */
    KERNEL_PAGE = 64,       /* tokens in a KV page */
    KERNEL_HEAD_MAX = 576,  /* channels of a head, at most */
};

/* 128 activations in 8 bits: x[i] ~= scale[i / 32] * q[i], q in [-127, 127], round to nearest even.
 * A last, partial group is padded with zeros. */
typedef struct {
    int8_t q[KERNEL_GROUP];
    float scale[KERNEL_GROUP / KERNEL_BLOCK]; /* largest magnitude / 127; 0 for all zeros */
    int16_t sum32[KERNEL_GROUP / 32];         /* sums of 32 neighbours: |sum| <= 4064 */
    int16_t sum16[KERNEL_GROUP / 16];         /* sums of 16 neighbours: |sum| <= 2032 */
    uint8_t unused[24];                       /* zeros: whole lines of a cache */
} kernel_act;
_Static_assert(sizeof(kernel_act) == 192, "kernels index groups by this size");

/* Which activations share a scale: those of a block, or of the whole group, whose four scales are
 * the same then. */
typedef enum {
    KERNEL_ACTS_32 = 0,
    KERNEL_ACTS_128 = 1,
} kernel_acts;
enum { KERNEL_ACTS_END = 2 };

static inline uint32_t kernel_n_groups(uint32_t n) { return (n + KERNEL_GROUP - 1) / KERNEL_GROUP; }

/* ---- weights: panels of 16 rows (panels.h has the layouts) ---- */

/* What panels a type is kept in: its own; ternary types with a scale for at least 128 values in
 * those of PQ2_0 (docs/decisions/0151), types with sixteen levels in those of IQ3_S (0106). */
static inline block_type kernel_panel_type(block_type type)
{
    if (type == BLOCK_PTQ1_0 || type == BLOCK_TQ1_0 || type == BLOCK_TQ2_0) return BLOCK_PQ2_0;
    return block_levels_of(type) ? BLOCK_IQ3_S : type;
}

/* Bytes of one panel of 16 rows by n_cols; 0 when the type cannot be repacked at that width
 * (n_cols must be a multiple of block_values(type)). */
size_t kernel_panel_bytes(block_type type, uint32_t n_cols);

/* Repack rows [0, n_rows), n_rows <= 16, of a row-major GGUF matrix into one panel; missing rows
 * are zero.  rows: the first row's blocks, rows follow each other without a gap. */
void kernel_repack(block_type type, void *restrict panel, const void *restrict rows,
                   uint32_t n_rows, uint32_t n_cols);

/* Types whose file may have a factor for a whole matrix: panels have one, with which sums over
 * their rows are multiplied; 1 once repacked. */
bool kernel_panel_has_factor(block_type type);
void kernel_panel_set_factor(block_type type, void *panel, float factor);

/* out[n_cols] = the exact values of one row of a panel; each rounded once where it has a factor. */
void kernel_panel_row(block_type type, float *restrict out, const void *restrict panel,
                      uint32_t row, uint32_t n_cols);

/* y[t][0 .. 16 n_panels) = W x[t] for every token t: 16 n_panels rows of n_cols.
 *   y:      [n_tokens][y_stride] floats; borrowed; does not alias the inputs
 *   panels: [n_panels] panels, 64-byte aligned; borrowed
 *   x:      quantized types: const kernel_act [n_tokens][kernel_n_groups(n_cols)], as
 *           kernel_acts_of(type) says;
 *           F32, F16, BF16:  const float [n_tokens][n_cols]; borrowed
 * The bits of y[t] do not depend on n_tokens or n_panels.
 * Bound for few tokens: n_panels * kernel_panel_bytes() from memory; for many: 8-bit products. */
typedef void kernel_matmul_fn(float *restrict y, size_t y_stride, const void *restrict panels,
                              const void *restrict x, uint32_t n_panels, uint32_t n_cols,
                              uint32_t n_tokens);

/* True for the types whose x is kernel_act, false for those whose x is float. */
static inline bool kernel_takes_acts(block_type type)
{
    return type != BLOCK_F32 && type != BLOCK_F16 && type != BLOCK_BF16;
}

/* Types with a scale for 16 or 32 weights have one for 32 activations, too, and so have Q1_0 and
 * Q2_0; what the others sum before they scale is a whole group
 * (docs/decisions/0047-a-scale-for-32-columns.md). */
static inline kernel_acts kernel_acts_of(block_type type)
{
    const bool is_small = type == BLOCK_NVFP4 || type == BLOCK_Q1_0 || type == BLOCK_Q2_0 ||
                          block_values(type) <= KERNEL_BLOCK;
    return is_small ? KERNEL_ACTS_32 : KERNEL_ACTS_128;
}

/* How many scales n activations have. */
static inline uint32_t kernel_n_scales(kernel_acts acts, uint32_t n)
{
    return acts == KERNEL_ACTS_32 ? n / KERNEL_BLOCK : kernel_n_groups(n);
}

static inline float kernel_act_scale(const kernel_act *x, uint32_t i) /* of value i of a row */
{
    return x[i / KERNEL_GROUP].scale[i % KERNEL_GROUP / KERNEL_BLOCK];
}

/* out[kernel_n_groups(n)] = x[n] in 8 bits; n a multiple of 32. */
typedef void kernel_quantize_fn(kernel_act *restrict out, const float *restrict x, uint32_t n);

/* x[n] -= what q says of it: what is left is what rounding lost. */
static inline void kernel_act_rest(float *restrict x, const kernel_act *restrict q, uint32_t n)
{
    for (uint32_t i = 0; i < n; i += KERNEL_BLOCK) {
        const float scale = kernel_act_scale(q, i);
        const int8_t *of = q[i / KERNEL_GROUP].q + i % KERNEL_GROUP;
        for (uint32_t j = 0; j < KERNEL_BLOCK; j++) x[i + j] -= scale * (float)of[j];
    }
}

/* ---- vectors ---- */

/* y = x / sqrt(mean(x^2) + eps) * weight; all [n], n >= 1 here and below. y may be x.
 * The sum is in 16 partials of x*x by fma; x * (1 / sqrtf) * weight, not rsqrt. */
typedef void kernel_rms_norm_fn(float *y, const float *x, const float *weight, uint32_t n,
                                float eps);
/* y = (x - mean) / sqrt(var + eps) * weight + bias; bias may be NULL. y may be x.
 * Sums of x and of (x - mean)^2 by fma; then as rms_norm, and the bias is added. */
typedef void kernel_layer_norm_fn(float *y, const float *x, const float *weight,
                                  const float *bias, uint32_t n, float eps);
/* x[n] += y[n] */
typedef void kernel_add_fn(float *restrict x, const float *restrict y, uint32_t n);
/* x[n] = fma(scale, y[n], x[n]) */
typedef void kernel_add_scaled_fn(float *restrict x, const float *restrict y, float scale,
                                  uint32_t n);

/* Rotate pairs of x by angles whose cosine and sine are given; n = pairs.
 * adjacent: pairs (2j, 2j+1); split: pairs (j, j + n).  Values: a c - b s, b c + a s with
 * fma(a, c, -(b * s)) and fma(b, c, a * s). */
typedef void kernel_rope_fn(float *restrict x, const float *restrict cosine,
                            const float *restrict sine, uint32_t n);

/* Activations of a gated or plain feed-forward; gate is overwritten with the result; all [n].
 *   silu:      gate = gate / (1 + exp(-gate)) * up
 *   gelu_tanh: gate = 0.5 gate (1 + tanh(sqrt(2/pi) (gate + 0.044715 gate^3)));   up is NULL
 *              computed as gate / (1 + exp(-2 sqrt(2/pi) (...))), which is the same
 *   gelu_gated: the same times up
 *   swiglu_clamped (gpt-oss): g = min(gate, 7), u = clamp(up, -7, 7),
 *              gate = g / (1 + exp(-1.702 g)) * (u + 1) */
typedef void kernel_activation_fn(float *restrict gate, const float *restrict up, uint32_t n);

/* sigmoid_gated: gate = up / (1 + exp(-gate)), of the same type. */

/* x[n] = exp(x[n] - max(x)) / sum, the sum in 16 partials; n >= 1. */
typedef void kernel_softmax_fn(float *x, uint32_t n);

/* ---- recurrent layers (recurrent_ref.c) ---- */

/* out[i] = silu(sum over j in order of weight[j][i] * rows[j][i]), by fma from bias[i]; i < n.
 *   rows: [n_taps], each [n]; weight: [n_taps][stride]; bias: [n], or NULL: 0 */
typedef void kernel_conv_fn(float *restrict out, const float *const *rows,
                            const float *restrict weight, const float *restrict bias,
                            size_t stride, uint32_t n_taps, uint32_t n);

/* A token's step of a state, for lanes that are channels of its value. */
typedef struct {
    const float *q, *k;       /* [n_keys] */
    const float *v;           /* [n_lanes] */
    float decay, beta;
    float skip;               /* scan: what v adds to out without the state */
    uint32_t n_keys, n_lanes; /* n_lanes is a multiple of 16 */
} kernel_delta_row;

/* The gated delta rule:
 * s[c] = sum over i in order of from[i][c] * k[i], by fma from 0;
 * change[c] = fma(-decay, s[c], v[c]) * beta;
 * to[i][c] = fma(k[i], change[c], decay * from[i][c]);
 * out[c] = sum over i in order of to[i][c] * q[i], by fma from 0.
 * to and from: [n_keys][n_lanes]; to may be from. */
typedef void kernel_delta_fn(float *restrict out, float *restrict change, float *to,
                             const float *from, const kernel_delta_row *in);
/* scan, of the same type, the selective scan of Mamba-2:
 * change[c] = beta * v[c];
 * to[i][c] = fma(k[i], change[c], decay * from[i][c]);
 * out[c] = fma(skip, v[c], sum over i in order of to[i][c] * q[i], by fma from 0). */

/* to of either once more, from the change that was: of `in`, k, decay and the sizes are read. */
typedef void kernel_delta_again_fn(float *to, const float *from, const float *restrict change,
                                   const kernel_delta_row *in);

/* x[n] = H x / sqrt(n), H Sylvester's matrix of 1 and -1, n a power of two: in stages h = 1, 2, 4,
 * ... (a, b) = (a + b, a - b) for neighbours h apart; then times 1 / sqrt(n), rounded.  The same at
 * every level. */
void kernel_hadamard(float *x, uint32_t n);

/* ---- attention over pages ---- */

/* What keys and values are kept in.  A further type is an entry here, its name and sizes in
 * attention_ref.c, and its kernels. */
typedef enum {
    KERNEL_KV_I8 = 0,  /* 8 bits and a scale for each token (kv_i8.h) */
    KERNEL_KV_F16 = 1, /* rounded to nearest even */
    KERNEL_KV_F32 = 2, /* unquantized, for numeric checks; the reference at every level */
} kernel_kv_type;
enum { KERNEL_KV_TYPE_END = 3 };

/* "f16" -> KERNEL_KV_F16; false when unknown. */
bool kernel_kv_of_name(const char *name, kernel_kv_type *out);
const char *kernel_kv_name(kernel_kv_type type);
/* What serves heads that are so wide: 8 bits, beyond 128 channels F16 (docs/decisions/0111). */
kernel_kv_type kernel_kv_default(uint32_t head_dim);
/* Bytes of a page's keys, and of its values. */
size_t kernel_kv_bytes(kernel_kv_type type, uint32_t head_dim);
/* Bytes of a query row as kernel_attend_fn wants it: a multiple of 4. */
size_t kernel_query_bytes(kernel_kv_type type, uint32_t head_dim);

/* Tokens [0, KERNEL_PAGE) of one KV head, in the kernel's kernel_kv_type.  Floats: keys as
 * [head_dim][KERNEL_PAGE] (lanes are tokens), values as [KERNEL_PAGE][head_dim] (lanes are
 * channels).  8 bits: kv_i8_page, aligned to 64 bytes. */
typedef struct {
    const void *keys, *values;
} kernel_kv_page;

/* Write token slot of a page: k, v are [head_dim] floats.  Touches nothing of other slots.
 * values NULL: the keys alone; v is not read. */
typedef void kernel_kv_write_fn(void *restrict keys, void *restrict values, uint32_t slot,
                                const float *restrict k, const float *restrict v,
                                uint32_t head_dim);

/* values = those of a page whose values are its keys, the same bits as if they had been written as
 * values: whole pages, aligned as pages are; what no token wrote may be anything. */
typedef void kernel_kv_values_fn(void *restrict values, const void *restrict keys,
                                 uint32_t head_dim);

/* Running softmax of one query row: out = sum of weights * values, relative to max. */
typedef struct {
    float max; /* -INFINITY before anything was seen */
    float sum;
} kernel_softmax_state;

/* query [kernel_query_bytes()] = q [head_dim], already scaled by 1/sqrt(head_dim), as the type's
 * kernel_attend_fn wants it; the same bytes at every level. */
typedef void kernel_attend_query_fn(void *restrict query, const float *restrict q,
                                    uint32_t head_dim);

/* Take pages, one after the other, into the running softmax of n_q query rows that share them.
 *   state, out: [n_q], [n_q][head_dim], updated; out is zero before anything was seen
 *   queries:    [n_q][kernel_query_bytes()], of kernel_attend_query_fn, aligned to 4
 *   pages:      [n_pages] that follow each other
 *   first, end: [n_q] tokens [first, end) that a row may see, counted from the first page's first;
 *               none when first >= end
 * For a row and a page with something to see, of types of floats:
 * s[j] = sum over d in order of fma(q[d], k[d][j], s), from 0;
 * m = max(state.max, max s[j] in the range) + 0, which makes -0 a 0;
 * c = exp(state.max - m) (0 when it was -INFINITY);
 * p[j] = exp(s[j] - m) in the range, else 0; sum = sum * c + sum16(p) (multiply, then add);
 * out[d] = out[d] * c, then fma(p[j], v[j][d], out[d]) for j in the range, in order.
 * Of 8 bits: t[j] = (float)dot(q, k[j]) * k.scale[j]; m = max(state.max, max t[j] * q.scale) + 0;
 * p[j] = exp(fma(t[j], q.scale, -m)); c and sum as above; w[j] = p[j] * v.scale[j];
 * top = max of w[2i] + w[2i + 1] (0 where not seen); u[j] = w[j] * (254 / top) to nearest even;
 * out[d] = fma((float)(sum over j of u[j] * v[j][d]), top / 254, out[d] * c).
 * Slots outside the range may hold anything, NaN too: they never reach the result. */
typedef void kernel_attend_fn(kernel_softmax_state *restrict state, float *restrict out,
                              const void *restrict queries, const kernel_kv_page *restrict pages,
                              uint32_t n_pages, const uint32_t *restrict first,
                              const uint32_t *restrict end, uint32_t n_q, uint32_t head_dim);

/* Part of page p of a run that [first, end) covers; nothing where first >= end. */
typedef struct {
    uint32_t first, end;
} kernel_span;
static inline kernel_span kernel_page_span(uint32_t first, uint32_t end, uint32_t p)
{
    const uint32_t at = p * KERNEL_PAGE;
    first = first > at ? first - at : 0;
    end = end > at ? end - at : 0;
    return (kernel_span){first, end < KERNEL_PAGE ? end : KERNEL_PAGE};
}

/* Join the softmax of a later chunk (from, from_out) to state, out [head_dim]:
 * m = max of both, + 0; out = fma(from_out, e^(from.max - m), out * e^(state.max - m)), sum alike.
 * As above, the weight of a state that has seen nothing is 0; such a from changes nothing. */
typedef void kernel_attend_join_fn(kernel_softmax_state *restrict state, float *restrict out,
                                   const kernel_softmax_state *restrict from,
                                   const float *restrict from_out, uint32_t head_dim);

/* Make of out [head_dim], already divided by its sum, what attention gives: where keys and values
 * were turned before they were rounded, turn back. */
typedef void kernel_attend_result_fn(float *out, uint32_t head_dim);

/* ---- the table ---- */

typedef struct {
    const char *name; /* of the level */
    kernel_matmul_fn *matmul[BLOCK_TYPE_END]; /* by block_type; NULL where there is none */
    kernel_quantize_fn *quantize[KERNEL_ACTS_END]; /* by kernel_acts */
    kernel_rms_norm_fn *rms_norm;
    kernel_layer_norm_fn *layer_norm;
    kernel_add_fn *add;
    kernel_add_scaled_fn *add_scaled;
    kernel_rope_fn *rope_adjacent;
    kernel_rope_fn *rope_split;
    kernel_activation_fn *silu_gated;
    kernel_activation_fn *gelu_tanh;
    kernel_activation_fn *gelu_gated;
    kernel_activation_fn *swiglu_clamped;
    kernel_softmax_fn *softmax;
    kernel_activation_fn *sigmoid_gated;
    kernel_conv_fn *conv;
    kernel_delta_fn *delta;
    kernel_delta_fn *scan;
    kernel_delta_again_fn *delta_again;
    kernel_kv_write_fn *kv_write[KERNEL_KV_TYPE_END]; /* by kernel_kv_type */
    kernel_kv_values_fn *kv_values[KERNEL_KV_TYPE_END];
    kernel_attend_query_fn *attend_query[KERNEL_KV_TYPE_END];
    kernel_attend_fn *attend[KERNEL_KV_TYPE_END];
    kernel_attend_join_fn *attend_join;
    kernel_attend_result_fn *attend_result[KERNEL_KV_TYPE_END]; /* NULL: out is it already */
} kernel_table;

/* Levels, each above the one before on its kind of processor; REF is below all. */
typedef enum {
    KERNEL_CPU_REF = 0,
    KERNEL_CPU_AVX2 = 1,       /* x86-64: AVX2, FMA, F16C */
    KERNEL_CPU_AVX512VNNI = 2, /* and AVX-512 F, BW, VL, DQ, VNNI */
    KERNEL_CPU_AMX = 3,        /* and AMX with tiles of 8 bits */
    KERNEL_CPU_NEON = 4,       /* 64-bit Arm: always */
    KERNEL_CPU_NEONDOT = 5,    /* and dot products of 8 bits (Armv8.2) */
} kernel_cpu;
enum { KERNEL_CPU_END = 6 };

/* The best level that processor and system support.  On x86-64 CPUID and XGETBV report it; with
 * AMX, it requests its registers from the system, for the whole process (asking twice is harmless,
 * and costs nothing until a thread uses them). */
kernel_cpu kernel_cpu_detect(void);
/* True for that level and all below it. */
bool kernel_cpu_has(kernel_cpu cpu);
/* "avx2" -> KERNEL_CPU_AVX2; false when unknown. */
bool kernel_cpu_of_name(const char *name, kernel_cpu *out);
const char *kernel_cpu_name(kernel_cpu cpu);

/* How AVX-512 kernels read panels for few tokens, because of how a processor reads memory. */
typedef enum {
    KERNEL_PANELS_APART = 0,   /* several at once: several streams are faster than one */
    KERNEL_PANELS_IN_LINE = 1, /* one after the other: AMD, Zen 4 */
    KERNEL_PANELS_AHEAD = 2,   /* the same, and one token asks for what comes: AMD, from Zen 5 on */
} kernel_panel_order;

/* Of this processor. */
kernel_panel_order kernel_panel_order_detect(void);

/* cpu: one that kernel_cpu_has().  Where a level has more than one kernel for a matmul, the first
 * call measures which is faster from how many tokens on: half a millisecond, once per process. */
void kernel_table_init(kernel_table *table, kernel_cpu cpu);

/* Set this thread's rounding to nearest, denormals kept, exceptions masked. */
void kernel_float_setup(void);

/* exp, sin and cos in the token path: the same bits everywhere.  exp clamps its argument to
 * [-87.3, 88.7] and is right to 1 ulp; sin and cos reduce theirs in double and are right to
 * 0.51 ulp for |x| < 2^40. */
float kernel_exp_ref(float x);
void kernel_sincos_ref(double x, float *sine, float *cosine);
/* ln(1 + e^x) from that exp, right to 2 ulp; and 1 / (1 + e^-x). */
float kernel_softplus_ref(float x);
float kernel_sigmoid_ref(float x);
/* e^x of a state, 0 below 2^-64: products with less would be no normal numbers, which cost much. */
float kernel_decay_ref(float x);

#endif
