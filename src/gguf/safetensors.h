/* safetensors.h - the header of a safetensors file, and its values as floats.
 *
 * A file is 8 bytes of length (little-endian), that many of JSON, and the tensors' bytes: the JSON
 * names each tensor with its type, shape and place.  After safetensors_parse() every tensor lies
 * inside the file and its bytes agree with its type and shape.  Immutable, so thread-safe. */
#ifndef GGUF_SAFETENSORS_H
#define GGUF_SAFETENSORS_H

#include "base/base.h"

/* ---- limits: the most that a broken or hostile input can take ---- */

#define SAFETENSORS_MAX        (1u << 18)  /* tensors of one file; known: 20,000 in all files */
#define SAFETENSORS_HEADER_MAX (100u << 20) /* the format's own rule */

typedef enum {
    SAFE_F32 = 0,
    SAFE_F16 = 1,
    SAFE_BF16 = 2,
    SAFE_F8_E4M3 = 3, /* no infinities, one NaN */
    SAFE_U8 = 4,
    SAFE_FP4 = 5, /* E2M1, two in a byte, the lower first; in files as U8 of half the columns */
    SAFE_I64 = 6, /* numbers of tokens, never weights */
    SAFE_BOOL = 7, /* a byte each: 0 is false */
} safe_type;

enum { SAFE_DIMS_MAX = 4 };

typedef struct {
    const char *name;   /* owned by the safetensors */
    safe_type type;
    uint32_t n_dims;    /* 0..SAFE_DIMS_MAX; 0: one value */
    uint64_t dims[SAFE_DIMS_MAX]; /* slowest first; unused ones are 1 */
    const uint8_t *data; /* inside the file; not aligned */
    size_t size;
} safetensor;

typedef struct {
    safetensor *tensors; /* [n], by name */
    size_t n;
} safetensors;

/* label is for messages; file is borrowed until safetensors_free().  Unsupported tensor types are
 * rejected.  CERIUM_ERR_FORMAT or CERIUM_ERR_MEMORY. */
CERIUM_CHECKED int safetensors_parse(safetensors *out, view file, const char *label,
                                     cerium_error *err);
void safetensors_free(safetensors *s);
/* By name, for qsort(). */
int safetensor_compare(const void *a, const void *b);
const safetensor *safetensors_find(const safetensors *s, const char *name);

size_t safe_type_bytes(safe_type type);
static inline bool safe_type_is_whole(safe_type type)
{
    return type == SAFE_I64 || type == SAFE_BOOL;
}
/* out[n] = values first, first + step, first + 2 step, ...; the caller stays inside the tensor. */
void safetensor_values(const safetensor *t, uint64_t first, uint64_t step, float *out, size_t n);
/* Value i of a tensor of whole numbers: I64, U8, or BOOL as 0 and 1. */
int64_t safetensor_integer(const safetensor *t, uint64_t i);

#endif
