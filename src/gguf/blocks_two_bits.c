/* blocks_two_bits.c - formats whose values are one scale times -1, 0, 1 or 2: the numbers of a
 * block, which are one more.
 *
 * Q1_0 has a bit for -1 or 1; Q2_0, PQ2_0 and TQ2_0 have two bits; TQ1_0 and PTQ1_0 have digits of
 * base 3. */
#include "gguf/encode.h"

bool block_has_two_bits(block_type type)
{
    return type == BLOCK_Q1_0 || type == BLOCK_Q2_0 || type == BLOCK_PQ2_0 ||
           type == BLOCK_PTQ1_0 || type == BLOCK_TQ1_0 || type == BLOCK_TQ2_0;
}

/* Digit n of a byte: the byte is the fraction 0.d0 d1 d2 ... of base 3, times 256, rounded up. */
static uint8_t digit_of(uint8_t byte, int n)
{
    static const uint8_t powers[5] = {1, 3, 9, 27, 81};
    return (uint8_t)((uint8_t)(byte * powers[n]) * 3 >> 8);
}

/* Runs of n bytes: the first digits of all, then the second ones. */
static void open_digits(uint8_t *number, const uint8_t *q, int n, int n_digits)
{
    for (int digit = 0; digit < n_digits; digit++)
        for (int i = 0; i < n; i++) *number++ = digit_of(q[i], digit);
}

/* Four neighbours in a byte. */
static void open_pairs(uint8_t *number, const uint8_t *q, int n)
{
    for (int i = 0; i < n; i++) number[i] = q[i / 4] >> (i % 4 * 2) & 3;
}

void block_open_two_bits(block_type type, block_two_bits *out, const void *blocks, size_t i)
{
    CHECK(block_has_two_bits(type));
    if (type == BLOCK_Q1_0) {
        const block_q1_0 *b = (const block_q1_0 *)blocks + i;
        for (int k = 0; k < 128; k++) out->number[k] = (uint8_t)((b->q[k / 8] >> k % 8 & 1) << 1);
        out->d = b->d;
    } else if (type == BLOCK_Q2_0) {
        const block_q2_0 *b = (const block_q2_0 *)blocks + i;
        open_pairs(out->number, b->q, 64);
        out->d = b->d;
    } else if (type == BLOCK_PQ2_0) {
        const block_pq2_0 *b = (const block_pq2_0 *)blocks + i;
        open_pairs(out->number, b->q, 128);
        out->d = b->d;
    } else if (type == BLOCK_TQ2_0) {
        const block_tq2_0 *b = (const block_tq2_0 *)blocks + i;
        for (int k = 0; k < 256; k++)
            out->number[k] = b->q[k / 128 * 32 + k % 32] >> (k / 32 % 4 * 2) & 3;
        out->d = b->d;
    } else if (type == BLOCK_TQ1_0) {
        const block_tq1_0 *b = (const block_tq1_0 *)blocks + i;
        open_digits(out->number, b->q, 32, 5);
        open_digits(out->number + 160, b->q + 32, 16, 5);
        open_digits(out->number + 240, b->last, 4, 4);
        out->d = b->d;
    } else {
        const block_ptq1_0 *b = (const block_ptq1_0 *)blocks + i;
        open_digits(out->number, b->q, 16, 5);
        open_digits(out->number + 80, b->q + 16, 8, 5);
        open_digits(out->number + 120, b->last, 2, 4);
        out->d = b->d;
    }
}

void decode_two_bits(block_type type, float *restrict out, const void *restrict blocks,
                     size_t n_blocks)
{
    const int n = type == BLOCK_Q2_0 ? 64 : type == BLOCK_TQ1_0 || type == BLOCK_TQ2_0 ? 256 : 128;
    block_two_bits b;
    for (size_t i = 0; i < n_blocks; i++) {
        block_open_two_bits(type, &b, blocks, i);
        const float d = f16_to_f32(b.d);
        for (int k = 0; k < n; k++) *out++ = d * (float)(b.number[k] - 1);
    }
}
