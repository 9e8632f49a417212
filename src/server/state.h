/* state.h - what the files of the server share: ownership and lifetimes.
 *
 *   server      one; owns all below, from server_open() to server_close()
 *   connection  one a TCP connection, from accept to close; carries HTTP exchanges one after
 *               another, or is upgraded to a WebSocket with lanes
 *   answer      one a request that samples, from its admission until its engine sessions are
 *               closed; it outlives its connection for as long as the engine needs to stop, and
 *               depends neither on its output (sink.h) nor on its producer (source.h)
 *   choice      one a text of an answer (`n`, several prompts); owns one engine session while it
 *               runs
 *   turn  (history.h) the token log of a finished or interrupted answer
 *
 * All of it belongs to the thread of server_run(), except the two atomics of struct server, and
 * data that workers own for a time: see prepare.h, answer_ending, intake.h. */
#ifndef SERVER_STATE_H
#define SERVER_STATE_H

#include <stdatomic.h>

#include <jansson.h>

#include "net/http1.h"
#include "net/listener.h"
#include "net/tcp_stream.h"
#include "protocol/infill_stop.h"
#include "protocol/protocol.h"
#include "server/accounts_sync.h"
#include "server/history.h"
#include "server/log.h"
#include "server/metrics.h"
#include "server/output_format.h"
#include "server/rates.h"
#include "server/replica.h"
#include "server/replay.h"
#include "server/served_model.h"
#include "server/server.h"
#include "server/sink.h"
#include "server/source.h"
#include "server/tenants.h"
#include "server/workers.h"
#include "store/live.h"
#include "store/store.h"

typedef struct socket_state socket_state;
typedef struct demo demo;
typedef struct intake intake;
typedef struct preparation preparation;
typedef struct recording recording;
typedef struct solving solving;

/* ---- connections ---- */

/* Does the answer report the fetch of a model? */
typedef enum {
    PULL_FOLLOWS_NOT = 0,
    PULL_FOLLOWS_LINES = 1, /* in lines, from now on */
    PULL_FOLLOWS_END = 2,   /* its end */
} pull_follow;

/* One HTTP request and its answer. */
typedef struct {
    const struct route *route;          /* NULL: none is running */
    http_method method;
    char path[SERVER_PATH_BYTES_MAX];   /* as requested, without arguments */
    char id[SERVER_ID_BYTES];           /* the {id} of the path, or "" */
    char request_id[SERVER_ID_BYTES];   /* x-request-id of the answer */
    char origin[256];                   /* an allowed origin, or "" */
    bytes body;
    size_t body_counted;                /* bytes of it in server.input_bytes */
    bool is_whole;                      /* the whole request was received */
    uint64_t started_ns;
    int status;                         /* of the answer; 0 = not answered yet */
    bool chunked;                       /* the answer streams in chunks (HTTP/1.1) */
    bool is_lines;                      /* its stream is JSON Lines, not events */
    bool closes;                        /* the connection ends after the answer */
    bool done;                          /* all of the answer is in out */
    char limits[RATES_HEADERS_BYTES + 64]; /* more header lines, or "" */
    char guard[256];                    /* x-cerium-guard of the request, or "" */
    job *job;                           /* the running answer; NULL: none */
    solving *solving;                   /* solve_route.c; NULL: none is running */
    void (*leaves)(connection *c);      /* called when the exchange is over, or its client left; or
                                         * NULL */
    pull_follow follows_pull;
    bool awaits_end;                    /* of the answer with this id: response_routes.c */
    bool awaits_deletion;               /* model_delete.c */
    recording *follows;                 /* recording.c: NULL: none; else */
    uint64_t followed;                  /* bytes already sent of its events, */
    int64_t follow_number, follow_from; /* the next one's number; the first one to send */
    const sink_type *follow_sink;
    connection *next_follower;
} exchange;

