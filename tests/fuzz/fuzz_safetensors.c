/* fuzz_safetensors.c - any bytes as a safetensors file: every tensor lies inside it. */
#include "base/memory.h"
#include "gguf/safetensors.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

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
    }
    safetensors_free(&s);
    CHECK(memory_live() == live);
    return 0;
}
