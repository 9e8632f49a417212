/* cerium.h - run code language models with low latency.
 *
 *   cerium_engine_config config;
 *   cerium_engine_config_defaults(&config);
 *   config.model_path = "model.gguf";
 *
 *   cerium_error err;
 *   cerium_engine *engine;
 *   cerium_session *session;
 *   if (cerium_engine_open(&engine, &config, &err)) fail(err.message);
 *   if (cerium_session_open(&session, engine, NULL, &err)) fail(err.message);
 *   if (cerium_session_sync(session, prompt, n_prompt, NULL, &err)) fail(err.message);
 *   cerium_step step = {0};
 *   while (step.stop == CERIUM_STOP_NONE && !cerium_session_step(session, NULL, &step, &err))
 *       fwrite(step.text, 1, step.text_len, stdout);
 *   cerium_session_close(&session);
 *   cerium_engine_close(&engine);
 *
 * Objects.  An engine is one loaded model: immutable, shared by all threads.  A session is one
 * token timeline with its KV cache, logits and sampler: used by one thread at a time, except
 * cerium_session_cancel().  Callers hold whole prompts; the session finds what it can reuse.
 *
 * Errors.  Functions that return int return 0 or a negative cerium_status, leave their outputs
 * untouched on error, and fill *err when err is not NULL: one line that says what, where, and
 * what to do.
 *
 * Ownership.  Inputs are borrowed until the call returns.  Pointers returned from a session stay
 * valid until the next call on that session; those returned from an engine, until it is closed.
 *
 * Memory.  *_open, fork, start, guide and resume may allocate, and the first step whose sampling
 * has a pointer; each says CERIUM_ERR_MEMORY.  A step of a session that runs allocates nothing.
 *
 * Growth.  Structs of facts and counts that the library fills, and those that begin with their
 * size, grow at their ends alone: calls get their size from the caller's compiler, and read and
 * write nothing beyond it; fields unknown to an older caller have their defaults.  All other
 * structs are fixed within a 0.minor version, which is part of the shared library's name
 * (libcerium.so.0.1), so a program never loads a library with different ones. */
#ifndef CERIUM_H
#define CERIUM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define CERIUM_API __attribute__((visibility("default")))
#define CERIUM_CHECKED __attribute__((warn_unused_result))

#define CERIUM_VERSION_MAJOR 0
#define CERIUM_VERSION_MINOR 1
#define CERIUM_VERSION_PATCH 0
#define CERIUM_VERSION_TEXT_(x) #x
#define CERIUM_VERSION_OF_(a, b, c)                                                                \
    CERIUM_VERSION_TEXT_(a) "." CERIUM_VERSION_TEXT_(b) "." CERIUM_VERSION_TEXT_(c)
#define CERIUM_VERSION                                                                             \
    CERIUM_VERSION_OF_(CERIUM_VERSION_MAJOR, CERIUM_VERSION_MINOR, CERIUM_VERSION_PATCH)

#define CERIUM_STEP_TOKENS_MAX 64 /* one step may accept a whole draft */
#define CERIUM_STOPS_MAX       16 /* stop strings of one session */
#define CERIUM_STOP_BYTES_MAX  256 /* length of one stop string */
#define CERIUM_AVOID_MAX       64  /* tokens that an answer may not begin with */
#define CERIUM_HEAL_PREFIX_MAX 256 /* bytes that an answer may have to begin with */
#define CERIUM_DIGEST_BYTES    16  /* of an answer's digest */

/* ---- status and errors ---- */

/* X(symbol, value, text): one table for code, name, docs and tests. */
#define CERIUM_STATUS_MAP(X)                                                                       \
    X(CERIUM_OK, 0, "ok")                                                                          \
    X(CERIUM_ERR_ARGUMENT, -1, "argument out of range")                                            \
    X(CERIUM_ERR_MEMORY, -2, "out of memory")                                                      \
    X(CERIUM_ERR_IO, -3, "file or socket error")                                                   \
    X(CERIUM_ERR_FORMAT, -4, "malformed or unsupported input")                                     \
    X(CERIUM_ERR_CAPACITY, -5, "a configured limit was reached")                                   \
    X(CERIUM_ERR_CANCELED, -6, "canceled by the caller")                                           \
    X(CERIUM_ERR_NUMBERS, -7, "the model computed values that are not numbers: its file is damaged")

#define CERIUM_STATUS_ENUM(symbol, value, text) symbol = value,
typedef enum { CERIUM_STATUS_MAP(CERIUM_STATUS_ENUM) } cerium_status;
#undef CERIUM_STATUS_ENUM

typedef struct {
    int status;        /* cerium_status */
    char message[508]; /* one line: what, where, what to do; NUL-terminated */
} cerium_error;

/** Version of the library in use, for example "0.1.0". Never NULL. Thread-safe. */
CERIUM_API const char *cerium_version(void);

/** Text for a status; "unknown status" for a value not in CERIUM_STATUS_MAP. Thread-safe. */
CERIUM_API const char *cerium_status_text(int status);

/* ---- engine: one loaded model ---- */

typedef struct cerium_engine cerium_engine;
typedef struct cerium_session cerium_session;

/* * The inputs of a weight matrix, for collecting statistics. */
typedef struct {
    const char *tensor; /* [tensor_len] name of the weights in the file */
    size_t tensor_len;
    uint32_t matrix;    /* which expert of the tensor; 0 of others */
    const float *input; /* [n] of one token, from column `first` of n_columns; valid during the
                           call.  Of one token and matrix, pieces come in order */
    uint32_t first, n, n_columns;
} cerium_observation;

/** A full page of computed KV that others find by its tokens and by what is before it. */
typedef struct {
    uint64_t name, before;       /* of it and of the page before it, which has one: */
    bool has_before;
    uint64_t tenant;             /* whose sessions find it */
    const int32_t *tokens;       /* [n_tokens] */
    uint32_t n_tokens;
} cerium_kv_page;

/** Hears which pages there are: called on any thread and under a lock, so that it returns at once
 * and calls nothing of this library. */
typedef struct {
    void (*stored)(void *user, const cerium_kv_page *page);
    void (*removed)(void *user, uint64_t name);
    void (*cleared)(void *user); /* the engine is closed: all of them are gone */
} cerium_kv_watcher;

