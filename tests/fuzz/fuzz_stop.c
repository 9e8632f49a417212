/* fuzz_stop.c - stop strings, a text and its cuts, all from the input.
 *
 * Input: stop strings, each ended by a NUL, until an empty one; then pieces, each a byte with
 * its length and the bytes.  The text must come out as it went in up to the first stop string. */
#include "base/stop.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Where the first complete stop string begins; len when there is none. */
static size_t naive_end(const char *text, size_t len, const char *const *stops, uint32_t n_stops)
{
    for (size_t end = 1; end <= len; end++) {
        size_t longest = 0;
        for (uint32_t i = 0; i < n_stops; i++) {
            size_t n = strlen(stops[i]);
            if (n > longest && n <= end && !memcmp(text + end - n, stops[i], n)) longest = n;
        }
        if (longest) return end - longest;
    }
    return len;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static char stop_text[CERIUM_STOPS_MAX][CERIUM_STOP_BYTES_MAX + 1];
    static char text[4096], shown[sizeof text + 2 * STOP_HELD_MAX];
    const char *stops[CERIUM_STOPS_MAX];
    uint32_t n_stops = 0;
    size_t at = 0, text_len = 0, n_shown = 0;
    bool hit = false;
    for (; n_stops < CERIUM_STOPS_MAX && at < size && data[at]; n_stops++) {
        size_t len = 0;
        while (at < size && data[at] && len < CERIUM_STOP_BYTES_MAX)
            stop_text[n_stops][len++] = (char)data[at++];
        stop_text[n_stops][len] = 0;
        stops[n_stops] = stop_text[n_stops];
        if (at < size && !data[at]) at++;
    }
    if (at < size && !data[at]) at++;
    stop_state state = {0};
    while (at < size && !hit) {
        size_t len = data[at++];
        if (len > size - at) len = size - at;
        if (len > sizeof text - text_len) break;
        memcpy(text + text_len, data + at, len);
        n_shown += stop_feed(&state, stops, n_stops, (view){(const char *)data + at, len},
                             shown + n_shown, &hit);
        at += len;
        text_len += len;
        CHECK(n_shown <= text_len &&
              (hit || n_shown + CERIUM_STOP_BYTES_MAX + STOP_UTF8_MAX > text_len));
    }
    n_shown += stop_flush(&state, shown + n_shown);
    size_t want = naive_end(text, text_len, stops, n_stops);
    CHECK(hit == (want < text_len) && n_shown == want && !memcmp(shown, text, want));
    return 0;
}
