/* wake.c - wake-ups of the event loop; none is lost, see docs/locks.md. */
#include "server/wake.h"

void wake_to_look(void *user)
{
    server *s = user;
    if (!atomic_exchange(&s->woken, true)) net_loop_wake(&s->loop);
}

void wake_for_job(void *user)
{
    server *s = user;
    net_loop_wake(&s->loop);
}

void wake_in(server *s, uint32_t ms)
{
    uint64_t due_ns = clock_ns() + ms * UINT64_C(1000000);
    if (s->turn_waits && s->turn_due_ns <= due_ns) return; /* never postponed */
    s->turn_waits = true;
    s->turn_due_ns = due_ns;
    net_loop_later(&s->loop, ms);
}
