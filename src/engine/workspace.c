/* workspace.c - the thread of a workspace, and its index. */
#include "engine/workspace.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/file.h"
#include "base/thread.h"
#include "engine/workspace_files.h"

enum { LOOK_SECONDS_MIN = 2 }; /* between two looks */

/* One index; the workspace's own hold on the newest counts, too. */
typedef struct texts texts;
struct texts {
    corpus corpus; /* first: others hold a pointer to it */
    void *block;
    size_t size;
    uint32_t n_holds;
};

struct workspace {
    char folder[PATH_MAX], path[WORKSPACE_PATH_MAX + 64]; /* path: of the kept index, or "" */
    const tokenizer *tokens;
    uint32_t n_vocab;
    uint64_t vocabulary; /* identity of the vocabulary and of this version */
    void (*notice)(void *user, const char *line);
    void *user;
    bool has_noticed;       /* reported: the index cannot be stored, or the folder not be read */
    pthread_mutex_t lock; /* newest, holds of every index, was_asked */
    texts *newest;
    bool was_asked;      /* since the last look */
    pthread_cond_t asked; /* or closing */
    _Atomic uint32_t n_tokens;
    _Atomic bool closing;
    pthread_t thread;
    bool has_lock, has_asked, has_thread;
};

/* ---- holding ---- */

static void let_go(workspace *w, texts *t)
{
    pthread_mutex_lock(&w->lock);
    bool is_last = t && --t->n_holds == 0;
    pthread_mutex_unlock(&w->lock);
    if (!is_last) return;
    memory_unmap(t->block, t->size);
    memory_free(t);
}

const corpus *workspace_take(workspace *w)
{
    pthread_mutex_lock(&w->lock);
    texts *t = w->newest;
    if (t) t->n_holds++;
    if (!w->was_asked) pthread_cond_signal(&w->asked);
    w->was_asked = true;
    pthread_mutex_unlock(&w->lock);
    return t ? &t->corpus : NULL;
}

void workspace_give(workspace *w, const corpus *c)
{
    if (c) let_go(w, (texts *)(uintptr_t)c);
}

uint32_t workspace_n_tokens(const workspace *w) { return atomic_load(&w->n_tokens); }

/* Takes block [size]: it becomes the newest index if it is valid. */
static const char *publish(workspace *w, void *block, size_t size)
{
    texts *t = memory_zalloc(1, sizeof *t);
    const char *fault = t ? corpus_read(&t->corpus, (view){block, size}, w->vocabulary, w->n_vocab)
                          : "no memory";
    if (fault) {
        memory_free(t);
        memory_unmap(block, size);
        return fault;
    }
    t->block = block;
    t->size = size;
    t->n_holds = 1;
    pthread_mutex_lock(&w->lock);
    texts *before = w->newest;
    w->newest = t;
    pthread_mutex_unlock(&w->lock);
    atomic_store(&w->n_tokens, t->corpus.n_tokens);
    let_go(w, before);
    return NULL;
}

/* ---- keeping ---- */

static void tell(workspace *w, const char *what, const char *why)
{
    cerium_error text; /* one clean line, as errors are */
    if (!w->notice || w->has_noticed) return;
    w->has_noticed = true;
    error_set(&text, CERIUM_OK, "%.300s: %s; drafts come without it", what, why);
    w->notice(w->user, text.message);
}

