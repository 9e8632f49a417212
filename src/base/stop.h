/* stop.h - the part of a stream of token bytes that may be shown, and its end at a stop string.
 *
 * Bytes are held back while they may be the beginning of a stop string or of a UTF-8 character,
 * and come out as soon as they cannot.  How the stream is cut into pieces changes only when bytes
 * come out, never which.  The first stop string that is complete ends the text just before it; of
 * several that end at the same byte, the longest counts. */
#ifndef BASE_STOP_H
#define BASE_STOP_H

#include "base/base.h"

enum {
    STOP_UTF8_MAX = 3, /* an unfinished character: at most 3 of its 4 bytes */
    /* The most that feeding len bytes can write: all held bytes, and these. */
    STOP_HELD_MAX = CERIUM_STOP_BYTES_MAX + STOP_UTF8_MAX,
};

/* Zero-initialised, nothing is held back. */
typedef struct {
    uint32_t n_held; /* may begin a stop string */
    uint32_t n_utf8; /* before those: begin a character */
    uint32_t which;  /* a stop string was reached */
    char held[CERIUM_STOP_BYTES_MAX];
    char utf8[STOP_UTF8_MAX];
} stop_state;

/* Take bytes; write those that may be shown.
 *   stops: [n_stops] validated; may change from call to call
 *   out:   [STOP_HELD_MAX + bytes.len]; does not alias bytes
 *   hit:   set to whether a stop string was reached: the rest of bytes is dropped, nothing is
 *          held any more, and a character cut by the stop string is written as far as it came
 * Returns how many bytes were written. */
size_t stop_feed(stop_state *state, const char *const *stops, uint32_t n_stops, view bytes,
                 char *out, bool *hit);

/* The stream ended: write the held bytes, at most STOP_HELD_MAX bytes. */
size_t stop_flush(stop_state *state, char *out);

#endif
