/* inspect_json.c - a model file as JSON. */
#include <math.h>

#include "programs/inspect.h"
#include "programs/output.h"

enum { ITEMS_WHOLE = 16 }; /* arrays up to this long are given whole */

static json_t *json_number(uint64_t n)
{
    return n <= INT64_MAX ? json_integer((json_int_t)n) : json_real((double)n);
}

static json_t *json_item(const gguf_value *v, gguf_value_type type, uint64_t i)
{
    gguf_value one = *v;
    if (v->type != GGUF_ARRAY) one.type = GGUF_ARRAY, one.item_type = type, one.n_items = 1;
    if (type == GGUF_STRING)
        return json_text(v->strings ? v->strings[i] : (view){(const char *)v->data, v->data_len});
    if (type == GGUF_BOOL) return json_boolean(gguf_item_i64(&one, i));
    if (type == GGUF_FLOAT32 || type == GGUF_FLOAT64) {
        double x = gguf_item_f64(&one, i);
        return isfinite(x) ? json_real(x) : json_null(); /* JSON has no infinity */
    }
    if (type == GGUF_UINT64) return json_number((uint64_t)gguf_item_i64(&one, i));
    return json_integer(gguf_item_i64(&one, i));
}

static json_t *json_items(const gguf_value *v, uint64_t n)
{
    json_t *list = json_array();
    for (uint64_t i = 0; i < n; i++) json_array_append_new(list, json_item(v, v->item_type, i));
    return list;
}

static json_t *json_value(const gguf_value *v)
{
    if (v->type != GGUF_ARRAY) return json_item(v, v->type, 0);
    if (v->n_items <= ITEMS_WHOLE) return json_items(v, v->n_items);
    return json_pack("{s:o, s:o}", "n_items", json_number(v->n_items), "first",
                     json_items(v, INSPECT_ITEMS_SHOWN));
}

static json_t *json_values(const gguf_file *file)
{
    json_t *object = json_object();
    for (size_t i = 0; i < gguf_n_values(file); i++) {
        const gguf_value *v = gguf_value_at(file, i);
        json_t *key = json_text(v->key);
        json_object_setn_new(object, json_string_value(key), json_string_length(key),
                             json_value(v));
        json_decref(key);
    }
    return object;
}

static json_t *json_tensors(const gguf_file *file)
{
    json_t *list = json_array();
    for (size_t i = 0; i < gguf_n_tensors(file); i++) {
        const gguf_tensor *t = gguf_tensor_at(file, i);
        json_t *dims = json_array();
        for (uint32_t k = 0; k < t->n_dims; k++)
            json_array_append_new(dims, json_number(t->dims[k]));
        json_array_append_new(list, json_pack("{s:o, s:s, s:o, s:o}", "name", json_text(t->name),
                                              "type", block_name(t->type), "shape", dims, "bytes",
                                              json_number(t->size)));
    }
    return list;
}

static json_t *json_types(const facts *f)
{
    json_t *list = json_array();
    for (uint32_t type = 0; type < BLOCK_TYPE_END; type++) {
        const type_share *s = &f->shares[type];
        if (s->n_tensors == 0) continue;
        double share = (double)s->bytes / (double)f->weight_bytes;
        json_array_append_new(list, json_pack("{s:s, s:b, s:o, s:o, s:o, s:f}", "type",
                                              block_name(type), "own", type >= BLOCK_OWN,
                                              "n_tensors", json_number(s->n_tensors),
                                              "n_parameters", json_number(s->n_parameters),
                                              "bytes", json_number(s->bytes), "share", share));
    }
    return list;
}

static json_t *json_quality(const facts *f)
{
    json_t *types = json_object();
    for (uint32_t type = 0; type < BLOCK_TYPE_END; type++) {
        const type_cost *cost = f->shares[type].n_tensors ? facts_cost_of(type) : NULL;
        if (!cost) continue;
        json_object_set_new(types, block_name(type),
                            json_pack("{s:f, s:f}", "nats_above_floats", cost->nats,
                                      "likeliest_the_same", cost->same));
    }
    return json_pack("{s:s, s:o}", "of", "the bundled model, beside F16", "types",
                     types);
}

static json_t *json_fim(const facts *f)
{
    json_t *object = json_object();
    for (int role = 0; role < FIM_ROLES; role++) {
        if (f->fim[role] < 0) continue;
        json_t *token = json_pack("{s:I, s:o}", "id", (json_int_t)f->fim[role], "text",
                                  json_text(facts_token_text(f, f->fim[role])));
        json_object_set_new(object, facts_fim_names[role], token);
    }
    return object;
}

static void json_set_numbers(json_t *to, const facts *f)
{
    const struct {
        const char *name;
        uint64_t value;
    } numbers[] = {
        {"bytes", gguf_file_bytes(f->file)},
        {"gguf_version", gguf_version(f->file)},
        {"n_parameters", f->n_parameters},
        {"weights_bytes", f->weight_bytes},
        {"step_bytes", f->step_bytes},
        {"context_tokens", f->context},
        {"n_layers", f->n_layers},
        {"n_embd", f->n_embd},
        {"n_heads", f->n_heads},
        {"n_kv_heads", f->n_kv_heads},
        {"n_ff", f->n_ff},
        {"n_experts", f->n_experts},
        {"n_experts_used", f->n_used},
        {"n_expert_latent", f->n_expert_latent},
        {"n_vocab", f->n_vocab},
        {"n_tensors", gguf_n_tensors(f->file)},
    };
    for (size_t i = 0; i < ARRAY_LEN(numbers); i++)
        json_object_set_new(to, numbers[i].name, json_number(numbers[i].value));
}

json_t *inspect_json(const facts *f, bool tensors, bool values)
{
    json_t *root = json_object();
    json_object_set_new(root, "path", json_name(gguf_path(f->file)));
    json_object_set_new(root, "name", json_text(f->name));
    json_object_set_new(root, "architecture", json_text(f->arch));
    json_set_numbers(root, f);
    json_object_set_new(root, "types", json_types(f));
    json_object_set_new(root, "quality", json_quality(f));
    json_object_set_new(root, "tokenizer", json_text(f->tokenizer));
    json_object_set_new(root, "tokenizer_pre", json_text(f->pre));
    json_object_set_new(root, "chat_template", json_boolean(f->chat_template.len > 0));
    json_object_set_new(root, "chat_form",
                        *f->chat_form ? json_string(f->chat_form) : json_null());
    json_object_set_new(root, "chat_refusal",
                        *f->chat_refusal ? json_string(f->chat_refusal) : json_null());
    json_object_set_new(root, "fill_in_middle", json_fim(f));
    json_object_set_new(root, "mtp_head", json_boolean(f->mtp >= MTP_NOT_RUN));
    json_object_set_new(root, "mtp_drafts", json_boolean(f->mtp == MTP_DRAFTS));
    json_object_set_new(root, "drafter", facts_is_drafter(f) ? json_text(f->arch) : json_null());
    if (tensors) json_object_set_new(root, "tensors", json_tensors(f->file));
    if (values) json_object_set_new(root, "values", json_values(f->file));
    return root;
}
