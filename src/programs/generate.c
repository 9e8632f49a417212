/* generate.c - streaming one answer. */
#include "programs/generate.h"

#include <signal.h>
#include <stdatomic.h>

#include "programs/output.h"

static cerium_session *_Atomic interrupted_session;
static thread_bell *_Atomic interrupted_bell;
static _Atomic bool interrupted;
static struct sigaction before; /* the previous handler of SIGINT */

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
    sigaction(SIGINT, &action, &before);
}

void interrupt_cancels(cerium_session *session) { take_interrupts(session, NULL); }
void interrupt_rings(thread_bell *bell) { take_interrupts(NULL, bell); }
bool interrupt_came(void) { return atomic_load(&interrupted); }

void interrupt_restore(void)
{
    sigaction(SIGINT, &before, NULL);
    atomic_store(&interrupted_session, NULL);
    atomic_store(&interrupted_bell, NULL);
}

enum { TOP_MAX = 128 };

/* A running answer. */
typedef struct {
    cerium_session *session;
    const generation_order *order;
    generation *g;
    watch_drive drive;     /* its watch is NULL if nothing watches */
    cerium_logprob top[TOP_MAX];
    uint64_t start, first;
    bool enough;
} answer;

int generate_to_file(void *user, view text, cerium_error *err)
{
    write_view(text, user);
    if (user == stdout) return output_flush(err);
    return fflush(user) ? error_set(err, CERIUM_ERR_MEMORY, "no memory for the answer") : 0;
}

static int write_text(answer *a, view text, cerium_error *err)
{
    if (!text.len) return CERIUM_OK;
    int status = a->order->text(a->order->user, text, err);
    a->enough |= status == GENERATE_ENOUGH;
    return status == GENERATE_ENOUGH ? CERIUM_OK : status;
}

static int unwatched(answer *a, const cerium_step *step, uint32_t n_top, cerium_error *err)
{
    a->g->new_tokens += step->n_tokens;
    for (uint32_t i = 0; a->order->seen && i < step->n_tokens; i++) {
        cerium_watch_token t = {.token = step->tokens[i], .logprob = step->logprobs[i],
                                .n_top = n_top, .top = a->top};
        a->order->seen(a->order->user, &t);
    }
    return write_text(a, (view){step->text, step->text_len}, err);
}

/* Text that the watch releases. */
static int take(answer *a, const watch_result *out, cerium_error *err)
{
    size_t n;
    (void)watch_tokens(a->drive.watch, &n);
    a->g->new_tokens = (uint32_t)n;
    a->g->guarded = out->order == CERIUM_WATCH_END;
    for (uint32_t i = 0; a->order->seen && i < out->n_tokens; i++)
        a->order->seen(a->order->user, &out->tokens[i]);
    RETURN_IF(write_text(a, out->text, err));
    watchdog_report(a->order->watchdog, out->findings, out->n_findings);
    return CERIUM_OK;
}

/* The session continues with the answer as the watchdog left it. */
static int retry(answer *a, cerium_error *err)
{
    cerium_request q = {.new_tokens_max = a->order->n_new};
    bool runs;
    if (watch_drive_retry(&a->drive, &q, &runs))
        return error_set(err, CERIUM_ERR_MEMORY, "no memory for the answer");
    if (!runs) return CERIUM_OK;
    a->g->n_sampled = 0;
    return cerium_session_resume(a->session, q.tokens, q.n_tokens, q.resume, NULL, err);
}

static int step_once(answer *a, cerium_step *step, cerium_error *err)
{
    const generation_order *o = a->order;
    cerium_sampling choice = *o->sampling;
    uint32_t left = o->n_new - a->g->new_tokens;
    if (!choice.step_tokens_max || left < choice.step_tokens_max) choice.step_tokens_max = left;
    RETURN_IF(cerium_session_step(a->session, &choice, step, err));
    uint64_t now = clock_ns();
    if (!a->first) a->first = now;
    a->g->first_ns = a->first - a->start;
    a->g->rest_ns = now - a->first;
    a->g->stop = step->stop;
    for (uint32_t i = 0; o->marks && i < step->n_tokens && a->g->n_sampled + i < o->n_new; i++)
        o->marks[a->g->n_sampled + i] = step->digests[i];
    a->g->n_sampled += step->n_tokens;
    return choice.digest ? cerium_session_digest(a->session, a->g->digest, err) : CERIUM_OK;
}

