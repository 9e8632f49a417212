/* test_kv_watch.c - a listener of the KV cache knows, after any operation, exactly its full
 * blocks; and events for a slow reader never exceed the ring, and are never wrong. */
#include "../random.h"
#include "cache/pool.h"
#include "kv_marks.h"
#include "server/kv_events.h"

enum { SEQUENCES = 6, STEPS = 4000, TEXTS = 12, KNOWN_MAX = 4096 };

static struct {
    uint64_t names[KNOWN_MAX];
    uint32_t n;
    uint32_t n_stored, n_removed, n_cleared, n_wrong;
} known;

static uint32_t find(uint64_t name)
{
    uint32_t i = 0;
    while (i < known.n && known.names[i] != name) i++;
    return i;
}

static void stored(void *user, const cerium_kv_page *page)
{
    (void)user;
    known.n_stored++;
    known.n_wrong += page->n_tokens != KERNEL_PAGE || known.n == KNOWN_MAX ||
                     (page->has_before && find(page->before) == known.n);
    if (known.n < KNOWN_MAX) known.names[known.n++] = page->name;
}

static void removed(void *user, uint64_t name)
{
    (void)user;
    const uint32_t i = find(name);
    known.n_removed++;
    known.n_wrong += i == known.n;
    if (i < known.n) known.names[i] = known.names[--known.n];
}

static void cleared(void *user)
{
    (void)user;
    known.n_cleared++;
}

/* Every full block of the tree is known as often as it exists, and nothing else. */
static bool agrees(const kv_pool *pool)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < pool->n_blocks; i++) {
        const kv_block *b = &pool->blocks[i];
        if (!b->in_tree || b->n_tokens < KERNEL_PAGE) continue;
        if (find(b->name.low) == known.n) return false;
        n++;
    }
    return n == known.n;
}

static void test_random(void)
{
    static const cerium_kv_watcher watcher = {stored, removed, cleared};
    static int32_t texts[TEXTS][CONTEXT];
    kv_sequence *seq[SEQUENCES];
    kv_pool *pool = open_pool(SEQUENCES, size_of_block() * CONTEXT / KERNEL_PAGE * 3);
    kv_pool_watch(pool, &watcher, NULL);
    for (uint32_t i = 0; i < TEXTS; i++) fill(texts[i], CONTEXT, i / 3);
    /* Three timelines of a kind diverge somewhere. */
    for (uint32_t i = 0; i < TEXTS; i++)
        for (uint32_t k = 200 + 50 * i; i % 3 && k < CONTEXT; k++) texts[i][k] += (int32_t)i;
    for (uint32_t i = 0; i < SEQUENCES; i++) seq[i] = open_sequence(pool, i % 2);
    random_state = 7;
    for (uint32_t step = 0; step < STEPS; step++) {
        const uint32_t i = random_below(SEQUENCES);
        const int32_t *text = texts[random_below(TEXTS)];
        const uint32_t end = 1 + random_below(CONTEXT / 2);
        const uint32_t from = kv_sequence_adopt(seq[i], text, end);
        (void)!compute(seq[i], i % 2, text, from, end); /* full: what fits */
        if (random_below(3) == 0) kv_sequence_rest(seq[i]);
        if (step % 100 == 0) TEST_CHECK(agrees(pool));
    }
    TEST_CHECK(agrees(pool) && known.n_wrong == 0);
    TEST_CHECK_THAT(known.n_stored > 1000 && known.n_removed > 1000, "%u, %u", known.n_stored,
                    known.n_removed);
    close_all(pool, seq, SEQUENCES);
    TEST_CHECK(known.n_cleared == 1);
}

/* ---- the ring ---- */

static uint32_t n_woken;

static void wake(void *user)
{
    (void)user;
    n_woken++;
}

static void test_ring(void)
{
    static int32_t tokens[KERNEL_PAGE];
    kv_events *e = NULL;
    cerium_error err;
    uint32_t model = 99;
    bytes out = {.max = 1 << 20};
    TEST_CHECK(kv_events_open(&e, &err) == 0);
    kv_events_wake(e, wake, NULL);
    TEST_CHECK(!kv_events_take(e, 1, &model, &out) && out.len == 0);
    const cerium_kv_page page = {.name = 5, .tokens = tokens, .n_tokens = KERNEL_PAGE};
    kv_events_watcher.stored(kv_events_of(e, 3), &page);
    kv_events_watcher.removed(kv_events_of(e, 3), 5);
    kv_events_watcher.removed(kv_events_of(e, 4), 6);
    TEST_CHECK(n_woken == 1);
    TEST_CHECK(kv_events_take(e, 1, &model, &out) && model == 3);
    TEST_CHECK(out.len > 11 && !memcmp(out.ptr + 10, "\x92\x97\xab" "BlockStored", 14));
    out.len = 0;
    TEST_CHECK(kv_events_take(e, 1, &model, &out) && model == 4);
    static const char gone[] = "\x91\x93\xac" "BlockRemoved" "\x91\x06\xc0\xc0";
    TEST_CHECK(out.len == 29 && !memcmp(out.ptr + 10, gone, 19));
    TEST_CHECK(!kv_events_take(e, 1, &model, &out));
    /* Overflow: waiting events are dropped, and both are reset to empty. */
    for (uint32_t i = 0; i <= KV_EVENTS_RING + 5; i++)
        kv_events_watcher.removed(kv_events_of(e, 3), i);
    for (uint32_t want = 3; want <= 4; want++) {
        out.len = 0;
        TEST_CHECK(kv_events_take(e, 1, &model, &out) && model == want);
        TEST_CHECK(out.len == 30 && !memcmp(out.ptr + 11, "\x91\xb0" "AllBlocksCleared", 18));
    }
    TEST_CHECK(!kv_events_take(e, 1, &model, &out));
    kv_events_watcher.removed(kv_events_of(e, 4), 6);
    TEST_CHECK(kv_events_take(e, 1, &model, &out) && model == 4);
    bytes_free(&out);
    kv_events_close(&e);
}

int main(void)
{
    TEST_RUN(test_random);
    TEST_RUN(test_ring);
    return unit_report("kv_watch");
}
