/* gguf_parse.c - parses the bytes of one GGUF file into checked metadata and tensors.
 *
 * A pure function over {ptr, len}: it opens nothing and trusts nothing.  Every count is compared
 * with the remaining bytes before memory is taken for it. */
#include "gguf/part.h"

#include "base/memory.h"

/* ---- names ---- */

/* FNV-1a with a final mix, since slots are chosen by the low bits. */
static uint32_t name_hash(view name)
{
    uint64_t h = UINT64_C(0xcbf29ce484222325);
    for (size_t i = 0; i < name.len; i++) h = (h ^ (uint8_t)name.ptr[i]) * UINT64_C(0x100000001b3);
    return (uint32_t)(h ^ h >> 32 ^ h >> 47);
}

int name_table_open(name_table *table, size_t n_max)
{
    CHECK(n_max <= GGUF_TENSORS_MAX || n_max <= GGUF_VALUES_MAX);
    uint32_t n_slots = 8;
    while (n_slots < n_max * 2) n_slots *= 2; /* at most half full: a search always ends */
    uint32_t *slots = memory_zalloc(n_slots, sizeof *slots);
    if (!slots) return CERIUM_ERR_MEMORY;
    table->slots = slots;
    table->mask = n_slots - 1;
    return CERIUM_OK;
}

void name_table_close(name_table *table)
{
    memory_free(table->slots);
    *table = (name_table){0};
}

/* The slot that holds name, or the free one where it belongs. */
static uint32_t *name_slot(const name_table *table, const void *items, size_t stride, view name)
{
    uint32_t at = name_hash(name) & table->mask;
    for (;; at = (at + 1) & table->mask) {
        uint32_t item = table->slots[at];
        if (item == 0) return &table->slots[at];
        const view *other = (const void *)((const uint8_t *)items + (item - 1) * stride);
        if (view_equal(*other, name)) return &table->slots[at];
    }
}

size_t name_table_find(const name_table *table, const void *items, size_t stride, view name)
{
    if (!table->slots) return SIZE_MAX;
    uint32_t item = *name_slot(table, items, stride, name);
    return item ? item - 1 : SIZE_MAX;
}

bool name_table_add(name_table *table, const void *items, size_t stride, size_t i)
{
    const view *name = (const void *)((const uint8_t *)items + i * stride);
    uint32_t *slot = name_slot(table, items, stride, *name);
    if (*slot) return false;
    *slot = (uint32_t)i + 1;
    return true;
}

/* ---- reading ---- */

typedef struct {
    gguf_part *part;
    size_t at; /* next byte */
    cerium_error *err;
} parser;

/* A message that begins with the file's name. */
__attribute__((format(printf, 2, 3))) static int refuse(const parser *p, const char *format, ...)
{
    char text[sizeof p->err->message];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    return error_set(p->err, CERIUM_ERR_FORMAT, "%s: %s", p->part->label, text);
}

static int out_of_memory(const parser *p)
{
    return error_set(p->err, CERIUM_ERR_MEMORY, "%s: out of memory", p->part->label);
}

static int truncated(const parser *p, const char *what)
{
    return refuse(p, "the file ends inside %s at byte %zu; download it again", what, p->at);
}

static size_t left(const parser *p)
{
    return p->part->len - p->at;
}

static int read_bytes(parser *p, const char *what, void *out, size_t n)
{
    if (left(p) < n) return truncated(p, what);
    memcpy(out, p->part->ptr + p->at, n);
    p->at += n;
    return CERIUM_OK;
}

static int read_u32(parser *p, const char *what, uint32_t *out)
{
    return read_bytes(p, what, out, sizeof *out);
}

static int read_u64(parser *p, const char *what, uint64_t *out)
{
    return read_bytes(p, what, out, sizeof *out);
}

static int read_string(parser *p, const char *what, uint64_t len_max, view *out)
{
    uint64_t len = 0;
    RETURN_IF(read_u64(p, what, &len));
    if (len > len_max)
        return refuse(p, "%s at byte %zu is %llu bytes long; the limit is %llu", what, p->at,
                      (unsigned long long)len, (unsigned long long)len_max);
    if (len > left(p)) return truncated(p, what);
    *out = (view){(const char *)p->part->ptr + p->at, len};
    p->at += len;
    return CERIUM_OK;
}

/* ---- metadata ---- */

size_t gguf_value_bytes(uint32_t type)
{
    static const uint8_t sizes[] = {
        [GGUF_UINT8] = 1,  [GGUF_INT8] = 1,  [GGUF_UINT16] = 2,  [GGUF_INT16] = 2,
        [GGUF_UINT32] = 4, [GGUF_INT32] = 4, [GGUF_FLOAT32] = 4, [GGUF_BOOL] = 1,
        [GGUF_UINT64] = 8, [GGUF_INT64] = 8, [GGUF_FLOAT64] = 8,
    };
    return type < ARRAY_LEN(sizes) ? sizes[type] : 0;
}

