/* attention_ref.c - the types that keys and values are kept in, and attention over pages of them:
 * the definition. */
#include "gguf/blocks.h"
#include "kernels/exp.h"
#include "kernels/vector.h"

static const struct {
    const char *name;
    size_t value_bytes;
} kv_types[KERNEL_KV_TYPE_END] = {
    [KERNEL_KV_F16] = {"f16", sizeof(uint16_t)},
    [KERNEL_KV_F32] = {"f32", sizeof(float)},
};

bool kernel_kv_of_name(const char *name, kernel_kv_type *out)
{
    for (size_t i = 0; i < KERNEL_KV_TYPE_END; i++) {
        if (strcmp(name, kv_types[i].name) == 0) {
            *out = (kernel_kv_type)i;
            return true;
        }
    }
    return false;
}

const char *kernel_kv_name(kernel_kv_type type)
{
    CHECK((size_t)type < KERNEL_KV_TYPE_END);
    return kv_types[type].name;
}

size_t kernel_kv_bytes(kernel_kv_type type, uint32_t head_dim)
{
    CHECK((size_t)type < KERNEL_KV_TYPE_END);
    return (size_t)KERNEL_PAGE * head_dim * kv_types[type].value_bytes;
}

static void kv_write_f16(void *restrict keys, void *restrict values, uint32_t slot,
                         const float *restrict k, const float *restrict v, uint32_t head_dim)
{
    uint16_t *key = keys, *value = values;
    for (uint32_t d = 0; d < head_dim; d++) {
        key[d * KERNEL_PAGE + slot] = f32_to_f16(k[d]);
        value[slot * head_dim + d] = f32_to_f16(v[d]);
    }
}

static void kv_write_f32(void *restrict keys, void *restrict values, uint32_t slot,
                         const float *restrict k, const float *restrict v, uint32_t head_dim)
{
    float *key = keys, *value = values;
    for (uint32_t d = 0; d < head_dim; d++) {
        key[d * KERNEL_PAGE + slot] = k[d];
        value[slot * head_dim + d] = v[d];
    }
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

static void attend_page(kernel_softmax_state *restrict state, float *restrict out,
                        const float *restrict q, const void *restrict keys,
                        const void *restrict values, const uint8_t *first, const uint8_t *end,
                        uint32_t n_q, uint32_t head_dim, read_fn *read)
{
    for (uint32_t r = 0; r < n_q; r++) {
        size_t at = (size_t)r * head_dim;
        if (first[r] < end[r])
            attend_row(state + r, out + at, q + at, keys, values, first[r], end[r], head_dim,
                       read);
    }
}

static void attend_page_f16(kernel_softmax_state *restrict state, float *restrict out,
                            const float *restrict q, const void *restrict keys,
                            const void *restrict values, const uint8_t *first, const uint8_t *end,
                            uint32_t n_q, uint32_t head_dim)
{
    attend_page(state, out, q, keys, values, first, end, n_q, head_dim, read_f16);
}

static void attend_page_f32(kernel_softmax_state *restrict state, float *restrict out,
                            const float *restrict q, const void *restrict keys,
                            const void *restrict values, const uint8_t *first, const uint8_t *end,
                            uint32_t n_q, uint32_t head_dim)
{
    attend_page(state, out, q, keys, values, first, end, n_q, head_dim, read_f32);
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
    table->attend_page[KERNEL_KV_F16] = attend_page_f16;
    table->attend_page[KERNEL_KV_F32] = attend_page_f32;
    table->attend_join = attend_join;
}
