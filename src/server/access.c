/* access.c - keys compared in constant time, origins, and the Host header.
 *
 * Without keys the server listens on loopback only, and then every web page that the user opens
 * could reach it.  So a request that names a foreign Origin is refused, and so is a Host that is
 * not loopback: a page whose name was made to point here (DNS rebinding) sends that name. */
#include "server/access.h"

#include <openssl/crypto.h>
#include <openssl/sha.h>

#include "server/tenant_keys.h"

bool access_is_loopback(view host)
{
    view name = host;
    if (view_equal(host, VIEW("::1"))) return true;
    if (name.len && name.ptr[0] == '[') {
        const char *end = memchr(name.ptr, ']', name.len);
        if (!end) return false;
        name = (view){name.ptr + 1, (size_t)(end - name.ptr) - 1};
    } else {
        const char *colon = memchr(name.ptr, ':', name.len);
        if (colon) name.len = (size_t)(colon - name.ptr);
    }
    const view local = VIEW("localhost"); /* any case: RFC 9110, 4.2.3 */
    if (name.len == local.len && !strncasecmp(name.ptr, local.ptr, local.len)) return true;
    if (view_equal(name, VIEW("::1"))) return true;
    if (!view_starts(name, VIEW("127."))) return false;
    for (size_t i = 0; i < name.len; i++)
        if ((name.ptr[i] < '0' || name.ptr[i] > '9') && name.ptr[i] != '.') return false;
    return true;
}

bool access_same_host(view origin, view host)
{
    static const view schemes[] = {{"http://", 7}, {"https://", 8}};
    for (size_t i = 0; i < ARRAY_LEN(schemes); i++)
        if (view_starts(origin, schemes[i])) {
            view rest = {origin.ptr + schemes[i].len, origin.len - schemes[i].len};
            return host.len && rest.len == host.len &&
                   strncasecmp(rest.ptr, host.ptr, host.len) == 0;
        }
    return false;
}

/* Windows of editors and of programs that are made of web pages. */
static const char *const editors[] = {"vscode-webview://*", "vscode-file://*", "app://*",
                                      "tauri://*", "chrome-extension://*"};

/* Pure, for tests: the values of --allow-origin and the origins that each admits: one, those of a
 * scheme (SCHEME://...), the names under a domain (https://...example.org), `editors`, or all. */
static bool access_origin_is_valid(const char *pattern)
{
    const char *host = strstr(pattern, "://");
    if (!strcmp(pattern, "*") || !strcmp(pattern, "editors")) return true;
    if (!host || host == pattern || !host[3]) return false;
    host += 3;
    if (!strcmp(host, "*")) return true;
    if (!strncmp(host, "*.", 2)) host += 2;
    return host[0] && !strpbrk(host, "*/ ");
}

static bool access_origin_fits(const char *pattern, const char *origin)
{
    const char *star = strchr(pattern, '*');
    const size_t n = star ? (size_t)(star - pattern) : 0, len = strlen(origin);
    if (!strcmp(pattern, "*")) return true;
    if (!strcmp(pattern, "editors")) {
        for (size_t i = 0; i < ARRAY_LEN(editors); i++)
            if (access_origin_fits(editors[i], origin)) return true;
        return false;
    }
    if (!star) return !strcasecmp(pattern, origin);
    const size_t tail = strlen(star + 1);
    return len > n + tail && !strncasecmp(pattern, origin, n) &&
           !strcasecmp(origin + len - tail, star + 1) && !strchr(origin + n, '/');
}

int access_open(server *s, cerium_error *err)
{
    const server_config *config = &s->config;
    const char *host = config->host ? config->host : "127.0.0.1";
    if (!config->n_keys && !tenant_keys_needed(s) && !access_is_loopback(view_of(host))) {
        RETURN_IF(listener_check_host(host, err));
        return error_set(err, CERIUM_ERR_ARGUMENT,
                         "listening on %s lets others in: give --api-key or --api-key-file, or "
                         "make a key with `cerium keys add`", host);
    }
    for (size_t i = 0; i < config->n_origins; i++)
        if (!access_origin_is_valid(config->origins[i]))
            return error_set(err, CERIUM_ERR_ARGUMENT,
                             "'%s' is not an origin: say it as https://host[:port], SCHEME://* or "
                             "https://*.example.org; editors for those of editors",
                             config->origins[i]);
    s->keys = memory_zalloc(config->n_keys ? config->n_keys : 1, sizeof *s->keys);
    if (!s->keys) return error_set(err, CERIUM_ERR_MEMORY, "no memory for the keys");
    for (size_t i = 0; i < config->n_keys; i++) {
        const char *key = config->keys[i];
        if (!*key || strlen(key) > SERVER_KEY_BYTES_MAX)
            return error_set(err, CERIUM_ERR_ARGUMENT, "an API key has 1 to %u bytes",
                             SERVER_KEY_BYTES_MAX);
        SHA256((const unsigned char *)key, strlen(key), s->keys[i].digest);
        /* The same key gets the same stored responses after a restart. */
        memcpy(&s->keys[i].tenant, s->keys[i].digest, sizeof s->keys[i].tenant);
        s->keys[i].tenant |= 1;
    }
    s->n_keys = config->n_keys;
    return CERIUM_OK;
}

