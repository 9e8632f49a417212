/* attention_f32_avx2.c - attention over keys and values in F32, with vectors of eight. */
#include "kernels/x86/attend_avx2.h"

typedef float kv_value;
#define vf_values _mm256_loadu_ps

/* acc[lanes] += coef[n] . m[n][lanes] for fewer lanes than a vector and one row. */
static void accumulate_tail(float *restrict acc, const float *restrict coef,
                            const float *restrict m, size_t m_stride, uint32_t n, uint32_t lanes)
{
    for (uint32_t t = 0; t < lanes; t++) {
        float sum = acc[t];
        for (uint32_t i = 0; i < n; i++) sum = fmaf(coef[i], m[i * m_stride + t], sum);
        acc[t] = sum;
    }
}

#include "kernels/attend.h"

void kernel_attention_f32_init_avx2(kernel_table *table)
{
    table->attend[KERNEL_KV_F32] = attend;
}
