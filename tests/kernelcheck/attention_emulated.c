/* attention_emulated.c - attention on 8 bits of AVX-512 VNNI as portable C; see emulated.h. */
#include "emulated.h"

#ifdef HAVE_SIMDE

static simde__m512i lanes_cvtps_epi32(simde__m512 v)
{
    float in[16];
    int32_t out[16];
    memcpy(in, &v, sizeof in);
    for (int i = 0; i < 16; i++) out[i] = (int32_t)rintf(in[i]);
    return simde_mm512_loadu_si512(out);
}

static simde__m128i lanes_cvtepi32_epi8(simde__m512i v)
{
    int32_t in[16];
    uint8_t out[16];
    memcpy(in, &v, sizeof in);
    for (int i = 0; i < 16; i++) out[i] = (uint8_t)in[i];
    return simde_mm_loadu_si128((const simde__m128i *)(const void *)out);
}

static simde__m512 lanes_permute_ps(simde__m512 v, int order)
{
    float in[16], out[16];
    memcpy(in, &v, sizeof in);
    for (int i = 0; i < 16; i++) out[i] = in[i / 4 * 4 + (order >> i % 4 * 2 & 3)];
    return simde_mm512_loadu_ps(out);
}

#undef _mm512_permute_ps
#define _mm512_cvtps_epi32   lanes_cvtps_epi32
#define _mm512_cvtepi32_epi8 lanes_cvtepi32_epi8
#define _mm512_permute_ps    lanes_permute_ps
#define __mmask16            uint16_t

#define kernel_attention_i8_init_avx512vnni attention_i8_init_emulated
#include "kernels/x86/attention_i8_avx512vnni.c"

void kc_emulated_attention_init(kernel_table *table) { attention_i8_init_emulated(table); }
#else
void kc_emulated_attention_init(kernel_table *table) { (void)table; }
#endif
