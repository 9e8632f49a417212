/* keep_alive.c - keepalives for silent streams, and the progress of their prompts.
 *
 * Each answer has its own timer, not its connection: lanes of a WebSocket share a connection, but
 * their clients have separate timeouts.  Each API has its own form of a keepalive, as clients count
 * only events that they know. */
#include "server/keep_alive.h"

#include "server/answers.h"
#include "server/connection.h"
#include "server/recording.h"

enum {
    PROGRESS_MS = 250, /* between two chunks of return_progress */
    LOADING_S = 1,     /* between two keepalives while the model is loaded: a user watches */
};

static uint32_t least(uint32_t a, uint32_t b) { return a < b ? a : b; }

static bool waits_for_model(const answer *a)
{
    const served_model *m = a->model;
    return a->source && a->source->is_local && m->state != MODEL_LOADED && m->wanted_ns;
}

static void add_load(const answer *a, protocol_progress *p)
{
    served_model *m = a->model;
    if (!waits_for_model(a)) return;
    p->loading = m->names[0];
    if (m->state != MODEL_LOADING) return; /* others are loaded, or unloaded, before it */
    p->load_bytes = atomic_load_explicit(&m->total_bytes, memory_order_relaxed);
    p->loaded_bytes = atomic_load_explicit(&m->done_bytes, memory_order_relaxed);
}

/* Prompts count once, however many texts continue them.  After the first text the watch runs the
 * session: the prompt is computed by then. */
static protocol_progress progress_of(const answer *a)
{
    protocol_progress sum = {.prompt_tokens = 0};
    for (uint32_t i = 0; i < a->n_choices; i += a->request->n_choices) {
        const choice *ch = &a->choices[i];
        uint32_t n = (uint32_t)ch->n_prompt;
        cerium_usage u = {.prompt_tokens = 0};
        if (ch->state == CHOICE_RUNNING) cerium_session_usage(ch->session, &u);
        uint64_t since = u.duration_ns > u.queue_ns ? u.duration_ns - u.queue_ns : 0;
        uint64_t ns = u.prompt_ns ? u.prompt_ns : u.queue_ns ? since : 0;
        bool whole = ch->first_ns || ch->state == CHOICE_CLOSED;
        sum.prompt_tokens += n;
        sum.cached_tokens += least(u.reused_tokens, n);
        sum.done_tokens += whole ? n : least(u.reused_tokens + u.computed_tokens, n);
        if (ns > sum.prompt_ns) sum.prompt_ns = ns;
    }
    add_load(a, &sum);
    return sum;
}

/* A slow reader has enough to read. */
static bool may_speak(const answer *a)
{
    if (answer_is_over(a) || !a->sink.type->streams) return false;
    return a->sink.c ? !connection_parked(a->sink.c) : recording_is_followed(a->recording);
}

static void fail(answer *a)
{
    answer_fail_memory(a);
    answer_cancel(a, "out_of_memory");
}

/* An answer that is still being prepared, or requested from another server, begins its stream now:
 * an error that might have been an HTTP status will be an event. */
static void beat(answer *a, uint64_t now_ns)
{
    protocol_progress p = progress_of(a);
    a->quiet_since_ns = now_ns;
    if (!a->begun) answer_tell_begin(a);
    if (answer_is_over(a)) return;
    if (protocol_writer_beat(a->writer, &p)) fail(a);
    connection_flush(a->sink.c);
}

void keep_alive_tick(server *s, uint64_t now_ns)
{
    uint64_t silence_ns = s->config.keep_alive_s * UINT64_C(1000000000);
    if (!silence_ns) return;
    for (answer *a = s->answers, *next; a; a = next) {
        next = a->next; /* answers are freed in answers_reap() only */
        const uint64_t most_ns = waits_for_model(a) ? LOADING_S * UINT64_C(1000000000) : silence_ns;
        if (may_speak(a) && now_ns > a->quiet_since_ns && now_ns - a->quiet_since_ns >= most_ns)
            beat(a, now_ns);
    }
}

void keep_alive_progress(answer *a)
{
    if (!a->request->return_progress || a->n_sent == UINT32_MAX) return;
    if (!may_speak(a) || !a->begun || a->prepare) return;
    protocol_progress p = progress_of(a);
    bool whole = p.done_tokens == p.prompt_tokens;
    uint64_t now_ns = clock_ns();
    if (p.done_tokens == a->n_sent) return;
    if (!whole && now_ns - a->sent_ns < PROGRESS_MS * UINT64_C(1000000)) return;
    a->n_sent = whole ? UINT32_MAX : p.done_tokens;
    a->sent_ns = now_ns;
    if (protocol_writer_progress(a->writer, &p)) fail(a);
}
