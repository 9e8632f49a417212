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
#define GGUF_FILE_BYTES_MAX    (UINT64_C(1) << 44) /* that a header alone may promise */
#define GGUF_ALIGNMENT_MIN     8u          /* the format's own rule */
#define GGUF_ALIGNMENT_MAX     65536u
#define GGUF_ALIGNMENT         32u /* when general.alignment is absent */
#define GGUF_TENSOR_VALUES_MAX (UINT64_C(1) << 48)

#define SAFETENSORS_MAX        (1u << 18)  /* tensors of one file; known: 20,000 in all files */
#define SAFETENSORS_HEADER_MAX (100u << 20) /* the format's own rule */
#define CONVERT_TEXT_BYTES_MAX (256u << 20) /* one JSON file; known: 30 MB */

_Static_assert((GGUF_ALIGNMENT & (GGUF_ALIGNMENT - 1)) == 0, "alignments are powers of two");
_Static_assert(GGUF_TENSORS_MAX <= UINT32_MAX / 4, "hash tables index tensors by uint32_t");
_Static_assert(GGUF_VALUES_MAX <= UINT32_MAX / 4, "hash tables index keys by uint32_t");

/* ---- tokenizer ---- */

#define TOKENIZER_TOKENS_MAX      (1u << 22) /* of one vocabulary: known ones have 32 k to 260 k */
#define TOKENIZER_TOKEN_BYTES_MAX 4096u      /* text of one token in the file; known: 1024 */
#define TOKENIZER_TEXT_BYTES_MAX  (1u << 28) /* one text to encode; scratch is up to 40 times it */
#define TOKENIZER_PASSES_MAX      6u         /* expressions that one pre-tokenizer applies */

/* ---- grammars ---- */

#define GRAMMAR_TEXT_BYTES_MAX (1u << 20)  /* of one, as its author wrote it; known: 20 KB */
#define GRAMMAR_NESTING_MAX    128u        /* parentheses, schemas in schemas */
#define GRAMMAR_NODES_MAX      (1u << 20)  /* of its expressions */
#define GRAMMAR_RULES_MAX      (1u << 16)
#define GRAMMAR_STATES_MAX     (1u << 18)  /* of its automata, each; known schemas: 10,000 */
#define GRAMMAR_PARTS_MAX      (1u << 21)  /* edges of those; states before they are joined */
#define GRAMMAR_WORK_MAX       (UINT64_C(1) << 24) /* steps of compiling: 0.2 seconds */
#define GRAMMAR_REPEAT_MAX     100000u     /* n and m of {n,m}, minLength, maxItems, ... */
#define GRAMMAR_RESIDUES_MAX   4096u       /* multipleOf, in units of its last decimal place */
#define GRAMMAR_CONJUNCTS_MAX  32u         /* schemas that one value must fit at once */

/* What following a grammar takes, for each answer that runs. */
#define WALK_SETS_MAX    8192u      /* places in the text that are told apart at once */
#define WALK_PAIRS_MAX   65536u     /* readings of those */
#define WALK_ROWS_BYTES  (1u << 20) /* their next places, by byte */
#define WALK_DEPTH_MAX   1024u      /* rules in each other: about three for each level of JSON */
#define WALK_READINGS_MAX 4096u     /* of one place */

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
#define STREAM_IN_BYTES_MAX       65536u      /* read from a socket and not yet used up */
#define STREAM_PROGRESS_BYTES     4096u       /* that a slow reader takes in --stall-time */
#define SERVER_INPUT_BYTES_MAX    (256u << 20) /* of all bodies and messages on their way in */
#define SERVER_INPUT_FREE_BYTES   65536u      /* of one, which is taken even then */
#define SERVER_MESSAGES_A_TURN    16u         /* of one WebSocket, before the others have theirs */
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
#define SERVER_SESSIONS_PER_PLACE 4u          /* engine sessions; parked answers keep them */
#define SERVER_AGE_NS UINT64_C(1000000000)    /* of waiting, which is worth a class */
#define SERVER_PARKED_NS UINT64_C(2000000000) /* after which a parked answer may have to go */
#define SERVER_HISTORY_BYTES_MAX  (64u << 20) /* token logs of one tenant in memory */
#define SERVER_HISTORY_TURNS_MAX  1024u       /* and how many */
#define SERVER_GRAMMARS_MAX       32u         /* compiled schemas of requests that are kept */
#define SERVER_ID_BYTES           72u         /* room for an id of ours */
/* A request of so many bytes is read and made a prompt within the event loop, which takes up to 0.4
 * ms; most have a few hundred bytes, and for those the way to a thread would take longer. */
