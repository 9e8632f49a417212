/* rates.h - the arithmetic of limits and prices, and how clients see them.
 *
 * Pure: clocks are arguments.  Admission is in server/tenant_quota.h. */
#ifndef SERVER_RATES_H
#define SERVER_RATES_H

#include "server/policy.h"
#include "store/bucket.h"

/* One limit in a client's view. */
typedef struct {
    uint32_t limit;       /* a minute, at present; 0 = none */
    uint32_t remaining;
    uint64_t reset_ms;    /* until it is full again */
} limit_state;

/* rate: for a minute; 0 = no limit. */
limit_state rates_state(const bucket *b, uint64_t now_ns, uint32_t rate);
/* The part of a rate that remains under load, 0..1000: at full load `floor` percent, and never
 * zero. */
uint32_t rates_under_load(uint32_t rate, uint32_t load, uint32_t floor_percent);

typedef struct {
    limit_state requests, tokens;
    bool refused;
    const char *plan;     /* name of the tier */
    uint64_t start_ms;
} rates_report;

/* Lines of an HTTP head, each with its end: x-ratelimit-*, x-codex-*, x-cerium-start-ms.  ""
 * without a limit.  Returns the number of bytes. */
enum { RATES_HEADERS_BYTES = 768 };
size_t rates_headers(char out[RATES_HEADERS_BYTES], const rates_report *report, int64_t now_s);
/* The event codex.rate_limits, or "". */
enum { RATES_EVENT_BYTES = 512 };
size_t rates_event(char out[RATES_EVENT_BYTES], const rates_report *report, int64_t now_s);

/* Billionths of a dollar. */
uint64_t rates_price(const tier *t, uint64_t input, uint64_t cached, uint64_t output);

#endif
