/* blocks_encode.c - floats to blocks by the simple rule of each type.
 *
 * Q4_0 to Q8_0 and MXFP4 are ggml's reference rules; K-quants and the tables take the plain minimum
 * and maximum of each run.  Models for use are quantized with a search for the scales
 * (blocks_search.c), which calls the same functions. */
#include "gguf/encode.h"

#include <float.h>

/* ---- blocks of 32 ---- */

void fill_q4_0(block_q4_0 *b, const float *x, float d, float id)
{
    b->d = f32_to_f16(d);
    for (int j = 0; j < 16; j++)
        b->q[j] = (uint8_t)(cut(x[j] * id + 8.5f, 0, 15) | cut(x[j + 16] * id + 8.5f, 0, 15) << 4);
}

static void encode_q4_0(block_q4_0 *restrict b, const float *restrict x, size_t n_blocks)
{
    for (size_t i = 0; i < n_blocks; i++, x += 32) {
        float d = largest(x, 32) / -8.0f;
        fill_q4_0(b + i, x, d, inverse(d));
    }
}

void fill_q4_1(block_q4_1 *b, const float *x, float d, float id, float min)
{
    b->d = f32_to_f16(d);
    b->m = f32_to_f16(min);
    for (int j = 0; j < 16; j++)
        b->q[j] = (uint8_t)(cut((x[j] - min) * id + 0.5f, 0, 15) |
                            cut((x[j + 16] - min) * id + 0.5f, 0, 15) << 4);
}

static void encode_q4_1(block_q4_1 *restrict b, const float *restrict x, size_t n_blocks)
{
    for (size_t i = 0; i < n_blocks; i++, x += 32) {
        float min, max;
        range(x, 32, &min, &max);
        float d = (max - min) / 15.0f;
        fill_q4_1(b + i, x, d, inverse(d), min);
    }
}

/* Five bits as nibbles and high bits. */
static inline void put_5(uint8_t *q, uint8_t *high, int j, int low_value, int high_value)
{
    q[j] = (uint8_t)((low_value & 15) | (high_value & 15) << 4);
    high[j / 8] |= (uint8_t)(low_value >> 4 << j % 8);
    high[2 + j / 8] |= (uint8_t)(high_value >> 4 << j % 8);
}

void fill_q5_0(block_q5_0 *b, const float *x, float d, float id)
{
    b->d = f32_to_f16(d);
    memset(b->high, 0, sizeof b->high);
    for (int j = 0; j < 16; j++)
        put_5(b->q, b->high, j, cut(x[j] * id + 16.5f, 0, 31), cut(x[j + 16] * id + 16.5f, 0, 31));
}

static void encode_q5_0(block_q5_0 *restrict b, const float *restrict x, size_t n_blocks)
{
    for (size_t i = 0; i < n_blocks; i++, x += 32) {
        float d = largest(x, 32) / -16.0f;
        fill_q5_0(b + i, x, d, inverse(d));
    }
}

void fill_q5_1(block_q5_1 *b, const float *x, float d, float id, float min)
{
    b->d = f32_to_f16(d);
    b->m = f32_to_f16(min);
    memset(b->high, 0, sizeof b->high);
    for (int j = 0; j < 16; j++)
        put_5(b->q, b->high, j, cut((x[j] - min) * id + 0.5f, 0, 31),
              cut((x[j + 16] - min) * id + 0.5f, 0, 31));
}

static void encode_q5_1(block_q5_1 *restrict b, const float *restrict x, size_t n_blocks)
{
    for (size_t i = 0; i < n_blocks; i++, x += 32) {
        float min, max;
        range(x, 32, &min, &max);
        float d = (max - min) / 31.0f;
        fill_q5_1(b + i, x, d, inverse(d), min);
    }
}

static void encode_q8_0(block_q8_0 *restrict b, const float *restrict x, size_t n_blocks)
{
    for (size_t i = 0; i < n_blocks; i++, x += 32) {
        float d = fabsf(largest(x, 32)) / 127.0f, id = inverse(d);
        b[i].d = f32_to_f16(d);
        for (int j = 0; j < 32; j++) b[i].q[j] = (int8_t)nearest(x[j] * id, -127, 127);
    }
}

