/* wafer_options.c - the options of the parts of `cerium wafer`, and their common output. */
#include "programs/wafer.h"

#include "programs/output.h"
#include "programs/programs.h"

static bool take_quant(void *program, const char *value)
{
    wafer_options *w = program;
    for (int q = 0; q < WAFER_QUANTS; q++)
        if (!strcmp(value, wafer_quant_names[q])) {
            w->quant = (wafer_quant)q;
            w->quant_given = true;
            return true;
        }
    char names[160];
    size_t n = 0;
    for (int q = 0; q < WAFER_QUANTS && n < sizeof names; q++)
        n += (size_t)snprintf(names + n, sizeof names - n, "%s%s", q ? ", " : "",
                              wafer_quant_names[q]);
    return option_wants("one of %s", names);
}

/* A list of whole numbers in [low, high]. */
static bool is_list(const char *value, uint32_t low, uint32_t high)
{
    char item[32];
    uint32_t n;
    while (wafer_next_item(&value, item, sizeof item))
        if (!option_u32(item, low, high, &n)) return false;
    return true;
}

static bool take_context(void *program, const char *value)
{
    uint32_t n;
    ((wafer_options *)program)->contexts = value;
    return option_u32(value, 1, 1 << 24, &n);
}

static bool take_contexts(void *program, const char *value)
{
    ((wafer_options *)program)->contexts = value;
    return is_list(value, 1, 1 << 24);
}

static bool take_draft(void *program, const char *value)
{
    uint32_t n;
    ((wafer_options *)program)->drafts = value;
    return option_u32(value, 1, WAFER_DRAFT_MAX, &n);
}

static bool take_drafts(void *program, const char *value)
{
    ((wafer_options *)program)->drafts = value;
    return is_list(value, 1, WAFER_DRAFT_MAX);
}

static bool take_constant(void *program, const char *value)
{
    wafer_options *w = program;
    const char *equals = strchr(value, '=');
    double cycles;
    return (equals && parse_f64(view_of(equals + 1), &cycles) &&
            wafer_style_set(&w->style, (view){value, (size_t)(equals - value)}, cycles)) ||
           option_wants("NAME=CYCLES, a constant of docs/wafer.md");
}

#define MODELS \
    "A model is a GGUF file, a config.json of Hugging Face or its folder, or a name of " \
    "machines/models.ini: its shapes are enough."
#define MACHINES \
    "Machines: wse2, wse3, cs3, cs4, small, dgx-h100, dgx-h200, dgx-b200, or a file.ini."

