/* attention_f32_avx512vnni.c - attention over keys and values in F32, with vectors of sixteen. */
#include "kernels/x86/exp_avx512.h"

typedef float kv_value;
#define kv_lanes _mm512_maskz_loadu_ps
#define vf_values _mm512_loadu_ps

#include "kernels/x86/attend_avx512.h"
#include "kernels/attend.h"

void kernel_attention_f32_init_avx512vnni(kernel_table *table)
{
    table->attend[KERNEL_KV_F32] = attend;
}
