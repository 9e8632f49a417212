/* mesh_tile.c - the tiles of weights that cores keep, and a tile times a slice of activations.
 *
 * A tile holds its rows and columns of the file: the quants, and the scales of every block that it
 * touches.  The sums are those of docs/numerics.md, from the beginning of the slice to its end;
 * written independently of the kernels; the tests compare the two. */
#include "base/memory.h"
#include "kernels/panels.h"
#include "wafer/mesh_core.h"

/* ---- from panels ---- */

static mesh_unit unit_at(block_type type, const uint8_t *panel, uint32_t row, uint32_t k,
                         uint32_t unit)
{
    if (panel_is_super(type)) {
        const uint8_t *super = panel + (size_t)(k / PANEL_SUPER) * panel_super_bytes(type);
        const uint32_t at = k % PANEL_SUPER / unit;
        const bool has_min = panel_has_min(type);
        return (mesh_unit){.d = panel_super_d(type, super, row),
                           .m = has_min ? panel_scale(super, 1, row) : 0.0f,
                           .scale = (int16_t)panel_super_scale(type, super, at, row),
                           .min = has_min ? (int16_t)panel_super_min(type, super, at, row) : 0};
    }
    if (panel_is_wide(type)) return (mesh_unit){.d = panel_scale(panel, k / KERNEL_GROUP, row)};
    const size_t group_bytes = panel_group_bytes(type, PANEL_BLOCKS);
    const uint8_t *group = panel + k / KERNEL_GROUP * group_bytes;
    const uint32_t block = k / PANEL_BLOCK % PANEL_BLOCKS;
    return (mesh_unit){.d = panel_block_scale(type, group, block, row),
                       .m = panel_has_min(type) ? panel_block_min(type, group, block, row) : 0.0f};
}

static void load_floats(mesh_tiles *t, float *f, const uint8_t *panel, uint32_t panel_row)
{
    for (uint32_t k = 0; k < t->w->cols; k++) {
        const size_t at = (size_t)k * KERNEL_PANEL_ROWS + panel_row;
        uint16_t half = 0;
        if (t->w->type == BLOCK_F32) {
            memcpy(f + k, panel + 4 * at, sizeof *f);
            continue;
        }
        memcpy(&half, panel + 2 * at, sizeof half);
        f[k] = t->w->type == BLOCK_F16 ? f16_to_f32(half) : bf16_to_f32(half);
    }
}

static void load_row(mesh_tiles *t, uint32_t matrix, uint32_t row)
{
    const block_type type = kernel_panel_type(t->w->type);
    const uint32_t cols = t->w->cols, panel_row = row % KERNEL_PANEL_ROWS;
    const size_t at = (size_t)matrix * t->w->rows + row;
    const uint8_t *panel = model_matrix_panels(t->w, matrix, row / KERNEL_PANEL_ROWS);
    if (!t->unit) {
        load_floats(t, t->f + at * cols, panel, panel_row);
        return;
    }
    int8_t *q = t->q + at * cols;
    for (uint32_t k = 0; k < cols; k += PANEL_BLOCK) {
        const uint8_t *block = panel + panel_block_at(type, cols, k);
        const uint8_t *super = panel_is_super(type)
                                   ? panel + (size_t)(k / PANEL_SUPER) * panel_super_bytes(type)
                                   : panel;
        for (uint32_t i = 0; i < PANEL_BLOCK; i++)
            q[k + i] = (int8_t)panel_super_quant(type, super, block, panel_row, i);
    }
    for (uint32_t u = 0; u < t->n_units; u++)
        t->units[at * t->n_units + u] = unit_at(type, panel, panel_row, u * t->unit, t->unit);
}

/* The last row of the tile in the middle is missing. */
static void cut_tile(mesh_tiles *t)
{
    const mesh_piece *n = &t->n->pieces[t->n->n_pieces / 2], *k = &t->k->pieces[t->k->n_pieces / 2];
    const size_t at = (size_t)(n->end - 1) * t->w->cols;
    for (uint32_t i = k->begin; i < k->end; i++) {
        if (t->unit) t->q[at + i] = 0;
        else t->f[at + i] = 0;
    }
}

/* Panels of squared weights in F32: [k][16 rows]. */
static void load_squares(mesh_tiles *t, uint32_t matrix, uint32_t panel, float *row)
{
    const model_matrix *w = t->w;
    const size_t values = (size_t)w->cols * KERNEL_PANEL_ROWS;
    float *to = t->squares + ((size_t)matrix * w->n_panels + panel) * values;
    for (uint32_t r = 0; r < KERNEL_PANEL_ROWS; r++) {
        kernel_panel_row(w->type, row, model_matrix_panels(w, matrix, panel), r, w->cols);
        for (uint32_t k = 0; k < w->cols; k++)
            to[(size_t)k * KERNEL_PANEL_ROWS + r] = row[k] * row[k];
    }
}

static int make_squares(mesh_tiles *t)
{
    const model_matrix *w = t->w;
    size_t n = (size_t)w->n_matrices * w->n_panels * KERNEL_PANEL_ROWS * w->cols;
    float *row = memory_alloc(w->cols * sizeof *row);
    t->squares = memory_zalloc(n, sizeof *t->squares);
    for (uint32_t e = 0; row && t->squares && e < w->n_matrices; e++)
        for (uint32_t p = 0; p < w->n_panels; p++) load_squares(t, e, p, row);
    const bool good = row && t->squares;
    memory_free(row);
    return good ? CERIUM_OK : CERIUM_ERR_MEMORY;
}

