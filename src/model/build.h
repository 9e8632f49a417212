/* build.h - shared by the architecture files: reading keys, naming weights, appending steps.
 *
 * A builder remembers its first error: later calls do nothing and return NULL or 0, so that an
 * architecture file reads as a list of its keys and weights, and checks once at the end. */
#ifndef MODEL_BUILD_H
#define MODEL_BUILD_H

#include "base/memory.h"
#include "model/model.h"
#include "model/program.h"

enum { MODEL_LAYERS_MAX = 512, MODEL_LAYER_OPS_MAX = 11, MODEL_LAYER_MATRICES_MAX = 13,
       MODEL_TAPS_MAX = 8 };

typedef struct {
    const gguf_file *file;
    const char *arch;     /* general.architecture: the prefix of its keys */
    step_program program; /* of the model, or while it is built, of */
    step_program mtp;     /* its MTP head: without ops if there is none */
    step_op *ops;         /* [ops_cap] of both, one after the other */
    uint32_t ops_cap;
    model_matrix *matrices; /* [matrices_cap]: addresses stay */
    uint32_t n_matrices, matrices_cap;
    arena vectors;          /* norms, biases, frequencies as floats */
    bool varies;            /* differing values of arrays by layer; the shape has the greatest */
    uint32_t n_heads, n_kv_heads, head_dim, n_ff; /* of the next layer: the shape's, or set by the
                                                     family's file */
    uint32_t n_ff_expert, n_experts_used;         /* likewise */
    const gguf_tensor *table; /* whose rows are read from the file; or NULL */
    float attention_scale;
    bool is_latent;         /* keys and values are made from one row, and may differ in width */
    bool is_row_norm;       /* norms of Q and K are over all heads of a row */
    const float *l2[2];     /* of CONV: head_norm; NULL before the first */
    uint32_t n_mtp;         /* blocks after the last layer, for tokens further on */
    bool in_mtp;            /* b->program is the MTP head's, without which the model runs, too */
    uint32_t n_before_mtp;  /* matrices */
    char mtp_lacks[160];    /* why it cannot run: the first of its tensors that is missing, or that
                               nothing runs such blocks; "": it can, or there is none */
    uint32_t qkv_cols;      /* of the matrices of Q, K and V; 0: n_embd */
    uint32_t taps[MODEL_TAPS_MAX]; /* of a head in a file of its own, and */
    const int32_t *said;    /* [n_vocab] the model's tokens of its logits; or NULL */
    model_markov markov;
    uint32_t n_ff_shared;   /* of an expert used by every row, beside the chosen ones; 0: none */
    bool is_unturned;       /* weights in PQ2_0 without keys that say how they were turned */
    bool has_own_scales;    /* of experts and their router, by the names that factors have */
    bool is_v_optional;     /* without attn_v, values are keys before their norm */
    bool is_shared_gated;   /* its output is times a gate of its own */
    uint32_t n_expert_latent; /* width of what the chosen experts read and write; 0: n_embd */
    const model_options *options;
    int status;
    cerium_error *err;
} builder;

/* Keys "<arch>.<name>".  The first two fail if the key is absent or out of [low, high]. */
uint32_t build_u32(builder *b, const char *name, uint32_t low, uint32_t high);
float build_f32(builder *b, const char *name);
uint32_t build_u32_or(builder *b, const char *name, uint32_t low, uint32_t high,
                      uint32_t otherwise);
float build_f32_or(builder *b, const char *name, float otherwise);
/* A key that is a number, or one for each layer. */
uint32_t build_u32_of_layer(builder *b, const char *name, uint32_t layer, uint32_t low,
                            uint32_t high, uint32_t otherwise);
float build_f32_of_layer(builder *b, const char *name, uint32_t layer, float otherwise);
bool build_bool_or(builder *b, const char *name, bool otherwise);
/* A factor above 0 that may be missing: 1. */
float build_scale(builder *b, const char *name);

/* Weights: name is a format that takes the layer number ("blk.%u.attn_q.weight"). */
const model_matrix *build_matrix(builder *b, const char *name, uint32_t layer, uint32_t rows,
                                 uint32_t cols);
/* n_matrices experts; rows [row, row + rows) of source_rows in each. */
const model_matrix *build_experts(builder *b, const char *name, uint32_t layer,
                                  uint32_t n_matrices, uint32_t rows, uint32_t cols,
                                  uint32_t row, uint32_t source_rows);
/* A matrix for each of n_heads, whose parts follow each other in a tensor of two dimensions.  Read
 * of of_head: its shape, source_row, source_rows and is_transposed. */
const model_matrix *build_heads_of(builder *b, const char *name, uint32_t layer, uint32_t n_heads,
                                   const model_matrix *of_head);
/* Floats [n]; the second returns NULL if the file has no such tensor. */
const float *build_vector(builder *b, const char *name, uint32_t layer, uint64_t n);
const float *build_vector_optional(builder *b, const char *name, uint32_t layer, uint64_t n);
bool build_has(const builder *b, const char *name, uint32_t layer);

