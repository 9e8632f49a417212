/* convert.h - converts a Hugging Face model, a folder of safetensors and JSON, to one GGUF file.
 *
 * Weights keep their type (block-scaled FP8 becomes BF16, MXFP4 and NVFP4 stay) unless the caller
 * names another.  Names, permutations and keys are those of llama.cpp's converter. */
#ifndef CONVERT_CONVERT_H
#define CONVERT_CONVERT_H

#include "gguf/blocks.h"
#include "gguf/safetensors.h"
#include "gguf/write.h"

/* ---- limits: the most that a broken or hostile input can take ---- */

#define CONVERT_TEXT_BYTES_MAX (256u << 20) /* one JSON file; known: 30 MB */

/* ---- config.json ---- */

typedef enum {
    CONVERT_LLAMA = 0,
    CONVERT_QWEN2 = 1,
    CONVERT_QWEN3 = 2,
    CONVERT_QWEN3MOE = 3,
    CONVERT_GPT_OSS = 4,
    CONVERT_STARCODER2 = 5,
    CONVERT_MISTRAL3 = 6,
    CONVERT_SMOLLM3 = 7,
    CONVERT_SEED_OSS = 8,
    CONVERT_GRANITE = 9,
    CONVERT_GRANITEMOE = 10,
    CONVERT_GEMMA3 = 11,
    CONVERT_MELLUM = 12,
    CONVERT_GLM4MOE = 13,
    CONVERT_MINIMAX_M2 = 14,
    CONVERT_QWEN35 = 15,
    CONVERT_QWEN35MOE = 16,
    CONVERT_QWEN3NEXT = 17,
    CONVERT_GEMMA4 = 18,
    CONVERT_LAGUNA = 19,
    CONVERT_DEEPSEEK2 = 20,
    CONVERT_GRANITEHYBRID = 21,
    CONVERT_NEMOTRON_H = 22,
    CONVERT_NEMOTRON_H_MOE = 23,
    CONVERT_EAGLE3 = 24, /* drafters: */
    CONVERT_DFLASH = 25, /* and DSpark */
    CONVERT_MISTRAL4 = 26,
} convert_arch;

typedef enum {
    ROPE_NONE = 0,
    ROPE_LINEAR = 1,
    ROPE_YARN = 2,
    ROPE_LLAMA3 = 3, /* a divisor for each frequency, in a tensor */
    ROPE_PROPORTIONAL = 4, /* the same: the first part turns, the rest stays */
} convert_rope;

enum { CONVERT_ENDS_MAX = 32, CONVERT_LAYERS_MAX = 512, CONVERT_READ_MAX = 16 };

/* What a drafter has beside its layers.  It was made for one model. */
typedef struct {
    uint32_t layers[CONVERT_READ_MAX], n_layers; /* of that model: it reads their inputs */
    uint32_t n_embd;    /* of that model */
    uint32_t n_said;    /* tokens that it says; n_vocab: all */
    uint32_t n_block;   /* DFlash: most rows of a block */
    uint32_t mask;      /* its token in a block */
    uint32_t n_markov;  /* DSpark: width of the matrices for the token before */
    bool norms_input, norms_each, norms_residual, norms_output; /* EAGLE-3 */
    bool is_causal, is_dspark, says_first;
    bool has_causal;    /* the configuration says is_causal */
    bool has_confidence, has_sections; /* a head that says how sure it is; of the rotation */
} convert_drafter;

