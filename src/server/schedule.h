/* schedule.h - places for answers of our engine: who waits for one has it when one is free. */
#ifndef SERVER_SCHEDULE_H
#define SERVER_SCHEDULE_H

#include "server/state.h"

/* Start what waits for a place. */
void answers_start(server *s);
/* Something waits that could begin: must never be so after answers_start(). */
bool answers_are_stuck(server *s);

#endif
