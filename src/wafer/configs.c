/* configs.c - facts of a model from Hugging Face configs and machines/models.ini. */
#include <ini.h>
#include <strings.h>

#include "base/json.h"
#include "wafer/shapes.h"
#include "wafer/machines.h"

enum {
    LAYERS_MAX = 512,
    WIDTH_MAX = 1 << 20,
    HEADS_MAX = 4096,
    HEAD_DIM_MAX = 512,
    VOCAB_MAX = 1 << 24,
    CONTEXT_MAX = 1 << 24,
    EXPERTS_MAX = 1024,
};

/* Names in a config, the usual one first; all of them are numbers.  Missing is 0. */
static const struct {
    const char *name;
    size_t offset;
    uint32_t max;
} fields[] = {
    {"num_hidden_layers", offsetof(shape_facts, n_layers), LAYERS_MAX},
    {"hidden_size", offsetof(shape_facts, n_embd), WIDTH_MAX},
    {"intermediate_size", offsetof(shape_facts, n_ff), WIDTH_MAX},
    {"num_attention_heads", offsetof(shape_facts, n_heads), HEADS_MAX},
    {"num_key_value_heads", offsetof(shape_facts, n_kv_heads), HEADS_MAX},
    {"head_dim", offsetof(shape_facts, head_dim), HEAD_DIM_MAX},
    {"vocab_size", offsetof(shape_facts, n_vocab), VOCAB_MAX},
    {"max_position_embeddings", offsetof(shape_facts, context_tokens), CONTEXT_MAX},
    {"num_experts", offsetof(shape_facts, n_experts), EXPERTS_MAX},
    {"num_local_experts", offsetof(shape_facts, n_experts), EXPERTS_MAX},
    {"num_experts_per_tok", offsetof(shape_facts, n_experts_used), EXPERTS_MAX},
    {"experts_per_token", offsetof(shape_facts, n_experts_used), EXPERTS_MAX},
    {"moe_intermediate_size", offsetof(shape_facts, n_ff_expert), WIDTH_MAX},
    {"sliding_window", offsetof(shape_facts, window), CONTEXT_MAX},
};

static const struct {
    const char *model_type, *architecture;
} architectures[] = {
    {"llama", "llama"},     {"mistral", "llama"},         {"mixtral", "llama"},
    {"qwen2", "qwen2"},     {"qwen3", "qwen3"},           {"qwen3_moe", "qwen3moe"},
    {"gpt_oss", "gpt-oss"}, {"starcoder2", "starcoder2"},
};

static uint32_t *field_at(shape_facts *f, size_t i)
{
    return (uint32_t *)(void *)((char *)f + fields[i].offset);
}

static int configs_take_type(shape_facts *f, const char *type, const char *file, cerium_error *err)
{
    for (size_t i = 0; i < ARRAY_LEN(architectures); i++)
        if (!strcmp(type, architectures[i].model_type)) {
            snprintf(f->architecture, sizeof f->architecture, "%s", architectures[i].architecture);
            return CERIUM_OK;
        }
    return error_set(err, CERIUM_ERR_FORMAT,
                     "%s: model_type '%.40s' is not supported; there are llama, mistral, mixtral, "
                     "qwen2, qwen3, qwen3_moe, gpt_oss and starcoder2",
                     file, type);
}

