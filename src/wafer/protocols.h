/* protocols.h - how published figures were measured, one function for each kind. */
#ifndef WAFER_PROTOCOLS_H
#define WAFER_PROTOCOLS_H

#include "wafer/rows.h"
#include "wafer/shapes.h"
#include "wafer/timing.h"

/* The settings of a row, read from its fields; 0: not given. */
typedef struct {
    const published_row *row;
    double clock_ghz;
    uint32_t context;       /* 4096: not given */
    uint32_t width, height; /* "420x420" in the system */
    uint32_t m, k, n;       /* "16Kx16K" of a product; m: of three, else k */
    uint32_t stages;        /* "8 stages" in the system */
    uint32_t devices;       /* of its column, or "8x", "TP8" in the system; else 1 */
    const char *unit;       /* the row's, or the usual unit of its class */
} row_query;

typedef struct {
    double cycles;  /* of the whole figure, or */
    double seconds; /* that */
    double tokens;  /* made in it */
    double host;    /* seconds more if the host launches each kernel; 0: the row names a stack */
    double layers;
    double ideal;  /* cycles or seconds of a full machine: arithmetic or bandwidth; 0: unknown */
    bool is_input; /* a constant taken from such a row, not a prediction */
    const char *why; /* the protocol, or the reason for having none */
} prediction;

typedef bool protocol_fn(prediction *out, const row_query *q, const wafer_style *style);

protocol_fn protocol_decode; /* WaferLLM: one padded layer with one head, times the layers */
protocol_fn protocol_prefill;
protocol_fn protocol_gemv, protocol_gemm;
protocol_fn protocol_collective; /* HPDC'24: tuned reductions along a line or over a rectangle */
protocol_fn protocol_pipeline;   /* stages of layers, one token in each */
protocol_fn protocol_gpu_decode, protocol_gpu_spec, protocol_gpu_prefill;
protocol_fn protocol_gpu_gemv, protocol_gpu_collective;

void row_query_read(row_query *q, const published_row *row);
/* Seconds or cycles and tokens in the row's unit; false: it has no such figure. */
bool row_in_unit(const row_query *q, const prediction *p, double *out);
/* The model of a row, under any of its usual spellings; false with *why. */
bool row_model(wafer_model *out, const published_row *row, const char **why);

/* Does the row name it, in its system, model, metric or class?  Letter case does not matter. */
bool row_says(const published_row *row, const char *word);
/* The number right before, or after, a word of s. */
bool row_number_before(const char *s, const char *word, double *out);
bool row_number_after(const char *s, const char *word, double *out);

#endif
