/* blocks_encode.c - floats to blocks by the simple rule of each type.
 *
 * Q4_0 to Q8_0 and MXFP4 are ggml's reference rules; K-quants and IQ4 take the plain minimum and
 * maximum of each run where ggml searches.  Good enough for test and benchmark models; models
 * for people are quantized with a search. */
#include "gguf/blocks.h"

#include <float.h>
#include <math.h>

/* x cut towards zero, in [low, high]; low for a NaN. */
static inline int cut(float x, int low, int high)
{
    if (!(x > (float)low)) return low;
    return x >= (float)high ? high : (int)x;
}

/* x to the nearest integer in [low, high], halves away from zero; low for a NaN. */
static inline int nearest(float x, int low, int high)
{
    return cut(roundf(x), low, high);
}

static inline float inverse(float x)
{
    return x != 0.0f ? 1.0f / x : 0.0f;
}

/* The value of largest magnitude, with its sign. */
static float largest(const float *x, int n)
{
    float max = 0.0f;
    for (int i = 0; i < n; i++)
        if (fabsf(x[i]) > fabsf(max)) max = x[i];
    return max;
}

static void range(const float *x, int n, float *min, float *max)
{
    *min = *max = x[0];
    for (int i = 1; i < n; i++) {
        if (x[i] < *min) *min = x[i];
        if (x[i] > *max) *max = x[i];
    }
}

/* ---- blocks of 32 ---- */

static void encode_q4_0(block_q4_0 *restrict b, const float *restrict x, size_t n_blocks)
{
    for (size_t i = 0; i < n_blocks; i++, x += 32) {
        float d = largest(x, 32) / -8.0f, id = inverse(d);
        b[i].d = f32_to_f16(d);
        for (int j = 0; j < 16; j++)
            b[i].q[j] =
                (uint8_t)(cut(x[j] * id + 8.5f, 0, 15) | cut(x[j + 16] * id + 8.5f, 0, 15) << 4);
    }
}

static void encode_q4_1(block_q4_1 *restrict b, const float *restrict x, size_t n_blocks)
{
    for (size_t i = 0; i < n_blocks; i++, x += 32) {
        float min, max;
        range(x, 32, &min, &max);
        float d = (max - min) / 15.0f, id = inverse(d);
        b[i].d = f32_to_f16(d);
        b[i].m = f32_to_f16(min);
        for (int j = 0; j < 16; j++)
            b[i].q[j] = (uint8_t)(cut((x[j] - min) * id + 0.5f, 0, 15) |
                                  cut((x[j + 16] - min) * id + 0.5f, 0, 15) << 4);
    }
}

/* Five bits into nibbles and high bits. */
static inline void put_5(uint8_t *q, uint8_t *high, int j, int low_value, int high_value)
{
    q[j] = (uint8_t)((low_value & 15) | (high_value & 15) << 4);
    high[j / 8] |= (uint8_t)(low_value >> 4 << j % 8);
    high[2 + j / 8] |= (uint8_t)(high_value >> 4 << j % 8);
}

static void encode_q5_0(block_q5_0 *restrict b, const float *restrict x, size_t n_blocks)
{
    for (size_t i = 0; i < n_blocks; i++, x += 32) {
        float d = largest(x, 32) / -16.0f, id = inverse(d);
        b[i].d = f32_to_f16(d);
        memset(b[i].high, 0, sizeof b[i].high);
        for (int j = 0; j < 16; j++)
            put_5(b[i].q, b[i].high, j, cut(x[j] * id + 16.5f, 0, 31),
                  cut(x[j + 16] * id + 16.5f, 0, 31));
    }
}

