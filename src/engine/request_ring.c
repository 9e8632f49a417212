/* request_ring.c - the ring through which the reader of a request follows it: see request.h. */
#include "engine/request.h"

/* ---- the writer ---- */

uint32_t request_room(const request *r)
{
    uint32_t n = atomic_load(&r->tail) - atomic_load(&r->head);
    return n < CERIUM_EVENTS_MAX ? CERIUM_EVENTS_MAX - n : 0;
}

bool request_has_room(request *r)
{
    if (request_room(r) > 0) return true;
    atomic_store(&r->parked, true);
    if (request_room(r) == 0) return false;
    atomic_store(&r->parked, false);
    return true;
}

char *request_text(request *r, size_t text_max)
{
    if (atomic_load(&r->tail) == atomic_load(&r->head)) r->text_at = 0; /* a slot in the cache */
    if (r->text_at + text_max > r->text_bytes) r->text_at = 0;
    return r->text + r->text_at;
}

void request_push(request *r, const event_slot *event, const cerium_logprob *top)
{
    uint32_t tail = atomic_load_explicit(&r->tail, memory_order_relaxed);
    event_slot *to = &r->slots[tail % EVENT_SLOTS];
    *to = *event;
    to->text_at = r->text_at;
    r->text_at += event->text_len;
    if (event->n_top)
        memcpy(r->top + (size_t)(tail % EVENT_SLOTS) * r->top_logprobs, top,
               event->n_top * sizeof *top);
    atomic_store(&r->tail, tail + 1);
    if (atomic_exchange(&r->armed, false) && r->notify) r->notify(r->user);
}

/* ---- the reader ---- */

/* Give back the slot that was read. */
static void release(cerium_session *s, request *r)
{
    if (!r->is_viewed) return;
    r->is_viewed = false;
    atomic_fetch_add(&r->head, 1);
    if (atomic_exchange(&r->parked, false)) engine_wake(s->engine);
}

static bool is_empty(request *r)
{
    uint32_t head = atomic_load(&r->head);
    if (atomic_load(&r->tail) != head) return false;
    atomic_store(&r->armed, true);
    if (atomic_load(&r->tail) == head) return true;
    /* It came just now.  One side takes the flag and handles it: this one, or notify. */
    atomic_store(&r->armed, false);
    return false;
}

void cerium_session_poll(cerium_session *s, cerium_event *event)
{
    *event = (cerium_event){.kind = CERIUM_EVENT_NONE};
    if (!s->running) return;
    request *r = s->request;
    release(s, r);
    if (is_empty(r)) return;
    uint32_t at = atomic_load(&r->head) % EVENT_SLOTS;
    const event_slot *from = &r->slots[at];
    event->kind = from->kind;
    if (from->kind == CERIUM_EVENT_DONE) {
        event->status = from->status;
        event->stop = from->stop;
        s->running = false;
        atomic_store(&s->cancel, false); /* one that came too late is not the next request's */
        guide_close(&s->slot.guide); /* the request had it */
        return;
    }
    event->step = (cerium_step){.n_tokens = 1,
                                .tokens = {from->token},
                                .logprobs = {from->logprob},
                                .digests = {digest_mark(from->digest)},
                                .stop = from->stop,
                                .text = r->text + from->text_at,
                                .text_len = from->text_len,
                                .text_ends = {(uint32_t)from->text_len},
                                .text_held = {from->text_held},
                                .duration_ns = from->duration_ns};
    digest_show(s, from->digest);
    event->n_top = from->n_top;
    event->top = from->n_top ? r->top + (size_t)at * r->top_logprobs : NULL;
    r->is_viewed = true;
}
