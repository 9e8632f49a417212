/* bandwidth.h - how fast this machine reads memory: the bound of decoding. */
#ifndef PROGRAMS_BANDWIDTH_H
#define PROGRAMS_BANDWIDTH_H

#include "base/base.h"

/* A working set that threads, each on its own core, read again and again, each its part. */
typedef struct {
    uint64_t *words; /* [n_threads][n_words] */
    size_t n_words;
    uint32_t n_threads;
} bandwidth_set;

/* False: no memory.  To be closed in any case. */
bool bandwidth_open(bandwidth_set *set, size_t n_bytes, uint32_t n_threads);
void bandwidth_close(bandwidth_set *set);

/* Bytes a second, the median of n_runs; 0 without memory. */
double bandwidth_measure(const bandwidth_set *set, uint32_t n_runs);

/* The same of a working set of n_bytes in total, for once. */
double bandwidth_read(size_t n_bytes, uint32_t n_threads, uint32_t n_runs);

/* Size of the data caches: of one core, and the last level that cores share; 0 when unknown. */
void bandwidth_caches(size_t *l2_bytes, size_t *l3_bytes);

uint64_t bandwidth_sum_avx2(const uint64_t *words, size_t n);

double median(double *values, size_t n); /* sorts them; n >= 1 */
double percentile(double *sorted, size_t n, double p);

#endif