/** What cerium_engine_open() needs to know. Set by cerium_engine_config_defaults(). */
typedef struct {
    size_t size;                 /* of the caller's struct: set with the defaults, left alone */
    const char *model_path;      /* GGUF file, or the first of a split set; required */
    uint32_t threads;            /* compute threads; 0 = one for each physical core we may use, at
                                    most as many as a limit of processor time (cgroup) feeds */
    uint32_t sessions_max;       /* sessions open at once, 1..1024; default 8 */
    uint32_t context_tokens_max; /* of one session; 0 = what the model was trained for */
    uint32_t batch_tokens_max;   /* prompt tokens in one pass, 1..2048; default 256 */
    uint64_t kv_bytes_max;       /* KV pages of all sessions and of the prefix cache; 0 = what the
                                    sessions can hold, at most an eighth of the memory; never less
                                    than one whole context */
    const char *cpu;             /* lowers the instruction set: "ref", "avx2", "avx512vnni", "amx",
                                    on Arm "ref", "neon", "neondot"; NULL = CERIUM_CPU in the
                                    environment, else the best */
    void (*progress)(void *user, uint64_t done_bytes, uint64_t total_bytes); /* while loading */
    void *progress_user;
    const char *kv_type;         /* what keys and values are kept in: "i8", "f16", or "f32", slow,
                                    to check numbers; NULL = CERIUM_KV in the environment, else
                                    "i8", and "f16" for heads of more than 128 channels */
    const char *cache;           /* where repacked weights are kept, so that the next start maps
                                    them: a folder, or "off"; NULL = CERIUM_CACHE in the
                                    environment, else beside the model or, where that cannot be
                                    written, in the user's cache folder, from 64 MB on */
    void (*notice)(void *user, const char *line); /* a warning, one line; while opening, and later
                                    on any thread when something happens to KV on disk */
    void *notice_user;
    const char *head;            /* the output head: "full" computes every logit of every step;
                                    "search" proves which tokens cannot win and leaves their logits
                                    out, with the same tokens; "auto" is "search" for heads of 8 MiB
                                    or more in a wide type, and computes of others in 8 bits only to
                                    8 bits what cannot win, and leaves it out; a narrower type of
                                    tensor ("q6_k", "q4_w") changes the logits; NULL = CERIUM_HEAD
                                    in the environment, else "auto" */
    const char *kv_disk;         /* a folder where computed KV, and states of recurrent layers,
                                    survive a restart, in a folder of this model's own, for us
                                    alone to read; "off"; NULL = CERIUM_KV_DISK in the environment,
                                    else "off" */
    uint64_t kv_disk_bytes_max;  /* of this model's files there; 0 = 4 GiB */
    const char *speculation;     /* drafts of the next tokens, which never change the text: "auto"
                                    adapts their number to what pays off here, "off" none,
                                    "always" as many as possible; NULL = CERIUM_SPECULATION in the
                                    environment, else "auto" */
    const char *workspace;       /* a folder whose texts drafts may come from, for sessions of
                                    tenant 0 alone; a thread keeps their index up to date, and a
                                    file of it where repacked weights are kept (`cache`); NULL =
                                    CERIUM_WORKSPACE in the environment, else none */
    const char *draft_model;     /* what drafts where no text does, as far as that saves time: it
                                    never changes the text.  GGUF file of a smaller model, of the
                                    same vocabulary or another, or of an EAGLE-3 head made for the
                                    model; "mtp", the model's own MTP head;
                                    "off", nothing; "", that head if the file has one; NULL =
                                    CERIUM_DRAFT_MODEL in the environment, else as "" */
    void (*observe)(void *user, const cerium_observation *seen); /* every input of every matrix in
                                    every pass, on compute threads, several at a time; in
                                    quantized types as the 8 bits that the product takes.  For
                                    calibration: slow */
    void *observe_user;
    const char *chat_form;       /* another chat form than the file's: a family of docs/chat.md, or
                                    "template": the file's, also where a family renders the same;
                                    NULL = the file's */
    bool exact;                  /* compute in floats what the file says: weights take four bytes
                                    each, activations are not rounded to 8 bits.  To see what a
                                    type and its arithmetic cost: slow.  Keys and values: kv_type */
    bool vocab_only;             /* no weights, threads or KV pages: for text, tokens and facts;
                                    sessions cannot be opened */
    cerium_engine *threads_of;   /* an open engine whose compute threads this one uses, too, and
                                    keeps when that one is closed: their passes take turns, better
                                    classes first.  The weights are then loaded by threads of idle
                                    priority.  NULL: threads of its own */
    bool (*canceled)(void *user); /* asked while weights are loaded, on several threads; true:
                                    cerium_engine_open() ends with CERIUM_ERR_CANCELED */
    void *canceled_user;
    const cerium_kv_watcher *kv_watcher; /* NULL: none; borrowed until it is closed */
    void *kv_watcher_user;
} cerium_engine_config;

/** How a file makes one vector of a text: `pooling_type` of GGUF. */
typedef enum {
    CERIUM_POOLING_NONE = 0,
    CERIUM_POOLING_MEAN = 1, /* of all tokens' states */
    CERIUM_POOLING_CLS = 2,  /* the first token's */
    CERIUM_POOLING_LAST = 3, /* the last token's */
} cerium_pooling;

/** Facts about an open engine. Strings are owned by the engine, never NULL. */
typedef struct {
    const char *name;            /* general.name, or the file's name */
    const char *architecture;    /* general.architecture */
    const char *quantization;    /* type of most of the weights, for example "Q4_0" */
    const char *cpu;             /* instruction set in use */
    const char *kv_type;         /* what keys and values are kept in: "i8", "f16" or "f32" */
    const char *chat_form;       /* what renders conversations: "template" for the file's own, a
                                    family that renders the same ("chatml", "harmony", ...), or ""
                                    where there is none */
    bool fill_in_middle;         /* the vocabulary has fill-in-the-middle tokens */
    float pointer;               /* cerium_sampling.pointer that the file asks for where holes and
                                    lines are filled (docs/formats.md); 0 of most models */
    uint32_t threads;
    uint32_t n_vocab;
    uint32_t n_layers;
    uint32_t context_tokens_max; /* of one session */
    uint64_t n_parameters;
    uint64_t weights_bytes;      /* memory that the weights take */
    uint64_t step_bytes;         /* weight bytes read for one token (chosen experts only; of a head
                                    that is searched, what is read in any case) */
    uint64_t kv_token_bytes;     /* KV bytes of one token in the layers that keep everything */
    const char *cache_path;      /* the file that the weights are mapped from; "" when they were
                                    repacked into memory */
    const char *draft_model;     /* its name, or "" */
    uint64_t draft_model_bytes;  /* memory that its weights, its KV pages and, where it is a head,
                                    the states of the model that it reads may take */
    uint32_t token_bytes_max;    /* the longest text of a token: of more than n_tokens x this many
                                    bytes, cerium_tokenize() makes more than n_tokens.  Chat forms
                                    may leave out white space at the ends of a message.  0: unknown,
                                    for there are bytes that no token encodes */
    float confidence; /* a completion of a hole whose total probability is lower should not be shown
                         unasked: from the file (docs/formats.md); 0 for most models */
    bool completes_only;         /* from the file: the model was not trained to chat */
    const char *call_form;       /* how thoughts and tool calls are written: the name of a family;
                                    for readers of a chat form */
    const char *chat_refusal;    /* one line: why the file's chat template cannot be run, so that
                                    cerium_chat_tokens() refuses; "" otherwise */
    uint32_t n_embedding;        /* numbers in the state of a token between layers */
    uint64_t kv_bytes;           /* memory that the KV pages may take */
    cerium_pooling pooling;      /* how the file makes one vector of a text; CERIUM_POOLING_NONE:
                                    the model was not made for it */
    int32_t text_end;            /* a text to be embedded ends with this token; -1: with its own */
    uint64_t kv_bytes_min;       /* memory that the KV pages of one whole context take */
    uint64_t fingerprint;        /* of the file: its size, its header and samples of its weights */
    bool exact;                  /* as in cerium_engine_config */
    const char *edit_format;     /* how the model is asked for the user's next edit, as the file
                                    names it (docs/formats.md): "sweep", ...; "": it does not */
    uint64_t state_bytes;        /* of the state of a sequence, in layers that keep one in place of
                                    keys and values: a token reads one and writes the next; 0 for
                                    models without such layers */
} cerium_engine_info;

/** Set every field to its documented default; size: sizeof the struct in the caller. */
CERIUM_API void cerium_engine_config_defaults_sized(cerium_engine_config *config, size_t size);
#define cerium_engine_config_defaults(config)                                                      \
    cerium_engine_config_defaults_sized((config), sizeof(cerium_engine_config))

/** Load a model and allocate the engine's memory.
 *
 * @param engine_out  receives the engine; returns owned, release with cerium_engine_close()
 * @retval CERIUM_ERR_ARGUMENT  a field of the configuration is out of range
 * @retval CERIUM_ERR_IO        the file cannot be opened or mapped
 * @retval CERIUM_ERR_FORMAT    not GGUF, damaged, or an unsupported architecture or type
 * @retval CERIUM_ERR_MEMORY    the weights or the KV cache do not fit
 * Cost: the first time it reads and repacks every weight, about a second per gigabyte; later it
 * maps the repacked weights and reads them once, like a token.  Thread-safe. */
CERIUM_API CERIUM_CHECKED int cerium_engine_open(cerium_engine **engine_out,
                                                 const cerium_engine_config *config,
                                                 cerium_error *err);

/** Free an engine and set *engine to NULL; all its sessions must be closed.
 * Accepts NULL and pointers to NULL. */
CERIUM_API void cerium_engine_close(cerium_engine **engine);

/** Bound the memory of the KV pages from now on, for engines that share a machine.
 *
 * @param kv_bytes  never less than cerium_engine_info.kv_bytes_min; 0, or more than its kv_bytes:
 *                  all that the engine was opened with
 * Pages that no session holds are returned at once, those beyond the bound as sessions release
 * them; kv_bytes_used of cerium_engine_measure() is what they hold.  Sessions that need more wait,
 * or compute evicted tokens again.  Cost: that of returning memory, up to a tenth of a second a
 * gigabyte.  Thread-safe. */
