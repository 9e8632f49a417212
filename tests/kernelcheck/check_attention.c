/* check_attention.c - writing keys and values, attending to a page, joining chunks. */
#include <math.h>

#include "kernelcheck.h"

static const uint32_t head_dims[] = {2, 6, 8, 16, 20, 32, 64, 80, 96, 128, 256};
static const uint32_t row_counts[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 13, 16, 64};
enum { HEAD_DIM_MAX = 256, ROWS_MAX = 64 };

typedef enum {
    PAGE_RANDOM = 0,    /* ordinary keys and values */
    PAGE_ANY = 1,       /* any finite halves, large queries: scores of 10^7 */
    PAGE_ZEROS = 2,     /* of both signs */
    PAGE_DENORMALS = 3, /* halves and queries, so that products underflow */
    PAGE_END = 4,
} page_mode;

typedef enum {
    RANGE_FULL = 0,     /* every row sees the page */
    RANGE_SAME = 1,     /* every row sees the same part of it */
    RANGE_DIAGONAL = 2, /* row i sees one token more than row i - 1 */
    RANGE_RANDOM = 3,   /* any, empty ones too */
    RANGE_END = 4,
} range_mode;

static uint16_t random_half(page_mode mode)
{
    const uint32_t bits = kc_rand();
    switch (mode) {
    case PAGE_RANDOM: return f32_to_f16(kc_rand_float() * 2.0f);
    case PAGE_ANY: return (uint16_t)((bits & 0x83ff) | kc_rand_below(31) << 10);
    case PAGE_ZEROS: return bits & 0x8000;
    case PAGE_DENORMALS: return bits & 0x800f;
    case PAGE_END: break;
    }
    return 0;
}

static float random_query(page_mode mode)
{
    const float x = kc_rand_float();
    switch (mode) {
    case PAGE_RANDOM: return x * 0.5f;
    case PAGE_ANY: return x * 4.0f;
    case PAGE_ZEROS: return x < 0.0f ? -0.0f : 0.0f;
    case PAGE_DENORMALS: return x * (kc_rand_below(8) ? 0x1p-148f : 0x1p-125f); /* scores of -0 */
    case PAGE_END: break;
    }
    return 0.0f;
}

static void make_ranges(range_mode mode, uint8_t *first, uint8_t *end, uint32_t n_q)
{
    const uint32_t a = kc_rand_below(KERNEL_PAGE), b = a + 1 + kc_rand_below(KERNEL_PAGE - a);
    for (uint32_t r = 0; r < n_q; r++) {
        first[r] = (uint8_t)(mode == RANGE_FULL ? 0 : a);
        end[r] = (uint8_t)(mode == RANGE_FULL ? KERNEL_PAGE : b);
        if (mode == RANGE_DIAGONAL) {
            first[r] = 0;
            end[r] = (uint8_t)(r + 1 + a % 8 > KERNEL_PAGE ? KERNEL_PAGE : r + 1 + a % 8);
        } else if (mode == RANGE_RANDOM) {
            first[r] = (uint8_t)kc_rand_below(KERNEL_PAGE + 1);
            end[r] = (uint8_t)kc_rand_below(KERNEL_PAGE + 1);
        }
    }
}

/* Bytes that one number of keys or values takes: the buffers are aligned to no more. */
static size_t kept_bytes(kernel_kv_type type) { return kernel_kv_bytes(type, 1) / KERNEL_PAGE; }

/* to[i] = x, kept as the type says. */
static void keep(kernel_kv_type type, void *to, size_t i, float x)
{
    switch (type) {
    case KERNEL_KV_F16: ((uint16_t *)to)[i] = f32_to_f16(x); break;
    case KERNEL_KV_F32: ((float *)to)[i] = x; break;
    }
}

/* One page of halves, for the reference of F16, and the same numbers as another type keeps them. */
typedef struct {
    uint16_t *half_keys, *half_values;
    void *keys, *values;
    uint8_t *first, *end; /* [n_q] what each row sees of it */
} both_pages;