static int check_bools(const parser *p, const gguf_value *value)
{
    for (size_t i = 0; i < value->data_len; i++)
        if (value->data[i] > 1)
            return refuse(p, "key %.*s: a boolean is %u, not 0 or 1", (int)value->key.len,
                          value->key.ptr, value->data[i]);
    return CERIUM_OK;
}

static int read_fixed(parser *p, gguf_value *value, gguf_value_type type, uint64_t n)
{
    size_t size = gguf_value_bytes(type);
    CHECK(size != 0);
    if (n > left(p) / size) return truncated(p, "a metadata value");
    value->data = p->part->ptr + p->at;
    value->data_len = size * n;
    p->at += value->data_len;
    return type == GGUF_BOOL ? check_bools(p, value) : CERIUM_OK;
}

static int read_string_array(parser *p, gguf_value *value)
{
    if (value->n_items > left(p) / sizeof(uint64_t)) return truncated(p, "an array of strings");
    view *strings = memory_alloc(value->n_items * sizeof *strings);
    if (!strings) return out_of_memory(p);
    value->strings = strings; /* from here on owned by the part */
    value->data = p->part->ptr + p->at;
    for (uint64_t i = 0; i < value->n_items; i++)
        RETURN_IF(read_string(p, "a string in an array", GGUF_STRING_BYTES_MAX, &strings[i]));
    value->data_len = (size_t)(p->part->ptr + p->at - value->data);
    return CERIUM_OK;
}

static int read_array(parser *p, gguf_value *value)
{
    uint32_t type = 0;
    RETURN_IF(read_u32(p, "an array", &type));
    RETURN_IF(read_u64(p, "an array", &value->n_items));
    int key_len = (int)value->key.len;
    if (type == GGUF_ARRAY)
        return refuse(p, "key %.*s: arrays of arrays are not supported", key_len, value->key.ptr);
    if (type != GGUF_STRING && gguf_value_bytes(type) == 0)
        return refuse(p, "key %.*s: array of unknown type %u", key_len, value->key.ptr, type);
    if (value->n_items > GGUF_ITEMS_MAX)
        return refuse(p, "key %.*s: %llu items; the limit is %u", key_len, value->key.ptr,
                      (unsigned long long)value->n_items, GGUF_ITEMS_MAX);
    value->item_type = type;
    if (type == GGUF_STRING) return read_string_array(p, value);
    return read_fixed(p, value, type, value->n_items);
}

static int read_value(parser *p, gguf_value *value)
{
    uint32_t type = 0;
    view text;
    RETURN_IF(read_string(p, "a metadata key", GGUF_KEY_BYTES_MAX, &value->key));
    if (value->key.len == 0) return refuse(p, "a metadata key before byte %zu is empty", p->at);
    RETURN_IF(read_u32(p, "a metadata type", &type));
    value->type = type;
    if (type == GGUF_ARRAY) return read_array(p, value);
    if (type == GGUF_STRING) {
        RETURN_IF(read_string(p, "a metadata string", GGUF_STRING_BYTES_MAX, &text));
        value->data = (const uint8_t *)text.ptr;
        value->data_len = text.len;
        return CERIUM_OK;
    }
    if (gguf_value_bytes(type) == 0)
        return refuse(p, "key %.*s: unknown value type %u", (int)value->key.len, value->key.ptr,
                      type);
    return read_fixed(p, value, type, 1);
}

static int read_values(parser *p, uint64_t n)
{
    gguf_part *part = p->part;
    part->values = memory_zalloc(n, sizeof *part->values);
    if (!part->values || name_table_open(&part->keys, n)) return out_of_memory(p);
    for (uint64_t i = 0; i < n; i++) {
        gguf_value *value = &part->values[i];
        part->n_values = i + 1; /* so that gguf_part_free() can free a half-read array */
        RETURN_IF(read_value(p, value));
        if (!name_table_add(&part->keys, part->values, sizeof *value, i))
            return refuse(p, "key %.*s occurs twice", (int)value->key.len, value->key.ptr);
    }
    return CERIUM_OK;
}

/* ---- tensors ---- */

/* Names of ggml types that cerium does not read, for error messages. */
static const char *unsupported_name(uint32_t type)
{
    static const char *const names[] = {
        [9] = "Q8_1", [15] = "Q8_K", [24] = "I8", [25] = "I16", [26] = "I32", [28] = "F64",
    };
    return type < ARRAY_LEN(names) && names[type] ? names[type] : "unknown";
}

