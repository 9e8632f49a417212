/* drive.c - the common work of all drivers of a session for its watch: feeds it, and restarts the
 * session when the watch orders it. */
#include "watch/watch.h"

int watch_drive_step(watch_drive *d, const cerium_step *step, const cerium_logprob *top,
                     uint32_t n_top, watch_result *out)
{
    *out = (watch_result){.text = {"", 0}};
    if (d->retries) return CERIUM_OK; /* the session is about to end */
    RETURN_IF(watch_step(d->watch, step, top, n_top, out));
    d->retries = out->order == CERIUM_WATCH_RETRY;
    return CERIUM_OK;
}

int watch_drive_finish(watch_drive *d, watch_result *out)
{
    RETURN_IF(watch_finish(d->watch, out));
    d->retries = out->order == CERIUM_WATCH_RETRY;
    return CERIUM_OK;
}

int watch_drive_retry(watch_drive *d, cerium_request *q, bool *runs)
{
    size_t n;
    const int32_t *written = watch_tokens(d->watch, &n);
    d->retries = false;
    watch_retry(d->watch, &d->plan);
    *runs = n < q->new_tokens_max;
    if (!*runs) return CERIUM_OK;
    memory_free(d->timeline);
    d->timeline = memory_alloc((d->n_prompt + n) * sizeof *d->timeline);
    if (!d->timeline) return CERIUM_ERR_MEMORY;
    memcpy(d->timeline, d->prompt, d->n_prompt * sizeof *d->timeline);
    if (n) memcpy(d->timeline + d->n_prompt, written, n * sizeof *written);
    q->tokens = d->timeline;
    q->n_tokens = d->n_prompt + n;
    q->new_tokens_max -= q->new_tokens_max == UINT32_MAX ? 0 : (uint32_t)n;
    q->resume = &d->plan.resume;
    return CERIUM_OK;
}

void watch_drive_close(watch_drive *d)
{
    watch_close(&d->watch);
    memory_free(d->timeline);
    d->timeline = NULL;
}
