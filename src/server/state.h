/* state.h - what the files of the server share: ownership and lifetimes.
 *
 *   server      one; owns all below, from server_open() to server_close()
 *   connection  one a TCP connection, from accept to close; carries HTTP exchanges one after
 *               another, or is upgraded to a WebSocket with lanes
 *   answer      one a request that samples, from its admission until its engine sessions are
 *               closed; it outlives its connection for as long as the engine needs to stop, and
 *               knows neither who hears it (sink.h) nor who speaks (source.h)
 *   choice      one a text of an answer (`n`, several prompts); owns one engine session while it
 *               runs
 *   turn        (history.h) the token log that a finished or interrupted answer leaves
 *
 * All of it belongs to the thread of server_run(), except the two atomics of struct server, and
 * what workers hold for a time: see prepare.h, answer_ending, intake.h. */
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
    const struct route *route;          /* NULL: none under way */
    http_method method;
    char path[SERVER_PATH_BYTES_MAX];   /* as asked, without arguments */
    char id[SERVER_ID_BYTES];           /* the {id} of the path, or "" */
    char request_id[SERVER_ID_BYTES];   /* x-request-id of the answer */
    char origin[256];                   /* allowed one that asked, or "" */
    bytes body;
    size_t body_counted;                /* bytes of it in server.input_bytes */
    bool is_whole;                      /* all of the request came */
    uint64_t started_ns;
    int status;                         /* that was answered; 0 = nothing yet */
    bool chunked;                       /* the answer streams in chunks (HTTP/1.1) */
    bool closes;                        /* the connection ends with the answer */
    bool done;                          /* everything of the answer is in out */
    char limits[RATES_HEADERS_BYTES + 64]; /* more lines of its head, or "" */
    char guard[256];                    /* x-cerium-guard of the request, or "" */
    job *job;                           /* that makes the answer; NULL: none does */
    solving *solving;                   /* solve_route.c; NULL: none runs */
    void (*leaves)(connection *c);      /* the exchange is over, or its client left; or NULL */
    pull_follow follows_pull;
    bool awaits_end;                    /* of the answer with this id: response_routes.c */
    bool awaits_deletion;               /* model_delete.c */
    recording *follows;                 /* recording.c: NULL: none; else */
    uint64_t followed;                  /* this many bytes of its events, */
    int64_t follow_number, follow_from; /* the next one's number; the first that is sent */
    const sink_type *follow_sink;
    connection *next_follower;
} exchange;

/* What a connection carries: HTTP exchanges (http.c), or a WebSocket (socket.c). */
typedef struct {
    bool (*input)(connection *c);        /* bytes came; true: call again for what is left */
    void (*ended)(connection *c);        /* the peer sends no more */
    void (*reads)(connection *c);        /* the reader took some of what waited for it */
    void (*sent)(connection *c);         /* nothing waits for it any more; or NULL */
    /* Once a second; returns what is late, so that the connection has to end, or NULL. */
    const char *(*tick)(connection *c, uint64_t now_ns);
    void (*drain)(connection *c);        /* the server ends: close when nothing runs; or NULL */
    bool (*is_idle)(const connection *c);
    bool is_cheap;                       /* it can be opened again at no cost */
    bool is_probe;                       /* without a key, TLS and a log: see probes.h */
    void (*gone)(connection *c);         /* the connection is over */
} connection_type;

/* What http.c hands requests to. */
typedef struct {
    const struct route *(*find)(http_method method, const char *path, char id[SERVER_ID_BYTES]);
    const struct route *(*find_probed)(http_method method, const char *path,
                                       char id[SERVER_ID_BYTES]); /* of probes.h */
    bool (*upgrade)(connection *c); /* to a WebSocket; true: read on */
} http_routes;

struct connection {
    server *s;
    const connection_type *type;
    stream io;
    http_reader *reader;        /* owned */
    connection *next, *previous;
    uint64_t serial;            /* 1, 2, 3, ... */
    uint64_t tenant;
    char key_prefix[KEY_PREFIX_BYTES + 1]; /* of the store's key that it came with, or "" */
    char peer[48];              /* address */
    uint64_t active_ns;         /* when it was last heard of */
    uint64_t deadline_ns;       /* of what it is to send us; 0 = none */
    uint64_t ended_ns;          /* when it said that it sends no more; 0 = it did not */
    bool has_parked;            /* an answer waits until it has read more */
    bool closing;               /* close once all is sent */
    bool gone;                  /* it is over: send nothing */
    exchange http;
    socket_state *socket;       /* NULL while it speaks HTTP */
    intake *intake;             /* requests that are being read: of a WebSocket in their order */
};

/* ---- answers ---- */

