/* wake.h - wakes the event loop: from other threads, and after a delay. */
#ifndef SERVER_WAKE_H
#define SERVER_WAKE_H

#include "server/state.h"

/* The engine or the accounts thread has news: one look follows in the next turn, however often this
 * is called until then.  From any thread; user: the server. */
void wake_to_look(void *user);
/* A job of the workers is done: it is handled without waiting for the engine's turn. */
void wake_for_job(void *user);
/* Look at the engine's events in ms at the latest. */
void wake_in(server *s, uint32_t ms);

#endif
