/* fuzz_drafter.c - any bytes as a drafter's config.json and, after a NUL, its safetensors: what is
 * planned is inside the file, its tokens are the model's, each once, and its rows can be made. */
#include "base/memory.h"
#include "convert/convert.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { ROW_MAX = 4096, ROWS_MAX = 64 };

static void check_tokens(const int64_t *tokens, uint64_t n, uint32_t n_vocab)
{
    for (uint64_t i = 0; i < n; i++) {
        CHECK(tokens[i] >= 0 && tokens[i] < n_vocab);
        for (uint64_t k = 0; k < i; k++) CHECK(tokens[k] != tokens[i]);
    }
}

static void make_rows(const convert_tensor *t, const convert_config *c, const safetensors *set)
{
    static float values[2 * ROW_MAX];
    static uint64_t row[ROW_MAX];
    cerium_error err = {0};
    if (t->dims[0] > ROW_MAX || t->dims[1] > ROWS_MAX) return;
    for (uint64_t r = 0; r < t->dims[1]; r++) {
        const int status = convert_rows(t, c, set, r, 1, (uint8_t *)row, values, &err);
        CHECK(!status || (status == CERIUM_ERR_FORMAT && err.message[0]));
        if (t->rows == ROWS_TOKENS)
            check_tokens((const int64_t *)row, t->dims[0] < 512 ? t->dims[0] : 512, c->n_vocab);
    }
}

static void plan(convert_config c, const safetensors *set, const convert_target *target)
{
    convert_tensor *tensors = NULL;
    cerium_error err = {0};
    size_t n = 0;
    int status = convert_complete_drafter(&c, set, target, &err);
    if (!status) {
        CHECK(c.drafter.n_layers > 0 && c.drafter.n_layers <= CONVERT_READ_MAX);
        status = convert_plan_drafter(&tensors, &n, &c, set, NULL, &err);
    }
    CHECK((status == 0) == (tensors != NULL));
    CHECK(!status || (status == CERIUM_ERR_FORMAT && err.message[0]));
    for (size_t i = 0; i < n; i++) make_rows(&tensors[i], &c, set);
    memory_free(tensors);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const long live = memory_live();
    const uint8_t *end = size ? memchr(data, 0, size) : NULL;
    const size_t len = end ? (size_t)(end - data) : size;
    const view file = {(const char *)data + len + (end != NULL), size - len - (end != NULL)};
    const convert_target target = {.n_layers = 12, .n_embd = 8, .is_gemma = true};
    convert_config c;
    safetensors set;
    cerium_error err = {0};
    if (convert_config_parse(&c, (view){(const char *)data, len}, &err)) return 0;
    if (!convert_is_drafter(&c) || safetensors_parse(&set, file, "fuzz", &err)) return 0;
    plan(c, &set, NULL);
    plan(c, &set, &target);
    safetensors_free(&set);
    CHECK(memory_live() == live);
    return 0;
}
