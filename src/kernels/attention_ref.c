/* attention_ref.c - attention over pages of F16 keys and values: the definition. */
#include "gguf/blocks.h"
#include "kernels/exp.h"
#include "kernels/vector.h"

static void kv_write(uint16_t *restrict keys, uint16_t *restrict values, uint32_t slot,
                     const float *restrict k, const float *restrict v, uint32_t head_dim)
{
    for (uint32_t d = 0; d < head_dim; d++) {
        keys[d * KERNEL_PAGE + slot] = f32_to_f16(k[d]);
        values[slot * head_dim + d] = f32_to_f16(v[d]);
    }
}

/* One row, tokens [first, end), first < end. */
static void attend_row(kernel_softmax_state *state, float *restrict out, const float *restrict q,
                       const uint16_t *restrict keys, const uint16_t *restrict values,
                       uint32_t first, uint32_t end, uint32_t head_dim)
{
    float p[KERNEL_PAGE], partial[16] = {0}, max = state->max;
    for (uint32_t j = first; j < end; j++) {
        p[j] = 0.0f;
        for (uint32_t d = 0; d < head_dim; d++)
            p[j] = fmaf(q[d], f16_to_f32(keys[d * KERNEL_PAGE + j]), p[j]);
        max = kernel_max(max, p[j]);
    }
    max += 0.0f;
    for (uint32_t j = first; j < end; j++) {
        p[j] = kernel_exp(p[j] - max);
        partial[j % 16] += p[j];
    }
    float c = kernel_decay(state->max, max);
    *state = (kernel_softmax_state){.max = max, .sum = state->sum * c + kernel_sum16(partial)};
    for (uint32_t d = 0; d < head_dim; d++) {
        float o = out[d] * c;
        for (uint32_t j = first; j < end; j++)
            o = fmaf(p[j], f16_to_f32(values[j * head_dim + d]), o);
        out[d] = o;
    }
}

static void attend_page(kernel_softmax_state *restrict state, float *restrict out,
                        const float *restrict q, const uint16_t *restrict keys,
                        const uint16_t *restrict values, const uint8_t *first, const uint8_t *end,
                        uint32_t n_q, uint32_t head_dim)
{
    for (uint32_t r = 0; r < n_q; r++) {
        size_t at = (size_t)r * head_dim;
        if (first[r] < end[r])
            attend_row(state + r, out + at, q + at, keys, values, first[r], end[r], head_dim);
    }
}

static void attend_join(kernel_softmax_state *restrict state, float *restrict out,
                        const kernel_softmax_state *restrict from, const float *restrict from_out,
                        uint32_t head_dim)
{
    if (from->max == -INFINITY) return;
    float max = kernel_max(state->max, from->max) + 0.0f;
    float c = kernel_decay(state->max, max), from_c = kernel_decay(from->max, max);
    state->max = max;
    state->sum = fmaf(from->sum, from_c, state->sum * c);
    for (uint32_t d = 0; d < head_dim; d++) out[d] = fmaf(from_out[d], from_c, out[d] * c);
}

void kernel_attention_init_ref(kernel_table *table)
{
    table->kv_write = kv_write;
    table->attend_page = attend_page;
    table->attend_join = attend_join;
}
