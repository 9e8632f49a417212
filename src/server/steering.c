/* steering.c - steers from acceptance to commitment, and the reports about them. */
#include "server/steering.h"

#include "server/ids.h"
#include "server/lanes.h"

enum { STEERS_MAX = 16, STEERS_BYTES_MAX = 1 << 20 };

struct steer {
    steer *next;
    protocol_steer request; /* owned */
    char id[SERVER_ID_BYTES];
};

/* ---- events ---- */

typedef struct {
    bytes event;
    int status;
} message;

static void tell(connection *c, message *m)
{
    if (!m->status) socket_send(c, (view){m->event.ptr, m->event.len});
    bytes_free(&m->event);
}

/* Numbers continue after those of the response. */
static uint64_t next_number(steering *g, const steering_lane *at)
{
    if (at->a && at->a->writer) g->sequence = protocol_writer_sequence(at->a->writer);
    return g->sequence++;
}

static protocol_steer_reply reply_for(const steer *s, const steering_lane *at, uint64_t sequence)
{
    return (protocol_steer_reply){.id = s->id, .previous = s->request.previous,
                                 .stream_id = at->name, .sequence = sequence};
}

static void tell_failed(steering *g, const steering_lane *at, const steer *s,
                        const protocol_error *e)
{
    message m = {.event.max = 2u * PROTOCOL_BODY_BYTES_MAX};
    protocol_steer_reply reply = reply_for(s, at, next_number(g, at));
    m.status = protocol_steer_failed(&m.event, &reply, s->request.input, e);
    tell(at->c, &m);
}

void steering_refuse(const steering_lane *at, const protocol_steer *request,
                     const protocol_error *e)
{
    message m = {.event.max = 2u * PROTOCOL_BODY_BYTES_MAX};
    steering none = {.sequence = 0};
    protocol_steer_reply reply = {.previous = request->previous ? request->previous : "",
                                .stream_id = at->name,
                                .sequence = at->a ? next_number(&none, at) : 0};
    m.status = protocol_steer_failed(&m.event, &reply, request->input, e);
    tell(at->c, &m);
}

/* ---- states ---- */

static void drop_first(steering *g)
{
    steer *s = g->first;
    g->first = s->next;
    g->n--;
    g->n_bytes -= s->request.n_bytes;
    protocol_steer_free(&s->request);
    memory_free(s);
}

static void tell_pending(steering *g, const steering_lane *at, const steer *s,
                         const json_t *output)
{
    message m = {.event.max = 1 << 20};
    protocol_steer_reply reply = reply_for(s, at, next_number(g, at));
    m.status = protocol_steer_pending(&m.event, &reply, output);
    tell(at->c, &m);
}

void steering_take(steering *g, const steering_lane *at, protocol_steer *request)
{
    protocol_error e;
    steer *s = memory_zalloc(1, sizeof *s);
    message m = {.event.max = 1 << 16};
    if (g->n >= STEERS_MAX || g->n_bytes + request->n_bytes > STEERS_BYTES_MAX || !s) {
        (void)protocol_error_set(&e, 400, "invalid_request_error", "too_many_pending_steers", "",
                                 "%u steers wait for this response: it takes %u, of %u bytes "
                                 "together", g->n, STEERS_MAX, STEERS_BYTES_MAX);
        steering_refuse(at, request, &e);
        protocol_steer_free(request);
        memory_free(s);
        return;
    }
    s->request = *request;
    *request = (protocol_steer){.previous = NULL};
    make_id(s->id, "steer_");
    steer **end = &g->first;
    while (*end) end = &(*end)->next;
    *end = s;
    g->n++;
    g->n_bytes += s->request.n_bytes;
    protocol_steer_reply reply = reply_for(s, at, next_number(g, at));
    m.status = protocol_steer_accepted(&m.event, &reply);
    tell(at->c, &m);
}

json_t *steering_leave(steering *g)
{
    json_t *items = json_array();
    bool whole = items != NULL;
    for (const steer *s = g->first; s && whole; s = s->next)
        whole = !json_array_extend(items, s->request.items);
    if (!whole) {
        json_decref(items);
        return NULL;
    }
    g->n_leaving = g->n;
    g->of[0] = 0;
    return items;
}

void steering_commit(steering *g)
{
    for (; g->n_leaving; g->n_leaving--) drop_first(g);
}

void steering_fail(steering *g, const steering_lane *at, bool leaving, const char *code,
                   const char *why)
{
    protocol_error e;
    (void)protocol_error_set(&e, 400, "invalid_request_error", code, "", "%s", why);
    for (uint32_t n = leaving ? g->n_leaving : g->n; n; n--) {
        tell_failed(g, at, g->first, &e);
        drop_first(g);
    }
    g->n_leaving = 0;
    if (!leaving) g->of[0] = 0;
}

void steering_wait(steering *g, const steering_lane *at)
{
    const json_t *output = protocol_writer_output(at->a->writer);
    snprintf(g->of, sizeof g->of, "%s", at->a->id);
    for (const steer *s = g->first; s; s = s->next) tell_pending(g, at, s, output);
}

void steering_close(steering *g)
{
    while (g->first) drop_first(g);
    g->n_leaving = 0;
}