static both_pages take_pages(kernel_kv_type type, uint32_t n_q, uint32_t head_dim)
{
    const size_t half_bytes = kernel_kv_bytes(KERNEL_KV_F16, head_dim);
    const size_t bytes = kernel_kv_bytes(type, head_dim), align = kept_bytes(type);
    return (both_pages){
        .half_keys = kc_buffer(half_bytes, 2), .half_values = kc_buffer(half_bytes, 2),
        .keys = kc_buffer(bytes, align),       .values = kc_buffer(bytes, align),
        .first = kc_buffer(n_q, 1),            .end = kc_buffer(n_q, 1),
    };
}

/* Slots that no row sees hold not-a-numbers. */
static void make_pages(kernel_kv_type type, page_mode mode, both_pages *p, uint32_t n_q,
                       uint32_t head_dim)
{
    for (uint32_t j = 0; j < KERNEL_PAGE; j++) {
        bool seen = false;
        for (uint32_t r = 0; r < n_q; r++) seen |= p->first[r] <= j && j < p->end[r];
        for (uint32_t d = 0; d < head_dim; d++) {
            p->half_keys[d * KERNEL_PAGE + j] = seen ? random_half(mode) : 0x7e00;
            p->half_values[j * head_dim + d] =
                seen ? random_half(mode) : (d % 2 ? 0xfc00 : 0x7e00);
        }
    }
    for (size_t i = 0; i < (size_t)KERNEL_PAGE * head_dim; i++) {
        keep(type, p->keys, i, f16_to_f32(p->half_keys[i]));
        keep(type, p->values, i, f16_to_f32(p->half_values[i]));
    }
}

typedef struct {
    kernel_softmax_state *state;
    float *out;
} rows;

/* Some rows have seen something already. */
static void make_rows(page_mode mode, rows *want, rows *got, uint32_t n_q, uint32_t head_dim)
{
    const size_t state_bytes = n_q * sizeof *want->state;
    const size_t out_bytes = n_q * head_dim * sizeof(float);
    *want = (rows){kc_buffer(state_bytes, 4), kc_buffer(out_bytes, 4)};
    *got = (rows){kc_buffer(state_bytes, 4), kc_buffer(out_bytes, 4)};
    for (uint32_t r = 0; r < n_q; r++) {
        const bool seen = kc_rand() & 1;
        want->state[r].max = seen ? random_query(mode) * 8.0f : -INFINITY;
        want->state[r].sum = seen ? 1.0f + fabsf(kc_rand_float()) : 0.0f;
        for (uint32_t d = 0; d < head_dim; d++)
            want->out[r * head_dim + d] = seen ? random_query(mode) : 0.0f;
    }
    memcpy(got->state, want->state, state_bytes);
    memcpy(got->out, want->out, out_bytes);
}

static void compare_rows(const rows *want, const rows *got, uint32_t n_q, uint32_t head_dim,
                         int page, int range)
{
    char what[96];
    snprintf(what, sizeof what, "state: head_dim %u, %u rows, page %d, range %d", head_dim, n_q,
             page, range);
    kc_compare(&want->state[0].max, &got->state[0].max, 2 * (size_t)n_q, what);
    memcpy(what, "  out", 5);
    kc_compare(want->out, got->out, (size_t)n_q * head_dim, what);
    kc_release();
}

/* Of halves, every type makes the bits that the reference of F16 makes. */
static void check_page(const kernel_table *ref, const kernel_table *level, kernel_kv_type type,
                       uint32_t n_q, uint32_t head_dim, page_mode mode, range_mode range)
{
    rows want, got;
    float *q = kc_buffer(n_q * head_dim * sizeof *q, 4);
    both_pages p = take_pages(type, n_q, head_dim);
    for (uint32_t i = 0; i < n_q * head_dim; i++) q[i] = random_query(mode);
    make_rows(mode, &want, &got, n_q, head_dim);
    for (int n = 0; n < 2; n++) {
        make_ranges(range, p.first, p.end, n_q);
        make_pages(type, mode, &p, n_q, head_dim);
        ref->attend_page[KERNEL_KV_F16](want.state, want.out, q, p.half_keys, p.half_values,
                                        p.first, p.end, n_q, head_dim);
        level->attend_page[type](got.state, got.out, q, p.keys, p.values, p.first, p.end, n_q,
                                 head_dim);
    }
    compare_rows(&want, &got, n_q, head_dim, mode, range);
}

