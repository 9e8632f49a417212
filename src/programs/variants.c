/* variants.c - one request a variant, each in its own session: the engine computes the prompt once
 * and puts their next tokens into one pass. */
#include "programs/variants.h"

#include <jansson.h>
#include <stdlib.h>

#include "base/thread.h"
#include "programs/output.h"
#include "programs/terminal.h"

enum { TEXT_BYTES_MAX = 64 << 20 };
static const uint64_t PROGRESS_NS = 200000000;

static thread_bell bell; /* something to poll, or Ctrl-C */

static void ring(void *user)
{
    (void)user;
    thread_bell_ring(&bell);
}

/* Mean log-probability of a token. */
static double variant_score(const variant *v) { return v->n_tokens ? v->logprob / v->n_tokens : 0; }

static int begin_all(variants *all, cerium_engine *engine, cerium_request *request,
                 const cerium_sampling *sampling, cerium_error *err)
{
    for (uint32_t i = 0; i < all->n; i++) {
        variant *v = &all->of[i];
        cerium_sampling own = *sampling;
        v->text.max = TEXT_BYTES_MAX;
        v->seed = own.seed += i;
        own.logprobs = true;
        request->sampling = &own;
        RETURN_IF(cerium_session_open(&v->session, engine, NULL, err));
        RETURN_IF(cerium_session_start(v->session, request, err));
    }
    return CERIUM_OK;
}

/* Take events.  CERIUM_ERR_CANCELED after Ctrl-C. */
static int poll(variant *v, cerium_error *err)
{
    cerium_event event;
    while (!v->done) {
        cerium_session_poll(v->session, &event);
        if (event.kind == CERIUM_EVENT_NONE) return CERIUM_OK;
        v->done = event.kind == CERIUM_EVENT_DONE;
        if (v->done && event.status && event.status != CERIUM_ERR_CANCELED)
            return error_set(err, event.status, "%s", cerium_status_text(event.status));
        v->stop = v->done ? event.stop : v->stop;
        if (v->done) break;
        v->n_tokens++;
        v->logprob += (double)event.step.logprobs[0];
        if (bytes_append(&v->text, event.step.text, event.step.text_len))
            return error_set(err, CERIUM_ERR_MEMORY, "no memory for the answer");
    }
    return CERIUM_OK;
}

static void show_progress(const variants *all, uint32_t n_done, uint64_t *shown_ns)
{
    uint64_t now = clock_ns();
    if (!progress_is_shown() || now - *shown_ns < PROGRESS_NS) return;
    *shown_ns = now;
    progress_show("%u tokens, %u of %u answers whole", all->new_tokens, n_done, all->n);
}

static int follow(variants *all, uint64_t start, cerium_error *err)
{
    uint64_t first = 0, shown = start;
    for (uint32_t n_done = 0; n_done < all->n;) {
        uint32_t seen = atomic_load(&bell.n_rings);
        uint32_t before = all->new_tokens;
        all->new_tokens = n_done = 0;
        if (interrupt_came() && !all->interrupted) {
            all->interrupted = true;
            for (uint32_t i = 0; i < all->n; i++) cerium_session_cancel(all->of[i].session);
        }
        for (uint32_t i = 0; i < all->n; i++) {
            RETURN_IF(poll(&all->of[i], err));
            n_done += all->of[i].done;
            all->new_tokens += all->of[i].n_tokens;
        }
        uint64_t now = clock_ns();
        if (all->new_tokens > before) all->rest_ns = now - start;
        if (all->new_tokens && !first) first = now - start;
        show_progress(all, n_done, &shown);
        if (n_done < all->n && all->new_tokens == before) thread_bell_wait(&bell, seen);
    }
    if (shown != start) fprintf(stderr, "\r%*s\r", 50, "");
    all->first_ns = first;
    all->rest_ns -= first;
    return CERIUM_OK;
}

static int by_score(const void *a, const void *b)
{
    double x = variant_score(a), y = variant_score(b);
    bool weak[] = {((const variant *)a)->weak, ((const variant *)b)->weak};
    if (weak[0] != weak[1]) return weak[0] ? 1 : -1;
    if (x != y) return x > y ? -1 : 1;
    return ((const variant *)a)->seed < ((const variant *)b)->seed ? -1 : 1;
}

