/* mesh_gemm.c - matrix products over many rows by cyclic shifts of both operands (Cannon's
 * algorithm, MeshGEMM).
 *
 * Line y of the mesh has rows [y m, (y + 1) m) of the pass, cut along x; the weights are cut for
 * this, outputs along x, K along y.  K is in as many parts as the longer edge has cores.  Each step
 * a core multiplies its part of its rows with that part of its columns of W, onto sums that stay,
 * and passes both on: rows along x, weights along y.  A line is a ring that skips every other core
 * on its way out and visits it on its way back, so no part goes over more than two links. Parts are
 * places of the ring; if there are more parts than cores, a core has some places one after the
 * other.  Weights are cut evenly over the cores of a column first, each core's share over its
 * places then: no core has more than another.  So that parts meet, line y rotates its rows by its
 * place before a product, and weights are stored rotated.
 *
 * A sum therefore begins at the part that (x, y) has first and goes once round K. */
#include "wafer/mesh_core.h"

/* ---- places ---- */

/* Even cores on the way out, odd ones on the way back. */
static uint32_t place_of(uint32_t n, uint32_t core)
{
    return core % 2 ? n - 1 - core / 2 : core / 2;
}

static uint32_t core_of(uint32_t n, uint32_t place)
{
    return place < (n + 1) / 2 ? 2 * place : 2 * (n - 1 - place) + 1;
}

uint32_t mesh_ring_core(uint32_t n, uint32_t at, uint32_t s)
{
    return core_of(n, (place_of(n, at) + s) % n);
}

static uint32_t mesh_gemm_parts(const mesh *m)
{
    return m->layout.width > m->layout.height ? m->layout.width : m->layout.height;
}

/* The first part of a core of a line, before lines are rotated against each other. */
static uint32_t first_part(const mesh *m, uint32_t n, uint32_t core)
{
    return place_of(n, core) * mesh_gemm_parts(m) / n;
}

/* For K: the share of the place that has the part, cut over its parts. */
static wafer_range part_range(const mesh *m, uint32_t cols, uint32_t part)
{
    const uint32_t n = mesh_gemm_parts(m), h = m->layout.height,
                   multiple = m->layout.choice.k_multiple;
    const uint32_t place = ((part + 1) * h - 1) / n; /* the last one that begins at part or
                                                        before */
    const uint32_t first = place * n / h, end = (place + 1) * n / h;
    const uint32_t share = (uint32_t)size_round_up(tiles_of(cols, h), multiple);
    const uint32_t tile = (uint32_t)size_round_up(tiles_of(share, end - first), multiple);
    const wafer_range own = tile_range(cols, share, place);
    wafer_range k = tile_range(share, tile, part - first);
    k.begin = own.begin + k.begin < own.end ? own.begin + k.begin : own.end;
    k.end = own.begin + k.end < own.end ? own.begin + k.end : own.end;
    return k;
}

int mesh_gemm_make(mesh *m)
{
    m->lines = mesh_own(m, m->layout.height, sizeof *m->lines);
    if (!m->lines) return CERIUM_ERR_MEMORY;
    for (uint32_t y = 0; y < m->layout.height; y++)
        m->lines[y] = (mesh_ground){.y = y, .width = m->layout.width, .height = 1,
                                    .sum = {&m->sum[WAFER_AXIS_X], NULL}};
    return mesh_split_even(m, &m->prompt_e, m->program->shape.n_embd, m->layout.width);
}

/* ---- values ---- */

static const mesh_split *mesh_gemm_outputs(const mesh *m, const mesh_tiles *t)
{
    return t->k_axis == WAFER_AXIS_Y ? t->n : &m->prompt_e;
}

void mesh_gemm_row(mesh *m, float *y, const mesh_tiles *t, uint32_t matrix, const mesh_rows *x,
                   uint32_t row, uint32_t line)
{
    const mesh_split *out = mesh_gemm_outputs(m, t);
    const uint32_t n = mesh_gemm_parts(m);
    const uint32_t turn = first_part(m, m->layout.height, line);
    const uint32_t steps = n - (m->fault == MESH_FAULT_STEP);
    const void *in = t->unit ? (const void *)mesh_acts(x, t->w->type, row)
                             : (const void *)(x->f + (size_t)row * x->width);
    for (uint32_t i = 0; i < out->n_pieces; i++) {
        const mesh_piece *piece = &out->pieces[i];
        const uint32_t first = first_part(m, m->layout.width, piece->core) + turn;
        memset(m->sums, 0, (piece->end - piece->begin) * sizeof *m->sums);
        for (uint32_t s = 0; s < steps; s++) {
            const wafer_range k = part_range(m, t->w->cols, (first + s) % n);
            const mesh_piece part = {.begin = k.begin, .end = k.end};
            mesh_tile_run(t, matrix, piece, &part, in, m->sums, true);
        }
        for (uint32_t j = piece->begin; j < piece->end; j++) y[j] = m->sums[j - piece->begin].acc;
    }
}

uint32_t mesh_gemm_adds(const mesh *m, const mesh_tiles *t)
{
    return tiles_of(t->w->cols, t->closes) + mesh_gemm_parts(m); /* a part has its own sums */
}

/* ---- counting ---- */

void mesh_count_ring(mesh *m, wafer_axis axis, uint32_t line, uint64_t n)
{
    const uint32_t side = mesh_side(m, axis);
    for (uint32_t core = 0; n && core < side; core++)
        mesh_count_send(m, axis, line, core, mesh_ring_core(side, core, 1), n);
}

/* rows: [height], of each line. */
static void mesh_gemm_count_tile(mesh *m, const mesh_tiles *t, const uint32_t *rows)
{
    const mesh_split *out = mesh_gemm_outputs(m, t);
    const uint32_t cols = t->w->cols, w = m->layout.width, h = m->layout.height,
                   n = mesh_gemm_parts(m);
    for (uint32_t x = 0; x < w; x++)
        mesh_count_ring(m, WAFER_AXIS_Y, x, (uint64_t)out->share[x] * cols);
    for (uint32_t y = 0; y < h; y++) {
        const uint32_t place = first_part(m, h, y), turn = place < n - place ? place : n - place;
        const uint64_t turned = turn ? part_range(m, cols, turn - 1).end : 0;
        mesh_count_ring(m, WAFER_AXIS_X, y, rows[y] * (cols + turned));
        for (uint32_t x = 0; rows[y] && x < w; x++) /* for each weight, over the rows */
            mesh_count_core(m, x, y, (uint64_t)cols * out->share[x], rows[y]);
    }
}

void mesh_gemm_count(mesh *m, const mesh_tiles *t)
{
    uint32_t rows[MESH_SIDE_MAX];
    for (uint32_t y = 0; y < m->layout.height; y++) {
        const wafer_range r = tile_range(m->n_rows, m->line_rows, y);
        rows[y] = r.end - r.begin;
    }
    mesh_gemm_count_tile(m, t, rows);
}

void mesh_gemm_count_experts(mesh *m, const mesh_tiles *t)
{
    const uint32_t k = m->program->shape.n_experts_used;
    for (uint32_t e = 0; e < t->w->n_matrices; e++) {
        uint32_t rows[MESH_SIDE_MAX] = {0}, all = 0;
        for (uint32_t i = 0; i < m->n_rows * k; i++) {
            if (m->chosen[i] != e) continue;
            rows[i / k / m->line_rows]++;
            all++;
        }
        if (all) mesh_gemm_count_tile(m, t, rows);
    }
}
