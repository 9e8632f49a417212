/* candidates.h - `candidates` of a hole: its other choices are branches of the first one
 * (protocol/hole_branches.h), and begin when that has ended.  On the loop's thread. */
#ifndef SERVER_CANDIDATES_H
#define SERVER_CANDIDATES_H

#include "server/state.h"

/* For an answer whose request has candidates; else nothing.  CERIUM_ERR_MEMORY. */
CERIUM_CHECKED int candidates_open(answer *a);
void candidates_close(answer *a);

/* Does the choice wait for the first one? */
bool candidates_wait(const choice *ch);
/* Likeliest tokens that the engine is to tell of each token of the choice; 0: none. */
uint32_t candidates_top(const choice *ch);
/* A token of the choice. */
void candidates_step(const choice *ch, const cerium_event *event);
/* The first choice has ended: choices 1 to n can begin, the others have nothing to say. */
uint32_t candidates_find(answer *a);
/* One of those is about to. */
void candidates_begin(choice *ch);

#endif
