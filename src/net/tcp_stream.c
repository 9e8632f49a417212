/* tcp_stream.c - reading, sending and closing. */
#include "net/tcp_stream.h"

#include <errno.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

enum {
    VECTORS_MAX = 32,
    PIECE_BYTES = 4096 - 64,   /* small writes share a piece */
    FLUSH_BYTES_MAX = 1 << 20, /* bytes in one turn, however fast the reader is */
    LINGER_NS = 2000000000,    /* time for the peer to read our last bytes */
};

struct stream_piece {
    stream_piece *next;
    size_t len, sent, cap;
    char data[]; /* [cap] */
};

static void make_ready(stream *s)
{
    if (s->is_ready || s->is_closed) return;
    s->is_ready = true;
    net_loop_ready(s->loop, s);
}

/* ---- events to poll ---- */

static void on_poll(uv_poll_t *poll, int status, int events)
{
    stream *s = poll->data;
    /* HTTP clients send no urgent data; libuv reports a reset this way, or as an error. */
    if (status < 0 || (events & UV_PRIORITIZED)) s->broken = true;
    if (events & UV_WRITABLE) s->is_full = false;
    make_ready(s);
}

/* A pure function of the stream's state, called whenever the state may have changed, so the events
 * are always current. Resets are always watched. */
static void watch(stream *s)
{
    bool room = s->in.len - s->in_used < STREAM_IN_BYTES_MAX;
    int wanted = UV_PRIORITIZED;
    if (!s->at_end && room) wanted |= UV_READABLE;
    if (s->out.bytes || (s->tls && tls_wants_write(s->tls))) wanted |= UV_WRITABLE;
    if (wanted == s->watched || s->is_closed) return;
    s->watched = wanted;
    if (uv_poll_start(&s->poll, wanted, on_poll)) s->broken = true;
}

/* ---- input ---- */

static ssize_t receive(stream *s, void *out, size_t len)
{
    if (s->tls) return tls_read(s->tls, out, len);
    ssize_t n;
    do n = recv(s->fd, out, len, 0);
    while (n < 0 && errno == EINTR);
    return n;
}

/* Read until the buffer is full. */
static void fill(stream *s)
{
    static _Thread_local char scratch[STREAM_IN_BYTES_MAX];
    s->more = false;
    while (!s->at_end && !s->broken) {
        size_t room = STREAM_IN_BYTES_MAX - (s->in.len - s->in_used);
        if (!room) {
            s->more = true;
            return;
        }
        ssize_t n = receive(s, scratch, room);
        if (n > 0 && s->in_used) {
            memmove(s->in.ptr, s->in.ptr + s->in_used, s->in.len - s->in_used);
            s->in.len -= s->in_used;
            s->in_used = 0;
        }
        if (!n)
            s->at_end = true;
        else if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
            return;
        else if (n < 0 || bytes_append(&s->in, scratch, (size_t)n))
            s->broken = true;
        else if (!s->tls && (size_t)n < room)
            return; /* drained; the poll reports later input */
    }
}

view stream_input(const stream *s)
{
    return (view){s->in.ptr ? s->in.ptr + s->in_used : "", s->in.len - s->in_used};
}

void stream_use(stream *s, size_t n)
{
    CHECK(n <= s->in.len - s->in_used);
    s->in_used += n;
    if (s->in_used < s->in.len) return;
    bytes_free(&s->in); /* idle connections hold nothing */
    s->in_used = 0;
}

void stream_pause(stream *s)
{
    s->paused = true;
}

void stream_resume(stream *s)
{
    s->paused = false;
    make_ready(s);
}

/* ---- output ---- */

static void free_queue(stream_queue *q)
{
    while (q->first) {
        stream_piece *p = q->first;
        q->first = p->next;
        memory_free(p);
    }
    *q = (stream_queue){.bytes = 0};
}

static int queue_put(stream_queue *q, view head, view body)
{
    size_t len = head.len + body.len;
    if (!len) return CERIUM_OK;
    stream_piece *p = q->last;
    if (!p || p->cap - p->len < len) {
        size_t cap = len > PIECE_BYTES ? len : PIECE_BYTES;
        p = memory_alloc(sizeof *p + cap);
        if (!p) return CERIUM_ERR_MEMORY;
        *p = (stream_piece){.cap = cap};
        *(q->last ? &q->last->next : &q->first) = p;
        q->last = p;
    }
    if (head.len) memcpy(p->data + p->len, head.ptr, head.len);
    if (body.len) memcpy(p->data + p->len + head.len, body.ptr, body.len);
    p->len += len;
    q->bytes += len;
    return CERIUM_OK;
}

/* One write of queued output. */
static ssize_t send_some(stream *s)
{
    struct iovec parts[VECTORS_MAX];
    struct msghdr message = {.msg_iov = parts};
    stream_piece *p = s->out.first;
    if (s->tls) return tls_write(s->tls, p->data + p->sent, p->len - p->sent);
    for (; p && message.msg_iovlen < VECTORS_MAX; p = p->next)
        parts[message.msg_iovlen++] = (struct iovec){p->data + p->sent, p->len - p->sent};
    ssize_t n;
    do n = sendmsg(s->fd, &message, MSG_NOSIGNAL);
    while (n < 0 && errno == EINTR);
    return n;
}

static void drop_sent(stream *s, size_t n)
{
    s->out.bytes -= n;
    *s->sent_total += n;
    s->progress += n;
    while (n) {
        stream_piece *p = s->out.first;
        size_t part = p->len - p->sent < n ? p->len - p->sent : n;
        p->sent += part;
        n -= part;
        if (p->sent < p->len) break;
        s->out.first = p->next;
        if (!p->next) s->out.last = NULL;
        memory_free(p);
    }
}

