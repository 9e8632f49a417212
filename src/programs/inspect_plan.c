/* inspect_plan.c - `cerium inspect --plan`: measures the machine and prints the plan as text or
 * JSON. */
#include <jansson.h>

#include "programs/machine.h"
#include "programs/output.h"
#include "programs/residency.h"

static json_t *json_number(uint64_t n) { return json_integer((json_int_t)n); }

static json_t *json_place(const residency_machine *machine, uint64_t depth, uint64_t n)
{
    return json_pack("{s:o, s:o, s:s, s:f}", "depth", json_number(depth), "bytes", json_number(n),
                     "level", machine->levels[residency_place(machine, n)].name,
                     "tokens_per_s_max", residency_speed(machine, n));
}

static json_t *json_levels(const residency_machine *machine)
{
    json_t *list = json_array();
    for (uint32_t i = 0; i < machine->n_levels; i++)
        json_array_append_new(list, json_pack("{s:s, s:o, s:f}", "level", machine->levels[i].name,
                                              "bytes", json_number(machine->levels[i].size),
                                              "bytes_per_s", machine->levels[i].bytes_per_s));
    return list;
}

static json_t *json_advice(const residency_machine *machine, const residency_model *m,
                           uint32_t kv_value_bytes, uint64_t context)
{
    residency_advice advice[RESIDENCY_ADVICE_MAX];
    json_t *list = json_array();
    uint32_t n = residency_advise(machine, m, kv_value_bytes, context, advice);
    for (uint32_t i = 0; i < n; i++) {
        json_t *one = json_place(machine, advice[i].depth, advice[i].step_bytes);
        json_object_set_new(one, "what", json_string(advice[i].what));
        json_array_append_new(list, one);
    }
    return list;
}

static json_t *json_plan(const residency_machine *machine, const residency_model *m,
                         uint32_t kv_value_bytes, uint64_t context)
{
    const uint64_t step = residency_step_bytes(m);
    json_t *roles = json_object(), *depths = json_array();
    for (int role = 0; role < RESIDENCY_ROLES; role++)
        json_object_set_new(roles, residency_role_names[role],
                            json_pack("{s:o, s:o}", "bytes", json_number(m->held[role]),
                                      "read_bytes", json_number(m->read[role])));
    json_array_append_new(depths, json_place(machine, 0, step));
    const uint64_t deep = step + residency_kv_bytes(m, kv_value_bytes, context);
    json_array_append_new(depths, json_place(machine, context, deep));
    return json_pack("{s:i, s:s?, s:o, s:i, s:o, s:o, s:o}", "threads", (int)machine->threads,
                     "assumed", machine->assumed, "levels", json_levels(machine), "n_layers",
                     (int)m->n_layers, "roles", roles, "depths", depths, "faster",
                     json_advice(machine, m, kv_value_bytes, context));
}

int residency_plan(const gguf_file *file, uint32_t threads, uint32_t context,
                   uint32_t kv_value_bytes, bool json, cerium_error *err)
{
    residency_machine machine;
    const residency_model m = residency_of(file);
    const char *slash = strrchr(gguf_path(file), '/');
    const uint64_t depth = context ? context : m.context_tokens;
    if (!kv_value_bytes) kv_value_bytes = m.kv_value_bytes;
    RETURN_IF(machine_measure(&machine, threads, err));
    if (!json) {
        residency_print(stdout, &machine, &m, slash ? slash + 1 : gguf_path(file),
                        kv_value_bytes, depth);
        return CERIUM_OK;
    }
    json_t *root = json_plan(&machine, &m, kv_value_bytes, depth);
    return output_json(root, JSON_INDENT(2), err);
}
