/* sampler.c - greedy, and the filters and the draw over integer weights.
 *
 * Few tokens of a vocabulary can be drawn.  So the greatest logit of each piece of it is found
 * first, and the candidates are gathered from the pieces whose greatest logit is high enough, in
 * the order of their ids, each with its logit and its weight.  Top-k and top-p are the same cut:
 * keep the smallest run from the top whose weights reach a target, where for top-k every weight is
 * 1.  The cut is found digit by digit of a key that sorts like the logit, as a radix sort would,
 * but only in the bucket where the target is reached. */
#include "sampling/sampler.h"

#include <float.h>
#include <math.h>

#include "base/memory.h"
#include "sampling/mask.h"
#include "sampling/probability.h"

_Static_assert(SAMPLER_VOCAB_MAX == 1 << PROBABILITY_VOCAB_BITS, "weights of a vocabulary add up");

enum {
    RECENT_TOKENS_DEFAULT = 64,
    PIECE = SAMPLER_PIECE,
    SMALL_PIECE = 32,
    DIGIT_BITS = 11,
    DIGITS = 1 << DIGIT_BITS,
};

struct sampler {
    uint32_t n_vocab, n_pieces;
    uint64_t sums[DIGITS]; /* weights by digit */
    uint64_t *parts;       /* [n_pieces] sums of weights */
    uint64_t *weights;     /* [n_vocab] of the candidates, as the next two */
    float *logits;
    uint32_t *ids;
    float *changed;  /* [n_vocab] all logits, if they differ from the given ones */
    float *own_tops; /* [n_pieces] */
    const float *tops; /* [n_pieces] the greatest logit of each piece, for this choice */
};

/* Logits of equal value get equal keys: 0 and -0 do, and NaN is -infinity.  The sign is spread by a
 * shift, because processors cannot predict a branch on the sign of logits. */
static inline uint32_t sampler_key_of(float logit)
{
    union {
        float value;
        uint32_t bits;
    } u = {.value = (logit == logit ? logit : -INFINITY) + 0.0f};
    uint32_t negative = (uint32_t)((int32_t)u.bits >> 31);
    return u.bits ^ (negative | 0x80000000u);
}

static bool sampler_in_range(float value, float low, float high)
{
    return value >= low && value <= high;
}

int sampler_validate(const cerium_sampling *sampling, cerium_error *err)
{
    const int bad = CERIUM_ERR_ARGUMENT;
    if (!sampling) return CERIUM_OK;
    if (!sampler_in_range(sampling->temperature, 0, 1e6f))
        return error_set(err, bad, "temperature %g: must be 0 (greedy) or above, at most 1e6",
                         (double)sampling->temperature);
    if (!sampler_in_range(sampling->top_p, 0, 1))
        return error_set(err, bad, "top_p %g: must be above 0 and at most 1",
                         (double)sampling->top_p);
    if (!sampler_in_range(sampling->min_p, 0, 1) || sampling->min_p == 1)
        return error_set(err, bad, "min_p %g: must be at least 0 and below 1",
                         (double)sampling->min_p);
    if (!sampler_in_range(sampling->pointer, 0, 1))
        return error_set(err, bad, "pointer %g: must be 0 (off) to 1", (double)sampling->pointer);
    if (sampling->repetition_penalty != 0 &&
        !sampler_in_range(sampling->repetition_penalty, 1e-3f, 1e3f))
        return error_set(err, bad, "repetition_penalty %g: must be 0 (off) or 0.001 to 1000",
                         (double)sampling->repetition_penalty);
    if (!sampler_in_range(sampling->presence_penalty, -100, 100) ||
        !sampler_in_range(sampling->frequency_penalty, -100, 100))
        return error_set(err, bad, "penalties of presence %g and frequency %g: -100 to 100",
                         (double)sampling->presence_penalty, (double)sampling->frequency_penalty);
    if (sampling->n_biases > CERIUM_BIASES_MAX || (sampling->n_biases && !sampling->biases))
        return error_set(err, bad, "%u biases: at most %d are possible",
                         (unsigned)sampling->n_biases, CERIUM_BIASES_MAX);
    for (uint32_t i = 0; i < sampling->n_biases; i++)
        if (!(sampling->biases[i].bias <= FLT_MAX))
            return error_set(err, bad, "bias %u is not a number", (unsigned)i);
    if (sampling->n_stops > CERIUM_STOPS_MAX || (sampling->n_stops && !sampling->stops))
        return error_set(err, bad, "%u stop strings: at most %d are possible",
                         (unsigned)sampling->n_stops, CERIUM_STOPS_MAX);
    for (uint32_t i = 0; i < sampling->n_stops; i++) {
        size_t len = view_of(sampling->stops[i]).len;
        if (len == 0 || len > CERIUM_STOP_BYTES_MAX)
            return error_set(err, bad, "stop string %u has %zu bytes: 1 to %d are possible",
                             (unsigned)i, len, CERIUM_STOP_BYTES_MAX);
    }
    return CERIUM_OK;
}

