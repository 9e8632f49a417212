/* pointer.c - earlier places by chains of equal tokens, as in LZ77; weights as in probability.h. */
#include "sampling/pointer.h"

#include <math.h>
#include <stdlib.h>

#include "base/memory.h"
#include "sampling/probability.h"

enum { RUNS_COUNTED = 4, ENTRIES_MAX = POINTER_PLACES };

/* share(l), from held-out code by the bundled model (docs/decisions/0037-pointers.md). */
static const float SHARES[POINTER_RUN_MAX + 1] = {0,     0.10f, 0.18f, 0.34f, 0.37f, 0.37f,
                                                  0.40f, 0.50f, 0.52f, 0.52f, 0.52f, 0.52f,
                                                  0.72f, 0.72f, 0.72f, 0.72f, 0.72f};

/* Tokens with the same text up to a line break; one may be meant where another was. */
struct pointer_vocabulary {
    uint32_t n_vocab;
    uint8_t *kinds;    /* [n_vocab] */
    int32_t *classes;  /* [n_vocab] of those with a line break; else -1 */
    uint32_t *begins;  /* [n_classes + 1] offsets in members */
    int32_t *members;  /* [n_vocab] at most */
    uint32_t n_classes;
};

struct pointer {
    const pointer_vocabulary *v;
    uint32_t n, n_max;
    int32_t *tokens; /* [n_max] n of which are followed */
    int32_t *before; /* [n_max] the place before with the same token, or -1 */
    int32_t *last;   /* [n_vocab] the last place of each token, or -1 */
    float *mixed;    /* [n_vocab] */
    double *gains;   /* [n_vocab] what the text adds to a weight; 0 between calls */
    int32_t *gained; /* [n_gained] tokens with such */
    uint32_t n_gained;
};

/* ---- vocabulary ---- */

typedef struct {
    view head; /* of the token's text, up to the first line break */
    int32_t token;
    bool breaks;
} headed;

static int by_head(const void *a, const void *b)
{
    const headed *x = a, *y = b;
    size_t n = x->head.len < y->head.len ? x->head.len : y->head.len;
    int order = n ? memcmp(x->head.ptr, y->head.ptr, n) : 0;
    if (order) return order;
    if (x->head.len != y->head.len) return x->head.len < y->head.len ? -1 : 1;
    return (x->token > y->token) - (x->token < y->token);
}

static headed pointer_head_of(const pointer_token *t, int32_t token)
{
    if (t->kind == POINTER_END) return (headed){{"", 0}, token, false};
    const char *end = t->text.len ? memchr(t->text.ptr, '\n', t->text.len) : NULL;
    return (headed){{t->text.ptr, end ? (size_t)(end - t->text.ptr) : t->text.len}, token,
                    end != NULL};
}

/* A class for each run of equal heads that has a token with a break. */
static void make_classes(pointer_vocabulary *v, const headed *sorted, uint32_t n)
{
    uint32_t n_members = 0;
    for (uint32_t i = 0, end; i < n; i = end) {
        bool breaks = sorted[i].breaks;
        for (end = i + 1; end < n && view_equal(sorted[end].head, sorted[i].head); end++)
            breaks |= sorted[end].breaks;
        if (!breaks) continue;
        v->begins[v->n_classes] = n_members;
        for (uint32_t k = i; k < end; k++) {
            v->members[n_members++] = sorted[k].token;
            if (sorted[k].breaks) v->classes[sorted[k].token] = (int32_t)v->n_classes;
        }
        v->n_classes++;
    }
    v->begins[v->n_classes] = n_members;
}

