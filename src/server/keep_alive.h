/* keep_alive.h - signs of life: what a stream says while its answer says nothing. */
#ifndef SERVER_KEEP_ALIVE_H
#define SERVER_KEEP_ALIVE_H

#include "server/state.h"

/* Once a second: a sign of life on every stream that was silent for config.keep_alive_s. */
void keep_alive_tick(server *s, uint64_t now_ns);

/* return_progress: tell how far the prompts of a are, if that has changed.  Whenever the engine may
 * have got further, and before its text is sent. */
void keep_alive_progress(answer *a);

#endif
