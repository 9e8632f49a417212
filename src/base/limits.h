/* limits.h - maxima of outside input in the server and below it: connections, requests, the store;
 * other folders have theirs at the top of their headers.
 *
 * Each is well above what real files and clients need, and bounds what a broken or hostile one can
 * allocate. */
#ifndef BASE_LIMITS_H
#define BASE_LIMITS_H

#include <stdint.h>

/* ---- vocabularies, for all readers ---- */

#define TOKENIZER_TOKEN_BYTES_MAX 4096u      /* text of one token in the file; known: 1024 */

/* ---- the server's connections ---- */

#define SERVER_HEADER_BYTES_MAX   16384u      /* headers of one request; Codex sends 3 KB */
#define SERVER_PATH_BYTES_MAX     512u        /* of a request's path */
#define STREAM_IN_BYTES_MAX       65536u      /* read from a socket and not yet used up */
#define STREAM_PROGRESS_BYTES     4096u       /* that a slow reader must take in --stall-time */
#define SERVER_INPUT_BYTES_MAX    (256u << 20) /* of all incoming bodies and messages */
#define SERVER_INPUT_FREE_BYTES   65536u      /* of one, which is accepted even then */
#define SERVER_MESSAGES_A_TURN    16u         /* of one WebSocket, before others are served */
#define SERVER_OUT_BYTES_MAX      (96u << 20) /* waiting for one slow reader; then it is dropped */
#define SERVER_PARK_BYTES         (256u << 10) /* waiting for one reader before its answers pause */
#define SERVER_UNSENT_BYTES_MAX   (64u << 10) /* of one reader in the kernel, not yet sent */
#define SERVER_LANES_MAX          16u         /* lanes of one WebSocket with something in flight */
#define SERVER_PENDING_MAX        64u         /* messages of one WebSocket that wait their turn */
#define SERVER_KEYS_MAX           1024u       /* API keys */
#define SERVER_KEY_BYTES_MAX      512u        /* length of one */
#define SERVER_ORIGINS_MAX        64u         /* allowed origins */
#define SERVER_RUNNING_MAX        256u        /* running answers at once */
#define SERVER_QUEUE_MAX          4096u       /* waiting answers */
#define SERVER_SESSIONS_PER_PLACE 4u          /* engine sessions; parked answers keep them */
#define SERVER_AGE_NS UINT64_C(1000000000)    /* waiting time that raises the priority by one
                                                 class */
#define SERVER_PARKED_NS UINT64_C(2000000000) /* after which a parked answer may be dropped */
#define SERVER_HISTORY_BYTES_MAX  (64u << 20) /* token logs of one tenant in memory */
#define SERVER_HISTORY_TURNS_MAX  1024u       /* and how many */
#define SERVER_MODELS_MAX         64u         /* models of one server */
#define SERVER_SOLVES_MAX         2u          /* POST /v1/solve that run at the same time */
#define SERVER_MODEL_NAMES_MAX    8u          /* names of one model */
#define SERVER_GRAMMARS_MAX       32u         /* compiled schemas of requests that are kept */
#define SERVER_ID_BYTES           72u         /* buffer for a generated id */
/* A request up to this size is parsed and rendered as a prompt on the event loop, which takes up to
 * 0.4 ms. Most have a few hundred bytes; handing those to a thread would take longer. */
#define SERVER_INLINE_BYTES_MAX   (16u << 10)
#define SERVER_SMALL_BYTES_MAX    (256u << 10) /* up to this size: the thread for small requests */
#define SERVER_JOBS_MAX           4096u       /* waiting for one thread */
#define SERVER_CLIENT_JOBS_MAX    1024u       /* of those, from one client */

_Static_assert(SERVER_PARK_BYTES < SERVER_OUT_BYTES_MAX, "readers are parked before dropped");
_Static_assert(SERVER_INLINE_BYTES_MAX < SERVER_SMALL_BYTES_MAX, "the loop takes the smallest");
_Static_assert(SERVER_CLIENT_JOBS_MAX < SERVER_JOBS_MAX, "one client cannot fill the queue");
_Static_assert(SERVER_HEADER_BYTES_MAX < STREAM_IN_BYTES_MAX, "a request head fits");

/* ---- store ---- */

#define STORE_RESPONSE_BYTES_MAX (128u << 20) /* a response, its input and its tokens */
#define STORE_NAME_BYTES_MAX     1024u        /* an id, the name of a model */
#define STORE_RECORD_BYTES_MAX   (STORE_RESPONSE_BYTES_MAX + (1u << 20)) /* a row of SQLite's */
#define STORE_BUSY_MS_MAX        2000         /* wait for another process that writes */
#define STORE_CACHE_BYTES        (4u << 20)   /* pages that SQLite keeps */
#define STORE_LOG_BYTES          (64u << 20) /* the write-ahead log is truncated to it when empty */
#define STORE_FILE_BYTES         (1u << 30)   /* of responses in a file, by default */
#define STORE_MEMORY_BYTES       (4u << 20)   /* and in memory */

