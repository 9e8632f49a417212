/* api.c - the watchdog as cerium.h has it: rules with a worker, and watches that drive sessions. */
#include "watch/watch.h"

struct cerium_watchdog {
    guard *guard;
    guard_worker *worker;
};

struct cerium_watch {
    watch_drive drive;
    view *request; /* texts of the configuration's messages */
};

int cerium_watchdog_open(cerium_watchdog **watchdog_out, const char *rules, cerium_error *err)
{
    if (!watchdog_out || !rules)
        return error_set(err, CERIUM_ERR_ARGUMENT, "no watchdog or folder of rules");
    cerium_watchdog *w = memory_zalloc(1, sizeof *w);
    if (!w) return error_set(err, CERIUM_ERR_MEMORY, "no memory for a watchdog");
    int status = guard_open(&w->guard, rules, err);
    if (!status) status = guard_worker_open(&w->worker, w->guard, err);
    if (status) cerium_watchdog_close(&w);
    else *watchdog_out = w;
    return status;
}

void cerium_watchdog_close(cerium_watchdog **watchdog)
{
    if (!watchdog || !*watchdog) return;
    if ((*watchdog)->worker) guard_worker_close(&(*watchdog)->worker);
    if ((*watchdog)->guard) guard_close(&(*watchdog)->guard);
    memory_free(*watchdog);
    *watchdog = NULL;
}

/* ---- a watch ---- */

_Static_assert((int)CERIUM_WATCH_CODE == (int)GUARD_CODE &&
               (int)CERIUM_WATCH_ANSWER == (int)GUARD_ANSWER &&
               (int)CERIUM_WATCH_TURN == (int)GUARD_TURN, "one set of forms");

void cerium_watch_config_defaults_sized(cerium_watch_config *config, size_t size)
{
    const cerium_watch_config defaults = {.size = size, .form = CERIUM_WATCH_TURN};
    memcpy(config, &defaults, size < sizeof defaults ? size : sizeof defaults);
}

static guard_language language_of(const char *name)
{
    if (!name) return GUARD_TEXT;
    guard_language language = guard_language_named(view_of(name));
    return language != GUARD_TEXT ? language : guard_language_of_path(view_of(name));
}

/* Texts of the user and of tools, the newest first. */
static int gather_request(cerium_watch *w, const cerium_watch_config *c, watch_config *config)
{
    config->request = w->request = memory_alloc((c->n_messages + 1) * sizeof *w->request);
    if (!w->request) return CERIUM_ERR_MEMORY;
    for (size_t i = c->n_messages; i-- > 0;) {
        const cerium_message *m = &c->messages[i];
        if (m->content && (!strcmp(m->role, "user") || !strcmp(m->role, "tool")))
            w->request[config->n_request++] = view_of(m->content);
    }
    return CERIUM_OK;
}

static int open_watch(cerium_watch *w, const cerium_watchdog *watchdog,
                      const cerium_watch_config *c, cerium_error *err)
{
    watch_policy policy = watch_policy_strict();
    if (c->policy && !watch_policy_set_all(&policy, view_of(c->policy)))
        return error_set(err, CERIUM_ERR_ARGUMENT, "policy %s: unknown", c->policy);
    watch_config config = {.engine = c->engine,
                           .guard = watchdog->guard,
                           .worker = watchdog->worker,
                           .policy = &policy,
                           .form = (guard_form)c->form,
                           .language = language_of(c->language),
                           .before = {c->before, c->before_len},
                           .heal_prefix = {c->heal_prefix, c->n_heal},
                           .logprobs = c->logprobs};
    w->drive.prompt = c->prompt;
    w->drive.n_prompt = c->n_prompt;
    int status = gather_request(w, c, &config);
    if (status) return error_set(err, status, "no memory to watch an answer");
    return watch_open(&w->drive.watch, &config, err);
}

int cerium_watch_open(cerium_watch **watch_out, cerium_watchdog *watchdog,
                      const cerium_watch_config *config, cerium_error *err)
{
    cerium_watch_config c;
    if (!watch_out || !watchdog || !config)
        return error_set(err, CERIUM_ERR_ARGUMENT, "no watch, watchdog or configuration");
    cerium_watch_config_defaults(&c);
    memcpy(&c, config, config->size < sizeof c ? config->size : sizeof c);
    if (!c.engine || (!c.prompt && c.n_prompt) || (!c.before && c.before_len) ||
        (!c.messages && c.n_messages) || (!c.heal_prefix && c.n_heal))
        return error_set(err, CERIUM_ERR_ARGUMENT, "a watch has no engine, or a text is missing");
    if (c.form != CERIUM_WATCH_CODE && c.form != CERIUM_WATCH_ANSWER && c.form != CERIUM_WATCH_TURN)
        return error_set(err, CERIUM_ERR_ARGUMENT, "form %d: unknown", (int)c.form);
    cerium_watch *w = memory_zalloc(1, sizeof *w);
    if (!w) return error_set(err, CERIUM_ERR_MEMORY, "no memory to watch an answer");
    int status = open_watch(w, watchdog, &c, err);
    if (status) cerium_watch_close(&w);
    else *watch_out = w;
    return status;
}

void cerium_watch_close(cerium_watch **w)
{
    if (!w || !*w) return;
    watch_drive_close(&(*w)->drive);
    memory_free((*w)->request);
    memory_free(*w);
    *w = NULL;
}

static int hand_over(int status, const watch_result *r, cerium_watch_result *out, cerium_error *err)
{
    if (status) return error_set(err, status, "no memory to watch the answer");
    *out = (cerium_watch_result){.text = r->text.ptr,
                                 .text_len = r->text.len,
                                 .tokens = r->tokens,
                                 .n_tokens = r->n_tokens,
                                 .findings = r->findings,
                                 .n_findings = r->n_findings,
                                 .order = r->order};
    return CERIUM_OK;
}

int cerium_watch_step(cerium_watch *w, const cerium_step *step, const cerium_logprob *top,
                      uint32_t n_top, cerium_watch_result *result, cerium_error *err)
{
    watch_result r;
    if (!w || !step || !result || (!top && n_top))
        return error_set(err, CERIUM_ERR_ARGUMENT, "no watch, step or result");
    int status = watch_drive_step(&w->drive, step, top, n_top, &r);
    return hand_over(status, &r, result, err);
}

int cerium_watch_finish(cerium_watch *w, cerium_watch_result *result, cerium_error *err)
{
    watch_result r;
    if (!w || !result) return error_set(err, CERIUM_ERR_ARGUMENT, "no watch or result");
    int status = watch_drive_finish(&w->drive, &r);
    return hand_over(status, &r, result, err);
}

int cerium_watch_retry(cerium_watch *w, cerium_request *request, bool *runs, cerium_error *err)
{
    if (!w || !request || !runs || !w->drive.retries)
        return error_set(err, CERIUM_ERR_ARGUMENT, "no watch or request, or nothing was retracted");
    if (!watch_drive_retry(&w->drive, request, runs)) return CERIUM_OK;
    return error_set(err, CERIUM_ERR_MEMORY, "no memory to watch the answer");
}

const int32_t *cerium_watch_tokens(const cerium_watch *w, size_t *n_tokens)
{
    return watch_tokens(w->drive.watch, n_tokens);
}
