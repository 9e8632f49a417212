/* attention_avx512vnni.c - attention over keys and values in F16, with vectors of sixteen.
 *
 * Writing keys and values stays with AVX2: it is a scatter. */
#include "kernels/x86/attend_avx512.h"

typedef uint16_t kv_value;
static inline vf vf_values(const uint16_t *x)
{
    return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(const void *)x));
}

/* acc[lanes] += coef[n] . m[n][lanes] for fewer lanes than a vector and one row. */
static void accumulate_tail(float *restrict acc, const float *restrict coef,
                            const uint16_t *restrict m, size_t m_stride, uint32_t n, uint32_t lanes)
{
    const __mmask16 k = lanes_below(lanes);
    __m512 sum = _mm512_maskz_loadu_ps(k, acc);
    for (uint32_t i = 0; i < n; i++, m += m_stride) {
        __m512 lane = _mm512_cvtph_ps(_mm256_maskz_loadu_epi16(k, m));
        sum = _mm512_fmadd_ps(_mm512_set1_ps(coef[i]), lane, sum);
    }
    _mm512_mask_storeu_ps(acc, k, sum);
}

#include "kernels/attend.h"
#include "kernels/attend_join.h"

void kernel_attention_init_avx512vnni(kernel_table *table)
{
    table->attend[KERNEL_KV_F16] = attend;
    table->attend_join = attend_join;
}
