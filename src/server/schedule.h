/* schedule.h - places for answers of this server's engines: waiting answers get them as they become
 * free. */
#ifndef SERVER_SCHEDULE_H
#define SERVER_SCHEDULE_H

#include "server/state.h"

/* Start what waits for a place. */
void answers_start(server *s);
/* Something waits that could begin: must never be so after answers_start(). */
bool answers_are_stuck(server *s);

#endif
