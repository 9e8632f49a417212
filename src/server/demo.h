/* demo.h - the server's first client: it asks one thing over a WebSocket of its own, prints the
 * answer as it comes, and how fast it came. */
#ifndef SERVER_DEMO_H
#define SERVER_DEMO_H

#include "server/state.h"

/* Ask s->config.demo.  What fails is logged, and the server goes on. */
void demo_start(server *s);
/* Accepts servers without one. */
void demo_close(server *s);

#endif
