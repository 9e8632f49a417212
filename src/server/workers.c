/* workers.c - the threads, the waiting jobs, and the finished ones. */
#include "server/workers.h"

#include <pthread.h>

#include "base/limits.h"
#include "base/memory.h"
#include "base/thread.h"

enum {
    DONE_A_POLL = 64, /* before the loop returns to its connections */
    NICER = 5,        /* a third of the weight of a computing thread */
};

enum { JOB_MADE = 0, JOB_WAITING, JOB_RUNNING, JOB_DROPPED, JOB_DONE };

/* The first job of each client, by next_client; its further jobs follow it by next. */
typedef struct {
    job *first, *last;
    uint32_t n; /* jobs */
} queue;

typedef struct {
    workers *w;
    pthread_t thread;
    pthread_cond_t changed;
    queue waiting;
    bool runs; /* a job of it */
} lane;

struct workers {
    void (*wake)(void *user);
    void *user;
    pthread_mutex_t lock; /* guards all below, and the links and states of jobs */
    lane lanes[WORKERS_LANES];
    int n_threads;
    job *done, *last_done; /* by next */
    bool stops;
};

/* ---- the queue of a lane ---- */

static job *first_of(const queue *q, uint64_t client)
{
    job *j = q->first;
    while (j && j->client != client) j = j->next_client;
    return j;
}

static void add_client(queue *q, job *j)
{
    j->next_client = NULL;
    *(q->last ? &q->last->next_client : &q->first) = j;
    q->last = j;
}

static void queue_put(queue *q, job *j)
{
    job *first = first_of(q, j->client);
    q->n++;
    j->next = NULL;
    if (first) {
        first->last->next = j;
        first->last = j;
        first->n++;
        return;
    }
    j->last = j;
    j->n = 1;
    add_client(q, j);
}

/* Another job takes the place of a client's first one; NULL: the client has no more. */
static void replace_first(queue *q, job *old, job *new)
{
    job *before = NULL;
    for (job *j = q->first; j != old; j = j->next_client) before = j;
    job *second = old->next_client;
    if (new) new->next_client = second;
    *(before ? &before->next_client : &q->first) = new ? new : second;
    if (q->last == old) q->last = new ? new : before;
}

/* A job that has begun comes before the others of its client. */
static void queue_put_back(queue *q, job *j)
{
    job *first = first_of(q, j->client);
    q->n++;
    j->next = first;
    j->last = first ? first->last : j;
    j->n = first ? first->n + 1 : 1;
    if (first)
        replace_first(q, first, j);
    else
        add_client(q, j);
}

/* The client of the first job; its next one, if any, waits after the other clients. */
static job *queue_take(queue *q)
{
    job *j = q->first, *next = j->next;
    replace_first(q, j, NULL);
    q->n--;
    if (!next) return j;
    next->last = j->last;
    next->n = j->n - 1;
    add_client(q, next);
    return j;
}

static void queue_remove(queue *q, job *j)
{
    job *first = first_of(q, j->client);
    q->n--;
    if (first == j) {
        if (j->next) {
            j->next->last = j->last;
            j->next->n = j->n - 1;
        }
        replace_first(q, j, j->next);
        return;
    }
    job *before = first;
    while (before->next != j) before = before->next;
    before->next = j->next;
    if (first->last == j) first->last = before;
    first->n--;
}

/* ---- the threads ---- */

static void put_done(workers *w, job *j)
{
    j->state = JOB_DONE;
    j->next = NULL;
    *(w->last_done ? &w->last_done->next : &w->done) = j;
    w->last_done = j;
    /* Within the lock: a later drop of the job, and closing of the loop to wake, come after it. */
    if (w->done == j) w->wake(w->user);
}

static void *work(void *arg)
{
    lane *l = arg;
    workers *w = l->w;
    const bool takes_long = l != &w->lanes[WORKERS_SMALL] && l != &w->lanes[WORKERS_STORE];
    if (takes_long) (void)thread_be_nicer(NICER); /* so that clients whose tokens are computed feel
                                                   * it less */
    pthread_mutex_lock(&w->lock);
    for (;;) {
        while (!l->waiting.first && !w->stops) pthread_cond_wait(&l->changed, &w->lock);
        if (w->stops) break;
        job *j = queue_take(&l->waiting);
        j->state = JOB_RUNNING;
        l->runs = true;
        pthread_mutex_unlock(&w->lock);
        bool again = j->run(j);
        pthread_mutex_lock(&w->lock);
        if (j->state == JOB_DROPPED || (!again && !j->done)) {
            pthread_mutex_unlock(&w->lock);
            j->release(j);
            pthread_mutex_lock(&w->lock);
        } else if (again && job_is_wanted(j)) {
            j->state = JOB_WAITING;
            queue_put_back(&l->waiting, j);
        } else {
            put_done(w, j);
        }
        l->runs = false;
    }
    pthread_mutex_unlock(&w->lock);
    return NULL;
}

/* ---- from the loop ---- */

static int open_lane(workers *w, int i, cerium_error *err)
{
    static const char *const names[] = {"work-small", "work-large", "work-compile", "work-store",
                                        "work-models", "work-pulls"};
    _Static_assert(ARRAY_LEN(names) == WORKERS_LANES, "each has a name");
    lane *l = &w->lanes[i];
    l->w = w;
    pthread_cond_init(&l->changed, NULL);
    int code = thread_start(&l->thread, names[i], work, l);
    if (!code) return CERIUM_OK;
    pthread_cond_destroy(&l->changed);
    return error_set(err, CERIUM_ERR_IO, "no thread for the server's work: %s", strerror(code));
}

