/* blocks.h - how GGUF stores numbers: the block formats, and their exact values as floats.
 *
 * The values are those of ggml's types; the layouts were checked against the `gguf` package from
 * PyPI (tests/unit/make_block_vectors.py).  Pure functions: nothing here allocates or fails. */
#ifndef GGUF_BLOCKS_H
#define GGUF_BLOCKS_H

#include "base/base.h"

/* X(symbol, number, name, values a block, bytes a block).  Numbers below BLOCK_OWN are ggml's type
 * ids; those from BLOCK_OWN on are cerium's own, stored in files as BLOCK_OWN_ID + number, and from
 * BLOCK_PRISM on PrismML's, BLOCK_PRISM_ID and the next. */
#define BLOCK_WEIGHT_MAP(X)                                                                        \
    X(BLOCK_F32, 0, "F32", 1, 4)                                                                   \
    X(BLOCK_F16, 1, "F16", 1, 2)                                                                   \
    X(BLOCK_Q4_0, 2, "Q4_0", 32, 18)                                                               \
    X(BLOCK_Q4_1, 3, "Q4_1", 32, 20)                                                               \
    X(BLOCK_Q5_0, 6, "Q5_0", 32, 22)                                                               \
    X(BLOCK_Q5_1, 7, "Q5_1", 32, 24)                                                               \
    X(BLOCK_Q8_0, 8, "Q8_0", 32, 34)                                                               \
    X(BLOCK_Q2_K, 10, "Q2_K", 256, 84)                                                             \
    X(BLOCK_Q3_K, 11, "Q3_K", 256, 110)                                                            \
    X(BLOCK_Q4_K, 12, "Q4_K", 256, 144)                                                            \
    X(BLOCK_Q5_K, 13, "Q5_K", 256, 176)                                                            \
    X(BLOCK_Q6_K, 14, "Q6_K", 256, 210)                                                            \
    X(BLOCK_IQ2_XXS, 16, "IQ2_XXS", 256, 66)                                                       \
    X(BLOCK_IQ2_XS, 17, "IQ2_XS", 256, 74)                                                         \
    X(BLOCK_IQ3_XXS, 18, "IQ3_XXS", 256, 98)                                                       \
    X(BLOCK_IQ1_S, 19, "IQ1_S", 256, 50)                                                           \
    X(BLOCK_IQ4_NL, 20, "IQ4_NL", 32, 18)                                                          \
    X(BLOCK_IQ3_S, 21, "IQ3_S", 256, 110)                                                          \
    X(BLOCK_IQ2_S, 22, "IQ2_S", 256, 82)                                                           \
    X(BLOCK_IQ4_XS, 23, "IQ4_XS", 256, 136)                                                        \
    X(BLOCK_IQ1_M, 29, "IQ1_M", 256, 56)                                                           \
    X(BLOCK_BF16, 30, "BF16", 1, 2)                                                                \
    X(BLOCK_TQ1_0, 34, "TQ1_0", 256, 54)                                                           \
    X(BLOCK_TQ2_0, 35, "TQ2_0", 256, 66)                                                           \
    X(BLOCK_MXFP4, 39, "MXFP4", 32, 17)                                                            \
    X(BLOCK_NVFP4, 40, "NVFP4", 64, 36)                                                            \
    X(BLOCK_Q1_0, 41, "Q1_0", 128, 18)                                                             \
    X(BLOCK_Q2_0, 42, "Q2_0", 64, 18)                                                              \
    X(BLOCK_Q4_W, 48, "Q4_W", 128, 66)                                                             \
    X(BLOCK_Q8_W, 49, "Q8_W", 128, 130)                                                            \
    X(BLOCK_PQ2_0, 50, "PQ2_0", 128, 34)                                                           \
    X(BLOCK_PTQ1_0, 51, "PTQ1_0", 128, 28)
/* And that of indices, which are no weights. */
#define BLOCK_TYPE_MAP(X) BLOCK_WEIGHT_MAP(X) X(BLOCK_I64, 27, "I64", 1, 8)