CERIUM_API void cerium_engine_limit_kv(cerium_engine *engine, uint64_t kv_bytes);

/** Facts about the engine. Thread-safe. */
CERIUM_API void cerium_engine_describe_sized(const cerium_engine *engine, cerium_engine_info *info,
                                             size_t size);
#define cerium_engine_describe(engine, info)                                                       \
    cerium_engine_describe_sized((engine), (info), sizeof(cerium_engine_info))

/* ---- text and tokens ----
 *
 * All of this section may be called from several threads at once with one engine, also while its
 * sessions run: nothing is kept from one call to the next. */

enum {
    CERIUM_TOKENIZE_SPECIAL = 1, /* text such as "<|im_start|>" becomes its special token */
    CERIUM_TOKENIZE_BEGIN = 2,   /* prepend the begin-of-sequence token if the model wants one */
    CERIUM_TOKENIZE_WITHIN = 4,  /* text from within another: no space is put before it */
};

/** Encode UTF-8 text.
 *
 * @param text      [text_len] bytes, may contain NUL; invalid UTF-8 is encoded byte by byte
 * @param flags     of CERIUM_TOKENIZE_*
 * @param tokens    [tokens_cap] output; may be NULL when tokens_cap is 0
 * @param n_tokens  tokens written, or needed when the result is CERIUM_ERR_CAPACITY
 * @retval CERIUM_ERR_CAPACITY  tokens_cap is too small
 * @retval CERIUM_ERR_MEMORY scratch memory ran out Cost: linear in text_len, whatever the text is,
 * also where tokens_cap is too small: the count is exact.  To refuse text that cannot fit, compare
 * text_len first: see cerium_engine_info.token_bytes_max.  Thread-safe. */
CERIUM_API CERIUM_CHECKED int cerium_tokenize(const cerium_engine *engine, const char *text,
                                              size_t text_len, unsigned flags, int32_t *tokens,
                                              size_t tokens_cap, size_t *n_tokens,
                                              cerium_error *err);

/** Bytes of one token; not NUL-terminated. NULL and *len = 0 for an id outside the vocabulary.
 * A control token gives the text that names it. Thread-safe. */
CERIUM_API const char *cerium_token_bytes(const cerium_engine *engine, int32_t token, size_t *len);

/** True for tokens that end a generation (end of text, end of turn). Thread-safe. */
CERIUM_API bool cerium_token_is_end(const cerium_engine *engine, int32_t token);

/** One piece of a conversation.  Neighbouring pieces of the assistant's ("reasoning", "assistant",
 * "call") are one turn of it; forms that want results of tools together get them so. */
typedef struct {
    const char *role; /* "system", "developer", "user"; of the assistant: "assistant" (its text),
                         "reasoning", "call" (a tool call); "tool": the result of a call */
    const char *content;   /* UTF-8, NUL-terminated; of a call: its arguments */
    const char *name;      /* of a call and its result: the tool; NULL otherwise */
    const char *call_id;   /* of a call and its result, or NULL; for forms that show it */
    const int32_t *tokens; /* [n_tokens] a whole turn of the assistant exactly as sampled, instead
                              of content; NULL otherwise */
    size_t n_tokens;
} cerium_message;

/** A tool that the model may call. */
typedef struct {
    const char *name;
    const char *description; /* or NULL */
    const char *parameters;  /* JSON schema of its arguments; NULL: it takes free text */
} cerium_tool;

typedef struct {
    const cerium_message *messages; /* [n_messages] */
    size_t n_messages;
    const cerium_tool *tools;       /* [n_tools] */
    size_t n_tools;
    bool continues;                 /* the messages follow a timeline; see after */
    const int32_t *after;           /* continues: [n_after] that timeline (its end is looked at) */
    size_t n_after;
    bool open;                      /* do not end where the assistant speaks: more will follow */
    size_t *n_head;                 /* or NULL: gets the number of tokens of the tools and the first
                                       system message, which are at the beginning and can be
                                       replaced by those of another head; CERIUM_NO_HEAD: the form
                                       has them elsewhere, or the timeline continues */
    const char *variables;          /* a JSON object that the model's template sees beside the
                                       messages, as {"enable_thinking": false}; or NULL */
} cerium_chat;

#define CERIUM_NO_HEAD SIZE_MAX

/** Tokens of a conversation in the model family's own chat form, ending where the assistant's turn
 * begins.  Special tokens in the content are text, never control.  A model without a chat form gets
 * a plain one.
 *
 * With continues, only what is to be appended to the timeline: its unfinished turn is closed first,
 * tools are not repeated, and no default system message is added. Rendering a conversation in
 * parts, with open and continues, gives the same tokens as rendering it in one piece.
 *
 * @param tokens    [tokens_cap] output; may be NULL when tokens_cap is 0
 * @param n_tokens  tokens written, or needed when the result is CERIUM_ERR_CAPACITY
 * @retval CERIUM_ERR_ARGUMENT  a message lacks its name or content
 * @retval CERIUM_ERR_FORMAT    a role is unknown, or a tool's parameters are not JSON
 * @retval CERIUM_ERR_CAPACITY  tokens_cap is too small
 * Cost: linear in the messages and their text.  Thread-safe. */
CERIUM_API CERIUM_CHECKED int cerium_chat_tokens(const cerium_engine *engine,
                                                 const cerium_chat *chat, int32_t *tokens,
                                                 size_t tokens_cap, size_t *n_tokens,
                                                 cerium_error *err);

/** One more file that the model may look at, before the file that is completed. */
typedef struct {
    const char *path;
    const char *text;
    size_t text_len;
} cerium_context_file;

typedef struct {
    const char *prefix; /* [prefix_len] text before the hole */
    size_t prefix_len;
    const char *suffix; /* [suffix_len] text after it */
    size_t suffix_len;
    const char *path;   /* name of the file, or NULL */
    const char *repo;   /* name of the repository, or NULL */
    const cerium_context_file *files; /* [n_files], oldest first; used where the form has them */
    size_t n_files;
} cerium_infill;

/** Token healing. A text may end inside what the model would write as one token: "def f(x):" ends
 * with "):", and if the text continues, "):\n" is one token.  Such an end is removed from the
 * prompt before tokenization, and the answer must begin with its bytes: cerium_resume.heal_prefix.
 *
 * @param text  [text_len] that the answer continues
 * @return the number of bytes to remove from its end, at most CERIUM_HEAL_PREFIX_MAX and never
 *         all; 0: none
 * Cost: one scan of the vocabulary. Thread-safe. */
CERIUM_API size_t cerium_heal_prefix(const cerium_engine *engine, const char *text,
                                     size_t text_len);

/** The same for the prefix of a hole, for cerium_infill_tokens(), so that the hole begins at a
 * token boundary. It never removes more than the current line, and nothing at the start of a line:
 * models are trained on such holes. Thread-safe. */
CERIUM_API size_t cerium_infill_heal_prefix(const cerium_engine *engine, const char *prefix,
                                            size_t prefix_len);

/** Tokens that ask the model to fill the hole between prefix and suffix, in its own form.
 *
 * @retval CERIUM_ERR_FORMAT    the vocabulary has no fill-in-the-middle tokens
 * @retval CERIUM_ERR_CAPACITY  tokens_cap is too small; *n_tokens is the needed size
 * Thread-safe. */
CERIUM_API CERIUM_CHECKED int cerium_infill_tokens(const cerium_engine *engine,
                                                   const cerium_infill *infill, int32_t *tokens,
                                                   size_t tokens_cap, size_t *n_tokens,
                                                   cerium_error *err);

/* ---- grammars: what an answer may be ---- */

/** A compiled grammar. Immutable, independent of engines, and shared by threads. Each user holds
 * its own reference, so it may be closed while requests run.
 */
typedef struct cerium_grammar cerium_grammar;

