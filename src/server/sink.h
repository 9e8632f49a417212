/* sink.h - the output of an answer: its form on a connection.
 *
 * An answer knows its events and its end; only the table of its sink knows whether they are a body,
 * an event stream or messages on a lane of a WebSocket.  The calls come in this order: limits, then
 * refuse; or begin, event as often as there are events, and finish or fail.  Another form is
 * another table.  Backpressure belongs to the connection: connection_parked(). */
#ifndef SERVER_SINK_H
#define SERVER_SINK_H

#include "protocol/protocol.h"
#include "server/rates.h"

typedef struct sink sink;
typedef struct connection connection;
typedef struct answer answer;
typedef struct lane lane;

/* In a table NULL means: do nothing. */
typedef struct {
    bool streams; /* events are sent at once; false: only the body is sent, at the end */
    /* The rest of its tenant's limits, and the answering server; served_by NULL: none.
     */
    void (*limits)(const sink *k, const rates_report *left, const char *served_by);
    void (*begin)(const sink *k);
    /* name: of an SSE event, or NULL.  json.ptr NULL: a keepalive that is not an event. */
    void (*event)(const sink *k, const char *name, view json);
    /* body: the whole answer, if it does not stream. */
    void (*finish)(const sink *k, view body);
    /* Instead of the last events, or of the body. */
    void (*fail)(const sink *k, const protocol_error *e);
    /* It never began. */
    void (*refuse)(const sink *k, const protocol_error *e);
    /* The answer occupies its lane; NULL: the lane is free again. */
    void (*occupy)(const sink *k, answer *a);
} sink_type;

struct sink {
    const sink_type *type;
    connection *c;    /* NULL: the client is gone */
    lane *lane;       /* lane of a WebSocket that the answer occupies, or NULL */
    const char *name;  /* of the stream or the completion, in errors; or NULL */
};

static inline void sink_limits(const sink *k, const rates_report *left, const char *served_by)
{
    if (k->c && k->type->limits) k->type->limits(k, left, served_by);
}

static inline void sink_begin(const sink *k)
{
    if (k->c && k->type->begin) k->type->begin(k);
}

static inline void sink_event(const sink *k, const char *name, view json)
{
    if (k->c && k->type->event) k->type->event(k, name, json);
}

static inline void sink_finish(const sink *k, view body)
{
    if (k->c && k->type->finish) k->type->finish(k, body);
}

static inline void sink_fail(const sink *k, const protocol_error *e)
{
    if (k->c) k->type->fail(k, e);
}

static inline void sink_refuse(const sink *k, const protocol_error *e)
{
    if (k->c) k->type->refuse(k, e);
}

/* Also when its client has left: other requests wait for the lane. */
static inline void sink_occupy(const sink *k, answer *a)
{
    if (k->lane) k->type->occupy(k, a);
}

#endif
