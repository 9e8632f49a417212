/* protocol.h - requests of clients as structs, and answers to them as bytes; no sockets.
 *
 * A request arrives as the body of an HTTP request or as a WebSocket message and becomes a
 * protocol_request.  An answer goes through a protocol_writer, which takes the model's text as it
 * is sampled, reads it by the model's chat form (text, thoughts, calls of tools), and emits
 * finished events; the owner of the socket frames and sends them.
 *
 * Sources: the OpenAI API reference (Responses, its streaming and WebSocket events, Chat
 * Completions, Completions), the Open Responses specification 2026-04-24, llama.cpp's server
 * (/infill, /completion), Anthropic's Messages, Ollama's /api/chat and /api/generate.
 * One thread at a time for an object, except that several may read a request while none changes it.
 * Text borrowed from a request lives as long as it. */
#ifndef PROTOCOL_PROTOCOL_H
#define PROTOCOL_PROTOCOL_H

#include <jansson.h>

#include "base/base.h"
#include "base/limits.h"
#include "base/memory.h"
#include "protocol/next_edit.h"

typedef enum {
    PROTOCOL_RESPONSES = 0,   /* POST /v1/responses, and response.create over WebSocket */
    PROTOCOL_CHAT = 1,        /* POST /v1/chat/completions */
    PROTOCOL_COMPLETIONS = 2, /* POST /v1/completions */
    PROTOCOL_INFILL = 3,      /* POST /infill */
    PROTOCOL_COMPACT = 4,     /* POST /v1/responses/compact */
    PROTOCOL_MESSAGES = 5,    /* POST /v1/messages, as in Anthropic's API */
    PROTOCOL_OLLAMA_CHAT = 6, /* POST /api/chat, as in Ollama */
    PROTOCOL_OLLAMA_GENERATE = 7, /* POST /api/generate */
    PROTOCOL_COMPLETION = 8,  /* POST /completion, as in llama.cpp */
    PROTOCOL_EMBEDDINGS = 9,  /* POST /v1/embeddings */
    PROTOCOL_OLLAMA_EMBED = 10, /* POST /api/embed, and /api/embeddings */
    PROTOCOL_EDITS = 11,      /* POST /v1/edit-predictions, and edit.predict over WebSocket */
} protocol_api;

/* An error in the words of the API.  Strings are static except message and param. */
typedef struct {
    int http_status;       /* 400, 401, 404, 413, 429, 500, 503, ... */
    const char *type;      /* "invalid_request_error", "not_found_error", "server_error", ... */
    const char *code;      /* "invalid_value", "previous_response_not_found", ... or NULL */
    char param[96];        /* "tools[4].name", or "" */
    char message[512];     /* one line: what, where, what to do */
    uint32_t retry_after_s; /* 0 = not given */
    uint64_t n_tokens, n_tokens_max; /* of a prompt that is too long; 0: none */
} protocol_error;

/* Fill *e and return CERIUM_ERR_ARGUMENT, so that a failing function can end with it. */
int protocol_error_set(protocol_error *e, int http_status, const char *type, const char *code,
                       const char *param, const char *format, ...)
    __attribute__((format(printf, 6, 7)));
/* The same for 500, out of memory, */
int protocol_error_memory(protocol_error *e);
/* and for 503, "too many WHAT; please try again in 1s". */
int protocol_error_overloaded(protocol_error *e, const char *what);

/* For PROTOCOL_EDITS: its texts belong to the request. */
typedef struct {
    next_edit_form form;
    next_edit_place place;
    next_edit_prompt prompt; /* owned */
    const char *why;
    next_edit_change changes[NEXT_EDIT_CHANGES_MAX];
    next_edit_snippet snippets[NEXT_EDIT_SNIPPETS_MAX];
} next_edit_order;

