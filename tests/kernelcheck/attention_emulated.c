/* attention_emulated.c - attention on 8 bits of AVX-512 VNNI as portable C; see emulated.h. */
#include "emulated.h"

#ifdef HAVE_SIMDE

#include "lanes_emulated.h"

#define kernel_attention_i8_init_avx512vnni attention_i8_init_emulated
#include "kernels/x86/attention_i8_avx512vnni.c"

void kc_emulated_attention_init(kernel_table *table) { attention_i8_init_emulated(table); }
#else
void kc_emulated_attention_init(kernel_table *table) { (void)table; }
#endif
