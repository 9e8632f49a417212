/* attention_i8_ref.c - attention on keys and values in 8 bits: the definition. */
#include "kernels/kv_i8.h"
#include "kernels/vector.h"

/* q[head_dim] = x, turned and rounded to nearest even; returns the scale.  A head is at its largest
 * in one channel, or, of queries, in two neighbours. */
static float quantize(int8_t *restrict q, const float *restrict x, uint32_t head_dim,
                      bool is_query)
{
    float turned[KV_I8_CHANNELS_MAX + 1] = {0}, top = 0.0f;
    const float most = is_query ? KV_I8_QUERY_MAX : KV_I8_MAX;
    memcpy(turned, x, head_dim * sizeof *x);
    kv_i8_turn(turned, head_dim);
    for (uint32_t d = 0; d < head_dim; d += 1 + is_query)
        top = kernel_max(top, fabsf(turned[d]) + (is_query ? fabsf(turned[d + 1]) : 0.0f));
    const float inverse = kv_i8_inverse(top, most);
    for (uint32_t d = 0; d < head_dim; d++) q[d] = (int8_t)rintf(turned[d] * inverse);
    return kv_i8_scale(top, most);
}

static void kv_write_i8(void *restrict keys, void *restrict values, uint32_t slot,
                        const float *restrict k, const float *restrict v, uint32_t head_dim)
{
    kv_i8_write(keys, values, slot, k, v, head_dim, quantize);
}

static void kv_values_i8(void *restrict values, const void *restrict keys, uint32_t head_dim)
{
    const kv_i8_page *from = keys;
    kv_i8_page *to = values;
    const uint32_t channels = kv_i8_channels(head_dim);
    memcpy(to->scale, from->scale, sizeof to->scale);
    for (uint32_t d = 0; d < channels; d++)
        for (uint32_t j = 0; j < KERNEL_PAGE; j++)
            to->bytes[kv_i8_value_at(d, j, channels)] =
                from->bytes[kv_i8_key_at(d, j)] ^ KV_I8_OFFSET;
}

static void attend_query_i8(void *restrict out, const float *restrict q, uint32_t head_dim)
{
    kv_i8_take_query(out, q, head_dim, quantize);
}

/* Before the query's scale. */
static float score(const kv_i8_query *query, const kv_i8_page *keys, uint32_t slot,
                   uint32_t head_dim)
{
    int32_t dot = query->offset;
    for (uint32_t d = 0; d < head_dim; d++)
        dot += query->q[d] * keys->bytes[kv_i8_key_at(d, slot)];
    return (float)dot * keys->scale[slot];
}

/* One row, tokens [first, end) of a page, first < end. */
static void attend_row(kernel_softmax_state *state, float *restrict out, const kv_i8_query *query,
                       const kernel_kv_page *page, uint32_t first, uint32_t end, uint32_t head_dim)
{
    const kv_i8_page *keys = page->keys, *values = page->values;
    const uint32_t channels = kv_i8_channels(head_dim);
    float w[KERNEL_PAGE] = {0}, partial[16] = {0}, best = -INFINITY, top = 0.0f;
    int32_t weight[KERNEL_PAGE];
    for (uint32_t j = first; j < end; j++) {
        w[j] = score(query, keys, j, head_dim);
        best = kernel_max(best, w[j]);
    }
    const float max = kernel_max(state->max, best * query->scale) + 0.0f;
    for (uint32_t j = first; j < end; j++) {
        const float p = kernel_exp(fmaf(w[j], query->scale, -max));
        partial[j % 16] += p;
        w[j] = p * values->scale[j];
    }
    for (uint32_t j = 0; j < KERNEL_PAGE; j += 2) top = kernel_max(top, w[j] + w[j + 1]);
    const float inverse = kv_i8_inverse(top, KV_I8_WEIGHT_MAX);
    const float scale = kv_i8_scale(top, KV_I8_WEIGHT_MAX);
    for (uint32_t j = first; j < end; j++) weight[j] = (int32_t)rintf(w[j] * inverse);
    const float c = kernel_decay(state->max, max);
    *state = (kernel_softmax_state){.max = max, .sum = state->sum * c + kernel_sum16(partial)};
    for (uint32_t d = 0; d < head_dim; d++) {
        int32_t sum = 0;
        for (uint32_t j = first; j < end; j++)
            sum += weight[j] * (int8_t)values->bytes[kv_i8_value_at(d, j, channels)];
        out[d] = fmaf((float)sum, scale, out[d] * c);
    }
}

static void attend_i8(kernel_softmax_state *restrict state, float *restrict out,
                      const void *restrict queries, const kernel_kv_page *restrict pages,
                      uint32_t n_pages, const uint32_t *restrict first,
                      const uint32_t *restrict end, uint32_t n_q, uint32_t head_dim)
{
    const size_t query_bytes = kernel_query_bytes(KERNEL_KV_I8, head_dim);
    for (uint32_t r = 0; r < n_q; r++)
        for (uint32_t p = 0; p < n_pages; p++) {
            const kernel_span seen = kernel_page_span(first[r], end[r], p);
            if (seen.first < seen.end)
                attend_row(state + r, out + (size_t)r * head_dim,
                           (const void *)((const uint8_t *)queries + r * query_bytes), pages + p,
                           seen.first, seen.end, head_dim);
        }
}

static void attend_result_i8(float *out, uint32_t head_dim)
{
    const float scale = 1.0f / (float)kv_i8_run(head_dim);
    kv_i8_turn(out, head_dim);
    for (uint32_t d = 0; d < head_dim; d++) out[d] *= scale;
}

void kernel_attention_i8_init_ref(kernel_table *table)
{
    table->kv_write[KERNEL_KV_I8] = kv_write_i8;
    table->kv_values[KERNEL_KV_I8] = kv_values_i8;
    table->attend_query[KERNEL_KV_I8] = attend_query_i8;
    table->attend[KERNEL_KV_I8] = attend_i8;
    table->attend_result[KERNEL_KV_I8] = attend_result_i8;
}
