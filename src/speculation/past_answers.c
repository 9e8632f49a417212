/* past_answers.c - adds an answer, and drops the oldest. */
#include "speculation/past_answers.h"

size_t past_answers_bytes(uint32_t n_max)
{
    return ngrams_bytes_large(n_max) + (size_t)n_max * sizeof(int32_t);
}

void past_answers_lay_out(past_answers *x, void *memory, uint32_t n_max)
{
    CHECK(n_max >= PAST_TOKENS_MIN);
    ngrams_open_large(&x->index, memory, n_max);
    x->tokens = (int32_t *)((char *)memory + ngrams_bytes_large(n_max));
}

void past_answers_clear(past_answers *x) { ngrams_clear(&x->index); }

/* Whether answer [n] is in the text, with all its tokens. */
static bool has(const past_answers *x, const int32_t *answer, uint32_t n)
{
    uint32_t at = 0, same = ngrams_find(&x->index, x->tokens, answer, n, UINT32_MAX, &at);
    while (same > 0 && same < n && same < at && x->tokens[at - 1 - same] == answer[n - 1 - same])
        same++;
    return same == n;
}

/* Make room for n more tokens, n <= n_max / 2 + the overhead of an answer. */
static void make_room(past_answers *x, uint32_t n)
{
    uint32_t n_max = x->index.n_max, keep = n_max / 2;
    if (n <= n_max - x->index.n) return;
    if (keep > n_max - n) keep = n_max - n;
    if (keep > x->index.n) keep = x->index.n;
    memmove(x->tokens, x->tokens + x->index.n - keep, keep * sizeof *x->tokens);
    ngrams_clear(&x->index);
    ngrams_grow(&x->index, x->tokens, keep);
}

void past_answers_add(past_answers *x, const int32_t *timeline, uint32_t begin, uint32_t n)
{
    uint32_t most = x->index.n_max / 2;
    CHECK(begin <= n);
    if (n - begin > most) begin = n - most;
    if (n - begin < PAST_ANSWER_MIN || has(x, timeline + begin, n - begin)) return;
    uint32_t first = begin < PAST_CONTEXT ? 0 : begin - PAST_CONTEXT;
    make_room(x, n - first + 1);
    int32_t *end = x->tokens + x->index.n;
    memcpy(end, timeline + first, (n - first) * sizeof *end);
    end[n - first] = PAST_END;
    ngrams_grow(&x->index, x->tokens, x->index.n + n - first + 1);
}