/* The protocol on a connection: HTTP exchanges (http.c), or a WebSocket (socket.c). */
typedef struct {
    bool (*input)(connection *c);        /* bytes arrived; true: call again for the rest */
    void (*ended)(connection *c);        /* the peer sends no more */
    void (*reads)(connection *c);        /* the reader took some of the queue */
    void (*sent)(connection *c);         /* the queue is empty; or NULL */
    /* Once a second; returns the reason if it is late and the connection must end, or NULL. */
    const char *(*tick)(connection *c, uint64_t now_ns);
    void (*drain)(connection *c);        /* the server ends: close when idle; or NULL */
    bool (*is_idle)(const connection *c);
    bool is_cheap;                       /* can be closed and opened again at no cost */
    bool is_probe;                       /* without a key, TLS and a log: see probes.h */
    void (*gone)(connection *c);         /* the connection is over */
} connection_type;

/* The receiver of http.c's requests. */
typedef struct {
    const struct route *(*find)(http_method method, const char *path, char id[SERVER_ID_BYTES]);
    const struct route *(*find_probed)(http_method method, const char *path,
                                       char id[SERVER_ID_BYTES]); /* of probes.h */
    bool (*upgrade)(connection *c); /* upgrade to a WebSocket; true: read on */
} http_routes;

struct connection {
    server *s;
    const connection_type *type;
    stream io;
    http_reader *reader;        /* owned */
    connection *next, *previous;
    uint64_t serial;            /* 1, 2, 3, ... */
    uint64_t tenant;
    char key_prefix[KEY_PREFIX_BYTES + 1]; /* the store's key of its request, or "" */
    char peer[48];              /* address */
    uint64_t active_ns;         /* when bytes last arrived */
    uint64_t deadline_ns;       /* for the bytes that we expect; 0 = none */
    bool has_ended;             /* its peer sends no more */
    bool has_parked;            /* an answer waits for its reader */
    bool closing;               /* close when all is sent */
    bool gone;                  /* it is over: send no more */
    exchange http;
    socket_state *socket;       /* NULL while it speaks HTTP */
    intake *intake;             /* requests being parsed: of a WebSocket in their order */
};

/* ---- answers ---- */

typedef enum {
    CHOICE_COMING = 0,  /* its answer is in preparation */
    CHOICE_WAITING = 1, /* for an engine session */
    CHOICE_RUNNING = 2,
    CHOICE_CLOSED = 3,  /* the session is closed, or never was */
} choice_state;

struct choice {
    answer *a;
    uint32_t index;
    choice_state state;
    bool ended;                 /* the writer has written the end */
    bool parked;                /* it waits for its reader, without a place */
    uint64_t parked_ns;         /* since when */
    cerium_session *session;
    const int32_t *prompt;      /* [n_prompt] of the answer's */
    size_t n_prompt;
    cerium_resume begins;       /* its heal_prefix is the end of the prompt's text, if any; avoid:
                                   of candidates */
    bytes sampled;              /* int32_t each; with a watch, only at the end */
    const int32_t *script;      /* [n_script] rest of a recorded text; NULL: the model's own text */
    size_t n_script, n_steps;   /* steps since its start */
    int32_t *own_script;        /* owned: a script that differs from the answer's, or NULL */
    cerium_usage before;        /* usage before its last restart */
    bool was_started_again;
    bool ends_thought;          /* it is stopped, to continue after its thought (restart.h) */
    uint32_t n_thought, n_thoughts; /* tokens of thoughts, and number of ended ones */
    bytes unread;               /* with a budget of thoughts: bytes that the watch holds back */
    struct answer_watchdog *watchdog; /* its watch; NULL: none */
    struct answer_digest *digest;     /* of its tokens; NULL: not requested, or not begun */
    infill_stop stop;                 /* where the text of infill ends */
    bytes unsure;               /* text held until its end, with min_confidence */
    bool held_back;             /* and dropped then */
    double logprob;             /* of its tokens, if requested */
    uint64_t first_ns;          /* when the first token was polled; 0 = not yet */
    bool line_seen;             /* the text has a line break */
    bytes show;                 /* of one step, the part that may be shown */
    cerium_usage usage;         /* at its end */
};

