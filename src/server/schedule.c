/* schedule.c - chooses the next waiting text to begin: by class, by client, by age. */
#include "server/schedule.h"

#include "server/admission.h"
#include "server/connection.h"
#include "server/model_loader.h"
#include "server/model_list.h"
#include "server/source_engine.h"

/* The class that a request has by now: each second of waiting raises it by one, so that none waits
 * for ever behind new ones. */
static cerium_class class_by_now(const answer *a, uint64_t now)
{
    uint64_t ages = now > a->started_ns ? (now - a->started_ns) / SERVER_AGE_NS : 0;
    return ages >= (uint64_t)a->request->class_ ? (cerium_class)0
                                                : (cerium_class)(a->request->class_ - (int)ages);
}

/* A class has its places beside lower ones. */
enum { PLACES_MAX = 2 * SERVER_RUNNING_MAX * SERVER_CLASSES };

/* Answers that hold places, and their numbers: one server has few of them. */
typedef struct {
    const answer *of[PLACES_MAX];
    uint32_t places[PLACES_MAX];
    uint32_t n;
} place_list;

static void list_places(const server *s, place_list *list)
{
    list->n = 0;
    for (const answer *a = s->answers; a && list->n < PLACES_MAX; a = a->next) {
        uint32_t n = 0;
        for (uint32_t i = 0; i < a->n_choices; i++)
            n += a->choices[i].state == CHOICE_RUNNING && !a->choices[i].parked;
        if (!n) continue;
        list->of[list->n] = a;
        list->places[list->n++] = n;
    }
}

static uint32_t places_of(const place_list *list, const answer *a)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < list->n; i++)
        if (answers_of_one_client(list->of[i], a)) n += list->places[i];
    return n;
}

static choice *first_waiting(const answer *a)
{
    for (uint32_t i = 0; i < a->n_choices; i++)
        if (a->choices[i].state == CHOICE_WAITING) return &a->choices[i];
    return NULL;
}

/* In the highest class, including waiting time, that has a free place: the client with the fewest
 * places, and its oldest answer.  Answers are listed newest first. */
static choice *next_waiting(server *s)
{
    const answer *best = NULL;
    uint64_t now = clock_ns();
    place_list list;
    list_places(s, &list);
    uint32_t best_places = 0;
    const answer *held_back = NULL; /* of a client that holds places, and may not have more */
    for (const answer *a = s->answers; a; a = a->next) {
        if (a->n_closed == a->n_choices || !first_waiting(a)) continue;
        bool for_idle = !admission_has_place(s, a->request->class_);
        if (for_idle && (!a->tenant || !admission_has_place_for_idle(s, a->request->class_) ||
                         (held_back && answers_of_one_client(a, held_back))))
            continue;
        if (!model_serves(a)) continue;
        cerium_class class_ = class_by_now(a, now);
        if (best && class_ > class_by_now(best, now)) continue;
        bool is_higher = !best || class_ < class_by_now(best, now);
        bool is_same = best && answers_of_one_client(a, best);
        uint32_t places = is_same ? best_places : places_of(&list, a);
        if (for_idle && places) held_back = a;
        if ((!is_higher && places > best_places) || (for_idle && places)) continue;
        best = a;
        best_places = places;
    }
    return best ? first_waiting(best) : NULL;
}

/* All sessions of the engine are taken, some by answers whose readers are slow: end the one that
 * has waited the longest for its reader. */
static void end_longest_parked(const served_model *m)
{
    choice *longest = NULL;
    for (answer *a = m->s->answers; a; a = a->next)
        for (uint32_t i = 0; i < a->n_choices && a->model == m; i++) {
            choice *ch = &a->choices[i];
            if (ch->state == CHOICE_RUNNING && ch->parked && a->sink.c && !a->sink.c->closing &&
                (!longest || ch->parked_ns < longest->parked_ns))
                longest = ch;
        }
    if (!longest || clock_ns() - longest->parked_ns < SERVER_PARKED_NS) return;
    connection *c = longest->a->sink.c;
    metrics_count(&m->s->metrics, METRICS_TIMED_OUT, 1);
    log_event(LOG_WARNING, "dropped", "peer=%s reason=\"others wait, and it reads nothing\"",
              c->peer);
    connection_break(c);
}

static bool any_has_place(const server *s)
{
    for (int i = 0; i < SERVER_CLASSES; i++)
        if (s->n_waiting_of[i] && admission_has_place_for_idle(s, (cerium_class)i)) return true;
    return false;
}

void answers_start(server *s)
{
    s->no_session = false;
    for (uint32_t i = 0; i < models_n(s); i++) models_at(s, i)->no_session = false;
    while (any_has_place(s)) {
        choice *ch = next_waiting(s);
        if (!ch) return;
        served_model *m = ch->a->model;
        if (source_engine_start(ch) == CERIUM_ERR_CAPACITY) {
            s->no_session = m->no_session = true; /* other answers may have sessions */
            end_longest_parked(m);
        }
    }
}

bool answers_are_stuck(server *s)
{
    return any_has_place(s) && !s->no_session && next_waiting(s);
}
