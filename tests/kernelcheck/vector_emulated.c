/* vector_emulated.c - vectors and attention of AVX-512 as portable C; see emulated.h. */
#include "emulated.h"

#ifdef HAVE_SIMDE

/* Masked lanes are neither read nor written: they may be on a page that faults. */
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

#define _mm512_maskz_loadu_ps    lanes_maskz_loadu_ps
#define _mm512_mask_storeu_ps    lanes_mask_storeu_ps
#define _mm256_maskz_loadu_epi16 lanes_maskz_loadu_epi16

#define kernel_vector_init_avx512vnni    vector_init_emulated
#define kernel_attention_init_avx512vnni attention_init_emulated
#define kernel_recurrent_init_avx512vnni recurrent_init_emulated
#include "kernels/x86/attention_avx512vnni.c"
#undef UNROLL
#include "kernels/x86/recurrent_avx512vnni.c"
#include "kernels/x86/vector_avx512vnni.c"

void kc_emulated_vector_init(kernel_table *table)
{
    vector_init_emulated(table);
    recurrent_init_emulated(table);
    attention_init_emulated(table);
}
#else
void kc_emulated_vector_init(kernel_table *table) { (void)table; }
#endif
