/* demo.h - the server's first client: it asks for one completion over a WebSocket of its own,
 * prints it as it comes and how fast it came, and says what to open in a browser. */
#ifndef SERVER_DEMO_H
#define SERVER_DEMO_H

#include "server/state.h"

/* Complete s->config.demo; where the model adds nothing to it, another text.  What fails is logged,
 * and the server goes on. */
void demo_start(server *s);
/* Accepts servers without one. */
void demo_close(server *s);

#endif
