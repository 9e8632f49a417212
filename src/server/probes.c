/* probes.c - the listener of probes.
 *
 * A scraper asks many times a second and has no key; a health check must get through when all
 * connections are taken.  So their connections count apart, and are not logged when all is well. */
#include "server/probes.h"

#include <unistd.h>

#include "server/connection.h"
#include "server/http.h"

enum {
    PROBES_MAX = 32, /* connections at once; beside those of clients */
    PROBES_HOST_BYTES = 256,
};

/* "127.0.0.1:9383", "[::1]:9383"; host: without brackets.  False for anything else. */
static bool read_place(const char *text, char host[PROBES_HOST_BYTES], uint32_t *port)
{
    const char *colon = strrchr(text, ':');
    view name = {text, colon ? (size_t)(colon - text) : 0};
    uint64_t n;
    if (name.len > 2 && *text == '[' && colon[-1] == ']')
        name = (view){text + 1, name.len - 2};
    else if (name.len && memchr(name.ptr, ':', name.len))
        return false;
    if (!name.len || name.len >= PROBES_HOST_BYTES || memchr(name.ptr, ']', name.len))
        return false;
    if (!parse_u64(view_of(colon + 1), &n) || n > 65535) return false;
    memcpy(host, name.ptr, name.len);
    host[name.len] = 0;
    *port = (uint32_t)n;
    return true;
}

static void on_accepted(void *user, int fd, const char *peer)
{
    server *s = user;
    if (s->n_probes < PROBES_MAX)
        connection_open(s, fd, peer, &http_probe);
    else
        close(fd);
}

static bool on_full(void *user) { return connections_evict(user); }

int probes_open(server *s, cerium_error *err)
{
    char host[PROBES_HOST_BYTES], option[PROBES_HOST_BYTES + 32];
    const char *place = s->config.metrics_listen;
    uint32_t port;
    if (!place) return CERIUM_OK;
    if (!read_place(place, host, &port))
        return error_set(err, CERIUM_ERR_ARGUMENT, "--metrics-listen '%s': say an address and a "
                         "port, as in 127.0.0.1:9383 or [::1]:9383", place);
    snprintf(option, sizeof option, "--metrics-listen %.*s", (int)(strrchr(place, ':') + 1 - place),
             place);
    RETURN_IF(listeners_open(&s->probes, &s->loop, option, host, port, on_accepted, on_full, s,
                             err));
    log_event(LOG_INFO, "metrics", "url=http://%s%s%s:%u/metrics", strchr(host, ':') ? "[" : "",
              host, strchr(host, ':') ? "]" : "", s->probes.port);
    return CERIUM_OK;
}
