/* timing.h - the cost of one step: the walk over a region's operations on its clocks.
 *
 * The constants below are complete.  They belong to a style of kernels, never to a model or a mesh,
 * and each has a source; docs/wafer-validation.md has the sensitivity of the figures to each.
 */
#ifndef WAFER_TIMING_H
#define WAFER_TIMING_H

#include "wafer/clocks.h"

/* X(name, sdk, tuned, low, high, meaning and source): cycles.  low and high bound the tuned value
 * if none is published.
 *
 * sdk is WaferLLM's style (OSDI'25), tuned that of handwritten kernels.  Rows are those of the
 * calibration file: docs/wafer-validation.md has the row on which each constant was fitted. */
#define WAFER_COST_MAP(X)                                                                          \
    X(issue, 4.53, 4.53, 3, 8, "start of a vector instruction (prefill, rows 13-15, 19-21)")       \
    X(stage, 19.94, 1, 1, 4, "software at a dependent add (rows 1-6; HPDC'24 chain: 2 T_R + 2)")   \
    X(scalar, 22.83, 6, 4, 12, "one element of exp, norm, rotation (rows 1-6; tuned assumed)")     \
    X(gemm_row, 62, 10, 5, 30, "one row of a travelling tile (rows 13-15, 19-21; tuned: assumed)")

typedef struct {
#define WAFER_COST_FIELD(name, sdk, tuned, low, high, what) double name;
    WAFER_COST_MAP(WAFER_COST_FIELD)
#undef WAFER_COST_FIELD
    bool swaps_loops; /* the shorter side of a tile is the one that is issued */
    bool fuses;       /* matrices with one input share their issues */
} wafer_style;

/* Set a constant by its name; false: there is none, or the value is not in [0, 1e6]. */
bool wafer_style_set(wafer_style *style, view name, double value);

wafer_style wafer_style_sdk(void);
wafer_style wafer_style_tuned(void);

typedef enum {
    QUANT_FILE = 0, /* the types of the model file */
    QUANT_FP16 = 1,
    QUANT_FP8 = 2,
    QUANT_INT4 = 3,  /* and an fp16 scale for 32 values */
    QUANT_MXFP4 = 4, /* experts: 4 bits and a byte for 32 values; the rest fp16 */
} wafer_quant;
enum { WAFER_QUANTS = 5 };
extern const char *const wafer_quant_names[WAFER_QUANTS];

double quant_bits(wafer_quant quant, const model_matrix *w); /* a weight */

typedef struct {
    const wafer_mesh *mesh;
    wafer_style style;
    wafer_quant quant;
    wafer_choice choice;
    uint32_t context;  /* tokens in the cache */
    uint32_t tokens;   /* of this step: 1, or a draft to verify */
    uint32_t position; /* of a pass over a prompt: the number of tokens before it */
    /* Of published kernels: a loop over d / P elements where f / P would be right; scores and
     * values of a prompt as two products. */
    bool silu_of_embd, attends_by_products;
} step_cost;

enum { WAFER_LAYER_OPS_MAX = 8 };

typedef struct {
    double cycles;
    double spent[WAFER_SPENT]; /* cycles; they add up to `cycles` */
    wafer_events events;
} step_time;

/* One layer in the steady state (the clocks keep the state after the layer before), on width x
 * height. */
CERIUM_CHECKED int time_layer(step_time *out, const step_program *p, uint32_t layer, uint32_t width,
                              uint32_t height, const step_cost *cost, bool folded);
/* The same around the dead cores of cost->mesh, the region's corner being at logical (x, y). */
CERIUM_CHECKED int time_layer_dead(step_time *out, const step_program *p, uint32_t layer,
                                   uint32_t x, uint32_t y, uint32_t width, uint32_t height,
                                   const step_cost *cost);
/* The same, each operation of the layer on its own: out[n] for layer_ops()'s n, at most
 * WAFER_LAYER_OPS_MAX. */
CERIUM_CHECKED int time_layer_ops(step_time *out, const step_program *p, uint32_t layer,
                                  uint32_t width, uint32_t height, const step_cost *cost);
/* [first, first + n) from clocks at zero: operations outside layers. */
CERIUM_CHECKED int time_range(step_time *out, const step_program *p, uint32_t first, uint32_t n,
                              uint32_t width, uint32_t height, const step_cost *cost, bool folded);

/* One layer over a pass of a prompt: MeshGEMM products, and attention as a ring, of the line of
 * cores with the most work.  events: those of products.  CERIUM_ERR_MEMORY. */
CERIUM_CHECKED int time_prefill_layer(step_time *out, const step_program *p, uint32_t layer,
                                      uint32_t width, uint32_t height, const step_cost *cost,
                                      uint32_t tokens);
/* The ring of ATTEND operation `at`: one line's work, and its events.  CERIUM_ERR_MEMORY. */
CERIUM_CHECKED int time_prompt_attend(step_time *out, const step_program *p, uint32_t at,
                                      uint32_t width, uint32_t height, const step_cost *cost,
                                      uint32_t tokens, uint32_t line);
/* The same for the line with the most work: the last whose rows are all there; after other passes,
 * if a window hides far tokens, perhaps the first, which meets them in smaller parts. */
CERIUM_CHECKED int time_prompt_fullest(step_time *out, const step_program *p, uint32_t at,
                                       uint32_t width, uint32_t height, const step_cost *cost,
                                       uint32_t tokens);
/* e += the keys and values of `tokens`, all that a pass sees, moving round all columns. */
void time_prompt_ring(wafer_events *e, const step_program *p, uint32_t width, uint32_t height,
                      const step_cost *cost, uint32_t tokens);
/* One MeshGEMM product [m, k] [k, n] on width x height. */
step_time time_gemm(uint32_t width, uint32_t height, const step_cost *cost, uint32_t m, uint32_t k,
                    uint32_t n);

/* The operations of a layer: [*first, *first + *n); false: there is no such layer. */
bool layer_ops(const step_program *p, uint32_t layer, uint32_t *first, uint32_t *n);

/* Messages on this mesh in this style. */
wafer_message_cost message_cost(const wafer_mesh *mesh, const wafer_style *style);

#endif
