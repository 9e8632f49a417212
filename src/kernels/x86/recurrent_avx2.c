/* recurrent_avx2.c - recurrent_ref.c in eight lanes. */
#include "kernels/x86/exp_avx2.h"

#include "kernels/vector.h"

#ifdef __clang__
#define UNROLL _Pragma("unroll")
#else
#define UNROLL _Pragma("GCC unroll 4")
#endif

static inline __m256 minus(__m256 x)
{
    return _mm256_xor_ps(x, _mm256_set1_ps(-0.0f));
}

static void sigmoid_gated(float *restrict gate, const float *restrict up, uint32_t n)
{
    uint32_t i = 0;
    for (; i + 8 <= n; i += 8) {
        __m256 g = one_plus_exp_avx2(minus(_mm256_loadu_ps(gate + i)));
        _mm256_storeu_ps(gate + i, _mm256_div_ps(_mm256_loadu_ps(up + i), g));
    }
    for (; i < n; i++) gate[i] = up[i] / (1.0f + kernel_exp(-gate[i]));
}

static void conv(float *restrict out, const float *const *rows, const float *restrict weight,
                 const float *restrict bias, size_t stride, uint32_t n_taps, uint32_t n)
{
    uint32_t i = 0;
    for (; i + 8 <= n; i += 8) {
        __m256 sum = bias ? _mm256_loadu_ps(bias + i) : _mm256_setzero_ps();
        for (uint32_t j = 0; j < n_taps; j++)
            sum = _mm256_fmadd_ps(_mm256_loadu_ps(weight + j * stride + i),
                                  _mm256_loadu_ps(rows[j] + i), sum);
        _mm256_storeu_ps(out + i, _mm256_div_ps(sum, one_plus_exp_avx2(minus(sum))));
    }
    for (; i < n; i++) {
        float sum = bias ? bias[i] : 0;
        for (uint32_t j = 0; j < n_taps; j++) sum = fmaf(weight[j * stride + i], rows[j][i], sum);
        out[i] = kernel_silu(sum);
    }
}

enum { RUN = 2 }; /* registers of lanes that go through the state together: n_lanes is 16 k */

/* The new state of lanes, and what q reads of it. */
static inline void write_lanes(__m256 read[RUN], float *to, const float *from, const __m256 d[RUN],
                               const kernel_delta_row *in)
{
    const __m256 decay = _mm256_set1_ps(in->decay);
    UNROLL for (int r = 0; r < RUN; r++) read[r] = _mm256_setzero_ps();
    for (uint32_t i = 0; i < in->n_keys; i++, from += in->n_lanes, to += in->n_lanes) {
        const __m256 k = _mm256_set1_ps(in->k[i]), q = _mm256_set1_ps(in->q[i]);
        UNROLL for (int r = 0; r < RUN; r++) {
            __m256 x = _mm256_mul_ps(decay, _mm256_loadu_ps(from + 8 * r));
            x = _mm256_fmadd_ps(k, d[r], x);
            _mm256_storeu_ps(to + 8 * r, x);
            read[r] = _mm256_fmadd_ps(x, q, read[r]);
        }
    }
}

/* Lanes [first, first + 8 RUN). */
static inline void delta_lanes(float *restrict out, float *restrict change, float *to,
                               const float *from, const kernel_delta_row *in, uint32_t first)
{
    const __m256 decay = _mm256_set1_ps(in->decay), beta = _mm256_set1_ps(in->beta);
    __m256 sum[RUN], read[RUN], d[RUN];
    UNROLL for (int r = 0; r < RUN; r++) sum[r] = _mm256_setzero_ps();
    const float *s = from + first;
    for (uint32_t i = 0; i < in->n_keys; i++, s += in->n_lanes) {
        const __m256 k = _mm256_set1_ps(in->k[i]);
        UNROLL for (int r = 0; r < RUN; r++)
            sum[r] = _mm256_fmadd_ps(_mm256_loadu_ps(s + 8 * r), k, sum[r]);
    }
    UNROLL for (int r = 0; r < RUN; r++) {
        const __m256 v = _mm256_loadu_ps(in->v + first + 8 * r);
        d[r] = _mm256_mul_ps(_mm256_fnmadd_ps(decay, sum[r], v), beta);
        _mm256_storeu_ps(change + first + 8 * r, d[r]);
    }
    write_lanes(read, to + first, from + first, d, in);
    UNROLL for (int r = 0; r < RUN; r++) _mm256_storeu_ps(out + first + 8 * r, read[r]);
}

static void delta(float *restrict out, float *restrict change, float *to, const float *from,
                  const kernel_delta_row *in)
{
    for (uint32_t c = 0; c < in->n_lanes; c += 8 * RUN)
        delta_lanes(out, change, to, from, in, c);
}

static inline void scan_lanes(float *restrict out, float *restrict change, float *to,
                              const float *from, const kernel_delta_row *in, uint32_t first)
{
    const __m256 beta = _mm256_set1_ps(in->beta), skip = _mm256_set1_ps(in->skip);
    __m256 read[RUN], d[RUN], v[RUN];
    UNROLL for (int r = 0; r < RUN; r++) {
        v[r] = _mm256_loadu_ps(in->v + first + 8 * r);
        d[r] = _mm256_mul_ps(beta, v[r]);
        _mm256_storeu_ps(change + first + 8 * r, d[r]);
    }
    write_lanes(read, to + first, from + first, d, in);
    UNROLL for (int r = 0; r < RUN; r++)
        _mm256_storeu_ps(out + first + 8 * r, _mm256_fmadd_ps(skip, v[r], read[r]));
}

static void scan(float *restrict out, float *restrict change, float *to, const float *from,
                 const kernel_delta_row *in)
{
    for (uint32_t c = 0; c < in->n_lanes; c += 8 * RUN) scan_lanes(out, change, to, from, in, c);
}

static void delta_again(float *to, const float *from, const float *restrict change,
                        const kernel_delta_row *in)
{
    const __m256 decay = _mm256_set1_ps(in->decay);
    for (uint32_t i = 0; i < in->n_keys; i++, to += in->n_lanes, from += in->n_lanes) {
        const __m256 k = _mm256_set1_ps(in->k[i]);
        for (uint32_t c = 0; c < in->n_lanes; c += 8) {
            __m256 x = _mm256_mul_ps(decay, _mm256_loadu_ps(from + c));
            _mm256_storeu_ps(to + c, _mm256_fmadd_ps(k, _mm256_loadu_ps(change + c), x));
        }
    }
}

void kernel_recurrent_init_avx2(kernel_table *table)
{
    table->sigmoid_gated = sigmoid_gated;
    table->conv = conv;
    table->delta = delta;
    table->scan = scan;
    table->delta_again = delta_again;
}
