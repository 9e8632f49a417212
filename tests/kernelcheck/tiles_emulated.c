/* tiles_emulated.c - the AMX kernels as portable C: AVX-512 by SIMDe, tiles by tile_machine.c. */
#include "emulated.h"

#ifdef HAVE_SIMDE
#include "tile_machine.h"

#define matmul_init_avx512vnni      emulated_init_avx512vnni
#define matmul_init_wide_avx512vnni emulated_init_wide_avx512vnni
#define matmul_init_amx             emulated_init_amx
#include "kernels/x86/matmul_amx.c"

/* With tiles for any number of tokens: which kernel is faster does not matter here. */
bool kc_emulated_tiles_init(kernel_table *table)
{
    *table = (kernel_table){.name = "emulated amx"};
#define SET_TILES(name, type) table->matmul[type] = name##_tiles;
    AMX_MAP(SET_TILES)
#undef SET_TILES
    kc_emulated_attention_tiles_init(table);
    return true;
}

/* The table of a processor that measured n_tokens. */
bool kc_emulated_choice_init(kernel_table *table, uint32_t n_tokens)
{
    static kernel_table below;
    emulated_init_avx512vnni(&below, false);
    emulated_init_wide_avx512vnni(&below, false);
    *table = (kernel_table){.name = "emulated choice"};
#define SET_CHOICE(name, type)                                                                     \
    chosen[type].few = below.matmul[type];                                                         \
    chosen[type].many = name##_tiles;                                                              \
    chosen[type].tokens_min = n_tokens;                                                            \
    table->matmul[type] = name;
    AMX_MAP(SET_CHOICE)
#undef SET_CHOICE
    kc_emulated_attention_choice_init(table, n_tokens);
    return true;
}
#else
bool kc_emulated_tiles_init(kernel_table *table)
{
    (void)table;
    return false;
}
bool kc_emulated_choice_init(kernel_table *table, uint32_t n_tokens)
{
    (void)table;
    (void)n_tokens;
    return false;
}
#endif
