/* kv_publisher.c - the sockets of KV events.
 *
 * A message has three frames: a topic `kv@HOST:PORT@MODEL`, its number (8 bytes, big-endian, from
 * 0), and a batch (kv_events.h).  A subscriber that reads too slowly misses messages, sees a gap in
 * the numbers, and asks the other socket: the answer to `["", first]` is every stored message from
 * that number on, `["", topic, number, batch]`, and an end with the number 2^64 - 1.  This is what
 * vLLM does, and neither side waits. */
#include "server/kv_publisher.h"

#include <time.h>
#include <unistd.h>

#include "net/zmtp.h"
#include "server/kv_events.h"
#include "server/log.h"
#include "server/model_list.h"

enum {
    POD_BYTES_MAX = 255,
    PEERS_MAX = 32,             /* of each socket */
    TOPICS_MAX = 32, TOPIC_BYTES_MAX = 300,
    FRAME_BYTES_MAX = 1024,     /* of a peer's messages */
    UNSENT_BYTES_MAX = 8 << 20, /* of a subscriber; beyond that it misses messages */
    REPLAYED_BYTES = 1 << 20,   /* stored messages queued for a socket at once */
    KEPT_MAX = 10000, KEPT_BYTES_MAX = 32 << 20,
    HANDSHAKE_S = 10, STALL_S = 60,
};
#define KV_EVENTS_END UINT64_MAX

typedef struct {
    uint8_t *all; /* owned: as on the wire, topic, number, batch */
    size_t len;
} message;

typedef struct peer {
    struct kv_publisher *of;
    struct peer *next;
    stream io;
    uint64_t since_ns;
    bool is_replay, is_greeted, is_ready, is_closed;
    bool in_message;            /* a replay's: its first frame, which is empty, was read */
    bool replays;               /* requested from this number on: */
    uint64_t at;
    uint32_t n_topics;
    struct {
        uint32_t len;
        char text[TOPIC_BYTES_MAX];
    } topics[TOPICS_MAX];       /* beginnings of topics */
} peer;

typedef struct kv_publisher {
    server *s;
    listeners events, replays;
    uv_async_t async;
    bool has_async;
    peer *peers;
    uint32_t n_peers[2];        /* of events and of replays */
    char pod[POD_BYTES_MAX + 1];              /* of topics */
    uint64_t n;                 /* messages so far: the number of the next */
    message kept[KEPT_MAX];     /* earlier messages, modulo the size */
    uint64_t n_kept;
    size_t kept_bytes;
    bytes batch, out;
} kv_publisher;

/* ---- messages ---- */

static void keep(kv_publisher *p, message m)
{
    while (p->n_kept && (p->n_kept == KEPT_MAX || p->kept_bytes + m.len > KEPT_BYTES_MAX)) {
        message *old = &p->kept[(p->n - p->n_kept--) % KEPT_MAX];
        p->kept_bytes -= old->len;
        memory_free(old->all);
        *old = (message){0};
    }
    p->kept[p->n % KEPT_MAX] = m;
    p->kept_bytes += m.len;
    p->n_kept++;
    p->n++;
}

static bool subscribes(const peer *c, view topic)
{
    for (uint32_t i = 0; i < c->n_topics; i++)
        if (c->topics[i].len <= topic.len &&
            !memcmp(c->topics[i].text, topic.ptr, c->topics[i].len))
            return true;
    return false;
}

static void send_to(peer *c, const void *from, size_t n)
{
    if (stream_put(&c->io, (view){from, n}, (view){"", 0})) stream_break(&c->io);
    stream_flush(&c->io);
}

/* Without memory a message is not sent: its number is missing. */
static int write_message(kv_publisher *p, view topic)
{
    uint8_t number[8];
    zmtp_put_u64(number, p->n);
    p->out.len = 0;
    RETURN_IF(zmtp_write_frame(&p->out, true, false, topic));
    RETURN_IF(zmtp_write_frame(&p->out, true, false, (view){(char *)number, sizeof number}));
    return zmtp_write_frame(&p->out, false, false, (view){p->batch.ptr, p->batch.len});
}

