/* protocols_gpu.c - how figures on GPUs were measured: a stack, one step for one user. */
#include <math.h>

#include "wafer/gpus.h"
#include "wafer/protocols.h"
#include "wafer/shapes.h"

static const struct {
    const char *name;
    double gbytes_s, tflops; /* data sheets */
} chips[] = {
    {"A100", 2039, 312},   {"H100", 3350, 989},  {"H200", 4800, 989},
    {"GB200", 8000, 2500}, {"B200", 8000, 2250}, {"B300", 8000, 2250},
};

/* Constants of a stack: the share of the bandwidth while weights stream, microseconds of a layer,
 * and of an all-reduce.  The first that the row names and that spans its devices. */
static const struct {
    const char *stack, *chip; /* either may be NULL: any */
    double devices_max;
    double efficiency, layer_us, reduce_us;
} stacks[] = {
    /* SGLang of the WaferLLM paper; reductions are part of a layer.  Rows 76, 84; 77, 85; 78, 86.
     */
    {"SGLang", "A100", 1, 0.825, 107.3, 0},
    {"SGLang", "A100", 8, 0.651, 74.2, 0},
    {"SGLang", "A100", INFINITY, 0.604, 165.2, 0},
    /* One persistent kernel: 78 % of an H100's bandwidth on a 1B model. */
    {"megakernel", NULL, INFINITY, 0.82, 3, 2.4},
    /* TensorRT-LLM, and SGLang or vLLM in CUDA graphs: rows 87 and 88. */
    {NULL, NULL, INFINITY, 0.8, 14, 7},
};

static bool fill_gpu(wafer_gpu *g, const row_query *q, prediction *out)
{
    /* "8x B200", where the column of devices has no number. */
    double devices = q->row->devices, named;
    const size_t digits = strspn(q->row->system, "0123456789");
    if (devices == 1 && digits && q->row->system[digits] == 'x' &&
        parse_f64((view){q->row->system, digits}, &named) && named >= 1)
        devices = named;
    if (devices > 65536) devices = 65536;
    *g = (wafer_gpu){.devices = (uint32_t)devices};
    out->why = "the chip is unknown";
    for (size_t i = 0; i < ARRAY_LEN(chips) && !g->hbm_gbytes_s; i++) {
        if (!row_says(q->row, chips[i].name)) continue;
        g->hbm_gbytes_s = chips[i].gbytes_s;
        g->tflops_fp16 = chips[i].tflops;
        g->tflops_fp8 = 2 * chips[i].tflops;
    }
    if (!g->hbm_gbytes_s) return false;
    for (size_t i = 0; i < ARRAY_LEN(stacks); i++) {
        if (stacks[i].stack && !row_says(q->row, stacks[i].stack)) continue;
        if (stacks[i].chip && !row_says(q->row, stacks[i].chip)) continue;
        if (devices > stacks[i].devices_max) continue;
        g->stack[WAFER_TUNED].efficiency = stacks[i].efficiency;
        g->stack[WAFER_TUNED].layer_us = stacks[i].layer_us;
        g->stack[WAFER_TUNED].reduce_us = stacks[i].reduce_us;
        break;
    }
    return true;
}

static wafer_quant quant_of(const char *precision)
{
    if (strstr(precision, "mxfp4")) return QUANT_MXFP4;
    if (strstr(precision, "fp4") || strstr(precision, "int4") || strstr(precision, "awq"))
        return QUANT_INT4;
    if (strstr(precision, "fp8") || strstr(precision, "int8")) return QUANT_FP8;
    return QUANT_FP16;
}

static bool open_work(gpu_work *work, wafer_model *m, const row_query *q, prediction *out)
{
    char name[96];
    size_t len = strcspn(q->row->model, "(+");
    while (len && q->row->model[len - 1] == ' ') len--;
    snprintf(name, sizeof name, "%.*s", (int)(len < 90 ? len : 90), q->row->model);
    shape_facts facts;
    out->why = "the model's shapes are not in machines/models.ini";
    if (shape_of_name(&facts, name, NULL) || wafer_model_of(m, &facts, name, NULL)) return false;
    /* "short": the cache is small beside the weights. */
    const bool is_short = !q->row->context[0] || strstr(q->row->context, "short");
    *work = (gpu_work){.program = m->program,
                       .quant = quant_of(q->row->precision),
                       .context = is_short ? 1024 : q->context,
                       .users = (uint32_t)fmin(q->row->batch, 65536),
                       .draft = 1};
    return true;
}