int workers_open(workers **out, void (*wake)(void *user), void *user, cerium_error *err)
{
    CHECK(wake);
    workers *w = memory_zalloc(1, sizeof *w);
    if (!w) return error_set(err, CERIUM_ERR_MEMORY, "no memory for the server's threads");
    w->wake = wake;
    w->user = user;
    pthread_mutex_init(&w->lock, NULL);
    int status = CERIUM_OK;
    while (w->n_threads < WORKERS_LANES && !status) {
        status = open_lane(w, w->n_threads, err);
        if (!status) w->n_threads++;
    }
    if (status)
        workers_close(&w);
    else
        *out = w;
    return status;
}

/* The oldest finished job, which its creator then owns. */
static job *take_done(workers *w)
{
    pthread_mutex_lock(&w->lock);
    job *j = w->done;
    if (j) {
        w->done = j->next;
        if (!w->done) w->last_done = NULL;
        j->state = JOB_MADE;
    }
    pthread_mutex_unlock(&w->lock);
    return j;
}

static void release(job *j)
{
    CHECK(j->release);
    j->release(j);
}

void workers_close(workers **out)
{
    if (!out || !*out) return;
    workers *w = *out;
    pthread_mutex_lock(&w->lock);
    w->stops = true;
    for (int i = 0; i < w->n_threads; i++) pthread_cond_signal(&w->lanes[i].changed);
    pthread_mutex_unlock(&w->lock);
    for (int i = 0; i < w->n_threads; i++) {
        pthread_join(w->lanes[i].thread, NULL);
        while (w->lanes[i].waiting.n) release(queue_take(&w->lanes[i].waiting));
        pthread_cond_destroy(&w->lanes[i].changed);
    }
    for (job *j; (j = take_done(w)); ) release(j);
    pthread_mutex_destroy(&w->lock);
    memory_free(w);
    *out = NULL;
}

static int submit(workers *w, job *j, bool always)
{
    lane *l = &w->lanes[j->lane];
    CHECK(j->state == JOB_MADE && j->run && (j->done || j->release));
    pthread_mutex_lock(&w->lock);
    const job *first = first_of(&l->waiting, j->client);
    bool full = l->waiting.n >= SERVER_JOBS_MAX || (first && first->n >= SERVER_CLIENT_JOBS_MAX);
    bool taken = always || !full;
    if (taken) {
        j->state = JOB_WAITING;
        atomic_store_explicit(&j->is_unwanted, false, memory_order_relaxed);
        queue_put(&l->waiting, j);
        pthread_cond_signal(&l->changed);
    }
    pthread_mutex_unlock(&w->lock);
    return taken ? CERIUM_OK : CERIUM_ERR_CAPACITY;
}

int workers_submit(workers *w, job *j)
{
    return submit(w, j, false);
}

void workers_submit_always(workers *w, job *j)
{
    CHECK(!submit(w, j, true));
}

bool workers_poll(workers *w)
{
    for (int n = 0; n < DONE_A_POLL; n++) {
        job *j = take_done(w);
        if (!j) return n > 0;
        j->done(j); /* may drop the following ones */
    }
    w->wake(w->user);
    return true;
}

bool workers_are_idle(workers *w)
{
    pthread_mutex_lock(&w->lock);
    bool is_idle = !w->done;
    for (int i = 0; i < WORKERS_MODELS; i++)
        is_idle &= !w->lanes[i].runs && !w->lanes[i].waiting.n;
    pthread_mutex_unlock(&w->lock);
    return is_idle;
}

static void remove_done(workers *w, job *j)
{
    job *before = NULL;
    for (job *at = w->done; at != j; at = at->next) before = at;
    *(before ? &before->next : &w->done) = j->next;
    if (w->last_done == j) w->last_done = before;
}

bool workers_withdraw(workers *w, job *j)
{
    pthread_mutex_lock(&w->lock);
    CHECK(j->state != JOB_MADE && j->state != JOB_DROPPED);
    atomic_store_explicit(&j->is_unwanted, true, memory_order_relaxed);
    bool is_waiting = j->state == JOB_WAITING;
    if (is_waiting) {
        queue_remove(&w->lanes[j->lane].waiting, j);
        j->state = JOB_MADE;
    }
    pthread_mutex_unlock(&w->lock);
    return is_waiting;
}

void workers_drop(workers *w, job **at)
{
    if (!at || !*at) return;
    job *j = *at;
    *at = NULL;
    pthread_mutex_lock(&w->lock);
    CHECK(j->state != JOB_MADE && j->state != JOB_DROPPED && j->release);
    atomic_store_explicit(&j->is_unwanted, true, memory_order_relaxed);
    bool is_running = j->state == JOB_RUNNING;
    if (j->state == JOB_WAITING) queue_remove(&w->lanes[j->lane].waiting, j);
    if (j->state == JOB_DONE) remove_done(w, j);
    j->state = is_running ? JOB_DROPPED : JOB_MADE;
    pthread_mutex_unlock(&w->lock);
    if (!is_running) j->release(j);
}

/* ---- burying ---- */

typedef struct {
    job job;
    void (*free_it)(void *thing);
    void *thing;
} burial;

static bool run_burial(job *j)
{
    burial *b = (burial *)j;
    b->free_it(b->thing);
    b->thing = NULL;
    return false;
}

static void release_burial(job *j)
{
    burial *b = (burial *)j;
    if (b->thing) b->free_it(b->thing);
    memory_free(b);
}

void workers_bury(workers *w, void (*free_it)(void *thing), void *thing)
{
    burial *b = thing ? memory_zalloc(1, sizeof *b) : NULL;
    if (!b) {
        if (thing) free_it(thing);
        return;
    }
    *b = (burial){.job = {.run = run_burial, .release = release_burial, .lane = WORKERS_LARGE},
                  .free_it = free_it,
                  .thing = thing};
    workers_submit_always(w, &b->job);
}
