/* emulated.c - the AVX-512 VNNI kernels as portable C, so that every machine checks their bits. */
#include "emulated.h"

#ifdef HAVE_SIMDE

/* Sixteen or thirty-two lanes in, as many out; element by element. */
#define LANES(name, result, operand, from_type, to_type, n, expression)                            \
    static result name(operand v)                                                                  \
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

static simde__m512i lanes_srai_epi32(simde__m512i v, unsigned count)
{
    int32_t lane[16];
    memcpy(lane, &v, sizeof lane);
    for (int i = 0; i < 16; i++) lane[i] >>= count;
    memcpy(&v, lane, sizeof lane);
    return v;
}

/* SIMDe wants a constant, which for clang 14 a counter of an unrolled loop is not. */
static simde__m512i lanes_srli_epi16(simde__m512i v, unsigned count)
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

#define matmul_init_avx512vnni emulated_init_avx512vnni
#include "kernels/x86/matmul_avx512vnni.c"

bool kc_emulated_init(kernel_table *table)
{
    *table = (kernel_table){.name = "emulated"};
    emulated_init_avx512vnni(table);
    kc_emulated_vector_init(table);
    kc_emulated_attention_init(table);
    return true;
}
#else
bool kc_emulated_init(kernel_table *table)
{
    (void)table;
    return false;
}
#endif
