/* kv_events.c - the ring of KV events, and their msgpack (vLLM's `KVEventBatch`, arrays). */
#include "server/kv_events.h"

#include <pthread.h>

/* Of one page at most: a token takes 5 bytes, the rest of the event less than 100. */
enum { PAGE_TOKENS_MAX = 64, EVENT_BYTES_MAX = 5 * PAGE_TOKENS_MAX + 100 };

typedef enum { STORED, REMOVED, CLEARED } kind;

typedef struct {
    kind kind;
    bool has_before;
    uint8_t n_tokens;
    uint32_t model;
    uint64_t name, before, tenant;
    int32_t tokens[PAGE_TOKENS_MAX];
} event;

struct kv_events_model {
    kv_events *of;
    uint32_t n;
};

struct kv_events {
    kv_events_model models[KV_EVENTS_MODELS_MAX];
    pthread_mutex_t lock; /* the fields after it; taken after an engine's lock, and only for a
                           * copy */
    bool has_lock;
    bool lost;            /* number of models reported empty so far */
    uint32_t n_cleared;   /* number of dropped events */
    uint64_t first, n;    /* in ring, modulo its size */
    uint64_t announced;   /* models with events, one bit each */
    void (*wake)(void *user);
    void *wake_user;
    event *ring;          /* [KV_EVENTS_RING] */
};

int kv_events_open(kv_events **out, cerium_error *err)
{
    kv_events *e = memory_zalloc(1, sizeof *e);
    if (e) {
        e->has_lock = pthread_mutex_init(&e->lock, NULL) == 0;
        e->ring = memory_alloc(KV_EVENTS_RING * sizeof *e->ring);
        for (uint32_t i = 0; i < KV_EVENTS_MODELS_MAX; i++)
            e->models[i] = (kv_events_model){e, i};
    }
    if (e && e->has_lock && e->ring) {
        *out = e;
        return CERIUM_OK;
    }
    kv_events_close(&e);
    return error_set(err, CERIUM_ERR_MEMORY, "no memory for KV events");
}

void kv_events_close(kv_events **e)
{
    if (!e || !*e) return;
    if ((*e)->has_lock) pthread_mutex_destroy(&(*e)->lock);
    memory_free((*e)->ring);
    memory_free(*e);
    *e = NULL;
}

kv_events_model *kv_events_of(kv_events *e, uint32_t n)
{
    CHECK(n < KV_EVENTS_MODELS_MAX);
    return &e->models[n];
}

void kv_events_wake(kv_events *e, void (*wake)(void *user), void *user)
{
    pthread_mutex_lock(&e->lock);
    e->wake = wake;
    e->wake_user = user;
    if (wake && (e->n || e->lost)) wake(user);
    pthread_mutex_unlock(&e->lock);
}

/* ---- from engines ---- */

static void push(kv_events_model *m, const event *what)
{
    kv_events *e = m->of;
    pthread_mutex_lock(&e->lock);
    const bool was_quiet = e->n == 0 && !e->lost;
    e->announced |= UINT64_C(1) << m->n;
    if (e->n == KV_EVENTS_RING) {
        e->lost = true;
        e->n = 0;
        e->n_cleared = 0;
    }
    if (!e->lost) {
        event *to = &e->ring[(e->first + e->n++) % KV_EVENTS_RING];
        *to = *what;
        to->model = m->n;
    }
    if (was_quiet && e->wake) e->wake(e->wake_user);
    pthread_mutex_unlock(&e->lock);
}

static void stored(void *user, const cerium_kv_page *page)
{
    CHECK(page->n_tokens <= PAGE_TOKENS_MAX);
    event what = {.kind = STORED,
                  .has_before = page->has_before,
                  .n_tokens = (uint8_t)page->n_tokens,
                  .name = page->name,
                  .before = page->before,
                  .tenant = page->tenant};
    memcpy(what.tokens, page->tokens, page->n_tokens * sizeof *what.tokens);
    push(user, &what);
}

static void removed(void *user, uint64_t name)
{
    push(user, &(event){.kind = REMOVED, .name = name});
}

static void cleared(void *user) { push(user, &(event){.kind = CLEARED}); }

const cerium_kv_watcher kv_events_watcher = {stored, removed, cleared};

/* ---- msgpack ---- */

static void put(bytes *out, const void *from, size_t n)
{
    int status = bytes_append(out, from, n); /* reserved */
    CHECK(status == CERIUM_OK);
}