/* An answer's share of its tenant's limits; all zero = none.  tenant_quota.c */
typedef struct {
    const tier *tier;
    uint32_t place;             /* live_place() */
    uint32_t rate;              /* tokens a minute at its beginning; 0 = no limit */
    uint64_t charged;           /* tokens taken then: of the prompt, and of the possible answer */
    uint64_t start_ms;          /* predicted wait before it starts */
    bool deep;                  /* an upstream answers */
    bool refused;               /* limited by its tier */
    bool reserved, streaming;   /* a record, a stream */
    uint32_t counted;           /* requests a minute when one was taken; 0 = none was taken */
} tenant_quota;

struct upstream_state; /* source_upstream.c */

/* The last events of an answer, and its stored form.  While a thread makes them, it owns the
 * answer's writer, request and choices, and nothing else touches these.  answers.c */
typedef struct {
    job job;
    bool is_away;               /* a thread has it */
    void (*on_end)(answer *a);  /* a connection requested the answer's final state; or NULL */
    choice *last;               /* choices that ended, */
    protocol_end how;
    protocol_usage usage;
    bool wants_body;
    int status;                 /* of the last events */
    bool kept;                  /* or need not be made */
    bytes held;                 /* events that a thread made */
    bytes body;                 /* the whole answer, JSON, if requested */
} answer_ending;

struct answer {
    server *s;
    answer *next, *previous;
    uint64_t round;             /* number of the last look that reached it (look.h) */
    sink sink;                  /* its output, */
    const source_type *source;  /* and its producer */
    served_model *model;        /* model of its tokens */
    protocol_request *request;
    protocol_writer *writer;    /* writes it, in the form of its API */
    recording *recording;       /* of its events; NULL: not recorded */
    char id[SERVER_ID_BYTES];
    size_t n_bytes;             /* of the request, as received */
    uint64_t tenant;
    uint64_t serial;            /* of the requesting connection */
    char *document;             /* the document that it completes, or NULL */
    char client[64];            /* and its client: a newer answer for both ends this one */
    bool begun;                 /* the client has the first event */
    bool warm_up;               /* the client got the end at the beginning */
    bool finished;              /* the client has the last event */
    bool dead;                  /* and all sessions are closed: it can be freed */
    const char *canceled;       /* the reason; NULL: it was not */
    bool superseded;
    bool steered;               /* a steer waits for its end (steering.h), */
    uint32_t n_steered;         /* for this many tokens */
    choice *choices;            /* [n_choices] */
    uint32_t n_choices, n_ended, n_closed;
    struct candidates *candidates; /* the first choice's tokens, for the others; or NULL */
    int32_t **prompts;          /* [n_prompts] owned arrays */
    uint32_t n_prompts;
    int32_t *script, *prediction; /* [n_script], [n_prediction] owned, or NULL */
    size_t n_script, n_prediction;
    output_format format;       /* the grammar of the answer, owned; */
    preparation *prepare;       /* not NULL: it is in preparation, and no choice runs yet */
    watch_policy guard_policy;
    json_t *corrected;          /* of a replay, borrowed: texts in place of weak lines; or NULL */
    bool replayed;
    chain chain;                /* of the conversation before the answer; zero = none */
    size_t n_head;
    uint64_t instructions;      /* hash of the instructions */
    int64_t created_at;         /* seconds since 1970 */
    uint64_t started_ns;
    uint64_t quiet_since_ns;    /* when the client was last sent something; at first, started_ns */
    uint32_t n_sent;            /* return_progress: tokens reported as done, and when; */
    uint64_t sent_ns;           /* UINT32_MAX: all were */
    bool failed;
    protocol_error failure;
    tenant_quota quota;
    struct upstream_state *upstream; /* of that source; or NULL */
    answer_ending ending;
};

