/* sink.h - the output of an answer: its form on a connection.
 *
 * An answer knows its events and its end; whether they are a body, an event stream or messages on
 * a lane of a WebSocket, only the table of its sink knows.  The calls come in this order: limits,
 * then refuse; or begin, event as often as there are events, and finish or fail.  Another dialect
 * is another table.  Backpressure is the connection's: connection_parked(). */
#ifndef SERVER_SINK_H
#define SERVER_SINK_H

#include "protocol/protocol.h"
#include "server/rates.h"

typedef struct sink sink;
typedef struct connection connection;
typedef struct answer answer;
typedef struct lane lane;

/* What NULL means in a table: there is nothing to do. */
typedef struct {
    bool streams; /* events go out as they come; false: none do, and the body does at the end */
    /* What is left of the limits of its tenant, and the server that answers; served_by NULL: none.
     * */
    void (*limits)(const sink *k, const rates_report *left, const char *served_by);
    void (*begin)(const sink *k);
    /* name: of an SSE event, or NULL.  json.ptr NULL: a sign of life that is not an event. */
    void (*event)(const sink *k, const char *name, view json);
    /* body: the whole answer, where nothing streams. */
    void (*finish)(const sink *k, view body);
    /* In place of the last events, or of the body. */
    void (*fail)(const sink *k, const protocol_error *e);
    /* It never began. */
    void (*refuse)(const sink *k, const protocol_error *e);
    /* The lane is the answer's; NULL: it is free again. */
    void (*occupy)(const sink *k, answer *a);
} sink_type;

struct sink {
    const sink_type *type;
    connection *c;    /* NULL: the client is gone */
    lane *lane;       /* of a WebSocket, that the answer occupies, or NULL */
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

/* Also when its client has left: others wait for the lane. */
static inline void sink_occupy(const sink *k, answer *a)
{
    if (k->lane) k->type->occupy(k, a);
}

#endif