int sampler_open(sampler **out, uint32_t n_vocab, cerium_error *err)
{
    if (n_vocab == 0 || n_vocab > SAMPLER_VOCAB_MAX)
        return error_set(err, CERIUM_ERR_ARGUMENT, "vocabulary of %u tokens: 1 to %d are possible",
                         (unsigned)n_vocab, SAMPLER_VOCAB_MAX);
    uint32_t n_pieces = (n_vocab + PIECE - 1) / PIECE;
    sampler *s = memory_alloc(sizeof *s);
    uint64_t *parts = memory_alloc(n_pieces * (sizeof *parts + sizeof(float)) +
                                   (size_t)n_vocab * (sizeof *parts + 3 * sizeof(float)));
    if (!s || !parts) {
        memory_free(s);
        memory_free(parts);
        return error_set(err, CERIUM_ERR_MEMORY, "no memory to sample from %u tokens",
                         (unsigned)n_vocab);
    }
    s->n_vocab = n_vocab;
    s->n_pieces = n_pieces;
    s->parts = parts;
    s->weights = parts + n_pieces;
    s->logits = (float *)(s->weights + n_vocab);
    s->ids = (uint32_t *)(s->logits + n_vocab);
    s->changed = (float *)(s->ids + n_vocab);
    s->own_tops = s->changed + n_vocab;
    *out = s;
    return CERIUM_OK;
}

void sampler_close(sampler **s)
{
    if (!s || !*s) return;
    memory_free((*s)->parts);
    memory_free(*s);
    *s = NULL;
}

/* 64 random bits for a place in a seed's sequence.  SplitMix64 (Steele, Lea and Flood, "Fast
 * splittable pseudorandom number generators", 2014) is already a hash of a counter; the seed is
 * hashed first so that the sequences of neighbouring seeds are not shifts of each other. */
