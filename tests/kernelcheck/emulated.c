/* emulated.c - the AVX-512 VNNI kernels as portable C, so that every machine checks their bits. */
#include "emulated.h"

#ifdef HAVE_SIMDE

#define matmul_init_avx512vnni emulated_init_avx512vnni
#define matmul_init_wide_avx512vnni emulated_init_wide_avx512vnni
#define quantize_init_avx512vnni emulated_quantize_init_avx512vnni
#include "kernels/x86/matmul_avx512vnni.c"
#include "kernels/x86/matmul_wide_avx512vnni.c"
#include "kernels/x86/quantize_avx512vnni.c"

bool kc_emulated_init(kernel_table *table)
{
    *table = (kernel_table){.name = "emulated avx512vnni"};
    emulated_init_avx512vnni(table, KERNEL_PANELS_APART);
    emulated_init_wide_avx512vnni(table, KERNEL_PANELS_APART);
    emulated_quantize_init_avx512vnni(table);
    kc_emulated_vector_init(table);
    kc_emulated_attention_init(table);
    return true;
}

bool kc_emulated_line_init(kernel_table *table)
{
    *table = (kernel_table){.name = "emulated avx512vnni in line"};
    emulated_init_avx512vnni(table, KERNEL_PANELS_IN_LINE);
    emulated_init_wide_avx512vnni(table, KERNEL_PANELS_IN_LINE);
    return true;
}

bool kc_emulated_ahead_init(kernel_table *table)
{
    *table = (kernel_table){.name = "emulated avx512vnni ahead"};
    emulated_init_avx512vnni(table, KERNEL_PANELS_AHEAD);
    return true;
}
#else
bool kc_emulated_ahead_init(kernel_table *table)
{
    (void)table;
    return false;
}

bool kc_emulated_line_init(kernel_table *table)
{
    (void)table;
    return false;
}

bool kc_emulated_init(kernel_table *table)
{
    (void)table;
    return false;
}
#endif