void access_close(server *s)
{
    memory_free(s->keys);
    s->keys = NULL;
}

protocol_cache *access_cache(const connection *c)
{
    tenant_state *t = tenant_keys_entry(c->s, c->tenant);
    /* Without memory for the history, requests are still processed. */
    if (t && !t->cache && protocol_cache_open(&t->cache)) t->cache = NULL;
    return t ? t->cache : NULL;
}

/* All keys are compared even after a match, and all bytes of their digests. */
static bool key_is_known(const server *s, const char *key, uint64_t *tenant)
{
    unsigned char digest[32];
    uint64_t found = 0;
    SHA256((const unsigned char *)key, strlen(key), digest);
    for (size_t i = 0; i < s->n_keys; i++) {
        bool same = CRYPTO_memcmp(digest, s->keys[i].digest, sizeof digest) == 0;
        found |= s->keys[i].tenant & (0 - (uint64_t)same);
    }
    *tenant = found;
    return found != 0;
}

/* The key that a browser can send with a WebSocket: as a subprotocol "cerium.bearer.KEY". */
static void subprotocol_key(const connection *c, char *out, size_t cap)
{
    static const char prefix[] = "cerium.bearer.";
    char offered[3 * SERVER_KEY_BYTES_MAX + 64];
    http_reader_copy(c->reader, "sec-websocket-protocol", offered, sizeof offered);
    char *key = strstr(offered, prefix);
    if (!key) return;
    key += sizeof prefix - 1;
    key[strcspn(key, ", ")] = 0;
    if (http_decode(key, false)) snprintf(out, cap, "%s", key);
}

static int check_key(connection *c, protocol_error *e)
{
    char key[SERVER_KEY_BYTES_MAX + 16] = "";
    c->tenant = 0;
    c->key_prefix[0] = 0;
    tenant_keys_refresh(c->s);
    if (!tenant_keys_needed(c->s)) return CERIUM_OK;
    http_reader_copy(c->reader, "authorization", key, sizeof key);
    if (!strncasecmp(key, "Bearer ", 7))
        memmove(key, key + 7, strlen(key + 7) + 1);
    else if (!key[0])
        http_reader_copy(c->reader, "x-api-key", key, sizeof key);
    if (!key[0]) subprotocol_key(c, key, sizeof key);
    if (key[0] && key_is_known(c->s, key, &c->tenant)) return CERIUM_OK;
    if (key[0] && (c->tenant = tenant_keys_tenant(c->s, view_of(key)))) {
        (void)store_key_prefix(view_of(key), c->key_prefix);
        return CERIUM_OK;
    }
    return protocol_error_set(e, 401, "invalid_request_error", "invalid_api_key", "",
                              key[0] ? "the API key is not known"
                                     : "send an API key: Authorization: Bearer KEY");
}

static int check_origin(connection *c, const char *host, protocol_error *e)
{
    char origin[sizeof c->http.origin];
    if (!http_reader_field(c->reader, "origin")) return CERIUM_OK;
    http_reader_copy(c->reader, "origin", origin, sizeof origin);
    if (access_same_host(view_of(origin), view_of(host))) return CERIUM_OK;
    for (size_t i = 0; i < c->s->config.n_origins; i++) {
        if (!access_origin_fits(c->s->config.origins[i], origin)) continue;
        memcpy(c->http.origin, origin, sizeof origin);
        return CERIUM_OK;
    }
    return protocol_error_set(e, 403, "invalid_request_error", "origin_not_allowed", "",
                              "pages of this origin may not connect; see --allow-origin");
}

/* For --allow-host: names of a proxy in front of us.  The port after the name is ignored. */
static bool host_is_allowed(const server *s, const char *host)
{
    for (size_t i = 0; i < s->config.n_hosts; i++) {
        const size_t n = strlen(s->config.hosts[i]);
        if (!strncasecmp(host, s->config.hosts[i], n) && (!host[n] || host[n] == ':')) return true;
    }
    return false;
}

int access_check(connection *c, bool open, protocol_error *e)
{
    const char *host = http_reader_host(c->reader);
    if (c->type->is_probe) return check_origin(c, host, e);
    if (!tenant_keys_needed(c->s) && !access_is_loopback(view_of(host)) && host[0] &&
        !host_is_allowed(c->s, host))
        return protocol_error_set(e, 403, "invalid_request_error", "host_not_allowed", "",
                                  "without --api-key this server is called 127.0.0.1 or "
                                  "localhost; see --allow-host");
    RETURN_IF(check_origin(c, host, e));
    return open ? CERIUM_OK : check_key(c, e);
}