typedef struct {
    protocol_api api;
    json_t *root;                     /* owned; all strings below are in it or in texts */
    bool cancel;                      /* a message response.cancel: only the ids below are set */
    const char *response_id;          /* of the response to cancel; NULL: the lane's current one */
    const char *model;                /* NULL = the server's own */
    const char *previous_response_id; /* or NULL */
    const char *stream_id;            /* lane, checked: 1..256 of [A-Za-z0-9_.-]; or NULL */
    const char *prompt_cache_key;     /* or NULL */
    const char *service_tier;         /* as requested, or NULL */
    bool stream;                      /* events, not one object */
    bool include_usage;               /* Chat and Completions: add a last chunk with usage */
    bool return_progress;             /* Chat, Completions, infill: the prompt's progress, in
                                         separate chunks */
    bool embeds;                      /* vectors of its prompts are requested, not text */
    bool as_base64;                   /* vectors as little-endian floats in base64 */
    bool background;                  /* continues without its client; is stored */
    bool store;                       /* keep the response: default true for Responses */
    bool warm_up;                     /* generate:false, or n_predict 0: prompt only */
    bool truncate;                    /* truncation:"auto": drop the oldest items that do not fit */
    cerium_class class_;              /* by api and service_tier; see protocol_request_parse */

    /* Responses, Chat, Compact: the conversation.  Responses' items as received, a string as one
     * message item; instructions come first as a message but are not among the items. */
    bool talks;                       /* a conversation; else prompts are continued */
    json_t *items;                    /* array, borrowed from root; NULL for the other APIs */
    json_t *found;                    /* owned array: items that item_references named, or NULL */
    bool compacts;                    /* Compact, or Responses whose last item asks for it: the
                                         messages end with the instruction to sum up */
    cerium_message *messages;         /* [n_messages] owned array */
    size_t n_messages;
    int32_t *message_item;            /* [n_messages] owned: index in items, or -1 (instructions) */
    const cerium_tool *tools;         /* [n_tools] borrowed from tool_set; namespaces flattened
                                         "ns__name" */
    size_t n_tools;
    struct protocol_tools *tool_set;  /* owned reference, private: the parsed tools */
    bool tools_barred;                /* tool_choice:"none" */
    bool call_required;               /* "required", or a tool by its name: the answer calls one */
    bool one_call;                    /* parallel_tool_calls:false: the answer ends with a call */
    bool *callable;                   /* [n_tools] owned: which may be called; NULL: all */
    bool legacy_functions;            /* Chat: `functions` in place of `tools` */
    json_t *schema;                   /* the answer must match it: text.format, response_format;
                                         borrowed from root; NULL: no schema */
    bool is_strict;                   /* a schema that cannot be enforced is an error */
    bool wants_object;                /* without a schema: any JSON object */
    struct {
        const char *syntax;           /* "gbnf", "lark" or "regex" */
        const char *text;             /* NULL: none */
    } grammar;                        /* the answer is a text of that grammar */
    const char *shape_field;          /* field of the grammar or schema; NULL: the API's usual
                                       * one */
    const char *prefill;              /* the answer begins with it, without repeating it; NULL */
    bool no_opening;                  /* add_generation_prompt:false: continue the prompt
                                       * unchanged */
    enum {
        PROTOCOL_THINK_DEFAULT = 0,   /* as the model chooses */
        PROTOCOL_THINK_ON,
        PROTOCOL_THINK_OFF,
    } think;
    uint32_t thought_tokens_max;      /* then its thought is closed; UINT32_MAX: no budget */
    bool hides_thoughts;              /* Messages: show neither thoughts nor that there are any */
    bool opaque_reasoning;            /* Responses: items of reasoning carry encrypted_content */
    char *template_variables;         /* owned JSON object, or NULL: chat_template_kwargs,
                                         enable_thinking and reasoning_effort */
    bool image_dropped;               /* it had an image: the messages say so to the model */

    /* Completions and infill. */
    const char **prompts;             /* [n_prompts] owned array of borrowed strings */
    size_t *prompt_lens;              /* [n_prompts] owned */
    const int32_t **prompt_tokens;    /* [n_prompts] owned array: ids in place of text, or NULL */
    size_t *prompt_n_tokens;          /* [n_prompts] owned */
    const json_t *mixed_prompt;       /* texts and ids that are one prompt, the only one; or NULL */
    size_t n_prompts;
    bool echo;                        /* Completions: the answer repeats the prompt */
    bool whole_tokens;                /* token_healing:false: the answer begins after the last
                                         token of the text, not within one */
    bool fill_in;                     /* suffix is given, or it is infill */
    bool ends_hole;                   /* fill-in text ends where the hole does (infill_stop.h) */
    const char *loads;                /* Ollama: an empty request; "load" or "unload" */
    bool keeps_model;                 /* Ollama: keep_alive was given: */
    int64_t keep_model_s;             /* the model is unloaded after so long idle; -1: never */
    cerium_infill infill;             /* files: owned array of borrowed strings; for Completions
                                         only the suffix is set, each prompt is a prefix */
    const char *document;             /* identity of the document, for dropping stale requests:
                                         infill's id_slot or filename, or `user`; or NULL */
    next_edit_order *edits;           /* owned; of PROTOCOL_EDITS alone */
    bool beyond_block;                /* infill's one_block is false: only the model ends it */
    uint32_t indent_min;              /* infill's n_indent */
    uint32_t prompt_ms_max, predict_ms_max; /* infill's t_max_*: 0 = no limit */
    double confidence_min;            /* min_confidence: a completion less probable than this is not
                                         shown; 0 = all are */

    const char *prediction;           /* Chat: [prediction_len], or NULL */
    size_t prediction_len;

    cerium_sampling sampling;         /* server defaults for missing fields */
    const char *stops[CERIUM_STOPS_MAX];
    uint32_t new_tokens_max;          /* UINT32_MAX if not given: no cap of our own */
    uint32_t top_logprobs;
    uint32_t n_choices;               /* answers to each prompt: Chat and Completions `n`,
                                         Completions' `best_of`, or `candidates` of a hole;
                                         1..64 */
    bool candidates;                  /* of a hole: the other choices are branches of the first */
    uint32_t n_best;                  /* of those, how many the client gets, the likeliest: `n` */
    cerium_logit_bias *biases;        /* [sampling.n_biases] owned: logit_bias */
    bytes warnings;                   /* owned: ignored fields of the request, as objects of JSON,
                                         comma-separated; see protocol_warn() */
    const char *inline_id;            /* the id of a message completion.create; the answer's events
                                         carry it; or NULL */
    bool guard_ends;                  /* `cerium_guard_end`: an answer that the watchdog ends is
                                         incomplete, without last words */
    bool wants_record;                /* `cerium_digest`: "record"; sampling.digest is set by true,
                                       * too */
    const char *guard;                /* `cerium_guard`: "block", "sql=block,tls=warn"; or NULL */
    struct protocol_text *texts;      /* owned, private: strings made while parsing */
} protocol_request;

