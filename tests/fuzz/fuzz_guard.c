/* fuzz_guard.c - streams of any bytes: the same findings and the same safe bytes for any
 * cuts, and nothing withheld beyond its bound.
 *
 * Input: a byte for form and language, a byte for the length of pieces, then the stream. */
#include "base/memory.h"
#include "guard/repair.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A line, the overhead of its wrapping, and lines that wait for a function. */
enum { HELD_MAX = GUARD_LINE_BYTES_MAX + 8 * 128 + GUARD_DEFERRED_BYTES + GUARD_LINE_BYTES_MAX };

static guard *rules;
static guard_worker *worker;

/* A hash of the replacement of a line: it fits into its room, and is not empty. */
static uint64_t repairs(const guard_finding *f)
{
    static char out[REPAIR_BYTES];
    uint64_t sum = 0;
    for (repair_form form = 0; form < REPAIR_FORMS; form++) {
        size_t n = guard_repair(f, form, out, sizeof out);
        CHECK(n <= sizeof out);
        for (size_t i = 0; i < n; i++) sum = (sum ^ (uint8_t)out[i]) * 0x100000001b3u + 1;
    }
    return sum;
}

/* A hash of the findings; late ones (by the clock) are not compared. */
static uint64_t run(const guard_stream_config *config, const uint8_t *text, size_t size,
                    size_t step, bool *late)
{
    guard_stream *s;
    guard_result r;
    cerium_error err;
    uint64_t sum = 0;
    if (guard_stream_open(&s, rules, config, &err)) return 0;
    for (size_t at = 0;; at += step) {
        size_t n = at < size ? (size - at < step ? size - at : step) : 0;
        if (n) guard_feed(s, worker, text + at, n, &r);
        else guard_finish(s, worker, &r);
        *late |= r.late;
        CHECK(r.safe <= at + n && at + n - r.safe <= HELD_MAX);
        for (uint32_t i = 0; i < r.n_findings; i++) {
            const guard_finding *f = &r.findings[i];
            CHECK(f->begin < f->end && f->end <= size && f->line_begin <= f->begin);
            CHECK(f->from <= f->to && f->to <= f->held.len);
            sum = sum * 31 + f->begin * 7 + f->end + f->cwe + repairs(f);
        }
        if (!n) break;
    }
    guard_stream_close(&s);
    return sum;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    cerium_error err;
    if (!rules) {
        CHECK(guard_open(&rules, "rules", &err) == CERIUM_OK);
        CHECK(guard_worker_open(&worker, rules, &err) == CERIUM_OK);
    }
    if (size < 2 || size > 1 << 16) return 0;
    guard_stream_config config = {.form = (guard_form)(data[0] % 4),
                                  .language = (guard_language)(data[0] / 4 % GUARD_LANGUAGES)};
    bool late = false;
    size_t step = data[1] ? data[1] : 1;
    /* With room for the findings of one call: pieces are short. */
    uint64_t a = run(&config, data + 2, size - 2, 1, &late);
    uint64_t b = run(&config, data + 2, size - 2, step < 64 ? step : 64, &late);
    CHECK(late || a == b);
    return 0;
}