static int step_loop(answer *a, cerium_error *err)
{
    const generation_order *o = a->order;
    while (a->g->new_tokens < o->n_new && !a->enough && !a->g->guarded &&
           !atomic_load(&interrupted)) {
        cerium_step step;
        watch_result out;
        RETURN_IF(step_once(a, &step, err));
        size_t n_top = o->n_top ? cerium_session_top(a->session, a->top, o->n_top) : 0;
        bool ends = step.stop != CERIUM_STOP_NONE;
        if (!a->drive.watch) {
            RETURN_IF(unwatched(a, &step, (uint32_t)n_top, err));
            if (ends) return CERIUM_OK;
            continue;
        }
        if (watch_drive_step(&a->drive, &step, a->top, (uint32_t)n_top, &out))
            return error_set(err, CERIUM_ERR_MEMORY, "no memory to watch the answer");
        RETURN_IF(take(a, &out, err));
        bool full = a->g->new_tokens >= o->n_new;
        if (!a->enough && out.order != CERIUM_WATCH_END &&
            (full || (ends && out.order == CERIUM_WATCH_GO))) {
            if (watch_drive_finish(&a->drive, &out))
                return error_set(err, CERIUM_ERR_MEMORY, "no memory to watch the answer");
            RETURN_IF(take(a, &out, err));
            if (out.order == CERIUM_WATCH_GO) return CERIUM_OK;
        }
        if (a->drive.retries) RETURN_IF(retry(a, err));
    }
    return CERIUM_OK;
}

int generate(cerium_session *session, const cerium_engine *engine, const generation_order *order,
             generation *g, cerium_error *err)
{
    cerium_sync_result sync = {0};
    answer a = {.session = session,
                .order = order,
                .g = g,
                .drive = {.prompt = order->tokens, .n_prompt = order->n_tokens},
                .start = clock_ns()};
    CHECK(order->n_top <= TOP_MAX);
    *g = (generation){.prompt_tokens = (uint32_t)order->n_tokens};
    interrupt_cancels(session);
    const cerium_resume begin = {.heal_prefix = order->heal_prefix.ptr,
                                 .n_heal = order->heal_prefix.len};
    const watch_config how = {.engine = engine,
                              .form = order->form,
                              .language = order->language,
                              .before = order->before,
                              .has_after = order->has_after,
                              .heal_prefix = order->heal_prefix,
                              .logprobs = order->seen != NULL};
    int status = cerium_session_resume(session, order->tokens, order->n_tokens, &begin, &sync, err);
    g->reused_tokens = sync.tokens_reused;
    g->prompt_ns = clock_ns() - a.start;
    if (!status) status = watchdog_watch(order->watchdog, &a.drive.watch, how, err);
    if (!status && order->echo.len) status = write_text(&a, order->echo, err);
    if (!status) status = step_loop(&a, err);
    interrupt_restore();
    if (a.drive.watch)
        g->discarded_tokens = (uint32_t)watch_measure(a.drive.watch).n_discarded;
    watch_drive_close(&a.drive);
    g->interrupted = (!status || status == CERIUM_ERR_CANCELED) && atomic_load(&interrupted);
    return g->interrupted ? CERIUM_OK : status;
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
    fflush(stdout); /* the answer comes first if both go to the same file */
    fprintf(to, "prompt %u tokens in %.1f ms", g->prompt_tokens, (double)g->prompt_ns / 1e6);
    if (g->reused_tokens) fprintf(to, " (%u reused)", g->reused_tokens);
    if (g->new_tokens)
        fprintf(to, ", first token after %.1f ms, %u tokens", (double)g->first_ns / 1e6,
                g->new_tokens);
    if (g->new_tokens > 1 && g->rest_ns)
        fprintf(to, " at %.0f tokens/s", (g->new_tokens - 1) * 1e9 / (double)g->rest_ns);
    if (g->discarded_tokens) fprintf(to, ", %u taken back", g->discarded_tokens);
    if (g->guarded) fprintf(to, ", ended by the watchdog");
    if (g->stop == CERIUM_STOP_LIMIT) fprintf(to, ", the context is full");
    fprintf(to, g->interrupted ? ", stopped\n" : "\n");
}
