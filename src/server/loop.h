/* loop.h - the server's event loop: its callbacks, and which connections it accepts. */
#ifndef SERVER_LOOP_H
#define SERVER_LOOP_H

#include "server/state.h"

/* Bind and listen; s->loop, s->listeners, s->tls. CERIUM_ERR_IO. */
CERIUM_CHECKED int loop_open(server *s, cerium_error *err);
/* One turn: waits for events, and handles them. */
void loop_turn(server *s);
/* Free answers that ended in the turn, and begin what waited for that: nothing points to them
 * now. */
void loop_settle(server *s);
/* Accept no more connections. */
void loop_refuse(server *s);
/* End all connections. */
void loop_close(server *s);

#endif
