/* blocks.c - the table of block formats and their exact values.
 *
 * The order of float operations is ggml's: scale times integer first, then the offset, each
 * rounded once.  Encoding is in blocks_encode.c. */
#include "gguf/encode.h"

#include <strings.h>

const int8_t block_iq4_values[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                     1,    13,   25,  38,  53,  69,  89,  113};
/* The 16 levels with the smallest error for groups of 128 weights whose scale is searched: from
 * Lloyd's algorithm on real weights, then refined one integer unit at a time.  6 bits, because AVX2
 * adds two products of 63 * 127 in 16 bits and no more
 * (docs/decisions/0007-head-and-formats.md). */
const int8_t block_q4_w_values[16] = {-33, -25, -19, -15, -11, -8, -5, -2,
                                      1,   4,   7,   10,  14,  18, 23, 30};
const int8_t block_mxfp4_values[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

/* ---- the table ---- */

static const struct {
    const char *name;
    uint32_t values, bytes;
} block_types[BLOCK_TYPE_END] = {
#define BLOCK_TYPE_ROW(symbol, id, name, values, bytes) [id] = {name, values, bytes},
    BLOCK_TYPE_MAP(BLOCK_TYPE_ROW)
#undef BLOCK_TYPE_ROW
};

uint32_t block_values(uint32_t type)
{
    return type < BLOCK_TYPE_END ? block_types[type].values : 0;
}

uint32_t block_bytes(uint32_t type)
{
    return type < BLOCK_TYPE_END ? block_types[type].bytes : 0;
}

const char *block_name(uint32_t type)
{
    return type < BLOCK_TYPE_END ? block_types[type].name : NULL;
}

uint32_t block_file_id(block_type type)
{
    const uint32_t number = type;
    if (number >= BLOCK_PRISM) return BLOCK_PRISM_ID + (number - BLOCK_PRISM);
    return number < BLOCK_OWN ? number : BLOCK_OWN_ID + number;
}

bool block_type_of_file_id(uint32_t id, block_type *out)
{
    uint32_t number = id < BLOCK_OWN ? id : id - BLOCK_OWN_ID; /* wraps to an invalid type */
    if (id >= BLOCK_OWN && (number < BLOCK_OWN || number >= BLOCK_PRISM)) {
        number = BLOCK_PRISM + (id - BLOCK_PRISM_ID);
        if (number < BLOCK_PRISM) return false;
    }
    if (block_values(number) == 0) return false;
    *out = (block_type)number;
    return true;
}

bool block_type_of_name(view name, block_type *out)
{
    for (uint32_t i = 0; i < BLOCK_TYPE_END; i++) {
        if (!block_types[i].name || strlen(block_types[i].name) != name.len) continue;
        if (strncasecmp(block_types[i].name, name.ptr, name.len) == 0) return *out = i, true;
    }
    return false;
}

bool block_row_bytes(block_type type, uint64_t n, size_t *out)
{
    uint32_t values = block_values(type);
    size_t size;
    if (values == 0 || n % values != 0) return false;
    if (!size_mul(n / values, block_bytes(type), &size)) return false;
    *out = size;
    return true;
}

/* ---- decode: out[n_blocks * values] ---- */

static void decode_f32(float *restrict out, const void *restrict in, size_t n)
{
    memcpy(out, in, n * sizeof *out);
}

static void decode_f16(float *restrict out, const uint16_t *restrict in, size_t n)
{
    for (size_t i = 0; i < n; i++) out[i] = f16_to_f32(in[i]);
}

static void decode_bf16(float *restrict out, const uint16_t *restrict in, size_t n)
{
    for (size_t i = 0; i < n; i++) out[i] = bf16_to_f32(in[i]);
}

static void decode_i64(float *restrict out, const int64_t *restrict in, size_t n)
{
    for (size_t i = 0; i < n; i++) out[i] = (float)in[i];
}

static void decode_q4_0(float *restrict out, const block_q4_0 *restrict b, size_t n_blocks)
{
    for (size_t i = 0; i < n_blocks; i++, out += 32) {
        float d = f16_to_f32(b[i].d);
        for (int j = 0; j < 16; j++) {
            out[j] = d * (float)((b[i].q[j] & 15) - 8);
            out[j + 16] = d * (float)((b[i].q[j] >> 4) - 8);
        }
    }
}

static void decode_q4_1(float *restrict out, const block_q4_1 *restrict b, size_t n_blocks)
{
    for (size_t i = 0; i < n_blocks; i++, out += 32) {
        float d = f16_to_f32(b[i].d), m = f16_to_f32(b[i].m);
        for (int j = 0; j < 16; j++) {
            out[j] = d * (float)(b[i].q[j] & 15) + m;
            out[j + 16] = d * (float)(b[i].q[j] >> 4) + m;
        }
    }
}

static void decode_q5_0(float *restrict out, const block_q5_0 *restrict b, size_t n_blocks)
{
    for (size_t i = 0; i < n_blocks; i++, out += 32) {
        float d = f16_to_f32(b[i].d);
        for (int j = 0; j < 16; j++) {
            int low = (b[i].q[j] & 15) | (b[i].high[j / 8] >> (j % 8) & 1) << 4;
            int high = b[i].q[j] >> 4 | (b[i].high[2 + j / 8] >> (j % 8) & 1) << 4;
            out[j] = d * (float)(low - 16);
            out[j + 16] = d * (float)(high - 16);
        }
    }
}

static void decode_q5_1(float *restrict out, const block_q5_1 *restrict b, size_t n_blocks)
{
    for (size_t i = 0; i < n_blocks; i++, out += 32) {
        float d = f16_to_f32(b[i].d), m = f16_to_f32(b[i].m);
        for (int j = 0; j < 16; j++) {
            int low = (b[i].q[j] & 15) | (b[i].high[j / 8] >> (j % 8) & 1) << 4;
            int high = b[i].q[j] >> 4 | (b[i].high[2 + j / 8] >> (j % 8) & 1) << 4;
            out[j] = d * (float)low + m;
            out[j + 16] = d * (float)high + m;
        }
    }
}

static void decode_q8_0(float *restrict out, const block_q8_0 *restrict b, size_t n_blocks)
{
    for (size_t i = 0; i < n_blocks; i++, out += 32) {
        float d = f16_to_f32(b[i].d);
        for (int j = 0; j < 32; j++) out[j] = d * (float)b[i].q[j];
    }
}

/* Scale and minimum j (0..7) of the 12 bytes that K-quants pack them into. */
static inline void k_scale_min(const uint8_t *s, int j, float *scale, float *min)
{
    if (j < 4) {
        *scale = (float)(s[j] & 63);
        *min = (float)(s[j + 4] & 63);
    } else {
        *scale = (float)((s[j + 4] & 15) | (s[j - 4] >> 6) << 4);
        *min = (float)(s[j + 4] >> 4 | (s[j] >> 6) << 4);
    }
}

static void decode_q2_k(float *restrict out, const block_q2_k *restrict b, size_t n_blocks)
{
    for (size_t i = 0; i < n_blocks; i++, out += 256) {
        const float d = f16_to_f32(b[i].d), dmin = f16_to_f32(b[i].dmin);
        for (int k = 0; k < 256; k++) {
            const int q = b[i].q[k / 128 * 32 + k % 32] >> (k / 32 % 4 * 2) & 3;
            const int scales = b[i].scales[k / 16];
            out[k] = d * (float)(scales & 15) * (float)q - dmin * (float)(scales >> 4);
        }
    }
}

static void decode_q4_k(float *restrict out, const block_q4_k *restrict b, size_t n_blocks)
{
    for (size_t i = 0; i < n_blocks; i++, out += 256) {
        float d = f16_to_f32(b[i].d), dmin = f16_to_f32(b[i].dmin);
        for (int run = 0; run < 8; run++) {
            const uint8_t *q = b[i].q + run / 2 * 32;
            float scale, min;
            k_scale_min(b[i].scales, run, &scale, &min);
            scale *= d, min *= dmin;
            for (int j = 0; j < 32; j++)
                out[run * 32 + j] = scale * (float)(q[j] >> (run % 2 * 4) & 15) - min;
        }
    }
}

static void decode_q5_k(float *restrict out, const block_q5_k *restrict b, size_t n_blocks)
{
    for (size_t i = 0; i < n_blocks; i++, out += 256) {
        float d = f16_to_f32(b[i].d), dmin = f16_to_f32(b[i].dmin);
        for (int run = 0; run < 8; run++) {
            const uint8_t *q = b[i].q + run / 2 * 32;
            float scale, min;
            k_scale_min(b[i].scales, run, &scale, &min);
            scale *= d, min *= dmin;
            for (int j = 0; j < 32; j++) {
                int value = (q[j] >> (run % 2 * 4) & 15) | (b[i].high[j] >> run & 1) << 4;
                out[run * 32 + j] = scale * (float)value - min;
            }
        }
    }
}

static void decode_q6_k(float *restrict out, const block_q6_k *restrict b, size_t n_blocks)
{
    for (size_t i = 0; i < n_blocks; i++, out += 256) {
        float d = f16_to_f32(b[i].d);
        /* Eight runs of 32: run r of a half takes nibble r / 2 of low[r % 2], bits 2r of high. */
        for (int run = 0; run < 8; run++) {
            int half = run / 4, r = run % 4;
            const uint8_t *low = b[i].low + half * 64 + r % 2 * 32, *high = b[i].high + half * 32;
            for (int j = 0; j < 32; j++) {
                int value = (low[j] >> (r / 2 * 4) & 15) | (high[j] >> (2 * r) & 3) << 4;
                float scale = d * (float)b[i].scales[run * 2 + j / 16];
                out[run * 32 + j] = scale * (float)(value - 32);
            }
        }
    }
}

static void decode_iq4_nl(float *restrict out, const block_iq4_nl *restrict b, size_t n_blocks)
{
    for (size_t i = 0; i < n_blocks; i++, out += 32) {
        float d = f16_to_f32(b[i].d);
        for (int j = 0; j < 16; j++) {
            out[j] = d * (float)block_iq4_values[b[i].q[j] & 15];
            out[j + 16] = d * (float)block_iq4_values[b[i].q[j] >> 4];
        }
    }
}

static void decode_iq4_xs(float *restrict out, const block_iq4_xs *restrict b, size_t n_blocks)
{
    for (size_t i = 0; i < n_blocks; i++, out += 256) {
        float d = f16_to_f32(b[i].d);
        for (int run = 0; run < 8; run++) {
            int scale = (b[i].scales_low[run / 2] >> (run % 2 * 4) & 15) |
                        (b[i].scales_high >> (2 * run) & 3) << 4;
            float dl = d * (float)(scale - 32);
            const uint8_t *q = b[i].q + run * 16;
            for (int j = 0; j < 16; j++) {
                out[run * 32 + j] = dl * (float)block_iq4_values[q[j] & 15];
                out[run * 32 + j + 16] = dl * (float)block_iq4_values[q[j] >> 4];
            }
        }
    }
}

static void decode_mxfp4(float *restrict out, const block_mxfp4 *restrict b, size_t n_blocks)
{
    for (size_t i = 0; i < n_blocks; i++, out += 32) {
        float d = e8m0_half_to_f32(b[i].e);
        for (int j = 0; j < 16; j++) {
            out[j] = d * (float)block_mxfp4_values[b[i].q[j] & 15];
            out[j + 16] = d * (float)block_mxfp4_values[b[i].q[j] >> 4];
        }
    }
}

static void decode_nvfp4(float *restrict out, const block_nvfp4 *restrict b, size_t n_blocks)
{
    for (size_t i = 0; i < n_blocks; i++)
        for (int run = 0; run < 4; run++, out += 16) {
            const float d = ue4m3_half_to_f32(b[i].e[run]);
            const uint8_t *q = b[i].q + 8 * run;
            for (int j = 0; j < 8; j++) {
                out[j] = d * (float)block_mxfp4_values[q[j] & 15];
                out[j + 8] = d * (float)block_mxfp4_values[q[j] >> 4];
            }
        }
}

static void decode_q4_w(float *restrict out, const block_q4_w *restrict b, size_t n_blocks)
{
    for (size_t i = 0; i < n_blocks; i++) {
        float d = f16_to_f32(b[i].d);
        for (int run = 0; run < 4; run++, out += 32) {
            const uint8_t *q = b[i].q + run * 16;
            for (int j = 0; j < 16; j++) {
                out[j] = d * (float)block_q4_w_values[q[j] & 15];
                out[j + 16] = d * (float)block_q4_w_values[q[j] >> 4];
            }
        }
    }
}

static void decode_q8_w(float *restrict out, const block_q8_w *restrict b, size_t n_blocks)
{
    for (size_t i = 0; i < n_blocks; i++, out += 128) {
        float d = f16_to_f32(b[i].d);
        for (int j = 0; j < 128; j++) out[j] = d * (float)b[i].q[j];
    }
}

void block_decode(block_type type, float *restrict out, const void *restrict blocks, size_t n)
{
    CHECK(block_values(type) != 0 && n % block_values(type) == 0);
    size_t n_blocks = n / block_values(type);
    /* clang-format off */
    switch (type) {
    case BLOCK_F32: decode_f32(out, blocks, n_blocks); break;
    case BLOCK_F16: decode_f16(out, blocks, n_blocks); break;
    case BLOCK_BF16: decode_bf16(out, blocks, n_blocks); break;
    case BLOCK_I64: decode_i64(out, blocks, n_blocks); break;
    case BLOCK_Q4_0: decode_q4_0(out, blocks, n_blocks); break;
    case BLOCK_Q1_0:
    case BLOCK_Q2_0:
    case BLOCK_PQ2_0:
    case BLOCK_PTQ1_0:
    case BLOCK_TQ1_0:
    case BLOCK_TQ2_0: decode_two_bits(type, out, blocks, n_blocks); break;
    case BLOCK_Q4_1: decode_q4_1(out, blocks, n_blocks); break;
    case BLOCK_Q5_0: decode_q5_0(out, blocks, n_blocks); break;
    case BLOCK_Q5_1: decode_q5_1(out, blocks, n_blocks); break;
    case BLOCK_Q8_0: decode_q8_0(out, blocks, n_blocks); break;
    case BLOCK_Q2_K: decode_q2_k(out, blocks, n_blocks); break;
    case BLOCK_Q3_K:
    case BLOCK_IQ2_XXS:
    case BLOCK_IQ2_XS:
    case BLOCK_IQ2_S:
    case BLOCK_IQ3_XXS:
    case BLOCK_IQ1_S:
    case BLOCK_IQ1_M:
    case BLOCK_IQ3_S: decode_narrow(type, out, blocks, n_blocks); break;
    case BLOCK_Q4_K: decode_q4_k(out, blocks, n_blocks); break;
    case BLOCK_Q5_K: decode_q5_k(out, blocks, n_blocks); break;
    case BLOCK_Q6_K: decode_q6_k(out, blocks, n_blocks); break;
    case BLOCK_IQ4_NL: decode_iq4_nl(out, blocks, n_blocks); break;
    case BLOCK_IQ4_XS: decode_iq4_xs(out, blocks, n_blocks); break;
    case BLOCK_MXFP4: decode_mxfp4(out, blocks, n_blocks); break;
    case BLOCK_NVFP4: decode_nvfp4(out, blocks, n_blocks); break;
    case BLOCK_Q4_W: decode_q4_w(out, blocks, n_blocks); break;
    case BLOCK_Q8_W: decode_q8_w(out, blocks, n_blocks); break;
    }
    /* clang-format on */
}
