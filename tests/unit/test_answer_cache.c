/* test_answer_cache.c - earlier answers of tenants: each sees only its own, the least recently
 * used one makes room, memory is bounded, and concurrent threads do not interfere. */
#include "engine/answer_cache.h"

#include <pthread.h>

#include "base/memory.h"
#include "unit.h"

enum { PLACES = 3, ROOM = 400, ANSWER = 50, THREADS = 3, ROUNDS = 400 };

/* An answer that names its tenant. */
static void answer_of(uint64_t tenant, uint32_t number, int32_t *timeline)
{
    for (uint32_t i = 0; i < ANSWER; i++)
        timeline[i] = (int32_t)(1000 * tenant + (i * 7 + number * 13) % 900);
}

static uint32_t n_of(answer_cache *r, uint64_t tenant)
{
    const past_answers *x = answer_cache_take(r, tenant);
    uint32_t n = x ? x->index.n : 0;
    for (uint32_t i = 0; i < n; i++)
        TEST_CHECK(x->tokens[i] == PAST_END || (uint64_t)x->tokens[i] / 1000 == tenant);
    answer_cache_give(r);
    return n;
}

static void add(answer_cache *r, uint64_t tenant, uint32_t number)
{
    int32_t timeline[ANSWER];
    answer_of(tenant, number, timeline);
    answer_cache_add(r, tenant, timeline, 10, ANSWER);
}

static void test_tenants(void)
{
    answer_cache *r = answer_cache_open(PLACES, ROOM);
    TEST_CHECK(n_of(r, 0) == 0 && n_of(r, 1) == 0 && answer_cache_n_tokens(r) == 0);
    for (uint64_t t = 0; t < PLACES; t++) add(r, t, 1);
    for (uint64_t t = 0; t < PLACES; t++) TEST_CHECK(n_of(r, t) == ANSWER + 1);
    TEST_CHECK(answer_cache_n_tokens(r) == PLACES * (ANSWER + 1));
    n_of(r, 0); /* 1 is now the least recently used */
    n_of(r, 2);
    add(r, 7, 1);
    TEST_CHECK(n_of(r, 1) == 0 && n_of(r, 7) == ANSWER + 1);
    TEST_CHECK(n_of(r, 0) == ANSWER + 1 && n_of(r, 2) == ANSWER + 1);
    TEST_CHECK(answer_cache_n_tokens(r) == PLACES * (ANSWER + 1));
    answer_cache_close(&r);
    TEST_CHECK(r == NULL);
}

/* Many tenants with many answers: never more than the room allows, counted correctly. */
static void test_bound(void)
{
    answer_cache *r = answer_cache_open(PLACES, ROOM);
    long n_allocated = memory_count();
    for (uint32_t i = 0; i < ROUNDS; i++) {
        add(r, i % 11 * (i % 3), i);
        uint32_t sum = 0;
        for (uint64_t t = 0; t < 22; t++) sum += n_of(r, t);
        TEST_CHECK(answer_cache_n_tokens(r) == sum && sum <= PLACES * ROOM);
    }
    TEST_CHECK(memory_count() == n_allocated);
    answer_cache_close(&r);
}

static answer_cache *shared;

static void *answer_often(void *arg)
{
    uint64_t own = *(uint64_t *)arg;
    for (uint32_t i = 0; i < ROUNDS; i++) {
        add(shared, i % 4 ? own : 9, i);
        n_of(shared, i % 3 ? own : 9);
    }
    return NULL;
}

static void test_threads(void)
{
    pthread_t threads[THREADS];
    uint64_t own[THREADS];
    shared = answer_cache_open(PLACES, ROOM);
    for (uint64_t i = 0; i < THREADS; i++) {
        own[i] = i;
        CHECK(pthread_create(&threads[i], NULL, answer_often, &own[i]) == 0);
    }
    for (uint32_t i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    TEST_CHECK(answer_cache_n_tokens(shared) > 0);
    answer_cache_close(&shared);
}

static void test_no_memory(void)
{
    long n_live = memory_live();
    for (int i = 0; i < 2; i++) {
        memory_fail_at(i);
        TEST_CHECK(answer_cache_open(PLACES, ROOM) == NULL);
        memory_fail_at(-1);
        TEST_CHECK(memory_live() == n_live);
    }
}

int main(void)
{
    TEST_RUN(test_tenants);
    TEST_RUN(test_bound);
    TEST_RUN(test_threads);
    TEST_RUN(test_no_memory);
    return unit_report("answer_cache");
}
