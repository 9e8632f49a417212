/* attention_ref.c - the types that keys and values are kept in, and attention over pages of them:
 * the definition. */
#include "gguf/blocks.h"
#include "kernels/exp.h"
#include "kernels/kv_i8.h"
#include "kernels/vector.h"

static const char *const kv_names[KERNEL_KV_TYPE_END] = {
    [KERNEL_KV_I8] = "i8",
    [KERNEL_KV_F16] = "f16",
    [KERNEL_KV_F32] = "f32",
};

bool kernel_kv_of_name(const char *name, kernel_kv_type *out)
{
    for (size_t i = 0; i < KERNEL_KV_TYPE_END; i++) {
        if (strcmp(name, kv_names[i]) == 0) {
            *out = (kernel_kv_type)i;
            return true;
        }
    }
    return false;
}

const char *kernel_kv_name(kernel_kv_type type)
{
    CHECK((size_t)type < KERNEL_KV_TYPE_END);
    return kv_names[type];
}

kernel_kv_type kernel_kv_default(uint32_t head_dim)
{
    return head_dim > 128 ? KERNEL_KV_F16 : KERNEL_KV_I8;
}

size_t kernel_kv_bytes(kernel_kv_type type, uint32_t head_dim)
{
    const size_t n = (size_t)KERNEL_PAGE * head_dim;
    switch (type) {
    case KERNEL_KV_I8: return sizeof(kv_i8_page) + (size_t)KERNEL_PAGE * kv_i8_channels(head_dim);
    case KERNEL_KV_F16: return n * sizeof(uint16_t);
    case KERNEL_KV_F32: break;
    }
    return n * sizeof(float);
}

size_t kernel_query_bytes(kernel_kv_type type, uint32_t head_dim)
{
    if (type == KERNEL_KV_I8) return sizeof(kv_i8_query) + kv_i8_channels(head_dim);
    return head_dim * sizeof(float);
}

static void kv_write_f16(void *restrict keys, void *restrict values, uint32_t slot,
                         const float *restrict k, const float *restrict v, uint32_t head_dim)
{
    uint16_t *key = keys, *value = values;
    for (uint32_t d = 0; d < head_dim; d++) key[d * KERNEL_PAGE + slot] = f32_to_f16(k[d]);
    for (uint32_t d = 0; value && d < head_dim; d++) value[slot * head_dim + d] = f32_to_f16(v[d]);
}

static void kv_write_f32(void *restrict keys, void *restrict values, uint32_t slot,
                         const float *restrict k, const float *restrict v, uint32_t head_dim)
{
    float *key = keys, *value = values;
    for (uint32_t d = 0; d < head_dim; d++) key[d * KERNEL_PAGE + slot] = k[d];
    if (value) memcpy(value + (size_t)slot * head_dim, v, head_dim * sizeof *v);
}

static void kv_values_f16(void *restrict values, const void *restrict keys, uint32_t head_dim)
{
    uint16_t *value = values;
    const uint16_t *key = keys;
    for (uint32_t j = 0; j < KERNEL_PAGE; j++)
        for (uint32_t d = 0; d < head_dim; d++) value[j * head_dim + d] = key[d * KERNEL_PAGE + j];
}

static void kv_values_f32(void *restrict values, const void *restrict keys, uint32_t head_dim)
{
    float *value = values;
    const float *key = keys;
    for (uint32_t j = 0; j < KERNEL_PAGE; j++)
        for (uint32_t d = 0; d < head_dim; d++) value[j * head_dim + d] = key[d * KERNEL_PAGE + j];
}

/* Number i of those at from: the only thing in which the types differ. */
typedef float read_fn(const void *from, size_t i);
static float read_f32(const void *from, size_t i) { return ((const float *)from)[i]; }
static float read_f16(const void *from, size_t i)
{
    const uint16_t *halves = from;
    return f16_to_f32(halves[i]);
}

/* One row, tokens [first, end), first < end. */
static void attend_row(kernel_softmax_state *state, float *restrict out, const float *restrict q,
                       const void *restrict keys, const void *restrict values, uint32_t first,
                       uint32_t end, uint32_t head_dim, read_fn *read)
{
    float p[KERNEL_PAGE], partial[16] = {0}, max = state->max;
    for (uint32_t j = first; j < end; j++) {
        p[j] = 0.0f;
        for (uint32_t d = 0; d < head_dim; d++)
            p[j] = fmaf(q[d], read(keys, d * KERNEL_PAGE + j), p[j]);
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
            o = fmaf(p[j], read(values, j * head_dim + d), o);
        out[d] = o;
    }
}

static void attend(kernel_softmax_state *restrict state, float *restrict out,
                   const float *restrict q, const kernel_kv_page *restrict pages,
                   uint32_t n_pages, const uint32_t *restrict first, const uint32_t *restrict end,
                   uint32_t n_q, uint32_t head_dim, read_fn *read)
{
    for (uint32_t r = 0; r < n_q; r++)
        for (uint32_t p = 0; p < n_pages; p++) {
            const size_t at = (size_t)r * head_dim;
            const kernel_span seen = kernel_page_span(first[r], end[r], p);
            if (seen.first < seen.end)
                attend_row(state + r, out + at, q + at, pages[p].keys, pages[p].values, seen.first,
                           seen.end, head_dim, read);
        }
}

static void attend_f16(kernel_softmax_state *restrict state, float *restrict out,
                       const void *restrict queries, const kernel_kv_page *restrict pages,
                       uint32_t n_pages, const uint32_t *restrict first,
                       const uint32_t *restrict end, uint32_t n_q, uint32_t head_dim)
{
    attend(state, out, queries, pages, n_pages, first, end, n_q, head_dim, read_f16);
}

static void attend_f32(kernel_softmax_state *restrict state, float *restrict out,
                       const void *restrict queries, const kernel_kv_page *restrict pages,
                       uint32_t n_pages, const uint32_t *restrict first,
                       const uint32_t *restrict end, uint32_t n_q, uint32_t head_dim)
{
    attend(state, out, queries, pages, n_pages, first, end, n_q, head_dim, read_f32);
}

static void attend_query(void *restrict query, const float *restrict q, uint32_t head_dim)
{
    memcpy(query, q, head_dim * sizeof *q);
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
    table->kv_write[KERNEL_KV_F16] = kv_write_f16;
    table->kv_write[KERNEL_KV_F32] = kv_write_f32;
    table->kv_values[KERNEL_KV_F16] = kv_values_f16;
    table->kv_values[KERNEL_KV_F32] = kv_values_f32;
    table->attend_query[KERNEL_KV_F16] = attend_query;
    table->attend_query[KERNEL_KV_F32] = attend_query;
    table->attend[KERNEL_KV_F16] = attend_f16;
    table->attend[KERNEL_KV_F32] = attend_f32;
    table->attend_join = attend_join;
}
