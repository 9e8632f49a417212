/* model_waiters.c - answers that wait for a model. */
#include "server/model_waiters.h"

#include "server/answers.h"
#include "server/connection.h"
#include "server/schedule.h"

/* Tell answers that wait for it that loading failed. */
static void fail_waiting(served_model *m)
{
    protocol_error e;
    (void)protocol_error_set(&e, 503, "server_error", "model_not_loaded", "model",
                             "the model '%s' cannot be loaded: %s", m->names[0], m->failure);
    for (answer *a = m->s->answers; a; a = a->next) {
        if (a->model != m || answer_is_over(a) || !a->source->is_local) continue;
        bool waits = false;
        for (uint32_t i = 0; i < a->n_choices; i++) waits |= a->choices[i].state == CHOICE_WAITING;
        if (!waits) continue;
        connection *c = a->sink.c;
        metrics_count(&m->s->metrics, METRICS_FAILED, 1);
        if (!a->begun && c) {
            for (uint32_t i = 0; i < a->n_choices; i++) choice_closed(&a->choices[i]);
            answer_refuse(a, &e);
            continue;
        }
        answer_fail(a, &e);
        for (uint32_t i = 0; i < a->n_choices; i++) {
            choice_end(&a->choices[i], PROTOCOL_END_FAILED);
            choice_closed(&a->choices[i]);
        }
        if (c) connection_flush(c);
    }
}

/* Begin streams that waited for a model that might not have been loaded. */
static void tell_begins(served_model *m)
{
    for (answer *a = m->s->answers, *next; a; a = next) {
        next = a->next;
        if (a->model != m || a->begun || a->prepare || answer_is_over(a)) continue;
        if (a->source->is_local) a->source->start(a);
    }
}

void model_moved(served_model *m)
{
    if (m->state == MODEL_LOADED) tell_begins(m);
    else if (m->failed_ns && !m->wanted_ns) fail_waiting(m);
    answers_start(m->s);
}
