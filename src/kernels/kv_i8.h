/* kv_i8.h - keys, values and queries in 8 bits: their memory layout and rounding.
 *
 * A head is turned by a Walsh-Hadamard transform before it is rounded, which spreads an outlier
 * channel over all channels. Scores do not change except for a constant factor, because queries and
 * keys are transformed alike; results are transformed back.
 *
 * The transform goes over runs of the largest power of two that divides the head (kv_i8_run), in
 * stages h = 1, 2, 4, ...: (a, b) = (a + b, a - b) for neighbours h apart.  It is its own inverse
 * but for a factor of the run's length, a power of two.
 *
 * Channels are padded to a multiple of 16: padding of queries is 0, that of pages anything. */
#ifndef KERNELS_KV_I8_H
#define KERNELS_KV_I8_H

#include <math.h>

#include "kernels/exp.h"
#include "kernels/kernels.h"

enum {
    KV_I8_OFFSET = 128,      /* of keys, which are unsigned: dot products want one side so */
    KV_I8_MAX = 127,         /* largest magnitude of a key or value */
    KV_I8_QUERY_MAX = 127,   /* largest |q[2i]| + |q[2i + 1]| before they are rounded */
    KV_I8_WEIGHT_MAX = 254,  /* largest u[2j] + u[2j + 1] of weights before they are rounded */
    KV_I8_CHANNELS_MAX = KERNEL_HEAD_MAX /* padded channels of a head, at most */
};
/* The sum of two neighbours is at most one more once they are rounded, so that the 8-bit product of
 * AVX2, which adds two neighbours in 16 bits, never saturates. */
_Static_assert(255 * (KV_I8_QUERY_MAX + 1) <= INT16_MAX, "keys times queries");
_Static_assert((KV_I8_WEIGHT_MAX + 1) * KV_I8_MAX <= INT16_MAX, "weights times values");
#define KV_I8_TINY 0x1p-100f /* heads whose largest value is smaller count as zeros */

/* What a page of one KV head keeps of its tokens. */
typedef struct {
    float scale[KERNEL_PAGE]; /* of each token: x ~= scale * byte */
    uint8_t bytes[]; /* keys:   [channels / 4][KERNEL_PAGE][4] offset by 128: lanes are tokens
                        values: [KERNEL_PAGE / 4][channels][4] signed: lanes are channels */
} kv_i8_page;

/* One row of queries, ready for keys. */
typedef struct {
    float scale;      /* and the factor of the transform */
    int32_t offset;   /* -128 times the sum of q: what the keys' offset adds, taken away */
    uint32_t unused[2];
    int8_t q[];       /* [channels] */
} kv_i8_query;

static inline uint32_t kv_i8_channels(uint32_t head_dim)
{
    return (head_dim + 15) / 16 * 16;
}

/* Channels that the transform mixes: the largest power of two that divides the head. */
static inline uint32_t kv_i8_run(uint32_t head_dim)
{
    return head_dim & (0 - head_dim);
}

static inline size_t kv_i8_key_at(uint32_t channel, uint32_t slot)
{
    return (size_t)(channel / 4 * KERNEL_PAGE + slot) * 4 + channel % 4;
}
static inline size_t kv_i8_value_at(uint32_t channel, uint32_t slot, uint32_t channels)
{
    return (size_t)(slot / 4 * channels + channel) * 4 + slot % 4;
}

/* What x is multiplied by before it is rounded, so that top becomes most; 0 for next to nothing. */
static inline float kv_i8_inverse(float top, float most)
{
    return top < KV_I8_TINY ? 0.0f : most / top;
}
static inline float kv_i8_scale(float top, float most)
{
    return top < KV_I8_TINY ? 0.0f : top / most;
}

/* The transform of a head. */
static inline void kv_i8_turn(float *x, uint32_t head_dim)
{
    const uint32_t run = kv_i8_run(head_dim);
    for (uint32_t h = 1; h < run; h *= 2)
        for (uint32_t i = 0; i < head_dim; i++) {
            if (i & h) continue;
            const float a = x[i], b = x[i + h];
            x[i] = a + b;
            x[i + h] = a - b;
        }
}

/* Put a rounded key or value q [head_dim] into its slot. */
static inline void kv_i8_keep_key(kv_i8_page *keys, uint32_t slot, const int8_t *q, float scale,
                                  uint32_t head_dim)
{
    uint8_t *to = keys->bytes + kv_i8_key_at(0, slot);
    keys->scale[slot] = scale;
    for (uint32_t d = 0; d < head_dim; d++)
        to[kv_i8_key_at(d, 0)] = (uint8_t)(q[d] + KV_I8_OFFSET);
}
static inline void kv_i8_keep_value(kv_i8_page *values, uint32_t slot, const int8_t *q, float scale,
                                    uint32_t head_dim)
{
    uint8_t *to = values->bytes + kv_i8_value_at(0, slot, kv_i8_channels(head_dim));
    values->scale[slot] = scale;
    for (uint32_t d = 0; d < head_dim; d++) to[4 * d] = (uint8_t)q[d];
}

/* What goes with the rounded query [head_dim], whose padding is zeros. */
static inline void kv_i8_finish_query(kv_i8_query *query, float scale, uint32_t head_dim)
{
    int32_t sum = 0;
    for (uint32_t d = 0; d < head_dim; d++) sum += query->q[d];
    query->scale = scale / (float)kv_i8_run(head_dim);
    query->offset = -KV_I8_OFFSET * sum;
}

/* How an instruction set turns and rounds a head x [head_dim] into q; returns its scale. */
typedef float kv_i8_quantize(int8_t *q, const float *x, uint32_t head_dim, bool is_query);

/* kernel_table.kv_write and .attend_query, by that. */
static inline void kv_i8_write(kv_i8_page *keys, kv_i8_page *values, uint32_t slot, const float *k,
                               const float *v, uint32_t head_dim, kv_i8_quantize *quantize)
{
    int8_t q[KV_I8_CHANNELS_MAX];
    const float key_scale = quantize(q, k, head_dim, false);
    kv_i8_keep_key(keys, slot, q, key_scale, head_dim);
    if (!values) return;
    const float value_scale = quantize(q, v, head_dim, false);
    kv_i8_keep_value(values, slot, q, value_scale, head_dim);
}
static inline void kv_i8_take_query(kv_i8_query *query, const float *q, uint32_t head_dim,
                                    kv_i8_quantize *quantize)
{
    memset(query, 0, sizeof *query + kv_i8_channels(head_dim));
    kv_i8_finish_query(query, quantize(query->q, q, head_dim, true), head_dim);
}

#endif
