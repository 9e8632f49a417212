/* metrics.h - counters, gauges and histograms of the server, and their Prometheus text.
 *
 * All of it is one struct of fixed size: counting never allocates or fails.  Only the event loop's
 * thread counts and reads.
 *
 * The text has our own names (cerium_*), and those that the Kubernetes Gateway API inference
 * extension and llm-d read from a model server, which are vLLM's (vllm:*); see the extension's
 * "Model Server Protocol", docs/proposals/003-model-server-protocol. */
#ifndef SERVER_METRICS_H
#define SERVER_METRICS_H

#include "base/base.h"
#include "base/memory.h"
#include "net/event_loop.h"

/* X(symbol, value, label): kinds of requests. */
#define METRICS_ROUTE_MAP(X)                                                                       \
    X(METRICS_RESPONSES, 0, "/v1/responses")                                                       \
    X(METRICS_RESPONSES_SOCKET, 1, "/v1/responses (websocket)")                                    \
    X(METRICS_STORED, 2, "/v1/responses/{id}")                                                     \
    X(METRICS_COMPACT, 3, "/v1/responses/compact")                                                 \
    X(METRICS_CHAT, 4, "/v1/chat/completions")                                                     \
    X(METRICS_COMPLETIONS, 5, "/v1/completions")                                                   \
    X(METRICS_INFILL, 6, "/infill")                                                                \
    X(METRICS_MODELS, 7, "/v1/models")                                                             \
    X(METRICS_HEALTH, 8, "/health")                                                                \
    X(METRICS_METRICS, 9, "/metrics")                                                              \
    X(METRICS_PAGE, 10, "/")                                                                       \
    X(METRICS_ANTHROPIC, 11, "/v1/messages")                                                       \
    X(METRICS_OLLAMA, 12, "/api")                                                                  \
    X(METRICS_COMPLETION, 13, "/completion")                                                       \
    X(METRICS_EMBEDDINGS, 14, "/v1/embeddings")                                                   \
    X(METRICS_OTHER, 15, "other")

#define METRICS_ROUTE_ENUM(symbol, value, label) symbol = value,
typedef enum { METRICS_ROUTE_MAP(METRICS_ROUTE_ENUM) METRICS_ROUTES = 16 } metrics_route;
#undef METRICS_ROUTE_ENUM

/* X(symbol, value, name, help): counted events. */
#define METRICS_COUNTER_MAP(X)                                                                     \
    X(METRICS_CONNECTIONS, 0, "connections", "Connections accepted.")                              \
    X(METRICS_CONNECTIONS_REFUSED, 1, "connections_refused", "Connections over a limit.")          \
    X(METRICS_SOCKETS, 2, "websockets", "WebSockets opened.")                                      \
    X(METRICS_MESSAGES, 3, "websocket_messages", "Messages received over WebSockets.")             \
    X(METRICS_EVENTS, 4, "events", "Events of streams sent.")                                      \
    X(METRICS_BYTES_IN, 5, "received_bytes", "Bytes of requests received.")                        \
    X(METRICS_BYTES_OUT, 6, "sent_bytes", "Bytes of answers sent.")                                \
    X(METRICS_CANCELED, 7, "canceled", "Answers that their client did not wait for.")              \
    X(METRICS_STALE, 8, "stale_completions", "Completions dropped for a newer one.")               \
    X(METRICS_FAILED, 9, "failed", "Answers that ended with a server error.")                      \
    X(METRICS_PARKED, 10, "parked_readers", "Streams that had to wait for their reader.")          \
    X(METRICS_STORE_FAILED, 11, "store_failures", "Responses that could not be stored or read.")   \
    X(METRICS_REPLAYED, 12, "replayed", "Answers taken from the replay script.")                   \
    X(METRICS_TIMED_OUT, 13, "timeouts", "Connections closed for being slow.")                     \
    X(METRICS_LIMITED, 14, "limited", "Requests refused by a limit of their tier.")         \
    X(METRICS_FORWARDED, 15, "forwarded", "Requests that an upstream answered.")                   \
    X(METRICS_UNSURE, 16, "unsure_completions", "Completions held back for low confidence.")       \
    X(METRICS_EVICTED, 17, "connections_evicted", "Idle connections closed to serve another.")     \
    X(METRICS_INPUT_REFUSED, 18, "input_refused", "Bodies and messages without room.")             \
    X(METRICS_STUCK, 19, "queue_stuck", "Seconds with a place free for what waits: a fault.") \
    X(METRICS_RESUMED, 20, "resumed_streams", "Streams of responses that were resumed.")

