/* blocks_narrow.c - formats of 3 bits and of three values: what their bits mean, and as Q6_K.
 *
 * All are 256 integers of a few bits, 16 small scales and one d: what they hold, Q6_K holds. */
#include "gguf/encode.h"

typedef struct {
    int8_t q[256], scales[16]; /* value i is d scales[i / 16] q[i] */
    uint16_t d;
} narrow;

/* ---- from bits ---- */

static void open_q3_k(narrow *out, const block_q3_k *b)
{
    for (int i = 0; i < 256; i++) {
        const int run = i / 32, at = i % 32;
        const int low = b->low[run / 4 * 32 + at] >> (run % 4 * 2) & 3;
        out->q[i] = (int8_t)(low - (b->high[at] >> run & 1 ? 0 : 4));
    }
    for (int s = 0; s < 16; s++) {
        const int low = b->scales[s % 8] >> (s / 8 * 4) & 15;
        const int high = b->scales[8 + s % 4] >> (s / 4 * 2) & 3;
        out->scales[s] = (int8_t)((low | high << 4) - 32);
    }
    out->d = b->d;
}

/* Digit n of a byte: the byte is the fraction 0.d0 d1 d2 ... of base 3, times 256, rounded up. */
static int8_t digit_of(uint8_t byte, int n)
{
    static const uint8_t powers[5] = {1, 3, 9, 27, 81};
    return (int8_t)(((uint8_t)(byte * powers[n]) * 3 >> 8) - 1);
}

static void open_tq1_0(narrow *out, const block_tq1_0 *b)
{
    memset(out->scales, 1, sizeof out->scales);
    for (int i = 0; i < 160; i++) out->q[i] = digit_of(b->q[i % 32], i / 32);
    for (int i = 0; i < 80; i++) out->q[160 + i] = digit_of(b->q[32 + i % 16], i / 16);
    for (int i = 0; i < 16; i++) out->q[240 + i] = digit_of(b->last[i % 4], i / 4);
    out->d = b->d;
}

static void open_tq2_0(narrow *out, const block_tq2_0 *b)
{
    memset(out->scales, 1, sizeof out->scales);
    for (int i = 0; i < 256; i++)
        out->q[i] = (int8_t)((b->q[i / 128 * 32 + i % 32] >> (i / 32 % 4 * 2) & 3) - 1);
    out->d = b->d;
}

/* Block i of blocks. */
static void open_block(block_type type, narrow *out, const void *blocks, size_t i)
{
    CHECK(type == BLOCK_Q3_K || type == BLOCK_TQ1_0 || type == BLOCK_TQ2_0);
    if (type == BLOCK_Q3_K) open_q3_k(out, (const block_q3_k *)blocks + i);
    else if (type == BLOCK_TQ1_0) open_tq1_0(out, (const block_tq1_0 *)blocks + i);
    else open_tq2_0(out, (const block_tq2_0 *)blocks + i);
}

void decode_narrow(block_type type, float *restrict out, const void *restrict blocks,
                   size_t n_blocks)
{
    narrow b;
    for (size_t i = 0; i < n_blocks; i++) {
        open_block(type, &b, blocks, i);
        const float d = f16_to_f32(b.d);
        for (int k = 0; k < 256; k++) *out++ = d * (float)b.scales[k / 16] * (float)b.q[k];
    }
}

void block_widen(block_type type, block_q6_k *restrict out, const void *restrict blocks, size_t n)
{
    narrow b;
    for (size_t i = 0; i < n; i++, out++) {
        open_block(type, &b, blocks, i);
        *out = (block_q6_k){.d = b.d};
        memcpy(out->scales, b.scales, sizeof b.scales);
        for (int k = 0; k < 256; k++) {
            const int half = k / 128, run = k / 32 % 4, at = k % 32, v = b.q[k] + 32;
            out->low[half * 64 + run % 2 * 32 + at] |= (uint8_t)((v & 15) << (run / 2 * 4));
            out->high[half * 32 + at] |= (uint8_t)(v >> 4 << (2 * run));
        }
    }
}
