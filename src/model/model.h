/* model.h - a model file lowered to a step program, its weights repacked into panels.
 *
 * Opening has two halves, so that the caller can spread the second over its threads:
 * model_open() validates everything; then model_set_panels() gives memory that model_repack()
 * fills, or a mapping in which they lie already (panel_file.h).  Immutable afterwards. */
#ifndef MODEL_MODEL_H
#define MODEL_MODEL_H

#include "model/panel_header.h"
#include "model/program.h"

/* ---- limits: what a broken or hostile input can make us take ---- */

/* Smaller heads than this stay in the caches, where reading less of them gains little. */
#define MODEL_SCREEN_BYTES_MIN ((size_t)8 << 20)

typedef struct model model;

/* What becomes of the output head. */
typedef enum {
    MODEL_HEAD_AUTO = 0,   /* as SEARCH for large heads, as FULL for small ones */
    MODEL_HEAD_FULL = 1,   /* as the file has it, all of it read for every token */
    MODEL_HEAD_SEARCH = 2, /* with a screen, where its type is wide enough to profit */
    MODEL_HEAD_TYPE = 3,   /* in a narrower type: other logits */
} model_head;

typedef struct {
    model_head head;
    block_type head_type; /* TYPE: narrower than the file's, or the same */
    bool exact;           /* all weights as floats, so that activations are floats, too */
    bool mtp;             /* the head for a token further on, too, where the file has one */
} model_options;

/* Borrows file until closed; options may be NULL: FULL.  CERIUM_ERR_FORMAT names the tensor or key
 * that is missing, of the wrong shape or of a type without kernels, or says why the head cannot be
 * made of the type that is wanted. */
CERIUM_CHECKED int model_open(model **out, const gguf_file *file, const model_options *options,
                              cerium_error *err);
void model_close(model **m);

const step_program *model_program(const model *m);
/* The program of its MTP head, which reads the same weights: of a token and the state of the one
 * before it, behind the last norm, the logits of the next.  NULL: the file has none that is run, or
 * it was not wanted. */
const step_program *model_mtp(const model *m);
const char *model_architecture(const model *m);
uint64_t model_n_parameters(const model *m);
uint64_t model_weights_bytes(const model *m); /* panels and vectors */
uint64_t model_step_bytes(const model *m);    /* weight bytes read for one token */
block_type model_main_type(const model *m);   /* that holds most of the parameters */

/* What panels of this model by this build are, and how many bytes. */
panel_key model_panel_key(const model *m);
/* Take panels [model_panel_key().bytes], made by memory_map() or memory_map_file(), in place of
 * those it had, which are released; NULL: none. */
void model_set_panels(model *m, uint8_t *panels);

/* The panels in the order of the file, cut into work items of a few hundred kilobytes. */
uint32_t model_n_repack_items(const model *m);
/* Repack one item, then release the file's pages.  Items are independent.  CERIUM_ERR_MEMORY where
 * a matrix of another type is made and there is none for a panel, CERIUM_ERR_FORMAT where a weight
 * is not a number. */
CERIUM_CHECKED int model_repack(const model *m, uint32_t item);
/* The name of the tensor that the item is of. */
view model_repack_tensor(const model *m, uint32_t item);

#endif
