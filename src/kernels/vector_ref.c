/* vector_ref.c - norms, sums, rotations, activations and softmax: the definition.
 *
 * Plain C, one value at a time, in the order that the contract in kernels.h gives; the other
 * variants are compared with this one bit for bit. */
#include "kernels/exp.h"
#include "kernels/vector.h"

float kernel_exp_ref(float x)
{
    return kernel_exp(x);
}

/* x = k pi/2 + r, k to the nearest integer, |r| <= pi/4 and a little.
 *
 * pi/2 is the sum of three doubles.  k pi/2 loses nothing in the first step, as the difference is
 * a multiple of 2^-52 (or of the last bit of x) below 1 and fma rounds once; the other two steps
 * round r alone.  k < 2^40, so what pi/2 lacks after 161 bits is below 2^-121. */
void kernel_sincos_ref(double x, float *sine, float *cosine)
{
    const double round = 0x1.8p+52;
    double k = fma(x, 0x1.45f306dc9c883p-1, round) - round;
    double r = fma(k, -0x1.921fb54442d18p+0, x);
    r = fma(k, -0x1.1a62633145c07p-54, r);
    r = fma(k, 0x1.f1976b7ed8fbcp-110, r);

    /* Minimax fits on [-pi/4, pi/4], relative errors 5e-15 and 8e-17: the float is the rounded
     * true value but for cases within 1e-7 of the middle between two floats. */
    double z = r * r;
    double s = fma(-0x1.a9615fdfeed4bp-26, z, 0x1.71d76c63dc172p-19);
    s = fma(s, z, -0x1.a019f9381d4bdp-13);
    s = fma(s, z, 0x1.1111110c86441p-7);
    s = fma(s, z, -0x1.555555555222cp-3);
    s = fma(s * z, r, r);
    double c = fma(0x1.1bc79c046bf72p-29, z, -0x1.27e02a0d2baecp-22);
    c = fma(c, z, 0x1.a019faa9539d0p-16);
    c = fma(c, z, -0x1.6c16c1676ab68p-10);
    c = fma(c, z, 0x1.555555555310ap-5);
    c = fma(c, z * z, fma(-0.5, z, 1.0));

    unsigned quarter = (unsigned)(int64_t)k & 3;
    double sin_abs = quarter & 1 ? c : s, cos_abs = quarter & 1 ? s : c;
    *sine = (float)(quarter & 2 ? -sin_abs : sin_abs);
    *cosine = (float)(quarter == 1 || quarter == 2 ? -cos_abs : cos_abs);
}

static void rms_norm(float *y, const float *x, const float *weight, uint32_t n, float eps)
{
    float p[16] = {0};
    for (uint32_t i = 0; i < n; i++) p[i % 16] = fmaf(x[i], x[i], p[i % 16]);
    float scale = 1.0f / sqrtf(kernel_sum16(p) / (float)n + eps);
    for (uint32_t i = 0; i < n; i++) y[i] = x[i] * scale * weight[i];
}

static void layer_norm(float *y, const float *x, const float *weight, const float *bias, uint32_t n,
                       float eps)
{
    float p[16] = {0}, q[16] = {0};
    for (uint32_t i = 0; i < n; i++) p[i % 16] += x[i];
    float mean = kernel_sum16(p) / (float)n;
    for (uint32_t i = 0; i < n; i++) {
        float d = x[i] - mean;
        q[i % 16] = fmaf(d, d, q[i % 16]);
    }
    float scale = 1.0f / sqrtf(kernel_sum16(q) / (float)n + eps);
    for (uint32_t i = 0; i < n; i++) {
        float d = (x[i] - mean) * scale * weight[i];
        y[i] = bias ? d + bias[i] : d;
    }
}

static void add(float *restrict x, const float *restrict y, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) x[i] += y[i];
}

static void add_scaled(float *restrict x, const float *restrict y, float scale, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) x[i] = fmaf(scale, y[i], x[i]);
}

static void rope_adjacent(float *restrict x, const float *restrict cosine,
                          const float *restrict sine, uint32_t n)
{
    for (uint32_t j = 0; j < n; j++) kernel_rotate(x + 2 * j, x + 2 * j + 1, cosine[j], sine[j]);
}

static void rope_split(float *restrict x, const float *restrict cosine, const float *restrict sine,
                       uint32_t n)
{
    for (uint32_t j = 0; j < n; j++) kernel_rotate(x + j, x + j + n, cosine[j], sine[j]);
}

static void silu_gated(float *restrict gate, const float *restrict up, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) gate[i] = kernel_silu(gate[i]) * up[i];
}

static void gelu_tanh(float *restrict gate, const float *restrict up, uint32_t n)
{
    (void)up;
    for (uint32_t i = 0; i < n; i++) gate[i] = kernel_gelu(gate[i]);
}

static void gelu_gated(float *restrict gate, const float *restrict up, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) gate[i] = kernel_gelu(gate[i]) * up[i];
}

static void swiglu_clamped(float *restrict gate, const float *restrict up, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) gate[i] = kernel_swiglu(gate[i], up[i]);
}

static void softmax(float *x, uint32_t n)
{
    float max = x[0], p[16] = {0};
    for (uint32_t i = 1; i < n; i++) max = kernel_max(max, x[i]);
    for (uint32_t i = 0; i < n; i++) {
        x[i] = kernel_exp(x[i] - max);
        p[i % 16] += x[i];
    }
    float sum = kernel_sum16(p);
    for (uint32_t i = 0; i < n; i++) x[i] = x[i] / sum;
}

void kernel_vector_init_ref(kernel_table *table)
{
    table->rms_norm = rms_norm;
    table->layer_norm = layer_norm;
    table->add = add;
    table->add_scaled = add_scaled;
    table->rope_adjacent = rope_adjacent;
    table->rope_split = rope_split;
    table->silu_gated = silu_gated;
    table->gelu_tanh = gelu_tanh;
    table->gelu_gated = gelu_gated;
    table->swiglu_clamped = swiglu_clamped;
    table->softmax = softmax;
}