#define BLOCK_TYPE_LIST(symbol, number, name, values, bytes) " " name
#define SUPPORTED_TYPES                                      BLOCK_WEIGHT_MAP(BLOCK_TYPE_LIST)

/* Shape to size; every product is checked. */
static int size_tensor(const parser *p, gguf_tensor *tensor, uint32_t id)
{
    block_type type;
    int name_len = (int)tensor->name.len;
    const char *name = tensor->name.ptr;
    uint64_t n = 1;
    for (uint32_t i = 0; i < tensor->n_dims; i++) {
        if (tensor->dims[i] == 0)
            return refuse(p, "tensor %.*s: dimension %u is 0", name_len, name, i);
        if (__builtin_mul_overflow(n, tensor->dims[i], &n) || n > GGUF_TENSOR_VALUES_MAX)
            return refuse(p, "tensor %.*s: its dimensions multiply to more than 2^48", name_len,
                          name);
    }
    if (!block_type_of_file_id(id, &type))
        return refuse(p, "tensor %.*s: type %u (%s) is not supported; supported are%s", name_len,
                      name, id, unsupported_name(id), SUPPORTED_TYPES);
    if (tensor->dims[0] % block_values(type) != 0)
        return refuse(p, "tensor %.*s: rows of %llu values are not a multiple of %s's block of %u",
                      name_len, name, (unsigned long long)tensor->dims[0], block_name(type),
                      block_values(type));
    tensor->type = type;
    CHECK(block_row_bytes(tensor->type, n, &tensor->size)); /* n is bounded above */
    return CERIUM_OK;
}

/* One entry of the table; *offset counts from the start of the data. */
static int read_tensor(parser *p, gguf_tensor *tensor, uint64_t *offset)
{
    uint32_t type = 0;
    RETURN_IF(read_string(p, "a tensor's name", GGUF_NAME_BYTES_MAX, &tensor->name));
    if (tensor->name.len == 0) return refuse(p, "a tensor's name before byte %zu is empty", p->at);
    RETURN_IF(read_u32(p, "the tensor table", &tensor->n_dims));
    if (tensor->n_dims < 1 || tensor->n_dims > 4)
        return refuse(p, "tensor %.*s: %u dimensions; from 1 to 4 are supported",
                      (int)tensor->name.len, tensor->name.ptr, tensor->n_dims);
    for (uint32_t i = 0; i < 4; i++) tensor->dims[i] = 1;
    for (uint32_t i = 0; i < tensor->n_dims; i++)
        RETURN_IF(read_u64(p, "the tensor table", &tensor->dims[i]));
    RETURN_IF(read_u32(p, "the tensor table", &type));
    RETURN_IF(read_u64(p, "the tensor table", offset));
    return size_tensor(p, tensor, type);
}

static int read_alignment(const parser *p, uint64_t *out)
{
    const gguf_value *value = gguf_part_find(p->part, VIEW("general.alignment"));
    uint64_t alignment = GGUF_ALIGNMENT;
    if (value && !gguf_value_u64(value, &alignment))
        return refuse(p, "key general.alignment is not an integer");
    if (alignment < GGUF_ALIGNMENT_MIN || alignment > GGUF_ALIGNMENT_MAX ||
        (alignment & (alignment - 1)) != 0)
        return refuse(p, "general.alignment is %llu; it must be a power of two from %u to %u",
                      (unsigned long long)alignment, GGUF_ALIGNMENT_MIN, GGUF_ALIGNMENT_MAX);
    *out = alignment;
    return CERIUM_OK;
}

/* Older files use this number for another Q2_0: a scale for 128 values, so fewer bytes. */
static int check_q2_0(const parser *p, const gguf_tensor *tensor, uint64_t room)
{
    if (tensor->type != BLOCK_Q2_0 || room >= tensor->size) return CERIUM_OK;
    return refuse(p,
                  "tensor %.*s: Q2_0 takes %zu bytes here, and there are %llu: older files with a "
                  "scale for 128 values are not read",
                  (int)tensor->name.len, tensor->name.ptr, tensor->size, (unsigned long long)room);
}

