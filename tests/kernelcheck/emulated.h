/* emulated.h - AVX-512 intrinsics as portable C, for *emulated.c, each of which includes kernels.
 *
 * SIMDe (Debian: libsimde-dev) gives most intrinsics a meaning in plain C.  What it lacks is
 * here, and so is fma, which must round once.  Include it first: what it includes has inline
 * functions that call malloc, which our headers ban. */
#ifndef EMULATED_H
#define EMULATED_H

#if __has_include(<simde/x86/avx512.h>)
#define HAVE_SIMDE
#define KERNELS_EMULATED
#define SIMDE_ENABLE_NATIVE_ALIASES
#define SIMDE_NO_INLINE /* small code, quickly compiled */
/* Counts of shifts are constants once functions are inlined, which clang does too late to see. */
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

#endif
#endif
