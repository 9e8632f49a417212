/* answer_watchdog.c - policies, watches, and restarting the engine. */
#include "server/answer_watchdog.h"

#include "server/restart.h"

enum {
    BEFORE_BYTES = 64 << 10,   /* bytes before a hole that the watchdog reads */
    REQUEST_BYTES = 256 << 10, /* bytes of the newest texts of the request, whose lines may be
                                * repeated */
};

typedef struct answer_watchdog {
    watch_drive drive;
    const names_index *names;    /* taken, or NULL */
    exists *of;                  /* by whom */
    view *request;               /* owned; the watch borrows it */
    size_t n_corrected;          /* used texts of a->corrected */
} answer_watchdog;

/* ---- policies ---- */

static int ask_for(answer *a, const char *words, const char *param, protocol_error *e)
{
    watch_policy asked = a->guard_policy;
    if (!words || !*words) return CERIUM_OK;
    if (!watch_policy_set_all(&asked, view_of(words)))
        return protocol_error_set(e, 400, "invalid_request_error", "invalid_value", param,
                                  "%s is block, warn or off, or CLASS=one of them, with commas "
                                  "between", param);
    if (a->quota.tier && a->quota.tier->guard_loosens) a->guard_policy = asked;
    else watch_policy_tighten(&a->guard_policy, &asked);
    return CERIUM_OK;
}

int answer_watchdog_policy(answer *a, const char *header, protocol_error *e)
{
    a->guard_policy = a->s->config.guard_policy;
    if (a->quota.tier && a->quota.tier->guard[0])
        CHECK(watch_policy_set_all(&a->guard_policy, view_of(a->quota.tier->guard)));
    RETURN_IF(ask_for(a, header, "x-cerium-guard", e));
    RETURN_IF(ask_for(a, a->request->guard, "cerium_guard", e));
    if (a->s->config.guard || watch_policy_is_off(&a->guard_policy)) return CERIUM_OK;
    return protocol_error_set(e, 400, "invalid_request_error", "guard_off", "cerium_guard",
                              "the answer is to be watched, and this server runs with --guard off");
}

/* ---- the watch ---- */

static void choose_form(const choice *ch, watch_config *config)
{
    const protocol_request *r = ch->a->request;
    uint32_t i = ch->index / r->n_choices;
    config->form = GUARD_TURN;
    if (r->talks) return;
    config->form = GUARD_CODE;
    view before = {r->infill.prefix, r->infill.prefix_len};
    if (r->n_prompts) {
        before = (view){NULL, 0};
        if (i < r->n_prompts && r->prompts[i]) before = (view){r->prompts[i], r->prompt_lens[i]};
    }
    if (r->infill.path) config->language = guard_language_of_path(view_of(r->infill.path));
    if (before.len > BEFORE_BYTES) {
        before.ptr += before.len - BEFORE_BYTES;
        before.len = BEFORE_BYTES;
    }
    config->before = before;
    config->has_after = r->infill.suffix_len > 0;
}

/* The rest of the room is for the text's beginning. */
static void add_text(watch_config *config, view *list, size_t *room, view text)
{
    if (text.len > *room) text.len = *room;
    *room -= text.len;
    if (text.len) list[config->n_request++] = text;
}

/* Texts of the user and of tools, the newest first: a line repeated from them is not the model's.
 * They belong to the request, which outlives the watch. */
static int gather_request(const protocol_request *r, watch_config *config, view **owned)
{
    size_t room = REQUEST_BYTES;
    view *list = memory_alloc((r->n_messages + 2) * sizeof *list);
    if (!list) return CERIUM_ERR_MEMORY;
    config->request = *owned = list;
    for (size_t i = r->n_messages; i-- > 0;) {
        const cerium_message *m = &r->messages[i];
        bool is_given = !strcmp(m->role, "user") || !strcmp(m->role, "tool");
        if (is_given && m->content) add_text(config, list, &room, view_of(m->content));
    }
    add_text(config, list, &room, (view){r->infill.prefix, r->infill.prefix_len});
    add_text(config, list, &room, (view){r->infill.suffix, r->infill.suffix_len});
    return CERIUM_OK;
}

static void discard(answer_watchdog *g)
{
    watch_drive_close(&g->drive);
    if (g->of) exists_give(g->of, g->names);
    memory_free(g->request);
    memory_free(g);
}

int answer_watchdog_open(choice *ch)
{
    answer *a = ch->a;
    const server_config *c = &a->s->config;
    if (!c->guard || a->warm_up || a->request->embeds || watch_policy_is_off(&a->guard_policy))
        return CERIUM_OK;
    watch_config config = {.engine = a->model->engine,
                           .guard = c->guard,
                           .worker = c->guard_worker,
                           .policy = &a->guard_policy,
                           .heal_prefix = {ch->begins.heal_prefix, ch->begins.n_heal},
                           .logprobs = answer_wants_logprobs(a->request),
                           .recorded = a->script != NULL,
                           .n_recorded = (uint32_t)json_array_size(a->corrected)};
    choose_form(ch, &config);
    answer_watchdog *g = memory_zalloc(1, sizeof *g);
    if (!g) return CERIUM_ERR_MEMORY;
    g->of = c->names;
    if (g->of) config.names = g->names = exists_take(g->of);
    int status = gather_request(a->request, &config, &g->request);
    if (!status) status = watch_open(&g->drive.watch, &config, NULL);
    if (status) {
        discard(g);
        return status;
    }
    ch->watchdog = g;
    return CERIUM_OK;
}