static void publish(kv_publisher *p, uint32_t model)
{
    char text[TOPIC_BYTES_MAX + 256];
    const server *s = p->s;
    const char *name = model < models_n(s) ? models_at(s, model)->names[0] : "";
    snprintf(text, sizeof text, "kv@%s@%s", p->pod, name);
    const view topic = view_of(text);
    uint8_t *copy = write_message(p, topic) ? NULL : memory_copy(p->out.ptr, p->out.len);
    if (!copy) {
        keep(p, (message){0});
        return;
    }
    keep(p, (message){copy, p->out.len});
    for (peer *c = p->peers; c; c = c->next)
        if (!c->is_replay && !c->is_closed && subscribes(c, topic) &&
            stream_waiting(&c->io) + p->out.len <= UNSENT_BYTES_MAX)
            send_to(c, p->out.ptr, p->out.len);
}

static void take_all(kv_publisher *p)
{
    struct timespec now;
    uint32_t model;
    clock_gettime(CLOCK_REALTIME, &now);
    for (;;) {
        p->batch.len = 0;
        if (!kv_events_take(p->s->config.kv_pages, (double)now.tv_sec + (double)now.tv_nsec * 1e-9,
                            &model, &p->batch))
            return;
        publish(p, model);
    }
}

static void on_async(uv_async_t *async) { take_all(async->data); }

static void wake(void *user)
{
    kv_publisher *p = user;
    uv_async_send(&p->async);
}

/* ---- replay ---- */

static void replay_some(peer *c)
{
    kv_publisher *p = c->of;
    static const char empty[2] = {1, 0}; /* more, no bytes: before the frames of each answer */
    uint8_t end[2 + 2 + 10 + 2] = {1, 0, 1, 0, 1, 8};
    if (c->at < p->n - p->n_kept) c->at = p->n - p->n_kept;
    while (c->at < p->n && !c->is_closed && stream_waiting(&c->io) < REPLAYED_BYTES) {
        const message *m = &p->kept[c->at++ % KEPT_MAX];
        if (!m->all) continue;
        send_to(c, empty, sizeof empty);
        send_to(c, m->all, m->len);
    }
    if (c->at < p->n) return;
    c->replays = false;
    zmtp_put_u64(end + 6, KV_EVENTS_END);
    send_to(c, end, sizeof end);
}

static bool take_request(peer *c, const zmtp_frame *f)
{
    if (!c->in_message) {
        c->in_message = f->more && !f->body.len;
        return c->in_message;
    }
    c->in_message = false;
    if (f->more || f->body.len != 8 || c->replays) return false;
    c->at = zmtp_get_u64((const uint8_t *)f->body.ptr);
    c->replays = true;
    replay_some(c);
    return true;
}

/* ---- input from peers ---- */

static bool add_topic(peer *c, view topic)
{
    if (topic.len > TOPIC_BYTES_MAX || c->n_topics == TOPICS_MAX) return false;
    c->topics[c->n_topics].len = (uint32_t)topic.len;
    memcpy(c->topics[c->n_topics++].text, topic.ptr, topic.len);
    return true;
}

static bool drop_topic(peer *c, view topic)
{
    for (uint32_t i = 0; i < c->n_topics; i++) {
        if (c->topics[i].len != topic.len || memcmp(c->topics[i].text, topic.ptr, topic.len))
            continue;
        c->topics[i] = c->topics[--c->n_topics];
        break;
    }
    return true;
}

static bool take_subscription(peer *c, const zmtp_frame *f)
{
    const view topic = {f->body.ptr + 1, f->body.len ? f->body.len - 1 : 0};
    if (f->more || !f->body.len || (uint8_t)f->body.ptr[0] > 1) return true; /* not for us */
    return f->body.ptr[0] ? add_topic(c, topic) : drop_topic(c, topic);
}

static bool is_socket(view type, const char *a, const char *b, const char *c)
{
    const char *const all[] = {a, b, c};
    for (int i = 0; i < 3; i++)
        if (all[i] && type.len == strlen(all[i]) && !memcmp(type.ptr, all[i], type.len))
            return true;
    return false;
}

