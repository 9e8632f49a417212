/* parse.h - shared by the readers of requests: places of values, typed fields, made strings.
 *
 * Every function returns 0, CERIUM_ERR_ARGUMENT with *error filled in the API's own words, or
 * CERIUM_ERR_MEMORY.  Private to protocol/. */
#ifndef PROTOCOL_PARSE_H
#define PROTOCOL_PARSE_H

#include <stdatomic.h>

#include "base/limits.h"
#include "protocol/json_out.h"
#include "protocol/protocol.h"

/* A path such as "input[3].content[0].text", innermost part first; on the stack. */
typedef struct place {
    const struct place *up;
    const char *key; /* NULL: an element of an array */
    size_t index;
} place;

struct protocol_text {
    struct protocol_text *next;
    char chars[]; /* NUL-terminated */
};

/* The form of tools in an API. */
typedef enum {
    TOOLS_FLAT = 0,   /* Responses: {"type": "function", "name": ...} */
    TOOLS_NESTED = 1, /* Chat, Ollama: {"type": "function", "function": {"name": ...}} */
    TOOLS_INPUT = 2,  /* Messages: {"name": ..., "input_schema": ...} */
} tools_style;

typedef enum {
    PROTOCOL_TOOL_FUNCTION = 0,
    PROTOCOL_TOOL_CUSTOM = 1,
} protocol_tool_kind;

struct protocol_tool {
    protocol_tool_kind kind;
    const char *space; /* namespace, or NULL */
    const char *name;  /* the name without it */
    bool strict;         /* a function's arguments match its schema, or the request is refused */
    atomic_bool loose;   /* not strict, and its schema has no grammar: any object */
    const json_t *schema; /* of a function's arguments; NULL: any object */
    const char *syntax;  /* of a custom tool's grammar: "lark" or "regex"; NULL: any text */
    const char *grammar; /* its definition */
};

/* The parsed `tools` of a request: shared by requests with the same bytes, on any thread.  After
 * parsing only n_refs and `loose` change. */
struct protocol_tools {
    _Atomic size_t n_refs;
    tools_style style;
    bytes raw;                   /* JSON as received; empty unless it is to be cached */
    json_t *json;                /* the array; the members below borrow from it; NULL: no tools */
    cerium_tool *list;           /* [n] */
    struct protocol_tool *facts; /* [n] */
    json_t *names;               /* name in list -> its index */
    size_t n, cap;
    struct protocol_text *texts;
    json_out echo;              /* the array, as shown in a Response */
};

typedef struct {
    protocol_request *r; /* under construction */
    const protocol_defaults *defaults;
    protocol_error *error;
    json_t *root;     /* borrowed from r */
    const place *sampling_at; /* the object with the fields of root: Ollama's `options` */
    size_t messages_cap;
    struct protocol_text **texts; /* owner of made strings: the request, or its tools */
    json_t *calls;    /* owned: id of a call -> index of its message */
    view raw_tools;   /* to be added to the cache */
} parser;

/* ---- errors ---- */

int parse_fail(parser *p, const place *at, const char *code, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
int parse_fail_type(parser *p, const place *at, const char *expected, const json_t *got);
int parse_fail_missing(parser *p, const place *at);
/* supported: "'a', 'b', and 'c'" */
int parse_fail_value(parser *p, const place *at, const char *got, const char *supported);
/* "max_tokens", "input[3].content" */
void place_print(const place *at, char *out, size_t size);

/* ---- fields: absent and null leave *out as it was ---- */

int field_string(parser *p, const place *up, const json_t *object, const char *key,
                 const char **out);
/* The same, but required, not empty and at most PROTOCOL_NAME_BYTES_MAX long. */
int field_name(parser *p, const place *up, const json_t *object, const char *key,
               const char **out);
int field_bool(parser *p, const place *up, const json_t *object, const char *key, bool *out);
int field_integer(parser *p, const place *up, const json_t *object, const char *key, int64_t min,
                  int64_t max, int64_t *out);
/* A bound; a value above the possible maximum means no bound. */
int field_bound(parser *p, const place *up, const json_t *object, const char *key, int64_t min,
                int64_t max, int64_t *out);
int field_number(parser *p, const place *up, const json_t *object, const char *key, double min,
                 double max, double *out);
int field_array(parser *p, const place *up, const json_t *object, const char *key, size_t max,
                json_t **out);
int field_object(parser *p, const place *up, const json_t *object, const char *key, json_t **out);
int expect_object(parser *p, const place *at, const json_t *value);

/* ---- strings that live as long as the request ---- */

/* A copy with U+FFFD in place of NULs, as content ends at one. */
int make_text(parser *p, view text, const char **out);
/* The string itself if it has no NUL. */
int string_text(parser *p, const json_t *string, const char **out);
int make_json(parser *p, const json_t *value, const char **out);

/* ---- messages ---- */

int message_add(parser *p, const cerium_message *message, int32_t item);
/* A string, or an array of parts joined to one text; parts that a text model cannot see become a
 * note. joint: inserted between parts of text. */
int content_text(parser *p, const place *at, const json_t *content, view joint, const char **out);
/* Add a call, remembered for its result. */
int call_add(parser *p, const cerium_message *call, int32_t item);
int result_add(parser *p, const char *call_id, const char *text, int32_t item);

/* ---- parts of requests ---- */

/* The tools of p->root, parsed unless the cache has them. */
int tools_parse(parser *p);
/* tool_choice, parallel_tool_calls and function_call, after the tools. */
int tool_choice_parse(parser *p);
void tools_release(struct protocol_tools **set);
struct protocol_tools *cache_find(protocol_cache *cache, tools_style style, view raw);
tools_style tools_style_of(protocol_api api);
void texts_free(struct protocol_text **texts);
/* The model's name for a tool. */
int tool_full_name(parser *p, const char *space, const char *name, const char **out);
/* warnings.c: logit_bias; and a warning for each ignored field. */
int bias_parse(parser *p);
void warn_of_unread(parser *p);
int answer_format_parse(parser *p); /* answer_format.c */
int thoughts_parse(parser *p);      /* thoughts.c */
enum { THOUGHT_BUDGETS = 5 };
extern const char *const thought_budgets[THOUGHT_BUDGETS]; /* its names in servers of Chat */
int messages_parse(parser *p);
int ollama_parse(parser *p);
int ollama_hoist(parser *p); /* before all others */
int llama_completion_parse(parser *p);
int embeddings_parse(parser *p); /* embedding_request.c */
/* The texts, or lists of tokens, of a field: at most n_max. */
int prompts_parse(parser *p, const char *key, size_t n_max);
int items_parse(parser *p);
int chat_parse(parser *p);
int completion_parse(parser *p);
/* One prompt, a text. */
int prompt_of(parser *p, const char *text);
int infill_parse(parser *p);
int edits_parse(parser *p); /* next_edit_request.c */

#endif
