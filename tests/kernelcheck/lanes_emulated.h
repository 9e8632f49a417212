/* lanes_emulated.h - intrinsics for attention in sixteen lanes that SIMDe lacks; see emulated.h. */
#ifndef LANES_EMULATED_H
#define LANES_EMULATED_H

static inline simde__m512 lanes_permute_ps(simde__m512 v, int order)
{
    float in[16], out[16];
    memcpy(in, &v, sizeof in);
    for (int i = 0; i < 16; i++) out[i] = in[i / 4 * 4 + (order >> i % 4 * 2 & 3)];
    return simde_mm512_loadu_ps(out);
}

#undef _mm512_permute_ps
#define _mm512_permute_ps lanes_permute_ps

#endif
