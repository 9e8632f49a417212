/* listener.c - binding and accepting. */
#include "net/listener.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    BACKLOG = 4096,
    ACCEPTS_MAX = 64, /* connections in one turn */
    HOST_BYTES = 256,
};

static void on_poll(uv_poll_t *poll, int status, int events);

/* Linux gives the flags of the address family, not of the kernel's peer. */
static void name_of(const struct sockaddr_storage *address, char *out, size_t cap)
{
    socklen_t len =
        address->ss_family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6);
    if (getnameinfo((const struct sockaddr *)address, len, out, (socklen_t)cap, NULL, 0,
                    NI_NUMERICHOST))
        out[0] = 0;
}

static void rest(listener *l)
{
    l->is_resting = true;
    uv_poll_stop(&l->poll);
}

/* False when no connection is waiting, or it cannot be accepted now. */
static bool accept_one(listener *l)
{
    struct sockaddr_storage address;
    socklen_t len = sizeof address;
    char peer[64];
    int on = 1;
    int fd = accept4(l->fd, (struct sockaddr *)&address, &len, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd < 0) {
        bool no_file = errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM;
        if (no_file && !l->of->full(l->of->user)) rest(l);
        return !no_file && errno != EAGAIN && errno != EWOULDBLOCK;
    }
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
    name_of(&address, peer, sizeof peer);
    l->of->accepted(l->of->user, fd, peer);
    return true;
}

static void on_poll(uv_poll_t *poll, int status, int events)
{
    listener *l = poll->data;
    (void)events;
    if (status < 0) {
        rest(l);
        return;
    }
    for (int i = 0; i < ACCEPTS_MAX && accept_one(l); i++) {
    }
}

static int bind_to(const struct addrinfo *at, uint32_t port)
{
    int on = 1, fd = socket(at->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0) return -1;
    struct sockaddr_storage address;
    memcpy(&address, at->ai_addr, at->ai_addrlen);
    if (at->ai_family == AF_INET6) {
        ((struct sockaddr_in6 *)&address)->sin6_port = htons((uint16_t)port);
        setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof on);
    } else {
        ((struct sockaddr_in *)&address)->sin_port = htons((uint16_t)port);
    }
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (!bind(fd, (struct sockaddr *)&address, at->ai_addrlen) && !listen(fd, BACKLOG)) return fd;
    int code = errno;
    close(fd);
    errno = code;
    return -1;
}

/* A nearby free port above this one; 0: none. */
static uint32_t free_port(const struct addrinfo *at, uint32_t port)
{
    for (uint32_t next = port + 1; next <= 65535 && next <= port + 100; next++) {
        int fd = bind_to(at, next);
        if (fd < 0) continue;
        close(fd);
        return next;
    }
    return 0;
}

static int refuse(const char *option, const char *host, uint32_t port, const struct addrinfo *at,
                  int code, cerium_error *err)
{
    uint32_t other = code == EADDRINUSE ? free_port(at, port) : 0;
    if (other)
        return error_set(err, CERIUM_ERR_IO, "port %u of %s is in use: %s%u", port, host,
                         option, other);
    if (code == EACCES)
        return error_set(err, CERIUM_ERR_IO, "port %u of %s is kept for the system: %s%u",
                         port, host, option, port < 1024 ? port + 8000 : 8383);
    if (code == EADDRNOTAVAIL)
        return error_set(err, CERIUM_ERR_IO, "cannot listen on %s: this machine has no such "
                         "address; 127.0.0.1 is this machine alone, 0.0.0.0 all of its addresses",
                         host);
    return error_set(err, CERIUM_ERR_IO, "cannot listen on %s port %u: %s", host, port,
                     strerror(code));
}

static uint32_t port_of(int fd)
{
    struct sockaddr_storage address;
    socklen_t len = sizeof address;
    if (getsockname(fd, (struct sockaddr *)&address, &len)) return 0;
    return ntohs(address.ss_family == AF_INET6 ? ((struct sockaddr_in6 *)&address)->sin6_port
                                               : ((struct sockaddr_in *)&address)->sin_port);
}

static int add(listeners *ls, int fd)
{
    listener *l = &ls->all[ls->n];
    *l = (listener){.fd = fd, .of = ls};
    if (uv_poll_init_socket(&ls->loop->uv, &l->poll, fd)) {
        close(fd);
        return CERIUM_ERR_IO;
    }
    l->poll.data = l;
    ls->n++;
    ls->n_open++;
    return uv_poll_start(&l->poll, UV_READABLE, on_poll) ? CERIUM_ERR_IO : CERIUM_OK;
}

