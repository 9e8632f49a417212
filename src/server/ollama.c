/* ollama.c - the information routes of Ollama, for editors that look for it. */
#include "server/ollama.h"

#include <openssl/sha.h>

#include "server/http.h"
#include "server/ids.h"
#include "server/model_list.h"
#include "server/model_memory.h"

/* The version of the interface.  VS Code requires 0.6.4, Codex 0.13.4. */
static const char ollama_version[] = "0.13.4";

static void when(char out[32], int64_t seconds)
{
    time_t at = (time_t)seconds;
    struct tm parts;
    gmtime_r(&at, &parts);
    strftime(out, 32, "%Y-%m-%dT%H:%M:%SZ", &parts);
}

/* "9.4M", "1.5B" */
static void size_name(char out[32], uint64_t n)
{
    static const struct {
        double unit;
        char name;
    } units[] = {{1e9, 'B'}, {1e6, 'M'}, {1e3, 'K'}};
    for (size_t i = 0; i < ARRAY_LEN(units); i++)
        if ((double)n >= units[i].unit) {
            snprintf(out, 32, "%.1f%c", (double)n / units[i].unit, units[i].name);
            return;
        }
    snprintf(out, 32, "%llu", (unsigned long long)n);
}

static void digest_of(const served_model *m, char out[65])
{
    unsigned char digest[SHA256_DIGEST_LENGTH];
    char text[512];
    int n = snprintf(text, sizeof text, "%s %s %s %llu", m->names[0], m->info.architecture,
                     m->info.quantization, (unsigned long long)m->info.weights_bytes);
    SHA256((const unsigned char *)text, (size_t)n < sizeof text ? (size_t)n : sizeof text - 1,
           digest);
    for (size_t i = 0; i < sizeof digest; i++) snprintf(out + 2 * i, 3, "%02x", digest[i]);
}

static json_t *details(const served_model *m)
{
    char size[32];
    size_name(size, m->info.n_parameters);
    return json_pack("{s:s, s:s, s:s, s:[s], s:s, s:s}", "parent_model", "", "format", "gguf",
                     "family", m->info.architecture, "families", m->info.architecture,
                     "parameter_size", size, "quantization_level", m->info.quantization);
}

static json_t *model(const served_model *m)
{
    char at[32], digest[65];
    when(at, m->listed.created_at);
    digest_of(m, digest);
    return json_pack("{s:s, s:s, s:s, s:I, s:s, s:o}", "name", m->names[0], "model", m->names[0],
                     "modified_at", at, "size", (json_int_t)m->info.weights_bytes, "digest",
                     digest, "details", details(m));
}

void ollama_version_get(connection *c)
{
    http_json(c, 200, json_pack("{s:s}", "version", ollama_version));
}

void ollama_tags(connection *c)
{
    json_t *list = json_array();
    for (uint32_t i = 0; i < models_n(c->s); i++)
        if (!atomic_load(&models_at(c->s, i)->is_deleted))
            json_array_append_new(list, model(models_at(c->s, i)));
    http_json(c, 200, json_pack("{s:o}", "models", list));
}

/* The loaded models, and when each is unloaded if idle. */
void ollama_ps(connection *c)
{
    json_t *list = json_array();
    for (uint32_t i = 0; i < models_n(c->s); i++) {
        const served_model *m = models_at(c->s, i);
        char at[32] = "2318-01-01T00:00:00Z";
        if (m->state != MODEL_LOADED || atomic_load(&m->is_deleted)) continue;
        if (m->idle_s >= 0 && !m->is_borrowed) {
            const int64_t idle_s = (int64_t)((clock_ns() - m->used_ns) / 1000000000);
            when(at, (int64_t)time(NULL) + (m->idle_s > idle_s ? m->idle_s - idle_s : 0));
        }
        json_t *one = model(m);
        json_object_set_new(one, "size", json_integer((json_int_t)model_bytes(m)));
        json_object_set_new(one, "expires_at", json_string(at));
        json_object_set_new(one, "size_vram", json_integer(0));
        json_object_set_new(one, "context_length", json_integer(m->info.context_tokens_max));
        json_array_append_new(list, one);
    }
    http_json(c, 200, json_pack("{s:o}", "models", list));
}

/* ---- one model ---- */

/* The model named in a body; NULL: an error was answered. */
static const served_model *read_name(connection *c)
{
    json_t *root = http_body_object(c, SERVER_INLINE_BYTES_MAX);
    if (!root) return NULL;
    const char *name = json_string_value(json_object_get(root, "model"));
    protocol_error e;
    if (!name) name = json_string_value(json_object_get(root, "name"));
    const served_model *m = name ? models_named(c->s, name) : NULL;
    if (!name)
        (void)protocol_error_set(&e, 400, "invalid_request_error", NULL, "model",
                                 "model is required");
    else if (!m)
        (void)protocol_error_set(&e, 404, "invalid_request_error", "model_not_found", "model",
                                 "model '%.120s' not found; see GET /api/tags", name);
    json_decref(root);
    if (!m) http_error(c, &e);
    return m;
}

static json_t *capabilities(const served_model *m)
{
    static const char *const thinking[] = {"qwen3", "qwen3.5", "harmony", "mistral-v7",
                                           "mistral-v7-tekken"};
    json_t *list = json_pack("[s]", "completion");
    if (m->listed.chats) json_array_append_new(list, json_string("tools"));
    if (m->listed.fills_in) json_array_append_new(list, json_string("insert"));
    if (m->info.pooling) json_array_append_new(list, json_string("embedding"));
    for (size_t i = 0; i < ARRAY_LEN(thinking); i++)
        if (!strcmp(m->info.chat_form, thinking[i]))
            json_array_append_new(list, json_string("thinking"));
    return list;
}

static json_t *model_info(const served_model *m)
{
    const cerium_engine_info *info = &m->info;
    char key[160];
    json_t *all = json_pack("{s:s, s:s, s:I}", "general.architecture", info->architecture,
                            "general.basename", m->names[0], "general.parameter_count",
                            (json_int_t)info->n_parameters);
    snprintf(key, sizeof key, "%.100s.context_length", info->architecture);
    json_object_set_new(all, key, json_integer(info->context_tokens_max));
    snprintf(key, sizeof key, "%.100s.embedding_length", info->architecture);
    json_object_set_new(all, key, json_integer(info->n_embedding));
    snprintf(key, sizeof key, "%.100s.block_count", info->architecture);
    json_object_set_new(all, key, json_integer(info->n_layers));
    return all;
}

void ollama_show(connection *c)
{
    const served_model *m = read_name(c);
    char at[32], file[SERVER_ID_BYTES + 8], parameters[48];
    /* Editors look for .Suffix in it to know that the model fills in. */
    if (!m) return;
    const char *form = m->listed.fills_in ? "{{ .Prompt }}{{ .Suffix }}" : "{{ .Prompt }}";
    when(at, m->listed.created_at);
    snprintf(file, sizeof file, "FROM %s", m->names[0]);
    snprintf(parameters, sizeof parameters, "num_ctx    %u", m->info.context_tokens_max);
    http_json(c, 200,
              json_pack("{s:s, s:s, s:s, s:s, s:o, s:o, s:o, s:s}", "license", "", "modelfile",
                        file, "parameters", parameters, "template", form, "details", details(m),
                        "model_info", model_info(m), "capabilities", capabilities(m),
                        "modified_at", at));
}

void ollama_unserved(connection *c)
{
    protocol_error e;
    (void)protocol_error_set(&e, 501, "not_supported_error", "not_supported", "",
                             "models are not changed by this server: start it with another file");
    http_error(c, &e);
}
