/* access.h - access control: keys, web origins, and the names of this server. */
#ifndef SERVER_ACCESS_H
#define SERVER_ACCESS_H

#include "server/state.h"

/* Digests of the configured keys; refuses an unsafe setting (a foreign address without keys). */
CERIUM_CHECKED int access_open(server *s, cerium_error *err);
void access_close(server *s);

/* The head of a request or an upgrade: fills c->tenant and c->http.origin.
 *   open: the route needs no key
 * CERIUM_ERR_ARGUMENT, with *e (401, 403). */
CERIUM_CHECKED int access_check(connection *c, bool open, protocol_error *e);

/* The history of the connection's tenant; borrowed; NULL: out of memory. */
protocol_cache *access_cache(const connection *c);

/* Pure; for tests: does a Host or the host of an Origin name this machine's loopback? */
bool access_is_loopback(view host);
/* Pure: are "http://host:port" and the Host "host:port" the same place? */
bool access_same_host(view origin, view host);

#endif
