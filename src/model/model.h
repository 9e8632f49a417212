/* model.h - a model file lowered to a step program, its weights repacked into panels.
 *
 * Opening has two halves, so that the caller can spread the second over its threads: model_open()
 * validates everything; then model_set_panels() gives memory that model_repack() fills, or a
 * mapping that contains them already (panel_file.h).  Immutable afterwards. */
#ifndef MODEL_MODEL_H
#define MODEL_MODEL_H

#include "model/panel_header.h"
#include "model/program.h"

/* ---- limits: the most that a broken or hostile input can take ---- */

/* Smaller heads than this stay in the caches, where reading less of them gains little. */
#define MODEL_SCREEN_BYTES_MIN ((size_t)8 << 20)

typedef struct model model;

enum { MODEL_MARKOV_MAX = 1024 }; /* numbers of a row of model_markov.before */

/* What the token before adds to the logits of a token, in a DSpark drafter: adds times its row of
 * before.  Both NULL: nothing. */
typedef struct {
    const model_matrix *before, *adds; /* [tokens of the model][rank], [shape.n_vocab][rank] */
} model_markov;

/* The form of the output head. */
typedef enum {
    MODEL_HEAD_AUTO = 0,   /* as SEARCH for large heads, as FULL for small ones */
    MODEL_HEAD_FULL = 1,   /* as in the file, all of it read for every token */
    MODEL_HEAD_SEARCH = 2, /* with a screen, if its type is wide enough to profit */
    MODEL_HEAD_TYPE = 3,   /* in a narrower type: other logits */
} model_head;

typedef struct {
    model_head head;
    block_type head_type; /* TYPE: narrower than the file's, or the same */
    bool exact;           /* all weights as floats, so that activations are floats, too */
    bool mtp;             /* the head for a token further on, too, if the file has one */
    const step_program *of; /* the file may be a drafter made for the model of
                             this program, which lends matrices that the file lacks, and is closed
                             later; or NULL */
} model_options;

/* Borrows file until closed; options may be NULL: FULL.  CERIUM_ERR_FORMAT names the tensor or key
 * that is missing, of the wrong shape or of a type without kernels, or the reason why the head
 * cannot have the wanted type. */
CERIUM_CHECKED int model_open(model **out, const gguf_file *file, const model_options *options,
                              cerium_error *err);
void model_close(model **m);

const step_program *model_program(const model *m);
/* The program of its MTP head, which reads the same weights: from a token and the state of the one
 * before it, after the last norm, it computes the logits of the next.  NULL: the file has none that
 * can run, or it was not wanted. */
const step_program *model_mtp(const model *m);
/* Why there is none, if the file has a part of it: "tensor T is missing", or that such blocks are
 * not run.  Or NULL. */
const char *model_mtp_lacks(const model *m);
/* Whether weights are of a type (PQ2_0) that is made for turned inputs, and the file has no keys
 * that say how: such files talk nonsense. */
bool model_is_unturned(const model *m);
/* Of a drafter made for one model: the layers of it whose inputs it reads, [shape.n_taps]; one that
 * is shape.n_layers of that model is after the last. */
const uint32_t *model_taps(const model *m);
/* The model's token of each logit, [shape.n_vocab]; NULL: they have the same numbers. */
const int32_t *model_said_tokens(const model *m);
/* Of a drafter of blocks. */
const model_markov *model_markov_of(const model *m);
/* The step whose input is that of a layer; layer n_layers: the head. */
uint32_t model_layer_begins(const step_program *p, uint32_t layer);
/* Is the file a drafter made for one model, an EAGLE-3 head or a DFlash drafter? */
bool model_is_drafter(const gguf_file *file);
const char *model_architecture(const model *m);
uint64_t model_n_parameters(const model *m);
uint64_t model_weights_bytes(const model *m); /* panels and vectors */
uint64_t model_step_bytes(const model *m);    /* weight bytes read for one token */
block_type model_main_type(const model *m);   /* the type of most of the parameters */

/* The identity of this model's panels by this build, and their size. */
panel_key model_panel_key(const model *m);
/* Take panels [model_panel_key().bytes], made by memory_map() or memory_map_file(), in place of the
 * old ones, which are released; NULL: none. */
void model_set_panels(model *m, uint8_t *panels);

/* The panels in the order of the file, cut into work items of a few hundred kilobytes. */
uint32_t model_n_repack_items(const model *m);
/* Repack one item, then release the file's pages.  Items are independent.  CERIUM_ERR_MEMORY: no
 * memory for a panel of a matrix of another type; CERIUM_ERR_FORMAT: a weight is not a number. */
CERIUM_CHECKED int model_repack(const model *m, uint32_t item);
/* The name of the item's tensor. */
view model_repack_tensor(const model *m, uint32_t item);

#endif
