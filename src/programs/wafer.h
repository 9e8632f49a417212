/* wafer.h - what `cerium wafer` and its parts share. */
#ifndef PROGRAMS_WAFER_H
#define PROGRAMS_WAFER_H

#include <jansson.h>

#include "programs/options.h"
#include "wafer/drafting.h"

/* The parts: argv[0] is "wafer NAME". */
int wafer_plan_main(int argc, char **argv);
int wafer_compare_main(int argc, char **argv);
int wafer_validate_main(int argc, char **argv);
int wafer_simulate_main(int argc, char **argv);

/* Options that plan and compare share. */
typedef struct {
    options o;
    const char *machines; /* names, commas between them */
    const char *contexts; /* numbers separated by commas; NULL = 8192, or the model's if smaller */
    const char *drafts;
    const char *draft_model; /* drafts on idle cores; or NULL */
    const char *picture, *csv, *plots; /* files to write */
    wafer_quant quant;
    bool quant_given;
    bool host_sampling;
    uint32_t wafers;
    double accepted;         /* probability that a drafted token is right; 0.8 */
    double service_us;       /* network, queue and tokenizer of each step */
    double prefill_gbytes_s; /* KV arrives from elsewhere at this rate; 0 = it does not */
    bool sensitivity;
    wafer_style style; /* of SDK kernels, with the constants changed by --set */
} wafer_options;

enum { WAFER_DRAFT_MAX = 64 }; /* tokens of a pass */

/* A model that drafts for a plan: its placement, and passes of 1 to `tokens` tokens. */
typedef struct {
    draft_plan draft;
    const plan_result *plan;         /* of the model; borrowed */
    const plan_request *request;
    uint32_t tokens;                 /* 0: there is no plan */
    draft_us us[WAFER_DRAFT_MAX][2]; /* [tokens of the pass - 1]: fast, slow */
    draft_joules joules[WAFER_DRAFT_MAX];
} wafer_drafting;

/* Fills in all except draft; borrows plan and r.  CERIUM_ERR_MEMORY. */
CERIUM_CHECKED int wafer_draft_take_time(wafer_drafting *d, const plan_result *plan,
                                         const plan_request *r);
/* Of both styles of kernels; name: of the model that drafts. */
void wafer_draft_print(const wafer_drafting d[2], const char *name);
json_t *wafer_draft_json(const wafer_drafting *d, const char *name);

/* Tokens a second including the time around the model, which each step takes once and which yields
 * `accepted` tokens. */
wafer_band wafer_served(const wafer_options *w, wafer_band tokens_s, double accepted);

/* Returns 0, or EXIT_USAGE after a line on standard error. */
int wafer_options_parse(const command_table *c, wafer_options *w, int argc, char **argv);

/* Read the next item of a comma-separated list; false at its end. */
bool wafer_next_item(const char **list, char *out, size_t size);

/* The quantization of a model: that of its file, mxfp4 for gpt-oss, else fp16. */
wafer_quant wafer_quant_of(const wafer_options *w, const wafer_model *m);

json_t *wafer_json_band(wafer_band b);
/* Prints and frees; CERIUM_ERR_IO, CERIUM_ERR_MEMORY. */
CERIUM_CHECKED int wafer_print_json(json_t *root, cerium_error *err);
/* "1,234 to 2,345", "0.12 to 0.34". */
const char *wafer_band_text(char out[64], wafer_band b);

#endif
