/* upstream.c - the thread, its transfers, and the state of each upstream. */
#include "server/upstream.h"

#include <curl/curl.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

#include "base/thread.h"
#include "server/log.h"

enum {
    HELD_BYTES_MAX = 256 << 10,  /* bytes that the event loop has not taken yet */
    HEAD_BYTES_MAX = 64 << 10,   /* of all headers of an answer */
    LOOK_MS = 250,
    KEY_BYTES_MAX = 4096,
    HEALTH_BYTES_MAX = 1 << 20,
};

typedef struct {
    const upstream_policy *policy;
    struct curl_slist *headers;
    _Atomic uint64_t rests_until_ns; /* skipped until then; 0 = not */
    uint32_t n_failures;             /* in a row; thread */
    uint64_t asked_ns;               /* time of the last health check; thread */
    transfer *health;                /* thread */
} peer;

struct transfer {
    upstreams *u;
    transfer *next;           /* thread's list */
    peer *peer;
    char url[POLICY_TEXT_BYTES + 64];
    char *body;               /* owned */
    size_t body_len;
    CURL *easy;
    uint32_t tries_left;
    bool is_health;
    /* thread */
    size_t n_head, n_total;
    uint64_t begun_ns, last_ns;
    bool got_byte, added;
    const char *late;         /* why we ended it */
    /* both, under the lock */
    pthread_mutex_t lock;
    bytes held;
    transfer_state state;
    bool paused, orphaned, done; /* orphaned: the event loop forgot it */
};

struct upstreams {
    peer peers[POLICY_UPSTREAMS_MAX];
    uint32_t n_peers;
    CURLM *multi;
    pthread_t thread;
    bool runs;
    void (*wake)(void *user);
    void *user;
    _Atomic bool stops;
    _Atomic uint32_t n_transfers;
    pthread_mutex_t lock;
    transfer *fresh;          /* under the lock: begun, not yet seen by the thread */
    transfer *all;            /* thread */
};

/* ---- libcurl's callbacks ---- */

static size_t on_head(char *line, size_t size, size_t n, void *user)
{
    transfer *t = user;
    size_t len = size * n;
    uint64_t seconds;
    t->n_head += len;
    t->last_ns = clock_ns();
    if (t->n_head > HEAD_BYTES_MAX) {
        t->late = "its headers do not end";
        return 0;
    }
    view text = view_trim_end((view){line, len}, " \r\n");
    if (text.len > 13 && !strncasecmp(text.ptr, "retry-after: ", 13) &&
        parse_u64((view){text.ptr + 13, text.len - 13}, &seconds) && seconds <= 86400)
        t->state.retry_after_s = (uint32_t)seconds;
    return len;
}

/* Could another try succeed after this status? */
static bool is_passing(long status) { return status == 502 || status == 503 || status == 504; }

static size_t on_body(char *data, size_t size, size_t n, void *user)
{
    transfer *t = user;
    size_t len = size * n;
    long status = 0;
    curl_easy_getinfo(t->easy, CURLINFO_RESPONSE_CODE, &status);
    t->last_ns = clock_ns();
    if (is_passing(status) && t->tries_left) return len; /* the next try will report it */
    t->n_total += len;
    if (t->is_health) return t->n_total > HEALTH_BYTES_MAX ? 0 : len;
    pthread_mutex_lock(&t->lock);
    bool full = t->held.len && t->held.len + len > HELD_BYTES_MAX;
    bool taken = !full && !bytes_append(&t->held, data, len);
    t->state.status = (int)status;
    t->paused = full;
    pthread_mutex_unlock(&t->lock);
    if (full) return CURL_WRITEFUNC_PAUSE;
    t->got_byte = true;
    t->u->wake(t->u->user);
    return taken ? len : 0;
}

/* ---- one transfer, on the thread ---- */

static bool set_up(transfer *t)
{
    const upstream_policy *p = t->peer->policy;
    CURL *e = t->easy = curl_easy_init();
    if (!e) return false;
    int bad = curl_easy_setopt(e, CURLOPT_URL, t->url);
    bad |= curl_easy_setopt(e, CURLOPT_PRIVATE, t);
    bad |= curl_easy_setopt(e, CURLOPT_NOSIGNAL, 1L);
    bad |= curl_easy_setopt(e, CURLOPT_PROTOCOLS_STR, "http,https");
    bad |= curl_easy_setopt(e, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
    bad |= curl_easy_setopt(e, CURLOPT_TCP_NODELAY, 1L);
    bad |= curl_easy_setopt(e, CURLOPT_CONNECTTIMEOUT, (long)p->connect_s);
    bad |= curl_easy_setopt(e, CURLOPT_HTTPHEADER, t->peer->headers);
    bad |= curl_easy_setopt(e, CURLOPT_HEADERFUNCTION, on_head);
    bad |= curl_easy_setopt(e, CURLOPT_HEADERDATA, t);
    bad |= curl_easy_setopt(e, CURLOPT_WRITEFUNCTION, on_body);
    bad |= curl_easy_setopt(e, CURLOPT_WRITEDATA, t);
    if (!t->is_health) {
        bad |= curl_easy_setopt(e, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)t->body_len);
        bad |= curl_easy_setopt(e, CURLOPT_POSTFIELDS, t->body);
    }
    return !bad;
}