#define SERVER_INLINE_BYTES_MAX   (16u << 10)
#define SERVER_SMALL_BYTES_MAX    (256u << 10) /* and so many by the thread that has small ones */
#define SERVER_JOBS_MAX           4096u       /* that wait for one thread, */
#define SERVER_CLIENT_JOBS_MAX    1024u       /* and how many of them of one client */

_Static_assert(SERVER_PARK_BYTES < SERVER_OUT_BYTES_MAX, "readers are parked before dropped");
_Static_assert(SERVER_INLINE_BYTES_MAX < SERVER_SMALL_BYTES_MAX, "the loop does the least");
_Static_assert(SERVER_CLIENT_JOBS_MAX < SERVER_JOBS_MAX, "there is room for others");
_Static_assert(SERVER_HEADER_BYTES_MAX < STREAM_IN_BYTES_MAX, "a head has room");

/* ---- store ---- */

#define STORE_RESPONSE_BYTES_MAX (128u << 20) /* a response, its input and its tokens */
#define STORE_NAME_BYTES_MAX     1024u        /* an id, the name of a model */
#define STORE_RECORD_BYTES_MAX   (STORE_RESPONSE_BYTES_MAX + (1u << 20)) /* a row of SQLite's */
#define STORE_BUSY_MS_MAX        2000         /* wait for another process that writes */
#define STORE_CACHE_BYTES        (4u << 20)   /* pages that SQLite keeps */
#define STORE_LOG_BYTES          (64u << 20)  /* the write-ahead log is cut to it when empty */
#define STORE_FILE_BYTES         (1u << 30)   /* of responses in a file, where nobody says more */
#define STORE_MEMORY_BYTES       (4u << 20)   /* and in memory */

_Static_assert(STORE_RECORD_BYTES_MAX < 1000000000u, "SQLite's own limit");
_Static_assert(STORE_RECORD_BYTES_MAX - STORE_RESPONSE_BYTES_MAX > 8 * STORE_NAME_BYTES_MAX,
               "a row has its names too");

/* ---- keys, limits and usage ---- */

#define STORE_KEYS_MAX        4096u        /* keys of one store that are not revoked */
#define STORE_LABEL_BYTES_MAX 64u          /* name of a key; of a tier and an upstream: 32 */
#define LIVE_SERVERS_MAX      16u          /* servers that share a store */
#define LIVE_TENANTS_MAX      4096u        /* whose limits are counted at the same time */
#define LIVE_JOURNAL_MAX      4096u        /* requests of a server that wait to be metered */
#define LIVE_MODEL_BYTES      72u          /* room for the name of a model in one of them */
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
_Static_assert(LIVE_JOURNAL_MAX > SERVER_RUNNING_MAX, "what runs has room");

/* ---- KV cache ---- */

#define LOGITS_POPULATE_BYTES (8u << 20) /* of a pass: 64 rows of a vocabulary of 32 k */
#define KV_POPULATE_BYTES (64u << 20) /* of pages that get their memory at open: 20 ms at most */
#define KV_AHEAD_BYTES    (32u << 20) /* of those behind the last that was used, with theirs, too */
#define KV_BLOCKS_MAX     (1u << 26)  /* of pages, and of what is kept of them on disk */

/* ---- KV on disk ---- */

#define SEGMENT_RECORDS_MAX 4096u           /* blocks of one file */
#define KEPT_RECORDS_MAX    (1u << 18)      /* blocks of one model on disk; its files are fewer */
#define KEPT_SEGMENT_BYTES  (32u << 20)     /* of one file, or 8 blocks */
#define KEPT_FILES_SEEN_MAX 65536u          /* names of a folder that are looked at */
#define KEPT_BYTES_DEFAULT  (UINT64_C(4) << 30) /* of all files of one model */
#define KEPT_PATH_MAX       4096u           /* length of a name, with its folders */
#define KEPT_QUEUE_MAX      4096u           /* blocks that wait to be written */
#define KEPT_FETCHES_MAX    256u            /* beginnings that wait to be read */

