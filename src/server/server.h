/* server.h - the server: an engine behind HTTP/1.1 and WebSocket on one port.
 *
 * One thread, that of server_run(), owns the sockets, the answers and the store; the engine's own
 * threads compute and wake it.  docs/server.md describes the routes. */
#ifndef SERVER_SERVER_H
#define SERVER_SERVER_H

#include "base/base.h"
#include "base/limits.h"
#include "protocol/next_edit.h"
#include "watch/watch.h"

typedef struct server server;

/* * One of several models.  Strings are borrowed until server_open() returns. */
typedef struct {
    const char *path;
    const char *const *names;    /* [n_names] its names in requests; none: its own name */
    uint32_t n_names;
    bool is_first;               /* engine_config's options for one model apply to this one */
    bool is_named;               /* its file was named: if it cannot be read the server does not
                                  * start */
} server_model;

/* * A model that can be pulled: docs/decisions/0066. */
enum { SERVER_PULL_PATH_MAX = 4096, SERVER_OFFERS_MAX = 64 };
typedef struct {
    char name[SERVER_ID_BYTES];
    uint64_t size_bytes, memory_bytes; /* approximate: of its file; of weights and one whole
                                        * context */
    bool chats;
    bool is_here;                /* its file is on this machine */
} server_offer;

typedef struct {
    void (*progress)(void *user, uint64_t done_bytes, uint64_t total_bytes); /* total 0: unknown */
    bool (*canceled)(void *user); /* polled about once a second */
    void *user;
} server_pull_hooks;

/* * Pulls models; called on a thread of the server. */
typedef struct {
    uint32_t (*offers)(server_offer *out, uint32_t n_max);
    int (*pull)(const char *name, const server_pull_hooks *hooks, char path[SERVER_PULL_PATH_MAX],
                cerium_error *err);
    /* Remove the file of a pulled model; really false: only check whether that is allowed.
     * CERIUM_ERR_ARGUMENT: it is not; CERIUM_ERR_IO. */
    int (*remove)(const char *path, bool really, cerium_error *err);
    const char *refusal;         /* why pulls are refused; NULL: every client may pull */
} server_pulls;

/* * The configuration of a server.  Strings are borrowed until server_close(). */
typedef struct {
    cerium_engine *engine;       /* borrowed; opened for at least running_max sessions; NULL: serve
                                    only the models below */
    const server_model *models;  /* [n_models] loaded on request */
    size_t n_models;
    const cerium_engine_config *engine_config; /* their configuration, for as many sessions;
                                                  borrowed, like engine; NULL only without such
                                                  models */
    uint64_t models_bytes_max;   /* memory of all models; 0 = the available memory */
    const char *model_path;      /* for the log */
    const char *model_id;        /* the model's name in requests; NULL = the engine's name */
    const char *host;            /* address to listen on; NULL = 127.0.0.1 */
    uint32_t port;               /* 0 = any free port; see server_port() */
    const char *metrics_listen;  /* "ADDRESS:PORT" of /metrics and /health without a key; or NULL */
    struct kv_events *kv_pages;  /* the KV events of engines (kv_events.h), borrowed; with */
    const char *kv_events, *kv_events_replay; /* "ADDRESS:PORT" where they are published; or NULL */
    const char *kv_events_pod;   /* "HOST:PORT" of this server in topics; NULL = replica and port */
    const char *replica;         /* name among several equal servers; NULL = the machine's name */
    const char *tls_cert, *tls_key; /* PEM files, or both NULL */
    const char *const *keys;     /* [n_keys] API keys; without any, every client is admitted */
    size_t n_keys;
    const char *const *origins;  /* [n_origins] allowed web pages beside our own */
    size_t n_origins;
    const char *const *hosts;    /* [n_hosts] more Host names for requests without keys */
    size_t n_hosts;
    const char *store_path;      /* stored responses; NULL = in memory only */
    uint64_t store_bytes_max;    /* their bound, the oldest are removed first; 0 = STORE_FILE_BYTES,
                                    or STORE_MEMORY_BYTES (base/limits.h) */
    uint32_t store_days;         /* older ones are removed; 0 = never */
    bool solves;                 /* POST /v1/solve runs code from clients, in a sandbox that is
                                    strict here, by this process's program */
    const char *replay_path;     /* recorded answers, or NULL */
    uint32_t running_max;        /* answers that run concurrently */
    uint32_t queue_max;          /* answers that wait; then 429 */
    uint32_t connections_max;
    uint64_t input_bytes_max;    /* of all incoming bodies and messages */
    uint32_t header_s, body_s;   /* time to send the headers; a whole body */
    uint32_t idle_s;             /* an HTTP connection without a request */
    uint32_t stall_s;            /* a reader that takes nothing of its queued output */
    uint32_t keep_alive_s;       /* interval of keepalives on silent streams; 0 = never */
    uint32_t socket_s;           /* age at which a WebSocket takes no more messages */
    uint32_t lame_duck_s;        /* after SIGTERM, while it only reports that it stops */
    uint32_t drain_s;            /* after that, for answers to end */
    cerium_sampling sampling;    /* if a request does not give it; stops are ignored here */
    double confidence_min;       /* fill-in completions less probable are not shown; below 0: as the
                                    model's file asks, and none for recorded answers */
    next_edit_form edit_form;    /* of all models; NEXT_EDIT_NONE: by their names */
    bool log_prompts;            /* clients' text is logged, too */
    bool quiet;                  /* only warnings and errors are logged */
    const guard *guard;          /* NULL: no watchdog; borrowed, with */
    exists *names;               /* of the workspace, or NULL; borrowed */
    guard_worker *guard_worker;  /* the thread's of server_run() */
    bool guard_ends;             /* an answer that a weak line ends is incomplete */
    watch_policy guard_policy;   /* unless a key or a request says otherwise */
    const server_pulls *pulls;   /* NULL: no models are offered */
    const struct policy *policy; /* tiers, prices, upstreams; NULL = policy_defaults() */
    const char *demo;            /* first complete this over a WebSocket of our own, text to
                                    standard output; NULL = no */
} server_config;

/** Set every field to its documented default. */
void server_config_defaults(server_config *config);

/** Open the store, bind the port and listen.
 *
 * @param out  returns owned; release with server_close()
 * @retval CERIUM_ERR_ARGUMENT  a host that is not loopback without keys, a bad origin
 * @retval CERIUM_ERR_IO        the port, the store, a certificate or the script
 * Connections are served once server_run() is called. */
CERIUM_CHECKED int server_open(server **out, const server_config *config, cerium_error *err);

/** Serve until server_stop().  CERIUM_ERR_IO when the event loop fails. */
CERIUM_CHECKED int server_run(server *s, cerium_error *err);

/* * First call: report for lame_duck_s that it ends, then take no more requests, let answers end,
 * and return from server_run().  Each further call skips the current wait.  Callable from any
 * thread and from signal handlers. */
void server_stop(server *s);

/* * The port it listens on. */
uint32_t server_port(const server *s);

/** Accepts NULL and pointers to NULL. */
void server_close(server **s);

#endif