typedef enum {
    CERIUM_GRAMMAR_JSON_SCHEMA = 0, /* JSON that fits a JSON schema (draft 2020-12, and $ref into
                                       the schema itself), properties in the order of the schema.
                                       {"type":"object"} is any JSON object */
    CERIUM_GRAMMAR_REGEX = 1,       /* all of the text matches: the common subset of Rust's,
                                       Python's and JavaScript's expressions */
    CERIUM_GRAMMAR_LARK = 2,        /* a grammar in Lark's notation, from its rule "start" */
    CERIUM_GRAMMAR_GBNF = 3,        /* a grammar in llama.cpp's notation, from its rule "root" */
} cerium_grammar_syntax;

/** Compile a grammar.
 *
 * In lark, `%json {...}` in place of an expression is JSON that fits that schema, and `<"NAME">` is
 * the control token of that name: `<"[TOOL_CALLS]">`; `<|call|>` is short for `<"<|call|>">`.
 * `%text {"syntax": ..., "grammar": "..."}` is a text of that grammar ("lark" or "regex") within
 * this one, and `%string {...}` the same, escaped as within a JSON string. Ambiguity is allowed: a
 * text matches when any parse of it does, and priorities are ignored. An unsupported keyword of a
 * JSON schema is left out and reported, see cerium_grammar_left_out(); the rest of the schema
 * holds. Anything else unsupported is an error, never loosened.
 *
 * @param grammar_out  returns owned, release with cerium_grammar_close()
 * @param text         [text_len] UTF-8
 * @retval CERIUM_ERR_FORMAT    err has the place and the reason, as in "schema: /type: is
 *                              not one of JSON's"; or no text fits
 * @retval CERIUM_ERR_CAPACITY  the grammar is larger than the limits
 * @retval CERIUM_ERR_MEMORY    no memory for it
 * Cost: bounded by the limits, typically below a millisecond; keep grammars that are used again.
 * Thread-safe. */
CERIUM_API CERIUM_CHECKED int cerium_grammar_compile(cerium_grammar **grammar_out,
                                                     cerium_grammar_syntax syntax,
                                                     const char *text, size_t text_len,
                                                     cerium_error *err);

/** The same, but invalid keywords of a schema (an unknown type, a bound that is not a number) are
 * also left out and reported: for schemas that are not strict.
 */
CERIUM_API CERIUM_CHECKED int cerium_grammar_compile_forgiving(cerium_grammar **grammar_out,
                                                               cerium_grammar_syntax syntax,
                                                               const char *text, size_t text_len,
                                                               cerium_error *err);

/** What was left out of the grammar, which therefore accepts more: entry i, in order, for example
 * "/properties/to/pattern: backreferences are not regular". NULL: no such entry. Owned by the
 * grammar. Thread-safe. */
CERIUM_API const char *cerium_grammar_left_out(const cerium_grammar *grammar, size_t i);

/** Another reference to the same, to be closed like the first. NULL for NULL. Thread-safe. */
CERIUM_API cerium_grammar *cerium_grammar_hold(const cerium_grammar *grammar);

/** Drop a reference and set *grammar to NULL. Accepts NULL and pointers to NULL. */
CERIUM_API void cerium_grammar_close(cerium_grammar **grammar);

/** Whether all of text is in the set.
 * @retval CERIUM_ERR_MEMORY  no memory to look
 * Cost: a few nanoseconds a byte after the first of its kind. Thread-safe. */
CERIUM_API CERIUM_CHECKED int cerium_grammar_matches(const cerium_grammar *grammar,
                                                     const char *text, size_t text_len,
                                                     bool *matches, cerium_error *err);

#define CERIUM_TRIGGERS_MAX      64  /* of one guide */
#define CERIUM_TRIGGER_BYTES_MAX 256 /* length of one text */

/** Free text ends where text came: what follows is in grammar. */
typedef struct {
    const char *text;              /* [text_len] bytes; control tokens count by their names */
    size_t text_len;
    const cerium_grammar *grammar; /* NULL: any text */
    bool ends;                     /* after the grammar's text only the end may follow; else free
                                      text, from the first byte that cannot belong to it */
} cerium_trigger;

/** Constrained decoding.  With a grammar, the answer begins with a text of that grammar, then
 * continues as free text if there are triggers, else ends.  Without a grammar it begins as free
 * text.  If several triggers are complete at the same byte, the longest counts.  A grammar's text
 * contains only the control tokens that it names; an end token only where that text is complete,
 * and in free text (see must).
 *
 * Tokens that cannot lead to a text of the grammar are never sampled, whatever the logits.  When
 * the context is full, new_tokens_max is reached or a stop string comes, the text may be
 * unfinished: cerium_stop says so. */
typedef struct {
    const cerium_grammar *grammar;  /* or NULL */
    const cerium_trigger *triggers; /* [n_triggers], at most CERIUM_TRIGGERS_MAX */
    uint32_t n_triggers;
    bool must;                      /* free text may not end before a trigger came */
} cerium_guide;

/* ---- readers: what of an answer is said, thought, or a tool called ---- */

/** Reads the text of one answer, in any cuts: cuts change when parts come out, never which. */
typedef struct cerium_reader cerium_reader;

typedef enum {
    CERIUM_PART_TEXT = 0,      /* more of what is said */
    CERIUM_PART_REASONING = 1, /* more of a thought */
    CERIUM_PART_CALL = 2,      /* a tool is called: text is its name */
    CERIUM_PART_ARGUMENTS = 3, /* more of the call's arguments: JSON, or free text for tools that
                                  take it */
    CERIUM_PART_CALL_END = 4,  /* the call is whole; a call without this was cut off */
} cerium_part_kind;

typedef struct {
    cerium_part_kind kind;
    const char *text; /* [text_len] valid during the call */
    size_t text_len;
} cerium_part;

/** Receives parts in order. Returns 0, or a negative cerium_status that ends the reading. */
typedef int cerium_part_fn(void *user, const cerium_part *part);

/** Begin to read one answer. Its session was opened with control_text.
 *
 * @param reader_out  returns owned, release with cerium_reader_close()
 * @param call_form   cerium_engine_info.call_form; "": the plain form
 * @param tools       [n_tools] borrowed until the reader is closed: types of parameters, and which
 *                    tools take free text.  Without tools nothing is a call: what looks like one is
 *                    said
 * @retval CERIUM_ERR_ARGUMENT  no form, or tools are missing
 * @retval CERIUM_ERR_MEMORY    no memory for it */
CERIUM_API CERIUM_CHECKED int cerium_reader_open(cerium_reader **reader_out, const char *call_form,
                                                 const cerium_tool *tools, size_t n_tools,
                                                 cerium_error *err);

/** Free a reader and set *reader to NULL. Accepts NULL and pointers to NULL. */
CERIUM_API void cerium_reader_close(cerium_reader **reader);

/** End the text before the first of these that is said, and the reading with it. In calls and
 * thoughts they are not looked for.  To be called before the first feed.
 *
 * @param stops  [n_stops] borrowed; as in cerium_sampling */
CERIUM_API void cerium_reader_set_stops(cerium_reader *reader, const char *const *stops,
                                        uint32_t n_stops);

/** Which of the stops was said; NULL: none. */
CERIUM_API const char *cerium_reader_stopped_by(const cerium_reader *reader);

/** More of the answer: parts that are certain now go to fn.
 *
 * @param text  [text_len] as in cerium_step.text
 * @retval CERIUM_ERR_MEMORY  no memory for a call
 * @retval others             what fn returned */
CERIUM_API CERIUM_CHECKED int cerium_reader_feed(cerium_reader *reader, const char *text,
                                                 size_t text_len, cerium_part_fn *fn, void *user);

/** The answer ended: what was held back goes to fn.
 *
 * @param whole  the model ended it (CERIUM_STOP_END), and no limit did
 * @retval CERIUM_ERR_MEMORY, others  as for feed */
CERIUM_API CERIUM_CHECKED int cerium_reader_end(cerium_reader *reader, bool whole,
                                                cerium_part_fn *fn, void *user);

/** No call is open, and none has begun. */
CERIUM_API bool cerium_reader_is_outside(const cerium_reader *reader);

/** A thought is open. */
CERIUM_API bool cerium_reader_is_thinking(const cerium_reader *reader);

