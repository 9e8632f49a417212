/* emulated_vector.c - vectors and attention of AVX-512 as portable C, for emulated.c.
 *
 * SIMDe gives most intrinsics a meaning in plain C.  What it lacks is here, and so is fma, which
 * must round once. */
#if defined(__has_include)
#if __has_include(<simde/x86/avx512.h>)
#define HAVE_SIMDE
/* Before our headers, which ban malloc: what it includes has inline functions that call it. */
#pragma GCC diagnostic ignored "-Wpsabi" /* nothing outside this file sees its vectors */
#define SIMDE_ENABLE_NATIVE_ALIASES
#include <simde/x86/avx512.h>
#endif
#endif

#include "kernelcheck.h"

#ifdef HAVE_SIMDE
#include <math.h>

static simde__m512 lanes_fmadd_ps(simde__m512 a, simde__m512 b, simde__m512 c)
{
    float x[16], y[16], z[16];
    memcpy(x, &a, sizeof x);
    memcpy(y, &b, sizeof y);
    memcpy(z, &c, sizeof z);
    for (int i = 0; i < 16; i++) z[i] = fmaf(x[i], y[i], z[i]);
    memcpy(&c, z, sizeof c);
    return c;
}

static simde__m512 lanes_fnmadd_ps(simde__m512 a, simde__m512 b, simde__m512 c)
{
    return lanes_fmadd_ps(simde_mm512_xor_ps(a, simde_mm512_set1_ps(-0.0f)), b, c);
}

static simde__m512 lanes_cvtph_ps(simde__m256i v)
{
    uint16_t half[16];
    float x[16];
    memcpy(half, &v, sizeof half);
    for (int i = 0; i < 16; i++) x[i] = f16_to_f32(half[i]);
    return simde_mm512_loadu_ps(x);
}

/* What is masked is neither read nor written: it may lie on a page that faults. */
static simde__m512 lanes_maskz_loadu_ps(uint16_t k, const float *from)
{
    float x[16];
    for (int i = 0; i < 16; i++) x[i] = k >> i & 1 ? from[i] : 0.0f;
    return simde_mm512_loadu_ps(x);
}

static void lanes_mask_storeu_ps(float *to, uint16_t k, simde__m512 v)
{
    float x[16];
    memcpy(x, &v, sizeof x);
    for (int i = 0; i < 16; i++)
        if (k >> i & 1) to[i] = x[i];
}

static simde__m256i lanes_maskz_loadu_epi16(uint16_t k, const uint16_t *from)
{
    uint16_t x[16];
    for (int i = 0; i < 16; i++) x[i] = k >> i & 1 ? from[i] : 0;
    return simde_mm256_loadu_si256((const simde__m256i *)(const void *)x);
}

#undef _mm512_fmadd_ps
#undef _mm512_fnmadd_ps
#define _mm512_fmadd_ps          lanes_fmadd_ps
#define _mm512_fnmadd_ps         lanes_fnmadd_ps
#define _mm512_cvtph_ps          lanes_cvtph_ps
#define _mm512_maskz_loadu_ps    lanes_maskz_loadu_ps
#define _mm512_mask_storeu_ps    lanes_mask_storeu_ps
#define _mm256_maskz_loadu_epi16 lanes_maskz_loadu_epi16

#define __mmask16                uint16_t

#define KERNELS_EMULATED
#define kernel_vector_init_avx512vnni    vector_init_emulated
#define kernel_attention_init_avx512vnni attention_init_emulated
#include "kernels/x86/attention_avx512vnni.c"
#include "kernels/x86/vector_avx512vnni.c"

void kc_emulated_vector_init(kernel_table *table)
{
    vector_init_emulated(table);
    attention_init_emulated(table);
}
#else
void kc_emulated_vector_init(kernel_table *table) { (void)table; }
#endif