static int find_host(const char *host, struct addrinfo **list, cerium_error *err)
{
    const struct addrinfo wanted = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE};
    const int failed = getaddrinfo(host, NULL, &wanted, list);
    if (!failed) return CERIUM_OK;
    return error_set(err, CERIUM_ERR_IO, "cannot listen on %.255s: %s (it takes an address of this "
                     "machine, or a name of it)", host, gai_strerror(failed));
}

int listener_check_host(const char *host, cerium_error *err)
{
    struct addrinfo *list = NULL;
    RETURN_IF(find_host(host, &list, err));
    freeaddrinfo(list);
    return CERIUM_OK;
}

int listeners_open(listeners *ls, net_loop *l, const char *option, const char *host, uint32_t port,
                   listener_accepted *accepted, bool (*full)(void *user), void *user,
                   cerium_error *err)
{
    struct addrinfo *list = NULL;
    int status = CERIUM_OK, code = 0;
    *ls = (listeners){.loop = l, .accepted = accepted, .full = full, .user = user};
    RETURN_IF(find_host(host, &list, err));
    for (const struct addrinfo *at = list; at && ls->n < LISTENERS_MAX && !status;
         at = at->ai_next) {
        /* The first socket may choose the port; the others use the same. */
        int fd = bind_to(at, ls->port ? ls->port : port);
        if (fd < 0) {
            code = errno;
            /* If only some addresses of a name were bound, another process could answer at the
             * others. */
            if (code == EADDRINUSE && port) status = refuse(option, host, port, at, code, err);
            continue;
        }
        ls->port = port_of(fd);
        if ((status = add(ls, fd)))
            error_set(err, status, "cannot listen on %s port %u: no memory", host, port);
    }
    if (!status && !ls->n) status = refuse(option, host, port, list, code, err);
    freeaddrinfo(list);
    return status;
}

/* "127.0.0.1:9383", "[::1]:9383"; host: without brackets.  False for anything else. */
static bool read_place(const char *text, char host[HOST_BYTES], uint32_t *port)
{
    const char *colon = strrchr(text, ':');
    view name = {text, colon ? (size_t)(colon - text) : 0};
    uint64_t n;
    if (name.len > 2 && *text == '[' && colon[-1] == ']')
        name = (view){text + 1, name.len - 2};
    else if (name.len && memchr(name.ptr, ':', name.len))
        return false;
    if (!name.len || name.len >= HOST_BYTES || memchr(name.ptr, ']', name.len))
        return false;
    if (!parse_u64(view_of(colon + 1), &n) || n > 65535) return false;
    memcpy(host, name.ptr, name.len);
    host[name.len] = 0;
    *port = (uint32_t)n;
    return true;
}

int listeners_open_at(listeners *ls, net_loop *l, const char *option, const char *place,
                      listener_accepted *accepted, bool (*full)(void *user), void *user,
                      cerium_error *err)
{
    char host[HOST_BYTES], label[HOST_BYTES + 64];
    uint32_t port;
    if (!read_place(place, host, &port))
        return error_set(err, CERIUM_ERR_ARGUMENT, "%s '%s': say an address and a port, as in "
                         "127.0.0.1:9383 or [::1]:9383", option, place);
    snprintf(label, sizeof label, "%s %.*s", option, (int)(strrchr(place, ':') + 1 - place), place);
    return listeners_open(ls, l, label, host, port, accepted, full, user, err);
}

void listeners_tick(listeners *ls)
{
    for (uint32_t i = 0; i < ls->n; i++) {
        listener *l = &ls->all[i];
        if (!l->is_resting || uv_is_closing((uv_handle_t *)&l->poll)) continue;
        l->is_resting = false;
        uv_poll_start(&l->poll, UV_READABLE, on_poll);
    }
}

static void on_closed(uv_handle_t *poll)
{
    listener *l = poll->data;
    close(l->fd);
    l->of->n_open--;
}

void listeners_close(listeners *ls)
{
    for (uint32_t i = 0; i < ls->n; i++)
        if (!uv_is_closing((uv_handle_t *)&ls->all[i].poll))
            uv_close((uv_handle_t *)&ls->all[i].poll, on_closed);
}
