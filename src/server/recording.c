/* recording.c - events of stored responses in memory, and the connections that follow them. */
#include "server/recording.h"

#include "server/connection.h"

struct recording {
    server *s;
    recording *next, *previous; /* newest first */
    uint64_t tenant;
    char id[SERVER_ID_BYTES];
    bytes events;         /* each: kept_event, name with its NUL, data */
    uint64_t dropped;     /* bytes dropped before the first event */
    int64_t first, count; /* number of the first stored event, and of the next one */
    uint64_t ended_ns;    /* 0: it still runs */
    uint32_t n_telling;   /* events are being sent: it must stay */
    connection *followers;
};

typedef struct {
    size_t name_len, len; /* name_len 0: it has none */
} kept_event;

/* ---- stored events ---- */

recording *recording_open(server *s, uint64_t tenant, const char *id)
{
    recording *r = memory_zalloc(1, sizeof *r);
    if (!r) return NULL;
    r->s = s;
    r->tenant = tenant;
    snprintf(r->id, sizeof r->id, "%s", id);
    r->events.max = SERVER_RECORD_BYTES_MAX;
    r->next = s->recordings;
    if (r->next) r->next->previous = r;
    s->recordings = r;
    return r;
}

static size_t at(const recording *r, size_t offset, kept_event *head, const char **name,
                 view *json)
{
    memcpy(head, r->events.ptr + offset, sizeof *head);
    const char *text = r->events.ptr + offset + sizeof *head;
    *name = head->name_len ? text : NULL;
    *json = (view){text + head->name_len, head->len};
    return offset + sizeof *head + head->name_len + head->len;
}

/* Drop the oldest events, at least this many bytes, or all. */
static void forget_oldest(recording *r, size_t n_bytes)
{
    size_t end = 0;
    kept_event head;
    const char *name;
    view json;
    for (; end < r->events.len && end < n_bytes; r->first++)
        end = at(r, end, &head, &name, &json);
    memmove(r->events.ptr, r->events.ptr + end, r->events.len - end);
    r->events.len -= end;
    r->dropped += end;
}

static void forget_all(recording *r)
{
    r->dropped += r->events.len;
    r->first = r->count;
    bytes_free(&r->events); /* keeps its maximum */
}

static recording *oldest_ended(const server *s)
{
    recording *found = NULL;
    for (recording *r = s->recordings; r; r = r->next)
        if (r->ended_ns && !r->n_telling) found = r;
    return found;
}

size_t recordings_bytes(const server *s)
{
    size_t n = 0;
    for (const recording *r = s->recordings; r; r = r->next) n += r->events.cap;
    return n;
}

/* Make room for this many bytes more of r.  False: there is none. */
static bool make_room(recording *r, size_t n_bytes)
{
    bytes *b = &r->events;
    if (n_bytes > b->max) return false;
    if (b->len + n_bytes > b->max) {
        const size_t need = b->len + n_bytes - b->max;
        forget_oldest(r, need > b->max / 2 ? need : b->max / 2);
    }
    if (b->len + n_bytes <= b->cap) return true;
    /* It grows, to at most twice its size. */
    while (recordings_bytes(r->s) + b->len + n_bytes > SERVER_RECORDS_BYTES_MAX) {
        recording *oldest = oldest_ended(r->s);
        if (!oldest) return false;
        recording_drop(&oldest);
    }
    return true;
}

static int append(bytes *b, const kept_event *head, const char *name, view json)
{
    const size_t was = b->len;
    int status = bytes_append(b, head, sizeof *head);
    if (!status && name) status = bytes_append(b, name, head->name_len);
    if (!status) status = bytes_append(b, json.ptr, json.len);
    if (status) b->len = was;
    return status;
}

/* ---- followers ---- */

bool recording_is_followed(const recording *r) { return r && r->followers; }

void recording_leave(connection *c)
{
    recording *r = c->http.follows;
    if (!r) return;
    connection **link = &r->followers;
    while (*link != c) link = &(*link)->http.next_follower;
    *link = c->http.next_follower;
    c->http.follows = NULL;
    c->http.next_follower = NULL;
}

/* Some events that the follower needs are gone. */
static void tell_gone(connection *c)
{
    protocol_error e;
    recording_leave(c);
    (void)protocol_error_set(&e, 400, "invalid_request_error", "stream_expired", "starting_after",
                             "events of this response are not kept any more");
    sink_fail(&(sink){.type = c->http.follow_sink, .c = c}, &e);
}