/** No call is open, but a mark may have begun. */
CERIUM_API bool cerium_reader_is_saying(const cerium_reader *reader);

/** After the end: it cut a call off, or what might have become one. */
CERIUM_API bool cerium_reader_cut_call(const cerium_reader *reader);

/* ---- sessions: one token timeline ---- */

/** Added to the logit of a token, before penalties. */
typedef struct {
    int32_t token; /* ids outside the vocabulary are ignored */
    float bias;    /* -INFINITY: never */
} cerium_logit_bias;

#define CERIUM_BIASES_MAX 1024 /* of one session */

/** How a token is chosen. Zero-initialised, it is greedy. The order is: biases, penalties,
 * temperature, top-k, top-p, min-p, draw; before them the mixture of `pointer`. The draw at a
 * position depends on the seed, the position and the logits alone, so the same seed gives the same
 * text on every machine. */
typedef struct {
    float temperature;           /* 0 = greedy */
    float top_p;                 /* (0, 1]; 0 and 1 = off */
    float min_p;                 /* [0, 1); 0 = off */
    float repetition_penalty;    /* 0 and 1 = off; above 1 discourages */
    uint32_t repetition_tokens;  /* number of last tokens to consider; 0 = 64 */
    uint32_t top_k;              /* 0 = off */
    float pointer; /* [0, 1]; 0 = off; above 0, the model's probabilities are mixed with the tokens
                      that followed earlier occurrences of the same context: for small models
                      (cerium_engine_info.pointer) */
    uint64_t seed;
    const char *const *stops;    /* [n_stops] generation ends before any of these texts */
    uint32_t n_stops;            /* at most CERIUM_STOPS_MAX */
    bool ignore_end;             /* continue after end tokens (benchmarks) */
    bool logprobs;               /* fill cerium_step.logprobs: an exp for each of the vocabulary */
    bool digest;                 /* of the answer's tokens and logits: cerium_session_digest().
                                    Every logit is computed, as for logprobs */
    uint32_t step_tokens_max;    /* that one cerium_session_step() may sample; 0 = as many as there
                                    are drafts that are right */
    float presence_penalty;      /* [-100, 100]; 0 = off; taken from the logits of tokens among the
                                    last repetition_tokens, */
    float frequency_penalty;     /* and the same for each time that they are there */
    const cerium_logit_bias *biases; /* [n_biases] no token twice */
    uint32_t n_biases;           /* at most CERIUM_BIASES_MAX */
} cerium_sampling;

typedef enum {
    CERIUM_STOP_NONE = 0,  /* there is more to come */
    CERIUM_STOP_END = 1,   /* the model ended its turn */
    CERIUM_STOP_TEXT = 2,  /* a stop string was reached */
    CERIUM_STOP_LIMIT = 3, /* the context is full */
    CERIUM_STOP_STUCK = 4, /* a guide allows no token of the vocabulary: nested deeper, or larger,
                              than the limits; the text is unfinished */
} cerium_stop;

typedef struct {
    uint32_t n_tokens;                       /* 1..CERIUM_STEP_TOKENS_MAX */
    int32_t tokens[CERIUM_STEP_TOKENS_MAX];
    float logprobs[CERIUM_STEP_TOKENS_MAX];  /* natural log, of the model's own distribution
                                                (with pointer, of the mixture);
                                                0 unless requested */
    cerium_stop stop;
    const char *text;                        /* [text_len] bytes that are safe to show: whole
                                                UTF-8 characters, never a part of a stop string */
    size_t text_len;
    uint32_t text_ends[CERIUM_STEP_TOKENS_MAX]; /* [n_tokens] bytes of text that there were with
                                                   each token, and */
    uint32_t text_held[CERIUM_STEP_TOKENS_MAX]; /* of it and those before, held back still */
    uint64_t digests[CERIUM_STEP_TOKENS_MAX]; /* the answer's digest up to each token, the first
                                                 eight bytes as a big-endian number; 0 unless
                                                 requested */
    uint64_t duration_ns;
} cerium_step;

typedef struct {
    uint32_t tokens_reused;   /* taken from what the session had */
    uint32_t tokens_computed; /* computed now */
    uint64_t duration_ns;
} cerium_sync_result;

typedef struct {
    uint32_t context_tokens_max; /* 0 = the engine's */
    uint64_t tenant;             /* prefixes, and answers as drafts, are shared with sessions of
                                    the same tenant only */
    bool control_text;           /* text shows control tokens by their names, end tokens excepted:
                                    for readers of a chat form */
    bool no_speculation;         /* as an engine with "off" */
    uint32_t score_tokens_max;   /* tokens that cerium_session_score() takes in one pass, each with
                                    logits of its own; 0 = no scoring in this session */
    bool embeds;                 /* cerium_session_embedding() is to tell of its timelines; the
                                    engine's pooling is not NONE */
    uint64_t client;             /* whose share of time it takes; 0 = the tenant */
    uint8_t reserved[12];        /* zero */
} cerium_session_config;

/** Continue an answer whose end was retracted, or answer a prompt that ends within a token. Stop
 * strings and the guide are in the state after the answer's beginning; the new text starts where
 * the text of its tokens ends.
 */
typedef struct {
    size_t n_answer;      /* the last n_answer of the tokens are the answer's beginning */
    const int32_t *note;  /* [n_note] tokens between them and the sampled ones, until the next sync,
                             score or start.  They and later tokens belong to this session alone: no
                             other session can reuse them, and none are saved to disk */
    size_t n_note;
    const int32_t *avoid; /* [n_avoid] the sampled tokens do not begin with these, unless nothing
                             else may follow; -1 separates several such beginnings. At most
                             CERIUM_AVOID_MAX, separators included */
    size_t n_avoid;
    const char *heal_prefix; /* [n_heal] bytes with which the answer's tokens begin, and its text
                                does not: those with which the prompt ends within a token, see
                                cerium_heal_prefix().  Not with a guide; at most
                                CERIUM_HEAL_PREFIX_MAX */
    size_t n_heal;
    const cerium_grammar *within; /* or NULL: the sampled tokens are a text of it, until any text
                                     may follow; the unspelled rest of heal_prefix belongs to it.
                                     Where a guide allows no such token, only the guide counts */
} cerium_resume;

/** Open an empty timeline.
 *
 * @param config  may be NULL for defaults
 * @retval CERIUM_ERR_CAPACITY  sessions_max sessions are open
 * @retval CERIUM_ERR_MEMORY    no memory for the timeline
 * Thread-safe. */
CERIUM_API CERIUM_CHECKED int cerium_session_open(cerium_session **session_out,
                                                  cerium_engine *engine,
                                                  const cerium_session_config *config,
                                                  cerium_error *err);

/** Fork a session: the new one has the same timeline, logits and tenant. KV pages are shared
 * (copy-on-write, 64 tokens a page), so each of many variants costs only the pages of its own
 * tokens.
 *
 * @param session  borrowed; no request runs in it
 * @retval CERIUM_ERR_ARGUMENT  a request runs in it
 * @retval CERIUM_ERR_CAPACITY  sessions_max sessions are open
 * @retval CERIUM_ERR_MEMORY    no memory for the timeline */
CERIUM_API CERIUM_CHECKED int cerium_session_fork(cerium_session **session_out,
                                                  cerium_session *session, cerium_error *err);

/** Free a session and set *session to NULL. Accepts NULL and pointers to NULL. */
CERIUM_API void cerium_session_close(cerium_session **session);

/** Make the timeline equal tokens[0..n_tokens), computing only what differs from its current
 * content. Afterwards the logits are those after the last token, and the text held back is dropped.
 *
 * @param tokens  [n_tokens], n_tokens >= 1, each in [0, n_vocab)
 * @param result  may be NULL
 * @retval CERIUM_ERR_ARGUMENT  no tokens, or an id outside the vocabulary
 * @retval CERIUM_ERR_CAPACITY  n_tokens exceeds the context
 * @retval CERIUM_ERR_CANCELED  the timeline is a prefix of tokens; call again to continue */
CERIUM_API CERIUM_CHECKED int cerium_session_sync(cerium_session *session, const int32_t *tokens,
                                                  size_t n_tokens, cerium_sync_result *result,
                                                  cerium_error *err);