static void begin_try(transfer *t)
{
    t->n_head = t->n_total = 0;
    t->late = NULL;
    t->begun_ns = t->last_ns = clock_ns();
    t->added = curl_multi_add_handle(t->u->multi, t->easy) == CURLM_OK;
    if (!t->added) t->late = "out of memory";
}

static void end_try(transfer *t)
{
    if (t->added) curl_multi_remove_handle(t->u->multi, t->easy);
    t->added = false;
}

static void free_transfer(transfer *t)
{
    if (t->easy) curl_easy_cleanup(t->easy);
    pthread_mutex_destroy(&t->lock);
    bytes_free(&t->held);
    memory_free(t->body);
    if (!t->is_health) atomic_fetch_sub(&t->u->n_transfers, 1);
    memory_free(t);
}

/* ---- the state of an upstream ---- */

static void tell_health(peer *p, bool good, const char *why)
{
    char text[200];
    bool rested = atomic_load(&p->rests_until_ns) != 0;
    p->n_failures = good ? 0 : p->n_failures + 1;
    if (good && rested) {
        atomic_store(&p->rests_until_ns, 0);
        log_event(LOG_INFO, "upstream", "name=%s state=up", p->policy->name);
    }
    if (good || p->n_failures < p->policy->failures) return;
    atomic_store(&p->rests_until_ns, clock_ns() + p->policy->rest_s * UINT64_C(1000000000));
    if (!rested)
        log_event(LOG_WARNING, "upstream", "name=%s state=down reason=%s", p->policy->name,
                  log_quote(text, sizeof text, why));
}

bool upstream_is_up(const upstreams *u, uint32_t which)
{
    uint64_t until = atomic_load_explicit(&u->peers[which].rests_until_ns, memory_order_relaxed);
    return !until || clock_ns() > until; /* then one may try again */
}

static void describe(char *out, size_t cap, const transfer *t, CURLcode code)
{
    const char *why = t->late ? t->late : code ? curl_easy_strerror(code) : "it ended too early";
    snprintf(out, cap, "%s", why);
}

/* The try has ended: start another one, or end.  True when the transfer can be forgotten. */
static bool settle(transfer *t, CURLcode code)
{
    long status = 0;
    char why[160];
    if (t->easy) curl_easy_getinfo(t->easy, CURLINFO_RESPONSE_CODE, &status);
    end_try(t);
    bool failed = code || t->late, bad = failed || status >= 500 || !status;
    describe(why, sizeof why, t, code);
    if (!failed && bad) snprintf(why, sizeof why, "it says HTTP %ld", status);
    pthread_mutex_lock(&t->lock);
    bool wanted = !t->orphaned;
    pthread_mutex_unlock(&t->lock);
    if (wanted || t->is_health) tell_health(t->peer, !bad, why);
    if (wanted && t->tries_left && !t->got_byte && (failed || is_passing(status)) &&
        !t->is_health) {
        t->tries_left--;
        begin_try(t);
        if (t->added) return false;
    }
    pthread_mutex_lock(&t->lock);
    t->state.status = (int)status;
    t->state.failed = failed;
    t->state.ended = t->done = true;
    if (failed) snprintf(t->state.error, sizeof t->state.error, "%s", why);
    bool forgotten = t->orphaned || t->is_health;
    pthread_mutex_unlock(&t->lock);
    t->u->wake(t->u->user);
    return forgotten;
}

/* ---- the thread ---- */

/* Time limits, cancellations, and resuming paused reads. */
static const char *look_at(transfer *t, uint64_t now)
{
    const upstream_policy *p = t->peer->policy;
    pthread_mutex_lock(&t->lock);
    bool ends = t->orphaned;
    bool continues = t->paused && t->held.len < HELD_BYTES_MAX / 2;
    if (continues) t->paused = false;
    bool waits_for_us = t->paused;
    pthread_mutex_unlock(&t->lock);
    if (ends) return "canceled";
    if (continues || waits_for_us) t->last_ns = now; /* it is not the other server's fault */
    if (continues) curl_easy_pause(t->easy, CURLPAUSE_CONT); /* bytes may arrive within the call */
    uint64_t first_s = t->is_health ? p->connect_s : p->first_s;
    if (!t->n_total && now - t->begun_ns > first_s * UINT64_C(1000000000))
        return "no answer came in time";
    if (t->n_total && now > t->last_ns && now - t->last_ns > p->idle_s * UINT64_C(1000000000))
        return "it stopped in the middle";
    return NULL;
}

