/* attention_f32_avx2.c - attention over keys and values in F32, with vectors of eight. */
#include "kernels/x86/attend_avx2.h"

typedef float kv_value;
#define kv_float(x) (x)
#define vf_values _mm256_loadu_ps

#include "kernels/attend.h"

void kernel_attention_f32_init_avx2(kernel_table *table)
{
    table->attend[KERNEL_KV_F32] = attend;
}
