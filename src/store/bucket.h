/* bucket.h - a token bucket in one word, shared by any number of threads and processes.
 *
 * The word is a time: when the bucket will be full again (the "theoretical arrival time" of the
 * generic cell rate algorithm, ITU-T I.371).  To take n at a rate of r a minute, a caller moves it
 * n/r minutes forward, but not more than BUCKET_NS, the whole bucket, beyond now. So the bucket
 * refills by itself, without a timer or a lock, and a process that dies holds nothing.
 *
 * Use beyond the bucket is a debt, and never forgiven: the word lies as far in the future as it
 * takes to pay it off. Times are from a monotonic clock; after a reboot the clock starts again, and
 * so does the file (live.h). No state except the word. */
#ifndef STORE_BUCKET_H
#define STORE_BUCKET_H

#include <stdatomic.h>

#include "base/base.h"

#define BUCKET_NS UINT64_C(60000000000)           /* a full bucket: the amount of a minute */
#define BUCKET_DEBT_NS (UINT64_MAX / 4)           /* where the arithmetic ends: 146 years */

typedef _Atomic uint64_t bucket;

/* The time for n, at `rate` a minute; rate > 0. */
static inline uint64_t bucket_cost(uint64_t n, uint64_t rate)
{
    __extension__ typedef unsigned __int128 wide;
    wide cost = (wide)n * BUCKET_NS / rate;
    return cost > BUCKET_DEBT_NS ? BUCKET_DEBT_NS : (uint64_t)cost;
}

/* The time until the bucket is full again. */
static inline uint64_t bucket_missing(uint64_t word, uint64_t now)
{
    uint64_t missing = word > now ? word - now : 0;
    return missing > BUCKET_DEBT_NS ? BUCKET_DEBT_NS : missing;
}

/* Take cost_ns if available.  0: it was taken, else the time until it is available; a cost above a
 * full bucket is taken from a full one, and is paid off afterwards. */
static inline uint64_t bucket_take(bucket *b, uint64_t now, uint64_t cost_ns)
{
    uint64_t word = atomic_load_explicit(b, memory_order_relaxed), missing;
    do {
        missing = bucket_missing(word, now);
        uint64_t room = cost_ns > BUCKET_NS ? 0 : BUCKET_NS - cost_ns;
        if (missing > room) return missing - room;
    } while (!atomic_compare_exchange_weak_explicit(b, &word, now + missing + cost_ns,
                                                    memory_order_relaxed, memory_order_relaxed));
    return 0;
}

/* The result of bucket_take(), without taking. */
static inline uint64_t bucket_wait(const bucket *b, uint64_t now, uint64_t cost_ns)
{
    uint64_t missing = bucket_missing(atomic_load_explicit(b, memory_order_relaxed), now);
    uint64_t room = cost_ns > BUCKET_NS ? 0 : BUCKET_NS - cost_ns;
    return missing > room ? missing - room : 0;
}

/* Settle afterwards: the use was more (cost_ns > 0), or less. */
static inline void bucket_settle(bucket *b, uint64_t now, int64_t cost_ns)
{
    uint64_t word = atomic_load_explicit(b, memory_order_relaxed), next;
    do {
        uint64_t missing = bucket_missing(word, now);
        if (cost_ns >= 0)
            next = now + missing + (uint64_t)cost_ns;
        else
            next = missing > (uint64_t)-cost_ns ? now + missing - (uint64_t)-cost_ns : now;
    } while (!atomic_compare_exchange_weak_explicit(b, &word, next, memory_order_relaxed,
                                                    memory_order_relaxed));
}

#endif
