#include "kernels/matmul.h"

void kernel_matmul_init(kernel_table *table, kernel_cpu cpu)
{
    matmul_init_ref(table);
    (void)cpu;
}