static void remove_from(upstreams *u, transfer *t)
{
    transfer **at = &u->all;
    while (*at != t) at = &(*at)->next;
    *at = t->next;
    if (t->peer->health == t) t->peer->health = NULL;
    free_transfer(t);
}

static void look(upstreams *u)
{
    uint64_t now = clock_ns();
    for (transfer *t = u->all, *next; t; t = next) {
        next = t->next;
        if (t->done) {
            pthread_mutex_lock(&t->lock);
            bool forgotten = t->orphaned;
            pthread_mutex_unlock(&t->lock);
            if (forgotten) remove_from(u, t);
            continue;
        }
        const char *late = look_at(t, now);
        if (!late && !t->added) late = t->late ? t->late : "out of memory";
        if (!late) continue;
        if (!t->late) t->late = late;
        if (settle(t, CURLE_OK)) remove_from(u, t);
    }
}

static void start(upstreams *u, transfer *t)
{
    t->next = u->all;
    u->all = t;
    if (set_up(t))
        begin_try(t);
    else
        t->late = "out of memory";
}

static void take_fresh(upstreams *u)
{
    pthread_mutex_lock(&u->lock);
    transfer *fresh = u->fresh;
    u->fresh = NULL;
    pthread_mutex_unlock(&u->lock);
    for (transfer *t = fresh, *next; t; t = next) {
        next = t->next;
        start(u, t);
    }
}

static void take_messages(upstreams *u)
{
    int left;
    for (CURLMsg *m; (m = curl_multi_info_read(u->multi, &left));) {
        transfer *t = NULL;
        CURLcode code = m->data.result;
        if (m->msg != CURLMSG_DONE) continue;
        curl_easy_getinfo(m->easy_handle, CURLINFO_PRIVATE, (char **)&t);
        if (settle(t, code)) remove_from(u, t);
    }
}

static transfer *new_transfer(upstreams *u, peer *p, const char *path)
{
    transfer *t = memory_zalloc(1, sizeof *t);
    if (!t) return NULL;
    t->u = u;
    t->peer = p;
    t->held.max = HELD_BYTES_MAX + CURL_MAX_WRITE_SIZE;
    snprintf(t->url, sizeof t->url, "%s%s", p->policy->url, path);
    pthread_mutex_init(&t->lock, NULL);
    return t;
}

/* Any answer except a server error shows health: /models may need another key than ours. */
static void ask_health(upstreams *u)
{
    uint64_t now = clock_ns();
    for (uint32_t i = 0; i < u->n_peers; i++) {
        peer *p = &u->peers[i];
        uint64_t every = p->policy->health_s * UINT64_C(1000000000);
        if (!every || p->health || now - p->asked_ns < every) continue;
        p->asked_ns = now;
        transfer *t = p->health = new_transfer(u, p, "/models");
        if (!t) continue;
        t->is_health = true;
        start(u, t);
    }
}

static void *serve(void *arg)
{
    upstreams *u = arg;
    int running;
    while (!atomic_load(&u->stops)) {
        take_fresh(u);
        ask_health(u);
        look(u);
        curl_multi_perform(u->multi, &running);
        take_messages(u);
        curl_multi_poll(u->multi, NULL, 0, LOOK_MS, NULL);
    }
    take_fresh(u);
    while (u->all) {
        transfer *t = u->all;
        end_try(t);
        remove_from(u, t);
    }
    return NULL;
}

/* ---- opening ---- */

static int read_key(const upstream_policy *p, char key[KEY_BYTES_MAX], cerium_error *err)
{
    key[0] = 0;
    if (p->key_env[0]) {
        const char *value = getenv(p->key_env);
        if (!value || !*value)
            return error_set(err, CERIUM_ERR_ARGUMENT, "[upstream %s]: the environment has no %s",
                             p->name, p->key_env);
        if (snprintf(key, KEY_BYTES_MAX, "%s", value) >= KEY_BYTES_MAX)
            return error_set(err, CERIUM_ERR_ARGUMENT, "[upstream %s]: the key is too long",
                             p->name);
    } else if (p->key_file[0]) {
        int fd = open(p->key_file, O_RDONLY | O_CLOEXEC);
        ssize_t n = fd < 0 ? -1 : read(fd, key, KEY_BYTES_MAX - 1);
        int code = errno;
        if (fd >= 0) close(fd);
        if (n <= 0)
            return error_set(err, CERIUM_ERR_ARGUMENT, "[upstream %s]: %s: %s", p->name,
                             p->key_file, n ? strerror(code) : "it is empty");
        key[n] = 0;
        key[strcspn(key, "\r\n")] = 0;
    }
    if (strpbrk(key, "\r\n"))
        return error_set(err, CERIUM_ERR_ARGUMENT, "[upstream %s]: the key has a line break",
                         p->name);
    return CERIUM_OK;
}

