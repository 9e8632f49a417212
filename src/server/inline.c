/* inline.c - completions and edits of a WebSocket: they have no lane, and a newer one of the same
 * document supersedes them. */
#include "server/inline.h"

#include "server/answer_open.h"
#include "server/answers.h"
#include "server/connection.h"
#include "server/lanes.h"

void inline_refuse(connection *c, const char *id, const protocol_error *e)
{
    bytes event = {.max = 16384};
    if (!protocol_inline_error(&event, e, id))
        socket_send(c, (view){event.ptr, event.len});
    else
        connection_break(c);
    bytes_free(&event);
}

static void refuse(const sink *k, const protocol_error *e) { inline_refuse(k->c, k->name, e); }

static const sink_type inline_sink = {.streams = true,
                                      .limits = socket_limits,
                                      .event = socket_event,
                                      .fail = refuse,
                                      .refuse = refuse};

void inline_begin(connection *c, protocol_request *r, size_t n_bytes, uint64_t started_ns)
{
    protocol_error e;
    char client[32], id[SERVER_ID_BYTES]; /* a WebSocket is a client */
    snprintf(client, sizeof client, "socket %llu", (unsigned long long)c->serial);
    snprintf(id, sizeof id, "%s", r->inline_id);
    answer_order order = {.sink = {.type = &inline_sink, .c = c},
                          .request = r,
                          .id = id,
                          .document = r->document      ? r->document
                                      : r->infill.path ? r->infill.path : "",
                          .client = client,
                          .n_bytes = n_bytes,
                          .started_ns = started_ns};
    if (answer_open(c->s, &order, &e)) inline_refuse(c, id, &e);
}

bool inline_cancel(connection *c, const char *id)
{
    answer *a = id[0] ? c->s->answers : NULL;
    while (a && (a->sink.c != c || !a->request->inline_id || strcmp(a->id, id) != 0)) a = a->next;
    if (a) answer_cancel(a, "completion.cancel");
    return a != NULL;
}
