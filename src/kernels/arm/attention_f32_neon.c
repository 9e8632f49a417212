/* attention_f32_neon.c - attention over keys and values in F32, with vectors of four. */
#include "kernels/arm/attend_neon.h"

typedef float kv_value;
#define kv_float(x) (x)
#define vf_values vld1q_f32

#include "kernels/attend.h"

void kernel_attention_f32_init_neon(kernel_table *table)
{
    table->attend[KERNEL_KV_F32] = attend;
}
