/* fuzz_gguf.c - any bytes as a model file: open it, walk everything that its head declares, twice
 * with the same result. */
#include "base/memory.h"
#include "gguf/gguf.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static uint64_t sum; /* of every byte that may be read: a sanitizer watches the reads */

static void touch(const void *data, size_t size)
{
    const uint8_t *p = data;
    for (size_t i = 0; i < size; i++) sum = sum * 31 + p[i];
}

static void walk_value(const gguf_file *file, const gguf_value *value)
{
    uint64_t u;
    float f;
    bool b;
    view text;
    char *key = memory_copy(value->key.ptr, value->key.len);
    if (!key) return;
    touch(value->key.ptr, value->key.len);
    touch(value->data, value->data_len);
    if (strlen(key) == value->key.len) CHECK(gguf_find(file, key) == value);
    if (gguf_get_u64(file, key, &u)) sum += u;
    if (gguf_get_f32(file, key, &f)) touch(&f, sizeof f);
    if (gguf_get_bool(file, key, &b)) sum += b;
    if (gguf_get_string(file, key, &text)) touch(text.ptr, text.len);
    for (uint64_t i = 0; value->type == GGUF_ARRAY && i < value->n_items; i++) {
        if (value->strings) {
            touch(value->strings[i].ptr, value->strings[i].len);
        } else {
            double x = gguf_item_f64(value, i);
            touch(&x, sizeof x);
            sum += (uint64_t)gguf_item_i64(value, i);
        }
    }
    memory_free(key);
}

/* Decode a few blocks from an aligned copy: fuzzing engines align nothing. */
static void walk_tensor(const gguf_tensor *tensor)
{
    size_t n = block_values(tensor->type), n_rows = 1;
    float out[256];
    for (int i = 1; i < 4; i++) n_rows *= tensor->dims[i];
    size_t row;
    CHECK(tensor->n_dims >= 1 && tensor->n_dims <= 4 && tensor->name.len > 0);
    CHECK(block_row_bytes(tensor->type, tensor->dims[0], &row));
    CHECK(row * n_rows == tensor->size);
    touch(tensor->name.ptr, tensor->name.len);
    touch(tensor->data, tensor->size);
    for (size_t at = 0; at < tensor->size && at < 1024; at += block_bytes(tensor->type)) {
        void *block = memory_copy((const uint8_t *)tensor->data + at, block_bytes(tensor->type));
        if (!block) return;
        block_decode(tensor->type, out, block, n);
        touch(out, n * sizeof *out);
        memory_free(block);
    }
}

/* As a header alone: an accepted one is as long as it says, a refused one may be longer. */
static void measure(view head, bool opens)
{
    cerium_error err = {0};
    uint64_t whole = 0;
    const int status = gguf_whole_bytes(&whole, head, "fuzz.gguf", &err);
    CHECK(!status || (status == CERIUM_ERR_FORMAT && err.message[0]));
    if (opens) CHECK(!status);
    sum = sum * 31 + whole;
}

static int walk(view bytes_of_file)
{
    gguf_file *file = NULL;
    cerium_error err = {0};
    int status = gguf_open_bytes(&file, bytes_of_file, "fuzz.gguf", &err);
    CHECK((status == 0) == (file != NULL));
    measure(bytes_of_file, !status);
    if (status) {
        CHECK(status == CERIUM_ERR_FORMAT && err.status == status && err.message[0]);
        return status;
    }
    for (size_t i = 0; i < gguf_n_values(file); i++) walk_value(file, gguf_value_at(file, i));
    for (size_t i = 0; i < gguf_n_tensors(file); i++) walk_tensor(gguf_tensor_at(file, i));
    gguf_close(&file);
    return status;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    long live = memory_live();
    view file = {(const char *)data, size};
    sum = 0;
    int status = walk(file);
    uint64_t first = sum;
    sum = 0;
    CHECK(walk(file) == status && sum == first);
    CHECK(memory_live() == live);
    return 0;
}