/* Tools of earlier requests: clients send the same 20 kB with each, and parsing them costs more
 * than all else.  Shared by requests on any thread.  A client that must not learn from timing what
 * others sent gets a separate cache. */
typedef struct protocol_cache protocol_cache;
CERIUM_CHECKED int protocol_cache_open(protocol_cache **out);
/* One more reference to close; accepts NULL.  Returns the cache. */
protocol_cache *protocol_cache_hold(protocol_cache *cache);
void protocol_cache_close(protocol_cache **cache); /* requests may outlive it */

/* The server's values for fields that a client does not give. */
typedef struct {
    cerium_sampling sampling;
    bool has_chat_form;
    bool guard_ends;                  /* if a request does not give it */
    uint32_t n_embedding;             /* numbers of an embedding; 0: the model makes none */
    bool is_socket;                   /* received over a WebSocket */
    bool counts;                      /* only count the request's tokens, sample none */
    next_edit_form edit_form;         /* the form in which the model predicts edits */
    bool fills_in;                    /* the model can fill in the middle, */
    float pointer;                    /* with this value of cerium_sampling.pointer */
    double confidence_min;            /* of fill-in completions */
    /* Returns the item of an item_reference, as a reference that the request takes; NULL: unknown.
     * The function itself may be NULL. */
    json_t *(*find_item)(void *user, const char *id);
    void *user;
    protocol_cache *cache;            /* or NULL */
} protocol_defaults;

/* The JSON of a request, parsed once for any kind of request. */
typedef struct {
    json_t *root;                     /* an object, owned */
    struct protocol_tools *tool_set;  /* its tools if cached; owned reference, or NULL */
    view raw_tools;                   /* or their text within the body: private */
} protocol_body;

/* Bounded JSON; repairs the escapes that JavaScript makes of text cut inside a character.  Cached
 * tools are not parsed again. text: bytes from outside, borrowed as long as the body exists
 * CERIUM_ERR_ARGUMENT (see *error) or CERIUM_ERR_MEMORY. */
CERIUM_CHECKED int protocol_body_load(protocol_body *out, protocol_api api, view text,
                                      const protocol_defaults *defaults, protocol_error *error);
void protocol_body_free(protocol_body *body);
/* protocol_request_parse() of a body, which is taken, also on error. */
CERIUM_CHECKED int protocol_body_parse(protocol_request **out, protocol_api api,
                                       protocol_body *body, const protocol_defaults *defaults,
                                       protocol_error *error);