static uint64_t sampler_mix(uint64_t z)
{
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

static uint64_t random_bits(uint64_t seed, uint64_t position)
{
    const uint64_t golden = 0x9e3779b97f4a7c15u;
    return sampler_mix(sampler_mix(seed + golden) + golden * (position + 1));
}

static uint32_t piece_len(const sampler *s, uint32_t piece)
{
    uint32_t left = s->n_vocab - piece * PIECE;
    return left < PIECE ? left : PIECE;
}

/* The greatest of the tops, which are computed first if unknown. */
static float find_tops(sampler *s, const float *logits, const float *tops)
{
    for (uint32_t i = 0; i < s->n_pieces && !tops; i++)
        s->own_tops[i] = greatest_of(logits + i * PIECE, piece_len(s, i));
    s->tops = tops ? tops : s->own_tops;
    return greatest_of(s->tops, s->n_pieces);
}

static int32_t first_max(sampler *s, const float *logits, const float *tops)
{
    float max = find_tops(s, logits, tops);
    uint32_t i = 0;
    while (s->tops[i] != max) i++;
    for (i *= PIECE; i < s->n_vocab; i++)
        if (logits[i] == max) return (int32_t)i;
    return 0; /* nothing but NaN */
}

/* A finite stand-in for +infinity; -INFINITY: there is nothing greater. */
static float finite_max(float max) { return max > FLT_MAX ? FLT_MAX : max; }

static float penalty_of(const cerium_sampling *sampling)
{
    return sampling && sampling->repetition_penalty != 0 ? sampling->repetition_penalty : 1;
}

static float bias_of(const cerium_sampling *sampling, int32_t token)
{
    for (uint32_t i = 0; i < sampling->n_biases; i++)
        if (sampling->biases[i].token == token) return sampling->biases[i].bias;
    return 0;
}

/* Biases first.  Penalties are computed from the biased logits, so that a token that occurs twice
 * is penalised once, except for the penalty of each time. */
static const float *sampler_penalised(sampler *s, const float *logits,
                                      const cerium_sampling *sampling, const int32_t *recent,
                                      size_t n_recent)
{
    const float penalty = penalty_of(sampling);
    memcpy(s->changed, logits, s->n_vocab * sizeof *logits);
    for (uint32_t i = 0; i < sampling->n_biases; i++) {
        int32_t token = sampling->biases[i].token;
        if (token >= 0 && (uint32_t)token < s->n_vocab)
            s->changed[token] += sampling->biases[i].bias;
    }
    for (size_t i = 0; i < n_recent; i++) {
        CHECK(recent[i] >= 0 && (uint32_t)recent[i] < s->n_vocab);
        float logit = logits[recent[i]] + bias_of(sampling, recent[i]);
        s->changed[recent[i]] =
            (logit > 0 ? logit / penalty : logit * penalty) - sampling->presence_penalty;
    }
    for (size_t i = 0; i < n_recent && sampling->frequency_penalty != 0; i++)
        s->changed[recent[i]] -= sampling->frequency_penalty;
    return s->changed;
}

/* Tests every logit, in lanes, which compilers turn into vectors. */
bool sampler_are_numbers(const float *logits, uint32_t n_vocab)
{
    enum { LANES = 16 };
    int32_t bad[LANES] = {0}, any = 0;
    const float *end = logits + n_vocab;
    for (; end - logits >= LANES; logits += LANES)
        for (int k = 0; k < LANES; k++) bad[k] |= logits[k] <= FLT_MAX ? 0 : -1;
    for (; logits < end; logits++) any |= !(*logits <= FLT_MAX);
    for (int k = 0; k < LANES; k++) any |= bad[k];
    return !any;
}

/* Collect all tokens with logits of at least `least` as candidates.  Returns how many. */
static uint32_t sampler_gather(sampler *s, const float *logits, float least)
{
    uint32_t n = 0;
    for (uint32_t piece = 0; piece < s->n_pieces; piece++) {
        if (!(s->tops[piece] >= least)) continue;
        uint32_t first = piece * PIECE, end = first + piece_len(s, piece);
        for (uint32_t i = first; i < end; i++) {
            s->logits[n] = logits[i];
            s->ids[n] = i;
            n += logits[i] >= least;
        }
    }
    return n;
}

static inline void move_candidate(sampler *s, uint32_t to, uint32_t from)
{
    s->logits[to] = s->logits[from];
    s->ids[to] = s->ids[from];
    s->weights[to] = s->weights[from];
}

/* Keep, of n candidates ranked by key and then by id, the smallest run from the top whose weights
 * reach target, 1 <= target <= their sum.  Returns its length. */
static uint32_t sampler_cut(sampler *s, uint32_t n, uint64_t target)
{
    uint64_t found = 0; /* leading digits of the key at which the target is reached */
    for (int shift = 2 * DIGIT_BITS; shift >= 0; shift -= DIGIT_BITS) {
        memset(s->sums, 0, sizeof s->sums);
        for (uint32_t i = 0; i < n; i++) {
            uint64_t key = sampler_key_of(s->logits[i]);
            if (key >> (shift + DIGIT_BITS) != found) continue;
            s->sums[key >> shift & (DIGITS - 1)] += s->weights[i];
        }
        uint32_t digit = DIGITS - 1;
        while (s->sums[digit] < target) {
            CHECK(digit > 0);
            target -= s->sums[digit--];
        }
        found = found << DIGIT_BITS | digit;
        /* Lower ones are out, which leaves few for the next digit. */
        uint32_t n_kept = 0;
        for (uint32_t i = 0; i < n; i++)
            if (sampler_key_of(s->logits[i]) >> shift >= found) move_candidate(s, n_kept++, i);
        n = n_kept;
    }
    uint32_t n_kept = 0;
    for (uint32_t i = 0; i < n; i++) { /* of equals, the first that reach the target */
        bool tie = sampler_key_of(s->logits[i]) == found;
        if (tie && target == 0) continue;
        if (tie) target -= s->weights[i] < target ? s->weights[i] : target;
        move_candidate(s, n_kept++, i);
    }
    return n_kept;
}

static uint64_t sampler_sum_of(const uint64_t *weights, uint32_t n)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < n; i++) sum += weights[i];
    return sum;
}

/* part * whole, at least 1: doubles round the same everywhere. */
static uint64_t sampler_share_of(uint64_t whole, float part)
{
    uint64_t share = (uint64_t)((double)whole * (double)part);
    return share ? share : 1;
}