int pointer_vocabulary_open(pointer_vocabulary **out, const pointer_token *tokens,
                            uint32_t n_vocab, cerium_error *err)
{
    pointer_vocabulary *v = memory_zalloc(1, sizeof *v);
    headed *sorted = memory_zalloc(n_vocab, sizeof *sorted);
    uint32_t n = 0;
    if (v) {
        v->n_vocab = n_vocab;
        v->kinds = memory_zalloc(n_vocab, sizeof *v->kinds);
        v->classes = memory_zalloc(n_vocab, sizeof *v->classes);
        v->begins = memory_zalloc(n_vocab + 1, sizeof *v->begins);
        v->members = memory_zalloc(n_vocab, sizeof *v->members);
    }
    if (!v || !sorted || !v->kinds || !v->classes || !v->begins || !v->members) {
        memory_free(sorted);
        pointer_vocabulary_close(&v);
        return error_set(err, CERIUM_ERR_MEMORY, "no memory to point among %u tokens", n_vocab);
    }
    for (uint32_t i = 0; i < n_vocab; i++) {
        v->kinds[i] = (uint8_t)tokens[i].kind;
        v->classes[i] = -1;
        if (tokens[i].kind == POINTER_END || (tokens[i].kind == POINTER_TEXT && tokens[i].text.len))
            sorted[n++] = pointer_head_of(&tokens[i], (int32_t)i);
    }
    qsort(sorted, n, sizeof *sorted, by_head);
    make_classes(v, sorted, n);
    memory_free(sorted);
    *out = v;
    return CERIUM_OK;
}

void pointer_vocabulary_close(pointer_vocabulary **v)
{
    if (!v || !*v) return;
    memory_free((*v)->kinds);
    memory_free((*v)->classes);
    memory_free((*v)->begins);
    memory_free((*v)->members);
    memory_free(*v);
    *v = NULL;
}

/* ---- the timeline ---- */

int pointer_open(pointer **out, const pointer_vocabulary *v, uint32_t n_max, cerium_error *err)
{
    pointer *p = memory_zalloc(1, sizeof *p);
    if (p) {
        p->v = v;
        p->n_max = n_max;
        p->tokens = memory_zalloc(n_max, sizeof *p->tokens);
        p->before = memory_zalloc(n_max, sizeof *p->before);
        p->last = memory_zalloc(v->n_vocab, sizeof *p->last);
        p->mixed = memory_zalloc(v->n_vocab, sizeof *p->mixed);
        p->gains = memory_zalloc(v->n_vocab, sizeof *p->gains);
        p->gained = memory_zalloc(v->n_vocab, sizeof *p->gained);
    }
    if (!p || !p->tokens || !p->before || !p->last || !p->mixed || !p->gains || !p->gained) {
        pointer_close(&p);
        return error_set(err, CERIUM_ERR_MEMORY, "no memory to point within %u tokens", n_max);
    }
    for (uint32_t i = 0; i < v->n_vocab; i++) p->last[i] = -1;
    *out = p;
    return CERIUM_OK;
}

void pointer_close(pointer **p)
{
    if (!p || !*p) return;
    memory_free((*p)->tokens);
    memory_free((*p)->before);
    memory_free((*p)->last);
    memory_free((*p)->mixed);
    memory_free((*p)->gains);
    memory_free((*p)->gained);
    memory_free(*p);
    *p = NULL;
}

/* The followed text becomes tokens [n]: back to the common part, and on from there. */
static void pointer_follow(pointer *p, const int32_t *tokens, uint32_t n)
{
    uint32_t same = p->n < n ? p->n : n;
    if (memcmp(p->tokens, tokens, same * sizeof *tokens) != 0)
        for (same = 0; p->tokens[same] == tokens[same];) same++;
    while (p->n > same) {
        p->n--;
        p->last[p->tokens[p->n]] = p->before[p->n];
    }
    for (; p->n < n; p->n++) {
        int32_t t = tokens[p->n];
        p->tokens[p->n] = t;
        p->before[p->n] = p->last[t];
        p->last[t] = (int32_t)p->n;
    }
}

static pointer_kind kind_at(const pointer *p, int32_t at)
{
    return (pointer_kind)p->v->kinds[p->tokens[at]];
}

/* The place of text at or before `at`, or -1. */
static int32_t pointer_text_at(const pointer *p, int32_t at)
{
    while (at >= 0 && kind_at(p, at) == POINTER_SEAM) at--;
    return at >= 0 && kind_at(p, at) == POINTER_TEXT ? at : -1;
}

/* How many tokens are equal before two places whose tokens are equal. */
static uint32_t run_of(const pointer *p, int32_t a, int32_t b)
{
    uint32_t run = 1;
    for (; run < POINTER_RUN_MAX; run++) {
        a = pointer_text_at(p, a - 1);
        b = pointer_text_at(p, b - 1);
        if (a < 0 || b < 0 || p->tokens[a] != p->tokens[b]) break;
    }
    return run;
}

typedef struct {
    int32_t token;
    uint32_t run, weight;
} entry;

/* The tokens after places like the timeline's end, those with the longest runs: entries of
 * different tokens, *n of them; returns the sum of their weights, 0: none. */
