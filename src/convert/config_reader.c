/* config_reader.c - reads numbers and texts of config.json, and writes keys of a GGUF file. */
#include "convert/config_reader.h"

#include <math.h>

int config_open(config_reader *out, view json, const char *name, cerium_error *err)
{
    json_error_t at;
    json_t *root = json_read(json, JSON_READ_PYTHON, &at);
    if (!root)
        return error_set(err, CERIUM_ERR_FORMAT, "%s: line %d: %s", name, at.line, at.text);
    if (!json_is_object(root)) {
        json_decref(root);
        return error_set(err, CERIUM_ERR_FORMAT, "%s: it is not an object", name);
    }
    *out = (config_reader){.file = root, .whole = root, .root = root, .name = name, .err = err};
    const char *part = config_get(root, "text_config") ? "text_config" : "transformer_layer_config";
    if (json_is_object(config_get(root, part))) out->root = config_get(root, part);
    return CERIUM_OK;
}

int config_close(config_reader *r)
{
    json_decref(r->file);
    r->file = NULL;
    return r->status;
}

void config_refuse(config_reader *r, const char *what, const char *key)
{
    if (!r->status)
        r->status = error_set(r->err, CERIUM_ERR_FORMAT, "%s: %s: %s", r->name, key, what);
}

const json_t *config_get(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);
    return json_is_null(value) ? NULL : value;
}

bool config_whole(const json_t *value, int64_t *out)
{
    const double x = json_number_value(value);
    if (!json_is_number(value) || x != floor(x) || fabs(x) > 9e15) return false;
    *out = (int64_t)x;
    return true;
}

uint32_t config_u32(config_reader *r, const char *key, uint32_t max)
{
    const json_t *value = config_get(r->root, key);
    char what[64];
    int64_t n = 0;
    if (value && config_whole(value, &n) && n >= 1 && n <= max) return (uint32_t)n;
    snprintf(what, sizeof what, "is not a whole number from 1 to %u", max);
    config_refuse(r, value ? what : "is missing", key);
    return 1;
}

uint32_t config_u32_or(config_reader *r, const char *key, uint32_t max, uint32_t otherwise)
{
    return config_get(r->root, key) ? config_u32(r, key, max) : otherwise;
}

double config_number(config_reader *r, const json_t *object, const char *key, double otherwise)
{
    const json_t *value = config_get(object, key);
    double x = json_number_value(value);
    if (!value) return otherwise;
    if (json_is_number(value) && isfinite(x) && x > 0 && x <= 1e12) return x;
    config_refuse(r, "is not a number above 0", key);
    return otherwise;
}

const char *config_text(const json_t *object, const char *key)
{
    return json_string_value(config_get(object, key));
}

const char *config_key(const config_writer *k, const char *name, char key[96])
{
    snprintf(key, 96, "%s.%s", k->arch, name);
    return key;
}

void config_put_u32(const config_writer *k, const char *name, uint32_t value)
{
    char key[96];
    gguf_write_u32(k->w, config_key(k, name, key), value);
}

void config_put_f32(const config_writer *k, const char *name, double value)
{
    char key[96];
    gguf_write_f32(k->w, config_key(k, name, key), (float)value);
}

void config_layer_types(config_reader *r, const char *type, uint32_t n, bool *is)
{
    const json_t *types = config_get(r->root, "layer_types"), *one;
    size_t i;
    if (!types) return;
    if (json_array_size(types) < n) {
        config_refuse(r, "has fewer entries than there are layers", "layer_types");
        return;
    }
    json_array_foreach(types, i, one) {
        const char *has = json_string_value(one);
        bool is_it = has && !strcmp(has, type);
        if (!is_it && (!has || strcmp(has, "full_attention") != 0))
            config_refuse(r, "a kind of layer that is not supported", "layer_types");
        if (i < n) is[i] = is_it;
    }
}
