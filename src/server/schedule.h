/* schedule.h - places for answers of this server's engines: waiting answers get free places. */
#ifndef SERVER_SCHEDULE_H
#define SERVER_SCHEDULE_H

#include "server/state.h"

/* Start answers that wait for a place. */
void answers_start(server *s);
/* Is an answer waiting that could begin?  Always false after answers_start(). */
bool answers_are_stuck(server *s);

#endif
