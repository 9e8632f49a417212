/* peer.h - a server for `cerium lsp --server` in the test's own thread: it takes connections of the
 * loopback, answers HTTP, and says over a WebSocket what the test wants, right or wrong. */
#ifndef TESTS_LSP_PEER_H
#define TESTS_LSP_PEER_H

#include <arpa/inet.h>
#include <errno.h>
#include <jansson.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/memory.h"
#include "net/websocket.h"

enum { PEER_LINKS = 24, PEER_BYTES_MAX = 64 << 20 };

typedef struct peer peer;

typedef struct {
    int fd; /* -1: none */
    bool is_socket, is_last; /* is_last: closed when all is sent */
    bytes in, out;
    size_t sent;
} peer_link;

struct peer {
    int listener;
    uint16_t port;
    peer_link links[PEER_LINKS];
    size_t piece;   /* most bytes that leave at once; 0: all */
    size_t n_moved; /* bytes and connections so far: nothing happens if it stays */
    bytes texts;    /* messages of WebSockets, a line each */
    bytes posts;    /* routes, a line each */
    void *user;
    /* A request; NULL: models are listed, WebSockets are accepted, all else is 404. */
    void (*request)(peer *p, peer_link *l, view head, view body);
    void (*message)(peer *p, peer_link *l, view text);
};

static inline void peer_send(peer_link *l, view data)
{
    l->out.max = PEER_BYTES_MAX;
    if (bytes_append(&l->out, data.ptr, data.len)) l->is_last = true;
}

static inline void peer_frame(peer_link *l, uint8_t head, view text)
{
    const size_t n = text.len;
    uint8_t out[10] = {head, n < 126 ? (uint8_t)n : n < 65536 ? 126 : 127};
    size_t n_head = n < 126 ? 2 : n < 65536 ? 4 : 10;
    for (size_t i = 2; i < n_head; i++) out[i] = (uint8_t)(n >> 8 * (n_head - 1 - i));
    peer_send(l, (view){(const char *)out, n_head});
    peer_send(l, text);
}

static inline void peer_say(peer_link *l, const char *text) { peer_frame(l, 0x81, view_of(text)); }

static inline void peer_answer(peer_link *l, int status, const char *body)
{
    char head[160];
    int n = snprintf(head, sizeof head, "HTTP/1.1 %d Said\r\nContent-Type: application/json\r\n"
                     "Content-Length: %zu\r\n\r\n", status, strlen(body));
    peer_send(l, (view){head, (size_t)n});
    peer_send(l, view_of(body));
}

/* The right answer to a request to upgrade. */
static inline void peer_accept(peer_link *l, view head)
{
    char key[25] = "", accept[WEBSOCKET_ACCEPT_BYTES] = "", out[200];
    const char *at = strstr(head.ptr, "Sec-WebSocket-Key: ");
    if (at) memcpy(key, at + 19, 24);
    (void)websocket_accept(key, accept);
    int n = snprintf(out, sizeof out, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n"
                     "Connection: Upgrade\r\nSec-WebSocket-Accept: %s\r\n\r\n", accept);
    peer_send(l, (view){out, (size_t)n});
}

static inline bool peer_wants_socket(view head) { return strstr(head.ptr, "Sec-WebSocket-Key: "); }

/* The list of models; false: it is another request. */
static inline bool peer_lists(peer_link *l, view head)
{
    if (strncmp(head.ptr, "GET /v1/models ", 15) != 0) return false;
    peer_answer(l, 200, "{\"data\":[{\"id\":\"m\",\"min_confidence\":0.2,\"pointer\":1}]}");
    return true;
}

static inline void peer_hang_up(peer *p, peer_link *l)
{
    const struct linger now = {1, 0}; /* no port waits for its last bytes */
    if (l->fd < 0) return;
    (void)setsockopt(l->fd, SOL_SOCKET, SO_LINGER, &now, sizeof now);
    close(l->fd);
    bytes_free(&l->in);
    bytes_free(&l->out);
    *l = (peer_link){.fd = -1};
    p->n_moved++;
}

static inline void peer_open(peer *p)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t n = sizeof at;
    *p = (peer){.texts = {.max = PEER_BYTES_MAX}, .posts = {.max = PEER_BYTES_MAX}};
    for (int i = 0; i < PEER_LINKS; i++) p->links[i].fd = -1;
    p->listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    CHECK(p->listener >= 0 && !bind(p->listener, (struct sockaddr *)&at, sizeof at) &&
          !listen(p->listener, 64) && !getsockname(p->listener, (struct sockaddr *)&at, &n));
    p->port = ntohs(at.sin_port);
}

static inline void peer_forget(peer *p)
{
    for (int i = 0; i < PEER_LINKS; i++) peer_hang_up(p, &p->links[i]);
    bytes_free(&p->texts);
    bytes_free(&p->posts);
}

static inline void peer_close(peer *p)
{
    peer_forget(p);
    close(p->listener);
}

