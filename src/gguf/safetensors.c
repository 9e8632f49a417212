/* safetensors.c - reads the header of a safetensors file. */
#include "gguf/safetensors.h"

#include <math.h>

#include "base/json.h"
#include "base/memory.h"
#include "gguf/blocks.h"
#include "gguf/gguf.h"

enum { LENGTH_BYTES = 8 };

size_t safe_type_bytes(safe_type type)
{
    static const uint8_t size[] = {
        [SAFE_F32] = 4, [SAFE_F16] = 2, [SAFE_BF16] = 2, [SAFE_F8_E4M3] = 1, [SAFE_U8] = 1,
        [SAFE_I64] = 8, [SAFE_BOOL] = 1};
    CHECK(type != SAFE_FP4); /* half a byte */
    return size[type];
}

static bool type_of(const char *name, safe_type *out)
{
    static const char *const names[] = {[SAFE_F32] = "F32",
                                        [SAFE_F16] = "F16",
                                        [SAFE_BF16] = "BF16",
                                        [SAFE_F8_E4M3] = "F8_E4M3",
                                        [SAFE_U8] = "U8",
                                        [SAFE_I64] = "I64",
                                        [SAFE_BOOL] = "BOOL"};
    for (size_t i = 0; name && i < ARRAY_LEN(names); i++) {
        if (!names[i] || strcmp(name, names[i]) != 0) continue;
        *out = (safe_type)i;
        return true;
    }
    return false;
}

/* A number that is not negative. */
static bool get_size(const json_t *value, uint64_t *out)
{
    if (!json_is_integer(value) || json_integer_value(value) < 0) return false;
    *out = (uint64_t)json_integer_value(value);
    return true;
}

static bool get_shape(const json_t *shape, safetensor *t, uint64_t *n_values)
{
    if (!json_is_array(shape) || json_array_size(shape) > SAFE_DIMS_MAX) return false;
    t->n_dims = (uint32_t)json_array_size(shape);
    *n_values = 1;
    for (uint32_t i = 0; i < SAFE_DIMS_MAX; i++) {
        t->dims[i] = 1;
        if (i >= t->n_dims) continue;
        if (!get_size(json_array_get(shape, i), &t->dims[i]) || t->dims[i] == 0) return false;
        if (t->dims[i] > GGUF_TENSOR_VALUES_MAX / *n_values) return false;
        *n_values *= t->dims[i];
    }
    return true;
}

static int read_tensor(safetensor *t, const char *name, const json_t *entry, view data,
                       const char *label, cerium_error *err)
{
    const json_t *place = json_object_get(entry, "data_offsets");
    const char *type = json_string_value(json_object_get(entry, "dtype"));
    uint64_t begin = 0, end = 0, n = 0;
    if (strlen(name) > GGUF_NAME_BYTES_MAX)
        return error_set(err, CERIUM_ERR_FORMAT, "%s: a tensor's name has more than %u bytes",
                         label, GGUF_NAME_BYTES_MAX);
    if (!type_of(type, &t->type))
        return error_set(err, CERIUM_ERR_FORMAT, "%s: tensor %s: type %s is not supported", label,
                         name, type ? type : "(none)");
    if (!get_shape(json_object_get(entry, "shape"), t, &n))
        return error_set(err, CERIUM_ERR_FORMAT, "%s: tensor %s: its shape is not supported", label,
                         name);
    bool has_place = json_is_array(place) && json_array_size(place) == 2 &&
                     get_size(json_array_get(place, 0), &begin) &&
                     get_size(json_array_get(place, 1), &end);
    if (!has_place || begin > end || end > data.len)
        return error_set(err, CERIUM_ERR_FORMAT,
                         "%s: tensor %s is not inside the file; download it again", label, name);
    if (end - begin != n * safe_type_bytes(t->type))
        return error_set(err, CERIUM_ERR_FORMAT,
                         "%s: tensor %s has %llu bytes, but its shape needs %llu", label, name,
                         (unsigned long long)(end - begin),
                         (unsigned long long)(n * safe_type_bytes(t->type)));
    t->data = (const uint8_t *)data.ptr + begin;
    t->size = (size_t)(end - begin);
    t->name = memory_copy(name, strlen(name));
    return t->name ? CERIUM_OK : error_set(err, CERIUM_ERR_MEMORY, "%s: no memory", label);
}

int safetensor_compare(const void *a, const void *b)
{
    return strcmp(((const safetensor *)a)->name, ((const safetensor *)b)->name);
}