typedef struct {
    convert_arch arch;
    uint32_t n_layers, n_embd, n_ff, n_heads, n_kv_heads, head_dim, context, n_vocab;
    uint32_t n_experts, n_experts_used, n_ff_expert, window; /* 0: none */
    uint32_t layer_heads[CONVERT_LAYERS_MAX], layer_kv_heads[CONVERT_LAYERS_MAX];
    uint32_t layer_dim[CONVERT_LAYERS_MAX];  /* of a head */
    uint32_t global_dim;                     /* if it differs: of layers that see everything */
    uint32_t n_shared_kv;                    /* number of last layers without keys and values */
    uint32_t n_layer_input;                  /* width of an input for each layer */
    uint32_t n_gates;                        /* of attention, for each head; 0: none */
    bool is_double_wide;                     /* the feed-forward of layers that share */
    double turning;                          /* ROPE_PROPORTIONAL: part of a head that turns */
    uint32_t n_rot;                          /* channels of a head that turn */
    uint32_t n_plain, n_value;               /* of latents: channels that do not turn, values */
    uint32_t n_latent, n_low;                /* of the latent; of the input of queries; 0 */
    bool has_sigmoid;                        /* experts are chosen by it, and by a bias */
    bool is_windowed[CONVERT_LAYERS_MAX];    /* if layers differ in it */
    double rope_base_windowed;               /* of those; 0: as the others */
    bool is_recurrent[CONVERT_LAYERS_MAX];   /* layers with a state; and of those: */
    uint32_t n_taps, key_dim, value_dim, n_key_heads, n_value_heads;
    uint32_t layer_ff[CONVERT_LAYERS_MAX];   /* of layers with one part: 0, or a feed-forward's */
    bool has_experts[CONVERT_LAYERS_MAX];    /* width, which may be that of experts */
    uint32_t layer_used[CONVERT_LAYERS_MAX]; /* experts of a row, if layers differ in that and in */
    bool has_blocks;                         /* their width */
    uint32_t sections[3];                    /* of the rotation; 0: none are named */
    bool is_still;                           /* queries and keys do not turn */
    uint32_t n_ff_shared, n_shared;          /* experts used by every row: width of all */
    uint32_t n_expert_latent;                /* width of what chosen experts read; 0: n_embd */
    uint32_t n_dense;                        /* first layers without experts */
    uint32_t n_groups, n_groups_used;        /* of experts */
    bool weights_sum_to_one;                 /* of experts */
    double expert_scale;                     /* of their weights */
    uint32_t n_ahead;                        /* blocks after the last, for tokens further on */
    bool has_mtp;                            /* there is one, and it is converted:
                                                convert_find_mtp() */
    double embedding_scale, residual_scale, logit_scale, attention_scale; /* 0: none */
    double logit_cap, query_growth, yarn_log_multiplier;                  /* 0: none */
    bool names_head_dim; /* the configuration does, so the file does */
    bool is_tied;        /* the embedding is the output head */
    double norm_eps, rope_base;
    convert_rope rope;
    double rope_factor, low_factor, high_factor, beta_fast, beta_slow, yarn_attention;
    bool has_betas, has_yarn_attention;
    uint32_t rope_original;
    uint32_t fp8_rows, fp8_columns; /* of a block with one scale; 0: no FP8 */
    int64_t bos, eos;               /* -1: not named */
    int32_t ends[CONVERT_ENDS_MAX]; /* all ids that end a generation, if there are several */
    uint32_t n_ends;
    convert_drafter drafter;
} convert_config;

static inline bool convert_is_drafter(const convert_config *c)
{
    return c->arch == CONVERT_EAGLE3 || c->arch == CONVERT_DFLASH;
}

/* CERIUM_ERR_FORMAT names the missing key, or the unsupported feature. */
CERIUM_CHECKED int convert_config_parse(convert_config *out, view json, cerium_error *err);
/* Ids that generation_config.json adds to those that end a generation. CERIUM_ERR_FORMAT. */
CERIUM_CHECKED int convert_config_ends(convert_config *c, view json, cerium_error *err);
void convert_config_write(const convert_config *c, view name, gguf_writer *w);
/* Divisors of frequencies for ROPE_LLAMA3 [head_dim / 2], ROPE_PROPORTIONAL [global_dim / 2]. */
void convert_rope_divisors(const convert_config *c, float *out);

/* ---- tokenizer.json, tokenizer_config.json, chat_template.jinja ---- */

typedef struct convert_vocabulary convert_vocabulary;

/* config: "": there is none; pre: the name of the pre-tokenizer, NULL: detected. n_tokens: rows of
 * the embedding; rows without a token get placeholder names. CERIUM_ERR_FORMAT or
 * CERIUM_ERR_MEMORY. */
CERIUM_CHECKED int convert_vocabulary_parse(convert_vocabulary **out, view tokenizer, view config,
                                            const char *pre, uint32_t n_tokens, cerium_error *err);
void convert_vocabulary_free(convert_vocabulary **v);
/* A line for the at-th (0, 1, ...) of what the file does not keep; NULL: no more. */
const char *convert_vocabulary_left_out(const convert_vocabulary *v, size_t at);
/* bos, eos: from config.json, if tokenizer_config.json names none; -1: not named there either.
 * chat: the template if it is a separate file, else empty.  lists_merges: for a vocabulary with
 * byte fallback, also keep the list of merges (Gemma 4). */
void convert_vocabulary_write(const convert_vocabulary *v, int64_t bos, int64_t eos, view chat,
                              bool lists_merges, gguf_writer *w);

/* ---- tensors ---- */

