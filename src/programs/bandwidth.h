/* bandwidth.h - how fast this machine reads memory: the bound of decoding. */
#ifndef PROGRAMS_BANDWIDTH_H
#define PROGRAMS_BANDWIDTH_H

#include "base/base.h"

/* Bytes a second at which n_threads, each on its own core, repeatedly read their parts of a working
 * set of `bytes` in total; the median of n_runs. 0 without memory. */
double bandwidth_read(size_t bytes, uint32_t n_threads, uint32_t n_runs);

/* Size of the data caches: of one core, and the last level that cores share; 0 when unknown. */
void bandwidth_caches(size_t *l2_bytes, size_t *l3_bytes);

uint64_t bandwidth_sum_avx2(const uint64_t *words, size_t n);

double median(double *values, size_t n); /* sorts them; n >= 1 */
double percentile(double *sorted, size_t n, double p);

#endif
