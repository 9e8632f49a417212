/* admission.c - a bounded queue, and an honest answer when it is full. */
#include "server/admission.h"

/* Seconds until the queue is likely to have room: how long answers took of late, for those ahead
 * of us, running_max at a time. */
static uint32_t wait_s(const server *s)
{
    const metrics_times *t = &s->metrics.times[METRICS_ANSWER];
    double mean_s = t->n ? t->sum_s / (double)t->n : 1.0;
    double wait = mean_s * (s->n_waiting + 1.0) / s->config.running_max;
    if (wait < 1) return 1;
    return wait > 60 ? 60 : (uint32_t)wait;
}

int admission_check(const server *s, const protocol_request *request, protocol_error *e)
{
    if (s->draining) {
        (void)protocol_error_set(e, 503, "server_error", "shutting_down", "",
                                 "the server is shutting down");
        e->retry_after_s = 5;
        return CERIUM_ERR_ARGUMENT;
    }
    /* An inline completion is dropped by its successor anyway; it may always try. */
    if (s->n_waiting < s->config.queue_max || request->class_ == CERIUM_CLASS_COMPLETION)
        return CERIUM_OK;
    uint32_t wait = wait_s(s);
    (void)protocol_error_set(e, 429, "rate_limit_error", "rate_limit_exceeded", "",
                             "too many requests wait; please try again in %us", wait);
    e->retry_after_s = wait;
    return CERIUM_ERR_ARGUMENT;
}
