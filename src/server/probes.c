/* probes.c - the listener of probes.
 *
 * A scraper polls many times a second and has no key; a health check must get through when all
 * connections are taken.  So these connections are counted separately, and logged only on
 * errors. */
#include "server/probes.h"

#include <unistd.h>

#include "server/connection.h"
#include "server/http.h"

enum { PROBES_MAX = 32 /* concurrent connections; not counting clients' */ };

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
    if (!s->config.metrics_listen) return CERIUM_OK;
    RETURN_IF(listeners_open_at(&s->probes, &s->loop, "--metrics-listen", s->config.metrics_listen,
                                on_accepted, on_full, s, err));
    log_event(LOG_INFO, "metrics", "url=http://%.*s:%u/metrics",
              (int)(strrchr(s->config.metrics_listen, ':') - s->config.metrics_listen),
              s->config.metrics_listen, s->probes.port);
    return CERIUM_OK;
}
