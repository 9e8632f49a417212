/* tcp_stream.h - one TCP connection, plain or TLS: its input, its queued output, and its end.
 *
 * Input is read up to STREAM_IN_BYTES_MAX even while the owner is paused, so that the peer's close
 * is noticed. Output is written at once as far as the socket takes it; the rest is queued in
 * pieces, counted, and sent as the socket takes more.
 *
 * Handlers are called from the loop alone, never from within a function of this file that the
 * handler's owner calls: a stream that breaks during a write reports it in the next turn. */
#ifndef NET_TCP_STREAM_H
#define NET_TCP_STREAM_H

#include "base/limits.h"
#include "base/memory.h"
#include "net/event_loop.h"
#include "net/tls.h"

typedef struct stream stream;

typedef struct {
    /* Bytes arrived: read stream_input() and consume some. Return true to be called again for the
     * rest even if no more arrives (in the next turn, after all others). */
    bool (*input)(void *user);
    /* The peer sends no more, and its input is consumed or incomplete. Called once. */
    void (*ended)(void *user);
    /* The socket took some of the queued output. */
    void (*sent)(void *user);
    /* The stream is over: nothing more is read or sent.  Called once. */
    void (*closed)(void *user);
    /* The last call: the owner may free what holds the stream. */
    void (*released)(void *user);
} stream_events;

/* Queued output, in pieces. */
typedef struct stream_piece stream_piece;
typedef struct {
    stream_piece *first, *last;
    size_t bytes;
} stream_queue;

struct stream {
    net_loop *loop;
    const stream_events *events;
    void *user;
    uv_poll_t poll;
    int fd, watched; /* events that the poll waits for */
    tls *tls;        /* owned; NULL = plain */
    stream *next_ready;
    void (*run)(stream *s); /* the loop's: one turn of a ready stream */
    bool is_ready;
    bytes in;
    size_t in_used; /* in front of in, already used */
    bool more;      /* reading stopped only because the buffer was full */
    stream_queue out, held;
    bool holds;            /* output goes to held */
    bool paused;           /* input is not called */
    bool at_end, end_reported; /* the peer sends no more */
    bool is_full;          /* the socket is full; until it is writable again */
    bool took;             /* it took some of the queue: the owner is notified in the next turn */
    bool broken;           /* nothing can be sent or read any more */
    bool closing;          /* when out is empty */
    bool lingers;          /* closed for writing; still reads, so that the peer gets our last
                            * bytes */
    bool is_closed;
    uint64_t lingers_ns;  /* since */
    uint64_t waits_ns;    /* since when out has made no progress; 0 = out is empty */
    size_t progress;      /* bytes taken since then */
    uint64_t *sent_total; /* counter of sent bytes */
};

/* Take an accepted socket: owned, also on error.  context: NULL = plain.  The stream's memory is
 * the caller's, until events->released. */
CERIUM_CHECKED int stream_open(stream *s, net_loop *l, int fd, tls_context *context,
                               const stream_events *events, void *user);

/* Received and unused bytes; valid until the next call of a stream function. */
view stream_input(const stream *s);
void stream_use(stream *s, size_t n);
/* Call no input() until stream_resume(), which calls it in the next turn if input is left. */
void stream_pause(stream *s);
void stream_resume(stream *s);

/* Queue head and body after the waiting output; sent by stream_flush(). CERIUM_ERR_MEMORY: nothing
 * of it is sent.  Without effect, and CERIUM_OK, on a stream that is over. */
CERIUM_CHECKED int stream_put(stream *s, view head, view body);
void stream_flush(stream *s);
/* Bytes that are queued, including held ones. */
static inline size_t stream_waiting(const stream *s)
{
    return s->out.bytes + s->held.bytes;
}

/* Hold output back from here on, until it is released. */
void stream_hold(stream *s);
void stream_let_go(stream *s);

/* Close when the peer has all output: both sides read to the end (RFC 9112, 9.6). */
void stream_close(stream *s);
/* Close now; queued output is lost. */
void stream_break(stream *s);

/* Once a second: ends a linger, and breaks a stream whose peer took less than STREAM_PROGRESS_BYTES
 * of the queue in stall_ns.  True when it broke it. */
bool stream_tick(stream *s, uint64_t now_ns, uint64_t stall_ns);

#endif