/* The place of each tensor's bytes, once the end of the table is known. */
static int place_tensors(const parser *p, const uint64_t *offsets, uint64_t alignment)
{
    gguf_part *part = p->part;
    size_t start = size_round_up(p->at, alignment);
    part->data_at = p->at;
    size_t data_len = start < part->len ? part->len - start : 0;
    if (part->is_head) data_len = GGUF_FILE_BYTES_MAX;
    part->whole = start;
    for (size_t i = 0; i < part->n_tensors; i++) {
        gguf_tensor *tensor = &part->tensors[i];
        if (offsets[i] % alignment != 0)
            return refuse(p, "tensor %.*s: offset %llu is not aligned to %llu",
                          (int)tensor->name.len, tensor->name.ptr, (unsigned long long)offsets[i],
                          (unsigned long long)alignment);
        const bool has_next = i + 1 < part->n_tensors && offsets[i + 1] > offsets[i];
        const uint64_t limit = has_next ? offsets[i + 1] : data_len;
        RETURN_IF(check_q2_0(p, tensor, limit > offsets[i] ? limit - offsets[i] : 0));
        if (offsets[i] > data_len || tensor->size > data_len - offsets[i])
            return refuse(p,
                          "tensor %.*s: its %zu bytes reach past the end of the file; download it "
                          "again",
                          (int)tensor->name.len, tensor->name.ptr, tensor->size);
        const uint64_t end = start + offsets[i] + tensor->size;
        if (end > part->whole) part->whole = end;
        if (!part->is_head) tensor->data = part->ptr + start + offsets[i];
    }
    return CERIUM_OK;
}

static int read_tensors(parser *p, uint64_t n)
{
    gguf_part *part = p->part;
    uint64_t alignment = GGUF_ALIGNMENT;
    int status = CERIUM_OK;
    RETURN_IF(read_alignment(p, &alignment));
    uint64_t *offsets = memory_zalloc(n, sizeof *offsets);
    part->tensors = memory_zalloc(n, sizeof *part->tensors);
    if (!offsets || !part->tensors) status = out_of_memory(p);
    for (uint64_t i = 0; i < n && !status; i++)
        status = read_tensor(p, &part->tensors[i], &offsets[i]);
    part->n_tensors = n;
    if (!status) status = place_tensors(p, offsets, alignment);
    memory_free(offsets);
    return status;
}

/* ---- the whole file ---- */

static int read_header(parser *p, uint64_t *n_tensors, uint64_t *n_values)
{
    enum { VALUE_BYTES_MIN = 8 + 1 + 4 + 1, TENSOR_BYTES_MIN = 8 + 1 + 4 + 8 + 4 + 8 };
    uint32_t version = 0;
    if (p->part->len < 4 || memcmp(p->part->ptr, "GGUF", 4) != 0)
        return refuse(p, "not a GGUF file: it does not begin with \"GGUF\"");
    p->at = 4;
    RETURN_IF(read_u32(p, "the header", &version));
    if (version == 1) return refuse(p, "GGUF version 1 is not supported; convert the model again");
    if ((version & 0xffff) == 0 && version != 0)
        return refuse(p, "a big-endian GGUF file; convert the model for little-endian machines");
    if (version != 2 && version != 3)
        return refuse(p, "GGUF version %u is not supported; supported are 2 and 3", version);
    p->part->version = version;
    RETURN_IF(read_u64(p, "the header", n_tensors));
    RETURN_IF(read_u64(p, "the header", n_values));
    if (*n_values > GGUF_VALUES_MAX || *n_values > left(p) / VALUE_BYTES_MIN)
        return refuse(p,
                      "the header counts %llu metadata keys; a file of %zu bytes cannot "
                      "(the limit is %u)",
                      (unsigned long long)*n_values, p->part->len, GGUF_VALUES_MAX);
    if (*n_tensors > GGUF_TENSORS_MAX || *n_tensors > left(p) / TENSOR_BYTES_MIN)
        return refuse(p,
                      "the header counts %llu tensors; a file of %zu bytes cannot (the limit "
                      "is %u)",
                      (unsigned long long)*n_tensors, p->part->len, GGUF_TENSORS_MAX);
    return CERIUM_OK;
}

int gguf_part_parse(gguf_part *part, cerium_error *err)
{
    CHECK(part->ptr && part->label && !part->values);
    parser p = {.part = part, .err = err};
    uint64_t n_tensors = 0, n_values = 0;
    int status = read_header(&p, &n_tensors, &n_values);
    if (!status) status = read_values(&p, n_values);
    if (!status) status = read_tensors(&p, n_tensors);
    if (status) gguf_part_free(part);
    return status;
}

void gguf_part_free(gguf_part *part)
{
    for (size_t i = 0; i < part->n_values; i++) memory_free((void *)part->values[i].strings);
    memory_free(part->values);
    memory_free(part->tensors);
    name_table_close(&part->keys);
    *part = (gguf_part){.label = part->label, .ptr = part->ptr, .len = part->len};
}

const gguf_value *gguf_part_find(const gguf_part *part, view key)
{
    size_t i = name_table_find(&part->keys, part->values, sizeof *part->values, key);
    return i == SIZE_MAX ? NULL : &part->values[i];
}
