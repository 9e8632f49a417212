/* listener.h - listening sockets: every address of a name, one port. */
#ifndef NET_LISTENER_H
#define NET_LISTENER_H

#include "net/event_loop.h"

enum { LISTENERS_MAX = 8 };

typedef struct {
    uv_poll_t poll;
    int fd;
    bool is_resting; /* no file descriptor is free for another connection: the next tick tries
                      * again */
    struct listeners *of;
} listener;

/* A connection: fd does not block and is owned by the callee. */
typedef void listener_accepted(void *user, int fd, const char *peer);

typedef struct listeners {
    listener all[LISTENERS_MAX];
    uint32_t n, n_open;
    net_loop *loop;
    uint32_t port; /* the bound port */
    listener_accepted *accepted;
    bool (*full)(void *user); /* no file descriptor is free; true when one was freed */
    void *user;
} listeners;

/* CERIUM_ERR_IO if no address has that name. */
CERIUM_CHECKED int listener_check_host(const char *host, cerium_error *err);

/* option: the option that sets host and port, for messages: "--port ", "--metrics-listen
 * 127.0.0.1:". host: an address or a name, all of whose addresses are bound ("localhost": 127.0.0.1
 * and ::1, one of which suffices).  port 0: any.  CERIUM_ERR_IO with *err. */
CERIUM_CHECKED int listeners_open(listeners *ls, net_loop *l, const char *option, const char *host,
                                  uint32_t port, listener_accepted *accepted,
                                  bool (*full)(void *user), void *user, cerium_error *err);
/* The same for an address from an option: "127.0.0.1:9383", "[::1]:9383". CERIUM_ERR_ARGUMENT if it
 * is invalid. */
CERIUM_CHECKED int listeners_open_at(listeners *ls, net_loop *l, const char *option,
                                     const char *place, listener_accepted *accepted,
                                     bool (*full)(void *user), void *user, cerium_error *err);
/* Once a second. */
void listeners_tick(listeners *ls);
/* Stop accepting connections. */
void listeners_close(listeners *ls);

#endif
