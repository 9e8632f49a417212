/* residency.h - in which level of memory a model's weights and KV fit, and the resulting tokens/s:
 * the arithmetic of `cerium inspect --plan`, without access to hardware.
 *
 * One token reads every weight of its step once, and the KV of all earlier tokens, in the same
 * order every time.  So a level of the memory hierarchy helps only when the whole working set fits:
 * otherwise it evicts exactly what is read next. Speed is at most the bandwidth of that level over
 * the bytes of one token. */
#ifndef PROGRAMS_RESIDENCY_H
#define PROGRAMS_RESIDENCY_H

#include "gguf/gguf.h"

enum { RESIDENCY_LEVELS_MAX = 3, RESIDENCY_ADVICE_MAX = 6 };

typedef struct {
    const char *name;     /* "L2", "L3", "memory" */
    uint64_t size;        /* bytes of it that the threads have together */
    double bytes_per_s;   /* bandwidth with which they read it together */
} residency_level;

typedef struct {
    residency_level levels[RESIDENCY_LEVELS_MAX]; /* [n_levels], the last is the memory */
    uint32_t n_levels, threads;
    const char *assumed;  /* what was unknown and is assumed; NULL: nothing */
} residency_machine;

typedef enum {
    ROLE_EMBEDDING = 0,
    ROLE_ATTENTION = 1,
    ROLE_FFN = 2,
    ROLE_EXPERTS = 3,
    ROLE_HEAD = 4,
    ROLE_OTHER = 5, /* norms, biases, routers */
} residency_role;
enum { RESIDENCY_ROLES = 6 };
extern const char *const residency_role_names[RESIDENCY_ROLES];

typedef struct {
    uint64_t held[RESIDENCY_ROLES];   /* bytes of weights */
    uint64_t read[RESIDENCY_ROLES];   /* of those, for one token: chosen experts, one embedding */
    uint64_t values[RESIDENCY_ROLES]; /* vectors, which are read, too */
    uint32_t n_layers, n_windowed;    /* layers; of these, the ones with a window */
    uint32_t window;                  /* tokens */
    uint64_t kv_values;               /* of one token in one layer: keys and values */
    uint64_t kv_vectors;              /* of these; in 8 bits each has a scale of four bytes */
    uint32_t kv_value_bytes;          /* the engine's default: kernel_kv_default() */
    uint64_t context_tokens;          /* the context that the model was trained for; 0: unknown */
} residency_model;

/* Read the sizes in a file.  Hostile numbers give useless plans, but no undefined behaviour. */
residency_model residency_of(const gguf_file *file);

uint64_t residency_step_bytes(const residency_model *m);
/* KV bytes that the token after depth others reads; a value has 1 (i8), 2 or 4 (f16, f32). */
uint64_t residency_kv_bytes(const residency_model *m, uint32_t kv_value_bytes, uint64_t depth);
/* The innermost level that holds this many bytes beside the other data that needs it. */
uint32_t residency_place(const residency_machine *machine, uint64_t n_bytes);
/* Tokens/s at most when one token reads n_bytes. */
double residency_speed(const residency_machine *machine, uint64_t n_bytes);

typedef struct {
    char what[96];
    uint64_t step_bytes; /* weights and KV of one token, then */
    uint64_t depth;      /* the context of these */
    uint32_t level;
    double speed;
} residency_advice;

/* Ways to go faster: fewer bits, a shorter context, narrower keys and values; only those that gain
 * a tenth or more.  Returns how many were written to out [RESIDENCY_ADVICE_MAX]. */
uint32_t residency_advise(const residency_machine *machine, const residency_model *m,
                          uint32_t kv_value_bytes, uint64_t context, residency_advice *out);

/* `cerium inspect --plan`: measure, and print to standard output.  context 0: the model's;
 * kv_value_bytes 0: the default. */
CERIUM_CHECKED int residency_plan(const gguf_file *file, uint32_t threads, uint32_t context,
                                  uint32_t kv_value_bytes, bool json, cerium_error *err);

/* The whole plan, for people. */
void residency_print(FILE *out, const residency_machine *machine, const residency_model *m,
                     const char *name, uint32_t kv_value_bytes, uint64_t context);

#endif