/* Candidates below the floor get weight 0. */
static void drop_below(uint64_t *weights, uint32_t n, uint64_t floor)
{
    for (uint32_t i = 0; i < n; i++) weights[i] = weights[i] >= floor ? weights[i] : 0;
}

/* Each of n candidates, in the order of ids, owns as many draws as its weight. */
static int32_t sampler_draw(const sampler *s, uint32_t n, uint64_t random)
{
    uint64_t at = (uint64_t)((unsigned __int128)random * sampler_sum_of(s->weights, n) >> 64);
    uint32_t i = 0;
    while (at >= s->weights[i]) {
        at -= s->weights[i++];
        CHECK(i < n);
    }
    return (int32_t)s->ids[i];
}

/* The k-th greatest of the candidates' logits, 1 <= k <= n, but a finite one. */
static float kth_greatest(sampler *s, uint32_t n, uint32_t k)
{
    float least = INFINITY;
    for (uint32_t i = 0; i < n; i++) s->weights[i] = 1;
    n = sampler_cut(s, n, k);
    for (uint32_t i = 0; i < n; i++)
        if (s->logits[i] < least) least = s->logits[i];
    return least < -FLT_MAX ? -FLT_MAX : least;
}

/* The k tokens with the greatest logits; -INFINITY and NaN, whose weight is 0, may be missing.
 * As many pieces have tops that reach the k-th of these, so no other token is among the k.  If
 * there are fewer pieces, smaller ones are used. */
static uint32_t take_top_k(sampler *s, const float *logits, uint32_t k)
{
    uint32_t n_tops = s->n_pieces;
    if (k <= n_tops) {
        memcpy(s->logits, s->tops, n_tops * sizeof *s->tops);
    } else {
        n_tops = (s->n_vocab + SMALL_PIECE - 1) / SMALL_PIECE;
        for (uint32_t i = 0; i < n_tops; i++) {
            uint32_t left = s->n_vocab - i * SMALL_PIECE;
            s->logits[i] =
                greatest_of(logits + i * SMALL_PIECE, left < SMALL_PIECE ? left : SMALL_PIECE);
        }
    }
    uint32_t n = sampler_gather(s, logits, k <= n_tops ? kth_greatest(s, n_tops, k) : -FLT_MAX);
    if (n <= k) return n;
    for (uint32_t i = 0; i < n; i++) s->weights[i] = 1;
    return sampler_cut(s, n, k);
}

/* Fill the sums of pieces, and return the sum of all. */
static uint64_t weigh_pieces(sampler *s, const float *logits, float max, float scale)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < s->n_pieces; i++) {
        bool weighs = (s->tops[i] - max) * scale > PROBABILITY_LEAST;
        s->parts[i] =
            weighs ? probability_sum(logits + i * PIECE, piece_len(s, i), max, scale) : 0;
        sum += s->parts[i];
    }
    return sum;
}

/* The most probable tokens that together have this share, from a greatest logit downwards as far as
 * needed. */
static uint32_t take_top_p(sampler *s, const float *logits, float max, float scale, float share)
{
    uint64_t target = sampler_share_of(weigh_pieces(s, logits, max, scale), share);
    for (float depth = 6;; depth = depth < 24 ? 2 * depth : INFINITY) {
        uint32_t n = sampler_gather(s, logits, max - depth / scale);
        probability_weights(s->weights, s->logits, n, max, scale);
        if (sampler_sum_of(s->weights, n) >= target) return sampler_cut(s, n, target);
        CHECK(depth < INFINITY);
    }
}

/* Each token owns as many draws as its weight: choose the piece first, then the token. */
static int32_t draw_of_all(sampler *s, const float *logits, float max, float scale, uint64_t random)
{
    uint64_t sum = weigh_pieces(s, logits, max, scale);
    uint64_t at = (uint64_t)((unsigned __int128)random * sum >> 64);
    uint32_t piece = 0, i = 0;
    while (at >= s->parts[piece]) {
        at -= s->parts[piece++];
        CHECK(piece < s->n_pieces);
    }
    probability_weights(s->weights, logits + piece * PIECE, piece_len(s, piece), max, scale);
    while (at >= s->weights[i]) at -= s->weights[i++];
    return (int32_t)(piece * PIECE + i);
}

