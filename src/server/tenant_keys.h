/* tenant_keys.h - keys of the store, and their tenants. */
#ifndef SERVER_TENANT_KEYS_H
#define SERVER_TENANT_KEYS_H

#include "server/state.h"

/* Open the parts that servers share; the server's policy is set. */
CERIUM_CHECKED int tenant_keys_open(server *s, cerium_error *err);
/* Start polling keys and storing usage; needs an event loop to wake. */
CERIUM_CHECKED int tenant_keys_start(server *s, cerium_error *err);
void tenant_keys_stop(server *s);
void tenant_keys_close(server *s);

/* Are keys required?  Yes if there are, or were, any. */
bool tenant_keys_needed(const server *s);
/* The tenant of a key of the store; 0 = not a key. */
uint64_t tenant_keys_tenant(server *s, view key);
/* Load the new keys, if they changed: then s->keys_changed is set, until connections with revoked
 * keys are closed.  Cheap when nothing changed. */
void tenant_keys_refresh(server *s);
/* The entry of a tenant, NULL without memory for it. */
tenant_state *tenant_keys_entry(server *s, uint64_t tenant_id);

#endif