entry_table entry_table_of(const int8_t *values)
{
    entry_table t = {.values = values};
    int entry = 0;
    for (int i = 0; i < ENTRY_CELLS; i++) { /* the lower end of a cell */
        float x = (float)(i - ENTRY_CELLS / 2) / 2.0f;
        while (entry < 15 && x >= (float)(values[entry] + values[entry + 1]) / 2.0f) entry++;
        t.at[i] = (uint8_t)entry;
    }
    return t;
}

static void put_entries(uint8_t *q, const entry_table *t, const float *x, float id)
{
    for (int j = 0; j < 16; j++)
        q[j] = (uint8_t)(entry_of(t, x[j] * id) | entry_of(t, x[j + 16] * id) << 4);
}

void fill_iq4_nl(block_iq4_nl *b, const entry_table *t, const float *x, float d)
{
    b->d = f32_to_f16(d);
    put_entries(b->q, t, x, inverse(d));
}

static void encode_iq4_nl(block_iq4_nl *restrict b, const float *restrict x, size_t n_blocks)
{
    const entry_table t = entry_table_of(block_iq4_values);
    for (size_t i = 0; i < n_blocks; i++, x += 32)
        fill_iq4_nl(b + i, &t, x, largest(x, 32) / (float)block_iq4_values[0]);
}

/* The entry of E2M1 that is nearest to x; the first of equals. */
static int nearest_mxfp4(float x)
{
    int best = 0;
    for (int i = 1; i < 16; i++)
        if (fabsf((float)block_mxfp4_values[i] - x) < fabsf((float)block_mxfp4_values[best] - x))
            best = i;
    return best;
}

static void encode_mxfp4(block_mxfp4 *restrict b, const float *restrict x, size_t n_blocks)
{
    for (size_t i = 0; i < n_blocks; i++, x += 32) {
        /* The largest power of two of E2M1 is 4 = 2^2: the largest value lands in [4, 8). */
        float max = fabsf(largest(x, 32));
        int exponent = 0;
        if (max > 0.0f) exponent = ilogbf(fminf(max, FLT_MAX)) - 2 + 127;
        b[i].e = (uint8_t)(exponent < 0 ? 0 : exponent > 254 ? 254 : exponent);
        float id = 1.0f / e8m0_half_to_f32(b[i].e);
        for (int j = 0; j < 16; j++)
            b[i].q[j] = (uint8_t)(nearest_mxfp4(x[j] * id) | nearest_mxfp4(x[j + 16] * id) << 4);
    }
}

/* ---- cerium's own: blocks of 128 ---- */

void fill_q4_w(block_q4_w *b, const entry_table *t, const float *x, float d)
{
    b->d = f32_to_f16(d);
    for (int run = 0; run < 4; run++)
        put_entries(b->q + run * 16, t, x + run * 32, inverse(f16_to_f32(b->d)));
}

static void encode_q4_w(block_q4_w *restrict b, const float *restrict x, size_t n_blocks)
{
    const entry_table t = entry_table_of(block_q4_w_values);
    for (size_t i = 0; i < n_blocks; i++, x += 128)
        fill_q4_w(b + i, &t, x, largest(x, 128) / (float)block_q4_w_values[0]);
}

static void encode_q8_w(block_q8_w *restrict b, const float *restrict x, size_t n_blocks)
{
    for (size_t i = 0; i < n_blocks; i++, x += 128) {
        float d = fabsf(largest(x, 128)) / 127.0f, id = inverse(d);
        b[i].d = f32_to_f16(d);
        for (int j = 0; j < 128; j++) b[i].q[j] = (int8_t)nearest(x[j] * id, -127, 127);
    }
}

/* ---- K-quants: blocks of 256 ---- */

k_scales k_scales_round(const float scale[8], const float min[8])
{
    k_scales s;
    s.d = f32_to_f16(largest(scale, 8) / 63.0f);
    s.dmin = f32_to_f16(largest(min, 8) / 63.0f);
    float d = f16_to_f32(s.d), dmin = f16_to_f32(s.dmin);
    for (int run = 0; run < 8; run++) {
        s.scale[run] = (uint8_t)nearest(scale[run] * inverse(d), 0, 63);
        s.min[run] = (uint8_t)nearest(min[run] * inverse(dmin), 0, 63);
    }
    return s;
}

