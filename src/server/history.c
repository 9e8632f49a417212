/* history.c - turns in two hash tables (by id, by conversation) and one LRU list a tenant.
 *
 * The tables hold a reference to each turn, as every user of a turn does.  A removed turn is freed
 * without the lock, when the last reference is released. */
#include "server/history.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>

enum { BUCKETS = 4096 }; /* chains stay short: a tenant has SERVER_HISTORY_TURNS_MAX turns */

typedef struct entry entry;
typedef struct tenant tenant;

struct entry {
    history_turn turn;
    _Atomic uint32_t n_refs;
    tenant *owner;
    entry *newer, *older;          /* of the tenant */
    entry *next_id, *next_chain;   /* of the bucket */
    size_t bytes;
};

struct tenant {
    uint64_t id;
    entry *newest, *oldest;
    size_t n_bytes, n_turns;
    tenant *next;
};

struct history {
    pthread_mutex_t lock;
    entry *dropped; /* by next_id: to be freed without the lock */
    entry *by_id[BUCKETS], *by_chain[BUCKETS];
    tenant *tenants;
    size_t bytes_max, turns_max;
    size_t n_turns;
};

static uint64_t mix(uint64_t a, uint64_t b)
{
    __uint128_t p = (__uint128_t)(a ^ 0x9e3779b97f4a7c15u) * (b ^ 0xd1b54a32d192ed03u);
    return (uint64_t)p ^ (uint64_t)(p >> 64);
}

static uint64_t hash_bytes(uint64_t h, const char *s, size_t len)
{
    for (; len >= 8; s += 8, len -= 8) {
        uint64_t word;
        memcpy(&word, s, 8);
        h = mix(h, word);
    }
    uint64_t tail = 0;
    memcpy(&tail, s, len);
    return mix(h, tail ^ (uint64_t)len << 56);
}

static chain add_text(chain c, const char *s)
{
    size_t len = s ? strlen(s) : 0;
    const char *text = s ? s : "";
    return (chain){{mix(hash_bytes(c.h[0], text, len), len + 1),
                    mix(hash_bytes(c.h[1] ^ 0xa0761d6478bd642fu, text, len), len + 2)}};
}

chain chain_add(chain c, const cerium_message *m)
{
    if (!strcmp(m->role, "reasoning")) return c;
    c = add_text(c, m->role);
    c = add_text(c, m->content);
    c = add_text(c, m->name);
    return add_text(c, m->call_id);
}

static size_t id_bucket(uint64_t tenant_id, const char *id)
{
    return hash_bytes(tenant_id + 1, id, strlen(id)) % BUCKETS;
}

static size_t chain_bucket(chain c) { return c.h[0] % BUCKETS; }

int history_open(history **out, size_t tenant_bytes_max, size_t tenant_turns_max)
{
    history *h = memory_zalloc(1, sizeof *h);
    if (!h) return CERIUM_ERR_MEMORY;
    pthread_mutex_init(&h->lock, NULL);
    h->bytes_max = tenant_bytes_max;
    h->turns_max = tenant_turns_max;
    *out = h;
    return CERIUM_OK;
}

/* ---- references ---- */

static void let_go(entry *e)
{
    if (atomic_fetch_sub(&e->n_refs, 1) > 1) return;
    json_decref(e->turn.output);
    json_decref(e->turn.items);
    memory_free((void *)e->turn.tokens);
    memory_free(e);
}

void history_release(const history_turn **turn)
{
    if (!turn || !*turn) return;
    let_go((entry *)((char *)*turn - offsetof(entry, turn)));
    *turn = NULL;
}

static void lock(history *h) { pthread_mutex_lock(&h->lock); }

static void unlock(history *h)
{
    entry *e = h->dropped;
    h->dropped = NULL;
    pthread_mutex_unlock(&h->lock);
    while (e) {
        entry *next = e->next_id;
        let_go(e);
        e = next;
    }
}

/* ---- the tables, within the lock ---- */

static void lru_remove(entry *e)
{
    tenant *t = e->owner;
    *(e->newer ? &e->newer->older : &t->newest) = e->older;
    *(e->older ? &e->older->newer : &t->oldest) = e->newer;
    e->newer = e->older = NULL;
}

static void lru_push(entry *e)
{
    tenant *t = e->owner;
    e->newer = NULL;
    e->older = t->newest;
    *(t->newest ? &t->newest->newer : &t->oldest) = e;
    t->newest = e;
}

static void drop(history *h, entry *e)
{
    entry **at = &h->by_id[id_bucket(e->turn.tenant, e->turn.id)];
    while (*at != e) at = &(*at)->next_id;
    *at = e->next_id;
    if (!chain_none(e->turn.chain)) {
        at = &h->by_chain[chain_bucket(e->turn.chain)];
        while (*at != e) at = &(*at)->next_chain;
        *at = e->next_chain;
    }
    lru_remove(e);
    e->owner->n_bytes -= e->bytes;
    e->owner->n_turns--;
    h->n_turns--;
    e->next_id = h->dropped;
    h->dropped = e;
}

void history_close(history **h)
{
    if (!h || !*h) return;
    for (tenant *t = (*h)->tenants, *next; t; t = next) {
        next = t->next;
        while (t->newest) drop(*h, t->newest);
        memory_free(t);
    }
    lock(*h);
    unlock(*h);
    pthread_mutex_destroy(&(*h)->lock);
    memory_free(*h);
    *h = NULL;
}