/* Completion while typing: a message completion.create, as a request of PROTOCOL_INFILL with
 * inline_id.  The body is taken, also on error. */
CERIUM_CHECKED int protocol_inline_parse(protocol_request **out, protocol_body *body,
                                         const protocol_defaults *defaults, protocol_error *error);
/* The id of that message, or of completion.cancel; borrowed; NULL: no valid one. */
const char *protocol_inline_id(const protocol_body *body);
/* The event of an error; id: NULL or "" = none. */
CERIUM_CHECKED int protocol_inline_error(bytes *out, const protocol_error *error, const char *id);

/* Read a request.
 *   body:   bytes from outside; a WebSocket message with "type" is taken as it is
 *   *out:   owned, release with protocol_request_free(); untouched on error
 *   *error: filled on error, with the offending field as param
 * Unknown fields are named in a warning, unknown tool types are ignored; a known field of the wrong
 * type is an error.  An image becomes a note to the model.  class_: COMPLETION for infill and
 * Completions, TURN for Responses and Chat, EDIT for those with service_tier "priority" or "fast",
 * BATCH for "flex" and "batch".  Linear time; fuzzed.
 * CERIUM_ERR_ARGUMENT (see *error) or CERIUM_ERR_MEMORY. */
CERIUM_CHECKED int protocol_request_parse(protocol_request **out, protocol_api api, view body,
                                          const protocol_defaults *defaults, protocol_error *error);
/* Does the value of x-codex-turn-metadata say that no user waits for the answer?  So for titles,
 * summaries and other requests that Codex makes beside the user's. */
/* An ignored field of the request, and the reason: reported in the answer, as
 * "cerium":{"warnings":[{"param": ..., "message": ...}]}.  After some dozens no more are listed. */