/* Will it have no more events?  Its client has everything, or a thread makes the last ones. */
static inline bool answer_is_over(const answer *a) { return a->finished || a->ending.is_away; }
/* Has it a client, or does it run in the background? */
static inline bool answer_is_wanted(const answer *a)
{
    return !a->finished && (a->sink.c || (a->request->background && a->begun));
}
/* The client for fair scheduling: a key, or without keys a connection. */
static inline uint64_t client_of(uint64_t tenant, uint64_t serial)
{
    return tenant ? tenant : serial;
}
static inline bool answers_of_one_client(const answer *a, const answer *b)
{
    return a->tenant == b->tenant && (a->tenant || a->serial == b->serial);
}

/* Are log-probabilities needed?  For the client, to find the likeliest of several, or to hold back
 * unlikely text. */
static inline bool answer_wants_logprobs(const protocol_request *r)
{
    return r->sampling.logprobs || r->n_best < r->n_choices || r->confidence_min > 0;
}

/* ---- the server ---- */

enum { SERVER_CLASSES = CERIUM_CLASSES };

typedef struct {
    unsigned char digest[32];   /* SHA-256 */
    uint64_t tenant;
} api_key;

struct server {
    server_config config;
    served_model *models[SERVER_MODELS_MAX]; /* [n_models] owned; only deleted ones leave the list:
                                                model_delete.h */
    _Atomic uint32_t n_models;
    uint64_t models_bytes_max;  /* bound of their memory */
    void (*model_moved)(served_model *m);
    struct model_pull *pull;    /* the current or last pulled model; NULL: none */
    _Atomic uint64_t solves[SERVER_SOLVES_MAX]; /* the owner of each; 0 = it is free */
    uint32_t n_solving;         /* running solve processes */
    uint32_t n_deletions;       /* model files being removed */
    bool model_moves;           /* a model is being loaded or freed; */
    bool models_stay;           /* the server ends: no load begins */
    bool names_count;           /* opened with several models: unknown names are errors */
    net_loop loop;
    listeners listeners;
    listeners probes;           /* see probes.h; empty if n is 0 */
    uint32_t n_probes;          /* connections, of n_connections */
    struct kv_publisher *publisher; /* of KV events; NULL: none */
    tls_context *tls;           /* NULL: plain */
    _Atomic bool woken;         /* by the engine: it has events */
    uint64_t woken_ns;          /* the time of the last look */
    _Atomic uint32_t stops;     /* how often server_stop() was called */
    bool leaving, draining;     /* it reports that it stops; and accepts no more */
    bool leaving_was_cut;       /* by a second signal */
    uint64_t leaving_ends_ns, drain_ends_ns;
    replica replica;
    api_key *keys;              /* [n_keys] owned */
    size_t n_keys;
    tenants *tenants;           /* the active tenants */
    live *live;                 /* limits and metered requests */
    accounts_sync *sync;        /* NULL: no store to update */
    struct upstreams *upstreams; /* NULL: none is configured */
    keyring *ring;              /* keys of the store; NULL: no store */
    bool keys_changed;          /* connections with revoked keys may exist */
    connection *connections;
    uint32_t n_connections, n_sockets;
    uint64_t n_serials;
    size_t input_bytes;         /* of incoming bodies and messages */
    answer *answers;            /* newest first */
    recording *recordings;      /* newest first */
    uint32_t n_coming, n_waiting, n_running; /* choices; parked ones do not run */
    bool no_session;            /* an engine had none for a waiting choice */
    uint32_t n_waiting_of[SERVER_CLASSES], n_running_of[SERVER_CLASSES];
    uint64_t rounds[2], n_rounds; /* of the last looks at lower classes and at the best one
                                   * (look.h) */
    uint64_t answer_ns;         /* recent duration of answers; 0 = none ended yet */
    uint32_t n_dead;            /* answers */
    grammar_cache *grammars;
    history *history;
    store *store;               /* of the thread of WORKERS_STORE, once the loop turns */
    replay *replay;             /* NULL: none */
    const http_routes *routes;
    lane *ready;                /* lanes that can begin their next request */
    workers *workers;
    bool turn_waits;            /* net_loop_later() was called for the engine's events, */
    uint64_t turn_due_ns;       /* for then */
    metrics metrics;
    int64_t started_at;
    demo *demo;
};

#endif
