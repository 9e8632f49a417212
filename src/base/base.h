/* base.h - included by every file: CHECK for bugs, errors as values, views.
 *
 * CHECK is for bugs and stays on in release.  Data from files, sockets and callers never reaches
 * a CHECK: it is validated where it enters and becomes a negative cerium_status. */
#ifndef BASE_BASE_H
#define BASE_BASE_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cerium.h"

#include "base/banned.h"

#define CHECK(cond) ((cond) ? (void)0 : base_check_failed(#cond, __FILE__, __LINE__))
#define ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))
#define RETURN_IF(call)                                                                            \
    do {                                                                                           \
        int status_ = (call);                                                                      \
        if (status_) return status_;                                                               \
    } while (0)

_Noreturn void base_check_failed(const char *cond, const char *file, int line);

/* Borrowed bytes; not NUL-terminated. */
typedef struct {
    const char *ptr;
    size_t len;
} view;

#define VIEW(literal) ((view){(literal), sizeof(literal) - 1})

static inline view view_of(const char *s) { return (view){s, s ? strlen(s) : 0}; }
static inline bool view_equal(view a, view b)
{
    return a.len == b.len && (a.len == 0 || memcmp(a.ptr, b.ptr, a.len) == 0);
}
static inline bool view_starts(view a, view prefix)
{
    return a.len >= prefix.len && memcmp(a.ptr, prefix.ptr, prefix.len) == 0;
}

/* Without the bytes of `set` at its beginning, its end, or both. */
view view_trim_start(view text, const char *set);
view view_trim_end(view text, const char *set);
view view_trim(view text, const char *set);

/* Fill *err (may be NULL) with status and one formatted line; control bytes become '?'.
 * Returns status, so that a failing function can end with `return error_set(...)`. */
int error_set(cerium_error *err, int status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Multiplications and additions of sizes that come from outside. False on overflow. */
static inline bool size_mul(size_t a, size_t b, size_t *out)
{
    return !__builtin_mul_overflow(a, b, out);
}
static inline bool size_add(size_t a, size_t b, size_t *out)
{
    return !__builtin_add_overflow(a, b, out);
}
static inline size_t size_round_up(size_t n, size_t multiple)
{
    return (n + multiple - 1) / multiple * multiple;
}

/* The maximum of x[n]; NaN counts as -infinity. -INFINITY: n is 0 or all are NaN. */
float greatest_of(const float *x, uint32_t n);

/* Parse the whole text as a number; false when it is not a number or is out of range. */
bool parse_u64(view text, uint64_t *out);
bool parse_f64(view text, double *out);

uint64_t clock_ns(void); /* monotonic */
uint64_t clock_thread_ns(void);  /* processor time of this thread; a system call */
uint64_t clock_process_ns(void); /* of all threads of this process */

#endif