void protocol_warn(protocol_request *request, const char *param, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
bool protocol_is_side_request(view metadata);
/* A part of the answer that is put into its prompt before the prefill: an empty thought.  A static
 * text. */
view protocol_answer_head(const protocol_request *request, const char *chat_form);
/* Does the prompt of a form that opens a thought close it again? */
bool protocol_ends_thought(const protocol_request *request, const char *chat_form);
/* The end of a thought in the model's form; again: the model began another one after that.  A
 * static text. */
view protocol_thought_end(const protocol_request *request, const char *call_form, bool again);
/* Ollama's answer to an empty request; now: seconds since 1970. */
CERIUM_CHECKED int protocol_ollama_load_body(bytes *out, const protocol_request *request,
                                             const char *model, int64_t now);
void protocol_request_free(protocol_request **request);

/* A result of a tool names its call by an id.  If the call is in an earlier response, the message
 * has no name until it is found among those items; the chain may be walked back call by call.
 * name_orphans() ends the search: results without a call are named "tool".  Without
 * previous_response_id the search has ended already. */
CERIUM_CHECKED int protocol_request_name_results(protocol_request *request, const json_t *items);
void protocol_request_name_orphans(protocol_request *request);
/* The same, but a result in Responses without its call is an error. */
CERIUM_CHECKED int protocol_request_check_results(protocol_request *request,
                                                  protocol_error *error);

/* ---- answers ---- */

/* One complete event: name is the SSE event name (NULL for Chat and Completions, which have none),
 * json its data.  json NULL: a keepalive that is not an event, in SSE a comment, with name as its
 * text. */
typedef void protocol_emit_fn(void *user, const char *name, const char *json, size_t len);

typedef struct {
    uint32_t input_tokens, cached_tokens, output_tokens, reasoning_tokens;
    uint32_t accepted_tokens, rejected_tokens; /* of a prediction */
    uint64_t prompt_ns, predict_ns, queue_ns;
    uint64_t first_ns;                         /* until the first token; 0: no token came */
    double logprob;                            /* of all output tokens together */
    const char *reason;                        /* reason of the end, where protocol_end has none:
                                                  inline completions' "superseded", "unsure"; or
                                                  NULL */
} protocol_usage;

typedef enum {
    PROTOCOL_END_STOP = 0,      /* the model ended, or a stop string occurred */
    PROTOCOL_END_LENGTH = 1,    /* the client's own cap */
    PROTOCOL_END_CONTEXT = 2,   /* the context is full */
    PROTOCOL_END_CANCELED = 3,
    PROTOCOL_END_FAILED = 4,    /* *error has the reason */
    PROTOCOL_END_GUARDED = 5,   /* the watchdog blocks the rest */
    PROTOCOL_END_STEERED = 6,   /* the client steers: see steer.h */
} protocol_end;

/* The progress of an answer's prompts, in tokens.  prompt_tokens 0: unknown. */
typedef struct {
    uint32_t prompt_tokens;
    uint32_t cached_tokens;     /* of them, found in the session or in the prefix cache */
    uint32_t done_tokens;       /* of them, with the cached: done */
    uint64_t prompt_ns;         /* since their computation began */
    const char *loading;        /* its model, while loading; NULL: it is loaded; and */
    uint64_t loaded_bytes, load_bytes; /* progress: of load_bytes, 0 = not known */
} protocol_progress;

/* One token of the answer for logprobs. */
typedef struct {
    view text;
    float logprob;
    const cerium_logprob *top; /* [n_top] */
    uint32_t n_top;
} protocol_token;

/* A finding of the watchdog, for an extension of the events; strings are borrowed. */
typedef struct protocol_finding {
    const char *deed;           /* "taken_back", "rewritten", ...: watch_action_name() */
    const char *weakness, *rule, *message, *idiom, *language;
    uint32_t cwe, line;
} protocol_finding;

typedef struct protocol_writer protocol_writer;

typedef struct {
    const protocol_request *request;     /* borrowed until the writer is freed */
    const char *id;                      /* "resp_...", "chatcmpl-...": of the whole answer */
    const char *model;                   /* the model's name in the answer */
    const char *chat_form;               /* cerium_engine_info.chat_form: how to parse the text */
    const char *served_tier;             /* service_tier of the answer, or NULL */
    int64_t created_at;                  /* seconds since 1970 */
    view (*token_text)(void *user, int32_t token); /* bytes of a token, for logprobs */
    protocol_emit_fn *emit;              /* NULL: only the whole object is requested */
    void *user;
} protocol_answer;

/* Begin an answer; nothing is emitted yet.  *out owned. */
CERIUM_CHECKED int protocol_writer_open(protocol_writer **out, const protocol_answer *answer);
void protocol_writer_free(protocol_writer **writer);

/* Set the prompt's tokens, for APIs that report them first; before begin(). */
void protocol_writer_input(protocol_writer *writer, uint32_t n_tokens);
/* response.created and response.in_progress, or the first chunk of each choice. */
int protocol_writer_begin(protocol_writer *writer);
/* In the background: a text of it no longer waits.  Sends response.in_progress, once. */
void protocol_writer_runs(protocol_writer *writer);
/* More text of a choice, whole UTF-8 characters, as sampled (with the names of control tokens).
 * tokens: [n_tokens] for logprobs, or NULL.  Emits only certain events: a call's item is done the
 * moment the call closes. */
int protocol_writer_text(protocol_writer *writer, uint32_t choice, view text,
                         const protocol_token *tokens, size_t n_tokens);
/* Is the answer complete though the model might continue?  So after the one call that
 * parallel_tool_calls allows, or a stop string.  Then end the choice with PROTOCOL_END_STOP. */
bool protocol_writer_enough(const protocol_writer *writer, uint32_t choice);
/* Is a thought of the choice open? */
bool protocol_writer_thinks(const protocol_writer *writer, uint32_t choice);
/* Does the writer look for the request's stop strings, only in text?  Else the engine does. */
bool protocol_writer_stops(const protocol_request *r);

/* The same with known kinds of text, from another server: no chat form is parsed. CALL has the
 * tool's name ("ns__name" in a namespace), ARGUMENTS more of its arguments. */
typedef enum {
    PROTOCOL_PART_TEXT = 0,
    PROTOCOL_PART_REASONING = 1,
    PROTOCOL_PART_CALL = 2,
    PROTOCOL_PART_ARGUMENTS = 3,
    PROTOCOL_PART_CALL_END = 4,
} protocol_part;
int protocol_writer_part(protocol_writer *writer, uint32_t choice, protocol_part part, view text);
/* A finding of the watchdog in the next or the last text.  Responses send it at once, as
 * response.cerium.finding; findings with a final action are kept for the whole object, and for the
 * last chunk of the other APIs, as "cerium":{"findings":[...]}. */
int protocol_writer_finding(protocol_writer *writer, uint32_t choice, const protocol_finding *f);
/* For a choice of a request with digests, before its last choice ends: the digest of its tokens, as
 * hexadecimal text, and its record, JSON.  Without either, why has the reason. record: len 0: not
 * requested, or missing; copied */
CERIUM_CHECKED int protocol_writer_digest(protocol_writer *writer, uint32_t choice,
                                          const char *digest, uint32_t n_tokens, view record,
                                          const char *why);
/* The embedding of a choice's prompt: [n], copied. */
CERIUM_CHECKED int protocol_writer_embedding(protocol_writer *writer, uint32_t choice,
                                             const float *numbers, uint32_t n);
/* The writer's own text at the end of a choice that the watchdog ended; none: len 0. */
view protocol_writer_verdict(const protocol_writer *writer, uint32_t choice);
/* A keepalive in the form that clients of the API count, between any two events after begin(): for
 * Responses the event `keepalive`, with the prompt's progress; for the others a comment. */
int protocol_writer_beat(protocol_writer *writer, const protocol_progress *p);
/* return_progress: a chunk with the prompt's progress, without text of the answer. */
int protocol_writer_progress(protocol_writer *writer, const protocol_progress *p);
/* End a choice; after the last one this sends the closing events: completed, incomplete or failed,
 * or the final chunks and for SSE of Chat and Completions "[DONE]".  error: for
 * PROTOCOL_END_FAILED. */
int protocol_writer_end(protocol_writer *writer, uint32_t choice, protocol_end end,
                        const protocol_usage *usage, const protocol_error *error);
/* The whole answer as one object, after the end (a Response, a chat completion, ...), or a response
 * in progress before it.  Returns owned. */
json_t *protocol_writer_object(const protocol_writer *writer);
/* The same as text, appended to *out; cheaper. */
CERIUM_CHECKED int protocol_writer_body(const protocol_writer *writer, bytes *out);
/* Responses: finished items of the output so far; borrowed until the next call on the writer.
 * NULL when memory runs out. */
json_t *protocol_writer_output(protocol_writer *writer);

/* ---- other bodies ---- */

/* {"error":{...}} for HTTP; over WebSocket {"type":"error","status":...,"error":{...}}, with
 * stream_id when it is not NULL.  Appends to *out. */
CERIUM_CHECKED int protocol_error_body(bytes *out, const protocol_error *error);
/* In the form of errors for clients of a path.  request_id: or NULL. */
typedef enum {
    PROTOCOL_FORM_OPENAI = 0,
    PROTOCOL_FORM_MESSAGES = 1, /* Anthropic's; its message begins with the path of the field */
    PROTOCOL_FORM_OLLAMA = 2,   /* {"error":"text"} */
} protocol_form;
CERIUM_CHECKED int protocol_error_body_as(bytes *out, protocol_form form,
                                          const protocol_error *error, const char *request_id);
/* The HTTP status of the error: Messages have 529 where others have 503. */
int protocol_error_status(protocol_form form, const protocol_error *error);
CERIUM_CHECKED int protocol_error_event(bytes *out, const protocol_error *error,
                                        const char *stream_id);

/* GET /v1/models: OpenAI's "data" and Codex's "models" in one body. */
typedef struct {
    const char *id;             /* the model's name in requests */
    const char *display_name;
    uint32_t context_tokens;
    int64_t created_at;
    bool chats, fills_in;
    bool completes_only; /* it is not a chat model, even if it has a chat form */
    double confidence_min;    /* completions of holes below it are not shown unasked; 0: all are */
    double pointer;           /* of completions of holes, see cerium_sampling */
    const char *edit_form;    /* form of predicted edits; "" or NULL: none */
    const char *chat_form;    /* the model's own template; "" or NULL: none */
    const char *chat_refusal; /* why its chat template cannot be run; "" or NULL: it can */
    const char *state;        /* "loaded", "loading", "unloaded"; NULL: not reported */
    uint64_t n_bytes;         /* memory that it takes, with state; */
    uint64_t done_bytes, total_bytes; /* of a load; total 0: none is running */
    const char *failure;      /* why loading failed, or NULL */
    const char *aliases[SERVER_MODEL_NAMES_MAX]; /* [n_aliases] its other names */
    uint32_t n_aliases;
} protocol_model;
/* One model, under the name used in the request. */
CERIUM_CHECKED int protocol_model_body(bytes *out, const protocol_model *model, const char *id);
CERIUM_CHECKED int protocol_models_body(bytes *out, const protocol_model *models, size_t n);

#endif