static int read_all(safetensors *out, json_t *root, view data, const char *label,
                    cerium_error *err)
{
    const char *name;
    json_t *entry;
    size_t n = json_object_size(root);
    if (n > SAFETENSORS_MAX)
        return error_set(err, CERIUM_ERR_FORMAT, "%s: more than %u tensors", label,
                         SAFETENSORS_MAX);
    out->tensors = memory_zalloc(n, sizeof *out->tensors);
    if (!out->tensors) return error_set(err, CERIUM_ERR_MEMORY, "%s: no memory", label);
    json_object_foreach(root, name, entry) {
        if (!strcmp(name, "__metadata__")) continue;
        RETURN_IF(read_tensor(&out->tensors[out->n], name, entry, data, label, err));
        out->n++;
    }
    qsort(out->tensors, out->n, sizeof *out->tensors, safetensor_compare);
    return CERIUM_OK;
}

int safetensors_parse(safetensors *out, view file, const char *label, cerium_error *err)
{
    uint64_t len = 0;
    json_error_t at;
    *out = (safetensors){0};
    for (size_t i = 0; i < LENGTH_BYTES && i < file.len; i++)
        len |= (uint64_t)(uint8_t)file.ptr[i] << 8 * i;
    if (file.len < LENGTH_BYTES || len > file.len - LENGTH_BYTES || len > SAFETENSORS_HEADER_MAX)
        return error_set(err, CERIUM_ERR_FORMAT,
                         "%s: not a safetensors file, or cut short; download it again", label);
    json_t *root =
        json_read((view){file.ptr + LENGTH_BYTES, (size_t)len},
                  JSON_REJECT_DUPLICATES | JSON_READ_PYTHON, &at);
    if (!json_is_object(root)) {
        json_decref(root);
        return error_set(err, CERIUM_ERR_FORMAT, "%s: its header is not a JSON object", label);
    }
    view data = {file.ptr + LENGTH_BYTES + len, file.len - LENGTH_BYTES - (size_t)len};
    int status = read_all(out, root, data, label, err);
    json_decref(root);
    if (status) safetensors_free(out);
    return status;
}

void safetensors_free(safetensors *s)
{
    for (size_t i = 0; i < s->n; i++) memory_free((char *)(uintptr_t)s->tensors[i].name);
    memory_free(s->tensors);
    *s = (safetensors){0};
}

const safetensor *safetensors_find(const safetensors *s, const char *name)
{
    const safetensor key = {.name = name};
    return s->n ? bsearch(&key, s->tensors, s->n, sizeof key, safetensor_compare) : NULL;
}

/* ---- values ---- */

static float f8_e4m3_to_f32(uint8_t x)
{
    const int exponent = x >> 3 & 15, mantissa = x & 7;
    float value = exponent ? ldexpf(1.0f + (float)mantissa / 8.0f, exponent - 7)
                           : ldexpf((float)mantissa, -9);
    if ((x & 0x7F) == 0x7F) value = NAN;
    return x & 0x80 ? -value : value;
}

void safetensor_values(const safetensor *t, uint64_t first, uint64_t step, float *out, size_t n)
{
    const size_t size = safe_type_bytes(t->type);
    const uint8_t *p = t->data + first * size;
    for (size_t i = 0; i < n; i++, p += step * size) {
        uint16_t half;
        switch (t->type) {
        case SAFE_F32: memcpy(&out[i], p, sizeof *out); break;
        case SAFE_F16:
            memcpy(&half, p, sizeof half);
            out[i] = f16_to_f32(half);
            break;
        case SAFE_BF16:
            memcpy(&half, p, sizeof half);
            out[i] = bf16_to_f32(half);
            break;
        case SAFE_F8_E4M3: out[i] = f8_e4m3_to_f32(*p); break;
        case SAFE_U8: out[i] = *p; break;
        case SAFE_I64:
        case SAFE_BOOL: out[i] = (float)safetensor_integer(t, first + i * step); break;
        case SAFE_FP4: break; /* safe_type_bytes() */
        }
    }
}

int64_t safetensor_integer(const safetensor *t, uint64_t i)
{
    int64_t value;
    CHECK(t->type == SAFE_I64 || t->type == SAFE_U8 || t->type == SAFE_BOOL);
    if (t->type == SAFE_BOOL) return t->data[i] != 0;
    if (t->type == SAFE_U8) return t->data[i];
    memcpy(&value, t->data + i * sizeof value, sizeof value);
    return value;
}
