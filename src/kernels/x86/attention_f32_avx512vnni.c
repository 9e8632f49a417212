/* attention_f32_avx512vnni.c - attention over keys and values in F32, with vectors of sixteen. */
#include "kernels/x86/attend_avx512.h"

typedef float kv_value;
#define vf_values _mm512_loadu_ps

/* acc[lanes] += coef[n] . m[n][lanes] for fewer lanes than a vector and one row. */
static void accumulate_tail(float *restrict acc, const float *restrict coef,
                            const float *restrict m, size_t m_stride, uint32_t n, uint32_t lanes)
{
    const __mmask16 k = lanes_below(lanes);
    __m512 sum = _mm512_maskz_loadu_ps(k, acc);
    for (uint32_t i = 0; i < n; i++, m += m_stride) {
        __m512 lane = _mm512_maskz_loadu_ps(k, m);
        sum = _mm512_fmadd_ps(_mm512_set1_ps(coef[i]), lane, sum);
    }
    _mm512_mask_storeu_ps(acc, k, sum);
}

#include "kernels/attend.h"

void kernel_attention_f32_init_avx512vnni(kernel_table *table)
{
    table->attend[KERNEL_KV_F32] = attend;
}