/* ---- what came ---- */

static inline void note(bytes *to, view line)
{
    if (!bytes_append(to, line.ptr, line.len)) (void)bytes_append(to, "\n", 1);
}

static inline void peer_take(peer *p, peer_link *l, view head, view body)
{
    const char *end = strchr(head.ptr, ' ');
    if (!strncmp(head.ptr, "POST ", 5) && (end = strchr(head.ptr + 5, ' ')))
        note(&p->posts, (view){head.ptr + 5, (size_t)(end - head.ptr - 5)});
    l->is_socket = peer_wants_socket(head);
    if (p->request) p->request(p, l, head, body);
    else if (l->is_socket) peer_accept(l, head);
    else if (!peer_lists(l, head)) peer_answer(l, 404, "{}");
}

/* One request of l->in; false: it is not whole. */
static inline bool take_request(peer *p, peer_link *l)
{
    if (!l->in.len || bytes_append(&l->in, "", 1)) return false;
    l->in.len--;
    char *end = strstr(l->in.ptr, "\r\n\r\n");
    if (!end) return false;
    *end = 0;
    const char *field = strstr(l->in.ptr, "Content-Length: ");
    const size_t n_head = (size_t)(end - l->in.ptr) + 4;
    const size_t n_body = field ? strtoul(field + 16, NULL, 10) : 0;
    if (l->in.len < n_head + n_body) {
        *end = '\r';
        return false;
    }
    bytes one = l->in; /* the link may be hung up */
    l->in = (bytes){.max = PEER_BYTES_MAX};
    if (!bytes_append(&l->in, one.ptr + n_head + n_body, one.len - n_head - n_body))
        peer_take(p, l, (view){one.ptr, n_head - 4}, (view){one.ptr + n_head, n_body});
    bytes_free(&one);
    return l->fd >= 0;
}

/* One frame of the client; texts are noted. */
static inline bool take_frame(peer *p, peer_link *l)
{
    const uint8_t *b = (const uint8_t *)l->in.ptr;
    if (l->in.len < 6) return false;
    size_t n = b[1] & 127, at = n == 127 ? 10 : n == 126 ? 4 : 2;
    if (l->in.len < at + 4) return false;
    if (n >= 126) n = 0;
    for (size_t i = 2; i < at; i++) n = n << 8 | b[i];
    if (l->in.len < at + 4 + n) return false;
    CHECK(b[1] & 128); /* a client masks */
    bytes text = {.max = PEER_BYTES_MAX};
    const bool is_text = (b[0] & 15) == 1;
    int status = CERIUM_OK;
    for (size_t i = 0; i < n && !status; i++) {
        const char c = (char)(b[at + 4 + i] ^ b[at + i % 4]);
        status = bytes_append(&text, &c, 1);
    }
    memmove(l->in.ptr, l->in.ptr + at + 4 + n, l->in.len - at - 4 - n);
    l->in.len -= at + 4 + n;
    if (is_text && !status) {
        const view t = {text.ptr ? text.ptr : "", text.len};
        note(&p->texts, t);
        if (p->message) p->message(p, l, t);
    }
    bytes_free(&text);
    return l->fd >= 0;
}

static inline void read_link(peer *p, peer_link *l)
{
    static char buffer[65536];
    ssize_t n = recv(l->fd, buffer, sizeof buffer, MSG_DONTWAIT);
    if (n == 0 || (n < 0 && errno != EAGAIN)) {
        peer_hang_up(p, l);
        return;
    }
    if (n < 0) return;
    p->n_moved += (size_t)n;
    l->in.max = PEER_BYTES_MAX;
    if (bytes_append(&l->in, buffer, (size_t)n)) peer_hang_up(p, l);
    while (l->fd >= 0 && (l->is_socket ? take_frame(p, l) : take_request(p, l))) continue;
}

static inline void write_link(peer *p, peer_link *l)
{
    const size_t rest = l->out.len - l->sent, most = p->piece && p->piece < rest ? p->piece : rest;
    if (!rest && l->is_last) peer_hang_up(p, l);
    if (!rest) return;
    ssize_t n = send(l->fd, l->out.ptr + l->sent, most, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (n < 0 && errno != EAGAIN) {
        peer_hang_up(p, l);
        return;
    }
    if (n > 0) p->n_moved += (size_t)n, l->sent += (size_t)n;
}

static inline void peer_look(peer *p)
{
    for (int fd; (fd = accept4(p->listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0;) {
        peer_link *free_one = NULL;
        for (int i = 0; i < PEER_LINKS; i++)
            if (p->links[i].fd < 0) free_one = &p->links[i];
        p->n_moved++;
        if (free_one) *free_one = (peer_link){.fd = fd};
        else close(fd);
    }
    for (int i = 0; i < PEER_LINKS; i++) {
        if (p->links[i].fd >= 0) read_link(p, &p->links[i]);
        if (p->links[i].fd >= 0) write_link(p, &p->links[i]);
    }
}

#endif