/* The bits of a row do not depend on the rows beside it. */
static void check_page_alone(const kernel_table *level, kernel_kv_type type)
{
    enum { DIM = 64, ROWS = 13 };
    rows together, alone;
    float *q = kc_buffer(ROWS * DIM * sizeof *q, 4);
    both_pages p = take_pages(type, ROWS, DIM);
    for (uint32_t i = 0; i < ROWS * DIM; i++) q[i] = random_query(PAGE_RANDOM);
    make_rows(PAGE_RANDOM, &together, &alone, ROWS, DIM);
    make_ranges(RANGE_RANDOM, p.first, p.end, ROWS);
    make_pages(type, PAGE_RANDOM, &p, ROWS, DIM);
    level->attend_page[type](together.state, together.out, q, p.keys, p.values, p.first, p.end,
                             ROWS, DIM);
    for (uint32_t r = 0; r < ROWS; r++)
        level->attend_page[type](alone.state + r, alone.out + r * DIM, q + r * DIM, p.keys,
                                 p.values, p.first + r, p.end + r, 1, DIM);
    compare_rows(&together, &alone, ROWS, DIM, PAGE_END, RANGE_RANDOM);
}

/* Pages in the second-level cache, as a decode step finds them at best. */
static void bench_page(const kernel_table *level, uint32_t n_q, uint32_t head_dim)
{
    enum { PAGES = 8 };
    const size_t n_page = KERNEL_PAGE * (size_t)head_dim;
    rows one, two;
    char what[64];
    float *q = kc_buffer(n_q * head_dim * sizeof *q, 64);
    uint16_t *keys = kc_buffer(PAGES * n_page * 2, 64), *values = kc_buffer(PAGES * n_page * 2, 64);
    uint8_t first[ROWS_MAX], end[ROWS_MAX];
    for (uint32_t i = 0; i < n_q * head_dim; i++) q[i] = random_query(PAGE_RANDOM);
    for (size_t i = 0; i < PAGES * n_page; i++) keys[i] = values[i] = random_half(PAGE_RANDOM);
    make_rows(PAGE_RANDOM, &one, &two, n_q, head_dim);
    make_ranges(RANGE_FULL, first, end, n_q);
    snprintf(what, sizeof what, "%u x %u, 8 pages", n_q, head_dim);
    KC_BENCH(what, PAGES * n_page * n_q * 4, "Gop/s", for (uint32_t p = 0; p < PAGES; p++)
             level->attend_page[KERNEL_KV_F16](one.state, one.out, q, keys + p * n_page,
                                               values + p * n_page, first, end, n_q, head_dim));
    kc_release();
}

static bool begin(kc_fn fn, const char *name, kernel_kv_type type)
{
    char full[32];
    snprintf(full, sizeof full, "%s_%s", name, kernel_kv_name(type));
    return kc_begin(fn, full);
}

static void check_attend_page(const kernel_table *ref, const kernel_table *level,
                              kernel_kv_type type)
{
    if (!begin((kc_fn)level->attend_page[type], "attend_page", type)) return;
    for (size_t h = 0; h < ARRAY_LEN(head_dims); h++)
        for (size_t r = 0; r < ARRAY_LEN(row_counts); r++) {
            /* 64 rows of every mode and width would take the reference a minute. */
            if (row_counts[r] * head_dims[h] > 64 * 20 && (h + r) % 3) continue;
            for (int k = 0; k < PAGE_END * RANGE_END; k++)
                check_page(ref, level, type, row_counts[r], head_dims[h], k % PAGE_END,
                           k / PAGE_END);
        }
    for (int round = 0; round < 20; round++) check_page_alone(level, type);
    if (kc_benching() && type == KERNEL_KV_F16) {
        static const uint32_t bench_rows[] = {1, 2, 3, 4, 5, 6, 7, 8, 16, 64};
        for (size_t r = 0; r < ARRAY_LEN(bench_rows); r++) bench_page(level, bench_rows[r], 128);
        bench_page(level, 7, 64);
        bench_page(level, 4, 80);
    }
    kc_end();
}

