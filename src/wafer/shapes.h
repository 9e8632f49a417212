/* shapes.h - the step program of a model whose weights need not be here.
 *
 * From a GGUF file: lowered like in the engine; the weights are not read, and may be missing.  From
 * the facts of a Hugging Face config.json, or of a section of machines/models.ini: a GGUF file
 * without data is made in memory and lowered by the same code, so that the wafer runs the same list
 * as the CPU. */
#ifndef WAFER_SHAPES_H
#define WAFER_SHAPES_H

#include "model/model.h"

/* ---- limits: the most that a broken or hostile input can take ---- */

#define WAFER_CONFIG_BYTES_MAX  (1u << 20)   /* a config.json; known: 40 KB */
#define WAFER_HEAD_BYTES_MAX   (256u << 20) /* of a model file without its weights */

/* A decoder's data from a config.  Counts as in step_shape; 0: the architecture has none. */
typedef struct {
    char architecture[16]; /* of the GGUF file: llama, qwen3moe, gpt-oss, ... */
    uint32_t n_layers, n_embd, n_ff, n_heads, n_kv_heads, head_dim, n_vocab, context_tokens;
    uint32_t n_experts, n_experts_used, n_ff_expert;
    uint32_t window;
    bool is_tied; /* the head is the embedding */
} shape_facts;

typedef struct {
    gguf_file *file;
    model *lowered;
    void *blank; /* [blank_bytes] the generated file, or one without its weights; or NULL */
    size_t blank_bytes;
    bool has_types; /* of matrices: it comes from a model file */
    const step_program *program;
    char name[128];
} wafer_model;

/* Pure; CERIUM_ERR_FORMAT names the missing, impossible or unsupported key. */
CERIUM_CHECKED int shape_parse_config(shape_facts *out, view json, const char *file,
                                      cerium_error *err);
/* A section of models.ini, found by any of its names; letter case, blanks and - _ . do not matter.
 * CERIUM_ERR_ARGUMENT: there is none of that name. */
CERIUM_CHECKED int shape_parse_known(shape_facts *out, view ini, const char *file, const char *name,
                                     cerium_error *err);
/* The same from the installed file of models. */
CERIUM_CHECKED int shape_of_name(shape_facts *out, const char *name, cerium_error *err);

/* Lower the facts; name is for messages. */
CERIUM_CHECKED int wafer_model_of(wafer_model *out, const shape_facts *facts, const char *name,
                                  cerium_error *err);
/* A .gguf, a config.json or a folder that has one, or a name of models.ini. */
CERIUM_CHECKED int wafer_model_open(wafer_model *out, const char *path, cerium_error *err);
void wafer_model_close(wafer_model *m);

#endif
