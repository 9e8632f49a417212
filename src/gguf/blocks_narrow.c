/* blocks_narrow.c - formats of one to three bits: the level of each value, and the levels.
 *
 * They are 256 numbers of a few bits, sixteen small scales and one d: Q3_K, and those whose values
 * are looked up four or eight at a time in a grid (IQ2, IQ3 with separate signs, IQ1). */
#include "gguf/encode.h"
#include "gguf/grids.h"

/* d times level times small scale is exact: 11 bits, 6 and 6. */
static const block_levels q3_k_levels = {{-4, -3, -2, -1, 0, 1, 2, 3}, 1.0f};
/* The number of a negative level is larger by BLOCK_NEGATIVE.  Scales of grids are (2 s + 1) /
 * 2. */
enum { BLOCK_NEGATIVE = 8 };
static const block_levels iq2_levels = {{8, 25, 43, 0, 0, 0, 0, 0, -8, -25, -43}, 0.125f};
static const block_levels iq3_xxs_levels = { /* twice these, times a fourth */
    {2, 6, 10, 14, 18, 22, 26, 31, -2, -6, -10, -14, -18, -22, -26, -31}, 0.5f};
static const block_levels iq3_s_levels = {
    {1, 3, 5, 7, 9, 11, 13, 15, -1, -3, -5, -7, -9, -11, -13, -15}, 1.0f};
/* Eighths: -1, 0 and 1 with an eighth more, then with one less. */
static const block_levels iq1_levels = {{-7, 1, 9, -9, -1, 7}, 0.125f};

const block_levels *block_levels_of(block_type type)
{
    switch ((uint32_t)type) {
    case BLOCK_Q3_K: return &q3_k_levels;
    case BLOCK_IQ2_XXS:
    case BLOCK_IQ2_XS:
    case BLOCK_IQ2_S: return &iq2_levels;
    case BLOCK_IQ1_S:
    case BLOCK_IQ1_M: return &iq1_levels;
    case BLOCK_IQ3_XXS: return &iq3_xxs_levels;
    case BLOCK_IQ3_S: return &iq3_s_levels;
    }
    return NULL;
}

/* ---- without a grid ---- */

static void open_q3_k(block_numbers *out, const block_q3_k *b)
{
    for (int i = 0; i < 256; i++) {
        const int run = i / 32, at = i % 32;
        const int low = b->low[run / 4 * 32 + at] >> (run % 4 * 2) & 3;
        out->number[i] = (uint8_t)(low | (b->high[at] >> run & 1) << 2);
    }
    for (int s = 0; s < 16; s++) {
        const int low = b->scales[s % 8] >> (s / 8 * 4) & 15;
        const int high = b->scales[8 + s % 4] >> (s / 4 * 2) & 3;
        out->scale[s] = (int8_t)((low | high << 4) - 32);
    }
    out->d = b->d;
}

/* ---- from a grid ---- */

/* n values of an entry; bit i of signs: value i is negative. */
static void put_entry(uint8_t *number, uint32_t entry, int n, int bits, uint32_t signs)
{
    for (int i = 0; i < n; i++) {
        const uint32_t level = entry >> (bits * i) & ((1u << bits) - 1);
        number[i] = (uint8_t)(level + (signs >> i & 1) * BLOCK_NEGATIVE);
    }
}

/* Seven signs of eight: the eighth makes the number of negative ones even. */
static uint32_t eight_signs(uint32_t seven)
{
    seven &= 127;
    return seven | (uint32_t)(__builtin_popcount(seven) & 1) << 7;
}

/* Four bits as an odd scale: twice (s + 1/2). */
static int8_t odd_scale(uint32_t four) { return (int8_t)(2 * (four & 15) + 1); }

