/* honest.h - `cerium bench --honest`: the same tasks by a fast model and a deep one.  The task's
 * tests judge each answer; it is asked again when they fail.  Measures tokens a second, and the
 * time until the task is solved.
 *
 * Both are models of a server, so the figures are those of its clients. */
#ifndef PROGRAMS_HONEST_H
#define PROGRAMS_HONEST_H

#include <jansson.h>

#include "base/memory.h"

#define HONEST_URL "http://127.0.0.1:8383"
enum { HONEST_TIERS = 2, HONEST_TRIES_MAX = 64 };

typedef struct {
    const char *path;                 /* tasks, one JSON object a line */
    const char *server;               /* its address */
    const char *models[HONEST_TIERS]; /* the fast one, the deep one */
    uint32_t n_tries;                 /* most of a task */
    bool json;
} honest;

/* Measure, and print the figures.  CERIUM_ERR_ARGUMENT: the server has no such model. */
CERIUM_CHECKED int honest_run(const honest *h, cerium_error *err);

/* ---- honest_task.c ---- */

/* A task: a function of a file that is wrong or has a hole. */
typedef struct {
    json_t *root;        /* owned; the rest is borrowed from it */
    const char *id, *language, *file;
    view source, tests;
    size_t begin, end;   /* of source: the wrong or missing part */
} honest_task;

/* Read a line of a set of tasks.  CERIUM_ERR_FORMAT: names what is wrong.  Fuzzed. */
CERIUM_CHECKED int honest_task_read(honest_task *out, view line, cerium_error *err);
void honest_task_free(honest_task *t);

/* ---- honest_stream.c ---- */

enum { HONEST_ANSWER_BYTES_MAX = 4 << 20 }; /* of text, and of a line */

/* One answer, as received. */
typedef struct {
    bytes text;
    uint64_t n_tokens; /* as counted by the server */
    uint64_t ns;       /* from the request to the whole answer */
    bool was_cut;      /* it reached its token limit */
    char why[400];     /* the reason of a refusal; "": it was not refused */
} honest_answer;

typedef struct {
    honest_answer *answer; /* current one, borrowed; NULL: the body is kept as it is */
    bytes line;            /* an incomplete line; or a body that is not a stream */
} honest_stream;

/* Feed arbitrary bytes, split anywhere.  Fuzzed.  CERIUM_ERR_CAPACITY, CERIUM_ERR_MEMORY. */
CERIUM_CHECKED int honest_stream_feed(honest_stream *s, view data);

/* ---- honest_ask.c ---- */

typedef struct honest_server honest_server;

/* CERIUM_ERR_ARGUMENT: not an address. */
CERIUM_CHECKED int honest_server_open(honest_server **out, const char *url, cerium_error *err);
void honest_server_close(honest_server **s);
/* Does the server have that model?  *chats: it is a chat model.  CERIUM_ERR_ARGUMENT: no such
 * name. */
CERIUM_CHECKED int honest_server_model(honest_server *s, const char *model, bool *chats,
                                       cerium_error *err);
/* POST a body whose answer is streamed.  CERIUM_ERR_IO: no server answers. */
CERIUM_CHECKED int honest_server_ask(honest_server *s, const char *route, const json_t *body,
                                     honest_answer *out, cerium_error *err);

#endif
