/* shared_team.c - gives turns to engines that share compute threads. */
#include "engine/shared_team.h"

#include <pthread.h>

#include "base/memory.h"

struct shared_team {
    team *workers;
    _Atomic uint32_t n_holders;
    _Atomic uint32_t wanted; /* shared_team_wanted() */
    pthread_mutex_t lock;    /* guards the fields below, and those of users that turns write */
    pthread_cond_t changed;
    team_user *has_turn;  /* NULL: nobody */
    team_user *waiting;   /* the oldest first */
};

int shared_team_open(shared_team **out, uint32_t n_workers, cerium_error *err)
{
    shared_team *t = memory_zalloc(1, sizeof *t);
    if (!t) return error_set(err, CERIUM_ERR_MEMORY, "no memory for the compute threads");
    atomic_store(&t->n_holders, 1);
    atomic_store(&t->wanted, CERIUM_CLASSES);
    if (pthread_mutex_init(&t->lock, NULL)) {
        memory_free(t);
        return error_set(err, CERIUM_ERR_MEMORY, "no memory for a lock");
    }
    if (pthread_cond_init(&t->changed, NULL)) {
        pthread_mutex_destroy(&t->lock);
        memory_free(t);
        return error_set(err, CERIUM_ERR_MEMORY, "no memory for a lock");
    }
    int status = team_open(&t->workers, n_workers, err);
    if (status)
        shared_team_release(&t);
    else
        *out = t;
    return status;
}

shared_team *shared_team_hold(shared_team *t)
{
    atomic_fetch_add(&t->n_holders, 1);
    return t;
}

void shared_team_release(shared_team **out)
{
    if (!out || !*out) return;
    shared_team *t = *out;
    *out = NULL;
    if (atomic_fetch_sub(&t->n_holders, 1) > 1) return;
    CHECK(!t->has_turn && !t->waiting);
    team_close(&t->workers);
    pthread_cond_destroy(&t->changed);
    pthread_mutex_destroy(&t->lock);
    memory_free(t);
}

team *shared_team_threads(shared_team *t) { return t->workers; }
uint32_t shared_team_wanted(const shared_team *t) { return atomic_load(&t->wanted); }

uint32_t shared_team_waiting(shared_team *t)
{
    uint32_t n = 0;
    pthread_mutex_lock(&t->lock);
    for (const team_user *w = t->waiting; w; w = w->next) n++;
    pthread_mutex_unlock(&t->lock);
    return n;
}

/* ---- with the lock held ---- */

static void note_wanted(shared_team *t)
{
    uint32_t best = CERIUM_CLASSES;
    for (const team_user *w = t->waiting; w; w = w->next)
        if (w->class_ < best) best = w->class_;
    atomic_store(&t->wanted, best);
}

static bool is_starved(const team_user *w, uint64_t now)
{
    uint64_t most = TEAM_STARVED * w->pass_ns;
    if (most < TEAM_STARVED_NS_MIN) most = TEAM_STARVED_NS_MIN;
    return now - w->since_ns > most;
}

/* The next of the waiting users; NULL: none waits. */
static team_user *first_in_line(shared_team *t, uint64_t now)
{
    team_user *best = NULL;
    for (team_user *w = t->waiting; w; w = w->next) {
        if (is_starved(w, now)) return w;
        if (!best || w->class_ < best->class_) best = w;
    }
    return best;
}

static void join_line(shared_team *t, team_user *who)
{
    team_user **at = &t->waiting;
    while (*at) at = &(*at)->next;
    who->next = NULL;
    *at = who;
    note_wanted(t);
}

static void leave_line(shared_team *t, team_user *who)
{
    team_user **at = &t->waiting;
    while (*at != who) at = &(*at)->next;
    *at = who->next;
    note_wanted(t);
}

/* The user in turn does work that can wait. */
static void ask_to_stop(const shared_team *t, const team_user *who)
{
    const team_user *has = t->has_turn;
    if (!has || !has->stop || has->is_starved) return;
    if (who->class_ < atomic_load(has->stops_below)) atomic_store(has->stop, true);
}

/* Choose the next user here, not by which thread wakes first: starvation changes with time. */
static void hand_on(shared_team *t, uint64_t now)
{
    team_user *next = first_in_line(t, now);
    t->has_turn = next;
    if (!next) return;
    next->is_starved = is_starved(next, now);
    leave_line(t, next);
    pthread_cond_broadcast(&t->changed);
}

/* ---- turns ---- */

void shared_team_take(shared_team *t, team_user *who, uint32_t class_)
{
    pthread_mutex_lock(&t->lock);
    who->class_ = class_;
    if (!t->has_turn) {
        t->has_turn = who;
        who->is_starved = false;
    } else if (t->has_turn != who) {
        who->since_ns = clock_ns();
        join_line(t, who);
        ask_to_stop(t, who);
        while (t->has_turn != who) pthread_cond_wait(&t->changed, &t->lock);
    }
    pthread_mutex_unlock(&t->lock);
    who->began_ns = clock_ns();
}

void shared_team_give(shared_team *t, team_user *who, bool continues)
{
    const uint64_t now = clock_ns();
    pthread_mutex_lock(&t->lock);
    CHECK(t->has_turn == who);
    who->pass_ns = now - who->began_ns;
    who->is_starved = false;
    const team_user *next = first_in_line(t, now);
    const bool keeps = continues && next && next->class_ > who->class_ && !is_starved(next, now);
    if (!keeps) hand_on(t, now);
    pthread_mutex_unlock(&t->lock);
}

void shared_team_leave(shared_team *t, team_user *who)
{
    pthread_mutex_lock(&t->lock);
    if (t->has_turn == who) hand_on(t, clock_ns());
    pthread_mutex_unlock(&t->lock);
}
