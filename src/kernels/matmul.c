/* matmul.c - which matmul serves which level: each level overrides what it has. */
#include "kernels/matmul.h"

static void init_levels(kernel_table *table, kernel_cpu cpu)
{
    matmul_init_ref(table);
#if defined(__x86_64__)
    if (cpu < KERNEL_CPU_AVX2) return;
    matmul_init_avx2(table);
    matmul_init_wide_avx2(table);
    if (cpu < KERNEL_CPU_AVX512VNNI) return;
    const kernel_panel_order order = kernel_panel_order_detect();
    matmul_init_avx512vnni(table, order);
    matmul_init_wide_avx512vnni(table, order);
    quantize_init_avx512vnni(table);
    if (cpu < KERNEL_CPU_AMX) return;
    matmul_init_amx(table);
#elif defined(__aarch64__)
    if (cpu < KERNEL_CPU_NEON) return;
    matmul_init_neon(table);
    if (cpu < KERNEL_CPU_NEONDOT) return;
    matmul_init_neondot(table);
#else
    (void)cpu;
#endif
}

void kernel_matmul_init(kernel_table *table, kernel_cpu cpu)
{
    init_levels(table, cpu);
    for (uint32_t type = 0; type < BLOCK_TYPE_END; type++) {
        const block_type panel = kernel_panel_type((block_type)type);
        if (panel != (block_type)type) table->matmul[type] = table->matmul[panel];
    }
}