int mesh_tiles_make(mesh *m, mesh_tiles *t)
{
    const model_matrix *w = t->w;
    const size_t n_rows = (size_t)w->n_matrices * w->rows;
    const block_type type = kernel_panel_type(w->type);
    t->has_min = panel_has_min(type);
    t->unit = !kernel_takes_acts(type) ? 0 : panel_is_super(type) ? panel_small(type) : PANEL_BLOCK;
    t->closes = kernel_acts_of(w->type) == KERNEL_ACTS_32 ? KERNEL_BLOCK : KERNEL_GROUP;
    if (t->unit) {
        t->n_units = w->cols / t->unit;
        t->q = memory_zalloc(n_rows, w->cols);
        t->units = memory_zalloc(n_rows * t->n_units, sizeof *t->units);
        if (!t->q || !t->units) return CERIUM_ERR_MEMORY;
    } else {
        t->f = memory_zalloc(n_rows * w->cols, sizeof *t->f);
        if (!t->f) return CERIUM_ERR_MEMORY;
    }
    for (uint32_t e = 0; e < w->n_matrices; e++)
        for (uint32_t row = 0; row < w->rows; row++) load_row(t, e, row);
    if (m->fault == MESH_FAULT_TILE && t == m->tiles) cut_tile(t);
    return m->bound ? make_squares(t) : CERIUM_OK;
}

void mesh_tiles_close(mesh_tiles *t)
{
    memory_free(t->q);
    memory_free(t->f);
    memory_free(t->units);
    memory_free(t->squares);
}

/* ---- products ---- */

static inline int32_t mesh_tile_dot(const int8_t *restrict a, const int8_t *restrict b, uint32_t n)
{
    int32_t sum = 0;
    if (n == PANEL_BLOCK) {
        for (uint32_t i = 0; i < PANEL_BLOCK; i++) sum += a[i] * b[i];
        return sum;
    }
    for (uint32_t i = 0; i < n; i++) sum += a[i] * b[i];
    return sum;
}

static inline int32_t mesh_tile_total(const int8_t *x, uint32_t n)
{
    int32_t sum = 0;
    for (uint32_t i = 0; i < n; i++) sum += x[i];
    return sum;
}

/* The parameters of a tile's row, for a type. */
typedef struct {
    uint32_t unit, closes, cols;
    bool is_super, has_min;
} kind;

/* The integers of a block, or of a whole group if one scale serves it, become floats. */
static inline void mesh_tile_close_sum(const kind *type, const mesh_unit *u, float scale,
                                       mesh_sum *s)
{
    if (type->closes == KERNEL_GROUP) {
        float t = u->d * (float)s->dot;
        if (type->has_min) t = fmaf(-u->m, (float)s->min, t);
        s->acc = fmaf(t, scale, s->acc);
    } else {
        s->acc = fmaf((float)s->dot * scale, u->d, s->acc);
        if (type->has_min) s->acc = fmaf((float)s->min * scale, u->m, s->acc);
    }
    s->dot = s->min = 0;
}

/* Columns [k0, k1) of one row; q and units are the row's. */
static inline mesh_sum run_row(const kind *type, const int8_t *q, const mesh_unit *units,
                               uint32_t k0, uint32_t k1, const kernel_act *x, mesh_sum s,
                               bool close)
{
    for (uint32_t k = k0, end; k < k1; k = end) {
        end = (k / type->unit + 1) * type->unit;
        if (end > k1) end = k1;
        const mesh_unit *u = &units[k / type->unit];
        const int8_t *xq = x[k / KERNEL_GROUP].q + k % KERNEL_GROUP;
        const int32_t part = mesh_tile_dot(q + k, xq, end - k);
        s.dot += type->is_super ? u->scale * part : part;
        if (type->has_min) s.min += (type->is_super ? u->min : 1) * mesh_tile_total(xq, end - k);
        const bool last = end == type->cols || (end == k1 && close);
        if (end % type->closes == 0 || last)
            mesh_tile_close_sum(type, u, kernel_act_scale(x, k), &s);
    }
    return s;
}

void mesh_tile_run(const mesh_tiles *t, uint32_t matrix, const mesh_piece *n, const mesh_piece *k,
                   const void *x, mesh_sum *sums, bool close)
{
    const uint32_t cols = t->w->cols;
    const block_type type = kernel_panel_type(t->w->type);
    const kind with = {t->unit, t->closes, cols, panel_is_super(type), t->has_min};
    for (uint32_t row = n->begin; row < n->end; row++, sums++) {
        const size_t at = (size_t)matrix * t->w->rows + row;
        if (t->unit) {
            *sums = run_row(&with, t->q + at * cols, t->units + at * t->n_units, k->begin, k->end,
                            x, *sums, close);
            continue;
        }
        const float *f = t->f + at * cols, *xf = x;
        for (uint32_t i = k->begin; i < k->end; i++) sums->acc = fmaf(f[i], xf[i], sums->acc);
    }
}
