/* writer.h - shared by the writers of all APIs: choices, pieces of answers, one event buffer.
 *
 * writer_open.c opens and closes them.  writer.c reads the model's text and cuts it into pieces (a
 * text, a thought, a call), each opened, continued and closed; a writer_api turns these into the
 * events of its API.  Private to protocol/. */
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
    size_t sent;                       /* bytes of it already emitted */
    bytes call_name;                   /* its text from the model, for an open call */
    const struct protocol_tool *tool;  /* of an open call; NULL: the client has no such tool */
    char call_id[128];
    uint32_t n_calls;
    uint32_t n_whole;                  /* complete calls */
    bool enough;                       /* the only allowed call is complete */
    bytes verdict;                     /* the text sent when the watchdog ends the answer */
    bool sent_verdict;                 /* it was sent */
    stop_state stop;                   /* without a reader */
    const char *stopped_by;            /* the stop string that occurred; NULL: none */
    json_out head;                    /* first half of the events of the open piece */
    /* Chat and Completions: the whole message. */
    bytes content, thought;
    json_out calls;                   /* elements of tool_calls */
    json_out logprobs;                /* Chat: of the whole message */
    token_queue tokens;
    legacy_logprobs legacy;            /* Completions */
    bool ended;
    protocol_end end;
    json_out digest;                   /* an element of usage.cerium_digests */
    double score;                      /* mean log-probability of its tokens, and */
    double logprob;                    /* that of all of them */
} writer_choice;

/* Is the call that is open one of a custom tool? */
static inline bool writer_calls_custom(const writer_choice *c)
{
    return c->tool && c->tool->kind == PROTOCOL_TOOL_CUSTOM;
}

/* NULL: nothing to do; body is always set. */
typedef struct {
    void (*begin)(protocol_writer *w);
    /* It no longer waits. */
    void (*runs)(protocol_writer *w);
    void (*open)(protocol_writer *w, writer_choice *c);
    void (*delta)(protocol_writer *w, writer_choice *c, view text);
    /* whole: it was not cut off. */
    void (*close)(protocol_writer *w, writer_choice *c, bool whole);
    void (*end_choice)(protocol_writer *w, writer_choice *c);
    void (*end)(protocol_writer *w);
    /* Sent at once, for each action. */
    void (*finding)(protocol_writer *w, writer_choice *c, const protocol_finding *f);
    void (*body)(const protocol_writer *w, json_out *out);
    /* A keepalive in the form that its clients count. */
    void (*beat)(protocol_writer *w, const protocol_progress *p);
    /* A chunk of return_progress. */
    void (*progress)(protocol_writer *w, const protocol_progress *p);
} writer_api;

struct protocol_writer {
    const protocol_request *r;
    protocol_answer answer;  /* its strings are owned, except chat_form */
    const char *suffix;      /* of the id: its own part */
    const writer_api *api;
    json_out event;         /* reused for each event */
    json_out echo;          /* Responses: fields that never change */
    json_out items;         /* Responses: finished items, comma-separated */
    json_out findings;      /* of the watchdog, comma-separated */
    json_out item;          /* the one being finished */
    json_t *output;          /* items as values, made on request */
    size_t output_bytes;     /* items.b.len when they were made */
    uint64_t sequence;
    uint32_t n_items;
    writer_choice *choices;  /* [n_choices] */
    uint32_t n_choices, n_ended;
    uint32_t reasoning_tokens; /* counted here: a call of protocol_writer_text counts as a token */
    bool has_logprobs;
    size_t steered_from;     /* of the open piece: its text when a steer arrived */
    uint32_t input_tokens;   /* of the prompt, as far as known before the end */
    bool runs;               /* no text waits for a place; used in the background */
    int status;              /* the first failure; later writes are dropped */
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

/* verdict.c: notes what a finding means for the reader; verdict_words() makes the answer's last
 * words after its open piece; verdict_is_sent(): does this answer get them? */
CERIUM_CHECKED int verdict_note(writer_choice *c, const protocol_finding *f);
bool verdict_is_sent(const protocol_writer *w, const writer_choice *c, protocol_end end);
CERIUM_CHECKED int verdict_words(const writer_choice *c, bytes *out);
/* Does a text end within a fence? */
bool writer_in_fence(view text);

/* ,"cerium":{"findings":[...],"warnings":[...]} when there are any of either. */
void put_findings(const protocol_writer *w, json_out *t);
/* ,"cerium_digests":[{"digest":...},...] of usage, if the request has digests. */
void put_digests(const protocol_writer *w, json_out *t);
/* ,"cerium":{...} of a keepalive: the prompt's progress, and the load of its model. */
void put_beat(json_out *t, const protocol_progress *p);
/* ,"candidates":[{"text":...,"confidence":...},...]: the other choices that have text, if the
 * request has candidates. */
void put_candidates(const protocol_writer *w, json_out *t);
/* A keepalive that is not an event. */
void beat_silent(protocol_writer *w, const protocol_progress *p);
/* "prompt_progress":{...}, as in llama.cpp. */
void put_progress(json_out *t, const protocol_progress *p);
/* ,"prompt_tokens":... and such: numbers with their names. */
void put_count(json_out *t, const char *name, uint64_t value);
/* Fields of a Response that never change, without braces, with a comma at the end. */
void response_echo(protocol_writer *w);
void put_token_usage(const protocol_writer *w, json_out *t);
/* A date in the form of RFC 3339, in quotes. */
void put_time(json_out *t, int64_t seconds);
/* "msg_..." for item number index. */
void item_id(const protocol_writer *w, const char *prefix, uint32_t index, char out[128]);

#endif
