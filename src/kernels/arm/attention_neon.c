/* attention_neon.c - attention over keys and values in F16, with vectors of four. */
#include "kernels/arm/attend_neon.h"

typedef uint16_t kv_value;
#define kv_float f16_to_f32
static inline vf vf_values(const uint16_t *x)
{
    return vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(x)));
}

#include "kernels/attend.h"
#include "kernels/attend_join.h"

static inline void store_halves(uint16_t *out, vf x)
{
    vst1_u16(out, vreinterpret_u16_f16(vcvt_f16_f32(x)));
}

static void kv_write(void *restrict keys, void *restrict values, uint32_t slot,
                     const float *restrict k, const float *restrict v, uint32_t head_dim)
{
    uint16_t *key = (uint16_t *)keys + slot;
    uint16_t *value = values ? (uint16_t *)values + (size_t)slot * head_dim : NULL;
    uint32_t d = 0;
    for (; d + 4 <= head_dim; d += 4) {
        uint16_t column[4];
        if (value) store_halves(value + d, vld1q_f32(v + d));
        store_halves(column, vld1q_f32(k + d));
        for (uint32_t i = 0; i < 4; i++) key[(d + i) * KERNEL_PAGE] = column[i];
    }
    for (; d < head_dim; d++) {
        key[d * KERNEL_PAGE] = f32_to_f16(k[d]);
        if (value) value[d] = f32_to_f16(v[d]);
    }
}

void kernel_attention_init_neon(kernel_table *table)
{
    table->kv_write[KERNEL_KV_F16] = kv_write;
    table->attend[KERNEL_KV_F16] = attend;
    table->attend_join = attend_join;
}
