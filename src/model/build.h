/* build.h - what the architecture files share: reading keys, naming weights, appending steps.
 *
 * A builder remembers its first error: the calls after it do nothing and return NULL or 0, so that
 * an architecture file reads as the list of what it takes, and checks once at the end. */
#ifndef MODEL_BUILD_H
#define MODEL_BUILD_H

#include "base/memory.h"
#include "model/model.h"
#include "model/program.h"

enum { MODEL_LAYERS_MAX = 512, MODEL_LAYER_OPS_MAX = 8, MODEL_LAYER_MATRICES_MAX = 12 };

typedef struct {
    const gguf_file *file;
    const char *arch;     /* general.architecture: the prefix of its keys */
    step_program program;
    step_op *ops;         /* [ops_cap] */
    uint32_t ops_cap;
    model_matrix *matrices; /* [matrices_cap]: addresses stay */
    uint32_t n_matrices, matrices_cap;
    arena vectors;          /* norms, biases, frequencies as floats */
    const model_options *options;
    int status;
    cerium_error *err;
} builder;

/* Keys "<arch>.<name>". The first two fail when the key is absent or out of [low, high]. */
uint32_t build_u32(builder *b, const char *name, uint32_t low, uint32_t high);
float build_f32(builder *b, const char *name);
uint32_t build_u32_or(builder *b, const char *name, uint32_t low, uint32_t high,
                      uint32_t otherwise);
float build_f32_or(builder *b, const char *name, float otherwise);

/* Weights: name is a format that takes the layer number ("blk.%u.attn_q.weight"). */
const model_matrix *build_matrix(builder *b, const char *name, uint32_t layer, uint32_t rows,
                                 uint32_t cols);
/* n_matrices experts; rows [row, row + rows) of source_rows in each. */
const model_matrix *build_experts(builder *b, const char *name, uint32_t layer,
                                  uint32_t n_matrices, uint32_t rows, uint32_t cols,
                                  uint32_t row, uint32_t source_rows);
/* Floats [n]; the second returns NULL when the file has no such tensor. */
const float *build_vector(builder *b, const char *name, uint32_t layer, uint64_t n);
const float *build_vector_optional(builder *b, const char *name, uint32_t layer, uint64_t n);
bool build_has(const builder *b, const char *name, uint32_t layer);

step_op *build_op(builder *b, step_kind kind);
int build_fail(builder *b, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* The keys that all transformers share, into b->program.shape: layers, widths, heads, context,
 * epsilon, attention scale. */
void build_shape(builder *b, step_norm_kind norm);
/* RoPE frequencies from the keys: base, dimensions, linear and YaRN scaling, rope_freqs.weight.
 * yarn_exact: keep YaRN's correction range as it is instead of rounding it outwards. */
void build_rope(builder *b, step_rope kind, bool yarn_exact);

/* The steps that most architectures share, each taking the usual names of its weights. */
void build_embed(builder *b);
/* Biases and head norms are taken where the file has them. */
void build_attention(builder *b, uint32_t layer, uint32_t window);
void build_ffn(builder *b, uint32_t layer, const char *norm_name);
void build_experts_ffn(builder *b, uint32_t layer, const char *norm_name);
void build_head(builder *b);
/* derive.c: what the options want of the head; then its panels [first, end) from the tensor's rows.
 * The second: CERIUM_ERR_MEMORY. */
void build_head_options(builder *b, step_op *op, bool is_tied);
CERIUM_CHECKED int model_derive_panels(const model_matrix *w, const uint8_t *rows,
                                       uint32_t matrix, uint32_t first, uint32_t end);

/* One of these for each architecture, in a file of its own. */
void build_llama(builder *b);
void build_qwen2(builder *b);
void build_qwen3(builder *b);
void build_qwen3moe(builder *b);
void build_gpt_oss(builder *b);
void build_starcoder2(builder *b);

#endif
