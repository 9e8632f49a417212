/* watchdog.c - the watchdog of programs: turns options into a policy, prints findings. */
#include "programs/watchdog.h"

#include <unistd.h>

#include "base/file.h"
#include "base/thread.h"
#include "programs/scan.h"
#include "programs/terminal.h"

enum { PIECE_BYTES = 512 }; /* read at once: findings have room for one call */

static void *read_rules(void *arg)
{
    watchdog *g = arg;
    g->status = guard_open(&g->guard, g->rules, &g->error);
    if (!g->status) g->status = guard_worker_open(&g->worker, g->guard, &g->error);
    return NULL;
}

/* The environment of a workspace (NULL: none) in which names that code uses are looked up. */
static int open_names(watchdog *g, const char *workspace, cerium_error *err)
{
    char kept[4096];
    exists_config c = {.root = workspace};
    if (!g->on || !workspace || g->names || !watch_policy_uses_names(&g->policy)) return CERIUM_OK;
    if (file_cache_folder_or(getenv("CERIUM_CACHE"), kept, sizeof kept)) c.kept_in = kept;
    return exists_open(&g->names, &c, err);
}

int watchdog_open(watchdog *g, const options *o, cerium_error *err)
{
    *g = (watchdog){.policy = watch_policy_strict()};
    for (uint32_t i = 0; i < o->n_guard; i++)
        if (!watch_policy_set(&g->policy, view_of(o->guard[i])))
            return error_set(err, CERIUM_ERR_ARGUMENT, "--guard %s: unknown", o->guard[i]);
    if (o->guard_late) (void)watch_policy_set_late(&g->policy, view_of(o->guard_late));
    g->on = !watch_policy_is_off(&g->policy);
    if (!g->on) return CERIUM_OK;
    RETURN_IF(open_names(g, o->workspace, err));
    if (!scan_rules(o->rules, g->rules, sizeof g->rules)) {
        /* Reported when the rules are needed, so that a missing model is reported first. */
        g->status = error_set(&g->error, CERIUM_ERR_IO,
                              "the watchdog has no rules: name their folder with --rules or "
                              "CERIUM_RULES, or give --guard off");
        return CERIUM_OK;
    }
    g->reading = !thread_start(&g->thread, "rules", read_rules, g);
    if (!g->reading) read_rules(g);
    return CERIUM_OK;
}

int watchdog_wait(watchdog *g, cerium_error *err)
{
    if (g->reading) pthread_join(g->thread, NULL);
    g->reading = false;
    if (g->status && err) *err = g->error;
    return g->status;
}

int watchdog_check(const watchdog *g, cerium_error *err)
{
    if (!g->on || g->reading) return CERIUM_OK;
    if (g->status) *err = g->error;
    return g->status;
}

void watchdog_close(watchdog *g)
{
    if (watchdog_wait(g, NULL)) g->on = false;
    if (g->names) exists_give(g->names, g->index);
    exists_close(&g->names);
    if (g->worker) guard_worker_close(&g->worker);
    if (g->guard) guard_close(&g->guard);
    g->on = false;
}

int watchdog_watch(watchdog *g, watch **out, watch_config how, cerium_error *err)
{
    *out = NULL;
    if (!g->on) return CERIUM_OK;
    RETURN_IF(watchdog_wait(g, err));
    if (g->names && !g->index) g->index = exists_take(g->names);
    how.names = g->index;
    how.guard = g->guard;
    how.worker = g->worker;
    how.policy = &g->policy;
    return watch_open(out, &how, err);
}

