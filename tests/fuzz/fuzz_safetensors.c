/* fuzz_safetensors.c - any bytes as a safetensors file: every tensor lies inside it, and so does
 * what a matrix in NVFP4 is made of. */
#include "base/memory.h"
#include "convert/convert_fp4.h"
#include "gguf/safetensors.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The last row of each such matrix, as values and as blocks. */
static void read_fp4(const safetensors *s)
{
    enum { COLUMNS_MAX = 4096 };
    static float values[COLUMNS_MAX];
    static uint8_t blocks[COLUMNS_MAX];
    cerium_error err = {0};
    char *names = NULL;
    safetensors set = {.tensors = memory_alloc((s->n + 1) * sizeof *s->tensors), .n = s->n};
    CHECK(set.tensors);
    if (s->n) memcpy(set.tensors, s->tensors, s->n * sizeof *s->tensors);
    int status = convert_find_fp4(&set, &names, &err);
    CHECK(!status || (status == CERIUM_ERR_FORMAT && err.message[0]));
    for (size_t i = 0; i < set.n && !status; i++) {
        const safetensor *t = &set.tensors[i];
        const uint64_t n = t->dims[1], last = t->dims[0] - 1;
        if (t->type != SAFE_FP4 || n > COLUMNS_MAX) continue;
        CHECK(t->dims[0] * n / 2 == t->size);
        int read = convert_fp4_values(&set, t, last, n, values, &err);
        CHECK(!read || (read == CERIUM_ERR_FORMAT && err.message[0]));
        if (!read && n % 64 == 0) CHECK(!convert_fp4_blocks(&set, t, last, n, NULL, blocks, &err));
    }
    memory_free(names);
    memory_free(set.tensors);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    long live = memory_live();
    safetensors s;
    cerium_error err = {0};
    volatile float sum = 0;
    int status = safetensors_parse(&s, (view){(const char *)data, size}, "fuzz.safetensors", &err);
    CHECK(!status || (status == CERIUM_ERR_FORMAT && err.message[0] && s.n == 0));
    for (size_t i = 0; i < s.n; i++) {
        const safetensor *t = &s.tensors[i];
        const size_t n = t->size / safe_type_bytes(t->type);
        float values[64];
        CHECK(t->data >= data && t->data + t->size <= data + size);
        CHECK(t->dims[0] * t->dims[1] * t->dims[2] * t->dims[3] == n);
        CHECK(safetensors_find(&s, t->name) != NULL);
        safetensor_values(t, n > 64 ? n - 64 : 0, 1, values, n < 64 ? n : 64);
        for (size_t k = 0; k < n && k < 64; k++) sum += values[k] > 0 ? 1.0f : 0.0f;
        if (safe_type_is_whole(t->type)) sum += safetensor_integer(t, n - 1) ? 1.0f : 0.0f;
    }
    CHECK(sum >= 0); /* every value was read */
    if (!status) read_fp4(&s);
    safetensors_free(&s);
    CHECK(memory_live() == live);
    return 0;
}