static void count_watch(choice *ch)
{
    metrics *m = &ch->a->s->metrics;
    watch_stats stats = watch_measure(ch->watchdog->drive.watch);
    m->guard_ns += stats.ns;
    m->guard_bytes += stats.n_bytes;
    m->guard_lines += stats.n_lines;
    m->guard_discarded += stats.n_discarded;
    if (stats.held_max > m->guard_held) m->guard_held = stats.held_max;
}

void answer_watchdog_close(choice *ch)
{
    answer_watchdog *g = ch->watchdog;
    size_t n;
    if (!g) return;
    count_watch(ch);
    watch_stop(g->drive.watch);
    const int32_t *tokens = watch_tokens(g->drive.watch, &n);
    ch->sampled.len = 0;
    /* Without memory for it the log ends early: less is found in the cache the next time. */
    if (n && bytes_append(&ch->sampled, tokens, n * sizeof *tokens)) ch->sampled.len = 0;
    discard(g);
    ch->watchdog = NULL;
}

/* ---- findings ---- */

static void tell(choice *ch, const cerium_finding *f)
{
    answer *a = ch->a;
    protocol_finding finding = {.deed = watch_action_name(f->action),
                             .weakness = f->weakness,
                             .rule = f->rule,
                             .message = f->message,
                             .idiom = f->idiom,
                             .language = f->language,
                             .cwe = f->cwe,
                             .line = f->line};
    uint32_t kind = f->kind < METRICS_KINDS ? f->kind : METRICS_KINDS - 1;
    a->s->metrics.guard_findings[kind][f->action]++;
    log_event(LOG_WARNING, "guard",
              "id=%s choice=%u action=%s class=%s cwe=%u rule=%s language=%s line=%u tries=%u "
              "tokens=%u", a->id, ch->index, finding.deed, f->weakness, f->cwe, f->rule,
              f->language, f->line, f->n_tries, f->n_tokens);
    /* The closing events report the lack of memory. */
    if (protocol_writer_finding(a->writer, ch->index, &finding))
        log_event(LOG_WARNING, "guard", "id=%s reason=\"out of memory\"", a->id);
}

static void tell_all(choice *ch, const watch_result *out)
{
    for (uint32_t i = 0; i < out->n_findings; i++) tell(ch, &out->findings[i]);
}

int answer_watchdog_step(choice *ch, const cerium_event *event, watch_result *out)
{
    answer_watchdog *g = ch->watchdog;
    RETURN_IF(watch_drive_step(&g->drive, &event->step, event->top, event->n_top, out));
    if (g->drive.retries) cerium_session_cancel(ch->session);
    tell_all(ch, out);
    return CERIUM_OK;
}

int answer_watchdog_finish(choice *ch, watch_result *out)
{
    RETURN_IF(watch_drive_finish(&ch->watchdog->drive, out));
    tell_all(ch, out);
    return CERIUM_OK;
}

uint64_t answer_watchdog_held(const choice *ch)
{
    return ch->watchdog ? watch_held(ch->watchdog->drive.watch) : 0;
}

const int32_t *answer_watchdog_tokens(const choice *ch, size_t *n)
{
    return watch_tokens(ch->watchdog->drive.watch, n);
}

bool answer_watchdog_turns(const choice *ch)
{
    return ch->watchdog && ch->watchdog->drive.retries;
}

/* ---- restarting ---- */

/* The text after the replaced line, and then the rest. */
static int say_rest(choice *ch, view after)
{
    bytes text = {.max = SIZE_MAX / 2};
    int status = bytes_append(&text, after.ptr, after.len);
    if (!status) status = choice_script_text(ch, &text);
    if (!status && text.len) status = choice_say(ch, (view){text.ptr, text.len});
    else if (!status) ch->script = ch->a->script, ch->n_script = 0; /* there is no more text */
    bytes_free(&text);
    return status;
}

/* The next recorded text, if the answer is recorded. */
static int next_script(choice *ch, const watch_plan *plan)
{
    answer_watchdog *g = ch->watchdog;
    answer *a = ch->a;
    if (!plan->corrects && ch->script) {
        size_t n = ch->n_steps < ch->n_script ? ch->n_steps : ch->n_script;
        ch->script += n;
        ch->n_script -= n;
        return plan->repaired ? say_rest(ch, plan->after) : CERIUM_OK;
    }
    if (!plan->corrects) return CERIUM_OK;
    ch->script = NULL;
    ch->n_script = 0;
    const json_t *text = json_array_get(a->corrected, g->n_corrected);
    if (!text) return CERIUM_OK;
    g->n_corrected++;
    view line = {json_string_value(text), json_string_length(text)};
    if (plan->added && view_starts(line, VIEW("+"))) line.ptr++, line.len--; /* the + exists */
    return choice_say(ch, line);
}

bool answer_watchdog_again(choice *ch, cerium_request *request, int *status)
{
    answer_watchdog *g = ch->watchdog;
    bool runs = false;
    g->drive.prompt = ch->prompt;
    g->drive.n_prompt = ch->n_prompt;
    choice_keep_usage(ch);
    *status = watch_drive_retry(&g->drive, request, &runs);
    if (!*status) *status = next_script(ch, &g->drive.plan);
    ch->n_steps = 0;
    if (*status || !runs || (ch->script && ch->n_script == 0)) return false;
    request->script = ch->script;
    request->n_script = ch->n_script;
    if (g->drive.plan.corrects) { /* the prediction contains the weak line */
        request->prediction = NULL;
        request->n_prediction = 0;
    }
    return true;
}
