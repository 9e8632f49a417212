/* protocols_mesh.c - how figures on wafers were measured. */
#include <math.h>

#include "wafer/plan.h"
#include "wafer/protocols.h"

/* WSE-2 or WSE-3, by the system's name. */
static bool open_mesh(wafer_machine *m, const row_query *q, prediction *out)
{
    static const char *const second[] = {"WSE-2", "WSE2",  "WSE 2", "CS-2",
                                         "CS2",   "WSE-1", "CS-1",  "CS1"}; /* the same fabric */
    static const char *const third[] = {"WSE-3", "WSE3", "WSE 3", "CS-3", "CS3"};
    bool is_2 = false, is_3 = false;
    for (size_t i = 0; i < ARRAY_LEN(second); i++) is_2 |= row_says(q->row, second[i]);
    for (size_t i = 0; i < ARRAY_LEN(third); i++) is_3 |= row_says(q->row, third[i]);
    out->why = "neither WSE-2 nor WSE-3, or machines/ is not installed";
    return (is_2 || is_3) && machine_open(m, is_3 ? "wse3" : "wse2", NULL) == CERIUM_OK;
}

/* WaferLLM's kernels assume one head as wide as the model, whatever the model. */
static step_program one_head(const step_program *p)
{
    step_program out = *p;
    out.shape.n_heads = out.shape.n_kv_heads = 1;
    out.shape.head_dim = p->shape.n_embd;
    return out;
}

static step_cost published_cost(const wafer_machine *machine, const row_query *q,
                                const wafer_style *style)
{
    return (step_cost){.mesh = &machine->mesh,
                       .style = *style,
                       .quant = QUANT_FP16,
                       .choice = {.degree = 2, .k_multiple = 1, .context = q->context},
                       .context = q->context,
                       .tokens = 1};
}

/* Both: one layer on a mesh of its own, times the layers. */
static bool one_layer(prediction *out, const row_query *q, const wafer_style *style, bool prefill)
{
    wafer_machine machine;
    wafer_model net;
    step_time t = {0};
    if (!open_mesh(&machine, q, out)) return false;
    bool ok = row_model(&net, q->row, &out->why);
    if (ok && !q->width) {
        out->why = "the row does not say how large the mesh is";
        wafer_model_close(&net);
        ok = false;
    }
    if (!ok) {
        machine_close(&machine);
        return false;
    }
    const step_program p = one_head(net.program);
    step_cost cost = published_cost(&machine, q, style);
    if (prefill) {
        cost.attends_by_products = true;
        ok = time_prefill_layer(&t, &p, 0, q->width, q->height, &cost, q->context) == CERIUM_OK;
    } else {
        cost.silu_of_embd = true;
        ok = time_layer(&t, &p, 0, q->width, q->height, &cost, true) == CERIUM_OK;
    }
    out->layers = net.program->shape.n_layers;
    out->cycles = t.cycles * out->layers;
    out->tokens = prefill ? q->context : 1;
    out->why = prefill ? "one padded layer with one head times the layers, all tokens at once"
                       : "one padded layer with one head times the layers; no head, no hand-off";
    wafer_model_close(&net);
    machine_close(&machine);
    return ok;
}

bool protocol_decode(prediction *out, const row_query *q, const wafer_style *style)
{
    return one_layer(out, q, style, false);
}

bool protocol_prefill(prediction *out, const row_query *q, const wafer_style *style)
{
    return one_layer(out, q, style, true);
}

/* The mesh that a row names, else the largest square that programs may use. */
static void mesh_of(const row_query *q, const wafer_mesh *m, uint32_t *width, uint32_t *height)
{
    const uint32_t square = m->width < m->height ? m->width : m->height;
    *width = q->width ? q->width : square;
    *height = q->height ? q->height : square;
}

