/* kernelcheck.h - compare every kernel of every instruction set with the reference, bit for bit.
 *
 * A check is a function over two tables: the reference and a level.  For the reference itself both
 * are the same, and the check compares it with an independent result.  Buffers end at a page that
 * faults, and have known bytes around them, so that reads or writes outside are detected.  With
 * --bench the same checks measure; --short runs a part of the cases.
 *
 * To add a check: write kc_check_x() in check_x.c, add one line to KC_CHECK_MAP. */
#ifndef KERNELCHECK_H
#define KERNELCHECK_H

#include "kernels/kernels.h"

/* X(function): run in this order at every level */
#define KC_CHECK_MAP(X)                                                                            \
    X(kc_check_repack)                                                                             \
    X(kc_check_quantize)                                                                           \
    X(kc_check_matmul)                                                                             \
    X(kc_check_vector)                                                                             \
    X(kc_check_recurrent)                                                                          \
    X(kc_check_attention)                                                                          \
    X(kc_check_kv_i8)                                                                              \
    X(kc_check_tiles)

typedef void (*kc_fn)(void); /* any function, to compare, and to call as its real type */

#define KC_DECLARE(function) void function(const kernel_table *ref, const kernel_table *level);
KC_CHECK_MAP(KC_DECLARE)
#undef KC_DECLARE

/* True: fn is to be checked, as it is new at this level and its name was requested. */
bool kc_begin(kc_fn fn, const char *name);
/* The same for functions that are not in the table: true: its name was requested. */
bool kc_begin_named(const char *name);
/* The function has gone through its checks; prints nothing unless it failed. */
void kc_end(void);
void kc_fail(const char *format, ...) __attribute__((format(printf, 1, 2)));
bool kc_failed(void); /* since kc_begin */
bool kc_slow(void); /* this level is emulated, or time is short: run a part of the cases */

/* [size] bytes, aligned to align (a power of two, at most 4096), that end as near to a page that
 * faults as the alignment allows; filled with 0xa5.  Released by kc_release() or by the end. */
void *kc_buffer(size_t size, size_t align);
/* Check the bytes around all buffers and release them. */
void kc_release(void);

/* The same numbers in every run. */
uint32_t kc_rand(void);
static inline uint32_t kc_rand_below(uint32_t n)
{
    return (uint32_t)((uint64_t)kc_rand() * n >> 32);
}
/* Uniform in [-1, 1). */
static inline float kc_rand_float(void) { return (float)(int32_t)kc_rand() * 0x1p-31f; }

/* Fails with the first differing float if two outputs differ in a bit. */
void kc_compare(const float *want, const float *got, size_t n, const char *what);

/* Benchmarks: the best time of one call, and amount / time in units of 10^9 ("GB/s", "Gop/s"). */
bool kc_bench_wanted(void);
bool kc_benching(void); /* requested, and the function passed */
void kc_bench_result(const char *what, double ns, double amount, const char *unit);
#define KC_BENCH_NS   60000000
#define KC_BENCH_RUNS 20
#define KC_BENCH(what, amount, unit, call)                                                         \
    do {                                                                                           \
        double best_ = 1e30;                                                                       \
        uint64_t begin_ = clock_ns(), now_ = begin_, last_;                                        \
        for (int run_ = 0; run_ < KC_BENCH_RUNS || now_ - begin_ < KC_BENCH_NS; run_++) {          \
            last_ = now_;                                                                          \
            call;                                                                                  \
            now_ = clock_ns();                                                                     \
            if ((double)(now_ - last_) < best_) best_ = (double)(now_ - last_);                    \
        }                                                                                          \
        kc_bench_result(what, best_, (double)(amount), unit);                                      \
    } while (0)

/* AVX-512 VNNI kernels as portable C, through SIMDe; false: they were not built. */
bool kc_emulated_init(kernel_table *table);
bool kc_emulated_line_init(kernel_table *table);
bool kc_emulated_ahead_init(kernel_table *table);
/* Its parts for vectors and attention, and for attention on 8 bits; set nothing if they were not
 * built. */
void kc_emulated_vector_init(kernel_table *table);
void kc_emulated_attention_init(kernel_table *table);
/* AMX kernels likewise, and on the machine of tile_machine.h. */
bool kc_emulated_tiles_init(kernel_table *table);
/* And their callers from n_tokens on, and the kernels of AVX-512 VNNI below. */
bool kc_emulated_choice_init(kernel_table *table, uint32_t n_tokens);
/* Their attention, by tiles for any number of rows, and from n_rows on. */
void kc_emulated_attention_tiles_init(kernel_table *table);
void kc_emulated_attention_choice_init(kernel_table *table, uint32_t n_rows);

#endif
