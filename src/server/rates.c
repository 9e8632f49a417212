/* rates.c - rates, remainders and prices, and their texts. */
#include "server/rates.h"

limit_state rates_state(const bucket *b, uint64_t now_ns, uint32_t rate)
{
    if (!rate) return (limit_state){.limit = 0};
    uint64_t missing = bucket_missing(atomic_load_explicit(b, memory_order_relaxed), now_ns);
    uint64_t there = missing < BUCKET_NS ? BUCKET_NS - missing : 0;
    __extension__ typedef unsigned __int128 wide;
    return (limit_state){.limit = rate,
                         .remaining = (uint32_t)((wide)there * rate / BUCKET_NS),
                         .reset_ms = (missing + 999999) / 1000000};
}

uint32_t rates_under_load(uint32_t rate, uint32_t load, uint32_t floor_percent)
{
    uint64_t permille = 1000 - (uint64_t)(load > 1000 ? 1000 : load) * (100 - floor_percent) / 100;
    uint64_t left = rate * permille / 1000;
    return rate && !left ? 1 : (uint32_t)left;
}

uint64_t rates_price(const tier *t, uint64_t input, uint64_t cached, uint64_t output)
{
    return (input - cached) * t->price_input + cached * t->price_cached + output * t->price_output;
}

/* Durations as OpenAI writes them: "12ms", "1.5s", "6m0s". */
static const char *duration(char out[32], uint64_t ms)
{
    if (ms < 1000)
        snprintf(out, 32, "%llums", (unsigned long long)ms);
    else if (ms < 60000)
        snprintf(out, 32, "%llu.%llus", (unsigned long long)(ms / 1000),
                 (unsigned long long)(ms % 1000 / 100));
    else
        snprintf(out, 32, "%llum%llus", (unsigned long long)(ms / 60000),
                 (unsigned long long)(ms % 60000 / 1000));
    return out;
}

static uint32_t used_percent(const limit_state *s)
{
    return (uint32_t)(100 - (uint64_t)s->remaining * 100 / s->limit);
}

static int64_t reset_at(const limit_state *s, int64_t now_s)
{
    return now_s + (int64_t)((s->reset_ms + 999) / 1000);
}

static size_t put_limit(char *out, size_t cap, const char *what, const limit_state *s)
{
    char text[32];
    if (!s->limit) return 0;
    int n = snprintf(out, cap,
                     "x-ratelimit-limit-%s: %u\r\nx-ratelimit-remaining-%s: %u\r\n"
                     "x-ratelimit-reset-%s: %s\r\n",
                     what, s->limit, what, s->remaining, what, duration(text, s->reset_ms));
    CHECK(n > 0 && (size_t)n < cap);
    return (size_t)n;
}

/* Codex shows two windows.  Tokens come first, because agents run out of these first. */
static void windows(const rates_report *report, const limit_state *out[2])
{
    const limit_state *tokens = report->tokens.limit ? &report->tokens : NULL;
    const limit_state *requests = report->requests.limit ? &report->requests : NULL;
    out[0] = tokens ? tokens : requests;
    out[1] = tokens ? requests : NULL;
}

static size_t put_window(char *out, size_t cap, const char *which, const limit_state *s,
                         int64_t now_s)
{
    if (!s) return 0;
    int n = snprintf(out, cap,
                     "x-codex-%s-used-percent: %u\r\nx-codex-%s-window-minutes: 1\r\n"
                     "x-codex-%s-reset-at: %lld\r\n",
                     which, used_percent(s), which, which, (long long)reset_at(s, now_s));
    CHECK(n > 0 && (size_t)n < cap);
    return (size_t)n;
}

size_t rates_headers(char out[RATES_HEADERS_BYTES], const rates_report *report, int64_t now_s)
{
    const limit_state *shown[2];
    size_t n = 0, cap = RATES_HEADERS_BYTES;
    windows(report, shown);
    out[0] = 0;
    n += put_limit(out + n, cap - n, "requests", &report->requests);
    n += put_limit(out + n, cap - n, "tokens", &report->tokens);
    n += put_window(out + n, cap - n, "primary", shown[0], now_s);
    n += put_window(out + n, cap - n, "secondary", shown[1], now_s);
    if (report->start_ms)
        n += (size_t)snprintf(out + n, cap - n, "x-cerium-start-ms: %llu\r\n",
                              (unsigned long long)report->start_ms);
    CHECK(n < cap);
    return n;
}

static size_t put_object(char *out, size_t cap, const char *which, const limit_state *s,
                         int64_t now_s)
{
    int n = s ? snprintf(out, cap,
                         ",\"%s\":{\"used_percent\":%u,\"window_minutes\":1,\"reset_at\":%lld}",
                         which, used_percent(s), (long long)reset_at(s, now_s))
              : snprintf(out, cap, ",\"%s\":null", which);
    CHECK(n > 0 && (size_t)n < cap);
    return (size_t)n;
}

size_t rates_event(char out[RATES_EVENT_BYTES], const rates_report *report, int64_t now_s)
{
    const limit_state *shown[2];
    size_t n = 0, cap = RATES_EVENT_BYTES;
    windows(report, shown);
    out[0] = 0;
    if (!shown[0]) return 0;
    /* Codex knows plans by OpenAI's names; ours are two of them. */
    bool known = !strcmp(report->plan, "pro") || !strcmp(report->plan, "team");
    n += (size_t)snprintf(out, cap,
                          "{\"type\":\"codex.rate_limits\",\"plan_type\":\"%s\",\"rate_limits\":"
                          "{\"allowed\":%s,\"limit_reached\":%s",
                          known ? report->plan : "unknown", report->refused ? "false" : "true",
                          report->refused ? "true" : "false");
    n += put_object(out + n, cap - n, "primary", shown[0], now_s);
    n += put_object(out + n, cap - n, "secondary", shown[1], now_s);
    n += (size_t)snprintf(out + n, cap - n, "},\"credits\":null}");
    CHECK(n < cap);
    return n;
}
