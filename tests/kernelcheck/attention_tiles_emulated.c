/* attention_tiles_emulated.c - attention on tiles of AMX as portable C; see emulated.h. */
#include "emulated.h"

#ifdef HAVE_SIMDE
#include "tile_machine.h"

#include "lanes_emulated.h"

#define kernel_attention_i8_init_amx attention_i8_init_amx_emulated
#include "kernels/x86/attention_i8_amx.c"

void kc_emulated_attention_tiles_init(kernel_table *table)
{
    table->attend[KERNEL_KV_I8] = attend_i8_tiles;
}

void kc_emulated_attention_choice_init(kernel_table *table, uint32_t n_rows)
{
    kernel_table below = {.name = NULL};
    kc_emulated_attention_init(&below);
    chosen.few = below.attend[KERNEL_KV_I8];
    chosen.rows_min = n_rows;
    table->attend[KERNEL_KV_I8] = attend_i8_amx;
}
#else
void kc_emulated_attention_tiles_init(kernel_table *table) { (void)table; }
void kc_emulated_attention_choice_init(kernel_table *table, uint32_t n_rows)
{
    (void)table;
    (void)n_rows;
}
#endif