/* There are as many tenants as keys, and they are never removed. */
static tenant *find_tenant(history *h, uint64_t id)
{
    tenant *t = h->tenants;
    while (t && t->id != id) t = t->next;
    if (t) return t;
    t = memory_zalloc(1, sizeof *t);
    if (!t) return NULL;
    t->id = id;
    t->next = h->tenants;
    h->tenants = t;
    return t;
}

static entry *find_id(const history *h, uint64_t tenant_id, const char *id)
{
    entry *e = h->by_id[id_bucket(tenant_id, id)];
    while (e && (e->turn.tenant != tenant_id || strcmp(e->turn.id, id) != 0)) e = e->next_id;
    return e;
}

static void link_entry(history *h, tenant *t, entry *e)
{
    size_t b = id_bucket(e->turn.tenant, e->turn.id);
    e->owner = t;
    e->next_id = h->by_id[b];
    h->by_id[b] = e;
    if (!chain_none(e->turn.chain)) {
        b = chain_bucket(e->turn.chain);
        e->next_chain = h->by_chain[b];
        h->by_chain[b] = e;
    }
    lru_push(e);
    t->n_bytes += e->bytes;
    t->n_turns++;
    h->n_turns++;
}

static entry *find_for(const history *h, uint64_t tenant_id, uint64_t connection, const char *id)
{
    entry *e = find_id(h, tenant_id, id);
    return e && e->turn.connection && e->turn.connection != connection ? NULL : e;
}

static const history_turn *hold(entry *e)
{
    if (!e) return NULL;
    lru_remove(e);
    lru_push(e);
    atomic_fetch_add(&e->n_refs, 1);
    return &e->turn;
}

/* A copy of a turn, of this size, for the tables; NULL: out of memory. */
static entry *make_entry(const history_turn *turn, size_t size)
{
    entry *e = memory_zalloc(1, sizeof *e);
    int32_t *tokens = memory_copy(turn->tokens, turn->n_tokens * sizeof *tokens);
    if (!e || !tokens) {
        memory_free(e);
        memory_free(tokens);
        return NULL;
    }
    e->turn = *turn;
    e->turn.tokens = tokens;
    e->turn.output = json_incref(turn->output);
    e->turn.items = json_incref(turn->items);
    e->n_refs = 1;
    e->bytes = size;
    return e;
}

/* ---- from outside ---- */

int history_add(history *h, const history_turn *turn)
{
    /* The items of the output are about as long as the text of the tokens, plus JSON. */
    size_t size = sizeof(entry) + turn->n_tokens * sizeof(int32_t) +
                  (turn->n_tokens - turn->sampled_from) * 64 + turn->items_bytes;
    CHECK(turn->sampled_from <= turn->n_tokens);
    bool fits = size <= h->bytes_max && h->turns_max;
    entry *e = fits ? make_entry(turn, size) : NULL;
    lock(h);
    entry *old = find_id(h, turn->tenant, turn->id);
    if (old) drop(h, old);
    tenant *t = find_tenant(h, turn->tenant);
    if (t && e) {
        while (t->n_bytes + size > h->bytes_max || t->n_turns + 1 > h->turns_max)
            drop(h, t->oldest);
        link_entry(h, t, e);
    }
    unlock(h);
    if (!t && e) let_go(e);
    return t && (e || !fits) ? CERIUM_OK : CERIUM_ERR_MEMORY;
}

const history_turn *history_find(history *h, uint64_t tenant_id, uint64_t connection,
                                 const char *id)
{
    lock(h);
    const history_turn *turn = hold(find_for(h, tenant_id, connection, id));
    unlock(h);
    return turn;
}

const history_turn *history_find_chain(history *h, uint64_t tenant_id, chain c)
{
    lock(h);
    entry *e = h->by_chain[chain_bucket(c)];
    while (e && (e->turn.tenant != tenant_id || !chain_equal(e->turn.chain, c))) e = e->next_chain;
    const history_turn *turn = hold(e);
    unlock(h);
    return turn;
}

static json_t *find_item(const history *h, uint64_t tenant_id, const char *item_id)
{
    const tenant *t = h->tenants;
    while (t && t->id != tenant_id) t = t->next;
    for (const entry *e = t ? t->newest : NULL; e; e = e->older) {
        size_t i;
        json_t *item;
        json_array_foreach(e->turn.output, i, item)
        {
            const char *id = json_string_value(json_object_get(item, "id"));
            if (id && !strcmp(id, item_id)) return item;
        }
    }
    return NULL;
}

json_t *history_find_item(history *h, uint64_t tenant_id, const char *item_id)
{
    lock(h);
    json_t *item = json_incref(find_item(h, tenant_id, item_id));
    unlock(h);
    return item;
}

void history_forget(history *h, uint64_t tenant_id, const char *id)
{
    lock(h);
    entry *e = find_id(h, tenant_id, id);
    if (e) drop(h, e);
    unlock(h);
}

void history_evict(history *h, uint64_t tenant_id, uint64_t connection, const char *id)
{
    lock(h);
    entry *e = find_for(h, tenant_id, connection, id);
    if (e) drop(h, e);
    unlock(h);
}

void history_drop_connection(history *h, uint64_t connection)
{
    lock(h);
    for (tenant *t = h->tenants; t; t = t->next)
        for (entry *e = t->newest, *older; e; e = older) {
            older = e->older;
            if (e->turn.connection == connection && chain_none(e->turn.chain)) drop(h, e);
        }
    unlock(h);
}

size_t history_turns(history *h)
{
    lock(h);
    size_t n = h->n_turns;
    unlock(h);
    return n;
}