bool protocol_gemv(prediction *out, const row_query *q, const wafer_style *style)
{
    wafer_machine machine;
    uint32_t width, height;
    if (!open_mesh(&machine, q, out)) return false;
    out->why = "the row does not say how large the product is";
    if (q->k) {
        mesh_of(q, &machine.mesh, &width, &height);
        const double k_t = tiles_of(q->k, height), n_t = tiles_of(q->n, width);
        const wafer_reduction sum = reduction_of(height, 2);
        wafer_clocks c;
        if (clocks_open(&c, width, height, true, message_cost(&machine.mesh, style))) {
            machine_close(&machine);
            return false;
        }
        clocks_reduce(&c, WAFER_AXIS_Y, &sum, (uint32_t)ceil(n_t / 2));
        out->cycles = (double)clocks_latest(&c) / WAFER_TICKS +
                      k_t * (style->issue + ceil(n_t / machine.mesh.simd_fp16));
        out->ideal = (double)q->k * q->n / width / height / machine.mesh.simd_fp16;
        out->why = "tiles, and one all-reduce of two phases";
        clocks_close(&c);
    }
    machine_close(&machine);
    return q->k != 0;
}

bool protocol_gemm(prediction *out, const row_query *q, const wafer_style *style)
{
    wafer_machine machine;
    uint32_t width, height;
    if (!open_mesh(&machine, q, out)) return false;
    out->why = "the row does not say how large the product is";
    if (q->k) {
        mesh_of(q, &machine.mesh, &width, &height);
        const step_cost cost = published_cost(&machine, q, style);
        out->cycles = time_gemm(width, height, &cost, q->m, q->k, q->n).cycles;
        out->ideal = (double)q->m * q->k * q->n / width / height / machine.mesh.simd_fp16;
        out->why = "MeshGEMM product, as prefill";
    }
    machine_close(&machine);
    return q->k != 0;
}

/* ---- stages of layers ---- */

/* Additional cost of the lab notes' kernels over WaferLLM's: calibration rows 48-52 (eight stages
 * of up to four layers) and 54 (28 of one). */
static const double lab_layer_cycles = 1122, lab_stage_cycles = 7611;

/* Columns of the grid of exactly n slots that are nearest to squares. */
static uint32_t columns_for(const wafer_mesh *m, uint32_t n)
{
    uint32_t best = 1;
    double least = INFINITY;
    for (uint32_t columns = 1; columns <= n; columns++) {
        if (n % columns) continue;
        double ratio = fabs(log(((double)m->width / columns) / ((double)m->height * columns / n)));
        if (ratio < least) best = columns;
        least = fmin(least, ratio);
    }
    return best;
}

/* A full pipeline yields a token in the time of its slowest stage. */
bool protocol_pipeline(prediction *out, const row_query *q, const wafer_style *style)
{
    wafer_machine machine;
    wafer_model net;
    step_time t = {0};
    if (!open_mesh(&machine, q, out)) return false;
    bool ok = q->stages != 0;
    out->why = "the row does not say how many stages";
    if (ok) ok = row_model(&net, q->row, &out->why);
    if (!ok) {
        machine_close(&machine);
        return false;
    }
    const uint32_t columns = columns_for(&machine.mesh, q->stages);
    const uint32_t a = machine.mesh.width / columns;
    const uint32_t b = machine.mesh.height * columns / q->stages;
    const step_cost cost = published_cost(&machine, q, style);
    /* Tokens of the cache are along the longer edge. */
    ok = a && b &&
         time_layer(&t, net.program, 0, a < b ? a : b, a < b ? b : a, &cost, true) == CERIUM_OK;
    const uint32_t layers = tiles_of(net.program->shape.n_layers, q->stages);
    out->cycles = layers * (t.cycles + lab_layer_cycles) + lab_stage_cycles;
    out->layers = (double)net.program->shape.n_layers / q->stages;
    out->why = "the fullest stage: its layers, and what the lab's kernels add to both";
    wafer_model_close(&net);
    machine_close(&machine);
    return ok;
}

/* ---- collectives ---- */

typedef struct {
    double cores, wavelets, ramp;
} line_work;

