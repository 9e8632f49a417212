/* steering.h - the steers of a lane: accepted, waiting for their response to end, and then part of
 * the request that continues it.
 *
 *   accepted -> its response ends -> committed with the successor's response.created
 *                                 -> or reported as pending, where the client has calls to answer,
 *                                    and committed with the create that answers them
 *                                 -> or failed, with its input */
#ifndef SERVER_STEERING_H
#define SERVER_STEERING_H

#include "protocol/steer.h"
#include "server/state.h"

typedef struct steer steer;

typedef struct {
    steer *first;            /* owned, in their order */
    uint32_t n, n_leaving;   /* the first ones are in a request that has not begun */
    size_t n_bytes;
    char of[SERVER_ID_BYTES]; /* pending: the response whose calls must be answered first; or "" */
    uint64_t sequence;       /* of events sent when no response runs */
} steering;

/* The lane and the response of the events. */
typedef struct {
    connection *c;
    const char *name; /* of the lane, or NULL */
    answer *a;        /* running on it, or just ended there; NULL: none */
} steering_lane;

/* Accept, with an event; or refuse.  Takes its input. */
void steering_take(steering *g, const steering_lane *at, protocol_steer *request);
/* Report that it failed without having been accepted; at->a may be NULL. */
void steering_refuse(const steering_lane *at, const protocol_steer *request,
                     const protocol_error *e);
/* The items of all waiting steers, for a request; they are then part of it.  NULL: out of
 * memory. */
json_t *steering_leave(steering *g);
/* The request began: its steers are committed. */
void steering_commit(steering *g);
/* Return steers to the client: all of them, or those of a request. */
void steering_fail(steering *g, const steering_lane *at, bool leaving, const char *code,
                   const char *why);
/* The response ended with calls of the client. */
void steering_wait(steering *g, const steering_lane *at);
/* Frees them without an event. */
void steering_close(steering *g);

#endif