typedef enum {
    CHOICE_COMING = 0,  /* its answer is being prepared */
    CHOICE_WAITING = 1, /* for an engine session */
    CHOICE_RUNNING = 2,
    CHOICE_CLOSED = 3,  /* the session is closed, or never was */
} choice_state;

struct choice {
    answer *a;
    uint32_t index;
    choice_state state;
    bool ended;                 /* the writer has written the end */
    bool parked;                /* it waits for its reader, and holds no place meanwhile */
    uint64_t parked_ns;         /* since when */
    cerium_session *session;
    const int32_t *prompt;      /* [n_prompt] of the answer's */
    size_t n_prompt;
    cerium_resume begins;       /* its heal_prefix is the end of the prompt's text, if any */
    bytes sampled;              /* int32_t each; with a watch, at the end only */
    const int32_t *script;      /* [n_script] left of a recorded text; NULL: the model's own */
    size_t n_script, n_steps;   /* steps since it was started */
    int32_t *said;              /* owned: a script that is not the answer's, or NULL */
    cerium_usage before;        /* of what ran before it was started again */
    bool was_started_again;
    bool ends_thought;          /* it is stopped, to continue after its thought (restart.h) */
    uint32_t n_thought, n_thoughts; /* tokens of thoughts, and those that were ended */
    bytes unread;               /* where thoughts have a budget: what the watch holds back */
    struct answer_watchdog *watchdog; /* its watch; NULL: nothing watches */
    struct answer_digest *digest;     /* of its tokens; NULL: none is wanted, or not begun */
    infill_stop stop;                 /* where the text of infill ends */
    bytes unsure;               /* text that waits for its end, where min_confidence is asked */
    bool held_back;             /* and was not sent then */
    double logprob;             /* of its tokens, if wanted */
    uint64_t first_ns;          /* when the first token was polled; 0 = not yet */
    bool line_seen;             /* a line break was in the text */
    bytes show;                 /* of one step, what may be shown */
    cerium_usage usage;         /* at its end */
};

/* What an answer holds of its tenant's limits; all zero = nothing.  tenant_quota.c */
typedef struct {
    const tier *tier;
    uint32_t place;             /* live_place() */
    uint32_t rate;              /* tokens a minute when it began; 0 = no limit */
    uint64_t charged;           /* tokens taken then: of the prompt, and what it may answer */
    uint64_t start_ms;          /* predicted wait before it starts */
    bool deep;                  /* an upstream answers */
    bool refused;               /* by a limit of its tier */
    bool reserved, streaming;   /* a record, a stream */
    uint32_t counted;           /* requests a minute when one was taken; 0 = none was */
} tenant_quota;

struct upstream_state; /* source_upstream.c */

/* The last events of an answer, and what is kept of it.  While a thread makes them, it has the
 * answer's writer, request and choices, and nothing else touches those.  answers.c */
typedef struct {
    job job;
    bool is_away;               /* a thread has it */
    void (*on_end)(answer *a);  /* some connection asked for the answer as it will be; or NULL */
    choice *last;               /* that ended, */
    protocol_end how;
    protocol_usage usage;
    bool wants_body;
    int status;                 /* of the last events */
    bool kept;                  /* or need not be */
    bytes held;                 /* events that a thread made */
    bytes body;                 /* the whole answer, JSON, if wanted */
} answer_ending;

struct answer {
    server *s;
    answer *next, *previous;
    uint64_t round;             /* of looks, in which it was reached (look.h) */
    sink sink;                  /* who hears it, */
    const source_type *source;  /* and who speaks */
    served_model *model;        /* whose tokens it has */
    protocol_request *request;
    protocol_writer *writer;    /* writes it, in the form of its API */
    recording *recording;       /* of its events; NULL: they are not kept */
    char id[SERVER_ID_BYTES];
    size_t n_bytes;             /* of the request, as it came */
    uint64_t tenant;
    uint64_t serial;            /* of the connection that asked */
    char *document;             /* what it completes, or NULL */
    char client[64];            /* for whom: a newer one for both ends this one */
    bool begun;                 /* the client has the first event */
    bool warm_up;               /* the client had the end at the beginning */
    bool finished;              /* the client has the last event */
    bool dead;                  /* and all sessions are closed: to be freed */
    const char *canceled;       /* why it was; NULL: it was not */
    bool superseded;
    bool steered;               /* a steer waits for its end (steering.h), */
    uint32_t n_steered;         /* for this many tokens */
    choice *choices;            /* [n_choices] */
    uint32_t n_choices, n_ended, n_closed;
    int32_t **prompts;          /* [n_prompts] owned arrays */
    uint32_t n_prompts;
    int32_t *script, *prediction; /* [n_script], [n_prediction] owned, or NULL */
    size_t n_script, n_prediction;
    output_format format;       /* what the answer may be, owned; */
    preparation *prepare;       /* not NULL: it is in preparation, and no choice runs yet */
    watch_policy guard_policy;
    json_t *corrected;          /* of a replay, borrowed: texts in place of weak lines; or NULL */
    bool replayed;
    chain chain;                /* of the conversation up to the answer; zero = none */
    size_t n_head;
    uint64_t instructions;      /* hash of what came as instructions */
    int64_t created_at;         /* seconds since 1970 */
    uint64_t started_ns;
    uint64_t said_ns;           /* when the client was last sent something; at first, started_ns */
    uint32_t n_sent;            /* return_progress: tokens that were reported as done, and when; */
    uint64_t sent_ns;           /* UINT32_MAX: all were */
    bool failed;
    protocol_error failure;
    tenant_quota quota;
    struct upstream_state *upstream; /* of that source; or NULL */
    answer_ending ending;
};