/* HPDC'24: T = max(C, E / N + L) + (2 T_R + 1) D, in the forms that the paper gives. */
static double reduce_cycles(const published_row *row, line_work w)
{
    const double p = w.cores, b = w.wavelets, depth = 2 * w.ramp + 1;
    const double star = b * (p - 1) + depth, lg = log2(p);
    const double tree = fmax(b * lg, b * p * lg / (2 * (p - 1)) + p - 1) + depth * lg;
    const double two_phase = fmax(2 * b, b + p) + depth * (2 * sqrt(p) - 2);
    if (row_says(row, "star")) return star;
    if (row_says(row, "tree")) return tree;
    if (row_says(row, "two-phase") || row_says(row, "two phase")) return two_phase;
    const double chain = b + (2 * w.ramp + 2) * (p - 1);
    /* A tree made for its size is at least as good as the best of the fixed ones. */
    if (row_says(row, "auto-gen") || row_says(row, "best") || row_says(row, "optimal"))
        return fmin(fmin(star, tree), fmin(two_phase, chain));
    return chain;
}

static double broadcast_cycles(line_work w)
{
    return w.wavelets + w.cores + 2 * w.ramp;
}

static double collective_cycles(const published_row *row, line_work w)
{
    const double p = w.cores, b = w.wavelets;
    if (row_says(row, "ring"))
        return 2 * (p - 1) * b / p + 4 * p - 6 + 2 * (p - 1) * (2 * w.ramp + 1);
    if (row_says(row, "allreduce") || row_says(row, "all-reduce"))
        return reduce_cycles(row, w) + broadcast_cycles(w);
    return row_says(row, "broadcast") ? broadcast_cycles(w) : reduce_cycles(row, w);
}

static double wavelets_of(const published_row *row)
{
    static const struct {
        const char *word;
        double wavelets;
    } sizes[] = {{"wavelets", 1}, {"KB", 256}, {"KiB", 256}, {"bytes", 0.25}, {" B", 0.25}};
    const char *const fields[] = {row->context, row->model, row->metric};
    double n;
    for (size_t i = 0; i < ARRAY_LEN(sizes); i++)
        for (size_t k = 0; k < ARRAY_LEN(fields); k++)
            if (row_number_before(fields[k], sizes[i].word, &n)) return ceil(n * sizes[i].wavelets);
    return row_says(row, "scalar") ? 1 : 0;
}

bool protocol_collective(prediction *out, const row_query *q, const wafer_style *style)
{
    wafer_machine machine;
    (void)style; /* the paper's are tuned */
    if (!open_mesh(&machine, q, out)) return false;
    const double ramp = machine.mesh.ramp_cycles;
    const double longest = fmax(machine.mesh.grid_width, machine.mesh.grid_height);
    machine_close(&machine);
    if (row_says(q->row, "ramp latency")) {
        out->cycles = ramp;
        out->is_input = true;
        out->why = "an input: ramp_cycles of the machine";
        return true;
    }
    if (row_says(q->row, "edge-to-edge") || row_says(q->row, "edge to edge")) {
        out->cycles = longest + 2 * ramp; /* the longer way across, out of one core into another */
        out->why = "hops across the wafer, and two ramps";
        return true;
    }
    double cores = 0;
    if (!row_number_before(q->row->system, "PEs", &cores))
        row_number_before(q->row->model, "PEs", &cores);
    const bool allreduce = row_says(q->row, "allreduce") || row_says(q->row, "all-reduce");
    const double wide = q->width, high = q->height;
    line_work w = {.cores = cores, .wavelets = wavelets_of(q->row), .ramp = ramp};
    out->why = "the row does not say over how many cores, or how much";
    if (w.wavelets < 1 || (cores < 2 && !q->width)) return false;
    out->why = "the model of HPDC'24";
    if (q->width > 1 && q->height > 1 && w.wavelets <= 1 && allreduce) {
        /* SC20: written by hand for one value, a tenth above the way across and back. */
        out->cycles = 1.1 * (wide + high);
    } else if (q->width > 1 && q->height > 1 && !allreduce && row_says(q->row, "broadcast")) {
        out->cycles = w.wavelets + wide + high - 2 + 2 * ramp + 1;
    } else if (q->width > 1 && q->height > 1) { /* rows first, then the column of their roots */
        w.cores = wide;
        out->cycles = collective_cycles(q->row, w);
        w.cores = high;
        out->cycles += collective_cycles(q->row, w);
    } else {
        if (q->width) w.cores = fmax(wide, high);
        out->cycles = collective_cycles(q->row, w);
    }
    return true;
}