static int32_t sampler_sample(sampler *s, const float *logits, const float *tops,
                              const cerium_sampling *sampling, uint64_t position)
{
    float max = finite_max(find_tops(s, logits, tops)), scale = 1 / sampling->temperature;
    uint64_t random = random_bits(sampling->seed, position);
    bool has_top_k = sampling->top_k > 0 && sampling->top_k < s->n_vocab;
    bool has_top_p = sampling->top_p > 0 && sampling->top_p < 1;
    uint32_t n;
    if (max == -INFINITY) return 0;
    if (scale > FLT_MAX) scale = FLT_MAX;
    if (has_top_k) {
        n = take_top_k(s, logits, sampling->top_k);
        probability_weights(s->weights, s->logits, n, max, scale);
        if (has_top_p)
            n = sampler_cut(s, n, sampler_share_of(sampler_sum_of(s->weights, n), sampling->top_p));
    } else if (has_top_p) {
        n = take_top_p(s, logits, max, scale, sampling->top_p);
    } else if (sampling->min_p > 0) { /* a little lower than they can be */
        n = sampler_gather(s, logits, max + (logf(sampling->min_p) - 0.01f) / scale);
        probability_weights(s->weights, s->logits, n, max, scale);
    } else {
        return draw_of_all(s, logits, max, scale, random);
    }
    if (sampling->min_p > 0)
        drop_below(s->weights, n, sampler_share_of(PROBABILITY_ONE, sampling->min_p));
    return sampler_draw(s, n, random);
}

static bool is_greedy(const cerium_sampling *sampling)
{
    return !sampling || sampling->temperature == 0;
}

uint32_t sampler_best(const cerium_sampling *sampling)
{
    if (sampling && sampling->pointer > 0) return 0; /* a mixture covers all */
    if (sampling && sampling->n_biases) return 0;    /* a bias may raise any token */
    return is_greedy(sampling) ? 1 : sampling->top_k;
}

size_t sampler_look_back(const cerium_sampling *sampling, size_t n_recent)
{
    bool counts = sampling && (sampling->presence_penalty != 0 || sampling->frequency_penalty != 0);
    if (penalty_of(sampling) == 1 && !counts) return 0;
    size_t n = sampling->repetition_tokens ? sampling->repetition_tokens : RECENT_TOKENS_DEFAULT;
    return n < n_recent ? n : n_recent;
}

/* The best of the allowed; the first of them if all are NaN. */
static int32_t first_max_allowed(const float *logits, uint32_t n, const uint64_t *allowed)
{
    int32_t best = -1;
    float max = -INFINITY;
    for (uint32_t word = 0; word < (n + 63) / 64; word++) {
        for (uint64_t bits = allowed[word]; bits; bits &= bits - 1) {
            uint32_t i = 64 * word + (uint32_t)__builtin_ctzll(bits);
            if (best >= 0 && !(logits[i] > max)) continue;
            best = (int32_t)i;
            if (logits[i] > max) max = logits[i];
        }
    }
    CHECK(best >= 0);
    return best;
}

/* A word of a mask: to[n] = from[n], -INFINITY where not allowed. */
static void keep_allowed(float *to, const float *from, uint64_t allowed, uint32_t n)
{
    if (allowed == UINT64_MAX) {
        memmove(to, from, n * sizeof *to);
        return;
    }
    for (uint32_t i = 0; i < n; i++) to[i] = allowed >> i & 1 ? from[i] : -INFINITY;
}

static uint32_t word_len(uint32_t n, uint32_t i) { return n - i < 64 ? n - i : 64; }

/* A token that is not allowed can never be drawn: its weight is 0. */
static const float *sampler_permitted(sampler *s, const float *logits, const uint64_t *allowed)
{
    for (uint32_t i = 0; i < s->n_vocab; i += 64)
        keep_allowed(s->changed + i, logits + i, allowed[i / 64], word_len(s->n_vocab, i));
    return s->changed;
}

int32_t sampler_choose(sampler *s, const float *logits, uint32_t n_vocab,
                       const cerium_sampling *sampling, const int32_t *recent, size_t n_recent,
                       uint64_t position)
{
    return sampler_choose_allowed(s, logits, NULL, n_vocab, NULL, sampling, recent, n_recent,
                                  position);
}

