/* base.c - CHECK failures, errors, parsing of numbers, the maximum of an array, the clock. */
#include "base/base.h"

#include <errno.h>
#include <math.h>
#include <time.h>

_Noreturn void base_check_failed(const char *cond, const char *file, int line)
{
    fprintf(stderr, "cerium: bug: %s:%d: CHECK(%s) failed\n", file, line, cond);
    abort();
}

int error_set(cerium_error *err, int status, const char *format, ...)
{
    if (!err) return status;
    err->status = status;
    va_list args;
    va_start(args, format);
    vsnprintf(err->message, sizeof err->message, format, args);
    va_end(args);
    /* The text may quote a file: control bytes would break the line, or the user's terminal. */
    for (char *c = err->message; *c; c++)
        if ((unsigned char)*c < 0x20 || *c == 0x7f) *c = '?';
    return status;
}

/* strchr() would also find the NUL. */
static bool is_in(char c, const char *set) { return c && strchr(set, c); }

view view_trim_start(view text, const char *set)
{
    while (text.len && is_in(*text.ptr, set)) text.ptr++, text.len--;
    return text;
}

view view_trim_end(view text, const char *set)
{
    while (text.len && is_in(text.ptr[text.len - 1], set)) text.len--;
    return text;
}

view view_trim(view text, const char *set)
{
    return view_trim_end(view_trim_start(text, set), set);
}

bool parse_u64(view text, uint64_t *out)
{
    uint64_t value = 0;
    if (text.len == 0) return false;
    for (size_t i = 0; i < text.len; i++) {
        unsigned digit = (unsigned char)text.ptr[i] - '0';
        if (digit > 9) return false;
        if (__builtin_mul_overflow(value, 10, &value)) return false;
        if (__builtin_add_overflow(value, digit, &value)) return false;
    }
    *out = value;
    return true;
}

bool parse_f64(view text, double *out)
{
    char copy[64], *end;
    if (text.len == 0 || text.len >= sizeof copy) return false;
    memcpy(copy, text.ptr, text.len);
    copy[text.len] = 0;
    errno = 0;
    double value = strtod(copy, &end);
    if (*end || end == copy || errno == ERANGE || value != value) return false;
    *out = value;
    return true;
}

static uint64_t read_ns(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

typedef struct {
    float v[4];
} four;

static inline four greater_of(four a, const float *x) /* NaN in x does not count */
{
    for (int i = 0; i < 4; i++) a.v[i] = x[i] > a.v[i] ? x[i] : a.v[i];
    return a;
}

float greatest_of(const float *x, uint32_t n)
{
    four a = {{-INFINITY, -INFINITY, -INFINITY, -INFINITY}}, b = a, c = a, d = a;
    const float *end = x + n;
    for (; end - x >= 16; x += 16) { /* four chains hide the latency of max */
        a = greater_of(a, x);
        b = greater_of(b, x + 4);
        c = greater_of(c, x + 8);
        d = greater_of(d, x + 12);
    }
    a = greater_of(greater_of(a, b.v), greater_of(c, d.v).v);
    float max = -INFINITY;
    for (int i = 0; i < 4; i++) max = a.v[i] > max ? a.v[i] : max;
    for (; x < end; x++) max = *x > max ? *x : max;
    return max;
}

uint64_t clock_ns(void) { return read_ns(CLOCK_MONOTONIC); }
uint64_t clock_thread_ns(void) { return read_ns(CLOCK_THREAD_CPUTIME_ID); }
uint64_t clock_process_ns(void) { return read_ns(CLOCK_PROCESS_CPUTIME_ID); }
