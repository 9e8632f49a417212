/* attention_emulated.c - attention on 8 bits of AVX-512 VNNI as portable C; see emulated.h. */
#include "emulated.h"

#ifdef HAVE_SIMDE

static simde__m512 lanes_permute_ps(simde__m512 v, int order)
{
    float in[16], out[16];
    memcpy(in, &v, sizeof in);
    for (int i = 0; i < 16; i++) out[i] = in[i / 4 * 4 + (order >> i % 4 * 2 & 3)];
    return simde_mm512_loadu_ps(out);
}

#undef _mm512_permute_ps
#define _mm512_permute_ps    lanes_permute_ps

#define kernel_attention_i8_init_avx512vnni attention_i8_init_emulated
#include "kernels/x86/attention_i8_avx512vnni.c"

void kc_emulated_attention_init(kernel_table *table) { attention_i8_init_emulated(table); }
#else
void kc_emulated_attention_init(kernel_table *table) { (void)table; }
#endif