/* Scales and minima of eight runs of 32 for values 0 .. levels. */
static k_scales k_scales_of(const float *x, float levels)
{
    float scale[8], min[8];
    for (int run = 0; run < 8; run++) {
        float low, high;
        range(x + run * 32, 32, &low, &high);
        if (!(low < 0.0f)) low = 0.0f; /* the stored minimum cannot be positive */
        scale[run] = high > low ? (high - low) / levels : 0.0f;
        min[run] = -low;
    }
    return k_scales_round(scale, min);
}

static void k_pack(uint8_t *packed, const k_scales *s)
{
    for (int j = 0; j < 4; j++) {
        packed[j] = (uint8_t)(s->scale[j] | (s->scale[j + 4] >> 4) << 6);
        packed[j + 4] = (uint8_t)(s->min[j] | (s->min[j + 4] >> 4) << 6);
        packed[j + 8] = (uint8_t)((s->scale[j + 4] & 15) | (s->min[j + 4] & 15) << 4);
    }
}

void fill_q4_k(block_q4_k *b, const float *x, const k_scales *s)
{
    b->d = s->d;
    b->dmin = s->dmin;
    k_pack(b->scales, s);
    memset(b->q, 0, sizeof b->q);
    for (int run = 0; run < 8; run++) {
        const float min = f16_to_f32(s->dmin) * s->min[run];
        const float id = inverse(f16_to_f32(s->d) * s->scale[run]);
        for (int j = 0; j < 32; j++) {
            int q = nearest((x[run * 32 + j] + min) * id, 0, 15);
            b->q[run / 2 * 32 + j] |= (uint8_t)(q << run % 2 * 4);
        }
    }
}

void fill_q5_k(block_q5_k *b, const float *x, const k_scales *s)
{
    b->d = s->d;
    b->dmin = s->dmin;
    k_pack(b->scales, s);
    memset(b->q, 0, sizeof b->q);
    memset(b->high, 0, sizeof b->high);
    for (int run = 0; run < 8; run++) {
        const float min = f16_to_f32(s->dmin) * s->min[run];
        const float id = inverse(f16_to_f32(s->d) * s->scale[run]);
        for (int j = 0; j < 32; j++) {
            int q = nearest((x[run * 32 + j] + min) * id, 0, 31);
            b->q[run / 2 * 32 + j] |= (uint8_t)((q & 15) << run % 2 * 4);
            b->high[j] |= (uint8_t)(q >> 4 << run);
        }
    }
}

void fill_q6_k(block_q6_k *b, const float *x, float d, const int8_t scales[16])
{
    b->d = f32_to_f16(d);
    d = f16_to_f32(b->d);
    memcpy(b->scales, scales, sizeof b->scales);
    memset(b->low, 0, sizeof b->low);
    memset(b->high, 0, sizeof b->high);
    for (int j = 0; j < 256; j++) {
        int half = j / 128, r = j / 32 % 4;
        int q = nearest(x[j] * inverse(d * scales[j / 16]), -32, 31) + 32;
        b->low[half * 64 + r % 2 * 32 + j % 32] |= (uint8_t)((q & 15) << r / 2 * 4);
        b->high[half * 32 + j % 32] |= (uint8_t)(q >> 4 << 2 * r);
    }
}

void fill_iq4_xs(block_iq4_xs *b, const entry_table *t, const float *x, float d,
                 const int8_t scales[8])
{
    b->d = f32_to_f16(d);
    d = f16_to_f32(b->d);
    b->scales_high = 0;
    memset(b->scales_low, 0, sizeof b->scales_low);
    for (int run = 0; run < 8; run++) {
        int s = scales[run] + 32;
        b->scales_low[run / 2] |= (uint8_t)((s & 15) << run % 2 * 4);
        b->scales_high |= (uint16_t)(s >> 4 << 2 * run);
        put_entries(b->q + run * 16, t, x + run * 32, inverse(d * scales[run]));
    }
}

