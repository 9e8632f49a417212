/* wake.h - what calls the event loop: other threads, and what is put off. */
#ifndef SERVER_WAKE_H
#define SERVER_WAKE_H

#include "server/state.h"

/* The engine or the accounts thread has something for us: looks in the next turn, however often it
 * is called until then.  From any thread; user: the server. */
void wake_to_look(void *user);
/* A job of the workers is done: it is looked at without waiting for the engine's turn. */
void wake_for_job(void *user);
/* Look at the engine's events in ms at the latest. */
void wake_in(server *s, uint32_t ms);

#endif
