/* plan.h - the search for a placement of a model on a mesh within every limit, and its predicted
 * speed.
 *
 * The search walks over grids of equal regions, reductions of one or two phases, fused and separate
 * collectives, layouts of experts and policies of the KV cache; candidates beyond a limit are
 * dropped; of the rest it chooses the fewest wafers, then the fastest token. */
#ifndef WAFER_PLAN_H
#define WAFER_PLAN_H

#include "wafer/shapes.h"
#include "wafer/timing.h"

typedef struct {
    const wafer_machine *machine; /* a mesh */
    const step_program *program;
    wafer_style style;
    bool is_sdk; /* code of the SDK's size; no fusing */
    wafer_quant quant;
    uint32_t context;    /* tokens that must fit for one user */
    uint32_t draft;      /* tokens verified in a step; 1 = none */
    bool host_sampling;  /* the token is chosen off the wafer */
    uint32_t wafers;     /* to use at most; 0 = all that the machine allows */
    uint64_t idle_cores; /* without a region, on the last wafer: room for something else */
} plan_request;

typedef struct {
    uint32_t columns, rows; /* the grid of slots on each wafer */
    uint32_t width, height; /* cores of a slot */
    bool is_turned;         /* all of these with the wafer on its side: its y is their x */
    uint32_t layers_a_region;
    uint32_t layer_regions;
    uint32_t table_regions; /* before them: the head, and the embedding unless the host has it; or
                               0: the embedding is in the free room of the first layer regions, the
                               head in that of the last */
    uint32_t embed_regions, head_regions; /* this many of them */
    uint64_t table_bytes;                 /* on a core of those */
    uint32_t wafers;
    wafer_choice choice;
    uint64_t layer_bytes, layer_kv_bytes; /* of one layer on the fullest core */
    uint64_t usable_bytes;                /* of a core */
    uint64_t core_bytes;                  /* taken on the fullest core */
    uint64_t cores;                       /* that are not empty */
} plan_layout;

typedef struct {
    plan_layout layout;
    step_time layer[2]; /* without and with a window, if there are such */
    uint32_t n_layers[2];
    step_time head, embed;
    double detour_cycles;      /* of one layer around dead cores, at the worst place */
    double kv_other_cycles;    /* additional cost of the other of the two KV policies in a step */
    double handoff_cycles;     /* of a whole token, on wafers */
    double off_wafer_us[2];    /* low, high: between wafers and to the host */
    double cycles;             /* of one step on the wafers */
    double period_cycles;      /* of the slowest region: the rate of a full pipeline */
    double spent[WAFER_SPENT]; /* cycles; without parts off the wafer */
    wafer_events events;       /* of one step */
    uint32_t users;            /* whose KV fits beside each other, at most one a region */
    uint32_t context_max;      /* for one user, on these wafers */
} plan_result;

/* The outside figures of a plan's token: every figure from the lower to the upper end. */
typedef struct {
    wafer_band step_us;
    wafer_band user_tokens_s, system_tokens_s;
    wafer_band joules_user, joules_system; /* a token: one user has all of it; shared */
    wafer_band usd_user, usd_system;       /* a million tokens */
    double rated_joules_user;              /* the crude figure: rated power times time */
} plan_figures;

/* CERIUM_ERR_CAPACITY: does not fit; the message gives the reason and the nearest model that
 * would. */
CERIUM_CHECKED int plan_search(plan_result *out, const plan_request *r, cerium_error *err);
/* Cycles of the same layout in another style, for instance with a constant at the end of its band;
 * CERIUM_ERR_MEMORY. */
CERIUM_CHECKED int plan_time(plan_result *plan, const plan_request *r);
/* r's style with its constants at the low or high end of their bands (SDK-style ones are measured),
 * and a copy of plan timed with it; CERIUM_ERR_MEMORY. */
wafer_style plan_style_end(const plan_request *r, bool high);
CERIUM_CHECKED int plan_time_end(plan_result *out, const plan_result *plan, const plan_request *r,
                                 bool high);
/* A prompt from the embedding to the first token's logits, in passes through the regions. */
typedef struct {
    bool is_mesh_gemm;    /* passes are MeshGEMM products; else steps of decoding */
    uint32_t pass_tokens; /* the fastest that fits */
    uint32_t pass_max;    /* of that kind that fit in a core, up to 64 of decoding */
    uint32_t mesh_gemm_max;  /* of MeshGEMM products; 0: not even one row on each line fits */
    uint32_t n_passes;
    uint64_t pass_bytes, room_bytes; /* its memory on a core, and the memory that is free */
    double us[2];                    /* fast and slow clock and links */
} plan_prompt;

/* CERIUM_ERR_MEMORY. */
CERIUM_CHECKED int plan_prompt_time(plan_prompt *out, const plan_result *plan,
                                    const plan_request *r, uint32_t tokens);
/* Bytes of a core for vectors passed between operations, at their widest, of n tokens in a step of
 * decoding. */
uint64_t plan_step_bytes(const plan_request *r, const plan_layout *l, uint32_t tokens);
/* Bytes of a core for a pass of MeshGEMM products, this many rows on each line of cores, that ends
 * r's context; and the bytes that are free for such a pass. */
uint64_t plan_pass_bytes(const plan_result *plan, const plan_request *r, uint32_t rows);
uint64_t plan_pass_room(const plan_result *plan, const plan_request *r);
/* The bands: clock, links, power, and unpublished values of tuned kernels.  accepted: tokens
 * yielded by a step. */
CERIUM_CHECKED int plan_figure(plan_figures *out, const plan_result *plan, const plan_request *r,
                               double accepted);
/* Its regions as rectangles on the wafers, in the order of a token. */
CERIUM_CHECKED int plan_place(wafer_placement *out, const plan_result *plan, const plan_request *r);

/* Rows of the vocabulary's tables on the wafer: a tied one serves for both, and a sampling host
 * looks the token up itself. */
uint64_t plan_table_rows(const plan_request *r);

/* Bytes of all weights, and of the KV cache of one user, without padding. */
uint64_t plan_weight_bytes(const step_program *p, wafer_quant quant);
uint64_t plan_kv_bytes(const step_program *p, uint32_t context);

/* Dollars of an hour of one system. */
wafer_band machine_usd_hour(const wafer_machine *m);
/* The idle power of a plan's wafers; and dollars of a million tokens. */
wafer_band plan_static_watts(const plan_result *plan, const plan_request *r);
wafer_band plan_usd_million(const plan_result *plan, const plan_request *r, wafer_band tokens_s);
/* Dynamic energy of events. */
wafer_band mesh_joules(const wafer_mesh *m, const wafer_events *e, double busy_core_cycles);

#endif
