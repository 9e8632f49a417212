/* honest.h - `cerium bench --honest`: the same tasks by a fast model and a deep one, each answer
 * judged by the task's tests, and asked again when they fail: how fast tokens come, and how long it
 * takes until the work is done.
 *
 * Both are models of a server, so what is measured is what a client of it gets. */
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
    uint32_t n_tries;                 /* of a task at most */
    bool json;
} honest;

/* Measure, and print the figures.  CERIUM_ERR_ARGUMENT: a model that is not there. */
CERIUM_CHECKED int honest_run(const honest *h, cerium_error *err);

/* ---- honest_task.c ---- */

/* A function of a file that is wrong, or has a hole. */
typedef struct {
    json_t *root;        /* owned; the rest is borrowed from it */
    const char *id, *language, *file;
    view source, tests;
    size_t begin, end;   /* of source: what is wrong, or where something is missing */
} honest_task;

/* A line of a set of tasks.  CERIUM_ERR_FORMAT: what of it is not as it should be.  Fuzzed. */
CERIUM_CHECKED int honest_task_read(honest_task *out, view line, cerium_error *err);
void honest_task_free(honest_task *t);

/* ---- honest_stream.c ---- */

enum { HONEST_ANSWER_BYTES_MAX = 4 << 20 }; /* of text, and of a line */

/* One answer, as it came. */
typedef struct {
    bytes text;
    uint64_t n_tokens; /* as the server counts */
    uint64_t ns;       /* until it was whole, since it was asked for */
    bool was_cut;      /* it had no room for more */
    char why[400];     /* it was refused, and why; "": it was not */
} honest_answer;

typedef struct {
    honest_answer *answer; /* that is read, borrowed; NULL: what comes is kept as it is */
    bytes line;            /* not yet whole; or what is no stream */
} honest_stream;

/* Any bytes, cut anywhere.  Fuzzed.  CERIUM_ERR_CAPACITY, CERIUM_ERR_MEMORY. */
CERIUM_CHECKED int honest_stream_feed(honest_stream *s, view data);

/* ---- honest_ask.c ---- */

typedef struct honest_server honest_server;

/* CERIUM_ERR_ARGUMENT: no address. */
CERIUM_CHECKED int honest_server_open(honest_server **out, const char *url, cerium_error *err);
void honest_server_close(honest_server **s);
/* Has it that model?  *chats: it was made to.  CERIUM_ERR_ARGUMENT: none of that name. */
CERIUM_CHECKED int honest_server_model(honest_server *s, const char *model, bool *chats,
                                       cerium_error *err);
/* POST body, whose answer is streamed.  CERIUM_ERR_IO: nobody answers. */
CERIUM_CHECKED int honest_server_ask(honest_server *s, const char *route, const json_t *body,
                                     honest_answer *out, cerium_error *err);

#endif
