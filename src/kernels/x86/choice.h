/* choice.h - which of two kernels is faster from how many tokens or rows on, by measurement. */
#ifndef KERNELS_X86_CHOICE_H
#define KERNELS_X86_CHOICE_H

#include "kernels/kernels.h"

enum { CHOICE_TOKENS_MAX = 16 }; /* more are not tried */

/* The fewest tokens with which many is faster than few, weights in a cache; CHOICE_TOKENS_MAX + 1
 * when it never is.  Both kernels give the same bits, so what is chosen, and how noisy the
 * measurement was, is seen in time alone.  Takes some ten microseconds. */
uint32_t matmul_tokens_min(block_type type, kernel_matmul_fn *few, kernel_matmul_fn *many);

/* The same of attention on 8 bits, and rows of queries that share pages. */
uint32_t attend_rows_min(kernel_attend_fn *few, kernel_attend_fn *many);

#endif