static bool take_command(peer *c, const zmtp_frame *f)
{
    view rest;
    if (!c->is_ready) {
        if (!zmtp_is_command(f, "READY", &rest)) return false;
        const view type = zmtp_property(rest, "Socket-Type");
        return c->is_ready = c->is_replay ? is_socket(type, "DEALER", "REQ", "ROUTER")
                                          : is_socket(type, "SUB", "XSUB", NULL);
    }
    if (zmtp_is_command(f, "PING", &rest) && rest.len >= 2) {
        bytes *out = &c->of->out;
        char pong[5 + 16] = "\4PONG";
        const size_t n = rest.len - 2 > 16 ? 16 : rest.len - 2;
        memcpy(pong + 5, rest.ptr + 2, n);
        out->len = 0;
        if (zmtp_write_frame(out, false, true, (view){pong, 5 + n})) return false;
        send_to(c, out->ptr, out->len);
    }
    if (!c->is_replay && zmtp_is_command(f, "SUBSCRIBE", &rest)) return add_topic(c, rest);
    if (!c->is_replay && zmtp_is_command(f, "CANCEL", &rest)) return drop_topic(c, rest);
    return true;
}

static bool greet(peer *c)
{
    bytes *out = &c->of->out;
    out->len = 0;
    if (zmtp_write_ready(out, c->is_replay ? "ROUTER" : "PUB")) return false;
    send_to(c, out->ptr, out->len);
    stream_use(&c->io, ZMTP_GREETING_BYTES);
    return c->is_greeted = true;
}

/* One step of the input: true when some of it was used. */
static zmtp_result take_one(peer *c)
{
    zmtp_frame f;
    const view in = stream_input(&c->io);
    zmtp_result found = c->is_greeted ? zmtp_read_frame(in, FRAME_BYTES_MAX, &f)
                                      : zmtp_read_greeting(in);
    if (found != ZMTP_WHOLE) return found;
    if (!c->is_greeted) return greet(c) ? ZMTP_WHOLE : ZMTP_BROKEN;
    const bool is_good = f.command || !c->is_ready ? take_command(c, &f)
                         : c->is_replay            ? take_request(c, &f)
                                                   : take_subscription(c, &f);
    if (!is_good) return ZMTP_BROKEN;
    stream_use(&c->io, f.size);
    return ZMTP_WHOLE;
}

static bool on_input(void *user)
{
    peer *c = user;
    zmtp_result found;
    while (!c->is_closed && (found = take_one(c)) != ZMTP_PARTIAL) {
        if (found == ZMTP_WHOLE) continue;
        stream_break(&c->io);
        break;
    }
    return false;
}

static void on_ended(void *user) { stream_break(&((peer *)user)->io); }

static void on_sent(void *user)
{
    peer *c = user;
    if (c->replays && !c->is_closed) replay_some(c);
}

static void on_closed(void *user) { ((peer *)user)->is_closed = true; }

static void on_released(void *user)
{
    peer *c = user, **at = &c->of->peers;
    while (*at != c) at = &(*at)->next;
    *at = c->next;
    c->of->n_peers[c->is_replay]--;
    memory_free(c);
}

static void accept_peer(kv_publisher *p, int fd, bool is_replay)
{
    static const stream_events events = {.input = on_input,
                                         .ended = on_ended,
                                         .sent = on_sent,
                                         .closed = on_closed,
                                         .released = on_released};
    peer *c = p->n_peers[is_replay] < PEERS_MAX ? memory_zalloc(1, sizeof *c) : NULL;
    if (!c) {
        close(fd);
        return;
    }
    *c = (peer){.of = p, .is_replay = is_replay, .since_ns = clock_ns()};
    if (stream_open(&c->io, &p->s->loop, fd, NULL, &events, c)) {
        memory_free(c);
        return;
    }
    p->n_peers[is_replay]++;
    c->next = p->peers;
    p->peers = c;
    send_to(c, zmtp_greeting, sizeof zmtp_greeting);
}

static void on_subscriber(void *user, int fd, const char *from)
{
    (void)from;
    accept_peer(user, fd, false);
}

