/* admission.c - a bounded queue, and a clear refusal when it is full. */
#include "server/admission.h"

static uint32_t n_running(const server *s, cerium_class class_)
{
    uint32_t n = 0;
    for (int i = 0; i <= (int)class_; i++) n += s->n_running_of[i];
    return n;
}

bool admission_has_place(const server *s, cerium_class class_)
{
    return n_running(s, class_) < s->config.running_max;
}

bool admission_has_place_for_idle(const server *s, cerium_class class_)
{
    return n_running(s, class_) < 2 * s->config.running_max;
}

uint64_t admission_answer_ns(const server *s)
{
    return s->answer_ns ? s->answer_ns : UINT64_C(1000000000);
}

void admission_ended(server *s, uint64_t took_ns)
{
    /* The mean of about the last eight. */
    s->answer_ns = s->answer_ns ? s->answer_ns - s->answer_ns / 8 + took_ns / 8 : took_ns;
}

/* The waiting answers of this class and better ones: lower ones do not count against it in the
 * queue. */
static uint32_t n_ahead(const server *s, cerium_class class_)
{
    uint32_t n = 0;
    for (int i = 0; i <= (int)class_; i++) n += s->n_waiting_of[i];
    return n;
}

uint64_t admission_wait_ms(const server *s, cerium_class class_)
{
    uint64_t ahead = n_ahead(s, class_);
    if (!ahead && admission_has_place(s, class_)) return 0;
    /* Of running_max answers, one ends every answer_ns / running_max. */
    return admission_answer_ns(s) * (ahead + 1) / s->config.running_max / 1000000 + 1;
}

/* The part of them that belongs to the client. */
static uint32_t n_own(const answer *a)
{
    uint32_t n = 0;
    for (const answer *other = a->s->answers; other; other = other->next) {
        if (!answers_of_one_client(a, other)) continue;
        for (uint32_t i = 0; i < other->n_choices; i++)
            n += other->choices[i].state == CHOICE_COMING ||
                 other->choices[i].state == CHOICE_WAITING;
    }
    return n;
}

/* Dynamic queue length thresholds (Choudhury and Hahne, 1998), with a factor of 1: a client may
 * have as many waiting as places are left.  So one client alone has half of the queue, two have a
 * third each, and the next client finds room. */
static bool has_room(const answer *a)
{
    const server *s = a->s;
    uint32_t used = s->n_coming + n_ahead(s, a->request->class_), max = s->config.queue_max;
    if (used >= max) return false;
    uint32_t room = max - used;
    return used <= room || n_own(a) <= room;
}

int admission_check(const answer *a, protocol_error *e)
{
    const server *s = a->s;
    if (s->draining) {
        (void)protocol_error_set(e, 503, "server_error", "shutting_down", "",
                                 "the server is shutting down");
        e->retry_after_s = 5;
        return CERIUM_ERR_ARGUMENT;
    }
    uint64_t wait_ms = admission_wait_ms(s, a->request->class_);
    uint64_t queue_ms = (uint64_t)s->config.policy->queue_s * 1000;
    bool late = queue_ms && wait_ms > queue_ms;
    /* An inline completion is dropped by its successor anyway; it may always try. */
    if ((has_room(a) && !late) || a->request->class_ == CERIUM_CLASS_COMPLETION) return CERIUM_OK;
    uint32_t wait = wait_ms < 1000 ? 1 : wait_ms > 60000 ? 60 : (uint32_t)(wait_ms / 1000);
    (void)protocol_error_set(e, 429, "rate_limit_error", "rate_limit_exceeded", "",
                             "too many requests wait; please try again in %us", wait);
    e->retry_after_s = wait;
    return CERIUM_ERR_ARGUMENT;
}