/** Sync to continue an answer, or to begin one within a token. An earlier cancel is cleared, as by
 * a start with resume: it is what ended the answer.
 *
 * @param resume  borrowed
 * @param result  may be NULL
 * @retval CERIUM_ERR_ARGUMENT  more of an answer than tokens, too much to avoid, or an answer that
 *                              does not begin with heal_prefix; or as for sync
 * @retval CERIUM_ERR_CAPACITY, CERIUM_ERR_CANCELED  as for sync */
CERIUM_API CERIUM_CHECKED int cerium_session_resume(cerium_session *session, const int32_t *tokens,
                                                    size_t n_tokens, const cerium_resume *resume,
                                                    cerium_sync_result *result, cerium_error *err);

/** Make the timeline equal tokens[0..n_tokens), as sync does, and say how likely each of them was.
 *
 * @param tokens    [n_tokens]
 * @param logprobs  [n_tokens] output, natural log of the probability of tokens[i] after those
 *                  before it; logprobs[0] is 0
 * @retval CERIUM_ERR_ARGUMENT  the session was opened without score_tokens_max, or as for sync
 * @retval CERIUM_ERR_CAPACITY, CERIUM_ERR_CANCELED  as for sync */
CERIUM_API CERIUM_CHECKED int cerium_session_score(cerium_session *session, const int32_t *tokens,
                                                   size_t n_tokens, float *logprobs,
                                                   cerium_error *err);

/** The same, and which token was the likeliest in each place.
 *
 * @param likeliest  [n_tokens] output, ties to the lowest id; likeliest[0] is -1; or
 *                   NULL */
CERIUM_API CERIUM_CHECKED int cerium_session_score_top(cerium_session *session,
                                                       const int32_t *tokens, size_t n_tokens,
                                                       float *logprobs, int32_t *likeliest,
                                                       cerium_error *err);

/** The embedding of the timeline, which a sync or a request without new tokens computed.
 *
 * @param out  [n_embedding] output, of length 1
 * @retval CERIUM_ERR_ARGUMENT  the session was opened without `embeds`, or nothing is computed
 * @retval CERIUM_ERR_NUMBERS   the model computed values that are not numbers */
CERIUM_API CERIUM_CHECKED int cerium_session_embedding(const cerium_session *session, float *out,
                                                       cerium_error *err);

/** Save a session: its timeline, and what was computed of it in whole pages of 64 tokens.
 * cerium_session_load() continues it later, in another process or on another machine.
 *
 * @param session    no request runs in it
 * @param image      [image_cap] output; may be NULL when image_cap is 0
 * @param image_len  bytes written, or needed when the result is CERIUM_ERR_CAPACITY
 * @retval CERIUM_ERR_ARGUMENT  nothing was synced yet, a request runs, or a note is in the timeline
 * @retval CERIUM_ERR_CAPACITY  image_cap is too small
 * Cost: a copy of cerium_engine_info.kv_token_bytes a token, and its checksum. */
CERIUM_API CERIUM_CHECKED int cerium_session_save(cerium_session *session, void *image,
                                                  size_t image_cap, size_t *image_len,
                                                  cerium_error *err);

/** Make the timeline that of the image, as sync does: what the image has is not computed. The next
 * tokens are those that the saved session would have sampled; sampling, stops and guides are the
 * caller's.  What it loads, later sessions of the tenant find: load what you saved.
 *
 * @param image   [image_len] borrowed; at any address
 * @param result  may be NULL
 * @retval CERIUM_ERR_FORMAT    no image, damaged, or of another model, version or kv_type
 * @retval CERIUM_ERR_CAPACITY, CERIUM_ERR_CANCELED  as for sync */
CERIUM_API CERIUM_CHECKED int cerium_session_load(cerium_session *session, const void *image,
                                                  size_t image_len, cerium_sync_result *result,
                                                  cerium_error *err);

/** Sample at least one token and append it: more where drafts were right, and these are exactly the
 * tokens that single steps would have sampled. The last appended token is computed at the start of
 * the next step or sync, so a token can be shown before its own forward pass, and the last token of
 * an answer needs none.
 *
 * @param sampling  NULL for greedy
 * @param step      text in it stays valid until the next call on the session
 * @retval CERIUM_ERR_ARGUMENT  nothing was synced yet, or sampling is out of range
 * @retval CERIUM_ERR_CAPACITY  the context is full
 * @retval CERIUM_ERR_CANCELED  the timeline is unchanged or longer by whole tokens
 * @retval CERIUM_ERR_NUMBERS   a logit is not a number, or infinite: the timeline is unchanged */
CERIUM_API CERIUM_CHECKED int cerium_session_step(cerium_session *session,
                                                  const cerium_sampling *sampling,
                                                  cerium_step *step, cerium_error *err);

/** Apply a guide to the tokens that steps sample from now on; NULL: none. Another sync, score or
 * start ends it; after a resume it is in the state after the answer's beginning.  Forced tokens,
 * where the guide leaves no choice, come several in a step.  An end token ends the answer, whatever
 * cerium_sampling.ignore_end says.
 *
 * @param guide  copied, with references to its grammars
 * @retval CERIUM_ERR_ARGUMENT  a trigger without text, or too many or too long ones; or the answer
 *                              to be continued cannot have been made so
 * @retval CERIUM_ERR_MEMORY    no memory for it
 * Cost: the engine's first guide sorts the vocabulary, tenths of a second; after that memory
 * only, a few megabytes. */
CERIUM_API CERIUM_CHECKED int cerium_session_guide(cerium_session *session,
                                                   const cerium_guide *guide, cerium_error *err);

/** Sort the vocabulary for guides now, at a convenient time, not with the first guide.
 * Thread-safe; only guides wait for it.  CERIUM_ERR_MEMORY. */
CERIUM_API CERIUM_CHECKED int cerium_engine_prepare_guides(cerium_engine *engine,
                                                           cerium_error *err);

/** The newest logits: after a sync those after the last token, after a step those it sampled from,
 * without its mixture.
 * After a step or a request without logprobs, tokens that could not be chosen may have -INFINITY
 * here: see cerium_engine_config.head.
 * float[*n_vocab], owned by the session; NULL before a sync. */
CERIUM_API const float *cerium_session_logits(const cerium_session *session, size_t *n_vocab);

/** The digest of the answer up to the last token that a step or an event gave out: of the prompt's
 * tokens, and of each token of the answer with the bits of all logits that it was drawn from.  Two
 * answers with one digest were computed alike: threads, batch, drafts, caches and instruction sets
 * do not change it.  It detects accidents and resists no attack.
 *
 *   before the first token   XXH3-128 of the prompt: its tokens as little-endian int32
 *   after each               XXH3-128 of the digest before it, the token as a little-endian int32,
 *                            and XXH3-128 of the logits, little-endian floats; 16 zeros for those
 *                            where a guide left no choice
 *
 * XXH3-128 is written as it is in xxHash's canonical form (big-endian).
 *
 * @param out  [CERIUM_DIGEST_BYTES] output
 * @retval CERIUM_ERR_ARGUMENT  not every token of the answer was sampled with
 *                              cerium_sampling.digest, or there is none */
CERIUM_API CERIUM_CHECKED int cerium_session_digest(const cerium_session *session,
                                                    unsigned char *out, cerium_error *err);

/** The timeline: int32_t[*n_tokens], owned by the session. */
CERIUM_API const int32_t *cerium_session_tokens(const cerium_session *session, size_t *n_tokens);

typedef struct {
    int32_t token;
    float logprob; /* natural log */
} cerium_logprob;

/** The n most likely next tokens, best first, ties to the lowest id.
 *
 * @param out  [n] output
 * @return how many were written: min(n, n_vocab), 0 before a sync */
CERIUM_API size_t cerium_session_top(const cerium_session *session, cerium_logprob *out, size_t n);

/** Make the running sync or step return CERIUM_ERR_CANCELED within one layer, or the running
 * request end so: within one layer too where most of the pass is its own, else with the pass.  A
 * request runs until its CERIUM_EVENT_DONE was read: a cancel that comes too late for it is
 * forgotten.  Where nothing runs, the next call is canceled.  Callable from any thread and from
 * signal handlers. */
