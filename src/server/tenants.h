/* tenants.h - for each active tenant: its tier, its limits, and the history of its requests.
 *
 * A tenant is a key: of the store (even numbers), of --api-key (odd ones), or 0, all clients of a
 * server without keys.  Event loop only. */
#ifndef SERVER_TENANTS_H
#define SERVER_TENANTS_H

#include "protocol/protocol.h"
#include "server/keyring.h"
#include "server/policy.h"

typedef struct {
    uint64_t id;
    const tier *tier;      /* NULL: its key has one that the configuration lacks */
    protocol_cache *cache; /* NULL: none yet */
    uint32_t place;        /* live_place() */
} tenant_state;

typedef struct tenants tenants;

CERIUM_CHECKED int tenants_open(tenants **out);
void tenants_close(tenants **t);

/* The tenant's entry; a new one at its first request.  ring: NULL = there is none.  NULL when
 * memory runs out.  Valid until tenants_forget(). */
tenant_state *tenants_get(tenants *t, uint64_t id, const keyring *ring, const policy *p);
/* The keys changed: all entries are made again on request. */
void tenants_forget(tenants *t);

#endif
