/* blocks_half.c - half precision: IEEE's, bfloat16, and the scales of MXFP4 and
 * NVFP4. */
#include "gguf/blocks.h"

static inline float float_of_bits(uint32_t bits)
{
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

static inline uint32_t bits_of_float(float f)
{
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    return bits;
}

float f16_to_f32(uint16_t h)
{
    uint32_t sign = (uint32_t)(h & 0x8000) << 16, exponent = h >> 10 & 0x1f, fraction = h & 0x3ff;
    if (exponent == 0x1f) return float_of_bits(sign | 0x7f800000 | fraction << 13);
    if (exponent) return float_of_bits(sign | (exponent + 112) << 23 | fraction << 13);
    /* Denormal: fraction * 2^-24, exact. */
    float f = (float)fraction * 0x1p-24f;
    return sign ? -f : f;
}

uint16_t f32_to_f16(float f)
{
    uint32_t bits = bits_of_float(f), magnitude = bits & 0x7fffffff;
    uint16_t sign = (uint16_t)(bits >> 16 & 0x8000);
    if (magnitude > 0x7f800000) { /* NaN: keep the part of its payload that fits, and keep it a
                                     NaN */
        uint32_t fraction = magnitude >> 13 & 0x3ff;
        return sign | 0x7c00 | (uint16_t)(fraction ? fraction : 0x200);
    }
    if (magnitude >= 0x477ff000) return sign | 0x7c00; /* 65520 and above round to infinity */
    if (magnitude < 0x38800000) {                      /* below 2^-14: a denormal or zero */
        /* Adding 0.5 leaves 2^-24 as the last place, so the addition itself rounds to even. */
        float shifted = float_of_bits(magnitude) + 0.5f;
        return sign | (uint16_t)(bits_of_float(shifted) - 0x3f000000);
    }
    uint32_t rounded = magnitude + 0xfff + (magnitude >> 13 & 1);
    return sign | (uint16_t)((rounded - 0x38000000) >> 13);
}

float bf16_to_f32(uint16_t h)
{
    return float_of_bits((uint32_t)h << 16);
}

uint16_t f32_to_bf16(float f)
{
    uint32_t bits = bits_of_float(f);
    if ((bits & 0x7fffffff) > 0x7f800000) return (uint16_t)(bits >> 16) | 0x40; /* quiet NaN */
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

float e8m0_half_to_f32(uint8_t e)
{
    return float_of_bits(e < 2 ? UINT32_C(0x00200000) << e : (uint32_t)(e - 1) << 23);
}

float ue4m3_half_to_f32(uint8_t e)
{
    if (e == 0x7f) return 0.0f;
    /* The same fields as a half, whose exponents begin 8 lower. */
    return f16_to_f32((uint16_t)((e & 0x7f) << 7)) * 0x1p7f;
}