CERIUM_API void cerium_session_cancel(cerium_session *session);

/* ---- requests: sessions that run beside each other ---- */

/** Priority.  Lower classes have a sixteenth of the time beside higher ones, so that they never
 * starve; within a class tenants, or clients, have equal shares of it. */
typedef enum {
    CERIUM_CLASS_COMPLETION = 0, /* inline, while the user types */
    CERIUM_CLASS_EDIT = 1,       /* a person waits for it */
    CERIUM_CLASS_TURN = 2,       /* a turn of an agent */
    CERIUM_CLASS_BATCH = 3,      /* nobody waits */
} cerium_class;

#define CERIUM_CLASSES 4
#define CERIUM_TOP_MAX 20 /* most likely tokens that a request may ask for */

typedef struct {
    const int32_t *tokens;           /* [n_tokens] the whole prompt, as for sync; copied */
    size_t n_tokens;
    uint32_t new_tokens_max;         /* to sample; 0 = compute the prompt only (a warm-up);
                                        UINT32_MAX = until the model ends or the context is full */
    const cerium_sampling *sampling; /* NULL = greedy; copied with its stops */
    cerium_class class_;
    uint32_t top_logprobs;           /* of each token, 0..CERIUM_TOP_MAX; needs sampling.logprobs */
    const int32_t *script;           /* [n_script] tokens to choose in place of the likeliest, then
                                        the end; all else is computed as ever.  Copied; or NULL */
    size_t n_script;
    const int32_t *prediction;       /* [n_prediction] what the answer probably is: tried as drafts,
                                        never changes the answer.  Copied; or NULL */
    size_t n_prediction;
    const cerium_guide *guide;       /* how the answer is made: see cerium_session_guide().  Copied;
                                        or NULL.  With a script it is not looked at */
    const cerium_resume *resume;     /* an answer to be continued, copied; or NULL */
    void (*notify)(void *user);      /* there is something to poll, after there was nothing; on the
                                        scheduler's thread: must not block or call this library.
                                        The last may come after DONE was polled, until the session
                                        is closed or starts again */
    void *user;
    bool notify_prompt;              /* and notify after passes that computed a part of the prompt:
                                        cerium_session_usage() has its progress */
} cerium_request;

typedef struct {
    uint32_t prompt_tokens;
    uint32_t reused_tokens;    /* of the prompt, found in the session or in the prefix cache */
    uint32_t computed_tokens;  /* of the prompt, so far */
    uint32_t new_tokens;       /* sampled so far */
    uint32_t drafted_tokens;   /* tried as drafts, and */
    uint32_t accepted_tokens;  /* accepted; of these */
    uint32_t drafted_predicted;  /* those of the prediction that were tried, and */
    uint32_t accepted_predicted; /* accepted */
    uint64_t queue_ns;         /* from start to the first pass with this request in it */
    uint64_t prompt_ns;        /* from there to the whole prompt computed */
    uint64_t first_token_ns;   /* from start to the first token; 0 = none yet */
    uint64_t duration_ns;      /* from start to the end, or to now */
} cerium_usage;

typedef enum {
    CERIUM_EVENT_NONE = 0, /* nothing now; notify will be called */
    CERIUM_EVENT_STEP = 1, /* step and top hold more of the answer */
    CERIUM_EVENT_DONE = 2, /* the request ended, and the session is as after a step */
} cerium_event_kind;

typedef struct {
    cerium_event_kind kind;
    cerium_step step;           /* STEP; one token */
    const cerium_logprob *top;  /* STEP: [n_top], valid as long as step.text */
    uint32_t n_top;
    int status;                 /* DONE: CERIUM_OK, CERIUM_ERR_CANCELED or what went wrong */
    cerium_stop stop;           /* DONE: why it ended; CERIUM_STOP_NONE after new_tokens_max */
} cerium_event;

/** Begin to make the timeline equal the prompt and to sample after it, beside whatever else runs.
 * Returns at once.  Until its CERIUM_EVENT_DONE was polled, the session takes only poll, usage and
 * cancel.  A reader that does not poll stops only its own request, after CERIUM_EVENTS_MAX steps.
 *
 * @retval CERIUM_ERR_ARGUMENT  as for sync and step, or a request already runs
 * @retval CERIUM_ERR_CAPACITY  the prompt exceeds the context
 * @retval CERIUM_ERR_MEMORY    no memory for the copies
 * Thread-safe for distinct sessions. */
CERIUM_API CERIUM_CHECKED int cerium_session_start(cerium_session *session,
                                                   const cerium_request *request,
                                                   cerium_error *err);

#define CERIUM_EVENTS_MAX 256 /* steps that wait for a slow reader */

/** The next event of the running request; never blocks.  What *event points to stays valid until
 * the next call on the session. */
CERIUM_API void cerium_session_poll(cerium_session *session, cerium_event *event);

/** The progress of the last request.  Thread-safe: any thread may ask while the request runs.  Of
 * its prompt reused_tokens + computed_tokens are there; with each pass these grow, up to
 * prompt_tokens. */
CERIUM_API void cerium_session_usage_sized(const cerium_session *session, cerium_usage *usage,
                                           size_t size);
#define cerium_session_usage(session, usage)                                                       \
    cerium_session_usage_sized((session), (usage), sizeof(cerium_usage))

/** What the engine does now, and did since it was opened. */
typedef struct {
    uint32_t running[CERIUM_CLASSES]; /* requests that had their first pass */
    uint32_t waiting[CERIUM_CLASSES]; /* requests that had none yet */
    uint64_t kv_pages_max, kv_pages_used, kv_pages_cached; /* used: by sessions; cached: idle */
    uint64_t prompt_tokens, reused_tokens, new_tokens;     /* since open */
    uint64_t drafted_tokens, accepted_tokens;
    uint64_t passes, preempted_passes, busy_ns;            /* busy: in passes */
    uint64_t drafting_ns;                                  /* finding what to draft */
    uint64_t head_bytes;                                   /* of heads that are searched, read
                                                              beyond info.step_bytes; since open */
    uint64_t kv_disk_pages;                                /* there now */
    uint64_t kv_disk_written_pages, kv_disk_loaded_pages;  /* since open */
    uint64_t kv_disk_waiting_pages;                        /* to be looked at and written */
    uint64_t kv_disk_evicted_pages, kv_disk_damaged_pages; /* since open; damaged: found so */
    uint64_t kv_disk_lookups, kv_disk_hits;                /* prompts, and those it had more of */
    uint64_t kv_disk_bytes, kv_disk_bytes_max;             /* of the files; 0: there are none */
    bool kv_disk_failed;                                   /* to write: nothing more is kept */
    uint64_t workspace_tokens;                             /* of the texts around; there now */
    uint64_t workspace_drafted_tokens, workspace_accepted_tokens; /* of the drafted, accepted */
    uint64_t recalled_tokens;                              /* of earlier answers; there now */
    uint64_t recalled_drafted_tokens, recalled_accepted_tokens; /* of the drafted, accepted */
    uint64_t model_drafted_tokens, model_accepted_tokens; /* of a draft model */
    uint64_t draft_model_passes, draft_model_tokens;      /* of its own; computed in them */
    uint64_t draft_model_ns;                              /* processor time of one thread */
    uint64_t kv_bytes_used;                               /* that kv_pages_used take */
    uint64_t shared_rows;                                 /* not computed, as a request of the same
                                                             pass had the same tokens; since open */
    uint64_t answer_rows;                                 /* computed for tokens of answers, without
                                                             drafts; since open */
    uint64_t kv_disk_states;                              /* of recurrent layers; there now */
    uint64_t kv_disk_written_states, kv_disk_loaded_states;  /* since open */
    uint64_t kv_disk_evicted_states, kv_disk_damaged_states; /* since open; damaged: found so */
} cerium_engine_stats;

CERIUM_API void cerium_engine_measure_sized(const cerium_engine *engine,
                                            cerium_engine_stats *stats, size_t size);
#define cerium_engine_measure(engine, stats)                                                       \
    cerium_engine_measure_sized((engine), (stats), sizeof(cerium_engine_stats))

