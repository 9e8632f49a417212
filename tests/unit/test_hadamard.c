/* test_hadamard.c - turned weights: the transform beside its matrix, both directions, and that no
 * key of the contract is taken for another. */
#include <math.h>

#include "base/memory.h"
#include "model/model.h"
#include "model/program.h"

#include "../random.h"
#include "unit.h"

enum { RUN_MAX = 1024 };

static float uniform(void) { return (float)random_below(1u << 24) / (float)(1 << 23) - 1.0f; }

/* H of row i and column j: 1 or -1 by the parity of the bits that both have. */
static double sign_at(uint32_t i, uint32_t j)
{
    return __builtin_popcount(i & j) % 2 ? -1 : 1;
}

static void test_matrix(void)
{
    static float x[RUN_MAX], y[RUN_MAX];
    for (uint32_t n = 1; n <= RUN_MAX; n *= 2) {
        for (uint32_t i = 0; i < n; i++) x[i] = y[i] = uniform();
        kernel_hadamard(y, n);
        for (uint32_t i = 0; i < n; i++) {
            double sum = 0;
            for (uint32_t j = 0; j < n; j++) sum += sign_at(i, j) * (double)x[j];
            const double error = fabs((double)y[i] - sum / sqrt(n));
            TEST_CHECK_THAT(error < 1e-5, "%u: value %u is off by %g", n, i, error);
        }
        kernel_hadamard(y, n);
        for (uint32_t i = 0; i < n; i++)
            TEST_CHECK_THAT(fabsf(y[i] - x[i]) < 1e-5f, "%u: it is its own inverse", n);
    }
}

/* Products stay when rows and inputs are turned alike; an embedding is turned back: its signs come
 * last. */
static void test_directions(void)
{
    enum { RUN = 64, COLS = 3 * RUN };
    static float signs[COLS], w[COLS], x[COLS], turned[COLS];
    const step_hadamard h = {.run = RUN, .signs = signs}, plain = {.run = RUN};
    double want = 0, got = 0;
    for (int i = 0; i < COLS; i++) {
        signs[i] = random_below(2) ? 1.0f : -1.0f;
        w[i] = uniform();
        x[i] = turned[i] = uniform();
        want += (double)w[i] * (double)x[i];
    }
    step_turn(&h, w, 0, COLS);
    for (uint32_t first = 0; first < COLS; first += RUN) /* run by run, as the passes do */
        step_turn(&h, turned + first, first, RUN);
    for (int i = 0; i < COLS; i++) got += (double)w[i] * (double)turned[i];
    TEST_CHECK_THAT(fabs(want - got) < 1e-4, "%g, not %g", got, want);
    step_turn_back(&h, turned, COLS);
    for (int i = 0; i < COLS; i++) TEST_CHECK(fabsf(turned[i] - x[i]) < 1e-5f);
    step_turn(&plain, turned, 0, COLS);
    step_turn_back(&plain, turned, COLS);
    for (int i = 0; i < COLS; i++) TEST_CHECK(fabsf(turned[i] - x[i]) < 1e-5f);
}

/* The fixture with `from` replaced once by as many bytes, `skip` bytes after where `key` ends. */
static int open_changed(const view file, const char *key, size_t skip, const void *to, size_t n,
                        cerium_error *err)
{
    gguf_file *f = NULL;
    model *m = NULL;
    char *copy = memory_copy(file.ptr, file.len);
    CHECK(copy);
    if (key) {
        char *at = memmem(copy, file.len, key, strlen(key));
        CHECK(at);
        memcpy(at + strlen(key) + skip, to, n);
    }
    int status = gguf_open_bytes(&f, (view){copy, file.len}, "changed.gguf", err);
    if (!status) status = model_open(&m, f, NULL, err);
    model_close(&m);
    gguf_close(&f);
    memory_free(copy);
    return status;
}

#define KEY "prism.hadamard."
/* Before a value are 4 bytes of its type; a string has 8 of its length, an array 4 of its items'
 * type and 8 of their number. */
enum { OF_NUMBER = 4, OF_STRING = 12, OF_ARRAY = 16, OF_STRINGS = 24 };

static void test_keys(void)
{
    static char whole[4 << 20];
    static const struct {
        const char *key, *to, *said;
        size_t skip, n;
    } changes[] = {
        {KEY "version", "\2", "version is 2; only 1 is supported", OF_NUMBER, 1},
        {KEY "versio", "x", "version is 0; only 1 is supported", 0, 1},
        {KEY "block_size", "\30", "block_size is 24; it must be a power of two", OF_NUMBER, 1},
        {KEY "block_size", "\200", "are not turned by prism.hadamard.block_size 128", OF_NUMBER, 1},
        {KEY "block_size", "\0", "block_size is 0", OF_NUMBER, 1},
        {KEY "transform", "N", "only 'normalized-sylvester-walsh-hadamard' is", OF_STRING, 1},
        {KEY "axis", "I", "only 'input-last-dimension' is supported", OF_STRING, 1},
        {KEY "sign_mode", "E", "only 'explicit' is supported", OF_STRING, 1},
        {KEY "sign_width", "x", "sign_widths is missing", 0, 1},
        {KEY "sign_widths", "\37", "more than the widths say", OF_ARRAY, 1},
        {KEY "sign_widths", "\377", "too few for the widths", OF_ARRAY, 1},
        {KEY "sign_values", "\3\0\0\0", "neither 1 nor -1", OF_ARRAY, 4},
        {KEY "sign_value", "x", "sign_values is missing", 0, 1},
        {KEY "weight_name", "x", "weight_names is missing", 0, 1},
        {KEY "weight_names", "blk.0.ssm_ag", "'blk.0.ssm_agkv.weight' cannot be turned",
         OF_STRINGS, 12},
        {KEY "weight_names", "blk.7", "tensor blk.7.attn_qkv.weight is missing", OF_STRINGS, 5},
        {KEY "inverse_weight_names", "x", "only token_embd.weight is supported", OF_STRINGS, 1},
    };
    cerium_error err = {.message = ""};
    FILE *f = fopen("tests/golden/fixtures/qwen35-turned.gguf", "rb");
    CHECK(f);
    const view file = {whole, fread(whole, 1, sizeof whole, f)};
    fclose(f);
    TEST_CHECK_THAT(open_changed(file, NULL, 0, NULL, 0, &err) == 0, "%s", err.message);
    for (size_t i = 0; i < ARRAY_LEN(changes); i++) {
        const int status = open_changed(file, changes[i].key, changes[i].skip, changes[i].to,
                                        changes[i].n, &err);
        TEST_CHECK_THAT(status == CERIUM_ERR_FORMAT && strstr(err.message, changes[i].said),
                        "%s: %d %s", changes[i].said, status, err.message);
    }
}

int main(void)
{
    TEST_RUN(test_matrix);
    TEST_RUN(test_directions);
    TEST_RUN(test_keys);
    return unit_report("hadamard");
}
