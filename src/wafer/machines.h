/* machines.h - a machine as a text file describes it: a mesh of cores with private memory, on one
 * wafer or several, or a set of GPUs around a switch.  docs/wafer.md lists every key.
 *
 * A value without an agreed figure is a band: the truth is somewhere in [low, high], and every
 * figure derived from it has a band.  Immutable after it is read. */
#ifndef WAFER_MACHINES_H
#define WAFER_MACHINES_H

#include "base/base.h"

/* ---- limits: the most that a broken or hostile input can take ---- */

#define WAFER_MACHINE_BYTES_MAX (256u << 10) /* a machine description; ours have 4 KB */

enum {
    WAFER_NAME_BYTES = 64,
    WAFER_DEAD_MAX = 4096, /* dead cores of one machine */
    WAFER_GRID_MAX = 4096, /* cores along an edge */
    WAFER_WAFERS_MAX = 256,
};

typedef struct {
    double low, high; /* equal if the figure is exact */
} wafer_band;

static inline double band_middle(wafer_band b)
{
    return (b.low + b.high) / 2;
}

typedef struct {
    uint16_t x, y; /* in the usable rectangle */
} wafer_core;

/* A mesh.  Cores of the usable rectangle are [0, width) x [0, height); routers move one 32-bit
 * wavelet a link and cycle. */
typedef struct {
    uint32_t grid_width, grid_height;          /* the whole fabric */
    uint32_t width, height;                    /* usable by programs */
    uint32_t wafers;                           /* machines of this kind that may be joined */
    uint32_t sram_bytes;                       /* of a core */
    uint32_t code_bytes_sdk, code_bytes_tuned; /* code and stack, by the style of the kernels */
    uint32_t buffer_bytes; /* receive buffers beside those of a placement */
    uint32_t simd_fp32, simd_fp16, simd_int8; /* multiply-adds a cycle */
    uint32_t colours;                         /* routes that a core can distinguish */
    uint32_t input_queues, output_queues;
    uint32_t reserved_colours, reserved_queues; /* used by the host's channel */
    uint32_t hop_cycles;                        /* router to router */
    uint32_t ramp_cycles;                       /* router to core or back */
    wafer_band clock_ghz;
    wafer_band link_us;   /* wafer to wafer, one way */
    wafer_band host_us;   /* wafer to host, one way */
    double link_gbytes_s; /* off the wafer, each way */
    wafer_band sram_read_pj_bit, sram_write_pj_bit;
    wafer_band hop_pj_bit;
    wafer_band mac_pj;        /* one fp16 multiply-add */
    wafer_band core_pj_cycle; /* control and clock of a working core */
    wafer_band static_share;  /* of the rated power, drawn even at idle */
    wafer_core *dead;         /* [n_dead], by y and then x; owned */
    uint32_t n_dead;
} wafer_mesh;

typedef enum {
    WAFER_STOCK = 0, /* like a usual stack */
    WAFER_TUNED = 1, /* like the best published stacks */
    WAFER_FLOOR = 2, /* the limit of the hardware */
} wafer_stack;
enum { WAFER_STACKS = 3 };

/* docs/wafer.md: t = bytes / (devices * bandwidth * efficiency) + layers (layer + 2 reduce) */
typedef struct {
    uint32_t devices;
    double hbm_gbytes_s, hbm_gbytes; /* of one device */
    double tflops_fp16, tflops_fp8;  /* of one device, dense */
    struct {
        double efficiency; /* of the bandwidth, while weights stream */
        double layer_us;   /* launches and small kernels of one layer */
        double reduce_us;  /* one all-reduce over all devices */
    } stack[WAFER_STACKS];
} wafer_gpu;

typedef struct {
    char name[WAFER_NAME_BYTES];
    char title[WAFER_NAME_BYTES];
    bool is_gpu;
    wafer_mesh mesh;                /* unless is_gpu */
    wafer_gpu gpu;                  /* if is_gpu */
    wafer_band price_usd, power_kw; /* of one system: the wafers of a system or all its GPUs */
    uint32_t wafers_a_system;
    double years, utilization, usd_kwh, pue; /* cost of an hour */
} wafer_machine;

/* Read text (at most WAFER_MACHINE_BYTES_MAX); file is for messages.  CERIUM_ERR_FORMAT:
 * "file:line: error"; the caller closes *out. */
CERIUM_CHECKED int machine_parse(wafer_machine *out, view text, const char *file,
                                 cerium_error *err);
/* A path to a file, or a name: machines/NAME.ini beside the program or in the installation. */
CERIUM_CHECKED int machine_open(wafer_machine *out, const char *name, cerium_error *err);
void machine_close(wafer_machine *m);

/* Is core (x, y) of the usable rectangle dead?  Logarithmic. */
bool machine_is_dead(const wafer_mesh *m, uint32_t x, uint32_t y);

/* "machines/NAME" beside the program, or in the place of `make install`; false: in neither. */
bool machine_find(char *path, size_t size, const char *name);

#endif