/* Use the index of an earlier start or of another process. */
static void map_kept(workspace *w)
{
    struct stat st;
    if (!w->path[0]) return;
    int fd = open(w->path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (fd < 0) return;
    void *block = NULL;
    size_t most = corpus_bytes(WORKSPACE_FILES_MAX, WORKSPACE_TOKENS_MAX), size = 0;
    /* The file must not be writable by others. */
    if (!fstat(fd, &st) && S_ISREG(st.st_mode) && st.st_uid == geteuid() &&
        !(st.st_mode & (S_IWGRP | S_IWOTH)) && st.st_size > 0 && (uint64_t)st.st_size <= most) {
        size = (size_t)st.st_size;
        block = memory_map_file(fd, 0, size);
        file_used(fd);
    }
    close(fd);
    if (block) publish(w, block, size); /* whatever is wrong with it: make a new one */
}

/* May the file be replaced: did this process write it, and does its name still refer to it? */
static bool is_own(int fd, const char *path)
{
    struct stat here, there;
    return !fstat(fd, &here) && !lstat(path, &there) && S_ISREG(here.st_mode) &&
           here.st_uid == geteuid() && here.st_nlink == 1 && here.st_ino == there.st_ino &&
           here.st_dev == there.st_dev;
}

/* Write the index to a temporary file, and rename it once complete.  0 or an errno. */
static int keep(workspace *w, const void *block, size_t size)
{
    char path[sizeof w->path + 4];
    file_make_folders(w->path);
    snprintf(path, sizeof path, "%s.new", w->path);
    const int flags = O_WRONLY | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC;
    int fd = open(path, flags, 0600);
    if (fd < 0) return errno;
    int why = flock(fd, LOCK_EX | LOCK_NB) ? errno : 0;
    if (why == 0 && !is_own(fd, path)) {
        close(fd);
        return EPERM; /* and it stays */
    }
    if (why == 0) why = file_lacks_room(fd, size);
    if (why == 0 && ftruncate(fd, 0)) why = errno;
    if (why == 0) why = file_write_at(fd, block, size, 0);
    if (why == 0 && rename(path, w->path)) why = errno;
    if (why && why != EWOULDBLOCK) unlink(path);
    close(fd);
    char *slash = strrchr(path, '/');
    *slash = 0;
    file_bound(path, "workspace-*", FILE_CACHED_MAX, FILE_CACHED_DAYS);
    return why == EWOULDBLOCK ? 0 : why; /* another process writes it */
}

/* ---- the thread ---- */

static void look(workspace *w)
{
    workspace_look seen;
    cerium_error err;
    void *block = NULL;
    size_t size = 0;
    const corpus *old = w->newest ? &w->newest->corpus : NULL; /* only we change it */
    int status = workspace_look_at(&seen, w->folder, &err);
    if (status) tell(w, w->folder, "it cannot be read any more");
    if (!status && (!old || old->state != workspace_look_hash(&seen)))
        status = workspace_build(&seen, w->folder, w->tokens, w->vocabulary, old, &w->closing,
                                 &block, &size);
    workspace_look_close(&seen);
    if (status && status != CERIUM_ERR_CANCELED) tell(w, w->folder, "no index of its texts");
    if (status || !block) return;
    int why = w->path[0] ? keep(w, block, size) : 0;
    if (why) tell(w, w->path, strerror(why));
    publish(w, block, size);
    if (w->path[0] && !why) map_kept(w); /* one copy for all processes */
}

static uint64_t hash_vocabulary(const workspace *w)
{
    uint64_t hash = hash_bytes(CERIUM_VERSION, strlen(CERIUM_VERSION), w->n_vocab);
    for (uint32_t i = 0; i < tokenizer_n_tokens(w->tokens); i++) {
        size_t len;
        const char *bytes_of = tokenizer_bytes(w->tokens, (int32_t)i, &len);
        hash = hash_bytes(bytes_of, len, hash_u64(len, hash));
    }
    return hash;
}

/* Wait until texts are wanted and the last look is old enough, or for the end. */
static void wait_for_look(workspace *w, const struct timespec *until)
{
    int status = 0;
    pthread_mutex_lock(&w->lock);
    while (!atomic_load(&w->closing) && !w->was_asked) pthread_cond_wait(&w->asked, &w->lock);
    while (!atomic_load(&w->closing) && status == 0)
        status = pthread_cond_timedwait(&w->asked, &w->lock, until);
    w->was_asked = false;
    pthread_mutex_unlock(&w->lock);
}

static void *run(void *arg)
{
    workspace *w = arg;
    const struct sched_param none = {0};
    pthread_setschedparam(pthread_self(), SCHED_IDLE, &none); /* background work */
    map_kept(w);
    while (!atomic_load(&w->closing)) {
        struct timespec next;
        look(w);
        clock_gettime(CLOCK_MONOTONIC, &next);
        next.tv_sec += LOOK_SECONDS_MIN;
        wait_for_look(w, &next);
    }
    return NULL;
}

/* ---- open and close ---- */

static int name_files(workspace *w, const workspace_config *config, cerium_error *err)
{
    if (!realpath(config->folder, w->folder))
        return error_set(err, CERIUM_ERR_IO, "%.200s: %s", config->folder, strerror(errno));
    int fd = open(w->folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return error_set(err, CERIUM_ERR_IO, "%.200s: %s", config->folder, strerror(errno));
    close(fd);
    if (!config->kept_in) return CERIUM_OK;
    int n = snprintf(w->path, sizeof w->path, "%s/workspace-%016llx.drafts", config->kept_in,
                     (unsigned long long)hash_bytes(w->folder, strlen(w->folder), w->vocabulary));
    if (n < 0 || (size_t)n >= sizeof w->path) w->path[0] = 0;
    return CERIUM_OK;
}

static bool open_locks(workspace *w)
{
    pthread_condattr_t kind;
    w->has_lock = pthread_mutex_init(&w->lock, NULL) == 0;
    if (!w->has_lock || pthread_condattr_init(&kind)) return false;
    w->has_asked = !pthread_condattr_setclock(&kind, CLOCK_MONOTONIC) &&
                   !pthread_cond_init(&w->asked, &kind);
    pthread_condattr_destroy(&kind);
    return w->has_asked;
}

int workspace_open(workspace **out, const workspace_config *config, cerium_error *err)
{
    workspace *w = memory_zalloc(1, sizeof *w);
    if (!w) return error_set(err, CERIUM_ERR_MEMORY, "no memory for a workspace");
    w->tokens = config->tokens;
    w->n_vocab = config->n_vocab;
    w->vocabulary = hash_vocabulary(w);
    w->notice = config->notice;
    w->user = config->user;
    int status = name_files(w, config, err);
    if (!status) {
        w->has_thread = open_locks(w) && thread_start(&w->thread, "workspace", run, w) == 0;
        if (!w->has_thread)
            status = error_set(err, CERIUM_ERR_MEMORY, "no memory or thread for a workspace");
    }
    if (status) {
        workspace_close(&w);
        return status;
    }
    *out = w;
    return CERIUM_OK;
}

void workspace_close(workspace **workspace_)
{
    if (!workspace_ || !*workspace_) return;
    workspace *w = *workspace_;
    if (w->has_thread) {
        pthread_mutex_lock(&w->lock);
        atomic_store(&w->closing, true);
        pthread_cond_signal(&w->asked);
        pthread_mutex_unlock(&w->lock);
        pthread_join(w->thread, NULL);
    }
    CHECK(!w->newest || w->newest->n_holds == 1);
    if (w->newest) let_go(w, w->newest);
    if (w->has_asked) pthread_cond_destroy(&w->asked);
    if (w->has_lock) pthread_mutex_destroy(&w->lock);
    memory_free(w);
    *workspace_ = NULL;
}