#define BLOCK_TYPE_ENUM(symbol, id, name, values, bytes) symbol = id,
typedef enum { BLOCK_TYPE_MAP(BLOCK_TYPE_ENUM) } block_type;
#undef BLOCK_TYPE_ENUM

enum {
    BLOCK_OWN = 48,      /* the first of our own formats */
    BLOCK_PRISM = 50,    /* and of those of PrismML's fork, BLOCK_PRISM_ID in files */
    BLOCK_TYPE_END = 52, /* numbers are below this */
};
/* "eC" in the upper half of the 32 bits: ggml and its forks number their types upwards from 0,
 * with gaps of tens, and reject unknown ids. */
#define BLOCK_OWN_ID 0x43650000u
#define BLOCK_PRISM_ID 142u

/* The id of a type in a file, and back; false: an unsupported id. */
uint32_t block_file_id(block_type type);
bool block_type_of_file_id(uint32_t id, block_type *out);

/* 0 or NULL for unknown types. */
uint32_t block_values(uint32_t type);
uint32_t block_bytes(uint32_t type);
const char *block_name(uint32_t type);
/* "Q4_0" -> BLOCK_Q4_0; false: unknown.  Case does not matter. */
bool block_type_of_name(view name, block_type *out);

/* Bytes of n values (a multiple of the block); false on overflow or a broken block. */
bool block_row_bytes(block_type type, uint64_t n, size_t *out);

/* out[n] = the values of n / block_values(type) blocks; n is a multiple of block_values(type). */
void block_decode(block_type type, float *restrict out, const void *restrict blocks, size_t n);

/* The nearest representable blocks by the simple rule of each type (largest magnitude, round to
 * nearest); K-quants and IQ4 without a search.  For making test and benchmark models. */
void block_encode(block_type type, void *restrict blocks, const float *restrict in, size_t n);

/* The same with a search for the scales that minimize sum weights[i] (in[i] - value)^2, for the
 * formats with small scales or a table: Q3_K Q4_K Q5_K Q6_K IQ4_NL IQ4_XS Q4_W; with weights, for
 * Q4_0 Q4_1 Q5_0 Q5_1 too.  The others have one standard rule and get block_encode()'s bytes.
 *   weights: [n] importance of each value, not negative; NULL: all equal */
void block_quantize(block_type type, void *restrict blocks, const float *restrict in, size_t n,
                    const float *restrict weights);

/* IEEE half and bfloat16, exact both ways except for rounding to nearest even. */
float f16_to_f32(uint16_t h);
uint16_t f32_to_f16(float f);
float bf16_to_f32(uint16_t h);
uint16_t f32_to_bf16(float f);

/* MXFP4 scale of the doubled table: 2^(e - 128). */
float e8m0_half_to_f32(uint8_t e);
/* NVFP4 scale of it: half of what an E4M3 without its sign says, of which ggml makes 0x7f, a NaN,
 * 0 and 0xff 240. */
float ue4m3_half_to_f32(uint8_t e);

extern const int8_t block_iq4_values[16];   /* IQ4_NL and IQ4_XS */
extern const int8_t block_mxfp4_values[16]; /* twice the values of E2M1 */
extern const int8_t block_q4_w_values[16];  /* in [-33, 30]: 6 bits with an offset */