static bool gpu_step(prediction *out, const row_query *q, bool prefill)
{
    wafer_gpu g;
    gpu_work work;
    wafer_model m;
    if (!fill_gpu(&g, q, out) || !open_work(&work, &m, q, out)) return false;
    out->layers = m.program->shape.n_layers;
    if (prefill) {
        out->seconds = gpu_prefill_us(&g, WAFER_TUNED, &work, q->context) * 1e-6;
        out->tokens = q->context;
        out->why = "arithmetic at 60 % of the dense peak, launches and reductions";
    } else {
        out->seconds = gpu_decode(&g, WAFER_TUNED, &work).step_us * 1e-6;
        out->tokens = row_says(q->row, "per request") ? 1 : work.users;
        out->why = "weights and KV at the stack's bandwidth, launches and reductions of each layer";
    }
    wafer_model_close(&m);
    return true;
}

bool protocol_gpu_decode(prediction *out, const row_query *q, const wafer_style *style)
{
    (void)style;
    return gpu_step(out, q, false);
}

bool protocol_gpu_prefill(prediction *out, const row_query *q, const wafer_style *style)
{
    (void)style;
    return gpu_step(out, q, true);
}

/* DeepSeek-R1 with n of its own next-token layers as a draft: a step of 9.01 ms and 0.655 ms for
 * each of them (rows 92-94); the row says how many tokens a step yields. */
bool protocol_gpu_spec(prediction *out, const row_query *q, const wafer_style *style)
{
    double layers, accepted;
    (void)style;
    out->why = "how many tokens of the draft are accepted is not published";
    if (!row_says(q->row, "B200") || !row_number_after(q->row->model, "MTP", &layers)) return false;
    if (!row_number_after(q->row->note, "acceptance length", &accepted)) return false;
    out->seconds = (9.01 + 0.655 * layers) * 1e-3;
    out->tokens = accepted;
    out->why = "a measured step, a measured slope for each drafted token, the row's acceptance";
    return true;
}

/* y = W x over devices that share W: streaming at 88 % of the bandwidth, then launches, and where
 * there are several their gather (rows 35 and 38; 36 and 39; 37 and 40). */
bool protocol_gpu_gemv(prediction *out, const row_query *q, const wafer_style *style)
{
    wafer_gpu g;
    (void)style;
    if (!fill_gpu(&g, q, out)) return false;
    out->why = "the row does not say how large the product is";
    if (!q->k) return false;
    const double sent = 2.0 * q->k * q->n / (g.devices * g.hbm_gbytes_s * 1e3 * 0.883);
    const double fixed = g.devices == 1 ? 38 : g.devices <= 8 ? 204 : 293;
    out->seconds = (sent + fixed) * 1e-6;
    out->why = "streaming, and what launches and the gather take";
    return true;
}

/* Small messages: what a launch and the way through the switch take; sizes up to 64 KB are alike.
 */
bool protocol_gpu_collective(prediction *out, const row_query *q, const wafer_style *style)
{
    static const struct {
        const char *chip, *word;
        double us;
    } known[] = {
        {"GB200", "device", 2.37}, {"GB200", "best", 2.37}, {"GB200", "", 11.0},
        {"", "best", 5.0},         {"", "custom", 5.0},     {"", "graph", 13.2},
        {"H100", "eager", 23.0},   {"H200", "eager", 23.0}, {"A100", "", 20.6},
        {"H100", "", 23.0},        {"H200", "", 23.0},
    };
    (void)style;
    out->why = "no all-reduce of that kind is known";
    for (size_t i = 0; i < ARRAY_LEN(known); i++) {
        if (!row_says(q->row, known[i].chip) || !row_says(q->row, known[i].word)) continue;
        out->seconds = known[i].us * 1e-6;
        out->is_input = true;
        out->why = "an input: measured latency of that library, up to 64 KB";
        return true;
    }
    return false;
}
