/* test_rates.c - buckets, rates under load, prices and headers, on a clock of our own. */
#include "server/rates.h"

#include <jansson.h>

#include "unit.h"

#define SECOND UINT64_C(1000000000)

static void test_bucket(void)
{
    bucket b = 0;
    uint64_t now = 1000 * SECOND, cost = bucket_cost(1, 60); /* one per second */
    TEST_CHECK(cost == SECOND);
    for (int i = 0; i < 60; i++) TEST_CHECK(bucket_take(&b, now, cost) == 0);
    TEST_CHECK(bucket_take(&b, now, cost) == SECOND);
    TEST_CHECK(bucket_take(&b, now + SECOND / 2, cost) == SECOND / 2); /* a refusal takes nothing */
    TEST_CHECK(bucket_wait(&b, now + SECOND, cost) == 0);
    TEST_CHECK(bucket_take(&b, now + SECOND, cost) == 0);
    TEST_CHECK(bucket_take(&b, now + SECOND, cost) == SECOND);
    /* Full again after a minute, and no fuller. */
    now += 1000 * SECOND;
    for (int i = 0; i < 60; i++) TEST_CHECK(bucket_take(&b, now, cost) == 0);
    TEST_CHECK(bucket_take(&b, now, cost) == SECOND);
}

static void test_settle(void)
{
    bucket b = 0;
    uint64_t now = 1000 * SECOND;
    /* More than the whole bucket: taken from a full one, paid off afterwards. */
    TEST_CHECK(bucket_take(&b, now, 3 * BUCKET_NS) == 0);
    TEST_CHECK(bucket_take(&b, now, 1) == 2 * BUCKET_NS + 1);
    bucket_settle(&b, now, -(int64_t)(2 * BUCKET_NS));
    TEST_CHECK(bucket_missing(b, now) == BUCKET_NS);
    bucket_settle(&b, now, -(int64_t)(5 * BUCKET_NS)); /* no more than full */
    TEST_CHECK(bucket_missing(b, now) == 0 && bucket_take(&b, now, BUCKET_NS) == 0);
    /* A debt is paid off to the end, however large. */
    bucket_settle(&b, now, 100 * (int64_t)BUCKET_NS);
    TEST_CHECK(bucket_take(&b, now, 1) == 100 * BUCKET_NS + 1);
    TEST_CHECK(bucket_take(&b, now + 99 * BUCKET_NS, 1) == BUCKET_NS + 1);
    TEST_CHECK(bucket_take(&b, now + 101 * BUCKET_NS, 1) == 0);
    /* And the arithmetic does not wrap around, which would free the key. */
    for (int i = 0; i < 9; i++)
        bucket_settle(&b, now, (int64_t)bucket_cost(UINT64_MAX, 1));
    TEST_CHECK(bucket_wait(&b, now, 1) > BUCKET_DEBT_NS / 2);
    TEST_CHECK(bucket_cost(UINT64_MAX, 1) > BUCKET_NS);
}

static void test_idle(void)
{
    bucket b = 0;
    uint64_t now = 5 * SECOND, cost = bucket_cost(1, 60);
    for (int i = 0; i < 30; i++) TEST_CHECK(bucket_take(&b, now, cost) == 0);
    /* Long afterwards: full, not fuller. */
    limit_state s = rates_state(&b, UINT64_C(900000000) * SECOND, 60);
    TEST_CHECK(s.remaining == 60 && s.reset_ms == 0);
}

static void test_load(void)
{
    TEST_CHECK(rates_under_load(1000, 0, 25) == 1000);
    TEST_CHECK(rates_under_load(1000, 500, 25) == 625);
    TEST_CHECK(rates_under_load(1000, 1000, 25) == 250);
    TEST_CHECK(rates_under_load(1000, 9999, 25) == 250);
    TEST_CHECK(rates_under_load(0, 1000, 25) == 0); /* unlimited stays unlimited */
    TEST_CHECK(rates_under_load(1, 1000, 1) == 1);  /* and a limit stays a limit */
    TEST_CHECK(rates_under_load(RATES_MAX, 0, 100) == RATES_MAX);
}

