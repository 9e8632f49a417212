/* hadamard.c - the Walsh-Hadamard transform of a row of floats. */
#include <math.h>

#include "kernels/kernels.h"

typedef float lanes_4 __attribute__((vector_size(16)));

static inline lanes_4 load_4(const float *p)
{
    lanes_4 v;
    memcpy(&v, p, sizeof v);
    return v;
}
static inline void store_4(float *p, lanes_4 v) { memcpy(p, &v, sizeof v); }

/* Sums and differences of neighbours that are h apart: each is one addition, so any number of lanes
 * gives the same bits. */
static void stage(float *x, uint32_t n, uint32_t h)
{
    for (uint32_t at = 0; at < n; at += 2 * h) {
        float *a = x + at, *b = a + h;
        uint32_t i = 0;
        for (; i + 4 <= h; i += 4) {
            const lanes_4 left = load_4(a + i), right = load_4(b + i);
            store_4(a + i, left + right);
            store_4(b + i, left - right);
        }
        for (; i < h; i++) {
            const float left = a[i], right = b[i];
            a[i] = left + right;
            b[i] = left - right;
        }
    }
}

void kernel_hadamard(float *x, uint32_t n)
{
    CHECK(n && (n & (n - 1)) == 0);
    for (uint32_t h = 1; h < n; h *= 2) stage(x, n, h);
    const float scale = (float)(1 / sqrt((double)n));
    for (uint32_t i = 0; i < n; i++) x[i] *= scale;
}