typedef struct {
    uint16_t d;
    uint8_t q[16]; /* low nibbles: values 0-15, high nibbles: 16-31 */
} block_q4_0;
typedef struct {
    uint16_t d, m;
    uint8_t q[16];
} block_q4_1;
typedef struct {
    uint16_t d;
    uint8_t high[4]; /* bit i: fifth bit of value i */
    uint8_t q[16];
} block_q5_0;
typedef struct {
    uint16_t d, m;
    uint8_t high[4];
    uint8_t q[16];
} block_q5_1;
typedef struct {
    uint16_t d;
    int8_t q[32];
} block_q8_0;
typedef struct {
    uint16_t d, dmin;
    uint8_t scales[12]; /* eight 6-bit scales and eight 6-bit minima */
    uint8_t q[128];     /* each 32 bytes: low nibbles one run of 32, high nibbles the next */
} block_q4_k;
typedef struct {
    uint16_t d, dmin;
    uint8_t scales[12];
    uint8_t high[32]; /* bit j of byte i: fifth bit of value 32 j + i */
    uint8_t q[128];
} block_q5_k;
typedef struct {
    uint8_t low[128];
    uint8_t high[64];
    int8_t scales[16]; /* each for 16 values */
    uint16_t d;
} block_q6_k;
typedef struct {
    uint16_t d;
    uint8_t q[16];
} block_iq4_nl;
typedef struct {
    uint16_t d;
    uint16_t scales_high;
    uint8_t scales_low[4];
    uint8_t q[128];
} block_iq4_xs;
typedef struct {
    uint8_t e;
    uint8_t q[16];
} block_mxfp4;
typedef struct {
    uint8_t e[4];  /* each for 16 values */
    uint8_t q[32]; /* each 8 bytes: low nibbles the first 8 of them, high nibbles the others */
} block_nvfp4;

typedef struct {
    uint8_t scales[16]; /* each for 16 values: low nibble scale, high nibble minimum */
    uint8_t q[64];      /* each 32 bytes: two bits of four runs of 32 */
    uint16_t d, dmin;
} block_q2_k;
typedef struct {
    uint8_t high[32];   /* bit j of byte i: third bit of value 32 j + i; if it is 0, 4 less */
    uint8_t low[64];    /* each 32 bytes: two bits of four runs of 32 */
    uint8_t scales[12]; /* sixteen of 6 bits, offset by 32, each for 16 values */
    uint16_t d;
} block_q3_k;

/* -1 or 1; and -1, 0, 1 or 2. */
typedef struct {
    uint16_t d;
    uint8_t q[16]; /* a bit each, the first lowest */
} block_q1_0;
typedef struct {
    uint16_t d;
    uint8_t q[16]; /* two bits each */
} block_q2_0;
typedef struct {
    uint16_t d;
    uint8_t q[32]; /* two bits each */
} block_pq2_0;

/* Ternary: -1, 0 and 1, times one scale for 256 values. */
typedef struct {
    uint8_t q[48];   /* five digits of base 3 in a byte, as a fraction of 256 */
    uint8_t last[4]; /* four */
    uint16_t d;
} block_tq1_0;
typedef struct {
    uint8_t q[64]; /* each 32 bytes: two bits of four runs of 32 */
    uint16_t d;
} block_tq2_0;

typedef struct {
    uint8_t q[24];   /* the same, of 128 values */
    uint8_t last[2];
    uint16_t d;
} block_ptq1_0;

/* Values from grids (blocks_narrow.c).  The scales have 4 bits each. */
typedef struct {
    uint16_t d;
    uint8_t q[64]; /* each 8 bytes: four entries of 8 values; 4 times 7 signs and a scale */
} block_iq2_xxs;
typedef struct {
    uint16_t d;
    uint8_t q[64]; /* each 2 bytes: 9 bits of an entry, 7 signs */
    uint8_t scales[8]; /* each of two runs of 16 */
} block_iq2_xs;
typedef struct {
    uint16_t d;
    uint8_t q[32], signs[32]; /* entries of 8 values, */
    uint8_t high[8];          /* whose number has 10 bits */
    uint8_t scales[8];
} block_iq2_s;
typedef struct {
    uint16_t d;
    uint8_t q[64];     /* entries of 4 values */
    uint8_t signs[32]; /* each 4 bytes: 4 times 7 signs, and a scale for 32 values */
} block_iq3_xxs;
typedef struct {
    uint16_t d;
    uint8_t q[64], high[8]; /* entries of 4 values, whose number has 9 bits */
    uint8_t signs[32];
    uint8_t scales[4]; /* each of two runs of 32 */
} block_iq3_s;
/* -1, 0 or 1, and an eighth more or less. */
typedef struct {
    uint16_t d;
    uint8_t q[32];    /* entries of 8 values, whose number has 11 bits */
    uint16_t high[8]; /* for 32 values: four times 3 bits of entries, 3 of a scale; 1: less */
} block_iq1_s;
typedef struct {
    uint8_t q[32];
    uint8_t high[16]; /* a half for 8 values: 3 bits of the entry; 1: less */
    uint16_t scales[4]; /* each four of 3 bits, for 16 values; a quarter of d, the lowest first */
} block_iq1_m;