/* clang-format off */
static const option_spec common[] = {
    {"context", "N", "tokens of one user that must fit (default: 8192, or the model's)",
     TAKES_CALL(take_context)},
    {"quant", "TYPE", "weights as file, fp16, fp8, int4 or mxfp4 (default: as the file has them, "
     "else fp16)", TAKES_CALL(take_quant)},
    {"draft", "N", "tokens verified in a step, the certain one included (default 1)",
     TAKES_CALL(take_draft)},
    {"draft-model", "MODEL",
     "with --draft: this model drafts them on idle cores; on GPUs they take turns",
     TAKES_TEXT(wafer_options, draft_model)},
    {"accept", "P", "probability that a drafted token is accepted (default 0.8)",
     TAKES_F64(wafer_options, accepted, 0, 1)},
    {"wafers", "N", "use at most N wafers", TAKES_U32(wafer_options, wafers, 1, WAFER_WAFERS_MAX)},
    {"host-sampling", NULL, "the host chooses the token: two transfers off the wafer each",
     TAKES_FLAG(wafer_options, host_sampling)},
    {"service-us", "N", "microseconds of network, queue and tokenizer in each step (default 0)",
     TAKES_F64(wafer_options, service_us, 0, 1e7)},
};
static const option_spec plan_own[] = {
    {"machine", "NAME", "machine to plan on (default wse3)", TAKES_TEXT(wafer_options, machines)},
    {"kv-gbytes", "N", "the prompt is computed elsewhere and its KV cache arrives at N GB/s",
     TAKES_F64(wafer_options, prefill_gbytes_s, 1e-3, 1e6)},
    {"picture", "FILE", "draw a map of the wafer and the path of one token, .svg or .html",
     TAKES_TEXT(wafer_options, picture)},
};
static const option_spec compare_own[] = {
    {"machines", "LIST",
     "machines to compare (default wse3,dgx-h100,dgx-b200); GPUs are shown as stock, tuned and "
     "floor",
     TAKES_TEXT(wafer_options, machines)},
    {"contexts", "LIST", "contexts to compare, as in 8192,65536", TAKES_CALL(take_contexts)},
    {"drafts", "LIST", "draft lengths to compare, as in 1,4,8", TAKES_CALL(take_drafts)},
    {"csv", "FILE", "write every figure", TAKES_TEXT(wafer_options, csv)},
    {"plots", "FILE", "draw tokens a second against dollars and joules, .svg or .html",
     TAKES_TEXT(wafer_options, plots)},
};
static const option_spec validate_own[] = {
    {"sensitivity", NULL, "show how far each uncertain constant moves the predictions",
     TAKES_FLAG(wafer_options, sensitivity)},
    {"set", "NAME=CYCLES", "predict with another constant: issue, stage, scalar or gemm_row",
     TAKES_CALL(take_constant)},
};
/* clang-format on */
const command_table wafer_command = {
    .name = "wafer",
    .usage = "plan|compare|validate|simulate [OPTIONS]",
    .about = "What a model would do on wafer-scale silicon.\n\n"
             "  plan       does it fit, with what context, how fast, at what cost\n"
             "  compare    the same on several machines, GPUs included\n"
             "  validate   predictions beside published figures\n"
             "  simulate   run the model on a simulated mesh of cores\n\n"
             "Each has a --help of its own.",
    .examples = "cerium wafer plan -m llama-3-8b --machine wse3 --picture map.html",
};
const command_table wafer_plan_command = {
    .name = "wafer plan",
    .usage = "[OPTIONS] -m MODEL",
    .about = "Plan a model on a wafer: does it fit, with what context, where each part goes, how "
             "many tokens a second, joules and dollars a token.\n\n" MODELS "\n\n" MACHINES,
    .groups = OPTIONS_MODEL | OPTIONS_JSON,
    .own = plan_own,
    .n_own = ARRAY_LEN(plan_own),
    .also = common,
    .n_also = ARRAY_LEN(common),
    .examples = "cerium wafer plan -m llama-3-8b --machine wse3 --picture map.html",
};
const command_table wafer_compare_command = {
    .name = "wafer compare",
    .usage = "[OPTIONS] -m MODEL",
    .about = "Compare machines for a model: speed, joules and dollars a token, for each context "
             "and draft length.\n\n" MODELS "\n\n" MACHINES,
    .groups = OPTIONS_MODEL | OPTIONS_JSON,
    .own = compare_own,
    .n_own = ARRAY_LEN(compare_own),
    .also = common,
    .n_also = ARRAY_LEN(common),
    .examples = "cerium wafer compare -m gpt-oss-120b --machines cs3,dgx-b200 "
                "--contexts 8192,65536",
};
const command_table wafer_validate_command = {
    .name = "wafer validate",
    .usage = "[OPTIONS] ROWS.csv",
    .about = "Predict published figures, and show how far the predictions are from them.",
    .groups = OPTIONS_MODEL | OPTIONS_JSON,
    .own = validate_own,
    .n_own = ARRAY_LEN(validate_own),
    .also = common,
    .n_also = ARRAY_LEN(common),
    .examples = "cerium wafer validate rows.csv --sensitivity",
};

int wafer_options_parse(const command_table *c, wafer_options *w, int argc, char **argv)
{
    *w = (wafer_options){.accepted = 0.8, .drafts = "1", .style = wafer_style_sdk()};
    return command_parse(c, w, argc, argv);
}

wafer_band wafer_served(const wafer_options *w, wafer_band tokens_s, double accepted)
{
    const double add = w->service_us * 1e-6 / accepted;
    return (wafer_band){1 / (1 / tokens_s.low + add), 1 / (1 / tokens_s.high + add)};
}

bool wafer_next_item(const char **list, char *out, size_t size)
{
    if (!*list) return false;
    const char *comma = strchr(*list, ',');
    const size_t len = comma ? (size_t)(comma - *list) : strlen(*list);
    snprintf(out, size, "%.*s", (int)len, *list);
    *list = comma ? comma + 1 : NULL;
    return true;
}

wafer_quant wafer_quant_of(const wafer_options *w, const wafer_model *m)
{
    if (w->quant_given) return w->quant;
    if (m->has_types) return QUANT_FILE;
    return m->program->shape.activation == STEP_SWIGLU_CLAMPED ? QUANT_MXFP4 : QUANT_FP16;
}

json_t *wafer_json_band(wafer_band b)
{
    return json_pack("[f, f]", b.low, b.high);
}

int wafer_print_json(json_t *root, cerium_error *err)
{
    RETURN_IF(output_json(root, JSON_INDENT(2), err));
    return output_flush(err);
}

static void number(char out[28], double x)
{
    if (x >= 9999.5)
        snprintf(out, 28, "%.3gk", x / 1e3);
    else
        snprintf(out, 28,
                 x >= 99.95    ? "%.0f"
                 : x >= 9.995  ? "%.1f"
                 : x >= 0.9995 ? "%.2f"
                               : "%.3f",
                 x);
}

const char *wafer_band_text(char out[64], wafer_band b)
{
    char low[28], high[28];
    number(low, b.low);
    number(high, b.high);
    if (!strcmp(low, high))
        snprintf(out, 64, "%s", low);
    else
        snprintf(out, 64, "%s .. %s", low, high);
    return out;
}