/* The next event for the connection, which may be over with it.  False: there is none now. */
static bool tell_next(connection *c, recording *r)
{
    exchange *x = &c->http;
    const sink out = {.type = x->follow_sink, .c = c};
    kept_event head;
    const char *name;
    view json;
    if (x->followed < r->dropped) {
        tell_gone(c);
        return false;
    }
    const size_t offset = (size_t)(x->followed - r->dropped);
    if (offset == r->events.len) {
        if (!r->ended_ns) return false;
        recording_leave(c);
        sink_finish(&out, (view){NULL, 0});
        return false;
    }
    x->followed = r->dropped + at(r, offset, &head, &name, &json);
    if (x->follow_number++ >= x->follow_from) sink_event(&out, name, json);
    return true;
}

/* Send recorded events, as fast as the reader takes them; after the last one, end its stream. */
static void tell(connection *c, recording *r)
{
    r->n_telling++;
    while (c->http.follows == r && !c->gone && !c->closing && !connection_parked(c))
        if (!tell_next(c, r)) break;
    r->n_telling--;
}

void recording_reads(connection *c)
{
    if (c->http.follows) tell(c, c->http.follows);
}

/* A follower that leaves meanwhile is no longer in a list, but valid until the turn ends. */
static void tell_all(recording *r)
{
    r->n_telling++;
    for (connection *c = r->followers, *next; c; c = next) {
        next = c->http.next_follower;
        tell(c, r);
        if (next && next->http.follows != r) next = r->followers;
    }
    r->n_telling--;
}

int recording_follow(const sink *k, recording *r, int64_t after, protocol_error *e)
{
    connection *c = k->c;
    CHECK(!c->http.follows);
    const int64_t from = after < INT64_MAX ? after + 1 : after;
    if (from < r->first && !r->ended_ns)
        return protocol_error_set(e, 400, "invalid_request_error", "stream_expired",
                                  "starting_after", "events are kept from number %lld on",
                                  (long long)r->first);
    metrics_count(&c->s->metrics, METRICS_RESUMED, 1);
    sink_begin(k);
    if (c->gone) return CERIUM_OK;
    c->http.follows = r;
    c->http.follow_sink = k->type;
    c->http.followed = r->dropped;
    c->http.follow_number = r->first;
    /* It ended, and some events are gone, but not the last one. */
    c->http.follow_from = from < r->first ? r->count - 1 : from;
    c->http.next_follower = r->followers;
    r->followers = c;
    tell(c, r);
    return CERIUM_OK;
}

/* ---- from its first event to its last ---- */

void recording_add(recording *r, const char *name, view json)
{
    if (!r || r->ended_ns || !json.ptr) return;
    const kept_event head = {name ? strlen(name) + 1 : 0, json.len};
    const bool has_room = make_room(r, sizeof head + head.name_len + head.len);
    r->count++;
    if (!has_room || append(&r->events, &head, name, json)) forget_all(r);
    tell_all(r);
}

void recording_end(recording *r)
{
    if (!r || r->ended_ns) return;
    r->ended_ns = clock_ns();
    tell_all(r);
}

void recording_drop(recording **out)
{
    recording *r = *out;
    *out = NULL;
    if (!r) return;
    while (r->followers) tell_gone(r->followers);
    *(r->previous ? &r->previous->next : &r->s->recordings) = r->next;
    if (r->next) r->next->previous = r->previous;
    bytes_free(&r->events);
    memory_free(r);
}

/* ---- all of them ---- */

recording *recording_find(server *s, uint64_t tenant, const char *id)
{
    recording *r = s->recordings;
    while (r && (r->tenant != tenant || strcmp(r->id, id) != 0)) r = r->next;
    return r && (r->events.len || !r->ended_ns) ? r : NULL;
}

void recordings_tick(server *s, uint64_t now_ns)
{
    for (recording *r = s->recordings, *next; r; r = next) {
        next = r->next;
        bool is_old = r->ended_ns && now_ns > r->ended_ns + SERVER_RECORD_NS;
        if (is_old || (r->ended_ns && !r->events.len)) recording_drop(&r);
    }
}

void recordings_close(server *s)
{
    while (s->recordings) {
        recording *r = s->recordings;
        recording_drop(&r);
    }
}
