/* tenant_keys.h - keys of the store, and their tenants. */
#ifndef SERVER_TENANT_KEYS_H
#define SERVER_TENANT_KEYS_H

#include "server/state.h"

/* Open what servers share; the server's policy is set. */
CERIUM_CHECKED int tenant_keys_open(server *s, cerium_error *err);
/* From now on, while there is an event loop to wake: keys are looked at, and usage is kept. */
CERIUM_CHECKED int tenant_keys_start(server *s, cerium_error *err);
void tenant_keys_stop(server *s);
void tenant_keys_close(server *s);

/* Keys are needed: there are some, or were. */
bool tenant_keys_needed(const server *s);
/* The tenant of a key of the store; 0 = it is none. */
uint64_t tenant_keys_tenant(server *s, view key);
/* Take the new keys, if they changed: s->keys_changed then, until the connections are closed whose
 * key was revoked.  Cheap when nothing changed. */
void tenant_keys_refresh(server *s);
/* The entry of a tenant, NULL without memory for it. */
tenant_state *tenant_keys_entry(server *s, uint64_t tenant_id);

#endif
