/* gguf_values.c - metadata values as numbers: conversions from the file's types. */
#include "gguf/gguf.h"
#include "gguf/part.h"

static bool is_integer(gguf_value_type type)
{
    switch (type) {
    case GGUF_UINT8:
    case GGUF_INT8:
    case GGUF_UINT16:
    case GGUF_INT16:
    case GGUF_UINT32:
    case GGUF_INT32:
    case GGUF_UINT64:
    case GGUF_INT64:
        return true;
    case GGUF_FLOAT32:
    case GGUF_FLOAT64:
    case GGUF_BOOL:
    case GGUF_STRING:
    case GGUF_ARRAY:
        return false;
    }
    return false;
}

/* A float as an integer: towards zero, the nearest bound outside the range, 0 for a NaN. */
static int64_t clamp_i64(double x)
{
    if (x != x) return 0;
    if (x >= 0x1p63) return INT64_MAX;
    return x <= -0x1p63 ? INT64_MIN : (int64_t)x;
}

/* Item i of packed values of a fixed size. memcpy: a file aligns nothing. */
static int64_t load_i64(gguf_value_type type, const uint8_t *data, uint64_t i)
{
    union {
        uint8_t u8;
        int8_t i8;
        uint16_t u16;
        int16_t i16;
        uint32_t u32;
        int32_t i32;
        uint64_t u64;
        int64_t i64;
        float f32;
        double f64;
    } v;
#define LOAD(member) (memcpy(&v.member, data + i * sizeof v.member, sizeof v.member), v.member)
    /* clang-format off */
    switch (type) {
    case GGUF_UINT8:
    case GGUF_BOOL: return LOAD(u8);
    case GGUF_INT8: return LOAD(i8);
    case GGUF_UINT16: return LOAD(u16);
    case GGUF_INT16: return LOAD(i16);
    case GGUF_UINT32: return LOAD(u32);
    case GGUF_INT32: return LOAD(i32);
    case GGUF_UINT64: return (int64_t)LOAD(u64);
    case GGUF_INT64: return LOAD(i64);
    case GGUF_FLOAT32: return clamp_i64(LOAD(f32));
    case GGUF_FLOAT64: return clamp_i64(LOAD(f64));
    case GGUF_STRING:
    case GGUF_ARRAY: break;
    }
    /* clang-format on */
#undef LOAD
    CHECK(!"a number");
    return 0;
}

static double load_f64(gguf_value_type type, const uint8_t *data, uint64_t i)
{
    float f32;
    double f64;
    if (type == GGUF_FLOAT32) return memcpy(&f32, data + i * sizeof f32, sizeof f32), f32;
    if (type == GGUF_FLOAT64) return memcpy(&f64, data + i * sizeof f64, sizeof f64), f64;
    int64_t value = load_i64(type, data, i);
    return type == GGUF_UINT64 ? (double)(uint64_t)value : (double)value;
}

bool gguf_value_u64(const gguf_value *value, uint64_t *out)
{
    if (!value || !is_integer(value->type)) return false;
    int64_t x = load_i64(value->type, value->data, 0);
    if (x < 0 && value->type != GGUF_UINT64) return false;
    *out = (uint64_t)x;
    return true;
}

bool gguf_value_f32(const gguf_value *value, float *out)
{
    if (!value || (!is_integer(value->type) && value->type != GGUF_FLOAT32 &&
                   value->type != GGUF_FLOAT64))
        return false;
    *out = (float)load_f64(value->type, value->data, 0);
    return true;
}

int64_t gguf_item_i64(const gguf_value *array, uint64_t i)
{
    CHECK(array->type == GGUF_ARRAY && i < array->n_items);
    return load_i64(array->item_type, array->data, i);
}

double gguf_item_f64(const gguf_value *array, uint64_t i)
{
    CHECK(array->type == GGUF_ARRAY && i < array->n_items);
    return load_f64(array->item_type, array->data, i);
}
