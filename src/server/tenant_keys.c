/* tenant_keys.c - keys and tenants on the event loop, and the thread that updates them. */
#include "server/tenant_keys.h"

#include "server/wake.h"

/* ---- opening ---- */

int tenant_keys_open(server *s, cerium_error *err)
{
    char path[4096] = "";
    const char *store_name = store_file(s->store); /* the same for all names of it */
    if (tenants_open(&s->tenants)) return error_set(err, CERIUM_ERR_MEMORY, "no memory for keys");
    bool kept = store_name != NULL;
    if (kept && (size_t)snprintf(path, sizeof path, "%s-live", store_name) >= sizeof path)
        return error_set(err, CERIUM_ERR_ARGUMENT, "%s: the path is too long", store_name);
    RETURN_IF(live_open(&s->live, kept ? path : NULL, err));
    if (!kept) return CERIUM_OK;
    RETURN_IF(accounts_sync_open(&s->sync, store_name, s->live, err));
    accounts_sync_bound(s->sync, s->config.store_bytes_max, s->config.store_days);
    s->ring = accounts_sync_take(s->sync);
    return CERIUM_OK;
}

int tenant_keys_start(server *s, cerium_error *err)
{
    return s->sync ? accounts_sync_start(s->sync, wake_to_look, s, err) : CERIUM_OK;
}

void tenant_keys_stop(server *s) { accounts_sync_close(&s->sync); }

void tenant_keys_close(server *s)
{
    keyring_free(&s->ring);
    tenants_close(&s->tenants);
    live_close(&s->live);
}

/* ---- keys ---- */

bool tenant_keys_needed(const server *s) { return s->n_keys || (s->ring && s->ring->n); }

uint64_t tenant_keys_tenant(server *s, view text)
{
    const store_key *key = s->ring ? keyring_find(s->ring, text) : NULL;
    return key ? store_key_tenant(key) : 0;
}

tenant_state *tenant_keys_entry(server *s, uint64_t tenant_id)
{
    return tenants_get(s->tenants, tenant_id, s->ring, s->config.policy);
}

void tenant_keys_refresh(server *s)
{
    keyring *ring = s->sync ? accounts_sync_take(s->sync) : NULL;
    if (!ring) return;
    keyring_free(&s->ring);
    s->ring = ring;
    tenants_forget(s->tenants);
    s->keys_changed = true;
}
