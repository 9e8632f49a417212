/* protocols_gpu.c - how figures on GPUs were measured: a stack, one step for one user. */
#include <math.h>
#include <strings.h>

#include "wafer/gpus.h"
#include "wafer/modelled.h"
#include "wafer/protocols.h"

/* Data sheets; the first one named by the system. */
static const struct {
    const char *name;
    double gbytes_s, tflops, link_gbytes_s; /* memory; fp16, dense; to other devices, one way */
} chips[] = {
    {"GB200", 8000, 2500, 900},    {"GB300", 8000, 2500, 900},    {"GH200", 4900, 989, 450},
    {"B200", 8000, 2250, 900},     {"B300", 8000, 2250, 900},     {"H200", 4800, 989, 450},
    {"H100 PCIe", 2000, 756, 300}, {"H100 NVL", 3900, 835, 300},  {"H100", 3350, 989, 450},
    {"H800", 3350, 989, 200},      {"H20", 4000, 148, 450},       {"A100 40", 1555, 312, 300},
    {"A100-40", 1555, 312, 300},   {"A100 PCIe", 1935, 312, 300}, {"A100", 2039, 312, 300},
    {"A800", 2039, 312, 200},      {"L40S", 864, 362, 32},        {"A6000", 768, 155, 56},
    {"4090", 1008, 165, 32},       {"3090", 936, 71, 56},         {"5090", 1792, 210, 64},
    {"MI300X", 5300, 1307, 448},   {"MI325X", 6000, 1307, 448},
};

/* A stack: the share of the bandwidth while weights stream, and the part of it lost at each halving
 * of the shards; microseconds of a layer, 0: counted from its kernels; of an all-reduce; and of a
 * step, for sampling and the host. */
typedef struct {
    const char *stack, *chip; /* either may be NULL: any */
    double devices_max;
    double efficiency, lost, layer_us, reduce_us, step_us;
} gpu_stack;

/* The first one that the row names and that spans its devices. */
static const gpu_stack stacks[] = {
    /* SGLang of the WaferLLM paper; attention and reductions are part of a layer.  Rows 76, 84; 77,
     * 85; 78, 86: the share and its loss are the same on one device, on 8 and on 16. */
    {"SGLang", "A100", 1, 0.825, 0.09, 107.3, 0, 0},
    {"SGLang", "A100", 8, 0.825, 0.09, 74.1, 0, 0},
    {"SGLang", "A100", INFINITY, 0.825, 0.09, 165.4, 0, 0},
    /* One persistent kernel at nearly all of the bandwidth; the waits between its parts are the
     * rest to 78 % of an H100's bandwidth on a 1B model. */
    {"megakernel", NULL, INFINITY, 0.9, 0, 7.9, 2.4, 0},
    /* TensorRT-LLM, and SGLang or vLLM in CUDA graphs: rows 87 and 88. */
    {NULL, NULL, INFINITY, 0.8, 0, 0, 7, 200},
};

/* A kernel in a CUDA graph, one after another. */
static const double kernel_us = 1.3;
enum { NODE_DEVICES = 8 };

/* Kernels of an average layer, as serving stacks launch them. */
static double kernels_of(const step_program *p)
{
    double n = 0;
    for (uint32_t i = 0; i < p->n_ops; i++) {
        const step_op *op = &p->ops[i];
        switch (op->kind) {
        case STEP_QKV: /* norm, product, rotation, into the cache; norms of heads */
            n += op->head_norm[0] ? 5 : 4;
            break;
        case STEP_ATTEND:       /* parts of the context, and their sum */
        case STEP_EXPERTS_DOWN: /* product, sum over experts */
            n += 2;
            break;
        case STEP_FFN_UP:     /* norm, product, activation */
        case STEP_ROUTE:      /* norm, product, the best */
        case STEP_EXPERTS_UP: /* sorting by expert, product, activation */
            n += 3;
            break;
        case STEP_OUT:
        case STEP_FFN_DOWN:
            n++;
            break;
        WAFER_CASES_NOT_MODELLED:
        case STEP_EMBED:
        case STEP_HEAD:
            break;
        }
    }
    return n / p->shape.n_layers;
}

/* Additional time of a layer if the host launches each kernel: the stock stack's. */
static const double host_layer_us = 21;

static bool names_stack(const published_row *row)
{
    static const char *const names[] = {"SGLang", "TensorRT", "TRT",        "vLLM",      "graph",
                                        "TGI",    "megakernel", "llama.cpp"};
    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        if (row_says(row, names[i])) return true;
    return false;
}

