/* event_loop.h - the event loop (libuv): sockets, timers and the list of ready streams.
 *
 * All functions except net_loop_wake() belong to the thread that calls net_loop_turn().
 *
 * Sockets are watched level-triggered: while a socket is readable or writable and its stream is
 * interested, every turn reports it again. No socket reports input that was already read but not
 * consumed; such streams are in the ready list, and each turn calls every one of them once. So no
 * stream can miss a wake-up, and none can hold the loop. */
#ifndef NET_EVENT_LOOP_H
#define NET_EVENT_LOOP_H

#include <stdatomic.h>

#include <uv.h>

#include "base/base.h"

struct stream;

/* A histogram of the durations of turns.  A turn longer than a connection's round trip delays all
 * of them. */
enum { NET_TURN_BUCKETS = 4 };
extern const double net_turn_bounds[NET_TURN_BUCKETS]; /* seconds */

typedef struct {
    uint64_t n, n_within[NET_TURN_BUCKETS]; /* cumulative, as in Prometheus */
    double seconds, longest;
} net_turns;

typedef struct {
    void (*woken)(void *user);  /* after net_loop_wake(), however often it was called */
    void (*ticked)(void *user); /* once a second */
    void (*timed)(void *user);  /* the time of net_loop_later() has come */
} net_loop_events;

typedef struct net_loop {
    uv_loop_t uv;
    uv_async_t async;
    uv_timer_t tick, later;
    uv_check_t check;            /* after the poll: runs the ready streams */
    uv_idle_t idle;              /* active while something is ready: the poll does not sleep then */
    uv_prepare_t prepare;        /* before the poll: the turn ends */
    struct stream *first, *last; /* ready */
    net_loop_events events;
    void *user;
    net_turns turns;
    uint64_t began_ns, idle_ns; /* the current turn; sleep before it */
    bool is_open;
} net_loop;

CERIUM_CHECKED int net_loop_open(net_loop *l, const net_loop_events *events, void *user,
                                 cerium_error *err);
/* All streams and listeners are closed; runs their last callbacks. */
void net_loop_close(net_loop *l);

/* Wait for an event, and handle it. */
void net_loop_turn(net_loop *l);
/* From any thread and from signal handlers. */
void net_loop_wake(net_loop *l);
/* Call events.timed in ms milliseconds, once; this replaces an earlier timer. */
void net_loop_later(net_loop *l, uint64_t ms);

/* For tcp_stream.c: run the stream in the next turn; it is not in the list yet. */
void net_loop_ready(net_loop *l, struct stream *s);
/* It is in the list, and will be freed. */
void net_loop_forget(net_loop *l, struct stream *s);

#endif