/* Nothing more comes of it: its client has everything, or a thread makes the last of it. */
static inline bool answer_is_over(const answer *a) { return a->finished || a->ending.is_away; }
/* Has it a client, or does it run in the background? */
static inline bool answer_is_wanted(const answer *a)
{
    return !a->finished && (a->sink.c || (a->request->background && a->begun));
}
/* The client for fair turns: a key, or without keys a connection. */
static inline uint64_t client_of(uint64_t tenant, uint64_t serial)
{
    return tenant ? tenant : serial;
}
static inline bool answers_of_one_client(const answer *a, const answer *b)
{
    return a->tenant == b->tenant && (a->tenant || a->serial == b->serial);
}

/* The client does, or the likeliest of its answers are looked for, or unlikely ones held back. */
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
    served_model *models[SERVER_MODELS_MAX]; /* [n_models] owned; only what was deleted
                                                leaves the list: model_delete.h */
    _Atomic uint32_t n_models;
    uint64_t models_bytes_max;  /* that they may take together */
    void (*model_moved)(served_model *m);
    struct model_pull *pull;    /* a model that is being fetched, or was; NULL: none was */
    _Atomic uint64_t solves[SERVER_SOLVES_MAX]; /* whose each is; 0 = it is free */
    uint32_t n_solving;         /* processes that are spoken to */
    uint32_t n_deletions;       /* files of models that are being removed */
    bool model_moves;           /* one is being loaded or freed; */
    bool models_stay;           /* the server ends: none is from now on */
    bool names_count;           /* it was opened with several: names that none has are errors */
    net_loop loop;
    listeners listeners;
    listeners probes;           /* see probes.h; none where n is 0 */
    uint32_t n_probes;          /* connections, of n_connections */
    struct kv_publisher *publisher; /* of KV events; NULL: none */
    tls_context *tls;           /* NULL: plain */
    _Atomic bool woken;         /* by the engine: there is something to poll */
    uint64_t woken_ns;          /* when we last looked */
    _Atomic uint32_t stops;     /* how often server_stop() was called */
    bool leaving, draining;     /* it reports that it stops; and it accepts nothing new */
    bool leaving_was_cut;       /* by a second signal */
    uint64_t leaving_ends_ns, drain_ends_ns;
    replica replica;
    api_key *keys;              /* [n_keys] owned */
    size_t n_keys;
    tenants *tenants;           /* who asked */
    live *live;                 /* limits and metered requests */
    accounts_sync *sync;        /* NULL: no store to keep */
    struct upstreams *upstreams; /* NULL: none is configured */
    keyring *ring;              /* keys of the store; NULL: no store */
    bool keys_changed;          /* some connections may have come with one that was revoked */
    connection *connections;
    uint32_t n_connections, n_sockets;
    uint64_t n_serials;
    size_t input_bytes;         /* of bodies and messages on their way in */
    answer *answers;            /* newest first */
    recording *recordings;      /* newest first */
    uint32_t n_coming, n_waiting, n_running; /* choices; those that are parked do not run */
    bool no_session;            /* an engine had none for what waits */
    uint32_t n_waiting_of[SERVER_CLASSES], n_running_of[SERVER_CLASSES];
    uint64_t rounds[2], n_rounds; /* of looks at lower classes and at the best one (look.h) */
    uint64_t answer_ns;         /* how long answers take of late; 0 = none ended yet */
    uint32_t n_dead;            /* answers */
    grammar_cache *grammars;
    history *history;
    store *store;               /* of the thread of WORKERS_STORE, once the loop turns */
    replay *replay;             /* NULL: none */
    const http_routes *routes;
    lane *ready;                /* lanes whose next request can begin */
    workers *workers;
    bool turn_waits;            /* net_loop_later() was called for the engine's events, */
    uint64_t turn_due_ns;       /* for then */
    metrics metrics;
    int64_t started_at;
    demo *demo;
};

#endif