float small_scales(int8_t *small, const float *scales, int n, int levels)
{
    float d = f16_to_f32(f32_to_f16(largest(scales, n) / (float)-levels));
    for (int i = 0; i < n; i++)
        small[i] = (int8_t)nearest(scales[i] * inverse(d), -levels, levels - 1);
    return d;
}

static void encode_q4_k(block_q4_k *restrict b, const float *restrict x, size_t n_blocks)
{
    for (size_t i = 0; i < n_blocks; i++, x += 256) {
        k_scales s = k_scales_of(x, 15.0f);
        fill_q4_k(b + i, x, &s);
    }
}

static void encode_q5_k(block_q5_k *restrict b, const float *restrict x, size_t n_blocks)
{
    for (size_t i = 0; i < n_blocks; i++, x += 256) {
        k_scales s = k_scales_of(x, 31.0f);
        fill_q5_k(b + i, x, &s);
    }
}

static void encode_q6_k(block_q6_k *restrict b, const float *restrict x, size_t n_blocks)
{
    for (size_t i = 0; i < n_blocks; i++, x += 256) {
        float scale[16];
        int8_t small[16];
        for (int k = 0; k < 16; k++) scale[k] = largest(x + k * 16, 16) / -32.0f;
        float d = small_scales(small, scale, 16, 128);
        fill_q6_k(b + i, x, d, small);
    }
}

static void encode_iq4_xs(block_iq4_xs *restrict b, const float *restrict x, size_t n_blocks)
{
    const entry_table t = entry_table_of(block_iq4_values);
    for (size_t i = 0; i < n_blocks; i++, x += 256) {
        float scale[8];
        int8_t small[8];
        for (int run = 0; run < 8; run++)
            scale[run] = largest(x + run * 32, 32) / (float)block_iq4_values[0];
        float d = small_scales(small, scale, 8, 32);
        fill_iq4_xs(b + i, &t, x, d, small);
    }
}

static void encode_halves(uint16_t *restrict h, const float *restrict x, size_t n,
                          uint16_t (*round_to)(float))
{
    for (size_t i = 0; i < n; i++) h[i] = round_to(x[i]);
}

/* ---- Q3_K and ternary ---- */

void fill_q3_k(block_q3_k *b, const float *x, float d, const int8_t scales[16])
{
    *b = (block_q3_k){.d = f32_to_f16(d)};
    d = f16_to_f32(b->d);
    for (int i = 0; i < 256; i++) {
        const int run = i / 32, at = i % 32;
        const int q = nearest(x[i] * inverse(d * (float)scales[i / 16]), -4, 3) + 4;
        b->low[run / 4 * 32 + at] |= (uint8_t)((q & 3) << (run % 4 * 2));
        b->high[at] |= (uint8_t)(q >> 2 << run);
    }
    for (int s = 0; s < 16; s++) {
        const int v = scales[s] + 32;
        b->scales[s % 8] |= (uint8_t)((v & 15) << (s / 8 * 4));
        b->scales[8 + s % 4] |= (uint8_t)(v >> 4 << (s / 4 * 2));
    }
}

static void encode_q3_k(block_q3_k *b, const float *x)
{
    float scale[16];
    int8_t small[16];
    for (int k = 0; k < 16; k++) scale[k] = largest(x + 16 * k, 16) / -4.0f;
    const float d = small_scales(small, scale, 16, 32);
    fill_q3_k(b, x, d, small);
}

/* Digits, the first at the front, as a fraction of 256 rounded up: so each can be recovered. */
static uint8_t byte_of_digits(const uint8_t *digits, int n, int stride)
{
    int value = 0;
    for (int i = 0; i < 5; i++) value = value * 3 + (i < n ? digits[i * stride] : 0);
    return (uint8_t)((value * 256 + 242) / 243);
}

