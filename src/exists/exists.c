/* exists.c - one thread reads; users hold the names they took until they give them back. */
#include "exists/exists.h"

#include <sys/stat.h>

#include "base/thread.h"
#include "exists/environment.h"
#include "exists/index.h"

enum { GENERATIONS = 8, LOOK_SECONDS = 5 };

typedef struct {
    names_index *names;
    uint32_t n_taken;
} generation;

struct exists {
    char root[4096], kept_in[4096];
    void (*notice)(void *user, const char *line);
    void *user;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t asked;
    bool wanted;              /* names were taken since the last check */
    _Atomic bool stop;
    generation list[GENERATIONS];
    int current;              /* in list, or -1 */
    uint64_t hash;            /* of the last environment read */
    uint64_t looked_ns;
};

static void tell(const exists *e, const char *line)
{
    if (e->notice) e->notice(e->user, line);
}

/* An unused place, with the lock; -1: all are in use. */
static int free_place(exists *e)
{
    for (int i = 0; i < GENERATIONS; i++) {
        if (i == e->current || e->list[i].n_taken) continue;
        index_close(&e->list[i].names);
        return i;
    }
    return -1;
}

static void publish(exists *e, names_index *made)
{
    pthread_mutex_lock(&e->lock);
    int at = free_place(e);
    if (at >= 0) {
        e->list[at].names = made;
        e->current = at;
        made = NULL;
    }
    pthread_mutex_unlock(&e->lock);
    index_close(&made);
}

static void look(exists *e)
{
    char line[1024];
    cerium_error err;
    names_index *made = NULL;
    environment_config c = {.root = e->root, .stop = &e->stop,
                            .kept_in = *e->kept_in ? e->kept_in : NULL};
    uint64_t hash = environment_hash(e->root);
    if (hash == e->hash) return;
    tell(e, "reading the environment's names");
    int status = environment_read(&made, &c, &err);
    if (!status) {
        e->hash = hash;
        publish(e, made);
        tell(e, "the environment's names are read");
    } else if (status != CERIUM_ERR_CANCELED) {
        snprintf(line, sizeof line, "the environment's names were not read: %s", err.message);
        tell(e, line);
    }
}

static void *run(void *arg)
{
    exists *e = arg;
    (void)thread_be_idle();
    while (!atomic_load(&e->stop)) {
        look(e);
        pthread_mutex_lock(&e->lock);
        e->looked_ns = clock_ns();
        while (!e->wanted && !atomic_load(&e->stop)) pthread_cond_wait(&e->asked, &e->lock);
        e->wanted = false;
        pthread_mutex_unlock(&e->lock);
    }
    return NULL;
}

int exists_open(exists **out, const exists_config *config, cerium_error *err)
{
    struct stat at;
    if (stat(config->root, &at) || !S_ISDIR(at.st_mode))
        return error_set(err, CERIUM_ERR_ARGUMENT, "%s: no such folder", config->root);
    exists *e = memory_zalloc(1, sizeof *e);
    if (!e) return error_set(err, CERIUM_ERR_MEMORY, "no memory for an environment");
    bool fits = snprintf(e->root, sizeof e->root, "%s", config->root) < (int)sizeof e->root;
    if (config->kept_in)
        fits &= snprintf(e->kept_in, sizeof e->kept_in, "%s", config->kept_in) <
                (int)sizeof e->kept_in;
    e->notice = config->notice;
    e->user = config->user;
    e->current = -1;
    pthread_mutex_init(&e->lock, NULL);
    pthread_cond_init(&e->asked, NULL);
    if (!fits || thread_start(&e->thread, "exists", run, e)) {
        pthread_cond_destroy(&e->asked);
        pthread_mutex_destroy(&e->lock);
        memory_free(e);
        return error_set(err, CERIUM_ERR_MEMORY, "%s: no thread to read it", config->root);
    }
    *out = e;
    return CERIUM_OK;
}

void exists_close(exists **out)
{
    exists *e = out ? *out : NULL;
    if (!e) return;
    pthread_mutex_lock(&e->lock);
    atomic_store(&e->stop, true);
    pthread_cond_signal(&e->asked);
    pthread_mutex_unlock(&e->lock);
    pthread_join(e->thread, NULL);
    for (int i = 0; i < GENERATIONS; i++) {
        CHECK(!e->list[i].n_taken);
        index_close(&e->list[i].names);
    }
    pthread_cond_destroy(&e->asked);
    pthread_mutex_destroy(&e->lock);
    memory_free(e);
    *out = NULL;
}

const names_index *exists_take(exists *e)
{
    const names_index *x = NULL;
    pthread_mutex_lock(&e->lock);
    if (e->current >= 0) {
        x = e->list[e->current].names;
        e->list[e->current].n_taken++;
    }
    bool due = clock_ns() - e->looked_ns > LOOK_SECONDS * UINT64_C(1000000000);
    if (due && !e->wanted) {
        e->wanted = true;
        pthread_cond_signal(&e->asked);
    }
    pthread_mutex_unlock(&e->lock);
    return x;
}

void exists_give(exists *e, const names_index *x)
{
    if (!x) return;
    pthread_mutex_lock(&e->lock);
    for (int i = 0; i < GENERATIONS; i++)
        if (e->list[i].names == x) {
            CHECK(e->list[i].n_taken);
            e->list[i].n_taken--;
        }
    pthread_mutex_unlock(&e->lock);
}
