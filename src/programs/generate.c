/* generate.c - streaming one answer. */
#include "programs/generate.h"

#include <signal.h>
#include <stdatomic.h>

static cerium_session *_Atomic interrupted_session;
static thread_bell *_Atomic interrupted_bell;
static _Atomic bool interrupted;

static void on_interrupt(int number)
{
    (void)number;
    cerium_session *session = atomic_load(&interrupted_session);
    atomic_store(&interrupted, true);
    if (session) cerium_session_cancel(session);
    thread_bell *bell = atomic_load(&interrupted_bell);
    if (bell) thread_bell_ring(bell);
}

static void take_interrupts(cerium_session *session, thread_bell *bell)
{
    struct sigaction action = {.sa_handler = on_interrupt};
    sigemptyset(&action.sa_mask);
    atomic_store(&interrupted, false);
    atomic_store(&interrupted_session, session);
    atomic_store(&interrupted_bell, bell);
    sigaction(SIGINT, &action, NULL);
}

void interrupt_cancels(cerium_session *session) { take_interrupts(session, NULL); }
void interrupt_rings(thread_bell *bell) { take_interrupts(NULL, bell); }
bool interrupt_came(void) { return atomic_load(&interrupted); }

void interrupt_restore(void)
{
    signal(SIGINT, SIG_DFL);
    atomic_store(&interrupted_session, NULL);
    atomic_store(&interrupted_bell, NULL);
}

static int step_loop(cerium_session *session, uint32_t n_new, const cerium_sampling *sampling,
                     FILE *out, step_fn *seen, void *arg, generation *g, uint64_t start,
                     cerium_error *err)
{
    cerium_step step = {0};
    cerium_sampling choice = *sampling;
    uint64_t first = 0;
    while (g->new_tokens < n_new && step.stop == CERIUM_STOP_NONE) {
        uint32_t left = n_new - g->new_tokens;
        if (!sampling->step_tokens_max || left < sampling->step_tokens_max)
            choice.step_tokens_max = left;
        RETURN_IF(cerium_session_step(session, &choice, &step, err));
        uint64_t now = clock_ns();
        if (g->new_tokens == 0) first = now;
        g->first_ns = first - start;
        g->rest_ns = now - first;
        g->new_tokens += step.n_tokens;
        g->stop = step.stop;
        if (seen) seen(arg, session, &step);
        fwrite(step.text, 1, step.text_len, out);
        if (fflush(out)) return error_set(err, CERIUM_ERR_IO, "cannot write the output");
    }
    return CERIUM_OK;
}

int generate(cerium_session *session, const int32_t *tokens, size_t n_tokens, uint32_t n_new,
             const cerium_sampling *sampling, FILE *out, step_fn *seen, void *arg, generation *g,
             cerium_error *err)
{
    cerium_sync_result sync = {0};
    uint64_t start = clock_ns();
    *g = (generation){.prompt_tokens = (uint32_t)n_tokens};
    interrupt_cancels(session);
    int status = cerium_session_sync(session, tokens, n_tokens, &sync, err);
    g->reused_tokens = sync.tokens_reused;
    g->prompt_ns = clock_ns() - start;
    if (!status) status = step_loop(session, n_new, sampling, out, seen, arg, g, start, err);
    interrupt_restore();
    if (status == CERIUM_ERR_CANCELED && atomic_load(&interrupted)) {
        g->interrupted = true;
        return CERIUM_OK;
    }
    return status;
}

const char *stop_name(cerium_stop stop)
{
    switch (stop) {
    case CERIUM_STOP_NONE:
        return "";
    case CERIUM_STOP_END:
        return "end";
    case CERIUM_STOP_TEXT:
        return "text";
    case CERIUM_STOP_LIMIT:
        return "limit";
    case CERIUM_STOP_STUCK:
        return "stuck";
    }
    return "";
}

void print_generation(const generation *g, FILE *to)
{
    fflush(stdout); /* the answer comes first where both go to one place */
    fprintf(to, "prompt %u tokens in %.1f ms", g->prompt_tokens, (double)g->prompt_ns / 1e6);
    if (g->reused_tokens) fprintf(to, " (%u reused)", g->reused_tokens);
    if (g->new_tokens)
        fprintf(to, ", first token after %.1f ms, %u tokens", (double)g->first_ns / 1e6,
                g->new_tokens);
    if (g->new_tokens > 1 && g->rest_ns)
        fprintf(to, " at %.0f tokens/s", (g->new_tokens - 1) * 1e9 / (double)g->rest_ns);
    if (g->stop == CERIUM_STOP_LIMIT) fprintf(to, ", the context is full");
    fprintf(to, g->interrupted ? ", stopped\n" : "\n");
}
