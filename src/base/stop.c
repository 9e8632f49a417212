/* stop.c - two small stages: bytes pass the stop strings, then they join into characters. */
#include "base/stop.h"

/* Length of the longest stop string at the end of held; 0: none. */
static uint32_t stop_at_end(stop_state *state, const view *stops, uint32_t n_stops)
{
    uint32_t longest = 0;
    for (uint32_t i = 0; i < n_stops; i++) {
        size_t len = stops[i].len;
        if (len <= longest || len > state->n_held) continue;
        if (memcmp(state->held + state->n_held - len, stops[i].ptr, len) != 0) continue;
        longest = (uint32_t)len;
        state->which = i;
    }
    return longest;
}

/* Length of the longest end of held that begins a stop string. */
static uint32_t begun_at_end(const stop_state *state, const view *stops, uint32_t n_stops)
{
    for (uint32_t from = 0; from < state->n_held; from++) {
        uint32_t len = state->n_held - from;
        for (uint32_t i = 0; i < n_stops; i++)
            if (len <= stops[i].len && !memcmp(state->held + from, stops[i].ptr, len)) return len;
    }
    return 0;
}

/* The number of bytes at the end of text that begin a character that may still become valid: the
 * ranges are those of the Unicode standard, table 3-7. */
static uint32_t utf8_unfinished(const char *text, size_t len)
{
    for (uint32_t n = 1; n <= STOP_UTF8_MAX && n <= len; n++) {
        const unsigned char *c = (const unsigned char *)text + len - n;
        if (*c >= 0x80 && *c < 0xc0) continue;
        uint32_t need = *c < 0xc2 ? 1 : *c < 0xe0 ? 2 : *c < 0xf0 ? 3 : *c < 0xf5 ? 4 : 1;
        if (n >= need) return 0;
        unsigned low = *c == 0xe0 ? 0xa0 : *c == 0xf0 ? 0x90 : 0x80;
        unsigned high = *c == 0xed ? 0x9f : *c == 0xf4 ? 0x8f : 0xbf;
        return n == 1 || (c[1] >= low && c[1] <= high) ? n : 0;
    }
    return 0;
}

/* Hold back the beginning of a character from out[n].  Returns the remaining length. */
static size_t hold_unfinished(stop_state *state, const char *out, size_t n)
{
    state->n_utf8 = utf8_unfinished(out, n);
    n -= state->n_utf8;
    memcpy(state->utf8, out + n, state->n_utf8);
    return n;
}

/* Move the first n held bytes to out. */
static size_t stop_release(stop_state *state, uint32_t n, char *out)
{
    CHECK(n <= state->n_held);
    memcpy(out, state->held, n);
    state->n_held -= n;
    memmove(state->held, state->held + n, state->n_held);
    return n;
}

size_t stop_feed(stop_state *state, const char *const *stops, uint32_t n_stops, view bytes,
                 char *out, bool *hit)
{
    view texts[CERIUM_STOPS_MAX];
    CHECK(n_stops <= CERIUM_STOPS_MAX && state->n_utf8 <= STOP_UTF8_MAX);
    for (uint32_t i = 0; i < n_stops; i++) texts[i] = view_of(stops[i]);
    size_t n = state->n_utf8;
    memcpy(out, state->utf8, n);
    state->n_utf8 = 0;
    *hit = false;
    for (size_t i = 0; i < bytes.len; i++) {
        CHECK(state->n_held < sizeof state->held);
        state->held[state->n_held++] = bytes.ptr[i];
        uint32_t len = stop_at_end(state, texts, n_stops);
        if (len > 0) {
            n += stop_release(state, state->n_held - len, out + n);
            state->n_held = 0;
            *hit = true;
            return n;
        }
        n += stop_release(state, state->n_held - begun_at_end(state, texts, n_stops), out + n);
    }
    return hold_unfinished(state, out, n);
}

size_t stop_flush(stop_state *state, char *out)
{
    size_t n = state->n_utf8;
    memcpy(out, state->utf8, n);
    state->n_utf8 = 0;
    return n + stop_release(state, state->n_held, out + n);
}