static void send_out(stream *s)
{
    size_t sent = 0;
    while (s->out.bytes && !s->broken && !s->is_full && sent < FLUSH_BYTES_MAX) {
        ssize_t n = send_some(s);
        if (n < 0) {
            if (errno != EAGAIN && errno != EWOULDBLOCK) s->broken = true;
            else
                s->is_full =
                    !s->tls; /* out is not empty, so watch() waits until the socket is writable */
            break;
        }
        drop_sent(s, (size_t)n);
        sent += (size_t)n;
        s->took |= s->waits_ns != 0;
    }
    if (!s->out.bytes || s->progress >= STREAM_PROGRESS_BYTES) s->progress = s->waits_ns = 0;
    if (s->out.bytes && !s->waits_ns) s->waits_ns = clock_ns();
}

void stream_flush(stream *s)
{
    if (s->is_closed || s->lingers) return;
    send_out(s);
    if (s->broken || s->took || (s->closing && !stream_waiting(s))) make_ready(s);
    watch(s);
}

int stream_put(stream *s, view head, view body)
{
    if (s->is_closed || s->broken || s->lingers) return CERIUM_OK;
    return queue_put(s->holds ? &s->held : &s->out, head, body);
}

void stream_hold(stream *s)
{
    s->holds = true;
}

void stream_let_go(stream *s)
{
    s->holds = false;
    if (s->held.first) {
        *(s->out.last ? &s->out.last->next : &s->out.first) = s->held.first;
        s->out.last = s->held.last;
        s->out.bytes += s->held.bytes;
        s->held = (stream_queue){.bytes = 0};
    }
}

/* ---- the end ---- */

static void on_released(uv_handle_t *poll)
{
    stream *s = poll->data;
    if (s->is_ready) net_loop_forget(s->loop, s);
    tls_close(&s->tls);
    close(s->fd);
    s->events->released(s->user);
}

static void finish(stream *s)
{
    s->is_closed = true;
    free_queue(&s->out);
    free_queue(&s->held);
    bytes_free(&s->in);
    s->in_used = 0;
    uv_close((uv_handle_t *)&s->poll, on_released);
    s->events->closed(s->user);
}

/* The kernel has all output.  If the socket were closed with unread input, the kernel would send a
 * reset, which can destroy our last bytes at the peer. */
static void linger(stream *s)
{
    if (s->tls) tls_end(s->tls);
    if (s->at_end || shutdown(s->fd, SHUT_WR)) {
        finish(s);
        return;
    }
    s->lingers = true;
    s->lingers_ns = clock_ns();
}

void stream_close(stream *s)
{
    s->closing = true;
    make_ready(s);
}

void stream_break(stream *s)
{
    s->broken = true;
    make_ready(s);
}

bool stream_tick(stream *s, uint64_t now_ns, uint64_t stall_ns)
{
    if (s->is_closed) return false;
    if (s->lingers && now_ns - s->lingers_ns > LINGER_NS) stream_break(s);
    if (!s->waits_ns || s->broken || now_ns < s->waits_ns + stall_ns) return false;
    stream_break(s);
    return true;
}

/* ---- a turn ---- */

/* Pass the input to the owner.  True when the owner wants to be called again and input is left.  An
 * owner that waits for more after the peer's last byte gets the end instead. */
static bool give_input(stream *s)
{
    bool again = false;
    if (!s->paused && s->in.len > s->in_used)
        again = s->events->input(s->user) && s->in.len > s->in_used;
    /* The stream was paused and resumed meanwhile, so it is ready: the rest is handled next. */
    bool is_used = s->paused || (!again && !s->is_ready);
    if (s->at_end && !s->end_reported && !s->broken && is_used) {
        s->end_reported = true;
        s->events->ended(s->user);
    }
    return again;
}

static bool is_over(stream *s)
{
    if (!s->broken && (!s->closing || stream_waiting(s))) return false;
    if (s->broken)
        finish(s);
    else if (!s->lingers)
        linger(s);
    return s->is_closed;
}

static void run(stream *s)
{
    s->is_ready = false;
    if (s->is_closed) return;
    bool again = false;
    if (!s->broken) fill(s);
    if (s->lingers) {
        stream_use(s, s->in.len - s->in_used);
        if (s->at_end) s->broken = true;
    } else if (!s->closing && !s->broken) {
        again = give_input(s);
    }
    send_out(s);
    bool took = s->took;
    s->took = false;
    if (took && !s->broken && !s->is_closed) s->events->sent(s->user);
    if (is_over(s)) return;
    bool room = s->in.len - s->in_used < STREAM_IN_BYTES_MAX;
    if ((again && !s->paused) || (s->more && room)) make_ready(s);
    watch(s);
}

int stream_open(stream *s, net_loop *l, int fd, tls_context *context, const stream_events *events,
                void *user)
{
    static uint64_t uncounted;
    *s = (stream){.loop = l,
                  .events = events,
                  .user = user,
                  .run = run,
                  .fd = fd,
                  .sent_total = &uncounted,
                  .in = {.max = STREAM_IN_BYTES_MAX}};
    if (context && !(s->tls = tls_open(context, fd))) {
        close(fd);
        return CERIUM_ERR_MEMORY;
    }
    if (uv_poll_init_socket(&l->uv, &s->poll, fd)) {
        tls_close(&s->tls);
        close(fd);
        return CERIUM_ERR_IO;
    }
    s->poll.data = s;
    make_ready(s); /* input that came with the connection is read at once */
    return CERIUM_OK;
}
