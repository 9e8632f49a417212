/* test_evict.c - which blocks are evicted, under loads of a server, compared with evicting the
 * least recently used: about as many tokens found where recency is the only signal, and more
 * where shared beginnings meet prompts that come once.  Loads are from fixed seeds. */
#include "../random.h"
#include "kv_marks.h"

enum { POOL_BLOCKS = 64, ROUNDS = 3000, TIMELINE_MAX = CONTEXT / KERNEL_PAGE, TALKS = 12 };

/* ---- loads: each prompt is a list of numbers, one per block ---- */

typedef struct {
    uint32_t blocks[TIMELINE_MAX], n;
} timeline;

typedef struct {
    timeline talks[TALKS];
    uint32_t n_fresh; /* numbers not used before */
} load;

static void add_fresh(load *l, timeline *t, uint32_t n)
{
    while (n-- > 0 && t->n < TIMELINE_MAX) t->blocks[t->n++] = 1000 + l->n_fresh++;
}

/* A conversation of one of three agents continues, or another one replaces it. */
static timeline talk(load *l)
{
    uint32_t who = random_below(TALKS);
    timeline *t = &l->talks[who];
    if (t->n == 0 || t->n == TIMELINE_MAX || random_below(8) == 0) {
        t->n = 0;
        for (uint32_t i = 0; i < 6; i++) t->blocks[t->n++] = 10 * (who % 3) + i;
    }
    add_fresh(l, t, 1 + random_below(2));
    return *t;
}

/* A completion in a file: its beginning is one of a few, the rest is unique. */
static timeline completion(load *l)
{
    timeline t = {.n = 0};
    uint32_t file = random_below(4), n = random_below(3);
    for (uint32_t i = 0; i < n; i++) t.blocks[t.n++] = 100 + 10 * file + i;
    add_fresh(l, &t, 2 + random_below(4));
    return t;
}

/* Whole contexts that are never requested again. */
static timeline batch(load *l)
{
    timeline t = {.n = 0};
    add_fresh(l, &t, TIMELINE_MAX);
    return t;
}

typedef enum { TALKS_ONLY, COMPLETIONS, MIXED, SCANS } load_kind;

static timeline next_prompt(load *l, load_kind kind)
{
    uint32_t dice = random_below(10);
    if (kind == TALKS_ONLY) return talk(l);
    if (kind == COMPLETIONS) return completion(l);
    if (kind == SCANS && dice < 3) return batch(l);
    return dice < 6 ? completion(l) : talk(l);
}

/* ---- LRU eviction: a list of blocks by their whole beginnings ---- */

typedef struct {
    uint64_t name[POOL_BLOCKS], used[POOL_BLOCKS], now;
    uint32_t n;
} plain_cache;

static uint32_t find_plain(const plain_cache *c, uint64_t name)
{
    uint32_t i = 0;
    while (i < c->n && c->name[i] != name) i++;
    return i;
}

/* Returns blocks found at the beginning; afterwards all are cached, the beginning used last. */
static uint32_t take_plain(plain_cache *c, const timeline *t)
{
    uint64_t names[TIMELINE_MAX], name = 1;
    uint32_t n_found = 0;
    for (uint32_t i = 0; i < t->n; i++) {
        names[i] = name = (name ^ t->blocks[i]) * 0x9e3779b97f4a7c15u + 1;
        if (n_found == i && find_plain(c, name) < c->n) n_found++;
    }
    c->now += TIMELINE_MAX;
    for (uint32_t i = 0; i < n_found; i++) c->used[find_plain(c, names[i])] = c->now - i;
    for (uint32_t i = n_found; i < t->n; i++) {
        uint32_t at = find_plain(c, names[i]);
        if (at == c->n && c->n < POOL_BLOCKS) c->n++;
        if (at == POOL_BLOCKS)
            for (uint32_t k = at = 0; k < c->n; k++)
                if (c->used[k] < c->used[at]) at = k;
        c->name[at] = names[i];
        c->used[at] = c->now - i;
    }
    return n_found;
}

/* ---- comparison ---- */

static uint32_t take_pool(kv_sequence *seq, const timeline *t)
{
    int32_t tokens[CONTEXT] = {0};
    for (uint32_t i = 0; i < t->n * KERNEL_PAGE; i++)
        tokens[i] = (int32_t)(t->blocks[i / KERNEL_PAGE] * KERNEL_PAGE + i % KERNEL_PAGE);
    uint32_t n = t->n * KERNEL_PAGE, found = kv_sequence_adopt(seq, tokens, n);
    for (uint32_t at = found; at < n; at += BATCH) {
        uint32_t more = n - at < BATCH ? n - at : BATCH;
        TEST_CHECK(kv_sequence_reserve(seq, at + more) == 0);
        kv_sequence_commit(seq, tokens + at, more);
    }
    kv_sequence_rest(seq);
    return found / KERNEL_PAGE;
}

/* Blocks found of a hundred, by the pool and by the plain cache. */
static void run(load_kind kind, double *pool_found, double *plain_found)
{
    static load l;
    static plain_cache plain;
    uint64_t n_pool = 0, n_plain = 0, n_all = 0;
    windows = no_windows;
    random_state = 1;
    memset(&l, 0, sizeof l);
    memset(&plain, 0, sizeof plain);
    kv_pool *pool = open_pool(1, POOL_BLOCKS * size_of_block());
    kv_sequence *seq = open_sequence(pool, 0);
    for (int i = 0; i < ROUNDS; i++) {
        timeline t = next_prompt(&l, kind);
        n_all += t.n;
        n_pool += take_pool(seq, &t);
        n_plain += take_plain(&plain, &t);
    }
    kv_use use;
    kv_pool_measure(pool, &use);
    TEST_CHECK(use.blocks_max == POOL_BLOCKS);
    close_all(pool, &seq, 1);
    *pool_found = 100.0 * (double)n_pool / (double)n_all;
    *plain_found = 100.0 * (double)n_plain / (double)n_all;
}

static void test_loads(void)
{
    static const struct {
        load_kind kind;
        const char *name;
        double gain; /* at least, in points */
    } loads[] = {
        {TALKS_ONLY, "conversations", -2},
        {COMPLETIONS, "completions", 1},
        {MIXED, "conversations and completions", 5},
        {SCANS, "the same beside a batch", 5},
    };
    for (size_t i = 0; i < ARRAY_LEN(loads); i++) {
        double ours, plain;
        run(loads[i].kind, &ours, &plain);
        printf("  %-30s %.1f %% of tokens found, least recently used first: %.1f %%\n",
               loads[i].name, ours, plain);
        TEST_CHECK(ours >= plain + loads[i].gain);
    }
}

/* A beginning that was hot is evicted, too, once it is no longer used. */
static void test_old_fame_fades(void)
{
    load l = {.n_fresh = 0};
    timeline hot = {.n = 0};
    windows = no_windows;
    kv_pool *pool = open_pool(1, POOL_BLOCKS * size_of_block());
    kv_sequence *seq = open_sequence(pool, 0);
    add_fresh(&l, &hot, 10);
    for (int i = 0; i < 100; i++) take_pool(seq, &hot);
    uint32_t n = 0;
    for (timeline t = hot; n < 400; n++) { /* look it up without adopting it */
        t = batch(&l);
        take_pool(seq, &t);
        if (n == 3) TEST_CHECK(take_pool(seq, &hot) == 10);
    }
    TEST_CHECK(take_pool(seq, &hot) == 0);
    close_all(pool, &seq, 1);
}

int main(void)
{
    TEST_RUN(test_loads);
    TEST_RUN(test_old_fame_fades);
    return unit_report("evict");
}
