/* limits.h - every maximum that input from outside meets, in one place.
 *
 * Each stands well above what real files and clients need, and bounds what a broken or hostile
 * one can make us allocate. */
#ifndef BASE_LIMITS_H
#define BASE_LIMITS_H

#include <stdint.h>

/* ---- model files ---- */

#define GGUF_VALUES_MAX        65536u      /* metadata keys of one file */
#define GGUF_TENSORS_MAX       65536u      /* tensors of a whole split set */
#define GGUF_KEY_BYTES_MAX     256u        /* length of a metadata key */
#define GGUF_NAME_BYTES_MAX    256u        /* length of a tensor's name */
#define GGUF_STRING_BYTES_MAX  (16u << 20) /* one string value: chat templates are ~10 KB */
#define GGUF_ITEMS_MAX         (16u << 20) /* items of one array: vocabularies are ~200,000 */
#define GGUF_SPLITS_MAX        1024u       /* files of a split set */
#define GGUF_ALIGNMENT_MIN     8u          /* the format's own rule */
#define GGUF_ALIGNMENT_MAX     65536u
#define GGUF_ALIGNMENT         32u /* when general.alignment is absent */
#define GGUF_TENSOR_VALUES_MAX (UINT64_C(1) << 48)

_Static_assert((GGUF_ALIGNMENT & (GGUF_ALIGNMENT - 1)) == 0, "alignments are powers of two");
_Static_assert(GGUF_TENSORS_MAX <= UINT32_MAX / 4, "hash tables index tensors by uint32_t");
_Static_assert(GGUF_VALUES_MAX <= UINT32_MAX / 4, "hash tables index keys by uint32_t");

/* ---- tokenizer ---- */

#define TOKENIZER_TOKENS_MAX      (1u << 22) /* of one vocabulary: known ones have 32 k to 260 k */
#define TOKENIZER_TOKEN_BYTES_MAX 4096u      /* text of one token in the file; known: 1024 */
#define TOKENIZER_TEXT_BYTES_MAX  (1u << 28) /* one text to encode; scratch is up to 40 times it */
#define TOKENIZER_PASSES_MAX      6u         /* expressions that one pre-tokenizer applies */

/* ---- what a model answers ---- */

#define READER_NAME_BYTES_MAX   256u       /* name of a tool that is called: the API allows 64 */
#define READER_HEADER_BYTES_MAX 1024u      /* between two marks of a message's header */
#define READER_HELD_BYTES_MAX   (1u << 20) /* of a call, before it is certain to be one */
#define READER_JSON_DEPTH_MAX   512u       /* arrays and objects in each other */

_Static_assert(READER_JSON_DEPTH_MAX % 64 == 0, "one bit a level");
_Static_assert(TOKENIZER_TOKENS_MAX <= INT32_MAX / 2, "ids are int32_t, and symbols come on top");
_Static_assert((uint64_t)TOKENIZER_TEXT_BYTES_MAX * 2 <= UINT32_MAX, "positions are uint32_t");

/* ---- the server's connections ---- */

#define SERVER_HEADER_BYTES_MAX   16384u      /* headers of one request; Codex sends 3 KB */
#define SERVER_PATH_BYTES_MAX     512u        /* of a request's path */
#define SERVER_READ_BYTES         16384u      /* taken from a socket at once */
#define SERVER_WRITE_BYTES_MAX    (256u << 10) /* given to a socket at once: one event, one write */
#define SERVER_OUT_BYTES_MAX      (96u << 20) /* waiting for one slow reader; then it is dropped */
#define SERVER_PARK_BYTES         (256u << 10) /* waiting for one reader before its answers pause */
#define SERVER_UNSENT_BYTES_MAX   (64u << 10) /* of one reader with the kernel, not yet sent */
#define SERVER_LANES_MAX          16u         /* lanes of one WebSocket with something in flight */
#define SERVER_PENDING_MAX        64u         /* messages of one WebSocket that wait their turn */
#define SERVER_KEYS_MAX           1024u       /* API keys */
#define SERVER_KEY_BYTES_MAX      512u        /* length of one */
#define SERVER_ORIGINS_MAX        64u         /* allowed origins */
#define SERVER_RUNNING_MAX        256u        /* answers that run at once */
#define SERVER_QUEUE_MAX          4096u       /* answers that wait for one of those */
#define SERVER_HISTORY_BYTES_MAX  (64u << 20) /* token logs of one tenant in memory */
#define SERVER_HISTORY_TURNS_MAX  4096u       /* and how many */
#define SERVER_ID_BYTES           72u         /* room for an id of ours */

