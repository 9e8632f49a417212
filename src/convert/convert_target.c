/* convert_target.c - the model that a drafter was made for: a folder as Hugging Face publishes it,
 * or a GGUF file, whose tokenizer the drafter's file gets, too. */
#include <sys/stat.h>
#include <unistd.h>

#include "convert/config_reader.h"
#include "convert/convert_files.h"

static int parse_config(convert_target *t, view json, const char *path, cerium_error *err)
{
    config_reader r;
    RETURN_IF(config_open(&r, json, path, err));
    t->n_layers = config_u32(&r, "num_hidden_layers", CONVERT_LAYERS_MAX);
    t->n_embd = config_u32(&r, "hidden_size", CONFIG_WIDTH_MAX);
    const char *name = json_string_value(json_array_get(config_get(r.whole, "architectures"), 0));
    t->is_gemma = name && !strncmp(name, "Gemma", 5);
    t->is_gemma4 = name && !strncmp(name, "Gemma4", 6);
    const json_t *rope = config_get(r.root, "rope_parameters");
    if (!rope) rope = config_get(r.root, "rope_scaling");
    t->has_sections = config_get(rope, "mrope_section") != NULL;
    return config_close(&r);
}

static uint64_t number_of(const gguf_file *file, view arch, const char *name)
{
    char key[128];
    uint64_t n = 0;
    snprintf(key, sizeof key, "%.*s.%s", (int)arch.len, arch.ptr, name);
    return gguf_get_u64(file, key, &n) ? n : 0;
}

static int open_file(convert_target *t, const char *path, cerium_error *err)
{
    char key[128];
    view arch;
    RETURN_IF(gguf_open(&t->file, path, err));
    if (!gguf_get_string(t->file, "general.architecture", &arch) || arch.len > 64)
        return error_set(err, CERIUM_ERR_FORMAT, "%s: key general.architecture is missing", path);
    const uint64_t blocks = number_of(t->file, arch, "block_count");
    const uint64_t ahead = number_of(t->file, arch, "nextn_predict_layers");
    const uint64_t n_embd = number_of(t->file, arch, "embedding_length");
    if (blocks <= ahead || blocks > CONVERT_LAYERS_MAX || !n_embd || n_embd > CONFIG_WIDTH_MAX)
        return error_set(err, CERIUM_ERR_FORMAT, "%s: its layers or their width are out of range",
                         path);
    t->n_layers = (uint32_t)(blocks - ahead);
    t->n_embd = (uint32_t)n_embd;
    t->is_gemma = view_starts(arch, VIEW("gemma"));
    t->is_gemma4 = view_starts(arch, VIEW("gemma4"));
    snprintf(key, sizeof key, "%.*s.rope.dimension_sections", (int)arch.len, arch.ptr);
    t->has_sections = gguf_find(t->file, key) != NULL;
    return CERIUM_OK;
}

int convert_target_open(convert_target *out, const char *path, cerium_error *err)
{
    char name[CONVERT_PATH_BYTES];
    struct stat st;
    view json = {0};
    if (stat(path, &st) || !S_ISDIR(st.st_mode)) return open_file(out, path, err);
    snprintf(name, sizeof name, "%s/config.json", path);
    if (access(name, F_OK))
        return error_set(err, CERIUM_ERR_IO, "%s: it is not there; name a model's folder or GGUF "
                         "file", name);
    int status = convert_map_text(path, &json, "config.json", false, err);
    if (!status) status = parse_config(out, json, name, err);
    convert_unmap(&json);
    return status;
}

void convert_target_write(const convert_target *t, gguf_writer *w)
{
    for (size_t i = 0; t->file && i < gguf_n_values(t->file); i++) {
        const gguf_value *value = gguf_value_at(t->file, i);
        if (view_starts(value->key, VIEW("tokenizer.")) &&
            !view_equal(value->key, VIEW("tokenizer.ggml.mask_token_id")) &&
            !view_starts(value->key, VIEW("tokenizer.chat_template")))
            gguf_write_value(w, value);
    }
}

void convert_target_close(convert_target *t)
{
    gguf_close(&t->file);
    *t = (convert_target){0};
}
