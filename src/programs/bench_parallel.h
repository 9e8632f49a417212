/* bench_parallel.h - parallel continuations: the speed of a pass with many rows. */
#ifndef PROGRAMS_BENCH_PARALLEL_H
#define PROGRAMS_BENCH_PARALLEL_H

#include "base/base.h"

enum { BENCH_PARALLEL_MAX = 64 };

/* Tokens a second of n_sessions together, each decoding n_tokens after a prompt of its own, from
 * the first token of any of them to the last of all. */
CERIUM_CHECKED int bench_parallel(cerium_engine *engine, uint32_t n_sessions, uint32_t n_tokens,
                                  double *tokens_per_s, cerium_error *err);

#endif
