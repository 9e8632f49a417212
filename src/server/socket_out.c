/* socket_out.c - outgoing messages of a WebSocket. */
#include "server/connection.h"
#include "server/lanes.h"

void socket_send(connection *c, view json)
{
    size_t waiting = stream_waiting(&c->io);
    if (c->gone) return;
    metrics_count(&c->s->metrics, METRICS_EVENTS, 1);
    if (c->closing) return;
    if (waiting + json.len <= SERVER_OUT_BYTES_MAX && !websocket_send(c->socket->ws, json)) return;
    log_event(LOG_WARNING, "dropped", "peer=%s reason=\"%zu bytes wait for the reader\"", c->peer,
              waiting);
    connection_break(c);
}

void socket_error(connection *c, const protocol_error *e, const char *stream_id)
{
    bytes event = {.max = 16384};
    if (!protocol_error_event(&event, e, stream_id))
        socket_send(c, (view){event.ptr, event.len});
    else
        connection_break(c);
    bytes_free(&event);
}