static void on_asker(void *user, int fd, const char *from)
{
    (void)from;
    accept_peer(user, fd, true);
}

static bool on_full(void *user)
{
    (void)user;
    return false;
}

/* ---- opening and closing ---- */

static int open_sockets(kv_publisher *p, cerium_error *err)
{
    server *s = p->s;
    const server_config *config = &s->config;
    if (uv_async_init(&s->loop.uv, &p->async, on_async))
        return error_set(err, CERIUM_ERR_IO, "no file is left for KV events");
    p->async.data = p;
    p->has_async = true;
    RETURN_IF(listeners_open_at(&p->events, &s->loop, "--kv-events", config->kv_events,
                                on_subscriber, on_full, p, err));
    if (config->kv_events_replay)
        RETURN_IF(listeners_open_at(&p->replays, &s->loop, "--kv-events-replay",
                                    config->kv_events_replay, on_asker, on_full, p, err));
    log_event(LOG_INFO, "kv_events", "port=%u replay=%u pod=%s", p->events.port, p->replays.port,
              p->pod);
    return CERIUM_OK;
}

/* Of the replica, as in its header. */
static const char *name_of(const server *s, char name[REPLICA_NAME_BYTES])
{
    return sscanf(s->replica.field, "%*[^:]: %64[^\r]", name) == 1 ? name : "localhost";
}

int kv_publisher_open(server *s, cerium_error *err)
{
    const server_config *config = &s->config;
    char name[REPLICA_NAME_BYTES];
    if (!config->kv_events && config->kv_events_replay)
        return error_set(err, CERIUM_ERR_ARGUMENT, "--kv-events-replay needs --kv-events");
    if (!config->kv_events) return CERIUM_OK;
    if (config->kv_events_pod && strlen(config->kv_events_pod) > POD_BYTES_MAX)
        return error_set(err, CERIUM_ERR_ARGUMENT, "--kv-events-pod: at most %d bytes",
                         POD_BYTES_MAX);
    kv_publisher *p = s->publisher = memory_zalloc(1, sizeof *p);
    if (!p) return error_set(err, CERIUM_ERR_MEMORY, "no memory for KV events");
    p->s = s;
    p->batch.max = p->out.max = 1 << 20;
    if (config->kv_events_pod)
        snprintf(p->pod, sizeof p->pod, "%s", config->kv_events_pod);
    else
        snprintf(p->pod, sizeof p->pod, "%s:%u", name_of(s, name), s->listeners.port);
    RETURN_IF(open_sockets(p, err));
    kv_events_wake(config->kv_pages, wake, p);
    return CERIUM_OK;
}

void kv_publisher_tick(server *s)
{
    kv_publisher *p = s->publisher;
    const uint64_t now = clock_ns();
    if (!p) return;
    listeners_tick(&p->events);
    listeners_tick(&p->replays);
    for (peer *c = p->peers; c; c = c->next) {
        if (c->is_closed || stream_tick(&c->io, now, STALL_S * UINT64_C(1000000000))) continue;
        if (!c->is_ready && now - c->since_ns > HANDSHAKE_S * UINT64_C(1000000000))
            stream_break(&c->io);
    }
}

static void on_async_closed(uv_handle_t *handle)
{
    kv_publisher *p = handle->data;
    p->has_async = false;
}

void kv_publisher_close(server *s)
{
    kv_publisher *p = s->publisher;
    if (!p) return;
    kv_events_wake(s->config.kv_pages, NULL, NULL);
    listeners_close(&p->events);
    listeners_close(&p->replays);
    for (peer *c = p->peers; c; c = c->next) stream_break(&c->io);
    if (p->has_async) uv_close((uv_handle_t *)&p->async, on_async_closed);
    while (p->peers || p->has_async || p->events.n_open || p->replays.n_open)
        net_loop_turn(&s->loop);
    for (uint32_t i = 0; i < KEPT_MAX; i++) memory_free(p->kept[i].all);
    bytes_free(&p->batch);
    bytes_free(&p->out);
    memory_free(p);
    s->publisher = NULL;
}