/* Fill in values that configs omit, and reject impossible ones. */
static int configs_complete(shape_facts *f, const char *file, cerium_error *err)
{
    const struct {
        const char *name;
        uint32_t value;
    } needed[] = {{"num_hidden_layers", f->n_layers},
                  {"hidden_size", f->n_embd},
                  {"num_attention_heads", f->n_heads},
                  {"vocab_size", f->n_vocab},
                  {"max_position_embeddings", f->context_tokens}};
    for (size_t i = 0; i < ARRAY_LEN(needed); i++)
        if (!needed[i].value)
            return error_set(err, CERIUM_ERR_FORMAT, "%s: %s is missing", file, needed[i].name);
    if (!f->n_kv_heads) f->n_kv_heads = f->n_heads;
    if (!f->head_dim) f->head_dim = f->n_embd / f->n_heads;
    if (!f->n_experts) f->n_experts_used = f->n_ff_expert = 0;
    if (f->n_experts && !f->n_ff_expert) f->n_ff_expert = f->n_ff;
    if (!(f->n_experts ? f->n_ff_expert : f->n_ff))
        return error_set(err, CERIUM_ERR_FORMAT, "%s: intermediate_size is missing", file);
    if (f->n_experts_used > f->n_experts || (f->n_experts && !f->n_experts_used))
        return error_set(err, CERIUM_ERR_FORMAT, "%s: %u of %u experts cannot be used", file,
                         f->n_experts_used, f->n_experts);
    if (!strcmp(f->architecture, "gpt-oss") && !f->window) f->window = 128;
    /* The other configs carry a window that the model does not use (use_sliding_window). */
    if (strcmp(f->architecture, "gpt-oss") && strcmp(f->architecture, "starcoder2")) f->window = 0;
    return CERIUM_OK;
}

static int configs_take_json(shape_facts *f, const json_t *root, const char *file,
                             cerium_error *err)
{
    const json_t *type = json_object_get(root, "model_type");
    if (!json_is_string(type))
        return error_set(err, CERIUM_ERR_FORMAT, "%s: model_type is missing", file);
    RETURN_IF(configs_take_type(f, json_string_value(type), file, err));
    for (size_t i = 0; i < ARRAY_LEN(fields); i++) {
        const json_t *value = json_object_get(root, fields[i].name);
        if (!value || json_is_null(value)) continue;
        json_int_t n = json_is_integer(value) ? json_integer_value(value) : -1;
        if (n < 0 || n > fields[i].max)
            return error_set(err, CERIUM_ERR_FORMAT, "%s: %s must be 0 to %u", file, fields[i].name,
                             fields[i].max);
        if (n) *field_at(f, i) = (uint32_t)n;
    }
    f->is_tied = json_is_true(json_object_get(root, "tie_word_embeddings"));
    return configs_complete(f, file, err);
}

int shape_parse_config(shape_facts *out, view json, const char *file, cerium_error *err)
{
    json_error_t why;
    shape_facts facts = {0};
    if (json.len > WAFER_CONFIG_BYTES_MAX)
        return error_set(err, CERIUM_ERR_FORMAT, "%s: longer than %u bytes", file,
                         WAFER_CONFIG_BYTES_MAX);
    json_t *root = json_read(json, JSON_READ_PYTHON, &why);
    if (!root) return error_set(err, CERIUM_ERR_FORMAT, "%s:%d: %s", file, why.line, why.text);
    int status = json_is_object(root)
                     ? configs_take_json(&facts, root, file, err)
                     : error_set(err, CERIUM_ERR_FORMAT, "%s: not an object", file);
    json_decref(root);
    if (!status) *out = facts;
    return status;
}

/* ---- models by name ---- */

typedef struct {
    view rest;
    const char *name, *file;
    char section[64]; /* with this name */
    shape_facts facts;
    int status, line;
    cerium_error *err;
} known;

/* Equal except for case, blanks and punctuation; b may end where a has a comma. */
static bool same_name(const char *a, const char *b)
{
    for (;;) {
        while (*a == ' ' || *a == '-' || *a == '_' || *a == '.') a++;
        while (*b == ' ' || *b == '-' || *b == '_' || *b == '.') b++;
        char x = *a >= 'A' && *a <= 'Z' ? (char)(*a + 32) : *a;
        char y = *b >= 'A' && *b <= 'Z' ? (char)(*b + 32) : *b;
        if (y == ',') y = 0;
        if (x != y) return false;
        if (!x) return true;
        a++, b++;
    }
}

