/* test_blocks.c - blocks of every type with valid bits. */
#include "test_blocks.h"

#include <math.h>

const block_type test_types[] = {
#define TYPE_ELEMENT(symbol, id, name, values, bytes) symbol,
    BLOCK_WEIGHT_MAP(TYPE_ELEMENT)
#undef TYPE_ELEMENT
};
const size_t n_test_types = ARRAY_LEN(test_types);

/* Nibbles 0, 15, 7 and 8 and the bytes -128 and 127 are where the tables and offsets of the
 * formats have their largest magnitudes. */
static const uint8_t extreme_bytes[] = {0x00, 0xff, 0x77, 0x88, 0x80, 0x7f};

static uint16_t random_half(test_mode mode)
{
    const uint16_t sign = (uint16_t)(kc_rand() & 0x8000);
    switch (mode) {
    case TEST_ZEROS: return 0;
    case TEST_DENORMALS: return sign | (uint16_t)kc_rand_below(0x400);
    case TEST_EXTREMES:
    case TEST_MIXED: return sign | (uint16_t)(0x7b00 + kc_rand_below(0x100)); /* to 65504 */
    case TEST_RANDOM:
    case TEST_MODE_END: break;
    }
    return sign | (uint16_t)(0x1000 + kc_rand_below(0x2c00)); /* 2^-11 to 1 */
}

static void put_half(uint8_t *at, test_mode mode)
{
    const uint16_t h = random_half(mode);
    memcpy(at, &h, sizeof h);
}

static void put_scales(block_type type, uint8_t *block, test_mode mode)
{
    switch (type) {
    case BLOCK_Q4_1:
    case BLOCK_Q5_1:
    case BLOCK_Q4_K:
    case BLOCK_Q5_K:
        put_half(block, mode);
        put_half(block + 2, mode);
        break;
    case BLOCK_Q1_0:
    case BLOCK_PQ2_0:
    case BLOCK_Q2_0:
    case BLOCK_Q4_0:
    case BLOCK_Q5_0:
    case BLOCK_Q8_0:
    case BLOCK_IQ4_NL:
    case BLOCK_Q4_W:
    case BLOCK_Q8_W:
    case BLOCK_IQ2_XXS:
    case BLOCK_IQ2_XS:
    case BLOCK_IQ2_S:
    case BLOCK_IQ3_XXS:
    case BLOCK_IQ3_S:
    case BLOCK_IQ1_S:
    case BLOCK_IQ4_XS: put_half(block, mode); break;
    case BLOCK_Q2_K:
        put_half(block + 80, mode);
        put_half(block + 82, mode);
        break;
    case BLOCK_PTQ1_0: put_half(block + 26, mode); break;
    case BLOCK_Q6_K: put_half(block + 208, mode); break;
    case BLOCK_IQ1_M: { /* a half in the highest bits of four */
        const uint16_t d = random_half(mode);
        for (int i = 0; i < 4; i++)
            block[49 + 2 * i] = (uint8_t)((block[49 + 2 * i] & 15) | (d >> 4 * i & 15) << 4);
        break;
    }
    case BLOCK_Q3_K: put_half(block + 108, mode); break;
    case BLOCK_TQ1_0: put_half(block + 52, mode); break;
    case BLOCK_TQ2_0: put_half(block + 64, mode); break;
    case BLOCK_MXFP4:
        block[0] = (uint8_t)(mode == TEST_ZEROS       ? 0
                             : mode == TEST_DENORMALS ? kc_rand_below(4)
                             : mode == TEST_RANDOM    ? 120 + kc_rand_below(12)
                                                      : 128 + kc_rand_below(16));
        break;
    case BLOCK_NVFP4: /* without those that are no numbers */
        for (int i = 0; i < 4; i++)
            block[i] = (uint8_t)(mode == TEST_ZEROS       ? 0
                                 : mode == TEST_DENORMALS ? kc_rand_below(8)
                                 : mode == TEST_RANDOM    ? 16 + kc_rand_below(80)
                                                          : 0x70 + kc_rand_below(15));
        break;
    case BLOCK_F16: put_half(block, mode); break;
    case BLOCK_BF16:
    case BLOCK_I64:
    case BLOCK_F32: break;
    }
}

void test_floats_fill(float *x, size_t n, test_mode mode)
{
    for (size_t i = 0; i < n; i++) {
        x[i] = kc_rand_float();
        if (mode == TEST_ZEROS) x[i] = kc_rand() & 1 ? 0.0f : -0.0f;
        if (mode == TEST_DENORMALS) x[i] *= 0x1p-125f;
        if (mode == TEST_EXTREMES || mode == TEST_MIXED)
            x[i] = ldexpf(x[i], (int)kc_rand_below(60) - 10);
    }
}

void test_blocks_fill(block_type type, void *blocks, size_t n, test_mode mode)
{
    const size_t size = block_bytes(type), n_blocks = n / block_values(type);
    const uint8_t same = extreme_bytes[kc_rand_below(ARRAY_LEN(extreme_bytes))];
    for (size_t b = 0; b < n_blocks; b++) {
        uint8_t *block = (uint8_t *)blocks + b * size;
        for (size_t i = 0; i < size; i++) {
            const uint8_t any = extreme_bytes[kc_rand_below(ARRAY_LEN(extreme_bytes))];
            block[i] = mode == TEST_ZEROS      ? 0
                       : mode == TEST_EXTREMES ? same
                       : mode == TEST_MIXED    ? any
                                               : (uint8_t)kc_rand();
        }
        put_scales(type, block, mode);
        float f;
        test_floats_fill(&f, 1, mode);
        const uint16_t h = f32_to_bf16(f);
        if (type == BLOCK_F32) memcpy(block, &f, sizeof f);
        if (type == BLOCK_BF16) memcpy(block, &h, sizeof h);
    }
}

void test_acts_fill(block_type type, kernel_act *acts, uint32_t n_cols, uint32_t n_tokens,
                    test_mode mode)
{
    const bool share = kernel_acts_of(type) == KERNEL_ACTS_128;
    memset(acts, 0, sizeof *acts * kernel_n_groups(n_cols) * n_tokens);
    for (uint32_t t = 0; t < n_tokens; t++, acts += kernel_n_groups(n_cols)) {
        for (uint32_t k = 0; k < n_cols; k++) {
            kernel_act *act = acts + k / KERNEL_GROUP;
            const uint32_t i = k % KERNEL_GROUP;
            int q = (int)kc_rand_below(255) - 127;
            if (mode == TEST_EXTREMES) q = t % 2 ? 127 : -127;
            if (mode == TEST_MIXED) q = kc_rand() & 1 ? 127 : -127;
            act->q[i] = (int8_t)q;
            act->sum16[i / 16] = (int16_t)(act->sum16[i / 16] + q);
            act->sum32[i / 32] = (int16_t)(act->sum32[i / 32] + q);
            if (i % (share ? KERNEL_GROUP : KERNEL_BLOCK)) continue;
            const float any = fabsf(kc_rand_float()) * (mode == TEST_DENORMALS ? 0x1p-120f : 1.0f);
            for (uint32_t b = 0; b < (share ? ARRAY_LEN(act->scale) : 1); b++)
                act->scale[i / KERNEL_BLOCK + b] = any;
        }
    }
}
