/* check_attention.c - writing keys and values, attending to pages, joining chunks. */
#include <math.h>

#include "kernelcheck.h"
#include "kernels/kv_i8.h"

static const uint32_t head_dims[] = {2,  6,   8,   16,  20,  32, 64,
                                     80, 112, 128, 256, 512, KERNEL_HEAD_MAX};
static const uint32_t row_counts[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 13, 16, 64};
enum { ROWS_MAX = 64, PAGES = 3 };

typedef enum {
    PAGE_RANDOM = 0,    /* ordinary keys and values */
    PAGE_ANY = 1,       /* any finite halves, large queries: scores of 10^7 */
    PAGE_ZEROS = 2,     /* of both signs */
    PAGE_DENORMALS = 3, /* halves and queries, so that products underflow */
    PAGE_END = 4,
} page_mode;

typedef enum {
    RANGE_FULL = 0,     /* every row sees all pages */
    RANGE_SAME = 1,     /* every row sees the same part of them */
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

static void make_ranges(range_mode mode, uint32_t *first, uint32_t *end, uint32_t n_q)
{
    const uint32_t n = PAGES * KERNEL_PAGE;
    const uint32_t a = kc_rand_below(n), b = a + 1 + kc_rand_below(n - a);
    for (uint32_t r = 0; r < n_q; r++) {
        first[r] = mode == RANGE_FULL ? 0 : a;
        end[r] = mode == RANGE_FULL ? n : b;
        if (mode == RANGE_DIAGONAL) {
            first[r] = 0;
            end[r] = r + 1 + a % 8 > n ? n : r + 1 + a % 8;
        } else if (mode == RANGE_RANDOM) {
            first[r] = kc_rand_below(n + 1);
            end[r] = kc_rand_below(n + 1);
        }
    }
}

/* The alignment of pages and rows of a type, and no more. */
static size_t aligned_to(kernel_kv_type type)
{
    switch (type) {
    case KERNEL_KV_I8: return 64;
    case KERNEL_KV_F16: return 2;
    case KERNEL_KV_F32: break;
    }
    return 4;
}

/* to[i] = x, stored in the type. */
static void keep(kernel_kv_type type, void *to, size_t i, float x)
{
    if (type == KERNEL_KV_F16)
        ((uint16_t *)to)[i] = f32_to_f16(x);
    else
        ((float *)to)[i] = x;
}

/* Some pages for the reference and the same numbers for the checked kernel.  For floats, the
 * reference is that of F16 for every type: a value that is a half gives the same bits in each. */
typedef struct {
    kernel_kv_type type, ref_type;
    uint32_t n_q, head_dim;
    kernel_kv_page ref[PAGES], own[PAGES]; /* the same pages for I8 */
    uint8_t *queries, *ref_queries;
    uint32_t *first, *end; /* [n_q] */
} setting;

static setting take_setting(kernel_kv_type type, uint32_t n_q, uint32_t head_dim)
{
    setting s = {.type = type, .n_q = n_q, .head_dim = head_dim};
    s.ref_type = type == KERNEL_KV_I8 ? KERNEL_KV_I8 : KERNEL_KV_F16;
    const size_t bytes = kernel_kv_bytes(type, head_dim);
    const size_t ref_bytes = kernel_kv_bytes(s.ref_type, head_dim);
    for (int p = 0; p < PAGES; p++) {
        s.own[p].keys = kc_buffer(bytes, aligned_to(type));
        s.own[p].values = kc_buffer(bytes, aligned_to(type));
        s.ref[p] = s.own[p];
        if (s.ref_type == type) continue;
        s.ref[p].keys = kc_buffer(ref_bytes, 2);
        s.ref[p].values = kc_buffer(ref_bytes, 2);
    }
    s.queries = kc_buffer(n_q * kernel_query_bytes(type, head_dim), 4);
    s.ref_queries = kc_buffer(n_q * kernel_query_bytes(s.ref_type, head_dim), 4);
    s.first = kc_buffer(n_q * sizeof *s.first, 4);
    s.end = kc_buffer(n_q * sizeof *s.end, 4);
    return s;
}

static bool any_row_sees(const setting *s, uint32_t token)
{
    for (uint32_t r = 0; r < s->n_q; r++)
        if (s->first[r] <= token && token < s->end[r]) return true;
    return false;
}

static void fill_halves(setting *s, page_mode mode, uint32_t p)
{
    uint16_t *keys = (void *)(uintptr_t)s->ref[p].keys;
    uint16_t *values = (void *)(uintptr_t)s->ref[p].values;
    for (uint32_t j = 0; j < KERNEL_PAGE; j++) {
        const bool seen = any_row_sees(s, p * KERNEL_PAGE + j);
        for (uint32_t d = 0; d < s->head_dim; d++) {
            keys[d * KERNEL_PAGE + j] = seen ? random_half(mode) : 0x7e00;
            values[j * s->head_dim + d] = seen ? random_half(mode) : (d % 2 ? 0xfc00 : 0x7e00);
        }
    }
    for (size_t i = 0; i < (size_t)KERNEL_PAGE * s->head_dim; i++) {
        keep(s->type, (void *)(uintptr_t)s->own[p].keys, i, f16_to_f32(keys[i]));
        keep(s->type, (void *)(uintptr_t)s->own[p].values, i, f16_to_f32(values[i]));
    }
}

/* Any bytes; for PAGE_ANY the largest of either sign, in runs, so that sums reach their bounds. */
static void fill_bytes(setting *s, page_mode mode, uint32_t p)
{
    kv_i8_page *keys = (void *)(uintptr_t)s->own[p].keys;
    kv_i8_page *values = (void *)(uintptr_t)s->own[p].values;
    const uint32_t n = KERNEL_PAGE * kv_i8_channels(s->head_dim);
    const bool same = kc_rand() & 1;
    for (uint32_t i = 0; i < n; i++) {
        const uint32_t bits = kc_rand();
        int key = 1 + (int)(bits % 255), value = (int)(bits % 255) - 127;
        if (mode == PAGE_ANY) key = same || bits & 1 ? 255 : 1;
        if (mode == PAGE_ANY) value = same || bits & 2 ? 127 : -127;
        keys->bytes[i] = (uint8_t)key;
        values->bytes[i] = (uint8_t)value;
    }
    for (uint32_t j = 0; j < KERNEL_PAGE; j++) {
        float key = fabsf(random_query(mode)) / 127, value = fabsf(random_query(mode)) / 127;
        if (mode == PAGE_ANY) key = same ? 0x1p-9f : key, value = same ? 1.0f : value;
        if (mode == PAGE_DENORMALS && kc_rand() & 1) value = 0x1p-105f; /* about the bound */
        if (!any_row_sees(s, p * KERNEL_PAGE + j)) key = NAN, value = -INFINITY;
        keys->scale[j] = key;
        values->scale[j] = value;
    }
}

/* Slots that no row sees hold not-a-numbers. */
static void fill_setting(setting *s, const kernel_table *ref, page_mode mode, range_mode range)
{
    float *q = kc_buffer(s->head_dim * sizeof *q, 4);
    make_ranges(range, s->first, s->end, s->n_q);
    for (uint32_t p = 0; p < PAGES; p++)
        s->type == KERNEL_KV_I8 ? fill_bytes(s, mode, p) : fill_halves(s, mode, p);
    for (uint32_t r = 0; r < s->n_q; r++) {
        const size_t bytes = kernel_query_bytes(s->type, s->head_dim);
        const size_t ref_bytes = kernel_query_bytes(s->ref_type, s->head_dim);
        for (uint32_t d = 0; d < s->head_dim; d++) q[d] = random_query(mode);
        ref->attend_query[s->type](s->queries + r * bytes, q, s->head_dim);
        ref->attend_query[s->ref_type](s->ref_queries + r * ref_bytes, q, s->head_dim);
    }
}

typedef struct {
    kernel_softmax_state *state;
    float *out;
} rows;

/* Some rows have already seen tokens. */
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

static void check_pages(const kernel_table *ref, const kernel_table *level, kernel_kv_type type,
                        uint32_t n_q, uint32_t head_dim, page_mode mode, range_mode range)
{
    rows want, got;
    setting s = take_setting(type, n_q, head_dim);
    make_rows(mode, &want, &got, n_q, head_dim);
    fill_setting(&s, ref, mode, range);
    ref->attend[s.ref_type](want.state, want.out, s.ref_queries, s.ref, PAGES, s.first, s.end, n_q,
                            head_dim);
    level->attend[type](got.state, got.out, s.queries, s.own, PAGES, s.first, s.end, n_q,
                        head_dim);
    compare_rows(&want, &got, n_q, head_dim, mode, range);
}

/* The bits of a row depend neither on the other rows nor on the cuts of a run of pages. */
static void check_alone(const kernel_table *ref, const kernel_table *level, kernel_kv_type type)
{
    enum { DIM = 64, ROWS = 13 };
    rows together, alone;
    setting s = take_setting(type, ROWS, DIM);
    make_rows(PAGE_RANDOM, &together, &alone, ROWS, DIM);
    fill_setting(&s, ref, PAGE_RANDOM, RANGE_RANDOM);
    level->attend[type](together.state, together.out, s.queries, s.own, PAGES, s.first, s.end,
                        ROWS, DIM);
    for (uint32_t r = 0; r < ROWS; r++)
        for (uint32_t p = 0; p < PAGES; p++) {
            const uint32_t at = p * KERNEL_PAGE;
            const uint32_t first = s.first[r] > at ? s.first[r] - at : 0;
            const uint32_t end = s.end[r] > at ? s.end[r] - at : 0;
            level->attend[type](alone.state + r, alone.out + r * DIM,
                                s.queries + r * kernel_query_bytes(type, DIM), s.own + p, 1,
                                &first, &end, 1, DIM);
        }
    compare_rows(&together, &alone, ROWS, DIM, PAGE_END, RANGE_RANDOM);
}

/* The index of page i of a walk among n: those of one head are HEADS apart, as in a pool. */
static uint32_t bench_place(uint32_t i, uint32_t n)
{
    enum { HEADS = 16 };
    return n % HEADS ? i : i % (n / HEADS) * HEADS + i / (n / HEADS);
}

/* Few pages stay in the cache, many do not. */
static void bench_pages(const kernel_table *level, kernel_kv_type type, uint32_t n_q,
                        uint32_t head_dim, uint32_t n_pages)
{
    enum { RUN = 8 };
    const size_t page_bytes = kernel_kv_bytes(type, head_dim);
    const size_t query_bytes = kernel_query_bytes(type, head_dim);
    rows one, two;
    char what[64];
    float k[256];
    uint8_t *memory = kc_buffer(2 * n_pages * page_bytes, 64);
    uint8_t *queries = kc_buffer(n_q * query_bytes, 64);
    uint32_t first[ROWS_MAX] = {0}, end[ROWS_MAX];
    for (uint32_t d = 0; d < head_dim; d++) k[d] = random_query(PAGE_RANDOM);
    for (uint32_t i = 0; i < n_pages * KERNEL_PAGE; i++) {
        uint8_t *page = memory + i / KERNEL_PAGE * 2 * page_bytes;
        k[i % head_dim] = kc_rand_float();
        level->kv_write[type](page, page + page_bytes, i % KERNEL_PAGE, k, k, head_dim);
    }
    for (uint32_t r = 0; r < n_q; r++) {
        end[r] = RUN * KERNEL_PAGE;
        k[r % head_dim] = kc_rand_float();
        level->attend_query[type](queries + r * query_bytes, k, head_dim);
    }
    make_rows(PAGE_RANDOM, &one, &two, n_q, head_dim);
    snprintf(what, sizeof what, "%u x %u, %u pages", n_q, head_dim, n_pages);
    KC_BENCH(
        what, n_pages * (n_pages == RUN ? 4.0 * n_q * head_dim * KERNEL_PAGE : 2.0 * page_bytes),
        n_pages == RUN ? "Gop/s" : "GB/s", for (uint32_t p = 0; p < n_pages; p += RUN) {
            kernel_kv_page run[RUN];
            for (uint32_t i = 0; i < RUN; i++) {
                const uint32_t place = bench_place(p + i, n_pages);
                run[i].keys = memory + place * 2 * page_bytes;
                run[i].values = memory + (place * 2 + 1) * page_bytes;
            }
            level->attend[type](one.state, one.out, queries, run, RUN, first, end, n_q, head_dim);
        });
    kc_release();
}

static bool begin(kc_fn fn, const char *name, kernel_kv_type type)
{
    char full[32];
    snprintf(full, sizeof full, "%s_%s", name, kernel_kv_name(type));
    return kc_begin(fn, full);
}

static void check_attend(const kernel_table *ref, const kernel_table *level, kernel_kv_type type)
{
    if (!begin((kc_fn)level->attend[type], "attend", type)) return;
    for (size_t h = 0; h < ARRAY_LEN(head_dims); h++)
        for (size_t r = 0; r < ARRAY_LEN(row_counts); r++) {
            /* 64 rows of every mode and width would take the reference minutes. */
            if (row_counts[r] * head_dims[h] > 16 * 20 && (h + r) % (kc_slow() ? 9 : 5)) continue;
            for (int k = 0; k < PAGE_END * RANGE_END; k++)
                check_pages(ref, level, type, row_counts[r], head_dims[h], k % PAGE_END,
                            k / PAGE_END);
        }
    for (int round = 0; round < 20; round++) check_alone(ref, level, type);
    if (kc_benching()) {
        static const uint32_t bench_rows[] = {1, 2, 4, 7, 8, 28, 64};
        for (size_t r = 0; r < (ref == level ? 1 : ARRAY_LEN(bench_rows)); r++)
            for (uint32_t head_dim = 64; head_dim <= 128; head_dim *= 2) {
                bench_pages(level, type, bench_rows[r], head_dim, 8);
                if (bench_rows[r] <= 8 && ref != level) /* 64 MB and more */
                    bench_pages(level, type, bench_rows[r], head_dim, 512 * 1024 / head_dim);
            }
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

/* A head whose channels are alike, or with outliers, or tiny, or zero. */
static void random_head(float *x, uint32_t n)
{
    static const float sizes[] = {1.0f, 0x1p-20f, 0x1p60f, 0x1p-106f, 0.0f};
    const float size = sizes[kc_rand_below(ARRAY_LEN(sizes))];
    for (uint32_t d = 0; d < n; d++)
        x[d] = size * kc_rand_float() * (kc_rand_below(16) ? 1.0f : 50.0f);
}

/* The reference's output: each number in its place, and no other one touched. */
static void want_write(const kernel_table *ref, kernel_kv_type type, void *keys, void *values,
                       uint32_t slot, const float *k, const float *v, uint32_t n)
{
    if (type == KERNEL_KV_I8) {
        ref->kv_write[type](keys, values, slot, k, v, n);
        return;
    }
    for (uint32_t d = 0; d < n; d++) {
        keep(type, keys, d * KERNEL_PAGE + slot, k[d]);
        keep(type, values, slot * n + d, v[d]);
    }
}

static void check_kv_write(const kernel_table *ref, const kernel_table *level, kernel_kv_type type)
{
    if (!begin((kc_fn)level->kv_write[type], "kv_write", type)) return;
    for (size_t h = 0; h < ARRAY_LEN(head_dims); h++)
        for (uint32_t slot = 0; slot < KERNEL_PAGE; slot += slot ? 9 : 1) {
            const uint32_t n = head_dims[h];
            const size_t bytes = kernel_kv_bytes(type, n), align = aligned_to(type);
            void *want_keys = kc_buffer(bytes, align), *want_values = kc_buffer(bytes, align);
            void *keys = kc_buffer(bytes, align), *values = kc_buffer(bytes, align);
            float *k = kc_buffer(n * sizeof *k, 4), *v = kc_buffer(n * sizeof *v, 4);
            for (uint32_t d = 0; d < n; d++) k[d] = random_finite(), v[d] = random_finite();
            if (type == KERNEL_KV_I8) random_head(k, n), random_head(v, n);
            want_write(ref, type, want_keys, want_values, slot, k, v, n);
            level->kv_write[type](keys, values, slot, k, v, n);
            if (memcmp(want_keys, keys, bytes) != 0) kc_fail("keys, head_dim %u", n);
            if (memcmp(want_values, values, bytes) != 0) kc_fail("values, head_dim %u", n);
            memcpy(keys, want_keys, bytes);
            for (uint32_t d = 0; d < n; d++) k[d] = random_finite();
            if (type == KERNEL_KV_I8) random_head(k, n);
            want_write(ref, type, want_keys, want_values, slot, k, v, n);
            level->kv_write[type](keys, NULL, slot, k, k, n);
            if (memcmp(want_keys, keys, bytes) != 0) kc_fail("keys alone, head_dim %u", n);
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

/* One value of a page. */
static float value_at(kernel_kv_type type, const void *values, uint32_t slot, uint32_t d,
                      uint32_t n)
{
    const kv_i8_page *page = values;
    if (type == KERNEL_KV_F16) return f16_to_f32(((const uint16_t *)values)[slot * n + d]);
    if (type == KERNEL_KV_F32) return ((const float *)values)[slot * n + d];
    return page->scale[slot] *
           (float)(int8_t)page->bytes[kv_i8_value_at(d, slot, kv_i8_channels(n))];
}

/* Values made of keys equal those that are written, for any content of unused slots. */
static void check_kv_values(const kernel_table *ref, const kernel_table *level, kernel_kv_type type)
{
    if (!begin((kc_fn)level->kv_values[type], "kv_values", type)) return;
    for (size_t h = 0; h < ARRAY_LEN(head_dims); h++) {
        const uint32_t n = head_dims[h], n_written = 1 + kc_rand_below(KERNEL_PAGE);
        const size_t bytes = kernel_kv_bytes(type, n), align = aligned_to(type);
        void *keys = kc_buffer(bytes, align), *want = kc_buffer(bytes, align);
        void *got = kc_buffer(bytes, align);
        float *k = kc_buffer(n * sizeof *k, 4);
        for (uint32_t slot = 0; slot < n_written; slot++) {
            random_head(k, n);
            ref->kv_write[type](keys, want, slot, k, k, n);
        }
        level->kv_values[type](got, keys, n);
        for (uint32_t slot = 0; slot < n_written; slot++)
            for (uint32_t d = 0; d < n; d++) {
                const float a = value_at(type, want, slot, d, n);
                const float b = value_at(type, got, slot, d, n);
                if (memcmp(&a, &b, sizeof a) != 0) kc_fail("head_dim %u, slot %u", n, slot);
            }
        kc_release();
    }
    if (kc_benching()) {
        void *keys = kc_buffer(kernel_kv_bytes(type, KERNEL_HEAD_MAX), 64);
        void *values = kc_buffer(kernel_kv_bytes(type, KERNEL_HEAD_MAX), 64);
        KC_BENCH("576", KERNEL_PAGE * KERNEL_HEAD_MAX, "Gvalue/s",
                 level->kv_values[type](values, keys, KERNEL_HEAD_MAX));
    }
    kc_end();
}

static void check_attend_query(const kernel_table *ref, const kernel_table *level,
                               kernel_kv_type type)
{
    if (!begin((kc_fn)level->attend_query[type], "attend_query", type)) return;
    for (size_t h = 0; h < ARRAY_LEN(head_dims); h++)
        for (int round = 0; round < 50; round++) {
            const uint32_t n = head_dims[h];
            const size_t bytes = kernel_query_bytes(type, n);
            void *want = kc_buffer(bytes, 4), *got = kc_buffer(bytes, 4);
            float *q = kc_buffer(n * sizeof *q, 4);
            random_head(q, n);
            ref->attend_query[type](want, q, n);
            level->attend_query[type](got, q, n);
            if (memcmp(want, got, bytes) != 0) kc_fail("head_dim %u", n);
            kc_release();
        }
    kc_end();
}

static void check_attend_result(const kernel_table *ref, const kernel_table *level,
                                kernel_kv_type type)
{
    if (!begin((kc_fn)level->attend_result[type], "attend_result", type)) return;
    for (size_t h = 0; h < ARRAY_LEN(head_dims); h++)
        for (int round = 0; round < 50; round++) {
            const uint32_t n = head_dims[h];
            float *want = kc_buffer(n * sizeof *want, 4), *got = kc_buffer(n * sizeof *got, 4);
            random_head(want, n);
            memcpy(got, want, n * sizeof *got);
            ref->attend_result[type](want, n);
            level->attend_result[type](got, n);
            kc_compare(want, got, n, "turned back");
            kc_release();
        }
    kc_end();
}

void kc_check_attention(const kernel_table *ref, const kernel_table *level)
{
    for (int i = 0; i < KERNEL_KV_TYPE_END; i++) {
        const kernel_kv_type type = (kernel_kv_type)i;
        check_kv_write(ref, level, type);
        check_kv_values(ref, level, type);
        check_attend_query(ref, level, type);
        check_attend(ref, level, type);
        check_attend_result(ref, level, type);
    }
    check_attend_join(ref, level);
}
