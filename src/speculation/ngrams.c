/* ngrams.c - the chains, and the walk along them. */
#include "speculation/ngrams.h"

enum {
    BITS_MIN = 8,
    BITS_MAX = 14,       /* heads stay in the second-level cache; longer texts have longer chains */
    BITS_MAX_LARGE = 21,
    CANDIDATES_MAX = 32,
    CANDIDATES_MAX_LARGE = 8,
};

static uint32_t bits_of(uint32_t n_max, uint32_t bits_max)
{
    uint32_t bits = BITS_MIN;
    while (bits < bits_max && 1u << bits < n_max) bits++;
    return bits;
}

static size_t bytes_of(uint32_t n_max, uint32_t bits)
{
    return NGRAMS_ORDERS * (((size_t)1 << bits) + n_max) * sizeof(uint32_t);
}

size_t ngrams_bytes(uint32_t n_max) { return bytes_of(n_max, bits_of(n_max, BITS_MAX)); }

size_t ngrams_bytes_large(uint32_t n_max)
{
    return bytes_of(n_max, bits_of(n_max, BITS_MAX_LARGE));
}

static void lay_out(ngrams *x, uint32_t *at, uint32_t n_max, uint32_t bits)
{
    x->bits = bits;
    x->n_max = n_max;
    for (int k = 0; k < NGRAMS_ORDERS; k++) {
        x->heads[k] = at;
        x->older[k] = at + ((size_t)1 << bits);
        at = x->older[k] + n_max;
    }
}

void ngrams_open(ngrams *x, void *memory, uint32_t n_max)
{
    *x = (ngrams){.lengths = {NGRAMS_SHORT, NGRAMS_LONG}, .candidates_max = CANDIDATES_MAX};
    lay_out(x, memory, n_max, bits_of(n_max, BITS_MAX));
    ngrams_clear(x);
}

void ngrams_open_large(ngrams *x, void *memory, uint32_t n_max)
{
    *x = (ngrams){.lengths = {NGRAMS_LARGE_SHORT, NGRAMS_LARGE_LONG},
                  .candidates_max = CANDIDATES_MAX_LARGE};
    lay_out(x, memory, n_max, bits_of(n_max, BITS_MAX_LARGE));
}

void ngrams_attach_large(ngrams *x, const void *memory, uint32_t n)
{
    ngrams_open_large(x, (void *)(uintptr_t)memory, n);
    x->n = n;
}

/* Every chain leads to valid places, and from each to an earlier one. */
bool ngrams_is_sound(const ngrams *x)
{
    uint32_t bad = 0;
    for (int k = 0; k < NGRAMS_ORDERS; k++) {
        for (size_t i = 0; i < (size_t)1 << x->bits; i++) bad |= x->heads[k][i] > x->n;
        for (uint32_t i = 0; i < x->n; i++) bad |= x->older[k][i] > i;
    }
    return !bad;
}

void ngrams_clear(ngrams *x)
{
    x->n = 0;
    for (int k = 0; k < NGRAMS_ORDERS; k++)
        memset(x->heads[k], 0, sizeof(uint32_t) << x->bits);
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
        for (int k = 0; k < NGRAMS_ORDERS && i >= x->lengths[k]; k++) {
            uint32_t *head = &x->heads[k][chain_of(x, text + i, x->lengths[k])];
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
        for (int k = 0; k < NGRAMS_ORDERS && i >= x->lengths[k]; k++)
            x->heads[k][chain_of(x, text + i, x->lengths[k])] = x->older[k][i];
    }
}

uint32_t ngrams_match(const int32_t *text, uint32_t at, const int32_t *context, uint32_t n)
{
    uint32_t most = at < n ? at : n, same = 0;
    if (most > NGRAMS_MATCH_MAX) most = NGRAMS_MATCH_MAX;
    while (same < most && text[at - 1 - same] == context[n - 1 - same]) same++;
    return same;
}

/* Is a better than b where both match equally long? */
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
        if (n < x->lengths[k]) continue;
        uint32_t next = x->heads[k][chain_of(x, context + n, x->lengths[k])];
        for (uint32_t i = 0; next && i < x->candidates_max; i++) {
            uint32_t place = next - 1, same = ngrams_match(text, place, context, n);
            next = x->older[k][place];
            if (same < x->lengths[k] || same < best) continue;
            if (same == best && !is_nearer(place, *at, from)) continue;
            best = same;
            *at = place;
        }
    }
    return best;
}