#define METRICS_COUNTER_ENUM(symbol, value, name, help) symbol = value,
typedef enum { METRICS_COUNTER_MAP(METRICS_COUNTER_ENUM) METRICS_COUNTERS = 21 } metrics_counter;
#undef METRICS_COUNTER_ENUM

typedef enum {
    METRICS_FIRST_TOKEN = 0,  /* from the request to its first token */
    METRICS_TOKEN_GAP = 1,    /* from one token to the next: the mean of an answer, per token */
    METRICS_QUEUE = 2,        /* from the request to its first pass */
    METRICS_PROMPT = 3,       /* from there until the whole prompt is computed */
    METRICS_ANSWER = 4,       /* from the request to its end */
    METRICS_HISTOGRAMS = 5,
} metrics_histogram;

enum { METRICS_KINDS = 64, METRICS_DEEDS = 7 }; /* of the watchdog: watch.h */
enum { METRICS_STATUSES = 24, METRICS_BUCKETS = 20 };

typedef struct {
    uint64_t buckets[METRICS_BUCKETS + 1]; /* not cumulative; the last one is +Inf */
    uint64_t n;
    double sum_s;
} metrics_times;

/* Tokens: of prompts, the cached ones of these, and generated ones. */
typedef struct {
    uint64_t prompt, reused, generated;
} metrics_used;
typedef enum {
    METRICS_HERE = 0,
    METRICS_UPSTREAM = 1, /* another server */
    METRICS_SERVED_BY = 2,
} metrics_served_by;

typedef struct {
    uint64_t counters[METRICS_COUNTERS];
    uint64_t requests[METRICS_ROUTES][METRICS_STATUSES];
    uint64_t answers[CERIUM_CLASSES];       /* metered requests */
    metrics_used used[METRICS_SERVED_BY];   /* their tokens */
    uint64_t ends[4]; /* stop, length, abort, error: vLLM's names */
    metrics_times times[METRICS_HISTOGRAMS];
    uint64_t guard_findings[METRICS_KINDS][METRICS_DEEDS]; /* by weakness and action */
    uint64_t guard_ns, guard_bytes, guard_lines, guard_discarded, guard_held; /* the most held */
    uint32_t connections_open, sockets_open, streams_open; /* gauges: the server sets them */
    uint64_t input_bytes, output_bytes; /* incoming; queued for readers */
    uint64_t recorded_bytes;            /* of events recorded to resume streams */
    net_turns turns;                    /* of the event loop */
} metrics;

static inline void metrics_count(metrics *m, metrics_counter which, uint64_t n)
{
    m->counters[which] += n;
}

/* A request was answered.  An unlisted status counts as "other". */
void metrics_request(metrics *m, metrics_route route, int http_status);

void metrics_time(metrics *m, metrics_histogram which, uint64_t ns, uint64_t n_times);

typedef enum {
    METRICS_END_STOP = 0,   /* the model ended, or a stop string occurred */
    METRICS_END_LENGTH = 1, /* a token limit or the context */
    METRICS_END_ABORT = 2,  /* canceled */
    METRICS_END_ERROR = 3,
} metrics_end;

/* A text of an answer of this engine ended: add its times to their histograms. */
void metrics_ended(metrics *m, metrics_end end, const cerium_usage *usage);
/* An answer was metered with this usage: the same numbers go to its client, the log and its key. */
void metrics_metered(metrics *m, cerium_class class_, metrics_served_by who,
                     const metrics_used *used);

typedef struct {
    const char *name;               /* its name in requests */
    bool is_loaded;
    uint64_t bytes, n_loads;        /* bytes when loaded; number of loads */
    cerium_engine_stats stats;
} metrics_model;

/* Sums over all engines, unless stated otherwise. */
typedef struct {
    const char *model;              /* the first one's name in requests */
    const metrics_model *models;    /* [n_models] for each alone */
    uint32_t n_models;
    uint64_t models_bytes_max;      /* bound of their memory */
    uint32_t page_tokens;           /* tokens of a KV page */
    uint64_t page_bytes;            /* bytes of a page, in layers without a window */
    uint32_t context_tokens_max;
    bool replay;                    /* a script determines the tokens */
    int64_t started_at;             /* seconds since 1970 */
    cerium_engine_stats stats;
    uint64_t store_bytes, store_responses, store_expired; /* of stored responses */
} metrics_engine;

/* The body of GET /metrics, text format 0.0.4; appends to *out, whose maximum is
 * METRICS_TEXT_BYTES_MAX (base/limits.h).  CERIUM_ERR_MEMORY, CERIUM_ERR_CAPACITY. */
CERIUM_CHECKED int metrics_text(bytes *out, const metrics *m, const metrics_engine *engine);
#define METRICS_CONTENT_TYPE "text/plain; version=0.0.4; charset=utf-8"

#endif
