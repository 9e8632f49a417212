/* admission.c - a bounded queue, and an honest answer when it is full. */
#include "server/admission.h"

uint64_t admission_answer_ns(const server *s)
{
    return s->answer_ns ? s->answer_ns : UINT64_C(1000000000);
}

void admission_ended(server *s, uint64_t took_ns)
{
    /* The mean of about the last eight. */
    s->answer_ns = s->answer_ns ? s->answer_ns - s->answer_ns / 8 + took_ns / 8 : took_ns;
}

uint64_t admission_wait_ms(const server *s, cerium_class class_)
{
    uint64_t ahead = 0;
    if (!s->n_waiting && s->n_running < s->config.running_max) return 0;
    for (int i = 0; i <= (int)class_; i++) ahead += s->n_waiting_of[i];
    /* Of running_max answers, one ends every answer_ns / running_max. */
    return admission_answer_ns(s) / 1000000 * (ahead + 1) / s->config.running_max + 1;
}

int admission_check(const server *s, const protocol_request *request, protocol_error *e)
{
    if (s->draining) {
        (void)protocol_error_set(e, 503, "server_error", "shutting_down", "",
                                 "the server is shutting down");
        e->retry_after_s = 5;
        return CERIUM_ERR_ARGUMENT;
    }
    uint64_t wait_ms = admission_wait_ms(s, request->class_);
    uint64_t queue_ms = (uint64_t)s->config.policy->queue_s * 1000;
    bool late = queue_ms && wait_ms > queue_ms;
    /* An inline completion is dropped by its successor anyway; it may always try. */
    if ((s->n_waiting < s->config.queue_max && !late) ||
        request->class_ == CERIUM_CLASS_COMPLETION)
        return CERIUM_OK;
    uint32_t wait = wait_ms < 1000 ? 1 : wait_ms > 60000 ? 60 : (uint32_t)(wait_ms / 1000);
    (void)protocol_error_set(e, 429, "rate_limit_error", "rate_limit_exceeded", "",
                             "too many requests wait; please try again in %us", wait);
    e->retry_after_s = wait;
    return CERIUM_ERR_ARGUMENT;
}