_Static_assert(SERVER_PARK_BYTES < SERVER_OUT_BYTES_MAX, "readers are parked before dropped");

/* ---- store ---- */

#define STORE_RESPONSE_BYTES_MAX (128u << 20) /* a response, its input and its tokens */
#define STORE_NAME_BYTES_MAX     1024u        /* an id, the name of a model */
#define STORE_RECORD_BYTES_MAX   (STORE_RESPONSE_BYTES_MAX + (1u << 20)) /* a row of SQLite's */
#define STORE_BUSY_MS_MAX        2000         /* wait for another process that writes */
#define STORE_CACHE_BYTES        (4u << 20)   /* pages that SQLite keeps */
#define STORE_LOG_BYTES          (64u << 20)  /* the write-ahead log is cut to it when empty */

_Static_assert(STORE_RECORD_BYTES_MAX < 1000000000u, "SQLite's own limit");
_Static_assert(STORE_RECORD_BYTES_MAX - STORE_RESPONSE_BYTES_MAX > 8 * STORE_NAME_BYTES_MAX,
               "a row has its names too");

/* ---- KV cache ---- */

#define LOGITS_POPULATE_BYTES (8u << 20) /* of a pass: 64 rows of a vocabulary of 32 k */
#define KV_POPULATE_BYTES (64u << 20) /* of pages that get their memory at open: 20 ms at most */

/* ---- server ---- */

#define METRICS_TEXT_BYTES_MAX  (256u << 10) /* the whole of GET /metrics */
#define METRICS_LABEL_BYTES_MAX 256u         /* of a name that a label shows */
#define REPLAY_BYTES_MAX        (64u << 20)  /* a replay script */
#define REPLAY_LINES_MAX        65536u

/* ---- requests ---- */

#define PROTOCOL_BODY_BYTES_MAX   (32u << 20) /* one body or WebSocket message; known: a few MB */
#define PROTOCOL_DEPTH_MAX        128u        /* nesting of its JSON; schemas of tools: about 20 */
#define PROTOCOL_VALUES_MAX       (1u << 20)  /* values in it: a whole context as token ids */
#define PROTOCOL_CONTAINERS_MAX   (1u << 17)  /* objects and arrays: they take the memory */
#define PROTOCOL_MESSAGES_MAX     (1u << 16)  /* messages of one conversation */
#define PROTOCOL_TOOLS_MAX        1024u       /* tools, those in namespaces counted each */
#define PROTOCOL_CACHED_MAX       32u         /* sets of tools that are kept read */
#define PROTOCOL_CACHED_BYTES_MAX (256u << 10) /* one of them, as JSON; known: 20 KB */
#define PROTOCOL_NAME_BYTES_MAX   256u        /* of a tool, a namespace, an id of a call */
#define PROTOCOL_PROMPTS_MAX      64u         /* of one completion request */
#define PROTOCOL_CHOICES_MAX      16u         /* `n` */
#define PROTOCOL_FILES_MAX        1024u       /* input_extra of one infill request */
#define PROTOCOL_ANSWER_BYTES_MAX (64u << 20) /* one answer with all its bookkeeping */

_Static_assert(PROTOCOL_DEPTH_MAX < 2048, "jansson's own limit, which has no error of ours");
_Static_assert(PROTOCOL_PROMPTS_MAX * PROTOCOL_CHOICES_MAX <= INT32_MAX, "choices are counted");

/* ---- the wafer ---- */

#define WAFER_MACHINE_BYTES_MAX (256u << 10) /* a machine description; ours have 4 KB */
#define WAFER_CONFIG_BYTES_MAX  (1u << 20)   /* a config.json; known: 40 KB */
#define WAFER_ROWS_BYTES_MAX    (16u << 20)  /* a file of published figures */
#define WAFER_ROWS_MAX          65536u       /* and its rows */

/* Smaller heads than this stay in the caches, where reading less of them gains little. */
#define MODEL_SCREEN_BYTES_MIN ((size_t)8 << 20)

#endif
