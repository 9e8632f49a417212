/* look.c - chooses which events to read now, and for how long. */
#include "server/look.h"

#include "server/connection.h"
#include "server/keep_alive.h"
#include "server/schedule.h"
#include "server/wake.h"

enum {
    LOOK_NS = 2000000,         /* then sockets get a turn */
    LOOK_LOWER_NS = 200000,    /* for lower classes, while a better one runs: once in LOWER_MS */
    LOWER_MS = 1,
};

static look_result answer_look(answer *a, uint64_t end_ns)
{
    connection *c = a->sink.c;
    keep_alive_progress(a);
    for (look_result found = LOOK_NOTHING;;) {
        look_result of = a->source->poll(a, end_ns);
        if (of > found) found = of;
        if (!c) return found;
        bool parked = connection_parked(c);
        connection_flush(c);
        /* The socket took everything at once: no event will follow, and there may be more output.
         * */
        if (!parked || connection_parked(c) || c->gone) return found;
        if (clock_ns() >= end_ns) return LOOK_UNFINISHED;
    }
}

static bool is_running(const answer *a)
{
    for (uint32_t i = 0; i < a->n_choices; i++)
        if (a->choices[i].state == CHOICE_RUNNING && !a->choices[i].parked) return true;
    return false;
}

/* Among running ones; SERVER_CLASSES when none runs. */
static uint32_t best_class(const server *s)
{
    uint32_t best = SERVER_CLASSES;
    for (const answer *a = s->answers; a; a = a->next) {
        uint32_t class_ = (uint32_t)a->request->class_;
        if (class_ < best && is_running(a)) best = class_;
    }
    return best;
}

/* One round over the answers of the best class, or over all others.  A round that an earlier look
 * began may have passed answers with new events: another one must follow. */
static look_result look_round(server *s, bool of_best, uint32_t best, uint64_t end_ns)
{
    look_result found = LOOK_NOTHING;
    bool is_old = false;
    for (answer *a = s->answers, *next; a; a = next) {
        next = a->next; /* answers are freed in answers_reap() only */
        if (((uint32_t)a->request->class_ == best) != of_best) continue;
        if (a->round == s->rounds[of_best]) {
            is_old = true;
            continue;
        }
        if (clock_ns() >= end_ns) return LOOK_UNFINISHED;
        look_result of = answer_look(a, end_ns);
        a->round = s->rounds[of_best];
        if (of > found) found = of;
    }
    s->rounds[of_best] = ++s->n_rounds;
    return is_old ? LOOK_UNFINISHED : found;
}

look_result look_at_answers(server *s)
{
    uint32_t best = best_class(s);
    look_result of_best = look_round(s, true, best, clock_ns() + LOOK_NS);
    bool is_alone = best == SERVER_CLASSES;
    uint64_t lower_ns = is_alone ? LOOK_NS : LOOK_LOWER_NS;
    look_result others = look_round(s, false, best, clock_ns() + lower_ns);
    answers_start(s);
    if (of_best == LOOK_UNFINISHED || (is_alone && others == LOOK_UNFINISHED))
        wake_in(s, 0);
    else if (others == LOOK_UNFINISHED)
        wake_in(s, LOWER_MS);
    return of_best > others ? of_best : others;
}

void look_at_reader(connection *c)
{
    server *s = c->s;
    c->has_parked = false;
    uint64_t end_ns = clock_ns() + LOOK_LOWER_NS;
    look_result found = LOOK_NOTHING;
    for (answer *a = s->answers, *next; a; a = next) {
        next = a->next;
        if (a->sink.c != c) continue;
        look_result of = answer_look(a, end_ns);
        if (of > found) found = of;
    }
    answers_start(s);
    if (found == LOOK_UNFINISHED) wake_in(s, LOWER_MS);
}
