/* look.h - what the engine has for answers is taken in turns, so that none holds the loop. */
#ifndef SERVER_LOOK_H
#define SERVER_LOOK_H

#include "server/state.h"

/* Read the engine's events, while the turn of the loop stays short: the best running class first,
 * others for a fraction of the time, within each the answers not reached last time.  Then start
 * answers that wait for a place.  LOOK_UNFINISHED: another look is scheduled. */
look_result look_at_answers(server *s);
/* The same for those whose reader c is: it took some of what waited for it. */
void look_at_reader(connection *c);

#endif
