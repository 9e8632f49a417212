/* writer.h - what the writers of all APIs share: choices, pieces of answers, one event buffer.
 *
 * writer.c reads the model's text and cuts it into pieces (a text, a thought, a call), each opened,
 * continued and closed; a writer_api turns those into the events of its API.  Private to
 * protocol/. */
#ifndef PROTOCOL_WRITER_H
#define PROTOCOL_WRITER_H

#include "base/stop.h"
#include "protocol/json_out.h"
#include "protocol/logprobs.h"
#include "protocol/parse.h"
#include "protocol/protocol.h"

typedef enum {
    PIECE_NONE = 0,
    PIECE_TEXT = 1,
    PIECE_REASONING = 2,
    PIECE_CALL = 3,
} piece_kind;

typedef struct {
    uint32_t index;
    cerium_reader *reader;                    /* NULL: all is text */
    piece_kind piece;                  /* that is open */
    piece_kind waiting;                /* blanks wait in blank for a piece of this kind */
    bytes blank;
    bytes text;                        /* of the open piece */
    size_t sent;                       /* bytes of it that were given out */
    bytes call_name;                   /* as the model said it, of an open call */
    const struct protocol_tool *tool;  /* of an open call; NULL: the client has no such tool */
    char call_id[128];
    uint32_t n_calls;
    uint32_t n_whole;                  /* calls that came to their end */
    bool enough;                       /* the one call that was wanted is whole */
    bytes verdict;                     /* what is sent where the watchdog ends the answer */
    bool told_verdict;                 /* it was */
    stop_state stop;                   /* without a reader */
    const char *stopped_by;            /* of the request's stop strings; NULL: none was said */
    json_out head;                    /* first half of the events of the open piece */
    /* Chat and Completions: the whole message. */
    bytes said, thought;
    json_out calls;                   /* elements of tool_calls */
    json_out logprobs;                /* Chat: of the whole message */
    token_queue tokens;
    legacy_logprobs legacy;            /* Completions */
    bool ended;
    protocol_end end;
    json_out digest;                   /* an element of usage.cerium_digests */
    double score;                      /* mean log-probability of its tokens */
} writer_choice;

/* Is the call that is open one of a custom tool? */
static inline bool writer_calls_custom(const writer_choice *c)
{
    return c->tool && c->tool->kind == PROTOCOL_TOOL_CUSTOM;
}

/* NULL: there is nothing to do; body is always there. */
typedef struct {
    void (*begin)(protocol_writer *w);
    /* It waits no longer. */
    void (*runs)(protocol_writer *w);
    void (*open)(protocol_writer *w, writer_choice *c);
    void (*delta)(protocol_writer *w, writer_choice *c, view text);
    /* whole: it came to its own end. */
    void (*close)(protocol_writer *w, writer_choice *c, bool whole);
    void (*end_choice)(protocol_writer *w, writer_choice *c);
    void (*end)(protocol_writer *w);
    /* At once, of each deed. */
    void (*finding)(protocol_writer *w, writer_choice *c, const protocol_finding *f);
    void (*body)(const protocol_writer *w, json_out *out);
    /* A sign of life, as its clients count it. */
    void (*beat)(protocol_writer *w, const protocol_progress *p);
    /* A chunk of return_progress. */
    void (*progress)(protocol_writer *w, const protocol_progress *p);
} writer_api;

struct protocol_writer {
    const protocol_request *r;
    protocol_answer answer;  /* its strings are owned, but for chat_form */
    const char *suffix;      /* of the id: what is its own */
    const writer_api *api;
    json_out event;         /* used for each event anew */
    json_out echo;          /* Responses: fields that never change */
    json_out items;         /* Responses: finished items, comma-separated */
    json_out findings;      /* of the watchdog, comma-separated */
    json_out item;          /* the one being finished */
    json_t *output;          /* items as values, made when asked for */
    size_t output_bytes;     /* items.b.len when it was made */
    uint64_t sequence;
    uint32_t n_items;
    writer_choice *choices;  /* [n_choices] */
    uint32_t n_choices, n_ended;
    uint32_t reasoning_tokens; /* counted here: a call of protocol_writer_text is a token */
    bool has_logprobs;
    size_t steered_from;     /* of the open piece: what was said when a steer came */
    uint32_t input_tokens;   /* of the prompt, as far as is known before the end */
    bool runs;               /* no text waits for a place; counts in the background */
    int status;              /* the first failure; nothing is written after it */
    protocol_usage usage;    /* of all choices */
    protocol_error error;    /* of PROTOCOL_END_FAILED */
};

extern const writer_api writer_responses, writer_compaction, writer_chat, writer_completions,
    writer_infill, writer_inline, writer_messages, writer_ollama, writer_embeddings,
    writer_edits;

/* Events: clear, write, send. */
json_out *event_begin(protocol_writer *w);
void event_send(protocol_writer *w, const char *name);
static inline bool writer_live(const protocol_writer *w) { return w->answer.emit && !w->status; }

/* verdict.c: what the finding means for who goes on from here, and that as the answer's last words
 * after its open piece; and where they are written. */
CERIUM_CHECKED int verdict_note(writer_choice *c, const protocol_finding *f);
bool verdict_is_told(const protocol_writer *w, const writer_choice *c, protocol_end end);
CERIUM_CHECKED int verdict_words(const writer_choice *c, bytes *out);
/* Whether a text ends within a fence. */
bool writer_in_fence(view text);

/* ,"cerium":{"findings":[...],"warnings":[...]} when there are any of either. */
void put_findings(const protocol_writer *w, json_out *t);
/* ,"cerium_digests":[{"digest":...},...] of usage, where the request wants them. */
void put_digests(const protocol_writer *w, json_out *t);
/* ,"cerium":{...} of a sign of life: how far the prompt is, and the load of its model. */
void put_beat(json_out *t, const protocol_progress *p);
/* A sign of life that is not an event. */
void beat_silent(protocol_writer *w, const protocol_progress *p);
/* "prompt_progress":{...}, as llama.cpp has it. */
void put_progress(json_out *t, const protocol_progress *p);
/* ,"prompt_tokens":... and such: numbers with their names. */
void put_count(json_out *t, const char *name, uint64_t value);
/* Fields of a Response that stay as they are, without braces, with a comma at the end. */
void response_echo(protocol_writer *w);
void put_token_usage(const protocol_writer *w, json_out *t);
/* A date as RFC 3339 has it, in quotes. */
void put_time(json_out *t, int64_t seconds);
/* "msg_..." for item number index. */
void item_id(const protocol_writer *w, const char *prefix, uint32_t index, char out[128]);

#endif