static void check_attend_join(const kernel_table *ref, const kernel_table *level)
{
    if (!kc_begin((kc_fn)level->attend_join, "attend_join")) return;
    for (size_t h = 0; h < ARRAY_LEN(head_dims); h++)
        for (int k = 0; k < 20 * PAGE_END; k++) {
            rows want, got, from, unused;
            make_rows(k % PAGE_END, &want, &got, 1, head_dims[h]);
            make_rows(k % PAGE_END, &from, &unused, 1, head_dims[h]);
            ref->attend_join(want.state, want.out, from.state, from.out, head_dims[h]);
            level->attend_join(got.state, got.out, from.state, from.out, head_dims[h]);
            compare_rows(&want, &got, 1, head_dims[h], k % PAGE_END, RANGE_END);
        }
    kc_end();
}

static float random_finite(void)
{
    uint32_t bits = (kc_rand() & 0x807fffff) | kc_rand_below(255) << 23;
    float f;
    if (kc_rand() & 1) bits = (bits & 0x807fffff) | (100 + kc_rand_below(45)) << 23;
    if (kc_rand_below(4) == 0) bits &= 0xfffff000; /* halfway between two halves, or exact */
    memcpy(&f, &bits, sizeof f);
    return f;
}

/* Each number in its place as f32_to_f16() says it, or as it is, and no other one touched. */
static void check_kv_write(const kernel_table *level, kernel_kv_type type)
{
    if (!begin((kc_fn)level->kv_write[type], "kv_write", type)) return;
    for (size_t h = 0; h < ARRAY_LEN(head_dims); h++)
        for (uint32_t slot = 0; slot < KERNEL_PAGE; slot += slot ? 9 : 1) {
            const uint32_t n = head_dims[h];
            const size_t bytes = kernel_kv_bytes(type, n), align = kept_bytes(type);
            void *want_keys = kc_buffer(bytes, align), *want_values = kc_buffer(bytes, align);
            void *keys = kc_buffer(bytes, align), *values = kc_buffer(bytes, align);
            float *k = kc_buffer(n * sizeof *k, 4), *v = kc_buffer(n * sizeof *v, 4);
            for (uint32_t d = 0; d < n; d++) {
                k[d] = random_finite(), v[d] = random_finite();
                keep(type, want_keys, d * KERNEL_PAGE + slot, k[d]);
                keep(type, want_values, slot * n + d, v[d]);
            }
            level->kv_write[type](keys, values, slot, k, v, n);
            if (memcmp(want_keys, keys, bytes) != 0) kc_fail("keys, head_dim %u", n);
            if (memcmp(want_values, values, bytes) != 0) kc_fail("values, head_dim %u", n);
            kc_release();
        }
    if (kc_benching()) {
        void *keys = kc_buffer(kernel_kv_bytes(type, 128), 64);
        void *values = kc_buffer(kernel_kv_bytes(type, 128), 64);
        float k[128];
        for (int d = 0; d < 128; d++) k[d] = kc_rand_float();
        KC_BENCH("128", 256, "Gvalue/s", level->kv_write[type](keys, values, 5, k, k, 128));
    }
    kc_end();
}

void kc_check_attention(const kernel_table *ref, const kernel_table *level)
{
    for (int type = 0; type < KERNEL_KV_TYPE_END; type++) {
        check_kv_write(level, (kernel_kv_type)type);
        check_attend_page(ref, level, (kernel_kv_type)type);
    }
    check_attend_join(ref, level);
}
