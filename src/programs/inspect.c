/* inspect.c - `cerium inspect`: the contents of a model file, for people and as JSON.
 *
 * Reads the file itself, through gguf/, since it must also explain models that the engine cannot
 * run. */
#include "programs/inspect.h"

#include "programs/options.h"
#include "programs/output.h"
#include "programs/programs.h"
#include "programs/residency.h"

typedef struct {
    options o;
    const char *model;
    bool tensors, values, plan;
    uint32_t context, threads; /* of the plan; 0 = the model's, the machine's */
    uint32_t kv_value_bytes;
} inspect_options;

static bool take_kv(void *program, const char *value)
{
    static const uint32_t kv_bytes[] = {1, 2, 4};
    uint32_t which;
    if (!option_word(value, "i8, f16, f32", &which)) return false;
    ((inspect_options *)program)->kv_value_bytes = kv_bytes[which];
    return true;
}

static const option_spec own[] = {
    {"tensors", NULL, "list every tensor: type, shape, bytes",
     TAKES_FLAG(inspect_options, tensors)},
    {"values", NULL, "list the metadata; long arrays are cut", TAKES_FLAG(inspect_options, values)},
    {"plan", NULL,
     "measure caches and memory of this machine for two seconds, and show which of them holds the "
     "weights and the KV cache, the most tokens/s that allows, and what would be faster",
     TAKES_FLAG(inspect_options, plan)},
    {"context", "N", "context of the plan (default: the model's)",
     TAKES_U32(inspect_options, context, 1, 1 << 24), .needs = "plan"},
    {"threads", "N", "threads of the plan (default: the machine's)",
     TAKES_U32(inspect_options, threads, 1, 256), .needs = "plan"},
    {"kv", "i8|f16|f32", "KV cache of the plan (default: as it runs)", TAKES_CALL(take_kv),
     .needs = "plan"},
};
const command_table inspect_command = {
    .name = "inspect",
    .usage = "[OPTIONS] [MODEL]",
    .about = "Show what a model file holds, and with --plan where it fits on this machine. MODEL "
             "is a GGUF file, the first of a split set, or the name of a pulled model; models that "
             "cerium cannot run are shown, too.",
    .groups = OPTIONS_MODEL | OPTIONS_JSON,
    .own = own,
    .n_own = ARRAY_LEN(own),
    .examples = "cerium inspect models/cerium-line.gguf --tensors",
};

static int parse_options(inspect_options *o, int argc, char **argv)
{
    RETURN_IF(command_parse(&inspect_command, o, argc, argv));
    if (argc - optind > 1) return usage_error("inspect", "one model, not %d", argc - optind);
    if (optind < argc && o->o.model)
        return usage_error("inspect", "MODEL and -m exclude each other");
    if (optind < argc) o->o.model = argv[optind];
    o->model = options_model(&o->o);
    return o->model ? 0 : usage_error("inspect", "no model: name one");
}

static int show(const gguf_file *file, const inspect_options *o, cerium_error *err)
{
    if (o->plan)
        return residency_plan(file, o->threads, o->context, o->kv_value_bytes, o->o.json, err);
    facts f = facts_of(file);
    if (o->o.json) return output_json(inspect_json(&f, o->tensors, o->values), JSON_INDENT(2), err);
    inspect_print_summary(&f);
    if (o->tensors) inspect_print_tensors(file);
    if (o->values) inspect_print_values(file);
    return CERIUM_OK;
}

int program_inspect(int argc, char **argv)
{
    inspect_options o = {.plan = false};
    gguf_file *file = NULL;
    cerium_error err;
    RETURN_IF(parse_options(&o, argc, argv));
    int status = options_model_check(o.model, &err);
    if (!status) status = gguf_open(&file, o.model, &err);
    if (!status) status = show(file, &o, &err);
    gguf_close(&file);
    return status ? failed(&err) : 0;
}
