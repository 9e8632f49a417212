/* fuzz_ending.c - code that ends anywhere: what closes it makes it a whole text of its language, or
 * it stays as it is; text that was closed is closed no further.
 *
 * Input: a byte for language and what may be closed, a byte for the form, then the code. */
#include "guard/ending.h"

#include "../guard/whole.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { WHOLE_MAX = GUARD_WINDOW_BYTES - 2 * GUARD_LINE_BYTES_MAX }; /* of text that stays */

static guard *rules;
static guard_worker *worker;

static bool end(guard_form form, guard_language language, view text, guard_closing closing,
                guard_ending *out)
{
    guard_stream_config config = {.form = form, .language = language};
    guard_stream *s;
    guard_result r;
    cerium_error err;
    CHECK(guard_stream_open(&s, rules, &config, &err) == CERIUM_OK);
    guard_feed(s, worker, text.ptr, text.len, &r);
    bool closed = guard_end_code(s, worker, closing, out);
    guard_stream_close(&s);
    return closed;
}

/* Code that the guard sees whole. */
static void check_code(guard_language language, view code, guard_closing closing)
{
    guard_ending e, again;
    bytes all = {.max = 1 << 17};
    if (!end(GUARD_CODE, language, code, closing, &e)) return;
    CHECK(e.at <= code.len && e.n <= sizeof e.text);
    if (closing != GUARD_CLOSE_NOTHING && code.len < WHOLE_MAX) {
        CHECK(!bytes_append(&all, code.ptr, (size_t)e.at) && !bytes_append(&all, e.text, e.n));
        const view whole = {all.ptr, all.len};
        CHECK(whole_parses(language, whole, whole_is_apart(language, whole)));
        CHECK(!end(GUARD_CODE, language, whole, closing, &again));
    }
    bytes_free(&all);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    cerium_error err;
    guard_ending e;
    if (!rules) {
        CHECK(guard_open(&rules, "rules", &err) == CERIUM_OK);
        CHECK(guard_worker_open(&worker, rules, &err) == CERIUM_OK);
    }
    if (size < 2 || size > 1 << 14) return 0;
    const view text = {(const char *)data + 2, size - 2};
    guard_language language = (guard_language)(data[0] / 4 % GUARD_LANGUAGES);
    guard_closing closing = (guard_closing)(data[0] % 3);
    guard_form form = (guard_form)(data[1] % 4);
    if (form == GUARD_CODE && language) check_code(language, text, closing);
    else if (end(form, language, text, closing, &e))
        CHECK(e.at <= text.len && e.n <= sizeof e.text);
    return 0;
}