static bool fill_chip(wafer_gpu *g, const row_query *q, prediction *out)
{
    *g = (wafer_gpu){.devices = q->devices};
    out->why = "the chip is unknown";
    for (size_t i = 0; i < ARRAY_LEN(chips) && !g->hbm_gbytes_s; i++) {
        if (!row_says(q->row, chips[i].name)) continue;
        g->hbm_gbytes_s = chips[i].gbytes_s;
        g->tflops_fp16 = chips[i].tflops;
        g->tflops_fp8 = 2 * chips[i].tflops;
    }
    return g->hbm_gbytes_s > 0;
}

/* Returns the microseconds of a step. */
static double fill_stack(wafer_gpu *g, const row_query *q, const step_program *p)
{
    const double devices = q->devices;
    size_t i = 0;
    while ((stacks[i].stack && !row_says(q->row, stacks[i].stack)) ||
           (stacks[i].chip && !row_says(q->row, stacks[i].chip)) || devices > stacks[i].devices_max)
        i++; /* the last is for all */
    const gpu_stack *s = &stacks[i];
    g->stack[WAFER_TUNED].efficiency = s->efficiency / (1 + s->lost * log2(devices));
    g->stack[WAFER_TUNED].layer_us = s->layer_us > 0 ? s->layer_us : kernels_of(p) * kernel_us;
    /* Over nodes: within each, across InfiniBand and back (2.03 us a way), and within again. */
    const bool across = devices > NODE_DEVICES && s->reduce_us > 0;
    g->stack[WAFER_TUNED].reduce_us = across ? 2 * s->reduce_us + 2 * 2.03 : s->reduce_us;
    return s->step_us;
}

static wafer_quant quant_of(const char *precision)
{
    static const struct {
        const char *word;
        wafer_quant quant;
    } words[] = {
        {"mxfp4", QUANT_MXFP4}, {"fp4", QUANT_INT4},   {"int4", QUANT_INT4}, {"4-bit", QUANT_INT4},
        {"4bit", QUANT_INT4},   {"w4a16", QUANT_INT4}, {"awq", QUANT_INT4},  {"gptq", QUANT_INT4},
        {"q4_", QUANT_INT4},    {"fp8", QUANT_FP8},    {"int8", QUANT_FP8},  {"w8a8", QUANT_FP8},
        {"8-bit", QUANT_FP8},   {"q8_", QUANT_FP8},
    };
    for (size_t i = 0; i < ARRAY_LEN(words); i++)
        for (const char *at = precision; *at; at++)
            if (!strncasecmp(at, words[i].word, strlen(words[i].word))) return words[i].quant;
    return QUANT_FP16;
}

static bool open_work(gpu_work *work, wafer_model *m, const row_query *q, prediction *out)
{
    if (!row_model(m, q->row, &out->why)) return false;
    /* "short": the cache is small beside the weights. */
    const bool is_short = !q->row->context[strcspn(q->row->context, "0123456789")];
    *work = (gpu_work){.program = m->program,
                       .quant = quant_of(q->row->precision),
                       .context = is_short ? 1024 : q->context,
                       .users = (uint32_t)fmin(q->row->batch, 65536),
                       .draft = 1};
    return true;
}

/* From a device to the others; 0: the row names no chip. */
static double link_gbytes_s(const published_row *row)
{
    for (size_t i = 0; i < ARRAY_LEN(chips); i++)
        if (row_says(row, chips[i].name)) return chips[i].link_gbytes_s;
    return 0;
}

/* An all-reduce of this many bytes beyond what its latency covers, at 80 % of the links. */
static double reduce_seconds(const row_query *q, double n_bytes)
{
    return 2 * (1 - 1.0 / q->devices) * n_bytes / (link_gbytes_s(q->row) * 1e9 * 0.8);
}

/* A prompt: weights stream at least once, and rows of halves are added up twice a layer. */
static double prefill_seconds(const wafer_gpu *g, const row_query *q, const gpu_work *work)
{
    const step_shape *s = &work->program->shape;
    const double bandwidth =
        g->devices * g->hbm_gbytes_s * 1e9 * g->stack[WAFER_TUNED].efficiency;
    const double computed = gpu_prefill_us(g, WAFER_TUNED, work, q->context) * 1e-6;
    const double sent = 2.0 * q->context * s->n_embd;
    return fmax(computed, step_weight_bytes(work->program, work->quant, q->context) / bandwidth) +
           2.0 * s->n_layers * reduce_seconds(q, sent);
}