static void put_number(bytes *out, uint8_t type, uint64_t n, size_t size)
{
    uint8_t all[9] = {type};
    for (size_t i = 0; i < size; i++) all[1 + i] = (uint8_t)(n >> (8 * (size - 1 - i)));
    put(out, all, 1 + size);
}

static void put_nil(bytes *out) { put(out, "\xc0", 1); }

static void put_uint(bytes *out, uint64_t n)
{
    if (n < 0x80)
        put(out, &(uint8_t){(uint8_t)n}, 1);
    else if (n <= UINT16_MAX)
        put_number(out, 0xcd, n, 2);
    else if (n <= UINT32_MAX)
        put_number(out, 0xce, n, 4);
    else
        put_number(out, 0xcf, n, 8);
}

static void put_array(bytes *out, uint32_t n)
{
    if (n < 16)
        put(out, &(uint8_t){(uint8_t)(0x90 | n)}, 1);
    else
        put_number(out, 0xdc, n, 2);
}

static void put_text(bytes *out, const char *text)
{
    const size_t n = strlen(text);
    CHECK(n < 32);
    put(out, &(uint8_t){(uint8_t)(0xa0 | n)}, 1);
    put(out, text, n);
}

static void put_stored(bytes *out, const event *what)
{
    char salt[20];
    put_array(out, what->tenant ? 9 : 7);
    put_text(out, "BlockStored");
    put_array(out, 1);
    put_uint(out, what->name);
    if (what->has_before)
        put_uint(out, what->before);
    else
        put_nil(out);
    put_array(out, what->n_tokens);
    for (uint32_t i = 0; i < what->n_tokens; i++) put_uint(out, (uint32_t)what->tokens[i]);
    put_uint(out, what->n_tokens); /* block_size */
    put_nil(out);                  /* lora_id */
    put_nil(out);                  /* medium */
    if (!what->tenant) return;
    put_nil(out);                  /* lora_name */
    put_array(out, 1);             /* extra_keys: pages of other API keys do not match */
    if (what->has_before) {
        put_nil(out);
        return;
    }
    snprintf(salt, sizeof salt, "%016llx", (unsigned long long)what->tenant);
    put_array(out, 1);
    put_text(out, salt);
}

static void put_event(bytes *out, const event *what)
{
    switch (what->kind) {
    case STORED: put_stored(out, what); return;
    case REMOVED:
        put_array(out, 3);
        put_text(out, "BlockRemoved");
        put_array(out, 1);
        put_uint(out, what->name);
        put_nil(out);
        return;
    case CLEARED:
        put_array(out, 1);
        put_text(out, "AllBlocksCleared");
        return;
    }
}

/* Of the n events from the first one on in a ring of that size. */
static void put_batch(bytes *out, double seconds, const event *ring, uint64_t first, uint32_t n,
                      uint32_t size)
{
    uint64_t bits;
    memcpy(&bits, &seconds, sizeof bits);
    put_array(out, 3);
    put_number(out, 0xcb, bits, 8);
    put_array(out, n);
    for (uint32_t i = 0; i < n; i++) put_event(out, &ring[(first + i) % size]);
    put_nil(out); /* the rank of one that is parallel */
}

/* The events at the front, of one model.  0: there are none. */
static uint32_t of_one_model(const kv_events *e)
{
    uint32_t n = 0;
    while (n < e->n && n < KV_EVENTS_BATCH_MAX &&
           e->ring[(e->first + n) % KV_EVENTS_RING].model ==
               e->ring[e->first % KV_EVENTS_RING].model)
        n++;
    return n;
}

/* The next model to report empty; when there is none, new events are stored again. */
static bool is_to_clear(kv_events *e, uint32_t *model)
{
    while (e->lost && e->n_cleared < KV_EVENTS_MODELS_MAX)
        if (e->announced >> (*model = e->n_cleared++) & 1) return true;
    e->lost = false;
    return false;
}

bool kv_events_take(kv_events *e, double seconds, uint32_t *model, bytes *out)
{
    if (bytes_reserve(out, KV_EVENTS_BATCH_MAX * EVENT_BYTES_MAX)) return false;
    static const event clear = {.kind = CLEARED};
    pthread_mutex_lock(&e->lock);
    const bool clears = is_to_clear(e, model);
    const uint32_t n = clears ? 1 : of_one_model(e);
    if (clears) {
        put_batch(out, seconds, &clear, 0, 1, 1);
    } else if (n) {
        *model = e->ring[e->first % KV_EVENTS_RING].model;
        put_batch(out, seconds, e->ring, e->first, n, KV_EVENTS_RING);
        e->first += n;
        e->n -= n;
    }
    pthread_mutex_unlock(&e->lock);
    return n > 0;
}