_Static_assert(STORE_RECORD_BYTES_MAX < 1000000000u, "SQLite's own limit");
_Static_assert(STORE_RECORD_BYTES_MAX - STORE_RESPONSE_BYTES_MAX > 8 * STORE_NAME_BYTES_MAX,
               "a row has its names too");

/* ---- keys, limits and usage ---- */

#define STORE_KEYS_MAX        4096u        /* unrevoked keys of one store */
#define STORE_LABEL_BYTES_MAX 64u          /* name of a key; of a tier and an upstream: 32 */
#define LIVE_SERVERS_MAX      16u          /* servers that share a store */
#define LIVE_TENANTS_MAX      4096u        /* with counted limits at the same time */
#define LIVE_JOURNAL_MAX      4096u        /* requests of a server that wait to be metered */
#define LIVE_MODEL_BYTES      72u          /* buffer for a model's name in one of them */
#define POLICY_BYTES_MAX      (1u << 20)   /* a configuration file */
#define POLICY_LINE_BYTES_MAX 190u         /* libinih cuts longer ones in two */
#define POLICY_SETTINGS_MAX   128u         /* lines of its [server] */
#define POLICY_TIERS_MAX      32u
#define POLICY_UPSTREAMS_MAX  16u
#define POLICY_NAMES_MAX      32u          /* models or efforts of one upstream */
#define POLICY_NAME_BYTES_MAX 32u
#define RATES_MAX       1000000000u  /* requests or tokens a minute */

_Static_assert((LIVE_TENANTS_MAX & (LIVE_TENANTS_MAX - 1)) == 0, "found by a hash");
_Static_assert((LIVE_JOURNAL_MAX & (LIVE_JOURNAL_MAX - 1)) == 0, "a ring");
_Static_assert(LIVE_JOURNAL_MAX > SERVER_RUNNING_MAX, "running answers fit");

/* ---- server ---- */

#define METRICS_TEXT_BYTES_MAX  (256u << 10) /* the whole of GET /metrics */
#define METRICS_LABEL_BYTES_MAX 256u         /* of a name in a label */
#define REPLAY_BYTES_MAX        (64u << 20)  /* a replay script */
#define REPLAY_LINES_MAX        65536u

/* ---- requests ---- */

#define PROTOCOL_BODY_BYTES_MAX   (32u << 20) /* one body or WebSocket message; known: a few MB */
#define PROTOCOL_DEPTH_MAX        128u        /* nesting of its JSON; schemas of tools: about 20 */
#define PROTOCOL_VALUES_MAX       (1u << 20)  /* values in it: a whole context as token ids */
#define PROTOCOL_CONTAINERS_MAX   (1u << 17)  /* objects and arrays: they take the memory */
#define PROTOCOL_MESSAGES_MAX     (1u << 16)  /* messages of one conversation */
#define PROTOCOL_TOOLS_MAX        1024u       /* tools, those in namespaces counted each */
#define PROTOCOL_CACHED_MAX       32u         /* sets of tools that are kept parsed */
#define PROTOCOL_CACHED_BYTES_MAX (256u << 10) /* one of them, as JSON; known: 20 KB */
#define PROTOCOL_NAME_BYTES_MAX   256u        /* of a tool, a namespace, an id of a call */
#define PROTOCOL_PROMPTS_MAX      64u         /* of one completion request */
#define PROTOCOL_EMBEDDED_MAX     2048u       /* texts of one request for embeddings */
#define PROTOCOL_CHOICES_MAX      64u         /* `n` and `best_of`: rows of one pass */
#define PROTOCOL_CANDIDATES_MAX   6u          /* `candidates` of a hole */
#define PROTOCOL_FILES_MAX        1024u       /* input_extra of one infill request */
#define PROTOCOL_GUIDE_BYTES_MAX  (64u << 20) /* grammars of the tools of one request */
#define PROTOCOL_ANSWER_BYTES_MAX (64u << 20) /* one answer with all its state */

_Static_assert(PROTOCOL_DEPTH_MAX < 2048, "below jansson's own limit, so that the error is ours");
_Static_assert(PROTOCOL_PROMPTS_MAX * PROTOCOL_CHOICES_MAX <= INT32_MAX, "choices are counted");

#endif
