/* mesh_kv.c - keys and values in the rows of the mesh: which row holds a token, and how tokens
 * move.
 *
 * ROUND_ROBIN: token t lies in row t mod height, and stays.
 * SHIFT: a token enters at the last row.  Rows keep adjacent tokens, row y the tokens [first[y],
 * first[y + 1]) of a layer, and as the sequence grows every row with more than its share passes its
 * oldest token up by one row: all rows at once, one token a row for each token that enters.  So
 * rows stay even to a token, except during the height's first tokens.  Tokens out of the window are
 * dropped by their row.  A retracted token (a wrong draft) is removed from its rows; nothing moves
 * down. */
#include "base/memory.h"
#include "wafer/mesh_core.h"

int mesh_kv_open(mesh *m)
{
    const step_shape *s = &m->program->shape;
    m->kv_pages = tiles_of(m->layout.choice.context, KERNEL_PAGE);
    m->kv_page_bytes = size_round_up(kernel_kv_bytes(m->layout.kv_type, s->head_dim), MEMORY_ALIGN);
    m->kv_first = mesh_own(m, (size_t)s->n_layers * (m->layout.height + 1), sizeof *m->kv_first);
    if (!m->kv_first || !size_mul((size_t)s->n_layers * s->n_kv_heads, m->kv_pages, &m->kv_bytes) ||
        !size_mul(m->kv_bytes, 2 * m->kv_page_bytes, &m->kv_bytes))
        return CERIUM_ERR_MEMORY;
    m->kv = memory_map(m->kv_bytes);
    return m->kv ? CERIUM_OK : CERIUM_ERR_MEMORY;
}

kernel_kv_page mesh_kv_page(const mesh *m, uint32_t layer, uint32_t head, uint32_t token)
{
    const size_t at = ((size_t)layer * m->program->shape.n_kv_heads + head) * m->kv_pages +
                      token / KERNEL_PAGE;
    uint8_t *keys = m->kv + at * 2 * m->kv_page_bytes;
    return (kernel_kv_page){keys, keys + m->kv_page_bytes};
}

static uint32_t *mesh_kv_first_of(const mesh *m, uint32_t layer)
{
    return m->kv_first + (size_t)layer * (m->layout.height + 1);
}

mesh_kv_range mesh_kv_tokens(const mesh *m, uint32_t layer, uint32_t y, uint32_t begin,
                             uint32_t end)
{
    const uint32_t h = m->layout.height;
    mesh_kv_range r = {.begin = y, .end = end, .stride = h};
    if (m->layout.choice.kv == WAFER_KV_SHIFT) {
        const uint32_t *first = mesh_kv_first_of(m, layer);
        r = (mesh_kv_range){.begin = first[y], .end = first[y + 1], .stride = 1};
        if (r.end > end) r.end = end;
    }
    if (r.begin < begin) r.begin += (begin - r.begin + r.stride - 1) / r.stride * r.stride;
    if (r.begin > r.end) r.begin = r.end;
    return r;
}

/* One core's channels of a token, keys and values in the cache's form. */
uint64_t mesh_kv_wavelets(const mesh *m, uint32_t x)
{
    const uint64_t channels = m->split_kv.share[x];
    switch (m->layout.kv_type) {
    case KERNEL_KV_I8: /* with the scale of each head's key and value */
        return channels ? 2 * ((channels + 3) / 4 + m->strips.heads) : 0;
    case KERNEL_KV_F16: return 2 * ((channels + 1) / 2);
    case KERNEL_KV_F32: return 2 * channels;
    }
    return 0;
}

/* Row y passes one token to the row above it, in every column. */
static void pass_up(mesh *m, uint32_t y)
{
    for (uint32_t x = 0; x < m->layout.width; x++) {
        const uint64_t n = mesh_kv_wavelets(m, x);
        if (!n) continue;
        mesh_count_send(m, WAFER_AXIS_Y, x, y, y - 1, n);
        mesh_count_core(m, x, y - 1, 2, m->split_kv.share[x]);
    }
    m->kv_moves++;
}

/* Token t of a layer has entered at the last row. */
static void mesh_kv_shift(mesh *m, const step_op *op, uint32_t t)
{
    const uint32_t h = m->layout.height, n = t + 1;
    uint32_t *first = mesh_kv_first_of(m, op->layer);
    /* Earlier rows of the pass still see tokens that its last one does not. */
    const uint32_t seen = m->position + 1;
    const uint32_t low = op->window && seen > op->window ? seen - op->window : 0;
    for (uint32_t y = 1; y < h; y++) {
        if (first[y] > t) first[y] = t;
        if (first[y] < low) first[y] = low;
    }
    first[0] = low; /* also after a step back over a window's edge, as if the row had kept it */
    first[h] = n;
    /* From the top, so that each row still has its earlier tokens. */
    for (uint32_t y = 1; y < h; y++) {
        const uint32_t even = low + (uint32_t)((uint64_t)y * (n - low) / h);
        if (first[y] >= even || first[y] >= first[y + 1]) continue;
        first[y]++;
        pass_up(m, y);
    }
    /* Tokens that fit in no row are dropped; without its own tokens the first pass would have
     * none. */
    if (m->fault == MESH_FAULT_SHIFT && h > 1 && m->position) first[0] = first[1];
}

void mesh_kv_write(mesh *m, const step_op *op, uint32_t row)
{
    const step_shape *s = &m->program->shape;
    const uint32_t token = m->position + row, d = s->head_dim;
    for (uint32_t h = 0; h < s->n_kv_heads; h++) {
        const size_t at = ((size_t)row * s->n_kv_heads + h) * d;
        const kernel_kv_page page = mesh_kv_page(m, op->layer, h, token);
        m->k.kv_write[m->layout.kv_type]((void *)page.keys, (void *)page.values,
                                         token % KERNEL_PAGE, m->key + at, m->value + at, d);
    }
    if (m->layout.choice.kv == WAFER_KV_SHIFT) mesh_kv_shift(m, op, token);
}