static void test_price(void)
{
    tier t = {.price_input = 5000, .price_cached = 500, .price_output = 15000};
    TEST_CHECK(rates_price(&t, 1000000, 0, 0) == UINT64_C(5000000000));
    TEST_CHECK(rates_price(&t, 1000000, 1000000, 0) == UINT64_C(500000000));
    TEST_CHECK(rates_price(&t, 0, 0, 1000000) == UINT64_C(15000000000));
    TEST_CHECK(rates_price(&t, 3, 1, 1) == 2 * 5000 + 500 + 15000);
}

static bool has(const char *text, const char *line)
{
    const char *at = strstr(text, line);
    return at && (at == text || at[-1] == '\n') && !strncmp(at + strlen(line), "\r\n", 2);
}

static void test_headers(void)
{
    char out[RATES_HEADERS_BYTES];
    rates_report limits = {.requests = {60, 59, 1000}, .tokens = {1000, 250, 45000}, .plan = "team",
                        .start_ms = 7};
    TEST_CHECK(rates_headers(out, &limits, 1700000000) == strlen(out));
    TEST_CHECK(has(out, "x-ratelimit-limit-requests: 60"));
    TEST_CHECK(has(out, "x-ratelimit-remaining-requests: 59"));
    TEST_CHECK(has(out, "x-ratelimit-reset-requests: 1.0s"));
    TEST_CHECK(has(out, "x-ratelimit-remaining-tokens: 250"));
    TEST_CHECK(has(out, "x-ratelimit-reset-tokens: 45.0s"));
    TEST_CHECK(has(out, "x-codex-primary-used-percent: 75"));
    TEST_CHECK(has(out, "x-codex-primary-reset-at: 1700000045"));
    TEST_CHECK(has(out, "x-codex-secondary-used-percent: 2"));
    TEST_CHECK(has(out, "x-cerium-start-ms: 7"));
    limits = (rates_report){.plan = "team"};
    TEST_CHECK(rates_headers(out, &limits, 1) == 0 && !out[0]);
    /* The longest possible one. */
    limits = (rates_report){.requests = {UINT32_MAX, UINT32_MAX, UINT64_MAX / 2},
                         .tokens = {UINT32_MAX, 0, UINT64_MAX / 2}, .plan = "x",
                         .start_ms = UINT64_MAX};
    TEST_CHECK(rates_headers(out, &limits, INT64_MAX / 4) < sizeof out);
}

/* In the form that Codex reads. */
static void test_event(void)
{
    char out[RATES_EVENT_BYTES];
    rates_report limits = {.tokens = {1000, 580, 45000}, .plan = "pro"};
    TEST_CHECK(rates_event(out, &limits, 1700000000) == strlen(out));
    json_t *got = json_loads(out, 0, NULL);
    json_t *want = json_loads("{\"type\":\"codex.rate_limits\",\"plan_type\":\"pro\","
                              "\"rate_limits\":"
                              "{\"allowed\":true,\"limit_reached\":false,\"primary\":{"
                              "\"used_percent\":42,\"window_minutes\":1,\"reset_at\":1700000045},"
                              "\"secondary\":null},\"credits\":null}", 0, NULL);
    TEST_CHECK_THAT(want && json_equal(got, want), "%s", out);
    json_decref(got);
    json_decref(want);
    limits = (rates_report){.requests = {1, 0, 60000}, .tokens = {1, 0, 60000}, .plan = "my-tier",
                         .refused = true};
    TEST_CHECK(rates_event(out, &limits, 1) > 0 && strstr(out, "\"plan_type\":\"unknown\""));
    TEST_CHECK(strstr(out, "\"allowed\":false,\"limit_reached\":true"));
    TEST_CHECK(strstr(out, "\"secondary\":{\"used_percent\":100"));
    limits = (rates_report){.plan = "pro"};
    TEST_CHECK(rates_event(out, &limits, 1) == 0 && !out[0]);
}

int main(void)
{
    TEST_RUN(test_bucket);
    TEST_RUN(test_settle);
    TEST_RUN(test_idle);
    TEST_RUN(test_load);
    TEST_RUN(test_price);
    TEST_RUN(test_headers);
    TEST_RUN(test_event);
    return unit_report("rates");
}