static bool protocols_gpu_gpu_step(prediction *out, const row_query *q, bool prefill)
{
    wafer_gpu g;
    gpu_work work;
    wafer_model m;
    if (!fill_chip(&g, q, out) || !open_work(&work, &m, q, out)) return false;
    const double step_us = fill_stack(&g, q, m.program);
    out->layers = m.program->shape.n_layers;
    if (prefill) {
        out->seconds = prefill_seconds(&g, q, &work);
        out->tokens = q->context;
        out->why = "arithmetic at 60 % of the dense peak, weights once, launches, rows added up "
                   "over links";
    } else {
        const gpu_time t = gpu_decode(&g, WAFER_TUNED, &work);
        out->seconds = (t.step_us + step_us) * 1e-6;
        out->ideal = t.stream_us * g.stack[WAFER_TUNED].efficiency * 1e-6;
        out->tokens = row_says(q->row, "per request") ? 1 : work.users;
        if (!names_stack(q->row)) out->host = out->layers * host_layer_us * 1e-6;
        out->why = "weights and KV at the stack's bandwidth, launches and reductions of each layer";
    }
    wafer_model_close(&m);
    return true;
}

bool protocol_gpu_decode(prediction *out, const row_query *q, const wafer_style *style)
{
    (void)style;
    return protocols_gpu_gpu_step(out, q, false);
}

bool protocol_gpu_prefill(prediction *out, const row_query *q, const wafer_style *style)
{
    (void)style;
    return protocols_gpu_gpu_step(out, q, true);
}

/* DeepSeek-R1 with n of its own next-token layers as a draft: a step of 9.01 ms and 0.655 ms for
 * each of them (rows 92-94); the row has the number of tokens of a step. */
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

/* y = W x over devices that share W: streaming at 88 % of the bandwidth, then launches, and for
 * several devices their gather (rows 35 and 38; 36 and 39; 37 and 40). */
bool protocol_gpu_gemv(prediction *out, const row_query *q, const wafer_style *style)
{
    wafer_gpu g;
    (void)style;
    if (!fill_chip(&g, q, out)) return false;
    out->why = "the row does not say how large the product is";
    if (!q->k) return false;
    const double sent = 2.0 * q->k * q->n / (g.devices * g.hbm_gbytes_s * 1e3 * 0.883);
    const double fixed = g.devices == 1 ? 38 : g.devices <= 8 ? 204 : 293;
    out->seconds = (sent + fixed) * 1e-6;
    out->ideal = sent * 0.883e-6;
    out->why = "streaming, and what launches and the gather take";
    return true;
}

/* "16 KB"; 16 KB if not given. */
static double message_kbytes(const published_row *row)
{
    static const struct {
        const char *word;
        double kbytes;
    } units[] = {{"KB", 1}, {"KiB", 1}, {"MB", 1024}, {"MiB", 1024}, {" B", 1.0 / 1024}};
    const char *const fields[] = {row->metric, row->model, row->context};
    double n;
    for (size_t i = 0; i < ARRAY_LEN(units); i++)
        for (size_t k = 0; k < ARRAY_LEN(fields); k++)
            if (row_number_before(fields[k], units[i].word, &n) && n > 0)
                return fmin(n * units[i].kbytes, 1e9);
    return 16;
}

/* Small messages: the time of a launch and of the way through the switch.  Up to 64 KB it grows by
 * the published figures of 4 x H100 (22.7 to 23.1 us, in a graph 11.8 to 13.6); beyond, with the
 * links. */
bool protocol_gpu_collective(prediction *out, const row_query *q, const wafer_style *style)
{
    static const struct {
        const char *chip, *word;
        double us, us_doubling, least; /* of 16 KB, and of each doubling */
    } known[] = {
        {"GB200", "device", 2.37, 0, 2.37}, {"GB200", "best", 2.37, 0, 2.37},
        {"GB200", "", 11.0, 0, 11.0},       {"", "best", 5.0, 0, 5.0},
        {"", "custom", 5.0, 0, 5.0},        {"", "graph", 13.2, 0.2, 11.8},
        {"A100", "", 20.6, 0, 20.6},        {"", "", 23.0, 0.05, 22.7},
    };
    wafer_gpu g;
    size_t i = 0;
    (void)style;
    if (!fill_chip(&g, q, out)) return false;
    while (!row_says(q->row, known[i].chip) || !row_says(q->row, known[i].word)) i++;
    const double kbytes = message_kbytes(q->row), small = fmin(kbytes, 64);
    const double us = fmax(known[i].us + known[i].us_doubling * log2(small / 16), known[i].least);
    out->seconds = us * 1e-6 + reduce_seconds(q, (kbytes - small) * 1024);
    out->is_input = fabs(kbytes - 16) < 0.1;
    out->why = out->is_input ? "an input: measured latency of that library"
                             : "measured latency at 16 KB, and what each doubling adds";
    return true;
}
