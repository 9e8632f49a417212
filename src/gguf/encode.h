/* encode.h - shared by encoding with and without a search.  Private to src/gguf.
 *
 * A fill_ function writes one block: the quants nearest to x for the given scales. */
#ifndef GGUF_ENCODE_H
#define GGUF_ENCODE_H

#include <math.h>

#include "gguf/blocks.h"

/* x truncated towards zero, in [low, high]; low for a NaN. */
static inline int cut(float x, int low, int high)
{
    if (!(x > (float)low)) return low;
    return x >= (float)high ? high : (int)x;
}

/* x to the nearest integer in [low, high], halves away from zero; low for a NaN. */
static inline int nearest(float x, int low, int high) { return cut(roundf(x), low, high); }

static inline float inverse(float x) { return x != 0.0f ? 1.0f / x : 0.0f; }

/* The value of largest magnitude, with its sign. */
static inline float largest(const float *x, int n)
{
    float max = 0.0f;
    for (int i = 0; i < n; i++)
        if (fabsf(x[i]) > fabsf(max)) max = x[i];
    return max;
}

static inline void range(const float *x, int n, float *min, float *max)
{
    *min = *max = x[0];
    for (int i = 1; i < n; i++) {
        if (x[i] < *min) *min = x[i];
        if (x[i] > *max) *max = x[i];
    }
}

/* 16 ascending integers in [-128, 127], and of each half unit from -128 the nearest of them: the
 * middle of two integers is a multiple of a half, so a half unit has one nearest entry. */
enum { ENTRY_CELLS = 512 };
typedef struct {
    const int8_t *values;
    uint8_t at[ENTRY_CELLS];
} entry_table;

entry_table entry_table_of(const int8_t *values);
static inline int entry_of(const entry_table *t, float x)
{
    return t->at[cut(2.0f * x + ENTRY_CELLS / 2, 0, ENTRY_CELLS - 1)];
}

/* Of Q4_K and Q5_K: value = d scale q - dmin min, 6 bits for each run of 32. */
typedef struct {
    uint8_t scale[8], min[8];
    uint16_t d, dmin;
} k_scales;

/* Scales and minima, none negative, in 6 bits of the largest of each. */
k_scales k_scales_round(const float scale[8], const float min[8]);
/* n scales as d small, small in [-levels, levels): returns d, rounded to f16. */
float small_scales(int8_t *small, const float *scales, int n, int levels);

/* id: the factor of x, the inverse of d before or after d is rounded to a half. */
void fill_q4_0(block_q4_0 *b, const float *x, float d, float id);
void fill_q5_0(block_q5_0 *b, const float *x, float d, float id);
void fill_q4_1(block_q4_1 *b, const float *x, float d, float id, float min);
void fill_q5_1(block_q5_1 *b, const float *x, float d, float id, float min);
void fill_iq4_nl(block_iq4_nl *b, const entry_table *t, const float *x, float d);
void fill_q4_w(block_q4_w *b, const entry_table *t, const float *x, float d);
void fill_q4_k(block_q4_k *b, const float *x, const k_scales *s);
void fill_q5_k(block_q5_k *b, const float *x, const k_scales *s);
void fill_q6_k(block_q6_k *b, const float *x, float d, const int8_t scales[16]);
void fill_iq4_xs(block_iq4_xs *b, const entry_table *t, const float *x, float d,
                 const int8_t scales[8]);

void fill_q3_k(block_q3_k *b, const float *x, float d, const int8_t scales[16]);

/* blocks_narrow.c: the types that block_levels_of() knows. */
void decode_narrow(block_type type, float *restrict out, const void *restrict blocks,
                   size_t n_blocks);
/* blocks_two_bits.c: those of block_has_two_bits(). */
void decode_two_bits(block_type type, float *restrict out, const void *restrict blocks,
                     size_t n_blocks);

#endif