/* The derivation of a tensor's rows from the source's. */
typedef enum {
    ROWS_PLAIN = 0,
    ROWS_PERMUTED = 1, /* llama's Q and K: halves of a head become pairs */
    ROWS_EXPERTS = 2,  /* a source for each expert */
    ROWS_STRIDED = 3,  /* value c of a row is c * step + offset of the source's */
    ROWS_COLUMNS = 4,  /* row r is column r * step + offset of the source's matrix, or of its first
                          rows, if it has n_rows; a matrix of two dimensions has no other columns */
    ROWS_MXFP4 = 5,    /* packed as in gpt-oss; row r is r * step + offset of the source's */
    ROWS_DIVISORS = 6, /* of rope frequencies: no source */
    ROWS_FACTORS = 10, /* of a matrix in NVFP4, or of one for each expert: one row */
    ROWS_TOKENS = 11,  /* one row of numbers: value i is that of the source, plus i */
    ROWS_HEADS = 8,    /* heads of a state, in another order: convert_states.h */
    ROWS_HEADS_COLUMNS = 9, /* the same of columns */
    ROWS_PART = 7,     /* row r is r / rows * step + offset + r % rows of the source's */
} row_source;

typedef struct {
    char name[64];
    row_source rows;
    block_type type;
    uint32_t n_dims;
    uint64_t dims[4];         /* GGUF's: fastest first */
    const safetensor *from;   /* or of the first expert */
    const safetensor *scales; /* MXFP4 */
    uint32_t n_heads, step, offset, n_rows;
    char expert_format[96];   /* EXPERTS: takes the number */
    float more;               /* added to each value */
    bool is_decay;            /* x becomes -e^x */
} convert_tensor;

/* Whether the model has one block after its layers for the token after the next (MTP), of a kind
 * that drafts: into c->has_mtp. */
void convert_find_mtp(convert_config *c, const safetensors *set);
/* All of them in the order of the file.  Returns owned, [*n], released with memory_free(). */
CERIUM_CHECKED int convert_plan(convert_tensor **out, size_t *n, const convert_config *c,
                                const safetensors *set, const block_type *type, cerium_error *err);
/* What a plan [n] leaves out: blocks after the layers, for tokens further on, and tensors of other
 * parts of the model (a vision tower). */
typedef struct {
    uint32_t n_blocks;
    size_t n_tensors;  /* beside those of the blocks */
    const char *first; /* of them */
} convert_left_out;
convert_left_out convert_find_left_out(const convert_config *c, const safetensors *set,
                                       convert_tensor *plan, size_t n);
/* Rows [first, first + n_rows) of t into out, in the file's format; values: [2 * dims[0]] scratch.
 * CERIUM_ERR_FORMAT: a source is missing or has values that are not finite. */
CERIUM_CHECKED int convert_rows(const convert_tensor *t, const convert_config *c,
                                const safetensors *set, uint64_t first, uint64_t n_rows,
                                uint8_t *out, float *values, cerium_error *err);

/* ---- drafters: convert_drafters.c, convert_target.c ---- */

/* The model that a drafter was made for. */
typedef struct {
    uint32_t n_layers, n_embd;
    bool is_gemma, is_gemma4; /* its embeddings are multiplied by a number */
    bool has_sections;  /* of the rotation */
    gguf_file *file;    /* owned, for its tokenizer; NULL: it is a folder */
} convert_target;

/* path is a GGUF file, or a folder with config.json.  CERIUM_ERR_IO, CERIUM_ERR_FORMAT. */
CERIUM_CHECKED int convert_target_open(convert_target *out, const char *path, cerium_error *err);
/* Copies its tokenizer, if it is a file. */
void convert_target_write(const convert_target *t, gguf_writer *w);
void convert_target_close(convert_target *t);
/* Completes what a drafter's config.json leaves open, by its weights and, if it is not NULL, by its
 * model.  CERIUM_ERR_FORMAT: it is of another model, or does not say enough. */
CERIUM_CHECKED int convert_complete_drafter(convert_config *c, const safetensors *set,
                                            const convert_target *target, cerium_error *err);
/* As convert_plan(). */
CERIUM_CHECKED int convert_plan_drafter(convert_tensor **out, size_t *n, const convert_config *c,
                                        const safetensors *set, const block_type *type,
                                        cerium_error *err);

/* ---- all ---- */

typedef struct {
    const char *folder, *out;
    const char *target;     /* the model that a drafter is for: a folder or a GGUF file; or NULL */
    const block_type *type; /* of matrices; NULL: keep each type */
    const char *pre;        /* or NULL */
    void (*progress)(size_t done, size_t n, const char *name); /* or NULL */
    void (*notice)(const char *line); /* or NULL: what the file does not keep */
} convert_options;

CERIUM_CHECKED int convert_model(const convert_options *options, cerium_error *err);

#endif