/* A finding in a line that is gone is printed struck out. */
static void print_finding(const cerium_finding *f, bool dim)
{
    static const char *const deeds[CERIUM_FINDING_ACTIONS] = {
        [CERIUM_FINDING_REWRITTEN] = "rewritten", [CERIUM_FINDING_WARNED] = "weak",
        [CERIUM_FINDING_BLOCKED] = "ended before", [CERIUM_FINDING_REPLACED] = "replaced",
        [CERIUM_FINDING_WITHHELD] = "withheld", [CERIUM_FINDING_KNOWN] = "known"};
    bool gone = f->action != CERIUM_FINDING_WARNED && f->action != CERIUM_FINDING_KNOWN;
    bool name = f->action == CERIUM_FINDING_WARNED && !f->cwe;
    char number[32] = "";
    if (f->cwe) snprintf(number, sizeof number, "CWE-%u, ", f->cwe);
    fflush(stdout);
    fprintf(stderr, "%s%sline %u: %s: %s%s%s (%s%s); instead: %s%s\n",
            isatty(STDOUT_FILENO) ? "\n" : "", dim ? "\033[2m" : "", f->line,
            name ? "not there" : deeds[f->action], dim && gone ? "\033[9m" : "", f->message,
            dim && gone ? "\033[29m" : "", number, f->rule, f->idiom, dim ? "\033[0m" : "");
}

void watchdog_report(watchdog *g, const cerium_finding *findings, uint32_t n)
{
    bool dim = terminal_colors(stderr);
    for (uint32_t i = 0; i < n; i++) {
        const cerium_finding *f = &findings[i];
        g->n_corrected += f->action == CERIUM_FINDING_REWRITTEN ||
                          f->action == CERIUM_FINDING_REPLACED ||
                          f->action == CERIUM_FINDING_WITHHELD;
        g->n_blocked += f->action == CERIUM_FINDING_BLOCKED;
        g->n_warned += f->action == CERIUM_FINDING_WARNED;
        if (!g->quiet && f->action != CERIUM_FINDING_RETRACTED) print_finding(f, dim);
    }
}

/* As for an answer: blocked or reported. */
static int judge_unjudged(watchdog *g, const guard_result *r, const char *name, const char *fate,
                          cerium_error *err)
{
    watch_action action = (watch_action)g->policy.action[WATCH_KINDS_MAX - 1];
    char why[128] = "was too much for the watchdog";
    if (r->blind)
        snprintf(why, sizeof why, "was not judged: this build has no grammar for %s",
                 guard_language_name(r->language));
    if (action == WATCH_BLOCK && !g->policy.opens_late)
        return error_set(err, CERIUM_ERR_FORMAT,
                         "%s %s: line %u %s (--guard-late open lets it pass)", name, fate,
                         r->unjudged_line, why);
    if (action != WATCH_OFF && !g->quiet)
        fprintf(stderr, "%s: line %u %s\n", name, r->unjudged_line, why);
    return CERIUM_OK;
}

static int judge(watchdog *g, const guard_result *r, const char *name, const char *fate,
                 cerium_error *err)
{
    if (r->late || r->blind) RETURN_IF(judge_unjudged(g, r, name, fate, err));
    for (uint32_t i = 0; i < r->n_findings; i++) {
        const guard_finding *f = &r->findings[i];
        watch_action action = watch_policy_action(&g->policy, f);
        if (action == WATCH_BLOCK)
            return error_set(err, CERIUM_ERR_FORMAT,
                             "%s %s: a line would be weak: %s (CWE-%u, %s); instead: %s", name,
                             fate, f->message, f->cwe, f->rule, f->idiom);
        if (action == WATCH_WARN && !g->quiet)
            fprintf(stderr, "%s: weak: %s (CWE-%u, %s); instead: %s\n", name, f->message, f->cwe,
                    f->rule, f->idiom);
    }
    return CERIUM_OK;
}

int watchdog_judge(watchdog *g, const guard_stream_config *config, view before, view text,
                   const char *name, const char *fate, cerium_error *err)
{
    guard_stream *stream = NULL;
    guard_result r;
    if (!g->on) return CERIUM_OK;
    RETURN_IF(watchdog_wait(g, err));
    RETURN_IF(guard_stream_open(&stream, g->guard, config, err));
    int status = CERIUM_OK;
    if (before.len) guard_context(stream, g->worker, before);
    for (size_t at = 0; !status && at < text.len; at += PIECE_BYTES) {
        size_t n = text.len - at < PIECE_BYTES ? text.len - at : PIECE_BYTES;
        guard_feed(stream, g->worker, text.ptr + at, n, &r);
        status = judge(g, &r, name, fate, err);
    }
    if (!status) {
        guard_finish(stream, g->worker, &r);
        status = judge(g, &r, name, fate, err);
    }
    guard_stream_close(&stream);
    return status;
}
