/* loop.h - libwebsockets: the listening socket, its callbacks, wake-ups and the clock. */
#ifndef SERVER_LOOP_H
#define SERVER_LOOP_H

#include "server/state.h"

/* Bind and listen; s->lws, s->vhost and s->port. CERIUM_ERR_IO. */
CERIUM_CHECKED int loop_open(server *s, cerium_error *err);
/* One turn: waits for something to do. False when the loop is broken. */
bool loop_turn(server *s);
void loop_close(server *s);

#endif
