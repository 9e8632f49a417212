/* make_blocks.h - random blocks of every format, made directly: no encoding, so as fast as the
 * disk.  Mean 0 and the wanted standard deviation; the bits are those of a plausible file (8-bit
 * values never -128, scales positive and finite). Included by make_model.c alone. */
#ifndef TOOLS_MAKE_BLOCKS_H
#define TOOLS_MAKE_BLOCKS_H

#include "gguf/blocks.h"

#include <math.h>

enum { BLOCK_MAKER_SCALES = 64 };

typedef struct {
    uint64_t state;
    block_type type;
    float deviation;
    uint16_t scales[BLOCK_MAKER_SCALES]; /* halves around the scale that gives the deviation */
    uint8_t exponents[2];                /* MXFP4: the powers of two below and above it */
    float bell[256];                     /* a normal distribution, as 256 equally likely values */
} block_maker;

/* splitmix64: one multiplication chain, any seed will do. */
static inline uint64_t make_random(block_maker *m)
{
    uint64_t z = m->state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

static inline void make_random_bytes(block_maker *m, uint8_t *out, size_t n)
{
    for (size_t i = 0; i < n; i += 8) {
        uint64_t r = make_random(m);
        memcpy(out + i, &r, n - i < 8 ? n - i : 8);
    }
}

/* Random nibbles to a bell shape around 8, from 1 to 15: their mean is exactly 8. */
static inline void make_bell(uint8_t *q, size_t n)
{
    static const uint8_t shape[16] = {1, 3, 4, 5, 6, 7, 7, 8, 8, 9, 9, 10, 11, 12, 13, 15};
    for (size_t i = 0; i < n; i++) q[i] = (uint8_t)(shape[q[i] & 15] | shape[q[i] >> 4] << 4);
}

/* Standard deviation of the decoded bits below if the scale (d) is 1. */
static inline float make_unit_deviation(block_type type)
{
    /* clang-format off */
    switch (type) {
    case BLOCK_I64:
    case BLOCK_F32:
    case BLOCK_F16:
    case BLOCK_BF16: return 1.0f;
    case BLOCK_Q1_0: return 1.0f;
    case BLOCK_Q2_0:
    case BLOCK_PQ2_0:
    case BLOCK_PTQ1_0: return 0.82f;
    case BLOCK_Q4_0:
    case BLOCK_Q4_1: return 3.55f;
    case BLOCK_Q5_0:
    case BLOCK_Q5_1: return 9.23f;
    case BLOCK_Q8_0: return 73.3f;
    case BLOCK_Q2_K: return 1.12f * 11.7f; /* scales 8..15 */
    case BLOCK_Q3_K: return 2.3f * 18.5f;
    case BLOCK_IQ2_XXS:
    case BLOCK_IQ2_XS:
    case BLOCK_IQ2_S: return 24.0f * 18.5f / 8;
    case BLOCK_IQ1_S:
    case BLOCK_IQ1_M: return 8.0f * 0.6f;
    case BLOCK_IQ3_XXS: return 15.0f * 18.5f / 2;
    case BLOCK_IQ3_S: return 7.6f * 18.5f;
    case BLOCK_TQ1_0:
    case BLOCK_TQ2_0: return 0.82f;
    case BLOCK_Q4_K: return 3.55f * 48.2f; /* scales 32..63 */
    case BLOCK_Q5_K: return 9.23f * 48.2f;
    case BLOCK_Q6_K: return 18.5f * 81.6f; /* scales 64..95, 96 wide */
    case BLOCK_IQ4_NL: return 70.0f;
    case BLOCK_IQ4_XS: return 70.0f * 24.0f; /* scales 16..31 */
    case BLOCK_MXFP4: return 5.85f;
    case BLOCK_NVFP4: return 5.85f;
    case BLOCK_Q4_W: return 17.0f;
    case BLOCK_Q8_W: return 73.3f;
    }
    /* clang-format on */
    return 1.0f;
}

static inline void block_maker_init(block_maker *m, uint64_t seed, block_type type, float deviation)
{
    *m = (block_maker){.state = seed, .type = type, .deviation = deviation};
    float scale = deviation / make_unit_deviation(type);
    for (int i = 0; i < BLOCK_MAKER_SCALES; i++)
        m->scales[i] = f32_to_f16(scale * (0.8f + 0.4f * (float)i / BLOCK_MAKER_SCALES));
    /* 2^(e - 128) nearest below and above: half of the blocks each. */
    int e = deviation > 0.0f ? (int)floorf(log2f(scale)) + 128 : 1;
    m->exponents[0] = (uint8_t)e;
    m->exponents[1] = (uint8_t)(e + 1);
    /* Tukey's lambda approximates the normal quantile to 1 part in 100. */
    for (int i = 0; i < 256; i++) {
        float u = ((float)i + 0.5f) / 256.0f;
        m->bell[i] = deviation * (powf(u, 0.135f) - powf(1.0f - u, 0.135f)) / 0.1975f;
    }
}

static inline uint16_t make_scale(block_maker *m)
{
    return m->scales[make_random(m) % BLOCK_MAKER_SCALES];
}

/* A half that is factor times the half d: the offset that brings the mean to 0. */
static inline uint16_t make_offset(uint16_t d, float factor)
{
    return f32_to_f16(f16_to_f32(d) * factor);
}

/* Scales of 32..63, and minima equal to them, in the 12 bytes of a K-quant: with dmin = d times
 * the middle of the values, every run has mean 0. */
static inline void make_k_scales(block_maker *m, uint8_t *packed)
{
    uint8_t s[8];
    make_random_bytes(m, s, sizeof s);
    for (int j = 0; j < 8; j++) s[j] = 32 | (s[j] & 31);
    for (int j = 0; j < 4; j++) {
        packed[j] = (uint8_t)(s[j] | (s[j + 4] >> 4) << 6);
        packed[j + 4] = packed[j];
        packed[j + 8] = (uint8_t)((s[j + 4] & 15) * 17);
    }
}

typedef union {
    uint8_t bytes[256];
    block_q4_0 q4_0;
    block_q4_1 q4_1;
    block_q5_0 q5_0;
    block_q5_1 q5_1;
    block_q8_0 q8_0;
    block_q1_0 q1_0;
    block_q2_0 q2_0;
    block_q2_k q2_k;
    block_q3_k q3_k;
    block_iq2_xxs iq2_xxs; /* all of IQ2 and IQ3 begin with d */
    block_tq1_0 tq1_0;
    block_tq2_0 tq2_0;
    block_q4_k q4_k;
    block_q5_k q5_k;
    block_q6_k q6_k;
    block_iq4_nl iq4_nl;
    block_iq4_xs iq4_xs;
    block_mxfp4 mxfp4;
    block_iq1_m iq1_m;
    block_pq2_0 pq2_0;
    block_ptq1_0 ptq1_0;
    block_nvfp4 nvfp4;
    block_q4_w q4_w;
    block_q8_w q8_w;
} any_block;

/* A half in the highest bits of four. */
static inline void make_quarters(uint16_t to[4], uint16_t d)
{
    for (int i = 0; i < 4; i++)
        to[i] = (uint16_t)((to[i] & 0xfff) | (d >> 4 * i & 15) << 12);
}

/* The nearest of the numbers without a sign. */
static inline uint8_t make_e4m3(float f)
{
    uint32_t bits;
    if (f >= 448.0f) return 0x7e;
    if (f < 0x1p-6f) return (uint8_t)(f * 512.0f + 0.5f); /* without a leading one, or just one */
    memcpy(&bits, &f, sizeof bits);
    return (uint8_t)(((bits + (1u << 19)) >> 20) - ((127 - 7) << 3));
}

/* Three of the four values of two bits. */
static inline void make_ternary(uint8_t *q, size_t n)
{
    for (size_t i = 0; i < n; i++) q[i] &= (uint8_t)~((q[i] >> 1 & q[i] & 0x55) << 1);
}

/* Set the fields that must not be random in a block of random bytes. */
static inline void make_sane(block_maker *m, any_block *b)
{
    uint16_t d = make_scale(m);
    /* clang-format off */
    switch (m->type) {
    case BLOCK_I64:
    case BLOCK_F32:
    case BLOCK_F16:
    case BLOCK_BF16: break;
    case BLOCK_Q4_0: b->q4_0.d = d, make_bell(b->q4_0.q, sizeof b->q4_0.q); break;
    case BLOCK_Q4_1:
        b->q4_1.d = d, b->q4_1.m = make_offset(d, -8.0f);
        make_bell(b->q4_1.q, sizeof b->q4_1.q);
        break;
    case BLOCK_Q5_0: b->q5_0.d = d; break;
    case BLOCK_Q5_1: b->q5_1.d = d, b->q5_1.m = make_offset(d, -15.5f); break;
    case BLOCK_Q8_0:
        b->q8_0.d = d;
        for (int j = 0; j < 32; j++)
            if (b->q8_0.q[j] == -128) b->q8_0.q[j] = 0;
        break;
    case BLOCK_Q2_K: /* minima equal to scales, and 1.5 the middle of the values */
        b->q2_k.d = d, b->q2_k.dmin = make_offset(d, 1.5f);
        for (int j = 0; j < 16; j++)
            b->q2_k.scales[j] = (uint8_t)(17 * ((b->q2_k.scales[j] & 15) | 8));
        break;
    case BLOCK_Q3_K: b->q3_k.d = d; break;
    case BLOCK_IQ2_XXS:
    case BLOCK_IQ2_XS:
    case BLOCK_IQ2_S:
    case BLOCK_IQ3_XXS:
    case BLOCK_IQ1_S:
    case BLOCK_IQ3_S: b->iq2_xxs.d = d; break;
    case BLOCK_IQ1_M: make_quarters(b->iq1_m.scales, d); break;
    case BLOCK_TQ1_0: b->tq1_0.d = d; break;
    case BLOCK_TQ2_0:
        b->tq2_0.d = d, make_ternary(b->tq2_0.q, sizeof b->tq2_0.q);
        break;
    case BLOCK_Q1_0: b->q1_0.d = d; break;
    case BLOCK_PQ2_0: b->pq2_0.d = d, make_ternary(b->pq2_0.q, sizeof b->pq2_0.q); break;
    case BLOCK_PTQ1_0: b->ptq1_0.d = d; break;
    case BLOCK_Q2_0:
        b->q2_0.d = d;
        make_ternary(b->q2_0.q, sizeof b->q2_0.q);
        break;
    case BLOCK_Q4_K:
        b->q4_k.d = d, b->q4_k.dmin = make_offset(d, 8.0f);
        make_k_scales(m, b->q4_k.scales);
        make_bell(b->q4_k.q, sizeof b->q4_k.q);
        break;
    case BLOCK_Q5_K:
        b->q5_k.d = d, b->q5_k.dmin = make_offset(d, 15.5f);
        make_k_scales(m, b->q5_k.scales);
        break;
    case BLOCK_Q6_K:
        b->q6_k.d = d;
        for (int j = 0; j < 16; j++) b->q6_k.scales[j] = (int8_t)(64 | (b->q6_k.scales[j] & 31));
        break;
    case BLOCK_IQ4_NL: b->iq4_nl.d = d; break;
    case BLOCK_IQ4_XS: b->iq4_xs.d = d, b->iq4_xs.scales_high = 0xffff; break; /* 48..63 */
    case BLOCK_MXFP4: b->mxfp4.e = m->exponents[d & 1]; break;
    case BLOCK_NVFP4:
        for (int j = 0; j < 4; j++) b->nvfp4.e[j] = make_e4m3(2 * f16_to_f32(d));
        break;
    case BLOCK_Q4_W: b->q4_w.d = d; break;
    case BLOCK_Q8_W:
        b->q8_w.d = d;
        for (int j = 0; j < 128; j++)
            if (b->q8_w.q[j] == -128) b->q8_w.q[j] = 0;
        break;
    }
    /* clang-format on */
}

static inline void make_floats(block_maker *m, void *out, size_t n)
{
    uint8_t random[64];
    for (size_t i = 0; i < n; i++) {
        if (i % sizeof random == 0) make_random_bytes(m, random, sizeof random);
        float x = m->bell[random[i % sizeof random]];
        if (m->type == BLOCK_F32)
            ((float *)out)[i] = x;
        else
            ((uint16_t *)out)[i] = m->type == BLOCK_F16 ? f32_to_f16(x) : f32_to_bf16(x);
    }
}

/* out: [n_blocks] of the maker's type. */
static inline void block_maker_fill(block_maker *m, void *out, size_t n_blocks)
{
    size_t size = block_bytes(m->type);
    if (block_values(m->type) == 1) {
        make_floats(m, out, n_blocks);
        return;
    }
    for (size_t i = 0; i < n_blocks; i++) {
        any_block b;
        make_random_bytes(m, b.bytes, size);
        make_sane(m, &b);
        memcpy((uint8_t *)out + i * size, &b, size);
    }
}

#endif
