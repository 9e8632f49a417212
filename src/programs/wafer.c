/* wafer.c - `cerium wafer`: picks the part, and reads the options that the parts share. */
#include "programs/wafer.h"

#include "programs/output.h"
#include "programs/programs.h"
#include "programs/terminal.h"

static const char wafer_help[] =
    "usage: cerium wafer plan -m MODEL --machine NAME [--context N]\n"
    "       cerium wafer compare -m MODEL --machines NAME,NAME,... [--contexts N,N,...]\n"
    "       cerium wafer validate ROWS.csv [--sensitivity]\n"
    "       cerium wafer simulate [-m MODEL] [-p TEXT]   (has a --help of its own)\n\n"
    "What a model would do on wafer-scale silicon: does it fit, with what context, how many\n"
    "tokens a second, joules and dollars a token; and what GPUs make of it.  Shapes are enough:\n"
    "MODEL is a GGUF file, a Hugging Face config.json or its folder, or a name of\n"
    "machines/models.ini.\n\n"
    "machines: wse2, wse3, cs3, cs4, small, dgx-h100, dgx-h200, dgx-b200, or a file.ini\n\n"
    "  -m, --model MODEL     whose shapes; CERIUM_MODEL or the bundled one when not given\n"
    "      --machine NAME    a mesh to plan on (wse3)\n"
    "      --machines LIST   to compare (wse3,dgx-h100,dgx-b200); GPUs as stock, tuned and floor,\n"
    "                        dgx-h100 where LIST has none\n"
    "      --context N       tokens of one user that must fit (8192, or the model's)\n"
    "      --contexts LIST   to compare\n"
    "      --quant TYPE      file, fp16, fp8, int4 or mxfp4 (as the file has it, else fp16)\n"
    "      --draft N         tokens verified in a step, the sure one included (1)\n"
    "      --drafts LIST     to compare\n"
    "      --draft-model MODEL  it guesses all others of them, on idle cores; GPUs take turns\n"
    "      --accept P        chance that a drafted token is accepted (0.8)\n"
    "      --wafers N        use at most so many\n"
    "      --host-sampling   the host chooses the token: two ways off the wafer each\n"
    "      --service-us N    network, queue and tokenizer of each step, a term of its own (0)\n"
    "      --kv-gbytes N     the prompt is computed elsewhere and its KV arrives at N GB/s\n"
    "      --picture FILE    plan: a map of the wafer and the way of one token, .svg or .html\n"
    "      --csv FILE        compare: every figure\n"
    "      --plots FILE      compare: tokens a second against dollars and joules, .svg or .html\n"
    "      --sensitivity     validate: how far each uncertain constant moves the figures\n"
    "      --set NAME=CYCLES validate: with another constant (issue, stage, scalar, gemm_row)\n"
    "      --json            for programs\n\n"
    "example: cerium wafer plan -m llama-3-8b --machine wse3 --picture map.html\n"
    "example: cerium wafer compare -m gpt-oss-120b --machines cs3,dgx-b200 --contexts 8192,65536\n";

enum {
    VAL_MACHINE = OPTION_OWN,
    VAL_MACHINES,
    VAL_CONTEXT,
    VAL_CONTEXTS,
    VAL_QUANT,
    VAL_DRAFT,
    VAL_DRAFTS,
    VAL_DRAFT_MODEL,
    VAL_ACCEPT,
    VAL_WAFERS,
    VAL_HOST,
    VAL_SERVICE,
    VAL_KV,
    VAL_PICTURE,
    VAL_CSV,
    VAL_PLOTS,
    VAL_SENSITIVITY,
    VAL_SET,
};

static const struct option own[] = {
    {"machine", required_argument, NULL, VAL_MACHINE},
    {"machines", required_argument, NULL, VAL_MACHINES},
    {"context", required_argument, NULL, VAL_CONTEXT},
    {"contexts", required_argument, NULL, VAL_CONTEXTS},
    {"quant", required_argument, NULL, VAL_QUANT},
    {"draft", required_argument, NULL, VAL_DRAFT},
    {"drafts", required_argument, NULL, VAL_DRAFTS},
    {"draft-model", required_argument, NULL, VAL_DRAFT_MODEL},
    {"accept", required_argument, NULL, VAL_ACCEPT},
    {"wafers", required_argument, NULL, VAL_WAFERS},
    {"host-sampling", no_argument, NULL, VAL_HOST},
    {"service-us", required_argument, NULL, VAL_SERVICE},
    {"kv-gbytes", required_argument, NULL, VAL_KV},
    {"picture", required_argument, NULL, VAL_PICTURE},
    {"csv", required_argument, NULL, VAL_CSV},
    {"plots", required_argument, NULL, VAL_PLOTS},
    {"sensitivity", no_argument, NULL, VAL_SENSITIVITY},
    {"set", required_argument, NULL, VAL_SET},
};