int variants_sample(variants *all, cerium_engine *engine, const generation_order *order,
                    cerium_error *err)
{
    uint64_t start = clock_ns();
    const cerium_resume begin = {.heal_prefix = order->heal_prefix.ptr,
                                 .n_heal = order->heal_prefix.len};
    cerium_request request = {.tokens = order->tokens, .n_tokens = order->n_tokens,
                              .new_tokens_max = order->n_new, .resume = &begin,
                              .class_ = CERIUM_CLASS_EDIT, .notify = ring};
    CHECK(all->n >= 1 && all->n <= VARIANTS_MAX);
    all->prompt_tokens = (uint32_t)order->n_tokens;
    interrupt_rings(&bell);
    int status = begin_all(all, engine, &request, order->sampling, err);
    if (!status) status = follow(all, start, err);
    interrupt_restore();
    if (!status) qsort(all->of, all->n, sizeof *all->of, by_score);
    return status;
}

int variants_judge(variants *all, watchdog *g, guard_form form, view before, cerium_error *err)
{
    const guard_stream_config config = {.form = form};
    cerium_error first, why;
    for (uint32_t i = 0; i < all->n; i++) {
        variant *v = &all->of[i];
        view text = {v->text.ptr, v->text.len};
        int status = watchdog_judge(g, &config, before, text, "the answer", "is left out", &why);
        if (status && status != CERIUM_ERR_FORMAT) {
            *err = why;
            return status;
        }
        v->weak = status != 0;
        if (i == 0 && v->weak) first = why;
        if (v->weak) bytes_free(&v->text);
        all->n_weak += v->weak;
    }
    qsort(all->of, all->n, sizeof *all->of, by_score);
    if (!all->of[0].weak) return CERIUM_OK;
    *err = first;
    return CERIUM_ERR_FORMAT;
}

void variants_free(variants *all)
{
    for (uint32_t i = 0; i < all->n; i++) {
        cerium_session_close(&all->of[i].session);
        bytes_free(&all->of[i].text);
    }
}

/* ---- showing ---- */

static double tokens_per_second(const variants *all)
{
    return all->rest_ns ? (all->new_tokens - 1) * 1e9 / (double)all->rest_ns : 0;
}

static json_t *variant_json(const variants *all, const variant *v)
{
    json_t *text = json_text((view){v->text.ptr, v->text.len});
    const char *stop = *stop_name(v->stop) ? stop_name(v->stop) : "tokens";
    if (v->weak) stop = "guard";
    return json_pack("{s:o, s:s, s:I, s:i, s:f}", "text", text ? text : json_null(), "stop",
                     all->interrupted ? "interrupt" : stop, "seed", (json_int_t)v->seed,
                     "n_tokens", (int)v->n_tokens, "logprob", variant_score(v));
}

static int print_json(const variants *all, cerium_error *err)
{
    json_t *list = json_array(), *whole = variant_json(all, &all->of[0]);
    int status = list && whole ? 0 : -1;
    for (uint32_t i = 0; i < all->n; i++)
        status |= json_array_append_new(list, variant_json(all, &all->of[i]));
    status |= json_object_set_new(whole, "prompt_tokens", json_integer(all->prompt_tokens));
    status |= json_object_set_new(whole, "first_token_ms", json_real((double)all->first_ns / 1e6));
    status |= json_object_set_new(whole, "tokens_per_second", json_real(tokens_per_second(all)));
    status |= json_object_set(whole, "best_of", list);
    json_decref(list);
    if (!status) return output_json(whole, JSON_INDENT(2), err);
    json_decref(whole);
    return error_set(err, CERIUM_ERR_MEMORY, "no memory for the answers");
}

int variants_print(const variants *all, bool quiet, bool as_json, cerium_error *err)
{
    const variant *best = &all->of[0];
    if (as_json) return print_json(all, err);
    write_view((view){best->text.ptr, best->text.len}, stdout);
    printf("\n");
    RETURN_IF(output_flush(err));
    if (quiet) return CERIUM_OK;
    fprintf(stderr, "best of %u: seed %llu, mean log-probability %.3f (the last: %.3f); prompt %u "
            "tokens, first token after %.1f ms, %u tokens at %.0f tokens/s%s\n", all->n,
            (unsigned long long)best->seed, variant_score(best),
            variant_score(&all->of[all->n - 1]), all->prompt_tokens, (double)all->first_ns / 1e6,
            all->new_tokens, tokens_per_second(all), all->interrupted ? ", stopped" : "");
    if (all->n_weak) fprintf(stderr, "%u of them left out: weak lines\n", all->n_weak);
    return CERIUM_OK;
}