/* ---- watchdog: weak code is held back and written again ----
 *
 * These functions are in a library of their own, libcerium-watch (pkg-config: cerium-watch): its
 * grammars are seven times as large as libcerium.
 *
 *   each step    cerium_watch_step(watch, &step, NULL, 0, &out, &err): show out.text
 *   the end      cerium_watch_finish(), unless out.order was CERIUM_WATCH_END
 *   out.order is CERIUM_WATCH_RETRY: the session has gone too far, so
 *                cerium_watch_retry(watch, &request, &runs, &err), and resume or start with it */

#define CERIUM_WATCH_API CERIUM_API

/** Rules and what reads code by them. One thread at a time for a watchdog and its watches. */
typedef struct cerium_watchdog cerium_watchdog;
/** One answer as it is watched. */
typedef struct cerium_watch cerium_watch;

/** Read the rules.
 *
 * @param watchdog_out  returns owned, release with cerium_watchdog_close()
 * @param rules         folder of *.yaml files: PREFIX/share/cerium/rules
 * @retval CERIUM_ERR_IO      the folder cannot be read
 * @retval CERIUM_ERR_FORMAT  a rule is bad; err has its file and line
 * @retval CERIUM_ERR_MEMORY  no memory for them
 * Cost: tenths of a second. */
CERIUM_WATCH_API CERIUM_CHECKED int cerium_watchdog_open(cerium_watchdog **watchdog_out,
                                                         const char *rules, cerium_error *err);

/** Free a watchdog and set *watchdog to NULL; its watches must be closed. Accepts NULL and pointers
 * to NULL. */
CERIUM_WATCH_API void cerium_watchdog_close(cerium_watchdog **watchdog);

typedef enum {
    CERIUM_WATCH_CODE = 0,   /* the answer is code of one language: a hole, a file */
    CERIUM_WATCH_ANSWER = 1, /* prose with Markdown fences, diffs and patches */
    CERIUM_WATCH_TURN = 3,   /* what a model says in its chat form, calls of tools included */
} cerium_watch_form;

/** One answer. Set by cerium_watch_config_defaults(). */
typedef struct {
    size_t size;                 /* of the caller's struct: set with the defaults, left alone */
    const cerium_engine *engine; /* of the session; required */
    const int32_t *prompt;       /* [n_prompt] what the answer follows; borrowed by the watch */
    size_t n_prompt;
    const char *policy;          /* "block", "warn" or "off", or CLASS=one of them, with commas
                                    between; the later ones count; NULL: "block" */
    cerium_watch_form form;
    const char *language;        /* of CODE: a name ("python") or a file's path; NULL: unknown */
    const char *before;          /* [before_len] of CODE: the code before the answer */
    size_t before_len;
    const cerium_message *messages; /* [n_messages] of the request: a weak line that the user or a
                                       tool wrote there does not block.  Borrowed by the watch */
    size_t n_messages;
    const char *heal_prefix;     /* [n_heal] cerium_resume.heal_prefix; borrowed by the watch */
    size_t n_heal;
    bool logprobs;               /* cerium_watch_result.tokens are wanted */
} cerium_watch_config;

/** Set every field to its default; size: sizeof the struct in the caller. */
CERIUM_WATCH_API void cerium_watch_config_defaults_sized(cerium_watch_config *config, size_t size);
#define cerium_watch_config_defaults(config)                                                       \
    cerium_watch_config_defaults_sized((config), sizeof(cerium_watch_config))

typedef enum {
    CERIUM_FINDING_RETRACTED = 0, /* the line is held, and written again */
    CERIUM_FINDING_REWRITTEN = 1, /* the model wrote another line, which was released */
    CERIUM_FINDING_WARNED = 2,    /* it was released */
    CERIUM_FINDING_BLOCKED = 3,   /* the answer ends before it; known late, after it */
    CERIUM_FINDING_REPLACED = 4,  /* the rule's safe form of it was released, with its names */
    CERIUM_FINDING_WITHHELD = 5,  /* a statement that refuses was released in its place */
    CERIUM_FINDING_KNOWN = 6,     /* it stood there before, and was released */
    CERIUM_FINDING_ACTIONS = 7,
} cerium_finding_action;

typedef struct {
    cerium_finding_action action;
    const char *rule, *weakness, *message, *idiom; /* of the watchdog; idiom: what to write */
    const char *language;
    uint32_t cwe, kind; /* kind: the weakness as a number */
    uint32_t line;      /* of the answer, from 1 */
    uint32_t n_tries;   /* how often the line was retracted so far */
    uint32_t n_tokens;  /* that were thrown away with it: of RETRACTED */
    uint64_t at;        /* byte of the answer's text where the held line begins */
} cerium_finding;

/** A token whose text was released. */
typedef struct {
    int32_t token;
    float logprob;
    uint32_t n_top;
    const cerium_logprob *top; /* [n_top] */
} cerium_watch_token;

typedef enum {
    CERIUM_WATCH_GO = 0,
    CERIUM_WATCH_RETRY = 1, /* see cerium_watch_retry(); what the session gave since is void */
    CERIUM_WATCH_END = 2,   /* the answer is over: a weakness ended it, or prose after one */
} cerium_watch_order;

/** Valid until the next call with the same watch. */
typedef struct {
    const char *text; /* [text_len] may be shown */
    size_t text_len;
    const cerium_watch_token *tokens; /* [n_tokens] of that text; none without logprobs */
    uint32_t n_tokens;
    const cerium_finding *findings; /* [n_findings] */
    uint32_t n_findings;
    cerium_watch_order order;
} cerium_watch_result;

/** Begin to watch one answer.
 *
 * @param watch_out  returns owned, release with cerium_watch_close()
 * @param config     borrowed until the call returns, what its fields point to where they say so
 * @retval CERIUM_ERR_ARGUMENT  no engine, or the policy is unknown
 * @retval CERIUM_ERR_MEMORY    no memory for it */
CERIUM_WATCH_API CERIUM_CHECKED int cerium_watch_open(cerium_watch **watch_out,
                                                      cerium_watchdog *watchdog,
                                                      const cerium_watch_config *config,
                                                      cerium_error *err);

/** Free a watch and set *watch to NULL. Accepts NULL and pointers to NULL. */
CERIUM_WATCH_API void cerium_watch_close(cerium_watch **watch);

/** The next step of the answer, of a session or of a request's event.  After one that said RETRY,
 * further steps give nothing until cerium_watch_retry().
 *
 * @param top  [n_top] most likely tokens at its only token; of logprobs, else NULL and 0
 * @retval CERIUM_ERR_MEMORY  the watch is of no use any more, and nothing more may be shown */
CERIUM_WATCH_API CERIUM_CHECKED int cerium_watch_step(cerium_watch *watch, const cerium_step *step,
                                                      const cerium_logprob *top, uint32_t n_top,
                                                      cerium_watch_result *result,
                                                      cerium_error *err);

/** The model ended, or has its last token: what is held is judged. The order may be RETRY.
 *
 * @retval CERIUM_ERR_MEMORY  as for step */
CERIUM_WATCH_API CERIUM_CHECKED int cerium_watch_finish(cerium_watch *watch,
                                                        cerium_watch_result *result,
                                                        cerium_error *err);

/** After RETRY: how to continue without the retracted line.
 *
 * @param request  new_tokens_max is that of the whole answer.  Gets tokens, n_tokens, resume and
 *                 what is left of new_tokens_max, for cerium_session_start() or _resume(); valid
 *                 until the next call with the watch
 * @param runs     false when the answer has all its tokens: it is over
 * @retval CERIUM_ERR_MEMORY  no memory for the tokens */
CERIUM_WATCH_API CERIUM_CHECKED int cerium_watch_retry(cerium_watch *watch,
                                                       cerium_request *request, bool *runs,
                                                       cerium_error *err);

/** The answer's tokens, without what was retracted: [*n_tokens], owned by the watch. */
CERIUM_WATCH_API const int32_t *cerium_watch_tokens(const cerium_watch *watch, size_t *n_tokens);

#ifdef __cplusplus
}
#endif
#endif /* CERIUM_H */
