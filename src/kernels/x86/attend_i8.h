/* attend_i8.h - attention on 8 bits for any width of vector: the part that AVX2, AVX-512 and AMX
 * share.
 *
 * Both halves of attention are sums of products of bytes: of a page's keys (lanes are tokens, four
 * channels a lane) with queries, and of its values (lanes are channels, four tokens a lane) with
 * weights.  A tile does that for up to TILE_ROWS_MAX rows and some vectors of lanes; one load, and
 * what it takes to make operands of bytes, serve all rows.
 *
 * Before it includes this file, a file defines
 *   vf, VF_LANES, vf_load, vf_store, vf_set1, vf_mul, vf_fma     floats, as in attend.h
 *   vf_ints                         VF_LANES 32-bit integers at any address, as floats
 *   shape_tiles                     before sums of n rows: what they need to know beforehand
 *   sums_of_keys, sums_of_values, score_row, weigh_row, round_row  see their use */
#ifndef KERNELS_X86_ATTEND_I8_H
#define KERNELS_X86_ATTEND_I8_H

#include "kernels/kv_i8.h"
#include "kernels/vector.h"

enum {
    LINE_BYTES = 64,
    PAGE_WORDS = KERNEL_PAGE / 4 /* of weights: a byte for each token */
};

/* Rows that go through tiles together. */
typedef struct {
    kernel_softmax_state *state;
    float *out;                  /* [rows][head_dim] */
    const uint8_t *queries;      /* [rows][query_bytes] */
    size_t query_bytes;
    const uint32_t *first, *end; /* [rows] */
    uint32_t rows, head_dim, channels;
    uint32_t *shaped;            /* rows that tiles have now, 0 at first: of shape_tiles() */
} row_group;

static void fetch_lines(const void *at, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) __builtin_prefetch((const uint8_t *)at + LINE_BYTES * i, 0, 2);
}

/* out[n] = sums[n] * scale + out[n] * c */
static void add_sums(float *restrict out, const int32_t *restrict sums, float scale, float c,
                     uint32_t n)
{
    const vf scales = vf_set1(scale), cs = vf_set1(c);
    uint32_t d = 0;
    for (; d + VF_LANES <= n; d += VF_LANES)
        vf_store(out + d, vf_fma(vf_ints(sums + d), scales, vf_mul(vf_load(out + d), cs)));
    for (; d < n; d++) out[d] = fmaf((float)sums[d], scale, out[d] * c);
}

/* A row that sees something of the page. */
typedef struct {
    uint32_t at; /* in the group */
    const kv_i8_query *query;
    kernel_span seen;
    float max, top;
} seeing_row;

/* The rows of a group that see something of page p, and all that they see. */
static uint32_t find_seeing(seeing_row rows[TILE_ROWS_MAX], kernel_span *all, const row_group *g,
                            uint32_t p)
{
    uint32_t n = 0;
    *all = (kernel_span){KERNEL_PAGE, 0};
    for (uint32_t r = 0; r < g->rows; r++) {
        const kernel_span span = kernel_page_span(g->first[r], g->end[r], p);
        if (span.first >= span.end) continue;
        if (span.first < all->first) all->first = span.first;
        if (span.end > all->end) all->end = span.end;
        rows[n++] = (seeing_row){
            .at = r, .query = (const void *)(g->queries + r * g->query_bytes), .seen = span};
    }
    return n;
}

/* Page p for rows that share it; next: the page after, which is fetched meanwhile.  Each step is
 * done for all rows before the next one, as a row alone would wait for its own maximum. */