static bool take_quant(wafer_options *w, const char *value)
{
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

static bool is_one(const char *value, uint32_t low, uint32_t high)
{
    uint32_t n;
    return option_u32(value, low, high, &n);
}

static bool take_constant(wafer_options *w, const char *value)
{
    const char *equals = strchr(value, '=');
    double cycles;
    return (equals && parse_f64(view_of(equals + 1), &cycles) &&
            wafer_style_set(&w->style, (view){value, (size_t)(equals - value)}, cycles)) ||
           option_wants("NAME=CYCLES, a constant of docs/wafer.md");
}

static bool take(void *arg, int val, const char *value)
{
    wafer_options *w = arg;
    switch (val) {
    case VAL_MACHINE:
    case VAL_MACHINES:
        w->machines = value;
        return *value != 0;
    case VAL_CONTEXT:
        w->contexts = value;
        return is_one(value, 1, 1 << 24);
    case VAL_CONTEXTS:
        w->contexts = value;
        return is_list(value, 1, 1 << 24);
    case VAL_QUANT:
        return take_quant(w, value);
    case VAL_DRAFT:
        w->drafts = value;
        return is_one(value, 1, WAFER_DRAFT_MAX);
    case VAL_DRAFTS:
        w->drafts = value;
        return is_list(value, 1, WAFER_DRAFT_MAX);
    case VAL_DRAFT_MODEL:
        w->draft_model = value;
        return *value != 0;
    case VAL_ACCEPT:
        return option_f64(value, 0, 1, &w->accepted);
    case VAL_WAFERS:
        return option_u32(value, 1, WAFER_WAFERS_MAX, &w->wafers);
    case VAL_HOST:
        w->host_sampling = true;
        return true;
    case VAL_SERVICE:
        return option_f64(value, 0, 1e7, &w->service_us);
    case VAL_KV:
        return option_f64(value, 1e-3, 1e6, &w->prefill_gbytes_s);
    case VAL_PICTURE:
        w->picture = value;
        return *value != 0;
    case VAL_CSV:
        w->csv = value;
        return *value != 0;
    case VAL_PLOTS:
        w->plots = value;
        return *value != 0;
    case VAL_SENSITIVITY:
        w->sensitivity = true;
        return true;
    case VAL_SET:
        return take_constant(w, value);
    default:
        return false;
    }
}

/* Options that one part alone takes. */
static const struct {
    int val;
    const char *part;
} owners[] = {
    {VAL_PICTURE, "plan"},         {VAL_KV, "plan"},    {VAL_CSV, "compare"},
    {VAL_PLOTS, "compare"},        {VAL_DRAFTS, "compare"}, {VAL_CONTEXTS, "compare"},
    {VAL_SENSITIVITY, "validate"}, {VAL_SET, "validate"},
};

static const char *owner_of(int val)
{
    for (size_t i = 0; i < ARRAY_LEN(owners); i++)
        if (owners[i].val == val) return owners[i].part;
    return NULL;
}

static bool take_own(void *arg, int val, const char *value)
{
    wafer_options *w = arg;
    const char *owner = owner_of(val);
    if (owner && strcmp(owner, w->part)) w->stray = val;
    return take(arg, val, value);
}

int wafer_options_parse(wafer_options *w, int argc, char **argv)
{
    *w = (wafer_options){.accepted = 0.8, .drafts = "1", .style = wafer_style_sdk()};
    w->part = argv[0] + strlen("wafer ");
    const int usage = options_parse(&w->o, argc, argv, OPTIONS_MODEL | OPTIONS_JSON, own,
                                    ARRAY_LEN(own), take_own, w, wafer_help);
    for (size_t i = 0; !usage && i < ARRAY_LEN(own); i++)
        if (w->stray == own[i].val && w->stray)
            return usage_error(argv[0], "--%s is of cerium wafer %s", own[i].name,
                               owner_of(w->stray));
    return usage;
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

int program_wafer(int argc, char **argv)
{
    static const struct {
        const char *name;
        char title[20];
        int (*main)(int argc, char **argv);
    } parts[] = {
        {"plan", "wafer plan", wafer_plan_main},
        {"compare", "wafer compare", wafer_compare_main},
        {"validate", "wafer validate", wafer_validate_main},
        {"simulate", "wafer simulate", wafer_simulate_main},
    };
    if (argc > 1 && (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h"))) {
        fputs(wafer_help, stdout);
        return 0;
    }
    const char *names[ARRAY_LEN(parts)];
    for (size_t i = 0; i < ARRAY_LEN(parts); i++) names[i] = parts[i].name;
    for (size_t i = 0; argc > 1 && i < ARRAY_LEN(parts); i++) {
        if (strcmp(argv[1], parts[i].name)) continue;
        char title[sizeof parts[i].title];
        memcpy(title, parts[i].title, sizeof title);
        argv[1] = title;
        return parts[i].main(argc - 1, argv + 1);
    }
    const char *near = argc > 1 ? nearest_name(argv[1], names, ARRAY_LEN(names)) : NULL;
    if (near)
        return usage_error("wafer", "there is no part '%.40s'; did you mean %s?", argv[1], near);
    if (argc > 1) return usage_error("wafer", "there is no part '%.40s'", argv[1]);
    return usage_error("wafer", "say plan, compare, validate or simulate");
}
