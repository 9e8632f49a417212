/* accounts_sync.c - polls the database, and writes to it, beside the event loop. */
#include "server/accounts_sync.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

#include "base/thread.h"
#include "server/log.h"
#include "store/metered.h"

enum { LOOK_MS = 200, ADOPT_LOOKS = 5, EXPIRE_LOOKS = 300, BATCH = 512 };

struct accounts_sync {
    store *store;
    live *live;
    void (*wake)(void *user);
    void *user;
    _Atomic(keyring *) fresh;
    int64_t version;   /* of the newest ring */
    bool failing;      /* the last poll met an error, which was logged */
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool stops, runs;
};

int accounts_sync_drain(store *s, live *l, int slot, cerium_error *err)
{
    live_record *batch = memory_alloc(BATCH * sizeof *batch);
    if (!batch) return error_set(err, CERIUM_ERR_MEMORY, "no memory to write the usage");
    int64_t journal = live_journal(l, slot);
    int status = CERIUM_OK;
    while (!status) {
        uint64_t end;
        uint32_t n_torn = 0, n = live_peek(l, slot, batch, BATCH, &end, &n_torn);
        if (!n && !n_torn) break;
        if (n_torn)
            log_event(LOG_WARNING, "usage", "reason=\"requests lost with the power\" requests=%u",
                      n_torn);
        status = store_usage_write(s, journal, batch, n, end, err);
        if (!status) live_forget(l, slot, end);
    }
    memory_free(batch);
    return status;
}

/* The journal of a server that is gone: metered once, even if several servers look. */
static int adopt(accounts_sync *k, cerium_error *err)
{
    int status = CERIUM_OK;
    for (int slot = live_adopt(k->live, 0); slot >= 0 && !status;
         slot = live_adopt(k->live, slot + 1)) {
        uint64_t sequence = 0;
        status = store_usage_sequence(k->store, live_journal(k->live, slot), &sequence, err);
        if (!status) {
            live_resume(k->live, slot, sequence);
            status = accounts_sync_drain(k->store, k->live, slot, err);
        }
        live_release(k->live, slot);
        if (!status) log_event(LOG_INFO, "adopted", "slot=%d", slot);
    }
    return status;
}

static int read_ring(accounts_sync *k, cerium_error *err)
{
    keyring *ring = NULL;
    RETURN_IF(keyring_read(&ring, k->store, err));
    k->version = ring->version;
    ring = atomic_exchange(&k->fresh, ring);
    keyring_free(&ring); /* one that was not taken in time */
    return CERIUM_OK;
}

static int mend(accounts_sync *k, cerium_error *err)
{
    bool was_cut = false;
    int status = live_mend(k->live, &was_cut, err);
    if (was_cut)
        log_event(LOG_WARNING, "keeper", "reason=\"the file of the limits was cut, and is whole "
                  "again\"");
    return status;
}

/* n: number of polls, from 1.  The first and one a minute remove what exceeds a bound. */
static int look(accounts_sync *k, uint32_t n, cerium_error *err)
{
    int64_t version;
    uint64_t n_expired = 0;
    int mended = mend(k, err); /* waiting for a full disk delays nothing else */
    RETURN_IF(store_keys_version(k->store, &version, err));
    if (version != k->version) {
        RETURN_IF(read_ring(k, err));
        k->wake(k->user);
    }
    RETURN_IF(accounts_sync_drain(k->store, k->live, LIVE_OWN, err));
    if (n % ADOPT_LOOKS == 0) RETURN_IF(adopt(k, err));
    if (n % EXPIRE_LOOKS == 1)
        RETURN_IF(store_expire(k->store, (int64_t)time(NULL), &n_expired, err));
    else
        RETURN_IF(store_count(k->store, err));
    return mended;
}

static void report(accounts_sync *k, int status, const cerium_error *err)
{
    char text[320];
    if (status && !k->failing)
        log_event(LOG_ERROR, "keeper", "reason=%s", log_quote(text, sizeof text, err->message));
    if (!status && k->failing) log_event(LOG_INFO, "keeper", "reason=\"the store works again\"");
    k->failing = status != CERIUM_OK;
}

/* False when the accounts thread must end. */
static bool rest(accounts_sync *k)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += LOOK_MS * 1000000L;
    until.tv_sec += until.tv_nsec / 1000000000L;
    until.tv_nsec %= 1000000000L;
    pthread_mutex_lock(&k->lock);
    while (!k->stops && !pthread_cond_timedwait(&k->changed, &k->lock, &until)) {}
    bool continues = !k->stops;
    pthread_mutex_unlock(&k->lock);
    return continues;
}

static void *keep(void *arg)
{
    accounts_sync *k = arg;
    cerium_error err;
    for (uint32_t n = 1; rest(k); n++) {
        int status = look(k, n, &err);
        report(k, status, &err);
    }
    return NULL;
}

static int open_parts(accounts_sync *k, const char *store_path, cerium_error *err)
{
    uint64_t sequence = 0;
    RETURN_IF(store_open(&k->store, store_path, err));
    RETURN_IF(store_usage_sequence(k->store, live_journal(k->live, LIVE_OWN), &sequence, err));
    live_resume(k->live, LIVE_OWN, sequence);
    RETURN_IF(accounts_sync_drain(k->store, k->live, LIVE_OWN, err));
    RETURN_IF(adopt(k, err));
    return read_ring(k, err);
}

void accounts_sync_bound(accounts_sync *k, uint64_t bytes_max, uint32_t days)
{
    store_bound(k->store, bytes_max, days);
}

store_size accounts_sync_measure(const accounts_sync *k) { return store_measure(k->store); }

int accounts_sync_start(accounts_sync *k, void (*wake)(void *user), void *user, cerium_error *err)
{
    CHECK(wake && !k->runs);
    k->wake = wake;
    k->user = user;
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_mutex_init(&k->lock, NULL);
    pthread_cond_init(&k->changed, &monotonic);
    pthread_condattr_destroy(&monotonic);
    int code = thread_start(&k->thread, "accounts", keep, k);
    k->runs = code == 0;
    return code ? error_set(err, CERIUM_ERR_IO, "no thread for the store: %s", strerror(code))
                : CERIUM_OK;
}

int accounts_sync_open(accounts_sync **out, const char *store_path, live *l, cerium_error *err)
{
    CHECK(out && store_path && l);
    accounts_sync *k = memory_zalloc(1, sizeof *k);
    if (!k) return error_set(err, CERIUM_ERR_MEMORY, "no memory for the keys");
    k->live = l;
    int status = open_parts(k, store_path, err);
    if (status) accounts_sync_close(&k);
    else
        *out = k;
    return status;
}

void accounts_sync_close(accounts_sync **out)
{
    if (!out || !*out) return;
    accounts_sync *k = *out;
    cerium_error err;
    if (k->runs) {
        pthread_mutex_lock(&k->lock);
        k->stops = true;
        pthread_cond_signal(&k->changed);
        pthread_mutex_unlock(&k->lock);
        pthread_join(k->thread, NULL);
        pthread_mutex_destroy(&k->lock);
        pthread_cond_destroy(&k->changed);
        /* What cannot be written now stays in the file for the next server. */
        report(k, accounts_sync_drain(k->store, k->live, LIVE_OWN, &err), &err);
    }
    keyring *ring = accounts_sync_take(k);
    keyring_free(&ring);
    store_close(&k->store);
    memory_free(k);
    *out = NULL;
}

keyring *accounts_sync_take(accounts_sync *k)
{
    if (!atomic_load_explicit(&k->fresh, memory_order_relaxed)) return NULL;
    return atomic_exchange(&k->fresh, NULL);
}