static int open_peer(peer *p, const upstream_policy *given, cerium_error *err)
{
    static const char *const plain[] = {"Content-Type: application/json",
                                        "Accept: text/event-stream, application/json",
                                        "Expect:", "User-Agent: cerium"};
    char key[KEY_BYTES_MAX], line[KEY_BYTES_MAX + 32];
    p->policy = given;
    p->asked_ns = clock_ns();
    RETURN_IF(read_key(given, key, err));
    snprintf(line, sizeof line, "Authorization: Bearer %s", key);
    for (size_t i = 0; i < ARRAY_LEN(plain) + (key[0] != 0); i++) {
        struct curl_slist *more =
            curl_slist_append(p->headers, i < ARRAY_LEN(plain) ? plain[i] : line);
        if (!more) return error_set(err, CERIUM_ERR_MEMORY, "no memory for upstreams");
        p->headers = more;
    }
    return CERIUM_OK;
}

int upstreams_open(upstreams **out, const policy *p, void (*wake)(void *user), void *user,
                   cerium_error *err)
{
    CHECK(out && p && wake);
    upstreams *u = memory_zalloc(1, sizeof *u);
    if (!u) return error_set(err, CERIUM_ERR_MEMORY, "no memory for upstreams");
    u->wake = wake;
    u->user = user;
    pthread_mutex_init(&u->lock, NULL);
    int status = CERIUM_OK;
    if (curl_global_init(CURL_GLOBAL_DEFAULT) || !(u->multi = curl_multi_init()))
        status = error_set(err, CERIUM_ERR_MEMORY, "no memory for upstreams");
    for (; !status && u->n_peers < p->n_upstreams; u->n_peers++)
        status = open_peer(&u->peers[u->n_peers], &p->upstreams[u->n_peers], err);
    if (!status) {
        int code = thread_start(&u->thread, "upstreams", serve, u);
        if (code) status = error_set(err, CERIUM_ERR_IO, "no thread for upstreams: %s",
                                     strerror(code));
        u->runs = !code;
    }
    if (status)
        upstreams_close(&u);
    else
        *out = u;
    return status;
}

void upstreams_close(upstreams **out)
{
    if (!out || !*out) return;
    upstreams *u = *out;
    if (u->runs) {
        atomic_store(&u->stops, true);
        curl_multi_wakeup(u->multi);
        pthread_join(u->thread, NULL);
    }
    for (size_t i = 0; i < POLICY_UPSTREAMS_MAX; i++) curl_slist_free_all(u->peers[i].headers);
    if (u->multi) curl_multi_cleanup(u->multi);
    pthread_mutex_destroy(&u->lock);
    memory_free(u);
    *out = NULL;
}

/* ---- the event loop's side ---- */

transfer *transfer_begin(upstreams *u, uint32_t which, const char *path, view body)
{
    CHECK(which < u->n_peers);
    if (atomic_fetch_add(&u->n_transfers, 1) >= SERVER_RUNNING_MAX) {
        atomic_fetch_sub(&u->n_transfers, 1);
        return NULL;
    }
    transfer *t = new_transfer(u, &u->peers[which], path);
    if (t) t->body = memory_copy(body.ptr, body.len);
    if (!t || !t->body) {
        if (t) pthread_mutex_destroy(&t->lock);
        memory_free(t);
        atomic_fetch_sub(&u->n_transfers, 1);
        return NULL;
    }
    t->body_len = body.len;
    t->tries_left = t->peer->policy->retries;
    pthread_mutex_lock(&u->lock);
    t->next = u->fresh;
    u->fresh = t;
    pthread_mutex_unlock(&u->lock);
    curl_multi_wakeup(u->multi);
    return t;
}

int transfer_take(transfer *t, bytes *out, transfer_state *state)
{
    pthread_mutex_lock(&t->lock);
    int status = t->held.len ? bytes_append(out, t->held.ptr, t->held.len) : CERIUM_OK;
    bool resumes = t->paused;
    if (!status) t->held.len = 0;
    *state = t->state;
    pthread_mutex_unlock(&t->lock);
    if (resumes) curl_multi_wakeup(t->u->multi);
    return status;
}

void transfer_end(transfer **out)
{
    if (!out || !*out) return;
    transfer *t = *out;
    upstreams *u = t->u;
    pthread_mutex_lock(&t->lock);
    t->orphaned = true;
    pthread_mutex_unlock(&t->lock);
    curl_multi_wakeup(u->multi); /* the thread frees it */
    *out = NULL;
}