_Static_assert(KEPT_RECORDS_MAX / SEGMENT_RECORDS_MAX >= 3, "there are files to choose from");
_Static_assert((KEPT_QUEUE_MAX & (KEPT_QUEUE_MAX - 1)) == 0, "a ring");
_Static_assert((KEPT_FETCHES_MAX & (KEPT_FETCHES_MAX - 1)) == 0, "a ring");

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
#define PROTOCOL_CHOICES_MAX      64u         /* `n` and `best_of`: rows of one pass */
#define PROTOCOL_FILES_MAX        1024u       /* input_extra of one infill request */
#define PROTOCOL_GUIDE_BYTES_MAX  (64u << 20) /* grammars of the tools of one request */
#define PROTOCOL_ANSWER_BYTES_MAX (64u << 20) /* one answer with all its bookkeeping */

_Static_assert(PROTOCOL_DEPTH_MAX < 2048, "jansson's own limit, which has no error of ours");
_Static_assert(PROTOCOL_PROMPTS_MAX * PROTOCOL_CHOICES_MAX <= INT32_MAX, "choices are counted");

/* ---- workspaces ---- */

#define WORKSPACE_TOKENS_MAX     (1u << 22)   /* of all files; the newest have room first: 64 MB */
#define WORKSPACE_FILES_MAX      65536u
#define WORKSPACE_FILE_BYTES_MAX (512u << 10) /* a longer one is data, or generated */
#define WORKSPACE_NAMES_MAX      (1u << 19)   /* that are looked at */
#define WORKSPACE_DEPTH_MAX      32u          /* folders in each other */
#define WORKSPACE_PATH_MAX       4096u        /* length of a path */

/* ---- what was answered before ---- */

#define RECALL_TENANTS_MAX 32u        /* whose answers are there, */
#define RECALL_TOKENS_MAX  (1u << 15) /* the newest so many of each: 640 KB once they are there */

/* ---- draft models ---- */

#define DRAFT_CONTEXT_MAX  4096u /* tokens of a timeline that a draft model looks at */
#define DRAFT_BATCH_TOKENS 128u  /* that it computes at once */
#define DRAFT_KV_PART      8u    /* of the model's KV pages, in bytes, for its own */

/* ---- the wafer ---- */

#define WAFER_MACHINE_BYTES_MAX (256u << 10) /* a machine description; ours have 4 KB */
#define WAFER_CONFIG_BYTES_MAX  (1u << 20)   /* a config.json; known: 40 KB */
#define WAFER_HEAD_BYTES_MAX   (256u << 20) /* of a model file whose weights are not there */
#define WAFER_ROWS_BYTES_MAX    (16u << 20)  /* a file of published figures */
#define WAFER_ROWS_MAX          65536u       /* and its rows */

/* ---- the watchdog ---- */

#define GUARD_RULES_MAX       1024u       /* rules of all files; the project's own are 300 */
#define GUARD_RULES_BYTES_MAX (4u << 20)  /* their strings, tests included */
#define GUARD_RULE_FILE_MAX   (1u << 20)  /* one file of them */
#define GUARD_LINE_BYTES_MAX  1024u       /* held back at most: a logical line */
#define GUARD_DEFERRED_BYTES  4096u       /* and from a line on that waits for a function */
#define GUARD_WINDOW_BYTES    8192u       /* of code that a verdict can see, the held line too */
#define GUARD_WINDOW_KEPT     4096u       /* of it that stays when it is full */
#define GUARD_DEPTH_MAX       96u         /* nesting of expressions and blocks that is followed */
#define GUARD_BRACKETS_MAX    128u        /* open brackets and strings that the lexer tells apart */
#define GUARD_PARSE_BYTES     (32u << 20)  /* that tree-sitter may take for one window */
#define GUARD_NODES_MAX       8192u       /* of the tree of one window */
#define GUARD_VARIABLES_MAX   256u        /* that one window's verdict follows */
#define GUARD_FINDINGS_MAX    64u         /* of one call; more are not told */

_Static_assert(GUARD_LINE_BYTES_MAX * 2 <= GUARD_WINDOW_KEPT, "the held line is always seen");
_Static_assert(GUARD_WINDOW_KEPT * 2 <= GUARD_WINDOW_BYTES, "a full window halves");

/* ---- edits ---- */

#define EDIT_FILE_BYTES_MAX (4u << 20) /* a file that is edited; the context is far shorter */
#define EDIT_BLOCKS_MAX     256u       /* search/replace blocks of one answer */
#define DIFF_BYTES_MAX      (16u << 20)
#define DIFF_LINES_MAX      (1u << 20)
#define DIFF_CHANGES_MAX    2000       /* lines that come and go: 16 MB of scratch */

/* Smaller heads than this stay in the caches, where reading less of them gains little. */
#define MODEL_SCREEN_BYTES_MIN ((size_t)8 << 20)

#endif
