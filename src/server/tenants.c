/* tenants.c - a table of tenants, open addressing, of the largest number of tenants. */
#include "server/tenants.h"

#include "base/hash.h"

enum { PLACES = 16384 };
_Static_assert(PLACES >= 2 * (STORE_KEYS_MAX + SERVER_KEYS_MAX + 1), "there is always room");

struct tenants {
    tenant_state *places[PLACES]; /* owned */
    uint32_t n;
};

int tenants_open(tenants **out)
{
    *out = memory_zalloc(1, sizeof **out);
    return *out ? CERIUM_OK : CERIUM_ERR_MEMORY;
}

void tenants_forget(tenants *t)
{
    for (size_t i = 0; t->n && i < PLACES; i++) {
        if (!t->places[i]) continue;
        protocol_cache_close(&t->places[i]->cache);
        memory_free(t->places[i]);
        t->places[i] = NULL;
        t->n--;
    }
}

void tenants_close(tenants **t)
{
    if (!t || !*t) return;
    tenants_forget(*t);
    memory_free(*t);
    *t = NULL;
}

/* The tenant without a tier: the keys of --api-key, and every client of a server without keys. */
static const tier *key_tier(const policy *p)
{
    static const tier open = {.name = "default",
                              .ceiling = CERIUM_CLASS_COMPLETION,
                              .price_input = 5000,
                              .price_cached = 500,
                              .price_output = 15000};
    return p->key_tier[0] ? policy_tier(p, p->key_tier) : &open;
}

tenant_state *tenants_get(tenants *t, uint64_t id, const keyring *ring, const policy *p)
{
    size_t at = hash_u64(id, 0) % PLACES;
    for (; t->places[at]; at = (at + 1) % PLACES)
        if (t->places[at]->id == id) return t->places[at];
    /* Half of the slots suffice for all keys of one ring, and a new ring empties them. */
    if (t->n >= PLACES / 2) return NULL;
    tenant_state *new = memory_zalloc(1, sizeof *new);
    if (!new) return NULL;
    const store_key *key = ring && id && !(id & 1) ? keyring_of(ring, id) : NULL;
    *new = (tenant_state){.id = id, .tier = key ? policy_tier(p, key->tier) : key_tier(p)};
    t->places[at] = new;
    t->n++;
    return new;
}
