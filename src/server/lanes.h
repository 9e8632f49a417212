/* lanes.h - sends a WebSocket's messages, and orders the answers to its requests in lanes. */
#ifndef SERVER_LANES_H
#define SERVER_LANES_H

#include "net/websocket.h"
#include "protocol/steer.h"
#include "server/state.h"

enum { SERVER_ENDED_IDS = 64 };

struct socket_state {
    websocket *ws; /* owned */
    uint64_t n_messages;
    uint64_t pinged_ns;
    lane *lanes;
    uint32_t n_lanes, n_pending;
    uint64_t opened_ns;
    char ended[SERVER_ENDED_IDS][SERVER_ID_BYTES]; /* the last responses that ended on it */
    uint32_t n_ended;
};

/* Send one message, with the others of this turn. */
void socket_send(connection *c, view json);
/* Send one error event; stream_id: of the lane, or NULL. */
void socket_error(connection *c, const protocol_error *e, const char *stream_id);
/* A closing frame, and the end. */
void socket_end(connection *c, websocket_code code, const char *text);
/* Is it older than config.socket_s?  socket_end_old() ends it for that reason. */
bool socket_is_old(const connection *c, uint64_t now_ns);
void socket_end_old(connection *c);

/* For sinks whose events are messages. */
void socket_event(const sink *k, const char *name, view json);
void socket_limits(const sink *k, const rates_report *left, const char *served_by);

/* A message was parsed: it waits for its turn on its lane, or cancels the named response.  Takes
 * the request, of this many received bytes. */
void lanes_take(connection *c, protocol_request *request, size_t n_bytes, uint64_t started_ns);
/* A response.steer was parsed; takes its input; *e: the reason to refuse it, or NULL. */
void lanes_steer(connection *c, protocol_steer *asked, const protocol_error *e);
/* Cancel the response named by a response.cancel, if it runs; false: it does not. */
bool lanes_cancel(connection *c, const protocol_request *request);
/* Answers left their lanes: begin the next requests.  At the end of each turn of the loop. */
void lanes_start(server *s);
/* The connection is gone: waiting requests are dropped, and running answers lose their lane. */
void lanes_close(connection *c);

#endif
