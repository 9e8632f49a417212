/* gpus.h - the cost of a model on GPUs around a switch: streams of weights, launches,
 * reductions. */
#ifndef WAFER_GPUS_H
#define WAFER_GPUS_H

#include "wafer/timing.h"

typedef struct {
    const step_program *program;
    wafer_quant quant;
    uint32_t context;
    uint32_t users; /* decoded together */
    uint32_t draft; /* tokens verified in a step for each; 1 = none */
    const step_program *drafter; /* guesses all of them but one, in turns with it; or NULL */
    wafer_quant drafter_quant;
} gpu_work;

typedef struct {
    double stream_us;  /* weights and KV from memory */
    double compute_us; /* if that is longer */
    double layers_us;  /* launches and small kernels */
    double reduce_us;  /* all-reduces */
    double guess_us;   /* all of these, for the draft model */
    double step_us;
} gpu_time;

gpu_time gpu_decode(const wafer_gpu *g, wafer_stack stack, const gpu_work *work);
/* A prompt of this many tokens at 60 % of the dense peak. */
double gpu_prefill_us(const wafer_gpu *g, wafer_stack stack, const gpu_work *work, uint32_t tokens);
/* Users whose KV fits beside the weights, those of a draft model included; 0: the weights do not
 * fit. */
uint32_t gpu_users_max(const wafer_gpu *g, const gpu_work *work);

/* Bytes of weights that a step of m tokens reads. */
double step_weight_bytes(const step_program *p, wafer_quant quant, double m);

#endif