step_op *build_op(builder *b, step_kind kind);
int build_fail(builder *b, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* The keys that all transformers share, into b->program.shape: layers, widths, heads, context,
 * epsilon; and the attention scale. */
void build_shape(builder *b, step_norm_kind norm);
/* The first table of RoPE frequencies from the keys: base, dimensions, linear and YaRN scaling,
 * rope_freqs.weight.  yarn_exact: keep YaRN's correction range unrounded instead of rounding it
 * outwards. */
void build_rope(builder *b, step_rope kind, bool yarn_exact);
/* A second one, for layers with a window: with the base that the file names for them, or this one,
 * never scaled. */
void build_rope_windowed(builder *b, float base);
/* qwen_vl.c: fails if positions of pictures are more than sections of the first table. */
void build_sections(builder *b);
/* The window of each layer, [n_layers]: by the file's pattern; without one, all but the last of
 * `every` layers have it; 0: all see everything. */
void build_windows(builder *b, uint32_t every, uint32_t *windows);
/* Experts: how many, their width, how they are chosen and weighed; routing: the default if no key
 * has it. */
void build_routing(builder *b, step_routing routing);

/* The steps that most architectures share, each taking the usual names of its weights. */
void build_embed(builder *b);
/* QKV, ATTEND and OUT, with the first table of RoPE; returns the first of the three, for changes.
 * Biases and head norms are taken if the file has them. */
step_op *build_attention(builder *b, uint32_t layer, uint32_t window);
/* The same without its own keys and values: it reads those of layer `of`. */
step_op *build_attention_sharing(builder *b, uint32_t layer, uint32_t window, uint32_t of);
/* QKV, ATTEND and OUT, whose q has a gate after each head. */
step_op *build_attention_gated(builder *b, uint32_t layer);
/* recurrence.c: the keys of layers with a state; CONV, with what its rates are made of. */
void build_recurrence(builder *b);
step_op *build_conv(builder *b, uint32_t layer);
/* delta_net.c, mamba2.c: LINEAR_IN, CONV, DELTA and OUT. */
void build_recurrent(builder *b, uint32_t layer);
void build_mamba2(builder *b, uint32_t layer);

/* mla.c: the keys of attention by latents; then LATENT, LATENT_Q, LATENT_QUERY, ATTEND,
 * LATENT_VALUE and OUT. */
void build_latents(builder *b);
void build_attention_latent(builder *b, uint32_t layer);

/* mtp.c: blocks after the last layer, for tokens further on (MTP), are not layers of the model. */
void build_without_mtp(builder *b);
/* After the head: if the file has one such block, and it is wanted, begins a separate program with
 * the step for its input; its block follows like any layer, with the number s->n_layers.  False:
 * there is none. */
bool build_mtp_begin(builder *b);
/* Its head; afterwards b->program is the model's again, and b->mtp this one: without steps if the
 * file lacks one of its tensors (b->mtp_lacks). */
void build_mtp_end(builder *b);

/* drafters.c: what files of drafters for one model have.  The layers of it that they read, by the
 * key's name; into b->taps and the shape. */
void build_taps(builder *b, const char *name, uint32_t least, uint32_t most);
/* How many tokens it may say, into the shape; those of d2t, or of the model. */
void build_said(builder *b, uint32_t n_model);
/* A table of the file, [rows][n_embd], or the model's. */
const model_matrix *build_table_of(builder *b, const char *name, uint32_t rows,
                                   const model_matrix *of_model);
/* HEAD, with the model's output where the file has none; returns it. */
step_op *build_head_of(builder *b, const step_op *of_model);

/* FFN_UP and FFN_DOWN; returns the first. */
step_op *build_ffn(builder *b, uint32_t layer, const char *norm_name);
/* ROUTE, the shared expert if there is one, EXPERTS_UP and EXPERTS_DOWN, of a latent between
 * EXPERTS_IN and OUT; returns EXPERTS_UP. */
step_op *build_experts_ffn(builder *b, uint32_t layer, const char *norm_name);
/* A tensor of n_vocab rows of n_cols values, of which one row a token is read from the file. */
const gguf_tensor *build_table(builder *b, const char *name, uint32_t n_cols);
/* A vector made here: n times 1. */
const float *build_ones(builder *b, uint32_t n);
/* A built vector times a factor. */
void build_times(builder *b, const float *vector, uint32_t n, float factor);
void build_head(builder *b);
/* turned.c: matrices whose inputs are turned, once all steps are there. */
void build_hadamard(builder *b);
/* derive.c: the options for the head; then its panels [first, end) from the tensor's rows, or the
 * norms of those.  Both: CERIUM_ERR_MEMORY. */
void build_head_options(builder *b, step_op *op, bool is_tied);
CERIUM_CHECKED int model_derive_panels(const model_matrix *w, const uint8_t *rows,
                                       uint32_t matrix, uint32_t first, uint32_t end);
/* Panels of a matrix that is_transposed, from its first row's blocks in the source.
 * CERIUM_ERR_FORMAT: a weight is not a number. */
CERIUM_CHECKED int model_transpose_panels(const model_matrix *w, const uint8_t *rows,
                                          uint32_t matrix, uint32_t first, uint32_t end);
CERIUM_CHECKED int model_panel_norms(const model_matrix *w, const uint8_t *rows, uint32_t first,
                                     uint32_t end);

/* One of these for each architecture, in its own file. */
void build_llama(builder *b);
void build_qwen2(builder *b);
void build_qwen3(builder *b);
void build_qwen3moe(builder *b);
void build_qwen2vl(builder *b);
void build_qwen3vl(builder *b);
void build_qwen3vlmoe(builder *b);
void build_gpt_oss(builder *b);
void build_starcoder2(builder *b);
void build_mistral3(builder *b);
void build_smollm3(builder *b);
void build_seed_oss(builder *b);
void build_granite(builder *b);
void build_gemma3(builder *b);
void build_gemma4(builder *b);
void build_laguna(builder *b);
void build_mellum(builder *b);
void build_maple(builder *b);
void build_glm4moe(builder *b);
void build_minimax_m2(builder *b);
void build_qwen35(builder *b);
void build_deepseek2(builder *b);
void build_nemotron_h(builder *b);
void build_eagle3(builder *b);
void build_dflash(builder *b);

#endif
