/* look.h - what the engine has for answers is taken in turns, so that none holds the loop. */
#ifndef SERVER_LOOK_H
#define SERVER_LOOK_H

#include "server/state.h"

/* Everything that the engine has for us, as long as the turn of the loop is short: the best class
 * that runs first, others for a fraction of the time, within each who was not reached last time.
 * What waits for a place begins.  LOOK_UNFINISHED: another look is ordered already. */
look_result look_at_answers(server *s);
/* The same for those whose reader c is: it took some of what waited for it. */
void look_at_reader(connection *c);

#endif