static void encode_ternary(block_type type, void *to, const float *x)
{
    const float d = fabsf(largest(x, 256)), id = inverse(d);
    uint8_t digits[256];
    for (int i = 0; i < 256; i++) digits[i] = (uint8_t)(nearest(x[i] * id, -1, 1) + 1);
    if (type == BLOCK_TQ1_0) {
        block_tq1_0 *b = to;
        for (int m = 0; m < 32; m++) b->q[m] = byte_of_digits(digits + m, 5, 32);
        for (int m = 0; m < 16; m++) b->q[32 + m] = byte_of_digits(digits + 160 + m, 5, 16);
        for (int m = 0; m < 4; m++) b->last[m] = byte_of_digits(digits + 240 + m, 4, 4);
        b->d = f32_to_f16(d);
        return;
    }
    block_tq2_0 *b = to;
    *b = (block_tq2_0){.d = f32_to_f16(d)};
    for (int i = 0; i < 256; i++)
        b->q[i / 128 * 32 + i % 32] |= (uint8_t)(digits[i] << (i / 32 % 4 * 2));
}

static void encode_narrow(block_type type, void *restrict blocks, const float *restrict in,
                          size_t n_blocks)
{
    uint8_t *to = blocks;
    for (size_t i = 0; i < n_blocks; i++, to += block_bytes(type), in += 256) {
        if (type == BLOCK_Q3_K) encode_q3_k((block_q3_k *)(void *)to, in);
        else encode_ternary(type, to, in);
    }
}

bool block_is_written(block_type type)
{
    if (block_has_two_bits(type)) return type == BLOCK_TQ1_0 || type == BLOCK_TQ2_0;
    if (type == BLOCK_Q2_K || type == BLOCK_NVFP4 || type == BLOCK_I64) return false;
    return !block_levels_of(type) || type == BLOCK_Q3_K;
}

void block_encode(block_type type, void *restrict blocks, const float *restrict in, size_t n)
{
    CHECK(block_is_written(type) && block_values(type) != 0 && n % block_values(type) == 0);
    size_t n_blocks = n / block_values(type);
    /* clang-format off */
    switch (type) {
    case BLOCK_I64: /* block_is_written() */
    case BLOCK_NVFP4:
    case BLOCK_PQ2_0:
    case BLOCK_PTQ1_0:
    case BLOCK_Q1_0:
    case BLOCK_Q2_0:
    case BLOCK_Q2_K:
    case BLOCK_IQ2_XXS:
    case BLOCK_IQ2_XS:
    case BLOCK_IQ2_S:
    case BLOCK_IQ3_XXS:
    case BLOCK_IQ1_S:
    case BLOCK_IQ1_M:
    case BLOCK_IQ3_S: break;
    case BLOCK_F32: memcpy(blocks, in, n * sizeof *in); break;
    case BLOCK_F16: encode_halves(blocks, in, n, f32_to_f16); break;
    case BLOCK_BF16: encode_halves(blocks, in, n, f32_to_bf16); break;
    case BLOCK_Q4_0: encode_q4_0(blocks, in, n_blocks); break;
    case BLOCK_Q4_1: encode_q4_1(blocks, in, n_blocks); break;
    case BLOCK_Q5_0: encode_q5_0(blocks, in, n_blocks); break;
    case BLOCK_Q5_1: encode_q5_1(blocks, in, n_blocks); break;
    case BLOCK_Q8_0: encode_q8_0(blocks, in, n_blocks); break;
    case BLOCK_Q3_K:
    case BLOCK_TQ1_0:
    case BLOCK_TQ2_0: encode_narrow(type, blocks, in, n_blocks); break;
    case BLOCK_Q4_K: encode_q4_k(blocks, in, n_blocks); break;
    case BLOCK_Q5_K: encode_q5_k(blocks, in, n_blocks); break;
    case BLOCK_Q6_K: encode_q6_k(blocks, in, n_blocks); break;
    case BLOCK_IQ4_NL: encode_iq4_nl(blocks, in, n_blocks); break;
    case BLOCK_IQ4_XS: encode_iq4_xs(blocks, in, n_blocks); break;
    case BLOCK_MXFP4: encode_mxfp4(blocks, in, n_blocks); break;
    case BLOCK_Q4_W: encode_q4_w(blocks, in, n_blocks); break;
    case BLOCK_Q8_W: encode_q8_w(blocks, in, n_blocks); break;
    }
    /* clang-format on */
}
