/* finite.h - whether stored weights are numbers. */
#ifndef GGUF_FINITE_H
#define GGUF_FINITE_H

#include "gguf/blocks.h"

/* Whether all values of n / block_values(type) blocks are numbers: no scale is infinite or NaN. */
bool block_is_finite(block_type type, const void *blocks, size_t n);

#endif
