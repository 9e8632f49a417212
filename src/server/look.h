/* look.h - reads the engine's events for answers in short turns, so that none delays the loop. */
#ifndef SERVER_LOOK_H
#define SERVER_LOOK_H

#include "server/state.h"

/* Read the engine's events, while the turn of the loop stays short: the best running class first,
 * others for a fraction of the time, within each the answers not reached last time.  Then start
 * answers that wait for a place.  LOOK_UNFINISHED: another look is scheduled. */
look_result look_at_answers(server *s);
/* The same for answers whose reader is c: it took some of the queue. */
void look_at_reader(connection *c);

#endif
