/* event_loop.c - turns of libuv's loop, and the list of ready streams. */
#include "net/event_loop.h"

#include "net/tcp_stream.h"

enum { TICK_MS = 1000 };

const double net_turn_bounds[NET_TURN_BUCKETS] = {0.001, 0.01, 0.1, 1};

static void on_async(uv_async_t *async)
{
    net_loop *l = async->data;
    l->events.woken(l->user);
}

static void on_tick(uv_timer_t *timer)
{
    net_loop *l = timer->data;
    l->events.ticked(l->user);
}

static void on_later(uv_timer_t *timer)
{
    net_loop *l = timer->data;
    l->events.timed(l->user);
}

/* uv_run() polls without sleeping as long as an idle handle is active; it does nothing. */
static void on_idle(uv_idle_t *idle)
{
    (void)idle;
}

void net_loop_ready(net_loop *l, stream *s)
{
    s->next_ready = NULL;
    *(l->first ? &l->last->next_ready : &l->first) = s;
    l->last = s;
    uv_idle_start(&l->idle, on_idle);
}

void net_loop_forget(net_loop *l, stream *s)
{
    stream *before = NULL;
    for (stream *at = l->first; at != s; at = at->next_ready) before = at;
    *(before ? &before->next_ready : &l->first) = s->next_ready;
    if (l->last == s) l->last = before;
}

/* Call each stream that was ready when this turn began, once; a stream that becomes ready again
 * waits for the next turn. */
static void on_check(uv_check_t *check)
{
    net_loop *l = check->data;
    stream *first = l->first;
    l->first = l->last = NULL;
    while (first) {
        stream *s = first;
        first = s->next_ready;
        s->run(s);
    }
    if (!l->first) uv_idle_stop(&l->idle);
}

/* The loop is about to poll: the time since the last poll was one turn. */
static void on_prepare(uv_prepare_t *prepare)
{
    net_loop *l = prepare->data;
    uint64_t now = clock_ns(), idle = uv_metrics_idle_time(&l->uv);
    if (l->began_ns) {
        uint64_t slept = idle - l->idle_ns, took = now - l->began_ns;
        double seconds = took > slept ? (double)(took - slept) / 1e9 : 0;
        l->turns.n++;
        l->turns.seconds += seconds;
        if (seconds > l->turns.longest) l->turns.longest = seconds;
        for (int i = 0; i < NET_TURN_BUCKETS; i++)
            l->turns.n_within[i] += seconds <= net_turn_bounds[i];
    }
    l->began_ns = now;
    l->idle_ns = idle;
}

int net_loop_open(net_loop *l, const net_loop_events *events, void *user, cerium_error *err)
{
    *l = (net_loop){.events = *events, .user = user};
    int code = uv_loop_init(&l->uv);
    if (code)
        return error_set(err, CERIUM_ERR_IO, "the event loop cannot be made: %s",
                         uv_strerror(code));
    l->is_open = true;
    code = uv_loop_configure(&l->uv, UV_METRICS_IDLE_TIME);
    if (!code) code = uv_async_init(&l->uv, &l->async, on_async);
    if (code) {
        uv_loop_close(&l->uv);
        l->is_open = false;
        return error_set(err, CERIUM_ERR_IO, "the event loop cannot be woken: %s",
                         uv_strerror(code));
    }
    /* These take no system resources and cannot fail. */
    uv_timer_init(&l->uv, &l->tick);
    uv_timer_init(&l->uv, &l->later);
    uv_check_init(&l->uv, &l->check);
    uv_idle_init(&l->uv, &l->idle);
    uv_prepare_init(&l->uv, &l->prepare);
    l->async.data = l->tick.data = l->later.data = l;
    l->check.data = l->idle.data = l->prepare.data = l;
    uv_timer_start(&l->tick, on_tick, TICK_MS, TICK_MS);
    uv_check_start(&l->check, on_check);
    uv_prepare_start(&l->prepare, on_prepare);
    return CERIUM_OK;
}

void net_loop_close(net_loop *l)
{
    if (!l->is_open) return;
    l->is_open = false;
    uv_handle_t *const handles[] = {(uv_handle_t *)&l->async, (uv_handle_t *)&l->tick,
                                    (uv_handle_t *)&l->later, (uv_handle_t *)&l->check,
                                    (uv_handle_t *)&l->idle,  (uv_handle_t *)&l->prepare};
    for (size_t i = 0; i < ARRAY_LEN(handles); i++) uv_close(handles[i], NULL);
    while (uv_run(&l->uv, UV_RUN_NOWAIT)) {
    }
    CHECK(uv_loop_close(&l->uv) == 0);
}

void net_loop_turn(net_loop *l)
{
    uv_run(&l->uv, UV_RUN_ONCE);
}

void net_loop_wake(net_loop *l)
{
    uv_async_send(&l->async);
}

void net_loop_later(net_loop *l, uint64_t ms)
{
    uv_update_time(&l->uv);
    uv_timer_start(&l->later, on_later, ms, 0);
}
