/* recurrent_avx512vnni.c - recurrent_ref.c in sixteen lanes, the last of them masked. */
#include "kernels/x86/exp_avx512.h"

#include "kernels/vector.h"

#ifdef __clang__
#define UNROLL _Pragma("unroll")
#else
#define UNROLL _Pragma("GCC unroll 4")
#endif

static inline __m512 minus(__m512 x)
{
    return _mm512_xor_ps(x, _mm512_set1_ps(-0.0f));
}

static void sigmoid_gated(float *restrict gate, const float *restrict up, uint32_t n)
{
    for (uint32_t i = 0; i < n; i += 16) {
        const __mmask16 k = lanes_below(n - i);
        __m512 g = one_plus_exp_avx512(minus(_mm512_maskz_loadu_ps(k, gate + i)));
        g = _mm512_div_ps(_mm512_maskz_loadu_ps(k, up + i), g);
        _mm512_mask_storeu_ps(gate + i, k, g);
    }
}

static void conv(float *restrict out, const float *const *rows, const float *restrict weight,
                 const float *restrict bias, size_t stride, uint32_t n_taps, uint32_t n)
{
    for (uint32_t i = 0; i < n; i += 16) {
        const __mmask16 k = lanes_below(n - i);
        __m512 sum = bias ? _mm512_maskz_loadu_ps(k, bias + i) : _mm512_setzero_ps();
        for (uint32_t j = 0; j < n_taps; j++)
            sum = _mm512_fmadd_ps(_mm512_maskz_loadu_ps(k, weight + j * stride + i),
                                  _mm512_maskz_loadu_ps(k, rows[j] + i), sum);
        sum = _mm512_div_ps(sum, one_plus_exp_avx512(minus(sum)));
        _mm512_mask_storeu_ps(out + i, k, sum);
    }
}

/* The new state of 16 n lanes, and what q reads of it; n is known where this is inlined. */
static inline __attribute__((always_inline)) void write_lanes(__m512 *read, float *to,
                                                              const float *from, const __m512 *d,
                                                              const kernel_delta_row *in,
                                                              const int n)
{
    const __m512 decay = _mm512_set1_ps(in->decay);
    UNROLL for (int r = 0; r < n; r++) read[r] = _mm512_setzero_ps();
    for (uint32_t i = 0; i < in->n_keys; i++, from += in->n_lanes, to += in->n_lanes) {
        const __m512 k = _mm512_set1_ps(in->k[i]), q = _mm512_set1_ps(in->q[i]);
        UNROLL for (int r = 0; r < n; r++) {
            __m512 x = _mm512_mul_ps(decay, _mm512_loadu_ps(from + 16 * r));
            x = _mm512_fmadd_ps(k, d[r], x);
            _mm512_storeu_ps(to + 16 * r, x);
            read[r] = _mm512_fmadd_ps(x, q, read[r]);
        }
    }
}

/* Lanes [first, first + 16 n). */
static inline __attribute__((always_inline)) void
delta_lanes(float *restrict out, float *restrict change, float *to, const float *from,
            const kernel_delta_row *in, uint32_t first, const int n)
{
    const __m512 decay = _mm512_set1_ps(in->decay), beta = _mm512_set1_ps(in->beta);
    __m512 sum[4], read[4], d[4];
    UNROLL for (int r = 0; r < n; r++) sum[r] = _mm512_setzero_ps();
    const float *s = from + first;
    for (uint32_t i = 0; i < in->n_keys; i++, s += in->n_lanes) {
        const __m512 k = _mm512_set1_ps(in->k[i]);
        UNROLL for (int r = 0; r < n; r++)
            sum[r] = _mm512_fmadd_ps(_mm512_loadu_ps(s + 16 * r), k, sum[r]);
    }
    UNROLL for (int r = 0; r < n; r++) {
        const __m512 v = _mm512_loadu_ps(in->v + first + 16 * r);
        d[r] = _mm512_mul_ps(_mm512_fnmadd_ps(decay, sum[r], v), beta);
        _mm512_storeu_ps(change + first + 16 * r, d[r]);
    }
    write_lanes(read, to + first, from + first, d, in, n);
    UNROLL for (int r = 0; r < n; r++) _mm512_storeu_ps(out + first + 16 * r, read[r]);
}

static void delta(float *restrict out, float *restrict change, float *to, const float *from,
                  const kernel_delta_row *in)
{
    uint32_t c = 0;
    for (; c + 64 <= in->n_lanes; c += 64) delta_lanes(out, change, to, from, in, c, 4);
    for (; c < in->n_lanes; c += 16) delta_lanes(out, change, to, from, in, c, 1);
}

static inline __attribute__((always_inline)) void
scan_lanes(float *restrict out, float *restrict change, float *to, const float *from,
           const kernel_delta_row *in, uint32_t first, const int n)
{
    const __m512 beta = _mm512_set1_ps(in->beta), skip = _mm512_set1_ps(in->skip);
    __m512 read[4], d[4], v[4];
    UNROLL for (int r = 0; r < n; r++) {
        v[r] = _mm512_loadu_ps(in->v + first + 16 * r);
        d[r] = _mm512_mul_ps(beta, v[r]);
        _mm512_storeu_ps(change + first + 16 * r, d[r]);
    }
    write_lanes(read, to + first, from + first, d, in, n);
    UNROLL for (int r = 0; r < n; r++)
        _mm512_storeu_ps(out + first + 16 * r, _mm512_fmadd_ps(skip, v[r], read[r]));
}

static void scan(float *restrict out, float *restrict change, float *to, const float *from,
                 const kernel_delta_row *in)
{
    uint32_t c = 0;
    for (; c + 64 <= in->n_lanes; c += 64) scan_lanes(out, change, to, from, in, c, 4);
    for (; c < in->n_lanes; c += 16) scan_lanes(out, change, to, from, in, c, 1);
}

static void delta_again(float *to, const float *from, const float *restrict change,
                        const kernel_delta_row *in)
{
    const __m512 decay = _mm512_set1_ps(in->decay);
    for (uint32_t i = 0; i < in->n_keys; i++, to += in->n_lanes, from += in->n_lanes) {
        const __m512 k = _mm512_set1_ps(in->k[i]);
        for (uint32_t c = 0; c < in->n_lanes; c += 16) {
            __m512 x = _mm512_mul_ps(decay, _mm512_loadu_ps(from + c));
            _mm512_storeu_ps(to + c, _mm512_fmadd_ps(k, _mm512_loadu_ps(change + c), x));
        }
    }
}

void kernel_recurrent_init_avx512vnni(kernel_table *table)
{
    table->sigmoid_gated = sigmoid_gated;
    table->conv = conv;
    table->delta = delta;
    table->scan = scan;
    table->delta_again = delta_again;
}