/* cerium's own: one scale for 128 values, so that 128 products are one exact integer. */
typedef struct {
    uint16_t d;
    uint8_t q[64]; /* four runs of 32 values, each 16 bytes as in Q4_0: entries of the table */
} block_q4_w;
typedef struct {
    uint16_t d;
    int8_t q[128];
} block_q8_w;

_Static_assert(sizeof(block_q4_0) == 18, "a file format");
_Static_assert(sizeof(block_q4_1) == 20, "a file format");
_Static_assert(sizeof(block_q5_0) == 22, "a file format");
_Static_assert(sizeof(block_q5_1) == 24, "a file format");
_Static_assert(sizeof(block_q8_0) == 34, "a file format");
_Static_assert(sizeof(block_q1_0) == 18, "a file format");
_Static_assert(sizeof(block_q2_0) == 18, "a file format");
_Static_assert(sizeof(block_pq2_0) == 34, "a file format");
_Static_assert(sizeof(block_ptq1_0) == 28, "a file format");
_Static_assert(sizeof(block_q2_k) == 84, "a file format");
_Static_assert(sizeof(block_iq2_xxs) == 66, "a file format");
_Static_assert(sizeof(block_iq2_xs) == 74, "a file format");
_Static_assert(sizeof(block_iq2_s) == 82, "a file format");
_Static_assert(sizeof(block_iq3_xxs) == 98, "a file format");
_Static_assert(sizeof(block_iq3_s) == 110, "a file format");
_Static_assert(sizeof(block_iq1_s) == 50, "a file format");
_Static_assert(sizeof(block_iq1_m) == 56, "a file format");
_Static_assert(sizeof(block_q4_k) == 144, "a file format");
_Static_assert(sizeof(block_q5_k) == 176, "a file format");
_Static_assert(sizeof(block_q6_k) == 210, "a file format");
_Static_assert(sizeof(block_iq4_nl) == 18, "a file format");
_Static_assert(sizeof(block_iq4_xs) == 136, "a file format");
_Static_assert(sizeof(block_mxfp4) == 17, "a file format");
_Static_assert(sizeof(block_nvfp4) == 36, "a file format");
_Static_assert(sizeof(block_q4_w) == 66, "a file format");
_Static_assert(sizeof(block_q8_w) == 130, "a file format");

/* The numbered values of types with few bits: value i is d factor scale[i / 16] value[number[i]],
 * exact in a float in any order. */
typedef struct {
    int8_t value[16]; /* magnitudes up to 63 */
    float factor;     /* a power of two */
} block_levels;
typedef struct {
    uint8_t number[256];
    int8_t scale[16];
    uint16_t d;
} block_numbers;

/* For Q3_K, IQ1, IQ2 and IQ3; NULL for the others. */
const block_levels *block_levels_of(block_type type);
/* The d of a block, as a half. */
uint16_t block_iq1_m_d(const block_iq1_m *b);
/* Block i of such a type. */
void block_open(block_type type, block_numbers *out, const void *blocks, size_t i);

/* The numbers of types with two bits or fewer and one scale: value i is d (number[i] - 1). */
typedef struct {
    uint8_t number[256]; /* 0 to 3, of Q1_0 0 and 2; as many as a block has */
    uint16_t d;
} block_two_bits;

/* Whether a type is one of them: Q1_0, Q2_0, PQ2_0, PTQ1_0, TQ1_0, TQ2_0. */
bool block_has_two_bits(block_type type);
/* Block i of such a type. */
void block_open_two_bits(block_type type, block_two_bits *out, const void *blocks, size_t i);

/* Whether block_encode and block_quantize write it.  Only read are grids, which need a search of
 * their own, Q2_K, Q1_0, Q2_0, PQ2_0, PTQ1_0, and NVFP4, whose small scales need a factor beside
 * them. */
bool block_is_written(block_type type);

#endif
