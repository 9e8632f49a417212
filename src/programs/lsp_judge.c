/* lsp_judge.c - a thread that judges whole documents as `cerium scan` does, in the order of the
 * requests; and the bell with which threads wake the loop. */
#include "programs/lsp_host.h"

#include <pthread.h>
#include <unistd.h>

#include "base/thread.h"
#include "guard/repair.h"

enum { PIECE_BYTES = 512 }; /* read at once: findings have room for one call */

typedef struct job {
    struct job *next;
    uint64_t document;
    int64_t version;
    bytes text;
    char *path;
    guard_language language;
    bytes found; /* of lsp_judged */
} job;

struct lsp_judge {
    watchdog *watchdog;
    guard_worker *worker;
    lsp_bell *bell;
    pthread_t thread;
    bool was_started;
    pthread_mutex_t lock;
    pthread_cond_t more;
    job *waiting, *done; /* under the lock; waiting: the oldest first */
    bool stops, is_ready;
    int status;         /* of the rules, once is_ready */
    cerium_error error;
};

static void free_job(job *j)
{
    bytes_free(&j->text);
    bytes_free(&j->found);
    memory_free(j->path);
    memory_free(j);
}

void lsp_bell_ring(void *user)
{
    const uint64_t one = 1;
    ssize_t n = write(((lsp_bell *)user)->fd, &one, sizeof one);
    (void)n; /* it is already ringing */
}

/* ---- the thread ---- */

static void keep(job *j, const guard_result *r)
{
    for (uint32_t i = 0; i < r->n_findings; i++) {
        if (j->found.len >= LSP_FINDINGS_MAX * sizeof(lsp_judged)) return;
        lsp_judged *one = memory_zalloc(1, sizeof *one);
        if (!one) return;
        one->finding = r->findings[i];
        if (one->finding.needs) /* a line more than the expression's */
            one->n_line = guard_repair(&one->finding, REPAIR_FIX, one->line, sizeof one->line);
        one->finding.held = (view){NULL, 0};
        int status = bytes_append(&j->found, one, sizeof *one);
        memory_free(one);
        if (status) return;
    }
}

static void judge(lsp_judge *all, job *j)
{
    guard_stream *stream;
    guard_result r;
    const view path = view_of(j->path);
    const guard_stream_config config = {
        .form = guard_path_is_markdown(path) ? GUARD_ANSWER : GUARD_CODE,
        .language = j->language,
        .is_text = guard_path_is_text(path),
        .allow_comments = true,
        .path = path};
    j->found.max = LSP_FINDINGS_MAX * sizeof(lsp_judged);
    if (guard_stream_open(&stream, all->watchdog->guard, &config, NULL)) return;
    for (size_t at = 0; at < j->text.len; at += PIECE_BYTES) {
        size_t n = j->text.len - at < PIECE_BYTES ? j->text.len - at : PIECE_BYTES;
        guard_feed(stream, all->worker, j->text.ptr + at, n, &r);
        keep(j, &r);
    }
    guard_finish(stream, all->worker, &r);
    keep(j, &r);
    guard_stream_close(&stream);
}

static void *serve(void *user)
{
    lsp_judge *all = user;
    cerium_error err;
    int status = watchdog_wait(all->watchdog, &err);
    if (!status) status = guard_worker_open(&all->worker, all->watchdog->guard, &err);
    pthread_mutex_lock(&all->lock);
    all->is_ready = true;
    all->status = status;
    if (status) all->error = err;
    pthread_cond_broadcast(&all->more);
    if (status) fprintf(stderr, "cerium lsp: no findings: %s\n", err.message);
    for (;;) {
        while (!all->stops && !all->waiting) pthread_cond_wait(&all->more, &all->lock);
        if (all->stops) break;
        job *j = all->waiting;
        all->waiting = j->next;
        pthread_mutex_unlock(&all->lock);
        if (!status) judge(all, j); /* else none; who waits for them is answered */
        pthread_mutex_lock(&all->lock);
        j->next = all->done;
        all->done = j;
        lsp_bell_ring(all->bell);
    }
    pthread_mutex_unlock(&all->lock);
    guard_worker_close(&all->worker);
    return NULL;
}

/* ---- the loop's side ---- */

int lsp_judge_open(lsp_judge **out, watchdog *g, lsp_bell *bell, cerium_error *err)
{
    lsp_judge *j = memory_zalloc(1, sizeof *j);
    if (!j) return error_set(err, CERIUM_ERR_MEMORY, "out of memory");
    j->watchdog = g;
    j->bell = bell;
    pthread_mutex_init(&j->lock, NULL);
    pthread_cond_init(&j->more, NULL);
    int code = thread_start(&j->thread, "judge", serve, j);
    j->was_started = !code;
    *out = j;
    if (!code) return CERIUM_OK;
    lsp_judge_close(out);
    return error_set(err, CERIUM_ERR_IO, "no thread for the watchdog: %s", strerror(code));
}

int lsp_judge_ready(lsp_judge *j, cerium_error *err)
{
    pthread_mutex_lock(&j->lock);
    while (!j->is_ready) pthread_cond_wait(&j->more, &j->lock);
    int status = j->status;
    if (status) *err = j->error;
    pthread_mutex_unlock(&j->lock);
    return status;
}

bool lsp_judge_ask(lsp_judge *all, uint64_t document, int64_t version, view text,
                   const char *path, guard_language language)
{
    job *j = memory_zalloc(1, sizeof *j);
    if (!j) return false;
    *j = (job){.document = document, .version = version, .language = language,
               .path = memory_copy(path, strlen(path)), .text = {.max = LSP_TEXT_BYTES_MAX}};
    if (!j->path || bytes_append(&j->text, text.ptr, text.len)) {
        free_job(j);
        return false;
    }
    pthread_mutex_lock(&all->lock);
    job **at = &all->waiting;
    while (*at) at = &(*at)->next;
    *at = j;
    pthread_cond_broadcast(&all->more);
    pthread_mutex_unlock(&all->lock);
    return true;
}

void lsp_judge_look(lsp_judge *all, lsp_server *s)
{
    pthread_mutex_lock(&all->lock);
    job *done = all->done;
    all->done = NULL;
    pthread_mutex_unlock(&all->lock);
    for (job *next; done; done = next) {
        next = done->next;
        lsp_server_judged(s, done->document, done->version,
                          (const lsp_judged *)(const void *)done->found.ptr,
                          done->found.len / sizeof(lsp_judged), clock_ns());
        free_job(done);
    }
}

void lsp_judge_close(lsp_judge **judge)
{
    if (!judge || !*judge) return;
    lsp_judge *all = *judge;
    pthread_mutex_lock(&all->lock);
    all->stops = true;
    pthread_cond_broadcast(&all->more);
    pthread_mutex_unlock(&all->lock);
    if (all->was_started) pthread_join(all->thread, NULL);
    for (job *list = all->waiting, *next; list; list = next) {
        next = list->next;
        free_job(list);
    }
    for (job *list = all->done, *next; list; list = next) {
        next = list->next;
        free_job(list);
    }
    pthread_mutex_destroy(&all->lock);
    pthread_cond_destroy(&all->more);
    memory_free(all);
    *judge = NULL;
}
