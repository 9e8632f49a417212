/* finite.c - checks that blocks decode to numbers: a scale that is not finite spoils a row. */
#include "gguf/finite.h"

static bool halves_are_finite(const uint8_t *at, size_t n)
{
    for (size_t i = 0; i < n; i++, at += 2)
        if ((at[1] & 0x7c) == 0x7c) return false;
    return true;
}

/* The places of a block's scales, in half precision: `n` of them from byte `at` on. */
typedef struct {
    size_t at, n;
} scales_at;

static scales_at scales_of(block_type type)
{
    switch (type) {
    case BLOCK_Q1_0:
    case BLOCK_Q2_0:
    case BLOCK_PQ2_0:
    case BLOCK_Q4_0:
    case BLOCK_Q5_0:
    case BLOCK_Q8_0:
    case BLOCK_IQ4_NL:
    case BLOCK_IQ4_XS:
    case BLOCK_IQ2_XXS:
    case BLOCK_IQ2_XS:
    case BLOCK_IQ2_S:
    case BLOCK_IQ3_XXS:
    case BLOCK_IQ3_S:
    case BLOCK_IQ1_S:
    case BLOCK_Q4_W:
    case BLOCK_Q8_W: return (scales_at){0, 1};
    case BLOCK_Q4_1:
    case BLOCK_Q5_1:
    case BLOCK_Q4_K:
    case BLOCK_Q5_K: return (scales_at){0, 2};
    case BLOCK_PTQ1_0: return (scales_at){offsetof(block_ptq1_0, d), 1};
    case BLOCK_Q2_K: return (scales_at){offsetof(block_q2_k, d), 2};
    case BLOCK_Q3_K: return (scales_at){offsetof(block_q3_k, d), 1};
    case BLOCK_Q6_K: return (scales_at){offsetof(block_q6_k, d), 1};
    case BLOCK_TQ1_0: return (scales_at){offsetof(block_tq1_0, d), 1};
    case BLOCK_TQ2_0: return (scales_at){offsetof(block_tq2_0, d), 1};
    case BLOCK_F32:
    case BLOCK_F16:
    case BLOCK_BF16:
    case BLOCK_I64:
    case BLOCK_MXFP4:
    case BLOCK_IQ1_M: /* its d is in four places */
    case BLOCK_NVFP4: break;
    }
    return (scales_at){0, 0};
}

static bool decodes_finite(const uint8_t *mxfp4)
{
    float values[32];
    block_decode(BLOCK_MXFP4, values, mxfp4, ARRAY_LEN(values));
    for (size_t i = 0; i < ARRAY_LEN(values); i++)
        if (!(values[i] - values[i] == 0)) return false;
    return true;
}

/* E4M3 has two NaNs and no infinity. */
static bool scales_are_numbers(const block_nvfp4 *b)
{
    for (size_t i = 0; i < sizeof b->e; i++)
        if ((b->e[i] & 0x7f) == 0x7f) return false;
    return true;
}

bool block_is_finite(block_type type, const void *blocks, size_t n)
{
    enum { E8M0_LARGE = 253 }; /* a value of 12 times it overflows a float; 255 is NaN */
    const uint8_t *at = blocks;
    const size_t size = block_bytes(type);
    if (type == BLOCK_F16) return halves_are_finite(at, n);
    const scales_at scales = scales_of(type);
    for (size_t i = 0; i < n / block_values(type); i++, at += size) {
        if (type == BLOCK_F32 && (at[3] & 0x7f) == 0x7f && at[2] & 0x80) return false;
        if (type == BLOCK_BF16 && (at[1] & 0x7f) == 0x7f && at[0] & 0x80) return false;
        if (type == BLOCK_MXFP4 && at[0] >= E8M0_LARGE && !decodes_finite(at)) return false;
        if (type == BLOCK_NVFP4 && !scales_are_numbers((const block_nvfp4 *)at)) return false;
        if (type == BLOCK_IQ1_M) {
            const uint16_t d = block_iq1_m_d((const block_iq1_m *)(const void *)at);
            if ((d & 0x7c00) == 0x7c00) return false;
        }
        if (!halves_are_finite(at + scales.at, scales.n)) return false;
    }
    return true;
}
