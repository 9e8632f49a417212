/* test_blocks.h - blocks of every format, for the checks of weights. */
#ifndef TEST_BLOCKS_H
#define TEST_BLOCKS_H

#include "kernelcheck.h"

typedef enum {
    TEST_RANDOM = 0,    /* any quants, scales of ordinary size */
    TEST_EXTREMES = 1,  /* one extreme byte everywhere, the largest scales: the bounds of sums */
    TEST_MIXED = 2,     /* extreme bytes at random */
    TEST_ZEROS = 3,
    TEST_DENORMALS = 4, /* scales that are denormal in half precision */
    TEST_MODE_END = 5,
} test_mode;

/* All types, for loops. */
extern const block_type test_types[];
extern const size_t n_test_types;

/* Fill blocks of type with n values; every value decodes to a finite number. */
void test_blocks_fill(block_type type, void *blocks, size_t n, test_mode mode);
/* Activations for them: kernel_act groups in the type's form, or floats. */
void test_acts_fill(block_type type, kernel_act *acts, uint32_t n_cols, uint32_t n_tokens,
                    test_mode mode);
void test_floats_fill(float *x, size_t n, test_mode mode);

#endif