int32_t sampler_choose_allowed(sampler *s, const float *logits, const float *tops,
                               uint32_t n_vocab, const uint64_t *allowed,
                               const cerium_sampling *sampling, const int32_t *recent,
                               size_t n_recent, uint64_t position)
{
    CHECK(s && logits && n_vocab == s->n_vocab && (recent || n_recent == 0));
    bool greedy = is_greedy(sampling);
    size_t look_back = sampler_look_back(sampling, n_recent);
    if (look_back > 0 || (sampling && sampling->n_biases)) {
        logits = sampler_penalised(s, logits, sampling,
                                   look_back ? recent + n_recent - look_back : NULL, look_back);
        tops = NULL;
    }
    if (greedy && allowed) return first_max_allowed(logits, n_vocab, allowed);
    if (greedy) return first_max(s, logits, tops);
    if (allowed) {
        logits = sampler_permitted(s, logits, allowed);
        tops = NULL;
        if (!(greatest_of(logits, n_vocab) > -INFINITY))
            return first_max_allowed(logits, n_vocab, allowed);
    }
    return sampler_sample(s, logits, tops, sampling, position);
}

/* Natural logarithm of e^(logit - max) / sum, which is at most 0. */
static float logprob_of(float logit, float max, uint64_t sum)
{
    if (!(logit > -INFINITY)) return -INFINITY;
    double above = (double)(logit > max ? max : logit) - (double)max;
    return (float)(above - probability_log(sum));
}

static float logprob_among(const float *logits, uint32_t n_vocab, const uint64_t *allowed,
                           int32_t token)
{
    float max = -INFINITY, word[64];
    uint64_t sum = 0;
    if (!mask_has(allowed, (uint32_t)token)) return -INFINITY;
    for (uint32_t i = 0; i < n_vocab; i++)
        if (mask_has(allowed, i) && logits[i] > max && logits[i] < INFINITY) max = logits[i];
    if (max == -INFINITY) return -INFINITY;
    for (uint32_t i = 0; i < n_vocab; i += 64) {
        uint32_t n = word_len(n_vocab, i);
        keep_allowed(word, logits + i, allowed[i / 64], n);
        sum += probability_sum(word, n, max, 1);
    }
    return logprob_of(logits[token], max, sum);
}

float sampler_logprob(const float *logits, uint32_t n_vocab, const uint64_t *allowed,
                      int32_t token)
{
    CHECK(token >= 0 && (uint32_t)token < n_vocab);
    if (allowed) return logprob_among(logits, n_vocab, allowed, token);
    float max = finite_max(greatest_of(logits, n_vocab));
    if (max == -INFINITY) return -INFINITY;
    return logprob_of(logits[token], max, probability_sum(logits, n_vocab, max, 1));
}

/* Better tokens rank first.  Until the end, logprob holds the logit, without NaN. */
static bool sampler_better(cerium_logprob a, cerium_logprob b)
{
    return a.logprob > b.logprob || (a.logprob == b.logprob && a.token < b.token);
}

/* Sift the entry at sink down to its place in a heap of n whose root is the worst. */
static void sampler_sink(cerium_logprob *heap, size_t n, size_t at)
{
    cerium_logprob entry = heap[at];
    for (size_t child; (child = 2 * at + 1) < n; at = child) {
        if (child + 1 < n && sampler_better(heap[child], heap[child + 1])) child++;
        if (sampler_better(heap[child], entry)) break;
        heap[at] = heap[child];
    }
    heap[at] = entry;
}

size_t sampler_top(const float *logits, uint32_t n_vocab, cerium_logprob *out, size_t n)
{
    if (n > n_vocab) n = n_vocab;
    if (n == 0) return 0;
    for (uint32_t i = 0; i < n_vocab; i++) {
        float logit = logits[i] == logits[i] ? logits[i] : -INFINITY;
        if (i < n) out[i] = (cerium_logprob){(int32_t)i, logit};
        if (i + 1 == n)
            for (size_t at = n / 2; at-- > 0;) sampler_sink(out, n, at);
        if (i < n || logit <= out[0].logprob) continue;
        out[0] = (cerium_logprob){(int32_t)i, logit};
        sampler_sink(out, n, 0);
    }
    for (size_t last = n; last-- > 1;) { /* the worst of the remaining ones goes after them */
        cerium_logprob worst = out[0];
        out[0] = out[last];
        sampler_sink(out, last, 0);
        out[last] = worst;
    }
    float max = finite_max(greatest_of(logits, n_vocab));
    uint64_t sum = max > -INFINITY ? probability_sum(logits, n_vocab, max, 1) : 1;
    for (size_t i = 0; i < n; i++) out[i].logprob = logprob_of(out[i].logprob, max, sum);
    return n;
}