static uint32_t pointer_look_up(const pointer *p, entry entries[ENTRIES_MAX], uint32_t *n,
                                uint32_t *run)
{
    static const uint32_t weights[RUNS_COUNTED] = {27, 9, 3, 1}; /* by how much a run is shorter */
    uint32_t n_found = 0, sum = 0;
    int32_t end = pointer_text_at(p, (int32_t)p->n - 1);
    *n = *run = 0;
    if (end < 0) return 0;
    int32_t at = p->before[end];
    for (uint32_t places = 0; at >= 0 && places < POINTER_PLACES; places++, at = p->before[at]) {
        int32_t next = at + 1; /* at < end, so there is one */
        while (next < end && kind_at(p, next) == POINTER_SEAM) next++;
        if (kind_at(p, next) != POINTER_TEXT) continue;
        entry e = {p->tokens[next], run_of(p, at, end), 0};
        if (e.run > *run) *run = e.run;
        entries[n_found++] = e;
    }
    for (uint32_t i = 0; i < n_found; i++) {
        uint32_t shorter = *run - entries[i].run, same = 0;
        if (shorter >= RUNS_COUNTED) continue;
        while (same < *n && entries[same].token != entries[i].token) same++;
        if (same == *n) entries[(*n)++] = (entry){entries[i].token, 0, 0};
        entries[same].weight += weights[shorter];
        sum += weights[shorter];
    }
    return sum;
}

/* ---- the mixture ---- */

static double weight_of(const float *logits, int32_t token, float max)
{
    uint64_t weight;
    probability_weights(&weight, logits + token, 1, max, 1);
    return (double)weight;
}

static void pointer_gain(pointer *p, int32_t token, double weight)
{
    if (!(weight > 0)) return;
    if (p->gains[token] == 0) p->gained[p->n_gained++] = token;
    p->gains[token] += weight;
}

/* A token with a line break adds to all of its class, in the model's proportions. */
static void gain_class(pointer *p, const float *logits, int32_t class_, float max, double weight)
{
    const pointer_vocabulary *v = p->v;
    const int32_t *members = v->members + v->begins[class_];
    uint32_t n = v->begins[class_ + 1] - v->begins[class_];
    double sum = 0;
    for (uint32_t i = 0; i < n; i++) sum += weight_of(logits, members[i], max);
    for (uint32_t i = 0; i < n && sum > 0; i++)
        pointer_gain(p, members[i], weight * (weight_of(logits, members[i], max) / sum));
}

/* Logits whose weights are the sums; a weight is at most 2^63. */
static void add_gains(pointer *p, const float *logits, float max)
{
    for (uint32_t i = 0; i < p->n_gained; i++) {
        int32_t token = p->gained[i];
        double sum = weight_of(logits, token, max) + p->gains[token];
        p->gains[token] = 0;
        if (sum > 0x1p63) sum = 0x1p63;
        if (sum >= 1) p->mixed[token] = (float)((double)max + probability_log((uint64_t)sum));
    }
    p->n_gained = 0;
}

const float *pointer_mix(pointer *p, const float *logits, float strength, const int32_t *tokens,
                         uint32_t n)
{
    CHECK(n >= 1 && n <= p->n_max);
    entry entries[ENTRIES_MAX];
    uint32_t n_entries, run, n_vocab = p->v->n_vocab;
    pointer_follow(p, tokens, n);
    uint32_t sum = pointer_look_up(p, entries, &n_entries, &run);
    if (sum == 0) return logits;
    float max = greatest_of(logits, n_vocab);
    if (!(max > -INFINITY && max < INFINITY)) return logits;
    /* Only ratios of weights count, so the model's weights stay and the text's are added to
     * them. */
    double share = (double)SHARES[run] * (double)strength;
    double unit = (double)probability_sum(logits, n_vocab, max, 1) * (share / (1 - share)) / sum;
    memcpy(p->mixed, logits, n_vocab * sizeof *logits);
    for (uint32_t i = 0; i < n_entries; i++) {
        int32_t token = entries[i].token, class_ = p->v->classes[token];
        if (class_ < 0) pointer_gain(p, token, unit * entries[i].weight);
        else gain_class(p, logits, class_, max, unit * entries[i].weight);
    }
    add_gains(p, logits, max);
    return p->mixed;
}
