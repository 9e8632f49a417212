/* emulated.h - AVX-512 intrinsics as portable C, for *emulated.c, each of which includes kernels.
 *
 * SIMDe (Debian: libsimde-dev) implements most intrinsics in plain C.  Missing ones are here, and
 * so is fma, which must round once.  Include it first: it includes inline functions that call
 * malloc, which our headers ban. */
#ifndef EMULATED_H
#define EMULATED_H

#if defined(__x86_64__) && __has_include(<simde/x86/avx512.h>)
#define HAVE_SIMDE
#define KERNELS_EMULATED
#define SIMDE_ENABLE_NATIVE_ALIASES
#define SIMDE_NO_INLINE /* small code, quickly compiled */
/* Counts of shifts become constants by inlining, which clang does too late for SIMDe. */
#define SIMDE_NO_CHECK_IMMEDIATE_CONSTANT
#include <simde/x86/avx512.h>
#endif

#include "kernelcheck.h"

#include <math.h>

#ifdef HAVE_SIMDE

static inline simde__m512 lanes_fmadd_ps(simde__m512 a, simde__m512 b, simde__m512 c)
{
    float x[16], y[16], z[16];
    memcpy(x, &a, sizeof x);
    memcpy(y, &b, sizeof y);
    memcpy(z, &c, sizeof z);
    for (int i = 0; i < 16; i++) z[i] = fmaf(x[i], y[i], z[i]);
    memcpy(&c, z, sizeof c);
    return c;
}

static inline simde__m512 lanes_fnmadd_ps(simde__m512 a, simde__m512 b, simde__m512 c)
{
    return lanes_fmadd_ps(simde_mm512_xor_ps(a, simde_mm512_set1_ps(-0.0f)), b, c);
}

static inline simde__m512 lanes_cvtph_ps(simde__m256i v)
{
    uint16_t half[16];
    float x[16];
    memcpy(half, &v, sizeof half);
    for (int i = 0; i < 16; i++) x[i] = f16_to_f32(half[i]);
    return simde_mm512_loadu_ps(x);
}

#undef _mm512_fmadd_ps
#undef _mm512_fnmadd_ps
#define _mm512_fmadd_ps  lanes_fmadd_ps
#define _mm512_fnmadd_ps lanes_fnmadd_ps
#define _mm512_cvtph_ps  lanes_cvtph_ps

/* Sixteen or thirty-two lanes in, as many out; element by element. */
#define LANES(name, result, operand, from_type, to_type, n, expression)                            \
    static inline result name(operand v)                                                          \
    {                                                                                              \
        from_type in[n];                                                                           \
        to_type out[n];                                                                            \
        result r;                                                                                  \
        memcpy(in, &v, sizeof in);                                                                 \
        for (int i = 0; i < n; i++) out[i] = expression(in[i]);                                    \
        memcpy(&r, out, sizeof r);                                                                 \
        return r;                                                                                  \
    }
LANES(lanes_cvtepi32_ps, simde__m512, simde__m512i, int32_t, float, 16, (float))
LANES(lanes_cvtepu8_epi32, simde__m512i, simde__m128i, uint8_t, int32_t, 16, )
LANES(lanes_cvtepi16_epi32, simde__m512i, simde__m256i, int16_t, int32_t, 16, )
LANES(lanes_cvtepu16_epi32, simde__m512i, simde__m256i, uint16_t, int32_t, 16, )
LANES(lanes_cvtepu8_epi16, simde__m512i, simde__m256i, uint8_t, int16_t, 32, )

static inline simde__m512i lanes_srai_epi32(simde__m512i v, unsigned count)
{
    int32_t lane[16];
    memcpy(lane, &v, sizeof lane);
    for (int i = 0; i < 16; i++) lane[i] >>= count;
    memcpy(&v, lane, sizeof lane);
    return v;
}

static inline simde__m512i lanes_cvtps_epi32(simde__m512 v)
{
    float in[16];
    int32_t out[16];
    memcpy(in, &v, sizeof in);
    for (int i = 0; i < 16; i++) out[i] = (int32_t)rintf(in[i]);
    return simde_mm512_loadu_si512(out);
}

static inline simde__m128i lanes_cvtepi32_epi8(simde__m512i v)
{
    int32_t in[16];
    uint8_t out[16];
    memcpy(in, &v, sizeof in);
    for (int i = 0; i < 16; i++) out[i] = (uint8_t)in[i];
    return simde_mm_loadu_si128((const simde__m128i *)(const void *)out);
}

/* SIMDe requires a constant; for clang 14 a counter of an unrolled loop is not one. */
static inline simde__m512i lanes_srli_epi16(simde__m512i v, unsigned count)
{
    uint16_t lane[32];
    memcpy(lane, &v, sizeof lane);
    for (int i = 0; i < 32; i++) lane[i] = (uint16_t)(lane[i] >> count);
    memcpy(&v, lane, sizeof lane);
    return v;
}

#undef _mm512_srli_epi16
#define _mm512_srli_epi16    lanes_srli_epi16
#define _mm512_cvtepi32_ps   lanes_cvtepi32_ps
#define _mm512_cvtepu8_epi32 lanes_cvtepu8_epi32
#define _mm512_cvtepi16_epi32 lanes_cvtepi16_epi32
#define _mm512_cvtepu16_epi32 lanes_cvtepu16_epi32
#define _mm512_cvtepu8_epi16 lanes_cvtepu8_epi16
#define _mm512_srai_epi32    lanes_srai_epi32
#define _mm512_cvtps_epi32   lanes_cvtps_epi32
#define _mm512_cvtepi32_epi8 lanes_cvtepi32_epi8
#define __mmask16            uint16_t

#endif
#endif