static void encode_q5_1(block_q5_1 *restrict b, const float *restrict x, size_t n_blocks)
{
    for (size_t i = 0; i < n_blocks; i++, x += 32) {
        float min, max;
        range(x, 32, &min, &max);
        float d = (max - min) / 31.0f, id = inverse(d);
        b[i].d = f32_to_f16(d);
        b[i].m = f32_to_f16(min);
        memset(b[i].high, 0, sizeof b[i].high);
        for (int j = 0; j < 16; j++)
            put_5(b[i].q, b[i].high, j, cut((x[j] - min) * id + 0.5f, 0, 31),
                  cut((x[j + 16] - min) * id + 0.5f, 0, 31));
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

/* The entry of a 16-value table that is nearest to x; the first of equals. */
static int nearest_entry(const int8_t *table, float x)
{
    int best = 0;
    for (int i = 1; i < 16; i++)
        if (fabsf((float)table[i] - x) < fabsf((float)table[best] - x)) best = i;
    return best;
}

static void put_entries(uint8_t *q, const int8_t *table, const float *x, float id)
{
    for (int j = 0; j < 16; j++)
        q[j] =
            (uint8_t)(nearest_entry(table, x[j] * id) | nearest_entry(table, x[j + 16] * id) << 4);
}

static void encode_iq4_nl(block_iq4_nl *restrict b, const float *restrict x, size_t n_blocks)
{
    for (size_t i = 0; i < n_blocks; i++, x += 32) {
        float d = largest(x, 32) / (float)block_iq4_values[0];
        b[i].d = f32_to_f16(d);
        put_entries(b[i].q, block_iq4_values, x, inverse(d));
    }
}

static void encode_mxfp4(block_mxfp4 *restrict b, const float *restrict x, size_t n_blocks)
{
    for (size_t i = 0; i < n_blocks; i++, x += 32) {
        /* The largest power of two of E2M1 is 4 = 2^2: the largest value lands in [4, 8). */
        float max = fabsf(largest(x, 32));
        int exponent = 0;
        if (max > 0.0f) exponent = ilogbf(fminf(max, FLT_MAX)) - 2 + 127;
        b[i].e = (uint8_t)(exponent < 0 ? 0 : exponent > 254 ? 254 : exponent);
        put_entries(b[i].q, block_mxfp4_values, x, 1.0f / e8m0_half_to_f32(b[i].e));
    }
}

/* ---- K-quants: blocks of 256 ---- */

typedef struct {
    uint8_t scale[8], min[8]; /* 6 bits each */
    uint16_t d, dmin;
    float d_run[8], min_run[8]; /* what decoding will use */
} k_scales;

/* Scales and minima of eight runs of 32 for values 0 .. levels. */
static k_scales k_scales_of(const float *x, float levels)
{
    k_scales s;
    float scale[8], min[8], scale_max = 0.0f, min_max = 0.0f;
    for (int run = 0; run < 8; run++) {
        float low, high;
        range(x + run * 32, 32, &low, &high);
        if (low > 0.0f) low = 0.0f; /* the stored minimum cannot be positive */
        scale[run] = (high - low) / levels;
        min[run] = -low;
        if (scale[run] > scale_max) scale_max = scale[run];
        if (min[run] > min_max) min_max = min[run];
    }
    s.d = f32_to_f16(scale_max / 63.0f);
    s.dmin = f32_to_f16(min_max / 63.0f);
    float d = f16_to_f32(s.d), dmin = f16_to_f32(s.dmin);
    for (int run = 0; run < 8; run++) {
        s.scale[run] = (uint8_t)nearest(scale[run] * inverse(d), 0, 63);
        s.min[run] = (uint8_t)nearest(min[run] * inverse(dmin), 0, 63);
        s.d_run[run] = d * s.scale[run];
        s.min_run[run] = dmin * s.min[run];
    }
    return s;
}

static void k_pack(uint8_t *packed, const k_scales *s)
{
    for (int j = 0; j < 4; j++) {
        packed[j] = (uint8_t)(s->scale[j] | (s->scale[j + 4] >> 4) << 6);
        packed[j + 4] = (uint8_t)(s->min[j] | (s->min[j + 4] >> 4) << 6);
        packed[j + 8] = (uint8_t)((s->scale[j + 4] & 15) | (s->min[j + 4] & 15) << 4);
    }
}

static void encode_q4_k(block_q4_k *restrict b, const float *restrict x, size_t n_blocks)
{
    for (size_t i = 0; i < n_blocks; i++, x += 256) {
        k_scales s = k_scales_of(x, 15.0f);
        b[i].d = s.d;
        b[i].dmin = s.dmin;
        k_pack(b[i].scales, &s);
        memset(b[i].q, 0, sizeof b[i].q);
        for (int j = 0; j < 256; j++) {
            int run = j / 32;
            int q = nearest((x[j] + s.min_run[run]) * inverse(s.d_run[run]), 0, 15);
            b[i].q[run / 2 * 32 + j % 32] |= (uint8_t)(q << run % 2 * 4);
        }
    }
}

static void encode_q5_k(block_q5_k *restrict b, const float *restrict x, size_t n_blocks)
{
    for (size_t i = 0; i < n_blocks; i++, x += 256) {
        k_scales s = k_scales_of(x, 31.0f);
        b[i].d = s.d;
        b[i].dmin = s.dmin;
        k_pack(b[i].scales, &s);
        memset(b[i].q, 0, sizeof b[i].q);
        memset(b[i].high, 0, sizeof b[i].high);
        for (int j = 0; j < 256; j++) {
            int run = j / 32;
            int q = nearest((x[j] + s.min_run[run]) * inverse(s.d_run[run]), 0, 31);
            b[i].q[run / 2 * 32 + j % 32] |= (uint8_t)((q & 15) << run % 2 * 4);
            b[i].high[j % 32] |= (uint8_t)(q >> 4 << run);
        }
    }
}

static void encode_q6_k(block_q6_k *restrict b, const float *restrict x, size_t n_blocks)
{
    for (size_t i = 0; i < n_blocks; i++, x += 256) {
        float scale[16];
        for (int k = 0; k < 16; k++) scale[k] = largest(x + k * 16, 16) / -32.0f;
        b[i].d = f32_to_f16(largest(scale, 16) / -128.0f);
        float d = f16_to_f32(b[i].d);
        for (int k = 0; k < 16; k++)
            b[i].scales[k] = (int8_t)nearest(scale[k] * inverse(d), -128, 127);
        memset(b[i].low, 0, sizeof b[i].low);
        memset(b[i].high, 0, sizeof b[i].high);
        for (int j = 0; j < 256; j++) {
            int half = j / 128, r = j / 32 % 4;
            int q = nearest(x[j] * inverse(d * b[i].scales[j / 16]), -32, 31) + 32;
            b[i].low[half * 64 + r % 2 * 32 + j % 32] |= (uint8_t)((q & 15) << r / 2 * 4);
            b[i].high[half * 32 + j % 32] |= (uint8_t)(q >> 4 << 2 * r);
        }
    }
}

static void encode_iq4_xs(block_iq4_xs *restrict b, const float *restrict x, size_t n_blocks)
{
    for (size_t i = 0; i < n_blocks; i++, x += 256) {
        float scale[8];
        for (int run = 0; run < 8; run++)
            scale[run] = largest(x + run * 32, 32) / (float)block_iq4_values[0];
        b[i].d = f32_to_f16(largest(scale, 8) / -32.0f);
        b[i].scales_high = 0;
        memset(b[i].scales_low, 0, sizeof b[i].scales_low);
        float d = f16_to_f32(b[i].d);
        for (int run = 0; run < 8; run++) {
            int s = nearest(scale[run] * inverse(d), -32, 31);
            b[i].scales_low[run / 2] |= (uint8_t)(((s + 32) & 15) << run % 2 * 4);
            b[i].scales_high |= (uint16_t)((s + 32) >> 4 << 2 * run);
            put_entries(b[i].q + run * 16, block_iq4_values, x + run * 32, inverse(d * (float)s));
        }
    }
}

static void encode_halves(uint16_t *restrict h, const float *restrict x, size_t n,
                          uint16_t (*round_to)(float))
{
    for (size_t i = 0; i < n; i++) h[i] = round_to(x[i]);
}

void block_encode(block_type type, void *restrict blocks, const float *restrict in, size_t n)
{
    CHECK(block_values(type) != 0 && n % block_values(type) == 0);
    size_t n_blocks = n / block_values(type);
    /* clang-format off */
    switch (type) {
    case BLOCK_F32: memcpy(blocks, in, n * sizeof *in); break;
    case BLOCK_F16: encode_halves(blocks, in, n, f32_to_f16); break;
    case BLOCK_BF16: encode_halves(blocks, in, n, f32_to_bf16); break;
    case BLOCK_Q4_0: encode_q4_0(blocks, in, n_blocks); break;
    case BLOCK_Q4_1: encode_q4_1(blocks, in, n_blocks); break;
    case BLOCK_Q5_0: encode_q5_0(blocks, in, n_blocks); break;
    case BLOCK_Q5_1: encode_q5_1(blocks, in, n_blocks); break;
    case BLOCK_Q8_0: encode_q8_0(blocks, in, n_blocks); break;
    case BLOCK_Q4_K: encode_q4_k(blocks, in, n_blocks); break;
    case BLOCK_Q5_K: encode_q5_k(blocks, in, n_blocks); break;
    case BLOCK_Q6_K: encode_q6_k(blocks, in, n_blocks); break;
    case BLOCK_IQ4_NL: encode_iq4_nl(blocks, in, n_blocks); break;
    case BLOCK_IQ4_XS: encode_iq4_xs(blocks, in, n_blocks); break;
    case BLOCK_MXFP4: encode_mxfp4(blocks, in, n_blocks); break;
    }
    /* clang-format on */
}
