/* shared_team.h - compute threads that several engines share, in turns.
 *
 * Engines with threads of their own would take the processors from each other in the middle of a
 * pass, and a pass waits for its slowest thread.  So engines beside each other share one team, and
 * their passes take turns: the better class first, within a class the one that waited longer.  A
 * better class stops a pass that may be stopped.  A user that waited TEAM_STARVED times as long as
 * its own last pass goes before all, and is not stopped: so lower classes get a sixteenth of the
 * time, as within an engine. */
#ifndef ENGINE_SHARED_TEAM_H
#define ENGINE_SHARED_TEAM_H

#include <stdatomic.h>

#include "cpu/team.h"

enum { TEAM_STARVED = 15, TEAM_STARVED_NS_MIN = 15000000 };

typedef struct shared_team shared_team;

/* A user of the team; owned by the engine, except what the turn writes.  {0} but for the first two.
 * */
typedef struct team_user {
    _Atomic bool *stop;                  /* set to end its pass, or NULL, */
    const _Atomic uint32_t *stops_below; /* for a class below this one */
    uint32_t class_;
    uint64_t since_ns, began_ns, pass_ns; /* it waits since; its turn began; the last one lasted */
    bool is_starved;                      /* this turn is for starvation: do not stop it */
    struct team_user *next;
} team_user;

/* With n_workers threads and one holder. */
CERIUM_CHECKED int shared_team_open(shared_team **out, uint32_t n_workers, cerium_error *err);
/* One more holder; returns t. */
shared_team *shared_team_hold(shared_team *t);
/* The last holder ends the threads.  Accepts NULL, and nulls it. */
void shared_team_release(shared_team **t);
team *shared_team_threads(shared_team *t);

void shared_team_take(shared_team *t, team_user *who, uint32_t class_);
/* goes_on: it also wants the next turn, and keeps it unless a user waits that goes first;
 * shared_team_take() or shared_team_leave() must follow soon. */
void shared_team_give(shared_team *t, team_user *who, bool continues);
/* Give up the turn, or the wait for one. */
void shared_team_leave(shared_team *t, team_user *who);
/* The best waiting class; CERIUM_CLASSES: none waits. */
uint32_t shared_team_wanted(const shared_team *t);
/* How many wait. */
uint32_t shared_team_waiting(shared_team *t);

#endif
