/* demo.h - the server's first client: it requests one completion over a WebSocket, prints it while
 * it arrives, its speed, and the address for a browser. */
#ifndef SERVER_DEMO_H
#define SERVER_DEMO_H

#include "server/state.h"

/* Complete s->config.demo, or another text if the model adds nothing.  A failure is logged, and the
 * server continues. */
void demo_start(server *s);
/* Accepts servers without one. */
void demo_close(server *s);

#endif