static void attend_page_rows(const row_group *g, const kernel_kv_page *page,
                             const kernel_kv_page *next, uint32_t p)
{
    _Alignas(64) int32_t scores[TILE_ROWS_MAX][KERNEL_PAGE];
    _Alignas(64) int32_t sums[TILE_ROWS_MAX][KV_I8_CHANNELS_MAX];
    _Alignas(64) int32_t weights[TILE_ROWS_MAX][PAGE_WORDS];
    const kv_i8_page *keys = page->keys, *values = page->values;
    const kv_i8_page *next_keys = next->keys, *next_values = next->values;
    const int32_t *words[TILE_ROWS_MAX];
    seeing_row rows[TILE_ROWS_MAX];
    kernel_span all;
    const uint32_t n = find_seeing(rows, &all, g, p);
    if (n == 0) return;
    shape_tiles(g->shaped, n, g->channels);
    for (uint32_t i = 0; i < n; i++) words[i] = (const void *)rows[i].query->q;
    sums_of_keys(scores, words, keys->bytes, next_keys->bytes, g->channels, n);
    for (uint32_t i = 0; i < n; i++)
        rows[i].max = score_row(scores[i], rows[i].query->offset, keys->scale, rows[i].seen);
    float c[TILE_ROWS_MAX];
    for (uint32_t i = 0; i < n; i++) {
        kernel_softmax_state *state = g->state + rows[i].at;
        const float scale = rows[i].query->scale;
        const float max = kernel_max(state->max, rows[i].max * scale) + 0.0f;
        float sum;
        c[i] = max == state->max ? 1.0f : kernel_decay(state->max, max); /* exp(0) is 1 */
        rows[i].top = weigh_row(scores[i], scale, max, values->scale, &sum, rows[i].seen);
        *state = (kernel_softmax_state){.max = max, .sum = state->sum * c[i] + sum};
    }
    for (uint32_t i = 0; i < n; i++) {
        round_row(weights[i], scores[i], kv_i8_inverse(rows[i].top, KV_I8_WEIGHT_MAX));
        words[i] = weights[i];
    }
    sums_of_values(sums, words, values->bytes, next_values->bytes, all.first / 4,
                   (all.end + 3) / 4, g->channels, n);
    for (uint32_t i = 0; i < n; i++)
        add_sums(g->out + (size_t)rows[i].at * g->head_dim, sums[i],
                 kv_i8_scale(rows[i].top, KV_I8_WEIGHT_MAX), c[i], g->head_dim);
}

/* The page after page p.  After the last one, as far as that is from the one before it: right as
 * long as a sequence got its pages in order, and else memory that may not be there, which a
 * prefetch may ask for. */
static kernel_kv_page page_after(const kernel_kv_page *pages, uint32_t n_pages, uint32_t p)
{
    if (p + 1 < n_pages) return pages[p + 1];
    if (p == 0) return pages[p];
    const uintptr_t keys = (uintptr_t)pages[p].keys, values = (uintptr_t)pages[p].values;
    return (kernel_kv_page){(const void *)(2 * keys - (uintptr_t)pages[p - 1].keys),
                            (const void *)(2 * values - (uintptr_t)pages[p - 1].values)};
}

/* Pages outside, so that one stays in the cache for all rows. */
static void attend_i8(kernel_softmax_state *restrict state, float *restrict out,
                      const void *restrict queries, const kernel_kv_page *restrict pages,
                      uint32_t n_pages, const uint32_t *restrict first,
                      const uint32_t *restrict end, uint32_t n_q, uint32_t head_dim)
{
    const size_t query_bytes = kernel_query_bytes(KERNEL_KV_I8, head_dim);
    uint32_t shaped = 0;
    for (uint32_t p = 0; p < n_pages; p++) {
        const kernel_kv_page next = page_after(pages, n_pages, p);
        fetch_lines(next.keys, sizeof(kv_i8_page) / LINE_BYTES);
        fetch_lines(next.values, sizeof(kv_i8_page) / LINE_BYTES);
        for (uint32_t r = 0, left = (n_q + TILE_ROWS_MAX - 1) / TILE_ROWS_MAX; left; left--) {
            const uint32_t rows = (n_q - r + left - 1) / left;
            const row_group g = {.state = state + r,
                                 .out = out + (size_t)r * head_dim,
                                 .queries = (const uint8_t *)queries + r * query_bytes,
                                 .query_bytes = query_bytes,
                                 .first = first + r,
                                 .end = end + r,
                                 .rows = rows,
                                 .head_dim = head_dim,
                                 .channels = kv_i8_channels(head_dim),
                                 .shaped = &shaped};
            attend_page_rows(&g, pages + p, r ? pages + p : &next, p);
            r += rows;
        }
    }
}

#endif