static uint32_t word_at(const uint8_t *p)
{
    return p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

static void open_iq2_xxs(block_numbers *out, const block_iq2_xxs *b)
{
    for (int run = 0; run < 8; run++) {
        const uint8_t *q = b->q + 8 * run;
        const uint32_t signs = word_at(q + 4);
        for (int i = 0; i < 4; i++)
            put_entry(out->number + 32 * run + 8 * i, iq2_xxs_grid[q[i]], 8, 2,
                      eight_signs(signs >> 7 * i));
        out->scale[2 * run] = out->scale[2 * run + 1] = odd_scale(signs >> 28);
    }
    out->d = b->d;
}

static void open_iq2_xs(block_numbers *out, const block_iq2_xs *b)
{
    for (int i = 0; i < 32; i++) {
        const uint32_t v = b->q[2 * i] | (uint32_t)b->q[2 * i + 1] << 8;
        put_entry(out->number + 8 * i, iq2_xs_grid[v & 511], 8, 2, eight_signs(v >> 9));
    }
    for (int s = 0; s < 16; s++) out->scale[s] = odd_scale(b->scales[s / 2] >> (s % 2 * 4));
    out->d = b->d;
}

static void open_iq2_s(block_numbers *out, const block_iq2_s *b)
{
    for (int i = 0; i < 32; i++) {
        const uint32_t high = b->high[i / 4] >> (i % 4 * 2) & 3;
        put_entry(out->number + 8 * i, iq2_s_grid[b->q[i] | high << 8], 8, 2, b->signs[i]);
    }
    for (int s = 0; s < 16; s++) out->scale[s] = odd_scale(b->scales[s / 2] >> (s % 2 * 4));
    out->d = b->d;
}

static void open_iq3_xxs(block_numbers *out, const block_iq3_xxs *b)
{
    for (int run = 0; run < 8; run++) {
        const uint32_t packed = word_at(b->signs + 4 * run);
        for (int i = 0; i < 8; i++)
            put_entry(out->number + 32 * run + 4 * i, iq3_xxs_grid[b->q[8 * run + i]], 4, 3,
                      eight_signs(packed >> (i / 2 * 7)) >> (i % 2 * 4));
        out->scale[2 * run] = out->scale[2 * run + 1] = odd_scale(packed >> 28);
    }
    out->d = b->d;
}

static void open_iq3_s(block_numbers *out, const block_iq3_s *b)
{
    for (int i = 0; i < 64; i++) {
        const uint32_t high = b->high[i / 8] >> (i % 8) & 1;
        put_entry(out->number + 4 * i, iq3_s_grid[b->q[i] | high << 8], 4, 3,
                  b->signs[i / 2] >> (i % 2 * 4));
    }
    for (int s = 0; s < 16; s++) out->scale[s] = odd_scale(b->scales[s / 4] >> (s / 2 % 2 * 4));
    out->d = b->d;
}

/* Eight values of an entry, with an eighth less or more. */
static void put_iq1(uint8_t *number, uint32_t entry, bool less)
{
    for (int i = 0; i < 8; i++)
        number[i] = (uint8_t)((iq1_grid[entry] >> 2 * i & 3) + (less ? 3 : 0));
}

static void open_iq1_s(block_numbers *out, const block_iq1_s *b)
{
    for (int i = 0; i < 32; i++) {
        const uint32_t high = b->high[i / 4];
        put_iq1(out->number + 8 * i, b->q[i] | (high >> (i % 4 * 3) & 7) << 8, high >> 15);
    }
    for (int s = 0; s < 16; s++) out->scale[s] = odd_scale(b->high[s / 2] >> 12 & 7);
    out->d = b->d;
}

uint16_t block_iq1_m_d(const block_iq1_m *b)
{
    uint32_t d = 0;
    for (int i = 0; i < 4; i++) d |= (uint32_t)(b->scales[i] >> 12) << 4 * i;
    return (uint16_t)d;
}

static void open_iq1_m(block_numbers *out, const block_iq1_m *b)
{
    for (int i = 0; i < 32; i++) {
        const uint32_t high = b->high[i / 2] >> (i % 2 * 4);
        put_iq1(out->number + 8 * i, b->q[i] | (high & 7) << 8, high >> 3 & 1);
    }
    for (int s = 0; s < 16; s++) out->scale[s] = odd_scale(b->scales[s / 4] >> (s % 4 * 3) & 7);
    out->d = block_iq1_m_d(b);
}

void block_open(block_type type, block_numbers *out, const void *blocks, size_t i)
{
    CHECK(block_levels_of(type));
    if (type == BLOCK_Q3_K) open_q3_k(out, (const block_q3_k *)blocks + i);
    if (type == BLOCK_IQ2_XXS) open_iq2_xxs(out, (const block_iq2_xxs *)blocks + i);
    if (type == BLOCK_IQ2_XS) open_iq2_xs(out, (const block_iq2_xs *)blocks + i);
    if (type == BLOCK_IQ2_S) open_iq2_s(out, (const block_iq2_s *)blocks + i);
    if (type == BLOCK_IQ3_XXS) open_iq3_xxs(out, (const block_iq3_xxs *)blocks + i);
    if (type == BLOCK_IQ1_S) open_iq1_s(out, (const block_iq1_s *)blocks + i);
    if (type == BLOCK_IQ1_M) open_iq1_m(out, (const block_iq1_m *)blocks + i);
    if (type == BLOCK_IQ3_S) open_iq3_s(out, (const block_iq3_s *)blocks + i);
}

void decode_narrow(block_type type, float *restrict out, const void *restrict blocks,
                   size_t n_blocks)
{
    const block_levels *levels = block_levels_of(type);
    block_numbers b;
    for (size_t i = 0; i < n_blocks; i++) {
        block_open(type, &b, blocks, i);
        const float d = f16_to_f32(b.d) * levels->factor;
        for (int k = 0; k < 256; k++)
            *out++ = d * (float)b.scale[k / 16] * (float)levels->value[b.number[k]];
    }
}
