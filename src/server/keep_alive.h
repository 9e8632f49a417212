/* keep_alive.h - keepalives: sent on a stream while its answer has no text. */
#ifndef SERVER_KEEP_ALIVE_H
#define SERVER_KEEP_ALIVE_H

#include "server/state.h"

/* Once a second: send a keepalive on every stream that was silent for config.keep_alive_s. */
void keep_alive_tick(server *s, uint64_t now_ns);

/* return_progress: send the progress of the prompts of a, if it changed.  Call it when the engine
 * may have advanced, and before text is sent. */
void keep_alive_progress(answer *a);

#endif