/* Ignore suffixes of a name that describe the training: the shapes are the same. */
static void plain_name(char *out, size_t size, const char *name)
{
    static const char *const words[] = {"instruct", "meta-", "-chat", "-hf"};
    size_t n = 0;
    while (*name && n + 1 < size) {
        size_t skip = 0;
        for (size_t i = 0; i < ARRAY_LEN(words) && !skip; i++)
            if (!strncasecmp(name, words[i], strlen(words[i]))) skip = strlen(words[i]);
        if (!skip) out[n++] = *name;
        name += skip ? skip : 1;
    }
    out[n] = 0;
}

static bool is_among(const char *name, const char *names)
{
    for (const char *at = names; at; at = strchr(at, ','), at = at ? at + 1 : NULL)
        if (same_name(name, at)) return true;
    return false;
}

static int on_fact(void *user, const char *section, const char *name, const char *value)
{
    known *k = user;
    uint64_t n;
    if (!strcmp(name, "names") && !k->section[0] &&
        (is_among(k->name, value) || same_name(k->name, section)))
        snprintf(k->section, sizeof k->section, "%s", section);
    if (k->status || strcmp(section, k->section) || !strcmp(name, "names")) return 1;
    if (!strcmp(name, "model_type")) {
        k->status = configs_take_type(&k->facts, value, k->file, k->err);
        return 1;
    }
    if (!strcmp(name, "tie_word_embeddings")) {
        k->facts.is_tied = !strcmp(value, "true");
        return 1;
    }
    for (size_t i = 0; i < ARRAY_LEN(fields); i++) {
        if (strcmp(name, fields[i].name)) continue;
        if (!parse_u64(view_of(value), &n) || n > fields[i].max)
            k->status = error_set(k->err, CERIUM_ERR_FORMAT, "%s:%d: %s must be 0 to %u", k->file,
                                  k->line, name, fields[i].max);
        else
            *field_at(&k->facts, i) = (uint32_t)n;
        return 1;
    }
    k->status = error_set(k->err, CERIUM_ERR_FORMAT, "%s:%d: unknown key %.40s", k->file,
                          k->line, name);
    return 1;
}

static char *configs_next_line(char *out, int size, void *user)
{
    known *k = user;
    size_t len = 0;
    if (!k->rest.len) return NULL;
    while (len < k->rest.len && k->rest.ptr[len] != '\n') len++;
    k->line++;
    size_t n = len < (size_t)size - 1 ? len : (size_t)size - 1;
    memcpy(out, k->rest.ptr, n);
    out[n] = 0;
    size_t used = len < k->rest.len ? len + 1 : len;
    k->rest = (view){k->rest.ptr + used, k->rest.len - used};
    return out;
}

int shape_parse_known(shape_facts *out, view ini, const char *file, const char *name,
                      cerium_error *err)
{
    char plain[128];
    plain_name(plain, sizeof plain, name);
    known k = {.rest = ini, .name = plain, .file = file, .err = err};
    if (ini.len > WAFER_MACHINE_BYTES_MAX)
        return error_set(err, CERIUM_ERR_FORMAT, "%s: longer than %u bytes", file,
                         WAFER_MACHINE_BYTES_MAX);
    int line = ini_parse_stream(configs_next_line, &k, on_fact, &k);
    if (k.status) return k.status;
    if (line)
        return error_set(err, CERIUM_ERR_FORMAT, "%s:%d: neither [section] nor key = value", file,
                         line);
    if (!k.section[0])
        return error_set(err, CERIUM_ERR_ARGUMENT,
                         "unknown model '%.60s': name a .gguf, a config.json, or a section of "
                         "%s",
                         name, file);
    if (!k.facts.architecture[0])
        return error_set(err, CERIUM_ERR_FORMAT, "%s: [%s] has no model_type", file, k.section);
    RETURN_IF(configs_complete(&k.facts, file, err));
    *out = k.facts;
    return CERIUM_OK;
}
