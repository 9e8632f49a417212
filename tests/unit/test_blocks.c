/* test_blocks.c - block formats against the vectors of an independent implementation, half
 * precision over all its values, and the error of encoding. */
#include "base/memory.h"
#include "gguf/blocks.h"
#include "gguf/finite.h"

#include <math.h>

#include "block_vectors.h"
#include "../random.h"
#include "unit.h"

static void check_decode(block_type type, const uint8_t *raw, size_t raw_len, const uint32_t *want,
                         size_t n)
{
    size_t size = 0;
    TEST_CHECK(block_row_bytes(type, n, &size) && size == raw_len);
    void *blocks = memory_copy(raw, raw_len);
    float *got = memory_alloc(n * sizeof *got);
    block_decode(type, got, blocks, n);
    for (size_t i = 0; i < n; i++) {
        uint32_t bits;
        memcpy(&bits, &got[i], sizeof bits);
        TEST_CHECK_THAT(bits == want[i], "%s value %zu is %08x, not %08x", block_name(type), i,
                        bits, want[i]);
    }
    memory_free(blocks);
    memory_free(got);
}

static void test_decode_is_exact(void)
{
#define CHECK_DECODE(type)                                                                         \
    check_decode(BLOCK_##type, blocks_##type, sizeof blocks_##type, values_##type,                 \
                 ARRAY_LEN(values_##type));
    BLOCK_VECTORS(CHECK_DECODE)
}

static void check_encode(block_type type, const uint8_t *want, size_t want_len)
{
    float row[ARRAY_LEN(vector_row)];
    size_t size = 0;
    memcpy(row, vector_row, sizeof row);
    TEST_CHECK(block_row_bytes(type, ARRAY_LEN(row), &size) && size == want_len);
    uint8_t *got = memory_alloc(size);
    block_encode(type, got, row, ARRAY_LEN(row));
    for (size_t i = 0; i < size; i++)
        TEST_CHECK_THAT(got[i] == want[i], "%s byte %zu is %02x, not %02x", block_name(type), i,
                        got[i], want[i]);
    memory_free(got);
}

static void test_encode_is_the_reference(void)
{
#define CHECK_ENCODE(type) check_encode(BLOCK_##type, encoded_##type, sizeof encoded_##type);
    ENCODED_VECTORS(CHECK_ENCODE)
}

/* Approximately normally distributed. */
static float vector_value(int i)
{
    uint32_t state = (uint32_t)i * 2654435761u + 7;
    int sum = 0;
    for (int k = 0; k < 8; k++) {
        state = state * 1664525 + 1013904223;
        sum += (int)(state >> 16) - 32768;
    }
    return (float)sum / 65536.0f;
}

/* Root of the mean squared error over that of the values themselves. */
static double encode_error(block_type type, const float *x, size_t n)
{
    size_t size = 0;
    double error = 0, power = 0;
    CHECK(block_row_bytes(type, n, &size));
    void *blocks = memory_alloc(size);
    float *back = memory_alloc(n * sizeof *back);
    block_encode(type, blocks, x, n);
    block_decode(type, back, blocks, n);
    for (size_t i = 0; i < n; i++) {
        error += ((double)back[i] - x[i]) * ((double)back[i] - x[i]);
        power += (double)x[i] * x[i];
    }
    memory_free(blocks);
    memory_free(back);
    return power > 0 ? sqrt(error / power) : sqrt(error);
}

/* clang-format off */
static const struct {
    block_type type;
    double error_max;
} error_bounds[] = {
    {BLOCK_F32, 0},       {BLOCK_F16, 3e-4},    {BLOCK_BF16, 3e-3},   {BLOCK_Q4_0, 0.10},
    {BLOCK_Q4_1, 0.09},   {BLOCK_Q5_0, 0.05},   {BLOCK_Q5_1, 0.045},  {BLOCK_Q8_0, 7e-3},
    {BLOCK_Q4_K, 0.10},   {BLOCK_Q5_K, 0.05},   {BLOCK_Q6_K, 0.025},  {BLOCK_IQ4_NL, 0.10},
    {BLOCK_IQ4_XS, 0.10}, {BLOCK_MXFP4, 0.16},  {BLOCK_Q4_W, 0.105},  {BLOCK_Q8_W, 7e-3},
    {BLOCK_Q3_K, 0.24},   {BLOCK_TQ1_0, 0.8},   {BLOCK_TQ2_0, 0.8},
};
/* clang-format on */

/* x[n], approximately normally distributed. */
static void normal(float *x, int n)
{
    uint32_t state = 7;
    for (int i = 0; i < n; i++) {
        int sum = 0;
        for (int k = 0; k < 8; k++) {
            state = state * 1664525 + 1013904223;
            sum += (int)(state >> 16) - 32768;
        }
        x[i] = (float)sum / 65536.0f;
    }
}

static void test_encode_errors(void)
{
    enum { N = 4096 };
    static float x[N];
    normal(x, N);
    int n_types = 0;
#define COUNT_TYPE(symbol, id, name, values, bytes) n_types += block_is_written(symbol);
    BLOCK_TYPE_MAP(COUNT_TYPE)
    TEST_CHECK(n_types == (int)ARRAY_LEN(error_bounds));
    for (size_t i = 0; i < ARRAY_LEN(error_bounds); i++) {
        double error = encode_error(error_bounds[i].type, x, N);
        TEST_CHECK_THAT(error <= error_bounds[i].error_max, "%s: %g",
                        block_name(error_bounds[i].type), error);
    }
}

/* A search loses no more than the simple rule, far less where the rule is bad; the other types get
 * the same bytes. */
static void test_search(void)
{
    enum { N = 2048 };
    static float x[N], weights[N], back[N];
    for (int i = 0; i < N; i++) x[i] = vector_value(i) * (i % 97 == 0 ? 2.5f : 1.0f);
    for (size_t t = 0; t < ARRAY_LEN(error_bounds); t++) {
        block_type type = error_bounds[t].type;
        size_t size = 0;
        double simple = 0, searched = 0, half[2] = {0, 0};
        CHECK(block_row_bytes(type, N, &size));
        uint8_t *a = memory_alloc(size), *b = memory_alloc(size);
        block_encode(type, a, x, N);
        block_quantize(type, b, x, N, NULL);
        block_decode(type, back, a, N);
        for (int i = 0; i < N; i++) simple += pow((double)back[i] - (double)x[i], 2);
        block_decode(type, back, b, N);
        for (int i = 0; i < N; i++) searched += pow((double)back[i] - (double)x[i], 2);
        for (int i = 0; i < N; i++) half[0] += i % 2 ? pow((double)back[i] - (double)x[i], 2) : 0;
        bool has_search = type == BLOCK_Q3_K || type == BLOCK_Q4_K || type == BLOCK_Q5_K ||
                          type == BLOCK_Q6_K || type == BLOCK_IQ4_NL || type == BLOCK_IQ4_XS ||
                          type == BLOCK_Q4_W;
        TEST_CHECK_THAT(has_search ? searched < 0.95 * simple : memcmp(a, b, size) == 0,
                        "%s: %g of %g", block_name(type), searched, simple);
        /* Columns with large weights gain what the others lose. */
        for (int i = 0; i < N; i++) weights[i] = i % 2 ? 1.0f : 0.01f;
        block_quantize(type, b, x, N, weights);
        block_decode(type, back, b, N);
        for (int i = 0; i < N; i++) half[1] += i % 2 ? pow((double)back[i] - (double)x[i], 2) : 0;
        bool has_weights = has_search || type == BLOCK_Q4_0 || type == BLOCK_Q4_1 ||
                           type == BLOCK_Q5_0 || type == BLOCK_Q5_1;
        if (has_weights) TEST_CHECK_THAT(half[1] < half[0], "%s: %g", block_name(type), half[1]);
        memory_free(a);
        memory_free(b);
    }
}

/* With equal weights a search is no worse than the rule, also for values of one sign. */
static void test_weighted_search(void)
{
    static const block_type types[] = {BLOCK_Q4_0, BLOCK_Q4_1, BLOCK_Q5_0, BLOCK_Q5_1};
    enum { N = 1024 };
    static float x[N], ones[N], back[N];
    for (int i = 0; i < N; i++) ones[i] = 1.0f;
    for (int shift = -1; shift <= 1; shift++) {
        for (int i = 0; i < N; i++) x[i] = vector_value(i) + 9.0f * (float)shift;
        for (size_t t = 0; t < ARRAY_LEN(types); t++) {
            size_t size = 0;
            double loss[2] = {0, 0};
            CHECK(block_row_bytes(types[t], N, &size));
            uint8_t *blocks = memory_alloc(size);
            for (int k = 0; k < 2; k++) {
                block_quantize(types[t], blocks, x, N, k ? ones : NULL);
                block_decode(types[t], back, blocks, N);
                for (int i = 0; i < N; i++) loss[k] += pow((double)back[i] - (double)x[i], 2);
            }
            TEST_CHECK_THAT(loss[1] <= loss[0] * 1.001, "%s %d: %g of %g", block_name(types[t]),
                            shift, loss[1], loss[0]);
            memory_free(blocks);
        }
    }
}

/* Types with few levels keep large values better than equal weights do. */
static void test_large_values(void)
{
    static const block_type types[] = {BLOCK_IQ4_NL, BLOCK_IQ4_XS, BLOCK_Q4_W, BLOCK_Q3_K};
    enum { N = 1 << 12 };
    static float x[N], ones[N], back[N];
    normal(x, N);
    for (int i = 0; i < N; i++) ones[i] = 1.0f;
    for (size_t t = 0; t < ARRAY_LEN(types); t++) {
        size_t size = 0;
        double loss[2] = {0, 0}, plain[2] = {0, 0};
        CHECK(block_row_bytes(types[t], N, &size));
        uint8_t *blocks = memory_alloc(size);
        for (int k = 0; k < 2; k++) {
            block_quantize(types[t], blocks, x, N, k ? ones : NULL);
            block_decode(types[t], back, blocks, N);
            for (int i = 0; i < N; i++) {
                const double apart = pow((double)back[i] - (double)x[i], 2);
                loss[k] += apart * pow((double)x[i], 2);
                plain[k] += apart;
            }
        }
        TEST_CHECK_THAT(loss[0] < loss[1] * 0.9, "%s: %g of %g", block_name(types[t]), loss[0],
                        loss[1]);
        TEST_CHECK_THAT(plain[0] < plain[1] * 1.5, "%s: %g of %g", block_name(types[t]), plain[0],
                        plain[1]);
        memory_free(blocks);
    }
}

/* Small scales and minima are rounded together: rounded one by one, the error is 2
 * and 6 % larger. */
static void test_weighted_superblocks(void)
{
    static const struct {
        block_type type;
        double error_max;
    } types[] = {{BLOCK_Q4_K, 0.0608}, {BLOCK_Q5_K, 0.0312}};
    enum { N = 1 << 14, COLS = 1024 };
    static float x[N], weights[COLS], back[N];
    normal(x, N);
    random_state = 3;
    for (int i = 0; i < COLS; i++) weights[i] = (float)(1u << random_below(8));
    for (size_t t = 0; t < ARRAY_LEN(types); t++) {
        size_t size = 0;
        double error = 0, power = 0;
        CHECK(block_row_bytes(types[t].type, COLS, &size));
        uint8_t *blocks = memory_alloc(size);
        for (int row = 0; row < N; row += COLS) {
            block_quantize(types[t].type, blocks, x + row, COLS, weights);
            block_decode(types[t].type, back, blocks, COLS);
            for (int i = 0; i < COLS; i++) {
                error += (double)weights[i] * pow((double)back[i] - (double)x[row + i], 2);
                power += (double)weights[i] * pow((double)x[row + i], 2);
            }
        }
        TEST_CHECK_THAT(sqrt(error / power) < types[t].error_max, "%s: %g",
                        block_name(types[t].type), sqrt(error / power));
        memory_free(blocks);
    }
}

static void test_encode_survives_anything(void)
{
    float rows[][256] = {{0}, {0}, {0}, {0}, {0}};
    for (int i = 0; i < 256; i++) {
        rows[1][i] = NAN;
        rows[2][i] = i % 2 ? INFINITY : -INFINITY;
        rows[3][i] = i % 2 ? 3e38f : -3e38f;
        rows[4][i] = (float)i * 1e-44f;
    }
    for (size_t r = 0; r < ARRAY_LEN(rows); r++)
        for (size_t i = 0; i < ARRAY_LEN(error_bounds); i++) {
            uint8_t blocks[2048];
            block_quantize(error_bounds[i].type, blocks, rows[r], 256, NULL);
            double error = encode_error(error_bounds[i].type, rows[r], 256);
            if (r == 0) TEST_CHECK_THAT(error == 0, "%s", block_name(error_bounds[i].type));
        }
}

/* An infinite or NaN scale or value is found in any block; quants may be anything. */
static void test_finite(void)
{
    enum { VALUES = 1024 };
    float values[VALUES];
    uint8_t blocks[VALUES * sizeof(int64_t)];
    for (int type = 0; type < BLOCK_TYPE_END; type++) {
        const uint32_t size = block_bytes((uint32_t)type), n = block_values((uint32_t)type);
        if (!size) continue;
        for (size_t i = 0; i < VALUES; i++) values[i] = (float)i * 1e-3f - 0.5f;
        if (block_is_written((block_type)type))
            block_encode((block_type)type, blocks, values, VALUES);
        else
            memset(blocks, 0, sizeof blocks);
        TEST_CHECK_THAT(block_is_finite((block_type)type, blocks, VALUES), "%s",
                        block_name((uint32_t)type));
        /* Each byte in turn: blocks that decode to non-finite values are refused, and no others. */
        for (size_t at = 0; at < 2 * size; at++)
            for (int k = 0; k < 6; k++) {
                static const uint8_t put[] = {0xff, 0x7f, 0x7c, 0xfe, 0xfd, 0xfc};
                uint8_t *last = blocks + (VALUES / n - 2) * size, was = last[at];
                bool good = true;
                last[at] = put[k];
                block_decode((block_type)type, values, blocks, VALUES);
                for (size_t i = 0; i < VALUES; i++) good = good && isfinite(values[i]);
                /* A NaN of E4M3, of which ggml makes a number. */
                if (type == BLOCK_NVFP4 && at % size < 4) good = good && (put[k] & 0x7f) != 0x7f;
                TEST_CHECK_THAT(block_is_finite((block_type)type, blocks, VALUES) == good,
                                "%s byte %zu is %02x", block_name((uint32_t)type), at, put[k]);
                last[at] = was;
            }
    }
}

static void test_f16_round_trip(void)
{
    for (uint32_t h = 0; h < 65536; h++) {
        float f = f16_to_f32((uint16_t)h);
        TEST_CHECK_THAT(f32_to_f16(f) == h, "%04x", h);
        bool nan = (h & 0x7c00) == 0x7c00 && (h & 0x3ff);
        TEST_CHECK((f != f) == nan);
        f = bf16_to_f32((uint16_t)h);
        if (f == f) TEST_CHECK_THAT(f32_to_bf16(f) == h, "%04x", h);
    }
}

/* Every scale of NVFP4. */
static void test_ue4m3(void)
{
    for (uint32_t e = 0; e < 256; e++) {
        const float f = ue4m3_half_to_f32((uint8_t)e);
        TEST_CHECK_THAT(memcmp(&f, ue4m3_half_values + e, sizeof f) == 0, "%02x", e);
    }
}

/* Between two neighbouring halves: below the middle, the middle itself (to even), above it. */
static void test_f16_rounding(void)
{
    for (uint32_t h = 0; h < 0x7bff; h++) {
        float low = f16_to_f32((uint16_t)h), high = f16_to_f32((uint16_t)(h + 1));
        float middle = low + (high - low) * 0.5f;
        uint32_t even = h & 1 ? h + 1 : h;
        TEST_CHECK_THAT(f32_to_f16(middle) == even, "%04x", h);
        TEST_CHECK_THAT(f32_to_f16(nextafterf(middle, 0.0f)) == h, "%04x", h);
        TEST_CHECK_THAT(f32_to_f16(nextafterf(middle, INFINITY)) == h + 1, "%04x", h);
        TEST_CHECK_THAT(f32_to_f16(-middle) == (0x8000 | even), "%04x", h);
    }
    TEST_CHECK(f32_to_f16(65519.996f) == 0x7bff);
    TEST_CHECK(f32_to_f16(65520.0f) == 0x7c00);
    TEST_CHECK(f32_to_f16(-INFINITY) == 0xfc00);
    TEST_CHECK((f32_to_f16(NAN) & 0x7c00) == 0x7c00 && (f32_to_f16(NAN) & 0x3ff) != 0);
    TEST_CHECK(f32_to_bf16(1.00390625f) == 0x3f80); /* 1 + 2^-8: half way, to even */
    TEST_CHECK(f32_to_bf16(1.01171875f) == 0x3f82);
    TEST_CHECK(f32_to_bf16(3.4e38f) == 0x7f80);
}

static void test_table(void)
{
    block_type type = BLOCK_F32;
    size_t size = 0;
    TEST_CHECK(block_type_of_name(VIEW("q4_k"), &type) && type == BLOCK_Q4_K);
    TEST_CHECK(block_type_of_name(VIEW("MXFP4"), &type) && type == BLOCK_MXFP4);
    TEST_CHECK(!block_type_of_name(VIEW("Q4"), &type) && !block_type_of_name(VIEW(""), &type));
    TEST_CHECK(block_values(4) == 0 && block_bytes(40) == 36 && block_name(UINT32_MAX) == NULL);
    TEST_CHECK(block_type_of_file_id(39, &type) && type == BLOCK_MXFP4);
    TEST_CHECK(block_type_of_file_id(0x43650030, &type) && type == BLOCK_Q4_W);
    TEST_CHECK(block_type_of_file_id(142, &type) && type == BLOCK_PQ2_0);
    TEST_CHECK(block_type_of_file_id(143, &type) && type == BLOCK_PTQ1_0);
    TEST_CHECK(!block_type_of_file_id(141, &type) && !block_type_of_file_id(144, &type));
    TEST_CHECK(block_file_id(BLOCK_PTQ1_0) == 143);
    TEST_CHECK(block_file_id(BLOCK_Q8_W) == 0x43650031 && block_file_id(BLOCK_Q4_K) == 12);
    /* Our own type numbers, ggml's among ours, and numbers outside both. */
    TEST_CHECK(!block_type_of_file_id(48, &type) && !block_type_of_file_id(0x43650002, &type));
    TEST_CHECK(!block_type_of_file_id(0x4365002f, &type) &&
               !block_type_of_file_id(0x43650032, &type) &&
               !block_type_of_file_id(UINT32_MAX, &type) && !block_type_of_file_id(4, &type));
    TEST_CHECK(block_row_bytes(BLOCK_Q6_K, 512, &size) && size == 420);
    TEST_CHECK(!block_row_bytes(BLOCK_Q6_K, 511, &size));
    TEST_CHECK(!block_row_bytes(BLOCK_F32, UINT64_MAX, &size));
    TEST_CHECK(e8m0_half_to_f32(128) == 1.0f && e8m0_half_to_f32(0) == 0x1p-128f &&
               e8m0_half_to_f32(1) == 0x1p-127f && e8m0_half_to_f32(255) == 0x1p127f);
}

int main(void)
{
    TEST_RUN(test_table);
    TEST_RUN(test_decode_is_exact);
    TEST_RUN(test_encode_is_the_reference);
    TEST_RUN(test_encode_errors);
    TEST_RUN(test_search);
    TEST_RUN(test_weighted_search);
    TEST_RUN(test_large_values);
    TEST_RUN(test_weighted_superblocks);
    TEST_RUN(test_encode_survives_anything);
    TEST_RUN(test_finite);
    TEST_RUN(test_f16_round_trip);
    TEST_RUN(test_ue4m3);
    TEST_RUN(test_f16_rounding);
    return unit_report("blocks");
}
