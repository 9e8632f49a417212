/* attention_avx512vnni.c - attention over keys and values in F16, with vectors of sixteen.
 *
 * Writing keys and values stays with AVX2: it is a scatter. */
#include "kernels/x86/exp_avx512.h"

typedef uint16_t kv_value;
static inline __m512 kv_lanes(__mmask16 k, const uint16_t *x)
{
    return _mm512_cvtph_ps(_mm256_maskz_loadu_epi16(k, x));
}
#include "kernels/x86/attend_avx512.h"

static inline vf vf_values(const uint16_t *x)
{
    return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(const void *)x));
}

#include "kernels/attend.h"
#include "kernels/attend_join.h"

void kernel_attention_init_avx512vnni(kernel_table *table)
{
    table->attend[KERNEL_KV_F16] = attend;
    table->attend_join = attend_join;
}
