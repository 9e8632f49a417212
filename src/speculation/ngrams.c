/* ngrams.c - the chains, and the walk along them. */
#include "speculation/ngrams.h"

enum {
    BITS_MIN = 8,
    BITS_MAX = 14,       /* heads stay in the second-level cache; longer texts have longer chains */
    CANDIDATES_MAX = 32, /* places of a chain that are looked at */
};

static const uint32_t lengths[NGRAMS_ORDERS] = {NGRAMS_SHORT, NGRAMS_LONG};

static uint32_t bits_of(uint32_t n_max)
{
    uint32_t bits = BITS_MIN;
    while (bits < BITS_MAX && 1u << bits < n_max) bits++;
    return bits;
}

size_t ngrams_bytes(uint32_t n_max)
{
    return NGRAMS_ORDERS * (((size_t)1 << bits_of(n_max)) + n_max) * sizeof(uint32_t);
}

void ngrams_open(ngrams *x, void *memory, uint32_t n_max)
{
    uint32_t *at = memory;
    *x = (ngrams){.bits = bits_of(n_max), .n_max = n_max};
    for (int k = 0; k < NGRAMS_ORDERS; k++) {
        x->heads[k] = at;
        x->older[k] = at + ((size_t)1 << x->bits);
        at = x->older[k] + n_max;
        memset(x->heads[k], 0, sizeof(uint32_t) << x->bits);
    }
}

/* The chain of the tokens [length] that end before `end`. */
static uint32_t chain_of(const ngrams *x, const int32_t *end, uint32_t length)
{
    uint64_t hash = 0;
    for (uint32_t i = 1; i <= length; i++)
        hash = (hash + (uint32_t)end[-(int)i] + 1) * 0x9e3779b97f4a7c15u;
    return (uint32_t)(hash >> (64 - x->bits));
}

void ngrams_grow(ngrams *x, const int32_t *text, uint32_t n)
{
    CHECK(n <= x->n_max);
    for (uint32_t i = x->n; i < n; i++) {
        for (int k = 0; k < NGRAMS_ORDERS && i >= lengths[k]; k++) {
            uint32_t *head = &x->heads[k][chain_of(x, text + i, lengths[k])];
            x->older[k][i] = *head;
            *head = i + 1;
        }
    }
    if (n > x->n) x->n = n;
}

void ngrams_cut(ngrams *x, const int32_t *text, uint32_t n)
{
    while (x->n > n) {
        uint32_t i = --x->n;
        for (int k = 0; k < NGRAMS_ORDERS && i >= lengths[k]; k++)
            x->heads[k][chain_of(x, text + i, lengths[k])] = x->older[k][i];
    }
}

uint32_t ngrams_match(const int32_t *text, uint32_t at, const int32_t *context, uint32_t n)
{
    uint32_t most = at < n ? at : n, same = 0;
    if (most > NGRAMS_MATCH_MAX) most = NGRAMS_MATCH_MAX;
    while (same < most && text[at - 1 - same] == context[n - 1 - same]) same++;
    return same;
}

/* Whether a is to be preferred to b where both agree as much. */
static bool is_nearer(uint32_t a, uint32_t b, uint32_t from)
{
    if ((a >= from) != (b >= from)) return a >= from;
    return a >= from ? a < b : a > b;
}

uint32_t ngrams_find(const ngrams *x, const int32_t *text, const int32_t *context, uint32_t n,
                     uint32_t from, uint32_t *at)
{
    uint32_t best = 0;
    for (int k = NGRAMS_ORDERS - 1; k >= 0 && best == 0; k--) {
        if (n < lengths[k]) continue;
        uint32_t next = x->heads[k][chain_of(x, context + n, lengths[k])];
        for (uint32_t i = 0; next && i < CANDIDATES_MAX; i++) {
            uint32_t place = next - 1, same = ngrams_match(text, place, context, n);
            next = x->older[k][place];
            if (same < lengths[k] || same < best) continue;
            if (same == best && !is_nearer(place, *at, from)) continue;
            best = same;
            *at = place;
        }
    }
    return best;
}
