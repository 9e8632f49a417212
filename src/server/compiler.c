/* compiler.c - owns the thread, and the jobs that wait for it. */
#include "server/compiler.h"

#include <pthread.h>

#include "base/memory.h"

enum { JOB_MADE, JOB_WAITING, JOB_RUNNING, JOB_DONE };

struct compiler {
    cerium_engine *engine;
    void (*wake)(void *user);
    void *user;
    pthread_t thread;
    pthread_mutex_t lock; /* all below, and the state of jobs */
    pthread_cond_t changed;
    compile_job *waiting; /* the oldest first */
    uint64_t last_tenant; /* of the job that was taken last */
    bool stops;
};

/* ---- jobs ---- */

compile_job *compile_job_new(size_t n, uint64_t tenant)
{
    compile_job *job = memory_zalloc(1, sizeof *job);
    compile_part *parts = memory_zalloc(n, sizeof *parts);
    if (!job || !parts) {
        memory_free(job);
        memory_free(parts);
        return NULL;
    }
    *job = (compile_job){.parts = parts, .n_parts = n, .tenant = tenant};
    return job;
}

int compile_job_put(compile_job *job, size_t i, cerium_grammar_syntax syntax, view text)
{
    compile_part *part = &job->parts[i];
    part->text = memory_copy(text.ptr, text.len);
    part->len = text.len;
    part->syntax = syntax;
    return part->text ? CERIUM_OK : CERIUM_ERR_MEMORY;
}

void compile_job_free(compile_job **job)
{
    if (!job || !*job) return;
    for (size_t i = 0; i < (*job)->n_parts; i++) {
        memory_free((*job)->parts[i].text);
        cerium_grammar_close(&(*job)->parts[i].grammar);
    }
    memory_free((*job)->parts);
    memory_free(*job);
    *job = NULL;
}

/* ---- the thread ---- */

/* The oldest job of another tenant than the last one, or the oldest. */
static compile_job *take_job(compiler *c)
{
    compile_job **at = &c->waiting;
    while (*at && (*at)->tenant == c->last_tenant) at = &(*at)->next;
    if (!*at) at = &c->waiting;
    compile_job *job = *at;
    *at = job->next;
    job->state = JOB_RUNNING;
    c->last_tenant = job->tenant;
    return job;
}

static bool is_wanted(compiler *c, const compile_job *job)
{
    pthread_mutex_lock(&c->lock);
    bool is = !c->stops && !job->is_dropped;
    pthread_mutex_unlock(&c->lock);
    return is;
}

static void run(compiler *c, compile_job *job)
{
    for (size_t i = 0; i < job->n_parts && !job->status && is_wanted(c, job); i++) {
        compile_part *part = &job->parts[i];
        cerium_error err;
        if (!part->text || part->grammar) continue;
        int status =
            cerium_grammar_compile(&part->grammar, part->syntax, part->text, part->len, &err);
        part->failed = status != CERIUM_OK;
        if (!status || (part->may_fail && status != CERIUM_ERR_MEMORY)) continue;
        job->status = status;
        job->at = i;
        job->err = err;
    }
}

/* The first guide of an engine sorts its vocabulary: here nobody waits for that but who asked. */
static void prepare(compiler *c, compile_job *job)
{
    if (!c->engine) return;
    job->status = cerium_engine_prepare_guides(c->engine, &job->err);
    if (!job->status) c->engine = NULL;
}

static void *work(void *arg)
{
    compiler *c = arg;
    pthread_mutex_lock(&c->lock);
    for (;;) {
        while (!c->waiting && !c->stops) pthread_cond_wait(&c->changed, &c->lock);
        if (c->stops) break;
        compile_job *job = take_job(c);
        pthread_mutex_unlock(&c->lock);
        prepare(c, job);
        run(c, job);
        pthread_mutex_lock(&c->lock);
        job->state = JOB_DONE;
        if (job->is_dropped) compile_job_free(&job);
        pthread_mutex_unlock(&c->lock);
        c->wake(c->user);
        pthread_mutex_lock(&c->lock);
    }
    pthread_mutex_unlock(&c->lock);
    return NULL;
}

/* ---- from outside ---- */

int compiler_open(compiler **out, cerium_engine *engine, void (*wake)(void *user), void *user,
                  cerium_error *err)
{
    CHECK(wake);
    compiler *c = memory_zalloc(1, sizeof *c);
    if (!c) return error_set(err, CERIUM_ERR_MEMORY, "no memory to compile grammars");
    c->engine = engine;
    c->wake = wake;
    c->user = user;
    pthread_mutex_init(&c->lock, NULL);
    pthread_cond_init(&c->changed, NULL);
    int code = pthread_create(&c->thread, NULL, work, c);
    if (code) {
        pthread_mutex_destroy(&c->lock);
        pthread_cond_destroy(&c->changed);
        memory_free(c);
        return error_set(err, CERIUM_ERR_IO, "no thread for grammars: %s", strerror(code));
    }
    *out = c;
    return CERIUM_OK;
}

void compiler_close(compiler **out)
{
    if (!out || !*out) return;
    compiler *c = *out;
    pthread_mutex_lock(&c->lock);
    c->stops = true;
    pthread_cond_signal(&c->changed);
    pthread_mutex_unlock(&c->lock);
    pthread_join(c->thread, NULL);
    CHECK(!c->waiting);
    pthread_mutex_destroy(&c->lock);
    pthread_cond_destroy(&c->changed);
    memory_free(c);
    *out = NULL;
}

void compiler_submit(compiler *c, compile_job *job)
{
    CHECK(job->state == JOB_MADE);
    pthread_mutex_lock(&c->lock);
    compile_job **at = &c->waiting;
    while (*at) at = &(*at)->next;
    *at = job;
    job->state = JOB_WAITING;
    pthread_cond_signal(&c->changed);
    pthread_mutex_unlock(&c->lock);
}

bool compiler_is_done(compiler *c, const compile_job *job)
{
    pthread_mutex_lock(&c->lock);
    bool is = job->state == JOB_DONE;
    pthread_mutex_unlock(&c->lock);
    return is;
}

void compiler_drop(compiler *c, compile_job **job)
{
    pthread_mutex_lock(&c->lock);
    compile_job **at = &c->waiting;
    while (*at && *at != *job) at = &(*at)->next;
    if (*at) *at = (*job)->next;
    bool is_running = (*job)->state == JOB_RUNNING;
    (*job)->is_dropped = true;
    pthread_mutex_unlock(&c->lock);
    if (!is_running) compile_job_free(job);
    *job = NULL;
}
